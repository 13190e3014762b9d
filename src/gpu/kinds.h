/* SPDX-License-Identifier: Apache-2.0 */
/* kinds.h - all tasks of blocks: what is done for a unit of work, how many units a block has, and
 * where packed results go. A kernel calls these with a kind that is known when it is compiled. */
#ifndef UVCCI_GPU_KINDS_H
#define UVCCI_GPU_KINDS_H

#include "gpu/kinds_bool.h"
#include "gpu/kinds_function.h"
#include "gpu/kinds_one_hot.h"

/* Units of a block: elements, bytes of bits, words of planes, or runs of columns. */
ON_BOTH uint32_t units_of(const vec_task *t, const uvcc_block *b) {
    const uint32_t words = (b->count + 63) / 64;
    switch (t->kind) {
    case UVCC_TASK_BOOL_SHARE:
    case UVCC_TASK_BOOL_JOIN:
        return words * bool_groups(t->bits);
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_RECEIVE:
        return words;
    case UVCC_TASK_OPEN_BITS:
        return (b->count + 7) / 8;
    case UVCC_TASK_ONE_HOT_ROWS:
        return b->count * one_hot_runs(t);
    default:
        return b->count;
    }
}

/* Whether a kind draws pads or walks trees: others need no tables of AES. */
ON_BOTH_CONST bool needs_aes(unsigned kind) {
    switch (kind) {
    case UVCC_TASK_OPEN_FINISH:
    case UVCC_TASK_UNPACK:
    case UVCC_TASK_PACK:
    case UVCC_TASK_OPEN_ALL_FINISH:
    case UVCC_TASK_OPEN_BITS:
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
    case UVCC_TASK_FN_SHIFT:
    case UVCC_TASK_FN_ADD:
    case UVCC_TASK_BOOL_RECEIVE:
        return false;
    default:
        return true;
    }
}

/* Whether a kind's AES blocks are many to an element, as those of trees are. */
ON_BOTH_CONST bool walks_trees(unsigned kind) {
    switch (kind) {
    case UVCC_TASK_LESS_MASK:
    case UVCC_TASK_DEAL:
    case UVCC_TASK_FN_COMPARE:
    case UVCC_TASK_FN_TABLE:
    case UVCC_TASK_FN_MULTISCALE:
    case UVCC_TASK_FN_FLOOR:
    case UVCC_TASK_FN_SPLINE:
    case UVCC_TASK_FN_DEAL_KEY:
    case UVCC_TASK_FN_DEAL_MULTISCALE:
    case UVCC_TASK_FN_DEAL_FLOOR:
    case UVCC_TASK_FN_DEAL_SPLINE:
    case UVCC_TASK_ONE_HOT_KEYS:
    case UVCC_TASK_ONE_HOT_ROWS:
        return true;
    default:
        return false;
    }
}

/* Where the packed results of a block go: of x[0], or x[1]. */
ON_BOTH packing packing_of(const vec *c, unsigned which) {
    const uvcc_block *b = c->b;
    const vec_task *t = c->t;
    const packing none = pack_to(NULL, NULL, 1, false);
    const bool other = is_other(c), head = is_head(c);
    if (t->kind == UVCC_TASK_DEAL) {
        const bool corr = other && t->compact && t->gate != UVCC_GATE_RELU;
        return corr ? pack_to(b->out_bytes[1] + c->block->key[1].corr[which], NULL, t->shift, false)
                    : none;
    }
    if (which != 0)
        return none;
    switch (t->kind) {
    case UVCC_TASK_LESS_MASK:
        return other ? none : pack_to(b->out_bits, b->wire_out[0], 1, false);
    case UVCC_TASK_FN_OPEN_MASK:
        return other ? none : pack_to(b->wire_out[0], NULL, t->fn.bits, false);
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
        return other ? none : pack_to(b->out_bits, NULL, t->fn.bits, false);
    case UVCC_TASK_FN_COMPARE:
        return other ? none : pack_to(b->wire_out[0], NULL, t->fn.word_count, false);
    case UVCC_TASK_SR_OPEN:
        return other ? none : pack_to(b->wire_out[head ? 0 : 1], NULL, t->shift, true);
    case UVCC_TASK_SR_SEND:
        return head    ? pack_to(b->wire_out[0], b->wire_out[1] + behind_words(c), 1, true)
               : other ? pack_to(b->wire_out[0], NULL, t->shift, true)
                       : none;
    case UVCC_TASK_SR2_SEND:
        return pack_to(b->wire_out[0], head ? b->wire_out[1] + behind_words(c) : NULL, t->shift,
                       true);
    default:
        return none;
    }
}
/* Bytes of a packing of so many elements. */
ON_BOTH size_t packing_bytes(const packing *p, uint32_t count) {
    const size_t bits = (size_t)count * p->bits;
    return p->whole_words ? (bits + 63) / 64 * 8 : (bits + 7) / 8;
}
/* What one of 32 lanes stores of packed elements at `to`: whole words of 4 bytes where the message
 * has them, since it may lie in the host's memory, and bytes before and behind them. */
