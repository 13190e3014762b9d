/* SPDX-License-Identifier: Apache-2.0 */
/* circuit.c - comparison without keys, a block at a time.
 *
 * State: none but what tasks name. Planes of a block follow one another without gaps, in the state,
 * on the wire and in the PRG's lane; in the scratch, bits and products have rows of full length.
 * Invariant: bits, level, count and role decide what is touched; shares are only ANDed and added.
 */
#include "exec/primitives/circuit.h"

#include <assert.h>
#include <string.h>

#include "exec/primitives/transpose.h"
#include "proto/bytes.h"
#include "proto/prg.h"

#define INLINE static inline __attribute__((always_inline))

/* Compiled a second time for the CPUs that have the VAES-512 backend: what run() inlines, not what
 * a table would call. */
#if defined(__x86_64__) && defined(__GNUC__)
#define WIDE __attribute__((target("avx512f")))
#else
#define WIDE
#endif

enum { LANE = 3, LANES = 8, CHUNK = UVCCI_CIRCUIT_CHUNK, ROW = UVCCI_PLANE_WORDS };

typedef uvcci_circuit_scratch scratch;
typedef uvcci_circuit_job job;

/* --- Shape ------------------------------------------------------------------------------------ */

/* A group of bits, and where its products stand among HEAD's planes. */
typedef struct group {
    unsigned first, bits, subsets, plane;
} group;

INLINE group group_at(const uvcci_circuit_plan *plan, unsigned j, unsigned plane) {
    const unsigned first = j * plan->bits / plan->groups;
    const unsigned bits = (j + 1) * plan->bits / plan->groups - first;
    return (group){first, bits, 1u << bits, plane};
}

uvcci_circuit_plan uvcci_circuit_plan_of(unsigned bits) {
    assert(bits >= 1 && bits <= 63);
    uvcci_circuit_plan p = {.bits = (uint8_t)bits, .groups = 1};
    while (p.groups * UVCCI_CIRCUIT_GROUP_BITS < bits) {
        p.groups = (uint8_t)(2 * p.groups);
        p.levels++;
    }
    p.rounds = (uint8_t)(p.levels + 2);
    p.planes = (uint16_t)(2 * p.groups - 1);
    for (unsigned j = 0; j < p.groups; j++)
        p.shared = (uint16_t)(p.shared + group_at(&p, j, 0).subsets - 1);
    assert(p.groups == 1u << p.levels && p.shared >= bits);
    return p;
}

INLINE uint32_t row_words(uint32_t count) {
    return (count + 63) / 64;
}

/* Planes of a component after `level` levels. */
INLINE uint32_t planes_at(const uvcci_circuit_plan *p, unsigned level) {
    return 2 * ((uint32_t)p->groups >> level) - 1;
}

uint32_t uvcci_circuit_state_words(const uvcci_circuit_plan *plan, uint32_t count) {
    assert(count <= UVCC_BLOCK_ELEMS && plan->planes != 0);
    return 2 * plan->planes * row_words(count);
}

uint32_t uvcci_circuit_message_words(const uvcci_circuit_plan *plan, unsigned want, unsigned round,
                                     uvcc_role from, uvcc_role to, uint32_t count) {
    const bool head = from == UVCC_HEAD, to_head = to == UVCC_HEAD;
    if (from == to || round >= plan->rounds)
        return 0;
    if (round == 0) /* HEAD to both, both to HEAD */
        return !head && !to_head ? 0 : (head ? plan->shared : plan->planes) * row_words(count);
    if (round <= plan->levels) /* to the party before; what HEAD makes last is needed by nobody */
        return (from + 2) % 3 != to || (head && round == plan->levels)
                   ? 0
                   : planes_at(plan, round) * row_words(count);
    assert((want & ~(UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT)) == 0);
    const uint32_t product = (want & UVCC_BOOL_PRODUCT) != 0, bit = (want & UVCC_BOOL_BIT) != 0;
    return !head && !to_head ? 0 : count * (product + (head ? 1 : bit));
}

