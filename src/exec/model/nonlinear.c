/* nonlinear.c - the functions of a transformer as lists of instructions with their tables.
 *
 * A function is built twice by the same code: first without memory, to count instructions, words
 * and entries and to learn the bits of its outputs, then into one block. The builder bounds every
 * value as uvcc_function_check does, so the bits of comparisons and tables are the fewest that pass
 * it.
 */
#include "exec/model/nonlinear.h"
#include "exec/base/bounds.h"

#include "exec/base/bounds.h"
#include "exec/primitives/multiscale.h"
#include "exec/program/function.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- the list ---- */

static const uvcc_nonlinear_info list[UVCC_NL_COUNT] = {
#define UVCC_NONLINEAR(NAME, name, inputs, outputs, form, index_bits, bound, relative, low, high,  \
                       what)                                                                       \
    {name, what, UVCC_NL_##form, inputs, outputs, index_bits, relative, bound, low, high},
#include <uvcc/nonlinear.def>
#undef UVCC_NONLINEAR
};

const uvcc_nonlinear_info *uvcc_nonlinear_at(uvcc_nonlinear what) {
    return (unsigned)what < UVCC_NL_COUNT ? &list[what] : NULL;
}

int uvcc_nonlinear_find(const char *name) {
    for (unsigned i = 0; name != NULL && i < UVCC_NL_COUNT; i++)
        if (strcmp(list[i].name, name) == 0)
            return (int)i;
    return UVCC_ERR_NOT_FOUND;
}

/* ---- the builder ---- */

static const int64_t zero[1] = {0}, one[1] = {1};

enum { WORDS_MAX = 64 };

typedef struct builder {
    uvcc_nonlinear_options o; /* with its defaults filled in */
    uvcc_nonlinear what;
    uvcc_fn_instr *instrs; /* NULL, as words and entries are, while their room is counted */
    int64_t *words;
    int32_t *entries;
    uint32_t instr_count, word_count, entry_count;
    uint64_t bound[UVCC_FN_INSTRS_MAX]; /* |value| <= bound */
    uint8_t out_bits[UVCCI_NL_OUT_MAX];
    bool too_large; /* a table's entry */
} builder;

/* Smallest n >= 1 with bound < 2^n. */
static uint8_t bits_of(uint64_t bound) {
    uint8_t n = 1;
    while (n < 64 && bound >> n != 0)
        n++;
    return n;
}

static uint64_t all_below(unsigned bits) {
    return (1ull << bits) - 1;
}

static uint8_t put(builder *b, uvcc_fn_instr s, uint64_t bound) {
    assert(b->instr_count < UVCC_FN_INSTRS_MAX);
    b->bound[b->instr_count] = bound;
    if (!uvcci_fn_has_third(s.kind))
        s.c = UVCC_FN_NONE;
    if (b->instrs != NULL)
        b->instrs[b->instr_count] = s;
    return (uint8_t)b->instr_count++;
}

static const int64_t *put_words(builder *b, const int64_t *words, uint32_t count) {
    const uint32_t at = b->word_count;
    b->word_count += count;
    if (b->words == NULL)
        return NULL;
    memcpy(b->words + at, words, count * sizeof *words);
    return b->words + at;
}

static uint64_t sum_of(const int64_t *words, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < count; j++)
        sum = uvcci_sat_add(sum, uvcci_magnitude(words[j]));
    return sum;
}

/* declared: bits of the input; opened: how many low bits are wanted. */
static uint8_t open(builder *b, uint8_t io, unsigned declared, unsigned opened) {
    const uint8_t bits = opened < 64 ? (uint8_t)opened : 64;
    return put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_OPEN, .a = UVCC_FN_NONE, .b = UVCC_FN_NONE, .bits = bits, .io = io},
        all_below(declared));
}

static uint8_t one_operand(builder *b, uvcc_fn_kind kind, uint8_t a, uint64_t bound) {
    return put(
        b, (uvcc_fn_instr){.kind = (uint8_t)kind, .a = a, .b = UVCC_FN_NONE, .io = UVCC_FN_NONE},
        bound);
}

static uint8_t shift(builder *b, uint8_t a, unsigned by) {
    if (by == 0)
        return a;
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_SHIFT,
                               .a = a,
                               .b = UVCC_FN_NONE,
                               .shift = (uint8_t)by,
                               .io = UVCC_FN_NONE},
               uvcci_shifted_bound(b->bound[a], by));
}

static uint8_t compare(builder *b, uint8_t a, uint8_t bits, const int64_t *words, uint32_t count) {
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_COMPARE,
                               .a = a,
                               .b = UVCC_FN_NONE,
                               .bits = bits,
                               .io = UVCC_FN_NONE,
                               .word_count = count,
                               .words = put_words(b, words, count)},
               UINT64_MAX);
}

/* SELECT of the M instruction y, or BITS where that is UVCC_FN_NONE. */
static uint8_t weigh(builder *b, uint8_t bits, uint8_t y, const int64_t *words, uint32_t count) {
    const uint64_t sum = sum_of(words, count);
    return put(b,
               (uvcc_fn_instr){.kind = y != UVCC_FN_NONE ? UVCC_FN_SELECT : UVCC_FN_BITS,
                               .a = bits,
                               .b = y,
                               .io = UVCC_FN_NONE,
                               .word_count = count,
                               .words = put_words(b, words, count)},
               y != UVCC_FN_NONE ? uvcci_sat_mul(sum, b->bound[y]) : sum);
}

/* SELECT_MUL. */
static uint8_t weigh_both(builder *b, uint8_t bits, uint8_t bit, uint8_t y, const int64_t *words,
                          uint32_t count) {
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_SELECT_MUL,
                               .a = bits,
                               .b = y,
                               .c = bit,
                               .io = UVCC_FN_NONE,
                               .word_count = count,
                               .words = put_words(b, words, count)},
               uvcci_sat_mul(sum_of(words, count), b->bound[y]));
}

static uint8_t add(builder *b, uint8_t x, uint8_t y, int64_t constant) {
    return put(b,
               (uvcc_fn_instr){
                   .kind = UVCC_FN_ADD, .a = x, .b = y, .io = UVCC_FN_NONE, .constant = constant},
               uvcci_sat_add(uvcci_sat_add(b->bound[x], uvcci_magnitude(constant)),
                             y != UVCC_FN_NONE ? b->bound[y] : 0));
}

/* The value's bound is the carried one or, where bits are known, theirs. */
static uint64_t known_bound(const builder *b, uint8_t a, unsigned bits) {
    return bits != 0 && all_below(bits) < b->bound[a] ? all_below(bits) : b->bound[a];
}

/* Of two M instructions. */
static uint8_t two_operands(builder *b, uvcc_fn_kind kind, uint8_t x, uint8_t y, uint64_t bound) {
    return put(b, (uvcc_fn_instr){.kind = (uint8_t)kind, .a = x, .b = y, .io = UVCC_FN_NONE},
               bound);
}

static uint8_t truncate(builder *b, uint8_t a, unsigned by) {
    if (by == 0)
        return add(b, a, UVCC_FN_NONE, 0);
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_TRUNC,
                               .a = a,
                               .b = UVCC_FN_NONE,
                               .shift = (uint8_t)by,
                               .io = UVCC_FN_NONE},
               uvcci_shifted_bound(b->bound[a], by));
}

static uint8_t exchange_to(builder *b, uint8_t a, uint8_t io, unsigned bits) {
    if (io != UVCC_FN_NONE)
        b->out_bits[io] = bits_of(known_bound(b, a, bits));
    return put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_EXCHANGE, .a = a, .b = UVCC_FN_NONE, .bits = (uint8_t)bits, .io = io},
        known_bound(b, a, bits));
}

