/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that agree on keys, by X25519 and from provisioned secrets: complete ones, wrong and
 * hostile peers, restarts. */
#include "triangle.h"

#include <uvcc/frame.h>

enum { OUT = 7, ROWS = 3, STATE_ELEMS = ROWS * ROWS };
#define SECOND 1000000000ull

/* A persistent matrix is opened. */
static uvcc_program *program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uvcc_tensor_desc d = {.name = "W",
                          .rows = ROWS,
                          .cols = ROWS,
                          .bits = 20,
                          .scale = 0,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int w = uvcc_program_tensor(p, &d);
    assert_true(w >= 0);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_output(p, OUT, (uint32_t)w) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* ---- three parties whose network is the test's ---- */

/* Not a triangle: parties end and begin anew while the others go on, and every packet can be kept,
 * changed or sent again. */

typedef struct world world;
/* May change the packet (its CRC is set afterwards); false drops it. */
typedef bool (*hook)(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len);

enum { PACKETS_MAX = 20000, PACKET_BYTES = 1300, KIND_AT = 5, FLAGS_AT = 7 };
typedef struct packet {
    uint64_t at;
    uint8_t from, to;
    uint16_t len;
    uint8_t bytes[PACKET_BYTES];
} packet;

struct world {
    test_alloc mem;
    uvcc_program *p;
    uvcc_config cfg[3];
    uvcc_session *s[3];
    uvcc_cpu *cpu[3];
    uvcc_seeded_random rnd[3];
    unsigned born; /* sessions made: every one draws other random bytes */
    uint64_t now;
    packet *packet; /* those that were sent */
    unsigned sent, next;
    hook hook;
    bool follow; /* a party that hears of a peer's restart begins anew */
    bool ready[3];
    uint16_t aborted[3];
    uint8_t aborted_by[3];
    bool closed[3];
    const char *text[3];
    unsigned mismatches[3][3]; /* events MISMATCH, and what the last one named */
    const char *mismatch[3][3];
    unsigned warnings[3];     /* lines of the log */
    unsigned restarted[3][3]; /* events PEER_RESTARTED, by party and peer */
};

static void identity_key(const uint8_t seed[32], uint8_t pk[32]) {
    test_alloc mem = {0};
    uint64_t random = 1;
    uvcc_config c = triangle_config_alone(&mem, &random);
    uvcc_session *s;
    memcpy(c.identity.sign_seed, seed, 32);
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    memcpy(pk, uvcc_session_public_key(s), 32);
    uvcc_session_free(s);
}

static void keys_of(uvcc_config *c) {
    c->identity.exchange_x25519 = true;
    memset(c->identity.sign_seed, 0x40 + c->identity.party, 32);
    for (uint8_t q = 0; q < 3; q++) {
        uint8_t seed[32];
        memset(seed, 0x40 + q, 32);
        identity_key(seed, c->identity.peer_sign_key[q]);
    }
    memset(c->identity.peer_sign_key[c->identity.party], 0, 32);
}

static void count_warning(void *user, uvcc_log_level level, const char *line) {
    unsigned *warnings = user;
    *warnings += level <= UVCC_LOG_WARN && strstr(line, "HELLO") != NULL;
}

static void world_make(world *w) {
    memset(w, 0, sizeof *w);
    w->packet = calloc(PACKETS_MAX, sizeof *w->packet);
    assert_non_null(w->packet);
    w->p = program(&w->mem);
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_config *c = &w->cfg[i];
        assert_int_equal(uvcc_config_default(c, sizeof *c), 0);
        c->alloc = test_allocator(&w->mem);
        c->identity.party = i;
        c->links.datagram = true;
        c->log = (uvcc_logger){.write = count_warning, .user = &w->warnings[i]};
        memset(c->identity.sid_job, 5, 32);
        for (uint8_t q = 0; q < 3; q++)
            memset(c->identity.pair_secret[q], 0x11 * (i + q), 32);
        keys_of(c);
        uvcc_cpu_config x = {.size = sizeof x, .alloc = c->alloc, .mode = UVCC_CPU_INLINE};
        assert_int_equal(uvcc_cpu_new(&w->cpu[i], &x), 0);
    }
}

/* A new session of party i, in the place of the one that was there. */
static void begin(world *w, uint8_t i) {
    uvcc_session_free(w->s[i]);
    w->ready[i] = false;
    uvcc_config *c = &w->cfg[i];
    c->random = uvcc_seeded(&w->rnd[i], 1000, w->born++);
    assert_int_equal(uvcc_session_new(&w->s[i], c), 0);
    assert_int_equal(uvcc_session_load_program(w->s[i], w->p), 0);
    static const int64_t v[STATE_ELEMS] = {1, -2, 3, -4, 5, -6, 7, -8, 9};
    assert_int_equal(uvcc_session_set_public(w->s[i], 0, v), 0);
    assert_int_equal(uvcc_session_start(w->s[i], w->now), 0);
}

