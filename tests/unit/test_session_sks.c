/* SPDX-License-Identifier: Apache-2.0 */
/* Checked products in sessions: honest runs pass whatever the network does, an error anywhere is
 * found at all three parties, sampling, what a program with checks must be, what stays after a
 * failure. */
#include "triangle.h"

#include "exec/primitives/tree_hash.h"
#include "exec/runtime/core.h"
#include "proto/bytes.h"
#include "proto/coin.h"
#include "proto/crypto.h"
#include "proto/ids.h"
#include "proto/prg.h"
#include <uvcc/loopback.h>

enum { IN_A = 1, IN_B = 2, OUT_Y = 10, FRAC = 8, BITS = 20 };

enum { TRIALS = SANITIZED ? 126 : 1000 };

/* ---- the program: C = op(A) op(B), checked, Y = C truncated ---- */

typedef struct shape {
    uint32_t m, k, n;
    uint8_t flags;
} shape;

typedef struct program {
    uvcc_program *p;
    uint32_t a, b, c, y;
} program;

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                       uint8_t bits, uint8_t scale) {
    return test_tensor(p, name, rows, cols, bits, scale, UVCC_TRANSIENT);
}

static void add_op(uvcc_program *p, const uvcc_op_desc *op) {
    assert_true(uvcc_program_op(p, op) >= 0);
}

static program begin(const uvcc_allocator *al, shape s) {
    program g;
    const bool ta = s.flags & UVCC_OP_TRANS_A, tb = s.flags & UVCC_OP_TRANS_B;
    assert_int_equal(uvcc_program_new(&g.p, al), 0);
    g.a = tensor(g.p, "A", ta ? s.k : s.m, ta ? s.m : s.k, BITS, FRAC);
    g.b = tensor(g.p, "B", tb ? s.n : s.k, tb ? s.k : s.n, BITS, FRAC);
    g.c = tensor(g.p, "C", s.m, s.n, 60, 2 * FRAC);
    g.y = tensor(g.p, "Y", s.m, s.n, 60, FRAC);
    assert_true(uvcc_program_entry(g.p, "run") >= 0);
    assert_true(uvcc_program_input(g.p, IN_A, g.a, 0) >= 0);
    assert_true(uvcc_program_input(g.p, IN_B, g.b, 1) >= 0);
    return g;
}

static uvcc_op_desc product_op(const program *g, uint8_t flags) {
    return (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                          .in_count = 2,
                          .out_count = 1,
                          .in = {g->a, g->b},
                          .out = {g->c},
                          .flags = flags};
}
static uvcc_op_desc start_op(const program *g, uint8_t flags, int64_t permille) {
    return (uvcc_op_desc){.opcode = UVCC_OP_SKS_START,
                          .k = 1,
                          .in_count = 3,
                          .in = {g->a, g->b, g->c},
                          .flags = flags,
                          .constant = permille};
}
static uvcc_op_desc check_op(const program *g) {
    return (uvcc_op_desc){.opcode = UVCC_OP_SKS_GEMM_CHECK,
                          .phase = UVCC_UPD,
                          .in_count = 3,
                          .in = {g->a, g->b, g->c}};
}

