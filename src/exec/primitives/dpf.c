/* SPDX-License-Identifier: Apache-2.0 */
/* dpf.c - the 1-bit DPF on an edge: keys and evaluation.
 *
 * State: none. Points are evaluated a group at a time and level by level, so that one call encrypts
 * a whole group and the nodes stay in the first-level cache. CPUs with VAES do both in registers
 * (dpf_x86.c). In an evaluation a node's control bit is the lowest bit of its seed. In gen() alpha
 * is secret: it only ever becomes masks. In the evaluations x is public to the edge. Invariant:
 * between levels, seed 0 == seed 1 and t 0 == t 1 off alpha's path. */
#include "exec/primitives/dpf.h"

#include <assert.h>
#include <string.h>

#include "exec/primitives/fss_tree.h"
#include "exec/primitives/transpose.h"
#include "proto/crypto.h"

enum { TERMINAL_BITS = 7 };

typedef uvcci_dpf_eval_state eval_group;

INLINE unsigned terminal_mask(unsigned n) {
    return (1u << (n < TERMINAL_BITS ? n : TERMINAL_BITS)) - 1;
}

/* 2^(a mod 64), in which bit j is 1 where all bits of j and a agree. A shift by a would do it as
 * well, but not all CPUs and compilers shift by a secret in constant time. */
INLINE uint64_t power_of_two(uint64_t a) {
    static const uint64_t bit_of_j[6] = {0xaaaaaaaaaaaaaaaau, 0xccccccccccccccccu,
                                         0xf0f0f0f0f0f0f0f0u, 0xff00ff00ff00ff00u,
                                         0xffff0000ffff0000u, 0xffffffff00000000u};
    uint64_t agree = ~(uint64_t)0;
    for (unsigned i = 0; i < 6; i++)
        agree &= bit_of_j[i] ^ ((a >> i & 1) - 1);
    return agree;
}

INLINE uint8_t parity(uint64_t x) {
    return (uint8_t)__builtin_parityll(x);
}

/* --- Keys ------------------------------------------------------------------------------------- */

/* Level by level, from both roots to the terminal blocks; of the two children the one that alpha
 * does not take becomes the same for both parties, so that everything below it cancels. */
static void gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                const uint8_t *root0, const uint8_t *root1, uint8_t *levels, uint8_t *terminals,
                uint8_t *bits, uint8_t *sign) {
    const unsigned depth = uvcci_dpf_levels(n), tb = (2 * depth + 7) / 8;
    gen_group g;
    assert(depth <= 64 - TERMINAL_BITS && tb <= 16);
    for (uint32_t at = 0; at < c; at += GROUP) {
        const uint32_t m = c - at < GROUP ? c - at : GROUP;
        gen_roots(&g, m, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        for (unsigned l = 0; l < depth; l++)
            gen_children(dpf, &g, m, alpha + at, n, depth, l, levels + ((size_t)l * c + at) * BLOCK,
                         bits + (size_t)at * tb);
        for (unsigned p = 0; p < 2; p++)
            mmo(&dpf[0], g.seed[p], g.child[p][0], m);
        for (uint32_t i = 0; i < m; i++) {
            const uint64_t a = alpha[at + i] & terminal_mask(n), upper = 0 - (a >> 6);
            const uint64_t one = power_of_two(a);
            const node point = {one & ~upper, one & upper};
            const node cw = node_xor(node_xor(g.child[0][0][i], g.child[1][0][i]), point);
            store(terminals + (size_t)(at + i) * BLOCK, cw);
            if (sign != NULL) {
                const node terminal = node_xor(g.child[0][0][i], node_and(cw, g.t0[i]));
                sign[at + i] = parity((terminal.lo & point.lo) ^ (terminal.hi & point.hi));
            }
        }
    }
    uvcci_wipe(&g, sizeof g);
}

void uvcci_dpf_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                   const uint8_t *root0, const uint8_t *root1, uint8_t *levels, uint8_t *terminals,
                   uint8_t *bits, uint8_t *sign) {
    assert(n >= 1 && n <= 64);
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dpf_wide_gen(dpf, n, c, alpha, root0, root1, levels, terminals, bits, sign);
        return;
    }
