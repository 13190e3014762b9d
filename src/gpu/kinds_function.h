/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_function.h - functions (compute.md, section 6): what each task does for one element. */
#ifndef UVCCI_GPU_KINDS_FUNCTION_H
#define UVCCI_GPU_KINDS_FUNCTION_H

#include "gpu/kinds_edge.h"

ON_BOTH void do_fn_open_mask(const vec *c, packed *p) {
    if (!is_other(c))
        p->x[0] = open2(c);
}
ON_BOTH void do_fn_open_finish(const vec *c, packed *p) {
    if (is_other(c))
        return;
    const unsigned m = c->t->fn.bits;
    p->x[0] = low(in(c, 0) + wire_packed(c, 0, m), m);
    out(c, 0, p->x[0]);
}
ON_BOTH void do_fn_open_bits(const vec *c, packed *p) {
    if (is_other(c))
        return;
    const unsigned m = c->t->fn.bits;
    p->x[0] = low(in(c, 0) ^ wire_packed(c, 0, m), m);
    out(c, 0, p->x[0]);
}
ON_BOTH void do_fn_pads(const vec *c) {
    const unsigned tag = c->t->fn.exchange ? UVCC_TAG_lift : UVCC_TAG_mask;
    const unsigned lane = c->t->fn.exchange ? 2 : 0;
    out(c, 0, is_other(c) ? both_pads(c, c->t->call, tag, lane) : prg(c, with_other(c), tag, lane));
}
ON_BOTH void do_fn_shift(const vec *c) {
    out(c, 0, low(in(c, 0), c->t->fn.bits) >> c->t->fn.shift);
}

