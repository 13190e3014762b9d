/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_gate.c - tasks of HEAD and TAIL in truncations and comparisons, on keys that OTHER dealt
 * (kernels_deal.c) or without any (exec/primitives/circuit.h). See kernels.c for chunks and
 * invariants. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>
#include <uvcc/blv1.h>

#include "exec/primitives/dpf.h"

/* Words of one section of this party's key stream. */
static inline const uint8_t *key_words(const chunk *c, unsigned i) {
    const uvcc_key_layout k = uvcci_kernel_layout(c, (uvcc_role)c->b->role);
    return c->b->key + k.words[i] + (size_t)c->first * 8;
}

/* The comparison's opened bits v as masks. */
static const uint64_t *opened_bits(const chunk *c, unsigned slot) {
    const size_t at = c->first / 8;
    return uvcci_kernel_bit_masks(c, slot, c->b->in_bits + at, c->b->wire_in[0] + at);
}

/* HEAD's or TAIL's share of the correction for m = the top bit of each zh. */
static const uint64_t *correction(const chunk *c, const uint64_t *zh) {
    uint64_t *w[2] = {c->s->slot[0], c->s->slot[1]};
    if (c->b->role == UVCC_HEAD) {
        for (uint8_t m = 0; m < 2; m++)
            pad(c, m, UVCC_PAIR_PREV, UVCC_TAG_trunc, 1 + m);
    } else {
        const unsigned f = c->t->u.vec.shift;
        const uvcc_key_layout k = uvcci_kernel_layout(c, UVCC_TAIL);
        for (unsigned m = 0; m < 2; m++)
            if (c->t->u.vec.compact)
                uvcc_bits_unpack(c->b->key + k.corr[m] + (size_t)c->first * f / 8, c->n, f, w[m]);
            else
                memcpy(w[m], c->b->key + k.words[1 + m] + (size_t)c->first * 8, (size_t)c->n * 8);
    }
    for (uint32_t i = 0; i < c->n; i++)
        w[0][i] ^= (w[0][i] ^ w[1][i]) & (0 - (zh[i] >> 63));
    return w[0];
}

static void truncation(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const bool head = c->b->role == UVCC_HEAD;
    const unsigned f = c->t->u.vec.shift;
    const uint64_t *zh = in(c, 0), bias = BIAS >> f;
    const uint64_t *w = correction(c, zh);
    uint64_t *y = out(c, 0);
    if (!c->t->u.vec.compact) {
        for (uint32_t i = 0; i < c->n; i++)
            y[i] = head ? (zh[i] >> f) + w[i] - bias : w[i];
        return;
    }
    const uint64_t *p = pad(c, 2, pair_other(c), UVCC_TAG_trunc, 0), mask = low_bits(64 - f);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t own = (w[i] << (64 - f)) - (p[i] & mask);
        y[i] = head ? (zh[i] >> f) + own - bias : own;
    }
}

/* Eight bytes of 0 or 1 to eight bits, the first lowest. */
static inline uint8_t pack8(const uint8_t *p) {
    return (uint8_t)(uvcci_ld64(p) * 0x0102040810204080u >> 56);
}

/* Shares of [opened mod 2^n < alpha], whole blocks: a DPF's prefix. They are bits masked by bit
 * pads, eight to a byte; HEAD's complement makes the sum of both the comparison as it is wanted. */
static void less_mask(const chunk *c) {
    assert(c->first == 0 && c->n == c->b->count);
    const uvcc_block *b = c->b;
    if (b->role == UVCC_OTHER)
        return;
    block_scratch *s = c->s;
    const bool head = b->role == UVCC_HEAD;
    const unsigned n = uvcci_kernel_less_bits(c);
    const uvcc_key_layout k = uvcci_kernel_layout(c, (uvcc_role)b->role);
    const uint64_t mask = low_bits(n);
    for (uint32_t i = 0; i < b->count; i++)
        s->words[i] = b->in[0][i] & mask;
    prg(c, pair_other(c), UVCC_TAG_root, 0, 0, s->roots[0], (size_t)b->count * 2);
    uvcci_dpf_prefix(uvcci_kernel_dpf_keys(c), n, b->count, s->words, (const uint8_t *)s->roots[0],
                     !head, b->key + k.levels, b->key + k.terminals, b->key + k.bits, s->shares);

    const uint32_t bytes = (b->count + 7) / 8;
    memset(s->shares + b->count, 0, (size_t)bytes * 8 - b->count);
    prg(c, pair_other(c), UVCC_TAG_mask, 2, 0, s->words, (b->count + 63) / 64);
    const uint8_t *pads = (const uint8_t *)s->words;
    for (uint32_t i = 0; i < bytes; i++)
        b->out_bits[i] = (uint8_t)(pack8(s->shares + 8 * (size_t)i) ^ pads[i] ^ (head ? 0xff : 0));
    b->out_bits[bytes - 1] &= (uint8_t)(0xff >> (bytes * 8 - b->count));
    memcpy(b->wire_out[0], b->out_bits, bytes);
}

