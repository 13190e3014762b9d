/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dialog.c - a client's dialog with a party as a program of inputs, over a network that does
 * what the input says: packets in any order, again, changed (their checksums made whole), and what
 * a stranger makes up; ends that begin anew, clocks that jump, hooks that fail.
 *
 * Checks: who opens a dialog opens one that the other end has proved itself in, and each once; a
 * message is one that the other end sent in this dialog, and comes once; memory is given back; when
 * the network is good at last the two have one dialog and hear each other. */
#include "common.h"

#include "proto/crypto.h"
#include <uvcc/dialog.h>
#include <uvcc/frame.h>

enum { PARTY = 0, CLIENT = 1, PACKETS = 48, PACKET_BYTES = 1500, OPENED_MAX = 256 };
enum { ACTIONS_MAX = 300, MESSAGE_BYTES = 33, CALM_ROUNDS = 4000 };

typedef struct packet {
    uint8_t bytes[PACKET_BYTES];
    size_t len;
    uint8_t to;
} packet;

typedef struct end {
    uvcc_dialog_config cfg;
    uvcc_dialog *d;
    bool open;
    uint8_t id[32];
    uint8_t opened[OPENED_MAX][32]; /* by all that ever were at this end */
    unsigned opened_count;
    uint8_t sent;       /* in this dialog */
    uint64_t heard[4];  /* numbers of messages that came in this dialog */
    uint32_t delivered; /* in this dialog */
} end;

typedef struct world {
    fuzz_mem mem;
    fuzz_rng rng;
    end e[2];
    packet p[PACKETS]; /* a ring: what was sent lately */
    unsigned count;
    uint64_t now;
} world;

/* ---- ends ---- */

static bool fails(const world *w) {
    return w->mem.failed + w->rng.failed != 0;
}

static void begin(world *w, unsigned i) {
    end *e = &w->e[i];
    uvcc_dialog_free(e->d);
    e->d = NULL;
    e->open = false;
    while (uvcc_dialog_new(&e->d, &e->cfg, w->now) != 0)
        FUZZ_CHECK(fails(w));
}

static bool was_opened(const end *e, const uint8_t id[32]) {
    for (unsigned k = 0; k < e->opened_count; k++)
        if (memcmp(e->opened[k], id, 32) == 0)
            return true;
    return false;
}

/* A party opens first: what it opens, this client alone can have asked for. */
static void opened(world *w, unsigned i, const uint8_t id[32]) {
    end *e = &w->e[i];
    FUZZ_CHECK(!was_opened(e, id));
    FUZZ_CHECK(i == PARTY ? !was_opened(&w->e[CLIENT], id) : was_opened(&w->e[PARTY], id));
    FUZZ_CHECK(e->opened_count < OPENED_MAX);
    memcpy(e->opened[e->opened_count++], id, 32);
    memcpy(e->id, id, 32);
    memset(e->heard, 0, sizeof e->heard);
    e->open = true;
    e->sent = 0;
    e->delivered = 0;
}

static void receive(world *w, unsigned i) {
    end *e = &w->e[i];
    uvcc_dialog_message m;
    while (uvcc_dialog_receive(e->d, &m, w->now) == 1) {
        FUZZ_CHECK(e->open && m.len == MESSAGE_BYTES && (uintptr_t)m.data % 64 == 0);
        FUZZ_CHECK(memcmp(m.data, e->id, 32) == 0);
        const uint8_t n = m.data[32];
        FUZZ_CHECK((e->heard[n / 64] >> n % 64 & 1) == 0);
        e->heard[n / 64] |= UINT64_C(1) << n % 64;
        e->delivered++;
        FUZZ_CHECK(uvcc_dialog_release(e->d, &m, w->now) == 0);
        FUZZ_CHECK(uvcc_dialog_release(e->d, &m, w->now) != 0);
    }
}

static void turn(world *w, unsigned i) {
    end *e = &w->e[i];
    uvcc_dialog_event v;
    uvcc_transmit tx;
    FUZZ_CHECK(uvcc_dialog_turn(e->d, w->now) == 0 || fails(w));
    while (uvcc_dialog_poll_event(e->d, &v) == 1)
        if (v.kind == UVCC_DIALOG_OPEN) {
            opened(w, i, v.id);
        } else {
            FUZZ_CHECK(v.kind == UVCC_DIALOG_LINK && v.old_link != NULL);
            uvcc_link_free(v.old_link);
            e->open = false;
        }
    receive(w, i);
    uvcc_link *l = uvcc_dialog_link(e->d);
    if (uvcc_link_next_deadline(l) <= w->now)
        uvcc_link_on_timer(l, w->now);
    for (unsigned n = 0; uvcc_link_poll_transmit(l, &tx, w->now) == 1; n++) {
        packet *p = &w->p[w->count++ % PACKETS];
        FUZZ_CHECK(n < 1000 && tx.total <= PACKET_BYTES);
        p->len = 0;
        p->to = (uint8_t)(1 - i);
        for (uint32_t k = 0; k < tx.slice_count; p->len += tx.slices[k++].len)
            memcpy(p->bytes + p->len, tx.slices[k].data, tx.slices[k].len);
        FUZZ_CHECK(uvcc_link_transmit_done(l, tx.id, p->len, w->now) == 0);
    }
}