static program make_program(const uvcc_allocator *al, shape s, int64_t permille) {
    program g = begin(al, s);
    char why[256] = "";
    const uvcc_op_desc gemm = product_op(&g, s.flags), start = start_op(&g, s.flags, permille),
                       check = check_op(&g);
    add_op(g.p, &gemm);
    add_op(g.p, &start);
    add_op(g.p, &(uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                                .k = 2,
                                .in_count = 1,
                                .out_count = 1,
                                .in = {g.c},
                                .out = {g.y},
                                .shift = FRAC});
    add_op(g.p, &check);
    assert_true(uvcc_program_output(g.p, OUT_Y, g.y) >= 0);
    if (uvcc_program_finish(g.p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return g;
}

static void fill(uint64_t seed, int64_t *v, size_t n) {
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(test_rand(&seed) % (2u << (BITS - 1))) - (1 << (BITS - 1));
}

/* ---- honest runs ---- */

typedef struct outcome {
    uint8_t root[3][32];
    uvcc_session_stats stats;
} outcome;

static void check_outputs(const program *g, triangle *t, uint32_t step, const int64_t *a,
                          const int64_t *b, size_t n) {
    const uvcc_allocator al = test_allocator(&t->mem);
    uvcc_reference *ref;
    char why[256] = "";
    assert_int_equal(uvcc_reference_new(&ref, g->p, &al), 0);
    assert_int_equal(uvcc_reference_set(ref, g->a, a), 0);
    assert_int_equal(uvcc_reference_set(ref, g->b, b), 0);
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    for (unsigned i = 0; i < 3; i++)
        assert_memory_equal(uvcc_session_output(t->s[i], step, OUT_Y),
                            uvcc_reference_get(ref, g->y), n * 8);
    uvcc_reference_free(ref);
}

static outcome honest(const triangle_options *opt, shape s, int64_t permille, uint32_t steps) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const program g = make_program(&al, s, permille);
    triangle t;
    outcome out;
    int64_t *a = malloc((size_t)s.m * s.k * 8), *b = malloc((size_t)s.k * s.n * 8);
    triangle_open(&t, g.p, opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < steps; step++) {
        fill(step + 1, a, (size_t)s.m * s.k);
        fill(step + 100, b, (size_t)s.k * s.n);
        triangle_agree(&t, step, 0);
        triangle_input(&t, 0, step, IN_A, a);
        triangle_input(&t, 1, step, IN_B, b);
        triangle_finish(&t, step + 1);
        check_outputs(&g, &t, step, a, b, (size_t)s.m * s.n);
    }
    triangle_close(&t);
    memcpy(out.root, t.root, sizeof out.root);
    uvcc_session_get_stats(t.s[0], &out.stats);
    free(a);
    free(b);
    triangle_free(&t);
    uvcc_program_free(g.p);
    assert_int_equal(mem.live_blocks, 0);
    return out;
}

static void test_shapes(void **state) {
    (void)state;
    static const shape shapes[] = {
        {1, 1, 1, 0},    {8, 8, 8, 0},     {1, 70, 3, 0},  {65, 5, 1, 0},  {5, 64, 129, 0},
        {70, 66, 33, 0}, {100, 90, 80, 0}, {3, 600, 7, 0}, {520, 6, 5, 0}, {4, 9, 1030, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (uint8_t flags = 0; flags < 4; flags++) {
            shape s = shapes[i];
            s.flags = flags;
            (void)honest(&(triangle_options){.seed = i + 1}, s, 1000, 1);
        }
}

static void test_never_trips(void **state) {
    (void)state;
    const shape s = {8, 8, 8, 0};
    for (uint64_t seed = 1; seed <= (SANITIZED ? 20 : 300); seed++)
        (void)honest(&(triangle_options){.seed = seed}, s, 1000, 1);
    (void)honest(&(triangle_options){.seed = 1}, s, 1000, SANITIZED ? 20 : 300);
}

/* More than one part: E and F of 64 x 9000 pass the 8 MiB of a message. */
static void test_parts(void **state) {
    (void)state;
    (void)honest(&(triangle_options){.seed = 2}, (shape){2, 17000, 2, 0}, 1000, 1);
}

static void test_same_roots(void **state) {
    (void)state;
    const uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    const uvcc_fault_config rough = {
        .split = 0.5, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.01};
    const triangle_options runs[] = {
        {.seed = 9, .mode = UVCC_CPU_DEFERRED, .compute_seed = 1},
        {.seed = 9, .mode = UVCC_CPU_THREADS},
        {.seed = 9, .datagram = true, .faulty = true, .faults = bad, .mode = UVCC_CPU_DEFERRED},
        {.seed = 9, .faulty = true, .faults = rough},
        {.seed = 9, .suites = 1},
    };
    const shape s = {20, 70, 30, UVCC_OP_TRANS_B};
    for (int64_t permille = 500; permille <= 1000; permille += 500) {
        const outcome want = honest(&(triangle_options){.seed = 9}, s, permille, 4);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            const outcome got = honest(&runs[i], s, permille, 4);
            assert_memory_equal(got.root, want.root, sizeof want.root);
            assert_int_equal(got.stats.bytes_online, want.stats.bytes_online);
            assert_int_equal(got.stats.rounds, want.stats.rounds);
        }
        (void)honest(&(triangle_options){.seed = 9, .audit_off = true}, s, permille, 2);
    }
}

/* ---- with a hand on every task ---- */

typedef struct hand {
    triangle t;
    program g;
    test_alloc mem;
    void (*after)(struct hand *h, uint8_t party, const uvcc_job *job, uint32_t task);
    void (*look)(struct hand *h);
    /* the error */
    uint8_t party, component;
    unsigned kind, done;
    uint64_t error;
    size_t element;
    uint8_t coin[3][3][32]; /* commitments, shares, roots, by party */
    unsigned checks;        /* parties that ran the check */
} hand;

static uvcci_instance *run_of(const uvcc_session *s, uint16_t opcode) {
    const uvcci_step *st = &s->ctx[s->step & 1];
    for (uint32_t i = 0; st->active && i < st->entry->op_count; i++)
        if (st->instances[i].op->desc.opcode == opcode)
            return &st->instances[i];
    return NULL;
}

/* The job is the run's; a run that is done may have had its tasks where another's are now. */
static bool is_of(const uvcc_job *job, const uvcci_instance *r) {
    return r != NULL && r->job_out && job->tasks == r->tasks;
}

static void hand_task(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    hand *h = user;
    if (done && h->after != NULL)
        h->after(h, (uint8_t)party, job, task);
}

static void hand_look(void *user, unsigned party) {
    hand *h = user;
    (void)party;
    if (h->look != NULL)
        h->look(h);
}

static void hand_open(hand *h, shape s, int64_t permille, uint64_t seed) {
    const uvcc_allocator al = test_allocator(&h->mem);
    h->g = make_program(&al, s, permille);
    triangle_open(
        &h->t, h->g.p,
        &(triangle_options){
            .seed = seed, .wired = true, .on_task = hand_task, .on_send = hand_look, .user = h});
    triangle_settle(&h->t);
    for (unsigned i = 0; i < 3; i++)
        assert_true(h->t.ready[i]);
}

static void hand_step(hand *h, shape s, uint32_t step) {
    int64_t *a = malloc((size_t)s.m * s.k * 8), *b = malloc((size_t)s.k * s.n * 8);
    fill(step + 1, a, (size_t)s.m * s.k);
    fill(step + 2, b, (size_t)s.k * s.n);
    triangle_agree(&h->t, step, 0);
    triangle_input(&h->t, 0, step, IN_A, a);
    triangle_input(&h->t, 1, step, IN_B, b);
    triangle_settle(&h->t);
    free(a);
    free(b);
}

static void hand_close(hand *h) {
    triangle_free(&h->t);
    uvcc_program_free(h->g.p);
    assert_int_equal(h->mem.live_blocks, 0);
}

/* ---- errors ---- */

enum {
    IN_PRODUCT,   /* the local product, before it is reshared: C is wrong at both holders */
    IN_MESSAGE,   /* what goes to the other holder */
    IN_SHARE,     /* a component of C at one holder, after the reshare */
    AFTER_COMMIT, /* the same, once the hashes are out */
    IN_FACTOR,    /* a component of A at one holder, after the product */
    IN_TRIPLE,    /* the check's own product, as sent */
    IN_CHECK,     /* this party's T */
    KINDS
};

static void add_wire(uint8_t *at, uint64_t error) {
    uvcci_st64(at, uvcci_ld64(at) + error);
}

static bool of_product(const hand *h, uint8_t party, const uvcc_job *job) {
    return is_of(job, run_of(h->t.s[party], UVCC_OP_GEMM_SS));
}

static bool of_start(const hand *h, uint8_t party, const uvcc_job *job, uint8_t turn) {
    const uvcci_instance *r = run_of(h->t.s[party], UVCC_OP_SKS_START);
    return is_of(job, r) && r->turn == turn;
}

static void spoil(hand *h, uint8_t party, const uvcc_job *job, uint32_t task) {
    const uvcc_task *t = &job->tasks[task];
    if (party != h->party || h->t.s[party]->state != UVCCI_SESSION_READY ||
        run_of(h->t.s[party], UVCC_OP_GEMM_SS) == NULL)
        return;
    const uint32_t which = h->kind == IN_FACTOR ? h->g.a : h->g.c;
    const uvcc_shares *v = &h->t.s[party]->buffers[which].shares;
    uint64_t *const share[2] = {v->lo, v->hi};
    bool now = false;
    uint64_t *at = NULL;
    switch (h->kind) {
    case IN_PRODUCT:
        now = of_product(h, party, job) && t->kind == UVCC_TASK_GEMM;
        at = now ? &t->u.gemm.z[h->element] : NULL;
        break;
    case IN_MESSAGE:
        if (of_product(h, party, job) && t->kind == UVCC_TASK_RESHARE_MASK) {
            add_wire(t->u.vec.blocks[0].wire_out[0] + 8 * h->element, h->error);
            h->done++;
        }
        return;
    case IN_SHARE:
    case IN_FACTOR:
        now = of_start(h, party, job, 0) && task == 0;
        break;
    case AFTER_COMMIT:
        now = of_start(h, party, job, 1) && task == 0;
        break;
    case IN_TRIPLE:
        if (of_start(h, party, job, 0) && t->kind == UVCC_TASK_TRIPLE_C) {
            add_wire(t->u.vec.blocks[0].wire_out[0] + 8 * h->element, h->error);
            h->done++;
        }
        return;
    default: /* IN_CHECK: T is written by the last of the sums */
        now = of_start(h, party, job, 2) && t->kind == UVCC_TASK_BIT_SUMS &&
              job->tasks[task + 1].kind != UVCC_TASK_BIT_SUMS;
        at = now ? (h->component == 0 ? t->u.bits.out.lo : t->u.bits.out.hi) + h->element : NULL;
        break;
    }
    if (!now)
        return;
    if (at == NULL)
        at = &share[h->component][h->element];
    *at += h->error;
    h->done++;
}

/* The verdicts in a party's transcript. */
static unsigned verdicts(const uvcc_session *s, uint8_t ok) {
    const uvcci_step *st = &s->ctx[s->step & 1];
    uint8_t root[32];
    unsigned n = 0;
    assert_true(st->active);
    assert_int_equal(uvcci_transcript_root(st->transcript, root), 0);
    for (uint32_t i = 0; i < uvcci_transcript_count(st->transcript); i++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(st->transcript, i, &row, &leaf, &len), 0);
        n += leaf[0] == UVCCI_LEAF_SKS_VERDICT && leaf[len - 1] == ok;
    }
    return n;
}

/* A trial is a function of its number. */
static void trial(unsigned number) {
    static const uint64_t errors[] = {1, 0, 1ull << 63};
    hand *h = calloc(1, sizeof *h);
    uint64_t rng = number;
    const shape s = {8, 8, 8, (uint8_t)(number % 4)};
    h->kind = number % KINDS;
    h->party = (uint8_t)(number / KINDS % 3);
    h->component = (uint8_t)(number / KINDS / 3 % 2);
    h->error = errors[number / KINDS / 6 % 3];
    if (h->error == 0)
        h->error = test_rand(&rng) | 1;
    h->element = test_rand(&rng) % 64;
    h->after = spoil;
    hand_open(h, s, 1000, number + 1);
    hand_step(h, s, 0);
    assert_int_equal(h->done, 1);
    unsigned found = 0;
    for (unsigned i = 0; i < 3; i++) {
        if (h->t.finished[i] != 0 || h->t.aborted[i] != UVCC_ABORT_SKS)
            fail_msg("trial %u (kind %u, party %u, component %u, error %llx) at party %u: %s",
                     number, h->kind, h->party, h->component, (unsigned long long)h->error, i,
                     h->t.aborted[i] == 0 ? "not found" : h->t.abort_text[i]);
        found += verdicts(h->t.s[i], 0);
        assert_int_equal(verdicts(h->t.s[i], 1), 0);
    }
    assert_true(found >= 1);
    hand_close(h);
    free(h);
}

static void test_errors_are_found(void **state) {
    (void)state;
    for (unsigned i = 0; i < TRIALS; i++)
        trial(i);
}

/* The messages of the check itself. */
enum { LIE_SHARE, LIE_COMMIT, LIE_ROOT, LIE_OPEN_E, LIE_OPEN_F, LIE_DIGEST_E, LIE_VERDICT, LIES };

static void flip_tlv(uint8_t *data, uint8_t type, int aux, unsigned skip) {
    uvcc_blv1_reader rd;
    uvcc_tlv t;
    uint8_t *bytes = data;
    uvcc_blv1_reader_init(&rd, data, 16 + uvcci_ld32(data + 12));
    while (uvcc_blv1_next(&rd, &t) == 1)
        if (t.type == type && (aux < 0 || t.aux == aux) && skip-- == 0) {
            bytes[t.data - data] ^= 1;
            return;
        }
    fail_msg("no such TLV");
}

/* The last task of a stage hashes the payloads; the lie is told before that, so that the leaf is
 * of what was sent. */
static void lie(hand *h, uint8_t party, const uvcc_job *job, uint32_t task) {
    static const struct {
        uint16_t opcode;
        uint8_t turn, out, type;
        int aux;
        unsigned skip;
    } lies[LIES] = {
        [LIE_SHARE] = {UVCC_OP_SKS_START, 1, 0, UVCC_TLV_DIGEST, 2, 0},
        [LIE_COMMIT] = {UVCC_OP_SKS_START, 0, 1, UVCC_TLV_DIGEST, 1, 0},
        [LIE_ROOT] = {UVCC_OP_SKS_START, 0, 1, UVCC_TLV_DIGEST, 0, 0},
        [LIE_OPEN_E] = {UVCC_OP_SKS_GEMM_CHECK, 0, 0, UVCC_TLV_OPEN_VEC, -1, 0},
        [LIE_OPEN_F] = {UVCC_OP_SKS_GEMM_CHECK, 0, 1, UVCC_TLV_OPEN_VEC, -1, 0},
        [LIE_DIGEST_E] = {UVCC_OP_SKS_GEMM_CHECK, 0, 0, UVCC_TLV_DIGEST, 0, 0},
        [LIE_VERDICT] = {UVCC_OP_SKS_GEMM_CHECK, 1, 0, UVCC_TLV_DIGEST, 3, 0},
    };
    if (party != h->party || h->done != 0 || task + 2 != job->count)
        return;
    const uvcci_instance *r = run_of(h->t.s[party], lies[h->kind].opcode);
    if (!is_of(job, r) || r->turn != lies[h->kind].turn)
        return;
    const uvcci_batch_out *out = &r->out[lies[h->kind].out];
    for (uint32_t i = 0; i < out->count && h->done == 0; i++)
        if (h->kind != LIE_DIGEST_E || out->tx[i].dst == (party + 2) % 3)
            if (h->kind == LIE_DIGEST_E || h->component == i ||
                (h->kind >= LIE_OPEN_E && h->kind <= LIE_OPEN_F &&
                 out->tx[i].dst == (party + 1) % 3)) {
                flip_tlv(uvcc_link_msg_data(out->tx[i].msg), lies[h->kind].type, lies[h->kind].aux,
                         lies[h->kind].skip);
                h->done++;
            }
}

static void test_lies_are_found(void **state) {
    (void)state;
    static const uint16_t reason[LIES] = {[LIE_SHARE] = UVCC_ABORT_COIN,
                                          [LIE_COMMIT] = UVCC_ABORT_COIN,
                                          [LIE_ROOT] = UVCC_ABORT_SKS,
                                          [LIE_OPEN_E] = UVCC_ABORT_OPEN_MISMATCH,
                                          [LIE_OPEN_F] = UVCC_ABORT_OPEN_MISMATCH,
                                          [LIE_DIGEST_E] = UVCC_ABORT_OPEN_MISMATCH,
                                          [LIE_VERDICT] = UVCC_ABORT_SKS};
    const shape s = {8, 8, 8, 0};
    for (unsigned kind = 0; kind < LIES; kind++)
        for (uint8_t party = 0; party < 3; party++)
            for (uint8_t to = 0; to < 2; to++) {
                hand *h = calloc(1, sizeof *h);
                bool seen = false;
                unsigned ended = 0;
                h->kind = kind;
                h->party = party;
                /* the root's receiver that holds the component is the previous party; the other
                 * one takes it into the seed, and so cannot agree on it */
                h->component = to;
                h->after = lie;
                if (kind >= LIE_OPEN_E && kind <= LIE_DIGEST_E)
                    h->component = 9;
                hand_open(h, s, 1000, kind + 1);
                hand_step(h, s, 0);
                assert_int_equal(h->done, 1);
                for (unsigned i = 0; i < 3; i++) {
                    /* who gets good verdicts finishes before it hears of the bad one */
                    assert_true(h->t.finished[i] == 0 || kind == LIE_VERDICT);
                    ended += h->t.finished[i];
                    assert_int_not_equal(h->t.aborted[i], 0);
                    if (h->t.aborted[i] == UVCC_ABORT_SKS)
                        assert_int_equal(h->t.aborted_step[i], 0);
                    seen |= h->t.aborted[i] == reason[kind];
                    /* a root that only the third party got wrong gives it another seed: what it
                     * opens then is not what its peers hold */
                    seen |= kind == LIE_ROOT && h->t.aborted[i] == UVCC_ABORT_OPEN_MISMATCH;
                }
                if (!seen || ended == 3)
                    fail_msg("lie %u of party %u: %s", kind, party, h->t.abort_text[0]);
                hand_close(h);
                free(h);
            }
}

/* ---- sampling ---- */

static void coin_seed(const hand *h, uint8_t seed[32]) {
    uvcci_sha256 s;
    uvcci_sha256_init(&s);
    uvcci_sha256_update(&s, "UVCC_COIN_SEED_V1", 17);
    uvcci_sha256_update(&s, h->coin, sizeof h->coin);
    uvcci_sha256_final(&s, seed);
}

static void check_coin_leaf(const hand *h, uint8_t party) {
    const uvcc_session *s = h->t.s[party];
    const uvcci_step *st = &s->ctx[s->step & 1];
    uint8_t root[32], seed[32];
    unsigned n = 0;
    coin_seed(h, seed);
    assert_int_equal(uvcci_transcript_root(st->transcript, root), 0);
    for (uint32_t i = 0; i < uvcci_transcript_count(st->transcript); i++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(st->transcript, i, &row, &leaf, &len), 0);
        if (leaf[0] != UVCCI_LEAF_SKS_COIN)
            continue;
        assert_memory_equal(leaf + len - 32, seed, 32);
        n++;
    }
    assert_int_equal(n, 1);
}

