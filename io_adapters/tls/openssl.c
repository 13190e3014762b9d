/* SPDX-License-Identifier: Apache-2.0 */
/* openssl.c - TLS 1.3, and 1.2 where it is asked for, by OpenSSL's libssl.
 *
 * One SSL_CTX for all connections of a party, no session is ever resumed. A shared key is TLS 1.3's
 * external one with (EC)DHE, or an ECDHE-PSK suite in TLS 1.2. */
#include "io_adapters/tls/lib.h"

#include <assert.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>

static const unsigned char alpn[] = "\x06" UVCCI_TLS_ALPN; /* its length, itself */

typedef struct context {
    SSL_CTX *ssl;
    BIO_METHOD *bio;
} context;

/* ---- bytes ---- */

static int bio_read(BIO *b, char *bytes, size_t cap, size_t *got) {
    ptrdiff_t n = uvcci_tls_take(BIO_get_data(b), (uint8_t *)bytes, cap);
    BIO_clear_retry_flags(b);
    *got = n > 0 ? (size_t)n : 0;
    if (n == UVCC_ERR_AGAIN)
        BIO_set_retry_read(b);
    return n > 0;
}

static int bio_write(BIO *b, const char *bytes, size_t len, size_t *put) {
    ptrdiff_t n = uvcci_tls_put(BIO_get_data(b), (const uint8_t *)bytes, len);
    BIO_clear_retry_flags(b);
    *put = n > 0 ? (size_t)n : 0;
    if (n <= 0)
        BIO_set_retry_write(b);
    return n > 0;
}

static long bio_ctrl(BIO *b, int command, long number, void *p) {
    (void)b, (void)number, (void)p;
    return command == BIO_CTRL_FLUSH;
}

/* ---- reasons ---- */

static const char *reason_text(unsigned long e) {
    const char *text = ERR_reason_error_string(e);
    return text == NULL ? "OpenSSL does not say why" : text;
}

static int refuse_certificate(uvcci_tls_conn *c, long result) {
    uvcci_tls_fault fault = UVCCI_TLS_FAULT_OTHER;
    switch (result) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        fault = UVCCI_TLS_FAULT_EXPIRED;
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        fault = UVCCI_TLS_FAULT_EARLY;
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        fault = UVCCI_TLS_FAULT_STRANGE;
        break;
    case X509_V_ERR_CERT_REVOKED:
        fault = UVCCI_TLS_FAULT_REVOKED;
        break;
    case X509_V_ERR_CRL_HAS_EXPIRED:
    case X509_V_ERR_CRL_NOT_YET_VALID:
        fault = UVCCI_TLS_FAULT_OLD_LIST;
        break;
    default:
        break;
    }
    return uvcci_tls_refuse(c, fault, X509_verify_cert_error_string(result));
}

/* What a library's error means to whoever reads the log: the ends differ, somebody is not who he
 * should be, or what speaks there is not TLS. */
static int refused(uvcci_tls_conn *c, unsigned long e) {
    const int reason = ERR_GET_LIB(e) == ERR_LIB_SSL ? ERR_GET_REASON(e) : 0;
    const char *text = reason_text(e);
    if (reason > SSL_AD_REASON_OFFSET && reason <= SSL_AD_REASON_OFFSET + 255)
        return uvcci_tls_alert(c, (uint32_t)(reason - SSL_AD_REASON_OFFSET), text);
    switch (reason) {
    case SSL_R_CERTIFICATE_VERIFY_FAILED:
        if (c->t->shared_keys)
            return uvcci_tls_fail(c, UVCC_ERR_AUTH,
                                  "it shows a certificate, where a shared key is"
                                  " wanted");
        return refuse_certificate(c, SSL_get_verify_result(c->lib));
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "it has shown no certificate");
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_PSK_IDENTITY_NOT_FOUND:
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "its shared key is another, or nobody's: %s", text);
    case SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC:
    case SSL_R_DIGEST_CHECK_FAILED:
        if (c->t->shared_keys && !c->done)
            return uvcci_tls_fail(c, UVCC_ERR_AUTH, "its shared key is another: %s", text);
        break;
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return uvcci_tls_fail(c, UVCC_ERR_PROTOCOL, "what came is not TLS: %s", text);
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_NO_SHARED_CIPHER:
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
    case SSL_R_NO_APPLICATION_PROTOCOL:
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "the two ends have no way in common: %s", text);
    default:
        break;
    }
    return uvcci_tls_fail(c, UVCC_ERR_PROTOCOL, "TLS failed: %s", text);
}

