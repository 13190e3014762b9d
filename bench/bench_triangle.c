/* SPDX-License-Identifier: Apache-2.0 */
/* bench_triangle.c - three parties on this machine: sessions over the in-memory network, sealed
 * links, one compute thread each, everything from the first message of a step to its last,
 * preprocessing included. Operands are shares already there; nothing is opened.
 *
 * One JSON object per line. Each variant runs several steps; the first, which finds cold memory, is
 * left out, the median of the others is given. "bytes" are those of all parties. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uvcc/loopback.h>
#include <uvcc/nonlinear.h>
#include <uvcc/uvcc.h>

enum { STEPS = 6, PIECE = 1 << 15 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int rc, const char *what) {
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_triangle: %s: %s\n", what, uvcc_error_text(rc));
    exit(1);
}

/* ---- programs ---- */

typedef struct workload {
    const char *name;
    uint64_t work; /* elements; multiplications of one product for GEMM */
    bool audit;
    uvcc_program *p;
} workload;

static uint32_t add_tensor(uvcc_program *p, const char *stem, unsigned i, uvcc_tensor_desc d) {
    char name[64];
    snprintf(name, sizeof name, "%s%u", stem, i);
    d.name = name;
    d.in_buffer_of = UVCC_NO_TENSOR;
    int rc = uvcc_program_tensor(p, &d);
    check(rc, "tensor");
    return (uint32_t)rc;
}

static uvcc_program *begin(void) {
    uvcc_program *p;
    uvcc_allocator al = uvcc_host_allocator();
    check(uvcc_program_new(&p, &al), "program");
    check(uvcc_program_entry(p, "run"), "entry");
    return p;
}

static uvcc_program *end(uvcc_program *p) {
    char why[256];
    int rc = uvcc_program_finish(p, why, sizeof why);
    if (rc != 0) {
        fprintf(stderr, "bench_triangle: %s\n", why);
        exit(1);
    }
    return p;
}

/* x of n elements cut into ops of PIECE each, so that keys, messages and computing overlap. */
static uvcc_program *elements(uint32_t n, uvcc_op_desc op, uint8_t bits, uint8_t scale) {
    uvcc_program *p = begin();
    for (unsigned i = 0; n != 0; i++) {
        const uint32_t piece = n < PIECE ? n : PIECE;
        uvcc_tensor_desc d = {.rows = 1, .cols = piece, .bits = bits, .scale = scale};
        op.in[0] = op.in[1] = add_tensor(p, "x", i, d);
        d.lifetime = UVCC_TRANSIENT;
        d.bits = op.opcode == UVCC_OP_ELEM_MUL ? (uint8_t)(2 * bits - op.shift) : bits;
        d.scale = op.opcode == UVCC_OP_ELEM_MUL ? (uint8_t)(2 * scale - op.shift) : scale;
        op.out[0] = add_tensor(p, "y", i, d);
        d.bits = 1;
        d.scale = 0;
        if (op.out_count == 2)
            op.out[1] = add_tensor(p, "d", i, d);
        op.k = (uint16_t)i;
        check(uvcc_program_op(p, &op), "op");
        n -= piece;
    }
    return end(p);
}

static uvcc_program *product(uint32_t n, uvcc_truncation truncation) {
    uvcc_program *p = begin();
    uvcc_tensor_desc d = {.rows = n, .cols = n, .bits = 24, .scale = 16};
    uint32_t a = add_tensor(p, "a", 0, d), b = add_tensor(p, "b", 0, d);
    d.lifetime = UVCC_TRANSIENT;
    d.bits = 45;
    uvcc_op_desc op = {.opcode = UVCC_OP_GEMM_SS,
                       .in_count = 2,
                       .out_count = 1,
                       .in = {a, b},
                       .shift = 16,
                       .truncation = (uint8_t)truncation};
    op.out[0] = add_tensor(p, "c", 0, d);
    check(uvcc_program_op(p, &op), "op");
    return end(p);
}

