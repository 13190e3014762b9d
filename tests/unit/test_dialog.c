/* SPDX-License-Identifier: Apache-2.0 */
/* A client's dialog with a party: uvcc/dialog.h. Both ends in memory, over uvcc_loopback. */
#include "support.h"

#include <uvcc/dialog.h>
#include <uvcc/host.h>
#include <uvcc/loopback.h>

#include "proto/crypto.h"

enum { PARTY = 0, CLIENT = 1, ENDS = 2 }; /* as nodes of the network, and as parties of links */

typedef struct end {
    uvcc_dialog_config cfg;
    uvcc_dialog *d;
    uint64_t dice;      /* of its random bytes */
    uint8_t script[64]; /* random bytes that come first, 32 at a time */
    unsigned scripted;
    uint32_t dice_fail; /* that many calls from now one fails */
    test_alloc mem;
    unsigned opened, links, warned;
    bool greets; /* sends a message as soon as it is open */
    uint8_t id[32];
} end;

typedef struct pair {
    end e[ENDS];
    uvcc_loopback *net;
    bool up[ENDS];
    bool short_of; /* memory or random bytes: turns may fail */
    /* What goes over the network: `change` may replace it or add to it. */
    void (*change)(struct pair *w, unsigned from, uint8_t *bytes, size_t *len);
} pair;

static int fill(void *user, void *out, size_t n) {
    end *e = user;
    uint64_t *x = &e->dice;
    if (e->dice_fail != 0 && --e->dice_fail == 0)
        return -1;
    if (e->scripted != 0 && n == 32) {
        e->scripted--;
        memcpy(out, e->script + 32 * e->scripted, 32);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        *x = *x * 6364136223846793005u + 1442695040888963407u;
        ((uint8_t *)out)[i] = (uint8_t)(*x >> 56);
    }
    return 0;
}

static void count_warning(void *user, uvcc_log_level level, const char *line) {
    end *e = user;
    (void)line;
    e->warned += level <= UVCC_LOG_WARN;
}

static void make(pair *w, unsigned i) {
    assert_int_equal(uvcc_dialog_new(&w->e[i].d, &w->e[i].cfg, uvcc_loopback_now(w->net)), 0);
}

static void configure(pair *w, bool datagram, uint64_t seed, const uvcc_fault_config *faults) {
    const uvcc_allocator al = uvcc_host_allocator();
    uint8_t pk[ENDS][32], sk[64];
    memset(w, 0, sizeof *w);
    assert_int_equal(uvcc_loopback_new(&w->net, &al, ENDS, datagram, seed), 0);
    assert_int_equal(uvcc_loopback_set_all_faults(w->net, faults), 0);
    for (unsigned i = 0; i < ENDS; i++) {
        end *e = &w->e[i];
        uvcc_dialog_config *c = &e->cfg;
        uvcc_dialog_config_default(c);
        e->dice = seed * 2 + i;
        c->alloc = test_allocator(&e->mem);
        c->random = (uvcc_random){fill, e};
        c->log = (uvcc_logger){count_warning, e};
        c->client = i == CLIENT;
        c->party = 2;
        c->datagram = datagram;
        memset(c->sid_job, 0x51, 32);
        memset(c->sign_seed, 0x70 + (int)i, 32);
        uvcci_sign_keypair(c->sign_seed, pk[i], sk);
    }
    memcpy(w->e[PARTY].cfg.peer_key, pk[CLIENT], 32);
    memcpy(w->e[CLIENT].cfg.peer_key, pk[PARTY], 32);
}

static void open_pair(pair *w, bool datagram, uint64_t seed, const uvcc_fault_config *faults) {
    configure(w, datagram, seed, faults);
    for (unsigned i = 0; i < ENDS; i++)
        make(w, i);
}

static void close_pair(pair *w) {
    for (unsigned i = 0; i < ENDS; i++) {
        uvcc_dialog_free(w->e[i].d);
        assert_int_equal(w->e[i].mem.live_bytes, 0);
    }
    uvcc_loopback_free(w->net);
}

