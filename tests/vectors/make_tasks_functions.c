/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_functions.c - vectors of the tasks of functions (docs/compute.md, section 6): what
 * OTHER deals for an instruction, then what HEAD and TAIL do with it. */
#include "make_tasks.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/task.h>

enum { EDGE = 2, ALL = 3, CALL_KEY = 0x0203, CALL_BITS = 0x0304 };

static maker_case begin(maker *m, const char *task, const char *variant, unsigned role,
                        const uint32_t *counts) {
    maker_case c = maker_begin(m, task, variant, maker_roles[role], counts);
    maker_fn(&c, "call_key", json_integer(CALL_KEY));
    maker_fn(&c, "call_bits", json_integer(CALL_BITS));
    return c;
}

static void number(maker_case *c, const char *name, json_int_t value) {
    maker_fn(c, name, json_integer(value));
}

/* TAIL's dealt words: HEAD has none. */
static void with_words(maker_case *c, unsigned role, const char *operand, const char *dealer) {
    if (role == UVCC_TAIL)
        maker_from(c, operand, dealer, "out_words");
}

static shape dpf_key(unsigned n) {
    const size_t depth = n > 7 ? (size_t)n - 7 : 0;
    return (shape){.bytes = 16 * depth + 16 + (2 * depth + 7) / 8};
}
static shape dcf_key(unsigned n, unsigned w) {
    return (shape){.bytes = (size_t)n * (16 + 8 * w) + 8 * w + ((size_t)n * 2 + 7) / 8};
}

/* ---- openings ---- */

static void open(maker *m, const char *variant, const uint32_t *counts, unsigned bits) {
    for (unsigned r = 0; r < EDGE; r++) {
        maker_case c = begin(m, "FN_OPEN_MASK", variant, r, counts);
        number(&c, "bits", bits);
        maker_with(&c, "in[0]", WORDS(1));
        maker_with(&c, "in[1]", WORDS(1));
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", PACKED(bits));
    }
    for (unsigned r = 0; r < EDGE; r++)
        for (unsigned in_place = 0; in_place < 2; in_place++) {
            const maker_label name = maker_join(in_place != 0 ? "in place" : "apart", variant, "");
            maker_case c = begin(m, "FN_OPEN_FINISH", name.text, r, counts);
            number(&c, "bits", bits);
            maker_from(&c, "in[0]", maker_of("FN_OPEN_MASK", variant, r).text, "out[0]");
            maker_from(&c, "wire_in[0]", maker_of("FN_OPEN_MASK", variant, 1 - r).text,
                       "wire_out[0]");
            if (in_place != 0)
                maker_same(&c, "out[0]", "in[0]");
            else
                maker_gives(&c, "out_bits", PACKED(bits));
            maker_gives(&c, "out[0]", WORDS(1));
        }
}

static void pads(maker *m, const char *variant, const uint32_t *counts, bool exchange) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(m, "FN_PADS", variant, r, counts);
        maker_fn(&c, "exchange", json_boolean(exchange));
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void shifts(maker *m, const char *variant, const uint32_t *counts, int bits, int shift) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(m, "FN_SHIFT", variant, r, counts);
        number(&c, "bits", bits);
        number(&c, "shift", shift);
        maker_with(&c, "in[0]", WORDS(1));
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

/* ---- comparisons and selections ---- */

typedef struct comparison {
    const char *variant;
    const uint32_t *counts;
    unsigned bits, words;
} comparison;

static maker_case begin_words(maker *m, const char *task, const comparison *k, unsigned role,
                              bool list) {
    maker_case c = begin(m, task, k->variant, role, k->counts);
    number(&c, "bits", k->bits);
    number(&c, "word_count", k->words);
    if (list)
        maker_fn_seed(&c, "words");
    return c;
}

