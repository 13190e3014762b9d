/* function.c - functions as data: their checks, compiled form, cost and plaintext definition. */
#include "exec/program/function.h"
#include "exec/base/bounds.h"

#include "exec/program/program.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- kinds of instructions ---- */

enum {
    USES_BITS = 1,
    USES_SHIFT = 2,
    USES_IO = 4,
    USES_FIRST = 8,
    USES_CONSTANT = 16,
    USES_ENTRIES = 32,
    USES_WORDS = 64,
};

typedef struct kind_row {
    const char *name;
    const char *a, *b; /* kinds of values that operands may have; NULL: there is no such operand */
    char value;
    bool sends;
    bool b_optional;
    uint8_t uses;
} kind_row;

static const kind_row kinds[UVCC_FN_KIND_END] = {
    [UVCC_FN_OPEN] = {"OPEN", NULL, NULL, 'M', true, false, USES_BITS | USES_IO},
    [UVCC_FN_SHIFT] = {"SHIFT", "M", NULL, 'M', false, false, USES_SHIFT},
    [UVCC_FN_PAIR_DIFF] = {"PAIR_DIFF", "M", NULL, 'M', false, false, 0},
    [UVCC_FN_PAIR_SECOND] = {"PAIR_SECOND", "M", NULL, 'M', false, false, 0},
    [UVCC_FN_COMPARE] = {"COMPARE", "M", NULL, 'B', true, false, USES_BITS | USES_WORDS},
    [UVCC_FN_TABLE] = {"TABLE", "M", "A", 'A', true, true,
                       USES_BITS | USES_SHIFT | USES_FIRST | USES_CONSTANT | USES_ENTRIES |
                           USES_WORDS},
    [UVCC_FN_SELECT] = {"SELECT", "B", "M", 'A', false, false, USES_WORDS},
    [UVCC_FN_BITS] = {"BITS", "B", NULL, 'A', false, false, USES_WORDS},
    [UVCC_FN_ADD] = {"ADD", "A", "AM", 'A', false, true, USES_CONSTANT},
    [UVCC_FN_INDEX] = {"INDEX", "MA", NULL, 'A', false, false, 0},
    [UVCC_FN_EXCHANGE] = {"EXCHANGE", "A", NULL, 'M', true, false, USES_BITS | USES_IO},
    [UVCC_FN_LIFT] = {"LIFT", "A", NULL, 0, true, false, USES_BITS | USES_IO},
    [UVCC_FN_QUAD_DIFF] = {"QUAD_DIFF", "M", NULL, 'M', false, false, 0},
    [UVCC_FN_QUAD_LAST] = {"QUAD_LAST", "M", NULL, 'M', false, false, 0},
    [UVCC_FN_QUAD_BEST] = {"QUAD_BEST", "B", "M", 'A', false, false, 0},
    [UVCC_FN_SPREAD] = {"SPREAD", "M", "M", 'M', false, false, 0},
    [UVCC_FN_SUB] = {"SUB", "M", "M", 'M', false, false, 0},
    [UVCC_FN_ROW_SUM] = {"ROW_SUM", "M", NULL, 'M', false, false, 0},
    [UVCC_FN_MUL] = {"MUL", "M", "M", 'A', false, false, 0},
    [UVCC_FN_TRUNC] = {"TRUNC", "M", NULL, 'A', false, false, USES_SHIFT},
    [UVCC_FN_MULTISCALE] = {"MULTISCALE", "M", NULL, 'A', false, false,
                            USES_BITS | USES_SHIFT | USES_FIRST | USES_CONSTANT | USES_WORDS},
    [UVCC_FN_FLOOR] = {"FLOOR", "M", NULL, 'A', false, false, USES_SHIFT},
    [UVCC_FN_SPLINE] = {"SPLINE", "M", NULL, 'A', false, false,
                        USES_BITS | USES_FIRST | USES_WORDS},
    [UVCC_FN_LOW] = {"LOW", "M", NULL, 'M', false, false, USES_BITS},
    [UVCC_FN_TABLE_MUL] = {"TABLE_MUL", "M", "B", 'A', true, true,
                           USES_BITS | USES_FIRST | USES_ENTRIES},
    [UVCC_FN_SELECT_MUL] = {"SELECT_MUL", "B", "M", 'A', false, false, USES_WORDS},
};

static const kind_row *row_of(uint8_t kind) {
    static const kind_row unknown = {.name = "?"};
    return kind < UVCC_FN_KIND_END && kinds[kind].name != NULL ? &kinds[kind] : &unknown;
}

const char *uvcci_fn_kind_name(uint8_t kind) {
    return row_of(kind)->name;
}

uvcc_fn_instr uvcci_fn_canonical(const uvcc_fn_instr *s) {
    const kind_row *row = row_of(s->kind);
    unsigned uses = row->uses;
    if (s->kind == UVCC_FN_TABLE && s->shift == 0)
        uses &= ~(unsigned)(USES_WORDS | USES_CONSTANT);
    return (uvcc_fn_instr){
        .kind = s->kind,
        .a = row->a != NULL ? s->a : UVCC_FN_NONE,
        .b = row->b != NULL ? s->b : UVCC_FN_NONE,
        .c = uvcci_fn_has_third(s->kind) ? s->c : UVCC_FN_NONE,
        .bits = uses & USES_BITS ? s->bits : 0,
        .shift = uses & USES_SHIFT ? s->shift : 0,
        .io = uses & USES_IO ? s->io : UVCC_FN_NONE,
        .first = uses & USES_FIRST ? s->first : 0,
        .constant = uses & USES_CONSTANT ? s->constant : 0,
        .entry_count = uses & USES_ENTRIES ? s->entry_count : 0,
        .word_count = uses & USES_WORDS ? s->word_count : 0,
        .entries = uses & USES_ENTRIES ? s->entries : NULL,
        .words = uses & USES_WORDS ? s->words : NULL,
    };
}

/* ---- copies ---- */

enum { WORDS_MAX = 64 };

static int check_copyable(const uvcc_function *f) {
    if (f->instr_count > UVCC_FN_INSTRS_MAX)
        return UVCC_ERR_LIMIT;
    if ((f->instrs == NULL && f->instr_count != 0) ||
        (f->name != NULL && strnlen(f->name, UVCCI_NAME_BYTES) == UVCCI_NAME_BYTES))
        return UVCC_ERR_USAGE;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        const bool many = s.kind == UVCC_FN_MULTISCALE || s.kind == UVCC_FN_SPLINE;
        const uint32_t words_max = many ? UVCC_FN_WORDS_MAX : WORDS_MAX;
        if (s.entry_count > UVCC_FN_ENTRIES_MAX || s.word_count > words_max)
            return UVCC_ERR_LIMIT;
        if ((s.entry_count != 0 && s.entries == NULL) || (s.word_count != 0 && s.words == NULL))
            return UVCC_ERR_USAGE;
    }
    return 0;
}

