/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_function.c - the tasks of functions (uvcc/function.h) of HEAD and TAIL; OTHER's stand in
 * kernels_function_deal.c.
 *
 * As in kernels.c: chunk by chunk, and what evaluates DPF keys takes a block as a whole. A table is
 * turned around once per task into the worker's packing memory, so that the terminals of a window
 * and the entries that they select lie in the same order; behind it lie the terminals of some
 * elements at a time.
 *
 * State: none of its own. Invariant: opened values are public to HEAD and TAIL, as are tables,
 * thresholds and words; masks, terminals and dealt words are secret and become nothing but
 * operands.
 */
#include "exec/compute/kernels_function_impl.h"

#include <assert.h>
#include <uvcc/blv1.h>

#include "exec/compute/table.h"
#include "exec/primitives/dpf.h"

/* Terminals of some elements: enough of them to share a large table, few enough to stay in a cache.
 */
enum { TERMINAL_WORDS = 32768, TABLE_ELEMS = 256 };

/* --- Words that are shared by HEAD and TAIL --------------------------------------------------- */

/* W(call, lane, q); TAIL's from words[section]. */
static const uint64_t *share_words_to(const chunk *c, uint64_t *to, uint16_t call, uint8_t lane,
                                      uint32_t q, unsigned section) {
    if (!is_head(c))
        return memcpy(to, c->b->words[section] + section_at(c, q), (size_t)c->n * 8);
    head_words(c, pair_other(c), call, lane, q, to);
    return to;
}

static const uint64_t *share_words(const chunk *c, unsigned slot, uint16_t call, uint8_t lane,
                                   uint32_t q, unsigned section) {
    return share_words_to(c, c->s->slot[slot], call, lane, q, section);
}

/* --- Openings --------------------------------------------------------------------------------- */

static void open_mask(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->in[1] != NULL &&
                                        c->b->out[0] != NULL && c->b->wire_out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const unsigned bits = args(c)->bits;
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_mask, 0);
    const uint64_t *mine = in(c, is_head(c) ? 0 : 1), *common = in(c, is_head(c) ? 1 : 0);
    uint64_t *kept = out(c, 0), *sum = c->s->slot[1];
    for (uint32_t i = 0; i < c->n; i++) {
        sum[i] = mine[i] + p[i];
        kept[i] = sum[i] + common[i];
    }
    uvcc_bits_pack(sum, c->n, bits, c->b->wire_out[0] + packed(c, bits));
}

/* in[0] and what came, combined and kept, and packed too if out_bits is there. */
static void combine(const chunk *c, bool add) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->wire_in[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const unsigned bits = args(c)->bits;
    const uint64_t *kept = in(c, 0), mask = low_bits(bits);
    uint64_t *to = out(c, 0), *from = c->s->slot[0];
    uvcc_bits_unpack(c->b->wire_in[0] + packed(c, bits), c->n, bits, from);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = (add ? kept[i] + from[i] : kept[i] ^ from[i]) & mask;
    if (c->b->out_bits != NULL)
        uvcc_bits_pack(to, c->n, bits, c->b->out_bits + packed(c, bits));
}

static void open_finish(const chunk *c) {
    combine(c, true);
}

static void open_bits(const chunk *c) {
    combine(c, false);
}

static void pads(const chunk *c) {
    assert(c->b->out[0] != NULL);
    const uvcc_prg_tag tag = args(c)->exchange ? UVCC_TAG_lift : UVCC_TAG_mask;
    const uint8_t lane = args(c)->exchange ? 2 : 0;
    if (c->b->role == UVCC_OTHER)
        memcpy(out(c, 0), uvcci_kernel_both_pads(c, c->t->call, 0, 1, tag, lane), (size_t)c->n * 8);
    else
        prg(c, pair_other(c), tag, lane, c->first, out(c, 0), c->n);
}

static void shift(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->out[0] != NULL);
    const uint64_t *x = in(c, 0), mask = low_bits(args(c)->bits);
    const unsigned s = args(c)->shift;
    uint64_t *to = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = (x[i] & mask) >> s;
}

