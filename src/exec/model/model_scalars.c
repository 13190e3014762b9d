/* SPDX-License-Identifier: Apache-2.0 */
/* model_scalars.c - see model_scalars.h. */
#include "exec/model/model_scalars.h"

#include <assert.h>
#include <math.h>

unsigned uvcci_tf_log2(uint64_t n) {
    unsigned bits = 0;
    while (bits < 63 && (1ull << bits) < n)
        bits++;
    return bits;
}

int64_t uvcci_tf_root_inverse(uint32_t n, unsigned *fraction) {
    assert(n != 0);
    const unsigned e = uvcci_tf_log2(n);
    *fraction = (e + 1) / 2 + 8;
    if (e % 2 == 0 && n == 1u << e)
        *fraction = e / 2;
    return llround(ldexp(1 / sqrt(n), (int)*fraction));
}

int64_t uvcci_tf_inverse(uint32_t n, unsigned *fraction) {
    assert(n != 0);
    const unsigned e = uvcci_tf_log2(n), fine = (n & (n - 1)) == 0 ? 0 : 14;
    *fraction = e + fine;
    return llround(ldexp(1.0 / n, (int)*fraction));
}

/* Tiles of causal attention, as training has them: an eighth of the tokens, but 4 rows at least, at
 * most 128 while there are no more than 64 tiles. Padding is a row of all columns: one tile. */
uint32_t uvcci_model_tile_rows(const uvcc_model_config *c) {
    uint32_t rows = (c->tokens + UVCCI_TF_TILES_WANTED - 1) / UVCCI_TF_TILES_WANTED;
    const uint32_t fewest = (c->tokens + UVCCI_TF_TILES_MAX - 1) / UVCCI_TF_TILES_MAX;
    if (rows > UVCCI_TF_TILE_ROWS_MAX)
        rows = UVCCI_TF_TILE_ROWS_MAX;
    if (rows < fewest)
        rows = fewest;
    if (rows < UVCCI_TF_TILE_ROWS_MIN)
        rows = UVCCI_TF_TILE_ROWS_MIN;
    if (rows > c->tokens || c->mask == UVCC_MODEL_MASK_NONE || c->padding)
        rows = c->tokens;
    return rows;
}
