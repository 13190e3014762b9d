/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.h - three sessions whose network, clock and executors a target is: what fuzz_session.c
 * and fuzz_traitor.c share. They compute a small program, and every event is held to what may come
 * then. A target may alter what a party sends. */
#ifndef UVCC_FUZZ_SESSIONS_H
#define UVCC_FUZZ_SESSIONS_H

#include "common.h"

#include "proto/bytes.h"
#include <uvcc/frame.h>
#include <uvcc/uvcc.h>

enum { PIPE_MAX = 96, JOBS_MAX = 64, OLD_MAX = 8, STEPS_MAX = 3 };
enum {
    ROWS = 2,
    INNER = 3,
    COLS = 2,
    IN_X = 1,
    IN_W = 2,
    IN_N = 3,
    NUMBER_BITS = 5,
    OUT_Z = 10,
    OUT_A = 11,
    STATE = 12,
    OUT_B,
    OUT_E
};

typedef struct packet {
    uint8_t *data;
    size_t len;
} packet;

typedef struct pipe { /* from one party to another, oldest first */
    packet p[PIPE_MAX];
    uint32_t count;
    bool up;
} pipe;

typedef struct party {
    uvcc_session *s;
    fuzz_rng rng;
    uint64_t skew; /* of its clock */
    uvcc_cpu *cpu;
    uvcc_completion done[JOBS_MAX], old[OLD_MAX];
    uint32_t done_count, old_count;
    uint32_t want; /* steps asked for */
    uint32_t finished;
    bool ready, aborted, closed, stopped;
} party;

typedef struct world {
    party at[3];
    pipe pipe[3][3];
    uint64_t now;
    fuzz_mem mem, cpu_mem;
    bool datagram, forged, x25519;
    uint8_t how; /* the config */
    /* Takes what a party sends, instead of the pipe; NULL: the pipe does. */
    void (*alter)(struct world *w, uint8_t from, uint8_t to, const uint8_t *data, size_t len);
    bool traitor; /* a party lies: what is computed may be anything */
} world;

/* ---- the program: Z = X W truncated, A = relu(Z), B = X W on a triple, E = rows of a kept matrix
 * by one-hot keys, all opened; and the kept matrix ---- */

static const int64_t X[ROWS * INNER] = {4096, -8192, 100, 7, -70000, 12345};
static const int64_t W[INNER * COLS] = {9000, -1, -4096, 4096, 333, 60000};
static const int64_t KEPT[ROWS * COLS] = {1, -2, 3, -4};
static const int64_t NUMBERS[ROWS] = {1, 0};

static inline int64_t product(unsigned r, unsigned c) {
    int64_t sum = 0;
    for (unsigned i = 0; i < INNER; i++)
        sum += X[r * INNER + i] * W[i * COLS + c];
    return sum >> 12;
}

/* The element k of what is opened as `id`. */
static inline int64_t expected(uint32_t id, unsigned k) {
    const unsigned r = k / COLS, c = k % COLS;
    const int64_t z = product(r, c);
    switch (id) {
    case OUT_Z:
    case OUT_B:
        return z;
    case OUT_A:
        return z > 0 ? z : 0;
    case OUT_E:
        return KEPT[NUMBERS[r] * COLS + c];
    default:
        return KEPT[k];
    }
}

enum { T_X, T_W, T_Z, T_A, T_D, T_S, T_B, T_N, T_P, T_E, TENSORS };

#define FUZZ_TENSOR(called, r, c, wide, at, ...)                                                   \
    {                                                                                              \
        .name = (called), .rows = (r), .cols = (c), .bits = (wide), .scale = (at),                 \
        .in_buffer_of = UVCC_NO_TENSOR, __VA_ARGS__                                                \
    }

