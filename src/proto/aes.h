/* SPDX-License-Identifier: Apache-2.0 */
/* aes.h - AES-128 for PRG streams and FSS trees: VAES-512, AES-NI or a bitsliced portable version,
 * chosen when a key is expanded. All give the same bytes; none branches or indexes on a secret. */
#ifndef UVCCI_AES_H
#define UVCCI_AES_H

#include <stddef.h>
#include <stdint.h>

typedef enum uvcci_aes_backend {
    UVCCI_AES_AUTO = 0,
    UVCCI_AES_PORTABLE = 1,
    UVCCI_AES_NI = 2,
    UVCCI_AES_VAES = 3,
} uvcci_aes_backend;

typedef struct uvcci_aes {
    _Alignas(64) uint8_t rk[11 * 16]; /* FIPS-197 round keys in byte order */
    uvcci_aes_backend backend;
} uvcci_aes;

/* The fastest backend of this CPU (asked from cpuid, not cached in a global). */
uvcci_aes_backend uvcci_aes_best(void);
/* backend AUTO = best; a backend the CPU lacks falls back to the best there is. */
void uvcci_aes_init(uvcci_aes *a, const uint8_t key[16], uvcci_aes_backend backend);

/* out[i] = AES(in[i]) for n 16-byte blocks; in == out allowed. */
void uvcci_aes_ecb(const uvcci_aes *a, const uint8_t *in, uint8_t *out, size_t n);
/* Counter blocks prefix(10 bytes) || LE48(counter + i), i < n, encrypted into out. */
void uvcci_aes_ctr48(const uvcci_aes *a, const uint8_t prefix[10], uint64_t counter, uint8_t *out,
                     size_t n);
/* Matyas-Meyer-Oseas with one of two keys per block: out[i] = AES_k(in[i]) ^ in[i], k = right where
 * bit i of `sel` (LSB first) is 1, else left. sel is public: it may choose what is read. NULL means
 * all left. in == out allowed. */
void uvcci_aes_mmo2(const uvcci_aes *left, const uvcci_aes *right, const uint8_t *sel,
                    const uint8_t *in, uint8_t *out, size_t n);

#endif
