/* SPDX-License-Identifier: Apache-2.0 */
/* model_program.c - whole programs of models: the entry "forward", what it costs, and its plaintext
 * twin. */
#include "exec/model/model_ends.h"
#include "exec/program/program.h"

#include <assert.h>
#include <string.h>
#include <uvcc/model.h>

/* ---- programs ---- */

/* What comes out: y, in mode FAST truncated once more, exactly, for what was rounded stochastically
 * would tell more than itself. A tensor that is to stay is a new one. */
static int given_out(const uvcc_model_config *c, uvcc_program *p, uint16_t k, uint32_t y,
                     uint8_t lifetime) {
    const bool fast = c->mode == UVCC_MODEL_FAST;
    if (!fast && lifetime == UVCC_TRANSIENT)
        return (int)y;
    uvcc_tensor_desc d = *uvcc_program_tensor_at(p, y);
    d.name = "Y";
    d.bits -= fast ? UVCC_MODEL_OPEN_SHIFT : 0;
    d.scale -= fast ? UVCC_MODEL_OPEN_SHIFT : 0;
    d.lifetime = lifetime;
    d.in_buffer_of = UVCC_NO_TENSOR;
    const int out = uvcc_program_tensor(p, &d);
    if (out < 0)
        return out;
    uvcc_op_desc op = {.name = "Y",
                       .opcode = UVCC_OP_ADD_PUBLIC, /* of 0: a copy */
                       .k = k,
                       .in_count = 1,
                       .in = {y},
                       .out_count = 1,
                       .out = {(uint32_t)out}};
    if (fast) {
        op.opcode = UVCC_OP_TRUNCATE;
        op.shift = UVCC_MODEL_OPEN_SHIFT;
        op.truncation = UVCC_TRUNC_EXACT;
    }
    const int err = uvcc_program_op(p, &op);
    return err < 0 ? err : out;
}

/* Whose the input is, and to whom what comes out opens; and how long both stay. */
typedef struct ends {
    bool shared; /* of and to nobody here: hosts set shares, and read them */
    uint8_t owner, receiver, lifetime;
} ends;

static int add_input(uvcc_program *p, const char *name, uvcc_tensor_desc d, uint32_t id,
                     const ends *of) {
    d.name = name;
    const int t = uvcc_program_tensor(p, &d);
    const int err = t < 0 || of->shared ? t : uvcc_program_input(p, id, (uint32_t)t, of->owner);
    return err < 0 ? err : t;
}

static int add_output(const uvcc_model_config *c, uvcc_program *p, uint16_t k, uint32_t y,
                      const ends *to) {
    const int out = given_out(c, p, k, y, to->shared ? UVCC_PERSIST : UVCC_TRANSIENT);
    if (out < 0 || to->shared)
        return out;
    return to->receiver == UVCC_TO_ALL
               ? uvcc_program_output(p, UVCC_MODEL_OUT_Y, (uint32_t)out)
               : uvcc_program_output_to(p, UVCC_MODEL_OUT_Y, (uint32_t)out, to->receiver);
}

static int add_forward(const uvcc_model_config *c, uvcc_program *p, const uint32_t *weights,
                       const ends *of, const uvcc_allocator *al, const uvcci_message *m) {
    uvcc_tensor_desc x, pad;
    uvcc_emit e = {.program = p, .phase = UVCC_FWD, .prefix = "", .alloc = al};
    uint32_t y = 0;
    int padding = (int)UVCC_NO_TENSOR;
    (void)uvcc_model_inputs(c, &x, &pad);
    x.lifetime = of->lifetime;
    pad.lifetime = of->shared ? UVCC_PERSIST : UVCC_TRANSIENT;
    int err = uvcc_program_entry(p, "forward");
    const int in = err < 0 ? err : add_input(p, "X", x, UVCC_MODEL_IN_X, of);
    if (in >= 0 && c->padding)
        padding = add_input(p, "PADDING", pad, UVCC_MODEL_IN_PADDING, of);
    if (in < 0 || (c->padding && padding < 0))
        return uvcci_fail(m, in < 0 ? in : padding, "X or PADDING: %s",
                          uvcc_error_text(in < 0 ? in : padding));
    err = uvcc_model_emit(c, &e, weights, (uint32_t)in, (uint32_t)padding, &y, m->text, m->cap);
    if (err < 0)
        return err;
    err = add_output(c, p, e.k, y, of);
    return err < 0 ? uvcci_fail(m, err, "Y: %s", uvcc_error_text(err)) : 0;
}

