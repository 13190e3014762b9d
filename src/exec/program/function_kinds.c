/* SPDX-License-Identifier: Apache-2.0 */
/* function_kinds.c - what is particular to each kind of instruction: its row of the table of
 * classes (fn_class.h), and what the rows point to. A new kind is a row here, one in
 * ops/functions.c and one in function_eval.c. */
#include "exec/program/function_impl.h"
#include "proto/engine.h"
#include "proto/ids.h"

#include <assert.h>

/* ---- what several check ---- */

static const uvcci_fn_info *operand(const uvcci_fn_compiler *c, uint8_t index) {
    assert(index < c->i);
    return &c->plan->instr[index];
}

static uint64_t sum_of_words(const int64_t *words, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < count; j++)
        sum = uvcci_sat_add(sum, uvcci_magnitude(words[j]));
    return sum;
}

static uint64_t most_of_entries(const uvcc_fn_instr *s) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < s->entry_count; i++) {
        const uint64_t v = uvcci_magnitude(s->entries[i]);
        most = v > most ? v : most;
    }
    return most;
}

static int check_bits(const uvcci_fn_compiler *c, unsigned most) {
    if (c->s.bits >= 1 && c->s.bits <= most)
        return 0;
    return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "%u bits; 1 to %u are possible", c->s.bits, most);
}

static int check_words(const uvcci_fn_compiler *c, uint32_t least, uint32_t most) {
    if (c->s.word_count != least && least == most)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "%u words; it takes %u", c->s.word_count,
                               least);
    if (c->s.word_count < least || c->s.word_count > most)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "%u words; it takes %u to %u", c->s.word_count,
                               least, most);
    if (c->s.words == NULL)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    return 0;
}

/* distance: the most that a value of operand a differs from what it is compared with. */
static int check_distance(const uvcci_fn_compiler *c, uint64_t distance) {
    if (c->in_bits == NULL || distance < 1ull << c->s.bits)
        return 0;
    return uvcci_fn_refuse(c, UVCC_ERR_BOUND, "its operand needs %u bits, but %u are declared",
                           uvcci_bits_of(distance), c->s.bits);
}

static uvcci_spline spline_of(const uvcc_fn_instr *s) {
    return uvcci_spline_of((unsigned)s->first, s->word_count, s->words);
}

/* The instruction that owns the DPF key: same operand, same bits. */
static uint8_t key_of(const uvcci_fn_compiler *c) {
    for (unsigned j = 0; j < c->i; j++) {
        const uvcc_fn_instr *s = &c->f->instrs[j];
        if ((c->classes[j]->traits & UVCCI_FN_SHARES_KEY) != 0 && s->a == c->s.a &&
            s->bits == c->s.bits)
            return (uint8_t)j;
    }
    return (uint8_t)c->i;
}

/* Operand c of a SELECT_MUL. */
static int check_other_bit(const uvcci_fn_compiler *c) {
    int err = uvcci_fn_check_operand(c, 'c', c->s.c, "B");
    if (err == 0)
        err = uvcci_fn_check_widths(c, 'c', c->s.c);
    return err != 0 ? err : uvcci_fn_check_one_bit(c, 'c', c->s.c);
}

/* Operand c of a TABLE_MUL: masked, or a TABLE that is opened in the same round. */
static int check_factor(const uvcci_fn_compiler *c) {
    if (c->s.c == UVCC_FN_NONE)
        return c->s.b != UVCC_FN_NONE
                   ? 0
                   : uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                                     "it has neither operand b nor c; give a TABLE");
    int err = uvcci_fn_check_operand(c, 'c', c->s.c, "MA");
    if (err == 0)
        err = uvcci_fn_check_widths(c, 'c', c->s.c);
    if (err != 0 || c->plan->instr[c->s.c].value == 'M')
        return err != 0 ? err : uvcci_fn_check_mod(c, 'c', c->s.c, 64);
    const uvcc_fn_instr *t = &c->f->instrs[c->s.c];
    if (t->kind != UVCC_FN_TABLE || t->b != UVCC_FN_NONE)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "operand c must be a masked value or a TABLE without operand b");
    return 0;
}

/* ---- kinds ---- */

static int compile_open(uvcci_fn_compiler *c) {
    if (c->s.io >= c->f->inputs)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "there is no input %u", c->s.io);
    c->opened |= 1u << c->s.io;
    c->info->mod = c->s.bits;
    c->info->bound = c->in_bits != NULL ? (1ull << c->in_bits[c->s.io]) - 1 : UINT64_MAX;
    return check_bits(c, 64);
}

