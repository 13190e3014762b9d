/* SPDX-License-Identifier: Apache-2.0 */
/* calls.h - the public calls, which record themselves; what else of them is called from inside. */
#ifndef UVCCI_CALLS_H
#define UVCCI_CALLS_H

#include "exec/runtime/core.h"

/* uvcc_session_new() with a recorder; version goes into the log's header. */
int uvcci_session_new_recorded(uvcc_session **out, const uvcc_config *cfg, uvcc_slice version);
/* What a recorder takes of the allocator. */
size_t uvcci_recording_bytes(void);
/* What a completion brings from the party's other workers: where its collective puts it, and bytes
 * of each component (hi NULL: there is one). False: nothing that the session will look at. */
bool uvcci_session_local_result(uvcc_session *s, const uvcc_completion *c, uvcc_shares *out,
                                size_t *bytes);

#endif
