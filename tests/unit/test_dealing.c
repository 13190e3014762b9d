/* SPDX-License-Identifier: Apache-2.0 */
/* Keys dealt ahead: by OTHER alone, in the order of the ops whatever order jobs end in, before
 * their step runs, as many bytes as the plans say; where a stream of them goes, and which are made
 * once for both receivers. Keys that came,
 * gathered ahead of the turns that read them: in the same order, within the budget, with results
 * and roots that are the same without. */
#include "triangle.h"

#include "exec/ops/dealing.h"
#include "exec/program/plan.h"

enum { IN_X = 1, OUT_Y = 10, OUT_D = 11, COUNT = 20000, OPS = 6 };

/* Three ops with keys, of several blocks each: TRUNCATE, RELU, ELEM_MUL. */
static uvcc_program *program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t t = test_tensor(p, "t", 1, COUNT, 20, 4, UVCC_TRANSIENT);
    const uint32_t r = test_tensor(p, "r", 1, COUNT, 20, 4, UVCC_TRANSIENT);
    const uint32_t d = test_tensor(p, "d", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "y", 1, COUNT, 40, 6, UVCC_TRANSIENT);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_TRUNCATE,
         .in_count = 1,
         .out_count = 1,
         .in = {x},
         .out = {t},
         .shift = 4},
        {.opcode = UVCC_OP_RELU, .k = 1, .in_count = 1, .out_count = 2, .in = {t}, .out = {r, d}},
        {.opcode = UVCC_OP_ELEM_MUL,
         .k = 2,
         .in_count = 2,
         .out_count = 1,
         .in = {r, t},
         .out = {y},
         .shift = 2}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    assert_true(uvcc_program_output(p, OUT_D, d) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* What the tracers heard, by party. */
static struct {
    uint32_t sent, op[8], step[8];
    uint64_t bytes[8];
} heard[3];

static void on_trace(void *user, const uvcc_op_trace *t) {
    const unsigned party = (unsigned)(uintptr_t)user;
    if (t->kind != UVCC_TRACE_SENT || t->work != UVCC_TRACE_KEYS)
        return;
    const uint32_t n = heard[party].sent++;
    assert_true(n < 8);
    heard[party].op[n] = t->op;
    heard[party].step[n] = t->step;
    heard[party].bytes[n] = t->bytes;
}

static void listen(uvcc_config *cfg) {
    cfg->trace.op = on_trace;
    cfg->trace.user = (void *)(uintptr_t)cfg->identity.party;
}

static const uvcci_step *step_of(const triangle *t, unsigned party, uint32_t step) {
    const uvcci_step *st = &t->s[party]->ctx[step & 1];
    return st->active && st->number == step ? st : NULL;
}

/* Far more than dealing takes; sessions that wait keep their links alive, so there is no end. */
static void turn(triangle *t) {
    for (unsigned i = 0; i < 500; i++)
        (void)triangle_turn(t);
}

static uint64_t planned_bytes(const uvcc_session *s, const uvcci_instance *r) {
    uint64_t sum = 0;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        const uvcci_plan_round *round = &r->plan->rounds[r->plan->round_count + g];
        uvcci_plan_tlv *list = malloc(uvcci_plan_tlvs_max(r->plan, round) * sizeof *list);
        for (uint32_t part = 0; part < round->parts; part++)
            for (uint8_t dst = 0; dst < 3; dst++) {
                size_t bytes;
                if (dst != s->party &&
                    uvcci_plan_list(r->plan, &r->ids, round, part, s->party, dst, list, &bytes))
                    sum += bytes;
            }
        free(list);
    }
    return sum;
}

