/* SPDX-License-Identifier: Apache-2.0 */
/* sum512.h - the sum of a register's eight words. Not _mm512_reduce_add_epi64: some headers add in
 * C, where signed overflow is undefined. */
#ifndef UVCCI_SUM512_H
#define UVCCI_SUM512_H

#include <immintrin.h>
#include <stdint.h>

__attribute__((target("avx512f"))) static inline uint64_t uvcci_sum512(__m512i v) {
    uint64_t word[8], sum = 0;
    _mm512_storeu_si512(word, v);
    for (int i = 0; i < 8; i++)
        sum += word[i];
    return sum;
}

#endif
