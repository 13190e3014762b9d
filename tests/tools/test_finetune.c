/* SPDX-License-Identifier: Apache-2.0 */
/* test_finetune.c - `uvcc train --model DIR`: the checkpoints of tests/data/models learn labels and
 * next tokens, as the plaintext run does; what is kept, written and refused. */
#include "run_tool.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "card.h"
#include "lm/checkpoint.h"
#include "model/safetensors.h"
#include "report.h"

#define MODELS UVCC_DATA_DIR "/models/"

enum { WORDS = 1024, ROWS = 16, TOKENS = 6 };

/* ---- data ---- */

typedef struct part {
    const char *name;
    uint64_t cols; /* 0: one number for each row */
    const int64_t *v;
} part;

static void write_data(const char *path, const part *parts, size_t count, uint64_t rows) {
    json_t *header = json_object();
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t n = rows * (parts[i].cols != 0 ? parts[i].cols : 1);
        json_t *shape = json_pack("[I]", (json_int_t)rows);
        if (parts[i].cols != 0)
            json_array_append_new(shape, json_integer((json_int_t)parts[i].cols));
        json_object_set_new(header, parts[i].name,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype", "I64", "shape", shape,
                                      "data_offsets", (json_int_t)at, (json_int_t)(at + 8 * n)));
        at += 8 * n;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    const uint64_t len = strlen(text);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(&len, 8, 1, f), 1); /* little-endian hosts only, as the library */
    assert_int_equal(fwrite(text, 1, len, f), len);
    for (size_t i = 0; i < count; i++) {
        const size_t n = rows * (parts[i].cols != 0 ? parts[i].cols : 1);
        assert_int_equal(fwrite(parts[i].v, 8, n, f), n);
    }
    assert_int_equal(fclose(f), 0);
    free(text);
    json_decref(header);
}

/* Rows of low tokens have label 0, of high ones label 1; their last tokens may be none. */
static void write_labels(const char *path, bool padded) {
    int64_t ids[ROWS * TOKENS], mask[ROWS * TOKENS], labels[ROWS];
    for (int64_t r = 0; r < ROWS; r++) {
        labels[r] = r * 7 % 5 < 2;
        for (int64_t t = 0; t < TOKENS; t++) {
            ids[r * TOKENS + t] = 3 + (r + t) % 2 + 12 * labels[r];
            mask[r * TOKENS + t] = t < 4 + r % 3;
        }
    }
    const part parts[] = {
        {"input_ids", TOKENS, ids}, {"labels", 0, labels}, {"attention_mask", TOKENS, mask}};
    write_data(path, parts, padded ? 3 : 2, ROWS);
}

/* Each token is one more than that before it. */
static void write_next(const char *path) {
    int64_t ids[ROWS * 5];
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t t = 0; t < 5; t++)
            ids[r * 5 + t] = (3 * r + t) % 20;
    write_data(path, &(part){"input_ids", 5, ids}, 1, ROWS);
}

static json_t *tuned(const char *model, const char *data, const char *more) {
    char words[WORDS];
    snprintf(words, sizeof words, "train --model %s%s --data %s --mode exact %s --json -", MODELS,
             model, data, more);
    return json_of(words, EXIT_DONE);
}

static double first_loss(const json_t *j) {
    return json_number_value(json_array_get(json_object_get(j, "loss"), 0));
}

/* ---- learning ---- */

/* A classifier of BERT that begins at zeros: labels are all alike, then they are told apart. */
static void test_head(void **state) {
    (void)state;
    write_labels("labels.safetensors", false);
    json_t *j = tuned("bert", "labels.safetensors",
                      "--steps 16 --lr 0.1 --batch 4 --held-out 4 --check --public");
    const json_t *held = json_object_get(j, "held_out");
    assert_true(fabs(first_loss(j) - log(2)) < 0.01);
    assert_true(number(j, "final_loss") < 0.6);
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_int_equal(number(j, "trained_parameters"), 2 * 24 + 2);
    assert_int_equal(number(held, "rows"), 4);
    assert_true(number(held, "accuracy") > 0.7 && number(held, "loss") < log(2));
    json_decref(j);
    j = tuned("gpt2", "labels.safetensors", "--steps 2 --batch 4 --check --fold");
    json_t *apart = tuned("gpt2", "labels.safetensors", "--steps 2 --batch 4");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(number(j, "bytes_online") < 0.95 * number(apart, "bytes_online"));
    assert_true(fabs(number(j, "final_loss") - number(apart, "final_loss")) < 0.01);
    json_decref(j);
    json_decref(apart);
    remove_tree("labels.safetensors");
}

