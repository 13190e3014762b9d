/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h - the trees of keys (compute.md, section 4): DPF, DCF and multi-scale tables, evaluated at
 * an element and made for one. */
#ifndef UVCCI_GPU_TREE_H
#define UVCCI_GPU_TREE_H

#include "gpu/vec.h"

/* Levels of a DPF whose blocks of 128 values come below. */
ON_BOTH unsigned dpf_depth(unsigned n) {
    return n > 7 ? n - 7 : 0;
}
ON_BOTH size_t control_bytes(unsigned depth) {
    return (2u * depth + 7) / 8;
}

typedef struct seed {
    uint64_t lo, hi;
} __attribute__((aligned(16))) seed; /* moves at once */
typedef struct node {
    seed s; /* bit 0 is clear */
    uint64_t t;
} node;

ON_BOTH seed seed_xor(seed a, seed b) {
    seed y;
    y.lo = a.lo ^ b.lo;
    y.hi = a.hi ^ b.hi;
    return y;
}
ON_BOTH seed seed_and(seed a, seed b) {
    seed y;
    y.lo = a.lo & b.lo;
    y.hi = a.hi & b.hi;
    return y;
}
ON_BOTH seed seed_if(uint64_t v, seed a) {
    a.lo &= 0 - v;
    a.hi &= 0 - v;
    return a;
}
/* a where v's lowest bit is 1. */
ON_BOTH seed seed_if_low(seed v, seed a) {
    const uint32_t half = 0 - ((uint32_t)v.lo & 1);
    const uint64_t all = (uint64_t)half << 32 | half; /* one register of a device */
    a.lo &= all;
    a.hi &= all;
    return a;
}
ON_BOTH seed seed_clear(seed a) {
    a.lo &= ~(uint64_t)1;
    return a;
}
ON_BOTH seed seed_choose(uint64_t v, seed a, seed b) {
    seed y;
    y.lo = choose(v, a.lo, b.lo);
    y.hi = choose(v, a.hi, b.hi);
    return y;
}
ON_BOTH seed seed_load(const uint8_t *p) {
    seed y;
#ifdef __CUDA_ARCH__
    if (((uintptr_t)p & 15) == 0) {
        const ulonglong2 v = *(const ulonglong2 *)p;
        y.lo = v.x;
        y.hi = v.y;
        return y;
    }
#endif
    y.lo = load64(p);
    y.hi = load64(p + 8);
    return y;
}
ON_BOTH void seed_store(uint8_t *p, seed a) {
#ifdef __CUDA_ARCH__
    if (((uintptr_t)p & 15) == 0) {
        ulonglong2 v;
        v.x = a.lo;
        v.y = a.hi;
        *(ulonglong2 *)p = v;
        return;
    }
#endif
    store64(p, a.lo);
    store64(p + 8, a.hi);
}

/* A node in the room of its seed. */
ON_BOTH seed node_kept(node a) {
    a.s.lo |= a.t;
    return a.s;
}
ON_BOTH node node_from(seed kept) {
    node a;
    a.s = seed_clear(kept);
    a.t = kept.lo & 1;
    return a;
}

/* MMO of side d, which may differ from lane to lane if it is public. */
ON_BOTH seed mmo(const vec *c, unsigned d, seed s) {
    aes_block x = {
        {(uint32_t)s.lo, (uint32_t)(s.lo >> 32), (uint32_t)s.hi, (uint32_t)(s.hi >> 32)}};
    const aes_keys k = {c->tree[0], c->tree[1], 0 - d, true};
    x = aes(&k, c->tables, x);
    s.lo ^= x.w[0] | (uint64_t)x.w[1] << 32;
    s.hi ^= x.w[2] | (uint64_t)x.w[3] << 32;
    return s;
}

/* The root of this element that comes from a pair. */
ON_BOTH node root_of(const vec *c, unsigned call, unsigned pair, uint64_t t) {
    uint64_t word[2];
    node r;
    prg_pair_at(c, call, pair, UVCC_TAG_root, 0, c->i, word);
    r.s.lo = word[0] & ~(uint64_t)1;
    r.s.hi = word[1];
    r.t = t;
    return r;
}
ON_BOTH node own_root(const vec *c, unsigned call) {
    return root_of(c, call, with_other(c), is_tail(c) ? 1 : 0);
}

