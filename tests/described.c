/* SPDX-License-Identifier: Apache-2.0 */
/* described.c - see described.h. */
#include "described.h"

#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct real {
    const described *v;
    size_t rows;
    uint32_t layer;
    char scope[16];
} real;

static double *room(size_t n) {
    double *p = calloc(n, sizeof *p);
    assert_non_null(p);
    return p;
}

/* Values of a weight, or NULL. */
static const double *weight(const real *r, const char *name, uvcc_model_weight *w) {
    char full[32];
    const double *at = r->v->weights;
    snprintf(full, sizeof full, "%s%s", r->scope, name);
    for (uint32_t i = 0; uvcc_model_weight_at(r->v->c, i, w) == 0; i++) {
        if (strcmp(w->name, full) == 0)
            return at;
        at += (size_t)w->rows * w->cols;
    }
    return NULL;
}

/* x W + B; x is freed if `last`. */
static double *linear(const real *r, double *x, const char *name, const char *bias, bool last) {
    uvcc_model_weight w, b;
    const double *m = weight(r, name, &w), *add = weight(r, bias, &b);
    double *z = room(r->rows * w.cols);
    assert_non_null(m);
    for (size_t i = 0; i < r->rows; i++)
        for (size_t j = 0; j < w.cols; j++) {
            double sum = add != NULL ? add[j] : 0;
            for (size_t k = 0; k < w.rows; k++)
                sum += x[i * w.rows + k] * m[k * w.cols + j];
            z[i * w.cols + j] = sum;
        }
    if (last)
        free(x);
    return z;
}

static double *norm(const real *r, const double *x, const char *gain, const char *shift) {
    const uvcc_model_config *c = r->v->c;
    uvcc_model_weight w;
    const double *g = weight(r, gain, &w), *s = weight(r, shift, &w);
    double *z = room(r->rows * c->width);
    for (size_t i = 0; i < r->rows; i++) {
        const double *row = x + i * c->width;
        double mean = 0, square = 0;
        for (size_t j = 0; j < c->width && c->norm == UVCC_MODEL_LAYER_NORM; j++)
            mean += row[j] / c->width;
        for (size_t j = 0; j < c->width; j++)
            square += (row[j] - mean) * (row[j] - mean) / c->width;
        for (size_t j = 0; j < c->width; j++)
            z[i * c->width + j] =
                (row[j] - mean) / sqrt(square + c->epsilon) * (g != NULL ? g[j] : 1) +
                (s != NULL ? s[j] : 0);
    }
    return z;
}

static double activate(uint8_t what, double x) {
    switch (what) {
    case UVCC_NL_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case UVCC_NL_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2;
    case UVCC_NL_SILU:
        return x / (1 + exp(-x));
    default:
        return x > 0 ? x : 0;
    }
}

/* In layer `layer`. */
static bool sees(const real *r, size_t s, size_t i, size_t j) {
    const uvcc_model_config *c = r->v->c;
    const unsigned period = c->window_period != 0 ? c->window_period : 1;
    const bool local = c->mask == UVCC_MODEL_MASK_WINDOW &&
                       (c->window_layers == 0 || (c->window_layers >> r->layer % period & 1) != 0);
    return !(c->mask != UVCC_MODEL_MASK_NONE && j > i) && !(local && j + c->window <= i) &&
           !(c->padding && r->v->pad[s * c->tokens + j] != 0);
}

/* Llama's rotary positions. */
static void rotate_heads(const real *r, double *x, size_t heads, size_t size) {
    const uvcc_model_config *c = r->v->c;
    for (size_t i = 0; i < r->rows && c->positions == UVCC_MODEL_POSITIONS_ROTARY; i++)
        for (size_t h = 0; h < heads; h++)
            for (size_t j = 0; j < size / 2; j++) {
                const double theta = c->rope_theta != 0 ? c->rope_theta : 10000;
                const double angle =
                    (double)(i % c->tokens) * pow(theta, -2 * (double)j / (double)size);
                double *a = x + (i * heads + h) * size + j, *b = a + size / 2, old = *a;
                *a = old * cos(angle) - *b * sin(angle);
                *b = *b * cos(angle) + old * sin(angle);
            }
}