static void events(pair *w, unsigned i) {
    end *e = &w->e[i];
    uvcc_dialog_event v;
    while (uvcc_dialog_poll_event(e->d, &v) == 1) {
        if (v.kind == UVCC_DIALOG_LINK) {
            e->links++;
            uvcc_link_free(v.old_link);
            if (!e->cfg.datagram && w->up[i]) {
                w->up[i] = false; /* a host's net closes the connection, and dials again */
                (void)uvcc_loopback_disconnect(w->net, 0, 1);
            }
        } else {
            e->opened++;
            memcpy(e->id, v.id, 32);
            if (e->greets)
                assert_int_equal(uvcc_dialog_send(e->d, "hello", 5, uvcc_loopback_now(w->net)), 0);
        }
    }
}

static bool send_all(pair *w, unsigned i) {
    uvcc_transmit tx;
    bool any = false;
    uvcc_link *l = uvcc_dialog_link(w->e[i].d);
    const uint64_t now = uvcc_loopback_now(w->net);
    while ((w->up[i] || w->e[i].cfg.datagram) && uvcc_link_poll_transmit(l, &tx, now) == 1) {
        static uint8_t bytes[UVCC_PART_BYTES / 8];
        size_t len = 0;
        for (uint32_t k = 0; k < tx.slice_count; k++) {
            assert_true(len + tx.slices[k].len <= sizeof bytes);
            memcpy(bytes + len, tx.slices[k].data, tx.slices[k].len);
            len += tx.slices[k].len;
        }
        const size_t whole = len;
        if (w->change != NULL)
            w->change(w, i, bytes, &len);
        const uvcc_slice slice = {bytes, len};
        const size_t took = uvcc_loopback_send(w->net, i, 1 - i, &slice, 1);
        any |= took != 0;
        assert_int_equal(uvcc_link_transmit_done(l, tx.id, took == len ? whole : took, now), 0);
        if (took == 0)
            break;
    }
    return any;
}

static void hear(pair *w, const uvcc_loopback_event *v) {
    const uint64_t now = uvcc_loopback_now(w->net);
    uvcc_link *l = uvcc_dialog_link(w->e[v->to].d);
    if (v->kind == UVCC_LOOPBACK_OPENED) {
        w->up[v->to] = true;
        uvcc_link_stream_opened(l, now);
    } else if (v->kind == UVCC_LOOPBACK_CLOSED) {
        if (w->up[v->to])
            uvcc_link_stream_closed(l, now);
        w->up[v->to] = false;
    } else if ((w->up[v->to] || w->e[v->to].cfg.datagram) &&
               uvcc_link_feed(l, v->data, v->len, now) == UVCC_ERR_STREAM_BROKEN)
        (void)uvcc_loopback_disconnect(w->net, 0, 1);
}

/* One turn of both; the clock moves when nothing else does. */
static void turn(pair *w) {
    uvcc_loopback_event v;
    bool any = false;
    while (uvcc_loopback_poll(w->net, &v) == 1) {
        hear(w, &v);
        any = true;
    }
    const uint64_t now = uvcc_loopback_now(w->net);
    uint64_t next = uvcc_loopback_next(w->net);
    for (unsigned i = 0; i < ENDS; i++) {
        end *e = &w->e[i];
        const int rc = uvcc_dialog_turn(e->d, now);
        if (!w->short_of)
            assert_int_equal(rc, 0);
        events(w, i);
        if (now >= uvcc_link_next_deadline(uvcc_dialog_link(e->d)))
            uvcc_link_on_timer(uvcc_dialog_link(e->d), now);
        any |= send_all(w, i);
    }
    for (unsigned i = 0; i < ENDS; i++) {
        const uint64_t link = uvcc_link_next_deadline(uvcc_dialog_link(w->e[i].d));
        const uint64_t dialog = uvcc_dialog_deadline(w->e[i].d);
        next = link < next ? link : next;
        next = dialog < next ? dialog : next;
    }
    if (!any && next != UVCC_NEVER && next > now)
        uvcc_loopback_advance(w->net, next);
}

static bool until_open(pair *w, unsigned times, unsigned turns) {
    while (turns-- != 0 && (w->e[0].opened < times || w->e[1].opened < times))
        turn(w);
    return w->e[0].opened >= times && w->e[1].opened >= times;
}

