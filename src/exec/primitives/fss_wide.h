/* SPDX-License-Identifier: Apache-2.0 */
/* fss_wide.h - trees of keys by AVX-512 and VAES, four nodes to a register: what dpf_x86.c,
 * dcf_x86.c and multiscale_x86.c have in common. For these files only.
 *
 * What decides something for a node - alpha, a control bit, a direction - is a mask of its
 * register, two bits per node, so nothing branches on a secret or indexes by it; points are public
 * to the edge, and round keys are looked up by their bits. */
#ifndef UVCCI_FSS_WIDE_H
#define UVCCI_FSS_WIDE_H

#include "exec/primitives/dpf.h"

#if UVCCI_FSS_X86

#include <assert.h>
#include <immintrin.h>
#include <string.h>

#define TARGET                                                                                     \
    target("avx512f,avx512dq,avx512bw,avx512vbmi,avx512vbmi2,avx512vpopcntdq,gfni,vaes,bmi2")
#define WIDE        __attribute__((TARGET))
#define WIDE_INLINE static inline __attribute__((always_inline, TARGET))

/* Loops over registers must be unrolled at any -O level, or the registers live in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { ROUNDS = 10, BLOCK = 16, PER_REG = 4, REGS = 8, CHUNK = PER_REG * REGS };
/* Of the 32 nodes in flight, the first ones blend the round keys of their sides from registers, the
 * others read theirs from memory: so neither the vector units nor the loads are the limit. */
enum { BLENDED = 4 };
/* From one uvcci_dpf_four to the next, in nodes. */
enum { STEP = sizeof(uvcci_dpf_four) / sizeof(uvcci_dpf_node) };
enum { TERMINAL_BITS = 7, CONTROL_LEVELS = 32 /* in one half of a key's control bits */ };

/* Truth tables of ternary logic: the index is a << 2 | b << 1 | c. */
enum {
    A_XOR_B_ANDNOT_C = 0xb4,
    A_XOR_B_AND_C = 0x78,
    A_XOR_B_XOR_C = 0x96,
    A_PICKS_B_ELSE_C = 0xca,
    A_PICKS_NOT_B_ELSE_C = 0x3a,
};

/* x in the lowest 64 bits of each node. */
WIDE_INLINE __m512i low_half(long long x) {
    return _mm512_set_epi64(0, x, 0, x, 0, x, 0, x);
}

WIDE_INLINE __m512i *reg(void *x) {
    return (__m512i *)x;
}

WIDE_INLINE const __m512i *node_at(const uvcci_dpf_node *x) {
    return (const __m512i *)(const void *)x;
}

/* The masks of node i and of those after it, of `count` nodes. */
WIDE_INLINE __mmask8 part(uint32_t count, uint32_t i) {
    if (i >= count)
        return 0;
    return count - i >= PER_REG ? 0xff : (__mmask8)((1u << 2 * (count - i)) - 1);
}

WIDE_INLINE __m512i load_part(const uint8_t *p, __mmask8 k) {
    return _mm512_maskz_loadu_epi64(k, p);
}

/* The words of node i and of those after it, each in both halves. Those at and after count are 0.
 */
WIDE_INLINE __m512i both_halves(const uint64_t *x, uint32_t count, uint32_t i) {
    const __m512i halves = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    const uint32_t left = i < count ? count - i : 0;
    const __mmask8 k = left >= PER_REG ? 0xf : (__mmask8)((1u << left) - 1);
    return _mm512_permutexvar_epi64(halves, _mm512_maskz_loadu_epi64(k, x + i));
}

WIDE_INLINE void round_keys(__m512i k[ROUNDS + 1], const uvcci_aes *a) {
    UNROLL for (unsigned r = 0; r <= ROUNDS; r++) {
        k[r] = _mm512_broadcast_i32x4(
            _mm_load_si128((const __m128i *)(const void *)(a->rk + r * BLOCK)));
    }
}

/* The round after the first key. */
WIDE_INLINE __m512i aes_round(__m512i s, __m512i k, unsigned r) {
    return r == ROUNDS ? _mm512_aesenclast_epi128(s, k) : _mm512_aesenc_epi128(s, k);
}

/* x ^ node without the control bit. */
WIDE_INLINE __m512i add_seed(__m512i x, __m512i node) {
    return _mm512_ternarylogic_epi64(x, node, low_half(1), A_XOR_B_ANDNOT_C);
}

WIDE_INLINE __mmask8 control_mask(__m512i node) {
    return _mm512_test_epi64_mask(_mm512_unpacklo_epi64(node, node), _mm512_set1_epi64(1));
}

/* --- Evaluations ------------------------------------------------------------------------------ */

#define EVEN_BITS 0x5555555555555555u

/* Masks of the bytes [from, from + 64) of `there`. */
WIDE_INLINE __mmask64 bytes_part(size_t there, size_t from) {
    if (there <= from)
        return 0;
    return there - from >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (there - from)) - 1;
}

/* Eight bytes of control bits of each of m keys, which have tb each, tb <= 16; those of the keys
 * after it may come along. */
