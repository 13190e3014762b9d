/* SPDX-License-Identifier: Apache-2.0 */
/* crc.h - IEEE CRC-32 (the zlib one) by ISA-L, and combination of two CRCs. */
#ifndef UVCCI_CRC_H
#define UVCCI_CRC_H
#include <stddef.h>
#include <stdint.h>

/* crc of previous bytes (0 at the beginning) continued over data. */
uint32_t uvcci_crc32(uint32_t crc, const void *data, size_t len);
/* crc(A || B) from crc(A), crc(B) and len(B): O(log len_b) GF(2) products, no tables in memory that
 * change. */
uint32_t uvcci_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b);
#endif