static void feed(world *w, unsigned to, const uint8_t *bytes, size_t len) {
    uint8_t *copy = fuzz_copy(bytes, len);
    const int rc = uvcc_link_feed(uvcc_dialog_link(w->e[to].d), copy, len, w->now);
    FUZZ_CHECK(rc == 0 || (rc == UVCC_ERR_NOMEM && fails(w)));
    free(copy);
    turn(w, to);
}

static void say(world *w, unsigned i) {
    end *e = &w->e[i];
    uint8_t m[MESSAGE_BYTES];
    if (e->sent == 255)
        return;
    memcpy(m, e->id, 32);
    m[32] = e->sent;
    const int rc = uvcc_dialog_send(e->d, m, sizeof m, w->now);
    FUZZ_CHECK(rc == (e->open ? 0 : UVCC_ERR_STATE) || fails(w));
    e->sent += rc == 0;
    turn(w, i);
}

/* ---- strangers ---- */

/* Makes the checksum of a packet's first frame good. */
static void make_whole(uint8_t *bytes, size_t len) {
    uvcc_frame_header h;
    if (len < UVCC_FRAME_HEADER_BYTES || uvcc_frame_decode_header(bytes, &h, NULL) != 0 ||
        len - UVCC_FRAME_HEADER_BYTES < h.payload_len)
        return;
    h.crc32 = 0;
    uvcc_frame_encode_header(&h, bytes);
    h.crc32 = uvcc_frame_crc(bytes, bytes + UVCC_FRAME_HEADER_BYTES, h.payload_len);
    uvcc_frame_encode_header(&h, bytes);
}

/* A packet that went over lately: as it was, or with a few bytes changed. */
static void deliver(world *w, fuzz_in *in, bool change) {
    const unsigned kept = w->count < PACKETS ? w->count : PACKETS;
    if (kept == 0)
        return;
    packet p = w->p[(w->count - 1 - fuzz_u8(in) % kept) % PACKETS];
    for (unsigned k = change ? 1 + fuzz_u8(in) % 3u : 0; k > 0; k--)
        p.bytes[fuzz_u16(in) % p.len] ^= (uint8_t)(1u << fuzz_u8(in) % 8);
    if (change)
        make_whole(p.bytes, p.len);
    feed(w, change && (fuzz_u8(in) & 1) != 0 ? 1 - p.to : p.to, p.bytes, p.len);
}

/* A message of the handshake out of the input, of the right length and form or not, in the frame of
 * one that went over. */
static void made_up(world *w, fuzz_in *in) {
    static const uint8_t lens[] = {72, 104, 168, 40};
    const unsigned to = fuzz_u8(in) & 1, kind = fuzz_u8(in) & 3;
    uint8_t m[UVCC_FRAME_HEADER_BYTES + 256] = {0};
    size_t len = lens[kind], got;
    const uint8_t form = fuzz_u8(in);
    if (form & 1)
        len = fuzz_u8(in);
    const uint8_t *bytes = fuzz_take(in, len, &got);
    uint8_t *at = m + UVCC_FRAME_HEADER_BYTES;
    memcpy(at, bytes, got);
    if (form & 2) {
        const uint8_t head[8] = {'U', 'V', 'C', 'D', 1, (uint8_t)kind, w->e[0].cfg.party, 0};
        memcpy(at, head, sizeof head);
        at[7] = kind == 2;
    }
    if (form & 4) /* it has the dialog, it says */
        memcpy(at + 40, w->e[PARTY].id, 32);
    const uvcc_frame_header h = {.kind = UVCC_FRAME_HELLO,
                                 .src = (uint8_t)(1 - to),
                                 .dst = (uint8_t)to,
                                 .sid_tag = uvcc_dialog_sid_tag(w->e[to].d),
                                 .msg_len = (uint32_t)len,
                                 .payload_len = (uint32_t)len,
                                 .chunk_cnt = 1};
    uvcc_frame_encode_header(&h, m);
    make_whole(m, UVCC_FRAME_HEADER_BYTES + len);
    feed(w, to, m, UVCC_FRAME_HEADER_BYTES + len);
}

