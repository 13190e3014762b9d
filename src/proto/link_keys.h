/* SPDX-License-Identifier: Apache-2.0 */
/* link_keys.h - the keys of a sealed link: one for control frames of a run, one for data frames of
 * each step, epoch, source and destination, derived at first use from the step's chain value.
 *
 * What a key may be used for. AES-GCM stays below an advantage of 2^-60 of who tells ciphertext
 * from random bytes up to 2^34.5 blocks of 16 bytes under one key (2^24.5 records of 2^14 bytes,
 * RFC 9147, 4.5.3): an epoch has 2^18 frames, and a frame at most 2^16 blocks and a few. Forgeries:
 * 2^36 tries with records of 2^14 bytes give 2^-57 there; our frames are up to 2^6 times as long,
 * control frames 2^2 times, and their limits that much lower, and lower still. */
#ifndef UVCCI_LINK_KEYS_H
#define UVCCI_LINK_KEYS_H

#include "proto/link_state.h"

#define UVCCI_FORGED_MAX     (1u << 30) /* failed opens under the keys of a step */
#define UVCCI_FORGED_CTL_MAX UINT32_MAX /* and under a control key */

/* The step's keys can be derived: it is not over, and at most the next one. */
bool uvcci_link_has_key(const uvcc_link *l, uint32_t step);
/* The key of a step and seq, derived at first use; NULL if it cannot be. With tx the seq is used
 * under it. */
uvcci_aead *uvcci_link_key_of(uvcc_link *l, uint32_t step, uint64_t seq, bool tx);
/* An open failed under a key of `step`, or under the control key. At the limit the link is spent.
 */
void uvcci_keys_forged(uvcc_link *l, uint32_t step);
void uvcci_keys_forged_ctl(uvcc_link *l);
/* Wipes the keys of steps that are over, and what they could be derived from: `step` is the first
 * unfinished one. */
void uvcci_keys_expire(uvcc_link *l, uint32_t step);
/* Wipes the keys of steps; they are derived again at need. */
void uvcci_step_keys_free(uvcc_link *l);
/* Wipes all. */
void uvcci_keys_free(uvcc_link *l);

#endif
