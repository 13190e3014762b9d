/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.h - carries what came to a session to where it belongs. */
#ifndef UVCCI_DISPATCH_H
#define UVCCI_DISPATCH_H

#include "exec/runtime/core.h"

/* After every input: until nothing moves any more, or the session failed. */
void uvcci_dispatch(uvcc_session *s);

#endif
