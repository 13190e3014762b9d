/* SPDX-License-Identifier: Apache-2.0 */
/* Files under another name until they are whole (tools/atomic_file.h): what is finished has its
 * name and nothing else is left; what cannot be written says why, and not what some other call met.
 */
#include "run_tool.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "atomic_file.h"
#include "report.h"

/* atomic_file_finish(), and what it says. */
static outcome finished(atomic_file *a) {
    outcome o = {0};
    const int kept = hear();
    errno = ENOTTY; /* what came last before it */
    o.status = atomic_file_finish(a);
    o.err = heard(kept);
    return o;
}

static void gets_its_name(void **state) {
    (void)state;
    int status = EXIT_FAILED;
    atomic_file *a = atomic_file_open("json", "whole", &status);
    assert_non_null(a);
    fputs("all of it\n", atomic_file_stream(a));
    assert_int_equal(access("whole", F_OK), -1);
    outcome o = finished(a);
    assert_int_equal(o.status, EXIT_DONE);
    assert_string_equal(o.err, "");
    forget(&o);
    atomic_file_close(a);
    char *text = read_all("whole");
    assert_string_equal(text, "all of it\n");
    free(text);
    assert_int_equal(unlink("whole"), 0); /* the directory must end empty: see leave() */
}

/* A limit on a file's size stands for a full disk: while the writing lasts, or to the end. */
static void says_why(void **state) {
    (void)state;
    static const struct {
        size_t bytes;
        bool to_the_end;
        const char *says;
    } cases[] = {{2000, true, "File too large"},     /* in the buffer until the end */
                 {1u << 16, true, "File too large"}, /* asked again */
                 {1u << 16, false, "a write failed"}};
    static const char much[1u << 16];
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    for (unsigned i = 0; i < 3; i++) {
        int status = EXIT_FAILED;
        const struct rlimit low = {1024, old.rlim_max};
        atomic_file *a = atomic_file_open("json", "cut", &status);
        assert_non_null(a);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
        const size_t written = fwrite(much, 1, cases[i].bytes, atomic_file_stream(a));
        assert_true(cases[i].bytes == 2000 || written < cases[i].bytes);
        if (!cases[i].to_the_end)
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        outcome o = finished(a);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(o.status, EXIT_FAILED);
        assert_non_null(strstr(o.err, "--json cut: cannot be written"));
        assert_non_null(strstr(o.err, cases[i].says));
        assert_null(strstr(o.err, strerror(ENOTTY)));
        forget(&o);
        atomic_file_close(a);
        assert_int_equal(access("cut", F_OK), -1);
    }
    assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
}

static void refuses_places(void **state) {
    (void)state;
    int status = EXIT_DONE;
    assert_null(atomic_file_open("json", "no/such/place", &status));
    assert_int_equal(status, EXIT_BAD_INPUT);
    status = EXIT_DONE;
    assert_null(atomic_file_open("json", ".", &status));
    assert_int_equal(status, EXIT_BAD_INPUT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_its_name),
        cmocka_unit_test(says_why),
        cmocka_unit_test(refuses_places),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