/* --- Comparisons ------------------------------------------------------------------------------ */

/* This party's key of the block. */
static uvcci_dpf_keys dpf_keys_of(const chunk *c) {
    const unsigned n = args(c)->bits;
    const uint32_t count = c->b->count;
    const uint8_t *terminals = c->b->key + (size_t)uvcci_dpf_levels(n) * count * 16;
    uint64_t *roots = c->s->roots[0];
    prg_of_call(c, args(c)->call_key, pair_other(c), UVCC_TAG_root, 0, 0, roots, (size_t)count * 2);
    return (uvcci_dpf_keys){.n = n,
                            .c = count,
                            .party1 = !is_head(c),
                            .root = (const uint8_t *)roots,
                            .levels = c->b->key,
                            .terminals = terminals,
                            .bits = terminals + (size_t)count * 16};
}

static void compare(const chunk *c) {
    assert(c->first == 0 && c->n == c->b->count);
    const uvcc_block *b = c->b;
    if (b->role == UVCC_OTHER)
        return;
    const uvcc_fn_args *fn = args(c);
    const uvcci_dpf_keys k = dpf_keys_of(c);
    const uint64_t head = is_head(c);
    uint64_t thresholds[WORD], *z = c->s->words, *d = b->out[0];
    for (uint32_t j = 0; j < fn->word_count; j++)
        thresholds[j] = (uint64_t)fn->words[j];
    uvcci_dpf_prefixes(uvcci_kernel_dpf_keys(c), &k, b->in[0], thresholds, fn->word_count, d);
    for (uint32_t j = 0; j < fn->word_count; j++)
        for (uint32_t i = 0; i < b->count; i++)
            d[i] ^= ((b->in[0][i] - thresholds[j]) >> k.n & head) << j;
    const uint64_t used = low_bits(fn->word_count);
    prg(c, pair_other(c), UVCC_TAG_mask, 2, 0, z, b->count);
    for (uint32_t i = 0; i < b->count; i++)
        d[i] ^= z[i] & used;
    uvcc_bits_pack(d, b->count, fn->word_count, b->wire_out[0]);
}

/* Adds words[j] d_j x; xh and p NULL: words[j] d_j. */
static void add_bit(const chunk *c, uint32_t j, const uint64_t *xh, const uint64_t *p,
                    uint64_t *sum) {
    const uvcc_fn_args *fn = args(c);
    const uint64_t *k = share_words(c, 0, fn->call_bits, 0, j, 0), *e = in(c, 2);
    const uint64_t factor = (uint64_t)fn->words[j], head = 0 - (uint64_t)is_head(c);
    if (xh == NULL) {
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t v = 0 - (e[i] >> j & 1);
            sum[i] += factor * (flip(k[i], v) - (v & head));
        }
        return;
    }
    const uint64_t *kr = share_words(c, 1, c->t->call, 1, j, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t v = 0 - (e[i] >> j & 1), x = xh[i];
        sum[i] += factor * ((((x & head) - p[i]) & v) + flip(k[i] * x - kr[i], v));
    }
}

static void sum_bits(const chunk *c, const uint64_t *xh, const uint64_t *p) {
    assert(c->b->in[2] != NULL && c->b->out[0] != NULL);
    uint64_t *sum = c->s->slot[2];
    memset(sum, 0, (size_t)c->n * sizeof *sum);
    for (uint32_t j = 0; j < args(c)->word_count; j++)
        if (args(c)->words[j] != 0)
            add_bit(c, j, xh, p, sum);
    memcpy(out(c, 0), sum, (size_t)c->n * sizeof *sum);
}

