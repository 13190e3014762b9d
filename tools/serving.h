/* SPDX-License-Identifier: Apache-2.0 */
/* serving.h - the program of a job that serves clients (docs/clients.md): a perceptron whose
 * weights one party gives, and whose input and output are shares that a client has split and will
 * put together; and what requests of it, or of a transformer, are like. */
#ifndef UVCC_TOOLS_SERVING_H
#define UVCC_TOOLS_SERVING_H

#include <uvcc/mlp.h>
#include <uvcc/request.h>

#include "flags.h"
#include "model/description.h"

/* Bits before the binary point: of rows and of what layers give, and of weights. */
enum { SERVING_RANGE_BITS = 8, SERVING_WEIGHT_BITS = 4 };
enum { SERVING_ROWS_MAX = 4096 };

typedef struct serving_model {
    uint32_t features, classes;
    flag_list hidden;
    uint32_t frac_bits;
    uint32_t rows; /* of a request at most */
    uint32_t compare, products;
    uint32_t weights_owner;
} serving_model;

/* Ids of inputs and outputs of the entries. */
enum {
    SERVING_IN_WEIGHT = 100, /* + 2 * layer, bias + 1 */
    SERVING_IN_OFFER = 10,   /* + party */
    SERVING_OUT_OFFER = 20,  /* + party */
};

/* Where things are in the program. Tensors are PERSIST. */
typedef struct serving_program {
    uint32_t weights_entry, choose_entry, serve_entry;
    uint32_t asked, answer;
    uint32_t padding; /* takes the last column of what is asked; UVCC_NO_TENSOR: there is none */
} serving_program;

/* Layers, and the shape of W of one. */
uint32_t serving_layers(const serving_model *m);
void serving_shape(const serving_model *m, uint32_t layer, uint32_t *in, uint32_t *out);
/* Values of all weights, W0, b0, W1, ... */
uint64_t serving_weights(const serving_model *m);
/* words: of an offer (serve_offer.h). 0 or UVCC_ERR_*, and then one line in the message. */
int serving_make(const serving_model *m, uint32_t words, uint32_t word_bits, uvcc_program **out,
                 serving_program *at, const flag_message *message);

/* Offers of the three parties that open to all (serve_offer.h), as the entry "choose": 0 or
 * UVCC_ERR_*. */
int serving_add_choose(uvcc_program *p, uint32_t words, uint32_t word_bits);

/* What requests of a model are like: so many units, of a perceptron rows, of a transformer
 * sequences. */
typedef struct serving_form {
    uint32_t entry;              /* of a request: what its values are, and what is asked for */
    uint32_t units;              /* at most */
    uint32_t in_rows, in_cols;   /* of a unit */
    uint32_t out_rows, out_cols; /* likewise */
    uint32_t key_cols, key_bits; /* numbers that go as keys, in rows as many; 0: there are none */
    uint8_t terms[12];           /* of a transformer: serving_terms */
} serving_form;
/* In the entry of a transformer's requests; those of a perceptron have their fraction bits alone.
 */
#define SERVING_PASS (1u << 28)

/* What a client of a transformer has alike with the parties besides, as the terms of a request are
 * put together (docs/clients.md): numbers of "run", and of "model" a hash. */
void serving_put_terms(serving_form *f, const model_pass *p, uint32_t weights_owner,
                       uint32_t model);

serving_form serving_perceptron(uint32_t features, uint32_t classes, uint32_t frac_bits,
                                uint32_t rows);
uvcc_request_shape serving_request(const serving_form *f, uint32_t units);
/* Words of each of a party's components of such a request: of its values, and of its keys. */
uint64_t serving_values(const uvcc_request_shape *s);
uint64_t serving_key_words(const uvcc_request_shape *s);
/* Bytes that a party keeps of the largest one with its answer (docs/clients.md), at least. */
uint64_t serving_bytes(const serving_form *f);
/* In what it differs from those of this form, as bits that a refusal carries (docs/clients.md); 0:
 * it is one. */
uint32_t serving_differs(const serving_form *f, const uvcc_request_shape *s);
/* Their names, "value_bits, model", each behind `before`; words that say so where no bit has a
 * name, as of a party of another version. */
#define SERVING_NAMES_BYTES 512u
void serving_names(uint32_t differs, const char *before, char out[SERVING_NAMES_BYTES]);

#endif
