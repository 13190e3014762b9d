/* test_tool.c - the command `uvcc` as a user runs it: argv[1] is the binary. */
#include "run_tool.h"
#include "trace_check.h"

#include "exec/session/record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_NAME "t.csv"

/* A run that must succeed; its JSON. */
static json_t *results(const char *words) {
    char all[1024];
    snprintf(all, sizeof all, "train %s", words);
    return json_of(all, 0);
}

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
        "fault-seed", "reorder", "progress", "duplicate", "compare",    "products"};
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
        {"train --data t.csv --batch 4 --hidden 4096,1000", "a step is too large"},
        {"train --data t.csv --seed -1", "--seed -1"},
        {"train --data t.csv --seed 18446744073709551616", "2^64"},
        {"train --data t.csv --truncation up", "ars|sr|ars-dcf"},
        {"train --data t.csv --compute gpu", "inline|deferred|threads"},
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
    refused("train --data t.csv", "t.csv:2:2: '?4' is not a number");
    refused("train --data none.csv", "none.csv: cannot be opened: No such file");
    refused("train --data .", ".: cannot be read: Is a directory");
    refused("train --data /dev/zero", "/dev/zero:1: the line is longer than 16 MiB");
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

/* The CSV of mlp.json, with what stands before each line's end. */
static void write_vector_csv(const json_t *vectors, const char *first, const char *end) {
    FILE *f = fopen(FILE_NAME, "wb");
    assert_non_null(f);
    fputs(first, f);
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(vectors, "csv"), i, line)
        fprintf(f, "%s%s", json_string_value(line), end);
    assert_int_equal(fclose(f), 0);
}

static void vector_words(const json_t *run, char *words, size_t room) {
    int n = snprintf(words, room,
                     "--data %s --epochs %u --batch %u --lr-shift %u --seed %u "
                     "--frac-bits %u --hidden ",
                     FILE_NAME, (unsigned)test_u64(run, "epochs"), (unsigned)test_u64(run, "batch"),
                     (unsigned)test_u64(run, "lr_shift"), (unsigned)test_u64(run, "seed"),
                     (unsigned)test_u64(run, "frac_bits"));
    size_t i;
    json_t *units;
    json_array_foreach(json_object_get(run, "hidden"), i, units) n += snprintf(
        words + n, room - (size_t)n, "%s%d", i > 0 ? "," : "", (int)json_integer_value(units));
}

