/* bench_compute.c - what one core computes: AES streams, products mod 2^64, DPF keys, comparisons
 * without keys.
 *
 * One JSON object per line: the median of rounds in which all variants take turns, so that a slow
 * moment of the machine touches them alike. "check" is a word of the results, so that nothing is
 * optimised away. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/circuit.h"
#include "exec/fss.h"
#include "exec/gemm.h"
#include "proto/prg.h"

enum { MAX_VARIANTS = 16, ROUNDS = 15 };
#define ROUND_SECONDS 0.02

typedef struct variant {
    char name[64];
    const char *unit;
    double work; /* of one call, in the unit */
    uint64_t (*call)(const struct variant *v);
    int a, b;
    double seconds[ROUNDS];
    unsigned repeat;
    uint64_t check;
} variant;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_calls(variant *v, unsigned n) {
    const double start = now();
    for (unsigned i = 0; i < n; i++)
        v->check += v->call(v);
    return now() - start;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(variant *v, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        time_calls(&v[i], 1); /* warm */
        const double once = time_calls(&v[i], 1);
        v[i].repeat = once >= ROUND_SECONDS ? 1 : (unsigned)(ROUND_SECONDS / (once + 1e-9)) + 1;
    }
    for (unsigned r = 0; r < ROUNDS; r++)
        for (unsigned i = 0; i < count; i++)
            v[i].seconds[r] = time_calls(&v[i], v[i].repeat) / v[i].repeat;
    for (unsigned i = 0; i < count; i++) {
        qsort(v[i].seconds, ROUNDS, sizeof *v[i].seconds, by_size);
        printf("{\"bench\": \"%s\", \"median\": %.4g, \"best\": %.4g, \"unit\": \"%s\", "
               "\"rounds\": %d, \"check\": \"%016llx\"}\n",
               v[i].name, v[i].work / v[i].seconds[ROUNDS / 2], v[i].work / v[i].seconds[0],
               v[i].unit, ROUNDS, (unsigned long long)v[i].check);
    }
    fflush(stdout);
}

static void *memory(size_t bytes) {
    void *p = NULL;
    if (posix_memalign(&p, 64, bytes) != 0)
        exit(1);
    uint64_t x = 1;
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        memcpy((uint8_t *)p + i, &x, 8);
    }
    return p;
}

/* --- AES-CTR ---------------------------------------------------------------------------------- */

enum { STREAM_WORDS = 4096, SHORT_WORDS = 100 };
static uint64_t *stream;
static uvcci_aes stream_key[4];

static uint64_t call_stream(const variant *v) {
    const uvcci_prg_at at = {1, 2, 3, 0};
    uvcci_prg_fill(&stream_key[v->a], at, 0, stream, (size_t)v->b);
    return stream[0];
}

static void bench_aes(void) {
    static const char *const names[] = {"", "portable", "aesni", "vaes512"};
    variant v[MAX_VARIANTS] = {0};
    unsigned n = 0;
    stream = memory(STREAM_WORDS * 8);
    for (int b = UVCCI_AES_PORTABLE; b <= (int)uvcci_aes_best(); b++) {
        uvcci_aes_init(&stream_key[b], (const uint8_t *)"sixteen byte key", (uvcci_aes_backend)b);
        const int words[] = {STREAM_WORDS, SHORT_WORDS};
        for (unsigned k = 0; k < 2; k++, n++) {
            snprintf(v[n].name, sizeof v[n].name, "aes128_ctr/%s/%d_words", names[b], words[k]);
            v[n].unit = "GB/s";
            v[n].work = 8e-9 * words[k];
            v[n].call = call_stream;
            v[n].a = b;
            v[n].b = words[k];
        }
    }
    measure(v, n);
    free(stream);
}

/* --- Products --------------------------------------------------------------------------------- */

static uint64_t *gemm_x, *gemm_y, *gemm_z, *gemm_scratch;

static uint64_t call_naive(const variant *v) {
    const size_t n = (size_t)v->b;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            uint64_t sum = 0;
            for (size_t p = 0; p < n; p++)
                sum += gemm_x[i * n + p] * gemm_y[p * n + j];
            gemm_z[i * n + j] = sum;
        }
    return gemm_z[n + 1];
}

static uint64_t call_gemm(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    uvcci_gemm((uvcci_gemm_backend)v->a, n, n, n, gemm_x, false, gemm_y, false, gemm_z, false,
               gemm_scratch);
    return gemm_z[n + 1];
}

/* The product of shares: counts both of its ring products. */
static uint64_t call_gemm_rss(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    uvcci_gemm_rss((uvcci_gemm_backend)v->a, n, n, n, gemm_x, gemm_y, false, gemm_y, gemm_x, false,
                   gemm_z, gemm_scratch);
    return gemm_z[n + 1];
}

