/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_traitor.c - whole sessions, one party of which lies: it is a real session that shakes hands
 * and runs the steps, but the fuzzer's bytes change what it says after sealing was agreed on. Its
 * frames are opened with its own keys, changed and sealed again, with right ids and CRCs: ACKs with
 * any ranges, counters and credits, other headers, batches with other TLVs, STEPs, AUDITs, BYEs,
 * frames left out, told twice, moved to another seq.
 *
 * Checks: no honest session crashes or hangs: it goes on or aborts with a reason, its deadline is
 * in the future once nothing waits, the answer to an input is bounded, and all close in the end;
 * all memory comes back. What is computed may be anything: two honest parties do not notice a third
 * that adds to its shares. */
#include "exec/runtime/core.h"
#include "proto/ackmsg.h"
#include "proto/ids.h"

#include "reseal.h"
#include "sessions.h"

enum { TURNS_MAX = 400, FRAME_MAX = 1 << 21, KEPT_MAX = 8, KEPT_BYTES = 4096 };

/* A frame of the traitor, before sealing. */
typedef struct said {
    uvcc_frame_header h;
    uint32_t len;
    uint8_t plain[KEPT_BYTES];
} said;

static struct {
    fuzz_in *in;
    uint8_t party, skip;
    bool reading; /* the next byte says how many frames go unchanged */
    said kept[KEPT_MAX];
    uint32_t kept_count;
} lie;

static uint64_t edge_seq(fuzz_in *in, uint64_t low, uint64_t high) {
    uint8_t how = fuzz_u8(in);
    switch (how & 7) {
    case 0:
        return low;
    case 1:
        return high;
    case 2:
        return low + 1;
    case 3:
        return high + 1;
    case 4:
        return low - (how >> 3);
    case 5:
        return low + (how >> 3) * ((high - low) / 32 + 1);
    case 6:
        return fuzz_u64(in);
    default:
        return low + (how >> 3);
    }
}

/* An ACK's payload of the traitor to `to`: cum and ranges about what that peer has sent. */
static uint32_t change_ack(uvcc_link *peers, uint8_t *p, uint32_t len, fuzz_in *in) {
    uvcci_ack a;
    reseal_seqs s = reseal_seqs_of(peers);
    uint8_t how = fuzz_u8(in);
    if (uvcci_ack_decode(&a, p, len) != 0)
        return len;
    if (how & 1)
        a.cum = edge_seq(in, s.tx_cum, s.tx_next - 1);
    if (how & 2) { /* the whole window, or ranges by the input */
        uint8_t n = fuzz_u8(in);
        uint64_t at = a.cum + 1;
        a.range_cnt = 1;
        a.range[0][0] = at + (n >> 7);
        a.range[0][1] = s.tx_next - 1;
        for (uint32_t i = 0; i < (n & 15) && (n & 0x40) == 0; i++) {
            a.range[i][0] = edge_seq(in, at, s.tx_next - 1);
            a.range[i][1] = edge_seq(in, a.range[i][0], s.tx_next - 1);
            at = a.range[i][1] + 1;
            a.range_cnt = i + 1;
        }
    }
    if (how & 4)
        a.counter = how & 8 ? fuzz_u64(in) : a.counter + fuzz_u8(in) - 8;
    if (how & 16)
        a.credit[how >> 5 & 1] = how & 64 ? fuzz_u64(in) : a.credit[how >> 5 & 1] - fuzz_u8(in);
    if (how & 128) {
        a.ping_number = fuzz_u8(in);
        a.repeats = fuzz_u32(in);
        a.ce_packets = fuzz_u16(in);
    }
    return (uint32_t)uvcci_ack_encode(&a, p);
}

/* A byte of the head of some TLV, or of the batch's. */
static void change_batch(uint8_t *p, uint32_t len, fuzz_in *in) {
    uint8_t which = fuzz_u8(in), where = fuzz_u8(in), value = fuzz_u8(in);
    uint32_t at = UVCC_BLV1_HEADER_BYTES;
    for (uint32_t i = 0; i < which % 8u && at + 4 <= len; i++)
        at += 4 + ((uvcci_ld16(p + at + 2) + 3u) & ~3u);
    if (which & 0x80)
        at = 0;
    at += where % 28;
    if (at < len)
        p[at] ^= value;
}

