/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - forward, backward and optimizer, one sequence of functions per token matrix. Built with
 * REAL float and double. */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JOIN2(a, b) a##_##b
#define JOIN(a, b)  JOIN2(a, b)
#define FN(name)    JOIN(REAL, name)
typedef REAL real;
typedef struct FN(model) model;

static const double norm_epsilon = 0x1p-9, default_epsilon = 0x1p-14;

/* A weight: its place in the arrays, or NULL if the model has none. */
typedef struct matrix {
    real *w, *g;
    uint32_t rows, cols;
    bool decays;
} matrix;

typedef struct layer {
    matrix g1, c1, wq, bq, wk, bk, wv, bv, wo, bo, g2, c2, w1, b1, wu, w2, b2;
    /* of the last forward pass */
    real *n1, *i1, *x1, *q, *k, *v, *p, *o, *n2, *i2, *x2, *h, *act, *slope, *up, *g;
} layer;

struct FN(model) {
    uvcc_transformer_config c;
    uint32_t hidden, rows; /* rows: tokens of the pass */
    bool layer_norm, gated;
    uint64_t count;
    real *w, *g, *m, *v;
    matrix e, p, gf, cf, wl;
    layer *layers;
    real *x, *nf, *inf, *xf, *logits;
    void **owned;
    uint32_t owned_count;
};

/* ---- memory ---- */

static real *take(model *m, size_t n) {
    real *mem = calloc(n, sizeof *mem);
    if (mem == NULL)
        abort();
    m->owned[m->owned_count++] = mem;
    return mem;
}

static matrix find(const model *m, const char *scope, const char *name) {
    char full[40];
    uvcc_transformer_weight w;
    uint64_t at = 0;
    snprintf(full, sizeof full, "%s%s", scope, name);
    for (uint32_t i = 0; uvcc_transformer_weight_at(&m->c, i, &w) == 0; i++) {
        if (strcmp(w.name, full) == 0)
            return (matrix){m->w + at, m->g + at, w.rows, w.cols, w.decays};
        at += (uint64_t)w.rows * w.cols;
    }
    return (matrix){0};
}

static void find_layer(model *m, uint32_t i) {
    char scope[16];
    layer *l = &m->layers[i];
    snprintf(scope, sizeof scope, "L%u.", i);
    matrix *const to[] = {&l->g1, &l->c1, &l->wq, &l->bq, &l->wk, &l->bk, &l->wv, &l->bv, &l->wo,
                          &l->bo, &l->g2, &l->c2, &l->w1, &l->b1, &l->wu, &l->w2, &l->b2};
    static const char *const names[] = {"G1", "C1", "WQ", "BQ", "WK", "BK", "WV", "BV", "WO",
                                        "BO", "G2", "C2", "W1", "B1", "WU", "W2", "B2"};
    for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++)
        *to[k] = find(m, scope, names[k]);
    const size_t rows = m->rows, dim = m->c.dim, hidden = m->hidden;
    real **const streams[] = {&l->n1, &l->x1, &l->q, &l->k, &l->v, &l->o, &l->n2, &l->x2};
    real **const wide[] = {&l->h, &l->act, &l->slope, &l->up, &l->g};
    for (unsigned k = 0; k < sizeof streams / sizeof streams[0]; k++)
        *streams[k] = take(m, rows * dim);
    for (unsigned k = 0; k < sizeof wide / sizeof wide[0]; k++)
        *wide[k] = take(m, rows * hidden);
    l->i1 = take(m, rows);
    l->i2 = take(m, rows);
    l->p = take(m, rows * m->c.heads * m->c.context);
}

model *FN(new)(const uvcc_transformer_config *c, const int64_t *weights) {
    model *m = calloc(1, sizeof *m);
    m->c = *c;
    m->count = uvcc_transformer_parameters(c);
    m->owned = calloc(16 + 16 * (size_t)c->layers, sizeof *m->owned);
    m->layers = calloc(c->layers, sizeof *m->layers);
    m->w = take(m, m->count);
    m->g = take(m, m->count);
    m->m = take(m, m->count);
    m->v = take(m, m->count);
    for (uint64_t i = 0; i < m->count; i++)
        m->w[i] = (real)ldexp((double)weights[i], -c->frac_bits);
    m->layer_norm = find(m, "", "CF").w != NULL;
    m->gated = find(m, "L0.", "WU").w != NULL;
    m->hidden = find(m, "L0.", "W1").cols;
    m->rows = (c->batch > c->windows ? c->batch : c->windows) * c->context;
    m->e = find(m, "", "E");
    m->p = find(m, "", "P");
    m->gf = find(m, "", "GF");
    m->cf = find(m, "", "CF");
    m->wl = find(m, "", "WL");
    for (uint32_t i = 0; i < c->layers; i++)
        find_layer(m, i);
    m->x = take(m, (size_t)m->rows * c->dim);
    m->nf = take(m, (size_t)m->rows * c->dim);
    m->xf = take(m, (size_t)m->rows * c->dim);
    m->inf = take(m, m->rows);
    m->logits = take(m, (size_t)m->rows * UVCC_TRANSFORMER_VOCAB);
    return m;
}

