/* SPDX-License-Identifier: Apache-2.0 */
/* tls.c - what all TLS libraries share: configuration and files, ciphertext both ways, records out
 * of slices, names, reasons.
 *
 * A connection is in one of: handshake, open (`done`), ended (`ended`: close_notify came), refused
 * or gone (`error`, which sticks; what waits can still be flushed, the alert is in it). */
#include "io_adapters/tls/lib.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvcc/demux.h>

enum {
    FILE_MAX_BYTES = 1 << 20,
    /* RFC 8446, 5.5: AES-GCM is good for 2^24.5 full records under a key. */
    RECORDS_PER_KEY = 1 << 23,
};

/* ---- which library ---- */

static const uvcci_tls_lib *library(uint32_t *which) {
#ifdef UVCC_TLS_HAVE_OPENSSL
    if (*which == UVCC_TLS_AUTO || *which == UVCC_TLS_OPENSSL) {
        *which = UVCC_TLS_OPENSSL;
        return &uvcci_tls_openssl;
    }
#endif
#ifdef UVCC_TLS_HAVE_MBEDTLS
    if (*which == UVCC_TLS_AUTO || *which == UVCC_TLS_MBEDTLS) {
        *which = UVCC_TLS_MBEDTLS;
        return &uvcci_tls_mbedtls;
    }
#endif
    (void)which;
    return NULL;
}

bool uvcc_tls_is_here(uint32_t which) {
    return library(&which) != NULL;
}

const char *uvcc_tls_name(uint32_t which) {
    static const char *const names[] = {"auto", "openssl", "mbedtls"};
    return which < sizeof names / sizeof names[0] ? names[which] : NULL;
}

/* ---- configuration ---- */

int uvcci_tls_wrong(const uvcc_tls *t, const char *format, ...) {
    char line[512];
    va_list args;
    int at = snprintf(line, sizeof line, "tls: ");
    va_start(args, format);
    (void)vsnprintf(line + at, sizeof line - (size_t)at, format, args);
    va_end(args);
    if (t->log.write != NULL)
        t->log.write(t->log.user, UVCC_LOG_ERROR, line);
    return UVCC_ERR_CONFIG;
}

/* memset that stays, in front of a free(). */
static void wipe(void *p, size_t len) {
    memset(p, 0, len);
    __asm__ volatile("" : : "r"(p) : "memory");
}

static void free_text(const uvcc_tls *t, uvcci_tls_text *file) {
    if (file->text == NULL)
        return;
    wipe(file->text, file->room);
    t->alloc.free(t->alloc.user, file->text, file->room, UVCC_MEM_SECRET);
    *file = (uvcci_tls_text){0};
}

/* Who can read the key can be this party. */
static int check_private(const uvcc_tls *t, const char *path, const struct stat *st) {
    if (st->st_uid != geteuid())
        return uvcci_tls_wrong(t,
                               "key: %s belongs to user %lu, and this is user %lu: the key's file"
                               " must be its user's own",
                               path, (unsigned long)st->st_uid, (unsigned long)geteuid());
    if ((st->st_mode & 077) != 0)
        return uvcci_tls_wrong(t, "key: others may use %s (mode %04o): chmod 600 %s", path,
                               (unsigned)(st->st_mode & 07777), path);
    return 0;
}