static const uvcc_tensor_desc TENSOR[TENSORS] = {
    [T_X] = FUZZ_TENSOR("X", ROWS, INNER, 20, 12, .lifetime = UVCC_TRANSIENT),
    [T_W] = FUZZ_TENSOR("W", INNER, COLS, 20, 12, .lifetime = UVCC_TRANSIENT),
    [T_Z] = FUZZ_TENSOR("Z", ROWS, COLS, 36, 12, .lifetime = UVCC_TRANSIENT),
    [T_A] = FUZZ_TENSOR("A", ROWS, COLS, 36, 12, .lifetime = UVCC_TRANSIENT),
    [T_D] = FUZZ_TENSOR("D", ROWS, COLS, 1, 0, .lifetime = UVCC_TRANSIENT),
    [T_S] = FUZZ_TENSOR("S", ROWS, COLS, 20, 12, .lifetime = UVCC_PERSIST),
    [T_B] = FUZZ_TENSOR("B", ROWS, COLS, 36, 12, .lifetime = UVCC_TRANSIENT),
    [T_N] = FUZZ_TENSOR("N", ROWS, 1, NUMBER_BITS, 0, .lifetime = UVCC_TRANSIENT,
                        .sharing = UVCC_ONE_HOT),
    [T_P] =
        FUZZ_TENSOR("P", ROWS, COLS, 36, 12, .lifetime = UVCC_TRANSIENT, .sharing = UVCC_ADDITIVE),
    [T_E] = FUZZ_TENSOR("E", ROWS, COLS, 36, 12, .lifetime = UVCC_TRANSIENT),
};

static inline void add_op(uvcc_program *p, uvcc_op_desc d) {
    FUZZ_CHECK(uvcc_program_op(p, &d) >= 0);
}

static inline void add_ops(uvcc_program *p) {
    uvcc_op_desc g = {.opcode = UVCC_OP_GEMM_SS,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {T_X, T_W},
                      .out = {T_Z},
                      .shift = 12};
    add_op(p, g);
    add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_RELU,
                             .k = 1,
                             .in_count = 1,
                             .out_count = 2,
                             .in = {T_Z},
                             .out = {T_A, T_D}});
    g.k = 2;
    g.out[0] = T_B;
    g.flags = UVCC_OP_BEAVER;
    g.truncation = UVCC_TRUNC_EXACT_DCF;
    add_op(p, g);
    add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_EMBED,
                             .k = 3,
                             .in_count = 2,
                             .out_count = 1,
                             .in = {T_N, T_S},
                             .out = {T_P}});
    add_op(p, (uvcc_op_desc){.opcode = UVCC_OP_RESHARE,
                             .k = 4,
                             .in_count = 1,
                             .out_count = 1,
                             .in = {T_P},
                             .out = {T_E}});
}

static const uvcc_program *program(void) {
    static uvcc_program *p;
    static fuzz_mem mem;
    if (p != NULL)
        return p;
    uvcc_allocator al = fuzz_allocator(&mem);
    FUZZ_CHECK(uvcc_program_new(&p, &al) == 0);
    for (int t = 0; t < TENSORS; t++)
        FUZZ_CHECK(uvcc_program_tensor(p, &TENSOR[t]) == t);
    FUZZ_CHECK(uvcc_program_entry(p, "run") == 0);
    FUZZ_CHECK(uvcc_program_input(p, IN_X, T_X, 0) >= 0);
    FUZZ_CHECK(uvcc_program_input(p, IN_W, T_W, 1) >= 0);
    FUZZ_CHECK(uvcc_program_input(p, IN_N, T_N, 2) >= 0);
    add_ops(p);
    static const uint32_t outputs[][2] = {
        {OUT_B, T_B}, {OUT_Z, T_Z}, {OUT_A, T_A}, {STATE, T_S}, {OUT_E, T_E}};
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        FUZZ_CHECK(uvcc_program_output(p, outputs[i][0], outputs[i][1]) >= 0);
    FUZZ_CHECK(uvcc_program_finish(p, NULL, 0) == 0);
    return p;
}

/* ---- pipes ---- */

static inline void pipe_drop(pipe *p, uint32_t k) {
    free(p->p[k].data);
    p->count--;
    memmove(&p->p[k], &p->p[k + 1], (p->count - k) * sizeof p->p[0]);
}

static inline void pipe_clear(pipe *p) {
    while (p->count != 0)
        pipe_drop(p, p->count - 1);
}

static inline void pipe_add(world *w, uint8_t from, uint8_t to, const uint8_t *data, size_t len) {
    pipe *p = &w->pipe[from][to];
    if (w->datagram && p->count == PIPE_MAX)
        pipe_drop(p, 0);
    if (p->count < PIPE_MAX && (w->datagram || p->up))
        p->p[p->count++] = (packet){.data = fuzz_copy(data, len), .len = len};
}

static inline uint64_t clock_of(const world *w, unsigned i) {
    return w->now + w->at[i].skew;
}

static inline void stream(world *w, uint8_t i, uint8_t j, bool up) {
    const uint8_t end[2] = {i, j};
    for (int k = 0; k < 2; k++) {
        uint8_t me = end[k], peer = end[1 - k];
        pipe_clear(&w->pipe[peer][me]);
        w->pipe[peer][me].up = up;
        (void)uvcc_session_peer_closed(w->at[me].s, peer, clock_of(w, me));
        if (up)
            (void)uvcc_session_peer_open(w->at[me].s, peer, clock_of(w, me));
    }
}

