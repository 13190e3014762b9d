/* op_sks.c - the turns of SKS_START and SKS_GEMM_CHECK; see sks.h.
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
#include "exec/runtime/builder.h"

#include <assert.h>

#include "proto/bytes.h"
#include "proto/prg.h"

enum { T = UVCCI_SKS_T, TT = UVCCI_SKS_TT, TENSORS = 3, NEXT = 0, PREV = 1 };
enum { LO = 0, HI = 1 }; /* components */
enum { LANE_OWN_SHARE = 1, LANE_U = 0, LANE_V = 1 };
/* rounds and vectors, as in plan.c */
enum { ROUND_TRIPLE = 0, ROUND_COMMIT = 1, ROUND_SHARE = 2 };     /* of START */
enum { ROUND_E = 0, ROUND_F = 1, OPENED = 2, ROUND_VERDICT = 2 }; /* of CHECK */
enum { VEC_ROOT = 0, VEC_COMMIT = 1 };

struct uvcci_sks {
    uvcci_sks_shape shape;
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
};

enum { MEM_TRIPLE, MEM_OPENED, MEM_HALF };

static bool starts(const uvcci_instance *r) {
    return r->op->desc.opcode == UVCC_OP_SKS_START;
}

/* The run of the START of either op. */
static uvcci_instance *start_of(const uvcci_instance *r) {
    return &r->step->instances[starts(r) ? r->index : r->op->partner];
}

static struct uvcci_sks *state_of(const uvcci_instance *r) {
    return start_of(r)->sks;
}

/* The coin is known, and did not select the product. */
static bool unselected(const uvcci_instance *r) {
    const struct uvcci_sks *k = state_of(r); /* none where only triples are made */
    return start_of(r)->turn == UVCCI_TURN_DONE && k != NULL && !k->selected;
}

bool uvcci_sks_skips(const uvcci_instance *r) {
    return !starts(r) && r->turn == 0 && unselected(r);
}

bool uvcci_sks_refuses(const uvcci_instance *r, unsigned round) {
    if (starts(r)) /* nobody opens before our commitment is out */
        return round == ROUND_SHARE && r->turn == 0;
    const uvcci_instance *start = start_of(r);
    if (round != ROUND_VERDICT) /* they take our share of the coin */
        return start->turn < 2 || unselected(r);
    return r->turn == 0; /* it takes what we open */
}

/* ---- memory ---- */

/* Vectors of some words each in one block. */
static bool take(uvcc_session *s, struct uvcci_sks *k, unsigned which, size_t words) {
    k->mem_bytes[which] = words * 8;
    k->mem[which] = uvcci_arena_take(&s->tensors, words * 8);
    return k->mem[which] != NULL;
}

static uint64_t *cut(uint64_t **from, size_t words) {
    uint64_t *p = *from;
    *from += words;
    return p;
}

static uvcc_shares cut_shares(uint64_t **from, size_t words) {
    uint64_t *lo = cut(from, words);
    return (uvcc_shares){.lo = lo, .hi = cut(from, words)};
}

static void give(uvcc_session *s, struct uvcci_sks *k, unsigned which) {
    uvcci_arena_give(&s->tensors, k->mem[which], k->mem_bytes[which]);
    k->mem[which] = NULL;
}

static bool take_triple(uvcc_session *s, struct uvcci_sks *k) {
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
    return true;
}

