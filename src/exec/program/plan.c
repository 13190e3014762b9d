/* plan.c - plans of ops; see plan.h. */
#include "exec/program/plan_impl.h"
#include "exec/program/sks.h"

#include "proto/bytes.h"
#include "proto/sort.h"
#include <uvcc/frame.h>

uint8_t uvcci_plan_kind(uint8_t protocol) {
    switch (protocol) {
    case UVCCI_PROTO_INPUT:
        return UVCC_FRAME_INPUT_BATCH;
    case UVCCI_PROTO_RESHARE:
    case UVCCI_PROTO_CIRCUIT_HEAD:
    case UVCCI_PROTO_CIRCUIT_TOP:
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

static void layout_of(const uvcci_plan *plan, uint32_t count, uvcc_role role,
                      uvcc_key_layout *out) {
    uvcc_key_layout_of((uvcc_gate)plan->gate, plan->compact, plan->shift, plan->bits, count, role,
                       out);
}

static uint32_t key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count,
                          uvcc_role role) {
    if (plan->function != NULL)
        return (uint32_t)uvcci_fn_stream_bytes(plan->function, plan->fn,
                                               plan->fn->instr[r->vec[0].instr].width,
                                               role == UVCC_TAIL, count);
    uvcc_key_layout l;
    layout_of(plan, count, role, &l);
    return l.total_bytes;
}

uint32_t uvcci_plan_key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t block,
                              uvcc_role role) {
    return key_bytes(plan, r, uvcci_block_count(r->elems, block), role);
}

/* ---- rounds and their parts ---- */

/* Words of the longest message of a block in a round of a circuit. */
static uint32_t circuit_words_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint32_t most = 0;
    for (unsigned i = 0; i < 9; i++) {
        uint32_t words = uvcci_circuit_message_words(
            &plan->circuit, UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, r->turn, (uvcc_role)(i / 3),
            (uvcc_role)(i % 3), uvcci_block_count(r->elems, 0));
        most = words > most ? words : most;
    }
    return most;
}

static uint32_t circuit_pieces_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint32_t piece =
        uvcci_circuit_piece_words(&plan->circuit, r->turn, uvcci_block_count(r->elems, 0));
    return (circuit_words_max(plan, r) + piece - 1) / piece;
}

/* Bytes of a digest TLV, of which a part may carry one more per vector. */
enum { DIGEST_TLV_BYTES = 4 + 12 + 32 };

/* Bytes that a key stream takes in messages, at most. */
static uint64_t stream_bytes_max(uint64_t bytes) {
    return bytes + 24 * (bytes / UVCC_KEY_CHUNK_BYTES + 2);
}

/* Blocks of per_block bytes that a message of so many vectors has room for. */
static uint64_t blocks_of_part(uint64_t per_block, unsigned vectors) {
    return (UVCC_PART_BYTES - UVCC_BLV1_HEADER_BYTES - vectors * DIGEST_TLV_BYTES) / per_block;
}

bool uvcci_plan_keys_fit(uint64_t bytes) {
    return blocks_of_part(stream_bytes_max(bytes), 1) != 0;
}

/* Bytes that one block can add to a message of this round, at most. */
static uint64_t block_bytes_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint64_t sum = 0;
    uint32_t most = uvcci_block_count(r->elems, 0);
    if (plan->keyless)
        return circuit_words_max(plan, r) * 8ull + circuit_pieces_max(plan, r) * 24ull;
    for (unsigned v = 0; v < r->vec_count; v++) {
        if (r->vec[v].protocol == UVCCI_PROTO_KEYS) {
            sum += stream_bytes_max(key_bytes(plan, r, most, UVCC_TAIL));
        } else if (r->vec[v].protocol == UVCCI_PROTO_DIGEST_ALL) {
            sum += DIGEST_TLV_BYTES;
        } else {
            sum += (uint64_t)UVCC_BLOCK_ELEMS / 8 * r->vec[v].bits + 32;
        }
    }
    return sum;
}