int uvcci_fn_copy(uvcci_function **out, const uvcc_function *f, const uvcc_allocator *al) {
    int err = check_copyable(f);
    if (err != 0)
        return err;
    const size_t name_bytes = f->name != NULL ? strlen(f->name) + 1 : 0;
    size_t entries = 0, words = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        entries += s.entry_count;
        words += s.word_count;
    }
    const size_t bytes = sizeof **out + f->instr_count * sizeof(uvcc_fn_instr) +
                         words * sizeof(int64_t) + entries * sizeof(int32_t) + name_bytes;
    uvcci_function *copy = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (copy == NULL)
        return UVCC_ERR_NOMEM;
    uvcc_fn_instr *instr = (uvcc_fn_instr *)(copy + 1);
    int64_t *word = (int64_t *)(instr + f->instr_count);
    int32_t *entry = (int32_t *)(word + words);
    char *name = (char *)(entry + entries);
    *copy = (uvcci_function){.f = *f, .bytes = bytes};
    copy->f.instrs = instr;
    copy->f.name = name_bytes != 0 ? memcpy(name, f->name, name_bytes) : NULL;
    for (unsigned i = 0; i < f->instr_count; i++, instr++) {
        *instr = uvcci_fn_canonical(&f->instrs[i]);
        if (instr->word_count != 0)
            instr->words = memcpy(word, instr->words, instr->word_count * sizeof *word);
        if (instr->entry_count != 0)
            instr->entries = memcpy(entry, instr->entries, instr->entry_count * sizeof *entry);
        word += instr->word_count;
        entry += instr->entry_count;
    }
    *out = copy;
    return 0;
}

/* ---- bounds ---- */

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

/* Smallest n >= 1 with bound < 2^n. */
static unsigned bits_of(uint64_t bound) {
    unsigned n = 1;
    while (n < 64 && bound >> n != 0)
        n++;
    return n;
}

/* ---- compilation ---- */

typedef struct compiler {
    const uvcc_function *f;
    const uint8_t *in_bits;
    uvcci_fn_plan *plan;
    const uvcci_message *m;
    unsigned i; /* the instruction at hand */
    uvcc_fn_instr s;
    uvcci_fn_info *info;
    uint32_t opened, written; /* inputs and outputs seen, as bits */
} compiler;

const char *uvcci_fn_name(const uvcc_function *f) {
    return f->name != NULL ? f->name : "(no name)";
}

