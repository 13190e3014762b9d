/* SPDX-License-Identifier: Apache-2.0 */
/* A back end of uvcc_nccl in memory of this process: workers meet in a table, as NCCL's do, by the
 * order of their operations alone. Where members of a group come to different operations NCCL would
 * hang or mix buffers: here the test ends. A worker whose operation has begun does nothing else
 * before it is over, as on one stream: orders that could lock workers up show as such. */
#include "lab.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 16, QUEUE = 256 };

typedef struct running {
    uvcci_nccl_op op;
    bool over;
} running;

typedef struct worker {
    uvcci_nccl_place place;
    uint32_t device;
    running queue[QUEUE]; /* a stream */
    unsigned first, count, begun;
    bool here, joined, aborted, fails, hangs;
    unsigned party;
} worker;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static worker *table[WORKERS];
static unsigned generation;
static struct {
    uint32_t rank;
    bool armed, hang;
} trap;

uint32_t lab_devices(const char **why) {
    *why = NULL;
    return 8;
}

void *lab_take(uint32_t device, size_t bytes, bool pinned) {
    (void)device;
    (void)pinned;
    return malloc(bytes);
}

void lab_give(void *at, bool pinned) {
    (void)pinned;
    free(at);
}

void lab_write(void *at, const void *from, size_t bytes) {
    memcpy(at, from, bytes);
}

void lab_read(void *to, const void *at, size_t bytes) {
    memcpy(to, at, bytes);
}

bool lab_can_break(void) {
    return true;
}

bool lab_break(uint32_t rank, bool hang) {
    (void)pthread_mutex_lock(&lock);
    trap.rank = rank;
    trap.armed = true;
    trap.hang = hang;
    (void)pthread_mutex_unlock(&lock);
    return true;
}

static void fault(const char *what) {
    (void)fprintf(stderr, "memory.c: %s\n", what);
    abort();
}

static int mem_open(void **state, const uvcci_nccl_place *place, uint32_t device,
                    char why[UVCCI_NCCL_TEXT_BYTES]) {
    if (device >= 8) {
        (void)snprintf(why, UVCCI_NCCL_TEXT_BYTES, "there is no CUDA device %u", device);
        return UVCC_ERR_CONFIG;
    }
    worker *w = calloc(1, sizeof *w);
    w->place = *place;
    w->device = device;
    *state = w;
    return 0;
}

static void mem_name(const void *state, uint8_t name[UVCCI_NCCL_NAME_BYTES]) {
    const worker *w = state;
    memset(name, 0, UVCCI_NCCL_NAME_BYTES);
    name[0] = (uint8_t)w->device;
}