/* Whose the texts, the labels and the result are changes no bit. */
static void test_who_has_what(void **state) {
    (void)state;
    write_labels("padded.safetensors", true);
    json_t *a = tuned("bert", "padded.safetensors", "--steps 2 --lr 0.1 --batch 4");
    json_t *b = tuned("bert", "padded.safetensors",
                      "--steps 2 --lr 0.1 --batch 4 --text-owner 2 --label-owner 0 --to 1");
    assert_string_equal(json_string_value(json_object_get(a, "weights_sha256")),
                        json_string_value(json_object_get(b, "weights_sha256")));
    json_decref(a);
    json_decref(b);
    remove_tree("padded.safetensors");
    write_next("next.safetensors"); /* nor that all know the checkpoint */
    a = tuned("gpt2", "next.safetensors", "--method lora --steps 1 --batch 1");
    b = tuned("gpt2", "next.safetensors", "--method lora --steps 1 --batch 1 --public");
    assert_string_equal(json_string_value(json_object_get(a, "weights_sha256")),
                        json_string_value(json_object_get(b, "weights_sha256")));
    json_decref(a);
    json_decref(b);
    remove_tree("next.safetensors");
}

/* Adapters, a classifier of the checkpoint's own, padding. */
static void test_adapters(void **state) {
    (void)state;
    write_labels("padded.safetensors", true);
    json_t *j = tuned("bert_labels", "padded.safetensors",
                      "--labels 3 --method lora --rank 2 --adapt qkv --steps 2 --batch 2 --check");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(fabs(first_loss(j) - log(3)) > 0.01); /* its classifier is not zeros */
    json_decref(j);
    remove_tree("padded.safetensors");
    write_next("next.safetensors");
    j = tuned("gpt2", "next.safetensors",
              "--method lora --steps 2 --batch 2 --lr 0.05 --check --public --held-out 2");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_true(json_is_null(json_object_get(json_object_get(j, "held_out"), "accuracy")));
    json_decref(j);
    j = tuned("llama", "next.safetensors", "--method lora --steps 1 --batch 2 --check");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    json_decref(j);
    remove_tree("next.safetensors");
}

static void test_all_weights(void **state) {
    (void)state;
    write_next("next.safetensors");
    json_t *j =
        tuned("gpt2", "next.safetensors", "--method full --steps 3 --batch 2 --lr 0.02 --check");
    const json_t *loss = json_object_get(j, "loss");
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_int_equal(number(j, "trained_parameters"), number(j, "parameters"));
    assert_true(json_number_value(json_array_get(loss, 2)) < first_loss(j));
    json_decref(j);
    remove_tree("next.safetensors");
}

/* ---- what is kept and written ---- */

/* The file has what was trained, and only that: of adapters that begin at zeros, something else. */
static void test_out(void **state) {
    (void)state;
    char message[256] = "";
    const flag_message m = {message, sizeof message};
    st_file f;
    struct stat st;
    write_next("next.safetensors");
    json_decref(tuned("gpt2", "next.safetensors",
                      "--method lora --adapt v --rank 3 --steps 1 --batch 2 --public --out t"));
    assert_int_equal(st_open(&f, "t", &m), 0);
    assert_int_equal(f.count, 4);
    const st_tensor *b = st_find(&f, "L1.WV.B");
    assert_true(b != NULL && b->rank == 2 && b->shape[0] == 3 && b->shape[1] == 24);
    double v[72], sum = 0;
    st_reals(b, 0, 72, v);
    for (unsigned i = 0; i < 72; i++)
        sum += fabs(v[i]);
    assert_true(sum > 0 && sum < 72);
    st_close(&f);
    assert_int_equal(stat("t", &st), 0);
    assert_int_equal(st.st_mode & 077, 0); /* its owner's alone */
    remove_tree("t");
    remove_tree("next.safetensors");
}

