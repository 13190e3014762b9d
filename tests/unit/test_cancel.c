/* SPDX-License-Identifier: Apache-2.0 */
/* Dropping a step (cancel.h): wherever it is asked for, and by whom, all three end with the same
 * outcome, and the next steps compute what they compute if a dropped step had been skipped. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include <uvcc/checkpoint.h>

enum { ROWS = 3, DEPTH = 4, COLS = 5, SHIFT = 6, IN_X = 1, OUT_W = 2, OUT_A = 3 };
enum { N = ROWS * COLS };

/* ---- a program: a = relu(x m >> SHIFT), w = w + a, u = u + w; w and a are opened ---- */

enum { X, M, Z, A, D, W, U };

/* How the product is made: its flags, and rows of its tiles. */
typedef struct way {
    uint8_t flags;
    uint32_t tile_rows;
} way;
static const way native = {0};

static uvcc_program *make_program(test_alloc *mem, way product) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(test_tensor(p, "x", ROWS, DEPTH, 12, SHIFT, UVCC_TRANSIENT), X);
    assert_int_equal(test_tensor(p, "m", DEPTH, COLS, 12, SHIFT, UVCC_PERSIST), M);
    assert_int_equal(test_tensor(p, "z", ROWS, COLS, 20, SHIFT, UVCC_TRANSIENT), Z);
    assert_int_equal(test_tensor(p, "a", ROWS, COLS, 20, SHIFT, UVCC_TRANSIENT), A);
    assert_int_equal(test_tensor(p, "d", ROWS, COLS, 1, 0, UVCC_TRANSIENT), D);
    assert_int_equal(test_tensor(p, "w", ROWS, COLS, 40, SHIFT, UVCC_PERSIST), W);
    assert_int_equal(test_tensor(p, "u", ROWS, COLS, 50, SHIFT, UVCC_PERSIST), U);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, X, 0) >= 0);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_GEMM_SS,
         .in_count = 2,
         .out_count = 1,
         .in = {X, M},
         .out = {Z},
         .shift = SHIFT,
         .flags = product.flags,
         .tile_rows = product.tile_rows,
         .truncation = UVCC_TRUNC_EXACT},
        {.opcode = UVCC_OP_RELU, .k = 1, .in_count = 1, .out_count = 2, .in = {Z}, .out = {A, D}},
        {.opcode = UVCC_OP_ADD,
         .phase = UVCC_UPD,
         .in_count = 2,
         .out_count = 1,
         .in = {W, A},
         .out = {W}},
        {.opcode = UVCC_OP_ADD,
         .phase = UVCC_UPD,
         .k = 1,
         .in_count = 2,
         .out_count = 1,
         .in = {U, W},
         .out = {U}}};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT_W, U) >= 0);
    assert_true(uvcc_program_output(p, OUT_A, A) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* ---- a run, and what it should give ---- */

typedef struct run {
    test_alloc mem;
    uvcc_program *p;
    triangle t;
    int64_t m[DEPTH * COLS], w[N], u[N]; /* in plaintext */
    int64_t x[8][ROWS * DEPTH];
    uint32_t finished[3], cancelled[3]; /* bit m: step m was */
    uint32_t started[3];
    unsigned checkpoints[3];
    uint8_t root[3][32]; /* of the last step that ended */
    unsigned who, at;    /* on wires: these ask at that task or sending of step 1; 0: not */
    unsigned seen;       /* of these so far, in step 1 */
} run;

/* Asks, as hosts do: a step that is over is refused. */
static void ask(run *r, unsigned who, uint32_t step) {
    for (unsigned i = 0; i < 3; i++)
        if ((who >> i & 1) != 0)
            assert_int_equal(uvcc_session_cancel(r->t.s[i], step, triangle_now(&r->t)),
                             r->t.s[i]->step > step ? UVCC_ERR_STATE : 0);
}

static void place(run *r) {
    if (r->who != 0 && ++r->seen == r->at)
        ask(r, r->who, 1);
}

static void on_task(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    (void)party, (void)job, (void)task, (void)done;
    place(user);
}

static void on_send(void *user, unsigned party) {
    (void)party;
    place(user);
}

static void on_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    run *r = user;
    (void)s;
    if (e->kind == UVCC_EVENT_STEP_STARTED)
        r->started[party] |= 1u << e->step;
    if (e->kind == UVCC_EVENT_CHECKPOINT)
        r->checkpoints[party]++;
    if (e->kind != UVCC_EVENT_STEP_FINISHED && e->kind != UVCC_EVENT_STEP_CANCELLED)
        return;
    uint32_t *which =
        e->kind == UVCC_EVENT_STEP_FINISHED ? &r->finished[party] : &r->cancelled[party];
    assert_false(((r->finished[party] | r->cancelled[party]) >> e->step) & 1); /* once */
    *which |= 1u << e->step;
    memcpy(r->root[party], e->root, 32);
}

