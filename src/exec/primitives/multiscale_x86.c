/* SPDX-License-Identifier: Apache-2.0 */
/* multiscale_x86.c - the trees of multiscale.c by VAES and AVX-512, four nodes to a register: what
 * is encrypted stays in registers until it is a child, or a part of a sum. */
#include "exec/primitives/multiscale.h"

#include "exec/primitives/fss_wide.h"

#if UVCCI_FSS_X86

/* Registers of nodes in flight, each encrypted twice. */
enum { NODE_REGS = 4 };

WIDE_INLINE __m512i load(const void *p) {
    return _mm512_loadu_si512(p);
}

WIDE_INLINE __m512i four(const void *p) {
    return _mm512_broadcast_i64x2(_mm_loadu_si128(p));
}

/* MMO of regs registers, of each twice: by both keys, or by one with two constants added. */
WIDE_INLINE void mmo_twice(const uvcci_multiscale_wide *w, unsigned right, const __m512i add[2],
                           const uvcci_dpf_node *seed, unsigned regs, __m512i out[2][NODE_REGS]) {
    __m512i in[NODE_REGS];
    UNROLL for (unsigned j = 0; j < regs; j++) {
        in[j] = _mm512_andnot_si512(low_half(1), load(seed + j * PER_REG));
    }
    UNROLL for (unsigned p = 0; p < 2; p++) {
        const __m512i k = _mm512_xor_si512(load(w->round_key[p * right][0]), add[p]);
        UNROLL for (unsigned j = 0; j < regs; j++) {
            out[p][j] = _mm512_xor_si512(in[j], k);
        }
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned p = 0; p < 2; p++) {
            const __m512i k = load(w->round_key[p * right][r]);
            UNROLL for (unsigned j = 0; j < regs; j++) {
                out[p][j] = aes_round(out[p][j], k, r);
            }
        }
    }
    UNROLL for (unsigned p = 0; p < 2; p++) {
        UNROLL for (unsigned j = 0; j < regs; j++) {
            out[p][j] = _mm512_ternarylogic_epi64(out[p][j], in[j], add[p], 0x96); /* XOR */
        }
    }
}

WIDE void uvcci_multiscale_wide_begin(uvcci_multiscale_wide *w, const uvcci_aes dpf[2]) {
    for (unsigned side = 0; side < 2; side++)
        for (unsigned r = 0; r <= ROUNDS; r++)
            _mm512_store_si512(w->round_key[side][r], four(dpf[side].rk + r * BLOCK));
}

