/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - `uvcc model check`: a forward pass in double precision beside the fixed-point one that
 * a secure run gives to the bit, and how far values reach on the way. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uvcc/host.h>

#include "../report.h"
#include "container.h"
#include "input.h"
#include "model.h"
#include "real.h"

/* How far values are from what they should be. */
typedef struct distance {
    double most, square_sum;
    uint64_t count;
} distance;

typedef struct check {
    const model_options *o;
    model_description d;
    uvcc_model_config config; /* of the fixed-point pass */
    uvcc_model_config shape;  /* of the list of weights */
    char refused[256];        /* "": there is a fixed-point pass */
    const char *kind;
    double *weights;
    int64_t *fixed;
    model_input in;
    double *y; /* in double precision */
    ranges r;
    distance given, twin; /* from what the input's file has; of the twin */
} check;

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- what is checked ---- */

static int read_weights(check *c, const weights *w, const flag_message *m) {
    uvcc_model_weight of;
    uint64_t at = 0;
    int rc = 0;
    c->weights = malloc(uvcc_model_parameters(&c->shape) * sizeof *c->weights);
    c->fixed = malloc(uvcc_model_parameters(&c->shape) * sizeof *c->fixed);
    if (c->weights == NULL || c->fixed == NULL)
        return flag_fail(m, "out of memory");
    for (uint32_t i = 0; rc == 0 && uvcc_model_weight_at(&c->shape, i, &of) == 0; i++) {
        const uint64_t n = (uint64_t)of.rows * of.cols;
        rc = weights_read(w, i, c->weights + at, m);
        if (rc == 0)
            fixed_round(c->weights + at, n, c->config.frac_bits, c->config.weight_bits,
                        c->fixed + at);
        at += n;
    }
    return rc;
}

/* A checkpoint: the pass is as long as its input. */
static int open_checkpoint(check *c, uint32_t tokens, const flag_message *m) {
    loaded l;
    int status = model_load(&l, c->o, tokens);
    if (status != EXIT_DONE)
        return status;
    int rc = 0;
    if (c->o->input == NULL)
        rc = input_draw(&c->in, &l.w, l.pass.sequences, l.pass.tokens, c->o->seed, m);
    else
        rc = input_read(&c->in, c->o->input, &l.w, tokens, m);
    if (rc == 0) {
        l.pass.sequences = c->in.sequences;
        l.pass.tokens = c->in.tokens;
        l.pass.padding = c->in.padding != NULL;
        c->d = l.d;
        c->kind = description_family(&l.d);
        if (description_config(&l.d, &l.pass, &c->config, c->refused, sizeof c->refused) ==
            UVCC_ERR_USAGE)
            rc = flag_fail(m, "%s: %s", l.from.config_path, c->refused);
    }
    if (rc == 0) {
        c->shape = c->config;
        c->config.frac_bits = (uint8_t)l.pass.frac_bits;
        c->config.weight_bits = (uint8_t)l.pass.weight_bits;
        c->config.value_bits = (uint8_t)l.pass.value_bits;
        c->config.inner_bits = (uint8_t)l.pass.inner_bits;
        l.w.shape = c->shape;
        rc = read_weights(c, &l.w, m);
    }
    model_unload(&l);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_BAD_INPUT, "%s", m->text);
}

/* What a file says that convert wrote. It has no embeddings. */
static void describe_container(check *c) {
    const uvcc_model_config *f = &c->config;
    c->d = (model_description){.layers = f->layers,
                               .width = f->width,
                               .heads = f->heads,
                               .kv_heads = f->kv_heads != 0 ? f->kv_heads : f->heads,
                               .head_size = f->head_size != 0 ? f->head_size : f->width / f->heads,
                               .ff_width = f->ff_width,
                               .ff = f->ff,
                               .activation = f->activation,
                               .norm = f->norm,
                               .order = f->order,
                               .last_norm = f->last_norm,
                               .biases = f->biases,
                               .causal = f->mask != UVCC_MODEL_MASK_NONE,
                               .rotary = f->positions == UVCC_MODEL_POSITIONS_ROTARY,
                               .theta = f->rope_theta != 0 ? f->rope_theta : 10000,
                               .unscaled = f->unscaled,
                               .window = f->window,
                               .epsilon = f->epsilon};
    const uint32_t period = f->window_period != 0 ? f->window_period : 1;
    const uint64_t local = f->window_layers != 0 ? f->window_layers : ~0ull;
    for (uint32_t l = 0; l < f->layers && f->mask == UVCC_MODEL_MASK_WINDOW; l++)
        c->d.local[l] = local >> l % period & 1;
}

