/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of strangers who know the session's tag, and what a host does to a net within its hooks. */
#include "world.h"

#include <sys/socket.h>
#include <unistd.h>

#include <uvcc/demux.h>
#include <uvcc/host.h>

/* ---- strangers ---- */

enum { STRANGERS = 64, TURNS_BETWEEN = 5 };

static int stranger[STRANGERS];
static unsigned strangers, turns;

static void call_in_the_name_of(const world *w, uint8_t from) {
    uint8_t bytes[UVCC_CALL_BYTES];
    const uvcc_call c = {.from = from, .to = 0, .sid_tag = uvcc_session_sid_tag(w->hosts[0][0].s)};
    assert_int_equal(uvcc_call_encode(bytes, &c), 0);
    const int fd = stranger_dial(w, 0);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
    stranger[strangers++] = fd; /* it stays to the end */
}

static bool closed_under_calls(world *w) {
    if (all_closed(w))
        return true;
    if (++turns % TURNS_BETWEEN == 0 && !w->hosts[0][0].closed && strangers < STRANGERS)
        call_in_the_name_of(w, turns / TURNS_BETWEEN % 2 == 0 ? 1 : 2);
    return false;
}

/* They are there first, stay, and call again and again: the parties shake hands and train
 * nevertheless. */
static void test_strangers_call_all_the_time(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, transport_named("tcp"));
    job_mlp(&j, 4);
    world_open(&w);
    world_add(&w, &j);
    strangers = turns = 0;
    for (uint8_t from = 1; from <= 2; from++)
        call_in_the_name_of(&w, from);
    for (uint8_t peer = 1; peer <= 2;) {
        uvcc_net_peer info = {.size = sizeof info};
        assert_true(uvcc_net_turn(w.net[0]) >= 0);
        assert_int_equal(uvcc_net_peer_info(w.net[0], w.hosts[0][0].s, peer, &info), 0);
        peer = (uint8_t)(peer + info.connected); /* the stranger is: nobody else had a turn */
    }
    world_until(&w, closed_under_calls);
    assert_true(strangers > 2);
    world_check(&w);
    world_close(&w);
    job_free(&j);
    for (unsigned i = 0; i < strangers; i++)
        (void)close(stranger[i]);
}

/* A session over TLS is called by TLS alone, whatever else its net listens for without: neither
 * does a stranger hear a byte of it there, nor takes he a place. */
static void test_plain_call_of_a_session_with_tls(void **state) {
    (void)state;
    world w;
    job j;
    uvcc_net_stats stats = {0};
    char byte;
    const char *const name = uvcc_tls_is_here(UVCC_TLS_OPENSSL) ? "openssl" : "mbedtls";
    if (!uvcc_tls_is_here(transport_named(name)->library))
        skip();
    world_init(&w, transport_named(name));
    job_mlp(&j, 4);
    world_open(&w);
    uint16_t port = 0;
    assert_int_equal(uvcc_net_listen(w.net[0], "tcp:127.0.0.1:0", NULL, &port), 0);
    (void)snprintf(w.address[0], sizeof w.address[0], "tcp:127.0.0.1:%u", port);
    world_add(&w, &j);
    strangers = 0;
    call_in_the_name_of(&w, 2);
    for (unsigned i = 0; i < 1000 && stats.refused == 0; i++) {
        assert_true(uvcc_net_wait(w.net[0], uvcc_host_now_ns() + 1000000u) >= 0);
        uvcc_net_get_stats(w.net[0], &stats);
    }
    assert_int_equal(stats.refused, 1);
    assert_int_equal(recv(stranger[0], &byte, 1, MSG_DONTWAIT), 0);
    uvcc_net_refusal last = {.size = sizeof last};
    assert_int_equal(uvcc_net_refused(w.net[0], &last), 0);
    assert_non_null(strstr(last.why, "without TLS"));
    (void)close(stranger[0]);
    world_close(&w);
    job_free(&j);
}

/* ---- peers that are silent ---- */

static void soon_silent(uvcc_config *c) {
    c->links.silence_ns = 200000000u;
}

/* What stands between forwards nothing any more, and answers for the peers: nobody's kernel sees an
 * end. Who dials hears that a peer is silent and calls anew; the first call is in vain too. */