static int read_all(int fd, uvcci_tls_text *file) {
    while (file->len < file->room - 1) {
        ssize_t n = read(fd, file->text + file->len, file->room - 1 - file->len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        file->len += (size_t)n;
    }
    file->text[file->len] = '\0';
    return 0;
}

static int read_file(const uvcc_tls *t, const char *member, const char *path, bool secret,
                     uvcci_tls_text *file) {
    struct stat st;
    int rc = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        rc = uvcci_tls_wrong(t, "%s: cannot open %s: %s", member, path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size > FILE_MAX_BYTES) {
        rc = uvcci_tls_wrong(t, "%s: %s is no file of 1 to %d bytes", member, path, FILE_MAX_BYTES);
        goto out;
    }
    rc = secret ? check_private(t, path, &st) : 0;
    if (rc != 0)
        goto out;
    file->room = (size_t)st.st_size + 1;
    file->text = t->alloc.alloc(t->alloc.user, file->room, UVCC_MEM_SECRET);
    if (file->text == NULL) {
        rc = UVCC_ERR_NOMEM;
        goto out;
    }
    if (read_all(fd, file) != 0) {
        rc = uvcci_tls_wrong(t, "%s: cannot read %s: %s", member, path, strerror(errno));
        free_text(t, file);
        goto out;
    }
    if (secret && strstr(file->text, "ENCRYPTED") != NULL) {
        rc = uvcci_tls_wrong(t,
                             "key: %s is protected by a passphrase, which nobody is here to type:"
                             " openssl pkey -in %s -out PLAIN, in a folder of your own",
                             path, path);
        free_text(t, file);
    }
out:
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int read_files(const uvcc_tls *t, const uvcc_tls_config *cfg, uvcci_tls_files *files) {
    int rc = read_file(t, "certificate", cfg->certificate, false, &files->certificate);
    if (rc == 0)
        rc = read_file(t, "key", cfg->key, true, &files->key);
    if (rc == 0)
        rc = read_file(t, "authorities", cfg->authorities, false, &files->authorities);
    if (rc == 0 && cfg->crl != NULL)
        rc = read_file(t, "crl", cfg->crl, false, &files->crl);
    return rc;
}

/* The keys that go into TLS, of the one that a pair shares: HMAC with what they are for. */
static int derive(uvcc_tls *t, uint8_t peer, const uint8_t *key, size_t len) {
    uint8_t text[] = "uvcc tls psk 0 pq";
    enum { VERSION = sizeof text - 5, LOW = sizeof text - 3, HIGH = sizeof text - 2 };
    uvcci_tls_psk *p = &t->psk[peer];
    text[LOW] = t->party < peer ? t->party : peer;
    text[HIGH] = t->party < peer ? peer : t->party;
    text[VERSION] = 2;
    if (t->lib->hmac(key, len, text, sizeof text - 1, p->tls12) != 0)
        return UVCC_ERR_CRYPTO;
    text[VERSION] = 3;
    if (t->lib->hmac(key, len, text, sizeof text - 1, p->tls13) != 0)
        return UVCC_ERR_CRYPTO;
    p->here = true;
    return 0;
}

static int take_keys(uvcc_tls *t, const uvcc_tls_config *cfg) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        if (p == t->party || cfg->psk[p] == NULL)
            continue;
        if (cfg->psk_len[p] < UVCC_TLS_PSK_MIN_BYTES || cfg->psk_len[p] > UVCC_TLS_PSK_MAX_BYTES)
            return uvcci_tls_wrong(t, "psk[%u]: %zu bytes: %u to %u, from a random generator", p,
                                   cfg->psk_len[p], UVCC_TLS_PSK_MIN_BYTES, UVCC_TLS_PSK_MAX_BYTES);
        for (uint8_t q = 0; q < p; q++)
            if (q != t->party && cfg->psk[q] != NULL && cfg->psk_len[q] == cfg->psk_len[p] &&
                memcmp(cfg->psk[q], cfg->psk[p], cfg->psk_len[p]) == 0)
                return uvcci_tls_wrong(t,
                                       "psk[%u] is psk[%u]: each pair of parties shares a key"
                                       " that the third one does not know",
                                       p, q);
        int rc = derive(t, p, cfg->psk[p], cfg->psk_len[p]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int take_names(uvcc_tls *t, const uvcc_tls_config *cfg) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        const size_t len = cfg->name[p] == NULL ? 0 : strlen(cfg->name[p]);
        if (len > 0 && len < sizeof t->name[p])
            memcpy(t->name[p], cfg->name[p], len + 1);
        else if (cfg->name[p] == NULL || p == t->party)
            (void)snprintf(t->name[p], sizeof t->name[p], "party-%u", p);
        else
            return uvcci_tls_wrong(t, "name[%u]: 1 to %d bytes", p, UVCCI_TLS_NAME_BYTES - 1);
    }
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        for (uint8_t q = 0; q < p; q++)
            if (p != t->party && q != t->party && strcasecmp(t->name[p], t->name[q]) == 0)
                return uvcci_tls_wrong(t, "name[%u] is name[%u]: %s", p, q, t->name[p]);
    return 0;
}

/* Which of the two ways of proof is configured; all of one and nothing of the other. */
static int check_way(uvcc_tls *t, const uvcc_tls_config *cfg) {
    const int files = (cfg->certificate != NULL) + (cfg->key != NULL) + (cfg->authorities != NULL);
    bool keys = false;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        keys = keys || (p != t->party && cfg->psk[p] != NULL);
    if (files != 0 && files != 3)
        return uvcci_tls_wrong(t, "certificate, key and authorities: all three or none");
    if (cfg->crl != NULL && files == 0)
        return uvcci_tls_wrong(t, "crl: revocation lists are of certificates, and there are none");
    if (files != 0 && keys)
        return uvcci_tls_wrong(t, "certificates or shared keys: not both");
    if (files == 0 && !keys)
        return uvcci_tls_wrong(t, "neither certificates nor shared keys: both ends must prove who"
                                  " they are");
    t->shared_keys = keys;
    return 0;
}

int uvcc_tls_new(uvcc_tls **out, const uvcc_tls_config *cfg) {
    uvcci_tls_files files = {0};
    if (out == NULL || cfg == NULL)
        return UVCC_ERR_USAGE;
    *out = NULL;
    if (cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL || cfg->alloc.free == NULL ||
        cfg->party >= UVCC_PARTIES || cfg->library > UVCC_TLS_MBEDTLS)
        return uvcci_tls_wrong(
            &(uvcc_tls){.log = cfg->size == sizeof *cfg ? cfg->log : (uvcc_logger){0}},
            "size, alloc, party or library cannot be");
    uint32_t which = cfg->library;
    const uvcci_tls_lib *lib = library(&which);
    if (lib == NULL)
        return UVCC_ERR_NOT_FOUND;
    uvcc_tls *t = cfg->alloc.alloc(cfg->alloc.user, sizeof *t, UVCC_MEM_SECRET);
    if (t == NULL)
        return UVCC_ERR_NOMEM;
    *t = (uvcc_tls){.alloc = cfg->alloc,
                    .log = cfg->log,
                    .library = which,
                    .party = cfg->party,
                    .tls12 = cfg->tls12,
                    .records_per_key = RECORDS_PER_KEY,
                    .lib = lib};
    (void)snprintf(t->identity, sizeof t->identity, "uvcc-%u", (unsigned)(cfg->party % 10u));
    int rc = check_way(t, cfg);
    if (rc == 0)
        rc = take_names(t, cfg);
    if (rc == 0)
        rc = t->shared_keys ? take_keys(t, cfg) : read_files(t, cfg, &files);
    if (rc == 0)
        rc = lib->context(t, t->shared_keys ? NULL : &files);
    free_text(t, &files.certificate);
    free_text(t, &files.key);
    free_text(t, &files.authorities);
    free_text(t, &files.crl);
    if (rc == 0)
        *out = t;
    else
        uvcc_tls_free(t);
    return rc;
}

void uvcc_tls_free(uvcc_tls *t) {
    if (t == NULL)
        return;
    const uvcc_allocator alloc = t->alloc;
    if (t->context != NULL)
        t->lib->context_free(t);
    wipe(t, sizeof *t);
    alloc.free(alloc.user, t, sizeof *t, UVCC_MEM_SECRET);
}

uint32_t uvcc_tls_own_names(const uvcc_tls *t) {
    return t == NULL ? 0 : t->own_names;
}

/* ---- who ---- */

uint32_t uvcci_tls_parties_of(const uvcc_tls *t, const uint8_t *name, size_t len) {
    uint32_t parties = 0;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (strlen(t->name[p]) == len && strncasecmp(t->name[p], (const char *)name, len) == 0 &&
            memchr(name, 0, len) == NULL)
            parties |= 1u << p;
    return parties;
}

int uvcci_tls_check_authority(const uvcc_tls *t, uint32_t parties, bool may_sign) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (may_sign && p != t->party && (parties >> p & 1) != 0)
            return uvcci_tls_wrong(t,
                                   "authorities: the certificate of %s there may sign others, so"
                                   " that party could speak for the third one: make it with"
                                   " basicConstraints=critical,CA:FALSE",
                                   t->name[p]);
    return 0;
}

