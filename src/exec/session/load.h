/* SPDX-License-Identifier: Apache-2.0 */
/* load.h - a session takes its program. */
#ifndef UVCCI_LOAD_H
#define UVCCI_LOAD_H

#include "exec/runtime/core.h"

/* uvcc_session_load_program() without its recording. A failed load leaves a session that can only
 * be freed. */
int uvcci_session_load_program(uvcc_session *s, const uvcc_program *p);
/* uvcc_session_borrow_public(), of a session that is not recorded. */
int uvcci_session_borrow_public(uvcc_session *s, uvcc_session *from);

#endif
