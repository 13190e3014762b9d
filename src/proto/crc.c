/* SPDX-License-Identifier: Apache-2.0 */
/* crc.c - IEEE CRC-32 by ISA-L, and the CRC of a concatenation from the CRCs of its parts.
 *
 * A CRC is kept reflected, as zlib and gzip do: bit 31 is the coefficient of x^0. Appending n bytes
 * multiplies the CRC of what stands before by x^(8n) modulo the polynomial; the inversions at both
 * ends cancel out. */
#include "proto/crc.h"

#include <isa-l.h>

#define POLY 0xedb88320u

/* x^(2^i) mod the polynomial. x^(2^32) = x, so i counts modulo 32. */
static const uint32_t x_pow_2[32] = {
    0x40000000, 0x20000000, 0x08000000, 0x00800000, 0x00008000, 0xedb88320, 0xb1e6b092, 0xa06a2517,
    0xed627dae, 0x88d14467, 0xd7bbfe6a, 0xec447f11, 0x8e7ea170, 0x6427800e, 0x4d47bae0, 0x09fe548f,
    0x83852d0f, 0x30362f1a, 0x7b5a9cc3, 0x31fec169, 0x9fec022a, 0x6c8dedc4, 0x15d6874d, 0x5fde7a4e,
    0xbad90e37, 0x2e4e5eef, 0x4eaba214, 0xa8a472c0, 0x429a969e, 0x148d302a, 0xc40ba6d0, 0xc4e22c3c,
};

uint32_t uvcci_crc32(uint32_t crc, const void *data, size_t len) {
    return len == 0 ? crc : crc32_gzip_refl(crc, data, len);
}

/* a * b mod the polynomial. */
static uint32_t product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (unsigned i = 0; i < 32; i++) {
        sum ^= b & -(a >> 31);
        a <<= 1;
        b = (b >> 1) ^ (POLY & -(b & 1));
    }
    return sum;
}

uint32_t uvcci_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b) {
    for (unsigned i = 3; len_b != 0; i++, len_b >>= 1) /* from i = 3: bytes, not bits */
        if (len_b & 1)
            crc_a = product(x_pow_2[i % 32], crc_a);
    return crc_a ^ crc_b;
}
