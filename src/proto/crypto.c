/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.c - the only file that calls libsodium and, but for gcm_libcrypto.c, libcrypto.
 *
 * SHA-256 uses libcrypto's low-level calls: they reach SHA-NI without EVP's cost per call, which is
 * several times the cost of hashing one identifier. Everything secret that this file leaves in its
 * own variables is wiped. Invariant: a failed call leaves no plaintext in `out`. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "proto/crypto.h"

#include <assert.h>
#include <limits.h>
#include <openssl/sha.h>
#include <sodium.h>
#include <string.h>

#include "proto/bytes.h"

/* --- SHA-256 ---------------------------------------------------------------------------------- */

_Static_assert(sizeof(SHA256_CTX) <= sizeof(uvcci_sha256), "uvcci_sha256 holds a SHA256_CTX");
_Static_assert(_Alignof(SHA256_CTX) <= _Alignof(uvcci_sha256), "and is aligned like one");

static SHA256_CTX *sha_ctx(uvcci_sha256 *h) {
    return (SHA256_CTX *)(void *)h->opaque;
}

void uvcci_sha256_init(uvcci_sha256 *h) {
    SHA256_Init(sha_ctx(h));
}

void uvcci_sha256_update(uvcci_sha256 *h, const void *data, size_t len) {
    SHA256_Update(sha_ctx(h), data, len);
}

void uvcci_sha256_final(uvcci_sha256 *h, uint8_t out[32]) {
    SHA256_Final(out, sha_ctx(h));
}

void uvcci_sha256_once(const void *data, size_t len, uint8_t out[32]) {
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, data, len);
    uvcci_sha256_final(&h, out);
}

/* --- HMAC and HKDF ---------------------------------------------------------------------------- */

void uvcci_hmac_init(uvcci_hmac *m, const void *key, size_t key_len) {
    uint8_t pad[64] = {0};
    if (key_len > sizeof pad)
        uvcci_sha256_once(key, key_len, pad);
    else if (key_len != 0)
        memcpy(pad, key, key_len);

    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36;
    uvcci_sha256_init(&m->inner);
    uvcci_sha256_update(&m->inner, pad, sizeof pad);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    uvcci_sha256_init(&m->outer);
    uvcci_sha256_update(&m->outer, pad, sizeof pad);
    uvcci_wipe(pad, sizeof pad);
}

void uvcci_hmac_update(uvcci_hmac *m, const void *data, size_t len) {
    uvcci_sha256_update(&m->inner, data, len);
}

void uvcci_hmac_final(uvcci_hmac *m, uint8_t out[32]) {
    uint8_t digest[32];
    uvcci_sha256_final(&m->inner, digest);
    uvcci_sha256_update(&m->outer, digest, sizeof digest);
    uvcci_sha256_final(&m->outer, out);
    uvcci_wipe(digest, sizeof digest);
    uvcci_wipe(m, sizeof *m);
}

void uvcci_hmac_once(const void *key, size_t key_len, const void *data, size_t len,
                     uint8_t out[32]) {
    uvcci_hmac m;
    uvcci_hmac_init(&m, key, key_len);
    uvcci_hmac_update(&m, data, len);
    uvcci_hmac_final(&m, out);
}

void uvcci_hkdf_extract(const void *salt, size_t salt_len, const void *ikm, size_t ikm_len,
                        uint8_t prk[32]) {
    uvcci_hmac_once(salt, salt_len, ikm, ikm_len, prk); /* no salt = 32 zeros = an empty key */
}

int uvcci_hkdf_expand(const uint8_t prk[32], const void *info, size_t info_len, void *out,
                      size_t out_len) {
    if (out_len > 255u * 32u)
        return UVCC_ERR_USAGE;

    uvcci_hmac keyed;
    uvcci_hmac_init(&keyed, prk, 32);
    uint8_t t[32];
    uint8_t *p = out;
    for (uint8_t i = 1; out_len != 0; i++) {
        uvcci_hmac m = keyed;
        if (i > 1)
            uvcci_hmac_update(&m, t, sizeof t);
        uvcci_hmac_update(&m, info, info_len);
        uvcci_hmac_update(&m, &i, 1);
        uvcci_hmac_final(&m, t);
        size_t n = out_len < sizeof t ? out_len : sizeof t;
        memcpy(p, t, n);
        p += n;
        out_len -= n;
    }
    uvcci_wipe(t, sizeof t);
    uvcci_wipe(&keyed, sizeof keyed);
    return 0;
}

