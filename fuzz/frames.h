/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - one link and the frames that a hostile peer with the right keys may send it: a small
 * grammar read from the fuzzer's bytes, sealed and checksummed correctly unless it says otherwise.
 *
 * Content: byte i of a message is a function of (op_id, i) and of a variant 0 or 1, so that what is
 * delivered can be judged without a model of the link. */
#ifndef UVCC_FUZZ_FRAMES_H
#define UVCC_FUZZ_FRAMES_H

#include "common.h"

#include "proto/ackmsg.h"
#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/ids.h"
#include <uvcc/frame.h>
#include <uvcc/link.h>

#define FUZZ_SID UINT64_C(0x1122334455667788)
enum { FUZZ_ME = 0, FUZZ_PEER = 2, FUZZ_RUN_LAST = (1 << 24) - 1, FUZZ_FRAME_BYTES = 70000 };

typedef struct fuzz_link {
    uvcc_link *l;
    fuzz_mem mem;
    fuzz_rng rng;
    uint64_t now;
    bool datagram;
    uint32_t run, step, first;
    uint8_t suite, prk[32];
    uint64_t seq, ack_counter; /* the hostile peer's */
} fuzz_link;

static inline void fuzz_keys(uint8_t prk[32]) {
    memset(prk, 0x42, 32);
}

/* Two bytes of the input choose the link. */
static inline bool fuzz_link_begin(fuzz_link *f, fuzz_in *in) {
    uint8_t how = fuzz_u8(in), sizes = fuzz_u8(in);
    memset(f, 0, sizeof *f);
    f->datagram = how & 1;
    f->suite = (how >> 1) % 3;
    f->run = how & 8 ? FUZZ_RUN_LAST : 3;
    f->step = how & 16 ? UINT32_MAX - 1 : 5;
    f->now = how & 32 ? UINT64_C(1) << 63 : 50 * FUZZ_MS;
    f->rng.state = 9;
    fuzz_keys(f->prk);
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = fuzz_allocator(&f->mem);
    cfg.random = fuzz_random(&f->rng);
    cfg.me = FUZZ_ME;
    cfg.peer = FUZZ_PEER;
    cfg.datagram = f->datagram;
    cfg.parallel.run = fuzz_backwards;
    cfg.sid_tag = FUZZ_SID;
    static const uint32_t frames[] = {0, 256, 1000, 4096};
    static const uint64_t credits[] = {1 << 20, 3000, 100, 20 << 20};
    cfg.frame_bytes = frames[sizes & 3];
    cfg.datagram_bytes = sizes & 4 ? 65507 : 0;
    cfg.rx_online_bytes = credits[sizes >> 3 & 3];
    cfg.rx_keys_bytes = credits[(sizes >> 3 & 3) ^ 1];
    cfg.tx_online_bytes = cfg.tx_keys_bytes = 1 << 20;
    cfg.rx_messages_max = sizes & 32 ? 3 : 0;
    cfg.rx_ranges_max = sizes & 64 ? 2 : 0;
    cfg.keepalive_ns = sizes & 128 ? UVCC_NEVER : 0;
    if (uvcc_link_new(&f->l, &cfg) != 0)
        return false;
    FUZZ_CHECK(uvcc_link_set_run(f->l, f->run) == 0);
    FUZZ_CHECK(uvcc_link_set_step(f->l, f->step - 1) == 0); /* where its keys begin */
    if (f->suite != 0)
        FUZZ_CHECK(uvcc_link_set_keys(f->l, f->suite, f->prk) == 0);
    f->first = f->step - 1;
    FUZZ_CHECK(uvcc_link_set_step(f->l, f->step) == 0);
    if ((how & 64) == 0)
        FUZZ_CHECK(uvcc_link_start(f->l, f->now) == 0);
    uvcc_link_stream_opened(f->l, f->now);
    return true;
}

static inline void fuzz_link_check(const fuzz_link *f) {
    uvcc_link_stats s;
    uvcc_link_get_stats(f->l, &s);
    FUZZ_CHECK(s.memory_bytes == f->mem.live_bytes);
    FUZZ_CHECK(f->mem.peak_bytes <= uvcc_link_memory_bound(f->l));
}

static inline void fuzz_link_end(fuzz_link *f) {
    fuzz_link_check(f);
    uvcc_link_free(f->l);
    FUZZ_CHECK(f->mem.live_bytes == 0 && f->mem.live_blocks == 0);
}

static inline uint8_t fuzz_content(uint32_t op_id, uint32_t at, unsigned variant) {
    return (uint8_t)((op_id * 31u + at * 7u + (at >> 8)) ^ (variant != 0 ? 0x80u : 0u));
}

static inline uint32_t fuzz_chunks(uint32_t msg_len) {
    return msg_len == 0 ? 1 : (msg_len - 1) / UVCC_CHUNK_BYTES + 1;
}