/* A field, and then perhaps the id that belongs to it. */
static void change_header(const uvcc_session *s, uvcc_frame_header *h, fuzz_in *in) {
    static const uint8_t kinds[] = {
#define UVCC_KIND(name, code, cls, label) code,
#include <uvcc/kinds.def>
#undef UVCC_KIND
    };
    uint8_t how = fuzz_u8(in), v = fuzz_u8(in);
    switch (how % 10) {
    case 0:
        h->kind = kinds[v % sizeof kinds];
        break;
    case 1:
        h->step += (uint32_t)(int32_t)(int8_t)v;
        break;
    case 2:
        h->op_id = (v & 1) != 0 ? fuzz_u32(in) : h->op_id ^ v;
        break;
    case 3:
        h->msg_id ^= 1u << (v & 31);
        break;
    case 4:
        h->chunk_cnt = (uint16_t)(h->chunk_cnt + (v & 15) - 4);
        break;
    case 5:
        h->chunk_idx = (uint16_t)(h->chunk_idx + (v & 15) - 4);
        break;
    case 6:
        h->msg_len = (v & 1) != 0 ? fuzz_u32(in) : h->msg_len + v;
        break;
    case 7:
        h->offset = (v & 1) != 0 ? fuzz_u32(in) : h->offset + v;
        break;
    case 8:
        h->seq += (v & 1) != 0 ? (uint64_t)v << (v >> 4) : (uint64_t)(int64_t)(int8_t)v;
        break;
    default:
        h->sid_tag ^= v;
        break;
    }
    if ((how & 0x80) != 0)
        h->msg_id =
            uvcci_msg_id(h->kind, s->sid_sub, h->op_id, h->src, h->dst, h->chunk_idx, h->chunk_cnt);
}

static void say(world *w, uint8_t from, uint8_t to, const uvcc_frame_header *h,
                const uint8_t *plain, uint32_t len) {
    static uint8_t frame[FRAME_MAX];
    uvcc_link *l = w->at[from].s->peer[to].link;
    if (len > FRAME_MAX - 256)
        return;
    size_t n = reseal_seal(l, *h, plain, len, frame);
    if (n != 0)
        pipe_add(w, from, to, frame, n);
}

/* Instead of, or beside, the frame (h, plain). */
static void tell_lie(world *w, uint8_t from, uint8_t to, uvcc_frame_header h, uint8_t *plain,
                     uint32_t len) {
    fuzz_in *in = lie.in;
    uvcc_session *s = w->at[from].s;
    uint8_t op = fuzz_u8(in), n;
    bool control = uvcc_frame_kind_class(h.kind) == UVCC_CLASS_CONTROL;
    const said *old = lie.kept_count != 0 ? &lie.kept[(op >> 4) % lie.kept_count % KEPT_MAX] : NULL;
    switch (op & 15) {
    case 0:
    case 1:
    case 2:
        if (h.kind == UVCC_FRAME_ACK)
            len = change_ack(w->at[to].s->peer[from].link, plain, len, in);
        else if (!control)
            change_batch(plain, len, in);
        break;
    case 3:
    case 4:
        change_header(s, &h, in);
        break;
    case 5: /* its bytes */
        for (n = (uint8_t)(1 + (op >> 6)); n != 0 && len != 0; n--) {
            uint32_t at = fuzz_u16(in) % len;
            plain[at] ^= fuzz_u8(in);
        }
        break;
    case 6: /* shorter or longer; msg_len goes along, or not */
        n = fuzz_u8(in);
        if (op & 16) {
            memset(plain + len, 0, n);
            len += n;
        } else {
            len -= n < len ? n : len;
        }
        if (op & 32)
            h.msg_len = len;
        break;
    case 7: /* nothing */
        return;
    case 8: /* twice */
        say(w, from, to, &h, plain, len);
        break;
    case 9: /* twice, under another seq */
        say(w, from, to, &h, plain, len);
        if (!control)
            h.seq += 1 + (op >> 4);
        break;
    case 10: /* a BYE in its place */
        if (!control) {
            h.kind = UVCC_FRAME_BYE;
            h.op_id = 0;
            h.msg_len = len = 2;
            h.chunk_cnt = 1;
            h.chunk_idx = 0;
            h.offset = 0;
            h.msg_id = uvcci_msg_id(h.kind, s->sid_sub, 0, from, to, 0, 1);
            uvcci_st16(plain, fuzz_u16(in));
        }
        break;
    case 11: /* another's content under this header */
        if (old != NULL) {
            memcpy(plain, old->plain, old->len);
            len = old->len;
            h.msg_len = (op & 128) != 0 ? old->h.msg_len : h.msg_len;
        }
        break;
    case 12: /* an old one, at this seq or its own */
        if (old != NULL && (uvcc_frame_kind_class(old->h.kind) == UVCC_CLASS_CONTROL) == control) {
            uint64_t seq = h.seq;
            say(w, from, to, &h, plain, len);
            h = old->h;
            h.dst = to;
            h.seq = (op & 128) != 0 ? seq : h.seq;
            memcpy(plain, old->plain, old->len);
            len = old->len;
        }
        break;
    case 13: /* an ACK out of order, behind the frame */
        if (h.kind == UVCC_FRAME_ACK) {
            say(w, from, to, &h, plain, len);
            len = change_ack(w->at[to].s->peer[from].link, plain, len, in);
        }
        break;
    case 14: /* the middle of a message whose beginning never comes */
        if (!control) {
            h.msg_len += 1 + fuzz_u16(in);
            h.offset = fuzz_u8(in);
        }
        break;
    default: /* both parties hear something else */
        if (len != 0)
            plain[len - 1] ^= (uint8_t)(1 + to);
        break;
    }
    say(w, from, to, &h, plain, len);
}