static void world_open(world *w) {
    for (uint8_t i = 0; i < 3; i++)
        begin(w, i);
}

static void world_free(world *w) {
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_free(w->s[i]);
        uvcc_cpu_free(w->cpu[i]);
    }
    uvcc_program_free(w->p);
    free(w->packet);
    assert_int_equal(w->mem.live_blocks, 0);
}

static void fix_crc(uint8_t *bytes, size_t len) {
    uint32_t crc = uvcc_frame_crc(bytes, bytes + 64, len - 64);
    for (unsigned i = 0; i < 4; i++)
        bytes[60 + i] = (uint8_t)(crc >> (8 * i));
}

/* Fresh random bytes and, as a host does it, a run of its own. */
static void renew(world *w, uint8_t i) {
    uvcc_session_stats st;
    uvcc_session_get_stats(w->s[i], &st);
    if (w->ready[i])
        w->cfg[i].resume.next_run = st.run + 1;
    begin(w, i);
}

static void serve(world *w, uint8_t i) {
    const uvcc_job *job;
    uvcc_completion done;
    uvcc_event e;
    uvcc_transmit t;
    while (uvcc_session_poll_job(w->s[i], &job) == 1) {
        assert_int_equal(uvcc_cpu_submit(w->cpu[i], job), 0);
        while (uvcc_cpu_poll(w->cpu[i], &done) == 1)
            assert_int_equal(uvcc_session_complete(w->s[i], &done, w->now), 0);
    }
    bool again = false;
    while (uvcc_session_poll_event(w->s[i], &e) == 1) {
        if (e.kind == UVCC_EVENT_READY)
            w->ready[i] = true;
        if (e.kind == UVCC_EVENT_ABORTED) {
            w->aborted[i] = e.reason;
            w->aborted_by[i] = e.peer;
            w->text[i] = e.text;
        }
        w->closed[i] |= e.kind == UVCC_EVENT_CLOSED;
        if (e.kind == UVCC_EVENT_MISMATCH) {
            w->mismatches[i][e.peer]++;
            w->mismatch[i][e.peer] = e.text;
        }
        if (e.kind == UVCC_EVENT_PEER_RESTARTED) {
            w->restarted[i][e.peer]++;
            again = w->follow;
        }
    }
    if (again)
        renew(w, i);
    while (uvcc_session_poll_transmit(w->s[i], &t, w->now) == 1) {
        assert_true(t.total <= PACKET_BYTES && w->sent < PACKETS_MAX);
        packet *p = &w->packet[w->sent++];
        *p = (packet){.at = w->now + 1000, .from = i, .to = t.peer};
        for (uint32_t k = 0; k < t.slice_count; k++) {
            memcpy(p->bytes + p->len, t.slices[k].data, t.slices[k].len);
            p->len = (uint16_t)(p->len + t.slices[k].len);
        }
        assert_int_equal(uvcc_session_transmit_done(w->s[i], t.peer, t.id, t.total, w->now), 0);
        if (w->hook != NULL) {
            if (!w->hook(w, p->from, p->to, p->bytes, p->len))
                w->sent--;
            else if (p->bytes[5] == UVCC_FRAME_HELLO)
                fix_crc(p->bytes, p->len);
        }
    }
}

static void deliver(world *w, uint8_t from, uint8_t to, const uint8_t *bytes, size_t len) {
    if (w->s[to] != NULL)
        assert_int_equal(uvcc_session_feed(w->s[to], from, bytes, len, w->now), 0);
}

static bool all_ready(const world *w) {
    return w->ready[0] && w->ready[1] && w->ready[2];
}

/* One moment of the world: what is due at the next time at which anything is. */
static void turn(world *w) {
    uint64_t at = UVCC_NEVER;
    for (uint8_t i = 0; i < 3; i++) {
        if (w->s[i] == NULL)
            continue;
        serve(w, i);
        uint64_t due = uvcc_session_next_deadline(w->s[i]);
        at = due < at ? due : at;
    }
    if (w->next < w->sent && w->packet[w->next].at < at)
        at = w->packet[w->next].at;
    assert_true(at != UVCC_NEVER);
    w->now = at > w->now ? at : w->now;
    for (; w->next < w->sent && w->packet[w->next].at <= w->now; w->next++) {
        const packet *p = &w->packet[w->next];
        deliver(w, p->from, p->to, p->bytes, p->len);
    }
    for (uint8_t i = 0; i < 3; i++)
        if (w->s[i] != NULL && uvcc_session_next_deadline(w->s[i]) <= w->now)
            assert_int_equal(uvcc_session_on_timer(w->s[i], w->now), 0);
}