/* Two of them gather keys ahead, so that a step is dropped with such a job out, too. */
static void allow(uvcc_config *c) {
    c->resume.cancellable = 1;
    c->limits.keys_gathered_bytes = (uint64_t)c->identity.party << 20;
}

static void open_run(run *r, const triangle_options *opt, way product) {
    memset(r, 0, sizeof *r);
    triangle_options o = *opt;
    uint64_t seed = 7;
    o.on_event = on_event;
    o.on_task = o.wired ? on_task : NULL;
    o.on_send = o.wired ? on_send : NULL;
    o.user = r;
    if (o.tweak == NULL)
        o.tweak = allow;
    for (size_t i = 0; i < DEPTH * COLS; i++)
        r->m[i] = (int64_t)(test_rand(&seed) % 4000) - 2000;
    for (size_t k = 0; k < 8; k++)
        for (size_t i = 0; i < ROWS * DEPTH; i++)
            r->x[k][i] = (int64_t)(test_rand(&seed) % 4000) - 2000;
    r->p = make_program(&r->mem, product);
    triangle_open(&r->t, r->p, &o);
    triangle_set_public(&r->t, M, r->m);
    triangle_ready(&r->t);
}

static void close_run(run *r) {
    triangle_close(&r->t);
    triangle_free(&r->t);
    uvcc_program_free(r->p);
    assert_int_equal(r->mem.live_blocks, 0);
}

static void begin(run *r, uint32_t step) {
    triangle_agree(&r->t, step, 0);
    triangle_input(&r->t, 0, step, IN_X, r->x[step]);
}

/* Until the step ended at all three: true if it was dropped. */
static bool end(run *r, uint32_t step) {
    unsigned turns = 0;
    for (unsigned i = 0; i < 3; i++)
        while ((((r->finished[i] | r->cancelled[i]) >> step) & 1) == 0) {
            const bool any = triangle_turn(&r->t) && ++turns < 100000;
            for (unsigned k = 0; k < 3; k++)
                if (r->t.aborted[k] != 0)
                    fail_msg("party %u aborted: %s", k, r->t.abort_text[k]);
            if (!any && (((r->finished[i] | r->cancelled[i]) >> step) & 1) == 0)
                fail_msg("stuck: step %u does not end at party %u", step, i);
        }
    const uint32_t dropped = r->cancelled[0] >> step & 1;
    for (unsigned i = 1; i < 3; i++)
        assert_int_equal(r->cancelled[i] >> step & 1, dropped);
    return dropped != 0;
}

static void compute(run *r, uint32_t step) {
    for (size_t i = 0; i < ROWS; i++)
        for (size_t k = 0; k < COLS; k++) {
            int64_t sum = 0;
            for (size_t q = 0; q < DEPTH; q++)
                sum += r->x[step][i * DEPTH + q] * r->m[q * COLS + k];
            sum >>= SHIFT;
            r->w[i * COLS + k] += sum >= 0 ? sum : 0;
            r->u[i * COLS + k] += r->w[i * COLS + k];
        }
}

