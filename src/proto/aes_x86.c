/* SPDX-License-Identifier: Apache-2.0 */
/* aes_x86.c - AES-128 by AES-NI (8 blocks in flight) and VAES-512 (16 blocks in flight).
 *
 * Functions carry their own target, so the file needs no compiler flags; the CPU and the operating
 * system are asked at run time. A group of blocks is inlined twice: once whole, where every
 * condition on the number of blocks folds away, and once for the rest. Only block counts are ever
 * branched on, and the public selection of mmo2 chooses what is read. */
#include "proto/aes_backends.h"

#if UVCCI_AES_X86

#include <cpuid.h>
#include <immintrin.h>
#include <stdbool.h>

#include "proto/bytes.h"

#define NI          __attribute__((target("aes,sse4.1")))
#define NI_INLINE   static inline __attribute__((always_inline, target("aes,sse4.1")))
#define VAES        __attribute__((target("avx512f,vaes")))
#define VAES_INLINE static inline __attribute__((always_inline, target("avx512f,vaes")))

/* Loops over registers must be unrolled at any -O level, or the registers live in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { ROUNDS = 10, BLOCK = 16 };

/* --- AES-NI ----------------------------------------------------------------------------------- */

enum { NI_GROUP = 8 };

NI_INLINE __m128i ni_load1(const uint8_t *p) {
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* Blocks at and after n are not touched; their registers hold zero. */
NI_INLINE void ni_load(__m128i s[NI_GROUP], const uint8_t *in, size_t n) {
    UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
        s[i] = i < n ? ni_load1(in + i * BLOCK) : _mm_setzero_si128();
    }
}

NI_INLINE void ni_store(uint8_t *out, const __m128i s[NI_GROUP], size_t n) {
    UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
        if (i < n)
            _mm_storeu_si128((__m128i *)(void *)(out + i * BLOCK), s[i]);
    }
}

/* The input is read again instead of kept: registers are short. */
NI_INLINE void ni_feed(__m128i s[NI_GROUP], const uint8_t *in, size_t n) {
    __m128i x[NI_GROUP];
    ni_load(x, in, n);
    UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
        s[i] = _mm_xor_si128(s[i], x[i]);
    }
}

NI_INLINE __m128i ni_key(const uint8_t *rk, size_t r) {
    return _mm_load_si128((const __m128i *)(const void *)(rk + r * BLOCK));
}

NI_INLINE __m128i ni_step(__m128i s, __m128i k, size_t r) {
    return r == 0        ? _mm_xor_si128(s, k)
           : r == ROUNDS ? _mm_aesenclast_si128(s, k)
                         : _mm_aesenc_si128(s, k);
}

NI_INLINE void ni_encrypt(const uint8_t *rk, __m128i s[NI_GROUP]) {
    UNROLL for (size_t r = 0; r <= ROUNDS; r++) {
        const __m128i k = ni_key(rk, r);
        UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
            s[i] = ni_step(s[i], k, r);
        }
    }
}

/* feed: the input is added to the output (Matyas-Meyer-Oseas). */
NI_INLINE void ni_group(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n, bool feed) {
    __m128i s[NI_GROUP];
    ni_load(s, in, n);
    ni_encrypt(rk, s);
    if (feed)
        ni_feed(s, in, n);
    ni_store(out, s, n);
}

NI_INLINE void ni_blocks(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n, bool feed) {
    for (; n >= NI_GROUP; n -= NI_GROUP, in += NI_GROUP * BLOCK, out += NI_GROUP * BLOCK)
        ni_group(rk, in, out, NI_GROUP, feed);
    if (n != 0)
        ni_group(rk, in, out, n, feed);
}

NI static void ni_ecb(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n) {
    ni_blocks(rk, in, out, n, false);
}

NI_INLINE __m128i ni_ctr_group(const uint8_t *rk, __m128i ctr, uint8_t *out, size_t n) {
    const __m128i one = _mm_set_epi64x(1 << 16, 0);
    __m128i s[NI_GROUP];
    UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
        s[i] = ctr;
        ctr = _mm_add_epi64(ctr, one);
    }
    ni_encrypt(rk, s);
    ni_store(out, s, n);
    return ctr;
}

NI static void ni_ctr48(const uint8_t *rk, uint64_t lo, uint64_t hi, uint8_t *out, size_t n) {
    __m128i ctr = _mm_set_epi64x((long long)hi, (long long)lo);
    for (; n >= NI_GROUP; n -= NI_GROUP, out += NI_GROUP * BLOCK)
        ctr = ni_ctr_group(rk, ctr, out, NI_GROUP);
    if (n != 0)
        ni_ctr_group(rk, ctr, out, n);
}

