/* SPDX-License-Identifier: Apache-2.0 */
/* test_pipeline_model.c - the simulated pipeline of `uvcc pipeline`. */
#include "pinned_block.h"

#include "pipeline/pipeline.h"

static const pipe_sizes sizes = {.dim = 16, .hidden = 64, .heads = 4, .context = 8, .batch = 2};
static const pipe_load plain = {.op_ticks = 4, .wait_factor = 10, .wait_share = 0.6, .seed = 1};

static pipe_graph block(const pipe_sizes *s) {
    pipe_graph g;
    pipe_block_graph(&g, s);
    return g;
}

static pipe_result simulate(const pipe_run *r) {
    pipe_result out;
    char message[256];
    if (pipe_simulate(r, &out, message, sizeof message) != 0)
        fail_msg("%s", message);
    return out;
}

/* ---- the block ---- */

/* `have` names the tensors of the list, blanks between them, and perhaps one more. */
static void same_names(const json_t *want, const char *have, const char *more) {
    char text[128] = "";
    for (size_t i = 0; i < json_array_size(want); i++) {
        strcat(text, i == 0 ? "" : " ");
        strcat(text, json_string_value(json_array_get(want, i)));
    }
    if (more != NULL)
        strcat(strcat(text, " "), more);
    assert_string_equal(have, text);
}

/* Its ops are those of the vector file: k, phase, opcode, name, tensors, transposition. RMSNORM_BWD
 * reads what it adds to. */
static void block_is_the_pinned_one(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    json_t *v = LOAD_VECTORS("stage_program.json");
    const json_t *ops = json_object_get(v, "ops");
    assert_int_equal(g.ops, json_array_size(ops));
    for (uint32_t i = 0; i < json_array_size(ops); i++) {
        const json_t *want = json_array_get(ops, i), *out = json_object_get(want, "out");
        const pipe_block_op *o = pipe_block_at(i);
        const bool backward = strcmp(test_str(want, "phase"), "BWD") == 0;
        const bool accumulates = strcmp(o->opcode, "RMSNORM_BWD") == 0;
        assert_int_equal(o->k, test_u64(want, "k"));
        assert_int_equal(g.phase[i], backward ? PIPE_BWD : PIPE_FWD);
        assert_string_equal(o->opcode, test_str(want, "op"));
        assert_string_equal(o->name, test_str(want, "name"));
        same_names(json_object_get(want, "in"), o->in,
                   accumulates ? json_string_value(json_array_get(out, 0)) : NULL);
        same_names(out, o->out, NULL);
        assert_int_equal((o->flags & UVCC_OP_TRANS_A) != 0,
                         json_is_true(json_object_get(want, "transA")));
        assert_int_equal((o->flags & UVCC_OP_TRANS_B) != 0,
                         json_is_true(json_object_get(want, "transB")));
    }
    assert_null(pipe_block_at(g.ops));
    json_decref(v);
}