static void test_silent_is_dialled_anew(void **state) {
    (void)state;
    world w;
    job j;
    uvcc_net_stats st[UVCC_PARTIES];
    world_init(&w, transport_named("tcp"));
    w.proxied = true;
    w.net_cfg.idle_ns = 100000000u;
    w.tweak = soon_silent;
    job_mlp(&j, 3);
    w.gate = 1;
    world_open(&w);
    world_add(&w, &j);
    world_until(&w, first_step_done);
    proxy_rule(w.proxy)->swallow = true;
    proxy_swallow_all(w.proxy);
    w.gate = 0;
    do {
        world_turn(&w);
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            uvcc_net_get_stats(w.net[p], &st[p]);
    } while (st[1].dials < 2 || st[2].dials < 4);
    assert_int_equal(st[0].dials, 0);
    proxy_rule(w.proxy)->swallow = false;
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

/* ---- hooks ---- */

static uvcc_net *a_net(void) {
    uvcc_net_config cfg;
    uvcc_net *n = NULL;
    uvcc_net_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    assert_int_equal(uvcc_net_new(&n, &cfg), 0);
    return n;
}

typedef struct adder {
    uvcc_net *n;
    uvcc_link *link[3];
    bool done;
} adder;

static uvcc_link *a_link(void) {
    uvcc_link_config cfg;
    uvcc_link *l = NULL;
    uvcc_link_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.peer = 1;
    assert_int_equal(uvcc_link_new(&l, &cfg), 0);
    return l;
}

static void add_third(void *user, uvcc_link *l, uint64_t now);

static void add(adder *a, unsigned i) {
    const uvcc_net_link how = {
        .size = sizeof how, .peer = 1, .sid_tag = i + 1, .turn = add_third, .user = a};
    a->link[i] = a_link();
    assert_int_equal(uvcc_net_add_link(a->n, a->link[i], &how), 0);
}

static void add_third(void *user, uvcc_link *l, uint64_t now) {
    adder *a = user;
    (void)l;
    (void)now;
    if (!a->done) {
        a->done = true;
        add(a, 2);
    }
}

/* What is added within a hook is there afterwards, and goes again. */
static void test_added_within_a_hook(void **state) {
    (void)state;
    adder a = {.n = a_net()};
    uvcc_net_stats stats;
    add(&a, 0);
    add(&a, 1);
    for (unsigned i = 0; i < 5; i++)
        assert_true(uvcc_net_turn(a.n) >= 0);
    uvcc_net_get_stats(a.n, &stats);
    assert_int_equal(stats.links, 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_net_remove_link(a.n, a.link[i]), 0);
        uvcc_link_free(a.link[i]);
    }
    uvcc_net_free(a.n);
}

static void free_it(void *user, uvcc_link *l, uint64_t now) {
    adder *a = user;
    (void)l;
    (void)now;
    uvcc_net_free(a->n);
    a->done = true;
}

/* A net that a hook frees goes when the turn is over, and calls nobody any more. */
static void test_freed_within_a_hook(void **state) {
    (void)state;
    adder a = {.n = a_net(), .link = {a_link(), a_link()}};
    for (unsigned i = 0; i < 2; i++) {
        const uvcc_net_link how = {
            .size = sizeof how, .peer = 1, .sid_tag = i + 1, .turn = free_it, .user = &a};
        assert_int_equal(uvcc_net_add_link(a.n, a.link[i], &how), 0);
    }
    assert_true(uvcc_net_turn(a.n) >= 0);
    assert_true(a.done);
    for (unsigned i = 0; i < 2; i++)
        uvcc_link_free(a.link[i]);
}

/* One socket for packets of each family: a second would answer from another port. */
static void test_one_socket_for_packets(void **state) {
    (void)state;
    uvcc_net *n = a_net();
    assert_int_equal(uvcc_net_listen(n, "udp:127.0.0.1:0", NULL, NULL), 0);
    assert_int_equal(uvcc_net_listen(n, "udp:127.0.0.1:0", NULL, NULL), UVCC_ERR_STATE);
    uvcc_net_free(n);
}

/* A net that goes takes its socket's file away, and not its successor's. */
static void test_the_successors_file_stays(void **state) {
    (void)state;
    char dir[] = "/tmp/uvcc-calls-XXXXXX", address[64];
    assert_non_null(mkdtemp(dir));
    (void)snprintf(address, sizeof address, "unix:%s/s", dir);
    uvcc_net *first = a_net(), *second = a_net();
    assert_int_equal(uvcc_net_listen(first, address, NULL, NULL), 0);
    assert_int_equal(uvcc_net_listen(second, address, NULL, NULL), UVCC_ERR_STATE);
    assert_int_equal(unlink(address + 5), 0);
    assert_int_equal(uvcc_net_listen(second, address, NULL, NULL), 0);
    uvcc_net_free(first);
    assert_int_equal(access(address + 5, F_OK), 0);
    uvcc_net_free(second);
    assert_int_equal(access(address + 5, F_OK), -1);
    assert_int_equal(rmdir(dir), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strangers_call_all_the_time),
        cmocka_unit_test(test_plain_call_of_a_session_with_tls),
        cmocka_unit_test(test_silent_is_dialled_anew),
        cmocka_unit_test(test_added_within_a_hook),
        cmocka_unit_test(test_freed_within_a_hook),
        cmocka_unit_test(test_one_socket_for_packets),
        cmocka_unit_test(test_the_successors_file_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