/* Fixes kind, parts and batch numbers of a round. */
static int cut_round(uvcci_draft *d, uvcci_plan_round *r) {
    uvcci_plan *plan = d->plan;
    r->kind = uvcci_plan_kind(r->vec[0].protocol);
    uint64_t per_block = block_bytes_max(plan, r);
    const uint64_t beside = UVCC_BLV1_HEADER_BYTES + (uint64_t)r->vec_count * DIGEST_TLV_BYTES;
    r->part_blocks = (uint32_t)blocks_of_part(per_block, r->vec_count);
    if (r->part_blocks == 0)
        return UVCC_ERR_PROGRAM;
    uint32_t parts = (r->blocks + r->part_blocks - 1) / r->part_blocks;
    if (parts > UVCCI_PLAN_PARTS)
        return UVCC_ERR_PROGRAM;
    r->parts = (uint16_t)parts;
    r->b_base = d->bases[r->kind];
    d->bases[r->kind] = (uint16_t)(d->bases[r->kind] + parts);
    if (d->bases[r->kind] > plan->batches)
        plan->batches = d->bases[r->kind];
    uint64_t total = r->blocks * per_block;
    total += parts * (beside + 64);
    if (r->kind == UVCC_FRAME_KEYS_BATCH)
        plan->key_bytes_max += total;
    else
        plan->online_bytes_max += total;
    plan->messages_max += parts;
    return 0;
}

