/* SPDX-License-Identifier: Apache-2.0 */
/* Products on Beaver triples in sessions: results, masks, bytes, triples made ahead, kept and
 * given. */
#include "triangle.h"

#include "exec/ops/beaver_state.h"
#include "exec/ops/triples.h"
#include "exec/runtime/builder.h"
#include "proto/bytes.h"
#include <uvcc/loopback.h>
#include <uvcc/record.h>

enum { SCALE = 6, MICRO_MAX = 32, OUT_Y = 100, OUT_V = 200, OUT_S, OUT_W, IN_X = 1 };

static void add_op(uvcc_program *p, uint16_t opcode, uint8_t phase, uint16_t k, uint32_t a,
                   uint32_t b, uint32_t out, uint8_t shift, uint8_t flags) {
    const uvcc_op_desc d = {.opcode = opcode,
                            .phase = phase,
                            .k = k,
                            .in_count = 2,
                            .out_count = 1,
                            .in = {a, b},
                            .out = {out},
                            .shift = shift,
                            .flags = flags};
    assert_true(uvcc_program_op(p, &d) >= 0);
}

static void finish(uvcc_program *p) {
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* ---- a training step ---- */

typedef struct dims {
    uint32_t m, k, n, micro;
} dims;

/* Y_i = X_i W for each microbatch, G = X_0^T Y_0, W = W - G, V = X_1 W, S = V^T V. */
static uvcc_program *training(test_alloc *mem, dims d, uint8_t flags) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    uint32_t x[MICRO_MAX], y[MICRO_MAX];
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t w = test_tensor(p, "W", d.k, d.n, 24, SCALE, UVCC_PERSIST);
    uint32_t g = test_tensor(p, "G", d.k, d.n, 24, SCALE, UVCC_TRANSIENT);
    uint32_t v = test_tensor(p, "V", d.m, d.n, 24, SCALE, UVCC_TRANSIENT);
    uint32_t s = test_tensor(p, "S", d.n, d.n, 50, SCALE, UVCC_TRANSIENT);
    for (uint32_t i = 0; i < d.micro; i++) {
        char name[16];
        snprintf(name, sizeof name, "X%u", i);
        x[i] = test_tensor(p, name, d.m, d.k, 10, SCALE, UVCC_TRANSIENT);
        snprintf(name, sizeof name, "Y%u", i);
        y[i] = test_tensor(p, name, d.m, d.n, 24, SCALE, UVCC_TRANSIENT);
    }
    assert_int_equal(uvcc_program_entry(p, "train"), 0);
    for (uint32_t i = 0; i < d.micro; i++)
        assert_true(uvcc_program_input(p, IN_X + i, x[i], (uint8_t)(i % 3)) >= 0);
    for (uint32_t i = 0; i < d.micro; i++)
        add_op(p, UVCC_OP_GEMM_SS, UVCC_FWD, (uint16_t)i, x[i], w, y[i], SCALE, flags);
    add_op(p, UVCC_OP_GEMM_SS, UVCC_BWD, 0, x[0], y[0], g, SCALE, flags | UVCC_OP_TRANS_A);
    add_op(p, UVCC_OP_SUB, UVCC_UPD, 0, w, g, w, 0, 0);
    add_op(p, UVCC_OP_GEMM_SS, UVCC_UPD, 1, x[1], w, v, SCALE, flags);
    add_op(p, UVCC_OP_GEMM_SS, UVCC_UPD, 2, v, v, s, SCALE, flags | UVCC_OP_TRANS_A);
    for (uint32_t i = 0; i < d.micro; i++)
        assert_true(uvcc_program_output(p, OUT_Y + i, y[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT_V, v) >= 0);
    assert_true(uvcc_program_output(p, OUT_S, s) >= 0);
    assert_true(uvcc_program_output(p, OUT_W, w) >= 0);
    finish(p);
    return p;
}

static int64_t *values(uint64_t seed, size_t n) {
    int64_t *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(test_rand(&seed) % 63) - 31;
    return v;
}

static void set_weights(triangle *t, const uvcc_program *p, uvcc_reference *ref) {
    const int w = uvcc_program_find(p, "W");
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, (uint32_t)w);
    int64_t *v = values(99, (size_t)d->rows * d->cols);
    triangle_set_public(t, (uint32_t)w, v);
    assert_int_equal(uvcc_reference_set(ref, (uint32_t)w, v), 0);
    free(v);
}

static void agree(triangle *t, uint32_t step) {
    triangle_agree(t, step, 0);
}

typedef struct outcome {
    uint8_t root[3][32];
    uvcc_session_stats stats[3];
} outcome;

/* Triples that parties were given before the first step: [party]. */
typedef struct given {
    const uint8_t *data[3];
    size_t len[3];
} given;

static outcome train(const triangle_options *opt, dims d, uint8_t flags, uint32_t steps,
                     const given *g) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = training(&mem, d, flags);
    uvcc_reference *ref;
    outcome out;
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    set_weights(&t, p, ref);
    for (unsigned i = 0; g != NULL && i < 3; i++)
        assert_int_equal(uvcc_session_load_triples(t.s[i], g->data[i], g->len[i]), 0);
    for (uint32_t step = 0; step < steps; step++) {
        agree(&t, step);
        triangle_give_inputs(&t, p, ref, step, 31);
        triangle_finish(&t, step + 1);
        triangle_check_outputs(&t, p, ref, step);
    }
    triangle_close(&t);
    memcpy(out.root, t.root, sizeof out.root);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_get_stats(t.s[i], &out.stats[i]);
        assert_int_equal(t.s[i]->triples_ahead, 0);
    }
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return out;
}

static const dims small = {5, 4, 3, 3}, wide = {70, 64, 66, 2};

