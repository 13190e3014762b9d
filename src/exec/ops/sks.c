/* SPDX-License-Identifier: Apache-2.0 */
/* sks.c - SKS_START and SKS_GEMM_CHECK: the integrity check of a product C = op(A) op(B) before its
 * truncation (Freivalds, with random bit matrices; docs/protocols.md).
 *
 * START reads A, B and C: it makes the check's own triple, commits to all of them, tosses a coin,
 * and if the coin selects this product multiplies the tensors by the bit matrices U and V that the
 * coin gives. Then the tensors are free. CHECK with the same three tensors waits for the verdict,
 * and only the end of the step waits for it. What START makes is START's; CHECK uses it and gives
 * it back.
 *
 * START, with op(A) rows x inner, op(B) inner x cols:
 *   0  the triple X (64 x inner), Y (inner x 64, kept as its transpose), X Y reshared; hashes of
 *      this party's components of A, B and C; the root of those of its lo and its commitment.
 *   1  the next party's root is compared with that of our hi. Opens the coin.
 *   2  the seed. Selected: E = U^T A - X and F^T = (B V)^T - Y^T in shares, T = U^T C V.
 * CHECK:
 *   0  E and F^T are opened to all, cross-checked like outputs.
 *   1  Z = T - (X Y + E Y + X F + E F) in shares; both others get a keyed digest of the three
 *      components that Z = 0 would have.
 *   2  theirs are compared with what they must be.
 * X Y is fixed before the coin, so whoever made C wrong cannot make the check wrong to match: after
 * the coin all that is sent are values that two parties hold. */
#include "exec/ops/families.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"
#include "exec/program/op_way.h"
#include "exec/program/plan_maker.h"

#include "proto/bytes.h"
#include "proto/coin.h"
#include "proto/prg.h"
#include <assert.h>
#include <string.h>

enum { T = 64, TT = T * T, TENSORS = 3 }; /* T: columns of U and V */
enum { PERMILLE_MAX = 1000 };
enum { LO = 0, HI = 1 }; /* components */
enum { LANE_OWN_SHARE = 1, LANE_U = 0, LANE_V = 1 };
/* rounds and vectors, as the plans below have them */
enum { ROUND_TRIPLE = 0, ROUND_COMMIT = 1, ROUND_SHARE = 2 };     /* of START */
enum { ROUND_E = 0, ROUND_F = 1, OPENED = 2, ROUND_VERDICT = 2 }; /* of CHECK */
enum { VEC_ROOT = 0, VEC_COMMIT = 1 };

/* Of op(A), rows x inner, and op(B), inner x cols. */
typedef struct sks_shape {
    uint32_t rows, inner, cols;
} sks_shape;

/* What a START makes; the step's memory, until its check is done. */
typedef struct sks {
    sks_shape shape;
    uvcci_coin coin;
    bool selected;
    uint8_t hashed[2][TENSORS][32]; /* of lo and hi of A, B, C */
    uint8_t own[2][32];             /* roots of lo and hi */
    uint8_t roots[3][32];           /* by component, as their first holders sent them */
    uint8_t seed[32];
    uint8_t expect[2][32]; /* what the peers' digests of Z must be */
    /* TENSOR memory */
    uvcc_shares x, y; /* the triple, T x inner each */
    uvcc_shares xy, t, g;
    uint64_t *z;                /* by component */
    uvcc_shares opened[OPENED]; /* E and F^T, T x inner each; in lo once they are open */
    uvcc_shares half;           /* (C V)^T, T x rows */
    void *mem[3];
    size_t mem_bytes[3];
} sks;

enum { MEM_TRIPLE, MEM_OPENED, MEM_HALF };

static sks_shape shape_of(const uvcc_program *p, const uvcc_op_desc *op) {
    const uvcc_tensor_desc *a = &p->tensors[op->in[0]].desc, *b = &p->tensors[op->in[1]].desc;
    const bool ta = (op->flags & UVCC_OP_TRANS_A) != 0, tb = (op->flags & UVCC_OP_TRANS_B) != 0;
    return (sks_shape){.rows = ta ? a->cols : a->rows,
                       .inner = ta ? a->rows : a->cols,
                       .cols = tb ? b->rows : b->cols};
}

