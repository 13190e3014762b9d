/* ops.c - the ops of a step as state machines.
 *
 * A run walks through stages (session.h). A stage starts when its round has come whole (and its
 * keys), builds one job of several tasks together with the messages that it fills, and ends when
 * the job's completion comes: then leaves are written, the messages go out, the round that it
 * consumed is released. Nothing here looks at a share: tasks do. An op whose job is out, or that
 * waits, holds only INFLIGHT memory. */
#include "build.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include "proto/prg.h"
#include <assert.h>

typedef uvcci_builder builder;

/* ---- small helpers ---- */

void uvcci_run_wake(uvcci_run *r) {
    r->step->ready[r->index / 64] |= 1ull << (r->index % 64);
}

uvcci_pending_leaf *uvcci_leaf_later(uvcci_bump *bump, uvcci_pending_leaf **list, uint8_t type) {
    uvcci_pending_leaf *l = uvcci_bump_take(bump, sizeof *l);
    if (l == NULL)
        return NULL;
    l->type = type;
    l->next = *list;
    *list = l;
    return l;
}

void uvcci_leaves_write(uvcc_session *s, uvcci_run *r, uvcci_pending_leaf *list) {
    for (; list != NULL; list = list->next) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        size_t n;
        switch (list->type) {
        case UVCCI_LEAF_OPEN_DONE:
            n = uvcci_leaf_open_done(leaf, s->sid_sub, r->op_id, list->id, list->round,
                                     list->digest);
            break;
        case UVCCI_LEAF_KEYS_DONE:
            n = uvcci_leaf_keys_done(leaf, s->sid_sub, r->op_id, list->src, list->dst,
                                     list->digest);
            break;
        case UVCCI_LEAF_COMPONENT_COMMIT:
            n = uvcci_leaf_component_commit(leaf, s->sid_sub, r->op_id, list->id, list->component,
                                            list->digest);
            break;
        default:
            assert(list->type == UVCCI_LEAF_LIFT_DONE);
            n = uvcci_leaf_lift_done(leaf, s->sid_sub, r->op_id, list->id, list->q_count);
            break;
        }
        uvcci_leaf(s, r->step, r->row0, leaf, n);
    }
}

static uint8_t sent_leaf(uint8_t kind) {
    switch (kind) {
    case UVCC_FRAME_OPEN_BATCH:
        return UVCCI_LEAF_OPEN_SENT;
    case UVCC_FRAME_LIFT_BATCH:
        return UVCCI_LEAF_LIFT_SENT;
    case UVCC_FRAME_RESHARE_BATCH:
    case UVCC_FRAME_INPUT_BATCH:
        return UVCCI_LEAF_SHARE_SENT;
    default:
        return 0;
    }
}

/* Which of a role's (at most two) outgoing or incoming buffers a flow uses. */
static unsigned out_slot(const uvcci_flow *f) {
    if (f->protocol == UVCCI_PROTO_OPEN4 && f->from == UVCCI_OTHER)
        return f->to == UVCCI_HEAD ? 0 : 1;
    bool to_both = f->protocol == UVCCI_PROTO_INPUT || f->protocol == UVCCI_PROTO_CIRCUIT_HEAD;
    return to_both && f->to == UVCCI_OTHER ? 1 : 0;
}
static unsigned in_slot(const uvcci_flow *f) {
    if (f->protocol == UVCCI_PROTO_CIRCUIT_HEAD)
        return f->from == UVCCI_TAIL ? 1 : 0;
    return f->protocol == UVCCI_PROTO_OPEN4 && f->from == UVCCI_OTHER ? 1 : 0;
}

/* The engine of a vector's block. */
static uvcci_engine *engine_at(uvcci_run *r, const uvcci_plan_vec *v, uint32_t block) {
    return &(*uvcci_engines_of(r, v))[block];
}

/* ---- messages ---- */

void uvcci_batch_drop(uvcc_session *s, uvcci_batch_out *out) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->tx[i].msg != NULL)
            uvcc_link_msg_drop(s->peer[out->tx[i].dst].link, out->tx[i].msg);
    memset(out, 0, sizeof *out);
}

static int batch_fill(uvcci_run *r, const uvcci_plan_round *round, uint8_t dst,
                      const uvcci_plan_tlv *list, uint32_t n, uint8_t *bytes, size_t len,
                      uvcci_batch_out *out) {
    uvcc_blv1_writer w;
    if (uvcc_blv1_begin(&w, bytes, len) != 0)
        return UVCC_ERR_LIMIT;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *hole;
        if (uvcc_blv1_put(&w, &list[i].t, &hole) != 0)
            return UVCC_ERR_LIMIT;
        const uvcci_flow *f = &uvcci_protocol_flows(
            (uvcci_protocol)round->vec[list[i].vec].protocol, &(unsigned){0})[list[i].flow];
        if (list[i].t.type == UVCC_TLV_DIGEST)
            out->digest_hole = hole;
        else if (list[i].t.type == UVCC_TLV_KEY_BLOB)
            out->blobs[out->blob_count++] = (uvcci_blob){.dst = dst,
                                                         .block = list[i].block,
                                                         .offset = list[i].t.first,
                                                         .len = list[i].t.count,
                                                         .at = hole};
        else if (!list[i].more)
            out->hole[list[i].vec][out_slot(f)][list[i].block] = hole;
    }
    (void)r;
    return uvcc_blv1_end(&w) == (ptrdiff_t)len ? 0 : UVCC_ERR_LIMIT;
}

