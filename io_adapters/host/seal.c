/* SPDX-License-Identifier: Apache-2.0 */
/* seal.c - see seal.h. */
#include "seal.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#define MAGIC       "UVCCSEAL"
#define MAGIC_BYTES 8u
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD_BYTES  (MAGIC_BYTES + NONCE_BYTES)

static_assert(HEAD_BYTES + TAG_BYTES == UVCCI_SEAL_BYTES, "what a seal adds");

int uvcci_seal(uint8_t *out, const char *label, const uint8_t key[32], const uvcc_random *random,
               const uint8_t *bytes, size_t len) {
    memcpy(out, MAGIC, MAGIC_BYTES);
    if (random->fill(random->user, out + MAGIC_BYTES, NONCE_BYTES) != 0)
        return UVCC_ERR_RANDOM;
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(out + HEAD_BYTES, NULL, bytes, len,
                                                     (const uint8_t *)label, strlen(label), NULL,
                                                     out + MAGIC_BYTES, key);
    return 0;
}

int uvcci_unseal(uint8_t *bytes, size_t len, const char *label, const uint8_t key[32],
                 const uint8_t **plain, size_t *plain_len) {
    if (len < UVCCI_SEAL_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0 ||
        crypto_aead_xchacha20poly1305_ietf_decrypt(
            bytes + HEAD_BYTES, NULL, NULL, bytes + HEAD_BYTES, len - HEAD_BYTES,
            (const uint8_t *)label, strlen(label), bytes + MAGIC_BYTES, key) != 0)
        return UVCC_ERR_AUTH;
    *plain = bytes + HEAD_BYTES;
    *plain_len = len - UVCCI_SEAL_BYTES;
    return 0;
}
