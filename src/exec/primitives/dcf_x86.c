/* SPDX-License-Identifier: Apache-2.0 */
/* dcf_x86.c - the trees of dcf.c by AVX-512 and VAES (fss_wide.h).
 *
 * A node's child and its values come from encryptions under the same round keys, side by side.
 * Words are taken in pairs, a pair in the halves of a node: with w words, the second half of the
 * last pair counts for nothing where w is odd. */
#include "exec/primitives/dcf.h"

#include "exec/primitives/fss_wide.h"

#if UVCCI_FSS_X86

#include "proto/crypto.h"

enum { PAIRS = UVCCI_DCF_WORDS_MAX / 2 };
/* Registers of nodes in flight, each encrypted once for its child and once for each pair. */
enum { NODE_REGS = 4, NODES = NODE_REGS * PER_REG };

/* How the pairs of four nodes lie in memory: w words each, in eight words from the first on and in
 * the eight that end with the last. */
typedef struct words {
    unsigned w, last; /* where the latter begin */
    __m512i from[PAIRS], to[2];
    __mmask8 there[PAIRS];
} words;

WIDE_INLINE words words_of(unsigned w) {
    assert(w >= 1 && w <= UVCCI_DCF_WORDS_MAX);
    words x = {.w = w, .last = w > 2 ? 4 * w - 8 : 0};
    for (unsigned k = 0; k < PAIRS; k++) {
        _Alignas(64) uint64_t from[8] = {0};
        x.there[k] = 0;
        for (unsigned j = 0; j < 8; j++) {
            const unsigned word = j / 2 * w + 2 * k + j % 2;
            if (2 * k + j % 2 >= w)
                continue;
            x.there[k] |= (__mmask8)(1u << j);
            from[j] = word < 8 ? word : 8 + word - x.last;
        }
        x.from[k] = _mm512_load_si512(from);
    }
    for (unsigned h = 0; h < 2; h++) {
        _Alignas(64) uint64_t to[8];
        for (unsigned j = 0; j < 8; j++) {
            const unsigned word = h * x.last + j, pair = word % w / 2;
            to[j] = 8 * pair + 2 * (word / w % PER_REG) + word % w % 2;
        }
        x.to[h] = _mm512_load_si512(to);
    }
    return x;
}

/* The masks of words [first, first + 8) of `count`. */
WIDE_INLINE __mmask8 words_part(uint32_t count, uint32_t first) {
    return count <= first ? 0 : count - first >= 8 ? 0xff : (__mmask8)((1u << (count - first)) - 1);
}

/* Pair k of `pairs` of four nodes, of which `count` are there. */
WIDE_INLINE __m512i load_pair(const words *x, unsigned pairs, unsigned k, const void *p,
                              uint32_t count) {
    const uint32_t n = (count < PER_REG ? count : PER_REG) * x->w;
    const __m512i a = _mm512_maskz_loadu_epi64(words_part(n, 0), p);
    if (pairs == 1)
        return _mm512_maskz_permutexvar_epi64(x->there[k], x->from[k], a);
    const __m512i b =
        _mm512_maskz_loadu_epi64(words_part(n, x->last), (const uint64_t *)p + x->last);
    return _mm512_maskz_permutex2var_epi64(x->there[k], a, x->from[k], b);
}

WIDE_INLINE void store_pairs(const words *x, const __m512i pair[PAIRS], unsigned pairs, void *p,
                             uint32_t count) {
    const uint32_t n = (count < PER_REG ? count : PER_REG) * x->w;
    const __m512i second = pairs == 2 ? pair[1] : pair[0];
    _mm512_mask_storeu_epi64(p, words_part(n, 0),
                             _mm512_permutex2var_epi64(pair[0], x->to[0], second));
    if (pairs == 2)
        _mm512_mask_storeu_epi64((uint64_t *)p + x->last, words_part(n, x->last),
                                 _mm512_permutex2var_epi64(pair[0], x->to[1], second));
}

/* --- Evaluation ------------------------------------------------------------------------------- */

typedef struct eval {
    uvcci_dpf_wide wide;
    _Alignas(64) uvcci_dpf_node sum[PAIRS][UVCCI_DPF_GROUP]; /* of the values passed */
} eval;

/* What the NODES nodes from i on need: the same round keys for a child and for its values. */
typedef struct sides {
    __mmask8 mask[NODE_REGS];
    const __m512i *picked[NODE_REGS];
} sides;

