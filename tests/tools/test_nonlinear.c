/* SPDX-License-Identifier: Apache-2.0 */
/* test_nonlinear.c - `uvcc nonlinear` as a user runs it: argv[1] is the binary, argv[2]
 * docs/nonlinear.md. */
#include "run_tool.h"

#include <math.h>
#include <unistd.h>
#include <uvcc/nonlinear.h>

static const char *document;

/* In the order of the report, with what a step may cost at most: rounds, bytes online and of keys
 * per element. */
static const struct {
    const char *name;
    struct {
        unsigned rounds;
        double online, keys;
    } fast, exact;
} functions[] = {
    {"sign", {3, 24, 399}, {3, 24, 627}},
    {"relu", {3, 33, 407}, {3, 33, 635}},
    {"max", {15, 33, 666}, {15, 33, 666}},
    {"argmax", {15, 49, 666}, {15, 49, 666}},
    {"exp", {3, 48, 390}, {3, 71, 520}},
    {"reciprocal", {3, 48.5, 1200}, {5, 102, 1800}},
    {"rsqrt", {3, 48.5, 1540}, {5, 101, 1700}},
    {"ln", {3, 48.5, 1200}, {5, 86, 1990}},
    {"clip", {3, 33, 440}, {3, 33, 690}},
    {"gelu", {3, 49, 422}, {3, 65.5, 515}},
    {"gelu_tanh", {3, 49, 422}, {3, 65.5, 515}},
    {"silu", {3, 49, 422}, {3, 65.5, 545}},
    {"sigmoid", {3, 48, 422}, {3, 56, 460}},
    {"tanh", {3, 48, 454}, {3, 56, 490}},
    {"gelu_derivative", {3, 48, 422}, {3, 56, 430}},
    {"silu_derivative", {3, 48, 422}, {3, 56, 460}},
    {"softmax", {15, 92, 735}, {18, 125.5, 2700}},
    {"rmsnorm", {6, 64, 13.5}, {9, 74, 1100}},
    {"layernorm", {6, 64.5, 13.5}, {9, 74.5, 1110}},
    {"rmsnorm plain", {6, 34, 13.5}, {9, 50, 565}},
    {"layernorm plain", {6, 34.5, 13.5}, {9, 50.5, 575}},
    {"cross_entropy_gradient", {15, 92, 735}, {18, 125.5, 2700}},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static json_t *quick; /* "functions" of one quick run of all */

/* The list of a run that must succeed. */
static json_t *measured(const char *words) {
    char all[512];
    snprintf(all, sizeof all, "nonlinear %s", words);
    json_t *j = json_of(all, 0), *list = json_incref(json_object_get(j, "functions"));
    assert_int_equal(json_object_size(j), 1);
    assert_true(json_is_array(list));
    json_decref(j);
    return list;
}

/* Every function twice, in order, with every key. */
static void reports_all(void **state) {
    (void)state;
    static const char *const keys[] = {
        "function",     "mode",          "inputs", "max_error",    "mean_error", "of_bound",
        "secure_equal", "compared_with", "rounds", "online_bytes", "key_bytes",  "per_s"};
    assert_int_equal(json_array_size(quick), 2 * FUNCTIONS);
    for (size_t i = 0; i < 2 * FUNCTIONS; i++) {
        const json_t *o = json_array_get(quick, i);
        assert_string_equal(test_str(o, "function"), functions[i / 2].name);
        assert_string_equal(test_str(o, "mode"), i % 2 == 0 ? "fast" : "exact");
        for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
            assert_non_null(json_object_get(o, keys[k]));
        assert_int_equal(json_object_size(o), sizeof keys / sizeof keys[0]);
        assert_true(number(o, "inputs") >= 16384);
        assert_true(number(o, "per_s") > 0);
    }
}

/* Of the first word of a name; the second may be an option. */
static const uvcc_nonlinear_info *info_of(const char *name) {
    char word[32];
    assert_int_equal(sscanf(name, "%31s", word), 1);
    return uvcc_nonlinear_at((uvcc_nonlinear)uvcc_nonlinear_find(word));
}

static const char *check_of(const char *name, bool exact) {
    const uvcc_nonlinear_info *info = info_of(name);
    const bool norm = strncmp(name, "rmsnorm", 7) == 0 || strncmp(name, "layernorm", 9) == 0;
    assert_non_null(info);
    return exact ? "reference" : norm ? "bound" : "definition";
}

/* Opened values are right, errors within nonlinear.def's bounds (blocks round besides). */
static void values_are_right(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * FUNCTIONS; i++) {
        const json_t *o = json_array_get(quick, i);
        const char *name = test_str(o, "function");
        const uvcc_nonlinear_info *info = info_of(name);
        const double most = number(o, "max_error"), mean = number(o, "mean_error");
        assert_string_equal(test_str(o, "compared_with"), check_of(name, i % 2 != 0));
        assert_true(json_is_true(json_object_get(o, "secure_equal")));
        assert_true(number(o, "of_bound") <= 1);
        assert_true(mean <= most);
        const bool exactly = strcmp(name, "relu") == 0 || strcmp(name, "clip") == 0;
        assert_true(info->bound == 0 ? most == 0 : most > 0 || exactly);
        if (info->form != UVCC_NL_BLOCK && most > info->bound)
            fail_msg("%s %s: error %g", name, test_str(o, "mode"), most);
        if (exactly && i % 2 != 0)
            assert_true(most == 0);
    }
}

