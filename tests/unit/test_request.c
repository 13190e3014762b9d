/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a client and the services of three parties (uvcc/request.h), over dialogs whose
 * streams stand face to face. Who computes is this test: 3 x + 7, share by share. */
#include "support.h"

#include <uvcc/host.h>
#include <uvcc/request.h>

#include "exec/host/request.h"
#include "proto/crypto.h"

enum { PARTIES = 3, JOBS = 8, TURNS = 4000 };
#define MS UINT64_C(1000000)

typedef struct job {
    bool here;
    uvcc_service_job j;
} job;

typedef struct world {
    test_alloc mem;
    uint64_t dice, now;
    uint8_t seed[PARTIES + 1][32], key[PARTIES + 1][32]; /* the last one is the client's */
    uvcc_dialog *to[PARTIES], *from[PARTIES];            /* the client's ends, the parties' */
    uvcc_service *s[PARTIES];
    uvcc_service_config how;
    uint32_t number[PARTIES];
    job jobs[PARTIES][JOBS];
    uvcc_request *r;
    bool short_of;     /* memory: turns may fail */
    bool idle;         /* nobody computes */
    unsigned served;   /* of all three */
    uint64_t tx_bytes; /* of dialogs */
    uint8_t terms;     /* of requests: these bytes and on; 0: none */
    unsigned lies;     /* bits of (party, lo or hi) that are answered wrong */
} world;

/* ---- dialogs ---- */

static void new_dialog(world *w, unsigned p, bool client) {
    uvcc_dialog_config c;
    uvcc_dialog **d = client ? &w->to[p] : &w->from[p];
    uvcc_dialog_free(*d);
    uvcc_dialog_config_default(&c);
    c.alloc = test_allocator(&w->mem);
    c.random = test_random(&w->dice);
    c.client = client;
    c.party = (uint8_t)p;
    c.tx_bytes = w->tx_bytes;
    memset(c.sid_job, 5, 32);
    memcpy(c.sign_seed, w->seed[client ? PARTIES : p], 32);
    memcpy(c.peer_key, w->key[client ? p : PARTIES], 32);
    assert_int_equal(uvcc_dialog_new(d, &c, w->now), 0);
}

static void reconnect(world *w, unsigned p) {
    for (unsigned e = 0; e < 2; e++) {
        uvcc_link *l = uvcc_dialog_link(e ? w->to[p] : w->from[p]);
        uvcc_link_stream_closed(l, w->now);
        uvcc_link_stream_opened(l, w->now);
    }
}

static void new_service(world *w, unsigned p) {
    uvcc_service_free(w->s[p]);
    memset(w->jobs[p], 0, sizeof w->jobs[p]);
    uvcc_service_config c = w->how;
    c.party = (uint8_t)p;
    assert_int_equal(uvcc_service_new(&w->s[p], &c), 0);
    assert_int_equal(uvcc_service_add(w->s[p], w->key[PARTIES], &w->number[p]), 0);
}

static void open_world(world *w) {
    uint8_t sk[64];
    memset(w, 0, sizeof *w);
    w->dice = 77;
    uvcc_service_config_default(&w->how);
    w->how.alloc = test_allocator(&w->mem);
    for (unsigned i = 0; i <= PARTIES; i++) {
        memset(w->seed[i], 0x10 + (int)i, 32);
        uvcci_sign_keypair(w->seed[i], w->key[i], sk);
    }
    for (unsigned p = 0; p < PARTIES; p++) {
        new_service(w, p);
        new_dialog(w, p, true);
        new_dialog(w, p, false);
        reconnect(w, p);
    }
}

static void close_world(world *w) {
    for (unsigned p = 0; p < PARTIES; p++) {
        uvcc_dialog_free(w->to[p]);
        uvcc_dialog_free(w->from[p]);
        uvcc_service_free(w->s[p]);
    }
    uvcc_request_free(w->r);
    assert_int_equal(w->mem.live_bytes, 0);
}

static void carry(world *w, uvcc_dialog *a, uvcc_dialog *b) {
    uvcc_transmit tx;
    bool broken = false;
    while (uvcc_link_poll_transmit(uvcc_dialog_link(a), &tx, w->now) == 1) {
        for (uint32_t k = 0; k < tx.slice_count; k++)
            broken |= uvcc_link_feed(uvcc_dialog_link(b), tx.slices[k].data, tx.slices[k].len,
                                     w->now) != 0;
        assert_int_equal(uvcc_link_transmit_done(uvcc_dialog_link(a), tx.id, tx.total, w->now), 0);
    }
    for (unsigned p = 0; p < PARTIES && broken; p++)
        if (w->to[p] == a || w->to[p] == b)
            reconnect(w, p);
}

static void events(world *w, unsigned p, bool client) {
    uvcc_dialog_event v;
    bool again = false;
    while (uvcc_dialog_poll_event(client ? w->to[p] : w->from[p], &v) == 1)
        if (v.kind == UVCC_DIALOG_LINK) {
            uvcc_link_free(v.old_link);
            again = true;
        } else if (!client)
            assert_int_equal(uvcc_service_opened(w->s[p], w->number[p]), 0);
        else if (w->r != NULL)
            assert_int_equal(uvcc_request_opened(w->r, (uint8_t)p), 0);
    if (again)
        reconnect(w, p);
}

/* ---- the parties, by hand ---- */

static job *job_of(world *w, unsigned p, const uint8_t id[16]) {
    for (unsigned k = 0; k < JOBS; k++)
        if (w->jobs[p][k].here && memcmp(w->jobs[p][k].j.id, id, 16) == 0)
            return &w->jobs[p][k];
    return NULL;
}