/* What each party sends for the coin, and whether it goes on to the check. */
static void watch_coin(hand *h, uint8_t party, const uvcc_job *job, uint32_t task) {
    const uvcci_instance *start = run_of(h->t.s[party], UVCC_OP_SKS_START),
                         *check = run_of(h->t.s[party], UVCC_OP_SKS_GEMM_CHECK);
    if (start == NULL || task + 1 != job->count)
        return;
    if (is_of(job, start) && start->turn == 0) {
        memcpy(h->coin[2][party], start->out[1].digest[0][0], 32);
        memcpy(h->coin[0][party], start->out[1].digest[1][0], 32);
        for (unsigned vec = 0; vec < 2; vec++)
            assert_memory_equal(start->out[1].digest[vec][1], start->out[1].digest[vec][0], 32);
    } else if (is_of(job, start) && start->turn == 1) {
        memcpy(h->coin[1][party], start->out[0].digest[0][0], 32);
        assert_memory_equal(start->out[0].digest[0][1], start->out[0].digest[0][0], 32);
    } else if (is_of(job, check)) {
        h->checks |= 1u << party;
        if (check->turn == 0) /* else the step may have ended */
            check_coin_leaf(h, party);
    }
}

static bool coin_selects(const hand *h, uint32_t permille) {
    uint8_t seed[32];
    coin_seed(h, seed);
    return uvcci_coin_selects(seed, permille);
}

