/* SPDX-License-Identifier: Apache-2.0 */
/* test_party_work.c - kinds of work (tools/party/work.h): three parties that have nothing in common
 * but the job's "run" give what `uvcc train` gives in one process. */
#include "work_drive.h"

#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "report.h"

static const char text[] = "It was the best of times, it was the worst of times, it was the age of "
                           "wisdom, it was the age of foolishness, it was the epoch of belief";
enum { TEXT_BYTES = sizeof text - 1 };

#define SMALL                                                                                      \
    "'kind': 'transformer', 'context': 4, 'dim': 8, 'heads': 2, 'hidden': 12, 'layers': 2, "       \
    "'batch': 4, 'steps': 2, 'warmup': 0, 'text_bytes': 136"
#define EXACT "'truncation': 'ars', 'index': 'exact'"
#define TRAIN                                                                                      \
    "train --model transformer --context 4 --dim 8 --heads 2 --hidden 12 --layers 2 --batch 4 "    \
    "--steps 2 --warmup 0 --truncation ars --index exact --text t.txt "
_Static_assert(TEXT_BYTES == 136, "text_bytes of the jobs");

static work_job training(const char *run) {
    return (work_job){.kind = &work_transformer,
                      .replicas = 1,
                      .stages = 1,
                      .tensor_ranks = 1,
                      .microbatches = 1,
                      .run = run,
                      .data = {"{'text': 't.txt'}", NULL, NULL},
                      .seed = 3};
}

static void check_weights(json_t *const got[UVCC_PARTIES], const json_t *want) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_string_equal(test_str(got[p], "weights_sha256"), test_str(want, "weights_sha256"));
}

static void forget_all(json_t *results[UVCC_PARTIES]) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        json_decref(results[p]);
}

/* The owner alone has losses; they are those of the command. */
static void check_losses(json_t *const got[UVCC_PARTIES], const json_t *want, unsigned owner) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const char *const keys[] = {"loss", "final_loss"};
        for (unsigned i = 0; i < 2; i++) {
            const json_t *v = json_object_get(got[p], keys[i]);
            assert_true(p == owner
                            ? json_equal((json_t *)(uintptr_t)v, json_object_get(want, keys[i]))
                            : json_is_null(v));
        }
    }
}

/* The shapes of a job, its workers in one process or each in its own: the same weights. */
static void same_weights(void **state) {
    (void)state;
    static const struct {
        uint16_t r, s, t, sks;
        uint32_t mb;
        bool apart;
    } shapes[] = {{1, 1, 1, 0, 1, false}, {2, 2, 2, 0, 1, true}, {1, 2, 1, 500, 2, false}};
    write_file("t.txt", text, TEXT_BYTES);
    json_t *want = json_of(TRAIN, 0), *got[UVCC_PARTIES];
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        work_job j = training("{" SMALL ", " EXACT "}");
        j.replicas = shapes[i].r;
        j.stages = shapes[i].s;
        j.tensor_ranks = shapes[i].t;
        j.sks = shapes[i].sks;
        j.microbatches = shapes[i].mb;
        j.apart = shapes[i].apart;
        work_drive(&j, got);
        check_weights(got, want);
        check_losses(got, want, 0);
        assert_int_equal(json_integer_value(json_object_get(got[1], "parameters")),
                         json_integer_value(json_object_get(want, "parameters")));
        forget_all(got);
    }
    json_decref(want);
    unlink("t.txt");
}

/* Members of run are the options of the command: each of these gives other weights, the same as
 * there. */
static void same_options(void **state) {
    (void)state;
    static const char *const ways[][2] = {
        {"'block': 'swiglu', 'optimizer': 'momentum', 'weight_decay': 0.01, 'clip': 4",
         "--block swiglu --optimizer momentum --weight-decay 0.01 --clip 4"},
        {"'block': 'gpt2', 'optimizer': 'sgd', 'lr': 0.5, 'final_rate': 0.5, 'clip': 0",
         "--block gpt2 --optimizer sgd --lr 0.5 --final-rate 0.5 --clip 0"},
        {"'seed': '18446744073709551615', 'products': 'beaver'",
         "--seed 18446744073709551615 --products beaver"},
    };
    write_file("t.txt", text, TEXT_BYTES);
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char run[1024], words[1024];
        json_t *got[UVCC_PARTIES];
        (void)snprintf(run, sizeof run, "{" SMALL ", " EXACT ", %s}", ways[i][0]);
        (void)snprintf(words, sizeof words, TRAIN "%s", ways[i][1]);
        const work_job j = training(run);
        json_t *want = json_of(words, 0);
        work_drive(&j, got);
        check_weights(got, want);
        check_losses(got, want, 0);
        forget_all(got);
        json_decref(want);
    }
    unlink("t.txt");
}

