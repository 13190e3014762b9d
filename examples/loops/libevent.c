/* SPDX-License-Identifier: Apache-2.0 */
/* libevent.c - a host in libevent: an event for the net's descriptor, a timer for its deadline.
 *
 * There is nothing here about reconnecting, about sockets that are full, or about checkpoints: the
 * net does the first two, the store of job.c the third. */
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "job.h"

typedef struct host {
    job *j;
    struct event_base *base;
    struct event *readable, *timer, *signal;
} host;

/* All that there is to do, then the timer for what comes next. */
static void on_anything(evutil_socket_t fd, short what, void *user) {
    host *h = user;
    (void)fd;
    (void)what;
    if (!job_turn(h->j)) {
        (void)event_base_loopbreak(h->base);
        return;
    }
    const int ms = uvcc_net_timeout_ms(job_net(h->j));
    const struct timeval wait = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    if (ms < 0)
        (void)evtimer_del(h->timer);
    else
        (void)evtimer_add(h->timer, &wait);
}

static void on_signal(evutil_socket_t number, short what, void *user) {
    const host *h = user;
    (void)number;
    (void)what;
    (void)event_base_loopbreak(h->base); /* the store can go on from whatever moment it is */
}

int main(int argc, char **argv) {
    host h = {.j = job_open(argc, argv)};
    if (h.j == NULL)
        return EXIT_FAILURE;
    h.base = event_base_new();
    if (h.base != NULL) {
        h.readable =
            event_new(h.base, uvcc_net_fd(job_net(h.j)), EV_READ | EV_PERSIST, on_anything, &h);
        h.timer = evtimer_new(h.base, on_anything, &h);
        h.signal = evsignal_new(h.base, SIGTERM, on_signal, &h);
    }
    if (h.readable != NULL && h.timer != NULL && h.signal != NULL &&
        event_add(h.readable, NULL) == 0 && event_add(h.signal, NULL) == 0) {
        on_anything(-1, 0, &h); /* the session was added: its first turn dials */
        (void)event_base_dispatch(h.base);
    }
    if (h.readable != NULL)
        event_free(h.readable);
    if (h.timer != NULL)
        event_free(h.timer);
    if (h.signal != NULL)
        event_free(h.signal);
    if (h.base != NULL)
        event_base_free(h.base);
    return job_close(h.j);
}
