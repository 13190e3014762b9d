/* SPDX-License-Identifier: Apache-2.0 */
/* finetune_program.c - programs of fine-tuning: forward by model_ends.h and transformer_layer.c,
 * backward by finetune_backward.c, updates by transformer_update.c. */
#include "exec/model/finetune.h"
#include "exec/model/model_ends.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/compute.h>

/* What is built, and of what. */
typedef struct tuning {
    const uvcc_finetune_config *c;
    uvcc_transformer_config training;
    uvcci_tf_builder b;
    uvcci_ft_batch *batches; /* [microbatches] */
} tuning;

/* ---- tensors that stay ---- */

static void add_trained(uvcci_tf_builder *b, uvcci_tf_held *h) {
    h->ways = 1;
    h->tensor =
        uvcci_tf_persist(b, "", h->about.name, h->part.rows, h->part.cols, b->n.weight, b->n.f);
    uvcci_tf_optimizer_state(b, h, h->part.rows, h->part.cols);
}

static void add_frozen(uvcci_tf_builder *b, uvcci_tf_held *h, bool open) {
    h->frozen = true;
    h->tensor =
        uvcci_tf_tensor(b, h->about.name,
                        (uvcc_tensor_desc){.rows = h->part.rows,
                                           .cols = h->part.cols,
                                           .bits = b->n.weight,
                                           .scale = b->n.f,
                                           .lifetime = UVCC_PERSIST,
                                           .sharing = open ? UVCC_PUBLIC : UVCC_REPLICATED});
}

static void add_weights(tuning *t) {
    uvcci_tf_builder *b = &t->b;
    uvcc_finetune_weight w;
    b->scope[0] = 0;
    b->rate = uvcci_tf_persist(b, "", "rate", 1, 1, UVCC_TRANSFORMER_RATE_BITS + 2,
                               UVCC_TRANSFORMER_RATE_BITS - (unsigned)b->n.unit);
    for (uint32_t i = 0; i < b->weight_count && b->err == 0; i++) {
        uvcci_tf_held *h = &b->weights[i];
        (void)uvcci_ft_weight(t->c, i, &w);
        const bool tied = t->c->model.head == UVCC_MODEL_HEAD_TIED &&
                          t->c->model.input == UVCC_MODEL_INPUT_ONE_HOT;
        *h = (uvcci_tf_held){.held = true,
                             .group = UVCC_GROUP_STAGE,
                             .about = {.rows = w.about.rows,
                                       .cols = w.about.cols,
                                       .decays = w.about.kind == UVCC_MODEL_WEIGHT_MATRIX},
                             .part = {.rows = w.about.rows, .cols = w.about.cols},
                             .uses = tied && strcmp(w.about.name, "E") == 0 ? 2 : 1,
                             .sum = UVCC_NO_TENSOR};
        memcpy(h->about.name, w.about.name, sizeof h->about.name);
        if (w.trained)
            add_trained(b, h);
        else
            add_frozen(b, h, w.open != 0);
    }
}

/* ---- forward ---- */

static uint32_t input(tuning *t, const char *name, uvcc_tensor_desc d, uint32_t id, uint8_t owner) {
    uvcci_tf_builder *b = &t->b;
    const uint32_t x = uvcci_tf_transient(b, name, d.rows, d.cols, d.bits, d.scale);
    if (b->err == 0)
        uvcci_tf_note(b, uvcc_program_input_mb(b->p, id, x, owner, b->mb));
    return x;
}

static void inputs(tuning *t, uvcci_ft_batch *batch, uint32_t x_id, uint32_t padding_id,
                   uint32_t targets_id) {
    const uvcc_finetune_config *c = t->c;
    uvcc_tensor_desc x, padding, targets = {.bits = 1};
    (void)uvcc_model_inputs(&c->model, &x, &padding);
    (void)uvcc_model_output(&c->model, &targets.rows, &targets.cols);
    batch->padding = UVCC_NO_TENSOR;
    batch->tf.tokens = input(t, "X", x, x_id, c->text_owner);
    if (c->model.padding)
        batch->padding = input(t, "PADDING", padding, padding_id, c->text_owner);
    batch->tf.targets = input(t, "TARGETS", targets, targets_id, c->label_owner);
}

static uint32_t embed(uvcci_tf_builder *b, uvcci_ft_batch *batch) {
    static const char *const first[] = {"XN", "NE", "RE"};
    uint32_t x = batch->tf.tokens;
    if (b->m.input == UVCC_MODEL_INPUT_ONE_HOT)
        x = uvcci_model_embed(b, x);
    x = uvcci_model_add_positions(b, x);
    if (!b->m.embedding_norm)
        return x;
    batch->first = uvcci_tf_normalise(b, first, x, 0, UVCCI_TF_GE, UVCCI_TF_CE);
    return batch->first.y;
}

