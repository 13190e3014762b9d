/* SPDX-License-Identifier: Apache-2.0 */
/* dcf.c - see dcf.h.
 *
 * State: none. Points are evaluated a group at a time and level by level, as in dpf.c. In gen()
 * alpha and beta are secret: they only ever become masks and operands. In the evaluation x is
 * public to the edge; seeds, control bits and values are secret. Invariant: a node's control bit is
 * the lowest bit of its seed; between levels the sum of both parties' values is what x has passed
 * so far. */
#include "exec/primitives/dcf.h"

#include <assert.h>
#include <string.h>

#include "exec/primitives/fss_tree.h"
#include "proto/crypto.h"

enum { VALUES = UVCCI_DCF_WORDS_MAX / 2 };

/* Values of the nodes: pairs of words. in: memory for as many nodes. */
INLINE void node_values(const uvcci_aes *left, const uvcci_aes *right, const uint8_t *sel,
                        const node *seed, node *in, node v[VALUES][GROUP], uint32_t c, unsigned w) {
    assert(c <= GROUP && (w + 1) / 2 <= VALUES);
    for (unsigned k = 0; k < (w + 1) / 2; k++) {
        for (uint32_t i = 0; i < c; i++)
            in[i] = node_xor(seed[i], (node){2 * k + 1, 0});
        uvcci_aes_mmo2(left, right, sel, (const uint8_t *)in, (uint8_t *)v[k], c);
    }
}

/* Word j of the values. */
INLINE uint64_t value(node v[VALUES][GROUP], unsigned j, uint32_t i) {
    return j % 2 == 0 ? v[j / 2][i].lo : v[j / 2][i].hi;
}

