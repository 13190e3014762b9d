/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - little-endian loads and stores, bounded readers and writers. Header only, no state. */
#ifndef UVCCI_BYTES_H
#define UVCCI_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "uvcc shares and wire bytes are little-endian; a big-endian host needs swaps here"
#endif

static inline uint16_t uvcci_ld16(const void *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint32_t uvcci_ld32(const void *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline uint64_t uvcci_ld64(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void uvcci_st16(void *p, uint16_t v) {
    memcpy(p, &v, sizeof v);
}
static inline void uvcci_st32(void *p, uint32_t v) {
    memcpy(p, &v, sizeof v);
}
static inline void uvcci_st64(void *p, uint64_t v) {
    memcpy(p, &v, sizeof v);
}

/* Writer over a fixed buffer: overflow sets `bad` and writes nothing more. */
typedef struct uvcci_writer {
    uint8_t *p;
    size_t len, cap;
    bool bad;
} uvcci_writer;

static inline uvcci_writer uvcci_writer_on(void *buf, size_t cap) {
    return (uvcci_writer){.p = buf, .len = 0, .cap = cap, .bad = false};
}
static inline void uvcci_put(uvcci_writer *w, const void *src, size_t n) {
    if (w->bad || n > w->cap - w->len) {
        w->bad = true;
        return;
    }
    if (n != 0)
        memcpy(w->p + w->len, src, n);
    w->len += n;
}
static inline void uvcci_put8(uvcci_writer *w, uint8_t v) {
    uvcci_put(w, &v, 1);
}
static inline void uvcci_put16(uvcci_writer *w, uint16_t v) {
    uvcci_put(w, &v, 2);
}
static inline void uvcci_put32(uvcci_writer *w, uint32_t v) {
    uvcci_put(w, &v, 4);
}
static inline void uvcci_put64(uvcci_writer *w, uint64_t v) {
    uvcci_put(w, &v, 8);
}

/* Reader over given bytes: reading past the end sets `bad` and returns zeros. */
typedef struct uvcci_reader {
    const uint8_t *p;
    size_t len, at;
    bool bad;
} uvcci_reader;

static inline uvcci_reader uvcci_reader_on(const void *buf, size_t len) {
    return (uvcci_reader){.p = buf, .len = len, .at = 0, .bad = false};
}
static inline void uvcci_get(uvcci_reader *r, void *dst, size_t n) {
    if (r->bad || n > r->len - r->at) {
        r->bad = true;
        memset(dst, 0, n);
        return;
    }
    memcpy(dst, r->p + r->at, n);
    r->at += n;
}
static inline uint8_t uvcci_get8(uvcci_reader *r) {
    uint8_t v;
    uvcci_get(r, &v, 1);
    return v;
}
static inline uint16_t uvcci_get16(uvcci_reader *r) {
    uint16_t v;
    uvcci_get(r, &v, 2);
    return v;
}
static inline uint32_t uvcci_get32(uvcci_reader *r) {
    uint32_t v;
    uvcci_get(r, &v, 4);
    return v;
}
static inline uint64_t uvcci_get64(uvcci_reader *r) {
    uint64_t v;
    uvcci_get(r, &v, 8);
    return v;
}

#endif