/* What the tool finds of dependencies and buffers is what the loader finds of the same block. */
static void graph_is_the_loaders(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    test_alloc mem = {0};
    uvcc_program *p = pinned_block(&mem, true);
    assert_int_equal(uvcc_program_op_count(p, 0), g.ops);
    uint64_t preds[PIPE_OPS_MAX] = {0};
    for (uint32_t i = 0; i < g.ops; i++) {
        uint32_t followers[PIPE_OPS_MAX];
        const int n = uvcc_program_followers(p, 0, i, followers, PIPE_OPS_MAX);
        for (int f = 0; f < n; f++)
            preds[followers[f]] |= 1ull << i;
    }
    assert_memory_equal(g.preds, preds, sizeof preds);
    uint32_t b = 0;
    for (uint32_t t = 0; t < uvcc_program_tensor_count(p); t++) {
        uvcc_buffer_life life;
        if (uvcc_program_life(p, 0, t, &life) != 0 || life.first_write == UINT32_MAX ||
            life.reads == 0)
            continue;
        assert_int_equal(__builtin_ctzll(g.users[b]), life.first_write);
        assert_int_equal(63 - __builtin_clzll(g.users[b]), life.last_read);
        b++;
    }
    assert_int_equal(b, g.buffers);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static uint32_t op_of_k(const pipe_graph *g, uint32_t k) {
    for (uint32_t i = 0; i < g->ops; i++)
        if (g->k[i] == k)
            return i;
    fail_msg("no op with k %u", k);
    return 0;
}

static bool in_set(const pipe_graph *g, uint64_t set, uint32_t k) {
    return (set >> op_of_k(g, k) & 1) != 0;
}

static void graph_is_the_program(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    assert_int_equal(g.ops, 51);
    assert_int_equal(__builtin_popcountll(g.waits), 31);
    assert_int_equal(g.buffers, 29); /* the rows of docs/pipeline.md */
    assert_int_equal(__builtin_popcountll(g.readers), 4 + 2);
    assert_int_equal(g.k[g.recv[PIPE_FWD]], 0);
    assert_int_equal(g.k[g.send[PIPE_FWD]], 23);
    assert_int_equal(g.k[g.recv[PIPE_BWD]], 100);
    assert_int_equal(g.k[g.send[PIPE_BWD]], 126);
    assert_true(in_set(&g, g.preds[op_of_k(&g, 4)], 2));
    assert_true(in_set(&g, g.preds[op_of_k(&g, 4)], 3)); /* overwrites what the check reads */
    assert_false(in_set(&g, g.preds[op_of_k(&g, 103)], 102));
    /* Nobody outside waits for gradients of weights. */
    static const uint32_t later[] = {102, 103, 107, 108, 112, 113, 122, 123};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        assert_false(in_set(&g, g.feeds, later[i]));
    assert_int_equal(__builtin_popcountll(g.feeds), 51 - 8);
}

/* The sizes count both components, all sequences and heads. */
static void buffers_have_their_sizes(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    const uint64_t tokens = 2 * 8;
    assert_int_equal(g.bytes[0], 16 * tokens * 16);     /* XIN */
    assert_int_equal(g.bytes[1], 16 * tokens);          /* INV1 */
    assert_int_equal(g.bytes[3], 16 * tokens * 3 * 16); /* QKV */
    assert_int_equal(g.bytes[4], 16 * tokens * 4 * 8);  /* ATTN: heads * context */
    assert_int_equal(g.bytes[9], 16 * tokens * 64);     /* H1 */
    /* The greatest that the options allow. */
    const pipe_sizes big = {
        .dim = 65536, .hidden = 262144, .heads = 1024, .context = 65536, .batch = 1};
    const pipe_graph most = block(&big);
    for (uint32_t b = 0; b < most.buffers; b++)
        assert_in_range(most.bytes[b], 1, 1ull << 48); /* scores, both components: no overflow */
}

/* ---- order ---- */

/* One op a phase, one tick each. */
static pipe_graph unit_graph(void) {
    pipe_graph g = {.ops = 2,
                    .k = {0, 100},
                    .phase = {PIPE_FWD, PIPE_BWD},
                    .name = {"F", "B"},
                    .all = 3,
                    .feeds = 3,
                    .recv = {0, 1},
                    .send = {0, 1}};
    return g;
}

typedef struct unit_table {
    char cell[256][8][8];
} unit_table;

static void note_unit(void *user, const pipe_slice *s) {
    unit_table *t = user;
    assert_true(s->start < 256 && s->stage < 8 && s->end == s->start + 1 && !s->waits);
    assert_int_equal(t->cell[s->start][s->stage][0], 0);
    snprintf(t->cell[s->start][s->stage], sizeof t->cell[0][0], "%c%u", s->op == 0 ? 'F' : 'B',
             s->mb);
}

static void reproduces(const char *name, const json_t *o, pipe_rank *rank) {
    const pipe_graph g = unit_graph();
    static unit_table t;
    unsigned stages, microbatches;
    assert_int_equal(sscanf(name, "S%uM%u", &stages, &microbatches), 2);
    memset(&t, 0, sizeof t);
    pipe_result r = simulate(&(pipe_run){.graph = &g,
                                         .load = {.op_ticks = 1},
                                         .stages = stages,
                                         .microbatches = microbatches,
                                         .rank = rank,
                                         .slice = note_unit,
                                         .slice_user = &t});
    const json_t *table = json_object_get(o, "unit_ticks");
    assert_int_equal(r.makespan, test_u64(o, "tick_count"));
    assert_int_equal(r.makespan, json_array_size(table));
    for (size_t tick = 0; tick < r.makespan; tick++)
        for (uint32_t s = 0; s < stages; s++) {
            const char *want = json_string_value(json_array_get(json_array_get(table, tick), s));
            const char *have = t.cell[tick][s];
            if (strcmp(*have != '\0' ? have : "-", want) != 0)
                fail_msg("%s tick %zu stage %u: %s, not %s", name, tick, s, have, want);
        }
    free(r.doing);
}

static void unit_times_give_the_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("schedule_1f1b.json");
    const char *name;
    json_t *o;
    assert_true(json_object_size(v) >= 5);
    json_object_foreach(v, name, o) {
        reproduces(name, o, NULL);
        reproduces(name, o, pipe_rank_1f1b);
    }
    json_decref(v);
}

