/* SPDX-License-Identifier: Apache-2.0 */
/* test_tool.c - the command `uvcc train` as a user runs it: argv[1] is the binary. Key files and
 * logs have tests of their own. */
#include "run_tool.h"
#include "trace_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "t.csv"

static void same(const json_t *a, const json_t *b, const char *key, const char *words) {
    if (!json_equal(json_object_get(a, key), json_object_get(b, key))) {
        char *x = json_dumps(json_object_get(a, key), JSON_ENCODE_ANY);
        char *y = json_dumps(json_object_get(b, key), JSON_ENCODE_ANY);
        fail_msg("%s: %s differs: %s and %s", words, key, x, y);
    }
}

/* All but time_s and, where the network may differ, retransmissions. */
static void same_results(const json_t *a, const json_t *b, bool same_network, const char *words) {
    static const char *const keys[] = {
        "test_accuracy",   "reference_test_accuracy",
        "reference_equal", "weights_sha256",
        "global_root",     "steps",
        "bytes_online",    "bytes_preprocessing",
        "messages",        "rounds",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        same(a, b, keys[i], words);
    if (same_network)
        same(a, b, "retransmissions", words);
    assert_int_equal(json_object_size(b), sizeof keys / sizeof keys[0] + 2);
    assert_true(json_is_real(json_object_get(b, "time_s")));
}

static void shows_help_and_version(void **state) {
    (void)state;
    outcome o = run_tool("--version");
    assert_int_equal(o.status, 0);
    assert_int_equal(lines(o.out), 1);
    assert_int_equal(strncmp(o.out, "uvcc ", 5), 0);
    assert_string_equal(o.err, "");
    forget(&o);
    o = run_tool("--help");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "uvcc train"));
    assert_non_null(strstr(o.out, "uvcc keygen"));
    forget(&o);
    o = run_tool("train --help");
    assert_int_equal(o.status, 0);
    static const char *const options[] = {
        "data",       "label",   "hidden",   "epochs",    "batch",      "lr-shift", "frac-bits",
        "seed",       "compute", "drop",     "corrupt",   "truncation", "json",     "compute-seed",
        "fault-seed", "reorder", "progress", "duplicate", "compare",    "products", "parties"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char word[32];
        snprintf(word, sizeof word, "--%s", options[i]);
        if (strstr(o.out, word) == NULL)
            fail_msg("the help lacks %s", word);
    }
    forget(&o);
}