WIDE_INLINE sides sides_of(const uvcci_dpf_wide *w, unsigned bit, uint32_t i) {
    const uint8_t *right = (const uint8_t *)w->right[bit] + i / 8;
    const uint8_t *rights = (const uint8_t *)w->rights[bit] + i / PER_REG;
    sides s;
    UNROLL for (unsigned j = 0; j < NODE_REGS; j++) {
        s.mask[j] = rights[j];
        s.picked[j] =
            (const __m512i *)(const void *)w->round_key[right[j / 2] >> (j % 2 == 0 ? 0 : 4) & 15];
    }
    return s;
}

/* The values of NODES nodes from i on are added to the sums, and with `down` the nodes become their
 * children. cw, values: of level l, for `count` nodes. */
WIDE_INLINE void step(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1], eval *g,
                      uint32_t i, uint32_t count, unsigned bit, const words *x, unsigned pairs,
                      bool down, __m512i shift, const uint8_t *cw, const uint8_t *values) {
    const __m512i one = low_half(1);
    uvcci_dpf_four *four = g->wide.four + i / PER_REG;
    const sides side = sides_of(&g->wide, bit, i);
    __m512i s[NODE_REGS], v[PAIRS][NODE_REGS];
    /* At a terminal all go left. Half of the others' keys are blended: see BLENDED. */
#define ROUND_KEY(r)                                                                               \
    (!down               ? left[r]                                                                 \
     : j < NODE_REGS / 2 ? _mm512_mask_blend_epi64(side.mask[j], left[r], right[r])                \
                         : side.picked[j][r])
    UNROLL for (unsigned j = 0; j < NODE_REGS; j++) {
        s[j] = _mm512_ternarylogic_epi64(ROUND_KEY(0), *reg(four[j].seed), one, A_XOR_B_ANDNOT_C);
        UNROLL for (unsigned k = 0; k < pairs; k++) {
            v[k][j] = _mm512_xor_si512(s[j], low_half(2 * k + 1));
        }
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned j = 0; j < NODE_REGS; j++) {
            const __m512i key = ROUND_KEY(r);
            if (down && r < ROUNDS)
                s[j] = _mm512_aesenc_epi128(s[j], key);
            UNROLL for (unsigned k = 0; k < pairs; k++) {
                v[k][j] = aes_round(v[k][j], key, r);
            }
        }
    }
    UNROLL for (unsigned j = 0; j < NODE_REGS; j++) {
        const __m512i node = *reg(four[j].seed);
        const __m512i bare = _mm512_andnot_si512(one, node);
        const __mmask8 t = control_mask(node);
        const uint32_t to = j * PER_REG, there = to < count ? count - to : 0;
        UNROLL for (unsigned k = 0; k < pairs; k++) {
            const __m512i cwv = load_pair(x, pairs, k, values + (size_t)to * x->w * 8, there);
            __m512i value =
                _mm512_ternarylogic_epi64(v[k][j], bare, low_half(2 * k + 1), A_XOR_B_XOR_C);
            value = _mm512_mask_add_epi64(value, t, value, cwv);
            __m512i *sum = reg(g->sum[k] + i + to);
            *sum = _mm512_add_epi64(*sum, value);
        }
        if (down) {
            const __m512i correct = _mm512_srlv_epi64(*reg(four[j].path), shift);
            const __m512i word = _mm512_ternarylogic_epi64(
                one, correct, load_part(cw + to * BLOCK, part(count, to)), A_PICKS_B_ELSE_C);
            const __m512i last = _mm512_xor_si512(ROUND_KEY(ROUNDS), bare);
            *reg(four[j].seed) =
                _mm512_aesenclast_epi128(s[j], _mm512_mask_xor_epi64(last, t, last, word));
        }
    }
#undef ROUND_KEY
}

/* A group of keys from the roots to the terminals; `pairs` is a constant where this is inlined, so
 * that values of two words take no registers of four. */
WIDE_INLINE void eval_all(const uvcci_aes dpf[2], eval *g, const uvcci_dcf_keys *k,
                          uvcci_dcf_sections at, uint32_t first, uint32_t m, const words *x,
                          unsigned pairs) {
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    assert(m >= 1 && m <= UVCCI_DPF_GROUP && pairs == (x->w + 1) / 2);
    const __m512i one = low_half(1), control = low_half(k->party1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i root = load_part(k->root + (size_t)(first + i) * BLOCK, part(m, i));
        *reg(g->wide.four[i / PER_REG].seed) =
            _mm512_ternarylogic_epi64(one, control, root, A_PICKS_B_ELSE_C);
        UNROLL for (unsigned p = 0; p < pairs; p++) {
            *reg(g->sum[p] + i) = _mm512_setzero_si512();
        }
    }
    for (unsigned l = 0; l < k->n; l++) {
        if (l % CONTROL_LEVELS == 0)
            eval_path(&g->wide, m, k->n, l / CONTROL_LEVELS, NULL);
        const __m512i shift = _mm512_set1_epi64(2 * (l % CONTROL_LEVELS));
        const size_t to = (size_t)l * k->c + first;
        const uint8_t *cw = k->key + to * BLOCK, *values = k->key + at.values + to * x->w * 8;
        for (uint32_t i = 0; i < m; i += NODES)
            step(left, right, g, i, m - i, k->n - 1 - l, x, pairs, true, shift,
                 cw + (size_t)i * BLOCK, values + (size_t)i * x->w * 8);
    }
    const uint8_t *finals = k->key + at.finals + (size_t)first * x->w * 8;
    for (uint32_t i = 0; i < m; i += NODES)
        step(left, right, g, i, m - i, 0, x, pairs, false, one, NULL,
             finals + (size_t)i * x->w * 8);
}

