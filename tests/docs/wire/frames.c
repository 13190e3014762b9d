/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c - links that make and take the frames of listings (frames.h). */
#include "frames.h"

#include "proto/bytes.h"
#include "proto/ids.h"

/* The hook gives a link the nonce that the listing has. */
static int fill_nonce(void *user, void *out, size_t n) {
    const scene *s = user;
    uint8_t *p = out;
    for (size_t i = 0; i < n; i++)
        p[i] = s->nonce[i % sizeof s->nonce];
    return 0;
}

void scene_values(listing *l, scene *s) {
    memset(s, 0, sizeof *s);
    s->kind = value_name(l, "kind", uvcc_frame_kind_name);
    s->src = (uint8_t)value_number(l, "src", 2);
    s->dst = (uint8_t)value_number(l, "dst", 2);
    value_exactly(l, "sid_sub", s->sid_sub, 32);
    s->run = (uint32_t)value_number(l, "run", UINT32_MAX);
    s->step = (uint32_t)value_number(l, "step", UINT32_MAX);
    s->piece = 1;
    if (listing_has(l, "datagram_bytes")) {
        s->datagram_bytes = (uint32_t)value_number(l, "datagram_bytes", PACKET_MAX);
        s->piece = (uint32_t)value_number(l, "piece", PIECES_MAX);
        listing_must(l, s->piece != 0, "pieces count from 1");
    }
    if (!listing_has(l, "suite"))
        return;
    s->suite = (uint8_t)value_number(l, "suite", 2);
    value_exactly(l, "prk", s->prk, 32);
    if (uvcc_frame_kind_class(s->kind) == UVCC_CLASS_CONTROL)
        value_exactly(l, "nonce", s->nonce, sizeof s->nonce);
}

bool wire_new(listing *l, wire *w, const scene *s) {
    *w = (wire){.s = *s};
    for (unsigned end = 0; listing_good(l) && end < 2; end++) {
        uvcc_link_config c;
        uvcc_link_config_default(&c);
        c.alloc = test_allocator(&w->mem);
        c.random = (uvcc_random){.fill = fill_nonce, .user = &w->s};
        c.me = end == 0 ? s->src : s->dst;
        c.peer = end == 0 ? s->dst : s->src;
        c.datagram = true;
        c.datagram_bytes = s->datagram_bytes;
        c.sid_tag = uvcci_sid_tag(s->sid_sub);
        if (end == 0) {
            c.rx_online_bytes = s->rx_online;
            c.rx_keys_bytes = s->rx_keys;
        }
        listing_must(l, uvcc_link_new(&w->l[end], &c) == 0, "there is no such link");
    }
    return listing_good(l);
}

bool wire_start(listing *l, wire *w) {
    const scene *s = &w->s;
    for (unsigned end = 0; listing_good(l) && end < 2; end++) {
        uvcc_link *k = w->l[end];
        listing_must(l, uvcc_link_set_run(k, s->run) == 0, "there is no such run");
        listing_must(l, uvcc_link_set_step(k, s->step) == 0, "there is no such step");
        if (s->suite != 0)
            listing_must(l, uvcc_link_set_keys(k, s->suite, s->prk) == 0, "there is no such suite");
        listing_must(l, uvcc_link_start(k, 0) == 0, "the link does not start");
    }
    for (unsigned end = 0; listing_good(l) && end < 2; end++) {
        packet first = wire_poll(l, w, end, 0);
        wire_feed(l, w, 1 - end, first.bytes, first.len, 0);
    }
    return listing_good(l);
}

void wire_free(wire *w) {
    for (unsigned end = 0; end < 2; end++)
        uvcc_link_free(w->l[end]);
    assert_int_equal(w->mem.live_bytes, 0);
}

packet wire_poll(listing *l, wire *w, unsigned end, uint64_t now) {
    packet p = {.len = 0};
    uvcc_transmit t;
    if (!listing_good(l))
        return p;
    if (uvcc_link_poll_transmit(w->l[end], &t, now) != 1 || t.total > sizeof p.bytes) {
        listing_must(l, false, "the link sends nothing of that");
        return p;
    }
    for (uint32_t i = 0; i < t.slice_count; i++) {
        memcpy(p.bytes + p.len, t.slices[i].data, t.slices[i].len);
        p.len += t.slices[i].len;
    }
    assert_int_equal(uvcc_link_transmit_done(w->l[end], t.id, t.total, now), 0);
    return p;
}