static void check_vector(const json_t *run, const json_t *j) {
    assert_string_equal(test_str(j, "weights_sha256"), test_str(run, "weights_sha256"));
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_int_equal(test_u64(j, "steps"), test_u64(run, "steps"));
    same(j, j, "test_accuracy", "");
    assert_true(json_equal(json_object_get(j, "test_accuracy"),
                           json_object_get(j, "reference_test_accuracy")));
    const json_t *roots = json_object_get(j, "global_root");
    assert_int_equal(json_array_size(roots), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(strlen(json_string_value(json_array_get(roots, i))), 64);
    assert_true(test_u64(j, "bytes_online") > 0 && test_u64(j, "bytes_preprocessing") > 0);
    assert_true(test_u64(j, "messages") > 0 && test_u64(j, "rounds") > 0);
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
    json_t *j = results("--data " UVCC_DATA_DIR "/digits.csv --epochs 2");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(json_real_value(json_object_get(j, "test_accuracy")) >= 0.85);
    json_decref(j);
    j = results("--data " UVCC_DATA_DIR "/digits.csv --epochs 2 --truncation sr");
    assert_true(json_real_value(json_object_get(j, "test_accuracy")) >= 0.85);
    json_decref(j);
}

static int leave_files(void **state) {
    (void)unlink(FILE_NAME);
    static const char *const keys[] = {"a.key",   "b.key",    "c.key",  "pair.key",
                                       "bad.key", "good.key", "to.key", "pipe.key"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        (void)unlink(keys[i]);
    return leave(state);
}

/* ---- key files ---- */

#define IDENTITY "uvcc identity v1\n"
#define PAIR     "uvcc pair secret v1\n"
#define DIGITS   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
/* Ed25519 public key of the seed 00 01 .. 1f, by another program. */
#define DIGITS_PUBLIC "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

static unsigned mode_of(const char *path) {
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return (unsigned)(st.st_mode & 07777);
}

static void key_file(const char *path, const char *text) {
    (void)unlink(path);
    write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
}

/* Standard output of a run that must succeed in silence. Free it. */
static char *output_of(const char *words) {
    outcome o = run_tool(words);
    if (o.status != 0 || *o.err != '\0')
        fail_msg("uvcc %s\n  status %d\n  %s", words, o.status, o.err);
    free(o.err);
    return o.out;
}

static void makes_identities(void **state) {
    (void)state;
    (void)unlink("a.key");
    (void)unlink("b.key");
    char *a = output_of("keygen --out a.key");
    mode_t old = umask(0777); /* takes nothing from the mode */
    char *b = output_of("keygen --out=b.key");
    umask(old);
    assert_int_equal(mode_of("a.key"), 0600);
    assert_int_equal(mode_of("b.key"), 0600);
    assert_true(strlen(a) == 65 && strspn(a, "0123456789abcdef") == 64 && a[64] == '\n');
    assert_string_not_equal(a, b);
    char *text = read_all("a.key"), *other = read_all("b.key");
    assert_int_equal(strlen(text), strlen(IDENTITY) + 65);
    assert_int_equal(strncmp(text, IDENTITY, strlen(IDENTITY)), 0);
    assert_string_not_equal(text, other);
    char *again = output_of("keygen --public a.key");
    assert_string_equal(a, again);

    /* Never overwritten. */
    refused("keygen --out a.key", "a.key: exists");
    refused("keygen --pair --out a.key", "a.key: exists");
    assert_int_equal(symlink("nowhere.key", "link.key"), 0);
    refused("keygen --out link.key", "link.key: exists");
    assert_int_equal(access("nowhere.key", F_OK), -1);
    char *still = read_all("a.key");
    assert_string_equal(text, still);
    assert_int_equal(unlink("link.key"), 0);
    free(a);
    free(b);
    free(text);
    free(other);
    free(again);
    free(still);

    key_file("c.key", IDENTITY DIGITS "\n");
    char *known = output_of("keygen --public c.key");
    assert_string_equal(known, DIGITS_PUBLIC "\n");
    free(known);
}

static void makes_pair_secrets(void **state) {
    (void)state;
    (void)unlink("pair.key");
    char *out = output_of("keygen --pair --out pair.key");
    assert_string_equal(out, ""); /* a secret is never shown */
    free(out);
    assert_int_equal(mode_of("pair.key"), 0600);
    char *text = read_all("pair.key");
    assert_int_equal(strlen(text), strlen(PAIR) + 65);
    assert_int_equal(strncmp(text, PAIR, strlen(PAIR)), 0);
    free(text);
    refused("keygen --public pair.key", "holds a pair secret; an identity is needed");
}

static void refuses_key_files(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "\n",
        "uvcc",
        IDENTITY,
        IDENTITY "\n",
        IDENTITY DIGITS,
        IDENTITY DIGITS "\n\n",
        IDENTITY DIGITS " \n",
        IDENTITY " " DIGITS "\n",
        IDENTITY DIGITS "00\n",
        IDENTITY DIGITS "\r\n",
        "uvcc identity v2\n" DIGITS "\n",
        "uvcc identity v1\r\n" DIGITS "\n",
        DIGITS "\n",
        IDENTITY "000102030405060708090A0B0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        IDENTITY "000102030405060708090g0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        IDENTITY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1\n\n",
        IDENTITY DIGITS DIGITS DIGITS DIGITS "\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        key_file("bad.key", texts[i]);
        refused("keygen --public bad.key", "bad.key: is ");
    }
    key_file("good.key", IDENTITY DIGITS "\n");
    static const unsigned modes[] = {0644, 0640, 0604, 0660, 0606, 0700, 0400, 04600, 01600};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char part[32];
        assert_int_equal(chmod("good.key", (mode_t)modes[i]), 0);
        snprintf(part, sizeof part, "mode %04o", modes[i]);
        refused("keygen --public good.key", part);
    }
    assert_int_equal(chmod("good.key", 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown("good.key", 1234, (gid_t)-1), 0);
        refused("keygen --public good.key", "another user (1234)");
        assert_int_equal(chown("good.key", 0, (gid_t)-1), 0);
    }
    free(output_of("keygen --public good.key"));
    (void)unlink("to.key");
    assert_int_equal(symlink("good.key", "to.key"), 0);
    refused("keygen --public to.key", "symbolic link");
    assert_int_equal(mkfifo("pipe.key", 0600), 0);
    refused("keygen --public pipe.key", "no regular file");
    refused("keygen --public .", "no regular file");
    refused("keygen --public /dev/null", "no regular file");
    refused("keygen --public none.key", "none.key: cannot be opened: No such file");
    refused("keygen --out no/such/place.key", "cannot be made: No such file");
    refused("keygen --out .", "exists");
}

