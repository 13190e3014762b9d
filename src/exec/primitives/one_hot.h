/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.h - DPF keys of one-hot rows: the point function with the value 1 in Z_2^64 at a secret
 * point, of which each of two holders expands any range of points into additive shares
 * (protocols.md, "Rows by one-hot keys").
 *
 * The tree is that of dpf.h on the upper n - 2 bits. What ends a path is four words for the points
 * of equal upper bits, words 0 and 1 of MMO_left(s ^ 1), 2 and 3 of MMO_left(s ^ 3): with two words
 * a key would be as long and its expansion half as much again. A key is whole words, so keys of a
 * vector stand one behind the other whatever their number is. */
#ifndef UVCCI_ONE_HOT_H
#define UVCCI_ONE_HOT_H

#include "proto/aes.h"
#include <stdbool.h>
#include <stdint.h>

enum { UVCCI_ONE_HOT_BITS_MAX = 32, UVCCI_ONE_HOT_LEAF = 4, UVCCI_ONE_HOT_LEAF_BITS = 2 };

static inline unsigned uvcci_one_hot_levels(unsigned n) {
    return n > UVCCI_ONE_HOT_LEAF_BITS ? n - UVCCI_ONE_HOT_LEAF_BITS : 0;
}
/* Words of a key: a seed for each level, four final words, the control bits. */
static inline uint32_t uvcci_one_hot_key_words(unsigned n) {
    const unsigned levels = uvcci_one_hot_levels(n);
    return 2 * levels + UVCCI_ONE_HOT_LEAF + (levels != 0);
}
enum { UVCCI_ONE_HOT_ROOT_WORDS = 2 };

/* Keys of c points, of which the lowest n bits count, 1 <= n <= UVCCI_ONE_HOT_BITS_MAX; roots, two
 * words each, are those of the holder whose control bit begins with 0, and of the other. */
void uvcci_one_hot_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *points,
                       const uint64_t *root0, const uint64_t *root1, uint64_t *keys);

/* Keys of one holder. */
typedef struct uvcci_one_hot_keys {
    unsigned n;
    uint32_t c, step; /* so many keys, each the step-th after the one before */
    bool party1;      /* its control bits begin with 1 */
    const uint64_t *keys, *roots;
} uvcci_one_hot_keys;
/* out[i][j] = this holder's share of [point i = first + j], j < cols; first + cols <= 2^n, all of
 * it public. */
void uvcci_one_hot_expand(const uvcci_aes dpf[2], const uvcci_one_hot_keys *k, uint64_t first,
                          uint32_t cols, uint64_t *out);
/* The rows themselves: the points are in the clear, and secret. */
void uvcci_one_hot_rows(unsigned n, uint32_t c, uint32_t step, const uint64_t *points,
                        uint64_t first, uint32_t cols, uint64_t *out);

#endif
