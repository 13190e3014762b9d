/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_one_hot.c - one-hot rows by DPF keys: HEAD, who knows the points, deals keys to the two
 * others; each expands a range of columns of its rows, HEAD of the rows themselves. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

#include "exec/primitives/one_hot.h"

/* Both roots come of the pairs' pads, so a key is the same for TAIL and OTHER. */
static void keys(const chunk *c) {
    const uvcc_block *b = c->b;
    const unsigned n = c->t->u.vec.bits;
    const size_t words = (size_t)b->count * UVCCI_ONE_HOT_ROOT_WORDS;
    assert(b->out[0] != NULL && c->first == 0);
    if (b->role != UVCC_HEAD) {
        const unsigned with_head = b->role == UVCC_TAIL ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
        prg(c, with_head, UVCC_TAG_root, 0, 0, b->out[0], words);
        return;
    }
    assert(b->in[0] != NULL && b->out[1] != NULL);
    prg(c, UVCC_PAIR_NEXT, UVCC_TAG_root, 0, 0, c->s->roots[0], words);
    prg(c, UVCC_PAIR_PREV, UVCC_TAG_root, 0, 0, c->s->roots[1], words);
    uvcci_one_hot_gen(uvcci_kernel_dpf_keys(c), n, b->count, b->in[0], c->s->roots[0],
                      c->s->roots[1], b->out[0]);
    for (uint32_t i = 0; i < b->count; i++)
        b->out[1][i] = b->in[0][i] & low_bits(n);
}

static bool keys_are_sane(const uvcc_task *t) {
    return t->u.vec.bits >= 1 && t->u.vec.bits <= UVCCI_ONE_HOT_BITS_MAX;
}

static void rows(const chunk *c) {
    const uvcc_block *b = c->b;
    const unsigned n = c->t->u.vec.bits;
    const uint64_t first = c->t->u.vec.constant;
    const uint32_t cols = c->t->u.vec.cols, step = c->t->u.vec.step;
    assert(b->in[0] != NULL && b->out[0] != NULL && c->first == 0);
    if (b->role == UVCC_HEAD) {
        uvcci_one_hot_rows(n, b->count, step, b->in[0], first, cols, b->out[0]);
        return;
    }
    assert(b->in[1] != NULL);
    const uvcci_one_hot_keys k = {.n = n,
                                  .c = b->count,
                                  .step = step,
                                  .party1 = b->role == UVCC_OTHER,
                                  .keys = b->in[0],
                                  .roots = b->in[1]};
    uvcci_one_hot_expand(uvcci_kernel_dpf_keys(c), &k, first, cols, b->out[0]);
}

static bool rows_are_sane(const uvcc_task *t) {
    const uint64_t first = t->u.vec.constant, cols = t->u.vec.cols;
    return keys_are_sane(t) && cols != 0 && t->u.vec.step != 0 &&
           first <= (uint64_t)1 << t->u.vec.bits && cols <= ((uint64_t)1 << t->u.vec.bits) - first;
}

const uvcci_kernel uvcci_kernels_one_hot[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_ONE_HOT_KEYS] = {.run = keys, .whole = true, .sane = keys_are_sane},
    [UVCC_TASK_ONE_HOT_ROWS] = {.run = rows, .whole = true, .sane = rows_are_sane},
};