int uvcci_batch_open(uvcc_session *s, uvcci_run *r, const uvcci_plan_round *round, uvcci_bump *bump,
                     uvcci_batch_out *out) {
    const uvcci_plan *plan = r->plan;
    bool keys = round->kind == UVCC_FRAME_KEYS_BATCH;
    *out = (uvcci_batch_out){.round = round};
    uint32_t list_max = uvcci_plan_tlvs_max(plan, round);
    uvcci_plan_tlv *list = uvcci_bump_take(bump, list_max * sizeof *list);
    out->tx = uvcci_bump_take(bump, 2u * round->parts * sizeof *out->tx);
    if (keys)
        out->blobs = uvcci_bump_take(bump, 2u * round->parts * list_max * sizeof *out->blobs);
    bool ok = list != NULL && out->tx != NULL && (!keys || out->blobs != NULL);
    for (unsigned v = 0; ok && !keys && v < round->vec_count; v++)
        for (unsigned k = 0; k < 2; k++)
            ok = ok && (out->hole[v][k] =
                            uvcci_bump_take(bump, round->blocks * sizeof(uint8_t *))) != NULL;
    if (!ok)
        return UVCC_ERR_NOMEM;
    for (uint32_t part = 0; part < round->parts; part++)
        for (unsigned side = 0; side < 2; side++) {
            uint8_t dst = side == 0 ? uvcci_next_party(s) : uvcci_prev_party(s);
            size_t len;
            uint32_t n = uvcci_plan_list(plan, &r->ids, round, part, s->party, dst, list, &len);
            if (n == 0)
                continue;
            uvcci_tx *tx = &out->tx[out->count];
            int rc = uvcc_link_msg_new(s->peer[dst].link, round->kind, (uint32_t)len, &tx->msg);
            if (rc == 0) {
                out->count++;
                tx->dst = dst;
                tx->b = (uint16_t)(round->b_base + part);
                tx->len = (uint32_t)len;
                rc = batch_fill(r, round, dst, list, n, uvcc_link_msg_data(tx->msg), len, out);
            }
            if (rc != 0) {
                uvcci_batch_drop(s, out);
                return rc;
            }
        }
    return 0;
}

/* ---- tensors ---- */

static uvcc_block *add_op_blocks(builder *b, uint16_t kind, uint16_t call, unsigned roles,
                                 uint32_t *count) {
    return uvcci_add_blocks(b, kind, call, roles, b->r->plan->elems, count);
}

static bool take_words(uvcc_session *s, uvcci_run *r, uint64_t **p) {
    if (*p == NULL)
        *p = uvcci_arena_take(&s->tensors, r->plan->elems * 8);
    return *p != NULL;
}

enum { BITS_STRIDE = UVCC_BLOCK_ELEMS / 8 };

static size_t bits_bytes(const uvcci_run *r) {
    return (size_t)r->plan->blocks * BITS_STRIDE * 2;
}

/* Opened bits stand behind this party's masked ones. */
static uint8_t *opened_bits(const uvcci_run *r) {
    return r->bits + (size_t)r->plan->blocks * BITS_STRIDE;
}

static void free_scratch(uvcc_session *s, uvcci_run *r) {
    size_t words = r->plan->elems * 8;
    uvcci_arena_give(&s->tensors, r->z, words);
    uvcci_arena_give(&s->tensors, r->m, words);
    uvcci_arena_give(&s->tensors, r->d, words);
    uvcci_arena_give(&s->tensors, r->bits, bits_bytes(r));
    uvcci_arena_give(&s->tensors, r->keys, r->key_bytes);
    r->z = r->m = r->d = NULL;
    r->bits = r->keys = NULL;
    uvcci_function_free(s, r);
    uvcci_circuit_free(s, r);
}

/* ---- the stages ---- */

/* The round that a gate's stage sends or consumes has the stage's number, or one less. The stage
 * that reads the keys is the first after the opening. */
static bool reads_keys(const uvcci_run *r) {
    return r->plan->key_count != 0 && r->stage == 1;
}

static bool finishes(const uvcci_run *r) {
    return r->plan->stages != 0 && r->stage == r->plan->stages;
}

/* Local ops and the local part of products: fills out (local op) or z. */
static void build_map(builder *b, uint8_t op, uint32_t rows, uint32_t cols, const uvcc_shares *x,
                      const uvcc_shares *y, const uvcc_shares *out, uint8_t shift) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_MAP, 0);
    if (t == NULL)
        return;
    t->u.map.op = op;
    t->u.map.shift = shift;
    t->u.map.party = b->s->party;
    t->u.map.rows = rows;
    t->u.map.cols = cols;
    t->u.map.x = *x;
    if (y != NULL)
        t->u.map.y = *y;
    t->u.map.out = *out;
    t->u.map.constant = (uint64_t)b->r->op->desc.constant;
}