/* ---- what they ask of the program ---- */

static int check_start(const uvcci_op_check *c) {
    if (c->d->constant < 0 || c->d->constant > PERMILLE_MAX)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s: %lld permille; 0 to %u are possible",
                          c->label, (long long)c->d->constant, PERMILLE_MAX);
    const sks_shape shape = shape_of(c->p, c->d);
    return uvcci_want_shape(c, c->in[2], shape.rows, shape.cols);
}

static bool same_tensors(const uvcc_op_desc *a, const uvcc_op_desc *b) {
    return memcmp(a->in, b->in, 3 * sizeof a->in[0]) == 0;
}

/* The START before a CHECK with the same tensors that no other CHECK waits for. */
static uint32_t start_before(const uvcci_entry *e, uint32_t i) {
    const uvcc_op_desc *d = &e->ops[i].desc;
    for (uint32_t j = i; j-- > 0;) {
        const uvcci_op *op = &e->ops[j];
        if (op->desc.opcode == UVCC_OP_SKS_START && op->partner == UVCCI_NO_OP &&
            same_tensors(&op->desc, d))
            return j;
    }
    return UVCCI_NO_OP;
}

/* Whether what made C is the untruncated product of the A and B that START reads. */
static int check_product(const uvcci_entry *e, uint32_t i, const uint32_t *writers,
                         const uvcci_message *m) {
    const uint32_t writer = writers[e->ops[i].desc.in[2]];
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    const uvcci_op *op = &e->ops[i];
    if (writer == UVCCI_NO_OP)
        return uvcci_fail(m, UVCC_ERR_PROGRAM, "%s: no op of entry %s makes the product it checks",
                          uvcci_op_label(op, label), e->name);
    const uvcci_op *made = &e->ops[writer];
    if (made->desc.opcode != UVCC_OP_GEMM_SS || made->desc.shift != 0 || made->desc.heads != 0)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "%s checks what %s makes; it must be one GEMM_SS without a shift",
                          uvcci_op_label(op, label), uvcci_op_label(made, other));
    const uint8_t transposes = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B;
    bool same = ((made->desc.flags ^ op->desc.flags) & transposes) == 0;
    for (unsigned k = 0; k < 2; k++)
        same =
            same && made->desc.in[k] == op->desc.in[k] && made->in_version[k] == op->in_version[k];
    if (!same)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "%s: %s multiplies other tensors, or they have changed since",
                          uvcci_op_label(op, label), uvcci_op_label(made, other));
    return 0;
}

static int check_awaited(const uvcci_entry *e, uint32_t i, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    if (e->ops[i].partner != UVCCI_NO_OP)
        return 0;
    return uvcci_fail(m, UVCC_ERR_PROGRAM, "%s: no SKS_GEMM_CHECK after it waits for its verdict",
                      uvcci_op_label(&e->ops[i], label));
}

/* ---- plans: both ops of a check work on vectors of T x inner ---- */

/* A digest from each party to both others. */
static void add_digest(uvcci_draft *d, uvcci_plan_round *r, uvcci_stream_name stream,
                       uint8_t what) {
    uvcci_draft_vec(d, r, UVCCI_PROTO_DIGEST_ALL, 0, uvcci_draft_id(d, false, stream, 0, false, 1),
                    8)
        ->what = what;
}

static void set_length(uvcci_draft *d, const uvcc_op_desc *start) {
    uvcci_plan *plan = d->plan;
    plan->elems = (uint64_t)T * shape_of(d->p, start).inner;
    plan->blocks = uvcci_blocks(plan->elems);
    plan->turns = 2;
}

static uvcci_plan_round *add_round(uvcci_draft *d, uint64_t elems, uint8_t turn) {
    return uvcci_draft_round(d, d->rounds, &d->plan->round_count, elems, turn);
}

