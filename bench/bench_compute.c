/* SPDX-License-Identifier: Apache-2.0 */
/* bench_compute.c - what one core computes: AES streams, products mod 2^64, DPF keys, comparisons
 * without keys.
 *
 * One JSON object per line: the median of rounds in which all variants take turns, so that a slow
 * moment of the machine touches them alike. "check" is a word of the results, so that nothing is
 * optimised away. What is made of AES blocks also tells how many of them per second these are, and
 * which part of the ceiling: of what the AES instructions do between registers alone in the same
 * round. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/compute/gemm.h"
#include "exec/primitives/circuit.h"
#include "exec/primitives/dcf.h"
#include "exec/primitives/dpf.h"
#include "proto/prg.h"

enum { MAX_VARIANTS = 20, ROUNDS = 15 };
#define ROUND_SECONDS 0.02

typedef struct variant {
    char name[64];
    const char *unit;
    double work;      /* of one call, in the unit */
    double blocks;    /* of AES in one call; 0: not told */
    unsigned ceiling; /* 1 + the variant that is its ceiling; 0: none */
    uint64_t (*call)(const struct variant *v);
    int a, b;
    double seconds[ROUNDS], fraction[2];
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

/* Part of the ceiling: the median and the best of the rounds. */
static void ceiling_fractions(const variant *v, const variant *ceiling, double out[2]) {
    double part[ROUNDS];
    for (unsigned r = 0; r < ROUNDS; r++)
        part[r] = v->blocks / v->seconds[r] * ceiling->seconds[r] / ceiling->blocks;
    qsort(part, ROUNDS, sizeof *part, by_size);
    out[0] = part[ROUNDS / 2];
    out[1] = part[ROUNDS - 1];
}

static void print(variant *v) {
    qsort(v->seconds, ROUNDS, sizeof *v->seconds, by_size);
    const double median = v->seconds[ROUNDS / 2], best = v->seconds[0];
    printf("{\"bench\": \"%s\", \"median\": %.4g, \"best\": %.4g, \"unit\": \"%s\", ", v->name,
           v->work / median, v->work / best, v->unit);
    if (v->blocks != 0)
        printf("\"aes_blocks_per_s\": %.4g, \"aes_blocks_per_s_best\": %.4g, ", v->blocks / median,
               v->blocks / best);
    if (v->ceiling != 0)
        printf("\"ceiling_fraction\": %.3f, \"ceiling_fraction_best\": %.3f, ", v->fraction[0],
               v->fraction[1]);
    printf("\"rounds\": %d, \"check\": \"%016llx\"}\n", ROUNDS, (unsigned long long)v->check);
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
    for (unsigned i = 0; i < count; i++)
        if (v[i].ceiling != 0)
            ceiling_fractions(&v[i], &v[v[i].ceiling - 1], v[i].fraction);
    for (unsigned i = 0; i < count; i++)
        print(&v[i]);
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

/* --- The ceiling of AES ----------------------------------------------------------------------- */

enum { IN_FLIGHT = 12, CEILING_CALLS = 1000 };

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define NI   __attribute__((target("aes,sse4.1")))
#define VAES __attribute__((target("avx512f,vaes")))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Independent encryptions of ten rounds between registers. */
NI static uint64_t call_ceiling_ni(const variant *v) {
    (void)v;
    const __m128i k = _mm_set1_epi32(0x1234567);
    __m128i s[IN_FLIGHT], sum = k;
    UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
        s[i] = _mm_set1_epi32(i);
    }
    for (int n = 0; n < CEILING_CALLS; n++) {
        UNROLL for (int r = 0; r < 9; r++) {
            UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
                s[i] = _mm_aesenc_si128(s[i], k);
            }
        }
        UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
            s[i] = _mm_aesenclast_si128(s[i], k);
        }
    }
    UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
        sum = _mm_xor_si128(sum, s[i]);
    }
    return (uint64_t)_mm_cvtsi128_si64(sum);
}

VAES static uint64_t call_ceiling_vaes(const variant *v) {
    (void)v;
    const __m512i k = _mm512_set1_epi32(0x1234567);
    __m512i s[IN_FLIGHT], sum = k;
    UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
        s[i] = _mm512_set1_epi32(i);
    }
    for (int n = 0; n < CEILING_CALLS; n++) {
        UNROLL for (int r = 0; r < 9; r++) {
            UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
                s[i] = _mm512_aesenc_epi128(s[i], k);
            }
        }
        UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
            s[i] = _mm512_aesenclast_epi128(s[i], k);
        }
    }
    UNROLL for (int i = 0; i < IN_FLIGHT; i++) {
        sum = _mm512_xor_si512(sum, s[i]);
    }
    return (uint64_t)_mm_cvtsi128_si64(_mm512_castsi512_si128(sum));
}
#else
#define call_ceiling_ni   NULL
#define call_ceiling_vaes NULL
#endif

