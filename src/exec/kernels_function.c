/* kernels_function.c - the tasks of functions (uvcc/function.h) on one core.
 *
 * As in kernels.c: chunk by chunk, and what evaluates or makes DPF keys takes a block as a whole. A
 * table is turned around once per task into the worker's packing memory, so that the leaves of a
 * window and the entries that they select lie in the same order; behind it lie the leaves of some
 * elements at a time.
 *
 * State: none of its own. Invariant: opened values are public to HEAD and TAIL, as are tables,
 * thresholds and words; masks, leaves and dealt words are secret and become nothing but operands.
 */
#include "kernels_impl.h"

#include <uvcc/blv1.h>
#include <uvcc/function.h>

#include "dcf.h"
#include "fss.h"
#include "function.h"
#include "spline.h"
#include "table.h"

/* Leaves of some elements: enough of them to share a large table, few enough to stay in a cache. */
enum { LEAF_WORDS = 32768, TABLE_ELEMS = 256, WORD = 64, SCALAR_LANE = 2 };

static inline const uvcc_fn_args *args(const chunk *c) {
    return c->t->u.vec.fn;
}

/* Bytes before a chunk where elements have `bits` bits. */
static inline size_t packed(const chunk *c, unsigned bits) {
    return (size_t)c->first * bits / 8;
}

static inline bool is_head(const chunk *c) {
    return c->b->role == UVCC_HEAD;
}

/* --- Words that are shared by HEAD and TAIL --------------------------------------------------- */

static void head_words(const chunk *c, unsigned pair, uint16_t call, uint8_t lane, uint32_t q,
                       uint64_t *to) {
    prg_of_call(c, call, pair, UVCC_TAG_select, lane, (uint64_t)q * BLOCK + c->first, to, c->n);
}

static inline size_t section_at(const chunk *c, uint32_t q) {
    return ((size_t)q * c->b->count + c->first) * 8;
}

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

/* OTHER: x less HEAD's shares, for TAIL. */
static void deal_words(const chunk *c, unsigned spare, uint8_t lane, uint32_t q,
                       const uint64_t *x) {
    uint64_t *head = c->s->slot[spare];
    head_words(c, PAIR_HO, c->t->call, lane, q, head);
    uint8_t *to = c->b->out_words + section_at(c, q);
    for (uint32_t i = 0; i < c->n; i++)
        put(to, i, x[i] - head[i]);
}

/* OTHER: the sum of HEAD's and TAIL's pads. */
static const uint64_t *pads_of_call(const chunk *c, uint16_t call, unsigned slot, unsigned spare,
                                    uvcc_prg_tag tag, uint8_t lane) {
    uint64_t *r = c->s->slot[slot], *t = c->s->slot[spare];
    prg_of_call(c, call, PAIR_TO, tag, lane, c->first, t, c->n);
    prg_of_call(c, call, PAIR_HO, tag, lane, c->first, r, c->n);
    for (uint32_t i = 0; i < c->n; i++)
        r[i] += t[i];
    return r;
}

static const uint64_t *both_pads(const chunk *c, unsigned slot, unsigned spare, uvcc_prg_tag tag,
                                 uint8_t lane) {
    return pads_of_call(c, c->t->call, slot, spare, tag, lane);
}

/* --- Openings --------------------------------------------------------------------------------- */

static void open_mask(const chunk *c) {
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
    const uvcc_prg_tag tag = args(c)->exchange ? UVCC_TAG_lift : UVCC_TAG_mask;
    const uint8_t lane = args(c)->exchange ? 2 : 0;
    if (c->b->role == UVCC_OTHER)
        memcpy(out(c, 0), both_pads(c, 0, 1, tag, lane), (size_t)c->n * 8);
    else
        prg(c, pair_other(c), tag, lane, c->first, out(c, 0), c->n);
}

static void shift(const chunk *c) {
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
    const uint8_t *leaves = c->b->key + (size_t)uvcci_dpf_levels(n) * count * 16;
    uint64_t *roots = c->s->roots[0];
    prg_of_call(c, args(c)->call_key, pair_other(c), UVCC_TAG_root, 0, 0, roots, (size_t)count * 2);
    return (uvcci_dpf_keys){.n = n,
                            .c = count,
                            .party1 = !is_head(c),
                            .root = (const uint8_t *)roots,
                            .levels = c->b->key,
                            .leaves = leaves,
                            .bits = leaves + (size_t)count * 16};
}

