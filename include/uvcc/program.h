/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/program.h - programs are data: tensors, and per entry a list of ops, inputs and outputs.
 *
 * A program is built once, by the same calls at every party, finished, and loaded into sessions.
 * Its hash (H(program), over the canonical encoding) is compared in HELLO and in every STEP. An
 * *entry* is what one step runs: "train" on a batch, "predict", "reveal". The public shapes in STEP
 * choose the entry: the one whose inputs have exactly those (id, rows, cols).
 *
 * Shapes are rows x cols, row-major; elements are fixed-point integers of `scale` fraction bits,
 * two's complement in 64 bits. `bits` declares a bound: |value| < 2^bits at its scale.
 * uvcc_program_finish checks shapes and bounds (bits(A) + bits(B) + ceil(log2 of what is summed) <=
 * 62 for products) and names the op that breaks one.
 */
#ifndef UVCC_PROGRAM_H
#define UVCC_PROGRAM_H

#include <stdbool.h>
#include <uvcc/function.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_opcode {
#define UVCC_OPCODE(name, code, n_in, n_out, what) UVCC_OP_##name = (code),
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
} uvcc_opcode;
UVCC_API const char *uvcc_opcode_name(uint16_t opcode);

typedef enum uvcc_phase { UVCC_FWD = 0, UVCC_BWD = 1, UVCC_UPD = 2 } uvcc_phase;

typedef enum uvcc_lifetime {
    UVCC_PERSIST = 0,   /**< kept from step to step: weights, masters */
    UVCC_TRANSIENT = 1, /**< lives within one step; its buffer is reused after its last read */
} uvcc_lifetime;

/** How a tensor is shared. An additive tensor z = z_0 + z_1 + z_2 has at party p the one component
 * z_p and no zero share: it is what local products give. It is summed (over microbatches, and over
 * workers of a party), then truncated or reshared; no other op reads it, and none opens it. A
 * public tensor is shared with nobody: each party has its values, in half the memory or less. It is
 * PERSIST, no op writes it, and GEMM_PART and EMBED (their second input) and ROTATE read it. A
 * one-hot tensor has numbers of rows, 0 and up, of `bits` bits, 32 at most, at scale 0. A TRANSIENT
 * one is an input (uvcc_program_input): its owner has them, and each of the two others a DPF key of
 * the one-hot row of each, of some hundred bytes. A PERSIST one is of a client that is no party: it
 * deals each party two keys of each (uvcc_client_deal), which hosts set by uvcc_session_set_shares.
 * EMBED alone reads either. */
typedef enum uvcc_sharing {
    UVCC_REPLICATED = 0,
    UVCC_ADDITIVE = 1,
    UVCC_PUBLIC = 2,
    UVCC_ONE_HOT = 3,
} uvcc_sharing;

#define UVCC_NO_TENSOR UINT32_MAX

typedef struct uvcc_tensor_desc {
    const char *name; /**< unique, 1..63 bytes; copied */
    uint32_t rows, cols;
    uint8_t bits;          /**< 1..63 */
    uint8_t scale;         /**< fraction bits */
    uint8_t lifetime;      /**< uvcc_lifetime */
    uint32_t in_buffer_of; /**< another tensor whose buffer this one uses (a view or an in-place
                                successor), or UVCC_NO_TENSOR */
    uint8_t sharing;       /**< uvcc_sharing; an additive tensor is TRANSIENT */
} uvcc_tensor_desc;

#define UVCC_OP_MAX_IN  6u
#define UVCC_OP_MAX_OUT 4u
enum {
    UVCC_OP_TRANS_A = 1,
    UVCC_OP_TRANS_B = 2,
    UVCC_OP_CIRCUIT = 4, /**< RELU: compare without keys, by a circuit of carries */
    /** GEMM_SS with `heads`: this operand is stacked, not packed. */
    UVCC_OP_STACKED_A = 8,
    UVCC_OP_STACKED_B = 16,
    UVCC_OP_STACKED_C = 32,
    /** GEMM_SS, ELEM_MUL, ROW_MUL, COL_MUL, ROW_DOT: with Beaver triples, one for each tile of the
     * result. Each version of a tensor that such ops read has one mask in a step and is opened
     * under it once, by the first of them. */
    UVCC_OP_BEAVER = 64,
    /** The author knows fewer bits than the inputs' say. ELEM_MUL, ROW_MUL, COL_MUL with a shift:
     * products have `constant` bits at most, 1 to 62. MUL_PART, ROW_SUM, REDUCE_BIAS_GRAD: what
     * comes out has those that the output declares. The reference tests it, a secure run cannot.
     */
    UVCC_OP_WITHIN = 128,
};