static void refuses_keygen_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"keygen", "--out FILE is missing"},
        {"keygen --pair", "--out FILE is missing"},
        {"keygen --out", "--out needs a value"},
        {"keygen --out=", "--out: the file is empty"},
        {"keygen --public", "--public needs a value"},
        {"keygen --out x.key --out y.key", "--out is given twice"},
        {"keygen --public x.key --out y.key", "--public stands alone"},
        {"keygen --public x.key --pair", "--public stands alone"},
        {"keygen --pairs --out x.key", "no option --pairs"},
        {"keygen --pair=1 --out x.key", "no option --pair=1"},
        {"keygen --outer x.key", "no option --outer"},
        {"keygen x.key", "'x.key' is no option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    assert_int_equal(access("x.key", F_OK), -1);
    char *help = output_of("keygen --help");
    assert_non_null(strstr(help, "--pair"));
    free(help);
}

/* ---- logs and replays ---- */

#define LOG "logs/party0.uvlog"

static char *read_bytes(const char *path, size_t *len) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    *len = (size_t)st.st_size;
    return read_all(path);
}

static void remove_logs(void) {
    for (unsigned p = 0; p < 3; p++) {
        char path[64];
        snprintf(path, sizeof path, "logs/party%u.uvlog", p);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir("logs"), 0); /* so nothing else was left in it */
}

static json_t *replay_json(const char *words, int status) {
    char all[1024];
    snprintf(all, sizeof all, "replay %s", words);
    return json_of(all, status);
}

/* The vectors' runs, heavily disturbed and computed late, run again under every way to compute. */
static void records_and_replays(void **state) {
    (void)state;
    static const char *const modes[] = {"inline", "deferred", "threads"};
    json_t *vectors = LOAD_VECTORS("mlp.json"), *run;
    size_t i;
    json_array_foreach(json_object_get(vectors, "runs"), i, run) {
        char base[256], words[512];
        write_vector_csv(vectors, "", "\n");
        vector_words(run, base, sizeof base);
        snprintf(words, sizeof words,
                 "%s --drop 0.2 --duplicate 0.1 --reorder 0.3 --corrupt 0.1 --compute deferred "
                 "--record logs%s",
                 base, i == 1 ? " --compare circuit --products beaver" : "");
        json_t *result = results(words);
        check_vector(run, result);
        json_decref(result);
        for (unsigned p = 0; p < 3; p++) {
            json_t *first = NULL;
            struct stat st;
            for (unsigned m = 0; m < 3; m++) {
                snprintf(words, sizeof words, "logs/party%u.uvlog --compute %s", p, modes[m]);
                json_t *j = replay_json(words, 0);
                assert_true(json_is_true(json_object_get(j, "equal")));
                assert_true(json_is_null(json_object_get(j, "first_difference")));
                assert_int_equal(test_u64(j, "records"), test_u64(j, "records_equal"));
                assert_true(test_u64(j, "steps") > test_u64(run, "steps"));
                if (first == NULL)
                    first = json_incref(j);
                assert_true(json_equal(first, j));
                json_decref(j);
            }
            snprintf(words, sizeof words, "logs/party%u.uvlog", p);
            assert_int_equal(stat(words, &st), 0);
            assert_int_equal(st.st_mode & 07777, 0600);
            assert_int_equal(st.st_size, test_u64(first, "bytes"));
            json_decref(first);
        }
        remove_logs();
    }
    json_decref(vectors);
}

typedef struct bytes {
    uint8_t *p;
    size_t len;
} bytes;

static void append(void *user, const uint8_t *p, size_t len) {
    bytes *b = user;
    b->p = realloc(b->p, b->len + len);
    assert_non_null(b->p);
    memcpy(b->p + b->len, p, len);
    b->len += len;
}

/* The log with one byte of its n-th record of a type changed, or its header's host bytes, and right
 * checksums. Returns the record's index. */
