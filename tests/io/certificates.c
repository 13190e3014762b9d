/* SPDX-License-Identifier: Apache-2.0 */
/* certificates.c - see certificates.h: keys and certificates for tests of TLS. */
#include "certificates.h"
#include "support.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <unistd.h>

static void extend(X509 *x, X509 *signer, int nid, const char *value) {
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, signer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(x, e, -1), 1);
    X509_EXTENSION_free(e);
}

cert cert_make(const cert_of *what, const cert *signer) {
    static long serial = 1;
    char names[256] = "";
    cert c = {.x = X509_new(), .key = what->rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256")};
    const bool dated = what->from_days != 0 || what->to_days != 0;
    assert_non_null(c.x);
    assert_non_null(c.key);
    X509_NAME *subject = X509_get_subject_name(c.x);
    assert_int_equal(X509_set_version(c.x, 2), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(c.x), serial++), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                                (const unsigned char *)what->subject, -1, -1, 0),
                     1);
    assert_int_equal(
        X509_set_issuer_name(c.x, signer == NULL ? subject : X509_get_subject_name(signer->x)), 1);
    assert_non_null(
        X509_gmtime_adj(X509_getm_notBefore(c.x), 86400 * (dated ? what->from_days : -1)));
    assert_non_null(
        X509_gmtime_adj(X509_getm_notAfter(c.x), 86400 * (dated ? what->to_days : 365)));
    assert_int_equal(X509_set_pubkey(c.x, c.key), 1);
    X509 *by = signer == NULL ? c.x : signer->x;
    extend(c.x, by, NID_basic_constraints,
           what->authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
    extend(c.x, by, NID_subject_key_identifier, "hash");
    extend(c.x, by, NID_authority_key_identifier, "keyid");
    for (size_t i = 0; i < 4 && what->names[i] != NULL; i++) {
        strcat(names, i == 0 ? "DNS:" : ",DNS:");
        strcat(names, what->names[i]);
    }
    if (what->usage != NULL)
        extend(c.x, by, NID_ext_key_usage, what->usage);
    if (names[0] != '\0')
        extend(c.x, by, NID_subject_alt_name, names);
    assert_true(X509_sign(c.x, signer == NULL ? c.key : signer->key, EVP_sha256()) > 0);
    return c;
}

void cert_free(cert *c) {
    X509_free(c->x);
    EVP_PKEY_free(c->key);
    *c = (cert){0};
}

static void revoke(X509_CRL *list, ASN1_TIME *when, X509 *x) {
    X509_REVOKED *r = X509_REVOKED_new();
    assert_non_null(r);
    assert_int_equal(X509_REVOKED_set_serialNumber(r, X509_get_serialNumber(x)), 1);
    assert_int_equal(X509_REVOKED_set_revocationDate(r, when), 1);
    assert_int_equal(X509_CRL_add0_revoked(list, r), 1);
}

void cert_list(const char *dir, const char *name, const cert *authority, X509 *const *revoked,
               size_t count, long days, bool add) {
    char path[512];
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *from = X509_gmtime_adj(NULL, days < 0 ? 2 * 86400 * days : -86400);
    ASN1_TIME *to = X509_gmtime_adj(NULL, 86400 * days);
    assert_non_null(list);
    assert_int_equal(X509_CRL_set_version(list, 1), 1);
    assert_int_equal(X509_CRL_set_issuer_name(list, X509_get_subject_name(authority->x)), 1);
    assert_int_equal(X509_CRL_set1_lastUpdate(list, from), 1);
    assert_int_equal(X509_CRL_set1_nextUpdate(list, to), 1);
    for (size_t i = 0; i < count; i++)
        revoke(list, from, revoked[i]);
    assert_true(X509_CRL_sign(list, authority->key, EVP_sha256()) > 0);
    snprintf(path, sizeof path, "%s/%s.crl", dir, name);
    FILE *f = fopen(path, add ? "a" : "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_X509_CRL(f, list), 1);
    assert_int_equal(fclose(f), 0);
    ASN1_TIME_free(from), ASN1_TIME_free(to), X509_CRL_free(list);
}

static FILE *opened(const char *dir, const char *name, const char *end, int mode) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s%s", dir, name, end);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, mode);
    assert_true(fd >= 0);
    FILE *f = fdopen(fd, "w");
    assert_non_null(f);
    return f;
}

void cert_write(const char *dir, const char *name, X509 *const *certs, size_t count, EVP_PKEY *key,
                const char *passphrase) {
    if (count > 0) {
        FILE *f = opened(dir, name, ".crt", 0644);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(PEM_write_X509(f, certs[i]), 1);
        assert_int_equal(fclose(f), 0);
    }
    if (key != NULL) {
        FILE *f = opened(dir, name, ".key", 0600);
        unsigned char phrase[64] = "";
        if (passphrase != NULL)
            snprintf((char *)phrase, sizeof phrase, "%s", passphrase);
        assert_int_equal(PEM_write_PrivateKey(f, key, passphrase == NULL ? NULL : EVP_aes_128_cbc(),
                                              passphrase == NULL ? NULL : phrase,
                                              (int)strlen((char *)phrase), NULL, NULL),
                         1);
        assert_int_equal(fclose(f), 0);
    }
}
