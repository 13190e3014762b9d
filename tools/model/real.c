/* SPDX-License-Identifier: Apache-2.0 */
/* real.c - see real.h. */
#include "real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct run {
    const real_pass *p;
    const model_description *d;
    size_t rows, wide, narrow; /* columns of Q and of K */
    uint32_t layer;            /* or UVCC_MODEL_NO_LAYER */
    ranges *r;
    bool failed;
    double *n, *q, *k, *v, *o, *h, *up, *y, *score;
} run;

/* ---- ranges ---- */

void ranges_free(ranges *r) {
    free(r->at);
    *r = (ranges){0};
}

unsigned ranges_bits(const ranges *r, bool inner, const range **who) {
    int bits = 1;
    *who = NULL;
    for (size_t i = 0; i < r->count; i++) {
        int need;
        (void)frexp(r->at[i].most, &need); /* most < 2^need */
        if (r->at[i].inner == inner && (need > bits || *who == NULL)) {
            bits = need > bits ? need : bits;
            *who = &r->at[i];
        }
    }
    return (unsigned)bits;
}

/* The range of this name, in this layer; a new one at first. */
static range *range_of(run *u, const char *name, bool inner) {
    char full[sizeof u->r->at->name];
    ranges *r = u->r;
    if (u->layer != UVCC_MODEL_NO_LAYER)
        (void)snprintf(full, sizeof full, "L%u.%s", u->layer, name);
    else
        (void)snprintf(full, sizeof full, "%s", name);
    for (size_t i = r->count; i-- > 0;)
        if (strcmp(r->at[i].name, full) == 0)
            return &r->at[i];
    if (r->count == r->room) {
        const size_t room = r->room != 0 ? 2 * r->room : 64;
        range *more = realloc(r->at, room * sizeof *more);
        if (more == NULL)
            return NULL;
        r->at = more;
        r->room = room;
    }
    range *at = &r->at[r->count++];
    *at = (range){.inner = inner};
    memcpy(at->name, full, sizeof full);
    return at;
}

static void note(run *u, const char *name, bool inner, const double *v, size_t count) {
    range *at = range_of(u, name, inner);
    if (at == NULL)
        u->failed = true;
    for (size_t i = 0; i < count && at != NULL; i++) /* what is no number is beyond all, too */
        at->most = isfinite(v[i]) ? fmax(at->most, fabs(v[i])) : (double)INFINITY;
}

static void note_values(run *u, const char *name, const double *v, size_t count) {
    note(u, name, false, v, count);
}

/* ---- weights ---- */

/* Of this layer; NULL: the model has none. */
static const double *weight(const run *u, const char *name, uvcc_model_weight *w) {
    char full[sizeof w->name];
    const double *at = u->p->weights;
    if (u->layer != UVCC_MODEL_NO_LAYER)
        (void)snprintf(full, sizeof full, "L%u.%s", u->layer, name);
    else
        (void)snprintf(full, sizeof full, "%s", name);
    for (uint32_t i = 0; uvcc_model_weight_at(u->p->shape, i, w) == 0; i++) {
        if (strcmp(w->name, full) == 0)
            return at;
        at += (size_t)w->rows * w->cols;
    }
    return NULL;
}

/* z = x W + B. */
static void linear(run *u, const double *x, const char *name, const char *bias, double *z) {
    uvcc_model_weight w, b;
    const double *m = weight(u, name, &w), *add = weight(u, bias, &b);
    if (m == NULL) {
        u->failed = true;
        return;
    }
    for (size_t i = 0; i < u->rows; i++) {
        double *out = z + i * w.cols;
        for (size_t j = 0; j < w.cols; j++)
            out[j] = add != NULL ? add[j] : 0;
        for (size_t k = 0; k < w.rows; k++)
            for (size_t j = 0; j < w.cols; j++)
                out[j] += x[i * w.rows + k] * m[k * w.cols + j];
    }
}

/* ---- norms ---- */