static void answer(world *w, unsigned p, job *b, uvcc_request_status status) {
    const uvcc_request_shape *s = &b->j.shape;
    const size_t n = (size_t)s->in_rows * s->in_cols;
    uint64_t *out = malloc(2 * n * sizeof *out);
    assert_non_null(out);
    for (size_t i = 0; i < n; i++) {
        out[i] = 3 * b->j.lo[i] + (p == 0 ? 7 : 0) + (w->lies >> (2 * p) & 1);
        out[n + i] = 3 * b->j.hi[i] + (p == 2 ? 7 : 0) + (w->lies >> (2 * p + 1) & 1);
    }
    const bool ok = status == UVCC_REQUEST_OK;
    int rc;
    do
        rc = uvcc_service_answer(w->s[p], b->j.token, status, ok ? out : NULL, ok ? out + n : NULL,
                                 ok ? n : 0);
    while (rc == UVCC_ERR_NOMEM && w->short_of);
    assert_int_equal(rc, 0);
    free(out);
    b->here = false;
}

/* What the session would agree on: one that all have is served, if its shares are the same; what
 * is left of older ones is dropped. */
static void compute(world *w) {
    for (unsigned p = 0; p < PARTIES; p++)
        for (unsigned k = 0; k < JOBS; k++)
            if (!w->jobs[p][k].here)
                w->jobs[p][k].here = uvcc_service_next(w->s[p], &w->jobs[p][k].j) == 1;
    for (unsigned k = 0; k < JOBS && !w->idle; k++) {
        job *b[PARTIES] = {&w->jobs[0][k]};
        if (!b[0]->here)
            continue;
        for (unsigned p = 1; p < PARTIES; p++)
            b[p] = job_of(w, p, b[0]->j.id);
        if (b[1] == NULL || b[2] == NULL)
            continue;
        bool same = true;
        for (unsigned p = 0; p < PARTIES; p++)
            same = same && memcmp(b[p]->j.digest_hi, b[(p + 1) % 3]->j.digest_lo, 32) == 0;
        for (unsigned p = 0; p < PARTIES; p++)
            answer(w, p, b[p], same ? UVCC_REQUEST_OK : UVCC_REQUEST_MISMATCH);
        w->served++;
    }
}

static void turn(world *w) {
    w->now += MS;
    for (unsigned p = 0; p < PARTIES; p++) {
        for (unsigned e = 0; e < 2; e++) {
            uvcc_dialog *d = e ? w->to[p] : w->from[p];
            uvcc_link *l = uvcc_dialog_link(d);
            if (uvcc_link_next_deadline(l) <= w->now)
                uvcc_link_on_timer(l, w->now);
            assert_true(uvcc_dialog_turn(d, w->now) == 0 || w->short_of);
            events(w, p, e);
        }
        const int rc = uvcc_service_turn(w->s[p], w->number[p], w->from[p], w->now);
        assert_true(rc == 0 || (w->short_of && rc == UVCC_ERR_NOMEM));
        if (w->r != NULL && uvcc_request_turn(w->r, (uint8_t)p, w->to[p], w->now) != 0) {
            assert_true(w->short_of);
            assert_int_equal(uvcc_request_opened(w->r, (uint8_t)p), 0); /* asks again */
        }
        carry(w, w->from[p], w->to[p]);
        carry(w, w->to[p], w->from[p]);
    }
    compute(w);
}

/* ---- the client ---- */

static uvcc_request_shape shape_of(uint32_t rows, uint32_t cols) {
    return (uvcc_request_shape){
        .entry = 4, .in_rows = rows, .in_cols = cols, .out_rows = rows, .out_cols = cols};
}

static void ask(world *w, uint32_t rows, uint32_t cols) {
    const size_t n = (size_t)rows * cols;
    int64_t *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)i * 11 - 5;
    uvcc_request_config c = {.size = sizeof c,
                             .alloc = test_allocator(&w->mem),
                             .random = test_random(&w->dice),
                             .shape = shape_of(rows, cols),
                             .values = v};
    for (uint8_t i = 0; w->terms != 0 && i < sizeof c.shape.terms; i++)
        c.shape.terms[i] = (uint8_t)(w->terms + i);
    uvcc_request_free(w->r);
    assert_int_equal(uvcc_request_new(&w->r, &c), 0);
    free(v);
    for (uint8_t p = 0; p < PARTIES; p++) /* if the dialogs are open it goes */
        assert_int_equal(uvcc_request_opened(w->r, p), 0);
}

static uvcc_request_state state_of(const world *w) {
    uvcc_request_state st;
    assert_int_equal(uvcc_request_get_state(w->r, &st), 0);
    return st;
}

static uvcc_request_state until_answered(world *w) {
    for (unsigned t = 0; t < TURNS && state_of(w).missing != 0; t++)
        turn(w);
    assert_int_equal(state_of(w).missing, 0);
    return state_of(w);
}

static void check_done(world *w, uint32_t rows, uint32_t cols) {
    const size_t n = (size_t)rows * cols;
    assert_int_equal(until_answered(w).kind, UVCC_REQUEST_DONE);
    int64_t *v = malloc(n * sizeof *v);
    assert_non_null(v);
    assert_int_equal(uvcc_request_output(w->r, v, n + 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_request_output(w->r, v, n), 0);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += v[i] != 3 * ((int64_t)i * 11 - 5) + 7;
    assert_int_equal(wrong, 0);
    free(v);
}

/* ---- tests ---- */

static void test_values(void **state) {
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {5, 7}, {1000, 600}};
    world w;
    open_world(&w);
    for (unsigned i = 0; i < 3; i++) { /* the last one in three pieces */
        int64_t v;
        ask(&w, shapes[i][0], shapes[i][1]);
        assert_int_equal(state_of(&w).missing, 7);
        if (i == 0)
            assert_int_equal(uvcc_request_output(w.r, &v, 1), UVCC_ERR_STATE);
        check_done(&w, shapes[i][0], shapes[i][1]);
    }
    assert_int_equal(w.served, 3);
    close_world(&w);
}

static void lose_client(world *w) {
    for (unsigned p = 0; p < PARTIES; p++) {
        new_dialog(w, p, true);
        reconnect(w, p);
    }
}

/* After any number of turns. It comes back with the same request: that is served once. Or as one
 * that knows nothing any more: it asks anew. */
