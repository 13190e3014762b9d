/* SPDX-License-Identifier: Apache-2.0 */
/* arith.h - what every kernel computes with: words at any address, packed bits, AES-128 and the
 * PRG of compute.md, section 2.
 *
 * This header and those beside it are C and CUDA at once: nvcc makes kernels of them, and a test
 * runs the same functions on a CPU against the golden vectors. So they keep to what both languages
 * have.
 *
 * AES by tables. On the device the four tables of a round lie in shared memory, each entry once for
 * every lane of a warp, in a bank of the lane's own: what a lane looks up, which is secret, changes
 * neither the time nor the banks of any access. On a CPU the functions are for tests, and for keys
 * that are public. */
#ifndef UVCCI_GPU_ARITH_H
#define UVCCI_GPU_ARITH_H

#include <stddef.h>
#include <uvcc/task.h>

#ifdef __CUDACC__
#define ON_BOTH       static __host__ __device__ __forceinline__
#define ON_BOTH_FAR   static __host__ __device__ __noinline__
#define ON_BOTH_CONST constexpr ON_BOTH /* also when it is compiled */
#else
#define ON_BOTH       static inline __attribute__((unused))
#define ON_BOTH_FAR   ON_BOTH
#define ON_BOTH_CONST ON_BOTH
#endif

enum {
    AES_KEY_WORDS = 44, /* round keys */
    PRG_KEYS = 3 * UVCC_TAG_COUNT,
};

/* --- Words ------------------------------------------------------------------------------------ */

ON_BOTH uint64_t low_bits(unsigned n) {
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}
ON_BOTH uint64_t low(uint64_t x, unsigned n) {
    return x & low_bits(n);
}
ON_BOTH uint64_t bit_of(uint64_t x, unsigned k) {
    return x >> k & 1;
}
/* x >> s with the sign. */
ON_BOTH uint64_t shift_signed(uint64_t x, unsigned s) {
    return (uint64_t)((int64_t)x >> s);
}
/* (1 - 2v) x, v a bit. */
ON_BOTH uint64_t flip(uint64_t x, uint64_t v) {
    return (x ^ (0 - v)) + v;
}
/* v ? x : y, v a bit, without a branch. */
ON_BOTH uint64_t choose(uint64_t v, uint64_t x, uint64_t y) {
    return y ^ ((x ^ y) & (0 - v));
}
ON_BOTH unsigned parity(uint64_t x) {
#ifdef __CUDA_ARCH__
    return (unsigned)__popcll(x) & 1;
#else
    for (unsigned s = 32; s != 0; s >>= 1)
        x ^= x >> s;
    return (unsigned)x & 1;
#endif
}
ON_BOTH unsigned ones(uint32_t x) {
#ifdef __CUDA_ARCH__
    return (unsigned)__popc(x);
#else
    unsigned n = 0;
    for (; x != 0; x &= x - 1)
        n++;
    return n;
#endif
}

/* Little-endian words of 8 bytes at any address. On the device an unaligned one is made of the two
 * aligned words that it lies in, both of which have bytes of it. */
ON_BOTH uint64_t load64(const uint8_t *p) {
#ifdef __CUDA_ARCH__
    const unsigned at = (unsigned)((uintptr_t)p & 7);
    const uint64_t *w = (const uint64_t *)(p - at);
    if (at == 0)
        return *w;
    return w[0] >> 8 * at | w[1] << (64 - 8 * at);
#else
    uint64_t x = 0;
    for (unsigned i = 0; i < 8; i++)
        x |= (uint64_t)p[i] << 8 * i;
    return x;
#endif
}
ON_BOTH void store64(uint8_t *p, uint64_t x) {
#ifdef __CUDA_ARCH__
    if (((uintptr_t)p & 7) == 0) {
        *(uint64_t *)p = x;
        return;
    }
    if (((uintptr_t)p & 3) == 0) {
        ((uint32_t *)p)[0] = (uint32_t)x;
        ((uint32_t *)p)[1] = (uint32_t)(x >> 32);
        return;
    }
#endif
    for (unsigned i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> 8 * i);
}