static void costs_are_as_known(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * FUNCTIONS; i++) {
        const json_t *o = json_array_get(quick, i);
        const bool exact = i % 2 != 0;
        const unsigned rounds =
            exact ? functions[i / 2].exact.rounds : functions[i / 2].fast.rounds;
        const double online = exact ? functions[i / 2].exact.online : functions[i / 2].fast.online;
        const double keys = exact ? functions[i / 2].exact.keys : functions[i / 2].fast.keys;
        if (number(o, "rounds") != rounds || number(o, "online_bytes") > online ||
            number(o, "online_bytes") < 0.9 * online - 8 || number(o, "key_bytes") > keys ||
            number(o, "key_bytes") < keys / 2)
            fail_msg("%s %s: %g rounds, %g and %g bytes", test_str(o, "function"),
                     test_str(o, "mode"), number(o, "rounds"), number(o, "online_bytes"),
                     number(o, "key_bytes"));
    }
}

static bool close_to(double have, double want) {
    return fabs(have - want) <= 0.002 * want + 0.02;
}

/* The table in the document shows the rounds and bytes that are measured now. */
static void document_is_current(void **state) {
    (void)state;
    char *all = read_all(document);
    const char *at = strstr(all, "<!-- measured -->\n"),
               *end = strstr(all, "<!-- end measured -->");
    assert_non_null(at);
    assert_non_null(end);
    size_t rows = 0;
    for (; at < end; at = strchr(at, '\n') + 1) {
        char name[64], mode[8];
        double max_error, mean_error, rounds, online, keys;
        if (sscanf(at, "| `%63[^`]` | %7[a-z] | %lf | %lf | %lf | %lf | %lf |", name, mode,
                   &max_error, &mean_error, &rounds, &online, &keys) != 7)
            continue;
        const json_t *o = json_array_get(quick, rows++);
        assert_non_null(o);
        if (strcmp(name, test_str(o, "function")) != 0 || strcmp(mode, test_str(o, "mode")) != 0 ||
            rounds != number(o, "rounds") || !close_to(number(o, "online_bytes"), online) ||
            !close_to(number(o, "key_bytes"), keys))
            fail_msg("%s, %s %s: run scripts/nonlinear-table", document, name, mode);
    }
    assert_int_equal(rows, 2 * FUNCTIONS);
    free(all);
}

