/* SPDX-License-Identifier: Apache-2.0 */
/* bench_program.c - how long programs as large as models take to build, to be looked at and to be
 * loaded, and how much memory; and what a step of one block takes in long contexts, kept and
 * computed again. One JSON line for each size; of times, medians of an odd number of runs. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvcc/session.h>
#include <uvcc/transformer.h>

enum { RUNS = 5, PHASES = 4 };

/* An allocator that counts. */
typedef struct meter {
    size_t now, peak;
} meter;

static void *take(void *user, size_t bytes, uvcc_mem_class cls) {
    meter *m = user;
    (void)cls;
    void *p = malloc(bytes != 0 ? bytes : 1);
    if (p == NULL)
        abort();
    m->now += bytes;
    m->peak = m->now > m->peak ? m->now : m->peak;
    return p;
}

static void give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    meter *m = user;
    (void)cls;
    if (p != NULL)
        m->now -= bytes;
    free(p);
}

static int fill(void *user, void *out, size_t bytes) {
    (void)user;
    memset(out, 1, bytes);
    return 0;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void must(int rc, const char *what) {
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "bench_program: %s: %s\n", what, uvcc_error_text(rc));
    exit(1);
}

static void load(const uvcc_program *p, const uvcc_allocator *al) {
    uvcc_config cfg;
    uvcc_session *s;
    must(uvcc_config_default(&cfg, sizeof cfg), "config");
    cfg.alloc = *al;
    cfg.random = (uvcc_random){.fill = fill};
    memset(cfg.identity.pair_secret, 1, sizeof cfg.identity.pair_secret);
    memset(cfg.identity.pair_secret[1], 2, sizeof cfg.identity.pair_secret[1]);
    memset(cfg.identity.sid_job, 3, sizeof cfg.identity.sid_job);
    memset(cfg.identity.sign_seed, 4, sizeof cfg.identity.sign_seed);
    must(uvcc_session_new(&s, &cfg), "session");
    must(uvcc_session_load_program(s, p), "load");
    uvcc_session_free(s);
}

typedef struct size {
    uint32_t layers, microbatches;
} size;

static void measure(size z) {
    uvcc_transformer_config c;
    const uvcc_transformer_worker w = {0, 0, 0};
    double time[PHASES][RUNS];
    uint64_t bound = 0;
    uint32_t rounds = 0, ops = 0, tensors = 0;
    size_t built = 0, loaded = 0;
    must(uvcc_transformer_default(&c, sizeof c), "options");
    c.layers = z.layers;
    c.batch = c.microbatches = z.microbatches;
    for (unsigned run = 0; run < RUNS; run++) {
        meter m = {0};
        const uvcc_allocator al = {.alloc = take, .free = give, .user = &m};
        uvcc_program *p = NULL;
        double at[PHASES + 1] = {now()};
        must(uvcc_transformer_program(&p, &c, &w, &al, NULL, 0), "program");
        built = m.peak;
        at[1] = now();
        must(uvcc_program_memory(p, 0, &bound), "memory");
        at[2] = now();
        must(uvcc_program_rounds(p, 0, NULL, &rounds), "rounds");
        at[3] = now();
        m.peak = m.now;
        load(p, &al);
        loaded = m.peak;
        at[4] = now();
        for (unsigned k = 0; k < PHASES; k++)
            time[k][run] = at[k + 1] - at[k];
        ops = uvcc_program_op_count(p, 0);
        tensors = uvcc_program_tensor_count(p);
        uvcc_program_free(p);
    }
    for (unsigned k = 0; k < PHASES; k++)
        qsort(time[k], RUNS, sizeof time[k][0], by_size);
    printf("{\"bench\": \"program\", \"layers\": %u, \"microbatches\": %u, \"ops\": %u, "
           "\"tensors\": %u, \"build_s\": %.3f, \"memory_s\": %.3f, \"rounds_s\": %.3f, "
           "\"load_s\": %.3f, \"build_bytes\": %zu, \"load_bytes\": %zu, \"bound_bytes\": %" PRIu64
           ", \"rounds\": %u}\n",
           z.layers, z.microbatches, ops, tensors, time[0][RUNS / 2], time[1][RUNS / 2],
           time[2][RUNS / 2], time[3][RUNS / 2], built, loaded, bound, rounds);
    (void)fflush(stdout);
}

/* A step of one block of width 768, 12 heads, on one sequence: bytes over all parties. */
static void measure_context(uint32_t context, bool recompute, bool exact) {
    uvcc_transformer_config c;
    const uvcc_transformer_worker w = {0, 0, 0};
    meter m = {0};
    const uvcc_allocator al = {.alloc = take, .free = give, .user = &m};
    uint64_t tensors = 0, online = 0, keys = 0;
    uint32_t rounds = 0;
    uvcc_program *p = NULL;
    must(uvcc_transformer_default(&c, sizeof c), "options");
    c.context = context;
    c.dim = 768;
    c.heads = 12;
    c.layers = c.batch = 1;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.clip = 0;
    c.recompute = recompute;
    c.exact = exact;
    c.truncation = exact ? UVCC_TRUNC_EXACT : UVCC_TRUNC_STOCHASTIC;
    must(uvcc_transformer_program(&p, &c, &w, &al, NULL, 0), "program");
    must(uvcc_program_memory(p, 0, &tensors), "memory");
    must(uvcc_program_rounds(p, 0, NULL, &rounds), "rounds");
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        uvcc_op_cost cost;
        must(uvcc_program_cost(p, 0, i, &cost), "cost");
        online += cost.online_bytes;
        keys += cost.preprocessing_bytes;
    }
    uvcc_program_free(p);
    printf("{\"bench\": \"context\", \"context\": %u, \"recompute\": %s, \"exact\": %s, "
           "\"tensor_bytes\": %" PRIu64 ", \"online_bytes\": %" PRIu64 ", \"key_bytes\": %" PRIu64
           ", \"rounds\": %u}\n",
           context, recompute ? "true" : "false", exact ? "true" : "false", tensors, online, keys,
           rounds);
    (void)fflush(stdout);
}

int main(void) {
    static const size sizes[] = {{12, 16}, {48, 64}, {96, 64}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        measure(sizes[i]);
    for (unsigned exact = 0; exact < 2; exact++)
        for (uint32_t context = 512; context <= 4096; context *= 2)
            for (unsigned recompute = 0; recompute < 2; recompute++)
                measure_context(context, recompute, exact);
    return 0;
}
