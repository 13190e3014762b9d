/* SPDX-License-Identifier: Apache-2.0 */
/* link_seal.c - seals of data frames that go out, see link_seal.h.
 *
 * What waits for its seal has its place in the transmit already; threads write to the piece, header
 * and tag of their frame alone. Nothing of a transmit is shown before all of it is sealed. */
#include "proto/link_seal.h"

#include <assert.h>
#include <string.h>

#include "proto/crc.h"
#include "proto/frame.h"

bool uvcci_seal_may_wait(const uvcc_link *l, const uvcci_seal *s) {
    return l->cfg.parallel.run != NULL && !l->cfg.datagram && s->key != NULL &&
           s->frame->len >= UVCCI_SIDE_MIN_BYTES && uvcci_aead_is_shared(s->key);
}

/* In one pass over memory. False: the suite has no such way. */
static bool seal_tiles(uvcci_seal *s, uint32_t *crc, int *err) {
    uvcci_tx_frame *f = s->frame;
    uvcci_gcm_part part;
    if (!uvcci_aead_seal_begin(s->key, &part, s->seq, s->header, UVCCI_FRAME_BOUND_BYTES))
        return false;
    for (uint32_t at = 0, n; at < f->len; at += n) {
        n = f->len - at < UVCCI_TILE_BYTES ? f->len - at : UVCCI_TILE_BYTES;
        uvcci_aead_seal_more(s->key, &part, s->data + at, n, s->data + at);
        *crc = uvcci_crc32(*crc, s->data + at, n);
    }
    *err = uvcci_aead_seal_end(s->key, &part, f->tag);
    return true;
}

static int seal_piece(uvcci_seal *s, uint32_t *crc) {
    uvcci_tx_frame *f = s->frame;
    int err = 0;
    if (f->len <= UVCCI_TILE_BYTES || !seal_tiles(s, crc, &err)) {
        err = uvcci_aead_seal(s->key, s->seq, s->header, UVCCI_FRAME_BOUND_BYTES, s->data, f->len,
                              s->data, f->tag);
        *crc = uvcci_crc32(*crc, s->data, f->len);
    }
    *crc = uvcci_crc32(*crc, f->tag, sizeof f->tag);
    if (err != 0)
        uvcci_wipe(s->data, f->len);
    return err != 0 ? UVCC_ERR_CRYPTO : 0;
}

int uvcci_seal_now(uvcci_seal *s) {
    uvcci_tx_frame *f = s->frame;
    f->crc =
        uvcc_frame_crc(s->header, s->key == NULL ? s->data : NULL, s->key == NULL ? f->len : 0);
    if (s->key != NULL && seal_piece(s, &f->crc) != 0)
        return UVCC_ERR_CRYPTO;
    uvcci_frame_put_crc(s->header, f->crc);
    return 0;
}

int uvcci_seal_later(uvcc_link *l, const uvcci_seal *s) {
    uvcci_scratch *x = l->tx.scratch;
    assert(s->tag != NULL && uvcci_seal_may_wait(l, s));
    const int err = x->seals == UVCCI_SIDE_FRAMES ? uvcci_seal_rest(l) : 0;
    x->seal[x->seals++] = *s;
    return err;
}

static void seal_item(void *arg, uint32_t i) {
    uvcci_seal *s = &((uvcci_scratch *)arg)->seal[i];
    s->err = uvcci_seal_now(s);
    memcpy(s->tag, s->frame->tag, UVCCI_TAG_BYTES);
}

int uvcci_seal_rest(uvcc_link *l) {
    uvcci_scratch *x = l->tx.scratch;
    int err = 0;
    if (x->seals > 1)
        l->cfg.parallel.run(l->cfg.parallel.user, seal_item, x, x->seals);
    else if (x->seals == 1)
        seal_item(x, 0);
    for (uint32_t i = 0; i < x->seals; i++)
        err = err == 0 ? x->seal[i].err : err;
    x->seals = 0;
    return err;
}