/* All but the time repeats, however jobs are run; another seed gives other masks. */
static void repeats(void **state) {
    (void)state;
    static const char *const runs[] = {
        "gelu --fast --inputs 1000", "gelu --fast --inputs=1000 --compute deferred",
        "gelu --fast --inputs 1000 --compute threads", "gelu --fast --inputs 1000 --seed 2"};
    json_t *list[4];
    for (size_t i = 0; i < 4; i++) {
        list[i] = measured(runs[i]);
        assert_int_equal(json_array_size(list[i]), 1);
        json_object_del(json_array_get(list[i], 0), "per_s");
    }
    assert_int_equal(number(json_array_get(list[0], 0), "inputs"), 1024); /* rows of 128 */
    assert_true(json_equal(list[0], list[1]));
    assert_true(json_equal(list[0], list[2]));
    assert_false(json_equal(list[0], list[3]));
    for (size_t i = 0; i < 4; i++)
        json_decref(list[i]);
}

/* In the report's order whatever the order of the names; one mode if one is asked for. */
static void takes_names_and_modes(void **state) {
    (void)state;
    json_t *list = measured("softmax --exact sign --inputs 128");
    assert_int_equal(json_array_size(list), 2);
    assert_string_equal(test_str(json_array_get(list, 0), "function"), "sign");
    assert_string_equal(test_str(json_array_get(list, 1), "function"), "softmax");
    assert_string_equal(test_str(json_array_get(list, 1), "mode"), "exact");
    json_decref(list);
    static const char *const plain[] = {"--plain", "layernorm --plain"};
    for (size_t i = 0; i < 2; i++) {
        char words[64];
        snprintf(words, sizeof words, "%s --fast --inputs 128", plain[i]);
        list = measured(words);
        assert_int_equal(json_array_size(list), 2 - i);
        assert_string_equal(test_str(json_array_get(list, 1 - i), "function"), "layernorm plain");
        json_decref(list);
    }
    list = measured("layernorm --fast --inputs 128");
    assert_int_equal(json_array_size(list), 1);
    assert_string_equal(test_str(json_array_get(list, 0), "function"), "layernorm");
    json_decref(list);
    outcome o = run_tool("nonlinear tanh --table --inputs 128");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    assert_int_equal(lines(o.out), 4);
    assert_non_null(strstr(o.out, "| `tanh` | exact | "));
    forget(&o);
    o = run_tool("nonlinear tanh --inputs 128 --progress --json t.json");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "bit for bit"));
    assert_non_null(strstr(o.err, "tanh exact: 128 of 128 inputs  0 s left\n"));
    json_decref(test_load_json("t.json"));
    forget(&o);
    assert_int_equal(unlink("t.json"), 0);
}

/* Elements are closed in the order they were opened, attributes quoted, no other '<' or '&'. */
static void assert_well_formed(const char *path, const char *text) {
    char open[16][16];
    size_t depth = 0, elements = 0;
    const char *at = text;
    if (strncmp(at, "<?xml ", 6) == 0)
        at = strchr(at, '>') + 1;
    for (; (at = strpbrk(at, "<&")) != NULL; at++) {
        char name[16];
        if (*at == '&') {
            assert_true(strncmp(at, "&lt;", 4) == 0 || strncmp(at, "&gt;", 4) == 0 ||
                        strncmp(at, "&amp;", 5) == 0);
            continue;
        }
        const char *end = strchr(at, '>');
        assert_non_null(end);
        size_t quotes = 0;
        for (const char *c = at; c < end; c++)
            quotes += *c == '"';
        if (quotes % 2 != 0 || sscanf(at[1] == '/' ? at + 2 : at + 1, "%15[a-z]", name) != 1)
            fail_msg("%s: %.40s", path, at);
        elements++;
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            strcpy(open[depth++], name);
        }
        at = end - 1;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 100);
}

static void plots(void **state) {
    (void)state;
    static const char *const names[] = {"relu", "rsqrt", "argmax", "cross_entropy_gradient"};
    outcome o =
        run_tool("nonlinear relu rsqrt argmax cross_entropy_gradient --inputs 4096 --plot p");
    assert_int_equal(o.status, 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "p/%s.svg", names[i]);
        char *svg = read_all(path);
        assert_well_formed(path, svg);
        assert_non_null(strstr(svg, "xmlns=\"http://www.w3.org/2000/svg\""));
        assert_non_null(strstr(svg, names[i]));
        assert_non_null(strstr(svg, ">fast: opened<"));
        assert_non_null(strstr(svg, ">exact: opened<"));
        assert_non_null(strstr(svg, "<polyline "));
        assert_null(strstr(svg, "nan"));
        assert_null(strstr(svg, "inf"));
        free(svg);
        assert_int_equal(unlink(path), 0);
    }
    forget(&o);
    assert_int_equal(rmdir("p"), 0);
}