void FN(free)(model *m) {
    for (uint32_t i = 0; i < m->owned_count; i++)
        free(m->owned[i]);
    free(m->owned);
    free(m->layers);
    free(m);
}

real *FN(weights)(model *m) {
    return m->w;
}

const real *FN(gradients)(const model *m) {
    return m->g;
}

/* ---- matrices ---- */

/* z = or += x w. */
static void times(const real *x, size_t rows, const matrix *w, real *z, bool add) {
    for (size_t i = 0; i < rows; i++) {
        real *out = z + i * w->cols;
        if (!add)
            memset(out, 0, w->cols * sizeof *out);
        for (size_t k = 0; k < w->rows; k++)
            for (size_t j = 0; j < w->cols; j++)
                out[j] += x[i * w->rows + k] * w->w[k * w->cols + j];
    }
}

/* Gradients of z = x w: of w, and dx = or += dz w^T (dx may be NULL). */
static void back(const real *x, size_t rows, matrix *w, const real *dz, real *dx, bool add) {
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < w->rows; k++) {
            real sum = 0;
            for (size_t j = 0; j < w->cols; j++) {
                w->g[k * w->cols + j] += x[i * w->rows + k] * dz[i * w->cols + j];
                sum += dz[i * w->cols + j] * w->w[k * w->cols + j];
            }
            if (dx != NULL)
                dx[i * w->rows + k] = (add ? dx[i * w->rows + k] : 0) + sum;
        }
}

static void add_bias(real *z, size_t rows, const matrix *b) {
    for (size_t i = 0; b->w != NULL && i < rows; i++)
        for (size_t j = 0; j < b->cols; j++)
            z[i * b->cols + j] += b->w[j];
}

static void back_bias(const real *dz, size_t rows, matrix *b) {
    for (size_t i = 0; b->w != NULL && i < rows; i++)
        for (size_t j = 0; j < b->cols; j++)
            b->g[j] += dz[i * b->cols + j];
}

/* ---- norms ---- */

static void norm(const model *m, const real *x, const matrix *gain, const matrix *shift, real *n,
                 real *inverse, real *y) {
    const size_t dim = m->c.dim;
    for (size_t i = 0; i < m->rows; i++) {
        double mean = 0, square = 0;
        for (size_t j = 0; j < dim && m->layer_norm; j++)
            mean += x[i * dim + j] / (double)dim;
        for (size_t j = 0; j < dim; j++)
            square += pow(x[i * dim + j] - mean, 2) / (double)dim;
        inverse[i] = (real)(1 / sqrt(square + norm_epsilon));
        for (size_t j = 0; j < dim; j++) {
            n[i * dim + j] = (real)(x[i * dim + j] - mean) * inverse[i];
            y[i * dim + j] = n[i * dim + j] * gain->w[j] + (shift->w != NULL ? shift->w[j] : 0);
        }
    }
}

/* dx += */
static void back_norm(const model *m, const real *dy, matrix *gain, matrix *shift, const real *n,
                      const real *inverse, real *dx) {
    const size_t dim = m->c.dim;
    for (size_t i = 0; i < m->rows; i++) {
        double mean = 0, along = 0;
        for (size_t j = 0; j < dim; j++) {
            const double h = dy[i * dim + j] * gain->w[j];
            gain->g[j] += dy[i * dim + j] * n[i * dim + j];
            mean += m->layer_norm ? h / (double)dim : 0;
            along += h * n[i * dim + j] / (double)dim;
        }
        for (size_t j = 0; j < dim; j++)
            dx[i * dim + j] +=
                (real)(inverse[i] * (dy[i * dim + j] * gain->w[j] - mean - along * n[i * dim + j]));
    }
    back_bias(dy, m->rows, shift);
}

