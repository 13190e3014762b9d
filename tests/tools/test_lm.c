/* SPDX-License-Identifier: Apache-2.0 */
/* test_lm.c - `uvcc train --model transformer` and `uvcc generate` as a user runs them. */
#include "run_tool.h"

#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRAIN "train --model transformer "
#define SMALL                                                                                      \
    TRAIN "--text t.txt --layers 2 --dim 16 --heads 2 --context 8 --batch 8 --microbatches 2 "     \
          "--steps 2 "
#define EXACT SMALL "--truncation ars --index exact "

static void write_text(void) {
    char text[600];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "three parties train together, and none of them sees. "[i % 53];
    write_file("t.txt", text, sizeof text);
}

#define SHUT "uvcc policy v1\nprogram any\nopen train * to 1\n"

static void refuses(void **state) {
    (void)state;
    write_text();
    write_file("short.txt", "short", 5);
    write_file("shut.txt", SHUT, sizeof SHUT - 1);
    static const char *const cases[][2] = {
        {TRAIN "--text no.txt", "no.txt: cannot be opened: No such file or directory; check"},
        {TRAIN "--text .", "no regular file"},
        {TRAIN "--text short.txt", "has 5 bytes"},
        {TRAIN "--dim 0", "--dim 0"},
        {TRAIN "--dim 18", "does not divide --dim 18"},
        {TRAIN "--heads 3", "--heads 3 does not divide"},
        {TRAIN "--stages 2", "--stages 2 does not divide --layers 1"},
        {TRAIN "--tensor 3", "--tensor 3 does not divide --heads"},
        {TRAIN "--batch 12", "power of two, such as 8 or 16"},
        {TRAIN "--batch 2 --microbatches 4", "give at least --batch 4"},
        {TRAIN "--context 12", "context"},
        {TRAIN "--index exact", "--truncation ars"},
        {TRAIN "--optimizer adam", "sgd|momentum|adamw"},
        {TRAIN "--lr 17", "--lr 17"},
        {TRAIN "--clip 0", "--clip 0: with --optimizer adamw give 2^-12 to 0.0625"},
        {TRAIN "--clip 0.5", "--clip 0.5: with --optimizer adamw give 2^-12 to 0.0625"},
        {TRAIN "--optimizer sgd --clip 0.0001", "--clip 0.0001: give 2^-12 to 32, or 0 for none"},
        {TRAIN "--optimizer sgd --clip 33", "--clip 33: give a number from 0 to 32"},
        {TRAIN "--optimizer adam-mini --clip 0.01 --dim 256",
         "--clip 0.01: with --optimizer adam-mini and --dim 256 give 2^-5 to 1, or 0 for none"},
        {TRAIN "--optimizer adam-mini --clip 0.6 --hidden 64",
         "--clip 0.6: with --optimizer adam-mini and --dim 64 give 2^-5 to 0.5"},
        {TRAIN "--optimizer adam-mini --clip 0.6 --hidden 16",
         "--clip 0.6: with --optimizer adam-mini and --hidden 16 give 2^-5 to 0.25"},
        {TRAIN "--optimizer adam-mini --clip 5 --dim 8192 --heads 64",
         "--clip 5: with --optimizer adam-mini and --dim 8192 give 2^-5 to 4"},
        {TRAIN "--lr x", "--lr x"},
        {TRAIN "--hidden 5,5", "--hidden 5,5"},
        {TRAIN "--data t.csv", "no option --data"},
        {TRAIN "--layers 64 --replicas 2 --stages 64", "128 workers"},
        {TRAIN "--text t.txt --json no/such/place.json", "--json no/such/place.json"},
        {TRAIN "--reveal no --check", "leave out --reveal no"},
        {"generate", "give one directory"},
        {"generate no", "no: there is no kept model in it; name a directory"},
        {TRAIN "--text t.txt --weights no/such/w", "--weights no/such/w: cannot be written"},
        {TRAIN "--text t.txt --plot no/such/p.svg", "--plot no/such/p.svg: cannot be written"},
        {TRAIN "--text t.txt --checkpoint no/such/c",
         "--checkpoint no/such/c: cannot be made: No such file or directory; choose"},
        {TRAIN "--text t.txt --policy short.txt", "--policy short.txt: line 1"},
        {SMALL "--policy shut.txt", "--policy shut.txt: the policy does not allow output"},
        {"generate no --length 0", "--length 0"},
        {"generate no --temperature 9", "--temperature 9"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    unlink("short.txt");
    unlink("shut.txt");
    unlink("t.txt");
}

/* In hexadecimal digits. */
static const char *sha256_of(const char *path) {
    static char text[2 * crypto_hash_sha256_BYTES + 1];
    uint8_t bytes[4096], digest[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state h;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    crypto_hash_sha256_init(&h);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
        crypto_hash_sha256_update(&h, bytes, n);
    fclose(f);
    crypto_hash_sha256_final(&h, digest);
    return sodium_bin2hex(text, sizeof text, digest, sizeof digest);
}

/* The final weights depend on the sizes, the text and the seed alone; `--check` says that they are
 * the plaintext run's. */
static void same_weights(void **state) {
    (void)state;
    static const char *const ways[] = {
        EXACT "--replicas 2",
        EXACT "--stages 2 --ahead 1 --products beaver",
        EXACT "--tensor 2 --compute deferred",
        EXACT "--stages 2 --sks 500",
        SMALL "--truncation ars-dcf --index exact --stages 2",
        EXACT "--replicas 2 --products beaver --sks 1000",
        EXACT "--replicas 2 --stages 2 --tensor 2",
        EXACT "--drop 0.1 --reorder 0.2 --duplicate 0.1 --corrupt 0.01",
        SMALL "--truncation ars --index exact --microbatches 4 --products beaver",
    };
    write_text();
    json_t *one = json_of(EXACT "--check", 0);
    assert_true(json_is_true(json_object_get(one, "reference_equal")));
    assert_int_equal(json_array_size(json_object_get(one, "loss")), 2);
    const double first = json_real_value(json_array_get(json_object_get(one, "loss"), 0));
    assert_true(first > 5 && first < 6.5); /* about ln 256 */
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *other = json_of(ways[i], 0);
        assert_string_equal(test_str(other, "weights_sha256"), test_str(one, "weights_sha256"));
        assert_true(json_equal(json_object_get(other, "loss"), json_object_get(one, "loss")));
        json_decref(other);
    }
    json_t *other = json_of(EXACT "--weights w.bin", 0);
    struct stat st;
    assert_int_equal(stat("w.bin", &st), 0);
    assert_int_equal(st.st_size, 8 * json_integer_value(json_object_get(other, "parameters")));
    assert_string_equal(test_str(other, "weights_sha256"), sha256_of("w.bin"));
    unlink("w.bin");
    json_decref(other);
    other = json_of(EXACT "--seed 2", 0);
    assert_string_not_equal(test_str(other, "weights_sha256"), test_str(one, "weights_sha256"));
    json_decref(other);
    json_decref(one);
    unlink("t.txt");
}

static void other_blocks(void **state) {
    (void)state;
    static const char *const ways[] = {EXACT "--block swiglu --optimizer momentum --check",
                                       EXACT "--block gpt2 --optimizer sgd --check",
                                       EXACT "--optimizer adam-mini --clip 0.125 --check"};
    write_text();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        json_t *j = json_of(ways[i], 0);
        assert_true(json_is_true(json_object_get(j, "reference_equal")));
        json_decref(j);
    }
    unlink("t.txt");
}

/* A policy for samples alone: what else the program could open does not run, and the third byte is
 * one too many. */
static void samples_by_policy(void) {
    static const char text[] = "uvcc policy v1\nprogram any\nopen next * to 0\nsteps next 2\n"
                               "steps reveal 0\nsteps logits 0\nsteps train 0\nsteps eval 0\n";
    write_file("next.txt", text, sizeof text - 1);
    outcome o = run_tool("generate kept --length 3 --policy next.txt");
    assert_int_equal(o.status, 1);
    assert_non_null(strstr(o.err, "step 3: the policy's line 4 allows no further step"));
    forget(&o);
    refused("generate kept --policy none.txt", "none.txt: cannot be opened");
    unlink("next.txt");
}

/* One process at a time, each with a run's number of its own; an older file in the place of a newer
 * one is no checkpoint. */
static void guards_the_directory(void) {
    int lock = open("kept/lock", O_RDWR);
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    refused(EXACT "--stages 2 --checkpoint kept", "kept: another process uses it");
    refused("generate kept --length 1", "kept: another process uses it");
    close(lock);
    char *run = read_all("kept/party-0/run");
    char *other_run = read_all("kept/party-2/run");
    assert_string_equal(run, other_run);
    assert_true(atoi(run) >= 5); /* of the runs above, the samples' too */
    free(run);
    free(other_run);
    /* an older file in the place of a newer one */
    assert_int_equal(rename("kept/party-1/r0-s0-t0.step-1", "kept/party-1/r0-s0-t0.step-2"), 0);
    refused("generate kept --length 1",
            "party-1/r0-s0-t0.step-2 is damaged, or not sealed with this party's key; put it back "
            "from a copy, or give another directory to begin anew");
    remove_tree("kept");
    json_decref(json_of(EXACT "--stages 2 --checkpoint kept", 0));
}

/* A step whose products failed their check is not run again unasked. */
static void refuses_the_step(const json_t *whole) {
    write_file("kept/party-2/sks-refused", "1\n", 2);
    unlink("kept/party-1/r0-s1-t0.step-2");
    outcome o = run_tool(EXACT "--stages 2 --checkpoint kept");
    assert_int_equal(o.status, 1);
    assert_non_null(strstr(o.err, "--sks-override"));
    forget(&o);
    json_t *told = json_of(EXACT "--stages 2 --checkpoint kept --sks-override", 0);
    assert_string_equal(test_str(whole, "weights_sha256"), test_str(told, "weights_sha256"));
    json_decref(told);
}

static void refuses_what_is_damaged(const json_t *whole) {
    refused(EXACT "--checkpoint kept", "stages 2, not 1");
    char *share = read_all("kept/party-2/r0-s0-t0.step-2");
    assert_non_null(share);
    write_file("kept/party-2/r0-s0-t0.step-2", "UVCCSEAL damaged", 16);
    refused("generate kept --length 1", "party-2/r0-s0-t0.step-2 is damaged");
    free(share);
    refused(EXACT "--stages 2 --checkpoint kept",
            "party-2/r0-s0-t0.step-2 is damaged, or not sealed with this party's key; put it back "
            "from a copy, or remove it to go on from step 1, which all have");
    assert_int_equal(unlink("kept/party-2/r0-s0-t0.step-2"), 0); /* as it says */
    json_t *again = json_of(EXACT "--stages 2 --checkpoint kept --sks-override", 0);
    assert_string_equal(test_str(whole, "weights_sha256"), test_str(again, "weights_sha256"));
    json_decref(again);
    write_file("kept/party-1/run", "5", 1); /* as if it was cut: no line's end */
    refused(EXACT "--stages 2 --checkpoint kept",
            "party-1/run: is not the number that stood there");
    write_file("kept/party-1/run", "", 0);
    refused(EXACT "--stages 2 --checkpoint kept",
            "party-1/run: is not the number that stood there");
}

/* A kept model goes on where it was, can be sampled from, and is refused when it is damaged or not
 * the one that the options speak of. */
static void keeps(void **state) {
    (void)state;
    write_text();
    json_t *whole = json_of(EXACT, 0), *kept = json_of(EXACT "--stages 2 --checkpoint kept", 0);
    assert_string_equal(test_str(whole, "weights_sha256"), test_str(kept, "weights_sha256"));
    json_t *again = json_of(EXACT "--stages 2 --checkpoint kept", 0); /* all steps are done */
    assert_string_equal(test_str(whole, "weights_sha256"), test_str(again, "weights_sha256"));
    assert_int_equal(json_array_size(json_object_get(again, "loss")), 0);
    /* without its last step, at one party: both go back to the step before */
    unlink("kept/party-1/r0-s1-t0.step-2");
    json_decref(again);
    again = json_of(EXACT "--stages 2 --checkpoint kept", 0);
    assert_string_equal(test_str(whole, "weights_sha256"), test_str(again, "weights_sha256"));
    assert_int_equal(json_array_size(json_object_get(again, "loss")), 1);

    /* kept shared: nothing is opened but the losses */
    json_t *closed = json_of(EXACT "--stages 2 --checkpoint kept --reveal no", 0);
    assert_true(json_is_null(json_object_get(closed, "weights_sha256")));
    json_decref(closed);

    /* noise is of the run; without it the bytes are the model's */
    outcome a = run_tool("generate kept --prompt three --length 6 --temperature 0");
    outcome b = run_tool("generate kept --prompt three --length 6 --temperature 0");
    assert_int_equal(a.status, 0);
    assert_int_equal(strncmp(a.out, "three", 5), 0);
    assert_string_equal(a.out, b.out);
    forget(&a);
    forget(&b);
    samples_by_policy();

    guards_the_directory();
    refuses_the_step(whole);
    refuses_what_is_damaged(whole);
    remove_tree("kept");
    json_decref(whole);
    json_decref(kept);
    json_decref(again);
    unlink("t.txt");
}

/* As it was: what a refused run may not touch. */
static void untouched(const char *words, const char *part) {
    static const char *const files[] = {"kept/model.json", "kept/party-0/run", "kept/party-1/key",
                                        "kept/party-2/r0-s0-t0.step-1",
                                        "kept/party-2/r0-s0-t0.step-2"};
    enum { FILES = sizeof files / sizeof files[0] };
    char *before[FILES];
    for (size_t i = 0; i < FILES; i++)
        before[i] = access(files[i], F_OK) == 0 ? strdup(sha256_of(files[i])) : NULL;
    refused(words, part);
    for (size_t i = 0; i < FILES; i++) {
        assert_int_equal(before[i] != NULL, access(files[i], F_OK) == 0);
        if (before[i] != NULL)
            assert_string_equal(before[i], sha256_of(files[i]));
        free(before[i]);
    }
}

static void lacks(const char *path, const char *part) {
    assert_int_equal(rename(path, "away"), 0);
    untouched(EXACT "--checkpoint kept", part);
    assert_int_equal(rename("away", path), 0);
}

/* With model.json. */
static void says_what_is_wrong(void) {
    static const char *const cases[][2] = {
        {"", "it is empty"},
        {"{\"version\": 4, \"cont", "it is cut, or no JSON"},
        {"[]", "it is no JSON object"},
        {"{}", "it does not say what a model was begun with"},
        {"{\"version\": 4}", "a member is missing or out of range"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char part[160];
        write_file("kept/model.json", cases[i][0], strlen(cases[i][0]));
        snprintf(part, sizeof part,
                 "kept/model.json is damaged: %s; put it back from a copy, or give another",
                 cases[i][1]);
        refused(EXACT "--checkpoint kept", part);
        refused("generate kept --length 1", part);
    }
}

/* A model goes on as it was begun, or not at all; what is missing is named, and stays missing. */
static void goes_on_as_begun(void **state) {
    (void)state;
    static const char *const others[][2] = {
        {"--lr 0.02", "--lr 0.01, not 0.02"},
        {"--warmup 3", "--warmup 20, not 3"},
        {"--final-rate 0.5", "--final-rate 0.05, not 0.5"},
        {"--steps 1", "--steps 2, not 1, and 2 are done"},
        {"--steps 3", "--steps 2, not 3, and the rates hang on it; give the same, or --extend"},
        {"--clip 0.03125", "--clip 0.0625, not 0.03125"},
        {"--weight-decay 0.125", "--weight-decay 0, not 0.125"},
        {"--truncation ars-dcf", "--truncation ars, not ars-dcf"},
        {"--optimizer momentum", "--optimizer adamw, not momentum"},
        {"--block swiglu", "--block gelu, not swiglu"},
        {"--products beaver", "--products native, not beaver"},
        {"--sks 5", "--sks 0, not 5"},
        {"--recompute", "begun without --recompute; leave it out, or give another directory"},
        {"--batch 16", "--batch 8, not 16"},
        {"--seed 2", "--seed 1, not 2"},
        {"--text other.txt", "a --text of 600 bytes, SHA-256 "},
        {"--steps 3 --extend --check", "leave out --extend"},
    };
    char words[512];
    write_text();
    write_file("other.txt", "another text, which has some words as well", 42);
    outcome o = run_tool(EXACT "--checkpoint kept");
    assert_int_equal(o.status, 0);
    assert_null(strstr(o.out, "going on"));
    forget(&o);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        snprintf(words, sizeof words, EXACT "--checkpoint kept %s", others[i][0]);
        untouched(words, others[i][1]);
    }
    refused(EXACT "--extend", "--extend goes with --checkpoint");
    lacks("kept/party-1/run", "kept/party-1/run is missing, but shares are there");
    lacks("kept/party-2/key", "kept/party-2/key is missing, but shares are there");
    lacks("kept/model.json", "kept/model.json is missing, but shares are there");
    assert_int_equal(rename("kept/party-1/r0-s0-t0.step-1", "away-1"), 0);
    lacks(
        "kept/party-1/r0-s0-t0.step-2",
        "no step in common: of party 0's workers r0 s0 t0 has step 1, 2, of party 1's r0 s0 t0 has "
        "none, of party 2's r0 s0 t0 has step 1, 2; nothing was changed");
    assert_int_equal(rename("away-1", "kept/party-1/r0-s0-t0.step-1"), 0);

    /* of an older release */
    char *json = read_all("kept/model.json"), *version = strstr(json, "\"version\": 4,");
    assert_non_null(version);
    memcpy(version, "\"inverse\"", 9);
    assert_int_equal(rename("kept/model.json", "away"), 0);
    write_file("kept/model.json", json, strlen(json));
    refused(EXACT "--checkpoint kept", "kept/model.json is of version 1, this uvcc goes on from");
    refused("generate kept --length 1", "kept/model.json is of version 1");
    says_what_is_wrong();
    assert_int_equal(rename("away", "kept/model.json"), 0);
    free(json);

    /* A step that one party lost is made again, and the others' goes to one side. */
    assert_int_equal(unlink("kept/party-1/r0-s0-t0.step-2"), 0);
    o = run_tool(EXACT "--checkpoint kept");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "going on         from step 1 of 2, kept in kept\n"));
    assert_int_equal(access("kept/party-0/r0-s0-t0.step-2.aside", F_OK), 0);
    assert_int_equal(access("kept/party-1/r0-s0-t0.step-2.aside", F_OK), -1);
    forget(&o);
    /* As if one party's file came back from a copy: it has another past. */
    assert_int_equal(rename("kept/party-0/r0-s0-t0.step-2", "away"), 0);
    assert_int_equal(rename("kept/party-0/r0-s0-t0.step-2.aside", "kept/party-0/r0-s0-t0.step-2"),
                     0);
    refused(EXACT "--checkpoint kept", "kept/party-0/r0-s0-t0.step-2: is of another history than");
    assert_int_equal(rename("away", "kept/party-0/r0-s0-t0.step-2"), 0);
    o = run_tool(EXACT "--checkpoint kept --steps 3 --extend");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "going on         from step 2 of 3, kept in kept\n"));
    forget(&o);
    refused(EXACT "--checkpoint kept", "--steps 3, not 2, and 3 are done");
    o = interrupt_tool("generate kept --length 100000", "stdout"); /* at its first new line */
    assert_int_equal(o.status, 130);
    assert_non_null(strstr(o.err, "of 100000 bytes; the model is as it was"));
    forget(&o);
    refused(EXACT "--steps 3 --check --checkpoint kept", "--check: the model in kept was extended");
    remove_tree("kept");
    unlink("other.txt");
    unlink("t.txt");
}

