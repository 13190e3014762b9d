/* SPDX-License-Identifier: Apache-2.0 */
/* link_stream.c - frames out of a byte stream that is cut anywhere.
 *
 * The payload of a plain new frame goes straight from the caller's bytes to its place in the
 * message; what is not plain is gathered and judged when it is whole, so nothing is believed
 * unchecked.
 *
 * States of the frame that is not whole: its header is coming (header_got < 64) -> its payload is
 * (PLACE: into its message; GATHER: into a buffer; SKIP: nowhere, only its CRC counts).
 *
 * A sealed piece is opened as it comes, where its suite can: one pass over memory does for copying,
 * CRC and opening. What is there before its end is not believed either.
 *
 * What PLACE and GATHER still miss can be offered to the caller, who then puts bytes there itself:
 * `offered` says how many, and any other input takes the offer back. */
#include "proto/link_stream.h"

#include <assert.h>
#include <string.h>

#include "proto/crc.h"
#include "proto/frame.h"
#include "proto/link_assembly.h"
#include "proto/link_core.h"
#include "proto/link_place.h"
#include "proto/link_rx.h"

/* A stream's frame up to this is taken at once when all of it is there. */
#define WHOLE_MAX_BYTES 4096u

/* Taken at a time: see uvcc_session_memory_bound(). */
#define PIECE_BYTES ((size_t)256 << 10)

enum { MODE_SKIP = 0, MODE_PLACE = 1, MODE_GATHER = 2 };

/* A data frame that has a seal. */
static bool sealed_data(const uvcc_frame_header *h) {
    return uvcci_frame_is_sealed(h) && uvcc_frame_kind_class(h->kind) != UVCC_CLASS_CONTROL;
}

static uvcci_place partial_place(const uvcc_link *l) {
    return (uvcci_place){.msg = l->rx.in->msg, .created = l->rx.in->created};
}

/* What was opened of a piece whose end nobody saw: nobody knows who wrote it. */
static void partial_wipe(uvcci_rx_partial *in) {
    if (in->key == NULL)
        return;
    const uint32_t piece = uvcci_frame_piece(&in->h);
    uvcci_wipe(in->to, in->got < piece ? in->got : piece);
    uvcci_wipe(&in->part, sizeof in->part);
    in->key = NULL;
}

/* A piece that opened well was copied to its message; what is left of it goes as it does there. */
static void partial_gather_free(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    partial_wipe(in);
    if (in->mode == MODE_GATHER && sealed_data(&in->h))
        uvcci_wipe(in->to, uvcci_frame_piece(&in->h));
    if (in->mode == MODE_GATHER)
        uvcci_link_give(l, in->to, in->h.payload_len, UVCC_MEM_STATE);
    in->mode = MODE_SKIP;
    in->header_got = in->offered = 0;
}

/* Forgets the frame that is not whole. */
static void partial_drop(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in == NULL)
        return;
    if (in->header_got == UVCC_FRAME_HEADER_BYTES && in->mode == MODE_PLACE) {
        partial_wipe(in);
        uvcci_place p = partial_place(l);
        uvcci_place_undo(l, &p);
    }
    partial_gather_free(l);
}

static int stream_break(uvcc_link *l, int err) {
    partial_drop(l);
    l->rx.broken = true;
    if (err != UVCC_ERR_FRAME)
        return err;
    l->stats.refused++;
    return UVCC_ERR_STREAM_BROKEN;
}

/* Its payload may go straight to its place. A sealed frame that claims a message of more than came
 * with it takes nothing before its seal was checked. */
static bool placeable(const uvcc_frame_header *h, const uvcci_rx_msg *m) {
    return m != NULL || !uvcci_frame_is_sealed(h) || uvcci_frame_piece(h) == h->msg_len;
}

static int opening(uvcc_link *l) {
    return sealed_data(&l->rx.in->h) ? uvcci_rx_open_begin(l) : 0;
}