uvcci_plan_round *uvcci_draft_round(uvcci_draft *d, uvcci_plan_round *list, uint8_t *count,
                                    uint64_t elems, uint8_t turn) {
    if (d->plan->round_count + d->plan->key_count == UVCCI_PLAN_ROUNDS) {
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

/* ---- ops ---- */

/* One vector that is not opened to an edge. */
static void plan_vector(uvcci_draft *d, uvcci_protocol protocol, uvcci_stream_name stream) {
    uint8_t id = protocol == UVCCI_PROTO_RESHARE
                     ? UVCCI_ID_TILE0
                     : uvcci_draft_id(d, false, stream, 0, false, d->plan->blocks);
    uvcci_draft_vec(d, uvcci_draft_turn(d), protocol, 0, id, 64);
}

uint8_t uvcci_plan_lift_protocol(uint8_t lift) {
    static const uint8_t protocols[] = {UVCCI_PROTO_LIFT_PARALLEL, UVCCI_PROTO_LIFT_SEQUENTIAL,
                                        UVCCI_PROTO_LIFT_EXCHANGE};
    return protocols[lift];
}

/* Opening to the edge, comparison bit, lift(s): what truncation and ReLU share. */
static void plan_edge_gate(uvcci_draft *d, uvcci_protocol open, uvcci_stream_name stream, bool bit,
                           unsigned lifts) {
    uvcci_plan *plan = d->plan;
    uint32_t blocks = plan->blocks;
    plan->per_block_edge = true;
    uvcci_draft_id(d, true, stream, 0, true, blocks); /* UVCCI_ID_FSS0 */
    plan->open_round = (int8_t)plan->round_count;
    uvcci_draft_vec(d, uvcci_draft_turn(d), open, 0,
                    uvcci_draft_id(d, false, stream, 0, true, blocks), 64);
    if (bit) {
        plan->bit_round = (int8_t)plan->round_count;
        uvcci_draft_vec(d, uvcci_draft_turn(d), UVCCI_PROTO_OPEN2, 0,
                        uvcci_draft_id(d, false, UVCCI_STREAM_BIT, 0, true, blocks), 1);
    }
    uvcci_protocol lift = (uvcci_protocol)uvcci_plan_lift_protocol(plan->lift);
    plan->lift_round = (int8_t)plan->round_count;
    uint8_t second = lifts == 2 ? uvcci_draft_id(d, true, stream, 1, true, blocks) : UVCCI_ID_FSS0;
    for (uint8_t hop = 0; hop < uvcci_protocol_hops(lift); hop++) {
        uvcci_plan_round *r = uvcci_draft_turn(d);
        for (unsigned i = 0; i < lifts; i++)
            uvcci_draft_vec(d, r, lift, hop, i == 0 ? UVCCI_ID_FSS0 : second, 64);
    }
    uvcci_plan_round *keys = uvcci_draft_round(d, d->keys, &plan->key_count, plan->elems, 0);
    uvcci_draft_vec(d, keys, UVCCI_PROTO_KEYS, 0, UVCCI_ID_FSS0, 8);
    plan->key_turn = (uint8_t)(d->rounds[plan->open_round].turn + 1);
}

static void plan_circuit(uvcci_draft *d) {
    uvcci_plan *plan = d->plan;
    plan->keyless = true;
    plan->circuit = uvcci_circuit_plan_of(plan->bits);
    plan->per_block_edge = true;
    for (unsigned round = 0; round < plan->circuit.rounds; round++) {
        bool head = round == 0 || round > plan->circuit.levels;
        uvcci_protocol protocol = head                            ? UVCCI_PROTO_CIRCUIT_HEAD
                                  : round == plan->circuit.levels ? UVCCI_PROTO_CIRCUIT_TOP
                                                                  : UVCCI_PROTO_RESHARE;
        uint8_t id =
            uvcci_draft_id(d, true, UVCCI_STREAM_MASK, (uint16_t)round, round == 0, plan->blocks);
        uvcci_draft_vec(d, uvcci_draft_turn(d), protocol, 0, id, 64);
    }
}

/* A digest from each party to both others. */
static void add_digest(uvcci_draft *d, uvcci_plan_round *r, uvcci_stream_name stream,
                       uint8_t what) {
    uvcci_draft_vec(d, r, UVCCI_PROTO_DIGEST_ALL, 0, uvcci_draft_id(d, false, stream, 0, false, 1),
                    8)
        ->what = what;
}

/* Both ops of a check work on vectors of 64 x inner; see op_sks.c for the turns. */
static int plan_sks(uvcci_draft *d, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op) {
    uvcci_plan *plan = d->plan;
    const bool starts = op->desc.opcode == UVCC_OP_SKS_START;
    if (op->partner == UVCCI_NO_OP)
        return UVCC_ERR_PROGRAM;
    const uvcci_sks_shape shape =
        uvcci_sks_shape_of(p, starts ? &op->desc : &e->ops[op->partner].desc);
    plan->sks = true;
    plan->elems = (uint64_t)UVCCI_SKS_T * shape.inner;
    plan->blocks = uvcci_blocks(plan->elems);
    plan->turns = 2;
    if (starts) {
        for (uint16_t tensor = 0; tensor < 3; tensor++)
            uvcci_draft_id(d, true, UVCCI_STREAM_COIN, tensor, false, 1); /* of the commitments */
        uvcci_draft_vec(d, uvcci_draft_round(d, d->rounds, &plan->round_count, UVCCI_SKS_TT, 0),
                        UVCCI_PROTO_RESHARE, 0, UVCCI_ID_TILE0, 64);
        uvcci_plan_round *commit = uvcci_draft_round(d, d->rounds, &plan->round_count, 1, 0);
        add_digest(d, commit, UVCCI_STREAM_COIN, UVCCI_DIGEST_CHECK);
        add_digest(d, commit, UVCCI_STREAM_COIN, UVCCI_DIGEST_COIN_COMMIT);
        add_digest(d, uvcci_draft_round(d, d->rounds, &plan->round_count, 1, 1), UVCCI_STREAM_COIN,
                   UVCCI_DIGEST_COIN_SHARE);
        return 0;
    }
    for (unsigned k = 0; k < 2; k++)
        uvcci_draft_vec(d, uvcci_draft_round(d, d->rounds, &plan->round_count, plan->elems, 0),
                        UVCCI_PROTO_OPEN_ALL, 0,
                        uvcci_draft_id(d, false, k == 0 ? UVCCI_STREAM_SKS_E : UVCCI_STREAM_SKS_F,
                                       0, false, plan->blocks),
                        64);
    add_digest(d, uvcci_draft_round(d, d->rounds, &plan->round_count, 1, 1), UVCCI_STREAM_SKS_Z,
               UVCCI_DIGEST_SKS);
    return 0;
}

/* ---- Beaver products ---- */

static bool on_triple(const uvcci_op *op) {
    return uvcci_is_product(op->desc.opcode) && (op->desc.flags & UVCC_OP_BEAVER) != 0;
}

static bool reads_version(const uvcci_op *op, unsigned i, uint32_t tensor, uint32_t version) {
    return on_triple(op) && op->desc.in[i] == tensor && op->in_version[i] == version;
}

/* Whose mask an operand has. */
static uvcci_plan_mask mask_of(const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                               unsigned operand) {
    const uint32_t tensor = op->desc.in[operand], version = op->in_version[operand];
    uvcci_plan_mask m = {.op = UVCCI_NO_OP, .round = -1, .elems = p->tensors[tensor].elems};
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint8_t k = 0; k < 2; k++) {
            if (!reads_version(&e->ops[i], k, tensor, version))
                continue;
            if (m.op == UVCCI_NO_OP) {
                m.op = i;
                m.operand = k;
            }
            m.reads++;
        }
    return m;
}

/* The openings, if this op owns a mask, and the round that makes C. Ids come later: the first is
 * the truncation's. */
static void begin_beaver(uvcci_draft *d, const uvcc_program *p, const uvcci_entry *e,
                         const uvcci_op *op) {
    uvcci_plan *plan = d->plan;
    uvcci_plan_beaver *v = &plan->beaver;
    const uint32_t self = (uint32_t)(op - e->ops);
    v->on = true;
    for (uint8_t k = 0; k < 2; k++) {
        v->mask[k] = mask_of(p, e, op, k);
        if (v->mask[k].op != self || v->mask[k].operand != k)
            continue;
        v->mask[k].round = (int8_t)plan->round_count;
        uvcci_draft_round(d, d->rounds, &plan->round_count, v->mask[k].elems, 0);
        plan->turns = 1;
    }
    v->product_turn = plan->turns;
    v->triple_round = plan->round_count;
    uvcci_draft_round(d, d->rounds, &plan->round_count, plan->elems, UVCCI_TURN_TRIPLE);
}

static void end_beaver(uvcci_draft *d) {
    static const uvcci_stream_name streams[2] = {UVCCI_STREAM_GEMM_E, UVCCI_STREAM_GEMM_F};
    uvcci_plan_beaver *v = &d->plan->beaver;
    for (uint8_t k = 0; k < 2; k++) {
        if (v->mask[k].round < 0)
            continue;
        uvcci_plan_round *r = &d->rounds[v->mask[k].round];
        uint8_t id = uvcci_draft_id(d, false, streams[k], UVCCI_CALL_TRIPLE, false, r->blocks);
        uvcci_draft_vec(d, r, UVCCI_PROTO_OPEN_ALL, 0, id, 64);
    }
    uvcci_draft_vec(d, &d->rounds[v->triple_round], UVCCI_PROTO_RESHARE, 0, UVCCI_ID_TILE0, 64);
}

static uint8_t gate_of(uint8_t truncation) {
    static const uint8_t gates[] = {[UVCC_TRUNC_EXACT] = UVCC_GATE_TRUNC_ARS,
                                    [UVCC_TRUNC_STOCHASTIC] = UVCC_GATE_TRUNC_SR,
                                    [UVCC_TRUNC_EXACT_DCF] = UVCC_GATE_TRUNC_DCF};
    return gates[truncation];
}

/* By the op's shift. A DPF's bit takes a round to convert, a DCF's is a share at once. */
static void plan_truncation(uvcci_draft *d, const uvcc_op_desc *op, uvcci_protocol open) {
    uvcci_plan *plan = d->plan;
    plan->compact = open == UVCCI_PROTO_OPEN4;
    plan->shift = plan->bits = op->shift;
    plan->gate = gate_of(op->truncation);
    plan_edge_gate(d, open, UVCCI_STREAM_TRUNC, plan->gate == UVCC_GATE_TRUNC_ARS, 1);
}

/* The opened differences give a replicated product; what is truncated then is truncated as TRUNCATE
 * does it. */
static void plan_beaver(uvcci_draft *d, const uvcc_program *p, const uvcci_entry *e,
                        const uvcci_op *op) {
    begin_beaver(d, p, e, op);
    if (op->desc.shift != 0)
        plan_truncation(d, &op->desc, UVCCI_PROTO_OPEN2);
    end_beaver(d);
}

static int plan_op(uvcci_draft *d, const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                   uvcci_fn_plan *fn) {
    uvcci_plan *plan = d->plan;
    switch (op->desc.opcode) {
    case UVCC_OP_INPUT:
        plan->fixed_edge = e->inputs[op->io].owner;
        plan_vector(d, UVCCI_PROTO_INPUT, UVCCI_STREAM_INPUT);
        return 0;
    case UVCC_OP_OUTPUT:
        plan_vector(d, UVCCI_PROTO_OPEN_ALL, UVCCI_STREAM_OUT);
        return 0;
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_ROW_DOT:
        if (on_triple(op)) {
            plan_beaver(d, p, e, op);
            return 0;
        }
        if (op->desc.shift == 0) {
            plan_vector(d, UVCCI_PROTO_RESHARE, UVCCI_STREAM_MASK);
            return 0;
        }
        plan_truncation(d, &op->desc, UVCCI_PROTO_OPEN4);
        return 0;
    case UVCC_OP_TRUNCATE:
        plan_truncation(d, &op->desc,
                        p->tensors[op->desc.in[0]].desc.sharing == UVCC_ADDITIVE
                            ? UVCCI_PROTO_OPEN4
                            : UVCCI_PROTO_OPEN2);
        return 0;
    case UVCC_OP_RESHARE:
        plan_vector(d, UVCCI_PROTO_RESHARE, UVCCI_STREAM_MASK);
        return 0;
    case UVCC_OP_RELU:
        /* |x| < 2^bits: x has bits + 1 bits, of which `bits` are compared. */
        plan->bits = p->tensors[op->desc.in[0]].desc.bits;
        if ((op->desc.flags & UVCC_OP_CIRCUIT) != 0) {
            plan_circuit(d);
            return 0;
        }
        plan->gate = UVCC_GATE_RELU;
        plan_edge_gate(d, UVCCI_PROTO_OPEN2, UVCCI_STREAM_MASK, true, 2);
        return 0;
    case UVCC_OP_FUNCTION:
        return uvcci_plan_function(d, p, op, fn);
    case UVCC_OP_SKS_START:
    case UVCC_OP_SKS_GEMM_CHECK:
        return plan_sks(d, p, e, op);
    case UVCC_OP_GEMM_PART:
    case UVCC_OP_BIAS_ADD:
    case UVCC_OP_REDUCE_BIAS_GRAD:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_SHIFT_LEFT:
    case UVCC_OP_ROW_SUM:
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
    case UVCC_OP_ADD_PUBLIC:
    case UVCC_OP_CAUSAL_MASK:
    case UVCC_OP_SCALE_PUBLIC:
    case UVCC_OP_SEND_PP:
    case UVCC_OP_RECV_PP:
    case UVCC_OP_REDUCE_SCATTER:
    case UVCC_OP_ALL_GATHER:
        return 0;
    default:
        return UVCC_ERR_PROGRAM;
    }
}

/* Copies the draft's tables into memory of the plan's own. */
static int settle(const uvcci_draft *d, bool function, const uvcc_allocator *al) {
    uvcci_plan *plan = d->plan;
    size_t n = (size_t)plan->round_count + plan->key_count;
    size_t fn_bytes = function ? sizeof *plan->fn : 0;
    plan->mem_bytes = fn_bytes + n * sizeof *plan->rounds + plan->id_count * sizeof *plan->id;
    if (plan->mem_bytes == 0)
        return 0;
    uint8_t *mem = al->alloc(al->user, plan->mem_bytes, UVCC_MEM_STATE);
    if (mem == NULL)
        return UVCC_ERR_NOMEM;
    plan->mem = mem;
    plan->rounds = (uvcci_plan_round *)(void *)(mem + fn_bytes);
    memcpy(plan->rounds, d->rounds, plan->round_count * sizeof *plan->rounds);
    memcpy(plan->rounds + plan->round_count, d->keys, plan->key_count * sizeof *plan->rounds);
    plan->id = (uvcci_plan_id *)(void *)(plan->rounds + n);
    memcpy(plan->id, d->id, plan->id_count * sizeof *plan->id);
    if (function) {
        uvcci_fn_plan *fn = (uvcci_fn_plan *)(void *)mem;
        memcpy(fn, plan->fn, sizeof *fn);
        plan->fn = fn;
    }
    return 0;
}

void uvcci_plan_free(uvcci_plan *plan, const uvcc_allocator *al) {
    if (plan->mem != NULL)
        al->free(al->user, plan->mem, plan->mem_bytes, UVCC_MEM_STATE);
    plan->mem = NULL;
}

int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op, const uvcc_allocator *al) {
    uvcci_fn_plan fn;
    uvcci_draft d = {.plan = plan};
    memset(plan, 0, sizeof *plan);
    plan->open_round = plan->bit_round = plan->lift_round = -1;
    plan->batches = plan->key_turn = 1;
    if (op->desc.in_count + op->desc.out_count == 0) /* no op that is implemented */
        return UVCC_ERR_PROGRAM;
    uint32_t tensor = op->desc.out_count != 0 ? op->desc.out[0] : op->desc.in[0];
    plan->elems = p->tensors[tensor].elems;
    plan->lift = op->desc.lift;
    if (plan->lift > UVCC_LIFT_EXCHANGE)
        return UVCC_ERR_PROGRAM;
    plan->blocks = uvcci_blocks(plan->elems);
    int rc = plan_op(&d, p, e, op, &fn);
    plan->edge_blocks = plan->blocks;
    for (unsigned k = 0; k < 2; k++) /* masks, also those of operands that others open */
        if (uvcci_blocks(plan->beaver.mask[k].elems) > plan->edge_blocks)
            plan->edge_blocks = uvcci_blocks(plan->beaver.mask[k].elems);
    if ((uint64_t)plan->edge_blocks * UVCC_BLOCK_ELEMS >
        UINT32_MAX) /* `first` of a TLV is 32 bits */
        rc = UVCC_ERR_PROGRAM;
    for (unsigned i = 0; rc == 0 && i < plan->round_count; i++)
        rc = cut_round(&d, &d.rounds[i]);
    for (unsigned i = 0; rc == 0 && i < plan->key_count; i++)
        rc = cut_round(&d, &d.keys[i]);
    if (rc == 0 && d.full)
        rc = UVCC_ERR_PROGRAM;
    if (rc == 0)
        rc = settle(&d, plan->function != NULL, al);
    return rc;
}

