/* SPDX-License-Identifier: Apache-2.0 */
/* bare.c - see bare.h. Sockets are non-blocking and waited for by poll(), buffers are those of one
 * message, and TLS is used as its library's documentation shows it. */
#define _GNU_SOURCE
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef UVCC_TLS_HAVE_OPENSSL
#include <openssl/ssl.h>
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
#include <mbedtls/ctr_drbg.h>
#include <mbedtls/entropy.h>
#include <mbedtls/net_sockets.h>
#include <mbedtls/ssl.h>
#endif

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define MESSAGE_BYTES (1u << 20)
#define BLOCK_BYTES   (64u << 10)
#define TAG_BYTES     16u
#define NONCE_BYTES   12u
#define RUN_PACKETS   52u          /* of one message that the kernel cuts: below 64 KiB */
#define UDP_ON_WAY    (128u << 10) /* what the least receive buffer holds */
#define UDP_STALL_MS  100

struct bare {
    int fd;
    bare_tls tls;
    void *lib; /* SSL, or mbedtls_end */
    EVP_CIPHER_CTX *aes;
    uint8_t key[BARE_KEY_BYTES];
    uint64_t nonce;
    uint8_t *buffer; /* a message, and a tag for each of its blocks */
};

static void fail(const char *what) {
    fprintf(stderr, "bench_net: bare: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void need(bool ok, const char *what) {
    if (!ok)
        fail(what);
}

static void wait_for(const bare *b, short events) {
    struct pollfd p = {.fd = b->fd, .events = events};
    while (poll(&p, 1, -1) < 0)
        need(errno == EINTR, "poll");
}

/* ---- TLS ---- */

#ifdef UVCC_TLS_HAVE_OPENSSL
static const uint8_t *psk; /* the callbacks of 1.2 serve TLS 1.3 too, and have no argument */

static unsigned client_psk(SSL *ssl, const char *hint, char *id, unsigned id_cap, uint8_t *out,
                           unsigned cap) {
    (void)ssl, (void)hint;
    need(id_cap > 1 && cap >= BARE_KEY_BYTES, "the key's room");
    memcpy(id, "b", 2);
    memcpy(out, psk, BARE_KEY_BYTES);
    return BARE_KEY_BYTES;
}

static unsigned server_psk(SSL *ssl, const char *id, uint8_t *out, unsigned cap) {
    (void)ssl, (void)id;
    need(cap >= BARE_KEY_BYTES, "the key's room");
    memcpy(out, psk, BARE_KEY_BYTES);
    return BARE_KEY_BYTES;
}

static void openssl_open(bare *end[2]) {
    SSL_CTX *ctx = SSL_CTX_new(TLS_method());
    psk = end[0]->key;
    need(ctx != NULL && SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) == 1 &&
             SSL_CTX_set_ciphersuites(ctx, "TLS_AES_128_GCM_SHA256") == 1,
         "SSL_CTX");
    (void)SSL_CTX_set_num_tickets(ctx, 0);
    SSL_CTX_set_psk_client_callback(ctx, client_psk);
    SSL_CTX_set_psk_server_callback(ctx, server_psk);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE);
    for (int i = 0; i < 2; i++) {
        SSL *ssl = end[i]->lib = SSL_new(ctx);
        need(ssl != NULL && SSL_set_fd(ssl, end[i]->fd) == 1, "SSL");
        i == 0 ? SSL_set_accept_state(ssl) : SSL_set_connect_state(ssl);
    }
    SSL_CTX_free(ctx);
    for (bool done[2] = {false, false}; !done[0] || !done[1];)
        for (int i = 1; i >= 0; i--) {
            const int rc = SSL_do_handshake(end[i]->lib);
            done[i] |= rc == 1;
            need(rc == 1 || SSL_get_error(end[i]->lib, rc) == SSL_ERROR_WANT_READ, "handshake");
        }
}

/* Bytes, or 0: none now. */
static size_t openssl_io(bare *b, uint8_t *bytes, size_t len, bool out) {
    size_t n = 0;
    const int rc = out ? SSL_write_ex(b->lib, bytes, len, &n) : SSL_read_ex(b->lib, bytes, len, &n);
    if (rc != 1) {
        const int e = SSL_get_error(b->lib, rc);
        need(e == SSL_ERROR_WANT_READ || e == SSL_ERROR_WANT_WRITE, "SSL_read or SSL_write");
    }
    return n;
}
#endif

