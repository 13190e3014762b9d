/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - the transformer of docs/transformer.md in floating point: a trainer to compare with.
 *
 * Written for itself, from the formulas: nothing of it comes from the fixed-point program but names
 * and shapes of weights. `real` is float, or double for finite differences: each gets its own
 * functions, float_* and double_*. */
#ifndef UVCC_TESTS_FLOAT_MODEL_H
#define UVCC_TESTS_FLOAT_MODEL_H

#include <uvcc/transformer.h>

#define FLOAT_MODEL(name, real)                                                                    \
    typedef struct name##_model name##_model;                                                      \
    /** weights: whole weights in global order at scale f, as uvcc_transformer_initial gives them. \
     */                                                                                            \
    name##_model *name##_new(const uvcc_transformer_config *c, const int64_t *weights);            \
    void name##_free(name##_model *m);                                                             \
    real *name##_weights(name##_model *m);                                                         \
    /** Of the mean loss per token, as of the last name##_gradient. */                             \
    const real *name##_gradients(const name##_model *m);                                           \
    /** Sum over tokens of the losses, in nats. */                                                 \
    double name##_loss(name##_model *m, const uint8_t *tokens, const uint8_t *targets,             \
                       uint32_t sequences);                                                        \
    /** The same, and gradients. */                                                                \
    double name##_gradient(name##_model *m, const uint8_t *tokens, const uint8_t *targets,         \
                           uint32_t sequences);                                                    \
    /** A step of the optimizer. */                                                                \
    void name##_update(name##_model *m, double rate);
FLOAT_MODEL(float, float)
FLOAT_MODEL(double, double)

#endif