/* The header is here: decides where the payload goes. A stream resends nothing, so a frame for
 * which there is no room breaks it: the peer, who keeps to the credit, sends none. */
static int partial_begin(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    in->got = 0;
    in->key = NULL;
    in->crc = uvcc_frame_crc(in->header, NULL, 0);
    in->mode = MODE_SKIP;
    uvcci_verdict v = uvcci_judge_session(l, &in->h);
    if (v == UVCCI_REFUSE)
        return UVCC_ERR_FRAME;
    bool hello = v == UVCCI_FOREIGN && uvcci_rx_foreign_hello(l, &in->h);
    if (v != UVCCI_TAKE && v != UVCCI_WRONG && !hello)
        return 0;
    if (uvcc_frame_kind_class(in->h.kind) != UVCC_CLASS_CONTROL) {
        const char *why;
        uvcci_rx_msg *m = uvcci_assembly_find(l, &in->h);
        v = uvcci_judge_message(l, &in->h, m, &why);
        uvcci_place p;
        if (v == UVCCI_LATER)
            return UVCC_ERR_FRAME;
        bool place = v == UVCCI_TAKE && placeable(&in->h, m);
        if (place && !uvcci_place_take(l, &in->h, m, &p))
            return UVCC_ERR_NOMEM;
        if (place) {
            in->mode = MODE_PLACE;
            in->msg = p.msg;
            in->created = p.created;
            in->to = p.msg->data + in->h.offset;
            return opening(l);
        }
    }
    if (in->h.payload_len == 0)
        return 0;
    in->to = uvcci_link_alloc(l, in->h.payload_len, UVCC_MEM_STATE);
    if (in->to == NULL)
        return UVCC_ERR_NOMEM;
    in->mode = MODE_GATHER;
    return opening(l);
}

/* Bytes of the payload that go to in->to; behind them is the tag of a sealed piece. */
static size_t partial_body(const uvcci_rx_partial *in) {
    const bool apart = in->mode == MODE_PLACE || (in->mode == MODE_GATHER && sealed_data(&in->h));
    return apart ? uvcci_frame_piece(&in->h) : in->h.payload_len;
}

/* A tile of what goes to in->to, where it may stand already. */
static void tile_add(uvcci_rx_partial *in, const uint8_t *data, size_t tile) {
    uint8_t *to = in->to + in->got;
    if (in->key != NULL)
        uvcci_aead_open_more(in->key, &in->part, data, tile, to);
    else if (data != to)
        memcpy(to, data, tile);
}

/* Takes n more bytes of the payload. The key of a step that went by is gone, and with it what the
 * frame could be believed by. */
static int partial_add(uvcc_link *l, const uint8_t *data, size_t n) {
    uvcci_rx_partial *in = l->rx.in;
    size_t body = partial_body(in);
    assert(n <= in->h.payload_len - in->got);
    if (in->key != NULL && in->h.step + UINT64_C(1) < l->step)
        return UVCC_ERR_FRAME;
    while (n != 0) {
        size_t tile = n < UVCCI_TILE_BYTES ? n : UVCCI_TILE_BYTES;
        if (in->got < body && tile > body - in->got)
            tile = body - in->got;
        in->crc = uvcci_crc32(in->crc, data, tile);
        if (in->got >= body)
            memcpy(in->tag + (in->got - body), data, tile);
        else if (in->mode != MODE_SKIP)
            tile_add(in, data, tile);
        in->got += (uint32_t)tile;
        data += tile;
        n -= tile;
    }
    return 0;
}

/* The whole frame is here. What was skipped and is wanted now (the step opened meanwhile) is
 * refused without breaking the stream: the peer sends it again after the next reconnection. */
