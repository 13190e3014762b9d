/* SPDX-License-Identifier: Apache-2.0 */
/* verdicts.c - whether a tag fits is public, as is whether a key exchange gave nothing but zeros,
 * and libsodium, libcrypto and crypto.c branch on it. The answers come from functions that
 * libraries export, and this program puts itself in front of them: the real function runs under
 * watch, and only what it returns is declassified. */
#define _GNU_SOURCE
#include "taint.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <sodium.h>

#define EXPORTED __attribute__((visibility("default")))

/* ISO C has no conversion between pointers to objects and to functions. */
#define FIND_REAL(function, name)                                                                  \
    do {                                                                                           \
        void *symbol = dlsym(RTLD_NEXT, name);                                                     \
        assert_non_null(symbol);                                                                   \
        memcpy(&(function), &symbol, sizeof(function));                                            \
    } while (0)

EXPORTED int crypto_verify_16(const unsigned char *x, const unsigned char *y) {
    int (*real)(const unsigned char *, const unsigned char *);
    FIND_REAL(real, "crypto_verify_16");
    return public_status(real(x, y));
}

EXPORTED int CRYPTO_memcmp(const void *x, const void *y, size_t len) {
    int (*real)(const void *, const void *, size_t);
    FIND_REAL(real, "CRYPTO_memcmp");
    return public_status(real(x, y, len));
}

EXPORTED int crypto_scalarmult(unsigned char *q, const unsigned char *n, const unsigned char *p) {
    int (*real)(unsigned char *, const unsigned char *, const unsigned char *);
    FIND_REAL(real, "crypto_scalarmult");
    return public_status(real(q, n, p));
}