static void check_shape(unsigned n, unsigned w) {
    assert(n >= 1 && n <= 64 && w >= 1 && w <= UVCCI_DCF_WORDS_MAX);
    (void)n, (void)w;
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct gen_state {
    gen_group tree;
    node in[GROUP], v[2][2][VALUES][GROUP];   /* [party][left, right] */
    uint64_t sum[UVCCI_DCF_WORDS_MAX][GROUP]; /* of both parties' values along alpha's path */
} gen_state;

/* The corrections that make the values of the child that alpha leaves what they must be: beta more
 * where x < alpha, else nothing. Before gen_level(), which moves the control bits on. */
static void gen_values(gen_state *g, uint32_t c, unsigned w, const uint64_t *alpha,
                       const uint64_t *beta, unsigned shift, uint8_t *cw) {
    for (uint32_t i = 0; i < c; i++)
        for (unsigned j = 0; j < w; j++) {
            const uint64_t right = 0 - (alpha[i] >> shift & 1), t1 = ~g->tree.t0[i];
            const uint64_t l = value(g->v[0][0], j, i) - value(g->v[1][0], j, i);
            const uint64_t r = value(g->v[0][1], j, i) - value(g->v[1][1], j, i);
            const uint64_t keep = l ^ ((l ^ r) & right), lose = l ^ r ^ keep;
            const uint64_t all_less = beta[(size_t)i * w + j] & right;
            const uint64_t x = all_less - lose - g->sum[j][i];
            uvcci_st64(cw + ((size_t)i * w + j) * 8, negate(x, t1));
            g->sum[j][i] += keep + x;
        }
}

/* Those of alpha's terminal: nothing is left of what was passed. */
static void gen_finals(gen_state *g, uint32_t c, unsigned w, uint8_t *finals) {
    for (uint32_t i = 0; i < c; i++)
        for (unsigned j = 0; j < w; j++) {
            const uint64_t d = value(g->v[1][0], j, i) - value(g->v[0][0], j, i) - g->sum[j][i];
            uvcci_st64(finals + ((size_t)i * w + j) * 8, negate(d, ~g->tree.t0[i]));
        }
}

/* Values first, then children, level by level: a value's correction needs the parents' control
 * bits. */
void uvcci_dcf_gen(const uvcci_aes dpf[2], unsigned n, unsigned w, uint32_t c,
                   const uint64_t *alpha, const uint64_t *beta, const uint8_t *root0,
                   const uint8_t *root1, uint8_t *key) {
    check_shape(n, w);
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dcf_wide_gen(dpf, n, w, c, alpha, beta, root0, root1, key);
        return;
    }
#endif
    const uvcci_dcf_sections s = uvcci_dcf_sections_of(n, w, c);
    assert(s.bits + (size_t)c * ((2 * n + 7) / 8) == uvcci_dcf_bytes(n, w, c));
    gen_state g;
    gen_group *tree = &g.tree;
    for (uint32_t at = 0; at < c; at += GROUP) {
        const uint32_t m = c - at < GROUP ? c - at : GROUP;
        gen_roots(tree, m, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        memset(g.sum, 0, sizeof g.sum);
        for (unsigned l = 0; l < n; l++) {
            for (unsigned p = 0; p < 2; p++)
                for (unsigned side = 0; side < 2; side++)
                    node_values(&dpf[side], &dpf[side], NULL, tree->seed[p], g.in, g.v[p][side], m,
                                w);
            gen_values(&g, m, w, alpha + at, beta + (size_t)at * w, n - 1 - l,
                       key + s.values + ((size_t)l * c + at) * w * 8);
            gen_children(dpf, tree, m, alpha + at, n, n, l, key + ((size_t)l * c + at) * BLOCK,
                         key + s.bits + (size_t)at * ((2 * n + 7) / 8));
        }
        for (unsigned p = 0; p < 2; p++)
            node_values(&dpf[0], &dpf[0], NULL, tree->seed[p], g.in, g.v[p][0], m, w);
        gen_finals(&g, m, w, key + s.finals + (size_t)at * w * 8);
    }
    uvcci_wipe(&g, sizeof g);
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* Nodes of one level, one for each key. */
typedef struct eval {
    node seed[GROUP]; /* the control bit in the lowest bit */
    node bare[GROUP]; /* without it: what is encrypted */
    node child[GROUP], in[GROUP], v[VALUES][GROUP];
    uint8_t right[GROUP / 8]; /* the side that x takes: a bit for each key */
} eval;

static void eval_roots(eval *g, uint32_t m, const uint8_t *root, bool party1) {
    for (uint32_t i = 0; i < m; i++) {
        g->bare[i] = g->seed[i] = seed_of(load(root + (size_t)i * BLOCK));
        g->seed[i].lo |= party1;
    }
}

static void eval_sides(eval *g, uint32_t m, const uint64_t *x, unsigned shift) {
    for (uint32_t at = 0; at < m; at += 64) {
        const uint32_t n = m - at < 64 ? m - at : 64;
        uint64_t sides = 0;
        for (uint32_t i = 0; i < n; i++)
            sides |= (x[at + i] >> shift & 1) << i;
        uvcci_st64(g->right + at / 8, sides);
    }
}

/* out += the values of these nodes, corrected where the control bit of those that cw is for is set.
 */
static void eval_add(eval *g, uint32_t m, unsigned w, const uint8_t *cw, bool party1,
                     uint64_t *out) {
    const uint64_t minus = 0 - (uint64_t)party1;
    for (uint32_t i = 0; i < m; i++)
        for (unsigned j = 0; j < w; j++) {
            const size_t at = (size_t)i * w + j;
            const uint64_t t = 0 - (g->seed[i].lo & 1);
            const uint64_t x = value(g->v, j, i) + (uvcci_ld64(cw + at * 8) & t);
            out[at] += negate(x, minus);
        }
}

/* To the children on x's side, which are there; bits: of level l, the first key's. */
static void eval_down(eval *g, uint32_t m, const uint64_t *x, unsigned shift, const uint8_t *level,
                      const uint8_t *bits, unsigned tb, unsigned l) {
    assert(m <= GROUP && l / 4 < tb && shift < 64);
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t both = (uint64_t)bits[(size_t)i * tb + l / 4] >> 2 * l % 8;
        node cw = seed_of(load(level + (size_t)i * BLOCK));
        cw.lo |= both >> (x[i] >> shift & 1) & 1;
        g->seed[i] = node_xor(g->child[i], node_and(cw, 0 - (g->seed[i].lo & 1)));
        g->bare[i] = seed_of(g->seed[i]);
    }
}

/* At each level the value of the node that x takes is added and the node becomes its child: so what
 * has been added is beta if x has parted from alpha to the left, and a share of 0 before. */
void uvcci_dcf_eval(const uvcci_aes dpf[2], const uvcci_dcf_keys *k, uint32_t first, uint32_t count,
                    const uint64_t *x, uint64_t *out) {
    check_shape(k->n, k->w);
    assert(first <= k->c && count <= k->c - first);
#if UVCCI_FSS_X86
    if (uvcci_fss_is_wide(dpf)) {
        uvcci_dcf_wide_eval(dpf, k, first, count, x, out);
        return;
    }
#endif
    const uvcci_dcf_sections s = uvcci_dcf_sections_of(k->n, k->w, k->c);
    const unsigned n = k->n, w = k->w, tb = (2 * n + 7) / 8;
    assert(s.bits + (size_t)k->c * tb == uvcci_dcf_bytes(n, w, k->c));
    eval g;
    memset(out, 0, (size_t)count * w * sizeof *out);
    while (count != 0) {
        const uint32_t m = count < GROUP ? count : GROUP;
        eval_roots(&g, m, k->root + (size_t)first * BLOCK, k->party1);
        for (unsigned l = 0; l < n; l++) {
            const unsigned shift = n - 1 - l;
            const size_t at = (size_t)l * k->c + first;
            eval_sides(&g, m, x, shift);
            node_values(&dpf[0], &dpf[1], g.right, g.bare, g.in, g.v, m, w);
            eval_add(&g, m, w, k->key + s.values + at * w * 8, k->party1, out);
            uvcci_aes_mmo2(&dpf[0], &dpf[1], g.right, (const uint8_t *)g.bare, (uint8_t *)g.child,
                           m);
            eval_down(&g, m, x, shift, k->key + at * BLOCK, k->key + s.bits + (size_t)first * tb,
                      tb, l);
        }
        node_values(&dpf[0], &dpf[0], NULL, g.bare, g.in, g.v, m, w);
        eval_add(&g, m, w, k->key + s.finals + (size_t)first * w * 8, k->party1, out);
        first += m;
        count -= m;
        x += m;
        out += (size_t)m * w;
    }
    uvcci_wipe(&g, sizeof g);
}