/* As uvcci_dcf_eval(), a group at a time, with the points' turns and the control bits' corrections
 * made ready for all levels before the first. */
WIDE void uvcci_dcf_wide_eval(const uvcci_aes dpf[2], const uvcci_dcf_keys *k, uint32_t first,
                              uint32_t count, const uint64_t *points, uint64_t *out) {
    const uvcci_dcf_sections at = uvcci_dcf_sections_of(k->n, k->w, k->c);
    const unsigned tb = (2 * k->n + 7) / 8;
    const words x = words_of(k->w);
    eval g;
    assert(first <= k->c && count <= k->c - first);
    assert(at.bits + (size_t)k->c * tb == uvcci_dcf_bytes(k->n, k->w, k->c));
    uvcci_dpf_wide_begin(&g.wide, dpf);
    while (count != 0) {
        const uint32_t m = count < UVCCI_DPF_GROUP ? count : UVCCI_DPF_GROUP;
        const uint8_t *bits = k->key + at.bits, *end = bits + (size_t)k->c * tb;
        bits += (size_t)first * tb;
        memcpy(g.wide.x, points, (size_t)m * sizeof *points);
        load_control(g.wide.control[0], bits, end, tb, m);
        if (k->n > CONTROL_LEVELS)
            load_control(g.wide.control[1], bits + 8, end, tb, m);
        eval_turns(&g.wide, m, 0, k->n - 1);
        if (k->w <= 2)
            eval_all(dpf, &g, k, at, first, m, &x, 1);
        else
            eval_all(dpf, &g, k, at, first, m, &x, 2);
        for (uint32_t i = 0; i < m; i++)
            for (unsigned j = 0; j < k->w; j++) {
                const uvcci_dpf_node *sum = &g.sum[j / 2][i];
                const uint64_t share = j % 2 == 0 ? sum->lo : sum->hi;
                out[(size_t)i * k->w + j] = k->party1 ? 0 - share : share;
            }
        first += m;
        count -= m;
        points += m;
        out += (size_t)m * k->w;
    }
    uvcci_wipe(&g, sizeof g);
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct gen_state {
    gen_group tree;
    _Alignas(64)
        uvcci_dpf_node sum[PAIRS][UVCCI_DPF_GROUP]; /* of both parties' values, alpha's path */
} gen_state;

/* Children and values of four nodes of both parties: [party][left, right]. */
WIDE_INLINE void gen_expand(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                            const gen_group *g, uint32_t i, unsigned pairs, __m512i child[2][2],
                            __m512i v[PAIRS][2][2]) {
    UNROLL for (unsigned p = 0; p < 2; p++) {
        const __m512i node = *node_at(g->seed[p] + i);
        child[p][0] = add_seed(left[0], node);
        child[p][1] = add_seed(right[0], node);
        UNROLL for (unsigned k = 0; k < pairs; k++) {
            v[k][p][0] = _mm512_xor_si512(child[p][0], low_half(2 * k + 1));
            v[k][p][1] = _mm512_xor_si512(child[p][1], low_half(2 * k + 1));
        }
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned p = 0; p < 2; p++) {
            child[p][0] = aes_round(child[p][0], left[r], r);
            child[p][1] = aes_round(child[p][1], right[r], r);
            UNROLL for (unsigned k = 0; k < pairs; k++) {
                v[k][p][0] = aes_round(v[k][p][0], left[r], r);
                v[k][p][1] = aes_round(v[k][p][1], right[r], r);
            }
        }
    }
    UNROLL for (unsigned p = 0; p < 2; p++) {
        const __m512i node = *node_at(g->seed[p] + i);
        UNROLL for (unsigned side = 0; side < 2; side++) {
            child[p][side] = add_seed(child[p][side], node);
            UNROLL for (unsigned k = 0; k < pairs; k++) {
                v[k][p][side] =
                    _mm512_xor_si512(add_seed(v[k][p][side], node), low_half(2 * k + 1));
            }
        }
    }
}

