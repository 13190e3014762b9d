/* SPDX-License-Identifier: Apache-2.0 */
/* transformer.h - what building a transformer's programs is made of: its numbers, its weights, and
 * the builder that forward, backward and update write into.
 *
 * Scales: f for activations and weights; gradients by activations are of the mean loss and stand at
 * f + log2(tokens of a step), which is the sum's integer at scale f. */
#ifndef UVCCI_TRANSFORMER_H
#define UVCCI_TRANSFORMER_H

#include "exec/model/model.h"
#include "exec/program/program.h"

#include <uvcc/nonlinear.h>
#include <uvcc/transformer.h>

/* ---- weights ---- */

/* The model that the options describe. */
uvcc_model_config uvcci_tf_model(const uvcc_transformer_config *cfg);
uint32_t uvcci_tf_hidden(const uvcc_transformer_config *cfg);

/* ---- numbers ---- */

/* Fraction bits of masters over those of weights. */
enum { UVCCI_TF_FINE_BITS = 14 };
/* Least mean square that norms count on. */
#define UVCCI_TF_NORM_EPSILON 0x1p-9

typedef struct uvcci_tf_numbers {
    uint32_t hidden, head_dim;
    uint32_t sequences;                         /* of a microbatch at this replica */
    uint32_t rank_heads, rank_dim, rank_hidden; /* of a tensor rank */
    uint8_t f, tokens;                          /* fraction bits; log2 of the tokens of a step */
    uint8_t value, gradient, weight;            /* declared bits; of gradients by activations */
    uint8_t inner;                              /* of scores and of the activation's input */
    uint8_t gradient_scale;                     /* f + tokens */
    uint8_t update_scale, update_bits; /* of a weight's gradient as the optimizer takes it */
    uint8_t master_scale, master_bits;
    uint8_t momentum_shift, variance_shift;
    uint8_t unit; /* ADAMW, ADAM_MINI: its epsilon is 2^-(unit + 4) */

    /* Attention's tiles of query rows: how many, the rows of a sequence in each (the last may have
     * fewer), and how many are alive at a time; 0: all, and their probabilities are kept for the
     * backward pass. */
    uint32_t tiles, tile_rows, alive;
    uint32_t layer_blocks; /* of k, that a layer's ops take in a phase */
} uvcci_tf_numbers;
uvcci_tf_numbers uvcci_tf_numbers_of(const uvcc_transformer_config *cfg);
/* Those that follow from the optimizer alone, f and the declared bits being there. */
void uvcci_tf_optimizer_numbers(const uvcc_transformer_config *cfg, uvcci_tf_numbers *n);
int uvcci_tf_check_optimizer(const uvcc_transformer_config *cfg, const uvcci_message *m);
/* Bits of the optimizer's m or v. */
unsigned uvcci_tf_momentum_bits(const uvcc_transformer_config *cfg, const uvcci_tf_numbers *n);

/* Blocks of k; layer l has `layer_blocks` from BLOCK_LAYER + l layer_blocks on. In BWD the last
 * layer comes first. NORM, in UPD of ADAM_MINI alone: the norm of the
 * whole gradient; it is the same at all stages, which meet there. */
enum {
    UVCCI_TF_BLOCK_IN = 0,
    UVCCI_TF_BLOCK_LAYER = 1,
    UVCCI_TF_BLOCK_NORM = 64,
    UVCCI_TF_BLOCK_OUT = 253
};

/* ---- the builder ---- */

enum { UVCCI_TF_SHELF_MAX = 256 };

/* Buffers that equal lists of tensors use in turn: tensor i of a list lies in the buffer of tensor
 * i of the list before, and so is not written before that was read for the last time. */
typedef struct uvcci_tf_shelf {
    uint32_t count, at; /* buffers so far; which the next tensor takes */
    uint32_t buffer[UVCCI_TF_SHELF_MAX];
} uvcci_tf_shelf;

/* A norm's saved values. */
typedef struct uvcci_tf_norm {
    uint32_t y, normed, inverse;
} uvcci_tf_norm;

/* Weights that may have an adapter (finetune.h): WQ, WK, WV. */
enum { UVCCI_TF_ADAPTABLE = 3 };

