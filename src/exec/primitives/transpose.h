/* SPDX-License-Identifier: Apache-2.0 */
/* transpose.h - 64 x 64 bit matrices turned over, by swapping ever smaller halves. */
#ifndef UVCCI_TRANSPOSE_H
#define UVCCI_TRANSPOSE_H

#include <stdint.h>

/* `lanes` matrices side by side: row i of matrix l is x[i * lanes + l], its bit j (LSB first)
 * becomes bit i of row j. */
static inline __attribute__((always_inline)) void uvcci_transpose64(uint64_t *x, unsigned lanes) {
    uint64_t low = 0x00000000ffffffffu;
    for (unsigned w = 32; w != 0; w >>= 1, low ^= low << w)
        for (unsigned i = 0; i < 64; i = ((i | w) + 1) & ~w) {
            uint64_t *a = x + i * lanes, *b = x + (i | w) * lanes;
            for (unsigned l = 0; l < lanes; l++) {
                const uint64_t d = (a[l] >> w ^ b[l]) & low;
                a[l] ^= d << w;
                b[l] ^= d;
            }
        }
}

#endif