static void deal_comparison(maker *m, const comparison *k) {
    maker_case c = begin(m, "FN_DEAL_KEY", k->variant, UVCC_OTHER, k->counts);
    number(&c, "bits", k->bits);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_bytes[0]", dpf_key(k->bits));
    maker_gives(&c, "out_bytes[1]", dpf_key(k->bits));
    c = begin_words(m, "FN_DEAL_BITS", k, UVCC_OTHER, false);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out[0]", WORDS(1));
    maker_gives(&c, "out_words", WORDS(k->words));
    c = begin_words(m, "FN_DEAL_SELECT", k, UVCC_OTHER, false);
    maker_from(&c, "in[0]", maker_of("FN_DEAL_BITS", k->variant, UVCC_OTHER).text, "out[0]");
    maker_with(&c, "in[1]", WORDS(1));
    maker_gives(&c, "out_words", WORDS(k->words));
    const maker_label both = maker_join("of products", k->variant, "");
    c = maker_begin(m, "FN_DEAL_SELECT", both.text, maker_roles[UVCC_OTHER], k->counts);
    number(&c, "word_count", k->words);
    maker_from(&c, "in[0]", maker_of("FN_DEAL_BITS", k->variant, UVCC_OTHER).text, "out[0]");
    maker_with(&c, "in[1]", WORDS(1));
    maker_with(&c, "in[2]", WORDS(1));
    maker_gives(&c, "out_words", WORDS(2 + 3 * k->words));
}

/* d x, or d d' x. */
static void select(maker *m, const comparison *k, unsigned r, bool both) {
    const maker_label name = maker_join(both ? "of products" : "", k->variant, "");
    const comparison self = {name.text, k->counts, k->bits, k->words};
    maker_case c = begin_words(m, "FN_SELECT", &self, r, true);
    maker_with(&c, "in[0]", WORDS(1));
    maker_with(&c, "in[1]", WORDS(1));
    maker_from(&c, "in[2]",
               maker_of("FN_OPEN_BITS", maker_join("in place", k->variant, "").text, r).text,
               "out[0]");
    if (both)
        maker_with(&c, "in[3]", WORDS(1));
    with_words(&c, r, "words[0]", maker_of("FN_DEAL_BITS", k->variant, UVCC_OTHER).text);
    with_words(&c, r, "words[1]", maker_of("FN_DEAL_SELECT", name.text, UVCC_OTHER).text);
    maker_gives(&c, "out[0]", WORDS(1));
}

static void weigh(maker *m, const comparison *k, unsigned r) {
    maker_case c = begin_words(m, "FN_BITS", k, r, true);
    maker_from(&c, "in[2]",
               maker_of("FN_OPEN_BITS", maker_join("in place", k->variant, "").text, r).text,
               "out[0]");
    with_words(&c, r, "words[0]", maker_of("FN_DEAL_BITS", k->variant, UVCC_OTHER).text);
    maker_gives(&c, "out[0]", WORDS(1));
}

/* From the key to d x: each case works on what the ones before it gave. */
static void compare(maker *m, const comparison *k) {
    const maker_label dealt = maker_of("FN_DEAL_KEY", k->variant, UVCC_OTHER);
    deal_comparison(m, k);
    for (unsigned r = 0; r < EDGE; r++) {
        maker_case c = begin_words(m, "FN_COMPARE", k, r, true);
        maker_with(&c, "in[0]", WORDS(1));
        maker_from(&c, "key", dealt.text, r == 0 ? "out_bytes[0]" : "out_bytes[1]");
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", PACKED(k->words));
    }
    for (unsigned r = 0; r < EDGE; r++)
        for (unsigned in_place = 0; in_place < 2; in_place++) {
            const maker_label name =
                maker_join(in_place != 0 ? "in place" : "apart", k->variant, "");
            maker_case c = begin(m, "FN_OPEN_BITS", name.text, r, k->counts);
            number(&c, "bits", k->words);
            maker_from(&c, "in[0]", maker_of("FN_COMPARE", k->variant, r).text, "out[0]");
            maker_from(&c, "wire_in[0]", maker_of("FN_COMPARE", k->variant, 1 - r).text,
                       "wire_out[0]");
            if (in_place != 0)
                maker_same(&c, "out[0]", "in[0]");
            else
                maker_gives(&c, "out_bits", PACKED(k->words));
            maker_gives(&c, "out[0]", WORDS(1));
        }
    for (unsigned r = 0; r < EDGE; r++) {
        select(m, k, r, false);
        select(m, k, r, true);
        weigh(m, k, r);
    }
}