/* ---- ids ---- */

void uvcci_plan_ids_fill(const uvcci_plan *plan, const uint8_t sid_sub[32], uint32_t step,
                         uint32_t op_id, uvcci_plan_ids *ids) {
    for (unsigned s = 0; s < plan->id_count; s++) {
        const uvcci_plan_id *d = &plan->id[s];
        uint32_t n = d->per_block ? d->blocks : 1;
        for (uint32_t b = 0; b < n; b++)
            ids->id[s][b] = d->fss ? uvcci_fss_id(sid_sub, step, op_id, d->call, b)
                                   : uvcci_stream_id(sid_sub, step, op_id,
                                                     (uvcci_stream_name)d->stream, d->call, b);
    }
    for (uint32_t b = 0; b < plan->blocks; b++)
        ids->edge[b] = plan->per_block_edge ? uvcci_edge(ids->id[UVCCI_ID_FSS0][b])
                       : plan->one_edge     ? uvcci_edge(ids->id[UVCCI_ID_FSS0][0])
                                            : plan->fixed_edge;
    /* Vectors that are longer than the op's are opened to all, where an edge only counts parties.
     */
    for (uint32_t b = plan->blocks; b < plan->edge_blocks; b++)
        ids->edge[b] = 0;
}

bool uvcci_plan_ids_collide(const uvcci_plan *plan, const uvcci_plan_ids *ids) {
    /* Equal ids matter where they would meet in one batch; batches are ranges of at most 512
     * blocks (the parts of openings and lifts are smaller than that). */
    uint64_t seen[512];
    for (unsigned s = 0; s < plan->id_count; s++) {
        uint32_t blocks = plan->id[s].per_block ? plan->id[s].blocks : 0;
        for (uint32_t first = 0; first < blocks; first += 512) {
            uint32_t n = blocks - first < 512 ? blocks - first : 512;
            memcpy(seen, ids->id[s] + first, n * sizeof seen[0]);
            uvcci_sort(seen, n, sizeof seen[0], uvcci_compare_u64);
            for (uint32_t i = 1; i < n; i++)
                if (seen[i] == seen[i - 1])
                    return true;
        }
    }
    return false;
}

