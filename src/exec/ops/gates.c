/* op_gates.c - ops that are no functions: inputs and outputs, products, truncations, ReLU, local
 * ops, turn by turn. */
#include "exec/runtime/builder.h"

#include "proto/bytes.h"

typedef uvcci_builder builder;

/* ---- tensors ---- */

static uvcc_block *add_op_blocks(builder *b, uint16_t kind, uint16_t call, unsigned roles,
                                 uint32_t *count) {
    return uvcci_add_blocks(b, kind, call, roles, b->r->plan->elems, count);
}

static bool take_words(uvcc_session *s, uvcci_instance *r, uint64_t **p) {
    if (*p == NULL)
        *p = uvcci_arena_take(&s->tensors, r->plan->elems * 8);
    return *p != NULL;
}

enum { BITS_STRIDE = UVCC_BLOCK_ELEMS / 8 };

static size_t bits_bytes(const uvcci_instance *r) {
    return (size_t)r->plan->blocks * BITS_STRIDE * 2;
}

/* Opened bits stand behind this party's masked ones. */
static uint8_t *opened_bits(const uvcci_instance *r) {
    return r->bits + (size_t)r->plan->blocks * BITS_STRIDE;
}

void uvcci_gate_free(uvcc_session *s, uvcci_instance *r) {
    size_t words = r->plan->elems * 8;
    uvcci_arena_give(&s->tensors, r->z, words);
    uvcci_arena_give(&s->tensors, r->m, words);
    uvcci_arena_give(&s->tensors, r->d, words);
    uvcci_arena_give(&s->tensors, r->bits, bits_bytes(r));
    r->z = r->m = r->d = NULL;
    r->bits = NULL;
}

/* ---- the turns ---- */

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
static void build_local(builder *b, const uvcc_shares *x, const uvcc_shares *y,
                        const uvcc_shares *out) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *in = &b->s->program->tensors[d->in[0]];
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
    /* A few rows in turn for all of x are one long row, one value for all of x a short one. */
    uint32_t rows = in->desc.rows, cols = in->desc.cols, turns = 1;
    if (d->opcode == UVCC_OP_BIAS_ADD)
        turns = b->s->program->tensors[d->in[1]].desc.rows;
    else if (d->opcode == UVCC_OP_REDUCE_BIAS_GRAD)
        turns = b->s->program->tensors[d->out[0]].desc.rows;
    rows /= turns;
    cols *= turns;
    if (d->opcode == UVCC_OP_COL_MUL && b->s->program->tensors[d->in[1]].elems == 1) {
        rows *= cols;
        cols = 1;
    }
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (maps[i].opcode == d->opcode)
            build_map(b, maps[i].map, rows, cols, x, y, out, d->shift);
}

static uvcc_gemm_layout layout_of(const uvcc_op_desc *d, unsigned operand,
                                  const uvcc_tensor_desc *t) {
    const uint64_t rows = uvcci_gemm_rows(d, operand, t), cols = uvcci_gemm_cols(d, operand, t);
    const bool stacked = (d->flags & UVCC_OP_STACKED_A << operand) != 0;
    return (uvcc_gemm_layout){.ld = t->cols,
                              .group = t->rows / d->row_groups * (uint64_t)t->cols,
                              .head = stacked ? rows * t->cols : cols};
}

