/* SPDX-License-Identifier: Apache-2.0 */
/* serving.c - see serving.h. Truncations are exact, so that who gets the output learns no more than
 * it, and it is the plaintext run's to the bit. */
#include "serving.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/client.h>
#include <uvcc/host.h>
#include <uvcc/program.h>

/* The first error sticks. */
typedef struct builder {
    const serving_model *m;
    uvcc_program *p;
    int rc;
    uint16_t k;
    uint32_t weight[UVCC_MLP_MAX_LAYERS], bias[UVCC_MLP_MAX_LAYERS];
} builder;

uint32_t serving_layers(const serving_model *m) {
    return m->hidden.count + 1;
}

void serving_shape(const serving_model *m, uint32_t layer, uint32_t *in, uint32_t *out) {
    *in = layer == 0 ? m->features : m->hidden.v[layer - 1];
    *out = layer == m->hidden.count ? m->classes : m->hidden.v[layer];
}

uint64_t serving_weights(const serving_model *m) {
    uint64_t n = 0;
    for (uint32_t l = 0; l < serving_layers(m); l++) {
        uint32_t in, out;
        serving_shape(m, l, &in, &out);
        n += ((uint64_t)in + 1) * out;
    }
    return n;
}

static uint32_t note(builder *b, int rc) {
    if (rc < 0 && b->rc == 0)
        b->rc = rc;
    return (uint32_t)rc;
}

static uint32_t tensor(builder *b, const char *name, uint32_t number, uint32_t rows, uint32_t cols,
                       uint32_t bits, uint32_t scale, uint8_t lifetime) {
    char full[32];
    (void)snprintf(full, sizeof full, "%s%u", name, number);
    return note(b, uvcc_program_tensor(b->p, &(uvcc_tensor_desc){.name = full,
                                                                 .rows = rows,
                                                                 .cols = cols,
                                                                 .bits = (uint8_t)bits,
                                                                 .scale = (uint8_t)scale,
                                                                 .lifetime = lifetime,
                                                                 .in_buffer_of = UVCC_NO_TENSOR}));
}

static void op(builder *b, uvcc_op_desc d) {
    d.k = b->k++;
    if (b->rc == 0)
        (void)note(b, uvcc_program_op(b->p, &d));
}

/* The weights come once, from one party. */
static void add_weights(builder *b) {
    const serving_model *m = b->m;
    for (uint32_t l = 0; l < serving_layers(m); l++) {
        uint32_t in, out;
        serving_shape(m, l, &in, &out);
        const uint32_t bits = m->frac_bits + SERVING_WEIGHT_BITS, f = m->frac_bits;
        b->weight[l] = tensor(b, "W", l, in, out, bits, f, UVCC_PERSIST);
        b->bias[l] = tensor(b, "b", l, 1, out, bits, f, UVCC_PERSIST);
    }
    (void)note(b, uvcc_program_entry(b->p, "weights"));
    for (uint32_t l = 0; l < serving_layers(m); l++) {
        const uint8_t owner = (uint8_t)m->weights_owner;
        (void)note(b, uvcc_program_input(b->p, SERVING_IN_WEIGHT + 2 * l, b->weight[l], owner));
        (void)note(b, uvcc_program_input(b->p, SERVING_IN_WEIGHT + 2 * l + 1, b->bias[l], owner));
    }
}

static int add_offer(uvcc_program *p, uint8_t party, uint32_t words, uint32_t word_bits) {
    char name[16];
    (void)snprintf(name, sizeof name, "offer%u", party);
    const uvcc_tensor_desc d = {.name = name,
                                .rows = 1,
                                .cols = words,
                                .bits = (uint8_t)word_bits,
                                .lifetime = UVCC_TRANSIENT,
                                .in_buffer_of = UVCC_NO_TENSOR};
    const int t = uvcc_program_tensor(p, &d);
    int rc = t < 0 ? t : uvcc_program_input(p, SERVING_IN_OFFER + party, (uint32_t)t, party);
    if (rc >= 0)
        rc = uvcc_program_output(p, SERVING_OUT_OFFER + party, (uint32_t)t);
    return rc;
}

int serving_add_choose(uvcc_program *p, uint32_t words, uint32_t word_bits) {
    int rc = uvcc_program_entry(p, "choose");
    for (uint8_t i = 0; i < UVCC_PARTIES && rc >= 0; i++)
        rc = add_offer(p, i, words, word_bits);
    return rc < 0 ? rc : 0;
}

static void add_layer(builder *b, uint32_t layer, uint32_t x, uint32_t z) {
    const uint8_t flags = b->m->products == UVCC_PRODUCTS_BEAVER ? UVCC_OP_BEAVER : 0;
    op(b, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                         .in_count = 2,
                         .in = {x, b->weight[layer]},
                         .out_count = 1,
                         .out = {z},
                         .flags = flags,
                         .shift = (uint8_t)b->m->frac_bits});
    op(b, (uvcc_op_desc){.opcode = UVCC_OP_BIAS_ADD,
                         .in_count = 2,
                         .in = {z, b->bias[layer]},
                         .out_count = 1,
                         .out = {z}});
}

