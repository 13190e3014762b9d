/* SPDX-License-Identifier: Apache-2.0 */
/* subject.c - see subject.h: the registered models, models of checkpoints, and programs of one
 * function. Random weights have the ranges of a trained model's: matrices below 2^-5, gains within
 * 2^-4 of 1, biases and shifts below 2^-5 and 2^-4. */
#include "subject.h"

#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "../model/fixed.h"
#include "../report.h"

enum { TOKENS = 128, VALUE_BITS_MOST = 12, HEAD_SIZE = 64 };

typedef enum family { BERT, GPT2, GPT_NEO, LLAMA } family;

static const struct model {
    const char *name, *hf_id;
    family family;
    uint32_t layers, heads, width, ff_width, tokens, n_bits, frac_bits, vocabulary;
} models[] = {
#define UVCC_BENCHED(...) {__VA_ARGS__},
#include "models.def"
#undef UVCC_BENCHED
};
enum { MODELS = sizeof models / sizeof models[0] };

typedef enum micro {
#define UVCC_MICRO(NAME, name, shape, what) MICRO_##NAME,
#include "micros.def"
#undef UVCC_MICRO
} micro;

const char *const bench_micros[] = {
#define UVCC_MICRO(NAME, name, shape, what) name,
#include "micros.def"
#undef UVCC_MICRO
    NULL};

void subject_list(FILE *to) {
    (void)fprintf(to, "%-13s %-30s %8s %7s %7s %6s %11s %6s %9s\n", "name", "hf_id", "n_layers",
                  "n_heads", "d_model", "d_ff", "max_seq_len", "n_bits", "frac_bits");
    for (unsigned i = 0; i < MODELS; i++) {
        const struct model *m = &models[i];
        (void)fprintf(to, "%-13s %-30s %8u %7u %7u %6u %11u %6u %9u\n", m->name, m->hf_id,
                      m->layers, m->heads, m->width, m->ff_width, m->tokens, m->n_bits,
                      m->frac_bits);
    }
}

