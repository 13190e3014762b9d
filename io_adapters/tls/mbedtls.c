/* SPDX-License-Identifier: Apache-2.0 */
/* mbedtls.c - TLS 1.2 by mbedTLS 2.28, as Debian 12 has it.
 *
 * A configuration for each connection, since the callback that sees the master secret is the
 * configuration's. Of that secret the binding is made at once, and nothing of it is kept. The
 * library says nowhere whether the extended master secret was agreed on; within the callback
 * its handshake's state does (ssl_internal.h, installed with 2.28). */
#include "io_adapters/tls/lib.h"

#include <assert.h>
#include <errno.h>
#include <mbedtls/error.h>
#include <mbedtls/md.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#include <mbedtls/ssl_internal.h>
#include <mbedtls/x509_crl.h>
#include <mbedtls/x509_crt.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef struct context {
    mbedtls_x509_crt own, authorities;
    mbedtls_x509_crl lists;
    bool has_lists;
    mbedtls_pk_context key;
} context;

typedef struct conn {
    mbedtls_ssl_config conf;
    mbedtls_ssl_context ssl;
    uint8_t binding[32];
    bool bound, extended;
} conn;

static const char *const alpn[] = {UVCCI_TLS_ALPN, NULL};

/* ---- bytes ---- */

static int bio_recv(void *user, unsigned char *bytes, size_t cap) {
    ptrdiff_t n = uvcci_tls_take(user, bytes, cap);
    if (n == UVCC_ERR_AGAIN)
        return MBEDTLS_ERR_SSL_WANT_READ;
    return n < 0 ? MBEDTLS_ERR_NET_RECV_FAILED : (int)n;
}

static int bio_send(void *user, const unsigned char *bytes, size_t len) {
    ptrdiff_t n = uvcci_tls_put(user, bytes, len);
    return n < 0 ? MBEDTLS_ERR_SSL_WANT_WRITE : (int)n;
}

static int random_bytes(void *user, unsigned char *out, size_t len) {
    (void)user;
    while (len > 0) {
        ssize_t n = getrandom(out, len, 0);
        if (n < 0 && errno != EINTR)
            return MBEDTLS_ERR_SSL_INTERNAL_ERROR;
        if (n > 0) {
            out += n;
            len -= (size_t)n;
        }
    }
    return 0;
}

/* ---- reasons ---- */

static const char *alert_text(unsigned alert) {
    switch (alert) {
    case MBEDTLS_SSL_ALERT_MSG_UNEXPECTED_MESSAGE:
        return "unexpected message";
    case MBEDTLS_SSL_ALERT_MSG_BAD_RECORD_MAC:
        return "bad record mac";
    case MBEDTLS_SSL_ALERT_MSG_HANDSHAKE_FAILURE:
        return "handshake failure";
    case MBEDTLS_SSL_ALERT_MSG_BAD_CERT:
        return "bad certificate";
    case MBEDTLS_SSL_ALERT_MSG_UNSUPPORTED_CERT:
        return "unsupported certificate";
    case MBEDTLS_SSL_ALERT_MSG_CERT_REVOKED:
        return "certificate revoked";
    case MBEDTLS_SSL_ALERT_MSG_CERT_EXPIRED:
        return "certificate expired";
    case MBEDTLS_SSL_ALERT_MSG_CERT_UNKNOWN:
        return "certificate unknown";
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_CA:
        return "unknown authority";
    case MBEDTLS_SSL_ALERT_MSG_DECRYPT_ERROR:
        return "decrypt error";
    case MBEDTLS_SSL_ALERT_MSG_PROTOCOL_VERSION:
        return "protocol version";
    case MBEDTLS_SSL_ALERT_MSG_UNKNOWN_PSK_IDENTITY:
        return "unknown identity";
    case MBEDTLS_SSL_ALERT_MSG_NO_APPLICATION_PROTOCOL:
        return "no application protocol";
    default:
        return "an alert";
    }
}