/* ---- messages ---- */

uint32_t uvcci_plan_tlvs_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint32_t blocks = r->blocks < r->part_blocks ? r->blocks : r->part_blocks;
    uint32_t per_block = plan->keyless ? circuit_pieces_max(plan, r) : r->vec_count;
    if (r->vec[0].protocol == UVCCI_PROTO_KEYS)
        per_block = uvcci_plan_key_bytes(plan, r, 0, UVCC_TAIL) / UVCC_KEY_CHUNK_BYTES + 1;
    return blocks * per_block + 1;
}

static int compare_tlvs(const void *a, const void *b) {
    const uvcci_plan_tlv *x = a, *y = b;
    return uvcc_tlv_compare(&x->t, &y->t);
}

static void part_range(const uvcci_plan_round *r, uint32_t part, uint32_t *first, uint32_t *end) {
    *first = part * r->part_blocks;
    *end = *first + r->part_blocks < r->blocks ? *first + r->part_blocks : r->blocks;
}

/* Calls for every (vector, flow, block) that goes from src to dst in the part. */
typedef bool (*visit_fn)(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                         uint32_t block, uint8_t edge);
static void visit(const uvcci_plan_ids *ids, const uvcci_plan_round *r, uint32_t part, uint8_t src,
                  uint8_t dst, visit_fn fn, void *user) {
    uint32_t first, end;
    part_range(r, part, &first, &end);
    for (unsigned v = 0; v < r->vec_count; v++) {
        unsigned n;
        const uvcci_flow *flows = uvcci_protocol_flows((uvcci_protocol)r->vec[v].protocol, &n);
        for (unsigned i = 0; i < n; i++) {
            if (flows[i].hop != r->vec[v].hop)
                continue;
            for (uint32_t b = first; b < end; b++) {
                uint8_t edge = ids->edge[b];
                if (uvcci_party_of((uvcci_role)flows[i].from, edge) != src ||
                    uvcci_party_of((uvcci_role)flows[i].to, edge) != dst)
                    continue;
                if (flows[i].tlv == UVCC_TLV_DIGEST && b + 1 != r->blocks)
                    continue; /* one digest of the whole stream, with its last part */
                if (!fn(user, v, &flows[i], i, b, edge))
                    return;
            }
        }
    }
}

