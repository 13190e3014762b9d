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
ON_BOTH seed all_values(const dpf *f, seed y) {
    if (f->n < 7) {
        y.lo = low(y.lo, 1u << f->n);
        for (unsigned k = 1u << f->n; k < 64; k *= 2)
            y.lo |= y.lo << k;
        y.hi = y.lo;
    }
    return y;
}

/* The low 32 bits of (high, low) >> s, s = 1..32. */
ON_BOTH uint32_t between(uint32_t high, uint32_t low, unsigned s) {
#ifdef __CUDA_ARCH__
    return __funnelshift_rc(low, high, s);
#else
    return (uint32_t)(((uint64_t)high << 32 | low) >> s);
#endif
}
/* Bits at + 1 to at + 128 of (high, low), at = 0..127, the highest 32 first. */
ON_BOTH void bits_between(seed high, seed low, unsigned at, uint32_t *bits) {
    const uint32_t all[8] = {
        (uint32_t)low.lo,  (uint32_t)(low.lo >> 32),  (uint32_t)low.hi,  (uint32_t)(low.hi >> 32),
        (uint32_t)high.lo, (uint32_t)(high.lo >> 32), (uint32_t)high.hi, (uint32_t)(high.hi >> 32)};
    uint32_t some[6], word[5];
    for (unsigned k = 0; k < 6; k++)
        some[k] = at >= 64 ? all[k + 2] : all[k];
    for (unsigned k = 0; k < 5; k++)
        word[k] = at % 64 >= 32 ? some[k + 1] : some[k];
    for (unsigned k = 0; k < 4; k++)
        bits[3 - k] = between(word[k + 1], word[k], at % 32 + 1);
}

/* Sums of the entries whose bits are set; how many. By the bytes of vec_table it is their sums,
 * each 128 times; or, by bits, what this lane has of the products of 32 elements with PLANES_BYTES
 * bytes' bits. */
enum { LANE_SUMS = 8 * PLANES_BYTES };

typedef struct table_sums {
    uint32_t part[LANE_SUMS], count;
} table_sums;

/* sum + the products of four bytes. */
ON_BOTH uint32_t add_bytes(uint32_t x, uint32_t y, uint32_t sum) {
#ifdef __CUDA_ARCH__
    return __dp4a(x, y, sum);
#else
    for (unsigned k = 0; k < 32; k += 8)
        sum += (x >> k & 255) * (y >> k & 255);
    return sum;
#endif
}
/* Of the 32 entries of a group, the first of which has the top bit. */
ON_BOTH void add_plane(const uint32_t *of, uint32_t bits, uint32_t *sum) {
#ifdef __CUDA_ARCH__
    const uint4 a = ((const uint4 *)of)[0], b = ((const uint4 *)of)[1];
    const uint32_t word[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
#else
    const uint32_t *word = of;
#endif
    for (unsigned k = 0; k < TABLE_GROUP / 4; k++)
        *sum = add_bytes(bits << k & 0x80808080u, word[k], *sum);
}
/* Of a chunk. */
ON_BOTH void add_chosen(const vec_table *t, uint32_t group, uint32_t groups, const uint32_t *bits,
                        table_sums *s) {
    const uint32_t *of = t->bytes + (size_t)TABLE_GROUP / 4 * t->planes * group;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned p = 0; p < TABLE_PLANES; p++) {
        if (p >= t->planes)
            continue;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (unsigned q = 0; q < CHUNK_GROUPS; q++)
            if (q < groups)
                add_plane(of + TABLE_GROUP / 4 * (t->planes * q + p), bits[q], &s->part[p]);
    }
}

#ifdef __CUDA_ARCH__
/* What lanes `by` apart have of a and b becomes a's at the lower of them, b's at the upper. */
ON_BOTH void swap_between(uint32_t *a, uint32_t *b, unsigned by) {
    const bool upper = (aes_lane() & 4 * by) != 0; /* which is in a register */
    const uint32_t got = __shfl_xor_sync(~0u, upper ? *a : *b, by);
    *a = upper ? got : *a;
    *b = upper ? *b : got;
}
/* sum + the ones in common of 16 rows of 128 bits and 8 columns: lane l has of rows l / 4 and l / 4
 * + 8, and of column l / 4, word l % 4; and of these rows' sums columns 2 (l % 4) and the next. */