/* What is checked is what the coin says; and nothing is sent for the rest. */
static void test_sampling(void **state) {
    (void)state;
    const shape s = {8, 8, 8, 0};
    hand *h = calloc(1, sizeof *h);
    uint64_t bytes[2] = {0}, last = 0;
    unsigned count = 0, steps = SANITIZED ? 30 : 200;
    h->after = watch_coin;
    hand_open(h, s, 300, 5);
    for (uint32_t step = 0; step < steps; step++) {
        uint64_t all = 0;
        h->checks = 0;
        hand_step(h, s, step);
        assert_int_equal(h->t.finished[0], step + 1);
        const bool selected = coin_selects(h, 300);
        assert_int_equal(h->checks, selected ? 7 : 0);
        for (unsigned i = 0; i < 3; i++) {
            uvcc_session_stats stats;
            uvcc_session_get_stats(h->t.s[i], &stats);
            all += stats.bytes_online;
        }
        if (step >= 2) /* from then on each step's STEP and AUDIT are among its bytes */
            assert_true(bytes[selected] == 0 || bytes[selected] == all - last);
        bytes[selected] = step >= 2 ? all - last : 0;
        last = all;
        count += selected;
    }
    /* As in protocols.md: E and F, a digest of each, the verdicts. */
    const uint64_t headers = 2 * 6 * 16 + 6 * 16, values = 3 * 2 * (64 * 8 * 8 + 24);
    assert_int_equal(bytes[1] - bytes[0], headers + values + (3 * 2 + 6) * 48);
    assert_in_range(count, steps / 10, steps / 2);
    hand_close(h);
    free(h);
}