static uint8_t exchange(builder *b, uint8_t a, unsigned bits) {
    return exchange_to(b, a, UVCC_FN_NONE, bits);
}

static void lift_known(builder *b, uint8_t a, uint8_t io, unsigned bits) {
    b->out_bits[io] = bits_of(known_bound(b, a, bits));
    put(b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_LIFT, .a = a, .b = UVCC_FN_NONE, .bits = (uint8_t)bits, .io = io},
        0);
}

static void lift(builder *b, uint8_t a, uint8_t io) {
    lift_known(b, a, io, 0);
}

/* ---- real functions ---- */

/* With s the function that multiplies x in GELU and its like: 1 - s(a) and s'(a), a >= 0. */
typedef struct gate {
    long double tail, slope;
} gate;

static gate logistic_gate(long double a) {
    const long double tail = 1 / (1 + expl(a));
    return (gate){tail, tail * (1 - tail)};
}

static gate gate_of(uvcc_nonlinear what, long double a) {
    const long double pi = acosl(-1);
    if (what == UVCC_NL_GELU || what == UVCC_NL_GELU_DERIVATIVE)
        return (gate){erfcl(a / sqrtl(2)) / 2, expl(-a * a / 2) / sqrtl(2 * pi)};
    if (what == UVCC_NL_GELU_TANH || what == UVCC_NL_GELU_TANH_DERIVATIVE) {
        const long double c = 2 * sqrtl(2 / pi), k = 0.044715L;
        gate g = logistic_gate(c * (a + k * a * a * a));
        g.slope *= c * (1 + 3 * k * a * a);
        return g;
    }
    return logistic_gate(what == UVCC_NL_TANH ? 2 * a : a);
}

/* x d + a table. */
static bool multiplies_x(uvcc_nonlinear what) {
    return what == UVCC_NL_GELU || what == UVCC_NL_GELU_TANH || what == UVCC_NL_SILU;
}

static uvcc_nonlinear derivative_of(uvcc_nonlinear what) {
    return what == UVCC_NL_GELU        ? UVCC_NL_GELU_DERIVATIVE
           : what == UVCC_NL_GELU_TANH ? UVCC_NL_GELU_TANH_DERIVATIVE
                                       : UVCC_NL_SILU_DERIVATIVE;
}

/* What is left of a function when its asymptote, x [x >= 0] or a step at 0, is taken off. */
static long double rest(uvcc_nonlinear what, long double x) {
    const long double a = fabsl(x), sign = x >= 0 ? 1 : -1;
    const gate g = gate_of(what, a);
    switch (what) {
    case UVCC_NL_GELU:
    case UVCC_NL_GELU_TANH:
    case UVCC_NL_SILU:
        return -a * g.tail;
    case UVCC_NL_SIGMOID:
        return -sign * g.tail;
    case UVCC_NL_TANH:
        return -2 * sign * g.tail;
    default: /* derivatives */
        return sign * (a * g.slope - g.tail);
    }
}

/* A table's value at a point. */
typedef struct curve {
    uvcc_nonlinear what;
    long double gain;
} curve;

static long double value_at(const curve *c, long double x) {
    switch (c->what) {
    case UVCC_NL_EXP:
        return expl(-x);
    case UVCC_NL_RECIPROCAL:
        return 1 / x;
    case UVCC_NL_RSQRT:
        return c->gain / sqrtl(x);
    case UVCC_NL_LN:
        return logl(x);
    default:
        return rest(c->what, x);
    }
}

/* ---- tables ---- */

typedef struct window {
    int64_t first;
    uint32_t count;
    uint8_t index_bits, scale; /* fraction bits of the index and of the entries */
    bool middle;               /* entries are values at the middle of the cells */
    uint8_t raise;             /* units added to entries whose product is floored */
} window;

static uint64_t farthest(const window *w) {
    const uint64_t low = uvcci_magnitude(w->first),
                   high = uvcci_magnitude(w->first + (int64_t)w->count - 1);
    return low > high ? low : high;
}

/* Bits of a DPF for values up to reach: every distance to an argument, and every entry, fits. */
static uint8_t table_bits(uint64_t reach, const window *w) {
    const uint8_t distance = bits_of(uvcci_sat_add(reach, farthest(w))),
                  entries = bits_of(w->count - 1);
    return distance > entries ? distance : entries;
}

static int64_t entry_at(const window *w, const curve *c, int64_t index) {
    const long double at = (long double)index + (w->middle ? 0.5L : 0);
    return llroundl(ldexpl(value_at(c, ldexpl(at, -w->index_bits)), w->scale)) + w->raise;
}

static bool within(const window *w, int64_t index) {
    return index >= w->first && index < w->first + (int64_t)w->count;
}

static int32_t *room_for_entries(builder *b, uint32_t count) {
    int32_t *entries = b->entries != NULL ? b->entries + b->entry_count : NULL;
    b->entry_count += count;
    return entries;
}

/* Entry i, where there is memory for it; gives the greater of `most` and its size. Large scales
 * need more bits than entries have: then there is no such function. */
static uint64_t put_entry(builder *b, int32_t *entries, uint32_t i, int64_t v, uint64_t most) {
    b->too_large |= v < INT32_MIN || v > INT32_MAX;
    if (entries != NULL)
        entries[i] = (int32_t)v;
    return uvcci_magnitude(v) > most ? uvcci_magnitude(v) : most;
}

/* Puts the entries and gives the greatest. */
static const int32_t *put_entries(builder *b, const window *w, const curve *c, uint64_t *most) {
    int32_t *entries = room_for_entries(b, w->count);
    *most = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        *most = put_entry(b, entries, i, entry_at(w, c, w->first + (int64_t)i), *most);
    }
    return entries;
}

/* What entries rise by from the one before, for every index in the window and the one behind it; at
 * index 0 plus `jump`. */
static const int32_t *put_rises(builder *b, const window *w, const curve *c, int64_t jump,
                                uint64_t *most) {
    int32_t *entries = room_for_entries(b, w->count + 1);
    int64_t before = 0;
    *most = 0;
    for (uint32_t i = 0; i <= w->count; i++) {
        const int64_t index = w->first + (int64_t)i;
        const int64_t here = within(w, index) ? entry_at(w, c, index) : 0;
        const int64_t v = here - before + (index == 0 ? jump : 0);
        before = here;
        *most = put_entry(b, entries, i, v, *most);
    }
    return entries;
}

static uint8_t put_table(builder *b, uint8_t a, uint8_t y, uint8_t bits, int64_t first,
                         const int32_t *entries, uint32_t count, uint64_t most) {
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                               .a = a,
                               .b = y,
                               .bits = bits,
                               .io = UVCC_FN_NONE,
                               .first = first,
                               .entry_count = count,
                               .entries = entries},
               y != UVCC_FN_NONE ? uvcci_sat_mul(most, b->bound[y]) : most);
}

/* TABLE on the index instruction a, times the An instruction y unless that is UVCC_FN_NONE. */
static uint8_t table(builder *b, uint8_t a, uint8_t y, uint8_t bits, const window *w,
                     const curve *c) {
    uint64_t most;
    const int32_t *entries = put_entries(b, w, c, &most);
    return put_table(b, a, y, bits, w->first, entries, w->count, most);
}

/* TABLE_MUL on the index instruction a: times the bit of the B instruction d and the M or TABLE
 * instruction m, if they are. */
