/* SPDX-License-Identifier: Apache-2.0 */
/* public_random.h - numbers that everybody has alike, from a public seed: words of a PRG whose key
 * is a hash of what they are for. */
#ifndef UVCCI_PUBLIC_RANDOM_H
#define UVCCI_PUBLIC_RANDOM_H

#include "proto/aes.h"

#include <stddef.h>
#include <stdint.h>

/* PRG key = first 16 bytes of H(label || LE64(seed) || LE32(number)). */
void uvcci_public_random_key(uvcci_aes *key, const char *label, uint64_t seed, uint32_t number);
/* floor(a * b / 2^64): a word a becomes a number below b. */
uint64_t uvcci_mul_high(uint64_t a, uint64_t b);
/* out[i] = -limit + floor(w (2 limit + 1) / 2^64), w word i. */
void uvcci_public_random_uniform(const uvcci_aes *key, int64_t limit, int64_t *out, size_t count);

#endif
