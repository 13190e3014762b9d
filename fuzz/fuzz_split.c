/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_split.c - a byte stream means the same however it is cut: one link gets it whole, a second
 * one in pieces, a third one in slices, of which it opens frames side by side; all deliver the
 * same, count the same and answer with the same bytes. The stream is frames of the grammar in
 * frames.h and raw bytes. */
#include "frames.h"

enum { STREAM_MAX = 400000, FRAMES_MAX = 60, DELIVERED_MAX = 256, OUT_MAX = 1 << 20 };

typedef struct side {
    fuzz_link f;
    int err;
    size_t delivered;
    uint64_t what[DELIVERED_MAX];
    uint8_t digest[32];
    size_t out_len;
    uint8_t out[OUT_MAX];
} side;

static side whole, pieces, slices;
static uint8_t stream[STREAM_MAX];

/* The first ACK gives the credit without which no data frame is taken. */
static bool begin(side *s, fuzz_in *in) {
    uvcc_transmit t;
    if (!fuzz_link_begin(&s->f, in))
        return false;
    while (uvcc_link_poll_transmit(s->f.l, &t, s->f.now) == 1)
        FUZZ_CHECK(uvcc_link_transmit_done(s->f.l, t.id, t.total, s->f.now) == 0);
    return true;
}

static void finish(side *s) {
    fuzz_link *f = &s->f;
    uvcc_link_rx rx;
    uvcc_transmit t;
    uvcc_link_digest(f->l, s->digest);
    s->delivered = 0;
    while (uvcc_link_poll_message(f->l, &rx) == 1) {
        uint8_t hash[32];
        FUZZ_CHECK(s->delivered < DELIVERED_MAX);
        uvcci_sha256 h;
        uvcci_sha256_init(&h);
        uvcci_sha256_update(&h, &rx.kind, sizeof rx.kind);
        uvcci_sha256_update(&h, &rx.step, sizeof rx.step);
        uvcci_sha256_update(&h, &rx.op_id, sizeof rx.op_id);
        uvcci_sha256_update(&h, rx.msg_ids, rx.chunk_cnt * sizeof rx.msg_ids[0]);
        uvcci_sha256_update(&h, rx.data, rx.len);
        uvcci_sha256_final(&h, hash);
        memcpy(&s->what[s->delivered++], hash, sizeof s->what[0]);
        FUZZ_CHECK(uvcc_link_accept(f->l, rx.token, f->now) == 0);
        FUZZ_CHECK(uvcc_link_release(f->l, rx.token, f->now) == 0);
    }
    s->out_len = 0;
    f->now += 10 * FUZZ_MS; /* whatever waits is due */
    uvcc_link_on_timer(f->l, f->now);
    while (uvcc_link_poll_transmit(f->l, &t, f->now) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++) {
            FUZZ_CHECK(s->out_len + t.slices[i].len <= OUT_MAX);
            memcpy(s->out + s->out_len, t.slices[i].data, t.slices[i].len);
            s->out_len += t.slices[i].len;
        }
        FUZZ_CHECK(uvcc_link_transmit_done(f->l, t.id, t.total, f->now) == 0);
    }
    fuzz_link_check(f);
}

static void compare(const side *other) {
    uvcc_link_stats a, b;
    FUZZ_CHECK(whole.err == other->err);
    FUZZ_CHECK(whole.delivered == other->delivered);
    FUZZ_CHECK(memcmp(whole.what, other->what, whole.delivered * sizeof whole.what[0]) == 0);
    FUZZ_CHECK(memcmp(whole.digest, other->digest, sizeof whole.digest) == 0);
    FUZZ_CHECK(whole.out_len == other->out_len &&
               memcmp(whole.out, other->out, whole.out_len) == 0);
    uvcc_link_get_stats(whole.f.l, &a);
    uvcc_link_get_stats(other->f.l, &b);
    FUZZ_CHECK(whole.err != 0 ||
               a.frames_rx == b.frames_rx); /* the frame that broke it may count */
    FUZZ_CHECK(a.duplicates == b.duplicates && a.refused == b.refused && a.foreign == b.foreign &&
               a.stale_run == b.stale_run);
    const char *va = uvcc_link_violation(whole.f.l), *vb = uvcc_link_violation(other->f.l);
    FUZZ_CHECK((va == NULL) == (vb == NULL) && (va == NULL || strcmp(va, vb) == 0));
}

/* In two slices, or in one. */
static void feed_slices(size_t len, bool in_one, uint64_t r) {
    fuzz_link *f = &slices.f;
    const size_t first = in_one || len == 0 ? 0 : r % len;
    uint8_t *one = fuzz_copy(stream, first), *two = fuzz_copy(stream + first, len - first);
    const uvcc_slice s[2] = {{.data = one, .len = first}, {.data = two, .len = len - first}};
    slices.err = f->datagram ? 0 : uvcc_link_feed_slices(f->l, s, 2, f->now);
    free(one);
    free(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size}, twin = in, third = in;
    if (size < 3 || !begin(&whole, &in))
        return 0;
    FUZZ_CHECK(begin(&pieces, &twin) && begin(&slices, &third));
    uint64_t cuts = fuzz_u8(&in);
    unsigned mode = (unsigned)cuts & 3;
    const bool in_one = (cuts & 4) != 0;
    size_t len = 0;
    for (int i = 0; i < FRAMES_MAX && in.left != 0 && !whole.f.datagram; i++) {
        uint8_t op = fuzz_u8(&in);
        size_t got;
        if ((op & 0xC0) == 0xC0) { /* raw bytes */
            const uint8_t *p = fuzz_take(&in, op & 0x20 ? fuzz_u16(&in) : op & 0x1F, &got);
            if (got > STREAM_MAX - len)
                break;
            memcpy(stream + len, p, got);
            len += got;
        } else {
            if (STREAM_MAX - len < FUZZ_FRAME_BYTES)
                break;
            in.at -= 1; /* the byte is the frame's own first */
            in.left += 1;
            len += fuzz_frame(&whole.f, &in, stream + len);
        }
    }
    uint8_t *copy = fuzz_copy(stream, len);
    whole.err = uvcc_link_feed(whole.f.l, copy, len, whole.f.now);
    free(copy);
    pieces.err = 0;
    for (size_t at = 0, n; at < len && pieces.err == 0; at += n) {
        uint64_t r = fuzz_next(&cuts);
        n = mode == 0   ? 1
            : mode == 1 ? 1 + r % 70
            : mode == 2 ? 1 + r % 3000
                        : 1 + r % 17 * (r >> 8 & 511);
        if (mode == 0 && len > 20000)
            n = 1 + at % 3;
        if (n > len - at)
            n = len - at;
        copy = fuzz_copy(stream + at, n);
        pieces.err = uvcc_link_feed(pieces.f.l, copy, n, pieces.f.now);
        free(copy);
    }
    feed_slices(len, in_one, fuzz_next(&cuts));
    FUZZ_CHECK(whole.err == 0 || whole.err == UVCC_ERR_STREAM_BROKEN);
    finish(&whole);
    finish(&pieces);
    finish(&slices);
    compare(&pieces);
    compare(&slices);
    fuzz_link_end(&whole.f);
    fuzz_link_end(&pieces.f);
    fuzz_link_end(&slices.f);
    return 0;
}
