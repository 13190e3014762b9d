/* SPDX-License-Identifier: Apache-2.0 */
/* support.h - what the unit tests share: cmocka's preamble, vectors from JSON, hex, a counting and
 * failing allocator, a seeded random hook, memory with an edge, tensors of programs. */
#ifndef UVCC_TEST_SUPPORT_H
#define UVCC_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <uvcc/program.h>

/* Whether a sanitizer looks on. Tests take several times as long then, so where cases are many of a
 * kind a test may try a part of them under one; without one it tries all. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif
/* ASan alone. */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED_ADDRESSES 1
#elif defined(__has_feature)
#define SANITIZED_ADDRESSES __has_feature(address_sanitizer)
#else
#define SANITIZED_ADDRESSES 0
#endif

/* Loads UVCC_VECTORS_DIR/name or fails the test. Caller json_decref()s. */
#define LOAD_VECTORS(name) test_load_json(UVCC_VECTORS_DIR "/" name)
json_t *test_load_json(const char *path);

/* Object members; a missing one fails the test. */
const char *test_str(const json_t *o, const char *key);
uint64_t test_u64(const json_t *o, const char *key); /* a JSON integer */
uint64_t test_hex64(const char *hex);                /* most significant digit first */
/* Bytes of a hex string; returns their number. *out is malloc()ed. */
size_t test_hex(const char *hex, uint8_t **out);
/* Bytes of a hex string of exactly n bytes. */
void test_hex_n(const char *hex, uint8_t *out, size_t n);

/* A tensor of a program, which takes it. */
uint32_t test_tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                     uint8_t scale, uint8_t lifetime);

/* splitmix64: a seeded stream for property tests. */
uint64_t test_rand(uint64_t *state);
void test_rand_bytes(uint64_t *state, void *out, size_t n);

/* Allocator that counts live bytes and blocks, and can fail the i-th call from now (0 = never). */
typedef struct test_alloc {
    size_t live_bytes, live_blocks, peak_bytes, calls;
    size_t fail_at;
    void (*freed)(void *user, const void *p, size_t bytes); /* before it is; may be NULL */
    void *freed_user;
} test_alloc;
uvcc_allocator test_allocator(test_alloc *t);
/* Random hook over test_rand. */
uvcc_random test_random(uint64_t *state);

/* A copy of n bytes that ends `gap` bytes before a page that nobody may touch: an access beyond
 * ends the test, a masked one of vector registers too, which not all sanitizers see. */
typedef struct test_edge {
    void *at, *map;
    size_t map_bytes;
} test_edge;
test_edge test_edge_copy(const void *bytes, size_t n, size_t gap);
void test_edge_free(const test_edge *e);

/* Bytes that grow, in doubled room: a log that a session writes. `user` of test_append is one of
 * these. */
typedef struct test_bytes {
    uint8_t *p;
    size_t len, room;
} test_bytes;
void test_append(void *user, const uint8_t *p, size_t len);
void test_bytes_free(test_bytes *b);

/* A directory with all that is in it. */
void test_remove_all(const char *dir);

#endif
