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
#include "model.h"
#include "plain.h"

typedef struct check {
    const model_options *o;
    plain_pass p;
    const char *kind;
    distance given, twin; /* from what the input's file has; of the twin */
} check;

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- what is checked ---- */

/* A checkpoint: the pass is as long as its input. */
static int open_checkpoint(check *c, const flag_message *m) {
    loaded l;
    int status = model_load(&l, c->o);
    if (status != EXIT_DONE)
        return status;
    status = model_spares(&l.from, &(output_use){"json", c->o->json}, 1);
    if (status != EXIT_DONE) {
        model_unload(&l);
        return status;
    }
    int rc = 0;
    if (c->o->input == NULL)
        rc = input_draw(&c->p.in, &l.w, l.pass.sequences, l.pass.tokens, c->o->seed, m);
    else
        rc = input_read(&c->p.in, c->o->input, &l.w, c->o->pass.tokens, m);
    if (rc == 0)
        rc = model_settle(&l, &c->p, m);
    if (rc == 0)
        rc = plain_weights(&c->p, &l.w, true, m);
    c->kind = description_family(&l.d);
    model_unload(&l);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_BAD_INPUT, "%s", m->text);
}

/* What a file says that convert wrote. It has no embeddings. */
static void describe_container(check *c) {
    const uvcc_model_config *f = &c->p.config;
    c->p.d =
        (model_description){.layers = f->layers,
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
        c->p.d.local[l] = local >> l % period & 1;
}

static int open_container(check *c, const flag_message *m) {
    container from;
    if (container_open(&from, c->o->word[1], m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    c->p.config = from.config;
    c->p.config.mode = (uint8_t)c->o->pass.mode;
    c->p.config.padding = 0;
    c->p.shape = c->p.config;
    c->kind = "of fixed-point weights";
    describe_container(c);
    c->p.weights = malloc(from.parameters * sizeof *c->p.weights);
    c->p.fixed = malloc(from.parameters * sizeof *c->p.fixed);
    int status = c->p.weights == NULL || c->p.fixed == NULL ? no_memory() : EXIT_DONE;
    if (status == EXIT_DONE)
        container_weights(&from, c->p.fixed);
    for (uint64_t i = 0; status == EXIT_DONE && i < from.parameters; i++)
        c->p.weights[i] = fixed_real(c->p.fixed[i], c->p.config.frac_bits);
    container_close(&from);
    if (status != EXIT_DONE)
        return status;
    const int rc = plain_takes_tokens(&c->p)
                       ? input_draw_tokens(&c->p.in, c->p.config.vocabulary, c->p.config.sequences,
                                           c->p.config.tokens, c->o->seed, m)
                       : input_draw_rows(&c->p.in, c->p.config.width, c->p.config.sequences,
                                         c->p.config.tokens, c->o->seed, m);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_BAD_INPUT, "%s", m->text);
}

/* ---- passes ---- */

static int run_real(check *c) {
    const int status = plain_real(&c->p);
    if (status == EXIT_DONE && c->p.in.expected != NULL)
        c->given = plain_distance(&c->p, c->p.y, c->p.in.expected);
    return status;
}

static int run_twin(check *c) {
    double *real;
    const int status = plain_twin(&c->p, &real);
    if (status == EXIT_DONE && c->p.refused[0] == '\0')
        c->twin = plain_distance(&c->p, real, c->p.y);
    free(real);
    return status;
}

/* ---- results ---- */

static void show_need(const check *c, bool inner, FILE *to) {
    const range *who;
    const unsigned bits = plain_bits(&c->p, inner, &who),
                   have = inner ? plain_inner_bits(&c->p) : plain_value_bits(&c->p);
    if (who != NULL)
        (void)fprintf(to, "%s %u: %s reaches %.4g (here %u%s)\n",
                      inner ? "inner_bits" : "value_bits", bits, who->name, who->most, have,
                      bits > have ? ", too few" : "");
}

static void show_twin(const check *c, FILE *to) {
    (void)fprintf(to, "Fixed point, frac_bits %u", c->p.config.frac_bits);
    description_show_index(&c->p.config, to);
    (void)fprintf(to, ", is off double precision by %.3g (rms %.3g)\n", c->twin.most,
                  plain_rms(&c->twin));
}

static void show(const check *c, FILE *to) {
    (void)fprintf(to, "Model %s, %u x %u tokens, %s\n", c->kind, c->p.in.sequences, c->p.in.tokens,
                  c->o->input != NULL ? c->o->input : "drawn by the seed");
    for (size_t i = 0; i < c->p.r.count; i++)
        (void)fprintf(to, "%-12s %12.6f%s\n", c->p.r.at[i].name, c->p.r.at[i].most,
                      c->p.r.at[i].inner ? "  (inner)" : "");
    show_need(c, false, to);
    show_need(c, true, to);
    (void)fprintf(to, "Norms divide by roots of %.3g to %.3g%s\n", c->p.r.least_square,
                  c->p.r.most_square,
                  c->p.r.least_square < 0x1p-9 || c->p.r.most_square > 0x1p12
                      ? ", and are exact from 2^-9 to 2^12 only"
                      : "");
    if (c->p.in.expected != NULL)
        (void)fprintf(to, "Double precision is off what --input has by %.3g (rms %.3g)\n",
                      c->given.most, plain_rms(&c->given));
    if (c->p.refused[0] == '\0')
        show_twin(c, to);
}

static json_t *to_json(const check *c) {
    const range *who, *inner_who;
    const unsigned value = plain_bits(&c->p, false, &who),
                   inner = plain_bits(&c->p, true, &inner_who);
    json_t *all = json_array();
    for (size_t i = 0; i < c->p.r.count; i++)
        json_array_append_new(all, json_pack("{s:s, s:f, s:b}", "name", c->p.r.at[i].name, "most",
                                             c->p.r.at[i].most, "inner", c->p.r.at[i].inner));
    json_t *o = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:i, s:i, s:f, s:f, s:s?, s:o}", "kind", c->kind,
        "sequences", (int)c->p.in.sequences, "tokens", (int)c->p.in.tokens, "frac_bits",
        (int)c->p.config.frac_bits, "value_bits", (int)plain_value_bits(&c->p), "inner_bits",
        (int)plain_inner_bits(&c->p), "weight_bits", (int)c->p.config.weight_bits, "index_bits",
        description_index_json(&c->p.config), "value_bits_needed", (int)value, "inner_bits_needed",
        (int)inner, "least_square", c->p.r.least_square, "most_square", c->p.r.most_square,
        "refused", c->p.refused[0] != '\0' ? c->p.refused : NULL, "ranges", all);
    const bool ran = c->p.refused[0] == '\0';
    size_t rows, cols;
    plain_output(&c->p, &rows, &cols);
    json_object_set_new(o, "rows", json_integer((json_int_t)rows));
    json_object_set_new(o, "cols", json_integer((json_int_t)cols));
    json_object_set_new(o, "error", ran ? json_real(c->twin.most) : json_null());
    json_object_set_new(o, "error_rms", ran ? json_real(plain_rms(&c->twin)) : json_null());
    json_object_set_new(o, "expected_error",
                        c->p.in.expected != NULL ? json_real(c->given.most) : json_null());
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
    int status = is_file ? open_container(c, &m) : open_checkpoint(c, &m);
    if (status == EXIT_DONE)
        status = run_real(c);
    if (status == EXIT_DONE && c->p.refused[0] == '\0')
        status = run_twin(c);
    if (status != EXIT_DONE)
        return status;
    show(c, report_stream(c->o->json));
    if (c->o->json != NULL)
        status = report_json_put(json, to_json(c));
    if (status == EXIT_DONE && c->p.refused[0] != '\0')
        status = report_error(EXIT_FAILED, "there is no fixed-point pass: %s", c->p.refused);
    return status;
}

int model_check(const model_options *o) {
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    check c = {.o = o};
    const int status = run(&c, json);
    plain_free(&c.p);
    report_json_close(json);
    return status;
}