/* Another party's text; what is written; sessions that begin anew in the middle. */
static void owner_and_files(void **state) {
    (void)state;
    write_file("t.txt", text, TEXT_BYTES);
    json_t *want = json_of(TRAIN "--weights want.bin", 0), *got[UVCC_PARTIES];
    work_job j = training("{" SMALL ", " EXACT ", 'text_owner': 2}");
    j.data[0] = NULL;
    j.data[2] = "{'text': 't.txt'}";
    j.output[1] = "{'weights': 'w.bin'}";
    j.restart_after = 1;
    work_drive(&j, got);
    check_weights(got, want);
    check_losses(got, want, 2);
    char *a = read_all("want.bin"), *b = read_all("w.bin");
    struct stat st;
    assert_int_equal(stat("w.bin", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_memory_equal(a, b, (size_t)st.st_size);
    free(a);
    free(b);
    forget_all(got);
    json_decref(want);
    unlink("want.bin");
    unlink("w.bin");
    unlink("t.txt");
}

/* Nothing is opened but the losses. */
static void no_reveal(void **state) {
    (void)state;
    write_file("t.txt", text, TEXT_BYTES);
    const work_job j = training("{" SMALL ", 'reveal': false}");
    json_t *got[UVCC_PARTIES];
    work_drive(&j, got);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_true(json_is_null(json_object_get(got[p], "weights_sha256")));
    assert_int_equal(json_array_size(json_object_get(got[0], "loss")), 2);
    forget_all(got);
    unlink("t.txt");
}

/* ---- generate ---- */

#define MODEL                                                                                      \
    "'model': {'name': 'x', 'replicas': %u, 'stages': %u, 'tensor_ranks': %u, 'run': {" SMALL      \
    ", " EXACT ", 'reveal': false}}"

static work_job sampling(const char *run) {
    return (work_job){.kind = &work_generate,
                      .replicas = 1,
                      .stages = 1,
                      .tensor_ranks = 1,
                      .microbatches = 1,
                      .run = run,
                      .data = {"{'store': 'kept-0', 'prompt': 't'}", "{'store': 'kept-1'}",
                               "{'store': 'kept-2'}"},
                      .seed = 4};
}

static void remove_stores(const char *name) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        char dir[64];
        (void)snprintf(dir, sizeof dir, "%s-%u", name, p);
        remove_tree(dir);
    }
}

/* What the owner has; the others have none. */
static void check_text(json_t *const got[UVCC_PARTIES], unsigned owner, const char *want) {
    char *hex = calloc(strlen(want) + 1, 2);
    assert_non_null(hex);
    assert_non_null(sodium_bin2hex(hex, 2 * strlen(want) + 1, (const uint8_t *)want, strlen(want)));
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const json_t *v = json_object_get(got[p], "text_hex");
        assert_true(p == owner || json_is_null(v));
        if (p == owner)
            assert_string_equal(json_string_value(v), hex);
    }
    free(hex);
}

/* `uvcc generate`'s text without noise, from the same weights however they were split: with all
 * workers of a party in one store or each in its own; begun anew in the middle. */