/* What a certificate lacks: the first of the library's sentences. */
static int refuse_certificate(uvcci_tls_conn *c, uint32_t flags) {
    char text[256] = "it cannot be read";
    (void)mbedtls_x509_crt_verify_info(text, sizeof text, "", flags);
    text[strcspn(text, "\n")] = '\0';
    const uvcci_tls_fault fault =
        (flags & MBEDTLS_X509_BADCERT_REVOKED) != 0   ? UVCCI_TLS_FAULT_REVOKED
        : (flags & MBEDTLS_X509_BADCERT_EXPIRED) != 0 ? UVCCI_TLS_FAULT_EXPIRED
        : (flags & MBEDTLS_X509_BADCERT_FUTURE) != 0  ? UVCCI_TLS_FAULT_EARLY
        : (flags & (MBEDTLS_X509_BADCRL_EXPIRED | MBEDTLS_X509_BADCRL_FUTURE)) != 0
            ? UVCCI_TLS_FAULT_OLD_LIST
        : (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) != 0 ? UVCCI_TLS_FAULT_STRANGE
                                                          : UVCCI_TLS_FAULT_OTHER;
    return uvcci_tls_refuse(c, fault, text);
}

/* What a library's error means to whoever reads the log. */
static int refused(uvcci_tls_conn *c, int e) {
    const conn *m = c->lib;
    char text[160];
    mbedtls_strerror(e, text, sizeof text);
    switch (e) {
    case MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE:
        return uvcci_tls_alert(c, m->ssl.in_msg[1], alert_text(m->ssl.in_msg[1]));
    case MBEDTLS_ERR_X509_CERT_VERIFY_FAILED:
    case MBEDTLS_ERR_SSL_BAD_HS_CERTIFICATE: /* its usages, or bytes that are none */
        return refuse_certificate(c, mbedtls_ssl_get_verify_result(&m->ssl));
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "it has shown no certificate");
    case MBEDTLS_ERR_SSL_INVALID_MAC:
        if (c->t->shared_keys && !c->done)
            return uvcci_tls_fail(c, UVCC_ERR_AUTH, "its shared key is another: %s", text);
        break;
    case MBEDTLS_ERR_SSL_INVALID_RECORD:
        if (!c->done)
            return uvcci_tls_fail(c, UVCC_ERR_PROTOCOL, "what came is not TLS: %s", text);
        break;
    case MBEDTLS_ERR_SSL_BAD_HS_PROTOCOL_VERSION:
    case MBEDTLS_ERR_SSL_NO_CIPHER_CHOSEN:
    case MBEDTLS_ERR_SSL_NO_USABLE_CIPHERSUITE:
    case MBEDTLS_ERR_SSL_BAD_HS_CLIENT_HELLO:
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "the two ends have no way in common: %s", text);
    default:
        break;
    }
    return uvcci_tls_fail(c, UVCC_ERR_PROTOCOL, "TLS failed: %s", text);
}

