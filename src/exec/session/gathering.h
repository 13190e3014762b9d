/* SPDX-License-Identifier: Apache-2.0 */
/* gathering.h - keys that came are copied out of their messages, to where turns read them, ahead of
 * the turns: as far as limits.keys_gathered_bytes lets them in. */
#ifndef UVCCI_GATHERING_H
#define UVCCI_GATHERING_H

#include "exec/runtime/core.h"

/* Jobs of gathering that are out at a time: as many as keep the way to a device busy; the others of
 * the executor's streams are the turns'. */
enum { UVCCI_GATHERS_OUT = 2 };

/* Gathers what can be gathered now. True if anything changed. */
bool uvcci_gather_advance(uvcc_session *s);
void uvcci_gather_job_done(uvcc_session *s, uvcci_instance *r);

#endif
