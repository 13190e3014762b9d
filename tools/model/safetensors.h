/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h - reads files of the format safetensors: 8 bytes, little-endian, the length of a
 * header; the header, a JSON object {name: {"dtype", "shape", "data_offsets": [from, to]}} with an
 * optional "__metadata__" of strings; then the values, row by row, little-endian, without gaps.
 * Format: https://github.com/huggingface/safetensors, "Format".
 *
 * Nothing is believed: the header is at most 100 MB, members are those three, no name comes twice,
 * every byte after the header belongs to exactly one tensor, and its bytes are as many as its shape
 * and type say. A file is mapped read only; whoever cuts it while it is read ends the process. */
#ifndef UVCC_TOOLS_MODEL_SAFETENSORS_H
#define UVCC_TOOLS_MODEL_SAFETENSORS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "map.h"

#define ST_HEADER_BYTES_MAX 100000000u
enum { ST_RANK_MAX = 8 };

/* Those that hold real numbers come first. */
typedef enum st_dtype {
    ST_F64,
    ST_F32,
    ST_F16,
    ST_BF16,
    ST_REAL_END,
    ST_I64 = ST_REAL_END,
    ST_I32,
    ST_I16,
    ST_I8,
    ST_U64,
    ST_U32,
    ST_U16,
    ST_U8,
    ST_BOOL,
    ST_F8_E5M2,
    ST_F8_E4M3,
    ST_DTYPES
} st_dtype;

typedef struct st_tensor {
    const char *name; /* the file's */
    st_dtype dtype;
    uint32_t rank;
    uint64_t shape[ST_RANK_MAX];
    uint64_t elements;
    const uint8_t *bytes; /* the file's, of any alignment */
} st_tensor;

typedef struct st_file {
    st_tensor *tensor; /* in the order of their bytes */
    size_t count;
    json_t *header; /* has the names */
    file_map map;   /* empty: the bytes are the caller's */
    char *path;     /* of one that was opened; else NULL */
} st_file;

/* Of bytes that stay the caller's and in their place. 0, or -1 and one line, which begins with
 * `path`. */
int st_parse(st_file *out, const uint8_t *bytes, size_t len, const char *path,
             const flag_message *m);
int st_open(st_file *out, const char *path, const flag_message *m);
void st_close(st_file *f);

/* NULL: there is none. */
const st_tensor *st_find(const st_file *f, const char *name);
/* "F32", as files have it. */
const char *st_dtype_name(st_dtype d);
bool st_is_real(const st_tensor *t);
/* "2 x 3"; "a number": no dimensions. */
#define ST_SHAPE_BYTES 192u
const char *st_shape_text(const st_tensor *t, char out[ST_SHAPE_BYTES]);
/* `count` values from number `from` on, of a tensor of real numbers, exactly. */
void st_reals(const st_tensor *t, uint64_t from, uint64_t count, double *out);
/* Value i of a tensor of I64. */
int64_t st_integer(const st_tensor *t, uint64_t i);

#endif