/* After a call that did not succeed: UVCC_ERR_AGAIN, 0 (ended), or the error. */
static int outcome(uvcci_tls_conn *c, int e) {
    if (e == MBEDTLS_ERR_SSL_WANT_READ || e == MBEDTLS_ERR_SSL_WANT_WRITE)
        return UVCC_ERR_AGAIN;
    if (e == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY && c->done)
        return 0;
    const int lost = uvcci_tls_lost(c);
    if (lost != 0)
        return lost;
    if (e == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
        return uvcci_tls_fail(c, UVCC_ERR_STREAM_BROKEN, "it said close_notify in the handshake");
    return refused(c, e);
}

/* ---- who ---- */

static uint32_t parties_of(const uvcc_tls *t, const mbedtls_x509_crt *x) {
    uint32_t parties = 0;
    for (const mbedtls_x509_sequence *s = &x->subject_alt_names; s != NULL; s = s->next)
        if (s->buf.p != NULL &&
            (s->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK) == MBEDTLS_X509_SAN_DNS_NAME)
            parties |= uvcci_tls_parties_of(t, s->buf.p, s->buf.len);
    return parties;
}

static int on_certificate(void *user, mbedtls_x509_crt *x, int depth, uint32_t *flags) {
    uvcci_tls_conn *c = user;
    if (depth == 0 && *flags == 0 && uvcci_tls_named(c, parties_of(c->t, x)) != 0)
        *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
    return 0;
}

static int find_key(void *user, mbedtls_ssl_context *ssl, const unsigned char *id, size_t len) {
    uvcci_tls_conn *c = user;
    const uint8_t p = uvcci_tls_identified(c->t, id, len);
    if (p == UVCC_PARTIES && uvcci_tls_stranger(c) != 0)
        return MBEDTLS_ERR_SSL_UNKNOWN_IDENTITY;
    c->peer = p;
    return mbedtls_ssl_set_hs_psk(ssl, c->t->psk[p].tls12, UVCCI_TLS_KEY_BYTES);
}

/* RFC 5705 with RFC 9266's label: its context is of length 0, which stands behind the randoms. */
static int on_keys(void *user, const unsigned char *master, const unsigned char *block,
                   size_t mac_len, size_t key_len, size_t iv_len, const unsigned char client[32],
                   const unsigned char server[32], mbedtls_tls_prf_types prf) {
    uvcci_tls_conn *c = user;
    conn *m = c->lib;
    uint8_t seed[32 + 32 + 2] = {0};
    (void)block, (void)mac_len, (void)key_len, (void)iv_len;
    memcpy(seed, client, 32);
    memcpy(seed + 32, server, 32);
    const int rc = mbedtls_ssl_tls_prf(prf, master, 48, UVCCI_TLS_BINDING_LABEL, seed, sizeof seed,
                                       m->binding, sizeof m->binding);
    m->bound = rc == 0;
    m->extended = m->ssl.handshake != NULL &&
                  m->ssl.handshake->extended_ms == MBEDTLS_SSL_EXTENDED_MS_ENABLED;
    return rc;
}

/* ---- the context ---- */

static bool has_list(const mbedtls_x509_crl *all, const mbedtls_x509_crt *authority) {
    for (const mbedtls_x509_crl *l = all; l != NULL; l = l->next)
        if (l->issuer_raw.len == authority->subject_raw.len &&
            memcmp(l->issuer_raw.p, authority->subject_raw.p, l->issuer_raw.len) == 0)
            return true;
    return false;
}

/* Each authority that may sign must have one: else a list that was forgotten would revoke nothing,
 * and nobody would see it. */
static int read_lists(uvcc_tls *t, context *x, const uvcci_tls_text *file) {
    char text[160];
    const int e = mbedtls_x509_crl_parse(&x->lists, (const uint8_t *)file->text, file->len + 1);
    if (e != 0) {
        mbedtls_strerror(e, text, sizeof text);
        return uvcci_tls_wrong(t, "crl: no revocation list in PEM: %s", text);
    }
    x->has_lists = true;
    for (const mbedtls_x509_crt *a = &x->authorities; a != NULL; a = a->next) {
        char name[200] = "";
        (void)mbedtls_x509_dn_gets(name, sizeof name, &a->subject);
        if (a->ca_istrue != 0 && !has_list(&x->lists, a))
            return uvcci_tls_no_list(t, name);
    }
    return 0;
}

static int read_files(uvcc_tls *t, context *x, const uvcci_tls_files *f) {
    char text[160];
    /* The parsers want the zero at the end counted. */
    int e = mbedtls_x509_crt_parse(&x->own, (const uint8_t *)f->certificate.text,
                                   f->certificate.len + 1);
    if (e != 0) {
        if (e < 0)
            mbedtls_strerror(e, text, sizeof text);
        else
            (void)snprintf(text, sizeof text, "%d certificates cannot be read", e);
        return uvcci_tls_wrong(t, "certificate: no certificates in PEM that can be used: %s", text);
    }
    e = mbedtls_pk_parse_key(&x->key, (const uint8_t *)f->key.text, f->key.len + 1, NULL, 0);
    if (e != 0) {
        mbedtls_strerror(e, text, sizeof text);
        return uvcci_tls_wrong(t, "key: no private key in PEM that can be used: %s", text);
    }
    if (mbedtls_pk_check_pair(&x->own.pk, &x->key) != 0)
        return uvcci_tls_wrong(t, "key: it is not that of the certificate");
    e = mbedtls_x509_crt_parse(&x->authorities, (const uint8_t *)f->authorities.text,
                               f->authorities.len + 1);
    if (e != 0) {
        if (e < 0)
            mbedtls_strerror(e, text, sizeof text);
        else
            (void)snprintf(text, sizeof text, "%d certificates cannot be read", e);
        return uvcci_tls_wrong(t, "authorities: no certificates in PEM that can be used: %s", text);
    }
    for (const mbedtls_x509_crt *a = &x->authorities; a != NULL; a = a->next) {
        int rc = uvcci_tls_check_authority(t, parties_of(t, a), a->ca_istrue != 0);
        if (rc != 0)
            return rc;
    }
    t->own_names = parties_of(t, &x->own);
    return f->crl.text != NULL ? read_lists(t, x, &f->crl) : 0;
}

static int context_new(uvcc_tls *t, const uvcci_tls_files *files) {
    context *x = t->alloc.alloc(t->alloc.user, sizeof *x, UVCC_MEM_SECRET);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    mbedtls_x509_crt_init(&x->own);
    mbedtls_x509_crt_init(&x->authorities);
    mbedtls_x509_crl_init(&x->lists);
    x->has_lists = false;
    mbedtls_pk_init(&x->key);
    t->context = x;
    return files == NULL ? 0 : read_files(t, x, files);
}

static void context_free(uvcc_tls *t) {
    context *x = t->context;
    mbedtls_x509_crt_free(&x->own);
    mbedtls_x509_crt_free(&x->authorities);
    mbedtls_x509_crl_free(&x->lists);
    mbedtls_pk_free(&x->key);
    t->alloc.free(t->alloc.user, x, sizeof *x, UVCC_MEM_SECRET);
    t->context = NULL;
}

static int hmac(const uint8_t *key, size_t key_len, const uint8_t *text, size_t len,
                uint8_t out[UVCCI_TLS_KEY_BYTES]) {
    return mbedtls_md_hmac(mbedtls_md_info_from_type(MBEDTLS_MD_SHA256), key, key_len, text, len,
                           out) == 0
               ? 0
               : UVCC_ERR_CRYPTO;
}

/* ---- connections ---- */

/* The lists stay where they are: a configuration points to them. */
static void settings(mbedtls_ssl_config *conf, bool shared_keys) {
    static const int suites[] = {MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
                                 MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
                                 MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
                                 0};
    static const int psk_suites[] = {MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256, 0};
    static const mbedtls_ecp_group_id curves[] = {MBEDTLS_ECP_DP_CURVE25519,
                                                  MBEDTLS_ECP_DP_SECP256R1,
                                                  MBEDTLS_ECP_DP_SECP384R1, MBEDTLS_ECP_DP_NONE};
    static const int hashes[] = {MBEDTLS_MD_SHA256, MBEDTLS_MD_SHA384, MBEDTLS_MD_SHA512,
                                 MBEDTLS_MD_NONE};
    mbedtls_ssl_conf_min_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_max_version(conf, MBEDTLS_SSL_MAJOR_VERSION_3, MBEDTLS_SSL_MINOR_VERSION_3);
    mbedtls_ssl_conf_ciphersuites(conf, shared_keys ? psk_suites : suites);
    mbedtls_ssl_conf_curves(conf, curves);
    mbedtls_ssl_conf_sig_hashes(conf, hashes);
    mbedtls_ssl_conf_authmode(conf, MBEDTLS_SSL_VERIFY_REQUIRED);
    mbedtls_ssl_conf_rng(conf, random_bytes, NULL);
    mbedtls_ssl_conf_extended_master_secret(conf, MBEDTLS_SSL_EXTENDED_MS_ENABLED);
#ifdef MBEDTLS_SSL_RENEGOTIATION
    mbedtls_ssl_conf_renegotiation(conf, MBEDTLS_SSL_RENEGOTIATION_DISABLED);
#endif
    mbedtls_ssl_conf_legacy_renegotiation(conf, MBEDTLS_SSL_LEGACY_BREAK_HANDSHAKE);
}

/* What an end has of one kind only. */
static int settings_of(uvcci_tls_conn *c, mbedtls_ssl_config *conf) {
    context *x = c->t->context;
    int e = mbedtls_ssl_conf_alpn_protocols(conf, (const char **)(uintptr_t)alpn);
    if (c->server)
        mbedtls_ssl_conf_cert_req_ca_list(conf, MBEDTLS_SSL_CERT_REQ_CA_LIST_DISABLED);
#ifdef MBEDTLS_SSL_SESSION_TICKETS
    else
        mbedtls_ssl_conf_session_tickets(conf, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
#endif
    if (e != 0)
        return e;
    if (!c->t->shared_keys) {
        mbedtls_ssl_conf_verify(conf, on_certificate, c);
        mbedtls_ssl_conf_ca_chain(conf, &x->authorities, x->has_lists ? &x->lists : NULL);
        return mbedtls_ssl_conf_own_cert(conf, &x->own, &x->key);
    }
    if (!c->server)
        return mbedtls_ssl_conf_psk(conf, c->t->psk[c->peer].tls12, UVCCI_TLS_KEY_BYTES,
                                    (const uint8_t *)c->t->identity, strlen(c->t->identity));
    mbedtls_ssl_conf_psk_cb(conf, find_key, c);
    return 0;
}

static void conn_free(uvcci_tls_conn *c) {
    conn *m = c->lib;
    mbedtls_ssl_free(&m->ssl);
    mbedtls_ssl_config_free(&m->conf);
    c->t->alloc.free(c->t->alloc.user, m, sizeof *m, UVCC_MEM_SECRET);
    c->lib = NULL;
}

static int conn_open(uvcci_tls_conn *c) {
    conn *m = c->t->alloc.alloc(c->t->alloc.user, sizeof *m, UVCC_MEM_SECRET);
    if (m == NULL)
        return UVCC_ERR_NOMEM;
    memset(m, 0, sizeof *m);
    mbedtls_ssl_config_init(&m->conf);
    mbedtls_ssl_init(&m->ssl);
    c->lib = m;
    int e = mbedtls_ssl_config_defaults(&m->conf,
                                        c->server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                        MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT);
    settings(&m->conf, c->t->shared_keys);
    if (e == 0)
        e = settings_of(c, &m->conf);
    mbedtls_ssl_conf_export_keys_ext_cb(&m->conf, on_keys, c);
    if (e == 0)
        e = mbedtls_ssl_setup(&m->ssl, &m->conf);
    if (e != 0) {
        conn_free(c);
        return UVCC_ERR_NOMEM;
    }
    mbedtls_ssl_set_bio(&m->ssl, c, bio_send, bio_recv, NULL);
    return 0;
}

static int conn_handshake(uvcci_tls_conn *c) {
    conn *m = c->lib;
    const int e = mbedtls_ssl_handshake(&m->ssl);
    if (e != 0)
        return outcome(c, e);
    const char *name = mbedtls_ssl_get_alpn_protocol(&m->ssl);
    if (name == NULL || strcmp(name, alpn[0]) != 0)
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "it does not speak " UVCCI_TLS_ALPN " (ALPN)");
    if (!m->bound || !m->extended)
        return uvcci_tls_fail(c, UVCC_ERR_MISMATCH, "it has no extended master secret");
    if (c->t->shared_keys) /* the suite is one of shared keys, and Finished was right */
        c->proved = c->peer < UVCC_PARTIES;
    else if (mbedtls_ssl_get_verify_result(&m->ssl) != 0)
        c->proved = false;
    if (!c->proved)
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "it has not proved who it is");
    return 1;
}