WIDE_INLINE void children(const uvcci_multiscale_wide *w, const uvcci_dpf_node *from, unsigned regs,
                          const uvcci_dpf_node cw[2], uvcci_dpf_node *to) {
    const __m512i cws[2] = {four(&cw[0]), four(&cw[1])};
    const __m512i none[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    const __m512i lower = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
    const __m512i upper = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    __m512i child[2][NODE_REGS];
    mmo_twice(w, 1, none, from, regs, child);
    UNROLL for (unsigned j = 0; j < regs; j++) {
        const __mmask8 t = control_mask(load(from + j * PER_REG));
        const __m512i left = _mm512_mask_xor_epi64(child[0][j], t, child[0][j], cws[0]);
        const __m512i right = _mm512_mask_xor_epi64(child[1][j], t, child[1][j], cws[1]);
        uvcci_dpf_node *at = to + (size_t)2 * PER_REG * j;
        _mm512_storeu_si512(at, _mm512_permutex2var_epi64(right, lower, left));
        _mm512_storeu_si512(at + PER_REG, _mm512_permutex2var_epi64(right, upper, left));
    }
}

WIDE void uvcci_multiscale_wide_children(const uvcci_multiscale_wide *w, const uvcci_dpf_node *from,
                                         unsigned n, const uvcci_dpf_node cw[2],
                                         uvcci_dpf_node *to) {
    unsigned j = 0;
    for (; j + NODE_REGS * PER_REG <= n; j += NODE_REGS * PER_REG)
        children(w, from + j, NODE_REGS, cw, to + (size_t)2 * j);
    switch ((n - j + PER_REG - 1) / PER_REG) {
    case 4:
        children(w, from + j, 4, cw, to + (size_t)2 * j);
        break;
    case 3:
        children(w, from + j, 3, cw, to + (size_t)2 * j);
        break;
    case 2:
        children(w, from + j, 2, cw, to + (size_t)2 * j);
        break;
    case 1:
        children(w, from + j, 1, cw, to + (size_t)2 * j);
        break;
    default:
        break;
    }
}

/* The sums of the lower and of the upper halves. */
WIDE_INLINE void halves(__m512i x, uint64_t out[2]) {
    uint64_t lane[8];
    _mm512_storeu_si512(lane, x);
    out[0] = lane[0] + lane[2] + lane[4] + lane[6];
    out[1] = lane[1] + lane[3] + lane[5] + lane[7];
}

WIDE_INLINE __mmask8 there(unsigned n, unsigned i) {
    return i >= n ? 0 : n - i >= PER_REG ? 0xff : (__mmask8)((1u << 2 * (n - i)) - 1);
}

/* What regs registers of nodes, of which n are there, add to the sums. */
WIDE_INLINE void add_sums(const uvcci_multiscale_wide *w, uvcci_multiscale_factors factor,
                          unsigned at, const uvcci_dpf_node *seed, unsigned n, unsigned regs,
                          const __m512i cws[2], __m512i acc[4]) {
    const __m512i add[2] = {low_half(1), low_half(3)};
    __m512i value[2][NODE_REGS];
    mmo_twice(w, 0, add, seed + at, regs, value);
    UNROLL for (unsigned j = 0; j < regs; j++, at += PER_REG) {
        const __mmask8 k = there(n, at), t = control_mask(load(seed + at));
        const __m512i x = _mm512_mask_add_epi64(value[0][j], t, value[0][j], cws[0]);
        const __m512i y = _mm512_mask_add_epi64(value[1][j], t, value[1][j], cws[1]);
        const __m512i a = _mm512_maskz_loadu_epi64(k, factor[0] + 2 * (size_t)at);
        const __m512i b = _mm512_maskz_loadu_epi64(k, factor[1] + 2 * (size_t)at);
        const __m512i c = _mm512_maskz_loadu_epi64(k, factor[2] + 2 * (size_t)at);
        acc[0] = _mm512_add_epi64(acc[0], _mm512_mullo_epi64(a, x));
        acc[1] = _mm512_add_epi64(acc[1], _mm512_mullo_epi64(b, x));
        acc[2] = _mm512_add_epi64(acc[2], _mm512_mullo_epi64(c, x));
        acc[3] = _mm512_add_epi64(acc[3], _mm512_mullo_epi64(c, y));
    }
}

/* Control bits are secret, so correction words are added under masks, never behind a branch. What
 * is left of a window after its full groups has a case for each number of registers: add_sums() is
 * unrolled only where the compiler knows how many it has. */
WIDE void uvcci_multiscale_wide_sums(const uvcci_multiscale_wide *w,
                                     uvcci_multiscale_factors factor, const uvcci_dpf_node *seed,
                                     unsigned n, const uint64_t cw[UVCCI_MULTISCALE_WORDS],
                                     uint64_t sum[4][2]) {
    const __m512i cws[2] = {four(cw), _mm512_set1_epi64((long long)cw[2])};
    __m512i acc[4];
    unsigned i = 0;
    for (unsigned j = 0; j < 4; j++)
        acc[j] = _mm512_setzero_si512();
    for (; i + NODE_REGS * PER_REG <= n; i += NODE_REGS * PER_REG)
        add_sums(w, factor, i, seed, n, NODE_REGS, cws, acc);
    switch ((n - i + PER_REG - 1) / PER_REG) {
    case 4:
        add_sums(w, factor, i, seed, n, 4, cws, acc);
        break;
    case 3:
        add_sums(w, factor, i, seed, n, 3, cws, acc);
        break;
    case 2:
        add_sums(w, factor, i, seed, n, 2, cws, acc);
        break;
    case 1:
        add_sums(w, factor, i, seed, n, 1, cws, acc);
        break;
    default:
        break;
    }
    for (unsigned j = 0; j < 4; j++)
        halves(acc[j], sum[j]);
}

#endif
