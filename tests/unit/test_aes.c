/* SPDX-License-Identifier: Apache-2.0 */
/* test_aes.c - every backend against FIPS-197 and SP 800-38A, and against the portable one at every
 * count, alignment and in place. What is only read ends where its allocation ends, so that a
 * sanitizer sees a byte too many; what is written has known bytes on both sides. */
#include "support.h"

#include <stdbool.h>

#include "proto/aes.h"

enum { MAX_BLOCKS = 70, EDGE = 64 };

static const uvcci_aes_backend backends[] = {UVCCI_AES_PORTABLE, UVCCI_AES_NI, UVCCI_AES_VAES};
#define BACKENDS (sizeof backends / sizeof backends[0])

/* n random bytes at an address that is `off` past an aligned one. */
typedef struct buffer {
    uint8_t *base, *p;
    size_t n, edge;
} buffer;

static buffer buffer_new(uint64_t *seed, size_t n, size_t off, size_t edge) {
    buffer b = {.base = malloc(off + edge + n + edge + (n == 0)), .n = n, .edge = edge};
    assert_non_null(b.base);
    b.p = b.base + off + edge;
    memset(b.base, 0xc3, off + edge);
    memset(b.p + n, 0xc3, edge);
    test_rand_bytes(seed, b.p, n);
    return b;
}

static buffer input(uint64_t *seed, size_t n, size_t off) {
    return buffer_new(seed, n, off, 0);
}

static buffer output(uint64_t *seed, size_t n, size_t off) {
    return buffer_new(seed, n, off, EDGE);
}

static void buffer_free(buffer b) {
    for (const uint8_t *p = b.base; p < b.p; p++)
        assert_int_equal(*p, 0xc3);
    for (size_t i = 0; i < b.edge; i++)
        assert_int_equal(b.p[b.n + i], 0xc3);
    free(b.base);
}

static void one_block(const uvcci_aes *a, const uint8_t in[16], uint8_t out[16]) {
    assert_int_equal(a->backend, UVCCI_AES_PORTABLE);
    uvcci_aes_ecb(a, in, out, 1);
}

/* --- Standards -------------------------------------------------------------------------------- */

/* FIPS-197, appendix A.1 and C.1. */
static void fips_197(void **state) {
    (void)state;
    uint8_t key[16], want[16], got[16], plain[16];
    for (size_t b = 0; b < BACKENDS; b++) {
        uvcci_aes a;
        test_hex_n("2b7e151628aed2a6abf7158809cf4f3c", key, 16);
        uvcci_aes_init(&a, key, backends[b]);
        assert_memory_equal(a.rk, key, 16);
        test_hex_n("a0fafe1788542cb123a339392a6c7605", want, 16);
        assert_memory_equal(a.rk + 16, want, 16);
        test_hex_n("d014f9a8c9ee2589e13f0cc8b6630ca6", want, 16);
        assert_memory_equal(a.rk + 160, want, 16);

        test_hex_n("000102030405060708090a0b0c0d0e0f", key, 16);
        test_hex_n("00112233445566778899aabbccddeeff", plain, 16);
        test_hex_n("69c4e0d86a7b0430d8cdb78070b4c55a", want, 16);
        uvcci_aes_init(&a, key, backends[b]);
        uvcci_aes_ecb(&a, plain, got, 1);
        assert_memory_equal(got, want, 16);
    }
}

/* SP 800-38A F.1.1 (ECB), and the key stream of the counter blocks of F.5.1 (CTR). */
static void sp_800_38a(void **state) {
    (void)state;
    uint8_t key[16], plain[64], want[64], got[64], ctr[64], sealed[64];
    test_hex_n("2b7e151628aed2a6abf7158809cf4f3c", key, 16);
    test_hex_n("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51"
               "30c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710",
               plain, 64);
    test_hex_n("3ad77bb40d7a3660a89ecaf32466ef97f5d3d58503b9699de785895a96fdbaaf"
               "43b1cd7f598ece23881b00e3ed0306887b0c785e27e8ad3f8223207104725dd4",
               want, 64);
    test_hex_n("f0f1f2f3f4f5f6f7f8f9fafbfcfdfefff0f1f2f3f4f5f6f7f8f9fafbfcfdff00"
               "f0f1f2f3f4f5f6f7f8f9fafbfcfdff01f0f1f2f3f4f5f6f7f8f9fafbfcfdff02",
               ctr, 64);
    test_hex_n("874d6191b620e3261bef6864990db6ce9806f66b7970fdff8617187bb9fffdff"
               "5ae4df3edbd5d35e5b4f09020db03eab1e031dda2fbe03d1792170a0f3009cee",
               sealed, 64);
    for (size_t b = 0; b < BACKENDS; b++) {
        uvcci_aes a;
        uvcci_aes_init(&a, key, backends[b]);
        uvcci_aes_ecb(&a, plain, got, 4);
        assert_memory_equal(got, want, 64);
        uvcci_aes_ecb(&a, ctr, got, 4);
        for (size_t i = 0; i < 64; i++)
            got[i] ^= plain[i];
        assert_memory_equal(got, sealed, 64);
    }
}

/* --- Every backend, count and alignment ------------------------------------------------------- */

static void choice_of_backend(void **state) {
    (void)state;
    const uint8_t key[16] = {0};
    const uvcci_aes_backend best = uvcci_aes_best();
    uvcci_aes a;
    assert_true(best >= UVCCI_AES_PORTABLE && best <= UVCCI_AES_VAES);
    uvcci_aes_init(&a, key, UVCCI_AES_AUTO);
    assert_int_equal(a.backend, best);
    for (size_t b = 0; b < BACKENDS; b++) {
        uvcci_aes_init(&a, key, backends[b]);
        assert_int_equal(a.backend, backends[b] < best ? backends[b] : best);
    }
}