static void add_serve(builder *b, serving_program *at) {
    const serving_model *m = b->m;
    const uint32_t f = m->frac_bits, bits = f + SERVING_RANGE_BITS;
    uint32_t x = at->asked = tensor(b, "asked", 0, m->rows, m->features, bits, f, UVCC_PERSIST);
    at->answer = tensor(b, "answer", 0, m->rows, m->classes, bits, f, UVCC_PERSIST);
    (void)note(b, uvcc_program_entry(b->p, "serve"));
    b->k = 0;
    for (uint32_t l = 0; l < m->hidden.count; l++) {
        const uint32_t units = m->hidden.v[l];
        const uint32_t z = tensor(b, "Z", l, m->rows, units, bits, f, UVCC_TRANSIENT);
        const uint32_t a = tensor(b, "A", l, m->rows, units, bits, f, UVCC_TRANSIENT);
        const uint32_t d = tensor(b, "D", l, m->rows, units, 1, 0, UVCC_TRANSIENT);
        add_layer(b, l, x, z);
        op(b, (uvcc_op_desc){.opcode = UVCC_OP_RELU,
                             .in_count = 1,
                             .in = {z},
                             .out_count = 2,
                             .out = {a, d},
                             .flags = m->compare == UVCC_COMPARE_CIRCUIT ? UVCC_OP_CIRCUIT : 0});
        x = a;
    }
    add_layer(b, m->hidden.count, x, at->answer);
}

int serving_make(const serving_model *m, uint32_t words, uint32_t word_bits, uvcc_program **out,
                 serving_program *at, const flag_message *message) {
    const uvcc_allocator al = uvcc_host_allocator();
    builder b = {.m = m};
    *at = (serving_program){.padding = UVCC_NO_TENSOR};
    int rc = uvcc_program_new(&b.p, &al);
    if (rc == 0) {
        add_weights(&b);
        (void)note(&b, serving_add_choose(b.p, words, word_bits));
        add_serve(&b, at);
        rc = b.rc != 0 ? b.rc : uvcc_program_finish(b.p, message->text, message->cap);
    }
    if (rc != 0) {
        if (message->text[0] == '\0')
            (void)flag_fail(message, "%s", uvcc_error_text(rc));
        uvcc_program_free(b.p);
        return rc;
    }
    at->weights_entry = (uint32_t)uvcc_program_find_entry(b.p, "weights");
    at->choose_entry = (uint32_t)uvcc_program_find_entry(b.p, "choose");
    at->serve_entry = (uint32_t)uvcc_program_find_entry(b.p, "serve");
    *out = b.p;
    return 0;
}

serving_form serving_perceptron(uint32_t features, uint32_t classes, uint32_t frac_bits,
                                uint32_t rows) {
    return (serving_form){.entry = frac_bits,
                          .units = rows,
                          .in_rows = 1,
                          .in_cols = features,
                          .out_rows = 1,
                          .out_cols = classes};
}

uvcc_request_shape serving_request(const serving_form *f, uint32_t units) {
    uvcc_request_shape s = {.entry = f->entry,
                            .in_rows = units * f->in_rows,
                            .in_cols = f->in_cols,
                            .out_rows = units * f->out_rows,
                            .out_cols = f->out_cols,
                            .key_cols = f->key_cols,
                            .key_bits = f->key_bits};
    memcpy(s.terms, f->terms, sizeof s.terms);
    return s;
}

uint64_t serving_values(const uvcc_request_shape *s) {
    return (uint64_t)s->in_rows * s->in_cols;
}

uint64_t serving_key_words(const uvcc_request_shape *s) {
    enum { ROOT_WORDS = 2 };
    const uint64_t numbers = (uint64_t)s->in_rows * s->key_cols;
    return numbers != 0 ? numbers * (uvcc_client_key_words(s->key_bits) + ROOT_WORDS) : 0;
}

uint64_t serving_bytes(const serving_form *f) {
    enum { HEADS = 256 };
    const uvcc_request_shape s = serving_request(f, f->units);
    return HEADS +
           16 * (serving_values(&s) + serving_key_words(&s) + (uint64_t)s.out_rows * s.out_cols);
}

/* ---- what both ends have alike ---- */

