/* SPDX-License-Identifier: Apache-2.0 */
/* test_model_tool.c - `uvcc model`: the checkpoints of tests/data/models, which PyTorch wrote with
 * what it makes of given tokens, in double precision, in fixed point and as a secure run; what is
 * wrong with a checkpoint, by name; the file of weights. */
#define _GNU_SOURCE /* memmem */
#include "run_tool.h"
#include "triangle.h"

#include <math.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/container.h"
#include "model/input.h"
#include "model/model.h"
#include "report.h"

#define MODELS UVCC_DATA_DIR "/models/"

enum { WORDS = 1024 };

/* ---- checks of fixtures ---- */

static json_t *check_of(const char *name, const char *more, int status) {
    char words[2 * WORDS];
    snprintf(words, sizeof words, "model check %s%s --input %s%s/expected.safetensors %s --json -",
             MODELS, name, MODELS, name, more);
    return json_of(words, status);
}

/* In double precision it is PyTorch's result but for float32; in fixed point it is near. */
static void test_fixtures(void **state) {
    (void)state;
    static const struct {
        const char *name, *more, *refused;
        double off;
    } all[] = {
        {"bert", "", NULL, 1.5e-3},
        {"bert", "--mode fast", NULL, 2e-3},
        {"bert", "--frac-bits 12", NULL, 2e-2},
        {"gpt2", "", NULL, 1.5e-3},
        {"gpt2", "--frac-bits 18 --inner-bits 4", NULL, 1.5e-3},
        {"gpt_neo", "--tokens 4", NULL, 1.5e-3},
        {"gpt_neo", "", NULL, 1.5e-3},
        {"gpt_neo", "--frac-bits 18", NULL, 1.5e-3},
        {"llama", "", NULL, 5e-3},
        {"bert", "--takes tokens", NULL, 1.5e-3},
        {"bert", "--gives pooled", NULL, 2e-3},
        {"bert", "--takes tokens --gives pooled --mode fast", NULL, 4e-3},
        {"bert_labels", "--takes tokens --gives labels", NULL, 1.5e-3},
        {"gpt2", "--gives logits", NULL, 1e-2},
        {"gpt2", "--takes tokens --gives last --tokens 5", NULL, 1e-2},
        {"gpt_neo", "--takes tokens --gives logits", NULL, 1e-2},
        {"llama", "--takes tokens --gives last", NULL, 1e-2},
        {"gpt2", "--fold", NULL, 1.5e-3},
        {"gpt_neo", "--fold --takes tokens --gives logits", NULL, 1e-2},
        {"llama", "--fold --takes tokens --gives last", NULL, 1e-2},
        {"llama", "--value-bits 2", "outside its 18 bits", 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        json_t *j =
            check_of(all[i].name, all[i].more, all[i].refused != NULL ? EXIT_FAILED : EXIT_DONE);
        print_message("%s %s: PyTorch %.2g, fixed point %.2g\n", all[i].name, all[i].more,
                      number(j, "expected_error"), json_number_value(json_object_get(j, "error")));
        assert_true(number(j, "expected_error") < 2e-5);
        if (all[i].refused != NULL) {
            assert_non_null(strstr(test_str(j, "refused"), all[i].refused));
            assert_true(json_is_null(json_object_get(j, "error")));
        } else {
            assert_true(json_is_null(json_object_get(j, "refused")));
            assert_true(number(j, "error") > 0 && number(j, "error") < all[i].off);
        }
        assert_true(number(j, "inner_bits_needed") >= 3 && number(j, "inner_bits_needed") <= 5);
        json_decref(j);
    }
}

/* As many rows and columns as there are of it; and nothing is known of the result of a model that
 * sees tokens which are cut away. */
static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *name, *more;
        unsigned rows, cols;
    } all[] = {
        {"gpt2", "--gives hidden", 14, 24},      {"gpt2", "--gives logits", 14, 97},
        {"gpt2", "--gives last", 2, 97},         {"bert", "--gives pooled", 2, 24},
        {"bert_labels", "--gives labels", 2, 3},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        json_t *j = check_of(all[i].name, all[i].more, EXIT_DONE);
        assert_int_equal(number(j, "rows"), all[i].rows);
        assert_int_equal(number(j, "cols"), all[i].cols);
        json_decref(j);
    }
    json_t *j = check_of("bert", "--tokens 5", EXIT_DONE);
    assert_true(json_is_null(json_object_get(j, "expected_error")));
    assert_int_equal(number(j, "tokens"), 5);
    json_decref(j);
}

/* The bits that it says are enough, and one less is not: the twin names what leaves them. */
static void test_bits(void **state) {
    (void)state;
    char words[64], part[64];
    const char *const names[] = {"bert", "gpt2"};
    for (unsigned i = 0; i < 2; i++) {
        json_t *j = check_of(names[i], "", EXIT_DONE);
        const int bits = (int)number(j, "value_bits_needed");
        snprintf(words, sizeof words, "--value-bits %d", bits);
        json_decref(check_of(names[i], words, EXIT_DONE));
        snprintf(words, sizeof words, "--value-bits %d", bits - 1);
        json_t *less = check_of(names[i], words, EXIT_FAILED);
        snprintf(part, sizeof part, "outside its %d bits", bits - 1 + 16);
        assert_non_null(strstr(test_str(less, "refused"), part));
        json_decref(less);
        json_decref(j);
    }
    outcome o = run_tool("model check " MODELS "gpt2 --input " MODELS
                         "gpt2/expected.safetensors --value-bits 3");
    assert_int_equal(o.status, EXIT_FAILED);
    assert_non_null(strstr(o.out, "value_bits 4: L1.Z reaches 9.123 (here 3, too few)"));
    assert_non_null(strstr(o.err, "there is no fixed-point pass: "));
    forget(&o);
}

