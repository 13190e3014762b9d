/* SPDX-License-Identifier: Apache-2.0 */
/* agree.h - the parts of a job that hosts want alike (uvcc_config_agree): their names, for people.
 * The handshake compares them (proto/hello.h). */
#ifndef UVCCI_AGREE_H
#define UVCCI_AGREE_H

#include "exec/runtime/core.h"

/* Takes the names of a checked configuration: what an event says of each part. */
void uvcci_agree_take(uvcc_session *s);
/* The text is one of these; logs know it without the name. */
bool uvcci_agree_is_text(const uvcc_session *s, const char *text);

#endif
