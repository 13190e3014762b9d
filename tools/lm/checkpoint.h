/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h - a model that is kept: each party's shares, each worker's in a file of its own,
 * encrypted under the party's key.
 *
 *     DIR/model.json                    what it was begun with (manifest.h); public. Of fine-tuning
 *                                       DIR/finetune.json (../finetune/manifest.h)
 *     DIR/lock                          held by the process that uses the directory
 *     DIR/party-P/key                   the party's storage key, mode 0600
 *     DIR/party-P/run                   the last run's number
 *     DIR/party-P/sks-refused           the step in which the check of a product failed, if one did
 *     DIR/party-P/rR-sS-tT.step-N       a worker's shares before step N; the last two or three stay
 *     DIR/party-P/rR-sS-tT.step-N.aside one that not all parties had when a run went on without it
 *
 * A party's checkpoint of step N is on the disk before its host agrees to step N + 1, and that of N
 * goes when step N + 2 has begun at it, so whenever processes end all parties have a step in
 * common. What a run needs of the directory and does not find is never made up for: it is refused.
 *
 * In a real job each directory party-P is at that party alone. */
#ifndef UVCC_TOOLS_LM_CHECKPOINT_H
#define UVCC_TOOLS_LM_CHECKPOINT_H

#include "job.h"
#include "manifest.h"

/* Where a run begins. */
typedef struct lm_start {
    bool resumes;  /* at `step`, from shares; false: at step 0, from the initial weights */
    bool extended; /* the schedule was another one once */
    uint32_t step, run;
} lm_start;

/* What a directory says that its model was begun with, and what is said of another. All return an
 * exit status after reporting. */
typedef struct lm_kept {
    void *user;
    const char *file;                                    /* its name */
    const uvcc_transformer_config *workers;              /* whose workers have shares */
    int (*read)(void *user, const char *dir, bool *any); /* *any: there is one */
    int (*write)(void *user, const char *dir);
    int (*compare)(void *user, const char *dir); /* with what was read; but for steps: */
    int (*steps)(void *user, const char *dir, uint32_t done);
} lm_kept;

/* All return an exit status after reporting. Makes what is missing in a directory without shares;
 * says the number of the run that begins, greater than all before. Refused: a
 * model that was begun with something else, but for more steps with `extend`; one that lacks a key,
 * the number of a run, model.json or a step that all parties have. */
int lm_checkpoint_open(const char *dir, const lm_manifest *want, bool extend, lm_start *out);
/* The same of any model that is kept; out->extended stays false. */
int lm_checkpoint_open_kept(const char *dir, const lm_kept *kept, lm_start *out);
/* The directory is this process's until it ends: of two at once each would take the other's run's
 * number, and with it its pads. Of a model that is only read: before the number of its run. */
int lm_checkpoint_lock(const char *dir);
int lm_checkpoint_next_run(const char *dir, uint32_t *run);
/* Writes it down, at every party: when nothing can be refused any more, so that one that is refused
 * is the same run the next time, and before anything is sent, since a run that was used may never
 * come again. */
int lm_checkpoint_take_run(const char *dir, uint32_t run);
/* The mark of a failed check: read, and written at every party. */
int lm_checkpoint_refused(const char *dir, job_refusal *out);
int lm_checkpoint_refuse(const char *dir, uint32_t step);
/* Hands the shares of `step` to the sessions, before they start. */
int lm_checkpoint_resume(const host *h, const char *dir, uint32_t step);
/* Takes an event of a step of training: writes the checkpoint that is ready, takes away those that
 * nobody needs any more. */
int lm_checkpoint_event(const char *dir, const host_worker *w, unsigned party, const uvcc_event *e);

/* The configuration of a kept model. */
int lm_checkpoint_config(const char *dir, uvcc_transformer_config *cfg);
/* One worker's checkpoint; free() it. */
int lm_checkpoint_load(const char *dir, unsigned party, const uvcc_transformer_worker *at,
                       uint32_t step, uint8_t **bytes, size_t *len);
/* The last step that all workers of a model have. *any: there are shares at all; if so, and no step
 * is all parties', that is said and refused. */
int lm_checkpoint_last(const char *dir, const uvcc_transformer_config *cfg, bool *any,
                       uint32_t *step);

#endif