/* to = (1-2e) (k x - kr), a share of (1-2e) k x. */
static void times_k(const chunk *c, const uint64_t *k, const uint64_t *kr, unsigned bit,
                    const uint64_t *e, uint64_t *to) {
    const uint64_t *xh = in(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = flip(k[i] * xh[i] - kr[i], 0 - (e[i] >> bit & 1));
}

/* The sum of words[j] d_j d' x, d' = e' + (1-2e') k'. */
static void sum_both(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->in[1] != NULL && c->b->in[2] != NULL &&
           c->b->in[3] != NULL && c->b->out[0] != NULL);
    const uvcc_fn_args *fn = args(c);
    const uint16_t call = c->t->call;
    const uint64_t *xh = in(c, 0), *p = in(c, 1), *e = in(c, 2), *other = in(c, 3);
    const uint64_t head = 0 - (uint64_t)is_head(c);
    uint64_t *sum = c->s->slot[2], *one = c->s->slot[3], *by_k = c->s->slot[4],
             *by_kk = c->s->slot[5];
    times_k(c, share_words(c, 0, call, SCALAR_LANE, BOTH_OTHER, 1),
            share_words(c, 1, call, SCALAR_LANE, BOTH_OTHER + 1, 1), 0, other, one);
    for (uint32_t i = 0; i < c->n; i++) { /* d' x */
        one[i] += ((xh[i] & head) - p[i]) & (0 - (other[i] & 1));
        sum[i] = 0;
    }
    for (uint32_t j = 0; j < fn->word_count; j++) {
        const uint32_t q = BOTH_FIRST + BOTH_EACH * j;
        const uint64_t factor = (uint64_t)fn->words[j];
        times_k(c, share_words(c, 0, fn->call_bits, 0, j, 0),
                share_words(c, 1, call, SCALAR_LANE, q + BOTH_R, 1), j, e, by_k);
        times_k(c, share_words(c, 0, call, SCALAR_LANE, q + BOTH_KK, 1),
                share_words(c, 1, call, SCALAR_LANE, q + BOTH_KKR, 1), j, e, by_kk);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t v = 0 - (e[i] >> j & 1), w = 0 - (other[i] & 1);
            sum[i] += factor * ((one[i] & v) + (by_k[i] & w) + flip(by_kk[i], w));
        }
    }
    memcpy(out(c, 0), sum, (size_t)c->n * sizeof *sum);
}

static void select_bits(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    if (c->b->in[3] == NULL)
        sum_bits(c, in(c, 0), in(c, 1));
    else
        sum_both(c);
}

static void weigh_bits(const chunk *c) {
    if (c->b->role != UVCC_OTHER)
        sum_bits(c, NULL, NULL);
}

/* --- Tables ----------------------------------------------------------------------------------- */

static inline size_t table_words(uint32_t entry_count) {
    return (size_t)uvcci_dpf_window_words(entry_count) * WORD;
}

/* The window's first terminal selects the last entry. */
static void turn_around(const uvcc_fn_args *fn, int64_t *table) {
    for (uint32_t i = 0; i < fn->entry_count; i++)
        table[i] = fn->entries[fn->entry_count - 1 - i];
    memset(table + fn->entry_count, 0,
           (table_words(fn->entry_count) - fn->entry_count) * sizeof *table);
}

/* out[0] of the elements [at, at + m): the sum of the selected entries. */
static void table_part(const chunk *c, const uvcci_dpf_keys *k, uint32_t at, uint32_t m) {
    const uvcc_fn_args *fn = args(c);
    const int64_t *table = (const int64_t *)(const void *)c->packing;
    uint64_t *terminals = c->packing + table_words(fn->entry_count);
    uint64_t *first = c->s->words, *scale = c->s->words + m;
    const uint64_t last = (uint64_t)fn->first + fn->entry_count - 1;
    for (uint32_t i = 0; i < m; i++)
        first[i] = c->b->in[0][at + i] - last;
    uvcci_dpf_window(uvcci_kernel_dpf_keys(c), k, at, m, first, fn->entry_count, terminals);
    if (fn->shift != 0)
        for (uint32_t i = 0; i < m; i++)
            scale[i] =
                uvcci_fn_factor(fn->words, c->b->in[1][at + i] & low_bits(fn->shift), fn->shift);
    uvcci_table_sum(c->simd, table, fn->shift == 0 ? NULL : (const int64_t *)(const void *)scale,
                    terminals, uvcci_dpf_window_words(fn->entry_count), m, c->b->out[0] + at);
}