static uint64_t forge(const char *log, size_t len, uint8_t type, unsigned n, const char *app) {
    bytes out = {0};
    uvcci_record_writer w;
    uvcc_record_reader rd;
    uvcc_record r;
    uint64_t index = 0;
    uint8_t other[4096];
    uvcci_record_begin(&w, &(uvcc_recorder){.write = append, .user = &out});
    uvcc_record_reader_init(&rd, (const uint8_t *)log, len);
    while (uvcc_record_next(&rd, &r) == 1) {
        if (r.type == UVCC_RECORD_HEADER && app != NULL)
            r.data[2] = (uvcc_slice){(const uint8_t *)app, strlen(app)};
        if (app == NULL && r.type == type && n-- == 0) {
            index = r.index;
            assert_in_range(r.data[0].len, 1, sizeof other);
            memcpy(other, r.data[0].data, r.data[0].len);
            other[r.data[0].len / 2] ^= 1;
            r.data[0].data = other;
        }
        uvcci_record_put(&w, &r);
    }
    write_file("forged", (const char *)out.p, out.len);
    free(out.p);
    return index;
}

static void finds_what_differs(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    json_decref(vectors);
    json_decref(results("--data t.csv --hidden 3 --batch 4 --epochs 1 --record logs"));

    size_t len;
    char *log = read_bytes(LOG, &len), path[128], where[128];
    uint64_t index = forge(log, len, UVCC_RECORD_FEED, 20, NULL);
    json_t *j = replay_json("forged", 1);
    assert_true(json_is_false(json_object_get(j, "equal")));
    assert_true(test_u64(json_object_get(j, "first_difference"), "record") >= index);
    json_decref(j);
    outcome o = run_tool("replay forged");
    assert_int_equal(o.status, 1);
    assert_int_equal(lines(o.err), 1);
    assert_non_null(strstr(o.err, "uvcc replay: forged: the first difference is at record"));
    forget(&o);
    snprintf(path, sizeof path, "replay forged --until %llu", (unsigned long long)index - 1);
    o = run_tool(path);
    assert_int_equal(o.status, 0);
    forget(&o);

    /* Cut and altered logs: where. */
    uvcc_record_reader rd;
    uvcc_record r;
    uvcc_record_reader_init(&rd, (const uint8_t *)log, len);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(uvcc_record_next(&rd, &r), 1);
    snprintf(where, sizeof where, "forged: record 29 at byte %llu: the log ends within it",
             (unsigned long long)r.offset);
    write_file("forged", log, (size_t)(r.offset + r.bytes - 1));
    refused("replay forged", where);
    o = run_tool("replay forged --print");
    assert_int_equal(o.status, 2);
    assert_int_equal(lines(o.out), 29);
    assert_non_null(strstr(o.err, where));
    forget(&o);
    snprintf(where, sizeof where, "forged: record 29 at byte %llu: its checksum",
             (unsigned long long)r.offset);
    log[r.offset + r.bytes - 1] ^= 1;
    write_file("forged", log, len);
    log[r.offset + r.bytes - 1] ^= 1;
    refused("replay forged", where);
    o = run_tool("replay forged --print --until 28");
    assert_int_equal(o.status, 0);
    assert_int_equal(lines(o.out), 29);
    forget(&o);

    /* Headers that do not say what the program is. */
    forge(log, len, 0, 0, "");
    refused("replay forged", "it is empty");
    forge(log, len, 0, 0, "{]");
    refused("replay forged", "it is not JSON");
    forge(log, len, 0, 0, "{\"tool\":\"another\"}");
    refused("replay forged", "not of uvcc train");
    forge(log, len, 0, 0, "{\"tool\":\"uvcc train\",\"mlp\":{\"features\":-1}}");
    refused("replay forged", "out of range");
    uvcc_record_reader_init(&rd, (const uint8_t *)log, len);
    assert_int_equal(uvcc_record_next(&rd, &r), 1);
    char app[4096];
    assert_true(r.data[2].len < sizeof app);
    memcpy(app, r.data[2].data, r.data[2].len);
    app[r.data[2].len] = '\0';
    char *batch = strstr(app, "\"batch\":4");
    assert_non_null(batch);
    batch[8] = '8';
    forge(log, len, 0, 0, app);
    refused("replay forged", "another program");
    batch[8] = '0';
    forge(log, len, 0, 0, app);
    refused("replay forged", "cannot be built");
    assert_int_equal(unlink("forged"), 0);
    free(log);
    remove_logs();
}