/* The step ended: its outputs are those of the plaintext, or there are none. */
static void ended(run *r, uint32_t step, bool dropped) {
    if (!dropped)
        compute(r, step);
    for (unsigned i = 0; i < 3; i++) {
        const int64_t *u = uvcc_session_output(r->t.s[i], step, OUT_W);
        if (dropped) {
            assert_null(u);
            continue;
        }
        assert_non_null(u);
        assert_memory_equal(u, r->u, sizeof r->u);
    }
}

static void step_as_ever(run *r, uint32_t step) {
    begin(r, step);
    assert_false(end(r, step));
    ended(r, step, false);
}

typedef struct plan {
    triangle_options opt;
    way product;
    unsigned who;  /* bit i: party i asks */
    bool ahead;    /* step 2 was agreed before */
    unsigned turn; /* of the step, in which they ask; on wires the task or sending, from 1 */
} plan;

/* Steps 0 to 3, the second of which is cancelled in some turn. False: it was over before. */
static bool run_plan(const plan *c, bool *dropped) {
    run r;
    open_run(&r, &c->opt, c->product);
    step_as_ever(&r, 0);
    begin(&r, 1);
    if (c->ahead)
        begin(&r, 2);
    bool over = false;
    for (unsigned k = 0; k < c->turn && !over && !c->opt.wired; k++) {
        (void)triangle_turn(&r.t);
        over = ((r.finished[0] & r.finished[1] & r.finished[2]) >> 1 & 1) != 0;
    }
    if (c->opt.wired) {
        r.who = c->who;
        r.at = c->turn;
    } else {
        ask(&r, c->who, 1);
    }
    *dropped = end(&r, 1);
    over |= c->opt.wired && r.seen < r.at;
    r.who = 0;
    ended(&r, 1, *dropped);
    if (!c->ahead)
        begin(&r, 2);
    assert_false(end(&r, 2));
    ended(&r, 2, false);
    step_as_ever(&r, 3);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r.t.s[i], &st);
        assert_int_equal(st.steps_cancelled, *dropped);
        assert_int_equal(st.steps_finished, 4 - *dropped);
        assert_int_equal(st.transient_bytes, 0);
    }
    for (unsigned k = 0; k < 1000 && !(r.t.bundles[0] + r.t.bundles[1] + r.t.bundles[2] == 12); k++)
        (void)triangle_turn(&r.t);
    for (unsigned i = 0; i < 3; i++) /* leaves and roots of all steps, verified as they came */
        assert_int_equal(r.t.bundles[i], 4);
    close_run(&r);
    return !over;
}

/* Without a sanitizer every place is tried, with one each fourth. */
enum { STRIDE = SANITIZED ? 4 : 1 };

/* Every turn, or every `each`th: the first is dropped, from some turn on they finish. */
static void every_turn(plan c, unsigned each, unsigned least) {
    unsigned drops = 0, turns = 0;
    bool dropped;
    for (c.turn = 0; run_plan(&c, &dropped); c.turn += each * STRIDE, turns++)
        drops += dropped;
    assert_false(dropped); /* it was over */
    assert_true(drops >= (least + STRIDE - 1) / STRIDE);
    assert_true(turns >= drops);
}

/* Every task and every sending of a step, by each. */
static void test_every_place_each_party(void **state) {
    (void)state;
    const triangle_options wires = {.seed = 3, .wired = true, .ticks = true};
    for (unsigned i = 0; i < 3; i++) {
        every_turn((plan){.opt = wires, .who = 1u << i, .turn = 1}, 1, 20);
        every_turn((plan){.opt = wires, .who = 1u << i, .turn = 1, .ahead = true}, 3, 6);
    }
}

static void test_two_and_three_at_once(void **state) {
    (void)state;
    const triangle_options wires = {.seed = 4, .wired = true, .ticks = true};
    every_turn((plan){.opt = wires, .who = 3, .turn = 1}, 1, 20);
    every_turn((plan){.opt = wires, .who = 6, .turn = 2, .ahead = true}, 3, 6);
    every_turn((plan){.opt = wires, .who = 7, .turn = 1}, 2, 10);
}