/* to = x (TAIL and `minus`: -x) + pad, also on the wire; to == x allowed. */
static void mask_table(const chunk *c, unsigned i, const uint64_t *x, uint8_t lane, bool minus) {
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_mask, lane);
    uint64_t *to = out(c, i);
    uint8_t *wire = wire_out(c, i);
    for (uint32_t j = 0; j < c->n; j++) {
        const uint64_t y = (minus ? 0 - x[j] : x[j]) + p[j];
        to[j] = y;
        put(wire, j, y);
    }
}

/* As many elements at a time as have room for their windows' terminals; then the sums are masked, a
 * chunk at a time. OTHER dealt the key and has nothing to do. */
static void table(const chunk *c) {
    assert(c->first == 0 && c->n == c->b->count);
    if (c->b->role == UVCC_OTHER)
        return;
    const uvcci_dpf_keys k = dpf_keys_of(c);
    const uint32_t fit = TERMINAL_WORDS / uvcci_dpf_window_words(args(c)->entry_count);
    const uint32_t step = fit < TABLE_ELEMS ? fit : TABLE_ELEMS;
    for (uint32_t at = 0; at < k.c; at += step)
        table_part(c, &k, at, k.c - at < step ? k.c - at : step);

    chunk part = *c;
    for (part.first = 0; part.first < k.c; part.first += CHUNK) {
        part.n = k.c - part.first < CHUNK ? k.c - part.first : CHUNK;
        mask_table(&part, 0, out(&part, 0), 1, !is_head(c));
        if (c->b->in[2] != NULL)
            mask_table(&part, 1, in(&part, 2), 0, false);
    }
}

/* The share of v, or of v b, by the words from q on. */
static void scalar_by(const chunk *c, uint32_t q, uint64_t *to) {
    const uint16_t call = c->t->call;
    const uint64_t *vh = in(c, 0);
    const uint64_t *s = share_words(c, 0, call, SCALAR_LANE, q, 0);
    const uint64_t *t = share_words(c, 1, call, SCALAR_LANE, q + 1, 0);
    if (c->b->in[1] == NULL) {
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = s[i] * vh[i] - t[i];
        return;
    }
    const uint64_t *bh = in(c, 1);
    const uint64_t *u = share_words(c, 2, call, SCALAR_LANE, q + 2, 0);
    const uint64_t *w = share_words(c, 3, call, SCALAR_LANE, q + 3, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = (s[i] * vh[i] - t[i]) * bh[i] - u[i] * vh[i] + w[i];
}

static void scalar(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    uint64_t *to = out(c, 0);
    if (c->b->in[2] == NULL) {
        scalar_by(c, 0, to);
        return;
    }
    /* d = e + (1 - 2e) k; the second half of the words has k as a factor */
    const uint64_t *e = in(c, 2);
    uint64_t *whole = c->s->slot[4], *by_k = c->s->slot[5];
    scalar_by(c, 0, whole);
    scalar_by(c, c->b->in[1] == NULL ? 2 : 4, by_k);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t v = 0 - (e[i] & 1);
        to[i] = (whole[i] & v) + flip(by_k[i], v);
    }
}

static void add(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *x = in(c, 0), head = 0 - (uint64_t)is_head(c);
    const uint64_t constant = (uint64_t)args(c)->constant & head;
    uint64_t *to = out(c, 0);
    if (c->b->in[1] == NULL) {
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = x[i] + constant;
    } else if (c->b->in[2] == NULL) {
        const uint64_t *y = in(c, 1);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = x[i] + y[i] + constant;
    } else {
        const uint64_t *yh = in(c, 1), *p = in(c, 2);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = x[i] + (yh[i] & head) - p[i] + constant;
    }
}

/* --- Products, truncations, groups of four ---------------------------------------------------- */