static void test_clients_vanish(void **state) {
    (void)state;
    for (unsigned anew = 0; anew < 2; anew++)
        for (unsigned turns = 0; turns < 16; turns++) {
            world w;
            open_world(&w);
            ask(&w, 3, 5);
            for (unsigned t = 0; t < turns; t++)
                turn(&w);
            for (unsigned again = 0; again < 3; again++) {
                lose_client(&w);
                for (unsigned t = 0; t < turns; t++)
                    turn(&w);
            }
            if (anew) {
                lose_client(&w);
                ask(&w, 2, 2);
                check_done(&w, 2, 2);
            } else {
                check_done(&w, 3, 5);
                assert_int_equal(w.served, 1);
            }
            close_world(&w);
        }
}

static void settle(world *w);

/* In the middle of a long request or answer: dialogs take one piece at a time. */
static void test_clients_vanish_between_pieces(void **state) {
    (void)state;
    for (unsigned turns = 5; turns < 40; turns += 5) {
        world w;
        open_world(&w);
        w.tx_bytes = UINT64_C(5) << 20;
        for (unsigned p = 0; p < PARTIES; p++) {
            new_dialog(&w, p, true);
            new_dialog(&w, p, false);
            reconnect(&w, p);
        }
        ask(&w, 1000, 600);
        for (unsigned t = 0; t < turns; t++)
            turn(&w);
        lose_client(&w);
        check_done(&w, 1000, 600);
        assert_int_equal(w.served, 1);
        close_world(&w);
    }
}

/* What did not come whole holds nobody's place. */
static void test_halves(void **state) {
    (void)state;
    world w;
    open_world(&w);
    settle(&w);
    for (uint8_t k = 1; k <= 8; k++) {
        const uint8_t id[16] = {k};
        uint8_t m[UVCCI_PIECE_HEAD + 64] = {'U', 'V', 'R', 'Q', 2};
        memcpy(m + 8, id, 16);
        m[24] = 64;
        m[26] = 0x40; /* 4 MiB and 64 bytes, of which these are the last */
        m[34] = 0x40;
        assert_int_equal(uvcc_dialog_send(w.to[0], m, sizeof m, w.now), 0);
        settle(&w);
        lose_client(&w);
        for (unsigned t = 0; t < 40; t++)
            settle(&w);
    }
    ask(&w, 2, 2);
    check_done(&w, 2, 2);
    close_world(&w);
}

/* An answer to what the client asked before is none to what it asks now. */
static void test_late_answers(void **state) {
    (void)state;
    world w;
    open_world(&w);
    w.idle = true;
    ask(&w, 2, 2);
    settle(&w);
    ask(&w, 2, 2);
    w.idle = false;
    w.lies = 1;
    compute(&w);
    assert_int_equal(w.served, 1);
    w.lies = 0;
    check_done(&w, 2, 2);
    assert_int_equal(w.served, 2);
    close_world(&w);
}

/* Of a program that is not this one: hashlib's. */
static void test_digest(void **state) {
    (void)state;
    const uvcc_request_shape s = {
        .entry = 4, .in_rows = 1, .in_cols = 2, .out_rows = 1, .out_cols = 1};
    uint8_t id[16], key[32], salt[32], component[16], out[32], want[32];
    memset(id, 1, sizeof id);
    memset(key, 2, sizeof key);
    memset(salt, 3, sizeof salt);
    memset(component, 4, sizeof component);
    uvcci_request_digest(id, key, &s, 2, salt, component, out);
    test_hex_n("8074d2b9099af56d851ca9dc63b0735d62daf3f6293f715f80dcbaf7841834f7", want, 32);
    assert_memory_equal(out, want, 32);
    uint8_t body[UVCCI_REQUEST_HEAD + 32] = {0};
    uvcc_request_shape read;
    uvcci_put_shape(&s, body);
    assert_true(uvcci_get_shape(&read, body, sizeof body));
    assert_memory_equal(&read, &s, sizeof s);
    body[UVCCI_REQUEST_SHAPE - 1] = 1; /* not zero */
    assert_false(uvcci_get_shape(&read, body, sizeof body));
    uint8_t m[UVCCI_PIECE_HEAD + 1] = {'U', 'V', 'R', 'Q', 2};
    uvcci_piece p;
    m[24] = 1;
    m[27] = m[35] = 0x10; /* 256 MiB and a byte, the last one */
    assert_false(uvcci_piece_read(&p, m, sizeof m));
    m[24] = 0;
    m[27] = m[35] = 0;
    m[24] = 1;
    assert_true(uvcci_piece_read(&p, m, sizeof m));
}

/* A party that begins anew gets the request again. If the others have answered already it is alone
 * with it, and drops it: then the client knows. */
static void test_parties_vanish(void **state) {
    (void)state;
    unsigned done = 0, dropped = 0;
    for (unsigned who = 0; who < PARTIES; who++)
        for (unsigned turns = 0; turns < 16; turns++) {
            world w;
            open_world(&w);
            ask(&w, 3, 5);
            for (unsigned t = 0; t < turns; t++)
                turn(&w);
            new_service(&w, who);
            new_dialog(&w, who, false);
            reconnect(&w, who);
            for (unsigned t = 0; t < 12000 && state_of(&w).missing != 0; t++)
                turn(&w);
            if (state_of(&w).missing != 0) {
                uint8_t id[16];
                assert_int_equal(state_of(&w).missing, 1 << who);
                assert_int_equal(uvcc_request_id(w.r, id), 0);
                assert_non_null(job_of(&w, who, id));
                answer(&w, who, job_of(&w, who, id), UVCC_REQUEST_DROPPED);
                assert_int_equal(until_answered(&w).kind, UVCC_REQUEST_FAILED);
                assert_int_equal(state_of(&w).status[who], UVCC_REQUEST_DROPPED);
                dropped++;
            } else {
                check_done(&w, 3, 5);
                done++;
            }
            ask(&w, 4, 4);
            check_done(&w, 4, 4);
            close_world(&w);
        }
    assert_true(done != 0 && dropped != 0);
}

