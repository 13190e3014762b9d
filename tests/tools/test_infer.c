/* SPDX-License-Identifier: Apache-2.0 */
/* test_infer.c - `uvcc infer`: every architecture of tests/data/models, float32 as PyTorch computed
 * it beside the secure run; who learns the answer; what each party sees; the forms of input and of
 * output; what is refused. */
#include "run_tool.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODELS UVCC_DATA_DIR "/models/"
#define ASK    UVCC_DATA_DIR "/../../examples/ask"

enum { WORDS = 1024, EXIT_DONE = 0, EXIT_FAILED = 1 };

static json_t *infer_of(const char *model, const char *more) {
    char words[2 * WORDS];
    snprintf(words, sizeof words,
             "infer --model " MODELS "%s --input " MODELS "%s/expected.safetensors %s --json -",
             model, model, more);
    return json_of(words, EXIT_DONE);
}

/* ---- float32, the twin and the secure run ---- */

/* Exact modes equal the twin bit for bit; all modes are near float32, and mean the same. */
static void test_accuracy(void **state) {
    (void)state;
    static const struct {
        const char *model, *more;
        double off;
    } all[] = {
        {"bert", "--mode exact", 1e-3},
        {"bert", "", 2e-3},
        {"bert", "--gives pooled --mode exact --weights public", 2e-3},
        {"bert_labels", "--mode exact", 1e-3},
        {"bert_labels", "--mode exact-dcf", 1e-3},
        {"bert_labels", "--frac-bits 12", 3e-2},
        {"gpt2", "--mode exact", 5e-3},
        {"gpt2", "--mode exact --fold", 5e-3},
        {"gpt2", "--gives logits", 1e-2},
        {"gpt2", "--gives hidden --mode exact-dcf --weights public", 2e-3},
        {"gpt_neo", "--mode exact", 1e-2},
        {"gpt_neo", "--gives hidden", 2e-3},
        {"llama", "--mode exact --compute threads", 1e-2},
        {"llama", "--frac-bits 18", 5e-3},
        {"llama", "--gives logits --weights public --parties turns", 1e-2},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char more[WORDS];
        snprintf(more, sizeof more, "%s --check", all[i].more);
        json_t *j = infer_of(all[i].model, more);
        const json_t *check = json_object_get(j, "check");
        const bool exact = strcmp(test_str(j, "mode"), "fast") != 0;
        print_message("%s %s: off PyTorch %.2g\n", all[i].model, all[i].more,
                      number(check, "expected_error"));
        assert_true(number(check, "expected_error") > 0);
        assert_true(number(check, "expected_error") < all[i].off);
        assert_true(number(check, "error") < all[i].off);
        assert_true(json_is_true(json_object_get(check, "twin_equal")) == exact);
        assert_true((number(check, "twin_error") == 0) == exact);
        const json_t *same = json_object_get(check, "same");
        assert_true(json_is_null(same) || number(check, "same") == number(j, "rows"));
        json_decref(j);
    }
}

/* What the input leaves is named, for the answer means nothing then. */
static void test_bits(void **state) {
    (void)state;
    outcome o = run_tool("infer --model " MODELS "gpt2 --input " MODELS
                         "gpt2/expected.safetensors --value-bits 3 --check");
    assert_int_equal(o.status, EXIT_FAILED);
    assert_non_null(
        strstr(o.err, "the input leaves the bits of the pass, so its answer is wrong: "));
    assert_non_null(strstr(o.err, "outside its 19 bits"));
    forget(&o);
}

/* ---- who learns it, who sees what ---- */

static bool learns(const json_t *j, size_t party) {
    const json_t *view = json_array_get(json_object_get(j, "view"), party);
    return json_is_true(json_object_get(view, "learns"));
}

static void test_receivers(void **state) {
    (void)state;
    static const struct {
        const char *more;
        bool who[3];
    } all[] = {
        {"", {true, false, false}},
        {"--to owner --input-owner 2", {false, false, true}},
        {"--to all", {true, true, true}},
        {"--to 1", {false, true, false}},
        {"--to 1 --weights public", {false, true, false}}, /* which have no shares to look at */
        {"--to 2 --weights-owner 0 --input-owner 1", {false, false, true}},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char more[WORDS];
        snprintf(more, sizeof more, "%s --mode exact --view", all[i].more);
        json_t *j = infer_of("bert_labels", more);
        for (size_t p = 0; p < 3; p++)
            assert_true(learns(j, p) == all[i].who[p]);
        json_decref(j);
    }
}

