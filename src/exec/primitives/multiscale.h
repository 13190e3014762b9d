/* SPDX-License-Identifier: Apache-2.0 */
/* multiscale.h - windows at many scales on one key: a DPF whose nodes carry values at some of its
 * levels (incremental DPF: Boneh, Boyle, Corrigan-Gibbs, Gilboa, Ishai 2021), for tables that are
 * finer where arguments are smaller.
 *
 * A value x is known as xh = x + r. Scale k cuts it into cells of width 2^n, n =
 * shift + 2k: its index there is floor((x + r mod 2^n) / 2^n) = (xh >> n) - (r >> n). The tree has
 * depth levels for alpha = (r >> shift) mod 2^depth; its node at level depth - 2k above alpha says
 * r >> n. x belongs to the highest scale where its index is `cells` or more, and there to one of
 * the cells cells .. 4 cells - 1. The index at a scale follows from that of the scale below and
 * from bits of xh, so every window knows by itself which of its nodes belong to it: all but a few
 * of the last.
 *
 * The value of the node above alpha at scale k is (1, q, q^2), q the highest UVCCI_MULTISCALE_BITS
 * bits of r mod 2^n; that of all others is 0. So HEAD and TAIL have shares of polynomials of what
 * the index leaves out, without a message.
 *
 * Children, control bits and the seeds' lowest bits are the DPF's (dpf.h); words 0, 1 and word 2 of
 * a value are MMO_left(seed ^ 1) and MMO_left(seed ^ 3). */
#ifndef UVCCI_MULTISCALE_H
#define UVCCI_MULTISCALE_H

#include "exec/primitives/dpf.h"
#include <stdbool.h>

enum { UVCCI_MULTISCALE_BITS = 12, UVCCI_MULTISCALE_WORDS = 3, UVCCI_MULTISCALE_CELLS_MAX = 16 };
enum { UVCCI_MULTISCALE_SCALES_MAX = 32 };
/* Halvings from a scale to the next, and the cells of one for each of `cells`. */
enum { UVCCI_MULTISCALE_STEP = 2, UVCCI_MULTISCALE_SPAN = 3 };

typedef struct uvcci_multiscale {
    unsigned depth, scales, shift,
        cells; /* 1 <= scales, 2 scales - 2 < depth, shift + depth <= 64 */
} uvcci_multiscale;

/* Correction words of c points: depth levels of 16 bytes a point, scales of 3 words a point (from
 * the finest), ceil(2 depth / 8) bytes of control bits a point. */
static inline size_t uvcci_multiscale_bytes(unsigned depth, unsigned scales, uint32_t c) {
    return (size_t)c * (16 * depth + 8 * UVCCI_MULTISCALE_WORDS * scales + (2 * depth + 7) / 8);
}

/* Keys for the masks r[c], with roots of 16 bytes a point as for a DPF. */
void uvcci_multiscale_gen(const uvcci_aes dpf[2], const uvcci_multiscale *s, uint32_t c,
                          const uint64_t *r, const uint8_t *root0, const uint8_t *root1,
                          uint8_t *key);

/* out[i] = this party's additive share, for x = xh[i] - r, of a0 + a1 l + a2 l^2: of x's scale k
 * and cell the coefficients a0, a1, a2 = words[(3 k + 0, 1, 2) 3 cells + cell - cells], l = lo - q,
 * lo the bits of xh that q has of r. 0 if x has no scale, that is below the first cell. party1:
 * TAIL. */
void uvcci_multiscale_eval(const uvcci_aes dpf[2], const uvcci_multiscale *s, uint32_t c,
                           const uint64_t *xh, const uint8_t *root, bool party1, const uint8_t *key,
                           const int64_t *words, uint64_t *out);

/* The highest UVCCI_MULTISCALE_BITS bits of x mod 2^n. */
static inline uint64_t uvcci_multiscale_low(uint64_t x, unsigned n) {
    x = n >= 64 ? x : x & (((uint64_t)1 << n) - 1);
    return n >= UVCCI_MULTISCALE_BITS ? x >> (n - UVCCI_MULTISCALE_BITS)
                                      : x << (UVCCI_MULTISCALE_BITS - n);
}

/* Bits below a cell of scale k. */
static inline unsigned uvcci_multiscale_bits(const uvcci_multiscale *s, unsigned k) {
    return s->shift + UVCCI_MULTISCALE_STEP * k;
}

/* --- For multiscale*.c only ------------------------------------------------------------------- */

enum {
    UVCCI_MULTISCALE_SPARE = 16,
    UVCCI_MULTISCALE_WINDOW = UVCCI_MULTISCALE_SPAN * UVCCI_MULTISCALE_CELLS_MAX
};
/* (a0, a1), (a1, a2) and (a2, 0) of each cell. */
typedef int64_t uvcci_multiscale_factors[3][2 * (UVCCI_MULTISCALE_WINDOW + UVCCI_MULTISCALE_SPARE)];

/* Round keys, each four times: of left and right. */
typedef struct uvcci_multiscale_wide {
    _Alignas(64) uint8_t round_key[2][11][64];
} uvcci_multiscale_wide;
/* children() and sums() of multiscale.c by VAES and AVX-512DQ, four nodes to a register: up to
 * UVCCI_MULTISCALE_SPARE nodes behind the last are read, and their children written. */
void uvcci_multiscale_wide_begin(uvcci_multiscale_wide *w, const uvcci_aes dpf[2]);
void uvcci_multiscale_wide_children(const uvcci_multiscale_wide *w, const uvcci_dpf_node *from,
                                    unsigned n, const uvcci_dpf_node cw[2], uvcci_dpf_node *to);
void uvcci_multiscale_wide_sums(const uvcci_multiscale_wide *w, uvcci_multiscale_factors factor,
                                const uvcci_dpf_node *seed, unsigned n,
                                const uint64_t cw[UVCCI_MULTISCALE_WORDS], uint64_t sum[4][2]);

#endif