static void same_text(void **state) {
    (void)state;
    static const struct {
        unsigned r, s, t;
        bool apart;
    } shapes[] = {{1, 2, 2, true}, {2, 2, 1, false}};
    char run[1024];
    write_file("t.txt", text, TEXT_BYTES);
    json_decref(json_of(TRAIN "--reveal no --checkpoint kept", 0));
    char *all = output_of("generate kept --prompt t --length 3 --temperature 0");
    const char *want = all + strlen("t");
    all[strlen(all) - 1] = '\0'; /* the newline at the end */
    assert_int_equal(strlen(want), 3);
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        json_t *got[UVCC_PARTIES];
        work_job j = training("{" SMALL ", " EXACT ", 'reveal': false}");
        j.replicas = (uint16_t)shapes[i].r;
        j.stages = (uint16_t)shapes[i].s;
        j.tensor_ranks = (uint16_t)shapes[i].t;
        j.apart = shapes[i].apart;
        j.store = "kept";
        j.restart_after = i == 1 ? 1 : 0;
        work_drive(&j, got);
        forget_all(got);
        (void)snprintf(
            run, sizeof run,
            "{'kind': 'generate', 'length': 3, 'temperature': 0, 'prompt_bytes': 1, " MODEL "}",
            shapes[i].r, shapes[i].s, shapes[i].t);
        j = sampling(run);
        j.output[0] = "{'text': 'out.txt'}";
        j.restart_after = i == 1 ? 1 : 0;
        j.store = i == 0 ? NULL : "sampled";
        work_drive(&j, got);
        check_text(got, 0, want);
        forget_all(got);
        char *file = read_all("out.txt");
        assert_string_equal(file, all);
        free(file);
        remove_stores("kept");
        remove_stores("sampled");
        unlink("out.txt");
    }
    free(all);
    remove_tree("kept");
    unlink("t.txt");
}

/* Initial weights need no store; another party may ask, without the others knowing more. */
static void initial_weights(void **state) {
    (void)state;
    char run[1024];
    json_t *got[UVCC_PARTIES];
    (void)snprintf(
        run, sizeof run,
        "{'kind': 'generate', 'length': 3, 'weights': 'initial', 'prompt_owner': 1, " MODEL "}", 1,
        1, 1);
    work_job j = sampling(run);
    j.data[0] = j.data[1] = j.data[2] = NULL;
    work_drive(&j, got);
    assert_int_equal(strlen(test_str(got[1], "text_hex")), 6);
    assert_true(json_is_null(json_object_get(got[0], "text_hex")));
    forget_all(got);
}

static void sampling_refuses(void **state) {
    (void)state;
    static const struct {
        const char *run, *data, *output;
        unsigned party;
        const char *part;
    } cases[] = {
        {"'lenght': 3, ", NULL, NULL, 0,
         "job.run.lenght: there is no such member; there are length"},
        {"'length': 0, ", NULL, NULL, 0, "job.run.length: give a whole number from 1"},
        {"'temperature': 9, ", NULL, NULL, 0, "job.run.temperature: give a number from 0 to 8"},
        {"'prompt_owner': 3, ", NULL, NULL, 0, "job.run.prompt_owner: give a whole number from 0"},
        {"'weights': 'random', ", NULL, NULL, 0, "job.run.weights \"random\": give one of"},
        {"'weights': 'initial', 'step': 1, ", NULL, NULL, 0, "job.run.step: initial weights"},
        {"'weights': 'initial', ", "{'store': 'none'}", NULL, 0, "data.store: initial weights"},
        {"", NULL, NULL, 0, "data.store: it is missing; name the directory"},
        {"", "{'store': 'none', 'prompt': 'ab'}", NULL, 0,
         "job.run.prompt_bytes: is 1, but data.prompt has 2 bytes; write 2 at all"},
        {"", "{'store': 'none', 'prompt': 'a'}", NULL, 1, "data.prompt: the prompt is party 0's"},
        {"", "{'store': 'none'}", "{'text': 'x'}", 1,
         "output.text: what is sampled opens to party 0"},
        {"", "{'store': 'none'}", NULL, 1, "data.store: ./none/key"},
        {"", "{'store': 'none', 'text': 'x'}", NULL, 1, "data.text: there is no such member"},
    };
    char run[1024];
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(run, sizeof run, "{'kind': 'generate', %s" MODEL "}", cases[i].run, 1, 1, 1);
        work_job j = sampling(run);
        j.data[cases[i].party] = cases[i].data;
        j.output[cases[i].party] = cases[i].output;
        work_refused(&j, cases[i].party, cases[i].part);
    }
    work_job j = sampling("{'kind': 'generate'}");
    work_refused(&j, 1, "job.run.model: give the \"job\" of the training");
    j = sampling("{'kind': 'generate', 'model': {'stages': 3, 'run': {" SMALL "}}}");
    work_refused(&j, 1, "job.run.model.stages 3 does not divide job.run.model.run.layers 2");
    j = sampling("{'kind': 'generate', 'model': {'run': {" SMALL ", 'lr': 17}}}");
    work_refused(&j, 1, "job.run.model.run.lr: give a number");
    j.stages = 2;
    work_refused(&j, 1, "job: sampling is done by one worker per party");
}

