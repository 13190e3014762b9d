/* SPDX-License-Identifier: Apache-2.0 */
/* shares.c - see shares.h. Words are little-endian on the disk.
 *
 * A file is read, not mapped: one that is cut while a service has it open, or a disk that fails, is
 * an error with words then, not the process's end. */
#include "shares.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "UVCCSHAR"
enum {
    VERSION = 1,
    MAGIC_BYTES = 8,
    AT_VERSION = 8,
    AT_PARTY = 12,
    AT_OWNER = 13,
    AT_SEALED = 14,
    AT_ID = 16,
    AT_MODEL = 48,
    AT_PARTIES = 80,
    AT_WORDS = 112,
    AT_PIECE = 120,
    AT_ENVELOPE = 128,
    SECRETS = 96, /* the key of the pieces, and a seed for each component */
    AT_SIGNATURE = AT_ENVELOPE + SECRETS + crypto_box_SEALBYTES,
    TAG_BYTES = crypto_aead_xchacha20poly1305_ietf_ABYTES,
    PIECE_BYTES = 8 * SHARES_PIECE_WORDS + TAG_BYTES,
};
_Static_assert(AT_SIGNATURE + crypto_sign_BYTES == SHARES_HEAD_BYTES, "the head's fields");

static const char domain[] = "UVCC_SHARES_V1";

/* ---- words ---- */

static void put_le(uint8_t *out, uint64_t v, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_le(const uint8_t *in, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)in[i] << 8 * i;
    return v;
}

/* Words `from` to `from + count` of a seed's component: those of the ChaCha20 stream of the seed
 * under a nonce of zeros. */
static void expand(const uint8_t seed[32], uint64_t from, uint64_t count, uint64_t *out) {
    enum { BLOCK_WORDS = 8, ROOM = 512 }; /* of 64 bytes */
    static const uint8_t nonce[crypto_stream_chacha20_NONCEBYTES];
    uint8_t bytes[8 * ROOM];
    while (count != 0) {
        const uint64_t skip = from % BLOCK_WORDS;
        const uint64_t n = count < ROOM - skip ? count : ROOM - skip;
        memset(bytes, 0, sizeof bytes);
        (void)crypto_stream_chacha20_xor_ic(bytes, bytes, 8 * (skip + n), nonce, from / BLOCK_WORDS,
                                            seed);
        for (uint64_t i = 0; i < n; i++)
            out[i] = get_le(bytes + 8 * (skip + i), 8);
        from += n;
        out += n;
        count -= n;
    }
    sodium_memzero(bytes, sizeof bytes);
}

/* ---- what both sides make alike ---- */

static void hash_parties(const shares_of *of, uint8_t out[32]) {
    crypto_hash_sha256_state h;
    crypto_hash_sha256_init(&h);
    crypto_hash_sha256_update(&h, (const uint8_t *)domain, sizeof domain - 1);
    crypto_hash_sha256_update(&h, of->key[0], sizeof of->key);
    crypto_hash_sha256_final(&h, out);
}

static void hash_head(const uint8_t head[SHARES_HEAD_BYTES], uint8_t out[32]) {
    crypto_hash_sha256(out, head, SHARES_HEAD_BYTES);
}

/* What the owner signs. */
enum { SIGNED_BYTES = sizeof domain - 1 + AT_SIGNATURE };
static void signed_text(const uint8_t head[SHARES_HEAD_BYTES], uint8_t out[SIGNED_BYTES]) {
    memcpy(out, domain, sizeof domain - 1);
    memcpy(out + sizeof domain - 1, head, AT_SIGNATURE);
}

