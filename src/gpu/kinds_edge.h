/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_edge.h - openings, gates, lifts, truncations and triples (compute.md, sections 5 and 8):
 * what each does for one element. */
#ifndef UVCCI_GPU_KINDS_EDGE_H
#define UVCCI_GPU_KINDS_EDGE_H

#include "gpu/tree.h"

#define BIAS ((uint64_t)1 << 62)

/* --- Openings --------------------------------------------------------------------------------- */

ON_BOTH void do_input(const vec *c) {
    if (is_head(c)) {
        const uint64_t lo = prg(c, UVCC_PAIR_PREV, UVCC_TAG_input, 0);
        const uint64_t hi = prg(c, UVCC_PAIR_NEXT, UVCC_TAG_input, 0);
        const uint64_t third = in(c, 0) - lo - hi;
        out(c, 0, lo);
        out(c, 1, hi);
        wire_out(c, 0, third);
        wire_out(c, 1, third);
    } else if (is_tail(c)) {
        out(c, 0, prg(c, UVCC_PAIR_PREV, UVCC_TAG_input, 0));
        out(c, 1, wire_in(c, 0));
    } else {
        out(c, 0, wire_in(c, 0));
        out(c, 1, prg(c, UVCC_PAIR_NEXT, UVCC_TAG_input, 0));
    }
}

ON_BOTH void do_random(const vec *c) {
    out(c, 0, low(prg(c, UVCC_PAIR_PREV, UVCC_TAG_input, 1), c->t->bits));
    out(c, 1, low(prg(c, UVCC_PAIR_NEXT, UVCC_TAG_input, 1), c->t->bits));
}

ON_BOTH void do_open4_mask(const vec *c) {
    const uint64_t t = in(c, 0) + zero_share(c, 0);
    if (is_other(c)) {
        const uint64_t x = t + low(prg(c, UVCC_PAIR_OWN, UVCC_TAG_own, 0), c->t->shift);
        wire_out(c, 0, x);
        wire_out(c, 1, x);
        return;
    }
    const uint64_t x = t + (prg(c, with_other(c), UVCC_TAG_trunc, 0) << c->t->shift);
    wire_out(c, 0, x);
    out(c, 0, x);
}

/* Also FN_OPEN_MASK, which sends it packed. */
ON_BOTH uint64_t open2(const vec *c) {
    const unsigned own = is_head(c) ? 0 : 1;
    const uint64_t x = in(c, own) + prg(c, with_other(c), UVCC_TAG_mask, 0);
    out(c, 0, x + in(c, 1 - own));
    return x;
}
ON_BOTH void do_open2_mask(const vec *c) {
    if (!is_other(c)) {
        const uint64_t x = open2(c);
        wire_out(c, 0, x);
    }
}

ON_BOTH void do_open_finish(const vec *c) {
    if (is_other(c))
        return;
    uint64_t x = in(c, 0) + wire_in(c, 0) + c->t->constant;
    if (c->b->wire_in[1] != NULL)
        x += wire_in(c, 1);
    out(c, 0, x);
}

ON_BOTH void do_reshare_mask(const vec *c, unsigned lane) {
    const uint64_t x = in(c, 0) + zero_share(c, lane);
    out(c, 0, x);
    wire_out(c, 0, x);
}
ON_BOTH void do_unpack(const vec *c) {
    out(c, 0, wire_in(c, 0));
}
ON_BOTH void do_pack(const vec *c) {
    wire_out(c, 0, in(c, 0));
}
ON_BOTH void do_open_all_finish(const vec *c) {
    out(c, 0, in(c, 0) + in(c, 1) + wire_in(c, 0));
}
/* A byte. */
ON_BOTH void do_open_bits(const vec *c) {
    c->b->out_bits[c->i] = (uint8_t)(c->b->in_bits[c->i] ^ c->b->wire_in[0][c->i]);
}

/* --- Gates ------------------------------------------------------------------------------------ */

