/* SPDX-License-Identifier: Apache-2.0 */
/* test_public.c - public tensors: what a program may do with them, what is part of its hash, who
 * sets them; products by them, rotary positions and masks of a window, whose results in sessions
 * are those of the reference, and here written out by hand. */
#include "triangle.h"

#include <uvcc/checkpoint.h>

enum { X, W, T, Y, Z, S, M, TENSORS };
enum { ROWS = 4, COLS = 4, OUT = 3 };

/* X W, X turned by T, and X seen through a window of two. */
typedef struct shape {
    uvcc_tensor_desc t[TENSORS];
    uvcc_op_desc op[4];
    bool constant;
} shape;

static const int64_t turns[2 * COLS] = {8, 8, 0, 0, 0, 4, 8, -4}; /* two tokens: cosines, sines */

static uvcc_tensor_desc tensor(const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                               uint8_t scale, uint8_t sharing) {
    return (uvcc_tensor_desc){.name = name,
                              .rows = rows,
                              .cols = cols,
                              .bits = bits,
                              .scale = scale,
                              .lifetime = sharing == UVCC_PUBLIC ? UVCC_PERSIST : UVCC_TRANSIENT,
                              .in_buffer_of = UVCC_NO_TENSOR,
                              .sharing = sharing};
}

static shape base(void) {
    return (shape){
        .t = {tensor("X", ROWS, COLS, 20, 4, UVCC_REPLICATED),
              tensor("W", COLS, OUT, 10, 2, UVCC_PUBLIC), tensor("T", 2, COLS, 5, 3, UVCC_PUBLIC),
              tensor("Y", ROWS, OUT, 32, 6, UVCC_REPLICATED),
              tensor("Z", ROWS, COLS, 26, 7, UVCC_REPLICATED),
              tensor("S", ROWS, COLS, 20, 4, UVCC_REPLICATED),
              tensor("M", ROWS, COLS, 20, 4, UVCC_REPLICATED)},
        .op = {{.name = "part",
                .opcode = UVCC_OP_GEMM_PART,
                .in_count = 2,
                .in = {X, W},
                .out_count = 1,
                .out = {Y}},
               {.name = "turn",
                .opcode = UVCC_OP_ROTATE,
                .k = 1,
                .in_count = 2,
                .in = {X, T},
                .out_count = 1,
                .out = {Z}},
               {.name = "sum",
                .opcode = UVCC_OP_SHIFT_LEFT,
                .k = 2,
                .in_count = 1,
                .in = {X},
                .out_count = 1,
                .out = {S}},
               {.name = "mask",
                .opcode = UVCC_OP_CAUSAL_MASK,
                .k = 3,
                .in_count = 1,
                .in = {S},
                .out_count = 1,
                .out = {M},
                .constant = -99,
                .window = 2}},
        .constant = true,
    };
}

static int build(uvcc_program **p, const shape *s, char *message, size_t cap) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uint32_t y = s->t[Y].sharing == UVCC_ADDITIVE ? S : Y; /* which cannot be opened */
    int err = uvcc_program_new(p, &al);
    for (uint32_t i = 0; i < TENSORS && err >= 0; i++)
        err = uvcc_program_tensor(*p, &s->t[i]);
    if (err >= 0 && s->constant)
        err = uvcc_program_constant(*p, T, turns);
    if (err >= 0)
        err = uvcc_program_entry(*p, "go");
    if (err >= 0)
        err = uvcc_program_input(*p, 1, X, 0);
    for (uint32_t i = 0; i < 4 && err >= 0; i++)
        err = uvcc_program_op(*p, &s->op[i]);
    for (uint32_t i = 0; i < 3 && err >= 0; i++)
        err = uvcc_program_output(*p, i, (uint32_t[]){y, Z, M}[i]);
    return err < 0 ? err : uvcc_program_finish(*p, message, cap);
}

static void hash_of(const shape *s, uint8_t hash[32]) {
    uvcc_program *p;
    char why[256] = "";
    if (build(&p, s, why, sizeof why) != 0)
        fail_msg("%s", why);
    uvcc_program_hash(p, hash);
    uvcc_program_free(p);
}

static void refused(const shape *s, int error, const char *part) {
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(build(&p, s, why, sizeof why), error);
    if (strstr(why, part) == NULL)
        fail_msg("'%s', not '%s'", why, part);
    uvcc_program_free(p);
}