/* A key's levels and their control bits. */
typedef struct levels {
    const uint8_t *words, *bits;
    unsigned depth;
} levels;

/* What a level corrects by. */
typedef struct correction {
    seed cw;
    uint64_t tau; /* the two control bits */
} correction;

ON_BOTH correction correction_at(const vec *c, const levels *k, unsigned level) {
    correction y;
    y.cw = seed_load(k->words + 16 * ((size_t)level * c->b->count + c->i));
    y.tau = k->bits[control_bytes(k->depth) * c->i + level / 4] >> 2 * (level % 4) & 3;
    return y;
}
ON_BOTH node child_by(const vec *c, const correction *by, node a, unsigned side) {
    const seed y = mmo(c, side, a.s);
    node n;
    n.s = seed_clear(seed_xor(y, seed_if(a.t, by->cw)));
    n.t = (y.lo & 1) ^ (a.t & bit_of(by->tau, side));
    return n;
}
/* The correction is asked for first: it comes while AES runs. */
ON_BOTH node child(const vec *c, const levels *k, node a, unsigned level, unsigned side) {
    const correction by = correction_at(c, k, level);
    return child_by(c, &by, a, side);
}

/* --- DPF -------------------------------------------------------------------------------------- */

typedef struct dpf {
    levels k;
    const uint8_t *last; /* final words */
    unsigned n;
} dpf;

/* A key CW(n) whose three arrays stand together. */
ON_BOTH dpf dpf_at(const vec *c, const uint8_t *key, unsigned n) {
    dpf f;
    f.n = n;
    f.k.depth = dpf_depth(n);
    f.k.words = key;
    f.last = key + (size_t)16 * f.k.depth * c->b->count;
    f.k.bits = f.last + (size_t)16 * c->b->count;
    return f;
}
ON_BOTH seed final_word(const vec *c, const dpf *f) {
    return seed_load(f->last + (size_t)16 * c->i);
}
ON_BOTH seed terminal(const vec *c, node a, seed last) {
    return seed_xor(mmo(c, 0, a.s), seed_if(a.t, last));
}
/* Where a value is in its block of 128. */
ON_BOTH unsigned terminal_at(unsigned n, uint64_t x) {
    return (unsigned)low(x, n < 7 ? n : 7);
}
/* A share of [alpha <= x], x < 2^n. */
ON_BOTH uint64_t dpf_prefix(const vec *c, const dpf *f, node root, uint64_t x) {
    const seed last = final_word(c, f);
    uint64_t p = 0;
    node a = root;
    for (unsigned l = 0; l < f->k.depth; l++) {
        const unsigned side = (unsigned)bit_of(x, f->n - 1 - l);
        const node below = child(c, &f->k, a, l, side);
        p ^= side & (a.t ^ below.t);
        a = below;
    }
    const seed y = terminal(c, a, last);
    const unsigned at = terminal_at(f->n, x);
    p ^= at < 64 ? parity(low(y.lo, at + 1)) : parity(y.lo) ^ parity(low(y.hi, at - 63));
    return p;
}

/* Where OTHER's two streams have a key's sections. */
typedef struct made {
    uint8_t *words[2], *last[2], *bits[2];
} made;

ON_BOTH made made_at(const vec *c, unsigned depth) {
    made m;
    for (unsigned p = 0; p < 2; p++) {
        m.words[p] = c->b->out_bytes[p];
        m.last[p] = m.words[p] + (size_t)16 * depth * c->b->count;
        m.bits[p] = m.last[p] + (size_t)16 * c->b->count;
    }
    return m;
}

/* Both parties' nodes as OTHER makes a key, and the control bits of its levels so far. No index of
 * these depends on what a kernel knows only as it runs: what is in registers has none, and where
 * it would be instead, local memory, is stored and loaded the way that the tables of AES are. */
typedef struct maker {
    node n[2];
    uint64_t control[2];
    size_t level_bytes; /* of a level's words of all elements */
} maker;

