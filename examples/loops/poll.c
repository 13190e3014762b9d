/* SPDX-License-Identifier: Apache-2.0 */
/* poll.c - a host in a loop of poll(): one descriptor and a timeout.
 *
 * There is nothing here about reconnecting, about sockets that are full, or about checkpoints: the
 * net does the first two, the store of job.c the third. A loop of its own watches more than one
 * descriptor: this one hears signals too, by a byte in a pipe. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "job.h"

static int signals[2]; /* a pipe */

static void on_signal(int number) {
    const char byte = (char)number;
    const int before = errno;
    (void)!write(signals[1], &byte, 1);
    errno = before;
}

int main(int argc, char **argv) {
    struct sigaction act = {.sa_handler = on_signal};
    if (pipe(signals) != 0 || sigaction(SIGINT, &act, NULL) != 0 ||
        sigaction(SIGTERM, &act, NULL) != 0)
        return EXIT_FAILURE;
    job *j = job_open(argc, argv);
    if (j == NULL)
        return EXIT_FAILURE;
    uvcc_net *net = job_net(j);
    struct pollfd fds[2] = {{.fd = uvcc_net_fd(net), .events = POLLIN},
                            {.fd = signals[0], .events = POLLIN}};
    while (job_turn(j)) {
        if (poll(fds, 2, uvcc_net_timeout_ms(net)) < 0 && errno != EINTR) {
            perror("poll");
            break;
        }
        /* The store can go on from whatever moment it is: so ending is just ending. */
        if ((fds[1].revents & POLLIN) != 0)
            break;
    }
    return job_close(j);
}
