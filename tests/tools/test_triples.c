/* SPDX-License-Identifier: Apache-2.0 */
/* test_triples.c - `uvcc triples list|check` as a user runs them: argv[1] is the binary. */
#define _DEFAULT_SOURCE
#include "run_tool.h"
#include "store_job.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MADE = 5 };

static void run_job(const job_options *o) {
    static job j;
    job_start(&j, o);
    assert_true(job_drive(&j, o->steps));
    assert_true(job_close(&j));
    job_kill(&j);
}

static void make_store(void) {
    test_remove_all("jobs");
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&(job_options){.dir = "jobs", .steps = MADE, .beaver = true, .make = true});
}

static void has(const char *text, const char *part) {
    assert_non_null(text);
    if (strstr(text, part) == NULL)
        fail_msg("'%s' is not in '%s'", part, text);
}

static void lists(void **state) {
    (void)state;
    make_store();
    char *out = output_of("triples list --store jobs/party-1");
    has(out, "r0 s0 t0");
    has(out, "0..4");
    free(out);
    run_job(&(job_options){.dir = "jobs", .steps = 2, .every = 1, .beaver = true});
    json_t *j = json_of("triples list --store jobs/party-1", 0);
    const json_t *set = json_array_get(json_object_get(j, "triples"), 0);
    assert_true(number(set, "first") == 2 && number(set, "used_below") == 2);
    assert_true(number(set, "steps") == 3 && number(set, "run") == 0);
    json_decref(j);
    out = output_of("triples check --store jobs/party-1 --party 1");
    has(out, "3 steps with 24 triples are whole (tiles of 3 products)");
    free(out);
    test_remove_all("jobs");
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&(job_options){.dir = "jobs", .steps = 1});
    out = output_of("triples list --store jobs/party-0");
    assert_string_equal(out, "no triples\n");
    free(out);
}

/* The output of a command that fails with status 1. */
static char *found_by(const char *words) {
    outcome o = run_tool(words);
    assert_int_equal(o.status, 1);
    assert_string_equal(o.err, "");
    char *out = o.out;
    o.out = NULL;
    forget(&o);
    return out;
}

static void checks(void **state) {
    (void)state;
    char name[128];
    uint8_t byte;
    make_store();
    /* The store is its party's: the seal says so. */
    char *out = found_by("triples check --store jobs/party-1 --party 0");
    has(out, "is damaged, or sealed under another key");
    free(out);
    (void)snprintf(name, sizeof name, "jobs/party-1/r0-s0-t0.triples-0-2");
    assert_int_equal(access(name, F_OK), 0);
    const int fd = open(name, O_RDWR);
    assert_int_equal(pread(fd, &byte, 1, 200), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 200), 1);
    (void)close(fd);
    assert_int_equal(unlink("jobs/party-1/r0-s0-t0.triples-0-1"), 0);
    out = found_by("triples check --store jobs/party-1 --party 1");
    has(out, "step 1: missing");
    has(out, "-2: is damaged");
    has(out, "3 steps with 24 triples are whole (tiles of 3 products)");
    free(out);
    assert_int_equal(unlink("jobs/party-1/r0-s0-t0.triples-0.used"), 0);
    json_t *j = json_of("triples check --store jobs/party-1 --party 1", 1);
    const json_t *set = json_array_get(json_object_get(j, "triples"), 0);
    assert_true(json_is_false(json_object_get(set, "marked")));
    assert_true(number(set, "damaged") == 1 && number(set, "missing") == 1);
    json_decref(j);
    out = output_of("triples check --store jobs/party-2 --party 2");
    has(out, "5 steps with 40 triples are whole (tiles of 5 products)");
    free(out);
    /* A mark of an earlier run than the store's last one. */
    FILE *f = fopen("jobs/party-2/run", "w");
    assert_non_null(f);
    assert_true(fputs("1\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    out = found_by("triples check --store jobs/party-2 --party 2");
    has(out, "it is from a copy of earlier times");
    free(out);
}

static void refuses(void **state) {
    (void)state;
    make_store();
    refused("triples", "make, list or check is missing");
    refused("triples show", "there are make, list and check");
    refused("triples list", "--store DIR is missing");
    refused("triples list --store a --config b", "give one");
    refused("triples list --store a --steps 0..1", "--steps does nothing without make");
    refused("triples make", "--config FILE is missing");
    refused("triples make --config x --steps 1..0", "give FIRST..LAST");
    refused("triples make --config x --steps 1..", "give FIRST..LAST");
    refused("triples make --config x --steps 1..2", "x: ");
    refused("triples list --store nowhere", "is no store");
    assert_int_equal(access("nowhere", F_OK), -1);
    refused("triples list --store jobs", "is no store");
    assert_int_equal(access("jobs/key", F_OK), -1); /* nothing was made there */
    refused("triples check --store jobs/party-0", "--party N is missing");
    assert_int_equal(unlink("jobs/party-0/key"), 0);
    refused("triples list --store jobs/party-0", "key: is missing, but triples are there");
}

static int leave_files(void **state) {
    test_remove_all("jobs");
    return leave(state);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists),
        cmocka_unit_test(checks),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, enter, leave_files);
}
