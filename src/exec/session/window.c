/* SPDX-License-Identifier: Apache-2.0 */
/* window.c - see window.h. */
#include "exec/session/window.h"

#include <assert.h>

void uvcci_window_slide(uvcci_step *st) {
    uvcci_window *w = &st->window;
    while (w->first < w->end && st->instances[w->first].turn == UVCCI_TURN_DONE)
        w->bytes -= st->instances[w->first++].plan->work_bytes;
    assert(w->first != w->end || w->bytes == 0);
    while (w->end < st->instance_count) {
        uvcci_instance *r = &st->instances[w->end];
        if (w->first != w->end && w->bytes + r->plan->work_bytes > st->entry->window)
            break;
        w->bytes += r->plan->work_bytes;
        w->end++;
        uvcci_instance_wake(r);
    }
}

bool uvcci_window_has(const uvcci_instance *r) {
    return (uint32_t)(r - r->step->instances) < r->step->window.end;
}