/* After a call that did not succeed: UVCC_ERR_AGAIN, 0 (ended), or the error. */
static int outcome(uvcci_tls_conn *c, int rc) {
    switch (SSL_get_error(c->lib, rc)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return UVCC_ERR_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        if (c->done)
            return 0;
        return uvcci_tls_fail(c, UVCC_ERR_STREAM_BROKEN, "it said close_notify in the handshake");
    default: {
        const int lost = uvcci_tls_lost(c);
        return lost != 0 ? lost : refused(c, ERR_peek_last_error());
    }
    }
}

/* ---- who ---- */

static uint32_t parties_of(const uvcc_tls *t, X509 *x) {
    uint32_t parties = 0;
    GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type == GEN_DNS)
            parties |= uvcci_tls_parties_of(t, ASN1_STRING_get0_data(name->d.dNSName),
                                            (size_t)ASN1_STRING_length(name->d.dNSName));
    }
    GENERAL_NAMES_free(names);
    return parties;
}

static int on_certificate(int good, X509_STORE_CTX *store) {
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    uvcci_tls_conn *c = SSL_get_app_data(ssl);
    /* Which authorities must have a list was seen when the files were read (lists()): the others
     * are those of a chain, and certificates that are trusted themselves. As with mbedTLS. */
    if (good == 0 && X509_STORE_CTX_get_error(store) == X509_V_ERR_UNABLE_TO_GET_CRL) {
        X509_STORE_CTX_set_error(store, X509_V_OK);
        return 1;
    }
    if (good == 0 || X509_STORE_CTX_get_error_depth(store) != 0)
        return good;
    if (uvcci_tls_named(c, parties_of(c->t, X509_STORE_CTX_get_current_cert(store))) == 0)
        return 1;
    X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
    return 0;
}

static SSL_SESSION *session_of(SSL *ssl, const uint8_t key[UVCCI_TLS_KEY_BYTES]) {
    static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
    SSL_SESSION *s = SSL_SESSION_new();
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
    if (s != NULL && cipher != NULL && SSL_SESSION_set_cipher(s, cipher) == 1 &&
        SSL_SESSION_set1_master_key(s, key, UVCCI_TLS_KEY_BYTES) == 1 &&
        SSL_SESSION_set1_id_context(s, alpn, sizeof alpn - 1) == 1 &&
        SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION) == 1)
        return s;
    SSL_SESSION_free(s);
    return NULL;
}

/* TLS 1.3, the caller. */
static int use_key(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
                   SSL_SESSION **out) {
    uvcci_tls_conn *c = SSL_get_app_data(ssl);
    *id = NULL;
    *len = 0;
    *out = NULL;
    if (md != NULL && EVP_MD_get_type(md) != NID_sha256)
        return 1;
    *out = session_of(ssl, c->t->psk[c->peer].tls13);
    *id = (const unsigned char *)c->t->identity;
    *len = strlen(c->t->identity);
    return *out != NULL;
}

/* TLS 1.3, the called. Whoever has the key proves it by the binder, right after. */
static int find_key(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **out) {
    uvcci_tls_conn *c = SSL_get_app_data(ssl);
    const uint8_t p = uvcci_tls_identified(c->t, id, len);
    *out = NULL;
    if (p == UVCC_PARTIES) {
        (void)uvcci_tls_stranger(c);
        return 1;
    }
    c->peer = p;
    *out = session_of(ssl, c->t->psk[p].tls13);
    return *out != NULL;
}

