/* SPDX-License-Identifier: Apache-2.0 */
/* libuv.c - a host in libuv: a poll handle for the net's descriptor, a timer for its deadline.
 *
 * There is nothing here about reconnecting, about sockets that are full, or about checkpoints: the
 * net does the first two, the store of job.c the third. */
#include <stdlib.h>
#include <uv.h>

#include "job.h"

typedef struct host {
    job *j;
    uv_poll_t poll;
    uv_timer_t timer;
    uv_signal_t signal;
} host;

static void on_timer(uv_timer_t *t);

/* All that there is to do, then the timer for what comes next. */
static void turn(host *h) {
    if (!job_turn(h->j)) {
        uv_stop(h->poll.loop);
        return;
    }
    const int ms = uvcc_net_timeout_ms(job_net(h->j));
    uv_update_time(h->timer.loop); /* the turn may have taken long */
    if (ms < 0)
        (void)uv_timer_stop(&h->timer);
    else
        (void)uv_timer_start(&h->timer, on_timer, (uint64_t)ms, 0);
}

static void on_timer(uv_timer_t *t) {
    turn(t->data);
}

static void on_readable(uv_poll_t *p, int status, int events) {
    (void)status;
    (void)events;
    turn(p->data);
}

static void on_signal(uv_signal_t *s, int number) {
    (void)number;
    uv_stop(s->loop); /* the store can go on from whatever moment it is */
}

static void close_handle(uv_handle_t *handle, void *user) {
    (void)user;
    uv_close(handle, NULL);
}

int main(int argc, char **argv) {
    uv_loop_t *loop = uv_default_loop();
    host h = {.j = job_open(argc, argv)};
    if (h.j == NULL)
        return EXIT_FAILURE;
    h.poll.data = h.timer.data = &h;
    int rc = uv_poll_init(loop, &h.poll, uvcc_net_fd(job_net(h.j)));
    if (rc == 0)
        rc = uv_timer_init(loop, &h.timer);
    if (rc == 0)
        rc = uv_signal_init(loop, &h.signal);
    if (rc == 0)
        rc = uv_signal_start(&h.signal, on_signal, SIGTERM);
    if (rc == 0)
        rc = uv_poll_start(&h.poll, UV_READABLE, on_readable);
    if (rc == 0) {
        turn(&h); /* the session was added: its first turn dials */
        (void)uv_run(loop, UV_RUN_DEFAULT);
    }
    uv_walk(loop, close_handle, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(loop);
    return job_close(h.j);
}
