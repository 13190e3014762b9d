/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/model.h - transformers as data: a description of the architecture, and the forward pass that
 * follows from it as ops of a program.
 *
 * Use: uvcc_model_default(), change what differs, uvcc_model_check(). Then either
 *  - uvcc_model_program() for a whole program with one entry, "forward"; or
 *  - uvcc_model_weights() and uvcc_model_emit() (or, part by part, uvcc_model_emit_layer()) within
 * a program of your own. uvcc_model_cost() says beforehand what a pass takes,
 * uvcc_model_reference() computes it in plaintext fixed point: what a secure run in an exact mode
 * gives, bit for bit.
 *
 * The model: x, `sequences` times `tokens` rows of `width` columns, is what embeddings gave: the
 * caller's, or a table's rows by tokens; learned positions are added to it if it has them,
 * and a norm may come behind. Then `layers` times, with
 * attention(x) = softmax(Q K^T / sqrt(head_size) + mask) V WO and ff the feed-forward network,
 *     before (pre-norm):  x += attention(norm1(x)); x += ff(norm2(x))
 *     after (post-norm):  x = norm1(x + attention(x)); x = norm2(x + ff(x))
 * and after the last layer, with last_norm, x = norm(x); then a head makes logits of it, or it is
 * pooled and classified. docs/models.md has it to the bit.
 *
 * Numbers: activations and weights are fixed-point integers of frac_bits fraction bits; a value
 * that leaves its declared bits makes a secure run wrong without a sign, and the reference fail by
 * name.
 */
#ifndef UVCC_MODEL_H
#define UVCC_MODEL_H

#include <uvcc/nonlinear.h>
#include <uvcc/program.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_MODEL_MAX_LAYERS 200u
/** Fraction bits that "forward" drops, exactly, of what it opens in mode FAST: what is opened must
 * come out of an exact truncation (SECURITY.md). */
#define UVCC_MODEL_OPEN_SHIFT 4u

typedef enum uvcc_model_norm {
    UVCC_MODEL_LAYER_NORM = 0, /**< gain (x - mean) / sqrt(variance + epsilon) + shift */
    UVCC_MODEL_RMS_NORM = 1,   /**< gain x / sqrt(mean square + epsilon) */
} uvcc_model_norm;

typedef enum uvcc_model_order {
    UVCC_MODEL_POST_NORM = 0, /**< norms behind the residual sums: BERT */
    UVCC_MODEL_PRE_NORM = 1,  /**< norms before attention and feed-forward: GPT-2, Llama */
} uvcc_model_order;

typedef enum uvcc_model_ff {
    UVCC_MODEL_FF_PLAIN = 0, /**< activation(x W1 + B1) W2 + B2 */
    UVCC_MODEL_FF_GATED = 1, /**< (activation(x W1 + B1) * (x WU)) W2 + B2 */
} uvcc_model_ff;

typedef enum uvcc_model_mask {
    UVCC_MODEL_MASK_NONE = 0,   /**< every token sees all: bidirectional */
    UVCC_MODEL_MASK_CAUSAL = 1, /**< itself and those before it */
    UVCC_MODEL_MASK_WINDOW = 2, /**< CAUSAL, but in the layers that window_layers says itself and
                                   the window - 1 before it */
} uvcc_model_mask;

typedef enum uvcc_model_positions {
    UVCC_MODEL_POSITIONS_NONE = 0,    /**< the caller's embeddings have them */
    UVCC_MODEL_POSITIONS_LEARNED = 1, /**< weight P, tokens x width, is added to x */
    /** Queries and keys are turned, Llama's way: column j of a head's first half and that of its
     * second are a pair, turned by t rope_theta^(-2j / head_size) at token t. No weight. */
    UVCC_MODEL_POSITIONS_ROTARY = 2,
} uvcc_model_positions;

typedef enum uvcc_model_input {
    UVCC_MODEL_INPUT_HIDDEN = 0, /**< rows of hidden states, before positions */
    /** Rows of vocabulary + segments columns at scale 0: of the first a 1 for the token, of the
     * others, if there are any, a 1 for its segment, else 0. */
    UVCC_MODEL_INPUT_ONE_HOT = 1,
    /** Token ids, 0 to vocabulary - 1, and in a second column, if there are segments, their kinds,
     * 0 to segments - 1: a one-hot tensor of the program. The same rows as ONE_HOT gives, for some
     * hundred bytes a token. */
    UVCC_MODEL_INPUT_TOKENS = 2,
} uvcc_model_input;

