/* SPDX-License-Identifier: Apache-2.0 */
/* dpf.h - the 1-bit DPF on an edge (BGI16 with early termination at 7 levels), batched and in
 * structure-of-arrays form; comparison by prefix parity (protocols.md 7).
 *
 * Node PRG: Matyas-Meyer-Oseas with two fixed keys (left, right). A node is a 128-bit seed with its
 * lowest bit cleared and a control bit t, which is the lowest bit of the MMO output. Roots: the low
 * bit is cleared, t = 0 for HEAD and 1 for TAIL. A terminal block is MMO_left(seed) ^ t * final
 * word: 128 one-bit terminals, terminal i in bit i (LSB of byte 0 first). n <= 7: no levels, one
 * terminal block. Prefix parity: the share of [alpha <= x] is the XOR, over the levels where x goes
 * right, of (t of the node ^ t of its right child) - which together is the left child's t - and the
 * parity of the terminal bits 0..(x mod 128): one AES call per level. */
#ifndef UVCCI_DPF_H
#define UVCCI_DPF_H

#include "proto/aes.h"
#include <uvcc/compute.h>

static inline unsigned uvcci_dpf_levels(unsigned n) {
    return n > 7 ? n - 7 : 0;
}

/* Keys for c points alpha[i] < 2^n, n 1..64, with roots root0[i] (HEAD), root1[i] (TAIL), 16 bytes
 * each. levels: L * c * 16 bytes, terminals: c * 16, bits: c * ceil(2L/8) (see uvcc_gate). sign
 * (may be NULL): HEAD's shares (0 or 1) of the terminals alpha[i]. */
void uvcci_dpf_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                   const uint8_t *root0, const uint8_t *root1, uint8_t *levels, uint8_t *terminals,
                   uint8_t *bits, uint8_t *sign);
/* out[i] = this party's share (0 or 1) of [alpha_i <= x[i]]. party1: TAIL. c <= 4096. */
void uvcci_dpf_prefix(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *x,
                      const uint8_t *root, bool party1, const uint8_t *levels,
                      const uint8_t *terminals, const uint8_t *bits, uint8_t *out);
/* One party's keys of c points. */
typedef struct uvcci_dpf_keys {
    unsigned n;
    uint32_t c;
    bool party1; /* TAIL */
    const uint8_t *root, *levels, *terminals, *bits;
} uvcci_dpf_keys;
/* Bit j of out[i] = this party's share of [alpha_i <= x[i] - less[j] mod 2^n], j < count <= 64, the
 * rest 0; the points x[i] - less[j] are public to the edge. Points that lie close together share
 * the upper part of their paths. */
void uvcci_dpf_prefixes(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, const uint64_t *x,
                        const uint64_t *less, unsigned count, uint64_t *out);
/* Share of the point function itself at x: XOR of both = [alpha == x]. */
void uvcci_dpf_point(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *x,
                     const uint8_t *root, bool party1, const uint8_t *levels,
                     const uint8_t *terminals, const uint8_t *bits, uint8_t *out);

#define UVCCI_DPF_WINDOW_MAX 65536u
/* Words that the bits of a window take per key. */
static inline uint32_t uvcci_dpf_window_words(uint32_t len) {
    return (len + 63) / 64;
}
/* Shares of the terminals first[i] .. first[i] + len - 1 mod 2^n of the keys [at, at + m); first is
 * public, len <= 2^n and <= UVCCI_DPF_WINDOW_MAX. out: uvcci_dpf_window_words(len) words per key,
 * terminal first[i] + j in bit j, the rest 0. Prefixes are shared: about len / 128 + 1 terminal
 * blocks and as many inner nodes, plus one path. */
void uvcci_dpf_window(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint32_t at, uint32_t m,
                      const uint64_t *first, uint32_t len, uint64_t *out);
/* All 2^n terminals, n <= 20, terminal j in bit j; ceil(2^n / 64) words per key. */
void uvcci_dpf_full(const uvcci_aes dpf[2], const uvcci_dpf_keys *k, uint64_t *out);

/* --- For dpf*.c only -------------------------------------------------------------------------- */

enum { UVCCI_DPF_GROUP = 256 };

/* 128 bits: a seed or a terminal block. */
typedef struct uvcci_dpf_node {
    uint64_t lo, hi;
} uvcci_dpf_node;

/* Nodes of one level, one per key. */
typedef struct uvcci_dpf_nodes {
    _Alignas(64) uvcci_dpf_node seed[UVCCI_DPF_GROUP]; /* the control bit in the lowest bit */
    uvcci_dpf_node passed[UVCCI_DPF_GROUP];            /* parity of what lies to the left */
} uvcci_dpf_nodes;

/* Four nodes on their way down. */
typedef struct uvcci_dpf_four {
    _Alignas(64) uvcci_dpf_node seed[4];
    uvcci_dpf_node path[4];
} uvcci_dpf_four;