/* The map of an op that has one, into `out`. */
static void build_local(builder *b, const uvcc_shares *out) {
    uvcci_run *r = b->r;
    const uvcc_op_desc *d = &r->op->desc;
    const uvcci_tensor *in = &b->s->program->tensors[d->in[0]];
    const uvcc_shares *x = uvcci_shares_of(b->s, d->in[0]);
    const uvcc_shares *y = d->in_count > 1 ? uvcci_shares_of(b->s, d->in[1]) : NULL;
    static const struct {
        uint16_t opcode;
        uint8_t map;
    } maps[] = {{UVCC_OP_BIAS_ADD, UVCC_MAP_ADD_ROW},
                {UVCC_OP_REDUCE_BIAS_GRAD, UVCC_MAP_SUM_ROWS},
                {UVCC_OP_ADD, UVCC_MAP_ADD},
                {UVCC_OP_SUB, UVCC_MAP_SUB},
                {UVCC_OP_SHIFT_LEFT, UVCC_MAP_SHL},
                {UVCC_OP_ROW_SUM, UVCC_MAP_SUM_COLS},
                {UVCC_OP_ROW_ADD, UVCC_MAP_ADD_COL},
                {UVCC_OP_ROW_SUB, UVCC_MAP_SUB_COL},
                {UVCC_OP_ROW_RSUB, UVCC_MAP_RSUB_COL},
                {UVCC_OP_SCALE_PUBLIC, UVCC_MAP_SCALE},
                {UVCC_OP_ADD_PUBLIC, UVCC_MAP_ADD_PUBLIC},
                {UVCC_OP_CAUSAL_MASK, UVCC_MAP_CAUSAL},
                {UVCC_OP_ELEM_MUL, UVCC_MAP_MUL},
                {UVCC_OP_ROW_MUL, UVCC_MAP_MUL_COL},
                {UVCC_OP_COL_MUL, UVCC_MAP_MUL_ROW},
                {UVCC_OP_ROW_DOT, UVCC_MAP_DOT_ROWS}};
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i].opcode == d->opcode)
            build_map(b, maps[i].map, in->desc.rows, in->desc.cols, x, y, out, d->shift);
}

static bool build_product(builder *b) {
    uvcci_run *r = b->r;
    const uvcc_op_desc *d = &r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    if (!take_words(b->s, r, &r->z))
        return false;
    const uvcc_shares *x = uvcci_shares_of(b->s, d->in[0]), *y = uvcci_shares_of(b->s, d->in[1]);
    if (d->opcode != UVCC_OP_GEMM_SS) {
        build_local(b, &(uvcc_shares){.lo = r->z});
        return true;
    }
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_GEMM, 0);
    if (t == NULL)
        return false;
    bool ta = (d->flags & UVCC_OP_TRANS_A) != 0;
    t->u.gemm.m = ts[d->out[0]].desc.rows;
    t->u.gemm.n = ts[d->out[0]].desc.cols;
    t->u.gemm.k = ta ? ts[d->in[0]].desc.rows : ts[d->in[0]].desc.cols;
    t->u.gemm.trans_x = ta;
    t->u.gemm.trans_y = (d->flags & UVCC_OP_TRANS_B) != 0;
    t->u.gemm.x = *x;
    t->u.gemm.y = *y;
    t->u.gemm.z = r->z;
    return true;
}

/* The stream of an INPUT or OUTPUT. */
static uint64_t stream_of(const uvcci_run *r) {
    return r->ids.id[r->plan->rounds[0].vec[0].id][0];
}

static bool build_mask(builder *b) {
    uvcc_session *s = b->s;
    uvcci_run *r = b->r;
    const uvcc_op_desc *d = &r->op->desc;
    uint32_t n;
    uvcc_block *k;
    for (unsigned i = 0; i < d->out_count; i++)
        if (!uvcci_ensure_buffer(s, d->out[i]))
            return false;
    switch (d->opcode) {
    case UVCC_OP_INPUT: {
        const uvcc_shares *out = uvcci_shares_of(s, d->out[0]);
        k = add_op_blocks(b, UVCC_TASK_INPUT, 0, UVCCI_ROLE_HEAD, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = r->step->input[r->op->io] + uvcci_at_block(&k[i]);
            k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
            k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
            k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
            k[i].wire_out[1] = r->out[0].hole[0][1][k[i].block];
        }
        break;
    }
    case UVCC_OP_OUTPUT: {
        const uvcc_shares *in = uvcci_shares_of(s, d->in[0]);
        k = add_op_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_ALL, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
            k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
        }
        uvcc_hash_item *it = uvcci_add_hash(b);
        if (it == NULL)
            return false;
        uvcci_writer w = uvcci_writer_on(it->prefix, sizeof it->prefix);
        uvcci_put(&w, "UVCC_CHECK_V1", 13);
        uvcci_put64(&w, stream_of(r));
        uvcci_put8(&w, s->party);
        it->prefix_len = (uint8_t)w.len;
        it->data = (const uint8_t *)in->hi;
        it->len = r->plan->elems * 8;
        it->out = r->out[0].digest_hole;
        uvcci_end_hashes(b); /* the payload's hash covers it */
        break;
    }
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_ROW_DOT:
        if (!build_product(b))
            return false;
        if (r->plan->open_round < 0) {
            const uvcc_shares *out = uvcci_shares_of(s, d->out[0]);
            k = add_op_blocks(b, UVCC_TASK_RESHARE_MASK, 0, UVCCI_ROLE_ALL, &n);
            for (uint32_t i = 0; i < n; i++) {
                k[i].in[0] = r->z + uvcci_at_block(&k[i]);
                k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
                k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
            }
            break;
        }
        if (!take_words(s, r, &r->m))
            return false;
        k = add_op_blocks(b, UVCC_TASK_OPEN4_MASK, 0, UVCCI_ROLE_ALL, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = r->z + uvcci_at_block(&k[i]);
            k[i].out[0] = r->m + uvcci_at_block(&k[i]);
            k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
            k[i].wire_out[1] = r->out[0].hole[0][1][k[i].block];
        }
        break;
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_RELU: {
        const uvcc_shares *in = uvcci_shares_of(s, d->in[0]);
        if (!take_words(s, r, &r->z) || !take_words(s, r, &r->m))
            return false;
        k = add_op_blocks(b, UVCC_TASK_OPEN2_MASK, 0, UVCCI_ROLE_EDGE, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
            k[i].in[1] = in->hi + uvcci_at_block(&k[i]);
            k[i].out[0] = r->m + uvcci_at_block(&k[i]);
            k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
        }
        break;
    }
    default:
        build_local(b, uvcci_shares_of(s, d->out[0]));
        break;
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

/* The opened value of every block, into z. */
static void build_open_finish(builder *b) {
    uvcci_run *r = b->r;
    uint32_t n;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_OPEN_FINISH, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = r->m + uvcci_at_block(&k[i]);
        k[i].out[0] = r->z + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = uvcci_rx_at(r, r->plan->open_round, 0, 0, k[i].block);
        k[i].wire_in[1] = uvcci_rx_at(r, r->plan->open_round, 0, 1, k[i].block);
    }
    if (n != 0 && !b->failed && r->plan->gate != UVCC_GATE_RELU)
        r->tasks[r->task_count - 1].u.vec.constant = 1ull << 62;
    const uvcci_plan_round *open = &r->plan->rounds[r->plan->open_round];
    uvcci_hash_opened(b, open->vec[0].id, open->stage, r->plan->elems, (const uint8_t *)r->z,
                      UVCC_BLOCK_ELEMS * 8, 64);
}

