/* SPDX-License-Identifier: Apache-2.0 */
/* shares.c - see shares.h. A job copies them, since only jobs may read TENSOR memory: so the host
 * asks twice, and gets them the second time. */
#include "exec/session/shares.h"

#include "exec/session/checkpoint.h"

#include <assert.h>
#include <string.h>

void uvcci_read_forget(uvcc_session *s) {
    if (s->read.here)
        uvcci_set_free(s, s->read.set);
    s->read = (uvcci_read){0}; /* if its job is out it goes when that is back */
}

bool uvcci_read_done(uvcc_session *s, uvcci_set *set) {
    if (s->read.set != set)
        return false;
    s->read.here = true;
    return true;
}

/* NULL and the reason, if nothing is to be had of this tensor. */
static const uvcci_tensor *readable(uvcc_session *s, uint32_t tensor, int *rc) {
    *rc = uvcci_may_touch(s, "no shares");
    if (*rc != 0)
        return NULL;
    if (tensor >= s->program->tensor_count) {
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "the program has no tensor %u", tensor);
        return NULL;
    }
    const uvcci_tensor *t = &s->program->tensors[tensor];
    if (t->desc.lifetime != UVCC_PERSIST)
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is TRANSIENT: nothing is kept in it", t->name);
    else if (t->desc.sharing == UVCC_PUBLIC)
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is public: it has no shares", t->name);
    else if (!s->buffers[t->buffer].set)
        *rc = uvcci_refuse(s, UVCC_ERR_STATE, "%s has no value: it was not set, and no step ran",
                           t->name);
    return *rc == 0 ? t : NULL;
}

static int begin(uvcc_session *s, uint32_t tensor, const uvcci_tensor *t) {
    const uvcc_shares *from = &s->buffers[t->buffer].shares;
    const size_t n = uvcci_component_words(t) * 8;
    if (s->read.set != NULL && !s->read.here)
        return uvcci_refuse(s, UVCC_ERR_AGAIN, "the shares of %s are on their way",
                            s->program->tensors[s->read.tensor].name);
    if (uvcci_being_touched(s, from->lo))
        return uvcci_refuse(s, UVCC_ERR_AGAIN, "%s is being set", t->name);
    uvcci_read_forget(s);
    uvcci_set *set = uvcci_set_new(s, 2 * n, 2);
    if (set == NULL)
        return uvcci_refuse(s, UVCC_ERR_NOMEM, "no memory for the shares of %s", t->name);
    set->task[0].kind = UVCC_TASK_COPY;
    set->task[0].u.copy.items = set->items;
    uvcci_set_add_copy(set, set->staged, from->lo, n);
    uvcci_set_add_copy(set, set->staged + n, from->hi, n);
    s->read = (uvcci_read){.set = set, .tensor = tensor};
    uvcci_set_push(s, set);
    return uvcci_refuse(s, UVCC_ERR_AGAIN, "the shares of %s are on their way", t->name);
}

int uvcci_session_shares(uvcc_session *s, uint32_t tensor, uint64_t *lo, uint64_t *hi) {
    int rc;
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (lo == NULL || hi == NULL)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there is no place for both components: NULL");
    const uvcci_tensor *t = readable(s, tensor, &rc);
    if (t == NULL)
        return rc;
    if (!s->read.here || s->read.tensor != tensor)
        return begin(s, tensor, t);
    const size_t n = uvcci_component_words(t) * 8;
    assert(s->read.set->bytes == 2 * n);
    memcpy(lo, s->read.set->staged, n);
    memcpy(hi, s->read.set->staged + n, n);
    uvcci_read_forget(s);
    return 0;
}
