/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h - a table as fixed-point rows to train on and rows held out (docs/training.md, Data).
 */
#ifndef UVCC_TOOLS_DATASET_H
#define UVCC_TOOLS_DATASET_H

#include "csv.h"

typedef struct dataset_part {
    uint32_t rows;
    int64_t *x;      /* rows * features; NULL: the table has no features */
    uint32_t *label; /* rows; NULL: it has no labels */
} dataset_part;

typedef struct dataset {
    uint32_t features, classes;
    dataset_part train, test;
} dataset;

/* range_bits: |x| < 2^(frac_bits + range_bits) must hold in held-out rows; training rows are at
 * most 1. Returns 0, or -1 and one line in message. */
int dataset_build(dataset *out, const csv_table *t, const char *path, unsigned frac_bits,
                  unsigned range_bits, char *message, size_t message_cap);
/* The index in its table of the i-th row that is held out. */
uint32_t dataset_test_row(uint32_t i);
void dataset_free(dataset *d);

#endif
