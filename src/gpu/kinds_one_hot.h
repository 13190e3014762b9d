/* SPDX-License-Identifier: Apache-2.0 */
/* kinds_one_hot.h - one-hot rows by DPF keys (compute.md, sections 4.5 and 5): an element's key,
 * and a run of columns of an element's row. */
#ifndef UVCCI_GPU_KINDS_ONE_HOT_H
#define UVCCI_GPU_KINDS_ONE_HOT_H

#include "gpu/tree.h"

/* RUN columns are a unit of work: a path down to them, and their subtree. */
enum { ONE_HOT_LEAF = 4, ONE_HOT_RUN = 64, ONE_HOT_DEPTH_MAX = 30 };

ON_BOTH unsigned one_hot_depth(unsigned n) {
    return n > 2 ? n - 2 : 0;
}
ON_BOTH uint32_t one_hot_key_words(unsigned n) {
    const unsigned depth = one_hot_depth(n);
    return 2 * depth + ONE_HOT_LEAF + (depth != 0);
}
ON_BOTH uint32_t one_hot_runs(const vec_task *t) {
    return (t->cols + ONE_HOT_RUN - 1) / ONE_HOT_RUN;
}

ON_BOTH void one_hot_words(const vec *c, seed s, uint64_t v[ONE_HOT_LEAF]) {
    dcf_values(c, 0, s, ONE_HOT_LEAF, v);
}

/* --- ONE_HOT_KEYS ----------------------------------------------------------------------------- */

/* HEAD is to TAIL and OTHER what OTHER is to HEAD and TAIL where it deals. */
ON_BOTH void make_one_hot(const vec *c, uint64_t point, uint64_t *key) {
    const unsigned n = c->t->bits, depth = one_hot_depth(n);
    uint64_t v[2][ONE_HOT_LEAF];
    maker m = maker_of(c, c->t->call);
    for (unsigned l = 0; l < depth; l++) {
        const seed cw = make_node(c, &m, l, bit_of(point, n - 1 - l));
        key[2 * l] = cw.lo;
        key[2 * l + 1] = cw.hi;
    }
    for (unsigned p = 0; p < 2; p++)
        one_hot_words(c, m.n[p].s, v[p]);
    for (unsigned j = 0; j < ONE_HOT_LEAF; j++) {
        const uint64_t other = low(point, n < 2 ? n : 2) ^ j;
        const uint64_t here = ((other | (0 - other)) >> 63) ^ 1;
        key[2 * depth + j] = flip(here - v[0][j] + v[1][j], m.n[1].t);
    }
    if (depth != 0)
        key[2 * depth + ONE_HOT_LEAF] = m.control[0];
}

ON_BOTH void do_one_hot_keys(const vec *c) {
    if (is_head(c)) {
        const uint64_t point = low(in(c, 0), c->t->bits);
        make_one_hot(c, point, c->b->out[0] + (size_t)c->i * one_hot_key_words(c->t->bits));
        out(c, 1, point);
        return;
    }
    for (unsigned j = 0; j < 2; j++)
        c->b->out[0][2 * (size_t)c->i + j] =
            prg_call_at(c, c->t->call, with_head(c), UVCC_TAG_root, 0, 2 * (uint64_t)c->i + j);
}

/* --- ONE_HOT_ROWS ----------------------------------------------------------------------------- */

ON_BOTH node one_hot_child(const vec *c, const uint64_t *key, node a, unsigned level,
                           unsigned side) {
    const uint64_t control = key[2 * one_hot_depth(c->t->bits) + ONE_HOT_LEAF];
    const seed cw = {key[2 * level], key[2 * level + 1]};
    const seed y = mmo(c, side, a.s);
    node below;
    below.s = seed_clear(seed_xor(y, seed_if(a.t, cw)));
    below.t = (y.lo & 1) ^ (a.t & bit_of(control, 2 * level + side));
    return below;
}

/* The words of a leaf, by a path of which the part that the leaf before has too is there. */
ON_BOTH void one_hot_leaf(const vec *c, const uint64_t *key, node *path, uint64_t leaf,
                          unsigned from, uint64_t v[ONE_HOT_LEAF]) {
    const unsigned depth = one_hot_depth(c->t->bits);
    for (unsigned l = from; l < depth; l++)
        path[l + 1] = one_hot_child(c, key, path[l], l, (unsigned)bit_of(leaf, depth - 1 - l));
    one_hot_words(c, path[depth].s, v);
    for (unsigned j = 0; j < ONE_HOT_LEAF; j++) {
        v[j] += key[2 * depth + j] & (0 - path[depth].t);
        v[j] = is_other(c) ? 0 - v[j] : v[j];
    }
}

/* Columns `at` to before `end` of a row, from the first column of the task. */
ON_BOTH void one_hot_shares(const vec *c, uint32_t row, uint32_t at, uint32_t end, uint64_t *to) {
    const unsigned n = c->t->bits, depth = one_hot_depth(n);
    const size_t number = (size_t)row * c->t->step;
    const uint64_t *key = c->b->in[0] + number * one_hot_key_words(n);
    const uint64_t *root = c->b->in[1] + 2 * number;
    node path[ONE_HOT_DEPTH_MAX + 1];
    uint64_t v[ONE_HOT_LEAF], before = 0;
    unsigned from = 0;
    path[0].s.lo = root[0] & ~(uint64_t)1;
    path[0].s.hi = root[1];
    path[0].t = is_other(c) ? 1 : 0;
    while (at < end) {
        const uint64_t x = c->t->constant + at, leaf = x / ONE_HOT_LEAF;
        if (from != 0)
            for (from = depth; (before ^ leaf) >> (depth - from) != 0;)
                from--;
        one_hot_leaf(c, key, path, leaf, from, v);
        for (unsigned j = (unsigned)(x % ONE_HOT_LEAF); j < ONE_HOT_LEAF && at < end; j++)
            to[at++] = v[j];
        before = leaf;
        from = 1;
    }
}

ON_BOTH void do_one_hot_rows(const vec *c) {
    const uint32_t runs = one_hot_runs(c->t), row = c->i / runs, at = c->i % runs * ONE_HOT_RUN;
    const uint32_t end = c->t->cols - at < ONE_HOT_RUN ? c->t->cols : at + ONE_HOT_RUN;
    uint64_t *to = c->b->out[0] + (size_t)row * c->t->cols;
    if (!is_head(c)) {
        one_hot_shares(c, row, at, end, to);
        return;
    }
    const uint64_t point = low(c->b->in[0][(size_t)row * c->t->step], c->t->bits);
    for (uint32_t j = at; j < end; j++) {
        const uint64_t other = point ^ (c->t->constant + j);
        to[j] = ((other | (0 - other)) >> 63) ^ 1;
    }
}

#endif
