/* fuzz_session.c - sessions as a program of inputs: three parties whose network, clock, executors
 * and hooks the fuzzer is. Its bytes choose what each session is fed, when timers fire, how much of
 * a transmit goes out, which jobs complete, late, twice, forged or failed, when clocks step back,
 * hooks fail, the host sets, steps, closes or aborts.
 *
 * Checks: opened values are right and roots agree whatever happened; nothing comes after CLOSED;
 * the answer to one input is bounded; all memory comes back. Where no hook failed, no job failed,
 * nobody stopped and nobody forged, a run without further faults comes to its end. */
#include "common.h"

#include "proto/bytes.h"
#include <uvcc/frame.h>
#include <uvcc/uvcc.h>

enum { ACTIONS_MAX = 250, PIPE_MAX = 96, JOBS_MAX = 64, OLD_MAX = 8, STEPS_MAX = 3 };
enum {
    ROWS = 2,
    INNER = 3,
    COLS = 2,
    IN_X = 1,
    IN_W = 2,
    OUT_Z = 10,
    OUT_A = 11,
    STATE = 12,
    OUT_B
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
} world;

/* ---- the program: Z = X W truncated, A = relu(Z), B = X W on a triple, all opened; and a kept
 * matrix ---- */

static const int64_t X[ROWS * INNER] = {4096, -8192, 100, 7, -70000, 12345};
static const int64_t W[INNER * COLS] = {9000, -1, -4096, 4096, 333, 60000};
static const int64_t KEPT[ROWS * COLS] = {1, -2, 3, -4};

