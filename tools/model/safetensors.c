/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.c - see safetensors.h. */
#include "safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, NAME_SHOWN = 200 };

static const struct {
    const char *name;
    unsigned bytes;
} dtypes[ST_DTYPES] = {
    [ST_F64] = {"F64", 8},   [ST_F32] = {"F32", 4},         [ST_F16] = {"F16", 2},
    [ST_BF16] = {"BF16", 2}, [ST_I64] = {"I64", 8},         [ST_I32] = {"I32", 4},
    [ST_I16] = {"I16", 2},   [ST_I8] = {"I8", 1},           [ST_U64] = {"U64", 8},
    [ST_U32] = {"U32", 4},   [ST_U16] = {"U16", 2},         [ST_U8] = {"U8", 1},
    [ST_BOOL] = {"BOOL", 1}, [ST_F8_E5M2] = {"F8_E5M2", 1}, [ST_F8_E4M3] = {"F8_E4M3", 1},
};

/* What is being read, for lines about it. */
typedef struct reader {
    const char *path;
    const uint8_t *data; /* behind the header */
    uint64_t data_len;
    const flag_message *m;
} reader;

/* ---- one tensor ---- */

static int bad(const reader *r, const char *name, const char *what) {
    return flag_fail(r->m, "%s: tensor '%.*s': %s", r->path, NAME_SHOWN, name, what);
}

static int take_dtype(const reader *r, const json_t *o, st_tensor *t) {
    const char *text = json_string_value(json_object_get(o, "dtype"));
    if (text == NULL)
        return bad(r, t->name, "dtype is missing, or no string");
    for (unsigned d = 0; d < ST_DTYPES; d++)
        if (strcmp(dtypes[d].name, text) == 0) {
            t->dtype = (st_dtype)d;
            return 0;
        }
    return flag_fail(r->m, "%s: tensor '%.*s': dtype '%.20s' is not known", r->path, NAME_SHOWN,
                     t->name, text);
}

/* A whole number of at least 0. */
static bool take_size(const json_t *v, uint64_t *out) {
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static int take_shape(const reader *r, const json_t *o, st_tensor *t) {
    const json_t *shape = json_object_get(o, "shape");
    if (!json_is_array(shape))
        return bad(r, t->name, "shape is missing, or no array");
    if (json_array_size(shape) > ST_RANK_MAX)
        return bad(r, t->name, "shape has more than 8 dimensions");
    t->rank = (uint32_t)json_array_size(shape);
    t->elements = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (!take_size(json_array_get(shape, i), &t->shape[i]))
            return bad(r, t->name, "shape has what is no whole number of 0 or more");
        if (__builtin_mul_overflow(t->elements, t->shape[i], &t->elements))
            return bad(r, t->name, "shape has more elements than there can be");
    }
    return 0;
}

static int take_place(const reader *r, const json_t *o, st_tensor *t) {
    const json_t *offsets = json_object_get(o, "data_offsets");
    uint64_t from, to, bytes;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !take_size(json_array_get(offsets, 0), &from) ||
        !take_size(json_array_get(offsets, 1), &to))
        return bad(r, t->name, "data_offsets is missing, or not two whole numbers of 0 or more");
    if (from > to || to > r->data_len)
        return flag_fail(r->m,
                         "%s: tensor '%.*s': data_offsets %llu to %llu are not within the %llu "
                         "bytes of values; the file may be cut",
                         r->path, NAME_SHOWN, t->name, (unsigned long long)from,
                         (unsigned long long)to, (unsigned long long)r->data_len);
    if (__builtin_mul_overflow(t->elements, dtypes[t->dtype].bytes, &bytes) || bytes != to - from)
        return bad(r, t->name, "shape and dtype are not of as many bytes as data_offsets");
    t->bytes = r->data + from;
    return 0;
}

static int take_tensor(const reader *r, const char *name, const json_t *o, st_tensor *t) {
    const char *key;
    json_t *value;
    t->name = name;
    if (!json_is_object(o))
        return bad(r, name, "is no object");
    json_object_foreach((json_t *)(uintptr_t)o, key, value) {
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0)
            return bad(r, name, "has members other than dtype, shape and data_offsets");
    }
    if (take_dtype(r, o, t) != 0 || take_shape(r, o, t) != 0)
        return -1;
    return take_place(r, o, t);
}

/* ---- all of them ---- */

static int by_place(const void *a, const void *b) {
    const st_tensor *s = a, *t = b;
    if (s->bytes != t->bytes)
        return s->bytes < t->bytes ? -1 : 1;
    const uint64_t n = s->elements * dtypes[s->dtype].bytes,
                   k = t->elements * dtypes[t->dtype].bytes;
    return n < k ? -1 : n > k;
}

/* Every byte of the values belongs to one tensor. */
static int check_places(const reader *r, st_file *f) {
    const uint8_t *at = r->data;
    if (f->count != 0)
        qsort(f->tensor, f->count, sizeof *f->tensor, by_place);
    for (size_t i = 0; i < f->count; i++) {
        const st_tensor *t = &f->tensor[i];
        if (t->bytes != at)
            return bad(r, t->name,
                       t->bytes < at ? "shares bytes with another tensor"
                                     : "has bytes before it that belong to no tensor");
        at += t->elements * dtypes[t->dtype].bytes;
    }
    if (at != r->data + r->data_len)
        return flag_fail(r->m, "%s: has %llu bytes at its end that belong to no tensor", r->path,
                         (unsigned long long)(r->data + r->data_len - at));
    return 0;
}

