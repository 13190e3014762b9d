/* SPDX-License-Identifier: Apache-2.0 */
/* operands.h - operands of block tasks by name. <uvcc/compute.h> numbers them (in[0], wire_out[1]);
 * a family says here what each is. Vectors are given as a whole, a block takes its part; bytes of
 * messages are the block's own. NULL: the block's role has no such operand. */
#ifndef UVCCI_OPERANDS_H
#define UVCCI_OPERANDS_H

#include "exec/runtime/builder.h"

/* ---- inputs, openings to all, resharing ---- */

/* INPUT at the owner: what both others get is the third component. */
static inline void uvcci_set_input_shared(uvcc_block *k, const uint64_t *value,
                                          const uvcc_shares *out, uint8_t *to_tail,
                                          uint8_t *to_other) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = value + at;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
    k->wire_out[0] = to_tail;
    k->wire_out[1] = to_other;
}
static inline void uvcci_set_input_taken(uvcc_block *k, const uint8_t *came,
                                         const uvcc_shares *out) {
    const size_t at = uvcci_at_block(k);
    k->wire_in[0] = came;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
}
/* ONE_HOT_KEYS: HEAD's keys of `words` words each, and its numbers; the others' roots. */
static inline void uvcci_set_one_hot_dealt(uvcc_block *k, const uint64_t *numbers, uint64_t *keys,
                                           uint32_t words, uint64_t *kept) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = numbers + at;
    k->out[0] = keys + at * words;
    k->out[1] = kept + at;
}
static inline void uvcci_set_one_hot_roots(uvcc_block *k, uint64_t *roots) {
    k->out[0] = roots + 2 * uvcci_at_block(k);
}
/* ONE_HOT_ROWS: of HEAD's numbers, or of keys and their roots. */
static inline void uvcci_set_one_hot_known(uvcc_block *k, const uint64_t *numbers, uint64_t *rows) {
    k->in[0] = numbers;
    k->out[0] = rows;
}
static inline void uvcci_set_one_hot_shared(uvcc_block *k, const uint64_t *keys,
                                            const uint64_t *roots, uint64_t *rows) {
    k->in[0] = keys;
    k->in[1] = roots;
    k->out[0] = rows;
}
/* PACK, and its other end, UNPACK. */
static inline void uvcci_set_pack(uvcc_block *k, const uint64_t *words, uint8_t *sent) {
    k->in[0] = words + uvcci_at_block(k);
    k->wire_out[0] = sent;
}
static inline void uvcci_set_unpack(uvcc_block *k, const uint8_t *came, uint64_t *words) {
    k->wire_in[0] = came;
    k->out[0] = words + uvcci_at_block(k);
}
/* OPEN_ALL_FINISH: two own components and the one that came. */
static inline void uvcci_set_open_all_finish(uvcc_block *k, const uvcc_shares *own,
                                             const uint8_t *came, uint64_t *opened) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = own->lo + at;
    k->in[1] = own->hi + at;
    k->wire_in[0] = came;
    k->out[0] = opened + at;
}
/* RESHARE_MASK and TRIPLE_C: an additive share becomes component lo, which the party before gets.
 */
static inline void uvcci_set_reshare(uvcc_block *k, const uint64_t *additive, uint64_t *lo,
                                     uint8_t *sent) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = additive + at;
    k->out[0] = lo + at;
    k->wire_out[0] = sent;
}
/* TRIPLE_A, TRIPLE_B and RANDOM make components of a mask; of a triple either may be left out. */
static inline void uvcci_set_mask(uvcc_block *k, uint64_t *lo, uint64_t *hi) {
    const size_t at = uvcci_at_block(k);
    k->out[0] = lo != NULL ? lo + at : NULL;
    k->out[1] = hi != NULL ? hi + at : NULL;
}
/* With x they make x less the mask, and send its first component. */
static inline void uvcci_set_masked(uvcc_block *k, const uvcc_shares *x, const uvcc_shares *less,
                                    uint8_t *sent) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = x->lo + at;
    k->in[1] = x->hi + at;
    uvcci_set_mask(k, less->lo, less->hi);
    k->wire_out[0] = sent;
}

/* ---- gates ---- */

