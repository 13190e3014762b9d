/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c - every task of <uvcc/compute.h> on one core: the table of all kinds, and a worker.
 *
 * Vectors run chunk by chunk: pads of a chunk are made by the PRG into slots that stay in cache,
 * then one fused loop makes the results. Chunks begin at multiples of CHUNK elements, so bits and
 * packed words of a chunk begin at whole bytes, and PRG words at whole blocks. Only the DPF works
 * on a block as a whole.
 *
 * State: a worker's scratch. Its expanded AES keys live as long as one job, because the memory that
 * held a step's keys may hold another's afterwards. Invariant: nothing branches or indexes on a
 * share, a pad or a mask; roles, counts, shifts and opened values are public to whoever has them.
 *
 * Kernels stand by subject: kernels_open.c, _gate, _lift, _deal, _map, _gemm, _bytes, _sks,
 * _function, _function_deal, _one_hot; below them kernels_pads.c, kernels_keys.c,
 * kernels_packing.c.
 */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

#include "proto/crypto.h"

static inline block_scratch *scratch_of(const uvcci_cpu_worker *w) {
    return (block_scratch *)(void *)w->block_scratch;
}

/* --- Dispatch --------------------------------------------------------------------------------- */

/* The kernel of a kind; NULL: no executor runs it. */
static const uvcci_kernel *kernel_of(unsigned kind) {
    static const uvcci_kernel *const subjects[] = {
        uvcci_kernels_open,          uvcci_kernels_gate,     uvcci_kernels_lift,
        uvcci_kernels_deal,          uvcci_kernels_map,      uvcci_kernels_gemm,
        uvcci_kernels_bytes,         uvcci_kernels_sks,      uvcci_kernels_function,
        uvcci_kernels_function_deal, uvcci_kernels_rounding, uvcci_kernels_one_hot};
    const uvcci_kernel *found = NULL;
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects && kind < UVCC_TASK_KIND_END; i++) {
        const uvcci_kernel *k = &subjects[i][kind];
        if (k->run == NULL && k->task == NULL)
            continue;
        assert(found == NULL && (k->run == NULL || k->task == NULL)); /* one subject's, one way */
        found = k;
    }
    return found;
}

/* A task of blocks. What its numbers and blocks may be is checked here, so kernels need not. */
static int run_vec(uvcci_cpu_worker *w, const uvcci_kernel *k, const uvcc_task *t) {
    if (k->sane != NULL && !k->sane(t))
        return UVCC_ERR_JOB;
    if (uvcci_kernel_reserve(w, k->packing != NULL ? k->packing(t) : 0) != 0)
        return UVCC_ERR_JOB;
    if (k->prepare != NULL)
        k->prepare(t, w->scratch);
    chunk c = {.s = scratch_of(w), .packing = w->scratch, .t = t, .aes = w->aes, .simd = w->gemm};
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        c.b = &t->u.vec.blocks[i];
        const uint32_t count = c.b->count;
        if (count == 0 || count > BLOCK || c.b->role > UVCC_OTHER)
            return UVCC_ERR_JOB;
        const uint32_t step = k->whole ? BLOCK : CHUNK;
        for (c.first = 0; c.first < count; c.first += step) {
            c.n = count - c.first < step ? count - c.first : step;
            k->run(&c);
        }
    }
    return 0;
}

static int run_task(uvcci_cpu_worker *w, const uvcc_task *t) {
    const uvcci_kernel *k = kernel_of(t->kind);
    if (k == NULL)
        return UVCC_ERR_JOB;
    return k->task != NULL ? k->task(w, t) : run_vec(w, k, t);
}

/* --- A worker --------------------------------------------------------------------------------- */

int uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job) {
    int e = 0;
    assert(w->block_scratch != NULL && scratch_of(w)->keys.of == NULL);
    for (uint32_t i = 0; i < job->count && e == 0; i++)
        e = run_task(w, &job->tasks[i]);
    key_cache *k = &scratch_of(w)->keys;
    if (k->of != NULL)
        uvcci_wipe(k, sizeof *k);
    return e;
}

int uvcci_cpu_worker_init(uvcci_cpu_worker *w, const uvcc_allocator *al, uint32_t backend) {
    static const uvcci_aes_backend aes[] = {UVCCI_AES_AUTO, UVCCI_AES_PORTABLE, UVCCI_AES_NI,
                                            UVCCI_AES_VAES, UVCCI_AES_VAES};
    if (backend >= sizeof aes / sizeof *aes)
        return UVCC_ERR_CONFIG;
    for (unsigned kind = UVCC_TASK_INPUT; kind < UVCC_TASK_KIND_END; kind++) /* none is missing */
        assert((kind == UVCC_TASK_COLLECTIVE) == (kernel_of(kind) == NULL));
    block_scratch *s = al->alloc(al->user, sizeof *s, UVCC_MEM_SECRET);
    if (s == NULL)
        return UVCC_ERR_NOMEM;
    memset(&s->keys, 0, sizeof s->keys);

    const uvcci_aes_backend best_aes = uvcci_aes_best();
    const uvcci_gemm_backend gemm = (uvcci_gemm_backend)backend;
    const bool any = backend == 0;
    *w = (uvcci_cpu_worker){
        .alloc = *al,
        .aes = any || aes[backend] > best_aes ? best_aes : aes[backend],
        .gemm = any || gemm == UVCCI_GEMM_AMX ? uvcci_gemm_best() : gemm,
        .gemm_by_shape = any,
        .block_scratch = (uint8_t *)s,
    };
    return 0;
}

int uvcci_cpu_worker_reserve(uvcci_cpu_worker *w) {
    const size_t gemm_words = uvcci_gemm_scratch_words(w->gemm, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    const size_t others[] = {uvcci_fn_packing_words_max(), uvcci_bit_sums_words()};
    size_t most = gemm_words;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        most = others[i] > most ? others[i] : most;
    return uvcci_kernel_reserve(w, most);
}

void uvcci_cpu_worker_free(uvcci_cpu_worker *w) {
    const uvcc_allocator *al = &w->alloc;
    if (w->block_scratch != NULL) {
        uvcci_wipe(w->block_scratch, sizeof(block_scratch));
        al->free(al->user, w->block_scratch, sizeof(block_scratch), UVCC_MEM_SECRET);
    }
    uvcci_kernel_release(w);
    *w = (uvcci_cpu_worker){0};
}