static int refuse(const compiler *c, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int refuse(const compiler *c, int error, const char *format, ...) {
    char what[192];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return uvcci_fail(c->m, error, "function %s, instruction %u (%s): %s", uvcci_fn_name(c->f),
                      c->i, row_of(c->s.kind)->name, what);
}

static const char *kind_of_value(char value) {
    return value == 'M' ? "masked" : value == 'B' ? "bits" : value == 'A' ? "additive" : "none";
}

static bool reads_an_index(uint8_t kind) {
    return kind == UVCC_FN_COMPARE || uvcci_fn_is_table(kind) || kind == UVCC_FN_QUAD_DIFF;
}

/* An operand: an earlier instruction whose value is of one of `kinds_allowed` (one or two letters).
 */
static int check_operand(const compiler *c, char which, uint8_t index, const char *kinds_allowed) {
    if (index >= c->i)
        return refuse(c, UVCC_ERR_PROGRAM,
                      "operand %c is instruction %u; it must be an earlier instruction", which,
                      index);
    const uint8_t kind = c->f->instrs[index].kind;
    const char value = (char)c->plan->instr[index].value;
    if (value == 0 || strchr(kinds_allowed, value) == NULL)
        return refuse(c, UVCC_ERR_PROGRAM,
                      "operand %c is instruction %u (%s), its value is %s; it must be %s%s%s",
                      which, index, row_of(kind)->name, kind_of_value(value),
                      kind_of_value(kinds_allowed[0]), kinds_allowed[1] != 0 ? " or " : "",
                      kinds_allowed[1] != 0 ? kind_of_value(kinds_allowed[1]) : "");
    if (c->plan->instr[index].index && !reads_an_index(c->s.kind))
        return refuse(c, UVCC_ERR_PROGRAM,
                      "operand %c is instruction %u (%s), which only COMPARE and tables can read",
                      which, index, row_of(kind)->name);
    return 0;
}

/* The masked operand must be right on `bits` bits. */
static int check_mod(const compiler *c, char which, uint8_t index, unsigned bits) {
    const unsigned mod = c->plan->instr[index].mod;
    if (mod >= bits)
        return 0;
    return refuse(c, UVCC_ERR_PROGRAM, "operand %c has %u bits opened; %u are needed", which, mod,
                  bits);
}

static int check_widths(const compiler *c, char which, uint8_t index) {
    const uint32_t wa = c->plan->instr[c->s.a].width, w = c->plan->instr[index].width;
    if (wa == w)
        return 0;
    return refuse(c, UVCC_ERR_PROGRAM, "operand a has %u columns, %c %u; they must be equal", wa,
                  which, w);
}

static int check_one_bit(const compiler *c, char which, uint8_t index) {
    const uint32_t bits = c->f->instrs[index].word_count;
    if (bits == 1)
        return 0;
    return refuse(c, UVCC_ERR_PROGRAM, "operand %c has %u bits; it must have one", which, bits);
}

/* The third operand. */
static int check_factor(const compiler *c) {
    if (!uvcci_fn_has_third(c->s.kind))
        return 0;
    if (c->s.kind == UVCC_FN_SELECT_MUL) {
        int err = check_operand(c, 'c', c->s.c, "B");
        if (err == 0)
            err = check_widths(c, 'c', c->s.c);
        return err != 0 ? err : check_one_bit(c, 'c', c->s.c);
    }
    if (c->s.c == UVCC_FN_NONE)
        return c->s.b != UVCC_FN_NONE
                   ? 0
                   : refuse(c, UVCC_ERR_PROGRAM, "it has neither operand b nor c; give a TABLE");
    int err = check_operand(c, 'c', c->s.c, "MA");
    if (err == 0)
        err = check_widths(c, 'c', c->s.c);
    if (err != 0 || c->plan->instr[c->s.c].value == 'M')
        return err != 0 ? err : check_mod(c, 'c', c->s.c, 64);
    const uvcc_fn_instr *t = &c->f->instrs[c->s.c];
    if (t->kind != UVCC_FN_TABLE || t->b != UVCC_FN_NONE)
        return refuse(c, UVCC_ERR_PROGRAM,
                      "operand c must be a masked value or a TABLE without operand b");
    return 0;
}

static int check_operands(const compiler *c) {
    const kind_row *row = row_of(c->s.kind);
    int err = row->a != NULL ? check_operand(c, 'a', c->s.a, row->a) : 0;
    if (err == 0)
        err = check_factor(c);
    if (err != 0 || row->b == NULL)
        return err;
    const bool two_scales = c->s.kind == UVCC_FN_TABLE && c->s.shift != 0;
    if (c->s.b == UVCC_FN_NONE && row->b_optional && !two_scales)
        return 0;
    err = check_operand(c, 'b', c->s.b, two_scales ? "M" : row->b);
    if (err != 0)
        return err;
    const uint32_t wa = c->plan->instr[c->s.a].width;
    if (c->s.kind == UVCC_FN_SPREAD)
        return wa == 1
                   ? 0
                   : refuse(c, UVCC_ERR_PROGRAM, "operand a has %u columns; it must have one", wa);
    return check_widths(c, 'b', c->s.b);
}

static int check_bits(const compiler *c, unsigned most) {
    if (c->s.bits >= 1 && c->s.bits <= most)
        return 0;
    return refuse(c, UVCC_ERR_PROGRAM, "%u bits; 1 to %u are possible", c->s.bits, most);
}

static int check_words(const compiler *c, uint32_t least, uint32_t most) {
    if (c->s.word_count != least && least == most)
        return refuse(c, UVCC_ERR_PROGRAM, "%u words; it takes %u", c->s.word_count, least);
    if (c->s.word_count < least || c->s.word_count > most)
        return refuse(c, UVCC_ERR_PROGRAM, "%u words; it takes %u to %u", c->s.word_count, least,
                      most);
    if (c->s.words == NULL)
        return refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    return 0;
}

/* distance: the most that a value of operand a differs from what it is compared with. */
static int check_distance(const compiler *c, uint64_t distance) {
    if (c->in_bits == NULL || distance < 1ull << c->s.bits)
        return 0;
    return refuse(c, UVCC_ERR_BOUND, "its operand needs %u bits, but %u are declared",
                  bits_of(distance), c->s.bits);
}

static uvcci_spline spline_of(const uvcc_fn_instr *s) {
    return uvcci_spline_of((unsigned)s->first, s->word_count, s->words);
}

/* The instruction that owns the DPF key: same operand, same bits. */
static uint8_t key_of(const compiler *c) {
    for (unsigned j = 0; j < c->i; j++) {
        const uvcc_fn_instr *s = &c->f->instrs[j];
        if ((s->kind == UVCC_FN_COMPARE || uvcci_fn_is_table(s->kind)) && s->a == c->s.a &&
            s->bits == c->s.bits)
            return (uint8_t)j;
    }
    return (uint8_t)c->i;
}

static int compile_open(compiler *c) {
    if (c->s.io >= c->f->inputs)
        return refuse(c, UVCC_ERR_PROGRAM, "there is no input %u", c->s.io);
    c->opened |= 1u << c->s.io;
    c->info->mod = c->s.bits;
    c->info->bound = c->in_bits != NULL ? (1ull << c->in_bits[c->s.io]) - 1 : UINT64_MAX;
    return check_bits(c, 64);
}

static int compile_shift(compiler *c, const uvcci_fn_info *a) {
    if (c->s.shift == 0 || c->s.shift >= a->mod)
        return refuse(c, UVCC_ERR_PROGRAM, "a shift by %u; its operand has %u bits opened",
                      c->s.shift, a->mod);
    c->info->index = true;
    c->info->mod = a->mod - c->s.shift;
    c->info->bound = uvcci_shifted_bound(a->bound, c->s.shift);
    return 0;
}

static int compile_low(compiler *c) {
    int err = check_bits(c, UVCCI_MAX_BITS);
    if (err == 0)
        err = check_mod(c, 'a', c->s.a, c->s.bits);
    c->info->index = true;
    c->info->mod = 64;
    c->info->bound = (1ull << c->s.bits) - 1;
    return err;
}

static void compile_pair(compiler *c, const uvcci_fn_info *a) {
    c->plan->one_edge = true;
    c->info->width = a->width / 2 + a->width % 2;
    c->info->mod = a->mod;
    c->info->bound = c->s.kind == UVCC_FN_PAIR_DIFF ? uvcci_sat_mul(2, a->bound) : a->bound;
}

static void compile_quads(compiler *c, const uvcci_fn_info *a) {
    const bool diff = c->s.kind == UVCC_FN_QUAD_DIFF;
    c->plan->one_edge = true;
    c->info->index = a->index;
    c->info->width = (a->width + 3) / 4 * (diff ? UVCCI_FN_QUAD_PAIRS : 1);
    c->info->mod = a->mod;
    c->info->bound = diff ? uvcci_sat_mul(2, a->bound) : a->bound;
}

static int compile_best(compiler *c, const uvcci_fn_info *b) {
    const uvcc_fn_instr *x = &c->f->instrs[c->s.a], *y = &c->f->instrs[c->s.b];
    const uvcc_fn_instr *of = &c->f->instrs[x->a];
    if (y->kind != UVCC_FN_QUAD_DIFF || of->kind != UVCC_FN_QUAD_DIFF || x->word_count != 1)
        return refuse(c, UVCC_ERR_PROGRAM,
                      "operand a must be a COMPARE of a QUAD_DIFF by one word, b a QUAD_DIFF");
    c->info->width = b->width / UVCCI_FN_QUAD_PAIRS;
    c->info->words = UVCCI_FN_BEST_WORDS;
    c->info->bound = b->bound;
    return check_mod(c, 'b', c->s.b, 64);
}

/* Public linear maps of one or two M values. */
static void compile_linear(compiler *c, const uvcci_fn_info *a) {
    const uvcci_fn_info *b = c->s.b != UVCC_FN_NONE ? &c->plan->instr[c->s.b] : NULL;
    c->plan->one_edge = true;
    c->info->mod = a->mod;
    c->info->bound = a->bound;
    if (c->s.kind == UVCC_FN_SUB) {
        c->info->mod = b->mod < a->mod ? b->mod : a->mod;
        c->info->bound = uvcci_sat_add(a->bound, b->bound);
        return;
    }
    c->info->width = b != NULL ? b->width : 1;
    if (c->s.kind == UVCC_FN_ROW_SUM)
        c->info->bound = uvcci_sat_mul(a->bound, a->width);
}

static int compile_mul(compiler *c, const uvcci_fn_info *a, const uvcci_fn_info *b) {
    const int err = check_mod(c, 'a', c->s.a, 64);
    c->info->words = 1;
    c->info->bound = uvcci_sat_mul(a->bound, b->bound);
    return err != 0 ? err : check_mod(c, 'b', c->s.b, 64);
}

/* TRUNC and FLOOR. */
static int compile_trunc(compiler *c, const uvcci_fn_info *a) {
    if (c->s.shift < 1 || c->s.shift > UVCCI_MAX_BITS)
        return refuse(c, UVCC_ERR_PROGRAM, "a shift by %u; 1 to %u are possible", c->s.shift,
                      UVCCI_MAX_BITS);
    if (c->in_bits != NULL && bits_of(a->bound) > UVCCI_MAX_BITS)
        return refuse(c, UVCC_ERR_BOUND, "its operand needs %u bits; at most %u are possible",
                      bits_of(a->bound), UVCCI_MAX_BITS);
    if (c->s.kind == UVCC_FN_FLOOR)
        c->info->key = (uint8_t)c->i;
    c->info->words = 2;
    c->info->bound = uvcci_shifted_bound(a->bound, c->s.shift);
    return check_mod(c, 'a', c->s.a, 64);
}

/* The most that a cell's polynomial can be. */
static uint64_t multiscale_bound(const uvcc_fn_instr *s, const uvcci_multiscale *l) {
    const unsigned cells = UVCCI_MULTISCALE_SPAN * l->cells;
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

static int check_multiscale(const compiler *c) {
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    if (c->s.first < 2 || c->s.first > UVCCI_MULTISCALE_CELLS_MAX)
        return refuse(c, UVCC_ERR_PROGRAM, "its first cell is %lld; 2 to %u are possible",
                      (long long)c->s.first, UVCCI_MULTISCALE_CELLS_MAX);
    const uint32_t scale_at = UVCCI_MULTISCALE_WORDS * UVCCI_MULTISCALE_SPAN * (uint32_t)c->s.first;
    const uint32_t scales = c->s.word_count / scale_at;
    if (c->s.word_count % scale_at != 0 || scales < 1 || scales > UVCCI_MULTISCALE_SCALES_MAX)
        return refuse(c, UVCC_ERR_PROGRAM, "%u words; it takes %u for each of 1 to %u scales",
                      c->s.word_count, scale_at, UVCCI_MULTISCALE_SCALES_MAX);
    if (c->s.words == NULL)
        return refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    if (UVCCI_MULTISCALE_STEP * (scales - 1) >= c->s.bits)
        return refuse(c, UVCC_ERR_PROGRAM, "%u bits are too few for %u scales", c->s.bits, scales);
    return check_mod(c, 'a', c->s.a, c->s.shift + c->s.bits);
}

static int compile_multiscale(compiler *c, const uvcci_fn_info *a) {
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
        return refuse(c, UVCC_ERR_BOUND,
                      "its operand has indices up to %llu at the last scale; %u are possible",
                      (unsigned long long)most, 4 * l.cells - 1);
    if (most + 4 * l.cells > 1ull << (l.depth - UVCCI_MULTISCALE_STEP * (l.scales - 1)))
        return refuse(c, UVCC_ERR_BOUND, "%u bits are too few for %u scales", l.depth, l.scales);
    return 0;
}

static int check_spline(const compiler *c) {
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    if (c->s.first < 0 || c->s.first > UVCCI_SPLINE_DEGREE_MAX)
        return refuse(c, UVCC_ERR_PROGRAM, "its degree is %lld; 0 to %u are possible",
                      (long long)c->s.first, UVCCI_SPLINE_DEGREE_MAX);
    const uvcci_spline s = spline_of(&c->s);
    if (s.knots < 1 || s.knots > UVCCI_SPLINE_KNOTS_MAX ||
        uvcci_spline_words(s.degree, s.knots) != c->s.word_count)
        return refuse(c, UVCC_ERR_PROGRAM,
                      "%u words; of degree %u it takes %u, and %u for each of 1 to %u knots",
                      c->s.word_count, s.degree, s.degree + 1, s.degree + 2,
                      UVCCI_SPLINE_KNOTS_MAX);
    if (s.words == NULL)
        return refuse(c, UVCC_ERR_PROGRAM, "its words are missing");
    for (unsigned i = 1; i < s.knots; i++)
        if (s.words[i - 1] >= s.words[i])
            return refuse(c, UVCC_ERR_PROGRAM, "knot %u is %lld, knot %u is %lld; they must rise",
                          i - 1, (long long)s.words[i - 1], i, (long long)s.words[i]);
    return check_mod(c, 'a', c->s.a, 64);
}

static int compile_spline(compiler *c, const uvcci_fn_info *a) {
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

static int compile_compare(compiler *c, const uvcci_fn_info *a) {
    int err = check_bits(c, 63);
    if (err == 0)
        err = check_words(c, 1, WORDS_MAX);
    if (err == 0)
        err = check_mod(c, 'a', c->s.a, c->s.bits + 1u);
    for (uint32_t j = 0; j < c->s.word_count && err == 0; j++)
        err = check_distance(c, uvcci_sat_add(a->bound, uvcci_magnitude(c->s.words[j])));
    c->info->key = key_of(c);
    c->info->words = c->s.word_count;
    return err;
}

/* A table whose entries are multiplied by factors of what the shift of its index leaves out. */
static int compile_factors(compiler *c, uint64_t most) {
    const uvcc_fn_instr *shift = &c->f->instrs[c->s.a];
    if (shift->kind != UVCC_FN_SHIFT || shift->a != c->s.b || shift->shift != c->s.shift)
        return refuse(c, UVCC_ERR_PROGRAM, "operand a must be the SHIFT of operand b by %u",
                      c->s.shift);
    if (c->s.constant < 0 || c->s.constant > 63)
        return refuse(c, UVCC_ERR_PROGRAM, "its constant is a shift; 0 to 63 are possible");
    int err = check_words(c, 8, 8);
    if (err != 0)
        return err;
    /* |l c >> s| <= |c| for l < 2^s, so a factor is at most the sum of its words. */
    const uint64_t z0 = sum_of_words(c->s.words, 4), z1 = sum_of_words(c->s.words + 4, 4);
    const uint64_t larger = z0 > z1 ? z0 : z1;
    if (uvcci_sat_mul(larger, 1ull << c->s.shift) > INT64_MAX ||
        uvcci_sat_mul(most, z0) > INT64_MAX)
        return refuse(c, UVCC_ERR_BOUND, "its factors do not fit in 64 bits");
    c->info->bound = uvcci_sat_mul(uvcci_shifted_bound(most * z0, 30),
                                   uvcci_shifted_bound(z1, (unsigned)c->s.constant));
    return 0;
}

static int compile_table_mul(compiler *c, uint64_t most) {
    if (c->s.b != UVCC_FN_NONE) {
        const int err = check_one_bit(c, 'b', c->s.b);
        if (err != 0)
            return err;
        c->info->words *= 2;
    }
    if (c->s.c != UVCC_FN_NONE) {
        const uvcci_fn_info *by = &c->plan->instr[c->s.c];
        if (by->value == 'A' && by->turn != c->info->turn)
            return refuse(c, UVCC_ERR_PROGRAM, "operand c is opened in round %u, this in round %u",
                          by->turn, c->info->turn);
        c->info->words *= 2;
        c->info->bound = uvcci_sat_mul(most, by->bound);
    }
    return 0;
}

static int compile_table(compiler *c, const uvcci_fn_info *a) {
    int err = check_bits(c, 63);
    if (err != 0)
        return err;
    const uint32_t n = c->s.entry_count;
    if (n < 1 || n > UVCC_FN_ENTRIES_MAX || n > 1ull << c->s.bits)
        return refuse(c, UVCC_ERR_PROGRAM, "%u entries; 1 to %llu are possible", n,
                      c->s.bits < 16 ? 1ull << c->s.bits : (unsigned long long)UVCC_FN_ENTRIES_MAX);
    if (c->s.entries == NULL)
        return refuse(c, UVCC_ERR_PROGRAM, "its entries are missing");
    /* the window is first .. last; the farthest that a value in bounds is from one of its ends. All
     * arguments mod 2^bits are told apart. */
    const bool whole = c->s.first == 0 && n == 1ull << c->s.bits;
    const uint64_t below = c->s.first < 0 ? uvcci_magnitude(c->s.first) : 0;
    const uint64_t above = c->s.first >= 0 ? uvcci_sat_add((uint64_t)c->s.first, n - 1)
                           : below < n     ? n - 1 - below
                                           : 0;
    err = check_mod(c, 'a', c->s.a, c->s.bits);
    if (err == 0 && !whole)
        err = check_distance(c, uvcci_sat_add(a->bound, below > above ? below : above));
    if (err != 0)
        return err;
    const uint64_t most = most_of_entries(&c->s);
    c->info->key = key_of(c);
    c->info->words = 2;
    c->info->bound = most;
    if (c->s.kind == UVCC_FN_TABLE_MUL)
        return compile_table_mul(c, most);
    if (c->s.shift != 0)
        return compile_factors(c, most);
    if (c->s.b != UVCC_FN_NONE) {
        c->info->words = 4;
        c->info->bound = uvcci_sat_mul(most, c->plan->instr[c->s.b].bound);
    }
    return 0;
}

/* SELECT and BITS: one word per bit. */
static int compile_weights(compiler *c, const uvcci_fn_info *b) {
    const uint32_t n = c->plan->instr[c->s.a].words;
    int err = check_words(c, n, n);
    if (err != 0)
        return err;
    c->info->bound = sum_of_words(c->s.words, n);
    if (b == NULL)
        return 0;
    c->info->words = c->s.kind == UVCC_FN_SELECT_MUL ? 3 * n + 2 : n;
    c->info->bound = uvcci_sat_mul(c->info->bound, b->bound);
    return check_mod(c, 'b', c->s.b, 64);
}

/* second + bit * (first - second), or the like of a group of four: one of them, so its bound is
 * theirs and not three times as much. */
static bool picks_one_of_pair(const compiler *c) {
    const uvcc_fn_instr *x = &c->f->instrs[c->s.a], *y = &c->f->instrs[c->s.b];
    if (c->s.constant == 0 && y->kind == UVCC_FN_QUAD_LAST && x->kind == UVCC_FN_QUAD_BEST)
        return c->f->instrs[x->b].a == y->a;
    return c->s.constant == 0 && y->kind == UVCC_FN_PAIR_SECOND && x->kind == UVCC_FN_SELECT &&
           x->word_count == 1 && x->words[0] == 1 && c->f->instrs[x->b].kind == UVCC_FN_PAIR_DIFF &&
           c->f->instrs[x->b].a == y->a;
}

static int compile_add(compiler *c, const uvcci_fn_info *a) {
    c->info->bound = uvcci_sat_add(a->bound, uvcci_magnitude(c->s.constant));
    if (c->s.b == UVCC_FN_NONE)
        return 0;
    const uvcci_fn_info *b = &c->plan->instr[c->s.b];
    c->info->bound = picks_one_of_pair(c) ? c->plan->instr[c->f->instrs[c->s.b].a].bound
                                          : uvcci_sat_add(c->info->bound, b->bound);
    return b->value == 'M' ? check_mod(c, 'b', c->s.b, 64) : 0;
}

/* The bound of what is lifted: the operand's, or the one that the instruction declares. */
static int compile_lifted(compiler *c, const uvcci_fn_info *a) {
    if (c->s.bits > UVCCI_MAX_BITS)
        return refuse(c, UVCC_ERR_PROGRAM, "it declares %u bits; at most %u are possible",
                      c->s.bits, UVCCI_MAX_BITS);
    c->info->bound = a->bound;
    if (c->s.bits != 0 && (1ull << c->s.bits) - 1 < a->bound)
        c->info->bound = (1ull << c->s.bits) - 1;
    return 0;
}

static int compile_output(compiler *c) {
    if (c->s.io >= c->f->outputs)
        return refuse(c, UVCC_ERR_PROGRAM, "there is no output %u", c->s.io);
    if (c->written & 1u << c->s.io)
        return refuse(c, UVCC_ERR_PROGRAM, "output %u is written by an earlier instruction",
                      c->s.io);
    c->written |= 1u << c->s.io;
    if (c->in_bits != NULL && bits_of(c->info->bound) > UVCCI_MAX_BITS)
        return refuse(c, UVCC_ERR_BOUND, "output %u needs %u bits; at most %u are possible",
                      c->s.io, bits_of(c->info->bound), UVCCI_MAX_BITS);
    return 0;
}

static int compile_kind(compiler *c) {
    const uvcci_fn_info *a = c->s.a != UVCC_FN_NONE ? &c->plan->instr[c->s.a] : NULL;
    switch (c->s.kind) {
    case UVCC_FN_OPEN:
        return compile_open(c);
    case UVCC_FN_SHIFT:
        return compile_shift(c, a);
    case UVCC_FN_PAIR_DIFF:
    case UVCC_FN_PAIR_SECOND:
        compile_pair(c, a);
        return 0;
    case UVCC_FN_COMPARE:
        return compile_compare(c, a);
    case UVCC_FN_TABLE:
    case UVCC_FN_TABLE_MUL:
        return compile_table(c, a);
    case UVCC_FN_LOW:
        return compile_low(c);
    case UVCC_FN_SELECT:
    case UVCC_FN_SELECT_MUL:
        return compile_weights(c, &c->plan->instr[c->s.b]);
    case UVCC_FN_BITS:
        return compile_weights(c, NULL);
    case UVCC_FN_ADD:
        return compile_add(c, a);
    case UVCC_FN_QUAD_DIFF:
    case UVCC_FN_QUAD_LAST:
        compile_quads(c, a);
        return 0;
    case UVCC_FN_QUAD_BEST:
        return compile_best(c, &c->plan->instr[c->s.b]);
    case UVCC_FN_SPREAD:
    case UVCC_FN_SUB:
    case UVCC_FN_ROW_SUM:
        compile_linear(c, a);
        return 0;
    case UVCC_FN_MUL:
        return compile_mul(c, a, &c->plan->instr[c->s.b]);
    case UVCC_FN_TRUNC:
    case UVCC_FN_FLOOR:
        return compile_trunc(c, a);
    case UVCC_FN_MULTISCALE:
        return compile_multiscale(c, a);
    case UVCC_FN_SPLINE:
        return compile_spline(c, a);
    case UVCC_FN_INDEX:
        c->plan->one_edge = true;
        c->info->bound = 2ull * a->width - 1;
        return 0;
    default: { /* EXCHANGE, LIFT */
        const bool exchange = c->s.kind == UVCC_FN_EXCHANGE;
        const int err = compile_lifted(c, a);
        if (exchange)
            c->info->mod = 64;
        return err != 0 || (exchange && c->s.io == UVCC_FN_NONE) ? err : compile_output(c);
    }
    }
}

static uint8_t available(const uvcci_fn_info *info) {
    return (uint8_t)(info->turn + info->sends);
}

/* The instruction starts when its operands are there, and they must last until then. The factors of
 * a TABLE_MUL are wanted after its round only. */
static void set_turn(compiler *c) {
    const uint8_t operands[3] = {c->s.a, c->s.b, c->s.c};
    const unsigned later[3] = {0, c->s.kind == UVCC_FN_TABLE_MUL, c->s.kind == UVCC_FN_TABLE_MUL};
    for (unsigned o = 0; o < 3; o++)
        if (operands[o] != UVCC_FN_NONE &&
            available(&c->plan->instr[operands[o]]) > c->info->turn + later[o])
            c->info->turn = (uint8_t)(available(&c->plan->instr[operands[o]]) - later[o]);
    for (unsigned o = 0; o < 3; o++)
        if (operands[o] != UVCC_FN_NONE &&
            c->plan->instr[operands[o]].last < c->info->turn + later[o])
            c->plan->instr[operands[o]].last = (uint8_t)(c->info->turn + later[o]);
    c->info->last = available(c->info);
    if (c->info->sends && c->info->turn >= c->plan->rounds)
        c->plan->rounds = (uint8_t)(c->info->turn + 1);
}

static int compile_step(compiler *c, uint32_t cols) {
    const kind_row *row = row_of(c->s.kind);
    if (row->uses == 0 && row->a == NULL)
        return refuse(c, UVCC_ERR_PROGRAM, "kind %u is unknown", c->s.kind);
    int err = check_operands(c);
    if (err != 0)
        return err;
    *c->info = (uvcci_fn_info){
        .value = (uint8_t)row->value,
        .sends = row->sends,
        .width = c->s.a != UVCC_FN_NONE ? c->plan->instr[c->s.a].width : cols,
        .key = UVCC_FN_NONE,
    };
    set_turn(c);
    return compile_kind(c);
}

/* Who needs the masks; readers come after what they read, so from the last instruction to the
 * first. */
static void mark_masks(const uvcc_function *f, uvcci_fn_info *info) {
    for (unsigned i = f->instr_count; i-- > 0;) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        switch (s.kind) {
        case UVCC_FN_COMPARE:
        case UVCC_FN_TABLE: /* with a shift: of b too, which a comes from */
            info[s.a].dealer = true;
            break;
        case UVCC_FN_TABLE_MUL:
            info[s.a].dealer = true;
            if (s.b != UVCC_FN_NONE)
                info[s.b].dealer = true;
            if (s.c != UVCC_FN_NONE && info[s.c].value == 'M')
                info[s.c].dealer = true;
            break;
        case UVCC_FN_SELECT_MUL:
            info[s.c].dealer = true;
            info[s.a].dealer = info[s.b].dealer = info[s.b].pads = true;
            break;
        case UVCC_FN_SELECT:
        case UVCC_FN_QUAD_BEST:
            info[s.a].dealer = info[s.b].dealer = info[s.b].pads = true;
            break;
        case UVCC_FN_MUL:
            info[s.a].dealer = info[s.b].dealer = info[s.a].pads = info[s.b].pads = true;
            break;
        case UVCC_FN_TRUNC:
        case UVCC_FN_MULTISCALE:
        case UVCC_FN_FLOOR:
            info[s.a].dealer = true;
            break;
        case UVCC_FN_SPLINE:
            info[s.a].dealer = true;
            info[s.a].pads |= s.first != 0;
            break;
        case UVCC_FN_SUB:
            info[s.b].dealer |= info[i].dealer;
            info[s.b].pads |= info[i].pads;
            info[s.a].dealer |= info[i].dealer;
            info[s.a].pads |= info[i].pads;
            break;
        case UVCC_FN_ADD:
            if (s.b != UVCC_FN_NONE && info[s.b].value == 'M')
                info[s.b].pads = true;
            break;
        case UVCC_FN_SHIFT:
        case UVCC_FN_LOW:
        case UVCC_FN_PAIR_DIFF:
        case UVCC_FN_PAIR_SECOND:
        case UVCC_FN_QUAD_DIFF:
        case UVCC_FN_QUAD_LAST:
        case UVCC_FN_SPREAD:
        case UVCC_FN_ROW_SUM:
            info[s.a].dealer |= info[i].dealer;
            info[s.a].pads |= info[i].pads;
            break;
        default:
            break;
        }
    }
}

static int check_head(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                      const uvcci_message *m) {
    if (f == NULL || f->instrs == NULL || cols == 0)
        return uvcci_fail(m, UVCC_ERR_USAGE, "there is no function, or its inputs have no columns");
    const char *name = uvcci_fn_name(f);
    if (f->instr_count > UVCC_FN_INSTRS_MAX)
        return uvcci_fail(m, UVCC_ERR_LIMIT,
                          "function %s has %u instructions; at most %u are possible", name,
                          f->instr_count, UVCC_FN_INSTRS_MAX);
    if (f->inputs < 1 || f->inputs > UVCC_OP_MAX_IN || f->outputs < 1 ||
        f->outputs > UVCC_OP_MAX_OUT)
        return uvcci_fail(m, UVCC_ERR_PROGRAM,
                          "function %s has %u inputs and %u outputs; 1 to %u and 1 to %u are "
                          "possible",
                          name, f->inputs, f->outputs, UVCC_OP_MAX_IN, UVCC_OP_MAX_OUT);
    for (unsigned i = 0; in_bits != NULL && i < f->inputs; i++)
        if (in_bits[i] < 1 || in_bits[i] > 63)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "function %s: input %u declares %u bits; 1 to 63 are possible", name,
                              i, in_bits[i]);
    return 0;
}

int uvcci_fn_compile(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                     uvcci_fn_plan *plan, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    memset(plan, 0, sizeof *plan);
    int err = check_head(f, cols, in_bits, &m);
    if (err != 0)
        return err;
    compiler c = {.f = f, .in_bits = in_bits, .plan = plan, .m = &m};
    for (; c.i < f->instr_count && err == 0; c.i++) {
        c.s = uvcci_fn_canonical(&f->instrs[c.i]);
        c.info = &plan->instr[c.i];
        err = compile_step(&c, cols);
    }
    if (err != 0)
        return err;
    for (unsigned i = 0; i < f->inputs; i++)
        if (!(c.opened & 1u << i))
            return uvcci_fail(&m, UVCC_ERR_PROGRAM, "function %s: no instruction opens input %u",
                              uvcci_fn_name(f), i);
    for (unsigned i = 0; i < f->outputs; i++)
        if (!(c.written & 1u << i))
            return uvcci_fail(&m, UVCC_ERR_PROGRAM, "function %s: no instruction writes output %u",
                              uvcci_fn_name(f), i);
    mark_masks(f, plan->instr);
    return uvcci_fail(&m, 0, "%s", "");
}

/* ---- what is known of a function ---- */

/* The output that an instruction writes, or UVCC_FN_NONE. */
static uint8_t output_of(const uvcc_fn_instr *s) {
    return s->kind == UVCC_FN_LIFT || s->kind == UVCC_FN_EXCHANGE ? s->io : UVCC_FN_NONE;
}

int uvcc_function_check(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                        uint8_t *out_bits, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcci_fn_plan plan;
    if (in_bits == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "the bits of the inputs are missing");
    int err = uvcci_fn_compile(f, cols, in_bits, &plan, message, message_cap);
    for (unsigned i = 0; err == 0 && out_bits != NULL && i < f->instr_count; i++)
        if (output_of(&f->instrs[i]) != UVCC_FN_NONE)
            out_bits[f->instrs[i].io] = (uint8_t)bits_of(plan.instr[i].bound);
    return err;
}

uint32_t uvcc_function_cols(const uvcc_function *f, uint32_t cols, uint8_t output) {
    uvcci_fn_plan plan;
    if (output == UVCC_FN_NONE || uvcci_fn_compile(f, cols, NULL, &plan, NULL, 0) != 0)
        return 0;
    for (unsigned i = 0; i < f->instr_count; i++)
        if (output_of(&f->instrs[i]) == output)
            return plan.instr[i].width;
    return 0;
}

uint64_t uvcci_fn_stream_bytes(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width,
                               bool tail, uint32_t c) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        if (plan->instr[i].width != width)
            continue;
        if (uvcci_fn_owns_key(f, plan, i))
            sum += uvcci_fn_key_bytes(&f->instrs[i], c);
        sum += tail ? 8ull * plan->instr[i].words * c : 0;
    }
    return sum;
}