static void test_never_and_always(void **state) {
    (void)state;
    const shape s = {8, 8, 8, 0};
    for (int64_t permille = 0; permille <= 1000; permille += 1000) {
        hand *h = calloc(1, sizeof *h);
        h->after = watch_coin;
        hand_open(h, s, permille, 5);
        for (uint32_t step = 0; step < 20; step++) {
            h->checks = 0;
            hand_step(h, s, step);
            assert_int_equal(h->t.finished[2], step + 1);
            assert_int_equal(h->checks, permille != 0 ? 7 : 0);
        }
        hand_close(h);
        free(h);
    }
}

/* ---- what the bits multiply ---- */

enum { M = 9, K = 7, N = 5, T = 64 };

/* START's four sums: U^T A, (B V)^T, (C V)^T, U^T C V; components of all three added up. */
static uint64_t sums[4][T * M];

static void watch_sums(hand *h, uint8_t party, const uvcc_job *job, uint32_t task) {
    const uvcc_task *t = &job->tasks[task];
    watch_coin(h, party, job, task);
    if (t->kind != UVCC_TASK_BIT_SUMS)
        return;
    assert_true(task < 4 && t->u.bits.cols <= T);
    const size_t n = (size_t)T * t->u.bits.cols;
    for (size_t i = 0; i < n && task < 3; i++)
        sums[task][i] += t->u.bits.out.lo[i];
    for (size_t i = 0; i < T && task == 3; i++) /* of T x T the first column will do */
        sums[3][i] += t->u.bits.out.lo[i * T];
    h->done++;
}

static uint64_t bit(const uint64_t *word, unsigned i, unsigned column) {
    return word[i] >> column & 1;
}

static void test_bit_products(void **state) {
    (void)state;
    const shape s = {M, K, N, 0};
    hand *h = calloc(1, sizeof *h);
    int64_t a[M * K], b[K * N];
    uint64_t u[M], v[N], c[M * N] = {0};
    uint8_t seed[32];
    memset(sums, 0, sizeof sums);
    h->after = watch_sums;
    hand_open(h, s, 1000, 5);
    const uvcci_op *ops = h->g.p->entries[0].ops;
    uint32_t ordinal = UINT32_MAX;
    for (uint32_t i = 0; i < h->g.p->entries[0].op_count; i++)
        if (ops[i].desc.opcode == UVCC_OP_SKS_START)
            ordinal = ops[i].ordinal;
    hand_step(h, s, 0);
    assert_int_equal(h->done, 12);
    coin_seed(h, seed);
    uvcci_aes key;
    uvcci_aes_init(&key, seed, UVCCI_AES_AUTO);
    uvcci_prg_fill(&key, (uvcci_prg_at){.ordinal = ordinal, .lane = 0}, 0, u, M);
    uvcci_prg_fill(&key, (uvcci_prg_at){.ordinal = ordinal, .lane = 1}, 0, v, N);
    fill(1, a, M * K); /* as hand_step() does */
    fill(2, b, K * N);
    for (unsigned i = 0; i < M * N; i++)
        for (unsigned k = 0; k < K; k++)
            c[i] += (uint64_t)a[i / N * K + k] * (uint64_t)b[k * N + i % N];
    for (unsigned column = 0; column < T; column++) {
        uint64_t ucv = 0;
        for (unsigned k = 0; k < K; k++) {
            uint64_t ua = 0, bv = 0;
            for (unsigned i = 0; i < M; i++)
                ua += bit(u, i, column) * (uint64_t)a[i * K + k];
            for (unsigned j = 0; j < N; j++)
                bv += bit(v, j, column) * (uint64_t)b[k * N + j];
            assert_true(sums[0][column * K + k] == ua && sums[1][column * K + k] == bv);
        }
        for (unsigned i = 0; i < M; i++) {
            uint64_t cv = 0;
            for (unsigned j = 0; j < N; j++) {
                cv += bit(v, j, column) * c[i * N + j];
                ucv += bit(u, i, column) * c[i * N + j] * bit(v, j, 0);
            }
            assert_true(sums[2][column * M + i] == cv);
        }
        assert_true(sums[3][column] == ucv);
    }
    hand_close(h);
    free(h);
}

/* ---- digests, from protocols.md alone ---- */

/* Four words of a PRG as bytes: a share of the coin, a salt. */
static void prg_bytes(const uint8_t key[16], uvcci_prg_at at, uint8_t out[32]) {
    uint64_t word[4];
    uvcci_aes aes;
    uvcci_aes_init(&aes, key, UVCCI_AES_AUTO);
    uvcci_prg_fill(&aes, at, 0, word, 4);
    for (unsigned i = 0; i < 4; i++)
        uvcci_st64(out + 8 * i, word[i]);
}

/* k_(tensor,c) of c = p or p + 1, as party p has the tensor. */
static void component_hash(const hand *h, uint8_t party, const uvcci_instance *r, unsigned c,
                           uint16_t tensor, uint8_t out[32]) {
    const uvcc_session *s = h->t.s[party];
    const uint32_t which[3] = {h->g.a, h->g.b, h->g.c};
    const uvcc_shares *v = &s->buffers[which[tensor]].shares;
    const uint64_t *words = c == 0 ? v->lo : v->hi;
    const size_t n = s->program->tensors[which[tensor]].elems;
    uint8_t key[32], text[6 + 32] = "COMMIT", *bytes = malloc(n * 8);
    const unsigned pair = c == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT; /* who else holds it */
    prg_bytes(r->step->keys.prg[pair][UVCC_TAG_salt],
              (uvcci_prg_at){.ordinal = r->op->ordinal, .call = tensor}, key);
    for (size_t i = 0; i < n; i++)
        uvcci_st64(bytes + 8 * i, words[i]);
    uvcci_tree_once(bytes, n * 8, text + 6);
    uvcci_hmac_once(key, 32, text, sizeof text, out);
    free(bytes);
}

static bool has_leaf(const uvcci_step *st, const uint8_t *want, size_t want_len) {
    uint8_t root[32];
    bool found = false;
    assert_int_equal(uvcci_transcript_root(st->transcript, root), 0);
    for (uint32_t i = 0; i < uvcci_transcript_count(st->transcript); i++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(st->transcript, i, &row, &leaf, &len), 0);
        found |= len == want_len && memcmp(leaf, want, len) == 0;
    }
    return found;
}

