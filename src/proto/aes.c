/* SPDX-License-Identifier: Apache-2.0 */
/* aes.c - AES-128: key expansion, choice of the backend, and the portable backend.
 *
 * The portable backend is bitsliced: eight 64-bit words hold bit 0..7 of the 64 bytes of four
 * blocks. The byte at row r, column c of block k (byte 4c + r of that block) is bit 16r + 4c + k of
 * each word, so ShiftRows rotates 16-bit lanes, and the next row down is a rotation of the word by
 * 16. No table is indexed and nothing branches on data. Keys are expanded by the same S-box,
 * whatever the backend. */
#include "proto/aes.h"

#include <string.h>

#include "proto/aes_backends.h"
#include "proto/bytes.h"
#include "proto/crypto.h"

enum { ROUNDS = 10, BLOCK = 16, GROUP = 4 };

/* A group of four blocks as bytes: w[2k] and w[2k + 1] are the halves of block k. */
typedef uint64_t words[2 * GROUP];
/* The same, or round keys, bitsliced. */
typedef uint64_t slices[8];

/* --- In and out of the bitsliced form --------------------------------------------------------- */

/* Bytes 0..3 of x to bytes 0, 2, 4, 6. */
static inline uint64_t spread(uint64_t x) {
    x &= 0xffffffffu;
    x = (x | x << 16) & 0x0000ffff0000ffffu;
    return (x | x << 8) & 0x00ff00ff00ff00ffu;
}

static inline uint64_t gather(uint64_t x) {
    x &= 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (x | x >> 16) & 0xffffffffu;
}

static inline void swap_bits(uint64_t *a, uint64_t *b, uint64_t low, unsigned shift) {
    uint64_t t = ((*a >> shift) ^ *b) & low;
    *b ^= t;
    *a ^= t << shift;
}

/* Bit i of byte p of word j <-> bit j of byte p of word i; its own inverse. */
static inline void transpose(slices q) {
    for (unsigned i = 0; i < 8; i += 2)
        swap_bits(&q[i], &q[i + 1], 0x5555555555555555u, 1);
    for (unsigned i = 0; i < 8; i += 4)
        for (unsigned j = i; j < i + 2; j++)
            swap_bits(&q[j], &q[j + 2], 0x3333333333333333u, 2);
    for (unsigned j = 0; j < 4; j++)
        swap_bits(&q[j], &q[j + 4], 0x0f0f0f0f0f0f0f0fu, 4);
}

/* Before the transposition word k takes columns 0 and 2 of block k, and word 4 + k columns 1 and 3,
 * byte by byte in turn. */
static inline void slice(slices q, const words w) {
    for (unsigned k = 0; k < GROUP; k++) {
        q[k] = spread(w[2 * k]) | spread(w[2 * k + 1]) << 8;
        q[GROUP + k] = spread(w[2 * k] >> 32) | spread(w[2 * k + 1] >> 32) << 8;
    }
    transpose(q);
}

static inline void unslice(words w, slices q) {
    transpose(q);
    for (unsigned k = 0; k < GROUP; k++) {
        w[2 * k] = gather(q[k]) | gather(q[GROUP + k]) << 32;
        w[2 * k + 1] = gather(q[k] >> 8) | gather(q[GROUP + k] >> 8) << 32;
    }
}

/* --- The round -------------------------------------------------------------------------------- */

/* J. Boyar, R. Peralta, "A depth-16 circuit for the AES S-box", 2011. Its inputs and outputs are
 * numbered from the most significant bit. */