/* z = or += the op's product of matrices, or its products of blocks. */
static bool build_gemm(builder *b, const uvcc_shares *xs, const uvcc_shares *ys, uint64_t *z,
                       bool accumulate) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const uvcc_tensor_desc *x = &ts[d->in[0]].desc, *y = &ts[d->in[1]].desc,
                           *out = &ts[d->out[0]].desc;
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_GEMM, 0);
    if (t == NULL)
        return false;
    bool ta = (d->flags & UVCC_OP_TRANS_A) != 0;
    t->u.gemm.m = (uint32_t)uvcci_gemm_rows(d, 2, out);
    t->u.gemm.n = (uint32_t)uvcci_gemm_cols(d, 2, out);
    t->u.gemm.k = (uint32_t)(ta ? uvcci_gemm_rows(d, 0, x) : uvcci_gemm_cols(d, 0, x));
    t->u.gemm.trans_x = ta;
    t->u.gemm.trans_y = (d->flags & UVCC_OP_TRANS_B) != 0;
    t->u.gemm.accumulate = accumulate;
    t->u.gemm.x = *xs;
    t->u.gemm.y = *ys;
    t->u.gemm.z = z;
    if (d->heads == 0)
        return true;
    t->u.gemm.groups = d->row_groups;
    t->u.gemm.heads = d->heads;
    t->u.gemm.lx = layout_of(d, 0, x);
    t->u.gemm.ly = layout_of(d, 1, y);
    t->u.gemm.lz = layout_of(d, 2, out);
    return true;
}

/* GEMM_PART: the product is the tensor, perhaps on top of another. */
static bool build_part(builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ts = b->s->program->tensors;
    const uvcc_shares *out = uvcci_shares_of(b->s, d->out[0]);
    const bool accumulate = d->in_count == 3;
    if (accumulate && ts[d->in[2]].buffer != ts[d->out[0]].buffer)
        build_map(b, UVCC_MAP_COPY, ts[d->out[0]].desc.rows, ts[d->out[0]].desc.cols,
                  uvcci_shares_of(b->s, d->in[2]), NULL, out, 0);
    return build_gemm(b, uvcci_shares_of(b->s, d->in[0]), uvcci_shares_of(b->s, d->in[1]), out->lo,
                      accumulate);
}

bool uvcci_build_product(builder *b, const uvcc_shares *x, const uvcc_shares *y, uint64_t *z) {
    if (b->r->op->desc.opcode == UVCC_OP_GEMM_SS)
        return build_gemm(b, x, y, z, false);
    build_local(b, x, y, &(uvcc_shares){.lo = z});
    return true;
}

/* RESHARE_MASK of a 3-additive vector. */
static void build_reshare_mask(builder *b, const uint64_t *z) {
    uvcci_instance *r = b->r;
    const uvcc_shares *out = uvcci_shares_of(b->s, r->op->desc.out[0]);
    uint32_t n;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_RESHARE_MASK, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = z + uvcci_at_block(&k[i]);
        k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
    }
}

/* OPEN4_MASK of a 3-additive vector, into m. */
static bool build_open4_mask(builder *b, const uint64_t *z) {
    uvcci_instance *r = b->r;
    uint32_t n;
    if (!take_words(b->s, r, &r->m))
        return false;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_OPEN4_MASK, 0, UVCCI_ROLE_ALL, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = z + uvcci_at_block(&k[i]);
        k[i].out[0] = r->m + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
        k[i].wire_out[1] = r->out[0].span[0][1][k[i].block];
    }
    return true;
}

static bool build_product(builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    return take_words(b->s, b->r, &b->r->z) &&
           uvcci_build_product(b, uvcci_shares_of(b->s, d->in[0]), uvcci_shares_of(b->s, d->in[1]),
                               b->r->z);
}

/* ---- openings to all ---- */

/* The stream of a round's one vector. */
static uint64_t stream_of(const uvcci_instance *r, unsigned round) {
    return r->ids.id[r->plan->rounds[round].vec[0].id][0];
}

bool uvcci_hash_held(builder *b, unsigned round, uint8_t src, const uint64_t *data, uint8_t *out) {
    uvcc_hash_item *it = uvcci_add_hash(b);
    if (it == NULL)
        return false;
    uvcci_writer w = uvcci_writer_on(it->prefix, sizeof it->prefix);
    uvcci_put(&w, "UVCC_CHECK_V1", 13);
    uvcci_put64(&w, stream_of(b->r, round));
    uvcci_put8(&w, src);
    it->prefix_len = (uint8_t)w.len;
    it->data = (const uint8_t *)data;
    it->len = b->r->plan->rounds[round].elems * 8;
    it->out = out;
    return true;
}

