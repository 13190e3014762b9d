/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/finetune.h - fine-tuning of a described transformer (model.h): a program that trains a
 * classifier on a model that stays as it is, low-rank adapters beside it, or all of its weights.
 *
 * Use: uvcc_finetune_default(), set `model` and what else differs, uvcc_finetune_check(),
 * uvcc_finetune_program(). A host sets the PERSIST tensors of uvcc_finetune_weight_at, of a trained
 * weight also its master "M." and the name, whose integers are those of the weight times
 * 2^UVCC_FINETUNE_FINE_BITS: by uvcc_session_set_shares what its owner split (secret), by
 * uvcc_session_set_public what all know. Before each "train" step it sets the tensor "rate" (1 x 1)
 * to uvcc_finetune_rate.
 *
 * Entries:
 *  - "train": for each microbatch m IN_X + m and, if the model has padding, IN_PADDING + m from
 *    `text_owner`, as uvcc_model_inputs says; IN_TARGETS + m from `label_owner`: one-hot rows, as
 *    many as the model gives and as wide, of labels or of next tokens. OUT_LOSS if `loss`.
 *  - "eval": IN_EVAL_X, IN_EVAL_PADDING, IN_EVAL_TARGETS, one microbatch; OUT_EVAL_LOSS, and of a
 *    classifier OUT_EVAL_LABELS, the likeliest label of each row. Losses and labels open to
 *    `label_owner` alone.
 *  - "reveal": OUT_WEIGHT + i for every trained weight i, to `receiver`.
 *
 * The loss is the mean cross entropy of the rows. docs/finetuning.md says what is computed. One
 * worker per party. */
#ifndef UVCC_FINETUNE_H
#define UVCC_FINETUNE_H

#include <uvcc/model.h>
#include <uvcc/transformer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_finetune_method {
    /** WC and BC, on a model that stays: the model has labels. The forward pass keeps nothing, and
     * there is no backward pass. */
    UVCC_FINETUNE_HEAD = 0,
    /** Adapters (Hu et al. 2021, arXiv:2106.09685): x W becomes x W + (x A) B, A with `rank`
     * columns and B with `rank` rows; W stays. With labels WC and BC are trained too. */
    UVCC_FINETUNE_LORA = 1,
    UVCC_FINETUNE_FULL = 2, /**< all weights, which are secret */
} uvcc_finetune_method;

/** Weights with adapters. */
enum { UVCC_FINETUNE_WQ = 1, UVCC_FINETUNE_WK = 2, UVCC_FINETUNE_WV = 4 };

/** Begin with uvcc_finetune_default. */
typedef struct uvcc_finetune_config {
    size_t size; /**< sizeof(uvcc_finetune_config) */
    /** What is fine-tuned; its `sequences` are those of a microbatch, its mode also that of the
     * training. It has labels, or a head that gives logits of every token. HEAD: any such model
     * with labels. LORA, FULL: pool and padding not both, unless the pool is FIRST or TANH; padding
     * with one sequence; its index_bits 0 stand for 9, since derivatives share the index. */
    uvcc_model_config model;
    uint32_t
        microbatches; /**< of a step. Rows that have a loss, of a step, are a power of two: with
                           labels and a pool microbatches times sequences, else times tokens */
    uint8_t method;   /**< uvcc_finetune_method */
    uint32_t rank;    /**< of adapters, 1 to width */
    uint8_t adapted;  /**< UVCC_FINETUNE_WQ | .. */

    uint8_t optimizer; /**< uvcc_optimizer but ADAM_MINI; the fields below as in
                            uvcc_transformer_config */
    uint8_t momentum_shift, variance_shift;
    double learning_rate;
    uint32_t warmup, steps;
    double final_rate, weight_decay, epsilon, clip;
    uint8_t
        gradient_bits; /**< |gradient of a row's loss by an activation| < 2^gradient_bits; 0: 6 */

    uint8_t text_owner, label_owner; /**< parties */
    uint8_t receiver;                /**< of the trained weights: a party or UVCC_TO_ALL */
    uint8_t loss;                    /**< 1: "train" opens the loss of its batch */
} uvcc_finetune_config;

/** Fraction bits of masters over those of weights. */
#define UVCC_FINETUNE_FINE_BITS 14u

enum {
    UVCC_FINETUNE_IN_X = 0x1000,       /* + microbatch */
    UVCC_FINETUNE_IN_TARGETS = 0x2000, /* + microbatch */
    UVCC_FINETUNE_IN_PADDING = 0x3000, /* + microbatch */
    UVCC_FINETUNE_IN_EVAL_X = 1,
    UVCC_FINETUNE_IN_EVAL_TARGETS = 2,
    UVCC_FINETUNE_IN_EVAL_PADDING = 3,
    UVCC_FINETUNE_OUT_LOSS = 1, /* scale UVCC_TRANSFORMER_LOSS_BITS: a sum over rows, in nats */
    UVCC_FINETUNE_OUT_EVAL_LOSS = 2,
    UVCC_FINETUNE_OUT_EVAL_LABELS = 3,
    UVCC_FINETUNE_OUT_WEIGHT = 0x100, /* + weight */
};

/** HEAD by ADAMW on uvcc_model_default's model with two labels. UVCC_ERR_USAGE: another size. */
UVCC_API int uvcc_finetune_default(uvcc_finetune_config *c, size_t size);
/** 0, or UVCC_ERR_CONFIG or UVCC_ERR_BOUND and one line in message (may be NULL) that names the
 * field. */
UVCC_API int uvcc_finetune_check(const uvcc_finetune_config *c, char *message, size_t message_cap);
/** Builds and finishes the program. */
UVCC_API int uvcc_finetune_program(uvcc_program **out, const uvcc_finetune_config *c,
                                   const uvcc_allocator *al, char *message,
                                   size_t message_cap) UVCC_MUST_USE;

/* The calls below take a config that passed uvcc_finetune_check. */

/** Value of the tensor "rate" in step `step` (from 0). */
UVCC_API int64_t uvcc_finetune_rate(const uvcc_finetune_config *c, uint32_t step);
/** Rows that have a loss, of a microbatch. */
UVCC_API uint32_t uvcc_finetune_rows(const uvcc_finetune_config *c);

/** A weight; the list is that of uvcc_model_weight_at, then the adapters', by layer: "L0.WQ.A"
 * (width x rank), "L0.WQ.B" (rank x columns of WQ), and so on. */
typedef struct uvcc_finetune_weight {
    uvcc_model_weight about;
    uint8_t trained; /**< 1: it has a master, and "reveal" opens it */
    uint8_t open;    /**< 1: its tensor is PUBLIC, only uvcc_session_set_public sets it */
} uvcc_finetune_weight;
UVCC_API uint32_t uvcc_finetune_weight_count(const uvcc_finetune_config *c);
/** UVCC_ERR_NOT_FOUND if there is no weight i. */
UVCC_API int uvcc_finetune_weight_at(const uvcc_finetune_config *c, uint32_t i,
                                     uvcc_finetune_weight *out);
/** Initial values of a weight that no checkpoint has, rows * cols: of an adapter's A drawn evenly
 * from -1 / sqrt(width) to 1 / sqrt(width) by the seed, zeros of all others: so training begins at
 * what the model gives without adapters, and at labels that are all alike. */
UVCC_API void uvcc_finetune_initial(const uvcc_finetune_config *c, uint64_t seed, uint32_t i,
                                    int64_t *out);

#ifdef __cplusplus
}
#endif
#endif
