/* SPDX-License-Identifier: Apache-2.0 */
/* perceptron.c - see perceptron.h. */
#include "perceptron.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#define PREDICT_ROWS_MAX 512u
#define PREDICT_SIZE_MAX (1u << 20) /* rows times units of the widest layer */
#define STEPS_MAX        100000000u

/* ---- what is computed ---- */

int perceptron_check(const perceptron_options *o, const perceptron_names *names,
                     const flag_message *m) {
    uint32_t below = 1;
    if ((o->batch & (o->batch - 1)) == 0)
        return 0;
    while (2 * below <= o->batch)
        below *= 2;
    return flag_fail(m, "%s %u: give a power of two, such as %u or %u", names->batch, o->batch,
                     below, 2 * below);
}

/* Held-out rows are predicted in steps of so many. */
static uint32_t predict_rows(const perceptron_options *o, const dataset *d) {
    uint32_t widest = d->features > d->classes ? d->features : d->classes;
    for (uint32_t l = 0; l < o->hidden.count; l++)
        widest = o->hidden.v[l] > widest ? o->hidden.v[l] : widest;
    uint32_t rows = PREDICT_SIZE_MAX / widest;
    rows = rows < PREDICT_ROWS_MAX ? rows : PREDICT_ROWS_MAX;
    return rows < d->test.rows ? rows : d->test.rows;
}

static uvcc_mlp_config mlp_of(const perceptron_options *o, uint32_t products, const dataset *d) {
    uvcc_mlp_config mlp = {
        .features = d->features,
        .classes = d->classes,
        .hidden_count = o->hidden.count,
        .batch = o->batch,
        .predict_rows = predict_rows(o, d),
        .lr_shift = (uint8_t)o->lr_shift,
        .frac_bits = (uint8_t)o->frac_bits,
        .range_bits = PERCEPTRON_RANGE_BITS,
        .truncation = (uint8_t)o->truncation,
        .compare = (uint8_t)o->compare,
        .products = (uint8_t)products,
        .x_owner = PERCEPTRON_FEATURES_OWNER,
        .y_owner = PERCEPTRON_LABELS_OWNER,
    };
    memcpy(mlp.hidden, o->hidden.v, sizeof o->hidden.v);
    return mlp;
}

int perceptron_begin(perceptron *p, const perceptron_options *o, const perceptron_names *names,
                     uint64_t seed, uint32_t products, const dataset *d, const flag_message *m) {
    *p = (perceptron){.mlp = mlp_of(o, products, d),
                      .seed = seed,
                      .train_rows = d->train.rows,
                      .test_rows = d->test.rows,
                      .order_epoch = UINT32_MAX};
    if (o->batch > d->train.rows)
        return flag_fail(m,
                         "%s %u: the file has %u rows to train on; give a smaller batch or more "
                         "rows",
                         names->batch, o->batch, d->train.rows);
    p->steps_per_epoch = d->train.rows / o->batch;
    p->predict_steps = (d->test.rows + p->mlp.predict_rows - 1) / p->mlp.predict_rows;
    if ((uint64_t)o->epochs * p->steps_per_epoch > STEPS_MAX)
        return flag_fail(m, "%s %u: more than %u steps; give fewer epochs or a larger %s",
                         names->epochs, o->epochs, STEPS_MAX, names->batch);
    p->train_steps = o->epochs * p->steps_per_epoch;
    p->steps = p->train_steps + p->predict_steps + 1;
    p->order = malloc(d->train.rows * sizeof *p->order);
    return p->order != NULL ? 0 : flag_fail(m, "out of memory");
}

void perceptron_end(perceptron *p) {
    free(p->order);
    p->order = NULL;
}

int perceptron_program(perceptron *p, uvcc_program **out, const flag_message *m) {
    const uvcc_allocator al = uvcc_host_allocator();
    const int rc = uvcc_mlp_program(out, &p->mlp, &al, m->text, m->cap);
    if (rc != 0)
        return rc;
    p->program = *out;
    p->train_entry = (uint32_t)uvcc_program_find_entry(p->program, "train");
    p->predict_entry = (uint32_t)uvcc_program_find_entry(p->program, "predict");
    p->reveal_entry = (uint32_t)uvcc_program_find_entry(p->program, "reveal");
    return 0;
}

/* ---- steps ---- */

uint32_t perceptron_entry(const perceptron *p, uint32_t step) {
    return step < p->train_steps                      ? p->train_entry
           : step < p->train_steps + p->predict_steps ? p->predict_entry
                                                      : p->reveal_entry;
}

bool perceptron_ahead(const perceptron *p, uint32_t step) {
    return step < p->train_steps;
}

static const uint32_t *rows_of(perceptron *p, uint32_t step) {
    const uint32_t epoch = step / p->steps_per_epoch;
    if (epoch != p->order_epoch) {
        uvcc_mlp_order(p->seed, epoch, p->train_rows, p->order);
        p->order_epoch = epoch;
    }
    return p->order + (size_t)(step % p->steps_per_epoch) * p->mlp.batch;
}