int uvcci_tls_named(uvcci_tls_conn *c, uint32_t parties) {
    const uvcc_tls *t = c->t;
    const uint32_t others = parties & ~(1u << t->party);
    if (!c->server) {
        if ((parties >> c->peer & 1) == 0)
            return uvcci_tls_fail(c, UVCC_ERR_AUTH,
                                  "its certificate is not one of %s (by"
                                  " subjectAltName, DNS)",
                                  t->name[c->peer]);
        c->proved = true;
        return 0;
    }
    if (others == 0 && parties != 0)
        return uvcci_tls_fail(c, UVCC_ERR_AUTH, "its certificate is of this party itself, %s",
                              t->name[t->party]);
    if (others == 0 || (others & (others - 1)) != 0)
        return uvcci_tls_fail(c, UVCC_ERR_AUTH,
                              "its certificate has the name of %s of the other"
                              " parties (by subjectAltName, DNS)",
                              others == 0 ? "none" : "both");
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (others == 1u << p)
            c->peer = p;
    c->proved = true;
    return 0;
}

uint8_t uvcci_tls_identified(const uvcc_tls *t, const uint8_t *identity, size_t len) {
    if (identity == NULL || len != 6 || memcmp(identity, "uvcc-", 5) != 0)
        return UVCC_PARTIES;
    const uint8_t p = (uint8_t)(identity[5] - '0');
    return p < UVCC_PARTIES && p != t->party && t->psk[p].here ? p : (uint8_t)UVCC_PARTIES;
}

