/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_dialog.c - a client's dialog with a party over sockets of this machine: either end
 * begins anew, again and again, with messages on the way; strangers who know where to call. */
#include "support.h"

#include <poll.h>
#include <unistd.h>

#include <uvcc/dialog.h>
#include <uvcc/host.h>
#include <uvcc/net.h>

#include "proto/crypto.h"

enum { PARTY = 0, CLIENT = 1, ENDS = 2, LONG = 300000 };
#define MS UINT64_C(1000000)

typedef struct end {
    uvcc_net *net;
    uvcc_dialog *d;
    uvcc_dialog_config cfg;
    test_alloc mem;
    char address[UVCC_NET_ADDRESS_BYTES]; /* where it listens */
    bool open;
    uint8_t id[32];
    size_t got; /* length of the last message, 0: none since it was asked for */
} end;

typedef struct pair {
    end e[ENDS];
    bool datagram;
    char dir[64];
} pair;

static void add_link(pair *w, unsigned i) {
    const bool client = i == CLIENT;
    const uvcc_net_link how = {.size = sizeof how,
                               .me = UVCC_DIALOG_ME(client),
                               .peer = UVCC_DIALOG_PEER(client),
                               .sid_tag = uvcc_dialog_sid_tag(w->e[i].d),
                               .datagram = w->datagram,
                               .address = w->datagram || client ? w->e[1 - i].address : NULL};
    assert_int_equal(uvcc_net_add_link(w->e[i].net, uvcc_dialog_link(w->e[i].d), &how), 0);
}

static void begin(pair *w, unsigned i) {
    w->e[i].open = false;
    assert_int_equal(uvcc_dialog_new(&w->e[i].d, &w->e[i].cfg, uvcc_host_now_ns()), 0);
    add_link(w, i);
}

static void stop(pair *w, unsigned i) {
    assert_int_equal(uvcc_net_remove_link(w->e[i].net, uvcc_dialog_link(w->e[i].d)), 0);
    uvcc_dialog_free(w->e[i].d);
    assert_int_equal(w->e[i].mem.live_bytes, 0);
}

static void open_pair(pair *w, const char *transport) {
    uvcc_net_config cfg;
    uint8_t sk[64];
    memset(w, 0, sizeof *w);
    w->datagram = strcmp(transport, "udp") == 0;
    snprintf(w->dir, sizeof w->dir, "/tmp/uvcc-dialog-XXXXXX");
    assert_non_null(mkdtemp(w->dir));
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.retry_min_ns = cfg.retry_max_ns = MS;
    for (unsigned i = 0; i < ENDS; i++) {
        end *e = &w->e[i];
        uint16_t port = 0;
        assert_int_equal(uvcc_net_new(&e->net, &cfg), 0);
        if (strcmp(transport, "unix") == 0)
            snprintf(e->address, sizeof e->address, "unix:%s/%u", w->dir, i);
        else
            snprintf(e->address, sizeof e->address, "%s:127.0.0.1:0", transport);
        if (i == PARTY || w->datagram) /* nobody calls a client */
            assert_int_equal(uvcc_net_listen(e->net, e->address, NULL, &port), 0);
        if (port != 0)
            snprintf(e->address, sizeof e->address, "%s:127.0.0.1:%u", transport, port);
        uvcc_dialog_config_default(&e->cfg);
        e->cfg.alloc = test_allocator(&e->mem);
        e->cfg.random = uvcc_host_random();
        e->cfg.client = i == CLIENT;
        e->cfg.party = 1;
        e->cfg.datagram = w->datagram;
        e->cfg.repeat_ns = 20 * MS;
        memset(e->cfg.sid_job, 0x61, 32);
        memset(e->cfg.sign_seed, 0x62 + (int)i, 32);
    }
    for (unsigned i = 0; i < ENDS; i++)
        uvcci_sign_keypair(w->e[i].cfg.sign_seed, w->e[1 - i].cfg.peer_key, sk);
    for (unsigned i = 0; i < ENDS; i++)
        begin(w, i);
}

static void close_pair(pair *w) {
    for (unsigned i = 0; i < ENDS; i++) {
        stop(w, i);
        uvcc_net_free(w->e[i].net);
    }
    test_remove_all(w->dir);
}

static void take_events(pair *w, unsigned i) {
    end *e = &w->e[i];
    uvcc_dialog_event v;
    while (uvcc_dialog_poll_event(e->d, &v) == 1) {
        e->open = v.kind == UVCC_DIALOG_OPEN;
        memcpy(e->id, v.id, 32);
        if (v.kind == UVCC_DIALOG_LINK) {
            assert_int_equal(uvcc_net_remove_link(e->net, v.old_link), 0);
            uvcc_link_free(v.old_link);
            add_link(w, i);
        }
    }
}