/* Payload bytes that all parties send for one element of the instruction. */
static double online_bytes(const uvcc_fn_instr *s) {
    switch (s->kind) {
    case UVCC_FN_OPEN:
        return 2 * s->bits / 8.0;
    case UVCC_FN_COMPARE:
        return 2 * s->word_count / 8.0;
    case UVCC_FN_TABLE:
        return s->shift == 0 && s->b != UVCC_FN_NONE ? 32 : 16;
    case UVCC_FN_TABLE_MUL:
    case UVCC_FN_EXCHANGE:
    case UVCC_FN_LIFT:
        return 16;
    default:
        return 0;
    }
}

int uvcc_function_cost(const uvcc_function *f, uint32_t cols, uvcc_fn_cost *out) {
    uvcci_fn_plan plan;
    if (out == NULL)
        return UVCC_ERR_USAGE;
    int err = uvcci_fn_compile(f, cols, NULL, &plan, NULL, 0);
    if (err != 0)
        return err;
    *out = (uvcc_fn_cost){.rounds = plan.rounds};
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcci_fn_info *info = &plan.instr[i];
        const double weight = (double)info->width / cols;
        const uint32_t cw = info->key == i ? 2 * uvcci_fn_key_bytes(&f->instrs[i], 1) : 0;
        out->online_bytes += weight * online_bytes(&f->instrs[i]);
        out->key_bytes += weight * (cw + 8.0 * info->words);
    }
    return 0;
}

