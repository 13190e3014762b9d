/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_rounding.c - tasks of the stochastic truncation that HEAD alone opens, without keys. See
 * kernels.c for chunks and invariants.
 *
 * HEAD gets zh = z + 2^62 + r, TAIL and OTHER know r. floor((z + r mod 2^f) / 2^f) is (zh >> f) -
 * (r >> f), and 2^(64-f) more where the sum wrapped: where the top bit m of zh is 0 and that of r,
 * rb, is 1. m is HEAD's, rb the two others'; their product is k rb, which is shared while zh is on
 * its way, of a bit k of HEAD's own, corrected by e = m XOR k.
 *
 * A replicated value is not opened at all: HEAD has u = a + b + 2^62 + 2^f - 1, the others c, and
 * floor((x + 2^f - 1 - c mod 2^f) / 2^f) is (u >> f) + (c >> f), less 2^(64-f) where the sum wraps:
 * where one of their top bits is 1. (1 - top bit of u)(1 - top bit of c) is shared in one round. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>
#include <uvcc/blv1.h>

enum { LANE_BIT = 2, LANE_SPLIT = 3, LANE_WRAP = 4 }; /* of own; of trunc */

static inline unsigned pair_ht(const chunk *c) {
    return c->b->role == UVCC_HEAD ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}
static inline unsigned pair_to(const chunk *c) {
    return c->b->role == UVCC_TAIL ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}
static inline unsigned pair_ho(const chunk *c) {
    return c->b->role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
}

/* Where the chunk's values of n bits begin in a packed vector. */
static inline size_t packed_at(const chunk *c, unsigned n) {
    return (size_t)c->first * n / 8;
}

/* Packed into a message of words: what the last word has beyond them is 0. */
static void send_packed(const chunk *c, const uint64_t *x, unsigned n, uint8_t *to) {
    uvcc_bits_pack(x, c->n, n, to + packed_at(c, n));
    if (c->first + c->n == c->b->count) {
        const size_t end = ((size_t)c->b->count * n + 7) / 8, whole = (end + 7) / 8 * 8;
        memset(to + end, 0, whole - end);
    }
}

static void fetch_packed(const chunk *c, const uint8_t *from, unsigned n, uint64_t *x) {
    uvcc_bits_unpack(from + packed_at(c, n), c->n, n, x);
}

/* HEAD's own bits k, a word for 64 of them. */
static const uint64_t *own_bits(const chunk *c, unsigned slot) {
    uint64_t *words = c->s->slot[slot];
    prg(c, UVCC_PAIR_OWN, UVCC_TAG_own, LANE_BIT, c->first / 64, words, (c->n + 63) / 64);
    return words;
}
static inline uint64_t bit_of(const uint64_t *words, uint32_t i) {
    return words[i / 64] >> i % 64 & 1;
}

/* TAIL's or OTHER's words of the wrap: (share of k) rb, masked by a pad with HEAD; share in place.
 */
static void wrap_words(const chunk *c, const uint64_t *r, const uint64_t *mask, uint64_t *share) {
    for (uint32_t i = 0; i < c->n; i++)
        share[i] = (share[i] & (0 - (r[i] >> 63))) + mask[i];
}

/* ---- SR_OPEN ---- */

