/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products that are large enough for tensor cores, and of few rows, beside those of the
 * CPU's executor: every layout, both numbers of moduli, blocks, sums. Skipped where there is no
 * card. */
#include "card_job.h"

#include <uvcc/compute.h>

typedef struct shape {
    uint32_t m, n, k, groups, heads;
    bool trans_x, trans_y, accumulate;
    uint32_t gap;    /* words between rows of blocks */
    bool two;        /* y is public, and both components of x have a product */
    uint8_t y_bytes; /* of its elements, at the beginning of its words; 0: words */
} shape;

enum { X_LO, X_HI, Y_LO, Y_HI, Z, Z_HI, OPERANDS };

/* Rows and words of a row of a block as it is stored. */
static void stored(const shape *s, unsigned operand, uint32_t *rows, uint32_t *cols) {
    const bool x = operand <= X_HI, y = operand == Y_LO || operand == Y_HI;
    const bool trans = x ? s->trans_x : y && s->trans_y;
    const uint32_t a = x ? s->m : y ? s->k : s->m, b = x ? s->k : s->n;
    *rows = trans ? b : a;
    *cols = trans ? a : b;
}

/* Blocks one behind the other, those of a group's heads too. */
static uvcc_gemm_layout layout(const shape *s, unsigned operand) {
    uint32_t rows, cols;
    stored(s, operand, &rows, &cols);
    const uint64_t head = (uint64_t)rows * (cols + s->gap);
    return (uvcc_gemm_layout){.ld = cols + s->gap, .head = head, .group = s->heads * head};
}

static size_t words_of(const shape *s, unsigned operand) {
    uint32_t rows, cols;
    stored(s, operand, &rows, &cols);
    const size_t blocks = s->groups != 0 ? (size_t)s->groups * s->heads : 1;
    return blocks * rows * (cols + s->gap);
}

static uvcc_task product(const shape *s, uint64_t *const at[OPERANDS]) {
    uvcc_task t = {.kind = UVCC_TASK_GEMM,
                   .u.gemm = {.m = s->m,
                              .n = s->n,
                              .k = s->k,
                              .groups = s->groups,
                              .heads = s->heads,
                              .trans_x = s->trans_x,
                              .trans_y = s->trans_y,
                              .accumulate = s->accumulate,
                              .y_bytes = s->y_bytes,
                              .x = {at[X_LO], at[X_HI]},
                              .y = {at[Y_LO], s->two ? NULL : at[Y_HI]},
                              .z = at[Z],
                              .z_hi = s->two ? at[Z_HI] : NULL}};
    if (s->groups != 0) {
        t.u.gemm.lx = layout(s, X_LO);
        t.u.gemm.ly = layout(s, Y_LO);
        t.u.gemm.lz = layout(s, Z);
    }
    return t;
}

static void fill(uint64_t *w, size_t n, uint64_t seed) {
    static const uint64_t ends[4] = {UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, UINT64_MAX, 0};
    for (size_t i = 0; i < n; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        w[i] = seed >> 60 == 0 ? ends[seed >> 58 & 3] : seed ^ seed >> 29;
    }
}

static void on_cpu(const uvcc_task *t) {
    uvcc_cpu_config cfg = {.size = sizeof cfg, .mode = UVCC_CPU_INLINE};
    const uvcc_job job = {.id = 1, .cookie = 1, .tasks = t, .count = 1};
    uvcc_completion c;
    uvcc_cpu *cpu;
    cfg.alloc = uvcc_host_allocator();
    assert_int_equal(uvcc_cpu_new(&cpu, &cfg), 0);
    assert_int_equal(uvcc_cpu_submit(cpu, &job), 0);
    assert_int_equal(uvcc_cpu_poll(cpu, &c), 1);
    assert_int_equal(c.status, 0);
    uvcc_cpu_free(cpu);
}

/* All that is left of the device's memory. */
enum { PIECE = 1 << 26, PIECES_MAX = 4096 };
static void *taken[PIECES_MAX];

static unsigned take_all(const uvcc_allocator *al) {
    unsigned n = 0;
    while (n < PIECES_MAX && (taken[n] = al->alloc(al->user, PIECE, UVCC_MEM_TENSOR)) != NULL)
        n++;
    return n;
}