/* Bundles of all workers, and the root over them that the JSON has. */
static void leaves_evidence(void **state) {
    (void)state;
    write_text();
    json_t *j = json_of(SMALL "--stages 2 --replicas 2 --audit ev", 0);
    const json_t *roots = json_object_get(j, "global_root");
    assert_int_equal(json_array_size(roots), 3);
    outcome o = run_tool("audit verify ev");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "36 bundles of 12 workers")); /* two steps and the opening */
    forget(&o);
    o = run_tool("audit show ev/party-1/job/run-000000/step-00000002.root");
    assert_non_null(strstr(o.out, json_string_value(json_array_get(roots, 1))));
    forget(&o);
    refused(SMALL "--audit ev", "ev");
    refused(SMALL "--audit ev2 --transcript off", "--audit needs the transcript");
    remove_tree("ev");
    json_decref(j);
    unlink("t.txt");
}

static void set_runs(const char *text) {
    static const char *const files[] = {"kept/party-0/run", "kept/party-1/run", "kept/party-2/run"};
    for (unsigned p = 0; p < 3; p++)
        write_file(files[p], text, strlen(text));
}

/* A run that is refused is the same one the next time, and is refused again. */
static void refused_runs_use_no_number(void **state) {
    (void)state;
    write_text();
    json_decref(json_of(SMALL "--checkpoint kept --audit ev", 0));
    json_decref(json_of(SMALL "--checkpoint kept --audit ev", 0));
    set_runs("0\n"); /* as if the model came back from a copy */
    for (unsigned i = 0; i < 2; i++) {
        refused(SMALL "--checkpoint kept --audit ev",
                "--audit ev: has bundles of run 1, and this would be run 1: give the directory");
        char *run = read_all("kept/party-1/run");
        assert_string_equal(run, "0\n");
        free(run);
    }
    refused(SMALL "--checkpoint kept --record t.txt", "--record t.txt: Not a directory");
    char *run = read_all("kept/party-2/run");
    assert_string_equal(run, "0\n");
    free(run);
    set_runs("1\n"); /* as it says */
    json_decref(json_of(SMALL "--checkpoint kept --audit ev", 0));
    outcome o = run_tool("audit verify ev");
    assert_int_equal(o.status, 0);
    forget(&o);
    remove_tree("kept");
    remove_tree("ev");
    unlink("t.txt");
}