static int plan_start(uvcci_draft *d) {
    if (d->op->partner == UVCCI_NO_OP)
        return UVCC_ERR_PROGRAM;
    set_length(d, &d->op->desc);
    for (uint16_t tensor = 0; tensor < TENSORS; tensor++)
        uvcci_draft_id(d, true, UVCCI_STREAM_COIN, tensor, false, 1); /* of the commitments */
    uvcci_draft_vec(d, add_round(d, TT, 0), UVCCI_PROTO_RESHARE, 0, UVCCI_ID_TILE, 64);
    uvcci_plan_round *commit = add_round(d, 1, 0);
    add_digest(d, commit, UVCCI_STREAM_COIN, UVCCI_DIGEST_CHECK);
    add_digest(d, commit, UVCCI_STREAM_COIN, UVCCI_DIGEST_COIN_COMMIT);
    add_digest(d, add_round(d, 1, 1), UVCCI_STREAM_COIN, UVCCI_DIGEST_COIN_SHARE);
    return 0;
}

static int plan_check(uvcci_draft *d) {
    static const uvcci_stream_name streams[OPENED] = {UVCCI_STREAM_SKS_E, UVCCI_STREAM_SKS_F};
    if (d->op->partner == UVCCI_NO_OP)
        return UVCC_ERR_PROGRAM;
    set_length(d, &d->e->ops[d->op->partner].desc);
    for (unsigned k = 0; k < OPENED; k++)
        uvcci_draft_vec(d, add_round(d, d->plan->elems, 0), UVCCI_PROTO_OPEN_ALL, 0,
                        uvcci_draft_id(d, false, streams[k], 0, false, d->plan->blocks), 64);
    add_digest(d, add_round(d, 1, 1), UVCCI_STREAM_SKS_Z, UVCCI_DIGEST_SKS);
    return 0;
}

/* ---- state ---- */

static bool starts(const uvcci_instance *r) {
    return r->op->desc.opcode == UVCC_OP_SKS_START;
}

/* The instance of the START of either op. */
static uvcci_instance *start_of(const uvcci_instance *r) {
    const uint32_t index = starts(r) ? r->index : r->op->partner;
    assert(index <= r->index); /* it comes before its check */
    return uvcci_instance_of(r->step, index);
}

/* NULL before START's turn 0, so for good where only triples are made. */
static sks *state_of(const uvcci_instance *r) {
    return start_of(r)->state;
}

/* The coin is known, and did not select the product. */
static bool unselected(const uvcci_instance *r) {
    const sks *k = state_of(r);
    return start_of(r)->turn == UVCCI_TURN_DONE && k != NULL && !k->selected;
}

static bool skips(const uvcci_instance *r) {
    return r->turn == 0 && unselected(r);
}

/* Nobody opens before our commitment is out. */
static bool start_refuses(const uvcci_instance *r, unsigned round) {
    assert(round <= ROUND_SHARE);
    return round == ROUND_SHARE && r->turn == 0;
}

/* E and F take our share of the coin, the verdict takes what we open. */
static bool check_refuses(const uvcci_instance *r, unsigned round) {
    assert(round <= ROUND_VERDICT);
    if (round == ROUND_VERDICT)
        return r->turn == 0;
    return start_of(r)->turn < 2 || unselected(r);
}

/* ---- memory ---- */

/* Vectors of some words each in one block. */
static bool take(uvcc_session *s, sks *k, unsigned which, size_t words) {
    assert(k->mem[which] == NULL);
    k->mem_bytes[which] = words * 8;
    k->mem[which] = uvcci_arena_take(&s->tensors, words * 8);
    return k->mem[which] != NULL;
}

static uint64_t *cut(uint64_t **from, size_t words) {
    assert(*from != NULL);
    uint64_t *p = *from;
    *from += words;
    return p;
}

static uvcc_shares cut_shares(uint64_t **from, size_t words) {
    uint64_t *lo = cut(from, words);
    return (uvcc_shares){.lo = lo, .hi = cut(from, words)};
}

static void give(uvcc_session *s, sks *k, unsigned which) {
    uvcci_arena_give(&s->tensors, k->mem[which], k->mem_bytes[which]);
    k->mem[which] = NULL;
}

static bool take_triple(uvcc_session *s, sks *k) {
    const size_t n = (size_t)T * k->shape.inner;
    if (!take(s, k, MEM_TRIPLE, 4 * n + 9 * TT))
        return false;
    uint64_t *at = k->mem[MEM_TRIPLE];
    k->x = cut_shares(&at, n);
    k->y = cut_shares(&at, n);
    k->xy = cut_shares(&at, TT);
    k->t = cut_shares(&at, TT);
    k->g = cut_shares(&at, TT);
    k->z = at;
    assert(k->z + 3 * TT == (uint64_t *)k->mem[MEM_TRIPLE] + 4 * n + 9 * TT);
    return true;
}

