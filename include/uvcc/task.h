/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/task.h - compute tasks: what a session asks an executor to compute.
 *
 * This header has their operands. What each kind computes, to the bit, is defined in compute.md, a
 * section for each: PRG words, keys, message bytes, what may be in place, errors. Whoever
 * implements tasks is held to that document, and to the golden vectors that `uvcc selftest` runs.
 *
 * Memory: pointers are addresses in the place where the session's allocator put them. TENSOR memory
 * is touched by tasks only (never by the session), WIRE and STATE memory is host memory that the
 * executor may read and write until the job's completion is handed in. Keys and shares pass
 * through: an executor keeps no copy.
 *
 * Notation: party p holds components p ("lo") and p+1 ("hi") of every RSS value. On an edge, HEAD
 * holds (a, b) = (lo, hi), TAIL (b, c), OTHER (c, a). Pair keys: NEXT is shared with party p+1,
 * PREV with p-1. So HEAD has HT = NEXT, HO = PREV; TAIL has TO = NEXT, HT = PREV; OTHER has HO =
 * NEXT, TO = PREV.
 */
#ifndef UVCC_TASK_H
#define UVCC_TASK_H

#include <stdbool.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_prg_tag {
#define UVCCI_TAG(name) UVCC_TAG_##name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    UVCC_TAG_COUNT
} uvcc_prg_tag;
enum { UVCC_PAIR_NEXT = 0, UVCC_PAIR_PREV = 1, UVCC_PAIR_OWN = 2 };

/** AES-128 keys of one step. Stable while any job that names it is out. */
typedef struct uvcc_step_keys {
    uint8_t prg[3][UVCC_TAG_COUNT][16]; /**< [pair][tag] */
    uint8_t dpf[2][16];                 /**< fixed keys of the DPF's node PRG: left, right */
} uvcc_step_keys;

typedef enum uvcc_role { UVCC_HEAD = 0, UVCC_TAIL = 1, UVCC_OTHER = 2 } uvcc_role;

/** Workers of one party that act together (parallel.md): the tensor ranks of a stage of a replica,
 * the stages of one (replica, rank), the replicas of one (stage, rank), and all workers of a stage.
 * Members are ordered by local rank. */
typedef enum uvcc_group {
    UVCC_GROUP_TP = 0,
    UVCC_GROUP_PP = 1,
    UVCC_GROUP_DP = 2,
    UVCC_GROUP_STAGE = 3,
} uvcc_group;

/** What a task does: tasks.def lists the kinds, compute.md defines each. Arithmetic is mod 2^64. */
typedef enum uvcc_task_kind {
#define UVCC_TASK(name, number, form, roles, what) UVCC_TASK_##name = (number),
#include <uvcc/tasks.def>
#undef UVCC_TASK
    UVCC_TASK_KIND_END
} uvcc_task_kind;

/** What a collective does with tensors of shares, component by component. The members of a group
 * stand in the order of their local ranks. */
typedef enum uvcc_collective_op {
    UVCC_COLLECTIVE_SEND = 1, /**< `in` goes to the next stage (FWD) or the one before (BWD) */
    UVCC_COLLECTIVE_RECV =
        2, /**< `out` = what the stage before (FWD) or the next one (BWD) sends */
    /** out = the i-th of the slices, at member i, of the sum of all members' `in` mod 2^64. */
    UVCC_COLLECTIVE_REDUCE_SCATTER = 3,
    UVCC_COLLECTIVE_ALL_GATHER = 4, /**< out = all members' `in`, one behind the other */
} uvcc_collective_op;

typedef enum uvcc_lift_kind {
    UVCC_LIFT_PARALLEL = 0,
    UVCC_LIFT_SEQUENTIAL = 1,
    UVCC_LIFT_EXCHANGE = 2,
} uvcc_lift_kind;