/* Secrets never lie where evidence does, nor one thing in the place of another. */
static void directories_have_one_use(void **state) {
    (void)state;
    write_text();
    assert_int_equal(symlink("new", "link"), 0);
    refused(SMALL "--checkpoint new --audit new", "--audit new: is the directory of --checkpoint");
    refused(SMALL "--checkpoint new --audit ./new/", "is the directory of --checkpoint");
    refused(SMALL "--checkpoint new --audit link", "is the directory of --checkpoint");
    refused(SMALL "--checkpoint new --record new", "is the directory of --checkpoint");
    refused(SMALL "--audit new --record new", "--record new: is the directory of --audit");
    assert_int_equal(access("new", F_OK), -1);
    assert_int_equal(unlink("link"), 0);
    json_decref(json_of(SMALL "--checkpoint kept --audit ev --record logs", 0));
    refused(SMALL "--checkpoint ev",
            "--checkpoint ev: has evidence, which goes to auditors (--audit)");
    refused(SMALL "--record ev", "--record ev: has evidence, which goes to auditors (--audit)");
    refused(SMALL "--audit kept", "--audit kept: has a kept model, with its keys (--checkpoint)");
    refused(SMALL "--record kept", "--record kept: has a kept model, with its keys");
    refused(SMALL "--audit logs", "--audit logs: has logs, which hold all secrets (--record)");
    refused(SMALL "--checkpoint logs", "--checkpoint logs: has logs, which hold all secrets");
    outcome o = run_tool("audit verify ev");
    assert_int_equal(o.status, 0);
    forget(&o);
    remove_tree("kept");
    remove_tree("ev");
    remove_tree("logs");
    unlink("t.txt");
}