/* --- Sealing ---------------------------------------------------------------------------------- */

/* Libraries count in int, and libsodium aborts the process above 256 GiB. No frame comes near. */
#define AEAD_MAX_BYTES ((size_t)INT_MAX)

static void frame_nonce(uint64_t seq, uint8_t nonce[12]) {
    uvcci_st32(nonce, 0);
    uvcci_st64(nonce + 4, seq);
}

/* Lets libsodium pick the vector code of this CPU: once per process, then only a lock. It must come
 * before the first use on any thread, so every way into its ciphers passes here. */
static bool sodium_ready(void) {
    return sodium_init() >= 0;
}

const uvcci_gcm_way *uvcci_gcm_way_at(size_t i) {
    static const uvcci_gcm_way *const ways[] = {
#ifdef UVCC_WITH_IPSEC_MB
        &uvcci_gcm_ipsec_mb,
#endif
        &uvcci_gcm_libcrypto,
    };
    return i < sizeof ways / sizeof ways[0] ? ways[i] : NULL;
}

int uvcci_aead_init_gcm(uvcci_aead *a, const uvcci_gcm_way *way, const uint8_t key[32]) {
    void *k = way->open_key(key);
    if (k == NULL)
        return UVCC_ERR_CRYPTO;
    *a = (uvcci_aead){.suite = UVCCI_SUITE_AES256_GCM, .gcm = way, .gcm_key = k};
    return 0;
}

int uvcci_aead_init(uvcci_aead *a, uint8_t suite, const uint8_t key[32]) {
    int rc = UVCC_ERR_CRYPTO;
    switch (suite) {
    case UVCCI_SUITE_CHACHA20_POLY1305:
        if (!sodium_ready())
            return UVCC_ERR_CRYPTO;
        *a = (uvcci_aead){.suite = suite};
        memcpy(a->key, key, sizeof a->key);
        return 0;
    case UVCCI_SUITE_AES256_GCM:
        for (size_t i = 0; uvcci_gcm_way_at(i) != NULL && rc != 0; i++)
            rc = uvcci_aead_init_gcm(a, uvcci_gcm_way_at(i), key);
        return rc;
    default:
        return UVCC_ERR_USAGE;
    }
}

bool uvcci_aead_is_shared(const uvcci_aead *a) {
    return a->suite != UVCCI_SUITE_AES256_GCM || a->gcm->shared;
}

void uvcci_aead_free(uvcci_aead *a) {
    if (a->gcm != NULL)
        a->gcm->close_key(a->gcm_key);
    uvcci_wipe(a, sizeof *a);
}

int uvcci_aead_seal(uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len, const void *in,
                    size_t len, void *out, uint8_t tag[16]) {
    if (len > AEAD_MAX_BYTES || ad_len > AEAD_MAX_BYTES)
        return UVCC_ERR_USAGE;
    uint8_t nonce[12];
    frame_nonce(seq, nonce);
    if (a->suite == UVCCI_SUITE_AES256_GCM)
        return a->gcm->seal(a->gcm_key, nonce, ad, ad_len, in, len, out, tag);
    assert(a->suite == UVCCI_SUITE_CHACHA20_POLY1305);
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, tag, NULL, in, len, ad, ad_len, NULL,
                                                       nonce, a->key);
    return 0;
}

int uvcci_aead_open(uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len, const void *in,
                    size_t len, const uint8_t tag[16], void *out) {
    if (len > AEAD_MAX_BYTES || ad_len > AEAD_MAX_BYTES)
        return UVCC_ERR_USAGE;
    uint8_t nonce[12];
    frame_nonce(seq, nonce);
    if (a->suite == UVCCI_SUITE_AES256_GCM)
        return a->gcm->open(a->gcm_key, nonce, ad, ad_len, in, len, tag, out);
    assert(a->suite == UVCCI_SUITE_CHACHA20_POLY1305);
    int r = crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, NULL, in, len, tag, ad, ad_len,
                                                               nonce, a->key);
    return r == 0 ? 0 : UVCC_ERR_AUTH;
}

bool uvcci_aead_open_begin(uvcci_aead *a, uvcci_gcm_part *part, uint64_t seq, const void *ad,
                           size_t ad_len) {
    if (a->gcm == NULL || ad_len > AEAD_MAX_BYTES)
        return false;
    uint8_t nonce[12];
    frame_nonce(seq, nonce);
    a->gcm->open_begin(a->gcm_key, part, nonce, ad, ad_len);
    return true;
}