static bool take_products(uvcc_session *s, sks *k) {
    const size_t n = (size_t)T * k->shape.inner, half = (size_t)T * k->shape.rows;
    if (!take(s, k, MEM_OPENED, 4 * n) || !take(s, k, MEM_HALF, 2 * half))
        return false;
    uint64_t *at = k->mem[MEM_OPENED];
    k->opened[0] = cut_shares(&at, n);
    k->opened[1] = cut_shares(&at, n);
    at = k->mem[MEM_HALF];
    k->half = cut_shares(&at, half);
    return true;
}

static void free_start(uvcc_session *s, uvcci_instance *r) {
    sks *k = r->state;
    if (k == NULL)
        return;
    for (unsigned i = 0; i < sizeof k->mem / sizeof k->mem[0]; i++)
        give(s, k, i);
    uvcci_wipe(&k->coin, sizeof k->coin);
}

/* What no check will read. */
static void start_done(uvcc_session *s, uvcci_instance *r) {
    assert(r->state != NULL);
    if (state_of(r)->selected)
        give(s, r->state, MEM_HALF);
    else
        free_start(s, r);
}

static void check_done(uvcc_session *s, uvcci_instance *r) {
    free_start(s, start_of(r));
}

/* ---- tasks ---- */

static void map(uvcci_builder *b, uint8_t op, uint32_t cols, uvcc_shares x, uvcc_shares y,
                uvcc_shares out) {
    (void)uvcci_task_map(b, op, T, cols, &x, &y, &out); /* b->failed */
}

/* z = x_lo (y_lo + y_hi)^T + x_hi y_lo^T, all T x inner but z. */
static void product(uvcci_builder *b, uvcc_shares x, uvcc_shares y, uint64_t *z) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_GEMM, 0);
    if (t == NULL)
        return;
    t->u.gemm.m = t->u.gemm.n = T;
    t->u.gemm.k = state_of(b->r)->shape.inner;
    t->u.gemm.trans_y = true;
    t->u.gemm.x = x;
    t->u.gemm.y = y;
    t->u.gemm.z = z;
}

static void bit_sums(uvcci_builder *b, uint8_t lane, uint32_t rows, uint32_t cols, bool trans,
                     uvcc_shares x, uvcc_shares out) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_BIT_SUMS, 0);
    if (t == NULL)
        return;
    memcpy(t->u.bits.key, state_of(b->r)->seed, 16);
    t->u.bits.lane = lane;
    t->u.bits.rows = rows;
    t->u.bits.cols = cols;
    t->u.bits.trans = trans;
    t->u.bits.x = x;
    t->u.bits.out = out;
}

static void hash_item(uvcci_builder *b, const uvcc_hash_item *item) {
    uvcc_hash_item *it = uvcci_add_hash(b);
    if (it != NULL)
        *it = *item;
}

/* ---- START ---- */

static void toss(uvcc_session *s, uvcci_instance *r) {
    uint64_t word[4];
    uint8_t share[32];
    uvcci_aes own;
    uvcci_aes_init(&own, r->step->keys.prg[UVCC_PAIR_OWN][UVCC_TAG_own], UVCCI_AES_AUTO);
    uvcci_prg_fill(&own, (uvcci_prg_at){.ordinal = r->ordinal, .lane = LANE_OWN_SHARE}, 0, word, 4);
    for (unsigned i = 0; i < 4; i++)
        uvcci_st64(share + 8 * i, word[i]);
    uvcci_coin_init(&state_of(r)->coin, s->sid_sub, r->step->number, s->run, r->op_id, s->party,
                    share);
    uvcci_wipe(&own, sizeof own);
    uvcci_wipe(word, sizeof word);
    uvcci_wipe(share, sizeof share);
}

