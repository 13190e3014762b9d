/* gemm_micro.h - what gemm.c asks of a micro-kernel. */
#ifndef UVCCI_GEMM_MICRO_H
#define UVCCI_GEMM_MICRO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* c (mr x nr, rows ldc words apart) = or += A B over `depth`: a holds depth columns of mr words,
 * b depth rows of nr words. */
typedef struct uvcci_gemm_micro {
    void (*run)(size_t depth, const uint64_t *a, const uint64_t *b, uint64_t *c, size_t ldc,
                bool accumulate);
    uint32_t mr, nr;
} uvcci_gemm_micro;

#if defined(__x86_64__) && defined(__GNUC__)
#define UVCCI_GEMM_X86 1
extern const uvcci_gemm_micro uvcci_gemm_micro_avx2, uvcci_gemm_micro_avx512;
#else
#define UVCCI_GEMM_X86 0
#endif

#endif