/* The key of a file is its own, so a piece's number is a nonce. */
static void nonce_of(uint64_t piece, uint8_t out[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES]) {
    memset(out, 0, crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
    put_le(out, piece, 8);
}

/* The component that stands in files. */
static unsigned sealed_component(const shares_of *of) {
    return (of->owner + 1u) % UVCC_PARTIES;
}

/* ---- the owner's side ---- */

typedef struct share_out {
    FILE *to;
    bool sealed;
    uint8_t key[32], head[32];
} share_out;

struct shares_writer {
    share_out out[UVCC_PARTIES];
    unsigned first, second;         /* components that follow from seeds */
    uint8_t seed[UVCC_PARTIES][32]; /* by component */
    uint64_t words, piece;          /* so far; the next piece's number */
    uint64_t a[SHARES_PIECE_WORDS], b[SHARES_PIECE_WORDS];
    uint8_t bytes[8 * SHARES_PIECE_WORDS], sealed[PIECE_BYTES];
    uint32_t held; /* words in `bytes` */
};

/* Secrets of party p's file: the key of its pieces, and the seeds of its components. */
static int put_envelope(const shares_writer *w, unsigned p, const uint8_t key[32], uint8_t *out) {
    uint8_t secrets[SECRETS] = {0}, box[crypto_box_PUBLICKEYBYTES];
    memcpy(secrets, w->out[p].key, 32);
    for (unsigned i = 0; i < 2; i++) {
        const unsigned c = (p + i) % UVCC_PARTIES;
        if (c == w->first || c == w->second)
            memcpy(secrets + 32 + (size_t)32 * i, w->seed[c], 32);
    }
    const int rc = crypto_sign_ed25519_pk_to_curve25519(box, key) == 0 &&
                           crypto_box_seal(out, secrets, sizeof secrets, box) == 0
                       ? 0
                       : -1;
    sodium_memzero(secrets, sizeof secrets);
    return rc;
}

static int put_head(shares_writer *w, unsigned p, const shares_of *of, const uint8_t id[32],
                    const uint8_t sign[crypto_sign_SECRETKEYBYTES]) {
    uint8_t head[SHARES_HEAD_BYTES] = {0}, text[SIGNED_BYTES];
    const unsigned c = sealed_component(of), next = (p + 1) % UVCC_PARTIES;
    memcpy(head, MAGIC, MAGIC_BYTES);
    put_le(head + AT_VERSION, VERSION, 4);
    head[AT_PARTY] = (uint8_t)p;
    head[AT_OWNER] = of->owner;
    head[AT_SEALED] = (uint8_t)((c == p) | (c == next) << 1);
    memcpy(head + AT_ID, id, 32);
    memcpy(head + AT_MODEL, of->model, 32);
    hash_parties(of, head + AT_PARTIES);
    put_le(head + AT_WORDS, of->words, 8);
    put_le(head + AT_PIECE, SHARES_PIECE_WORDS, 4);
    if (put_envelope(w, p, of->key[p], head + AT_ENVELOPE) != 0)
        return -1;
    signed_text(head, text);
    (void)crypto_sign_detached(head + AT_SIGNATURE, NULL, text, sizeof text, sign);
    hash_head(head, w->out[p].head);
    w->out[p].sealed = head[AT_SEALED] != 0;
    (void)fwrite(head, 1, sizeof head, w->out[p].to);
    return 0;
}

shares_writer *shares_begin(FILE *const to[UVCC_PARTIES], const shares_of *of,
                            const uint8_t seed[32]) {
    uint8_t sign[crypto_sign_SECRETKEYBYTES], own[32], id[32];
    shares_writer *w = calloc(1, sizeof *w);
    if (w == NULL)
        return NULL;
    w->first = of->owner;
    w->second = (of->owner + 2u) % UVCC_PARTIES;
    randombytes_buf(id, sizeof id);
    randombytes_buf(w->seed[w->first], 32);
    randombytes_buf(w->seed[w->second], 32);
    (void)crypto_sign_seed_keypair(own, sign, seed);
    int rc = 0;
    for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++) {
        w->out[p].to = to[p];
        randombytes_buf(w->out[p].key, 32);
        rc = put_head(w, p, of, id, sign);
    }
    sodium_memzero(sign, sizeof sign);
    if (rc == 0)
        return w;
    sodium_memzero(w, sizeof *w);
    free(w);
    return NULL;
}