static uvcc_program *nonlinear(uvcc_nonlinear what, uint32_t rows, uint32_t cols, uint8_t bits) {
    uvcc_program *p = begin();
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_nonlinear_options o = {.size = sizeof o, .scale = 16, .in_bits = bits, .cols = cols};
    uint16_t k = 0;
    const uint32_t most = PIECE / cols;
    for (unsigned i = 0; rows != 0; i++) {
        const uint32_t piece = rows < most ? rows : most;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "t%u.", i);
        uvcc_tensor_desc in = {.rows = piece, .cols = cols, .bits = bits, .scale = 16}, out[4];
        uint32_t x = add_tensor(p, "x", i, in), y[4];
        uvcc_emit e = {.program = p, .k = k, .prefix = prefix, .alloc = &al};
        int n = uvcc_nonlinear_output(what, &o, &in, out);
        check(n, "nonlinear");
        for (int j = 0; j < n; j++)
            y[j] = add_tensor(p, j == 0 ? "y" : "z", i, out[j]);
        check(uvcc_emit_nonlinear(&e, what, &o, &x, y), "nonlinear");
        k = e.k;
        rows -= piece;
    }
    return end(p);
}

/* ---- running ---- */

typedef struct triangle {
    uvcc_loopback *net;
    uvcc_session *s[3];
    uvcc_cpu *cpu[3];
    uvcc_seeded_random random[3];
    unsigned finished[3], ready;
} triangle;

static bool turn(triangle *t) {
    int rc = uvcc_loopback_drive(t->net, t->s, t->cpu, 3);
    check(rc, "drive");
    uvcc_event e;
    for (unsigned i = 0; i < 3; i++)
        while (uvcc_session_poll_event(t->s[i], &e) == 1) {
            t->finished[i] += e.kind == UVCC_EVENT_STEP_FINISHED;
            t->ready += e.kind == UVCC_EVENT_READY;
            if (e.kind == UVCC_EVENT_ABORTED) {
                fprintf(stderr, "bench_triangle: aborted: %s\n", e.text);
                exit(1);
            }
        }
    return rc != 0;
}

static void open_triangle(triangle *t, const workload *w) {
    uvcc_allocator al = uvcc_host_allocator();
    memset(t, 0, sizeof *t);
    check(uvcc_loopback_new(&t->net, &al, 3, false, 1), "network");
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_config c;
        check(uvcc_config_default(&c, sizeof c), "config");
        c.alloc = al;
        c.random = uvcc_seeded(&t->random[i], 1, i);
        c.identity.party = i;
        c.checks.audit_off = !w->audit;
        memset(c.identity.sid_job, 5, 32);
        memset(c.identity.sign_seed, 0x40 + i, 32);
        for (uint8_t q = 0; q < 3; q++)
            memset(c.identity.pair_secret[q], 0x10 << ((i + q) % 3) | 1, 32);
        check(uvcc_session_new(&t->s[i], &c), "session");
        check(uvcc_session_load_program(t->s[i], w->p), "load");
        for (uint32_t k = 0; k < uvcc_program_tensor_count(w->p); k++) {
            const uvcc_tensor_desc *d = uvcc_program_tensor_at(w->p, k);
            if (d->lifetime != UVCC_PERSIST)
                continue;
            const size_t n = (size_t)d->rows * d->cols;
            int64_t *v = malloc(n * sizeof *v);
            for (size_t j = 0; v != NULL && j < n; j++)
                v[j] = (int64_t)(j * 2654435761u % (1u << 16)) + 4096;
            check(v != NULL ? uvcc_session_set_public(t->s[i], k, v) : UVCC_ERR_NOMEM, "values");
            free(v);
        }
        uvcc_cpu_config x = {.size = sizeof x, .alloc = al, .mode = UVCC_CPU_THREADS, .threads = 1};
        check(uvcc_cpu_new(&t->cpu[i], &x), "executor");
        check(uvcc_session_start(t->s[i], 0), "start");
    }
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t bytes_of(const triangle *t, bool keys) {
    uint64_t sum = 0;
    uvcc_session_stats st;
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_get_stats(t->s[i], &st);
        sum += keys ? st.bytes_preprocessing : st.bytes_online;
    }
    return sum;
}