/* ---- a session's life ---- */

/* Roots of fault-free runs, by config, party and step, computed once. */
static struct {
    bool known;
    uint8_t root[3][STEPS_MAX][32];
} calm_run[256];

static inline void check_root(const world *w, unsigned i, const uvcc_event *e) {
    uint8_t *root = calm_run[w->how].root[i][e->step];
    if (!calm_run[w->how].known)
        memcpy(root, e->root, 32);
    else if (!w->forged && !w->traitor) /* who forges a HELLO 1 may choose the run */
        FUZZ_CHECK(memcmp(root, e->root, 32) == 0);
}

static inline void events(world *w, unsigned i) {
    party *a = &w->at[i];
    uvcc_event e;
    while (uvcc_session_poll_event(a->s, &e) == 1) {
        FUZZ_CHECK(!a->closed);
        switch (e.kind) {
        case UVCC_EVENT_READY:
            FUZZ_CHECK(!a->ready);
            a->ready = true;
            break;
        case UVCC_EVENT_OUTPUT: {
            const int64_t *v = uvcc_session_output(a->s, e.step, e.id);
            FUZZ_CHECK(v != NULL);
            for (unsigned k = 0; k < ROWS * COLS; k++)
                FUZZ_CHECK(w->traitor || v[k] == expected(e.id, k));
            break;
        }
        case UVCC_EVENT_STEP_FINISHED:
            FUZZ_CHECK(e.step == a->finished && e.step < STEPS_MAX);
            a->finished++;
            check_root(w, i, &e);
            break;
        case UVCC_EVENT_ABORTED:
            FUZZ_CHECK(!a->aborted && e.text != NULL && e.reason != 0);
            a->aborted = true;
            break;
        case UVCC_EVENT_CLOSED:
            a->closed = true;
            break;
        default:
            break;
        }
    }
}

static inline void out(world *w, uint8_t i, uint8_t partial) {
    static uint8_t buf[4 << 20];
    party *a = &w->at[i];
    uvcc_transmit t;
    for (uint32_t sent = 0; uvcc_session_poll_transmit(a->s, &t, clock_of(w, i)) == 1; sent++) {
        size_t len = 0;
        FUZZ_CHECK(t.peer < 3 && t.peer != i && sent < 2000); /* no storm */
        for (uint32_t k = 0; k < t.slice_count; k++) {
            FUZZ_CHECK(len + t.slices[k].len <= sizeof buf);
            memcpy(buf + len, t.slices[k].data, t.slices[k].len);
            len += t.slices[k].len;
        }
        FUZZ_CHECK(len == t.total && len != 0);
        pipe *p = &w->pipe[i][t.peer];
        if (!w->datagram && partial != 0)
            len = 1 + (len - 1) * partial / 256;
        partial = 0;
        FUZZ_CHECK(uvcc_session_transmit_done(a->s, t.peer, t.id + 1, len, clock_of(w, i)) < 0);
        FUZZ_CHECK(uvcc_session_transmit_done(a->s, t.peer, t.id, len, clock_of(w, i)) == 0);
        if (!w->datagram && p->count == PIPE_MAX) { /* too much under way: the connection breaks */
            stream(w, i, t.peer, true);
            continue;
        }
        if (w->alter != NULL)
            w->alter(w, i, t.peer, buf, len);
        else
            pipe_add(w, i, t.peer, buf, len);
    }
}

/* Jobs run at once; their completions wait. */
static inline void jobs(world *w, unsigned i) {
    party *a = &w->at[i];
    const uvcc_job *job;
    uvcc_completion c;
    while (a->done_count < JOBS_MAX && uvcc_session_poll_job(a->s, &job) == 1) {
        FUZZ_CHECK(uvcc_cpu_submit(a->cpu, job) == 0);
        FUZZ_CHECK(uvcc_cpu_poll(a->cpu, &c) == 1);
        a->done[a->done_count++] = c;
    }
}