/** What BOOL_SELECT makes, one or both. */
enum { UVCC_BOOL_BIT = 1 /**< d */, UVCC_BOOL_PRODUCT = 2 /**< d x */ };

/** Gates whose keys OTHER deals; compute.md has their key streams. */
typedef enum uvcc_gate {
    UVCC_GATE_NONE = 0,
    UVCC_GATE_TRUNC_SR = 1,
    UVCC_GATE_TRUNC_ARS = 2,
    UVCC_GATE_RELU = 3,
    UVCC_GATE_FUNCTION = 4, /**< of a FUNCTION op; its tasks say what is in it */
    UVCC_GATE_TRUNC_DCF = 5,
} uvcc_gate;

/** Offsets in the key stream of one block for one receiver; UINT32_MAX where a section is absent.
 */
typedef struct uvcc_key_layout {
    uint32_t levels, terminals, bits; /**< sections of CW */
    uint32_t words[3];                /**< TRUNC: rho, w_0, w_1; RELU: k, kr, - */
    uint32_t corr[2];
    uint32_t dcf; /**< TRUNC_DCF: the whole DCF key, first of all */
    uint32_t total_bytes;
} uvcc_key_layout;
/** role HEAD or TAIL. n: comparison bits (TRUNC_ARS, TRUNC_DCF: f). */
UVCC_API void uvcc_key_layout_of(uvcc_gate gate, bool compact, unsigned shift, unsigned bits,
                                 uint32_t count, uvcc_role role, uvcc_key_layout *out);

/** One block of a vector at this party. Unused members are NULL. */
typedef struct uvcc_block {
    uint32_t block;        /**< block index: the PRG position */
    uint32_t count;        /**< 1..UVCC_BLOCK_ELEMS */
    uint8_t role;          /**< this party's role on the block's edge (or in the protocol) */
    const uint64_t *in[4]; /**< words, `count` of them if compute.md does not say else */
    uint64_t *out[2];
    const uint8_t *in_bits; /**< packed bits that LESS_MASK gave */
    uint8_t *out_bits;
    const uint8_t *wire_in[2]; /**< in a received message; any alignment */
    uint8_t *wire_out[2];      /**< in a message to send; any alignment */
    const uint8_t *key;        /**< this party's contiguous key stream of the block */
    uint8_t *out_bytes[2];     /**< DEAL: key streams of HEAD and TAIL; FN: may be one place */
    const uint8_t *words[2];   /**< FN: TAIL's word sections; NULL at HEAD */
    uint8_t *out_words;        /**< FN: a word section of TAIL, dealt */
} uvcc_block;

/** What tasks of functions need beside their blocks. */
typedef struct uvcc_fn_args {
    uint8_t bits, shift;
    bool exchange, times, by_table;
    uint16_t call_key,
        call_bits; /**< calls of the instruction that owns the key, of the one that owns k */
    int64_t first, constant;
    uint32_t entry_count, word_count;
    const int32_t *entries;
    const int64_t *words;
} uvcc_fn_args;

/** What a MAP task makes: maps.def lists the operations. */
typedef enum uvcc_map_op {
#define UVCC_MAP(name, number, form, what) UVCC_MAP_##name = (number),
#include <uvcc/maps.def>
#undef UVCC_MAP
    UVCC_MAP_OP_END
} uvcc_map_op;

/** An RSS tensor's two components, contiguous row-major. In a map, `hi` may be NULL in x, y and out
 * together: then only `lo` is worked on (3-additive values). */
typedef struct uvcc_shares {
    uint64_t *lo, *hi;
} uvcc_shares;

/** Where the blocks of a matrix stand: rows `ld` words apart, group after group and head after head
 * `group` and `head` words apart. */
typedef struct uvcc_gemm_layout {
    uint64_t ld, group, head;
} uvcc_gemm_layout;

