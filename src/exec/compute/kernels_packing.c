/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_packing.c - a worker's packing memory: what a task lays out anew before it computes, as
 * large as the largest task so far wanted it.
 *
 * State: a worker's scratch. Invariant: what it held is wiped before it is given back, and a
 * worker that could not get more still has what it had. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

#include "proto/crypto.h"

int uvcci_kernel_reserve(uvcci_cpu_worker *w, size_t words) {
    assert((w->scratch == NULL) == (w->scratch_words == 0));
    if (words <= w->scratch_words)
        return 0;
    uint64_t *p = w->alloc.alloc(w->alloc.user, words * sizeof *p, UVCC_MEM_TENSOR);
    if (p == NULL)
        return UVCC_ERR_NOMEM;
    uvcci_kernel_release(w);
    w->scratch = p;
    w->scratch_words = words;
    return 0;
}

void uvcci_kernel_release(uvcci_cpu_worker *w) {
    if (w->scratch == NULL)
        return;
    const size_t bytes = w->scratch_words * sizeof *w->scratch;
    uvcci_wipe(w->scratch, bytes);
    w->alloc.free(w->alloc.user, w->scratch, bytes, UVCC_MEM_TENSOR);
    w->scratch = NULL;
    w->scratch_words = 0;
}
