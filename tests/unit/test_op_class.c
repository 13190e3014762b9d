/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of ops: each opcode has one, whose members fit together; what has none; traits as
 * programs and sessions ask for them. */
#include "support.h"

#include "exec/program/op_class.h"
#include "exec/program/op_way.h"
#include <uvcc/compute.h>

static const struct {
    uint16_t opcode;
    int n_in, n_out;
    const char *name;
} listed[] = {
#define UVCC_OPCODE(name, code, n_in, n_out, ...) {(code), (n_in), (n_out), #name},
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
};
enum { LISTED = sizeof listed / sizeof listed[0] };

static const uvcci_op_class *class_at(size_t i) {
    const uvcci_op_class *c = uvcci_op_class_of(listed[i].opcode);
    if (c == NULL)
        fail_msg("%s has no class", listed[i].name);
    return c;
}

static bool has(const uvcci_op_class *c, unsigned traits) {
    return (c->traits & traits) != 0;
}

static void test_every_opcode(void **state) {
    (void)state;
    unsigned supported = 0;
    for (size_t i = 0; i < LISTED; i++) {
        const uvcci_op_class *c = class_at(i);
        supported++;
        assert_int_equal(c->opcode, listed[i].opcode);
        assert_non_null(c->way);
        assert_non_null(c->way->build);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(c, uvcci_op_class_of(listed[k].opcode));
    }
    assert_true(supported >= 29);
}

static void test_unknown(void **state) {
    (void)state;
    assert_null(uvcci_op_class_of(0));
    assert_null(uvcci_op_class_of(31));
    assert_null(uvcci_op_class_of(UINT16_MAX));
    assert_false(uvcci_op_has(0, UVCCI_IS_PRODUCT));
    assert_false(uvcci_is_collective(UINT16_MAX));
}

/* What one member says another one must not deny. */
static void test_members_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < LISTED; i++) {
        const uvcci_op_class *c = class_at(i);
        assert_int_equal(c->constant_flag & ~c->flags, 0);
        assert_int_equal(has(c, UVCCI_IS_PRODUCT), (c->flags & UVCC_OP_BEAVER) != 0);
        assert_true(has(c, UVCCI_USES_HEADS) || (c->flags & UVCC_OP_STACKED_A) == 0);
        assert_true(!has(c, UVCCI_TRUNCATES) || has(c, UVCCI_USES_SHIFT));
        assert_true(!has(c, UVCCI_IS_PRODUCT) || has(c, UVCCI_TRUNCATES));
        assert_true(!has(c, UVCCI_IS_COLLECTIVE) || c->plan == NULL); /* nothing to other parties */
        assert_true(!has(c, UVCCI_WORKS_IN_PLACE) || (listed[i].n_in != 0 && listed[i].n_out == 1));
        assert_true(c->sum_max == NULL || (c->out & UVCCI_TAKES_ADDITIVE) != 0);
    }
}

static void test_ways_fit(void **state) {
    (void)state;
    for (size_t i = 0; i < LISTED; i++) {
        const uvcci_op_way *w = class_at(i)->way;
        if (w == NULL)
            continue;
        /* keys: their sizes, and who deals them */
        assert_int_equal(w->key_bytes != NULL, w->deal != NULL);
        assert_int_equal(w->deal_tasks != NULL, w->deal != NULL);
        assert_int_equal(w->message_words != NULL, w->piece_words != NULL);
        /* what a state holds is given back */
        assert_true(w->state_bytes == 0 || w->release != NULL);
    }
}

static void test_traits(void **state) {
    (void)state;
    static const uint16_t products[] = {UVCC_OP_GEMM_SS, UVCC_OP_ELEM_MUL, UVCC_OP_ROW_MUL,
                                        UVCC_OP_COL_MUL, UVCC_OP_ROW_DOT};
    static const uint16_t collectives[] = {UVCC_OP_SEND_PP, UVCC_OP_RECV_PP, UVCC_OP_REDUCE_SCATTER,
                                           UVCC_OP_ALL_GATHER};
    unsigned inputs = 0, outputs = 0, found[2] = {0};
    for (size_t i = 0; i < LISTED; i++) {
        const uvcci_op_class *c = class_at(i);
        found[0] += uvcci_is_product(listed[i].opcode);
        found[1] += uvcci_is_collective(listed[i].opcode);
        inputs += has(c, UVCCI_IS_INPUT);
        outputs += has(c, UVCCI_IS_OUTPUT);
    }
    for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        assert_true(uvcci_is_product(products[i]));
        assert_true(uvcci_truncates(&(uvcc_op_desc){.opcode = products[i], .shift = 1}));
        assert_false(uvcci_truncates(&(uvcc_op_desc){.opcode = products[i]}));
    }
    for (size_t i = 0; i < sizeof collectives / sizeof collectives[0]; i++)
        assert_true(uvcci_is_collective(collectives[i]));
    assert_int_equal(found[0], sizeof products / sizeof products[0]);
    assert_int_equal(found[1], sizeof collectives / sizeof collectives[0]);
    assert_int_equal(inputs, 2);
    assert_int_equal(outputs, 2);
    assert_true(uvcci_truncates(&(uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE, .shift = 3}));
    assert_false(uvcci_truncates(&(uvcc_op_desc){.opcode = UVCC_OP_SHIFT_LEFT, .shift = 3}));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_opcode), cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_members_fit),  cmocka_unit_test(test_ways_fit),
        cmocka_unit_test(test_traits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
