/* SPDX-License-Identifier: Apache-2.0 */
/* reseal.c - see reseal.h. */
#include "reseal.h"

#include <string.h>

#include "proto/bytes.h"
#include "proto/link_keys.h"

enum { BOUND = 52 };

reseal_seqs reseal_seqs_of(const uvcc_link *l) {
    return (reseal_seqs){l->tx.cum, l->tx.next, l->rx.cum, l->rx.top};
}

static bool is_control(const uvcc_frame_header *h) {
    return uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL;
}

ptrdiff_t reseal_open(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *frame,
                      uint8_t *out) {
    const uint8_t *p = frame + UVCC_FRAME_HEADER_BYTES;
    if (l->keys == NULL || (h->flags & UVCC_FRAME_SEALED) == 0)
        return -1;
    if (is_control(h)) {
        size_t len = h->payload_len - UVCC_FRAME_CTL_SEAL_BYTES;
        return uvcci_xaead_open(l->keys->ctl_tx, p, frame, BOUND, p + 24, h->payload_len - 24,
                                out) == 0
                   ? (ptrdiff_t)len
                   : -1;
    }
    size_t len = h->payload_len - UVCC_FRAME_SEAL_BYTES;
    uvcci_aead *key = uvcci_link_key_of(l, h->step, h->seq, true);
    if (key == NULL || uvcci_aead_open(key, h->seq, frame, BOUND, p, len, p + len, out) != 0)
        return -1;
    return (ptrdiff_t)len;
}

size_t reseal_seal(uvcc_link *l, uvcc_frame_header h, const uint8_t *plain, uint32_t len,
                   uint8_t *out) {
    uint8_t *p = out + UVCC_FRAME_HEADER_BYTES;
    bool control = is_control(&h);
    if (l->keys == NULL)
        return 0;
    h.payload_len = len + (control ? UVCC_FRAME_CTL_SEAL_BYTES : UVCC_FRAME_SEAL_BYTES);
    if (control)
        h.msg_len = len;
    uvcc_frame_encode_header(&h, out);
    if (control) {
        memset(p, (int)(len & 0xFF), 24);
        if (uvcci_xaead_seal(l->keys->ctl_tx, p, out, BOUND, plain, len, p + 24) != 0)
            return 0;
    } else {
        uvcci_aead *key = uvcci_link_key_of(l, h.step, h.seq, true);
        if (key == NULL || uvcci_aead_seal(key, h.seq, out, BOUND, plain, len, p, p + len) != 0)
            return 0;
    }
    uvcci_st32(out + 60, uvcc_frame_crc(out, p, h.payload_len));
    return UVCC_FRAME_HEADER_BYTES + h.payload_len;
}
