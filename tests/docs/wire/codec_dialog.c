/* SPDX-License-Identifier: Apache-2.0 */
/* codec_dialog.c - listings of a client's dialog with a party. Two dialogs shake hands over links
 * that stand face to face until the wanted message is on its way; the listing's bytes then go to
 * the other end in its place, and both must come to an open dialog. */
#include "listing.h"

#include "proto/crypto.h"
#include <uvcc/dialog.h>
#include <uvcc/frame.h>

enum { CALL = 0, OFFER = 1, PROOF = 2, ACCEPT = 3, ROUNDS = 8, PACKET_BYTES = 1500 };
enum { PARTY = 0, CLIENT = 1 };

static const char *const names[] = {"CALL", "OFFER", "PROOF", "ACCEPT"};

/* The random bytes of an end: those of the listing first, the last one first. */
typedef struct dice {
    uint8_t bytes[2][32];
    unsigned left;
    uint64_t state;
} dice;

typedef struct talk {
    unsigned kind;
    test_alloc mem[2];
    dice dice[2];
    uvcc_dialog_config cfg[2];
    uvcc_dialog *d[2];
    uint8_t id[2][32];
    unsigned opened[2];
    bool seen; /* the wanted message went over */
} talk;

static int fill(void *user, void *out, size_t n) {
    dice *x = user;
    if (x->left != 0 && n == 32)
        memcpy(out, x->bytes[--x->left], 32);
    else
        test_rand_bytes(&x->state, out, n);
    return 0;
}

/* ---- values ---- */

static void random_value(listing *l, const char *name, dice *x) {
    value_exactly(l, name, x->bytes[x->left++], 32);
}

/* What no byte of a message hangs on is not in its listing. */
static void values(listing *l, talk *w) {
    const char *word = value_word(l, "message");
    w->kind = 0;
    while (w->kind < 4 && strcmp(names[w->kind], word) != 0)
        w->kind++;
    listing_must(l, w->kind < 4, "CALL, OFFER, PROOF or ACCEPT");
    const uint8_t party = (uint8_t)value_number(l, "party", 2);
    for (unsigned i = 0; i < 2; i++) {
        uvcc_dialog_config *c = &w->cfg[i];
        uvcc_dialog_config_default(c);
        c->alloc = test_allocator(&w->mem[i]);
        w->dice[i].state = i;
        c->random = (uvcc_random){fill, &w->dice[i]};
        c->client = i == CLIENT;
        c->party = party;
        c->datagram = true;
        memset(c->sid_job, 1, 32);
        memset(c->sign_seed, 2 + (int)i, 32);
    }
    if (w->kind >= OFFER && w->kind < 4) {
        value_exactly(l, "sid_job", w->cfg[PARTY].sid_job, 32);
        memcpy(w->cfg[CLIENT].sid_job, w->cfg[PARTY].sid_job, 32);
        value_exactly(l, "client_seed", w->cfg[CLIENT].sign_seed, 32);
        value_exactly(l, "party_seed", w->cfg[PARTY].sign_seed, 32);
        random_value(l, "party_ephemeral", &w->dice[PARTY]);
    }
    if (w->kind == PROOF || w->kind == ACCEPT) {
        w->cfg[CLIENT].suite = (uint8_t)value_number(l, "suite", 2);
        random_value(l, "client_ephemeral", &w->dice[CLIENT]);
    }
    random_value(l, "nonce", &w->dice[CLIENT]);
    uint8_t sk[64];
    for (unsigned i = 0; i < 2; i++)
        uvcci_sign_keypair(w->cfg[i].sign_seed, w->cfg[1 - i].peer_key, sk);
}

/* ---- the handshake ---- */

static void frame_again(uint8_t *packet, const uint8_t *payload, size_t len) {
    uvcc_frame_header h;
    memcpy(packet + UVCC_FRAME_HEADER_BYTES, payload, len);
    assert_int_equal(uvcc_frame_decode_header(packet, &h, NULL), 0);
    h.crc32 = 0;
    uvcc_frame_encode_header(&h, packet);
    h.crc32 = uvcc_frame_crc(packet, payload, h.payload_len);
    uvcc_frame_encode_header(&h, packet);
}

/* A packet on its way: if it is what the listing is of, its bytes are made, and the listing's take
 * their place. ACCEPT is sealed: made is what it opens to. */