/** Truncation of an op: exact (GapARS, floor) or stochastic (GapSR). EXACT_DCF gives what EXACT
 * gives, its bit by a DCF: one round less, more than twice the bytes of keys. Only for ops that
 * truncate. */
typedef enum uvcc_truncation {
    UVCC_TRUNC_EXACT = 0,
    UVCC_TRUNC_STOCHASTIC = 1,
    UVCC_TRUNC_EXACT_DCF = 2
} uvcc_truncation;

/** How a comparison is made: on keys that the third party deals (fewer rounds), or by a circuit on
 * shared bits without keys (far fewer bytes). The same results. */
typedef enum uvcc_compare { UVCC_COMPARE_FSS = 0, UVCC_COMPARE_CIRCUIT = 1 } uvcc_compare;

/** How a product of two secrets is made: natively, or on Beaver triples (UVCC_OP_BEAVER). The same
 * results. */
typedef enum uvcc_products { UVCC_PRODUCTS_NATIVE = 0, UVCC_PRODUCTS_BEAVER = 1 } uvcc_products;

typedef struct uvcc_op_desc {
    const char *name; /**< for errors and logs, may be NULL */
    uint16_t opcode;
    uint8_t phase; /**< uvcc_phase */
    uint16_t k;    /**< 256 * block + index; unique within the entry, phase and mb */
    uint8_t in_count, out_count;
    uint32_t in[UVCC_OP_MAX_IN], out[UVCC_OP_MAX_OUT]; /**< tensor indices */
    uint8_t flags;
    uint8_t shift; /**< truncation or shift, bits. ADD, SUB: the second input counts 2^-shift of
                        its value (a step size); integers are added as they are. SCALE_PUBLIC:
                        fraction bits of the constant; nothing is truncated. RANDOM: bits of
                        each of the three words */
    uint8_t truncation; /**< uvcc_truncation */
    uint8_t lift;       /**< uvcc_lift_kind of <uvcc/compute.h>, 0: parallel */
    uint16_t function;  /**< FUNCTION: index of the function; others: 0 */
    /** SCALE_PUBLIC: the factor, not 0. ROW_DOT: the factor of the whole sum before its truncation,
     * not 0; its fraction bits are out.scale + shift - x.scale - y.scale, in 0..62. ADD_PUBLIC,
     * CAUSAL_MASK: an integer at the tensor's scale. SKS_START: how often the product is checked,
     * of 1000 times. REPEAT_COLS: columns of a block, 1 or more. SLICE_ROWS, PUT_ROWS,
     * ADD_ROWS: the first row of the part in its group. EMBED: the row of the table where a second
     * one begins, for the numbers in a second column. Other opcodes: 0. */
    int64_t constant;
    uint16_t mb;   /**< microbatch: FWD and BWD ops; UPD: a page, which gives k its numbers anew, 0
                        and up as they are needed */
    uint8_t group; /**< collectives: uvcc_group of <uvcc/compute.h>; others: 0 */
    /** GEMM_SS, attention: one product per (group of rows g < row_groups, head h < heads); 0 and 0:
     * one product. A *packed* operand has row_groups * r rows and heads * c columns, its block (g,
     * h) the rows g r.. and columns h c..; a *stacked* one has row_groups * heads * r rows, its
     * block (g, h) the r rows from (g heads + h) r on. TRANS_A and TRANS_B transpose blocks.
     * CAUSAL_MASK, SLICE_ROWS, PUT_ROWS, ADD_ROWS: their tensors are stacked; 0 and 0: of the mask
     * blocks of as many rows as columns, else one block. */
    uint16_t heads;
    uint32_t row_groups;
    /** With the flag BEAVER: rows of the result in a tile, which has a triple of its own; with
     * `heads` a multiple of the rows of a row group. The last tile may have fewer. 0: as many rows
     * (or row groups) as have UVCC_TILE_ELEMS elements, at least one and at least a 64th of all.
     * More than UVCC_TILES_MAX tiles are refused. */
    uint32_t tile_rows;
    /** CAUSAL_MASK: how many elements of a row are kept at most, the last of those that the mask
     * leaves: attention to a window. 0: all of them. Other opcodes: 0. */
    uint32_t window;
} uvcc_op_desc;

