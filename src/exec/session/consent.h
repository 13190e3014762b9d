/* SPDX-License-Identifier: Apache-2.0 */
/* consent.h - a session's policy, enforced at the calls of its host (calls.c): a program, a step or
 * an input that is not allowed is refused by name before the call does anything, so that it is as
 * if it had not been made. Logs do not have refused calls either, so they need no policy. */
#ifndef UVCCI_CONSENT_H
#define UVCCI_CONSENT_H

#include "exec/runtime/core.h"

/* Takes the policy of the session's configuration, and its hash for the AUDITs. 0, or
 * UVCC_ERR_CONFIG, which the log explains. */
int uvcci_consent_take(uvcc_session *s);
/* The policy_hash that a session of this configuration has. */
void uvcci_consent_hash(const uvcc_config *c, uint8_t out[32]);

/* A step, or an input, that limits may count; entry NULL: there is no policy, or the call will be
 * refused for something else. */
typedef struct uvcci_use {
    uvcc_policy_kind kind;
    const uvcci_entry *entry;
    uint32_t id;
} uvcci_use;

/* 0, or UVCC_ERR_REFUSED. What is wrong otherwise is the call's to say. */
int uvcci_consent_program(uvcc_session *s, const uvcc_program *p);
int uvcci_consent_step(uvcc_session *s, uint32_t entry, uvcci_use *u);
int uvcci_consent_input(uvcc_session *s, uint32_t step, uint32_t id, uvcci_use *u);
/* The call was taken: it counts. */
void uvcci_consent_count(uvcc_session *s, const uvcci_use *u);

#endif