/* Who changes one of its components is one of two; who changes both is known. */
static void test_wrong_answers(void **state) {
    (void)state;
    for (unsigned p = 0; p < PARTIES; p++)
        for (unsigned what = 1; what < 4; what++) {
            const uint8_t lo_pair = (uint8_t)(1u << p | 1u << (p + 2) % 3);
            const uint8_t hi_pair = (uint8_t)(1u << p | 1u << (p + 1) % 3);
            world w;
            int64_t v[4];
            open_world(&w);
            w.lies = what << (2 * p);
            ask(&w, 2, 2);
            assert_int_equal(until_answered(&w).kind, UVCC_REQUEST_FAILED);
            assert_int_equal(state_of(&w).suspects, what == 1   ? lo_pair
                                                    : what == 2 ? hi_pair
                                                                : 1 << p);
            assert_int_equal(uvcc_request_output(w.r, v, 4), UVCC_ERR_STATE);
            close_world(&w);
        }
}

/* Pieces as no uvcc_request would send them. */
static void send_body(world *w, unsigned p, const uint8_t id[16], uvcc_request_shape s,
                      uint8_t fill, uint64_t total) {
    const uvcc_allocator al = test_allocator(&w->mem);
    uvcci_body b = {.bytes = calloc(total, 1), .total = total};
    assert_non_null(b.bytes);
    memset(b.bytes, fill, total);
    uvcci_put_shape(&s, b.bytes);
    assert_int_equal(uvcci_body_send(&b, UVCCI_REQUEST_ASKS, (uint8_t)p, id, &al, w->to[p], w->now),
                     1);
    free(b.bytes);
}

static void settle(world *w) {
    for (unsigned t = 0; t < 50; t++)
        turn(w);
}

/* A client that gives the parties different shares, shapes or salts is found out by the digests:
 * all parts of a request are in them. */
static void test_unequal_requests(void **state) {
    (void)state;
    for (unsigned what = 0; what < 6; what++) {
        const uint8_t id[16] = {9};
        world w;
        open_world(&w);
        settle(&w);
        w.idle = true;
        for (unsigned p = 0; p < PARTIES; p++) {
            uvcc_request_shape s = shape_of(2, 2);
            if (p == 1 && what == 1)
                s.entry++;
            if (p == 1 && what == 2)
                s = (uvcc_request_shape){
                    .entry = 4, .in_rows = 1, .in_cols = 4, .out_rows = 2, .out_cols = 2};
            if (p == 1 && what == 3)
                s.out_cols++;
            if (p == 1 && what == 5)
                s.terms[11] = 1;
            send_body(&w, p, id, s, p == 1 && what == 4 ? 1 : 0, UVCCI_REQUEST_HEAD + 64);
        }
        settle(&w);
        const job *a = job_of(&w, 0, id), *b = job_of(&w, 1, id), *c = job_of(&w, 2, id);
        assert_true(a != NULL && b != NULL && c != NULL);
        assert_memory_equal(c->j.digest_hi, a->j.digest_lo, 32);
        assert_int_equal(memcmp(a->j.digest_hi, b->j.digest_lo, 32) == 0, what == 0);
        assert_int_equal(memcmp(b->j.digest_hi, c->j.digest_lo, 32) == 0, what == 0);
        assert_memory_not_equal(a->j.digest_lo, a->j.digest_hi, 32);
        close_world(&w);
    }
}

/* Terms come with the request, and why it was refused with the answer. */
static void test_terms(void **state) {
    (void)state;
    world w;
    open_world(&w);
    w.idle = true;
    w.terms = 7;
    ask(&w, 2, 2);
    settle(&w);
    uint8_t id[16];
    assert_int_equal(uvcc_request_id(w.r, id), 0);
    for (unsigned p = 0; p < PARTIES; p++) {
        job *b = job_of(&w, p, id);
        assert_non_null(b);
        for (unsigned i = 0; i < sizeof b->j.shape.terms; i++)
            assert_int_equal(b->j.shape.terms[i], 7 + i);
        assert_int_equal(uvcc_service_refuse(w.s[p], b->j.token, p == 1 ? 0 : 0x80000001u + p), 0);
        assert_int_equal(uvcc_service_refuse(w.s[p], b->j.token, 1), UVCC_ERR_NOT_FOUND);
        b->here = false;
    }
    assert_int_equal(until_answered(&w).kind, UVCC_REQUEST_FAILED);
    for (unsigned p = 0; p < PARTIES; p++) {
        assert_int_equal(state_of(&w).status[p], UVCC_REQUEST_REFUSED);
        assert_int_equal(state_of(&w).why[p], p == 1 ? 0 : 0x80000001u + p);
    }
    assert_int_equal(uvcc_service_refuse(NULL, 1, 1), UVCC_ERR_USAGE);
    close_world(&w);
}

/* Why goes with a refusal alone: an answer of another status that has it is none. */
static void test_why_of_others(void **state) {
    (void)state;
    for (unsigned status = 0; status < UVCC_REQUEST_STATUSES; status++) {
        world w;
        open_world(&w);
        w.idle = true;
        ask(&w, 1, 1);
        settle(&w);
        uint8_t m[UVCCI_PIECE_HEAD + UVCCI_ANSWER_HEAD + 16] = {'U', 'V', 'R', 'Q', 2, 1};
        const size_t body = UVCCI_ANSWER_HEAD + (status == UVCC_REQUEST_OK ? 16 : 0);
        assert_int_equal(uvcc_request_id(w.r, m + 8), 0);
        m[24] = (uint8_t)body;
        m[UVCCI_PIECE_HEAD] = (uint8_t)status;
        m[UVCCI_PIECE_HEAD + 4] = m[UVCCI_PIECE_HEAD + 8] = status == UVCC_REQUEST_OK;
        m[UVCCI_PIECE_HEAD + 12] = 1;
        assert_int_equal(uvcc_dialog_send(w.from[0], m, UVCCI_PIECE_HEAD + body, w.now), 0);
        settle(&w);
        assert_int_equal(state_of(&w).missing, status == UVCC_REQUEST_REFUSED ? 6 : 7);
        close_world(&w);
    }
}

