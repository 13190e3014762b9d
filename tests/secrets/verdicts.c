/* verdicts.c - whether a tag fits is public, and libsodium and libcrypto branch on it. Both compare
 * through an exported function, which this program puts itself in front of: the libraries' own
 * comparison runs under watch, and only its result is declassified. */
#define _GNU_SOURCE
#include "taint.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <sodium.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED int crypto_verify_16(const unsigned char *x, const unsigned char *y) {
    int (*real)(const unsigned char *, const unsigned char *);
    void *symbol = dlsym(RTLD_NEXT, "crypto_verify_16");
    memcpy(&real, &symbol, sizeof real);
    return public_status(real(x, y));
}

EXPORTED int CRYPTO_memcmp(const void *x, const void *y, size_t len) {
    int (*real)(const void *, const void *, size_t);
    void *symbol = dlsym(RTLD_NEXT, "CRYPTO_memcmp");
    memcpy(&real, &symbol, sizeof real);
    return public_status(real(x, y, len));
}