/* TLS 1.2, the caller. */
static unsigned use_key_12(SSL *ssl, const char *hint, char *id, unsigned id_cap, uint8_t *key,
                           unsigned cap) {
    uvcci_tls_conn *c = SSL_get_app_data(ssl);
    (void)hint;
    if (id_cap < sizeof c->t->identity || cap < UVCCI_TLS_KEY_BYTES)
        return 0;
    memcpy(id, c->t->identity, sizeof c->t->identity);
    memcpy(key, c->t->psk[c->peer].tls12, UVCCI_TLS_KEY_BYTES);
    return UVCCI_TLS_KEY_BYTES;
}

/* TLS 1.2, the called. In 1.3 it is asked too, after find_key() had none: nor has this. */
static unsigned find_key_12(SSL *ssl, const char *id, uint8_t *key, unsigned cap) {
    uvcci_tls_conn *c = SSL_get_app_data(ssl);
    const uint8_t p = id == NULL ? (uint8_t)UVCC_PARTIES
                                 : uvcci_tls_identified(c->t, (const uint8_t *)id, strlen(id));
    if (p == UVCC_PARTIES)
        (void)uvcci_tls_stranger(c);
    if (p == UVCC_PARTIES || cap < UVCCI_TLS_KEY_BYTES || SSL_version(ssl) >= TLS1_3_VERSION)
        return 0;
    c->peer = p;
    memcpy(key, c->t->psk[p].tls12, UVCCI_TLS_KEY_BYTES);
    return UVCCI_TLS_KEY_BYTES;
}

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned len, void *user) {
    unsigned char *found;
    (void)ssl, (void)user;
    if (SSL_select_next_proto(&found, out_len, alpn, sizeof alpn - 1, in, len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = found;
    return SSL_TLSEXT_ERR_OK;
}

/* ---- the context ---- */

static int no_passphrase(char *text, int cap, int writing, void *user) {
    (void)text, (void)cap, (void)writing, (void)user;
    return -1;
}

static int own_certificate(uvcc_tls *t, SSL_CTX *ssl, const uvcci_tls_text *file) {
    BIO *b = BIO_new_mem_buf(file->text, (int)file->len);
    X509 *x = b == NULL ? NULL : PEM_read_bio_X509(b, NULL, no_passphrase, NULL);
    int rc = 0;
    if (x == NULL || SSL_CTX_use_certificate(ssl, x) != 1)
        rc = uvcci_tls_wrong(t, "certificate: no certificate in PEM that can be used: %s",
                             reason_text(ERR_peek_last_error()));
    if (rc == 0)
        t->own_names = parties_of(t, x);
    X509_free(x);
    while (rc == 0 && (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)) != NULL)
        if (SSL_CTX_add0_chain_cert(ssl, x) != 1) {
            X509_free(x);
            rc = uvcci_tls_wrong(t, "certificate: its chain: %s",
                                 reason_text(ERR_peek_last_error()));
        }
    BIO_free(b);
    return rc;
}

static int own_key(uvcc_tls *t, SSL_CTX *ssl, const uvcci_tls_text *file) {
    BIO *b = BIO_new_mem_buf(file->text, (int)file->len);
    EVP_PKEY *key = b == NULL ? NULL : PEM_read_bio_PrivateKey(b, NULL, no_passphrase, NULL);
    int rc = 0;
    if (key == NULL)
        rc = uvcci_tls_wrong(t, "key: no private key in PEM: %s",
                             reason_text(ERR_peek_last_error()));
    else if (SSL_CTX_use_PrivateKey(ssl, key) != 1 || SSL_CTX_check_private_key(ssl) != 1)
        rc = uvcci_tls_wrong(t, "key: it is not that of the certificate: %s",
                             reason_text(ERR_peek_last_error()));
    EVP_PKEY_free(key);
    BIO_free(b);
    return rc;
}

static int authorities(uvcc_tls *t, SSL_CTX *ssl, const uvcci_tls_text *file) {
    BIO *b = BIO_new_mem_buf(file->text, (int)file->len);
    uint32_t count = 0;
    X509 *x;
    int rc = 0;
    while (rc == 0 && b != NULL && (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)) != NULL) {
        rc = uvcci_tls_check_authority(t, parties_of(t, x), X509_check_ca(x) != 0);
        if (rc == 0 && X509_STORE_add_cert(SSL_CTX_get_cert_store(ssl), x) != 1)
            rc = uvcci_tls_wrong(t, "authorities: %s", reason_text(ERR_peek_last_error()));
        X509_free(x);
        count++;
    }
    BIO_free(b);
    if (rc == 0 && count == 0)
        rc = uvcci_tls_wrong(t, "authorities: no certificate in PEM: %s",
                             reason_text(ERR_peek_last_error()));
    return rc;
}

