/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - see input.h. */
#include "input.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../draw.h"
#include "real.h"

enum { TOKENS_MAX = 65536, ROWS_MAX = 1 << 24 };

static size_t rows_of(const model_input *in) {
    return (size_t)in->sequences * in->tokens;
}

void input_free(model_input *in) {
    free(in->ids);
    free(in->types);
    free(in->x);
    free(in->padding);
    free(in->expected);
    *in = (model_input){0};
}

static int begin(model_input *out, uint32_t sequences, uint32_t tokens, const flag_message *m) {
    *out = (model_input){.sequences = sequences, .tokens = tokens};
    if (sequences == 0 || tokens == 0 || sequences > TOKENS_MAX || tokens > TOKENS_MAX ||
        rows_of(out) > ROWS_MAX)
        return flag_fail(m, "an input of %u sequences of %u tokens is not possible", sequences,
                         tokens);
    return 0;
}

static int make_rows(model_input *in, uint32_t width, const flag_message *m) {
    in->x = calloc(rows_of(in) * width, sizeof *in->x);
    return in->x != NULL ? 0 : flag_fail(m, "out of memory");
}

/* ---- embeddings ---- */

/* x += row `id` of the table. */
static int add_row(const st_tensor *table, int64_t id, uint32_t width, double *row, double *x,
                   const char *what, const flag_message *m) {
    if (id < 0 || (uint64_t)id >= table->shape[0])
        return flag_fail(m, "%s %lld is not one of the model's %llu", what, (long long)id,
                         (unsigned long long)table->shape[0]);
    st_reals(table, (uint64_t)id * width, width, row);
    for (uint32_t j = 0; j < width; j++)
        x[j] += row[j];
    return 0;
}

/* Without a checkpoint nobody embeds, and tokens must be some all the same. */
static int check_ids(const model_input *in, const weights *w, const flag_message *m) {
    for (size_t i = 0; i < rows_of(in); i++) {
        const int64_t type = in->types != NULL ? in->types[i] : 0;
        if (in->ids[i] < 0 || in->ids[i] >= (int64_t)w->d->vocabulary)
            return flag_fail(m, "token %lld is not one of the model's %u", (long long)in->ids[i],
                             w->d->vocabulary);
        if (type != 0 && (type < 0 || type >= (int64_t)w->d->types))
            return flag_fail(m, "token type %lld is not one of the model's %u", (long long)type,
                             w->d->types);
    }
    return 0;
}

/* BERT's sum of three rows and its norm; the others add positions by a weight of their own. */
static int embed(model_input *in, const weights *w, const flag_message *m) {
    const uint32_t width = w->d->width;
    const bool whole = w->d->embedding_norm;
    if (w->from == NULL)
        return check_ids(in, w, m);
    double *row = malloc(3 * width * sizeof *row);
    int rc = row == NULL ? flag_fail(m, "out of memory") : make_rows(in, width, m);
    for (size_t i = 0; i < rows_of(in) && rc == 0; i++) {
        double *x = in->x + i * width;
        rc = add_row(w->embedding[EMBEDDING_TOKENS], in->ids[i], width, row, x, "token", m);
        if (rc == 0 && whole)
            rc = add_row(w->embedding[EMBEDDING_POSITIONS], (int64_t)(i % in->tokens), width, row,
                         x, "position", m);
        if (rc == 0 && whole)
            rc = add_row(w->embedding[EMBEDDING_TYPES], in->types != NULL ? in->types[i] : 0, width,
                         row, x, "token type", m);
    }
    if (rc == 0 && whole) {
        st_reals(w->embedding[EMBEDDING_GAIN], 0, width, row + width);
        st_reals(w->embedding[EMBEDDING_SHIFT], 0, width, row + 2 * width);
        real_norm(w->d, in->x, rows_of(in), row + width, row + 2 * width);
    }
    for (size_t i = 0; i < rows_of(in) * width && rc == 0; i++)
        if (!isfinite(in->x[i]))
            rc = flag_fail(m, "the embeddings have a value that is no number");
    free(row);
    return rc;
}

int input_draw_tokens(model_input *out, uint32_t vocabulary, uint32_t sequences, uint32_t tokens,
                      uint64_t seed, const flag_message *m) {
    int rc = begin(out, sequences, tokens, m);
    out->ids = rc == 0 ? malloc(rows_of(out) * sizeof *out->ids) : NULL;
    if (rc == 0 && out->ids == NULL)
        rc = flag_fail(m, "out of memory");
    for (size_t i = 0; rc == 0 && i < rows_of(out); i++)
        out->ids[i] = (int64_t)(draw(&seed) % vocabulary);
    return rc;
}

int input_make(model_input *out, const weights *w, uint32_t sequences, uint32_t tokens,
               int64_t *ids, int64_t *padding, const flag_message *m) {
    int rc = begin(out, sequences, tokens, m);
    out->ids = ids;
    out->padding = padding;
    if (rc == 0)
        rc = embed(out, w, m);
    if (rc != 0)
        input_free(out);
    return rc;
}