/* What START 0 sends: the root of the tensors' first components, the coin's commitment. */
static void check_start_digests(hand *h, uint8_t party, const uvcci_instance *r) {
    const uint8_t *sid = h->t.s[party]->sid_sub;
    uint8_t text[128], hashed[3][32], want[32], share[32];
    assert_true(r->op->ordinal != 0 && r->step->number != 0); /* else they may be left out */
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_CHECK_V2", 13);
    uvcci_put64(&w, uvcci_stream_id(sid, r->step->number, r->op_id, UVCCI_STREAM_COIN, 0, 0));
    uvcci_put8(&w, party);
    for (uint16_t tensor = 0; tensor < 3; tensor++)
        component_hash(h, party, r, 0, tensor, hashed[tensor]);
    uvcci_tree_once(hashed, sizeof hashed, want);
    uvcci_put(&w, want, 32);
    assert_false(w.bad);
    uvcci_sha256_once(text, w.len, want);
    assert_memory_equal(r->out[1].digest[0][0], want, 32);
    prg_bytes(r->step->keys.prg[UVCC_PAIR_OWN][UVCC_TAG_own],
              (uvcci_prg_at){.ordinal = r->op->ordinal, .lane = 1}, share);
    w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_COIN_V1", 12);
    uvcci_put(&w, sid, 32);
    uvcci_put32(&w, r->step->number);
    uvcci_put32(&w, h->t.s[party]->run);
    uvcci_put32(&w, r->op_id);
    uvcci_put8(&w, party);
    uvcci_put(&w, share, 32);
    uvcci_sha256_once(text, w.len, want);
    assert_memory_equal(r->out[1].digest[1][0], want, 32);
}

/* START 1 opens that share. Its leaves of START 0 stand in the transcript by now. */
static void check_start_leaves(hand *h, uint8_t party, const uvcci_instance *r) {
    const uint8_t *sid = h->t.s[party]->sid_sub;
    uint8_t want[32], leaf[UVCCI_LEAF_MAX_BYTES];
    prg_bytes(r->step->keys.prg[UVCC_PAIR_OWN][UVCC_TAG_own],
              (uvcci_prg_at){.ordinal = r->op->ordinal, .lane = 1}, want);
    assert_memory_equal(r->out[0].digest[0][0], want, 32);
    for (unsigned c = 0; c < 2; c++)
        for (uint16_t tensor = 0; tensor < 3; tensor++) {
            component_hash(h, party, r, c, tensor, want);
            const uint64_t id = uvcci_fss_id(sid, r->step->number, r->op_id, tensor, 0);
            const size_t len = uvcci_leaf_component_commit(leaf, sid, r->op_id, id,
                                                           (uint8_t)((party + c) % 3u), want);
            assert_true(has_leaf(r->step, leaf, len));
        }
}

/* What CHECK 1 sends: the components of Z, which the job hashed, sum up to 0 and are the same at
 * all parties; source, op and salt stand in the digest. */
static void check_verdicts(hand *h, uint8_t party, const uvcc_job *job, const uvcci_instance *r) {
    static uint64_t first[3 * 64 * 64];
    const uint8_t *sid = h->t.s[party]->sid_sub, *z = NULL;
    uint8_t text[64], tree[32], want[32], leaf[UVCCI_LEAF_MAX_BYTES];
    const size_t bytes = sizeof first;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->tasks[i].kind == UVCC_TASK_HASH)
            for (uint32_t k = 0; k < job->tasks[i].u.hash.count; k++)
                if (job->tasks[i].u.hash.items[k].len == bytes)
                    z = job->tasks[i].u.hash.items[k].data;
    assert_non_null(z);
    for (unsigned i = 0; i < 64 * 64; i++)
        assert_true(uvcci_ld64(z + 8 * i) + uvcci_ld64(z + 8 * (i + 64 * 64)) +
                        uvcci_ld64(z + 8 * (i + 2 * 64 * 64)) ==
                    0);
    if (h->checks == 0)
        memcpy(first, z, bytes);
    assert_memory_equal(first, z, bytes);
    h->checks |= 1u << party;
    for (unsigned side = 0; side < 2; side++) {
        const uint8_t peer = (uint8_t)((party + 1 + side) % 3u);
        const uint8_t *salt = r->step->salt[peer];
        assert_memory_equal(h->t.s[peer]->ctx[r->step->number & 1].salt[party], salt, 32);
        uvcci_writer w = uvcci_writer_on(text, sizeof text);
        uvcci_put(&w, "SKS", 3);
        uvcci_put8(&w, party);
        uvcci_put32(&w, r->op_id);
        uvcci_tree_once(z, bytes, tree);
        uvcci_put(&w, tree, 32);
        assert_false(w.bad);
        uvcci_hmac_once(salt, 32, text, w.len, want);
        assert_memory_equal(r->out[0].digest[0][side], want, 32);
    }
    const uint32_t start = run_of(h->t.s[party], UVCC_OP_SKS_START)->op_id;
    const uint64_t id = uvcci_triple_id(sid, r->step->number, start, 0);
    assert_true(has_leaf(r->step, leaf, uvcci_leaf_triple_consumed(leaf, sid, start, id)));
}

/* What CHECK 0 sends to the previous party beside E and F: of the component that it holds too. */
static void check_open_digests(hand *h, uint8_t party, const uvcc_job *job,
                               const uvcci_instance *r) {
    static const uvcci_stream_name streams[2] = {UVCCI_STREAM_SKS_E, UVCCI_STREAM_SKS_F};
    const size_t bytes = 64 * 6 * 8; /* of T x inner */
    uint8_t text[64], tree[32], want[32];
    unsigned found = 0;
    for (uint32_t i = 0; i < job->count; i++)
        for (uint32_t k = 0; job->tasks[i].kind == UVCC_TASK_HASH && k < job->tasks[i].u.hash.count;
             k++) {
            const uvcc_hash_item *it = &job->tasks[i].u.hash.items[k];
            if (it->len != bytes || it->prefix_len == 0 || found == 2)
                continue;
            uvcci_writer w = uvcci_writer_on(text, sizeof text);
            uvcci_put(&w, "UVCC_CHECK_V2", 13);
            uvcci_put64(&w, uvcci_stream_id(h->t.s[party]->sid_sub, r->step->number, r->op_id,
                                            streams[found], 0, 0));
            uvcci_put8(&w, party);
            uvcci_tree_once(it->data, bytes, tree);
            uvcci_put(&w, tree, 32);
            assert_false(w.bad);
            uvcci_sha256_once(text, w.len, want);
            assert_memory_equal(r->out[found].digest[0][1], want, 32);
            found++;
        }
    assert_int_equal(found, 2);
}