/* ---- tables ---- */

typedef struct table {
    const char *variant;
    const uint32_t *counts;
    unsigned bits;
    json_int_t first;
    unsigned entries, shift;
    bool times;
} table;

/* A key, and the entry that it selects, masked. */
static void look_up(maker *m, const table *t) {
    maker_case c = begin(m, "FN_DEAL_KEY", t->variant, UVCC_OTHER, t->counts);
    number(&c, "bits", t->bits);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_bytes[0]", dpf_key(t->bits));
    maker_gives(&c, "out_bytes[1]", dpf_key(t->bits));
    maker_gives(&c, "out[0]", WORDS(1));
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_TABLE", t->variant, r, t->counts);
        number(&c, "bits", t->bits);
        number(&c, "first", t->first);
        number(&c, "entry_count", t->entries);
        maker_fn_seed(&c, "entries");
        maker_with(&c, "in[0]", WORDS(1));
        maker_from(&c, "key", maker_of("FN_DEAL_KEY", t->variant, UVCC_OTHER).text,
                   r == 0 ? "out_bytes[0]" : "out_bytes[1]");
        if (t->shift != 0) {
            number(&c, "shift", t->shift);
            number(&c, "word_count", 8);
            maker_fn_seed(&c, "words");
            maker_with(&c, "in[1]", WORDS(1));
        }
        if (t->times) {
            maker_with(&c, "in[2]", WORDS(1));
            maker_gives(&c, "out[1]", WORDS(1));
            maker_gives(&c, "wire_out[1]", WORDS(1));
        }
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
}

/* Which of its operands FN_DEAL_SCALAR has. */
typedef struct scalar {
    const char *variant;
    const uint32_t *counts;
    unsigned shift;
    bool times, by_table, masked, bit;
} scalar;

/* The dealt words, and the table's value without sign and masks. How many words there are follows
 * from which operands there are. */
