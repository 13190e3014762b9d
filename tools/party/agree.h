/* SPDX-License-Identifier: Apache-2.0 */
/* agree.h - what the three configurations must have alike, as the handshake compares it: the
 * members of "job" and of "job.run", in UVCC_AGREE_MAX parts. */
#ifndef UVCC_TOOLS_PARTY_AGREE_H
#define UVCC_TOOLS_PARTY_AGREE_H

#include <uvcc/session.h>

#include "config.h"

typedef struct party_agree {
    uvcc_config_agree parts; /* its names are those below */
    char name[UVCC_AGREE_MAX][UVCC_AGREE_NAME_MAX + 1];
} party_agree;

/* 0, or UVCC_ERR_NOMEM. `out` stays in its place. */
int agree_make(party_agree *out, const party_config *c);
/* What the work wants alike besides: work_kind.agree(). */
void agree_add(party_agree *out, const char *name, uint64_t value);

#endif