/* ---- why ---- */

int uvcci_tls_fail(uvcci_tls_conn *c, int error, const char *format, ...) {
    va_list args;
    if (c->error != 0)
        return c->error;
    c->error = error;
    va_start(args, format);
    (void)vsnprintf(c->why, sizeof c->why, format, args);
    va_end(args);
    return error;
}

int uvcci_tls_refuse(uvcci_tls_conn *c, uvcci_tls_fault fault, const char *text) {
    static const char *const what_to_do[] = {
        [UVCCI_TLS_FAULT_OTHER] = "",
        [UVCCI_TLS_FAULT_EXPIRED] = "; it needs a new one, unless this clock is wrong",
        [UVCCI_TLS_FAULT_EARLY] = "; one of the two clocks is wrong",
        [UVCCI_TLS_FAULT_STRANGE] = "; is what signed it in \"authorities\" here?",
        [UVCCI_TLS_FAULT_REVOKED] = "; by the list in \"crl\" here: it needs a new one",
        [UVCCI_TLS_FAULT_OLD_LIST] = "; \"crl\" here needs the authority's present list"};
    return uvcci_tls_fail(c, UVCC_ERR_AUTH, "its certificate is refused: %s%s", text,
                          what_to_do[fault]);
}

int uvcci_tls_no_list(const uvcc_tls *t, const char *authority) {
    return uvcci_tls_wrong(t,
                           "crl: there is no list of %s, which is in authorities and may sign: add "
                           "it to the file, even if it is empty",
                           authority);
}

int uvcci_tls_stranger(uvcci_tls_conn *c) {
    return uvcci_tls_fail(c, UVCC_ERR_AUTH,
                          "the identity of its shared key is nobody's with whom"
                          " there is one");
}

