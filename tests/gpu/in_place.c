/* SPDX-License-Identifier: Apache-2.0 */
/* in_place.c - see in_place.h. */
#include "in_place.h"

#include "support.h"

enum { ROWS = 6, COLS = 130, ELEMS = ROWS * COLS, BLOCK = 3, PART = 2, BUFFERS = 6 };

/* Ops by number, and whether out may be y too. */
static const struct {
    uint8_t op;
    bool y;
} ops[] = {
    {UVCC_MAP_ADD, true},       {UVCC_MAP_SUB, true},         {UVCC_MAP_ADD_ROW, false},
    {UVCC_MAP_COPY, false},     {UVCC_MAP_SHL, false},        {UVCC_MAP_PUBLIC, false},
    {UVCC_MAP_ADD_COL, false},  {UVCC_MAP_SUB_COL, false},    {UVCC_MAP_RSUB_COL, false},
    {UVCC_MAP_SCALE, false},    {UVCC_MAP_ADD_PUBLIC, false}, {UVCC_MAP_CAUSAL, false},
    {UVCC_MAP_PUT_ROWS, false}, {UVCC_MAP_ADD_ROWS, false},
};

/* x, y and out, lo and hi each, in memory of the executor; what is there before, and after. */
typedef struct bench {
    const vector_executor *x;
    uint64_t *at[BUFFERS], before[BUFFERS][ELEMS], after[BUFFERS][ELEMS];
} bench;

static void run(bench *b, const uvcc_task *t) {
    uvcc_copy_item up[BUFFERS], down[BUFFERS];
    for (unsigned i = 0; i < BUFFERS; i++) {
        up[i] = (uvcc_copy_item){(uint8_t *)b->at[i], (uint8_t *)b->before[i], sizeof b->before[i]};
        down[i] = (uvcc_copy_item){(uint8_t *)b->after[i], (uint8_t *)b->at[i], sizeof b->after[i]};
    }
    const uvcc_task tasks[3] = {
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = up, .count = BUFFERS}},
        *t,
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = down, .count = BUFFERS}}};
    const uvcc_job job = {.id = 1, .tasks = tasks, .count = 3};
    uvcc_completion done;
    assert_int_equal(b->x->run(b->x->user, &job, &done), 0);
    assert_int_equal(done.status, 0);
}

static uvcc_task task_of(const bench *b, unsigned op, unsigned party) {
    return (uvcc_task){.kind = UVCC_TASK_MAP,
                       .u.map = {.op = (uint8_t)op,
                                 .party = (uint8_t)party,
                                 .shift = 5,
                                 .rows = ROWS,
                                 .cols = COLS,
                                 .block = BLOCK,
                                 .part = PART,
                                 .constant = 1,
                                 .x = {b->at[0], b->at[1]},
                                 .y = {b->at[2], b->at[3]},
                                 .out = {b->at[4], b->at[5]}}};
}

/* lo and hi of the result at these buffers. */
static void same_in(bench *b, uvcc_task t, unsigned lo, unsigned hi) {
    static uint64_t want[2][ELEMS];
    run(b, &t);
    memcpy(want[0], b->after[4], sizeof want[0]);
    memcpy(want[1], b->after[5], sizeof want[1]);
    t.u.map.out = (uvcc_shares){b->at[lo], b->at[hi]};
    run(b, &t);
    assert_memory_equal(b->after[lo], want[0], sizeof want[0]);
    assert_memory_equal(b->after[hi], want[1], sizeof want[1]);
}

void in_place_maps(const vector_executor *x) {
    static bench b;
    b.x = x;
    for (unsigned i = 0; i < BUFFERS; i++) {
        b.at[i] = x->memory.alloc(x->memory.user, sizeof b.before[i], UVCC_MEM_TENSOR);
        assert_non_null(b.at[i]);
        for (unsigned k = 0; k < ELEMS; k++)
            b.before[i][k] = (i + 1) * 0x9e3779b97f4a7c15u * (k + 3);
    }
    for (unsigned o = 0; o < sizeof ops / sizeof ops[0]; o++)
        for (unsigned party = 0; party < UVCC_PARTIES; party++) {
            const uvcc_task t = task_of(&b, ops[o].op, party);
            same_in(&b, t, 0, 1);
            same_in(&b, t, 0, 5);
            if (ops[o].op != UVCC_MAP_PUBLIC)
                same_in(&b, t, 4, 1);
            if (ops[o].y)
                same_in(&b, t, 2, 3);
        }
    for (unsigned i = 0; i < BUFFERS; i++)
        x->memory.free(x->memory.user, b.at[i], sizeof b.before[i], UVCC_MEM_TENSOR);
}