/* What a host does: sockets, the dialog, messages; then it waits. */
static void turn(pair *w) {
    struct pollfd fds[ENDS];
    int least = 1000;
    for (unsigned i = 0; i < ENDS; i++) {
        end *e = &w->e[i];
        uvcc_dialog_message m;
        assert_true(uvcc_net_turn(e->net) >= 0);
        const uint64_t now = uvcc_host_now_ns();
        assert_int_equal(uvcc_dialog_turn(e->d, now), 0);
        take_events(w, i);
        while (uvcc_dialog_receive(e->d, &m, now) == 1) {
            for (size_t k = 0; k < m.len; k++)
                assert_int_equal(m.data[k], (uint8_t)(k * 3 + m.len));
            e->got = m.len;
            assert_int_equal(uvcc_dialog_release(e->d, &m, now), 0);
        }
    }
    for (unsigned i = 0; i < ENDS; i++) {
        (void)uvcc_net_turn(w->e[i].net); /* what the dialog has to say */
        const int ms = uvcc_net_timeout_ms(w->e[i].net);
        const uint64_t at = uvcc_dialog_deadline(w->e[i].d), now = uvcc_host_now_ns();
        least = ms >= 0 && ms < least ? ms : least;
        if (at <= now)
            least = 0;
        else if (at != UVCC_NEVER && at - now < (uint64_t)least * MS)
            least = (int)((at - now) / MS) + 1;
        fds[i] = (struct pollfd){.fd = uvcc_net_fd(w->e[i].net), .events = POLLIN};
    }
    (void)poll(fds, ENDS, least);
}

static bool both_open(const pair *w) {
    return w->e[0].open && w->e[1].open && memcmp(w->e[0].id, w->e[1].id, 32) == 0;
}

static void until_open(pair *w) {
    const uint64_t end_at = uvcc_host_now_ns() + 100000 * MS;
    while (!both_open(w)) {
        if (w->e[CLIENT].open && uvcc_dialog_drained(w->e[CLIENT].d))
            (void)uvcc_dialog_send(w->e[CLIENT].d, "", 1, uvcc_host_now_ns()); /* so that it asks */
        turn(w);
        assert_true(uvcc_host_now_ns() < end_at);
    }
}

static void send_from(pair *w, unsigned i, size_t len) {
    uint8_t *bytes = malloc(len);
    assert_non_null(bytes);
    for (size_t k = 0; k < len; k++)
        bytes[k] = (uint8_t)(k * 3 + len);
    assert_int_equal(uvcc_dialog_send(w->e[i].d, bytes, len, uvcc_host_now_ns()), 0);
    free(bytes);
}

static void check_message(pair *w, unsigned from, size_t len) {
    const uint64_t end_at = uvcc_host_now_ns() + 100000 * MS;
    w->e[1 - from].got = 0;
    send_from(w, from, len);
    while (w->e[1 - from].got != len) {
        turn(w);
        assert_true(uvcc_host_now_ns() < end_at);
    }
}

/* Messages both ways; then an end begins anew while one of the other's is on the way. */
static void check_transport(const char *transport) {
    pair w;
    open_pair(&w, transport);
    until_open(&w);
    for (unsigned again = 0; again < 3; again++)
        for (unsigned who = 0; who < ENDS; who++) {
            check_message(&w, PARTY, 10);
            check_message(&w, CLIENT, LONG);
            check_message(&w, PARTY, LONG);
            send_from(&w, CLIENT, LONG);
            send_from(&w, PARTY, LONG);
            for (unsigned t = 0; t < again; t++)
                turn(&w);
            stop(&w, who);
            begin(&w, who);
            until_open(&w);
        }
    check_message(&w, CLIENT, 10);
    close_pair(&w);
}

static void test_tcp(void **state) {
    (void)state;
    check_transport("tcp");
}
static void test_unix(void **state) {
    (void)state;
    check_transport("unix");
}
static void test_udp(void **state) {
    (void)state;
    check_transport("udp");
}

/* Who calls with the client's tag and another key takes the connection, if he is first, and no
 * more: the client comes to its dialog. */
static void test_stranger_calls_first(void **state) {
    (void)state;
    pair w;
    open_pair(&w, "tcp");
    end s = {.cfg = w.e[CLIENT].cfg};
    uvcc_net_config cfg;
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.retry_min_ns = cfg.retry_max_ns = MS;
    assert_int_equal(uvcc_net_new(&s.net, &cfg), 0);
    s.cfg.alloc = test_allocator(&s.mem);
    memset(s.cfg.sign_seed, 0x7f, 32);
    assert_int_equal(uvcc_dialog_new(&s.d, &s.cfg, uvcc_host_now_ns()), 0);
    const uvcc_net_link how = {.size = sizeof how,
                               .me = UVCC_DIALOG_ME(true),
                               .peer = UVCC_DIALOG_PEER(true),
                               .sid_tag = uvcc_dialog_sid_tag(w.e[CLIENT].d),
                               .address = w.e[PARTY].address};
    assert_int_equal(uvcc_net_add_link(s.net, uvcc_dialog_link(s.d), &how), 0);
    for (unsigned t = 0; t < 200; t++) {
        assert_true(uvcc_net_turn(s.net) >= 0);
        assert_int_equal(uvcc_dialog_turn(s.d, uvcc_host_now_ns()), 0);
        assert_true(uvcc_net_turn(w.e[PARTY].net) >= 0);
        assert_int_equal(uvcc_dialog_turn(w.e[PARTY].d, uvcc_host_now_ns()), 0);
        assert_int_equal(uvcc_dialog_poll_event(w.e[PARTY].d, &(uvcc_dialog_event){0}), 0);
    }
    until_open(&w);
    check_message(&w, CLIENT, 100);
    assert_int_equal(uvcc_net_remove_link(s.net, uvcc_dialog_link(s.d)), 0);
    uvcc_dialog_free(s.d);
    uvcc_net_free(s.net);
    close_pair(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tcp),
        cmocka_unit_test(test_unix),
        cmocka_unit_test(test_udp),
        cmocka_unit_test(test_stranger_calls_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
