/* SPDX-License-Identifier: Apache-2.0 */
/* sched.c - the 1F1B order: warm-up forwards, one forward one backward, drain; and which of several
 * runnable ops is next. Stateless. */
#include "proto/sched.h"

#include <assert.h>
#include <uvcc/pipeline.h>

#include "proto/ids.h"

/* A stage is one byte and a microbatch two wherever ids are made of them. */
#define MAX_STAGES       256u
#define MAX_MICROBATCHES 65536u

static bool in_range(const uvcc_pipeline *p) {
    return p != NULL && p->stages <= MAX_STAGES && p->stage < p->stages && p->microbatches != 0 &&
           p->microbatches <= MAX_MICROBATCHES;
}

/* Forwards that run before the first backward's turn. */
static uint32_t warmup_of(const uvcc_pipeline *p) {
    uint64_t may_run = (uint64_t)(p->stages - 1 - p->stage) + p->ahead;
    return may_run < p->microbatches ? (uint32_t)may_run : p->microbatches;
}

uint32_t uvcc_pipeline_window(const uvcc_pipeline *p) {
    if (!in_range(p))
        return 0;
    uint32_t warmup = warmup_of(p);
    return warmup < p->microbatches ? warmup + 1 : warmup;
}

uint32_t uvcc_pipeline_slot(const uvcc_pipeline *p, uint8_t phase, uint32_t mb) {
    if (!in_range(p) || mb >= p->microbatches || phase > UVCCI_PHASE_BWD)
        return UINT32_MAX;
    uint32_t warmup = warmup_of(p);
    if (phase == UVCCI_PHASE_FWD) /* after the warm-up a backward stands before each */
        return mb < warmup ? mb : 2 * mb - warmup;
    uint32_t forwards = warmup + mb + 1;
    return mb + (forwards < p->microbatches ? forwards : p->microbatches);
}

uint64_t uvcc_pipeline_rank(bool feeds, uint8_t phase, uint16_t mb, uint16_t k) {
    bool update = phase > UVCCI_PHASE_BWD;
    return (uint64_t)update << 63 | (uint64_t)!feeds << 62 | (uint64_t)mb << 24 |
           (uint64_t)phase << 16 | k;
}

int uvcci_sched_order(uint32_t stage, uint32_t stages, uint32_t microbatches, uint32_t ahead,
                      uvcci_slot *out, size_t cap) {
    const uvcc_pipeline p = {stage, stages, microbatches, ahead};
    if (!in_range(&p) || cap < 2 * (size_t)microbatches)
        return UVCC_ERR_USAGE;
    const uint32_t warmup = warmup_of(&p);
    size_t n = 0;
    uint32_t forward = 0, backward = 0;
    while (forward < warmup)
        out[n++] = (uvcci_slot){UVCCI_PHASE_FWD, (uint16_t)forward++};
    while (backward < microbatches) {
        if (forward < microbatches)
            out[n++] = (uvcci_slot){UVCCI_PHASE_FWD, (uint16_t)forward++};
        out[n++] = (uvcci_slot){UVCCI_PHASE_BWD, (uint16_t)backward++};
    }
    assert(n == 2 * (size_t)microbatches);
    return (int)n;
}
