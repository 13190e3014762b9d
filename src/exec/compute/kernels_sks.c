/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_sks.c - BIT_SUMS: 64 sums over the rows of a matrix, each with and without by a random
 * bit.
 *
 * Four rows at a time (the method of the Four Russians): a table of the 16 sums of their subsets
 * takes 11 additions of rows, then each of the 64 results takes one more, the entry that its four
 * bits name. Rows come in bands, so that a band's bits are turned into indices once, and columns
 * in chunks, so that sums and table stay in the nearest cache. The bits are public, so are the
 * indices; what is added is secret and only ever added. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

enum {
    SUMS = 64,
    GROUP = 4, /* rows of a table */
    SUBSETS = 1 << GROUP,
    WIDE = 32,  /* columns of a chunk */
    BAND = 512, /* rows */
    GROUPS = BAND / GROUP
};

typedef struct sums_scratch {
    _Alignas(64) uint64_t sum[SUMS][WIDE];
    uint64_t table[SUBSETS][WIDE];
    uint64_t word[BAND];
    uint8_t index[GROUPS][SUMS];
} sums_scratch;

/* Words of packing memory: a scratch. */
size_t uvcci_bit_sums_words(void) {
    return (sizeof(sums_scratch) + 7) / 8;
}

/* A matrix op(x): element (i, j) is at x[i * row + j * col]. */
typedef struct view {
    const uint64_t *x;
    size_t row, col;
    uint32_t rows, cols;
} view;

/* Row i of a chunk of `n` columns from j0. What a row beyond the end holds does not count: it has
 * no bits. Nor do columns beyond n: nobody stores their sums. */
static inline __attribute__((always_inline)) void load_row(const view *v, uint32_t i, uint32_t j0,
                                                           uint32_t n, uint64_t to[WIDE]) {
    if (i >= v->rows)
        return;
    const uint64_t *from = v->x + i * v->row + j0 * v->col;
    for (uint32_t j = 0; j < n; j++)
        to[j] = from[j * v->col];
}

/* The sums of all subsets of rows i .. i + GROUP. */
static inline __attribute__((always_inline)) void fill_table(const view *v, uint32_t i, uint32_t j0,
                                                             uint32_t n, sums_scratch *s) {
    memset(s->table[0], 0, sizeof s->table[0]);
    for (uint32_t g = 0; g < GROUP; g++) {
        load_row(v, i + g, j0, n, s->table[1u << g]);
        const uint64_t *row = s->table[1u << g];
        for (uint32_t k = 1; k < 1u << g; k++) {
            const uint64_t *rest = s->table[k];
            uint64_t *restrict to = s->table[(1u << g) + k];
            for (uint32_t j = 0; j < WIDE; j++)
                to[j] = row[j] + rest[j];
        }
    }
}

static inline __attribute__((always_inline)) void add_group(sums_scratch *s, uint32_t group) {
    const uint8_t *index = s->index[group];
    for (uint32_t a = 0; a < SUMS; a++) {
        const uint64_t *entry = s->table[index[a]];
        uint64_t *restrict sum = s->sum[a];
        for (uint32_t j = 0; j < WIDE; j++)
            sum[j] += entry[j];
    }
}

/* Rows [i0, i0 + BAND) of columns [j0, j0 + WIDE), added to out. */
static inline __attribute__((always_inline)) void
chunk_sums(const view *v, uint32_t i0, uint32_t j0, uint64_t *out, sums_scratch *s) {
    const uint32_t n = v->cols - j0 < WIDE ? v->cols - j0 : WIDE;
    const uint32_t rows = v->rows - i0 < BAND ? v->rows - i0 : BAND;
    memset(s->sum, 0, sizeof s->sum);
    for (uint32_t g = 0; g * GROUP < rows; g++) {
        fill_table(v, i0 + g * GROUP, j0, n, s);
        add_group(s, g);
    }
    for (uint32_t a = 0; a < SUMS; a++) {
        uint64_t *to = out + (size_t)a * v->cols + j0;
        for (uint32_t j = 0; j < n; j++)
            to[j] += s->sum[a][j];
    }
}

typedef void (*chunk_fn)(const view *v, uint32_t i0, uint32_t j0, uint64_t *out, sums_scratch *s);