static void refuses_bad_options(void **state) {
    (void)state;
    write_file(FILE_NAME, "1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,6,1\n", 30);
    static const char *const cases[][2] = {
        {"", "no command"},
        {"fly", "'fly'"},
        {"train", "--data FILE is missing"},
        {"train --data", "--data needs a value"},
        {"train --data=", "--data"},
        {"train --dat t.csv", "no option --dat"},
        {"train --bogus=1 --data t.csv", "no option --bogus"},
        {"train t.csv", "'t.csv'"},
        {"train --", "'--'"},
        {"train --data t.csv --epochs 0", "--epochs 0"},
        {"train --data t.csv --epochs -1", "from 1 to 10000"},
        {"train --data t.csv --epochs 10001", "from 1 to 10000"},
        {"train --data t.csv --epochs 1e2", "--epochs 1e2"},
        {"train --data t.csv --epochs 18446744073709551617", "from 1 to 10000"},
        {"train --data t.csv --batch 12", "power of two, such as 8 or 16"},
        {"train --data t.csv --batch 0", "--batch 0"},
        {"train --data t.csv --batch 8", "4 rows to train on"},
        {"train --data t.csv --hidden 0", "--hidden 0"},
        {"train --data t.csv --hidden 4097", "from 1 to 4096"},
        {"train --data t.csv --hidden 5,", "--hidden 5,"},
        {"train --data t.csv --hidden 1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", "at most 15"},
        {"train --data t.csv --lr-shift 21", "from 0 to 20"},
        {"train --data t.csv --frac-bits 3", "from 4 to 24"},
        {"train --data t.csv --frac-bits 25", "from 4 to 24"},
        {"train --data t.csv --batch 4 --frac-bits 24 --hidden 4096", "--frac-bits"},
        {"train --data t.csv --seed -1", "--seed -1"},
        {"train --data t.csv --seed 18446744073709551616", "2^64"},
        {"train --data t.csv --truncation up", "ars|sr|ars-dcf"},
        {"train --data t.csv --compute abacus", "inline|deferred|threads"},
        {"train --data t.csv --drop 1", "less than 1"},
        {"train --data t.csv --drop -0.1", "less than 1"},
        {"train --data t.csv --drop nan", "--drop nan"},
        {"train --data t.csv --corrupt 0x1p-3", "--corrupt 0x1p-3"},
        {"train --data t.csv --drop=", "--drop"},
        {"train --data t.csv --progress=yes", "--progress takes no value"},
        {"train --data t.csv --batch 4 --json no/such/place.json", "--json no/such/place.json"},
        {"train --data t.csv --batch 4 --json .", "--json .: is a directory"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
}

#define ROWS5 "1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,6,1\n"

static void refuses_bad_files(void **state) {
    (void)state;
    static const struct {
        const char *text, *words, *part;
    } cases[] = {
        {"", "", "t.csv: the file is empty"},
        {"\n\n", "", "t.csv: the file is empty"},
        {"a,b,c\n", "", "t.csv:1:1: no rows follow the header"},
        {"1,2,0\n3,4\n", "", "t.csv:2:3: the row ends after 2 of 3 columns"},
        {"1,2,0\n3,4,1,9\n", "", "t.csv:2:4: the row has more"},
        {"1,2,0\n3,,1\n", "", "t.csv:2:2: the field is empty"},
        {"1,2,0\n3,abc,1\n", "", "t.csv:2:2: 'abc' is not a number"},
        {"1,2,0\n3,x\033[31m,1\n", "", "t.csv:2:2: 'x\\x1b[31m' is not a number"},
        {"1,2,0\n3,\xC3\xA9t\xC3,1\n", "", "t.csv:2:2: '\xC3\xA9t\\xc3' is not a number"},
        {"1,2,0\n3,aaaaaaaaaaaaaaaaaaaaaaa\xC3\xA9,1\n", "", "2:2: 'aaaaaaaaaaaaaaaaaaaaaaa...'"},
        {"1,2,0\n3,nan,1\n", "", "t.csv:2:2: 'nan'"},
        {"1,2,0\n-Inf,4,1\n", "", "t.csv:2:1: '-Inf'"},
        {"nan,nan,nan\n", "", "t.csv:1:1: 'nan'"},
        {"1,2,0\n3,NA,1\n", "", "t.csv:2:2: 'NA'"},
        {"1,2,0\n3,0x10,1\n", "", "t.csv:2:2: '0x10' is not a number"},
        {"1,2,0\n3,1e999,1\n", "", "t.csv:2:2: '1e999' is too large"},
        {"1,2,0\n3,1e,1\n", "", "t.csv:2:2"},
        {"1,2,0\n3,.,1\n", "", "t.csv:2:2"},
        {"1,2,0\n3,1 2,1\n", "", "t.csv:2:2"},
        {"1,b,0\n3,4,1\n", "", "t.csv:1:2: 'b' is not a number"},
        {"1,2,0\n3,\"4\",1\n", "", "t.csv:2:2: quoted fields"},
        {"1;2;0\n3;4;1\n", "", "separate the columns with commas"},
        {"1\t2\t0\n", "", "separate the columns with commas"},
        {"1,2,0\n3;4,1,1\n", "", "t.csv:2:1: '3;4' is not a number; separate"},
        {"5\n6\n", "", "t.csv:1:1: there is one column"},
        {"1,2,0\n\n3,4,1\n", "", "t.csv:2:1: the line is empty"},
        {"1,2,0\n3,4,-1\n", "", "t.csv:2:3: label '-1'"},
        {"1,2,0\n3,4,1.5\n", "", "t.csv:2:3: label '1.5'"},
        {"1,2,0\n3,4,4096\n", "", "t.csv:2:3: label '4096'"},
        {"1,2,0\n3,4,cat\n", "", "t.csv:2:3: 'cat' is not a number"},
        {"1,2,0\n3,4,\n", "", "t.csv:2:3: the field is empty"},
        {"1,2,0\n3,4,1\n", "", "t.csv: 2 rows are too few"},
        {ROWS5, "--label 0", "columns 1 to 3"},
        {ROWS5, "--label 4", "columns 1 to 3"},
        {ROWS5, "--label 99999999999999999999", "columns 1 to 3"},
        {ROWS5, "--label cls", "no header line"},
        {"a,b,c\n" ROWS5, "--label d", "no column has that name"},
        {"a,b,a\n" ROWS5, "--label a", "two columns are named a"},
        {"a,b,c\n1,2.5,0\n", "--label b", "t.csv:2:2: label '2.5'"},
        {"1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,1e9,1\n", "", "t.csv:5:2: this held-out value"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[128];
        write_file(FILE_NAME, cases[i].text, strlen(cases[i].text));
        snprintf(words, sizeof words, "train --data t.csv --batch 2 %s", cases[i].words);
        refused(words, cases[i].part);
    }
    write_file(FILE_NAME, "1,2,0\n3,\0004,1\n", 13);
    refused("train --data t.csv", "t.csv:2:2: '\\x004' is not a number");
    refused("train --data none.csv", "none.csv: cannot be opened: No such file");
    refused("train --data .", ".: cannot be read: Is a directory");
    refused("train --data /dev/zero", "/dev/zero:1: the line is longer than 16 MiB");
}

/* The policy is read, checked by line, and enforced: openings before anything runs, limits when
 * they are used up. */
static void keeps_to_policy(void **state) {
    (void)state;
#define POLICY "uvcc policy v1\nprogram any\n"
    static const char *const cases[][2] = {
        {"", "--policy p.txt: line 1"},
        {POLICY "opn * * to all\n", "--policy p.txt: line 3: this is no line"},
        {POLICY, "does not allow output"},
        {POLICY "open * * to all\nsteps train 2\n",
         "step 3: the policy's line 4 allows no further"},
        {POLICY "open * * to all\ninput * * 2\n", "the policy's line 4 does not allow input"},
    };
    static const char *const words = "train --data t.csv --batch 2 --policy p.txt";
    write_file(FILE_NAME, ROWS5, strlen(ROWS5));
    refused("train --data t.csv --batch 2 --policy none", "none: cannot be opened");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file("p.txt", cases[i][0], strlen(cases[i][0]));
        if (i < 3) {
            refused(words, cases[i][1]);
        } else {
            outcome o = run_tool(words);
            assert_int_equal(o.status, 1);
            assert_non_null(strstr(o.err, cases[i][1]));
            forget(&o);
        }
    }
    write_file("p.txt", POLICY "open * * to all\n", sizeof POLICY - 1 + 16);
    outcome o = run_tool(words);
    assert_int_equal(o.status, 0);
    forget(&o);
    assert_int_equal(unlink("p.txt"), 0);
}

/* Numbers that leave their range stop the run with the option to change. */
static void refuses_to_diverge(void **state) {
    (void)state;
    static char text[20000];
    size_t len = 0;
    for (unsigned i = 0; i < 60; i++) {
        for (unsigned j = 0; j < 60; j++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%d,", i % 2 != 0 ? 9 : -9);
        len += (size_t)snprintf(text + len, sizeof text - len, "%u\n", i % 2);
    }
    write_file(FILE_NAME, text, len);
    refused("train --data t.csv --batch 8 --hidden 64 --lr-shift 0 --epochs 50", "--lr-shift");
}

/* The vectors' runs, under every way to compute and with faults, give the vectors' weights and the
 * same of everything that neither depends on time nor on the network. */
static void vectors_however_it_runs(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    static const struct {
        const char *words;
        bool same_network;
    } ways[] = {
        {"", true},
        {"--compute deferred --compute-seed 1", true},
        {"--compute deferred --compute-seed 7", true},
        {"--compute deferred --compute-seed 123456789", true},
        {"--compute threads", true},
        {"--parties turns", true},
        {"--parties turns --compute threads", true},
        {"--drop 0.2 --duplicate 0.1 --reorder 0.3 --corrupt 0.01 --fault-seed 1", false},
        {"--drop 0.2 --duplicate 0.1 --reorder 0.3 --corrupt 0.01 --fault-seed 2", false},
        {"--drop 0.2 --duplicate 0.1 --reorder 0.3 --corrupt 0.01 --fault-seed 3 "
         "--compute deferred",
         false},
        {"--corrupt 0.3", false},
        {"--duplicate 0.9", false},
    };
    size_t i;
    json_t *run;
    json_array_foreach(json_object_get(vectors, "runs"), i, run) {
        char base[256];
        write_vector_csv(vectors, "", "\n");
        vector_words(run, base, sizeof base);
        json_t *first = results(base);
        check_vector(run, first);
        assert_int_equal(test_u64(first, "retransmissions"), 0);
        for (size_t w = 0; w < sizeof ways / sizeof ways[0]; w++) {
            char words[512];
            snprintf(words, sizeof words, "%s %s", base, ways[w].words);
            json_t *j = results(words);
            same_results(first, j, ways[w].same_network, words);
            json_decref(j);
        }
        /* Without keys for comparisons: the same weights by other messages. */
        char words[512];
        snprintf(words, sizeof words, "%s --compare circuit", base);
        json_t *j = results(words);
        check_vector(run, j);
        assert_true(test_u64(j, "bytes_preprocessing") < test_u64(first, "bytes_preprocessing"));
        json_decref(j);
        /* On triples: the same weights. */
        snprintf(words, sizeof words, "%s --products beaver", base);
        j = results(words);
        check_vector(run, j);
        json_decref(j);
        snprintf(words, sizeof words, "%s --truncation ars-dcf", base);
        j = results(words);
        check_vector(run, j);
        assert_true(test_u64(j, "rounds") < test_u64(first, "rounds"));
        json_decref(j);
        json_decref(first);
    }
    json_decref(vectors);
}

/* The same faults twice: the same to the last packet. */
static void repeats(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    static const char *const words[] = {
        "--data t.csv --hidden 6,5,4 --batch 2 --truncation sr",
        "--data t.csv --hidden 3 --batch 4 --drop 0.3 --reorder 0.3 --compute deferred",
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        json_t *a = results(words[i]), *b = results(words[i]);
        same_results(a, b, true, words[i]);
        json_decref(a);
        json_decref(b);
    }
    json_t *a = results("--data t.csv --hidden 3 --batch 4 --seed 5");
    json_t *b = results("--data t.csv --hidden 3 --batch 4 --seed 6");
    assert_false(
        json_equal(json_object_get(a, "weights_sha256"), json_object_get(b, "weights_sha256")));
    json_decref(a);
    json_decref(b);
    json_decref(vectors);
}

/* Line ends, a header, a byte order mark, where the label stands: the same table. */
static void reads_what_csv_files_look_like(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    const json_t *run = json_array_get(json_object_get(vectors, "runs"), 1);
    static const struct {
        const char *first, *end, *words;
    } kinds[] = {
        {"", "\r\n", ""},
        {"", "\n\n", NULL}, /* blank lines between rows are refused */
        {"w,x,y,z,class\n", "\n", "--label class"},
        {"w,x,y,z,class\r\n", "\r\n", "--label 5"},
        {"\xEF\xBB\xBF", " \n", ""},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char base[256], words[512];
        write_vector_csv(vectors, kinds[i].first, kinds[i].end);
        vector_words(run, base, sizeof base);
        if (kinds[i].words == NULL) {
            snprintf(words, sizeof words, "train %s", base);
            refused(words, "t.csv:2:1: the line is empty");
            continue;
        }
        snprintf(words, sizeof words, "%s %s", base, kinds[i].words);
        json_t *j = results(words);
        check_vector(run, j);
        json_decref(j);
    }
    /* The label first, no newline at the end. */
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(vectors, "csv"), i, line) {
        const char *text = json_string_value(line), *comma = strrchr(text, ',');
        fprintf(f, "%s%s.0, %.*s", i > 0 ? "\n" : "", comma + 1, (int)(comma - text), text);
    }
    assert_int_equal(fclose(f), 0);
    char base[256], words[512];
    vector_words(run, base, sizeof base);
    snprintf(words, sizeof words, "%s --label 1", base);
    json_t *j = results(words);
    check_vector(run, j);
    json_decref(j);
    json_decref(vectors);
}

static void writes_json_whole_or_not(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    assert_int_equal(mkdir("out", 0700), 0);
    write_file("out/r.json", "old", 3);
    outcome o = run_tool("train --data t.csv --hidden 3 --batch 4 --json out/r.json --progress");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "test accuracy"));
    assert_non_null(strstr(o.err, "reference loss"));
    assert_int_equal(lines(o.err), 5); /* one per epoch */
    forget(&o);
    json_t *j = test_load_json("out/r.json");
    json_t *again = results("--data t.csv --hidden 3 --batch 4");
    same_results(j, again, true, "file and standard output");
    json_decref(j);
    json_decref(again);

    write_file("out/r.json", "old", 3);
    o = run_tool("train --data t.csv --hidden 3 --batch 4096 --json out/r.json");
    assert_int_equal(o.status, 2);
    forget(&o);
    char *old = read_all("out/r.json");
    assert_string_equal(old, "old");
    free(old);
    assert_int_equal(unlink("out/r.json"), 0);
    assert_int_equal(rmdir("out"), 0); /* so nothing else was left in it */
    json_decref(vectors);
}