/* A run that is interrupted goes on where it was, and one that is done gives its weights again. */
static void test_resume(void **state) {
    (void)state;
    char words[WORDS];
    write_labels("labels.safetensors", false);
    json_t *whole =
        tuned("gpt2", "labels.safetensors", "--steps 4 --batch 4 --lr 0.1 --held-out 8 --public");
    snprintf(words, sizeof words,
             "train --model %sgpt2 --data labels.safetensors --mode exact --steps 4 --batch 4 --lr "
             "0.1 --held-out 8 --public --checkpoint kept",
             MODELS);
    char progress[WORDS + 32];
    snprintf(progress, sizeof progress, "%s --progress", words);
    outcome o = interrupt_tool(progress, "stderr");
    assert_int_equal(o.status, EXIT_INTERRUPTED);
    assert_non_null(strstr(o.err, "the same command goes on from kept"));
    forget(&o);
    o = run_tool(words);
    assert_int_equal(o.status, EXIT_DONE);
    assert_non_null(strstr(o.out, "going on"));
    assert_non_null(strstr(o.out, json_string_value(json_object_get(whole, "weights_sha256"))));
    forget(&o);
    o = run_tool(words); /* "eval" took nothing of it away */
    assert_int_equal(o.status, EXIT_DONE);
    assert_non_null(strstr(o.out, "from step 4 of 4"));
    assert_non_null(strstr(o.out, json_string_value(json_object_get(whole, "weights_sha256"))));
    forget(&o);
    snprintf(progress, sizeof progress, "%s --seed 2", words);
    refused(progress, "begun with --seed 1, not 2");
    snprintf(progress, sizeof progress, "%s --tokens 5", words);
    refused(progress, "begun with a checkpoint SHA-256");
    snprintf(progress, sizeof progress, "%s --method lora --to 1", words);
    refused(progress, "begun with --method head, not lora");
    snprintf(progress, sizeof progress, "%s --optimizer sgd", words);
    refused(progress, "begun with --optimizer adamw, not sgd");
    snprintf(progress, sizeof progress, "%s --to 1", words);
    refused(progress, "begun with --to all, not 1");
    refused("train --model transformer --checkpoint kept",
            "kept has a model of uvcc train --model DIR");
    json_decref(whole);
    remove_tree("kept");
    remove_tree("labels.safetensors");
}

/* Part of the words of a party's shares that are 0: those of what all know mostly are. */
static double zeros_of(unsigned party) {
    const uvcc_transformer_worker at = {0, 0, 0};
    uint8_t *bytes;
    size_t len, zeros = 0;
    assert_int_equal(lm_checkpoint_load("kept", party, &at, 1, &bytes, &len), EXIT_DONE);
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof word);
        zeros += word == 0;
    }
    free(bytes);
    return 8.0 * (double)zeros / (double)len;
}

/* A checkpoint that is not public is split: what parties have of it says nothing. */
static void test_secret_weights(void **state) {
    (void)state;
    write_labels("labels.safetensors", false);
    json_decref(tuned("gpt2", "labels.safetensors", "--steps 1 --batch 1 --checkpoint kept"));
    for (unsigned p = 0; p < 3; p++)
        assert_true(zeros_of(p) < 0.05);
    remove_tree("kept");
    json_decref(
        tuned("gpt2", "labels.safetensors", "--public --steps 1 --batch 1 --checkpoint kept"));
    assert_true(zeros_of(1) > 0.05); /* such as gains, which have shares all the same */
    remove_tree("kept");
    remove_tree("labels.safetensors");
}

/* ---- what is refused ---- */

static void refused_of(const char *model, const char *more, const char *what) {
    char words[WORDS];
    snprintf(words, sizeof words, "train --model %s%s %s", MODELS, model, more);
    refused(words, what);
}

