/* SPDX-License-Identifier: Apache-2.0 */
/* certificates.h - keys and certificates for tests of TLS, made when the test runs: by libcrypto,
 * into files of a directory. */
#ifndef UVCC_TEST_CERTIFICATES_H
#define UVCC_TEST_CERTIFICATES_H

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>

/* What a certificate says. */
typedef struct cert_of {
    const char *subject;
    const char *names[4]; /* DNS */
    bool authority;
    long from_days, to_days; /* from now; both 0: yesterday to a year from now */
    bool rsa;
    const char *usage; /* extendedKeyUsage; NULL: none */
} cert_of;

typedef struct cert {
    X509 *x;
    EVP_PKEY *key;
} cert;

/* signer NULL: itself. */
cert cert_make(const cert_of *what, const cert *signer);
void cert_free(cert *c);
/* PEM files in dir, NAME.crt with `count` certificates and (key not NULL) NAME.key with mode 0600,
 * under a passphrase if there is one. */
void cert_write(const char *dir, const char *name, X509 *const *certs, size_t count, EVP_PKEY *key,
                const char *passphrase);

/* The authority's revocation list, in PEM, NAME.crl: good from yesterday until `days` from now.
 * What is revoked may be of another authority too, as far as numbers go. More than one authority:
 * the lists stand behind each other, `add`. */
void cert_list(const char *dir, const char *name, const cert *authority, X509 *const *revoked,
               size_t count, long days, bool add);

#endif