/* To what the head gives. */
static uint32_t forward(tuning *t, uvcci_ft_batch *batch) {
    static const char *const last[] = {"YF", "NF", "RF"};
    uvcci_tf_builder *b = &t->b;
    char scope[sizeof b->scope];
    snprintf(scope, sizeof scope, "%s", b->scope);
    uvcci_tf_enter(b, UVCC_FWD, b->mb, UVCCI_TF_BLOCK_IN);
    b->padding = UVCC_NO_TENSOR;
    uvcci_model_take_padding(b, batch->padding);
    uvcci_model_take_rotary(b);
    uint32_t x = embed(b, batch);
    for (uint32_t l = 0; l < b->m.layers && b->err == 0; l++) {
        uvcci_tf_enter(b, UVCC_FWD, b->mb, uvcci_tf_layer_block(b, l));
        uvcci_tf_scope(b, scope, l);
        b->window = uvcci_model_window(&b->m, l);
        batch->tf.layers[l].x = x;
        x = uvcci_tf_layer_forward(b, &batch->tf.layers[l], l, x);
    }
    snprintf(b->scope, sizeof b->scope, "%s", scope);
    uvcci_tf_enter(b, UVCC_FWD, b->mb, UVCCI_TF_BLOCK_OUT);
    if (b->m.last_norm) {
        batch->tf.last = uvcci_tf_normalise(b, last, x, 0, UVCCI_TF_GF, UVCCI_TF_CF);
        x = batch->tf.last.y;
    }
    batch->hidden = batch->pooled = x;
    if (b->m.labels == 0)
        return uvcci_model_head(b, x, batch->padding);
    if (b->m.pool != UVCC_MODEL_POOL_NONE)
        batch->pooled = uvcci_model_pooled(b, x, batch->padding);
    if (b->opens_logits)
        b->truncation = uvcci_tf_exact(b);
    return uvcci_tf_linear(b, "LABELS", batch->pooled, 0, UVCCI_TF_WC, UVCCI_TF_BC);
}

/* ---- entries ---- */

static void begin(tuning *t, const char *name, uint16_t first_index) {
    uvcci_tf_builder *b = &t->b;
    uvcci_tf_note(b, uvcc_program_entry(b->p, name));
    b->truncation = t->training.truncation;
    b->opens_logits = b->derivatives = b->keeps = b->trains = false;
    b->loss = UVCC_NO_TENSOR;
    b->mb = 0;
    b->first_index = first_index;
    b->scope[0] = 0;
}

static void train_forward(tuning *t, uint32_t mb) {
    uvcci_tf_builder *b = &t->b;
    uvcci_ft_batch *batch = &t->batches[mb];
    uint32_t losses = UVCC_NO_TENSOR;
    inputs(t, batch, UVCC_FINETUNE_IN_X + mb, UVCC_FINETUNE_IN_PADDING + mb,
           UVCC_FINETUNE_IN_TARGETS + mb);
    const uint32_t logits = forward(t, batch);
    uvcci_tf_cross_entropy(b, &batch->tf, logits, t->c->loss ? &losses : NULL);
    if (t->c->loss)
        uvcci_tf_add_losses(b, losses, 1, t->c->microbatches);
}

static void add_train(tuning *t) {
    uvcci_tf_builder *b = &t->b;
    begin(t, "train", 0);
    b->keeps = b->derivatives = b->trains = uvcci_ft_goes_back(t->c);
    for (unsigned backward = 0; backward < 2; backward++)
        for (uint32_t mb = 0; mb < t->c->microbatches && b->err == 0; mb++) {
            snprintf(b->scope, sizeof b->scope, "m%u.", mb);
            b->mb = (uint16_t)mb;
            if (backward)
                uvcci_ft_backward(b, t->c, &t->batches[mb]);
            else
                train_forward(t, mb);
        }
    if (b->err == 0)
        uvcci_tf_update(b);
    if (!t->c->loss || b->err != 0)
        return;
    snprintf(b->scope, sizeof b->scope, "u.");
    uvcci_tf_enter_end(b);
    uvcci_tf_open_loss(b, UVCC_GROUP_STAGE, 1, UVCC_FINETUNE_OUT_LOSS);
}

/* The likeliest label of each row. */
static void open_labels(tuning *t, uint32_t logits) {
    static const char *const place[] = {"PLACE"};
    uvcci_tf_builder *b = &t->b;
    uint32_t labels = 0;
    uvcci_tf_function(b, UVCC_NL_ARGMAX, (uvcc_nonlinear_options){0}, &logits, place, &labels);
    if (b->err == 0)
        uvcci_tf_note(b, uvcc_program_output_to(b->p, UVCC_FINETUNE_OUT_EVAL_LABELS, labels,
                                                t->c->label_owner));
}