static const struct model *find(const char *name) {
    for (unsigned i = 0; i < MODELS; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- random numbers ---- */

uint64_t subject_mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/* Uniform, |v| < 2^bits. */
static int64_t value(uint64_t seed, unsigned bits) {
    return (int64_t)(subject_mix(seed) >> (63 - bits)) - ((int64_t)1 << bits);
}

static void random_weight(unsigned kind, unsigned scale, uint32_t i, int64_t *out, size_t n) {
    const uint64_t seed = subject_mix((uint64_t)i + 1);
    const bool gain = kind == UVCC_MODEL_WEIGHT_GAIN;
    const unsigned bits = gain || kind == UVCC_MODEL_WEIGHT_SHIFT ? scale - 4 : scale - 5;
    const int64_t middle = gain ? (int64_t)1 << scale : 0;
    for (size_t k = 0; k < n; k++)
        out[k] = middle + value(seed + k, bits);
}

/* ---- models ---- */

static void describe_bert(uvcc_model_config *c, bool whole) {
    if (!whole)
        return;
    c->segments = 2;
    c->embedding_norm = 1;
    c->pool = UVCC_MODEL_POOL_TANH;
}

static void describe_gpt(uvcc_model_config *c, bool neo, bool whole) {
    c->order = UVCC_MODEL_PRE_NORM;
    c->activation = UVCC_NL_GELU_TANH;
    c->mask = UVCC_MODEL_MASK_CAUSAL;
    c->last_norm = 1;
    if (neo) {
        c->mask = UVCC_MODEL_MASK_WINDOW;
        c->window = 256;
        c->window_period = 2;
        c->window_layers = 2;
        c->unscaled = 1;
    }
    if (whole) {
        c->head = UVCC_MODEL_HEAD_TIED;
        c->logits_last = 1;
    }
}

static void describe_llama(uvcc_model_config *c, bool whole) {
    c->order = UVCC_MODEL_PRE_NORM;
    c->ff = UVCC_MODEL_FF_GATED;
    c->activation = UVCC_NL_SILU;
    c->norm = UVCC_MODEL_RMS_NORM;
    c->mask = UVCC_MODEL_MASK_CAUSAL;
    c->positions = UVCC_MODEL_POSITIONS_ROTARY;
    c->last_norm = 1;
    c->biases = 0;
    if (whole) {
        c->head = UVCC_MODEL_HEAD_OWN;
        c->logits_last = 1;
    }
}

static void describe(uvcc_model_config *c, const struct model *m, bool whole) {
    c->layers = m->layers;
    c->heads = m->heads;
    c->width = m->width;
    c->ff_width = m->ff_width;
    c->frac_bits = (uint8_t)m->frac_bits;
    c->epsilon = 1e-5;
    if (whole) {
        c->input = UVCC_MODEL_INPUT_TOKENS;
        c->vocabulary = m->vocabulary;
        c->positions = UVCC_MODEL_POSITIONS_LEARNED;
    }
    if (m->family == BERT)
        describe_bert(c, whole);
    else if (m->family == LLAMA)
        describe_llama(c, whole);
    else
        describe_gpt(c, m->family == GPT_NEO, whole);
}

/* The widest declared values that the library takes for this model. */
static void widen(uvcc_model_config *c) {
    c->inner_bits = 0;
    for (c->value_bits = VALUE_BITS_MOST; c->value_bits > 1; c->value_bits--)
        if (uvcc_model_check(c, NULL, 0) == 0)
            return;
}

/* Options that a description has no say in. */
static int apply_options(subject *s) {
    const bench_options *o = s->o;
    uvcc_model_config *c = &s->config;
    char why[256] = "";
    c->sequences = o->batch_size;
    c->plain_norms = o->fold;
    c->tokens = o->seq_len != 0 ? o->seq_len : s->checkpoint != NULL ? c->tokens : TOKENS;
    c->mode = (uint8_t)o->mode;
    c->weights = o->public_weights != 0 ? UVCC_MODEL_PUBLIC_WEIGHTS : UVCC_MODEL_SECRET_WEIGHTS;
    c->frac_bits = o->frac_bits != 0 ? (uint8_t)o->frac_bits : c->frac_bits;
    c->value_bits = (uint8_t)o->value_bits;
    c->inner_bits = (uint8_t)o->inner_bits;
    c->index_bits = (uint8_t)o->index_bits;
    if (o->index_bits != 0 && c->activation == UVCC_NL_RELU)
        return report_error(EXIT_BAD_INPUT,
                            "--index-bits does nothing with %s, whose activation is ReLU, without "
                            "a table; leave it out",
                            s->name);
    c->weight_bits = o->weight_bits != 0 ? (uint8_t)o->weight_bits : c->weight_bits;
    if (o->no_ragged_pack) {
        if (c->mask == UVCC_MODEL_MASK_NONE)
            return report_error(EXIT_BAD_INPUT,
                                "--disable-ragged-pack does nothing with %s, where every token "
                                "sees all; leave it out",
                                s->name);
        c->mask = UVCC_MODEL_MASK_NONE; /* every score of the square, as padded rows have them */
        c->window = c->window_period = 0;
        c->window_layers = 0;
    }
    if (o->no_eff_bits)
        widen(c);
    if (uvcc_model_check(c, why, sizeof why) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", s->name, why);
    s->frac_bits = c->frac_bits;
    s->value_bits = c->value_bits != 0 ? c->value_bits : 7;
    s->inner_bits = c->inner_bits != 0 ? c->inner_bits : s->value_bits;
    s->index_bits = description_index_bits(c);
    return EXIT_DONE;
}

static int open_checkpoint(subject *s) {
    const bench_options *o = s->o;
    const model_options with = {.word = {"bench", o->model},
                                .pass = {.sequences = o->batch_size,
                                         .tokens = o->seq_len,
                                         .frac_bits = o->frac_bits != 0 ? o->frac_bits : 12,
                                         .value_bits = o->value_bits,
                                         .weight_bits = o->weight_bits,
                                         .inner_bits = o->inner_bits,
                                         .mode = o->mode,
                                         .takes = o->whole ? TAKES_TOKENS : TAKES_HIDDEN,
                                         .fold = o->fold,
                                         .public_weights = o->public_weights != 0}};
    loaded *l = calloc(1, sizeof *l);
    if (l == NULL)
        return no_memory();
    const int status = model_load(l, &with);
    if (status != EXIT_DONE) {
        free(l);
        return status;
    }
    s->checkpoint = l;
    if (l->refused[0] != '\0')
        return model_refuse(l);
    s->config = l->config;
    return model_spares(&l->from, &(output_use){"json", o->run.json}, 1);
}

static int open_model(subject *s) {
    const bench_options *o = s->o;
    const struct model *m = find(o->model);
    int status = EXIT_DONE;
    (void)snprintf(s->name, sizeof s->name, "%s", o->model);
    s->is_model = true;
    if (m == NULL && strchr(o->model, '/') == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "--model %s: there is no such model; see uvcc bench --list, or give "
                            "the directory of a checkpoint with a / in its name",
                            o->model);
    if (m == NULL) {
        status = open_checkpoint(s);
    } else if (uvcc_model_default(&s->config, sizeof s->config) == 0) {
        describe(&s->config, m, o->whole);
        s->hf_id = m->hf_id;
        s->n_bits = m->n_bits;
        if (o->seq_len > m->tokens)
            status = report_error(EXIT_BAD_INPUT, "--seq-len %u: %s has %u positions at most",
                                  o->seq_len, m->name, m->tokens);
        if (o->layers > m->layers)
            status = report_error(EXIT_BAD_INPUT, "--layers %u: %s has %u", o->layers, m->name,
                                  m->layers);
        s->config.layers = o->layers != 0 ? o->layers : m->layers;
    }
    if (status == EXIT_DONE)
        status = apply_options(s);
    if (status != EXIT_DONE)
        return status;
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256] = "";
    if (uvcc_model_program(&s->program, &s->config, 0, UVCC_TO_ALL, &al, why, sizeof why) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", s->name, why);
    s->n_layers = s->config.layers;
    s->n_heads = s->config.heads;
    s->d_model = s->config.width;
    s->weights = uvcc_model_weight_count(&s->config);
    return EXIT_DONE;
}

/* ---- one function ---- */

/* A program in the making: one entry with the input x; its weights, and what is emitted of it. */
typedef struct making {
    subject *s;
    uvcc_program *p;
    uint32_t x, rows, cols;
    uint8_t f, bits;
    int rc;
} making;

static uint32_t tensor(making *m, const char *name, uvcc_tensor_desc d) {
    d.name = name;
    d.in_buffer_of = UVCC_NO_TENSOR;
    const int t = m->rc < 0 ? m->rc : uvcc_program_tensor(m->p, &d);
    m->rc = t < 0 ? t : m->rc;
    return t < 0 ? 0 : (uint32_t)t;
}

static uvcc_tensor_desc shape(const making *m, uint32_t rows, uint32_t cols, unsigned bits) {
    return (uvcc_tensor_desc){.rows = rows,
                              .cols = cols,
                              .bits = (uint8_t)bits,
                              .scale = m->f,
                              .lifetime = UVCC_TRANSIENT};
}

static uint32_t weight(making *m, const char *name, uint32_t rows, uint32_t cols, unsigned bits) {
    uvcc_tensor_desc d = shape(m, rows, cols, bits);
    d.lifetime = UVCC_PERSIST;
    d.sharing = m->s->o->public_weights != 0 && rows != 1 ? UVCC_PUBLIC : (uint8_t)UVCC_REPLICATED;
    m->s->weights++;
    return tensor(m, name, d);
}

static void begin(making *m) {
    m->x = tensor(m, "x", shape(m, m->rows, m->cols, m->bits));
    if (m->rc >= 0)
        m->rc = uvcc_program_entry(m->p, "run");
    if (m->rc >= 0)
        m->rc = uvcc_program_input(m->p, UVCC_MODEL_IN_X, m->x, 0);
}

static uint8_t truncation_of(const bench_options *o) {
    return o->mode == UVCC_MODEL_FAST    ? UVCC_TRUNC_STOCHASTIC
           : o->mode == UVCC_MODEL_EXACT ? UVCC_TRUNC_EXACT
                                         : UVCC_TRUNC_EXACT_DCF;
}

static void nonlinear(making *m, uvcc_nonlinear what) {
    const bench_options *o = m->s->o;
    static const char *const outs[4] = {"y", "z", "v", "w"}, *const ins[3] = {"", "gamma", "beta"};
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_nonlinear_options n = {.size = sizeof n,
                                      .scale = m->f,
                                      .in_bits = m->bits,
                                      .index_bits = (uint8_t)m->s->index_bits,
                                      .cols = m->cols,
                                      .exact = o->mode != UVCC_MODEL_FAST,
                                      .dcf = o->mode == UVCC_MODEL_EXACT_DCF,
                                      .causal = what == UVCC_NL_SOFTMAX};
    const uvcc_tensor_desc of = shape(m, 1, m->cols, m->f + 4u), /* gamma's and beta's */
        in[3] = {shape(m, m->rows, m->cols, m->bits), of, of};
    uvcc_tensor_desc out[4];
    uint32_t from[3] = {0}, to[4];
    const int count = uvcc_nonlinear_output(what, &n, in, out);
    m->rc = count < 0 ? count : m->rc;
    for (int i = 0; i < count; i++)
        to[i] = tensor(m, outs[i], out[i]);
    for (unsigned i = 1; i < uvcc_nonlinear_at(what)->inputs; i++)
        from[i] = weight(m, ins[i], 1, m->cols, m->f + 4u);
    begin(m);
    from[0] = m->x;
    uvcc_emit e = {.program = m->p, .prefix = "", .alloc = &al};
    if (m->rc >= 0)
        m->rc = uvcc_emit_nonlinear(&e, what, &n, from, to);
}

static void op(making *m, uvcc_op_desc d) {
    if (m->rc >= 0)
        m->rc = uvcc_program_op(m->p, &d);
}

/* x W, truncated; by a public W locally, then what it gives is truncated. */
static void gemm(making *m) {
    const uint32_t w = weight(m, "W", m->cols, m->cols, m->f + 4u);
    const uint32_t y = tensor(m, "y", shape(m, m->rows, m->cols, 40));
    const bool public = m->s->o->public_weights != 0;
    unsigned bits = m->bits + m->f + 4u; /* of the sums */
    for (uint32_t n = 1; n < m->cols; n *= 2)
        bits++;
    uvcc_tensor_desc wide = shape(m, m->rows, m->cols, bits);
    wide.scale = (uint8_t)(2 * m->f);
    const uint32_t z = public ? tensor(m, "z", wide) : y;
    begin(m);
    const uint8_t truncation = truncation_of(m->s->o);
    op(m, (uvcc_op_desc){.opcode = public ? UVCC_OP_GEMM_PART : UVCC_OP_GEMM_SS,
                         .in_count = 2,
                         .out_count = 1,
                         .in = {m->x, w},
                         .out = {z},
                         .shift = public ? 0 : m->f,
                         .truncation = public ? 0 : truncation});
    if (public)
        op(m, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                             .k = 1,
                             .in_count = 1,
                             .out_count = 1,
                             .in = {z},
                             .out = {y},
                             .shift = m->f,
                             .truncation = truncation});
}

static void compare(making *m) {
    uvcc_tensor_desc bit = shape(m, m->rows, m->cols, 1);
    bit.scale = 0;
    const uint32_t y = tensor(m, "y", shape(m, m->rows, m->cols, m->bits));
    const uint32_t d = tensor(m, "d", bit);
    begin(m);
    op(m, (uvcc_op_desc){
              .opcode = UVCC_OP_RELU, .in_count = 1, .out_count = 2, .in = {m->x}, .out = {y, d}});
}

static void truncate(making *m) {
    uvcc_tensor_desc out = shape(m, m->rows, m->cols, m->bits);
    out.scale = 0;
    const uint32_t y = tensor(m, "y", out);
    begin(m);
    op(m, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                         .in_count = 1,
                         .out_count = 1,
                         .in = {m->x},
                         .out = {y},
                         .shift = m->f,
                         .truncation = truncation_of(m->s->o)});
}

static void emit(making *m, micro what) {
    switch (what) {
    case MICRO_GELU:
        nonlinear(m, UVCC_NL_GELU);
        break;
    case MICRO_SILU:
        nonlinear(m, UVCC_NL_SILU);
        break;
    case MICRO_SOFTMAX:
        nonlinear(m, UVCC_NL_SOFTMAX);
        break;
    case MICRO_LAYERNORM:
        nonlinear(m, UVCC_NL_LAYERNORM);
        break;
    case MICRO_RMSNORM:
        nonlinear(m, UVCC_NL_RMSNORM);
        break;
    case MICRO_GEMM:
        gemm(m);
        break;
    case MICRO_COMPARE:
        compare(m);
        break;
    case MICRO_TRUNCATE:
        truncate(m);
        break;
    }
}

bool subject_has_index(const bench_options *o) {
    return o->micro == MICRO_GELU + 1 || o->micro == MICRO_SILU + 1;
}

static int open_micro(subject *s) {
    const bench_options *o = s->o;
    const micro what = (micro)(o->micro - 1);
    const uint32_t tokens = (o->seq_len != 0 ? o->seq_len : TOKENS) * o->batch_size;
    const uint8_t f = o->frac_bits != 0 ? (uint8_t)o->frac_bits : 12;
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256] = "";
    making m = {.s = s, .rows = tokens, .cols = o->width, .f = f};
    s->frac_bits = f;
    s->value_bits = o->no_eff_bits ? VALUE_BITS_MOST : o->value_bits != 0 ? o->value_bits : 7;
    s->inner_bits = s->value_bits;
    m.bits = (uint8_t)(f + s->value_bits);
    (void)snprintf(s->name, sizeof s->name, "%s", bench_micros[what]);
    s->d_model = o->width;
    if (subject_has_index(o)) { /* as a model has it */
        const uvcc_model_config c = {.frac_bits = f, .index_bits = (uint8_t)o->index_bits};
        m.cols = 4 * o->width;
        s->index_bits = uvcc_model_index_bits(&c);
    }
    if (what == MICRO_SOFTMAX) {
        s->n_heads = o->width / HEAD_SIZE != 0 ? o->width / HEAD_SIZE : 1;
        m.rows = s->n_heads * tokens;
        m.cols = tokens / o->batch_size;
    }
    if (uvcc_program_new(&s->program, &al) != 0)
        return no_memory();
    m.p = s->program;
    emit(&m, what);
    if (m.rc >= 0)
        m.rc = uvcc_program_finish(s->program, why, sizeof why);
    return m.rc >= 0 ? EXIT_DONE
                     : report_error(EXIT_BAD_INPUT, "--micro %s at a width of %u: %s", s->name,
                                    o->width, why[0] != '\0' ? why : uvcc_error_text(m.rc));
}