static int partial_judge(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in->crc != in->h.crc32)
        return UVCC_ERR_FRAME;
    if (in->mode == MODE_SKIP && in->h.payload_len != 0 &&
        uvcci_judge_session(l, &in->h) == UVCCI_TAKE) {
        l->stats.refused++; /* it came before its time, and its bytes are gone */
        return 0;
    }
    if (in->mode != MODE_PLACE) {
        const uint8_t *kept = in->mode == MODE_GATHER ? in->to : NULL;
        int err = kept != NULL && sealed_data(&in->h) ? uvcci_rx_take_gathered(l)
                                                      : uvcci_rx_take(l, &in->h, in->header, kept);
        if (err == 0)
            partial_gather_free(l);
        return err;
    }
    if (!uvcci_step_is_open(l, &in->h)) /* the step went on meanwhile */
        return UVCC_ERR_FRAME;
    if (uvcci_frame_is_sealed(&in->h)) {
        int err = uvcci_rx_open_end(l);
        if (err != 0)
            return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
    }
    l->stats.frames_rx++;
    uvcci_place p = partial_place(l);
    in->mode = MODE_SKIP;
    in->header_got = 0;
    uvcci_place_commit(l, &in->h, &p);
    return 0;
}

/* After more of the payload: if that was all, the next frame begins. 0 or an error. */
static int partial_end(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in->got < in->h.payload_len)
        return 0;
    int err = partial_judge(l);
    if (err == 0)
        in->header_got = 0;
    return err;
}

/* A frame that is wholly in the caller's bytes and better taken from there: its length, 0 if it is
 * not such a one, or an error. */
static ptrdiff_t feed_whole(uvcc_link *l, const uint8_t *data, size_t len) {
    if (len < UVCC_FRAME_HEADER_BYTES)
        return 0;
    uint32_t payload_len = uvcci_frame_payload_len(data);
    if (payload_len > len - UVCC_FRAME_HEADER_BYTES ||
        (payload_len > WHOLE_MAX_BYTES && l->keys == NULL))
        return 0;
    uvcc_frame_header h;
    const uint8_t *payload;
    ptrdiff_t n = uvcc_frame_decode(data, len, &h, &payload, NULL);
    if (n < 0)
        return n;
    int err = uvcci_rx_take(l, &h, data, payload);
    return err != 0 ? err : n;
}

/* The partial frame, made at need; NULL without memory. */
static uvcci_rx_partial *partial_get(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in != NULL)
        return in;
    in = uvcci_link_alloc(l, sizeof *in, UVCC_MEM_STATE);
    if (in == NULL)
        return NULL;
    in->header_got = in->offered = 0;
    in->mode = MODE_SKIP;
    in->key = NULL;
    l->rx.in = in;
    return in;
}

/* More bytes of the header; when it is all there, what it says. 0 or an error. */
static int partial_header(uvcc_link *l, const uint8_t *data, size_t n) {
    uvcci_rx_partial *in = l->rx.in;
    assert(n <= UVCC_FRAME_HEADER_BYTES - in->header_got);
    memcpy(in->header + in->header_got, data, n);
    in->header_got += (uint32_t)n;
    if (in->header_got < UVCC_FRAME_HEADER_BYTES)
        return 0;
    in->mode = MODE_SKIP;
    int err = uvcc_frame_decode_header(in->header, &in->h, NULL);
    return err == 0 ? partial_begin(l) : err;
}

/* A part of a frame that is not wholly there: at least a byte of data, at most the frame's rest.
 * The bytes taken, or an error. */
static ptrdiff_t feed_part(uvcc_link *l, const uint8_t *data, size_t len) {
    uvcci_rx_partial *in = partial_get(l);
    if (in == NULL)
        return UVCC_ERR_NOMEM;
    size_t taken = 0;
    if (in->header_got < UVCC_FRAME_HEADER_BYTES) {
        size_t left = UVCC_FRAME_HEADER_BYTES - in->header_got;
        taken = len < left ? len : left;
        int err = partial_header(l, data, taken);
        if (err != 0)
            return err;
        if (in->header_got < UVCC_FRAME_HEADER_BYTES)
            return (ptrdiff_t)taken;
    }
    size_t n = in->h.payload_len - in->got;
    if (n > len - taken)
        n = len - taken;
    int err = partial_add(l, data + taken, n);
    if (err == 0)
        err = partial_end(l);
    return err != 0 ? err : (ptrdiff_t)(taken + n);
}