/* What no handshake begins with: a record of one, or of an alert, and a version of 3.x. */
static bool is_alien(const uint8_t *head, size_t len) {
    return len >= 2 && ((head[0] != 22 && head[0] != 21) || head[1] != 3);
}

int uvcci_tls_lost(uvcci_tls_conn *c) {
    char begins[sizeof c->in_first + 1] = "";
    if (c->error != 0)
        return c->error;
    if (!c->done && is_alien(c->in_first, c->in_end < sizeof c->in_first ? (size_t)c->in_end
                                                                         : sizeof c->in_first)) {
        for (size_t i = 0; i < sizeof c->in_first; i++)
            begins[i] = c->in_first[i] >= 32 && c->in_first[i] < 127 ? (char)c->in_first[i] : '.';
        return uvcci_tls_fail(c, UVCC_ERR_PROTOCOL,
                              uvcc_call_may_be(c->in_first, sizeof c->in_first) == 0
                                  ? "what came is not TLS: it begins with '%s', as uvcc does "
                                    "without TLS: \"tls\" is for both ends, or for none"
                                  : "what came is not TLS: it begins with '%s'",
                              begins);
    }
    if (c->io_error != 0)
        return uvcci_tls_fail(c, c->io_error, "the connection is gone: %s",
                              uvcc_error_text(c->io_error));
    if (c->eof && c->in_end == 0 && !c->server)
        return uvcci_tls_fail(c, UVCC_ERR_STREAM_BROKEN,
                              "it ended without an answer: the other end may have no TLS; its "
                              "own line says why");
    if (c->eof)
        return uvcci_tls_fail(c, UVCC_ERR_STREAM_BROKEN, "the connection ended %s",
                              c->done ? "without close_notify" : "within the handshake");
    return 0;
}

/* RFC 8446, 6.2. */
int uvcci_tls_alert(uvcci_tls_conn *c, uint32_t alert, const char *text) {
    int error = UVCC_ERR_PROTOCOL;
    if ((alert >= 41 && alert <= 49) || alert == 51 || alert == 115 || alert == 116)
        error = UVCC_ERR_AUTH;
    else if (alert == 40 || alert == 70 || alert == 71 || alert == 109 || alert == 120)
        error = UVCC_ERR_MISMATCH;
    const bool key = c->t->shared_keys && !c->done && (alert == 20 || alert == 51 || alert == 47);
    return uvcci_tls_fail(c, key ? UVCC_ERR_AUTH : error, "the other end refused: %s (alert %u)%s",
                          text, (unsigned)alert, key ? ": is its shared key another?" : "");
}

const char *uvcci_tls_why(const uvcci_tls_conn *c) {
    return c == NULL ? "" : c->why;
}

/* ---- ciphertext ---- */

static uint8_t *buffer(uvcci_tls_conn *c, uint8_t **buf) {
    if (*buf == NULL)
        *buf = c->t->alloc.alloc(c->t->alloc.user, UVCCI_TLS_BUFFER_BYTES, UVCC_MEM_STATE);
    return *buf;
}

static void free_buffer(uvcci_tls_conn *c, uint8_t **buf) {
    if (*buf != NULL)
        c->t->alloc.free(c->t->alloc.user, *buf, UVCCI_TLS_BUFFER_BYTES, UVCC_MEM_STATE);
    *buf = NULL;
}

/* Follows the heads of records, to know whether a whole one is here. */
static void scan(uvcci_tls_conn *c, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        size_t n = 1;
        if (c->in_head_len < sizeof c->in_head) {
            if (c->in_end < sizeof c->in_first)
                c->in_first[c->in_end] = *bytes;
            c->in_head[c->in_head_len++] = *bytes;
            if (c->in_head_len == sizeof c->in_head)
                c->in_left = (uint32_t)c->in_head[3] << 8 | c->in_head[4];
        } else {
            n = len < c->in_left ? len : c->in_left;
            c->in_left -= (uint32_t)n;
        }
        bytes += n;
        len -= n;
        c->in_end += n;
        if (c->in_head_len == sizeof c->in_head && c->in_left == 0) {
            c->in_head_len = 0;
            c->in_whole = c->in_end;
        }
    }
}