/* n <= NI_GROUP. The round keys of a block's own key are read where they lie. */
NI_INLINE void ni_mmo2_group(const uint8_t *left, const uint8_t *right, unsigned sel,
                             const uint8_t *in, uint8_t *out, size_t n) {
    __m128i s[NI_GROUP];
    const uint8_t *rk[NI_GROUP];
    UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
        rk[i] = (sel >> i & 1) != 0 ? right : left;
    }
    ni_load(s, in, n);
    UNROLL for (size_t r = 0; r <= ROUNDS; r++) {
        UNROLL for (size_t i = 0; i < NI_GROUP; i++) {
            s[i] = ni_step(s[i], ni_key(rk[i], r), r);
        }
    }
    ni_feed(s, in, n);
    ni_store(out, s, n);
}

NI static void ni_mmo2(const uint8_t *left, const uint8_t *right, const uint8_t *sel,
                       const uint8_t *in, uint8_t *out, size_t n) {
    if (sel == NULL) {
        ni_blocks(left, in, out, n, true);
        return;
    }
    for (; n >= NI_GROUP; n -= NI_GROUP, in += NI_GROUP * BLOCK, out += NI_GROUP * BLOCK)
        ni_mmo2_group(left, right, *sel++, in, out, NI_GROUP);
    if (n != 0)
        ni_mmo2_group(left, right, *sel, in, out, n);
}

const uvcci_aes_ops uvcci_aes_ni_ops = {ni_ecb, ni_ctr48, ni_mmo2};

/* --- VAES-512 --------------------------------------------------------------------------------- */

/* A register holds four blocks. Four of them in flight hide the latency of a round, and leave room
 * for the 22 round keys of mmo2. */
enum { PER_REG = 4, REGS = 4, GROUP = PER_REG * REGS };

VAES_INLINE void vaes_keys(__m512i k[ROUNDS + 1], const uint8_t *rk) {
    UNROLL for (size_t r = 0; r <= ROUNDS; r++) {
        k[r] = _mm512_broadcast_i32x4(
            _mm_loadu_si128((const __m128i *)(const void *)(rk + r * BLOCK)));
    }
}

/* The 64-bit halves of register i that belong to the first n blocks, at least one. */
VAES_INLINE __mmask8 vaes_part(size_t n, size_t i) {
    const size_t blocks = n - i * PER_REG;
    return blocks >= PER_REG ? 0xff : (__mmask8)((1u << 2 * blocks) - 1);
}

/* Blocks at and after n are not touched; their registers hold zero. */
VAES_INLINE void vaes_load(__m512i s[REGS], const uint8_t *in, size_t n) {
    UNROLL for (size_t i = 0; i < REGS; i++) {
        s[i] = _mm512_setzero_si512();
        if (i * PER_REG < n)
            s[i] = _mm512_maskz_loadu_epi64(vaes_part(n, i), in + i * PER_REG * BLOCK);
    }
}

VAES_INLINE void vaes_store(uint8_t *out, const __m512i s[REGS], size_t n) {
    UNROLL for (size_t i = 0; i < REGS; i++) {
        if (i * PER_REG < n)
            _mm512_mask_storeu_epi64(out + i * PER_REG * BLOCK, vaes_part(n, i), s[i]);
    }
}

VAES_INLINE void vaes_feed(__m512i s[REGS], const uint8_t *in, size_t n) {
    __m512i x[REGS];
    vaes_load(x, in, n);
    UNROLL for (size_t i = 0; i < REGS; i++) {
        s[i] = _mm512_xor_si512(s[i], x[i]);
    }
}

VAES_INLINE __m512i vaes_step(__m512i s, __m512i k, size_t r) {
    return r == 0        ? _mm512_xor_si512(s, k)
           : r == ROUNDS ? _mm512_aesenclast_epi128(s, k)
                         : _mm512_aesenc_epi128(s, k);
}

VAES_INLINE void vaes_encrypt(const __m512i k[ROUNDS + 1], __m512i s[REGS]) {
    UNROLL for (size_t r = 0; r <= ROUNDS; r++) {
        UNROLL for (size_t i = 0; i < REGS; i++) {
            s[i] = vaes_step(s[i], k[r], r);
        }
    }
}

VAES_INLINE void vaes_group(const __m512i k[ROUNDS + 1], const uint8_t *in, uint8_t *out, size_t n,
                            bool feed) {
    __m512i s[REGS];
    vaes_load(s, in, n);
    vaes_encrypt(k, s);
    if (feed)
        vaes_feed(s, in, n);
    vaes_store(out, s, n);
}

