/* SPDX-License-Identifier: Apache-2.0 */
/* embed.c - the smallest complete host. Three parties of one triangle compute relu(X W), where P0
 * knows X and P1 knows W, and all three learn the result and nothing else.
 *
 * Here the three stand in one process and talk through Unix socket pairs, so that one command shows
 * it; each host touches only its own session, executor and sockets, and would do the same on a
 * machine of its own. Public headers only:
 *
 *     cc embed.c $(pkg-config --cflags --libs uvcc) -o embed
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <uvcc/uvcc.h>

#define FRAC_BITS 16
enum { ROWS = 2, INNER = 3, COLS = 2 };
enum { IN_X = 1, IN_W = 2, OUT_Y = 3 }; /* public ids of inputs and outputs */

static const double x_values[ROWS * INNER] = {1.5, -2.0, 0.25, 0.5, 1.0, -1.0};
static const double w_values[INNER * COLS] = {1.0, -0.5, 2.0, 0.25, -4.0, 8.0};
static const double expected[ROWS * COLS] = {0.0, 0.75, 6.5, 0.0};

struct host {
    uvcc_session *session;
    uvcc_cpu *cpu;
    uint8_t party;
    int fd[UVCC_PARTIES]; /* a socket to each peer; -1 at the own place */
    double result[ROWS * COLS];
    int closed, failed;
};

static void on_event(struct host *h, const uvcc_event *ev, uint64_t now);
static size_t send_some(int fd, const uvcc_transmit *tx);

/* README begin */
static int turn(struct host *h, uint64_t now) {
    static uint8_t bytes[65536];
    uvcc_session *s = h->session;
    uvcc_completion done;
    uvcc_event event;
    const uvcc_job *job;
    uvcc_transmit tx;
    int error = 0;

    for (uint8_t peer = 0; peer < UVCC_PARTIES && error == 0; peer++) { /* feed what came */
        ssize_t n = peer == h->party ? 0 : recv(h->fd[peer], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0) /* at 0: uvcc_session_peer_closed(), connect again, uvcc_session_peer_open() */
            error = uvcc_session_feed(s, peer, bytes, (size_t)n, now);
    }
    while (uvcc_cpu_poll(h->cpu, &done) == 1 && error == 0) /* complete what was computed */
        error = uvcc_session_complete(s, &done, now);
    if (now >= uvcc_session_next_deadline(s) && error == 0)
        error = uvcc_session_on_timer(s, now);
    while (uvcc_session_poll_event(s, &event) == 1) /* hear what happened */
        on_event(h, &event, now);
    while (uvcc_session_poll_job(s, &job) == 1 && error == 0) /* hand out what is to compute */
        error = uvcc_cpu_submit(h->cpu, job);
    while (uvcc_session_poll_transmit(s, &tx, now) == 1 && error == 0) { /* send */
        size_t sent = send_some(h->fd[tx.peer], &tx);
        error = uvcc_session_transmit_done(s, tx.peer, tx.id, sent, now);
        if (sent < tx.total)
            break; /* the socket is full: the rest is offered in a later turn */
    }
    return error; /* then wait for a socket, a completion or uvcc_session_next_deadline(s) */
}
/* README end */

