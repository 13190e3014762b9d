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

int uvcci_seal_now(uvcci_seal *s) {
    uvcci_tx_frame *f = s->frame;
    if (s->key != NULL && uvcci_aead_seal(s->key, s->seq, s->header, UVCCI_FRAME_BOUND_BYTES,
                                          s->data, f->len, s->data, f->tag) != 0)
        return UVCC_ERR_CRYPTO;
    f->crc = uvcc_frame_crc(s->header, s->data, f->len);
    if (s->key != NULL)
        f->crc = uvcci_crc32(f->crc, f->tag, sizeof f->tag);
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
