/* SPDX-License-Identifier: Apache-2.0 */
/* test_safetensors.c - the reader of safetensors files (tools/model): values of every type of real
 * number, and that nothing of a wrong or damaged file is believed. */
#include "support.h"

#include <math.h>

#include "model/safetensors.h"

enum { HEADER_MAX = 4096 };

/* A file in memory that ends at a page that nobody may touch. */
static test_edge file_of(const char *header, size_t blanks, const void *values, size_t len,
                         size_t *size) {
    uint8_t bytes[HEADER_MAX];
    const size_t text = strlen(header), all = text + blanks;
    assert_true(8 + all + len <= sizeof bytes);
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(all >> (8 * i));
    memcpy(bytes + 8, header, text);
    memset(bytes + 8 + text, ' ', blanks);
    if (len != 0)
        memcpy(bytes + 8 + all, values, len);
    *size = 8 + all + len;
    return test_edge_copy(bytes, *size, 0);
}

static int parse(st_file *f, const uint8_t *bytes, size_t len, char why[256]) {
    const flag_message m = {why, 256};
    why[0] = '\0';
    return st_parse(f, bytes, len, "f", &m);
}

static void near(const st_tensor *t, uint64_t i, double want) {
    double v;
    st_reals(t, i, 1, &v);
    if (isnan(want))
        assert_true(isnan(v));
    else
        assert_true(v == want);
}

/* ---- what is read ---- */

static const char all_types[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[2,4],\"data_offsets\":[0,16]},"
    "\"brain\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
    "\"single\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[22,26]},"
    "\"none\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[26,26]},"
    "\"double\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[26,34]},"
    "\"whole\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[34,42]}}";

static void test_values(void **state) {
    (void)state;
    static const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x03ff,
                                      0x7bff, 0x8000, 0x7c00, 0x7e00};
    static const uint16_t brains[] = {0x3f80, 0xc049, 0x0001};
    const float single = 0.1f;
    const double wide = -0.1;
    const int64_t whole = -5;
    uint8_t values[42];
    char why[256], shape[ST_SHAPE_BYTES];
    size_t size;
    st_file f;
    memcpy(values, halves, 16);
    memcpy(values + 16, brains, 6);
    memcpy(values + 22, &single, 4);
    memcpy(values + 26, &wide, 8);
    memcpy(values + 34, &whole, 8);
    test_edge e = file_of(all_types, 3, values, sizeof values, &size);
    assert_int_equal(parse(&f, e.at, size, why), 0);
    assert_int_equal(f.count, 6);
    static const double want[] = {1, -2, 0x1p-24, 1023 * 0x1p-24, 65504, 0, INFINITY, NAN};
    const st_tensor *t = st_find(&f, "half");
    for (unsigned i = 0; i < 8; i++)
        near(t, i, want[i]);
    assert_string_equal(st_shape_text(t, shape), "2 x 4");
    t = st_find(&f, "brain");
    near(t, 0, 1);
    near(t, 1, -3.140625);
    near(t, 2, 0x1p-133);
    near(st_find(&f, "single"), 0, (double)single);
    assert_string_equal(st_shape_text(st_find(&f, "single"), shape), "a number");
    near(st_find(&f, "double"), 0, wide);
    assert_int_equal(st_find(&f, "none")->elements, 0);
    assert_int_equal(st_integer(st_find(&f, "whole"), 0), -5);
    assert_false(st_is_real(st_find(&f, "whole")));
    assert_true(st_is_real(t));
    assert_null(st_find(&f, "other"));
    st_close(&f);
    test_edge_free(&e);
}

/* ---- what is refused ---- */