#define WRONG(part, ...)                                                                           \
    do {                                                                                           \
        shape s = base();                                                                          \
        __VA_ARGS__;                                                                               \
        refused(&s, UVCC_ERR_PROGRAM, part);                                                       \
    } while (0)

/* ---- programs ---- */

static void test_refused(void **state) {
    (void)state;
    WRONG("tensor W is public and TRANSIENT", s.t[W].lifetime = UVCC_TRANSIENT);
    WRONG("tensor W has the unknown sharing 4", s.t[W].sharing = 4);
    WRONG("op part (GEMM_PART, FWD k 0) cannot read W, which is public", s.op[0].in[0] = W);
    WRONG("op part (GEMM_PART, FWD k 0) writes Y, which must be replicated: B is public",
          s.t[Y].sharing = UVCC_ADDITIVE);
    WRONG("op part (GEMM_PART, FWD k 0) writes Y, which must be additive",
          s.t[W].sharing = UVCC_REPLICATED);
    WRONG("op part (GEMM_PART, FWD k 0) has 3 inputs; it takes 2 where B is public",
          (s.op[0].in_count = 3, s.op[0].in[2] = Y));
    WRONG("op turn (ROTATE, FWD k 1) reads T as public, but it is replicated",
          (s.constant = false, s.t[T].sharing = UVCC_REPLICATED));
    WRONG("op turn (ROTATE, FWD k 1): X is 4 x 4, T 3 x 4", (s.constant = false, s.t[T].rows = 3));
    WRONG("op turn (ROTATE, FWD k 1): X is 4 x 4, T 2 x 3", (s.constant = false, s.t[T].cols = 3));
    WRONG("Z has scale 7, but must have 8", (s.constant = false, s.t[T].scale = 4));
    WRONG("op turn (ROTATE, FWD k 1): a window is not for this opcode", s.op[1].window = 1);
    WRONG("op sum (ADD, FWD k 2) cannot read T, which is public",
          (s.op[2].opcode = UVCC_OP_ADD, s.op[2].in_count = 2, s.op[2].in[1] = T, s.t[T].rows = 4,
           s.constant = false));
    WRONG("op sum (SHIFT_LEFT, FWD k 2) writes W, which must be replicated",
          (s.op[2].out[0] = W, s.op[3].in[0] = X));
    shape s = base();
    s.t[X].bits = 58;
    s.t[T].bits = 5;
    refused(&s, UVCC_ERR_BOUND, "bits(A) + bits(B) + log2(K) needs 70 bits");
    s = base();
    s.t[X].bits = 50;
    s.t[W].bits = 1;
    s.t[T].bits = 12;
    refused(&s, UVCC_ERR_BOUND, "bits(X) + bits(table) + 1 needs 63 bits");
    s.op[1].flags = UVCC_OP_WITHIN;
    uint8_t hash[32];
    hash_of(&s, hash);
}

/* Sharing, constants and windows are part of the hash. */
static void test_hash(void **state) {
    (void)state;
    uint8_t first[32], other[32];
    shape s = base();
    hash_of(&s, first);
    s.op[3].window = 3;
    hash_of(&s, other);
    assert_memory_not_equal(first, other, 32);
    s = base();
    s.constant = false;
    hash_of(&s, other);
    assert_memory_not_equal(first, other, 32);
}

