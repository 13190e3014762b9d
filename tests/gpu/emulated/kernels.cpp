/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.cpp - what host_kernels.h declares, by the launches of launch.h on the device. */
#include "device.h"

#include <stdlib.h>

#include "emulated.h"

extern "C" {
#include "../host_kernels.h"
#include "gpu/kinds.h"
#include "gpu/launch.h"
#include "gpu/overlap.h"
#include "gpu/ring_gemm.h"
}

/* Of threads of a block, with room for a table by bits; between launches it is the host's, who
 * makes keys by the same tables. */
__align__(16) uint32_t aes_shared[AES_FOUR * AES_TABLE_WORDS + PLANES_CHUNKS * PLANES_WORDS];

namespace {

const uint8_t sbox[256] = {AES_SBOX};
unsigned sms = 2;

void make_tables() {
    static bool made = false;
    if (made)
        return;
    made = true;
    emulated_recall();
    if (uvcci_gpu_prepare_vec() != cudaSuccess || uvcci_gpu_prepare_forms() != cudaSuccess)
        abort();
}

void check(cudaError_t e) {
    if (e != cudaSuccess)
        abort();
}

} // namespace

void emulated_multiprocessors(unsigned count) {
    sms = count;
}

enum { FORGOTTEN = 0xa5 };

void emulated_forget(void) {
    memset(aes_shared, FORGOTTEN, sizeof aes_shared);
}

int emulated_kept(size_t bytes) {
    const uint8_t *at = (const uint8_t *)aes_shared, *end = at + sizeof aes_shared;
    return std::all_of(at + bytes, end, [](uint8_t x) { return x == FORGOTTEN; });
}

void emulated_recall(void) {
    static uint32_t tables[AES_FOUR * AES_TABLE_WORDS];
    for (unsigned x = tables[0] == 0 ? 256 : 0; x-- != 0;)
        for (unsigned t = AES_FOUR; t-- != 0;)
            for (unsigned lane = 32; lane-- != 0;)
                tables[x * 32 + (t & 2) * 4096 + (t & 1) * 16384 + lane] = aes_column(sbox[x], t);
    memcpy(aes_shared, tables, sizeof tables);
}

void host_kernels_vec(const vec_task *t, const uvcc_step_keys *keys) {
    uint32_t most = 0;
    make_tables();
    for (uint32_t i = 0; i < t->count; i++)
        most = std::max(most, units_of(t, &t->blocks[i].at));
    check(uvcci_gpu_run_vec(t, keys, most, sms, NULL));
}

void host_kernels_map(const map_task *t) {
    check(uvcci_gpu_run_map(t, sms, NULL));
}

void host_kernels_gemm(const product_task *t) {
    check(uvcci_gpu_run_gemm(t, NULL, 0, sms, NULL));
}

void host_kernels_bits(const bits_task *t) {
    make_tables();
    check(uvcci_gpu_run_bits(t, sms, NULL));
}

void host_kernels_hash(const digest_item *items, uint32_t count, uint32_t ends, uint64_t chunks,
                       const digest_places *to) {
    check(uvcci_gpu_run_hash(items, count, ends, chunks, to, NULL));
}

void host_kernels_bytes(const uvcc_copy_item *items, uint32_t count, bool wipe) {
    for (uint32_t i = 0, some = 0; i < count; i += some) {
        size_t most = 0;
        some = wipe ? count : uvcci_overlap_run(items + i, count - i);
        for (uint32_t k = i; k < i + some; k++)
            most = std::max(most, items[k].len);
        check(uvcci_gpu_run_bytes(items + i, some, most, wipe, some % 2 != 0, NULL));
    }
}

/* --- What is not of this device --------------------------------------------------------------- */

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) {
    memset(p, value, bytes);
    return cudaSuccess;
}
size_t uvcci_ring_gemm_room(const uvcci_ring_product *) {
    return 0;
}
size_t uvcci_ring_gemm_least(const uvcci_ring_product *) {
    return SIZE_MAX;
}
cudaError_t uvcci_ring_gemm(const uvcci_ring_product *, void *, size_t, cudaStream_t) {
    abort();
}