static int compile_shift(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    if (c->s.shift == 0 || c->s.shift >= a->mod)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "a shift by %u; its operand has %u bits opened",
                               c->s.shift, a->mod);
    c->info->index = true;
    c->info->mod = a->mod - c->s.shift;
    c->info->bound = uvcci_shifted_bound(a->bound, c->s.shift);
    return 0;
}

static int compile_low(uvcci_fn_compiler *c) {
    int err = check_bits(c, UVCCI_MAX_BITS);
    if (err == 0)
        err = uvcci_fn_check_mod(c, 'a', c->s.a, c->s.bits);
    if (err != 0)
        return err;
    c->info->index = true;
    c->info->mod = 64;
    c->info->bound = (1ull << c->s.bits) - 1;
    return 0;
}

/* A column for each pair of a's. */
static void set_pairs(uvcci_fn_compiler *c, uint64_t times) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    assert(a->value == 'M' && a->width != 0);
    c->info->width = a->width / 2 + a->width % 2;
    c->info->mod = a->mod;
    c->info->bound = uvcci_sat_mul(times, a->bound);
}

static int compile_pair_diff(uvcci_fn_compiler *c) {
    set_pairs(c, 2);
    return 0;
}

static int compile_pair_second(uvcci_fn_compiler *c) {
    set_pairs(c, 1);
    return 0;
}

/* So many columns for each group of four of a's. */
static void set_quads(uvcci_fn_compiler *c, uint32_t columns, uint64_t times) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    assert(a->value == 'M' && a->width != 0);
    c->info->index = a->index;
    c->info->width = (a->width + 3) / 4 * columns;
    c->info->mod = a->mod;
    c->info->bound = uvcci_sat_mul(times, a->bound);
}

static int compile_quad_diff(uvcci_fn_compiler *c) {
    set_quads(c, UVCCI_FN_QUAD_PAIRS, 2);
    return 0;
}

static int compile_quad_last(uvcci_fn_compiler *c) {
    set_quads(c, 1, 1);
    return 0;
}

static int compile_best(uvcci_fn_compiler *c) {
    const uvcci_fn_info *b = operand(c, c->s.b);
    const uvcc_fn_instr *x = &c->f->instrs[c->s.a], *y = &c->f->instrs[c->s.b];
    const uvcc_fn_instr *of = &c->f->instrs[x->a];
    if (y->kind != UVCC_FN_QUAD_DIFF || of->kind != UVCC_FN_QUAD_DIFF || x->word_count != 1)
        return uvcci_fn_refuse(
            c, UVCC_ERR_PROGRAM,
            "operand a must be a COMPARE of a QUAD_DIFF by one word, b a QUAD_DIFF");
    assert(b->width % UVCCI_FN_QUAD_PAIRS == 0);
    c->info->width = b->width / UVCCI_FN_QUAD_PAIRS;
    c->info->words = UVCCI_FN_BEST_WORDS;
    c->info->bound = b->bound;
    return uvcci_fn_check_mod(c, 'b', c->s.b, 64);
}

/* A public linear map of a, `times` as large at most. */
static void set_linear(uvcci_fn_compiler *c, uint32_t width, uint64_t times) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    assert(a->value == 'M' && width != 0);
    c->info->width = width;
    c->info->mod = a->mod;
    c->info->bound = uvcci_sat_mul(times, a->bound);
}

static int compile_spread(uvcci_fn_compiler *c) {
    set_linear(c, operand(c, c->s.b)->width, 1);
    return 0;
}

static int compile_row_sum(uvcci_fn_compiler *c) {
    set_linear(c, 1, operand(c, c->s.a)->width);
    return 0;
}

static int compile_sub(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a), *b = operand(c, c->s.b);
    c->info->mod = b->mod < a->mod ? b->mod : a->mod;
    c->info->bound = uvcci_sat_add(a->bound, b->bound);
    return 0;
}

static int compile_mul(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a), *b = operand(c, c->s.b);
    const int err = uvcci_fn_check_mod(c, 'a', c->s.a, 64);
    c->info->words = 1;
    c->info->bound = uvcci_sat_mul(a->bound, b->bound);
    return err != 0 ? err : uvcci_fn_check_mod(c, 'b', c->s.b, 64);
}

static int compile_trunc(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    if (c->s.shift < 1 || c->s.shift > UVCCI_MAX_BITS)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "a shift by %u; 1 to %u are possible",
                               c->s.shift, UVCCI_MAX_BITS);
    if (c->in_bits != NULL && uvcci_bits_of(a->bound) > UVCCI_MAX_BITS)
        return uvcci_fn_refuse(c, UVCC_ERR_BOUND,
                               "its operand needs %u bits; at most %u are possible",
                               uvcci_bits_of(a->bound), UVCCI_MAX_BITS);
    c->info->words = 2;
    c->info->bound = uvcci_shifted_bound(a->bound, c->s.shift);
    return uvcci_fn_check_mod(c, 'a', c->s.a, 64);
}