unsigned uvcc_function_low_bits(const uvcc_fn_instr *instr) {
    if (instr == NULL)
        return 0;
    if (instr->kind == UVCC_FN_SHIFT || instr->kind == UVCC_FN_TRUNC)
        return instr->shift;
    if (instr->kind == UVCC_FN_LOW)
        return instr->bits;
    if (instr->kind != UVCC_FN_MULTISCALE || instr->first < 1 ||
        instr->first > UVCCI_MULTISCALE_CELLS_MAX)
        return 0;
    const uvcci_multiscale l =
        uvcci_fn_multiscale(instr->bits, instr->shift, instr->first, instr->word_count);
    return l.scales == 0 ? 0 : uvcci_multiscale_bits(&l, l.scales - 1);
}

/* ---- plaintext ---- */

/* Rows that are evaluated together: enough elements to keep the instructions' overhead small. */
enum { BATCH_ELEMS = 1024 };

typedef struct evaluation {
    const uvcc_function *f;
    uvcci_fn_plan plan;
    const int64_t *const *in;
    int64_t *const *out;
    const uint64_t *const *low;
    size_t first, rows;                /* the batch */
    size_t offset[UVCC_FN_INSTRS_MAX]; /* of an instruction's values in `values` */
    uint64_t *values;
} evaluation;