#define UVCC_TILE_ELEMS (1u << 20)
#define UVCC_TILES_MAX  64u

#define UVCC_WINDOW_BYTES (1ull << 30)

typedef struct uvcc_program uvcc_program;

UVCC_API int uvcc_program_new(uvcc_program **out, const uvcc_allocator *al) UVCC_MUST_USE;
UVCC_API void uvcc_program_free(uvcc_program *p);
/** Each returns the new index (>= 0) or an error. UVCC_ERR_LIMIT: a program has at most 2^22
 * tensors and 256 entries, an entry 2^22 ops, inputs and outputs, of which 65,535 are inputs. */
UVCC_API int uvcc_program_tensor(uvcc_program *p, const uvcc_tensor_desc *t);
/** Values of a PUBLIC tensor, rows * cols of them, copied: they are part of the program and of its
 * hash, and no host sets them. UVCC_ERR_USAGE: it is not PUBLIC, or has values already;
 * UVCC_ERR_BOUND: outside its bits. */
UVCC_API int uvcc_program_constant(uvcc_program *p, uint32_t tensor, const int64_t *values);
/** A function that ops of any entry may run (opcode FUNCTION); copied with its
 * instructions, entries, words and name (at most 63 bytes). Ops give it tensors of one shape; its
 * scales are the caller's business. UVCC_ERR_LIMIT: more than 256 functions, or an instruction with
 * more entries or words than any may have. */
UVCC_API int uvcc_program_function(uvcc_program *p, const uvcc_function *f);
/** Begins an entry; the ops, inputs and outputs that follow belong to it. */
UVCC_API int uvcc_program_entry(uvcc_program *p, const char *name);
/** An op. Ops of an entry come in ascending (phase, mb, k). */
UVCC_API int uvcc_program_op(uvcc_program *p, const uvcc_op_desc *op);
/** Tensor `tensor`, replicated or one-hot, is given by `owner` (0..2) in each step of the entry,
 * under the public id `id` (unique in the entry). It becomes an op of its own: phase FWD, block
 * 254, in the order of calls. A microbatch has at most 256 of them. */
UVCC_API int uvcc_program_input(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t owner);
/** The same for microbatch `mb`: its op comes right before the microbatch's FWD ops. */
UVCC_API int uvcc_program_input_mb(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t owner,
                                   uint16_t mb);
/** Tensor `tensor` is opened to all at the end of the step, under `id`: phase UPD, block 254;
 * output i of the entry in page i / 256. */
UVCC_API int uvcc_program_output(uvcc_program *p, uint32_t id, uint32_t tensor);
/** The same, but opened to `receiver` (0..2) only: the other two learn nothing of it, and have
 * neither the value nor an OUTPUT event. Phase UPD, block 255, in pages as all outputs. */
UVCC_API int uvcc_program_output_to(uvcc_program *p, uint32_t id, uint32_t tensor,
                                    uint8_t receiver);
/** The open entry is that of stage `stage` of `stages` (1..256) in a pipeline, whose microbatches
 * (1 + the greatest mb of its ops and inputs) run in the 1F1B order with `ahead` more forwards than
 * that needs: their FWD and BWD ops stand in program order in the slots of that order. Without this
 * call: 0 of 1, ahead 0. With BWD ops, at most min(microbatches, stages - 1 - stage + ahead) + 1
 * microbatches are in flight: ops of microbatch m start when all BWD ops of microbatch m minus that
 * number are done. */
UVCC_API int uvcc_program_pipeline(uvcc_program *p, uint32_t stage, uint32_t stages,
                                   uint32_t ahead);
/** The job's replicas R, stages S and tensor ranks T (1..65535, S at most 256; at most 2^31 - 1
 * workers): sizes of the groups of collectives. 1, 1, 1 without this call. */