/* ---- input and weights ---- */

/* Rows about 1; or numbers of tokens, of the first kind of them. */
static int make_input(subject *s) {
    const uvcc_io_desc *io = uvcc_program_input_at(s->program, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(s->program, io->tensor);
    const size_t rows = d->rows, cols = d->cols;
    const uvcc_model_config *c = &s->config;
    s->x = calloc(rows * cols, sizeof *s->x);
    if (s->x == NULL)
        return no_memory();
    const bool tokens = s->is_model && c->input == UVCC_MODEL_INPUT_TOKENS;
    for (size_t i = 0; tokens && i < rows; i++)
        s->x[i * cols] = (int64_t)(subject_mix(~(uint64_t)i) % c->vocabulary);
    for (size_t i = 0; !tokens && i < rows * cols; i++)
        s->x[i] = value(~(uint64_t)i, d->scale);
    return EXIT_DONE;
}

/* Weight i of a checkpoint. */
static int read_weight(const loaded *l, uint32_t i, size_t n, int64_t *out) {
    char text[BENCH_MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    double *v = malloc(n * sizeof *v);
    int rc = v == NULL ? flag_fail(&m, "out of memory") : weights_read(&l->w, i, v, &m);
    if (rc == 0)
        fixed_round(v, n, l->pass.frac_bits, l->pass.weight_bits, out);
    free(v);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_BAD_INPUT, "%s", text);
}

static int micro_weight(const subject *s, uint32_t i, uint32_t *found) {
    uint32_t seen = 0;
    for (uint32_t t = 0; t < uvcc_program_tensor_count(s->program); t++)
        if (uvcc_program_tensor_at(s->program, t)->lifetime == UVCC_PERSIST && seen++ == i) {
            *found = t;
            return EXIT_DONE;
        }
    return report_error(EXIT_FAILED, "there is no weight %u", i);
}

int subject_weight(const subject *s, uint32_t i, uint32_t *found, int64_t **values) {
    uvcc_model_weight w = {.kind = UVCC_MODEL_WEIGHT_MATRIX};
    int status = EXIT_DONE;
    if (s->is_model) {
        if (uvcc_model_weight_at(&s->config, i, &w) != 0)
            return report_error(EXIT_FAILED, "there is no weight %u", i);
        *found = (uint32_t)uvcc_program_find(s->program, w.name);
    } else {
        status = micro_weight(s, i, found);
        if (status != EXIT_DONE)
            return status;
        w.kind = i == 0 ? UVCC_MODEL_WEIGHT_GAIN : UVCC_MODEL_WEIGHT_SHIFT;
    }
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(s->program, *found);
    const size_t n = (size_t)d->rows * d->cols;
    if (!s->is_model && d->rows != 1)
        w.kind = UVCC_MODEL_WEIGHT_MATRIX;
    *values = malloc(n * sizeof **values);
    if (*values == NULL)
        return no_memory();
    if (s->checkpoint != NULL)
        status = read_weight(s->checkpoint, i, n, *values);
    else
        random_weight(w.kind, d->scale, i, *values, n);
    if (status != EXIT_DONE) {
        free(*values);
        *values = NULL;
    }
    return status;
}

int64_t *subject_weights(const subject *s) {
    int64_t *all = malloc(uvcc_model_parameters(&s->config) * sizeof *all);
    size_t at = 0;
    int status = all != NULL ? EXIT_DONE : no_memory();
    for (uint32_t i = 0; i < s->weights && status == EXIT_DONE; i++) {
        uint32_t t;
        int64_t *v;
        status = subject_weight(s, i, &t, &v);
        if (status != EXIT_DONE)
            break;
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(s->program, t);
        const size_t n = (size_t)d->rows * d->cols;
        memcpy(all + at, v, n * sizeof *v);
        at += n;
        free(v);
    }
    if (status == EXIT_DONE)
        return all;
    free(all);
    return NULL;
}

/* ---- life ---- */

int subject_open(subject *s, const bench_options *o) {
    *s = (subject){.o = o};
    const int status = o->micro != 0 ? open_micro(s) : open_model(s);
    return status == EXIT_DONE ? make_input(s) : status;
}

void subject_close(subject *s) {
    uvcc_program_free(s->program);
    free(s->x);
    if (s->checkpoint != NULL)
        model_unload(s->checkpoint);
    free(s->checkpoint);
}

/* Of a tensor at a party. */
static uint64_t bytes_of(const uvcc_program *p, uint32_t tensor) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, tensor);
    return (uint64_t)d->rows * d->cols * uvcc_program_element_bytes(p, tensor) *
           (d->sharing == UVCC_REPLICATED ? 2 : 1);
}