static void compare(const chunk *c) {
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
    uint64_t *sum = c->s->slot[2];
    memset(sum, 0, (size_t)c->n * sizeof *sum);
    for (uint32_t j = 0; j < args(c)->word_count; j++)
        if (args(c)->words[j] != 0)
            add_bit(c, j, xh, p, sum);
    memcpy(out(c, 0), sum, (size_t)c->n * sizeof *sum);
}

/* The words of a SELECT_MUL: k' and k' r of the bit by which it is multiplied, then for each j what
 * k_j needs. */
enum { BOTH_OTHER, BOTH_FIRST = 2, BOTH_R = 0, BOTH_KK, BOTH_KKR, BOTH_EACH };

/* to = (1-2e) (k x - kr), a share of (1-2e) k x. */
static void times_k(const chunk *c, const uint64_t *k, const uint64_t *kr, unsigned bit,
                    const uint64_t *e, uint64_t *to) {
    const uint64_t *xh = in(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = flip(k[i] * xh[i] - kr[i], 0 - (e[i] >> bit & 1));
}

/* The sum of words[j] d_j d' x, d' = e' + (1-2e') k'. */
static void sum_both(const chunk *c) {
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

/* The window's first leaf selects the last entry. */
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
    uint64_t *leaves = c->packing + table_words(fn->entry_count);
    uint64_t *first = c->s->words, *scale = c->s->words + m;
    const uint64_t last = (uint64_t)fn->first + fn->entry_count - 1;
    for (uint32_t i = 0; i < m; i++)
        first[i] = c->b->in[0][at + i] - last;
    uvcci_dpf_window(uvcci_kernel_dpf_keys(c), k, at, m, first, fn->entry_count, leaves);
    if (fn->shift != 0)
        for (uint32_t i = 0; i < m; i++)
            scale[i] =
                uvcci_fn_factor(fn->words, c->b->in[1][at + i] & low_bits(fn->shift), fn->shift);
    uvcci_table_sum(c->simd, table, fn->shift == 0 ? NULL : (const int64_t *)(const void *)scale,
                    leaves, uvcci_dpf_window_words(fn->entry_count), m, c->b->out[0] + at);
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

static void table(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const uvcci_dpf_keys k = dpf_keys_of(c);
    const uint32_t fit = LEAF_WORDS / uvcci_dpf_window_words(args(c)->entry_count);
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

static uvcci_spline spline_of(const uvcc_fn_args *fn) {
    return uvcci_spline_of((unsigned)fn->first, fn->word_count, fn->words);
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

/* --- Ladders ---------------------------------------------------------------------------------- */

static uvcci_multiscale multiscale_of(const uvcc_fn_args *fn) {
    return uvcci_fn_multiscale(fn->bits, fn->shift, fn->first, fn->word_count);
}

static void multiscale(const chunk *c) {
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

/* --- Dealing ---------------------------------------------------------------------------------- */

static void deal_key(const chunk *c) {
    const uvcc_block *b = c->b;
    const uvcc_fn_args *fn = args(c);
    uint64_t *alpha = c->s->words, (*roots)[2 * BLOCK] = c->s->roots;
    for (uint32_t i = 0; i < b->count; i++)
        alpha[i] = b->in[0][i] & low_bits(fn->bits);
    prg_of_call(c, fn->call_key, PAIR_HO, UVCC_TAG_root, 0, 0, roots[0], (size_t)b->count * 2);
    prg_of_call(c, fn->call_key, PAIR_TO, UVCC_TAG_root, 0, 0, roots[1], (size_t)b->count * 2);
    uint8_t *levels = b->out_bytes[0];
    uint8_t *leaves = levels + (size_t)uvcci_dpf_levels(fn->bits) * b->count * 16;
    uvcci_dpf_gen(uvcci_kernel_dpf_keys(c), fn->bits, b->count, alpha, (const uint8_t *)roots[0],
                  (const uint8_t *)roots[1], levels, leaves, leaves + (size_t)b->count * 16,
                  c->s->shares);
    memcpy(b->out_bytes[1], levels, uvcci_cw_bytes(fn->bits, b->count));
    if (b->out[0] != NULL)
        for (uint32_t i = 0; i < b->count; i++)
            b->out[0][i] = ((uint64_t)c->s->shares[i] << 1) - 1;
}

static void deal_multiscale(const chunk *c) {
    const uvcc_block *b = c->b;
    const uvcci_multiscale s = multiscale_of(args(c));
    uint64_t(*roots)[2 * BLOCK] = c->s->roots;
    prg_of_call(c, args(c)->call_key, PAIR_HO, UVCC_TAG_root, 0, 0, roots[0], (size_t)b->count * 2);
    prg_of_call(c, args(c)->call_key, PAIR_TO, UVCC_TAG_root, 0, 0, roots[1], (size_t)b->count * 2);
    uvcci_multiscale_gen(uvcci_kernel_dpf_keys(c), &s, b->count, b->in[0],
                         (const uint8_t *)roots[0], (const uint8_t *)roots[1], b->out_bytes[0]);
    memcpy(b->out_bytes[1], b->out_bytes[0], uvcci_multiscale_bytes(s.depth, s.scales, b->count));
}

/* For alpha in s->words. */
static void deal_dcf(const chunk *c, uint16_t call, unsigned n, unsigned w, const uint64_t *beta) {
    const uvcc_block *b = c->b;
    uint64_t(*roots)[2 * BLOCK] = c->s->roots;
    prg_of_call(c, call, PAIR_HO, UVCC_TAG_root, 0, 0, roots[0], (size_t)b->count * 2);
    prg_of_call(c, call, PAIR_TO, UVCC_TAG_root, 0, 0, roots[1], (size_t)b->count * 2);
    uvcci_dcf_gen(uvcci_kernel_dpf_keys(c), n, w, b->count, c->s->words, beta,
                  (const uint8_t *)roots[0], (const uint8_t *)roots[1], b->out_bytes[0]);
    memcpy(b->out_bytes[1], b->out_bytes[0], uvcci_dcf_bytes(n, w, b->count));
}

void uvcci_kernel_deal_less(const chunk *c, uint16_t call, unsigned n) {
    for (uint32_t i = 0; i < c->b->count; i++)
        c->packing[i] = 1;
    deal_dcf(c, call, n, 1, c->packing);
}

/* alpha = r mod 2^n. */
static void put_alpha(const chunk *c, unsigned n) {
    for (uint32_t i = 0; i < c->b->count; i++)
        c->s->words[i] = c->b->in[0][i] & low_bits(n);
}

static void deal_floor(const chunk *c) {
    put_alpha(c, args(c)->shift);
    uvcci_kernel_deal_less(c, args(c)->call_key, args(c)->shift);
}

static void deal_spline(const chunk *c) {
    const uvcc_fn_args *fn = args(c);
    const unsigned w = (unsigned)fn->first + 1;
    uint64_t *beta = c->packing;
    for (uint32_t i = 0; i < c->b->count; i++) {
        const uint64_t r = c->b->in[0][i], minus = (r >> fn->bits & 1) - 1;
        uint64_t power = flip(1, minus);
        for (unsigned j = 0; j < w; j++, power *= r)
            beta[(size_t)i * w + j] = power;
    }
    put_alpha(c, fn->bits);
    deal_dcf(c, fn->call_key, fn->bits, w, beta);
}

static void deal_powers(const chunk *c) {
    const unsigned m = args(c)->bits, d = (unsigned)args(c)->first;
    const uint64_t *r = in(c, 0);
    uint64_t *power = c->s->slot[0], *x = c->s->slot[1];
    for (uint32_t i = 0; i < c->n; i++)
        power[i] = 1;
    for (unsigned j = 0; j <= d; j++) {
        for (uint32_t i = 0; i < c->n; i++)
            x[i] = power[i] & ((r[i] >> m & 1) - 1);
        deal_words(c, 2, SCALAR_LANE, j, x);
        if (j >= 2)
            deal_words(c, 2, SCALAR_LANE, d - 1 + j, power);
        for (uint32_t i = 0; i < c->n; i++)
            power[i] *= r[i];
    }
}

static void deal_bits(const chunk *c) {
    const uvcc_fn_args *fn = args(c);
    const uint64_t used = low_bits(fn->word_count), *r = in(c, 0);
    const uint64_t *ho = pad(c, 0, PAIR_HO, UVCC_TAG_mask, 2);
    const uint64_t *to = pad(c, 1, PAIR_TO, UVCC_TAG_mask, 2);
    uint64_t *k = c->b->out[0] != NULL ? out(c, 0) : c->s->slot[4], *bit = c->s->slot[2];
    for (uint32_t i = 0; i < c->n; i++)
        k[i] = (ho[i] ^ to[i] ^ (0 - (r[i] >> fn->bits & 1))) & used;
    for (uint32_t j = 0; j < fn->word_count; j++) {
        for (uint32_t i = 0; i < c->n; i++)
            bit[i] = k[i] >> j & 1;
        deal_words(c, 3, 0, j, bit);
    }
}

/* OTHER: x for TAIL as word q, and x r as word q_r. */
static void deal_with_mask(const chunk *c, uint32_t q, uint32_t q_r, uint64_t *x) {
    const uint64_t *r = in(c, 1);
    deal_words(c, 1, SCALAR_LANE, q, x);
    for (uint32_t i = 0; i < c->n; i++)
        x[i] *= r[i];
    deal_words(c, 1, SCALAR_LANE, q_r, x);
}

static void deal_both(const chunk *c) {
    const uint64_t *k = in(c, 0), *r = in(c, 1), *k2 = in(c, 2);
    uint64_t *x = c->s->slot[0];
    for (uint32_t i = 0; i < c->n; i++)
        x[i] = k2[i] & 1;
    deal_with_mask(c, BOTH_OTHER, BOTH_OTHER + 1, x);
    for (uint32_t j = 0; j < args(c)->word_count; j++) {
        const uint32_t q = BOTH_FIRST + BOTH_EACH * j;
        for (uint32_t i = 0; i < c->n; i++)
            x[i] = r[i] & (0 - (k[i] >> j & 1));
        deal_words(c, 1, SCALAR_LANE, q + BOTH_R, x);
        for (uint32_t i = 0; i < c->n; i++)
            x[i] = k[i] >> j & k2[i] & 1;
        deal_with_mask(c, q + BOTH_KK, q + BOTH_KKR, x);
    }
}

static void deal_select(const chunk *c) {
    const uint64_t *k = in(c, 0), *r = in(c, 1);
    uint64_t *kr = c->s->slot[0];
    if (c->b->in[2] != NULL) {
        deal_both(c);
        return;
    }
    for (uint32_t j = 0; j < args(c)->word_count; j++) {
        for (uint32_t i = 0; i < c->n; i++)
            kr[i] = r[i] & (0 - (k[i] >> j & 1));
        deal_words(c, 1, 1, j, kr);
    }
}

/* The words that a factor s of v needs, from q on; b NULL: v is not multiplied. Gives the next q.
 */
static uint32_t deal_scalar_by(const chunk *c, uint32_t q, const uint64_t *s, const uint64_t *rho,
                               const uint64_t *b) {
    uint64_t *x = c->s->slot[1], *y = c->s->slot[4];
    deal_words(c, 5, SCALAR_LANE, q, s);
    for (uint32_t i = 0; i < c->n; i++)
        x[i] = s[i] * rho[i];
    deal_words(c, 5, SCALAR_LANE, q + 1, x);
    if (b == NULL)
        return q + 2;
    for (uint32_t i = 0; i < c->n; i++) {
        y[i] = s[i] * b[i];
        x[i] *= b[i];
    }
    deal_words(c, 5, SCALAR_LANE, q + 2, y);
    deal_words(c, 5, SCALAR_LANE, q + 3, x);
    return q + 4;
}

static void deal_scalar(const chunk *c) {
    const uvcc_fn_args *fn = args(c);
    const uint64_t *sign = in(c, 0), *b = NULL;
    uint64_t *s = c->s->slot[0];
    for (uint32_t i = 0; i < c->n; i++)
        s[i] = sign[i];
    if (fn->by_table)
        for (uint32_t i = 0; i < c->n; i++)
            s[i] *= in(c, 1)[i];
    if (fn->shift != 0)
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t low = in(c, 1)[i] & low_bits(fn->shift);
            const uint64_t z = uvcci_fn_factor(fn->words + 4, low, fn->shift);
            s[i] *= (uint64_t)((int64_t)z >> fn->constant);
        }
    const uint64_t *rho = both_pads(c, 2, 5, UVCC_TAG_mask, 1);
    if (fn->times)
        b = both_pads(c, 3, 5, UVCC_TAG_mask, 0);
    else if (fn->by_table)
        b = pads_of_call(c, fn->call_bits, 3, 5, UVCC_TAG_mask, 1);
    else if (c->b->in[2] != NULL)
        b = in(c, 2);
    const uint32_t q = deal_scalar_by(c, 0, s, rho, b);
    if (c->b->in[3] == NULL)
        return;
    const uint64_t *k = in(c, 3);
    for (uint32_t i = 0; i < c->n; i++)
        s[i] &= 0 - (k[i] & 1);
    (void)deal_scalar_by(c, q, s, rho, b);
}

static void deal_mul(const chunk *c) {
    const uint64_t *x = in(c, 0), *y = in(c, 1);
    uint64_t *z = c->s->slot[0];
    for (uint32_t i = 0; i < c->n; i++)
        z[i] = x[i] * y[i];
    deal_words(c, 1, SCALAR_LANE, 0, z);
}

static void deal_trunc(const chunk *c) {
    const uint64_t *r = in(c, 0);
    const unsigned s = args(c)->shift;
    uint64_t *w = c->s->slot[0];
    for (unsigned m = 0; m < 2; m++) {
        for (uint32_t i = 0; i < c->n; i++)
            w[i] = (m == 0 ? r[i] >> 63 << (64 - s) : 0) - (r[i] >> s);
        deal_words(c, 1, SCALAR_LANE, m, w);
    }
}

static void deal_best(const chunk *c) {
    const size_t first = (size_t)c->first * UVCCI_FN_QUAD_PAIRS;
    const uint64_t *k = c->b->in[0] + first, *r = c->b->in[1] + first;
    uint64_t *point = c->s->slot[0], *h = c->s->slot[1], *d = c->s->slot[2];
    for (unsigned n = 0; n < UVCCI_FN_QUAD_OTHERS; n++) {
        const uvcci_fn_candidate *of = &uvcci_fn_candidates[n];
        for (uint32_t i = 0; i < c->n; i++) {
            point[i] = 0;
            for (unsigned j = 0; j < UVCCI_FN_QUAD_OTHERS; j++)
                point[i] |= (k[i * UVCCI_FN_QUAD_PAIRS + of->pair[j]] & 1) << j;
        }
        for (uint32_t v = 0; v < UVCCI_FN_BEST_ROWS; v++) {
            for (uint32_t i = 0; i < c->n; i++) { /* 1 where the three bits are all equal to v's */
                const uint64_t same = ~(point[i] ^ v);
                h[i] = same & same >> 1 & same >> 2 & 1;
                d[i] = r[i * UVCCI_FN_QUAD_PAIRS + of->less_last] & (0 - h[i]);
            }
            deal_words(c, 3, SCALAR_LANE, 2 * UVCCI_FN_BEST_ROWS * n + v, h);
            deal_words(c, 3, SCALAR_LANE, 2 * UVCCI_FN_BEST_ROWS * n + UVCCI_FN_BEST_ROWS + v, d);
        }
    }
}

/* --- Dispatch --------------------------------------------------------------------------------- */

static const vec_kernel kernels[] = {
    [UVCC_TASK_FN_OPEN_MASK - UVCC_TASK_FN_OPEN_MASK] = {open_mask, false},
    [UVCC_TASK_FN_OPEN_FINISH - UVCC_TASK_FN_OPEN_MASK] = {open_finish, false},
    [UVCC_TASK_FN_PADS - UVCC_TASK_FN_OPEN_MASK] = {pads, false},
    [UVCC_TASK_FN_SHIFT - UVCC_TASK_FN_OPEN_MASK] = {shift, false},
    [UVCC_TASK_FN_COMPARE - UVCC_TASK_FN_OPEN_MASK] = {compare, true},
    [UVCC_TASK_FN_OPEN_BITS - UVCC_TASK_FN_OPEN_MASK] = {open_bits, false},
    [UVCC_TASK_FN_SELECT - UVCC_TASK_FN_OPEN_MASK] = {select_bits, false},
    [UVCC_TASK_FN_BITS - UVCC_TASK_FN_OPEN_MASK] = {weigh_bits, false},
    [UVCC_TASK_FN_TABLE - UVCC_TASK_FN_OPEN_MASK] = {table, true},
    [UVCC_TASK_FN_SCALAR - UVCC_TASK_FN_OPEN_MASK] = {scalar, false},
    [UVCC_TASK_FN_ADD - UVCC_TASK_FN_OPEN_MASK] = {add, false},
    [UVCC_TASK_FN_DEAL_KEY - UVCC_TASK_FN_OPEN_MASK] = {deal_key, true},
    [UVCC_TASK_FN_DEAL_BITS - UVCC_TASK_FN_OPEN_MASK] = {deal_bits, false},
    [UVCC_TASK_FN_DEAL_SELECT - UVCC_TASK_FN_OPEN_MASK] = {deal_select, false},
    [UVCC_TASK_FN_DEAL_SCALAR - UVCC_TASK_FN_OPEN_MASK] = {deal_scalar, false},
    [UVCC_TASK_FN_MUL - UVCC_TASK_FN_OPEN_MASK] = {mul, false},
    [UVCC_TASK_FN_DEAL_MUL - UVCC_TASK_FN_OPEN_MASK] = {deal_mul, false},
    [UVCC_TASK_FN_TRUNC - UVCC_TASK_FN_OPEN_MASK] = {trunc_masked, false},
    [UVCC_TASK_FN_DEAL_TRUNC - UVCC_TASK_FN_OPEN_MASK] = {deal_trunc, false},
    [UVCC_TASK_FN_BEST - UVCC_TASK_FN_OPEN_MASK] = {best, false},
    [UVCC_TASK_FN_DEAL_BEST - UVCC_TASK_FN_OPEN_MASK] = {deal_best, false},
    [UVCC_TASK_FN_MULTISCALE - UVCC_TASK_FN_OPEN_MASK] = {multiscale, true},
    [UVCC_TASK_FN_DEAL_MULTISCALE - UVCC_TASK_FN_OPEN_MASK] = {deal_multiscale, true},
    [UVCC_TASK_FN_FLOOR - UVCC_TASK_FN_OPEN_MASK] = {floor_masked, true},
    [UVCC_TASK_FN_DEAL_FLOOR - UVCC_TASK_FN_OPEN_MASK] = {deal_floor, true},
    [UVCC_TASK_FN_SPLINE - UVCC_TASK_FN_OPEN_MASK] = {spline, true},
    [UVCC_TASK_FN_DEAL_SPLINE - UVCC_TASK_FN_OPEN_MASK] = {deal_spline, true},
    [UVCC_TASK_FN_DEAL_POWERS - UVCC_TASK_FN_OPEN_MASK] = {deal_powers, false},
};

const vec_kernel *uvcci_fn_kernel(unsigned kind) {
    const unsigned i = kind - UVCC_TASK_FN_OPEN_MASK;
    return i < sizeof kernels / sizeof *kernels ? &kernels[i] : NULL;
}

static bool bits_are_sane(unsigned bits, unsigned most) {
    return bits >= 1 && bits <= most;
}

static bool multiscale_is_sane(const uvcc_fn_args *fn) {
    if (fn->words == NULL || fn->first < 2 || fn->first > UVCCI_MULTISCALE_CELLS_MAX)
        return false;
    const uvcci_multiscale s = multiscale_of(fn);
    return s.scales >= 1 && s.scales <= UVCCI_MULTISCALE_SCALES_MAX &&
           UVCCI_MULTISCALE_STEP * (s.scales - 1) < s.depth && s.shift + s.depth <= 64;
}

/* A dealer does not need the words. */
static bool spline_is_sane(const uvcc_fn_args *fn, bool deals) {
    if (!bits_are_sane(fn->bits, 63) || fn->first < 0 || fn->first > UVCCI_SPLINE_DEGREE_MAX)
        return false;
    const uvcci_spline s = spline_of(fn);
    return deals || (fn->words != NULL && s.knots >= 1 && s.knots <= UVCCI_SPLINE_KNOTS_MAX &&
                     uvcci_spline_words(s.degree, s.knots) == fn->word_count);
}

static bool words_are_sane(const uvcc_fn_args *fn) {
    return fn->words != NULL && bits_are_sane(fn->word_count, WORD);
}

bool uvcci_fn_is_sane(const uvcc_task *t) {
    const uvcc_fn_args *fn = t->u.vec.fn;
    if (fn == NULL)
        return false;
    switch (t->kind) {
    case UVCC_TASK_FN_OPEN_MASK:
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
    case UVCC_TASK_FN_DEAL_KEY:
        return bits_are_sane(fn->bits, 64);
    case UVCC_TASK_FN_SHIFT:
        return bits_are_sane(fn->bits, 64) && fn->shift < 64;
    case UVCC_TASK_FN_COMPARE:
        return bits_are_sane(fn->bits, 63) && words_are_sane(fn);
    case UVCC_TASK_FN_SELECT:
    case UVCC_TASK_FN_BITS:
        return words_are_sane(fn);
    case UVCC_TASK_FN_DEAL_BITS:
        return bits_are_sane(fn->bits, 63) && bits_are_sane(fn->word_count, WORD);
    case UVCC_TASK_FN_DEAL_SELECT:
        return bits_are_sane(fn->word_count, WORD);
    case UVCC_TASK_FN_TABLE:
        return bits_are_sane(fn->bits, 64) && fn->entries != NULL && fn->entry_count >= 1 &&
               fn->entry_count <= UVCC_FN_ENTRIES_MAX &&
               fn->entry_count - 1 <= low_bits(fn->bits) && fn->shift < 64 &&
               (fn->shift == 0 || fn->words != NULL);
    case UVCC_TASK_FN_MULTISCALE:
    case UVCC_TASK_FN_DEAL_MULTISCALE:
        return multiscale_is_sane(fn);
    case UVCC_TASK_FN_SPLINE:
    case UVCC_TASK_FN_DEAL_SPLINE:
    case UVCC_TASK_FN_DEAL_POWERS:
        return spline_is_sane(fn, t->kind != UVCC_TASK_FN_SPLINE);
    case UVCC_TASK_FN_TRUNC:
    case UVCC_TASK_FN_DEAL_TRUNC:
    case UVCC_TASK_FN_FLOOR:
    case UVCC_TASK_FN_DEAL_FLOOR:
        return bits_are_sane(fn->shift, 62);
    case UVCC_TASK_FN_DEAL_SCALAR:
        return fn->shift < 64 &&
               (fn->shift == 0 || (fn->words != NULL && fn->constant >= 0 && fn->constant < 64));
    default:
        return true;
    }
}

size_t uvcci_fn_packing_words(const uvcc_task *t) {
    switch (t->kind) {
    case UVCC_TASK_FN_TABLE:
        return table_words(t->u.vec.fn->entry_count) + LEAF_WORDS;
    case UVCC_TASK_DEAL: /* payloads */
        return t->u.vec.gate == UVCC_GATE_TRUNC_DCF ? BLOCK : 0;
    case UVCC_TASK_FN_DEAL_FLOOR:
    case UVCC_TASK_FN_DEAL_SPLINE:
        return (size_t)BLOCK * UVCCI_DCF_WORDS_MAX;
    default:
        return 0;
    }
}

size_t uvcci_fn_packing_words_max(void) {
    return table_words(UVCC_FN_ENTRIES_MAX) + LEAF_WORDS;
}

void uvcci_fn_prepare(const uvcc_task *t, uint64_t *packing) {
    if (t->kind == UVCC_TASK_FN_TABLE)
        turn_around(t->u.vec.fn, (int64_t *)(void *)packing);
}
