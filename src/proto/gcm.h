/* SPDX-License-Identifier: Apache-2.0 */
/* gcm.h - AES-256-GCM by one of several libraries, all of which give the same bytes. Nonces have 12
 * bytes, tags 16. */
#ifndef UVCCI_GCM_H
#define UVCCI_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UVCCI_TAG_BYTES 16u

/* A piece that is being sealed or opened in parts: a library's state, 16-byte aligned. */
typedef struct uvcci_gcm_part {
    _Alignas(16) uint8_t opaque[112];
    bool failed; /* in a call without an answer: the end says so */
} uvcci_gcm_part;

typedef struct uvcci_gcm_way {
    const char *name;
    bool
        shared; /* a key may be in use by several threads at a time, by all calls but close_key() */
    /* What belongs to one key, or NULL. */
    void *(*open_key)(const uint8_t key[32]);
    void (*close_key)(void *k); /* wipes; NULL is allowed */
    /* in == out is allowed. 0, UVCC_ERR_CRYPTO, or of open UVCC_ERR_AUTH; then nothing usable is
     * left in out. Lengths are below 2^31. */
    int (*seal)(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, void *out, uint8_t tag[16]);
    int (*open)(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, const uint8_t tag[16], void *out);
    /* The same of a piece that comes in parts: if a key is not shared one at a time, and no other
     * call of it but seal() between. What is in out means nothing before the end, which wipes
     * `part`. */
    void (*open_begin)(void *k, uvcci_gcm_part *part, const uint8_t nonce[12], const void *ad,
                       size_t ad_len);
    void (*open_more)(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out);
    int (*open_end)(void *k, uvcci_gcm_part *part, const uint8_t tag[16]);
    /* A piece sealed in parts; if a key is not shared no other seal of it between. An error may
     * have left in `out` what was in `in`. */
    void (*seal_begin)(void *k, uvcci_gcm_part *part, const uint8_t nonce[12], const void *ad,
                       size_t ad_len);
    void (*seal_more)(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out);
    int (*seal_end)(void *k, uvcci_gcm_part *part, uint8_t tag[16]);
} uvcci_gcm_way;

extern const uvcci_gcm_way uvcci_gcm_libcrypto;
#ifdef UVCC_WITH_IPSEC_MB /* set for src/proto alone */
extern const uvcci_gcm_way uvcci_gcm_ipsec_mb;
#endif
/* Those that are built, the fastest first; NULL beyond the last. */
const uvcci_gcm_way *uvcci_gcm_way_at(size_t i);

#endif