/* len bytes of a pattern go from one end to the other. */
static void check_message(pair *w, unsigned from, size_t len) {
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    uvcc_dialog_message m = {0};
    unsigned turns = 0;
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251 + from);
    assert_int_equal(uvcc_dialog_send(w->e[from].d, bytes, len, uvcc_loopback_now(w->net)), 0);
    while (uvcc_dialog_receive(w->e[1 - from].d, &m, uvcc_loopback_now(w->net)) != 1) {
        assert_true(turns++ < 200000);
        turn(w);
    }
    assert_int_equal(m.len, len);
    assert_memory_equal(m.data, bytes, len);
    assert_int_equal(uvcc_dialog_release(w->e[1 - from].d, &m, uvcc_loopback_now(w->net)), 0);
    free(bytes);
}

/* ---- it works ---- */

static void test_messages_both_ways(void **state) {
    (void)state;
    static const size_t lens[] = {
        1, 63, 64, 65536, UVCC_CHUNK_BYTES + 1, UVCC_DIALOG_MESSAGE_BYTES};
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (uint8_t suite = 0; suite < 3; suite++) {
            pair w;
            configure(&w, datagram, 3 + suite, NULL);
            w.e[CLIENT].cfg.suite = suite;
            make(&w, PARTY);
            make(&w, CLIENT);
            assert_int_equal(uvcc_dialog_send(w.e[CLIENT].d, "x", 1, 0), UVCC_ERR_STATE);
            assert_true(until_open(&w, 1, 1000));
            assert_memory_equal(w.e[0].id, w.e[1].id, 32);
            for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++)
                for (unsigned from = 0; from < ENDS; from++)
                    check_message(&w, from, lens[i]);
            assert_int_equal(
                uvcc_dialog_send(w.e[CLIENT].d, "x", UVCC_DIALOG_MESSAGE_BYTES + 1u, 0),
                UVCC_ERR_LIMIT);
            assert_int_equal(w.e[0].warned + w.e[1].warned + w.e[0].links + w.e[1].links, 0);
            close_pair(&w);
        }
}

static void test_over_bad_networks(void **state) {
    (void)state;
    const uvcc_fault_config faults[2] = {
        {.split = 0.5, .partial = 0.3, .disconnect = 0.02, .corrupt = 0.01, .stall = 0.05},
        {.drop = 0.2, .duplicate = 0.2, .reorder = 0.3, .corrupt = 0.05, .truncate = 0.05}};
    for (uint64_t seed = 1; seed <= 40; seed++) {
        pair w;
        open_pair(&w, seed % 2 == 0, seed, &faults[seed % 2 == 0]);
        assert_true(until_open(&w, 1, 200000));
        for (unsigned i = 0; i < 6; i++)
            check_message(&w, i % 2, 5000 * (i + 1));
        assert_memory_equal(w.e[0].id, w.e[1].id, 32);
        assert_int_equal(w.e[0].links + w.e[1].links, 0);
        close_pair(&w);
    }
}

/* Each end speaks as soon as it may. */
static void test_greetings(void **state) {
    (void)state;
    const uvcc_fault_config faults[2] = {
        {.split = 0.5, .partial = 0.3, .disconnect = 0.08, .stall = 0.05},
        {.drop = 0.3, .duplicate = 0.2, .reorder = 0.3}};
    for (uint64_t seed = 1; seed <= 120; seed++) {
        pair w;
        unsigned got[ENDS] = {0, 0};
        configure(&w, seed % 2 == 0, seed, &faults[seed % 2 == 0]);
        for (unsigned i = 0; i < ENDS; i++) {
            w.e[i].greets = true;
            make(&w, i);
        }
        /* The stream ends once more just then, and never after: what got lost for one that goes on
         * would never come. */
        for (unsigned t = 0, calm = 0; t < 3000 && got[0] + got[1] != 2; t++) {
            uvcc_dialog_message m;
            turn(&w);
            if (calm++ == 0 && w.e[0].opened + w.e[1].opened != 0) {
                assert_int_equal(uvcc_loopback_set_all_faults(w.net, NULL), 0);
                (void)uvcc_loopback_disconnect(w.net, 0, 1);
            } else if (calm == 1)
                calm = 0;
            for (unsigned i = 0; i < ENDS; i++)
                if (uvcc_dialog_receive(w.e[i].d, &m, uvcc_loopback_now(w.net)) == 1) {
                    assert_int_equal(m.len, 5);
                    (void)uvcc_dialog_release(w.e[i].d, &m, uvcc_loopback_now(w.net));
                    got[i]++;
                }
        }
        assert_int_equal(got[0], 1);
        assert_int_equal(got[1], 1);
        close_pair(&w);
    }
}