/* What one client has at a party is bounded; over it the client is told. */
static void test_bounds(void **state) {
    (void)state;
    world w;
    open_world(&w);
    settle(&w);
    w.idle = true;
    for (uint8_t k = 1; k <= 4; k++) {
        const uint8_t id[16] = {k};
        send_body(&w, 0, id, shape_of(2, 2), 0, UVCCI_REQUEST_HEAD + 64);
    }
    ask(&w, 2, 2);
    settle(&w);
    assert_int_equal(state_of(&w).status[0], UVCC_REQUEST_BUSY);
    assert_int_equal(state_of(&w).missing, 6);
    for (uint8_t k = 1; k <= 4; k++) {
        const uint8_t id[16] = {k};
        assert_non_null(job_of(&w, 0, id));
    }
    close_world(&w);

    open_world(&w);
    settle(&w);
    w.how.client_bytes = UVCCI_REQUEST_HEAD + 64 + 16 + 64 - 1; /* the answer has no room */
    for (unsigned p = 0; p < PARTIES; p++)
        new_service(&w, p);
    ask(&w, 2, 2);
    assert_int_equal(until_answered(&w).kind, UVCC_REQUEST_FAILED);
    for (unsigned p = 0; p < PARTIES; p++)
        assert_int_equal(state_of(&w).status[p], UVCC_REQUEST_BUSY);
    w.how.client_bytes++;
    for (unsigned p = 0; p < PARTIES; p++)
        new_service(&w, p);
    ask(&w, 2, 2);
    check_done(&w, 2, 2);
    close_world(&w);
}

/* An answer comes again for as long as it is kept; then the client hears that there was one; and
 * that is forgotten too. */
static void test_answers_are_kept(void **state) {
    (void)state;
    for (unsigned after = 0; after < 12; after++) {
        world w;
        open_world(&w);
        w.how.kept_max = 1;
        for (unsigned p = 0; p < PARTIES; p++)
            new_service(&w, p);
        ask(&w, 2, 2);
        settle(&w);
        assert_int_equal(state_of(&w).kind, UVCC_REQUEST_DONE);
        uint8_t id[16];
        assert_int_equal(uvcc_request_id(w.r, id), 0);
        for (unsigned k = 0; k < after; k++) {
            ask(&w, 1, 1);
            check_done(&w, 1, 1);
        }
        const unsigned served = w.served;
        assert_int_equal(served, after + 1);
        w.idle = true;
        uvcc_dialog_message m;
        uvcc_request_free(w.r);
        w.r = NULL;
        settle(&w);
        while (uvcc_dialog_receive(w.to[0], &m, w.now) == 1)
            assert_int_equal(uvcc_dialog_release(w.to[0], &m, w.now), 0);
        send_body(&w, 0, id, shape_of(2, 2), 0, UVCCI_REQUEST_HEAD + 64);
        settle(&w);
        const bool answered = uvcc_dialog_receive(w.to[0], &m, w.now) == 1;
        assert_int_equal(answered, after < 8);
        if (answered) {
            assert_int_equal(m.data[UVCCI_PIECE_HEAD],
                             after < 1 ? UVCC_REQUEST_OK : UVCC_REQUEST_GONE);
            assert_int_equal(uvcc_dialog_release(w.to[0], &m, w.now), 0);
        } else
            assert_non_null(job_of(&w, 0, id)); /* as if it were new */
        close_world(&w);
    }
}

static void take_all(world *w) {
    uvcc_dialog_message m;
    for (unsigned i = 0; i < 10; i++)
        settle(w);
    while (uvcc_dialog_receive(w->to[0], &m, w->now) == 1)
        assert_int_equal(uvcc_dialog_release(w->to[0], &m, w->now), 0);
}

/* That a request was answered is said again to a client that vanished before it could be sent. */
static void test_gone_is_said_again(void **state) {
    (void)state;
    enum { ANSWERS = 3 };
    world w;
    uvcc_dialog_message m;
    uint8_t id[ANSWERS][16];
    open_world(&w);
    w.how.kept_max = 1;
    w.tx_bytes = 160; /* of party 0: GONE once, and not twice */
    new_service(&w, 0);
    new_dialog(&w, 0, false);
    w.tx_bytes = 0;
    reconnect(&w, 0);
    for (unsigned k = 0; k < ANSWERS; k++) {
        ask(&w, 1, 1);
        check_done(&w, 1, 1);
        assert_int_equal(uvcc_request_id(w.r, id[k]), 0);
    }
    uvcc_request_free(w.r);
    w.r = NULL;
    w.idle = true;
    take_all(&w);
    for (unsigned k = 0; k < 2; k++)
        send_body(&w, 0, id[k], shape_of(1, 1), 0, UVCCI_REQUEST_HEAD + 16);
    settle(&w);
    new_dialog(&w, 0, true);
    reconnect(&w, 0);
    take_all(&w);
    for (unsigned k = 0; k < 2; k++) {
        send_body(&w, 0, id[k], shape_of(1, 1), 0, UVCCI_REQUEST_HEAD + 16);
        settle(&w);
        assert_int_equal(uvcc_dialog_receive(w.to[0], &m, w.now), 1);
        assert_int_equal(m.data[UVCCI_PIECE_HEAD], UVCC_REQUEST_GONE);
        assert_int_equal(uvcc_dialog_release(w.to[0], &m, w.now), 0);
    }
    close_world(&w);
}

/* Lines of what is refused, of another version, and of another form. */
static void count_lines(void *user, uvcc_log_level level, const char *line) {
    static const char *const words[] = {"which is refused", "of another version",
                                        "of another form"};
    assert_int_equal(level, UVCC_LOG_WARN);
    for (unsigned i = 0; i < 3; i++)
        ((unsigned *)user)[i] += strstr(line, words[i]) != NULL;
}

