/* SPDX-License-Identifier: Apache-2.0 */
/* link_hello.c - HELLOs of a link. Those that came wait for their owner in a small queue; one waits
 * to be sent.
 *
 * A HELLO longer than a frame comes in pieces (wire.md 2), which are put together in one buffer of
 * constant size that is there while a HELLO is coming. Nothing in it is proved, so: a piece of
 * another message begins anew, a byte that comes again is replaced, and what the pieces make counts
 * only if its hash is that which they carry. A forged piece costs a repetition at most; the work is
 * in proportion to the bytes that came. */
#include "proto/link_hello.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/frame.h"
#include "proto/link_core.h"

/* ---- in ---- */

void uvcci_link_hello_push(uvcc_link *l, const uint8_t *payload, size_t len, bool sealed,
                           bool foreign) {
    if (len > UVCC_HELLO_MAX_BYTES || len == 0) {
        l->stats.refused++;
        return;
    }
    if (l->hello_in == NULL) {
        l->hello_in = uvcci_link_alloc(l, sizeof *l->hello_in, UVCC_MEM_STATE);
        if (l->hello_in == NULL)
            return; /* HELLO repeats */
        l->hello_in->first = l->hello_in->count = 0;
    }
    uvcci_hello_queue *q = l->hello_in;
    if (q->count == UVCCI_HELLO_QUEUE) {
        q->first = (q->first + 1) % UVCCI_HELLO_QUEUE;
        q->count--;
    }
    uvcci_hello_box *b = &q->box[(q->first + q->count++) % UVCCI_HELLO_QUEUE];
    b->len = (uint16_t)len;
    b->sealed = sealed;
    b->foreign = foreign;
    memcpy(b->payload, payload, len);
}

/* The first bytes of its hash: which message a piece is of. */
static uint32_t hello_id(const uint8_t *payload, size_t len) {
    uint8_t hash[32];
    uvcci_sha256 sha;
    uvcci_sha256_init(&sha);
    uvcci_sha256_update(&sha, payload, len);
    uvcci_sha256_final(&sha, hash);
    return uvcci_ld32(hash);
}

static void pieces_begin(uvcci_hello_pieces *m, const uvcc_frame_header *h) {
    m->sid_tag = h->sid_tag;
    m->msg_id = h->msg_id;
    m->msg_len = h->msg_len;
    m->got = 0;
    memset(m->have, 0, sizeof m->have);
}

static void take_piece(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *payload,
                       bool foreign) {
    uvcci_hello_pieces *m = l->hello_pieces;
    if (m == NULL) {
        m = uvcci_link_alloc(l, sizeof *m, UVCC_MEM_STATE);
        if (m == NULL)
            return; /* HELLO repeats */
        l->hello_pieces = m;
        pieces_begin(m, h);
    }
    if (m->sid_tag != h->sid_tag || m->msg_id != h->msg_id || m->msg_len != h->msg_len)
        pieces_begin(m, h);
    assert(h->offset + h->payload_len <= m->msg_len); /* frame.c */
    for (uint32_t at = h->offset; at < h->offset + h->payload_len; at++) {
        const uint64_t bit = UINT64_C(1) << at % 64;
        m->got += (m->have[at / 64] & bit) == 0;
        m->have[at / 64] |= bit;
    }
    memcpy(m->bytes + h->offset, payload, h->payload_len);
    if (m->got != m->msg_len)
        return;
    if (hello_id(m->bytes, m->msg_len) == m->msg_id)
        uvcci_link_hello_push(l, m->bytes, m->msg_len, false, foreign);
    else
        l->stats.refused++;
    uvcci_link_hello_trim(l);
}

void uvcci_link_hello_take(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *payload,
                           bool foreign) {
    assert(h->kind == UVCC_FRAME_HELLO && !uvcci_frame_is_sealed(h));
    if (h->msg_len > UVCC_HELLO_MAX_BYTES)
        l->stats.refused++;
    else if (h->payload_len == h->msg_len)
        uvcci_link_hello_push(l, payload, h->msg_len, false, foreign);
    else
        take_piece(l, h, payload, foreign);
}

size_t uvcci_link_poll_hello(uvcc_link *l, uint8_t out[UVCC_HELLO_MAX_BYTES], bool *sealed,
                             bool *foreign) {
    uvcci_hello_queue *q = l->hello_in;
    if (q == NULL || q->count == 0)
        return 0;
    const uvcci_hello_box *b = &q->box[q->first];
    size_t len = b->len;
    memcpy(out, b->payload, len);
    *sealed = b->sealed;
    *foreign = b->foreign;
    q->first = (q->first + 1) % UVCCI_HELLO_QUEUE;
    if (--q->count == 0) {
        uvcci_link_give(l, q, sizeof *q, UVCC_MEM_STATE);
        l->hello_in = NULL;
    }
    return len;
}

size_t uvcc_link_poll_hello(uvcc_link *l, uint8_t out[UVCC_HELLO_MAX_BYTES], bool *sealed) {
    if (l == NULL)
        return 0;
    bool foreign;
    size_t len;
    do
        len = uvcci_link_poll_hello(l, out, sealed, &foreign);
    while (len != 0 && foreign);
    return len;
}

void uvcci_link_hello_trim(uvcc_link *l) {
    uvcci_link_give(l, l->hello_pieces, sizeof *l->hello_pieces, UVCC_MEM_STATE);
    l->hello_pieces = NULL;
}

/* ---- out ---- */

int uvcc_link_send_hello(uvcc_link *l, const uint8_t *payload, size_t len, bool sealed) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    if (payload == NULL || len == 0 ||
        len > (sealed ? UVCCI_HELLO_SEALED_MAX : UVCC_HELLO_MAX_BYTES))
        return UVCC_ERR_USAGE;
    if (sealed && l->keys == NULL)
        return UVCC_ERR_STATE;
    if (l->hello_out == NULL) {
        l->hello_out = uvcci_link_alloc(l, sizeof *l->hello_out, UVCC_MEM_STATE);
        if (l->hello_out == NULL)
            return UVCC_ERR_NOMEM;
    }
    uvcci_hello_out *o = l->hello_out;
    o->len = (uint16_t)len;
    o->cut = 0;
    o->sealed = sealed;
    o->msg_id = hello_id(payload, len);
    memcpy(o->payload, payload, len);
    return 0;
}

bool uvcci_link_hello_waits(const uvcc_link *l) {
    return l->hello_out != NULL;
}

void uvcci_link_hello_drop(uvcc_link *l) {
    uvcci_link_give(l, l->hello_out, sizeof *l->hello_out, UVCC_MEM_STATE);
    l->hello_out = NULL;
}

void uvcci_link_hello_late(uvcc_link *l) {
    uvcci_link_give(l, l->hello_early, sizeof *l->hello_early, UVCC_MEM_STATE);
    l->hello_early = NULL;
}

void uvcci_link_hello_free(uvcc_link *l) {
    uvcci_link_hello_late(l);
    uvcci_link_hello_drop(l);
    uvcci_link_hello_trim(l);
    uvcci_link_give(l, l->hello_in, sizeof *l->hello_in, UVCC_MEM_STATE);
    l->hello_in = NULL;
}
