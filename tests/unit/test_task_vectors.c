/* SPDX-License-Identifier: Apache-2.0 */
/* The golden vectors of compute tasks: every back end of this CPU gives them, and on other operands
 * gives what the portable one does; every task, map op, gate and lift has vectors, in every role,
 * at the sizes that matter; and what runs them sees a wrong result. */
#include "support.h"

#include <inttypes.h>
#include <uvcc/compute.h>

#include "selftest/vectors.h"

enum { FILES = 6 };

static vector_set files;

static int load(void **state) {
    vector_message m;
    (void)state;
    if (vector_set_load(&files, UVCC_VECTORS_DIR "/tasks", &m) != 0)
        fail_msg("%s", m.text);
    return 0;
}

static int unload(void **state) {
    (void)state;
    vector_set_free(&files);
    return 0;
}

static vector_run *run(const vector_file *f, uint32_t backend, uint64_t reseed) {
    vector_message m;
    vector_run *r = NULL;
    if (vector_run_new(&r, f, backend, reseed, &m) != 0)
        fail_msg("%s: %s", uvcc_cpu_backend_name(backend), m.text);
    return r;
}

static void report(int found, uint32_t backend, const vector_mismatch *x, const vector_message *m) {
    if (found < 0)
        fail_msg("%s", m->text);
    if (found > 0 && x->bytes == 0)
        fail_msg("%s: %s, unit %u, %s: its digest is another", uvcc_cpu_backend_name(backend),
                 x->name, x->unit, x->operand);
    if (found > 0)
        fail_msg("%s: %s, unit %u, %s[%zu]: %" PRIx64 ", not %" PRIx64,
                 uvcc_cpu_backend_name(backend), x->name, x->unit, x->operand, x->element, x->got,
                 x->expected);
}

/* ---- results ---- */

static void every_backend_gives_them(void **state) {
    (void)state;
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++)
        for (size_t i = 0; uvcc_cpu_backend_is_here(b) && i < files.count; i++) {
            vector_mismatch x;
            vector_message m;
            vector_run *r = run(&files.files[i], b, 0);
            report(vector_run_check(r, &x, &m), b, &x, &m);
            assert_true(vector_run_results(r) > 100);
            vector_run_free(r);
        }
}

static void other_operands_give_what_portable_kernels_give(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++)
        for (size_t i = 0; i < files.count; i++) {
            vector_run *want = run(&files.files[i], UVCC_BACKEND_PORTABLE, seed);
            for (uint32_t b = 0; b < UVCC_BACKEND_END; b++) {
                vector_mismatch x;
                vector_message m;
                if (!uvcc_cpu_backend_is_here(b) || b == UVCC_BACKEND_PORTABLE)
                    continue;
                vector_run *r = run(&files.files[i], b, seed);
                report(vector_run_compare(r, want, &x, &m), b, &x, &m);
                vector_run_free(r);
            }
            vector_mismatch x;
            vector_message m;
            assert_int_equal(vector_run_check(want, &x, &m), 1); /* they were other operands */
            vector_run_free(want);
        }
}

/* ---- what there must be ---- */

/* Whether a case that succeeds is of the task and, where they are given, the role, and has the
 * argument. */
static bool is_case(json_t *c, const char *task, const char *role, const char *arg,
                    json_int_t value) {
    const char *of = json_string_value(json_object_get(c, "role"));
    json_t *have = json_object_get(json_object_get(c, "args"), arg == NULL ? "" : arg);
    const json_int_t is = json_is_true(have) ? 1 : json_integer_value(have);
    return json_object_get(c, "status") == NULL &&
           strcmp(json_string_value(json_object_get(c, "task")), task) == 0 &&
           (role == NULL || (of != NULL && strcmp(of, role) == 0)) && (arg == NULL || is == value);
}

typedef bool (*wanted)(json_t *c, const void *what);
static bool some_case(const char *task, const char *role, const char *arg, json_int_t value,
                      wanted also, const void *what) {
    size_t k;
    json_t *c;
    for (size_t i = 0; i < files.count; i++)
        json_array_foreach(json_object_get(files.files[i].root, "cases"), k, c) {
            if (is_case(c, task, role, arg, value) && (also == NULL || also(c, what)))
                return true;
        }
    return false;
}

