/* SPDX-License-Identifier: Apache-2.0 */
/* test_party_config.c - tools/party/config.h: what a party's file may say, every wrong member by
 * its place, and the environment, which beats it. */
#include "run_tool.h"

#include <stdlib.h>
#include <string.h>

#include "party/config.h"

#define KEY           "'00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'"
#define JOB           "'job': {'name': 'n', 'run': {'kind': 'mlp'}}"
#define WITH(address) "{'address': '" address "', 'key': " KEY "}"
#define THREE         "'parties': [" WITH("tcp:a") "," WITH("tcp:b") "," WITH("tcp:c") "]"
#define REST          "'identity': 'i', 'store': 's'"
#define GOOD          "{'party': 1, " JOB ", " THREE ", " REST "}"

/* NAME=VALUE, in pairs. */
static const char *const *environment;

static char *look_up(const char *name) {
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i += 2)
        if (strcmp(environment[i], name) == 0)
            return (char *)(uintptr_t)environment[i + 1];
    return NULL;
}

static int take(party_config *c, const char *text, int64_t worker, char why[512]) {
    char *json = strdup(text);
    const flag_message m = {why, 512};
    json_error_t error;
    assert_non_null(json);
    for (char *at = json; *at != '\0'; at++)
        *at = *at == '\'' ? '"' : *at;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &error);
    free(json);
    if (root == NULL)
        fail_msg("%s: %s", text, error.text);
    return config_take(c, root, "dir/job.json", worker, look_up, &m);
}

static void must(party_config *c, const char *text, int64_t worker) {
    char why[512] = "";
    if (take(c, text, worker, why) != 0)
        fail_msg("%s: %s", text, why);
}

static void must_not(const char *text, int64_t worker, const char *want) {
    party_config c;
    char why[512] = "", full[600];
    assert_int_equal(take(&c, text, worker, why), -1);
    (void)snprintf(full, sizeof full, "dir/job.json: %s", want);
    if (strncmp(why, full, strlen(full)) != 0)
        fail_msg("%s: said \"%s\", not \"%s\"", text, why, full);
    config_free(&c);
}

static void takes_what_is_good(void **state) {
    (void)state;
    party_config c;
    char out[PARTY_PATH_BYTES];
    environment = NULL;
    must(&c, GOOD, -1);
    assert_int_equal(c.party, 1);
    assert_true(c.all_workers);
    assert_int_equal(config_workers(&c), 1);
    assert_int_equal(c.base_port, 7100);
    assert_int_equal(c.checkpoint_every, 8);
    assert_int_equal(c.seal_threads, CONFIG_BY_CORES);
    assert_string_equal(c.kind, "mlp");
    assert_true(config_path(&c, "store", out));
    assert_string_equal(out, "dir/store");
    assert_true(config_path(&c, "/store", out));
    assert_string_equal(out, "/store");
    config_free(&c);
}

