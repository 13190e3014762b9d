/* SPDX-License-Identifier: Apache-2.0 */
/* test_replay.c - `uvcc train --record` and `uvcc replay` as a user runs them: argv[1] is the
 * binary. */
#include "run_tool.h"

#include "exec/session/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* The log with one byte of its n-th record of a type changed, or its header's host bytes, and right
 * checksums. Returns the record's index. */
static uint64_t forge(const char *log, size_t len, uint8_t type, unsigned n, const char *app) {
    test_bytes out = {0};
    uvcci_record_writer w;
    uvcc_record_reader rd;
    uvcc_record r;
    uint64_t index = 0;
    uint8_t other[4096];
    uvcci_record_begin(&w, &(uvcc_recorder){.write = test_append, .user = &out});
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

/* Cut and altered logs: where. */
static void finds_damage(char *log, size_t len) {
    char where[128];
    outcome o;
    uvcc_record_reader rd;
    uvcc_record r;
    uvcc_record_reader_init(&rd, (const uint8_t *)log, len);
    for (unsigned i = 0; i < 30; i++)
        assert_int_equal(uvcc_record_next(&rd, &r), 1);
    snprintf(where, sizeof where, "forged: record 29 at byte %llu: the log ends within it",
             (unsigned long long)r.offset);
    write_file("forged", log, (size_t)(r.offset + r.bytes - 1));
    refused("replay forged", where);
    json_t *j = replay_json("forged", 2);
    assert_true(json_is_null(json_object_get(j, "equal")));
    assert_true(json_is_null(json_object_get(j, "digest")));
    assert_non_null(strstr(test_str(j, "error"), where));
    json_decref(j);
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
}

/* Headers that do not say what the program is. */
static void needs_a_program(const char *log, size_t len) {
    uvcc_record_reader rd;
    uvcc_record r;
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
}

/* A record that is not what came out then, a log that is cut, a header that is another's. */
static void finds_what_differs(void **state) {
    (void)state;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    json_decref(vectors);
    json_decref(results("--data t.csv --hidden 3 --batch 4 --epochs 1 --record logs"));

    size_t len;
    char *log = read_bytes(LOG, &len), path[128];
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
    finds_damage(log, len);
    needs_a_program(log, len);
    assert_int_equal(unlink("forged"), 0);
    free(log);
    remove_logs();
}

/* A record that the log does not have is none to stop at. */
static void stops_within(uint64_t records) {
    static const char *const more[] = {"", " --print"};
    for (unsigned i = 0; i < 2; i++) {
        char words[128], part[128];
        snprintf(words, sizeof words, "replay " LOG " --until %llu%s",
                 (unsigned long long)records - 1, more[i]);
        outcome o = run_tool(words);
        assert_int_equal(o.status, 0);
        forget(&o);
        snprintf(words, sizeof words, "replay " LOG " --until %llu%s", (unsigned long long)records,
                 more[i]);
        snprintf(part, sizeof part, "has %llu records, the last one is %llu",
                 (unsigned long long)records, (unsigned long long)records - 1);
        o = run_tool(words);
        assert_int_equal(o.status, 2);
        assert_non_null(strstr(o.err, part));
        forget(&o);
    }
}

/* Of two processes one would lose its logs when it ends. */
static void one_writer_at_a_time(void) {
    assert_int_equal(mkdir("logs", 0700), 0);
    const int fd = open("logs", O_RDONLY | O_DIRECTORY);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    refused("train --data t.csv --hidden 3 --batch 4 --record logs",
            "--record logs: another process writes its logs there; wait for its end, or give");
    refused("train --data t.csv --hidden 3 --batch 4 --record logs --force", "another process");
    assert_int_equal(close(fd), 0);
    json_decref(results("--data t.csv --hidden 3 --batch 4 --epochs 1 --record logs"));
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
    stops_within(test_u64(j, "records"));
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
    one_writer_at_a_time();
    /* A run that does not begin leaves nothing. */
    refused("train --data t.csv --hidden 3 --batch 4096 --record logs", "--batch");
    assert_int_equal(access("logs", F_OK), -1);
}

#define WORKERS                                                                                    \
    "train --model transformer --text text --layers 2 --stages 2 --dim 8 --heads 2 --tensor 2 "    \
    "--replicas 2 --context 4 --batch 8 --steps 2 --record logs "

/* What other workers gave matters, unless nothing hangs on it. */
static void forged_gift(const char *path) {
    size_t len;
    unsigned seen = 0;
    char *log = read_bytes(path, &len);
    for (unsigned n = 0; n < 4; n++) {
        const uint64_t index = forge(log, len, UVCC_RECORD_COMPLETE_LOCAL, n, NULL);
        outcome o = run_tool("replay forged");
        assert_true(index != 0 && (o.status == 0 || o.status == 1));
        seen += o.status == 1;
        forget(&o);
    }
    assert_true(seen >= 2);
    free(log);
}

/* Each of a party's workers alone: what the others gave it stands in its log. */
static void replays_one_of_many(void **state) {
    (void)state;
    static const char *const modes[] = {"inline", "deferred"};
    char path[128], words[512], text[300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "three parties train together, and none of them sees. "[i % 53];
    write_file("text", text, sizeof text);
    json_decref(json_of(WORKERS "--compute deferred --drop 0.1 --reorder 0.2", 0));
    for (unsigned k = 0; k < 24; k++) {
        snprintf(path, sizeof path, "logs/party%u-r%u-s%u-t%u.uvlog", k / 8, k / 4 % 2, k / 2 % 2,
                 k % 2);
        snprintf(words, sizeof words, "%s --compute %s", path, modes[k % 2]);
        json_t *j = replay_json(words, 0);
        assert_true(json_is_true(json_object_get(j, "equal")));
        assert_int_equal(test_u64(j, "steps"), 3);
        json_decref(j);
        if (k % 9 == 0)
            forged_gift(path);
    }
    refused("replay logs/party0-r0-s0-t0.uvlog --compute gpu", "one of several workers");
    refused(WORKERS, "give --force");
    remove_tree("logs");
    assert_int_equal(unlink("forged"), 0);
    assert_int_equal(unlink("text"), 0);
}

static void refuses_replay_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"replay", "no log is given"},
        {"replay a b", "2 logs are given"},
        {"replay a --until", "--until needs a value"},
        {"replay a --until x", "--until x"},
        {"replay a --until -1", "--until -1"},
        {"replay a --compute late", "give one of inline|deferred|threads|gpu"},
        {"replay a --device 1", "--device does nothing without --compute gpu"},
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

static int leave_files(void **state) {
    (void)unlink("t.csv");
    return leave(state);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_and_replays),    cmocka_unit_test(finds_what_differs),
        cmocka_unit_test(prints_records),         cmocka_unit_test(replays_one_of_many),
        cmocka_unit_test(refuses_replay_options),
    };
    return cmocka_run_group_tests(tests, enter, leave_files);
}
