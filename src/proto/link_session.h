/* SPDX-License-Identifier: Apache-2.0 */
/* link_session.h - what a session needs of a link besides the public calls. */
#ifndef UVCCI_LINK_SESSION_H
#define UVCCI_LINK_SESSION_H

#include <uvcc/link.h>

/* As uvcc_link_poll_hello(), which skips those that are `foreign`: unsealed, from this peer to us,
 * under another session's tag. They say why that peer is not heard, and nothing else. */
size_t uvcci_link_poll_hello(uvcc_link *l, uint8_t out[UVCC_HELLO_MAX_BYTES], bool *sealed,
                             bool *foreign);
/* A HELLO waits to be sent, or the rest of one. */
bool uvcci_link_hello_waits(const uvcc_link *l);

/* The member of a configuration that is out of its range, and the range; NULL: it can be used. */
const char *uvcci_link_config_fault(const uvcc_link_config *cfg);
/* The configuration of a link, defaults filled in. */
const uvcc_link_config *uvcci_link_config_of(const uvcc_link *l);

/* What a link's owner does with it at most: messages that it has there at a time in each direction,
 * bytes of those that it sends, of the longest. */
typedef struct uvcci_link_use {
    uint64_t tx_messages, rx_messages, tx_bytes;
} uvcci_link_use;
/* The memory of a link so used, by uvcc_mem_class; never more in all than the sum. */
void uvcci_link_bound(const uvcc_link *l, const uvcci_link_use *use, uint64_t by_class[4]);

/* Its owner sends no more than so many messages at a time: with the limits of their bytes that says
 * how many frames can be in flight, and so many seqs may lie above the cumulative acknowledgement.
 * Before anything is sent. */
void uvcci_link_expect(uvcc_link *l, uint64_t tx_messages);

/* After set_keys: a sealed HELLO that came before, if it is the peer's. */
void uvcci_link_take_early(uvcc_link *l);

/* What is left of bytes in several places. */
typedef struct uvcci_slices {
    const uvcc_slice *at;
    uint32_t count;
    size_t done; /* of the first */
} uvcci_slices;

/* What is left of the first place that has anything; 0: nothing is left. */
size_t uvcci_slices_run(uvcci_slices *s, const uint8_t **data);
/* uvcc_link_feed_slices() of some of what is left, at least a byte: its owner takes what became
 * whole before the rest comes. */
int uvcci_link_feed_some(uvcc_link *l, uvcci_slices *from, uint64_t now);
/* The bytes that uvcc_link_rx_buffer() offered last and where, if that still holds; else 0. */
size_t uvcci_link_offered(const uvcc_link *l, const uint8_t **at);

/* Who hears of nonces before they are used, of sealed frames that this end sends: with a name of
 * the key, which is a hash of it. */
typedef struct uvcci_link_names {
    void (*data)(void *user, const uvcc_link *l, uint32_t step, uint64_t key, uint64_t seq);
    void (*control)(void *user, const uvcc_link *l, uint64_t key, const uint8_t nonce[24]);
    void *user;
} uvcci_link_names;
/* Before keys are set. */
void uvcci_link_tell_names(uvcc_link *l, const uvcci_link_names *to);

/* What this link has used up, so that the run must end: a sentence; NULL: nothing. */
const char *uvcci_link_spent(const uvcc_link *l);
/* Nothing that was sent under `step` or before is unacknowledged or queued. */
bool uvcci_link_flushed(const uvcc_link *l, uint32_t step);
/* No message of that kind is unacknowledged or queued. */
bool uvcci_link_kind_acked(const uvcc_link *l, uint8_t kind);
/* Its owner is done: it asks neither for signs of life, nor whether messages were accepted, nor
 * what the path carries. What has not been received still goes again, and what comes is answered.
 */
void uvcci_link_rest(uvcc_link *l);
/* For tests: the next frame of either direction is number counter + 1. Both ends must do so, after
 * set_run and before anything is sent. */
void uvcci_link_skip_to(uvcc_link *l, uint64_t counter);

#endif
