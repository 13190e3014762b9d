/* SPDX-License-Identifier: Apache-2.0 */
/* description.h - what config.json of the library `transformers` says of a model, of the kinds
 * bert, gpt2, gpt_neo and llama. It says all that these models compute, also what uvcc_model_config
 * has no field for yet; description_config() makes one of it, or refuses by name. */
#ifndef UVCC_TOOLS_MODEL_DESCRIPTION_H
#define UVCC_TOOLS_MODEL_DESCRIPTION_H

#include <jansson.h>
#include <uvcc/model.h>

#include "../flags.h"

typedef enum model_family { FAMILY_BERT, FAMILY_GPT2, FAMILY_GPT_NEO, FAMILY_LLAMA } model_family;

typedef struct model_description {
    model_family family;
    uint32_t layers, width, heads, kv_heads, head_size, ff_width;
    uint32_t vocabulary, positions; /* positions: the most tokens */
    uint32_t types;                 /* of tokens, BERT's segments; 0: none */
    uint8_t ff, activation, norm, order, last_norm, biases; /* as in uvcc_model_config */
    bool causal;
    bool learned, rotary; /* positions: a table that is added; turned pairs of Q and K */
    double theta;         /* of rotary ones */
    bool tied;            /* logits are made by the embeddings of tokens */
    uint32_t labels;      /* of a classifier */
    bool unscaled;        /* scores are not divided by the root of the head size */
    bool embedding_norm;
    double epsilon;
    uint32_t window;                      /* of local layers: itself and those before it */
    uint8_t local[UVCC_MODEL_MAX_LAYERS]; /* 1: only the window is seen */
    char unknown[512]; /* members of config.json that nobody knows here, "a, b"; "": none */
} model_description;

/* `path`: the file, for the line. 0, or -1 and a line that names the member and its value. */
int description_read(model_description *out, const json_t *config, const char *path,
                     const flag_message *m);
/* "bert", as config.json has it. */
const char *description_family(const model_description *d);

/* What comes out of a pass. */
typedef enum model_gives {
    GIVES_HIDDEN,
    GIVES_LOGITS,
    GIVES_LAST_LOGITS, /* of each sequence's last token */
    GIVES_POOLED,      /* of each sequence, as BERT's pooler does it */
    GIVES_LABELS,      /* what a classifier makes of that */
    GIVES_USUAL,       /* to model_load(): what such a checkpoint is for */
} model_gives;

/* What goes in. */
typedef enum model_takes {
    TAKES_HIDDEN,  /* rows of embeddings */
    TAKES_TOKENS,  /* numbers of tokens, which nobody but their owner sees */
    TAKES_ONE_HOT, /* rows of the vocabulary, which are shared whole */
} model_takes;

/* Numbers and sizes of a pass, as options and files give them. */
typedef struct model_pass {
    uint32_t sequences, tokens;
    uint32_t frac_bits, value_bits, weight_bits, inner_bits, index_bits;
    uint32_t takes; /* model_takes */
    uint32_t gives; /* model_gives */
    uint32_t mode;  /* uvcc_model_mode */
    bool padding, public_weights;
    bool fold; /* the layers' norms are plain: their gains and shifts are in what reads them */
} model_pass;

/* Their words, in the order of the numbers: gives without GIVES_USUAL; and whether weights are
 * public. */
extern const char *const model_gives_names[], *const model_mode_names[],
                                                  *const model_weights_names[];

/* What the library takes of it for such a pass: 0, or UVCC_ERR_* and a line that names what is not
 * there yet, or what does not fit. The weights' list and shapes are right in *out all the same,
 * under the least numbers, unless UVCC_ERR_USAGE says that there is no such list. */
int description_config(const model_description *d, const model_pass *pass, uvcc_model_config *out,
                       char *message, size_t message_cap);
/* Of a model that looks its activation up, of which ReLU has no need: the index_bits, else 0; the
 * same as text behind other numbers, ", index_bits 9", or nothing; and in JSON, or null. */
unsigned description_index_bits(const uvcc_model_config *c);
void description_show_index(const uvcc_model_config *c, FILE *to);
json_t *description_index_json(const uvcc_model_config *c);
/* Whether layer l sees less than all tokens before it, of so many. */
bool description_is_local(const model_description *d, uint32_t layer, uint32_t tokens);

#endif
