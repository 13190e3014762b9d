/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_gemm.c - the task GEMM: one product of replicated matrices, or one for each group and
 * head of larger ones. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

/* Narrow integers, at an address that is a multiple of their bytes, and a second product are of a
 * public y alone. */
static bool is_sane(const uvcc_task *t) {
    const unsigned bytes = t->u.gemm.y_bytes;
    const bool narrow = bytes != 0, second = t->u.gemm.z_hi != NULL;
    return (!narrow || ((bytes == 2 || bytes == 4) && (uintptr_t)t->u.gemm.y.lo % bytes == 0)) &&
           (!(narrow || second) || t->u.gemm.y.hi == NULL) && (!second || t->u.gemm.x.hi != NULL);
}

/* Where element `at` of y is. */
static const uint64_t *element_of(const uvcc_task *t, size_t at) {
    const unsigned bytes = t->u.gemm.y_bytes;
    const uint8_t *y = (const uint8_t *)t->u.gemm.y.lo;
    return (const uint64_t *)(const void *)(y + at * (bytes != 0 ? bytes : sizeof(uint64_t)));
}

/* Without groups the operands are one dense block each; with them each block is a product of its
 * own at strides that the layouts give, so nothing is copied together first. */
static int gemm(uvcci_cpu_worker *w, const uvcc_task *t) {
    assert(t->u.gemm.z != NULL);
    if (!is_sane(t))
        return UVCC_ERR_JOB;
    const uint32_t m = t->u.gemm.m, n = t->u.gemm.n, k = t->u.gemm.k;
    const uvcci_gemm_backend b = w->gemm_by_shape ? uvcci_gemm_pick(w->gemm, m, n, k) : w->gemm;
    if (uvcci_kernel_reserve(w, uvcci_gemm_scratch_words(b, m, n, k)) != 0)
        return UVCC_ERR_JOB;
    const uvcc_shares *x = &t->u.gemm.x, *y = &t->u.gemm.y;
    uvcci_gemm_replicated p = {.m = m,
                               .n = n,
                               .k = k,
                               .trans_x = t->u.gemm.trans_x,
                               .trans_y = t->u.gemm.trans_y,
                               .accumulate = t->u.gemm.accumulate,
                               .ldx = t->u.gemm.trans_x ? m : k,
                               .ldy = t->u.gemm.trans_y ? k : n,
                               .ldz = n,
                               .y_bytes = t->u.gemm.y_bytes};
    uint64_t *const z_hi = t->u.gemm.z_hi;
    const bool blocks = t->u.gemm.groups != 0;
    const uvcc_gemm_layout none = {0};
    const uvcc_gemm_layout *lx = blocks ? &t->u.gemm.lx : &none;
    const uvcc_gemm_layout *ly = blocks ? &t->u.gemm.ly : &none;
    const uvcc_gemm_layout *lz = blocks ? &t->u.gemm.lz : &none;
    if (blocks) {
        p.ldx = lx->ld;
        p.ldy = ly->ld;
        p.ldz = lz->ld;
    }
    for (uint32_t g = 0; g < (blocks ? t->u.gemm.groups : 1); g++)
        for (uint32_t h = 0; h < (blocks ? t->u.gemm.heads : 1); h++) {
            const size_t at_x = g * lx->group + h * lx->head, at_y = g * ly->group + h * ly->head;
            const size_t at_z = g * lz->group + h * lz->head;
            p.x_lo = x->lo + at_x;
            p.x_hi = x->hi != NULL ? x->hi + at_x : NULL;
            p.y_lo = element_of(t, at_y);
            p.y_hi = y->hi != NULL ? y->hi + at_y : NULL;
            p.z = t->u.gemm.z + at_z;
            if (y->hi == NULL)
                uvcci_gemm_public(b, &p, z_hi != NULL ? z_hi + at_z : NULL, w->scratch);
            else if (x->hi != NULL)
                uvcci_gemm_rss(b, &p, w->scratch);
            else
                uvcci_gemm_single(b, &p, w->scratch);
        }
    return 0;
}

const uvcci_kernel uvcci_kernels_gemm[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_GEMM] = {.task = gemm},
};