#ifdef UVCC_TLS_HAVE_MBEDTLS
typedef struct mbedtls_end {
    mbedtls_entropy_context entropy;
    mbedtls_ctr_drbg_context random;
    mbedtls_ssl_config conf;
    mbedtls_ssl_context ssl;
    mbedtls_net_context net;
} mbedtls_end;

static void mbedtls_open(bare *end[2]) {
    static const int suites[] = {MBEDTLS_TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256, 0};
    for (int i = 0; i < 2; i++) {
        mbedtls_end *m = end[i]->lib = calloc(1, sizeof *m);
        need(m != NULL, "calloc");
        mbedtls_entropy_init(&m->entropy);
        mbedtls_ctr_drbg_init(&m->random);
        mbedtls_ssl_config_init(&m->conf);
        mbedtls_ssl_init(&m->ssl);
        m->net.fd = end[i]->fd;
        need(mbedtls_ctr_drbg_seed(&m->random, mbedtls_entropy_func, &m->entropy, NULL, 0) == 0 &&
                 mbedtls_ssl_config_defaults(
                     &m->conf, i == 0 ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                     MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT) == 0 &&
                 mbedtls_ssl_conf_psk(&m->conf, end[0]->key, BARE_KEY_BYTES, (const uint8_t *)"b",
                                      1) == 0,
             "mbedtls");
        mbedtls_ssl_conf_rng(&m->conf, mbedtls_ctr_drbg_random, &m->random);
        mbedtls_ssl_conf_ciphersuites(&m->conf, suites);
        need(mbedtls_ssl_setup(&m->ssl, &m->conf) == 0, "mbedtls_ssl_setup");
        mbedtls_ssl_set_bio(&m->ssl, &m->net, mbedtls_net_send, mbedtls_net_recv, NULL);
    }
    for (bool done[2] = {false, false}; !done[0] || !done[1];)
        for (int i = 1; i >= 0; i--) {
            const int rc = done[i] ? 0 : mbedtls_ssl_handshake(&((mbedtls_end *)end[i]->lib)->ssl);
            done[i] = rc == 0;
            need(rc == 0 || rc == MBEDTLS_ERR_SSL_WANT_READ, "handshake");
        }
}

static size_t mbedtls_io(bare *b, uint8_t *bytes, size_t len, bool out) {
    mbedtls_end *m = b->lib;
    const int rc =
        out ? mbedtls_ssl_write(&m->ssl, bytes, len) : mbedtls_ssl_read(&m->ssl, bytes, len);
    need(rc > 0 || rc == MBEDTLS_ERR_SSL_WANT_READ || rc == MBEDTLS_ERR_SSL_WANT_WRITE,
         "mbedtls_ssl_read or _write");
    return rc > 0 ? (size_t)rc : 0;
}

static void mbedtls_close(mbedtls_end *m) {
    mbedtls_ssl_free(&m->ssl);
    mbedtls_ssl_config_free(&m->conf);
    mbedtls_ctr_drbg_free(&m->random);
    mbedtls_entropy_free(&m->entropy);
    free(m);
}
#endif

/* ---- bytes ---- */

static size_t some(bare *b, uint8_t *bytes, size_t len, bool out) {
#ifdef UVCC_TLS_HAVE_OPENSSL
    if (b->tls == BARE_OPENSSL)
        return openssl_io(b, bytes, len, out);
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
    if (b->tls == BARE_MBEDTLS)
        return mbedtls_io(b, bytes, len, out);
#endif
    const ssize_t n = out ? send(b->fd, bytes, len, MSG_NOSIGNAL) : recv(b->fd, bytes, len, 0);
    need(n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)), out ? "send" : "recv");
    return n > 0 ? (size_t)n : 0;
}

static void all(bare *b, uint8_t *bytes, size_t len, bool out) {
    for (size_t at = 0; at < len;) {
        const size_t n = some(b, bytes + at, len - at, out);
        if (n == 0)
            wait_for(b, out ? POLLOUT : POLLIN);
        at += n;
    }
}

void bare_send(bare *b, const uint8_t *bytes, size_t len) {
    all(b, (uint8_t *)(uintptr_t)bytes, len, true);
}