/* ---- the program ---- */

static void act(world *w, fuzz_in *in) {
    const uint8_t what = fuzz_u8(in);
    const unsigned i = what >> 7;
    switch (what & 15) {
    case 0:
        if (w->e[i].opened_count < OPENED_MAX / 2)
            begin(w, i);
        turn(w, i);
        break;
    case 1:
        made_up(w, in);
        break;
    case 2:
    case 3:
        deliver(w, in, true);
        break;
    case 4:
        w->mem.fail_in = fuzz_u8(in) & 15;
        break;
    case 5:
        w->rng.fail_in = fuzz_u8(in) & 15;
        break;
    case 6:
        w->now += (uint64_t)fuzz_u16(in) * FUZZ_MS;
        turn(w, i);
        break;
    case 7:
    case 8:
        say(w, i);
        break;
    default: {
        const unsigned before = w->count;
        w->now += FUZZ_MS;
        turn(w, 0);
        turn(w, 1);
        if (before != 0 && (what & 1) == 0)
            deliver(w, in, false);
        else if (w->count != 0) { /* the last one: so that handshakes come about */
            const packet p = w->p[(w->count - 1) % PACKETS];
            feed(w, p.to, p.bytes, p.len);
        }
    }
    }
}

static bool agreed(const world *w) {
    const end *a = &w->e[0], *b = &w->e[1];
    return a->open && b->open && memcmp(a->id, b->id, 32) == 0;
}

/* All that is sent arrives from now on. The client asks when it has something to say. */
static void calm(world *w) {
    unsigned first = w->count, round = 0;
    uint32_t delivered[2] = {0, 0};
    bool said = false;
    w->mem.fail_in = w->rng.fail_in = 0;
    w->mem.failed = w->rng.failed = 0;
    for (; round < CALM_ROUNDS; round++) {
        for (unsigned i = 0; i < 2; i++)
            turn(w, i);
        while (first != w->count) {
            if (w->count - first > PACKETS)
                first = w->count - PACKETS;
            const packet p = w->p[first++ % PACKETS];
            feed(w, p.to, p.bytes, p.len);
        }
        if (said && agreed(w) && w->e[0].delivered > delivered[0] &&
            w->e[1].delivered > delivered[1])
            return;
        if (round % 100 == 99) {
            said = agreed(w);
            for (unsigned i = 0; i < 2; i++) {
                delivered[i] = w->e[i].delivered;
                if (w->e[i].open)
                    say(w, i);
            }
        }
        uint64_t next = UVCC_NEVER;
        for (unsigned i = 0; i < 2; i++) {
            const uint64_t at = uvcc_link_next_deadline(uvcc_dialog_link(w->e[i].d));
            const uint64_t ask = uvcc_dialog_deadline(w->e[i].d);
            next = at < next ? at : next;
            next = ask < next ? ask : next;
        }
        const uint64_t soon = w->now + 10 * FUZZ_MS;
        w->now = next > w->now && next < soon ? next : soon;
    }
    FUZZ_CHECK(round < CALM_ROUNDS);
}

static void configure(world *w, uint8_t how) {
    const uvcc_allocator al = fuzz_allocator(&w->mem);
    uint8_t sk[64];
    for (unsigned i = 0; i < 2; i++) {
        uvcc_dialog_config *c = &w->e[i].cfg;
        uvcc_dialog_config_default(c);
        c->alloc = al;
        c->random = fuzz_random(&w->rng);
        c->client = i == CLIENT;
        c->party = how % 3;
        c->datagram = true;
        c->suite = how >> 2 & 1;
        memset(c->sid_job, 0x33, 32);
        memset(c->sign_seed, 0x40 + (int)i, 32);
    }
    for (unsigned i = 0; i < 2; i++)
        uvcci_sign_keypair(w->e[i].cfg.sign_seed, w->e[1 - i].cfg.peer_key, sk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world w;
    fuzz_in in = {data, size};
    memset(&w, 0, sizeof w);
    const uint8_t how = fuzz_u8(&in);
    w.rng.state = fuzz_u8(&in);
    configure(&w, how);
    begin(&w, PARTY);
    begin(&w, CLIENT);
    for (unsigned n = 0; n < ACTIONS_MAX && in.left > 0; n++)
        act(&w, &in);
    calm(&w);
    for (unsigned i = 0; i < 2; i++)
        uvcc_dialog_free(w.e[i].d);
    FUZZ_CHECK(w.mem.live_blocks == 0 && w.mem.live_bytes == 0);
    return 0;
}
