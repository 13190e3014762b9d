/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of product checks: sums by bits on every backend against the plain formula, over shapes
 * around the bands and chunks of the kernel. */
#include "support.h"

#include "exec/compute/kernels.h"
#include "proto/prg.h"

enum { ORDINAL = 7, CALL = 3, LANE = 1, SUMS = 64 };

static void naive(const uint64_t *word, const uint64_t *x, uint32_t rows, uint32_t cols, bool trans,
                  uint64_t *out) {
    memset(out, 0, (size_t)SUMS * cols * 8);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t a = 0; a < SUMS; a++)
            for (uint32_t j = 0; (word[i] >> a & 1) != 0 && j < cols; j++)
                out[(size_t)a * cols + j] += x[trans ? (size_t)j * rows + i : (size_t)i * cols + j];
}

static void check_sums(uvcci_cpu_worker *w, uint32_t rows, uint32_t cols, bool trans, bool both) {
    uint64_t rng = rows * 1000 + cols;
    const size_t n = (size_t)rows * cols, sums = (size_t)SUMS * cols;
    uint64_t *x[2], *out[2], *want = malloc(sums * 8), *word = malloc(rows * sizeof *word);
    uvcc_task t = {.kind = UVCC_TASK_BIT_SUMS,
                   .ordinal = ORDINAL,
                   .call = CALL,
                   .u.bits = {.rows = rows, .cols = cols, .trans = trans, .lane = LANE}};
    test_rand_bytes(&rng, t.u.bits.key, 16);
    uvcci_aes key;
    uvcci_aes_init(&key, t.u.bits.key, UVCCI_AES_PORTABLE);
    uvcci_prg_fill(&key, (uvcci_prg_at){.ordinal = ORDINAL, .call = CALL, .lane = LANE}, 0, word,
                   rows);
    for (unsigned c = 0; c < 2; c++) {
        x[c] = malloc(n * 8); /* exactly: reads beyond the end are seen */
        out[c] = malloc(sums * 8);
        test_rand_bytes(&rng, x[c], n * 8);
        memset(out[c], 0xEE, sums * 8);
    }
    t.u.bits.x = (uvcc_shares){x[0], both ? x[1] : NULL};
    t.u.bits.out = (uvcc_shares){out[0], both ? out[1] : NULL};
    const uvcc_job job = {.tasks = &t, .count = 1};
    assert_int_equal(uvcci_cpu_run(w, &job), 0);
    for (unsigned c = 0; c < (both ? 2 : 1); c++) {
        naive(word, x[c], rows, cols, trans, want);
        if (memcmp(out[c], want, sums * 8) != 0)
            fail_msg("%u x %u, transposed %d, component %u", rows, cols, trans, c);
    }
    for (unsigned c = 0; c < 2; c++) {
        free(x[c]);
        free(out[c]);
    }
    free(want);
    free(word);
}

static void sums(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 3, 4, 5, 64, 511, 512, 513, 1025},
                          cols[] = {1, 2, 31, 32, 33, 64, 100};
    for (uint32_t backend = 0; backend <= 4; backend++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        uvcci_cpu_worker w;
        assert_int_equal(uvcci_cpu_worker_init(&w, &al, backend), 0);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            for (size_t c = 0; c < sizeof cols / sizeof cols[0]; c++)
                check_sums(&w, rows[r], cols[c], (r + c) % 2 != 0, (r + c) % 3 != 0);
        check_sums(&w, 70, 45, false, true);
        check_sums(&w, 45, 70, true, true);
        uvcci_cpu_worker_free(&w);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* What a thread has reserved suffices. */
static void reserved(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_cpu_worker w;
    assert_int_equal(uvcci_cpu_worker_init(&w, &al, 0), 0);
    assert_int_equal(uvcci_cpu_worker_reserve(&w), 0);
    const size_t calls = mem.calls;
    check_sums(&w, 600, 100, false, true);
    assert_int_equal(mem.calls, calls);
    uvcci_cpu_worker_free(&w);
}

static void refused(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_cpu_worker w;
    assert_int_equal(uvcci_cpu_worker_init(&w, &al, 0), 0);
    for (unsigned k = 0; k < 2; k++) {
        const uvcc_task t = {.kind = UVCC_TASK_BIT_SUMS,
                             .u.bits = {.rows = k == 0 ? 0 : 4, .cols = k == 0 ? 4 : 0}};
        const uvcc_job job = {.tasks = &t, .count = 1};
        assert_int_equal(uvcci_cpu_run(&w, &job), UVCC_ERR_JOB);
    }
    uvcci_cpu_worker_free(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums), cmocka_unit_test(reserved),
                                       cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