static void alter(world *w, uint8_t from, uint8_t to, const uint8_t *data, size_t len) {
    static uint8_t plain[FRAME_MAX];
    uvcc_link *l = w->at[from].s->peer[to].link;
    if (from != lie.party) {
        pipe_add(w, from, to, data, len);
        return;
    }
    while (len != 0) {
        uvcc_frame_header h;
        const uint8_t *payload;
        ptrdiff_t n = uvcc_frame_decode(data, len, &h, &payload, NULL);
        if (n <= 0) { /* a stream's transmit that ends in a frame */
            pipe_add(w, from, to, data, len);
            return;
        }
        ptrdiff_t got = lie.in->left == 0 ? -1 : reseal_open(l, &h, data, plain);
        if (got >= 0 && lie.reading) {
            lie.skip = fuzz_u8(lie.in);
            lie.reading = false;
        }
        if (got < 0 || lie.skip != 0) {
            lie.skip -= got >= 0;
            pipe_add(w, from, to, data, (size_t)n);
        } else {
            tell_lie(w, from, to, h, plain, (uint32_t)got);
            lie.reading = true;
        }
        if (got >= 0 && got <= KEPT_BYTES && reseal_open(l, &h, data, plain) == got) {
            said *k = &lie.kept[lie.kept_count++ % KEPT_MAX];
            k->h = h;
            k->len = (uint32_t)got;
            memcpy(k->plain, plain, (size_t)got);
        }
        data += n;
        len -= (size_t)n;
    }
}

/* Where nothing waits, nothing is due. */
static void check_deadlines(world *w) {
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_session *s = w->at[i].s;
        for (int n = 0; n < 4 && uvcc_session_next_deadline(s) <= clock_of(w, i); n++) {
            (void)uvcc_session_on_timer(s, clock_of(w, i));
            settle(w);
        }
        FUZZ_CHECK(i == lie.party || uvcc_session_next_deadline(s) > clock_of(w, i));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world w;
    fuzz_in in = {data, size};
    uint8_t how = fuzz_u8(&in), who = fuzz_u8(&in);
    memset(&w, 0, sizeof w);
    memset(&lie, 0, sizeof lie);
    lie.in = &in;
    lie.party = who % 3;
    lie.reading = true;
    w.traitor = true;
    w.alter = alter;
    begin(&w, how & (uint8_t)~2u); /* provisioned: an exchange only costs time */
    settle(&w);
    for (uint32_t n = 0; n < TURNS_MAX && in.left != 0; n++) {
        for (uint8_t i = 0; i < 3; i++)
            ask(&w, i);
        if (!turn(&w))
            advance(&w);
        if ((who & 64) != 0 && n % 16 == 15)
            w.now += 150 * FUZZ_MS; /* caches are trimmed */
        check_deadlines(&w);
    }
    in.left = 0;
    end(&w, false);
    return 0;
}