uint32_t uvcci_circuit_piece_words(const uvcci_circuit_plan *plan, unsigned round, uint32_t count) {
    return round > plan->levels ? count : UVCC_BLOCK_ELEMS;
}

bool uvcci_circuit_is_sane(const uvcc_task *t) {
    const unsigned m = t->u.vec.bits, level = t->u.vec.shift, want = t->u.vec.gate;
    if (m < 1 || m > 63)
        return false;
    switch (t->kind) {
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_RECEIVE:
        return level >= 1 && level <= uvcci_circuit_plan_of(m).levels;
    case UVCC_TASK_BOOL_SELECT_MASK:
        return want >= 1 && want <= (UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT);
    case UVCC_TASK_BOOL_SELECT_FINISH:
        return want == UVCC_BOOL_BIT || want == UVCC_BOOL_PRODUCT;
    default:
        return true;
    }
}

/* --- Where things are ------------------------------------------------------------------------- */

/* What TAIL and OTHER share with HEAD, and with each other. */
INLINE unsigned pair_head(const job *j) {
    return j->block->role == UVCC_TAIL ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
}
INLINE unsigned pair_tail_other(const job *j) {
    return j->block->role == UVCC_TAIL ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}

/* c at TAIL and OTHER, and the component that they share with HEAD. */
INLINE const uint64_t *common(const job *j) {
    return j->block->in[j->block->role == UVCC_TAIL ? 1 : 0];
}
INLINE const uint64_t *with_head(const job *j) {
    return j->block->in[j->block->role == UVCC_TAIL ? 0 : 1];
}

/* Which component is 2 of the edge, known to TAIL and OTHER: hi at TAIL, lo at OTHER. */
INLINE unsigned component_2(const job *j) {
    return j->block->role == UVCC_TAIL ? 1 : 0;
}

INLINE uint64_t *state_of(const job *j, const uvcci_circuit_plan *p, unsigned component) {
    return j->block->out[0] + (size_t)component * p->planes * row_words(j->block->count);
}

INLINE void prg(const job *j, unsigned pair, uint64_t first, uint64_t *dst, size_t n) {
    const uvcci_prg_at at = {j->task->ordinal, j->task->call, j->block->block, LANE};
    uvcci_prg_fill(j->key[pair], at, first, dst, n);
}

/* Where word `word` of a message in pieces of UVCC_BLOCK_ELEMS words stands, and how many of n
 * words stand there together. */
INLINE size_t wire_at(const job *j, size_t word, size_t n, size_t *together) {
    const size_t piece = word / UVCC_BLOCK_ELEMS, left = (piece + 1) * UVCC_BLOCK_ELEMS - word;
    *together = n < left ? n : left;
    return 8 * word + piece * j->task->u.vec.gap;
}

INLINE void send(const job *j, uint8_t *to, size_t word, const uint64_t *from, size_t n) {
    for (size_t done = 0, m; done < n; done += m) {
        const size_t at = wire_at(j, word + done, n - done, &m);
        memcpy(to + at, from + done, 8 * m);
    }
}

INLINE void fetch(const job *j, const uint8_t *from, size_t word, uint64_t *to, size_t n) {
    for (size_t done = 0, m; done < n; done += m) {
        const size_t at = wire_at(j, word + done, n - done, &m);
        memcpy(to + done, from + at, 8 * m);
    }
}

/* --- The first round: groups ------------------------------------------------------------------ */