/* One row times a matrix, which lies by rows or transposed. */
static uint64_t call_row(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    uvcci_gemm((uvcci_gemm_backend)v->a, 1, n, n, gemm_x, false, gemm_y, false, gemm_z, false,
               gemm_scratch);
    return gemm_z[1];
}

static uint64_t call_row_trans(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    uvcci_gemm((uvcci_gemm_backend)v->a, 1, n, n, gemm_x, false, gemm_y, true, gemm_z, false,
               gemm_scratch);
    return gemm_z[1];
}

static uint64_t call_row_rss(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    uvcci_gemm_rss((uvcci_gemm_backend)v->a, 1, n, n, gemm_x, gemm_y, false, gemm_y, gemm_x, false,
                   gemm_z, gemm_scratch);
    return gemm_z[1];
}

static const char *const gemm_names[] = {"", "portable", "avx2", "avx512", "amx"};

static void gemm_variant(variant *v, const char *kind, const char *name,
                         uint64_t (*call)(const variant *), int b, int n, double gmacs) {
    snprintf(v->name, sizeof v->name, "%s/%s/%d", kind, name, n);
    v->unit = "GMAC/s";
    v->work = gmacs;
    v->call = call;
    v->a = b;
    v->b = n;
}

static void new_operands(int size) {
    const uint32_t m = (uint32_t)size;
    const size_t bytes = (size_t)m * m * 8;
    gemm_x = memory(bytes);
    gemm_y = memory(bytes);
    gemm_z = memory(bytes);
    gemm_scratch = memory(uvcci_gemm_scratch_words(UVCCI_GEMM_AUTO, m, m, m) * 8);
}

static void free_operands(void) {
    free(gemm_x);
    free(gemm_y);
    free(gemm_z);
    free(gemm_scratch);
}

static void bench_gemm(void) {
    for (int size = 512; size <= 1024; size *= 2) {
        const double gmacs = 1e-9 * size * size * size;
        variant v[MAX_VARIANTS] = {0};
        unsigned n = 0;
        new_operands(size);
        gemm_variant(&v[n++], "gemm_u64", "naive", call_naive, 0, size, gmacs);
        for (int b = UVCCI_GEMM_PORTABLE; b <= (int)uvcci_gemm_best(); b++)
            gemm_variant(&v[n++], "gemm_u64", gemm_names[b], call_gemm, b, size, gmacs);
        gemm_variant(&v[n++], "gemm_u64", "rss_best", call_gemm_rss, UVCCI_GEMM_AUTO, size,
                     2 * gmacs);
        measure(v, n);
        free_operands();
    }
}

/* [1 x n] times [n x n]. */
static void bench_row(void) {
    const int size = 1024, best = (int)uvcci_gemm_best();
    const double gmacs = 1e-9 * size * size;
    variant v[MAX_VARIANTS] = {0};
    unsigned n = 0;
    new_operands(size);
    for (int b = UVCCI_GEMM_PORTABLE; b <= best && b <= UVCCI_GEMM_AVX512; b++) {
        gemm_variant(&v[n++], "row_u64", gemm_names[b], call_row, b, size, gmacs);
        gemm_variant(&v[n++], "row_u64_trans", gemm_names[b], call_row_trans, b, size, gmacs);
    }
    gemm_variant(&v[n++], "row_u64", "rss_best", call_row_rss, UVCCI_GEMM_AUTO, size, 2 * gmacs);
    measure(v, n);
    free_operands();
}

/* --- DPF -------------------------------------------------------------------------------------- */

enum { POINTS = UVCC_BLOCK_ELEMS };
static uvcci_aes dpf[2];
static uint64_t *alpha, *inputs;
static uint8_t *roots[2], *levels, *leaves, *bits, *shares;

static void mask_inputs(int n) {
    for (size_t i = 0; i < POINTS; i++) {
        alpha[i] = alpha[i] * 6364136223846793005u >> (64 - n);
        inputs[i] = (alpha[i] ^ inputs[i]) & (((uint64_t)1 << n) - 1);
    }
}

static uint64_t call_dpf_gen(const variant *v) {
    uvcci_dpf_gen(dpf, (unsigned)v->a, POINTS, alpha, roots[0], roots[1], levels, leaves, bits,
                  NULL);
    return leaves[0];
}

static uint64_t call_dpf_eval(const variant *v) {
    uvcci_dpf_prefix(dpf, (unsigned)v->a, POINTS, inputs, roots[0], false, levels, leaves, bits,
                     shares);
    return shares[0];
}