/* Secure equals reference, in both modes, whatever the network and the executor do. */
static void test_training(void **state) {
    (void)state;
    const uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    const uvcc_fault_config rough = {
        .split = 0.5, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.01};
    const triangle_options runs[] = {
        {.seed = 1},
        {.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 1},
        {.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 2},
        {.seed = 1, .mode = UVCC_CPU_THREADS},
        {.seed = 1, .datagram = true, .faulty = true, .faults = bad},
        {.seed = 1, .faulty = true, .faults = rough},
        {.seed = 1,
         .datagram = true,
         .faulty = true,
         .faults = bad,
         .mode = UVCC_CPU_DEFERRED,
         .compute_seed = 3},
    };
    const outcome native = train(&runs[0], small, 0, 3, NULL);
    const outcome want = train(&runs[0], small, UVCC_OP_BEAVER, 3, NULL);
    assert_memory_not_equal(want.root, native.root, sizeof want.root);
    for (size_t i = 1; i < sizeof runs / sizeof runs[0]; i++) {
        const outcome got = train(&runs[i], small, UVCC_OP_BEAVER, 3, NULL);
        assert_memory_equal(got.root, want.root, sizeof want.root);
        assert_int_equal(got.stats[1].bytes_online, want.stats[1].bytes_online);
        assert_int_equal(got.stats[1].bytes_preprocessing, want.stats[1].bytes_preprocessing);
    }
    train(&runs[0], wide, UVCC_OP_BEAVER, 2,
          NULL); /* vectors of several blocks, of other lengths */
    train(&(triangle_options){.seed = 2, .audit_off = true}, small, UVCC_OP_BEAVER, 2, NULL);
}

/* ---- bytes ---- */

enum { BLV1_HEADER = 16, OPEN_HEAD = 24, RESHARE_HEAD = 20, DIGEST_BYTES = 48 };

static uint64_t blocks(uint64_t elems) {
    return (elems + UVCC_BLOCK_ELEMS - 1) / UVCC_BLOCK_ELEMS;
}
/* What one party sends to open a vector to all, and to reshare one. */
static uint64_t open_bytes(uint64_t elems) {
    return 2 * BLV1_HEADER + DIGEST_BYTES + OPEN_HEAD * blocks(elems) + 8 * elems;
}
static uint64_t reshare_bytes(uint64_t elems) {
    return BLV1_HEADER + RESHARE_HEAD * blocks(elems) + 8 * elems;
}

/* Products X_i W_i of PERSIST tensors, nothing else; `shared`: all have one W. Of party 1. */
static void product_bytes(dims d, bool shared, uint8_t flags, uint64_t *online, uint64_t *offline) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    uint32_t w = 0;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    for (uint32_t i = 0; i < d.micro; i++) {
        char name[16];
        snprintf(name, sizeof name, "X%u", i);
        uint32_t x = test_tensor(p, name, d.m, d.k, 20, 0, UVCC_PERSIST);
        snprintf(name, sizeof name, "W%u", i);
        w = i == 0 || !shared ? test_tensor(p, name, d.k, d.n, 20, 0, UVCC_PERSIST) : w;
        snprintf(name, sizeof name, "Z%u", i);
        uint32_t z = test_tensor(p, name, d.m, d.n, 60, 0, UVCC_TRANSIENT);
        add_op(p, UVCC_OP_GEMM_SS, UVCC_FWD, (uint16_t)i, x, w, z, 0, flags);
    }
    finish(p);
    triangle t;
    uvcc_session_stats st;
    triangle_open(&t, p, &(triangle_options){.seed = 5});
    triangle_ready(&t);
    agree(&t, 0);
    triangle_finish(&t, 1);
    triangle_close(&t);
    uvcc_session_get_stats(t.s[1], &st);
    *online = st.bytes_online;
    *offline = st.bytes_preprocessing;
    assert_int_equal(st.rounds, 1);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* protocols.md 6: what a product costs natively, with both operands opened, and with one of them
 * opened once for 32 microbatches: 8 m n; 8 (m k + k n) and 8 m n; 8 (m k + k n / 32) and 8 m n. */
static void test_bytes_sent(void **state) {
    (void)state;
    const dims d = {32, 64, 256, 32}; /* the table's [2048 x 4096] x [4096 x 16384] over 64 */
    const uint64_t x = (uint64_t)d.m * d.k, w = (uint64_t)d.k * d.n, z = (uint64_t)d.m * d.n;
    uint64_t online, offline;
    product_bytes(d, true, 0, &online, &offline);
    const uint64_t rest = online - d.micro * reshare_bytes(z); /* STEP, AUDIT, BYE */
    assert_true(rest < 1000);
    assert_int_equal(offline, 0);
    product_bytes(d, false, UVCC_OP_BEAVER, &online, &offline);
    assert_int_equal(online, rest + d.micro * (open_bytes(x) + open_bytes(w)));
    assert_int_equal(offline, d.micro * reshare_bytes(z));
    product_bytes(d, true, UVCC_OP_BEAVER, &online, &offline);
    assert_int_equal(online, rest + d.micro * open_bytes(x) + open_bytes(w));
    assert_int_equal(offline, d.micro * reshare_bytes(z));
}

/* ---- every mask masks one thing ---- */

typedef struct masking {
    uint8_t key[2][16];
    uint16_t kind, call;
    uint32_t ordinal, block;
    uint64_t opened; /* its first word, of component lo: X - A */
} masking;

typedef struct observer {
    masking *seen;
    uint32_t count, cap;
    uint8_t watch; /* this party's jobs */
    uint8_t spoil; /* party that sends one opened word wrong; 3: none */
} observer;

static void observe(observer *o, const uvcc_task *t) {
    if (t->kind != UVCC_TASK_TRIPLE_A && t->kind != UVCC_TASK_TRIPLE_B)
        return;
    const uvcc_prg_tag tag = t->kind == UVCC_TASK_TRIPLE_A ? UVCC_TAG_tripleA : UVCC_TAG_tripleB;
    for (uint32_t k = 0; k < t->u.vec.count; k++) {
        const uvcc_block *b = &t->u.vec.blocks[k];
        if (b->in[0] == NULL)
            continue;
        masking m = {.kind = t->kind,
                     .call = t->call,
                     .ordinal = t->ordinal,
                     .block = b->block,
                     .opened = b->out[0][0]};
        memcpy(m.key[0], t->keys->prg[UVCC_PAIR_PREV][tag], 16);
        memcpy(m.key[1], t->keys->prg[UVCC_PAIR_NEXT][tag], 16);
        if (o->count == o->cap) {
            o->cap = 2 * o->cap + 16;
            o->seen = realloc(o->seen, o->cap * sizeof *o->seen);
            assert_non_null(o->seen);
        }
        o->seen[o->count++] = m;
    }
}