/* All key bytes and S-box inputs occur; the round keys must not depend on the backend. */
static void ecb_equal(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (size_t b = 0; b < BACKENDS; b++)
        for (size_t n = 0; n <= MAX_BLOCKS; n++) {
            uint8_t key[16], want[16];
            uvcci_aes a, ref;
            test_rand_bytes(&seed, key, 16);
            uvcci_aes_init(&a, key, backends[b]);
            uvcci_aes_init(&ref, key, UVCCI_AES_PORTABLE);
            assert_memory_equal(a.rk, ref.rk, sizeof a.rk);

            buffer in = input(&seed, 16 * n, n % 17);
            buffer out = output(&seed, 16 * n, (n + b) % 13);
            uvcci_aes_ecb(&a, in.p, out.p, n);
            for (size_t i = 0; i < n; i++) {
                one_block(&ref, in.p + 16 * i, want);
                assert_memory_equal(out.p + 16 * i, want, 16);
            }
            uvcci_aes_ecb(&a, in.p, in.p, n);
            assert_memory_equal(in.p, out.p, 16 * n);
            buffer_free(in);
            buffer_free(out);
        }
}

/* Counter blocks spelled out byte by byte. */
static void check_ctr(uvcci_aes_backend backend, const uint8_t prefix[10], uint64_t counter,
                      size_t n, size_t off, uint64_t *seed) {
    uint8_t key[16], block[16], want[16];
    uvcci_aes a, ref;
    test_rand_bytes(seed, key, 16);
    uvcci_aes_init(&a, key, backend);
    uvcci_aes_init(&ref, key, UVCCI_AES_PORTABLE);
    buffer out = output(seed, 16 * n, off);
    uvcci_aes_ctr48(&a, prefix, counter, out.p, n);
    for (size_t i = 0; i < n; i++) {
        memcpy(block, prefix, 10);
        for (unsigned j = 0; j < 6; j++)
            block[10 + j] = (uint8_t)((counter + i) >> 8 * j);
        one_block(&ref, block, want);
        assert_memory_equal(out.p + 16 * i, want, 16);
    }
    buffer_free(out);
}

static void ctr_equal(void **state) {
    (void)state;
    uint64_t seed = 2;
    uint8_t prefix[10];
    for (size_t b = 0; b < BACKENDS; b++)
        for (size_t n = 0; n <= MAX_BLOCKS; n++) {
            test_rand_bytes(&seed, prefix, sizeof prefix);
            check_ctr(backends[b], prefix, test_rand(&seed) >> 16, n, n % 19, &seed);
        }
}

/* Carries through every byte of the counter: into the lane at 2^40, and off the end at 2^48, where
 * the prefix must stay as it is. */
static void ctr_carries(void **state) {
    (void)state;
    uint64_t seed = 3;
    uint8_t prefix[10];
    memset(prefix, 0xff, sizeof prefix);
    for (size_t b = 0; b < BACKENDS; b++)
        for (unsigned bits = 8; bits <= 48; bits += 8)
            for (uint64_t before = 0; before < 40; before += 3)
                check_ctr(backends[b], prefix, ((uint64_t)1 << bits) - before, 40, 1, &seed);
}

static void check_mmo2(uvcci_aes_backend backend, size_t n, bool chosen, uint64_t *seed) {
    uint8_t key[2][16];
    uvcci_aes a[2], ref[2];
    for (size_t k = 0; k < 2; k++) {
        test_rand_bytes(seed, key[k], 16);
        uvcci_aes_init(&a[k], key[k], backend);
        uvcci_aes_init(&ref[k], key[k], UVCCI_AES_PORTABLE);
    }
    buffer in = input(seed, 16 * n, n % 7);
    buffer out = output(seed, 16 * n, n % 5);
    buffer sel = input(seed, (n + 7) / 8, n % 3);
    const uint8_t *sel_p = chosen ? sel.p : NULL;
    const uvcci_aes *right = chosen ? &a[1] : NULL;
    uvcci_aes_mmo2(&a[0], right, sel_p, in.p, out.p, n);
    for (size_t i = 0; i < n; i++) {
        uint8_t want[16];
        const unsigned k = chosen ? sel.p[i / 8] >> i % 8 & 1 : 0;
        one_block(&ref[k], in.p + 16 * i, want);
        for (size_t j = 0; j < 16; j++)
            want[j] ^= in.p[16 * i + j];
        assert_memory_equal(out.p + 16 * i, want, 16);
    }
    uvcci_aes_mmo2(&a[0], right, sel_p, in.p, in.p, n);
    assert_memory_equal(in.p, out.p, 16 * n);
    buffer_free(in);
    buffer_free(out);
    buffer_free(sel);
}

static void mmo2_equal(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (size_t b = 0; b < BACKENDS; b++)
        for (size_t n = 0; n <= MAX_BLOCKS; n++) {
            check_mmo2(backends[b], n, true, &seed);
            check_mmo2(backends[b], n, false, &seed);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fips_197),          cmocka_unit_test(sp_800_38a),
        cmocka_unit_test(choice_of_backend), cmocka_unit_test(ecb_equal),
        cmocka_unit_test(ctr_equal),         cmocka_unit_test(ctr_carries),
        cmocka_unit_test(mmo2_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