UVCC_API int uvcc_program_topology(uvcc_program *p, uint32_t replicas, uint32_t stages,
                                   uint32_t tp_ranks);
/** How much may be at work at one time, in bytes (1 or more): ops, or segments of large ones, begin
 * in program order as far as what they take together, of memory and messages, stays below this; the
 * first that is not done always may. Less means less memory and more waiting, never other results.
 * It is part of the program's hash, since what a peer may send ahead depends on it.
 * UVCC_WINDOW_BYTES without this call. Entries with SEND_PP or RECV_PP have no such limit. */
UVCC_API int uvcc_program_window(uvcc_program *p, uint64_t bytes);
/** Checks everything, computes dependencies, versions, liveness and the hash; the program is then
 * immutable and may be shared by sessions of one thread or several. On error `message` (may be
 * NULL) gets one line that names the op or tensor. */
UVCC_API int uvcc_program_finish(uvcc_program *p, char *message, size_t message_cap);

UVCC_API void uvcc_program_hash(const uvcc_program *p, uint8_t out[32]);
UVCC_API uint32_t uvcc_program_tensor_count(const uvcc_program *p);
/** The descriptor, until another tensor is declared (its name lives with the program); NULL if out
 * of range. */
UVCC_API const uvcc_tensor_desc *uvcc_program_tensor_at(const uvcc_program *p, uint32_t i);
/** Words of one of a tensor's components, as uvcc_session_set_shares takes it: rows * cols, or of a
 * one-hot tensor so many keys with their roots (uvcc_client_deal); 0 if out of range. */
UVCC_API uint64_t uvcc_program_share_words(const uvcc_program *p, uint32_t i);
/** Bytes in which a session of a finished program keeps an element of a component of the tensor: 8,
 * or of a PUBLIC one that products alone read and that is no constant 2 where it declares at most
 * 15 bits, 4 where at most 31. 0: there is no such tensor. */
UVCC_API uint32_t uvcc_program_element_bytes(const uvcc_program *p, uint32_t i);
/** Index of a tensor by name, or UVCC_ERR_NOT_FOUND. */
UVCC_API int uvcc_program_find(const uvcc_program *p, const char *name);
/** The program's copy of a function; NULL if out of range. */
UVCC_API const uvcc_function *uvcc_program_function_at(const uvcc_program *p, uint32_t i);
UVCC_API uint32_t uvcc_program_entry_count(const uvcc_program *p);
UVCC_API const char *uvcc_program_entry_name(const uvcc_program *p, uint32_t entry);
UVCC_API int uvcc_program_find_entry(const uvcc_program *p, const char *name);
UVCC_API uint32_t uvcc_program_op_count(const uvcc_program *p, uint32_t entry);
/** Ops in program order, inputs and outputs included: the slots of the pipeline (a microbatch's
 * inputs, then its FWD ops by k; or its BWD ops by k), then the UPD ops, then the outputs. NULL if
 * out of range. */
UVCC_API const uvcc_op_desc *uvcc_program_op_at(const uvcc_program *p, uint32_t entry, uint32_t i);

/** An input or output of an entry. */
enum { UVCC_TO_ALL = 255 };
typedef struct uvcc_io_desc {
    uint32_t id, tensor;
    uint8_t owner;    /**< inputs */
    uint8_t receiver; /**< outputs: the one party that it opens to, or UVCC_TO_ALL; inputs: 0 */
    uint16_t mb;      /**< inputs: their microbatch */
} uvcc_io_desc;
UVCC_API uint32_t uvcc_program_input_count(const uvcc_program *p, uint32_t entry);
UVCC_API const uvcc_io_desc *uvcc_program_input_at(const uvcc_program *p, uint32_t entry,
                                                   uint32_t i);
UVCC_API uint32_t uvcc_program_output_count(const uvcc_program *p, uint32_t entry);
UVCC_API const uvcc_io_desc *uvcc_program_output_at(const uvcc_program *p, uint32_t entry,
                                                    uint32_t i);

/** Lifetime of a buffer within an entry: ops (indices as in uvcc_program_op_at) of its first write
 * and last read; UINT32_MAX where there is none. `buffer` is a tensor that owns its buffer. */