/* OPEN2_MASK: of a replicated x; own is what this party knows of the opened sum. */
static inline void uvcci_set_open2_mask(uvcc_block *k, const uvcc_shares *x, uint64_t *own,
                                        uint8_t *sent) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = x->lo + at;
    k->in[1] = x->hi + at;
    k->out[0] = own + at;
    k->wire_out[0] = sent;
}
/* OPEN4_MASK: of an additive x. OTHER sends to HEAD and to TAIL, those to one another. */
static inline void uvcci_set_open4_mask(uvcc_block *k, const uint64_t *x, uint64_t *own,
                                        uint8_t *sent, uint8_t *sent_to_tail) {
    k->in[0] = x + uvcci_at_block(k);
    k->out[0] = own + uvcci_at_block(k);
    k->wire_out[0] = sent;
    k->wire_out[1] = sent_to_tail;
}
/* OPEN_FINISH: what came over the edge, and (OPEN4) from OTHER. */
static inline void uvcci_set_open_finish(uvcc_block *k, const uint64_t *own, const uint8_t *came,
                                         const uint8_t *from_other, uint64_t *opened) {
    k->in[0] = own + uvcci_at_block(k);
    k->wire_in[0] = came;
    k->wire_in[1] = from_other;
    k->out[0] = opened + uvcci_at_block(k);
}
/* LESS_MASK: this party's share of the comparison bits, masked. */
static inline void uvcci_set_less_mask(uvcc_block *k, const uint64_t *opened, const uint8_t *key,
                                       uint8_t *bits, uint8_t *sent) {
    k->in[0] = opened + uvcci_at_block(k);
    k->key = key;
    k->out_bits = bits;
    k->wire_out[0] = sent;
}
/* OPEN_BITS. */
static inline void uvcci_set_open_bits(uvcc_block *k, const uint8_t *bits, const uint8_t *came,
                                       uint8_t *opened_bits) {
    k->in_bits = bits;
    k->wire_in[0] = came;
    k->out_bits = opened_bits;
}
/* TRUNC: a share of the truncated value, that may be one too large or too small. */
static inline void uvcci_set_trunc(uvcc_block *k, const uint64_t *opened, const uint8_t *key,
                                   uint64_t *share) {
    k->in[0] = opened + uvcci_at_block(k);
    k->key = key;
    k->out[0] = share + uvcci_at_block(k);
}
/* FN_FLOOR corrects it by a DCF, in place. */
static inline void uvcci_set_floor(uvcc_block *k, const uint64_t *opened, const uint8_t *key,
                                   uint64_t *share) {
    k->in[0] = opened + uvcci_at_block(k);
    k->in[1] = k->out[0] = share + uvcci_at_block(k);
    k->key = key;
}
/* TRUNC_EXACT corrects it by the opened bit. */
static inline void uvcci_set_trunc_exact(uvcc_block *k, const uint64_t *share, const uint8_t *bits,
                                         const uint8_t *came, const uint8_t *key, uint64_t *out) {
    k->in[0] = share + uvcci_at_block(k);
    k->in_bits = bits;
    k->wire_in[0] = came;
    k->key = key;
    k->out[0] = out + uvcci_at_block(k);
}
/* RELU: shares of the product and of the sign. */
static inline void uvcci_set_relu(uvcc_block *k, const uint64_t *opened, const uint8_t *bits,
                                  const uint8_t *came, const uint8_t *key, uint64_t *product,
                                  uint64_t *sign) {
    k->in[0] = opened + uvcci_at_block(k);
    k->in_bits = bits;
    k->wire_in[0] = came;
    k->key = key;
    k->out[0] = product + uvcci_at_block(k);
    k->out[1] = sign + uvcci_at_block(k);
}
/* LIFT_MASK and LIFT_FINISH; `came` of LIFT_MASK: the first hop's, for a second one. */
static inline void uvcci_set_lift_mask(uvcc_block *k, const uint64_t *share, const uvcc_shares *out,
                                       const uint8_t *came, uint8_t *sent) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = share + at;
    k->wire_in[0] = came;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
    k->wire_out[0] = sent;
}
static inline void uvcci_set_lift_finish(uvcc_block *k, const uint8_t *came,
                                         const uvcc_shares *out) {
    const size_t at = uvcci_at_block(k);
    k->wire_in[0] = came;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
}
/* DEAL: the key streams of HEAD and TAIL. */
static inline void uvcci_set_deal(uvcc_block *k, uint8_t *head, uint8_t *tail) {
    k->out_bytes[0] = head;
    k->out_bytes[1] = tail;
}

/* ---- stochastic truncation that HEAD opens: SR tasks ---- */

/* SR_OPEN: HEAD's share of its bit goes to OTHER; TAIL and OTHER send their parts of x to HEAD,
 * TAIL words of the wrap to OTHER. */
