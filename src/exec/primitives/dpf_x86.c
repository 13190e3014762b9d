/* SPDX-License-Identifier: Apache-2.0 */
/* dpf_x86.c - trees of the 1-bit DPF by AVX-512 and VAES (fss_wide.h).
 *
 * The children of 32 nodes are made and corrected without leaving the registers. Invariant: as in
 * dpf.c, a node's control bit is the lowest bit of its seed; a correction word carries, in its
 * lowest bit, the correction of that bit, so that one masked addition corrects both. */
#include "exec/primitives/fss_wide.h"

#if UVCCI_FSS_X86

#include "proto/crypto.h"

/* --- Evaluation ------------------------------------------------------------------------------- */

WIDE void uvcci_dpf_wide_begin(uvcci_dpf_wide *w, const uvcci_aes dpf[2]) {
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    for (unsigned p = 0; p < 1 << PER_REG; p++) {
        const __mmask8 k = (__mmask8)(_pdep_u32(p, 0x55) * 3);
        UNROLL for (unsigned r = 0; r <= ROUNDS; r++) {
            _mm512_store_si512(w->round_key[p][r], _mm512_mask_blend_epi64(k, left[r], right[r]));
        }
    }
}

WIDE void uvcci_dpf_wide_roots(uvcci_dpf_nodes *g, const uvcci_dpf_keys *k, uint32_t at,
                               uint32_t m) {
    assert(m <= UVCCI_DPF_GROUP && at < k->c && m <= k->c - at);
    const uint8_t *root = k->root + (size_t)at * BLOCK;
    const __m512i one = low_half(1), control = low_half(k->party1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i x = load_part(root + (size_t)i * BLOCK, part(m, i));
        *reg(g->seed + i) = _mm512_ternarylogic_epi64(one, control, x, A_PICKS_B_ELSE_C);
        *reg(g->passed + i) = _mm512_setzero_si512();
    }
}

WIDE void uvcci_dpf_wide_keys(uvcci_dpf_wide *w, const uvcci_dpf_keys *k, uint32_t at, uint32_t m) {
    const unsigned depth = uvcci_dpf_levels(k->n), tb = (2 * depth + 7) / 8;
    assert(m <= UVCCI_DPF_GROUP && at < k->c && m <= k->c - at);
    const uint8_t *bits = k->bits + (size_t)at * tb, *end = k->bits + (size_t)k->c * tb;
    load_control(w->control[0], bits, end, tb, m);
    if (depth > CONTROL_LEVELS)
        load_control(w->control[1], bits + 8, end, tb, m);
}

/* 32 nodes and what takes them to a level: a register of nodes every from_step nodes, and so on. */
typedef struct chunk {
    const uvcci_dpf_node *from, *second; /* second: the parents of those that `rights` names */
    uvcci_dpf_node *to;
    const uvcci_dpf_node *path;
    const uint8_t *right, *rights; /* which ones go right; */
    bool turned;                   /* left */
    const uint8_t *cw;             /* of `count` nodes */
    uint32_t count;
    __m512i shift;    /* to the level's correction in a path */
    uint8_t *control; /* gets the control bits of the parents, unless NULL */
    unsigned node_step, path_step;
} chunk;

WIDE_INLINE __m512i parent(const chunk *c, unsigned j) {
    const __m512i x = *node_at(c->from + j * c->node_step);
    if (c->second == NULL)
        return x;
    return _mm512_mask_mov_epi64(x, c->rights[j], *node_at(c->second + j * c->node_step));
}

/* 32 nodes to their children on the sides that their points take, all rounds of all registers in
 * flight at once. What a child is corrected by and the last round key are added together. Some
 * nodes blend their round keys from registers, the others load them (see BLENDED). */
