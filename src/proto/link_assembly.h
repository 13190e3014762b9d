/* SPDX-License-Identifier: Apache-2.0 */
/* link_assembly.h - messages that are being received: found by (kind, step, op id), with the ranges
 * of bytes that are there, until they are whole and wait for their owner. */
#ifndef UVCCI_LINK_ASSEMBLY_H
#define UVCCI_LINK_ASSEMBLY_H

#include "proto/link_state.h"

/* Where [first, end) stands among the ranges: joined on the left, on the right, or overlapping. */
typedef struct uvcci_range_slot {
    uint32_t at;
    bool left, right, overlap;
} uvcci_range_slot;

/* The message of a frame if it is in reassembly; those of one frame never are. */
uvcci_rx_msg *uvcci_assembly_find(const uvcc_link *l, const uvcc_frame_header *h);
/* The message that a frame begins, admitted and counted; NULL without memory. */
uvcci_rx_msg *uvcci_assembly_new(uvcc_link *l, const uvcc_frame_header *h);
/* All of it is there: to the end of the queue of its owner. seq: of the frame that completed it. */
void uvcci_assembly_whole(uvcc_link *l, uvcci_rx_msg *m, uint64_t seq);
void uvcci_assembly_free(uvcc_link *l, uvcci_rx_msg *m);

uvcci_range_slot uvcci_range_slot_of(uvcci_rx_msg *m, uint32_t first, uint32_t end);
/* False: it would make more ranges than the config or all arrays may hold; it comes again. */
bool uvcci_range_admissible(const uvcc_link *l, const uvcci_rx_msg *m, const uvcci_range_slot *s);
/* Memory that filling needs; false without it. */
bool uvcci_range_reserve(uvcc_link *l, uvcci_rx_msg *m, const uvcci_range_slot *s);
void uvcci_range_fill(uvcci_rx_msg *m, const uvcci_range_slot *s, uint32_t first, uint32_t end);

void uvcci_assembly_free_all(uvcc_link *l);
/* Gives back what no message needs. */
void uvcci_assembly_trim(uvcc_link *l);
uint64_t uvcci_assembly_bound(const uvcc_link *l);

#endif