int input_draw(model_input *out, const weights *w, uint32_t sequences, uint32_t tokens,
               uint64_t seed, const flag_message *m) {
    int rc = input_draw_tokens(out, w->d->vocabulary, sequences, tokens, seed, m);
    if (rc == 0)
        rc = embed(out, w, m);
    if (rc != 0)
        input_free(out);
    return rc;
}

/* Sums of 12 numbers from 0 to 1 have variance 1 and are near a normal distribution. */
int input_draw_rows(model_input *out, uint32_t width, uint32_t sequences, uint32_t tokens,
                    uint64_t seed, const flag_message *m) {
    int rc = begin(out, sequences, tokens, m);
    if (rc == 0)
        rc = make_rows(out, width, m);
    for (size_t i = 0; rc == 0 && i < rows_of(out) * width; i++) {
        out->x[i] = -6;
        for (unsigned k = 0; k < 12; k++)
            out->x[i] += (double)(draw(&seed) >> 11) * 0x1p-53;
    }
    return rc;
}

/* ---- files ---- */

typedef struct given {
    const char *path;
    const st_file *f;
    uint64_t sequences, tokens; /* of the file */
    const flag_message *m;
} given;

/* A tensor of so many dimensions, the first of sequences and, with more than one, the next of
 * tokens; *t NULL: there is none. */
static int find(const given *g, const char *name, uint32_t rank, bool real, const st_tensor **t) {
    char shape[ST_SHAPE_BYTES];
    *t = st_find(g->f, name);
    if (*t == NULL)
        return 0;
    if (real ? !st_is_real(*t) : (*t)->dtype != ST_I64)
        return flag_fail(g->m, "%s: %s has dtype %s", g->path, name, st_dtype_name((*t)->dtype));
    const bool of_tokens = !real || rank == 3;
    if ((*t)->rank != rank || (*t)->shape[0] != g->sequences ||
        (of_tokens && (*t)->shape[1] != g->tokens))
        return flag_fail(g->m, "%s: %s is %s, which does not fit input_ids", g->path, name,
                         st_shape_text(*t, shape));
    return 0;
}

/* The first tokens of each sequence. */
static int64_t *integers(const given *g, const model_input *in, const st_tensor *t) {
    int64_t *v = malloc(rows_of(in) * sizeof *v);
    for (size_t i = 0; v != NULL && i < rows_of(in); i++)
        v[i] = st_integer(t, i / in->tokens * g->tokens + i % in->tokens);
    return v;
}

/* What the model gives, as the file has it; rows of tokens are the first of each sequence, or the
 * last of those. */
static int take_expected(const given *g, model_input *in, const weights *w) {
    const uvcc_model_config *c = &w->shape;
    const bool pooled = c->pool != UVCC_MODEL_POOL_NONE, logits = c->head != UVCC_MODEL_HEAD_NONE;
    const char *name = logits || c->labels != 0 ? "logits"
                       : pooled                 ? "pooler_output"
                                                : "last_hidden_state";
    const uint64_t cols = logits ? w->d->vocabulary : c->labels != 0 ? c->labels : w->d->width;
    const uint64_t of_file = pooled ? 1 : g->tokens,
                   rows = pooled || c->logits_last ? 1 : in->tokens;
    const uint64_t first = c->logits_last ? in->tokens - 1 : 0;
    const st_tensor *t;
    if (find(g, name, pooled ? 2 : 3, true, &t) != 0)
        return -1;
    if (t == NULL || (!w->d->causal && in->tokens != g->tokens))
        return 0;
    if (t->shape[t->rank - 1] != cols)
        return flag_fail(g->m, "%s: %s has %llu columns, the model %llu", g->path, name,
                         (unsigned long long)t->shape[t->rank - 1], (unsigned long long)cols);
    in->expected = malloc(in->sequences * rows * cols * sizeof *in->expected);
    if (in->expected == NULL)
        return flag_fail(g->m, "out of memory");
    for (uint64_t s = 0; s < in->sequences; s++)
        st_reals(t, (s * of_file + first) * cols, rows * cols, in->expected + s * rows * cols);
    for (uint64_t i = 0; i < in->sequences * rows * cols; i++)
        if (!isfinite(in->expected[i]))
            return flag_fail(g->m, "%s: %s has a value that is no number", g->path, name);
    return 0;
}

/* A sequence without a token has no mean, and nothing to learn from: what came of it would say
 * nothing. */
static int check_mask(const given *g, const model_input *in) {
    for (uint32_t s = 0; s < in->sequences; s++) {
        uint32_t t = 0;
        while (t < in->tokens && in->padding[(size_t)s * in->tokens + t] != 0)
            t++;
        if (t == in->tokens)
            return flag_fail(
                g->m, "%s: attention_mask: sequence %u is padding alone; take it out%s", g->path,
                s + 1, in->tokens < g->tokens ? ", or give more --tokens" : "");
    }
    return 0;
}