ON_BOTH maker maker_of(const vec *c, unsigned call) {
    maker m;
    m.n[0] = root_of(c, call, HO_OF_OTHER, 0);
    m.n[1] = root_of(c, call, TO_OF_OTHER, 1);
    m.control[0] = m.control[1] = 0;
    m.level_bytes = (size_t)16 * c->b->count;
    return m;
}
/* The correction word of a level for a path that goes to side a; goes there. */
ON_BOTH seed make_node(const vec *c, maker *m, unsigned level, uint64_t a) {
    seed lost = {0, 0};
    /* HEAD's seed, then TAIL's: each leaves its place to the next one, at the end to its child */
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (unsigned p = 0; p < 2; p++) {
        const seed s = m->n[0].s, left = mmo(c, 0, s), right = mmo(c, 1, s);
        lost = seed_xor(lost, seed_choose(a, left, right));
        m->n[0].s = m->n[1].s;
        m->n[1].s = seed_choose(a, right, left);
    }
    const seed cw = seed_clear(lost);
    const uint64_t tau = ((m->n[0].s.lo ^ m->n[1].s.lo) & 1) ^ 1, other = lost.lo & 1;
    const uint64_t both = choose(a, other | tau << 1, tau | other << 1) << 2 * (level % 32);
    m->control[0] |= level < 32 ? both : 0;
    m->control[1] |= level < 32 ? 0 : both;
    for (unsigned p = 0; p < 2; p++) {
        const seed s = m->n[p].s;
        const uint64_t t = m->n[p].t;
        m->n[p].s = seed_clear(seed_xor(s, seed_if(t, cw)));
        m->n[p].t = (s.lo & 1) ^ (t & tau);
    }
    return cw;
}
/* The same, to its place in both streams. */
ON_BOTH void make_level(const vec *c, maker *m, unsigned level, uint64_t a,
                        uint8_t *const words[2]) {
    const seed cw = make_node(c, m, level, a);
    const size_t at = m->level_bytes * level + (size_t)16 * c->i;
    seed_store(words[0] + at, cw);
    seed_store(words[1] + at, cw);
}
ON_BOTH void make_controls(const vec *c, const maker *m, unsigned depth, uint8_t *const bits[2]) {
    const size_t bytes = control_bytes(depth);
    for (size_t k = 0; k < bytes; k++) {
        const uint8_t byte = (uint8_t)((k < 8 ? m->control[0] : m->control[1]) >> 8 * (k % 8));
        bits[0][bytes * c->i + k] = byte;
        bits[1][bytes * c->i + k] = byte;
    }
}
/* CW(n) for alpha < 2^n; HEAD's terminal bit at alpha. */
ON_BOTH uint64_t make_dpf(const vec *c, unsigned call, unsigned n, uint64_t alpha, const made *to) {
    const unsigned depth = dpf_depth(n);
    maker m = maker_of(c, call);
    for (unsigned l = 0; l < depth; l++)
        make_level(c, &m, l, bit_of(alpha, n - 1 - l), to->words);
    const seed head = mmo(c, 0, m.n[0].s);
    seed fw = seed_xor(head, mmo(c, 0, m.n[1].s));
    const uint64_t at = terminal_at(n, alpha), bit = (uint64_t)1 << (at & 63), high = at >> 6;
    const seed point = {bit & (high - 1), bit & (0 - high)};
    fw = seed_xor(fw, point);
    seed_store(to->last[0] + (size_t)16 * c->i, fw);
    seed_store(to->last[1] + (size_t)16 * c->i, fw);
    make_controls(c, &m, depth, to->bits);
    const seed y = seed_xor(head, seed_if(m.n[0].t, fw));
    return bit_of(choose(high, y.hi, y.lo), (unsigned)(at & 63));
}

/* --- DCF -------------------------------------------------------------------------------------- */

enum { DCF_WORDS_MAX = 4 };

typedef struct dcf {
    levels k;
    const uint8_t *values, *last;
    unsigned w;
} dcf;

