/* checkpoint.h - a model that is kept: each party's shares, each worker's in a file of its own,
 * encrypted under the party's key.
 *
 *     DIR/model.json                    the sizes; public
 *     DIR/lock                          held by the process that uses the directory
 *     DIR/party-P/key                   the party's storage key, mode 0600
 *     DIR/party-P/run                   the last run's number
 *     DIR/party-P/sks-refused           the step in which the check of a product failed, if one did
 *     DIR/party-P/rR-sS-tT.step-N       a worker's shares before step N; the last two are kept
 *
 * In a real job each directory party-P is at that party alone. */
#ifndef UVCC_TOOLS_LM_CHECKPOINT_H
#define UVCC_TOOLS_LM_CHECKPOINT_H

#include "job.h"

/* All return an exit status after reporting. Makes what is missing: the directories, keys and
 * model.json; takes the number of the run that begins (greater than all before) and writes it down.
 * Refuses a directory that has another model. *step: the last step that every worker of every party
 * has, 0: none. */
int lm_checkpoint_open(const char *dir, const uvcc_transformer_config *cfg, uint32_t *step,
                       uint32_t *run);
/* The directory is this process's until it ends: of two at once each would take the other's run's
 * number, and with it its pads. Of a model that is only read: before the number of its run. */
int lm_checkpoint_lock(const char *dir);
int lm_checkpoint_next_run(const char *dir, uint32_t *run);
/* The mark of a failed check: read, and written at every party. */
int lm_checkpoint_refused(const char *dir, job_refusal *out);
int lm_checkpoint_refuse(const char *dir, uint32_t step);
/* Hands the shares of `step` to the sessions, before they start. */
int lm_checkpoint_resume(job *j, const char *dir, uint32_t step);
/* The checkpoints that the step that was run last has made. */
int lm_checkpoint_write(const job *j, const char *dir);

/* The sizes of a kept model, to be completed by the caller. */
int lm_checkpoint_config(const char *dir, uvcc_transformer_config *cfg);
/* One worker's checkpoint; free() it. */
int lm_checkpoint_load(const char *dir, unsigned party, const uvcc_transformer_worker *at,
                       uint32_t step, uint8_t **bytes, size_t *len);
/* The last step that all workers of a model have. */
int lm_checkpoint_last(const char *dir, const uvcc_transformer_config *cfg, uint32_t *step);

#endif