/* 64 bits, little-endian, of hexadecimal digits. */
static uint64_t share(const json_t *j, size_t party, const char *of, size_t i) {
    const json_t *view = json_array_get(json_object_get(j, "view"), party);
    const char *text = json_string_value(json_array_get(json_object_get(view, of), i));
    uint64_t v = 0;
    assert_non_null(text);
    for (unsigned k = 0; k < 8; k++) {
        unsigned byte;
        assert_int_equal(sscanf(text + 2 * k, "%2x", &byte), 1);
        v |= (uint64_t)byte << 8 * k;
    }
    return v;
}

/* The two parties that do not own a value hold all three of its components between them, one
 * twice; none alone has the value, and its owner's share is not what is shown. */
static void test_view(void **state) {
    (void)state;
    uint64_t before = 0;
    for (unsigned seed = 1; seed <= 2; seed++) {
        char more[WORDS];
        snprintf(more, sizeof more, "--view --seed %u", seed);
        json_t *j = infer_of("bert_labels", more);
        const json_t *owner = json_array_get(json_object_get(j, "view"), 0);
        assert_true(json_is_null(json_object_get(owner, "input")));
        const uint64_t c[3] = {share(j, 2, "input", 1), share(j, 1, "input", 0),
                               share(j, 1, "input", 1)};
        assert_true(share(j, 2, "input", 0) == c[2]);
        assert_true(c[0] + c[1] + c[2] == 1); /* of the one-hot row */
        for (unsigned i = 0; i < 3; i++)
            assert_true(c[i] > 1 && c[i] != before);
        before = c[0];
        const json_t *weights = json_array_get(json_object_get(j, "view"), 1);
        assert_true(json_is_null(json_object_get(weights, "weights")));
        assert_true(share(j, 0, "weights", 0) == share(j, 2, "weights", 1));
        json_decref(j);
    }
}

/* ---- the model that is shipped ---- */

static void test_questions(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"How do I run it on an NVIDIA GPU?", "docs/gpu.md"},
        {"can I link it statically?", "docs/packaging.md"},
        {"How is GeLU computed on shares?", "docs/nonlinear.md"},
        {"Is there a Python API?", "docs/python.md"},
    };
    FILE *f = fopen("questions", "w");
    assert_non_null(f);
    for (size_t i = 0; i < 4; i++)
        (void)fprintf(f, "%s\n%s", all[i][0], i == 1 ? "\n" : ""); /* an empty line is none */
    assert_int_equal(fclose(f), 0);
    json_t *j = json_of("infer --model " ASK " --input questions --check --json -", EXIT_DONE);
    assert_int_equal(number(j, "sequences"), 4);
    assert_int_equal(number(j, "tokens"), 34); /* a mark, and the longest */
    for (size_t i = 0; i < 4; i++) {
        const json_t *top = json_array_get(json_array_get(json_object_get(j, "top"), i), 0);
        assert_string_equal(test_str(top, "name"), all[i][1]);
        assert_true(number(top, "share") > 0.5);
    }
    assert_int_equal(number(json_object_get(j, "check"), "same"), 4);
    json_decref(j);
    assert_int_equal(unlink("questions"), 0);
}

/* What the README shows of it is what it says, shares and all: they follow from the seed. */
static void test_readme(void **state) {
    (void)state;
    char *readme = read_all(UVCC_DATA_DIR "/../../README.md");
    char *at = strstr(readme, "<!-- the output's beginning: scripts/demo --ask -->\n```\n");
    assert_non_null(at);
    at = strstr(at, "```\n") + 4;
    char *end = strstr(at, "```");
    assert_non_null(end);
    *end = '\0';
    const char *question = strstr(readme, "--ask \"");
    assert_non_null(question);
    assert_non_null(strstr(question, "How do I run it on an NVIDIA GPU?"));
    write_file("question", "How do I run it on an NVIDIA GPU?\n", 34);
    char *said = output_of("infer --model " ASK " --mode exact --view --input question");
    unsigned checked = 0;
    for (char *line = strtok(at, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strcmp(line, "..") == 0 || strncmp(line, "  input       How", 17) == 0)
            continue; /* left out; words of --text */
        if (strstr(said, line) == NULL)
            fail_msg("uvcc infer does not say: %s", line);
        checked++;
    }
    assert_true(checked > 15);
    assert_int_equal(unlink("question"), 0);
    free(said);
    free(readme);
}

