/* SPDX-License-Identifier: Apache-2.0 */
/* Pools reuse and stay under their limit; bumps are zeroed and aligned; meters add up. */
#include "support.h"

#include "exec/base/arena.h"

static void test_pool_reuses(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcci_arena p;
    uvcci_arena_init(&p, &al, UVCC_MEM_TENSOR, 0);
    void *a = uvcci_arena_take(&p, 1000);
    assert_non_null(a);
    assert_int_equal((uintptr_t)a % 64, 0);
    uvcci_arena_give(&p, a, 1000);
    assert_int_equal(p.used_bytes, 0);
    assert_ptr_equal(uvcci_arena_take(&p, 1000), a); /* the same size class: the same block */
    void *b = uvcci_arena_take(&p, 5000);
    assert_true(p.peak_bytes >= 6000 && p.used_bytes == p.peak_bytes);
    uvcci_arena_give(&p, a, 1000);
    const uint64_t held = p.held_bytes;
    uvcci_arena_drop(&p, b, 5000); /* not kept */
    assert_true(p.held_bytes <= held - 5000 && p.used_bytes == 0);
    uvcci_arena_give(&p, NULL, 7);
    uvcci_arena_drop(&p, NULL, 7);
    uvcci_arena_drain(&p);
    assert_int_equal(p.held_bytes, 0);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_pool_limit(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcci_arena p;
    uvcci_arena_init(&p, &al, UVCC_MEM_TENSOR, 4096);
    void *a = uvcci_arena_take(&p, 3000);
    assert_non_null(a);
    assert_null(uvcci_arena_take(&p, 3000));
    uvcci_arena_give(&p, a, 3000);
    void *b = uvcci_arena_take(&p, 4000); /* the kept block of another size makes room */
    assert_non_null(b);
    assert_true(p.held_bytes <= 4096);
    uvcci_arena_give(&p, b, 4000);
    uvcci_arena_drain(&p);
    assert_int_equal(mem.live_blocks, 0);
    assert_null(uvcci_arena_take(&p, SIZE_MAX));
}

static void test_every_size(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcci_arena p;
    uvcci_arena_init(&p, &al, UVCC_MEM_WIRE, 0);
    for (size_t n = 0; n < 5000; n += 13) {
        uint8_t *a = uvcci_arena_take(&p, n);
        assert_non_null(a);
        memset(a, 1, n); /* a class that is too small shows under the sanitizer */
        assert_true(p.used_bytes >= n && p.used_bytes <= n + n / 4 + 256);
        uvcci_arena_give(&p, a, n);
    }
    uvcci_arena_drain(&p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_pool_without_memory(void **state) {
    (void)state;
    for (size_t i = 1; i < 6; i++) {
        test_alloc mem = {.fail_at = i};
        uvcc_allocator al = test_allocator(&mem);
        uvcci_arena p;
        uvcci_arena_init(&p, &al, UVCC_MEM_TENSOR, 0);
        void *a = uvcci_arena_take(&p, 100);
        uvcci_arena_give(&p, a, 100); /* the record may fail: then the block goes back at once */
        a = uvcci_arena_take(&p, 100);
        uvcci_arena_give(&p, a, 100);
        assert_int_equal(p.used_bytes, 0);
        uvcci_arena_drain(&p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

static void test_bump(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcci_bump b;
    uvcci_bump_init(&b, &al);
    for (size_t n = 1; n < 9000; n = n * 3 + 1) {
        uint8_t *p = uvcci_bump_take(&b, n);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xFF, n);
    }
    uvcci_bump_reset(&b);
    assert_int_equal(mem.live_blocks, 0);
    mem.fail_at = 1;
    assert_null(uvcci_bump_take(&b, 10));
    assert_non_null(uvcci_bump_take(&b, 10));
    uvcci_bump_reset(&b);
}

static void test_meter(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcci_meter m = {.base = test_allocator(&mem)};
    uvcc_allocator al = uvcci_metered(&m);
    void *a = al.alloc(al.user, 100, UVCC_MEM_STATE), *b = al.alloc(al.user, 50, UVCC_MEM_WIRE);
    assert_int_equal(m.bytes, 150);
    assert_true(m.by_class[UVCC_MEM_STATE] == 100 && m.by_class[UVCC_MEM_WIRE] == 50);
    al.free(al.user, a, 100, UVCC_MEM_STATE);
    mem.fail_at = 1;
    assert_null(al.alloc(al.user, 1000, UVCC_MEM_STATE));
    assert_int_equal(m.bytes, 50);
    assert_int_equal(m.peak_bytes, 150);
    assert_true(m.by_class[UVCC_MEM_STATE] == 0 && m.by_class[UVCC_MEM_WIRE] == 50);
    al.free(al.user, b, 50, UVCC_MEM_WIRE);
    assert_int_equal(m.bytes, 0);
    assert_null(al.free_sealed);
    m.base.free_sealed = m.base.free;
    al = uvcci_metered(&m);
    b = al.alloc(al.user, 50, UVCC_MEM_WIRE);
    al.free_sealed(al.user, b, 50, UVCC_MEM_WIRE);
    assert_int_equal(m.bytes | m.by_class[UVCC_MEM_WIRE] | mem.live_blocks, 0);
}

/* Blocks of ever new sizes, one after the other: what is kept stays in proportion to what was used.
 */
static void test_kept(void **state) {
    (void)state;
    test_alloc t = {0};
    const uvcc_allocator al = test_allocator(&t);
    uvcci_arena p;
    uvcci_arena_init(&p, &al, UVCC_MEM_TENSOR, 0);
    for (unsigned round = 0; round < 3; round++)
        for (size_t n = 256; n <= 1u << 20; n += n / 4) {
            void *a = uvcci_arena_take(&p, n);
            assert_non_null(a);
            assert_true(p.held_bytes <= p.peak_bytes / 4 * UVCCI_ARENA_QUARTERS);
            uint64_t records;
            const uint64_t held = uvcci_arena_bound(p.peak_bytes, &records);
            assert_true(t.live_bytes <= held + records);
            uvcci_arena_give(&p, a, n);
        }
    uvcci_arena_drain(&p);
    assert_int_equal(t.live_blocks, 0);
}

/* It holds no more than the bound says, whatever sizes come; a large piece closes no chunk. */
static void test_bump_bound(void **state) {
    (void)state;
    test_alloc t = {0};
    const uvcc_allocator al = test_allocator(&t);
    uvcci_bump b;
    uvcci_bump_init(&b, &al);
    assert_int_equal(uvcci_bump_bound(0, 0), 0);
    uint64_t seed = 4, bytes = 0;
    for (unsigned n = 1; n <= 500; n++) {
        const size_t size = test_rand(&seed) % (n % 7 == 0 ? 9000 : 3000);
        assert_non_null(uvcci_bump_take(&b, size));
        bytes += size;
        assert_true(t.live_bytes <= uvcci_bump_bound(bytes, n));
    }
    uvcci_bump_reset(&b);
    bytes = 0;
    for (unsigned n = 1; n <= 500; n++) { /* small and large ones by turns */
        const size_t size = n % 2 != 0 ? 16 : 5000;
        assert_non_null(uvcci_bump_take(&b, size));
        bytes += size;
        assert_int_equal(uvcci_bump_bytes(&b), t.live_bytes);
        assert_true(t.live_bytes <= uvcci_bump_bound(bytes, n));
    }
    uvcci_bump_reset(&b);
    assert_int_equal(t.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pool_reuses), cmocka_unit_test(test_pool_limit),
        cmocka_unit_test(test_every_size),  cmocka_unit_test(test_pool_without_memory),
        cmocka_unit_test(test_bump),        cmocka_unit_test(test_meter),
        cmocka_unit_test(test_kept),        cmocka_unit_test(test_bump_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