static void finish_table(maker *m, const scalar *s) {
    const bool second = s->times || s->by_table || s->masked;
    const shape words = WORDS((second ? 4u : 2u) * (s->bit ? 2u : 1u));
    maker_case c = begin(m, "FN_DEAL_SCALAR", s->variant, UVCC_OTHER, s->counts);
    maker_fn(&c, "times", json_boolean(s->times));
    maker_fn(&c, "by_table", json_boolean(s->by_table));
    maker_with(&c, "in[0]", WORDS(1));
    if (s->by_table || s->shift != 0)
        maker_with(&c, "in[1]", WORDS(1));
    if (s->masked)
        maker_with(&c, "in[2]", WORDS(1));
    if (s->bit)
        maker_with(&c, "in[3]", WORDS(1));
    if (s->shift != 0) {
        number(&c, "shift", s->shift);
        number(&c, "constant", 3);
        number(&c, "word_count", 8);
        maker_fn_seed(&c, "words");
    }
    maker_gives(&c, "out_words", words);
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_SCALAR", s->variant, r, s->counts);
        maker_with(&c, "in[0]", WORDS(1));
        if (second)
            maker_with(&c, "in[1]", WORDS(1));
        if (s->bit)
            maker_with(&c, "in[2]", WORDS(1));
        with_words(&c, r, "words[0]", maker_of("FN_DEAL_SCALAR", s->variant, UVCC_OTHER).text);
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

/* ---- local ones ---- */

static void add(maker *m, const char *variant, const uint32_t *counts, unsigned inputs,
                bool in_place) {
    for (unsigned r = 0; r < EDGE; r++) {
        static const char *const names[] = {"in[0]", "in[1]", "in[2]"};
        maker_case c = begin(m, "FN_ADD", variant, r, counts);
        number(&c, "constant", -12345);
        for (unsigned i = 0; i < inputs; i++)
            maker_with(&c, names[i], WORDS(1));
        if (in_place)
            maker_same(&c, "out[0]", "in[0]");
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void multiply(maker *m, const char *variant, const uint32_t *counts) {
    maker_case c = begin(m, "FN_DEAL_MUL", variant, UVCC_OTHER, counts);
    maker_with(&c, "in[0]", WORDS(1));
    maker_with(&c, "in[1]", WORDS(1));
    maker_gives(&c, "out_words", WORDS(1));
    for (unsigned r = 0; r < EDGE; r++) {
        static const char *const names[] = {"in[0]", "in[1]", "in[2]", "in[3]"};
        c = begin(m, "FN_MUL", variant, r, counts);
        for (unsigned i = 0; i < 4; i++)
            maker_with(&c, names[i], WORDS(1));
        with_words(&c, r, "words[0]", maker_of("FN_DEAL_MUL", variant, UVCC_OTHER).text);
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void truncate(maker *m, const char *variant, const uint32_t *counts, int shift) {
    maker_case c = begin(m, "FN_DEAL_TRUNC", variant, UVCC_OTHER, counts);
    number(&c, "shift", shift);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_words", WORDS(2));
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_TRUNC", variant, r, counts);
        number(&c, "shift", shift);
        maker_with(&c, "in[0]", WORDS(1));
        with_words(&c, r, "words[0]", maker_of("FN_DEAL_TRUNC", variant, UVCC_OTHER).text);
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void best(maker *m, const char *variant, const uint32_t *counts) {
    maker_case c = begin(m, "FN_DEAL_BEST", variant, UVCC_OTHER, counts);
    maker_with(&c, "in[0]", WORDS(6));
    maker_with(&c, "in[1]", WORDS(6));
    maker_gives(&c, "out_words", WORDS(42));
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_BEST", variant, r, counts);
        maker_with(&c, "in[0]", WORDS(6));
        maker_with(&c, "in[1]", WORDS(6));
        maker_with(&c, "in[2]", WORDS(6));
        with_words(&c, r, "words[0]", maker_of("FN_DEAL_BEST", variant, UVCC_OTHER).text);
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

/* ---- keys with values ---- */

typedef struct scales {
    const char *variant;
    const uint32_t *counts;
    unsigned depth, scales, shift, cells;
} scales;

static void scales_args(maker_case *c, const scales *s) {
    number(c, "bits", s->depth);
    number(c, "shift", s->shift);
    number(c, "first", s->cells);
    number(c, "word_count", (json_int_t)9 * s->cells * s->scales);
    maker_fn_seed(c, "words");
}

static shape multiscale_key(const scales *s) {
    return (shape){.bytes = (size_t)16 * s->depth + (size_t)24 * s->scales +
                            ((size_t)2 * s->depth + 7) / 8};
}

static void multiscale(maker *m, const scales *s) {
    const shape key = multiscale_key(s);
    maker_case c = begin(m, "FN_DEAL_MULTISCALE", s->variant, UVCC_OTHER, s->counts);
    scales_args(&c, s);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_bytes[0]", key);
    maker_gives(&c, "out_bytes[1]", key);
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_MULTISCALE", s->variant, r, s->counts);
        scales_args(&c, s);
        number(&c, "constant", 99);
        maker_with(&c, "in[0]", WORDS(1));
        maker_from(&c, "key", maker_of("FN_DEAL_MULTISCALE", s->variant, UVCC_OTHER).text,
                   r == 0 ? "out_bytes[0]" : "out_bytes[1]");
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void take_floor(maker *m, const char *variant, const uint32_t *counts, unsigned shift) {
    maker_case c = begin(m, "FN_DEAL_FLOOR", variant, UVCC_OTHER, counts);
    number(&c, "shift", shift);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_bytes[0]", dcf_key(shift, 1));
    maker_gives(&c, "out_bytes[1]", dcf_key(shift, 1));
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_FLOOR", variant, r, counts);
        number(&c, "shift", shift);
        maker_with(&c, "in[0]", WORDS(1));
        maker_with(&c, "in[1]", WORDS(1));
        maker_from(&c, "key", maker_of("FN_DEAL_FLOOR", variant, UVCC_OTHER).text,
                   r == 0 ? "out_bytes[0]" : "out_bytes[1]");
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

typedef struct pieces {
    const char *variant;
    const uint32_t *counts;
    unsigned bits, degree, knots;
} pieces;

static void spline_args(maker_case *c, const pieces *s) {
    number(c, "bits", s->bits);
    number(c, "first", s->degree);
}

static json_t *spline_words(const pieces *s) {
    json_t *words = json_array();
    int e = 0;
    for (unsigned k = 0; k < s->knots; k++)
        e |= json_array_append_new(words, json_integer((json_int_t)k * 37 - 50));
    for (unsigned k = 0; k < (s->knots + 1) * (s->degree + 1); k++)
        e |= json_array_append_new(words, json_integer((json_int_t)(k * k * 7919) - 100000));
    if (e == 0)
        return words;
    json_decref(words);
    return NULL;
}

static void spline(maker *m, const pieces *s) {
    const unsigned d = s->degree;
    const shape key = dcf_key(s->bits, d + 1), words = WORDS(d + 1 + (d > 1 ? d - 1 : 0));
    maker_case c = begin(m, "FN_DEAL_SPLINE", s->variant, UVCC_OTHER, s->counts);
    spline_args(&c, s);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_bytes[0]", key);
    maker_gives(&c, "out_bytes[1]", key);
    c = begin(m, "FN_DEAL_POWERS", s->variant, UVCC_OTHER, s->counts);
    spline_args(&c, s);
    maker_with(&c, "in[0]", WORDS(1));
    maker_gives(&c, "out_words", words);
    for (unsigned r = 0; r < EDGE; r++) {
        c = begin(m, "FN_SPLINE", s->variant, r, s->counts);
        spline_args(&c, s);
        number(&c, "word_count", s->knots + (s->knots + 1) * (d + 1));
        maker_fn(&c, "words", spline_words(s));
        maker_with(&c, "in[0]", WORDS(1));
        if (d != 0)
            maker_with(&c, "in[1]", WORDS(1));
        maker_from(&c, "key", maker_of("FN_DEAL_SPLINE", s->variant, UVCC_OTHER).text,
                   r == 0 ? "out_bytes[0]" : "out_bytes[1]");
        with_words(&c, r, "words[0]", maker_of("FN_DEAL_POWERS", s->variant, UVCC_OTHER).text);
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

/* ---- refusals and roles that have nothing to do ---- */

/* Just outside the limits of each task; the rest of the arguments is within them. */
static void refuse(maker *m) {
    static const struct {
        const char *task, *name;
        int bits, shift, first, entries, words;
    } bad[] = {{"FN_OPEN_MASK", "bits 0", 0, 0, 0, 0, 0},
               {"FN_OPEN_FINISH", "bits 65", 65, 0, 0, 0, 0},
               {"FN_OPEN_BITS", "bits 65", 65, 0, 0, 0, 0},
               {"FN_SHIFT", "shift 64", 64, 64, 0, 0, 0},
               {"FN_COMPARE", "bits 64", 64, 0, 0, 0, 1},
               {"FN_COMPARE", "65 words", 16, 0, 0, 0, 65},
               {"FN_SELECT", "no words", 16, 0, 0, 0, 0},
               {"FN_BITS", "65 words", 16, 0, 0, 0, 65},
               {"FN_TABLE", "more entries than arguments", 4, 0, 0, 17, 0},
               {"FN_TABLE", "no entries", 4, 0, 0, 0, 0},
               {"FN_TABLE", "65537 entries", 20, 0, 0, 65537, 0},
               {"FN_TRUNC", "shift 0", 0, 0, 0, 0, 0},
               {"FN_FLOOR", "shift 63", 0, 63, 0, 0, 0},
               {"FN_MULTISCALE", "one cell", 9, 3, 1, 0, 9},
               {"FN_MULTISCALE", "17 cells", 9, 3, 17, 0, 153},
               {"FN_MULTISCALE", "a scale at the root", 2, 3, 2, 0, 36},
               {"FN_MULTISCALE", "more than 64 bits", 62, 3, 2, 0, 18},
               {"FN_SPLINE", "degree 4", 16, 0, 4, 0, 11},
               {"FN_SPLINE", "bits 64", 64, 0, 0, 0, 3},
               {"FN_SPLINE", "a word too many", 16, 0, 1, 0, 6}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const maker_label name = maker_join("refused,", bad[i].name, "");
        maker_case c = begin(m, bad[i].task, name.text, UVCC_HEAD, maker_few);
        number(&c, "bits", bad[i].bits);
        number(&c, "shift", bad[i].shift);
        number(&c, "first", bad[i].first);
        number(&c, "entry_count", bad[i].entries);
        number(&c, "word_count", bad[i].words);
        maker_fn_seed(&c, "words");
        maker_fn_seed(&c, "entries");
        maker_fails(&c);
    }
    maker_case c = maker_begin(m, "FN_ADD", "refused, no arguments", "HEAD", maker_few);
    maker_fails(&c);
}

static void idle(maker *m) {
    static const char *const tasks[] = {
        "FN_OPEN_MASK", "FN_OPEN_FINISH", "FN_COMPARE", "FN_OPEN_BITS", "FN_SELECT",
        "FN_BITS",      "FN_TABLE",       "FN_SCALAR",  "FN_ADD",       "FN_MUL",
        "FN_TRUNC",     "FN_BEST",        "FN_FLOOR"};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        maker_case c = begin(m, tasks[i], "", UVCC_OTHER, maker_few);
        number(&c, "bits", 16);
        number(&c, "shift", 16);
        number(&c, "word_count", 4);
        number(&c, "entry_count", 4);
        maker_fn_seed(&c, "words");
        maker_fn_seed(&c, "entries");
    }
    const scales s = {.depth = 9, .scales = 2, .shift = 3, .cells = 4};
    maker_case c = begin(m, "FN_MULTISCALE", "", UVCC_OTHER, maker_few);
    scales_args(&c, &s);
    const pieces p = {.bits = 9, .degree = 1, .knots = 2};
    c = begin(m, "FN_SPLINE", "", UVCC_OTHER, maker_few);
    spline_args(&c, &p);
    number(&c, "word_count", p.knots + (p.knots + 1) * 2);
    maker_fn(&c, "words", spline_words(&p));
}

/* Sizes are chosen so that keys stay short where blocks are long, for the sake of slow checkers. */
/* ---- HEAD's and TAIL's keys in one place ---- */

static void gives_once(maker_case *c, shape key) {
    maker_with(c, "in[0]", WORDS(1));
    maker_with(c, "out_bytes[0]", key);
    maker_same(c, "out_bytes[1]", "out_bytes[0]");
    maker_gives(c, "out_bytes[0]", key);
    maker_gives(c, "out_bytes[1]", key);
}

static void one_place(maker *m) {
    const scales s = {"one place", maker_all, 9, 3, 11, 3};
    const pieces p = {"one place", maker_all, 10, 2, 3};
    maker_case c = begin(m, "FN_DEAL_KEY", "one place", UVCC_OTHER, maker_all);
    number(&c, "bits", 12);
    gives_once(&c, dpf_key(12));
    maker_gives(&c, "out[0]", WORDS(1));
    c = begin(m, "FN_DEAL_MULTISCALE", s.variant, UVCC_OTHER, s.counts);
    scales_args(&c, &s);
    gives_once(&c, multiscale_key(&s));
    c = begin(m, "FN_DEAL_FLOOR", "one place", UVCC_OTHER, maker_all);
    number(&c, "shift", 12);
    gives_once(&c, dcf_key(12, 1));
    c = begin(m, "FN_DEAL_SPLINE", p.variant, UVCC_OTHER, p.counts);
    spline_args(&c, &p);
    gives_once(&c, dcf_key(p.bits, p.degree + 1));
}

void make_functions(maker *m) {
    static const comparison comparisons[] = {{"16 bits", maker_all, 16, 3},
                                             {"5 bits", maker_few, 5, 1},
                                             {"63 bits", maker_few, 63, 2},
                                             {"9 bits", maker_group, 9, 64},
                                             {"7 bits large", maker_large, 7, 2}};
    static const table tables[] = {{"", maker_all, 9, -3, 40, 0, false},
                                   {"times", maker_all, 9, -3, 40, 0, true},
                                   {"scaled", maker_all, 10, 5, 130, 12, false},
                                   {"whole", maker_few, 3, 0, 8, 0, false},
                                   {"64 bits", maker_few, 64, -200, 300, 0, true},
                                   {"group", maker_group, 8, 1, 129, 30, false},
                                   {"large", maker_large, 4, -2, 5, 0, true}};
    static const scalar scalars[] = {{"", maker_all, 0, false, false, false, false},
                                     {"times", maker_all, 0, true, false, false, false},
                                     {"scaled", maker_all, 12, false, false, false, false},
                                     {"by table", maker_few, 0, false, true, false, false},
                                     {"by table with bit", maker_few, 0, false, true, false, true},
                                     {"by value", maker_few, 0, false, false, true, false},
                                     {"by value with bit", maker_few, 0, false, false, true, true},
                                     {"with bit", maker_few, 0, false, false, false, true},
                                     {"large", maker_large, 0, true, false, false, false}};
    static const scales all_scales[] = {{"", maker_all, 12, 4, 5, 4},
                                        {"few cells", maker_few, 7, 1, 14, 2},
                                        {"many cells", maker_tiny, 64, 32, 0, 16},
                                        {"group", maker_group, 9, 3, 11, 3},
                                        {"large", maker_large, 4, 1, 9, 2}};
    static const pieces splines[] = {
        {"degree 0", maker_all, 16, 0, 3},       {"degree 1", maker_all, 16, 1, 3},
        {"degree 2", maker_few, 20, 2, 2},       {"degree 3", maker_all, 12, 3, 4},
        {"degree 3 63", maker_few, 63, 3, 1},    {"group", maker_group, 6, 2, 3},
        {"degree 1 large", maker_large, 2, 1, 1}};
    open(m, "13", maker_all, 13);
    open(m, "64", maker_all, 64);
    open(m, "1 large", maker_large, 1);
    open(m, "33 large", maker_large, 33);
    pads(m, "", maker_all, false);
    pads(m, "exchange", maker_all, true);
    pads(m, "large", maker_large, false);
    shifts(m, "", maker_all, 40, 7);
    shifts(m, "64", maker_few, 64, 63);
    shifts(m, "large", maker_large, 20, 0);
    for (size_t i = 0; i < sizeof comparisons / sizeof comparisons[0]; i++)
        compare(m, &comparisons[i]);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        look_up(m, &tables[i]);
    for (size_t i = 0; i < sizeof scalars / sizeof scalars[0]; i++)
        finish_table(m, &scalars[i]);
    add(m, "one", maker_all, 1, false);
    add(m, "two in place", maker_all, 2, true);
    add(m, "three", maker_all, 3, false);
    add(m, "three in place large", maker_large, 3, true);
    multiply(m, "", maker_all);
    multiply(m, "large", maker_large);
    truncate(m, "", maker_all, 16);
    truncate(m, "62", maker_few, 62);
    truncate(m, "1 large", maker_large, 1);
    best(m, "", maker_all);
    best(m, "large", maker_large);
    for (size_t i = 0; i < sizeof all_scales / sizeof all_scales[0]; i++)
        multiscale(m, &all_scales[i]);
    take_floor(m, "", maker_all, 16);
    take_floor(m, "62", maker_few, 62);
    take_floor(m, "5", maker_group, 5);
    take_floor(m, "1 large", maker_large, 1);
    for (size_t i = 0; i < sizeof splines / sizeof splines[0]; i++)
        spline(m, &splines[i]);
    idle(m);
    refuse(m);
    one_place(m);
}