static void mul(const chunk *c) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->in[1] != NULL && c->b->in[2] != NULL &&
            c->b->in[3] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *xh = in(c, 0), *p = in(c, 1), *yh = in(c, 2), *q = in(c, 3);
    const uint64_t *w = share_words(c, 0, c->t->call, SCALAR_LANE, 0, 0);
    const uint64_t head = 0 - (uint64_t)is_head(c);
    uint64_t *to = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = ((xh[i] & head) - p[i]) * yh[i] - xh[i] * q[i] + w[i];
}

static void trunc_masked(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *xh = in(c, 0), head = 0 - (uint64_t)is_head(c);
    const uint64_t *w[2] = {share_words(c, 0, c->t->call, SCALAR_LANE, 0, 0),
                            share_words(c, 1, c->t->call, SCALAR_LANE, 1, 0)};
    const unsigned s = args(c)->shift;
    uint64_t *to = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t zh = xh[i] + BIAS, m = 0 - (zh >> 63);
        to[i] = (((zh >> s) - (BIAS >> s)) & head) + (w[0][i] ^ ((w[0][i] ^ w[1][i]) & m));
    }
}

/* This party's DCF keys of the block. */
static uvcci_dcf_keys dcf_keys_of(const chunk *c, unsigned n, unsigned w) {
    uint64_t *roots = c->s->roots[0];
    prg_of_call(c, args(c)->call_key, pair_other(c), UVCC_TAG_root, 0, 0, roots,
                (size_t)c->b->count * 2);
    return (uvcci_dcf_keys){.n = n,
                            .w = w,
                            .c = c->b->count,
                            .party1 = !is_head(c),
                            .root = (const uint8_t *)roots,
                            .key = c->b->key};
}

static void floor_masked(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->in[1] != NULL &&
                                        c->b->out[0] != NULL && c->b->key != NULL));
    const uvcc_block *b = c->b;
    if (b->role == UVCC_OTHER)
        return;
    const uvcci_dcf_keys k = dcf_keys_of(c, args(c)->shift, 1);
    uint64_t *low = c->s->slot[0], *less = c->s->slot[1];
    for (uint32_t at = 0; at < k.c; at += CHUNK) {
        const uint32_t m = k.c - at < CHUNK ? k.c - at : CHUNK;
        for (uint32_t i = 0; i < m; i++)
            low[i] = b->in[0][at + i] & low_bits(k.n);
        uvcci_dcf_eval(uvcci_kernel_dpf_keys(c), &k, at, m, low, less);
        for (uint32_t i = 0; i < m; i++)
            b->out[0][at + i] = b->in[1][at + i] - less[i];
    }
}

/* Elements whose payloads fill a slot. */
enum { SPLINE_ELEMS = CHUNK / UVCCI_DCF_WORDS_MAX };

/* A few elements: all of them at a knot, then at the next. */
static void spline_part(const chunk *c, const uvcci_spline *s, const uvcci_dcf_keys *k) {
    const unsigned d = s->degree;
    uvcci_spline_shares e = {.n = c->n, .bits = k->n, .one = is_head(c) ? 1 : 0, .xh = in(c, 0)};
    uint64_t *at = c->s->slot[0], *dcf = c->s->slot[1], *sum = out(c, 0);
    for (unsigned j = 0; j <= d; j++)
        e.dealt[j] =
            share_words_to(c, c->s->slot[2] + j * SPLINE_ELEMS, c->t->call, SCALAR_LANE, j, 0);
    for (unsigned j = 1; j <= d; j++)
        e.power[j] = j == 1 ? in(c, 1)
                            : share_words_to(c, c->s->slot[3] + j * SPLINE_ELEMS, c->t->call,
                                             SCALAR_LANE, d - 1 + j, 0);
    uvcci_spline_begin(s, &e, sum);
    for (unsigned knot = 0; knot < s->knots; knot++) {
        for (uint32_t i = 0; i < c->n; i++)
            at[i] = (e.xh[i] - (uint64_t)s->words[knot]) & low_bits(k->n);
        uvcci_dcf_eval(uvcci_kernel_dpf_keys(c), k, c->first, c->n, at, dcf);
        uvcci_spline_add(s, knot, &e, dcf, sum);
    }
}