static void test_constants(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    const int64_t wide[2 * COLS] = {32};
    uvcc_program *p;
    shape s = base();
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    for (uint32_t i = 0; i < TENSORS; i++)
        assert_int_equal(uvcc_program_tensor(p, &s.t[i]), i);
    assert_int_equal(uvcc_program_constant(p, X, turns), UVCC_ERR_USAGE); /* not public */
    assert_int_equal(uvcc_program_constant(p, TENSORS, turns), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_constant(p, T, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_constant(p, T, wide), UVCC_ERR_BOUND);
    assert_int_equal(uvcc_program_constant(p, T, turns), 0);
    assert_int_equal(uvcc_program_constant(p, T, turns), UVCC_ERR_USAGE); /* it has values */
    uvcc_program_free(p);
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    assert_int_equal(uvcc_program_constant(p, T, turns), UVCC_ERR_STATE);
    uvcc_program_free(p);
}

/* What is read by products alone lies in as few bytes as its bits take, and a constant, what turns,
 * and shares in words. */
static void test_widths(void **state) {
    (void)state;
    static const struct {
        uint8_t bits;
        uint32_t bytes;
    } all[] = {{1, 2}, {15, 2}, {16, 4}, {31, 4}, {32, 8}};
    uvcc_program *p;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        shape s = base();
        s.t[W].bits = all[i].bits;
        s.constant = i % 2 == 0;
        assert_int_equal(build(&p, &s, NULL, 0), 0);
        assert_int_equal(uvcc_program_element_bytes(p, W), all[i].bytes);
        assert_int_equal(uvcc_program_element_bytes(p, T), 8);
        assert_int_equal(uvcc_program_element_bytes(p, X), 8);
        assert_int_equal(uvcc_program_element_bytes(p, TENSORS), 0);
        uvcc_program_free(p);
    }
}

/* ---- sessions ---- */

static const int64_t x[ROWS * COLS] = {1, -2, 3, 4, 5, 6, -7, 8, 9, 10, 11, -12, 13, 14, 15, 16};
static const int64_t w[COLS * OUT] = {1, 0, -3, 2, 1, 0, 0, 5, 1, -1, 2, 2};
/* Row 1 and 3 are turned by (0, 8) and (4, -4): pairs are columns 0 and 2, and 1 and 3. */
static const int64_t turned[ROWS * COLS] = {8,  -16, 24, 32,  56,   56,  40,  8,
                                            72, 80,  88, -96, -120, 120, 104, 8};
static const int64_t masked[ROWS * COLS] = {1,   -99, -99, -99, 5,   6,   -99, -99,
                                            -99, 10,  11,  -99, -99, -99, 15,  16};

static void run_step_by(triangle *t, const uvcc_program *p, uint32_t step, const int64_t *by) {
    int64_t y[ROWS * OUT] = {0};
    for (size_t i = 0; i < ROWS * OUT; i++)
        for (size_t k = 0; k < COLS; k++)
            y[i] += x[i / OUT * COLS + k] * by[k * OUT + i % OUT];
    uvcc_reference *r;
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    assert_int_equal(uvcc_reference_set(r, X, x), 0);
    assert_int_equal(uvcc_reference_set(r, W, by), 0);
    (void)uvcc_reference_set(r, T, turns); /* unless it is a constant */
    assert_int_equal(uvcc_reference_step(r, 0, NULL, 0), 0);
    triangle_agree(t, step, 0);
    triangle_input(t, 0, step, 1, x);
    triangle_finish(t, t->finished[0] + 1);
    const struct {
        uint32_t tensor;
        const int64_t *want;
        size_t bytes;
    } all[] = {{Y, y, sizeof y}, {Z, turned, sizeof turned}, {M, masked, sizeof masked}};
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(uvcc_reference_get(r, all[i].tensor), all[i].want, all[i].bytes);
        for (unsigned party = 0; party < 3; party++)
            assert_memory_equal(uvcc_session_output(t->s[party], step, i), all[i].want,
                                all[i].bytes);
    }
    uvcc_reference_free(r);
}

static void run_step(triangle *t, const uvcc_program *p, uint32_t step) {
    run_step_by(t, p, step, w);
}

/* The greatest values of every width. */
static void test_narrow(void **state) {
    (void)state;
    static const uint8_t bits[] = {15, 16, 31, 32};
    for (size_t i = 0; i < sizeof bits; i++) {
        triangle t;
        uvcc_program *p;
        const int64_t most = ((int64_t)1 << bits[i]) - 1;
        int64_t by[COLS * OUT];
        shape s = base();
        for (size_t e = 0; e < COLS * OUT; e++)
            by[e] = e % 3 == 0 ? most : e % 3 == 1 ? -most : w[e];
        s.t[W].bits = bits[i];
        s.t[Y].bits = 60;
        assert_int_equal(build(&p, &s, NULL, 0), 0);
        triangle_open(&t, p, &(triangle_options){.seed = 3});
        triangle_ready(&t);
        triangle_set_public(&t, W, by);
        run_step_by(&t, p, 0, by);
        by[0]++;
        assert_int_equal(uvcc_session_set_public(t.s[0], W, by), UVCC_ERR_BOUND);
        triangle_close(&t);
        triangle_free(&t);
        uvcc_program_free(p);
    }
}

