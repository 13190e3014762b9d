/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.h - every call of libsodium, libcrypto and libIPSec_MB stands behind this file. Stateless
 * but for the contexts that the caller holds. */
#ifndef UVCCI_CRYPTO_H
#define UVCCI_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/types.h>

#include "proto/gcm.h"

typedef struct uvcci_sha256 {
    _Alignas(16) uint8_t opaque[128]; /* a libcrypto SHA256_CTX; crypto.c asserts that it fits */
} uvcci_sha256;

void uvcci_sha256_init(uvcci_sha256 *h);
void uvcci_sha256_update(uvcci_sha256 *h, const void *data, size_t len);
void uvcci_sha256_final(uvcci_sha256 *h, uint8_t out[32]);
void uvcci_sha256_once(const void *data, size_t len, uint8_t out[32]);

/* HMAC-SHA256 (RFC 2104); incremental over segments. */
typedef struct uvcci_hmac {
    uvcci_sha256 inner, outer;
} uvcci_hmac;
void uvcci_hmac_init(uvcci_hmac *m, const void *key, size_t key_len);
void uvcci_hmac_update(uvcci_hmac *m, const void *data, size_t len);
void uvcci_hmac_final(uvcci_hmac *m, uint8_t out[32]);
void uvcci_hmac_once(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t out[32]);

/* HKDF-SHA256 (RFC 5869). expand: out_len <= 255*32. */
void uvcci_hkdf_extract(const void *salt, size_t salt_len, const void *ikm, size_t ikm_len,
                        uint8_t prk[32]);
int uvcci_hkdf_expand(const uint8_t prk[32], const void *info, size_t info_len, void *out,
                      size_t out_len);

enum { UVCCI_SUITE_CHACHA20_POLY1305 = 1, UVCCI_SUITE_AES256_GCM = 2 };

/* AEAD of a data frame: 12-byte nonce LE32(0) || LE64(seq). The context keeps the expanded key of
 * one (suite, key); suite 2 holds an object of a library, so free it. */
typedef struct uvcci_aead {
    uint8_t suite;
    uint8_t key[32];
    const uvcci_gcm_way *gcm; /* suite 2 */
    void *gcm_key;            /* its object */
} uvcci_aead;
int uvcci_aead_init(uvcci_aead *a, uint8_t suite, const uint8_t key[32]);
/* Suite 2 by one library, for tests; uvcci_aead_init() takes the fastest that works. */
int uvcci_aead_init_gcm(uvcci_aead *a, const uvcci_gcm_way *way, const uint8_t key[32]);
void uvcci_aead_free(uvcci_aead *a); /* wipes; safe on a zeroed struct */
/* Several threads may seal and open with it at a time. */
bool uvcci_aead_is_shared(const uvcci_aead *a);
/* Detached tag, so that a message can be sealed where it stands: in == out is allowed. */
int uvcci_aead_seal(uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len, const void *in,
                    size_t len, void *out, uint8_t tag[16]);
/* UVCC_ERR_AUTH leaves nothing usable in out. */
int uvcci_aead_open(uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len, const void *in,
                    size_t len, const uint8_t tag[16], void *out);

/* The same of a piece that comes in parts, of a key that is not shared one after the other. False:
 * the suite has no such way; open it when it is whole. What is in out means nothing before the end
 * said 0, and is the caller's to wipe if it does not. */
bool uvcci_aead_open_begin(uvcci_aead *a, uvcci_gcm_part *part, uint64_t seq, const void *ad,
                           size_t ad_len);
void uvcci_aead_open_more(uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
                          void *out);
int uvcci_aead_open_end(uvcci_aead *a, uvcci_gcm_part *part, const uint8_t tag[16]);
/* And of one that is sealed in parts. An error may have left in `out` what was in `in`. */
bool uvcci_aead_seal_begin(uvcci_aead *a, uvcci_gcm_part *part, uint64_t seq, const void *ad,
                           size_t ad_len);
void uvcci_aead_seal_more(uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
                          void *out);
int uvcci_aead_seal_end(uvcci_aead *a, uvcci_gcm_part *part, uint8_t tag[16]);

/* XChaCha20-Poly1305 for control frames: 24-byte nonce given apart. */
int uvcci_xaead_seal(const uint8_t key[32], const uint8_t nonce[24], const void *ad, size_t ad_len,
                     const void *in, size_t len, void *out);
int uvcci_xaead_open(const uint8_t key[32], const uint8_t nonce[24], const void *ad, size_t ad_len,
                     const void *in, size_t len, void *out);

/* Ed25519. sk: the seed, then pk. */
void uvcci_sign_keypair(const uint8_t seed[32], uint8_t pk[32], uint8_t sk[64]);
void uvcci_sign(const uint8_t sk[64], const void *msg, size_t len, uint8_t sig[64]);
int uvcci_sign_verify(const uint8_t pk[32], const void *msg, size_t len, const uint8_t sig[64]);

/* X25519. sk: 32 random bytes. shared: UVCC_ERR_AUTH if the result is all zero (a peer's point of
 * small order); a failed call leaves zeros in out. */
int uvcci_x25519_public(const uint8_t sk[32], uint8_t pk[32]);
int uvcci_x25519_shared(const uint8_t sk[32], const uint8_t peer_pk[32], uint8_t out[32]);

bool uvcci_ct_equal(const void *a, const void *b, size_t len);
void uvcci_wipe(void *p, size_t len);

#endif
