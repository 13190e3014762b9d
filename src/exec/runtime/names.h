/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - tells the host's names hook (uvcc/names.h) what is used once; without a hook nothing is
 * worked out. */
#ifndef UVCCI_NAMES_H
#define UVCCI_NAMES_H

#include "exec/runtime/core.h"

/* The session's links tell of their nonces. */
void uvcci_names_link(uvcc_session *s, uvcc_link *l);
/* Tasks of an op's job that is about to go out. */
void uvcci_names_job(const uvcc_session *s, const uvcci_instance *r, const uvcc_task *tasks,
                     uint32_t count);
/* The triple that the op consumes. */
void uvcci_names_triple(const uvcc_session *s, const uvcci_instance *r, uint64_t id,
                        uint32_t maker_run);

#endif