ON_BOTH dcf dcf_at(const vec *c, const uint8_t *key, unsigned n, unsigned w) {
    const size_t count = c->b->count;
    dcf f;
    f.w = w;
    f.k.depth = n;
    f.k.words = key;
    f.values = key + 16 * n * count;
    f.last = f.values + 8 * w * n * count;
    f.k.bits = f.last + 8 * w * count;
    return f;
}
ON_BOTH void dcf_values(const vec *c, unsigned side, seed s, unsigned w, uint64_t *v) {
    for (unsigned k = 0; k < w; k += 2) {
        seed x = s;
        x.lo ^= k + 1;
        x = mmo(c, side, x);
        v[k] = x.lo;
        if (k + 1 < w)
            v[k + 1] = x.hi;
    }
}
/* This party's share of beta where x < alpha, x < 2^n. */
ON_BOTH void dcf_eval(const vec *c, const dcf *f, node root, uint64_t x, uint64_t *sum) {
    uint64_t v[DCF_WORDS_MAX];
    node a = root;
    for (unsigned j = 0; j < f->w; j++)
        sum[j] = 0;
    for (unsigned l = 0; l < f->k.depth; l++) {
        const unsigned side = (unsigned)bit_of(x, f->k.depth - 1 - l);
        const uint8_t *vcw = f->values + 8 * f->w * ((size_t)l * c->b->count + c->i);
        dcf_values(c, side, a.s, f->w, v);
        for (unsigned j = 0; j < f->w; j++)
            sum[j] += v[j] + (load64(vcw + 8 * j) & (0 - a.t));
        a = child(c, &f->k, a, l, side);
    }
    dcf_values(c, 0, a.s, f->w, v);
    for (unsigned j = 0; j < f->w; j++) {
        sum[j] += v[j] + (load64(f->last + 8 * ((size_t)f->w * c->i + j)) & (0 - a.t));
        if (is_tail(c))
            sum[j] = 0 - sum[j];
    }
}
ON_BOTH void store_both(uint8_t *const to[2], size_t at, uint64_t x) {
    store64(to[0] + at, x);
    store64(to[1] + at, x);
}
/* DCF(n, w) for alpha and beta to the beginning of both streams. */
ON_BOTH void make_dcf(const vec *c, unsigned call, unsigned n, unsigned w, uint64_t alpha,
                      const uint64_t *beta) {
    const size_t count = c->b->count;
    uint8_t *words[2], *values[2], *last[2], *bits[2];
    uint64_t sum[DCF_WORDS_MAX], v[2][2][DCF_WORDS_MAX];
    for (unsigned p = 0; p < 2; p++) {
        words[p] = c->b->out_bytes[p];
        values[p] = words[p] + 16 * n * count;
        last[p] = values[p] + 8 * w * n * count;
        bits[p] = last[p] + 8 * w * count;
    }
    for (unsigned j = 0; j < w; j++)
        sum[j] = 0;
    maker m = maker_of(c, call);
    for (unsigned l = 0; l < n; l++) {
        const uint64_t a = bit_of(alpha, n - 1 - l), t1 = m.n[1].t;
        for (unsigned p = 0; p < 2; p++)
            for (unsigned d = 0; d < 2; d++)
                dcf_values(c, d, m.n[p].s, w, v[p][d]);
        for (unsigned j = 0; j < w; j++) {
            const uint64_t left = v[0][0][j] - v[1][0][j], right = v[0][1][j] - v[1][1][j];
            const uint64_t keep = choose(a, right, left), lose = choose(a, left, right);
            const uint64_t word = (beta[j] & (0 - a)) - lose - sum[j];
            sum[j] += keep + word;
            store_both(values, 8 * (((size_t)l * count + c->i) * w + j), flip(word, t1));
        }
        make_level(c, &m, l, a, words);
    }
    for (unsigned p = 0; p < 2; p++)
        dcf_values(c, 0, m.n[p].s, w, v[p][0]);
    for (unsigned j = 0; j < w; j++)
        store_both(last, 8 * ((size_t)w * c->i + j),
                   flip(v[1][0][j] - v[0][0][j] - sum[j], m.n[1].t));
    make_controls(c, &m, n, bits);
}

/* --- Neighbours ------------------------------------------------------------------------------- */

/* The lowest bit that is 1, x != 0. */
ON_BOTH unsigned lowest_one(uint32_t x) {
#ifdef __CUDA_ARCH__
    return (unsigned)__ffs((int)x) - 1;
#else
    unsigned n = 0;
    for (; (x >> n & 1) == 0; n++)
        ;
    return n;
#endif
}

enum { LEVELS_MOST = 64 };

