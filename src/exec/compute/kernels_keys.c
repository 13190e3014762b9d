/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_keys.c - what OTHER's kernels of all subjects deal: roots, and DCF keys. A key's
 * correction words are the same for HEAD and TAIL; what differs are the roots, which each draws. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

#include "exec/primitives/dcf.h"

void uvcci_kernel_deal_alike(const chunk *c, size_t bytes) {
    if (c->b->out_bytes[1] != c->b->out_bytes[0])
        memcpy(c->b->out_bytes[1], c->b->out_bytes[0], bytes);
}

uint64_t (*uvcci_kernel_both_roots(const chunk *c, uint16_t call))[2 * BLOCK] {
    uint64_t(*roots)[2 * BLOCK] = c->s->roots;
    const size_t words = (size_t)c->b->count * 2;
    assert(c->b->role == UVCC_OTHER && c->b->count <= BLOCK);
    prg_of_call(c, call, PAIR_HO, UVCC_TAG_root, 0, 0, roots[0], words);
    prg_of_call(c, call, PAIR_TO, UVCC_TAG_root, 0, 0, roots[1], words);
    return roots;
}

void uvcci_kernel_deal_dcf(const chunk *c, uint16_t call, unsigned n, unsigned w,
                           const uint64_t *beta) {
    const uvcc_block *b = c->b;
    uint64_t(*roots)[2 * BLOCK] = uvcci_kernel_both_roots(c, call);
    assert(n >= 1 && n < 64 && w >= 1 && w <= UVCCI_DCF_WORDS_MAX);
    uvcci_dcf_gen(uvcci_kernel_dpf_keys(c), n, w, b->count, c->s->words, beta,
                  (const uint8_t *)roots[0], (const uint8_t *)roots[1], b->out_bytes[0]);
    uvcci_kernel_deal_alike(c, uvcci_dcf_bytes(n, w, b->count));
}

void uvcci_kernel_deal_less(const chunk *c, uint16_t call, unsigned n) {
    for (uint32_t i = 0; i < c->b->count; i++)
        c->packing[i] = 1;
    uvcci_kernel_deal_dcf(c, call, n, 1, c->packing);
}