WIDE_INLINE void descend(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                         const uvcci_dpf_wide *w, const chunk *c) {
    const __m512i one = low_half(1);
    const uint8_t turned = c->turned ? 0xff : 0;
    __m512i s[REGS];
    __mmask8 mask[REGS];
    const __m512i *picked[REGS];
    UNROLL for (unsigned j = 0; j < BLENDED; j++) {
        mask[j] = c->rights[j] ^ turned;
    }
    UNROLL for (unsigned j = BLENDED; j < REGS; j += 2) {
        const unsigned two = c->right[j / 2] ^ turned;
        picked[j] = (const __m512i *)(const void *)w->round_key[two & 15];
        picked[j + 1] = (const __m512i *)(const void *)w->round_key[two >> 4];
    }
#define ROUND_KEY(r)                                                                               \
    (j < BLENDED ? _mm512_mask_blend_epi64(mask[j], left[r], right[r]) : picked[j][r])
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        s[j] = _mm512_ternarylogic_epi64(ROUND_KEY(0), parent(c, j), one, A_XOR_B_ANDNOT_C);
    }
    UNROLL for (unsigned r = 1; r < ROUNDS; r++) {
        UNROLL for (unsigned j = 0; j < REGS; j++) {
            s[j] = _mm512_aesenc_epi128(s[j], ROUND_KEY(r));
        }
    }
    /* The seed and the correction are added with the last key. */
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        const __m512i node = parent(c, j);
        const __m512i bit = _mm512_srlv_epi64(*node_at(c->path + j * c->path_step), c->shift);
        const __m512i cw = _mm512_ternarylogic_epi64(
            one, bit, load_part(c->cw + j * 64, part(c->count, j * PER_REG)), A_PICKS_B_ELSE_C);
        const __m512i k = _mm512_ternarylogic_epi64(ROUND_KEY(ROUNDS), node, one, A_XOR_B_ANDNOT_C);
        const __mmask8 t = control_mask(node);
        if (c->control != NULL)
            c->control[j] = t;
        *reg(c->to + j * c->node_step) =
            _mm512_aesenclast_epi128(s[j], _mm512_mask_xor_epi64(k, t, k, cw));
    }
#undef ROUND_KEY
}

/* Where x goes right, the subtree to the left counts: its parity is that of the control bits of the
 * node and of the child that x goes to. */
WIDE_INLINE void eval_passed(uvcci_dpf_eval_state *g, uint32_t m, unsigned n, unsigned from,
                             unsigned to) {
    uvcci_dpf_wide *w = &g->wide;
    for (uint32_t i = 0; i < m; i += PER_REG) {
        *reg(g->nodes.seed + i) = *reg(w->four[i / PER_REG].seed);
        w->masks[to][i / PER_REG] = control_mask(*reg(g->nodes.seed + i));
    }
    __m512i passed = _mm512_setzero_si512();
    for (unsigned l = from; l < to; l++) {
        const __m512i differ =
            _mm512_xor_si512(_mm512_load_si512(w->masks[l]), _mm512_load_si512(w->masks[l + 1]));
        passed = _mm512_ternarylogic_epi64(passed, differ, _mm512_load_si512(w->rights[n - 1 - l]),
                                           A_XOR_B_AND_C);
    }
    _mm512_store_si512(w->masks[to], passed);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i x = *reg(g->nodes.passed + i);
        *reg(g->nodes.passed + i) =
            _mm512_mask_xor_epi64(x, w->masks[to][i / PER_REG], x, low_half(1));
    }
}

/* Level by level, 32 nodes at a time, with the next level's correction words on their way from
 * memory. */