#endif
    gen(dpf, n, c, alpha, root0, root1, levels, terminals, bits, sign);
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* right[l] = bit l of every x, as the selection of a level. */
static void eval_directions(eval_group *g, uint32_t c, const uint64_t *x, unsigned n) {
    for (uint32_t at = 0; at < c; at += 64) {
        uint64_t q[64] = {0};
        memcpy(q, x + at, (c - at < 64 ? c - at : 64) * sizeof *q);
        uvcci_transpose64(q, 1);
        for (unsigned l = 0; l < n; l++)
            uvcci_st64(g->narrow.right[l] + at / 8, q[l]);
    }
}

INLINE void eval_roots(uvcci_dpf_nodes *g, uint32_t c, const uint8_t *root, bool party1) {
    for (uint32_t i = 0; i < c; i++) {
        g->seed[i] = seed_of(load(root + (size_t)i * BLOCK));
        g->seed[i].lo |= party1;
        g->passed[i] = (node){0, 0};
    }
}

/* The control bit as a mask. */
INLINE uint64_t control_of(node x) {
    return 0 - (x.lo & 1);
}

/* What is encrypted; eval_level() leaves that of the next level there. */
INLINE void eval_seeds(eval_group *g, uint32_t c) {
    for (uint32_t i = 0; i < c; i++)
        g->seed[i] = seed_of(g->nodes.seed[i]);
}

/* From level l to the next, with the children that x selects; `first`: no level came before. */
INLINE void eval_level(eval_group *g, uint32_t c, const uint64_t *x, unsigned l, unsigned shift,
                       const uint8_t *level, const uint8_t *bits, unsigned tb, bool first) {
    if (first || l % 4 == 0) /* a byte of control bits lasts four levels */
        for (uint32_t i = 0; i < c; i++)
            g->narrow.control[i] = bits[(size_t)i * tb + l / 4];
    for (uint32_t i = 0; i < c; i++) {
        const uint64_t right = 0 - (x[i] >> shift & 1);
        const uint64_t both = g->narrow.control[i] >> 2 * l % 8;
        node cw = seed_of(load(level + (size_t)i * BLOCK));
        cw.lo |= ((both & ~right) | (both >> 1 & right)) & 1;
        const node from = g->nodes.seed[i];
        const node to = node_xor(g->child[i], node_and(cw, control_of(from)));
        g->nodes.passed[i].lo ^= right & (from.lo ^ to.lo);
        g->nodes.seed[i] = to;
        g->seed[i] = seed_of(to);
    }
}

/* Once for all groups. */
static void eval_begin(const uvcci_aes dpf[2], eval_group *g) {
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf))
        uvcci_dpf_wide_begin(&g->wide, dpf);
#endif
    (void)dpf;
    (void)g;
}

/* Once for a group, before its evaluations. */
static void eval_keys(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k, uint32_t at,
                      uint32_t m) {
    assert(m >= 1 && m <= GROUP && at < k->c && m <= k->c - at);
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf))
        uvcci_dpf_wide_keys(&g->wide, k, at, m);
#endif
    (void)dpf, (void)g, (void)k, (void)at, (void)m;
}

/* Before an evaluation from the roots. */
static void eval_start(const uvcci_aes dpf[2], uvcci_dpf_nodes *g, const uvcci_dpf_keys *k,
                       uint32_t at, uint32_t m) {
    assert(m <= GROUP && k->root != NULL);
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dpf_wide_roots(g, k, at, m);
        return;
    }
#endif
    (void)dpf;
    eval_roots(g, m, k->root + (size_t)at * BLOCK, k->party1);
}

/* From the nodes of level `from` to those of level `to` above x. */
static void eval(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k, uint32_t at,
                 uint32_t m, const uint64_t *x, unsigned from, unsigned to) {
    assert(m <= GROUP && from <= to && to <= uvcci_dpf_levels(k->n));
    if (from == to)
        return;
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dpf_wide_eval(dpf, g, k, at, m, x, from, to);
        return;
    }
#endif
    const unsigned tb = (2 * uvcci_dpf_levels(k->n) + 7) / 8;
    eval_directions(g, m, x, k->n);
    eval_seeds(g, m);
    for (unsigned l = from; l < to; l++) {
        const unsigned shift = k->n - 1 - l;
        uvcci_aes_mmo2(&dpf[0], &dpf[1], g->narrow.right[shift], (const uint8_t *)g->seed,
                       (uint8_t *)g->child, m);
        eval_level(g, m, x, l, shift, k->levels + ((size_t)l * k->c + at) * BLOCK,
                   k->bits + (size_t)at * tb, tb, l == from);
    }
}

