/* SPDX-License-Identifier: Apache-2.0 */
/* link_seal.h - seals of data frames that go out: at once, or several of a transmit side by side.
 */
#ifndef UVCCI_LINK_SEAL_H
#define UVCCI_LINK_SEAL_H

#include "proto/link_state.h"

/* Frames of less than this are sealed and opened at once: to hand one over costs as much. */
#define UVCCI_SIDE_MIN_BYTES (16u << 10)

/* This frame may wait until the transmit's others are there. */
bool uvcci_seal_may_wait(const uvcc_link *l, const uvcci_seal *s);
/* Seals the piece where it stands, if there is a key, and writes the frame's CRC. 0 or
 * UVCC_ERR_CRYPTO: the piece is lost. */
int uvcci_seal_now(uvcci_seal *s);
/* It waits, until uvcci_seal_rest() or as many wait as can. The same errors. */
int uvcci_seal_later(uvcc_link *l, const uvcci_seal *s);
/* All that wait in the transmit that is being built. */
int uvcci_seal_rest(uvcc_link *l);

#endif