ptrdiff_t uvcci_tls_take(uvcci_tls_conn *c, uint8_t *bytes, size_t cap) {
    if (c->in_at == c->in_len) {
        if (c->eof || c->io_error != 0)
            return c->io_error;
        if (buffer(c, &c->in) == NULL)
            return UVCC_ERR_AGAIN;
        ptrdiff_t n = c->io.recv(c->io.user, c->in, UVCCI_TLS_BUFFER_BYTES);
        if (n < 0 && n != UVCC_ERR_AGAIN)
            c->io_error = (int)n;
        if (n == 0)
            c->eof = true;
        if (n <= 0)
            return n;
        assert((size_t)n <= UVCCI_TLS_BUFFER_BYTES);
        scan(c, c->in, (size_t)n);
        c->in_at = 0;
        c->in_len = (size_t)n;
    }
    const size_t n = cap < c->in_len - c->in_at ? cap : c->in_len - c->in_at;
    memcpy(bytes, c->in + c->in_at, n);
    c->in_at += n;
    c->in_used += n;
    return (ptrdiff_t)n;
}

ptrdiff_t uvcci_tls_put(uvcci_tls_conn *c, const uint8_t *bytes, size_t len) {
    if (buffer(c, &c->out) == NULL || c->out_len == UVCCI_TLS_BUFFER_BYTES)
        return UVCC_ERR_AGAIN;
    const size_t room = UVCCI_TLS_BUFFER_BYTES - c->out_len;
    const size_t n = len < room ? len : room;
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
    return (ptrdiff_t)n;
}

int uvcci_tls_flush(uvcci_tls_conn *c) {
    if (c == NULL)
        return UVCC_ERR_USAGE;
    while (c->out_at < c->out_len) {
        if (c->io_error != 0)
            return uvcci_tls_lost(c);
        ptrdiff_t n = c->io.send(c->io.user, c->out + c->out_at, c->out_len - c->out_at);
        if (n == 0 || n == UVCC_ERR_AGAIN)
            return UVCC_ERR_AGAIN;
        if (n < 0) {
            c->io_error = (int)n;
            return uvcci_tls_lost(c);
        }
        assert((size_t)n <= c->out_len - c->out_at);
        c->out_at += (size_t)n;
    }
    c->out_at = c->out_len = 0;
    return 0;
}

bool uvcci_tls_wants_send(const uvcci_tls_conn *c) {
    return c != NULL && c->out_at < c->out_len && c->io_error == 0;
}

/* ---- connections ---- */

int uvcci_tls_open(uvcci_tls_conn **out, uvcc_tls *t, bool server, uint8_t peer,
                   const uvcci_tls_io *io) {
    if (out != NULL)
        *out = NULL;
    if (out == NULL || t == NULL || io == NULL || io->recv == NULL || io->send == NULL ||
        (server ? peer != UVCC_PARTIES : peer >= UVCC_PARTIES || peer == t->party))
        return UVCC_ERR_USAGE;
    if (!server && t->shared_keys && !t->psk[peer].here)
        return uvcci_tls_wrong(t, "psk[%u]: there is none, and that party is to be called", peer);
    uvcci_tls_conn *c = t->alloc.alloc(t->alloc.user, sizeof *c, UVCC_MEM_STATE);
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    *c = (uvcci_tls_conn){.t = t, .io = *io, .server = server, .peer = peer};
    int rc = t->lib->open(c);
    if (rc != 0) {
        t->alloc.free(t->alloc.user, c, sizeof *c, UVCC_MEM_STATE);
        return rc;
    }
    *out = c;
    return 0;
}

