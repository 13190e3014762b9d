/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - what a client that is no party does: split values into shares, deal keys of numbers,
 * join components. */
#include <assert.h>
#include <string.h>
#include <uvcc/client.h>

#include "exec/base/bounds.h"
#include "exec/primitives/one_hot.h"
#include "proto/crypto.h"
#include "proto/ids.h"

int uvcc_client_split(const int64_t *v, size_t n, const uvcc_random *random, uint64_t *c0,
                      uint64_t *c1, uint64_t *c2) {
    if (v == NULL || random == NULL || random->fill == NULL || c0 == NULL || c1 == NULL ||
        c2 == NULL || n > SIZE_MAX / sizeof *c0)
        return UVCC_ERR_USAGE;
    if (random->fill(random->user, c0, n * sizeof *c0) != 0 ||
        random->fill(random->user, c1, n * sizeof *c1) != 0) {
        uvcci_wipe(c0, n * sizeof *c0);
        uvcci_wipe(c1, n * sizeof *c1);
        return UVCC_ERR_RANDOM;
    }
    for (size_t i = 0; i < n; i++)
        c2[i] = (uint64_t)v[i] - c0[i] - c1[i];
    return UVCC_OK;
}

void uvcc_client_combine(const uint64_t *c0, const uint64_t *c1, const uint64_t *c2, size_t n,
                         int64_t *v) {
    if (c0 == NULL || c1 == NULL || c2 == NULL || v == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(c0[i] + c1[i] + c2[i]);
}

/* ---- keys of numbers ---- */

uint32_t uvcc_client_key_words(unsigned bits) {
    return bits >= 1 && bits <= UVCCI_ONE_HOT_BITS_MAX ? uvcci_one_hot_key_words(bits) : 0;
}

typedef struct dealing {
    const uvcc_random *random;
    unsigned bits;
    const uint64_t *numbers;
    size_t n;
    uvcci_aes dpf[2];
} dealing;

/* The pair of one component: of who has it as its first one, and of who has it as its second. Only
 * the roots differ. */
static int deal_pair(const dealing *d, uint64_t *first, uint64_t *second) {
    enum { SOME = 1 << 16 }; /* a count of keys has 32 bits */
    const size_t words = uvcci_one_hot_key_words(d->bits);
    assert(first != second && words != 0);
    uint64_t *root[2] = {second + d->n * words, first + d->n * words};
    const size_t bytes = d->n * UVCCI_ONE_HOT_ROOT_WORDS * sizeof **root;
    for (unsigned i = 0; i < 2; i++)
        if (d->random->fill(d->random->user, root[i], bytes) != 0)
            return UVCC_ERR_RANDOM;
    for (size_t at = 0; at < d->n; at += SOME)
        uvcci_one_hot_gen(d->dpf, d->bits, (uint32_t)(d->n - at < SOME ? d->n - at : SOME),
                          d->numbers + at, root[0] + at * UVCCI_ONE_HOT_ROOT_WORDS,
                          root[1] + at * UVCCI_ONE_HOT_ROOT_WORDS, first + at * words);
    memcpy(second, first, d->n * words * sizeof *first);
    return 0;
}

static bool is_zero(const uint8_t *id) {
    uint8_t any = 0;
    for (unsigned i = 0; i < 32; i++)
        any |= id[i];
    return any == 0;
}

int uvcc_client_deal(const uint8_t sid_job[32], unsigned bits, const int64_t *numbers, size_t n,
                     const uvcc_random *random, uint64_t *share[3][2]) {
    if (sid_job == NULL || numbers == NULL || random == NULL || random->fill == NULL ||
        share == NULL || bits < 1 || bits > UVCCI_ONE_HOT_BITS_MAX || is_zero(sid_job))
        return UVCC_ERR_USAGE;
    const size_t words = uvcci_one_hot_key_words(bits) + UVCCI_ONE_HOT_ROOT_WORDS;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (share[p][0] == NULL || share[p][1] == NULL)
            return UVCC_ERR_USAGE;
    if (n > SIZE_MAX / 8 / words)
        return UVCC_ERR_LIMIT;
    dealing d = {
        .random = random, .bits = bits, .numbers = (const uint64_t *)(const void *)numbers, .n = n};
    int rc = uvcci_all_below(numbers, n, bits) ? 0 : UVCC_ERR_BOUND;
    if (rc == 0) {
        uint8_t key[2][16];
        uvcci_client_dpf(sid_job, key);
        for (unsigned i = 0; i < 2; i++)
            uvcci_aes_init(&d.dpf[i], key[i], UVCCI_AES_AUTO);
    }
    for (unsigned c = 0; c < UVCC_PARTIES && rc == 0; c++)
        rc = deal_pair(&d, share[c][0], share[(c + 2) % UVCC_PARTIES][1]);
    for (unsigned p = 0; p < UVCC_PARTIES && rc != 0; p++)
        for (unsigned i = 0; i < 2; i++)
            uvcci_wipe(share[p][i], n * words * sizeof *share[p][i]);
    return rc;
}