/* Tokens of a seed: the same again, others under another. */
static void test_seeds(void **state) {
    (void)state;
    char *a = output_of("model check " MODELS "bert --tokens 5 --sequences 2");
    char *b = output_of("model check " MODELS "bert --tokens 5 --sequences 2 --seed 1");
    char *c = output_of("model check " MODELS "bert --tokens 5 --sequences 2 --seed 2");
    assert_string_equal(a, b);
    assert_string_not_equal(a, c);
    assert_non_null(strstr(a, "2 x 5 tokens"));
    free(a);
    free(b);
    free(c);
}

/* ---- inspect ---- */

static void test_inspect(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_config c;
    uvcc_model_costs cost;
    char why[256];
    json_t *j = json_of("model inspect " MODELS "bert --tokens 9 --padding --mode exact --json -",
                        EXIT_DONE);
    assert_int_equal(uvcc_model_default(&c, sizeof c), 0);
    c.layers = 2;
    c.width = 24;
    c.heads = 3;
    c.ff_width = 40;
    c.tokens = 9;
    c.padding = 1;
    c.mode = UVCC_MODEL_EXACT;
    assert_int_equal(uvcc_model_cost(&c, &al, &cost, why, sizeof why), 0);
    assert_int_equal(number(json_object_get(j, "cost"), "rounds"), cost.rounds);
    assert_int_equal(number(json_object_get(j, "cost"), "key_bytes"), cost.key_bytes);
    assert_int_equal(number(j, "parameters"), uvcc_model_parameters(&c));
    assert_int_equal(number(j, "embedding_parameters"), (97 + 16 + 2 + 2) * 24);
    assert_int_equal(json_array_size(json_object_get(j, "weights")), uvcc_model_weight_count(&c));
    const json_t *ignored = json_object_get(j, "ignored");
    assert_int_equal(json_array_size(ignored), 2);
    assert_string_equal(json_string_value(json_array_get(ignored, 0)), "pooler.dense.bias");
    assert_string_equal(json_string_value(json_array_get(ignored, 1)), "pooler.dense.weight");
    json_decref(j);
    j = json_of("model inspect " MODELS "llama --weight-bits 1 --json -", EXIT_DONE);
    assert_true(number(json_object_get(j, "cost"), "rounds") > 50);
    assert_int_equal(number(j, "files"), 3);
    assert_int_equal(number(j, "kv_heads"), 1);
    assert_int_equal(number(j, "head_size"), 10);
    assert_int_equal(number(j, "parameters"), 9720);
    assert_int_equal(number(j, "clipped"), 0);
    json_decref(j);
    j = json_of("model inspect " MODELS "gpt2 --weight-bits 1 --json -", EXIT_DONE);
    assert_int_equal(number(j, "clipped"), 14);
    json_decref(j);
}

/* ---- files of weights ---- */

static void copy_model(const char *name);
static void edit(const char *file, const char *from, const char *to);

/* Whole bytes of a file. */
static uint8_t *bytes_of(const char *path, size_t *len) {
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    assert_non_null(f);
    assert_non_null(bytes);
    *len = fread(bytes, 1, 1 << 20, f);
    assert_int_equal(fclose(f), 0);
    return bytes;
}

static void parse_fails(const uint8_t *bytes, size_t len, const char *part) {
    char why[512] = "";
    const flag_message m = {why, sizeof why};
    container c;
    assert_int_equal(container_parse(&c, bytes, len, "f", &m), -1);
    if (strstr(why, part) == NULL)
        fail_msg("not '%s' but '%s'", part, why);
}

/* The bytes with another header and a checksum that fits. */
static void header_fails(const uint8_t *bytes, size_t len, const char *from, const char *to,
                         const char *part) {
    uint8_t *copy = malloc(len);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    uint8_t *at = memmem(copy, len, from, strlen(from));
    assert_non_null(at);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    (void)crypto_hash_sha256(copy + len - 32, copy, len - 32);
    parse_fails(copy, len, part);
    free(copy);
}

/* The first version had no plain norms, the second no index bits. Each file has what its version
 * has, no more and no less. */
static void test_container_before(void **state) {
    (void)state;
    static const char *const members[] = {"\"index_bits\":0,", "\"plain_norms\":0,"};
    char why[512] = "";
    const flag_message m = {why, sizeof why};
    size_t len;
    container c;
    free(output_of("model convert " MODELS "gpt2 --tokens 7 --out w.uvm"));
    uint8_t *bytes = bytes_of("w.uvm", &len);
    header_fails(bytes, len, members[0], "               ", "config.index_bits is missing");
    header_fails(bytes, len, members[1], "                ", "config.plain_norms is missing");
    for (unsigned version = 3; version-- > 1;) {
        const char *member = members[2 - version];
        bytes[8] = (uint8_t)version;
        header_fails(bytes, len, "UVCC", "UVCC", "config has members that are not known");
        uint8_t *at = memmem(bytes, len, member, strlen(member));
        assert_non_null(at);
        memset(at, ' ', strlen(member));
        (void)crypto_hash_sha256(bytes + len - 32, bytes, len - 32);
        if (container_parse(&c, bytes, len, "f", &m) != 0)
            fail_msg("version %u: %s", version, why);
        assert_int_equal(c.config.index_bits, 0);
        assert_int_equal(c.config.plain_norms, 0);
        assert_int_equal(c.config.layers, 2);
        container_close(&c);
        bytes[8] = (uint8_t)(version + 1);
        header_fails(bytes, len, "UVCC", "UVCC", "is missing, or not what it may be");
    }
    free(bytes);
    assert_int_equal(unlink("w.uvm"), 0);
}