static void test_refusals(void **state) {
    (void)state;
    static const int64_t low[2] = {0, 1}, odd[2] = {-1, 0}, far[4] = {1, 2, 3, 97};
    static const int64_t first[4] = {1, 1, 0, 0};
    const part one[] = {{"input_ids", 2, far}, {"labels", 0, odd}}, more[] = {{"labels", 0, low}};
    const part blank[] = {
        {"input_ids", 2, first}, {"labels", 0, low}, {"attention_mask", 2, first}};
    write_labels("labels.safetensors", false);
    write_labels("padded.safetensors", true);
    write_next("next.safetensors");
    write_data("odd.safetensors", one, 2, 2);
    write_data("none.safetensors", more, 1, 2);
    write_data("far.safetensors", one, 1, 2);
    write_data("blank.safetensors", blank, 3, 2);
    refused("train --model none --data x", "is neither mlp nor transformer, nor the directory");
    refused("train --model next.safetensors --data x", "nor the directory of a checkpoint");
    refused("train --model . --data next.safetensors --method full", "config.json");
    refused_of("gpt2", "", "--data FILE is missing");
    refused_of("gpt2", "--data nofile", "nofile");
    refused_of("gpt2", "--data none.safetensors", "has no input_ids");
    refused_of("gpt2", "--data odd.safetensors", "label -1 of row 1");
    refused_of("gpt2", "--data far.safetensors --method full --batch 2", "97 is not one of");
    refused_of("gpt2", "--data next.safetensors", "has no labels to learn");
    refused_of("gpt2", "--data next.safetensors --method lora --labels 2", "--labels does nothing");
    refused_of("gpt2", "--data next.safetensors --method lora --label-owner 2",
               "--label-owner does nothing: next.safetensors has no labels");
    refused_of("gpt2", "--data labels.safetensors --method lora --rank 1000",
               "--rank must be 1 to the width, 24");
    refused_of("gpt2", "--data labels.safetensors --method lora --fold", "--fold does nothing");
    refused_of("bert", "--data labels.safetensors --fold", "--fold: norms behind the sums");
    refused_of("bert", "--data blank.safetensors", "attention_mask: sequence 2 is padding alone");
    refused_of("gpt2", "--data labels.safetensors --pool tanh", "has no pooler");
    refused_of("gpt2", "--data labels.safetensors --rank 2", "--rank does nothing");
    refused_of("gpt2", "--data labels.safetensors --batch 3", "--batch 3: give a power of two");
    refused_of("gpt2", "--data next.safetensors --method full --tokens 3",
               "--batch 8: with rows of 3");
    refused_of("gpt2", "--data labels.safetensors --tokens 7", "has rows of 6");
    refused_of("gpt2", "--data labels.safetensors --held-out 16", "leaves none");
    refused_of("gpt2", "--data labels.safetensors --held-out 3", "--held-out 3 is no multiple");
    refused_of("gpt2", "--data labels.safetensors --clip 0.5", "--clip 0.5");
    refused_of("gpt2", "--data labels.safetensors --products beaver", "--products beaver");
    refused_of("gpt2", "--data labels.safetensors --out labels.safetensors", "--out");
    refused_of("gpt2", "--data next.safetensors --method full --public", "--public");
    refused_of("gpt2", "--data padded.safetensors --method lora", "--pool must be first or tanh");
    refused_of("bert", "--data next.safetensors --method lora", "logits of bert are not there");
    refused_of("bert", "--data labels.safetensors --extend", "no option --extend");
    if (card_count(NULL) == 0)
        refused_of("gpt2", "--data labels.safetensors --compute gpu",
                   "give inline or threads to do without");
    static const char *const all[] = {"labels", "padded", "next", "odd", "none", "far", "blank"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char path[32];
        snprintf(path, sizeof path, "%s.safetensors", all[i]);
        remove_tree(path);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_who_has_what),
        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_all_weights),
        cmocka_unit_test(test_out),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_secret_weights),
        cmocka_unit_test(test_refusals),
    };
    if (argc < 2 || !find_tool(argv[1]))
        return 2;
    return cmocka_run_group_tests(tests, enter, leave);
}