static uint8_t table_mul(builder *b, uint8_t a, uint8_t d, uint8_t m, uint8_t bits, int64_t first,
                         const int32_t *entries, uint32_t count, uint64_t most) {
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_TABLE_MUL,
                               .a = a,
                               .b = d,
                               .c = m,
                               .bits = bits,
                               .io = UVCC_FN_NONE,
                               .first = first,
                               .entry_count = count,
                               .entries = entries},
               m != UVCC_FN_NONE ? uvcci_sat_mul(most, b->bound[m]) : most);
}

/* ---- exact indices ---- */

/* floor(x / 2^s) = index - 1 + kept: `index` is the SHIFT, which is one more where the low bits of
 * x and of the mask carry, `kept` a bit that says that they do not. So a function F of the floor is
 * F(index - 1) and, where kept, F(index) - F(index - 1) more: no round more than a function of the
 * index. */
typedef struct exact_index {
    uint8_t index, low, kept;
} exact_index;

static uint8_t low_of(builder *b, uint8_t a, unsigned bits) {
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_LOW,
                               .a = a,
                               .b = UVCC_FN_NONE,
                               .bits = (uint8_t)bits,
                               .io = UVCC_FN_NONE},
               all_below(bits));
}

static exact_index exact_shift(builder *b, uint8_t x, unsigned by) {
    exact_index i = {.index = shift(b, x, by), .low = low_of(b, x, by)};
    i.kept = compare(b, i.low, (uint8_t)by, zero, 1);
    return i;
}

/* Bits of a DPF for both tables of an exact index, and for comparing it with 1. */
static uint8_t exact_bits(uint64_t reach, const window *w) {
    const window wider = {.first = w->first, .count = w->count + 1};
    return table_bits(reach, &wider);
}

/* The table's value at an exact index, plus `jump` where that is 0 and index - 1 is not; times the
 * M or TABLE instruction m unless that is UVCC_FN_NONE. */
static uint8_t exact_table(builder *b, const exact_index *i, uint8_t m, uint8_t bits,
                           const window *w, const curve *c, int64_t jump) {
    window before = *w;
    uint64_t most;
    uint8_t t;
    const int32_t *entries = put_entries(b, w, c, &most);
    before.first++;
    if (m != UVCC_FN_NONE)
        t = table_mul(b, i->index, UVCC_FN_NONE, m, bits, before.first, entries, w->count, most);
    else
        t = put_table(b, i->index, UVCC_FN_NONE, bits, before.first, entries, w->count, most);
    entries = put_rises(b, w, c, jump, &most);
    return add(b, t,
               table_mul(b, i->index, i->kept, m, bits, w->first, entries, w->count + 1, most), 0);
}

/* floor(x / 2^by), as TRUNC but for what carries. */
static uint8_t truncate_exactly(builder *b, uint8_t x, unsigned by) {
    const uint8_t kept = compare(b, low_of(b, x, by), (uint8_t)by, zero, 1);
    return add(b, truncate(b, x, by), weigh(b, kept, UVCC_FN_NONE, one, 1), -1);
}

/* Half the width, in cells, of the window outside which |rest| is below half the error bound. */
static uint32_t half_window(uvcc_nonlinear what, unsigned index_bits) {
    const long double enough = list[what].bound / 2;
    unsigned k = 16 * 64;
    while (k > 0 && fabsl(rest(what, (long double)(k - 1) / 16)) < enough)
        k--;
    return k << (index_bits - 4);
}

/* ---- element by element ---- */

/* SIGN and RELU. */
static void build_sign(builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->exact ? 0 : o->scale - o->index_bits;
    const uint8_t bits = bits_of(uvcci_shifted_bound(all_below(o->in_bits), drop));
    const bool relu = b->what == UVCC_NL_RELU;
    const uint8_t x = open(b, 0, o->in_bits, relu ? 64 : drop + bits + 1u);
    const uint8_t d = compare(b, shift(b, x, drop), bits, zero, 1);
    if (relu)
        lift(b, weigh(b, d, x, one, 1), 0);
    if (!relu || o->derivative)
        lift(b, weigh(b, d, UVCC_FN_NONE, one, 1), relu);
}

/* CLIP: x ([x >= -limit] - [x >= limit]) + limit ([x >= -limit] + [x >= limit] - 1). */
static void build_clip(builder *b) {
    static const int64_t inside[2] = {1, -1};
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->exact ? 0 : o->scale - o->index_bits;
    const int64_t cells = llround(ldexp(o->limit, (int)(o->scale - drop)));
    const int64_t ends[2] = {-cells, cells}, limit[2] = {cells << drop, cells << drop};
    const uint64_t reach = uvcci_shifted_bound(all_below(o->in_bits), drop) + (uint64_t)cells;
    const uint8_t x = open(b, 0, o->in_bits, 64);
    const uint8_t d = compare(b, shift(b, x, drop), bits_of(reach), ends, 2);
    const uint8_t y = weigh(b, d, x, inside, 2), at_ends = weigh(b, d, UVCC_FN_NONE, limit, 2);
    const uint64_t most = (uint64_t)limit[0] + all_below(drop); /* a cell is wholly in or out */
    lift_known(b, add(b, y, at_ends, -limit[0]), 0, bits_of(most));
}

/* Where there is no product with x: how much the step at 0 rises by, and from where. */
static int64_t height_of(const builder *b, uvcc_nonlinear what) {
    return multiplies_x(what) ? 0 : (int64_t)(what == UVCC_NL_TANH ? 2 : 1) << b->o.scale;
}

static int64_t least_of(const builder *b, uvcc_nonlinear what) {
    return what == UVCC_NL_TANH ? -(1ll << b->o.scale) : 0;
}

/* Table + x d, or table + a step at 0. */
static uint8_t with_asymptote(builder *b, uvcc_nonlinear what, uint8_t t, uint8_t d, uint8_t x) {
    const int64_t height = height_of(b, what);
    if (multiplies_x(what))
        return add(b, t, weigh(b, d, x, one, 1), 0);
    return add(b, t, weigh(b, d, UVCC_FN_NONE, &height, 1), least_of(b, what));
}

/* GELU and its like, derivatives, SIGMOID, TANH: one key for the comparison and all tables. */
typedef struct windows {
    uvcc_nonlinear what[2];
    window w[2];
    unsigned count;
    uint8_t bits;
} windows;

static windows windows_of(const builder *b, unsigned drop) {
    const uvcc_nonlinear_options *o = &b->o;
    const bool two = multiplies_x(b->what) && o->derivative;
    const uint64_t reach = uvcci_shifted_bound(all_below(o->in_bits), drop);
    windows v = {{b->what, two ? derivative_of(b->what) : b->what}, .count = 1u + two};
    for (unsigned i = 0; i < v.count; i++) {
        const uint32_t half = half_window(v.what[i], o->index_bits);
        v.w[i] = (window){-(int64_t)half, 2 * half, o->index_bits, o->scale, .middle = o->exact};
        const uint8_t wanted = exact_bits(reach, &v.w[i]);
        v.bits = wanted > v.bits ? wanted : v.bits;
    }
    return v;
}

static void build_fast_window(builder *b, const windows *v, uint8_t x, unsigned drop) {
    const uint8_t index = shift(b, x, drop), d = compare(b, index, v->bits, zero, 1);
    for (unsigned i = 0; i < v->count; i++) {
        const curve c = {v->what[i], 1};
        const uint8_t t = table(b, index, UVCC_FN_NONE, v->bits, &v->w[i], &c);
        lift(b, with_asymptote(b, v->what[i], t, d, x), (uint8_t)i);
    }
}

/* Table + x [floor >= 0], or + an instruction there: [floor >= 0] is [index >= 1], or [index = 0]
 * where kept. */