/* -x where the mask is set. */
WIDE_INLINE __m512i negated(__m512i x, __mmask8 k) {
    return _mm512_mask_sub_epi64(x, k, _mm512_setzero_si512(), x);
}

/* Keys of a group: what gen_values() and gen_level() of the portable files do, four keys to a
 * register. alpha decides by masks. */
WIDE_INLINE void gen_all(const uvcci_aes dpf[2], gen_state *g, unsigned n, uint32_t c, uint32_t at,
                         uint32_t m, const uint64_t *beta, const words *x, unsigned pairs,
                         uint8_t *key) {
    const uvcci_dcf_sections s = uvcci_dcf_sections_of(n, x->w, c);
    __m512i left[ROUNDS + 1], right[ROUNDS + 1], child[2][2], v[PAIRS][2][2], cw[PAIRS];
    gen_group *tree = &g->tree;
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    for (unsigned l = 0; l < n; l++) {
        const __m512i alpha_bit = _mm512_set1_epi64((long long)((uint64_t)1 << (n - 1 - l)));
        uint8_t *level = key + ((size_t)l * c + at) * BLOCK;
        uint8_t *values = key + s.values + ((size_t)l * c + at) * x->w * 8;
        for (uint32_t i = 0; i < m; i += PER_REG) {
            const __mmask8 goes_right = _mm512_test_epi64_mask(*reg(tree->alpha + i), alpha_bit);
            const __mmask8 t1 = (__mmask8)~control_mask(*reg(tree->seed[0] + i));
            gen_expand(left, right, tree, i, pairs, child, v);
            UNROLL for (unsigned k = 0; k < pairs; k++) {
                const __m512i l_sum = _mm512_sub_epi64(v[k][0][0], v[k][1][0]);
                const __m512i r_sum = _mm512_sub_epi64(v[k][0][1], v[k][1][1]);
                const __m512i keep = _mm512_mask_blend_epi64(goes_right, l_sum, r_sum);
                const __m512i lose = _mm512_mask_blend_epi64(goes_right, r_sum, l_sum);
                const __m512i all_less = _mm512_maskz_mov_epi64(
                    goes_right, load_pair(x, pairs, k, beta + (size_t)i * x->w, m - i));
                __m512i *sum = reg(g->sum[k] + i);
                const __m512i add = _mm512_sub_epi64(_mm512_sub_epi64(all_less, lose), *sum);
                cw[k] = negated(add, t1);
                *sum = _mm512_add_epi64(*sum, _mm512_add_epi64(keep, add));
            }
            store_pairs(x, cw, pairs, values + (size_t)i * x->w * 8, m - i);
            gen_correct(tree, i, part(m, i), goes_right, child, l, level + (size_t)i * BLOCK);
        }
    }
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __mmask8 t1 = (__mmask8)~control_mask(*reg(tree->seed[0] + i));
        gen_expand(left, right, tree, i, pairs, child, v);
        UNROLL for (unsigned k = 0; k < pairs; k++) {
            const __m512i less = _mm512_sub_epi64(v[k][1][0], v[k][0][0]);
            cw[k] = negated(_mm512_sub_epi64(less, *reg(g->sum[k] + i)), t1);
        }
        store_pairs(x, cw, pairs, key + s.finals + (size_t)(at + i) * x->w * 8, m - i);
    }
}

WIDE void uvcci_dcf_wide_gen(const uvcci_aes dpf[2], unsigned n, unsigned w, uint32_t c,
                             const uint64_t *alpha, const uint64_t *beta, const uint8_t *root0,
                             const uint8_t *root1, uint8_t *key) {
    const uvcci_dcf_sections s = uvcci_dcf_sections_of(n, w, c);
    const unsigned tb = (2 * n + 7) / 8;
    const words x = words_of(w);
    gen_state g;
    assert(n >= 1 && n <= 64 && s.bits + (size_t)c * tb == uvcci_dcf_bytes(n, w, c));
    for (uint32_t at = 0; at < c; at += UVCCI_DPF_GROUP) {
        const uint32_t m = c - at < UVCCI_DPF_GROUP ? c - at : UVCCI_DPF_GROUP;
        gen_roots(&g.tree, m, alpha + at, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        memset(g.sum, 0, sizeof g.sum);
        if (w <= 2)
            gen_all(dpf, &g, n, c, at, m, beta + (size_t)at * w, &x, 1, key);
        else
            gen_all(dpf, &g, n, c, at, m, beta + (size_t)at * w, &x, 2, key);
        gen_control(&g.tree, m, tb, key + s.bits + (size_t)at * tb);
    }
    uvcci_wipe(&g, sizeof g);
}

#endif
