/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - see plain.h. */
#include "plain.h"

#include <math.h>
#include <stdlib.h>
#include <uvcc/host.h>

#include "../report.h"
#include "fixed.h"

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

void plain_free(plain_pass *p) {
    free(p->weights);
    free(p->fixed);
    free(p->y);
    free(p->z);
    input_free(&p->in);
    ranges_free(&p->r);
    *p = (plain_pass){0};
}

int plain_weights(plain_pass *p, const weights *w, bool twin, const flag_message *m) {
    uvcc_model_weight of;
    uint64_t at = 0;
    int rc = 0;
    p->weights = malloc(uvcc_model_parameters(&p->shape) * sizeof *p->weights);
    p->fixed = twin ? malloc(uvcc_model_parameters(&p->shape) * sizeof *p->fixed) : NULL;
    if (p->weights == NULL || (twin && p->fixed == NULL))
        return flag_fail(m, "out of memory");
    for (uint32_t i = 0; rc == 0 && uvcc_model_weight_at(&p->shape, i, &of) == 0; i++) {
        const uint64_t n = (uint64_t)of.rows * of.cols;
        rc = weights_read(w, i, p->weights + at, m);
        if (rc == 0 && twin)
            fixed_round(p->weights + at, n, p->config.frac_bits, p->config.weight_bits,
                        p->fixed + at);
        at += n;
    }
    return rc;
}

/* ---- passes ---- */

bool plain_takes_tokens(const plain_pass *p) {
    return p->shape.input != UVCC_MODEL_INPUT_HIDDEN;
}

static real_pass pass_of(const plain_pass *p) {
    return (real_pass){.d = &p->d,
                       .shape = &p->shape,
                       .weights = p->weights,
                       .sequences = p->in.sequences,
                       .tokens = p->in.tokens,
                       .ids = p->in.ids,
                       .types = p->in.types,
                       .padding = p->in.padding};
}

void plain_output(const plain_pass *p, size_t *rows, size_t *cols) {
    const real_pass pass = pass_of(p);
    real_output(&pass, rows, cols);
}

distance plain_distance(const plain_pass *p, const double *a, const double *b) {
    distance d = {0};
    size_t rows, cols;
    plain_output(p, &rows, &cols);
    const bool of_tokens = rows == (size_t)p->in.sequences * p->in.tokens;
    for (size_t i = 0; i < rows * cols; i++) {
        if (of_tokens && p->in.padding != NULL && p->in.padding[i / cols] != 0)
            continue;
        const double off = fabs(a[i] - b[i]);
        d.most = fmax(d.most, off);
        d.square_sum += off * off;
        d.count++;
    }
    return d;
}

double plain_rms(const distance *d) {
    return d->count != 0 ? sqrt(d->square_sum / (double)d->count) : 0;
}

int plain_real(plain_pass *p) {
    const real_pass pass = pass_of(p);
    size_t rows, cols;
    plain_output(p, &rows, &cols);
    ranges_free(&p->r);
    free(p->y);
    p->y = malloc(rows * cols * sizeof *p->y);
    if (p->y == NULL ||
        real_forward(&pass, plain_takes_tokens(p) ? NULL : p->in.x, p->y, &p->r) != 0)
        return no_memory();
    for (size_t i = 0; i < p->r.count; i++)
        if (!isfinite(p->r.at[i].most))
            return report_error(EXIT_FAILED, "the pass leaves double precision at %s",
                                p->r.at[i].name);
    return EXIT_DONE;
}

/* A token and its type as their numbers, or as a row of 0 and 1. */
static void put_token(const plain_pass *p, size_t i, size_t columns, int64_t *x) {
    const bool one_hot = p->shape.input == UVCC_MODEL_INPUT_ONE_HOT;
    const int64_t id = p->in.ids[i], type = p->in.types != NULL ? p->in.types[i] : 0;
    int64_t *row = x + i * columns;
    row[one_hot ? (size_t)id : 0] = one_hot ? 1 : id;
    if (p->shape.segments != 0)
        row[one_hot ? p->shape.vocabulary + (size_t)type : 1] = one_hot ? 1 : type;
}

int64_t *plain_input(const plain_pass *p) {
    const size_t rows = (size_t)p->in.sequences * p->in.tokens;
    uvcc_tensor_desc d;
    if (uvcc_model_inputs(&p->shape, &d, NULL) != 0)
        return NULL;
    int64_t *x = calloc(rows * d.cols, sizeof *x);
    if (x != NULL && !plain_takes_tokens(p))
        fixed_round(p->in.x, rows * d.cols, p->config.frac_bits, FIXED_BITS_MOST, x);
    for (size_t i = 0; x != NULL && plain_takes_tokens(p) && i < rows; i++)
        put_token(p, i, d.cols, x);
    return x;
}

double plain_opened(const plain_pass *p, int64_t v) {
    const unsigned dropped = p->config.mode == UVCC_MODEL_FAST ? UVCC_MODEL_OPEN_SHIFT : 0;
    return fixed_real(v, p->config.frac_bits - dropped);
}

int plain_twin(plain_pass *p, double **out) {
    const uvcc_allocator al = uvcc_host_allocator();
    size_t rows, cols;
    plain_output(p, &rows, &cols);
    int64_t *x = plain_input(p);
    free(p->z);
    p->z = malloc(rows * cols * sizeof *p->z);
    double *real = *out = malloc(rows * cols * sizeof *real);
    const int status = x == NULL || p->z == NULL || real == NULL ? no_memory() : EXIT_DONE;
    if (status == EXIT_DONE)
        (void)uvcc_model_reference(&p->config, &al, p->fixed, x, p->in.padding, p->z, p->refused,
                                   sizeof p->refused);
    for (size_t i = 0; status == EXIT_DONE && p->refused[0] == '\0' && i < rows * cols; i++)
        real[i] = plain_opened(p, p->z[i]);
    free(x);
    return status;
}

/* ---- bits ---- */

unsigned plain_value_bits(const plain_pass *p) {
    return p->config.value_bits != 0 ? p->config.value_bits : 7;
}

unsigned plain_inner_bits(const plain_pass *p) {
    return p->config.inner_bits != 0 ? p->config.inner_bits : plain_value_bits(p);
}

/* Inner values need no more than the others have. */
unsigned plain_bits(const plain_pass *p, bool inner, const range **who) {
    unsigned bits = ranges_bits(&p->r, inner, who);
    const range *other;
    const unsigned most = inner ? 0 : ranges_bits(&p->r, true, &other);
    if (most > bits) {
        bits = most;
        *who = other;
    }
    return bits;
}