ON_BOTH const uvcc_key_layout *own_layout(const vec *c) {
    return &c->block->key[is_head(c) ? 0 : 1];
}
ON_BOTH uint64_t key_word(const vec *c, uint32_t section) {
    return load64(c->b->key + section + (size_t)8 * c->i);
}

ON_BOTH void do_trunc(const vec *c) {
    if (is_other(c))
        return;
    const unsigned f = c->t->shift;
    const uint64_t zh = in(c, 0), m = zh >> 63;
    const uvcc_key_layout *k = own_layout(c);
    const uint64_t top = is_head(c) ? (zh >> f) - ((uint64_t)1 << (62 - f)) : 0;
    uint64_t g;
    if (is_head(c))
        g = prg(c, UVCC_PAIR_PREV, UVCC_TAG_trunc, 1 + (unsigned)m);
    else if (c->t->compact)
        g = unpack(c->b->key + k->corr[m], f, c->i);
    else
        g = key_word(c, k->words[1 + m]);
    if (c->t->compact)
        g = (g << (64 - f)) - low(prg(c, with_other(c), UVCC_TAG_trunc, 0), 64 - f);
    out(c, 0, top + g);
}

ON_BOTH void do_less_mask(const vec *c, packed *p) {
    if (is_other(c))
        return;
    const unsigned m = c->t->gate == UVCC_GATE_RELU ? c->t->bits : c->t->shift;
    const uvcc_key_layout *k = own_layout(c);
    dpf f;
    f.n = m;
    f.k.depth = dpf_depth(m);
    f.k.words = c->b->key + k->levels;
    f.k.bits = c->b->key + k->bits;
    f.last = c->b->key + k->terminals;
    const uint64_t less = dpf_prefix(c, &f, own_root(c, c->t->call), low(in(c, 0), m));
    p->x[0] = less ^ (is_head(c) ? 1 : 0) ^ prg_bit(c, with_other(c), UVCC_TAG_mask, 2);
}

ON_BOTH uint64_t opened_bit(const vec *c) {
    return unpack(c->b->in_bits, 1, c->i) ^ wire_packed(c, 0, 1);
}

ON_BOTH void do_trunc_exact(const vec *c) {
    if (is_other(c))
        return;
    const uint64_t v = opened_bit(c);
    const uint64_t q = is_head(c) ? prg(c, UVCC_PAIR_PREV, UVCC_TAG_select, 0)
                                  : key_word(c, own_layout(c)->words[0]);
    out(c, 0, in(c, 0) - (is_head(c) ? v : 0) - flip(q, v));
}

ON_BOTH void do_relu(const vec *c) {
    if (is_other(c))
        return;
    const uvcc_key_layout *l = own_layout(c);
    const bool head = is_head(c);
    const uint64_t xh = in(c, 0), w = 1 ^ bit_of(xh, c->t->bits) ^ opened_bit(c);
    const uint64_t k = head ? prg(c, UVCC_PAIR_PREV, UVCC_TAG_select, 0) : key_word(c, l->words[0]);
    const uint64_t kr =
        head ? prg(c, UVCC_PAIR_PREV, UVCC_TAG_select, 1) : key_word(c, l->words[1]);
    const uint64_t p = prg(c, with_other(c), UVCC_TAG_mask, 0);
    out(c, 1, (head ? w : 0) + flip(k, w));
    out(c, 0, w * ((head ? xh : 0) - p) + flip(k * xh - kr, w));
}

/* What OTHER knows of a gate's mask. */
typedef struct mask_known {
    uint64_t r, carry, rb; /* compact: of r only the low bits; full: carry and rb are not used */
} mask_known;

ON_BOTH mask_known known_mask(const vec *c) {
    mask_known k = {0, 0, 0};
    const unsigned f = c->t->shift;
    if (c->t->gate == UVCC_GATE_RELU || !c->t->compact) {
        k.r = both_pads(c, c->t->call, UVCC_TAG_mask, 0);
        return k;
    }
    const uint64_t s = low(prg(c, HO_OF_OTHER, UVCC_TAG_trunc, 0), 64 - f) +
                       low(prg(c, TO_OF_OTHER, UVCC_TAG_trunc, 0), 64 - f);
    k.carry = s >> (64 - f);
    k.rb = bit_of(s, 63 - f);
    k.r = low(prg(c, UVCC_PAIR_OWN, UVCC_TAG_own, 0), f);
    return k;
}