static int compile_floor(uvcci_fn_compiler *c) {
    c->info->key = (uint8_t)c->i;
    return compile_trunc(c);
}

/* The most that a cell's polynomial can be. */
static uint64_t multiscale_bound(const uvcc_fn_instr *s, const uvcci_multiscale *l) {
    const unsigned cells = UVCCI_MULTISCALE_SPAN * l->cells;
    assert(s->word_count == UVCCI_MULTISCALE_WORDS * cells * l->scales);
    uint64_t most = 0;
    for (unsigned k = 0; k < l->scales; k++)
        for (unsigned i = 0; i < cells; i++) {
            const int64_t *w = s->words + (size_t)k * UVCCI_MULTISCALE_WORDS * cells + i;
            uint64_t sum = uvcci_magnitude(w[0]);
            sum = uvcci_sat_add(
                sum, uvcci_sat_mul(uvcci_magnitude(w[cells]), 1ull << UVCCI_MULTISCALE_BITS));
            sum = uvcci_sat_add(sum, uvcci_sat_mul(uvcci_magnitude(w[2 * cells]),
                                                   1ull << 2 * UVCCI_MULTISCALE_BITS));
            most = sum > most ? sum : most;
        }
    return uvcci_sat_add(most, uvcci_magnitude(s->constant));
}

static int check_multiscale(const uvcci_fn_compiler *c) {
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    if (c->s.first < 2 || c->s.first > UVCCI_MULTISCALE_CELLS_MAX)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its first cell is %lld; 2 to %u are possible",
                               (long long)c->s.first, UVCCI_MULTISCALE_CELLS_MAX);
    const uint32_t scale_at = UVCCI_MULTISCALE_WORDS * UVCCI_MULTISCALE_SPAN * (uint32_t)c->s.first;
    const uint32_t scales = c->s.word_count / scale_at;
    if (c->s.word_count % scale_at != 0 || scales < 1 || scales > UVCCI_MULTISCALE_SCALES_MAX)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "%u words; it takes %u for each of 1 to %u scales", c->s.word_count,
                               scale_at, UVCCI_MULTISCALE_SCALES_MAX);
    if (c->s.words == NULL)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    if (UVCCI_MULTISCALE_STEP * (scales - 1) >= c->s.bits)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "%u bits are too few for %u scales", c->s.bits,
                               scales);
    return uvcci_fn_check_mod(c, 'a', c->s.a, c->s.shift + c->s.bits);
}

static int compile_multiscale(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    int err = check_multiscale(c);
    if (err != 0)
        return err;
    const uvcci_multiscale l =
        uvcci_fn_multiscale(c->s.bits, c->s.shift, c->s.first, c->s.word_count);
    c->info->key = (uint8_t)c->i;
    c->info->bound = multiscale_bound(&c->s, &l);
    if (c->in_bits == NULL)
        return 0;
    const uint64_t most =
        uvcci_sat_add(uvcci_shifted_bound(a->bound, uvcci_multiscale_bits(&l, l.scales - 1)), 1);
    if (most >= 4 * l.cells)
        return uvcci_fn_refuse(
            c, UVCC_ERR_BOUND,
            "its operand has indices up to %llu at the last scale; %u are possible",
            (unsigned long long)most, 4 * l.cells - 1);
    if (most + 4 * l.cells > 1ull << (l.depth - UVCCI_MULTISCALE_STEP * (l.scales - 1)))
        return uvcci_fn_refuse(c, UVCC_ERR_BOUND, "%u bits are too few for %u scales", l.depth,
                               l.scales);
    return 0;
}

static int check_spline(const uvcci_fn_compiler *c) {
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    if (c->s.first < 0 || c->s.first > UVCCI_SPLINE_DEGREE_MAX)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its degree is %lld; 0 to %u are possible",
                               (long long)c->s.first, UVCCI_SPLINE_DEGREE_MAX);
    const uvcci_spline s = spline_of(&c->s);
    if (s.knots < 1 || s.knots > UVCCI_SPLINE_KNOTS_MAX ||
        uvcci_spline_words(s.degree, s.knots) != c->s.word_count)
        return uvcci_fn_refuse(
            c, UVCC_ERR_PROGRAM,
            "%u words; of degree %u it takes %u, and %u for each of 1 to %u knots", c->s.word_count,
            s.degree, s.degree + 1, s.degree + 2, UVCCI_SPLINE_KNOTS_MAX);
    if (s.words == NULL)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    for (unsigned i = 1; i < s.knots; i++)
        if (s.words[i - 1] >= s.words[i])
            return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                                   "knot %u is %lld, knot %u is %lld; they must rise", i - 1,
                                   (long long)s.words[i - 1], i, (long long)s.words[i]);
    return uvcci_fn_check_mod(c, 'a', c->s.a, 64);
}