VAES_INLINE void vaes_blocks(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n,
                             bool feed) {
    __m512i k[ROUNDS + 1];
    vaes_keys(k, rk);
    for (; n >= GROUP; n -= GROUP, in += GROUP * BLOCK, out += GROUP * BLOCK)
        vaes_group(k, in, out, GROUP, feed);
    if (n != 0)
        vaes_group(k, in, out, n, feed);
}

VAES static void vaes_ecb(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n) {
    vaes_blocks(rk, in, out, n, false);
}

VAES_INLINE __m512i vaes_ctr_group(const __m512i k[ROUNDS + 1], __m512i ctr, uint8_t *out,
                                   size_t n) {
    const __m512i four = _mm512_set_epi64(4 << 16, 0, 4 << 16, 0, 4 << 16, 0, 4 << 16, 0);
    __m512i s[REGS];
    UNROLL for (size_t i = 0; i < REGS; i++) {
        s[i] = ctr;
        ctr = _mm512_add_epi64(ctr, four);
    }
    vaes_encrypt(k, s);
    vaes_store(out, s, n);
    return ctr;
}

VAES static void vaes_ctr48(const uint8_t *rk, uint64_t lo, uint64_t hi, uint8_t *out, size_t n) {
    __m512i k[ROUNDS + 1];
    vaes_keys(k, rk);
    const __m512i first = _mm512_broadcast_i32x4(_mm_set_epi64x((long long)hi, (long long)lo));
    const __m512i ahead = _mm512_set_epi64(3 << 16, 0, 2 << 16, 0, 1 << 16, 0, 0, 0);
    __m512i ctr = _mm512_add_epi64(first, ahead);
    for (; n >= GROUP; n -= GROUP, out += GROUP * BLOCK)
        ctr = vaes_ctr_group(k, ctr, out, GROUP);
    if (n != 0)
        vaes_ctr_group(k, ctr, out, n);
}

VAES_INLINE void vaes_mmo2_group(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                                 unsigned sel, const uint8_t *in, uint8_t *out, size_t n) {
    const __m512i sel_all = _mm512_set1_epi64(sel);
    __mmask8 to_right[REGS]; /* each bit twice: a block is two 64-bit halves */
    UNROLL for (size_t i = 0; i < REGS; i++) {
        const __m512i bit = _mm512_set_epi64(8, 8, 4, 4, 2, 2, 1, 1);
        to_right[i] =
            _mm512_test_epi64_mask(sel_all, _mm512_slli_epi64(bit, (unsigned)i * PER_REG));
    }
    __m512i s[REGS];
    vaes_load(s, in, n);
    UNROLL for (size_t r = 0; r <= ROUNDS; r++) {
        UNROLL for (size_t i = 0; i < REGS; i++) {
            s[i] = vaes_step(s[i], _mm512_mask_blend_epi64(to_right[i], left[r], right[r]), r);
        }
    }
    vaes_feed(s, in, n);
    vaes_store(out, s, n);
}

VAES static void vaes_mmo2(const uint8_t *left, const uint8_t *right, const uint8_t *sel,
                           const uint8_t *in, uint8_t *out, size_t n) {
    if (sel == NULL) {
        vaes_blocks(left, in, out, n, true);
        return;
    }
    __m512i l[ROUNDS + 1], r[ROUNDS + 1];
    vaes_keys(l, left);
    vaes_keys(r, right);
    for (; n >= GROUP; n -= GROUP, sel += GROUP / 8, in += GROUP * BLOCK, out += GROUP * BLOCK)
        vaes_mmo2_group(l, r, uvcci_ld16(sel), in, out, GROUP);
    if (n != 0)
        vaes_mmo2_group(l, r, n > 8 ? uvcci_ld16(sel) : *sel, in, out, n);
}

const uvcci_aes_ops uvcci_aes_vaes_ops = {vaes_ecb, vaes_ctr48, vaes_mmo2};

/* --- Which ------------------------------------------------------------------------------------ */

/* The compiler's run-time library has read cpuid, and xgetbv for the zmm registers, before main. It
 * is asked first because cpuid traps in a virtual machine, for microseconds; not all compilers know
 * the name "vaes". */
uvcci_aes_backend uvcci_aes_x86_best(void) {
    if (!__builtin_cpu_supports("aes") || !__builtin_cpu_supports("sse4.1"))
        return UVCCI_AES_PORTABLE;
    if (!__builtin_cpu_supports("avx512f"))
        return UVCCI_AES_NI;
    unsigned a, b, c, d;
    __cpuid_count(7, 0, a, b, c, d); /* the leaf exists: it is where AVX-512 is told */
    return c & bit_VAES ? UVCCI_AES_VAES : UVCCI_AES_NI;
}

#endif
