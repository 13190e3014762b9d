/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_model.c - the readers of `uvcc model`. The first byte says of what: 0 a safetensors file, 1
 * a config.json, 2 the header of a file of weights, to which magic, lengths, as many zeros as it
 * says and the checksum are added, 3 such a file as it stands. The next two bits are the version of
 * the former, less 1. What is read holds its promises; what is refused is told. */
#include "common.h"

#include <sodium.h>

#include "model/container.h"
#include "model/description.h"
#include "model/safetensors.h"

enum { VALUES_MAX = 4096 };

static void check_line(const char *message, size_t cap, const char *begin) {
    const size_t n = strnlen(message, cap);
    FUZZ_CHECK(n > 0 && n < cap && strncmp(message, begin, strlen(begin)) == 0);
}

/* ---- safetensors ---- */

static void check_tensor(const st_file *f, const st_tensor *t, const uint8_t *bytes, size_t len) {
    char shape[ST_SHAPE_BYTES];
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n *= t->shape[i];
    FUZZ_CHECK(n == t->elements && n <= len);
    FUZZ_CHECK(t->bytes >= bytes && t->bytes <= bytes + len);
    FUZZ_CHECK(st_find(f, t->name) == t);
    FUZZ_CHECK(strlen(st_shape_text(t, shape)) < sizeof shape);
    if (t->dtype == ST_I64)
        for (uint64_t i = 0; i < n; i++)
            (void)st_integer(t, i);
    double v[16];
    for (uint64_t i = 0; st_is_real(t) && i < n; i += 16)
        st_reals(t, i, n - i < 16 ? n - i : 16, v);
}

/* The tensors' bytes are those behind the header, each once. */
static void safetensors(const uint8_t *data, size_t size) {
    char message[512] = "";
    const flag_message m = {message, sizeof message};
    uint8_t *bytes = fuzz_copy(data, size);
    st_file f;
    if (st_parse(&f, bytes, size, "file", &m) != 0) {
        check_line(message, sizeof message, "file: ");
        free(bytes);
        return;
    }
    const uint8_t *end = NULL;
    for (size_t i = 0; i < f.count; i++) {
        FUZZ_CHECK(end == NULL || f.tensor[i].bytes == end);
        check_tensor(&f, &f.tensor[i], bytes, size);
        const uint8_t *next = i + 1 < f.count ? f.tensor[i + 1].bytes : bytes + size;
        FUZZ_CHECK(next >= f.tensor[i].bytes);
        end = next;
    }
    st_close(&f);
    free(bytes);
}

/* ---- config.json ---- */

static void config(const uint8_t *data, size_t size) {
    char message[512] = "", why[256] = "";
    const flag_message m = {message, sizeof message};
    model_pass pass = {.sequences = 2, .tokens = 1, .frac_bits = 16, .weight_bits = 4};
    model_description d;
    uvcc_model_config c;
    json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(o) && description_read(&d, o, "config.json", &m) != 0) {
        check_line(message, sizeof message, "config.json: ");
    } else if (json_is_object(o)) {
        FUZZ_CHECK(d.layers >= 1 && d.layers <= UVCC_MODEL_MAX_LAYERS && d.width >= 1);
        FUZZ_CHECK(d.heads % d.kv_heads == 0 && d.head_size >= 1);
        for (unsigned i = 0; i < 15; i++) {
            pass.takes = (uint8_t)(i / 5);
            pass.gives = (uint8_t)(i % 5);
            const int err = description_config(&d, &pass, &c, why, sizeof why);
            FUZZ_CHECK(err == 0 || why[0] != '\0');
            FUZZ_CHECK(err == UVCC_ERR_USAGE || uvcc_model_check(&c, NULL, 0) == 0);
        }
    }
    json_decref(o);
}

/* ---- files of weights ---- */

/* Written again, it reads the same. */
static void check_again(const container *c) {
    char message[512] = "", *text = NULL;
    const flag_message m = {message, sizeof message};
    size_t len = 0;
    uint8_t sum[32];
    container again;
    int64_t *v = malloc(c->parameters * sizeof *v), *w = malloc(c->parameters * sizeof *w);
    FILE *to = open_memstream(&text, &len);
    FUZZ_CHECK(v != NULL && w != NULL && to != NULL);
    container_weights(c, v);
    container_writer *writer = container_begin(to, &c->config, c->model_type);
    FUZZ_CHECK(writer != NULL);
    container_put(writer, v, c->parameters);
    container_end(writer, sum);
    FUZZ_CHECK(fclose(to) == 0);
    FUZZ_CHECK(container_parse(&again, (uint8_t *)text, len, "again", &m) == 0);
    FUZZ_CHECK(memcmp(&again.config, &c->config, sizeof c->config) == 0);
    FUZZ_CHECK(again.parameters == c->parameters && strcmp(again.model_type, c->model_type) == 0);
    container_weights(&again, w);
    FUZZ_CHECK(memcmp(v, w, c->parameters * sizeof *v) == 0);
    container_close(&again);
    free(text);
    free(v);
    free(w);
}

static void file(const uint8_t *bytes, size_t len) {
    char message[512] = "";
    const flag_message m = {message, sizeof message};
    container c;
    if (container_parse(&c, bytes, len, "file", &m) != 0) {
        check_line(message, sizeof message, "file: ");
        return;
    }
    FUZZ_CHECK(c.parameters * c.element_bytes < len);
    check_again(&c);
    container_close(&c);
}

/* As many zeros as the header says that there are weights, up to a limit. */
static size_t values_of(const uint8_t *data, size_t size) {
    json_t *o = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    const json_int_t n = json_integer_value(json_object_get(o, "parameters"));
    const json_int_t each = json_integer_value(json_object_get(o, "element_bytes"));
    json_decref(o);
    return n > 0 && n <= VALUES_MAX && each > 0 && each <= 8 ? (size_t)n * (size_t)each : 0;
}

static void sealed_header(uint8_t version, const uint8_t *data, size_t size) {
    const uint8_t start[12] = {'U', 'V', 'C', 'C', 'M', 'O', 'D', 'L', version};
    const size_t values = values_of(data, size), body = sizeof start + 4 + size + values;
    uint8_t *bytes = calloc(1, body + crypto_hash_sha256_BYTES);
    FUZZ_CHECK(bytes != NULL);
    memcpy(bytes, start, sizeof start);
    for (unsigned i = 0; i < 4; i++)
        bytes[sizeof start + i] = (uint8_t)(size >> (8 * i));
    if (size != 0)
        memcpy(bytes + sizeof start + 4, data, size);
    (void)crypto_hash_sha256(bytes + body, bytes, body);
    file(bytes, body + crypto_hash_sha256_BYTES);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    switch (data[0] & 3) {
    case 0:
        safetensors(data + 1, size - 1);
        break;
    case 1:
        config(data + 1, size - 1);
        break;
    case 2:
        sealed_header((data[0] >> 2 & 3) + 1, data + 1, size - 1);
        break;
    default: {
        uint8_t *bytes = fuzz_copy(data + 1, size - 1);
        file(bytes, size - 1);
        free(bytes);
    }
    }
    return 0;
}