static void names_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"[]", "the text: give an object"},
        {"{'party': 3}", "party: give a whole number from 0 to 2"},
        {"{'party': '1'}", "party: give a whole number from 0 to 2"},
        {"{'partey': 1}", "partey: there is no such member; there are party"},
        {"{'party': 1}", "job is missing"},
        {"{'party': 1, 'job': {'name': 'n'}}", "job.run is missing"},
        {"{'party': 1, 'job': {'name': 'n', 'run': {}}}", "job.run.kind is missing"},
        {"{'party': 1, 'job': {'run': {'kind': 'mlp'}}}", "job.name is missing"},
        {"{'party': 1, 'job': {'name': 'n', 'stages': 0, 'run': {'kind': 'mlp'}}}",
         "job.stages: give a whole number from 1"},
        {"{'party': 1, 'job': {'name': 'n', 'stage': 1, 'run': {'kind': 'mlp'}}}",
         "job.stage: there is no such member"},
        {"{" JOB ", " THREE ", " REST "}", "party is missing"},
        {"{'party': 1, " JOB ", " REST "}", "parties: give a list of three"},
        {"{'party': 1, " JOB ", " REST ", 'parties': [{}, {}, {}]}",
         "parties[0].address is missing"},
        {"{'party': 0, " JOB ", " REST
         ", 'parties': [{'address': 'tcp:a'}, {'address': 'tcp:a'}, {}]}",
         "parties[1].key is missing"},
        {"{'party': 0, " JOB ", " REST ", 'parties': [{'address': 'a:1'}, {}, {}]}",
         "parties[0].address: \"a:1\" is none"},
        {"{'party': 0, " JOB ", " REST ", 'parties': [{'address': 'tcp:a', 'port': 1}, {}, {}]}",
         "parties[0].port: there is no such member"},
        {"{'party': 1, " JOB ", " REST
         ", 'parties': [" WITH("udp:a:1") "," WITH("tcp:b") "," WITH("udp:c:1") "]}",
         "parties[1].address: packets (udp:) and streams do not mix"},
        {"{'party': 1, " JOB ", " THREE ", 'store': 's'}", "identity is missing"},
        {"{'party': 1, " JOB ", " THREE ", 'identity': 'i'}", "store is missing"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'device': 'cuda'}",
         "device: give \"cpu\", or a whole number from 0 to 65535"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'device': 65536}", "device: give \"cpu\", or"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'device': -1}", "device: give \"cpu\", or"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'compute': 'cuda'}",
         "compute \"cuda\": give one of \"inline\", \"threads\", \"gpu\""},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'compute': 'gpu', 'device': 'cpu'}",
         "device: \"cpu\" and compute: \"gpu\" do not go together"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'base_port': 0}",
         "base_port: give a whole number"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'threads': 0}",
         "threads: give a whole number from 1 to 1024"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'seal_threads': 1025}",
         "seal_threads: give a whole number from 0 to 1024"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'suite': 'rot13'}",
         "suite \"rot13\": give one of"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'data': []}", "data: give an object"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'faults': {'drop': 1}}",
         "faults.drop: there is no such"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'tls': {}}", "tls: give certificate, key"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'tls': {'certificate': 'c', 'key': 'k'}}",
         "tls: certificate, key and authorities belong together; authorities is missing"},
        {"{'party': 1, " JOB ", " THREE ", " REST
         ", 'tls': {'crl': 'l', 'pair_keys': ['a', null, 'b']}}",
         "tls.crl: revocation lists are of certificates"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'tls': {'pair_keys': ['a', null]}}",
         "tls.pair_keys: give a list of three"},
        {"{'party': 1, " JOB ", " THREE ", " REST ", 'tls': {'pair_keys': [null, null, 'a']}}",
         "tls.pair_keys[0]: give a text"},
        {"{'party': 1, " JOB ", " THREE ", " REST
         ", 'tls': {'library': 'nss', 'pair_keys': ['a', null, 'b']}}",
         "tls.library \"nss\": give one of"},
    };
    environment = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        must_not(cases[i].text, -1, cases[i].want);
    must_not(GOOD, 1, "--worker 1: the job has workers 0 to 0");
}

static void environment_beats_the_file(void **state) {
    (void)state;
    static const char *const party[] = {"UVCC_PARTY_ID", "2", "UVCC_R", "2", "UVCC_S", "3",
                                        "UVCC_T",        "4", NULL};
    party_config c, plain;
    environment = party;
    must(&c, GOOD, -1);
    assert_int_equal(c.party, 2);
    assert_int_equal(config_workers(&c), 24);
    assert_int_equal(json_integer_value(json_object_get(c.job, "stages")), 3);
    assert_true(c.all_workers);
    environment = NULL;
    must(&plain, GOOD, -1);
    assert_memory_equal(c.sid_job, plain.sid_job, 32); /* of the name alone */
    assert_memory_not_equal(c.job_hash, plain.job_hash, 32);
    config_free(&plain);
    config_free(&c);
}