/* True once all are ready, false when `until` came first. */
static bool drive(world *w, uint64_t until) {
    while (w->now < until && !all_ready(w))
        turn(w);
    return all_ready(w);
}

static uint32_t run_of(const world *w, unsigned i) {
    uvcc_session_stats st;
    uvcc_session_get_stats(w->s[i], &st);
    return st.run;
}

/* A step works, so the keys are the same. */
static void works(world *w) {
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(w->aborted[i], 0);
        assert_int_equal(run_of(w, i), run_of(w, 0));
        assert_int_equal(uvcc_session_step(w->s[i], 0, 0, w->now), 0);
    }
    uint64_t until = w->now + 10 * SECOND;
    for (unsigned i = 0; i < 3; i++) {
        const int64_t *v;
        while ((v = uvcc_session_output(w->s[i], 0, OUT)) == NULL) {
            assert_true(w->now < until);
            turn(w);
        }
        assert_int_equal(v[8], 9);
    }
}

/* ---- complete ---- */

static void tweak_x(uvcc_config *c) {
    keys_of(c);
}
static void tweak_zero_secrets(uvcc_config *c) {
    keys_of(c);
    memset(c->identity.pair_secret, 0, sizeof c->identity.pair_secret);
}

static void completes(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    static const int64_t v[STATE_ELEMS] = {1, -2, 3, -4, 5, -6, 7, -8, 9};
    for (unsigned i = 0; i < 24; i++) {
        triangle t;
        triangle_options opt = {.seed = i,
                                .datagram = i % 2 != 0,
                                .suites = (uint8_t)(1 + i / 2 % 3),
                                .tweak = i % 4 < 2 ? tweak_x : tweak_zero_secrets,
                                .faulty = i >= 6,
                                .faults = {.drop = 0.2,
                                           .duplicate = 0.2,
                                           .reorder = 0.2,
                                           .corrupt = i % 2 != 0 ? 0.1 : 0,
                                           .split = 0.5,
                                           .coalesce = 0.3,
                                           .partial = 0.3,
                                           .disconnect = 0.02}};
        triangle_make(&t, p, &opt);
        triangle_set_public(&t, 0, v);
        triangle_start(&t);
        triangle_ready(&t);
        if (!opt.faulty) /* no HELLO had to wait for a timer */
            assert_true(uvcc_loopback_now(t.net) < 100000000u);
        triangle_agree(&t, 0, 0);
        triangle_finish(&t, 1);
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(uvcc_session_output(t.s[k], 0, OUT)[1], -2);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    (void)level;
    memcpy(user, line, strlen(line) + 1);
}

static void tweak_kem(uvcc_config *c) {
    c->identity.kem = UVCC_KEM_X25519;
}
static void tweak_x_kem(uvcc_config *c) {
    keys_of(c);
    c->identity.kem = UVCC_KEM_X25519;
}

/* With a second key agreement, in both exchanges, over good and bad networks. */
static void completes_with_a_kem(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = program(&mem);
    static const int64_t v[STATE_ELEMS] = {1, -2, 3, -4, 5, -6, 7, -8, 9};
    for (unsigned i = 0; i < 16; i++) {
        triangle t;
        triangle_options opt = {.seed = i,
                                .datagram = i % 2 != 0,
                                .tweak = i % 4 < 2 ? tweak_kem : tweak_x_kem,
                                .faulty = i >= 6,
                                .faults = {.drop = 0.2,
                                           .duplicate = 0.2,
                                           .reorder = 0.2,
                                           .split = 0.5,
                                           .coalesce = 0.3,
                                           .partial = 0.3}};
        triangle_make(&t, p, &opt);
        triangle_set_public(&t, 0, v);
        triangle_start(&t);
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_finish(&t, 1);
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(uvcc_session_output(t.s[k], 0, OUT)[1], -2);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* What a host forgot is refused by its name, before anything is loaded or sent. */
static void refuses_configs(void **state) {
    (void)state;
    world w;
    world_make(&w);
    uint64_t random = 1;
    uvcc_config c;
    uvcc_session *s;
    static const char *const named[] = {"sid_job is zero", /* 0 and 1: exchanged and provisioned */
                                        "sid_job is zero",
                                        "sign_seed is zero",
                                        "sign_seed is zero",
                                        "peer_sign_key of a peer is zero",
                                        "peer_sign_key of a peer is zero",
                                        "peer_sign_key of two parties is the same",
                                        "peer_sign_key of two parties is the same",
                                        "pair_secret of a peer is zero",
                                        "pair_secret of a peer is zero",
                                        "pair_secret of both peers is the same"};
    for (unsigned i = 0; i < sizeof named / sizeof named[0]; i++) {
        char last[256] = "";
        c = w.cfg[1];
        c.random = test_random(&random);
        c.log = (uvcc_logger){.write = keep_line, .user = last};
        c.identity.exchange_x25519 = i != 1 && i != 3 && i < 8;
        if (i < 2)
            memset(c.identity.sid_job, 0, 32);
        else if (i < 4)
            memset(c.identity.sign_seed, 0, 32);
        else if (i < 6)
            memset(c.identity.peer_sign_key[i == 4 ? 0 : 2], 0, 32);
        else if (i == 6)
            memcpy(c.identity.peer_sign_key[0], c.identity.peer_sign_key[2], 32);
        else if (i == 7)
            identity_key(c.identity.sign_seed, c.identity.peer_sign_key[2]);
        else if (i < 10)
            memset(c.identity.pair_secret[i == 8 ? 0 : 2], 0, 32);
        else
            memcpy(c.identity.pair_secret[0], c.identity.pair_secret[2], 32);
        assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
        assert_non_null(strstr(last, named[i]));
    }
    /* What is not used may be anything: with provisioned secrets the peers' keys and, without
     * audit, our own; with exchanged ones the secrets. */
    for (unsigned i = 0; i < 2; i++) {
        c = w.cfg[1];
        c.random = test_random(&random);
        c.identity.exchange_x25519 = i == 1;
        if (i == 0) {
            c.checks.audit_off = true;
            memset(c.identity.sign_seed, 0, 32);
            memset(c.identity.peer_sign_key, 0, sizeof c.identity.peer_sign_key);
        } else {
            memset(c.identity.pair_secret, 0, sizeof c.identity.pair_secret);
        }
        assert_int_equal(uvcc_session_new(&s, &c), 0);
        uvcc_session_free(s);
    }
    world_free(&w);
}

/* ---- wrong peers ---- */

static void never_ready(world *w, unsigned a, unsigned b) {
    assert_false(drive(w, w->now + 60 * SECOND));
    assert_false(w->ready[a] || w->ready[b]);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(w->aborted[i], 0);
}

/* Party i was told of q, once, and of the field alone. */
static void told(const world *w, unsigned i, unsigned q, const char *field) {
    assert_int_equal(w->mismatches[i][q], 1);
    assert_string_equal(w->mismatch[i][q], field);
    assert_true(w->warnings[i] >= 1);
}

static void wrong_secret(void **state) {
    (void)state;
    world w;
    world_make(&w);
    for (unsigned i = 0; i < 3; i++)
        w.cfg[i].identity.exchange_x25519 = false;
    memset(w.cfg[2].identity.pair_secret[1], 0x77, 32);
    world_open(&w);
    never_ready(&w, 1, 2);
    told(&w, 1, 2, "pair_secret");
    told(&w, 2, 1, "pair_secret");
    assert_int_equal(w.mismatches[0][1] + w.mismatches[0][2], 0);
    memset(w.cfg[2].identity.pair_secret[1], 0x33, 32);
    begin(&w, 2);
    w.follow = true; /* P0, that was ready, hears of it */
    assert_true(drive(&w, w.now + 60 * SECOND));
    works(&w);
    world_free(&w);
}

static void wrong_identity(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        world w;
        world_make(&w);
        uint8_t swap[32];
        if (i == 0) { /* P0 expects somebody else in P1's place */
            memset(swap, 0x99, 32);
            identity_key(swap, w.cfg[0].identity.peer_sign_key[1]);
        } else if (i == 1) { /* P1 is somebody else */
            memset(w.cfg[1].identity.sign_seed, 0x99, 32);
        } else { /* P0 takes its peers for each other */
            memcpy(swap, w.cfg[0].identity.peer_sign_key[1], 32);
            memcpy(w.cfg[0].identity.peer_sign_key[1], w.cfg[0].identity.peer_sign_key[2], 32);
            memcpy(w.cfg[0].identity.peer_sign_key[2], swap, 32);
        }
        world_open(&w);
        never_ready(&w, 0, 1);
        told(&w, 0, 1, "identity");
        world_free(&w);
    }
}

static void mixed_exchanges(void **state) {
    (void)state;
    world w;
    world_make(&w);
    w.cfg[1].identity.exchange_x25519 = false;
    world_open(&w);
    never_ready(&w, 0, 1);
    assert_false(w.ready[2]);
    for (unsigned i = 0; i < 3; i += 2) {
        told(&w, i, 1, "key exchange");
        told(&w, 1, i, "key exchange");
    }
    assert_int_equal(w.mismatches[0][2] + w.mismatches[2][0], 0);
    /* Its host mends it: nobody else has to do anything. */
    w.cfg[1].identity.exchange_x25519 = true;
    begin(&w, 1);
    assert_true(drive(&w, w.now + 60 * SECOND));
    works(&w);
    world_free(&w);
}

static void kem_is_named(void **state) {
    (void)state;
    world w;
    world_make(&w);
    w.cfg[1].identity.kem = UVCC_KEM_X25519;
    world_open(&w);
    never_ready(&w, 0, 1);
    for (unsigned i = 0; i < 3; i += 2) {
        told(&w, i, 1, "kem");
        told(&w, 1, i, "kem");
    }
    char last[256] = "";
    uint64_t random = 1;
    uvcc_session *s;
    uvcc_config c = w.cfg[0];
    c.random = test_random(&random);
    c.log = (uvcc_logger){.write = keep_line, .user = last};
    for (unsigned i = 0; i < 2; i++) {
        c.identity.kem = i == 0 ? 0x0041 : 0x10020;
        assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
        assert_non_null(strstr(last, "identity.kem is unknown"));
    }
    world_free(&w);
}

/* A peer of another job has another tag in its frames, and is told all the same. */
static void another_job(void **state) {
    (void)state;
    static const char *const fields[] = {"sid_job", "topology"};
    for (unsigned k = 0; k < 2; k++) {
        world w;
        world_make(&w);
        if (k == 0)
            w.cfg[1].identity.sid_job[3] ^= 1;
        else
            w.cfg[1].place.replicas = 2;
        world_open(&w);
        never_ready(&w, 0, 1);
        for (unsigned i = 0; i < 3; i += 2) {
            told(&w, i, 1, fields[k]);
            told(&w, 1, i, fields[k]);
        }
        assert_int_equal(w.mismatches[0][2] + w.mismatches[2][0], 0);
        world_free(&w);
    }
}

/* ---- a hostile network ---- */

static bool is_hello(const uint8_t *bytes, size_t len, uint8_t which) {
    return len > 64 && bytes[5] == UVCC_FRAME_HELLO && (bytes[7] & 1) == 0 && bytes[64] == which;
}

static bool spoil_signature(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    if (from == 0 && to == 1 && is_hello(bytes, len, 2))
        bytes[64 + 44 + w->sent % 64] ^= (uint8_t)(1u << w->sent % 8);
    return true;
}

static bool spoil_hello2(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    if (from == 0 && to == 1 && is_hello(bytes, len, 2))
        bytes[64 + 1 + w->sent % 107] ^= 0x10;
    return true;
}

static bool other_ephemeral(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    (void)w;
    if (from + to == 1 && is_hello(bytes, len, 1))
        memset(bytes + 64 + 116, 9, 32);
    return true;
}

static bool no_signature(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    (void)w;
    if (from + to == 1 && is_hello(bytes, len, 2))
        memset(bytes + 64 + 44, 0, 64);
    return true;
}

/* While somebody changes HELLO on the way, the pair has no keys; when it stops, all is well. */
static void tampered(void **state) {
    (void)state;
    static const hook hooks[] = {spoil_signature, spoil_hello2, other_ephemeral, no_signature};
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        world w;
        world_make(&w);
        w.hook = hooks[i];
        world_open(&w);
        never_ready(&w, 1, 1);
        uvcc_session_stats st;
        uvcc_session_get_stats(w.s[1], &st);
        assert_true(st.frames_refused > 5); /* and counted */
        w.hook = NULL;
        assert_true(drive(&w, w.now + 60 * SECOND));
        works(&w);
        world_free(&w);
    }
}

/* Before P0's HELLO 1 gets anywhere, and all the time, others in its name do. */
static unsigned forged_at;
static bool forge_hello1(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    static const unsigned at[] = {64 + 3, 64 + 4, 64 + 36, 64 + 42, 64 + 48, 64 + 87, 64 + 1};
    if (from != 0 || !is_hello(bytes, len, 1))
        return true;
    uint8_t forged[PACKET_BYTES];
    memcpy(forged, bytes, len);
    for (unsigned i = 0; i < 1000; i++, forged_at++) {
        unsigned k = forged_at % 7;
        memcpy(forged, bytes, len);
        forged[at[k]] = k == 6 ? 0 : (uint8_t)(forged[at[k]] ^ (1u + i / 7 % 255));
        fix_crc(forged, len);
        deliver(w, 0, to, forged, len); /* nobody polls events meanwhile */
    }
    return true;
}

static void forged_hello1(void **state) {
    (void)state;
    for (unsigned x = 0; x < 2; x++) {
        world w;
        world_make(&w);
        for (unsigned i = 0; i < 3; i++)
            w.cfg[i].identity.exchange_x25519 = x != 0;
        w.hook = forge_hello1;
        world_open(&w);
        assert_true(drive(&w, w.now + 60 * SECOND));
        works(&w);
        for (unsigned i = 1; i < 3; i++) { /* told of each field, not of each packet */
            assert_true(w.mismatches[i][0] >= 5 && w.mismatches[i][0] <= 16);
            assert_true(w.warnings[i] <= 16);
        }
        assert_int_equal(w.mismatches[0][1] + w.mismatches[0][2], 0);
        world_free(&w);
    }
}

/* One forger, between two parties that wait for the third: true and false HELLO 1 in turn. What is
 * told of them has a pace, and a host that polls no events loses nothing else. */
static void forged_for_ever(void **state) {
    (void)state;
    world w;
    world_make(&w);
    begin(&w, 0);
    begin(&w, 1);
    for (unsigned i = 0; i < 10; i++)
        turn(&w);
    uint8_t forged[PACKET_BYTES], truth[2][PACKET_BYTES];
    size_t len = 0;
    for (unsigned i = 0; i < w.sent; i++)
        if (w.packet[i].from == 0 && is_hello(w.packet[i].bytes, w.packet[i].len, 1)) {
            len = w.packet[i].len;
            memcpy(truth[0], w.packet[i].bytes, len);
        }
    assert_true(len != 0);
    memcpy(truth[1], truth[0], len);
    truth[1][64 + 84] ^= 1; /* another N: new each time */
    fix_crc(truth[1], len);
    memcpy(forged, truth[0], len);
    forged[64 + 48] ^= 1;
    fix_crc(forged, len);
    const uint64_t from = w.now;
    for (unsigned i = 0; i < 200000; i++) {
        w.now = from + i * (SECOND / 1000);
        deliver(&w, 0, 1, i % 2 == 0 ? forged : truth[i / 2 % 2], len);
    }
    uvcc_event e;
    unsigned events = 0;
    while (uvcc_session_poll_event(w.s[1], &e) == 1)
        events += e.kind == UVCC_EVENT_MISMATCH;
    assert_int_equal(events, 16);
    assert_true(w.warnings[1] <= 17);
    for (unsigned i = 0; i < 200000; i++) {
        w.now += SECOND / 1000;
        deliver(&w, 0, 1, i % 2 == 0 ? forged : truth[i / 2 % 2], len);
        while (uvcc_session_poll_event(w.s[1], &e) == 1)
            events += e.kind == UVCC_EVENT_MISMATCH;
    }
    assert_true(events > 40 && events < 100); /* in 400 s: one each 3.2 s */
    world_free(&w);
}

/* Some of what a party sends comes back to it under the peer's name, besides arriving or instead.
 */
static bool mirror_only;
static bool mirror(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    uint8_t back[PACKET_BYTES];
    uint64_t seed = w->sent + w->now;
    unsigned draw = (unsigned)(test_rand(&seed) % 4);
    memcpy(back, bytes, len);
    back[6] = (uint8_t)(to << 4 | from);
    if (is_hello(back, len, 1) && draw == 0)
        back[64 + 2] = to; /* and its party corrected */
    fix_crc(back, len);
    if (draw < 2)
        deliver(w, to, from, back, len);
    return !mirror_only;
}

static void reflected(void **state) {
    (void)state;
    for (unsigned only = 0; only < 2; only++) {
        world w;
        world_make(&w);
        mirror_only = only != 0;
        w.hook = mirror;
        world_open(&w);
        if (mirror_only)
            never_ready(&w, 0, 1);
        else
            (void)drive(&w, w.now + 5 * SECOND);
        w.hook = NULL;
        assert_true(drive(&w, w.now + 120 * SECOND));
        works(&w);
        world_free(&w);
    }
}

/* All that one job said is said again to the next one, with P1 absent, then besides it. */
static void replayed(void **state) {
    (void)state;
    world old, w;
    world_make(&old);
    world_open(&old);
    assert_true(drive(&old, SECOND));
    works(&old);
    world_make(&w);
    w.born = 50;
    begin(&w, 0);
    begin(&w, 2);
    for (unsigned turns = 0; turns < 20; turns++) {
        for (unsigned i = 0; i < old.sent; i++)
            if (old.packet[i].to != 1)
                deliver(&w, old.packet[i].from, old.packet[i].to, old.packet[i].bytes,
                        old.packet[i].len);
        turn(&w);
        assert_false(w.ready[0] || w.ready[2]);
    }
    begin(&w, 1);
    assert_true(drive(&w, w.now + 120 * SECOND));
    for (unsigned i = 0; i < old.sent; i++)
        deliver(&w, old.packet[i].from, old.packet[i].to, old.packet[i].bytes, old.packet[i].len);
    works(&w);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            assert_int_equal(w.restarted[i][k], 0);
    world_free(&old);
    world_free(&w);
}

/* ---- restarts ---- */

static void tells_of_a_restart(bool x25519) {
    world w;
    world_make(&w);
    for (unsigned i = 0; i < 3; i++)
        w.cfg[i].identity.exchange_x25519 = x25519;
    world_open(&w);
    assert_true(drive(&w, SECOND));
    works(&w);
    renew(&w, 1);
    uint64_t until = w.now + 20 * SECOND;
    while (w.now < until)
        turn(&w);
    /* Both were told, once, and live on; P1 waits. */
    for (unsigned i = 0; i < 3; i += 2) {
        assert_int_equal(w.restarted[i][1], 1);
        assert_int_equal(w.restarted[i][2 - i], 0);
        assert_int_equal(w.aborted[i], 0);
        assert_int_equal(run_of(&w, i), 0);
        assert_non_null(uvcc_session_output(w.s[i], 0, OUT));
    }
    assert_false(w.ready[1]);
    /* They do the same: all meet in the next run. */
    renew(&w, 0);
    renew(&w, 2);
    assert_true(drive(&w, w.now + 20 * SECOND));
    assert_int_equal(run_of(&w, 1), 1);
    works(&w);
    world_free(&w);
}

/* Who hears of a restart first ends for that reason, and closes without its peer, which has no keys
 * any more; the third party hears the reason even if the peer never reached it. */
static void restart_ends_all(void **state) {
    (void)state;
    world w;
    world_make(&w);
    world_open(&w);
    assert_true(drive(&w, SECOND));
    works(&w);
    renew(&w, 1);
    for (unsigned n = 0; w.restarted[0][1] == 0; n++) {
        assert_true(n < 100000);
        turn(&w);
    }
    const bool heard = w.restarted[2][1] != 0;
    assert_int_equal(uvcc_session_abort(w.s[0], UVCC_ABORT_RESTARTED, w.now), 0);
    assert_int_equal(uvcc_session_close(w.s[0], w.now), 0);
    uint64_t until = w.now + SECOND / 2; /* close_ns is 3 s */
    while (w.now < until && !(w.closed[0] && w.aborted[2] != 0))
        turn(&w);
    assert_true(w.closed[0]);
    assert_true(heard || w.aborted[2] == UVCC_ABORT_RESTARTED);
    assert_int_equal(w.aborted[2], UVCC_ABORT_RESTARTED);
    assert_int_equal(w.aborted_by[2], 0);
    world_free(&w);
}

/* The next moments, until party i is CLOSED: within a second, where close_ns is three. */
static void closes_soon(world *w, uint8_t i) {
    const uint64_t until = w->now + SECOND;
    while (w->now < until && !w->closed[i])
        turn(w);
    assert_true(w->closed[i]);
}

/* Party 0 hears of a restart of party 1, and ends for that reason. */
static void end_of_restart(world *w) {
    for (unsigned n = 0; w->restarted[0][1] == 0; n++) {
        assert_true(n < 100000);
        turn(w);
    }
    assert_int_equal(uvcc_session_abort(w->s[0], UVCC_ABORT_RESTARTED, w->now), 0);
    assert_int_equal(uvcc_session_close(w->s[0], w->now), 0);
}

/* What party 1 proves to party 2, and party 2 to party 0, is lost until who it is for has ended. */
static bool proofs_late(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    (void)len;
    return from == 0 || (from + 1) % 3 != to || bytes[KIND_AT] != UVCC_FRAME_HELLO ||
           bytes[UVCC_FRAME_HEADER_BYTES] != 2 || w->aborted[to] != 0;
}

/* Both peers began anew; of one that is heard before the end, of the other while it is waited
 * for. */
static void two_restart(void **state) {
    (void)state;
    world w;
    world_make(&w);
    world_open(&w);
    assert_true(drive(&w, SECOND));
    works(&w);
    w.hook = proofs_late;
    renew(&w, 1);
    renew(&w, 2);
    end_of_restart(&w);
    assert_int_equal(w.restarted[0][2], 0);
    closes_soon(&w, 0);
    assert_int_equal(w.restarted[0][2], 0); /* after ABORTED that is no news */
    world_free(&w);
}

/* The third party is told by a peer that somebody began anew, and only then hears who: it does not
 * wait for that one. */
static void told_of_a_restart(void **state) {
    (void)state;
    world w;
    world_make(&w);
    world_open(&w);
    assert_true(drive(&w, SECOND));
    works(&w);
    w.hook = proofs_late;
    renew(&w, 1);
    end_of_restart(&w);
    for (unsigned n = 0; w.aborted[2] == 0; n++) {
        assert_true(n < 100000);
        turn(&w);
    }
    assert_int_equal(w.restarted[2][1], 0);
    assert_int_equal(uvcc_session_close(w.s[2], w.now), 0);
    closes_soon(&w, 2);
    closes_soon(&w, 0);
    world_free(&w);
}

/* What is sealed does not get from party 1 to party 2. */
static bool unready(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    (void)w;
    (void)len;
    return from != 1 || to != 2 || (bytes[FLAGS_AT] & UVCC_FRAME_SEALED) == 0;
}

/* The third party was still in its handshake, which began again when a peer came back: it cannot
 * read the BYE of a party that was READY, and is not waited for. */
static void restart_in_a_handshake(void **state) {
    (void)state;
    world w;
    world_make(&w);
    w.hook = unready;
    world_open(&w);
    for (unsigned n = 0; !w.ready[0] || !w.ready[1]; n++) {
        assert_true(n < 100000);
        turn(&w);
    }
    assert_false(w.ready[2]);
    w.hook = NULL;
    renew(&w, 1);
    end_of_restart(&w);
    closes_soon(&w, 0);
    assert_false(w.ready[2]);
    renew(&w, 0); /* and all meet */
    w.aborted[0] = 0;
    assert_true(drive(&w, w.now + 20 * SECOND));
    works(&w);
    world_free(&w);
}

static void restart_exchanged(void **state) {
    (void)state;
    tells_of_a_restart(true);
}

static void restart_provisioned(void **state) {
    (void)state;
    tells_of_a_restart(false);
}

static bool lossy(world *w, uint8_t from, uint8_t to, uint8_t *bytes, size_t len) {
    (void)from;
    (void)to;
    (void)bytes;
    (void)len;
    uint64_t seed = w->sent * 1000 + w->now + w->born;
    return test_rand(&seed) % 100 >= 25;
}

/* A party dies and comes back after any number of turns of the handshake, or after it. */
static void restarts_at_any_time(void **state) {
    (void)state;
    unsigned during = 0, after = 0;
    for (unsigned x = 0; x < 2; x++)
        for (unsigned turns = 0; turns < 60; turns++) {
            world w;
            world_make(&w);
            for (unsigned i = 0; i < 3; i++) {
                w.cfg[i].identity.exchange_x25519 = x != 0;
                w.cfg[i].identity.kem = turns % 2 != 0 ? UVCC_KEM_X25519 : UVCC_KEM_NONE;
            }
            w.follow = true;
            w.hook = turns % 3 != 0 ? lossy : NULL;
            w.born = turns * 10;
            world_open(&w);
            for (unsigned i = 0; i < turns; i++)
                turn(&w);
            uint8_t who = (uint8_t)(turns % 3);
            bool live = w.ready[0] || w.ready[1] || w.ready[2];
            during += !live;
            after += live;
            renew(&w, who);
            bool ends = drive(&w, w.now + 600 * SECOND);
            if (!ends)
                fail_msg("x %u turns %u: no end", x, turns);
            w.hook = NULL;
            works(&w);
            world_free(&w);
        }
    assert_true(during > 10 && after > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(completes),
        cmocka_unit_test(refuses_configs),
        cmocka_unit_test(wrong_identity),
        cmocka_unit_test(mixed_exchanges),
        cmocka_unit_test(completes_with_a_kem),
        cmocka_unit_test(kem_is_named),
        cmocka_unit_test(another_job),
        cmocka_unit_test(tampered),
        cmocka_unit_test(forged_hello1),
        cmocka_unit_test(forged_for_ever),
        cmocka_unit_test(reflected),
        cmocka_unit_test(replayed),
        cmocka_unit_test(restart_ends_all),
        cmocka_unit_test(two_restart),
        cmocka_unit_test(told_of_a_restart),
        cmocka_unit_test(restart_in_a_handshake),
        cmocka_unit_test(restart_exchanged),
        cmocka_unit_test(restart_provisioned),
        cmocka_unit_test(wrong_secret),
        cmocka_unit_test(restarts_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