typedef enum uvcc_hash_mode {
    UVCC_HASH_PLAIN = 0, /**< H(prefix || data) */
    UVCC_HASH_HMAC = 1,  /**< HMAC(key, prefix || T(data)), T of wire.md 8 */
    UVCC_HASH_TREE = 2,  /**< H(prefix || T(data)) */
} uvcc_hash_mode;
typedef struct uvcc_hash_item {
    uint8_t prefix[32];
    uint8_t prefix_len;
    uint8_t mode;
    bool stays; /**< what tasks of later jobs read of data as wire_in is what is hashed here, until
                     some of it is hashed anew or its memory goes back: an executor may keep a copy
                 */
    uint8_t key[32];
    const uint8_t *data;
    size_t len;
    uint8_t *out; /**< 32 bytes of host memory */
} uvcc_hash_item;

typedef struct uvcc_copy_item {
    uint8_t *dst;
    const uint8_t *src;
    size_t len;
} uvcc_copy_item;

typedef struct uvcc_task {
    uint16_t kind; /**< uvcc_task_kind */
    uint32_t ordinal;
    uint16_t call;
    const uvcc_step_keys *keys; /**< B only */
    union {
        struct {
            const uvcc_block *blocks;
            uint32_t count;
            uint8_t shift, bits, lift, gate;
            bool compact;
            uint8_t gap;            /**< BOOL: bytes between the pieces of a message */
            uint64_t constant;      /**< ONE_HOT_ROWS: the first column */
            uint32_t cols, step;    /**< ONE_HOT_ROWS: so many columns, of every step-th key */
            const uvcc_fn_args *fn; /**< FN tasks */
        } vec;
        struct {
            uint8_t op, shift, party;
            uint32_t rows, cols;
            /** Rows of a block: CAUSAL (0: cols), SLICE_ROWS, PUT_ROWS, ADD_ROWS; of these three,
             * rows of a part of it too. CAUSAL: part is the window, 0: none. ROTATE: rows and
             * columns of y, which is public: y.lo alone. */
            uint32_t block, part;
            uvcc_shares x, y, out;
            uint64_t constant; /**< SCALE, ADD_PUBLIC, CAUSAL, DOT_ROWS; SLICE_ROWS, PUT_ROWS,
                                    ADD_ROWS: the first row of a part */
        } map;
        struct {
            uint32_t m, n, k; /**< op(x) is m x k, op(y) is k x n: of a block */
            bool trans_x, trans_y, accumulate;
            /** Of a public y, y.hi NULL: 2 or 4, y.lo points at signed integers of so many bytes,
             * at a multiple of as many; 0: at words. */
            uint8_t y_bytes;
            /** y.hi NULL: y.lo is public, and z = x.lo y.lo; x.hi is not read, unless there is
             * z_hi. x.hi NULL: z = x.lo (y.lo + y.hi). */
            uint32_t groups, heads; /**< 0 and 0: one product, rows without gaps, layouts unused */
            uvcc_shares x, y;
            uint64_t *z;
            uint64_t *z_hi; /**< NULL, or of a public y the second product, z_hi = x.hi y.lo */
            uvcc_gemm_layout lx, ly, lz;
        } gemm;
        struct {
            uint32_t rows, cols;
            bool trans;
            uint8_t lane, key[16];
            uvcc_shares x, out;
        } bits;
        struct {
            const uvcc_hash_item *items;
            uint32_t count;
        } hash;
        struct {
            const uvcc_copy_item *items;
            uint32_t count;
        } copy;
        struct {
            uint8_t op;    /**< uvcc_collective_op */
            uint8_t group; /**< uvcc_group; SEND, RECV: UVCC_GROUP_PP */
            uint8_t phase; /**< uvcc_phase */
            uint16_t mb, k;
            uint32_t step;
            uint64_t elems;      /**< of `in` (REDUCE_SCATTER, SEND) or of `out` */
            uvcc_shares in, out; /**< hi NULL: one component only (additive) */
        } collective;
    } u;
} uvcc_task;

#ifdef __cplusplus
}
#endif
#endif
