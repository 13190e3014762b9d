/* SPDX-License-Identifier: Apache-2.0 */
/* gcm_libcrypto.c - AES-256-GCM by libcrypto. */
#include "proto/gcm.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <string.h>
#include <uvcc/types.h>

typedef struct contexts {
    EVP_CIPHER_CTX *enc, *dec;
} contexts;

static EVP_CIPHER_CTX *context_new(const uint8_t key[32], int encrypt) {
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    if (c != NULL && EVP_CipherInit_ex(c, EVP_aes_256_gcm(), NULL, key, NULL, encrypt) != 1) {
        EVP_CIPHER_CTX_free(c);
        c = NULL;
    }
    return c;
}

/* What is left of a seal when all its data ran through. */
static bool tag_of(EVP_CIPHER_CTX *c, uint8_t tag[16]) {
    uint8_t none[1]; /* GCM has no last partial block to write */
    int n;
    return EVP_CipherFinal_ex(c, none, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, UVCCI_TAG_BYTES, tag) == 1;
}

/* Sets the nonce, then runs the data through. The context keeps the key from call to call. */
static bool run_through(EVP_CIPHER_CTX *c, const uint8_t nonce[12], const void *ad, size_t ad_len,
                        const void *in, size_t len, void *out) {
    int n;
    return EVP_CipherInit_ex(c, NULL, NULL, NULL, nonce, -1) == 1 &&
           (ad_len == 0 || EVP_CipherUpdate(c, NULL, &n, ad, (int)ad_len) == 1) &&
           (len == 0 || EVP_CipherUpdate(c, out, &n, in, (int)len) == 1);
}

static int seal(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, void *out, uint8_t tag[16]) {
    EVP_CIPHER_CTX *c = ((contexts *)k)->enc;
    if (run_through(c, nonce, ad, ad_len, in, len, out) && tag_of(c, tag))
        return 0;
    OPENSSL_cleanse(out, len); /* in place, it may be plaintext still */
    return UVCC_ERR_CRYPTO;
}

/* Of what was run through. */
static int tag_is(EVP_CIPHER_CTX *c, const uint8_t tag[16]) {
    uint8_t expected[UVCCI_TAG_BYTES], none[1];
    int n;
    memcpy(expected, tag, sizeof expected); /* the control call takes no const */
    if (EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, UVCCI_TAG_BYTES, expected) != 1)
        return UVCC_ERR_CRYPTO;
    return EVP_CipherFinal_ex(c, none, &n) == 1 ? 0 : UVCC_ERR_AUTH;
}

static int open(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len, const void *in,
                size_t len, const uint8_t tag[16], void *out) {
    EVP_CIPHER_CTX *c = ((contexts *)k)->dec;
    int err = UVCC_ERR_CRYPTO;
    if (run_through(c, nonce, ad, ad_len, in, len, out))
        err = tag_is(c, tag);
    if (err != 0)
        OPENSSL_cleanse(out, len); /* GCM decrypts before it knows */
    return err;
}

/* The state is the context's. */
static void open_begin(void *k, uvcci_gcm_part *part, const uint8_t nonce[12], const void *ad,
                       size_t ad_len) {
    part->failed = !run_through(((contexts *)k)->dec, nonce, ad, ad_len, NULL, 0, NULL);
}

static void open_more(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out) {
    int n;
    part->failed |= len != 0 && EVP_CipherUpdate(((contexts *)k)->dec, out, &n, in, (int)len) != 1;
}

static int open_end(void *k, uvcci_gcm_part *part, const uint8_t tag[16]) {
    return part->failed ? UVCC_ERR_CRYPTO : tag_is(((contexts *)k)->dec, tag);
}

static void seal_begin(void *k, uvcci_gcm_part *part, const uint8_t nonce[12], const void *ad,
                       size_t ad_len) {
    part->failed = !run_through(((contexts *)k)->enc, nonce, ad, ad_len, NULL, 0, NULL);
}

static void seal_more(void *k, uvcci_gcm_part *part, const void *in, size_t len, void *out) {
    int n;
    part->failed |= len != 0 && EVP_CipherUpdate(((contexts *)k)->enc, out, &n, in, (int)len) != 1;
}

static int seal_end(void *k, uvcci_gcm_part *part, uint8_t tag[16]) {
    return !part->failed && tag_of(((contexts *)k)->enc, tag) ? 0 : UVCC_ERR_CRYPTO;
}

static void close_key(void *k) {
    contexts *c = k;
    if (c == NULL)
        return;
    EVP_CIPHER_CTX_free(c->enc); /* wipes; NULL is fine */
    EVP_CIPHER_CTX_free(c->dec);
    OPENSSL_free(c);
}

static void *open_key(const uint8_t key[32]) {
    contexts *c = OPENSSL_zalloc(sizeof *c);
    if (c == NULL)
        return NULL;
    c->enc = context_new(key, 1);
    c->dec = context_new(key, 0);
    if (c->enc != NULL && c->dec != NULL)
        return c;
    close_key(c);
    return NULL;
}

const uvcci_gcm_way uvcci_gcm_libcrypto = {.name = "libcrypto",
                                           .open_key = open_key,
                                           .close_key = close_key,
                                           .seal = seal,
                                           .open = open,
                                           .open_begin = open_begin,
                                           .open_more = open_more,
                                           .open_end = open_end,
                                           .seal_begin = seal_begin,
                                           .seal_more = seal_more,
                                           .seal_end = seal_end};