static void watch_task(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    observer *o = user;
    const uvcc_task *t = &job->tasks[task];
    if (done && party == o->watch)
        observe(o, t);
    if (done && party == o->spoil && t->kind == UVCC_TASK_TRIPLE_B &&
        t->u.vec.blocks[0].wire_out[0] != NULL)
        t->u.vec.blocks[0].wire_out[0][3] ^= 4;
}

static void observed_open(triangle *t, const uvcc_program *p, observer *o) {
    triangle_open(t, p,
                  &(triangle_options){.seed = 9, .wired = true, .on_task = watch_task, .user = o});
    triangle_settle(t);
}

/* A mask has one key, tag, op, call and block: no two things are ever opened under one, in a step
 * or in the next, and a version of a tensor is opened once however many products read it. */
static void test_masks(void **state) {
    (void)state;
    enum { STEPS = 3 };
    const dims d = {5, 4, 3, 4};
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = training(&mem, d, UVCC_OP_BEAVER);
    uvcc_reference *ref;
    observer o = {.watch = 1, .spoil = 3};
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    observed_open(&t, p, &o);
    set_weights(&t, p, ref);
    for (uint32_t step = 0; step < STEPS; step++) {
        agree(&t, step);
        triangle_give_inputs(&t, p, ref, step, 31);
        triangle_settle(&t);
        assert_int_equal(t.finished[0] + t.finished[1] + t.finished[2], 3 * (step + 1));
        triangle_check_outputs(&t, p, ref, step);
    }
    /* X_i; W before and after; Y_0; V, which a square reads twice. */
    assert_int_equal(o.count, STEPS * (d.micro + 2 + 1 + 1));
    for (uint32_t i = 0; i < o.count; i++)
        for (uint32_t j = 0; j < i; j++) {
            const masking *a = &o.seen[i], *b = &o.seen[j];
            assert_false(a->kind == b->kind && a->ordinal == b->ordinal && a->call == b->call &&
                         a->block == b->block && memcmp(a->key, b->key, sizeof a->key) == 0);
            assert_true(a->opened != b->opened);
        }
    free(o.seen);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A party that opens something else than the other holder of the component is noticed before
 * anything is computed from it. */
static void test_wrong_opening(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = training(&mem, small, UVCC_OP_BEAVER);
    uvcc_reference *ref;
    observer o = {.watch = 3, .spoil = 0};
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    observed_open(&t, p, &o);
    set_weights(&t, p, ref);
    agree(&t, 0);
    triangle_give_inputs(&t, p, ref, 0, 31);
    triangle_settle(&t);
    assert_int_equal(t.aborted[1], UVCC_ABORT_OPEN_MISMATCH);
    assert_int_equal(t.aborted[0], UVCC_ABORT_PEER);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
}

/* ---- ahead ---- */

static uint64_t budget;
static void with_budget(uvcc_config *c) {
    c->limits.triples_ahead_bytes = budget;
}

/* Triples of the running step and of the one that waits are made while inputs are missing, in
 * program order and as many as the budget holds, one at least. */
static void test_ahead(void **state) {
    (void)state;
    const dims d = small;
    const uint64_t y = 16ull * d.m * d.n, g = 16ull * d.k * d.n, s = 16ull * d.n * d.n,
                   step = (d.micro + 1) * y + g + s;
    const struct {
        uint64_t budget, held;
    } cases[] = {{0, 2 * step},  {2 * step, 2 * step}, {1, y},
                 {2 * y, 2 * y}, {step + y, step + y}, {d.micro * y + g - 1, d.micro * y}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        uvcc_program *p = training(&mem, d, UVCC_OP_BEAVER);
        uvcc_reference *ref;
        triangle t;
        budget = cases[c].budget;
        assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
        triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = with_budget});
        triangle_ready(&t);
        set_weights(&t, p, ref);
        agree(&t, 0);
        agree(&t, 1);
        for (unsigned i = 0; i < 400 && triangle_turn(&t); i++)
            ;
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(t.finished[i], 0);
            assert_int_equal(t.s[i]->triples_ahead, cases[c].held);
        }
        for (uint32_t k = 0; k < 2; k++) {
            triangle_give_inputs(&t, p, ref, k, 31);
            triangle_finish(&t, k + 1);
            triangle_check_outputs(&t, p, ref, k);
        }
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(t.s[i]->triples_ahead, 0);
        triangle_close(&t);
        triangle_free(&t);
        uvcc_reference_free(ref);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* ---- triples that a session of their own makes ---- */

enum { RUN = 3, MADE_STEPS = 2 };
static uint32_t maker_next_run = RUN - 1, maker_for = RUN;
static uint32_t consumer_next_run;

static void maker(uvcc_config *c) {
    c->triples.only = true;
    c->triples.run = maker_for;
    c->resume.next_run = maker_next_run;
}
static void consumer(uvcc_config *c) {
    c->resume.next_run = consumer_next_run;
}

/* Stores of the three parties with the triples of steps 0 to MADE_STEPS - 1 of run RUN. */
static void make_stores(uvcc_triple_store *store[3], const uvcc_allocator *al, dims d,
                        const triangle_options *opt) {
    test_alloc mem = {0};
    uvcc_program *p = training(&mem, d, UVCC_OP_BEAVER);
    triangle t;
    triangle_options o = *opt;
    o.tweak = maker;
    triangle_open(&t, p, &o);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_triple_store_new(&store[i], al), 0);
    for (uint32_t step = 0; step < MADE_STEPS; step++) {
        agree(&t, step);
        triangle_finish(&t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            uint32_t at;
            const uint8_t *data;
            size_t len;
            assert_int_equal(uvcc_session_triples(t.s[i], &at, &data, &len), 0);
            assert_int_equal(at, step);
            assert_int_equal(uvcc_triple_store_add(store[i], data, len), 0);
            assert_null(uvcc_session_output(t.s[i], step, OUT_W));
            assert_int_equal(uvcc_session_load_triples(t.s[i], data, len), UVCC_ERR_STATE);
        }
    }
    uvcc_session_stats st;
    uvcc_session_get_stats(t.s[0], &st);
    assert_true(st.bytes_preprocessing > 0);
    assert_int_equal(st.rounds, 0);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void free_stores(uvcc_triple_store *store[3]) {
    for (unsigned i = 0; i < 3; i++)
        uvcc_triple_store_free(store[i]);
}

