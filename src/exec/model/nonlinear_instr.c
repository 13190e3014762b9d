/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_instr.c - the builder of functions: one call, one instruction, with the bound of its
 * value. A function is built twice by the same code, first without memory: then only counts and
 * bounds are kept. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>
#include <string.h>

const int64_t uvcci_nl_zero[1] = {0}, uvcci_nl_one[1] = {1};

uint8_t uvcci_nl_put(uvcci_nl_builder *b, uvcc_fn_instr s, uint64_t bound) {
    assert(b->instr_count < UVCC_FN_INSTRS_MAX);
    assert(s.a == UVCC_FN_NONE || s.a < b->instr_count);
    assert(s.b == UVCC_FN_NONE || s.b < b->instr_count);
    b->bound[b->instr_count] = bound;
    if (!uvcci_fn_has_third(s.kind))
        s.c = UVCC_FN_NONE;
    if (b->instrs != NULL)
        b->instrs[b->instr_count] = s;
    return (uint8_t)b->instr_count++;
}

const int64_t *uvcci_nl_put_words(uvcci_nl_builder *b, const int64_t *words, uint32_t count) {
    assert(count != 0 && words != NULL);
    const uint32_t at = b->word_count;
    b->word_count += count;
    if (b->words == NULL)
        return NULL;
    memcpy(b->words + at, words, count * sizeof *words);
    return b->words + at;
}

uint64_t uvcci_nl_sum_of(const int64_t *words, uint32_t count) {
    assert(count == 0 || words != NULL);
    uint64_t sum = 0;
    for (uint32_t j = 0; j < count; j++)
        sum = uvcci_sat_add(sum, uvcci_magnitude(words[j]));
    return sum;
}

uint8_t uvcci_nl_open(uvcci_nl_builder *b, uint8_t io, unsigned declared, unsigned opened) {
    assert(declared < 64 && opened >= 1);
    const uint8_t bits = opened < 64 ? (uint8_t)opened : 64;
    return uvcci_nl_put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_OPEN, .a = UVCC_FN_NONE, .b = UVCC_FN_NONE, .bits = bits, .io = io},
        uvcci_nl_all_below(declared));
}

uint8_t uvcci_nl_one_operand(uvcci_nl_builder *b, uvcc_fn_kind kind, uint8_t a, uint64_t bound) {
    assert(a < b->instr_count);
    return uvcci_nl_put(
        b, (uvcc_fn_instr){.kind = (uint8_t)kind, .a = a, .b = UVCC_FN_NONE, .io = UVCC_FN_NONE},
        bound);
}

uint8_t uvcci_nl_shift(uvcci_nl_builder *b, uint8_t a, unsigned by) {
    assert(a < b->instr_count && by < 64);
    if (by == 0)
        return a;
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_SHIFT,
                                        .a = a,
                                        .b = UVCC_FN_NONE,
                                        .shift = (uint8_t)by,
                                        .io = UVCC_FN_NONE},
                        uvcci_shifted_bound(b->bound[a], by));
}

uint8_t uvcci_nl_compare(uvcci_nl_builder *b, uint8_t a, uint8_t bits, const int64_t *words,
                         uint32_t count) {
    assert(a < b->instr_count && count <= UVCCI_NL_WORDS_MAX);
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_COMPARE,
                                        .a = a,
                                        .b = UVCC_FN_NONE,
                                        .bits = bits,
                                        .io = UVCC_FN_NONE,
                                        .word_count = count,
                                        .words = uvcci_nl_put_words(b, words, count)},
                        UINT64_MAX);
}

uint8_t uvcci_nl_weigh(uvcci_nl_builder *b, uint8_t bits, uint8_t y, const int64_t *words,
                       uint32_t count) {
    assert(bits < b->instr_count && count <= UVCCI_NL_WORDS_MAX);
    const uint64_t sum = uvcci_nl_sum_of(words, count);
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = y != UVCC_FN_NONE ? UVCC_FN_SELECT : UVCC_FN_BITS,
                                        .a = bits,
                                        .b = y,
                                        .io = UVCC_FN_NONE,
                                        .word_count = count,
                                        .words = uvcci_nl_put_words(b, words, count)},
                        y != UVCC_FN_NONE ? uvcci_sat_mul(sum, b->bound[y]) : sum);
}