static void run(uint64_t seed, uvcc_cpu_mode mode) {
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {
        .seed = seed, .compute_seed = seed, .mode = mode, .tweak = listen};
    int64_t *x = calloc(COUNT, sizeof *x);
    uint64_t planned[3][OPS] = {{0}};
    triangle t;
    memset(heard, 0, sizeof heard);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, 0), 0);
        const uvcci_step *st = step_of(&t, i, 0);
        assert_non_null(st);
        assert_int_equal(st->entry->op_count, OPS);
        for (uint32_t k = 0; k < OPS; k++)
            planned[i][k] = planned_bytes(t.s[i], &st->instances[k]);
    }
    turn(&t); /* without its input no op can start, so this is all dealing */
    for (unsigned i = 0; i < 3; i++) {
        const uvcci_step *st = step_of(&t, i, 0);
        uint32_t n = 0;
        assert_int_equal(st->instances_done, 0);
        assert_int_equal(st->deals_sent, OPS);
        for (uint32_t k = 0; k < OPS; k++) {
            assert_true(st->instances[k].deal_done);
            assert_null(st->instances[k].deal_buf);
            assert_null(st->instances[k].deal_out);
            if (planned[i][k] == 0)
                continue;
            assert_true(n < heard[i].sent);
            assert_int_equal(heard[i].op[n], k); /* in the order of the ops */
            assert_int_equal(heard[i].bytes[n++], planned[i][k]);
        }
        assert_int_equal(n, heard[i].sent);
        assert_true(n != 0);
    }
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, x, 0), 0);
    triangle_finish(&t, 1);
    triangle_close(&t);
    free(x);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_order_and_bytes(void **state) {
    (void)state;
    run(1, UVCC_CPU_INLINE);
    for (uint64_t seed = 2; seed < 8; seed++)
        run(seed, UVCC_CPU_DEFERRED);
}

/* The keys of the next step go out while this one waits. */
static void test_ahead(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {.seed = 5, .tweak = listen};
    triangle t;
    memset(heard, 0, sizeof heard);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++)
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_step(t.s[i], step, 0, 0), 0);
    turn(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.finished[i], 0);
        assert_false(step_of(&t, i, 1)->running);
        assert_int_equal(step_of(&t, i, 1)->deals_sent, OPS);
        for (uint32_t n = 1; n < heard[i].sent; n++)
            assert_true(heard[i].step[n] >= heard[i].step[n - 1]);
        assert_int_equal(heard[i].step[heard[i].sent - 1], 1);
    }
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A stream is for HEAD or TAIL of a block whose OTHER this party is; streams do not overlap. */
static void test_streams(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    triangle t;
    triangle_open(&t, p, NULL);
    triangle_ready(&t);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), 0);
    uvcci_instance *r = &step_of(&t, 0, 0)->instances[2]; /* RELU */
    uvcci_bump bump;
    uint8_t buf[1];
    uvcci_bump_init(&bump, &t.s[0]->alloc);
    uvcci_deal d = {.r = r, .dst = {1, 2}};
    for (unsigned k = 0; k < 2; k++) {
        d.at[k] = uvcci_key_table(r, &bump);
        d.total[k] = uvcci_key_offsets(r, 0, d.dst[k], &bump, k == 0 ? 0 : d.total[0], d.at[k]);
    }
    r->deal_buf = buf; /* only addresses are looked at */
    r->deal_bytes = d.total[0] + d.total[1];
    uint64_t sum = 0;
    unsigned dealt = 0;
    for (uint32_t b = 0; b < r->plan->blocks; b++) {
        uint8_t *head = uvcci_deal_stream(t.s[0], &d, 0, b, UVCC_HEAD);
        uint8_t *tail = uvcci_deal_stream(t.s[0], &d, 0, b, UVCC_TAIL);
        assert_int_equal(head != NULL, uvcci_role_at(t.s[0], r, b) == UVCCI_OTHER);
        assert_int_equal(tail != NULL, head != NULL);
        if (head == NULL)
            continue;
        dealt++;
        /* what goes to one party stands together */
        const bool to_next = uvcci_party_of(UVCCI_HEAD, r->ids.edge[b]) == d.dst[0];
        assert_int_equal((size_t)(head - buf) < d.total[0], to_next);
        const uvcci_plan_round *round = uvcci_keys_round(r, 0);
        sum += uvcci_plan_key_bytes(r->plan, round, b, UVCC_HEAD);
        sum += uvcci_plan_key_bytes(r->plan, round, b, UVCC_TAIL);
    }
    assert_true(dealt != 0 && dealt != r->plan->blocks);
    assert_int_equal(sum, r->deal_bytes);
    r->deal_buf = NULL;
    uvcci_bump_reset(&bump);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- made once ---- */