typedef struct consuming {
    test_alloc mem;
    uvcc_program *p;
    uvcc_reference *ref;
    triangle t;
} consuming;

static void consume_open(consuming *c, dims d, uint32_t run, const triangle_options *opt) {
    memset(c, 0, sizeof *c);
    triangle_options o = opt != NULL ? *opt : (triangle_options){.seed = 77};
    uvcc_allocator al = test_allocator(&c->mem);
    c->p = training(&c->mem, d, UVCC_OP_BEAVER);
    assert_int_equal(uvcc_reference_new(&c->ref, c->p, &al), 0);
    consumer_next_run = run;
    o.tweak = consumer;
    triangle_open(&c->t, c->p, &o);
    triangle_ready(&c->t);
    set_weights(&c->t, c->p, c->ref);
}

static void consume_step(consuming *c, uint32_t step, uint32_t done) {
    agree(&c->t, step);
    triangle_give_inputs(&c->t, c->p, c->ref, step, 31);
    triangle_finish(&c->t, done);
    triangle_check_outputs(&c->t, c->p, c->ref, step);
}

static void consume_free(consuming *c) {
    triangle_free(&c->t);
    uvcc_reference_free(c->ref);
    uvcc_program_free(c->p);
    assert_int_equal(c->mem.live_blocks, 0);
}

static uint64_t preprocessing(const triangle *t) {
    uvcc_session_stats st;
    uvcc_session_get_stats(t->s[0], &st);
    return st.bytes_preprocessing;
}

/* What a party sends for the triples of a training step. */
static uint64_t triples_bytes(dims d) {
    return (d.micro + 1) * reshare_bytes((uint64_t)d.m * d.n) + reshare_bytes((uint64_t)d.k * d.n) +
           reshare_bytes((uint64_t)d.n * d.n);
}

/* A step's triples from the stores to the sessions. */
static void hand_over(uvcc_triple_store *store[3], consuming *c, uint32_t step) {
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data;
        size_t len;
        assert_int_equal(uvcc_triple_store_take(store[i], RUN, step, &data, &len), 0);
        assert_int_equal(uvcc_session_load_triples(c->t.s[i], data, len), 0);
    }
}

/* Kept triples give the same results with nothing but keys sent ahead; the step after them makes
 * its own. */
static void test_kept(void **state) {
    (void)state;
    const uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    const triangle_options runs[] = {
        {.seed = 11},
        {.seed = 11, .mode = UVCC_CPU_DEFERRED, .compute_seed = 4},
        {.seed = 11, .datagram = true, .faulty = true, .faults = bad},
    };
    const dims cases[] = {small, wide};
    uint8_t root[3][32];
    for (unsigned k = 0; k < 4; k++) {
        const dims d = cases[k / 3];
        const triangle_options *opt = &runs[k % 3];
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        uvcc_triple_store *store[3];
        consuming c;
        make_stores(store, &al, d, opt);
        assert_int_equal(uvcc_triple_store_count(store[0]), MADE_STEPS * (d.micro + 3));
        consume_open(&c, d, RUN, opt);
        uint64_t before = preprocessing(&c.t);
        for (uint32_t step = 0; step < MADE_STEPS + 1; step++) {
            if (step < MADE_STEPS)
                hand_over(store, &c, step);
            consume_step(&c, step, step + 1);
            const uint64_t sent = preprocessing(&c.t) - before;
            before += sent;
            if (step == MADE_STEPS)
                assert_true(sent >= triples_bytes(d));
        }
        triangle_close(&c.t);
        if (k == 0)
            memcpy(root, c.t.root, sizeof root);
        else if (k < 3)
            assert_memory_equal(c.t.root, root, sizeof root);
        consume_free(&c);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_triple_store_count(store[i]), 0);
        free_stores(store);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* Of what is sent ahead only keys remain: measured beside a run that makes its triples. */
static void test_kept_sends_no_triples(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3];
    const dims d = small;
    uint64_t sent[2] = {0};
    make_stores(store, &al, d, &(triangle_options){.seed = 11});
    for (unsigned with = 0; with < 2; with++) {
        consuming c;
        consume_open(&c, d, RUN, NULL);
        if (with == 1)
            hand_over(store, &c, 0);
        consume_step(&c, 0, 1);
        triangle_close(&c.t);
        for (unsigned i = 0; i < 3; i++) {
            uvcc_session_stats st;
            uvcc_session_get_stats(c.t.s[i], &st);
            sent[with] += st.bytes_preprocessing;
        }
        consume_free(&c);
    }
    assert_int_equal(sent[0] - sent[1], 3 * triples_bytes(d));
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

typedef struct bytes {
    uint8_t *p;
    size_t len;
} bytes;

static bytes saved(const uvcc_triple_store *st) {
    bytes b = {.len = uvcc_triple_store_saved_bytes(st)};
    b.p = malloc(b.len);
    assert_int_equal(uvcc_triple_store_save(st, b.p, b.len - 1), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_triple_store_save(st, b.p, b.len), 0);
    return b;
}

static bytes copy_of(const uint8_t *data, size_t len) {
    bytes b = {.p = malloc(len), .len = len};
    memcpy(b.p, data, len);
    return b;
}

/* No triple is used twice, whatever copies of it a host has. */
static void test_never_twice(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3], *again;
    consuming c;
    const uint8_t *data;
    size_t len;
    bytes step0[3];
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    bytes old = saved(store[0]);
    consume_open(&c, small, RUN, NULL);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_triple_store_take(store[i], RUN, 0, &data, &len), 0);
        step0[i] = copy_of(data, len);
        assert_int_equal(uvcc_session_load_triples(c.t.s[i], data, len), 0);
        /* given already */
        assert_int_equal(uvcc_session_load_triples(c.t.s[i], data, len), UVCC_ERR_STATE);
    }
    /* The store has none of them any more, saved and loaded either. */
    assert_int_equal(uvcc_triple_store_take(store[0], RUN, 0, &data, &len), UVCC_ERR_STATE);
    assert_int_equal(uvcc_triple_store_add(store[0], step0[0].p, step0[0].len), UVCC_ERR_STATE);
    bytes now = saved(store[0]);
    assert_int_equal(uvcc_triple_store_load(&again, &al, now.p, now.len), 0);
    assert_int_equal(uvcc_triple_store_count(again), small.micro + 3);
    assert_int_equal(uvcc_triple_store_take(again, RUN, 0, &data, &len), UVCC_ERR_STATE);
    assert_int_equal(uvcc_triple_store_add(again, step0[0].p, step0[0].len), UVCC_ERR_STATE);
    uvcc_triple_store_free(again);
    /* An old copy of the store gives them, and the session does not take them: the step is agreed,
     * runs, is over. */
    assert_int_equal(uvcc_triple_store_load(&again, &al, old.p, old.len), 0);
    assert_int_equal(uvcc_triple_store_take(again, RUN, 0, &data, &len), 0);
    assert_int_equal(len, step0[0].len);
    agree(&c.t, 0);
    assert_int_equal(uvcc_session_load_triples(c.t.s[0], data, len), UVCC_ERR_STATE);
    triangle_give_inputs(&c.t, c.p, c.ref, 0, 31);
    triangle_finish(&c.t, 1);
    assert_int_equal(uvcc_session_load_triples(c.t.s[0], data, len), UVCC_ERR_STATE);
    triangle_check_outputs(&c.t, c.p, c.ref, 0);
    uvcc_triple_store_free(again);
    triangle_close(&c.t);
    consume_free(&c);
    /* After a restart the run is another: a session takes none, a store destroys them all. */
    consume_open(&c, small, RUN + 1, NULL);
    assert_int_equal(uvcc_session_load_triples(c.t.s[0], step0[0].p, step0[0].len),
                     UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_triple_store_load(&again, &al, old.p, old.len), 0);
    assert_int_equal(uvcc_triple_store_take(again, RUN + 1, 0, &data, &len), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_triple_store_count(again), 0);
    assert_int_equal(uvcc_triple_store_take(again, RUN, 1, &data, &len), UVCC_ERR_STATE);
    uvcc_triple_store_free(again);
    triangle_close(&c.t);
    consume_free(&c);
    for (unsigned i = 0; i < 3; i++)
        free(step0[i].p);
    free(old.p);
    free(now.p);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* Any flipped bit, any cut: refused, and nothing of it taken. */