/* A unit with so many elements; of 4096: and one behind it. */
static bool has_count(json_t *c, const void *what) {
    const uint32_t *count = what;
    size_t k;
    json_t *u, *units = json_object_get(c, "units");
    json_array_foreach(units, k, u) {
        if (json_integer_value(json_object_get(u, "count")) == *count &&
            (*count != UVCC_BLOCK_ELEMS || k + 1 < json_array_size(units)))
            return true;
    }
    return false;
}

static bool gives_something(json_t *c, const void *what) {
    size_t k;
    json_t *u;
    (void)what;
    json_array_foreach(json_object_get(c, "units"), k, u) {
        if (json_object_size(json_object_get(u, "gives")) != 0)
            return true;
    }
    return false;
}

static void check_kind(const char *task, const char *form, const char *who) {
    static const char *const roles[3] = {"HEAD", "TAIL", "OTHER"};
    static const uint32_t counts[] = {1, 7, 64, 65, UVCC_BLOCK_ELEMS};
    if (!some_case(task, NULL, NULL, 0, gives_something, NULL))
        fail_msg("no vector of %s", task);
    for (unsigned r = 0; strcmp(form, "B") == 0 && r < 3; r++) {
        const bool only_other = strcmp(who, "O") == 0;
        const bool acts = strcmp(who, "any") == 0 || strchr(who, "HTO"[r]) != NULL;
        if (acts && !some_case(task, roles[r], NULL, 0, gives_something, NULL))
            fail_msg("no vector of %s at %s", task, roles[r]);
        if (!only_other && !some_case(task, roles[r], NULL, 0, NULL, NULL))
            fail_msg("no vector of %s at %s, where it does nothing", task, roles[r]);
    }
    for (unsigned i = 0; strcmp(form, "B") == 0 && i < sizeof counts / sizeof counts[0]; i++)
        if (!some_case(task, NULL, NULL, 0, has_count, &counts[i]))
            fail_msg("no vector of %s has a block of %u", task, counts[i]);
}

static void every_task_has_vectors(void **state) {
    (void)state;
    assert_int_equal(files.count, FILES);
#define UVCC_TASK(name, number, form, roles, what) check_kind(#name, #form, #roles);
#include <uvcc/tasks.def>
#undef UVCC_TASK
}

static bool has_op(json_t *c, const void *what) {
    return strcmp(json_string_value(json_object_get(json_object_get(c, "args"), "op")), what) == 0;
}

static bool is_compact(json_t *c, const void *what) {
    const bool *want = what;
    return json_is_true(json_object_get(json_object_get(c, "args"), "compact")) == *want;
}

static bool in_place(json_t *c, const void *what) {
    return json_object_get(json_object_get(c, "same"), what) != NULL;
}

static bool has_mode(json_t *c, const void *what) {
    const json_int_t *mode = what;
    json_t *item = json_array_get(json_object_get(c, "units"), 0);
    return json_integer_value(json_object_get(item, "mode")) == *mode;
}

static bool has_member(json_t *c, const void *what) {
    const json_int_t *op = what;
    size_t k;
    json_t *u;
    json_array_foreach(json_object_get(c, "units"), k, u) {
        if (json_integer_value(json_object_get(u, "op")) == *op)
            return true;
    }
    return false;
}