static void build_exact_window(builder *b, const windows *v, uint8_t x, unsigned drop) {
    static const int64_t from[2] = {1, 0}, above[2] = {1, 0}, at_zero[2] = {-1, 1};
    const exact_index index = exact_shift(b, x, drop);
    const uint8_t d = compare(b, index.index, v->bits, from, multiplies_x(b->what) ? 2 : 1);
    for (unsigned i = 0; i < v->count; i++) {
        const curve c = {v->what[i], 1};
        const int64_t height = height_of(b, v->what[i]), steps[2] = {height, 0};
        uint8_t t = exact_table(b, &index, UVCC_FN_NONE, v->bits, &v->w[i], &c, height);
        if (multiplies_x(v->what[i])) {
            t = add(b, t, weigh(b, d, x, above, 2), 0);
            t = add(b, t, weigh_both(b, d, index.kept, x, at_zero, 2), 0);
        } else {
            t = add(b, t, weigh(b, d, UVCC_FN_NONE, steps, multiplies_x(b->what) ? 2 : 1),
                    least_of(b, v->what[i]));
        }
        lift(b, t, (uint8_t)i);
    }
}

static void build_window(builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->scale - o->index_bits;
    const windows v = windows_of(b, drop);
    const bool whole = multiplies_x(b->what);
    const uint8_t x = open(b, 0, o->in_bits, whole ? 64 : drop + v.bits + 1u);
    if (o->exact && drop != 0)
        build_exact_window(b, &v, x, drop);
    else
        build_fast_window(b, &v, x, drop);
}

/* ---- exp ---- */

/* EXP_SCALE is that of both factors of the result and of exact results. Tables and the first cubic
 * have 24 bits, so with the 30 that a table drops their product has 18; HALF_UNIT makes its floor a
 * rounding to the nearest. */
enum { EXP_SCALE = 18, EXP_WINDOW = 13, ENTRY_SCALE = 24, DROPPED = 30, DEALT_SCALE = 30 };
enum { HALF_UNIT = 1 << (DROPPED - ENTRY_SCALE - 1) };

/* exp(c v) on [0, 1] as a cubic in v: its Taylor polynomial at 1/2 (error (c/2)^4 / 24). */
static void exp_cubic(long double c, int scale, int64_t out[4]) {
    const long double e = expl(c / 2), c2 = c * c, c3 = c2 * c;
    const long double coefficient[4] = {1 - c / 2 + c2 / 8 - c3 / 48, c - c2 / 2 + c3 / 8,
                                        c2 / 2 - c3 / 4, c3 / 6};
    for (unsigned i = 0; i < 4; i++)
        out[i] = llroundl(ldexpl(e * coefficient[i], scale));
}

static window exp_window(unsigned index_bits) {
    const uint32_t count = (EXP_WINDOW << index_bits) + 1;
    return (window){0, count, (uint8_t)index_bits, ENTRY_SCALE, .raise = HALF_UNIT};
}

static window exact_exp_window(unsigned index_bits) {
    const uint32_t count = (EXP_WINDOW << index_bits) + 1;
    return (window){0, count, (uint8_t)index_bits, EXP_SCALE, .raise = 0};
}

/* Bits of the key of EXP for |t| <= reach. */
static uint8_t exp_bits(const builder *b, const window *w, uint64_t reach) {
    return table_bits(uvcci_shifted_bound(reach, b->o.scale - w->index_bits), w);
}

/* exp(-t) = exp(-index u) exp(-low) exp(r_low): index u + low - r_low = t. t is the M instruction
 * x; the dealt factor has dealt_scale bits, at most EXP_SCALE. */
static uint8_t exp_of(builder *b, uint8_t x, unsigned index_bits, unsigned dealt_scale) {
    const unsigned drop = b->o.scale - index_bits;
    const long double cell = ldexpl(1, -(int)index_bits);
    const window w = exp_window(index_bits);
    const curve c = {UVCC_NL_EXP, 1};
    const uint8_t bits = exp_bits(b, &w, b->bound[x]);
    int64_t factors[8];
    uint64_t most;
    exp_cubic(-cell, ENTRY_SCALE, factors);
    exp_cubic(cell, DEALT_SCALE, factors + 4);
    /* rounds the dealt factor to the nearest */
    factors[4] += 1ll << (DEALT_SCALE - dealt_scale - 1);
    const uint8_t index = shift(b, x, drop);
    const int32_t *entries = put_entries(b, &w, &c, &most);
    const uint64_t inner = uvcci_shifted_bound(most * sum_of(factors, 4), DROPPED);
    const uint64_t outer = uvcci_shifted_bound(sum_of(factors + 4, 4), DEALT_SCALE - dealt_scale);
    return put(b,
               (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                               .a = index,
                               .b = x,
                               .bits = bits,
                               .shift = (uint8_t)drop,
                               .io = UVCC_FN_NONE,
                               .constant = DEALT_SCALE - dealt_scale,
                               .entry_count = w.count,
                               .word_count = 8,
                               .entries = entries,
                               .words = put_words(b, factors, 8)},
               inner * outer);
}

/* exp(-t) = exp(-high) exp(-low) from two tables: high a multiple of a cell, low the rest. The
 * result has EXP_SCALE + low_scale fraction bits. */
static uint8_t exact_exp_of(builder *b, uint8_t x, unsigned index_bits, unsigned low_scale) {
    const unsigned drop = b->o.scale - index_bits;
    const window high = exact_exp_window(index_bits);
    const window low = {0, 1u << drop, b->o.scale, (uint8_t)low_scale, .raise = 0};
    const curve c = {UVCC_NL_EXP, 1};
    const exact_index index = exact_shift(b, x, drop);
    const uint8_t bits = exact_bits(uvcci_shifted_bound(b->bound[x], drop), &high);
    const uint8_t factor = table(b, index.low, UVCC_FN_NONE, (uint8_t)drop, &low, &c);
    return exact_table(b, &index, factor, bits, &high, &c, 0);
}

static void build_exp(builder *b) {
    const unsigned drop = b->o.scale - b->o.index_bits;
    const window fast = exp_window(b->o.index_bits), exact = exact_exp_window(b->o.index_bits);
    if (b->o.exact) {
        const uint64_t reach = uvcci_shifted_bound(all_below(b->o.in_bits), drop);
        const uint8_t x = open(b, 0, b->o.in_bits, drop + exact_bits(reach, &exact));
        lift_known(b, exact_exp_of(b, x, b->o.index_bits, EXP_SCALE), 0, 2 * EXP_SCALE + 1);
        return;
    }
    const uint8_t bits = exp_bits(b, &fast, all_below(b->o.in_bits));
    lift(b, exp_of(b, open(b, 0, b->o.in_bits, drop + bits), b->o.index_bits, EXP_SCALE), 0);
}

/* ---- reciprocal, rsqrt and ln ---- */

/* A range cut into groups of octaves: group k is [c 2^(low + instruction k), c 2^(low + instruction
 * (k + 1))) with c = LEAD / 8. Its values times 2^(instruction (groups - 1 - k)) lie in the top
 * group, and divided by 2^top they are mantissas m from c on: for the same relative error cells may
 * be c times as wide as with mantissas from 1 on, which saves a bit of the index. */
typedef struct octaves {
    unsigned low, step, groups, top;
    unsigned below; /* octaves from low to 1 */
    uint8_t entry_scale;
} octaves;

enum { LN_SCALE_MAX = 30, LIMIT_BITS_MAX = 60 };
enum { RECIPROCAL_LOW = 5, RSQRT_LOW = 12, LN_LOW = 1, MARGIN_BITS = 6, LEAD = 9, LEAD_BITS = 3 };

