/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_narrow_steps.h - the order in which 8 tile registers make the products of eight digits by
 * two or three. Included once by every set of operations, which has defined what gemm_tile_steps.h
 * asks for, TILE_FN and TILE_ZERO(t) to TILE_STORE(t, to). No include guard: this is code.
 *
 * Two passes over the depth, each for four sums, in tiles 0..3; digits of b in tiles 4, 5 and, if
 * there are three, 6, each loaded once in a step. */
#define NARROW_A(t, i) TILE_LOAD(t, a + (i)*UVCCI_TILE_BYTES)
#define NARROW_B(t, j) TILE_LOAD(t, b + (j)*UVCCI_TILE_BYTES)

TILE_FN static void narrow_zero(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

TILE_FN static void narrow_store(int32_t *sums) {
    enum { SUM = UVCCI_TILE_LANES * UVCCI_TILE_LANES };
    TILE_STORE(0, sums);
    TILE_STORE(1, sums + SUM);
    TILE_STORE(2, sums + 2 * SUM);
    TILE_STORE(3, sums + 3 * SUM);
}

/* 15 products: sums 0 to 3 take digits 0 to 3 of a, sums 4 to 7 digits 3 to 7. Digits of a change
 * places, so that one is loaded while the one before is multiplied. */
TILE_FN static void narrow_by_two(size_t steps, const uint8_t *a_panel, const uint8_t *b_panel,
                                  int32_t *sums) {
    const uint8_t *a = a_panel, *b = b_panel;
    narrow_zero();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += 2 * UVCCI_TILE_BYTES) {
        NARROW_B(4, 0);
        NARROW_B(5, 1);
        NARROW_A(6, 0);
        TILE_MADD(0, 6, 4);
        TILE_MADD(1, 6, 5);
        NARROW_A(7, 1);
        TILE_MADD(1, 7, 4);
        TILE_MADD(2, 7, 5);
        NARROW_A(6, 2);
        TILE_MADD(2, 6, 4);
        TILE_MADD(3, 6, 5);
        NARROW_A(7, 3);
        TILE_MADD(3, 7, 4);
    }
    narrow_store(sums);
    a = a_panel;
    b = b_panel;
    narrow_zero();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += 2 * UVCCI_TILE_BYTES) {
        NARROW_B(4, 0);
        NARROW_B(5, 1);
        NARROW_A(6, 3);
        TILE_MADD(0, 6, 5);
        NARROW_A(7, 4);
        TILE_MADD(0, 7, 4);
        TILE_MADD(1, 7, 5);
        NARROW_A(6, 5);
        TILE_MADD(1, 6, 4);
        TILE_MADD(2, 6, 5);
        NARROW_A(7, 6);
        TILE_MADD(2, 7, 4);
        TILE_MADD(3, 7, 5);
        NARROW_A(6, 7);
        TILE_MADD(3, 6, 4);
    }
    narrow_store(sums + UVCCI_TILE_SUMS / 2);
}

/* 21 products: sums 4 to 7 take digits 2 to 7 of a. */
TILE_FN static void narrow_by_three(size_t steps, const uint8_t *a_panel, const uint8_t *b_panel,
                                    int32_t *sums) {
    const uint8_t *a = a_panel, *b = b_panel;
    narrow_zero();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += 3 * UVCCI_TILE_BYTES) {
        NARROW_B(4, 0);
        NARROW_B(5, 1);
        NARROW_B(6, 2);
        NARROW_A(7, 0);
        TILE_MADD(0, 7, 4);
        TILE_MADD(1, 7, 5);
        TILE_MADD(2, 7, 6);
        NARROW_A(7, 1);
        TILE_MADD(1, 7, 4);
        TILE_MADD(2, 7, 5);
        TILE_MADD(3, 7, 6);
        NARROW_A(7, 2);
        TILE_MADD(2, 7, 4);
        TILE_MADD(3, 7, 5);
        NARROW_A(7, 3);
        TILE_MADD(3, 7, 4);
    }
    narrow_store(sums);
    a = a_panel;
    b = b_panel;
    narrow_zero();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += 3 * UVCCI_TILE_BYTES) {
        NARROW_B(4, 0);
        NARROW_B(5, 1);
        NARROW_B(6, 2);
        NARROW_A(7, 2);
        TILE_MADD(0, 7, 6);
        NARROW_A(7, 3);
        TILE_MADD(0, 7, 5);
        TILE_MADD(1, 7, 6);
        NARROW_A(7, 4);
        TILE_MADD(0, 7, 4);
        TILE_MADD(1, 7, 5);
        TILE_MADD(2, 7, 6);
        NARROW_A(7, 5);
        TILE_MADD(1, 7, 4);
        TILE_MADD(2, 7, 5);
        TILE_MADD(3, 7, 6);
        NARROW_A(7, 6);
        TILE_MADD(2, 7, 4);
        TILE_MADD(3, 7, 5);
        NARROW_A(7, 7);
        TILE_MADD(3, 7, 4);
    }
    narrow_store(sums + UVCCI_TILE_SUMS / 2);
}

#undef NARROW_A
#undef NARROW_B
