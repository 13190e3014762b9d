/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_function_deal.c - what OTHER's tasks of functions make: keys for HEAD and TAIL, words for
 * TAIL (what HEAD has is drawn, so TAIL gets the difference). What they are for stands in
 * kernels_function.c.
 *
 * State: none of its own. Invariant: masks and bits of masks are secret and become nothing but
 * operands. */
#include "exec/compute/kernels_function_impl.h"

#include <assert.h>

#include "exec/primitives/dpf.h"

/* --- Keys and words --------------------------------------------------------------------------- */

/* OTHER: x less HEAD's shares, for TAIL. */
static void deal_words(const chunk *c, unsigned spare, uint8_t lane, uint32_t q,
                       const uint64_t *x) {
    assert(c->b->role == UVCC_OTHER && c->b->out_words != NULL);
    uint64_t *head = c->s->slot[spare];
    head_words(c, PAIR_HO, c->t->call, lane, q, head);
    uint8_t *to = c->b->out_words + section_at(c, q);
    for (uint32_t i = 0; i < c->n; i++)
        put(to, i, x[i] - head[i]);
}

static void deal_key(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->out_bytes[0] != NULL && c->b->out_bytes[1] != NULL);
    const uvcc_block *b = c->b;
    const uvcc_fn_args *fn = args(c);
    uint64_t *alpha = c->s->words;
    uint64_t(*roots)[2 * BLOCK] = uvcci_kernel_both_roots(c, fn->call_key);
    for (uint32_t i = 0; i < b->count; i++)
        alpha[i] = b->in[0][i] & low_bits(fn->bits);
    uint8_t *levels = b->out_bytes[0];
    uint8_t *terminals = levels + (size_t)uvcci_dpf_levels(fn->bits) * b->count * 16;
    uvcci_dpf_gen(uvcci_kernel_dpf_keys(c), fn->bits, b->count, alpha, (const uint8_t *)roots[0],
                  (const uint8_t *)roots[1], levels, terminals, terminals + (size_t)b->count * 16,
                  c->s->shares);
    uvcci_kernel_deal_alike(c, uvcci_cw_bytes(fn->bits, b->count));
    if (b->out[0] != NULL)
        for (uint32_t i = 0; i < b->count; i++)
            b->out[0][i] = ((uint64_t)c->s->shares[i] << 1) - 1;
}

static void deal_multiscale(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->out_bytes[0] != NULL && c->b->out_bytes[1] != NULL);
    const uvcc_block *b = c->b;
    const uvcci_multiscale s = multiscale_of(args(c));
    uint64_t(*roots)[2 * BLOCK] = uvcci_kernel_both_roots(c, args(c)->call_key);
    uvcci_multiscale_gen(uvcci_kernel_dpf_keys(c), &s, b->count, b->in[0],
                         (const uint8_t *)roots[0], (const uint8_t *)roots[1], b->out_bytes[0]);
    uvcci_kernel_deal_alike(c, uvcci_multiscale_bytes(s.depth, s.scales, b->count));
}

/* alpha = r mod 2^n. */
static void put_alpha(const chunk *c, unsigned n) {
    assert(n >= 1 && n < 64 && c->b->in[0] != NULL);
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
    uvcci_kernel_deal_dcf(c, fn->call_key, fn->bits, w, beta);
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

/* The factor s of what the table opened (its sign, times what a shift leaves to OTHER), and all
 * products with the masks of what else is multiplied: the order of the words is that of
 * scalar_by(). */
static void deal_scalar(const chunk *c) {
    assert(c->n <= CHUNK && c->b->in[0] != NULL);
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
    const uint64_t *rho = uvcci_kernel_both_pads(c, c->t->call, 2, 5, UVCC_TAG_mask, 1);
    if (fn->times)
        b = uvcci_kernel_both_pads(c, c->t->call, 3, 5, UVCC_TAG_mask, 0);
    else if (fn->by_table)
        b = uvcci_kernel_both_pads(c, fn->call_bits, 3, 5, UVCC_TAG_mask, 1);
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
    assert(c->b->in[0] != NULL && c->b->in[1] != NULL);
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
    assert(c->b->in[0] != NULL && c->b->in[1] != NULL);
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

/* --- What arguments may be -------------------------------------------------------------------- */

static bool key_is_sane(const uvcc_task *t) {
    return any_args(t) && bits_are_sane(args_given(t)->bits, 64);
}

static bool select_is_sane(const uvcc_task *t) {
    return any_args(t) && bits_are_sane(args_given(t)->word_count, WORD);
}

static bool bits_dealt_are_sane(const uvcc_task *t) {
    return select_is_sane(t) && bits_are_sane(args_given(t)->bits, 63);
}

static bool scalar_is_sane(const uvcc_task *t) {
    const uvcc_fn_args *fn = args_given(t);
    return fn != NULL && fn->shift < 64 &&
           (fn->shift == 0 || (fn->words != NULL && fn->constant >= 0 && fn->constant < 64));
}

static bool scales_are_sane(const uvcc_task *t) {
    return any_args(t) && multiscale_is_sane(args_given(t));
}

static bool degree_is_sane(const uvcc_task *t) {
    return any_args(t) && spline_is_sane(args_given(t), true);
}

/* Of a block's DCF keys. */
static size_t payloads(const uvcc_task *t) {
    (void)t;
    return (size_t)BLOCK * UVCCI_DCF_WORDS_MAX;
}

const uvcci_kernel uvcci_kernels_function_deal[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_FN_DEAL_KEY] = {.run = deal_key, .whole = true, .sane = key_is_sane},
    [UVCC_TASK_FN_DEAL_BITS] = {.run = deal_bits, .sane = bits_dealt_are_sane},
    [UVCC_TASK_FN_DEAL_SELECT] = {.run = deal_select, .sane = select_is_sane},
    [UVCC_TASK_FN_DEAL_SCALAR] = {.run = deal_scalar, .sane = scalar_is_sane},
    [UVCC_TASK_FN_DEAL_MUL] = {.run = deal_mul, .sane = any_args},
    [UVCC_TASK_FN_DEAL_TRUNC] = {.run = deal_trunc, .sane = shift_is_sane},
    [UVCC_TASK_FN_DEAL_BEST] = {.run = deal_best, .sane = any_args},
    [UVCC_TASK_FN_DEAL_MULTISCALE] = {.run = deal_multiscale,
                                      .whole = true,
                                      .sane = scales_are_sane},
    [UVCC_TASK_FN_DEAL_FLOOR] = {.run = deal_floor,
                                 .whole = true,
                                 .sane = shift_is_sane,
                                 .packing = payloads},
    [UVCC_TASK_FN_DEAL_SPLINE] = {.run = deal_spline,
                                  .whole = true,
                                  .sane = degree_is_sane,
                                  .packing = payloads},
    [UVCC_TASK_FN_DEAL_POWERS] = {.run = deal_powers, .sane = degree_is_sane},
};
