/* SPDX-License-Identifier: Apache-2.0 */
/* public_random.c - numbers that everybody has alike, out of a public seed. */
#include "exec/model/public_random.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/prg.h"

#include <assert.h>
#include <string.h>

void uvcci_public_random_key(uvcci_aes *key, const char *label, uint64_t seed, uint32_t number) {
    uint8_t buf[48], digest[32];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put(&w, label, strlen(label));
    uvcci_put64(&w, seed);
    uvcci_put32(&w, number);
    uvcci_sha256_once(buf, w.len, digest);
    uvcci_aes_init(key, digest, UVCCI_AES_AUTO);
}

uint64_t uvcci_mul_high(uint64_t a, uint64_t b) {
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t mid = a1 * b0 + (a0 * b0 >> 32); /* cannot overflow */
    uint64_t mid2 = a0 * b1 + (uint32_t)mid;
    return a1 * b1 + (mid >> 32) + (mid2 >> 32);
}

void uvcci_public_random_uniform(const uvcci_aes *key, int64_t limit, int64_t *out, size_t count) {
    assert(limit >= 0 && limit <= INT64_MAX / 2);
    uint64_t word[256];
    const size_t room = sizeof word / sizeof word[0];
    for (size_t at = 0; at < count; at += room) {
        size_t n = count - at < room ? count - at : room;
        uvcci_prg_fill(key, (uvcci_prg_at){0}, at, word, n);
        for (size_t i = 0; i < n; i++)
            out[at + i] = (int64_t)uvcci_mul_high(word[i], 2 * (uint64_t)limit + 1) - limit;
    }
}