/* Whichever call for memory or random bytes fails, at either end, in a first handshake or one that
 * follows: the next turns make up for it. */
static void test_short_of_memory_and_dice(void **state) {
    (void)state;
    for (unsigned what = 0; what < 8; what++)
        for (unsigned at = 1; at <= 40; at++) {
            const unsigned who = what & 1, dice = what >> 1 & 1, again = what >> 2 & 1;
            pair w;
            open_pair(&w, true, 300 + at, NULL);
            if (again) {
                assert_true(until_open(&w, 1, 1000));
                uvcc_dialog_free(w.e[CLIENT].d);
                w.e[0].opened = w.e[1].opened = 0;
                make(&w, CLIENT);
            }
            w.short_of = true;
            if (dice)
                w.e[who].dice_fail = at;
            else
                w.e[who].mem.fail_at = at;
            assert_true(until_open(&w, 1, 4000));
            w.short_of = false;
            w.e[who].dice_fail = 0;
            w.e[who].mem.fail_at = 0;
            assert_memory_equal(w.e[0].id, w.e[1].id, 32);
            check_message(&w, PARTY, 100);
            check_message(&w, CLIENT, 100);
            close_pair(&w);
        }
}

/* Who has proved who it is may still send what no message is: it is dropped, and said once. */
static void test_other_kinds(void **state) {
    (void)state;
    static const uint8_t kinds[] = {UVCC_FRAME_INPUT_BATCH, UVCC_FRAME_STEP, UVCC_FRAME_OPEN_BATCH,
                                    UVCC_FRAME_KEYS_BATCH, UVCC_FRAME_INPUT_BATCH};
    static const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1};
    pair w;
    open_pair(&w, false, 2, NULL);
    assert_true(until_open(&w, 1, 1000));
    for (unsigned i = 0; i < sizeof kinds; i++) {
        uvcc_link *l = uvcc_dialog_link(w.e[CLIENT].d);
        uvcc_link_msg *m;
        const uint32_t len = i == 0 ? 0 : 8;
        assert_int_equal(uvcc_link_msg_new(l, kinds[i], len, &m), 0);
        if (len != 0)
            memset(uvcc_link_msg_data(m), 1, len);
        assert_int_equal(uvcc_link_send(l, m, i == 4, 0, ids, 0, uvcc_loopback_now(w.net)), 0);
    }
    check_message(&w, CLIENT, 77);
    assert_int_equal(w.e[PARTY].warned, 1);
    check_message(&w, PARTY, 77);
    close_pair(&w);
}

/* ---- ends that begin anew ---- */

static void anew(pair *w, unsigned i) {
    uvcc_dialog_free(w->e[i].d);
    if (w->up[0] || w->up[1])
        (void)uvcc_loopback_disconnect(w->net, 0, 1);
    w->up[i] = false;
    w->e[i].opened = 0;
    make(w, i);
}

static void test_ends_that_begin_anew(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (unsigned who = 0; who < ENDS; who++) {
            pair w;
            open_pair(&w, datagram, 20 + who, NULL);
            assert_true(until_open(&w, 1, 1000));
            for (unsigned again = 1; again <= 3; again++) {
                check_message(&w, 0, 100);
                anew(&w, who);
                if (again != 2 && who == PARTY) /* else it finds out when it hears nothing at all */
                    assert_int_equal(
                        uvcc_dialog_send(w.e[CLIENT].d, "x", 1, uvcc_loopback_now(w.net)), 0);
                w.e[1 - who].opened = 0;
                assert_true(until_open(&w, 1, 20000));
                assert_memory_equal(w.e[0].id, w.e[1].id, 32);
                assert_int_equal(w.e[1 - who].links, again);
                check_message(&w, 1, 100);
            }
            close_pair(&w);
        }
}