static void on_its_way(listing *l, talk *w, uint8_t *packet, size_t len) {
    uint8_t *m = packet + UVCC_FRAME_HEADER_BYTES;
    const listing_block *b = &l->block[LISTING_BYTES];
    if (packet[5] != UVCC_FRAME_HELLO || w->seen || w->kind == ACCEPT ||
        memcmp(m, "UVCD", 4) != 0 || m[5] != w->kind)
        return;
    w->seen = true;
    listing_made(l, LISTING_BYTES, m, len - UVCC_FRAME_HEADER_BYTES);
    if (listing_good(l) && b->len == len - UVCC_FRAME_HEADER_BYTES)
        frame_again(packet, b->bytes, b->len);
}

static void send_all(listing *l, talk *w, unsigned from, uint64_t now) {
    uvcc_transmit tx;
    uvcc_link *a = uvcc_dialog_link(w->d[from]);
    while (uvcc_link_poll_transmit(a, &tx, now) == 1) {
        uint8_t packet[PACKET_BYTES];
        size_t len = 0;
        for (uint32_t k = 0; k < tx.slice_count; k++) {
            assert_true(len + tx.slices[k].len <= sizeof packet);
            memcpy(packet + len, tx.slices[k].data, tx.slices[k].len);
            len += tx.slices[k].len;
        }
        assert_int_equal(uvcc_link_transmit_done(a, tx.id, len, now), 0);
        on_its_way(l, w, packet, len);
        assert_int_equal(uvcc_link_feed(uvcc_dialog_link(w->d[1 - from]), packet, len, now), 0);
    }
}

static void shake(listing *l, talk *w) {
    for (unsigned i = 0; i < 2; i++)
        listing_must(l, uvcc_dialog_new(&w->d[i], &w->cfg[i], 0) == 0, "no dialog is so");
    for (unsigned t = 0; t < ROUNDS && listing_good(l); t++)
        for (unsigned i = 0; i < 2; i++) {
            uvcc_dialog_event e;
            assert_int_equal(uvcc_dialog_turn(w->d[i], t), 0);
            while (uvcc_dialog_poll_event(w->d[i], &e) == 1) {
                w->opened[i]++;
                memcpy(w->id[i], e.id, 32);
            }
            send_all(l, w, i, t);
        }
    listing_must(l, w->opened[0] == 1 && w->opened[1] == 1 && memcmp(w->id[0], w->id[1], 32) == 0,
                 "the two do not come to a dialog");
}

/* ---- fields ---- */

static void fields(listing *l, const talk *w) {
    const uint8_t suite = field_peek(l, 8)[7];
    field_text(l, "magic", "UVCD", 4);
    field_number(l, "version", 1, 1, "");
    field_number(l, "kind", 1, w->kind, names[w->kind]);
    field_number(l, "party", 1, w->cfg[PARTY].party, "");
    field_number(l, "suite", 1, suite, "");
    if (w->kind == CALL || w->kind == PROOF) {
        field_bytes(l, "nonce", field_peek(l, 32), 32, "");
        field_bytes(l, "known", field_peek(l, 32), 32, "");
    }
    if (w->kind == ACCEPT)
        field_bytes(l, "id", field_peek(l, 32), 32, "");
    if (w->kind == OFFER || w->kind == PROOF) {
        field_bytes(l, "ephemeral", field_peek(l, 32), 32, "");
        field_bytes(l, "signature", field_peek(l, 64), 64, "");
    }
}

void codec_dialog(listing *l, listing_seen *seen) {
    static talk w;
    memset(&w, 0, sizeof w);
    values(l, &w);
    if (listing_good(l))
        shake(l, &w);
    if (listing_good(l) && w.kind == ACCEPT) {
        uint8_t m[40] = {'U', 'V', 'C', 'D', 1, ACCEPT, w.cfg[PARTY].party};
        memcpy(m + 8, w.id[CLIENT], 32); /* the client opened at no other */
        listing_made(l, LISTING_BYTES, m, sizeof m);
    }
    if (listing_good(l)) {
        fields(l, &w);
        snprintf(l->subject, sizeof l->subject, "%s", names[w.kind]);
        seen->dialog[w.kind] = true;
    }
    for (unsigned i = 0; i < 2; i++) {
        uvcc_dialog_free(w.d[i]);
        assert_int_equal(w.mem[i].live_bytes, 0);
    }
}