/* What a kind alone does not tell: ops, gates, lifts, modes, what is in place. */
static void every_variant_has_vectors(void **state) {
    static const char *const maps[] = {
#define UVCC_MAP(name, number, form, what) #name,
#include <uvcc/maps.def>
#undef UVCC_MAP
    };
    static const struct {
        uvcc_gate gate;
        bool compact;
        const char *task; /* beside DEAL */
    } gates[] = {{UVCC_GATE_TRUNC_SR, true, "TRUNC"},
                 {UVCC_GATE_TRUNC_SR, false, "TRUNC"},
                 {UVCC_GATE_TRUNC_ARS, true, "TRUNC"},
                 {UVCC_GATE_TRUNC_ARS, false, "TRUNC"},
                 {UVCC_GATE_TRUNC_DCF, true, "TRUNC"},
                 {UVCC_GATE_TRUNC_DCF, false, "TRUNC"},
                 {UVCC_GATE_RELU, false, "RELU"},
                 {UVCC_GATE_RELU, false, "LESS_MASK"},
                 {UVCC_GATE_TRUNC_ARS, true, "LESS_MASK"},
                 {UVCC_GATE_TRUNC_ARS, false, "LESS_MASK"},
                 {UVCC_GATE_TRUNC_ARS, true, "TRUNC_EXACT"},
                 {UVCC_GATE_TRUNC_ARS, false, "TRUNC_EXACT"}};
    static const char *const same[] = {"OPEN_FINISH",  "OPEN_ALL_FINISH", "FN_OPEN_FINISH",
                                       "FN_OPEN_BITS", "FN_ADD",          "FN_FLOOR",
                                       "TRIPLE_C"};
    (void)state;
    for (size_t i = 0; i < sizeof maps / sizeof maps[0]; i++)
        if (!some_case("MAP", NULL, NULL, 0, has_op, maps[i]))
            fail_msg("no vector of MAP %s", maps[i]);
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++)
        if (!some_case("DEAL", NULL, "gate", gates[i].gate, is_compact, &gates[i].compact) ||
            !some_case(gates[i].task, NULL, "gate", gates[i].gate, is_compact, &gates[i].compact))
            fail_msg("no vector of gate %d at %s", (int)gates[i].gate, gates[i].task);
    for (json_int_t kind = 0; kind <= UVCC_LIFT_EXCHANGE; kind++)
        if (!some_case("LIFT_MASK", NULL, "lift", kind, gives_something, NULL) ||
            !some_case("LIFT_FINISH", NULL, "lift", kind, gives_something, NULL))
            fail_msg("no vector of lift %d", (int)kind);
    for (json_int_t mode = 0; mode <= UVCC_HASH_TREE; mode++)
        assert_true(some_case("HASH", NULL, NULL, 0, has_mode, &mode));
    for (json_int_t op = UVCC_COLLECTIVE_SEND; op <= UVCC_COLLECTIVE_ALL_GATHER; op++)
        assert_true(some_case("COLLECTIVE", NULL, NULL, 0, has_member, &op));
    for (json_int_t want = UVCC_BOOL_BIT; want <= 3; want++)
        assert_true(some_case("BOOL_SELECT_MASK", NULL, "gate", want, gives_something, NULL));
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (!some_case(same[i], NULL, NULL, 0, in_place, "out[0]"))
            fail_msg("no vector of %s in place", same[i]);
    assert_true(some_case("MAP", NULL, NULL, 0, in_place, "out.lo"));
    assert_true(some_case("GEMM", NULL, "accumulate", 1, NULL, NULL));
    assert_true(some_case("GEMM", NULL, "groups", 2, NULL, NULL));
    for (json_int_t bytes = 2; bytes <= 4; bytes += 2)
        assert_true(some_case("GEMM", NULL, "y_bytes", bytes, NULL, NULL));
}

/* ---- what runs them ---- */

/* The first result of that task that is shown, or has a digest, with more than `at` digits. */
static json_t *result_of(const vector_file *f, const char *task, const char *shown, size_t at) {
    size_t k, u;
    json_t *c, *unit, *value;
    const char *name;
    json_array_foreach(json_object_get(f->root, "cases"), k, c) {
        json_array_foreach(json_object_get(c, "units"), u, unit) {
            json_object_foreach(json_object_get(unit, "gives"), name, value) {
                const char *text = json_string_value(json_object_get(value, shown));
                if (is_case(c, task, NULL, NULL, 0) && text != NULL && strlen(text) > at)
                    return value;
            }
        }
    }
    fail_msg("%s has no result with %s", task, shown);
    return NULL;
}