/* Shares of another model, another step, another party. */
static void other_shares(void **state) {
    (void)state;
    char run[1024];
    json_t *got[UVCC_PARTIES];
    write_file("t.txt", text, TEXT_BYTES);
    work_job j = training("{" SMALL ", " EXACT ", 'reveal': false}");
    j.store = "kept";
    work_drive(&j, got);
    forget_all(got);
    (void)snprintf(run, sizeof run, "{'kind': 'generate', 'step': 9, " MODEL "}", 1, 1, 1);
    j = sampling(run);
    j.data[0] = "{'store': 'kept-0'}";
    work_refused(&j, 0, "kept-0 has no checkpoint of step 9 of worker r0 s0 t0 (steps that it has");
    (void)snprintf(run, sizeof run, "{'kind': 'generate', " MODEL "}", 1, 1, 1);
    j = sampling(run);
    j.data[0] = "{'store': 'kept-1'}";
    work_refused(&j, 0, "is damaged, or not of party 0");
    j = sampling("{'kind': 'generate', 'model': {'run': {" SMALL ", 'lr': 0.5, 'dim': 16}}}");
    j.data[0] = "{'store': 'kept-0'}";
    work_refused(&j, 0, "party 0's shares are of another model");
    remove_stores("kept");
    unlink("t.txt");
}

/* Each by its name, with what is allowed. */
static void refuses(void **state) {
    (void)state;
    static const struct {
        const char *run, *data, *output;
        unsigned party;
        const char *part;
    } cases[] = {
        {"{" SMALL ", 'dimm': 8}", NULL, NULL, 1,
         "job.run.dimm: there is no such member; there are layers, dim, heads"},
        {"{" SMALL ", 'weight-decay': 0}", NULL, NULL, 1, "job.run.weight-decay: there is no such"},
        {"{" SMALL ", 'replicas': 2}", NULL, NULL, 1, "job.run.replicas: there is no such member"},
        {"{" SMALL ", 'lr': 17}", NULL, NULL, 1, "job.run.lr: give a number from 0 to 16"},
        {"{" SMALL ", 'lr': '1'}", NULL, NULL, 1, "job.run.lr: give a number from 0 to 16"},
        {"{" SMALL ", 'heads': 2.0}", NULL, NULL, 1, "job.run.heads: give a whole number from 1"},
        {"{" SMALL ", 'heads': -2}", NULL, NULL, 1, "job.run.heads: give a whole number from 1"},
        {"{" SMALL ", 'block': 'relu'}", NULL, NULL, 1,
         "job.run.block \"relu\": give one of \"gelu\", \"swiglu\", \"gpt2\""},
        {"{" SMALL ", 'block': 1}", NULL, NULL, 1, "job.run.block: give one of"},
        {"{" SMALL ", 'reveal': 'yes'}", NULL, NULL, 1, "job.run.reveal: give true or false"},
        {"{" SMALL ", 'seed': -1}", NULL, NULL, 1, "job.run.seed: give a whole number"},
        {"{" SMALL ", 'seed': '0x1'}", NULL, NULL, 1, "job.run.seed: give a whole number"},
        {"{" SMALL ", 'batch': 6}", NULL, NULL, 1, "job.run.batch 6: give a power of two"},
        {"{" SMALL ", 'heads': 3}", NULL, NULL, 1, "job.run.heads 3 does not divide job.run.dim 8"},
        {"{" SMALL ", 'index': 'exact'}", NULL, NULL, 1,
         "job.run.index exact goes with job.run.truncation ars"},
        {"{" SMALL ", 'weight_decay': 2}", NULL, NULL, 1, "job.run.weight_decay: give a number"},
        {"{" SMALL ", 'clip': 0}", NULL, NULL, 1, "job.run.clip 0: with job.run.optimizer adamw"},
        {"{" SMALL ", 'text_owner': 3}", NULL, NULL, 1,
         "job.run.text_owner: give a whole number from 0 to 2"},
        {"{" SMALL ", 'text_bytes': 4}", NULL, NULL, 1,
         "job.run.text_bytes: give a whole number from 5"},
        {"{" SMALL "}", "{'text': 't.txt'}", NULL, 1, "data.text: the text is party 0's"},
        {"{" SMALL "}", NULL, NULL, 0, "data.text: it is missing; party 0 has the text"},
        {"{" SMALL "}", "{'text': 'no.txt'}", NULL, 0, "data.text ./no.txt: cannot be opened"},
        {"{" SMALL "}", "{'csv': 't.txt'}", NULL, 0, "data.csv: there is no such member"},
        {"{" SMALL "}", "{'text': 3}", NULL, 0, "data.text: give a string"},
        {"{" SMALL ", 'text_bytes': 135}", "{'text': 't.txt'}", NULL, 0,
         "job.run.text_bytes: is 135, but ./t.txt has 136 bytes; write 136 at all"},
        {"{'kind': 'transformer'}", "{'text': 't.txt'}", NULL, 0,
         "job.run.text_bytes: it is missing; write 136, the length of ./t.txt"},
        {"{'kind': 'transformer'}", NULL, NULL, 2, "job.run.text_bytes: it is missing; write the"},
        {"{" SMALL "}", NULL, "{'weights': 'no/such/w'}", 1,
         "output.weights ./no/such/w: cannot be written"},
        {"{" SMALL ", 'reveal': false}", NULL, "{'weights': 'w'}", 1,
         "output.weights: the job opens none"},
        {"{" SMALL "}", NULL, "{'plot': 'w'}", 1, "output.plot: there is no such member"},
    };
    write_file("t.txt", text, TEXT_BYTES);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        work_job j = training(cases[i].run);
        j.data[cases[i].party] = cases[i].data;
        j.output[cases[i].party] = cases[i].output;
        work_refused(&j, cases[i].party, cases[i].part);
    }
    work_job j = training("{" SMALL "}");
    j.stages = 3;
    work_refused(&j, 1, "job.stages 3 does not divide job.run.layers 2");
    j = training("{" SMALL "}");
    j.tensor_ranks = 4;
    work_refused(&j, 1, "job.tensor_ranks 4 does not divide job.run.heads 2");
    unlink("t.txt");
}