/* An ACK's payload from the input: its length. */
static inline uint32_t fuzz_ack(fuzz_link *f, fuzz_in *in, uint8_t *p) {
    uint8_t how = fuzz_u8(in), what = fuzz_u8(in);
    uint64_t base = (uint64_t)f->run << 40;
    uint32_t ranges = how & 7;
    if (how & 8)
        ranges = fuzz_u8(in) % 40;
    f->ack_counter = how & 16 ? fuzz_u64(in) : f->ack_counter + 1;
    uvcci_st64(p, f->ack_counter);
    uvcci_st64(p + 8, what & 1 ? fuzz_u64(in) : base + (what >> 4));
    uvcci_st64(p + 16, what & 2 ? fuzz_u64(in) : UINT64_C(1) << 20);
    uvcci_st64(p + 24, what & 4 ? fuzz_u64(in) : UINT64_C(1) << 20);
    uvcci_st32(p + 32, what & 8 ? fuzz_u32(in) : 0);
    uvcci_st32(p + 36, what & 8 ? fuzz_u8(in) : 0);
    uvcci_st32(p + 40, 0);
    uvcci_st16(p + UVCCI_ACK_MIN_BYTES - 2, (uint16_t)(how & 32 ? fuzz_u8(in) : ranges));
    uint64_t at = base + (what >> 4);
    for (uint32_t i = 0; i < ranges; i++) {
        uint64_t first, last;
        if (how & 64) {
            first = fuzz_u64(in);
            last = fuzz_u64(in);
        } else {
            uint8_t r = fuzz_u8(in);
            first = at + 1 + (r >> 4); /* what touches cum too: it came and was not accepted */
            last = first + (r & 15) - (how >> 7) * (uint64_t)2;
            at = last;
        }
        uvcci_st64(p + UVCCI_ACK_MIN_BYTES + 16 * i, first);
        uvcci_st64(p + UVCCI_ACK_MIN_BYTES + 16 * i + 8, last);
    }
    return UVCCI_ACK_MIN_BYTES + 16 * ranges;
}

/* Seals and checksums `h` with `piece` at `out` (which has room for FUZZ_FRAME_BYTES). Bits of
 * `wrong`: 1 the CRC is, 2 the key is, 4 a flipped byte under a right CRC. */
static inline size_t fuzz_seal(const fuzz_link *f, const uvcc_frame_header *h, const uint8_t *piece,
                               uint32_t len, unsigned wrong, uint8_t *out) {
    uint8_t *p = out + UVCC_FRAME_HEADER_BYTES, key[32], prk[32];
    memcpy(prk, f->prk, sizeof prk);
    prk[0] ^= (uint8_t)(wrong & 2);
    uvcc_frame_encode_header(h, out);
    size_t n = len;
    if ((h->flags & UVCC_FRAME_SEALED) == 0) {
        if (len != 0)
            memcpy(p, piece, len);
    } else if (uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL) {
        memset(p, 0x77, 24);
        uvcci_derive_ctl_key(prk, f->run, FUZZ_PEER, FUZZ_ME, key);
        FUZZ_CHECK(uvcci_xaead_seal(key, p, out, 52, piece, len, p + 24) == 0);
        n += UVCC_FRAME_CTL_SEAL_BYTES;
    } else {
        uvcci_aead a;
        uvcci_derive_chain(prk, f->first, f->run, prk);
        for (uint64_t at = f->first; at < h->step && at < f->first + UINT64_C(300); at++)
            uvcci_ratchet(prk, at + 1, f->run);
        uvcci_derive_frame_key(prk, h->step, f->run, FUZZ_PEER, FUZZ_ME,
                               (uint32_t)(h->seq >> UVCCI_EPOCH_BITS & 0x3fffff), key);
        FUZZ_CHECK(uvcci_aead_init(&a, f->suite == 2 ? 2 : 1, key) == 0);
        FUZZ_CHECK(uvcci_aead_seal(&a, h->seq, out, 52, piece, len, p, p + len) == 0);
        uvcci_aead_free(&a);
        n += UVCC_FRAME_SEAL_BYTES;
    }
    n += UVCC_FRAME_HEADER_BYTES;
    if (wrong & 4)
        out[h->op_id % n] ^= 1;
    uvcci_st32(out + 60, uvcc_frame_crc(out, p, n - UVCC_FRAME_HEADER_BYTES));
    if (wrong & 1)
        out[60] ^= 1;
    return n;
}