static void build_triple(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    sks *k = state_of(r);
    const uvcc_shares factor[2] = {k->x, k->y};
    uint32_t n;
    for (uint8_t i = 0; i < 2; i++) {
        uvcc_block *at = uvcci_add_blocks(b, i == 0 ? UVCC_TASK_TRIPLE_A : UVCC_TASK_TRIPLE_B, 0,
                                          UVCCI_ROLE_ALL, r->plan->elems, &n);
        for (uint32_t j = 0; j < n; j++)
            uvcci_set_mask(&at[j], factor[i].lo, factor[i].hi);
    }
    product(b, k->x, k->y, k->xy.lo);
    uvcc_block *at = uvcci_add_blocks(b, UVCC_TASK_TRIPLE_C, 0, UVCCI_ROLE_ALL, TT, &n);
    for (uint32_t j = 0; j < n; j++)
        uvcci_set_reshare(&at[j], k->xy.lo, k->xy.lo,
                          uvcci_sent_at(r, ROUND_TRIPLE, 0, UVCCI_FIRST, at[j].block));
}

/* Salted hashes of both components of the tensors, and of these the roots. */
static void build_roots(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    sks *k = state_of(r);
    for (unsigned c = 0; c < 2; c++)
        for (uint16_t i = 0; i < TENSORS; i++) {
            const uint32_t tensor = r->op->desc.in[i];
            const uvcc_shares *v = uvcci_shares_of(b->s, tensor);
            uvcc_hash_item it = {.data = (const uint8_t *)(c == LO ? v->lo : v->hi),
                                 .len = b->s->program->tensors[tensor].elems * 8,
                                 .out = k->hashed[c][i]};
            uvcci_begin_commit(&it);
            uvcci_commit_key(r, c, i, 0, it.key);
            hash_item(b, &it);
        }
    uvcci_end_hashes(b);
    const uint64_t stream = r->ids.id[r->plan->rounds[ROUND_COMMIT].vec[VEC_ROOT].id][0];
    for (uint8_t c = 0; c < 2; c++) {
        uvcc_hash_item it = {.mode = UVCC_HASH_TREE,
                             .data = (const uint8_t *)k->hashed[c],
                             .len = sizeof k->hashed[c],
                             .out = k->own[c]};
        uvcci_writer w = uvcci_writer_on(it.prefix, sizeof it.prefix);
        uvcci_put(&w, "UVCC_CHECK_V2", 13);
        uvcci_put64(&w, stream);
        uvcci_put8(&w, (uint8_t)((b->s->party + c) % 3u));
        it.prefix_len = (uint8_t)w.len;
        hash_item(b, &it);
    }
    uvcci_end_hashes(b);
}

/* The root of our first component, to both. */
static void copy_root(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uvcc_copy_item *items = uvcci_bump_take(&r->turn_bump, 2 * sizeof *items);
    if (items == NULL) {
        b->failed = true;
        return;
    }
    for (unsigned side = 0; side < 2; side++)
        items[side] = (uvcc_copy_item){.dst = uvcci_digest_at(r, ROUND_COMMIT, VEC_ROOT, side),
                                       .src = state_of(r)->own[LO],
                                       .len = sizeof state_of(r)->own[LO]};
    (void)uvcci_task_copy(b, items, 2); /* b->failed */
}

static void build_commit(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    sks *k = r->state = uvcci_bump_take(&r->step->bump, sizeof *k);
    if (k != NULL)
        k->shape = shape_of(b->s->program, &r->op->desc);
    if (k == NULL || !take_triple(b->s, k)) {
        b->failed = true;
        return;
    }
    toss(b->s, r);
    for (unsigned side = 0; side < 2; side++)
        memcpy(uvcci_digest_at(r, ROUND_COMMIT, VEC_COMMIT, side), uvcci_coin_commit(&k->coin), 32);
    build_triple(b);
    build_roots(b);
    copy_root(b);
}

static void build_share(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uint8_t *share = uvcci_coin_open(&state_of(r)->coin);
    assert(share != NULL);
    for (unsigned side = 0; side < 2; side++)
        memcpy(uvcci_digest_at(r, ROUND_SHARE, 0, side), share, 32);
    uvcci_task_unpack(b, 0, ROUND_TRIPLE, state_of(r)->xy.hi);
}