typedef enum uvcc_model_head {
    UVCC_MODEL_HEAD_NONE = 0, /**< hidden states come out, or what pool and labels say */
    UVCC_MODEL_HEAD_OWN = 1,  /**< logits by a matrix of its own */
    UVCC_MODEL_HEAD_TIED = 2, /**< logits by the embeddings */
} uvcc_model_head;

/** What becomes of a sequence's hidden states. */
typedef enum uvcc_model_pool {
    UVCC_MODEL_POOL_NONE = 0,  /**< they stay */
    UVCC_MODEL_POOL_FIRST = 1, /**< the first token's */
    UVCC_MODEL_POOL_TANH = 2,  /**< tanh(first token's WP + BP): BERT's pooler */
    UVCC_MODEL_POOL_MEAN = 3,  /**< their mean, over tokens that are some */
} uvcc_model_pool;

typedef enum uvcc_model_weights_are {
    UVCC_MODEL_SECRET_WEIGHTS = 0,
    /** All know them: uvcc_session_set_public, for all of them. Products by matrices are local, and
     * then truncated; of matrices each party keeps the values instead of shares. */
    UVCC_MODEL_PUBLIC_WEIGHTS = 1,
} uvcc_model_weights_are;

typedef enum uvcc_model_mode {
    UVCC_MODEL_FAST = 0,  /**< stochastic truncation, functions round their indices: fewest bytes */
    UVCC_MODEL_EXACT = 1, /**< exact truncation and indices: equal to the reference, bit for bit */
    UVCC_MODEL_EXACT_DCF = 2, /**< the same in fewer rounds, with more bytes of keys */
} uvcc_model_mode;

/** Begin with uvcc_model_default. */
typedef struct uvcc_model_config {
    size_t size; /**< sizeof(uvcc_model_config) */

    /* architecture */
    uint32_t layers, width;
    uint32_t heads;      /**< of queries */
    uint32_t kv_heads;   /**< of keys and values, each for heads / kv_heads of queries; 0: heads */
    uint32_t head_size;  /**< columns of a head; 0: width / heads */
    uint32_t ff_width;   /**< units of the feed-forward network */
    uint8_t ff;          /**< uvcc_model_ff */
    uint8_t activation;  /**< uvcc_nonlinear: GELU (by erf), GELU_TANH, RELU or SILU */
    uint8_t norm;        /**< uvcc_model_norm */
    uint8_t order;       /**< uvcc_model_order */
    uint8_t last_norm;   /**< 1: a norm after the last layer */
    uint8_t biases;      /**< 1: products by weights have biases (those by WU excepted) */
    uint8_t mask;        /**< uvcc_model_mask */
    uint8_t padding;     /**< 1: a tensor of 0 and 1 says which tokens are none: nobody sees them */
    uint8_t positions;   /**< uvcc_model_positions */
    uint8_t head;        /**< uvcc_model_head */
    uint32_t vocabulary; /**< of tokens, one-hot or ids, and of heads, to 2^20; else 0 */
    uint8_t input;       /**< uvcc_model_input */
    uint32_t segments;   /**< kinds of tokens, one-hot or ids, to 65536 (not with TIED) */
    uint8_t embedding_norm; /**< 1: a norm behind embeddings and learned positions */
    uint8_t logits_last;    /**< 1: logits of each sequence's last token only (not with padding) */
    uint8_t pool;           /**< uvcc_model_pool; not with a head */
    uint32_t labels; /**< classes of what pool leaves, by WC and BC, to 65536; 0: none; not with a
                          head */
    uint32_t window; /**< of the mask WINDOW; else 0 */
    uint32_t window_period; /**< of the mask WINDOW: its layers repeat after so many, at most 64;
                                 0: 1 */
    uint64_t window_layers; /**< of the mask WINDOW: layer l has the window if bit l % window_period
                                 is 1; 0: all layers */
    double rope_theta;      /**< of ROTARY: above 1, at most 2^30; 0: 10000 */
    uint8_t unscaled;       /**< 1: scores are not divided by sqrt(head_size) */
    /** 1: the layers' norms have neither gain nor shift, since these were multiplied into the
     * matrices that read what the norm gives (WQ, WK and WV; W1 and WU) and their biases. Of
     * pre-norm models: there nothing else reads it. */
    uint8_t plain_norms;
    double epsilon; /**< of the norms, 0 to 1; what is below half a unit of their sums (2^-12 to
                       2^-24) counts as 0. With it mean squares are to lie from 2^-9 to 2^12 */

    /* a pass */
    /** tokens: of each sequence, to 65536. At a time there are at most 2^27 scores (exact modes:
     * 2^25), which are heads times tokens times sequences (padding: 1) times the rows of a tile:
     * tokens, but with mask CAUSAL without padding an eighth of them, 128 at most (4 at least; from
     * 8192 tokens on a 64th). Without a mask that is 3344 tokens of 12 heads in mode FAST. And
     * sequences times tokens times the greatest of width, ff_width and heads head_size is at most
     * 2^29. Padding of several sequences takes 12 numbers of ops for each and layer, of 65,024. */
    uint32_t sequences, tokens;

    /* numbers */
    uint8_t frac_bits;   /**< f: 12 to 20 */
    uint8_t value_bits;  /**< |activation| < 2^value_bits; 0: 7 */
    uint8_t weight_bits; /**< |weight| < 2^weight_bits; 0: 4 */
    uint8_t inner_bits;  /**< |attention's score|, |input of the activation| < 2^inner_bits; 0:
                              value_bits, the most. Each bit less saves a tenth of the keys */
    uint8_t index_bits;  /**< the activation is looked up in cells of 2^-index_bits
                              (uvcc_nonlinear_options): 4 to 10; 0: frac_bits - 5, 9 at most. At 0,
                              where it bends most, it is off by up to half a cell (by half of that
                              in exact modes). A bit less halves the table's work. RELU has none */
    uint8_t mode;        /**< uvcc_model_mode */
    uint8_t weights;     /**< uvcc_model_weights_are */
} uvcc_model_config;