void uvcci_tls_free(uvcci_tls_conn *c) {
    if (c == NULL)
        return;
    const uvcc_allocator alloc = c->t->alloc;
    c->t->lib->free(c);
    free_buffer(c, &c->in);
    free_buffer(c, &c->out);
    if (c->stage != NULL)
        alloc.free(alloc.user, c->stage, UVCCI_TLS_RECORD_BYTES, UVCC_MEM_WIRE);
    alloc.free(alloc.user, c, sizeof *c, UVCC_MEM_STATE);
}

/* One that shook hands and waits keeps no buffers. */
static void shook_hands(uvcci_tls_conn *c) {
    assert(c->proved && c->peer < UVCC_PARTIES && c->peer != c->t->party);
    c->done = true;
    if (c->in_at == c->in_len) {
        c->in_at = c->in_len = 0;
        free_buffer(c, &c->in);
    }
    if (c->out_at == c->out_len)
        free_buffer(c, &c->out);
}

int uvcci_tls_handshake(uvcci_tls_conn *c) {
    if (c == NULL)
        return UVCC_ERR_USAGE;
    if (c->error != 0)
        return c->error;
    if (c->done)
        return 1;
    if (buffer(c, &c->in) == NULL || buffer(c, &c->out) == NULL)
        return UVCC_ERR_NOMEM;
    for (;;) {
        int rc = c->t->lib->handshake(c);
        const bool full = c->out_len == UVCCI_TLS_BUFFER_BYTES;
        int sent = uvcci_tls_flush(c);
        if (rc != UVCC_ERR_AGAIN && rc < 0)
            return rc;
        if (sent != 0 && sent != UVCC_ERR_AGAIN)
            return sent;
        if (rc == 1) {
            shook_hands(c);
            return 1;
        }
        if (!full || sent != 0)
            return 0;
    }
}

uint8_t uvcci_tls_peer(const uvcci_tls_conn *c) {
    return c != NULL && c->done ? c->peer : (uint8_t)UVCC_PARTIES;
}