WIDE void uvcci_dpf_wide_eval(const uvcci_aes dpf[2], uvcci_dpf_eval_state *g,
                              const uvcci_dpf_keys *k, uint32_t at, uint32_t m, const uint64_t *x,
                              unsigned from, unsigned to) {
    uvcci_dpf_wide *w = &g->wide;
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    assert(from < to && to <= uvcci_dpf_levels(k->n) && m >= 1 && m <= UVCCI_DPF_GROUP);
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    memcpy(w->x, x, (size_t)m * sizeof *x);
    eval_turns(w, m, k->n - to, k->n - 1 - from);
    for (uint32_t i = 0; i < m; i += PER_REG)
        *reg(w->four[i / PER_REG].seed) = *reg(g->nodes.seed + i);
    for (unsigned l = from; l < to; l++) {
        if (l == from || l % CONTROL_LEVELS == 0)
            eval_path(w, m, k->n, l / CONTROL_LEVELS, NULL);
        const __m512i shift = _mm512_set1_epi64(2 * (l % CONTROL_LEVELS));
        const size_t ahead = l + 1 < to ? (size_t)k->c * BLOCK : 0;
        chunk c = {.from = w->four->seed,
                   .to = w->four->seed,
                   .path = w->four->path,
                   .right = (const uint8_t *)w->right[k->n - 1 - l],
                   .rights = (const uint8_t *)w->rights[k->n - 1 - l],
                   .cw = k->levels + ((size_t)l * k->c + at) * BLOCK,
                   .count = CHUNK,
                   .shift = shift,
                   .control = w->masks[l],
                   .node_step = STEP,
                   .path_step = STEP};
        uint32_t there = m;
        for (; there >= CHUNK; there -= CHUNK) {
            UNROLL for (unsigned j = 0; j < REGS; j++) {
                _mm_prefetch((const char *)(c.cw + ahead + 64 * j), _MM_HINT_T0);
            }
            descend(left, right, w, &c);
            c.from = c.to += REGS * STEP;
            c.path += REGS * STEP;
            c.right += CHUNK / 8;
            c.rights += REGS;
            c.cw += (size_t)CHUNK * BLOCK;
            c.control += REGS;
        }
        c.count = there;
        if (there != 0)
            descend(left, right, w, &c);
    }
    eval_passed(g, m, k->n, from, to);
}

/* The parities of eight nodes, the first four in a, to bytes. */
WIDE_INLINE void store_parities(uint8_t *out, __m512i a, __m512i b, uint32_t count) {
    const __m512i in_order = _mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0);
    const __m512i words =
        _mm512_xor_si512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    const __m512i bits = _mm512_and_si512(_mm512_popcnt_epi64(words), _mm512_set1_epi64(1));
    _mm512_mask_cvtepi64_storeu_epi8(out, count >= 8 ? 0xff : (__mmask8)((1u << count) - 1),
                                     _mm512_permutexvar_epi64(in_order, bits));
}

/* The shares at `count` of 32 points, from the nodes from i on. */
WIDE_INLINE void prefix_chunk(const __m512i key[ROUNDS + 1], uvcci_dpf_eval_state *g, uint32_t i,
                              uint32_t count, const uint64_t *x, const uint8_t *finals,
                              __m512i terminal, uint8_t *out) {
    const __m512i last = _mm512_set_epi64(127, 63, 127, 63, 127, 63, 127, 63);
    const __m512i zero = _mm512_setzero_si512(), ones = _mm512_set1_epi64(-1);
    __m512i s[REGS];
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        s[j] = add_seed(key[0], *reg(g->nodes.seed + i + j * PER_REG));
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned j = 0; j < REGS; j++) {
            s[j] = aes_round(s[j], key[r], r);
        }
    }
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        const uint32_t to = j * PER_REG;
        const __m512i node = *reg(g->nodes.seed + i + to);
        const __m512i cw = load_part(finals + to * BLOCK, part(count, to));
        __m512i block = add_seed(s[j], node);
        block = _mm512_mask_xor_epi64(block, control_mask(node), block, cw);
        /* The terminals up to x: all ones, less those after it. */
        const __m512i at = _mm512_and_si512(both_halves(x, count, to), terminal);
        const __m512i after = _mm512_max_epi64(_mm512_sub_epi64(last, at), zero);
        s[j] = _mm512_ternarylogic_epi64(*reg(g->nodes.passed + i + to), block,
                                         _mm512_srlv_epi64(ones, after), A_XOR_B_AND_C);
    }
    UNROLL for (unsigned j = 0; j < REGS; j += 2) {
        const uint32_t to = j * PER_REG;
        if (to < count)
            store_parities(out + to, s[j], s[j + 1], count - to);
    }
}

