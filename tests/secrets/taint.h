/* SPDX-License-Identifier: Apache-2.0 */
/* taint.h - secrets that valgrind's memcheck follows: "undefined" is read as "secret".
 *
 * Memcheck tracks definedness bit by bit through every instruction and reports the branch, address
 * or system call that depends on an undefined bit. So a value is marked undefined where it is born
 * (taint), and defined again only where it becomes public (declassify), with the reason. */
#ifndef UVCC_TEST_TAINT_H
#define UVCC_TEST_TAINT_H

#include "support.h"

/* From now on these bytes are a secret. */
void taint(void *p, size_t n);
/* Every byte depends on a secret, else the test fails: what it tests would not be seen. */
void assert_tainted(const void *p, size_t n);
/* These bytes are public from here on, because of `why`. They were tainted, else the test fails. */
void declassify(void *p, size_t n, const char *why);
/* The test looks at a result that no party would see. */
void look(void *p, size_t n);
/* A status that everybody may see. Compilers may have derived it with or without a branch, so it
 * may or may not be tainted. */
int public_status(int rc);

/* cmocka fixtures: fail a test in which memcheck reported anything. */
int reports_before(void **state);
int no_reports_after(void **state);

/* uvcc_cpu_config.backend and its AES. Memcheck knows nothing beyond AVX2. */
typedef struct backend {
    uint32_t cpu, aes;
} backend;
extern backend backend_portable, backend_avx2;
/* Skips the test where the CPU, as valgrind shows it, lacks the backend. */
const backend *backend_of(void **state);

#define SECRETS_TEST(f)                                                                            \
    { #f, f, reports_before, no_reports_after, NULL }
#define SECRETS_TEST_ON(f, b)                                                                      \
    { #f ", " #b, f, reports_before, no_reports_after, &backend_##b }

/* The groups of main.c. Each returns the number of failed tests. */
int test_primitives(void);
int test_tasks(void);
int test_sessions(void);
int test_leaks(void);

#endif