struct lister {
    const uvcci_plan *plan;
    const uvcci_plan_ids *ids;
    const uvcci_plan_round *r;
    uvcci_plan_tlv *out;
    uint32_t count;
    size_t bytes;
};

static void list_add(struct lister *l, unsigned vec, unsigned flow, uint32_t block,
                     const uvcc_tlv *t) {
    l->out[l->count++] =
        (uvcci_plan_tlv){.t = *t, .vec = (uint8_t)vec, .flow = (uint8_t)flow, .block = block};
    l->bytes += uvcc_tlv_bytes(t);
}

/* The message of a block in a round of a circuit. */
static void list_pieces(struct lister *l, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                        uint32_t block) {
    const uvcci_circuit_plan *c = &l->plan->circuit;
    uint32_t count = uvcci_block_count(l->r->elems, block);
    uint32_t words = uvcci_circuit_message_words(c, UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, l->r->turn,
                                                 (uvcc_role)flow->from, (uvcc_role)flow->to, count);
    uint32_t piece = uvcci_circuit_piece_words(c, l->r->turn, count);
    uvcc_tlv t = {.type = flow->tlv, .bits = 64, .id = block};
    for (uint32_t at = 0; at < words; at += piece, t.first += UVCC_BLOCK_ELEMS) {
        t.count = words - at < piece ? words - at : piece;
        list_add(l, vec, flow_index, block, &t);
        l->out[l->count - 1].more = at != 0;
    }
}

