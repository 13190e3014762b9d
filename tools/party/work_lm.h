/* SPDX-License-Identifier: Apache-2.0 */
/* work_lm.h - the language model of a job that trains one, as its "run" says it: read by the job
 * itself, and by jobs that use what it has kept. */
#ifndef UVCC_TOOLS_PARTY_WORK_LM_H
#define UVCC_TOOLS_PARTY_WORK_LM_H

#include <jansson.h>

#include "../lm/model.h"

typedef struct work_lm {
    lm_options o;
    uvcc_transformer_config cfg;
    uint64_t text_bytes;
    bool text_bytes_given;
} work_lm;

/* `job`: where the training's job stands, "job". An exit status after reporting. */
int work_lm_read(const char *job, const json_t *run, const lm_split *split, work_lm *out);
/* The same of a whole job, {"replicas": ..., "run": {...}}. */
int work_lm_read_job(const char *where, const json_t *job, work_lm *out);
/* A worker's program: an exit status after reporting. */
int work_lm_program(const char *job, const uvcc_transformer_config *cfg,
                    const uvcc_transformer_worker *at, uvcc_program **out);
/* A public value of a PERSIST tensor; `what` begins the message. One that is being set already was
 * asked for twice. */
int work_lm_set(uvcc_session *s, uint32_t tensor, const char *what, const int64_t *v);

#endif