static int compile_spline(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    int err = check_spline(c);
    if (err != 0)
        return err;
    const uvcci_spline s = spline_of(&c->s);
    for (unsigned i = 0; i < s.knots && err == 0; i++)
        err = check_distance(c, uvcci_sat_add(a->bound, uvcci_magnitude(s.words[i])));
    c->info->key = (uint8_t)c->i;
    c->info->words = uvcci_spline_dealt(s.degree);
    c->info->bound = uvcci_spline_bound(&s, a->bound);
    return err;
}

static int compile_compare(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    int err = check_bits(c, 63);
    if (err == 0)
        err = check_words(c, 1, UVCCI_FN_WORDS_MOST);
    if (err == 0)
        err = uvcci_fn_check_mod(c, 'a', c->s.a, c->s.bits + 1u);
    for (uint32_t j = 0; j < c->s.word_count && err == 0; j++)
        err = check_distance(c, uvcci_sat_add(a->bound, uvcci_magnitude(c->s.words[j])));
    c->info->key = key_of(c);
    c->info->words = c->s.word_count;
    return err;
}

/* A table whose entries are multiplied by factors of what the shift of its index leaves out. */
static int compile_factors(uvcci_fn_compiler *c, uint64_t most) {
    const uvcc_fn_instr *shift = &c->f->instrs[c->s.a];
    assert(c->s.shift != 0 && c->s.b != UVCC_FN_NONE);
    if (shift->kind != UVCC_FN_SHIFT || shift->a != c->s.b || shift->shift != c->s.shift)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "operand a must be the SHIFT of operand b by %u", c->s.shift);
    if (c->s.constant < 0 || c->s.constant > 63)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                               "its constant is a shift; 0 to 63 are possible");
    int err = check_words(c, 8, 8);
    if (err != 0)
        return err;
    /* |l c >> s| <= |c| for l < 2^s, so a factor is at most the sum of its words. */
    const uint64_t z0 = sum_of_words(c->s.words, 4), z1 = sum_of_words(c->s.words + 4, 4);
    const uint64_t larger = z0 > z1 ? z0 : z1;
    if (uvcci_sat_mul(larger, 1ull << c->s.shift) > INT64_MAX ||
        uvcci_sat_mul(most, z0) > INT64_MAX)
        return uvcci_fn_refuse(c, UVCC_ERR_BOUND, "its factors do not fit in 64 bits");
    c->info->bound = uvcci_sat_mul(uvcci_shifted_bound(most * z0, 30),
                                   uvcci_shifted_bound(z1, (unsigned)c->s.constant));
    return 0;
}

/* Entries, of whichever table; the bound is the greatest of them. The DPF tells arguments apart mod
 * 2^bits only, so a value in bounds must be near enough to both ends of the window, unless the
 * window is all there is mod 2^bits. */
static int check_table(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    const uint32_t n = c->s.entry_count;
    if (n < 1 || n > UVCC_FN_ENTRIES_MAX || n > 1ull << c->s.bits)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "%u entries; 1 to %llu are possible", n,
                               c->s.bits < 16 ? 1ull << c->s.bits
                                              : (unsigned long long)UVCC_FN_ENTRIES_MAX);
    if (c->s.entries == NULL)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "its entries are missing");
    /* the window is first .. last; the farthest that a value in bounds is from one of its ends */
    const bool whole = c->s.first == 0 && n == 1ull << c->s.bits;
    const uint64_t below = c->s.first < 0 ? uvcci_magnitude(c->s.first) : 0;
    const uint64_t above = c->s.first >= 0 ? uvcci_sat_add((uint64_t)c->s.first, n - 1)
                           : below < n     ? n - 1 - below
                                           : 0;
    err = uvcci_fn_check_mod(c, 'a', c->s.a, c->s.bits);
    if (err == 0 && !whole)
        err = check_distance(c, uvcci_sat_add(a->bound, below > above ? below : above));
    if (err != 0)
        return err;
    c->info->key = key_of(c);
    c->info->words = 2;
    c->info->bound = most_of_entries(&c->s);
    return 0;
}

static int compile_table(uvcci_fn_compiler *c) {
    const int err = check_table(c);
    if (err != 0)
        return err;
    const uint64_t most = c->info->bound;
    if (c->s.shift != 0)
        return compile_factors(c, most);
    if (c->s.b != UVCC_FN_NONE) {
        c->info->words = 4;
        c->info->bound = uvcci_sat_mul(most, operand(c, c->s.b)->bound);
    }
    return 0;
}