ON_BOTH void pack_lane(uint8_t *to, unsigned n, unsigned bytes, const uint64_t *elems,
                       unsigned lane) {
    const unsigned before = (unsigned)(-(uintptr_t)to & 3), head = before < bytes ? before : bytes;
    const unsigned words = (bytes - head) / 4, rest = bytes - 4 * words;
    for (unsigned j = lane; j < words; j += 32)
        store_word(to + head + 4 * j, packed_bits(elems, n, 8 * (head + 4 * j), 32));
    if (lane < rest) {
        const unsigned j = lane < head ? lane : lane + 4 * words;
        to[j] = (uint8_t)packed_bits(elems, n, 8 * j, 8);
    }
}
/* Of the 32 elements from `first`, which are x: what the message has of them. */
ON_BOTH void pack_part(const packing *p, uint32_t count, uint32_t first, const uint64_t *x,
                       unsigned lane) {
    const size_t at = (size_t)first * p->bits / 8, all = packing_bytes(p, count);
    const size_t left = all > at ? all - at : 0, most = 4 * p->bits;
    for (unsigned k = 0; k < 2; k++)
        if (p->to[k] != NULL)
            pack_lane(p->to[k] + at, p->bits, (unsigned)(left < most ? left : most), x, lane);
}
/* Whether a kind packs at all. */
ON_BOTH_CONST bool packs(unsigned kind) {
    switch (kind) {
    case UVCC_TASK_DEAL:
    case UVCC_TASK_LESS_MASK:
    case UVCC_TASK_FN_OPEN_MASK:
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
    case UVCC_TASK_FN_COMPARE:
    case UVCC_TASK_SR_OPEN:
    case UVCC_TASK_SR_SEND:
    case UVCC_TASK_SR2_SEND:
        return true;
    default:
        return false;
    }
}

/* Whether threads can share an element: its result is what end_of_unit() makes of the sum of their
 * parts. */
ON_BOTH_CONST bool has_parts(unsigned kind) {
    return kind == UVCC_TASK_FN_TABLE || kind == UVCC_TASK_FN_BEST;
}
ON_BOTH uint64_t part_of_unit(unsigned kind, const vec *c) {
    return kind == UVCC_TASK_FN_TABLE ? part_of_fn_table(c) : part_of_fn_best(c);
}
ON_BOTH void end_of_unit(unsigned kind, const vec *c, uint64_t sum) {
    if (kind == UVCC_TASK_FN_TABLE)
        end_fn_table(c, sum);
    else
        end_fn_best(c, sum);
}
/* AES blocks that a thread does one after the other, if so many share an element. */
ON_BOTH uint32_t steps_of_part(const vec_task *t, uint32_t lanes) {
    const uint32_t chunks = (t->fn.entry_count + 127) / 128;
    if (t->kind == UVCC_TASK_FN_TABLE)
        return dpf_depth(t->fn.bits) + 7 * ((chunks + lanes - 1) / lanes) / 2;
    return (2 * CANDIDATES + lanes - 1) / lanes * (ROWS + 1);
}
/* Whether the threads of a window do an element together. */
ON_BOTH_CONST bool has_window(unsigned kind) {
    return kind == UVCC_TASK_FN_MULTISCALE;
}

/* The kinds of functions. Only the case of the kernel's own kind is compiled into it. */
ON_BOTH packed do_unit_function(unsigned kind, const vec *c) {
    packed p = {{0, 0}};
    switch (kind) {
#define PACKED(NAME, function)                                                                     \
    case UVCC_TASK_##NAME:                                                                         \
        function(c, &p);                                                                           \
        break;
#define PLAIN(NAME, function)                                                                      \
    case UVCC_TASK_##NAME:                                                                         \
        function(c);                                                                               \
        break;
        PACKED(FN_OPEN_MASK, do_fn_open_mask)
        PACKED(FN_OPEN_FINISH, do_fn_open_finish)
        PACKED(FN_OPEN_BITS, do_fn_open_bits)
        PACKED(FN_COMPARE, do_fn_compare)
        PLAIN(FN_PADS, do_fn_pads)
        PLAIN(FN_SHIFT, do_fn_shift)
        PLAIN(FN_SELECT, do_fn_select)
        PLAIN(FN_BITS, do_fn_bits)
        PLAIN(FN_SCALAR, do_fn_scalar)
        PLAIN(FN_ADD, do_fn_add)
        PLAIN(FN_MUL, do_fn_mul)
        PLAIN(FN_TRUNC, do_fn_trunc)
        PLAIN(FN_MULTISCALE, do_fn_multiscale)
        PLAIN(FN_FLOOR, do_fn_floor)
        PLAIN(FN_SPLINE, do_fn_spline)
        PLAIN(FN_DEAL_KEY, do_fn_deal_key)
        PLAIN(FN_DEAL_BITS, do_fn_deal_bits)
        PLAIN(FN_DEAL_SELECT, do_fn_deal_select)
        PLAIN(FN_DEAL_SCALAR, do_fn_deal_scalar)
        PLAIN(FN_DEAL_MUL, do_fn_deal_mul)
        PLAIN(FN_DEAL_TRUNC, do_fn_deal_trunc)
        PLAIN(FN_DEAL_BEST, do_fn_deal_best)
        PLAIN(FN_DEAL_MULTISCALE, do_fn_deal_multiscale)
        PLAIN(FN_DEAL_FLOOR, do_fn_deal_floor)
        PLAIN(FN_DEAL_SPLINE, do_fn_deal_spline)
        PLAIN(FN_DEAL_POWERS, do_fn_deal_powers)
    default:
        break;
    }
    return p;
}