/* In the middle of a handshake too: after any number of turns. */
static void test_anew_at_any_moment(void **state) {
    (void)state;
    for (unsigned datagram = 0; datagram < 2; datagram++)
        for (unsigned who = 0; who < ENDS; who++)
            for (unsigned turns = 1; turns < 24; turns++) {
                pair w;
                open_pair(&w, datagram, 50 + turns, NULL);
                for (unsigned t = 0; t < turns; t++)
                    turn(&w);
                anew(&w, who);
                w.e[1 - who].opened = 0;
                for (unsigned t = 0; t < 4000; t++) {
                    if (t % 200 == 0) /* it asks when it has something to say */
                        (void)uvcc_dialog_send(w.e[CLIENT].d, "x", 1, uvcc_loopback_now(w.net));
                    turn(&w);
                }
                uvcc_dialog_message m;
                assert_int_equal(uvcc_dialog_receive(w.e[PARTY].d, &m, uvcc_loopback_now(w.net)),
                                 1);
                close_pair(&w);
            }
}

/* ---- others ---- */

static void test_wrong_keys(void **state) {
    (void)state;
    for (unsigned what = 0; what < 5; what++) {
        pair w;
        configure(&w, what % 2 == 0, 7, NULL);
        if (what == 0)
            w.e[CLIENT].cfg.sign_seed[5] ^= 1; /* not whom the party knows */
        if (what == 1)
            w.e[PARTY].cfg.sign_seed[5] ^= 1;
        if (what == 2)
            w.e[CLIENT].cfg.sid_job[0] ^= 1;
        if (what == 3)
            w.e[CLIENT].cfg.party = 1;
        if (what == 4)
            w.e[PARTY].cfg.peer_key[0] ^= 1;
        make(&w, PARTY);
        make(&w, CLIENT);
        assert_false(until_open(&w, 1, 3000));
        assert_int_equal(w.e[PARTY].opened + w.e[CLIENT].opened, 0);
        close_pair(&w);
    }
}

static void flip(pair *w, unsigned from, uint8_t *bytes, size_t *len);
static struct {
    unsigned kind, bit;
    bool done;
} flipped;

/* Flips one bit of the first handshake message of a kind, and makes its frame whole again. */
static void flip(pair *w, unsigned from, uint8_t *bytes, size_t *len) {
    (void)w;
    (void)from;
    uint8_t *m = bytes + UVCC_FRAME_HEADER_BYTES;
    if (flipped.done || *len <= UVCC_FRAME_HEADER_BYTES + 8 || bytes[5] != UVCC_FRAME_HELLO ||
        memcmp(m, "UVCD", 4) != 0 || m[5] != flipped.kind)
        return;
    uvcc_frame_header h;
    if (uvcc_frame_decode_header(bytes, &h, NULL) != 0 || flipped.bit >= 8 * h.payload_len)
        return;
    m[flipped.bit / 8] ^= (uint8_t)(1u << flipped.bit % 8);
    h.crc32 = 0;
    uvcc_frame_encode_header(&h, bytes);
    h.crc32 = uvcc_frame_crc(bytes, m, h.payload_len);
    uvcc_frame_encode_header(&h, bytes);
    flipped.done = true;
}

/* A changed message opens nothing by itself: both agree on the dialog in the end, whatever the bit.
 */
static void test_every_bit(void **state) {
    (void)state;
    static const unsigned bytes[] = {72, 104, 168};
    for (unsigned kind = 0; kind < 3; kind++)
        for (unsigned bit = 0; bit < 8 * bytes[kind]; bit += 3) {
            pair w;
            open_pair(&w, true, 9, NULL);
            flipped.kind = kind;
            flipped.bit = bit;
            flipped.done = false;
            w.change = flip;
            assert_true(until_open(&w, 1, 3000));
            assert_true(flipped.done);
            assert_memory_equal(w.e[0].id, w.e[1].id, 32);
            close_pair(&w);
        }
}

/* ---- vectors ---- */