static void test_on_triples(void **state) {
    (void)state;
    const triangle_options wires = {.seed = 5, .wired = true, .ticks = true};
    const way ways[] = {{.flags = UVCC_OP_BEAVER}, {.flags = UVCC_OP_BEAVER, .tile_rows = 1}};
    for (unsigned i = 0; i < 2; i++) {
        every_turn((plan){.opt = wires, .product = ways[i], .who = 2, .turn = 1}, 1, 20);
        every_turn((plan){.opt = wires, .product = ways[i], .who = 1, .turn = 1, .ahead = true}, 2,
                   10);
    }
}

static void test_jobs_late_and_bad_networks(void **state) {
    (void)state;
    const uvcc_fault_config bad = {.drop = 0.2, .duplicate = 0.1, .reorder = 0.3};
    const uvcc_fault_config rough = {
        .split = 0.5, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.02};
    for (unsigned k = 0; k < 3; k++) {
        const triangle_options opt = {.seed = 10 + k, .mode = UVCC_CPU_DEFERRED, .compute_seed = k};
        plan c = {.opt = opt, .who = 1u << k, .ahead = k != 0};
        every_turn(c, 1, 1);
        c.opt.datagram = c.opt.faulty = true;
        c.opt.faults = bad;
        every_turn(c, 5, 1);
        c.opt.datagram = false;
        c.opt.faults = rough;
        every_turn(c, 5, 1);
    }
}

/* ---- who may, and when ---- */

static void only_two(uvcc_config *c) {
    c->resume.cancellable = c->identity.party != 1;
}

/* One that does not allow it goes on, and so do all. */
static void test_not_allowed(void **state) {
    (void)state;
    run r;
    open_run(&r, &(triangle_options){.seed = 1, .wired = true, .ticks = true, .tweak = only_two},
             native);
    step_as_ever(&r, 0);
    begin(&r, 1);
    assert_int_equal(uvcc_session_cancel(r.t.s[1], 1, 0), UVCC_ERR_STATE);
    assert_string_equal(uvcc_session_error_detail(r.t.s[1]), "resume.cancellable is not set");
    ask(&r, 5, 1);
    assert_false(end(&r, 1));
    ended(&r, 1, false);
    step_as_ever(&r, 2);
    close_run(&r);
}

