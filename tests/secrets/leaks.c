/* SPDX-License-Identifier: Apache-2.0 */
/* leaks.c - planted leaks. Each must be reported, else the other tests prove nothing. */
#include "taint.h"

#include "proto/prg.h"

/* Not inlined, so that the report names the function. */
#define LEAK static __attribute__((noinline))

static volatile int sink;

LEAK void leak_branch(const uint8_t *key) {
    if (key[3] & 1)
        sink = 1;
}

LEAK void leak_index(const uint8_t *key) {
    static const volatile uint8_t table[256] = {1, 2, 3};
    sink = table[key[0]];
}

LEAK void leak_early_exit(const uint8_t *key) {
    static const uint8_t other[16] = {9};
    for (unsigned i = 0; i < 16 && key[i] == other[i]; i++)
        sink++;
}

/* The taint must come out of AES and through the arithmetic. */
LEAK void leak_pad(uint32_t aes, const uint8_t *key) {
    uvcci_aes a;
    uvcci_aes_init(&a, key, (uvcci_aes_backend)aes);
    uint64_t words[9] = {0};
    uvcci_prg_fill(&a, (uvcci_prg_at){.ordinal = 1}, 0, words, 9);
    if (words[8] * 3 >> 63)
        sink = 2;
}

/* A secret length is a secret address. Compilers must not see through the call. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;

LEAK void leak_length(const uint8_t *key) {
    uint8_t to[16] = {0};
    copy(to, "0123456789abcdef", key[1] & 15);
    sink = to[0];
}

static uint8_t key[16];

static void fresh_key(void) {
    for (unsigned i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)(3 * i);
    taint(key, sizeof key);
}

static void branch(void **state) {
    (void)state;
    fresh_key();
    leak_branch(key);
}
static void index_of_table(void **state) {
    (void)state;
    fresh_key();
    leak_index(key);
}
static void early_exit(void **state) {
    (void)state;
    fresh_key();
    leak_early_exit(key);
}
static void pad(void **state) {
    fresh_key();
    leak_pad(backend_of(state)->aes, key);
}
static void length(void **state) {
    (void)state;
    fresh_key();
    leak_length(key);
}

int test_leaks(void) {
    const struct CMUnitTest leaks[] = {
        SECRETS_TEST(branch),           SECRETS_TEST(index_of_table), SECRETS_TEST(early_exit),
        SECRETS_TEST_ON(pad, portable), SECRETS_TEST_ON(pad, avx2),   SECRETS_TEST(length),
    };
    return cmocka_run_group_tests(leaks, NULL, NULL);
}
