/* SPDX-License-Identifier: Apache-2.0 */
/* vector_test.c - see vector_test.h. */
#include "vector_test.h"

#include <inttypes.h>

static vector_set load(void) {
    vector_message m;
    vector_set files;
    if (vector_set_load(&files, UVCC_VECTORS_DIR "/tasks", &m) != 0)
        fail_msg("%s", m.text);
    return files;
}

static vector_run *run(const vector_file *f, const vector_executor *x, uint64_t seed) {
    vector_message m;
    vector_run *r = NULL;
    if (vector_run_on(&r, f, x, seed, &m) != 0)
        fail_msg("%s", m.text);
    return r;
}

static void report(int found, const vector_mismatch *x, const vector_message *m) {
    if (found < 0)
        fail_msg("%s", m->text);
    if (found > 0)
        fail_msg("%s (%s %s), unit %u, %s[%zu]: %" PRIx64 ", not %" PRIx64, x->name, x->task,
                 x->role, x->unit, x->operand, x->element, x->got, x->expected);
}

void vector_test_golden(const vector_executor *x) {
    vector_set files = load();
    for (size_t i = 0; i < files.count; i++) {
        vector_mismatch at;
        vector_message m;
        vector_run *r = run(&files.files[i], x, 0);
        report(vector_run_check(r, &at, &m), &at, &m);
        assert_true(vector_run_results(r) > 100);
        vector_run_free(r);
    }
    vector_set_free(&files);
}

void vector_test_random(const vector_executor *x, uint64_t seed) {
    vector_set files = load();
    for (size_t i = 0; i < files.count; i++) {
        vector_mismatch at;
        vector_message m;
        vector_run *want = NULL, *r = run(&files.files[i], x, seed);
        if (vector_run_new(&want, &files.files[i], UVCC_BACKEND_PORTABLE, seed, &m) != 0)
            fail_msg("%s", m.text);
        report(vector_run_compare(r, want, &at, &m), &at, &m);
        vector_run_free(r);
        vector_run_free(want);
    }
    vector_set_free(&files);
}