static bool list_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct lister *l = user;
    const uvcci_plan_vec *pv = &l->r->vec[vec];
    if (l->plan->keyless) {
        list_pieces(l, vec, flow, flow_index, block);
        return true;
    }
    uint32_t count = uvcci_block_count(l->r->elems, block);
    bool has_id = pv->id != UVCCI_ID_TILE0;
    bool per_block = has_id && l->plan->id[pv->id].per_block;
    uvcc_tlv t = {.type = flow->tlv, .bits = pv->bits, .count = count};
    if (has_id)
        t.id = l->ids->id[pv->id][per_block ? block : 0];
    switch (flow->tlv) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
        t.aux = edge;
        break;
    case UVCC_TLV_LIFT_COMP_U64VEC:
        t.aux = (uint8_t)((edge + 2u) % 3u);
        break;
    case UVCC_TLV_OPEN_VEC:
        t.aux = pv->protocol == UVCCI_PROTO_OPEN_ALL ? 0xFF : edge;
        t.round = pv->stream_round;
        t.first = block * UVCC_BLOCK_ELEMS;
        if (per_block)
            t.first = 0;
        break;
    case UVCC_TLV_DIGEST:
        t.aux = pv->what;
        t.bits = 8;
        t.count = 32;
        break;
    case UVCC_TLV_KEY_CHUNK: {
        uint32_t total = uvcci_plan_key_bytes(l->plan, l->r, block, (uvcc_role)flow->to);
        t.round = l->plan->gate;
        for (uint32_t at = 0; at < total; at += UVCC_KEY_CHUNK_BYTES) {
            t.first = at;
            t.count = total - at < UVCC_KEY_CHUNK_BYTES ? total - at : UVCC_KEY_CHUNK_BYTES;
            list_add(l, vec, flow_index, block, &t);
        }
        return true;
    }
    default: /* RESHARE, INPUT */
        t.first = block * UVCC_BLOCK_ELEMS;
        break;
    }
    list_add(l, vec, flow_index, block, &t);
    return true;
}