/* Bits 0..n - 1 of x (+ y where not NULL) as rows of s->plane. */
INLINE void slice(scratch *s, const uint64_t *x, const uint64_t *y, uint32_t count, unsigned n) {
    assert(count <= UVCC_BLOCK_ELEMS && n < 64);
    for (uint32_t at = 0; at < count; at += 64 * LANES) {
        uint64_t *m = s->pad[0];
        const uint32_t left = count - at < 64 * LANES ? count - at : 64 * LANES;
        memset(m, 0, 64 * LANES * sizeof *m);
        for (uint32_t l = 0; l < left; l++)
            m[l % 64 * LANES + l / 64] = x[at + l] + (y == NULL ? 0 : y[at + l]);
        uvcci_transpose64(m, LANES);
        for (unsigned i = 0; i < n; i++)
            memcpy(s->plane[i] + at / 64, m + (size_t)i * LANES, LANES * sizeof *m);
    }
}

/* s->product[set] = AND of the group's bits in the set. */
INLINE void subset_products(scratch *s, group g, uint32_t w) {
    assert(g.subsets <= UVCCI_CIRCUIT_SUBSETS && w <= ROW);
    memset(s->product[0], 0xff, w * sizeof *s->product[0]);
    for (unsigned set = 1; set < g.subsets; set++) {
        const uint64_t *rest = s->product[set & (set - 1)];
        const uint64_t *bit = s->plane[g.first + (unsigned)__builtin_ctz(set)];
        for (uint32_t i = 0; i < w; i++)
            s->product[set][i] = rest[i] & bit[i];
    }
}

INLINE void xor_and(uint64_t *restrict to, const uint64_t *restrict x, const uint64_t *restrict y,
                    uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        to[i] ^= x[i] & y[i];
}

INLINE void xor_into(uint64_t *restrict to, const uint64_t *restrict x, size_t n) {
    for (size_t i = 0; i < n; i++)
        to[i] ^= x[i];
}

/* to[0..w) ^= g, to[w..2w) ^= p (unless it is NULL) of a group, linear in u's products `u`. */
INLINE void xor_carry(const scratch *s, group g, uint32_t w, const uint64_t *u, uint64_t *to,
                      bool with_p) {
    const unsigned all = g.subsets - 1;
    for (unsigned set = 1; set <= all; set++, u += w) {
        const unsigned low = set & (0 - set);
        xor_and(to, u, s->product[low | (all & ~set & ~(2 * low - 1))], w);
        if (with_p)
            xor_and(to + w, u, s->product[all & ~set], w);
    }
}

/* HEAD's products of its bits, masked by what it shares with each of the others. */
INLINE void share_head(const job *j, const uvcci_circuit_plan *p) {
    const uvcc_block *b = j->block;
    scratch *s = j->scratch;
    const uint32_t w = row_words(b->count);
    slice(s, b->in[0], b->in[1], b->count, p->bits);
    group g = {0};
    for (unsigned i = 0, plane = 0; i < p->groups; i++, plane += g.subsets - 1) {
        g = group_at(p, i, plane);
        const size_t at = (size_t)plane * w, n = (size_t)(g.subsets - 1) * w;
        subset_products(s, g, w);
        prg(j, UVCC_PAIR_PREV, at, s->pad[0], n);
        prg(j, UVCC_PAIR_NEXT, at, s->pad[1], n);
        xor_into(s->pad[0], s->pad[1], n);
        for (unsigned set = 1; set < g.subsets; set++)
            xor_into(s->pad[0] + (size_t)(set - 1) * w, s->product[set], w);
        for (unsigned to = 0; to < 2; to++)
            send(j, b->wire_out[to], at, s->pad[0], n);
    }
}

/* TAIL's and OTHER's g and p of all groups, linear in what they hold of HEAD's products: their pad
 * (joining: false), or HEAD's message, which gives component 2. */