static int64_t floor_shift(uint64_t v, unsigned shift) {
    return (int64_t)v >> shift; /* arithmetic on every compiler this builds with */
}

/* z(c, l) of UVCC_FN_TABLE. */
static uint64_t factor(const int64_t *c, uint64_t l, unsigned s) {
    uint64_t z = (uint64_t)c[3];
    for (unsigned j = 3; j-- > 0;)
        z = (uint64_t)c[j] + (uint64_t)floor_shift(l * z, s);
    return z;
}

static uint64_t entry_at(const uvcc_fn_instr *s, uint64_t x) {
    const uint64_t mask = (1ull << s->bits) - 1;
    const bool whole = s->first == 0 && s->entry_count == mask + 1;
    const uint64_t i = whole ? x & mask : x - (uint64_t)s->first;
    return i < s->entry_count ? (uint64_t)(int64_t)s->entries[i] : 0;
}

static uint64_t weigh(const uvcc_fn_instr *s, uint64_t bits) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < s->word_count; j++)
        sum += bits >> j & 1 ? (uint64_t)s->words[j] : 0;
    return sum;
}

static void eval_pairs(const evaluation *e, const uvcc_fn_instr *s, const uint64_t *x,
                       uint64_t *z) {
    const uint32_t wide = e->plan.instr[s->a].width, half = wide / 2 + wide % 2;
    for (size_t r = 0; r < e->rows; r++)
        for (uint32_t j = 0; j < half; j++) {
            const uint64_t *row = x + r * wide;
            const uint64_t second = row[2 * j + 1 < wide ? 2 * j + 1 : 2 * j];
            z[r * half + j] = s->kind == UVCC_FN_PAIR_DIFF ? row[2 * j] - second : second;
        }
}