/* Element i of n-bit packed ones; reads no byte that has nothing of it, and on the device no
 * aligned word that has not: what comes over the bus comes in one or two loads. */
ON_BOTH uint64_t unpack(const uint8_t *p, unsigned n, size_t i) {
    const size_t bit = i * n;
#ifdef __CUDA_ARCH__
    const unsigned skipped = 8 * (unsigned)((uintptr_t)p & 7);
    const uint64_t *words = (const uint64_t *)(p - skipped / 8) + (bit + skipped) / 64;
    const unsigned at = (unsigned)((bit + skipped) % 64);
    uint64_t y = words[0] >> at;
    if (at + n > 64)
        y |= words[1] << (64 - at);
    return low(y, n);
#else
    const unsigned skip = (unsigned)(bit & 7), bytes = (skip + n + 7) / 8;
    const uint8_t *from = p + bit / 8;
    uint64_t x = 0;
    for (unsigned k = 0; k < bytes && k < 8; k++)
        x |= (uint64_t)from[k] << 8 * k;
    x >>= skip;
    if (bytes == 9)
        x |= (uint64_t)from[8] << (64 - skip);
    return low(x, n);
#endif
}
/* The low byte first, at a multiple of 4 bytes. */
ON_BOTH void store_word(uint8_t *p, uint32_t x) {
#ifdef __CUDA_ARCH__
    *(uint32_t *)p = x;
#else
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(x >> 8 * i);
#endif
}
/* `some` bits, 32 at most, of n-bit packed elements from a bit on. */
ON_BOTH uint32_t packed_bits(const uint64_t *elems, unsigned n, unsigned bit, unsigned some) {
    unsigned e = bit / n, at = bit - e * n, word = 0;
    for (unsigned got = 0; got < some; e++) {
        word |= (uint32_t)(low(elems[e], n) >> at) << got;
        got += n - at;
        at = 0;
    }
    return some < 32 ? (uint32_t)low(word, some) : word;
}

/* --- AES-128 ---------------------------------------------------------------------------------- */

#define AES_SBOX                                                                                   \
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab,      \
        0x76, 0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4,  \
        0x72, 0xc0, 0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71,  \
        0xd8, 0x31, 0x15, 0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2,  \
        0xeb, 0x27, 0xb2, 0x75, 0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6,  \
        0xb3, 0x29, 0xe3, 0x2f, 0x84, 0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb,  \
        0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf, 0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45,  \
        0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8, 0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5,  \
        0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2, 0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44,  \
        0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73, 0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a,  \
        0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb, 0xe0, 0x32, 0x3a, 0x0a, 0x49,  \
        0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79, 0xe7, 0xc8, 0x37, 0x6d,  \
        0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08, 0xba, 0x78, 0x25,  \
        0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a, 0x70, 0x3e,  \
        0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e, 0xe1,  \
        0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,  \
        0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb,  \
        0x16

#ifdef __CUDACC__
extern __shared__ __align__(16) uint32_t aes_shared[]; /* written by words of 16 bytes */
#endif
/* How many tables a kernel has: all four, or 0 and 2 only, half as much memory, the others being
 * their entries turned by a byte. */
enum { AES_TWO = 2, AES_FOUR = 4, AES_TABLE_WORDS = 256 * 32 };

/* Entry x of round table `table`: the column that S(x) gives in row `table`. */
ON_BOTH uint32_t aes_column(uint8_t s, unsigned table) {
    const uint32_t twice = (uint32_t)((s << 1) ^ ((s >> 7) * 0x11b)) & 0xff;
    const uint32_t t0 = twice | (uint32_t)s << 8 | (uint32_t)s << 16 | (twice ^ s) << 24;
    return table == 0 ? t0 : t0 << 8 * table | t0 >> (32 - 8 * table);
}