static void stops_when_interrupted(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    outcome o = interrupt_tool("train --data t.csv --hidden 64 --batch 2 --epochs 10000 --progress",
                               "stderr");
    assert_int_equal(o.status, 130);
    assert_non_null(strstr(o.err, "interrupted in step"));
    assert_string_equal(o.out, "");
    forget(&o);
    json_decref(vectors);
}

/* More held-out rows than one step predicts. */
static void predicts_in_several_steps(void **state) {
    (void)state;
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    uint64_t rng = 1;
    for (unsigned i = 0; i < 2700; i++) {
        unsigned label = (unsigned)(test_rand(&rng) % 3);
        for (unsigned j = 0; j < 3; j++)
            fprintf(f, "%u,", (unsigned)(test_rand(&rng) % 10) + (j == label ? 12 : 0));
        fprintf(f, "%u\n", label);
    }
    assert_int_equal(fclose(f), 0);
    json_t *j = results("--data t.csv --hidden 6 --epochs 1 --batch 16 --lr-shift 1");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(json_real_value(json_object_get(j, "test_accuracy")) >= 0.9);
    assert_true(json_equal(json_object_get(j, "test_accuracy"),
                           json_object_get(j, "reference_test_accuracy")));
    json_decref(j);
}

static void learns_the_digits(void **state) {
    (void)state;
    json_t *j = results("--data '" UVCC_DATA_DIR "/digits.csv' --epochs 2");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(json_real_value(json_object_get(j, "test_accuracy")) >= 0.85);
    json_decref(j);
    j = results("--data '" UVCC_DATA_DIR "/digits.csv' --epochs 2 --truncation sr");
    assert_true(json_real_value(json_object_get(j, "test_accuracy")) >= 0.85);
    json_decref(j);
}

