/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - reads a table of numbers with a column of labels, row by row and strictly. */
#ifndef UVCC_TOOLS_CSV_H
#define UVCC_TOOLS_CSV_H

#include <stddef.h>
#include <stdint.h>

#define CSV_LABEL_MAX   4095u
#define CSV_COLUMNS_MAX 65536u
#define CSV_ROWS_MAX    (1u << 26)
#define CSV_LINE_MAX    ((size_t)16 << 20) /* bytes */
#define CSV_NO_COLUMN   UINT32_MAX

typedef struct csv_table {
    uint32_t rows, features;
    double *value;         /* rows * features, finite; NULL: features were not read */
    uint32_t *label;       /* rows, 0..CSV_LABEL_MAX; NULL: labels were not read */
    uint32_t label_column; /* from 0; CSV_NO_COLUMN: the file has none */
    uint32_t first_line;   /* of row 0, from 1; one line per row */
} csv_table;

/* Fields are separated by commas; spaces around them and CRLF are accepted, quotes are not. A first
 * row in which no field is a number is a header. `label` names the label's column by its number
 * from 1 or by its header; NULL: the last. Returns 0, or -1 and in message one line
 * FILE:ROW:COLUMN: what is wrong; what to do. */
int csv_read(csv_table *out, const char *path, const char *label, char *message,
             size_t message_cap);
/* Of a table whose columns belong to two: the features alone, of a file with the label's column or
 * without it, or the labels alone, of a file with features or without them. What is not asked for
 * is not looked at. Or rows of a table that has no label: features, and no column more. */
typedef enum csv_part { CSV_ALL, CSV_FEATURES, CSV_LABELS, CSV_ROWS } csv_part;
typedef struct csv_source {
    csv_part part;
    uint32_t features;                /* how many there must be; CSV_ALL: 0 */
    const char *file_name, *of_label; /* what messages call the two options; CSV_ROWS: no label */
} csv_source;
int csv_read_part(csv_table *out, const csv_source *source, const char *path, const char *label,
                  char *message, size_t message_cap);
void csv_free(csv_table *t);

/* Place in the file of a feature: its line and its column, from 1. */
uint32_t csv_line(const csv_table *t, uint32_t row);
uint32_t csv_column(const csv_table *t, uint32_t feature);

#endif