static void chunk_portable(const view *v, uint32_t i0, uint32_t j0, uint64_t *out,
                           sums_scratch *s) {
    chunk_sums(v, i0, j0, out, s);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void chunk_avx2(const view *v, uint32_t i0, uint32_t j0,
                                                       uint64_t *out, sums_scratch *s) {
    chunk_sums(v, i0, j0, out, s);
}

__attribute__((target("avx512f"))) static void chunk_avx512(const view *v, uint32_t i0, uint32_t j0,
                                                            uint64_t *out, sums_scratch *s) {
    chunk_sums(v, i0, j0, out, s);
}

static chunk_fn chunk_of(uvcci_gemm_backend simd) {
    if (simd == UVCCI_GEMM_AVX512 || simd == UVCCI_GEMM_AMX)
        return chunk_avx512;
    return simd == UVCCI_GEMM_AVX2 ? chunk_avx2 : chunk_portable;
}
#else
static chunk_fn chunk_of(uvcci_gemm_backend simd) {
    (void)simd;
    return chunk_portable;
}
#endif

/* Which entry of its group's table each sum takes: bit g of index[..][a] is bit a of row g. */
static void fill_indices(sums_scratch *s, uint32_t rows) {
    for (uint32_t i = rows; i % GROUP != 0; i++)
        s->word[i] = 0;
    for (uint32_t g = 0; g * GROUP < rows; g++)
        for (uint32_t a = 0; a < SUMS; a++) {
            unsigned index = 0;
            for (uint32_t k = 0; k < GROUP; k++)
                index |= (unsigned)(s->word[g * GROUP + k] >> a & 1) << k;
            s->index[g][a] = (uint8_t)index;
        }
}

/* The bits of a band of rows are turned into indices once, for both components and all columns. */
static void sum_bands(const uvcc_task *t, uvcci_gemm_backend simd, uvcci_aes_backend aes,
                      uint64_t *packing) {
    sums_scratch *s = (sums_scratch *)(void *)packing;
    const uint32_t rows = t->u.bits.rows, cols = t->u.bits.cols;
    const bool trans = t->u.bits.trans;
    const uvcc_shares *x = &t->u.bits.x, *out = &t->u.bits.out;
    const struct {
        const uint64_t *x;
        uint64_t *out;
    } part[2] = {{x->lo, out->lo}, {x->hi, out->hi}};
    const uvcci_prg_at at = {t->ordinal, t->call, 0, t->u.bits.lane};
    const chunk_fn add_chunk = chunk_of(simd);
    assert(rows != 0 && cols != 0);
    uvcci_aes key;
    uvcci_aes_init(&key, t->u.bits.key, aes);
    for (unsigned c = 0; c < 2; c++)
        if (part[c].x != NULL)
            memset(part[c].out, 0, (size_t)SUMS * cols * 8);
    for (uint64_t i0 = 0; i0 < rows; i0 += BAND) {
        const uint32_t band = rows - i0 < BAND ? (uint32_t)(rows - i0) : BAND;
        uvcci_prg_fill(&key, at, i0, s->word, band);
        fill_indices(s, band);
        for (unsigned c = 0; c < 2; c++) {
            const view v = {.x = part[c].x,
                            .row = trans ? 1 : cols,
                            .col = trans ? rows : 1,
                            .rows = rows,
                            .cols = cols};
            for (uint64_t j0 = 0; part[c].x != NULL && j0 < cols; j0 += WIDE)
                add_chunk(&v, (uint32_t)i0, (uint32_t)j0, part[c].out, s);
        }
    }
}

static int bit_sums(uvcci_cpu_worker *w, const uvcc_task *t) {
    if (t->u.bits.rows == 0 || t->u.bits.cols == 0 ||
        uvcci_kernel_reserve(w, uvcci_bit_sums_words()) != 0)
        return UVCC_ERR_JOB;
    assert((uintptr_t)w->scratch % 64 == 0);
    sum_bands(t, w->gemm, w->aes, w->scratch);
    return 0;
}

const uvcci_kernel uvcci_kernels_sks[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_BIT_SUMS] = {.task = bit_sums},
};