/* Values that wrap end no step; the loss tells. */
static void says_that_values_wrapped(void **state) {
    (void)state;
    write_text();
    outcome o = run_tool(SMALL "--optimizer adam-mini --lr 3.9 --warmup 0 --steps 3");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.err, "in step 2 and no model's in 2 of 3 steps: values left their"));
    forget(&o);
    o = run_tool(SMALL "--optimizer adam-mini --dim 4 --heads 2 --steps 1"); /* clip: 0.125 */
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    forget(&o);
    unlink("t.txt");
}

/* Nobody finds out after hours that nothing is left. */
static void says_what_is_not_kept(void **state) {
    (void)state;
    write_text();
    outcome o = run_tool(SMALL "--reveal no");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "the weights will be neither opened nor kept (see --checkpoint)\n");
    assert_non_null(strstr(o.out, "weights sha256   not opened, and kept nowhere"));
    forget(&o);
    o = run_tool(SMALL "--reveal no --checkpoint kept");
    assert_int_equal(o.status, 0);
    assert_string_equal(o.err, "");
    assert_non_null(strstr(o.out, "weights sha256   not opened\n"));
    forget(&o);
    remove_tree("kept");
    unlink("t.txt");
}

/* Adds up the rows of a list of the profile; bytes are those of the formula, and headers. */
static uint64_t sum_costs(const json_t *j, const char *key) {
    const json_t *list = json_object_get(j, key);
    uint64_t bytes = 0, formula = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *o = json_array_get(list, i);
        const uint64_t online = test_u64(o, "formula_online_bytes");
        const uint64_t keys = test_u64(o, "formula_key_bytes");
        assert_true(test_u64(o, "bytes_online") >= online);
        assert_true(test_u64(o, "bytes_preprocessing") >= keys);
        bytes += test_u64(o, "bytes_online") + test_u64(o, "bytes_preprocessing");
        formula += online + keys;
    }
    assert_true(bytes > 0 && (double)bytes < 1.1 * (double)formula);
    return formula;
}

