/* SPDX-License-Identifier: Apache-2.0 */
/* multiscale.c - see multiscale.h.
 *
 * State: none. Some elements are evaluated together, level by level: of each the nodes above all
 * windows that are still to come, which lie side by side, and their number is the same for all. xh
 * is public to the edge; seeds, control bits and values only ever become operands. Invariant: a
 * node's control bit is the lowest bit of its seed, as in dpf.c. */
#include "exec/primitives/multiscale.h"

#include <assert.h>
#include <string.h>

#include "exec/primitives/fss_tree.h"
#include "proto/crypto.h"

enum { STEP = UVCCI_MULTISCALE_STEP, SPAN = UVCCI_MULTISCALE_SPAN, LEVELS_MAX = 64, PAIRS = 2 };

static void check_shape(const uvcci_multiscale *s) {
    assert(s->scales >= 1 && s->scales <= UVCCI_MULTISCALE_SCALES_MAX);
    assert(STEP * (s->scales - 1) < s->depth && s->shift + s->depth <= 64);
    (void)s;
}

/* Whether the nodes that are k levels above the lowest have values. */
INLINE bool has_values(const uvcci_multiscale *s, unsigned k) {
    return k % STEP == 0 && k / STEP < s->scales;
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct multiscale_key {
    size_t values, bits; /* offsets of the sections */
} multiscale_key;

INLINE multiscale_key sections(const uvcci_multiscale *s, uint32_t c) {
    const size_t values = (size_t)s->depth * c * BLOCK;
    return (multiscale_key){values, values + (size_t)s->scales * c * UVCCI_MULTISCALE_WORDS * 8};
}

typedef struct multiscale_gen {
    gen_group tree;
    uint64_t alpha[GROUP];
    node in[GROUP], value[2][PAIRS][GROUP]; /* [party][pair of words] */
} multiscale_gen;

INLINE uint64_t word_of(node pair[PAIRS][GROUP], unsigned j, uint32_t i) {
    return j % 2 == 0 ? pair[j / 2][i].lo : pair[j / 2][i].hi;
}

/* The value of alpha's node is (1, q, q^2): corrections of the words that its seed gives. */
static void gen_values(const uvcci_aes dpf[2], multiscale_gen *g, uint32_t m, const uint64_t *r,
                       unsigned n, uint8_t *to) {
    for (unsigned p = 0; p < 2; p++)
        for (unsigned pair = 0; pair < PAIRS; pair++) {
            for (uint32_t i = 0; i < m; i++)
                g->in[i] = node_xor(g->tree.seed[p][i], (node){2 * pair + 1, 0});
            mmo(&dpf[0], g->in, g->value[p][pair], m);
        }
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t q = uvcci_multiscale_low(r[i], n), t1 = ~g->tree.t0[i];
        const uint64_t beta[UVCCI_MULTISCALE_WORDS] = {1, q, q * q};
        for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
            const uint64_t w = beta[j] - word_of(g->value[0], j, i) + word_of(g->value[1], j, i);
            uvcci_st64(to + ((size_t)i * UVCCI_MULTISCALE_WORDS + j) * 8, negate(w, t1));
        }
    }
}

