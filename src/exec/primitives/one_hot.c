/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.c - see one_hot.h. Everything but the nodes' AES is a few operations on words: what is
 * wide here is the AES, of the nodes of one level of several keys at a time. A point decides by
 * masks, a range is public. */
#include "exec/primitives/one_hot.h"

#include "exec/primitives/fss_tree.h"
#include "proto/crypto.h"

#include <string.h>

enum { LEAF = UVCCI_ONE_HOT_LEAF };

/* Where a key has its control bits, and its final words. */
static inline uint32_t final_at(unsigned levels) {
    return 2 * levels;
}
static inline uint32_t control_at(unsigned levels) {
    return 2 * levels + LEAF;
}

/* Words of nodes: MMO_left(s ^ 1) and MMO_left(s ^ 3). */
INLINE void leaf_words(const uvcci_aes *left, const node *seed, uint32_t n, node *low, node *high) {
    for (uint32_t i = 0; i < n; i++) {
        low[i] = (node){seed[i].lo ^ 1, seed[i].hi};
        high[i] = (node){seed[i].lo ^ 3, seed[i].hi};
    }
    mmo(left, low, low, n);
    mmo(left, high, high, n);
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct key_group {
    gen_group g;
    uint64_t points[GROUP];
    node words[2][2][GROUP]; /* of party 0 and 1, the low and the high two */
    uint8_t level[GROUP * BLOCK], control[GROUP * sizeof(uint64_t)];
} key_group;

/* The final words give the point the difference 1, its neighbours none. */
static void gen_final(const uvcci_aes *left, key_group *k, uint32_t m, unsigned levels,
                      uint32_t key_words, uint64_t *keys) {
    for (unsigned p = 0; p < 2; p++)
        leaf_words(left, k->g.seed[p], m, k->words[p][0], k->words[p][1]);
    for (uint32_t i = 0; i < m; i++) {
        uint64_t *to = keys + (size_t)i * key_words + final_at(levels);
        for (unsigned j = 0; j < LEAF; j++) {
            const node *v0 = &k->words[0][j / 2][i], *v1 = &k->words[1][j / 2][i];
            const uint64_t other = (k->points[i] % LEAF) ^ j;
            const uint64_t here = ((other | (0 - other)) >> 63) ^ 1;
            const uint64_t less = j % 2 == 0 ? v0->lo - v1->lo : v0->hi - v1->hi;
            to[j] = negate(here - less, ~k->g.t0[i]);
        }
    }
}

/* Keys of at most GROUP points. */
static void gen_some(const uvcci_aes dpf[2], unsigned n, uint32_t m, key_group *k, uint64_t *keys) {
    const unsigned levels = uvcci_one_hot_levels(n), control_bytes = (2 * levels + 7) / 8;
    const uint32_t key_words = uvcci_one_hot_key_words(n);
    memset(k->control, 0, sizeof k->control);
    for (unsigned l = 0; l < levels; l++) {
        gen_children(dpf, &k->g, m, k->points, n, levels, l, k->level, k->control);
        for (uint32_t i = 0; i < m; i++) {
            const node cw = load(k->level + (size_t)i * BLOCK);
            uint64_t *to = keys + (size_t)i * key_words + 2 * l;
            to[0] = cw.lo;
            to[1] = cw.hi;
        }
    }
    gen_final(&dpf[0], k, m, levels, key_words, keys);
    for (uint32_t i = 0; i < m && levels != 0; i++) {
        uint64_t bits = 0;
        for (unsigned b = 0; b < control_bytes; b++)
            bits |= (uint64_t)k->control[(size_t)i * control_bytes + b] << 8 * b;
        keys[(size_t)i * key_words + control_at(levels)] = bits;
    }
}

void uvcci_one_hot_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *points,
                       const uint64_t *root0, const uint64_t *root1, uint64_t *keys) {
    const uint64_t mask = ((uint64_t)1 << n) - 1;
    key_group k;
    assert(n >= 1 && n <= UVCCI_ONE_HOT_BITS_MAX);
    for (uint32_t at = 0; at < c; at += GROUP) {
        const uint32_t m = c - at < GROUP ? c - at : GROUP;
        for (uint32_t i = 0; i < m; i++)
            k.points[i] = points[at + i] & mask;
        gen_roots(&k.g, m, (const uint8_t *)(root0 + 2 * (size_t)at),
                  (const uint8_t *)(root1 + 2 * (size_t)at));
        gen_some(dpf, n, m, &k, keys + (size_t)at * uvcci_one_hot_key_words(n));
    }
    uvcci_wipe(&k, sizeof k);
}

/* --- Expansion -------------------------------------------------------------------------------- */

/* Nodes of one level of a few keys, key after key, each from left to right. */
enum { NODES = 1024 };
typedef struct expansion {
    node seed[NODES], child[2][NODES];
    uint64_t t[2][NODES]; /* control bits as masks, of this level and the next */
} expansion;

/* Of the leaves first .. first + count - 1, those nodes at level l of `levels` that are above one.
 */
typedef struct span {
    uint64_t first;
    uint32_t count;
} span;
INLINE span span_at(span leaves, unsigned levels, unsigned l) {
    const unsigned below = levels - l;
    const uint64_t first = leaves.first >> below;
    const uint64_t last = (leaves.first + leaves.count - 1) >> below;
    return (span){first, (uint32_t)(last - first) + 1};
}

INLINE const uint64_t *key_of(const uvcci_one_hot_keys *k, uint32_t i) {
    return k->keys + (size_t)i * k->step * uvcci_one_hot_key_words(k->n);
}