/** A layer of BERT-base for one sequence of 128 tokens: width 768, 12 heads, 3072 units, GeLU by
 * erf, layer norms behind the sums, biases, no mask; f = 16, mode FAST. UVCC_ERR_USAGE: another
 * size. */
UVCC_API int uvcc_model_default(uvcc_model_config *c, size_t size);
/** Whether there is such a model. UVCC_ERR_CONFIG or UVCC_ERR_BOUND (sums need more than 62 bits);
 * message (may be NULL) names the field, and to what it must fall. What it takes,
 * uvcc_model_program and uvcc_model_cost take. */
UVCC_API int uvcc_model_check(const uvcc_model_config *c, char *message, size_t message_cap);

/** The index_bits of a pass: what was given, or what frac_bits give; of NULL 0. */
UVCC_API uint8_t uvcc_model_index_bits(const uvcc_model_config *c);

/* ---- weights ---- */

typedef enum uvcc_model_weight_kind {
    UVCC_MODEL_WEIGHT_MATRIX =
        0, /**< inputs x outputs: the transpose of what PyTorch's Linear has */
    UVCC_MODEL_WEIGHT_BIAS = 1,
    UVCC_MODEL_WEIGHT_GAIN = 2, /**< of a norm */
    UVCC_MODEL_WEIGHT_SHIFT = 3,
    UVCC_MODEL_WEIGHT_TABLE = 4, /**< a row for each position */
} uvcc_model_weight_kind;

#define UVCC_MODEL_NO_LAYER UINT32_MAX

/** A weight; the order of the list is that of all calls below. */
typedef struct uvcc_model_weight {
    char name[32]; /**< "P", "L0.WQ", .. "LFn": docs/models.md has them all */
    uint32_t rows, cols;
    uint32_t layer; /**< or UVCC_MODEL_NO_LAYER */
    uint8_t bits, scale;
    uint8_t kind; /**< uvcc_model_weight_kind */
} uvcc_model_weight;

