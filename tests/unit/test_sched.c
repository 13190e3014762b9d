/* SPDX-License-Identifier: Apache-2.0 */
/* The 1F1B order: against vectors, in unit-time simulation against the ideal, what is in flight,
 * and the rank by which ops of a stage go. */
#include "support.h"

#include <uvcc/pipeline.h>
#include <uvcc/program.h>

#include "proto/ids.h"
#include "proto/sched.h"

enum { MAX_S = 8, MAX_M = 40 };

typedef struct pipeline {
    uint32_t stages, microbatches;
    uvcci_slot slots[MAX_S][2 * MAX_M];
} pipeline;

static void plan(pipeline *p, uint32_t stages, uint32_t microbatches, uint32_t ahead) {
    p->stages = stages;
    p->microbatches = microbatches;
    for (uint32_t s = 0; s < stages; s++)
        assert_int_equal(uvcci_sched_order(s, stages, microbatches, ahead, p->slots[s],
                                           2 * (size_t)microbatches),
                         2 * microbatches);
}

/* Unit-time simulation. Each tick every stage runs its next slot if what that needs was there
 * before the tick: a forward needs the stage before, a backward the stage behind (the last stage:
 * its own forward). ran[tick][stage] = slot index or -1. Returns the ticks, 0 when it is stuck. */
static unsigned simulate(const pipeline *p, int ran[][MAX_S], unsigned max_ticks) {
    uint32_t done_f[MAX_S] = {0}, done_b[MAX_S] = {0}, at[MAX_S] = {0};
    uint32_t left = p->stages * 2 * p->microbatches;
    unsigned tick = 0;
    for (; left > 0; tick++) {
        if (tick == max_ticks)
            return 0;
        bool moved = false;
        for (uint32_t s = 0; s < p->stages; s++) {
            ran[tick][s] = -1;
            if (at[s] == 2 * p->microbatches)
                continue;
            uvcci_slot slot = p->slots[s][at[s]];
            bool ready;
            if (slot.phase == UVCCI_PHASE_FWD)
                ready = s == 0 || done_f[s - 1] > slot.mb;
            else
                ready = s + 1 == p->stages ? done_f[s] > slot.mb : done_b[s + 1] > slot.mb;
            if (ready)
                ran[tick][s] = (int)at[s];
        }
        for (uint32_t s = 0; s < p->stages; s++) {
            if (ran[tick][s] < 0)
                continue;
            uvcci_slot slot = p->slots[s][at[s]++];
            uint32_t *done = slot.phase == UVCCI_PHASE_FWD ? done_f : done_b;
            assert_int_equal(done[s], slot.mb); /* in order, each once */
            done[s]++;
            left--;
            moved = true;
        }
        if (!moved)
            return 0;
    }
    return tick;
}

static void check_slot(uvcci_slot slot, const char *want) {
    char got[16];
    snprintf(got, sizeof got, "%c%u", slot.phase == UVCCI_PHASE_FWD ? 'F' : 'B', slot.mb);
    assert_string_equal(got, want);
}

static void vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("schedule_1f1b.json");
    const char *name;
    json_t *o;
    assert_true(json_object_size(v) >= 5);
    json_object_foreach(v, name, o) {
        unsigned stages, microbatches;
        assert_int_equal(sscanf(name, "S%uM%u", &stages, &microbatches), 2);
        assert_true(stages <= MAX_S && microbatches <= MAX_M);
        pipeline p;
        plan(&p, stages, microbatches, 0);
        const json_t *orders = json_object_get(o, "order_per_stage");
        for (uint32_t s = 0; s < stages; s++) {
            const json_t *order = json_array_get(orders, s);
            assert_int_equal(json_array_size(order), 2 * microbatches);
            for (uint32_t i = 0; i < 2 * microbatches; i++)
                check_slot(p.slots[s][i], json_string_value(json_array_get(order, i)));
        }
        int ran[2 * (MAX_M + MAX_S)][MAX_S];
        unsigned ticks = simulate(&p, ran, 2 * (MAX_M + MAX_S));
        assert_int_equal(ticks, test_u64(o, "tick_count"));
        const json_t *table = json_object_get(o, "unit_ticks");
        assert_int_equal(json_array_size(table), ticks);
        for (unsigned tick = 0; tick < ticks; tick++)
            for (uint32_t s = 0; s < stages; s++) {
                const char *want =
                    json_string_value(json_array_get(json_array_get(table, tick), s));
                if (ran[tick][s] < 0)
                    assert_string_equal(want, "-");
                else
                    check_slot(p.slots[s][ran[tick][s]], want);
            }
    }
    json_decref(v);
}

/* Plain 1F1B takes 2(M + S - 1) unit ticks for every size. */
static void plain_order_is_ideal(void **state) {
    (void)state;
    for (uint32_t stages = 1; stages <= MAX_S; stages++)
        for (uint32_t m = 1; m <= 20; m++) {
            pipeline p;
            int ran[2 * (MAX_M + MAX_S)][MAX_S];
            plan(&p, stages, m, 0);
            assert_int_equal(simulate(&p, ran, 2 * (MAX_M + MAX_S)), 2 * (m + stages - 1));
        }
}

