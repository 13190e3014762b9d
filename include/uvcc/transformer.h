/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/transformer.h - a byte-level transformer language model as programs, one per worker.
 *
 * The model: token and position embeddings, `layers` blocks of causal attention and an MLP with
 * residuals around both and norms before them, a norm, an output projection, and the cross entropy
 * of the next byte. docs/transformer.md says what is computed, to the bit. A party's worker
 * (replica r, stage s, tensor rank t) runs one program; the three workers of equal coordinates form
 * a triangle. With exact truncation and exact functions the weights are the same for every
 * (replicas, stages, tensor_ranks, microbatches).
 *
 * A host builds its worker's program, sets the PERSIST tensors of uvcc_transformer_state (public
 * initial values) once, and before each "train" step the tensor "rate" (1 x 1,
 * uvcc_transformer_rate).
 * Entries:
 *  - "train": inputs IN_TOKENS + m (first stage) and IN_TARGETS + m (last stage) for microbatch m,
 *    rows of one-hot vectors of 0 and 1 (uvcc_transformer_one_hot), from `text_owner`; with `loss`
 *    the output OUT_LOSS of the last stage. All outputs but those of "reveal" open to `text_owner`
 *    only: initial weights are public, and a loss tells whoever sees it about the text.
 *  - "logits": IN_WINDOW (first stage), `windows` sequences; OUT_LOGITS (last stage).
 *  - "eval": IN_EVAL_TOKENS, IN_EVAL_TARGETS, `windows` sequences; OUT_EVAL_LOSS, as OUT_LOSS.
 *  - "next": IN_PROMPT (first stage), as IN_WINDOW; and two public PERSIST tensors of the last
 *    stage: "select" (windows x windows * context, 0 and 1), which picks a row for each window, and
 *    "temperature" (1 x 1 at scale f, 0 <= value < 16). Opens as OUT_NEXT (windows x 1, last stage,
 *    tensor rank 0) the place of the greatest sum, there, of logit and Gumbel noise times the
 *    temperature, nothing else. The parties draw the noise jointly: nobody knows or chooses it.
 *  - "reveal": OUT_WEIGHT + i, this worker's part of global weight i, for every i that it has.
 *
 * Workers of a party hold different rows of an input: uvcc_transformer_rows says which.
 */
#ifndef UVCC_TRANSFORMER_H
#define UVCC_TRANSFORMER_H

#include <uvcc/program.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_TRANSFORMER_VOCAB      256u
#define UVCC_TRANSFORMER_MAX_LAYERS 200u
/** Scale of OUT_LOSS: a loss is a sum over tokens of nats, with so many fraction bits. */
#define UVCC_TRANSFORMER_LOSS_BITS 8u
/** Scale of the tensor "rate". */
#define UVCC_TRANSFORMER_RATE_BITS 24u

typedef enum uvcc_transformer_block {
    UVCC_BLOCK_GELU = 0,   /**< GeLU MLP, biases; RMS norms unless `norm` says else */
    UVCC_BLOCK_SWIGLU = 1, /**< W_down (silu(x W_gate) * x W_up), no biases; RMS norms */
    UVCC_BLOCK_GPT2 = 2,   /**< GeLU by tanh, biases; layer norms */
} uvcc_transformer_block;

typedef enum uvcc_transformer_norm {
    UVCC_NORM_OF_BLOCK = 0,
    UVCC_NORM_RMS = 1,
    UVCC_NORM_LAYER = 2,
} uvcc_transformer_norm;

typedef enum uvcc_optimizer {
    UVCC_OPTIMIZER_SGD = 0,
    UVCC_OPTIMIZER_MOMENTUM = 1,  /**< v = (1 - 2^-momentum_shift) v + g; w -= rate v */
    UVCC_OPTIMIZER_ADAMW = 2,     /**< decays 1 - 2^-momentum_shift and 1 - 2^-variance_shift */
    UVCC_OPTIMIZER_ADAM_MINI = 3, /**< ADAMW with one second moment for each block of weights (Zhang
                                     et al. 2024, arXiv:2406.16793): uvcc_transformer_blocks. A
                                     twentieth of ADAMW's bytes. The norm of the whole mean gradient
                                     must stay below 64 */
} uvcc_optimizer;

