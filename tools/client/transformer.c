/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.c - a client of a transformer: its sequences become rows of values, here, and what
 * the parties' shares of the answer come to is shown as `uvcc infer` shows it. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../report.h"
#include "client.h"

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- what is asked ---- */

/* Public tables, from which the client takes the rows of its tokens. */
static int open_model(client_config *c) {
    char path[PARTY_PATH_BYTES];
    if (c->model == NULL)
        return EXIT_DONE;
    if (c->run->run.pass.takes != TAKES_HIDDEN)
        return report_error(EXIT_BAD_INPUT,
                            "%s: model does nothing with run.takes \"%s\": the embeddings are "
                            "the parties'; leave it out",
                            c->parties.file, pass_takes[c->run->run.pass.takes]);
    if (!config_path(&c->parties, c->model, path))
        return report_error(EXIT_BAD_INPUT, "%s: model: the path is too long", c->parties.file);
    c->run->model = strdup(path);
    return c->run->model != NULL ? pass_read_model(c->run) : no_memory();
}

/* A party looks at its own input; nobody sees a client's. */
static int check_values(const pass *v) {
    const model_input *in = &v->f.p.in;
    const size_t n = (size_t)in->sequences * in->tokens * v->f.p.shape.width;
    const int64_t limit = (int64_t)1 << (v->run.pass.value_bits + v->run.pass.frac_bits);
    for (size_t i = 0; v->run.pass.takes == TAKES_HIDDEN && i < n; i++)
        if (v->f.x[i] <= -limit || v->f.x[i] >= limit)
            return report_error(EXIT_BAD_INPUT,
                                "sequence %zu, token %zu: the row has a value of %u or more, which "
                                "run.value_bits does not hold; ask the parties for more",
                                i / v->f.p.shape.width / in->tokens + 1,
                                i / v->f.p.shape.width % in->tokens + 1,
                                1u << v->run.pass.value_bits);
    return EXIT_DONE;
}

int client_pass_read(client_config *c, const client_asks *a) {
    pass *v = c->run;
    if (v->run.pass.takes == TAKES_HIDDEN && c->model == NULL && a->input == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: the parties take rows of hidden states: give \"model\", the "
                            "directory of the checkpoint with the embeddings, or --input FILE with "
                            "inputs_embeds",
                            c->parties.file);
    v->o.input = a->input;
    v->o.text = a->text;
    v->o.ids = a->ids;
    v->o.output = a->output;
    int status = open_model(c);
    if (status == EXIT_DONE)
        status = pass_read_input(v, a->input != NULL  ? "--input"
                                    : a->text != NULL ? "--text"
                                                      : "--ids");
    return status == EXIT_DONE ? check_values(v) : status;
}

/* Rows of what goes in as shares, each with whether it is padding behind it. */
static int64_t *rows_of(const client_config *c, size_t *count) {
    const pass *v = c->run;
    const model_input *in = &v->f.p.in;
    const size_t rows = (size_t)in->sequences * in->tokens, all = c->form.in_cols;
    const size_t cols = all - (v->run.pass.padding ? 1 : 0);
    int64_t *values = malloc((rows * all + 1) * sizeof *values); /* there may be none */
    for (size_t r = 0; values != NULL && r < rows; r++) {
        memcpy(values + r * all, v->f.x + r * cols, cols * sizeof *values);
        if (v->run.pass.padding)
            values[r * all + cols] = in->padding[r];
    }
    *count = rows * all;
    return values;
}

/* ---- what is answered ---- */

static int show(const pass *v, atomic_file *out) {
    if (strcmp(v->o.output, "-") != 0)
        return infer_write(&v->f, out);
    infer_show_rows(&v->f, atomic_file_stream(out));
    return atomic_file_finish(out);
}

static int ask_all(client *of, const client_config *c, const int64_t *values, int64_t *opened) {
    const serving_form *f = &c->form;
    const uint32_t sequences = c->run->f.p.in.sequences;
    int status = EXIT_DONE;
    for (uint32_t at = 0; at < sequences && status == EXIT_DONE; at += f->units) {
        const uint32_t n = sequences - at < f->units ? sequences - at : f->units;
        const int64_t *numbers = c->run->f.x + (size_t)at * f->in_rows * f->key_cols;
        status = client_ask(of, values + (size_t)at * f->in_rows * f->in_cols,
                            f->key_cols != 0 ? numbers : NULL, n,
                            opened + (size_t)at * f->out_rows * f->out_cols);
    }
    return status;
}

int client_pass_ask(client *of, client_config *c, atomic_file *out) {
    const serving_form *f = &c->form;
    const size_t answers = (size_t)c->run->f.p.in.sequences * f->out_rows * f->out_cols;
    size_t count = 0;
    int64_t *values = rows_of(c, &count), *opened = malloc(answers * sizeof *opened);
    int status = values != NULL && opened != NULL ? EXIT_DONE : no_memory();
    if (status == EXIT_DONE)
        status = ask_all(of, c, values, opened);
    if (status == EXIT_DONE)
        status = infer_take_answer(&c->run->f, opened);
    if (status == EXIT_DONE)
        status = show(c->run, out);
    if (values != NULL)
        sodium_memzero(values, count * sizeof *values);
    if (opened != NULL)
        sodium_memzero(opened, answers * sizeof *opened);
    free(values);
    free(opened);
    return status;
}
