/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_bytes.c - tasks on bytes: digests, copies, wiping. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "exec/primitives/tree_hash.h"
#include "proto/crypto.h"

static void hash_plain(const uvcc_hash_item *h, const uint8_t *data, size_t len) {
    uvcci_sha256 s;
    uvcci_sha256_init(&s);
    uvcci_sha256_update(&s, h->prefix, h->prefix_len);
    uvcci_sha256_update(&s, data, len);
    uvcci_sha256_final(&s, h->out);
}

/* An item whose data's tree digest is known. */
static void hash_tree(const void *user, const uint8_t digest[32]) {
    const uvcc_hash_item *h = user;
    if (h->mode != UVCC_HASH_HMAC) {
        hash_plain(h, digest, 32);
        return;
    }
    uvcci_hmac m;
    uvcci_hmac_init(&m, h->key, sizeof h->key);
    uvcci_hmac_update(&m, h->prefix, h->prefix_len);
    uvcci_hmac_update(&m, digest, 32);
    uvcci_hmac_final(&m, h->out);
}

static int hash(uvcci_cpu_worker *w, const uvcc_task *t) {
    uvcci_tree tree;
    (void)w;
    uvcci_tree_init(&tree, uvcci_tree_wide(), hash_tree);
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uvcc_hash_item *h = &t->u.hash.items[i];
        assert(h->out != NULL && (h->len == 0 || h->data != NULL));
        if (h->mode == UVCC_HASH_PLAIN)
            hash_plain(h, h->data, h->len);
        else
            uvcci_tree_add(&tree, h->data, h->len, h);
    }
    uvcci_tree_end(&tree);
    return 0;
}

/* A task that copies so much finds little of what it writes in a cache, and leaves little there for
 * who reads it. */
#define FAR_BYTES ((size_t)1 << 20)

/* Sanitizers do not see what is written past the caches, so with one nothing is. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__SSE2__)
#define WRITES_FAR 0
#elif defined(__has_feature)
#define WRITES_FAR (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define WRITES_FAR 1
#endif

#if WRITES_FAR
/* Whole lines are written past the caches: none is read from memory to be overwritten. */
static void copy_far(uint8_t *to, const uint8_t *from, size_t len) {
    enum { LINE = 64, WORD = 16 };
    const size_t head = (size_t)(-(uintptr_t)to % LINE);
    if (len < head + LINE) {
        memcpy(to, from, len);
        return;
    }
    memcpy(to, from, head);
    size_t at = head;
    for (; at + LINE <= len; at += LINE)
        for (size_t i = 0; i < LINE; i += WORD)
            _mm_stream_si128((__m128i *)(void *)(to + at + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(from + at + i)));
    memcpy(to + at, from + at, len - at);
}

static void copy_far_end(void) {
    _mm_sfence();
}
#else
static void copy_far(uint8_t *to, const uint8_t *from, size_t len) {
    memcpy(to, from, len);
}

static void copy_far_end(void) {}
#endif

static int copy(uvcci_cpu_worker *w, const uvcc_task *t) {
    const uvcc_copy_item *items = t->u.copy.items;
    size_t bytes = 0;
    (void)w;
    for (uint32_t i = 0; i < t->u.copy.count; i++)
        bytes += items[i].len;
    const bool far = bytes >= FAR_BYTES;
    for (uint32_t i = 0; i < t->u.copy.count; i++) {
        if (items[i].len == 0)
            continue;
        if (far)
            copy_far(items[i].dst, items[i].src, items[i].len);
        else
            memcpy(items[i].dst, items[i].src, items[i].len);
    }
    if (far)
        copy_far_end();
    return 0;
}

static int wipe(uvcci_cpu_worker *w, const uvcc_task *t) {
    (void)w;
    for (uint32_t i = 0; i < t->u.copy.count; i++)
        if (t->u.copy.items[i].len != 0)
            uvcci_wipe(t->u.copy.items[i].dst, t->u.copy.items[i].len);
    return 0;
}

const uvcci_kernel uvcci_kernels_bytes[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_HASH] = {.task = hash},
    [UVCC_TASK_COPY] = {.task = copy},
    [UVCC_TASK_WIPE] = {.task = wipe},
};
