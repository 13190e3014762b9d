/* SPDX-License-Identifier: Apache-2.0 */
/* request_bytes.c - the bytes of requests and answers, see request.h. */
#include "exec/host/request.h"

#include <assert.h>
#include <string.h>

#include <uvcc/client.h>

#include "exec/primitives/one_hot.h"
#include "proto/bytes.h"
#include "proto/crypto.h"

static const uint8_t MAGIC[4] = {'U', 'V', 'R', 'Q'};
#define VERSION 2u
#define KEYS    1u /* the form of keys, where a request has some */

uint64_t uvcci_request_values(uint32_t rows, uint32_t cols) {
    const uint64_t n = (uint64_t)rows * cols;
    return n <= UVCC_REQUEST_VALUES_MAX ? n : 0;
}

/* Each factor is below 2^32, and a key has few words. */
bool uvcci_request_part_of(const uvcc_request_shape *s, uvcci_request_part *out) {
    const uint64_t values = (uint64_t)s->in_rows * s->in_cols;
    const uint64_t numbers = (uint64_t)s->in_rows * s->key_cols;
    const uint64_t key = uvcc_client_key_words(s->key_bits);
    *out = (uvcci_request_part){0};
    if (values > UVCC_REQUEST_VALUES_MAX || numbers > UVCC_REQUEST_VALUES_MAX ||
        (s->key_cols == 0 ? s->key_bits != 0 : key == 0))
        return false;
    const uvcci_request_part p = {values, numbers * key, numbers * UVCCI_ONE_HOT_ROOT_WORDS};
    const uint64_t words = uvcci_request_part_words(&p);
    if (words == 0 || words > UVCC_REQUEST_VALUES_MAX)
        return false;
    *out = p;
    return true;
}

uint64_t uvcci_request_bytes(const uvcc_request_shape *s) {
    uvcci_request_part p;
    return uvcci_request_part_of(s, &p) ? UVCCI_REQUEST_HEAD + 16 * uvcci_request_part_words(&p)
                                        : 0;
}

uint64_t uvcci_answer_bytes(const uvcc_request_shape *s, uvcc_request_status status) {
    return UVCCI_ANSWER_HEAD +
           (status == UVCC_REQUEST_OK ? 16 * uvcci_request_values(s->out_rows, s->out_cols) : 0);
}

void uvcci_put_shape(const uvcc_request_shape *s, uint8_t *body) {
    const uint32_t words[8] = {s->entry,    s->in_rows,  s->in_cols,  s->out_rows,
                               s->out_cols, s->key_cols, s->key_bits, s->key_cols != 0 ? KEYS : 0};
    for (unsigned i = 0; i < 8; i++)
        uvcci_st32(body + (size_t)4 * i, words[i]);
    memcpy(body + sizeof words, s->terms, sizeof s->terms);
    uvcci_st32(body + UVCCI_REQUEST_SHAPE - 4, 0);
}

bool uvcci_get_shape(uvcc_request_shape *s, const uint8_t *body, uint64_t total) {
    uint32_t w[8];
    for (unsigned i = 0; i < 8; i++)
        w[i] = uvcci_ld32(body + (size_t)4 * i);
    *s = (uvcc_request_shape){.entry = w[0],
                              .in_rows = w[1],
                              .in_cols = w[2],
                              .out_rows = w[3],
                              .out_cols = w[4],
                              .key_cols = w[5],
                              .key_bits = w[6]};
    memcpy(s->terms, body + sizeof w, sizeof s->terms);
    return w[7] == (w[5] != 0 ? KEYS : 0) && uvcci_ld32(body + UVCCI_REQUEST_SHAPE - 4) == 0 &&
           total != 0 && uvcci_request_bytes(s) == total &&
           uvcci_request_values(s->out_rows, s->out_cols) != 0;
}

static uint64_t piece_len(uint64_t total, uint64_t offset) {
    assert(offset < total);
    return total - offset < UVCCI_PIECE_BYTES ? total - offset : UVCCI_PIECE_BYTES;
}