/* The terminal blocks above x. */
static void eval_terminals(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k,
                           uint32_t at, uint32_t m) {
    eval_seeds(g, m);
    mmo(&dpf[0], g->seed, g->child, m);
    for (uint32_t i = 0; i < m; i++) {
        const node cw = load(k->terminals + (size_t)(at + i) * BLOCK);
        g->child[i] = node_xor(g->child[i], node_and(cw, control_of(g->nodes.seed[i])));
    }
}

static void eval_prefix(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k, uint32_t at,
                        uint32_t m, const uint64_t *x, uint8_t *out) {
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dpf_wide_prefix(dpf, g, k, at, m, x, out);
        return;
    }
#endif
    eval_terminals(dpf, g, k, at, m);
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t terminal = x[i] & terminal_mask(k->n), upper = 0 - (terminal >> 6);
        const uint64_t one = (uint64_t)1 << (terminal & 63), to_one = one | (one - 1);
        const node sum = {g->child[i].lo & (to_one | upper), g->child[i].hi & to_one & upper};
        out[i] = parity(sum.lo ^ sum.hi ^ (g->nodes.passed[i].lo & 1));
    }
}

static void eval_point(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k, uint32_t at,
                       uint32_t m, const uint64_t *x, uint8_t *out) {
    eval_terminals(dpf, g, k, at, m);
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t terminal = x[i] & terminal_mask(k->n);
        out[i] = (terminal < 64 ? g->child[i].lo : g->child[i].hi) >> terminal % 64 & 1;
    }
}

typedef void (*eval_end)(const uvcci_aes dpf[2], eval_group *g, const uvcci_dpf_keys *k,
                         uint32_t at, uint32_t m, const uint64_t *x, uint8_t *out);

/* One point of each key, down to its terminal. */
static void eval_each(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, const uint64_t *x,
                      uint8_t *out, eval_end end) {
    assert(k->n >= 1 && k->n <= 64);
    eval_group g;
    eval_begin(dpf, &g);
    for (uint32_t at = 0; at < k->c; at += GROUP) {
        const uint32_t m = k->c - at < GROUP ? k->c - at : GROUP;
        eval_keys(dpf, &g, k, at, m);
        eval_start(dpf, &g.nodes, k, at, m);
        eval(dpf, &g, k, at, m, x + at, 0, uvcci_dpf_levels(k->n));
        end(dpf, &g, k, at, m, x + at, out + at);
    }
    uvcci_wipe(&g, sizeof g);
}

void uvcci_dpf_prefix(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *x,
                      const uint8_t *root, bool party1, const uint8_t *levels,
                      const uint8_t *terminals, const uint8_t *bits, uint8_t *out) {
    const uvcci_dpf_keys k = {n, c, party1, root, levels, terminals, bits};
    eval_each(dpf, &k, x, out, eval_prefix);
}

enum { WORTH = 8 /* levels of evaluations that are saved, for two evaluations more */ };

/* Many points of each key: x less thresholds, which are in ascending order relative to the first.
 * The points of neighbouring thresholds less than 2^s apart have two nodes at most above them at
 * level n - s: those above the two ends. */
typedef struct many {
    const uvcci_aes *dpf;
    const uvcci_dpf_keys *k;
    unsigned count, index[64];
    uint64_t less[64], offset[64]; /* from the first threshold given, n bits with their sign */
    unsigned level;                /* of the ends */
    uint64_t end_less[2];
    uvcci_dpf_nodes end[2], next;
    uint64_t x[GROUP];
    uint8_t share[GROUP];
    eval_group eval;
} many;

/* In ascending order; an insertion sort, as there are 64 at most. */
static void many_thresholds(many *g, const uint64_t *less, unsigned count) {
    const unsigned spare = 64 - g->k->n;
    assert(count >= 1 && count <= sizeof g->less / sizeof *g->less);
    g->count = count;
    for (unsigned j = 0; j < count; j++) {
        const int64_t d = (int64_t)((less[j] - less[0]) << spare) >> spare;
        unsigned to = j;
        for (; to != 0 && (int64_t)g->offset[to - 1] > d; to--) {
            g->index[to] = g->index[to - 1];
            g->less[to] = g->less[to - 1];
            g->offset[to] = g->offset[to - 1];
        }
        g->index[to] = j;
        g->less[to] = less[j];
        g->offset[to] = (uint64_t)d;
    }
}