static int open_container(check *c, const flag_message *m) {
    container from;
    if (container_open(&from, c->o->word[1], m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    c->config = from.config;
    c->config.mode = (uint8_t)c->o->mode;
    c->config.padding = 0;
    c->shape = c->config;
    c->kind = "of fixed-point weights";
    describe_container(c);
    c->weights = malloc(from.parameters * sizeof *c->weights);
    c->fixed = malloc(from.parameters * sizeof *c->fixed);
    int status = c->weights == NULL || c->fixed == NULL ? no_memory() : EXIT_DONE;
    if (status == EXIT_DONE)
        container_weights(&from, c->fixed);
    for (uint64_t i = 0; status == EXIT_DONE && i < from.parameters; i++)
        c->weights[i] = fixed_real(c->fixed[i], c->config.frac_bits);
    container_close(&from);
    if (status != EXIT_DONE)
        return status;
    const int rc = c->config.input == UVCC_MODEL_INPUT_ONE_HOT
                       ? input_draw_tokens(&c->in, c->config.vocabulary, c->config.sequences,
                                           c->config.tokens, c->o->seed, m)
                       : input_draw_rows(&c->in, c->config.width, c->config.sequences,
                                         c->config.tokens, c->o->seed, m);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_BAD_INPUT, "%s", m->text);
}

/* ---- passes ---- */

static bool takes_tokens(const check *c) {
    return c->shape.input == UVCC_MODEL_INPUT_ONE_HOT;
}

static real_pass pass_of(const check *c) {
    return (real_pass){.d = &c->d,
                       .shape = &c->shape,
                       .weights = c->weights,
                       .sequences = c->in.sequences,
                       .tokens = c->in.tokens,
                       .ids = c->in.ids,
                       .types = c->in.types,
                       .padding = c->in.padding};
}

/* Rows of tokens that are none mean nothing. */
static distance distance_of(const check *c, const double *a, const double *b) {
    const real_pass p = pass_of(c);
    distance d = {0};
    size_t rows, cols;
    real_output(&p, &rows, &cols);
    const bool of_tokens = rows == (size_t)p.sequences * p.tokens;
    for (size_t i = 0; i < rows * cols; i++) {
        if (of_tokens && p.padding != NULL && p.padding[i / cols] != 0)
            continue;
        const double off = fabs(a[i] - b[i]);
        d.most = fmax(d.most, off);
        d.square_sum += off * off;
        d.count++;
    }
    return d;
}

static double root_mean_square(const distance *d) {
    return d->count != 0 ? sqrt(d->square_sum / (double)d->count) : 0;
}

static int run_real(check *c) {
    const real_pass p = pass_of(c);
    size_t rows, cols;
    real_output(&p, &rows, &cols);
    c->y = malloc(rows * cols * sizeof *c->y);
    if (c->y == NULL || real_forward(&p, takes_tokens(c) ? NULL : c->in.x, c->y, &c->r) != 0)
        return no_memory();
    for (size_t i = 0; i < c->r.count; i++)
        if (!isfinite(c->r.at[i].most))
            return report_error(EXIT_FAILED, "the pass leaves double precision at %s",
                                c->r.at[i].name);
    if (c->in.expected != NULL)
        c->given = distance_of(c, c->y, c->in.expected);
    return EXIT_DONE;
}

/* The rows, or a row of 0 and 1 for each token. NULL: out of memory. */
static int64_t *fixed_input(const check *c) {
    const size_t rows = (size_t)c->in.sequences * c->in.tokens, width = c->d.width;
    const size_t columns = (size_t)c->shape.vocabulary + c->shape.segments;
    int64_t *x = calloc(rows * (takes_tokens(c) ? columns : width), sizeof *x);
    if (x != NULL && !takes_tokens(c))
        fixed_round(c->in.x, rows * width, c->config.frac_bits, FIXED_BITS_MOST, x);
    for (size_t i = 0; x != NULL && takes_tokens(c) && i < rows; i++) {
        x[i * columns + (size_t)c->in.ids[i]] = 1;
        if (c->shape.segments != 0)
            x[i * columns + c->shape.vocabulary +
              (c->in.types != NULL ? (size_t)c->in.types[i] : 0)] = 1;
    }
    return x;
}

static int run_twin(check *c) {
    const real_pass p = pass_of(c);
    const unsigned dropped = c->config.mode == UVCC_MODEL_FAST ? UVCC_MODEL_OPEN_SHIFT : 0;
    const uvcc_allocator al = uvcc_host_allocator();
    size_t rows, cols;
    real_output(&p, &rows, &cols);
    int64_t *x = fixed_input(c), *y = malloc(rows * cols * sizeof *y);
    double *real = malloc(rows * cols * sizeof *real);
    const int status = x == NULL || y == NULL || real == NULL ? no_memory() : EXIT_DONE;
    if (status == EXIT_DONE)
        (void)uvcc_model_reference(&c->config, &al, c->fixed, x, c->in.padding, y, c->refused,
                                   sizeof c->refused);
    if (status == EXIT_DONE && c->refused[0] == '\0') {
        for (size_t i = 0; i < rows * cols; i++)
            real[i] = fixed_real(y[i], c->config.frac_bits - dropped);
        c->twin = distance_of(c, real, c->y);
    }
    free(x);
    free(y);
    free(real);
    return status;
}

/* ---- results ---- */

static unsigned value_bits(const check *c) {
    return c->config.value_bits != 0 ? c->config.value_bits : 7;
}

static unsigned inner_bits(const check *c) {
    return c->config.inner_bits != 0 ? c->config.inner_bits : value_bits(c);
}

/* Inner values need no more than the others have. */
static unsigned need(const check *c, bool inner, const range **who) {
    unsigned bits = ranges_bits(&c->r, inner, who);
    const range *other;
    const unsigned most = inner ? 0 : ranges_bits(&c->r, true, &other);
    if (most > bits) {
        bits = most;
        *who = other;
    }
    return bits;
}

static void show_need(const check *c, bool inner, FILE *to) {
    const range *who;
    const unsigned bits = need(c, inner, &who), have = inner ? inner_bits(c) : value_bits(c);
    if (who != NULL)
        (void)fprintf(to, "%s %u: %s reaches %.4g (here %u%s)\n",
                      inner ? "inner_bits" : "value_bits", bits, who->name, who->most, have,
                      bits > have ? ", too few" : "");
}

static void show(const check *c, FILE *to) {
    (void)fprintf(to, "Model %s, %u x %u tokens, %s\n", c->kind, c->in.sequences, c->in.tokens,
                  c->o->input != NULL ? c->o->input : "drawn by the seed");
    for (size_t i = 0; i < c->r.count; i++)
        (void)fprintf(to, "%-12s %12.6f%s\n", c->r.at[i].name, c->r.at[i].most,
                      c->r.at[i].inner ? "  (inner)" : "");
    show_need(c, false, to);
    show_need(c, true, to);
    (void)fprintf(to, "Norms divide by roots of %.3g to %.3g%s\n", c->r.least_square,
                  c->r.most_square,
                  c->r.least_square < 0x1p-9 || c->r.most_square > 0x1p12
                      ? ", and are exact from 2^-9 to 2^12 only"
                      : "");
    if (c->in.expected != NULL)
        (void)fprintf(to, "Double precision is off what --input has by %.3g (rms %.3g)\n",
                      c->given.most, root_mean_square(&c->given));
    if (c->refused[0] == '\0')
        (void)fprintf(to, "Fixed point, frac_bits %u, is off double precision by %.3g (rms %.3g)\n",
                      c->config.frac_bits, c->twin.most, root_mean_square(&c->twin));
}

static json_t *to_json(const check *c) {
    const range *who, *inner_who;
    const unsigned value = need(c, false, &who), inner = need(c, true, &inner_who);
    json_t *all = json_array();
    for (size_t i = 0; i < c->r.count; i++)
        json_array_append_new(all, json_pack("{s:s, s:f, s:b}", "name", c->r.at[i].name, "most",
                                             c->r.at[i].most, "inner", c->r.at[i].inner));
    json_t *o =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:s?, s:o}", "kind",
                  c->kind, "sequences", (int)c->in.sequences, "tokens", (int)c->in.tokens,
                  "frac_bits", (int)c->config.frac_bits, "value_bits", (int)value_bits(c),
                  "inner_bits", (int)inner_bits(c), "weight_bits", (int)c->config.weight_bits,
                  "value_bits_needed", (int)value, "inner_bits_needed", (int)inner, "least_square",
                  c->r.least_square, "most_square", c->r.most_square, "refused",
                  c->refused[0] != '\0' ? c->refused : NULL, "ranges", all);
    const bool ran = c->refused[0] == '\0';
    const real_pass p = pass_of(c);
    size_t rows, cols;
    real_output(&p, &rows, &cols);
    json_object_set_new(o, "rows", json_integer((json_int_t)rows));
    json_object_set_new(o, "cols", json_integer((json_int_t)cols));
    json_object_set_new(o, "error", ran ? json_real(c->twin.most) : json_null());
    json_object_set_new(o, "error_rms", ran ? json_real(root_mean_square(&c->twin)) : json_null());
    json_object_set_new(o, "expected_error",
                        c->in.expected != NULL ? json_real(c->given.most) : json_null());
    return o;
}

static int run(check *c, report_json *json) {
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    struct stat st;
    const bool is_file = stat(c->o->word[1], &st) == 0 && !S_ISDIR(st.st_mode);
    if (is_file && c->o->input != NULL)
        return report_error(EXIT_BAD_INPUT,
                            "--input is of a checkpoint's directory: %s has no "
                            "embeddings",
                            c->o->word[1]);
    int status = is_file ? open_container(c, &m) : open_checkpoint(c, c->o->tokens, &m);
    if (status == EXIT_DONE)
        status = run_real(c);
    if (status == EXIT_DONE && c->refused[0] == '\0')
        status = run_twin(c);
    if (status != EXIT_DONE)
        return status;
    show(c, report_stream(c->o->json));
    if (c->o->json != NULL)
        status = report_json_put(json, to_json(c));
    if (status == EXIT_DONE && c->refused[0] != '\0')
        status = report_error(EXIT_FAILED, "there is no fixed-point pass: %s", c->refused);
    return status;
}

int model_check(const model_options *o) {
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    check c = {.o = o};
    const int status = run(&c, json);
    free(c.weights);
    free(c.fixed);
    free(c.y);
    input_free(&c.in);
    ranges_free(&c.r);
    report_json_close(json);
    return status;
}
