/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.c - see sealed.h. */
#include "sealed.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "report.h"

#define MAGIC       "UVCCSEAL"
#define MAGIC_BYTES 8u
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define HEAD_BYTES  (MAGIC_BYTES + NONCE_BYTES)

int sealed_write(const char *path, const char *label, const uint8_t key[32], const uint8_t *bytes,
                 size_t len) {
    uint8_t *out = malloc(HEAD_BYTES + len + TAG_BYTES);
    if (out == NULL)
        return ENOMEM;
    memcpy(out, MAGIC, MAGIC_BYTES);
    randombytes_buf(out + MAGIC_BYTES, NONCE_BYTES);
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(out + HEAD_BYTES, NULL, bytes, len,
                                                     (const uint8_t *)label, strlen(label), NULL,
                                                     out + MAGIC_BYTES, key);
    int why = file_write(path, out, HEAD_BYTES + len + TAG_BYTES);
    free(out);
    return why;
}

int sealed_read(const char *path, const char *label, const uint8_t key[32], uint8_t **bytes,
                size_t *len) {
    uint8_t *in;
    size_t n;
    int status = file_read(path, EXIT_BAD_INPUT, &in, &n);
    if (status != EXIT_DONE)
        return status;
    *bytes = n >= HEAD_BYTES + TAG_BYTES ? malloc(n - HEAD_BYTES - TAG_BYTES + 1) : NULL;
    if (n >= HEAD_BYTES + TAG_BYTES && *bytes == NULL) {
        free(in);
        return report_error(EXIT_FAILED, "%s: out of memory", path);
    }
    bool ok = *bytes != NULL && memcmp(in, MAGIC, MAGIC_BYTES) == 0 &&
              crypto_aead_xchacha20poly1305_ietf_decrypt(*bytes, NULL, NULL, in + HEAD_BYTES,
                                                         n - HEAD_BYTES, (const uint8_t *)label,
                                                         strlen(label), in + MAGIC_BYTES, key) == 0;
    free(in);
    if (!ok) {
        free(*bytes);
        *bytes = NULL;
        return SEALED_DAMAGED;
    }
    *len = n - HEAD_BYTES - TAG_BYTES;
    return EXIT_DONE;
}