static void seal_piece(shares_writer *w) {
    uint8_t nonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES];
    const size_t len = (size_t)8 * w->held;
    nonce_of(w->piece, nonce);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const share_out *o = &w->out[p];
        if (!o->sealed)
            continue;
        (void)crypto_aead_xchacha20poly1305_ietf_encrypt(w->sealed, NULL, w->bytes, len, o->head,
                                                         sizeof o->head, NULL, nonce, o->key);
        (void)fwrite(w->sealed, 1, len + TAG_BYTES, o->to);
    }
    w->piece++;
    w->held = 0;
}

void shares_put(shares_writer *w, const int64_t *v, uint64_t count) {
    while (count != 0) {
        const uint32_t room = SHARES_PIECE_WORDS - w->held;
        const uint32_t n = count < room ? (uint32_t)count : room;
        expand(w->seed[w->first], w->words, n, w->a);
        expand(w->seed[w->second], w->words, n, w->b);
        for (uint32_t i = 0; i < n; i++)
            put_le(w->bytes + (size_t)8 * (w->held + i), (uint64_t)v[i] - w->a[i] - w->b[i], 8);
        w->held += n;
        w->words += n;
        v += n;
        count -= n;
        if (w->held == SHARES_PIECE_WORDS)
            seal_piece(w);
    }
}

void shares_end(shares_writer *w) {
    if (w->held != 0)
        seal_piece(w);
    sodium_memzero(w, sizeof *w);
    free(w);
}

/* ---- a party's side ---- */

static int damaged(const shares_file *f, const flag_message *m) {
    return flag_fail(m,
                     "%s: is damaged; put it back from a copy, or get it from the weights' owner "
                     "again",
                     f->path);
}

static uint64_t pieces_of(const shares_file *f) {
    return f->sealed[0] || f->sealed[1] ? (f->words + SHARES_PIECE_WORDS - 1) / SHARES_PIECE_WORDS
                                        : 0;
}

/* Whether the bytes are as many as the head says. */
static bool whole(const shares_file *f) {
    const uint64_t pieces = pieces_of(f);
    return f->words <= UINT64_MAX / 16 && f->len >= SHARES_HEAD_BYTES &&
           f->len - SHARES_HEAD_BYTES == (pieces != 0 ? 8 * f->words + pieces * TAG_BYTES : 0);
}

static int unreadable(const shares_file *f, int why, const flag_message *m) {
    return flag_fail(m, "%s: cannot be read: %s", f->path, strerror(why));
}

/* O_NONBLOCK, O_NOCTTY: a pipe or a terminal in the place of a file is refused, not waited for. */
static int open_file(shares_file *f, const flag_message *m) {
    struct stat st;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0 || fstat(f->fd, &st) != 0)
        return unreadable(f, errno, m);
    if (!S_ISREG(st.st_mode))
        return flag_fail(m, "%s: is no regular file; name a file", f->path);
    f->len = (uint64_t)st.st_size;
    return 0;
}