/** Begin with uvcc_transformer_default. Powers of two: context, batch, microbatches, replicas,
 * tensor_ranks. */
typedef struct uvcc_transformer_config {
    size_t size; /**< sizeof(uvcc_transformer_config) */

    uint32_t context;    /**< tokens of a sequence */
    uint32_t dim, heads; /**< heads divides dim, tensor_ranks divides heads */
    uint32_t layers;
    uint32_t hidden;     /**< units of the MLP; 0: 4 dim (SWIGLU: 8/3 dim, rounded up to 8) */
    uint8_t block, norm; /**< uvcc_transformer_block, uvcc_transformer_norm */

    uint32_t batch;        /**< sequences of a step, all replicas together */
    uint32_t microbatches; /**< each of batch / (replicas * microbatches) sequences; that is a
                              multiple of tensor_ranks */
    uint32_t replicas, stages, tensor_ranks; /**< stages divides layers */
    uint32_t ahead;                          /**< as in uvcc_program_pipeline */
    uint32_t windows; /**< sequences of "logits", "eval" and "next", a multiple of tensor_ranks; 0:
                         no such entries */

    uint8_t optimizer;                      /**< uvcc_optimizer */
    uint8_t momentum_shift, variance_shift; /**< 1..8; 0: 2 and 4 */
    double learning_rate; /**< the greatest of the schedule, below 4. Gradients are of the mean loss
                               per token */
    uint32_t warmup, steps; /**< rises linearly over `warmup` steps, then falls linearly to
                               `final_rate` times the greatest at step `steps` (0: stays) */
    double final_rate;      /**< 0 to 1 */
    double weight_decay;    /**< of matrices, decoupled: w -= rate weight_decay w; 0: none */
    double epsilon; /**< ADAMW, ADAM_MINI: w -= rate m / sqrt(v + epsilon^2); a power of two, 2^-17
                         (ADAM_MINI 2^-16) to 2^-6; 0: 2^-14 */
    double clip;    /**< each element of the mean gradient is clipped to [-clip, clip], 2^-12 to 32;
                         0: not. ADAMW: above 0, at most 1024 epsilon. ADAM_MINI: the whole gradient
                         is scaled down to this norm where it has a greater one, over all weights of
                         all workers; 2^-5 to 4, at most 1024 epsilon sqrt(dim); 0: not */

    uint8_t frac_bits;  /**< f: 16 */
    uint8_t value_bits; /**< |activation| < 2^value_bits; 0: 7 */
    uint8_t
        gradient_bits; /**< |gradient of a token's loss by an activation| < 2^gradient_bits; 0: 6 */
    uint8_t weight_bits; /**< |weight| < 2^weight_bits; 0: 4 */
    uint8_t truncation;  /**< uvcc_truncation, of products */
    uint8_t lift;        /**< uvcc_lift_kind */
    uint8_t exact;       /**< 1: functions take exact indices; 0: fast */
    uint8_t products;    /**< uvcc_products */
    uint8_t text_owner;  /**< party that gives tokens and targets, and to which losses, logits
                              and sampled bytes open */
    uint8_t loss;        /**< 1: "train" opens the loss of its batch */
    uint8_t recompute;   /**< 1: a block keeps its input and its attention's output for the backward
                              pass, up to a context of 4 head_dim its probabilities too, and
                              computes the rest again: less memory, more work, and in contexts from
                              2048 on more rounds. 0: it keeps all that is read again */
    uint16_t sks;        /**< of 1000 matrix products (attention's excepted) so many are checked for
                              integrity, chosen by coins (SKS_START): products are kept whole for
                              it, which costs a resharing each; 0: none */
    uint32_t window_mib; /**< the program's window (uvcc_program_window), in MiB, at most 2^20: less
                              means less memory and more waiting. 0: UVCC_WINDOW_BYTES. Programs of
                              several stages have none */
} uvcc_transformer_config;