/* The mean square that the row is divided by the root of. gain NULL: ones. */
static double norm_row(const model_description *d, const double *x, const double *gain,
                       const double *shift, double *z) {
    const size_t n = d->width;
    double mean = 0, square = 0;
    for (size_t j = 0; j < n && d->norm == UVCC_MODEL_LAYER_NORM; j++)
        mean += x[j] / (double)n;
    for (size_t j = 0; j < n; j++)
        square += (x[j] - mean) * (x[j] - mean) / (double)n;
    square += d->epsilon;
    for (size_t j = 0; j < n; j++)
        z[j] = (x[j] - mean) / sqrt(square) * (gain != NULL ? gain[j] : 1) +
               (shift != NULL ? shift[j] : 0);
    return square;
}

void real_norm(const model_description *d, double *x, size_t rows, const double *gain,
               const double *shift) {
    for (size_t i = 0; i < rows; i++)
        (void)norm_row(d, x + i * d->width, gain, shift, x + i * d->width);
}

static void norm(run *u, const double *x, const char *gain, const char *shift, const char *name,
                 double *z) {
    uvcc_model_weight w;
    const double *g = weight(u, gain, &w), *s = weight(u, shift, &w);
    const bool plain = u->p->shape->plain_norms && u->layer != UVCC_MODEL_NO_LAYER;
    if (g == NULL && !plain) {
        u->failed = true;
        return;
    }
    for (size_t i = 0; i < u->rows; i++) {
        const double square = norm_row(u->d, x + i * u->d->width, g, s, z + i * u->d->width);
        u->r->least_square = fmin(u->r->least_square, square);
        u->r->most_square = fmax(u->r->most_square, square);
    }
    note_values(u, name, z, u->rows * u->d->width);
}

/* ---- attention ---- */

/* Turns the pairs (j, j + half) of every head by the token's place times theta^(-j / half). */
static void turn(const run *u, double *x, size_t cols) {
    const size_t size = u->d->head_size, half = size / 2;
    for (size_t i = 0; i < u->rows; i++)
        for (size_t at = 0; at < cols; at += size)
            for (size_t j = 0; j < half; j++) {
                const double angle =
                    (double)(i % u->p->tokens) * pow(u->d->theta, -2 * (double)j / (double)size);
                double *a = x + i * cols + at + j, *b = a + half;
                const double first = *a * cos(angle) - *b * sin(angle);
                *b = *b * cos(angle) + *a * sin(angle);
                *a = first;
            }
}

static bool sees(const run *u, size_t s, size_t i, size_t j) {
    if (u->p->padding != NULL && u->p->padding[s * u->p->tokens + j] != 0)
        return false;
    if (!u->d->causal)
        return true;
    return j <= i && (!description_is_local(u->d, u->layer, u->p->tokens) || i - j < u->d->window);
}

/* Query i of sequence s, head h. Scores that a mask takes away have their bits, too. */
static void attend_row(run *u, size_t s, size_t i, size_t h) {
    const size_t size = u->d->head_size, tokens = u->p->tokens, first = s * tokens;
    const size_t kept = h / (u->d->heads / u->d->kv_heads) * size;
    const double *q = u->q + (first + i) * u->wide + h * size;
    double *o = u->o + (first + i) * u->wide + h * size, most = -INFINITY, sum = 0;
    for (size_t j = 0; j < tokens; j++) {
        const double *k = u->k + (first + j) * u->narrow + kept;
        double score = 0;
        for (size_t e = 0; e < size; e++)
            score += q[e] * k[e];
        u->score[j] = u->d->unscaled ? score : score / sqrt((double)size);
        if (sees(u, s, i, j))
            most = fmax(most, u->score[j]);
    }
    note(u, "S", true, u->score, tokens);
    memset(o, 0, size * sizeof *o);
    for (size_t j = 0; j < tokens; j++) {
        u->score[j] = sees(u, s, i, j) ? exp(u->score[j] - most) : 0;
        sum += u->score[j];
    }
    for (size_t j = 0; j < tokens && sum > 0; j++)
        for (size_t e = 0; e < size; e++)
            o[e] += u->score[j] / sum * u->v[(first + j) * u->narrow + kept + e];
}