static void test_what_is_refused(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_session *s;
    uint64_t rnd = 1;
    uvcc_config c = triangle_config_alone(&mem, &rnd);
    c.resume.cancellable = 2;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    c.resume.cancellable = 1;
    c.checks.audit_off = true;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    assert_int_equal(uvcc_session_cancel(NULL, 0, 0), UVCC_ERR_USAGE);
    run r;
    open_run(&r, &(triangle_options){.seed = 1, .wired = true, .ticks = true}, native);
    s = r.t.s[0];
    assert_int_equal(uvcc_session_cancel(s, 0, 0), UVCC_ERR_STATE); /* nobody asked for it */
    begin(&r, 0);
    begin(&r, 1);
    assert_int_equal(uvcc_session_cancel(s, 1, 0), UVCC_ERR_AGAIN);
    assert_int_equal(uvcc_session_cancel(s, 2, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_cancel(s, 0, 0), 0);
    assert_int_equal(uvcc_session_cancel(s, 0, 0), 0); /* it was asked already */
    assert_true(end(&r, 0));
    assert_int_equal(uvcc_session_cancel(s, 0, 0), UVCC_ERR_STATE);
    assert_int_equal(uvcc_session_abort(s, UVCC_ABORT_HOST, triangle_now(&r.t)), 0);
    assert_int_equal(uvcc_session_cancel(s, 1, triangle_now(&r.t)), UVCC_ERR_ABORTED);
    triangle_free(&r.t);
    uvcc_program_free(r.p);
}

/* A host that has not agreed to the step answers when it does, and that is told. */
static void test_before_all_agreed(void **state) {
    (void)state;
    run r;
    open_run(&r, &(triangle_options){.seed = 2, .wired = true, .ticks = true}, native);
    step_as_ever(&r, 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(uvcc_session_step(r.t.s[i], 1, 0, triangle_now(&r.t)), 0);
    triangle_input(&r.t, 0, 1, IN_X, r.x[1]);
    ask(&r, 1, 1);
    for (unsigned k = 0; k < 50; k++)
        (void)triangle_turn(&r.t);
    uvcc_peer_info p = {.size = sizeof p};
    assert_int_equal(uvcc_session_peer_info(r.t.s[0], 2, &p), 0);
    assert_int_equal(p.waits_for, UVCC_WAIT_CANCEL);
    assert_int_equal(p.wait_step, 1);
    assert_int_equal(uvcc_session_peer_info(r.t.s[0], 1, &p), 0);
    assert_int_equal(p.waits_for, UVCC_WAIT_NONE); /* it said so already */
    assert_int_equal(r.cancelled[0], 0);
    assert_int_equal(uvcc_session_step(r.t.s[2], 1, 0, triangle_now(&r.t)), 0);
    assert_true(end(&r, 1));
    assert_int_equal(r.started[0] >> 1 & 1, 0); /* it never ran */
    step_as_ever(&r, 2);
    close_run(&r);
}

/* ---- checkpoints ---- */

static void allow_and_keep(uvcc_config *c) {
    allow(c);
    c->resume.checkpoint_every = 1;
}

static uint64_t opened(const run *r, uint32_t tensor, unsigned i) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < 3; p++) {
        uint64_t lo[N], hi[N];
        uint32_t step;
        const uint8_t *data;
        size_t len;
        assert_int_equal(uvcc_session_checkpoint(r->t.s[p], &step, &data, &len), 0);
        assert_int_equal(step, 2);
        assert_int_equal(uvcc_checkpoint_tensor(data, len, tensor, lo, hi, N), 0);
        sum += lo[i];
    }
    return sum;
}

/* That of a dropped step's end has what stood before it. */
static void test_checkpoints(void **state) {
    (void)state;
    for (unsigned place = 1; place < 60; place += 4) {
        run r;
        open_run(
            &r,
            &(triangle_options){.seed = 6, .wired = true, .ticks = true, .tweak = allow_and_keep},
            native);
        step_as_ever(&r, 0);
        r.who = 1u << place % 3;
        r.at = place;
        begin(&r, 1);
        const bool dropped = end(&r, 1);
        r.who = 0;
        ended(&r, 1, dropped);
        for (unsigned k = 0; k < 50; k++)
            (void)triangle_turn(&r.t);
        for (unsigned i = 0; i < N; i++) {
            assert_int_equal(opened(&r, W, i), (uint64_t)r.w[i]);
            assert_int_equal(opened(&r, U, i), (uint64_t)r.u[i]);
        }
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(r.checkpoints[i], 3); /* the first before step 0 */
        step_as_ever(&r, 2);
        close_run(&r);
    }
}

/* ---- without memory ---- */

/* Each allocation of a dropped step fails once: that party aborts, or it is dropped at all three.
 */
static void test_without_memory(void **state) {
    (void)state;
    size_t calls = 1, ends = 0, aborts = 0;
    for (size_t n = 0; n <= calls; n += n == 0 ? 1 : STRIDE) { /* 0: none fails */
        run r;
        open_run(&r, &(triangle_options){.seed = 7, .datagram = true, .unverified = true}, native);
        step_as_ever(&r, 0);
        r.t.mem.calls = 0;
        r.t.mem.fail_at = n;
        for (unsigned i = 0; i < 3; i++)
            (void)uvcc_session_step(r.t.s[i], 1, 0, triangle_now(&r.t));
        (void)uvcc_session_input(r.t.s[0], 1, IN_X, r.x[1], triangle_now(&r.t));
        (void)triangle_turn(&r.t);
        (void)uvcc_session_cancel(r.t.s[n % 3], 1, triangle_now(&r.t));
        for (unsigned k = 0; k < 400 && triangle_turn(&r.t); k++)
            ;
        calls = n == 0 ? r.t.mem.calls : calls;
        const uint32_t all = r.cancelled[0] | r.cancelled[1] | r.cancelled[2];
        const uint32_t finished = r.finished[0] | r.finished[1] | r.finished[2];
        assert_int_equal(all & finished, 0);
        ends += all >> 1 & 1;
        for (unsigned i = 0; i < 3; i++)
            aborts += r.t.aborted[i] == UVCC_ABORT_MEMORY;
        triangle_free(&r.t);
        uvcc_program_free(r.p);
        assert_int_equal(r.mem.live_blocks, 0);
    }
    assert_true(ends != 0 && aborts != 0);
}