/* local_rank = (r S + s) T + t, by whatever says it; uvcc's own words before a launcher's. */
static void finds_every_worker(void **state) {
    (void)state;
    static const char *const launchers[] = {"UVCC_LOCAL_RANK", "SLURM_PROCID",
                                            "OMPI_COMM_WORLD_RANK", "RANK"};
    for (uint32_t rank = 0; rank < 24; rank++) {
        char n[4][8];
        party_config c;
        (void)snprintf(n[0], 8, "%u", rank);
        (void)snprintf(n[1], 8, "%u", rank / 12);
        (void)snprintf(n[2], 8, "%u", rank / 4 % 3);
        (void)snprintf(n[3], 8, "%u", rank % 4);
        for (unsigned i = 0; i < 4; i++) {
            const char *const env[] = {"UVCC_R", "2",          "UVCC_S", "3", "UVCC_T",
                                       "4",      launchers[i], n[0],     NULL};
            environment = env;
            must(&c, GOOD, -1);
            assert_false(c.all_workers);
            assert_int_equal(c.local_rank, rank);
            assert_int_equal(c.device, CARD_BY_RANK);
            config_free(&c);
        }
        const char *const place[] = {"UVCC_R",
                                     "2",
                                     "UVCC_S",
                                     "3",
                                     "UVCC_T",
                                     "4",
                                     "UVCC_REPLICA_ID",
                                     n[1],
                                     "UVCC_STAGE_ID",
                                     n[2],
                                     "UVCC_TP_RANK",
                                     n[3],
                                     "RANK",
                                     "23",
                                     "UVCC_GPU_ID",
                                     "5",
                                     NULL};
        environment = place;
        must(&c, GOOD, -1);
        assert_int_equal(c.local_rank, rank);
        assert_int_equal(c.device, 5);
        config_free(&c);
        must(&c, GOOD, 7); /* --worker says it before all */
        assert_int_equal(c.local_rank, 7);
        config_free(&c);
    }
}