void uvcci_multiscale_gen(const uvcci_aes dpf[2], const uvcci_multiscale *s, uint32_t c,
                          const uint64_t *r, const uint8_t *root0, const uint8_t *root1,
                          uint8_t *key) {
    check_shape(s);
    const multiscale_key at_key = sections(s, c);
    const unsigned tb = (2 * s->depth + 7) / 8;
    multiscale_gen g;
    assert(at_key.bits + (size_t)c * tb == uvcci_multiscale_bytes(s->depth, s->scales, c));
    for (uint32_t at = 0; at < c; at += GROUP) {
        const uint32_t m = c - at < GROUP ? c - at : GROUP;
        gen_roots(&g.tree, m, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        for (uint32_t i = 0; i < m; i++)
            g.alpha[i] = r[at + i] >> s->shift;
        for (unsigned l = 0; l < s->depth; l++) {
            const unsigned k = s->depth - 1 - l;
            gen_children(dpf, &g.tree, m, g.alpha, s->depth, s->depth, l,
                         key + ((size_t)l * c + at) * BLOCK, key + at_key.bits + (size_t)at * tb);
            if (has_values(s, k))
                gen_values(dpf, &g, m, r + at, s->shift + k,
                           key + at_key.values +
                               ((size_t)k / STEP * c + at) * UVCCI_MULTISCALE_WORDS * 8);
        }
    }
    uvcci_wipe(&g, sizeof g);
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* Nodes of a level lie side by side, by index; there is room for two children too many at either
 * end and for the rest of a register. */
enum { SPARE = UVCCI_MULTISCALE_SPARE, CELLS = UVCCI_MULTISCALE_WINDOW };
enum {
    NODES = 4 * UVCCI_MULTISCALE_CELLS_MAX + 4 * SPARE,
    PARENTS = 2 * UVCCI_MULTISCALE_CELLS_MAX + 2
};

/* One element on its way down. */
typedef struct eval {
    _Alignas(64) node seed[2][NODES]; /* of a level, and of the next */
    uvcci_multiscale_wide wide;
    const uvcci_aes *dpf;
    const uvcci_multiscale *s;
    bool is_wide;
    uint32_t c; /* points of the key */
    const uint8_t *key;
    multiscale_key at;
    uint8_t low[LEVELS_MAX + 1], high[LEVELS_MAX + 1]; /* indices of the nodes of a level */
} eval;

/* Levels are counted from the lowest. The least and the greatest index that are above windows at or
 * below a level; the whole window at a scale. */
static void eval_ranges(eval *g) {
    g->low[0] = (uint8_t)g->s->cells;
    g->high[0] = (uint8_t)(4 * g->s->cells - 1);
    for (unsigned k = 1; k <= g->s->depth; k++) {
        g->low[k] = g->low[k - 1] / 2;
        g->high[k] = has_values(g->s, k) ? g->high[0] : (uint8_t)((g->high[k - 1] + 1) / 2);
        assert(g->low[k] <= g->high[k] && g->high[k] - g->low[k] + 1 + 4 * SPARE <= NODES);
    }
}

static void eval_root(eval *g, const uint8_t *root, bool party1) {
    const unsigned n = g->high[g->s->depth] - g->low[g->s->depth] + 1u;
    node x = seed_of(load(root));
    x.lo |= party1;
    for (unsigned i = 0; i < n; i++) /* all of them are the root */
        g->seed[g->s->depth % 2][SPARE + i] = x;
}

/* The correction words of level k for element e: of a left and of a right child. */
INLINE void eval_correction(const eval *g, unsigned k, uint32_t e, node cw[2]) {
    const unsigned l = g->s->depth - 1 - k, tb = (2 * g->s->depth + 7) / 8;
    const uint64_t both = (uint64_t)g->key[g->at.bits + (size_t)e * tb + l / 4] >> 2 * l % 8;
    cw[0] = cw[1] = seed_of(load(g->key + ((size_t)l * g->c + e) * BLOCK));
    cw[0].lo |= both & 1;
    cw[1].lo |= both >> 1 & 1;
}

/* The children of n nodes: right, left, the next node's right ... */
static void children(const uvcci_aes dpf[2], const node *from, unsigned n, const node cw[2],
                     node *to) {
    node in[PARENTS], left[PARENTS], right[PARENTS];
    for (unsigned j = 0; j < n; j++)
        in[j] = seed_of(from[j]);
    mmo(&dpf[0], in, left, n);
    mmo(&dpf[1], in, right, n);
    for (unsigned j = 0; j < n; j++) {
        const uint64_t t = 0 - (from[j].lo & 1);
        to[2 * j] = node_xor(right[j], node_and(cw[1], t));
        to[2 * j + 1] = node_xor(left[j], node_and(cw[0], t));
    }
    uvcci_wipe(in, sizeof in);
    uvcci_wipe(left, sizeof left);
    uvcci_wipe(right, sizeof right);
}

/* From level k + 1 to level k. Node z - i has the children 2 z - 2 i and the next; with z' = 2 z +
 * odd their indices are 2 i + odd and 2 i + odd - 1. */
INLINE void eval_down(eval *g, unsigned k, uint32_t e, uint64_t xh) {
    const unsigned first = g->low[k + 1], n = (g->high[k] + 1u) / 2 - first + 1;
    const unsigned odd = xh >> (g->s->shift + k) & 1;
    const node *from = g->seed[(k + 1) % 2] + SPARE;
    node cw[2], *to = g->seed[k % 2] + SPARE + 2 * first + odd - 1 - g->low[k];
    eval_correction(g, k, e, cw);
#if UVCCI_FSS_X86
    if (g->is_wide) {
        uvcci_multiscale_wide_children(&g->wide, from, n, cw, to);
        return;
    }
#endif
    children(g->dpf, from, n, cw, to);
}

/* The values (1, q) and q^2 of n nodes, times the factors: sum[j] of factor[j] and (1, q), sum[3]
 * of factor[2] and q^2. */
static void sums(const uvcci_aes *left, uvcci_multiscale_factors factor, const node *seed,
                 unsigned n, const uint64_t cw[UVCCI_MULTISCALE_WORDS], uint64_t sum[4][2]) {
    node value[PAIRS][CELLS];
    for (unsigned pair = 0; pair < PAIRS; pair++) {
        for (unsigned i = 0; i < n; i++)
            value[pair][i] = node_xor(seed_of(seed[i]), (node){2 * pair + 1, 0});
        mmo(left, value[pair], value[pair], n);
    }
    memset(sum, 0, 4 * sizeof sum[0]);
    for (unsigned i = 0; i < n; i++) {
        const uint64_t t = 0 - (seed[i].lo & 1);
        const uint64_t u = value[0][i].lo + (cw[0] & t), v = value[0][i].hi + (cw[1] & t);
        for (unsigned j = 0; j < 3; j++) {
            sum[j][0] += (uint64_t)factor[j][2 * i] * u;
            sum[j][1] += (uint64_t)factor[j][2 * i + 1] * v;
        }
        sum[3][0] += (uint64_t)factor[2][2 * i] * (value[1][i].lo + (cw[2] & t));
    }
    uvcci_wipe(value, sizeof value);
}

/* Cells of scale k that xh's element uses: those whose index at the next scale is below its first
 * cell. */
INLINE unsigned cells_used(const uvcci_multiscale *s, unsigned k, uint64_t xh) {
    const uint64_t z = xh >> uvcci_multiscale_bits(s, k);
    unsigned last = 4 * s->cells;
    if (k + 1 == s->scales)
        return last - s->cells;
    for (unsigned up = s->cells; up >= s->cells;) {
        up = --last;
        for (unsigned j = 0; j < STEP; j++)
            up = up % 2 == 0 ? up / 2 : (up + 1) / 2 - (z >> j & 1);
    }
    return last + 1 - s->cells;
}

/* What scale k's window adds: every one of its nodes, times its coefficients; of those that are not
 * above alpha the parties' values cancel. */
INLINE uint64_t eval_window(eval *g, unsigned k, uint32_t e, uint64_t xh,
                            uvcci_multiscale_factors factor) {
    const uint8_t *words =
        g->key + g->at.values + ((size_t)k * g->c + e) * UVCCI_MULTISCALE_WORDS * 8;
    const uint64_t cw[UVCCI_MULTISCALE_WORDS] = {uvcci_ld64(words), uvcci_ld64(words + 8),
                                                 uvcci_ld64(words + 16)};
    const node *seed = g->seed[STEP * k % 2] + SPARE + g->s->cells - g->low[STEP * k];
    const uint64_t lo = uvcci_multiscale_low(xh, uvcci_multiscale_bits(g->s, k));
    const unsigned n = cells_used(g->s, k, xh);
    uint64_t sum[4][2];
#if UVCCI_FSS_X86
    if (g->is_wide)
        uvcci_multiscale_wide_sums(&g->wide, factor, seed, n, cw, sum);
    else
#endif
        sums(&g->dpf[0], factor, seed, n, cw, sum);
    return sum[0][0] - sum[0][1] + sum[3][0] + lo * (sum[1][0] - 2 * sum[1][1] + lo * sum[2][0]);
}

/* Of all scales. */
static void find_factors(const uvcci_multiscale *s, const int64_t *words,
                         uvcci_multiscale_factors *to) {
    const unsigned cells = SPAN * s->cells;
    for (unsigned k = 0; k < s->scales; k++, to++, words += (size_t)UVCCI_MULTISCALE_WORDS * cells)
        for (unsigned i = 0; i < cells; i++)
            for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
                (*to)[j][2 * i] = words[(size_t)j * cells + i];
                (*to)[j][2 * i + 1] = j < 2 ? words[(size_t)(j + 1) * cells + i] : 0;
            }
}

/* Element by element, from the root down: at each scale, when its nodes are there, its window. */
void uvcci_multiscale_eval(const uvcci_aes dpf[2], const uvcci_multiscale *s, uint32_t c,
                           const uint64_t *xh, const uint8_t *root, bool party1, const uint8_t *key,
                           const int64_t *words, uint64_t *out) {
    check_shape(s);
    assert(s->cells >= 2 && s->cells <= UVCCI_MULTISCALE_CELLS_MAX);
    uvcci_multiscale_factors factor[UVCCI_MULTISCALE_SCALES_MAX];
    eval g;
    assert(sections(s, c).bits < uvcci_multiscale_bytes(s->depth, s->scales, c) || c == 0);
    g.dpf = dpf;
    g.s = s;
    g.c = c;
    g.key = key;
    g.at = sections(s, c);
    g.is_wide = uvcci_fss_is_wide(dpf);
    memset(g.seed, 0, sizeof g.seed);
#if UVCCI_FSS_X86
    if (g.is_wide)
        uvcci_multiscale_wide_begin(&g.wide, dpf);
#endif
    eval_ranges(&g);
    find_factors(s, words, factor);
    for (uint32_t e = 0; e < c; e++) {
        uint64_t sum = 0;
        eval_root(&g, root + (size_t)e * BLOCK, party1);
        for (unsigned k = s->depth; k-- > 0;) {
            eval_down(&g, k, e, xh[e]);
            if (has_values(s, k))
                sum += eval_window(&g, k / STEP, e, xh[e], factor[k / STEP]);
        }
        out[e] = negate(sum, 0 - (uint64_t)party1);
    }
    uvcci_wipe(&g, sizeof g);
}
