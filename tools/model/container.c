/* SPDX-License-Identifier: Apache-2.0 */
/* container.c - see container.h. */
#include "container.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../flags_json.h"

enum {
    VERSION = 3,
    FIRST_VERSION = 1,
    FIXED_BYTES = 16,
    ALIGNMENT = 64,
    HEADER_BYTES_MAX = 1 << 16
};
static const char magic[8] = {'U', 'V', 'C', 'C', 'M', 'O', 'D', 'L'};

/* ---- the description as JSON ---- */

static const char *const ffs[] = {"plain", "gated", NULL};
static const char *const norms[] = {"layer", "rms", NULL};
static const char *const orders[] = {"post", "pre", NULL};
static const char *const masks[] = {"none", "causal", "window", NULL};
static const char *const places[] = {"none", "learned", "rotary", NULL};
static const char *const heads[] = {"none", "own", "tied", NULL};
static const char *const inputs[] = {"hidden", "one_hot", "tokens", NULL};
static const char *const pools[] = {"none", "first", "tanh", "mean", NULL};
static const char *const modes[] = {"fast", "exact", "exact_dcf", NULL};
static const char *const secrecy[] = {"secret", "public", NULL};

/* What a field is; a byte's values may have names. */
typedef enum field_kind { BYTE, WORD, LONG, REAL } field_kind;
typedef struct field {
    const char *name;
    size_t at;
    field_kind kind;
    const char *const *choices;
    uint32_t since; /* version of the file; in older ones it is 0 */
} field;

#define FIELD_SINCE(member, kind, choices, since)                                                  \
    { #member, offsetof(uvcc_model_config, member), kind, choices, since }
#define FIELD(member, kind, choices) FIELD_SINCE(member, kind, choices, FIRST_VERSION)
static const field fields[] = {
    FIELD(layers, WORD, NULL),
    FIELD(width, WORD, NULL),
    FIELD(heads, WORD, NULL),
    FIELD(kv_heads, WORD, NULL),
    FIELD(head_size, WORD, NULL),
    FIELD(ff_width, WORD, NULL),
    FIELD(ff, BYTE, ffs),
    FIELD(activation, BYTE, NULL),
    FIELD(norm, BYTE, norms),
    FIELD(order, BYTE, orders),
    FIELD(last_norm, BYTE, NULL),
    FIELD(biases, BYTE, NULL),
    FIELD(mask, BYTE, masks),
    FIELD(padding, BYTE, NULL),
    FIELD(positions, BYTE, places),
    FIELD(head, BYTE, heads),
    FIELD(vocabulary, WORD, NULL),
    FIELD(window, WORD, NULL),
    FIELD(window_period, WORD, NULL),
    FIELD(window_layers, LONG, NULL),
    FIELD(rope_theta, REAL, NULL),
    FIELD(unscaled, BYTE, NULL),
    FIELD_SINCE(plain_norms, BYTE, NULL, 2),
    FIELD(input, BYTE, inputs),
    FIELD(segments, WORD, NULL),
    FIELD(embedding_norm, BYTE, NULL),
    FIELD(logits_last, BYTE, NULL),
    FIELD(pool, BYTE, pools),
    FIELD(labels, WORD, NULL),
    FIELD(epsilon, REAL, NULL),
    FIELD(sequences, WORD, NULL),
    FIELD(tokens, WORD, NULL),
    FIELD(frac_bits, BYTE, NULL),
    FIELD(value_bits, BYTE, NULL),
    FIELD(weight_bits, BYTE, NULL),
    FIELD(inner_bits, BYTE, NULL),
    FIELD_SINCE(index_bits, BYTE, NULL, 3),
    FIELD(mode, BYTE, modes),
    FIELD(weights, BYTE, secrecy),
};
enum { FIELDS = sizeof fields / sizeof fields[0] };
static const char activation_name[] = "activation";

/* Numbers of activations are of a longer list, which nonlinear.h has. */
static const struct {
    const char *name;
    uint8_t function;
} activations[] = {{"gelu", UVCC_NL_GELU},
                   {"gelu_tanh", UVCC_NL_GELU_TANH},
                   {"relu", UVCC_NL_RELU},
                   {"silu", UVCC_NL_SILU}};
enum { ACTIVATIONS = sizeof activations / sizeof activations[0] };

static bool is_activation(const field *f) {
    return strcmp(f->name, activation_name) == 0;
}

/* The word for a byte; NULL: it has none. */
static const char *word_of(const field *f, uint8_t v) {
    for (unsigned k = 0; k < ACTIVATIONS && is_activation(f); k++)
        if (activations[k].function == v)
            return activations[k].name;
    return f->choices != NULL ? f->choices[v] : NULL;
}

static json_t *field_json(const uvcc_model_config *c, const field *f) {
    const char *at = (const char *)c + f->at;
    uint64_t whole;
    uint32_t word;
    uint8_t byte;
    double real;
    memcpy(&byte, at, sizeof byte);
    if (f->kind == BYTE)
        return word_of(f, byte) != NULL ? json_string(word_of(f, byte)) : json_integer(byte);
    if (f->kind == WORD) {
        memcpy(&word, at, sizeof word);
        return json_integer(word);
    }
    if (f->kind == LONG) { /* a bit for each of up to 64 layers, which a number may not hold */
        char text[20];
        memcpy(&whole, at, sizeof whole);
        (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)whole);
        return json_string(text);
    }
    memcpy(&real, at, sizeof real);
    return json_real(real);
}