/* Does unit c->i of a block of that kind, alone. */
ON_BOTH packed do_unit(unsigned kind, const vec *c) {
    packed p = {{0, 0}};
    switch (kind) {
        PLAIN(INPUT, do_input)
        PLAIN(RANDOM, do_random)
        PLAIN(OPEN4_MASK, do_open4_mask)
        PLAIN(OPEN2_MASK, do_open2_mask)
        PLAIN(OPEN_FINISH, do_open_finish)
        PLAIN(TRUNC, do_trunc)
        PACKED(LESS_MASK, do_less_mask)
        PLAIN(TRUNC_EXACT, do_trunc_exact)
        PLAIN(RELU, do_relu)
        PLAIN(LIFT_MASK, do_lift_mask)
        PLAIN(LIFT_FINISH, do_lift_finish)
        PLAIN(UNPACK, do_unpack)
        PLAIN(PACK, do_pack)
        PLAIN(OPEN_ALL_FINISH, do_open_all_finish)
        PACKED(DEAL, do_deal)
        PLAIN(OPEN_BITS, do_open_bits)
        PACKED(SR_OPEN, do_sr_open)
        PACKED(SR_SEND, do_sr_send)
        PLAIN(SR_FINISH, do_sr_finish)
        PACKED(SR2_SEND, do_sr2_send)
        PLAIN(SR2_FINISH, do_sr2_finish)
        PLAIN(ONE_HOT_KEYS, do_one_hot_keys)
        PLAIN(ONE_HOT_ROWS, do_one_hot_rows)
        PLAIN(BOOL_SHARE, do_bool_share)
        PLAIN(BOOL_JOIN, do_bool_join)
        PLAIN(BOOL_MERGE, do_bool_merge)
        PLAIN(BOOL_RECEIVE, do_bool_receive)
        PLAIN(BOOL_SELECT_MASK, do_bool_select_mask)
        PLAIN(BOOL_SELECT_FINISH, do_bool_select_finish)
    case UVCC_TASK_RESHARE_MASK:
        do_reshare_mask(c, 0);
        break;
    case UVCC_TASK_TRIPLE_C:
        do_reshare_mask(c, 1);
        break;
    case UVCC_TASK_TRIPLE_A:
        do_triple(c, UVCC_TAG_tripleA);
        break;
    case UVCC_TASK_TRIPLE_B:
        do_triple(c, UVCC_TAG_tripleB);
        break;
    default:
        return do_unit_function(kind, c);
    }
    return p;
}
#undef PACKED
#undef PLAIN

/* The kinds above. */
/* clang-format off */
#define UVCCI_GPU_VEC_KINDS(X) \
    X(INPUT) X(OPEN4_MASK) X(OPEN2_MASK) X(OPEN_FINISH) X(TRUNC) X(LESS_MASK) X(TRUNC_EXACT) \
    X(RELU) X(LIFT_MASK) X(LIFT_FINISH) X(RESHARE_MASK) X(UNPACK) X(PACK) X(OPEN_ALL_FINISH) \
    X(DEAL) X(OPEN_BITS) X(FN_OPEN_MASK) X(FN_OPEN_FINISH) X(FN_PADS) X(FN_SHIFT) X(FN_COMPARE) \
    X(FN_OPEN_BITS) X(FN_SELECT) X(FN_BITS) X(FN_TABLE) X(FN_SCALAR) X(FN_ADD) X(FN_DEAL_KEY) \
    X(FN_DEAL_BITS) X(FN_DEAL_SELECT) X(FN_DEAL_SCALAR) X(FN_MUL) X(FN_DEAL_MUL) X(FN_TRUNC) \
    X(FN_DEAL_TRUNC) X(FN_BEST) X(FN_DEAL_BEST) X(FN_MULTISCALE) X(FN_DEAL_MULTISCALE) \
    X(FN_FLOOR) X(FN_DEAL_FLOOR) X(FN_SPLINE) X(FN_DEAL_SPLINE) X(FN_DEAL_POWERS) X(BOOL_SHARE) \
    X(BOOL_JOIN) X(BOOL_MERGE) X(BOOL_RECEIVE) X(BOOL_SELECT_MASK) X(BOOL_SELECT_FINISH) \
    X(TRIPLE_A) X(TRIPLE_B) X(TRIPLE_C) X(RANDOM) X(SR_OPEN) X(SR_SEND) X(SR_FINISH) \
    X(SR2_SEND) X(SR2_FINISH) X(ONE_HOT_KEYS) X(ONE_HOT_ROWS)
/* clang-format on */

#endif