static int conn_binding(uvcci_tls_conn *c, uint8_t out[32]) {
    const conn *m = c->lib;
    assert(m->bound);
    memcpy(out, m->binding, sizeof m->binding);
    return 0;
}

static ptrdiff_t conn_read(uvcci_tls_conn *c, uint8_t *bytes, size_t cap) {
    conn *m = c->lib;
    const int n = mbedtls_ssl_read(&m->ssl, bytes, cap);
    if (n == 0 && !c->eof) /* an empty record */
        return UVCC_ERR_AGAIN;
    return n > 0 ? n : outcome(c, n == 0 ? MBEDTLS_ERR_SSL_CONN_EOF : n);
}

static ptrdiff_t conn_write(uvcci_tls_conn *c, const uint8_t *bytes, size_t len) {
    conn *m = c->lib;
    const int n = mbedtls_ssl_write(&m->ssl, bytes, len);
    return n >= 0 ? n : outcome(c, n);
}

static size_t conn_pending(const uvcci_tls_conn *c) {
    const conn *m = c->lib;
    return mbedtls_ssl_get_bytes_avail(&m->ssl);
}

static void conn_close(uvcci_tls_conn *c) {
    conn *m = c->lib;
    (void)mbedtls_ssl_close_notify(&m->ssl);
}

const uvcci_tls_lib uvcci_tls_mbedtls = {
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
    .rekey = NULL,
    .close = conn_close,
};