static bool has_list(STACK_OF(X509_CRL) * all, const X509_NAME *authority) {
    for (int i = 0; i < sk_X509_CRL_num(all); i++)
        if (X509_NAME_cmp(X509_CRL_get_issuer(sk_X509_CRL_value(all, i)), authority) == 0)
            return true;
    return false;
}

/* Each authority that may sign must have one: else a list that was forgotten would revoke nothing,
 * and nobody would see it. */
static int check_lists(uvcc_tls *t, STACK_OF(X509_CRL) * all, const uvcci_tls_text *file) {
    BIO *b = BIO_new_mem_buf(file->text, (int)file->len);
    X509 *x;
    int rc = 0;
    while (rc == 0 && b != NULL && (x = PEM_read_bio_X509(b, NULL, no_passphrase, NULL)) != NULL) {
        char name[200] = "";
        (void)X509_NAME_oneline(X509_get_subject_name(x), name, sizeof name);
        if (X509_check_ca(x) != 0 && !has_list(all, X509_get_subject_name(x)))
            rc = uvcci_tls_no_list(t, name);
        X509_free(x);
    }
    BIO_free(b);
    return rc;
}

static int lists(uvcc_tls *t, SSL_CTX *ssl, const uvcci_tls_files *files) {
    BIO *b = BIO_new_mem_buf(files->crl.text, (int)files->crl.len);
    STACK_OF(X509_CRL) *all = sk_X509_CRL_new_null();
    X509_STORE *store = SSL_CTX_get_cert_store(ssl);
    X509_CRL *crl;
    int rc = 0;
    while (rc == 0 && b != NULL && all != NULL &&
           (crl = PEM_read_bio_X509_CRL(b, NULL, no_passphrase, NULL)) != NULL) {
        if (X509_STORE_add_crl(store, crl) != 1 || sk_X509_CRL_push(all, crl) <= 0) {
            X509_CRL_free(crl);
            rc = uvcci_tls_wrong(t, "crl: %s", reason_text(ERR_peek_last_error()));
        }
    }
    if (rc == 0 && sk_X509_CRL_num(all) <= 0)
        rc = uvcci_tls_wrong(t, "crl: no revocation list in PEM: %s",
                             reason_text(ERR_peek_last_error()));
    if (rc == 0)
        rc = check_lists(t, all, &files->authorities);
    if (rc == 0 &&
        X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL) != 1)
        rc = UVCC_ERR_CRYPTO;
    sk_X509_CRL_pop_free(all, X509_CRL_free);
    BIO_free(b);
    return rc;
}