static int leave_files(void **state) {
    (void)unlink(FILE_NAME);
    return leave(state);
}

static void refuses_sim_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"sim --bogus", "no option --bogus"},
        {"sim stray", "'stray' is not an option"},
        {"sim --seeds", "--seeds needs a value"},
        {"sim --seeds 0", "--seeds 0: give a whole number from 1 to 4294967295"},
        {"sim --seeds x", "--seeds x: give a whole number from 1"},
        {"sim --threads 65", "--threads 65: give a whole number from 1 to 64"},
        {"sim --without nope", "--without nope: give classes of faults"},
        {"sim --list empty", "--list empty: has no seed"},
        {"sim --list none", "--list none: cannot be opened: No such file or directory; check"},
        {"sim --seeds 1 --json no/such", "--json no/such: cannot be written"},
    };
    write_file("empty", "# none\n", 7);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    assert_int_equal(unlink("empty"), 0);
}

/* The rows of "ops": everything that was sent is some op's or the steps', and shares are whole. */
static void check_profile(const json_t *j) {
    const json_t *list = json_object_get(j, "ops");
    double compute = 0, waits = 0, sent = 0;
    uint64_t keys = 0, online = 0;
    assert_true(json_array_size(list) >= 8);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        assert_true(test_u64(o, "count") > 0);
        compute += json_number_value(json_object_get(o, "compute_share"));
        waits += json_number_value(json_object_get(o, "wait_share"));
        sent += json_number_value(json_object_get(o, "bytes_share"));
        keys += test_u64(o, "bytes_preprocessing");
        online += test_u64(o, "bytes_online");
    }
    assert_int_equal(keys, test_u64(j, "bytes_preprocessing"));
    assert_true(online < test_u64(j, "bytes_online"));
    assert_true(compute > 0.999 && compute < 1.001);
    assert_true(waits > 0.999 && waits < 1.001);
    assert_true(sent > 0.9 && sent < 1);
}

