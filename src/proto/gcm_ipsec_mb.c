/* SPDX-License-Identifier: Apache-2.0 */
/* gcm_ipsec_mb.c - AES-256-GCM by libIPSec_MB (intel-ipsec-mb), which has kernels for VAES and
 * VPCLMULQDQ: two to three times libcrypto 3.0's rate for large frames, six times for small ones.
 *
 * Of its manager only the table of functions is used, one for the process, which is never freed;
 * keys are the callers'. Machines without AES instructions, which it serves by tables, and those on
 * which its self-test fails are libcrypto's. */
#include "proto/gcm.h"

#ifdef UVCC_WITH_IPSEC_MB

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <uvcc/types.h>

enum { ALIGNMENT = 64 }; /* of a key */

static IMB_MGR *make_manager(void) {
    const uint64_t needed = IMB_FEATURE_SELF_TEST_PASS | IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
    IMB_MGR *m = alloc_mb_mgr(0);
    if (m == NULL)
        return NULL;
    init_mb_mgr_auto(m, NULL);
    if ((m->features & needed) == needed && imb_get_errno(m) == 0)
        return m;
    free_mb_mgr(m);
    return NULL;
}

/* Two threads may make one at the same time; one of them is kept. */
static IMB_MGR *manager(void) {
    static _Atomic(IMB_MGR *) kept;
    IMB_MGR *m = atomic_load(&kept), *none = NULL;
    if (m != NULL)
        return m;
    m = make_manager();
    if (m != NULL && !atomic_compare_exchange_strong(&kept, &none, m)) {
        free_mb_mgr(m);
        m = none;
    }
    return m;
}

/* A key and the room that it is aligned in. */
typedef struct aligned_key {
    struct gcm_key_data *key;
    uint8_t room[sizeof(struct gcm_key_data) + ALIGNMENT];
} aligned_key;

/* From libcrypto's allocator, as the keys of the other way. */
static void *open_key(const uint8_t key[32]) {
    IMB_MGR *m = manager();
    aligned_key *k = m != NULL ? OPENSSL_malloc(sizeof *k) : NULL;
    if (k == NULL)
        return NULL;
    k->key = (void *)(k->room + (ALIGNMENT - (uintptr_t)k->room % ALIGNMENT));
    IMB_AES256_GCM_PRE(m, key, k->key);
    return k;
}

static void close_key(void *k) {
    OPENSSL_clear_free(k, sizeof(aligned_key));
}

/* The library refuses NULL also where there is nothing to read. */
static int seal(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, void *out, uint8_t tag[16]) {
    struct gcm_context_data c;
    uint8_t none[16] = {0};
    IMB_AES256_GCM_ENC(manager(), ((aligned_key *)k)->key, &c, len != 0 ? out : none,
                       len != 0 ? in : none, len, nonce, ad_len != 0 ? ad : none, ad_len, tag,
                       UVCCI_TAG_BYTES);
    OPENSSL_cleanse(&c, sizeof c); /* it has the last block of the key stream */
    return 0;
}

static int open(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, const uint8_t tag[16], void *out) {
    struct gcm_context_data c;
    uint8_t none[16] = {0}, is[UVCCI_TAG_BYTES];
    IMB_AES256_GCM_DEC(manager(), ((aligned_key *)k)->key, &c, len != 0 ? out : none,
                       len != 0 ? in : none, len, nonce, ad_len != 0 ? ad : none, ad_len, is,
                       sizeof is);
    OPENSSL_cleanse(&c, sizeof c);
    const int rc = CRYPTO_memcmp(is, tag, sizeof is) == 0 ? 0 : UVCC_ERR_AUTH;
    OPENSSL_cleanse(is, sizeof is); /* the right tag of a forgery */
    if (rc != 0)
        OPENSSL_cleanse(out, len);
    return rc;
}

_Static_assert(sizeof(struct gcm_context_data) <= sizeof((uvcci_gcm_part *)0)->opaque,
               "a part holds the library's state");

static struct gcm_context_data *state_of(uvcci_gcm_part *part) {
    return (struct gcm_context_data *)(void *)part->opaque;
}

static void part_begin(void *k, uvcci_gcm_part *part, const uint8_t nonce[12], const void *ad,
                       size_t ad_len) {
    const uint8_t none[16] = {0};
    part->failed = false;
    IMB_AES256_GCM_INIT(manager(), ((aligned_key *)k)->key, state_of(part), nonce,
                        ad_len != 0 ? ad : none, ad_len);
}

static void open_more(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out) {
    if (len != 0)
        IMB_AES256_GCM_DEC_UPDATE(manager(), ((aligned_key *)k)->key, state_of(part), out, in, len);
}

static int open_end(void *k, uvcci_gcm_part *part, const uint8_t tag[16]) {
    uint8_t is[UVCCI_TAG_BYTES];
    IMB_AES256_GCM_DEC_FINALIZE(manager(), ((aligned_key *)k)->key, state_of(part), is, sizeof is);
    const int rc = CRYPTO_memcmp(is, tag, sizeof is) == 0 ? 0 : UVCC_ERR_AUTH;
    OPENSSL_cleanse(is, sizeof is);
    OPENSSL_cleanse(part, sizeof *part);
    return rc;
}

static void seal_more(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out) {
    if (len != 0)
        IMB_AES256_GCM_ENC_UPDATE(manager(), ((aligned_key *)k)->key, state_of(part), out, in, len);
}

static int seal_end(void *k, uvcci_gcm_part *part, uint8_t tag[16]) {
    IMB_AES256_GCM_ENC_FINALIZE(manager(), ((aligned_key *)k)->key, state_of(part), tag,
                                UVCCI_TAG_BYTES);
    OPENSSL_cleanse(part, sizeof *part);
    return 0;
}

const uvcci_gcm_way uvcci_gcm_ipsec_mb = {.name = "ipsec-mb",
                                          .shared = true,
                                          .open_key = open_key,
                                          .close_key = close_key,
                                          .seal = seal,
                                          .open = open,
                                          .open_begin = part_begin,
                                          .open_more = open_more,
                                          .open_end = open_end,
                                          .seal_begin = part_begin,
                                          .seal_more = seal_more,
                                          .seal_end = seal_end};

#else
/* An empty file is no C. */
typedef int uvcci_gcm_ipsec_mb_is_not_built;
#endif