/* The system's configuration of OpenSSL gave defaults: everything that matters is said here. */
static int settings(const uvcc_tls *t, SSL_CTX *ssl) {
    const uint64_t options = SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET |
                             SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA;
    const char *suites_13 = t->shared_keys ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                           : "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:"
                                             "TLS_CHACHA20_POLY1305_SHA256";
    const char *suites_12 = t->shared_keys
                                ? "ECDHE-PSK-CHACHA20-POLY1305"
                                : "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:"
                                  "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                                  "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
    SSL_CTX_set_security_level(ssl, 2);
    (void)SSL_CTX_clear_options(ssl, SSL_CTX_get_options(ssl) &
                                         ~(uint64_t)SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
    (void)SSL_CTX_set_options(ssl, options);
    (void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_RELEASE_BUFFERS |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_read_ahead(ssl, 0);
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, on_certificate);
    SSL_CTX_set_alpn_select_cb(ssl, select_alpn, NULL);
    /* A certificate among the authorities is good itself, whoever made it, as with mbedTLS. */
    return X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ssl), X509_V_FLAG_PARTIAL_CHAIN) == 1 &&
           SSL_CTX_set_min_proto_version(ssl, t->tls12 ? TLS1_2_VERSION : TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ssl, suites_13) == 1 &&
           SSL_CTX_set_cipher_list(ssl, suites_12) == 1 &&
           SSL_CTX_set1_groups_list(ssl, "X25519:P-256:P-384") == 1 &&
           SSL_CTX_set_num_tickets(ssl, 0) == 1 &&
           SSL_CTX_set_session_id_context(ssl, alpn, sizeof alpn - 1) == 1 &&
           SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn - 1) == 0;
}

static void context_free(uvcc_tls *t) {
    context *x = t->context;
    SSL_CTX_free(x->ssl);
    BIO_meth_free(x->bio);
    t->alloc.free(t->alloc.user, x, sizeof *x, UVCC_MEM_STATE);
    t->context = NULL;
}

static int context_new(uvcc_tls *t, const uvcci_tls_files *files) {
    context *x = t->alloc.alloc(t->alloc.user, sizeof *x, UVCC_MEM_STATE);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    ERR_clear_error();
    *x = (context){.ssl = SSL_CTX_new(TLS_method()),
                   .bio = BIO_meth_new(BIO_TYPE_SOURCE_SINK | 100, "uvcc")};
    t->context = x;
    if (x->ssl == NULL || x->bio == NULL || BIO_meth_set_read_ex(x->bio, bio_read) != 1 ||
        BIO_meth_set_write_ex(x->bio, bio_write) != 1 || BIO_meth_set_ctrl(x->bio, bio_ctrl) != 1 ||
        !settings(t, x->ssl))
        return uvcci_tls_wrong(t, "OpenSSL cannot be set up: %s",
                               reason_text(ERR_peek_last_error()));
    int rc = 0;
    if (t->shared_keys) {
        SSL_CTX_set_psk_use_session_callback(x->ssl, use_key);
        SSL_CTX_set_psk_find_session_callback(x->ssl, find_key);
        SSL_CTX_set_psk_client_callback(x->ssl, use_key_12);
        SSL_CTX_set_psk_server_callback(x->ssl, find_key_12);
    } else {
        rc = own_certificate(t, x->ssl, &files->certificate);
        if (rc == 0)
            rc = own_key(t, x->ssl, &files->key);
        if (rc == 0)
            rc = authorities(t, x->ssl, &files->authorities);
        if (rc == 0 && files->crl.text != NULL)
            rc = lists(t, x->ssl, files);
    }
    ERR_clear_error();
    return rc;
}

static int hmac(const uint8_t *key, size_t key_len, const uint8_t *text, size_t len,
                uint8_t out[UVCCI_TLS_KEY_BYTES]) {
    unsigned n = 0;
    return HMAC(EVP_sha256(), key, (int)key_len, text, len, out, &n) != NULL &&
                   n == UVCCI_TLS_KEY_BYTES
               ? 0
               : UVCC_ERR_CRYPTO;
}

/* ---- connections ---- */

static int conn_open(uvcci_tls_conn *c) {
    const context *x = c->t->context;
    ERR_clear_error();
    SSL *ssl = SSL_new(x->ssl);
    BIO *b = BIO_new(x->bio);
    if (ssl == NULL || b == NULL) {
        SSL_free(ssl);
        BIO_free(b);
        return UVCC_ERR_NOMEM;
    }
    BIO_set_data(b, c);
    BIO_set_init(b, 1);
    SSL_set_bio(ssl, b, b); /* it has it now */
    SSL_set_app_data(ssl, c);
    if (c->server)
        SSL_set_accept_state(ssl);
    else
        SSL_set_connect_state(ssl);
    c->lib = ssl;
    return 0;
}

