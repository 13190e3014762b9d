/* SPDX-License-Identifier: Apache-2.0 */
/* gemm_tile_steps.h - the order in which 8 tile registers make the 36 products of digits. Included
 * once by every set of tile operations, which has defined before
 *   TILE_ZERO(t), TILE_LOAD(t, from), TILE_MADD(sum, a, b), TILE_STORE(t, to)   with t = 0..7
 * and TILE_FN, the attributes of a function that uses them. No include guard: this is code.
 *
 * Two passes over the depth, each for four sums s, in tiles 0..3. Digit i of a, in tile 4, meets
 * digits s - i of b; three of the four were there for digit i - 1. So tiles 5..7 are a window that
 * slides over b, digit j in tile 5 + j % 3, and each digit is loaded once in a pass. */
#define LOAD_A(i)    TILE_LOAD(4, a + (i)*UVCCI_TILE_BYTES)
#define LOAD_B(t, j) TILE_LOAD(t, b + (j)*UVCCI_TILE_BYTES)
/* Digit i of a with the window t3, t2, t1 and digit j of b, which comes to t0 = t3. */
#define MEET(i, j, t3, t2, t1)                                                                     \
    LOAD_A(i);                                                                                     \
    TILE_MADD(3, 4, t3);                                                                           \
    LOAD_B(t3, j);                                                                                 \
    TILE_MADD(2, 4, t2);                                                                           \
    TILE_MADD(1, 4, t1);                                                                           \
    TILE_MADD(0, 4, t3)
/* Digits i, i + 1, i + 2 of a with what is left: digits 2, 1, 0 of b. */
#define MEET_LAST(i)                                                                               \
    LOAD_A(i);                                                                                     \
    TILE_MADD(3, 4, 7);                                                                            \
    TILE_MADD(2, 4, 6);                                                                            \
    TILE_MADD(1, 4, 5);                                                                            \
    LOAD_A((i) + 1);                                                                               \
    TILE_MADD(3, 4, 6);                                                                            \
    TILE_MADD(2, 4, 5);                                                                            \
    LOAD_A((i) + 2);                                                                               \
    TILE_MADD(3, 4, 5)

TILE_FN static void zero_sums(void) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
}

TILE_FN static void store_sums(int32_t *sums) {
    enum { SUM = UVCCI_TILE_LANES * UVCCI_TILE_LANES };
    TILE_STORE(0, sums);
    TILE_STORE(1, sums + SUM);
    TILE_STORE(2, sums + 2 * SUM);
    TILE_STORE(3, sums + 3 * SUM);
}

TILE_FN static void multiply(size_t steps, const uint8_t *a_panel, const uint8_t *b_panel,
                             int32_t *sums) {
    const uint8_t *a = a_panel, *b = b_panel;
    zero_sums();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += UVCCI_TILE_STEP) {
        LOAD_B(5, 3);
        LOAD_B(7, 2);
        LOAD_B(6, 1);
        MEET(0, 0, 5, 7, 6);
        MEET_LAST(1);
    }
    store_sums(sums);

    a = a_panel;
    b = b_panel;
    zero_sums();
    for (size_t p = 0; p < steps; p++, a += UVCCI_TILE_STEP, b += UVCCI_TILE_STEP) {
        LOAD_B(6, 7);
        LOAD_B(5, 6);
        LOAD_B(7, 5);
        MEET(0, 4, 6, 5, 7);
        MEET(1, 3, 5, 7, 6);
        MEET(2, 2, 7, 6, 5);
        MEET(3, 1, 6, 5, 7);
        MEET(4, 0, 5, 7, 6);
        MEET_LAST(5);
    }
    store_sums(sums + UVCCI_TILE_SUMS / 2);
}

#undef LOAD_A
#undef LOAD_B
#undef MEET
#undef MEET_LAST