static bool take_products(uvcc_session *s, struct uvcci_sks *k) {
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

void uvcci_sks_free(uvcc_session *s, uvcci_instance *r) {
    if (r->sks == NULL)
        return;
    for (unsigned i = 0; i < 3; i++)
        give(s, r->sks, i);
    uvcci_wipe(&r->sks->coin, sizeof r->sks->coin);
}

void uvcci_sks_end(uvcc_session *s, uvcci_instance *r) {
    if (starts(r) && state_of(r)->selected)
        give(s, r->sks, MEM_HALF);
    else
        uvcci_sks_free(s, start_of(r));
}

/* ---- tasks ---- */

static void map(uvcci_builder *b, uint8_t op, uint32_t cols, uvcc_shares x, uvcc_shares y,
                uvcc_shares out) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_MAP, 0);
    if (t == NULL)
        return;
    t->u.map.op = op;
    t->u.map.rows = T;
    t->u.map.cols = cols;
    t->u.map.party = b->s->party;
    t->u.map.x = x;
    t->u.map.y = y;
    t->u.map.out = out;
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
    uvcci_coin_init(&r->sks->coin, s->sid_sub, r->step->number, s->run, r->op_id, s->party, share);
    uvcci_wipe(&own, sizeof own);
    uvcci_wipe(word, sizeof word);
    uvcci_wipe(share, sizeof share);
}

static void build_triple(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    struct uvcci_sks *k = r->sks;
    const uvcc_shares factor[2] = {k->x, k->y};
    uint32_t n;
    for (uint8_t i = 0; i < 2; i++) {
        uvcc_block *at = uvcci_add_blocks(b, i == 0 ? UVCC_TASK_TRIPLE_A : UVCC_TASK_TRIPLE_B, 0,
                                          UVCCI_ROLE_ALL, r->plan->elems, &n);
        for (uint32_t j = 0; j < n; j++) {
            at[j].out[0] = factor[i].lo + uvcci_at_block(&at[j]);
            at[j].out[1] = factor[i].hi + uvcci_at_block(&at[j]);
        }
    }
    product(b, k->x, k->y, k->xy.lo);
    uvcc_block *at = uvcci_add_blocks(b, UVCC_TASK_TRIPLE_C, 0, UVCCI_ROLE_ALL, TT, &n);
    if (at == NULL)
        return;
    at->in[0] = at->out[0] = k->xy.lo;
    at->wire_out[0] = r->out[ROUND_TRIPLE].span[0][0][0];
}