/* Anything else that a client says is refused or dropped. */
static void test_other_bytes(void **state) {
    (void)state;
    world w;
    unsigned said[3] = {0};
    open_world(&w);
    w.how.log = (uvcc_logger){count_lines, said};
    new_service(&w, 0);
    settle(&w);
    const uint8_t id[16] = {3}, other[16] = {4};
    send_body(&w, 0, id, shape_of(2, 2), 0, UVCCI_REQUEST_HEAD + 48); /* not of its shape */
    send_body(&w, 0, other, shape_of(0, 2), 0, UVCCI_REQUEST_HEAD);
    enum { BODY = UVCCI_REQUEST_HEAD + 64 };
    uint8_t m[UVCCI_PIECE_HEAD + BODY] = {'U', 'V', 'R', 'Q', 2};
    m[8] = 5;
    m[24] = BODY;
    uvcc_request_shape none = shape_of(2, 2);
    none.out_rows = 0; /* asks for no row */
    uvcci_put_shape(&none, m + UVCCI_PIECE_HEAD);
    assert_int_equal(uvcc_dialog_send(w.to[0], m, sizeof m, w.now), 0);
    m[8] = 6;
    for (unsigned k = 0; k < 9; k++) {
        uint8_t bad[sizeof m];
        static const uint8_t at[] = {0, 4, 5, 6, 7, 24, 31, 32, 39};
        memcpy(bad, m, sizeof m);
        bad[at[k]] ^= 0x83;
        assert_int_equal(uvcc_dialog_send(w.to[0], bad, sizeof bad, w.now), 0);
    }
    for (size_t len = 1; len <= UVCCI_PIECE_HEAD; len++)
        assert_int_equal(uvcc_dialog_send(w.to[0], m, len, w.now), 0);
    settle(&w);
    uvcc_dialog_message a;
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(uvcc_dialog_receive(w.to[0], &a, w.now), 1);
        assert_int_equal(a.len, UVCCI_PIECE_HEAD + UVCCI_ANSWER_HEAD);
        assert_int_equal(a.data[UVCCI_PIECE_HEAD], UVCC_REQUEST_REFUSED);
        assert_int_equal(uvcc_dialog_release(w.to[0], &a, w.now), 0);
    }
    assert_int_equal(uvcc_dialog_receive(w.to[0], &a, w.now), 0);
    assert_int_equal(said[0], 3);
    assert_int_equal(said[1], 1);
    assert_int_equal(said[2], 8 + UVCCI_PIECE_HEAD);
    uvcc_service_job j;
    assert_int_equal(uvcc_service_next(w.s[0], &j), 0);
    ask(&w, 2, 2);
    check_done(&w, 2, 2);
    close_world(&w);
}

/* ---- numbers of rows ---- */

static uvcc_request_shape shape_of_case(const json_t *c) {
    uvcc_request_shape s = {.entry = (uint32_t)test_u64(c, "entry"),
                            .in_rows = (uint32_t)test_u64(c, "in_rows"),
                            .in_cols = (uint32_t)test_u64(c, "in_cols"),
                            .out_rows = (uint32_t)test_u64(c, "out_rows"),
                            .out_cols = (uint32_t)test_u64(c, "out_cols"),
                            .key_cols = (uint32_t)test_u64(c, "key_cols"),
                            .key_bits = (uint32_t)test_u64(c, "key_bits")};
    test_hex_n(test_str(c, "terms"), s.terms, sizeof s.terms);
    return s;
}

static void integers_of(const json_t *c, const char *name, int64_t *out) {
    const json_t *all = json_object_get(c, name);
    for (size_t i = 0; i < json_array_size(all); i++)
        out[i] = json_integer_value(json_array_get(all, i));
}

/* What was drawn, and no more. */
typedef struct script {
    uint8_t *bytes;
    size_t len, at;
} script;
static int read_script(void *user, void *out, size_t n) {
    script *s = user;
    if (n > s->len - s->at)
        return -1;
    memcpy(out, s->bytes + s->at, n);
    s->at += n;
    return 0;
}

/* The client's messages, one to each party, byte for byte. */
static void client_says(world *w, const json_t *c) {
    script s = {0};
    int64_t values[8], numbers[8];
    s.len = test_hex(test_str(c, "random"), &s.bytes);
    integers_of(c, "values", values);
    integers_of(c, "numbers", numbers);
    uvcc_request_config cfg = {.size = sizeof cfg,
                               .alloc = test_allocator(&w->mem),
                               .random = {read_script, &s},
                               .shape = shape_of_case(c),
                               .values = values,
                               .numbers = numbers};
    test_hex_n(test_str(c, "sid_job"), cfg.sid_job, 32);
    uvcc_request_free(w->r);
    assert_int_equal(uvcc_request_new(&w->r, &cfg), 0);
    assert_int_equal(s.at, s.len);
    free(s.bytes);
    for (uint8_t p = 0; p < PARTIES; p++) {
        uvcc_dialog_message m;
        uint8_t *want;
        const size_t n =
            test_hex(json_string_value(json_array_get(json_object_get(c, "sent"), p)), &want);
        assert_int_equal(uvcc_request_opened(w->r, p), 0);
        assert_int_equal(uvcc_request_turn(w->r, p, w->to[p], w->now), 0);
        carry(w, w->to[p], w->from[p]);
        assert_int_equal(uvcc_dialog_receive(w->from[p], &m, w->now), 1);
        assert_int_equal(m.len, n);
        assert_memory_equal(m.data, want, n);
        assert_int_equal(uvcc_dialog_release(w->from[p], &m, w->now), 0);
        free(want);
    }
    uvcc_request_free(w->r);
    w->r = NULL;
}