static void build_products(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    sks *k = state_of(r);
    const uvcc_op_desc *d = &r->op->desc;
    const uvcc_shares a = *uvcci_shares_of(b->s, d->in[0]), bb = *uvcci_shares_of(b->s, d->in[1]),
                      c = *uvcci_shares_of(b->s, d->in[2]);
    const bool ta = (d->flags & UVCC_OP_TRANS_A) != 0, tb = (d->flags & UVCC_OP_TRANS_B) != 0;
    const sks_shape *n = &k->shape;
    if (!k->selected)
        return;
    if (!take_products(b->s, k)) {
        b->failed = true;
        return;
    }
    bit_sums(b, LANE_U, n->rows, n->inner, ta, a, k->opened[0]);
    bit_sums(b, LANE_V, n->cols, n->inner, !tb, bb, k->opened[1]);
    bit_sums(b, LANE_V, n->cols, n->rows, true, c, k->half);
    bit_sums(b, LANE_U, n->rows, T, true, k->half, k->t);
    map(b, UVCC_MAP_SUB, n->inner, k->opened[0], k->x, k->opened[0]);
    map(b, UVCC_MAP_SUB, n->inner, k->opened[1], k->y, k->opened[1]);
}

/* ---- CHECK ---- */

static void build_open(uvcci_builder *b) {
    const sks *k = state_of(b->r);
    assert(k != NULL && k->selected);
    for (unsigned v = 0; v < OPENED; v++) {
        uvcci_task_pack(b, ROUND_E + v, k->opened[v].lo);
        if (!uvcci_hash_held(b, ROUND_E + v, b->s->party, k->opened[v].hi,
                             uvcci_digest_at(b->r, ROUND_E + v, 0, UVCCI_PREV)))
            b->failed = true;
    }
    uvcci_end_hashes(b);
}

/* E or F^T, in lo; the component that we lacked, in hi, is hashed as its other holder hashed it. */
static void finish_open(uvcci_builder *b, unsigned v) {
    const uvcc_shares *o = &state_of(b->r)->opened[v];
    uvcci_task_open_all_finish(b, 0, ROUND_E + v, o, o->lo);
    uvcci_task_unpack(b, 0, ROUND_E + v, o->hi);
    if (!uvcci_hash_opened_to_all(b, ROUND_E + v, o->hi, o->lo))
        b->failed = true;
}

/* One component of E Y + X F, and of E F where it is component 0: as product() of (E, X) and
 * (F, Y - F), or (F, Y). */
static void build_component(uvcci_builder *b, unsigned c) {
    sks *k = state_of(b->r);
    uint64_t *e = k->opened[0].lo, *f = k->opened[1].lo;
    uint64_t *x = c == LO ? k->x.lo : k->x.hi, *y = c == LO ? k->y.lo : k->y.hi;
    if ((b->s->party + c) % 3u != 0)
        map(b, UVCC_MAP_SUB, k->shape.inner, (uvcc_shares){.lo = y}, (uvcc_shares){.lo = f},
            (uvcc_shares){.lo = y});
    product(b, (uvcc_shares){.lo = e, .hi = x}, (uvcc_shares){.lo = f, .hi = y},
            c == LO ? k->g.lo : k->g.hi);
}

/* z_p and z_(p+1) where they belong, and what z_(p+2) is if their sum is 0. */
static void build_z(uvcci_builder *b) {
    sks *k = state_of(b->r);
    const unsigned p = b->s->party;
    uint64_t *third = k->z + (p + 2u) % 3u * TT;
    const uvcc_shares z = {.lo = k->z + p * TT, .hi = k->z + (p + 1u) % 3u * TT};
    map(b, UVCC_MAP_SUB, T, k->t, k->xy, k->t);
    map(b, UVCC_MAP_SUB, T, k->t, k->g, z);
    map(b, UVCC_MAP_ADD, T, (uvcc_shares){.lo = z.lo}, (uvcc_shares){.lo = z.hi},
        (uvcc_shares){.lo = third});
    map(b, UVCC_MAP_SCALE, T, (uvcc_shares){.lo = third}, (uvcc_shares){0},
        (uvcc_shares){.lo = third});
    if (!b->failed)
        uvcci_last_task(b)->u.map.constant = 0 - (uint64_t)1;
}

