/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_bool.h - comparison without keys (compute.md, section 7): a word of a plane at a time, in
 * the last round an element. In BOOL_SHARE and BOOL_JOIN a unit of work is a word of a group, in
 * BOOL_MERGE and BOOL_RECEIVE a word of all groups, since planes there move down in place. */
#ifndef UVCCI_GPU_KINDS_BOOL_H
#define UVCCI_GPU_KINDS_BOOL_H

#include "gpu/kinds_edge.h"

enum { BOOL_PIECE = 4096, BOOL_PADS = 3 /* lane */ };

ON_BOTH unsigned bool_groups(unsigned n) {
    unsigned g = 1;
    while (4 * g < n)
        g *= 2;
    return g;
}
ON_BOTH unsigned bool_words(const vec *c) {
    return (c->b->count + 63) / 64;
}
ON_BOTH unsigned bool_planes(const vec *c) {
    return 2 * bool_groups(c->t->bits) - 1;
}
ON_BOTH unsigned group_begin(const vec *c, unsigned j) {
    return j * c->t->bits / bool_groups(c->t->bits);
}
ON_BOTH unsigned group_bits(const vec *c, unsigned j) {
    return group_begin(c, j + 1) - group_begin(c, j);
}
/* Number of the first subset of a group. */
ON_BOTH unsigned group_subsets(const vec *c, unsigned j) {
    unsigned t = 0;
    for (unsigned k = 0; k < j; k++)
        t += (1u << group_bits(c, k)) - 1;
    return t;
}
ON_BOTH size_t message_at(const vec *c, size_t word) {
    return 8 * word + word / BOOL_PIECE * c->t->gap;
}
ON_BOTH uint64_t bool_pad(const vec *c, unsigned pair, unsigned plane, unsigned word) {
    return prg_call_at(c, c->t->call, pair, UVCC_TAG_zero, BOOL_PADS,
                       (uint64_t)bool_words(c) * plane + word);
}
ON_BOTH uint64_t element_pad(const vec *c, unsigned pair, unsigned k) {
    return prg_call_at(c, c->t->call, pair, UVCC_TAG_zero, BOOL_PADS,
                       (uint64_t)UVCC_BLOCK_ELEMS * k + c->i);
}

/* u at HEAD, c at the others. */
ON_BOTH uint64_t bool_value(const vec *c, uint32_t i) {
    if (is_head(c))
        return c->b->in[0][i] + c->b->in[1][i];
    return c->b->in[is_tail(c) ? 1 : 0][i];
}
/* A group's bits of 64 elements, as words of planes. */
ON_BOTH void gather(const vec *c, unsigned group, unsigned word, uint64_t *plane) {
    const unsigned first = group_begin(c, group);
    for (unsigned b = 0; b < 4; b++)
        plane[b] = 0;
    for (unsigned e = 0; e < 64 && word * 64 + e < c->b->count; e++) {
        const uint64_t x = bool_value(c, word * 64 + e) >> first;
        for (unsigned b = 0; b < 4; b++)
            plane[b] |= bit_of(x, b) << e;
    }
}
/* The AND of the planes in a subset. */
ON_BOTH uint64_t subset(const uint64_t *plane, unsigned s) {
    uint64_t y = ~(uint64_t)0;
    for (unsigned b = 0; b < 4; b++)
        if ((s >> b & 1) != 0)
            y &= plane[b];
    return y;
}
ON_BOTH unsigned lowest(unsigned s) {
    return s & (0 - s);
}
/* g and p of a group of k bits; u[s] for all subsets. */
ON_BOTH void carry(const uint64_t *u, const uint64_t *plane, unsigned k, uint64_t *g, uint64_t *p) {
    const unsigned all = (1u << k) - 1;
    *g = 0;
    *p = u[0] & subset(plane, all);
    for (unsigned s = 1; s <= all; s++) {
        const unsigned first = lowest(s), above = all & ~(2 * first - 1) & ~s;
        *g ^= u[s] & subset(plane, first) & subset(plane, above);
        *p ^= u[s] & subset(plane, all & ~s);
    }
}
ON_BOTH unsigned plane_of(unsigned group) { /* of g; p has the next */
    return group == 0 ? 0 : 2 * group - 1;
}

/* --- Round 0 ---------------------------------------------------------------------------------- */