/* 0, or -1 and a line: the file ends before. */
static int read_at(const shares_file *f, uint64_t at, uint8_t *out, size_t len,
                   const flag_message *m) {
    while (len != 0) {
        const ssize_t n = pread(f->fd, out, len, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? unreadable(f, errno, m) : damaged(f, m);
        at += (uint64_t)n;
        out += n;
        len -= (size_t)n;
    }
    return 0;
}

/* The key and the seeds, by the identity for which they were sealed. */
static int open_envelope(shares_file *f, const uint8_t *envelope, const uint8_t public_key[32],
                         const uint8_t sign[crypto_sign_SECRETKEYBYTES]) {
    uint8_t box[crypto_box_PUBLICKEYBYTES], secret[crypto_box_SECRETKEYBYTES], plain[SECRETS];
    int rc = crypto_sign_ed25519_pk_to_curve25519(box, public_key);
    if (rc == 0)
        rc = crypto_sign_ed25519_sk_to_curve25519(secret, sign);
    if (rc == 0)
        rc = crypto_box_seal_open(plain, envelope, SECRETS + crypto_box_SEALBYTES, box, secret);
    if (rc == 0) {
        memcpy(f->key, plain, 32);
        memcpy(f->seed[0], plain + 32, 32);
        memcpy(f->seed[1], plain + 64, 32);
    }
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(plain, sizeof plain);
    return rc;
}

/* Whose it is, of what, and by whom it was signed: what is another's is said before what is wrong
 * with it. */
static int check_head(const shares_file *f, const uint8_t *h, const shares_of *of, uint8_t party,
                      const flag_message *m) {
    uint8_t parties[32], text[SIGNED_BYTES];
    hash_parties(of, parties);
    if (f->len < SHARES_HEAD_BYTES || memcmp(h, MAGIC, MAGIC_BYTES) != 0)
        return flag_fail(m, "%s: holds no shares of weights; `uvcc party --share` makes them",
                         f->path);
    if (get_le(h + AT_VERSION, 4) != VERSION || get_le(h + AT_PIECE, 4) != SHARES_PIECE_WORDS)
        return flag_fail(m, "%s: is of version %u, and this is %u; share the weights again",
                         f->path, (unsigned)get_le(h + AT_VERSION, 4), (unsigned)VERSION);
    if (memcmp(h + AT_PARTIES, parties, 32) != 0)
        return flag_fail(m,
                         "%s: was made for other parties: compare parties[].key with those of who "
                         "shared the weights",
                         f->path);
    if (h[AT_PARTY] != party)
        return flag_fail(m, "%s: is of party %u, and this is party %u; give this party's own",
                         f->path, h[AT_PARTY], party);
    if (h[AT_OWNER] != of->owner)
        return flag_fail(m, "%s: was made by party %u, and job.run.weights_owner is %u", f->path,
                         h[AT_OWNER], of->owner);
    signed_text(h, text);
    if (crypto_sign_verify_detached(h + AT_SIGNATURE, text, sizeof text, of->key[of->owner]) != 0)
        return flag_fail(m,
                         "%s: is damaged, or not signed by party %u; put it back from a copy, or "
                         "get it from the weights' owner again",
                         f->path, of->owner);
    if (memcmp(h + AT_MODEL, of->model, 32) != 0 || get_le(h + AT_WORDS, 8) != of->words)
        return flag_fail(m,
                         "%s: is of another model than job.run says, or of other numbers of it; "
                         "share the weights again with this \"job\"",
                         f->path);
    return 0;
}

int shares_open(shares_file *out, const char *path, const shares_of *of, uint8_t party,
                const uint8_t seed[32], const flag_message *m) {
    uint8_t sign[crypto_sign_SECRETKEYBYTES], own[32], h[SHARES_HEAD_BYTES] = {0};
    *out = (shares_file){.path = path, .words = of->words, .at = UINT64_MAX};
    int rc = open_file(out, m);
    if (rc == 0 && out->len >= sizeof h)
        rc = read_at(out, 0, h, sizeof h, m);
    if (rc == 0)
        rc = check_head(out, h, of, party, m);
    if (rc != 0)
        return rc;
    memcpy(out->id, h + AT_ID, 32);
    hash_head(h, out->head);
    for (unsigned i = 0; i < 2; i++)
        out->sealed[i] = (h[AT_SEALED] >> i & 1) != 0;
    if (!whole(out))
        return damaged(out, m);
    (void)crypto_sign_seed_keypair(own, sign, seed);
    rc = open_envelope(out, h + AT_ENVELOPE, own, sign);
    sodium_memzero(sign, sizeof sign);
    if (rc != 0)
        return flag_fail(m, "%s: is sealed for another identity than this party's; give its own",
                         path);
    if (pieces_of(out) == 0)
        return 0;
    out->piece = malloc((size_t)8 * SHARES_PIECE_WORDS);
    out->sealed_piece = malloc(PIECE_BYTES);
    return out->piece != NULL && out->sealed_piece != NULL ? 0 : flag_fail(m, "out of memory");
}

bool shares_name(const char *path, uint8_t id[32]) {
    char text[512];
    const flag_message m = {text, sizeof text};
    shares_file f = {.path = path};
    uint8_t h[SHARES_HEAD_BYTES];
    const bool says = open_file(&f, &m) == 0 && read_at(&f, 0, h, sizeof h, &m) == 0 &&
                      memcmp(h, MAGIC, MAGIC_BYTES) == 0;
    if (says)
        memcpy(id, h + AT_ID, 32);
    shares_close(&f);
    return says;
}

/* A piece becomes words in f->piece. */
static int open_piece(shares_file *f, uint64_t piece, const flag_message *m) {
    uint8_t nonce[crypto_aead_xchacha20poly1305_ietf_NPUBBYTES];
    const uint64_t first = piece * SHARES_PIECE_WORDS, left = f->words - first;
    const size_t len = (size_t)8 * (left < SHARES_PIECE_WORDS ? left : SHARES_PIECE_WORDS);
    uint8_t *bytes = (uint8_t *)(void *)f->piece;
    if (f->at == piece)
        return 0;
    f->at = UINT64_MAX;
    if (read_at(f, SHARES_HEAD_BYTES + piece * PIECE_BYTES, f->sealed_piece, len + TAG_BYTES, m) !=
        0)
        return -1;
    nonce_of(piece, nonce);
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(bytes, NULL, NULL, f->sealed_piece,
                                                   len + TAG_BYTES, f->head, sizeof f->head, nonce,
                                                   f->key) != 0)
        return damaged(f, m);
    for (size_t i = 0; i < len / 8; i++)
        f->piece[i] = get_le(bytes + 8 * i, 8);
    f->at = piece;
    return 0;
}