static octaves octaves_from(unsigned scale, unsigned below, unsigned step, unsigned groups,
                            unsigned entry_scale) {
    octaves v = {scale - below, step, groups, 0, below, (uint8_t)entry_scale};
    v.top = v.low + step * (groups - 1);
    return v;
}

/* The range begins at c 2^-5 or c 2^-12 and ends above 2^12; that of ln is from c / 2 to above
 * 2^16. */
static octaves octaves_of(const builder *b) {
    switch (b->what) {
    case UVCC_NL_RSQRT:
        return octaves_from(b->o.scale, RSQRT_LOW, 2, 12, 17);
    case UVCC_NL_LN:
        return octaves_from(b->o.scale, LN_LOW, 1, 17, b->o.scale);
    default:
        return octaves_from(b->o.scale, RECIPROCAL_LOW, 1, 17, 16);
    }
}

/* Fraction bits of the table's entry times the power of 2. */
static unsigned octaves_scale(const octaves *v) {
    return v->entry_scale + v->groups - 1 - v->below / v->step;
}

/* c 2^e, rounded up. */
static int64_t lead(unsigned e) {
    return (((int64_t)LEAD << e) + (1 << LEAD_BITS) - 1) >> LEAD_BITS;
}

/* A normalisation: the comparisons with all octaves, and the value in the top group. */
typedef struct normal {
    uint8_t group, value; /* B, A */
} normal;

/* Bit k says x >= start of group k, the last one x >= end of the range; weights telescope. Below
 * the range the value is the start of the top group with group 0, above it is the end - 1 with the
 * last group. */
static normal normalise(builder *b, uint8_t x, const octaves *v, unsigned drop) {
    const unsigned n = v->groups, end = v->top + v->step;
    int64_t from[WORDS_MAX], move[WORDS_MAX], clamp[WORDS_MAX] = {0};
    for (unsigned k = 0; k <= n; k++) {
        from[k] = lead(v->low + v->step * k - drop);
        const int64_t here = k < n ? 1ll << (v->step * (n - 1 - k)) : 0;
        move[k] = here - (k == 0 ? 0 : 1ll << (v->step * (n - k)));
    }
    clamp[0] = -lead(v->top);
    clamp[n] = lead(end) - 1;
    const uint64_t reach = uvcci_shifted_bound(b->bound[x], drop) + (uint64_t)from[n];
    const uint8_t d = compare(b, shift(b, x, drop), bits_of(reach), from, n + 1);
    const uint8_t moved = weigh(b, d, x, move, n + 1);
    return (normal){d, add(b, moved, weigh(b, d, UVCC_FN_NONE, clamp, n + 1), lead(v->top))};
}

/* What the result needs of its group k: 2^(groups - 1 - k), or for ln the logarithm of the value
 * over its mantissa, with ln_scale fraction bits (0: no ln). */
static int64_t group_value(const octaves *v, unsigned ln_scale, unsigned k) {
    if (ln_scale != 0)
        return llroundl(ldexpl(((int)k - (int)v->below) * logl(2), (int)ln_scale));
    return 1ll << (v->groups - 1 - k);
}

static uint8_t of_group(builder *b, const normal *n, const octaves *v, unsigned ln_scale) {
    int64_t rise[WORDS_MAX] = {0};
    for (unsigned k = 1; k < v->groups; k++)
        rise[k] = group_value(v, ln_scale, k) - group_value(v, ln_scale, k - 1);
    return add(b, weigh(b, n->group, UVCC_FN_NONE, rise, v->groups + 1), UVCC_FN_NONE,
               group_value(v, ln_scale, 0));
}

/* Mantissas. Fast mode compares rounded values and rounds again, so it goes over the ends a little.
 */
static window mantissas(unsigned index_bits, const octaves *v, bool fast) {
    const int64_t first = lead(index_bits), last = first << v->step;
    const int64_t below = fast ? (first >> MARGIN_BITS) + 2 : 0;
    const uint32_t count = (uint32_t)(last - first + below + fast);
    return (window){first - below, count, (uint8_t)index_bits, v->entry_scale, .middle = !fast};
}

/* Of the value in the top group; over its end is still below 2^(top + instruction + 1). */
static unsigned mantissa_bits(const octaves *v) {
    return v->top + v->step + 1;
}

/* A multiscale for arguments from cells 2^-finest on, over `scales` pairs of octaves; its words
 * have `fine` fraction bits, the result has `scale` (0: that of the argument). */
typedef struct slope {
    unsigned cells, finest, scales, fine, scale;
} slope;

/* Ranges: from 15/256 to 15360, from 11/16384 to 11264, from 11/32 to 90112. The cells are so many
 * that a parabola over two of them is off by about half of what the bound allows, the fraction bits
 * so many that rounded coefficients are off by less than a tenth of it where values are small. */
static const slope reciprocal_slope = {15, 8, 9, 50, 27}, rsqrt_slope = {11, 14, 12, 47, 22};
static const slope ln_slope = {11, 5, 9, 44, 0};
/* From 15/32 on, where sums of exps are: there is a greatest one, less than exp(-1/2) is not. */
static const slope sum_slope = {15, 5, 9, 50, 27};

/* The parabola through three Chebyshev points of a cell and the halves beside it, in l that is -L,
 * 0, L at their ends and the middle, L = 2^UVCCI_MULTISCALE_BITS; what rounding takes from its
 * curve the constant makes up for on average. */
static void parabola(const curve *c, const slope *s, long double index, int cell, int64_t out[3]) {
    const long double reach = 1 << UVCCI_MULTISCALE_BITS, h = sqrtl(3) / 2;
    long double y[3];
    for (int i = -1; i <= 1; i++)
        y[i + 1] = ldexpl(value_at(c, ldexpl(index + i * h, cell)), (int)s->fine);
    const long double curved = (y[2] + y[0] - 2 * y[1]) / (2 * h * h * reach * reach);
    out[2] = llroundl(curved);
    out[1] = llroundl((y[2] - y[0]) / (2 * h * reach));
    out[0] = llroundl(y[1] + (curved - (long double)out[2]) * reach * reach / 2);
}

/* The value at cells 2^e. */
static int64_t slope_value(const slope *s, const curve *c, int e) {
    return llroundl(ldexpl(value_at(c, ldexpl(s->cells, e)), (int)s->fine));
}

/* Puts the coefficients, less `base`. Octaves beyond the range have the value of its end. */
static const int64_t *put_slope(builder *b, const slope *s, const curve *c, unsigned scales,
                                int64_t base, uint64_t *most) {
    const unsigned cells = UVCCI_MULTISCALE_SPAN * s->cells;
    const int64_t end =
        slope_value(s, c, (int)(UVCCI_MULTISCALE_STEP * s->scales) - (int)s->finest) - base;
    const int64_t *first = NULL;
    *most = 0;
    for (unsigned k = 0; k < scales; k++) {
        int64_t w[UVCCI_MULTISCALE_WORDS][UVCCI_MULTISCALE_WINDOW] = {{0}};
        for (unsigned i = 0; i < cells; i++) {
            int64_t of[UVCCI_MULTISCALE_WORDS] = {end + base, 0, 0};
            uint64_t sum = uvcci_magnitude(base);
            if (k < s->scales)
                parabola(c, s, s->cells + i, (int)(UVCCI_MULTISCALE_STEP * k) - (int)s->finest, of);
            of[0] -= base;
            for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
                w[j][i] = of[j];
                sum += uvcci_magnitude(of[j]) << j * UVCCI_MULTISCALE_BITS;
            }
            *most = sum > *most ? sum : *most;
        }
        for (unsigned j = 0; j < UVCCI_MULTISCALE_WORDS; j++) {
            const int64_t *at = put_words(b, w[j], cells);
            first = first == NULL ? at : first;
        }
    }
    return first;
}

