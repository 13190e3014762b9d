/* SPDX-License-Identifier: Apache-2.0 */
/* test_nonlinear_tables.c - the tables and words of all functions, pinned by hashes: parties of two
 * machines, compilers or versions must have the same. docs/nonlinear.md says what they round. */
#include "support.h"

#include "exec/model/gumbel.h"
#include "proto/bytes.h"
#include "proto/crypto.h"
#include <stdio.h>
#include <string.h>
#include <uvcc/nonlinear.h>

static const struct {
    uvcc_nonlinear what;
    const char *hash; /* the first eight bytes, as they come */
} pins[] = {
    {UVCC_NL_GELU, "b34bbdbcda0e0bde"},
    {UVCC_NL_GELU_TANH, "01c2d112ab2798d2"},
    {UVCC_NL_SILU, "5dc506e212b8f063"},
    {UVCC_NL_GELU_DERIVATIVE, "4ec4818ccb1c9e9f"},
    {UVCC_NL_GELU_TANH_DERIVATIVE, "9659acf30c65068d"},
    {UVCC_NL_SILU_DERIVATIVE, "ebd72f06d976a4de"},
    {UVCC_NL_SIGMOID, "3f32d7ac95f51872"},
    {UVCC_NL_TANH, "26dd24f96c569da3"},
    {UVCC_NL_EXP, "36a51f13e3b27a8d"},
    {UVCC_NL_RECIPROCAL, "daef7a4aba361c79"},
    {UVCC_NL_RSQRT, "054d30ac164a99cd"},
    {UVCC_NL_LN, "2ad84209bb9756af"},
    {UVCC_NL_SOFTMAX, "98822839486d27d9"},
};

static void put(uvcci_sha256 *h, uint64_t v) {
    uint8_t bytes[8];
    uvcci_st64(bytes, v);
    uvcci_sha256_update(h, bytes, sizeof bytes);
}

static void put_instrs(uvcci_sha256 *h, const uvcc_function *f) {
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcc_fn_instr *s = &f->instrs[i];
        const uint8_t about[] = {s->kind, s->a, s->b, s->c, s->bits, s->shift, s->io};
        uvcci_sha256_update(h, about, sizeof about);
        put(h, (uint64_t)s->first);
        put(h, (uint64_t)s->constant);
        for (uint32_t j = 0; j < s->entry_count; j++)
            put(h, (uint64_t)s->entries[j]);
        for (uint32_t j = 0; j < s->word_count; j++)
            put(h, (uint64_t)s->words[j]);
    }
}

static void text_of(uvcci_sha256 *h, char text[17]) {
    uint8_t hash[32];
    uvcci_sha256_final(h, hash);
    for (unsigned i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

/* Of many options; what a function does not take is part of it by its error. */
static void hash_of(uvcc_nonlinear what, char text[17]) {
    static const uint8_t scales[] = {6, 12, 16, 20, 31}, index_bits[] = {0, 5, 11};
    static const double gains[] = {0, 0.7071067811865476, 0.9333333333333333};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    for (unsigned i = 0; i < sizeof scales * sizeof index_bits * 4; i++) {
        const uvcc_nonlinear_options o = {.size = sizeof o,
                                          .scale = scales[i / 4 % sizeof scales],
                                          .index_bits = index_bits[i / 4 / sizeof scales],
                                          .exact = i % 2 != 0,
                                          .derivative = i / 2 % 2 != 0,
                                          .loss = i / 2 % 2 != 0,
                                          .gain = gains[i % 3],
                                          .cols = 100};
        uvcc_nonlinear_fn fn;
        const int err = uvcc_nonlinear_build(&fn, what, &o, &al);
        put(&h, (uint64_t)err);
        if (err != 0)
            continue;
        put_instrs(&h, &fn.function);
        uvcc_nonlinear_free(&fn);
    }
    text_of(&h, text);
    assert_int_equal(mem.live_blocks, 0);
}

static void functions(void **state) {
    (void)state;
    unsigned wrong = 0;
    for (size_t i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        char text[17];
        hash_of(pins[i].what, text);
        if (strcmp(text, pins[i].hash) == 0)
            continue;
        print_error("%s: {.., \"%s\"}\n", uvcc_nonlinear_at(pins[i].what)->name, text);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

static void noise(void **state) {
    (void)state;
    uvcci_gumbel g;
    uvcci_sha256 h;
    char text[17];
    uvcci_gumbel_build(&g);
    uvcci_sha256_init(&h);
    put_instrs(&h, &g.function);
    text_of(&h, text);
    assert_string_equal(text, "16069edd462d6841");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions), cmocka_unit_test(noise)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