/* The last nodes of a DPF, each one number below the one before, mod 2^level, and their values. Of
 * level d there came so many as of the level below come to by halves, so how far up the next one
 * begins depends on how many came alone: lanes whose first ones differ go on side by side. Numbers
 * are public.
 *
 * Nodes are as node_kept() has them, and so are corrections, whose lowest bit is that of the side:
 * one sum corrects both, and the same makes the values of a last node of its final word. What every
 * step needs is here, in registers; what few need is kept apart: of level d the parent of the node
 * that comes next, or the one before, but of the last level, since every other step needs that
 * alone. */
typedef struct descent {
    const uint8_t *words; /* this element's of the first level */
    size_t level_bytes;
    uint64_t control[2]; /* control bits of all levels */
    seed root, last;     /* the final word */
    seed by, parent;     /* of the last level: its correction word; the parent */
    uint64_t first;
    uint32_t came; /* behind the first */
    unsigned level;
} descent;

ON_BOTH descent descent_of(const vec *c, const dpf *f, node root, uint64_t first) {
    const size_t bytes = control_bytes(f->k.depth);
    const uint8_t *bits = f->k.bits + bytes * c->i;
    descent w;
    w.level_bytes = (size_t)16 * c->b->count;
    w.words = f->k.words + (size_t)16 * c->i;
    w.control[0] = w.control[1] = 0;
    for (unsigned k = 0; k < bytes; k++) {
        const uint64_t byte = (uint64_t)bits[k] << 8 * (k % 8);
        w.control[0] |= k < 8 ? byte : 0;
        w.control[1] |= k < 8 ? 0 : byte;
    }
    w.root = w.parent = w.by = node_kept(root);
    w.last = final_word(c, f);
    w.first = first;
    w.came = 0;
    w.level = f->k.depth;
    if (w.level != 0)
        w.by = seed_load(w.words + w.level_bytes * (w.level - 1));
    return w;
}
ON_BOTH unsigned descent_bit(const descent *w, unsigned d) {
    return (unsigned)bit_of(w->first, w->level - d);
}
/* A correction word of level d with the control bit of a side. */
ON_BOTH seed descent_by(const descent *w, seed word, unsigned d, unsigned side) {
    const uint64_t both = (d <= 32 ? w->control[0] : w->control[1]) >> 2 * ((d - 1) % 32);
    word.lo = (word.lo & ~(uint64_t)1) | (both >> side & 1);
    return word;
}
/* What a node gives to that side by a correction. */
ON_BOTH seed descent_step(const vec *c, seed of, unsigned side, seed by) {
    return seed_xor(mmo(c, side, seed_clear(of)), seed_if_low(of, by));
}
/* The values of the first node. */
ON_BOTH seed descend_first(const vec *c, descent *w, seed *above) {
    seed x = w->root;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (unsigned d = 1; d <= w->level; d++) {
        const unsigned side = descent_bit(w, d);
        const seed word = seed_load(w->words + w->level_bytes * (d - 1));
        if (d < w->level)
            above[d] = x;
        w->parent = x;
        x = descent_step(c, x, side, descent_by(w, word, d, side));
    }
    return descent_step(c, x, 0, w->last);
}
/* The values of the next. Of level d, node 2q is a child of node q above it, and node 2q + 1 of q
 * or q + 1. One loop makes nodes and values, so that a kernel has the rounds of AES once here. */
ON_BOTH seed descend(const vec *c, descent *w, seed *above) {
    const uint32_t came = w->came++;
    const unsigned up = came != 0 ? lowest_one(came) : w->level;
    /* where the way down begins: at a child of what is kept there, or at the root */
    bool kept = up < w->level;
    seed x = w->root;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (unsigned d = kept ? w->level - up : 1;; d++) {
        const bool ends = d > w->level;
        seed of = x, by = w->last;
        unsigned side = 0;
        if (!ends) {
            const unsigned bit = descent_bit(w, d);
            seed over;
            if (d == w->level) {
                by = w->by;
                over = w->parent;
                if (!kept)
                    w->parent = x;
            } else {
                by = seed_load(w->words + w->level_bytes * (d - 1));
                over = above[d];
                if (!kept)
                    above[d] = x;
            }
            const bool is_over = kept || bit != 0;
            of.lo = is_over ? over.lo : x.lo;
            of.hi = is_over ? over.hi : x.hi;
            side = kept ? bit : 1 - bit;
            by = descent_by(w, by, d, side);
            kept = false;
        }
        x = descent_step(c, of, side, by);
        if (ends)
            return x;
    }
}

#endif
