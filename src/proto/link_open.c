/* SPDX-License-Identifier: Apache-2.0 */
/* link_open.c - several frames opened side by side, see link_open.h.
 *
 * Only frames that stand side by side in one message which is here already: so none of them takes
 * memory before its seal was checked, no two write to one place, and what is true of the first
 * one's place is true of the others'. All else is the stream's, frame by frame (link_stream).
 * Threads write to the place of their frame alone; what follows from a frame is done in order,
 * afterwards. */
#include "proto/link_open.h"

#include <assert.h>

#include "proto/crc.h"
#include "proto/frame.h"
#include "proto/link_assembly.h"
#include "proto/link_place.h"
#include "proto/link_rx.h"
#include "proto/link_seal.h"

typedef struct side_frame {
    uvcc_frame_header h;
    const uint8_t *header, *body, *tag;
    uint8_t *to;
    uvcci_aead *key;
    uvcci_place place;
    bool whole; /* its CRC is right */
    int err;    /* of opening it */
} side_frame;

size_t uvcci_slices_run(uvcci_slices *s, const uint8_t **data) {
    while (s->count != 0 && s->done == s->at->len) {
        s->at++;
        s->count--;
        s->done = 0;
    }
    if (s->count == 0)
        return 0;
    *data = s->at->data + s->done;
    return s->at->len - s->done;
}

void uvcci_slices_skip(uvcci_slices *s, size_t n) {
    assert(s->count != 0 && n <= s->at->len - s->done);
    s->done += n;
}

/* n bytes if they stand in one place. */
static const uint8_t *take_run(uvcci_slices *s, size_t n) {
    const uint8_t *p;
    if (uvcci_slices_run(s, &p) < n)
        return NULL;
    uvcci_slices_skip(s, n);
    return p;
}

/* A large data frame, if all of it is here. */
static bool read_frame(uvcci_slices *s, side_frame *x) {
    x->header = take_run(s, UVCC_FRAME_HEADER_BYTES);
    if (x->header == NULL || uvcc_frame_decode_header(x->header, &x->h, NULL) != 0 ||
        uvcc_frame_kind_class(x->h.kind) == UVCC_CLASS_CONTROL || !uvcci_frame_is_sealed(&x->h) ||
        uvcci_frame_piece(&x->h) < UVCCI_SIDE_MIN_BYTES)
        return false;
    x->body = take_run(s, uvcci_frame_piece(&x->h));
    x->tag = x->body != NULL ? take_run(s, UVCCI_TAG_BYTES) : NULL;
    return x->tag != NULL;
}

/* It goes on where the one before ends, in the stream and in the message. */
static bool follows(const uvcc_frame_header *a, const uvcc_frame_header *b) {
    return b->kind == a->kind && b->step == a->step && b->op_id == a->op_id &&
           b->seq == a->seq + 1 && b->offset == a->offset + uvcci_frame_piece(a) &&
           (b->chunk_idx != a->chunk_idx || b->msg_id == a->msg_id);
}

/* Its place, if it may have one now. */
static bool place_frame(uvcc_link *l, const side_frame *before, side_frame *x) {
    const char *why;
    if (before != NULL && !follows(&before->h, &x->h))
        return false;
    uvcci_rx_msg *m = before != NULL ? before->place.msg : uvcci_assembly_find(l, &x->h);
    if (m == NULL || uvcci_judge_session(l, &x->h) != UVCCI_TAKE ||
        uvcci_judge_message(l, &x->h, m, &why) != UVCCI_TAKE ||
        !uvcci_rx_piece_key(l, &x->h, &x->key) || x->key == NULL || !uvcci_aead_is_shared(x->key) ||
        !uvcci_place_take(l, &x->h, m, &x->place))
        return false;
    x->to = m->data + x->h.offset;
    return true;
}

/* Without parts: of a suite that has no such way. */
static void open_whole(side_frame *x, uint32_t crc) {
    const uint32_t piece = uvcci_frame_piece(&x->h);
    x->whole = uvcci_crc32(uvcci_crc32(crc, x->body, piece), x->tag, UVCCI_TAG_BYTES) == x->h.crc32;
    if (x->whole)
        x->err = uvcci_aead_open(x->key, x->h.seq, x->header, UVCCI_FRAME_BOUND_BYTES, x->body,
                                 piece, x->tag, x->to);
}

static void open_item(void *arg, uint32_t i) {
    side_frame *x = (side_frame *)arg + i;
    const uint32_t piece = uvcci_frame_piece(&x->h);
    uint32_t crc = uvcc_frame_crc(x->header, NULL, 0);
    uvcci_gcm_part part;
    if (!uvcci_aead_open_begin(x->key, &part, x->h.seq, x->header, UVCCI_FRAME_BOUND_BYTES)) {
        open_whole(x, crc);
        return;
    }
    for (uint32_t at = 0, n; at < piece; at += n) {
        n = piece - at < UVCCI_TILE_BYTES ? piece - at : UVCCI_TILE_BYTES;
        crc = uvcci_crc32(crc, x->body + at, n);
        uvcci_aead_open_more(x->key, &part, x->body + at, n, x->to + at);
    }
    x->whole = uvcci_crc32(crc, x->tag, UVCCI_TAG_BYTES) == x->h.crc32;
    x->err = uvcci_aead_open_end(x->key, &part, x->tag);
}

/* What was opened and is not believed, or not any more, since one before it was not. */
static int refuse_from(side_frame *x, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        uvcci_wipe(x[i].to, uvcci_frame_piece(&x[i].h));
    return UVCC_ERR_FRAME;
}

int uvcci_open_frames(uvcc_link *l, uvcci_slices *from) {
    side_frame x[UVCCI_SIDE_FRAMES];
    uint32_t n = 0;
    if (l->cfg.parallel.run == NULL || l->keys == NULL)
        return 0;
    uvcci_slices end = *from;
    for (uvcci_slices at = end; n < UVCCI_SIDE_FRAMES; n++, end = at)
        if (!read_frame(&at, &x[n]) || !place_frame(l, n != 0 ? &x[n - 1] : NULL, &x[n]))
            break;
    if (n < 2)
        return 0;
    l->cfg.parallel.run(l->cfg.parallel.user, open_item, x, n);
    for (uint32_t i = 0; i < n; i++) {
        if (!x[i].whole || uvcci_rx_piece_opened(l, &x[i].h, x[i].err, true) != 0)
            return refuse_from(x + i, n - i);
        l->stats.frames_rx++;
        uvcci_place_commit(l, &x[i].h, &x[i].place);
    }
    *from = end;
    return (int)n;
}