/* As much of a transmit as the socket takes now. */
static size_t send_some(int fd, const uvcc_transmit *tx) {
    size_t sent = 0;
    for (uint32_t i = 0; i < tx->slice_count; i++) {
        const uvcc_slice *slice = &tx->slices[i];
        ssize_t n = send(fd, slice->data, slice->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        if (n < 0 || (size_t)n < slice->len)
            break;
    }
    return sent;
}

/* A party's private input as fixed-point integers. */
static int give_input(struct host *h, uint32_t id, const double *v, size_t n, uint64_t now) {
    int64_t fixed[ROWS * INNER + INNER * COLS];
    for (size_t i = 0; i < n; i++)
        fixed[i] = (int64_t)(v[i] * (1 << FRAC_BITS));
    return uvcc_session_input(h->session, 0, id, fixed, now);
}

/* The application: one step with one input each of P0 and P1, then close. */
static void on_event(struct host *h, const uvcc_event *ev, uint64_t now) {
    int error = 0;
    if (ev->kind == UVCC_EVENT_READY) {
        error = uvcc_session_step(h->session, ev->step, 0, now);
        if (error == 0 && h->party == 0)
            error = give_input(h, IN_X, x_values, ROWS * INNER, now);
        if (error == 0 && h->party == 1)
            error = give_input(h, IN_W, w_values, INNER * COLS, now);
    } else if (ev->kind == UVCC_EVENT_OUTPUT) {
        const int64_t *y = uvcc_session_output(h->session, ev->step, OUT_Y);
        for (size_t i = 0; y != NULL && i < ROWS * COLS; i++)
            h->result[i] = (double)y[i] / (1 << FRAC_BITS);
    } else if (ev->kind == UVCC_EVENT_STEP_FINISHED) {
        error = uvcc_session_close(h->session, now);
    } else if (ev->kind == UVCC_EVENT_ABORTED) {
        fprintf(stderr, "party %u: aborted: %s\n", h->party, ev->text);
        h->failed = 1;
        error = uvcc_session_close(h->session, now);
    } else if (ev->kind == UVCC_EVENT_CLOSED) {
        h->closed = 1;
    }
    if (error != 0) {
        fprintf(stderr, "party %u: %s\n", h->party, uvcc_error_text(error));
        h->failed = 1;
    }
}

/* A tensor of one step, in memory of its own; negative: an error. */
static int tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                  uint8_t scale) {
    return uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = name,
                                                      .rows = rows,
                                                      .cols = cols,
                                                      .bits = bits,
                                                      .scale = scale,
                                                      .lifetime = UVCC_TRANSIENT,
                                                      .in_buffer_of = UVCC_NO_TENSOR});
}

/* relu(X W) as data: the same calls at every party. */
static uvcc_program *make_program(void) {
    const uvcc_allocator alloc = uvcc_host_allocator();
    uvcc_program *p = NULL;
    char message[256] = "out of memory";
    if (uvcc_program_new(&p, &alloc) != 0)
        return NULL;
    int x = tensor(p, "X", ROWS, INNER, 20, FRAC_BITS);
    int w = tensor(p, "W", INNER, COLS, 20, FRAC_BITS);
    int z = tensor(p, "Z", ROWS, COLS, 26, FRAC_BITS);
    int y = tensor(p, "Y", ROWS, COLS, 26, FRAC_BITS);
    int d = tensor(p, "D", ROWS, COLS, 1, 0);
    if (x < 0 || w < 0 || z < 0 || y < 0 || d < 0 || uvcc_program_entry(p, "relu(XW)") < 0 ||
        uvcc_program_input(p, IN_X, (uint32_t)x, 0) < 0 ||
        uvcc_program_input(p, IN_W, (uint32_t)w, 1) < 0 ||
        uvcc_program_op(p, &(uvcc_op_desc){.name = "Z = X W",
                                           .opcode = UVCC_OP_GEMM_SS,
                                           .k = 0,
                                           .in_count = 2,
                                           .in = {(uint32_t)x, (uint32_t)w},
                                           .out_count = 1,
                                           .out = {(uint32_t)z},
                                           .shift = FRAC_BITS,
                                           .truncation = UVCC_TRUNC_EXACT}) < 0 ||
        uvcc_program_op(p, &(uvcc_op_desc){.name = "Y = relu(Z)",
                                           .opcode = UVCC_OP_RELU,
                                           .k = 1,
                                           .in_count = 1,
                                           .in = {(uint32_t)z},
                                           .out_count = 2,
                                           .out = {(uint32_t)y, (uint32_t)d}}) < 0 ||
        uvcc_program_output(p, OUT_Y, (uint32_t)y) < 0 ||
        uvcc_program_finish(p, message, sizeof message) != 0) {
        fprintf(stderr, "program: %s\n", message);
        uvcc_program_free(p);
        return NULL;
    }
    return p;
}

/* What a pair of parties, and the job, must know beforehand. A real deployment provisions it: the
 * secret of two parties is for these two alone. */
struct provisions {
    uint8_t sid_job[32], secret[UVCC_PARTIES][UVCC_PARTIES][32], sign_seed[UVCC_PARTIES][32];
};