INLINE void carries(const job *j, const uvcci_circuit_plan *p, bool joining) {
    const uvcc_block *b = j->block;
    scratch *s = j->scratch;
    const uint32_t w = row_words(b->count);
    const bool tail = b->role == UVCC_TAIL;
    uint64_t *state = state_of(j, p, joining ? component_2(j) : 1 - component_2(j));
    slice(s, common(j), NULL, b->count, p->bits);
    group g = {0};
    for (unsigned i = 0, plane = 0; i < p->groups; i++, plane += g.subsets - 1) {
        g = group_at(p, i, plane);
        const size_t from = (size_t)plane * w, n = (size_t)(g.subsets - 1) * w;
        const size_t to = (size_t)(i == 0 ? 0 : 2 * i - 1) * w, made = (i == 0 ? 1 : 2) * (size_t)w;
        uint64_t *sum = s->pad[1];
        subset_products(s, g, w);
        prg(j, pair_tail_other(j), to + (tail ? (size_t)p->planes * w : 0), sum, made);
        if (joining) {
            prg(j, pair_tail_other(j), to + (tail ? 0 : (size_t)p->planes * w), s->pad[0], made);
            xor_into(sum, s->pad[0], made);
            fetch(j, b->wire_in[0], from, s->pad[0], n);
            if (i != 0)
                xor_into(sum + w, s->product[g.subsets - 1], w);
        } else {
            prg(j, pair_head(j), from, s->pad[0], n);
        }
        xor_carry(s, g, w, s->pad[0], sum, i != 0);
        memcpy(state + to, sum, 8 * made);
        if (!joining)
            send(j, b->wire_out[0], to, sum, made);
    }
}

INLINE void join_head(const job *j, const uvcci_circuit_plan *p) {
    const size_t bytes = (size_t)p->planes * row_words(j->block->count) * 8;
    for (unsigned component = 0; component < 2; component++)
        memcpy(state_of(j, p, component), j->block->wire_in[component], bytes);
}

/* --- The tree --------------------------------------------------------------------------------- */

/* to ^= this party's part of x AND y, without zero share; x and y are planes lo, hi. */
INLINE void xor_product(uint64_t *restrict to, const uint64_t *x_lo, const uint64_t *x_hi,
                        const uint64_t *y_lo, const uint64_t *y_hi, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        to[i] ^= (x_lo[i] & (y_lo[i] ^ y_hi[i])) ^ (x_hi[i] & y_lo[i]);
}

/* Adjacent groups become one: it makes a carry if the upper does, or passes on the lower's. */
INLINE void merge(const job *j, const uvcci_circuit_plan *p) {
    const uvcc_block *b = j->block;
    scratch *s = j->scratch;
    const uint32_t w = row_words(b->count), planes = planes_at(p, j->task->u.vec.shift);
    const size_t n = (size_t)planes * w;
    assert(n <= sizeof s->pad[0] / sizeof *s->pad[0]);
    uint64_t *lo = state_of(j, p, 0), *to = s->pad[0];
    const uint64_t *hi = state_of(j, p, 1);
    prg(j, UVCC_PAIR_NEXT, 0, to, n);
    prg(j, UVCC_PAIR_PREV, 0, s->pad[1], n);
    xor_into(to, s->pad[1], n);
    for (uint32_t i = 0; 2 * i < planes + 1; i++, to += w) {
        /* Pairs 2i and 2i + 1 of the level before. */
        const size_t g0 = (size_t)(i == 0 ? 0 : 4 * i - 1) * w, p0 = g0 + w;
        const size_t g1 = (size_t)(4 * i + 1) * w, p1 = g1 + w;
        xor_into(to, lo + g1, w);
        xor_product(to, lo + p1, hi + p1, lo + g0, hi + g0, w);
        if (i == 0)
            continue;
        to += w;
        xor_product(to, lo + p1, hi + p1, lo + p0, hi + p0, w);
    }
    memcpy(lo, s->pad[0], 8 * n);
    if (b->wire_out[0] != NULL)
        send(j, b->wire_out[0], 0, s->pad[0], n);
}

INLINE void receive(const job *j, const uvcci_circuit_plan *p) {
    const size_t n = (size_t)planes_at(p, j->task->u.vec.shift) * row_words(j->block->count);
    if (j->block->wire_in[0] != NULL)
        memcpy(state_of(j, p, 1), j->block->wire_in[0], 8 * n);
}