static bool build_bit(builder *b) {
    uvcci_run *r = b->r;
    uint32_t n;
    if (!uvcci_build_keys(b))
        return false;
    build_open_finish(b);
    r->bits = uvcci_arena_take(&b->s->tensors, bits_bytes(r));
    if (r->bits == NULL)
        return false;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_LESS_MASK, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = r->z + uvcci_at_block(&k[i]);
        k[i].key = uvcci_key_of(r, 0, k[i].block);
        k[i].out_bits = r->bits + (size_t)k[i].block * BITS_STRIDE;
        k[i].wire_out[0] = r->out[0].hole[0][0][k[i].block];
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

/* LIFT_MASK of one vector. */
static void build_lift_mask(builder *b, unsigned vec, unsigned roles, const uint64_t *y,
                            const uvcc_shares *out, int wire_in_round) {
    uvcci_run *r = b->r;
    uint32_t n;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_LIFT_MASK, (uint16_t)vec, roles, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = y + uvcci_at_block(&k[i]);
        k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
        k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].hole[vec][0][k[i].block];
        if (wire_in_round >= 0)
            k[i].wire_in[0] = uvcci_rx_at(r, wire_in_round, vec, 0, k[i].block);
    }
}

/* The tensors that a gate lifts: its outputs, with the edge's shares of them. */
static unsigned lifted(const uvcci_run *r) {
    return r->plan->gate == UVCC_GATE_RELU ? 2 : 1;
}
static const uint64_t *lift_share(const uvcci_run *r, unsigned vec) {
    if (r->plan->gate == UVCC_GATE_RELU)
        return vec == 0 ? r->m : r->d;
    return r->plan->gate == UVCC_GATE_TRUNC_ARS ? r->z : r->m;
}