bool uvcci_hash_opened_to_all(builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened) {
    uvcci_instance *r = b->r;
    uint8_t *check = uvcci_bump_take(&r->bump, 32);
    uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_OPEN_DONE);
    if (check == NULL || l == NULL || !uvcci_hash_held(b, round, uvcci_next_party(b->s), c, check))
        return false;
    uvcc_hash_item *it = uvcci_add_hash(b);
    if (it == NULL)
        return false;
    r->rounds[round].check = check;
    l->id = stream_of(r, round);
    l->round = r->plan->rounds[round].vec[0].stream_round;
    it->data = (const uint8_t *)opened;
    it->len = r->plan->rounds[round].elems * 8;
    it->out = l->digest;
    return true;
}

bool uvcci_build_open2(builder *b, const uvcc_shares *in) {
    uvcci_instance *r = b->r;
    uint32_t n;
    if (!take_words(b->s, r, &r->z) || !take_words(b->s, r, &r->m))
        return false;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_OPEN2_MASK, 0, UVCCI_ROLE_EDGE, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
        k[i].in[1] = in->hi + uvcci_at_block(&k[i]);
        k[i].out[0] = r->m + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
    }
    return true;
}

static bool build_mask(builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
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
            k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
            k[i].wire_out[1] = r->out[0].span[0][1][k[i].block];
        }
        break;
    }
    case UVCC_OP_OUTPUT: {
        const uvcc_shares *in = uvcci_shares_of(s, d->in[0]);
        k = add_op_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_ALL, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = in->lo + uvcci_at_block(&k[i]);
            k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
        }
        if (!uvcci_hash_held(b, 0, s->party, in->hi, r->out[0].digest[0][1]))
            return false;
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
        if (r->plan->open_round < 0)
            build_reshare_mask(b, r->z);
        else if (!build_open4_mask(b, r->z))
            return false;
        break;
    case UVCC_OP_RESHARE:
        build_reshare_mask(b, uvcci_shares_of(s, d->in[0])->lo);
        break;
    case UVCC_OP_GEMM_PART:
        if (!build_part(b))
            return false;
        break;
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_RELU: {
        const uvcc_shares *in = uvcci_shares_of(s, d->in[0]);
        if (!take_words(s, r, &r->z))
            return false;
        if (r->plan->compact ? !build_open4_mask(b, in->lo) : !uvcci_build_open2(b, in))
            return false;
        break;
    }
    default:
        build_local(b, uvcci_shares_of(s, d->in[0]),
                    d->in_count > 1 ? uvcci_shares_of(s, d->in[1]) : NULL,
                    uvcci_shares_of(s, d->out[0]));
        break;
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

/* The opened value of every block, into z. */
static void build_open_finish(builder *b) {
    uvcci_instance *r = b->r;
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
    uvcci_hash_opened(b, open->vec[0].id, open->turn, r->plan->elems, (const uint8_t *)r->z,
                      UVCC_BLOCK_ELEMS * 8, 64);
}

static bool build_bit(builder *b) {
    uvcci_instance *r = b->r;
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
        k[i].wire_out[0] = r->out[0].span[0][0][k[i].block];
    }
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

/* LIFT_MASK of one vector. */
static void build_lift_mask(builder *b, unsigned vec, unsigned roles, const uint64_t *y,
                            const uvcc_shares *out, int wire_in_round) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_LIFT_MASK, (uint16_t)vec, roles, &n);
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = y + uvcci_at_block(&k[i]);
        k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
        k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
        k[i].wire_out[0] = r->out[0].span[vec][0][k[i].block];
        if (wire_in_round >= 0)
            k[i].wire_in[0] = uvcci_rx_at(r, wire_in_round, vec, 0, k[i].block);
    }
}

/* The tensors that a gate lifts: its outputs, with the edge's shares of them. */
static unsigned lifted(const uvcci_instance *r) {
    return r->plan->gate == UVCC_GATE_RELU ? 2 : 1;
}
static const uint64_t *lift_share(const uvcci_instance *r, unsigned vec) {
    if (r->plan->gate == UVCC_GATE_RELU)
        return vec == 0 ? r->m : r->d;
    return r->plan->gate == UVCC_GATE_TRUNC_ARS ? r->z : r->m;
}