static void eval_quads(const evaluation *e, const uvcc_fn_instr *s, const uint64_t *x,
                       uint64_t *z) {
    const uint32_t wide = e->plan.instr[s->a].width;
    for (size_t r = 0; r < e->rows; r++, x += wide)
        for (uint32_t j = 0; j < wide; j += 4) {
            uint64_t of[4];
            for (uint32_t k = 0; k < 4; k++)
                of[k] = x[j + k < wide ? j + k : wide - 1];
            for (unsigned p = 0; s->kind == UVCC_FN_QUAD_DIFF && p < UVCCI_FN_QUAD_PAIRS; p++)
                *z++ = of[uvcci_fn_quad[p][0]] - of[uvcci_fn_quad[p][1]];
            if (s->kind == UVCC_FN_QUAD_LAST)
                *z++ = of[3];
        }
}

static void eval_best(const uint64_t *x, const uint64_t *y, size_t n, uint64_t *z) {
    for (size_t i = 0; i < n; i++, x += UVCCI_FN_QUAD_PAIRS, y += UVCCI_FN_QUAD_PAIRS) {
        z[i] = 0;
        for (unsigned k = 0; k < UVCCI_FN_QUAD_OTHERS; k++) {
            const uvcci_fn_candidate *c = &uvcci_fn_candidates[k];
            bool best = true;
            for (unsigned j = 0; j < UVCCI_FN_QUAD_OTHERS; j++)
                best &= (x[c->pair[j]] & 1) != c->lost[j];
            z[i] += best ? y[c->less_last] : 0;
        }
    }
}

static uint64_t sum_of_row(const uint64_t *x, uint32_t width) {
    uint64_t sum = 0;
    for (uint32_t j = 0; j < width; j++)
        sum += x[j];
    return sum;
}

static void eval_rows(const evaluation *e, const uvcc_fn_instr *s, uint32_t width,
                      const uint64_t *x, uint64_t *z) {
    const uint32_t wide = e->plan.instr[s->a].width;
    for (size_t r = 0; r < e->rows; r++) {
        if (s->kind == UVCC_FN_ROW_SUM)
            z[r] = sum_of_row(x + r * wide, wide);
        else
            for (uint32_t j = 0; j < width; j++)
                z[r * width + j] = x[r];
    }
}

/* low: r_low of the SHIFT that x comes from, or NULL. */
static void eval_table(const uvcc_fn_instr *s, const uint64_t *x, const uint64_t *y,
                       const uint64_t *low, size_t n, uint64_t *z) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t entry = entry_at(s, x[i]);
        if (s->shift == 0) {
            z[i] = y != NULL ? entry * y[i] : entry;
            continue;
        }
        const uint64_t r_low = low != NULL ? low[i] : 0;
        const uint64_t lo = (y[i] + r_low) & ((1ull << s->shift) - 1);
        z[i] = (uint64_t)floor_shift(entry * factor(s->words, lo, s->shift), 30) *
               (uint64_t)floor_shift(factor(s->words + 4, r_low, s->shift), (unsigned)s->constant);
    }
}

/* bit, y: NULL for none. */
static void eval_table_mul(const uvcc_fn_instr *s, const uint64_t *x, const uint64_t *bit,
                           const uint64_t *y, size_t n, uint64_t *z) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t entry = bit == NULL || (bit[i] & 1) != 0 ? entry_at(s, x[i]) : 0;
        z[i] = y != NULL ? entry * y[i] : entry;
    }
}

static void eval_low(const uint64_t *x, const uint64_t *low, unsigned bits, size_t n, uint64_t *z) {
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = low != NULL ? low[i] : 0;
        z[i] = ((x[i] + r) & ((1ull << bits) - 1)) - r;
    }
}

