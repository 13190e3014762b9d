/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.c - `uvcc plan`: what it says of a job's steps, rounds, bytes and time, beside three
 * parties that run the job over a network with that rate and round trip. On the network's clock
 * computing takes no time, so its time is what the plan calls "by the network". */
#include "work_drive.h"

#include <math.h>
#include <sodium.h>
#include <unistd.h>

#include "interrupt.h"
#include "report.h"

static json_t *plan(const work_job *j, double mbit, double rtt_ms) {
    char words[256];
    FILE *f = fopen("job.json", "w");
    assert_non_null(f);
    (void)fprintf(f,
                  "{\"job\": {\"name\": \"a\", \"replicas\": %u, \"stages\": %u, "
                  "\"tensor_ranks\": %u, \"microbatches\": %u, \"run\": ",
                  j->replicas, j->stages, j->tensor_ranks, j->microbatches);
    for (const char *c = j->run; *c != '\0'; c++)
        (void)fputc(*c == '\'' ? '"' : *c, f);
    (void)fputs("}}", f);
    assert_int_equal(fclose(f), 0);
    (void)snprintf(words, sizeof words, "plan --config job.json --mbit %.6f --rtt %.6f --json -",
                   mbit, rtt_ms);
    return json_of(words, EXIT_DONE);
}

/* Of a stream's queue no more is taken than the path holds and unsent_bytes, as a net's sockets see
 * to. A loopback's bandwidth is of each of a party's two directed links, the plan's of its line:
 * what goes to one peer alone takes longer here. The job's own handshake costs two round trips
 * more. */
static void check(work_job *j, double mbit, double rtt_ms, double within) {
    const uvcc_fault_config path = {.delay_ns = (uint64_t)(rtt_ms * 0.5e6),
                                    .bandwidth_bps = (uint64_t)(mbit * 0.5e6),
                                    .queue_bytes = 131072 + (uint64_t)(mbit * rtt_ms * 125)};
    json_t *result[UVCC_PARTIES];
    uint64_t took = 0;
    j->path = &path;
    j->took_ns = &took;
    work_drive(j, result);
    json_t *p = plan(j, mbit, rtt_ms);
    const double want = (double)took * 1e-9, got = number(p, "network_s");
    print_message("%g Mbit/s, %g ms: planned %.3f s, took %.3f s\n", mbit, rtt_ms, got, want);
    assert_true(fabs(got - want) <= within * want + 2e-3 * rtt_ms);
    for (unsigned i = 0; i < UVCC_PARTIES; i++)
        json_decref(result[i]);
    json_decref(p);
}

static void test_time(void **state) {
    (void)state;
    work_job j = {.kind = &work_transformer,
                  .replicas = 1,
                  .stages = 1,
                  .tensor_ranks = 1,
                  .microbatches = 1,
                  .run = "{'kind': 'transformer', 'context': 4, 'dim': 8, 'heads': 2, 'hidden': "
                         "12, 'layers': 1, 'batch': 4, 'steps': 4, 'warmup': 0, 'text_bytes': 41}",
                  .data = {"{'text': 't.txt'}", NULL, NULL},
                  .seed = 1};
    FILE *f = fopen("t.txt", "w");
    assert_non_null(f);
    (void)fputs("it was the best of times, it was the worst", f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate("t.txt", 41), 0);
    check(&j, 1000, 20, 0.03);  /* rounds */
    check(&j, 1000, 100, 0.03); /* rounds */
    check(&j, 10, 1, 0.3);      /* bytes */
}

static void test_refusals(void **state) {
    (void)state;
    refused("plan", "--config is missing");
    refused("plan --config nowhere.json", "nowhere.json");
    refused("plan --config job.json --mbit 0", "--mbit 0: give more than 0");
    refused("plan --config job.json --rtt -1", "--rtt");
    static const char no_rows[] = "{\"job\": {\"name\": \"a\", \"run\": {\"kind\": \"mlp\"}}}";
    write_file("bad.json", no_rows, sizeof no_rows - 1);
    refused("plan --config bad.json", "job.run.");
    write_file("bad.json", "{}", 2);
    refused("plan --config bad.json", "job");
    remove_tree("job.json");
    remove_tree("bad.json");
    remove_tree("t.txt");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_refusals),
    };
    if (argc != 2 || sodium_init() < 0 || !find_tool(argv[1]))
        return EXIT_FAILURE;
    interrupt_begin();
    return cmocka_run_group_tests(tests, enter, leave);
}