static json_t *to_json(const uvcc_model_config *c) {
    json_t *o = json_object();
    for (unsigned i = 0; i < FIELDS; i++)
        json_object_set_new(o, fields[i].name, field_json(c, &fields[i]));
    return o;
}

/* The byte that a word stands for, or -1. */
static int choice_of(const field *f, const char *text) {
    for (unsigned k = 0; k < ACTIVATIONS && is_activation(f); k++)
        if (strcmp(activations[k].name, text) == 0)
            return activations[k].function;
    for (int k = 0; f->choices != NULL && f->choices[k] != NULL; k++)
        if (strcmp(f->choices[k], text) == 0)
            return k;
    return -1;
}

/* 16 hexadecimal digits. */
static bool take_bits(const json_t *v, char *at) {
    const char *text = json_string_value(v);
    if (text == NULL || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    const uint64_t bits = strtoull(text, NULL, 16);
    memcpy(at, &bits, sizeof bits);
    return true;
}

static int take_field(const json_t *o, const field *f, uvcc_model_config *c,
                      const flag_message *m) {
    const json_t *v = json_object_get(o, f->name);
    const json_int_t most = f->kind == BYTE ? UINT8_MAX : UINT32_MAX;
    char *at = (char *)c + f->at;
    json_int_t n = -1;
    if (f->kind == REAL && json_is_number(v)) {
        const double real = json_number_value(v);
        memcpy(at, &real, sizeof real);
        return 0;
    }
    if (f->kind == LONG && take_bits(v, at))
        return 0;
    if (json_is_string(v))
        n = choice_of(f, json_string_value(v));
    else if (f->kind <= WORD && json_is_integer(v) && f->choices == NULL && !is_activation(f))
        n = json_integer_value(v);
    if (n < 0 || n > most)
        return flag_fail(m, "config.%s is missing, or not what it may be", f->name);
    const uint32_t word = (uint32_t)n;
    const uint8_t byte = (uint8_t)n;
    memcpy(at, f->kind == BYTE ? (const void *)&byte : (const void *)&word,
           f->kind == BYTE ? 1 : sizeof word);
    return 0;
}

static int from_json(const json_t *o, uint32_t version, uvcc_model_config *c,
                     const flag_message *m) {
    char why[256];
    size_t members = 0;
    (void)uvcc_model_default(c, sizeof *c);
    for (unsigned i = 0; i < FIELDS; i++) {
        if (fields[i].since > version)
            continue;
        if (take_field(o, &fields[i], c, m) != 0)
            return -1;
        members++;
    }
    if (json_object_size(o) != members)
        return flag_fail(m, "config has members that are not known");
    if (uvcc_model_check(c, why, sizeof why) != 0)
        return flag_fail(m, "config: %s", why);
    return 0;
}

/* ---- reading ---- */

static uint32_t load32(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The header's own members. */
static int take_members(container *c, uint32_t version, const flag_message *m) {
    static const char *const names[] = {"config", "model_type", "element_bytes", "parameters",
                                        NULL};
    uint64_t size = 0;
    if (flags_json_only(c->header, "header", names, m) != 0 ||
        flags_json_count(c->header, "header", "element_bytes", 4, 8, &size, NULL, m) != 0 ||
        flags_json_count(c->header, "header", "parameters", 1, INT64_MAX, &c->parameters, NULL,
                         m) != 0 ||
        flags_json_text(c->header, "header", "model_type", &c->model_type, m) != 0)
        return -1;
    c->element_bytes = (uint32_t)size;
    if ((size != 4 && size != 8) || c->model_type == NULL)
        return flag_fail(m, "header: element_bytes must be 4 or 8, and model_type a text");
    return from_json(json_object_get(c->header, "config"), version, &c->config, m);
}

static int take_header(container *c, uint32_t version, const char *path, const flag_message *m) {
    char why[512] = "";
    const flag_message inner = {why, sizeof why};
    if (!json_is_object(c->header))
        return flag_fail(m, "%s: its header is no JSON object", path);
    if (take_members(c, version, &inner) != 0)
        return flag_fail(m, "%s: %s", path, why);
    if (c->parameters != uvcc_model_parameters(&c->config))
        return flag_fail(m, "%s: has %llu parameters; its description has %llu", path,
                         (unsigned long long)c->parameters,
                         (unsigned long long)uvcc_model_parameters(&c->config));
    return 0;
}

static int64_t value_at(const container *c, uint64_t i) {
    const uint8_t *at = c->values + i * c->element_bytes;
    if (c->element_bytes == 4)
        return (int32_t)load32(at);
    return (int64_t)(load32(at) | (uint64_t)load32(at + 4) << 32);
}

/* Every weight is within its bits. */
static int check_values(const container *c, const char *path, const flag_message *m) {
    uvcc_model_weight w;
    uint64_t at = 0;
    for (uint32_t i = 0; uvcc_model_weight_at(&c->config, i, &w) == 0; i++)
        for (uint64_t k = (uint64_t)w.rows * w.cols; k-- > 0; at++) {
            const int64_t v = value_at(c, at), most = (int64_t)(1ull << w.bits);
            if (v >= most || v <= -most)
                return flag_fail(m, "%s: weight %s leaves its %u bits", path, w.name, w.bits);
        }
    return 0;
}

static int take_values(container *c, const uint8_t *bytes, uint64_t len, const char *path,
                       const flag_message *m) {
    uint64_t want;
    if (__builtin_mul_overflow(c->parameters, c->element_bytes, &want) || want != len)
        return flag_fail(m, "%s: has %llu bytes of weights; its header says otherwise", path,
                         (unsigned long long)len);
    c->values = bytes;
    return check_values(c, path, m);
}

int container_parse(container *out, const uint8_t *bytes, size_t len, const char *path,
                    const flag_message *m) {
    uint8_t sum[32];
    json_error_t error;
    *out = (container){0};
    if (len < FIXED_BYTES + sizeof sum || memcmp(bytes, magic, sizeof magic) != 0)
        return flag_fail(m, "%s: is no file of weights of uvcc model convert", path);
    const uint32_t version = load32(bytes + sizeof magic), header = load32(bytes + 12);
    if (version < FIRST_VERSION || version > VERSION)
        return flag_fail(m, "%s: has version %u; this program reads %u to %u", path, version,
                         FIRST_VERSION, VERSION);
    if (header > HEADER_BYTES_MAX || header > len - FIXED_BYTES - sizeof sum)
        return flag_fail(m, "%s: is cut within its header", path);
    (void)crypto_hash_sha256(sum, bytes, len - sizeof sum);
    if (memcmp(sum, bytes + len - sizeof sum, sizeof sum) != 0)
        return flag_fail(m, "%s: is damaged: its SHA-256 is another", path);
    out->header =
        json_loadb((const char *)bytes + FIXED_BYTES, header, JSON_REJECT_DUPLICATES, &error);
    int rc = out->header == NULL ? flag_fail(m, "%s: its header is no JSON: %s", path, error.text)
                                 : take_header(out, version, path, m);
    if (rc == 0)
        rc = take_values(out, bytes + FIXED_BYTES + header, len - FIXED_BYTES - header - sizeof sum,
                         path, m);
    if (rc != 0)
        container_close(out);
    return rc;
}

int container_open(container *out, const char *path, const flag_message *m) {
    file_map map;
    *out = (container){0};
    int rc = map_open(&map, path, m);
    if (rc == 0)
        rc = container_parse(out, map.bytes, map.len, path, m);
    if (rc == 0)
        out->map = map;
    else
        map_close(&map);
    return rc;
}

void container_close(container *c) {
    map_close(&c->map);
    json_decref(c->header);
    *c = (container){0};
}

void container_weights(const container *c, int64_t *out) {
    for (uint64_t i = 0; i < c->parameters; i++)
        out[i] = value_at(c, i);
}

/* ---- writing ---- */

struct container_writer {
    FILE *to;
    crypto_hash_sha256_state sum;
    uint32_t element_bytes;
};

static void put(container_writer *w, const void *bytes, size_t len) {
    (void)fwrite(bytes, 1, len, w->to);
    (void)crypto_hash_sha256_update(&w->sum, bytes, len);
}

static void put32(container_writer *w, uint32_t v) {
    const uint8_t bytes[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16),
                              (uint8_t)(v >> 24)};
    put(w, bytes, sizeof bytes);
}

/* Blanks after the header let values begin at a multiple of 64. */
static void put_header(container_writer *w, const char *text) {
    const size_t len = strlen(text);
    const size_t whole = (FIXED_BYTES + len + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - FIXED_BYTES;
    put(w, magic, sizeof magic);
    put32(w, VERSION);
    put32(w, (uint32_t)whole);
    put(w, text, len);
    for (size_t i = len; i < whole; i++)
        put(w, " ", 1);
}

/* Four bytes hold a weight of up to 31 bits and its sign. */
container_writer *container_begin(FILE *to, const uvcc_model_config *c, const char *model_type) {
    uvcc_model_weight first;
    container_writer *w = calloc(1, sizeof *w);
    json_t *header = NULL;
    char *text = NULL;
    if (w != NULL && uvcc_model_weight_at(c, 0, &first) == 0) {
        *w = (container_writer){.to = to, .element_bytes = first.bits <= 31 ? 4 : 8};
        (void)crypto_hash_sha256_init(&w->sum);
        header = json_pack("{s:s, s:i, s:I, s:o}", "model_type", model_type, "element_bytes",
                           (int)w->element_bytes, "parameters",
                           (json_int_t)uvcc_model_parameters(c), "config", to_json(c));
        text = header != NULL ? json_dumps(header, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    }
    if (text != NULL) {
        put_header(w, text);
    } else {
        free(w);
        w = NULL;
    }
    free(text);
    json_decref(header);
    return w;
}

void container_put(container_writer *w, const int64_t *v, uint64_t count) {
    uint8_t bytes[8192];
    size_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        for (unsigned k = 0; k < w->element_bytes; k++)
            bytes[n++] = (uint8_t)((uint64_t)v[i] >> (8 * k));
        if (n == sizeof bytes || i + 1 == count) {
            put(w, bytes, n);
            n = 0;
        }
    }
}

void container_end(container_writer *w, uint8_t sha256[32]) {
    (void)crypto_hash_sha256_final(&w->sum, sha256);
    (void)fwrite(sha256, 1, 32, w->to);
    free(w);
}