WIDE void uvcci_dpf_wide_prefix(const uvcci_aes dpf[2], uvcci_dpf_eval_state *g,
                                const uvcci_dpf_keys *k, uint32_t at, uint32_t m, const uint64_t *x,
                                uint8_t *out) {
    __m512i key[ROUNDS + 1];
    round_keys(key, &dpf[0]);
    const __m512i terminal =
        _mm512_set1_epi64((1 << (k->n < TERMINAL_BITS ? k->n : TERMINAL_BITS)) - 1);
    const uint8_t *finals = k->terminals + (size_t)at * BLOCK;
    uint32_t i = 0;
    assert(m <= UVCCI_DPF_GROUP && at < k->c && m <= k->c - at);
    for (; i + CHUNK <= m; i += CHUNK)
        prefix_chunk(key, g, i, CHUNK, x + i, finals + (size_t)i * BLOCK, terminal, out + i);
    if (i < m)
        prefix_chunk(key, g, i, m - i, x + i, finals + (size_t)i * BLOCK, terminal, out + i);
}

/* --- Windows ---------------------------------------------------------------------------------- */

/* Terminal blocks j of `m` keys, at most 32, one after the other for each key. */
WIDE_INLINE void window_blocks(const __m512i key[ROUNDS + 1], const uvcci_dpf_node *nodes,
                               const uint8_t *finals, uint32_t m, unsigned per_key,
                               uvcci_dpf_node *blocks) {
    __m512i s[REGS];
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        s[j] = add_seed(key[0], *node_at(nodes + j * PER_REG));
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned j = 0; j < REGS; j++) {
            s[j] = aes_round(s[j], key[r], r);
        }
    }
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        const __m512i node = *node_at(nodes + j * PER_REG);
        const __m512i cw = load_part(finals + j * 64, part(m, j * PER_REG));
        __m512i block = add_seed(s[j], node);
        block = _mm512_mask_xor_epi64(block, control_mask(node), block, cw);
        uvcci_dpf_node *to = blocks + (size_t)j * PER_REG * per_key;
        _mm_store_si128((__m128i *)(void *)to, _mm512_castsi512_si128(block));
        _mm_store_si128((__m128i *)(void *)(to + per_key), _mm512_extracti64x2_epi64(block, 1));
        _mm_store_si128((__m128i *)(void *)(to + 2 * per_key), _mm512_extracti64x2_epi64(block, 2));
        _mm_store_si128((__m128i *)(void *)(to + 3 * per_key), _mm512_extracti64x2_epi64(block, 3));
    }
}

/* `len` bits from bit `skip` < 128 of x on, which has a word more than these. */
WIDE_INLINE void window_bits(const uvcci_dpf_node *x, unsigned skip, uint32_t len, uint64_t *out) {
    const uint64_t *from = (const uint64_t *)(const void *)x + skip / 64;
    const __m512i shift = _mm512_set1_epi64(skip % 64);
    const uint32_t words = uvcci_dpf_window_words(len);
    for (uint32_t i = 0; i < words; i += 8) {
        const __mmask8 k = words - i >= 8 ? 0xff : (__mmask8)((1u << (words - i)) - 1);
        const __m512i lo = _mm512_maskz_loadu_epi64(k, from + i);
        const __m512i hi = _mm512_maskz_loadu_epi64(k, from + i + 1);
        _mm512_mask_storeu_epi64(out + i, k, _mm512_shrdv_epi64(lo, hi, shift));
    }
    out[words - 1] &= ~(uint64_t)0 >> (64 * words - len);
}

/* Nodes of level l that lie above a window, at most; the last one may be the one after them. Those
 * beyond the last of the level are the first ones again: a window goes on from the last terminal to
 * the first. */
WIDE_INLINE unsigned window_nodes(unsigned n, unsigned l, uint32_t len) {
    const unsigned below = n - l;
    return (below > 31 ? 0 : (len - 1) >> below) + 2;
}

/* Nodes of 32 keys at a level of their windows, and what takes them to the next. */
typedef struct window_chunk {
    uvcci_dpf_node *node;
    const uvcci_dpf_node *path, *beside;
    const uint8_t *right, *rights, *cw;
    __m512i shift;
} window_chunk;

/* `nodes` of the next level for each of `count` keys: a constant where there are all 32, so that no
 * mask is made for each register. From the last to the first: then nodes do not overwrite parents
 * of others. */