static void open_bits(const chunk *c) {
    assert(c->b->in_bits != NULL && c->b->out_bits != NULL && c->b->wire_in[0] != NULL);
    for (uint32_t i = 0; i < (c->n + 7) / 8; i++)
        c->b->out_bits[i] = (uint8_t)(c->b->in_bits[i] ^ c->b->wire_in[0][i]);
}

static void trunc_exact(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *v = opened_bits(c, 0), *y = in(c, 0);
    uint64_t *to = out(c, 0);
    if (c->b->role == UVCC_HEAD) {
        const uint64_t *q = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_select, 0);
        for (uint32_t i = 0; i < c->n; i++) /* v is minus the bit */
            to[i] = y[i] + v[i] - flip(q[i], v[i]);
    } else {
        const uint8_t *q = key_words(c, 0);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = y[i] - flip(get(q, i), v[i]);
    }
}

/* d = [x >= 0] and d x, of the opened xh = x + r and the opened bit v: k and k r come dealt, since
 * d is v or its complement by bit n of r. */
static void relu(const chunk *c) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->out[1] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const unsigned n = c->t->u.vec.bits;
    const uint64_t *xh = in(c, 0), *v = opened_bits(c, 0);
    const uint64_t *r = pad(c, 1, pair_other(c), UVCC_TAG_mask, 0);
    uint64_t *dx = out(c, 0), *d = out(c, 1);
    if (c->b->role == UVCC_HEAD) {
        const uint64_t *k = pad(c, 2, UVCC_PAIR_PREV, UVCC_TAG_select, 0);
        const uint64_t *kr = pad(c, 3, UVCC_PAIR_PREV, UVCC_TAG_select, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = xh[i], w = ~(v[i] ^ (0 - (x >> n & 1)));
            dx[i] = ((x - r[i]) & w) + flip(k[i] * x - kr[i], w);
            d[i] = flip(k[i], w) - w;
        }
    } else {
        const uint8_t *k = key_words(c, 0), *kr = key_words(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = xh[i], w = ~(v[i] ^ (0 - (x >> n & 1)));
            dx[i] = flip(get(k, i) * x - get(kr, i), w) - (r[i] & w);
            d[i] = flip(get(k, i), w);
        }
    }
}

/* --- Without keys ---------------------------------------------------------------------------- */

static void circuit(const chunk *c) {
    assert(c->first == 0 && c->n == c->b->count);
    const uvcci_circuit_job j = {
        .task = c->t,
        .block = c->b,
        .key = {[UVCC_PAIR_NEXT] = uvcci_kernel_prg_key(c, UVCC_PAIR_NEXT, UVCC_TAG_zero),
                [UVCC_PAIR_PREV] = uvcci_kernel_prg_key(c, UVCC_PAIR_PREV, UVCC_TAG_zero)},
        .scratch = &c->s->circuit,
    };
    uvcci_circuit_run(&j);
}

/* ---- numbers that formulas allow ---- */

static bool trunc_is_sane(const uvcc_task *t) {
    return t->u.vec.shift >= 1 && t->u.vec.shift <= 62;
}

static bool relu_is_sane(const uvcc_task *t) {
    return t->u.vec.bits >= 1 && t->u.vec.bits <= 63;
}

static bool less_is_sane(const uvcc_task *t) {
    return t->u.vec.gate == UVCC_GATE_RELU
               ? relu_is_sane(t)
               : t->u.vec.gate == UVCC_GATE_TRUNC_ARS && trunc_is_sane(t);
}

const uvcci_kernel uvcci_kernels_gate[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_TRUNC] = {.run = truncation, .sane = trunc_is_sane},
    [UVCC_TASK_LESS_MASK] = {.run = less_mask, .whole = true, .sane = less_is_sane},
    [UVCC_TASK_OPEN_BITS] = {.run = open_bits, .whole = true},
    [UVCC_TASK_TRUNC_EXACT] = {.run = trunc_exact},
    [UVCC_TASK_RELU] = {.run = relu, .sane = relu_is_sane},
    [UVCC_TASK_BOOL_SHARE] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
    [UVCC_TASK_BOOL_JOIN] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
    [UVCC_TASK_BOOL_MERGE] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
    [UVCC_TASK_BOOL_RECEIVE] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
    [UVCC_TASK_BOOL_SELECT_MASK] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
    [UVCC_TASK_BOOL_SELECT_FINISH] = {.run = circuit, .whole = true, .sane = uvcci_circuit_is_sane},
};