static void spline(const chunk *c) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->key != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const uvcci_spline s = spline_of(args(c));
    const uvcci_dcf_keys k = dcf_keys_of(c, args(c)->bits, s.degree + 1);
    chunk part = *c;
    for (part.first = 0; part.first < k.c; part.first += SPLINE_ELEMS) {
        part.n = k.c - part.first < SPLINE_ELEMS ? k.c - part.first : SPLINE_ELEMS;
        spline_part(&part, &s, &k);
    }
}

/* The share of one of eight words, of which the last is `whole` less the others; the index comes
 * from opened bits. */
static void pick(const chunk *c, uint32_t q, const uint8_t *index, const uint64_t *whole,
                 uint64_t *to) {
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = index[i] == UVCCI_FN_BEST_ROWS ? whole[i] : 0;
    for (uint32_t v = 0; v < UVCCI_FN_BEST_ROWS; v++) {
        const uint64_t *w = share_words(c, 0, c->t->call, SCALAR_LANE, q + v, 0);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] += w[i] * ((uint64_t)(index[i] == v) - (index[i] == UVCCI_FN_BEST_ROWS));
    }
}

static void best(const chunk *c) {
    assert(c->b->role == UVCC_OTHER || (c->b->in[0] != NULL && c->b->in[1] != NULL &&
                                        c->b->in[2] != NULL && c->b->out[0] != NULL));
    if (c->b->role == UVCC_OTHER)
        return;
    const size_t first = (size_t)c->first * UVCCI_FN_QUAD_PAIRS;
    const uint64_t *xh = c->b->in[0] + first, *p = c->b->in[1] + first, *e = c->b->in[2] + first;
    uint64_t *whole = c->s->slot[1], *h = c->s->slot[2], *d = c->s->slot[3], *sum = c->s->slot[4];
    uint8_t *index = c->s->shares;
    memset(sum, 0, (size_t)c->n * sizeof *sum);
    for (unsigned k = 0; k < UVCCI_FN_QUAD_OTHERS; k++) {
        const uvcci_fn_candidate *of = &uvcci_fn_candidates[k];
        for (uint32_t i = 0; i < c->n; i++) {
            index[i] = 0;
            for (unsigned j = 0; j < UVCCI_FN_QUAD_OTHERS; j++)
                index[i] |= (uint8_t)((~e[i * UVCCI_FN_QUAD_PAIRS + of->pair[j]] ^ of->lost[j]) & 1)
                            << j;
            whole[i] = is_head(c);
        }
        pick(c, 2 * UVCCI_FN_BEST_ROWS * k, index, whole, h);
        for (uint32_t i = 0; i < c->n; i++)
            whole[i] = p[i * UVCCI_FN_QUAD_PAIRS + of->less_last];
        pick(c, 2 * UVCCI_FN_BEST_ROWS * k + UVCCI_FN_BEST_ROWS, index, whole, d);
        for (uint32_t i = 0; i < c->n; i++)
            sum[i] += h[i] * xh[i * UVCCI_FN_QUAD_PAIRS + of->less_last] - d[i];
    }
    memcpy(out(c, 0), sum, (size_t)c->n * sizeof *sum);
}

/* --- Multi-scale tables ----------------------------------------------------------------------- */

static void multiscale(const chunk *c) {
    assert(c->b->role == UVCC_OTHER ||
           (c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->key != NULL));
    const uvcc_block *b = c->b;
    if (b->role == UVCC_OTHER)
        return;
    const uvcc_fn_args *fn = args(c);
    const uvcci_multiscale s = multiscale_of(fn);
    const uint64_t constant = is_head(c) ? (uint64_t)fn->constant : 0;
    uint64_t *roots = c->s->roots[0];
    prg_of_call(c, fn->call_key, pair_other(c), UVCC_TAG_root, 0, 0, roots, (size_t)b->count * 2);
    uvcci_multiscale_eval(uvcci_kernel_dpf_keys(c), &s, b->count, b->in[0], (const uint8_t *)roots,
                          !is_head(c), b->key, fn->words, b->out[0]);
    for (uint32_t i = 0; i < b->count; i++)
        b->out[0][i] += constant;
}