static void stops_when_interrupted(void **state) {
    (void)state;
    outcome o = interrupt_tool("nonlinear softmax --inputs 16777216", "stdout");
    assert_int_equal(o.status, 130);
    assert_string_equal(o.err,
                        "uvcc: interrupted; what runs comes to its end first (once more ends "
                        "it at once)\nuvcc nonlinear: softmax: interrupted\n");
    assert_int_equal(lines(o.out), 1);
    forget(&o);
}

static void refuses_bad_words(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"nonlinear gel", "there is no function 'gel'; there are sign, relu, max"},
        {"nonlinear exp_", "'exp_'"},
        {"nonlinear gelu-tanh", "gelu_tanh, silu"},
        {"nonlinear rmsnorm sign --plain", "--plain is for rmsnorm and layernorm, not for sign"},
        {"nonlinear --bogus", "no option --bogus"},
        {"nonlinear -x", "no option -x"},
        {"nonlinear -", "no option -"},
        {"nonlinear --exact=1", "no option --exact=1"},
        {"nonlinear --inputs", "--inputs needs a value"},
        {"nonlinear --inputs=", "--inputs needs a value"},
        {"nonlinear --inputs 0", "--inputs 0: give a whole number from 1 to 16777216"},
        {"nonlinear --inputs -1", "--inputs -1"},
        {"nonlinear --inputs 16777217", "from 1 to"},
        {"nonlinear --inputs 1e3", "--inputs 1e3"},
        {"nonlinear --seed x", "2^64"},
        {"nonlinear --compute card", "inline|deferred|threads|gpu"},
        {"nonlinear --device 1", "--device does nothing without --compute gpu"},
        {"nonlinear --compute gpu --device x", "--device x: give a whole number from 0 to 65535"},
        {"nonlinear --json no/such/place", "--json no/such/place"},
        {"nonlinear --plot no/such/place", "--plot no/such/place"},
        {"nonlinear --plot stdout", "--plot stdout: is no directory; name one"},
        {"nonlinear --table --json -", "--table"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
}

static void helps(void **state) {
    (void)state;
    static const char *const words[] = {"--exact",   "--fast",     "--inputs", "--quick",
                                        "--json",    "--plot",     "--table",  "--seed",
                                        "--compute", "--progress", "--plain"};
    outcome o = run_tool("nonlinear --help");
    assert_int_equal(o.status, 0);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_non_null(strstr(o.out, words[i]));
    for (size_t i = 0; i < FUNCTIONS; i++)
        assert_true(strchr(functions[i].name, ' ') != NULL ||
                    strstr(o.out, functions[i].name) != NULL);
    forget(&o);
    o = run_tool("--help");
    assert_non_null(strstr(o.out, "uvcc nonlinear"));
    forget(&o);
}

static int measure_all(void **state) {
    if (enter(state) != 0)
        return -1;
    quick = measured("--quick");
    return 0;
}

static int forget_all(void **state) {
    json_decref(quick);
    return leave(state);
}

int main(int argc, char **argv) {
    if (argc != 3 || !find_tool(argv[1])) {
        fprintf(stderr, "usage: test_nonlinear PATH_OF_UVCC NONLINEAR_MD\n");
        return 2;
    }
    document = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_all),
        cmocka_unit_test(values_are_right),
        cmocka_unit_test(costs_are_as_known),
        cmocka_unit_test(document_is_current),
        cmocka_unit_test(repeats),
        cmocka_unit_test(takes_names_and_modes),
        cmocka_unit_test(plots),
        cmocka_unit_test(stops_when_interrupted),
        cmocka_unit_test(refuses_bad_words),
        cmocka_unit_test(helps),
    };
    return cmocka_run_group_tests(tests, measure_all, forget_all);
}