/* ---- forms ---- */

static json_t *values_of(const char *words) {
    char all[WORDS];
    snprintf(all, sizeof all, "%s --output y.json", words);
    free(output_of(all));
    char *text = read_all("y.json");
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    free(text);
    assert_int_equal(unlink("y.json"), 0);
    return j;
}

/* Text is its bytes behind the mark; padding hides how many, and changes nothing. */
static void test_text(void **state) {
    (void)state;
    static const char exact[] = "infer --model " ASK " --mode exact --value-bits 7 --inner-bits 7 ";
    char words[WORDS];
    snprintf(words, sizeof words, "%s --text TLS?", exact);
    json_t *text = values_of(words);
    snprintf(words, sizeof words, "%s --ids 256,84,76,83,63", exact);
    json_t *ids = values_of(words);
    assert_true(json_equal(text, ids));
    snprintf(words, sizeof words, "%s --text TLS? --tokens 9", exact);
    json_t *padded = values_of(words);
    assert_int_equal(number(padded, "tokens"), 9);
    const json_t *a = json_array_get(json_object_get(text, "logits"), 0);
    const json_t *b = json_array_get(json_object_get(padded, "logits"), 0);
    assert_int_equal(json_array_size(a), 21);
    for (size_t i = 0; i < 21; i++)
        assert_true(fabs(json_number_value(json_array_get(a, i)) -
                         json_number_value(json_array_get(b, i))) < 2e-3);
    json_decref(text);
    json_decref(ids);
    json_decref(padded);
}