static void measure(workload *w) {
    triangle t;
    double seconds[STEPS];
    uvcc_session_stats st;
    open_triangle(&t, w);
    while (t.ready < 3 && turn(&t))
        continue;
    for (uint32_t step = 0; step < STEPS; step++) {
        const double start = now();
        for (unsigned i = 0; i < 3; i++)
            check(uvcc_session_step(t.s[i], step, 0, uvcc_loopback_now(t.net)), "step");
        while (t.finished[0] + t.finished[1] + t.finished[2] < 3 * (step + 1))
            if (!turn(&t)) {
                fprintf(stderr, "bench_triangle: %s: stuck\n", w->name);
                exit(1);
            }
        seconds[step] = now() - start;
    }
    uvcc_session_get_stats(t.s[0], &st);
    qsort(seconds + 1, STEPS - 1, sizeof *seconds, by_size);
    const double median = seconds[1 + (STEPS - 1) / 2];
    printf("{\"bench\": \"triangle/%s\", \"audit\": %s, \"seconds\": %.4g, \"best\": %.4g, "
           "\"per_second\": %.4g, \"online_bytes\": %.4g, \"key_bytes\": %.4g, \"rounds\": %.4g}\n",
           w->name, w->audit ? "true" : "false", median, seconds[1], (double)w->work / median,
           (double)bytes_of(&t, false) / STEPS, (double)bytes_of(&t, true) / STEPS,
           (double)st.rounds / STEPS);
    fflush(stdout);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_cpu_free(t.cpu[i]);
        uvcc_session_free(t.s[i]);
    }
    uvcc_loopback_free(t.net);
}

static void run(const char *only, const char *name, uint64_t work, uvcc_program *p) {
    for (int audit = 0; audit < 2; audit++)
        if (only == NULL || strstr(name, only) != NULL)
            measure(&(workload){.name = name, .work = work, .audit = audit, .p = p});
    uvcc_program_free(p);
}

int main(int argc, char **argv) {
    uvcc_host_keep_memory();
    const char *only = argc > 1 ? argv[1] : NULL; /* part of a name */
    const uint32_t million = 1000000;
    uvcc_op_desc relu = {.opcode = UVCC_OP_RELU, .in_count = 1, .out_count = 2};
    const uvcc_op_desc mul = {.opcode = UVCC_OP_ELEM_MUL,
                              .in_count = 2,
                              .out_count = 1,
                              .shift = 16,
                              .truncation = UVCC_TRUNC_STOCHASTIC};
    run(only, "relu/fss/31_bits", million, elements(million, relu, 30, 16));
    relu.flags = UVCC_OP_CIRCUIT;
    run(only, "relu/circuit/31_bits", million, elements(million, relu, 30, 16));
    run(only, "relu/circuit/62_bits", million, elements(million, relu, 61, 16));
    run(only, "product/1e6", million, elements(million, mul, 22, 16));
    run(only, "gemm/512", 1ull << 27, product(512, UVCC_TRUNC_STOCHASTIC));
    run(only, "gemm/1024", 1ull << 30, product(1024, UVCC_TRUNC_STOCHASTIC));
    run(only, "gemm/1024 exact", 1ull << 30, product(1024, UVCC_TRUNC_EXACT));
    run(only, "gemm/1024 exact, by DCF", 1ull << 30, product(1024, UVCC_TRUNC_EXACT_DCF));
    static const struct {
        const char *name;
        uvcc_nonlinear what;
        uint8_t bits;
        uint32_t cols;
    } functions[] = {
        {"exp/1e5", UVCC_NL_EXP, 23, 1},
        {"gelu/1e5", UVCC_NL_GELU, 22, 1},
        {"reciprocal/1e5", UVCC_NL_RECIPROCAL, 29, 1},
        {"rsqrt/1e5", UVCC_NL_RSQRT, 29, 1},
        {"softmax/1e5_in_rows_of_128", UVCC_NL_SOFTMAX, 22, 128},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        run(only, functions[i].name, 100000,
            nonlinear(functions[i].what, 100000 / functions[i].cols, functions[i].cols,
                      functions[i].bits));
    return 0;
}