/* attention_mask has 1 for a token. */
static int take_mask(const given *g, model_input *in, const st_tensor *t) {
    bool any = false;
    in->padding = integers(g, in, t);
    if (in->padding == NULL)
        return flag_fail(g->m, "out of memory");
    for (size_t i = 0; i < rows_of(in); i++) {
        if (in->padding[i] != 0 && in->padding[i] != 1)
            return flag_fail(g->m, "%s: attention_mask has %lld; 0 and 1 are possible", g->path,
                             (long long)in->padding[i]);
        in->padding[i] = 1 - in->padding[i];
        any = any || in->padding[i] != 0;
    }
    if (any)
        return check_mask(g, in);
    free(in->padding);
    in->padding = NULL;
    return 0;
}

static int take_all(const given *g, model_input *out, const weights *w, uint32_t tokens) {
    const st_tensor *ids, *mask, *types;
    if (find(g, "input_ids", 2, false, &ids) != 0 ||
        find(g, "attention_mask", 2, false, &mask) != 0 ||
        find(g, "token_type_ids", 2, false, &types) != 0)
        return -1;
    if (types != NULL && w->d->types == 0)
        return flag_fail(g->m, "%s: token_type_ids: the model has no types of tokens", g->path);
    const uint64_t n = tokens != 0 && tokens < g->tokens ? tokens : g->tokens;
    int rc = begin(out, g->sequences > TOKENS_MAX ? 0 : (uint32_t)g->sequences,
                   n > TOKENS_MAX ? 0 : (uint32_t)n, g->m);
    if (rc == 0 && out->tokens > w->d->positions)
        rc = flag_fail(g->m, "%s: %u tokens are more than the model's %u positions", g->path,
                       out->tokens, w->d->positions);
    out->ids = rc == 0 ? integers(g, out, ids) : NULL;
    out->types = rc == 0 && types != NULL ? integers(g, out, types) : NULL;
    if (rc == 0 && (out->ids == NULL || (types != NULL && out->types == NULL)))
        rc = flag_fail(g->m, "out of memory");
    if (rc == 0 && mask != NULL)
        rc = take_mask(g, out, mask);
    if (rc == 0)
        rc = take_expected(g, out, w);
    return rc == 0 ? embed(out, w, g->m) : rc;
}

int input_read(model_input *out, const char *path, const weights *w, uint32_t tokens,
               const flag_message *m) {
    st_file f;
    *out = (model_input){0};
    if (st_open(&f, path, m) != 0)
        return -1;
    const st_tensor *ids = st_find(&f, "input_ids");
    int rc = 0;
    if (ids == NULL || ids->rank != 2) {
        rc = flag_fail(m, "%s: has no input_ids of sequences x tokens", path);
    } else {
        const given g = {path, &f, ids->shape[0], ids->shape[1], m};
        rc = take_all(&g, out, w, tokens);
    }
    st_close(&f);
    if (rc != 0)
        input_free(out);
    return rc;
}

static int take_rows(const given *g, model_input *out, const weights *w, const st_tensor *rows) {
    const st_tensor *mask;
    const uint64_t n = g->sequences * g->tokens * w->d->width;
    int rc = begin(out, g->sequences > TOKENS_MAX ? 0 : (uint32_t)g->sequences,
                   g->tokens > TOKENS_MAX ? 0 : (uint32_t)g->tokens, g->m);
    if (rc == 0)
        rc = find(g, "attention_mask", 2, false, &mask);
    if (rc == 0)
        rc = make_rows(out, w->d->width, g->m);
    if (rc == 0)
        st_reals(rows, 0, n, out->x);
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        if (!isfinite(out->x[i]))
            rc = flag_fail(g->m, "%s: inputs_embeds has a value that is no number", g->path);
    return rc == 0 && mask != NULL ? take_mask(g, out, mask) : rc;
}

int input_read_rows(model_input *out, const char *path, const weights *w, const flag_message *m) {
    st_file f;
    *out = (model_input){0};
    if (st_open(&f, path, m) != 0)
        return -1;
    const st_tensor *rows = st_find(&f, "inputs_embeds");
    int rc = 0;
    if (rows == NULL || rows->rank != 3 || !st_is_real(rows) || rows->shape[2] != w->d->width) {
        rc = flag_fail(m, "%s: has no inputs_embeds of sequences x tokens x %u real numbers", path,
                       w->d->width);
    } else {
        const given g = {path, &f, rows->shape[0], rows->shape[1], m};
        rc = take_rows(&g, out, w, rows);
    }
    st_close(&f);
    if (rc != 0)
        input_free(out);
    return rc;
}