static inline void sub_bytes(slices q) {
    const uint64_t u0 = q[7], u1 = q[6], u2 = q[5], u3 = q[4];
    const uint64_t u4 = q[3], u5 = q[2], u6 = q[1], u7 = q[0];

    /* Top linear layer: into the tower field. */
    const uint64_t y14 = u3 ^ u5, y13 = u0 ^ u6, y9 = u0 ^ u3, y8 = u0 ^ u5;
    const uint64_t a0 = u1 ^ u2;
    const uint64_t y1 = a0 ^ u7, y4 = y1 ^ u3, y12 = y13 ^ y14, y2 = y1 ^ u0, y5 = y1 ^ u6;
    const uint64_t y3 = y5 ^ y8;
    const uint64_t a1 = u4 ^ y12;
    const uint64_t y15 = a1 ^ u5, y20 = a1 ^ u1, y6 = y15 ^ u7, y10 = y15 ^ a0, y11 = y20 ^ y9;
    const uint64_t y7 = u7 ^ y11, y17 = y10 ^ y11, y19 = y10 ^ y8, y16 = a0 ^ y11;
    const uint64_t y21 = y13 ^ y16, y18 = u0 ^ y16;

    /* Inversion. */
    const uint64_t t2 = y12 & y15, t4 = (y3 & y6) ^ t2, t6 = (y4 & u7) ^ t2;
    const uint64_t t7 = y13 & y16, t9 = (y5 & y1) ^ t7, t11 = (y2 & y7) ^ t7;
    const uint64_t t12 = y9 & y11, t14 = (y14 & y17) ^ t12, t16 = (y8 & y10) ^ t12;
    const uint64_t t21 = t4 ^ t14 ^ y20, t22 = t6 ^ t16 ^ y19;
    const uint64_t t23 = t9 ^ t14 ^ y21, t24 = t11 ^ t16 ^ y18;
    const uint64_t t25 = t21 ^ t22, t26 = t21 & t23, t27 = t24 ^ t26;
    const uint64_t t29 = (t25 & t27) ^ t22;
    const uint64_t t33 = ((t22 ^ t26) & (t23 ^ t24)) ^ t24;
    const uint64_t t36 = t24 & (t27 ^ t33), t37 = t36 ^ t23 ^ t33;
    const uint64_t t40 = t25 ^ (t29 & (t27 ^ t36));
    const uint64_t t41 = t40 ^ t37, t42 = t29 ^ t33, t43 = t29 ^ t40, t44 = t33 ^ t37;
    const uint64_t t45 = t42 ^ t41;
    const uint64_t z0 = t44 & y15, z1 = t37 & y6, z2 = t33 & u7, z3 = t43 & y16, z4 = t40 & y1;
    const uint64_t z5 = t29 & y7, z6 = t42 & y11, z7 = t45 & y17, z8 = t41 & y10, z9 = t44 & y12;
    const uint64_t z10 = t37 & y3, z11 = t33 & y4, z12 = t43 & y13, z13 = t40 & y5;
    const uint64_t z14 = t29 & y2, z15 = t42 & y9, z16 = t45 & y14, z17 = t41 & y8;

    /* Bottom linear layer: back, with the affine map. */
    const uint64_t b46 = z15 ^ z16, b48 = z5 ^ z13, b53 = z0 ^ z3, b54 = z6 ^ z7;
    const uint64_t b57 = z2 ^ z12 ^ b53, b58 = z4 ^ b46, b59 = z3 ^ b54;
    const uint64_t b62 = z7 ^ z8 ^ b58, b63 = z9 ^ z10 ^ b58, b64 = z4 ^ b59;
    const uint64_t b65 = z14 ^ b57 ^ b62, b66 = z1 ^ b63, s3 = b53 ^ b66;
    q[7] = b59 ^ b63;
    q[6] = b64 ^ ~s3;
    q[5] = z16 ^ z17 ^ ~(b64 ^ b65);
    q[4] = s3;
    q[3] = z2 ^ z5 ^ b66;
    q[2] = z10 ^ z11 ^ b65;
    q[1] = z12 ^ b48 ^ ~b62;
    q[0] = b48 ^ ~(b46 ^ b57);
}