static void test_damage(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3], *out;
    consuming c;
    const uint8_t *data;
    size_t len;
    uvcc_triple_info info;
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    bytes all = saved(store[0]);
    for (size_t i = 0; i < all.len; i++) {
        all.p[i] ^= (uint8_t)(1u << (i % 8));
        int rc = uvcc_triple_store_load(&out, &al, all.p, all.len);
        assert_true(rc == UVCC_ERR_AUTH || (rc == UVCC_ERR_FRAME && i < 24));
        all.p[i] ^= (uint8_t)(1u << (i % 8));
    }
    for (size_t cut = 0; cut < all.len; cut += 1 + cut % 13)
        assert_int_equal(uvcc_triple_store_load(&out, &al, all.p, cut), UVCC_ERR_FRAME);
    consume_open(&c, small, RUN, NULL);
    assert_int_equal(uvcc_triple_store_take(store[0], RUN, 0, &data, &len), 0);
    bytes step = copy_of(data, len);
    assert_int_equal(uvcc_triple_read(step.p, step.len, &info), 0);
    assert_int_equal(info.party, 0);
    assert_int_equal(info.run, RUN);
    assert_int_equal(info.maker_run, RUN - 1);
    assert_int_equal(info.bytes, 224 + 16 * info.rows[2] * info.cols[2]);
    for (size_t i = 0; i < step.len; i++) {
        step.p[i] ^= (uint8_t)(1u << (i % 8));
        int rc = uvcc_session_load_triples(c.t.s[0], step.p, step.len);
        assert_true(rc == UVCC_ERR_AUTH || rc == UVCC_ERR_FRAME);
        assert_int_not_equal(uvcc_triple_store_add(store[1], step.p, step.len), 0);
        step.p[i] ^= (uint8_t)(1u << (i % 8));
    }
    size_t end = 0; /* of a record */
    for (size_t cut = 1; cut < step.len; cut++) {
        if (cut > end && uvcc_triple_read(step.p + end, step.len - end, &info) == 0)
            end += info.bytes;
        if (cut != end)
            assert_int_equal(uvcc_session_load_triples(c.t.s[0], step.p, cut), UVCC_ERR_FRAME);
    }
    assert_null(c.t.s[0]->stored);
    /* Another party's; one of the store's own kind only. */
    assert_int_equal(uvcc_session_load_triples(c.t.s[1], step.p, step.len), UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_triple_store_add(store[1], step.p, step.len), UVCC_ERR_MISMATCH);
    free(step.p);
    free(all.p);
    consume_free(&c);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* What party 0 sent for triples that it made. */
static uint64_t made(const consuming *c) {
    return c->t.s[0]->triple_bytes;
}

/* What party i holds of a step: nothing, all, or all of it but one op's. */
static void give_part(consuming *c, unsigned i, const uint8_t *data, size_t len, unsigned what) {
    uvcc_triple_info t;
    if (what == 0)
        return;
    assert_int_equal(uvcc_triple_read(data, len, &t), 0);
    const size_t from = what == 1 ? 0 : t.bytes;
    assert_int_equal(uvcc_session_load_triples(c->t.s[i], data + from, len - from), 0);
}

/* Where the three do not have the same, nobody uses what there is, and the step makes its own: same
 * results, whatever the network does, and nothing of it stays for the next step. */