#define ONE(dtype, shape, offsets)                                                                 \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_refused(void **state) {
    (void)state;
    static const struct {
        const char *header, *why;
        size_t values;
    } all[] = {
        {"[]", "f: is no safetensors file: its header is no JSON object", 0},
        {"", "f: is no safetensors file: its header is no JSON object", 0},
        {"{", "f: its header is no JSON object: ", 0},
        {"{} {}", "f: its header is no JSON object: ", 0},
        {"{\"a\":1}", "f: tensor 'a': is no object", 0},
        {"{\"__metadata__\":[]}", "f: __metadata__ is no object", 0},
        {"{\"__metadata__\":{\"x\":1}}", "f: __metadata__ has what is no string: 'x'", 0},
        {"{}", "f: has 2 bytes at its end that belong to no tensor", 2},
        {"{\"a\":{}}", "f: tensor 'a': dtype is missing, or no string", 0},
        {ONE("F31", "[1]", "[0,4]"), "f: tensor 'a': dtype 'F31' is not known", 4},
        {ONE("F32", "1", "[0,4]"), "f: tensor 'a': shape is missing, or no array", 4},
        {ONE("F32", "[-1]", "[0,4]"),
         "f: tensor 'a': shape has what is no whole number of 0 or more", 4},
        {ONE("F32", "[1.0]", "[0,4]"),
         "f: tensor 'a': shape has what is no whole number of 0 or more", 4},
        {ONE("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"),
         "f: tensor 'a': shape has more than 8 dimensions", 4},
        {ONE("F32", "[4294967296,4294967296]", "[0,0]"),
         "f: tensor 'a': shape has more elements than there can be", 0},
        {ONE("F32", "[4611686018427387904]", "[0,0]"),
         "f: tensor 'a': shape and dtype are not of as many bytes as data_offsets", 0},
        {ONE("F32", "[1]", "[0]"),
         "f: tensor 'a': data_offsets is missing, or not two whole numbers of 0 or more", 4},
        {ONE("F32", "[1]", "[-4,0]"),
         "f: tensor 'a': data_offsets is missing, or not two whole numbers of 0 or more", 4},
        {ONE("F32", "[1]", "[4,0]"),
         "f: tensor 'a': data_offsets 4 to 0 are not within the 4 bytes of values; the file may be "
         "cut",
         4},
        {ONE("F32", "[1]", "[0,4]"),
         "f: tensor 'a': data_offsets 0 to 4 are not within the 3 bytes of values; the file may be "
         "cut",
         3},
        {ONE("F32", "[1]", "[0,9223372036854775807]"), "f: tensor 'a': data_offsets 0 to 9", 4},
        {ONE("F32", "[2]", "[0,4]"),
         "f: tensor 'a': shape and dtype are not of as many bytes as data_offsets", 4},
        {ONE("F32", "[1]", "[1,5]"), "f: tensor 'a': has bytes before it that belong to no tensor",
         5},
        {ONE("F32", "[1]", "[0,4],\"more\":1"),
         "f: tensor 'a': has members other than dtype, shape and data_offsets", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[3,7]}}",
         "f: tensor 'b': shares bytes with another tensor", 7},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[2,2]}}",
         "f: tensor 'b': shares bytes with another tensor", 4},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
         "f: its header is no JSON object: duplicate object key", 1},
    };
    const uint8_t values[16] = {0};
    char why[256];
    size_t size;
    st_file f;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        test_edge e = file_of(all[i].header, 0, values, all[i].values, &size);
        assert_int_equal(parse(&f, e.at, size, why), -1);
        if (strncmp(why, all[i].why, strlen(all[i].why)) != 0)
            fail_msg("%s: said %s", all[i].header, why);
        assert_null(f.header);
        test_edge_free(&e);
    }
}

/* A length of a header that is not there, up to the greatest number. */
static void test_lengths(void **state) {
    (void)state;
    static const struct {
        uint64_t len;
        const char *why;
    } all[] = {
        {2, "f: is cut within its header"},
        {100000000, "f: is cut within its header"},
        {100000001, "f: is no safetensors file: its header would have 100000001 bytes"},
        {UINT64_MAX, "f: is no safetensors file: its header would have 18446744073709551615 bytes"},
    };
    uint8_t bytes[9] = {[8] = '{'};
    char why[256];
    st_file f;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (unsigned k = 0; k < 8; k++)
            bytes[k] = (uint8_t)(all[i].len >> (8 * k));
        assert_int_equal(parse(&f, bytes, sizeof bytes, why), -1);
        assert_string_equal(why, all[i].why);
    }
    assert_int_equal(parse(&f, bytes, 7, why), -1);
    assert_string_equal(why, "f: is too short for a safetensors file");
}

/* Cut anywhere it is refused; a changed byte of the header may be a name's, and no more. */
static void test_damaged(void **state) {
    (void)state;
    const uint8_t values[42] = {0};
    char why[256];
    size_t size;
    st_file f;
    test_edge e = file_of(all_types, 0, values, sizeof values, &size);
    for (size_t len = 0; len < size; len++) {
        test_edge cut = test_edge_copy(e.at, len, 0);
        assert_int_equal(parse(&f, cut.at, len, why), -1);
        test_edge_free(&cut);
    }
    uint8_t *bytes = e.at;
    unsigned refused = 0;
    for (size_t i = 0; i < 8 + strlen(all_types); i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1u << bit);
            if (parse(&f, bytes, size, why) == 0) {
                uint64_t sum = 0;
                for (size_t k = 0; k < f.count; k++)
                    sum += f.tensor[k].elements;
                assert_true(sum >= 14 && sum <= 21 + 42);
                st_close(&f);
            } else {
                refused++;
                assert_true(strlen(why) > 3);
            }
            bytes[i] ^= (uint8_t)(1u << bit);
        }
    assert_true(refused > 1000);
    test_edge_free(&e);
}

/* Files on a disk: what is none, and a directory. */
static void test_files(void **state) {
    (void)state;
    char why[256] = "";
    const flag_message m = {why, sizeof why};
    st_file f;
    assert_int_equal(st_open(&f, "/nowhere.safetensors", &m), -1);
    assert_string_equal(why, "/nowhere.safetensors: cannot be read: No such file or directory");
    assert_int_equal(st_open(&f, "/", &m), -1);
    assert_string_equal(why, "/: is no regular file; name a file");
    assert_int_equal(st_open(&f, "/dev/null", &m), -1);
    assert_string_equal(why, "/dev/null: is no regular file; name a file");
    assert_int_equal(st_open(&f, UVCC_DATA_DIR "/models/gpt2/model.safetensors", &m), 0);
    assert_int_equal(f.count, 28);
    assert_int_equal(st_find(&f, "transformer.wpe.weight")->dtype, ST_F16);
    st_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths), cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
