/* SPDX-License-Identifier: Apache-2.0 */
/* vec.h - an element of a block: where its operands are, its pads, its dealt words, and packed
 * results, which a warp writes together. */
#ifndef UVCCI_GPU_VEC_H
#define UVCCI_GPU_VEC_H

#include "gpu/arith.h"

/* A block and, of gates, where its key streams have what. */
typedef struct vec_block {
    uvcc_block at;
    uvcc_key_layout key[2]; /* HEAD's, TAIL's */
} vec_block;

/* The entries of a table less the least of them, by bytes: of each 32, a group, the lowest byte of
 * all, then the next of all, as many as any needs. So a product with bits is one of bytes. A byte
 * stands where table_at() says. */
enum { TABLE_GROUP = 32, TABLE_PLANES = 4 };

typedef struct vec_table {
    const uint32_t *bytes;
    int32_t least;
    uint32_t planes; /* bytes of an entry */
} vec_table;

/* Where, among a group's bytes, entry i's is: bit 31 - i of a word that is shifted left by k, i =
 * 24 - 8b + k, is the top bit of byte b, the one that is multiplied by byte b of word k. */
ON_BOTH unsigned table_at(unsigned i) {
    return i % 8 * 4 + (3 - i / 8);
}

/* The same by bits, as a kernel makes them of bytes: of each 128 entries, a chunk, 32 words for the
 * lowest bytes and 32 for the next: word l is bit l / 4 of group l % 4 of the chunk, the first
 * entry at the top. Tables of so many chunks at most, and of entries of no more bytes, have them,
 * in shared memory behind the tables of AES. */
enum {
    CHUNK_GROUPS = 4,
    PLANES_BYTES = 2,
    PLANES_WORDS = 32 * PLANES_BYTES,
    PLANES_CHUNKS = 80,
    PLANES_AT = AES_FOUR * AES_TABLE_WORDS * 4
};

/* A task of blocks as a kernel takes it; `blocks` and the arrays of fn are where the kernel reads
 * them. */
typedef struct vec_task {
    uint16_t kind, call;
    uint32_t ordinal, count;
    uint8_t shift, bits, lift, gate, gap;
    bool compact;
    uint64_t constant;
    uint32_t cols, step;
    const vec_block *blocks;
    uvcc_fn_args fn;
    vec_table table; /* of fn.entries, if those are not multiplied each */
} vec_task;

/* What an element's function is called with. */
typedef struct vec {
    const vec_task *t;
    const vec_block *block;
    const uvcc_block *b;
    const uint32_t (*key)[AES_KEY_WORDS];  /* PRG_KEYS */
    const uint32_t (*tree)[AES_KEY_WORDS]; /* as aes_expand_tree() gives them */
    unsigned tables;                       /* of AES; known when a kernel is compiled */
    uint32_t i;                            /* the element */
    uint32_t lane, lanes;                  /* of the threads that share it */
    bool by_bits;                          /* a table is, and a warp's lanes have an element each */
} vec;

/* Values of an element that are written packed; and where to. */
typedef struct packed {
    uint64_t x[2];
} packed;
typedef struct packing {
    uint8_t *to[2]; /* what is NULL is not written */
    unsigned bits;
    bool whole_words; /* the message ends at a whole word */
} packing;

enum { HO_OF_OTHER = UVCC_PAIR_NEXT, TO_OF_OTHER = UVCC_PAIR_PREV };

ON_BOTH bool is_head(const vec *c) {
    return c->b->role == UVCC_HEAD;
}
ON_BOTH bool is_tail(const vec *c) {
    return c->b->role == UVCC_TAIL;
}
ON_BOTH bool is_other(const vec *c) {
    return c->b->role == UVCC_OTHER;
}
/* HEAD's and TAIL's pair with OTHER, and with each other. */
ON_BOTH unsigned with_other(const vec *c) {
    return is_head(c) ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
}
ON_BOTH unsigned with_edge(const vec *c) {
    return is_head(c) ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}

/* TAIL's and OTHER's pair with HEAD, and with each other. */
ON_BOTH unsigned with_head(const vec *c) {
    return is_tail(c) ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
}
ON_BOTH unsigned with_third(const vec *c) {
    return is_tail(c) ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}

/* --- Operands --------------------------------------------------------------------------------- */