/* What is printed lists every record, and no secret. */
static void prints_records(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    json_decref(vectors);
    json_decref(results("--data t.csv --hidden 3 --batch 4 --epochs 1 --record logs"));
    json_t *j = replay_json(LOG, 0);
    outcome o = run_tool("replay --print " LOG);
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    assert_int_equal(lines(o.out), test_u64(j, "records"));
    assert_int_equal(strncmp(o.out, "0 @8 HEADER ", 12), 0);
    json_decref(j);
    size_t len;
    char *log = read_bytes(LOG, &len);
    uvcc_record_reader rd;
    uvcc_record r;
    uvcc_record_reader_init(&rd, (const uint8_t *)log, len);
    unsigned secrets = 0;
    while (uvcc_record_next(&rd, &r) == 1) {
        if (r.type != UVCC_RECORD_RANDOM && r.type != UVCC_RECORD_INPUT)
            continue;
        char hex[17];
        for (unsigned i = 0; i < 8; i++)
            snprintf(hex + 2 * i, 3, "%02x", r.data[0].data[i]);
        secrets++;
        if (strcmp(hex, "0000000000000000") != 0)
            assert_null(strstr(o.out, hex));
    }
    assert_true(secrets > 10);
    forget(&o);
    free(log);

    /* Logs are not replaced, but with --force. */
    struct stat before, after;
    assert_int_equal(stat(LOG, &before), 0);
    refused("train --data t.csv --hidden 3 --batch 4 --record logs", "give --force");
    assert_int_equal(stat(LOG, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    json_decref(results("--data t.csv --hidden 3 --batch 8 --epochs 1 --record logs --force"));
    json_decref(replay_json(LOG, 0));
    remove_logs();
    refused("train --data t.csv --hidden 3 --batch 4 --record t.csv", "--record t.csv");
    refused("train --data t.csv --hidden 3 --batch 4 --record no/such", "cannot be made");
    /* A run that does not begin leaves nothing. */
    refused("train --data t.csv --hidden 3 --batch 4096 --record logs", "--batch");
    assert_int_equal(access("logs", F_OK), -1);
}

static void refuses_sim_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"sim --bogus", "no option '--bogus'"},
        {"sim stray", "no option 'stray'"},
        {"sim --seeds", "--seeds needs a value"},
        {"sim --seeds 0", "--seeds 0: give a whole number from 1 to 4294967295"},
        {"sim --seeds x", "--seeds x: give a whole number from 1"},
        {"sim --threads 65", "--threads 65: give a whole number from 1 to 64"},
        {"sim --without nope", "--without nope: give classes of faults"},
        {"sim --list none", "--list none: cannot be opened: No such file or directory; check"},
        {"sim --seeds 1 --json no/such", "--json no/such: cannot be written"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
}

static void refuses_replay_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"replay", "no log is given"},
        {"replay a b", "'b'"},
        {"replay a --until", "--until needs a value"},
        {"replay a --until x", "--until x"},
        {"replay a --until -1", "--until -1"},
        {"replay a --compute late", "--compute late"},
        {"replay a --json", "--json needs a value"},
        {"replay a --json - --print", "leave --json out"},
        {"replay a --bogus=1", "no option --bogus"},
        {"replay a --un 4", "no option --un"},
        {"replay no.uvlog", "no.uvlog: cannot be opened: No such file or directory; check"},
        {"replay .", "no regular file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    write_file("empty", "", 0);
    refused("replay empty", "empty: record 0 at byte 0: this is no session log");
    assert_int_equal(unlink("empty"), 0);
    char *help = output_of("replay --help");
    assert_non_null(strstr(help, "--until"));
    assert_non_null(strstr(help, "secrets"));
    free(help);
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
        json_object_del(j, "ops");
        json_object_del(j, "layers");
        json_object_del(j, "entries");
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
        cmocka_unit_test(refuses_to_diverge),
        cmocka_unit_test(vectors_however_it_runs),
        cmocka_unit_test(repeats),
        cmocka_unit_test(reads_what_csv_files_look_like),
        cmocka_unit_test(writes_json_whole_or_not),
        cmocka_unit_test(stops_when_interrupted),
        cmocka_unit_test(predicts_in_several_steps),
        cmocka_unit_test(learns_the_digits),
        cmocka_unit_test(makes_identities),
        cmocka_unit_test(makes_pair_secrets),
        cmocka_unit_test(refuses_key_files),
        cmocka_unit_test(refuses_keygen_options),
        cmocka_unit_test(records_and_replays),
        cmocka_unit_test(finds_what_differs),
        cmocka_unit_test(prints_records),
        cmocka_unit_test(refuses_sim_options),
        cmocka_unit_test(refuses_replay_options),
        cmocka_unit_test(traces_and_profiles),
    };
    return cmocka_run_group_tests(tests, enter, leave_files);
}