static int compile_table_mul(uvcci_fn_compiler *c) {
    int err = check_table(c);
    if (err == 0 && c->s.b != UVCC_FN_NONE) {
        err = uvcci_fn_check_one_bit(c, 'b', c->s.b);
        c->info->words *= 2;
    }
    if (err != 0)
        return err;
    if (c->s.c != UVCC_FN_NONE) {
        const uvcci_fn_info *by = &c->plan->instr[c->s.c];
        if (by->value == 'A' && by->turn != c->info->turn)
            return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM,
                                   "operand c is opened in round %u, this in round %u", by->turn,
                                   c->info->turn);
        c->info->words *= 2;
        c->info->bound = uvcci_sat_mul(c->info->bound, by->bound);
    }
    return 0;
}

/* SELECT, SELECT_MUL and BITS: one word per bit. */
static int compile_bits(uvcci_fn_compiler *c) {
    const uint32_t n = operand(c, c->s.a)->words;
    assert(operand(c, c->s.a)->value == 'B' && n <= UVCCI_FN_WORDS_MOST);
    const int err = check_words(c, n, n);
    if (err == 0)
        c->info->bound = sum_of_words(c->s.words, n);
    return err;
}

static int compile_select(uvcci_fn_compiler *c) {
    const int err = compile_bits(c);
    if (err != 0)
        return err;
    c->info->words = c->s.word_count;
    c->info->bound = uvcci_sat_mul(c->info->bound, operand(c, c->s.b)->bound);
    return uvcci_fn_check_mod(c, 'b', c->s.b, 64);
}

static int compile_select_mul(uvcci_fn_compiler *c) {
    const int err = compile_select(c);
    c->info->words = 3 * c->s.word_count + 2;
    return err;
}

/* second + bit * (first - second), or the like of a group of four: one of them, so its bound is
 * theirs and not three times as much. */
static bool picks_one_of_pair(const uvcci_fn_compiler *c) {
    const uvcc_fn_instr *x = &c->f->instrs[c->s.a], *y = &c->f->instrs[c->s.b];
    if (c->s.constant == 0 && y->kind == UVCC_FN_QUAD_LAST && x->kind == UVCC_FN_QUAD_BEST)
        return c->f->instrs[x->b].a == y->a;
    return c->s.constant == 0 && y->kind == UVCC_FN_PAIR_SECOND && x->kind == UVCC_FN_SELECT &&
           x->word_count == 1 && x->words[0] == 1 && c->f->instrs[x->b].kind == UVCC_FN_PAIR_DIFF &&
           c->f->instrs[x->b].a == y->a;
}

static int compile_add(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    c->info->bound = uvcci_sat_add(a->bound, uvcci_magnitude(c->s.constant));
    if (c->s.b == UVCC_FN_NONE)
        return 0;
    const uvcci_fn_info *b = &c->plan->instr[c->s.b];
    c->info->bound = picks_one_of_pair(c) ? c->plan->instr[c->f->instrs[c->s.b].a].bound
                                          : uvcci_sat_add(c->info->bound, b->bound);
    return b->value == 'M' ? uvcci_fn_check_mod(c, 'b', c->s.b, 64) : 0;
}

/* The bound of what is lifted: the operand's, or the one that the instruction declares. */
static int compile_lifted(uvcci_fn_compiler *c) {
    const uvcci_fn_info *a = operand(c, c->s.a);
    if (c->s.bits > UVCCI_MAX_BITS)
        return uvcci_fn_refuse(c, UVCC_ERR_PROGRAM, "it declares %u bits; at most %u are possible",
                               c->s.bits, UVCCI_MAX_BITS);
    c->info->bound = a->bound;
    if (c->s.bits != 0 && (1ull << c->s.bits) - 1 < a->bound)
        c->info->bound = (1ull << c->s.bits) - 1;
    return 0;
}

static int compile_exchange(uvcci_fn_compiler *c) {
    const int err = compile_lifted(c);
    c->info->mod = 64;
    return err != 0 || c->s.io == UVCC_FN_NONE ? err : uvcci_fn_write_output(c);
}

static int compile_lift(uvcci_fn_compiler *c) {
    const int err = compile_lifted(c);
    return err != 0 ? err : uvcci_fn_write_output(c);
}

static int compile_index(uvcci_fn_compiler *c) {
    c->info->bound = 2ull * operand(c, c->s.a)->width - 1;
    return 0;
}

/* ---- whose masks ---- */

static void masks_of_a(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    (void)own;
    info[s->a].dealer = true;
}