static const json_t *part(const json_t *j, const char *name) {
    const json_t *list = json_object_get(j, "layers");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (strcmp(test_str(json_array_get(list, i), "layer"), name) == 0)
            return json_array_get(list, i);
    fail_msg("no part %s", name);
    return NULL;
}

/* What a run costs: by op, by part of the model and by step; and the memory of a step. */
static void tells_costs(void **state) {
    (void)state;
    static const char *const parts[] = {"inputs",
                                        "embedding forward",
                                        "layer 0 forward",
                                        "layer 1 forward",
                                        "output forward",
                                        "output backward",
                                        "layer 1 backward",
                                        "layer 0 backward",
                                        "embedding backward",
                                        "update",
                                        "opening"};
    static const char *const ways[] = {SMALL, SMALL "--products beaver",
                                       SMALL "--stages 2 --replicas 2 --ahead 1",
                                       SMALL "--sks 300"};
    write_text();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const bool drawn = i == 3; /* not every product is checked */
        char words[512];
        snprintf(words, sizeof words, "%s --profile", ways[i]);
        json_t *j = json_of(words, 0);
        const json_t *entries = json_object_get(j, "entries");
        uint64_t rounds = 0;
        const uint64_t formula = sum_costs(j, "ops");
        assert_int_equal(sum_costs(j, "layers"), formula);
        assert_int_equal(sum_costs(j, "entries"), formula);
        for (size_t k = 0; k < sizeof parts / sizeof parts[0]; k++)
            (void)part(j, parts[k]);
        assert_int_equal(test_u64(part(j, "layer 0 forward"), "rounds"),
                         test_u64(part(j, "layer 1 forward"), "rounds"));
        for (size_t k = 0; k < json_array_size(entries); k++)
            rounds += test_u64(json_array_get(entries, k), "rounds") *
                      test_u64(json_array_get(entries, k), "steps");
        assert_true(drawn ? test_u64(j, "rounds") <= rounds : test_u64(j, "rounds") == rounds);
        assert_true(drawn || test_u64(part(j, "layer 0 backward"), "formula_online_bytes") ==
                                 test_u64(part(j, "layer 1 backward"), "formula_online_bytes"));
        const uint64_t peak = test_u64(j, "transient_peak_bytes");
        assert_true(peak > 0 && peak <= test_u64(j, "transient_bound_bytes"));
        json_decref(j);
    }
    unlink("t.txt");
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses),
        cmocka_unit_test(same_weights),
        cmocka_unit_test(other_blocks),
        cmocka_unit_test(keeps),
        cmocka_unit_test(goes_on_as_begun),
        cmocka_unit_test(leaves_evidence),
        cmocka_unit_test(tells_costs),
        cmocka_unit_test(refused_runs_use_no_number),
        cmocka_unit_test(directories_have_one_use),
        cmocka_unit_test(says_what_is_not_kept),
        cmocka_unit_test(says_that_values_wrapped),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
