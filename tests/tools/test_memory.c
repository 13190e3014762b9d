/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory.c - the commands that run sessions with too little memory: each works or ends with an
 * error that says so, and none hangs or crashes. argv[1] is the binary. */
#include "run_tool.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define MODEL "--text t.txt --dim 16 --heads 2 --context 8 --batch 8 --microbatches 2 "

static void limit(rlim_t bytes) {
    struct rlimit r;
    assert_int_equal(getrlimit(RLIMIT_AS, &r), 0);
    r.rlim_cur = bytes < r.rlim_max ? bytes : r.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_AS, &r), 0);
}

/* Kilobytes with which its libraries load, and 2000 more. */
static rlim_t least_to_begin(void) {
    for (rlim_t kilobytes = 4000; kilobytes < 200000; kilobytes += 1000) {
        limit(kilobytes * 1000);
        outcome o = run_tool("--version");
        limit(RLIM_INFINITY);
        const bool began = o.status == 0;
        forget(&o);
        if (began)
            return kilobytes + 2000;
    }
    fail_msg("the command does not begin");
    return 0;
}

static void ends(void **state) {
    (void)state;
    static const char *const commands[] = {
        "train --data t.csv --hidden 64 --batch 8 --epochs 2",
        "train --data t.csv --hidden 64 --batch 8 --epochs 2 --drop 0.1 --compute deferred",
        "train --model transformer " MODEL "--steps 1",
        "train --model transformer " MODEL "--layers 2 --stages 2 --steps 1",
        "generate kept --length 2",
        "nonlinear sign --exact --inputs 16384",
        "replay logs/party0.uvlog",
    };
    /* Beside what the program takes to begin at all, which is up to the libraries. */
    static const rlim_t kilobytes[] = {0, 2000, 6000, 12000, 17000, 22000, 28000, 36000};
    const rlim_t least = least_to_begin();
    char text[600];
    unsigned failed = 0, worked = 0;
    json_t *vectors = LOAD_VECTORS("mlp.json");
    write_vector_csv(vectors, "", "\n");
    json_decref(vectors);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "three parties train together, and none of them sees. "[i % 53];
    write_file("t.txt", text, sizeof text);
    json_decref(
        json_of("train --model transformer " MODEL "--steps 1 --checkpoint kept --record logs", 0));
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (size_t k = 0; k < sizeof kilobytes / sizeof kilobytes[0]; k++) {
            limit((least + kilobytes[k]) * 1000);
            outcome o = run_tool(commands[i]);
            limit(RLIM_INFINITY);
            const bool finds = strncmp(commands[i], "replay", 6) == 0; /* 1: a difference */
            if ((o.status == 2 || (o.status == 1 && !finds)) && lines(o.err) == 1)
                failed++;
            else if (o.status == 0 && *o.err == '\0')
                worked++;
            else
                fail_msg("uvcc %s, %llu kB\n  status %d\n  %s", commands[i],
                         (unsigned long long)(least + kilobytes[k]), o.status, o.err);
            if (o.status != 0 && strstr(o.err, "memory") == NULL && strstr(o.err, "NULL") == NULL)
                fail_msg("uvcc %s, %llu kB\n  %s", commands[i],
                         (unsigned long long)(least + kilobytes[k]), o.err);
            forget(&o);
        }
    assert_true(failed > 10 && worked > 0);
    remove_tree("kept");
    remove_tree("logs");
    unlink("t.txt");
    unlink("t.csv");
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const char *sanitized = getenv("UVCC_SANITIZED");
    if (sanitized != NULL && *sanitized == '1')
        return 77; /* a sanitizer wants more addresses than any limit leaves */
    const struct CMUnitTest tests[] = {cmocka_unit_test(ends)};
    return cmocka_run_group_tests(tests, enter, leave);
}
