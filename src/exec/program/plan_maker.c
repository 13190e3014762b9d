/* SPDX-License-Identifier: Apache-2.0 */
/* plan_maker.c - see plan_maker.h. */
#include "exec/program/plan_maker.h"

#include "exec/program/program_impl.h"

#include <assert.h>
#include <uvcc/frame.h>

uint8_t uvcci_plan_kind(uint8_t protocol) {
    switch (protocol) {
    case UVCCI_PROTO_INPUT:
        return UVCC_FRAME_INPUT_BATCH;
    case UVCCI_PROTO_RESHARE:
    case UVCCI_PROTO_CIRCUIT_HEAD:
    case UVCCI_PROTO_CIRCUIT_TOP:
    case UVCCI_PROTO_SR_OPEN:
    case UVCCI_PROTO_SR_SEND:
    case UVCCI_PROTO_SR2:
        return UVCC_FRAME_RESHARE_BATCH;
    case UVCCI_PROTO_KEYS:
        return UVCC_FRAME_KEYS_BATCH;
    case UVCCI_PROTO_LIFT_PARALLEL:
    case UVCCI_PROTO_LIFT_SEQUENTIAL:
    case UVCCI_PROTO_LIFT_EXCHANGE:
        return UVCC_FRAME_LIFT_BATCH;
    default:
        return UVCC_FRAME_OPEN_BATCH;
    }
}

uint8_t uvcci_plan_lift_protocol(uint8_t lift) {
    static const uint8_t protocols[] = {UVCCI_PROTO_LIFT_PARALLEL, UVCCI_PROTO_LIFT_SEQUENTIAL,
                                        UVCCI_PROTO_LIFT_EXCHANGE};
    return protocols[lift];
}

uvcci_plan_round *uvcci_draft_round(uvcci_draft *d, uvcci_plan_round *list, uint8_t *count,
                                    uint64_t elems, uint8_t turn) {
    if (d->plan->round_count + d->plan->key_count ==
        UVCCI_PLAN_ROUNDS + d->plan->beaver.tiles.count) {
        d->full = true;
        return &list[0];
    }
    uvcci_plan_round *r = &list[(*count)++];
    *r = (uvcci_plan_round){.turn = turn, .elems = elems, .blocks = uvcci_blocks(elems)};
    return r;
}

uvcci_plan_round *uvcci_draft_turn(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    uint8_t turn = plan->turns++;
    return uvcci_draft_round(d, d->rounds, &plan->round_count, plan->elems, turn);
}

uint8_t uvcci_draft_id(uvcci_draft *d, bool fss, uvcci_stream_name stream, uint16_t call,
                       bool per_block, uint32_t blocks) {
    if (d->plan->id_count == UVCCI_PLAN_IDS) {
        d->full = true;
        return 0;
    }
    d->id[d->plan->id_count] = (uvcci_plan_id){.fss = fss,
                                               .stream = (uint8_t)stream,
                                               .call = call,
                                               .per_block = per_block,
                                               .blocks = blocks};
    return d->plan->id_count++;
}

uvcci_plan_vec *uvcci_draft_vec(uvcci_draft *d, uvcci_plan_round *r, uvcci_protocol protocol,
                                uint8_t hop, uint8_t id, uint8_t bits) {
    if (r->vec_count == UVCCI_PLAN_VECS) {
        d->full = true;
        return &r->vec[0];
    }
    r->vec[r->vec_count] = (uvcci_plan_vec){
        .protocol = (uint8_t)protocol, .hop = hop, .id = id, .stream_round = r->turn, .bits = bits};
    return &r->vec[r->vec_count++];
}

void uvcci_draft_vector(uvcci_draft *d, uvcci_protocol protocol, uvcci_stream_name stream) {
    uint8_t id = protocol == UVCCI_PROTO_RESHARE
                     ? UVCCI_ID_TILE
                     : uvcci_draft_id(d, false, stream, 0, false, d->plan->blocks);
    uvcci_draft_vec(d, uvcci_draft_turn(d), protocol, 0, id, 64);
}

uint64_t uvcci_units_of_elements(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element) {
    *by_element = true;
    return p->tensors[d->out_count != 0 ? d->out[0] : d->in[0]].elems;
}