static void test_unequal(void **state) {
    (void)state;
    const uvcc_fault_config bad = {.drop = 0.2, .duplicate = 0.1, .reorder = 0.3};
    for (unsigned have = 1; have < 27; have++) {
        const unsigned part[3] = {have % 3, have / 3 % 3, have / 9};
        if (part[0] == part[1] && part[1] == part[2])
            continue;
        const triangle_options rough = {
            .seed = have, .datagram = true, .faulty = have % 2 == 0, .faults = bad};
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        uvcc_triple_store *store[3];
        consuming c;
        make_stores(store, &al, small, &(triangle_options){.seed = 11});
        consume_open(&c, small, RUN, &rough);
        for (unsigned i = 0; i < 3; i++) {
            const uint8_t *data;
            size_t len;
            assert_int_equal(uvcc_triple_store_take(store[i], RUN, 0, &data, &len), 0);
            give_part(&c, i, data, len, part[i]);
        }
        consume_step(&c, 0, 1);
        assert_int_equal(made(&c), triples_bytes(small));
        for (unsigned i = 0; i < 3; i++)
            assert_null(c.t.s[i]->stored);
        consume_step(&c, 1, 2);
        triangle_close(&c.t);
        consume_free(&c);
        free_stores(store);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* A peer whose STEP says that it was given what this party was, and which makes a triple all the
 * same, is told of: at once, or when the last STEP shows it. */
static void test_made_and_given(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3];
    consuming c;
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    consume_open(&c, small, RUN, NULL);
    hand_over(store, &c, 0);
    agree(&c.t, 0);
    uvcci_step *st = &c.t.s[1]->ctx[0]; /* party 1 forgets what it was given, and says nothing */
    for (uint32_t i = 0; i < st->entry->op_count; i++) {
        uvcci_beaver *v = uvcci_beaver_of(&st->instances[i]);
        if (v == NULL || v->tile[0].stored == NULL)
            continue;
        uvcci_stored_free(c.t.s[1], v->tile[0].stored);
        v->tile[0].stored = NULL;
    }
    triangle_give_inputs(&c.t, c.p, c.ref, 0, 31);
    bool named = false;
    for (unsigned i = 0; i < 100000 && triangle_turn(&c.t); i++)
        if (c.t.aborted[0] != 0 && c.t.aborted[1] != 0 && c.t.aborted[2] != 0)
            break;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(c.t.aborted[i] == UVCC_ABORT_TRIPLE || c.t.aborted[i] == UVCC_ABORT_PEER);
        named |= c.t.aborted[i] == UVCC_ABORT_TRIPLE;
    }
    assert_true(named);
    consume_free(&c);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* Triples for any run after their maker's: a run uses some, the next one others; and what a party
 * still has of a step that was used (an old copy of its store) is not used, for the others have
 * none. */
static void test_any_run(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3], *old;
    const uint8_t *data;
    size_t len;
    consuming c;
    maker_for = UVCC_TRIPLES_ANY_RUN;
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    maker_for = RUN;
    bytes copy = saved(store[0]);
    for (uint32_t run = RUN; run < RUN + 3; run++) {
        consume_open(&c, small, run, NULL);
        for (unsigned i = 0; i < 3 && run < RUN + 2; i++) {
            assert_int_equal(
                uvcc_triple_store_take(store[i], UVCC_TRIPLES_ANY_RUN, run - RUN, &data, &len), 0);
            assert_int_equal(uvcc_session_load_triples(c.t.s[i], data, len), 0);
            assert_int_equal(
                uvcc_triple_store_take(store[i], UVCC_TRIPLES_ANY_RUN, run - RUN, &data, &len),
                UVCC_ERR_STATE);
        }
        if (run == RUN + 2) {
            assert_int_equal(uvcc_triple_store_load(&old, &al, copy.p, copy.len), 0);
            assert_int_equal(uvcc_triple_store_take(old, UVCC_TRIPLES_ANY_RUN, 0, &data, &len), 0);
            assert_int_equal(uvcc_session_load_triples(c.t.s[0], data, len), 0);
            uvcc_triple_store_free(old);
        }
        if (run == RUN + 1) { /* step 0 again, as after a restart: its triples are used up */
            consume_step(&c, 0, 1);
            assert_int_equal(made(&c), triples_bytes(small));
        }
        const uint64_t before = made(&c);
        consume_step(&c, run == RUN + 1, run == RUN + 1 ? 2 : 1);
        assert_int_equal(made(&c) - before, run == RUN + 2 ? triples_bytes(small) : 0);
        triangle_close(&c.t);
        consume_free(&c);
    }
    /* Of a maker with this run or a later one: no such run was before. */
    consume_open(&c, small, RUN - 1, NULL);
    assert_int_equal(uvcc_triple_store_load(&old, &al, copy.p, copy.len), 0);
    assert_int_equal(uvcc_triple_store_take(old, UVCC_TRIPLES_ANY_RUN, 0, &data, &len), 0);
    assert_int_equal(uvcc_session_load_triples(c.t.s[0], data, len), UVCC_ERR_MISMATCH);
    uvcc_triple_store_free(old);
    consume_free(&c);
    free(copy.p);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* Some of a step's triples: the others are made. One whose mask another op owns is of no use
 * without that op's, and is dropped. */
static void test_some(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    const uint32_t ops = small.micro + 3;
    uvcc_triple_store *store[3];
    bytes step[3];
    size_t at[8][3], size[8][3];
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data;
        size_t len, pos = 0;
        uint32_t first = UINT32_MAX, ordinals[8];
        assert_int_equal(uvcc_triple_store_take(store[i], RUN, 0, &data, &len), 0);
        step[i] = copy_of(data, len);
        for (uint32_t k = 0; k < ops; k++) { /* stores are ordered by id: here by op */
            uvcc_triple_info t;
            assert_int_equal(uvcc_triple_read(data + pos, len - pos, &t), 0);
            ordinals[k] = t.ordinal;
            first = t.ordinal < first ? t.ordinal : first;
            pos += t.bytes;
        }
        pos = 0;
        for (uint32_t k = 0; k < ops; k++) {
            uvcc_triple_info t;
            assert_int_equal(uvcc_triple_read(data + pos, len - pos, &t), 0);
            uint32_t rank = 0;
            for (uint32_t q = 0; q < ops; q++)
                rank += ordinals[q] < t.ordinal;
            at[rank][i] = pos;
            size[rank][i] = t.bytes;
            pos += t.bytes;
        }
    }
    /* Ops: Y_0 (owns X_0, W), Y_1 (X_1), Y_2 (X_2), G (Y_0; X_0 of op 0), V (W'; X_1 of op 1), S
     * (V). */
    for (unsigned set = 0; set < 1u << ops; set += 3) {
        consuming c;
        consume_open(&c, small, RUN, NULL);
        for (unsigned i = 0; i < 3; i++)
            for (uint32_t k = 0; k < ops; k++)
                if ((set >> k & 1) != 0)
                    assert_int_equal(
                        uvcc_session_load_triples(c.t.s[i], step[i].p + at[k][i], size[k][i]), 0);
        agree(&c.t, 0);
        const bool y0 = set & 1, y1 = y0 && (set & 2);
        const bool used[] = {
            y0, y1, y0 && (set & 4), y0 && (set & 8), y1 && (set & 16), (set & 32) != 0};
        uint32_t n = 0;
        for (uint32_t i = 0; i < c.t.s[0]->ctx[0].entry->op_count; i++) {
            const uvcci_instance *r = &c.t.s[0]->ctx[0].instances[i];
            if (uvcci_beaver_of(r) != NULL)
                assert_int_equal(uvcci_stored_of(r) != NULL, used[n++]);
        }
        assert_int_equal(n, ops);
        assert_null(c.t.s[0]->stored);
        triangle_give_inputs(&c.t, c.p, c.ref, 0, 31);
        triangle_finish(&c.t, 1);
        triangle_check_outputs(&c.t, c.p, c.ref, 0);
        triangle_close(&c.t);
        consume_free(&c);
    }
    for (unsigned i = 0; i < 3; i++)
        free(step[i].p);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* Triples of two makers: the second product shares W's mask, and is of another maker than that. */
static void test_two_makers(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[2][3];
    consuming c;
    make_stores(store[0], &al, small, &(triangle_options){.seed = 11});
    maker_next_run = RUN - 2;
    make_stores(store[1], &al, small, &(triangle_options){.seed = 12});
    maker_next_run = RUN - 1;
    consume_open(&c, small, RUN, NULL);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned m = 0; m < 2; m++) {
            const uint8_t *data;
            size_t len, at = 0;
            uvcc_triple_info t;
            assert_int_equal(uvcc_triple_store_take(store[m][i], RUN, 0, &data, &len), 0);
            while (uvcc_triple_read(data + at, len - at, &t) == 0 && t.ordinal != m)
                at += t.bytes;
            assert_int_equal(t.ordinal, m); /* Y_0 of the first maker, Y_1 of the second */
            assert_int_equal(uvcc_session_load_triples(c.t.s[i], data + at, t.bytes), 0);
        }
    agree(&c.t, 0);
    unsigned used = 0;
    for (uint32_t i = 0; i < c.t.s[0]->ctx[0].entry->op_count; i++) {
        const uvcci_instance *r = &c.t.s[0]->ctx[0].instances[i];
        if (uvcci_beaver_of(r) != NULL && uvcci_stored_of(r) != NULL) {
            used++;
            assert_int_equal(uvcci_stored_of(r)->info.maker_run, RUN - 1);
        }
    }
    assert_int_equal(used, 1);
    triangle_give_inputs(&c.t, c.p, c.ref, 0, 31);
    triangle_finish(&c.t, 1);
    triangle_check_outputs(&c.t, c.p, c.ref, 0);
    triangle_close(&c.t);
    consume_free(&c);
    free_stores(store[0]);
    free_stores(store[1]);
    assert_int_equal(mem.live_blocks, 0);
}