static const char *const aes_names[] = {"", "portable", "aesni", "vaes512"};

/* Adds the ceiling of a backend, and returns what a variant's `ceiling` is to be: 0 if there is
 * none to be had. */
static unsigned add_ceiling(variant *v, unsigned *n, int backend) {
    if (backend < UVCCI_AES_NI)
        return 0;
    variant *c = &v[(*n)++];
    snprintf(c->name, sizeof c->name, "aes128_ceiling/%s", aes_names[backend]);
    c->unit = "GB/s";
    c->call = backend == UVCCI_AES_NI ? call_ceiling_ni : call_ceiling_vaes;
    c->blocks = (double)IN_FLIGHT * CEILING_CALLS * (backend == UVCCI_AES_NI ? 1 : 4);
    c->work = 16e-9 * c->blocks;
    return *n;
}

/* --- AES-CTR, Matyas-Meyer-Oseas -------------------------------------------------------------- */

enum { STREAM_WORDS = 2048, LONG_WORDS = 4096, SHORT_WORDS = 100, NODES = 256 };
static uint64_t *stream;
static uvcci_aes stream_key[4];

static uint64_t call_stream(const variant *v) {
    const uvcci_prg_at at = {1, 2, 3, 0};
    uvcci_prg_fill(&stream_key[v->a], at, 0, stream, (size_t)v->b);
    return stream[0];
}

/* b: with either of two keys. */
static uint64_t call_mmo(const variant *v) {
    const uvcci_aes *key = &stream_key[v->a];
    const uint8_t *sel = (const uint8_t *)(stream + 2 * NODES);
    uvcci_aes_mmo2(key, key, v->b ? sel : NULL, (const uint8_t *)stream, (uint8_t *)stream, NODES);
    return stream[0];
}

