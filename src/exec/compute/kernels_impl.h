/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_impl.h - what the files of the CPU kernels share: a worker's scratch, the part of a block
 * that a kernel works on, its pads, and what a kernel is. For kernels*.c only. */
#ifndef UVCCI_KERNELS_IMPL_H
#define UVCCI_KERNELS_IMPL_H

#include "exec/compute/kernels.h"
#include "exec/primitives/circuit.h"

#include <string.h>

#include "proto/bytes.h"
#include "proto/prg.h"

#define BIAS ((uint64_t)1 << 62) /* makes a value in range nonnegative before its opening */

enum { CHUNK = 1024, SLOTS = 6, BLOCK = UVCC_BLOCK_ELEMS };
_Static_assert(BLOCK % CHUNK == 0 && CHUNK % 64 == 0, "chunks begin at whole bytes and words");

/* AES keys of one step, expanded when first used. */
typedef struct key_cache {
    uvcci_aes prg[3][UVCC_TAG_COUNT], dpf[2];
    const uvcc_step_keys *of; /* NULL: empty */
    bool have_prg[3][UVCC_TAG_COUNT], have_dpf;
} key_cache;

typedef struct block_scratch {
    _Alignas(64) uint64_t slot[SLOTS][CHUNK];
    uint64_t words[BLOCK];
    uint64_t roots[2][2 * BLOCK];
    uint8_t shares[BLOCK];
    uvcci_circuit_scratch circuit;
    key_cache keys;
} block_scratch;

/* n elements from `first` of a block. */
typedef struct chunk {
    block_scratch *s;
    uint64_t *packing; /* the worker's, as many words as the kernel asked for */
    const uvcc_task *t;
    const uvcc_block *b;
    uint32_t first, n;
    uvcci_aes_backend aes;
    uvcci_gemm_backend simd;
} chunk;

/* What a task of some kind is made by. Each subject's file has a table of its own kinds, by kind;
 * kernels.c asks all of them. */
typedef struct uvcci_kernel {
    void (*run)(const chunk *c);      /* of a task of blocks */
    bool whole;                       /* wants a block, not a chunk */
    bool (*sane)(const uvcc_task *t); /* its numbers are within what formulas allow; NULL: any */
    size_t (*packing)(const uvcc_task *t); /* words of packing memory; NULL: none */
    void (*prepare)(const uvcc_task *t, uint64_t *packing); /* fills it before the first block */
    int (*task)(uvcci_cpu_worker *w, const uvcc_task *t);   /* of any other task: 0 or an error */
} uvcci_kernel;
extern const uvcci_kernel uvcci_kernels_open[], uvcci_kernels_gate[], uvcci_kernels_lift[],
    uvcci_kernels_deal[], uvcci_kernels_map[], uvcci_kernels_gemm[], uvcci_kernels_bytes[],
    uvcci_kernels_rounding[], uvcci_kernels_sks[], uvcci_kernels_function[],
    uvcci_kernels_function_deal[], uvcci_kernels_one_hot[];

/* --- Where things are ------------------------------------------------------------------------- */

static inline const uint64_t *in(const chunk *c, unsigned i) {
    return c->b->in[i] + c->first;
}
static inline uint64_t *out(const chunk *c, unsigned i) {
    return c->b->out[i] + c->first;
}
static inline const uint8_t *wire_in(const chunk *c, unsigned i) {
    return c->b->wire_in[i] + (size_t)c->first * 8;
}
static inline uint8_t *wire_out(const chunk *c, unsigned i) {
    return c->b->wire_out[i] + (size_t)c->first * 8;
}
static inline uint64_t get(const uint8_t *wire, size_t i) {
    return uvcci_ld64(wire + 8 * i);
}
static inline void put(uint8_t *wire, size_t i, uint64_t x) {
    uvcci_st64(wire + 8 * i, x);
}

/* What HEAD and TAIL share with OTHER. */
static inline unsigned pair_other(const chunk *c) {
    return c->b->role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
}
/* The same pairs as OTHER names them. */
enum { PAIR_HO = UVCC_PAIR_NEXT, PAIR_TO = UVCC_PAIR_PREV };

