/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - a transformer's job: R x S x T workers of each party (../host_loop.h), which run one step
 * after the other of an entry that the command names. */
#ifndef UVCC_TOOLS_LM_JOB_H
#define UVCC_TOOLS_LM_JOB_H

#include <uvcc/transformer.h>

#include "../host_loop.h"
#include "manifest.h"
#include "options.h"

/* A step that no session runs again unless an operator says so. */
typedef struct job_refusal {
    bool refused;
    uint32_t step;
} job_refusal;

typedef struct job_hooks {
    void *user;
    /* See host_hooks. */
    const int64_t *(*input)(void *user, const host_worker *w, uint32_t step, uint32_t id);
    /* The check of a product failed in this step; may be NULL. */
    void (*refused)(void *user, uint32_t step);
    /* See host_hooks; may be NULL. */
    int (*event)(void *user, const host_worker *w, unsigned party, const uvcc_event *e);
} job_hooks;

typedef struct job {
    const lm_options *o;
    const uvcc_transformer_config *cfg;
    const char *command; /* names the keys that follow from the seed */
    host host;
    const char *entry; /* of the step that is run */
    uint32_t step;     /* the next one */
    job_hooks hooks;
    job_refusal sks;
    const lm_manifest *manifest; /* what logs say of the programs; NULL: none are written */
    char *app;                   /* the last of that; the caller's to free() */
} job;

/* These return an exit status after reporting; EXIT_INTERRUPTED is the caller's to report.
 * `first_step`, `run`: 0 for a new job. host_end() follows in any case. */
int job_open(job *j, uint32_t first_step, uint32_t run);
/* The handshakes. Shares of a checkpoint are given before, public values after it. */
int job_start(job *j);
/* All workers run one step of the entry. */
int job_step(job *j, const char *entry, bool stops);

/* A PERSIST tensor's public value, by name. */
int job_set_public(job *j, host_worker *w, const char *name, const int64_t *v);
/* An output of the step that was run last, at the first party that it is open at; NULL if the
 * worker has none. */
const int64_t *job_output(const job *j, const host_worker *w, uint32_t id);
/* Where a worker stands in the model. */
uvcc_transformer_worker job_place(const host_worker *w);

/* What the TRANSIENT buffers of one worker can need at most, of the worker that needs the most: in
 * the entries that are run, and with `mb` not NULL as a share of each microbatch in flight. 0: not
 * known, since a program is too large to tell. */
uint64_t job_transient_bound(const job *j, uint64_t *mb);

#endif