/* What a layer keeps for its backward pass. */
typedef struct uvcci_tf_layer {
    uvcci_tf_norm n1, n2;
    uint32_t x;      /* its input, own rows */
    uint32_t x1, x2; /* n1.y and n2.y of all rows of the microbatch */
    uint32_t q, k, v, o;
    uint32_t p[UVCCI_TF_TILES_MAX]; /* probabilities by tile, where they are kept */
    /* by tile, where probabilities are not: what they are made of again */
    uint32_t top[UVCCI_TF_TILES_MAX], inverse[UVCCI_TF_TILES_MAX];
    uint32_t act, slope, up,
        g; /* activation and its derivative; SWIGLU: the other factor; product */
    uint32_t low[UVCCI_TF_ADAPTABLE]; /* between the factors of adapters */
} uvcci_tf_layer;

/* What a microbatch keeps. */
typedef struct uvcci_tf_batch {
    uint32_t tokens, targets; /* one-hot */
    uvcci_tf_norm last;
    uint32_t gradient;      /* by logits */
    uvcci_tf_layer *layers; /* of this stage */
} uvcci_tf_batch;

/* A weight at this worker. */
typedef struct uvcci_tf_held {
    bool held;
    bool frozen;   /* nobody asks for its gradient, and it has no master */
    uint8_t uses;  /* products of a microbatch that give its gradient; 0: 1 */
    uint8_t group; /* uvcc_group whose workers have the same part */
    uint32_t ways; /* their number */
    uvcc_transformer_weight about;
    uvcc_transformer_part part;
    uint32_t tensor, master; /* forward weight; the slice of the master that this worker owns */
    uint32_t momentum, variance;
    uint32_t sum;               /* gradient over microbatches, or UVCC_NO_TENSOR before the first */
    uint32_t gradient, squares; /* ADAM_MINI: the mean gradient; this worker's sums of squares */
} uvcci_tf_held;

/* How ops are made. */
typedef struct uvcci_tf_ways {
    uint8_t truncation, lift, products; /* uvcc_truncation, uvcc_lift_kind, uvcc_products */
    bool exact;                         /* functions take exact indices */
    uint16_t sks;
    uint32_t tensor_ranks;
} uvcci_tf_ways;

/* The first error sticks, so that what is built reads as lists of ops. */
typedef struct uvcci_tf_builder {
    const uvcc_transformer_config
        *c;              /* what is trained; NULL: a model that is run (model_emit.c) */
    uvcc_model_config m; /* what the layers are */
    uvcci_tf_ways how;
    const uint32_t *given; /* a model's weights; NULL: `weights` has them */
    const char *prefix;    /* of temporaries */
    uint32_t padding;      /* far below all scores where there is no token, else 0: a row for each
                              sequence; or UVCC_NO_TENSOR */
    uint32_t rotary, unrotary; /* tables of rotary positions, where the model has them: of turns
                                  and, for a backward pass, of those back */
    uint32_t window; /* how many tokens one of this layer sees; 0: all that its mask leaves */
    bool keeps;      /* norms give what a backward pass reads */
    /* Adapters: bit i of `adapted` is of the i-th weight that may have one; their factors, first
     * the one that x meets, lie in `weights` from `adapters` on. */
    uint8_t adapted;
    uint32_t adapters;
    uint32_t *low;  /* of the layer that is made */
    bool ends_here; /* nobody reads the gradient by the input of the layer that is gone through */
    uvcc_transformer_worker w;
    uvcci_tf_numbers n;
    uvcc_program *p;
    const uvcc_allocator *al;
    int err;
    uint32_t first_layer, layers; /* of this stage */
    bool first_stage, last_stage;

    /* where ops go */
    uint8_t phase, truncation;
    uint16_t mb, first_index; /* of the ops of a block */
    uint32_t k, k_end;
    uint32_t sequences, rows,
        own_rows;   /* of the microbatch: all, and those of the residual stream */
    char scope[40]; /* before names of tensors */
    uint32_t temporaries;

    bool opens_logits;
    bool derivatives;      /* activations give theirs: a backward pass reads them */
    bool trains;           /* a backward pass comes after the forward pass */
    uint32_t gate;         /* read last by what must be done before a layer is computed again, or
                              UVCC_NO_TENSOR */
    uvcci_tf_shelf *shelf; /* new TRANSIENT tensors take its buffers; NULL: their own */
    uvcci_tf_shelf *layer_shelf, *tile_shelves; /* [UVCCI_TF_ALIVE_MAX] */
    char name[48];                              /* of a tensor that is being made up */
    char culprit[64];                           /* what the first error was about */

    uint32_t select, temperature; /* of "next": picks rows; of its noise; UVCC_NO_TENSOR: none */
    uint32_t rate, loss; /* loss: column of sums of losses, one row per worker of the group */
    uint32_t factor, factor_squared, decay; /* ADAM_MINI: of clipping; rate times weight_decay */
    uint32_t weight_count;
    uvcci_tf_held *weights;
    uvcci_tf_batch *batches; /* [microbatches] */
    uvcci_tf_layer *layer_room;
} uvcci_tf_builder;

