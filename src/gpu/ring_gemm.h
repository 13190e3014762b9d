/* SPDX-License-Identifier: Apache-2.0 */
/* ring_gemm.h - products of matrices mod 2^64 on the int8 tensor cores of a Hopper card, exactly.
 *
 * Operands become residues by 18 or 19 pairwise coprime moduli of at most 8 bits, each pair of
 * residue matrices is multiplied in int8 with int32 sums, and what the residues of a product say
 * together is taken mod 2^64 (Chinese remainder theorem). Words count as signed integers below
 * 2^63 in size, so that of a product of depth k only k 2^126 must be below half the product of the
 * moduli: 18 serve a depth of 10,800. By integers of 2 and of 4 bytes it is k 2^78 and k 2^94: 12
 * moduli serve a depth of 54,000, 14 one of 34,000. Products of few rows go by the bytes of words
 * instead (ring_digits.h).
 *
 * All pointers are the device's, words are mod 2^64. Element (i, l) of an operand stands `row` i +
 * `col` l words from its first; one of the two is 1, whichever. */
#ifndef UVCCI_GPU_RING_GEMM_H
#define UVCCI_GPU_RING_GEMM_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcci_ring_operand {
    const uint64_t *lo, *hi;
    uint64_t row, col;
} uvcci_ring_operand;

/* z = x.lo (y.lo + y.hi) + x.hi y.lo, the local part of a replicated product; or without y.hi
 * x.lo y.lo, and with z_hi also z_hi = x.hi y.lo. x is m by k, y is k by n, rows of z and of z_hi
 * stand z_row words apart. */
typedef struct uvcci_ring_product {
    uint32_t m, n, k;
    uvcci_ring_operand x, y;
    uint64_t *z, *z_hi;
    uint64_t z_row;
    int accumulate; /* z += */
    /* 0 or 8: y is of words; without y.hi 2 or 4: y.lo points at signed integers of so many bytes,
     * whose strides count integers. */
    int y_bytes;
} uvcci_ring_product;

/* Whether this build has it: kernels are compiled for the instructions of Hopper (sm_90a) alone. */
int uvcci_ring_gemm_built(void);
/* Bytes that uvcci_ring_gemm() wants for a product: with fewer it works in several passes over z.
 * With less than uvcci_ring_gemm_least() it does not work. */
size_t uvcci_ring_gemm_room(const uvcci_ring_product *p);
size_t uvcci_ring_gemm_least(const uvcci_ring_product *p);
/* Queues the work; `room` (256-byte aligned, `bytes` of it) is in use until it is done. */
cudaError_t uvcci_ring_gemm(const uvcci_ring_product *p, void *room, size_t bytes,
                            cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