static void add_eval(tuning *t) {
    uvcci_tf_builder *b = &t->b;
    uvcci_ft_batch *batch = &t->batches[0];
    uint32_t losses = 0;
    begin(t, "eval", 1);
    snprintf(b->scope, sizeof b->scope, "e.");
    b->opens_logits = true;
    inputs(t, batch, UVCC_FINETUNE_IN_EVAL_X, UVCC_FINETUNE_IN_EVAL_PADDING,
           UVCC_FINETUNE_IN_EVAL_TARGETS);
    const uint32_t logits = forward(t, batch);
    uvcci_tf_cross_entropy(b, &batch->tf, logits, &losses);
    uvcci_tf_add_losses(b, losses, 1, 1);
    if (t->c->model.labels != 0)
        open_labels(t, logits);
    uvcci_tf_open_loss(b, UVCC_GROUP_STAGE, 1, UVCC_FINETUNE_OUT_EVAL_LOSS);
}

static void add_reveal(tuning *t) {
    uvcci_tf_builder *b = &t->b;
    uint32_t block = UVCCI_TF_BLOCK_LAYER;
    begin(t, "reveal", 2);
    for (uint32_t i = 0; i < b->weight_count && b->err == 0; i++) {
        const uvcci_tf_held *h = &b->weights[i];
        if (h->frozen)
            continue;
        const uint32_t out = uvcci_tf_revealed(b, h, block++), id = UVCC_FINETUNE_OUT_WEIGHT + i;
        if (b->err != 0)
            return;
        uvcci_tf_note(b, t->c->receiver == UVCC_TO_ALL
                             ? uvcc_program_output(b->p, id, out)
                             : uvcc_program_output_to(b->p, id, out, t->c->receiver));
    }
}

/* ---- the program ---- */

/* The builder of models, with what training reads. */
static void set_up(tuning *t, uvcc_program *p, const uvcc_allocator *al) {
    const uvcc_finetune_config *c = t->c;
    const uvcc_emit e = {.program = p, .phase = UVCC_FWD, .prefix = "", .alloc = al};
    uvcci_tf_builder *b = &t->b;
    t->training = uvcci_ft_training(c);
    *b = uvcci_model_builder(&c->model, &e, NULL);
    if (uvcci_ft_goes_back(c) && b->m.index_bits == 0)
        b->m.index_bits = UVCCI_MODEL_INDEX_BITS_MAX;
    b->c = &t->training;
    b->layers = c->model.layers;
    b->first_stage = b->last_stage = true;
    b->select = b->temperature = UVCC_NO_TENSOR;
    b->n.tokens = (uint8_t)uvcci_tf_log2((uint64_t)uvcc_finetune_rows(c) * c->microbatches);
    uvcci_tf_optimizer_numbers(&t->training, &b->n);
    b->n.layer_blocks = uvcci_ft_layer_blocks(c);
    b->adapted = c->method == UVCC_FINETUNE_LORA ? c->adapted : 0;
    b->adapters = uvcci_model_weights(&c->model);
    b->weight_count = uvcc_finetune_weight_count(c);
}

static size_t room_bytes(const tuning *t) {
    const size_t batches = t->c->microbatches;
    return t->b.weight_count * sizeof *t->b.weights + batches * sizeof *t->batches +
           batches * t->b.layers * sizeof *t->b.layer_room;
}

static void lay_out(tuning *t, void *mem) {
    uvcci_tf_builder *b = &t->b;
    t->batches = mem;
    b->layer_room = (uvcci_tf_layer *)(t->batches + t->c->microbatches);
    b->weights = (uvcci_tf_held *)(b->layer_room + (size_t)t->c->microbatches * b->layers);
    for (uint32_t mb = 0; mb < t->c->microbatches; mb++)
        t->batches[mb].tf.layers = b->layer_room + (size_t)mb * b->layers;
}

static int build(tuning *t, const uvcci_message *m) {
    uvcci_tf_builder *b = &t->b;
    add_weights(t);
    add_train(t);
    add_eval(t);
    add_reveal(t);
    if (b->err != 0)
        return uvcci_fail(m, b->err, "%s%s%s", b->culprit, b->culprit[0] ? ": " : "",
                          uvcc_error_text(b->err));
    return uvcc_program_finish(b->p, m->text, m->cap);
}

/* On an error nothing is left. */
int uvcc_finetune_program(uvcc_program **out, const uvcc_finetune_config *c,
                          const uvcc_allocator *al, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p = NULL;
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the program");
    int err = uvcc_finetune_check(c, message, message_cap);
    if (err != 0)
        return err;
    tuning t = {.c = c};
    err = uvcc_program_new(&p, al);
    if (err != 0)
        return uvcci_fail(&m, err, "out of memory");
    set_up(&t, p, al);
    const size_t bytes = room_bytes(&t);
    void *mem = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (mem == NULL) {
        uvcc_program_free(p);
        return uvcci_fail(&m, UVCC_ERR_NOMEM, "out of memory");
    }
    memset(mem, 0, bytes);
    lay_out(&t, mem);
    err = build(&t, &m);
    al->free(al->user, mem, bytes, UVCC_MEM_STATE);
    if (err != 0)
        uvcc_program_free(p);
    else
        *out = p;
    return err;
}
