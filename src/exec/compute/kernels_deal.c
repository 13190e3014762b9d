/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_deal.c - what OTHER deals for truncations and comparisons: TAIL's words, and a DPF or DCF
 * key for both. See kernels.c for chunks and invariants, kernels_gate.c for what they are for. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>
#include <uvcc/blv1.h>

#include "exec/primitives/dpf.h"

/* r of OPEN2_MASK: the sum of two full pads. */
static const uint64_t *full_mask(const chunk *c) {
    return uvcci_kernel_both_pads(c, c->t->call, 0, 1, UVCC_TAG_mask, 0);
}

/* The corrections of a truncation, less HEAD's shares; s->words gets alpha. */
static void deal_trunc(const chunk *c, const uvcc_key_layout *k) {
    assert(c->b->out_bytes[1] != NULL);
    const unsigned f = c->t->u.vec.shift;
    const uint64_t low = low_bits(f), high = low_bits(64 - f);
    uint64_t *alpha = c->s->words + c->first, *corr = c->s->slot[4];
    uint8_t *tail = c->b->out_bytes[1];
    if (!c->t->u.vec.compact) {
        const uint64_t *r = full_mask(c);
        for (uint8_t m = 0; m < 2; m++) {
            const uint64_t *head = pad(c, 1, PAIR_HO, UVCC_TAG_trunc, 1 + m);
            uint8_t *to = tail + k->words[1 + m] + (size_t)c->first * 8;
            for (uint32_t i = 0; i < c->n; i++) {
                const uint64_t top = m == 0 ? (r[i] >> 63) << (64 - f) : 0;
                put(to, i, top - (r[i] >> f) - head[i]);
            }
        }
        for (uint32_t i = 0; i < c->n; i++)
            alpha[i] = r[i] & low;
        return;
    }
    const uint64_t *ph = pad(c, 0, PAIR_HO, UVCC_TAG_trunc, 0);
    const uint64_t *pt = pad(c, 1, PAIR_TO, UVCC_TAG_trunc, 0);
    for (uint8_t m = 0; m < 2; m++) {
        const uint64_t *head = pad(c, 2, PAIR_HO, UVCC_TAG_trunc, 1 + m);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t sum = (ph[i] & high) + (pt[i] & high);
            const uint64_t rb = m == 0 ? sum >> (63 - f) & 1 : 0;
            corr[i] = ((sum >> (64 - f)) + rb - head[i]) & low;
        }
        uvcc_bits_pack(corr, c->n, f, tail + k->corr[m] + (size_t)c->first * f / 8);
    }
    if (c->t->u.vec.gate != UVCC_GATE_TRUNC_SR) {
        const uint64_t *own = pad(c, 3, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        for (uint32_t i = 0; i < c->n; i++)
            alpha[i] = own[i] & low;
    }
}

/* TAIL's shares of rho, the XOR of both bit pads. */
static void deal_trunc_exact(const chunk *c, const uvcc_key_layout *k) {
    assert(c->b->out_bytes[1] != NULL);
    const uint8_t *ho = uvcci_kernel_bit_pad(c, 0, PAIR_HO),
                  *to = uvcci_kernel_bit_pad(c, 1, PAIR_TO);
    const uint64_t *rho = uvcci_kernel_bit_masks(c, 2, ho, to);
    const uint64_t *head = pad(c, 3, PAIR_HO, UVCC_TAG_select, 0);
    uint8_t *tail = c->b->out_bytes[1] + k->words[0] + (size_t)c->first * 8;
    for (uint32_t i = 0; i < c->n; i++)
        put(tail, i, 0 - rho[i] - head[i]);
}

