/* SPDX-License-Identifier: Apache-2.0 */
/* fss_tree.h - nodes of trees and a level of keys, as the trees of dpf.c, dcf.c and multiscale.c
 * have them: portable code, inlined where it is compiled for a CPU. For these files only. */
#ifndef UVCCI_FSS_TREE_H
#define UVCCI_FSS_TREE_H

#include "exec/primitives/dpf.h"
#include "proto/bytes.h"
#include <assert.h>

#define INLINE static inline __attribute__((always_inline))

enum { GROUP = UVCCI_DPF_GROUP, BLOCK = 16 };

typedef uvcci_dpf_node node;

INLINE node load(const uint8_t *p) {
    return (node){uvcci_ld64(p), uvcci_ld64(p + 8)};
}

INLINE void store(uint8_t *p, node x) {
    uvcci_st64(p, x.lo);
    uvcci_st64(p + 8, x.hi);
}

INLINE node node_xor(node a, node b) {
    return (node){a.lo ^ b.lo, a.hi ^ b.hi};
}

INLINE node node_and(node a, uint64_t mask) {
    return (node){a.lo & mask, a.hi & mask};
}

/* b where the mask is set, else a. */
INLINE node node_pick(node a, node b, uint64_t mask) {
    return node_xor(a, node_and(node_xor(a, b), mask));
}

INLINE node seed_of(node x) {
    return (node){x.lo & ~(uint64_t)1, x.hi};
}

INLINE void mmo(const uvcci_aes *key, const node *in, node *out, size_t n) {
    uvcci_aes_mmo2(key, key, NULL, (const uint8_t *)in, (uint8_t *)out, n);
}

/* x, or -x where the mask is set. */
INLINE uint64_t negate(uint64_t x, uint64_t mask) {
    return (x ^ mask) - mask;
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct gen_group {
    node seed[2][GROUP];
    node child[2][2][GROUP]; /* [party][left, right] */
    uint64_t t0[GROUP];      /* control bit of party 0 as a mask; party 1 has the other */
    uint64_t control[GROUP]; /* control bits of four levels, a byte of the key */
} gen_group;

/* From the children, which are there, to the next level: the correction words, and the nodes on
 * alpha's path of both parties. alpha decides by masks. */
INLINE void gen_level(gen_group *g, uint32_t c, const uint64_t *alpha, unsigned shift, unsigned two,
                      uint8_t *level) {
    for (uint32_t i = 0; i < c; i++) {
        const uint64_t a = alpha[i] >> shift & 1, right = 0 - a, t0 = g->t0[i];
        const node left_sum = node_xor(g->child[0][0][i], g->child[1][0][i]);
        const node right_sum = node_xor(g->child[0][1][i], g->child[1][1][i]);
        const node cw =
            seed_of(node_pick(right_sum, left_sum, right)); /* makes the lost children equal */
        const uint64_t t_left = (left_sum.lo & 1) ^ a ^ 1, t_right = (right_sum.lo & 1) ^ a;
        const uint64_t t_cw = 0 - ((t_left & ~right) | (t_right & right));
        store(level + (size_t)i * BLOCK, cw);
        g->control[i] |= (t_left | t_right << 1) << two;

        const node keep0 = node_pick(g->child[0][0][i], g->child[0][1][i], right);
        const node keep1 = node_pick(g->child[1][0][i], g->child[1][1][i], right);
        g->seed[0][i] = node_xor(seed_of(keep0), node_and(cw, t0));
        g->seed[1][i] = node_xor(seed_of(keep1), node_and(cw, ~t0));
        g->t0[i] = (0 - (keep0.lo & 1)) ^ (t0 & t_cw);
    }
}

INLINE void gen_roots(gen_group *g, uint32_t c, const uint8_t *root0, const uint8_t *root1) {
    assert(c <= GROUP);
    for (uint32_t i = 0; i < c; i++) {
        g->seed[0][i] = seed_of(load(root0 + (size_t)i * BLOCK));
        g->seed[1][i] = seed_of(load(root1 + (size_t)i * BLOCK));
        g->t0[i] = g->control[i] = 0;
    }
}

/* From level l of `depth` to the next. */
INLINE void gen_children(const uvcci_aes dpf[2], gen_group *g, uint32_t c, const uint64_t *alpha,
                         unsigned n, unsigned depth, unsigned l, uint8_t *level, uint8_t *bits) {
    const unsigned tb = (2 * depth + 7) / 8;
    assert(c <= GROUP && l < depth && l < n && n <= 64);
    for (unsigned p = 0; p < 2; p++) {
        mmo(&dpf[0], g->seed[p], g->child[p][0], c);
        mmo(&dpf[1], g->seed[p], g->child[p][1], c);
    }
    gen_level(g, c, alpha, n - 1 - l, 2 * l % 8, level);
    if (l % 4 == 3 || l + 1 == depth)
        for (uint32_t i = 0; i < c; i++) {
            bits[(size_t)i * tb + l / 4] = (uint8_t)g->control[i];
            g->control[i] = 0;
        }
}

#endif