typedef struct uvcci_dpf_wide {
    _Alignas(
        64) uint8_t round_key[16][11][64]; /* for every choice of left and right in a register */
    _Alignas(64) uint64_t x[UVCCI_DPF_GROUP];
    uint64_t control[2][UVCCI_DPF_GROUP]; /* of 32 levels each */
    uvcci_dpf_four four[UVCCI_DPF_GROUP / 4];
    uint64_t rights[64][UVCCI_DPF_GROUP / 32]; /* of bit b of x: two bits for each point */
    uint64_t right[64][UVCCI_DPF_GROUP / 64];  /* one bit */
    uint8_t masks[64][UVCCI_DPF_GROUP / 4];    /* control bits at level l, two for each point */
} uvcci_dpf_wide;

/* Of 32 keys at least, with 62 terminal blocks each. */
enum { UVCCI_DPF_WIDE_NODES = 2048 };
static inline uint32_t uvcci_dpf_wide_blocks(uint32_t len) {
    return (len - 1) / 128 + 2;
}

typedef struct uvcci_dpf_wide_windows {
    uvcci_dpf_wide wide;
    _Alignas(64)
        uvcci_dpf_node node[UVCCI_DPF_WIDE_NODES]; /* of 32 keys the first, the second, .. */
    uvcci_dpf_node block[UVCCI_DPF_WIDE_NODES];    /* of 32 keys, key by key */
    uvcci_dpf_node beside[UVCCI_DPF_GROUP]; /* as path in uvcci_dpf_four, of the other side */
} uvcci_dpf_wide_windows;

typedef struct uvcci_dpf_narrow {
    uint64_t control[UVCCI_DPF_GROUP]; /* of four levels */
    uint8_t right[64][UVCCI_DPF_GROUP / 8];
} uvcci_dpf_narrow;

typedef struct uvcci_dpf_eval_state {
    uvcci_dpf_nodes nodes;
    _Alignas(64) uvcci_dpf_node seed[UVCCI_DPF_GROUP]; /* without the control bits */
    uvcci_dpf_node child[UVCCI_DPF_GROUP];
    union {
        uvcci_dpf_wide wide;
        uvcci_dpf_narrow narrow;
    };
} uvcci_dpf_eval_state;

#if defined(__x86_64__) && defined(__GNUC__)
#define UVCCI_FSS_X86 1
#else
#define UVCCI_FSS_X86 0
#endif

/* Whether the CPU has what dpf_x86.c, dcf_x86.c and multiscale_x86.c need; the keys' backend may
 * say no. */
static inline bool uvcci_fss_is_wide(const uvcci_aes dpf[2]) {
#if UVCCI_FSS_X86
    return dpf[0].backend == UVCCI_AES_VAES && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("gfni") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vpopcntdq");
#else
    (void)dpf;
    return false;
#endif
}

#if UVCCI_FSS_X86
/* The keys [at, at + m) are one group. */
void uvcci_dpf_wide_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                        const uint8_t *root0, const uint8_t *root1, uint8_t *levels,
                        uint8_t *terminals, uint8_t *bits, uint8_t *sign);
/* Once for all groups. */
void uvcci_dpf_wide_begin(uvcci_dpf_wide *w, const uvcci_aes dpf[2]);
void uvcci_dpf_wide_roots(uvcci_dpf_nodes *g, const uvcci_dpf_keys *k, uint32_t at, uint32_t m);
/* Once for a group, before its evaluations. */
void uvcci_dpf_wide_keys(uvcci_dpf_wide *w, const uvcci_dpf_keys *k, uint32_t at, uint32_t m);
/* The nodes of level `from` to those of level `to` above x[m]. */
void uvcci_dpf_wide_eval(const uvcci_aes dpf[2], uvcci_dpf_eval_state *g, const uvcci_dpf_keys *k,
                         uint32_t at, uint32_t m, const uint64_t *x, unsigned from, unsigned to);
/* Windows of [at, at + m), m * uvcci_dpf_wide_blocks(len) <= UVCCI_DPF_WIDE_NODES, n >= 7;
 * uvcci_dpf_wide_begin() and _keys() come first. */
void uvcci_dpf_wide_window(const uvcci_aes dpf[2], uvcci_dpf_wide_windows *g,
                           const uvcci_dpf_keys *k, uint32_t at, uint32_t m, const uint64_t *first,
                           uint32_t len, uint64_t *out);
/* From the nodes above the terminal blocks. */
void uvcci_dpf_wide_prefix(const uvcci_aes dpf[2], uvcci_dpf_eval_state *g, const uvcci_dpf_keys *k,
                           uint32_t at, uint32_t m, const uint64_t *x, uint8_t *out);
#endif
#endif
