/* SPDX-License-Identifier: Apache-2.0 */
/* test_selftest.c - `uvcc selftest` as a user runs it: argv[1] is the binary, argv[2] the folder of
 * the golden vectors. */
#include "run_tool.h"

#include <sys/stat.h>
#include <uvcc/compute.h>

static const char *vectors;

static void right_results(void **state) {
    (void)state;
    outcome o = run_tool("selftest --backend portable --rounds 1 --seed 77");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    assert_non_null(strstr(o.out, "portable: "));
    assert_non_null(strstr(o.out, " golden results are right\n"));
    assert_non_null(strstr(o.out, "(--seed 77 --rounds 1)\n"));
    assert_non_null(
        strstr(o.out, "portable: a training step of a small transformer has the weights"));
    assert_int_equal(lines(o.out), 4);
    forget(&o);
}

/* All back ends of this CPU, once each. */
static void all_backends(void **state) {
    (void)state;
    outcome o = run_tool("selftest --rounds 0");
    assert_int_equal(o.status, 0);
    unsigned here = 1;
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++) {
        char start[32];
        (void)snprintf(start, sizeof start, "\n%s: ", uvcc_cpu_backend_name(b));
        assert_int_equal(strstr(o.out, start) != NULL, uvcc_cpu_backend_is_here(b));
        here += uvcc_cpu_backend_is_here(b);
    }
    assert_int_equal(lines(o.out), here);
    forget(&o);
}

static void help_and_refusals(void **state) {
    (void)state;
    outcome o = run_tool("selftest --help");
    assert_int_equal(o.status, 0);
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++)
        assert_non_null(strstr(o.out, uvcc_cpu_backend_name(b)));
    forget(&o);
    refused("selftest --backend cuda",
            "there is no back end 'cuda'; there are auto, portable, avx2, avx512, amx, cpu, gpu");
    refused("selftest --device 1", "--device does nothing without --backend gpu");
    refused("selftest --backend Portable", "there is no back end 'Portable'");
    refused("selftest --vectors nowhere", "nowhere cannot be read");
    refused("selftest --rounds -1", "--rounds -1");
    refused("selftest now", "'now' is not an option");
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++)
        if (!uvcc_cpu_backend_is_here(b)) {
            char words[64];
            (void)snprintf(words, sizeof words, "selftest --backend %s", uvcc_cpu_backend_name(b));
            refused(words, "this CPU has not what back end");
        }
}

/* The gates' vectors, in a folder of their own, with another digit `digit` of a result that is
 * shown as `shown` ("hex", "sha256"). */
static void spoil(const char *name, size_t unit, const char *result, const char *shown,
                  size_t digit) {
    char path[1024], text[256];
    size_t i;
    assert_true((size_t)snprintf(path, sizeof path, "%s/gates.json", vectors) < sizeof path);
    json_t *root = json_load_file(path, 0, NULL), *c, *of = NULL;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        json_t *u = json_array_get(json_object_get(c, "units"), unit);
        if (strcmp(json_string_value(json_object_get(c, "name")), name) == 0)
            of = json_object_get(json_object_get(u, "gives"), result);
    }
    assert_non_null(json_object_get(of, shown));
    (void)snprintf(text, sizeof text, "%s", json_string_value(json_object_get(of, shown)));
    assert_true(digit < strlen(text));
    text[digit] = text[digit] == '0' ? '1' : '0';
    assert_int_equal(json_object_set_new(of, shown, json_string(text)), 0);
    assert_true(mkdir("spoiled", 0700) == 0);
    assert_int_equal(json_dump_file(root, "spoiled/gates.json", JSON_COMPACT), 0);
    json_decref(root);
}

static void must_name(const char *what) {
    outcome o = run_tool("selftest --backend portable --vectors spoiled");
    assert_int_equal(o.status, 1);
    assert_int_equal(lines(o.err), 1);
    if (strstr(o.err, what) == NULL)
        fail_msg("'%s' does not say '%s'", o.err, what);
    forget(&o);
    remove_tree("spoiled");
}