INLINE void expand_roots(expansion *g, const uvcci_one_hot_keys *k, uint32_t at, uint32_t m) {
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t *root = k->roots + (size_t)(at + i) * k->step * UVCCI_ONE_HOT_ROOT_WORDS;
        g->seed[i] = seed_of((node){root[0], root[1]});
        g->t[0][i] = k->party1 ? ~(uint64_t)0 : 0;
    }
}

/* From level l to the next; both children of all nodes are there. */
INLINE void expand_level(expansion *g, const uvcci_one_hot_keys *k, uint32_t at, uint32_t m,
                         unsigned l, span above, span here) {
    const unsigned levels = uvcci_one_hot_levels(k->n);
    const uint32_t skip = (uint32_t)(here.first - 2 * above.first);
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t *key = key_of(k, at + i);
        const node cw = {key[2 * (size_t)l] & ~(uint64_t)1, key[2 * (size_t)l + 1]};
        const uint64_t both = key[control_at(levels)] >> 2 * l;
        const uint64_t t_cw[2] = {both & 1, both >> 1 & 1};
        const uint32_t from = i * above.count, to = i * here.count;
        for (uint32_t j = 0; j < here.count; j++) {
            const uint32_t side = (j + skip) & 1, parent = from + (j + skip) / 2;
            const node child = g->child[side][parent];
            const uint64_t mask = g->t[l & 1][parent];
            g->seed[to + j] = node_xor(seed_of(child), node_and(cw, mask));
            g->t[~l & 1][to + j] = 0 - ((child.lo ^ (mask & t_cw[side])) & 1);
        }
    }
}

/* The points first .. first + cols - 1 out of the words of their leaves. */
INLINE void expand_leaves(const expansion *g, const uvcci_one_hot_keys *k, uint32_t at, uint32_t i,
                          span leaves, uint64_t first, uint32_t cols, uint64_t *out) {
    const unsigned levels = uvcci_one_hot_levels(k->n);
    const uint64_t *final = key_of(k, at + i) + final_at(levels);
    const uint64_t sign = k->party1 ? ~(uint64_t)0 : 0;
    const uint32_t skip = (uint32_t)(first - leaves.first * LEAF), from = i * leaves.count;
    for (uint32_t j = 0; j < leaves.count; j++) {
        const node low = g->child[0][from + j], high = g->child[1][from + j];
        const uint64_t t = g->t[levels & 1][from + j];
        const uint64_t word[LEAF] = {
            negate(low.lo + (final[0] & t), sign), negate(low.hi + (final[1] & t), sign),
            negate(high.lo + (final[2] & t), sign), negate(high.hi + (final[3] & t), sign)};
        const uint32_t begin = j * LEAF; /* in points from the first leaf's first */
        if (begin >= skip && begin + LEAF <= skip + cols) {
            memcpy(out + (begin - skip), word, sizeof word);
            continue;
        }
        for (uint32_t w = 0; w < LEAF; w++)
            if (begin + w >= skip && begin + w < skip + cols)
                out[begin + w - skip] = word[w];
    }
}

/* As many keys at a time as have room for their nodes: level by level, the nodes that some leaf of
 * the range lies below. */
static void expand_range(const uvcci_aes dpf[2], const uvcci_one_hot_keys *k, uint64_t first,
                         uint32_t cols, uint64_t *out, size_t stride, expansion *g) {
    const unsigned levels = uvcci_one_hot_levels(k->n);
    const uint64_t begin = first / LEAF, end = (first + cols - 1) / LEAF;
    const span leaves = {begin, (uint32_t)(end - begin) + 1};
    const uint32_t group = NODES / leaves.count;
    assert(group != 0);
    for (uint32_t at = 0; at < k->c; at += group) {
        const uint32_t m = k->c - at < group ? k->c - at : group;
        expand_roots(g, k, at, m);
        for (unsigned l = 0; l < levels; l++) {
            const span above = span_at(leaves, levels, l);
            mmo(&dpf[0], g->seed, g->child[0], (size_t)m * above.count);
            mmo(&dpf[1], g->seed, g->child[1], (size_t)m * above.count);
            expand_level(g, k, at, m, l, above, span_at(leaves, levels, l + 1));
        }
        leaf_words(&dpf[0], g->seed, m * leaves.count, g->child[0], g->child[1]);
        for (uint32_t i = 0; i < m; i++)
            expand_leaves(g, k, at, i, leaves, first, cols, out + (at + i) * stride);
    }
}

void uvcci_one_hot_expand(const uvcci_aes dpf[2], const uvcci_one_hot_keys *k, uint64_t first,
                          uint32_t cols, uint64_t *out) {
    enum { PART = NODES * LEAF };
    expansion g;
    assert(k->n >= 1 && k->n <= UVCCI_ONE_HOT_BITS_MAX && first + cols <= (uint64_t)1 << k->n);
    for (uint64_t at = first; at < first + cols;) {
        const uint64_t next = (at / PART + 1) * PART; /* so that a part has NODES leaves */
        const uint64_t end = next < first + cols ? next : first + cols;
        expand_range(dpf, k, at, (uint32_t)(end - at), out + (at - first), cols, &g);
        at = end;
    }
    uvcci_wipe(&g, sizeof g);
}

void uvcci_one_hot_rows(unsigned n, uint32_t c, uint32_t step, const uint64_t *points,
                        uint64_t first, uint32_t cols, uint64_t *out) {
    const uint64_t mask = ((uint64_t)1 << n) - 1;
    for (uint32_t i = 0; i < c; i++) {
        const uint64_t point = points[(size_t)i * step] & mask;
        for (uint32_t j = 0; j < cols; j++) {
            const uint64_t other = point ^ (first + j);
            out[(size_t)i * cols + j] = ((other | (0 - other)) >> 63) ^ 1;
        }
    }
}