/* ---- attention ---- */

/* Row i of head h of a stream; probabilities of query i. */
static real *of_head(const model *m, real *x, size_t i, size_t h) {
    return x + i * m->c.dim + h * (m->c.dim / m->c.heads);
}

static real *scores(const model *m, layer *l, size_t i, size_t h) {
    return l->p + (i * m->c.heads + h) * m->c.context;
}

static double dot(const real *a, const real *b, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void attend(model *m, layer *l, size_t i, size_t h) {
    const size_t size = m->c.dim / m->c.heads, first = i - i % m->c.context, n = i - first + 1;
    real *p = scores(m, l, i, h), *o = of_head(m, l->o, i, h);
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < n; j++) {
        p[j] = (real)(dot(of_head(m, l->q, i, h), of_head(m, l->k, first + j, h), size) /
                      sqrt((double)size));
        most = p[j] > most ? p[j] : most;
    }
    for (size_t j = 0; j < n; j++) {
        p[j] = (real)exp(p[j] - most);
        sum += p[j];
    }
    memset(o, 0, size * sizeof *o);
    for (size_t j = 0; j < n; j++) {
        p[j] = (real)(p[j] / sum);
        for (size_t k = 0; k < size; k++)
            o[k] += p[j] * of_head(m, l->v, first + j, h)[k];
    }
}

static void back_attend(model *m, layer *l, size_t i, size_t h, real *d_o, real *dq, real *dk,
                        real *dv) {
    const size_t size = m->c.dim / m->c.heads, first = i - i % m->c.context, n = i - first + 1;
    const real *p = scores(m, l, i, h), *g = of_head(m, d_o, i, h);
    double all = 0;
    for (size_t j = 0; j < n; j++)
        all += p[j] * dot(g, of_head(m, l->v, first + j, h), size);
    for (size_t j = 0; j < n; j++) {
        const double dp = dot(g, of_head(m, l->v, first + j, h), size);
        const real ds = (real)(p[j] * (dp - all) / sqrt((double)size));
        for (size_t k = 0; k < size; k++) {
            of_head(m, dv, first + j, h)[k] += p[j] * g[k];
            of_head(m, dq, i, h)[k] += ds * of_head(m, l->k, first + j, h)[k];
            of_head(m, dk, first + j, h)[k] += ds * of_head(m, l->q, i, h)[k];
        }
    }
}

/* ---- activations ---- */

static double slope_and_value(const model *m, double x, double *slope) {
    const double pi = acos(-1);
    if (m->c.block == UVCC_BLOCK_SWIGLU) {
        const double s = 1 / (1 + exp(-x));
        *slope = s * (1 + x * (1 - s));
        return x * s;
    }
    if (m->c.block == UVCC_BLOCK_GPT2) {
        const double c = sqrt(2 / pi), t = tanh(c * (x + 0.044715 * x * x * x));
        *slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
        return 0.5 * x * (1 + t);
    }
    const double phi = 0.5 * erfc(-x / sqrt(2));
    *slope = phi + x * exp(-x * x / 2) / sqrt(2 * pi);
    return x * phi;
}

static void activate(const model *m, layer *l) {
    for (size_t i = 0; i < (size_t)m->rows * m->hidden; i++) {
        double slope;
        l->act[i] = (real)slope_and_value(m, l->h[i], &slope);
        l->slope[i] = (real)slope;
        l->g[i] = m->gated ? l->act[i] * l->up[i] : l->act[i];
    }
}

/* ---- passes ---- */

/* x becomes the layer's output. */
static void forward_layer(model *m, layer *l, real *x) {
    const size_t rows = m->rows;
    norm(m, x, &l->g1, &l->c1, l->n1, l->i1, l->x1);
    times(l->x1, rows, &l->wq, l->q, false);
    times(l->x1, rows, &l->wk, l->k, false);
    times(l->x1, rows, &l->wv, l->v, false);
    add_bias(l->q, rows, &l->bq);
    add_bias(l->k, rows, &l->bk);
    add_bias(l->v, rows, &l->bv);
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < m->c.heads; h++)
            attend(m, l, i, h);
    times(l->o, rows, &l->wo, x, true);
    add_bias(x, rows, &l->bo);
    norm(m, x, &l->g2, &l->c2, l->n2, l->i2, l->x2);
    times(l->x2, rows, &l->w1, l->h, false);
    add_bias(l->h, rows, &l->b1);
    if (m->gated)
        times(l->x2, rows, &l->wu, l->up, false);
    activate(m, l);
    times(l->g, rows, &l->w2, x, true);
    add_bias(x, rows, &l->b2);
}