/* A function on one key: OPEN, a comparison and what it selects. */
static uvcc_program *function_program(test_alloc *mem) {
    static const int64_t zero[] = {0}, one[] = {1};
    static const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64, .io = 0},
        {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 12, .word_count = 1, .words = zero},
        {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = one},
        {.kind = UVCC_FN_LIFT, .a = 2, .io = 0},
    };
    static const uvcc_function f = {"relu", 1, 1, sizeof steps / sizeof steps[0], steps};
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const int index = uvcc_program_function(p, &f);
    assert_true(index >= 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 12, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "y", 1, COUNT, 40, 0, UVCC_TRANSIENT);
    const uvcc_op_desc d = {.opcode = UVCC_OP_FUNCTION,
                            .function = (uint16_t)index,
                            .in_count = 1,
                            .out_count = 1,
                            .in = {x},
                            .out = {y}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_op(p, &d) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

typedef struct deals {
    triangle *t;
    bool audit_off, function;
    unsigned seen;
} deals;

/* The piece of a block's stream that begins where `like` does, as it goes to another party. */
static const uvcci_key_chunk *same_place(const uvcci_batch_out *out, const uvcci_key_chunk *like) {
    for (uint32_t i = 0; i < out->key_chunk_count; i++) {
        const uvcci_key_chunk *c = &out->key_chunks[i];
        if (c->dst != like->dst && c->block == like->block && c->offset == like->offset)
            return c;
    }
    return NULL;
}

/* Of a function HEAD is sent the beginning of what TAIL is. */
static void check_head(const uvcci_instance *r, const uvcci_batch_out *out) {
    for (uint32_t i = 0; i < out->key_chunk_count; i++) {
        const uvcci_key_chunk *c = &out->key_chunks[i];
        if (uvcci_role_of(c->dst, r->ids.edge[c->block]) != UVCCI_HEAD)
            continue;
        const uvcci_key_chunk *tail = same_place(out, c);
        assert_non_null(tail);
        assert_true(c->len != 0 && c->len <= tail->len);
        assert_memory_equal(c->at, tail->at, c->len);
    }
}

/* A deal is done: what it took, and what its messages hold. */
static void on_deal(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    deals *d = user;
    const uvcci_instance *r = uvcci_jobs_owner(&d->t->s[party]->jobs, job->id, UVCCI_JOB_DEAL);
    size_t of[2] = {0, 0};
    if (r == NULL || !done || task + 1 != job->count)
        return;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        const uvcci_plan_round *round = uvcci_keys_round(r, g);
        for (uint32_t b = 0; b < round->blocks; b++) {
            if (uvcci_role_of((uint8_t)party, r->ids.edge[b]) != UVCCI_OTHER)
                continue;
            of[0] += uvcci_plan_key_bytes(r->plan, round, b, UVCC_HEAD);
            of[1] += uvcci_plan_key_bytes(r->plan, round, b, UVCC_TAIL);
        }
        if (d->function)
            check_head(r, &r->deal_out[g]);
    }
    assert_true(of[0] != 0 && of[0] < of[1]);
    assert_int_equal(r->deal_bytes, d->audit_off && d->function ? of[1] : of[0] + of[1]);
    d->seen++;
}

/* Where nothing is hashed, keys of functions are made once for both receivers; those of gates,
 * whose words stand between, for each. Either way all get what they need. */