static void bench_dpf(void) {
    static const int sizes[] = {16, 24, 38, 63};
    for (unsigned i = 0; i < 2; i++)
        uvcci_aes_init(&dpf[i], (const uint8_t *)(i ? "right key of dpf" : "left key of a dpf"),
                       UVCCI_AES_AUTO);
    alpha = memory(POINTS * 8);
    inputs = memory(POINTS * 8);
    for (unsigned p = 0; p < 2; p++)
        roots[p] = memory(POINTS * 16);
    levels = memory(56 * POINTS * 16);
    leaves = memory(POINTS * 16);
    bits = memory(14 * POINTS);
    shares = memory(POINTS);
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        variant v[2] = {0};
        mask_inputs(sizes[k]);
        for (unsigned i = 0; i < 2; i++) {
            snprintf(v[i].name, sizeof v[i].name, "dpf/%s/%d_bits", i ? "eval" : "gen", sizes[k]);
            v[i].unit = "M/s";
            v[i].work = 1e-6 * POINTS;
            v[i].call = i ? call_dpf_eval : call_dpf_gen;
            v[i].a = sizes[k];
        }
        measure(v, 2);
    }
    void *all[] = {alpha, inputs, roots[0], roots[1], levels, leaves, bits, shares};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* --- Comparisons without keys ----------------------------------------------------------------- */

static uvcci_circuit_scratch *circuit_scratch;
static uvcci_aes circuit_key[2];
static uint64_t *circuit_x[2], *circuit_state, *circuit_out[2];
static uint8_t *circuit_wire[4];

static void circuit_task(const variant *v, uvcc_task_kind kind, unsigned level, unsigned gate) {
    const bool select = kind >= UVCC_TASK_BOOL_SELECT_MASK;
    const uvcc_block block = {
        .count = POINTS,
        .role = (uint8_t)v->b,
        .in = {circuit_x[0], circuit_x[1], circuit_state},
        .out = {select ? circuit_out[0] : circuit_state, circuit_out[1]},
        .wire_in = {circuit_wire[0], circuit_wire[1]},
        .wire_out = {circuit_wire[2], circuit_wire[3]},
    };
    uvcc_task t = {.kind = (uint16_t)kind, .call = (uint16_t)level};
    t.u.vec.bits = (uint8_t)v->a;
    t.u.vec.shift = (uint8_t)level;
    t.u.vec.gate = (uint8_t)gate;
    const uvcci_circuit_job j = {.task = &t,
                                 .block = &block,
                                 .key = {&circuit_key[0], &circuit_key[1]},
                                 .scratch = circuit_scratch};
    uvcci_circuit_run(&j);
}

/* All tasks of a role for one block; the product is wanted. */
static uint64_t call_circuit(const variant *v) {
    circuit_task(v, UVCC_TASK_BOOL_SHARE, 0, 0);
    circuit_task(v, UVCC_TASK_BOOL_JOIN, 0, 0);
    for (unsigned l = 1; l <= uvcci_circuit_plan_of((unsigned)v->a).levels; l++) {
        circuit_task(v, UVCC_TASK_BOOL_MERGE, l, 0);
        circuit_task(v, UVCC_TASK_BOOL_RECEIVE, l, 0);
    }
    circuit_task(v, UVCC_TASK_BOOL_SELECT_MASK, 0, UVCC_BOOL_PRODUCT);
    circuit_task(v, UVCC_TASK_BOOL_SELECT_FINISH, 0, UVCC_BOOL_PRODUCT);
    return circuit_out[0][0];
}

static void bench_circuit(void) {
    static const char *const roles[] = {"head", "tail", "other"};
    static const int sizes[] = {31, 63};
    for (unsigned i = 0; i < 2; i++) {
        uvcci_aes_init(&circuit_key[i],
                       (const uint8_t *)(i ? "key of prev pair" : "key of next pair"),
                       UVCCI_AES_AUTO);
        circuit_x[i] = memory(POINTS * 8);
        circuit_out[i] = memory(POINTS * 8);
    }
    for (unsigned i = 0; i < 4; i++) /* more than M planes or two words an element */
        circuit_wire[i] = memory(256 * UVCCI_PLANE_WORDS * 8);
    circuit_state = memory(64 * UVCCI_PLANE_WORDS * 8);
    circuit_scratch = memory(sizeof *circuit_scratch);
    variant v[6] = {0};
    for (unsigned i = 0; i < 6; i++) {
        snprintf(v[i].name, sizeof v[i].name, "circuit/%s/%d_bits", roles[i % 3], sizes[i / 3]);
        v[i].unit = "M/s";
        v[i].work = 1e-6 * POINTS;
        v[i].call = call_circuit;
        v[i].a = sizes[i / 3];
        v[i].b = (int)(i % 3);
    }
    measure(v, 6);
    void *all[] = {circuit_x[0],    circuit_x[1],    circuit_out[0],  circuit_out[1],
                   circuit_wire[0], circuit_wire[1], circuit_wire[2], circuit_wire[3],
                   circuit_state,   circuit_scratch};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* With arguments: only those of aes, dpf, circuit, gemm. */
int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"aes", bench_aes}, {"dpf", bench_dpf}, {"circuit", bench_circuit},
                 {"gemm", bench_gemm}, {"gemm", bench_row}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], parts[i].name) == 0;
        if (wanted)
            parts[i].run();
    }
    return 0;
}
