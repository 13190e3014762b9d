/* SPDX-License-Identifier: Apache-2.0 */
/* model_scalars.h - numbers that follow from the sizes of a transformer: factors that stand for
 * divisions, and tiles of attention. */
#ifndef UVCCI_MODEL_SCALARS_H
#define UVCCI_MODEL_SCALARS_H

#include <uvcc/model.h>

/* Rounded up. */
unsigned uvcci_tf_log2(uint64_t n);
/* 1 / sqrt(n) as c 2^-fraction, exact for powers of four. */
int64_t uvcci_tf_root_inverse(uint32_t n, unsigned *fraction);
/* 1 / n as c 2^-fraction, exact for powers of two. */
int64_t uvcci_tf_inverse(uint32_t n, unsigned *fraction);

/* Tiles of attention: at most so many, of so many rows (but in contexts that would have more tiles
 * then); so many rows are alive at a time, and tiles at most. */
enum {
    UVCCI_TF_TILES_MAX = 64,
    UVCCI_TF_TILE_ROWS_MIN = 4,
    UVCCI_TF_TILE_ROWS_MAX = 128,
    UVCCI_TF_TILES_WANTED = 8,
    UVCCI_TF_ALIVE_ROWS = 256,
    UVCCI_TF_ALIVE_MAX = 8,
    UVCCI_TF_KEPT_HEADS = 4 /* who computes again keeps scores in contexts of so many head_dim */
};
/* Rows of a tile of attention's scores. */
uint32_t uvcci_model_tile_rows(const uvcc_model_config *m);

#endif