/* ops.c */

/* Ops from here on stand in this phase, microbatch and block. In UPD blocks count on through its
 * pages, from UVCCI_TF_BLOCK_LAYER. */
void uvcci_tf_enter(uvcci_tf_builder *b, uvcc_phase phase, uint32_t mb, uint32_t block);
/* The same behind all that UPD has so far. */
void uvcci_tf_enter_end(uvcci_tf_builder *b);
uint32_t uvcci_tf_block(const uvcci_tf_builder *b); /* of the next op */
void uvcci_tf_note(uvcci_tf_builder *b, int result);
/* The block of k of a layer's first op, counted in the order of the phase. */
static inline uint32_t uvcci_tf_layer_block(const uvcci_tf_builder *b, uint32_t place) {
    return UVCCI_TF_BLOCK_LAYER + place * b->n.layer_blocks;
}
/* Names from here on are of a layer within `scope`, and of a part of it. */
void uvcci_tf_scope(uvcci_tf_builder *b, const char *scope, uint32_t layer);
void uvcci_tf_scope_part(uvcci_tf_builder *b, const char *scope, uint32_t layer, const char *part);
uint32_t uvcci_tf_tensor(uvcci_tf_builder *b, const char *name, uvcc_tensor_desc d);
/* PERSIST, rows x cols, with a prefix before its name instead of the scope. */
uint32_t uvcci_tf_persist(uvcci_tf_builder *b, const char *prefix, const char *name, uint32_t rows,
                          uint32_t cols, unsigned bits, unsigned scale);
/* TRANSIENT, rows x cols. */
uint32_t uvcci_tf_transient(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                            unsigned bits, unsigned scale);
/* Additive, TRANSIENT. */
uint32_t uvcci_tf_additive(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                           unsigned bits, unsigned scale);
/* In the buffer of `before`, which has been read for the last time when this is written. */
uint32_t uvcci_tf_successor(uvcci_tf_builder *b, const char *name, uint32_t before, unsigned bits,
                            unsigned scale);
/* Shelves of another microbatch or phase begin without buffers. */
void uvcci_tf_clear_shelves(uvcci_tf_builder *b);
/* Tensors take the shelf's buffers from the first on. */
void uvcci_tf_take_shelf(uvcci_tf_builder *b, uvcci_tf_shelf *shelf);
/* Of values (activations) and of gradients by them, a few bits wider by `more`. */
uint32_t uvcci_tf_values(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols);
uint32_t uvcci_tf_gradients(uvcci_tf_builder *b, const char *name, uint32_t rows, uint32_t cols,
                            unsigned more);
uint32_t uvcci_tf_temporary(uvcci_tf_builder *b, uint32_t rows, uint32_t cols, unsigned bits,
                            unsigned scale);
const uvcc_tensor_desc *uvcci_tf_desc(const uvcci_tf_builder *b, uint32_t tensor);
void uvcci_tf_op(uvcci_tf_builder *b, uvcc_op_desc op);
/* z = op(x, y) without a truncation; y may be UVCC_NO_TENSOR, z may be x. */
void uvcci_tf_local(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t z);
/* z = op(x, y), an element-wise product, truncated to the scale of z. constant: of ROW_DOT, with
 * `fraction` fraction bits; others 0. */
void uvcci_tf_times(uvcci_tf_builder *b, uvcc_opcode opcode, uint32_t x, uint32_t y, uint32_t z,
                    int64_t constant, unsigned fraction);
/* The same where the author knows products to have so many bits at most. */
void uvcci_tf_times_within(uvcci_tf_builder *b, uint16_t opcode, uint32_t x, uint32_t y, uint32_t z,
                           unsigned bits);
/* z = c 2^-fraction x, at a scale higher by fraction. */
void uvcci_tf_scale(uvcci_tf_builder *b, uint32_t x, uint32_t z, int64_t c, unsigned fraction);
/* How what is revealed is truncated: exactly. */
static inline uint8_t uvcci_tf_exact(const uvcci_tf_builder *b) {
    return b->how.truncation == UVCC_TRUNC_STOCHASTIC ? UVCC_TRUNC_EXACT : b->how.truncation;
}
/* z = x truncated to the scale of z, exactly or as the builder truncates. */
void uvcci_tf_truncate(uvcci_tf_builder *b, uint32_t x, uint32_t z, uint8_t truncation);
/* z = a b, truncated to the scale of z. heads: for every sequence and head of this rank. */
void uvcci_tf_product(uvcci_tf_builder *b, uint32_t a, uint32_t y, uint32_t z, uint8_t flags,
                      bool heads);
