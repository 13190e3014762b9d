/* SPDX-License-Identifier: Apache-2.0 */
/* What two replicas exchange in a training step of 12 layers of width 768, by libuvcc-nccl: replica
 * r of all three parties is on card r, and each party has communicators of its own. The gradients
 * of a layer are summed (REDUCE_SCATTER of one component), then its weights come together
 * (ALL_GATHER of both). Of one party alone, and of the three at a time. Of several rounds the
 * median; from the first submission to the last completion, as a host sees it.
 *
 * A line of JSON for each; skipped below two cards. */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvcc/host.h>
#include <uvcc/nccl.h>
#include <uvcc/program.h>

enum { PARTIES = 3, REPLICAS = 2, ROUNDS = 15, WARM = 3, SKIPPED = 77, OPS_MAX = 64 };

typedef struct party {
    uvcc_nccl *of[REPLICAS];
    pthread_mutex_t making;
} party;

typedef struct worker {
    party *of;
    uint32_t rank;
} worker;

static party parties[PARTIES];
static worker workers[PARTIES][REPLICAS];
static char card[256];

static double seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(bool ok, const char *what) {
    char why[UVCC_NCCL_WHY_BYTES] = "";
    if (ok)
        return;
    for (unsigned p = 0; p < PARTIES && *why == '\0'; p++)
        (void)uvcc_nccl_why(parties[p].of[0], NULL, NULL, why);
    (void)fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static int carry(void *user, uint32_t to, const void *bytes, size_t len) {
    const worker *w = user;
    (void)pthread_mutex_lock(&w->of->making);
    uvcc_nccl *other = w->of->of[to];
    (void)pthread_mutex_unlock(&w->of->making);
    return uvcc_nccl_heard(other, w->rank, bytes, len);
}

static void say(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    (void)level;
    (void)fprintf(stderr, "%s\n", line);
}

static void open_party(unsigned p) {
    (void)pthread_mutex_init(&parties[p].making, NULL);
    (void)pthread_mutex_lock(&parties[p].making);
    for (uint32_t r = 0; r < REPLICAS; r++) {
        workers[p][r] = (worker){&parties[p], r};
        const uvcc_nccl_config cfg = {.size = sizeof cfg,
                                      .alloc = uvcc_host_allocator(),
                                      .log = {say, NULL},
                                      .replicas = REPLICAS,
                                      .stages = 1,
                                      .tp_ranks = 1,
                                      .local_rank = r,
                                      .device = r,
                                      .send = carry,
                                      .send_user = &workers[p][r]};
        must(uvcc_nccl_new(&parties[p].of[r], &cfg) == 0, "no object");
    }
    (void)pthread_mutex_unlock(&parties[p].making);
}

/* ---- operations ---- */

typedef struct operations {
    uvcc_task task[PARTIES][REPLICAS][OPS_MAX];
    uvcc_job job[PARTIES][REPLICAS][OPS_MAX];
    unsigned count;
    double bytes; /* that a replica of a party gives */
} operations;

static operations ops;

static uint64_t *take(uint32_t device, uint64_t words) {
    void *at = NULL;
    must(cudaSetDevice((int)device) == cudaSuccess &&
             cudaMalloc(&at, words * sizeof(uint64_t)) == cudaSuccess &&
             cudaMemset(at, 1, words * sizeof(uint64_t)) == cudaSuccess,
         "memory of the device");
    return at;
}

static void add(uint8_t op, uint64_t elems, bool additive) {
    const unsigned i = ops.count++;
    const uint64_t part = elems / REPLICAS;
    const bool sum = op == UVCC_COLLECTIVE_REDUCE_SCATTER;
    ops.bytes += (additive ? 8.0 : 16.0) * (double)(sum ? elems : part);
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t r = 0; r < REPLICAS; r++) {
            uvcc_task *t = &ops.task[p][r][i];
            t->kind = UVCC_TASK_COLLECTIVE;
            t->u.collective.op = op;
            t->u.collective.group = UVCC_GROUP_DP;
            t->u.collective.phase = UVCC_UPD;
            t->u.collective.k = (uint16_t)i;
            t->u.collective.elems = elems;
            t->u.collective.in.lo = take(r, sum ? elems : part);
            t->u.collective.out.lo = take(r, sum ? part : elems);
            if (!additive) {
                t->u.collective.in.hi = take(r, sum ? elems : part);
                t->u.collective.out.hi = take(r, sum ? part : elems);
            }
            ops.job[p][r][i] =
                (uvcc_job){.id = i, .tasks = t, .count = 1, .plane = UVCC_PLANE_LOCAL};
        }
}