/* From one of the ends, or from the root, to the nodes of level `to` above x - less. */
static void many_eval(many *g, const uint64_t *x, uint32_t at, uint32_t m, uint64_t less,
                      unsigned to) {
    const unsigned n = g->k->n, level = g->level;
    assert(level <= to && to <= uvcci_dpf_levels(n));
    for (uint32_t i = 0; i < m; i++)
        g->x[i] = x[i] - less;
    if (level == 0)
        eval_start(g->dpf, &g->eval.nodes, g->k, at, m);
    else
        for (uint32_t i = 0; i < m; i++) {
            const uint64_t differ = (x[i] - g->end_less[0]) ^ g->x[i];
            const uvcci_dpf_nodes *end = &g->end[differ << (64 - n) >> (64 - level) != 0];
            g->eval.nodes.seed[i] = end->seed[i];
            g->eval.nodes.passed[i] = end->passed[i];
        }
    eval(g->dpf, &g->eval, g->k, at, m, g->x, level, to);
}

/* The ends become those of the thresholds [first, last], at a lower level. */
static void many_descend(many *g, const uint64_t *x, uint32_t at, uint32_t m, unsigned first,
                         unsigned last, unsigned level) {
    assert(first < last && last < g->count && level > g->level);
    many_eval(g, x, at, m, g->less[last], level);
    g->next = g->eval.nodes;
    many_eval(g, x, at, m, g->less[first], level);
    g->end[1] = g->eval.nodes;
    g->end[0] = g->next;
    g->end_less[0] = g->less[last];
    g->end_less[1] = g->less[first];
    g->level = level;
}

/* Each of the thresholds [first, last] by an evaluation of its own, from the ends on. */
static void many_singly(many *g, const uint64_t *x, uint32_t at, uint32_t m, unsigned first,
                        unsigned last, uint64_t *out) {
    assert(first <= last && last < g->count);
    for (unsigned j = first; j <= last; j++) {
        many_eval(g, x, at, m, g->less[j], uvcci_dpf_levels(g->k->n));
        eval_prefix(g->dpf, &g->eval, g->k, at, m, g->x, g->share);
        for (uint32_t i = 0; i < m; i++)
            out[i] |= (uint64_t)g->share[i] << g->index[j];
    }
}

/* Two evaluations to the level where the thresholds part; those beyond their widest gap go on
 * alone. */
static void many_group(many *g, const uint64_t *x, uint32_t at, uint32_t m, uint64_t *out) {
    const unsigned n = g->k->n, depth = uvcci_dpf_levels(n);
    unsigned first = 0, last = g->count - 1;
    eval_keys(g->dpf, &g->eval, g->k, at, m);
    memset(out, 0, m * sizeof *out);
    g->level = 0;
    while (last - first >= 2) {
        unsigned level = n;
        while (level != 0 && (g->offset[last] - g->offset[first]) >> (n - level) != 0)
            level--;
        level = level < depth ? level : depth;
        if (level > g->level && (last - first - 1) * (level - g->level) >= WORTH)
            many_descend(g, x, at, m, first, last, level);
        if (level == depth)
            break;
        unsigned gap = first + 1;
        for (unsigned j = gap + 1; j <= last; j++)
            if (g->offset[j] - g->offset[j - 1] > g->offset[gap] - g->offset[gap - 1])
                gap = j;
        assert(gap > first && gap <= last);
        if (gap - first <= last - gap + 1) {
            many_singly(g, x, at, m, first, gap - 1, out);
            first = gap;
        } else {
            many_singly(g, x, at, m, gap, last, out);
            last = gap - 1;
        }
    }
    many_singly(g, x, at, m, first, last, out);
}

void uvcci_dpf_prefixes(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, const uint64_t *x,
                        const uint64_t *less, unsigned count, uint64_t *out) {
    assert(k->n >= 1 && k->n <= 64 && count >= 1 && count <= 64);
    many g;
    g.dpf = dpf;
    g.k = k;
    many_thresholds(&g, less, count);
    eval_begin(dpf, &g.eval);
    for (uint32_t at = 0; at < k->c; at += GROUP)
        many_group(&g, x + at, at, k->c - at < GROUP ? k->c - at : GROUP, out + at);
    uvcci_wipe(&g, sizeof g);
}

