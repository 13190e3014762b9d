/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - what the fuzz targets share: a reader over the input's bytes, checks, an allocator
 * that counts and can fail, a seeded random hook that can fail.
 *
 * A target is one file with LLVMFuzzerTestOneInput(). It is a pure function of its input: no clock,
 * no environment, nothing kept from one input to the next but constants. */
#ifndef UVCC_FUZZ_COMMON_H
#define UVCC_FUZZ_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/types.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_MS UINT64_C(1000000)

/* A property does not hold: the input is a finding. */
#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fuzz_fail(__FILE__, __LINE__, #condition);                                             \
    } while (0)

static inline _Noreturn void fuzz_fail(const char *file, int line, const char *what) {
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

/* ---- the input ---- */

/* Reads zeros past the end, so a program of inputs just ends there. */
typedef struct fuzz_in {
    const uint8_t *at;
    size_t left;
} fuzz_in;

static inline uint8_t fuzz_u8(fuzz_in *in) {
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}
static inline uint16_t fuzz_u16(fuzz_in *in) {
    uint16_t low = fuzz_u8(in);
    return (uint16_t)(low | fuzz_u8(in) << 8);
}
static inline uint32_t fuzz_u32(fuzz_in *in) {
    uint32_t low = fuzz_u16(in);
    return low | (uint32_t)fuzz_u16(in) << 16;
}
static inline uint64_t fuzz_u64(fuzz_in *in) {
    uint64_t low = fuzz_u32(in);
    return low | (uint64_t)fuzz_u32(in) << 32;
}
/* The next n bytes, or what is left of them. */
static inline const uint8_t *fuzz_take(fuzz_in *in, size_t n, size_t *got) {
    const uint8_t *p = in->at;
    *got = n < in->left ? n : in->left;
    in->at += *got;
    in->left -= *got;
    return p;
}

/* Bytes in a block of their own, so that a sanitizer sees reads past the end. free() it. */
static inline uint8_t *fuzz_copy(const uint8_t *data, size_t len) {
    uint8_t *p = calloc(len == 0 ? 1 : len, 1);
    if (p == NULL)
        abort();
    if (len != 0)
        memcpy(p, data, len);
    return p;
}

/* ---- memory ---- */

/* Counts what is out and checks what comes back. fail_in: that many calls from now one fails (0:
 * none does); above `limit` all do (0: no limit). */
typedef struct fuzz_mem {
    size_t live_bytes, live_blocks, peak_bytes, limit;
    uint64_t fail_in, failed;
} fuzz_mem;

#define FUZZ_MEM_HEAD 64u /* the alignment that the library asks for */
#define FUZZ_MEM_MARK UINT64_C(0x5CA1AB1E0DDBA115)

static inline void *fuzz_mem_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    fuzz_mem *m = user;
    void *block;
    FUZZ_CHECK(bytes != 0);
    if ((m->fail_in != 0 && --m->fail_in == 0) || bytes > SIZE_MAX / 2 ||
        (m->limit != 0 && m->live_bytes + bytes > m->limit) ||
        posix_memalign(&block, FUZZ_MEM_HEAD, FUZZ_MEM_HEAD + bytes) != 0) {
        m->failed++;
        return NULL;
    }
    uint64_t head[3] = {FUZZ_MEM_MARK, bytes, cls};
    memcpy(block, head, sizeof head);
    uint8_t *p = (uint8_t *)block + FUZZ_MEM_HEAD;
    memset(p, 0xA5, bytes < 4096 ? bytes : 4096); /* nothing may count on zeros */
    m->live_bytes += bytes;
    m->live_blocks++;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    return p;
}

static inline void fuzz_mem_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    fuzz_mem *m = user;
    uint64_t head[3];
    if (p == NULL)
        return;
    uint8_t *block = (uint8_t *)p - FUZZ_MEM_HEAD;
    memcpy(head, block, sizeof head);
    FUZZ_CHECK(head[0] == FUZZ_MEM_MARK && head[1] == bytes && head[2] == (uint64_t)cls);
    memset(block, 0, sizeof head);
    m->live_bytes -= bytes;
    m->live_blocks--;
    free(block);
}

static inline uvcc_allocator fuzz_allocator(fuzz_mem *m) {
    return (uvcc_allocator){.alloc = fuzz_mem_alloc, .free = fuzz_mem_free, .user = m};
}

/* ---- random bytes ---- */

typedef struct fuzz_rng {
    uint64_t state;
    uint32_t fail_in; /* as in fuzz_mem */
    uint32_t failed;
} fuzz_rng;

static inline uint64_t fuzz_next(uint64_t *state) { /* splitmix64 */
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

static inline int fuzz_rng_fill(void *user, void *out, size_t bytes) {
    fuzz_rng *r = user;
    uint8_t *p = out;
    if (r->fail_in != 0 && --r->fail_in == 0) {
        r->failed++;
        return UVCC_ERR_RANDOM;
    }
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(fuzz_next(&r->state) >> 24);
    return 0;
}

static inline uvcc_random fuzz_random(fuzz_rng *r) {
    return (uvcc_random){.fill = fuzz_rng_fill, .user = r};
}

/* Pieces that a host would share among threads, in another order than asked for. */
static inline void fuzz_backwards(void *user, void (*item)(void *arg, uint32_t i), void *arg,
                                  uint32_t count) {
    (void)user;
    while (count != 0)
        item(arg, --count);
}

#endif