static void drop_operations(void) {
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t r = 0; r < REPLICAS; r++)
            for (unsigned i = 0; i < ops.count; i++) {
                const uvcc_task *t = &ops.task[p][r][i];
                (void)cudaFree(t->u.collective.in.lo);
                (void)cudaFree(t->u.collective.in.hi);
                (void)cudaFree(t->u.collective.out.lo);
                (void)cudaFree(t->u.collective.out.hi);
            }
    memset(&ops, 0, sizeof ops);
}

static double one_round(unsigned first, unsigned count, uint32_t step) {
    unsigned left = count * REPLICAS * ops.count;
    const double from = seconds();
    for (unsigned i = 0; i < ops.count; i++)
        for (unsigned p = first; p < first + count; p++)
            for (uint32_t r = 0; r < REPLICAS; r++) {
                ops.task[p][r][i].u.collective.step = step;
                must(uvcc_nccl_submit(parties[p].of[r], &ops.job[p][r][i]) == 0, "submit");
            }
    while (left != 0)
        for (unsigned p = first; p < first + count; p++)
            for (uint32_t r = 0; r < REPLICAS; r++) {
                uvcc_completion c;
                if (uvcc_nccl_poll(parties[p].of[r], &c) != 1)
                    continue;
                must(c.status == 0, "an operation");
                left--;
            }
    return seconds() - from;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *what, uint64_t elems) {
    static uint32_t step;
    for (unsigned at_a_time = 1; at_a_time <= PARTIES; at_a_time += PARTIES - 1) {
        double took[ROUNDS];
        for (int i = -WARM; i < ROUNDS; i++) {
            const double s = one_round(0, at_a_time, ++step);
            if (i >= 0)
                took[i] = s;
        }
        qsort(took, ROUNDS, sizeof took[0], by_size);
        const double s = took[ROUNDS / 2];
        (void)printf("{\"bench\": \"nccl\", \"card\": \"%s\", \"cards\": %d, \"what\": \"%s\", "
                     "\"elems\": %llu, \"operations\": %u, \"parties\": %u, \"ms\": %.3f, "
                     "\"least_ms\": %.3f, \"gb_s_each_way\": %.1f}\n",
                     card, REPLICAS, what, (unsigned long long)elems, ops.count, at_a_time, 1e3 * s,
                     1e3 * took[0], 1e-9 * ops.bytes * at_a_time / s * (REPLICAS - 1) / REPLICAS);
        (void)fflush(stdout);
    }
    drop_operations();
}

static void single(const char *what, uint8_t op, uint64_t elems, bool additive) {
    add(op, elems, additive);
    measure(what, elems);
}

int main(void) {
    struct cudaDeviceProp prop;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count < REPLICAS) {
        (void)printf("skipped: it takes two CUDA devices\n");
        return SKIPPED;
    }
    if (cudaGetDeviceProperties(&prop, 0) == cudaSuccess)
        (void)snprintf(card, sizeof card, "%s", prop.name);
    for (unsigned p = 0; p < PARTIES; p++)
        open_party(p);
    const uint64_t wide = 768, layer = 12 * wide * wide, bytes = 256 * wide;
    for (uint64_t elems = 2; elems <= 2048; elems *= 1024)
        single("REDUCE_SCATTER, one component", UVCC_COLLECTIVE_REDUCE_SCATTER, elems, true);
    for (uint64_t elems = wide * wide; elems <= 16 * wide * wide; elems *= 4)
        single("REDUCE_SCATTER, one component", UVCC_COLLECTIVE_REDUCE_SCATTER, elems, true);
    single("ALL_GATHER, both components", UVCC_COLLECTIVE_ALL_GATHER, layer, false);
    single("REDUCE_SCATTER, one component", UVCC_COLLECTIVE_REDUCE_SCATTER, 12 * layer, true);
    for (unsigned i = 0; i < 12; i++) {
        add(UVCC_COLLECTIVE_REDUCE_SCATTER, layer, true);
        add(UVCC_COLLECTIVE_ALL_GATHER, layer, false);
    }
    for (unsigned i = 0; i < 2; i++) { /* embedding and logits */
        add(UVCC_COLLECTIVE_REDUCE_SCATTER, bytes, true);
        add(UVCC_COLLECTIVE_ALL_GATHER, bytes, false);
    }
    measure("a step of 12 layers of width 768", 12 * layer + 2 * bytes);
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t r = 0; r < REPLICAS; r++)
            uvcc_nccl_close(parties[p].of[r]);
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t r = 0; r < REPLICAS; r++)
            uvcc_nccl_free(parties[p].of[r]);
    return 0;
}