void uvcci_dpf_point(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *x,
                     const uint8_t *root, bool party1, const uint8_t *levels,
                     const uint8_t *terminals, const uint8_t *bits, uint8_t *out) {
    const uvcci_dpf_keys k = {n, c, party1, root, levels, terminals, bits};
    eval_each(dpf, &k, x, out, eval_point);
}

/* --- Windows ---------------------------------------------------------------------------------- */

/* At least the terminal blocks of one key's longest window. */
enum { WINDOW_NODES = 640 };

/* Nodes of one level, key after key: of each key those above its window, from left to right. */
typedef struct window_group {
    node seed[WINDOW_NODES + 1], child[2][WINDOW_NODES];
    uint64_t t[2][WINDOW_NODES]; /* control bits as masks, of this level and the next */
} window_group;

/* Nodes of level l above the terminals first .. first + len - 1 of 2^n. A window that goes on from
 * the last terminal to the first is that of two trees side by side: it begins with two roots. */
INLINE uint32_t nodes_above(unsigned n, unsigned l, uint64_t first, uint32_t len) {
    const unsigned below = n - l;
    if (below == 64)
        return first + (len - 1) < first ? 2 : 1;
    return (uint32_t)(((first & (((uint64_t)1 << below) - 1)) + len - 1) >> below) + 1;
}

INLINE void window_roots(window_group *g, const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                         const uint64_t *first, uint32_t len) {
    uint32_t to = 0;
    for (uint32_t i = 0; i < m; i++) {
        const node root = seed_of(load(k->root + (size_t)(at + i) * BLOCK));
        for (uint32_t j = nodes_above(k->n, 0, first[i], len); j != 0; j--) {
            g->seed[to] = root;
            g->t[0][to++] = k->party1 ? ~(uint64_t)0 : 0;
        }
    }
    assert(to <= WINDOW_NODES);
}

/* From the nodes of level l to those of the next; both children of all of them are there. */
INLINE uint32_t window_level(window_group *g, const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                             const uint64_t *first, uint32_t len, unsigned l) {
    const unsigned tb = (2 * uvcci_dpf_levels(k->n) + 7) / 8;
    const uint8_t *cws = k->levels + ((size_t)l * k->c + at) * BLOCK;
    const uint8_t *control = k->bits + (size_t)at * tb + l / 4;
    const uint64_t *t = g->t[l & 1];
    uint64_t *t_next = g->t[~l & 1];
    uint32_t from = 0, to = 0;
    for (uint32_t i = 0; i < m; i++) {
        const node cw = load(cws + (size_t)i * BLOCK);
        const uint64_t both = (uint64_t)control[(size_t)i * tb] >> 2 * l % 8;
        const uint64_t t_cw[2] = {both & 1, both >> 1 & 1};
        const uint32_t begin = first[i] >> (k->n - 1 - l) & 1;
        const uint32_t end = begin + nodes_above(k->n, l + 1, first[i], len);
        for (uint32_t j = begin; j < end; j++, to++) {
            const node child = g->child[j & 1][from + j / 2];
            const uint64_t mask = t[from + j / 2];
            g->seed[to] = node_xor(seed_of(child), node_and(cw, mask));
            t_next[to] = 0 - ((child.lo ^ (mask & t_cw[j & 1])) & 1);
        }
        from += (end + 1) / 2;
    }
    assert(to <= WINDOW_NODES);
    return to;
}

/* `len` bits from bit `skip` of x. Reads a word beyond the last that it needs. */
INLINE void window_bits(const node *x, unsigned skip, uint32_t len, uint64_t *out) {
    const uint64_t *w = (const uint64_t *)(const void *)x + skip / 64;
    const uint32_t words = uvcci_dpf_window_words(len);
    const unsigned s = skip % 64;
    for (uint32_t j = 0; j < words; j++)
        out[j] = w[j] >> s | w[j + 1] << 1 << (63 - s);
    out[words - 1] &= ~(uint64_t)0 >> (64 * words - len);
}