static inline uint64_t low_bits(unsigned n) {
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

/* (1 - 2v) x, v given as a mask. */
static inline uint64_t flip(uint64_t x, uint64_t v) {
    return (x ^ v) - v;
}

/* --- Pads ------------------------------------------------------------------------------------- */

/* A pair's expanded key of a tag, and the two of the DPF's tree (kernels_pads.c). */
const uvcci_aes *uvcci_kernel_prg_key(const chunk *c, unsigned pair, uvcc_prg_tag tag);
const uvcci_aes *uvcci_kernel_dpf_keys(const chunk *c);

/* Words [first, first + n) of PRG(pair, tag, lane) of the block, at any call of the op. */
static inline void prg_of_call(const chunk *c, uint16_t call, unsigned pair, uvcc_prg_tag tag,
                               uint8_t lane, uint64_t first, uint64_t *dst, size_t n) {
    const uvcci_prg_at at = {c->t->ordinal, call, c->b->block, lane};
    uvcci_prg_fill(uvcci_kernel_prg_key(c, pair, tag), at, first, dst, n);
}

static inline void prg(const chunk *c, unsigned pair, uvcc_prg_tag tag, uint8_t lane,
                       uint64_t first, uint64_t *dst, size_t n) {
    prg_of_call(c, c->t->call, pair, tag, lane, first, dst, n);
}

static inline const uint64_t *pad(const chunk *c, unsigned slot, unsigned pair, uvcc_prg_tag tag,
                                  uint8_t lane) {
    prg(c, pair, tag, lane, c->first, c->s->slot[slot], c->n);
    return c->s->slot[slot];
}

/* --- Where key streams have what (gates) --------------------------------------------------------
 */

/* Bits of a comparison. */
static inline unsigned uvcci_kernel_less_bits(const chunk *c) {
    return c->t->u.vec.gate == UVCC_GATE_RELU ? c->t->u.vec.bits : c->t->u.vec.shift;
}
static inline uvcc_key_layout uvcci_kernel_layout(const chunk *c, uvcc_role role) {
    uvcc_key_layout k;
    uvcc_key_layout_of((uvcc_gate)c->t->u.vec.gate, c->t->u.vec.compact, c->t->u.vec.shift,
                       c->t->u.vec.bits, c->b->count, role, &k);
    return k;
}

/* --- Pads of several subjects (kernels_pads.c) ------------------------------------------------ */

/* Bit pads of a comparison: as many words as the chunk's bits need. */
const uint8_t *uvcci_kernel_bit_pad(const chunk *c, unsigned slot, unsigned pair);
/* Bit i of a ^ b as a mask. */
const uint64_t *uvcci_kernel_bit_masks(const chunk *c, unsigned slot, const uint8_t *a,
                                       const uint8_t *b);
/* OTHER: the sum of HEAD's and TAIL's pads of a call, in `slot`. */
const uint64_t *uvcci_kernel_both_pads(const chunk *c, uint16_t call, unsigned slot, unsigned spare,
                                       uvcc_prg_tag tag, uint8_t lane);

/* --- Keys that OTHER deals (kernels_keys.c) --------------------------------------------------- */

/* What stands at the beginning of out_bytes[0] comes to that of out_bytes[1], if it is another
 * place. */
void uvcci_kernel_deal_alike(const chunk *c, size_t bytes);
/* HEAD's and TAIL's roots of a block, in s->roots. */
uint64_t (*uvcci_kernel_both_roots(const chunk *c, uint16_t call))[2 * BLOCK];
/* DCF keys on n bits with w words beta[i][w] for [x < alpha], alpha < 2^n in s->words, to the
 * beginning of out_bytes[0] and [1]; roots at `call`. */
void uvcci_kernel_deal_dcf(const chunk *c, uint16_t call, unsigned n, unsigned w,
                           const uint64_t *beta);
/* The same with beta = 1. Packing: BLOCK words. */
void uvcci_kernel_deal_less(const chunk *c, uint16_t call, unsigned n);

/* --- Packing memory (kernels_packing.c) ------------------------------------------------------ */

/* At least so many words of it; UVCC_ERR_NOMEM. */
int uvcci_kernel_reserve(uvcci_cpu_worker *w, size_t words);
/* Wipes it and gives it back. */
void uvcci_kernel_release(uvcci_cpu_worker *w);
/* The most that a task of functions (kernels_function.c) or BIT_SUMS (kernels_sks.c) can need. */
size_t uvcci_fn_packing_words_max(void);
size_t uvcci_bit_sums_words(void);

#endif
