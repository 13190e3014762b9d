/* SPDX-License-Identifier: Apache-2.0 */
/* work_drive.h - three parties that do a kind of work (tools/party/work.h) over the loopback
 * network, without processes: what `uvcc party` does with one, in a test. */
#ifndef UVCC_TESTS_WORK_DRIVE_H
#define UVCC_TESTS_WORK_DRIVE_H

#include <uvcc/loopback.h>

#include "run_tool.h"

#include "party/work.h"

typedef struct work_job {
    const work_kind *kind;
    uint16_t replicas, stages, tensor_ranks, sks;
    uint32_t microbatches;
    const char *run; /* JSON, as the members below: with ' for " */
    const char *data[UVCC_PARTIES], *output[UVCC_PARTIES]; /* NULL: not given */
    bool apart;                    /* each worker as in a process of its own */
    const char *store;             /* checkpoints after every step, in STORE-P; NULL: none */
    uint64_t seed;                 /* of keys and masks */
    uint32_t restart_after;        /* all sessions end after so many steps and begin anew, with a
                                      store where they were; 0: never */
    const uvcc_fault_config *path; /* between parties; NULL: the loopback's own */
    uint64_t *took_ns;             /* gets the time of all steps on the network's clock, in which
                                      computing takes none; may be NULL */
} work_job;

/* Runs it to its end, and merges the parts: the three results. */
void work_drive(const work_job *j, json_t *result[UVCC_PARTIES]);
/* Party p's open() must refuse it, and say a line with `part` in it. */
void work_refused(const work_job *j, unsigned p, const char *part);
/* JSON with ' for ". */
json_t *work_json(const char *text);

#endif
