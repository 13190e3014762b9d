/* SPDX-License-Identifier: Apache-2.0 */
/* bundles.h - the bundles of a job's sessions as files, and the public keys beside them
 * (docs/audit.md).
 *
 *     DIR/public-keys                                       of the three parties
 *     DIR/lock                                              held while a process writes to DIR
 *     DIR/party-P/rRsStT/run-RRRRRR/step-SSSSSSSS.bundle    of each worker, run and step
 *     DIR/party-P/job/run-RRRRRR/step-SSSSSSSS.root         signed root over all workers, if there
 * are more than one
 *
 * A party keeps the tree of its own number and gives it to the auditor alone. Errors are reported
 * (report.h). */
#ifndef UVCC_TOOLS_BUNDLES_H
#define UVCC_TOOLS_BUNDLES_H

#include <stdbool.h>
#include <uvcc/audit.h>
#include <uvcc/session.h>

/* A worker's place, and a file of it. */
typedef struct bundle_place {
    uint8_t party;
    bool job; /* a root over all workers; r, s, t are 0 */
    uint16_t r, s, t;
    uint32_t run, step;
} bundle_place;
#define BUNDLE_NAME_BYTES 96u
/* The path below DIR. */
void bundle_name(const bundle_place *at, char out[BUNDLE_NAME_BYTES]);
/* "rRsStT"; false if it is not exactly such a name. */
bool bundle_parse_worker(const char *name, bundle_place *at);
/* "run-RRRRRR", "step-SSSSSSSS.bundle" or, for a job, "step-SSSSSSSS.root". */
bool bundle_parse_run(const char *name, bundle_place *at);
bool bundle_parse_step(const char *name, bundle_place *at);

/* 0, or an exit status after reporting. A file: "uvcc public keys v1" and, for each party, a line
 * with its number and 64 hexadecimal digits. */
int bundle_keys_read(const char *path, int status, uvcc_audit_keys *keys);

/* ---- writing ---- */

typedef struct bundles bundles;

typedef struct bundles_config {
    const char *dir;
    uint16_t replicas, stages, tp_ranks;
    uint32_t run;                        /* above 0: DIR may have bundles of earlier runs */
    uint8_t sign_seed[UVCC_PARTIES][32]; /* of the parties that run here */
    uvcc_audit_keys keys;
    bool patient; /* what the disk refuses is kept, for bundles_retry(), and is no failure */
} bundles_config;

/* Makes DIR, locks it until the end and writes the keys. A DIR that another process writes to, or
 * that has bundles of this run or a later one, or of other keys, is refused: evidence is not
 * written over. NULL after reporting. */
bundles *bundles_open(const bundles_config *c);
/* Every event of every session, when it is polled: writes the bundles that are complete, and the
 * root over all workers of a party once all of them have finished the step. An exit status. */
int bundles_event(bundles *b, const uvcc_session *s, const bundle_place *worker,
                  const uvcc_event *e);
/* Bundles that wait for the peers' AUDITs. A host goes on until there is none before it closes its
 * sessions. */
uint32_t bundles_waiting(const bundles *b);
/* Tries again what the disk refused; false: some of it is not there still, and text says why. A
 * host begins no step before. */
bool bundles_retry(bundles *b, char *text, size_t cap);
/* Before a session ends early: writes the bundles that wait, as far as they go. An exit status. */
int bundles_flush(bundles *b, const uvcc_session *s, const bundle_place *worker);
void bundles_close(bundles *b);

#endif
