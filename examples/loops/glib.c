/* SPDX-License-Identifier: Apache-2.0 */
/* glib.c - a host in GLib's main loop: one source that has the net's descriptor and its deadline.
 *
 * There is nothing here about reconnecting, about sockets that are full, or about checkpoints: the
 * net does the first two, the store of job.c the third. */
#include <glib-unix.h>
#include <glib.h>
#include <stdlib.h>

#include "job.h"

typedef struct host {
    GSource source; /* the first: GLib made it */
    job *j;
    GMainLoop *loop;
} host;

/* All that there is to do, then the time of what comes next. GLib's clock is the monotonic one in
 * microseconds: uvcc_host_now_ns() rounded up. */
static gboolean turn(GSource *source, GSourceFunc unused, gpointer user) {
    host *h = (host *)source;
    (void)unused;
    (void)user;
    if (!job_turn(h->j)) {
        g_main_loop_quit(h->loop);
        return G_SOURCE_REMOVE;
    }
    const uint64_t next = uvcc_net_deadline(job_net(h->j));
    g_source_set_ready_time(source, next == UVCC_NEVER ? -1 : (gint64)(next / 1000 + 1));
    return G_SOURCE_CONTINUE;
}

static gboolean on_signal(gpointer user) {
    g_main_loop_quit(user); /* the store can go on from whatever moment it is */
    return G_SOURCE_CONTINUE;
}

int main(int argc, char **argv) {
    static GSourceFuncs functions = {.dispatch = turn};
    job *j = job_open(argc, argv);
    if (j == NULL)
        return EXIT_FAILURE;
    host *h = (host *)g_source_new(&functions, sizeof *h);
    h->j = j;
    h->loop = g_main_loop_new(NULL, FALSE);
    (void)g_source_add_unix_fd(&h->source, uvcc_net_fd(job_net(j)), G_IO_IN);
    g_source_set_ready_time(&h->source, 0); /* the session was added: its first turn dials */
    (void)g_source_attach(&h->source, NULL);
    (void)g_unix_signal_add(SIGTERM, on_signal, h->loop);
    g_main_loop_run(h->loop);
    g_main_loop_unref(h->loop);
    g_source_destroy(&h->source);
    g_source_unref(&h->source);
    return job_close(j);
}