/* z = a b, additive and untruncated, for every sequence and head of this rank. */
void uvcci_tf_part(uvcci_tf_builder *b, uint32_t a, uint32_t y, uint32_t z, uint8_t flags);
/* sum + a b, `times` such products in all; `sum` may be UVCC_NO_TENSOR. Returns the sum, which is
 * not truncated: an additive tensor, or with Beaver triples a replicated one. */
uint32_t uvcci_tf_add_product(uvcci_tf_builder *b, uint32_t sum, uint32_t a, uint32_t y,
                              uint8_t flags, uint32_t times, const char *name);
/* The sum over a group of workers, each of which gets its slice; the tensor itself if ways is 1. */
uint32_t uvcci_tf_reduce(uvcci_tf_builder *b, uint32_t x, uint8_t group, uint32_t ways,
                         uint32_t rows, uint32_t cols, const char *name);
/* All rows of the microbatch out of every tensor rank's own. */
uint32_t uvcci_tf_all_rows(uvcci_tf_builder *b, const char *name, uint32_t own);
/* out = all slices of a group. */
void uvcci_tf_gather(uvcci_tf_builder *b, uint32_t slice, uint8_t group, uint32_t out);
/* Emits a nonlinear function to tensors that have its shape, by the names. */
void uvcci_tf_function(uvcci_tf_builder *b, uvcc_nonlinear what, uvcc_nonlinear_options o,
                       const uint32_t *in, const char *const *names, uint32_t *out);
/* The same to tensors that are there. */
void uvcci_tf_emit(uvcci_tf_builder *b, uvcc_nonlinear what, uvcc_nonlinear_options o,
                   const uint32_t *in, const uint32_t *out);
/* Of the sum of a weight's gradients; valid until the next. */
const char *uvcci_tf_sum_name(uvcci_tf_builder *b, const uvcci_tf_held *h);
/* The weight at this worker; NULL if the model has none. */
uvcci_tf_held *uvcci_tf_held_weight(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot);
/* Its tensor; UVCC_NO_TENSOR if the model has none. */
uint32_t uvcci_tf_weight_tensor(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot);
/* The two factors of its adapter; NULL if it has none. */
uvcci_tf_held *uvcci_tf_adapter(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot);
/* Which of those that may have one; UVCCI_TF_ADAPTABLE: none of them. */
unsigned uvcci_tf_adaptable(uvcci_tf_slot slot);
/* A public tensor that the program has the values of, which stay the caller's. */
uint32_t uvcci_tf_constant(uvcci_tf_builder *b, const char *name, uvcc_tensor_desc d,
                           const int64_t *values);

/* layer.c: by b->m */

/* Adds a weight that has a row for all, or for each token, in x, if the model has it. */
void uvcci_tf_add_weight(uvcci_tf_builder *b, uint32_t x, uint32_t layer, uvcci_tf_slot slot);
/* x W + bias. */
uint32_t uvcci_tf_linear(uvcci_tf_builder *b, const char *name, uint32_t x, uint32_t layer,
                         uvcci_tf_slot weight, uvcci_tf_slot bias_slot);
/* names: of y, the normalised x and 1 / root, of which the last two are made for who keeps them. */
uvcci_tf_norm uvcci_tf_normalise(uvcci_tf_builder *b, const char *const names[3], uint32_t x,
                                 uint32_t layer, uvcci_tf_slot gain, uvcci_tf_slot shift);
/* The layer's output of x, its input in own rows. */
uint32_t uvcci_tf_layer_forward(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x);
/* Layer `layer` again, from its kept input x and attention, for its backward pass. */
void uvcci_tf_recompute(uvcci_tf_builder *b, uvcci_tf_layer *l, uint32_t layer, uint32_t x);

/* forward.c */

/* Microbatch mb of "train", or a pass of another entry: from one-hot tokens or what the stage
 * before sent, to logits (last stage, else UVCC_NO_TENSOR, after sending). */
uint32_t uvcci_tf_forward(uvcci_tf_builder *b, uvcci_tf_batch *batch);
/* Gradient by logits, and the column of losses if `losses` is not NULL. */
void uvcci_tf_cross_entropy(uvcci_tf_builder *b, uvcci_tf_batch *batch, uint32_t logits,
                            uint32_t *losses);