/* A public linear map of masked values: of their masks too. */
static void masks_passed(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    assert(own->value == 'M' && &info[s->a] < own);
    info[s->a].dealer |= own->dealer;
    info[s->a].pads |= own->pads;
}

static void masks_of_sub(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    masks_passed(s, own, info);
    info[s->b].dealer |= own->dealer;
    info[s->b].pads |= own->pads;
}

static void masks_of_spline(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    masks_of_a(s, own, info);
    info[s->a].pads |= s->first != 0;
}

/* A bit times a masked value. */
static void masks_of_select(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    masks_of_a(s, own, info);
    assert(info[s->b].value == 'M');
    info[s->b].dealer = info[s->b].pads = true;
}

static void masks_of_both(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    masks_of_select(s, own, info);
    assert(info[s->c].value == 'B');
    info[s->c].dealer = true;
}

static void masks_of_mul(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    masks_of_select(s, own, info);
    info[s->a].pads = true;
}

static void masks_of_factors(const uvcc_fn_instr *s, const uvcci_fn_info *own,
                             uvcci_fn_info *info) {
    masks_of_a(s, own, info);
    if (s->b != UVCC_FN_NONE)
        info[s->b].dealer = true;
    if (s->c != UVCC_FN_NONE && info[s->c].value == 'M')
        info[s->c].dealer = true;
}

static void masks_of_add(const uvcc_fn_instr *s, const uvcci_fn_info *own, uvcci_fn_info *info) {
    (void)own;
    if (s->b != UVCC_FN_NONE && info[s->b].value == 'M')
        info[s->b].pads = true;
}

/* ---- what is sent ---- */

static unsigned sends_open(const uvcc_fn_instr *s, uint8_t lift,
                           uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)lift;
    out[0] = (uvcci_fn_vector){UVCCI_PROTO_OPEN2, false, UVCCI_STREAM_MASK, s->bits};
    return 1;
}

static unsigned sends_bits(const uvcc_fn_instr *s, uint8_t lift,
                           uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)lift;
    out[0] = (uvcci_fn_vector){UVCCI_PROTO_OPEN2, false, UVCCI_STREAM_BIT, (uint8_t)s->word_count};
    return 1;
}

/* What the entry makes is opened and, with an operand b that is not the index before its SHIFT,
 * that too. */
static unsigned sends_table(const uvcc_fn_instr *s, uint8_t lift,
                            uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)lift;
    out[0] = (uvcci_fn_vector){UVCCI_PROTO_OPEN2, false, UVCCI_STREAM_SCALAR, 64};
    out[1] = (uvcci_fn_vector){UVCCI_PROTO_OPEN2, false, UVCCI_STREAM_MASK, 64};
    return s->b != UVCC_FN_NONE && s->shift == 0 ? 2 : 1;
}

static unsigned sends_entry(const uvcc_fn_instr *s, uint8_t lift,
                            uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)s;
    (void)lift;
    out[0] = (uvcci_fn_vector){UVCCI_PROTO_OPEN2, false, UVCCI_STREAM_SCALAR, 64};
    return 1;
}

static unsigned sends_exchange(const uvcc_fn_instr *s, uint8_t lift,
                               uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)s;
    (void)lift;
    out[0] = (uvcci_fn_vector){UVCCI_PROTO_LIFT_EXCHANGE, true, UVCCI_STREAM_MASK, 64};
    return 1;
}

static unsigned sends_lift(const uvcc_fn_instr *s, uint8_t lift,
                           uvcci_fn_vector out[UVCCI_FN_VECTORS_MAX]) {
    (void)s;
    out[0] = (uvcci_fn_vector){lift, true, UVCCI_STREAM_MASK, 64};
    return 1;
}

/* ---- keys, and the bits that rounding takes from a mask ---- */

static uint32_t key_of_dpf(const uvcc_fn_instr *s, uint32_t c) {
    return uvcci_cw_bytes(s->bits, c);
}

static uint32_t key_of_floor(const uvcc_fn_instr *s, uint32_t c) {
    return (uint32_t)uvcci_dcf_bytes(s->shift, 1, c);
}

static uint32_t key_of_spline(const uvcc_fn_instr *s, uint32_t c) {
    return (uint32_t)uvcci_dcf_bytes(s->bits, (unsigned)s->first + 1, c);
}

static uint32_t key_of_multiscale(const uvcc_fn_instr *s, uint32_t c) {
    const uvcci_multiscale l = uvcci_fn_multiscale(s->bits, s->shift, s->first, s->word_count);
    return (uint32_t)uvcci_multiscale_bytes(l.depth, l.scales, c);
}

static unsigned low_of_shift(const uvcc_fn_instr *s) {
    return s->shift;
}