bool uvcci_piece_read(uvcci_piece *p, const uint8_t *m, size_t len) {
    if (len <= UVCCI_PIECE_HEAD || memcmp(m, MAGIC, sizeof MAGIC) != 0 || m[4] != VERSION ||
        m[5] > UVCCI_REQUEST_ANSWERS || m[6] >= UVCC_PARTIES || m[7] != 0)
        return false;
    *p = (uvcci_piece){.kind = m[5],
                       .party = m[6],
                       .total = uvcci_ld64(m + 24),
                       .offset = uvcci_ld64(m + 32),
                       .bytes = m + UVCCI_PIECE_HEAD,
                       .len = len - UVCCI_PIECE_HEAD};
    memcpy(p->id, m + 8, 16);
    return p->total <= UVCCI_BODY_MAX && p->offset < p->total &&
           p->offset % UVCCI_PIECE_BYTES == 0 && p->len == piece_len(p->total, p->offset);
}

bool uvcci_piece_of_other_version(const uint8_t *m, size_t len) {
    return len > UVCCI_PIECE_HEAD && memcmp(m, MAGIC, sizeof MAGIC) == 0 && m[4] != VERSION;
}

int uvcci_body_send(uvcci_body *b, uint8_t kind, uint8_t party, const uint8_t id[16],
                    const uvcc_allocator *al, uvcc_dialog *d, uint64_t now) {
    assert(kind <= UVCCI_REQUEST_ANSWERS && party < UVCC_PARTIES && b->sent <= b->total);
    while (b->sent < b->total) {
        const size_t len = (size_t)piece_len(b->total, b->sent), all = len + UVCCI_PIECE_HEAD;
        uint8_t *m = al->alloc(al->user, all, UVCC_MEM_SECRET);
        if (m == NULL)
            return UVCC_ERR_NOMEM;
        memset(m, 0, UVCCI_PIECE_HEAD);
        memcpy(m, MAGIC, sizeof MAGIC);
        m[4] = VERSION;
        m[5] = kind;
        m[6] = party;
        memcpy(m + 8, id, 16);
        uvcci_st64(m + 24, b->total);
        uvcci_st64(m + 32, b->sent);
        memcpy(m + UVCCI_PIECE_HEAD, b->bytes + b->sent, len);
        const int rc = uvcc_dialog_send(d, m, all, now);
        uvcci_wipe(m, all);
        al->free(al->user, m, all, UVCC_MEM_SECRET);
        if (rc != 0) /* a dialog that is not open will be */
            return rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_STATE ? 0 : rc;
        b->sent += len;
    }
    return 1;
}

bool uvcci_body_place(uvcci_body *b, const uvcci_piece *p) {
    const uint64_t pieces = (b->total + UVCCI_PIECE_BYTES - 1) / UVCCI_PIECE_BYTES;
    assert(b->bytes != NULL && b->total != 0 && b->total <= UVCCI_BODY_MAX);
    assert(p->offset < b->total && p->len <= b->total - p->offset);
    memcpy(b->bytes + p->offset, p->bytes, p->len);
    b->have |= UINT64_C(1) << p->offset / UVCCI_PIECE_BYTES;
    return b->have == UINT64_MAX >> (64 - pieces);
}

void uvcci_body_free(uvcci_body *b, const uvcc_allocator *al) {
    if (b->bytes != NULL) {
        uvcci_wipe(b->bytes, b->total);
        al->free(al->user, b->bytes, b->total, UVCC_MEM_SECRET);
    }
    *b = (uvcci_body){0};
}

void uvcci_request_digest(const uint8_t id[16], const uint8_t client_key[32],
                          const uvcc_request_shape *s, uint8_t c, const uint8_t salt[32],
                          const uint8_t *component, uint8_t out[32]) {
    static const char text[] = "UVCC_REQUEST_V2/COMPONENT";
    uint8_t shape[UVCCI_REQUEST_SHAPE];
    uvcci_sha256 h;
    uvcci_request_part part;
    assert(c < UVCC_PARTIES);
    (void)uvcci_request_part_of(s, &part);
    uvcci_put_shape(s, shape);
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, text, sizeof text - 1);
    uvcci_sha256_update(&h, salt, 32);
    uvcci_sha256_update(&h, id, 16);
    uvcci_sha256_update(&h, client_key, 32);
    uvcci_sha256_update(&h, shape, sizeof shape);
    uvcci_sha256_update(&h, &c, 1);
    uvcci_sha256_update(&h, component, 8 * (part.values + part.keys));
    uvcci_sha256_final(&h, out);
}