int uvcci_stream_feed(uvcc_link *l, const uint8_t *data, size_t len) {
    if (l->rx.broken)
        return UVCC_ERR_STREAM_BROKEN;
    if (l->rx.in != NULL)
        l->rx.in->offered = 0;
    while (len != 0) {
        bool between = l->rx.in == NULL || l->rx.in->header_got == 0;
        ptrdiff_t n = between ? feed_whole(l, data, len) : 0;
        if (n == 0)
            n = feed_part(l, data, len);
        if (n < 0)
            return stream_break(l, (int)n);
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* What of len bytes belongs to the frame that is coming, or begins with them. */
static size_t of_frame(const uvcc_link *l, const uint8_t *data, size_t len) {
    const uvcci_rx_partial *in = l->rx.in;
    size_t left = UVCC_FRAME_HEADER_BYTES;
    if (uvcci_stream_quiet(l))
        left += len >= left ? uvcci_frame_payload_len(data) : 0;
    else if (in->header_got < UVCC_FRAME_HEADER_BYTES)
        left -= in->header_got;
    else
        left = in->h.payload_len - in->got;
    return left < len ? left : len;
}

int uvcci_stream_feed_some(uvcc_link *l, uvcci_slices *from) {
    const uint8_t *data;
    const int frames = !l->rx.broken && uvcci_stream_quiet(l) ? uvcci_open_frames(l, from) : 0;
    if (frames != 0)
        return frames < 0 ? stream_break(l, frames) : 0;
    size_t n = uvcci_slices_run(from, &data);
    if (n == 0)
        return 0;
    n = of_frame(l, data, n < PIECE_BYTES ? n : PIECE_BYTES);
    uvcci_slices_skip(from, n);
    return uvcci_stream_feed(l, data, n);
}

size_t uvcci_stream_offer(uvcc_link *l, uint8_t **to) {
    uvcci_rx_partial *in = l->rx.in;
    if (in == NULL || in->header_got < UVCC_FRAME_HEADER_BYTES || in->mode == MODE_SKIP)
        return 0;
    const size_t body = partial_body(in);
    assert(!l->rx.broken && in->got < in->h.payload_len);
    in->offered = in->got < body ? (uint32_t)(body - in->got) : 0;
    if (in->offered != 0)
        *to = in->to + in->got;
    return in->offered;
}

size_t uvcci_stream_offered(const uvcc_link *l, const uint8_t **at) {
    const uvcci_rx_partial *in = l->rx.in;
    if (in == NULL || in->offered == 0)
        return 0;
    *at = in->to + in->got;
    return in->offered;
}

int uvcci_stream_filled(uvcc_link *l, size_t n) {
    uvcci_rx_partial *in = l->rx.in;
    assert(in != NULL && n != 0 && n <= in->offered);
    in->offered = 0;
    int err = partial_add(l, in->to + in->got, n);
    if (err == 0)
        err = partial_end(l);
    return err != 0 ? stream_break(l, err) : 0;
}

void uvcci_stream_reset(uvcc_link *l) {
    partial_drop(l);
    l->rx.broken = false;
}

bool uvcci_stream_quiet(const uvcc_link *l) {
    return l->rx.in == NULL || l->rx.in->header_got == 0;
}

void uvcci_stream_trim(uvcc_link *l) {
    uvcci_link_give(l, l->rx.in, sizeof *l->rx.in, UVCC_MEM_STATE);
    l->rx.in = NULL;
}