typedef struct uvcc_buffer_life {
    uint32_t first_write, last_read;
    uint32_t reads; /**< ops that read it or a tensor in it, each counted once */
} uvcc_buffer_life;
UVCC_API int uvcc_program_life(const uvcc_program *p, uint32_t entry, uint32_t buffer,
                               uvcc_buffer_life *out);
/** The ops that may start only when op `i` is done: those that read what it writes, and those that
 * overwrite what it reads or wrote. Their indices (as in uvcc_program_op_at) go into out, at most
 * `cap`; returns their number, or UVCC_ERR_USAGE. */
UVCC_API int uvcc_program_followers(const uvcc_program *p, uint32_t entry, uint32_t i,
                                    uint32_t *out, uint32_t cap);

/** Bytes of TRANSIENT buffers that a step of the entry can need at one time at one party, in
 * whatever order its dependencies and the limit of microbatches in flight let ops run: an upper
 * bound of uvcc_session_stats.transient_peak_bytes. Working memory of ops is not in it. Allocates
 * while it runs, some hundred bytes for each op. */
UVCC_API int uvcc_program_memory(const uvcc_program *p, uint32_t entry, uint64_t *bytes);

/** What an op costs in one step, over all three parties, counted from the flows of its protocols
 * (docs/protocols.md): payloads without the headers of frames and TLVs, and without the digests of
 * openings. Of an SKS_GEMM_CHECK: if its product is selected. */
typedef struct uvcc_op_cost {
    uint32_t rounds;
    uint32_t messages; /**< at most: which parties send depends on the step's ids */
    uint64_t online_bytes;
    uint64_t preprocessing_bytes; /**< keys, and C of a triple (none is sent if the host has it) */
} uvcc_op_cost;
/** The cost of op `op` (as in uvcc_program_op_at); all 0 for local ops. Allocates while it runs.
 * UVCC_ERR_PROGRAM: an op that no session would load. */
UVCC_API int uvcc_program_cost(const uvcc_program *p, uint32_t entry, uint32_t op,
                               uvcc_op_cost *out);
/** Rounds of the longest chain of dependent ops of an entry: what a step adds to
 * uvcc_session_stats.rounds. counted[i] (NULL: all): whether the rounds of op i count. Allocates
 * while it runs. Errors as above. */
UVCC_API int uvcc_program_rounds(const uvcc_program *p, uint32_t entry, const bool *counted,
                                 uint32_t *rounds);

/* ---- the plaintext twin ---- */

/** Runs the same program tables in plaintext fixed point: the definition of what a secure run must
 * give with exact truncation, bit for bit (stochastic truncations run as exact ones here). It fails
 * (UVCC_ERR_BOUND) on a value outside its declared bound and names the tensor. */
typedef struct uvcc_reference uvcc_reference;
UVCC_API int uvcc_reference_new(uvcc_reference **out, const uvcc_program *p,
                                const uvcc_allocator *al) UVCC_MUST_USE;
UVCC_API void uvcc_reference_free(uvcc_reference *r);
/** Sets / reads a tensor (rows * cols elements). PERSIST tensors start as zeros. Every tensor can
 * be read after a step, in-place predecessors too. set: UVCC_ERR_BOUND outside the declared bits.
 */
UVCC_API int uvcc_reference_set(uvcc_reference *r, uint32_t tensor, const int64_t *v);
UVCC_API const int64_t *uvcc_reference_get(const uvcc_reference *r, uint32_t tensor);
/** Runs one entry; its inputs must have been set (else UVCC_ERR_STATE). message as in
 * uvcc_program_finish. A failed step leaves the tensors as far as it came. An entry with
 * collectives needs the other workers (UVCC_ERR_USAGE), unless the job has one. */
UVCC_API int uvcc_reference_step(uvcc_reference *r, uint32_t entry, char *message,
                                 size_t message_cap);
/** The same for all workers of a job together: workers[i] runs its own program as local rank i =
 * (r S + s) T + t, count = R S T of every program's topology. An op with a collective runs when all
 * its members are at theirs. UVCC_ERR_STATE if workers wait for one another for ever or disagree on
 * a collective. */
UVCC_API int uvcc_reference_step_group(uvcc_reference *const *workers, uint32_t count,
                                       uint32_t entry, char *message, size_t message_cap);

#ifdef __cplusplus
}
#endif
#endif
