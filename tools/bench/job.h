/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - the file of --job: where the processes of the three parties find each other. All three
 * read the same one. */
#ifndef UVCC_TOOLS_BENCH_JOB_H
#define UVCC_TOOLS_BENCH_JOB_H

#include <jansson.h>
#include <uvcc/net.h>

#include "../flags.h"

typedef struct bench_job {
    json_t *root;
    const char *address[UVCC_PARTIES]; /* tcp:HOST:PORT, unix:PATH */
    const char *listen[UVCC_PARTIES];  /* where it listens, if that is another one; else NULL */
    uint32_t wait_s;                   /* how long a peer may be away */
    char text[UVCC_PARTIES][2][UVCC_NET_ADDRESS_BYTES]; /* of these */
} bench_job;

/* 0, or -1 and a line that begins with the file's name. bench_job_close() follows in any case. */
int bench_job_open(bench_job *j, const char *path, const flag_message *m);
void bench_job_close(bench_job *j);
/* "tcp" or "unix", of party 0. */
const char *bench_job_transport(const bench_job *j);
/* Whether all three run on one machine, as far as the addresses say it. */
bool bench_job_one_machine(const bench_job *j);

#endif