ON_BOTH void add_ones(uint32_t *sum, uint32_t row, uint32_t later, uint32_t column) {
#ifdef __NVCC__
    asm("mma.sync.aligned.m16n8k128.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
        : "r"(row), "r"(later), "r"(column));
#else
    emulated_ones(sum, row, later, column);
#endif
}
/* As add_chosen(), for a warp's 32 elements at once: each four lanes hand each other the words of
 * their elements, 4 (l / 4) and so on, as rows have them. */
ON_BOTH void add_by_bits(uint32_t chunk, const uint32_t *bits, uint32_t *sum) {
    const uint32_t at = aes_lane() + 4 * PLANES_WORDS * chunk;
    uint32_t row[CHUNK_GROUPS] = {bits[0], bits[1], bits[2], bits[3]};
    swap_between(&row[0], &row[1], 1);
    swap_between(&row[2], &row[3], 1);
    swap_between(&row[0], &row[2], 2);
    swap_between(&row[1], &row[3], 2);
#pragma unroll
    for (unsigned p = 0; p < PLANES_BYTES; p++) {
        const uint32_t column = p == 0 ? AES_LOAD(PLANES_AT, at) : AES_LOAD(PLANES_AT + 128, at);
        add_ones(sum + 8 * p, row[0], row[1], column);
        add_ones(sum + 8 * p + 4, row[2], row[3], column);
    }
}
/* This lane's element's, of the four lanes that have its row. */
ON_BOTH uint64_t sum_by_bits(const uint32_t *sum) {
    const unsigned mine = aes_lane() / 4 % 4;
    uint64_t y = 0;
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        uint64_t x = 0;
#pragma unroll
        for (unsigned p = 0; p < PLANES_BYTES; p++)
            x += (sum[8 * p + 2 * k] + 2 * (uint64_t)sum[8 * p + 2 * k + 1]) << 8 * p;
        x <<= 2 * mine;
        x += __shfl_xor_sync(~0u, x, 1);
        x += __shfl_xor_sync(~0u, x, 2);
        y = k == mine ? x : y;
    }
    return y;
}
#endif

ON_BOTH void add_chunk(const vec *c, uint32_t chunk, const uint32_t *bits, table_sums *s) {
    const uint32_t left = c->t->fn.entry_count - 128 * chunk;
    const uint32_t groups = left < 128 ? (left + TABLE_GROUP - 1) / TABLE_GROUP : CHUNK_GROUPS;
    s->count += ones(bits[0]) + ones(bits[1]) + ones(bits[2]) + ones(bits[3]);
#ifdef __CUDA_ARCH__
    if (c->by_bits) {
        add_by_bits(chunk, bits, s->part);
        return;
    }
#endif
    add_chosen(&c->t->table, CHUNK_GROUPS * chunk, groups, bits, s);
}
ON_BOTH uint64_t table_sum(const vec *c, const table_sums *s) {
    uint64_t sum = (uint64_t)(int64_t)c->t->table.least * s->count;
#ifdef __CUDA_ARCH__
    if (c->by_bits)
        return sum + sum_by_bits(s->part);
#endif
    for (unsigned p = 0; p < TABLE_PLANES; p++)
        sum += (uint64_t)(s->part[p] >> 7) << 8 * p;
    return sum;
}
/* The same of entries that are multiplied each. */
ON_BOTH uint64_t scaled_if(int32_t entry, uint32_t bits, uint64_t scale) {
    return shift_signed((uint64_t)(int64_t)entry * scale, 30) & (0 - (uint64_t)(bits >> 31));
}
ON_BOTH uint64_t scaled(const int32_t *entries, uint32_t some, uint32_t bits, uint64_t scale) {
    uint64_t sum = 0;
#ifdef __CUDA_ARCH__
    if (some == TABLE_GROUP) {
#pragma unroll 4
        for (unsigned j = 0; j < TABLE_GROUP; j += 4, bits <<= 4) {
            const int4 e = *(const int4 *)(entries + j); /* groups begin at multiples of 64 bytes */
            sum += scaled_if(e.x, bits, scale) + scaled_if(e.y, bits << 1, scale) +
                   scaled_if(e.z, bits << 2, scale) + scaled_if(e.w, bits << 3, scale);
        }
        return sum;
    }
#endif
    for (uint32_t j = 0; j < some; j++, bits <<= 1)
        sum += scaled_if(entries[j], bits, scale);
    return sum;
}

