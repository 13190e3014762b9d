/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - see window.h. */
#include "exec/program/window.h"

#include <assert.h>

/* An instance, counted through ops and their segments. */
typedef struct place {
    uint32_t op, segment;
} place;

static const uvcci_plan *plan_at(const uvcci_plan **plans, place p) {
    return uvcci_plan_segment(plans[p.op], p.segment);
}

static place behind(const uvcci_plan **plans, place p) {
    return p.segment + 1 < plans[p.op]->segments.count ? (place){p.op, p.segment + 1}
                                                       : (place){p.op + 1, 0};
}

void uvcci_window_ranges(const uvcci_plan **plans, uint32_t op_count, uint64_t window,
                         const uvcci_window_walk *w) {
    place first = {0, 0};
    uint64_t bytes = 0;
    for (place at = {0, 0}; at.op < op_count; at = behind(plans, at)) {
        const uvcci_plan *plan = plan_at(plans, at);
        while (bytes != 0 && bytes + plan->work_bytes > window) {
            const uvcci_plan *gone = plan_at(plans, first);
            assert(bytes >= gone->work_bytes);
            bytes -= gone->work_bytes;
            w->leave(w->user, first.op, gone);
            first = behind(plans, first);
        }
        bytes += plan->work_bytes;
        w->enter(w->user, at.op, plan);
    }
}