/* Operands go up, the product is made, z comes down: one job. */
static void on_card(uvcc_gpu *x, const shape *s, uint64_t *const host[OPERANDS], bool full) {
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uvcc_copy_item up[OPERANDS], down[2];
    uint64_t *card[OPERANDS];
    for (unsigned i = 0; i < OPERANDS; i++) {
        card[i] = al.alloc(al.user, words_of(s, i) * 8, UVCC_MEM_TENSOR);
        assert_non_null(card[i]);
        up[i] = (uvcc_copy_item){(uint8_t *)card[i], (uint8_t *)host[i], words_of(s, i) * 8};
    }
    unsigned others = full ? take_all(&al) : 0;
    for (unsigned i = 0; i < 2; i++)
        down[i] =
            (uvcc_copy_item){(uint8_t *)host[Z + i], (uint8_t *)card[Z + i], words_of(s, Z) * 8};
    const uvcc_task tasks[] = {{.kind = UVCC_TASK_COPY, .u.copy = {.items = up, .count = OPERANDS}},
                               product(s, card),
                               {.kind = UVCC_TASK_COPY, .u.copy = {.items = down, .count = 2}}};
    if (card_status(x, &(uvcc_job){.id = 1, .cookie = 7, .tasks = tasks, .count = 3}) != 0)
        fail_msg("%u x %u x %u: %s", s->m, s->n, s->k, uvcc_gpu_trouble(x));
    while (others > 0)
        al.free(al.user, taken[--others], PIECE, UVCC_MEM_TENSOR);
    for (unsigned i = 0; i < OPERANDS; i++)
        al.free(al.user, card[i], words_of(s, i) * 8, UVCC_MEM_TENSOR);
}

static void check(uvcc_gpu *x, const shape *s, bool full) {
    uint64_t *host[OPERANDS], *want[2];
    for (unsigned i = 0; i < OPERANDS; i++) {
        host[i] = malloc(words_of(s, i) * 8);
        assert_non_null(host[i]);
        fill(host[i], words_of(s, i), 10 * i + s->m);
    }
    for (unsigned i = 0; i < 2; i++) {
        want[i] = malloc(words_of(s, Z) * 8);
        assert_non_null(want[i]);
        memcpy(want[i], host[Z + i], words_of(s, Z) * 8);
    }
    uint64_t *const at[OPERANDS] = {host[X_LO], host[X_HI], host[Y_LO],
                                    host[Y_HI], want[0],    want[1]};
    const uvcc_task t = product(s, at);
    on_cpu(&t);
    on_card(x, s, host, full);
    for (unsigned i = 0; i < 2; i++)
        if (memcmp(host[Z + i], want[i], words_of(s, Z) * 8) != 0)
            fail_msg("%u x %u x %u, %u bytes: z %u differs", s->m, s->n, s->k, s->y_bytes, i);
    for (unsigned i = 0; i < OPERANDS; i++)
        free(host[i]);
    free(want[0]);
    free(want[1]);
}

static void as_on_the_cpu(void **state) {
    static const shape shapes[] = {
        {512, 512, 300, 0, 0, false, false, false, 0, false, 0},
        {333, 1000, 260, 0, 0, true, false, false, 0, false, 0},
        {1025, 257, 256, 0, 0, false, true, true, 0, false, 0},
        {700, 300, 333, 0, 0, true, true, false, 0, false, 0},
        {32, 2048, 1024, 0, 0, false, false, false, 0, false, 0},
        {160, 130, 5400, 0, 0, false, false, false, 0, false, 0}, /* the most for 18 moduli */
        {160, 130, 5401, 0, 0, false, true, true, 0, false, 0},
        {64, 33, 33000, 0, 0, false, false, false, 0, false, 0}, /* cut along the depth */
        {160, 33, 33000, 0, 0, false, false, false, 0, false, 0},
        /* few rows, by bytes */
        {128, 1040, 520, 0, 0, false, false, true, 2, false, 0},
        {120, 1040, 540, 0, 0, true, false, false, 0, false, 0},
        {128, 96, 5400, 0, 0, false, false, false, 0, false, 0},
        {100, 4100, 9000, 0, 0, false, false, true, 1, false, 0}, /* deeper than sums hold */
        {64, 4100, 700, 0, 0, false, true, true, 1, true, 4},
        {33, 4200, 1100, 0, 0, true, false, false, 0, true, 2},
        {64, 2112, 1000, 0, 0, false, false, true, 0, true, 0},
        {300, 520, 450, 2, 3, false, false, true, 5, false, 0},
        {450, 520, 300, 1, 2, true, true, false, 1, false, 0},
        /* few rows */
        {1, 1000, 3000, 0, 0, false, false, false, 0, false, 0},
        {1, 1, 5000, 0, 0, false, false, true, 0, false, 0},
        {1, 700, 1025, 0, 0, true, true, false, 0, false, 0},
        {8, 300, 777, 0, 0, false, true, true, 0, false, 0},
        {8, 257, 129, 0, 0, true, false, false, 0, false, 0},
        {5, 64, 200, 2, 3, false, false, true, 3, false, 0},
        {3, 65, 130, 3, 1, true, true, false, 2, false, 0},
        /* by a public y, narrow or not */
        {128, 1100, 1000, 0, 0, false, false, false, 0, true, 2},
        {128, 1100, 1000, 0, 0, true, true, true, 0, true, 4},
        {130, 1025, 1030, 0, 0, false, true, false, 0, true, 0},
        {64, 40, 55000, 0, 0, false, false, true, 0, true, 2}, /* cut along the depth */
        {64, 64, 34001, 0, 0, false, true, false, 0, true, 4},
        {300, 520, 900, 2, 3, false, false, true, 5, true, 2},
        {100, 70, 130, 0, 0, false, false, false, 0, true, 4}, /* by CUDA cores */
        {8, 300, 777, 0, 0, false, true, true, 0, true, 2},
        {1, 1000, 3000, 0, 0, false, false, false, 0, true, 4},
    };
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        check(x, &shapes[i], false);
    assert_string_equal(uvcc_gpu_trouble(x), "");
    uvcc_gpu_free(x);
}