WIDE_INLINE void load_control(uint64_t *out, const uint8_t *bits, const uint8_t *end, unsigned tb,
                              uint32_t m) {
    const size_t there = (size_t)(end - bits);
    assert(bits <= end && tb <= 16 && m <= UVCCI_DPF_GROUP);
    const __m512i eighth = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i first = _mm512_mullo_epi64(eighth, _mm512_set1_epi64(0x0101010101010101 * tb));
    const __m512i from = _mm512_add_epi64(first, _mm512_set1_epi64(0x0706050403020100));
    for (uint32_t i = 0; i < m; i += 8) {
        const size_t at = (size_t)i * tb;
        const uint8_t *p = bits + (at < there ? at : there);
        const __m512i a = _mm512_maskz_loadu_epi8(bytes_part(there, at), p);
        const __m512i b =
            _mm512_maskz_loadu_epi8(bytes_part(there, at + 64), there > at + 64 ? p + 64 : p);
        _mm512_store_si512(out + i, _mm512_permutex2var_epi8(a, from, b));
    }
}

/* The bits [low, high] of the points as masks, for 64 points at a time: which way each point turns
 * at a level. x is public, so its bits may choose what is read; points after the last are 0, not
 * what memory held before, which may not. */
WIDE_INLINE void eval_turns(uvcci_dpf_wide *w, uint32_t m, unsigned low, unsigned high) {
    assert(m >= 1 && m <= UVCCI_DPF_GROUP && low <= high + 1 && high < 64);
    const __m512i identity = _mm512_set1_epi64((long long)0x8040201008040201u);
    /* Where byte 8 r + c comes from: 8 c + r, and 8 (7 - c) + r. */
    const __m512i transposed = _mm512_set_epi64(
        0x3f372f271f170f07, 0x3e362e261e160e06, 0x3d352d251d150d05, 0x3c342c241c140c04,
        0x3b332b231b130b03, 0x3a322a221a120a02, 0x3931292119110901, 0x3830282018100800);
    const __m512i turned = _mm512_set_epi64(
        0x070f171f272f373f, 0x060e161e262e363e, 0x050d151d252d353d, 0x040c141c242c343c,
        0x030b131b232b333b, 0x020a121a222a323a, 0x0109111921293139, 0x0008101820283038);
    const __m512i rows = _mm512_set_epi64(56, 48, 40, 32, 24, 16, 8, 0);
    _Alignas(64) uint64_t of_byte[UVCCI_DPF_GROUP / 8][8], of_bit[8];
    for (uint32_t i = 0; i < (m + 63) / 64 * 64; i += 8) {
        const __mmask8 k = i >= m ? 0 : m - i >= 8 ? 0xff : (__mmask8)((1u << (m - i)) - 1);
        /* Word b: byte b of eight points, the last one first; then byte r of it: bit r. */
        const __m512i x = _mm512_permutexvar_epi8(turned, _mm512_maskz_load_epi64(k, w->x + i));
        _mm512_store_si512(of_byte[i / 8], _mm512_gf2p8affine_epi64_epi8(identity, x, 0));
    }
    for (uint32_t i = 0; i < m; i += 64) {
        for (unsigned b = low / 8; b <= high / 8; b++) {
            const __m512i byte = _mm512_i64gather_epi64(rows, &of_byte[i / 8][b], 8);
            _mm512_store_si512(of_bit, _mm512_permutexvar_epi8(transposed, byte));
            UNROLL for (unsigned r = 0; r < 8; r++) {
                uint64_t *rights = w->rights[8 * b + r] + i / 32;
                w->right[8 * b + r][i / 64] = of_bit[r];
                rights[0] = _pdep_u64(of_bit[r], EVEN_BITS) * 3;
                rights[1] = _pdep_u64(of_bit[r] >> 32, EVEN_BITS) * 3;
            }
        }
    }
}

/* Corrections of the control bits along the paths, for 32 levels: that of level l in bit 2 (l % 32)
 * of the lower half; beside, unless NULL: those of the nodes beside the paths. */
WIDE_INLINE void eval_path(uvcci_dpf_wide *w, uint32_t m, unsigned n, unsigned half,
                           uvcci_dpf_node *beside) {
    assert(n >= 1 && n <= 64 && half < 2 && m <= UVCCI_DPF_GROUP);
    const __m128i skip = _mm_cvtsi32_si128((int)(64 - n + CONTROL_LEVELS * half));
    const __m512i from_top = _mm512_set4_epi64(0x0c0c0d0d0e0e0f0f, 0x0404050506060707,
                                               0x0c0c0d0d0e0e0f0f, 0x0404050506060707);
    /* The upper four bits of a byte, the highest first, to its even ones. */
    const __m512i spread = _mm512_set1_epi64((long long)0x8000400020001000u);
    const __m512i lower = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    const __m512i upper = _mm512_set_epi64(7, 7, 6, 6, 5, 5, 4, 4);
    for (uint32_t i = 0; i < m; i += 2 * PER_REG) {
        uvcci_dpf_four *four = w->four + i / PER_REG;
        __m512i x = _mm512_sll_epi64(_mm512_load_si512(w->x + i), skip);
        x = _mm512_shuffle_epi8(x, from_top); /* every byte twice */
        x = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, x, _mm512_slli_epi16(x, 4));
        x = _mm512_gf2p8affine_epi64_epi8(x, spread, 0);
        const __m512i l = _mm512_load_si512(w->control[half] + i), r = _mm512_srli_epi64(l, 1);
        const __m512i along = _mm512_ternarylogic_epi64(x, r, l, A_PICKS_B_ELSE_C);
        *reg(four[0].path) = _mm512_permutexvar_epi64(lower, along);
        *reg(four[1].path) = _mm512_permutexvar_epi64(upper, along);
        if (beside != NULL) {
            const __m512i other = _mm512_ternarylogic_epi64(x, l, r, A_PICKS_B_ELSE_C);
            *reg(beside + i) = _mm512_permutexvar_epi64(lower, other);
            *reg(beside + i + PER_REG) = _mm512_permutexvar_epi64(upper, other);
        }
    }
}