/* y = x + attention of z. */
static void attention(run *u, const double *x, const double *z, double *y) {
    const size_t values = u->rows * u->d->width;
    linear(u, z, "WQ", "BQ", u->q);
    linear(u, z, "WK", "BK", u->k);
    linear(u, z, "WV", "BV", u->v);
    note_values(u, "Q", u->q, u->rows * u->wide);
    note_values(u, "K", u->k, u->rows * u->narrow);
    note_values(u, "V", u->v, u->rows * u->narrow);
    if (u->d->rotary) {
        turn(u, u->q, u->wide);
        turn(u, u->k, u->narrow);
        note_values(u, "Q", u->q, u->rows * u->wide);
        note_values(u, "K", u->k, u->rows * u->narrow);
    }
    for (size_t s = 0; s < u->p->sequences; s++)
        for (size_t i = 0; i < u->p->tokens; i++)
            for (size_t h = 0; h < u->d->heads; h++)
                attend_row(u, s, i, h);
    note_values(u, "O", u->o, u->rows * u->wide);
    linear(u, u->o, "WO", "BO", u->h);
    note_values(u, "Y", u->h, values);
    for (size_t i = 0; i < values; i++)
        y[i] = x[i] + u->h[i];
    note_values(u, "Y", y, values);
}

/* ---- the rest of a layer ---- */

static double activate(uint8_t what, double x) {
    switch (what) {
    case UVCC_NL_GELU:
        return x * erfc(-x / sqrt(2)) / 2;
    case UVCC_NL_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2;
    case UVCC_NL_SILU:
        return x / (1 + exp(-x));
    default:
        return x > 0 ? x : 0;
    }
}

/* y = x + ff of z. */
static void feed_forward(run *u, const double *x, const double *z, double *y) {
    const size_t units = u->rows * u->d->ff_width, values = u->rows * u->d->width;
    linear(u, z, "W1", "B1", u->h);
    note(u, "H", true, u->h, units);
    for (size_t i = 0; i < units; i++)
        u->h[i] = activate(u->d->activation, u->h[i]);
    if (u->d->ff == UVCC_MODEL_FF_GATED) {
        linear(u, z, "WU", "none", u->up);
        note_values(u, "U", u->up, units);
        for (size_t i = 0; i < units; i++)
            u->h[i] *= u->up[i];
        note_values(u, "G", u->h, units);
    }
    linear(u, u->h, "W2", "B2", u->q);
    note_values(u, "Z", u->q, values);
    for (size_t i = 0; i < values; i++)
        y[i] = x[i] + u->q[i];
    note_values(u, "Z", y, values);
}

static void layer(run *u, double *x) {
    if (u->d->order == UVCC_MODEL_PRE_NORM) {
        norm(u, x, "G1", "C1", "Y1", u->n);
        attention(u, x, u->n, u->y);
        norm(u, u->y, "G2", "C2", "Y2", u->n);
        feed_forward(u, u->y, u->n, x);
        return;
    }
    attention(u, x, x, u->y);
    norm(u, u->y, "G1", "C1", "Y1", u->n);
    feed_forward(u, u->n, u->n, u->y);
    norm(u, u->y, "G2", "C2", "Y2", x);
}

/* Rows of E for tokens and, behind the vocabulary's, for their types. */
static void embed(run *u, double *y) {
    uvcc_model_weight w;
    const size_t width = u->d->width;
    const double *e = weight(u, "E", &w);
    if (e == NULL) {
        u->failed = true;
        return;
    }
    for (size_t i = 0; i < u->rows; i++) {
        const double *word = e + (size_t)u->p->ids[i] * width;
        const size_t type = u->p->types != NULL ? (size_t)u->p->types[i] : 0;
        const double *kind = e + (u->p->shape->vocabulary + type) * width;
        for (size_t j = 0; j < width; j++)
            y[i * width + j] = word[j] + (u->p->shape->segments != 0 ? kind[j] : 0);
    }
    note_values(u, "XE", y, u->rows * width);
}

/* y: rows of embeddings, unless the model has them itself; then hidden states. */
static void forward(run *u, double *y) {
    uvcc_model_weight w;
    const size_t width = u->d->width, values = u->rows * width;
    const double *p = weight(u, "P", &w);
    if (u->p->shape->input != UVCC_MODEL_INPUT_HIDDEN)
        embed(u, y);
    else
        note_values(u, "X", y, values);
    for (size_t i = 0; i < values && p != NULL; i++)
        y[i] += p[i % (u->p->tokens * width)];
    if (p != NULL)
        note_values(u, "XP", y, values);
    if (u->p->shape->embedding_norm)
        norm(u, y, "GE", "CE", "XN", y);
    for (uint32_t l = 0; l < u->d->layers && !u->failed; l++) {
        u->layer = l;
        layer(u, y);
    }
    u->layer = UVCC_MODEL_NO_LAYER;
    if (u->d->last_norm && !u->failed)
        norm(u, y, "GF", "CF", "YF", y);
}