void wire_feed(listing *l, wire *w, unsigned end, const uint8_t *bytes, size_t len, uint64_t now) {
    if (!listing_good(l))
        return;
    uvcc_link_stats s;
    int rc = uvcc_link_feed(w->l[end], bytes, len, now);
    uvcc_link_get_stats(w->l[end], &s);
    listing_must(l, rc == 0 && s.refused + s.foreign + s.stale_run + s.duplicates == 0,
                 "a link does not take this frame");
}

/* ---- fields ---- */

/* What the decoder has of a header, in the order of its bytes. */
static bool header_fields(listing *l, uvcc_frame_header *h) {
    const listing_block *b = &l->block[LISTING_BYTES];
    const char *why = "";
    const uint8_t *payload;
    char text[64];
    memset(h, 0, sizeof *h);
    if (!listing_good(l))
        return false;
    if (uvcc_frame_decode(b->bytes, b->len, h, &payload, &why) != (ptrdiff_t)b->len) {
        listing_refuse(l, b->line, "no frame: %s", why);
        return false;
    }
    const bool control = uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL;
    field_text(l, "magic", "UVF1", 4);
    field_number(l, "version", 1, 1, "");
    field_code(l, "kind", 1, h->kind, uvcc_frame_kind_name(h->kind));
    snprintf(text, sizeof text, "party %u to party %u", h->src, h->dst);
    field_code(l, "route", 1, (uint64_t)h->src << 4 | h->dst, text);
    field_code(l, "flags", 1, h->flags, h->flags == UVCC_FRAME_SEALED ? "SEALED" : "");
    field_code(l, "sid_tag", 8, h->sid_tag, "of sid_sub");
    snprintf(text, sizeof text, "run %llu, frame %llu", (unsigned long long)(h->seq >> 40),
             (unsigned long long)(h->seq & ((UINT64_C(1) << 40) - 1)));
    field_code(l, "seq", 8, h->seq, control ? "a control kind has none" : text);
    field_number(l, "step", 4, h->step, "");
    field_code(l, "op_id", 4, h->op_id, "");
    field_code(l, "msg_id", 4, h->msg_id, "");
    field_number(l, "chunk_idx", 2, h->chunk_idx, "");
    field_number(l, "chunk_cnt", 2, h->chunk_cnt, "");
    field_number(l, "msg_len", 4, h->msg_len, "");
    field_number(l, "offset", 4, h->offset, "");
    field_number(l, "payload_len", 4, h->payload_len, "");
    field_code(l, "ack", 8, h->ack, "");
    field_code(l, "crc32", 4, h->crc32, "of bytes 0..59 and the payload");
    return listing_good(l);
}

void control_open(listing *l, const scene *s, const uint8_t *frame, const uvcc_frame_header *h,
                  uint8_t *plain) {
    uint8_t key[32];
    const uint8_t *p = frame + UVCC_FRAME_HEADER_BYTES;
    uvcci_derive_ctl_key(s->prk, s->run, s->src, s->dst, key);
    listing_must(l, uvcci_xaead_open(key, p, frame, 52, p + 24, h->payload_len - 24, plain) == 0,
                 "the seal does not open");
}

size_t frame_fields(listing *l, const scene *s, uvcc_frame_header *h, const uint8_t *plain) {
    if (!header_fields(l, h))
        return 0;
    if ((h->flags & UVCC_FRAME_SEALED) == 0) {
        field_title(l, "payload");
        return h->payload_len;
    }
    const uint8_t *at = l->block[LISTING_BYTES].bytes + UVCC_FRAME_HEADER_BYTES;
    field_title(l, "sealed payload");
    if (uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL) {
        field_bytes(l, "nonce", s->nonce, sizeof s->nonce, "");
        at += sizeof s->nonce;
    }
    const size_t len = (size_t)(l->block[LISTING_BYTES].bytes + l->block[LISTING_BYTES].len - at) -
                       UVCCI_TAG_BYTES;
    field_bytes(l, "ciphertext", at, len, "");
    field_bytes(l, "tag", at + len, UVCCI_TAG_BYTES, "");
    listing_made(l, LISTING_OPENED, plain, len);
    return len;
}
