/* SPDX-License-Identifier: Apache-2.0 */
/* tables.cuh - the tables of AES in shared memory, which every kernel that draws pads begins with. */
#ifndef UVCCI_GPU_TABLES_CUH
#define UVCCI_GPU_TABLES_CUH

#include "gpu/arith.h"

static __device__ const uint8_t aes_sbox[256] = {AES_SBOX};

/* Row x of 256 bytes: tables 0 and 1 for 32 lanes; 64 KiB on, tables 2 and 3. */
static __device__ __forceinline__ void fill_tables(void) {
    uint4 *to = (uint4 *)aes_shared;
    for (unsigned k = threadIdx.x; k < AES_SHARED_WORDS / 4; k += blockDim.x) {
        const unsigned table = (k >> 3 & 1) | (k >> 12) << 1, x = k >> 4 & 255;
        const uint32_t v = aes_column(aes_sbox[x], table);
        to[k] = make_uint4(v, v, v, v);
    }
}

#endif