/* One head of one sequence: rows of q, k, v begin at these, o at out. */
static void head(const real *r, size_t s, const double *q, const double *k, const double *v,
                 size_t wide, size_t narrow, double *out) {
    const uvcc_model_config *c = r->v->c;
    const size_t size = c->head_size != 0 ? c->head_size : c->width / c->heads;
    for (size_t i = 0; i < c->tokens; i++) {
        double p[64], sum = 0;
        for (size_t j = 0; j < c->tokens; j++) {
            double score = 0;
            for (size_t e = 0; e < size; e++)
                score +=
                    q[i * wide + e] * k[j * narrow + e] / (c->unscaled ? 1 : sqrt((double)size));
            p[j] = sees(r, s, i, j) ? exp(score) : 0;
            sum += p[j];
        }
        for (size_t e = 0; e < size; e++)
            for (size_t j = 0; j < c->tokens; j++)
                out[i * wide + e] += p[j] / sum * v[j * narrow + e];
    }
}

/* x + attention(z); z is freed. */
static double *attention(const real *r, const double *x, double *z) {
    const uvcc_model_config *c = r->v->c;
    const size_t size = c->head_size != 0 ? c->head_size : c->width / c->heads;
    const size_t groups = c->kv_heads != 0 ? c->heads / c->kv_heads : 1;
    const size_t wide = c->heads * size, narrow = wide / groups;
    double *q = linear(r, z, "WQ", "BQ", false), *k = linear(r, z, "WK", "BK", false);
    double *v = linear(r, z, "WV", "BV", true), *o = room(r->rows * wide);
    rotate_heads(r, q, wide / size, size);
    rotate_heads(r, k, narrow / size, size);
    for (size_t s = 0; s < c->sequences; s++)
        for (size_t h = 0; h < c->heads; h++) {
            const size_t row = s * c->tokens, at = h / groups * size;
            head(r, s, q + row * wide + h * size, k + row * narrow + at, v + row * narrow + at,
                 wide, narrow, o + row * wide + h * size);
        }
    free(q);
    free(k);
    free(v);
    double *y = linear(r, o, "WO", "BO", true);
    for (size_t i = 0; i < r->rows * c->width; i++)
        y[i] += x[i];
    return y;
}

/* x + ff(z); z is freed. */
static double *feed_forward(const real *r, const double *x, double *z) {
    const uvcc_model_config *c = r->v->c;
    double *up = c->ff == UVCC_MODEL_FF_GATED ? linear(r, z, "WU", "none", false) : NULL;
    double *h = linear(r, z, "W1", "B1", true);
    for (size_t i = 0; i < r->rows * c->ff_width; i++)
        h[i] = activate(c->activation, h[i]) * (up != NULL ? up[i] : 1);
    free(up);
    double *y = linear(r, h, "W2", "B2", true);
    for (size_t i = 0; i < r->rows * c->width; i++)
        y[i] += x[i];
    return y;
}

static double *real_layer(const real *r, double *x) {
    const bool post = r->v->c->order == UVCC_MODEL_POST_NORM;
    double *copy = room(r->rows * r->v->c->width);
    memcpy(copy, x, r->rows * r->v->c->width * sizeof *x);
    double *before = post ? copy : norm(r, x, "G1", "C1");
    if (!post)
        free(copy);
    double *y = attention(r, x, before);
    free(x);
    if (!post) {
        double *z = feed_forward(r, y, norm(r, y, "G2", "C2"));
        free(y);
        return z;
    }
    double *first = norm(r, y, "G1", "C1");
    memcpy(y, first, r->rows * r->v->c->width * sizeof *y);
    double *sum = feed_forward(r, y, first), *z = norm(r, sum, "G2", "C2");
    free(y);
    free(sum);
    return z;
}