static void refuses_a_wrong_environment(void **state) {
    (void)state;
    static const struct {
        const char *env[9], *want;
    } cases[] = {
        {{"UVCC_PARTY_ID", "3"},
         "UVCC_PARTY_ID=3 in the environment: give a whole number from 0 to 2"},
        {{"UVCC_R", "x"}, "UVCC_R=x in the environment"},
        {{"UVCC_R", "1024", "UVCC_S", "1024"},
         "job.replicas, job.stages and job.tensor_ranks: 1048576 workers"},
        {{"UVCC_LOCAL_RANK", "1"},
         "UVCC_LOCAL_RANK=1 in the environment: give a whole number from 0 to 0"},
        {{"OMPI_COMM_WORLD_RANK", "2"}, "OMPI_COMM_WORLD_RANK=2 in the environment"},
        {{"UVCC_FSS_BACKEND", "cuda"},
         "UVCC_FSS_BACKEND=cuda in the environment: give cpu, gpu or auto"},
        {{"UVCC_GPU_ID", "x"}, "UVCC_GPU_ID=x in the environment: give a whole number"},
        {{"UVCC_GPU_BYTES", "much"}, "UVCC_GPU_BYTES=much in the environment: give a size"},
        {{"UVCC_STAGE_ID", "0"},
         "UVCC_REPLICA_ID, UVCC_STAGE_ID and UVCC_TP_RANK belong together; UVCC_REPLICA_ID is"},
        {{"UVCC_S", "2", "UVCC_LOCAL_RANK", "1", "UVCC_REPLICA_ID", "0", "UVCC_STAGE_ID", "0"},
         "UVCC_REPLICA_ID, UVCC_STAGE_ID and UVCC_TP_RANK belong together; UVCC_TP_RANK is"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        environment = cases[i].env;
        must_not(GOOD, -1, cases[i].want);
    }
    static const char *const two[] = {"UVCC_S",
                                      "2",
                                      "UVCC_LOCAL_RANK",
                                      "1",
                                      "UVCC_REPLICA_ID",
                                      "0",
                                      "UVCC_STAGE_ID",
                                      "0",
                                      "UVCC_TP_RANK",
                                      "0",
                                      NULL};
    environment = two;
    must_not(GOOD, -1, "UVCC_LOCAL_RANK=1 in the environment is not the worker of");
    environment = NULL;
}

/* The file before UVCC_FSS_BACKEND, options before both. */
static void says_where_jobs_run(void **state) {
    (void)state;
    const uint32_t any = CARD_BY_RANK;
    static const struct {
        const char *more, *backend;
        uint32_t compute, device;
    } cases[] = {
        {"", NULL, CONFIG_THREADS, 7},
        {"", "cpu", CONFIG_THREADS, 7},
        {"", "gpu", CONFIG_GPU, 7},
        {"", "auto", CONFIG_AUTO, 7},
        {", 'compute': 'inline'", "gpu", CONFIG_INLINE, 7},
        {", 'compute': 'gpu', 'device': 3", "cuda", CONFIG_GPU, 7},
        {", 'device': 'cpu'", "gpu", CONFIG_THREADS, 7},
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const bool id = i % 2 != 0; /* UVCC_GPU_ID beats the file's device */
        const char *const env[] = {id ? "UVCC_GPU_ID" : "X",
                                   "7",
                                   "UVCC_GPU_BYTES",
                                   "3GiB",
                                   cases[i / 2].backend != NULL ? "UVCC_FSS_BACKEND" : "Y",
                                   cases[i / 2].backend,
                                   NULL};
        char text[1024], why[256] = "";
        const flag_message m = {why, sizeof why};
        party_config c;
        (void)snprintf(text, sizeof text, "{'party': 1, " JOB ", " THREE ", " REST "%s}",
                       cases[i / 2].more);
        environment = env;
        must(&c, text, -1);
        assert_int_equal(c.compute, cases[i / 2].compute);
        const uint32_t in_file = strstr(text, "'device': 3") != NULL ? 3 : any;
        assert_int_equal(c.device, id ? cases[i / 2].device : in_file);
        assert_true(c.device_bytes == UINT64_C(3) << 30);
        assert_int_equal(config_options(&c, CONFIG_AUTO, any, &m), 0);
        assert_int_equal(c.compute, cases[i / 2].compute);
        const bool gpu = c.compute == CONFIG_GPU || c.compute == CONFIG_AUTO;
        assert_int_equal(config_options(&c, CONFIG_AUTO, 2, &m), gpu ? 0 : -1);
        assert_true(gpu || strstr(why, "--device does nothing") != NULL);
        assert_int_equal(config_options(&c, CONFIG_GPU, 2, &m), 0);
        assert_true(c.compute == CONFIG_GPU && c.device == 2);
        config_free(&c);
    }
    environment = NULL;
}

static void makes_addresses(void **state) {
    (void)state;
    static const struct {
        const char *address, *want;
    } cases[] = {
        {"tcp:host", "tcp:host:7105"},          {"tcp:host:9", "tcp:host:9"},
        {"tcp:[::1]", "tcp:[::1]:7105"},        {"tcp:[::1]:9", "tcp:[::1]:9"},
        {"unix:a-%.sock", "unix:dir/a-5.sock"}, {"unix:/run/a.sock", "unix:/run/a.sock"},
    };
    environment = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], out[UVCC_NET_ADDRESS_BYTES];
        party_config c;
        (void)snprintf(text, sizeof text,
                       "{'party': 1, " JOB ", " REST ", 'parties': [{'address': '%s', 'key': " KEY
                       "}," WITH("tcp:b") "," WITH("tcp:c") "]}",
                       cases[i].address);
        must(&c, text, -1);
        assert_true(config_address(&c, 0, 5, out));
        assert_string_equal(out, cases[i].want);
        assert_true(config_listen(&c, 2, out));
        assert_string_equal(out, "tcp:b:7102");
        config_free(&c);
    }
}

/* By the local rank: (r S + s) T + t. */
static void own_places(void **state) {
    (void)state;
    const party_config c = {.replicas = 2, .stages = 3, .tensor_ranks = 4};
    char dir[PARTY_PATH_BYTES] = "store";
    assert_true(config_own_place(&c, 23, dir));
    assert_string_equal(dir, "store/r1-s2-t3");
    (void)memset(dir, 'x', sizeof dir - 9);
    dir[sizeof dir - 9] = '\0';
    assert_false(config_own_place(&c, 6, dir)); /* nine bytes and the end */
    dir[sizeof dir - 10] = '\0';
    assert_true(config_own_place(&c, 6, dir));
    assert_string_equal(dir + sizeof dir - 10, "/r0-s1-t2");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_is_good),
        cmocka_unit_test(names_what_is_wrong),
        cmocka_unit_test(environment_beats_the_file),
        cmocka_unit_test(finds_every_worker),
        cmocka_unit_test(refuses_a_wrong_environment),
        cmocka_unit_test(says_where_jobs_run),
        cmocka_unit_test(makes_addresses),
        cmocka_unit_test(own_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