uint32_t perceptron_range(const perceptron *p, uint32_t step, uint32_t *first) {
    *first = (step - p->train_steps) * p->mlp.predict_rows;
    const uint32_t left = p->test_rows - *first;
    return left < p->mlp.predict_rows ? left : p->mlp.predict_rows;
}

uint32_t perceptron_rows(const perceptron *p) {
    return p->mlp.batch > p->mlp.predict_rows ? p->mlp.batch : p->mlp.predict_rows;
}

void perceptron_fill_x(perceptron *p, uint32_t step, const dataset *d, int64_t *x) {
    const size_t features = p->mlp.features;
    if (step >= p->train_steps) {
        uint32_t first;
        const uint32_t rows = perceptron_range(p, step, &first);
        memcpy(x, d->test.x + first * features, rows * features * sizeof *x);
        memset(x + rows * features, 0, (p->mlp.predict_rows - rows) * features * sizeof *x);
        return;
    }
    const uint32_t *row = rows_of(p, step);
    for (uint32_t i = 0; i < p->mlp.batch; i++)
        memcpy(x + i * features, d->train.x + row[i] * features, features * sizeof *x);
}

void perceptron_fill_y(perceptron *p, uint32_t step, const dataset *d, int64_t *y) {
    const size_t classes = p->mlp.classes;
    const uint32_t *row = rows_of(p, step);
    memset(y, 0, p->mlp.batch * classes * sizeof *y);
    for (uint32_t i = 0; i < p->mlp.batch; i++)
        y[i * classes + d->train.label[row[i]]] = (int64_t)1 << p->mlp.frac_bits;
}

uint32_t perceptron_class(const int64_t *v, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (v[i] > v[best])
            best = i;
    return best;
}

/* ---- weights ---- */

typedef int setter(void *user, uint32_t tensor, const int64_t *v);

static int set_named(const perceptron *p, const char *name, uint32_t layer, const int64_t *v,
                     setter *set, void *user) {
    char full[16];
    (void)snprintf(full, sizeof full, "%s%u", name, layer);
    const int t = uvcc_program_find(p->program, full);
    return t < 0 ? t : set(user, (uint32_t)t, v);
}

static int set_layer(const perceptron *p, uint32_t l, int64_t *w, size_t n, const int64_t *zeros,
                     setter *set, void *user) {
    uvcc_mlp_initial_weights(&p->mlp, p->seed, l, w);
    int rc = set_named(p, "W", l, w, set, user);
    for (size_t i = 0; i < n; i++)
        w[i] *= (int64_t)1 << uvcc_mlp_master_shift(&p->mlp);
    if (rc == 0)
        rc = set_named(p, "MW", l, w, set, user);
    if (rc == 0)
        rc = set_named(p, "b", l, zeros, set, user);
    return rc == 0 ? set_named(p, "Mb", l, zeros, set, user) : rc;
}

int perceptron_first_values(const perceptron *p, setter *set, void *user) {
    int rc = 0;
    for (uint32_t l = 0; l < uvcc_mlp_layers(&p->mlp) && rc == 0; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&p->mlp, l, &in, &out);
        const size_t n = (size_t)in * out;
        int64_t *w = malloc(n * sizeof *w), *zeros = calloc(out, sizeof *zeros);
        rc = w != NULL && zeros != NULL ? set_layer(p, l, w, n, zeros, set, user) : UVCC_ERR_NOMEM;
        free(w);
        free(zeros);
    }
    return rc;
}

static size_t weight_count(const perceptron *p) {
    size_t n = 0;
    for (uint32_t i = 0; i < uvcc_program_output_count(p->program, p->reveal_entry); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(p->program, p->reveal_entry, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p->program, out->tensor);
        n += (size_t)t->rows * t->cols;
    }
    return n;
}

int perceptron_weights(const perceptron *p,
                       const int64_t *(*get)(void *user, const uvcc_io_desc *out), void *user,
                       uint8_t **bytes, size_t *len) {
    uint8_t *at = malloc(8 * weight_count(p));
    *bytes = at;
    *len = 0;
    if (at == NULL)
        return UVCC_ERR_NOMEM;
    for (uint32_t i = 0; i < uvcc_program_output_count(p->program, p->reveal_entry); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(p->program, p->reveal_entry, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(p->program, out->tensor);
        const int64_t *v = get(user, out);
        if (v == NULL) {
            free(*bytes);
            *bytes = NULL;
            return UVCC_ERR_STATE;
        }
        for (size_t j = 0; j < (size_t)t->rows * t->cols; j++)
            for (unsigned k = 0; k < 8; k++)
                *at++ = (uint8_t)((uint64_t)v[j] >> (8 * k));
    }
    *len = (size_t)(at - *bytes);
    return 0;
}

int perceptron_hash(const perceptron *p, const int64_t *(*get)(void *user, const uvcc_io_desc *out),
                    void *user, uint8_t hash[32]) {
    uint8_t *bytes;
    size_t len;
    const int rc = perceptron_weights(p, get, user, &bytes, &len);
    if (rc == 0)
        (void)crypto_hash_sha256(hash, bytes, len);
    free(bytes);
    return rc;
}