uint8_t uvcci_nl_weigh_both(uvcci_nl_builder *b, uint8_t bits, uint8_t bit, uint8_t y,
                            const int64_t *words, uint32_t count) {
    assert(bit < b->instr_count && y < b->instr_count);
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_SELECT_MUL,
                                        .a = bits,
                                        .b = y,
                                        .c = bit,
                                        .io = UVCC_FN_NONE,
                                        .word_count = count,
                                        .words = uvcci_nl_put_words(b, words, count)},
                        uvcci_sat_mul(uvcci_nl_sum_of(words, count), b->bound[y]));
}

uint8_t uvcci_nl_add(uvcci_nl_builder *b, uint8_t x, uint8_t y, int64_t constant) {
    assert(x < b->instr_count && (y == UVCC_FN_NONE || y < b->instr_count));
    return uvcci_nl_put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_ADD, .a = x, .b = y, .io = UVCC_FN_NONE, .constant = constant},
        uvcci_sat_add(uvcci_sat_add(b->bound[x], uvcci_magnitude(constant)),
                      y != UVCC_FN_NONE ? b->bound[y] : 0));
}

/* The value's bound is the carried one or, where bits are known, theirs. */
static uint64_t known_bound(const uvcci_nl_builder *b, uint8_t a, unsigned bits) {
    assert(a < b->instr_count && bits < 64);
    return bits != 0 && uvcci_nl_all_below(bits) < b->bound[a] ? uvcci_nl_all_below(bits)
                                                               : b->bound[a];
}

uint8_t uvcci_nl_two_operands(uvcci_nl_builder *b, uvcc_fn_kind kind, uint8_t x, uint8_t y,
                              uint64_t bound) {
    assert(x < b->instr_count && y < b->instr_count);
    return uvcci_nl_put(
        b, (uvcc_fn_instr){.kind = (uint8_t)kind, .a = x, .b = y, .io = UVCC_FN_NONE}, bound);
}

uint8_t uvcci_nl_truncate(uvcci_nl_builder *b, uint8_t a, unsigned by) {
    assert(a < b->instr_count && by < 64);
    if (by == 0)
        return uvcci_nl_add(b, a, UVCC_FN_NONE, 0);
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_TRUNC,
                                        .a = a,
                                        .b = UVCC_FN_NONE,
                                        .shift = (uint8_t)by,
                                        .io = UVCC_FN_NONE},
                        uvcci_shifted_bound(b->bound[a], by));
}

uint8_t uvcci_nl_exchange_to(uvcci_nl_builder *b, uint8_t a, uint8_t io, unsigned bits) {
    assert(io == UVCC_FN_NONE || io < UVCCI_NL_OUT_MAX);
    if (io != UVCC_FN_NONE)
        b->out_bits[io] = uvcci_bits_of(known_bound(b, a, bits));
    return uvcci_nl_put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_EXCHANGE, .a = a, .b = UVCC_FN_NONE, .bits = (uint8_t)bits, .io = io},
        known_bound(b, a, bits));
}

uint8_t uvcci_nl_exchange(uvcci_nl_builder *b, uint8_t a, unsigned bits) {
    return uvcci_nl_exchange_to(b, a, UVCC_FN_NONE, bits);
}

void uvcci_nl_lift_known(uvcci_nl_builder *b, uint8_t a, uint8_t io, unsigned bits) {
    assert(io < UVCCI_NL_OUT_MAX);
    b->out_bits[io] = uvcci_bits_of(known_bound(b, a, bits));
    uvcci_nl_put(
        b,
        (uvcc_fn_instr){
            .kind = UVCC_FN_LIFT, .a = a, .b = UVCC_FN_NONE, .bits = (uint8_t)bits, .io = io},
        0);
}

void uvcci_nl_lift(uvcci_nl_builder *b, uint8_t a, uint8_t io) {
    uvcci_nl_lift_known(b, a, io, 0);
}