/* ---- hiding latency ---- */

static pipe_result four_stages(const pipe_graph *g, pipe_load load, uint32_t microbatches,
                               uint32_t ahead, pipe_rank *rank) {
    pipe_result r = simulate(&(pipe_run){.graph = g,
                                         .load = load,
                                         .stages = 4,
                                         .microbatches = microbatches,
                                         .ahead = ahead,
                                         .rank = rank});
    free(r.doing);
    r.doing = NULL;
    return r;
}

/* 16 ahead keep compute busy for at least nine tenths of the bound, with its tail and without. */
static void ahead_hides_waits(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    static const uint32_t counts[] = {32, 128};
    for (size_t i = 0; i < 2; i++) {
        const pipe_result bare = four_stages(&g, plain, counts[i], 0, NULL);
        const pipe_result hidden = four_stages(&g, plain, counts[i], 16, NULL);
        assert_true(hidden.busy_fraction >= 0.9 * hidden.bound);
        assert_true(hidden.busy_fraction >= 0.9 * hidden.bound_no_tail);
        assert_true(bare.busy_fraction < 0.35 * bare.bound);
        assert_true(bare.busy_fraction <= bare.ahead_limit);
        /* What the neighbours wait for first is better than the order of slots. */
        const pipe_result slots = four_stages(&g, plain, counts[i], 16, pipe_rank_1f1b);
        assert_true(hidden.makespan < slots.makespan);
    }
}

/* Random waits and random compute: the same rule, a little further from the bound. */
static void random_waits_are_hidden_too(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        pipe_load load = plain;
        load.seed = seed;
        load.choice = PIPE_WAITS_RANDOM;
        load.spread = true;
        const pipe_result r = four_stages(&g, load, 32, 16, NULL);
        assert_true(r.busy_fraction >= 0.85 * r.bound);
        const pipe_result again = four_stages(&g, load, 32, 16, NULL);
        assert_memory_equal(&r, &again, sizeof r);
    }
}

/* For one microbatch the bound is what it takes, but for two of its ops that may want compute at
 * once. */
static void bound_is_met_by_one_microbatch(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    for (uint32_t stages = 1; stages <= 4; stages++) {
        pipe_result r =
            simulate(&(pipe_run){.graph = &g, .load = plain, .stages = stages, .microbatches = 1});
        const double bound = r.compute / r.bound;
        assert_true((double)r.makespan >= bound);
        assert_true((double)r.makespan <= 1.01 * bound);
        free(r.doing);
    }
}

/* ---- the invariant ---- */

/* Sometimes refuses to run what could run. */
static uint64_t lazy(void *user, const pipe_graph *g, const uvcc_pipeline *at, uint32_t mb,
                     uint32_t op) {
    uint32_t *left = user;
    if (*left != 0 && --*left == 0)
        return UINT64_MAX;
    return pipe_rank_1f1b(NULL, g, at, mb, op);
}

static void idle_compute_is_found(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    static const uint32_t at[] = {1, 100, 5000};
    for (size_t i = 0; i < 3; i++) {
        uint32_t left = at[i];
        const pipe_run r = {.graph = &g,
                            .load = plain,
                            .stages = 2,
                            .microbatches = 16,
                            .rank = lazy,
                            .rank_user = &left};
        pipe_result out;
        char message[256] = "";
        /* A refusal is a fault unless another op took the place. */
        if (pipe_simulate(&r, &out, message, sizeof message) == 0)
            free(out.doing);
        else
            assert_non_null(strstr(message, "compute is idle, and an op in flight can run"));
        if (i == 0) /* the first op: there is no other */
            assert_string_equal(message,
                                "tick 0, stage 0: compute is idle, and an op in flight can run");
    }
}

/* ---- accounts ---- */

typedef struct ledger {
    uint64_t busy[4], end[4];
    uint64_t waits;
} ledger;