/** A worker of a party. */
typedef struct uvcc_transformer_worker {
    uint32_t replica, stage, tensor_rank;
} uvcc_transformer_worker;

enum {
    UVCC_TRANSFORMER_IN_TOKENS = 0x1000,  /* + microbatch */
    UVCC_TRANSFORMER_IN_TARGETS = 0x2000, /* + microbatch */
    UVCC_TRANSFORMER_IN_WINDOW = 1,
    UVCC_TRANSFORMER_IN_EVAL_TOKENS = 2,
    UVCC_TRANSFORMER_IN_EVAL_TARGETS = 3,
    UVCC_TRANSFORMER_IN_PROMPT = 4,
    UVCC_TRANSFORMER_OUT_LOSS = 1,
    UVCC_TRANSFORMER_OUT_EVAL_LOSS = 2,
    UVCC_TRANSFORMER_OUT_LOGITS = 3,
    UVCC_TRANSFORMER_OUT_NEXT = 4,
    UVCC_TRANSFORMER_OUT_WEIGHT = 0x100, /* + global weight */
};

/** A small model that learns quickly, on one worker. cfg_size = sizeof *cfg of the caller's header.
 */
UVCC_API int uvcc_transformer_default(uvcc_transformer_config *cfg, size_t cfg_size);
/** 0, or UVCC_ERR_CONFIG or UVCC_ERR_BOUND and one line in message that names the option. */
UVCC_API int uvcc_transformer_check(const uvcc_transformer_config *cfg, char *message,
                                    size_t message_cap);
/** Builds and finishes the program of a worker. */
UVCC_API int uvcc_transformer_program(uvcc_program **out, const uvcc_transformer_config *cfg,
                                      const uvcc_transformer_worker *worker,
                                      const uvcc_allocator *al, char *message,
                                      size_t message_cap) UVCC_MUST_USE;

/* The calls below take a config that passed uvcc_transformer_check. */

/** Value of the tensor "rate" in step `step` (from 0). */
UVCC_API int64_t uvcc_transformer_rate(const uvcc_transformer_config *cfg, uint32_t step);

#define UVCC_TRANSFORMER_SECTION_BYTES 48u
/** The part of the model that an op of a program's entry works on, for reports: "inputs",
 * "embedding forward", "layer 0 forward" and so on, "output forward", the same with "backward",
 * "update", "opening", or "between stages". */
UVCC_API void uvcc_transformer_section(const uvcc_transformer_config *cfg, const uvcc_op_desc *op,
                                       char out[UVCC_TRANSFORMER_SECTION_BYTES]);

/* ---- rows ---- */

/** Rows first..first + count - 1 of an input, of all those of the step's batch, in the order
 * [sequence][position]: what worker `w` is given as IN_TOKENS + mb or IN_TARGETS + mb. Sequences
 * r batch / R.. belong to replica r, microbatches and ranks cut them on in order. */
UVCC_API void uvcc_transformer_rows(const uvcc_transformer_config *cfg,
                                    const uvcc_transformer_worker *w, uint32_t mb, uint32_t *first,
                                    uint32_t *count);
/** The same for IN_WINDOW, IN_PROMPT, IN_EVAL_TOKENS, IN_EVAL_TARGETS, of windows * context rows;
 * every replica has the same. OUT_LOGITS has all of them, at every worker of the last stage. */
UVCC_API void uvcc_transformer_window_rows(const uvcc_transformer_config *cfg,
                                           const uvcc_transformer_worker *w, uint32_t *first,
                                           uint32_t *count);
/** rows x 256 values, 1 where column = byte, else 0. */
UVCC_API void uvcc_transformer_one_hot(const uint8_t *bytes, uint32_t rows, int64_t *out);
/** Where sequence i (< batch) of step `step` begins in a text of `bytes` bytes (more than context):
 * its tokens are context bytes from there on, its targets those one further. Public. */
UVCC_API uint64_t uvcc_transformer_sequence(const uvcc_transformer_config *cfg, uint64_t seed,
                                            uint32_t step, uint32_t i, uint64_t bytes);