int uvcci_tls_binding(uvcci_tls_conn *c, uint8_t out[32]) {
    if (c == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (!c->done)
        return UVCC_ERR_STATE;
    return c->t->lib->binding(c, out);
}

size_t uvcci_tls_pending(const uvcci_tls_conn *c) {
    if (c == NULL || !c->done || c->error != 0)
        return 0;
    const size_t n = c->t->lib->pending(c);
    return n != 0 || c->in_used >= c->in_whole ? n : 1;
}

ptrdiff_t uvcci_tls_recv(uvcci_tls_conn *c, uint8_t *bytes, size_t cap) {
    size_t got = 0;
    ptrdiff_t n = 1;
    if (c == NULL || bytes == NULL || cap == 0)
        return UVCC_ERR_USAGE;
    if (c->error != 0 || c->ended)
        return c->error;
    if (!c->done)
        return UVCC_ERR_STATE;
    if (buffer(c, &c->in) == NULL)
        return UVCC_ERR_NOMEM;
    while (got < cap && n > 0) {
        n = c->t->lib->read(c, bytes + got, cap - got);
        if (n > 0)
            got += (size_t)n;
    }
    if (n == 0)
        c->ended = true;
    (void)uvcci_tls_flush(c); /* the answer to new keys, or an alert; an error sticks */
    return got != 0 ? (ptrdiff_t)got : n;
}

/* A walk along slices. */
typedef struct walk {
    const uvcc_slice *slices;
    uint32_t count, at;
    size_t off;
} walk;

/* Where the next bytes are, in one piece; 0: no more. */
static size_t here(walk *w, const uint8_t **bytes) {
    while (w->at < w->count && w->off == w->slices[w->at].len) {
        w->at++;
        w->off = 0;
    }
    if (w->at == w->count)
        return 0;
    *bytes = w->slices[w->at].data + w->off;
    return w->slices[w->at].len - w->off;
}

static void skip_some(walk *w, size_t n) {
    const uint8_t *bytes;
    size_t len;
    while (n > 0 && (len = here(w, &bytes)) > 0) {
        const size_t k = n < len ? n : len;
        w->off += k;
        n -= k;
    }
}

/* The plaintext of the next record: in place if a slice has a whole one, or the last one does,
 * else put together. UVCC_ERR_NOMEM, or its length; w stays. */
static ptrdiff_t next_record(uvcci_tls_conn *c, const walk *from, const uint8_t **bytes) {
    walk w = *from;
    size_t n = here(&w, bytes), len = 0;
    if (n >= UVCCI_TLS_RECORD_BYTES)
        return UVCCI_TLS_RECORD_BYTES;
    if (n == 0 || w.at + 1 == w.count)
        return (ptrdiff_t)n;
    if (c->stage == NULL)
        c->stage = c->t->alloc.alloc(c->t->alloc.user, UVCCI_TLS_RECORD_BYTES, UVCC_MEM_WIRE);
    if (c->stage == NULL)
        return UVCC_ERR_NOMEM;
    while (len < UVCCI_TLS_RECORD_BYTES && (n = here(&w, bytes)) > 0) {
        const size_t room = UVCCI_TLS_RECORD_BYTES - len, k = n < room ? n : room;
        memcpy(c->stage + len, *bytes, k);
        len += k;
        w.off += k;
    }
    *bytes = c->stage;
    return (ptrdiff_t)len;
}

/* 0, or an error: UVCC_ERR_AGAIN only if nothing of it was taken. */
static int write_record(uvcci_tls_conn *c, const uint8_t *bytes, size_t len) {
    for (size_t at = 0; at < len;) {
        if (c->records >= c->t->records_per_key && c->t->lib->rekey != NULL) {
            c->t->lib->rekey(c);
            c->records = 0;
        }
        ptrdiff_t n = c->t->lib->write(c, bytes + at, len - at);
        if (n == UVCC_ERR_AGAIN && at == 0)
            return UVCC_ERR_AGAIN;
        if (n <= 0)
            return uvcci_tls_fail(c, UVCC_ERR_CRYPTO, "%s would not write a whole record",
                                  uvcc_tls_name(c->t->library));
        c->records++;
        at += (size_t)n;
    }
    return 0;
}

static bool has_room(const uvcci_tls_conn *c) {
    return UVCCI_TLS_BUFFER_BYTES - c->out_len >= UVCCI_TLS_RECORD_ROOM;
}

ptrdiff_t uvcci_tls_send(uvcci_tls_conn *c, const uvcc_slice *slices, uint32_t count, size_t skip) {
    walk w = {.slices = slices, .count = count};
    const uint8_t *bytes = NULL;
    ptrdiff_t taken = 0, n = 0;
    if (c == NULL || (slices == NULL && count != 0))
        return UVCC_ERR_USAGE;
    if (c->error != 0)
        return c->error;
    if (!c->done)
        return UVCC_ERR_STATE;
    if (buffer(c, &c->out) == NULL)
        return UVCC_ERR_NOMEM;
    skip_some(&w, skip);
    for (;;) {
        n = next_record(c, &w, &bytes);
        if (n <= 0)
            break;
        if (!has_room(c)) {
            int sent = uvcci_tls_flush(c);
            if (sent != 0 && (sent != UVCC_ERR_AGAIN || !has_room(c))) {
                n = sent;
                break;
            }
        }
        int rc = write_record(c, bytes, (size_t)n);
        if (rc != 0) {
            n = rc;
            break;
        }
        skip_some(&w, (size_t)n);
        taken += n;
    }
    (void)uvcci_tls_flush(c); /* an error sticks */
    return taken > 0 ? taken : n;
}

void uvcci_tls_close(uvcci_tls_conn *c) {
    if (c == NULL)
        return;
    if (c->done && c->error == 0)
        c->t->lib->close(c);
    (void)uvcci_tls_flush(c);
}