/* low: r_low of the last scale, or NULL. */
static void eval_multiscale(const uvcc_fn_instr *s, const uint64_t *x, const uint64_t *low,
                            size_t n, uint64_t *z) {
    const uvcci_multiscale l = uvcci_fn_multiscale(s->bits, s->shift, s->first, s->word_count);
    const size_t cells = UVCCI_MULTISCALE_SPAN * (size_t)l.cells;
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = low != NULL ? low[i] : 0, xh = x[i] + r;
        z[i] = (uint64_t)s->constant;
        for (unsigned k = l.scales; k-- > 0;) {
            const unsigned shift = uvcci_multiscale_bits(&l, k);
            const int64_t index = floor_shift(xh, shift) - floor_shift(r, shift);
            if (index < (int64_t)l.cells)
                continue;
            const uint64_t at = (uint64_t)index - l.cells;
            const int64_t *w = s->words + (size_t)k * UVCCI_MULTISCALE_WORDS * cells + at;
            const uint64_t d = uvcci_multiscale_low(xh, shift) - uvcci_multiscale_low(r, shift);
            if (at < cells)
                z[i] += (uint64_t)w[0] + d * ((uint64_t)w[cells] + d * (uint64_t)w[2 * cells]);
            break;
        }
    }
}

static void eval_spline(const uvcc_fn_instr *s, const uint64_t *x, size_t n, uint64_t *z) {
    const uvcci_spline p = spline_of(s);
    for (size_t i = 0; i < n; i++)
        z[i] = uvcci_spline_value(&p, (int64_t)x[i]);
}

static void eval_compare(const uvcc_fn_instr *s, const uint64_t *x, size_t n, uint64_t *z) {
    for (size_t i = 0; i < n; i++) {
        z[i] = 0;
        for (uint32_t j = 0; j < s->word_count; j++)
            z[i] |= (uint64_t)((int64_t)x[i] >= s->words[j]) << j;
    }
}

/* r_low of an instruction's elements in this batch. */
static const uint64_t *low_of(const evaluation *e, unsigned instr) {
    return e->low != NULL && e->low[instr] != NULL
               ? e->low[instr] + e->first * e->plan.instr[instr].width
               : NULL;
}

static int eval_lifted(const evaluation *e, const uvcc_fn_instr *s, const uint64_t *x, size_t n,
                       uint64_t *z) {
    const uint64_t bound = (1ull << s->bits) - 1;
    for (size_t i = 0; i < n && s->bits != 0; i++)
        if (x[i] + bound > 2 * bound)
            return UVCC_ERR_BOUND;
    memcpy(z, x, n * sizeof *z);
    if (s->io != UVCC_FN_NONE)
        memcpy(e->out[s->io] + e->first * (n / e->rows), x, n * sizeof *z);
    return 0;
}

static int eval_step(const evaluation *e, unsigned index) {
    const uvcc_fn_instr instr = uvcci_fn_canonical(&e->f->instrs[index]), *s = &instr;
    const uint32_t width = e->plan.instr[index].width;
    const size_t n = e->rows * width;
    const uint64_t *x = s->a != UVCC_FN_NONE ? e->values + e->offset[s->a] : NULL;
    const uint64_t *y = s->b != UVCC_FN_NONE ? e->values + e->offset[s->b] : NULL;
    uint64_t *z = e->values + e->offset[index];
    const uint64_t *low;
    switch (s->kind) {
    case UVCC_FN_OPEN:
        memcpy(z, e->in[s->io] + e->first * width, n * sizeof *z);
        break;
    case UVCC_FN_SHIFT:
    case UVCC_FN_TRUNC:
    case UVCC_FN_FLOOR:
        low = s->kind != UVCC_FN_FLOOR ? low_of(e, index) : NULL;
        for (size_t i = 0; i < n; i++)
            z[i] = (uint64_t)floor_shift(x[i] + (low != NULL ? low[i] : 0), s->shift);
        break;
    case UVCC_FN_PAIR_DIFF:
    case UVCC_FN_PAIR_SECOND:
        eval_pairs(e, s, x, z);
        break;
    case UVCC_FN_QUAD_DIFF:
    case UVCC_FN_QUAD_LAST:
        eval_quads(e, s, x, z);
        break;
    case UVCC_FN_QUAD_BEST:
        eval_best(x, y, n, z);
        break;
    case UVCC_FN_SPREAD:
    case UVCC_FN_ROW_SUM:
        eval_rows(e, s, width, x, z);
        break;
    case UVCC_FN_SUB:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] - y[i];
        break;
    case UVCC_FN_MUL:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] * y[i];
        break;
    case UVCC_FN_MULTISCALE:
        eval_multiscale(s, x, low_of(e, index), n, z);
        break;
    case UVCC_FN_SPLINE:
        eval_spline(s, x, n, z);
        break;
    case UVCC_FN_COMPARE:
        eval_compare(s, x, n, z);
        break;
    case UVCC_FN_TABLE:
        eval_table(s, x, y, low_of(e, s->a), n, z);
        break;
    case UVCC_FN_TABLE_MUL:
        eval_table_mul(s, x, y, s->c != UVCC_FN_NONE ? e->values + e->offset[s->c] : NULL, n, z);
        break;
    case UVCC_FN_LOW:
        eval_low(x, low_of(e, index), s->bits, n, z);
        break;
    case UVCC_FN_SELECT_MUL:
        for (size_t i = 0; i < n; i++)
            z[i] = y[i] * weigh(s, x[i]) * (e->values[e->offset[s->c] + i] & 1);
        break;
    case UVCC_FN_SELECT:
        for (size_t i = 0; i < n; i++)
            z[i] = y[i] * weigh(s, x[i]);
        break;
    case UVCC_FN_BITS:
        for (size_t i = 0; i < n; i++)
            z[i] = weigh(s, x[i]);
        break;
    case UVCC_FN_ADD:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] + (y != NULL ? y[i] : 0) + (uint64_t)s->constant;
        break;
    case UVCC_FN_INDEX:
        for (size_t i = 0; i < n; i++)
            z[i] = 2 * (i % width) + 1;
        break;
    default: /* EXCHANGE, LIFT */
        return eval_lifted(e, s, x, n, z);
    }
    return 0;
}

int uvcc_function_eval(const uvcc_function *f, uint32_t rows, uint32_t cols,
                       const int64_t *const *in, int64_t *const *out, const uint64_t *const *low,
                       const uvcc_allocator *al) {
    evaluation e = {.f = f, .in = in, .out = out, .low = low};
    if (in == NULL || out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    int err = uvcci_fn_compile(f, cols, NULL, &e.plan, NULL, 0);
    if (err != 0 || rows == 0)
        return err;
    const size_t batch = cols < BATCH_ELEMS ? BATCH_ELEMS / cols : 1;
    const size_t most = batch < rows ? batch : rows;
    size_t elems = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        e.offset[i] = elems;
        elems += most * e.plan.instr[i].width;
    }
    e.values = al->alloc(al->user, elems * sizeof *e.values, UVCC_MEM_STATE);
    if (e.values == NULL)
        return UVCC_ERR_NOMEM;
    for (; e.first < rows && err == 0; e.first += e.rows) {
        e.rows = rows - e.first < most ? rows - e.first : most;
        for (unsigned i = 0; i < f->instr_count && err == 0; i++)
            err = eval_step(&e, i);
    }
    al->free(al->user, e.values, elems * sizeof *e.values, UVCC_MEM_STATE);
    return err;
}