/* The most that an index of the M instruction x is, with the last scale's cells 2^width wide. */
static uint64_t indices_at(const builder *b, uint8_t x, unsigned width) {
    return uvcci_shifted_bound(b->bound[x], width) + 1;
}

/* The curve's value at the M instruction x, which has `scale` fraction bits, at least s->finest;
 * the result has out_scale of them. */
static uint8_t along(builder *b, const slope *s, const curve *c, uint8_t x, unsigned scale,
                     unsigned out_scale) {
    const unsigned shift = scale - s->finest;
    unsigned last = 0, top = 1; /* halvings to the last scale, bits of its indices */
    while (indices_at(b, x, shift + last) >= 4 * s->cells)
        last += UVCCI_MULTISCALE_STEP;
    while (1ull << top < indices_at(b, x, shift + last) + 4 * s->cells)
        top++;
    const unsigned scales = last / UVCCI_MULTISCALE_STEP + 1;
    const int64_t base = slope_value(s, c, -(int)s->finest);
    uint64_t most;
    const int64_t *words = put_slope(b, s, c, scales, base, &most);
    const uint8_t y = put(b,
                          (uvcc_fn_instr){.kind = UVCC_FN_MULTISCALE,
                                          .a = x,
                                          .b = UVCC_FN_NONE,
                                          .bits = (uint8_t)(last + top),
                                          .shift = (uint8_t)shift,
                                          .io = UVCC_FN_NONE,
                                          .first = s->cells,
                                          .constant = base,
                                          .word_count = UVCCI_MULTISCALE_WORDS *
                                                        UVCCI_MULTISCALE_SPAN * s->cells * scales,
                                          .words = words},
                          most);
    const int64_t end =
        slope_value(s, c, (int)(UVCCI_MULTISCALE_STEP * s->scales) - (int)s->finest);
    const uint64_t far =
        uvcci_magnitude(base) > uvcci_magnitude(end) ? uvcci_magnitude(base) : uvcci_magnitude(end);
    /* a cell goes on below the range by its width, in which no curve here grows by more than that
     */
    const uint8_t known = bits_of(far + far / (s->cells - 1));
    return truncate(b, exchange(b, y, known), s->fine - out_scale);
}

/* With an exact index of the mantissa: where the table is looked up, and the group as an M value.
 */
typedef struct located {
    normal n;
    exact_index index;
    unsigned index_bits;
} located;

static located locate(builder *b, uint8_t x, const octaves *v, unsigned index_bits) {
    const normal n = normalise(b, x, v, 0);
    const uint8_t value = exchange(b, n.value, mantissa_bits(v));
    return (located){n, exact_shift(b, value, v->top - index_bits), index_bits};
}

/* 1 / x or gain / sqrt(x), or where ln_scale is not 0 ln x. */
static uint8_t looked_up(builder *b, const located *l, const octaves *v, const curve *c,
                         unsigned ln_scale) {
    const window w = mantissas(l->index_bits, v, false);
    const uint8_t bits = exact_bits(b->bound[l->index.index], &w);
    const uint8_t group = of_group(b, &l->n, v, ln_scale);
    if (ln_scale != 0)
        return add(b, exact_table(b, &l->index, UVCC_FN_NONE, bits, &w, c, 0), group, 0);
    return exact_table(b, &l->index, exchange(b, group, v->groups), bits, &w, c, 0);
}

/* Bits of that. */
static unsigned octaves_bits(const octaves *v, unsigned ln_scale) {
    return ln_scale != 0 ? ln_scale + 4 : v->entry_scale + v->groups - 1;
}

static void build_exact_octaves(builder *b, uint8_t x) {
    const octaves v = octaves_of(b);
    const curve c = {b->what, b->o.gain};
    const unsigned ln_scale = b->what == UVCC_NL_LN ? b->o.scale : 0;
    const located l = locate(b, x, &v, b->o.index_bits);
    lift_known(b, looked_up(b, &l, &v, &c, ln_scale), 0, octaves_bits(&v, ln_scale));
}

/* What has too few fraction bits for a multiscale. */
static void build_coarse_octaves(builder *b, uint8_t x) {
    const octaves v = octaves_of(b);
    const window w = mantissas(b->o.index_bits, &v, true);
    const curve c = {b->what, b->o.gain};
    const bool is_ln = b->what == UVCC_NL_LN;
    const normal n = normalise(b, x, &v, v.low > MARGIN_BITS ? v.low - MARGIN_BITS : 0);
    const uint8_t group = of_group(b, &n, &v, is_ln ? b->o.scale : 0);
    const uint8_t value = exchange(b, n.value, mantissa_bits(&v));
    const uint8_t index = shift(b, value, v.top - b->o.index_bits);
    const uint8_t bits = table_bits(b->bound[index], &w);
    if (is_ln)
        lift(b, add(b, table(b, index, UVCC_FN_NONE, bits, &w, &c), group, 0), 0);
    else
        lift(b, table(b, index, group, bits, &w, &c), 0);
}

static void build_octaves(builder *b) {
    const slope *s = b->what == UVCC_NL_LN      ? &ln_slope
                     : b->what == UVCC_NL_RSQRT ? &rsqrt_slope
                                                : &reciprocal_slope;
    const curve c = {b->what, b->o.gain};
    const uint8_t x = open(b, 0, b->o.in_bits, 64);
    if (b->o.exact)
        build_exact_octaves(b, x);
    else if (b->o.scale >= s->finest)
        lift(b, along(b, s, &c, x, b->o.scale, s->scale != 0 ? s->scale : b->o.scale), 0);
    else
        build_coarse_octaves(b, x);
}

/* ---- rows ---- */

static unsigned levels_of(uint32_t cols) {
    unsigned levels = 1;
    while (levels < 32 && 1ull << levels < cols)
        levels++;
    return levels;
}

/* second + d (first - second) of adjacent pairs: one of the two, so their bound is its. */
static uint8_t winner(builder *b, uint8_t d, uint8_t diff, uint8_t value) {
    const uint8_t second = one_operand(b, UVCC_FN_PAIR_SECOND, value, b->bound[value]);
    const uint8_t one_of_two = add(b, weigh(b, d, diff, one, 1), second, 0);
    b->bound[one_of_two] = b->bound[value];
    return one_of_two;
}

static uint8_t pair_diff(builder *b, uint8_t value) {
    return one_operand(b, UVCC_FN_PAIR_DIFF, value, 2 * b->bound[value]);
}

/* One of the columns of each pair that is the greater, or falls short of it by less than 2^drop. */
static uint8_t pair_best(builder *b, uint8_t value, unsigned drop) {
    const uint8_t diff = pair_diff(b, value), index = shift(b, diff, drop);
    return winner(b, compare(b, index, bits_of(b->bound[index]), zero, 1), diff, value);
}

/* The same of groups of four, all pairs of which are compared; less than 2 2^drop. Values are
 * shifted before they are compared: the bits of a group then contradict each other no more than
 * integers do.
 */
static uint8_t quad_best(builder *b, uint8_t value, unsigned drop) {
    const uint8_t diff = one_operand(b, UVCC_FN_QUAD_DIFF, value, 2 * b->bound[value]);
    const uint8_t short_value = shift(b, value, drop);
    const uint8_t index =
        drop == 0 ? diff
                  : one_operand(b, UVCC_FN_QUAD_DIFF, short_value, 2 * b->bound[short_value]);
    const uint8_t d = compare(b, index, bits_of(b->bound[index]), zero, 1);
    const uint8_t best = two_operands(b, UVCC_FN_QUAD_BEST, d, diff, b->bound[diff]);
    const uint8_t last = one_operand(b, UVCC_FN_QUAD_LAST, value, b->bound[value]);
    const uint8_t one_of_four = add(b, best, last, 0);
    b->bound[one_of_four] = b->bound[value];
    return one_of_four;
}