/* The terminal blocks of all keys, and out of them each key's window. */
INLINE void window_terminals(window_group *g, const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                             const uint64_t *first, uint32_t len, uint64_t *out) {
    const unsigned depth = uvcci_dpf_levels(k->n), words = uvcci_dpf_window_words(len);
    uint32_t from = 0;
    for (uint32_t i = 0; i < m; i++) {
        const uint32_t n_blocks = nodes_above(k->n, depth, first[i], len);
        const node cw = load(k->terminals + (size_t)(at + i) * BLOCK);
        node *block = g->seed + from;
        for (uint32_t j = 0; j < n_blocks; j++)
            block[j] = node_xor(g->child[0][from + j], node_and(cw, g->t[depth & 1][from + j]));
        if (k->n < TERMINAL_BITS) { /* two trees in a block */
            const unsigned terminals = 1u << k->n;
            block->lo &= ~(uint64_t)0 >> (64 - terminals);
            block->hi = block->lo;
            if (terminals < 64)
                block->lo |= block->lo << terminals;
        }
        window_bits(block, first[i] & terminal_mask(k->n), len, out + (size_t)i * words);
        from += n_blocks;
    }
    assert(from <= WINDOW_NODES);
}

/* As many keys at a time as have room for their windows' nodes: level by level, the nodes that some
 * terminal of the window lies below, so a prefix is made once for all of them. */
INLINE void window(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                   const uint64_t *first, uint32_t len, uint64_t *out) {
    assert(k->n >= 1 && k->n <= 64 && len >= 1 && len <= UVCCI_DPF_WINDOW_MAX);
    assert(k->n >= 16 || len <= 1u << k->n);
    const unsigned depth = uvcci_dpf_levels(k->n);
    const uint32_t group = WINDOW_NODES / ((len + 126) / 128 + 1);
    window_group g;
    g.seed[WINDOW_NODES] = (node){0, 0};
    while (m != 0) {
        const uint32_t now = m < group ? m : group;
        uint32_t nodes = 0;
        for (uint32_t i = 0; i < now; i++)
            nodes += nodes_above(k->n, 0, first[i], len);
        window_roots(&g, k, at, now, first, len);
        for (unsigned l = 0; l < depth; l++) {
            mmo(&dpf[0], g.seed, g.child[0], nodes);
            mmo(&dpf[1], g.seed, g.child[1], nodes);
            nodes = window_level(&g, k, at, now, first, len, l);
        }
        mmo(&dpf[0], g.seed, g.child[0], nodes);
        window_terminals(&g, k, at, now, first, len, out);
        out += (size_t)now * uvcci_dpf_window_words(len);
        first += now;
        at += now;
        m -= now;
    }
    uvcci_wipe(&g, sizeof g);
}

#if UVCCI_FSS_X86
/* Many keys side by side, if their windows are short enough for that. */
static bool window_wide(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                        const uint64_t *first, uint32_t len, uint64_t *out) {
    const uint32_t group = UVCCI_DPF_WIDE_NODES / uvcci_dpf_wide_blocks(len) / 32 * 32;
    if (!uvcci_fss_is_wide(dpf) || k->n < TERMINAL_BITS || group == 0)
        return false;
    uvcci_dpf_wide_windows g;
    uvcci_dpf_wide_begin(&g.wide, dpf);
    while (m != 0) {
        uint32_t now = m < group ? m : group;
        now = now < GROUP ? now : GROUP;
        assert(now * uvcci_dpf_wide_blocks(len) <= UVCCI_DPF_WIDE_NODES);
        uvcci_dpf_wide_keys(&g.wide, k, at, now);
        uvcci_dpf_wide_window(dpf, &g, k, at, now, first, len, out);
        out += (size_t)now * uvcci_dpf_window_words(len);
        first += now;
        at += now;
        m -= now;
    }
    uvcci_wipe(&g, sizeof g);
    return true;
}
#endif

void uvcci_dpf_window(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                      const uint64_t *first, uint32_t len, uint64_t *out) {
    assert(at <= k->c && m <= k->c - at && len >= 1);
#if UVCCI_FSS_X86
    if (window_wide(dpf, k, at, m, first, len, out))
        return;
#endif
    window(dpf, k, at, m, first, len, out);
}

void uvcci_dpf_full(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint64_t *out) {
    assert(k->n >= 1 && k->n <= 20);
    const uint32_t size = 1u << k->n;
    const uint32_t len = size < UVCCI_DPF_WINDOW_MAX ? size : UVCCI_DPF_WINDOW_MAX;
    for (uint32_t i = 0; i < k->c; i++)
        for (uint64_t first = 0; first < size; first += len) {
            uvcci_dpf_window(dpf, k, i, 1, &first, len, out);
            out += uvcci_dpf_window_words(len);
        }
}