/* ---- a party that is two steps behind ---- */

/* y = x m, reshared: each party needs the one beside it alone. */
static uvcc_program *ring_program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 2, 2, 8, 0, UVCC_PERSIST);
    const uint32_t y = test_tensor(p, "y", 2, 2, 20, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    const uvcc_op_desc op = {
        .opcode = UVCC_OP_GEMM_SS, .in_count = 2, .out_count = 1, .in = {x, x}, .out = {y}};
    assert_true(uvcc_program_op(p, &op) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* A turn of wires in which the jobs of one party stay out from some number on. */
enum { HELD_MAX = 32 };
typedef struct held_jobs {
    const uvcc_job *job[HELD_MAX];
    unsigned count;
} held_jobs;

static void run_job(run *r, unsigned i, const uvcc_job *job) {
    uvcc_completion c;
    assert_int_equal(uvcc_cpu_submit(r->t.cpu[i], job), 0);
    assert_int_equal(uvcc_cpu_poll(r->t.cpu[i], &c), 1);
    assert_int_equal(uvcc_session_complete(r->t.s[i], &c, r->t.wire_ns), 0);
}

static void lame_turn(run *r, unsigned lame, unsigned *jobs, held_jobs *held) {
    triangle *t = &r->t;
    const uvcc_job *job;
    uvcc_transmit tx;
    uvcc_event e;
    for (uint8_t i = 0; i < 3; i++) {
        while (uvcc_session_poll_job(t->s[i], &job) == 1) {
            if (i == lame && *jobs == 0) {
                assert_true(held->count < HELD_MAX);
                held->job[held->count++] = job;
                continue;
            }
            *jobs -= i == lame;
            run_job(r, i, job);
        }
        assert_int_equal(uvcc_session_on_timer(t->s[i], t->wire_ns), 0);
        while (uvcc_session_poll_transmit(t->s[i], &tx, t->wire_ns) == 1) {
            assert_int_equal(
                uvcc_session_feed_slices(t->s[tx.peer], i, tx.slices, tx.slice_count, t->wire_ns),
                0);
            assert_int_equal(
                uvcc_session_transmit_done(t->s[i], tx.peer, tx.id, tx.total, t->wire_ns), 0);
        }
        while (uvcc_session_poll_event(t->s[i], &e) == 1) {
            assert_int_not_equal(e.kind, UVCC_EVENT_ABORTED);
            on_event(r, i, t->s[i], &e);
        }
    }
    t->wire_ns += 1000000;
}

/* One is in step 0 with its last job out, while another has finished step 1. It asks to drop step
 * 0, and hears that it is finished; no stream breaks. */
static void test_two_behind(void **state) {
    (void)state;
    unsigned two = 0;
    for (unsigned lame = 0; lame < 3; lame++)
        for (unsigned jobs = 1; jobs < 6; jobs++) {
            run r = {0};
            held_jobs held = {.count = 0};
            unsigned left = jobs;
            r.p = ring_program(&r.mem);
            triangle_open(
                &r.t, r.p,
                &(triangle_options){.seed = 11, .wired = true, .ticks = true, .tweak = allow});
            triangle_ready(&r.t);
            triangle_agree(&r.t, 0, 0);
            triangle_agree(&r.t, 1, 0);
            for (unsigned k = 0; k < 30; k++)
                lame_turn(&r, lame, &left, &held);
            const uint32_t ahead = r.t.s[(lame + 1) % 3]->step > r.t.s[(lame + 2) % 3]->step
                                       ? r.t.s[(lame + 1) % 3]->step
                                       : r.t.s[(lame + 2) % 3]->step;
            if (held.count != 0 && r.t.s[lame]->step == 0) {
                two += ahead == 2;
                assert_int_equal(uvcc_session_cancel(r.t.s[lame], 0, r.t.wire_ns), 0);
                for (unsigned k = 0; k < 30; k++)
                    lame_turn(&r, lame, &left, &held);
                for (unsigned k = 0; k < held.count; k++)
                    run_job(&r, lame, held.job[k]);
                left = 1000;
                for (unsigned k = 0; k < 60; k++)
                    lame_turn(&r, lame, &left, &held);
                for (unsigned i = 0; i < 3; i++) {
                    assert_int_equal(r.t.s[i]->step, 2);
                    assert_int_equal(r.cancelled[i], r.cancelled[0]);
                    assert_true(ahead == 0 || r.cancelled[i] == 0);
                }
            }
            triangle_free(&r.t);
            uvcc_program_free(r.p);
        }
    assert_true(two != 0);
}

/* ---- a party that cheats ---- */

/* A CANCEL of `from`, whatever its session thinks. */
static void say(run *r, unsigned from, uint8_t to, const uint8_t *bytes, uint32_t len) {
    uvcc_session *s = r->t.s[from];
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(s->peer[to].link, UVCC_FRAME_CANCEL, len, &m), 0);
    memcpy(uvcc_link_msg_data(m), bytes, len);
    uvcci_send(s, to, m, UVCC_FRAME_CANCEL, len, s->step, 0, 0);
}

static void vote(run *r, unsigned from, uint8_t to, uint8_t v, uint32_t step) {
    const uint8_t bytes[UVCCI_CANCEL_BYTES] = {v, (uint8_t)step, (uint8_t)(step >> 8),
                                               (uint8_t)(step >> 16), (uint8_t)(step >> 24)};
    say(r, from, to, bytes, sizeof bytes);
}

/* P2 tells P0 that it stopped and P1 that it finishes, now or after P0's FLUSHED (or says BYE to P1
 * then): never does one of them drop the step and the other finish it. P0 or P1 asks. */
static void test_two_votes(void **state) {
    (void)state;
    unsigned refused = 0;
    for (unsigned place = 0; place < 30; place += STRIDE)
        for (unsigned how = 0; how < 24; how++) {
            run r;
            open_run(&r, &(triangle_options){.seed = 8, .unverified = true}, native);
            step_as_ever(&r, 0);
            begin(&r, 1);
            for (unsigned k = 0; k < place; k++)
                (void)triangle_turn(&r.t);
            if (r.finished[0] >> 1 != 0 || r.finished[1] >> 1 != 0 || r.finished[2] >> 1 != 0) {
                triangle_free(&r.t);
                uvcc_program_free(r.p);
                break;
            }
            const uint8_t dropper = how & 1, other = dropper ^ 1;
            r.t.s[2]->cancel.vote[2][1] = UVCCI_VOTE_STOPPED; /* it says nothing by itself */
            if ((how & 2) != 0)
                ask(&r, 1u << dropper, 1);
            else
                ask(&r, 1u << other, 1);
            vote(&r, 2, dropper, UVCCI_VOTE_STOPPED, 1);
            if (how < 8)
                vote(&r, 2, other, UVCCI_VOTE_FINISHED, 1);
            else if (how < 16) /* P0 drops the step: all three say so to it */
                vote(&r, other, dropper, UVCCI_VOTE_STOPPED, 1);
            for (unsigned k = 0; k < 2000 && triangle_turn(&r.t); k++) {
                if (k == 20 && (how & 4) != 0 && r.t.aborted[2] == 0 && r.t.s[2]->step == 1)
                    vote(&r, 2, dropper, UVCCI_VOTE_FLUSHED, 1);
                if (k == 200 && how >= 8 && how < 16)
                    vote(&r, 2, other, UVCCI_VOTE_FINISHED, 1);
                if (k == 200 && how >= 16)
                    r.t.s[other]->peer[2].bye = true;
            }
            const bool gone = r.t.s[dropper]->cancel.vote[dropper][1] == UVCCI_VOTE_FLUSHED;
            assert_false(gone && r.finished[other] >> 1 != 0 && r.t.aborted[dropper] == 0);
            assert_int_equal((r.cancelled[0] | r.cancelled[1]) & (r.finished[0] | r.finished[1]),
                             0);
            for (unsigned i = 0; i < 2; i++)
                refused += r.t.aborted[i] == UVCC_ABORT_STEP;
            triangle_free(&r.t);
            uvcc_program_free(r.p);
        }
    assert_true(refused > 4);
}

/* What no honest party says ends the session. */
static void test_wrong_messages(void **state) {
    (void)state;
    static const struct {
        uint8_t first, vote; /* 0: no first one; 9: malformed */
        uint32_t step;
        uint16_t reason;
    } cases[] = {{0, 0, 1, UVCC_ABORT_BATCH},
                 {0, 4, 1, UVCC_ABORT_BATCH},
                 {0, 9, 1, UVCC_ABORT_BATCH},
                 {0, UVCCI_VOTE_STOPPED, 4, UVCC_ABORT_STEP},
                 {0, UVCCI_VOTE_FINISHED, UINT32_MAX, UVCC_ABORT_STEP},
                 {0, UVCCI_VOTE_FLUSHED, 1, UVCC_ABORT_STEP},
                 {0, UVCCI_VOTE_FLUSHED, 2, UVCC_ABORT_STEP},
                 {UVCCI_VOTE_FINISHED, UVCCI_VOTE_FINISHED, 1, UVCC_ABORT_STEP},
                 {UVCCI_VOTE_FINISHED, UVCCI_VOTE_STOPPED, 2, 0},
                 {UVCCI_VOTE_FINISHED, UVCCI_VOTE_STOPPED, 1, UVCC_ABORT_STEP},
                 {UVCCI_VOTE_FINISHED, UVCCI_VOTE_FLUSHED, 1, UVCC_ABORT_STEP}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        run r;
        open_run(&r, &(triangle_options){.seed = 9, .unverified = true}, native);
        step_as_ever(&r, 0);
        if (cases[i].first != 0)
            vote(&r, 2, 0, cases[i].first, 1);
        if (cases[i].vote == 9)
            say(&r, 2, 0, (const uint8_t[]){1, 1, 0, 0}, 4);
        else
            vote(&r, 2, 0, cases[i].vote, cases[i].step);
        for (unsigned k = 0; k < 2000 && triangle_turn(&r.t); k++)
            ;
        if (r.t.aborted[0] != cases[i].reason)
            fail_msg("case %zu: reason %u", i, r.t.aborted[0]);
        triangle_free(&r.t);
        uvcc_program_free(r.p);
    }
}

static void quiet_audit(uvcc_config *c) {
    c->checks.audit_off = true;
    c->checks.bundles = false;
}

/* Where roots are not exchanged nobody is asked. */
static void test_not_without_audit(void **state) {
    (void)state;
    run r;
    open_run(&r, &(triangle_options){.seed = 9, .audit_off = true, .tweak = quiet_audit}, native);
    vote(&r, 2, 0, UVCCI_VOTE_STOPPED, 0);
    for (unsigned k = 0; k < 2000 && triangle_turn(&r.t); k++)
        ;
    assert_int_equal(r.t.aborted[0], UVCC_ABORT_BATCH);
    triangle_free(&r.t);
    uvcc_program_free(r.p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place_each_party),
        cmocka_unit_test(test_two_and_three_at_once),
        cmocka_unit_test(test_on_triples),
        cmocka_unit_test(test_jobs_late_and_bad_networks),
        cmocka_unit_test(test_not_allowed),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_before_all_agreed),
        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_two_behind),
        cmocka_unit_test(test_two_votes),
        cmocka_unit_test(test_wrong_messages),
        cmocka_unit_test(test_not_without_audit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