/* --- Keys ----------------------------------------------------------------------------------- */

typedef struct gen_group {
    _Alignas(64) uvcci_dpf_node seed[2][UVCCI_DPF_GROUP]; /* of both parties */
    uvcci_dpf_node alpha[UVCCI_DPF_GROUP];
    uvcci_dpf_node control[2][UVCCI_DPF_GROUP];
    uvcci_dpf_node hit[UVCCI_DPF_GROUP]; /* party 0's terminal block where it is alpha's terminal */
} gen_group;

WIDE_INLINE void gen_roots(gen_group *g, uint32_t m, const uint64_t *alpha, const uint8_t *root0,
                           const uint8_t *root1) {
    const __m512i one = low_half(1);
    assert(m <= UVCCI_DPF_GROUP);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        *reg(g->alpha + i) = both_halves(alpha, m, i);
        const __mmask8 k = part(m, i);
        *reg(g->seed[0] + i) = _mm512_andnot_si512(one, load_part(root0 + (size_t)i * BLOCK, k));
        *reg(g->seed[1] + i) = _mm512_or_si512(one, load_part(root1 + (size_t)i * BLOCK, k));
        *reg(g->control[0] + i) = *reg(g->control[1] + i) = _mm512_setzero_si512();
    }
}

/* Four nodes of both parties become the children on alpha's side: child[party][left, right]. The
 * level's correction words go to `to`, where keys are there. */
WIDE_INLINE void gen_correct(gen_group *g, uint32_t i, __mmask8 there, __mmask8 goes_right,
                             __m512i child[2][2], unsigned l, uint8_t *to) {
    const __m512i one = low_half(1), three = low_half(3);
    const __mmask8 t0 = control_mask(*reg(g->seed[0] + i));
    const __m512i left_sum = _mm512_xor_si512(child[0][0], child[1][0]);
    const __m512i right_sum = _mm512_xor_si512(child[0][1], child[1][1]);
    const __m512i lost = _mm512_mask_blend_epi64(goes_right, right_sum, left_sum);
    const __m512i kept = _mm512_mask_blend_epi64(goes_right, left_sum, right_sum);
    _mm512_mask_storeu_epi64(to, there, _mm512_andnot_si512(one, lost));

    /* Children's control bits are to differ where alpha is below, else to agree. */
    const __m512i bits = _mm512_ternarylogic_epi64(
        one, left_sum, _mm512_add_epi64(right_sum, right_sum), A_PICKS_B_ELSE_C);
    const __m512i differ = _mm512_mask_blend_epi64(goes_right, one, low_half(2));
    const __m512i control = _mm512_ternarylogic_epi64(differ, bits, three, A_XOR_B_AND_C);
    __m512i *all = reg(g->control[l / CONTROL_LEVELS] + i);
    *all = _mm512_or_si512(
        *all, _mm512_sll_epi64(control, _mm_cvtsi32_si128((int)(2 * (l % CONTROL_LEVELS)))));

    const __m512i cw = _mm512_ternarylogic_epi64(one, kept, lost, A_PICKS_NOT_B_ELSE_C);
    UNROLL for (unsigned p = 0; p < 2; p++) {
        const __m512i next = _mm512_mask_blend_epi64(goes_right, child[p][0], child[p][1]);
        const __mmask8 t = p == 0 ? t0 : (__mmask8)~t0;
        *reg(g->seed[p] + i) = _mm512_mask_xor_epi64(next, t, next, cw);
    }
}

/* tb bytes of each key. A store of 16 bytes is the faster one; the next keys go over its end. */
WIDE_INLINE void gen_control(const gen_group *g, uint32_t m, unsigned tb, uint8_t *bits) {
    assert(m <= UVCCI_DPF_GROUP && tb <= 16);
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t both[2] = {g->control[0][i].lo, g->control[1][i].lo};
        if ((size_t)(m - i) * tb >= sizeof both)
            memcpy(bits + (size_t)i * tb, both, sizeof both);
        else
            memcpy(bits + (size_t)i * tb, both, tb);
    }
}

#endif
#endif