static inline void complete(world *w, unsigned i, uint32_t k, int status) {
    party *a = &w->at[i];
    uvcc_completion c = a->done[k];
    a->done[k] = a->done[--a->done_count];
    a->old[a->old_count++ % OLD_MAX] = c;
    c.status = status;
    if (status != 0)
        a->stopped = true;
    (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
}

static inline void feed(world *w, uint8_t i, uint8_t from, const uint8_t *data, size_t len) {
    uint8_t *copy = fuzz_copy(data, len);
    int err = uvcc_session_feed(w->at[i].s, from, copy, len, clock_of(w, i));
    free(copy);
    FUZZ_CHECK(err <= 0);
    if (err == UVCC_ERR_STREAM_BROKEN || (err == UVCC_ERR_NOMEM && !w->datagram)) {
        FUZZ_CHECK(!w->datagram);
        w->now += w->traitor ? 10 * FUZZ_MS : 0; /* it may break again and again */
        stream(w, i, from, true);
    }
}

static inline void deliver(world *w, uint8_t from, uint8_t to, uint32_t k, size_t first) {
    pipe *p = &w->pipe[from][to];
    if (p->count == 0)
        return;
    k = w->datagram ? k % p->count : 0;
    packet one = p->p[k];
    p->p[k].data = NULL;
    pipe_drop(p, k);
    if (w->datagram || first >= one.len) {
        feed(w, to, from, one.data, one.len);
    } else {
        feed(w, to, from, one.data, first);
        if (p->up)
            feed(w, to, from, one.data + first, one.len - first);
    }
    free(one.data);
}

static inline void ask(world *w, unsigned i) {
    party *a = &w->at[i];
    if (a->want == STEPS_MAX || uvcc_session_step(a->s, a->want, 0, clock_of(w, i)) != 0)
        return;
    if (i == 0)
        (void)uvcc_session_input(a->s, a->want, IN_X, X, clock_of(w, i));
    if (i == 1)
        (void)uvcc_session_input(a->s, a->want, IN_W, W, clock_of(w, i));
    if (i == 2)
        (void)uvcc_session_input(a->s, a->want, IN_N, NUMBERS, clock_of(w, i));
    a->want++;
}

static inline void settle(world *w) {
    for (uint8_t i = 0; i < 3; i++) {
        jobs(w, i);
        out(w, i, 0);
        events(w, i);
    }
}

/* One turn without faults. True if anything moved. */
static inline bool turn(world *w) {
    bool moved = false;
    settle(w);
    for (uint8_t i = 0; i < 3; i++) {
        moved = moved || w->at[i].done_count != 0;
        while (w->at[i].done_count != 0)
            complete(w, i, 0, 0);
        for (uint8_t j = 0; j < 3; j++)
            for (uint32_t n = w->pipe[j][i].count; n != 0; n--, moved = true)
                deliver(w, j, i, 0, SIZE_MAX);
    }
    settle(w);
    return moved;
}

static inline void advance(world *w) {
    uint64_t next = UVCC_NEVER;
    for (uint8_t i = 0; i < 3; i++) {
        uint64_t t = uvcc_session_next_deadline(w->at[i].s);
        if (t != UVCC_NEVER && t <= clock_of(w, i))
            next = w->now;
        else if (t != UVCC_NEVER && t - w->at[i].skew < next)
            next = t - w->at[i].skew;
    }
    if (next != UVCC_NEVER && next > w->now)
        w->now = next;
    for (uint8_t i = 0; i < 3; i++)
        if (uvcc_session_next_deadline(w->at[i].s) <= clock_of(w, i))
            (void)uvcc_session_on_timer(w->at[i].s, clock_of(w, i));
}

/* ---- the beginning and the end ---- */

static inline void begin(world *w, uint8_t how) {
    uint8_t identity[3][32] = {{0}};
    w->how = how;
    w->datagram = how & 1;
    w->x25519 = how & 2;
    w->now = 1000 * FUZZ_MS;
    for (uint8_t i = 0; i < 3; i++) {
        static uint8_t known[3][32];
        if (known[i][0] == 0) { /* once: the public keys of the three */
            uvcc_config c;
            uvcc_session *s;
            FUZZ_CHECK(uvcc_config_default(&c, sizeof c) == 0);
            c.alloc = fuzz_allocator(&w->mem);
            c.random = fuzz_random(&w->at[i].rng);
            memset(c.identity.sid_job, 5, 32);
            memset(c.identity.sign_seed, 0x40 + i, 32);
            for (unsigned q = 0; q < 3; q++)
                memset(c.identity.pair_secret[q], 1 + (int)q, 32);
            FUZZ_CHECK(uvcc_session_new(&s, &c) == 0);
            memcpy(known[i], uvcc_session_public_key(s), 32);
            uvcc_session_free(s);
        }
        memcpy(identity[i], known[i], 32);
    }
    for (uint8_t i = 0; i < 3; i++) {
        party *a = &w->at[i];
        uvcc_config c;
        FUZZ_CHECK(uvcc_config_default(&c, sizeof c) == 0);
        a->rng.state = 77u + i;
        c.alloc = fuzz_allocator(&w->mem);
        c.random = fuzz_random(&a->rng);
        c.identity.party = i;
        c.links.suites = (how >> 2 & 3) % 3 == 0 ? 0 : (how >> 2 & 3) % 3;
        c.links.datagram = w->datagram;
        c.checks.audit_off = how & 16;
        c.identity.exchange_x25519 = w->x25519;
        c.cookie = 100u + i;
        c.resume.checkpoint_every = how >> 5 & 1;
        c.limits.jobs_max = how & 64 ? 4 : 0;
        c.limits.keys_gathered_bytes = i == 0 ? 0 : i == 1 ? 4096 : 1 << 20;
        c.resume.next_run = how & 128 ? (1u << 24) - 1 : 0;
        memset(c.identity.sid_job, 5, 32);
        memset(c.identity.sign_seed, 0x40 + i, 32);
        for (uint8_t q = 0; q < 3; q++)
            if (q != i) {
                memset(c.identity.pair_secret[q], 0x11 * (i + q), 32);
                memcpy(c.identity.peer_sign_key[q], identity[q], 32);
            }
        FUZZ_CHECK(uvcc_session_new(&a->s, &c) == 0);
        FUZZ_CHECK(memcmp(uvcc_session_public_key(a->s), identity[i], 32) == 0);
        FUZZ_CHECK(uvcc_session_load_program(a->s, program()) == 0);
        FUZZ_CHECK(uvcc_session_set_public(a->s, T_S, KEPT) == 0);
        uvcc_cpu_config x = {
            .size = sizeof x, .alloc = fuzz_allocator(&w->cpu_mem), .mode = UVCC_CPU_INLINE};
        FUZZ_CHECK(uvcc_cpu_new(&a->cpu, &x) == 0);
    }
    for (uint8_t i = 0; i < 3; i++)
        FUZZ_CHECK(uvcc_session_start(w->at[i].s, w->now) == 0);
    for (uint8_t i = 0; i < 3 && !w->datagram; i++)
        stream(w, i, (uint8_t)((i + 1) % 3), true);
}

static inline bool undisturbed(const world *w) {
    bool all = !w->forged && w->mem.failed == 0;
    for (unsigned i = 0; i < 3; i++)
        all = all && !w->at[i].stopped && w->at[i].rng.failed == 0;
    return all;
}

static inline bool all_closed(const world *w) {
    return w->at[0].closed && w->at[1].closed && w->at[2].closed;
}

/* Without faults: whoever can goes on to the last step (if to_end), then all close. */
static inline void finish(world *w, bool to_end) {
    w->mem.fail_in = 0;
    for (uint8_t i = 0; i < 3; i++) {
        w->at[i].rng.fail_in = 0;
        if (!w->datagram)
            stream(w, i, (uint8_t)((i + 1) % 3), true);
    }
    bool good = to_end && undisturbed(w);
    for (uint32_t n = 0; n < 3000; n++) {
        bool all = true;
        for (uint8_t i = 0; i < 3; i++) {
            ask(w, i);
            all = all && w->at[i].finished == STEPS_MAX;
        }
        if (all || !good)
            break;
        if (!turn(w))
            advance(w);
    }
    for (uint8_t i = 0; i < 3; i++) {
        FUZZ_CHECK(!good || (w->at[i].finished == STEPS_MAX && !w->at[i].aborted));
        if (uvcc_session_close(w->at[i].s, clock_of(w, i)) == 0)
            continue;
        (void)uvcc_session_abort(w->at[i].s, UVCC_ABORT_HOST, clock_of(w, i)); /* in a step */
        (void)uvcc_session_close(w->at[i].s, clock_of(w, i));
    }
    for (uint32_t n = 0; n < 3000 && !all_closed(w); n++)
        if (!turn(w))
            advance(w);
    FUZZ_CHECK(all_closed(w));
}

static inline void end(world *w, bool to_end) {
    finish(w, to_end);
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_cpu_free(w->at[i].cpu);
        uvcc_session_free(w->at[i].s);
        for (uint8_t j = 0; j < 3; j++)
            pipe_clear(&w->pipe[i][j]);
    }
    FUZZ_CHECK(w->mem.live_blocks == 0 && w->cpu_mem.live_blocks == 0);
}

#endif
