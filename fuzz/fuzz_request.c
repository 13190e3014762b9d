/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_request.c - a client's request and a party's service as a program of inputs: each hears the
 * other, and whatever the holder of the other's keys may say; dialogs that begin anew, answers,
 * memory that fails.
 *
 * Checks: a job has a shape and shares of its size, and is handed out once; what one client has is
 * bounded; a request that is done has an output; memory is given back. */
#include "common.h"

#include "proto/crypto.h"
#include <uvcc/client.h>
#include <uvcc/request.h>

enum {
    SERVICE = 0,
    CLIENT = 1,
    ACTIONS_MAX = 200,
    JOBS = 64,
    BYTES = 4096,
    HEAD = 40,
    BODY_HEAD = 112
};

typedef struct world {
    fuzz_mem mem;
    fuzz_rng rng;
    uvcc_dialog_config cfg[2];
    uvcc_dialog *d[2];
    uvcc_service *s;
    uvcc_request *r;
    uvcc_service_job job[JOBS];
    unsigned jobs;
    uint32_t client;
    uint64_t tokens, now;
} world;

static bool fails(const world *w) {
    return w->mem.failed + w->rng.failed != 0;
}

static void reconnect(world *w) {
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link_stream_closed(uvcc_dialog_link(w->d[i]), w->now);
        uvcc_link_stream_opened(uvcc_dialog_link(w->d[i]), w->now);
    }
}

static void begin(world *w, unsigned i) {
    uvcc_dialog_free(w->d[i]);
    w->d[i] = NULL;
    while (uvcc_dialog_new(&w->d[i], &w->cfg[i], w->now) != 0)
        FUZZ_CHECK(fails(w));
}

static void events(world *w, unsigned i) {
    uvcc_dialog_event v;
    bool again = false;
    while (uvcc_dialog_poll_event(w->d[i], &v) == 1)
        if (v.kind == UVCC_DIALOG_LINK) {
            uvcc_link_free(v.old_link);
            again = true;
        } else if (i == SERVICE)
            FUZZ_CHECK(uvcc_service_opened(w->s, w->client) == 0);
        else if (w->r != NULL)
            FUZZ_CHECK(uvcc_request_opened(w->r, 0) == 0);
    if (again)
        reconnect(w);
}

static void carry(world *w, unsigned from) {
    uvcc_transmit tx;
    uvcc_link *a = uvcc_dialog_link(w->d[from]), *b = uvcc_dialog_link(w->d[1 - from]);
    bool broken = false;
    while (uvcc_link_poll_transmit(a, &tx, w->now) == 1) {
        for (uint32_t k = 0; k < tx.slice_count; k++)
            broken |= uvcc_link_feed(b, tx.slices[k].data, tx.slices[k].len, w->now) != 0;
        FUZZ_CHECK(uvcc_link_transmit_done(a, tx.id, tx.total, w->now) == 0);
    }
    if (broken) /* no memory; or frames of keys that one of them has no more */
        reconnect(w);
}

static void check_request(world *w) {
    uvcc_request_state st;
    int64_t v[64];
    if (w->r == NULL)
        return;
    FUZZ_CHECK(uvcc_request_get_state(w->r, &st) == 0);
    const int rc = uvcc_request_output(w->r, v, 2);
    FUZZ_CHECK(rc == (st.kind == UVCC_REQUEST_DONE ? 0 : UVCC_ERR_STATE));
    FUZZ_CHECK(st.kind != UVCC_REQUEST_DONE || st.missing == 0);
}

/* The one dialog is that of all three parties for the client: who says what is in the pieces. */
static void turn(world *w) {
    w->now += 50 * FUZZ_MS;
    for (unsigned i = 0; i < 2; i++) {
        uvcc_link *l = uvcc_dialog_link(w->d[i]);
        if (uvcc_link_next_deadline(l) <= w->now)
            uvcc_link_on_timer(l, w->now);
        FUZZ_CHECK(uvcc_dialog_turn(w->d[i], w->now) == 0 || fails(w));
        events(w, i);
    }
    const int rc = uvcc_service_turn(w->s, w->client, w->d[SERVICE], w->now);
    FUZZ_CHECK(rc == 0 || (rc == UVCC_ERR_NOMEM && fails(w)));
    for (uint8_t p = 0; p < UVCC_PARTIES && w->r != NULL; p++)
        FUZZ_CHECK(uvcc_request_turn(w->r, p, w->d[CLIENT], w->now) == 0 || fails(w));
    check_request(w);
    for (unsigned i = 0; i < 2; i++)
        carry(w, i);
}

