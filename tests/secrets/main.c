/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the marks of taint.h and the choice of what runs: the tests, or `leaks`, which are
 * planted and must all be reported, or `nothing`. Runs under valgrind only, see secrets.sh. */
#include "taint.h"

#include <valgrind/memcheck.h>

#include "proto/aes.h"

enum { SKIPPED = 77 };

void taint(void *p, size_t n) {
    (void)VALGRIND_MAKE_MEM_UNDEFINED(p, n);
}

void assert_tainted(const void *p, size_t n) {
    const uint8_t *bytes = p;
    uint8_t undefined[256];
    for (size_t at = 0; at < n; at += sizeof undefined) {
        const size_t m = n - at < sizeof undefined ? n - at : sizeof undefined;
        assert_int_equal(VALGRIND_GET_VBITS(bytes + at, undefined, m), 1);
        for (size_t i = 0; i < m; i++)
            if (undefined[i] == 0)
                fail_msg("byte %zu of %zu depends on no secret", at + i, n);
    }
}

void declassify(void *p, size_t n, const char *why) {
    assert_true(why[0] != '\0');
    assert_tainted(p, n);
    (void)VALGRIND_MAKE_MEM_DEFINED(p, n);
}

void look(void *p, size_t n) {
    (void)VALGRIND_MAKE_MEM_DEFINED(p, n);
}

int public_status(int rc) {
    (void)VALGRIND_MAKE_MEM_DEFINED(&rc, sizeof rc);
    return rc;
}

static unsigned long reports;

int reports_before(void **state) {
    (void)state;
    reports = VALGRIND_COUNT_ERRORS;
    return 0;
}

int no_reports_after(void **state) {
    (void)state;
    return VALGRIND_COUNT_ERRORS == reports ? 0 : -1;
}

backend backend_portable = {1, UVCCI_AES_PORTABLE}, backend_avx2 = {2, UVCCI_AES_NI};

const backend *backend_of(void **state) {
    const backend *b = *state;
    if (b->aes > (uint32_t)uvcci_aes_best())
        skip();
    return b;
}

int main(int argc, char **argv) {
    if (!RUNNING_ON_VALGRIND) {
        puts("not under valgrind: skipped");
        return SKIPPED;
    }
    if (argc == 2 && strcmp(argv[1], "nothing") == 0)
        return 0;
    if (argc == 2 && strcmp(argv[1], "leaks") == 0)
        return test_leaks() == 0 ? 0 : 1;
    return test_primitives() + test_tasks() + test_sessions() == 0 ? 0 : 1;
}
