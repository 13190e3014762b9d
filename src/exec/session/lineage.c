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

bool uvcci_lineage_known(const uvcc_session *s) {
    for (const uvcci_set *set = s->sets; set != NULL; set = set->next)
        if (set->tasks > 1)
            return false;
    return true;
}

/* H over those that were set, by tensor; false: none was. */
static bool take_public(uvcc_session *s, uint8_t out[32]) {
    uvcci_sha256 h;
    bool any = false;
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        if (!s->buffers[i].told)
            continue;
        if (!any)
            uvcci_sha256_init(&h);
        uvcci_sha256_update(&h, s->buffers[i].digest, 32);
        s->buffers[i].told = false;
        any = true;
    }
    if (any)
        uvcci_sha256_final(&h, out);
    return any;
}

/* Values are set between steps: who set any has finished the step before, and so has whom it agrees
 * with. */
void uvcci_lineage_said(uvcc_session *s, const uvcci_step *st, uint8_t out[32]) {
    uint8_t values[32];
    assert(uvcci_lineage_known(s));
    if (st->number == s->step && take_public(s, values)) {
        uvcci_lineage(s->lineage, UVCCI_LINEAGE_PUBLIC, s->run, st->number, s->run_nonce, values,
                      s->lineage);
        memcpy(out, s->lineage, 32);
        return;
    }
    memcpy(out, st->number == s->step ? s->lineage_before : s->lineage, 32);
}

void uvcci_lineage_forget(uvcc_session *s, uint32_t i) {
    if (s->buffers[i].digest != NULL)
        s->alloc.free(s->alloc.user, s->buffers[i].digest, 32, UVCC_MEM_STATE);
    s->buffers[i].digest = NULL;
}

void uvcci_lineage_step(uvcc_session *s, const uvcci_step *st, uint8_t what) {
    assert(st->number == s->step);
    memcpy(s->lineage_before, s->lineage, 32);
    uvcci_lineage(s->lineage_before, what, s->run, st->number, s->run_nonce, st->h_optable,
                  s->lineage);
}
