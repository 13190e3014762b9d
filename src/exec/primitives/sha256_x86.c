/* SPDX-License-Identifier: Apache-2.0 */
/* sha256_x86.c - SHA-256 (FIPS 180-4) of sixteen chunks by AVX-512, one chunk in each 32-bit lane:
 * rotations are one instruction there, and so is any function of three bits. */
#include "exec/primitives/tree_hash.h"

#if UVCCI_TREE_X86

#include <immintrin.h>

#define TARGET      target("avx512f,avx512bw")
#define WIDE        __attribute__((TARGET))
#define WIDE_INLINE static inline __attribute__((always_inline, TARGET))

/* Registers of the schedule are named by index, which takes unrolled loops at any -O level. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { LANES = UVCCI_TREE_LANES, BLOCK = 64, WORDS = 16, ROUNDS = 64 };
/* Truth tables of ternary logic: the index is a << 2 | b << 1 | c. */
enum { XOR3 = 0x96, CHOOSE = 0xca, MAJORITY = 0xe8 };

static const uint32_t k[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

WIDE_INLINE __m512i add(__m512i a, __m512i b) {
    return _mm512_add_epi32(a, b);
}

WIDE_INLINE __m512i xor3(__m512i a, __m512i b, __m512i c) {
    return _mm512_ternarylogic_epi32(a, b, c, XOR3);
}

/* Rows become columns: word j of lane i goes to lane j of w[i]. Its own inverse. */
WIDE_INLINE void transpose(__m512i w[WORDS]) {
    __m512i t[WORDS];
    UNROLL for (unsigned i = 0; i < WORDS; i += 2) {
        t[i] = _mm512_unpacklo_epi32(w[i], w[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(w[i], w[i + 1]);
    }
    UNROLL for (unsigned i = 0; i < WORDS; i += 4) {
        w[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        w[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        w[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        w[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    UNROLL for (unsigned i = 0; i < 4; i++) {
        UNROLL for (unsigned h = 0; h < WORDS; h += 8) {
            t[h + i] = _mm512_shuffle_i32x4(w[h + i], w[h + 4 + i], 0x88);
            t[h + 4 + i] = _mm512_shuffle_i32x4(w[h + i], w[h + 4 + i], 0xdd);
        }
    }
    UNROLL for (unsigned i = 0; i < 8; i++) {
        w[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        w[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

/* The block that follows a whole chunk says how long it was. */
WIDE_INLINE void padding(__m512i w[WORDS]) {
    UNROLL for (unsigned i = 0; i < WORDS; i++) {
        w[i] = _mm512_setzero_si512();
    }
    w[0] = _mm512_set1_epi32((int)0x80000000u);
    w[15] = _mm512_set1_epi32(8 * UVCCI_TREE_CHUNK);
}

WIDE_INLINE void load(const uint8_t *const chunk[LANES], size_t at, __m512i w[WORDS]) {
    const __m512i swap =
        _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3));
    UNROLL for (unsigned i = 0; i < LANES; i++) {
        w[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(chunk[i] + at), swap);
    }
    transpose(w);
}

WIDE_INLINE __m512i scheduled(const __m512i w[WORDS], unsigned i) {
    const __m512i early = w[(i + 1) % WORDS], late = w[(i + 14) % WORDS];
    const __m512i s0 =
        xor3(_mm512_ror_epi32(early, 7), _mm512_ror_epi32(early, 18), _mm512_srli_epi32(early, 3));
    const __m512i s1 =
        xor3(_mm512_ror_epi32(late, 17), _mm512_ror_epi32(late, 19), _mm512_srli_epi32(late, 10));
    return add(add(w[i], s0), add(w[(i + 9) % WORDS], s1));
}

/* Of the eight words, the one that a round calls a stands one further back in the next. */
WIDE_INLINE void round_of(__m512i s[8], unsigned i, __m512i x) {
#define AT(j) s[((j) + 8 - i % 8) % 8]
    const __m512i a = AT(0), b = AT(1), c = AT(2), e = AT(4), f = AT(5), g = AT(6);
    const __m512i sum1 =
        xor3(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
    const __m512i sum0 =
        xor3(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
    const __m512i t = add(add(AT(7), x), add(sum1, _mm512_ternarylogic_epi32(e, f, g, CHOOSE)));
    AT(3) = add(AT(3), t);
    AT(7) = add(t, add(sum0, _mm512_ternarylogic_epi32(a, b, c, MAJORITY)));
#undef AT
}

WIDE_INLINE void compress(__m512i state[8], __m512i w[WORDS]) {
    __m512i s[8];
    UNROLL for (unsigned i = 0; i < 8; i++) {
        s[i] = state[i];
    }
    for (unsigned r = 0; r < ROUNDS; r += WORDS) {
        UNROLL for (unsigned i = 0; i < WORDS; i++) {
            round_of(s, i, add(w[i], _mm512_set1_epi32((int)k[r + i])));
            if (r + WORDS < ROUNDS)
                w[i] = scheduled(w, i);
        }
    }
    UNROLL for (unsigned i = 0; i < 8; i++) {
        state[i] = add(state[i], s[i]);
    }
}

WIDE void uvcci_sha256_chunks(const uint8_t *const chunk[LANES], uint8_t digest[LANES][32]) {
    __m512i state[8], w[WORDS];
    UNROLL for (unsigned i = 0; i < 8; i++) {
        state[i] = _mm512_set1_epi32((int)initial[i]);
    }
    for (size_t at = 0; at < UVCCI_TREE_CHUNK; at += BLOCK) {
        load(chunk, at, w);
        compress(state, w);
    }
    padding(w);
    compress(state, w);
    uint32_t words[8][LANES];
    for (unsigned i = 0; i < 8; i++)
        _mm512_storeu_si512(words[i], state[i]);
    for (unsigned l = 0; l < LANES; l++)
        for (unsigned i = 0; i < 8; i++) {
            const uint32_t big = __builtin_bswap32(words[i][l]);
            __builtin_memcpy(digest[l] + 4 * (size_t)i, &big, 4);
        }
}

#endif
