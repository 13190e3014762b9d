/* SPDX-License-Identifier: Apache-2.0 */
/* dealing.h - keys dealt ahead: by the party that is OTHER on a gate's block, to HEAD and TAIL, as
 * soon as the step is agreed and the links have room. */
#ifndef UVCCI_DEALING_H
#define UVCCI_DEALING_H

#include "exec/runtime/builder.h"

/* A deal in the making: where its streams stand, per receiver. */
typedef struct uvcci_deal {
    uvcci_instance *r;
    uint8_t dst[2];
    size_t **at[2], total[2];
    uint32_t key_chunks;
} uvcci_deal;

/* Where the stream for HEAD or TAIL of a block goes, in a round of keys; NULL where this party is
 * not OTHER. For the ways' deal (op_way.h). */
uint8_t *uvcci_deal_stream(const uvcc_session *s, const uvcci_deal *d, unsigned group,
                           uint32_t block, uvcc_role role);

/* What an instance's deal takes of TENSOR memory until its job is done; and how much deals may take
 * together, but for one that takes more alone: what the links hold of keys. */
uint64_t uvcci_deal_takes(const uvcci_plan *plan);
uint64_t uvcci_deal_room(const uvcc_session *s);

/* Deals what can be dealt now. True if anything changed. */
bool uvcci_deal_advance(uvcc_session *s);
void uvcci_deal_job_done(uvcc_session *s, uvcci_instance *r);
/* Sends the keys whose turn has come: the step before is over. */
void uvcci_deal_ready(uvcc_session *s);
/* Drops what an op's deal holds. */
void uvcci_deal_free(uvcc_session *s, uvcci_instance *r);

#endif