static void test_sessions(void **state) {
    (void)state;
    triangle t;
    uvcc_program *p;
    const uint64_t shares[COLS * OUT] = {0};
    uint64_t lo[COLS * OUT], hi[COLS * OUT];
    shape s = base();
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    assert_int_equal(uvcc_session_set_public(t.s[0], T, turns), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_shares(t.s[0], W, shares, shares), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(t.s[0], W, lo, hi), UVCC_ERR_USAGE);
    triangle_set_public(&t, W, w);
    run_step(&t, p, 0);
    run_step(&t, p, 1);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- values that one session has for others ---- */

static void set_borrowed(triangle *t, uint32_t tensor, const int64_t *v) {
    assert_int_equal(uvcc_session_set_public(t->s[0], tensor, v), 0);
    for (unsigned i = 1; i < 3; i++) {
        int rc;
        while ((rc = uvcc_session_set_borrowed(t->s[i], tensor)) == UVCC_ERR_AGAIN)
            assert_true(triangle_turn(t));
        assert_int_equal(rc, 0);
    }
}

/* Results and roots are those of three copies, of values that change between steps too, and who
 * borrows has less memory. */
static void test_borrowed(void **state) {
    (void)state;
    uint8_t root[2][2][32];
    uint64_t bytes[2];
    uvcc_program *p;
    shape s = base();
    int64_t other[COLS * OUT];
    memcpy(other, w, sizeof w);
    other[3] = -77;
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    for (unsigned borrow = 0; borrow < 2; borrow++) {
        triangle t;
        uvcc_session_stats st;
        triangle_open(
            &t, p,
            &(triangle_options){
                .seed = 9, .borrow = borrow != 0, .mode = UVCC_CPU_DEFERRED, .compute_seed = 8});
        triangle_ready(&t);
        uvcc_session_get_stats(t.s[1], &st);
        bytes[borrow] = st.tensor_bytes;
        for (uint32_t step = 0; step < 2; step++) {
            const int64_t *by = step == 0 ? w : other;
            if (step == 0 && borrow != 0)
                set_borrowed(&t, T, turns);
            else if (step == 0)
                triangle_set_public(&t, T, turns);
            if (borrow != 0)
                set_borrowed(&t, W, by);
            else
                triangle_set_public(&t, W, by);
            run_step_by(&t, p, step, by);
            memcpy(root[borrow][step], t.root[2], 32);
        }
        triangle_close(&t);
        triangle_free(&t);
    }
    assert_memory_equal(root[0], root[1], sizeof root[0]);
    assert_true(bytes[1] < bytes[0]);
    uvcc_program_free(p);
}

static void drop(void *user, const uint8_t *bytes, size_t len) {
    (void)user;
    (void)bytes;
    (void)len;
}

static void records(uvcc_config *c) {
    c->record.write = drop;
}

/* Who may borrow what, from whom, when. */
static void test_borrowing_refused(void **state) {
    (void)state;
    triangle t, u;
    uvcc_program *p, *other;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    s.t[W].bits = 9;
    assert_int_equal(build(&other, &s, NULL, 0), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 9, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    assert_int_equal(uvcc_session_borrow_public(t.s[1], t.s[0]), UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], W), UVCC_ERR_STATE); /* nobody has set it */
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], X), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_borrowed(t.s[0], W), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_public(t.s[1], W, w), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_public(t.s[0], W, w), 0);
    int rc = uvcc_session_set_borrowed(t.s[1], W);
    assert_int_equal(rc, UVCC_ERR_AGAIN);
    for (; rc == UVCC_ERR_AGAIN; rc = uvcc_session_set_borrowed(t.s[1], W))
        assert_true(triangle_turn(&t));
    assert_int_equal(rc, 0);
    assert_int_equal(uvcc_session_step(t.s[1], 0, 0, triangle_now(&t)), UVCC_ERR_STATE); /* T */
    assert_non_null(strstr(uvcc_session_error_detail(t.s[1]), "T is borrowed and was not set"));
    const uvcc_allocator al = test_allocator(&t.mem);
    uvcc_config c;
    uvcc_session *one, *two;
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    c.alloc = al;
    c.random = uvcc_seeded(&t.rnd[0], 5, 0);
    memset(c.identity.sid_job, 1, 32);
    memset(c.identity.sign_seed, 2, 32);
    for (unsigned q = 1; q < 3; q++)
        memset(c.identity.pair_secret[q], 2 + (int)q, 32);
    assert_int_equal(uvcc_session_new(&one, &c), 0);
    assert_int_equal(uvcc_session_new(&two, &c), 0);
    assert_int_equal(uvcc_session_borrow_public(one, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_borrow_public(one, one), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_borrow_public(one, two), UVCC_ERR_STATE); /* it has no program */
    assert_int_equal(uvcc_session_borrow_public(one, t.s[0]), 0);
    assert_int_equal(uvcc_session_load_program(one, other), UVCC_ERR_PROGRAM);
    uvcc_session_free(one);
    uvcc_session_free(two);
    triangle_free(&t);
    triangle_make(&u, p, &(triangle_options){.seed = 9, .tweak = records});
    assert_int_equal(uvcc_session_borrow_public(u.s[2], u.s[0]), UVCC_ERR_CONFIG);
    triangle_free(&u);
    uvcc_program_free(p);
    uvcc_program_free(other);
}

