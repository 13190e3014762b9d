/* SPDX-License-Identifier: Apache-2.0 */
/* tree_hash.c - see tree_hash.h. */
#include "exec/primitives/tree_hash.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"

/* Sixteen lanes take as long as about this many chunks one after the other. */
enum { WIDE_LEAST = 9 };

static const char label[] = "UVCC_TREE_V1";

bool uvcci_tree_wide(void) {
#if UVCCI_TREE_X86
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
    return false;
#endif
}

void uvcci_tree_init(uvcci_tree *t, bool wide, uvcci_tree_done done) {
    t->done = done;
    t->count = 0;
    t->wide = wide;
}

static size_t chunk_len(const uvcci_tree_lane *l) {
    const size_t left = l->of.len - l->at;
    return left < UVCCI_TREE_CHUNK ? left : UVCCI_TREE_CHUNK;
}

/* The digests of whole chunks, side by side if there are enough of them: a bit for each lane that
 * has its own now. */
static unsigned hash_whole(const uvcci_tree *t, uint8_t digest[UVCCI_TREE_LANES][32]) {
    unsigned found = 0;
#if UVCCI_TREE_X86
    const uint8_t *whole[UVCCI_TREE_LANES];
    uint8_t out[UVCCI_TREE_LANES][32];
    unsigned n = 0;
    for (unsigned i = 0; i < t->count && t->wide; i++)
        if (chunk_len(&t->lane[i]) == UVCCI_TREE_CHUNK) {
            found |= 1u << i;
            whole[n++] = t->lane[i].of.data + t->lane[i].at;
        }
    if (n < WIDE_LEAST)
        return 0;
    for (unsigned i = n; i < UVCCI_TREE_LANES; i++)
        whole[i] = whole[0];
    uvcci_sha256_chunks(whole, out);
    for (unsigned i = 0, k = 0; i < t->count; i++)
        if ((found >> i & 1) != 0)
            memcpy(digest[i], out[k++], 32);
#else
    (void)t, (void)digest;
#endif
    return found;
}

/* The digests of all lanes' chunks. */
static void hash_chunks(const uvcci_tree *t, uint8_t digest[UVCCI_TREE_LANES][32]) {
    const unsigned found = hash_whole(t, digest);
    for (unsigned i = 0; i < t->count; i++) {
        const uvcci_tree_lane *l = &t->lane[i];
        if ((found >> i & 1) == 0)
            uvcci_sha256_once(l->of.data + l->at, chunk_len(l), digest[i]);
    }
}

static void begin_root(uvcci_sha256 *root, uint64_t len) {
    uint8_t le[8];
    uvcci_st64(le, len);
    uvcci_sha256_init(root);
    uvcci_sha256_update(root, label, sizeof label - 1);
    uvcci_sha256_update(root, le, sizeof le);
}

static void end_root(uvcci_tree *t, const void *user) {
    uint8_t digest[32];
    uvcci_sha256_final(&t->root, digest);
    t->done(user, digest);
}

void uvcci_tree_end(uvcci_tree *t) {
    uint8_t digest[UVCCI_TREE_LANES][32];
    hash_chunks(t, digest);
    for (unsigned i = 0; i < t->count; i++) {
        const uvcci_tree_lane *l = &t->lane[i];
        if (l->at == 0)
            begin_root(&t->root, l->of.len);
        uvcci_sha256_update(&t->root, digest[i], 32);
        if (l->at + chunk_len(l) == l->of.len)
            end_root(t, l->of.user);
    }
    t->count = 0;
}

void uvcci_tree_add(uvcci_tree *t, const uint8_t *data, size_t len, const void *user) {
    assert(len == 0 || data != NULL);
    if (len == 0) {
        uvcci_tree_end(t); /* those before it come first */
        begin_root(&t->root, 0);
        end_root(t, user);
    }
    for (size_t at = 0; at < len; at += UVCCI_TREE_CHUNK) {
        t->lane[t->count++] = (uvcci_tree_lane){.of = {data, len, user}, .at = at};
        if (t->count == UVCCI_TREE_LANES)
            uvcci_tree_end(t);
    }
}

typedef struct place {
    uint8_t *out;
} place;

static void keep(const void *user, const uint8_t digest[32]) {
    const place *p = user;
    memcpy(p->out, digest, 32);
}

void uvcci_tree_once(const void *data, size_t len, uint8_t out[32]) {
    const place to = {out};
    uvcci_tree t;
    uvcci_tree_init(&t, uvcci_tree_wide(), keep);
    uvcci_tree_add(&t, data, len, &to);
    uvcci_tree_end(&t);
}