static bool build_lift(builder *b) {
    uvcci_run *r = b->r;
    const uvcci_plan *p = r->plan;
    uint32_t n;
    uvcc_block *k;
    if (p->bit_round < 0) {
        if (!uvcci_build_keys(b))
            return false;
        build_open_finish(b);
    } else {
        k = add_op_blocks(b, UVCC_TASK_OPEN_BITS, 0, UVCCI_ROLE_EDGE, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in_bits = r->bits + (size_t)k[i].block * BITS_STRIDE;
            k[i].wire_in[0] = uvcci_rx_at(r, p->bit_round, 0, 0, k[i].block);
            k[i].out_bits = opened_bits(r) + (size_t)k[i].block * BITS_STRIDE;
        }
        const uvcci_plan_round *bit = &p->rounds[p->bit_round];
        uvcci_hash_opened(b, bit->vec[0].id, bit->stage, p->elems, opened_bits(r), BITS_STRIDE, 1);
    }
    if (p->gate != UVCC_GATE_RELU) {
        k = add_op_blocks(b, UVCC_TASK_TRUNC, 0, UVCCI_ROLE_EDGE, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = r->z + uvcci_at_block(&k[i]);
            k[i].out[0] = r->m + uvcci_at_block(&k[i]);
            k[i].key = uvcci_key_of(r, 0, k[i].block);
        }
    }
    if (p->bit_round >= 0) {
        bool relu = p->gate == UVCC_GATE_RELU;
        if (relu && !take_words(b->s, r, &r->d))
            return false;
        k = add_op_blocks(b, relu ? UVCC_TASK_RELU : UVCC_TASK_TRUNC_EXACT, 0, UVCCI_ROLE_EDGE, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = (relu ? r->z : r->m) + uvcci_at_block(&k[i]);
            k[i].out[0] = (relu ? r->m : r->z) + uvcci_at_block(&k[i]);
            if (relu)
                k[i].out[1] = r->d + uvcci_at_block(&k[i]);
            k[i].in_bits = r->bits + (size_t)k[i].block * BITS_STRIDE;
            k[i].wire_in[0] = uvcci_rx_at(r, p->bit_round, 0, 0, k[i].block);
            k[i].key = uvcci_key_of(r, 0, k[i].block);
        }
    }
    unsigned roles = p->lift == UVCC_LIFT_SEQUENTIAL ? UVCCI_ROLE_HEAD : UVCCI_ROLE_EDGE;
    for (unsigned v = 0; v < lifted(r); v++)
        build_lift_mask(b, v, roles, lift_share(r, v), uvcci_shares_of(b->s, r->op->desc.out[v]),
                        -1);
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_lift2(builder *b) {
    uvcci_run *r = b->r;
    for (unsigned v = 0; v < lifted(r); v++)
        build_lift_mask(b, v, UVCCI_ROLE_TAIL, lift_share(r, v),
                        uvcci_shares_of(b->s, r->op->desc.out[v]), r->plan->lift_round);
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_finish_output(builder *b) {
    uvcc_session *s = b->s;
    uvcci_run *r = b->r;
    uint32_t n;
    const uvcc_shares *in = uvcci_shares_of(s, r->op->desc.in[0]);
    if (!take_words(s, r, &r->z))
        return false;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_UNPACK, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].wire_in[0] = uvcci_rx_at(r, 0, 0, 0, k[i].block);
        k[i].out[0] = r->z + uvcci_at_block(&k[i]);
    }
    k = add_op_blocks(b, UVCC_TASK_OPEN_ALL_FINISH, 0, UVCCI_ROLE_ALL, &n);
    uint64_t *out = (uint64_t *)r->step->output[r->op->io];
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = in->hi + uvcci_at_block(&k[i]);
        k[i].wire_in[0] = uvcci_rx_at(r, 0, 0, 0, k[i].block);
        k[i].out[0] = out + uvcci_at_block(&k[i]);
    }
    /* The component that this party lacks, hashed as its second holder (the next party) hashed it.
     */
    uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_OPEN_DONE);
    uvcc_hash_item *check = uvcci_add_hash(b), *opened = uvcci_add_hash(b);
    r->bits = NULL;
    if (l == NULL || check == NULL || opened == NULL)
        return false;
    uvcci_writer w = uvcci_writer_on(check->prefix, sizeof check->prefix);
    uvcci_put(&w, "UVCC_CHECK_V1", 13);
    uvcci_put64(&w, stream_of(r));
    uvcci_put8(&w, uvcci_next_party(s));
    check->prefix_len = (uint8_t)w.len;
    check->data = (const uint8_t *)r->z;
    check->len = opened->len = r->plan->elems * 8;
    check->out = r->out[0].digest_hole = uvcci_bump_take(&r->bump, 32);
    l->id = stream_of(r);
    opened->data = (const uint8_t *)out;
    opened->out = l->digest;
    if (check->out == NULL)
        return false;
    uvcci_end_hashes(b);
    return true;
}

static bool build_finish(builder *b) {
    uvcc_session *s = b->s;
    uvcci_run *r = b->r;
    const uvcci_plan *p = r->plan;
    const uvcc_op_desc *d = &r->op->desc;
    uint32_t n;
    uvcc_block *k;
    if (d->opcode == UVCC_OP_OUTPUT)
        return build_finish_output(b);
    if (d->opcode == UVCC_OP_INPUT) {
        const uvcc_shares *out = uvcci_shares_of(s, d->out[0]);
        k = add_op_blocks(b, UVCC_TASK_INPUT, 0, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].wire_in[0] = uvcci_rx_at(r, 0, 0, 0, k[i].block);
            k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
            k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
        }
        return true;
    }
    if (p->open_round < 0) { /* reshare */
        const uvcc_shares *out = uvcci_shares_of(s, d->out[0]);
        k = add_op_blocks(b, UVCC_TASK_UNPACK, 0, UVCCI_ROLE_ALL, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].wire_in[0] = uvcci_rx_at(r, 0, 0, 0, k[i].block);
            k[i].out[0] = out->hi + uvcci_at_block(&k[i]);
        }
        return true;
    }
    static const unsigned receivers[] = {[UVCC_LIFT_PARALLEL] = UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER,
                                         [UVCC_LIFT_SEQUENTIAL] = UVCCI_ROLE_OTHER,
                                         [UVCC_LIFT_EXCHANGE] = UVCCI_ROLE_ALL};
    for (unsigned v = 0; v < lifted(r); v++) {
        const uvcc_shares *out = uvcci_shares_of(s, d->out[v]);
        k = add_op_blocks(b, UVCC_TASK_LIFT_FINISH, (uint16_t)v, receivers[p->lift], &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
            k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
            k[i].wire_in[0] = uvcci_rx_at(r, p->round_count - 1, v, 0, k[i].block);
        }
        uvcci_hash_lifted(b, p->rounds[p->lift_round].vec[v].id, p->elems, out);
    }
    uvcci_end_hashes(b);
    return true;
}

/* ---- running ---- */

/* Whether all rounds that stage `stage` sent (keys: all keys) have come from the peers. */
static bool rounds_came(const uvcci_run *r, unsigned stage, bool keys) {
    const uvcci_plan *p = r->plan;
    unsigned first = keys ? p->round_count : 0;
    unsigned end = keys ? (unsigned)p->round_count + p->key_count : p->round_count;
    for (unsigned i = first; i < end; i++)
        for (unsigned side = 0; side < 2; side++)
            if ((keys || p->rounds[i].stage == stage) &&
                r->rounds[i].got[side] != r->rounds[i].need[side])
                return false;
    return true;
}