/* Frames of the handshake as they were sent, by kind; the sealed one by what it is not. */
static struct {
    uint8_t bytes[4][512];
    size_t len[4];
} shaken;
static void note(pair *w, unsigned from, uint8_t *bytes, size_t *len) {
    (void)w;
    if (bytes[5] != UVCC_FRAME_HELLO || *len > sizeof shaken.bytes[0])
        return;
    const bool open = memcmp(bytes + UVCC_FRAME_HEADER_BYTES, "UVCD", 4) == 0;
    const unsigned kind = open ? bytes[UVCC_FRAME_HEADER_BYTES + 5] : 3;
    assert_true(kind < 4 && from == (kind % 2 == 1 ? PARTY : CLIENT));
    memcpy(shaken.bytes[kind], bytes, *len);
    shaken.len[kind] = *len;
}

static void check_shaken(const json_t *c, const char *name, unsigned kind) {
    uint8_t *want;
    const size_t n = test_hex(test_str(c, name), &want);
    assert_int_equal(shaken.len[kind], UVCC_FRAME_HEADER_BYTES + n);
    assert_memory_equal(shaken.bytes[kind] + UVCC_FRAME_HEADER_BYTES, want, n);
    free(want);
}

/* The keys of the link are those of the vector's prk: another link that has it opens the ACCEPT. */
static void check_keys(const json_t *c, pair *w) {
    uint8_t prk[32], got[UVCC_HELLO_MAX_BYTES], *want;
    uvcc_link_config cfg;
    uvcc_link *l;
    bool sealed = false;
    uvcc_link_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = w->e[CLIENT].cfg.random;
    cfg.me = UVCC_DIALOG_ME(true);
    cfg.peer = UVCC_DIALOG_PEER(true);
    cfg.datagram = true;
    cfg.sid_tag = test_hex64(test_str(c, "sid_tag"));
    test_hex_n(test_str(c, "prk"), prk, 32);
    assert_int_equal(uvcc_link_new(&l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(l, 1), 0);
    assert_int_equal(uvcc_link_set_keys(l, (uint8_t)test_u64(c, "suite"), prk), 0);
    assert_int_equal(uvcc_link_feed(l, shaken.bytes[3], shaken.len[3], 0), 0);
    const size_t n = test_hex(test_str(c, "accept"), &want);
    assert_int_equal(uvcc_link_poll_hello(l, got, &sealed), n);
    assert_true(sealed);
    assert_memory_equal(got, want, n);
    free(want);
    uvcc_link_free(l);
}

static void test_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("dialog.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(v, "cases"), i, c) {
        pair w;
        uint8_t id[32];
        configure(&w, true, 1, NULL);
        for (unsigned e = 0; e < ENDS; e++) {
            uvcc_dialog_config *g = &w.e[e].cfg;
            g->party = (uint8_t)test_u64(c, "party");
            test_hex_n(test_str(c, "sid_job"), g->sid_job, 32);
            test_hex_n(test_str(c, e == CLIENT ? "client_seed" : "party_seed"), g->sign_seed, 32);
            test_hex_n(test_str(c, e == CLIENT ? "party_key" : "client_key"), g->peer_key, 32);
        }
        w.e[CLIENT].cfg.suite = (uint8_t)test_u64(c, "suite");
        test_hex_n(test_str(c, "party_ephemeral"), w.e[PARTY].script, 32);
        w.e[PARTY].scripted = 1;
        test_hex_n(test_str(c, "client_ephemeral"), w.e[CLIENT].script, 32);
        test_hex_n(test_str(c, "nonce"), w.e[CLIENT].script + 32, 32);
        w.e[CLIENT].scripted = 2;
        w.change = note;
        memset(&shaken, 0, sizeof shaken);
        make(&w, PARTY);
        make(&w, CLIENT);
        assert_int_equal(uvcc_dialog_sid_tag(w.e[PARTY].d), test_hex64(test_str(c, "sid_tag")));
        assert_int_equal(uvcc_dialog_sid_tag(w.e[CLIENT].d), test_hex64(test_str(c, "sid_tag")));
        assert_true(until_open(&w, 1, 1000));
        check_shaken(c, "call", 0);
        check_shaken(c, "offer", 1);
        check_shaken(c, "proof", 2);
        test_hex_n(test_str(c, "id"), id, 32);
        assert_memory_equal(w.e[PARTY].id, id, 32);
        assert_memory_equal(w.e[CLIENT].id, id, 32);
        check_keys(c, &w);
        close_pair(&w);
    }
    assert_int_equal(i, 2);
    json_decref(v);
}

