/* SPDX-License-Identifier: Apache-2.0 */
/* link_scratch.h - the bytes of one transmit: headers, tags and short payloads are copied side by
 * side, long payloads are slices of their messages. */
#ifndef UVCCI_LINK_SCRATCH_H
#define UVCCI_LINK_SCRATCH_H

#include "proto/link_state.h"

/* An empty one with room for cap bytes; false without memory. */
bool uvcci_scratch_reserve(uvcc_link *l, size_t cap);
void uvcci_scratch_free(uvcc_link *l);
/* Bytes on offer; NULL has none. */
static inline size_t uvcci_scratch_left(const uvcci_scratch *s) {
    return s != NULL ? s->total : 0;
}
/* n bytes more, to be written by the caller; there must be room. */
uint8_t *uvcci_scratch_put(uvcci_scratch *s, size_t n);
/* A payload: copied if it is short, else a slice, so it must stay where it is. */
void uvcci_scratch_slice(uvcci_scratch *s, const uint8_t *data, size_t n);
/* Room for one more data frame: bytes of the packet (streams: any number) or 0. */
size_t uvcci_scratch_room(const uvcc_link *l);
/* The first bytes of what is on offer were taken. */
void uvcci_scratch_advance(uvcci_scratch *s, size_t bytes);

#endif