void bare_recv(bare *b, uint8_t *bytes, size_t len) {
    all(b, bytes, len, false);
}

/* ---- the cipher ---- */

static void crypt_aes(bare *b, const uint8_t nonce[NONCE_BYTES], uint8_t *block, bool seal) {
    int n = 0;
    uint8_t *tag = block + BLOCK_BYTES;
    need(EVP_CipherInit_ex(b->aes, NULL, NULL, NULL, nonce, seal) == 1 &&
             EVP_CipherUpdate(b->aes, block, &n, block, BLOCK_BYTES) == 1 &&
             (seal || EVP_CIPHER_CTX_ctrl(b->aes, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag) == 1) &&
             EVP_CipherFinal_ex(b->aes, block, &n) == 1 &&
             (!seal || EVP_CIPHER_CTX_ctrl(b->aes, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES, tag) == 1),
         "AES-256-GCM");
}

/* A block in place, its tag behind it. */
static void crypt_block(bare *b, int suite, uint8_t *block, bool seal) {
    uint8_t nonce[NONCE_BYTES] = {0}, *tag = block + BLOCK_BYTES;
    unsigned long long n;
    b->nonce++;
    memcpy(nonce, &b->nonce, sizeof b->nonce);
    if (suite == 2)
        crypt_aes(b, nonce, block, seal);
    else if (seal)
        (void)crypto_aead_chacha20poly1305_ietf_encrypt_detached(block, tag, &n, block, BLOCK_BYTES,
                                                                 NULL, 0, NULL, nonce, b->key);
    else
        need(crypto_aead_chacha20poly1305_ietf_decrypt_detached(block, NULL, block, BLOCK_BYTES,
                                                                tag, NULL, 0, nonce, b->key) == 0,
             "ChaCha20-Poly1305");
}

/* ---- copies ---- */

static void udp_out(bare *b, size_t bytes) {
    uint64_t sent = 0, there = 0;
    while (sent < bytes) {
        size_t len = RUN_PACKETS * BARE_PACKET_BYTES;
        struct pollfd p = {.fd = b->fd, .events = POLLIN};
        while (recv(b->fd, &there, sizeof there, 0) > 0) {
        }
        if (sent > there && sent - there + len > UDP_ON_WAY) {
            if (poll(&p, 1, UDP_STALL_MS) == 0)
                there = sent; /* lost: it is copied, and not missed */
            continue;
        }
        len = len < bytes - sent ? len : bytes - sent;
        union {
            char bytes[CMSG_SPACE(sizeof(uint16_t))];
            struct cmsghdr align;
        } control = {{0}};
        struct iovec iov = {.iov_base = b->buffer, .iov_len = len};
        struct msghdr m = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof control.bytes};
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        const uint16_t packet = BARE_PACKET_BYTES;
        c->cmsg_level = IPPROTO_UDP;
        c->cmsg_type = UDP_SEGMENT;
        c->cmsg_len = CMSG_LEN(sizeof packet);
        memcpy(CMSG_DATA(c), &packet, sizeof packet);
        const ssize_t n = sendmsg(b->fd, &m, 0);
        need(n > 0 || errno == EAGAIN, "sendmsg");
        if (n <= 0)
            wait_for(b, POLLOUT);
        else
            sent += (size_t)n;
    }
}

/* A copy is over when the last packets came; what was lost on the way is not waited for. */
static void udp_in(bare *b, size_t bytes) {
    uint64_t came = 0, told = 0;
    while (came < bytes) {
        const ssize_t n = recv(b->fd, b->buffer, MESSAGE_BYTES, 0);
        struct pollfd p = {.fd = b->fd, .events = POLLIN};
        need(n > 0 || errno == EAGAIN, "recv");
        if (n > 0)
            came += (uint64_t)n;
        else if (poll(&p, 1, 2 * UDP_STALL_MS) == 0)
            break;
        if (came - told >= UDP_ON_WAY / 4) {
            told = came;
            (void)send(b->fd, &told, sizeof told, 0);
        }
    }
}

static void copy(bare *b, int suite, size_t bytes, bool out) {
    const size_t block = suite == 0 ? MESSAGE_BYTES : BLOCK_BYTES;
    const size_t stride = suite == 0 ? block : block + TAG_BYTES;
    for (size_t done = 0; done < bytes; done += block) {
        uint8_t *p = b->buffer + done % MESSAGE_BYTES / block * stride;
        if (suite != 0 && out)
            crypt_block(b, suite, p, true);
        all(b, p, stride, out);
        if (suite != 0 && !out)
            crypt_block(b, suite, p, false);
    }
}