/* As JSON and as safetensors: the same numbers, for their owner alone. */
static void test_outputs(void **state) {
    (void)state;
    static const char words[] = "infer --model " MODELS "gpt2 --ids 1,2,3;4,5,6 --mode exact ";
    char all[WORDS], *text;
    struct stat st;
    json_t *j = values_of(words), *rows = json_object_get(j, "logits");
    assert_int_equal(json_array_size(rows), 2);
    snprintf(all, sizeof all, "%s --output y --json j", words);
    free(output_of(all));
    assert_int_equal(stat("j", &st), 0); /* it has the answer's greatest values */
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(unlink("j"), 0);
    assert_int_equal(stat("y", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    FILE *f = fopen("y", "rb");
    uint64_t head = 0;
    double v;
    assert_non_null(f);
    assert_int_equal(fread(&head, 8, 1, f), 1);
    assert_int_equal(head % 8, 0);
    text = calloc(1, head + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, head, f), head);
    assert_non_null(strstr(text, "\"logits\":{\"dtype\":\"F64\",\"shape\":[2,97]"));
    assert_int_equal(st.st_size, 8 + head + 2 * 97 * 8);
    for (size_t i = 0; i < (size_t)2 * 97; i++) {
        assert_int_equal(fread(&v, 8, 1, f), 1);
        assert_true(v == json_number_value(json_array_get(json_array_get(rows, i / 97), i % 97)));
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(unlink("y"), 0);
    free(text);
    json_decref(j);
}

/* Tokens on which the owner of the weights chooses the bits: its own, not the input. */
static void test_calibration(void **state) {
    (void)state;
    json_t *drawn = infer_of("gpt2", ""), *given;
    assert_true(number(drawn, "value_bits") >= 5);
    given = infer_of("gpt2", "--calibrate " MODELS "gpt2/expected.safetensors");
    assert_int_equal(number(given, "value_bits"), 5); /* 4 hold them (test_model_tool.c) */
    json_decref(drawn);
    json_decref(given);
    given = infer_of("gpt2", "--value-bits 8 --inner-bits 6");
    assert_int_equal(number(given, "value_bits"), 8);
    assert_int_equal(number(given, "inner_bits"), 6);
    json_decref(given);
}

/* Cells of the activation's table: those that frac_bits give, or others, which give another answer
 * and take fewer keys in mode FAST; the twin has the same. */
static void test_index_bits(void **state) {
    (void)state;
    static const struct {
        const char *more;
        int bits;
    } all[] = {{"--frac-bits 12", 7}, {"", 9}, {"--index-bits 9", 9}, {"--index-bits 5", 5}};
    json_t *top[4];
    json_int_t keys[4];
    for (unsigned i = 0; i < 4; i++) {
        char more[WORDS];
        snprintf(more, sizeof more, "--mode exact --value-bits 7 --inner-bits 7 --check %s",
                 all[i].more);
        json_t *j = infer_of("gpt2", more);
        assert_int_equal(number(j, "index_bits"), all[i].bits);
        assert_true(json_is_true(json_object_get(json_object_get(j, "check"), "twin_equal")));
        top[i] = json_incref(json_object_get(j, "top"));
        json_decref(j);
        snprintf(more, sizeof more, "--value-bits 7 --inner-bits 7 %s", all[i].more);
        j = infer_of("gpt2", more);
        keys[i] = json_integer_value(json_object_get(j, "bytes_preprocessing"));
        json_decref(j);
    }
    assert_true(json_equal(top[1], top[2]) && !json_equal(top[2], top[3]));
    assert_true(keys[1] == keys[2] && keys[3] < keys[2]);
    for (unsigned i = 0; i < 4; i++)
        json_decref(top[i]);
    char *said = output_of("infer --model " MODELS "gpt2 --ids 1 --value-bits 7 --inner-bits 7 "
                           "--index-bits 8");
    assert_non_null(strstr(said, "weight_bits 4, index_bits 8\n"));
    free(said);
}

/* Nothing is left of what was interrupted. */
static void test_interrupted(void **state) {
    (void)state;
    outcome o = interrupt_tool(
        "infer --model " ASK " --text TLS? --mode exact --output y --progress", "stderr");
    assert_int_equal(o.status, 130);
    assert_string_equal(o.out, "");
    assert_non_null(strstr(o.err, "uvcc infer: interrupted; nothing is kept"));
    assert_int_equal(access("y", F_OK), -1);
    forget(&o);
}

/* ---- text ---- */

/* Each token is the greatest of the pass of the window before it, which a short prompt has
 * something before. */
static void test_generate(void **state) {
    (void)state;
    enum { CONTEXT = 4, PROMPT = 2, LENGTH = 3 };
    static const char *const models[] = {"gpt2", "gpt_neo", "llama"};
    for (size_t k = 0; k < 3; k++) {
        char words[WORDS];
        long ids[CONTEXT + LENGTH] = {0, 0, 11, 29}; /* as they stand in the windows */
        snprintf(words, sizeof words,
                 "generate --model " MODELS "%s --ids 11,29 --context %d "
                 "--length %d --temperature 0",
                 models[k], CONTEXT, LENGTH);
        char *text = output_of(words), *at = text;
        for (int i = 0; i < PROMPT; i++)
            assert_int_equal(strtol(at, &at, 10), ids[CONTEXT - PROMPT + i]);
        for (int i = 0; i < LENGTH; i++) {
            ids[CONTEXT + i] = strtol(at, &at, 10);
            snprintf(words, sizeof words,
                     "infer --model " MODELS "%s --ids %ld,%ld,%ld,%ld --mode exact --json -",
                     models[k], ids[i], ids[i + 1], ids[i + 2], ids[i + 3]);
            json_t *j = json_of(words, EXIT_DONE);
            const json_t *top = json_array_get(json_array_get(json_object_get(j, "top"), 0), 0);
            assert_int_equal(ids[CONTEXT + i], (long)number(top, "class"));
            json_decref(j);
        }
        assert_string_equal(at, " \n");
        free(text);
    }
    char *a =
        output_of("generate --model " MODELS "gpt2 --ids 1 --length 4 --temperature 2 --seed 3");
    char *b =
        output_of("generate --model " MODELS "gpt2 --ids 1 --length 4 --temperature 2 --seed 3");
    char *c =
        output_of("generate --model " MODELS "gpt2 --ids 1 --length 4 --temperature 2 --seed 4");
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    free(a);
    free(b);
    free(c);
}

static void test_refusals(void **state) {
    (void)state;
    static const char *const all[][2] = {
        {"--ids 1", "--model DIR is missing"},
        {"--model " ASK " --input nofile", "nofile: cannot be opened"}, /* said once */
        {"--model " MODELS "gpt2", "give one of --input, --text and --ids"},
        {"--model " MODELS "gpt2 --ids 1 --text a", "give one of --input, --text and --ids"},
        {"--model " MODELS "gpt2 --text abc", "text is for models over bytes, with a vocabulary of "
                                              "256 to 272; this one has 97"},
        {"--model " MODELS "gpt2 --input " MODELS "gpt2/config.json", "text is for models"},
        {"--model " MODELS "gpt2 --ids 1,97", "token 97 is not one of the model's 97"},
        {"--model " MODELS "gpt2 --ids 1,,2", "give tokens as 1,2,3"},
        {"--model " MODELS "gpt2 --ids 1,2;3", "a gpt2 takes sequences of one length"},
        {"--model " MODELS "gpt2 --ids 1,2 --tokens 3", "a gpt2 takes sequences of one length"},
        {"--model " MODELS "bert --ids 1,2 --tokens 1", "--tokens 1: there is a sequence of 2"},
        {"--model " MODELS "bert --ids 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
         "17 tokens are more than the model's 16 positions"},
        {"--model " MODELS "gpt2 --ids 1 --gives labels",
         "pooled rows and labels are there of bert"},
        {"--model " MODELS "bert --ids 1 --gives last", "logits of bert are not there"},
        {"--model " MODELS "gpt2 --ids 1 --to 3", "--to 3: give owner, all, or a party"},
        {"--model " MODELS "gpt2 --ids 1 --input-owner 1",
         "party 1 owns the weights and the input"},
        {"--model " MODELS "gpt2 --ids 1 --weights public --weights-owner 2",
         "--weights-owner does nothing with --weights public"},
        {"--model " MODELS "gpt2 --ids 1 --threads 2", "--threads does nothing without --compute"},
        {"--model " MODELS "gpt2 --ids 1 --frac-bits 20 --value-bits 12 --inner-bits 12",
         "frac_bits"},
        {"--model " MODELS "gpt2 --ids 1 --weight-bits 1",
         "131 weights leave 1 bits, the greatest is 3.70703; give --weight-bits 2"},
        {"--model " MODELS "none --ids 1", "none/config.json"},
        {"--model " MODELS "gpt2 --ids 1 --output nowhere/y", "nowhere/y"},
        {"--model " MODELS "bert --ids 1,2 --calibrate nosuch",
         "nosuch: cannot be opened: No such file or directory"},
        {"--model " ASK " --text a --calibrate " MODELS "gpt2/expected.safetensors",
         "which does not fit input_ids"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char words[WORDS];
        snprintf(words, sizeof words, "infer %s", all[i][0]);
        refused(words, all[i][1]);
    }
    assert_int_equal(symlink(MODELS "gpt2", "m"), 0);
    refused("infer --model m --ids 1 --output m/config.json", "which it would replace");
    refused("infer --model m --ids 1 --output m/model.safetensors", "which it would replace");
    assert_int_equal(unlink("m"), 0);
    refused("generate --model " MODELS "gpt2 --prompt a", "--text: text is for models over bytes");
    refused("generate --model " MODELS "bert --ids 1", "logits of bert are not there");
    refused("generate --model " MODELS "gpt2 --ids 1 --context 17", "more than the model's 16");
    refused("generate --model " MODELS "gpt2 --ids 1;2", "the prompt is one sequence");
    refused("generate kept --ids 1", "--ids does nothing without --model");
    refused("generate kept --model " MODELS "gpt2 --ids 1", "give one directory, which");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accuracy),    cmocka_unit_test(test_bits),
        cmocka_unit_test(test_receivers),   cmocka_unit_test(test_view),
        cmocka_unit_test(test_readme),      cmocka_unit_test(test_questions),
        cmocka_unit_test(test_text),        cmocka_unit_test(test_outputs),
        cmocka_unit_test(test_calibration), cmocka_unit_test(test_index_bits),
        cmocka_unit_test(test_interrupted), cmocka_unit_test(test_generate),
        cmocka_unit_test(test_refusals),
    };
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    return cmocka_run_group_tests(tests, enter, leave);
}