/* ---- what was said before ---- */

/* Everything that one end ever sent is said again to the other, by somebody else: the two stay with
 * each other, whether the client asks for the party just then or not. */
enum { KEPT = 64 };
static struct {
    uint8_t bytes[KEPT][512];
    size_t len[KEPT];
    unsigned count, from;
} kept;
static void keep(pair *w, unsigned from, uint8_t *bytes, size_t *len) {
    (void)w;
    if (from != kept.from || *len > sizeof kept.bytes[0] || kept.count == KEPT)
        return;
    memcpy(kept.bytes[kept.count], bytes, *len);
    kept.len[kept.count++] = *len;
}
static void test_replays(void **state) {
    (void)state;
    for (unsigned from = 0; from < ENDS; from++)
        for (unsigned asks = 0; asks < 2; asks++) {
            const unsigned to = 1 - from;
            pair w;
            kept.count = 0;
            kept.from = from;
            open_pair(&w, true, 11, NULL);
            w.change = keep;
            assert_true(until_open(&w, 1, 1000));
            anew(&w, CLIENT); /* so there is an old dialog's handshake among them */
            w.e[PARTY].opened = 0;
            assert_true(until_open(&w, 1, 1000));
            w.change = NULL;
            const unsigned links = w.e[PARTY].links;
            (void)uvcc_loopback_cut(w.net, PARTY, CLIENT, asks);
            (void)uvcc_loopback_cut(w.net, CLIENT, PARTY, asks);
            if (asks)
                assert_int_equal(uvcc_dialog_send(w.e[CLIENT].d, "x", 1, uvcc_loopback_now(w.net)),
                                 0);
            for (unsigned t = 0; t < 200; t++)
                turn(&w);
            for (unsigned round = 0; round < 3; round++)
                for (unsigned i = 0; i < kept.count; i++) {
                    (void)uvcc_link_feed(uvcc_dialog_link(w.e[to].d), kept.bytes[i], kept.len[i],
                                         uvcc_loopback_now(w.net));
                    turn(&w);
                }
            (void)uvcc_loopback_cut(w.net, PARTY, CLIENT, false);
            (void)uvcc_loopback_cut(w.net, CLIENT, PARTY, false);
            for (unsigned t = 0; t < 400; t++)
                turn(&w);
            assert_int_equal(w.e[PARTY].links, links);
            assert_int_equal(w.e[CLIENT].links, 0);
            assert_int_equal(w.e[PARTY].opened, 1);
            if (!asks)
                check_message(&w, CLIENT, 1000);
            check_message(&w, PARTY, 1000);
            close_pair(&w);
        }
}

static void test_refusals(void **state) {
    (void)state;
    pair w;
    uvcc_dialog *d = NULL;
    configure(&w, false, 1, NULL);
    uvcc_dialog_config c = w.e[0].cfg;
    c.party = 3;
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    memset(c.sid_job, 0, 32);
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    memset(c.peer_key, 0, 32);
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    memset(c.sign_seed, 0, 32);
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    c.suite = 3;
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    c.repeat_ns = UINT64_C(3600) * 1000000000 + 1;
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_CONFIG);
    c = w.e[0].cfg;
    c.size--;
    assert_int_equal(uvcc_dialog_new(&d, &c, 0), UVCC_ERR_USAGE);
    uvcc_loopback_free(w.net);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_both_ways),
        cmocka_unit_test(test_over_bad_networks),
        cmocka_unit_test(test_greetings),
        cmocka_unit_test(test_short_of_memory_and_dice),
        cmocka_unit_test(test_other_kinds),
        cmocka_unit_test(test_ends_that_begin_anew),
        cmocka_unit_test(test_anew_at_any_moment),
        cmocka_unit_test(test_wrong_keys),
        cmocka_unit_test(test_every_bit),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_replays),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
