/* SPDX-License-Identifier: Apache-2.0 */
/* tree_hash.h - the tree digest of wire.md 8,
 *
 *     T(bytes) = H("UVCC_TREE_V1" || LE64(n) || H(chunk 0) || H(chunk 1) || ...),
 *
 * of n bytes in chunks of 4,096, the last one shorter, none where there are no bytes. Chunks do not
 * depend on each other, so wide registers hash sixteen at a time; those of several texts in one go
 * fill them. */
#ifndef UVCCI_TREE_HASH_H
#define UVCCI_TREE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/crypto.h"

enum { UVCCI_TREE_CHUNK = 4096, UVCCI_TREE_LANES = 16 };

typedef struct uvcci_tree_text {
    const uint8_t *data;
    size_t len;
    const void *user;
} uvcci_tree_text;

/* Gets T of a text; texts end in the order in which they were given. */
typedef void (*uvcci_tree_done)(const void *user, const uint8_t digest[32]);

typedef struct uvcci_tree_lane {
    uvcci_tree_text of;
    size_t at; /* where its chunk begins */
} uvcci_tree_lane;

/* Texts whose chunks wait until there are sixteen. */
typedef struct uvcci_tree {
    uvcci_tree_done done;
    uvcci_sha256 root; /* of the text that is half hashed */
    uvcci_tree_lane lane[UVCCI_TREE_LANES];
    unsigned count;
    bool wide;
} uvcci_tree;

/* wide: by AVX-512, which uvcci_tree_wide() must have found. */
void uvcci_tree_init(uvcci_tree *t, bool wide, uvcci_tree_done done);
/* data must stay until the text is done. */
void uvcci_tree_add(uvcci_tree *t, const uint8_t *data, size_t len, const void *user);
/* All texts are done after it. */
void uvcci_tree_end(uvcci_tree *t);
/* One text. */
void uvcci_tree_once(const void *data, size_t len, uint8_t out[32]);

/* What this processor has. */
bool uvcci_tree_wide(void);
/* sha256_x86.c: SHA-256 of sixteen whole chunks. */
void uvcci_sha256_chunks(const uint8_t *const chunk[UVCCI_TREE_LANES],
                         uint8_t digest[UVCCI_TREE_LANES][32]);

#if defined(__x86_64__) && defined(__GNUC__)
#define UVCCI_TREE_X86 1
#else
#define UVCCI_TREE_X86 0
#endif

#endif