static int read_sealed(shares_file *f, uint64_t from, uint64_t count, uint64_t *out,
                       const flag_message *m) {
    int rc = 0;
    while (count != 0 && (rc = open_piece(f, from / SHARES_PIECE_WORDS, m)) == 0) {
        const uint64_t skip = from % SHARES_PIECE_WORDS, room = SHARES_PIECE_WORDS - skip;
        const uint64_t n = count < room ? count : room;
        memcpy(out, f->piece + skip, n * 8);
        from += n;
        out += n;
        count -= n;
    }
    return rc;
}

int shares_read(shares_file *f, uint64_t from, uint64_t count, uint64_t *lo, uint64_t *hi,
                const flag_message *m) {
    uint64_t *const out[] = {lo, hi};
    int rc = 0;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        if (f->sealed[i])
            rc = read_sealed(f, from, count, out[i], m);
        else
            expand(f->seed[i], from, count, out[i]);
    }
    return rc;
}

int shares_check(shares_file *f, const flag_message *m) {
    int rc = 0;
    for (uint64_t i = 0; i < pieces_of(f) && rc == 0; i++)
        rc = open_piece(f, i, m);
    return rc;
}

void shares_forget(shares_file *f) {
    if (f->piece != NULL)
        sodium_memzero(f->piece, (size_t)8 * SHARES_PIECE_WORDS);
    f->at = UINT64_MAX;
}

void shares_close(shares_file *f) {
    shares_forget(f);
    free(f->piece);
    free(f->sealed_piece);
    if (f->path != NULL && f->fd >= 0) /* else it was never opened */
        (void)close(f->fd);
    sodium_memzero(f, sizeof *f);
}