/* The entry of table `t` for byte k of w; `lane` is where the tables have this lane's first word. A
 * table takes 32 KiB, 128 bytes an entry: 0 and 2, then 1 and 3. So the address of a byte's entry
 * is one product of four digits, to which the load adds the table's place. */
#ifdef __CUDA_ARCH__
ON_BOTH_CONST uint32_t aes_table_at(unsigned t) {
    return (t & 2) * 16384 + (t & 1) * 65536;
}
#define AES_T(t, w, k) AES_LOAD(aes_table_at(t), __dp4a((w), 128u << 8 * (k), lane))
#ifdef __NVCC__
template <uint32_t TABLE> static __device__ __forceinline__ uint32_t aes_load(uint32_t at) {
    uint32_t x;
    asm volatile("ld.shared.u32 %0, [%1 + %2];" : "=r"(x) : "r"(at), "n"(TABLE));
    return x;
}
#define AES_LOAD(table, at) aes_load<(table)>(at)
ON_BOTH uint32_t aes_lane(void) {
    return (uint32_t)__cvta_generic_to_shared(aes_shared) + (threadIdx.x & 31) * 4;
}
#else
#define AES_LOAD(table, at) (*(const uint32_t *)((const char *)aes_shared + (table) + (at)))
ON_BOTH uint32_t aes_lane(void) {
    return (threadIdx.x & 31) * 4;
}
#endif
#else
ON_BOTH uint32_t aes_entry(unsigned table, uint8_t x) {
    static const uint8_t sbox[256] = {AES_SBOX};
    return aes_column(sbox[x], table);
}
#define AES_T(t, w, k) aes_entry((t), (uint8_t)((w) >> 8 * (k)))
ON_BOTH uint32_t aes_lane(void) {
    return 0;
}
#endif

typedef struct aes_block {
    uint32_t w[4]; /* little-endian */
} aes_block;

/* Round keys: of one key, or of either of two, all ones in `by` for the second: then `turn` is what
 * it differs by. */
typedef struct aes_keys {
    const uint32_t *key, *turn;
    uint32_t by;
    bool two;
} aes_keys;

/* x with round key i. */
ON_BOTH uint32_t aes_add(const aes_keys *k, unsigned i, uint32_t x) {
    x ^= k->key[i];
    return k->two ? x ^ (k->turn[i] & k->by) : x;
}
/* A column of the next state, without the key. */
ON_BOTH uint32_t aes_mix(unsigned tables, uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                         uint32_t lane) {
    (void)lane;
    if (tables == AES_FOUR)
        return AES_T(0, a, 0) ^ AES_T(1, b, 1) ^ AES_T(2, c, 2) ^ AES_T(3, d, 3);
    const uint32_t odd = AES_T(0, b, 1) ^ AES_T(2, d, 3);
    return AES_T(0, a, 0) ^ AES_T(2, c, 2) ^ (odd << 8 | odd >> 24);
}
/* Of the last one, without the key. */
ON_BOTH uint32_t aes_last(uint32_t a, uint32_t b, uint32_t c, uint32_t d, uint32_t lane) {
    (void)lane;
    return (AES_T(2, a, 0) & 0xff) | (AES_T(0, b, 1) & 0xff00) | (AES_T(0, c, 2) & 0xff0000) |
           (AES_T(2, d, 3) & 0xff000000);
}