static int check_metadata(const reader *r, const json_t *meta) {
    const char *key;
    json_t *value;
    if (!json_is_object(meta))
        return flag_fail(r->m, "%s: __metadata__ is no object", r->path);
    json_object_foreach((json_t *)(uintptr_t)meta, key, value) {
        if (!json_is_string(value))
            return flag_fail(r->m, "%s: __metadata__ has what is no string: '%.*s'", r->path,
                             NAME_SHOWN, key);
    }
    return 0;
}

static int take_header(const reader *r, st_file *f) {
    const char *name;
    json_t *value;
    f->tensor = calloc(json_object_size(f->header) + 1, sizeof *f->tensor);
    if (f->tensor == NULL)
        return flag_fail(r->m, "%s: out of memory", r->path);
    json_object_foreach(f->header, name, value) {
        if (strcmp(name, "__metadata__") == 0) {
            if (check_metadata(r, value) != 0)
                return -1;
        } else if (take_tensor(r, name, value, &f->tensor[f->count++]) != 0) {
            return -1;
        }
    }
    return check_places(r, f);
}

/* A header may end in blanks, and in nothing else. */
int st_parse(st_file *out, const uint8_t *bytes, size_t len, const char *path,
             const flag_message *m) {
    uint64_t header = 0;
    json_error_t error;
    *out = (st_file){0};
    if (len < LENGTH_BYTES)
        return flag_fail(m, "%s: is too short for a safetensors file", path);
    for (unsigned i = LENGTH_BYTES; i-- > 0;)
        header = header << 8 | bytes[i];
    if (header > ST_HEADER_BYTES_MAX)
        return flag_fail(m, "%s: is no safetensors file: its header would have %llu bytes", path,
                         (unsigned long long)header);
    if (header > len - LENGTH_BYTES)
        return flag_fail(m, "%s: is cut within its header", path);
    const reader r = {.path = path,
                      .data = bytes + LENGTH_BYTES + header,
                      .data_len = len - LENGTH_BYTES - header,
                      .m = m};
    if (header == 0 || bytes[LENGTH_BYTES] != '{')
        return flag_fail(m, "%s: is no safetensors file: its header is no JSON object", path);
    out->header = json_loadb((const char *)bytes + LENGTH_BYTES, (size_t)header,
                             JSON_REJECT_DUPLICATES, &error);
    if (out->header == NULL)
        return flag_fail(m, "%s: its header is no JSON object: %s", path, error.text);
    const int rc = take_header(&r, out);
    if (rc != 0)
        st_close(out);
    return rc;
}

/* ---- files ---- */

int st_open(st_file *out, const char *path, const flag_message *m) {
    file_map map;
    *out = (st_file){0};
    int rc = map_open(&map, path, m);
    if (rc == 0)
        rc = st_parse(out, map.bytes, map.len, path, m);
    if (rc == 0)
        out->map = map;
    else
        map_close(&map);
    if (rc == 0 && (out->path = strdup(path)) == NULL) {
        st_close(out);
        rc = flag_fail(m, "out of memory");
    }
    return rc;
}

void st_close(st_file *f) {
    map_close(&f->map);
    free(f->tensor);
    free(f->path);
    json_decref(f->header);
    *f = (st_file){0};
}

/* ---- what is in them ---- */

const st_tensor *st_find(const st_file *f, const char *name) {
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->tensor[i].name, name) == 0)
            return &f->tensor[i];
    return NULL;
}

const char *st_dtype_name(st_dtype d) {
    return dtypes[d].name;
}

bool st_is_real(const st_tensor *t) {
    return t->dtype < ST_REAL_END;
}

const char *st_shape_text(const st_tensor *t, char out[ST_SHAPE_BYTES]) {
    size_t at = 0;
    (void)snprintf(out, ST_SHAPE_BYTES, "a number");
    for (uint32_t i = 0; i < t->rank; i++)
        at += (size_t)snprintf(out + at, ST_SHAPE_BYTES - at, "%s%llu", i == 0 ? "" : " x ",
                               (unsigned long long)t->shape[i]);
    return out;
}

/* Sign, 5 bits of exponent, 10 of fraction; C17 has no such type. */
static double half(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent == 31  ? (fraction != 0 ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return h >> 15 ? -v : v;
}

void st_reals(const st_tensor *t, uint64_t from, uint64_t count, double *out) {
    const unsigned size = dtypes[t->dtype].bytes;
    const uint8_t *at = t->bytes + from * size;
    for (uint64_t i = 0; i < count; i++, at += size) {
        uint64_t whole = 0;
        uint32_t word = 0;
        uint16_t shorter = 0;
        float single;
        switch (t->dtype) {
        case ST_F64:
            memcpy(&whole, at, sizeof whole);
            memcpy(&out[i], &whole, sizeof whole);
            break;
        case ST_F32:
            memcpy(&single, at, sizeof single);
            out[i] = (double)single;
            break;
        case ST_F16:
            memcpy(&shorter, at, sizeof shorter);
            out[i] = half(shorter);
            break;
        default: /* BF16: the upper half of an F32 */
            memcpy(&shorter, at, sizeof shorter);
            word = (uint32_t)shorter << 16;
            memcpy(&single, &word, sizeof single);
            out[i] = (double)single;
        }
    }
}

int64_t st_integer(const st_tensor *t, uint64_t i) {
    int64_t v;
    memcpy(&v, t->bytes + i * sizeof v, sizeof v);
    return v;
}