static void conn_free(uvcci_tls_conn *c) {
    SSL_free(c->lib);
    c->lib = NULL;
}

/* What the handshake itself does not enforce. In TLS 1.2 only the extended master secret makes a
 * channel's binding its own (RFC 9266). */
static int check_handshake(uvcci_tls_conn *c) {
    SSL *ssl = c->lib;
    const unsigned char *name;
    unsigned len;
    if (c->error != 0)
        return c->error;
    SSL_get0_alpn_selected(ssl, &name, &len);
    if (len != alpn[0] || memcmp(name, alpn + 1, len) != 0)
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "it does not speak " UVCCI_TLS_ALPN " (ALPN)");
    if (SSL_version(ssl) < TLS1_3_VERSION && SSL_get_extms_support(ssl) != 1)
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "it has no extended master secret");
    if (c->t->shared_keys) {
        const SSL_CIPHER *cipher = SSL_get_current_cipher(ssl);
        c->proved = c->peer < UVCC_PARTIES &&
                    (SSL_version(ssl) >= TLS1_3_VERSION
                         ? SSL_session_reused(ssl) == 1
                         : cipher != NULL && SSL_CIPHER_get_kx_nid(cipher) == NID_kx_ecdhe_psk);
    } else if (SSL_get0_peer_certificate(ssl) == NULL || SSL_get_verify_result(ssl) != X509_V_OK) {
        c->proved = false;
    }
    if (!c->proved)
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "it has not proved who it is");
    return 1;
}

static int conn_handshake(uvcci_tls_conn *c) {
    ERR_clear_error();
    const int rc = SSL_do_handshake(c->lib);
    return rc == 1 ? check_handshake(c) : outcome(c, rc);
}

static int conn_binding(uvcci_tls_conn *c, uint8_t out[32]) {
    static const unsigned char nothing[1] = {0};
    ERR_clear_error();
    return SSL_export_keying_material(c->lib, out, 32, UVCCI_TLS_BINDING_LABEL,
                                      strlen(UVCCI_TLS_BINDING_LABEL), nothing, 0, 1) == 1
               ? 0
               : UVCC_ERR_CRYPTO;
}

static ptrdiff_t conn_read(uvcci_tls_conn *c, uint8_t *bytes, size_t cap) {
    size_t n = 0;
    ERR_clear_error();
    const int rc = SSL_read_ex(c->lib, bytes, cap, &n);
    return rc == 1 ? (ptrdiff_t)n : outcome(c, rc);
}

static ptrdiff_t conn_write(uvcci_tls_conn *c, const uint8_t *bytes, size_t len) {
    size_t n = 0;
    ERR_clear_error();
    const int rc = SSL_write_ex(c->lib, bytes, len, &n);
    return rc == 1 ? (ptrdiff_t)n : outcome(c, rc);
}

static size_t conn_pending(const uvcci_tls_conn *c) {
    return (size_t)SSL_pending(c->lib);
}

static void conn_rekey(uvcci_tls_conn *c) {
    if (SSL_version(c->lib) >= TLS1_3_VERSION)
        (void)SSL_key_update(c->lib, SSL_KEY_UPDATE_NOT_REQUESTED);
}

static void conn_close(uvcci_tls_conn *c) {
    ERR_clear_error();
    (void)SSL_shutdown(c->lib);
    ERR_clear_error();
}

const uvcci_tls_lib uvcci_tls_openssl = {
    .context = context_new,
    .context_free = context_free,
    .hmac = hmac,
    .open = conn_open,
    .free = conn_free,
    .handshake = conn_handshake,
    .binding = conn_binding,
    .read = conn_read,
    .write = conn_write,
    .pending = conn_pending,
    .rekey = conn_rekey,
    .close = conn_close,
};