static int check_parties(uint8_t owner, uint8_t receiver, const uvcci_message *m) {
    return owner < UVCC_PARTIES && (receiver < UVCC_PARTIES || receiver == UVCC_TO_ALL)
               ? 0
               : uvcci_fail(m, UVCC_ERR_USAGE, "owner or receiver is no party");
}

static int check_forward(const uvcc_model_config *c, const uvcc_program *p, const uint32_t *weights,
                         const uvcc_allocator *al, const uvcci_message *m) {
    if (p == NULL || weights == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return uvcci_fail(m, UVCC_ERR_USAGE, "there is no program, weight or allocator");
    return uvcc_model_check(c, m->text, m->cap);
}

int uvcc_model_forward(const uvcc_model_config *c, uvcc_program *p, const uint32_t *weights,
                       uint8_t owner, uint8_t receiver, uint8_t lifetime, const uvcc_allocator *al,
                       char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    const ends of = {.owner = owner, .receiver = receiver, .lifetime = lifetime};
    int err = check_forward(c, p, weights, al, &m);
    if (err == 0)
        err = check_parties(owner, receiver, &m);
    return err == 0 ? add_forward(c, p, weights, &of, al, &m) : err;
}

int uvcc_model_forward_shared(const uvcc_model_config *c, uvcc_program *p, const uint32_t *weights,
                              const uvcc_allocator *al, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    const ends of = {.shared = true, .lifetime = UVCC_PERSIST};
    int err = check_forward(c, p, weights, al, &m);
    return err == 0 ? add_forward(c, p, weights, &of, al, &m) : err;
}

/* ---- a step for each layer ---- */

/* The first layer of another window than layer 0 has; c->layers: all are alike. */
static uint32_t other_layer(const uvcc_model_config *c) {
    uint32_t l = 0;
    while (l < c->layers && uvcci_model_window(c, l) == uvcci_model_window(c, 0))
        l++;
    return l;
}

const char *uvcc_model_streamed_entry(const uvcc_model_config *c, uint32_t layer) {
    if (uvcc_model_check(c, NULL, 0) != 0 || layer >= c->layers)
        return NULL;
    return uvcci_model_window(c, layer) == uvcci_model_window(c, 0) ? "layer" : "window";
}

/* The weights of all layers are those of the first one. The list of a model of one layer becomes
 * that of all in its place, from the end on, where each comes from a place before. */
static int stream_weights(const uvcc_model_config *c, uvcc_program *p, uint32_t *tensors,
                          const uvcci_message *m) {
    uvcc_model_config one = *c;
    one.layers = 1;
    const int err = uvcc_model_weights(&one, p, "", tensors, m->text, m->cap);
    for (uint32_t i = uvcci_model_weights(c); err >= 0 && i-- > 0;) {
        uint32_t layer;
        const uint32_t from = uvcci_model_weight(&one, 0, uvcci_model_slot(c, i, &layer));
        assert(from <= i);
        tensors[i] = tensors[from];
    }
    return err;
}

/* Hidden states stay in `to`. */
static int keep(uvcc_program *p, uint16_t k, uint32_t x, uint32_t to) {
    return uvcc_program_op(p, &(uvcc_op_desc){.name = "H",
                                              .opcode = UVCC_OP_ADD_PUBLIC, /* of 0: a copy */
                                              .k = k,
                                              .in_count = 1,
                                              .in = {x},
                                              .out_count = 1,
                                              .out = {to}});
}

/* Names of temporary tensors go on from entry to entry. Numbers of ops begin anew, each entry's
 * with another one: of entries without inputs the numbers say which one a step is. */
enum { LAYER_FROM = 0, WINDOW_FROM = 1, HEAD_FROM = 2, EMBED_FROM = 3 };
typedef struct streamed {
    const uvcc_model_config *c;
    uvcc_program *p;
    const uint32_t *weights;
    uvcc_emit e;
    uint32_t hidden, padding;
} streamed;

static int add_embed(streamed *s, uint32_t x, const uvcci_message *m) {
    uint32_t y = 0;
    const int err = uvcci_model_emit_begin(s->c, &s->e, s->weights, x, &y, m);
    return err < 0 ? err : keep(s->p, s->e.k, y, s->hidden);
}

static int add_layer(streamed *s, uint32_t layer, const uvcci_message *m) {
    uint32_t y = 0;
    assert(layer < s->c->layers);
    s->e.k = layer == 0 ? LAYER_FROM : WINDOW_FROM;
    int err = uvcc_program_entry(s->p, uvcc_model_streamed_entry(s->c, layer));
    if (err >= 0)
        err = uvcc_model_emit_layer(s->c, &s->e, layer, s->weights, s->hidden, s->padding, &y,
                                    m->text, m->cap);
    return err < 0 ? err : keep(s->p, s->e.k, y, s->hidden);
}

static int add_head(streamed *s, const ends *of, const uvcci_message *m) {
    uint32_t y = 0;
    s->e.k = HEAD_FROM;
    int err = uvcc_program_entry(s->p, "head");
    if (err >= 0)
        err = uvcci_model_emit_finish(s->c, &s->e, s->weights, s->hidden, s->padding, &y, m);
    return err < 0 ? err : add_output(s->c, s->p, s->e.k, y, of);
}

/* The entry "embed" is open: its inputs, and the tensors that stay. */
static int add_kept(streamed *s, const ends *of, uint32_t *x) {
    uvcc_tensor_desc in, pad;
    (void)uvcc_model_inputs(s->c, &in, &pad);
    in.lifetime = of->lifetime;
    uvcc_tensor_desc h = {.name = "H",
                          .rows = s->c->sequences * s->c->tokens,
                          .cols = s->c->width,
                          .bits = (uint8_t)uvcci_model_value_bits(s->c),
                          .scale = s->c->frac_bits,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR};
    pad.lifetime = UVCC_PERSIST;
    const int hidden = uvcc_program_tensor(s->p, &h);
    int err = hidden < 0 ? hidden : add_input(s->p, "X", in, UVCC_MODEL_IN_X, of);
    s->hidden = (uint32_t)hidden;
    *x = (uint32_t)err;
    if (err >= 0 && s->c->padding) {
        err = add_input(s->p, "PADDING", pad, UVCC_MODEL_IN_PADDING, of);
        s->padding = (uint32_t)err;
    }
    return err;
}

static int add_streamed(streamed *s, const ends *of, const uvcci_message *m) {
    const uint32_t other = other_layer(s->c);
    uint32_t x = 0;
    s->e.k = of->shared ? EMBED_FROM : 0;
    int err = uvcc_program_entry(s->p, "embed");
    if (err >= 0)
        err = add_kept(s, of, &x);
    if (err >= 0)
        err = add_embed(s, x, m);
    if (err >= 0)
        err = add_layer(s, 0, m);
    if (err >= 0 && other < s->c->layers)
        err = add_layer(s, other, m);
    return err >= 0 ? add_head(s, of, m) : err;
}

static int forward_streamed(const uvcc_model_config *c, uvcc_program *p, const ends *of,
                            uint32_t *tensors, const uvcc_allocator *al, const uvcci_message *m) {
    int err = c->weights == UVCC_MODEL_PUBLIC_WEIGHTS
                  ? uvcci_fail(m, UVCC_ERR_CONFIG, "weights: public ones are not streamed")
                  : stream_weights(c, p, tensors, m);
    if (err < 0)
        return err;
    streamed s = {.c = c,
                  .p = p,
                  .weights = tensors,
                  .e = {.program = p, .phase = UVCC_FWD, .prefix = "", .alloc = al},
                  .padding = UVCC_NO_TENSOR};
    err = add_streamed(&s, of, m);
    if (err < 0 && m->text != NULL && m->cap != 0 && m->text[0] == '\0')
        return uvcci_fail(m, err, "%s", uvcc_error_text(err));
    return err < 0 ? err : 0;
}

int uvcc_model_forward_streamed(const uvcc_model_config *c, uvcc_program *p, uint8_t owner,
                                uint8_t receiver, uint32_t *tensors, const uvcc_allocator *al,
                                char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    const ends of = {.owner = owner, .receiver = receiver, .lifetime = UVCC_TRANSIENT};
    int err = check_forward(c, p, tensors, al, &m);
    if (err == 0)
        err = check_parties(owner, receiver, &m);
    return err == 0 ? forward_streamed(c, p, &of, tensors, al, &m) : err;
}

int uvcc_model_forward_streamed_shared(const uvcc_model_config *c, uvcc_program *p,
                                       uint32_t *tensors, const uvcc_allocator *al, char *message,
                                       size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    const ends of = {.shared = true, .lifetime = UVCC_PERSIST};
    const int err = check_forward(c, p, tensors, al, &m);
    return err == 0 ? forward_streamed(c, p, &of, tensors, al, &m) : err;
}

/* ---- whole programs ---- */

/* *out is set at the end, so that a call that fails changes nothing. */
int uvcc_model_program(uvcc_program **out, const uvcc_model_config *c, uint8_t owner,
                       uint8_t receiver, const uvcc_allocator *al, char *message,
                       size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    const ends of = {.owner = owner, .receiver = receiver, .lifetime = UVCC_TRANSIENT};
    uvcc_program *p = NULL;
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the program");
    int err = check_parties(owner, receiver, &m);
    if (err == 0)
        err = uvcc_model_check(c, message, message_cap);
    if (err != 0)
        return err;
    const size_t bytes = uvcc_model_weight_count(c) * sizeof(uint32_t);
    uint32_t *weights = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    err = weights == NULL ? UVCC_ERR_NOMEM : uvcc_program_new(&p, al);
    if (err != 0)
        (void)uvcci_fail(&m, err, "out of memory");
    if (err == 0)
        err = uvcc_model_weights(c, p, "", weights, message, message_cap);
    if (err >= 0)
        err = add_forward(c, p, weights, &of, al, &m);
    if (err == 0)
        err = uvcc_program_finish(p, message, message_cap);
    if (weights != NULL)
        al->free(al->user, weights, bytes, UVCC_MEM_STATE);
    if (err == 0)
        *out = p;
    else
        uvcc_program_free(p);
    return err;
}

/* ---- costs ---- */

static int add_up(const uvcc_program *p, uvcc_model_costs *sum, const uvcci_message *m) {
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        uvcc_op_cost one;
        const int err = uvcc_program_cost(p, 0, i, &one);
        if (err != 0)
            return uvcci_fail(m, err, "op %s: %s", uvcc_program_op_at(p, 0, i)->name,
                              uvcc_error_text(err));
        sum->online_bytes += one.online_bytes;
        sum->key_bytes += one.preprocessing_bytes;
    }
    int err = uvcc_program_rounds(p, 0, NULL, &sum->rounds);
    if (err == 0)
        err = uvcc_program_memory(p, 0, &sum->transient_bytes);
    return err == 0 ? 0 : uvcci_fail(m, err, "forward: %s", uvcc_error_text(err));
}