/* Salted hashes of both components of the tensors, and of these the roots. */
static void build_roots(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    struct uvcci_sks *k = r->sks;
    for (unsigned c = 0; c < 2; c++)
        for (uint16_t i = 0; i < TENSORS; i++) {
            const uint32_t tensor = r->op->desc.in[i];
            const uvcc_shares *v = uvcci_shares_of(b->s, tensor);
            uvcc_hash_item it = {.mode = UVCC_HASH_HMAC,
                                 .data = (const uint8_t *)(c == LO ? v->lo : v->hi),
                                 .len = b->s->program->tensors[tensor].elems * 8,
                                 .out = k->hashed[c][i]};
            uvcci_commit_key(r, c, i, 0, it.key);
            hash_item(b, &it);
        }
    uvcci_end_hashes(b);
    const uint64_t stream = r->ids.id[r->plan->rounds[ROUND_COMMIT].vec[VEC_ROOT].id][0];
    for (uint8_t c = 0; c < 2; c++) {
        uvcc_hash_item it = {
            .data = (const uint8_t *)k->hashed[c], .len = sizeof k->hashed[c], .out = k->own[c]};
        uvcci_writer w = uvcci_writer_on(it.prefix, sizeof it.prefix);
        uvcci_put(&w, "UVCC_CHECK_V1", 13);
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
    uvcc_copy_item *items = uvcci_bump_take(&r->bump, 2 * sizeof *items);
    uvcc_task *t = items != NULL ? uvcci_add_task(b, UVCC_TASK_COPY, 0) : NULL;
    if (t == NULL) {
        b->failed = true;
        return;
    }
    for (unsigned side = 0; side < 2; side++)
        items[side] = (uvcc_copy_item){
            .dst = r->out[ROUND_COMMIT].digest[VEC_ROOT][side], .src = r->sks->own[LO], .len = 32};
    t->u.copy.items = items;
    t->u.copy.count = 2;
}

static void build_commit(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    r->sks = uvcci_bump_take(&r->step->bump, sizeof *r->sks);
    if (r->sks != NULL)
        r->sks->shape = uvcci_sks_shape_of(b->s->program, &r->op->desc);
    if (r->sks == NULL || !take_triple(b->s, r->sks)) {
        b->failed = true;
        return;
    }
    toss(b->s, r);
    for (unsigned side = 0; side < 2; side++)
        memcpy(r->out[ROUND_COMMIT].digest[VEC_COMMIT][side], uvcci_coin_commit(&r->sks->coin), 32);
    build_triple(b);
    build_roots(b);
    copy_root(b);
}

static void build_share(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    uint32_t n;
    const uint8_t *share = uvcci_coin_open(&r->sks->coin);
    assert(share != NULL);
    for (unsigned side = 0; side < 2; side++)
        memcpy(r->out[0].digest[0][side], share, 32);
    uvcc_block *at = uvcci_add_blocks(b, UVCC_TASK_UNPACK, 0, UVCCI_ROLE_ALL, TT, &n);
    if (at == NULL)
        return;
    at->wire_in[0] = uvcci_rx_at(r, ROUND_TRIPLE, 0, 0, 0);
    at->out[0] = r->sks->xy.hi;
}

static void build_products(uvcci_builder *b) {
    uvcci_instance *r = b->r;
    struct uvcci_sks *k = r->sks;
    const uvcc_op_desc *d = &r->op->desc;
    const uvcc_shares a = *uvcci_shares_of(b->s, d->in[0]), bb = *uvcci_shares_of(b->s, d->in[1]),
                      c = *uvcci_shares_of(b->s, d->in[2]);
    const bool ta = (d->flags & UVCC_OP_TRANS_A) != 0, tb = (d->flags & UVCC_OP_TRANS_B) != 0;
    const uvcci_sks_shape *n = &k->shape;
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
    uvcci_instance *r = b->r;
    struct uvcci_sks *k = state_of(r);
    uint32_t n;
    for (unsigned v = 0; v < OPENED; v++) {
        uvcc_block *at = uvcci_add_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_ALL, r->plan->elems, &n);
        for (uint32_t i = 0; i < n; i++) {
            at[i].in[0] = k->opened[v].lo + uvcci_at_block(&at[i]);
            at[i].wire_out[0] = r->out[v].span[0][0][at[i].block];
        }
        if (!uvcci_hash_held(b, v, b->s->party, k->opened[v].hi, r->out[v].digest[0][PREV]))
            b->failed = true;
    }
    uvcci_end_hashes(b);
}

/* E or F^T, in lo; the component that we lacked, in hi, is hashed as its other holder hashed it. */
static void finish_open(uvcci_builder *b, unsigned v) {
    uvcci_instance *r = b->r;
    const uvcc_shares o = state_of(r)->opened[v];
    const uint16_t kinds[2] = {UVCC_TASK_OPEN_ALL_FINISH, UVCC_TASK_UNPACK};
    uint32_t n;
    for (unsigned pass = 0; pass < 2; pass++) {
        uvcc_block *at = uvcci_add_blocks(b, kinds[pass], 0, UVCCI_ROLE_ALL, r->plan->elems, &n);
        for (uint32_t i = 0; i < n; i++) {
            const size_t first = uvcci_at_block(&at[i]);
            at[i].in[0] = o.lo + first;
            at[i].in[1] = o.hi + first;
            at[i].wire_in[0] = uvcci_rx_at(r, v, 0, 0, at[i].block);
            at[i].out[0] = (pass == 0 ? o.lo : o.hi) + first;
        }
    }
    if (!uvcci_hash_opened_to_all(b, v, o.hi, o.lo))
        b->failed = true;
}

/* One component of E Y + X F, and of E F where it is component 0: as product() of (E, X) and
 * (F, Y - F), or (F, Y). */
static void build_component(uvcci_builder *b, unsigned c) {
    struct uvcci_sks *k = state_of(b->r);
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
    struct uvcci_sks *k = state_of(b->r);
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
        b->r->tasks[b->r->task_count - 1].u.map.constant = 0 - (uint64_t)1;
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
        hash_z(b, peer[side], b->s->party, r->out[0].digest[0][side]);
        hash_z(b, peer[side], peer[side], state_of(r)->expect[side]);
    }
    uvcci_end_hashes(b);
}