static void release_round(uvcc_session *s, uvcci_run *r, unsigned round) {
    uvcci_rx **held = &r->rounds[round].held;
    while (*held != NULL) {
        uvcci_rx *rx = *held;
        *held = rx->next;
        (void)uvcc_link_release(s->peer[rx->peer].link, rx->token, s->now);
        uvcci_wipe(&rx->item, sizeof rx->item); /* it held a leaf salt */
        s->alloc.free(s->alloc.user, rx, sizeof *rx, UVCC_MEM_STATE);
    }
}

/* The round of a sequential lift's second hop: it sends what came. */
static bool second_hop(const uvcci_plan_round *round) {
    return round->vec[0].hop != 0;
}

/* Tells the engines of a round's vectors that their local share is out. */
static void engines_sent(uvcci_run *r, const uvcci_plan_round *round) {
    for (unsigned v = 0; v < round->vec_count; v++)
        for (uint32_t i = 0; i < round->blocks; i++) {
            uvcci_engine *e = engine_at(r, &round->vec[v], i);
            if (!second_hop(round)) {
                int rc = uvcci_engine_local(e);
                assert(rc == 0);
                (void)rc;
            }
            (void)uvcci_engine_take_sends(e);
        }
}

/* Every engine has sent and got all. */
static bool engines_done(uvcci_run *r) {
    for (unsigned i = 0; i < r->plan->round_count; i++)
        for (unsigned v = 0; v < r->plan->rounds[i].vec_count; v++)
            for (uint32_t b = 0; b < r->plan->rounds[i].blocks; b++)
                if (!uvcci_engine_done(engine_at(r, &r->plan->rounds[i].vec[v], b)))
                    return false;
    return true;
}

static void run_done(uvcc_session *s, uvcci_run *r) {
    uvcci_step *st = r->step;
    assert(engines_done(r));
    free_scratch(s, r);
    uvcci_bump_reset(&r->bump);
    r->stage = UVCCI_STAGE_DONE;
    r->depth += r->plan->stages;
    if (r->depth > st->depth)
        st->depth = r->depth;
    st->runs_done++;
    if (r->op->desc.opcode == UVCC_OP_OUTPUT)
        uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_OUTPUT,
                                          .run = s->run,
                                          .step = st->number,
                                          .id = st->entry->outputs[r->op->io].id});
    for (uint32_t i = 0; i < r->op->touched_count; i++) {
        uint32_t owner = r->op->touched[i];
        uvcci_buffer *buf = &s->buffers[owner];
        const uvcci_tensor *t = &s->program->tensors[owner];
        if (--buf->uses_left == 0 && t->desc.lifetime == UVCC_EPOCH) {
            uvcci_arena_give(&s->tensors, buf->shares.lo, t->elems * 8);
            uvcci_arena_give(&s->tensors, buf->shares.hi, t->elems * 8);
            buf->shares = (uvcc_shares){0};
        }
    }
    for (uint32_t i = 0; i < r->op->succ_count; i++) {
        uvcci_run *next = &st->runs[st->entry->succ[r->op->succ_first + i]];
        if (r->depth > next->depth)
            next->depth = r->depth;
        if (--next->preds_left == 0)
            uvcci_run_wake(next);
    }
}

/* Leaves and sends the messages of one round that the stage filled. */
static void send_round(uvcc_session *s, uvcci_run *r, uvcci_batch_out *out) {
    const uvcci_plan_round *round = out->round;
    for (uint32_t i = 0; i < out->count; i++) {
        uvcci_tx *tx = &out->tx[i];
        uint32_t row = r->row0 + tx->b;
        uint32_t op_id = r->step->table.rows[row].op_id;
        if (uvcci_audit_on(s)) {
            uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
            uint16_t chunks = (uint16_t)((tx->len + UVCC_CHUNK_BYTES - 1) / UVCC_CHUNK_BYTES);
            uint32_t msg_id =
                uvcci_msg_id(round->kind, s->sid_sub, op_id, s->party, tx->dst, 0, chunks);
            size_t n = uvcci_leaf_batch(leaf, sent_leaf(round->kind), s->sid_sub, op_id, s->party,
                                        tx->dst, msg_id, tx->digest);
            uvcci_leaf(s, r->step, row, leaf, n);
        }
        uvcc_link_msg *msg = tx->msg;
        tx->msg = NULL;
        uvcci_send(s, tx->dst, msg, round->kind, tx->len, r->step->number, op_id,
                   (uint64_t)r->step->number << 32 | (uint64_t)r->index << 6 | round->stage);
        if (uvcci_failed(s))
            return;
    }
    engines_sent(r, round);
}