/* Sums over the rows of a list of the profile. */
typedef struct cost {
    uint64_t bytes[2], formula[2];
} cost;

static cost cost_of(const json_t *j, const char *key) {
    const json_t *list = json_object_get(j, key);
    cost sum = {{0}, {0}};
    assert_true(json_array_size(list) > 0);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const uint64_t sent[2] = {test_u64(o, "bytes_online"), test_u64(o, "bytes_preprocessing")};
        const uint64_t formula[2] = {test_u64(o, "formula_online_bytes"),
                                     test_u64(o, "formula_key_bytes")};
        for (unsigned b = 0; b < 2; b++) {
            assert_true(sent[b] >= formula[b] && (sent[b] == 0) == (formula[b] == 0));
            sum.bytes[b] += sent[b];
            sum.formula[b] += formula[b];
        }
    }
    return sum;
}

/* The three lists are of the same bytes, and all rounds are those of entries. */
static void check_cost(const json_t *j) {
    const cost ops = cost_of(j, "ops"), layers = cost_of(j, "layers"), all = cost_of(j, "entries");
    const json_t *entries = json_object_get(j, "entries");
    uint64_t rounds = 0;
    assert_memory_equal(&ops, &layers, sizeof ops);
    assert_memory_equal(&ops, &all, sizeof ops);
    assert_true(ops.formula[0] > 0 && ops.formula[1] > 0);
    for (size_t i = 0; i < json_array_size(entries); i++)
        rounds += test_u64(json_array_get(entries, i), "rounds") *
                  test_u64(json_array_get(entries, i), "steps");
    assert_int_equal(rounds, test_u64(j, "rounds"));
}