/* ---- nonlinear ---- */

static work_job functions(const char *run) {
    return (work_job){.kind = &work_nonlinear,
                      .replicas = 1,
                      .stages = 1,
                      .tensor_ranks = 1,
                      .microbatches = 1,
                      .run = run,
                      .seed = 5};
}

static const json_t *function_at(const json_t *result, size_t i) {
    return json_array_get(json_object_get(result, "functions"), i);
}

/* The errors and rounds are those of `uvcc nonlinear`, and the bytes of the three parties are its
 * bytes. Fast functions keep to their bound, and all parties see the same. */
static void same_measurements(void **state) {
    (void)state;
    static const char *const errors[] = {"max_error", "mean_error", "of_bound"};
    json_t *want = json_of("nonlinear relu softmax --exact --inputs 70000 --seed 7", 0);
    const work_job j = functions("{'kind': 'nonlinear', 'functions': ['relu', 'softmax'], "
                                 "'inputs': 70000, 'seed': 7}");
    json_t *got[UVCC_PARTIES];
    work_drive(&j, got);
    for (size_t i = 0; i < 4; i++) { /* relu fast, relu exact, softmax fast, softmax exact */
        const bool exact = i % 2 == 1;
        const json_t *w = function_at(want, i / 2);
        double online = 0, keys = 0;
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const json_t *f = function_at(got[p], i);
            assert_string_equal(test_str(f, "function"), test_str(w, "function"));
            assert_string_equal(test_str(f, "mode"), exact ? "exact" : "fast");
            assert_string_equal(test_str(f, "compared_with"), exact ? "reference" : "bound");
            assert_true(json_is_true(json_object_get(f, "secure_equal")));
            assert_string_equal(test_str(f, "opened_sha256"),
                                test_str(function_at(got[0], i), "opened_sha256"));
            assert_true(number(f, "inputs") == number(w, "inputs"));
            for (unsigned k = 0; exact && k < 3; k++)
                assert_true(number(f, errors[k]) == number(w, errors[k]));
            assert_true(!exact || number(f, "rounds") == number(w, "rounds"));
            assert_true(number(f, "of_bound") <= 1);
            online += number(f, "own_online_bytes");
            keys += number(f, "own_key_bytes");
        }
        assert_true(!exact || (online - number(w, "online_bytes") < 0.02 &&
                               number(w, "online_bytes") - online < 0.02));
        assert_true(!exact ||
                    (keys - number(w, "key_bytes") < 0.02 && number(w, "key_bytes") - keys < 0.02));
    }
    forget_all(got);
    json_decref(want);
}