/* --- The last round: conversion and selection --------------------------------------------------
 */

/* (1 - 2v) x, v given as a mask. */
INLINE uint64_t flip(uint64_t x, uint64_t v) {
    return (x ^ v) - v;
}

/* HEAD's q or the others' v of elements [at, at + n), as masks. */
INLINE const uint64_t *own_bits(const job *j, const uvcci_circuit_plan *p, uint32_t at,
                                uint32_t n) {
    assert(n <= CHUNK && at + n <= j->block->count);
    const uvcc_block *b = j->block;
    const bool head = b->role == UVCC_HEAD;
    const size_t hi = (size_t)p->planes * row_words(b->count), own = component_2(j) * hi;
    const uint64_t *x = head ? b->in[0] : common(j);
    uint64_t *v = j->scratch->word[4], word = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = (at + i) / 64;
        if (i % 64 == 0)
            word = head ? ~(b->in[2][k] ^ b->in[2][hi + k]) : b->in[2][own + k];
        const uint64_t top = (x[at + i] + (head ? b->in[1][at + i] : 0)) >> p->bits;
        v[i] = 0 - ((top ^ word >> i % 64) & 1);
    }
    return v;
}

/* Words [at, at + n) of A(pair, k). */
INLINE const uint64_t *pad(const job *j, unsigned slot, unsigned pair, uint64_t k, uint32_t at,
                           uint32_t n) {
    prg(j, pair, k * UVCC_BLOCK_ELEMS + at, j->scratch->word[slot], n);
    return j->scratch->word[slot];
}

INLINE void select_head(const job *j, const uvcci_circuit_plan *p, uint32_t at, uint32_t n) {
    const uvcc_block *b = j->block;
    const uint64_t *q = own_bits(j, p, at, n), *a = b->in[0] + at, *c = b->in[1] + at;
    uint64_t *e = j->scratch->word[2];
    size_t skip = 0;
    if (j->task->u.vec.gate & UVCC_BOOL_PRODUCT) {
        const uint64_t *ho = pad(j, 0, UVCC_PAIR_PREV, 0, at, n);
        const uint64_t *ht = pad(j, 1, UVCC_PAIR_NEXT, 0, at, n);
        for (uint32_t i = 0; i < n; i++)
            e[i] = ((a[i] + c[i]) & q[i]) - ho[i] - ht[i];
        for (unsigned k = 0; k < 2; k++)
            send(j, b->wire_out[k], at, e, n);
        skip = 8 * (size_t)b->count + j->task->u.vec.gap;
    }
    const uint64_t *ho = pad(j, 0, UVCC_PAIR_PREV, 1, at, n);
    const uint64_t *ht = pad(j, 1, UVCC_PAIR_NEXT, 1, at, n);
    for (uint32_t i = 0; i < n; i++)
        e[i] = 0 - q[i] - ho[i] - ht[i];
    for (unsigned k = 0; k < 2; k++)
        send(j, b->wire_out[k] + skip, at, e, n);
}

INLINE void select_others(const job *j, const uvcci_circuit_plan *p, uint32_t at, uint32_t n) {
    const uvcc_block *b = j->block;
    const unsigned which = b->role == UVCC_TAIL, want = j->task->u.vec.gate;
    const uint64_t *v = own_bits(j, p, at, n), *c = common(j) + at, *x = with_head(j) + at;
    const uint64_t *e1 = pad(j, 1, pair_head(j), 1, at, n);
    if (want & UVCC_BOOL_PRODUCT) {
        const uint64_t *e0 = pad(j, 0, pair_head(j), 0, at, n);
        const uint64_t *r = pad(j, 2, pair_tail_other(j), which, at, n);
        uint64_t *to = b->out[0] + at;
        for (uint32_t i = 0; i < n; i++)
            to[i] = flip(e0[i] + e1[i] * c[i], v[i]) + (x[i] & v[i]) + r[i];
        send(j, b->wire_out[0], at, to, n);
    }
    if (want & UVCC_BOOL_BIT) {
        const uint64_t *r = pad(j, 2, pair_tail_other(j), 2 + which, at, n);
        uint64_t *to = b->out[1] + at;
        for (uint32_t i = 0; i < n; i++)
            to[i] = flip(e1[i], v[i]) + r[i];
        send(j, b->wire_out[1], at, to, n);
    }
}