/* An element of each row of the M instruction x that falls short of the greatest by less than
 * *slack (0: it is the greatest): by a tree of groups of four, where one level of pairs comes first
 * if need be, since that level has the most comparisons. */
static uint8_t row_best(builder *b, uint8_t x, unsigned drop, uint64_t *slack) {
    unsigned levels = levels_of(b->o.cols);
    uint8_t best = x;
    *slack = 0;
    for (uint8_t value = x; levels != 0;) {
        const unsigned of = levels % 2 != 0 ? 1 : 2;
        best = of == 1 ? pair_best(b, value, drop) : quad_best(b, value, drop);
        *slack += drop != 0 ? (uint64_t)of << drop : 0;
        levels -= of;
        if (levels != 0)
            value = exchange(b, best, 0);
    }
    return best;
}

static void build_shallow_max(builder *b) {
    uint64_t slack;
    lift(b, row_best(b, open(b, 0, b->o.in_bits, 64), 0, &slack), 0);
}

/* Fraction bits of exp's index and of its dealt factor, of 1 / sum, and of what is compared to find
 * the greatest element. A product of exp and 1 / sum is a probability. */
enum { SOFTMAX_INDEX = 4, SOFTMAX_DEALT = 16, INVERSE_SCALE = 27, COARSE_BITS = 5 };
enum { SOFTMAX_SCALE = EXP_SCALE + SOFTMAX_DEALT + INVERSE_SCALE };

/* Of ln(sum of exp). */
static unsigned loss_scale(const uvcc_nonlinear_options *o) {
    return o->scale > EXP_SCALE ? o->scale : EXP_SCALE;
}

/* An element or bound of each row, in all its columns, less x. */
static uint8_t below_top(builder *b, uint8_t top, uint8_t x) {
    const uint8_t tops = two_operands(b, UVCC_FN_SPREAD, top, x, b->bound[top]);
    return two_operands(b, UVCC_FN_SUB, tops, x, uvcci_sat_add(b->bound[tops], b->bound[x]));
}

static uint8_t row_sum(builder *b, uint8_t e) {
    return one_operand(b, UVCC_FN_ROW_SUM, e, uvcci_sat_mul(b->bound[e], b->o.cols));
}

/* e times the column `inverse`; known: bits of it. */
static uint8_t times_inverse(builder *b, uint8_t e, uint8_t inverse, unsigned known) {
    const uint8_t inverses = two_operands(b, UVCC_FN_SPREAD, inverse, e, b->bound[inverse]);
    return exchange(b, two_operands(b, UVCC_FN_MUL, e, inverses, UINT64_MAX), known);
}

/* exp(m - x) / sum of exp(m - x), m a little above the greatest x: what it is exactly cancels. */
static void build_fast_softmax(builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned drop = o->scale > COARSE_BITS ? o->scale - COARSE_BITS : 0;
    uint64_t slack;
    const uint8_t x = open(b, 0, o->in_bits, 64);
    const uint8_t best = row_best(b, x, drop, &slack);
    const uint8_t top =
        exchange_to(b, add(b, best, UVCC_FN_NONE, (int64_t)slack), o->loss ? 1 : UVCC_FN_NONE, 0);
    const uint8_t t = below_top(b, top, x);
    const uint8_t e = exchange(b, exp_of(b, t, SOFTMAX_INDEX, SOFTMAX_DEALT), 0);
    const uint8_t sum = row_sum(b, e);
    const unsigned scale = EXP_SCALE + SOFTMAX_DEALT;
    const curve inverse_curve = {UVCC_NL_RECIPROCAL, 1}, ln_curve = {UVCC_NL_LN, 1};
    if (o->loss)
        lift(b, along(b, &ln_slope, &ln_curve, sum, scale, loss_scale(o)), 2);
    const uint8_t inverse =
        exchange(b, along(b, &sum_slope, &inverse_curve, sum, scale, INVERSE_SCALE), 0);
    const uint8_t p = times_inverse(b, e, inverse, SOFTMAX_SCALE + 1);
    lift_known(b, truncate(b, p, SOFTMAX_SCALE - o->out_scale), 0, o->out_scale + 1u);
}

/* With m the greatest x, one exp is 1 and their sum from 1 to the number of columns. Entries of 1 /
 * sum have 16 bits, or as many as leave the products below 2^62. */
static octaves sum_octaves(const builder *b, unsigned scale, unsigned entry_scale) {
    unsigned above = 0; /* octaves from 1 on */
    while (1u << above < b->o.cols)
        above++;
    if (entry_scale == 0)
        entry_scale = above <= 12 ? 16 : 28 - above;
    return octaves_from(scale, 1, 1, above + 1, entry_scale);
}

static void build_exact_softmax(builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    const unsigned scale = EXP_SCALE + SOFTMAX_DEALT;
    const octaves v = sum_octaves(b, scale, 0), ln = sum_octaves(b, scale, loss_scale(o));
    const curve inverse_curve = {UVCC_NL_RECIPROCAL, 1}, ln_curve = {UVCC_NL_LN, 1};
    const unsigned fraction = scale + octaves_scale(&v);
    uint64_t slack;
    const uint8_t x = open(b, 0, o->in_bits, 64);
    const uint8_t top = exchange_to(b, row_best(b, x, 0, &slack), o->loss ? 1 : UVCC_FN_NONE, 0);
    const uint8_t t = below_top(b, top, x);
    const uint8_t e = exchange(b, exact_exp_of(b, t, SOFTMAX_INDEX, SOFTMAX_DEALT), scale + 1);
    const located l = locate(b, row_sum(b, e), &v, list[UVCC_NL_RECIPROCAL].index_bits);
    if (o->loss)
        lift_known(b, looked_up(b, &l, &ln, &ln_curve, loss_scale(o)), 2,
                   octaves_bits(&ln, loss_scale(o)));
    const uint8_t inverse =
        exchange(b, looked_up(b, &l, &v, &inverse_curve, 0), octaves_bits(&v, 0));
    const uint8_t p = times_inverse(b, e, inverse, fraction + 1);
    lift_known(b, truncate_exactly(b, p, fraction - o->out_scale), 0, o->out_scale + 1u);
}

/* MAX and ARGMAX: a tree; ties go to the first of a pair, so to the lowest index. */
static void build_tree(builder *b) {
    static const int64_t minus_one[1] = {-1};
    const bool arg = b->what == UVCC_NL_ARGMAX;
    const unsigned levels = levels_of(b->o.cols);
    uint8_t value = open(b, 0, b->o.in_bits, 64), index = UVCC_FN_NONE;
    for (unsigned l = 0; l < levels; l++) {
        const bool last = l + 1 == levels;
        const uint8_t diff = pair_diff(b, value);
        const uint8_t d = compare(b, diff, bits_of(b->bound[diff]), zero, 1);
        if (arg) {
            if (l == 0) {
                const uint64_t most = 2ull * (b->o.cols / 2 + b->o.cols % 2) - 1;
                const uint8_t odd = one_operand(b, UVCC_FN_INDEX, diff, most);
                index = add(b, odd, weigh(b, d, UVCC_FN_NONE, minus_one, 1), 0);
            } else {
                index = winner(b, d, pair_diff(b, index), index);
            }
            if (!last)
                index = exchange(b, index, 0);
        }
        if (!last)
            value = exchange(b, winner(b, d, diff, value), 0);
        else if (!arg)
            index = winner(b, d, diff, value);
    }
    lift(b, index, 0);
}