static void note_slice(void *user, const pipe_slice *s) {
    ledger *l = user;
    assert_true(s->end > s->start);
    if (s->waits) {
        l->waits += s->end - s->start;
        return;
    }
    assert_true(s->start >= l->end[s->stage]); /* one at a time */
    l->end[s->stage] = s->end;
    l->busy[s->stage] += s->end - s->start;
}

static void slices_add_up(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    ledger l = {0};
    pipe_result r = simulate(&(pipe_run){.graph = &g,
                                         .load = plain,
                                         .stages = 4,
                                         .microbatches = 8,
                                         .ahead = 2,
                                         .slice = note_slice,
                                         .slice_user = &l});
    uint64_t ticks[4] = {0};
    for (uint64_t t = 0; t < r.makespan; t++)
        for (unsigned s = 0; s < 4; s++)
            ticks[s] += r.doing[4 * t + s] >= PIPE_FORWARD;
    for (unsigned s = 0; s < 4; s++) {
        assert_int_equal(l.busy[s], 8 * 51 * 4);
        assert_int_equal(r.busy[s], l.busy[s]);
        assert_int_equal(ticks[s], l.busy[s]);
        assert_int_equal(r.in_flight[s], 4 - s + 2);
        assert_true(r.memory_bytes[s] <= r.in_flight[s] * r.microbatch_bytes);
    }
    assert_int_equal(l.waits, 4 * 8 * 31 * 40);
    free(r.doing);
}

static uint64_t by_k(void *user, const pipe_graph *g, const uvcc_pipeline *at, uint32_t mb,
                     uint32_t op) {
    (void)user;
    (void)at;
    return (uint64_t)mb << 16 | g->k[op];
}

/* In program order without waits, a buffer lives from its first write to its last read. */
static void memory_is_that_of_the_lives(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    uint64_t peak = 0;
    for (uint32_t i = 0; i < g.ops; i++) {
        uint64_t live = 0;
        for (uint32_t b = 0; b < g.buffers; b++) {
            const bool begun = (g.users[b] & ((2ull << i) - 1)) != 0, ended = g.users[b] >> i == 0;
            live += begun && !ended ? g.bytes[b] : 0;
        }
        peak = live > peak ? live : peak;
    }
    pipe_result r = simulate(&(pipe_run){
        .graph = &g, .load = {.op_ticks = 1}, .stages = 1, .microbatches = 2, .rank = by_k});
    assert_int_equal(r.memory_bytes[0], peak);
    assert_int_equal(r.microbatch_bytes, peak);
    assert_int_equal(r.makespan, 2 * 51);
    assert_true(r.busy_fraction == 1);
    free(r.doing);
}

/* Shares of random waits, and compute around its mean. */
static void loads_are_as_asked(void **state) {
    (void)state;
    const pipe_graph g = block(&sizes);
    pipe_load l = plain;
    l.choice = PIPE_WAITS_RANDOM;
    l.spread = true;
    uint64_t waits = 0, compute = 0, n = 0;
    for (uint32_t s = 0; s < 4; s++)
        for (uint32_t m = 0; m < 128; m++)
            for (uint32_t i = 0; i < g.ops; i++, n++) {
                const pipe_time t = pipe_time_of(&l, &g, s, m, i);
                const uint32_t c = t.before + t.after;
                assert_true(c >= 1 && c <= 7 && t.before >= 1);
                assert_true(t.wait == 0 ? t.after == 0 : t.wait == 40);
                waits += t.wait != 0;
                compute += c;
            }
    assert_true(waits * 100 > n * 59 && waits * 100 < n * 61);
    assert_true(compute * 100 > n * 395 && compute * 100 < n * 405);
    assert_int_equal(pipe_time_of(&plain, &g, 0, 0, 0).wait, 0);
    assert_int_equal(pipe_time_of(&plain, &g, 0, 0, 1).wait, 40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(block_is_the_pinned_one),
        cmocka_unit_test(graph_is_the_loaders),
        cmocka_unit_test(graph_is_the_program),
        cmocka_unit_test(buffers_have_their_sizes),
        cmocka_unit_test(unit_times_give_the_vectors),
        cmocka_unit_test(ahead_hides_waits),
        cmocka_unit_test(random_waits_are_hidden_too),
        cmocka_unit_test(bound_is_met_by_one_microbatch),
        cmocka_unit_test(idle_compute_is_found),
        cmocka_unit_test(slices_add_up),
        cmocka_unit_test(memory_is_that_of_the_lives),
        cmocka_unit_test(loads_are_as_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
