/* SPDX-License-Identifier: Apache-2.0 */
/* prg_check.c - see prg_check.h. What was read goes with its step: keys of other steps are other
 * keys, which the simulator holds them to. */
#include "exec/runtime/prg_check.h"

#include <assert.h>

static const char *task_name(uint16_t kind) {
    static const char *const names[] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

/* The log names the place; the event can only say that there is one. */
static void end(uvcc_session *s, const uvcci_instance *r, const uvcc_prg_use *u) {
    static const char *const pairs[] = {[UVCC_PAIR_NEXT] = "with the next party",
                                        [UVCC_PAIR_PREV] = "with the party before",
                                        [UVCC_PAIR_OWN] = "of its own"};
    const uint64_t first = (uint64_t)u->block * UVCC_BLOCK_ELEMS;
    char label[UVCCI_LABEL_BYTES];
    assert(u->pair <= UVCC_PAIR_OWN && u->count != 0);
    (void)uvcci_refuse(s, UVCC_ERR_REFUSED,
                       "PRG words would be read twice: step %u, %s, task %s, block %u (elements "
                       "%llu to %llu), stream %s %s, call %u, lane %u",
                       r->step->number, uvcci_op_label(r->op, label), task_name(u->kind), u->block,
                       (unsigned long long)first, (unsigned long long)(first + u->count - 1),
                       uvcc_prg_tag_name(u->tag), pairs[u->pair], u->call, u->lane);
    uvcci_abort_at(s, r->step->number, UVCC_ABORT_INTERNAL,
                   "a word of a key stream would be read twice");
}

bool uvcci_prg_check(uvcc_session *s, const uvcci_instance *r, const uvcc_task *tasks,
                     uint32_t count) {
    uvcc_prg_use twice;
    int rc = 0;
    if (s->cfg.checks.prg_uses == 0)
        return true;
    if (r->step->prg_uses == NULL)
        rc = uvcc_prg_uses_new(&r->step->prg_uses, &s->alloc, false);
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        rc = uvcc_prg_uses_task(r->step->prg_uses, &tasks[i], &twice);
    if (rc == UVCC_ERR_NOMEM)
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for the check of PRG words");
    else if (rc != 0)
        end(s, r, &twice);
    return rc == 0;
}

void uvcci_prg_check_forget(uvcci_step *st) {
    uvcc_prg_uses_free(st->prg_uses);
    st->prg_uses = NULL;
}

uint64_t uvcci_prg_check_bound(uint64_t places) {
    return 6 * UVCC_PRG_PLACE_BYTES * places + 4096;
}