ON_BOTH uint64_t in(const vec *c, unsigned k) {
    return c->b->in[k][c->i];
}
ON_BOTH void out(const vec *c, unsigned k, uint64_t x) {
    c->b->out[k][c->i] = x;
}
ON_BOTH uint64_t wire_in(const vec *c, unsigned k) {
    return load64(c->b->wire_in[k] + (size_t)c->i * 8);
}
ON_BOTH void wire_out(const vec *c, unsigned k, uint64_t x) {
    store64(c->b->wire_out[k] + (size_t)c->i * 8, x);
}
/* n-bit packed; what lies behind c words and the gap is packed too. */
ON_BOTH uint64_t wire_packed(const vec *c, unsigned k, unsigned n) {
    return unpack(c->b->wire_in[k], n, c->i);
}
ON_BOTH size_t behind_words(const vec *c) {
    return (size_t)c->b->count * 8 + c->t->gap;
}

/* --- Pads ------------------------------------------------------------------------------------- */

ON_BOTH prg_at place_of_call(const vec *c, unsigned call, unsigned lane) {
    prg_at at;
    at.ordinal = c->t->ordinal;
    at.block = c->b->block;
    at.call = (uint16_t)call;
    at.lane = (uint8_t)lane;
    return at;
}
ON_BOTH uint64_t prg_call_at(const vec *c, unsigned call, unsigned pair, unsigned tag,
                             unsigned lane, uint64_t j) {
    return prg_word(c->key[pair * UVCC_TAG_COUNT + tag], c->tables, place_of_call(c, call, lane),
                    j);
}
/* Words 2j and 2j + 1. */
ON_BOTH void prg_pair_at(const vec *c, unsigned call, unsigned pair, unsigned tag, unsigned lane,
                         uint64_t j, uint64_t word[2]) {
    const aes_block y =
        prg_block(c->key[pair * UVCC_TAG_COUNT + tag], c->tables, place_of_call(c, call, lane), j);
    word[0] = y.w[0] | (uint64_t)y.w[1] << 32;
    word[1] = y.w[2] | (uint64_t)y.w[3] << 32;
}
ON_BOTH uint64_t prg_of_call(const vec *c, unsigned call, unsigned pair, unsigned tag,
                             unsigned lane) {
    return prg_call_at(c, call, pair, tag, lane, c->i);
}
ON_BOTH uint64_t prg(const vec *c, unsigned pair, unsigned tag, unsigned lane) {
    return prg_of_call(c, c->t->call, pair, tag, lane);
}
/* Bit i of a stream. */
ON_BOTH uint64_t prg_bit(const vec *c, unsigned pair, unsigned tag, unsigned lane) {
    return bit_of(prg_call_at(c, c->t->call, pair, tag, lane, c->i / 64), c->i % 64);
}
ON_BOTH uint64_t zero_share(const vec *c, unsigned lane) {
    return prg(c, UVCC_PAIR_NEXT, UVCC_TAG_zero, lane) -
           prg(c, UVCC_PAIR_PREV, UVCC_TAG_zero, lane);
}
/* OTHER: the sum of HEAD's and TAIL's. */
ON_BOTH uint64_t both_pads(const vec *c, unsigned call, unsigned tag, unsigned lane) {
    return prg_of_call(c, call, HO_OF_OTHER, tag, lane) +
           prg_of_call(c, call, TO_OF_OTHER, tag, lane);
}

/* --- Dealt words ------------------------------------------------------------------------------ */

/* W(call, lane, q) of this element at HEAD or TAIL. */
ON_BOTH uint64_t dealt(const vec *c, unsigned section, unsigned call, unsigned lane, uint32_t q) {
    if (is_head(c))
        return prg_call_at(c, call, UVCC_PAIR_PREV, UVCC_TAG_select, lane,
                           (uint64_t)q * UVCC_BLOCK_ELEMS + c->i);
    return load64(c->b->words[section] + ((size_t)q * c->b->count + c->i) * 8);
}
/* OTHER deals y as it. */
ON_BOTH void deal(const vec *c, unsigned call, unsigned lane, uint32_t q, uint64_t y) {
    const uint64_t head = prg_call_at(c, call, HO_OF_OTHER, UVCC_TAG_select, lane,
                                      (uint64_t)q * UVCC_BLOCK_ELEMS + c->i);
    store64(c->b->out_words + ((size_t)q * c->b->count + c->i) * 8, y - head);
}

#endif