ON_BOTH aes_block aes(const aes_keys *k, unsigned tables, aes_block x) {
    const uint32_t lane = aes_lane();
    uint32_t a = aes_add(k, 0, x.w[0]), b = aes_add(k, 1, x.w[1]), c = aes_add(k, 2, x.w[2]),
             d = aes_add(k, 3, x.w[3]);
#ifdef __CUDACC__
#pragma unroll
#endif
    for (unsigned r = 4; r < 40; r += 4) {
        const uint32_t e = aes_add(k, r, aes_mix(tables, a, b, c, d, lane));
        const uint32_t f = aes_add(k, r + 1, aes_mix(tables, b, c, d, a, lane));
        const uint32_t g = aes_add(k, r + 2, aes_mix(tables, c, d, a, b, lane));
        const uint32_t h = aes_add(k, r + 3, aes_mix(tables, d, a, b, c, lane));
        a = e;
        b = f;
        c = g;
        d = h;
    }
    aes_block y;
    y.w[0] = aes_add(k, 40, aes_last(a, b, c, d, lane));
    y.w[1] = aes_add(k, 41, aes_last(b, c, d, a, lane));
    y.w[2] = aes_add(k, 42, aes_last(c, d, a, b, lane));
    y.w[3] = aes_add(k, 43, aes_last(d, a, b, c, lane));
    return y;
}

/* The round keys of a key, which are the first four words. */
ON_BOTH_FAR void aes_expand_words(uint32_t *key) {
    const uint32_t lane = aes_lane();
    uint32_t a = key[0], b = key[1], c = key[2], d = key[3], round = 1;
    for (unsigned i = 4; i < AES_KEY_WORDS; i += 4) {
        const uint32_t x = d >> 8 | d << 24;
        a ^= aes_last(x, x, x, x, lane) ^ round;
        b ^= a;
        c ^= b;
        d ^= c;
        key[i] = a;
        key[i + 1] = b;
        key[i + 2] = c;
        key[i + 3] = d;
        round = (round << 1) ^ ((round >> 7) * 0x11b);
    }
}
/* Word i of a key's bytes, little-endian. */
ON_BOTH uint32_t aes_key_word(const uint8_t *from, unsigned i) {
    return from[4 * i] | (uint32_t)from[4 * i + 1] << 8 | (uint32_t)from[4 * i + 2] << 16 |
           (uint32_t)from[4 * i + 3] << 24;
}
/* The round keys of a key of 16 bytes. */
ON_BOTH void aes_expand(const uint8_t *from, uint32_t *key) {
    for (unsigned i = 0; i < 4; i++)
        key[i] = aes_key_word(from, i);
    aes_expand_words(key);
}
/* Of the two keys of trees, which are public: those of the first, and what the second's differ by.
 */
ON_BOTH void aes_expand_tree(const uint8_t (*from)[16], uint32_t (*key)[AES_KEY_WORDS]) {
    for (unsigned d = 0; d < 2; d++)
        aes_expand(from[d], key[d]);
    for (unsigned i = 0; i < AES_KEY_WORDS; i++)
        key[1][i] ^= key[0][i];
}

/* --- The PRG ---------------------------------------------------------------------------------- */

/* Where a stream of words is. */
typedef struct prg_at {
    uint32_t ordinal, block;
    uint16_t call;
    uint8_t lane;
} prg_at;

/* Words 2 pair and 2 pair + 1 of a stream. */
ON_BOTH aes_block prg_block(const uint32_t *key, unsigned tables, prg_at at, uint64_t pair) {
    const uint64_t counter = ((uint64_t)at.lane << 40) + pair;
    aes_block x;
    x.w[0] = at.ordinal;
    x.w[1] = at.call | at.block << 16;
    x.w[2] = at.block >> 16 | (uint32_t)counter << 16;
    x.w[3] = (uint32_t)(counter >> 16);
    const aes_keys k = {key, NULL, 0, false};
    return aes(&k, tables, x);
}
ON_BOTH uint64_t prg_word(const uint32_t *key, unsigned tables, prg_at at, uint64_t j) {
    const aes_block y = prg_block(key, tables, at, j / 2);
    return (j & 1) != 0 ? y.w[2] | (uint64_t)y.w[3] << 32 : y.w[0] | (uint64_t)y.w[1] << 32;
}

#endif