static void test_made_once(void **state) {
    (void)state;
    static triangle t;
    static int64_t x[COUNT];
    for (unsigned how = 0; how < 4; how++) {
        test_alloc mem = {0};
        deals d = {.t = &t, .audit_off = (how & 1) != 0, .function = (how & 2) != 0};
        uvcc_program *p = d.function ? function_program(&mem) : program(&mem);
        const triangle_options opt = {
            .seed = 4, .audit_off = d.audit_off, .wired = true, .on_task = on_deal, .user = &d};
        for (int i = 0; i < COUNT; i++)
            x[i] = i % 4000 - 2000;
        triangle_open(&t, p, &opt);
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_input(&t, 0, 0, IN_X, x);
        triangle_finish(&t, 1);
        assert_true(d.seen >= 3);
        const int64_t *y = uvcc_session_output(t.s[0], 0, OUT_Y);
        assert_non_null(y);
        for (int i = 0; d.function && i < COUNT; i++)
            assert_int_equal(y[i], x[i] > 0 ? x[i] : 0);
        triangle_free(&t);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* ---- gathered ahead ---- */

static uint64_t budget[3]; /* of each party */
static uint64_t largest;   /* that one op took of it */
static uint32_t gathers[3], last_gather[3];

static void on_gather(void *user, const uvcc_op_trace *t) {
    const unsigned party = (unsigned)(uintptr_t)user;
    if (t->kind != UVCC_TRACE_JOB_OUT || t->work != UVCC_TRACE_GATHER)
        return;
    const uint32_t place = t->step * 2 * OPS + t->op;
    assert_true(gathers[party]++ == 0 || place > last_gather[party]); /* in program order */
    last_gather[party] = place;
}

static void gather(uvcc_config *cfg) {
    cfg->limits.keys_gathered_bytes = budget[cfg->identity.party];
    cfg->trace.op = on_gather;
    cfg->trace.user = (void *)(uintptr_t)cfg->identity.party;
}

static void set_budgets(uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t all[3] = {a, b, c};
    memcpy(budget, all, sizeof budget);
    memset(gathers, 0, sizeof gathers);
}

/* Messages of keys that the instance holds. */
static uint32_t held(const uvcci_instance *r) {
    uint32_t n = 0;
    for (unsigned g = 0; g < r->plan->key_count; g++)
        for (const uvcci_rx *m = r->rounds[r->plan->round_count + g].held; m != NULL; m = m->next)
            n++;
    return n;
}

/* The budget holds, and what is gathered of the instances is what the session counts. */
static void check_gathered(const triangle *t) {
    for (unsigned i = 0; i < 3; i++) {
        const uvcc_session *s = t->s[i];
        uvcc_session_stats st;
        uint64_t bytes = 0, room = 0;
        uvcc_session_get_stats(s, &st);
        for (unsigned c = 0; c < 2; c++)
            for (uint32_t k = 0; s->ctx[c].active && k < s->ctx[c].instance_count; k++) {
                const uvcci_instance *r = &s->ctx[c].instances[k];
                bytes += r->gathered != 0 ? r->key_bytes : 0;
                room += r->gathered;
                largest = r->gathered > largest ? r->gathered : largest;
                /* the turn took them over */
                assert_true(r->gathered == 0 || r->turn <= r->plan->key_turn);
                assert_true(r->gathered == 0 || uvcci_arena_rounded(r->key_bytes) == r->gathered);
                assert_true(r->gathered == 0 || r->gather_out || held(r) == 0);
            }
        assert_int_equal(s->gathered, room);
        assert_int_equal(st.keys_gathered_bytes, bytes);
        assert_true(room <= budget[i]);
    }
}

static uint64_t hash_of(const void *bytes, size_t n, uint64_t h) {
    const uint8_t *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Two steps with their inputs, agreed together; `early`: the inputs are there before any key is.
 * Roots and outputs of both, as one number. */
static uint64_t two_steps(const uvcc_program *p, uint64_t seed, uvcc_cpu_mode mode, bool early) {
    const triangle_options opt = {.seed = 1, .compute_seed = seed, .mode = mode, .tweak = gather};
    int64_t *x = calloc(COUNT, sizeof *x);
    uint64_t all = 0, rnd = 77;
    triangle t;
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++)
        triangle_agree(&t, step, 0);
    for (unsigned k = 0; k < 500 && !early; k++) {
        (void)triangle_turn(&t);
        check_gathered(&t);
    }
    for (uint32_t step = 0; step < 2; step++) {
        for (unsigned i = 0; i < COUNT; i++)
            x[i] = (int64_t)(test_rand(&rnd) % 2000) - 1000;
        triangle_input(&t, 0, step, IN_X, x);
        while (t.finished[0] <= step || t.finished[1] <= step || t.finished[2] <= step) {
            assert_true(triangle_turn(&t));
            check_gathered(&t);
        }
        for (unsigned i = 0; i < 3; i++) {
            const int64_t *y = uvcc_session_output(t.s[i], step, OUT_Y);
            assert_non_null(y);
            all = hash_of(y, COUNT * sizeof *y, all);
            all = hash_of(t.root[i], 32, all);
        }
    }
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(t.s[i]->gathered, 0);
    triangle_close(&t);
    triangle_free(&t);
    free(x);
    return all;
}

enum { ALL = 64 << 20 }; /* the keys of both steps */

/* Whatever the budget, and whenever keys come. */
static void test_gathered_same(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    set_budgets(0, 0, 0);
    const uint64_t want = two_steps(p, 1, UVCC_CPU_INLINE, false);
    assert_int_equal(gathers[0] + gathers[1] + gathers[2], 0);
    set_budgets(1, 1, 1); /* nothing is so small */
    assert_int_equal(two_steps(p, 1, UVCC_CPU_INLINE, false), want);
    assert_int_equal(gathers[0] + gathers[1] + gathers[2], 0);
    set_budgets(ALL, ALL, ALL);
    assert_int_equal(two_steps(p, 1, UVCC_CPU_INLINE, false), want);
    const uint64_t some = largest; /* no two ops fit */
    for (uint64_t seed = 1; seed < 4; seed++)
        for (unsigned early = 0; early < 2; early++) {
            const uvcc_cpu_mode mode = seed == 1 ? UVCC_CPU_INLINE : UVCC_CPU_DEFERRED;
            set_budgets(0, some, ALL); /* a party's own affair */
            assert_int_equal(two_steps(p, seed, mode, early != 0), want);
            assert_int_equal(gathers[0], 0);
            set_budgets(ALL, some, some);
            assert_int_equal(two_steps(p, seed, mode, early != 0), want);
            assert_true(early || (gathers[0] > gathers[1] && gathers[1] != 0 && gathers[2] != 0));
        }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* All of two steps: every instance has its keys, and the messages are given back. */
static void test_gathered_all(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {.seed = 5, .tweak = gather};
    triangle t;
    set_budgets(ALL, ALL, ALL);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++)
        triangle_agree(&t, step, 0);
    turn(&t);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t with = 0;
        for (uint32_t step = 0; step < 2; step++) {
            const uvcci_step *st = step_of(&t, i, step);
            assert_int_equal(st->gather_next, st->instance_count);
            for (uint32_t k = 0; k < st->instance_count; k++) {
                assert_int_equal(held(&st->instances[k]), 0);
                with += st->instances[k].gathered != 0;
            }
        }
        assert_true(with != 0 && with == gathers[i]);
        assert_int_equal(t.s[i]->gathers_out, 0);
    }
    check_gathered(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static jmp_buf cut;
static bool cuts;
static const uvcc_job *cut_job;

/* Party 1's first job that gathers is out, and nobody will run it. */
static void on_task(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    const triangle *t = user;
    if (!cuts || party != 1 || done || task != 0 ||
        uvcci_jobs_owner(&t->s[party]->jobs, job->id, UVCCI_JOB_GATHER) == NULL)
        return;
    cut_job = job;
    cuts = false;
    longjmp(cut, 1);
}

/* Until nothing happens any more, or party 1 has such a job out, which nobody runs: whose it is. */
static uvcci_instance *until_cut(triangle *t) {
    cuts = true;
    if (setjmp(cut) == 0) {
        triangle_settle(t);
        return NULL;
    }
    return uvcci_jobs_owner(&t->s[1]->jobs, cut_job->id, UVCCI_JOB_GATHER);
}

/* The job that was cut off is run after all. */
static void run_cut(triangle *t, const uvcc_job *job) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_cpu *cpu;
    uvcc_completion c;
    assert_int_equal(
        uvcc_cpu_new(&cpu, &(uvcc_cpu_config){.size = sizeof(uvcc_cpu_config), .alloc = al}), 0);
    assert_int_equal(uvcc_cpu_submit(cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(cpu, &c), 1);
    assert_int_equal(uvcc_session_complete(t->s[1], &c, triangle_now(t)), 0);
    uvcc_cpu_free(cpu);
}

static void gather_and_cancel(uvcc_config *cfg) {
    gather(cfg);
    cfg->resume.cancellable = 1;
}

/* A step that all drop is over when no executor works on its keys any more. */
static void test_gather_of_a_dropped_step(void **state) {
    (void)state;
    static triangle t;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {
        .seed = 3, .wired = true, .tweak = gather_and_cancel, .on_task = on_task, .user = &t};
    set_budgets(ALL, ALL, ALL);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    assert_non_null(until_cut(&t));
    const uvcc_job *job = cut_job;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_cancel(t.s[i], 0, triangle_now(&t)), 0);
    triangle_settle(&t);
    assert_true(step_of(&t, 1, 0)->dropped && !step_of(&t, 1, 0)->quiet);
    run_cut(&t, job);
    triangle_settle(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.s[i]->step, 1);
        assert_int_equal(t.s[i]->gathered + t.s[i]->gathers_out, 0);
    }
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A turn whose keys are on their way waits for them, however far all else is. */
static void test_gather_is_waited_for(void **state) {
    (void)state;
    static triangle t;
    static int64_t x[COUNT];
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {
        .seed = 3, .wired = true, .tweak = gather, .on_task = on_task, .user = &t};
    set_budgets(ALL, ALL, ALL);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, x);
    uvcci_instance *r = until_cut(&t);
    const uvcc_job *job = cut_job;
    assert_non_null(r);
    triangle_settle(&t);
    assert_int_equal(r->turn, r->plan->key_turn);
    assert_true(r->gather_out && !r->job_out);
    assert_int_equal(t.finished[1], 0);
    run_cut(&t, job);
    triangle_finish(&t, 1);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* The session goes while a job is out; a job that fails ends it as any other does. */
static void test_gather_cut_short(void **state) {
    (void)state;
    static triangle t;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    const triangle_options opt = {
        .seed = 3, .wired = true, .tweak = gather, .on_task = on_task, .user = &t};
    for (unsigned fails = 0; fails < 2; fails++) {
        set_budgets(ALL, ALL, ALL);
        triangle_open(&t, p, &opt);
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        assert_non_null(until_cut(&t));
        assert_true(t.s[1]->gathers_out != 0);
        if (fails != 0) {
            const uvcc_completion c = {cut_job->id, cut_job->cookie, UVCC_ERR_JOB};
            assert_int_equal(uvcc_session_complete(t.s[1], &c, triangle_now(&t)), 0);
            triangle_events(&t);
            assert_int_equal(t.aborted[1], UVCC_ABORT_JOB);
        }
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* More than what tensors may take is refused when the program is loaded, with both numbers. */
static void test_gather_budget(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t random = 1;
    uvcc_program *p = program(&mem);
    for (unsigned fits = 0; fits < 2; fits++) {
        uvcc_config c = triangle_config_alone(&mem, &random);
        uvcc_session *s;
        c.limits.tensor_bytes = 8u << 20;
        c.limits.keys_gathered_bytes = fits != 0 ? 1u << 20 : 8u << 20;
        assert_int_equal(uvcc_session_new(&s, &c), 0);
        assert_int_equal(uvcc_session_load_program(s, p), fits != 0 ? 0 : UVCC_ERR_LIMIT);
        if (fits == 0)
            assert_non_null(strstr(uvcc_session_error_detail(s), "keys_gathered_bytes is 8388608"));
        uvcc_session_free(s);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_bytes),
        cmocka_unit_test(test_ahead),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_made_once),
        cmocka_unit_test(test_gathered_same),
        cmocka_unit_test(test_gathered_all),
        cmocka_unit_test(test_gather_is_waited_for),
        cmocka_unit_test(test_gather_of_a_dropped_step),
        cmocka_unit_test(test_gather_cut_short),
        cmocka_unit_test(test_gather_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
