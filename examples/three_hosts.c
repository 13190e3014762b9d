/* SPDX-License-Identifier: Apache-2.0 */
/* three_hosts.c - a host without a loop of its own: one process for each of three parties, over
 * TCP, Unix sockets or UDP, with or without TLS. loops/ has the same in other loops.
 *
 *     cc three_hosts.c loops/job.c loops/work.c $(pkg-config --cflags --libs uvcc-io libsodium)
 */
#include <stdlib.h>

#include "loops/job.h"

int main(int argc, char **argv) {
    job *j = job_open(argc, argv);
    if (j == NULL)
        return EXIT_FAILURE;
    while (job_wait(j)) {
    }
    return job_close(j);
}