WIDE_INLINE void window_level(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                              const uvcci_dpf_wide *w, const window_chunk *x, unsigned nodes,
                              uint32_t count) {
    chunk c = {.right = x->right,
               .rights = x->rights,
               .cw = x->cw,
               .count = count,
               .shift = x->shift,
               .node_step = PER_REG};
    for (unsigned j = nodes; j-- != 0;) {
        c.to = x->node + j * CHUNK;
        c.from = x->node + j / 2 * CHUNK;
        if (j % 2 != 0) {
            c.second = c.from + CHUNK;
            c.turned = true;
            c.path = x->beside;
            c.path_step = PER_REG;
            descend(left, right, w, &c);
        } else {
            c.second = NULL;
            c.turned = false;
            c.path = x->path;
            c.path_step = STEP;
            descend(left, right, w, &c);
        }
    }
}

/* Each key's nodes above its window, from left to right: node j of a level of 32 keys lies beside
 * node j of the others, so a register has four keys and no lane waits. All keys have as many nodes
 * as the widest window can have; the last may lie behind the window, and its bits are not taken. */
WIDE void uvcci_dpf_wide_window(const uvcci_aes dpf[2], uvcci_dpf_wide_windows *g,
                                const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                                const uint64_t *first, uint32_t len, uint64_t *out) {
    const unsigned depth = uvcci_dpf_levels(k->n), blocks = window_nodes(k->n, depth, len);
    uvcci_dpf_wide *w = &g->wide;
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    assert(k->n >= TERMINAL_BITS && m >= 1 && m <= UVCCI_DPF_GROUP && m <= k->c - at);
    assert((size_t)(m + CHUNK - 1) / CHUNK * CHUNK * blocks <= UVCCI_DPF_WIDE_NODES);
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    memcpy(w->x, first, (size_t)m * sizeof *first);
    eval_turns(w, m, TERMINAL_BITS, k->n - 1);
    const __m512i one = low_half(1), control = low_half(k->party1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i x = load_part(k->root + (size_t)(at + i) * BLOCK, part(m, i));
        uvcci_dpf_node *to = g->node + (size_t)(i / CHUNK * CHUNK) * blocks + i % CHUNK;
        *reg(to) = *reg(to + CHUNK) = _mm512_ternarylogic_epi64(one, control, x, A_PICKS_B_ELSE_C);
    }
    for (unsigned l = 0; l < depth; l++) {
        if (l % CONTROL_LEVELS == 0)
            eval_path(w, m, k->n, l / CONTROL_LEVELS, g->beside);
        const unsigned nodes = window_nodes(k->n, l + 1, len);
        for (uint32_t i = 0; i < m; i += CHUNK) {
            const window_chunk c = {.node = g->node + (size_t)i * blocks,
                                    .path = w->four[i / PER_REG].path,
                                    .beside = g->beside + i,
                                    .right = (const uint8_t *)w->right[k->n - 1 - l] + i / 8,
                                    .rights =
                                        (const uint8_t *)w->rights[k->n - 1 - l] + i / PER_REG,
                                    .cw = k->levels + ((size_t)l * k->c + at + i) * BLOCK,
                                    .shift = _mm512_set1_epi64(2 * (l % CONTROL_LEVELS))};
            if (m - i >= CHUNK)
                window_level(left, right, w, &c, nodes, CHUNK);
            else
                window_level(left, right, w, &c, nodes, m - i);
        }
    }
    for (uint32_t i = 0; i < m; i += CHUNK) {
        const uint8_t *finals = k->terminals + (size_t)(at + i) * BLOCK;
        for (unsigned j = 0; j < blocks; j++)
            window_blocks(left, g->node + (size_t)i * blocks + j * CHUNK, finals, m - i, blocks,
                          g->block + j);
        for (uint32_t q = 0; q < CHUNK && i + q < m; q++)
            window_bits(g->block + (size_t)q * blocks, first[i + q] & 127, len,
                        out + (size_t)(i + q) * uvcci_dpf_window_words(len));
    }
}

/* --- Keys ------------------------------------------------------------------------------------- */