static uint64_t weight_bytes(const uvcc_program *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const uvcci_tensor *t = &p->tensors[i];
        if (t->desc.lifetime == UVCC_PERSIST && t->constant == NULL)
            bytes += uvcci_component_bytes(t) * uvcci_components(&t->desc);
    }
    return bytes;
}

int uvcc_model_cost(const uvcc_model_config *c, const uvcc_allocator *al, uvcc_model_costs *out,
                    char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p;
    if (out == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no place for the costs");
    int err = uvcc_model_program(&p, c, 0, UVCC_TO_ALL, al, message, message_cap);
    if (err != 0)
        return err;
    uvcc_model_costs sum = {.weight_bytes = weight_bytes(p)};
    err = add_up(p, &sum, &m);
    uvcc_program_free(p);
    if (err == 0)
        *out = sum;
    return err;
}

/* ---- the plaintext twin ---- */

static int set_named(uvcc_reference *r, const uvcc_program *p, const char *name, const int64_t *v,
                     const uvcci_message *m) {
    const int t = uvcc_program_find(p, name);
    const int err = t < 0 ? t : uvcc_reference_set(r, (uint32_t)t, v);
    return err == 0 ? 0 : uvcci_fail(m, err, "%s: %s", name, uvcc_error_text(err));
}

/* A bit of sign would take other values, which a secure run does not see. */
static int check_padding(const uvcc_model_config *c, const int64_t *padding,
                         const uvcci_message *m) {
    const size_t count = c->padding ? (size_t)c->sequences * c->tokens : 0;
    for (size_t i = 0; i < count; i++)
        if (padding[i] != 0 && padding[i] != 1)
            return uvcci_fail(m, UVCC_ERR_BOUND,
                              "padding of sequence %zu, token %zu is %lld, but must be 0 or 1",
                              i / c->tokens, i % c->tokens, (long long)padding[i]);
    return 0;
}

/* What names no row is refused by its place: a secure run takes zeros for it. */
static int check_ids(const uvcc_model_config *c, const int64_t *x, const uvcci_message *m) {
    const size_t columns = c->segments != 0 ? 2 : 1;
    const size_t count =
        c->input == UVCC_MODEL_INPUT_TOKENS ? (size_t)c->sequences * c->tokens * columns : 0;
    for (size_t i = 0; i < count; i++) {
        const bool segment = i % columns == 1;
        const uint32_t end = segment ? c->segments : c->vocabulary;
        const size_t row = i / columns;
        if (x[i] < 0 || x[i] >= (int64_t)end)
            return uvcci_fail(m, UVCC_ERR_BOUND,
                              "%s of sequence %zu, token %zu is %lld, but must be 0 to %u",
                              segment ? "segment" : "id", row / c->tokens, row % c->tokens,
                              (long long)x[i], end - 1);
    }
    return 0;
}

static int run_reference(const uvcc_model_config *c, uvcc_reference *r, const uvcc_program *p,
                         const int64_t *weights, const int64_t *x, const int64_t *padding,
                         int64_t *y, const uvcci_message *m) {
    uvcc_model_weight w;
    int err = check_padding(c, padding, m);
    if (err == 0)
        err = check_ids(c, x, m);
    if (err == 0)
        err = set_named(r, p, "X", x, m);
    if (err == 0 && c->padding)
        err = set_named(r, p, "PADDING", padding, m);
    for (uint32_t i = 0; err == 0 && uvcc_model_weight_at(c, i, &w) == 0; i++) {
        err = set_named(r, p, w.name, weights, m);
        weights += (size_t)w.rows * w.cols;
    }
    if (err == 0)
        err = uvcc_reference_step(r, 0, m->text, m->cap);
    if (err != 0)
        return err;
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    memcpy(y, uvcc_reference_get(r, io->tensor), (size_t)d->rows * d->cols * sizeof *y);
    return 0;
}

int uvcc_model_reference(const uvcc_model_config *c, const uvcc_allocator *al,
                         const int64_t *weights, const int64_t *x, const int64_t *padding,
                         int64_t *y, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_program *p;
    uvcc_reference *r;
    if (c == NULL || weights == NULL || x == NULL || y == NULL ||
        (padding != NULL) != (c->padding != 0))
        return uvcci_fail(&m, UVCC_ERR_USAGE, "a value is missing, or padding that nobody reads");
    int err = uvcc_model_program(&p, c, 0, UVCC_TO_ALL, al, message, message_cap);
    if (err != 0)
        return err;
    err = uvcc_reference_new(&r, p, al);
    if (err == 0) {
        err = run_reference(c, r, p, weights, x, padding, y, &m);
        uvcc_reference_free(r);
    } else {
        (void)uvcci_fail(&m, err, "out of memory");
    }
    uvcc_program_free(p);
    return err;
}
