/* SPDX-License-Identifier: Apache-2.0 */
/* tables.cuh - the tables of AES in shared memory, which every kernel that draws pads begins with. */
#ifndef UVCCI_GPU_TABLES_CUH
#define UVCCI_GPU_TABLES_CUH

#include "gpu/arith.h"

static __device__ const uint8_t aes_sbox[256] = {AES_SBOX};

/* Row x of 128 bytes for 32 lanes, of tables 0 and 2; 64 KiB on, of tables 1 and 3. A warp makes whole
 * rows, of entries of which each lane loaded one. */
static __device__ __forceinline__ void fill_tables(unsigned tables) {
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint4 *to = (uint4 *)aes_shared + lane % 8 + (lane / 8 & 1) * 2048;
    /* eight lanes have four places each of a table */
    const unsigned table = tables == AES_FOUR ? (lane / 8 & 1) * 2 + lane / 16 : (lane / 8 & 1) * 2;
    for (unsigned first = warp; first < 256; first += 32 * warps) {
        const unsigned mine = first + warps * lane;
        const uint32_t column = mine < 256 ? aes_column(aes_sbox[mine], 0) : 0;
#pragma unroll 4
        for (unsigned k = 0; k < 32; k++) {
            const uint32_t v0 = __shfl_sync(~0u, column, k), v = __funnelshift_l(v0, v0, 8 * table);
            const unsigned row = first + warps * k;
            if (row < 256 && (tables == AES_FOUR || lane < 16))
                to[row * 8 + lane / 16 * 4096] = make_uint4(v, v, v, v);
        }
    }
}

#endif