bool uvcci_sks_build(uvcci_builder *b) {
    static void (*const turns[2][3])(uvcci_builder *) = {
        {build_commit, build_share, build_products}, {build_open, build_verdict, NULL}};
    void (*build)(uvcci_builder *) = turns[starts(b->r) ? 0 : 1][b->r->turn];
    if (build != NULL)
        build(b);
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return !b->failed;
}

/* ---- what came, and what follows ---- */

static void verdict(uvcc_session *s, uvcci_instance *r, uint8_t ok) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    uvcci_leaf(s, r->step, r->row0, leaf, uvcci_leaf_sks_verdict(leaf, s->sid_sub, r->op_id, ok));
}

static bool fail(uvcc_session *s, uvcci_instance *r, const char *text) {
    verdict(s, r, 0);
    uvcci_abort(s, UVCC_ABORT_SKS, text);
    return false;
}

static bool take_commits(uvcc_session *s, uvcci_instance *r) {
    const uvcci_instance_round *in = &r->rounds[ROUND_COMMIT];
    struct uvcci_sks *k = r->sks;
    if (!uvcci_ct_equal(in->digest[VEC_ROOT][NEXT], k->own[HI], 32))
        return fail(s, r, "two parties hold different components of a product or its factors");
    memcpy(k->roots[s->party], k->own[LO], 32);
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t peer = side == NEXT ? uvcci_next_party(s) : uvcci_prev_party(s);
        memcpy(k->roots[peer], in->digest[VEC_ROOT][side], 32);
        if ((k->coin.committed >> peer & 1) == 0) /* else an earlier try found no room */
            (void)uvcci_coin_on_commit(&k->coin, peer, in->digest[VEC_COMMIT][side]);
    }
    return true;
}

static bool take_shares(uvcc_session *s, uvcci_instance *r) {
    struct uvcci_sks *k = r->sks;
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t peer = side == NEXT ? uvcci_next_party(s) : uvcci_prev_party(s);
        if (uvcci_coin_on_share(&k->coin, peer, r->rounds[ROUND_SHARE].digest[0][side]) != 0) {
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
    const struct uvcci_sks *k = state_of(r);
    for (unsigned side = 0; side < 2; side++)
        if (!uvcci_ct_equal(k->expect[side], r->rounds[ROUND_VERDICT].digest[0][side], 32))
            return fail(s, r, "the check of a product failed");
    verdict(s, r, 1);
    return true;
}

bool uvcci_sks_take(uvcc_session *s, uvcci_instance *r) {
    if (starts(r) && r->turn != 0)
        return r->turn == 1 ? take_commits(s, r) : take_shares(s, r);
    if (!starts(r) && r->turn == 2)
        return take_verdicts(s, r);
    for (unsigned side = 0; uvcci_sks_skips(r) && side < 2; side++)
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
                                                   r->sks->hashed[c][i]));
}

static void leaf_of_triple(uvcc_session *s, const uvcci_instance *start) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    const uint64_t id = uvcci_triple_id(s->sid_sub, start->step->number, start->op_id, 0);
    uvcci_leaf(s, start->step, start->row0, leaf,
               uvcci_leaf_triple_consumed(leaf, s->sid_sub, start->op_id, id));
}

bool uvcci_sks_done(uvcc_session *s, uvcci_instance *r) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    const struct uvcci_sks *k = state_of(r);
    if (starts(r)) {
        if (r->turn == 0)
            leaves_of_commits(s, r);
        else if (r->turn == 2)
            uvcci_leaf(s, r->step, r->row0, leaf,
                       uvcci_leaf_sks_coin(leaf, s->sid_sub, r->op_id, k->seed));
        return true;
    }
    if (r->turn == 0)
        leaf_of_triple(s, start_of(r));
    return true;
}
