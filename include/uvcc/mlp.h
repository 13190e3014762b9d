/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/mlp.h - the multi-layer perceptron of docs/training.md as a program, its public initial
 * weights, and the order of its rows. Deterministic to the bit. */
#ifndef UVCC_MLP_H
#define UVCC_MLP_H

#include <uvcc/program.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_MLP_MAX_LAYERS 16u

typedef struct uvcc_mlp_config {
    uint32_t features, classes;
    uint32_t hidden_count;                /**< 1..UVCC_MLP_MAX_LAYERS - 1 */
    uint32_t hidden[UVCC_MLP_MAX_LAYERS]; /**< units of each hidden layer */
    uint32_t batch;                       /**< rows of a training step, a power of two */
    uint32_t predict_rows;                /**< rows of the predict entry; 0: no such entry */
    uint8_t lr_shift;
    uint8_t frac_bits;  /**< f */
    uint8_t range_bits; /**< integer bits of activations and gradients: |v| < 2^range; 0: 8 */
    uint8_t weight_range_bits; /**< of weights and biases; 0: 4 */
    uint8_t truncation;        /**< uvcc_truncation, of the products */
    uint8_t lift;              /**< uvcc_lift_kind */
    uint8_t compare;           /**< uvcc_compare, of the ReLUs */
    uint8_t products;          /**< uvcc_products, of the matrix products */
    uint8_t x_owner, y_owner;  /**< parties that give features and labels */
} uvcc_mlp_config;

enum { UVCC_MLP_IN_X = 1, UVCC_MLP_IN_Y = 2, UVCC_MLP_IN_PREDICT_X = 3 };
enum { UVCC_MLP_OUT_PREDICTION = 100, UVCC_MLP_OUT_WEIGHT = 200 /* + 2*layer, bias + 1 */ };

/** Builds and finishes the program: entries "train", "predict" (if predict_rows) and "reveal"
 * (opens W0, b0, W1, ... to all); predictions open to x_owner only. Tensors "W<l>", "b<l>"
 * (forward), "MW<l>", "Mb<l>" (masters), all PERSIST; "G<l>" of the last layer l is a training
 * step's output minus Y (the reference can show it). */
UVCC_API int uvcc_mlp_program(uvcc_program **out, const uvcc_mlp_config *cfg,
                              const uvcc_allocator *al, char *message,
                              size_t message_cap) UVCC_MUST_USE;
UVCC_API uint32_t uvcc_mlp_layers(const uvcc_mlp_config *cfg);
/** Shape of layer l: W is in x out. */
UVCC_API void uvcc_mlp_shape(const uvcc_mlp_config *cfg, uint32_t l, uint32_t *in, uint32_t *out);
/** W of layer l (in * out elements) from the seed. */
UVCC_API void uvcc_mlp_initial_weights(const uvcc_mlp_config *cfg, uint64_t seed, uint32_t l,
                                       int64_t *w);
/** Bits by which masters are finer than forward weights: lr_shift + log2(batch). */
UVCC_API unsigned uvcc_mlp_master_shift(const uvcc_mlp_config *cfg);
/** order[i] for i < n: the rows of epoch e (Fisher-Yates). */
UVCC_API void uvcc_mlp_order(uint64_t seed, uint32_t epoch, uint32_t n, uint32_t *order);

#ifdef __cplusplus
}
#endif
#endif