/* Norms that went into other weights are in no list, and the file says so. */
static void test_fold(void **state) {
    (void)state;
    char why[512] = "";
    const flag_message m = {why, sizeof why};
    container c;
    refused("model convert " MODELS "bert --fold --out w.uvm",
            "--fold: norms behind the sums, as this model's, keep their gains");
    free(output_of("model convert " MODELS "gpt2 --tokens 7 --fold --out w.uvm"));
    assert_int_equal(container_open(&c, "w.uvm", &m), 0);
    assert_int_equal(c.config.plain_norms, 1);
    container_close(&c);
    char *said = output_of("model check w.uvm");
    assert_non_null(
        strstr(said, "Fixed point, frac_bits 16, index_bits 9, is off double precision by 0.000"));
    free(said);
    said = output_of("model inspect " MODELS "gpt2 --fold");
    assert_non_null(strstr(said, " of embeddings, which are the caller's\n"));
    assert_null(strstr(said, "G1"));
    assert_non_null(strstr(said, "GF"));
    assert_null(strstr(said, "ln_1.weight")); /* nor is it one that is not read */
    free(said);
    said = output_of("model inspect " MODELS "gpt2 --takes tokens");
    assert_null(strstr(said, "the caller's")); /* they are weights */
    free(said);
    refused("model check w.uvm --fold", "--fold does nothing with a file of weights");
    copy_model("gpt2");
    edit("model.safetensors", "h.1.ln_2.bias", "h.1.ln_2.bios");
    refused("model inspect m --fold", "there is no tensor 'transformer.h.1.ln_2.bias'");
    remove_tree("m");
    assert_int_equal(unlink("w.uvm"), 0);
}