/* ---- heads ---- */

void real_output(const real_pass *p, size_t *rows, size_t *cols) {
    const uvcc_model_config *c = p->shape;
    const bool one = c->pool != UVCC_MODEL_POOL_NONE || c->logits_last;
    *rows = one ? p->sequences : (size_t)p->sequences * p->tokens;
    *cols = c->head != UVCC_MODEL_HEAD_NONE ? c->vocabulary : c->labels != 0 ? c->labels : c->width;
}

/* z = x E^T. */
static void tied(run *u, const double *x, double *z) {
    uvcc_model_weight w;
    const double *e = weight(u, "E", &w);
    const size_t width = u->d->width, words = u->p->shape->vocabulary;
    if (e == NULL) {
        u->failed = true;
        return;
    }
    for (size_t i = 0; i < u->rows; i++)
        for (size_t j = 0; j < words; j++) {
            double sum = 0;
            for (size_t k = 0; k < width; k++)
                sum += x[i * width + k] * e[j * width + k];
            z[i * words + j] = sum;
        }
}

/* Of hidden states x, of which one row for each sequence moves to the front where one is read. */
static void head(run *u, double *x, double *y) {
    const uvcc_model_config *c = u->p->shape;
    const size_t width = u->d->width, at = c->logits_last ? u->p->tokens - 1 : 0;
    size_t rows, cols;
    real_output(u->p, &rows, &cols);
    for (size_t s = 0; s < u->p->sequences && rows != u->rows; s++)
        memmove(x + s * width, x + (s * u->p->tokens + at) * width, width * sizeof *x);
    u->rows = rows;
    if (c->pool == UVCC_MODEL_POOL_TANH) {
        linear(u, x, "WP", "BP", u->n);
        note_values(u, "POOL", u->n, rows * width);
        for (size_t i = 0; i < rows * width; i++)
            x[i] = tanh(u->n[i]);
    }
    if (c->head == UVCC_MODEL_HEAD_TIED)
        tied(u, x, y);
    else if (c->head == UVCC_MODEL_HEAD_OWN)
        linear(u, x, "WL", "none", y);
    else if (c->labels != 0)
        linear(u, x, "WC", "BC", y);
    else
        memcpy(y, x, rows * cols * sizeof *y);
    if (c->head != UVCC_MODEL_HEAD_NONE || c->labels != 0)
        note_values(u, c->labels != 0 ? "LABELS" : "L", y, rows * cols);
}

int real_forward(const real_pass *p, const double *x, double *y, ranges *r) {
    run u = {.p = p,
             .d = p->d,
             .rows = (size_t)p->sequences * p->tokens,
             .layer = UVCC_MODEL_NO_LAYER,
             .r = r};
    u.wide = (size_t)p->d->heads * p->d->head_size;
    u.narrow = (size_t)p->d->kv_heads * p->d->head_size;
    const size_t width = p->d->width, units = p->d->ff_width;
    const size_t most = u.wide > width ? u.wide : width, unit = units > width ? units : width;
    *r = (ranges){.least_square = INFINITY};
    /* hidden states, n, y, q (also what W2 gives), o, k, v, h (also what WO gives), up; a row of
     * scores */
    double *room = malloc((u.rows * (3 * width + 2 * most + 2 * u.narrow + 2 * unit) + p->tokens) *
                          sizeof *room);
    if (room == NULL)
        return -1;
    u.n = room + u.rows * width;
    u.y = u.n + u.rows * width;
    u.q = u.y + u.rows * width;
    u.o = u.q + u.rows * most;
    u.k = u.o + u.rows * most;
    u.v = u.k + u.rows * u.narrow;
    u.h = u.v + u.rows * u.narrow;
    u.up = u.h + u.rows * unit;
    u.score = u.up + u.rows * unit;
    if (x != NULL)
        memcpy(room, x, u.rows * width * sizeof *room);
    forward(&u, room);
    if (!u.failed)
        head(&u, room, y);
    free(room);
    return u.failed ? -1 : 0;
}
