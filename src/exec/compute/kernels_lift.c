/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_lift.c - lifts: additive shares of HEAD and TAIL become replicated ones of all three, in
 * one round (parallel, exchange) or two (sequential). See kernels.c for chunks and invariants. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

/* What HEAD and TAIL share with each other. */
static inline unsigned pair_edge(const chunk *c) {
    return c->b->role == UVCC_HEAD ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}

/* out[0] = a' = PRG(HO, lift, 0), m = y - a' sent; HEAD's b' is PRG(HT, lift, 1), plus m in one
 * round. */
static void lift_head(const chunk *c, bool parallel) {
    assert(c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->out[1] != NULL &&
           c->b->wire_out[0] != NULL);
    const uint64_t *a = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_lift, 0);
    const uint64_t *p = pad(c, 1, UVCC_PAIR_NEXT, UVCC_TAG_lift, 1);
    const uint64_t *y = in(c, 0), use_m = 0 - (uint64_t)parallel;
    uint64_t *lo = out(c, 0), *hi = out(c, 1);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t m = y[i] - a[i];
        put(to, i, m);
        lo[i] = a[i];
        hi[i] = p[i] + (m & use_m);
    }
}

static void lift_tail(const chunk *c, bool parallel) {
    assert(c->b->in[0] != NULL && c->b->out[1] != NULL && c->b->wire_out[0] != NULL);
    const uint64_t *p = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_lift, 1), *y = in(c, 0);
    uint64_t *hi = out(c, 1);
    uint8_t *to = wire_out(c, 0);
    if (parallel) { /* out[0] waits for m */
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = y[i] - p[i];
            hi[i] = x;
            put(to, i, x);
        }
        return;
    }
    const uint8_t *m = wire_in(c, 0);
    uint64_t *lo = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = get(m, i) + y[i] - p[i];
        lo[i] = p[i];
        hi[i] = x;
        put(to, i, x);
    }
}

static void lift_exchange(const chunk *c) {
    assert(c->b->in[0] != NULL && c->b->out[0] != NULL && c->b->out[1] != NULL &&
           c->b->wire_out[0] != NULL);
    const bool head = c->b->role == UVCC_HEAD;
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_lift, 2), *y = in(c, 0);
    uint64_t *minus = out(c, head ? 0 : 1), *sum = out(c, head ? 1 : 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = y[i] + p[i];
        minus[i] = 0 - p[i];
        sum[i] = x;
        put(to, i, x);
    }
}

static void lift_mask(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const bool parallel = c->t->u.vec.lift == UVCC_LIFT_PARALLEL;
    if (c->t->u.vec.lift == UVCC_LIFT_EXCHANGE)
        lift_exchange(c);
    else if (c->b->role == UVCC_HEAD)
        lift_head(c, parallel);
    else
        lift_tail(c, parallel);
}

static void lift_finish_exchange(const chunk *c) {
    assert(c->b->role == UVCC_TAIL || c->b->out[1] != NULL);
    assert(c->b->role == UVCC_HEAD || c->b->out[0] != NULL);
    if (c->b->role == UVCC_OTHER) {
        const uint64_t *to = pad(c, 0, PAIR_TO, UVCC_TAG_lift, 2);
        const uint64_t *ho = pad(c, 1, PAIR_HO, UVCC_TAG_lift, 2);
        uint64_t *lo = out(c, 0), *hi = out(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            lo[i] = 0 - to[i];
            hi[i] = 0 - ho[i];
        }
        return;
    }
    uint64_t *sum = out(c, c->b->role == UVCC_HEAD ? 1 : 0);
    const uint8_t *from = wire_in(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        sum[i] += get(from, i);
}

static void lift_finish(const chunk *c) {
    if (c->t->u.vec.lift == UVCC_LIFT_EXCHANGE) {
        lift_finish_exchange(c);
    } else if (c->b->role == UVCC_OTHER) {
        memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
        prg(c, PAIR_HO, UVCC_TAG_lift, 0, c->first, out(c, 1), c->n);
    } else if (c->b->role == UVCC_TAIL && c->t->u.vec.lift == UVCC_LIFT_PARALLEL) {
        const uint64_t *p = pad(c, 0, pair_edge(c), UVCC_TAG_lift, 1);
        const uint8_t *m = wire_in(c, 0);
        uint64_t *lo = out(c, 0);
        for (uint32_t i = 0; i < c->n; i++)
            lo[i] = get(m, i) + p[i];
    }
}

const uvcci_kernel uvcci_kernels_lift[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_LIFT_MASK] = {.run = lift_mask},
    [UVCC_TASK_LIFT_FINISH] = {.run = lift_finish},
};