static inline void shift_rows(slices q) {
    for (unsigned i = 0; i < 8; i++) {
        const uint64_t x = q[i];
        q[i] = (x & 0x000000000000ffffu) |                                        /* row 0 */
               (x >> 4 & 0x000000000fff0000u) | (x << 12 & 0x00000000f0000000u) | /* row 1 */
               (x >> 8 & 0x000000ff00000000u) | (x << 8 & 0x0000ff0000000000u) |  /* row 2 */
               (x >> 12 & 0x000f000000000000u) | (x << 4 & 0xfff0000000000000u);  /* row 3 */
    }
}

static inline uint64_t rotr(uint64_t x, unsigned n) {
    return x >> n | x << (64 - n);
}

/* out = 2 (a + a') + a' + a'' + a''', each prime one row down. */
static inline void mix_columns(slices q) {
    uint64_t down[8], both[8];
    for (unsigned i = 0; i < 8; i++) {
        down[i] = rotr(q[i], 16);
        both[i] = q[i] ^ down[i];
    }
    for (unsigned i = 0; i < 8; i++) {
        uint64_t twice = i == 0 ? both[7] : both[i - 1];
        if (i == 1 || i == 3 || i == 4)
            twice ^= both[7];
        q[i] = twice ^ down[i] ^ rotr(both[i], 32);
    }
}

static inline void add_round_key(slices q, const slices left, const slices right,
                                 uint64_t to_right) {
    for (unsigned i = 0; i < 8; i++)
        q[i] ^= left[i] ^ ((left[i] ^ right[i]) & to_right);
}

/* --- The portable backend --------------------------------------------------------------------- */

typedef struct sliced_keys {
    slices round[ROUNDS + 1];
} sliced_keys;

static void slice_keys(sliced_keys *s, const uint8_t *rk) {
    for (unsigned r = 0; r <= ROUNDS; r++) {
        words w;
        for (unsigned k = 0; k < GROUP; k++)
            memcpy(&w[2 * k], rk + r * BLOCK, BLOCK);
        slice(s->round[r], w);
    }
}

/* Each bit of a word where `to_right` is 1 belongs to a block under the right key. */
static inline void encrypt2(const sliced_keys *left, const sliced_keys *right, uint64_t to_right,
                            words w) {
    slices q;
    slice(q, w);
    add_round_key(q, left->round[0], right->round[0], to_right);
    for (unsigned r = 1; r < ROUNDS; r++) {
        sub_bytes(q);
        shift_rows(q);
        mix_columns(q);
        add_round_key(q, left->round[r], right->round[r], to_right);
    }
    sub_bytes(q);
    shift_rows(q);
    add_round_key(q, left->round[ROUNDS], right->round[ROUNDS], to_right);
    unslice(w, q);
}

static inline size_t group_blocks(size_t n) {
    return n < GROUP ? n : GROUP;
}

static void portable_ecb(const uint8_t *rk, const uint8_t *in, uint8_t *out, size_t n) {
    sliced_keys key;
    slice_keys(&key, rk);
    for (size_t i = 0; i < n; i += GROUP) {
        const size_t bytes = BLOCK * group_blocks(n - i);
        words w = {0};
        memcpy(w, in + i * BLOCK, bytes);
        encrypt2(&key, &key, 0, w);
        memcpy(out + i * BLOCK, w, bytes);
    }
    uvcci_wipe(&key, sizeof key);
}

static void portable_ctr48(const uint8_t *rk, uint64_t lo, uint64_t hi, uint8_t *out, size_t n) {
    sliced_keys key;
    slice_keys(&key, rk);
    for (size_t i = 0; i < n; i += GROUP) {
        words w;
        for (unsigned k = 0; k < GROUP; k++) {
            w[2 * k] = lo;
            w[2 * k + 1] = hi + ((uint64_t)(i + k) << 16);
        }
        encrypt2(&key, &key, 0, w);
        memcpy(out + i * BLOCK, w, BLOCK * group_blocks(n - i));
    }
    uvcci_wipe(&key, sizeof key);
}