void bare_copy_out(bare *b, int suite, size_t bytes) {
    int type = 0;
    socklen_t len = sizeof type;
    need(getsockopt(b->fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0, "SO_TYPE");
    type == SOCK_DGRAM ? udp_out(b, bytes) : copy(b, suite, bytes, true);
}

void bare_copy_in(bare *b, int suite, size_t bytes) {
    int type = 0;
    socklen_t len = sizeof type;
    need(getsockopt(b->fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0, "SO_TYPE");
    type == SOCK_DGRAM ? udp_in(b, bytes) : copy(b, suite, bytes, false);
}

/* ---- sockets ---- */

static struct sockaddr_in any_port(void) {
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void bind_any(int fd, struct sockaddr_in *a) {
    socklen_t len = sizeof *a;
    *a = any_port();
    need(bind(fd, (struct sockaddr *)a, sizeof *a) == 0 &&
             getsockname(fd, (struct sockaddr *)a, &len) == 0,
         "bind");
}

static void open_sockets(int fd[2], bare_socket kind) {
    const int one = 1, bytes = 4 << 20;
    struct sockaddr_in a[2];
    if (kind == BARE_UNIX) {
        need(socketpair(AF_UNIX, SOCK_STREAM, 0, fd) == 0, "socketpair");
    } else if (kind == BARE_TCP) {
        const int listener = socket(AF_INET, SOCK_STREAM, 0);
        bind_any(listener, &a[0]);
        fd[1] = socket(AF_INET, SOCK_STREAM, 0);
        need(listen(listener, 1) == 0 && connect(fd[1], (struct sockaddr *)&a[0], sizeof a[0]) == 0,
             "connect");
        fd[0] = accept(listener, NULL, NULL);
        (void)close(listener);
        for (int i = 0; i < 2; i++)
            need(setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0, "TCP_NODELAY");
    } else {
        for (int i = 0; i < 2; i++) {
            fd[i] = socket(AF_INET, SOCK_DGRAM, 0);
            bind_any(fd[i], &a[i]);
            (void)setsockopt(fd[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
            (void)setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
            (void)setsockopt(fd[i], IPPROTO_UDP, UDP_GRO, &one, sizeof one);
        }
        for (int i = 0; i < 2; i++)
            need(connect(fd[i], (struct sockaddr *)&a[1 - i], sizeof a[0]) == 0, "connect");
    }
}

void bare_pair(bare *end[2], bare_socket kind, bare_tls tls, const uint8_t key[BARE_KEY_BYTES]) {
    int fd[2];
    open_sockets(fd, kind);
    for (int i = 0; i < 2; i++) {
        bare *b = end[i] = calloc(1, sizeof *b);
        need(b != NULL, "calloc");
        b->fd = fd[i];
        b->tls = tls;
        b->aes = EVP_CIPHER_CTX_new();
        b->buffer = malloc(MESSAGE_BYTES + (MESSAGE_BYTES / BLOCK_BYTES) * TAG_BYTES);
        memcpy(b->key, key, BARE_KEY_BYTES);
        need(b->buffer != NULL && b->aes != NULL &&
                 EVP_CipherInit_ex(b->aes, EVP_aes_256_gcm(), NULL, key, NULL, 1 - i) == 1,
             "AES-256-GCM");
        memset(b->buffer, i + 1, MESSAGE_BYTES);
        need(fcntl(b->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
    }
#ifdef UVCC_TLS_HAVE_OPENSSL
    if (tls == BARE_OPENSSL)
        openssl_open(end);
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
    if (tls == BARE_MBEDTLS)
        mbedtls_open(end);
#endif
}

void bare_free(bare *b) {
#ifdef UVCC_TLS_HAVE_OPENSSL
    if (b->tls == BARE_OPENSSL)
        SSL_free(b->lib);
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
    if (b->tls == BARE_MBEDTLS)
        mbedtls_close(b->lib);
#endif
    EVP_CIPHER_CTX_free(b->aes);
    (void)close(b->fd);
    free(b->buffer);
    free(b);
}
