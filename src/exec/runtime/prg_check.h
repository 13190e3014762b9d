/* SPDX-License-Identifier: Apache-2.0 */
/* prg_check.h - no job goes out that reads a word of a key stream twice, where the configuration
 * (checks.prg_uses) or the build (-Dcheck_prg=true) wants that looked at. */
#ifndef UVCCI_PRG_CHECK_H
#define UVCCI_PRG_CHECK_H

#include "exec/runtime/core.h"

/* Notes what the tasks of a job of that op read. False: the session was aborted. */
bool uvcci_prg_check(uvcc_session *s, const uvcci_instance *r, const uvcc_task *tasks,
                     uint32_t count);
/* What a step noted goes with it. */
void uvcci_prg_check_forget(uvcci_step *st);
/* What the notes of a step take at most in which so many places are read. */
uint64_t uvcci_prg_check_bound(uint64_t places);

#endif