/* HMAC-SHA256(S of (src, dst), "SKS" || U8 src || LE32 op_id || z_0 || z_1 || z_2). */
static void hash_z(uvcci_builder *b, uint8_t peer, uint8_t src, uint8_t *out) {
    uvcc_hash_item it = {.mode = UVCC_HASH_HMAC,
                         .data = (const uint8_t *)state_of(b->r)->z,
                         .len = 3 * TT * 8,
                         .out = out};
    uvcci_writer w = uvcci_writer_on(it.prefix, sizeof it.prefix);
    uvcci_put(&w, "SKS", 3);
    uvcci_put8(&w, src);
    uvcci_put32(&w, b->r->op_id);
    it.prefix_len = (uint8_t)w.len;
    memcpy(it.key, b->r->step->salt[peer], 32);
    hash_item(b, &it);
}

static void build_verdict(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    const uint8_t peer[2] = {uvcci_next_party(b->s), uvcci_prev_party(b->s)};
    for (unsigned v = 0; v < OPENED; v++)
        finish_open(b, v);
    uvcci_end_hashes(b);
    build_component(b, LO);
    build_component(b, HI);
    build_z(b);
    for (unsigned side = 0; side < 2; side++) {
        hash_z(b, peer[side], b->s->party, uvcci_digest_at(r, ROUND_VERDICT, 0, side));
        hash_z(b, peer[side], peer[side], state_of(r)->expect[side]);
    }
    uvcci_end_hashes(b);
}

static bool build_start(uvcci_builder *b) {
    static void (*const turns[])(uvcci_builder *) = {build_commit, build_share, build_products};
    assert(b->r->turn < sizeof turns / sizeof turns[0]);
    turns[b->r->turn](b);
    return uvcci_end_turn(b);
}

/* The last turn computes nothing: it is for the verdicts that came. */
static bool build_check(uvcci_builder *b) {
    static void (*const turns[])(uvcci_builder *) = {build_open, build_verdict};
    if (b->r->turn < sizeof turns / sizeof turns[0])
        turns[b->r->turn](b);
    return uvcci_end_turn(b);
}

/* ---- what came, and what follows ---- */

static void verdict(uvcc_session *s, uvcci_instance *r, uint8_t ok) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    uvcci_leaf(s, r->step, r->row0, leaf, uvcci_leaf_sks_verdict(leaf, s->sid_sub, r->op_id, ok));
}

/* A check that fails says so in the transcript before the session ends. False, for its caller to
 * return. */
static bool fail(uvcc_session *s, uvcci_instance *r, const char *text) {
    verdict(s, r, 0);
    uvcci_abort(s, UVCC_ABORT_SKS, text);
    return false;
}

static bool take_commits(uvcc_session *s, uvcci_instance *r) {
    sks *k = state_of(r);
    if (!uvcci_ct_equal(uvcci_digest_from(r, ROUND_COMMIT, VEC_ROOT, UVCCI_NEXT), k->own[HI], 32))
        return fail(s, r, "two parties hold different components of a product or its factors");
    memcpy(k->roots[s->party], k->own[LO], 32);
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t peer = side == UVCCI_NEXT ? uvcci_next_party(s) : uvcci_prev_party(s);
        memcpy(k->roots[peer], uvcci_digest_from(r, ROUND_COMMIT, VEC_ROOT, side), 32);
        if ((k->coin.committed >> peer & 1) == 0) /* else an earlier try found no room */
            (void)uvcci_coin_on_commit(&k->coin, peer,
                                       uvcci_digest_from(r, ROUND_COMMIT, VEC_COMMIT, side));
    }
    return true;
}

static bool take_shares(uvcc_session *s, uvcci_instance *r) {
    sks *k = state_of(r);
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t peer = side == UVCCI_NEXT ? uvcci_next_party(s) : uvcci_prev_party(s);
        if (uvcci_coin_on_share(&k->coin, peer, uvcci_digest_from(r, ROUND_SHARE, 0, side)) != 0) {
            uvcci_abort(s, UVCC_ABORT_COIN, "a coin's share is not what was committed to");
            return false;
        }
    }
    int rc = uvcci_coin_seed(&k->coin, (const uint8_t *)k->roots, k->seed);
    assert(rc == 0); /* all shares are here */
    (void)rc;
    k->selected = uvcci_coin_selects(k->seed, (uint32_t)r->op->desc.constant);
    return true;
}