/* A word that HEAD draws under a tag and TAIL gets. */
ON_BOTH void deal_word(const vec *c, uint32_t section, unsigned tag, unsigned lane, uint64_t y) {
    store64(c->b->out_bytes[1] + section + (size_t)8 * c->i, y - prg(c, HO_OF_OTHER, tag, lane));
}

ON_BOTH void deal_trunc_words(const vec *c, const mask_known *k, packed *p) {
    const unsigned f = c->t->shift;
    for (unsigned m = 0; m < 2; m++) {
        const uint64_t rest = 1 - m;
        if (c->t->compact)
            p->x[m] = k->carry + rest * k->rb - prg(c, HO_OF_OTHER, UVCC_TAG_trunc, 1 + m);
        else
            deal_word(c, c->block->key[1].words[1 + m], UVCC_TAG_trunc, 1 + m,
                      ((rest * (k->r >> 63)) << (64 - f)) - (k->r >> f));
    }
}

/* A gate's streams, section by section; gate and form are public. */
ON_BOTH void do_deal(const vec *c, packed *p) {
    if (!is_other(c))
        return;
    const unsigned gate = c->t->gate;
    const unsigned n = gate == UVCC_GATE_RELU ? c->t->bits : c->t->shift;
    const mask_known k = known_mask(c);
    const uvcc_key_layout *l = c->block->key;
    if (gate != UVCC_GATE_RELU)
        deal_trunc_words(c, &k, p);
    if (gate == UVCC_GATE_TRUNC_DCF) {
        const uint64_t one = 1;
        make_dcf(c, 0, n, 1, low(k.r, n), &one);
    }
    if (gate != UVCC_GATE_TRUNC_ARS && gate != UVCC_GATE_RELU)
        return;
    const uint64_t rho =
        prg_bit(c, HO_OF_OTHER, UVCC_TAG_mask, 2) ^ prg_bit(c, TO_OF_OTHER, UVCC_TAG_mask, 2);
    if (gate == UVCC_GATE_RELU) {
        const uint64_t kappa = rho ^ bit_of(k.r, n);
        deal_word(c, l[1].words[0], UVCC_TAG_select, 0, kappa);
        deal_word(c, l[1].words[1], UVCC_TAG_select, 1, kappa * k.r);
    } else {
        deal_word(c, l[1].words[0], UVCC_TAG_select, 0, rho);
    }
    made to;
    for (unsigned q = 0; q < 2; q++) {
        to.words[q] = c->b->out_bytes[q] + l[q].levels;
        to.last[q] = c->b->out_bytes[q] + l[q].terminals;
        to.bits[q] = c->b->out_bytes[q] + l[q].bits;
    }
    (void)make_dpf(c, c->t->call, n, low(k.r, n), &to);
}

/* --- Lifts ------------------------------------------------------------------------------------ */

ON_BOTH void do_lift_mask(const vec *c) {
    if (is_other(c))
        return;
    const uint64_t y = in(c, 0);
    if (c->t->lift == UVCC_LIFT_EXCHANGE) {
        const uint64_t p = prg(c, with_other(c), UVCC_TAG_lift, 2);
        const unsigned own = is_head(c) ? 0 : 1;
        out(c, own, 0 - p);
        out(c, 1 - own, y + p);
        wire_out(c, 0, y + p);
        return;
    }
    const uint64_t edge = prg(c, with_edge(c), UVCC_TAG_lift, 1);
    const bool parallel = c->t->lift == UVCC_LIFT_PARALLEL;
    if (is_head(c)) {
        const uint64_t p = prg(c, UVCC_PAIR_PREV, UVCC_TAG_lift, 0);
        wire_out(c, 0, y - p);
        out(c, 0, p);
        out(c, 1, parallel ? y - p + edge : edge);
    } else if (parallel) {
        out(c, 1, y - edge);
        wire_out(c, 0, y - edge);
    } else {
        const uint64_t third = wire_in(c, 0) + y - edge;
        out(c, 0, edge);
        out(c, 1, third);
        wire_out(c, 0, third);
    }
}