/* What a party hears of these bytes. */
static void party_hears(world *w, const json_t *c, unsigned p) {
    const json_t *digests = json_object_get(c, "digests");
    const uvcc_request_shape s = shape_of_case(c);
    uvcc_service_job j;
    uint8_t *m, want[32];
    const size_t n = test_hex(json_string_value(json_array_get(json_object_get(c, "sent"), p)), &m);
    assert_int_equal(uvcc_dialog_send(w->to[p], m, n, w->now), 0);
    carry(w, w->to[p], w->from[p]);
    assert_int_equal(uvcc_service_turn(w->s[p], w->number[p], w->from[p], w->now), 0);
    assert_int_equal(uvcc_service_next(w->s[p], &j), 1);
    assert_memory_equal(&j.shape, &s, sizeof s);
    test_hex_n(json_string_value(json_array_get(digests, p)), want, 32);
    assert_memory_equal(j.digest_lo, want, 32);
    test_hex_n(json_string_value(json_array_get(digests, (p + 1) % 3)), want, 32);
    assert_memory_equal(j.digest_hi, want, 32);
    const uint8_t *body = m + UVCCI_PIECE_HEAD + UVCCI_REQUEST_HEAD;
    const size_t half = (n - UVCCI_PIECE_HEAD - UVCCI_REQUEST_HEAD) / 2;
    const size_t values = 8 * (size_t)s.in_rows * s.in_cols;
    assert_memory_equal(j.keys_lo, body + values, half - values);
    assert_memory_equal(j.keys_hi, body + half + values, half - values);
    if (values != 0) {
        assert_memory_equal(j.lo, body, values);
        assert_memory_equal(j.hi, body + half, values);
    }
    assert_int_equal(uvcc_service_answer(w->s[p], j.token, UVCC_REQUEST_DROPPED, NULL, NULL, 0), 0);
    free(m);
}

/* client_keys.json, of a program that is not this one. */
static void test_key_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("client_keys.json"), *c;
    size_t i;
    json_array_foreach(json_object_get(v, "requests"), i, c) {
        world w;
        open_world(&w);
        settle(&w);
        client_says(&w, c);
        test_hex_n(test_str(c, "client_key"), w.key[PARTIES], 32);
        for (unsigned p = 0; p < PARTIES; p++) {
            new_service(&w, p);
            party_hears(&w, c, p);
        }
        close_world(&w);
    }
    assert_int_equal(i, 2);
    json_decref(v);
}

static uvcc_request_shape shape_of_keys(uint32_t cols, uint32_t key_cols, uint32_t key_bits) {
    uvcc_request_shape s = shape_of(3, cols);
    s.out_rows = s.out_cols = 1;
    s.key_cols = key_cols;
    s.key_bits = key_bits;
    return s;
}

/* Any change of what two parties both have shows in their digests; a root is one party's alone. */
static void test_unequal_keys(void **state) {
    (void)state;
    enum { KEY_WORDS = 7 + 2, PART = 3 * (1 + KEY_WORDS), BODY = UVCCI_REQUEST_HEAD + 16 * PART };
    const uvcc_request_shape s = shape_of_keys(1, 1, 3);
    for (unsigned at = 0; at < PART; at++) {
        const uint8_t id[16] = {9};
        world w;
        open_world(&w);
        settle(&w);
        w.idle = true;
        for (unsigned p = 0; p < PARTIES; p++) {
            const uvcc_allocator al = test_allocator(&w.mem);
            uint8_t bytes[BODY] = {0};
            uvcci_body b = {.bytes = bytes, .total = BODY};
            uvcci_put_shape(&s, bytes);
            bytes[UVCCI_REQUEST_HEAD + 8 * at] = p == 1;
            assert_int_equal(
                uvcci_body_send(&b, UVCCI_REQUEST_ASKS, (uint8_t)p, id, &al, w.to[p], w.now), 1);
        }
        settle(&w);
        const job *a = job_of(&w, 0, id), *b = job_of(&w, 1, id), *c = job_of(&w, 2, id);
        assert_true(a != NULL && b != NULL && c != NULL);
        assert_int_equal(memcmp(a->j.digest_hi, b->j.digest_lo, 32) == 0, at >= 3 + 3 * 7);
        assert_memory_equal(b->j.digest_hi, c->j.digest_lo, 32);
        close_world(&w);
    }
}

/* Shapes of keys that are none, and bodies of another length, are refused by each party alone. */
static void test_bad_keys(void **state) {
    (void)state;
    enum { FORM = UVCCI_PIECE_HEAD + 28 };
    static const struct {
        uint32_t cols, key_cols, key_bits;
        uint8_t form;
        int more; /* bytes */
    } bad[] = {{1, 1, 3, 1, -8},
               {1, 1, 3, 1, 8},
               {1, 1, 3, 0, 0},
               {1, 1, 3, 2, 0},
               {1, 0, 0, 1, 0},
               {1, 0, 3, 0, 0},
               {1, 0, 3, 1, 0},
               {1, 1, 0, 1, 0},
               {1, 1, 33, 1, 0},
               {1, UINT32_MAX, 3, 1, 0},
               {0, 0, 0, 0, 0},
               {UINT32_MAX, 1, 3, 1, 0},
               {0, 4294836226, 2, 1, 16 * (12 - 30)}};
    const uint32_t wrapped = 2147549185; /* rows of the last one: words of keys are 12 mod 2^64 */
    world w;
    open_world(&w);
    settle(&w);
    for (uint8_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        uint8_t m[1024] = {'U', 'V', 'R', 'Q', 2};
        uvcc_request_shape s = shape_of_keys(bad[k].cols, bad[k].key_cols, bad[k].key_bits);
        const size_t len = UVCCI_REQUEST_HEAD + 16 * 3 * (1 + 9) + (size_t)bad[k].more;
        if (k + 1 == sizeof bad / sizeof bad[0])
            s.in_rows = wrapped;
        m[8] = (uint8_t)(k + 1);
        m[24] = (uint8_t)len;
        m[25] = (uint8_t)(len >> 8);
        uvcci_put_shape(&s, m + UVCCI_PIECE_HEAD);
        m[FORM] = bad[k].form;
        assert_int_equal(uvcc_dialog_send(w.to[0], m, UVCCI_PIECE_HEAD + len, w.now), 0);
        settle(&w);
        uvcc_dialog_message a;
        assert_int_equal(uvcc_dialog_receive(w.to[0], &a, w.now), 1);
        assert_int_equal(a.data[UVCCI_PIECE_HEAD], UVCC_REQUEST_REFUSED);
        assert_int_equal(uvcc_dialog_release(w.to[0], &a, w.now), 0);
    }
    uvcc_service_job j;
    assert_int_equal(uvcc_service_next(w.s[0], &j), 0);
    ask(&w, 2, 2); /* and the client is served as before */
    check_done(&w, 2, 2);
    close_world(&w);
}