/** 0 of what uvcc_model_check refuses. */
UVCC_API uint32_t uvcc_model_weight_count(const uvcc_model_config *c);
/** 0, and weight i in *out. UVCC_ERR_NOT_FOUND: there is no weight i; UVCC_ERR_USAGE: no *out; else
 * what uvcc_model_check gives. */
UVCC_API int uvcc_model_weight_at(const uvcc_model_config *c, uint32_t i, uvcc_model_weight *out);
/** Elements of all weights; 0 of what uvcc_model_check refuses. */
UVCC_API uint64_t uvcc_model_parameters(const uvcc_model_config *c);
/** Makes a PERSIST tensor for each weight, named `prefix` (at most 20 bytes) and its name; their
 * indices go into tensors[uvcc_model_weight_count]. UVCC_ERR_CONFIG, too: the program has a tensor
 * of such a name, as from a call before with this prefix. Other errors as of uvcc_model_check and
 * uvcc_program_tensor. */
UVCC_API int uvcc_model_weights(const uvcc_model_config *c, uvcc_program *p, const char *prefix,
                                uint32_t *tensors, char *message, size_t message_cap);

/* ---- ops ---- */

/** Shapes of x (as `input` says) and of `padding` (NULL: not asked), sequences x tokens of scale 0,
 * 1 where there is no token: without names, TRANSIENT. UVCC_ERR_USAGE. */
UVCC_API int uvcc_model_inputs(const uvcc_model_config *c, uvcc_tensor_desc *x,
                               uvcc_tensor_desc *padding);
/** Shape of what comes out, at scale f: a row for each token (hidden states, logits, labels), or
 * with logits_last or a pool for each sequence. UVCC_ERR_USAGE. */
UVCC_API int uvcc_model_output(const uvcc_model_config *c, uint32_t *rows, uint32_t *cols);
/** Emits the forward pass from tensor x (shape, scale and at most the bits of uvcc_model_inputs;
 * it is not written) and `padding` (UVCC_NO_TENSOR: none, where the model has none) by the weights,
 * whose tensors uvcc_model_weights made. *out is what comes out, of the shape that
 * uvcc_model_output says. e: as in uvcc_emit_nonlinear, the prefix has at most 20 bytes and is
 * before all names of tensors that are made, so that several models stand in one program. After an
 * error, whose line goes into message, the program is of no further use. */
UVCC_API int uvcc_model_emit(const uvcc_model_config *c, uvcc_emit *e, const uint32_t *weights,
                             uint32_t x, uint32_t padding, uint32_t *out, char *message,
                             size_t message_cap);
/** The same for layer `layer` alone, without embeddings, positions, norms around and heads: from
 * hidden states of value_bits to hidden states. */
UVCC_API int uvcc_model_emit_layer(const uvcc_model_config *c, uvcc_emit *e, uint32_t layer,
                                   const uint32_t *weights, uint32_t x, uint32_t padding,
                                   uint32_t *out, char *message, size_t message_cap);

/* ---- whole programs ---- */

enum {
    UVCC_MODEL_IN_X = 1,       /**< x */
    UVCC_MODEL_IN_PADDING = 2, /**< where the model has it */
    UVCC_MODEL_OUT_Y = 3,      /**< scale f; in mode FAST f - UVCC_MODEL_OPEN_SHIFT */
};

/** A finished program with the weights as PERSIST tensors under their names and the entry
 * "forward": the inputs are given by `owner` (0..2), the output opens to `receiver` (0..2 or
 * UVCC_TO_ALL). Errors as of uvcc_model_emit and uvcc_program_finish. */
UVCC_API int uvcc_model_program(uvcc_program **out, const uvcc_model_config *c, uint8_t owner,
                                uint8_t receiver, const uvcc_allocator *al, char *message,
                                size_t message_cap) UVCC_MUST_USE;

/** That entry alone, in a program of your own whose `weights` uvcc_model_weights made: for weights
 * that are inputs of another entry, or computed. With the lifetime UVCC_PERSIST x stays, so that
 * uvcc_session_shares() gives its shares after the step; else UVCC_TRANSIENT. UVCC_ERR_USAGE: owner
 * or receiver is no party; else as of uvcc_model_emit. */