/* Without memory for residues CUDA cores do it. */
static void in_little_memory(void **state) {
    static const shape s = {4096, 2048, 1024, 0, 0, false, false, false, 0, false, 0}; /* 377 MB */
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    check(x, &s, true);
    uvcc_gpu_free(x);
}

/* A row of few, and more words of z than 32 bits count: all of them are zeroed before sums are
 * added, so a second run gives the same. 36 GiB of the device. */
static void more_words_than_32_bits_count(void **state) {
    enum { M = 8, TAIL = 16 };
    const uint32_t n = (1u << 29) + TAIL;
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint64_t *y = al.alloc(al.user, (size_t)n * 8, UVCC_MEM_TENSOR);
    uint64_t *z = y == NULL ? NULL : al.alloc(al.user, (size_t)n * M * 8, UVCC_MEM_TENSOR);
    uint64_t *ones = al.alloc(al.user, M * 8, UVCC_MEM_STATE);
    uint64_t *last = al.alloc(al.user, TAIL * 8, UVCC_MEM_STATE);
    (void)state;
    assert_true(ones != NULL && last != NULL);
    for (unsigned i = 0; i < M; i++)
        ones[i] = 1;
    for (unsigned i = 0; i < TAIL; i++)
        last[i] = 7 + i;
    const uvcc_copy_item up = {(uint8_t *)(y + n - TAIL), (uint8_t *)last, TAIL * 8};
    const uvcc_copy_item down = {(uint8_t *)last, (uint8_t *)(z + (size_t)n * M - TAIL), TAIL * 8};
    const uvcc_task tasks[] = {
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = &up, .count = 1}},
        {.kind = UVCC_TASK_GEMM,
         .u.gemm = {.m = M, .n = n, .k = 1, .x = {ones, ones}, .y = {y, y}, .z = z}},
        {.kind = UVCC_TASK_GEMM,
         .u.gemm = {.m = M, .n = n, .k = 1, .x = {ones, ones}, .y = {y, y}, .z = z}},
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = &down, .count = 1}}};
    const uvcc_job job = {.id = 1, .tasks = tasks, .count = 4};
    if (z != NULL) { /* not on a small card */
        assert_int_equal(card_status(x, &job), 0);
        for (unsigned i = 0; i < TAIL; i++)
            assert_int_equal(last[i], 3 * (7 + i));
        al.free(al.user, z, (size_t)n * M * 8, UVCC_MEM_TENSOR);
    }
    if (y != NULL)
        al.free(al.user, y, (size_t)n * 8, UVCC_MEM_TENSOR);
    al.free(al.user, ones, M * 8, UVCC_MEM_STATE);
    al.free(al.user, last, TAIL * 8, UVCC_MEM_STATE);
    uvcc_gpu_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_on_the_cpu),
        cmocka_unit_test(in_little_memory),
        cmocka_unit_test(more_words_than_32_bits_count),
    };
    card_needed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