/* TAIL's shares of k and k r; s->words gets alpha. */
static void deal_relu(const chunk *c, const uvcc_key_layout *k) {
    assert(c->b->out_bytes[1] != NULL);
    const unsigned n = c->t->u.vec.bits;
    const uint64_t *r = full_mask(c), low = low_bits(n);
    const uint8_t *ho = uvcci_kernel_bit_pad(c, 1, PAIR_HO),
                  *to = uvcci_kernel_bit_pad(c, 2, PAIR_TO);
    const uint64_t *rho = uvcci_kernel_bit_masks(c, 3, ho, to);
    const uint64_t *head_k = pad(c, 4, PAIR_HO, UVCC_TAG_select, 0);
    const uint64_t *head_kr = pad(c, 5, PAIR_HO, UVCC_TAG_select, 1);
    uint8_t *tail_k = c->b->out_bytes[1] + k->words[0] + (size_t)c->first * 8;
    uint8_t *tail_kr = c->b->out_bytes[1] + k->words[1] + (size_t)c->first * 8;
    uint64_t *alpha = c->s->words + c->first;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t bit = rho[i] ^ (0 - (r[i] >> n & 1));
        put(tail_k, i, 0 - bit - head_k[i]);
        put(tail_kr, i, (r[i] & bit) - head_kr[i]);
        alpha[i] = r[i] & low;
    }
}

/* Correction words into TAIL's stream, and the same into HEAD's. */
static void deal_dpf(const chunk *c, const uvcc_key_layout *k) {
    assert(c->b->out_bytes[0] != NULL && c->b->out_bytes[1] != NULL);
    const uvcc_block *b = c->b;
    const unsigned n = uvcci_kernel_less_bits(c);
    uint64_t(*roots)[2 * BLOCK] = uvcci_kernel_both_roots(c, c->t->call);
    uint8_t *head = b->out_bytes[0], *tail = b->out_bytes[1];
    uvcci_dpf_gen(uvcci_kernel_dpf_keys(c), n, b->count, c->s->words, (const uint8_t *)roots[0],
                  (const uint8_t *)roots[1], tail + k->levels, tail + k->terminals, tail + k->bits,
                  NULL);

    const uvcc_key_layout h = uvcci_kernel_layout(c, UVCC_HEAD);
    memcpy(head + h.levels, tail + k->levels, h.bits - h.levels); /* levels and terminals */
    memcpy(head + h.bits, tail + k->bits, h.total_bytes - h.bits);
}

/* A block as a whole: the words of a gate chunk by chunk, which leave alpha in s->words, and then
 * the key for alpha. */
static void deal(const chunk *c) {
    const uvcc_key_layout k = uvcci_kernel_layout(c, UVCC_TAIL);
    const uint8_t gate = c->t->u.vec.gate;
    chunk part = *c;
    assert(c->first == 0 && c->n == c->b->count);
    for (part.first = 0; part.first < c->b->count; part.first += CHUNK) {
        const uint32_t left = c->b->count - part.first;
        part.n = left < CHUNK ? left : CHUNK;
        if (gate == UVCC_GATE_RELU)
            deal_relu(&part, &k);
        else
            deal_trunc(&part, &k);
        if (gate == UVCC_GATE_TRUNC_ARS)
            deal_trunc_exact(&part, &k);
    }
    if (gate == UVCC_GATE_TRUNC_DCF)
        uvcci_kernel_deal_less(c, 0, c->t->u.vec.shift);
    else if (gate != UVCC_GATE_TRUNC_SR)
        deal_dpf(c, &k);
}

static bool deal_is_sane(const uvcc_task *t) {
    const uint8_t gate = t->u.vec.gate;
    if (gate == UVCC_GATE_RELU)
        return t->u.vec.bits >= 1 && t->u.vec.bits <= 63;
    return t->u.vec.shift >= 1 && t->u.vec.shift <= 62 &&
           (gate == UVCC_GATE_TRUNC_ARS || gate == UVCC_GATE_TRUNC_SR ||
            gate == UVCC_GATE_TRUNC_DCF);
}

/* A DCF's payloads. */
static size_t deal_packing(const uvcc_task *t) {
    return t->u.vec.gate == UVCC_GATE_TRUNC_DCF ? BLOCK : 0;
}

const uvcci_kernel uvcci_kernels_deal[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_DEAL] = {.run = deal, .whole = true, .sane = deal_is_sane, .packing = deal_packing},
};