uint32_t uvcci_plan_list(const uvcci_plan *plan, const uvcci_plan_ids *ids,
                         const uvcci_plan_round *r, uint32_t part, uint8_t src, uint8_t dst,
                         uvcci_plan_tlv *out, size_t *bytes) {
    struct lister l = {
        .plan = plan, .ids = ids, .r = r, .out = out, .bytes = UVCC_BLV1_HEADER_BYTES};
    visit(ids, r, part, src, dst, list_one, &l);
    uvcci_sort(out, l.count, sizeof out[0], compare_tlvs);
    *bytes = l.bytes;
    return l.count;
}

struct seeker {
    const uvcci_plan *plan;
    const uvcci_plan_round *r;
    bool any;
};

static bool seek_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct seeker *k = user;
    (void)vec;
    (void)flow_index;
    (void)edge;
    k->any = flow->tlv != UVCC_TLV_KEY_CHUNK ||
             uvcci_plan_key_bytes(k->plan, k->r, block, (uvcc_role)flow->to) != 0;
    return !k->any;
}

bool uvcci_plan_any(const uvcci_plan *plan, const uvcci_plan_ids *ids, const uvcci_plan_round *r,
                    uint32_t part, uint8_t src, uint8_t dst) {
    struct seeker k = {.plan = plan, .r = r};
    visit(ids, r, part, src, dst, seek_one, &k);
    return k.any;
}

const uvcci_plan_round *uvcci_plan_find(const uvcci_plan *plan, uint8_t kind, uint16_t b,
                                        uint32_t *part) {
    for (unsigned i = 0; i < (unsigned)plan->round_count + plan->key_count; i++) {
        const uvcci_plan_round *r = &plan->rounds[i];
        if (r->kind == kind && b >= r->b_base && b - r->b_base < r->parts) {
            *part = (uint32_t)(b - r->b_base);
            return r;
        }
    }
    return NULL;
}