/* What was measured before is measured again, or stays. */
static void measured_again(void **state) {
    (void)state;
    json_t *got[UVCC_PARTIES], *again[UVCC_PARTIES];
    work_job j = functions("{'kind': 'nonlinear', 'functions': ['tanh', 'max'], 'exact': true, "
                           "'inputs': 1024}");
    work_drive(&j, got);
    j.restart_after = 5; /* in the second */
    work_drive(&j, again);
    for (size_t i = 0; i < 2; i++)
        assert_string_equal(test_str(function_at(got[1], i), "opened_sha256"),
                            test_str(function_at(again[1], i), "opened_sha256"));
    forget_all(again);
    j.store = "measured";
    work_drive(&j, again);
    assert_string_equal(test_str(function_at(got[1], 0), "opened_sha256"),
                        test_str(function_at(again[1], 0), "opened_sha256"));
    assert_true(json_is_true(json_object_get(function_at(again[1], 1), "secure_equal")));
    forget_all(again);
    forget_all(got);
    remove_stores("measured");
}

/* Of one program that has them all. */
static void all_functions(void **state) {
    (void)state;
    json_t *got[UVCC_PARTIES];
    const work_job j = functions("{'kind': 'nonlinear', 'inputs': 128}");
    work_drive(&j, got);
    assert_int_equal(json_array_size(json_object_get(got[2], "functions")), 44);
    for (size_t i = 0; i < 44; i++)
        assert_true(json_is_true(json_object_get(function_at(got[2], i), "secure_equal")));
    forget_all(got);
}

static void functions_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"'functions': ['gel']", "job.run.functions: there is no function 'gel'; there are sign"},
        {"'functions': []", "job.run.functions: give an array of names"},
        {"'functions': 'gelu'", "job.run.functions: give an array of names"},
        {"'functions': [1]", "job.run.functions: a function is named by a string"},
        {"'functions': ['gelu'], 'plain': true", "job.run.plain is for rmsnorm and layernorm"},
        {"'exact': 1", "job.run.exact: give true or false"},
        {"'inputs': 0", "job.run.inputs: give a whole number from 1"},
        {"'input': 5", "job.run.input: there is no such member; there are seed, kind, functions"},
    };
    char run[512];
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)snprintf(run, sizeof run, "{'kind': 'nonlinear', %s}", cases[i][0]);
        const work_job j = functions(run);
        work_refused(&j, 2, cases[i][1]);
    }
    work_job j = functions("{'kind': 'nonlinear'}");
    j.tensor_ranks = 2;
    work_refused(&j, 0, "job: functions are measured by one worker per party");
    j = functions("{'kind': 'nonlinear'}");
    j.data[0] = "{'text': 'x'}";
    work_refused(&j, 0, "data.text: nothing is to be said there; leave it out");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_weights),    cmocka_unit_test(same_options),
        cmocka_unit_test(owner_and_files), cmocka_unit_test(no_reveal),
        cmocka_unit_test(refuses),         cmocka_unit_test(same_text),
        cmocka_unit_test(initial_weights), cmocka_unit_test(sampling_refuses),
        cmocka_unit_test(other_shares),    cmocka_unit_test(same_measurements),
        cmocka_unit_test(measured_again),  cmocka_unit_test(functions_refused),
        cmocka_unit_test(all_functions),
    };
    if (argc != 2 || sodium_init() < 0 || !find_tool(argv[1]))
        return EXIT_FAILURE;
    interrupt_begin();
    if (getenv("PARTY_WORK_TEST") != NULL)
        cmocka_set_test_filter(getenv("PARTY_WORK_TEST"));
    return cmocka_run_group_tests(tests, enter, leave);
}