/* HEAD sends the ANDs of its bits, masked; the others take the masks for them and share what comes
 * of that. */
ON_BOTH void do_bool_share(const vec *c) {
    const unsigned words = bool_words(c), word = c->i % words, group = c->i / words;
    const unsigned k = group_bits(c, group), first = group_subsets(c, group);
    const unsigned planes = bool_planes(c);
    uint64_t plane[4], u[16];
    gather(c, group, word, plane);
    if (is_head(c)) {
        for (unsigned s = 1; s < 1u << k; s++) {
            const unsigned t = first + s - 1;
            const uint64_t x = subset(plane, s) ^ bool_pad(c, UVCC_PAIR_PREV, t, word) ^
                               bool_pad(c, UVCC_PAIR_NEXT, t, word);
            const size_t at = message_at(c, (size_t)t * words + word);
            store64(c->b->wire_out[0] + at, x);
            store64(c->b->wire_out[1] + at, x);
        }
        return;
    }
    const unsigned head = with_head(c);
    const unsigned other = with_third(c);
    const unsigned half = is_tail(c) ? planes : 0;
    uint64_t x[2];
    u[0] = 0;
    for (unsigned s = 1; s < 1u << k; s++)
        u[s] = bool_pad(c, head, first + s - 1, word);
    carry(u, plane, k, &x[0], &x[1]);
    for (unsigned q = 0; q < (group == 0 ? 1u : 2u); q++) {
        const unsigned to = plane_of(group) + q;
        const uint64_t y = x[q] ^ bool_pad(c, other, half + to, word);
        c->b->out[0][(size_t)((is_tail(c) ? 0 : planes) + to) * words + word] = y;
        store64(c->b->wire_out[0] + message_at(c, (size_t)to * words + word), y);
    }
}

ON_BOTH void do_bool_join(const vec *c) {
    const unsigned words = bool_words(c), word = c->i % words, group = c->i / words;
    const unsigned k = group_bits(c, group), first = group_subsets(c, group);
    const unsigned planes = bool_planes(c), count = group == 0 ? 1 : 2;
    if (is_head(c)) {
        for (unsigned q = 0; q < count; q++) {
            const size_t at = (size_t)(plane_of(group) + q) * words + word;
            c->b->out[0][at] = load64(c->b->wire_in[0] + 8 * at);
            c->b->out[0][(size_t)planes * words + at] = load64(c->b->wire_in[1] + 8 * at);
        }
        return;
    }
    const unsigned other = with_third(c);
    uint64_t plane[4], u[16], x[2];
    gather(c, group, word, plane);
    u[0] = ~(uint64_t)0;
    for (unsigned s = 1; s < 1u << k; s++)
        u[s] = load64(c->b->wire_in[0] + message_at(c, (size_t)(first + s - 1) * words + word));
    carry(u, plane, k, &x[0], &x[1]);
    for (unsigned q = 0; q < count; q++) {
        const unsigned to = plane_of(group) + q;
        c->b->out[0][(size_t)((is_tail(c) ? planes : 0) + to) * words + word] =
            x[q] ^ bool_pad(c, other, to, word) ^ bool_pad(c, other, planes + to, word);
    }
}

/* --- Levels ----------------------------------------------------------------------------------- */

typedef struct shared_bits {
    uint64_t lo, hi;
} shared_bits;