/* d, the gradient by the layer's output, becomes that by its input. */
static void backward_layer(model *m, layer *l, real *d) {
    const size_t rows = m->rows, dim = m->c.dim, hidden = m->hidden;
    real *room = calloc(rows * (2 * hidden + 5 * dim), sizeof *room);
    real *dg = room, *du = dg + rows * hidden, *dx = du + rows * hidden, *d_o = dx + rows * dim;
    real *dq = d_o + rows * dim, *dk = dq + rows * dim, *dv = dk + rows * dim;
    back_bias(d, rows, &l->b2);
    back(l->g, rows, &l->w2, d, dg, false);
    for (size_t i = 0; i < rows * hidden; i++) {
        du[i] = dg[i] * l->act[i];
        dg[i] *= (m->gated ? l->up[i] : 1) * l->slope[i];
    }
    back_bias(dg, rows, &l->b1);
    back(l->x2, rows, &l->w1, dg, dx, false);
    if (m->gated)
        back(l->x2, rows, &l->wu, du, dx, true);
    back_norm(m, dx, &l->g2, &l->c2, l->n2, l->i2, d);
    back_bias(d, rows, &l->bo);
    back(l->o, rows, &l->wo, d, d_o, false);
    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < m->c.heads; h++)
            back_attend(m, l, i, h, d_o, dq, dk, dv);
    back_bias(dq, rows, &l->bq);
    back_bias(dk, rows, &l->bk);
    back_bias(dv, rows, &l->bv);
    back(l->x1, rows, &l->wq, dq, dx, false);
    back(l->x1, rows, &l->wk, dk, dx, true);
    back(l->x1, rows, &l->wv, dv, dx, true);
    back_norm(m, dx, &l->g1, &l->c1, l->n1, l->i1, d);
    free(room);
}

/* Softmax of the logits in place, minus the one-hots; returns the losses' sum. */
static double cross_entropy(model *m, const uint8_t *targets) {
    double loss = 0;
    for (size_t i = 0; i < m->rows; i++) {
        real *z = m->logits + i * UVCC_TRANSFORMER_VOCAB;
        double most = -INFINITY, sum = 0;
        for (size_t j = 0; j < UVCC_TRANSFORMER_VOCAB; j++)
            most = z[j] > most ? z[j] : most;
        for (size_t j = 0; j < UVCC_TRANSFORMER_VOCAB; j++)
            sum += exp(z[j] - most);
        loss += log(sum) + most - z[targets[i]];
        for (size_t j = 0; j < UVCC_TRANSFORMER_VOCAB; j++)
            z[j] = (real)(exp(z[j] - most) / sum) - (j == targets[i]);
    }
    return loss;
}

double FN(loss)(model *m, const uint8_t *tokens, const uint8_t *targets, uint32_t sequences) {
    const size_t dim = m->c.dim;
    m->rows = sequences * m->c.context;
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < dim; j++)
            m->x[i * dim + j] = m->e.w[tokens[i] * dim + j] + m->p.w[i % m->c.context * dim + j];
    for (uint32_t l = 0; l < m->c.layers; l++)
        forward_layer(m, &m->layers[l], m->x);
    norm(m, m->x, &m->gf, &m->cf, m->nf, m->inf, m->xf);
    times(m->xf, m->rows, &m->wl, m->logits, false);
    return cross_entropy(m, targets);
}

double FN(gradient)(model *m, const uint8_t *tokens, const uint8_t *targets, uint32_t sequences) {
    const size_t dim = m->c.dim;
    const double loss = FN(loss)(m, tokens, targets, sequences);
    real *d = calloc(m->rows * dim, sizeof *d), *dx = calloc(m->rows * dim, sizeof *dx);
    memset(m->g, 0, m->count * sizeof *m->g);
    for (size_t i = 0; i < (size_t)m->rows * UVCC_TRANSFORMER_VOCAB; i++)
        m->logits[i] /= (real)m->rows; /* of the mean loss */
    back(m->xf, m->rows, &m->wl, m->logits, dx, false);
    back_norm(m, dx, &m->gf, &m->cf, m->nf, m->inf, d);
    for (uint32_t l = m->c.layers; l-- > 0;)
        backward_layer(m, &m->layers[l], d);
    for (size_t i = 0; i < m->rows; i++)
        for (size_t j = 0; j < dim; j++) {
            m->e.g[tokens[i] * dim + j] += d[i * dim + j];
            m->p.g[i % m->c.context * dim + j] += d[i * dim + j];
        }
    free(d);
    free(dx);
    return loss;
}

