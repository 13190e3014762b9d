/* SPDX-License-Identifier: Apache-2.0 */
/* A back end of uvcc_nccl in memory of this process: workers meet in a table, as NCCL's do, by the
 * order of their operations alone. Where members of a group come to different operations NCCL would
 * hang or mix buffers: here the test ends. A device has one queue for the workers of all parties,
 * and what is in it is over when all of its members are at the heads of theirs: so orders in which
 * workers, or parties, would wait for each other for ever show, and end the test too. */
#include "lab.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 16, DEVICES = 8 };

typedef struct worker worker;

typedef struct running {
    struct running *next; /* in its device's queue */
    worker *of;
    uvcci_nccl_op op;
    bool over;
} running;

typedef struct party {
    struct party *next;
    unsigned number;
    worker *table[WORKERS];
} party;

struct worker {
    uvcci_nccl_place place;
    uint32_t device;
    party *party;     /* NULL: it has not begun to join */
    running *pending; /* it is being begun */
    unsigned looks;   /* until it has */
    bool joined, aborted, fails, hangs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static party *parties;
static running *queue[DEVICES];
static uint64_t looks = 1;
static unsigned waits_for = DEVICES; /* a call that holds launches up; DEVICES: there is none */
static struct {
    uint32_t rank;
    lab_fault fault;
    bool armed;
    worker *held;
} trap;

uint32_t lab_devices(const char **why) {
    *why = NULL;
    return DEVICES;
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

bool lab_break(uint32_t rank, lab_fault fault) {
    (void)pthread_mutex_lock(&lock);
    trap.rank = rank;
    trap.fault = fault;
    trap.armed = true;
    (void)pthread_mutex_unlock(&lock);
    return true;
}

unsigned lab_await_held(void) {
    (void)pthread_mutex_lock(&lock);
    while (trap.held == NULL)
        (void)pthread_cond_wait(&news, &lock);
    const unsigned number = trap.held->party->number;
    (void)pthread_mutex_unlock(&lock);
    return number;
}

void lab_let_begin(void) {
    (void)pthread_mutex_lock(&lock);
    trap.held = NULL;
    (void)pthread_mutex_unlock(&lock);
}

static void fault(const char *what) {
    (void)fprintf(stderr, "memory.c: %s\n", what);
    abort();
}

void lab_memory_call(uint32_t device) {
    (void)pthread_mutex_lock(&lock);
    waits_for = device;
    while (queue[device] != NULL)
        (void)pthread_cond_wait(&news, &lock);
    waits_for = DEVICES;
    (void)pthread_mutex_unlock(&lock);
}

static int mem_open(void **state, const uvcci_nccl_place *place, uint32_t device,
                    char why[UVCCI_NCCL_TEXT_BYTES]) {
    if (device >= DEVICES) {
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
    party *p = calloc(1, sizeof *p);
    (void)state;
    (void)pthread_mutex_lock(&lock);
    p->number = parties != NULL ? parties->number + 1 : 1;
    p->next = parties;
    parties = p;
    memset(id, 0, UVCCI_NCCL_ID_BYTES);
    memcpy(id, &p->number, sizeof p->number);
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

static int mem_join(void *state, const uint8_t id[UVCCI_NCCL_ID_BYTES]) {
    worker *w = state;
    unsigned number;
    memcpy(&number, id, sizeof number);
    (void)pthread_mutex_lock(&lock);
    party *p = parties;
    while (p != NULL && p->number != number)
        p = p->next;
    if (p == NULL)
        fault("an id that was not made");
    w->party = p;
    p->table[w->place.rank] = w;
    bool all = true;
    for (uint32_t i = 0; i < w->place.count; i++)
        all &= p->table[i] != NULL;
    w->joined = all;
    (void)pthread_mutex_unlock(&lock);
    return all;
}

static bool mem_reaches(const void *state, const void *at) {
    (void)state;
    return at != NULL;
}

/* It comes into the device's queue some looks later. */
static int mem_begin(void *state, const uvcci_nccl_op *op) {
    worker *w = state;
    running *r = calloc(1, sizeof *r);
    (void)pthread_mutex_lock(&lock);
    if (!w->joined)
        fault("an operation before joining");
    if (w->pending != NULL)
        fault("two operations begin at once");
    *r = (running){.of = w, .op = *op};
    w->pending = r;
    looks = looks * 6364136223846793005u + 1442695040888963407u;
    w->looks = (unsigned)(looks >> 60);
    if (trap.armed && trap.rank == w->place.rank) {
        w->fails = trap.fault == LAB_FAILS;
        w->hangs = trap.fault == LAB_HANGS;
        if (trap.fault == LAB_HELD)
            trap.held = w;
        (void)pthread_cond_broadcast(&news);
        trap.armed = false;
    }
    (void)pthread_mutex_unlock(&lock);
    return 0;
}

static int mem_begun(void *state, void **mark) {
    worker *w = state;
    (void)pthread_mutex_lock(&lock);
    const bool begun = trap.held != w && w->looks == 0 && waits_for == DEVICES;
    if (begun) {
        running **at = &queue[w->device];
        while (*at != NULL)
            at = &(*at)->next;
        *at = w->pending;
        *mark = w->pending;
        w->pending = NULL;
    } else if (w->looks != 0) {
        w->looks--;
    }
    (void)pthread_mutex_unlock(&lock);
    return begun;
}

/* ---- what is at the heads of all members' queues ---- */

static void pop(running *r) {
    queue[r->of->device] = r->next;
    (void)pthread_cond_broadcast(&news);
    r->over = true;
}

static bool has_any(const worker *w) {
    const running *r = queue[w->device];
    while (r != NULL && r->of != w)
        r = r->next;
    return r != NULL;
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

static bool is_pair(const running *r) {
    return r->op.op == UVCC_COLLECTIVE_SEND || r->op.op == UVCC_COLLECTIVE_RECV;
}

/* Whether all members of what is at a device's head are at it, in `at`; else the devices where one
 * is behind something else, as bits. */
static bool all_at_head(const running *mine, running *at[WORKERS], uint32_t *n, unsigned *behind) {
    uint32_t rank[WORKERS];
    bool all = true;
    *behind = 0;
    *n = members(mine->of, &mine->op, rank);
    for (uint32_t i = 0; i < *n; i++) {
        const worker *w = mine->of->party->table[rank[i]];
        at[i] = w == NULL || w->fails || w->hangs ? NULL : queue[w->device];
        if (at[i] != NULL && at[i]->of == w && is_pair(at[i]) == is_pair(mine) &&
            (is_pair(mine) ? at[i]->op.peer == rank[1 - i] : at[i]->op.group == mine->op.group))
            continue;
        all = false;
        if (at[i] != NULL && has_any(w))
            *behind |= 1u << w->device;
        else if (w != NULL && !w->fails && !w->hangs && mine->of->device == waits_for)
            fault("a call waits for an operation, and keeps another member from it");
    }
    return all;
}

/* A device waits for those where a member of its head is behind something else. */
static void look_for_circle(uint32_t device, unsigned before) {
    running *at[WORKERS];
    uint32_t n;
    unsigned behind;
    if ((before >> device & 1) != 0)
        fault("devices wait for each other for ever");
    if (queue[device] == NULL || all_at_head(queue[device], at, &n, &behind))
        return;
    for (uint32_t i = 0; i < DEVICES; i++)
        if ((behind >> i & 1) != 0)
            look_for_circle(i, before | 1u << device);
}

/* All members must be at one operation when their queues come to it. */
static void meet(const running *mine) {
    running *at[WORKERS];
    uint32_t n;
    unsigned behind;
    if (queue[mine->of->device] != mine)
        return;
    if (!all_at_head(mine, at, &n, &behind)) {
        look_for_circle(mine->of->device, 0);
        return;
    }
    const bool pair = is_pair(mine);
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
        pop(at[i]);
}

static int mem_over(void *state, void *mark) {
    const worker *w = state;
    running *r = mark;
    (void)pthread_mutex_lock(&lock);
    if (!r->over && !w->fails)
        meet(r);
    const int rc = w->fails ? -1 : r->over;
    (void)pthread_mutex_unlock(&lock);
    if (rc == 1)
        free(r);
    return rc;
}

static int mem_check(void *state) {
    (void)state;
    return 0;
}

static void leave(worker *w) {
    (void)pthread_mutex_lock(&lock);
    if (w->party != NULL)
        w->party->table[w->place.rank] = NULL;
    for (running **at = &queue[w->device]; *at != NULL;)
        if ((*at)->of == w)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    (void)pthread_cond_broadcast(&news);
    if (trap.held == w)
        trap.held = NULL;
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
    free(mark);
}

static void mem_close(void *state, bool together) {
    worker *w = state;
    (void)pthread_mutex_lock(&lock);
    if (together && has_any(w))
        fault("an end with operations under way");
    (void)pthread_mutex_unlock(&lock);
    leave(w);
    free(w->pending);
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