/* ---- weights ---- */

/** How tensor ranks cut a weight. */
typedef enum uvcc_transformer_cut {
    UVCC_CUT_NONE = 0, /**< all have all of it */
    UVCC_CUT_COLS = 1, /**< rank t has the columns t cols / T.. */
    UVCC_CUT_ROWS = 2,
} uvcc_transformer_cut;

/** Which weights have one second moment with ADAM_MINI. */
typedef enum uvcc_transformer_blocks {
    UVCC_BLOCKS_WHOLE = 0, /**< all of it: gains, shifts, biases */
    UVCC_BLOCKS_ROWS = 1,  /**< those of a row: of a token or position, E and P */
    UVCC_BLOCKS_COLS = 2,  /**< those of a column: what makes one output; of WL, a byte's logit */
    UVCC_BLOCKS_HEADS = 3, /**< dim / heads columns, a head's: WQ, WK */
} uvcc_transformer_blocks;

/** A weight of the whole model; the order of the list is the global order. */
typedef struct uvcc_transformer_weight {
    char name[32]; /**< of the tensor of forward weights in every program that has it: "E", "L0.WQ"
                    */
    uint32_t rows, cols;
    uint32_t stage; /**< the one that has it */
    uint8_t cut;    /**< uvcc_transformer_cut */
    bool decays;    /**< weight_decay applies */
    uint8_t blocks; /**< uvcc_transformer_blocks */
} uvcc_transformer_weight;

UVCC_API uint32_t uvcc_transformer_weight_count(const uvcc_transformer_config *cfg);
/** UVCC_ERR_NOT_FOUND if there is no weight i. */
UVCC_API int uvcc_transformer_weight_at(const uvcc_transformer_config *cfg, uint32_t i,
                                        uvcc_transformer_weight *out);
/** What worker w has of weight i: rows x cols from (row, col) on. */
typedef struct uvcc_transformer_part {
    uint32_t row, col, rows, cols;
} uvcc_transformer_part;
/** false if it has nothing of it. */
UVCC_API bool uvcc_transformer_part_of(const uvcc_transformer_config *cfg,
                                       const uvcc_transformer_worker *w, uint32_t i,
                                       uvcc_transformer_part *out);
/** Copies a worker's part of weight i out of the whole, or into it (what "reveal" gives). */
UVCC_API void uvcc_transformer_take(const uvcc_transformer_config *cfg,
                                    const uvcc_transformer_worker *w, uint32_t i,
                                    const int64_t *whole, int64_t *part);
UVCC_API void uvcc_transformer_put(const uvcc_transformer_config *cfg,
                                   const uvcc_transformer_worker *w, uint32_t i,
                                   const int64_t *part, int64_t *whole);
/** Whole weight i (rows * cols values, scale f) from the seed. */
UVCC_API void uvcc_transformer_initial(const uvcc_transformer_config *cfg, uint64_t seed,
                                       uint32_t i, int64_t *out);
/** Elements of all weights. */
UVCC_API uint64_t uvcc_transformer_parameters(const uvcc_transformer_config *cfg);
/** weights_sha256: SHA-256 of all weights in global order, row-major, each value an LE64.
 * `weights`: one after the other, uvcc_transformer_parameters values. */
UVCC_API void uvcc_transformer_weights_hash(const uvcc_transformer_config *cfg,
                                            const int64_t *weights, uint8_t out[32]);

/** PERSIST tensors to set before the first step: for i = 0, 1, ... the tensor (a forward weight,
 * its master, the next weight, ...) and its values, from whole weights one after the other as
 * above. `values` (may be NULL) has room for the largest weight. UVCC_ERR_NOT_FOUND: there is no
 * i-th. All others start as zeros. */
UVCC_API int uvcc_transformer_state(const uvcc_transformer_config *cfg,
                                    const uvcc_transformer_worker *w, const uvcc_program *p,
                                    uint32_t i, const int64_t *weights, uint32_t *tensor,
                                    int64_t *values);

#ifdef __cplusplus
}
#endif
#endif