/* Takes the comparison bit off m; the key streams begin with the DCF's key. */
static bool build_floor(builder *b) {
    uvcci_instance *r = b->r;
    uint32_t n;
    uvcc_fn_args *args = uvcci_bump_take(&r->bump, sizeof *args);
    uvcc_block *k = add_op_blocks(b, UVCC_TASK_FN_FLOOR, 0, UVCCI_ROLE_EDGE, &n);
    if (args == NULL)
        return false;
    *args = (uvcc_fn_args){.shift = r->plan->shift};
    if (n != 0)
        r->tasks[r->task_count - 1].u.vec.fn = args;
    for (uint32_t i = 0; i < n; i++) {
        k[i].in[0] = r->z + uvcci_at_block(&k[i]);
        k[i].in[1] = k[i].out[0] = r->m + uvcci_at_block(&k[i]);
        k[i].key = uvcci_key_of(r, 0, k[i].block);
    }
    return true;
}

static bool build_lift(builder *b) {
    uvcci_instance *r = b->r;
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
        uvcci_hash_opened(b, bit->vec[0].id, bit->turn, p->elems, opened_bits(r), BITS_STRIDE, 1);
    }
    if (p->gate != UVCC_GATE_RELU) {
        k = add_op_blocks(b, UVCC_TASK_TRUNC, 0, UVCCI_ROLE_EDGE, &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].in[0] = r->z + uvcci_at_block(&k[i]);
            k[i].out[0] = r->m + uvcci_at_block(&k[i]);
            k[i].key = uvcci_key_of(r, 0, k[i].block);
        }
    }
    if (p->gate == UVCC_GATE_TRUNC_DCF && !build_floor(b))
        return false;
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
    uvcci_instance *r = b->r;
    for (unsigned v = 0; v < lifted(r); v++)
        build_lift_mask(b, v, UVCCI_ROLE_TAIL, lift_share(r, v),
                        uvcci_shares_of(b->s, r->op->desc.out[v]), r->plan->lift_round);
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return true;
}

static bool build_finish_output(builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
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
    r->bits = NULL;
    if (!uvcci_hash_opened_to_all(b, 0, r->z, out))
        return false;
    uvcci_end_hashes(b);
    return true;
}

static bool build_finish(builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
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
    const unsigned last_lift =
        (unsigned)p->lift_round + (p->lift == UVCC_LIFT_SEQUENTIAL ? 1u : 0u);
    for (unsigned v = 0; v < lifted(r); v++) {
        const uvcc_shares *out = uvcci_shares_of(s, d->out[v]);
        k = add_op_blocks(b, UVCC_TASK_LIFT_FINISH, (uint16_t)v, receivers[p->lift], &n);
        for (uint32_t i = 0; i < n; i++) {
            k[i].out[0] = out->lo + uvcci_at_block(&k[i]);
            k[i].out[1] = out->hi + uvcci_at_block(&k[i]);
            k[i].wire_in[0] = uvcci_rx_at(r, last_lift, v, 0, k[i].block);
        }
        uvcci_hash_lifted(b, p->rounds[p->lift_round].vec[v].id, p->elems, out);
    }
    uvcci_end_hashes(b);
    return true;
}

/* Whether the present turn sends that round of the plan (-1: there is none). */
static bool sends(const uvcci_instance *r, int round) {
    return round >= 0 && r->plan->rounds[round].turn == r->turn;
}

bool uvcci_gate_build(builder *b) {
    const uvcci_instance *r = b->r;
    if (r->turn == 0)
        return build_mask(b);
    if (uvcci_finishes(r))
        return build_finish(b);
    if (sends(r, r->plan->bit_round))
        return build_bit(b);
    return sends(r, r->plan->lift_round) ? build_lift(b) : build_lift2(b);
}
