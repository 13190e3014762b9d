/* SPDX-License-Identifier: Apache-2.0 */
/* lineage.c - see lineage.h. STEP of step m goes out after step m-2 is over, so it carries the
 * lineage before m-1: that is the latest which every party knows then, and a difference in m-1
 * shows in the STEP after. */
#include "exec/session/lineage.h"

#include "proto/ids.h"
#include <assert.h>
#include <string.h>

static const uint8_t zero[32];

bool uvcci_lineage_is_ours(const uint8_t lineage[32]) {
    return memcmp(lineage, zero, 32) == 0;
}

void uvcci_lineage_ready(uvcc_session *s) {
    assert(s->step == s->hello.step);
    uvcci_hello_nonce(&s->hello, s->run_nonce);
    s->tensors_here =
        s->loaded.step == s->step && memcmp(s->loaded.lineage, s->hello.lineage, 32) == 0;
    if (uvcci_lineage_is_ours(s->hello.lineage))
        uvcci_lineage(s->sid_sub, UVCCI_LINEAGE_BEGUN, s->run, s->step, s->run_nonce, zero,
                      s->lineage);
    else
        memcpy(s->lineage, s->hello.lineage, 32);
    memcpy(s->lineage_before, s->lineage, 32);
}

void uvcci_lineage_step(uvcc_session *s, const uvcci_step *st, uint8_t what) {
    assert(st->number == s->step);
    memcpy(s->lineage_before, s->lineage, 32);
    uvcci_lineage(s->lineage_before, what, s->run, st->number, s->run_nonce, st->h_optable,
                  s->lineage);
}