/* ---- optimizer ---- */

typedef struct decays {
    double first, second, epsilon;
} decays;

static decays decays_of(const uvcc_transformer_config *c) {
    return (decays){ldexp(1, -(c->momentum_shift != 0 ? c->momentum_shift : 2)),
                    ldexp(1, -(c->variance_shift != 0 ? c->variance_shift : 4)),
                    c->epsilon != 0 ? c->epsilon : default_epsilon};
}

static double direction(model *m, uint64_t i) {
    const uvcc_transformer_config *c = &m->c;
    const decays d = decays_of(c);
    double g = m->g[i];
    if (c->optimizer == UVCC_OPTIMIZER_ADAM_MINI) /* the moments are there: follow_blocks */
        return m->m[i] / sqrt(m->v[i] + d.epsilon * d.epsilon);
    if (c->clip != 0)
        g = fmin(fmax(g, -c->clip), c->clip);
    if (c->optimizer == UVCC_OPTIMIZER_SGD)
        return g;
    if (c->optimizer == UVCC_OPTIMIZER_MOMENTUM) {
        m->m[i] = (real)(m->m[i] * (1 - d.first) + g);
        return m->m[i];
    }
    m->m[i] = (real)(m->m[i] * (1 - d.first) + g * d.first);
    m->v[i] = (real)(m->v[i] * (1 - d.second) + g * g * d.second);
    return m->m[i] / sqrt(m->v[i] + d.epsilon * d.epsilon);
}

/* What the gradient is multiplied by, so that its norm is at most `clip`. */
static double norm_factor(const model *m) {
    double sum = 0;
    for (uint64_t i = 0; i < m->count; i++)
        sum += (double)m->g[i] * m->g[i];
    return m->c.clip != 0 && sqrt(sum) > m->c.clip ? m->c.clip / sqrt(sum) : 1;
}

/* Number of the block that an element of the weight belongs to. */
static uint64_t block_of(const model *m, const uvcc_transformer_weight *w, uint64_t i) {
    switch (w->blocks) {
    case UVCC_BLOCKS_ROWS:
        return i / w->cols;
    case UVCC_BLOCKS_COLS:
        return i % w->cols;
    case UVCC_BLOCKS_HEADS:
        return i % w->cols / (m->c.dim / m->c.heads);
    default:
        return 0;
    }
}

/* ADAM_MINI: the moments of the weight whose first element is `at`; each element has its block's
 * second one. */
static void follow_blocks(model *m, const uvcc_transformer_weight *w, uint64_t at, double factor) {
    const decays d = decays_of(&m->c);
    const uint64_t count = (uint64_t)w->rows * w->cols;
    double *sum = calloc(count, 2 * sizeof *sum), *size = sum + count;
    for (uint64_t i = 0; i < count; i++) {
        const double g = m->g[at + i] * factor;
        sum[block_of(m, w, i)] += g * g;
        size[block_of(m, w, i)]++;
        m->m[at + i] = (real)(m->m[at + i] * (1 - d.first) + g * d.first);
    }
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t k = block_of(m, w, i);
        m->v[at + i] = (real)(m->v[at + i] * (1 - d.second) + sum[k] / size[k] * d.second);
    }
    free(sum);
}

void FN(update)(model *m, double rate) {
    uvcc_transformer_weight w;
    uint64_t at = 0;
    const bool mini = m->c.optimizer == UVCC_OPTIMIZER_ADAM_MINI;
    const double factor = mini ? norm_factor(m) : 1;
    for (uint32_t k = 0; uvcc_transformer_weight_at(&m->c, k, &w) == 0; k++) {
        const double decay = w.decays ? m->c.weight_decay : 0;
        if (mini)
            follow_blocks(m, &w, at, factor);
        for (uint64_t i = at; i < at + (uint64_t)w.rows * w.cols; i++)
            m->w[i] -= (real)(rate * (direction(m, i) + decay * m->w[i]));
        at += (uint64_t)w.rows * w.cols;
    }
}