static void portable_mmo2(const uint8_t *left, const uint8_t *right, const uint8_t *sel,
                          const uint8_t *in, uint8_t *out, size_t n) {
    sliced_keys key[2];
    slice_keys(&key[0], left);
    slice_keys(&key[1], sel == NULL ? left : right);
    for (size_t i = 0; i < n; i += GROUP) {
        const size_t bytes = BLOCK * group_blocks(n - i);
        words x = {0}, w;
        memcpy(x, in + i * BLOCK, bytes);
        memcpy(w, x, sizeof w);
        const uint64_t nibble = sel == NULL ? 0 : sel[i / 8] >> (i % 8) & 0xfu;
        encrypt2(&key[0], &key[1], nibble * 0x1111111111111111u, w);
        for (unsigned j = 0; j < 2 * GROUP; j++)
            w[j] ^= x[j];
        memcpy(out + i * BLOCK, w, bytes);
    }
    uvcci_wipe(key, sizeof key);
}

static const uvcci_aes_ops portable_ops = {portable_ecb, portable_ctr48, portable_mmo2};

/* --- Keys and dispatch ------------------------------------------------------------------------ */

static inline const uvcci_aes_ops *ops_of(const uvcci_aes *a) {
#if UVCCI_AES_X86
    if (a->backend == UVCCI_AES_VAES)
        return &uvcci_aes_vaes_ops;
    if (a->backend == UVCCI_AES_NI)
        return &uvcci_aes_ni_ops;
#else
    (void)a;
#endif
    return &portable_ops;
}

uvcci_aes_backend uvcci_aes_best(void) {
#if UVCCI_AES_X86
    return uvcci_aes_x86_best();
#else
    return UVCCI_AES_PORTABLE;
#endif
}

static uint32_t sub_word(uint32_t x) {
    words w = {x};
    slices q;
    slice(q, w);
    sub_bytes(q);
    unslice(w, q);
    return (uint32_t)w[0];
}

void uvcci_aes_init(uvcci_aes *a, const uint8_t key[16], uvcci_aes_backend backend) {
    /* cpuid traps in virtual machines, so it is only asked when the answer matters. */
    a->backend = UVCCI_AES_PORTABLE;
    if (backend != UVCCI_AES_PORTABLE) {
        const uvcci_aes_backend best = uvcci_aes_best();
        a->backend = backend == UVCCI_AES_AUTO || backend > best ? best : backend;
    }

    uint32_t w[4];
    memcpy(w, key, sizeof w);
    memcpy(a->rk, w, sizeof w);
    uint32_t rcon = 1;
    for (unsigned r = 1; r <= ROUNDS; r++) {
        w[0] ^= sub_word(w[3] >> 8 | w[3] << 24) ^ rcon;
        for (unsigned i = 1; i < 4; i++)
            w[i] ^= w[i - 1];
        memcpy(a->rk + r * BLOCK, w, sizeof w);
        rcon = rcon << 1 ^ (rcon >> 7) * 0x11bu;
    }
    uvcci_wipe(w, sizeof w);
}

void uvcci_aes_ecb(const uvcci_aes *a, const uint8_t *in, uint8_t *out, size_t n) {
    ops_of(a)->ecb(a->rk, in, out, n);
}

void uvcci_aes_ctr48(const uvcci_aes *a, const uint8_t prefix[10], uint64_t counter, uint8_t *out,
                     size_t n) {
    const uint64_t hi = uvcci_ld16(prefix + 8) | counter << 16; /* the counter is modulo 2^48 */
    ops_of(a)->ctr48(a->rk, uvcci_ld64(prefix), hi, out, n);
}

void uvcci_aes_mmo2(const uvcci_aes *left, const uvcci_aes *right, const uint8_t *sel,
                    const uint8_t *in, uint8_t *out, size_t n) {
    ops_of(left)->mmo2(left->rk, sel == NULL ? NULL : right->rk, sel, in, out, n);
}