INLINE void select_mask(const job *j, const uvcci_circuit_plan *p, uint32_t at, uint32_t n) {
    if (j->block->role == UVCC_HEAD)
        select_head(j, p, at, n);
    else
        select_others(j, p, at, n);
}

INLINE void select_finish(const job *j, const uvcci_circuit_plan *p, uint32_t at, uint32_t n) {
    const uvcc_block *b = j->block;
    if (b->role == UVCC_HEAD) {
        for (unsigned k = 0; k < 2; k++)
            memcpy(b->out[k] + at, b->wire_in[k] + 8 * (size_t)at, 8 * (size_t)n);
        return;
    }
    const bool product = j->task->u.vec.gate == UVCC_BOOL_PRODUCT;
    const uint64_t *v = own_bits(j, p, at, n), *c = common(j) + at;
    const uint64_t *r0 = pad(j, 0, pair_tail_other(j), product ? 0 : 2, at, n);
    const uint64_t *r1 = pad(j, 1, pair_tail_other(j), product ? 1 : 3, at, n);
    uint64_t *to = b->out[component_2(j)] + at, *e0 = j->scratch->word[2],
             *e1 = j->scratch->word[3];
    memcpy(e0, b->wire_in[0] + 8 * (size_t)at, 8 * (size_t)n);
    if (!product) {
        for (uint32_t i = 0; i < n; i++)
            to[i] = flip(e0[i], v[i]) - v[i] - r0[i] - r1[i];
        return;
    }
    memcpy(e1, b->wire_in[1] + 8 * (size_t)at, 8 * (size_t)n);
    for (uint32_t i = 0; i < n; i++)
        to[i] = flip(e0[i] + e1[i] * c[i], v[i]) + (c[i] & v[i]) - r0[i] - r1[i];
}

/* --- Dispatch --------------------------------------------------------------------------------- */

/* What each role does in each task; everything it calls is inlined, so that run_wide() has it
 * compiled for its CPU. */
INLINE void run(const job *j) {
    const uvcci_circuit_plan plan = uvcci_circuit_plan_of(j->task->u.vec.bits), *p = &plan;
    const bool head = j->block->role == UVCC_HEAD;
    const uint32_t count = j->block->count;
    assert(count >= 1 && count <= UVCC_BLOCK_ELEMS && j->block->role <= UVCC_OTHER);
    switch (j->task->kind) {
    case UVCC_TASK_BOOL_SHARE:
        if (head)
            share_head(j, p);
        else
            carries(j, p, false);
        break;
    case UVCC_TASK_BOOL_JOIN:
        if (head)
            join_head(j, p);
        else
            carries(j, p, true);
        break;
    case UVCC_TASK_BOOL_MERGE:
        merge(j, p);
        break;
    case UVCC_TASK_BOOL_RECEIVE:
        receive(j, p);
        break;
    default:
        for (uint32_t at = 0; at < count; at += CHUNK) {
            const uint32_t n = count - at < CHUNK ? count - at : CHUNK;
            if (j->task->kind == UVCC_TASK_BOOL_SELECT_MASK)
                select_mask(j, p, at, n);
            else
                select_finish(j, p, at, n);
        }
    }
}

WIDE static void run_wide(const job *j) {
    run(j);
}

void uvcci_circuit_run(const job *j) {
    if (j->key[0]->backend == UVCCI_AES_VAES)
        run_wide(j);
    else
        run(j);
}