static void sr_open(const chunk *c) {
    const unsigned f = c->t->u.vec.shift;
    assert(c->b->wire_out[0] != NULL && (c->b->role == UVCC_HEAD || c->b->in[0] != NULL));
    uint64_t *q = c->s->slot[0];
    if (c->b->role != UVCC_OTHER)
        prg(c, pair_ht(c), UVCC_TAG_trunc, LANE_SPLIT, c->first, q, c->n);
    if (c->b->role == UVCC_HEAD) {
        const uint64_t *k = own_bits(c, 1);
        for (uint32_t i = 0; i < c->n; i++)
            q[i] = bit_of(k, i) - q[i];
        send_packed(c, q, f, c->b->wire_out[0]);
        return;
    }
    const bool tail = c->b->role == UVCC_TAIL;
    const uint64_t *zero = pad(c, 1, pair_to(c), UVCC_TAG_zero, 0), *z = in(c, 0);
    uint8_t *to_head = wire_out(c, 0);
    if (!tail) {
        for (uint32_t i = 0; i < c->n; i++)
            put(to_head, i, z[i] - zero[i]);
        return;
    }
    const uint64_t *r = pad(c, 2, pair_to(c), UVCC_TAG_trunc, 0);
    for (uint32_t i = 0; i < c->n; i++)
        put(to_head, i, z[i] + zero[i] + r[i]);
    assert(c->b->wire_out[1] != NULL);
    wrap_words(c, r, pad(c, 3, pair_ht(c), UVCC_TAG_trunc, LANE_WRAP), q);
    send_packed(c, q, f, c->b->wire_out[1]);
}

/* ---- SR_SEND ---- */

/* A component of the wrap's share, (1 - 2e) w 2^(64-f), e a mask. */
static inline uint64_t wrap_part(uint64_t w, uint64_t e, unsigned f) {
    return flip(w, e) << (64 - f);
}

static void head_sends(const chunk *c) {
    const unsigned f = c->t->u.vec.shift;
    const uint8_t *from_tail = wire_in(c, 0), *from_other = wire_in(c, 1);
    const uint64_t *k = own_bits(c, 0);
    const uint64_t *b = pad(c, 1, UVCC_PAIR_NEXT, UVCC_TAG_lift, 0);
    const uint64_t *wa = pad(c, 2, UVCC_PAIR_PREV, UVCC_TAG_trunc, LANE_WRAP);
    const uint64_t *wb = pad(c, 3, UVCC_PAIR_NEXT, UVCC_TAG_trunc, LANE_WRAP);
    const uint64_t *z = in(c, 0);
    uint64_t *lo = out(c, 0), *hi = out(c, 1), *e = c->s->slot[4];
    uint8_t *to_tail = c->b->wire_out[0], *to_other = wire_out(c, 1);
    assert(to_tail != NULL && c->b->wire_out[1] != NULL);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t zh = z[i] + get(from_tail, i) + get(from_other, i) + BIAS;
        const uint64_t a = (zh >> f) - b[i], bit = zh >> 63 ^ bit_of(k, i);
        e[i] = bit;
        put(to_other, i, a);
        lo[i] = a + wrap_part(wa[i], 0 - bit, f);
        hi[i] = b[i] + wrap_part(wb[i], 0 - bit, f);
    }
    send_packed(c, e, 1, to_tail);
    send_packed(c, e, 1, c->b->wire_out[1] + (size_t)c->b->count * 8 + c->t->u.vec.gap);
}

/* What OTHER sends is its half of the wrap's third component; it keeps both together. */
static void other_sends(const chunk *c) {
    const unsigned f = c->t->u.vec.shift;
    uint64_t *q = c->s->slot[0], *tails = c->s->slot[1], *sum = out(c, 0);
    assert(c->b->wire_out[0] != NULL && c->b->wire_in[0] != NULL && c->b->wire_in[1] != NULL);
    fetch_packed(c, c->b->wire_in[0], f, q);
    fetch_packed(c, c->b->wire_in[1], f, tails);
    wrap_words(c, pad(c, 2, pair_to(c), UVCC_TAG_trunc, 0),
               pad(c, 3, pair_ho(c), UVCC_TAG_trunc, LANE_WRAP), q);
    send_packed(c, q, f, c->b->wire_out[0]);
    for (uint32_t i = 0; i < c->n; i++)
        sum[i] = (q[i] + tails[i]) & low_bits(f);
}

static void sr_send(const chunk *c) {
    if (c->b->role == UVCC_HEAD)
        head_sends(c);
    else if (c->b->role == UVCC_OTHER)
        other_sends(c);
}