void uvcci_aead_open_more(uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
                          void *out) {
    assert(a->gcm != NULL && len <= AEAD_MAX_BYTES);
    a->gcm->open_more(a->gcm_key, part, in, len, out);
}

int uvcci_aead_open_end(uvcci_aead *a, uvcci_gcm_part *part, const uint8_t tag[16]) {
    assert(a->gcm != NULL);
    return a->gcm->open_end(a->gcm_key, part, tag);
}

bool uvcci_aead_seal_begin(uvcci_aead *a, uvcci_gcm_part *part, uint64_t seq, const void *ad,
                           size_t ad_len) {
    if (a->gcm == NULL || ad_len > AEAD_MAX_BYTES)
        return false;
    uint8_t nonce[12];
    frame_nonce(seq, nonce);
    a->gcm->seal_begin(a->gcm_key, part, nonce, ad, ad_len);
    return true;
}

void uvcci_aead_seal_more(uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
                          void *out) {
    assert(a->gcm != NULL && len <= AEAD_MAX_BYTES);
    a->gcm->seal_more(a->gcm_key, part, in, len, out);
}

int uvcci_aead_seal_end(uvcci_aead *a, uvcci_gcm_part *part, uint8_t tag[16]) {
    assert(a->gcm != NULL);
    return a->gcm->seal_end(a->gcm_key, part, tag);
}

int uvcci_xaead_seal(const uint8_t key[32], const uint8_t nonce[24], const void *ad, size_t ad_len,
                     const void *in, size_t len, void *out) {
    if (len > AEAD_MAX_BYTES || ad_len > AEAD_MAX_BYTES)
        return UVCC_ERR_USAGE;
    if (!sodium_ready())
        return UVCC_ERR_CRYPTO;
    crypto_aead_xchacha20poly1305_ietf_encrypt(out, NULL, in, len, ad, ad_len, NULL, nonce, key);
    return 0;
}

int uvcci_xaead_open(const uint8_t key[32], const uint8_t nonce[24], const void *ad, size_t ad_len,
                     const void *in, size_t len, void *out) {
    if (len > AEAD_MAX_BYTES || ad_len > AEAD_MAX_BYTES)
        return UVCC_ERR_USAGE;
    if (len < UVCCI_TAG_BYTES)
        return UVCC_ERR_AUTH;
    if (!sodium_ready())
        return UVCC_ERR_CRYPTO;
    int r = crypto_aead_xchacha20poly1305_ietf_decrypt(out, NULL, NULL, in, len, ad, ad_len, nonce,
                                                       key);
    return r == 0 ? 0 : UVCC_ERR_AUTH;
}

/* --- Signatures, key exchange, small things --------------------------------------------------- */

void uvcci_sign_keypair(const uint8_t seed[32], uint8_t pk[32], uint8_t sk[64]) {
    crypto_sign_seed_keypair(pk, sk, seed);
}

void uvcci_sign(const uint8_t sk[64], const void *msg, size_t len, uint8_t sig[64]) {
    crypto_sign_detached(sig, NULL, msg, len, sk);
}

int uvcci_sign_verify(const uint8_t pk[32], const void *msg, size_t len, const uint8_t sig[64]) {
    return crypto_sign_verify_detached(sig, msg, len, pk) == 0 ? 0 : UVCC_ERR_AUTH;
}

int uvcci_x25519_public(const uint8_t sk[32], uint8_t pk[32]) {
    return sodium_ready() && crypto_scalarmult_base(pk, sk) == 0 ? 0 : UVCC_ERR_CRYPTO;
}

int uvcci_x25519_shared(const uint8_t sk[32], const uint8_t peer_pk[32], uint8_t out[32]) {
    int err = UVCC_ERR_CRYPTO;
    if (sodium_ready()) /* libsodium's -1: the result is all zero */
        err = crypto_scalarmult(out, sk, peer_pk) == 0 ? 0 : UVCC_ERR_AUTH;
    if (err != 0)
        uvcci_wipe(out, 32);
    return err;
}

bool uvcci_ct_equal(const void *a, const void *b, size_t len) {
    return sodium_memcmp(a, b, len) == 0;
}

void uvcci_wipe(void *p, size_t len) {
    sodium_memzero(p, len);
}
