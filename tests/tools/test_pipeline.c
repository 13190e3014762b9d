/* SPDX-License-Identifier: Apache-2.0 */
/* test_pipeline.c - `uvcc pipeline` as a user runs it: argv[1] is the binary, argv[2]
 * bench/results/pipeline.json. */
#include "run_tool.h"
#include "trace_check.h"

#include <math.h>
#include <unistd.h>

static const char *kept; /* results */

/* The four runs, and that 16 ahead hide the waits. */
static void reports(void **state) {
    (void)state;
    outcome o = run_tool("pipeline --json - --ascii --width 60");
    assert_int_equal(o.status, 0);
    json_t *all = json_loads(o.out, 0, NULL);
    assert_non_null(all);
    const json_t *list = json_object_get(all, "runs");
    assert_int_equal(json_array_size(list), 4);
    assert_true(number(all, "wait_share") >= 0.6);
    for (size_t i = 0; i < 4; i++) {
        const json_t *r = json_array_get(list, i);
        assert_int_equal(number(r, "microbatches"), i < 2 ? 32 : 128);
        assert_int_equal(number(r, "ahead"), i % 2 == 0 ? 0 : 16);
        assert_int_equal(json_array_size(json_object_get(r, "busy")), 4);
        assert_int_equal(json_array_size(json_object_get(r, "in_flight")), 4);
        assert_int_equal(json_array_size(json_object_get(r, "memory_bytes")), 4);
        assert_true(number(r, "busy_fraction") <= number(r, "bound_no_tail"));
        assert_true(number(r, "bound") <= number(r, "bound_no_tail"));
        if (i % 2 != 0) {
            assert_true(number(r, "of_bound") >= 0.9);
            assert_true(number(r, "of_bound_no_tail") >= 0.9);
        }
    }
    assert_non_null(strstr(o.err, "M 128, ahead 16\n"));
    json_decref(all);
    forget(&o);
}

/* Numbers may differ in their last bits, from compiler to compiler. */
static void same_values(json_t *a, json_t *b, const char *key) {
    const char *k;
    json_t *v;
    size_t i;
    if (json_is_real(a)) {
        if (fabs(json_real_value(a) - json_number_value(b)) > 1e-9)
            fail_msg("%s: run uvcc pipeline --json bench/results/pipeline.json", key);
        return;
    }
    if (!json_is_object(a) && !json_is_array(a)) {
        if (!json_equal(a, b))
            fail_msg("%s: run uvcc pipeline --json bench/results/pipeline.json", key);
        return;
    }
    assert_int_equal(json_object_size(a), json_object_size(b));
    assert_int_equal(json_array_size(a), json_array_size(b));
    json_array_foreach(a, i, v) same_values(v, json_array_get(b, i), key);
    json_object_foreach(a, k, v) same_values(v, json_object_get(b, k), k);
}

/* The kept results are those of now. */
static void results_are_current(void **state) {
    (void)state;
    json_t *now = json_of("pipeline", 0), *then = test_load_json(kept);
    same_values(now, then, "");
    json_decref(now);
    json_decref(then);
}