/* What a session that ended did not set is nothing to borrow, and nothing to wait for. */
static void test_lender_that_fails(void **state) {
    (void)state;
    triangle t;
    uvcc_program *p;
    const uvcc_job *job;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 9, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    assert_int_equal(uvcc_session_set_public(t.s[0], W, w), 0);
    assert_int_equal(uvcc_session_set_public(t.s[0], T, turns), 0);
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], W), UVCC_ERR_AGAIN);
    assert_int_equal(uvcc_session_poll_job(t.s[0], &job), 1);
    const uvcc_completion c = {.id = job->id, .cookie = job->cookie, .status = UVCC_ERR_JOB};
    assert_int_equal(uvcc_session_complete(t.s[0], &c, triangle_now(&t)), 0);
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], W), UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], T), UVCC_ERR_STATE);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* A lender that begins anew has zeros where nobody set anything since: that is no value to borrow,
 * whatever was set before. */
static void test_lender_that_begins_anew(void **state) {
    (void)state;
    triangle t;
    uvcc_program *p;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 9, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    set_borrowed(&t, W, w);
    set_borrowed(&t, T, turns);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_resume(t.s[i], NULL, 0), 0);
    assert_int_equal(uvcc_session_set_borrowed(t.s[1], W), UVCC_ERR_STATE);
    set_borrowed(&t, T, turns);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, triangle_now(&t)), 0); /* W becomes zeros */
    int rc = UVCC_ERR_AGAIN;
    while ((rc = uvcc_session_set_borrowed(t.s[1], W)) == UVCC_ERR_AGAIN)
        assert_true(triangle_turn(&t));
    assert_int_equal(rc, UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_step(t.s[1], 0, 0, triangle_now(&t)), UVCC_ERR_STATE);
    triangle_free(&t);
    /* After it, all of them as at first. */
    triangle_open(&t, p, &(triangle_options){.seed = 9, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    set_borrowed(&t, W, turned);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_resume(t.s[i], NULL, 0), 0);
    set_borrowed(&t, W, w);
    set_borrowed(&t, T, turns);
    run_step(&t, p, 0);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- values that the parties have alike ---- */

/* Of a lender that borrows itself: what it had of its own lender is no value once that has another,
 * or none. */
static void test_lender_that_borrows(void **state) {
    (void)state;
    triangle lender, t;
    uvcc_program *p;
    shape s = base();
    s.constant = false;
    int rc;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    triangle_open(&lender, p,
                  &(triangle_options){.seed = 9, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&lender);
    triangle_open(
        &t, p, &(triangle_options){.seed = 10, .lender = lender.s[1], .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    set_borrowed(&lender, W, w);
    assert_int_equal(uvcc_session_set_borrowed(t.s[2], W), 0);
    assert_int_equal(uvcc_session_set_public(lender.s[0], W, turned), 0);
    while ((rc = uvcc_session_set_borrowed(t.s[2], W)) == UVCC_ERR_AGAIN)
        assert_true(triangle_turn(&lender));
    assert_int_equal(rc, UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_set_borrowed(lender.s[1], W), 0);
    assert_int_equal(uvcc_session_set_borrowed(t.s[2], W), 0);
    assert_int_equal(uvcc_session_resume(lender.s[0], NULL, 0), 0);
    assert_int_equal(uvcc_session_set_borrowed(t.s[2], W), UVCC_ERR_STATE);
    triangle_free(&t);
    triangle_free(&lender);
    uvcc_program_free(p);
}

static void set(triangle *t, unsigned party, uint32_t tensor, const int64_t *v) {
    int rc;
    while ((rc = uvcc_session_set_public(t->s[party], tensor, v)) == UVCC_ERR_AGAIN)
        assert_true(triangle_turn(t));
    assert_int_equal(rc, 0);
}

static void stops(triangle *t, uint32_t step) {
    triangle_agree(t, step, 0);
    while (t->aborted[0] == 0 || t->aborted[1] == 0 || t->aborted[2] == 0) {
        assert_true(triangle_turn(t));
        for (unsigned i = 0; i < 3; i++) /* else it waits for inputs, for ever */
            assert_int_equal(t->started[i], step);
    }
    /* who hears of it first says so to the others */
    unsigned named = 0;
    for (unsigned i = 0; i < 3; i++)
        named += t->aborted[i] == UVCC_ABORT_STEP && t->abort_text[i] != NULL &&
                 strstr(t->abort_text[i], "other public values") != NULL;
    assert_true(named > 0);
    triangle_free(t);
}

/* One value, at one party, before the first step or a later one; one party that sets what it has
 * again, or a tensor that the others leave as zeros. */
static void test_unlike(void **state) {
    (void)state;
    int64_t other[COLS * OUT];
    const int64_t nothing[2 * COLS] = {0};
    uvcc_program *p;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    memcpy(other, w, sizeof w);
    other[COLS * OUT - 1]++;
    for (unsigned odd = 0; odd < 3; odd++)
        for (uint32_t step = 0; step < 2; step++)
            for (unsigned how = 0; how < 2; how++) {
                triangle t;
                triangle_open(&t, p, &(triangle_options){.seed = 11 + odd});
                triangle_ready(&t);
                triangle_set_public(&t, T, turns);
                if (step == 1) {
                    triangle_set_public(&t, W, w);
                    run_step(&t, p, 0);
                }
                for (unsigned i = 0; i < 3; i++)
                    if (how == 0)
                        set(&t, i, W, i == odd ? other : w);
                    else if (i == odd)
                        set(&t, i, step == 0 ? W : T, step == 0 ? w : nothing);
                stops(&t, step);
            }
    uvcc_program_free(p);
}

/* In any order; of several values of a tensor the last counts. The jobs that set them end late and
 * in any order too. */
static void test_alike(void **state) {
    (void)state;
    const int64_t nothing[COLS * OUT] = {0};
    uvcc_program *p;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    for (uint64_t seed = 0; seed < 8; seed++) {
        triangle t;
        triangle_open(
            &t, p,
            &(triangle_options){.seed = seed, .mode = UVCC_CPU_DEFERRED, .compute_seed = 5 * seed});
        triangle_ready(&t);
        for (unsigned i = 0; i < 3; i++) {
            if (i == seed % 3)
                set(&t, i, W, nothing);
            set(&t, i, i == 1 ? W : T, i == 1 ? w : turns);
            set(&t, i, i == 1 ? T : W, i == 1 ? turns : w);
        }
        run_step(&t, p, 0);
        triangle_set_public(&t, W, w);
        triangle_agree(&t, 1, 0);
        triangle_agree(&t, 2, 0); /* agreed to while the values are on their way */
        triangle_input(&t, 0, 1, 1, x);
        triangle_input(&t, 0, 2, 1, x);
        triangle_finish(&t, 3);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

static uint32_t next_run;
static void every_step(uvcc_config *c) {
    c->resume.checkpoint_every = 1;
    c->resume.next_run = next_run;
}

static uint8_t *copy_of_checkpoint(triangle *t, unsigned party, uint32_t step, size_t *len) {
    uint32_t at;
    const uint8_t *data;
    while (uvcc_session_checkpoint(t->s[party], &at, &data, len) != 0 || at != step)
        assert_true(triangle_turn(t));
    uint8_t *copy = malloc(*len);
    assert_non_null(copy);
    memcpy(copy, data, *len);
    return copy;
}

/* A checkpoint has no public tensor: who resumes sets them again, but for constants. */
static void test_restart(void **state) {
    (void)state;
    uint8_t *kept[3];
    size_t len = 0;
    triangle t;
    uvcc_program *p;
    shape s = base();
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    next_run = 0;
    triangle_open(&t, p, &(triangle_options){.seed = 4, .tweak = every_step});
    triangle_ready(&t);
    triangle_set_public(&t, W, w);
    run_step(&t, p, 0);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_checkpoint_info info;
        kept[i] = copy_of_checkpoint(&t, i, 1, &len);
        assert_int_equal(uvcc_checkpoint_read(kept[i], len, &info), 0);
        assert_int_equal(info.tensors, 0);
    }
    triangle_free(&t);
    next_run = 1;
    triangle_make(&t, p, &(triangle_options){.seed = 5, .tweak = every_step});
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_resume(t.s[i], kept[i], len), 0);
        free(kept[i]);
    }
    triangle_start(&t);
    triangle_ready(&t);
    assert_int_equal(uvcc_session_step(t.s[1], 1, 0, triangle_now(&t)), UVCC_ERR_STATE);
    triangle_set_public(&t, W, w);
    triangle_agree(&t, 1, 0);
    triangle_input(&t, 0, 1, 1, x);
    triangle_finish(&t, 1);
    assert_memory_equal(uvcc_session_output(t.s[2], 1, 1), turned, sizeof turned);
    assert_int_equal(uvcc_session_output(t.s[2], 1, 0)[0], 1 * 1 - 2 * 2 + 3 * 0 + 4 * -1);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* Borrows what the lender has of every party of t, once it is set there. */
static void borrow_all(triangle *t, triangle *lender, uint32_t tensor) {
    for (unsigned i = 0; i < 3; i++) {
        int rc;
        while ((rc = uvcc_session_set_borrowed(t->s[i], tensor)) == UVCC_ERR_AGAIN)
            assert_true(triangle_turn(lender));
        assert_int_equal(rc, 0);
    }
}

/* Borrowers end, and others go on from their checkpoints: the lender lives and steps meanwhile, and
 * its values change; each run says anew what it borrows. */
static void test_borrowers_resume(void **state) {
    (void)state;
    enum { RUNS = 3 };
    uint8_t *kept[3];
    size_t len = 0;
    triangle lender, t;
    uvcc_program *p;
    shape s = base();
    int64_t other[COLS * OUT];
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    memcpy(other, w, sizeof w);
    other[5] = 99;
    triangle_open(&lender, p,
                  &(triangle_options){.seed = 21, .borrow = true, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&lender);
    for (uint32_t run = 0; run < RUNS; run++) {
        const int64_t *by = run % 2 == 0 ? w : other;
        if (run == 0)
            set_borrowed(&lender, T, turns);
        set_borrowed(&lender, W, by);
        next_run = run;
        triangle_make(&t, p,
                      &(triangle_options){.seed = 22 + run,
                                          .lender = lender.s[run % 3],
                                          .mode = UVCC_CPU_DEFERRED,
                                          .tweak = every_step});
        for (unsigned i = 0; i < 3 && run != 0; i++) {
            assert_int_equal(uvcc_session_resume(t.s[i], kept[i], len), 0);
            free(kept[i]);
        }
        triangle_start(&t);
        triangle_ready(&t);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(uvcc_session_step(t.s[i], run, 0, triangle_now(&t)), UVCC_ERR_STATE);
            assert_non_null(strstr(uvcc_session_error_detail(t.s[i]), "is borrowed and was not"));
        }
        borrow_all(&t, &lender, T);
        borrow_all(&t, &lender, W);
        triangle_agree(&t, run, 0);
        triangle_input(&t, 0, run, 1, x);
        triangle_finish(&t, 1);
        int64_t y = 0;
        for (size_t k = 0; k < COLS; k++)
            y += x[k] * by[k * OUT + 2];
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(uvcc_session_output(t.s[i], run, 0)[2], y);
            assert_memory_equal(uvcc_session_output(t.s[i], run, 1), turned, sizeof turned);
            if (run + 1 < RUNS)
                kept[i] = copy_of_checkpoint(&t, i, run + 1, &len);
        }
        triangle_free(&t);
        run_step_by(&lender, p, run, by);
    }
    triangle_close(&lender);
    triangle_free(&lender);
    uvcc_program_free(p);
}

static void may_cancel(uvcc_config *c) {
    c->resume.cancellable = 1;
}

static void count_cancelled(void *user, unsigned party, const uvcc_session *s,
                            const uvcc_event *e) {
    (void)s;
    uint32_t *cancelled = user;
    cancelled[party] += e->kind == UVCC_EVENT_STEP_CANCELLED;
}

/* The step that first says what public values are is dropped: by who lends, before who borrows has
 * agreed to it or while it runs, or by who borrows. Values that change after that, and steps that
 * run on them, are those of parties that have their own; so are the roots. */
static void test_borrowed_steps_cancelled(void **state) {
    (void)state;
    int64_t other[COLS * OUT];
    uvcc_program *p;
    shape s = base();
    s.constant = false;
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    memcpy(other, w, sizeof w);
    other[0] = -50;
    for (unsigned how = 0; how < 3; how++) {
        const unsigned who = how == 2 ? 1 : 0;
        uint8_t root[2][2][32];
        for (unsigned borrow = 0; borrow < 2; borrow++) {
            triangle t;
            uint32_t cancelled[3] = {0};
            triangle_open(&t, p,
                          &(triangle_options){.seed = 30 + how,
                                              .borrow = borrow != 0,
                                              .mode = UVCC_CPU_DEFERRED,
                                              .compute_seed = 4,
                                              .tweak = may_cancel,
                                              .on_event = count_cancelled,
                                              .user = cancelled});
            triangle_ready(&t);
            void (*put)(triangle *, uint32_t, const int64_t *) =
                borrow != 0 ? set_borrowed : triangle_set_public;
            put(&t, T, turns);
            put(&t, W, w);
            for (uint32_t step = 0; step < 4; step++) {
                if (step % 2 == 1) { /* one that runs, on what the dropped one was to read */
                    run_step_by(&t, p, step, step == 1 ? w : other);
                    memcpy(root[borrow][step / 2], t.root[2], 32);
                    if (step == 1)
                        put(&t, W, other);
                    continue;
                }
                for (unsigned i = 0; i < 3; i++)
                    if (how != 0 || i != 1)
                        assert_int_equal(uvcc_session_step(t.s[i], step, 0, triangle_now(&t)), 0);
                assert_int_equal(uvcc_session_cancel(t.s[who], step, triangle_now(&t)), 0);
                if (how == 0) {
                    for (unsigned turn = 0; turn < 50; turn++)
                        assert_true(triangle_turn(&t));
                    assert_int_equal(cancelled[0], step / 2);
                    assert_int_equal(uvcc_session_step(t.s[1], step, 0, triangle_now(&t)), 0);
                }
                while (cancelled[0] + cancelled[1] + cancelled[2] != 3 * (step / 2 + 1))
                    assert_true(triangle_turn(&t));
            }
            triangle_close(&t);
            triangle_free(&t);
        }
        assert_memory_equal(root[0], root[1], sizeof root[0]);
    }
    uvcc_program_free(p);
}

/* A product by what is public sends nothing, nor does what is turned. */
static void test_costs(void **state) {
    (void)state;
    uvcc_program *p;
    shape s = base();
    assert_int_equal(build(&p, &s, NULL, 0), 0);
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        uvcc_op_cost cost;
        assert_int_equal(uvcc_program_cost(p, 0, i, &cost), 0);
        if (d->opcode != UVCC_OP_INPUT && d->opcode != UVCC_OP_OUTPUT)
            assert_int_equal(cost.online_bytes + cost.rounds, 0);
    }
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_constants),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_sessions),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_borrowed),
        cmocka_unit_test(test_borrowing_refused),
        cmocka_unit_test(test_lender_that_fails),
        cmocka_unit_test(test_lender_that_begins_anew),
        cmocka_unit_test(test_lender_that_borrows),
        cmocka_unit_test(test_borrowers_resume),
        cmocka_unit_test(test_borrowed_steps_cancelled),
        cmocka_unit_test(test_unlike),
        cmocka_unit_test(test_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
