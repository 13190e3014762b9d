/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c - scaling, splitting and rounding of the rows, in double precision as docs/training.md
 * says. */
#include "dataset.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define HELD_OUT_EVERY 5u /* rows with index mod 5 = 4 */

static bool held_out(uint32_t row) {
    return row % HELD_OUT_EVERY == HELD_OUT_EVERY - 1;
}

uint32_t dataset_test_row(uint32_t i) {
    return i * HELD_OUT_EVERY + HELD_OUT_EVERY - 1;
}

static bool part_new(dataset_part *p, uint32_t rows, const csv_table *t) {
    if (t->value != NULL && rows > SIZE_MAX / sizeof *p->x / t->features)
        return false;
    p->rows = rows;
    p->x = t->value != NULL ? malloc((size_t)rows * t->features * sizeof *p->x) : NULL;
    p->label = t->label != NULL ? malloc(rows * sizeof *p->label) : NULL;
    return (p->x != NULL || t->value == NULL) && (p->label != NULL || t->label == NULL);
}

static double largest(const csv_table *t) {
    double most = 0;
    for (uint32_t row = 0; t->value != NULL && row < t->rows; row++) {
        const double *v = t->value + (size_t)row * t->features;
        for (uint32_t i = 0; !held_out(row) && i < t->features; i++)
            most = fmax(most, fabs(v[i]));
    }
    return most > 0 ? most : 1;
}

/* The scale is that of training rows alone: held-out rows must not have a say in what is trained.
 */
int dataset_build(dataset *out, const csv_table *t, const char *path, unsigned frac_bits,
                  unsigned range_bits, char *message, size_t message_cap) {
    uint32_t test_rows = t->rows / HELD_OUT_EVERY;
    if (test_rows == 0) {
        (void)snprintf(message, message_cap,
                       "%s: %u rows are too few; give at least %u, since every fifth is held out "
                       "for the test",
                       path, t->rows, HELD_OUT_EVERY);
        return -1;
    }
    dataset d = {.features = t->features};
    if (!part_new(&d.train, t->rows - test_rows, t) || !part_new(&d.test, test_rows, t)) {
        (void)snprintf(message, message_cap, "%s: the rows do not fit in memory; use fewer", path);
        dataset_free(&d);
        return -1;
    }
    const double scale = largest(t), one = ldexp(1, (int)frac_bits);
    const double limit = ldexp(1, (int)(frac_bits + range_bits));
    uint32_t at[2] = {0, 0};
    for (uint32_t row = 0; row < t->rows; row++) {
        bool out_of_training = held_out(row);
        dataset_part *p = out_of_training ? &d.test : &d.train;
        uint32_t to = at[out_of_training]++;
        for (uint32_t i = 0; t->value != NULL && i < t->features; i++) {
            double x = floor(t->value[(size_t)row * t->features + i] / scale * one + 0.5);
            if (!(fabs(x) < limit)) {
                (void)snprintf(message, message_cap,
                               "%s:%u:%u: this held-out value is %.0f times the largest of the "
                               "training rows or more; rescale the column or remove the row",
                               path, csv_line(t, row), csv_column(t, i), ldexp(1, (int)range_bits));
                dataset_free(&d);
                return -1;
            }
            p->x[(size_t)to * t->features + i] = (int64_t)x;
        }
        if (t->label == NULL)
            continue;
        p->label[to] = t->label[row];
        if (t->label[row] >= d.classes)
            d.classes = t->label[row] + 1;
    }
    *out = d;
    return 0;
}

void dataset_free(dataset *d) {
    free(d->train.x);
    free(d->train.label);
    free(d->test.x);
    free(d->test.label);
    *d = (dataset){0};
}