/* Rows of the width that was asked for, one per stage and run. */
static void draws_to_width(void **state) {
    (void)state;
    static const struct {
        const char *words;
        unsigned width;
    } cases[] = {{"--width 60", 60}, {"--width 24", 24}, {"--width=133", 133}};
    for (size_t i = 0; i < 3; i++) {
        char words[128];
        snprintf(words, sizeof words, "pipeline --microbatches 8 --ahead 0,2 --ascii %s",
                 cases[i].words);
        outcome o = run_tool(words);
        assert_int_equal(o.status, 0);
        assert_string_equal(o.err, "");
        unsigned rows = 0;
        for (char *line = strtok(o.out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
            if (strncmp(line, "stage ", 6) != 0)
                continue;
            rows++;
            assert_int_equal(strlen(line), cases[i].width);
            assert_int_equal(strspn(strchr(line, '|') + 1, "FB. "), strlen(strchr(line, '|')) - 2);
            assert_int_equal(line[strlen(line) - 1], '|');
        }
        assert_int_equal(rows, 8);
        forget(&o);
    }
}

static void writes_a_trace(void **state) {
    (void)state;
    outcome o = run_tool("pipeline --stages 3 --microbatches 4 --ahead 1 --trace t.json");
    assert_int_equal(o.status, 0);
    forget(&o);
    const trace_count n = trace_check("t.json");
    assert_int_equal(n.processes, 3);
    assert_int_equal(n.named, 3 * 4 * (51 + 31 + 31)); /* two parts and a wait, or one part */
    assert_true(n.tracks > 2 * 3);
    assert_int_equal(unlink("t.json"), 0);
}

static void repeats(void **state) {
    (void)state;
    outcome a = run_tool("pipeline --waits random --spread --microbatches 8 --json -");
    outcome b = run_tool("pipeline --waits random --spread --microbatches 8 --json -");
    outcome c = run_tool("pipeline --waits random --spread --microbatches 8 --seed 2 --json -");
    assert_string_equal(a.out, b.out);
    assert_string_not_equal(a.out, c.out);
    forget(&a);
    forget(&b);
    forget(&c);
}

static void refuses_bad_words(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"pipeline fly", "'fly' is not an option; see uvcc pipeline --help"},
        {"pipeline --bogus", "no option --bogus"},
        {"pipeline --stages 0", "--stages 0: give a whole number from 1 to 256"},
        {"pipeline --stages 257", "--stages 257"},
        {"pipeline --microbatches 0", "--microbatches 0"},
        {"pipeline --microbatches 8,", "--microbatches 8,"},
        {"pipeline --ahead -1", "--ahead -1"},
        {"pipeline --op-ticks 0", "--op-ticks 0"},
        {"pipeline --wait-share 1", "less than 1"},
        {"pipeline --waits never", "block|random"},
        {"pipeline --order fifo", "sends|1f1b"},
        {"pipeline --width 23", "from 24 to 1000"},
        {"pipeline --json no/such/place", "--json no/such/place"},
        {"pipeline --trace no/such/place", "--trace no/such/place: cannot be written"},
        {"pipeline --trace .", "--trace .: is a directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
}

static void helps(void **state) {
    (void)state;
    outcome o = run_tool("pipeline --help");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    assert_non_null(strstr(o.out, "--microbatches"));
    forget(&o);
    o = run_tool("--help");
    assert_non_null(strstr(o.out, "uvcc pipeline"));
    forget(&o);
}

/* Real sessions, more in flight than compute can take at once: jobs by rank are much faster than
 * jobs as they come. A single microbatch is what the bound is measured by. */
static void sessions_are_measured(void **state) {
    (void)state;
    static const char words[] =
        "pipeline --sessions --stages 2 --microbatches 1,8 --ahead 8 --wait-factor 1 "
        "--json - --order ";
    double makespan[2][2];
    static const char *const orders[] = {"sends", "arrival"};
    for (size_t k = 0; k < 2; k++) {
        char line[160];
        snprintf(line, sizeof line, "%s%s", words, orders[k]);
        outcome o = run_tool(line);
        assert_int_equal(o.status, 0);
        json_t *all = json_loads(o.out, 0, NULL);
        const json_t *list = json_object_get(all, "sessions");
        assert_int_equal(json_array_size(list), 2);
        for (size_t i = 0; i < 2; i++) {
            const json_t *r = json_array_get(list, i);
            makespan[k][i] = number(r, "makespan");
            assert_true(number(r, "busy_fraction") > 0 && number(r, "busy_fraction") <= 1);
            assert_true(i != 0 || k != 0 || number(r, "bound") == number(r, "makespan"));
        }
        json_decref(all);
        forget(&o);
    }
    assert_true(makespan[0][1] < 0.9 * makespan[1][1]);
    assert_true(makespan[0][1] < 8 * makespan[0][0]);
    outcome o = run_tool("pipeline --order arrival");
    assert_int_equal(o.status, 2);
    assert_non_null(strstr(o.err, "--order arrival goes with --sessions"));
    forget(&o);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports),
        cmocka_unit_test(results_are_current),
        cmocka_unit_test(sessions_are_measured),
        cmocka_unit_test(draws_to_width),
        cmocka_unit_test(writes_a_trace),
        cmocka_unit_test(repeats),
        cmocka_unit_test(refuses_bad_words),
        cmocka_unit_test(helps),
    };
    if (argc != 3 || !find_tool(argv[1]))
        return 1;
    kept = argv[2];
    return cmocka_run_group_tests(tests, enter, leave);
}