/* --- What arguments may be -------------------------------------------------------------------- */

static bool opened_is_sane(const uvcc_task *t) {
    return any_args(t) && bits_are_sane(args_given(t)->bits, 64);
}

static bool low_is_sane(const uvcc_task *t) {
    return opened_is_sane(t) && args_given(t)->shift < 64;
}

static bool compare_is_sane(const uvcc_task *t) {
    return any_args(t) && bits_are_sane(args_given(t)->bits, 63) && words_are_sane(args_given(t));
}

static bool select_is_sane(const uvcc_task *t) {
    return any_args(t) && words_are_sane(args_given(t));
}

static bool table_is_sane(const uvcc_task *t) {
    const uvcc_fn_args *fn = args_given(t);
    return fn != NULL && bits_are_sane(fn->bits, 64) && fn->entries != NULL &&
           fn->entry_count >= 1 && fn->entry_count <= UVCC_FN_ENTRIES_MAX &&
           fn->entry_count - 1 <= low_bits(fn->bits) && fn->shift < 64 &&
           (fn->shift == 0 || fn->words != NULL);
}

static bool scales_are_sane(const uvcc_task *t) {
    return any_args(t) && multiscale_is_sane(args_given(t));
}

static bool knots_are_sane(const uvcc_task *t) {
    return any_args(t) && spline_is_sane(args_given(t), false);
}

static size_t table_packing(const uvcc_task *t) {
    return table_words(t->u.vec.fn->entry_count) + TERMINAL_WORDS;
}

size_t uvcci_fn_packing_words_max(void) {
    return table_words(UVCC_FN_ENTRIES_MAX) + TERMINAL_WORDS;
}

static void prepare_table(const uvcc_task *t, uint64_t *packing) {
    turn_around(t->u.vec.fn, (int64_t *)(void *)packing);
}

const uvcci_kernel uvcci_kernels_function[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_FN_OPEN_MASK] = {.run = open_mask, .sane = opened_is_sane},
    [UVCC_TASK_FN_OPEN_FINISH] = {.run = open_finish, .sane = opened_is_sane},
    [UVCC_TASK_FN_PADS] = {.run = pads, .sane = any_args},
    [UVCC_TASK_FN_SHIFT] = {.run = shift, .sane = low_is_sane},
    [UVCC_TASK_FN_COMPARE] = {.run = compare, .whole = true, .sane = compare_is_sane},
    [UVCC_TASK_FN_OPEN_BITS] = {.run = open_bits, .sane = opened_is_sane},
    [UVCC_TASK_FN_SELECT] = {.run = select_bits, .sane = select_is_sane},
    [UVCC_TASK_FN_BITS] = {.run = weigh_bits, .sane = select_is_sane},
    [UVCC_TASK_FN_TABLE] = {.run = table,
                            .whole = true,
                            .sane = table_is_sane,
                            .packing = table_packing,
                            .prepare = prepare_table},
    [UVCC_TASK_FN_SCALAR] = {.run = scalar, .sane = any_args},
    [UVCC_TASK_FN_ADD] = {.run = add, .sane = any_args},
    [UVCC_TASK_FN_MUL] = {.run = mul, .sane = any_args},
    [UVCC_TASK_FN_TRUNC] = {.run = trunc_masked, .sane = shift_is_sane},
    [UVCC_TASK_FN_BEST] = {.run = best, .sane = any_args},
    [UVCC_TASK_FN_MULTISCALE] = {.run = multiscale, .whole = true, .sane = scales_are_sane},
    [UVCC_TASK_FN_FLOOR] = {.run = floor_masked, .whole = true, .sane = shift_is_sane},
    [UVCC_TASK_FN_SPLINE] = {.run = spline, .whole = true, .sane = knots_are_sane},
};