static int start(struct host *h, const struct provisions *known, const uvcc_program *p,
                 uint64_t now) {
    uvcc_config cfg;
    const uvcc_cpu_config cpu = {
        .size = sizeof cpu, .alloc = uvcc_host_allocator(), .mode = UVCC_CPU_INLINE};
    int error = uvcc_config_default(&cfg, sizeof cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.identity.party = h->party;
    memcpy(cfg.identity.sid_job, known->sid_job, sizeof cfg.identity.sid_job);
    memcpy(cfg.identity.pair_secret, known->secret[h->party], sizeof cfg.identity.pair_secret);
    memcpy(cfg.identity.sign_seed, known->sign_seed[h->party], sizeof cfg.identity.sign_seed);
    if (error == 0)
        error = uvcc_cpu_new(&h->cpu, &cpu);
    if (error == 0)
        error = uvcc_session_new(&h->session, &cfg);
    if (error == 0)
        error = uvcc_session_load_program(h->session, p);
    if (error == 0)
        error = uvcc_session_start(h->session, now);
    for (uint8_t peer = 0; peer < UVCC_PARTIES && error == 0; peer++)
        if (peer != h->party)
            error = uvcc_session_peer_open(h->session, peer, now);
    return error;
}

static int make_provisions(struct provisions *known) {
    const uvcc_random random = uvcc_host_random();
    if (random.fill(random.user, known, sizeof *known) != 0)
        return -1;
    for (unsigned a = 0; a < UVCC_PARTIES; a++) /* the secret of a pair is one */
        for (unsigned b = 0; b < a; b++)
            memcpy(known->secret[a][b], known->secret[b][a], 32);
    return 0;
}

/* Sleeps until a socket of anybody is readable or a deadline has come; not while results wait. */
static void wait_for_work(const struct host *hosts) {
    struct pollfd fds[UVCC_PARTIES * UVCC_PARTIES];
    nfds_t n = 0;
    uint64_t now = uvcc_host_now_ns(), deadline = now + 100000000;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const uint64_t next = uvcc_session_next_deadline(hosts[p].session);
        deadline = next < deadline ? next : deadline;
        if (uvcc_cpu_pending(hosts[p].cpu) > 0)
            return;
        for (unsigned peer = 0; peer < UVCC_PARTIES; peer++)
            if (peer != p)
                fds[n++] = (struct pollfd){.fd = hosts[p].fd[peer], .events = POLLIN};
    }
    poll(fds, n, deadline > now ? (int)((deadline - now + 999999) / 1000000) : 0);
}

int main(void) {
    struct host hosts[UVCC_PARTIES] = {{.party = 0}, {.party = 1}, {.party = 2}};
    struct provisions known;
    uvcc_program *program = make_program();
    int error = program == NULL || make_provisions(&known) != 0;

    for (unsigned a = 0; a < UVCC_PARTIES; a++) {
        hosts[a].fd[a] = -1;
        for (unsigned b = 0; b < a && error == 0; b++) {
            int pair[2];
            error = socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
            hosts[a].fd[b] = pair[0];
            hosts[b].fd[a] = pair[1];
        }
    }
    for (unsigned p = 0; p < UVCC_PARTIES && error == 0; p++)
        error = start(&hosts[p], &known, program, uvcc_host_now_ns());
    while (error == 0 && !(hosts[0].closed && hosts[1].closed && hosts[2].closed)) {
        for (unsigned p = 0; p < UVCC_PARTIES && error == 0; p++)
            error = turn(&hosts[p], uvcc_host_now_ns());
        for (unsigned p = 0; p < UVCC_PARTIES && error == 0; p++)
            error = hosts[p].failed ? UVCC_ERR_ABORTED : 0;
        if (error == 0)
            wait_for_work(hosts);
    }
    if (error < 0)
        fprintf(stderr, "embed: %s\n", uvcc_error_text(error));

    int wrong = error != 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const double *y = hosts[p].result;
        if (error == 0)
            printf("P%u: relu(X W) = [%g %g; %g %g]\n", p, y[0], y[1], y[2], y[3]);
        for (unsigned i = 0; i < ROWS * COLS; i++)
            wrong |= y[i] < expected[i] || y[i] > expected[i];
        uvcc_session_free(hosts[p].session);
        uvcc_cpu_free(hosts[p].cpu);
        for (unsigned peer = 0; peer < UVCC_PARTIES; peer++)
            if (hosts[p].fd[peer] > 0)
                close(hosts[p].fd[peer]);
    }
    uvcc_program_free(program);
    return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
