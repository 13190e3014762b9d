/* SPDX-License-Identifier: Apache-2.0 */
/* test_errors.c - the names and texts of the error codes. */
#include "support.h"

static void every_code_has_a_name_and_a_text(void **state) {
    (void)state;
    assert_string_equal(uvcc_error_name(UVCC_OK), "OK");
    assert_string_equal(uvcc_error_text(UVCC_OK), "success");
#define UVCC_ERROR(name, code, text)                                                               \
    assert_string_equal(uvcc_error_name(UVCC_ERR_##name), #name);                                  \
    assert_string_equal(uvcc_error_text(code), text);
#include <uvcc/errors.def>
#undef UVCC_ERROR
}

static void other_codes_are_unknown(void **state) {
    (void)state;
    static const int codes[] = {1, -1, -99, -199, -999, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_string_equal(uvcc_error_name(codes[i]), "UNKNOWN");
        assert_string_equal(uvcc_error_text(codes[i]), "unknown error");
    }
}

static void version(void **state) {
    (void)state;
    assert_string_equal(uvcc_version(), "0.1.0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_a_name_and_a_text),
        cmocka_unit_test(other_codes_are_unknown),
        cmocka_unit_test(version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