static void wrong_results_are_named(void **state) {
    (void)state;
    spoil("TRUNC sr full TAIL", 1, "out[0]", "hex", 47); /* word 2 of 7 */
    must_name(
        "portable: spoiled/gates.json: 'TRUNC sr full TAIL': task TRUNC at TAIL, unit 1, out[0], "
        "word 2: expected 0x");
    spoil("LESS_MASK ars compact HEAD", 1, "wire_out[0]", "hex", 0);
    must_name("task LESS_MASK at HEAD, unit 1, wire_out[0], byte 0: expected 0x");
    spoil("DEAL ars compact OTHER", 3, "out_bytes[1]", "sha256", 5);
    must_name(
        "task DEAL at OTHER, unit 3, out_bytes[1], its digest is not that of the golden vector");
}

static void broken_vectors(void **state) {
    (void)state;
    assert_true(mkdir("spoiled", 0700) == 0);
    refused("selftest --vectors spoiled", "spoiled has no vectors");
    write_file("spoiled/a.json", "{\"cases\": [", 11);
    refused("selftest --vectors spoiled", "spoiled/a.json: line 1");
    const char *text = "{\"cases\": [{\"name\": \"one\", \"task\": \"NONE\"}]}";
    write_file("spoiled/a.json", text, strlen(text));
    outcome o = run_tool("selftest --backend portable --vectors spoiled");
    assert_int_equal(o.status, 1);
    assert_non_null(strstr(o.err, "portable: spoiled/a.json: a key is missing"));
    forget(&o);
    remove_tree("spoiled");
}

/* The gates' vectors with a case changed. */
static void change(const char *name, void (*how)(json_t *list, json_t *c)) {
    char path[1024];
    size_t i;
    assert_true((size_t)snprintf(path, sizeof path, "%s/gates.json", vectors) < sizeof path);
    json_t *root = json_load_file(path, 0, NULL), *c, *list = json_object_get(root, "cases");
    assert_non_null(root);
    json_array_foreach(list, i, c) {
        if (strcmp(json_string_value(json_object_get(c, "name")), name) == 0)
            how(list, c);
    }
    assert_true(mkdir("spoiled", 0700) == 0);
    assert_int_equal(json_dump_file(root, "spoiled/gates.json", JSON_COMPACT), 0);
    json_decref(root);
}

static void no_operands(json_t *list, json_t *c) {
    (void)list;
    size_t i;
    json_t *u;
    json_array_foreach(json_object_get(c, "units"), i, u) json_object_del(u, "with");
}
static void no_units(json_t *list, json_t *c) {
    (void)list;
    json_object_del(c, "units");
}
static void same_name(json_t *list, json_t *c) {
    json_t *first = json_object_get(json_array_get(list, 0), "name");
    assert_int_equal(json_object_set(c, "name", first), 0);
}

/* What a task needs and the file has not is an error that names the case, not a crash. */
static void missing_operands(void **state) {
    (void)state;
    static const struct {
        void (*how)(json_t *list, json_t *c);
        const char *says;
    } cases[] = {{no_operands, "spoiled/gates.json: 'TRUNC sr full TAIL' crashes (signal 6): an "
                               "operand is missing or too short"},
                 {no_units, "spoiled/gates.json: TRUNC sr full TAIL: it has no units"},
                 {same_name, ": two cases have this name"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        change("TRUNC sr full TAIL", cases[i].how);
        outcome o = run_tool("selftest --backend portable --vectors spoiled");
        if (o.status != 1 || strstr(o.err, cases[i].says) == NULL)
            fail_msg("status %d, signal %d: %s", o.status, o.signal, o.err);
        forget(&o);
        remove_tree("spoiled");
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_results),     cmocka_unit_test(all_backends),
        cmocka_unit_test(help_and_refusals), cmocka_unit_test(wrong_results_are_named),
        cmocka_unit_test(broken_vectors),    cmocka_unit_test(missing_operands),
    };
    if (argc < 3 || !find_tool(argv[1]))
        return 1;
    vectors = argv[2];
    return cmocka_run_group_tests(tests, enter, leave);
}