static void test_key_calls(void **state) {
    (void)state;
    world w;
    open_world(&w);
    uvcc_request *r = NULL;
    const int64_t numbers[3] = {0, 7, 8}, values[3] = {0};
    uvcc_request_config c = {.size = sizeof c,
                             .alloc = test_allocator(&w.mem),
                             .random = test_random(&w.dice),
                             .shape = shape_of_keys(1, 1, 3),
                             .values = values,
                             .numbers = numbers,
                             .sid_job = {1}};
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_BOUND);
    c.shape.key_bits = 33;
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_LIMIT);
    c.shape.key_bits = 4;
    c.numbers = NULL;
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_USAGE);
    c.numbers = numbers;
    memset(c.sid_job, 0, 32);
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_USAGE);
    c.sid_job[0] = 1;
    c.shape.in_cols = 0; /* numbers alone */
    c.values = NULL;
    assert_int_equal(uvcc_request_new(&r, &c), 0);
    uvcc_request_free(r);
    c.shape.key_cols = c.shape.key_bits = 0;
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_USAGE); /* of whom are the numbers? */
    c.numbers = NULL;
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_LIMIT);
    close_world(&w);
}

/* What a token takes at each party, of models that docs/clients.md names, and 128 of BERT. */
static void test_bytes_of_a_token(void **state) {
    (void)state;
    static const struct {
        uint32_t rows, in_cols, key_cols, key_bits;
        uint64_t bytes;
    } all[] = {{1, 0, 2, 15, 1056},          {1, 0, 1, 16, 560},       {1, 0, 2, 9, 672},
               {1, 30522 + 2, 0, 0, 488384}, {1, 50257, 0, 0, 804112}, {1, 257 + 2, 0, 0, 4144},
               {1, 768, 0, 0, 12288},        {128, 1, 2, 15, 137216}};
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        const uvcc_request_shape s = {.in_rows = all[i].rows,
                                      .in_cols = all[i].in_cols,
                                      .out_rows = 1,
                                      .out_cols = 1,
                                      .key_cols = all[i].key_cols,
                                      .key_bits = all[i].key_bits};
        assert_int_equal(uvcci_request_bytes(&s), UVCCI_REQUEST_HEAD + all[i].bytes);
    }
}

/* Whichever call for memory fails: the client has its values, or is told to ask later. */
static void test_short_of_memory(void **state) {
    (void)state;
    unsigned busy = 0, failed = 0;
    for (unsigned from = 0; from < 2; from++)
        for (unsigned at = 1; at < 120; at++) {
            world w;
            open_world(&w);
            if (from == 1)
                settle(&w);
            ask(&w, 3, 5);
            w.short_of = true;
            w.mem.fail_at = at;
            for (unsigned t = 0;
                 t < 20000 && state_of(&w).missing != 0 && state_of(&w).kind != UVCC_REQUEST_FAILED;
                 t++)
                turn(&w);
            failed += w.mem.fail_at == 0;
            w.mem.fail_at = 0;
            if (state_of(&w).kind == UVCC_REQUEST_FAILED) {
                busy++;
                for (unsigned p = 0; p < PARTIES; p++)
                    assert_true(state_of(&w).status[p] == UVCC_REQUEST_OK ||
                                state_of(&w).status[p] == UVCC_REQUEST_BUSY);
                ask(&w, 3, 5);
            }
            check_done(&w, 3, 5);
            close_world(&w);
        }
    assert_true(busy != 0 && failed > 100);
}

static void test_calls(void **state) {
    (void)state;
    world w;
    open_world(&w);
    w.idle = true;
    ask(&w, 2, 2);
    settle(&w);
    uint8_t id[16];
    assert_int_equal(uvcc_request_id(w.r, id), 0);
    const uint64_t token = job_of(&w, 0, id)->j.token, v[4] = {0};
    assert_int_equal(uvcc_service_answer(w.s[0], token + 1, UVCC_REQUEST_DROPPED, NULL, NULL, 0),
                     UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_service_answer(w.s[0], token, UVCC_REQUEST_OK, v, v, 3), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_service_answer(w.s[0], token, UVCC_REQUEST_OK, v, NULL, 4),
                     UVCC_ERR_USAGE);
    assert_int_equal(uvcc_service_answer(w.s[0], token, UVCC_REQUEST_DROPPED, NULL, NULL, 0), 0);
    assert_int_equal(uvcc_service_answer(w.s[0], token, UVCC_REQUEST_DROPPED, NULL, NULL, 0),
                     UVCC_ERR_NOT_FOUND);
    uint32_t n = 9;
    assert_int_equal(uvcc_service_add(w.s[0], w.key[PARTIES], &n), 0);
    assert_int_equal(n, w.number[0]);
    uvcc_request *r = NULL;
    int64_t x = 0;
    uvcc_request_config c = {.size = sizeof c,
                             .alloc = test_allocator(&w.mem),
                             .random = test_random(&w.dice),
                             .shape = shape_of(0, 1),
                             .values = &x};
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_LIMIT);
    c.shape = shape_of(1u << 16, 1u << 16);
    assert_int_equal(uvcc_request_new(&r, &c), UVCC_ERR_LIMIT);
    close_world(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_clients_vanish),
        cmocka_unit_test(test_parties_vanish),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_unequal_requests),
        cmocka_unit_test(test_terms),
        cmocka_unit_test(test_why_of_others),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_answers_are_kept),
        cmocka_unit_test(test_gone_is_said_again),
        cmocka_unit_test(test_other_bytes),
        cmocka_unit_test(test_key_vectors),
        cmocka_unit_test(test_unequal_keys),
        cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_key_calls),
        cmocka_unit_test(test_bytes_of_a_token),
        cmocka_unit_test(test_short_of_memory),
        cmocka_unit_test(test_clients_vanish_between_pieces),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_late_answers),
        cmocka_unit_test(test_digest),
        cmocka_unit_test(test_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