/* ---- options, bits, memory ---- */

/* Tables of at most 65536 entries; what is dropped from the input to the index, if it is. */
static bool check_index_bits(const builder *b) {
    const unsigned index = b->o.index_bits, drop = b->o.scale - index;
    const unsigned most = b->o.exact ? 16 : 30; /* bits below the index of EXP: they have a table */
    switch (b->what) {
    case UVCC_NL_RECIPROCAL:
    case UVCC_NL_LN:
        return index >= 4 && index <= 15;
    case UVCC_NL_RSQRT:
        return index >= 4 && index <= 14;
    case UVCC_NL_EXP:
        return index >= 4 && index <= 12 && index < b->o.scale && drop <= most;
    case UVCC_NL_SOFTMAX:
        return b->o.scale > SOFTMAX_INDEX && b->o.scale <= SOFTMAX_INDEX + (b->o.exact ? most : 26);
    default:
        return list[b->what].index_bits == 0 || (index >= 4 && index <= 12 && index <= b->o.scale);
    }
}

static bool check_options(const builder *b) {
    const uvcc_nonlinear_options *o = &b->o;
    const bool rows = list[b->what].form == UVCC_NL_ROW || b->what == UVCC_NL_SOFTMAX;
    if (o->size != sizeof *o || o->out_scale > UVCCI_NL_SCALE_MAX ||
        o->scale > UVCCI_NL_SCALE_MAX || o->in_bits > UVCCI_NL_BITS_MAX || !check_index_bits(b))
        return false;
    if (b->what == UVCC_NL_RSQRT)
        return o->scale >= RSQRT_LOW && o->gain > 0.5 && o->gain <= 1;
    if (b->what == UVCC_NL_RECIPROCAL)
        return o->scale >= RECIPROCAL_LOW;
    if (b->what == UVCC_NL_LN)
        return o->scale >= MARGIN_BITS && o->scale <= LN_SCALE_MAX;
    if (b->what == UVCC_NL_CLIP)
        return o->limit >= ldexp(1, -(int)(o->exact ? o->scale : o->index_bits)) &&
               o->limit <= ldexp(1, LIMIT_BITS_MAX - o->scale);
    if (rows)
        return o->cols != 0 && o->cols <= 1u << 16;
    return true;
}

int uvcci_nonlinear_options(uvcc_nonlinear what, const uvcc_nonlinear_options *given,
                            uvcc_nonlinear_options *out) {
    if ((unsigned)what >= UVCC_NL_COUNT || (given != NULL && given->size != sizeof *given))
        return UVCC_ERR_USAGE;
    *out = given != NULL ? *given : (uvcc_nonlinear_options){.size = sizeof *out};
    if (out->scale == 0)
        out->scale = 16;
    if (out->in_bits == 0)
        out->in_bits = out->scale + 9;
    if (out->index_bits == 0)
        out->index_bits = list[what].index_bits;
    if (out->out_scale == 0)
        out->out_scale = out->scale;
    if (out->gain == 0)
        out->gain = 1;
    if (out->limit == 0)
        out->limit = 1;
    return 0;
}

static void build(builder *b) {
    switch (b->what) {
    case UVCC_NL_SIGN:
    case UVCC_NL_RELU:
        build_sign(b);
        break;
    case UVCC_NL_EXP:
        build_exp(b);
        break;
    case UVCC_NL_CLIP:
        build_clip(b);
        break;
    case UVCC_NL_RECIPROCAL:
    case UVCC_NL_RSQRT:
    case UVCC_NL_LN:
        build_octaves(b);
        break;
    case UVCC_NL_MAX:
        if (b->o.shallow)
            build_shallow_max(b);
        else
            build_tree(b);
        break;
    case UVCC_NL_ARGMAX:
        build_tree(b);
        break;
    case UVCC_NL_SOFTMAX:
        if (b->o.exact)
            build_exact_softmax(b);
        else
            build_fast_softmax(b);
        break;
    default:
        build_window(b);
    }
}

/* Counts: everything but memory is then set. */
static int begin(builder *b, uvcc_nonlinear what, const uvcc_nonlinear_options *options) {
    memset(b, 0, sizeof *b);
    b->what = what;
    int err = uvcci_nonlinear_options(what, options, &b->o);
    if (err != 0 || (list[what].form == UVCC_NL_BLOCK && what != UVCC_NL_SOFTMAX) ||
        !check_options(b))
        return UVCC_ERR_USAGE;
    build(b);
    return b->too_large ? UVCC_ERR_USAGE : 0;
}

static uint8_t scale_of(const builder *b, unsigned output) {
    const octaves v = octaves_of(b);
    switch (b->what) {
    case UVCC_NL_SIGN:
    case UVCC_NL_ARGMAX:
        return 0;
    case UVCC_NL_SOFTMAX:
        return output == 0 ? b->o.out_scale : output == 1 ? b->o.scale : (uint8_t)loss_scale(&b->o);
    case UVCC_NL_RELU:
        return output == 0 ? b->o.scale : 0;
    case UVCC_NL_EXP:
        return 2 * EXP_SCALE;
    case UVCC_NL_RECIPROCAL:
    case UVCC_NL_RSQRT:
        return (uint8_t)octaves_scale(&v);
    default:
        return b->o.scale;
    }
}

static uint8_t outputs_of(const builder *b) {
    if (b->what == UVCC_NL_SOFTMAX && b->o.loss)
        return UVCCI_NL_OUT_MAX;
    const bool has = b->what == UVCC_NL_RELU || multiplies_x(b->what);
    return list[b->what].outputs + (has && b->o.derivative);
}

int uvcc_nonlinear_build(uvcc_nonlinear_fn *out, uvcc_nonlinear what,
                         const uvcc_nonlinear_options *options, const uvcc_allocator *al) {
    builder b;
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    int err = begin(&b, what, options);
    if (err != 0)
        return err;
    const size_t bytes = b.instr_count * sizeof *b.instrs + b.word_count * sizeof *b.words +
                         b.entry_count * sizeof *b.entries;
    void *mem = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (mem == NULL)
        return UVCC_ERR_NOMEM;
    b.instrs = mem;
    b.words = (int64_t *)(b.instrs + b.instr_count);
    b.entries = (int32_t *)(b.words + b.word_count);
    b.instr_count = b.word_count = b.entry_count = 0;
    build(&b);
    *out = (uvcc_nonlinear_fn){.alloc = *al, .mem = mem, .mem_bytes = bytes};
    out->function = (uvcc_function){
        .name = list[what].name,
        .inputs = 1,
        .outputs = outputs_of(&b),
        .instr_count = (uint8_t)b.instr_count,
        .instrs = b.instrs,
    };
    return 0;
}

void uvcc_nonlinear_free(uvcc_nonlinear_fn *fn) {
    if (fn == NULL || fn->mem == NULL)
        return;
    fn->alloc.free(fn->alloc.user, fn->mem, fn->mem_bytes, UVCC_MEM_STATE);
    *fn = (uvcc_nonlinear_fn){0};
}

int uvcci_nonlinear_shape(uvcc_nonlinear what, const uvcc_nonlinear_options *options,
                          uvcci_nl_shape *out) {
    builder b;
    int err = begin(&b, what, options);
    if (err != 0)
        return err;
    *out = (uvcci_nl_shape){.outputs = outputs_of(&b)};
    for (unsigned o = 0; o < out->outputs; o++) {
        out->bits[o] = b.out_bits[o];
        out->scale[o] = scale_of(&b, o);
    }
    return 0;
}