static void one_makes(uvcc_config *c) {
    c->triples.only = c->identity.party == 1;
}
static void other_run(uvcc_config *c) {
    c->triples.only = true;
    c->triples.run = c->identity.party == 2 ? 4 : 5;
}
static void with_checkpoints(uvcc_config *c) {
    c->triples.only = true;
    c->resume.checkpoint_every = 1;
}

/* Who makes triples says so in what it calls its program: triples.md. */
static void check_maker_hash(const uvcc_session *s, const uvcc_program *p) {
    uint8_t text[64], want[32];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcc_program_hash(p, want);
    uvcci_put(&w, "UVCC_TRIPLES_V1", 15);
    uvcci_put(&w, want, 32);
    uvcci_put32(&w, s->cfg.triples.run);
    if (s->cfg.triples.only)
        uvcci_sha256_once(text, w.len, want);
    assert_memory_equal(s->h_program, want, 32);
}

/* All three make triples, for one run, or the handshake fails. */
static void test_makers_agree(void **state) {
    (void)state;
    void (*const tweaks[])(uvcc_config *) = {one_makes, other_run};
    for (unsigned k = 0; k < 2; k++) {
        test_alloc mem = {0};
        uvcc_program *p = training(&mem, small, UVCC_OP_BEAVER);
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = tweaks[k]});
        for (unsigned i = 0; i < 2000 && triangle_turn(&t); i++)
            ;
        unsigned other = k == 0 ? 1 : 2;
        for (unsigned i = 0; i < 3; i++) {
            check_maker_hash(t.s[i], p);
            assert_false(t.ready[i]);
            for (unsigned q = 0; q < 3; q++)
                if (i != q && (i == other || q == other))
                    assert_string_equal(t.mismatch[i][q], "program");
                else
                    assert_null(t.mismatch[i][q]);
        }
        triangle_free(&t);
        uvcc_program_free(p);
    }
    test_alloc mem = {0};
    uvcc_session *s;
    uint64_t rnd = 1;
    uvcc_config c = triangle_config_alone(&mem, &rnd);
    c.triples.run = 1;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    with_checkpoints(&c);
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- the transcript ---- */

/* TRIPLE_CONSUMED of every Beaver product, with its id, the same at all parties. */
static void test_leaves(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = training(&mem, small, UVCC_OP_BEAVER);
    uvcc_reference *ref;
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    set_weights(&t, p, ref);
    agree(&t, 0);
    triangle_give_inputs(&t, p, ref, 0, 31);
    unsigned consumed[3] = {0};
    while (t.finished[0] + t.finished[1] + t.finished[2] < 3) {
        assert_true(triangle_turn(&t));
        for (unsigned i = 0; i < 3; i++) {
            const uvcci_step *st = &t.s[i]->ctx[0];
            uint8_t root[32];
            if (!st->active || uvcci_transcript_root(st->transcript, root) != 0)
                continue;
            consumed[i] = 0;
            for (uint32_t k = 0; k < uvcci_transcript_count(st->transcript); k++) {
                uint32_t row;
                const uint8_t *leaf;
                size_t len;
                assert_int_equal(uvcci_transcript_leaf(st->transcript, k, &row, &leaf, &len), 0);
                if (leaf[0] == UVCCI_LEAF_TRIPLE_CONSUMED) {
                    const uint32_t op_id = uvcci_ld32(leaf + 33);
                    consumed[i]++;
                    assert_int_equal(len, 45);
                    assert_true(uvcci_ld64(leaf + 37) ==
                                uvcci_triple_id(t.s[i]->sid_sub, 0, op_id, 0));
                }
            }
        }
    }
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(consumed[i], small.micro + 3);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
}