ON_BOTH uint64_t scaled_chunk(const uvcc_fn_args *fn, uint32_t first, const uint32_t *bits,
                              uint64_t scale) {
    uint64_t sum = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (unsigned q = 0; q < CHUNK_GROUPS; q++) {
        const uint32_t at = first + TABLE_GROUP * q, rest = fn->entry_count - at;
        if (at < fn->entry_count)
            sum +=
                scaled(fn->entries + at, rest < TABLE_GROUP ? rest : TABLE_GROUP, bits[q], scale);
    }
    return sum;
}

/* Those of group q, the first at the top, that are among the first `some` of a chunk. */
ON_BOTH uint32_t first_ones(uint32_t some, unsigned q) {
    const uint32_t before = TABLE_GROUP * q, here = some > before ? some - before : 0;
    return here >= TABLE_GROUP ? ~0u : ~(~0u >> here);
}

/* This lane's part of the sum over the entries i, which count where the key has x = xh - first - i
 * mod 2^m. 128 of them have neighbouring x, which stand in two nodes at most; so lanes whose xh
 * differ go on side by side. */
ON_BOTH uint64_t table_part(const vec *c, const dpf *f, uint64_t scale) {
    const uvcc_fn_args *fn = &c->t->fn;
    const uint64_t x = low(in(c, 0) - (uint64_t)fn->first, f->n);
    const unsigned skip = f->n < 7 ? f->n : 7;
    const unsigned at = (unsigned)x & ((1u << skip) - 1); /* in its block of values */
    const uint32_t chunks = (fn->entry_count + 127) / 128;
    const uint32_t from = chunks * c->lane / c->lanes, to = chunks * (c->lane + 1) / c->lanes;
    const uint64_t number = low((x >> skip) - from, f->n - skip);
    table_sums sums = {{0}, 0};
    uint64_t sum = 0;
    seed above[LEVELS_MOST], high = {0, 0};
    if (from == to)
        return 0;
    descent w = descent_of(c, f, own_root(c, fn->call_key), number);
    for (uint32_t k = from; k <= to; k++) {
        const seed below =
            all_values(f, k == from ? descend_first(c, &w, above) : descend(c, &w, above));
        uint32_t bits[CHUNK_GROUPS];
        bits_between(high, below, at, bits);
        high = below;
        if (k == from)
            continue;
        const uint32_t first = 128 * (k - 1), left = fn->entry_count - first;
        for (unsigned q = 0; left < 128 && q < CHUNK_GROUPS; q++)
            bits[q] &= first_ones(left, q);
        if (fn->shift == 0)
            add_chunk(c, k - 1, bits, &sums);
        if (fn->shift != 0)
            sum += scaled_chunk(fn, first, bits, scale);
    }
    return fn->shift != 0 ? sum : table_sum(c, &sums);
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
/* Six terms, which threads can share: for each candidate what is multiplied by its value, and what
 * is taken from that. */
ON_BOTH uint64_t part_of_fn_best(const vec *c) {
    if (is_other(c))
        return 0;
    const size_t at = (size_t)PAIRS * c->i;
    uint64_t sum = 0;
    for (unsigned term = c->lane; term < 2 * CANDIDATES; term += c->lanes) {
        const unsigned n = term / 2, which = term % 2;
        const size_t last = at + best_last(n);
        unsigned e = 0;
        for (unsigned j = 0; j < CANDIDATES; j++)
            e |= (unsigned)(1 ^ (c->b->in[2][at + best_pair(n, j)] & 1) ^ best_inverted(n, j)) << j;
        const uint64_t word = best_word(c, 2 * ROWS * n + ROWS * which, e,
                                        which != 0   ? c->b->in[1][last]
                                        : is_head(c) ? 1
                                                     : 0);
        sum += which != 0 ? 0 - word : word * c->b->in[0][last];
    }
    return sum;
}
ON_BOTH void end_fn_best(const vec *c, uint64_t sum) {
    if (!is_other(c))
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
/* The three words of a node with a payload, two and one. */
ON_BOTH seed scale_two(const vec *c, seed s) {
    s.lo ^= 1;
    return mmo(c, 0, s);
}
ON_BOTH uint64_t scale_third(const vec *c, seed s) {
    s.lo ^= 3;
    return mmo(c, 0, s).lo;
}
ON_BOTH void scale_values(const vec *c, seed s, uint64_t *v) {
    const seed two = scale_two(c, s);
    v[0] = two.lo;
    v[1] = two.hi;
    v[2] = scale_third(c, s);
}
ON_BOTH size_t scale_word_at(const vec *c, unsigned k, unsigned j) {
    return 8 * (((size_t)k * c->b->count + c->i) * 3 + j);
}

/* The nodes that cells are at, z - i of each scale, and all above them are neighbours: of a level
 * those from the node at xh downwards, of which cell i's is the i-th. So many threads as a window
 * has take a node each, and go from level to level; b is the lowest bit of the number of the node
 * at xh. Where all of them are is public. */
enum { SCALE_WINDOW = 64 };

ON_BOTH unsigned scale_bit(const scales *s, uint64_t xh, unsigned level) {
    return (unsigned)bit_of(xh >> s->shift, s->depth - level);
}
/* Of node j: which of the level above is its parent, and on which side it is. */
ON_BOTH unsigned scale_above(unsigned j, unsigned b) {
    return (j + 1 - b) / 2;
}
ON_BOTH unsigned scale_side(unsigned j, unsigned b) {
    return (j + b) & 1;
}
/* Whether a level has a payload, and of which scale. */
ON_BOTH bool scale_at(const scales *s, unsigned level, unsigned *scale) {
    *scale = (s->depth - level) / 2;
    return (s->depth - level) % 2 == 0 && *scale < s->count;
}
/* Whether a cell counts at xh. Its place may be below 0; then its quotient by 4 is rounded down. */
ON_BOTH bool scale_counts(const scales *s, uint64_t xh, unsigned scale, unsigned i) {
    const uint64_t z = xh >> (s->shift + 2 * scale);
    const int64_t below = (int64_t)(z - i);
    return i >= s->cells && i < 4 * s->cells &&
           (scale + 1 == s->count ||
            (int64_t)(z >> 2) - (z >= i ? (int64_t)((z - i) >> 2) : below >> 2) <
                (int64_t)s->cells);
}
/* A cell's part of the sum, by the three words of its node. */
ON_BOTH uint64_t scale_part(const vec *c, const scales *s, uint64_t xh, unsigned scale, unsigned i,
                            node n, const uint64_t *values) {
    const uint8_t *payload = c->b->key + 16 * s->depth * (size_t)c->b->count;
    const int64_t *a = c->t->fn.words + (size_t)3 * scale * 3 * s->cells + (i - s->cells);
    const uint64_t at = scale_top(xh, s->shift + 2 * scale);
    const uint64_t a0 = (uint64_t)a[0], a1 = (uint64_t)a[3 * s->cells],
                   a2 = (uint64_t)a[6 * s->cells];
    uint64_t u[3];
    for (unsigned j = 0; j < 3; j++)
        u[j] = values[j] + (load64(payload + scale_word_at(c, scale, j)) & (0 - n.t));
    return a0 * u[0] - a1 * u[1] + a2 * u[2] + at * (a1 * u[0] - 2 * a2 * u[1] + at * a2 * u[0]);
}
ON_BOTH levels scale_levels(const vec *c, const scales *s) {
    levels k;
    k.words = c->b->key;
    k.bits = c->b->key + (16 * s->depth + 24 * s->count) * (size_t)c->b->count;
    k.depth = s->depth;
    return k;
}
ON_BOTH void end_fn_multiscale(const vec *c, uint64_t sum) {
    out(c, 0, is_head(c) ? sum + (uint64_t)c->t->fn.constant : 0 - sum);
}
/* What the threads of a window do, by one. */
ON_BOTH void do_fn_multiscale(const vec *c) {
    if (is_other(c))
        return;
    const scales s = scales_of(&c->t->fn);
    const levels k = scale_levels(c, &s);
    const uint64_t xh = in(c, 0);
    node at[SCALE_WINDOW], above[SCALE_WINDOW];
    uint64_t sum = 0, v[3];
    for (unsigned j = 0; j < SCALE_WINDOW; j++)
        at[j] = own_root(c, c->t->fn.call_key);
    for (unsigned l = 1; l <= s.depth; l++) {
        const unsigned b = scale_bit(&s, xh, l);
        unsigned scale;
        for (unsigned j = 0; j < SCALE_WINDOW; j++)
            above[j] = at[j];
        for (unsigned j = 0; j < SCALE_WINDOW; j++)
            at[j] = child(c, &k, above[scale_above(j, b)], l - 1, scale_side(j, b));
        for (unsigned j = 0; scale_at(&s, l, &scale) && j < SCALE_WINDOW; j++)
            if (scale_counts(&s, xh, scale, j)) {
                scale_values(c, at[j].s, v);
                sum += scale_part(c, &s, xh, scale, j, at[j], v);
            }
    }
    end_fn_multiscale(c, sum);
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
