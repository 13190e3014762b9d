/* SPDX-License-Identifier: Apache-2.0 */
/* prg.c - words of a PRG stream, at any place.
 *
 * State: none. Two words make a block, so a range may begin and end in the middle of one; whole
 * blocks are encrypted straight into `out`. */
#include "proto/prg.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

#define LANE_SHIFT  40
#define LANE_BLOCKS ((uint64_t)1 << LANE_SHIFT)

/* Blocks that hold the words from `first` on. */
static void blocks(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out, size_t n) {
    assert(n == 0 || (first / 2 < LANE_BLOCKS && n <= LANE_BLOCKS - first / 2));
    uint8_t prefix[10];
    uvcci_st32(prefix, at.ordinal);
    uvcci_st16(prefix + 4, at.call);
    uvcci_st32(prefix + 6, at.block);
    const uint64_t counter = (uint64_t)at.lane << LANE_SHIFT | first / 2;
    uvcci_aes_ctr48(key, prefix, counter, (uint8_t *)out, n);
}

void uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                    size_t count) {
    uint64_t pair[2] = {0};
    if (first % 2 != 0 && count != 0) {
        blocks(key, at, first, pair, 1);
        *out++ = pair[1];
        first++;
        count--;
    }
    blocks(key, at, first, out, count / 2);
    if (count % 2 != 0) {
        blocks(key, at, first + count - 1, pair, 1);
        out[count - 1] = pair[0];
    }
    uvcci_wipe(pair, sizeof pair);
}
