/* SPDX-License-Identifier: Apache-2.0 */
/* aes_backends.h - what aes.c asks of a backend. Round keys are uvcci_aes.rk, aligned to 64 bytes.
 * A counter block is LE64(lo) || LE64(hi) with the counter in the upper 48 bits of hi. */
#ifndef UVCCI_AES_BACKENDS_H
#define UVCCI_AES_BACKENDS_H

#include "proto/aes.h"

typedef struct uvcci_aes_ops {
    void (*ecb)(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n);
    void (*ctr48)(const uint8_t *rk, uint64_t lo, uint64_t hi, uint8_t *out, size_t n);
    /* sel == NULL: only `left` is read. */
    void (*mmo2)(const uint8_t *left, const uint8_t *right, const uint8_t *sel, const uint8_t *in,
                 uint8_t *out, size_t n);
} uvcci_aes_ops;

#if defined(__x86_64__) && defined(__GNUC__)
#define UVCCI_AES_X86 1
extern const uvcci_aes_ops uvcci_aes_ni_ops, uvcci_aes_vaes_ops;
/* The best of this CPU and operating system; PORTABLE if it has no AES-NI. */
uvcci_aes_backend uvcci_aes_x86_best(void);
#else
#define UVCCI_AES_X86 0
#endif

#endif