/* What follows a stage's job: leaves, messages, the consumed rounds. */
static void stage_done(uvcc_session *s, uvcci_run *r) {
    if (r->op->desc.opcode == UVCC_OP_OUTPUT && finishes(r) &&
        !uvcci_ct_equal(r->out[0].digest_hole, r->rx_digest, 32)) {
        uvcci_abort(s, UVCC_ABORT_OPEN_MISMATCH,
                    "the two holders of an opened component sent different values");
        return;
    }
    if (uvcci_audit_on(s))
        uvcci_leaves_write(s, r, r->leaves);
    r->leaves = NULL;
    for (unsigned k = 0; k < UVCCI_STAGE_ROUNDS && r->out[k].round != NULL; k++) {
        send_round(s, r, &r->out[k]);
        if (uvcci_failed(s))
            return;
    }
    memset(r->out, 0, sizeof r->out);
    for (unsigned i = 0; i < r->plan->round_count; i++)
        if (r->plan->rounds[i].stage + 1u == r->stage)
            release_round(s, r, i);
    for (unsigned i = 0; reads_keys(r) && i < r->plan->key_count; i++)
        release_round(s, r, r->plan->round_count + i);
    if (r->stage == r->plan->stages) {
        run_done(s, r);
    } else {
        r->stage++;
        uvcci_run_wake(r);
    }
}

void uvcci_op_job_done(uvcc_session *s, uvcci_run *r) {
    r->job_out = false;
    stage_done(s, r);
}

/* Whether the stage may be built now, apart from memory and room in the links. */
static bool stage_ready(const uvcc_session *s, const uvcci_run *r) {
    if (r->stage != 0 && !rounds_came(r, r->stage - 1u, false))
        return false;
    if (reads_keys(r) && !rounds_came(r, 0, true))
        return false;
    if (r->op->desc.opcode == UVCC_OP_INPUT && r->stage == 0 &&
        uvcci_role_at(s, r, 0) == UVCCI_HEAD && r->step->input[r->op->io] == NULL)
        return false;
    return true;
}

/* Messages for all rounds that the stage sends. */
static int open_rounds(uvcc_session *s, uvcci_run *r) {
    const uvcci_plan *p = r->plan;
    unsigned n = 0;
    int rc = 0;
    for (unsigned i = 0; i < p->round_count && rc == 0; i++)
        if (p->rounds[i].stage == r->stage)
            rc = uvcci_batch_open(s, r, &p->rounds[i], &r->bump, &r->out[n++]);
    for (unsigned k = 0; rc != 0 && k < n; k++)
        uvcci_batch_drop(s, &r->out[k]);
    return rc;
}

static bool build_stage(builder *b) {
    const uvcci_run *r = b->r;
    if (r->plan->function != NULL)
        return uvcci_function_build(b);
    if (r->plan->keyless)
        return uvcci_circuit_build(b);
    if (r->stage == 0)
        return build_mask(b);
    if (finishes(r))
        return build_finish(b);
    if (r->stage == r->plan->bit_round)
        return build_bit(b);
    return r->stage == r->plan->lift_round ? build_lift(b) : build_lift2(b);
}

/* True if the run changed state. */
static bool run_advance(uvcc_session *s, uvcci_run *r) {
    if (r->job_out || r->stage == UVCCI_STAGE_DONE || r->preds_left != 0 || !stage_ready(s, r))
        return false;
    if (uvcci_jobs_full(&s->jobs)) {
        uvcci_run_wake(r);
        return false;
    }
    int rc = open_rounds(s, r);
    if (rc == UVCC_ERR_AGAIN) {
        uvcci_run_wake(r);
        return false;
    }
    if (rc != 0) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a message");
        return true;
    }
    unsigned steps = r->plan->function != NULL ? r->plan->function->step_count : 0;
    builder b = {.s = s, .r = r, .task_cap = 24 + 5 * steps};
    r->task_count = 0;
    r->tasks = uvcci_bump_take(&r->bump, b.task_cap * sizeof r->tasks[0]);
    if (r->tasks == NULL || !build_stage(&b) || b.failed) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a compute job");
        return true;
    }
    if (r->task_count == 0) {
        stage_done(s, r);
        return true;
    }
    r->job_out = true;
    uvcci_jobs_push(&s->jobs, r->tasks, r->task_count, UVCCI_JOB_OP, r);
    return true;
}

bool uvcci_ops_advance(uvcc_session *s) {
    uvcci_step *st = &s->ctx[s->step & 1];
    bool any = false;
    if (!st->active || !st->running)
        return false;
    for (uint32_t w = 0; w < st->ready_words; w++) {
        uint64_t bits = st->ready[w];
        st->ready[w] &= ~bits;
        while (bits != 0 && !uvcci_failed(s)) {
            unsigned i = (unsigned)__builtin_ctzll(bits);
            bits &= bits - 1;
            any |= run_advance(s, &st->runs[w * 64 + i]);
        }
    }
    return any;
}

/* ---- receiving ---- */