/* Adds the losses to b->loss: `ways` rows. */
void uvcci_tf_add_losses(uvcci_tf_builder *b, uint32_t losses, uint32_t ways, uint32_t times);
/* Sums b->loss over the group's workers and opens it. */
void uvcci_tf_open_loss(uvcci_tf_builder *b, uint8_t group, uint32_t ways, uint32_t id);

/* attention.c */

/* softmax(Q K^T / sqrt(head_dim)) V of every sequence and head, masked as the model says. */
void uvcci_tf_attention(uvcci_tf_builder *b, uvcci_tf_layer *l);
/* Gradients by the layer's Q, K and V from that by its attention's output. */
void uvcci_tf_through_attention(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t go,
                                uint32_t out[3]);

/* Gradients by Q, K and V become those by what the weights' products gave: heads of keys and values
 * that several queries share add up, turned ones turn back. */
void uvcci_tf_through_heads(uvcci_tf_builder *b, uint32_t d[3]);

/* backward.c */

/* Bits that values on the way have over gradients by activations. */
enum { UVCCI_TF_GRADIENT_MORE = 3 };
void uvcci_tf_backward(uvcci_tf_builder *b, uvcci_tf_batch *batch);
/* g, own rows: gradient by the layer's output; returns that by its input, or UVCC_NO_TENSOR if it
 * ends here. */
uint32_t uvcci_tf_layer_backward(uvcci_tf_builder *b, const uvcci_tf_layer *l, uint32_t layer,
                                 const char *scope, uint32_t g);
/* Back through a norm. */
uint32_t uvcci_tf_through_norm(uvcci_tf_builder *b, const uvcci_tf_norm *n, uint32_t layer,
                               uvcci_tf_slot gain, uvcci_tf_slot shift, uint32_t g);
/* g W^T with this rank's rows of W. */
uint32_t uvcci_tf_through_weight(uvcci_tf_builder *b, const char *name, uint32_t layer,
                                 uvcci_tf_slot slot, uint32_t g);
/* To the gradient of a weight, unless it is frozen: + a^T g, + the sums over rows of g (a vector,
 * or rows in turn), if the model has it. */
void uvcci_tf_add_matrix(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t a,
                         uint32_t g);
void uvcci_tf_add_rows(uvcci_tf_builder *b, uint32_t layer, uvcci_tf_slot slot, uint32_t g);
/* z = x c 2^-e next to x / n, in the bits and the scale of z. */
void uvcci_tf_divide(uvcci_tf_builder *b, uint32_t x, uint32_t n, uint32_t z);

/* The master of a weight's slice of rows x cols, and what its optimizer keeps beside it. */
void uvcci_tf_optimizer_state(uvcci_tf_builder *b, uvcci_tf_held *h, uint32_t rows, uint32_t cols);

/* update.c */

/* Of a weight, what this worker's optimizer works on; or what has another shape of its own. */
typedef struct uvcci_tf_slice {
    uvcci_tf_builder *b;
    const uvcci_tf_held *h;
    uint32_t rows, cols;
} uvcci_tf_slice;
uvcci_tf_slice uvcci_tf_slice_of(uvcci_tf_builder *b, const uvcci_tf_held *h);

void uvcci_tf_update(uvcci_tf_builder *b);
/* The gradient at the optimizer's scale, out of the sums of all workers, truncated once. */
uint32_t uvcci_tf_mean_gradient(const uvcci_tf_slice *s);
/* state = (1 - 2^-shift) state + part of x: 2^-shift if `share`, else all of it. x stands at
 * the scale of the state or a finer one; names: of what is kept and what is added. */
void uvcci_tf_decay(const uvcci_tf_slice *s, const char *const names[2], uint32_t state, uint32_t x,
                    unsigned shift, bool share);
/* Forward weight out of the master, into `out` (of the worker's part). */
void uvcci_tf_from_master(uvcci_tf_builder *b, const uvcci_tf_held *h, uint32_t out,
                          uint8_t truncation);
/* What a weight's opening may show: what was rounded stochastically would tell more than the
 * weight, so with stochastic truncation it is made again from the master, exactly, in this block.
 */
uint32_t uvcci_tf_revealed(uvcci_tf_builder *b, const uvcci_tf_held *h, uint32_t block);

/* mini.c: ADAM_MINI, on what update.c has */

/* Tensors of its moments, for a slice of rows x cols. */
void uvcci_tf_mini_state(uvcci_tf_builder *b, uvcci_tf_held *h, uint32_t rows, uint32_t cols);
void uvcci_tf_update_mini(uvcci_tf_builder *b);

#endif