/* Bits of a refusal, in this order. */
enum {
    FEATURES,
    CLASSES,
    ROWS,
    FRAC_BITS,
    MODEL,
    SEQUENCES,
    TOKENS,
    GIVES,
    TAKES,
    PADDING,
    MODE,
    VALUE_BITS,
    INNER_BITS,
    WEIGHT_BITS,
    FOLD,
    WEIGHTS,
    WEIGHTS_OWNER,
    INDEX_BITS,
    NAMES
};
static const char *const names[NAMES] = {
    "features",   "classes",     "rows",  "frac_bits", "model",         "sequences",
    "tokens",     "gives",       "takes", "padding",   "mode",          "value_bits",
    "inner_bits", "weight_bits", "fold",  "weights",   "weights_owner", "index_bits"};

/* 0 where they are what frac_bits give, said or not: it is the same model. */
static uint32_t index_term(const model_pass *p) {
    uvcc_model_config c = {.frac_bits = (uint8_t)p->frac_bits};
    return p->index_bits != uvcc_model_index_bits(&c) ? p->index_bits : 0;
}

void serving_put_terms(serving_form *f, const model_pass *p, uint32_t weights_owner,
                       uint32_t model) {
    const uint32_t flags = (uint32_t)p->padding | (uint32_t)p->fold << 1 |
                           (uint32_t)p->public_weights << 2 | p->mode << 3 | weights_owner << 5;
    const uint32_t words[3] = {p->value_bits | p->inner_bits << 8 | index_term(p) << 12 |
                                   p->weight_bits << 16 | flags << 24,
                               (p->tokens - 1) | (p->sequences - 1) << 16, model};
    for (unsigned i = 0; i < sizeof f->terms; i++)
        f->terms[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
}

static uint32_t load32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Bits `first` and on of a word, as many as the mask has. */
typedef struct term {
    uint8_t word, first;
    uint32_t mask;
    uint8_t name;
} term;

/* Word 0 is the request's entry, the others are its terms. */
static uint32_t compare_terms(const serving_form *f, const uvcc_request_shape *s) {
    static const term terms[] = {
        {0, 0, 0xff, FRAC_BITS},    {0, 8, 0xff, TAKES},        {0, 16, 0xff, GIVES},
        {1, 0, 0xff, VALUE_BITS},   {1, 8, 0xf, INNER_BITS},    {1, 12, 0xf, INDEX_BITS},
        {1, 16, 0xff, WEIGHT_BITS}, {1, 24, 1, PADDING},        {1, 25, 1, FOLD},
        {1, 26, 1, WEIGHTS},        {1, 27, 3, MODE},           {1, 29, 3, WEIGHTS_OWNER},
        {2, 0, 0xffff, TOKENS},     {2, 16, 0xffff, SEQUENCES}, {3, 0, UINT32_MAX, MODEL}};
    uint32_t a[4] = {f->entry}, b[4] = {s->entry}, differs = 0;
    for (unsigned i = 0; i < 3; i++) {
        a[1 + i] = load32(f->terms + (size_t)4 * i);
        b[1 + i] = load32(s->terms + (size_t)4 * i);
    }
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        if ((((a[terms[i].word] ^ b[terms[i].word]) >> terms[i].first) & terms[i].mask) != 0)
            differs |= 1u << terms[i].name;
    return differs;
}

static uint32_t compare_rows(const serving_form *f, const uvcc_request_shape *s) {
    return (uint32_t)(s->in_cols != f->in_cols) << FEATURES |
           (uint32_t)(s->out_cols != f->out_cols) << CLASSES |
           (uint32_t)(s->in_rows > f->units) << ROWS |
           (uint32_t)(s->entry != f->entry) << FRAC_BITS;
}

/* A form that no member says is none of this model's. */
uint32_t serving_differs(const serving_form *f, const uvcc_request_shape *s) {
    const uint32_t units = s->in_rows / f->in_rows;
    const uvcc_request_shape want = serving_request(f, units);
    if (units != 0 && units <= f->units && memcmp(&want, s, sizeof want) == 0)
        return 0;
    const bool pass = (f->entry & SERVING_PASS) != 0;
    const uint32_t differs = ((f->entry ^ s->entry) & SERVING_PASS) != 0 ? 1u << MODEL
                             : pass                                      ? compare_terms(f, s)
                                                                         : compare_rows(f, s);
    return differs != 0 ? differs : 1u << MODEL;
}

void serving_names(uint32_t differs, const char *before, char out[SERVING_NAMES_BYTES]) {
    size_t n = 0;
    out[0] = '\0';
    for (unsigned i = 0; i < NAMES; i++) {
        if ((differs >> i & 1) == 0)
            continue;
        n += (size_t)snprintf(out + n, SERVING_NAMES_BYTES - n, "%s%s%s", n != 0 ? ", " : "",
                              before, names[i]);
        n = n < SERVING_NAMES_BYTES ? n : SERVING_NAMES_BYTES - 1;
    }
    if (n == 0)
        (void)snprintf(out, SERVING_NAMES_BYTES, "something that it does not name");
}