/* ---- SR_FINISH ---- */

/* The component that TAIL and OTHER hold: of r, e and the sum of their words of the wrap. */
static void third_component(const chunk *c, const uint64_t *r, const uint64_t *e,
                            const uint64_t *sum, uint64_t *to) {
    const unsigned f = c->t->u.vec.shift;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t mask = 0 - e[i], rb = r[i] >> 63;
        to[i] = ((rb & ~mask) << (64 - f)) - (r[i] >> f) - (BIAS >> f) - wrap_part(sum[i], mask, f);
    }
}

static void sr_finish(const chunk *c) {
    if (c->b->role == UVCC_HEAD)
        return;
    const unsigned f = c->t->u.vec.shift;
    uint64_t *e = c->s->slot[0], *lo = out(c, 0), *hi = out(c, 1);
    const uint64_t *r = pad(c, 1, pair_to(c), UVCC_TAG_trunc, 0);
    assert(c->b->wire_in[0] != NULL && c->b->wire_in[1] != NULL);
    if (c->b->role == UVCC_OTHER) {
        const uint64_t *wa = pad(c, 2, pair_ho(c), UVCC_TAG_trunc, LANE_WRAP);
        const uint8_t *a = wire_in(c, 0);
        fetch_packed(c, c->b->wire_in[1], 1, e);
        third_component(c, r, e, in(c, 0), lo);
        for (uint32_t i = 0; i < c->n; i++)
            hi[i] = get(a, i) + wrap_part(wa[i], 0 - e[i], f);
        return;
    }
    const uint64_t *wb = pad(c, 2, pair_ht(c), UVCC_TAG_trunc, LANE_WRAP);
    uint64_t *sum = c->s->slot[3], *others = c->s->slot[4];
    prg(c, pair_ht(c), UVCC_TAG_trunc, LANE_SPLIT, c->first, sum, c->n);
    fetch_packed(c, c->b->wire_in[0], 1, e);
    fetch_packed(c, c->b->wire_in[1], f, others);
    wrap_words(c, r, wb, sum);
    for (uint32_t i = 0; i < c->n; i++)
        sum[i] += others[i];
    third_component(c, r, e, sum, hi);
    const uint64_t *b = pad(c, 5, pair_ht(c), UVCC_TAG_lift, 0);
    for (uint32_t i = 0; i < c->n; i++)
        lo[i] = b[i] + wrap_part(wb[i], 0 - e[i], f);
}

/* ---- SR2: of shares ---- */

/* Of a component of what TAIL and OTHER know: v = 1 less its top bit, as a mask. */
static inline uint64_t not_top(uint64_t x) {
    return (x >> 63) - 1;
}

/* A half of the wrap's third component: the words that HEAD's d is masked with, times v, masked by
 * a pad with HEAD, which is in the next slot. */
static uint64_t *half_of_wrap(const chunk *c, unsigned pair, const uint64_t *x, unsigned slot) {
    uint64_t *q = c->s->slot[slot];
    prg(c, pair, UVCC_TAG_trunc, LANE_SPLIT, c->first, q, c->n);
    const uint64_t *mask = pad(c, slot + 1, pair, UVCC_TAG_trunc, LANE_WRAP);
    for (uint32_t i = 0; i < c->n; i++)
        q[i] = (q[i] & not_top(x[i])) + mask[i];
    return q;
}