static int64_t product(unsigned r, unsigned c) {
    int64_t sum = 0;
    for (unsigned i = 0; i < INNER; i++)
        sum += X[r * INNER + i] * W[i * COLS + c];
    return sum >> 12;
}

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                       uint8_t bits, uint8_t scale, uint8_t lifetime) {
    uvcc_tensor_desc d = {.name = name,
                          .rows = rows,
                          .cols = cols,
                          .bits = bits,
                          .scale = scale,
                          .lifetime = lifetime,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int rc = uvcc_program_tensor(p, &d);
    FUZZ_CHECK(rc >= 0);
    return (uint32_t)rc;
}

static const uvcc_program *program(void) {
    static uvcc_program *p;
    static fuzz_mem mem;
    if (p != NULL)
        return p;
    uvcc_allocator al = fuzz_allocator(&mem);
    FUZZ_CHECK(uvcc_program_new(&p, &al) == 0);
    uint32_t x = tensor(p, "X", ROWS, INNER, 20, 12, UVCC_TRANSIENT);
    uint32_t w = tensor(p, "W", INNER, COLS, 20, 12, UVCC_TRANSIENT);
    uint32_t z = tensor(p, "Z", ROWS, COLS, 36, 12, UVCC_TRANSIENT);
    uint32_t a = tensor(p, "A", ROWS, COLS, 36, 12, UVCC_TRANSIENT);
    uint32_t d = tensor(p, "D", ROWS, COLS, 1, 0, UVCC_TRANSIENT);
    uint32_t s = tensor(p, "S", ROWS, COLS, 20, 12, UVCC_PERSIST);
    uint32_t b = tensor(p, "B", ROWS, COLS, 36, 12, UVCC_TRANSIENT);
    FUZZ_CHECK(uvcc_program_entry(p, "run") == 0);
    FUZZ_CHECK(uvcc_program_input(p, IN_X, x, 0) >= 0 && uvcc_program_input(p, IN_W, w, 1) >= 0);
    uvcc_op_desc g = {.opcode = UVCC_OP_GEMM_SS,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {x, w},
                      .out = {z},
                      .shift = 12};
    uvcc_op_desc r = {
        .opcode = UVCC_OP_RELU, .k = 1, .in_count = 1, .out_count = 2, .in = {z}, .out = {a, d}};
    uvcc_op_desc on_triple = g;
    on_triple.k = 2;
    on_triple.out[0] = b;
    on_triple.flags = UVCC_OP_BEAVER;
    on_triple.truncation = UVCC_TRUNC_EXACT_DCF;
    FUZZ_CHECK(uvcc_program_op(p, &g) >= 0 && uvcc_program_op(p, &r) >= 0 &&
               uvcc_program_op(p, &on_triple) >= 0 && uvcc_program_output(p, OUT_B, b) >= 0);
    FUZZ_CHECK(uvcc_program_output(p, OUT_Z, z) >= 0 && uvcc_program_output(p, OUT_A, a) >= 0 &&
               uvcc_program_output(p, STATE, s) >= 0);
    FUZZ_CHECK(uvcc_program_finish(p, NULL, 0) == 0);
    return p;
}

/* ---- pipes ---- */

static void pipe_drop(pipe *p, uint32_t k) {
    free(p->p[k].data);
    p->count--;
    memmove(&p->p[k], &p->p[k + 1], (p->count - k) * sizeof p->p[0]);
}

static void pipe_clear(pipe *p) {
    while (p->count != 0)
        pipe_drop(p, p->count - 1);
}

static uint64_t clock_of(const world *w, unsigned i) {
    return w->now + w->at[i].skew;
}

static void stream(world *w, uint8_t i, uint8_t j, bool up) {
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

static void check_root(const world *w, unsigned i, const uvcc_event *e) {
    uint8_t *root = calm_run[w->how].root[i][e->step];
    if (!calm_run[w->how].known)
        memcpy(root, e->root, 32);
    else if (!w->forged) /* who forges a HELLO 1 may choose the run */
        FUZZ_CHECK(memcmp(root, e->root, 32) == 0);
}

static void events(world *w, unsigned i) {
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
            for (unsigned k = 0; k < ROWS * COLS; k++) {
                int64_t z = product(k / COLS, k % COLS);
                FUZZ_CHECK(v[k] == (e.id == OUT_Z || e.id == OUT_B ? z
                                    : e.id == OUT_A                ? (z > 0 ? z : 0)
                                                                   : KEPT[k]));
            }
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

static void out(world *w, uint8_t i, uint8_t partial) {
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
        if (p->count == PIPE_MAX)
            pipe_drop(p, 0);
        if (w->datagram || p->up)
            p->p[p->count++] = (packet){.data = fuzz_copy(buf, len), .len = len};
    }
}

/* Jobs run at once; their completions wait. */
static void jobs(world *w, unsigned i) {
    party *a = &w->at[i];
    const uvcc_job *job;
    uvcc_completion c;
    while (a->done_count < JOBS_MAX && uvcc_session_poll_job(a->s, &job) == 1) {
        FUZZ_CHECK(uvcc_cpu_submit(a->cpu, job) == 0);
        FUZZ_CHECK(uvcc_cpu_poll(a->cpu, &c) == 1);
        a->done[a->done_count++] = c;
    }
}

static void complete(world *w, unsigned i, uint32_t k, int status) {
    party *a = &w->at[i];
    uvcc_completion c = a->done[k];
    a->done[k] = a->done[--a->done_count];
    a->old[a->old_count++ % OLD_MAX] = c;
    c.status = status;
    if (status != 0)
        a->stopped = true;
    (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
}

static void feed(world *w, uint8_t i, uint8_t from, const uint8_t *data, size_t len) {
    uint8_t *copy = fuzz_copy(data, len);
    int err = uvcc_session_feed(w->at[i].s, from, copy, len, clock_of(w, i));
    free(copy);
    FUZZ_CHECK(err <= 0);
    if (err == UVCC_ERR_STREAM_BROKEN || (err == UVCC_ERR_NOMEM && !w->datagram)) {
        FUZZ_CHECK(!w->datagram);
        stream(w, i, from, true);
    }
}

static void deliver(world *w, uint8_t from, uint8_t to, uint32_t k, size_t first) {
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

static void ask(world *w, unsigned i) {
    party *a = &w->at[i];
    if (a->want == STEPS_MAX || uvcc_session_step(a->s, a->want, 0, clock_of(w, i)) != 0)
        return;
    if (i == 0)
        (void)uvcc_session_input(a->s, a->want, IN_X, X, clock_of(w, i));
    if (i == 1)
        (void)uvcc_session_input(a->s, a->want, IN_W, W, clock_of(w, i));
    a->want++;
}

static void settle(world *w) {
    for (uint8_t i = 0; i < 3; i++) {
        jobs(w, i);
        out(w, i, 0);
        events(w, i);
    }
}

/* One turn without faults. True if anything moved. */
static bool turn(world *w) {
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

static void advance(world *w) {
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

/* ---- hostile bytes ---- */

static void change(world *w, uint8_t from, uint8_t to, fuzz_in *in) {
    pipe *p = &w->pipe[from][to];
    uint8_t how = fuzz_u8(in), value = fuzz_u8(in);
    uint16_t where = fuzz_u16(in);
    if (p->count == 0)
        return;
    packet *one = &p->p[(how >> 4) % p->count];
    if (one->len < UVCC_FRAME_HEADER_BYTES)
        return;
    one->data[where % one->len] ^= value;
    size_t len = uvcci_ld32(one->data + 48);
    if ((how & 1) != 0 && len <= one->len - UVCC_FRAME_HEADER_BYTES) { /* a right CRC */
        uvcci_st32(one->data + 60,
                   uvcc_frame_crc(one->data, one->data + UVCC_FRAME_HEADER_BYTES, len));
    }
    w->forged = true; /* an unsealed HELLO may be changed for good, a stream may starve */
}

/* ---- the program of inputs ---- */

static void begin(world *w, uint8_t how) {
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
        FUZZ_CHECK(uvcc_session_set_public(a->s, 5, KEPT) == 0);
        uvcc_cpu_config x = {
            .size = sizeof x, .alloc = fuzz_allocator(&w->cpu_mem), .mode = UVCC_CPU_INLINE};
        FUZZ_CHECK(uvcc_cpu_new(&a->cpu, &x) == 0);
    }
    for (uint8_t i = 0; i < 3; i++)
        FUZZ_CHECK(uvcc_session_start(w->at[i].s, w->now) == 0);
    for (uint8_t i = 0; i < 3 && !w->datagram; i++)
        stream(w, i, (uint8_t)((i + 1) % 3), true);
}

static void host_call(world *w, uint8_t i, fuzz_in *in) {
    party *a = &w->at[i];
    uint8_t what = fuzz_u8(in);
    const uint8_t *data;
    size_t len;
    uint32_t step;
    uvcc_session_stats stats;
    uint8_t digest[32];
    uint64_t shares[ROWS * COLS] = {0};
    switch (what & 15) {
    case 0:
        if (uvcc_session_close(a->s, clock_of(w, i)) == 0)
            a->stopped = true;
        break;
    case 1:
        if (uvcc_session_abort(a->s, fuzz_u8(in), clock_of(w, i)) == 0)
            a->stopped = true;
        break;
    case 2: /* calls out of place: refused, or the same value again */
        (void)uvcc_session_set_public(a->s, what >> 4, KEPT);
        break;
    case 3:
        if (what >> 4 != 5) /* shares of something else would be opened */
            (void)uvcc_session_set_shares(a->s, what >> 4, shares, shares);
        break;
    case 4:
        FUZZ_CHECK(uvcc_session_step(a->s, 1000, 0, clock_of(w, i)) != 0);
        FUZZ_CHECK(uvcc_session_step(a->s, a->want, 9, clock_of(w, i)) != 0);
        FUZZ_CHECK(uvcc_session_input(a->s, a->want, 99, X, clock_of(w, i)) != 0);
        break;
    case 5:
        if (uvcc_session_checkpoint(a->s, &step, &data, &len) == 0) {
            uint8_t *copy = fuzz_copy(data, len);
            (void)uvcc_session_resume(a->s, copy, len);
            copy[fuzz_u16(in) % len] ^= 1;
            FUZZ_CHECK(uvcc_session_resume(a->s, copy, len) != 0);
            free(copy);
        }
        break;
    case 6:
        data = fuzz_take(in, what >> 4, &len);
        FUZZ_CHECK(uvcc_session_resume(a->s, data, len) != 0);
        break;
    case 7:
        (void)uvcc_session_start(a->s, clock_of(w, i));
        (void)uvcc_session_feed(a->s, i, digest, 0, clock_of(w, i));
        (void)uvcc_session_feed(a->s, 3, digest, 0, clock_of(w, i));
        break;
    default:
        uvcc_session_get_stats(a->s, &stats);
        FUZZ_CHECK(stats.memory_bytes <= stats.memory_peak_bytes);
        FUZZ_CHECK(stats.steps_finished == a->finished || a->aborted ||
                   stats.steps_finished <= STEPS_MAX);
        uvcc_session_digest(a->s, digest);
        (void)uvcc_session_root(a->s, digest);
        break;
    }
}

static void action(world *w, fuzz_in *in) {
    uint8_t op = fuzz_u8(in);
    uint8_t i = (op >> 4) % 3, j = (uint8_t)((i + 1 + (op >> 6 & 1)) % 3);
    party *a = &w->at[i];
    const uint8_t *p;
    uvcc_completion c;
    size_t len;
    uint64_t t;
    switch (op & 15) {
    case 0:
        for (int n = 0; n < 1 + (op >> 4); n++)
            if (!turn(w))
                advance(w);
        break;
    case 1:
        deliver(w, j, i, op >> 7, SIZE_MAX);
        break;
    case 2:
        deliver(w, j, i, op >> 7, fuzz_u8(in));
        break;
    case 3: /* lost, or delivered and kept */
        if (!w->datagram || w->pipe[j][i].count == 0)
            break;
        if (op & 128)
            feed(w, i, j, w->pipe[j][i].p[0].data, w->pipe[j][i].p[0].len);
        else
            pipe_drop(&w->pipe[j][i], 0);
        break;
    case 4:
        change(w, j, i, in);
        break;
    case 5: /* bytes of nobody */
        p = fuzz_take(in, op & 128 ? fuzz_u8(in) : 80, &len);
        w->forged = true;
        feed(w, i, j, p, len);
        break;
    case 6:
        advance(w);
        break;
    case 7:
        w->now += (uint64_t)fuzz_u8(in) << (12 + (op >> 4));
        (void)uvcc_session_on_timer(a->s, clock_of(w, i));
        break;
    case 8: /* its clock steps, and back */
        t = (uint64_t)fuzz_u8(in) << (12 + (op >> 6) * 6);
        if (op & 64)
            a->skew += t;
        else
            a->skew -= a->skew < t ? a->skew : t;
        break;
    case 9:
        if (a->done_count != 0)
            complete(w, i, (op >> 6) % a->done_count, 0);
        break;
    case 10: /* failed, stale or forged */
        if ((op & 64) != 0 && a->done_count != 0) {
            complete(w, i, 0, UVCC_ERR_JOB);
        } else if (a->old_count != 0) {
            c = a->old[fuzz_u8(in) % (a->old_count < OLD_MAX ? a->old_count : OLD_MAX)];
            if (op & 128)
                c.cookie ^= fuzz_u8(in);
            (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
        } else {
            c = (uvcc_completion){.id = fuzz_u8(in), .cookie = 100u + i};
            (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
        }
        break;
    case 11:
        ask(w, i);
        break;
    case 12:
        if (!w->datagram)
            stream(w, i, j, op & 128);
        break;
    case 13:
        if (op & 128)
            a->rng.fail_in = 1 + fuzz_u8(in);
        else
            w->mem.fail_in = 1 + (uint64_t)fuzz_u8(in);
        break;
    case 14:
        host_call(w, i, in);
        break;
    default:
        out(w, i, fuzz_u8(in));
        break;
    }
    settle(w);
}

static bool undisturbed(const world *w) {
    bool all = !w->forged && w->mem.failed == 0;
    for (unsigned i = 0; i < 3; i++)
        all = all && !w->at[i].stopped && w->at[i].rng.failed == 0;
    return all;
}

static bool all_closed(const world *w) {
    return w->at[0].closed && w->at[1].closed && w->at[2].closed;
}

/* Without faults: whoever can goes on to the last step (if to_end), then all close. */
static void finish(world *w, bool to_end) {
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

static void end(world *w, bool to_end) {
    finish(w, to_end);
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_cpu_free(w->at[i].cpu);
        uvcc_session_free(w->at[i].s);
        for (uint8_t j = 0; j < 3; j++)
            pipe_clear(&w->pipe[i][j]);
    }
    FUZZ_CHECK(w->mem.live_blocks == 0 && w->cpu_mem.live_blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world w;
    fuzz_in in = {data, size};
    uint8_t how = fuzz_u8(&in);
    if (!calm_run[how].known) {
        memset(&w, 0, sizeof w);
        begin(&w, how);
        end(&w, true);
        calm_run[how].known = true;
    }
    memset(&w, 0, sizeof w);
    begin(&w, how);
    settle(&w);
    for (int i = 0; i < ACTIONS_MAX && in.left != 0; i++)
        action(&w, &in);
    end(&w, (size & 1) == 0); /* that takes long: only every other size */
    return 0;
}