static void take_job(world *w) {
    uvcc_service_job j;
    if (w->jobs == JOBS || uvcc_service_next(w->s, &j) != 1)
        return;
    const uint64_t n = (uint64_t)j.shape.in_rows * j.shape.in_cols;
    const uint64_t keys = (uint64_t)j.shape.in_rows * j.shape.key_cols *
                          (uvcc_client_key_words(j.shape.key_bits) + 2);
    FUZZ_CHECK(n + keys != 0 && n + keys <= BYTES / 16 && j.client == w->client);
    FUZZ_CHECK((j.keys_lo != NULL) == (j.shape.key_cols != 0));
    FUZZ_CHECK((uint64_t)j.shape.out_rows * j.shape.out_cols - 1 < BYTES / 16);
    for (unsigned k = 0; k < w->jobs; k++)
        FUZZ_CHECK(w->job[k].token != j.token && memcmp(w->job[k].id, j.id, 16) != 0);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) /* they are there to be read */
        sum += j.lo[i] ^ j.hi[i];
    for (uint64_t i = 0; j.keys_lo != NULL && i < keys; i++)
        sum += j.keys_lo[i] ^ j.keys_hi[i];
    w->tokens += sum & 1;
    w->job[w->jobs++] = j;
    FUZZ_CHECK(w->jobs <= 3); /* waiting_max */
}

static void answer(world *w, fuzz_in *in) {
    static const uint64_t zeros[BYTES / 16 + 1];
    const uint8_t status = fuzz_u8(in) % UVCC_REQUEST_STATUSES;
    if (w->jobs == 0)
        return;
    uvcc_service_job *j = &w->job[fuzz_u8(in) % w->jobs];
    const bool ok = status == UVCC_REQUEST_OK;
    const size_t n = ok ? (size_t)j->shape.out_rows * j->shape.out_cols : 0;
    FUZZ_CHECK(uvcc_service_answer(w->s, j->token, status, zeros, zeros, n + 1) == UVCC_ERR_USAGE);
    const int rc = status == UVCC_REQUEST_REFUSED
                       ? uvcc_service_refuse(w->s, j->token, fuzz_u8(in))
                       : uvcc_service_answer(w->s, j->token, status, zeros, zeros, n);
    FUZZ_CHECK(rc == 0 || (rc == UVCC_ERR_NOMEM && fails(w)));
    if (rc == 0) {
        FUZZ_CHECK(uvcc_service_answer(w->s, j->token, status, zeros, zeros, n) ==
                   UVCC_ERR_NOT_FOUND);
        *j = w->job[--w->jobs];
    }
}

static void ask(world *w, fuzz_in *in) {
    const int64_t v[3] = {1, -2, 3};
    const uvcc_request_config c = {.size = sizeof c,
                                   .alloc = fuzz_allocator(&w->mem),
                                   .random = fuzz_random(&w->rng),
                                   .shape = {.entry = fuzz_u8(in),
                                             .in_rows = 1,
                                             .in_cols = 3,
                                             .out_rows = 2,
                                             .out_cols = 1,
                                             .terms = {5}},
                                   .values = v};
    uvcc_request_free(w->r);
    w->r = NULL;
    FUZZ_CHECK(uvcc_request_new(&w->r, &c) == 0 || fails(w));
    for (uint8_t p = 0; p < UVCC_PARTIES && w->r != NULL; p++)
        FUZZ_CHECK(uvcc_request_opened(w->r, p) == 0);
}