static void sr2_head(const chunk *c) {
    const unsigned f = c->t->u.vec.shift;
    const uint64_t offset = BIAS + low_bits(f), *a = in(c, 0), *b = in(c, 1);
    const uint64_t *new_b = pad(c, 0, UVCC_PAIR_NEXT, UVCC_TAG_lift, 0);
    const uint64_t *wa = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_trunc, LANE_WRAP);
    const uint64_t *wb = pad(c, 2, UVCC_PAIR_NEXT, UVCC_TAG_trunc, LANE_WRAP);
    const uint64_t *qa = pad(c, 3, UVCC_PAIR_PREV, UVCC_TAG_trunc, LANE_SPLIT);
    const uint64_t *qb = pad(c, 4, UVCC_PAIR_NEXT, UVCC_TAG_trunc, LANE_SPLIT);
    uint64_t *lo = out(c, 0), *hi = out(c, 1), *d = c->s->slot[5];
    uint8_t *to_other = wire_out(c, 1);
    assert(c->b->wire_out[0] != NULL && c->b->wire_out[1] != NULL);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t u = a[i] + b[i] + offset, sent = (u >> f) - new_b[i];
        d[i] = (u >> 63 ^ 1) - qa[i] - qb[i];
        put(to_other, i, sent);
        lo[i] = sent - (wa[i] << (64 - f));
        hi[i] = new_b[i] - (wb[i] << (64 - f));
    }
    send_packed(c, d, f, c->b->wire_out[0]);
    send_packed(c, d, f, c->b->wire_out[1] + (size_t)c->b->count * 8 + c->t->u.vec.gap);
}

static void sr2_send(const chunk *c) {
    if (c->b->role == UVCC_HEAD) {
        sr2_head(c);
        return;
    }
    const bool tail = c->b->role == UVCC_TAIL;
    const uint64_t *half = half_of_wrap(c, tail ? pair_ht(c) : pair_ho(c), in(c, tail ? 1 : 0), 0);
    assert(c->b->wire_out[0] != NULL);
    send_packed(c, half, c->t->u.vec.shift, c->b->wire_out[0]);
}

static void sr2_finish(const chunk *c) {
    if (c->b->role == UVCC_HEAD)
        return;
    const unsigned f = c->t->u.vec.shift;
    const bool tail = c->b->role == UVCC_TAIL;
    const unsigned pair = tail ? pair_ht(c) : pair_ho(c);
    const uint64_t *x = in(c, tail ? 1 : 0), *half = half_of_wrap(c, pair, x, 0);
    const uint64_t *w = c->s->slot[1];
    uint64_t *d = c->s->slot[2], *came = c->s->slot[3];
    const uint8_t *from_head = c->b->wire_in[0];
    assert(from_head != NULL && c->b->wire_in[1] != NULL);
    fetch_packed(c, tail ? from_head : from_head + (size_t)c->b->count * 8 + c->t->u.vec.gap, f, d);
    fetch_packed(c, c->b->wire_in[1], f, came);
    const uint64_t *new_b = tail ? pad(c, 4, pair, UVCC_TAG_lift, 0) : NULL;
    uint64_t *with_head = out(c, tail ? 0 : 1), *third = out(c, tail ? 1 : 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t wrap = (d[i] & not_top(x[i])) + half[i] + came[i] - 1;
        third[i] = (x[i] >> f) + (wrap << (64 - f)) - (BIAS >> f);
    }
    for (uint32_t i = 0; i < c->n; i++)
        with_head[i] = (tail ? new_b[i] : get(wire_in(c, 0), i)) - (w[i] << (64 - f));
}

static bool shift_is_sane(const uvcc_task *t) {
    return t->u.vec.shift >= 1 && t->u.vec.shift <= 62;
}

const uvcci_kernel uvcci_kernels_rounding[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_SR_OPEN] = {.run = sr_open, .sane = shift_is_sane},
    [UVCC_TASK_SR_SEND] = {.run = sr_send, .sane = shift_is_sane},
    [UVCC_TASK_SR_FINISH] = {.run = sr_finish, .sane = shift_is_sane},
    [UVCC_TASK_SR2_SEND] = {.run = sr2_send, .sane = shift_is_sane},
    [UVCC_TASK_SR2_FINISH] = {.run = sr2_finish, .sane = shift_is_sane},
};