ON_BOTH void do_fn_compare(const vec *c, packed *p) {
    if (is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    const unsigned m = fn->bits;
    const dpf f = dpf_at(c, c->b->key, m);
    const node root = own_root(c, fn->call_key);
    uint64_t d = 0;
    for (unsigned j = 0; j < fn->word_count; j++) {
        const uint64_t z = in(c, 0) - (uint64_t)fn->words[j];
        const uint64_t bit = dpf_prefix(c, &f, root, low(z, m));
        d |= (bit ^ (is_head(c) ? bit_of(z, m) : 0)) << j;
    }
    d ^= low(prg(c, with_other(c), UVCC_TAG_mask, 2), fn->word_count);
    out(c, 0, d);
    p->x[0] = d;
}

ON_BOTH uint64_t masked(const vec *c, uint64_t v, uint64_t xh, uint64_t p) {
    return v * ((is_head(c) ? xh : 0) - p);
}

ON_BOTH void do_fn_select(const vec *c) {
    if (is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    const unsigned call = c->t->call;
    const uint64_t xh = in(c, 0), p = in(c, 1), e = in(c, 2);
    const bool two = c->b->in[3] != NULL;
    const uint64_t other = two ? bit_of(in(c, 3), 0) : 0;
    uint64_t sum = 0, one = 0;
    if (two)
        one = masked(c, other, xh, p) +
              flip(dealt(c, 1, call, 2, 0) * xh - dealt(c, 1, call, 2, 1), other);
    for (unsigned j = 0; j < fn->word_count; j++) {
        const uint64_t e_j = bit_of(e, j), k = dealt(c, 0, fn->call_bits, 0, j);
        uint64_t y;
        if (two) {
            const uint64_t kr = dealt(c, 1, call, 2, 2 + 3 * j);
            const uint64_t kk = dealt(c, 1, call, 2, 3 + 3 * j);
            const uint64_t kkr = dealt(c, 1, call, 2, 4 + 3 * j);
            y = e_j * one + flip(other * (k * xh - kr) + flip(kk * xh - kkr, other), e_j);
        } else {
            y = masked(c, e_j, xh, p) + flip(k * xh - dealt(c, 1, call, 1, j), e_j);
        }
        sum += (uint64_t)fn->words[j] * y;
    }
    out(c, 0, sum);
}

ON_BOTH void do_fn_bits(const vec *c) {
    if (is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    uint64_t sum = 0;
    for (unsigned j = 0; j < fn->word_count; j++) {
        const uint64_t e_j = bit_of(in(c, 2), j);
        sum += (uint64_t)fn->words[j] *
               ((is_head(c) ? e_j : 0) + flip(dealt(c, 0, fn->call_bits, 0, j), e_j));
    }
    out(c, 0, sum);
}

/* --- Tables ----------------------------------------------------------------------------------- */

ON_BOTH uint64_t scale_of(const int64_t *w, uint64_t l, unsigned s) {
    uint64_t z = (uint64_t)w[3];
    for (unsigned k = 3; k-- != 0;)
        z = (uint64_t)w[k] + shift_signed(l * z, s);
    return z;
}

/* The 128 values of a node, 2^n of them over and over if it has fewer. */
ON_BOTH seed leaf(const vec *c, const dpf *f, node n) {
    seed y = terminal(c, f, n);
    if (f->n < 7) {
        y.lo = low(y.lo, 1u << f->n);
        for (unsigned k = 1u << f->n; k < 64; k *= 2)
            y.lo |= y.lo << k;
        y.hi = y.lo;
    }
    return y;
}

/* Bits `by` to `by` + 127 of (high, low), by = 1..128. */
ON_BOTH seed bits_between(seed high, seed low, unsigned by) {
    const unsigned word = by / 64, s = by % 64;
    const uint64_t a = word == 0 ? low.lo : word == 1 ? low.hi : high.lo;
    const uint64_t b = word == 0 ? low.hi : word == 1 ? high.lo : high.hi;
    const uint64_t top = word == 0 ? high.lo : high.hi;
    seed y;
    y.lo = a >> s | b << 1 << (63 - s);
    y.hi = b >> s | top << 1 << (63 - s);
    return y;
}

/* The entries whose bit is set, of at most 32: that of the first is the top bit. */
ON_BOTH uint64_t chosen(const uvcc_fn_args *fn, uint32_t first, uint32_t bits, uint64_t scale) {
    const int32_t *entries = fn->entries + first;
    const uint32_t left = fn->entry_count - first, some = left < 32 ? left : 32;
    uint64_t sum = 0;
    if (fn->shift != 0) {
        for (uint32_t j = 0; j < some; j++, bits <<= 1)
            sum += shift_signed((uint64_t)(int64_t)entries[j] * scale, 30) &
                   (0 - (uint64_t)(bits >> 31));
    } else if (some == 32) {
#ifdef __CUDA_ARCH__
        const int4 *four = (const int4 *)entries; /* `first` is a multiple of 32 */
#pragma unroll
        for (int j = 0; j < 8; j++, bits <<= 4) {
            const int4 e = four[j];
            sum += (uint64_t)((int64_t)e.x * (int)(bits >> 31));
            sum += (uint64_t)((int64_t)e.y * (int)(bits >> 30 & 1));
            sum += (uint64_t)((int64_t)e.z * (int)(bits >> 29 & 1));
            sum += (uint64_t)((int64_t)e.w * (int)(bits >> 28 & 1));
        }
#else
        for (uint32_t j = 0; j < 32; j++, bits <<= 1)
            sum += (uint64_t)((int64_t)entries[j] * (int)(bits >> 31));
#endif
    } else {
        for (uint32_t j = 0; j < some; j++, bits <<= 1)
            sum += (uint64_t)(int64_t)(int32_t)((uint32_t)entries[j] & (0 - (bits >> 31)));
    }
    return sum;
}

/* This lane's part of the sum over the entries i, which count where the key has x = xh - first - i
 * mod 2^m. 128 of them have neighbouring x, which stand in two nodes at most; so lanes whose xh
 * differ go on side by side. */
ON_BOTH uint64_t table_part(const vec *c, const dpf *f, uint64_t scale) {
    const uvcc_fn_args *fn = &c->t->fn;
    const uint64_t x = low(in(c, 0) - (uint64_t)fn->first, f->n);
    const unsigned skip = f->n < 7 ? f->n : 7, by = terminal_at(f->n, x) + 1;
    const uint32_t chunks = (fn->entry_count + 127) / 128;
    const uint32_t from = (uint32_t)((uint64_t)chunks * c->lane / c->lanes);
    const uint32_t to = (uint32_t)((uint64_t)chunks * (c->lane + 1) / c->lanes);
    const uint64_t number = low((x >> skip) - from, f->n - skip);
    uint64_t sum = 0;
    descent w;
    if (from == to)
        return 0;
    seed high =
        leaf(c, f, descend_from(c, &f->k, &w, own_root(c, fn->call_key), number, f->k.depth));
    for (uint32_t k = from; k < to; k++) {
        const seed below = leaf(c, f, descend(c, &f->k, &w)), bits = bits_between(high, below, by);
        for (uint32_t q = 0; q < 4 && 128 * k + 32 * q < fn->entry_count; q++)
            sum += chosen(fn, 128 * k + 32 * q,
                          (uint32_t)((q < 2 ? bits.hi : bits.lo) >> (q % 2 == 0 ? 32 : 0)), scale);
        high = below;
    }
    return sum;
}

ON_BOTH uint64_t part_of_fn_table(const vec *c) {
    if (is_other(c))
        return 0;
    const uvcc_fn_args *fn = &c->t->fn;
    const dpf f = dpf_at(c, c->b->key, fn->bits);
    return table_part(
        c, &f, fn->shift != 0 ? scale_of(fn->words, low(in(c, 1), fn->shift), fn->shift) : 0);
}
ON_BOTH void end_fn_table(const vec *c, uint64_t v) {
    if (is_other(c))
        return;
    const uint64_t x = (is_head(c) ? v : 0 - v) + prg(c, with_other(c), UVCC_TAG_mask, 1);
    if (c->b->in[2] != NULL) {
        const uint64_t b = in(c, 2) + prg(c, with_other(c), UVCC_TAG_mask, 0);
        out(c, 1, b);
        wire_out(c, 1, b);
    }
    out(c, 0, x);
    wire_out(c, 0, x);
}
ON_BOTH void do_fn_table(const vec *c) {
    end_fn_table(c, part_of_fn_table(c));
}

ON_BOTH uint64_t scalar(const vec *c, uint32_t q) {
    const unsigned call = c->t->call;
    const uint64_t vh = in(c, 0), first = dealt(c, 0, call, 2, q);
    if (c->b->in[1] == NULL)
        return first * vh - dealt(c, 0, call, 2, q + 1);
    const uint64_t bh = in(c, 1);
    return first * vh * bh - dealt(c, 0, call, 2, q + 1) * bh - dealt(c, 0, call, 2, q + 2) * vh +
           dealt(c, 0, call, 2, q + 3);
}
ON_BOTH void do_fn_scalar(const vec *c) {
    if (is_other(c))
        return;
    uint64_t y = scalar(c, 0);
    if (c->b->in[2] != NULL) {
        const uint64_t e = bit_of(in(c, 2), 0);
        y = e * y + flip(scalar(c, c->b->in[1] != NULL ? 4 : 2), e);
    }
    out(c, 0, y);
}

ON_BOTH void do_fn_add(const vec *c) {
    if (is_other(c))
        return;
    uint64_t t = is_head(c) ? (uint64_t)c->t->fn.constant : 0;
    if (c->b->in[1] != NULL)
        t += c->b->in[2] == NULL ? in(c, 1) : masked(c, 1, in(c, 1), in(c, 2));
    out(c, 0, in(c, 0) + t);
}

ON_BOTH void do_fn_mul(const vec *c) {
    if (is_other(c))
        return;
    const uint64_t xh = in(c, 0), yh = in(c, 2);
    out(c, 0,
        (is_head(c) ? xh * yh : 0) + dealt(c, 0, c->t->call, 2, 0) - xh * in(c, 3) - yh * in(c, 1));
}

ON_BOTH void do_fn_trunc(const vec *c) {
    if (is_other(c))
        return;
    const unsigned s = c->t->fn.shift;
    const uint64_t zh = in(c, 0) + BIAS;
    const uint64_t top = is_head(c) ? (zh >> s) - ((uint64_t)1 << (62 - s)) : 0;
    out(c, 0, dealt(c, 0, c->t->call, 2, (uint32_t)(zh >> 63)) + top);
}

/* --- The greatest of four --------------------------------------------------------------------- */

enum { PAIRS = 6, CANDIDATES = 3, ROWS = 7 };

/* Pair j of candidate n, whether its bit is inverted, and the pair of the candidate and the last
 * column. */
ON_BOTH unsigned best_pair(unsigned n, unsigned j) {
    return n == 0 ? j : n == 1 ? (j == 0 ? 0 : j + 2) : (j == 0 ? 1 : j == 1 ? 3 : 5);
}
ON_BOTH unsigned best_inverted(unsigned n, unsigned j) {
    return j < n ? 1 : 0;
}
ON_BOTH unsigned best_last(unsigned n) {
    return n == 0 ? 2 : n == 1 ? 4 : 5;
}

/* The share of word E of eight, the last being `whole` less the others. E is of opened bits. */
ON_BOTH uint64_t best_word(const vec *c, uint32_t q, unsigned e, uint64_t whole) {
    uint64_t sum = 0;
    if (e < ROWS)
        return dealt(c, 0, c->t->call, 2, q + e);
    for (unsigned v = 0; v < ROWS; v++)
        sum += dealt(c, 0, c->t->call, 2, q + v);
    return whole - sum;
}
ON_BOTH void do_fn_best(const vec *c) {
    if (is_other(c))
        return;
    const size_t at = (size_t)PAIRS * c->i;
    uint64_t sum = 0;
    for (unsigned n = 0; n < CANDIDATES; n++) {
        const size_t last = at + best_last(n);
        unsigned e = 0;
        for (unsigned j = 0; j < CANDIDATES; j++)
            e |= (unsigned)(1 ^ (c->b->in[2][at + best_pair(n, j)] & 1) ^ best_inverted(n, j)) << j;
        sum += best_word(c, 2 * ROWS * n, e, is_head(c) ? 1 : 0) * c->b->in[0][last] -
               best_word(c, 2 * ROWS * n + ROWS, e, c->b->in[1][last]);
    }
    out(c, 0, sum);
}

/* --- Multi-scale tables ----------------------------------------------------------------------- */

typedef struct scales {
    unsigned depth, shift, cells, count;
} scales;

ON_BOTH scales scales_of(const uvcc_fn_args *fn) {
    scales s;
    s.depth = fn->bits;
    s.shift = fn->shift;
    s.cells = (unsigned)fn->first;
    s.count = fn->word_count / (9 * s.cells);
    return s;
}
ON_BOTH uint64_t scale_top(uint64_t x, unsigned s) {
    return s >= 12 ? low(x, s) >> (s - 12) : low(x, s) << (12 - s);
}
/* The three words of a node with a payload. */
ON_BOTH void scale_values(const vec *c, seed s, uint64_t *v) {
    seed x = s;
    x.lo ^= 1;
    x = mmo(c, 0, x);
    v[0] = x.lo;
    v[1] = x.hi;
    s.lo ^= 3;
    v[2] = mmo(c, 0, s).lo;
}
ON_BOTH size_t scale_word_at(const vec *c, unsigned k, unsigned j) {
    return 8 * (((size_t)k * c->b->count + c->i) * 3 + j);
}

/* From scale to scale and cell to cell: which cells count and where they are is of xh, which is
 * public here. A cell's place may be below 0; then its quotient by 4 is rounded down. A lane takes
 * neighbouring cells of all scales. */
ON_BOTH uint64_t part_of_fn_multiscale(const vec *c) {
    if (is_other(c))
        return 0;
    const uvcc_fn_args *fn = &c->t->fn;
    const scales s = scales_of(fn);
    const uint64_t xh = in(c, 0);
    const size_t count = c->b->count;
    const uint8_t *payload = c->b->key + 16 * s.depth * count;
    const unsigned all = 3 * s.cells * s.count;
    const unsigned from = all * c->lane / c->lanes, to = all * (c->lane + 1) / c->lanes;
    levels k;
    k.words = c->b->key;
    k.bits = payload + 24 * s.count * count;
    k.depth = s.depth;
    uint64_t sum = 0;
    walk w;
    walk_from(&w, own_root(c, fn->call_key));
    for (unsigned cell = from; cell < to; cell++) {
        const unsigned scale = cell / (3 * s.cells), i = s.cells + cell % (3 * s.cells);
        const unsigned level = s.depth - 2 * scale, shift = s.shift + 2 * scale;
        const uint64_t z = xh >> shift, at = scale_top(xh, shift);
        const int64_t below = (int64_t)(z - i);
        if (scale + 1 != s.count &&
            (int64_t)(z >> 2) - (z >= i ? (int64_t)((z - i) >> 2) : below >> 2) >= (int64_t)s.cells)
            continue;
        const node n = walk_to(c, &k, &w, low(z - i, level), level);
        const int64_t *a = fn->words + (size_t)3 * scale * 3 * s.cells + (i - s.cells);
        uint64_t u[3];
        scale_values(c, n.s, u);
        for (unsigned j = 0; j < 3; j++)
            u[j] += load64(payload + scale_word_at(c, scale, j)) & (0 - n.t);
        const uint64_t a0 = (uint64_t)a[0], a1 = (uint64_t)a[3 * s.cells],
                       a2 = (uint64_t)a[6 * s.cells];
        sum +=
            a0 * u[0] - a1 * u[1] + a2 * u[2] + at * (a1 * u[0] - 2 * a2 * u[1] + at * a2 * u[0]);
    }
    return sum;
}
ON_BOTH void end_fn_multiscale(const vec *c, uint64_t sum) {
    if (!is_other(c))
        out(c, 0, is_head(c) ? sum + (uint64_t)c->t->fn.constant : 0 - sum);
}
ON_BOTH void do_fn_multiscale(const vec *c) {
    end_fn_multiscale(c, part_of_fn_multiscale(c));
}

ON_BOTH void do_fn_deal_multiscale(const vec *c) {
    if (!is_other(c))
        return;
    const scales s = scales_of(&c->t->fn);
    const size_t count = c->b->count;
    const uint64_t r = in(c, 0), alpha = r >> s.shift;
    uint8_t *words[2], *payload[2], *bits[2];
    for (unsigned p = 0; p < 2; p++) {
        words[p] = c->b->out_bytes[p];
        payload[p] = words[p] + 16 * s.depth * count;
        bits[p] = payload[p] + 24 * s.count * count;
    }
    maker m = maker_of(c, c->t->fn.call_key);
    for (unsigned l = 0; l < s.depth; l++) {
        make_level(c, &m, l, bit_of(alpha, s.depth - 1 - l), words);
        const unsigned above = s.depth - 1 - l, scale = above / 2;
        if (above % 2 != 0 || scale >= s.count)
            continue;
        const uint64_t q = scale_top(r, s.shift + 2 * scale);
        const uint64_t beta[3] = {1, q, q * q};
        uint64_t v[2][3];
        scale_values(c, m.n[0].s, v[0]);
        scale_values(c, m.n[1].s, v[1]);
        for (unsigned j = 0; j < 3; j++)
            store_both(payload, scale_word_at(c, scale, j),
                       flip(beta[j] - v[0][j] + v[1][j], m.n[1].t));
    }
    make_controls(c, &m, s.depth, bits);
}

/* --- DCF keys --------------------------------------------------------------------------------- */

ON_BOTH void do_fn_floor(const vec *c) {
    if (is_other(c))
        return;
    const unsigned s = c->t->fn.shift;
    const dcf f = dcf_at(c, c->b->key, s, 1);
    uint64_t less[DCF_WORDS_MAX];
    dcf_eval(c, &f, own_root(c, c->t->fn.call_key), low(in(c, 0), s), less);
    out(c, 0, in(c, 1) - less[0]);
}

/* q_j of a polynomial: what it is as a polynomial of r at xh. */
ON_BOTH uint64_t spline_q(const uint64_t *coeff, unsigned degree, unsigned j, uint64_t xh) {
    uint64_t sum = 0, power = 1, choose_ij = 1;
    for (unsigned i = j; i <= degree; i++) {
        sum += choose_ij * coeff[i] * power;
        power *= xh;
        choose_ij = choose_ij * (i + 1) / (i + 1 - j);
    }
    return (j & 1) != 0 ? 0 - sum : sum;
}

/* The first piece, then at each knot the difference of the pieces on both sides. */
ON_BOTH void do_fn_spline(const vec *c) {
    if (is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    const unsigned d = (unsigned)fn->first, m = fn->bits, call = c->t->call;
    const unsigned knots = (fn->word_count - (d + 1)) / (d + 2);
    const int64_t *pieces = fn->words + knots;
    const uint64_t xh = in(c, 0);
    const dcf f = dcf_at(c, c->b->key, m, d + 1);
    const node root = own_root(c, fn->call_key);
    uint64_t u[DCF_WORDS_MAX], v[DCF_WORDS_MAX], at[DCF_WORDS_MAX], coeff[DCF_WORDS_MAX];
    uint64_t sum = 0;
    for (unsigned j = 0; j <= d; j++) {
        u[j] = dealt(c, 0, call, 2, j);
        v[j] = j == 0 ? (is_head(c) ? 1 : 0) : j == 1 ? in(c, 1) : dealt(c, 0, call, 2, d - 1 + j);
        coeff[j] = (uint64_t)pieces[j];
    }
    for (unsigned j = 0; j <= d; j++)
        sum += spline_q(coeff, d, j, xh) * v[j];
    for (unsigned knot = 0; knot < knots; knot++) {
        const uint64_t z = xh - (uint64_t)fn->words[knot], side = bit_of(z, m);
        const int64_t *above = pieces + (size_t)(knot + 1) * (d + 1), *below = above - (d + 1);
        dcf_eval(c, &f, root, low(z, m), at);
        for (unsigned j = 0; j <= d; j++)
            coeff[j] = (uint64_t)above[j] - (uint64_t)below[j];
        for (unsigned j = 0; j <= d; j++) {
            const uint64_t part = u[j] + at[j];
            sum += spline_q(coeff, d, j, xh) * (side != 0 ? v[j] - part : part);
        }
    }
    out(c, 0, sum);
}

/* --- OTHER ------------------------------------------------------------------------------------ */

ON_BOTH void do_fn_deal_key(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned m = c->t->fn.bits;
    const made to = made_at(c, dpf_depth(m));
    const uint64_t bit = make_dpf(c, c->t->fn.call_key, m, low(in(c, 0), m), &to);
    if (c->b->out[0] != NULL)
        out(c, 0, 2 * bit - 1);
}
ON_BOTH void do_fn_deal_bits(const vec *c) {
    if (!is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    const uint64_t rho =
        prg(c, HO_OF_OTHER, UVCC_TAG_mask, 2) ^ prg(c, TO_OF_OTHER, UVCC_TAG_mask, 2);
    const uint64_t k = low(rho ^ (0 - bit_of(in(c, 0), fn->bits)), fn->word_count);
    if (c->b->out[0] != NULL)
        out(c, 0, k);
    for (unsigned j = 0; j < fn->word_count; j++)
        deal(c, c->t->call, 0, j, bit_of(k, j));
}
ON_BOTH void do_fn_deal_select(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned call = c->t->call;
    const uint64_t k = in(c, 0), r = in(c, 1);
    const bool two = c->b->in[2] != NULL;
    const uint64_t other = two ? bit_of(in(c, 2), 0) : 0;
    if (two) {
        deal(c, call, 2, 0, other);
        deal(c, call, 2, 1, other * r);
    }
    for (unsigned j = 0; j < c->t->fn.word_count; j++) {
        const uint64_t k_j = bit_of(k, j);
        if (two) {
            deal(c, call, 2, 2 + 3 * j, k_j * r);
            deal(c, call, 2, 3 + 3 * j, k_j * other);
            deal(c, call, 2, 4 + 3 * j, k_j * other * r);
        } else {
            deal(c, call, 1, j, k_j * r);
        }
    }
}
ON_BOTH void do_fn_deal_scalar(const vec *c) {
    if (!is_other(c))
        return;
    const uvcc_fn_args *fn = &c->t->fn;
    const unsigned call = c->t->call, s = fn->shift;
    uint64_t value = in(c, 0), rho_b = 0;
    if (fn->by_table)
        value *= in(c, 1);
    if (s > 0)
        value *= shift_signed(scale_of(fn->words + 4, low(in(c, 1), s), s), (unsigned)fn->constant);
    const uint64_t rho = both_pads(c, call, UVCC_TAG_mask, 1);
    const bool four = fn->times || fn->by_table || c->b->in[2] != NULL;
    if (fn->times)
        rho_b = both_pads(c, call, UVCC_TAG_mask, 0);
    else if (fn->by_table)
        rho_b = both_pads(c, fn->call_bits, UVCC_TAG_mask, 1);
    else if (four)
        rho_b = in(c, 2);
    const uint64_t word[4] = {value, value * rho, value * rho_b, value * rho * rho_b};
    const unsigned words = four ? 4 : 2, times = c->b->in[3] != NULL ? 2 : 1;
    for (unsigned k = 0; k < times; k++)
        for (unsigned q = 0; q < words; q++)
            deal(c, call, 2, k * words + q, word[q] * (k == 0 ? 1 : bit_of(in(c, 3), 0)));
}
ON_BOTH void do_fn_deal_mul(const vec *c) {
    if (is_other(c))
        deal(c, c->t->call, 2, 0, in(c, 0) * in(c, 1));
}
ON_BOTH void do_fn_deal_trunc(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned s = c->t->fn.shift;
    const uint64_t r = in(c, 0);
    deal(c, c->t->call, 2, 0, ((r >> 63) << (64 - s)) - (r >> s));
    deal(c, c->t->call, 2, 1, 0 - (r >> s));
}
ON_BOTH void do_fn_deal_best(const vec *c) {
    if (!is_other(c))
        return;
    const size_t at = (size_t)PAIRS * c->i;
    for (unsigned n = 0; n < CANDIDATES; n++) {
        const uint64_t r = c->b->in[1][at + best_last(n)];
        uint64_t number = 0;
        for (unsigned j = 0; j < CANDIDATES; j++)
            number |= (c->b->in[0][at + best_pair(n, j)] & 1) << j;
        for (unsigned v = 0; v < ROWS; v++) {
            const uint64_t is = 1 & ((number ^ v) - 1) >> 63;
            deal(c, c->t->call, 2, 2 * ROWS * n + v, is);
            deal(c, c->t->call, 2, 2 * ROWS * n + ROWS + v, is * r);
        }
    }
}
ON_BOTH void do_fn_deal_floor(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned s = c->t->fn.shift;
    const uint64_t one = 1;
    make_dcf(c, c->t->fn.call_key, s, 1, low(in(c, 0), s), &one);
}
ON_BOTH void do_fn_deal_spline(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned m = c->t->fn.bits, d = (unsigned)c->t->fn.first;
    const uint64_t r = in(c, 0);
    uint64_t beta[DCF_WORDS_MAX], power = 2 * bit_of(r, m) - 1;
    for (unsigned j = 0; j <= d; j++, power *= r)
        beta[j] = power;
    make_dcf(c, c->t->fn.call_key, m, d + 1, low(r, m), beta);
}
ON_BOTH void do_fn_deal_powers(const vec *c) {
    if (!is_other(c))
        return;
    const unsigned m = c->t->fn.bits, d = (unsigned)c->t->fn.first;
    const uint64_t r = in(c, 0), rest = 1 - bit_of(r, m);
    uint64_t power = 1;
    for (unsigned j = 0; j <= d; j++, power *= r) {
        deal(c, c->t->call, 2, j, rest * power);
        if (j >= 2)
            deal(c, c->t->call, 2, d - 1 + j, power);
    }
}

#endif