static void watch_digests(hand *h, uint8_t party, const uvcc_job *job, uint32_t task) {
    const uvcci_instance *start = run_of(h->t.s[party], UVCC_OP_SKS_START),
                         *check = run_of(h->t.s[party], UVCC_OP_SKS_GEMM_CHECK);
    if (start == NULL || task + 1 != job->count || start->step->number == 0)
        return;
    if (is_of(job, start) && start->turn == 0)
        check_start_digests(h, party, start);
    else if (is_of(job, start) && start->turn == 1)
        check_start_leaves(h, party, start);
    else if (is_of(job, check) && check->turn == 0)
        check_open_digests(h, party, job, check);
    else if (is_of(job, check) && check->turn == 1)
        check_verdicts(h, party, job, check);
    else
        return;
    h->done++;
}

static void test_digests(void **state) {
    (void)state;
    const shape s = {5, 6, 7, 0};
    hand *h = calloc(1, sizeof *h);
    h->after = watch_digests;
    hand_open(h, s, 1000, 5);
    hand_step(h, s, 0);
    hand_step(h, s, 1);
    assert_int_equal(h->t.finished[0], 2);
    assert_int_equal(h->done, 4 * 3);
    assert_int_equal(h->checks, 7);
    hand_close(h);
    free(h);
}

/* ---- what a START holds ---- */

/* A and B are free as soon as the products of the check are made: the verdict needs no tensor. */
static void watch_buffers(hand *h) {
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_instance *start = run_of(h->t.s[i], UVCC_OP_SKS_START),
                             *check = run_of(h->t.s[i], UVCC_OP_SKS_GEMM_CHECK);
        if (start == NULL)
            continue;
        const bool before = start->turn != UVCCI_TURN_DONE && start->turn != 0;
        const bool between = start->turn == UVCCI_TURN_DONE && check->turn != UVCCI_TURN_DONE;
        if (before)
            assert_non_null(h->t.s[i]->buffers[h->g.a].shares.lo);
        if (between)
            assert_null(h->t.s[i]->buffers[h->g.a].shares.lo);
        h->done |= before ? 1 : between ? 2 : 0;
    }
}

static void test_tensors_go_early(void **state) {
    (void)state;
    const shape s = {8, 8, 8, 0};
    hand *h = calloc(1, sizeof *h);
    h->look = watch_buffers;
    hand_open(h, s, 1000, 5);
    hand_step(h, s, 0);
    assert_int_equal(h->t.finished[0], 1);
    assert_int_equal(h->done, 3);
    hand_close(h);
    free(h);
}

/* What no peer can know yet is refused. */
static void watch_refusals(hand *h) {
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_instance *start = run_of(h->t.s[i], UVCC_OP_SKS_START),
                             *check = run_of(h->t.s[i], UVCC_OP_SKS_GEMM_CHECK);
        if (start == NULL || start->step->running == false)
            continue;
        const uvcci_op_way *first = start->plan->way, *second = check->plan->way;
        assert_false(first->refuses(start, 0));
        assert_false(first->refuses(start, 1));
        assert_int_equal(first->refuses(start, 2), start->turn == 0);
        assert_int_equal(second->refuses(check, 0), start->turn < 2);
        assert_int_equal(second->refuses(check, 1), start->turn < 2);
        assert_int_equal(second->refuses(check, 2), check->turn == 0);
        h->done |= start->turn == 0 ? 1u : 2u;
    }
}

static void test_early_messages(void **state) {
    (void)state;
    const shape s = {8, 8, 8, 0};
    hand *h = calloc(1, sizeof *h);
    h->look = watch_refusals;
    hand_open(h, s, 1000, 5);
    hand_step(h, s, 0);
    assert_int_equal(h->done, 3);
    hand_close(h);
    free(h);
}

/* An abort in any state leaves no memory behind. */
static void test_aborts(void **state) {
    (void)state;
    const shape s = {30, 20, 10, 0};
    static int64_t a[30 * 20], b[20 * 10];
    fill(1, a, 30 * 20);
    fill(2, b, 20 * 10);
    for (unsigned turns = 0;; turns++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        const program g = make_program(&al, s, 1000);
        triangle t;
        triangle_open(&t, g.p, &(triangle_options){.seed = 3, .mode = UVCC_CPU_DEFERRED});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_input(&t, 0, 0, IN_A, a);
        triangle_input(&t, 1, 0, IN_B, b);
        for (unsigned k = 0; k < turns && t.finished[0] == 0; k++)
            (void)triangle_turn(&t);
        const bool finished = t.finished[0] != 0;
        assert_int_equal(uvcc_session_abort(t.s[0], UVCC_ABORT_MEMORY, 0), 0);
        triangle_free(&t);
        uvcc_program_free(g.p);
        assert_int_equal(mem.live_blocks, 0);
        if (finished)
            break;
    }
}

/* ---- a failed step stays failed ---- */

static void refused(uvcc_config *c) {
    c->checks.sks_refused = true;
    c->checks.sks_step = 1;
}
static void overridden(uvcc_config *c) {
    refused(c);
    c->checks.sks_override = true;
}

static void overridden_by_one(uvcc_config *c) {
    if (c->identity.party == 0)
        overridden(c);
}

static void run_steps(void (*tweak)(uvcc_config *), uint8_t root[2][32], bool stops) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const shape s = {8, 8, 8, 0};
    const program g = make_program(&al, s, 1000);
    int64_t a[64], b[64];
    triangle t;
    fill(1, a, 64);
    fill(2, b, 64);
    triangle_open(&t, g.p, &(triangle_options){.seed = 3, .tweak = tweak});
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++) {
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_step(t.s[i], step, 0, 0),
                             stops && step == 1 ? UVCC_ERR_REFUSED : 0);
        if (stops && step == 1)
            break;
        triangle_input(&t, 0, step, IN_A, a);
        triangle_input(&t, 1, step, IN_B, b);
        triangle_finish(&t, step + 1);
        memcpy(root[step], t.root[0], 32);
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(g.p);
}