int subject_cost_of(const subject *s, subject_cost *out) {
    const uvcc_program *p = s->program;
    uint64_t transient = 0;
    *out = (subject_cost){0};
    int rc = uvcc_program_rounds(p, 0, NULL, &out->rounds);
    for (uint32_t i = 0; rc == 0 && i < uvcc_program_op_count(p, 0); i++) {
        uvcc_op_cost c;
        rc = uvcc_program_cost(p, 0, i, &c);
        out->online_bytes += rc == 0 ? c.online_bytes : 0;
        out->key_bytes += rc == 0 ? c.preprocessing_bytes : 0;
    }
    if (rc == 0)
        rc = uvcc_program_memory(p, 0, &transient);
    if (rc != 0)
        return report_error(EXIT_FAILED, "%s: its cost: %s", s->name, uvcc_error_text(rc));
    out->tensor_bytes = transient;
    for (uint32_t t = 0; t < uvcc_program_tensor_count(p); t++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, t);
        const uint64_t bytes = d->lifetime == UVCC_PERSIST ? bytes_of(p, t) : 0;
        out->tensor_bytes += bytes;
        out->public_bytes += d->sharing == UVCC_PUBLIC ? bytes : 0;
    }
    const uvcc_io_desc *io = uvcc_program_input_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    out->input_bytes = (uint64_t)d->rows * d->cols * sizeof *s->x;
    return EXIT_DONE;
}