ON_BOTH void do_lift_finish(const vec *c) {
    if (c->t->lift == UVCC_LIFT_EXCHANGE) {
        const unsigned mine = is_head(c) ? 1 : 0;
        if (is_other(c)) {
            out(c, 0, 0 - prg(c, TO_OF_OTHER, UVCC_TAG_lift, 2));
            out(c, 1, 0 - prg(c, HO_OF_OTHER, UVCC_TAG_lift, 2));
        } else {
            out(c, mine, c->b->out[mine][c->i] + wire_in(c, 0));
        }
    } else if (is_other(c)) {
        out(c, 0, wire_in(c, 0));
        out(c, 1, prg(c, HO_OF_OTHER, UVCC_TAG_lift, 0));
    } else if (is_tail(c) && c->t->lift == UVCC_LIFT_PARALLEL) {
        out(c, 0, wire_in(c, 0) + prg(c, UVCC_PAIR_PREV, UVCC_TAG_lift, 1));
    }
}

/* --- Stochastic truncations ------------------------------------------------------------------- */

ON_BOTH uint64_t sr_r(const vec *c) { /* TAIL and OTHER */
    return prg(c, with_third(c), UVCC_TAG_trunc, 0);
}
ON_BOTH uint64_t sr_k(const vec *c) {
    return prg_bit(c, UVCC_PAIR_OWN, UVCC_TAG_own, 2);
}
ON_BOTH uint64_t sr_edge(const vec *c, unsigned lane) { /* HT: HEAD and TAIL */
    return prg(c, with_edge(c), UVCC_TAG_trunc, lane);
}
ON_BOTH uint64_t sr_head(const vec *c, unsigned lane) { /* HO: HEAD and OTHER */
    return prg(c, is_head(c) ? with_other(c) : with_head(c), UVCC_TAG_trunc, lane);
}
ON_BOTH uint64_t sr_b(const vec *c) {
    return prg(c, with_edge(c), UVCC_TAG_lift, 0);
}

ON_BOTH void do_sr_open(const vec *c, packed *p) {
    if (is_head(c)) {
        p->x[0] = sr_k(c) - sr_edge(c, 3);
    } else if (is_tail(c)) {
        const uint64_t r = sr_r(c);
        wire_out(c, 0, in(c, 0) + prg(c, UVCC_PAIR_NEXT, UVCC_TAG_zero, 0) + r);
        p->x[0] = sr_edge(c, 3) * (r >> 63) + sr_edge(c, 4);
    } else {
        wire_out(c, 0, in(c, 0) - prg(c, TO_OF_OTHER, UVCC_TAG_zero, 0));
    }
}

ON_BOTH void do_sr_send(const vec *c, packed *p) {
    const unsigned f = c->t->shift;
    if (is_head(c)) {
        const uint64_t zh = in(c, 0) + wire_in(c, 0) + wire_in(c, 1) + BIAS;
        const uint64_t e = sr_k(c) ^ (zh >> 63), b = sr_b(c), a = (zh >> f) - b;
        wire_out(c, 1, a);
        out(c, 0, a + (flip(sr_head(c, 4), e) << (64 - f)));
        out(c, 1, b + (flip(sr_edge(c, 4), e) << (64 - f)));
        p->x[0] = e;
    } else if (is_other(c)) {
        const uint64_t w = wire_packed(c, 0, f) * (sr_r(c) >> 63) + sr_head(c, 4);
        p->x[0] = w;
        out(c, 0, low(w + wire_packed(c, 1, f), f));
    }
}

