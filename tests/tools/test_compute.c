/* SPDX-License-Identifier: Apache-2.0 */
/* test_compute.c - what the environment says of where jobs run (tools/compute.h), and what options
 * of a run make of it (tools/run_options.h). No card is needed: where one is, the answers that
 * depend on it are left out. */
#include "run_tool.h"

#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "compute.h"
#include "run_options.h"

#define MODELS UVCC_DATA_DIR "/models/"

static const char *value; /* of every variable */

static char *look_up(const char *name) {
    (void)name;
    return (char *)(uintptr_t)value;
}

static void sizes(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {
        {"1048576", 1 << 20},
        {"1048576B", 1 << 20},
        {"1024KiB", 1 << 20},
        {"1MiB", 1 << 20},
        {"40GiB", UINT64_C(40) << 30},
        {"2TiB", UINT64_C(2) << 40},
        {"2000kB", 2000000},
        {"3MB", 3000000},
        {"40GB", UINT64_C(40000000000)},
        {"1TB", UINT64_C(1000000000000)},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {"0",           "1048575", "1023KiB",
                                      "GiB",         "-1GiB",   "1.5GiB",
                                      "1gib",        "40 GiB",  "18446744073709551616",
                                      "16777216TiB", "1GiBs",   "all"};
    char text[256];
    const flag_message m = {text, sizeof text};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 0;
        value = good[i].text;
        if (compute_read_bytes(look_up, &bytes, &m) != 0)
            fail_msg("%s", text);
        assert_true(bytes == good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        char want[64];
        value = bad[i];
        assert_int_equal(compute_read_bytes(look_up, &bytes, &m), -1);
        (void)snprintf(want, sizeof want, "UVCC_GPU_BYTES=%s in the environment: give", bad[i]);
        if (strncmp(text, want, strlen(want)) != 0)
            fail_msg("%s", text);
        assert_true(bytes == 7);
    }
}

/* A part of what a session may take of the device, or 1 GiB. */
static void keys(void **state) {
    (void)state;
    char text[256];
    const flag_message m = {text, sizeof text};
    const uint64_t gib = UINT64_C(1) << 30;
    static const struct {
        const char *text;
        uint64_t device, bytes;
    } good[] = {{NULL, 0, 1 << 30},
                {"", 0, 1 << 30},
                {NULL, UINT64_C(16) << 30, 1 << 30},
                {NULL, UINT64_C(4) << 30, 512 << 20},
                {NULL, 8 << 20, 1 << 20},
                {"0", 0, 0},
                {"0", 1 << 20, 0},
                {"3GiB", 0, UINT64_C(3) << 30},
                {"8MiB", 8 << 20, 8 << 20}};
    static const char *const bad[] = {"-1", "all", "1gib", "2GiB"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        uint64_t bytes = 7;
        value = good[i].text;
        if (compute_read_keys(look_up, good[i].device, &bytes, &m) != 0)
            fail_msg("%s", text);
        assert_int_equal(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t bytes = 7;
        value = bad[i];
        assert_int_equal(compute_read_keys(look_up, gib, &bytes, &m), -1);
        assert_non_null(strstr(text, bad[i]));
        assert_non_null(strstr(text, "UVCC_GPU_KEYS_BYTES="));
        assert_int_equal(bytes, 7);
    }
}

static void what_is_not_set_stays(void **state) {
    (void)state;
    char text[256];
    const flag_message m = {text, sizeof text};
    for (unsigned i = 0; i < 2; i++) {
        uint64_t bytes = 5;
        uint32_t device = 6;
        compute_wish wish = COMPUTE_GPU;
        value = i == 0 ? NULL : "";
        assert_int_equal(compute_read_bytes(look_up, &bytes, &m), 0);
        assert_int_equal(compute_read_device(look_up, &device, &m), 0);
        assert_int_equal(compute_read_wish(look_up, &wish, &m), 0);
        assert_true(bytes == 5 && device == 6 && wish == COMPUTE_CPU);
    }
}

static void devices_and_wishes(void **state) {
    (void)state;
    static const char *const bad[] = {"x", "-1", "65536", "1.0", "0x1", "99999999999999999999999"};
    static const char *const bad_wish[] = {"GPU", "cuda", "cpu ", "threads", "on"};
    static const char *const wishes[] = {"cpu", "gpu", "auto"};
    char text[256];
    const flag_message m = {text, sizeof text};
    uint32_t device = 9;
    compute_wish wish;
    value = "65535";
    assert_int_equal(compute_read_device(look_up, &device, &m), 0);
    assert_int_equal(device, 65535);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        value = bad[i];
        assert_int_equal(compute_read_device(look_up, &device, &m), -1);
        assert_non_null(strstr(text, "UVCC_GPU_ID="));
        assert_non_null(strstr(text, "from 0 to 65535"));
    }
    for (unsigned i = 0; i < 3; i++) {
        value = wishes[i];
        assert_int_equal(compute_read_wish(look_up, &wish, &m), 0);
        assert_int_equal(wish, i);
    }
    for (size_t i = 0; i < sizeof bad_wish / sizeof bad_wish[0]; i++) {
        value = bad_wish[i];
        assert_int_equal(compute_read_wish(look_up, &wish, &m), -1);
        assert_non_null(strstr(text, "UVCC_FSS_BACKEND="));
        assert_non_null(strstr(text, "give cpu, gpu or auto"));
    }
}

/* What a run's options come to. */
typedef struct run_case {
    const char *backend, *id, *bytes; /* of the environment; NULL: not set */
    uint32_t compute, device;
    bool said;
    uint32_t workers;
    int rc;
    uint32_t want, want_device;
    uint64_t want_bytes;
} run_case;

static void set(const char *name, const char *to) {
    assert_int_equal(to != NULL ? setenv(name, to, 1) : unsetenv(name), 0);
}

static void options_of_a_run(void **state) {
    (void)state;
    const uint32_t gpu = RUN_COMPUTE_GPU, any = CARD_BY_RANK;
    const uint64_t gib = 1 << 30;
    const run_case cases[] = {
        {NULL, NULL, NULL, 0, any, false, 1, 0, 0, any, 0},
        {"cpu", "3", "1GiB", 2, any, false, 1, 0, 2, any, 0}, /* of a card nothing is read */
        {NULL, "x", "x", 0, any, false, 1, 0, 0, any, 0},
        {"gpu", NULL, NULL, 0, any, false, 1, 0, gpu, any, 0},
        {"gpu", "3", "1GiB", 0, any, false, 1, 0, gpu, 3, gib},
        {"gpu", "3", NULL, 0, 5, false, 1, 0, gpu, 5, 0}, /* --device beats it */
        {"gpu", "x", NULL, 0, 5, false, 1, 0, gpu, 5, 0},
        {"gpu", "x", NULL, 0, any, false, 1, -1, 0, 0, 0},
        {"gpu", NULL, "x", 0, any, false, 1, -1, 0, 0, 0},
        {"gpu", NULL, NULL, 1, any, true, 1, 0, 1, any, 0}, /* --compute beats it */
        {"wrong", NULL, NULL, 1, any, true, 1, 0, 1, any, 0},
        {"wrong", NULL, NULL, 0, any, false, 1, -1, 0, 0, 0},
        {"gpu", NULL, NULL, 0, any, false, 2, 0, gpu, any, 0}, /* a device each, by rank */
        {NULL, NULL, NULL, gpu, any, true, 2, 0, gpu, any, 0},
        {NULL, NULL, NULL, gpu, 1, true, 2, -1, 0, 0, 0},
        {"gpu", "1", NULL, 0, any, false, 2, -1, 0, 0, 0},
        {"auto", NULL, NULL, 0, any, false, 2, 0, 0, any, 0},
        {NULL, "2", "1GiB", gpu, any, true, 1, 0, gpu, 2, gib},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const run_case *c = &cases[i];
        char text[512] = "";
        run_options o = {.compute = c->compute, .device = c->device};
        set("UVCC_FSS_BACKEND", c->backend);
        set("UVCC_GPU_ID", c->id);
        set("UVCC_GPU_BYTES", c->bytes);
        const int rc =
            run_options_compute(&o, c->said, c->workers, &(flag_message){text, sizeof text});
        if (rc != c->rc)
            fail_msg("case %zu: %d, not %d: %s", i, rc, c->rc, text);
        if (rc == 0 &&
            (o.compute != c->want || o.device != c->want_device || o.device_bytes != c->want_bytes))
            fail_msg("case %zu: %u on %u", i, o.compute, o.device);
    }
    set("UVCC_FSS_BACKEND", "auto");
    run_options o = {.compute = 1, .device = any};
    assert_int_equal(run_options_compute(&o, false, 1, NULL), 0);
    assert_int_equal(o.compute, card_count(NULL) != 0 ? gpu : 1);
    set("UVCC_FSS_BACKEND", NULL);
    set("UVCC_GPU_ID", NULL);
    set("UVCC_GPU_BYTES", NULL);
}

/* What is refused after something was shown. */
static void ends(const char *words, const char *says) {
    outcome o = run_tool(words);
    assert_int_equal(o.status, 2);
    assert_int_equal(lines(o.err), 1);
    if (strstr(o.err, says) == NULL)
        fail_msg("%s: %s", words, o.err);
    forget(&o);
}

/* Every command that has --compute, as a user runs it. */
static void commands_say_what_is_wrong(void **state) {
    (void)state;
    static const char *const commands[] = {"train --data t.csv",
                                           "train --model transformer",
                                           "generate kept",
                                           "nonlinear relu",
                                           "infer --model . --ids 1",
                                           "generate --model . --ids 1",
                                           "train --model . --data t.csv"};
    char words[160];
    write_file("t.csv", "1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,6,1\n", 30);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        (void)snprintf(words, sizeof words, "%s --device 1", commands[i]);
        refused(words, "--device does nothing without --compute gpu");
        (void)snprintf(words, sizeof words, "%s --compute gpu --device 65536", commands[i]);
        refused(words, "--device 65536: give a whole number from 0 to 65535");
        set("UVCC_FSS_BACKEND", "cuda");
        refused(commands[i], "UVCC_FSS_BACKEND=cuda in the environment: give cpu, gpu or auto");
        set("UVCC_FSS_BACKEND", "gpu");
        set("UVCC_GPU_BYTES", "some");
        refused(commands[i], "UVCC_GPU_BYTES=some in the environment");
        set("UVCC_FSS_BACKEND", NULL);
        set("UVCC_GPU_BYTES", NULL);
    }
    refused("train --model transformer --replicas 2 --compute gpu", "give fewer workers");
    refused("replay x --device 1", "--device does nothing without --compute gpu");
    const char *why = NULL;
    if (card_count(&why) == 0) { /* the tool may know of cards what this test does not */
        refused("train --data t.csv --batch 2 --compute gpu", "--compute gpu: ");
        ends("infer --model " MODELS "gpt2 --ids 1 --value-bits 7 --inner-bits 7 --compute gpu",
             "--compute gpu: ");
        ends("generate --model " MODELS "gpt2 --ids 1 --length 1 --compute gpu", "--compute gpu: ");
        ends("nonlinear relu --compute gpu", "give inline or threads to do without");
        ends("selftest --backend gpu", "give cpu to test what this CPU has");
    }
    set("UVCC_FSS_BACKEND", "auto");
    outcome o = run_tool("nonlinear relu --fast --inputs 128");
    assert_int_equal(o.status, 0);
    forget(&o);
    set("UVCC_FSS_BACKEND", NULL);
    assert_int_equal(remove("t.csv"), 0);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes),
        cmocka_unit_test(keys),
        cmocka_unit_test(what_is_not_set_stays),
        cmocka_unit_test(devices_and_wishes),
        cmocka_unit_test(options_of_a_run),
        cmocka_unit_test(commands_say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