uint16_t uvcci_op_receive(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    uvcci_step *st = uvcci_step_of(s, m->step);
    const uvcci_oprow *row = st != NULL ? uvcci_optable_find(&st->table, m->op_id) : NULL;
    if (row == NULL)
        return UVCC_ABORT_UNKNOWN_OP;
    uvcci_run *r = &st->runs[st->entry->by_ordinal[row->ordinal]];
    uint32_t part;
    const uvcci_plan_round *round = uvcci_plan_find(r->plan, m->kind, row->b, &part);
    if (round == NULL)
        return UVCC_ABORT_PLAN;
    bool keys = uvcci_plan_is_keys(r->plan, round);
    uvcci_run_round *in = &r->rounds[round - r->plan->rounds];
    unsigned side = uvcci_side(s, peer);
    uint64_t bit = 1ull << part;
    if ((in->need[side] & bit) == 0 || (in->seen[side] & bit) != 0)
        return UVCC_ABORT_PLAN;
    if (uvcc_blv1_check(m->data, m->len, NULL) < 0)
        return UVCC_ABORT_BATCH;

    uvcci_bump scratch;
    uvcci_bump_init(&scratch, &s->alloc);
    uvcci_plan_tlv *list =
        uvcci_bump_take(&scratch, uvcci_plan_tlvs_max(r->plan, round) * sizeof *list);
    uvcci_rx *rx = s->alloc.alloc(s->alloc.user, sizeof *rx, UVCC_MEM_STATE);
    uint16_t reason = UVCC_ABORT_NONE;
    if (list == NULL || rx == NULL) {
        reason = UVCC_ABORT_MEMORY;
    } else {
        size_t bytes;
        uint32_t n = uvcci_plan_list(r->plan, &r->ids, round, part, peer, s->party, list, &bytes);
        uvcc_blv1_reader rd;
        uvcc_tlv t;
        uvcc_blv1_reader_init(&rd, m->data, m->len);
        uint32_t i = 0;
        if (bytes != m->len)
            reason = UVCC_ABORT_PLAN;
        while (reason == UVCC_ABORT_NONE && uvcc_blv1_next(&rd, &t) == 1) {
            const uvcc_tlv *want = &list[i].t;
            if (i == n || t.type != want->type || t.id != want->id || t.aux != want->aux ||
                t.round != want->round || t.bits != want->bits || t.first != want->first ||
                t.count != want->count) {
                reason = UVCC_ABORT_PLAN;
                break;
            }
            const uvcci_flow *f = &uvcci_protocol_flows(
                (uvcci_protocol)round->vec[list[i].vec].protocol, &(unsigned){0})[list[i].flow];
            if (list[i].more) {
                i++;
                continue;
            }
            if (t.type == UVCC_TLV_DIGEST)
                r->rx_digest = t.data;
            else if (!keys)
                in->at[list[i].vec][in_slot(f)][list[i].block] = t.data;
            /* A digest speaks of the whole stream, so of every block. */
            bool whole = t.type == UVCC_TLV_DIGEST;
            uint32_t first = whole ? 0 : list[i].block;
            uint32_t end = whole ? round->blocks : list[i].block + 1;
            for (uint32_t k = first; !keys && k < end; k++)
                if (uvcci_engine_receive(engine_at(r, &round->vec[list[i].vec], k),
                                         uvcci_role_of(peer, r->ids.edge[k]), f->hop, t.type) != 0)
                    reason = UVCC_ABORT_PLAN;
            i++;
        }
        if (reason == UVCC_ABORT_NONE && i != n)
            reason = UVCC_ABORT_PLAN;
    }
    uvcci_bump_reset(&scratch);
    if (reason != UVCC_ABORT_NONE) {
        if (rx != NULL)
            s->alloc.free(s->alloc.user, rx, sizeof *rx, UVCC_MEM_STATE);
        return reason;
    }
    in->seen[side] |= bit;
    *rx = (uvcci_rx){.run = r,
                     .round = round,
                     .part = part,
                     .b = row->b,
                     .peer = peer,
                     .data = m->data,
                     .len = m->len,
                     .msg_id = m->msg_ids[0],
                     .token = m->token};
    if (keys || !uvcci_audit_on(s)) {
        uvcci_op_rx_hashed(s, rx);
        return UVCC_ABORT_NONE;
    }
    rx->item = (uvcc_hash_item){
        .mode = UVCC_HASH_SALTED, .data = m->data, .len = m->len, .out = rx->digest};
    memcpy(rx->item.key, st->salt[peer], 32);
    rx->task = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &rx->item, .count = 1}};
    rx->next = NULL;
    uvcci_rx **tail = &s->rx_pending;
    while (*tail != NULL)
        tail = &(*tail)->next;
    *tail = rx;
    return UVCC_ABORT_NONE;
}

void uvcci_op_rx_hashed(uvcc_session *s, uvcci_rx *rx) {
    uvcci_run *r = rx->run;
    bool keys = uvcci_plan_is_keys(r->plan, rx->round);
    uvcci_run_round *in = &r->rounds[rx->round - r->plan->rounds];
    unsigned side = uvcci_side(s, rx->peer);
    if (!keys && uvcci_audit_on(s) && !UVCCI_MUTANT(12)) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        uint32_t row = r->row0 + rx->b;
        size_t n = uvcci_leaf_batch(leaf, (uint8_t)(sent_leaf(rx->round->kind) + 1), s->sid_sub,
                                    r->step->table.rows[row].op_id, rx->peer, s->party, rx->msg_id,
                                    rx->digest);
        uvcci_leaf(s, r->step, row, leaf, n);
    }
    rx->next = in->held;
    in->held = rx;
    int rc = uvcc_link_accept(s->peer[rx->peer].link, rx->token, s->now);
    assert(rc == 0);
    (void)rc;
    in->got[side] |= 1ull << rx->part;
    uvcci_run_wake(r);
}

void uvcci_run_free(uvcc_session *s, uvcci_run *r) {
    const unsigned rounds = (unsigned)r->plan->round_count + r->plan->key_count;
    for (unsigned k = 0; k < UVCCI_STAGE_ROUNDS; k++)
        uvcci_batch_drop(s, &r->out[k]);
    for (unsigned i = 0; r->rounds != NULL && i < rounds; i++)
        release_round(s, r, i);
    free_scratch(s, r);
    uvcci_deal_free(s, r);
    uvcci_bump_reset(&r->bump);
}