UVCC_API int uvcc_model_forward(const uvcc_model_config *c, uvcc_program *p,
                                const uint32_t *weights, uint8_t owner, uint8_t receiver,
                                uint8_t lifetime, const uvcc_allocator *al, char *message,
                                size_t message_cap) UVCC_MUST_USE;

/** The entry "forward" for values that are no party's, such as a client's (<uvcc/request.h>): X,
 * and PADDING where the model has it, are PERSIST tensors of these names, whose shares hosts set by
 * uvcc_session_set_shares() before each step; what comes out, of the scale of UVCC_MODEL_OUT_Y,
 * stays in the PERSIST tensor Y, opened to nobody: uvcc_session_shares() gives a party its two
 * components. With input TOKENS X takes keys that the client deals (uvcc_client_deal). Errors as of
 * uvcc_model_emit. */
UVCC_API int uvcc_model_forward_shared(const uvcc_model_config *c, uvcc_program *p,
                                       const uint32_t *weights, const uvcc_allocator *al,
                                       char *message, size_t message_cap) UVCC_MUST_USE;

/** The same pass as a step for each layer, for weights of which few fit at a time: of the layers'
 * weights there are the tensors of one layer, "L0.WQ" and so on, which all layers have in common,
 * and whose shares the host sets (uvcc_session_set_shares) before the step of each.
 * tensors[uvcc_model_weight_count] becomes the tensor of each weight. Steps, in this order:
 * "embed", with the inputs of "forward"; for each layer that entry which
 * uvcc_model_streamed_entry() names; "head", with the output. Between them hidden states stay in
 * the PERSIST tensor H, and with padding PADDING stays. In the exact modes what opens is what
 * "forward" opens, to the bit. UVCC_ERR_CONFIG: public weights; else as of uvcc_model_forward. */
UVCC_API int uvcc_model_forward_streamed(const uvcc_model_config *c, uvcc_program *p, uint8_t owner,
                                         uint8_t receiver, uint32_t *tensors,
                                         const uvcc_allocator *al, char *message,
                                         size_t message_cap) UVCC_MUST_USE;
/** The same for values that are no party's, as of uvcc_model_forward_shared: X, and PADDING where
 * the model has it, are PERSIST tensors whose shares hosts set before "embed", which has no inputs;
 * Y stays behind "head", which opens nothing. Errors as of uvcc_model_forward_streamed. */
UVCC_API int uvcc_model_forward_streamed_shared(const uvcc_model_config *c, uvcc_program *p,
                                                uint32_t *tensors, const uvcc_allocator *al,
                                                char *message, size_t message_cap) UVCC_MUST_USE;
/** "layer", or "window" of a layer whose tokens see a window where those of layer 0 do not, or the
 * other way round. NULL: there is no such layer. */
UVCC_API const char *uvcc_model_streamed_entry(const uvcc_model_config *c, uint32_t layer);

/** What one run of "forward" takes, as uvcc_program_cost counts it over all three parties: without
 * the headers of messages, about 37 bytes each, and those of transports. */
typedef struct uvcc_model_costs {
    uint32_t rounds;
    uint64_t online_bytes, key_bytes;
    /** Of a party's tensors at one time, as uvcc_program_memory bounds them. */
    uint64_t transient_bytes;
    uint64_t weight_bytes; /**< of a party's shares of the weights, public ones' values */
} uvcc_model_costs;
/** *out is changed on success only. Errors as of uvcc_model_program. */
UVCC_API int uvcc_model_cost(const uvcc_model_config *c, const uvcc_allocator *al,
                             uvcc_model_costs *out, char *message, size_t message_cap);

/** "forward" in plaintext, bit for bit what it opens in the exact modes (mode FAST: with floors
 * where it rounds stochastically). weights: all of them one after the other, row by row; x as
 * uvcc_model_inputs says, padding NULL where the model has none; y has room for what
 * uvcc_model_output says. UVCC_ERR_BOUND: a value left its declared bits, message names the tensor;
 * or a token or segment is none of the model's, or padding has a value other than 0 and 1: message
 * names its place. */
UVCC_API int uvcc_model_reference(const uvcc_model_config *c, const uvcc_allocator *al,
                                  const int64_t *weights, const int64_t *x, const int64_t *padding,
                                  int64_t *y, char *message, size_t message_cap);

#ifdef __cplusplus
}
#endif
#endif
