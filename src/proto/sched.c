/* sched.c - the 1F1B order: warm-up forwards, one forward one backward, drain. Stateless. */
#include "sched.h"

#include <uvcc/types.h>

#include "ids.h"

/* A stage is one byte and a microbatch two wherever ids are made of them. */
#define MAX_STAGES       256u
#define MAX_MICROBATCHES 65536u

int uvcci_sched_order(uint32_t stage, uint32_t stages, uint32_t microbatches, uint32_t ahead,
                      uvcci_slot *out, size_t cap) {
    if (stages > MAX_STAGES || stage >= stages || microbatches == 0 ||
        microbatches > MAX_MICROBATCHES || cap < 2 * (size_t)microbatches)
        return UVCC_ERR_USAGE;
    uint64_t may_run = (uint64_t)(stages - 1 - stage) + ahead;
    uint32_t warmup = may_run < microbatches ? (uint32_t)may_run : microbatches;
    size_t n = 0;
    uint32_t forward = 0, backward = 0;
    while (forward < warmup)
        out[n++] = (uvcci_slot){UVCCI_PHASE_FWD, (uint16_t)forward++};
    while (backward < microbatches) {
        if (forward < microbatches)
            out[n++] = (uvcci_slot){UVCCI_PHASE_FWD, (uint16_t)forward++};
        out[n++] = (uvcci_slot){UVCCI_PHASE_BWD, (uint16_t)backward++};
    }
    return (int)n;
}