ON_BOTH shared_bits state_at(const vec *c, unsigned plane, unsigned word) {
    const size_t words = bool_words(c), at = plane * words + word;
    shared_bits x;
    x.lo = c->b->out[0][at];
    x.hi = c->b->out[0][bool_planes(c) * words + at];
    return x;
}
ON_BOTH uint64_t product(shared_bits x, shared_bits y) {
    return (x.lo & (y.lo ^ y.hi)) ^ (x.hi & y.lo);
}
ON_BOTH void merged(const vec *c, unsigned plane, unsigned word, uint64_t x) {
    const size_t at = (size_t)plane * bool_words(c) + word;
    x ^= bool_pad(c, UVCC_PAIR_NEXT, plane, word) ^ bool_pad(c, UVCC_PAIR_PREV, plane, word);
    c->b->out[0][at] = x;
    if (c->b->wire_out[0] != NULL)
        store64(c->b->wire_out[0] + message_at(c, at), x);
}
ON_BOTH void do_bool_merge(const vec *c) {
    const unsigned word = c->i, groups = bool_groups(c->t->bits) >> c->t->shift;
    for (unsigned j = 0; j < groups; j++) {
        const shared_bits g1 = state_at(c, plane_of(2 * j + 1), word);
        const shared_bits p1 = state_at(c, plane_of(2 * j + 1) + 1, word);
        const shared_bits g0 = state_at(c, plane_of(2 * j), word);
        const shared_bits p0 = state_at(c, plane_of(2 * j) + 1, word); /* j = 0: not used */
        merged(c, plane_of(j), word, g1.lo ^ product(p1, g0));
        if (j > 0)
            merged(c, plane_of(j) + 1, word, product(p1, p0));
    }
}
ON_BOTH void do_bool_receive(const vec *c) {
    if (c->b->wire_in[0] == NULL)
        return;
    const size_t words = bool_words(c);
    const unsigned planes = 2 * (bool_groups(c->t->bits) >> c->t->shift) - 1;
    for (unsigned k = 0; k < planes; k++) {
        const size_t at = k * words + c->i;
        c->b->out[0][bool_planes(c) * words + at] = load64(c->b->wire_in[0] + 8 * at);
    }
}

/* --- The last round, by element --------------------------------------------------------------- */

/* d is q XOR v: HEAD has q, the others v. */
ON_BOTH uint64_t bool_part(const vec *c) {
    const size_t words = bool_words(c);
    const uint64_t lo = bit_of(c->b->in[2][c->i / 64], c->i % 64);
    const uint64_t hi = bit_of(c->b->in[2][bool_planes(c) * words + c->i / 64], c->i % 64);
    const uint64_t top = bit_of(bool_value(c, c->i), c->t->bits);
    return top ^ (is_head(c) ? 1 ^ lo ^ hi : is_tail(c) ? hi : lo);
}

/* v is secret, so it multiplies. The message has the product's words first, if there are any. */
ON_BOTH void do_bool_select_mask(const vec *c) {
    const bool multiply = (c->t->gate & UVCC_BOOL_PRODUCT) != 0;
    const uint64_t v = bool_part(c), x = bool_value(c, c->i);
    if (is_head(c)) {
        const uint64_t e1 =
            v - element_pad(c, UVCC_PAIR_PREV, 1) - element_pad(c, UVCC_PAIR_NEXT, 1);
        const size_t at = (multiply ? (size_t)c->b->count * 8 + c->t->gap : 0) + (size_t)8 * c->i;
        store_both(c->b->wire_out, at, e1);
        if (multiply)
            store_both(c->b->wire_out, (size_t)8 * c->i,
                       v * x - element_pad(c, UVCC_PAIR_PREV, 0) -
                           element_pad(c, UVCC_PAIR_NEXT, 0));
        return;
    }
    const unsigned head = with_head(c);
    const unsigned other = with_third(c);
    const unsigned last = is_tail(c) ? 1 : 0;
    const uint64_t one = element_pad(c, head, 1);
    if (multiply) {
        const uint64_t y = flip(element_pad(c, head, 0) + one * x, v) +
                           v * c->b->in[1 - last][c->i] + element_pad(c, other, last);
        out(c, 0, y);
        wire_out(c, 0, y);
    }
    if ((c->t->gate & UVCC_BOOL_BIT) != 0) {
        const uint64_t y = flip(one, v) + element_pad(c, other, 2 + last);
        out(c, 1, y);
        wire_out(c, 1, y);
    }
}

ON_BOTH void do_bool_select_finish(const vec *c) {
    if (is_head(c)) {
        out(c, 0, wire_in(c, 0));
        out(c, 1, wire_in(c, 1));
        return;
    }
    const bool multiply = c->t->gate == UVCC_BOOL_PRODUCT;
    const unsigned other = with_third(c), first = multiply ? 0 : 2;
    const uint64_t v = bool_part(c), x = bool_value(c, c->i);
    const uint64_t e = multiply ? wire_in(c, 0) + wire_in(c, 1) * x : wire_in(c, 0);
    out(c, is_tail(c) ? 1 : 0,
        flip(e, v) + v * (multiply ? x : 1) - element_pad(c, other, first) -
            element_pad(c, other, first + 1));
}

#endif
