/* SPDX-License-Identifier: Apache-2.0 */
/* ring_digits.h - products of few rows mod 2^64 on the int8 tensor cores of a Hopper card, exactly,
 * by the bytes of words.
 *
 * z = sum of 256^(i + j) x_i y_j over i + j < 8, where x_i and y_j are bytes: 36 products of bytes,
 * 26 by integers of 4 bytes and 15 by those of 2. That is more than residues need
 * (ring_gemm.h: 18), but y becomes bytes where it is multiplied, on its way from the device's
 * memory, and no words or residues go back to it. */
#ifndef UVCCI_GPU_RING_DIGITS_H
#define UVCCI_GPU_RING_DIGITS_H

#include "gpu/ring_gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a product is faster so than by residues: it has 128 rows at most, of z and z_hi together;
 * a second tile of rows would have y read, and made bytes of, again. */
int uvcci_ring_digits_serves(const uvcci_ring_product *p);
/* Bytes that uvcci_ring_digits() needs for a product: those of x. */
size_t uvcci_ring_digits_room(const uvcci_ring_product *p);
/* Queues the work; `room` (256-byte aligned) is in use until it is done. */
cudaError_t uvcci_ring_digits(const uvcci_ring_product *p, void *room, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