/* Four nodes of both parties from level l to the next. */
WIDE_INLINE void gen_level(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                           gen_group *g, uint32_t i, __mmask8 there, __m512i shift, unsigned l,
                           uint8_t *to) {
    const __m512i node[2] = {*reg(g->seed[0] + i), *reg(g->seed[1] + i)};
    const __mmask8 goes_right = _mm512_test_epi64_mask(*reg(g->alpha + i), shift);
    __m512i child[2][2]; /* [party][left, right] */
    UNROLL for (unsigned p = 0; p < 2; p++) {
        child[p][0] = add_seed(left[0], node[p]);
        child[p][1] = add_seed(right[0], node[p]);
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned p = 0; p < 2; p++) {
            child[p][0] = aes_round(child[p][0], left[r], r);
            child[p][1] = aes_round(child[p][1], right[r], r);
        }
    }
    UNROLL for (unsigned p = 0; p < 2; p++) {
        child[p][0] = add_seed(child[p][0], node[p]);
        child[p][1] = add_seed(child[p][1], node[p]);
    }
    gen_correct(g, i, there, goes_right, child, l, to);
}

/* The final words, which make the terminal blocks differ in alpha's bit only. */
WIDE_INLINE void gen_terminals(const __m512i key[ROUNDS + 1], gen_group *g, uint32_t m, unsigned n,
                               uint8_t *terminals) {
    const __m512i terminal = _mm512_set1_epi64((1 << (n < TERMINAL_BITS ? n : TERMINAL_BITS)) - 1);
    const __m512i first = _mm512_set_epi64(64, 0, 64, 0, 64, 0, 64, 0), one = _mm512_set1_epi64(1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i node[2] = {*reg(g->seed[0] + i), *reg(g->seed[1] + i)};
        __m512i s[2] = {add_seed(key[0], node[0]), add_seed(key[0], node[1])};
        UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
            s[0] = aes_round(s[0], key[r], r);
            s[1] = aes_round(s[1], key[r], r);
        }
        s[0] = add_seed(s[0], node[0]);
        s[1] = add_seed(s[1], node[1]);
        /* A shift by 64 or more, as a negative one is, leaves nothing. */
        const __m512i a = _mm512_and_si512(*reg(g->alpha + i), terminal);
        const __m512i point = _mm512_sllv_epi64(one, _mm512_sub_epi64(a, first));
        const __m512i cw = _mm512_ternarylogic_epi64(s[0], s[1], point, A_XOR_B_XOR_C);
        _mm512_mask_storeu_epi64(terminals + (size_t)i * BLOCK, part(m, i), cw);
        s[0] = _mm512_mask_xor_epi64(s[0], control_mask(node[0]), s[0], cw);
        *reg(g->hit + i) = _mm512_and_si512(s[0], point);
    }
}

WIDE void uvcci_dpf_wide_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                             const uint8_t *root0, const uint8_t *root1, uint8_t *levels,
                             uint8_t *terminals, uint8_t *bits, uint8_t *sign) {
    const unsigned depth = uvcci_dpf_levels(n), tb = (2 * depth + 7) / 8;
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    gen_group g;
    assert(n >= 1 && n <= 64 && depth <= 2 * CONTROL_LEVELS);
    for (uint32_t at = 0; at < c; at += UVCCI_DPF_GROUP) {
        const uint32_t m = c - at < UVCCI_DPF_GROUP ? c - at : UVCCI_DPF_GROUP;
        gen_roots(&g, m, alpha + at, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        for (unsigned l = 0; l < depth; l++) {
            const __m512i shift = _mm512_set1_epi64((long long)((uint64_t)1 << (n - 1 - l)));
            uint8_t *to = levels + ((size_t)l * c + at) * BLOCK;
            for (uint32_t i = 0; i < m; i += PER_REG)
                gen_level(left, right, &g, i, part(m, i), shift, l, to + (size_t)i * BLOCK);
        }
        gen_control(&g, m, tb, bits + (size_t)at * tb);
        gen_terminals(left, &g, m, n, terminals + (size_t)at * BLOCK);
        if (sign != NULL)
            for (uint32_t i = 0; i < m; i++)
                sign[at + i] = (uint8_t)__builtin_parityll(g.hit[i].lo ^ g.hit[i].hi);
    }
    uvcci_wipe(&g, sizeof g);
}

#endif