static inline void uvcci_set_sr_open_head(uvcc_block *k, uint8_t *to_other) {
    k->wire_out[0] = to_other;
}
static inline void uvcci_set_sr_open(uvcc_block *k, const uint64_t *x, uint8_t *to_head,
                                     uint8_t *to_other) {
    k->in[0] = x + uvcci_at_block(k);
    k->wire_out[0] = to_head;
    k->wire_out[1] = to_other;
}
/* SR_SEND: HEAD has both components; OTHER keeps words of the wrap. */
static inline void uvcci_set_sr_send_head(uvcc_block *k, const uint64_t *x,
                                          const uint8_t *from_tail, const uint8_t *from_other,
                                          const uvcc_shares *out, uint8_t *to_tail,
                                          uint8_t *to_other) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = x + at;
    k->wire_in[0] = from_tail;
    k->wire_in[1] = from_other;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
    k->wire_out[0] = to_tail;
    k->wire_out[1] = to_other;
}
static inline void uvcci_set_sr_send_other(uvcc_block *k, const uint8_t *from_head,
                                           const uint8_t *from_tail, uint64_t *wrap,
                                           uint8_t *to_tail) {
    k->wire_in[0] = from_head;
    k->wire_in[1] = from_tail;
    k->out[0] = wrap + uvcci_at_block(k);
    k->wire_out[0] = to_tail;
}
/* SR_FINISH: HEAD's bits with OTHER's words of the wrap; the component that came, the bits, and the
 * words that were kept. */
static inline void uvcci_set_sr_finish_tail(uvcc_block *k, const uint8_t *bits,
                                            const uint8_t *from_other, const uvcc_shares *out) {
    const size_t at = uvcci_at_block(k);
    k->wire_in[0] = bits;
    k->wire_in[1] = from_other;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
}
static inline void uvcci_set_sr_finish_other(uvcc_block *k, const uint64_t *wrap,
                                             const uint8_t *component, const uint8_t *bits,
                                             const uvcc_shares *out) {
    const size_t at = uvcci_at_block(k);
    k->in[0] = wrap + at;
    k->wire_in[0] = component;
    k->wire_in[1] = bits;
    k->out[0] = out->lo + at;
    k->out[1] = out->hi + at;
}

/* SR2_SEND: HEAD has both components and writes to both, TAIL and OTHER write to each other. */
static inline void uvcci_set_sr2_send(uvcc_block *k, const uvcc_shares *x, uint8_t *first,
                                      uint8_t *second) {
    k->in[0] = x->lo + uvcci_at_block(k);
    k->in[1] = x->hi + uvcci_at_block(k);
    k->wire_out[0] = first;
    k->wire_out[1] = second;
}
/* SR2_FINISH: HEAD's message, and that of the third. */
static inline void uvcci_set_sr2_finish(uvcc_block *k, const uvcc_shares *x,
                                        const uint8_t *from_head, const uint8_t *from_third) {
    k->in[0] = x->lo + uvcci_at_block(k);
    k->in[1] = x->hi + uvcci_at_block(k);
    k->wire_in[0] = from_head;
    k->wire_in[1] = from_third;
}
/* The result of either. */
static inline void uvcci_set_sr2_out(uvcc_block *k, const uvcc_shares *out) {
    k->out[0] = out->lo + uvcci_at_block(k);
    k->out[1] = out->hi + uvcci_at_block(k);
}

/* ---- circuits on shared bits: BOOL tasks ---- */

/* Of all: the replicated x, and the words that a block has between its rounds. */
static inline void uvcci_set_circuit(uvcc_block *k, const uvcc_shares *x, uint64_t *words) {
    k->in[0] = x->lo + uvcci_at_block(k);
    k->in[1] = x->hi + uvcci_at_block(k);
    k->in[2] = k->out[0] = words;
}
/* What a round sends or gets: HEAD's two messages; or one, which may have two parts. */
static inline void uvcci_set_circuit_sent(uvcc_block *k, uint8_t *first, uint8_t *second) {
    k->wire_out[0] = first;
    k->wire_out[1] = second;
}
static inline void uvcci_set_circuit_came(uvcc_block *k, const uint8_t *first,
                                          const uint8_t *second) {
    k->wire_in[0] = first;
    k->wire_in[1] = second;
}
/* Results instead of words: components of both values (SELECT_MASK), or both of one (FINISH). */
static inline void uvcci_set_circuit_out(uvcc_block *k, uint64_t *first, uint64_t *second) {
    k->out[0] = first;
    k->out[1] = second;
}

#endif