/* With any `ahead`: never stuck, every slot once, and exactly so many microbatches in flight. */
static void ahead_bounds_what_is_in_flight(void **state) {
    (void)state;
    static const uint32_t aheads[] = {0, 1, 2, 3, 7, 100, UINT32_MAX};
    for (size_t a = 0; a < sizeof aheads / sizeof aheads[0]; a++)
        for (uint32_t stages = 1; stages <= MAX_S; stages++)
            for (uint32_t m = 1; m <= 12; m++) {
                pipeline p;
                int ran[2 * MAX_M * MAX_S][MAX_S];
                plan(&p, stages, m, aheads[a]);
                assert_true(simulate(&p, ran, 2 * MAX_M * MAX_S) >= 2 * (m + stages - 1));
                for (uint32_t s = 0; s < stages; s++) {
                    uint64_t limit = (uint64_t)stages - s + aheads[a];
                    uint32_t most = 0, flying = 0;
                    for (uint32_t i = 0; i < 2 * m; i++) {
                        flying += p.slots[s][i].phase == UVCCI_PHASE_FWD ? 1u : UINT32_MAX;
                        most = flying > most ? flying : most;
                    }
                    assert_int_equal(flying, 0);
                    assert_int_equal(most, limit < m ? limit : m);
                }
            }
}

/* The closed form of a slot's place and the limit in flight are those of the order. */
static void slots_and_windows_are_the_order(void **state) {
    (void)state;
    static const uint32_t aheads[] = {0, 1, 3, 16, UINT32_MAX};
    for (size_t a = 0; a < sizeof aheads / sizeof aheads[0]; a++)
        for (uint32_t stages = 1; stages <= MAX_S; stages++)
            for (uint32_t m = 1; m <= 12; m++) {
                pipeline p;
                plan(&p, stages, m, aheads[a]);
                for (uint32_t s = 0; s < stages; s++) {
                    const uvcc_pipeline at = {s, stages, m, aheads[a]};
                    uint32_t flying = 0, most = 0;
                    for (uint32_t i = 0; i < 2 * m; i++) {
                        const uvcci_slot slot = p.slots[s][i];
                        assert_int_equal(uvcc_pipeline_slot(&at, slot.phase, slot.mb), i);
                        flying += slot.phase == UVCCI_PHASE_FWD ? 1u : UINT32_MAX;
                        most = flying > most ? flying : most;
                    }
                    assert_int_equal(uvcc_pipeline_window(&at), most);
                }
            }
    const uvcc_pipeline good = {0, 2, 4, 0};
    assert_int_equal(uvcc_pipeline_slot(&good, UVCC_UPD, 0), UINT32_MAX);
    assert_int_equal(uvcc_pipeline_slot(&good, UVCC_FWD, 4), UINT32_MAX);
    assert_int_equal(uvcc_pipeline_window(&(uvcc_pipeline){2, 2, 4, 0}), 0);
    assert_int_equal(uvcc_pipeline_window(&(uvcc_pipeline){0, 2, 0, 0}), 0);
    assert_int_equal(uvcc_pipeline_window(NULL), 0);
}

/* Ranks, least first. */
static void ranks_order_ops(void **state) {
    (void)state;
    const uint64_t ranks[] = {
        uvcc_pipeline_rank(true, UVCC_FWD, 0, 9),
        uvcc_pipeline_rank(true, UVCC_FWD, 0, 0xffff),
        uvcc_pipeline_rank(true, UVCC_BWD, 0, 0),
        uvcc_pipeline_rank(true, UVCC_FWD, 1, 0), /* older microbatches first, in either phase */
        uvcc_pipeline_rank(true, UVCC_BWD, 0xffff, 0xffff),
        uvcc_pipeline_rank(false, UVCC_FWD, 0, 3),
        uvcc_pipeline_rank(false, UVCC_BWD, 0, 2),
        uvcc_pipeline_rank(false, UVCC_FWD, 1, 0),
        uvcc_pipeline_rank(false, UVCC_UPD, 0, 0),
        uvcc_pipeline_rank(false, UVCC_UPD, 0, 1),
    };
    for (size_t i = 1; i < sizeof ranks / sizeof ranks[0]; i++)
        assert_true(ranks[i - 1] < ranks[i]);
}

static void sizes_are_checked(void **state) {
    (void)state;
    uvcci_slot out[8];
    assert_int_equal(uvcci_sched_order(0, 1, 4, 0, out, 8), 8);
    assert_int_equal(uvcci_sched_order(0, 1, 4, 0, out, 7), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_sched_order(0, 1, 0, 0, out, 8), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_sched_order(2, 2, 4, 0, out, 8), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_sched_order(0, 0, 4, 0, out, 8), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_sched_order(0, 257, 4, 0, out, 8), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_sched_order(255, 256, 4, 0, out, 8), 8);
    assert_int_equal(uvcci_sched_order(0, 1, 65537, 0, out, SIZE_MAX), UVCC_ERR_USAGE);
    uvcci_slot *many = malloc(2 * 65536 * sizeof *many);
    assert_non_null(many);
    assert_int_equal(uvcci_sched_order(0, 4, 65536, UINT32_MAX, many, 2 * 65536), 2 * 65536);
    assert_int_equal(many[65535].mb, 65535);
    assert_int_equal(many[65535].phase, UVCCI_PHASE_FWD);
    assert_int_equal(many[2 * 65536 - 1].mb, 65535);
    assert_int_equal(many[2 * 65536 - 1].phase, UVCCI_PHASE_BWD);
    free(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(plain_order_is_ideal),
        cmocka_unit_test(ahead_bounds_what_is_in_flight),
        cmocka_unit_test(slots_and_windows_are_the_order),
        cmocka_unit_test(ranks_order_ops),
        cmocka_unit_test(sizes_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