static unsigned low_of_bits(const uvcc_fn_instr *s) {
    return s->bits;
}

/* Anybody may ask, also of an instruction that no check has seen. */
static unsigned low_of_multiscale(const uvcc_fn_instr *s) {
    if (s->first < 1 || s->first > UVCCI_MULTISCALE_CELLS_MAX)
        return 0;
    const uvcci_multiscale l = uvcci_fn_multiscale(s->bits, s->shift, s->first, s->word_count);
    return l.scales == 0 ? 0 : uvcci_multiscale_bits(&l, l.scales - 1);
}

/* ---- the table ---- */

enum {
    BITS = UVCCI_FN_USES_BITS,
    SHIFT = UVCCI_FN_USES_SHIFT,
    IO = UVCCI_FN_USES_IO,
    FIRST = UVCCI_FN_USES_FIRST,
    CONSTANT = UVCCI_FN_USES_CONSTANT,
    ENTRIES = UVCCI_FN_USES_ENTRIES,
    WORDS = UVCCI_FN_USES_WORDS,
    FACTORS = UVCCI_FN_USES_FACTORS,
};

static const uvcci_fn_class classes[] = {
    [UVCC_FN_OPEN] = {.name = "OPEN",
                      .value = 'M',
                      .uses = BITS | IO,
                      .compile = compile_open,
                      .sends = sends_open},
    [UVCC_FN_SHIFT] = {.name = "SHIFT",
                       .a = "M",
                       .value = 'M',
                       .uses = SHIFT,
                       .compile = compile_shift,
                       .masks = masks_passed,
                       .low_bits = low_of_shift},
    [UVCC_FN_PAIR_DIFF] = {.name = "PAIR_DIFF",
                           .a = "M",
                           .value = 'M',
                           .traits = UVCCI_FN_ONE_EDGE,
                           .compile = compile_pair_diff,
                           .masks = masks_passed},
    [UVCC_FN_PAIR_SECOND] = {.name = "PAIR_SECOND",
                             .a = "M",
                             .value = 'M',
                             .traits = UVCCI_FN_ONE_EDGE,
                             .compile = compile_pair_second,
                             .masks = masks_passed},
    [UVCC_FN_COMPARE] = {.name = "COMPARE",
                         .a = "M",
                         .value = 'B',
                         .uses = BITS | WORDS,
                         .traits = UVCCI_FN_READS_INDEX | UVCCI_FN_SHARES_KEY,
                         .compile = compile_compare,
                         .masks = masks_of_a,
                         .sends = sends_bits,
                         .key_bytes = key_of_dpf},
    [UVCC_FN_TABLE] = {.name = "TABLE",
                       .a = "M",
                       .b = "A",
                       .b_optional = true,
                       .value = 'A',
                       .uses = BITS | SHIFT | FIRST | ENTRIES | FACTORS,
                       .traits = UVCCI_FN_READS_INDEX | UVCCI_FN_SHARES_KEY | UVCCI_FN_LOOKS_UP,
                       .compile = compile_table,
                       .masks = masks_of_a,
                       .sends = sends_table,
                       .key_bytes = key_of_dpf},
    [UVCC_FN_SELECT] = {.name = "SELECT",
                        .a = "B",
                        .b = "M",
                        .value = 'A',
                        .uses = WORDS,
                        .compile = compile_select,
                        .masks = masks_of_select},
    [UVCC_FN_BITS] =
        {.name = "BITS", .a = "B", .value = 'A', .uses = WORDS, .compile = compile_bits},
    [UVCC_FN_ADD] = {.name = "ADD",
                     .a = "A",
                     .b = "AM",
                     .b_optional = true,
                     .value = 'A',
                     .uses = CONSTANT,
                     .compile = compile_add,
                     .masks = masks_of_add},
    [UVCC_FN_INDEX] = {.name = "INDEX",
                       .a = "MA",
                       .value = 'A',
                       .traits = UVCCI_FN_ONE_EDGE,
                       .compile = compile_index},
    [UVCC_FN_EXCHANGE] = {.name = "EXCHANGE",
                          .a = "A",
                          .value = 'M',
                          .uses = BITS | IO,
                          .traits = UVCCI_FN_WRITES,
                          .compile = compile_exchange,
                          .sends = sends_exchange},
    [UVCC_FN_LIFT] = {.name = "LIFT",
                      .a = "A",
                      .uses = BITS | IO,
                      .traits = UVCCI_FN_WRITES,
                      .compile = compile_lift,
                      .sends = sends_lift},
    [UVCC_FN_QUAD_DIFF] = {.name = "QUAD_DIFF",
                           .a = "M",
                           .value = 'M',
                           .traits = UVCCI_FN_READS_INDEX | UVCCI_FN_ONE_EDGE,
                           .compile = compile_quad_diff,
                           .masks = masks_passed},
    [UVCC_FN_QUAD_LAST] = {.name = "QUAD_LAST",
                           .a = "M",
                           .value = 'M',
                           .traits = UVCCI_FN_ONE_EDGE,
                           .compile = compile_quad_last,
                           .masks = masks_passed},
    [UVCC_FN_QUAD_BEST] = {.name = "QUAD_BEST",
                           .a = "B",
                           .b = "M",
                           .value = 'A',
                           .compile = compile_best,
                           .masks = masks_of_select},
    [UVCC_FN_SPREAD] = {.name = "SPREAD",
                        .a = "M",
                        .b = "M",
                        .value = 'M',
                        .traits = UVCCI_FN_ONE_EDGE | UVCCI_FN_SPREADS,
                        .compile = compile_spread,
                        .masks = masks_passed},
    [UVCC_FN_SUB] = {.name = "SUB",
                     .a = "M",
                     .b = "M",
                     .value = 'M',
                     .traits = UVCCI_FN_ONE_EDGE,
                     .compile = compile_sub,
                     .masks = masks_of_sub},
    [UVCC_FN_ROW_SUM] = {.name = "ROW_SUM",
                         .a = "M",
                         .value = 'M',
                         .traits = UVCCI_FN_ONE_EDGE,
                         .compile = compile_row_sum,
                         .masks = masks_passed},
    [UVCC_FN_MUL] = {.name = "MUL",
                     .a = "M",
                     .b = "M",
                     .value = 'A',
                     .compile = compile_mul,
                     .masks = masks_of_mul},
    [UVCC_FN_TRUNC] = {.name = "TRUNC",
                       .a = "M",
                       .value = 'A',
                       .uses = SHIFT,
                       .compile = compile_trunc,
                       .masks = masks_of_a,
                       .low_bits = low_of_shift},
    [UVCC_FN_MULTISCALE] = {.name = "MULTISCALE",
                            .a = "M",
                            .value = 'A',
                            .uses = BITS | SHIFT | FIRST | CONSTANT | WORDS,
                            .words_most = UVCC_FN_WORDS_MAX,
                            .compile = compile_multiscale,
                            .masks = masks_of_a,
                            .key_bytes = key_of_multiscale,
                            .low_bits = low_of_multiscale},
    [UVCC_FN_FLOOR] = {.name = "FLOOR",
                       .a = "M",
                       .value = 'A',
                       .uses = SHIFT,
                       .compile = compile_floor,
                       .masks = masks_of_a,
                       .key_bytes = key_of_floor},
    [UVCC_FN_SPLINE] = {.name = "SPLINE",
                        .a = "M",
                        .value = 'A',
                        .uses = BITS | FIRST | WORDS,
                        .words_most = UVCC_FN_WORDS_MAX,
                        .compile = compile_spline,
                        .masks = masks_of_spline,
                        .key_bytes = key_of_spline},
    [UVCC_FN_LOW] = {.name = "LOW",
                     .a = "M",
                     .value = 'M',
                     .uses = BITS,
                     .compile = compile_low,
                     .masks = masks_passed,
                     .low_bits = low_of_bits},
    [UVCC_FN_TABLE_MUL] = {.name = "TABLE_MUL",
                           .a = "M",
                           .b = "B",
                           .b_optional = true,
                           .value = 'A',
                           .uses = BITS | FIRST | ENTRIES,
                           .traits = UVCCI_FN_READS_INDEX | UVCCI_FN_SHARES_KEY |
                                     UVCCI_FN_LOOKS_UP | UVCCI_FN_LATE_FACTORS,
                           .third = check_factor,
                           .compile = compile_table_mul,
                           .masks = masks_of_factors,
                           .sends = sends_entry,
                           .key_bytes = key_of_dpf},
    [UVCC_FN_SELECT_MUL] = {.name = "SELECT_MUL",
                            .a = "B",
                            .b = "M",
                            .value = 'A',
                            .uses = WORDS,
                            .third = check_other_bit,
                            .compile = compile_select_mul,
                            .masks = masks_of_both},
};
_Static_assert(sizeof classes / sizeof *classes == UVCC_FN_KIND_END, "a row for every kind");

const uvcci_fn_class *uvcci_fn_class_of(uint8_t kind) {
    const uvcci_fn_class *class = kind < UVCC_FN_KIND_END ? &classes[kind] : NULL;
    if (class == NULL || class->name == NULL)
        return NULL;
    assert(class->compile != NULL && (class->b == NULL || class->a != NULL));
    return class;
}
