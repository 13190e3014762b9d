/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - see data.h. */
#include "data.h"

#include <stdlib.h>

#include "../draw.h"

enum { ROWS_MAX = 65536, NO_EPOCH = UINT32_MAX };

/* ---- the file ---- */

static int take_labels(ft_data *d, const ft_options *o, const st_tensor *t, const flag_message *m) {
    enum { LABELS_MAX = 65536 };
    if (t->dtype != ST_I64 || t->rank != 1 || t->shape[0] != d->rows)
        return flag_fail(m, "%s: labels must be I64, one for each of the %u rows of input_ids",
                         o->data, d->rows);
    d->labelled = true;
    for (uint32_t i = 0; i < d->rows; i++) {
        const int64_t v = st_integer(t, i);
        if (v < 0 || v >= LABELS_MAX || (o->labels != 0 && v >= (int64_t)o->labels))
            return flag_fail(m, "%s: label %lld of row %u is not one of 0 to %u", o->data,
                             (long long)v, i + 1, (o->labels != 0 ? o->labels : LABELS_MAX) - 1);
        d->target[i] = v;
        d->labels = (uint32_t)v >= d->labels ? (uint32_t)v + 1 : d->labels;
    }
    return 0;
}

/* Each row's tokens, one further. */
static void take_next(ft_data *d, const st_tensor *ids) {
    for (uint32_t i = 0; i < d->rows; i++)
        for (uint32_t t = 0; t < d->tokens; t++)
            d->target[(size_t)i * d->tokens + t] = st_integer(ids, i * ids->shape[1] + t + 1);
}

static int look(ft_data *d, const ft_options *o, const st_file *f, const flag_message *m) {
    const st_tensor *ids = st_find(f, "input_ids"), *labels = st_find(f, "labels");
    if (ids == NULL || ids->rank != 2 || ids->dtype != ST_I64)
        return flag_fail(m, "%s: has no input_ids of rows x tokens, I64", o->data);
    const uint64_t next = labels == NULL, tokens = ids->shape[1];
    if (ids->shape[0] == 0 || ids->shape[0] > ROWS_MAX || tokens > ROWS_MAX || tokens <= next)
        return flag_fail(m, "%s: 1 to %u rows of %u to %u tokens are possible", o->data, ROWS_MAX,
                         (unsigned)next + 1, ROWS_MAX);
    d->rows = (uint32_t)ids->shape[0];
    d->tokens = (uint32_t)(tokens - next);
    if (o->tokens > d->tokens)
        return flag_fail(m, "--tokens %u: %s has rows of %u%s", o->tokens, o->data, d->tokens,
                         next ? " and one that is only predicted" : "");
    d->tokens = o->tokens != 0 ? o->tokens : d->tokens;
    d->target = malloc((size_t)d->rows * (next ? d->tokens : 1) * sizeof *d->target);
    if (d->target == NULL)
        return flag_fail(m, "out of memory");
    if (labels != NULL)
        return take_labels(d, o, labels, m);
    take_next(d, ids);
    return 0;
}

int ft_data_look(ft_data *d, const ft_options *o, const flag_message *m) {
    st_file f;
    *d = (ft_data){.epoch = NO_EPOCH};
    if (st_open(&f, o->data, m) != 0)
        return -1;
    const int rc = look(d, o, &f, m);
    st_close(&f);
    if (rc != 0)
        return rc;
    if (o->held_out >= d->rows)
        return flag_fail(m, "--held-out %u leaves none of the %u rows of %s to learn from",
                         o->held_out, d->rows, o->data);
    d->learned = d->rows - o->held_out;
    return 0;
}

int ft_data_read(ft_data *d, const ft_options *o, const weights *w, const flag_message *m) {
    if (input_read(&d->in, o->data, w, d->tokens, m) != 0)
        return -1;
    const int64_t words = w->d->vocabulary;
    for (size_t i = 0; !d->labelled && i < (size_t)d->rows * d->tokens; i++)
        if (d->target[i] < 0 || d->target[i] >= words)
            return flag_fail(m, "%s: token %lld is not one of the model's %lld", o->data,
                             (long long)d->target[i], (long long)words);
    d->order = malloc(d->learned * sizeof *d->order);
    return d->order != NULL ? 0 : flag_fail(m, "out of memory");
}

void ft_data_free(ft_data *d) {
    free(d->target);
    free(d->order);
    input_free(&d->in);
}

/* ---- order ---- */

static void shuffle(ft_data *d, uint64_t seed, uint32_t epoch) {
    uint64_t state = seed;
    state = draw(&state) + epoch;
    for (uint32_t i = 0; i < d->learned; i++)
        d->order[i] = i;
    for (uint32_t i = d->learned; i-- > 1;) {
        const uint32_t k = (uint32_t)(draw(&state) % (i + 1)), at = d->order[i];
        d->order[i] = d->order[k];
        d->order[k] = at;
    }
    d->epoch = epoch;
}

uint32_t ft_data_row(ft_data *d, uint64_t seed, uint64_t n) {
    const uint32_t epoch = (uint32_t)(n / d->learned);
    if (epoch != d->epoch)
        shuffle(d, seed, epoch);
    return d->order[n % d->learned];
}
