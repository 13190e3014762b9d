/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h - shares of a PERSIST tensor on their way to the host. */
#ifndef UVCCI_SESSION_SHARES_H
#define UVCCI_SESSION_SHARES_H

#include "exec/runtime/core.h"

/* The public call of this name without its recording. */
int uvcci_session_shares(uvcc_session *s, uint32_t tensor, uint64_t *lo, uint64_t *hi);
/* A set's job is done. True: it was a read, which is dealt with. */
bool uvcci_read_done(uvcc_session *s, uvcci_set *set);
/* A step may change the tensor, or the session ends. */
void uvcci_read_forget(uvcc_session *s);

#endif