static void test_refusal_and_override(void **state) {
    (void)state;
    uint8_t plain[2][32], stopped[2][32], again[2][32], alone[2][32];
    run_steps(NULL, plain, false);
    run_steps(refused, stopped, true);
    run_steps(overridden, again, false);
    run_steps(overridden_by_one, alone, false); /* the auditor has nothing against that */
    assert_memory_equal(alone[1], again[1], 32);
    assert_memory_equal(stopped[0], plain[0], 32);
    assert_memory_equal(again[0], plain[0], 32);
    assert_memory_not_equal(again[1], plain[1], 32); /* the override is in it */
}

/* ---- programs ---- */

/* Ops of a program that is to be refused; `text` stands in the reason. */
static void refused_program(void (*ops)(program *), const char *text) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    program g = begin(&al, (shape){4, 4, 4, 0});
    char why[256] = "";
    ops(&g);
    assert_int_equal(uvcc_program_finish(g.p, why, sizeof why), UVCC_ERR_PROGRAM);
    if (strstr(why, text) == NULL)
        fail_msg("\"%s\" instead of \"%s\"", why, text);
    uvcc_program_free(g.p);
}

static void ops_of(program *g, uvcc_op_desc product, uvcc_op_desc start, bool waits) {
    const uvcc_op_desc check = check_op(g);
    add_op(g->p, &product);
    add_op(g->p, &start);
    if (waits)
        add_op(g->p, &check);
}
static void no_wait(program *g) {
    ops_of(g, product_op(g, 0), start_op(g, 0, 1000), false);
}
static void too_often(program *g) {
    ops_of(g, product_op(g, 0), start_op(g, 0, 1001), true);
}
static void transposed(program *g) {
    ops_of(g, product_op(g, 0), start_op(g, UVCC_OP_TRANS_A, 1000), true);
}
static void turned_around(program *g) {
    uvcc_op_desc start = start_op(g, 0, 1000);
    start.in[0] = g->b;
    start.in[1] = g->a;
    ops_of(g, product_op(g, 0), start, true);
}
static void no_product(program *g) {
    uvcc_op_desc sum = product_op(g, 0);
    sum.opcode = UVCC_OP_ADD;
    sum.out[0] = g->y;
    uvcc_op_desc start = start_op(g, 0, 1000);
    start.in[2] = g->y;
    ops_of(g, sum, start, true);
}
static void truncated(program *g) {
    uvcc_op_desc product = product_op(g, 0), start = start_op(g, 0, 1000);
    product.shift = FRAC;
    product.out[0] = start.in[2] = g->y;
    ops_of(g, product, start, true);
}
static void changed(program *g) {
    const uvcc_op_desc product = product_op(g, 0);
    uvcc_op_desc sum = product, start = start_op(g, 0, 1000);
    sum.opcode = UVCC_OP_ADD;
    sum.k = 1;
    sum.out[0] = g->a;
    start.k = 2;
    add_op(g->p, &product);
    ops_of(g, sum, start, true);
}
static void misshapen(program *g) {
    uvcc_op_desc start = start_op(g, 0, 1000);
    start.in[2] = tensor(g->p, "D", 4, 5, 60, 2 * FRAC);
    ops_of(g, product_op(g, 0), start, true);
}

static void test_programs(void **state) {
    (void)state;
    refused_program(no_wait, "no SKS_GEMM_CHECK after it waits for its verdict");
    refused_program(too_often, "1001 permille; 0 to 1000 are possible");
    refused_program(transposed, "multiplies other tensors, or they have changed since");
    refused_program(turned_around, "multiplies other tensors");
    refused_program(no_product, "it must be one GEMM_SS without a shift");
    refused_program(truncated, "it must be one GEMM_SS without a shift");
    refused_program(changed, "multiplies other tensors, or they have changed since");
    refused_program(misshapen, "D is 4 x 5, but must be 4 x 4");
}

/* A check without its START reads its tensors and loads; a session does not run it. */
static void test_check_alone(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    program g = begin(&al, (shape){4, 4, 4, 0});
    const uvcc_op_desc product = product_op(&g, 0), check = check_op(&g);
    uvcc_buffer_life life;
    uvcc_session *s;
    uint64_t rnd = 1;
    const uvcc_config c = triangle_config_alone(&mem, &rnd);
    add_op(g.p, &product);
    add_op(g.p, &check);
    assert_int_equal(uvcc_program_finish(g.p, NULL, 0), 0);
    assert_int_equal(uvcc_program_life(g.p, 0, g.c, &life), 0);
    assert_int_equal(life.reads, 1);
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, g.p), UVCC_ERR_PROGRAM);
    uvcc_session_free(s);
    uvcc_program_free(g.p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Two checks of one product, and START's permille in the hash. */
static void test_two_checks(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    program g = begin(&al, (shape){4, 4, 4, 0});
    uint8_t hash[2][32];
    uvcc_op_desc product = product_op(&g, 0),
                 start[2] = {start_op(&g, 0, 1000), start_op(&g, 0, 1)},
                 check[2] = {check_op(&g), check_op(&g)};
    start[1].k = 2;
    check[1].k = 1;
    add_op(g.p, &product);
    add_op(g.p, &start[0]);
    add_op(g.p, &start[1]);
    add_op(g.p, &check[0]);
    add_op(g.p, &check[1]);
    assert_int_equal(uvcc_program_finish(g.p, NULL, 0), 0);
    const uvcci_op *ops = g.p->entries[0].ops; /* after two inputs */
    assert_int_equal(ops[3].partner, 6);
    assert_int_equal(ops[4].partner, 5);
    assert_int_equal(ops[5].partner, 4);
    assert_int_equal(ops[6].partner, 3);
    assert_int_equal(ops[2].partner, UVCCI_NO_OP);
    uvcc_program_free(g.p);
    for (unsigned i = 0; i < 2; i++) {
        g = make_program(&al, (shape){4, 4, 4, 0}, 10 + (int64_t)i);
        uvcc_program_hash(g.p, hash[i]);
        uvcc_program_free(g.p);
    }
    assert_memory_not_equal(hash[0], hash[1], 32);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_check_alone),
        cmocka_unit_test(test_two_checks),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_never_trips),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_same_roots),
        cmocka_unit_test(test_errors_are_found),
        cmocka_unit_test(test_lies_are_found),
        cmocka_unit_test(test_bit_products),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_never_and_always),
        cmocka_unit_test(test_digests),
        cmocka_unit_test(test_tensors_go_early),
        cmocka_unit_test(test_early_messages),
        cmocka_unit_test(test_aborts),
        cmocka_unit_test(test_refusal_and_override),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