/* ---- logs ---- */

static struct {
    uint8_t *p;
    size_t len, cap;
} the_log;

static void log_write(void *user, const uint8_t *data, size_t len) {
    (void)user;
    if (the_log.len + len > the_log.cap) {
        the_log.cap = 2 * (the_log.len + len);
        the_log.p = realloc(the_log.p, the_log.cap);
        assert_non_null(the_log.p);
    }
    memcpy(the_log.p + the_log.len, data, len);
    the_log.len += len;
}
static void logged_consumer(uvcc_config *c) {
    consumer(c);
    if (c->identity.party == 1)
        c->record.write = log_write;
}

/* A log of a session that was given triples runs again, the same to the byte. */
static void test_replay(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = training(&mem, small, UVCC_OP_BEAVER);
    uvcc_triple_store *store[3];
    uvcc_reference *ref;
    triangle t;
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    consumer_next_run = RUN;
    triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = logged_consumer});
    triangle_ready(&t);
    set_weights(&t, p, ref);
    for (unsigned i = 0; i < 3; i++) {
        const uint8_t *data;
        size_t len;
        assert_int_equal(uvcc_triple_store_take(store[i], RUN, 0, &data, &len), 0);
        assert_int_equal(uvcc_session_load_triples(t.s[i], data, len), 0);
    }
    agree(&t, 0);
    triangle_give_inputs(&t, p, ref, 0, 31);
    triangle_finish(&t, 1);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_cpu *cpu;
    const uvcc_cpu_config x = {.size = sizeof x, .alloc = al};
    assert_int_equal(uvcc_cpu_new(&cpu, &x), 0);
    const uvcc_replay_options opt = {
        .size = sizeof opt, .alloc = al, .executor = cpu, .until = UVCC_NEVER};
    uvcc_replay_result out;
    assert_int_equal(uvcc_replay(the_log.p, the_log.len, p, &opt, &out), 0);
    assert_int_equal(out.steps, 1);
    uvcc_cpu_free(cpu);
    free(the_log.p);
    memset(&the_log, 0, sizeof the_log);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- memory ---- */

/* Every allocation of a store, and of giving a session its triples, fails once. */
static void test_no_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *store[3];
    const uint8_t *data;
    size_t len;
    make_stores(store, &al, small, &(triangle_options){.seed = 11});
    bytes all = saved(store[0]);
    for (size_t at = 1;; at++) {
        test_alloc few = {.fail_at = at};
        uvcc_allocator tight = test_allocator(&few);
        uvcc_triple_store *st;
        int rc = uvcc_triple_store_load(&st, &tight, all.p, all.len);
        if (rc == 0) {
            rc = uvcc_triple_store_take(st, RUN, 0, &data, &len);
            if (rc != 0)
                assert_int_equal(uvcc_triple_store_count(st), MADE_STEPS * (small.micro + 3));
            uvcc_triple_store_free(st);
        }
        assert_int_equal(few.live_blocks, 0);
        if (rc == 0)
            break;
        assert_int_equal(rc, UVCC_ERR_NOMEM);
    }
    consuming c;
    consume_open(&c, small, RUN, NULL);
    assert_int_equal(uvcc_triple_store_take(store[0], RUN, 0, &data, &len), 0);
    int rc = UVCC_ERR_NOMEM;
    for (size_t at = 1; rc != 0; at++) {
        c.t.mem.fail_at = at;
        rc = uvcc_session_load_triples(c.t.s[0], data, len);
        assert_true(rc == 0 || rc == UVCC_ERR_NOMEM);
        assert_true(rc == 0 || c.t.s[0]->stored == NULL);
    }
    c.t.mem.fail_at = 0;
    consume_free(&c); /* what was given and not used goes with the session */
    free(all.p);
    free_stores(store);
    assert_int_equal(mem.live_blocks, 0);
}

/* ... and of a step that uses stored triples: it ends right, or all abort for want of memory; what
 * it could not copy is never taken for a product. */
static void test_no_memory_in_step(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_triple_store *made[3];
    bytes kept[3];
    make_stores(made, &al, small, &(triangle_options){.seed = 11});
    for (unsigned i = 0; i < 3; i++)
        kept[i] = saved(made[i]);
    free_stores(made);
    bool whole = false;
    for (size_t at = 1; !whole; at += at < 40 ? 1 : 7) {
        uvcc_triple_store *store[3];
        consuming c;
        bool over = false;
        consume_open(&c, small, RUN, NULL);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_triple_store_load(&store[i], &al, kept[i].p, kept[i].len), 0);
        hand_over(store, &c, 0);
        free_stores(store);
        agree(&c.t, 0);
        triangle_give_inputs(&c.t, c.p, c.ref, 0, 31);
        const size_t calls = c.t.mem.calls;
        c.t.mem.fail_at = at;
        while (!over && (c.t.finished[0] == 0 || c.t.finished[1] == 0 || c.t.finished[2] == 0)) {
            assert_true(triangle_turn(&c.t));
            for (unsigned i = 0; i < 3; i++)
                over |= c.t.aborted[i] != 0;
        }
        c.t.mem.fail_at = 0;
        for (unsigned i = 0; i < 3; i++) { /* an executor's memory is a job's failure */
            const uint16_t why = c.t.aborted[i];
            if (why != 0 && why != UVCC_ABORT_MEMORY && why != UVCC_ABORT_JOB &&
                why != UVCC_ABORT_PEER)
                fail_msg("allocation %zu: party %u aborts for %u, %s", at, i, why,
                         c.t.abort_text[i]);
        }
        if (!over)
            triangle_check_outputs(&c.t, c.p, c.ref, 0);
        whole = !over && c.t.mem.calls - calls < at; /* it was beyond the last */
        consume_free(&c);
    }
    for (unsigned i = 0; i < 3; i++)
        free(kept[i].p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_memory_in_step),
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_bytes_sent),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_wrong_opening),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_sends_no_triples),
        cmocka_unit_test(test_never_twice),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_unequal),
        cmocka_unit_test(test_made_and_given),
        cmocka_unit_test(test_any_run),
        cmocka_unit_test(test_some),
        cmocka_unit_test(test_two_makers),
        cmocka_unit_test(test_makers_agree),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_replay),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