static void bench_aes(void) {
    variant v[MAX_VARIANTS] = {0};
    unsigned n = 0;
    stream = memory(LONG_WORDS * 8);
    for (int b = UVCCI_AES_PORTABLE; b <= (int)uvcci_aes_best(); b++) {
        uvcci_aes_init(&stream_key[b], (const uint8_t *)"sixteen byte key", (uvcci_aes_backend)b);
        const unsigned ceiling = add_ceiling(v, &n, b);
        const int words[] = {LONG_WORDS, STREAM_WORDS, SHORT_WORDS};
        for (unsigned k = 0; k < 3; k++, n++) {
            snprintf(v[n].name, sizeof v[n].name, "aes128_ctr/%s/%d_words", aes_names[b], words[k]);
            v[n].blocks = words[k] / 2;
            v[n].call = call_stream;
            v[n].b = words[k];
        }
        for (int two = 0; two < 2; two++, n++) {
            snprintf(v[n].name, sizeof v[n].name, "aes128_mmo/%s/%s", aes_names[b],
                     two ? "two_keys" : "one_key");
            v[n].blocks = NODES;
            v[n].call = call_mmo;
            v[n].b = two;
        }
        for (unsigned k = n - 5; k < n; k++) {
            v[k].unit = "GB/s";
            v[k].work = 16e-9 * v[k].blocks;
            v[k].a = b;
            v[k].ceiling = ceiling;
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

static void rss(uvcci_gemm_backend b, uint32_t m, uint32_t n, bool trans_y) {
    const uvcci_gemm_replicated p = {.m = m,
                                     .n = n,
                                     .k = n,
                                     .trans_y = trans_y,
                                     .x_lo = gemm_x,
                                     .x_hi = gemm_y,
                                     .y_lo = gemm_y,
                                     .y_hi = gemm_x,
                                     .z = gemm_z,
                                     .ldx = n,
                                     .ldy = n,
                                     .ldz = n};
    uvcci_gemm_rss(b, &p, gemm_scratch);
}

/* The product of shares: counts both of its ring products. */
static uint64_t call_gemm_rss(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    rss((uvcci_gemm_backend)v->a, n, n, false);
    return gemm_z[n + 1];
}

static uint64_t call_gemm_rss_trans(const variant *v) {
    const uint32_t n = (uint32_t)v->b;
    rss((uvcci_gemm_backend)v->a, n, n, true);
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
    rss((uvcci_gemm_backend)v->a, 1, n, false);
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

/* Small products of shares, as attention has them. */
static void bench_small(void) {
    for (int size = 16; size <= 64; size *= 2) {
        const double gmacs = 2e-9 * size * size * size;
        variant v[MAX_VARIANTS] = {0};
        unsigned n = 0;
        new_operands(size);
        for (int b = UVCCI_GEMM_PORTABLE; b <= (int)uvcci_gemm_best(); b++) {
            gemm_variant(&v[n++], "rss_u64", gemm_names[b], call_gemm_rss, b, size, gmacs);
            gemm_variant(&v[n++], "rss_u64_trans", gemm_names[b], call_gemm_rss_trans, b, size,
                         gmacs);
        }
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

enum { POINTS = UVCC_BLOCK_ELEMS, WINDOW_LEN = 1000, THRESHOLDS = 16 };
static uvcci_aes dpf[2];
static uint64_t *alpha, *inputs;
static uint8_t *roots[2], *levels, *leaves, *bits, *shares, *dcf_key;
static uint64_t *window, *thresholds;

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

static uvcci_dpf_keys dpf_keys(const variant *v) {
    return (uvcci_dpf_keys){(unsigned)v->a, POINTS, false, roots[0], levels, leaves, bits};
}

static uint64_t call_dpf_window(const variant *v) {
    const uvcci_dpf_keys k = dpf_keys(v);
    uvcci_dpf_window(dpf, &k, 0, POINTS, inputs, WINDOW_LEN, window);
    return window[0];
}

/* The points less THRESHOLDS powers of two. */
static uint64_t call_dpf_prefixes(const variant *v) {
    const uvcci_dpf_keys k = dpf_keys(v);
    uvcci_dpf_prefixes(dpf, &k, inputs, thresholds, THRESHOLDS, window);
    return window[0];
}

/* The bit of an exact truncation: one word. */
static uint64_t call_dcf_gen(const variant *v) {
    uvcci_dcf_gen(dpf, (unsigned)v->a, 1, POINTS, alpha, inputs, roots[0], roots[1], dcf_key);
    return dcf_key[0];
}

static uint64_t call_dcf_eval(const variant *v) {
    const uvcci_dcf_keys k = {(unsigned)v->a, 1, POINTS, false, roots[0], dcf_key};
    uvcci_dcf_eval(dpf, &k, 0, POINTS, inputs, window);
    return window[0];
}

/* The nodes of each level that lie above a window, and one beside them; then the leaf blocks. */
static double window_blocks(unsigned n) {
    uint64_t blocks = ((WINDOW_LEN - 1) >> 7) + 2;
    for (unsigned below = 7; below < n; below++)
        blocks += ((WINDOW_LEN - 1) >> (below < 31 ? below : 31)) + 2;
    return (double)(POINTS * blocks);
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
    dcf_key = memory(uvcci_dcf_bytes(63, 1, POINTS));
    shares = memory(POINTS);
    window = memory((size_t)POINTS * uvcci_dpf_window_words(WINDOW_LEN) * 8);
    thresholds = memory(THRESHOLDS * 8);
    for (unsigned j = 0; j < THRESHOLDS; j++)
        thresholds[j] = (uint64_t)1 << j;
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        static const char *const names[] = {"dpf/gen",         "dpf/eval",
                                            "dpf/window_1000", "dpf/eval_16_thresholds",
                                            "dcf/gen",         "dcf/eval"};
        static uint64_t (*const calls[])(const variant *) = {call_dpf_gen,    call_dpf_eval,
                                                             call_dpf_window, call_dpf_prefixes,
                                                             call_dcf_gen,    call_dcf_eval};
        const int depth = sizes[k] - 7;
        variant v[7] = {0};
        unsigned n = 0;
        mask_inputs(sizes[k]);
        const double blocks[] = {POINTS * (4. * depth + 2),         POINTS * (depth + 1.),
                                 window_blocks((unsigned)sizes[k]), 0,
                                 POINTS * (8. * sizes[k] + 2),      POINTS * (2. * sizes[k] + 1)};
        const unsigned ceiling = add_ceiling(v, &n, (int)uvcci_aes_best());
        for (unsigned i = 0; i < 6; i++, n++) {
            snprintf(v[n].name, sizeof v[n].name, "%s/%d_bits", names[i], sizes[k]);
            v[n].unit = "M/s";
            v[n].work = 1e-6 * POINTS * (i == 3 ? THRESHOLDS : 1);
            v[n].blocks = blocks[i];
            v[n].ceiling = blocks[i] == 0 ? 0 : ceiling;
            v[n].call = calls[i];
            v[n].a = sizes[k];
        }
        measure(v, n);
    }
    void *all[] = {alpha, inputs, roots[0], roots[1],   levels, leaves,
                   bits,  shares, window,   thresholds, dcf_key};
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
    } parts[] = {{"aes", bench_aes},   {"dpf", bench_dpf},    {"circuit", bench_circuit},
                 {"gemm", bench_gemm}, {"gemm", bench_small}, {"gemm", bench_row}};
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool wanted = argc == 1;
        for (int a = 1; a < argc; a++)
            wanted |= strcmp(argv[a], parts[i].name) == 0;
        if (wanted)
            parts[i].run();
    }
    return 0;
}