/* Some part was under way for as long as their sum says, divided by how many at a time. */
static void check_overlap(const json_t *j) {
    const json_t *o = json_object_get(j, "overlap");
    const double at = json_number_value(json_object_get(o, "at_the_same_time"));
    assert_true(json_number_value(json_object_get(o, "fss_s")) > 0);
    assert_true(json_number_value(json_object_get(o, "sessions_s")) > 0);
    assert_true(at > 0 && at <= 7); /* parts */
}

static void write_rows(unsigned rows) {
    static char text[4096];
    size_t len = 0;
    for (unsigned i = 0; i < rows; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%u,%u,%u\n", i % 7, i * 3 % 5, i % 2);
    write_file(FILE_NAME, text, len);
}

/* A trace is a file that Perfetto reads; it and the profile change nothing of the run. */
static void traces_and_profiles(void **state) {
    (void)state;
    static const char words[] = "--data t.csv --batch 4 --hidden 5 --epochs 2";
    write_rows(40);
    json_t *plain = results(words);
    static const char *const modes[] = {"inline", "deferred", "threads"};
    for (size_t i = 0; i < 3; i++) {
        char all[256];
        snprintf(all, sizeof all, "%s --compute %s --trace t.json --profile", words, modes[i]);
        json_t *j = results(all);
        check_profile(j);
        check_cost(j);
        check_overlap(j);
        json_object_del(j, "ops");
        json_object_del(j, "layers");
        json_object_del(j, "entries");
        json_object_del(j, "overlap");
        same_results(plain, j, false, all);
        const trace_count n = trace_check("t.json");
        assert_int_equal(n.processes, 3);
        assert_true(n.tracks >= 2 * 3);
        /* Each op of each training step at each party: the first layer's product alone is 2 * 8. */
        assert_true(trace_slices("t.json", "RELU") >= 3 * 2 * 8);
        assert_true(trace_slices("t.json", "RELU keys") > 0);
        assert_true(trace_slices("t.json", "GEMM_SS hash") > 0);
        assert_true(trace_slices("t.json", "wait") > 0);
        json_decref(j);
        assert_int_equal(unlink("t.json"), 0);
    }
    json_decref(plain);
    json_t *beaver = results("--data t.csv --batch 4 --hidden 5 --profile --products beaver");
    check_profile(beaver);
    check_cost(beaver);
    json_decref(beaver);
    outcome o = run_tool("train --data t.csv --batch 4 --hidden 5 --epochs 1 --profile");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "\nGEMM_SS "));
    assert_non_null(strstr(o.out, "\nsteps, roots "));
    assert_non_null(strstr(o.out, "\nblock 0 backward "));
    assert_non_null(strstr(o.out, "\ntrain (of "));
    forget(&o);
    refused("train --data t.csv --batch 4 --trace no/such/place", "--trace no/such/place");
    refused("train --data t.csv --batch 4 --trace .", "--trace .: is a directory");
    assert_int_equal(unlink(FILE_NAME), 0);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1])) {
        fprintf(stderr, "usage: test_tool PATH_OF_UVCC\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_help_and_version),
        cmocka_unit_test(refuses_bad_options),
        cmocka_unit_test(refuses_bad_files),
        cmocka_unit_test(keeps_to_policy),
        cmocka_unit_test(refuses_to_diverge),
        cmocka_unit_test(vectors_however_it_runs),
        cmocka_unit_test(repeats),
        cmocka_unit_test(reads_what_csv_files_look_like),
        cmocka_unit_test(writes_json_whole_or_not),
        cmocka_unit_test(stops_when_interrupted),
        cmocka_unit_test(predicts_in_several_steps),
        cmocka_unit_test(learns_the_digits),
        cmocka_unit_test(refuses_sim_options),
        cmocka_unit_test(traces_and_profiles),
    };
    return cmocka_run_group_tests(tests, enter, leave_files);
}