/* Changes one digit of a result; gives what the check finds. */
static vector_mismatch spoiled(const vector_file *f, const char *task, const char *shown,
                               size_t at) {
    json_t *value = result_of(f, task, shown, at),
           *was = json_incref(json_object_get(value, shown));
    vector_mismatch x;
    vector_message m;
    char text[256];
    assert_true((size_t)snprintf(text, sizeof text, "%s", json_string_value(was)) < sizeof text);
    text[at] = text[at] == '0' ? '1' : '0';
    assert_int_equal(json_object_set_new(value, shown, json_string(text)), 0);
    vector_run *r = run(f, UVCC_BACKEND_PORTABLE, 0);
    assert_int_equal(vector_run_check(r, &x, &m), 1);
    vector_run_free(r);
    assert_int_equal(json_object_set_new(value, shown, was), 0);
    return x;
}

static void a_wrong_result_is_seen(void **state) {
    (void)state;
    const vector_file *gates = &files.files[3];
    vector_mismatch x = spoiled(gates, "INPUT", "hex", 0);
    assert_string_equal(x.task, "INPUT");
    assert_string_equal(x.role, "HEAD");
    assert_true(x.expected != x.got && x.bytes != 0);
    x = spoiled(gates, "TRUNC", "hex", 33); /* the third word */
    assert_int_equal(x.element, 2);
    assert_int_equal(x.bytes, 8);
    assert_string_equal(x.operand, "out[0]");
    x = spoiled(gates, "DEAL", "sha256", 63);
    assert_int_equal(x.bytes, 0);
    assert_string_equal(x.role, "OTHER");
}

/* A file of one case, made from one of the gates'. */
static void refused(const char *name, json_t *value, const char *why) {
    vector_message m = {""};
    vector_run *r = NULL;
    json_t *root = json_deep_copy(files.files[3].root);
    json_t *cases = json_object_get(root, "cases"), *first = json_array_get(cases, 0);
    assert_int_equal(json_object_set_new(first, name, value), 0);
    char path[] = "a file";
    const vector_file f = {path, root};
    assert_int_equal(vector_run_new(&r, &f, UVCC_BACKEND_PORTABLE, 0, &m), -1);
    if (strstr(m.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", m.text, why);
    json_decref(root);
}

static void a_bad_file_is_refused(void **state) {
    vector_message m;
    vector_set none;
    (void)state;
    refused("task", json_string("NONE"), "is not understood");
    refused("role", json_string("NOBODY"), "is not understood");
    refused("args", json_pack("{si}", "shifts", 1), "argument shifts");
    refused("args", json_pack("{si}", "shift", 256), "argument shift");
    refused("fn", json_pack("{si}", "bit", 1), "argument bit of fn");
    refused("with", json_pack("{s{si}}", "in[9]", "seed", 1), "operand in[9]");
    refused("same", json_pack("{ss}", "out[0]", "in[3]"), "cannot be the same");
    refused("status", json_string("JOB"), "the status is");
    assert_int_equal(vector_set_load(&none, "/nonexistent", &m), -1);
    assert_int_equal(vector_set_load(&none, UVCC_DATA_DIR, &m), -1);
}

static void backends_have_names(void **state) {
    (void)state;
    assert_string_equal(uvcc_cpu_backend_name(UVCC_BACKEND_AUTO), "auto");
    assert_string_equal(uvcc_cpu_backend_name(UVCC_BACKEND_PORTABLE), "portable");
    assert_null(uvcc_cpu_backend_name(UVCC_BACKEND_END));
    assert_true(uvcc_cpu_backend_is_here(UVCC_BACKEND_AUTO));
    assert_true(uvcc_cpu_backend_is_here(UVCC_BACKEND_PORTABLE));
    assert_false(uvcc_cpu_backend_is_here(UVCC_BACKEND_END));
    for (uint32_t b = UVCC_BACKEND_AVX2; b + 1 < UVCC_BACKEND_END; b++)
        assert_true(uvcc_cpu_backend_is_here(b) || !uvcc_cpu_backend_is_here(b + 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backend_gives_them),
        cmocka_unit_test(other_operands_give_what_portable_kernels_give),
        cmocka_unit_test(every_task_has_vectors),
        cmocka_unit_test(every_variant_has_vectors),
        cmocka_unit_test(a_wrong_result_is_seen),
        cmocka_unit_test(a_bad_file_is_refused),
        cmocka_unit_test(backends_have_names),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