static int mem_make_id(void *state, uint8_t id[UVCCI_NCCL_ID_BYTES]) {
    (void)state;
    (void)pthread_mutex_lock(&lock);
    memset(table, 0, sizeof table);
    generation++;
    memset(id, 0, UVCCI_NCCL_ID_BYTES);
    memcpy(id, &generation, sizeof generation);
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

static int mem_join(void *state, const uint8_t id[UVCCI_NCCL_ID_BYTES]) {
    worker *w = state;
    (void)pthread_mutex_lock(&lock);
    if (memcmp(id, &generation, sizeof generation) != 0)
        fault("an id that was not made");
    table[w->place.rank] = w;
    w->here = true;
    bool all = true;
    for (uint32_t i = 0; i < w->place.count; i++)
        all &= table[i] != NULL;
    w->joined = all;
    (void)pthread_mutex_unlock(&lock);
    return all;
}

static bool mem_reaches(const void *state, const void *at) {
    (void)state;
    return at != NULL;
}

static int mem_begin(void *state, const uvcci_nccl_op *op) {
    worker *w = state;
    (void)pthread_mutex_lock(&lock);
    if (!w->joined)
        fault("an operation before joining");
    if (w->count == QUEUE)
        fault("too many operations");
    w->queue[(w->first + w->count++) % QUEUE] = (running){.op = *op};
    if (trap.armed && trap.rank == w->place.rank) {
        w->fails = !trap.hang;
        w->hangs = trap.hang;
        trap.armed = false;
    }
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

static int mem_begun(void *state, void **mark) {
    worker *w = state;
    (void)pthread_mutex_lock(&lock);
    *mark = &w->queue[(w->first + w->count - 1) % QUEUE];
    (void)pthread_mutex_unlock(&lock);
    return 1;
}

/* ---- what is at the heads of all members' streams ---- */

static running *head(uint32_t rank) {
    worker *w = table[rank];
    return w == NULL || w->count == 0 || w->hangs || w->fails ? NULL : &w->queue[w->first];
}

static void pop(uint32_t rank) {
    worker *w = table[rank];
    w->queue[w->first].over = true;
    w->first = (w->first + 1) % QUEUE;
    w->count--;
}

static uint32_t members(const worker *w, const uvcci_nccl_op *op, uint32_t rank[WORKERS]) {
    const uint32_t t = w->place.tp_rank, s = w->place.stage, r = w->place.replica;
    const uint32_t T = w->place.tp_ranks, S = w->place.stages, R = w->place.replicas;
    uint32_t n = 0;
    if (op->op == UVCC_COLLECTIVE_SEND || op->op == UVCC_COLLECTIVE_RECV) {
        rank[op->op == UVCC_COLLECTIVE_SEND ? 0 : 1] = w->place.rank;
        rank[op->op == UVCC_COLLECTIVE_SEND ? 1 : 0] = op->peer;
        return 2;
    }
    for (uint32_t a = 0; a < R; a++)
        for (uint32_t b = 0; b < S; b++)
            for (uint32_t c = 0; c < T; c++) {
                const bool in[] = {[UVCC_GROUP_TP] = a == r && b == s,
                                   [UVCC_GROUP_PP] = a == r && c == t,
                                   [UVCC_GROUP_DP] = b == s && c == t,
                                   [UVCC_GROUP_STAGE] = b == s};
                if (in[op->group])
                    rank[n++] = (a * S + b) * T + c;
            }
    return n;
}

static void carry(running *const at[WORKERS], uint32_t n, unsigned which) {
    const uvcci_nccl_op *first = &at[0]->op;
    const size_t slice = first->elems / n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t *out = which == 0 ? at[i]->op.out.lo : at[i]->op.out.hi;
        for (uint32_t j = 0; j < n; j++) {
            const uint64_t *in = which == 0 ? at[j]->op.in.lo : at[j]->op.in.hi;
            if (first->op == UVCC_COLLECTIVE_ALL_GATHER) {
                memcpy(out + j * slice, in, slice * sizeof *out);
                continue;
            }
            for (size_t e = 0; e < slice; e++)
                out[e] = (j == 0 ? 0 : out[e]) + in[i * slice + e];
        }
    }
}

/* All members must be at one operation when their streams come to it. */
static void meet(const worker *w) {
    uint32_t rank[WORKERS];
    running *at[WORKERS], *mine = head(w->place.rank);
    if (mine == NULL)
        return;
    const uint32_t n = members(w, &mine->op, rank);
    const bool pair = mine->op.op == UVCC_COLLECTIVE_SEND || mine->op.op == UVCC_COLLECTIVE_RECV;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = head(rank[i]);
        if (at[i] == NULL)
            return;
        const bool theirs =
            at[i]->op.op == UVCC_COLLECTIVE_SEND || at[i]->op.op == UVCC_COLLECTIVE_RECV;
        if (theirs != pair || (!pair && at[i]->op.group != mine->op.group))
            return; /* it is at another group's, which must end without this one */
        if (pair && at[i]->op.peer != rank[1 - i])
            return;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (at[i]->op.elems != mine->op.elems || (!pair && at[i]->op.op != mine->op.op) ||
            (pair && at[i]->op.op != (i == 0 ? UVCC_COLLECTIVE_SEND : UVCC_COLLECTIVE_RECV)))
            fault("members of a group are at different operations");
    }
    if (mine->op.elems != 0 && pair) {
        memcpy(at[1]->op.out.lo, at[0]->op.in.lo, mine->op.elems * sizeof(uint64_t));
        if (at[0]->op.in.hi != NULL)
            memcpy(at[1]->op.out.hi, at[0]->op.in.hi, mine->op.elems * sizeof(uint64_t));
    } else if (mine->op.elems != 0) {
        carry(at, n, 0);
        if (mine->op.in.hi != NULL)
            carry(at, n, 1);
    }
    for (uint32_t i = 0; i < n; i++)
        pop(rank[i]);
}

static int mem_over(void *state, void *mark) {
    worker *w = state;
    const running *r = mark;
    (void)pthread_mutex_lock(&lock);
    if (!r->over && !w->fails)
        meet(w);
    const int rc = w->fails ? -1 : r->over;
    (void)pthread_mutex_unlock(&lock);
    return rc;
}

static int mem_check(void *state) {
    (void)state;
    return 0;
}

static void leave(worker *w) {
    (void)pthread_mutex_lock(&lock);
    if (table[w->place.rank] == w)
        table[w->place.rank] = NULL;
    w->aborted = true;
    (void)pthread_mutex_unlock(&lock);
}

static void mem_abort(void *state) {
    leave(state);
}

static int mem_stopped(void *state) {
    const worker *w = state;
    return w->aborted;
}

static void mem_drop_mark(void *state, void *mark) {
    (void)state;
    (void)mark;
}

static void mem_close(void *state, bool together) {
    worker *w = state;
    if (together && w->count != 0)
        fault("an end with operations under way");
    leave(w);
    free(w);
}

static const char *mem_trouble(const void *state) {
    (void)state;
    return "the device is on fire";
}

static const uvcci_nccl_back_end memory = {.open = mem_open,
                                           .name = mem_name,
                                           .make_id = mem_make_id,
                                           .join = mem_join,
                                           .reaches = mem_reaches,
                                           .begin = mem_begin,
                                           .begun = mem_begun,
                                           .over = mem_over,
                                           .check = mem_check,
                                           .abort = mem_abort,
                                           .stopped = mem_stopped,
                                           .drop_mark = mem_drop_mark,
                                           .close = mem_close,
                                           .trouble = mem_trouble};
const uvcci_nccl_back_end *const lab_back_end = &memory;
