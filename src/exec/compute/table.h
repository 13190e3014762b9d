/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - sums of the table entries that secret bits select: AVX512-VNNI where entries are small,
 * AVX-512DQ, AVX2 and portable, with the same words from all. */
#ifndef UVCCI_TABLE_H
#define UVCCI_TABLE_H

#include "exec/compute/gemm.h"

/* out[e] = sum of the table[i] for which bit i of element e is 1, e < c; element e has `words`
 * words of bits, the table 64 * words entries. scale (may be NULL, public): entries are table[i] *
 * scale[e] >> 30 (signed, the product mod 2^64). */
void uvcci_table_sum(uvcci_gemm_backend b, const int64_t *table, const int64_t *scale,
                     const uint64_t *bits, uint32_t words, uint32_t c, uint64_t *out);
#endif