/* Rows of hidden states: what came, or the table's. */
static double *real_input(const real *r) {
    const uvcc_model_config *c = r->v->c;
    const size_t words = c->vocabulary + c->segments, width = c->width;
    uvcc_model_weight w;
    double *x = room(r->rows * width);
    const double *p = weight(r, "P", &w), *e = weight(r, "E", &w);
    for (size_t i = 0; i < r->rows; i++)
        for (size_t j = 0; j < width; j++) {
            double sum = p != NULL ? p[i % c->tokens * width + j] : 0;
            if (c->input == UVCC_MODEL_INPUT_HIDDEN)
                sum += ldexp((double)r->v->x[i * width + j], -c->frac_bits);
            for (size_t k = 0; k < words && c->input == UVCC_MODEL_INPUT_ONE_HOT; k++)
                sum += r->v->x[i * words + k] != 0 ? e[k * width + j] : 0;
            if (c->input == UVCC_MODEL_INPUT_TOKENS) {
                const size_t ids = c->segments != 0 ? 2 : 1;
                sum += e[(size_t)r->v->x[i * ids] * width + j];
                if (ids == 2)
                    sum += e[((size_t)r->v->x[i * ids + 1] + c->vocabulary) * width + j];
            }
            x[i * width + j] = sum;
        }
    return x;
}

/* One row for each sequence; x is freed. */
static double *real_pool(real *r, double *x) {
    const uvcc_model_config *c = r->v->c;
    const size_t width = c->width;
    double *z = room(c->sequences * width);
    for (size_t s = 0; s < c->sequences; s++)
        for (size_t j = 0; j < width; j++) {
            double sum = 0, count = 0;
            for (size_t t = 0; t < c->tokens; t++) {
                const bool none = c->padding && r->v->pad[s * c->tokens + t] != 0;
                const bool counts = c->logits_last                    ? t + 1 == c->tokens
                                    : c->pool != UVCC_MODEL_POOL_MEAN ? t == 0
                                                                      : !none;
                sum += counts ? x[(s * c->tokens + t) * width + j] : 0;
                count += counts;
            }
            z[s * width + j] = sum / count;
        }
    free(x);
    r->rows = c->sequences;
    if (c->pool == UVCC_MODEL_POOL_TANH) {
        z = linear(r, z, "WP", "BP", true);
        for (size_t i = 0; i < r->rows * width; i++)
            z[i] = tanh(z[i]);
    }
    return z;
}

static double *real_head(real *r, double *x) {
    const uvcc_model_config *c = r->v->c;
    uvcc_model_weight w;
    const double *e = weight(r, "E", &w);
    if (c->logits_last || c->pool != UVCC_MODEL_POOL_NONE)
        x = real_pool(r, x);
    if (c->head == UVCC_MODEL_HEAD_OWN)
        return linear(r, x, "WL", "none", true);
    if (c->labels != 0)
        return linear(r, x, "WC", "BC", true);
    if (c->head == UVCC_MODEL_HEAD_NONE)
        return x;
    double *z = room(r->rows * c->vocabulary);
    for (size_t i = 0; i < r->rows; i++)
        for (size_t k = 0; k < c->vocabulary; k++)
            for (size_t j = 0; j < c->width; j++)
                z[i * c->vocabulary + k] += x[i * c->width + j] * e[k * c->width + j];
    free(x);
    return z;
}

static double *normed(const real *r, double *x, const char *gain, const char *shift) {
    double *z = norm(r, x, gain, shift);
    free(x);
    return z;
}

double *described_forward(const described *v) {
    const uvcc_model_config *c = v->c;
    real r = {.v = v, .rows = (size_t)c->sequences * c->tokens};
    double *x = real_input(&r);
    if (c->embedding_norm)
        x = normed(&r, x, "GE", "CE");
    for (uint32_t l = 0; l < c->layers; l++) {
        snprintf(r.scope, sizeof r.scope, "L%u.", l);
        r.layer = l;
        x = real_layer(&r, x);
    }
    r.scope[0] = 0;
    if (c->last_norm)
        x = normed(&r, x, "GF", "CF");
    return real_head(&r, x);
}