static bool take_verdicts(uvcc_session *s, uvcci_instance *r) {
    const sks *k = state_of(r);
    for (unsigned side = 0; side < 2; side++)
        if (!uvcci_ct_equal(k->expect[side], uvcci_digest_from(r, ROUND_VERDICT, 0, side), 32))
            return fail(s, r, "the check of a product failed");
    verdict(s, r, 1);
    return true;
}

static bool take_start(uvcc_session *s, uvcci_instance *r) {
    if (r->turn == 0)
        return true;
    assert(r->turn <= 2);
    return r->turn == 1 ? take_commits(s, r) : take_shares(s, r);
}

/* A check that is skipped takes nothing, so nothing may have come. */
static bool take_check(uvcc_session *s, uvcci_instance *r) {
    if (r->turn == 2)
        return take_verdicts(s, r);
    for (unsigned side = 0; skips(r) && side < 2; side++)
        if (r->rounds[ROUND_E].seen[side] != 0 || r->rounds[ROUND_F].seen[side] != 0) {
            uvcci_abort(s, UVCC_ABORT_PLAN, "a peer checks a product that the coin did not select");
            return false;
        }
    return true;
}

static void leaves_of_commits(uvcc_session *s, uvcci_instance *r) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    for (unsigned c = 0; c < 2; c++)
        for (unsigned i = 0; i < TENSORS; i++)
            uvcci_leaf(s, r->step, r->row0, leaf,
                       uvcci_leaf_component_commit(leaf, s->sid_sub, r->op_id, r->ids.id[i][0],
                                                   (uint8_t)((s->party + c) % 3u),
                                                   state_of(r)->hashed[c][i]));
}

static void leaf_of_triple(uvcc_session *s, const uvcci_instance *start) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    const uint64_t id = uvcci_triple_id(s->sid_sub, start->step->number, start->op_id, 0);
    uvcci_leaf(s, start->step, start->row0, leaf,
               uvcci_leaf_triple_consumed(leaf, s->sid_sub, start->op_id, id));
}

static bool start_computed(uvcc_session *s, uvcci_instance *r) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    if (r->turn == 0)
        leaves_of_commits(s, r);
    else if (r->turn == 2)
        uvcci_leaf(s, r->step, r->row0, leaf,
                   uvcci_leaf_sks_coin(leaf, s->sid_sub, r->op_id, state_of(r)->seed));
    return true;
}

static bool check_computed(uvcc_session *s, uvcci_instance *r) {
    if (r->turn == 0)
        leaf_of_triple(s, start_of(r));
    return true;
}

/* ---- the family ---- */

/* From the START on until its CHECK is done. */
static uint64_t start_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    const sks_shape shape = shape_of(p, &op->desc);
    const uint64_t n = (uint64_t)T * shape.inner, half = (uint64_t)T * shape.rows;
    (void)plan;
    return uvcci_arena_rounded((4 * n + 9 * TT) * 8) + uvcci_arena_rounded(4 * n * 8) +
           uvcci_arena_rounded(2 * half * 8);
}

static const uvcci_op_way start_way = {.tensor_bytes = start_bytes,
                                       .tensors_stay = true,
                                       .step_bytes = sizeof(sks),
                                       .take = take_start,
                                       .build = build_start,
                                       .computed = start_computed,
                                       .done = start_done,
                                       .free = free_start,
                                       .refuses = start_refuses};
static const uvcci_op_way check_way = {.skips = skips,
                                       .take = take_check,
                                       .build = build_check,
                                       .computed = check_computed,
                                       .done = check_done,
                                       .refuses = check_refuses};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_SKS_START,
     .traits = UVCCI_USES_CONSTANT | UVCCI_PLANS_BY_ENTRY,
     .flags = UVCC_OP_TRANS_A | UVCC_OP_TRANS_B,
     .check = check_start,
     .check_versions = check_product,
     .check_partner = check_awaited,
     .plan = plan_start,
     .way = &start_way},
    {.opcode = UVCC_OP_SKS_GEMM_CHECK,
     .traits = UVCCI_PLANS_BY_ENTRY,
     .partner = start_before,
     .plan = plan_check,
     .way = &check_way},
};
const uvcci_op_family uvcci_ops_sks = UVCCI_FAMILY(classes);
