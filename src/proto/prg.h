/* SPDX-License-Identifier: Apache-2.0 */
/* prg.h - AES-128 in counter mode as a random-access source of 64-bit words (protocols.md 2).
 *
 * Counter block = LE32(op ordinal) || LE16(call_idx) || LE32(block or tile) || LE48(counter); the
 * counter's top byte is the lane; word j of a lane is the LE64 at byte 8j of the lane's stream, so
 * word j is half (j & 1) of the block with counter j >> 1. A word never depends on how a stream is
 * cut into calls. */
#ifndef UVCCI_PRG_H
#define UVCCI_PRG_H

#include "proto/aes.h"

typedef struct uvcci_prg_at {
    uint32_t ordinal;
    uint16_t call;
    uint32_t block;
    uint8_t lane;
} uvcci_prg_at;

/* out[i] = word first + i, i < count. `first` may be odd. */
void uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                    size_t count);

#endif