ON_BOTH void do_sr_finish(const vec *c) {
    if (is_head(c))
        return;
    const unsigned f = c->t->shift;
    const uint64_t r = sr_r(c), rb = r >> 63;
    const uint64_t e = unpack(c->b->wire_in[is_tail(c) ? 0 : 1], 1, c->i);
    const uint64_t w_b = is_tail(c) ? sr_edge(c, 4) : 0;
    const uint64_t w = is_tail(c) ? wire_packed(c, 1, f) + sr_edge(c, 3) * rb + w_b : in(c, 0);
    const uint64_t third =
        0 - (r >> f) - ((uint64_t)1 << (62 - f)) + ((rb - e * rb - flip(w, e)) << (64 - f));
    if (is_tail(c)) {
        out(c, 0, sr_b(c) + (flip(w_b, e) << (64 - f)));
        out(c, 1, third);
    } else {
        const uint64_t a = wire_in(c, 0);
        out(c, 0, third);
        out(c, 1, a + (flip(sr_head(c, 4), e) << (64 - f)));
    }
}

/* TAIL's or OTHER's component c of x and its v, and the word that it sends. */
ON_BOTH uint64_t sr2_third(const vec *c) {
    return in(c, is_tail(c) ? 1 : 0);
}
ON_BOTH uint64_t sr2_word(const vec *c) {
    const uint64_t v = 1 - (sr2_third(c) >> 63);
    return is_tail(c) ? sr_edge(c, 3) * v + sr_edge(c, 4) : sr_head(c, 3) * v + sr_head(c, 4);
}

ON_BOTH void do_sr2_send(const vec *c, packed *p) {
    if (!is_head(c)) {
        p->x[0] = sr2_word(c);
        return;
    }
    const unsigned f = c->t->shift;
    const uint64_t u = in(c, 0) + in(c, 1) + BIAS + ((uint64_t)1 << f) - 1;
    const uint64_t b = sr_b(c), a = (u >> f) - b;
    wire_out(c, 1, a);
    out(c, 0, a - (sr_head(c, 4) << (64 - f)));
    out(c, 1, b - (sr_edge(c, 4) << (64 - f)));
    p->x[0] = 1 - (u >> 63) - sr_head(c, 3) - sr_edge(c, 3);
}

ON_BOTH void do_sr2_finish(const vec *c) {
    if (is_head(c))
        return;
    const unsigned f = c->t->shift;
    const uint64_t x = sr2_third(c), v = 1 - (x >> 63);
    const uint8_t *from = c->b->wire_in[0] + (is_tail(c) ? 0 : behind_words(c));
    const uint64_t d = unpack(from, f, c->i);
    const uint64_t third = (x >> f) - ((uint64_t)1 << (62 - f)) +
                           ((d * v + sr2_word(c) + wire_packed(c, 1, f) - 1) << (64 - f));
    if (is_tail(c)) {
        out(c, 0, sr_b(c) - (sr_edge(c, 4) << (64 - f)));
        out(c, 1, third);
    } else {
        const uint64_t a = wire_in(c, 0);
        out(c, 0, third);
        out(c, 1, a - (sr_head(c, 4) << (64 - f)));
    }
}

/* --- Triples ---------------------------------------------------------------------------------- */

ON_BOTH void do_triple(const vec *c, unsigned tag) {
    for (unsigned k = 0; k < 2; k++) {
        if (c->b->out[k] == NULL)
            continue;
        const uint64_t m = prg(c, k == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT, tag, 0);
        const uint64_t x = c->b->in[0] != NULL ? in(c, k) - m : m;
        out(c, k, x);
        if (k == 0 && c->b->wire_out[0] != NULL)
            wire_out(c, 0, x);
    }
}

/* --- Where packed results go ------------------------------------------------------------------ */

ON_BOTH packing pack_to(uint8_t *a, uint8_t *b, unsigned bits, bool whole_words) {
    packing p;
    p.to[0] = a;
    p.to[1] = b;
    p.bits = bits;
    p.whole_words = whole_words;
    return p;
}

#endif