/* One frame from the input; returns its length. */
static inline size_t fuzz_frame(fuzz_link *f, fuzz_in *in, uint8_t *out) {
    static uint8_t piece[FUZZ_FRAME_BYTES];
    static const uint8_t kinds[] = {
#define UVCC_KIND(name, code, cls, label) code,
#include <uvcc/kinds.def>
#undef UVCC_KIND
    };
    uint8_t how = fuzz_u8(in), what = fuzz_u8(in), odd = fuzz_u8(in);
    unsigned wrong = 0;
    uvcc_frame_header h = {
        .kind = kinds[(what & 15) % sizeof kinds],
        .src = FUZZ_PEER,
        .dst = FUZZ_ME,
        .flags = f->suite != 0 ? UVCC_FRAME_SEALED : 0,
        .sid_tag = FUZZ_SID,
        .step = f->step + (how & 1),
    };
    uint32_t len = 0;
    if (odd & 1)
        wrong = fuzz_u8(in) & 7;
    if (odd & 2)
        h.flags ^= UVCC_FRAME_SEALED;
    if (odd & 4)
        h.step = f->step + (uint32_t)(int8_t)fuzz_u8(in);
    bool control = uvcc_frame_kind_class(h.kind) == UVCC_CLASS_CONTROL;
    bool sealed = (h.flags & UVCC_FRAME_SEALED) != 0;
    uint64_t base = (uint64_t)f->run << 40;
    h.ack = sealed ? 0 : base + (odd & 8 ? fuzz_u16(in) : 0);
    if (control) {
        h.chunk_cnt = 1;
        if (h.kind == UVCC_FRAME_ACK) {
            len = fuzz_ack(f, in, piece);
        } else {
            size_t got = 0;
            len = how & 2 ? fuzz_u16(in) : fuzz_u8(in);
            memset(piece, 0, len);
            if (h.kind == UVCC_FRAME_HELLO || (how & 4) != 0) {
                const uint8_t *bytes = fuzz_take(in, len < 160 ? len : 160, &got);
                memcpy(piece, bytes, got);
            }
        }
        h.msg_len = len;
    } else {
        bool stepless =
            h.kind == UVCC_FRAME_STEP || h.kind == UVCC_FRAME_AUDIT || h.kind == UVCC_FRAME_BYE;
        uint8_t s = fuzz_u8(in);
        f->seq += 1;
        h.seq = base + f->seq;
        if (how & 2) { /* behind or ahead, not counted */
            f->seq -= 1;
            h.seq =
                base + f->seq + (how & 4 ? (uint64_t)s << (s & 15) : (uint64_t)(int64_t)(int8_t)s);
        }
        static const uint32_t lens[] = {0, 1, 40, 200, 1500, 5000, 66000, (2u << 20) + 5};
        h.op_id = stepless ? 0 : 1 + (what >> 4);
        h.msg_len = how & 8 ? lens[s & 7] : s;
        if (how & 16) { /* a piece of it */
            uint32_t cut = 1 + h.msg_len / (2 + (odd >> 4));
            h.offset = cut * (s >> 4);
            len = cut;
        } else {
            len = h.msg_len;
        }
        if (odd & 8)
            h.offset = fuzz_u32(in);
        if (h.offset > h.msg_len && (how & 32) == 0)
            h.offset = 0;
        uint32_t room =
            UVCC_CHUNK_BYTES - h.offset % UVCC_CHUNK_BYTES; /* not across a chunk's end */
        if (len > room)
            len = room;
        if (h.offset <= h.msg_len && len > h.msg_len - h.offset && (how & 32) == 0)
            len = h.msg_len - h.offset;
        if (len > 66000)
            len = 66000;
        h.chunk_idx = (uint16_t)(h.offset / UVCC_CHUNK_BYTES);
        h.chunk_cnt = (uint16_t)fuzz_chunks(h.msg_len);
        h.msg_id = h.op_id * 100 + h.chunk_idx + (how >> 6 & 1);
        for (uint32_t i = 0; i < len; i++)
            piece[i] = fuzz_content(h.op_id, h.offset + i, how >> 7);
    }
    h.payload_len = len + (!sealed   ? 0
                           : control ? UVCC_FRAME_CTL_SEAL_BYTES
                                     : UVCC_FRAME_SEAL_BYTES);
    if (odd & 16) { /* one field is anything */
        uint32_t v = fuzz_u32(in);
        switch (fuzz_u8(in) % 12) {
        case 0:
            h.sid_tag = v;
            break;
        case 1:
            h.src = v & 15;
            break;
        case 2:
            h.dst = v & 15;
            break;
        case 3:
            h.kind = (uint8_t)v;
            break;
        case 4:
            h.seq = (uint64_t)v << 32 | v;
            break;
        case 5:
            h.chunk_idx = (uint16_t)v;
            break;
        case 6:
            h.chunk_cnt = (uint16_t)v;
            break;
        case 7:
            h.msg_len = v;
            break;
        case 8:
            h.offset = v;
            break;
        case 9:
            h.payload_len = v;
            break;
        case 10:
            h.ack = (uint64_t)v << 32 | v;
            break;
        default:
            h.flags = (uint8_t)v;
            break;
        }
    }
    return fuzz_seal(f, &h, piece, len, wrong, out);
}

#endif
