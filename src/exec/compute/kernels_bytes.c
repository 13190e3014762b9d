/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_bytes.c - tasks on bytes: digests, copies, wiping. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

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

static int copy(uvcci_cpu_worker *w, const uvcc_task *t) {
    (void)w;
    for (uint32_t i = 0; i < t->u.copy.count; i++)
        if (t->u.copy.items[i].len != 0)
            memcpy(t->u.copy.items[i].dst, t->u.copy.items[i].src, t->u.copy.items[i].len);
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