static void test_container(void **state) {
    (void)state;
    char *said = output_of("model convert " MODELS "gpt2 --tokens 7 --out w.uvm");
    size_t len;
    uint8_t *bytes = bytes_of("w.uvm", &len), sum[32];
    char hex[65], why[512] = "";
    const flag_message m = {why, sizeof why};
    struct stat st;
    container c;
    assert_int_equal(stat("w.uvm", &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    (void)crypto_hash_sha256(sum, bytes, len - 32);
    assert_memory_equal(sum, bytes + len - 32, 32);
    assert_non_null(strstr(said, sodium_bin2hex(hex, sizeof hex, sum, 32)));
    assert_int_equal(container_parse(&c, bytes, len, "f", &m), 0);
    assert_int_equal(((uintptr_t)c.values - (uintptr_t)bytes) % 64, 0);
    assert_int_equal(c.element_bytes, 4);
    assert_int_equal(c.config.tokens, 7);
    assert_int_equal(c.config.positions, UVCC_MODEL_POSITIONS_LEARNED);
    assert_int_equal(c.parameters, uvcc_model_parameters(&c.config));
    container_close(&c);
    for (size_t cut = 0; cut < len; cut += cut < 2000 ? 1 : 997)
        parse_fails(bytes, cut, cut < 48 ? "is no file of weights" : "f: ");
    for (size_t at = 16; at < len; at += 331) {
        bytes[at] ^= 1;
        parse_fails(bytes, len, "is damaged: its SHA-256 is another");
        bytes[at] ^= 1;
    }
    bytes[8] = 4;
    parse_fails(bytes, len, "has version 4; this program reads 1 to 3");
    bytes[8] = 3;
    header_fails(bytes, len, "\"heads\":3", "\"heads\":0", "config: heads must be 1 to 65535");
    header_fails(bytes, len, "\"layers\":2", "\"layers\":1", "its description has");
    header_fails(bytes, len, "\"causal\"", "\"casual\"", "config.mask is missing");
    header_fails(bytes, len, "\"weight_bits\":4", "\"weight_bits\":1", "leaves its 17 bits");
    header_fails(bytes, len, "\"index_bits\":0", "\"index_bits\":3",
                 "config: index_bits must be 4 to 10");
    header_fails(bytes, len, "\"window_layers\":\"0000000000000000\"",
                 "\"window_layers\":\"000000000000000\" ", "config.window_layers is missing");
    header_fails(bytes, len, "\"window_layers\":\"0000000000000000\"",
                 "\"window_layers\":\"000000000000000g\"", "config.window_layers is missing");
    header_fails(bytes, len, "\"window\"", "\"winter\"", "config.window is missing");
    header_fails(bytes, len, "\"parameters\":9176", "\"parameters\":9175", "its description has");
    header_fails(bytes, len, "\"element_bytes\":4", "\"element_bytes\":8",
                 "its header says otherwise");
    header_fails(bytes, len, "\"parameters\"", "\"perimeters\"",
                 "f: header.perimeters: there is no such member");
    free(bytes);
    free(said);
    said = output_of("model check w.uvm");
    assert_non_null(
        strstr(said, "Fixed point, frac_bits 16, index_bits 9, is off double precision by 0.000"));
    free(said);
    refused("model check w.uvm --input x", "--input is of a checkpoint's directory");
    assert_int_equal(unlink("w.uvm"), 0);
}

/* A file says all of what its weights are for: windows, scores that nothing divides, rotary
 * positions, weights that all know. */
static void test_descriptions(void **state) {
    (void)state;
    char why[512] = "";
    const flag_message m = {why, sizeof why};
    container c;
    free(output_of("model convert " MODELS "gpt_neo --out w --tokens 7 --public"));
    assert_int_equal(container_open(&c, "w", &m), 0);
    assert_int_equal(c.config.mask, UVCC_MODEL_MASK_WINDOW);
    assert_int_equal(c.config.window, 4);
    assert_int_equal(c.config.window_period, 2);
    assert_true(c.config.window_layers == 2);
    assert_int_equal(c.config.unscaled, 1);
    assert_int_equal(c.config.weights, UVCC_MODEL_PUBLIC_WEIGHTS);
    container_close(&c);
    char *said = output_of("model check w");
    assert_non_null(strstr(said, "is off double precision by 0.000"));
    free(said);
    copy_model("llama");
    edit("config.json", "\"rope_theta\": 10000.0", "\"rope_theta\": 500000.0");
    free(output_of("model convert m --out w --tokens 7"));
    assert_int_equal(container_open(&c, "w", &m), 0);
    assert_int_equal(c.config.positions, UVCC_MODEL_POSITIONS_ROTARY);
    assert_true(c.config.rope_theta == 500000);
    assert_int_equal(c.config.weights, UVCC_MODEL_SECRET_WEIGHTS);
    container_close(&c);
    said = output_of("model check w");
    assert_non_null(strstr(said, "is off double precision by 0.00"));
    free(said);
    free(output_of("model convert " MODELS "bert_labels --out w --takes tokens --gives labels"));
    assert_int_equal(container_open(&c, "w", &m), 0);
    assert_int_equal(c.config.input, UVCC_MODEL_INPUT_TOKENS);
    assert_int_equal(c.config.segments, 2);
    assert_int_equal(c.config.embedding_norm, 1);
    assert_int_equal(c.config.pool, UVCC_MODEL_POOL_TANH);
    assert_int_equal(c.config.labels, 3);
    container_close(&c);
    said = output_of("model check w");
    assert_non_null(strstr(said, "is off double precision by 0.00"));
    free(said);
    assert_int_equal(unlink("w"), 0);
    remove_tree("m");
}

/* What does not fit is refused, or cut if that is asked for; values of 8 bytes where 4 are too few.
 */
static void test_clipping(void **state) {
    (void)state;
    refused("model convert " MODELS "gpt2 --out w --weight-bits 1",
            "14 weights leave 1 bits, the greatest is 3.43359; give --weight-bits 2, or --clip");
    free(output_of("model convert " MODELS "gpt2 --out w --weight-bits 1 --clip --tokens 7"));
    char *said = output_of("model check w");
    assert_non_null(strstr(said, "frac_bits 16"));
    free(said);
    free(output_of("model convert " MODELS "gpt2 --out w --weight-bits 16 --frac-bits 16"
                   " --value-bits 4 --tokens 7"));
    size_t len;
    uint8_t *bytes = bytes_of("w", &len);
    assert_non_null(memmem(bytes, len, "\"element_bytes\":8", 17));
    free(bytes);
    free(output_of("model check w"));
    assert_int_equal(unlink("w"), 0);
}

/* To the nearest, to the even one of two; within the bits. */
static void test_rounding(void **state) {
    (void)state;
    static const double v[] = {0.25,      0x1.8p-17,  -0x1.8p-17, 0x1p-17,
                               0x1.8p-16, 1.99999999, -3,         1e30};
    static const int64_t want[] = {16384, 1, -1, 0, 2, 131071, -131071, 131071};
    enum { COUNT = sizeof v / sizeof v[0] };
    int64_t q[COUNT];
    fixed_stats s = {0};
    fixed_round(v, COUNT, 16, 1, q);
    assert_memory_equal(q, want, sizeof want);
    fixed_note(&s, v, 5, 16, 1);
    assert_int_equal(s.bits, 1);
    assert_int_equal(s.clipped, 0);
    fixed_note(&s, v, 7, 16, 1); /* what rounds up to 2 leaves one bit */
    assert_int_equal(s.bits, 2);
    assert_int_equal(s.clipped, 2);
    assert_true(s.most == 3);
    fixed_note(&s, v, COUNT, 16, 2);
    assert_int_equal(s.clipped, 3);
    assert_true(s.bits > 40);
    assert_true(fixed_real(-131071, 16) == -131071 * 0x1p-16);
}

/* ---- damaged checkpoints ---- */

static void copy_file(const char *name, const char *file) {
    char from[512], to[128];
    size_t len;
    snprintf(from, sizeof from, "%s%s/%s", MODELS, name, file);
    snprintf(to, sizeof to, "m/%s", file);
    uint8_t *bytes = bytes_of(from, &len);
    write_file(to, (const char *)bytes, len);
    free(bytes);
}

/* m/, as the fixture is. */
static void copy_model(const char *name) {
    static const char *const shards[] = {
        "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors", "model.safetensors.index.json"};
    remove_tree("m");
    assert_int_equal(mkdir("m", 0700), 0);
    copy_file(name, "config.json");
    if (strcmp(name, "llama") != 0)
        copy_file(name, "model.safetensors");
    for (unsigned i = 0; i < 4 && strcmp(name, "llama") == 0; i++)
        copy_file(name, shards[i]);
}

/* The first `from` in a file of m/ becomes `to`. */
static void edit(const char *file, const char *from, const char *to) {
    char path[128];
    size_t len;
    snprintf(path, sizeof path, "m/%s", file);
    uint8_t *bytes = bytes_of(path, &len);
    uint8_t *at = memmem(bytes, len, from, strlen(from));
    if (at == NULL)
        fail_msg("%s has no %s", file, from);
    memmove(at + strlen(to), at + strlen(from), len - (size_t)(at - bytes) - strlen(from));
    memcpy(at, to, strlen(to));
    write_file(path, (const char *)bytes, len - strlen(from) + strlen(to));
    free(bytes);
}

static void test_configs(void **state) {
    (void)state;
    static const struct {
        const char *model, *from, *to, *why;
    } all[] = {
        {"bert", "\"bert\"", "\"t5\"",
         "m/config.json: model_type: \"t5\" is not supported: bert, gpt2, gpt_neo and llama are"},
        {"bert", "\"model_type\": \"bert\"", "\"model_type\": 1",
         "m/config.json: model_type is missing, or no string"},
        {"bert", "\"gelu\"", "\"quick_gelu\"",
         "m/config.json: hidden_act: \"quick_gelu\" is not supported"},
        {"bert", "\"is_decoder\": false", "\"is_decoder\": true",
         "m/config.json: is_decoder: true is not supported"},
        {"bert", "\"add_cross_attention\": false", "\"add_cross_attention\": true",
         "m/config.json: add_cross_attention: true is not supported"},
        {"bert", "\"use_cache\": true", "\"position_embedding_type\": \"relative_key\"",
         "m/config.json: position_embedding_type: \"relative_key\" is not supported"},
        {"bert", "\"hidden_size\": 24,", "", "m/config.json: hidden_size is missing"},
        {"bert", "\"hidden_size\": 24", "\"hidden_size\": 24.5",
         "m/config.json: hidden_size: 24.5 must be a whole number from 1 to 65536"},
        {"bert", "\"hidden_size\": 24", "\"hidden_size\": 26",
         "m/config.json: 3 heads do not divide a width of 26"},
        {"bert", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 201",
         "m/config.json: num_hidden_layers: 201 must be a whole number from 1 to 200"},
        {"bert", "\"layer_norm_eps\": 1e-12", "\"layer_norm_eps\": -1",
         "m/config.json: layer_norm_eps: -1 must be a number"},
        {"bert", "\"use_cache\": true", "\"use_moe\": true",
         "m/config.json: use_moe: not known here; if it changes nothing of the forward pass, give "
         "--ignore-unknown"},
        {"bert", "{", "{{", "m/config.json:1:"},
        {"gpt2", "\"scale_attn_weights\": true", "\"scale_attn_weights\": 1",
         "m/config.json: scale_attn_weights: 1 must be true or false"},
        {"gpt2", "\"scale_attn_by_inverse_layer_idx\": false",
         "\"scale_attn_by_inverse_layer_idx\": true",
         "m/config.json: scale_attn_by_inverse_layer_idx: true is not supported"},
        {"gpt_neo", "\"local\"", "\"sparse\"",
         "m/config.json: attention_layers: \"sparse\" is not supported: global and local are"},
        {"gpt_neo", "\"local\"", "\"local\", \"local\"",
         "m/config.json: attention_layers: [\"global\",\"local\",\"local\"] does not have one for "
         "each layer"},
        {"llama", "\"rope_type\": \"default\"", "\"rope_type\": \"llama3\"",
         "m/config.json: rope_parameters: {\"rope_theta\":10000.0,\"rope_type\":\"llama3\"} is not "
         "supported"},
        {"llama", "\"rope_theta\": 10000.0", "\"rope_theta\": 1",
         "m/config.json: rope_parameters: {\"rope_theta\":1,\"rope_type\":\"default\"} is not "
         "supported"},
        {"llama", "\"use_cache\": true", "\"rope_theta\": 0",
         "m/config.json: rope_theta: 0 must be above 1"},
        {"llama", "\"use_cache\": true", "\"rope_scaling\": {\"type\": \"linear\"}",
         "m/config.json: rope_scaling: {\"type\":\"linear\"} is not supported"},
        {"llama", "\"mlp_bias\": false", "\"mlp_bias\": true",
         "m/config.json: mlp_bias: true is not supported"},
        {"llama", "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2",
         "m/config.json: num_key_value_heads: 2 does not divide 3 heads"},
        {"llama", "\"head_dim\": 10", "\"head_dim\": 9", "m/config.json: head_dim must be even"},
        {"bert_labels", "\"id2label\": {", "\"id2label\": [], \"label2id\": {", "m/config.json:"},
        {"llama", "\"attention_bias\": false", "\"attention_bias\": true",
         "there is no tensor 'model.layers.0.self_attn.q_proj.bias'"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        copy_model(all[i].model);
        edit("config.json", all[i].from, all[i].to);
        refused("model check m --tokens 4", all[i].why);
    }
    copy_model("bert"); /* what is missing or null is as the library has it */
    edit("config.json", "\"layer_norm_eps\": 1e-12,", "\"later\": null,");
    free(output_of("model check m"));
    edit("config.json", "\"later\": null", "\"later\": 1");
    free(output_of("model check m --ignore-unknown"));
    char *said = output_of("model inspect m");
    assert_non_null(strstr(said, "Not known in config.json: later"));
    free(said);
    remove_tree("m");
}

/* What convert reads is never what it writes, and a file says what there is to say of it. */
static void test_places(void **state) {
    (void)state;
    copy_model("gpt2");
    refused("model convert m --out m/model.safetensors", "which it would replace");
    refused("model convert m --out m/config.json", "which it would replace");
    static const char *const commands[] = {
        "model inspect m --json",
        "model check m --json",
        "bench --model ./m --seq-len 4 --json",
        "infer --model m --ids 1 --json",
        "infer --model m --ids 1 --output",
        "infer --model m --ids 1 --trace",
        "train --model m --data " MODELS
        "gpt2/expected.safetensors --method lora --tokens 4 --steps 1 --json",
        "train --model m --data " MODELS
        "gpt2/expected.safetensors --method lora --tokens 4 --steps 1 --out",
        "train --model m --data " MODELS
        "gpt2/expected.safetensors --method lora --tokens 4 --steps 1 --plot",
        "train --model m --data " MODELS
        "gpt2/expected.safetensors --method lora --tokens 4 --steps 1 --trace",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        static const char *const files[] = {"config.json", "model.safetensors"};
        for (size_t k = 0; k < 2; k++) {
            char words[WORDS];
            (void)snprintf(words, sizeof words, "%s m/%s", commands[i], files[k]);
            refused(words, "which it would replace");
        }
    }
    refused("infer --model m --ids 1 --calibrate m/config.json --json m/config.json",
            "is the file of calibrate");
    refused("model convert m --out -", "standard output takes --json alone");
    free(output_of("model convert m --out m/w"));
    free(output_of("model check m/w --seed 2 --mode fast"));
    refused("model check m/w --tokens 3", "--tokens does nothing with a file of weights");
    refused("model check m/w --value-bits 3", "--value-bits does nothing with a file of weights");
    refused("model check m/w --gives logits", "--gives does nothing with a file of weights");
    remove_tree("m");
}

/* Names of a file command no terminal, and are cut between characters. */
static void test_names(void **state) {
    (void)state;
    char name[256] = "\"\\u001b[2J\": 1, \"x";
    for (unsigned i = 0; i < 60; i++)
        strcat(name, "é");
    strcat(name, "\": 1, \"use_cache\"");
    copy_model("bert");
    edit("config.json", "\"use_cache\"", name);
    edit("model.safetensors", "\"pooler.dense.bias\"", "\"pooler.\\u001bns.b\"");
    char *said = output_of("model inspect m");
    assert_null(strchr(said, 27));
    assert_non_null(strstr(said, "Not known in config.json: \\x1b[2J, xé"));
    assert_non_null(strstr(said, "pooler.\\x1bns.b"));
    free(said);
    json_t *j = json_of("model inspect m --json -", EXIT_DONE);
    assert_int_equal(strlen(test_str(j, "unknown")), 4 + 2 + 99);
    json_decref(j);
    remove_tree("m");
}

/* What would never end is not waited for. */
static void test_pipes(void **state) {
    (void)state;
    copy_model("llama");
    static const char *const files[] = {"config.json", "model.safetensors.index.json",
                                        "model-00002-of-00003.safetensors"};
    for (unsigned i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[64], said[128];
        snprintf(path, sizeof path, "m/%s", files[i]);
        snprintf(said, sizeof said, "%s: is no regular file", path);
        copy_model("llama");
        assert_int_equal(unlink(path), 0);
        assert_int_equal(mkfifo(path, 0600), 0);
        refused("model inspect m", said);
    }
    remove_tree("m");
}

/* Of later versions, and of earlier ones: the same models in other words. */
static void test_other_words(void **state) {
    (void)state;
    copy_model("gpt_neo"); /* only the pairs */
    edit("config.json", "\"attention_layers\": [", "\"task_specific_params\": [");
    char *said = output_of("model check m --tokens 4 --seed 3");
    char *plain = output_of("model check " MODELS "gpt_neo --tokens 4 --seed 3");
    assert_string_equal(said, plain);
    free(said);
    free(plain);
    copy_model(
        "bert"); /* gamma is as long as weight and a digit less: the header keeps its length */
    plain = output_of("model check m --seed 3");
    edit("model.safetensors", "encoder.layer.0.output.LayerNorm.weight\"",
         "encoder.layer.0.output.LayerNorm.gamma\" ");
    edit("model.safetensors", "encoder.layer.1.attention.output.LayerNorm.bias\"",
         "encoder.layer.1.attention.output.LayerNorm.beta\"");
    said = output_of("model check m --seed 3");
    assert_string_equal(said, plain);
    free(said);
    free(plain);
    remove_tree("m");
}

/* What a file of weights says, a pass of it has. ReLU has no table. */
static void test_index_bits(void **state) {
    (void)state;
    json_t *j = json_of("model inspect " MODELS "gpt2 --frac-bits 12", EXIT_DONE);
    assert_int_equal(number(j, "index_bits"), 7);
    json_decref(j);
    char *said = output_of("model inspect " MODELS "gpt2 --index-bits 6");
    assert_non_null(strstr(said, "inner_bits 7, index_bits 6; "));
    free(said);
    for (unsigned given = 0; given < 2; given++) {
        free(output_of(given ? "model convert " MODELS "gpt2 --index-bits 6 --out w.uvm"
                             : "model convert " MODELS "gpt2 --out w.uvm"));
        j = json_of("model check w.uvm", EXIT_DONE);
        assert_int_equal(number(j, "index_bits"), given ? 6 : 9);
        json_decref(j);
        refused("model check w.uvm --index-bits 6", "--index-bits does nothing with a file");
        assert_int_equal(unlink("w.uvm"), 0);
    }
    j = check_of("gpt2", "--index-bits 6", EXIT_DONE);
    assert_int_equal(number(j, "index_bits"), 6);
    json_decref(j);
    copy_model("gpt2");
    edit("config.json", "\"gelu_new\"", "\"relu\"");
    j = json_of("model inspect m", EXIT_DONE);
    assert_true(json_is_null(json_object_get(j, "index_bits")));
    assert_true(json_is_null(json_object_get(j, "refused")));
    json_decref(j);
    refused("model convert m --index-bits 6 --out w.uvm",
            "index_bits: does nothing with ReLU, which has no table");
    refused("infer --model m --ids 1 --index-bits 6",
            "index_bits: does nothing with ReLU, which has no table");
}

/* Edits that leave the header's length as it is. */
static void test_tensors(void **state) {
    (void)state;
    static const struct {
        const char *model, *file, *from, *to, *why;
    } all[] = {
        {"bert", "model.safetensors", "encoder.layer.1.output.dense.bias",
         "encoder.layer.1.output.dense.bios",
         "there is no tensor 'encoder.layer.1.output.dense.bias'"},
        {"bert", "model.safetensors", "pooler.dense.bias", "poolex.dense.bias",
         "tensor 'poolex.dense.bias' has no place in a model of kind bert"},
        {"bert", "model.safetensors", "embeddings.token_type_", "embeddings.tokem_type_",
         "there is no tensor 'embeddings.token_type_embeddings.weight'"},
        {"bert", "model.safetensors", "\"shape\":[97,24]", "\"shape\":[24,97]",
         "tensor 'embeddings.word_embeddings.weight' is 24 x 97; config.json makes it 97 x 24"},
        {"bert", "config.json", "\"intermediate_size\": 40", "\"intermediate_size\": 41",
         "tensor 'encoder.layer.0.intermediate.dense.weight' is 40 x 24; config.json makes it 41 x "
         "24"},
        {"bert", "config.json", "\"vocab_size\": 97", "\"vocab_size\": 98",
         "tensor 'embeddings.word_embeddings.weight' is 97 x 24; config.json makes it 98 x 24"},
        {"bert", "model.safetensors", "\"F32\"", "\"I32\"",
         "tensor 'embeddings.LayerNorm.bias' has dtype I32, which is not supported: F64, F32, F16 "
         "and BF16 are"},
        {"gpt2", "config.json", "\"n_layer\": 2", "\"n_layer\": 1",
         "tensor 'transformer.h.1.attn.c_attn.bias' has no place in a model of kind gpt2"},
        {"gpt2", "config.json", "\"n_layer\": 2", "\"n_layer\": 3",
         "there is no tensor 'transformer.h.2.ln_1.weight'"},
        {"gpt2", "config.json", "\"n_positions\": 16", "\"n_positions\": 17",
         "tensor 'transformer.wpe.weight' is 16 x 24; config.json makes it 17 x 24"},
        {"llama", "model.safetensors.index.json", "\"weight_map\"", "\"weight-map\"",
         "m/model.safetensors.index.json: weight_map is missing, or no object"},
        {"llama", "model.safetensors.index.json", "model-00003-of-00003.safetensors",
         "../del-00003-of-00003.safetensors",
         "weight_map: 'lm_head.weight' is not in a file of this directory"},
        {"llama", "model.safetensors.index.json", "model-00003-of-00003.safetensors",
         "model-00004-of-00003.safetensors",
         "m/model-00004-of-00003.safetensors: cannot be read: No such file or directory"},
        {"llama", "model.safetensors.index.json", "model-00003-of-00003.safetensors",
         "model-00002-of-00003.safetensors",
         "has the tensor 'lm_head.weight', which weight_map has in another file"},
        {"llama", "model.safetensors.index.json", "\"lm_head.weight\": ",
         "\"lm_head.extra\": \"model-00003-of-00003.safetensors\", \"lm_head.weight\": ",
         "weight_map names 'lm_head.extra', which is not in model-00003-of-00003.safetensors"},
        {"llama", "model.safetensors.index.json",
         "\"lm_head.weight\": \"model-00003-of-00003.safetensors\",", "",
         "has the tensor 'lm_head.weight', which weight_map does not name"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        copy_model(all[i].model);
        edit(all[i].file, all[i].from, all[i].to);
        refused("model inspect m", all[i].why);
    }
    copy_model("bert"); /* the last value of the last tensor, which is a pooler's, is not read */
    size_t len;
    uint8_t *bytes = bytes_of("m/model.safetensors", &len);
    memset(bytes + len - 4, 0xff, 4);
    write_file("m/model.safetensors", (char *)bytes, len);
    free(output_of("model inspect m"));
    memset(bytes + len - (24 + 24 * 24) * 4 - 4, 0xff, 4);
    write_file("m/model.safetensors", (char *)bytes, len);
    refused("model inspect m", "has a value that is no number");
    write_file("m/model.safetensors", (char *)bytes, len - 1);
    refused("model inspect m", "the file may be cut");
    assert_int_equal(unlink("m/model.safetensors"), 0);
    refused("model inspect m", "m: has no model.safetensors and no model.safetensors.index.json");
    free(bytes);
    remove_tree("m");
}

/* ---- inputs ---- */

static void test_inputs(void **state) {
    (void)state;
    static const struct {
        const char *from, *to, *why;
    } all[] = {
        {"\"input_ids\"", "\"input_idx\"", "m/i: has no input_ids of sequences x tokens"},
        {"\"attention_mask\":{\"dtype\":\"I64\"", "\"attention_mask\":{\"dtype\":\"U64\"",
         "m/i: attention_mask has dtype U64"},
        {"\"shape\":[2,7,24]", "\"shape\":[2,24,7]",
         "m/i: last_hidden_state is 2 x 24 x 7, which does not fit input_ids"},
    };
    copy_model("bert");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        size_t len;
        uint8_t *bytes = bytes_of(MODELS "bert/expected.safetensors", &len);
        write_file("m/i", (char *)bytes, len);
        free(bytes);
        edit("i", all[i].from, all[i].to);
        refused("model check m --input m/i", all[i].why);
    }
    copy_model("gpt2"); /* tokens that it does not have */
    refused("model check m --input " MODELS "bert/model.safetensors",
            "has no input_ids of sequences x tokens");
    refused("model check m --input " MODELS "bert/expected.safetensors",
            "token_type_ids: the model has no types of tokens");
    /* what is no number is no result */
    size_t len;
    uint8_t *bytes = bytes_of(MODELS "gpt2/expected.safetensors", &len);
    memset(bytes + len - 4, 0xff, 4);
    write_file("m/i", (char *)bytes, len);
    free(bytes);
    refused("model check m --gives logits --input m/i", "has a value that is no number");
    refused("model check m --tokens 17", "tokens: 17 are more than the model's 16 positions");
    remove_tree("m");
}

static void test_options(void **state) {
    (void)state;
    refused("model", "give one of inspect, convert, check");
    refused("model show x", "give one of inspect, convert, check");
    refused("model inspect", "inspect needs one path");
    refused("model inspect a b", "inspect needs one path");
    refused("model inspect nowhere", "nowhere/config.json: cannot be read");
    refused("model convert " MODELS "bert", "--out FILE is missing");
    refused("model inspect x --out y", "--out does nothing but in convert");
    refused("model convert x --out y --clip", "--clip does nothing without --weight-bits");
    refused("model convert x --out y --json -", "--json does nothing in convert");
    refused("model check x --padding", "--padding does nothing in check");
    refused("model check x --input y --seed 1", "--seed does nothing with --input");
    refused("model inspect x --input y", "--input does nothing but in check");
    refused("model check x --public", "--public does nothing in check");
    refused("model inspect x --ignore-unknown", "--ignore-unknown does nothing in inspect");
    refused("model inspect x --frac-bits 11", "--frac-bits 11: give a whole number from 12 to 20");
    refused("model inspect " MODELS "bert --gives logits", "logits of bert are not there");
    refused("model inspect " MODELS "gpt2 --gives labels", "are there of bert only");
    refused("model inspect " MODELS "bert --gives labels",
            "there is no tensor 'classifier.weight'");
    refused("model inspect x --gives all", "--gives all: give one of");
    refused("model convert " MODELS "gpt2 --out y --frac-bits 20 --value-bits 12",
            "frac_bits must be at most");
    refused("model convert " MODELS "gpt2 --out nowhere/y", "nowhere/y");
}

/* ---- secure runs ---- */

/* What goes in, as the model takes it. */
static int64_t *input_of(const uvcc_model_config *c, const model_input *in) {
    uvcc_tensor_desc d;
    assert_int_equal(uvcc_model_inputs(c, &d, NULL), 0);
    int64_t *x = calloc((size_t)d.rows * d.cols, sizeof *x);
    assert_non_null(x);
    if (c->input == UVCC_MODEL_INPUT_HIDDEN)
        fixed_round(in->x, (size_t)d.rows * d.cols, 16, FIXED_BITS_MOST, x);
    for (size_t i = 0; i < d.rows && c->input == UVCC_MODEL_INPUT_TOKENS; i++) {
        x[i * d.cols] = in->ids[i];
        if (c->segments != 0)
            x[i * d.cols + 1] = in->types[i];
    }
    for (size_t i = 0; i < d.rows && c->input == UVCC_MODEL_INPUT_ONE_HOT; i++) {
        x[i * d.cols + (size_t)in->ids[i]] = 1;
        if (c->segments != 0)
            x[i * d.cols + c->vocabulary + (size_t)in->types[i]] = 1;
    }
    return x;
}

/* The weights, and at all parties. */
static int64_t *set_weights(const loaded *l, const uvcc_model_config *c, const uvcc_program *p,
                            triangle *t) {
    const flag_message m = {NULL, 0};
    const size_t all = uvcc_model_parameters(c);
    int64_t *fixed = malloc(all * sizeof *fixed), *at = fixed;
    double *real = malloc(all * sizeof *real);
    uvcc_model_weight w;
    assert_true(fixed != NULL && real != NULL);
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++) {
        const size_t n = (size_t)w.rows * w.cols;
        assert_int_equal(weights_read(&l->w, i, real, &m), 0);
        fixed_round(real, n, 16, l->pass.weight_bits, at);
        triangle_set_public(t, (uint32_t)uvcc_program_find(p, w.name), at);
        at += n;
    }
    assert_true(at == fixed + all);
    free(real);
    return fixed;
}

/* What three sessions open is the twin's to the bit, and PyTorch's within a bound. */
static void secure(const char *name, uint32_t tokens, uint8_t takes, uint8_t gives, bool public,
                   double within) {
    const uvcc_allocator al = uvcc_host_allocator();
    char dir[512], path[600], why[256] = "";
    const flag_message m = {why, sizeof why};
    const model_options o = {.word = {"check", dir},
                             .pass = {.sequences = 1,
                                      .tokens = tokens,
                                      .frac_bits = 16,
                                      .mode = UVCC_MODEL_EXACT,
                                      .takes = takes,
                                      .gives = gives,
                                      .public_weights = public}};
    loaded l;
    model_input in;
    uvcc_model_config c;
    uint32_t rows, cols;
    uvcc_program *p;
    triangle t;
    snprintf(dir, sizeof dir, "%s%s", MODELS, name);
    snprintf(path, sizeof path, "%s/expected.safetensors", dir);
    assert_int_equal(model_load(&l, &o), EXIT_DONE);
    assert_int_equal(input_read(&in, path, &l.w, tokens, &m), 0);
    l.pass.sequences = in.sequences;
    l.pass.tokens = in.tokens;
    l.pass.padding = in.padding != NULL;
    assert_int_equal(description_config(&l.d, &l.pass, &c, why, sizeof why), 0);
    assert_int_equal(uvcc_model_output(&c, &rows, &cols), 0);
    const size_t count = (size_t)rows * cols;
    int64_t *x = input_of(&c, &in), *y = malloc(count * sizeof *y);
    assert_non_null(y);
    assert_int_equal(uvcc_model_program(&p, &c, 1, UVCC_TO_ALL, &al, why, sizeof why), 0);
    triangle_open(&t, p, &(triangle_options){.seed = 3});
    triangle_ready(&t);
    int64_t *fixed = set_weights(&l, &c, p, &t);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 1, 0, UVCC_MODEL_IN_X, x);
    if (c.padding)
        triangle_input(&t, 1, 0, UVCC_MODEL_IN_PADDING, in.padding);
    triangle_finish(&t, 1);
    if (uvcc_model_reference(&c, &al, fixed, x, in.padding, y, why, sizeof why) != 0)
        fail_msg("%s", why);
    const int64_t *out = uvcc_session_output(t.s[2], 0, UVCC_MODEL_OUT_Y);
    assert_memory_equal(out, y, count * sizeof *y);
    double off = 0;
    for (size_t i = 0; i < count; i++)
        if (in.padding == NULL || rows == in.sequences || in.padding[i / cols] == 0)
            off = fmax(off, fabs(fixed_real(out[i], 16) - in.expected[i]));
    print_message("%s: a secure run is off PyTorch by %.2g\n", name, off);
    assert_true(off > 0 && off < within);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    free(x);
    free(y);
    free(fixed);
    input_free(&in);
    model_unload(&l);
}

/* Of BERT with tokens that are none, GPT-2, GPT-Neo with and without windows that show, Llama. */
static void test_secure(void **state) {
    (void)state;
    secure("bert", 0, TAKES_HIDDEN, GIVES_HIDDEN, false, 1.5e-3);
    secure("bert_labels", 0, TAKES_TOKENS, GIVES_LABELS, false, 1.5e-3);
    secure("gpt2", 0, TAKES_HIDDEN, GIVES_HIDDEN, false, 1.5e-3);
    secure("gpt2", 0, TAKES_ONE_HOT, GIVES_LAST_LOGITS, false, 1e-2);
    secure("gpt2", 0, TAKES_TOKENS, GIVES_LOGITS, true, 1e-2);
    secure("gpt_neo", 4, TAKES_HIDDEN, GIVES_HIDDEN, false, 1.5e-3);
    secure("gpt_neo", 0, TAKES_HIDDEN, GIVES_HIDDEN, true, 1.5e-3);
    secure("llama", 0, TAKES_HIDDEN, GIVES_HIDDEN, false, 5e-3);
    secure("llama", 0, TAKES_TOKENS, GIVES_LAST_LOGITS, false, 1e-2);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]) || sodium_init() < 0)
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_container_before),
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_container),
        cmocka_unit_test(test_clipping),
        cmocka_unit_test(test_configs),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_other_words),
        cmocka_unit_test(test_index_bits),
        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_inputs),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_secure),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_descriptions),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