/* A message out of the input: a piece in form, more or less. */
static void say(world *w, fuzz_in *in) {
    const uint8_t how = fuzz_u8(in), shape = fuzz_u8(in);
    const unsigned from = how & 1;
    const uint32_t rows = 1 + (shape & 3), cols = 1 + (shape >> 2 & 3);
    const bool keys = from == CLIENT && how & 8;
    const uint32_t bits = 1 + rows % 3, key = keys ? uvcc_client_key_words(bits) + 2 : 0;
    uint8_t m[HEAD + BODY_HEAD + 16 * 4 * (4 + 9)] = {'U', 'V', 'R',
                                                      'Q', 2,   (uint8_t)(from == SERVICE)};
    size_t len = from == CLIENT ? BODY_HEAD + (size_t)16 * rows * (cols + key)
                 : how & 8      ? 16
                                : 16 + 32;
    size_t got;
    m[6] = from == CLIENT ? 0 : (how >> 4) % 3;
    if (from == CLIENT || w->r == NULL)
        m[8] = how >> 4; /* few ids */
    else
        (void)uvcc_request_id(w->r, m + 8);
    m[24] = (uint8_t)len;
    m[25] = (uint8_t)(len >> 8);
    if (from == CLIENT) {
        m[HEAD + 4] = (uint8_t)rows;
        m[HEAD + 8] = (uint8_t)cols;
        m[HEAD + 12] = (uint8_t)(1 + (shape >> 4 & 3));
        m[HEAD + 16] = (uint8_t)(1 + (shape >> 6));
        m[HEAD + 20] = m[HEAD + 28] = keys;
        m[HEAD + 24] = keys ? (uint8_t)bits : 0;
    } else {
        m[HEAD] = how & 8 ? 1 + shape % 6 : 0;
        m[HEAD + 4] = how & 8 ? 0 : 2;
        m[HEAD + 8] = how & 8 ? 0 : 1;
        memset(m + HEAD + 16, shape & 1, 32);
    }
    len += HEAD;
    if (how & 2) { /* or not in form */
        for (unsigned k = fuzz_u8(in) & 7; k > 0; k--)
            m[fuzz_u8(in) % (HEAD + 32)] = fuzz_u8(in);
        if (how & 4) {
            const uint8_t *bytes = fuzz_take(in, fuzz_u8(in), &got);
            memcpy(m, bytes, got);
            len = got != 0 ? got : 1;
        }
    }
    const int rc = uvcc_dialog_send(w->d[from], m, len, w->now);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_STATE || rc == UVCC_ERR_AGAIN || fails(w));
}

static void act(world *w, fuzz_in *in) {
    const uint8_t what = fuzz_u8(in);
    switch (what & 15) {
    case 0:
        begin(w, what >> 7);
        reconnect(w);
        break;
    case 1:
        w->mem.fail_in = fuzz_u8(in) & 31;
        break;
    case 2:
    case 3:
        ask(w, in);
        break;
    case 4:
    case 5:
        take_job(w);
        break;
    case 6:
    case 7:
        answer(w, in);
        break;
    case 8:
        reconnect(w);
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        say(w, in);
        break;
    default:
        turn(w);
    }
}

static void configure(world *w) {
    const uvcc_allocator al = fuzz_allocator(&w->mem);
    uvcc_service_config c;
    uint8_t sk[64];
    for (unsigned i = 0; i < 2; i++) {
        uvcc_dialog_config_default(&w->cfg[i]);
        w->cfg[i].alloc = al;
        w->cfg[i].random = fuzz_random(&w->rng);
        w->cfg[i].client = i == CLIENT;
        memset(w->cfg[i].sid_job, 1, 32);
        memset(w->cfg[i].sign_seed, 2 + (int)i, 32);
    }
    for (unsigned i = 0; i < 2; i++)
        uvcci_sign_keypair(w->cfg[i].sign_seed, w->cfg[1 - i].peer_key, sk);
    uvcc_service_config_default(&c);
    c.alloc = al;
    c.clients_max = 1;
    c.waiting_max = 3;
    c.kept_max = 2;
    c.client_bytes = BYTES;
    FUZZ_CHECK(uvcc_service_new(&w->s, &c) == 0);
    FUZZ_CHECK(uvcc_service_add(w->s, w->cfg[SERVICE].peer_key, &w->client) == 0);
    for (unsigned i = 0; i < 2; i++)
        begin(w, i);
    reconnect(w);
    for (unsigned t = 0; t < 6; t++)
        turn(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world w;
    fuzz_in in = {data, size};
    memset(&w, 0, sizeof w);
    w.rng.state = fuzz_u8(&in);
    configure(&w);
    for (unsigned n = 0; n < ACTIONS_MAX && in.left > 0; n++)
        act(&w, &in);
    w.mem.fail_in = 0;
    for (unsigned t = 0; t < 4; t++)
        turn(&w);
    uvcc_request_free(w.r);
    uvcc_service_free(w.s);
    for (unsigned i = 0; i < 2; i++)
        uvcc_dialog_free(w.d[i]);
    FUZZ_CHECK(w.mem.live_blocks == 0 && w.mem.live_bytes == 0);
    return 0;
}
