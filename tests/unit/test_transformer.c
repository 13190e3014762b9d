/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer's programs in plaintext: every split over workers gives the same weights and
 * losses, every block kind loads and learns, options are refused by name. */
#include "support.h"

#include "exec/model/gumbel.h"
#include "exec/model/transformer.h"
#include "exec/program/program.h"
#include "model.h"
#include "proto/aes.h"
#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/prg.h"

#include <math.h>
#include <uvcc/host.h>
#include <uvcc/nonlinear.h>
#include <uvcc/transformer.h>

enum { WORKERS_MAX = 8, SEED = 3 };

/* ---- a job of workers in plaintext ---- */

typedef struct job {
    uvcc_transformer_config c;
    uint32_t count;
    uvcc_transformer_worker at[WORKERS_MAX];
    uvcc_program *p[WORKERS_MAX];
    uvcc_reference *r[WORKERS_MAX];
    uint64_t parameters;
    int64_t *weights; /* of the whole model */
    int64_t *room;
    uint8_t *tokens, *targets;
} job;

static uvcc_transformer_config small(void) {
    uvcc_transformer_config c;
    assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
    c.context = 8;
    c.dim = 16;
    c.heads = 2;
    c.layers = 2;
    c.hidden = 24;
    c.batch = 8;
    c.steps = 0;
    c.warmup = 4;
    return c;
}

static uvcc_transformer_config mini(void) {
    uvcc_transformer_config c = small();
    c.optimizer = UVCC_OPTIMIZER_ADAM_MINI;
    c.clip = 0.125;
    return c;
}

static uint64_t whole_weights(job *j) {
    uvcc_transformer_weight w;
    uint64_t at = 0;
    for (uint32_t i = 0; uvcc_transformer_weight_at(&j->c, i, &w) == 0; i++) {
        uvcc_transformer_initial(&j->c, SEED, i, j->weights + at);
        at += (uint64_t)w.rows * w.cols;
    }
    return at;
}

static void set_state(job *j, uint32_t i) {
    uint32_t tensor;
    for (uint32_t k = 0;
         uvcc_transformer_state(&j->c, &j->at[i], j->p[i], k, j->weights, &tensor, j->room) == 0;
         k++)
        assert_int_equal(uvcc_reference_set(j->r[i], tensor, j->room), 0);
}

static job job_of(const uvcc_transformer_config *c) {
    const uvcc_allocator al = uvcc_host_allocator();
    job j = {.c = *c, .parameters = uvcc_transformer_parameters(c)};
    const uint32_t rows = (c->batch > c->windows ? c->batch : c->windows) * c->context;
    const size_t widest = c->dim > c->hidden ? c->dim : c->hidden;
    char why[256];
    j.weights = calloc(j.parameters, sizeof *j.weights);
    j.room = calloc(rows * 256u + 256u * widest, sizeof *j.room);
    j.tokens = calloc(2, rows);
    j.targets = j.tokens + rows;
    assert_int_equal(whole_weights(&j), j.parameters);
    for (uint32_t r = 0; r < c->replicas; r++)
        for (uint32_t s = 0; s < c->stages; s++)
            for (uint32_t t = 0; t < c->tensor_ranks; t++) {
                const uint32_t i = j.count++;
                assert_true(i < WORKERS_MAX);
                j.at[i] = (uvcc_transformer_worker){r, s, t};
                if (uvcc_transformer_program(&j.p[i], c, &j.at[i], &al, why, sizeof why) != 0)
                    fail_msg("%s", why);
                assert_int_equal(uvcc_reference_new(&j.r[i], j.p[i], &al), 0);
                set_state(&j, i);
            }
    return j;
}

static void job_free(job *j) {
    for (uint32_t i = 0; i < j->count; i++) {
        uvcc_reference_free(j->r[i]);
        uvcc_program_free(j->p[i]);
    }
    free(j->weights);
    free(j->room);
    free(j->tokens);
}

/* A text with something to learn. */
static void read_text(job *j, uint32_t step, uint32_t sequences) {
    static const char text[] =
        "the quick brown fox jumps over the lazy dog, and the dog sleeps on. ";
    const uint64_t length = sizeof text - 1;
    for (uint32_t i = 0; i < sequences; i++) {
        const uint64_t from = uvcc_transformer_sequence(&j->c, SEED, step, i, 1000);
        assert_true(from + j->c.context < 1000);
        for (uint32_t k = 0; k < j->c.context; k++) {
            j->tokens[i * j->c.context + k] = (uint8_t)text[(from + k) % length];
            j->targets[i * j->c.context + k] = (uint8_t)text[(from + k + 1) % length];
        }
    }
}

static void give(job *j, uint32_t i, const uvcc_io_desc *io) {
    uint32_t first, count;
    bool targets = io->id == UVCC_TRANSFORMER_IN_EVAL_TARGETS;
    if (io->id >= UVCC_TRANSFORMER_IN_TOKENS) {
        targets = io->id >= UVCC_TRANSFORMER_IN_TARGETS;
        uvcc_transformer_rows(&j->c, &j->at[i], io->id & 0xfff, &first, &count);
    } else {
        uvcc_transformer_window_rows(&j->c, &j->at[i], &first, &count);
    }
    uvcc_transformer_one_hot((targets ? j->targets : j->tokens) + first, count, j->room);
    assert_int_equal(uvcc_program_tensor_at(j->p[i], io->tensor)->rows, count);
    assert_int_equal(uvcc_reference_set(j->r[i], io->tensor, j->room), 0);
}

static void run(job *j, const char *entry, uint32_t step) {
    char why[256] = "";
    int e = -1;
    const int64_t rate = uvcc_transformer_rate(&j->c, step);
    for (uint32_t i = 0; i < j->count; i++) {
        e = uvcc_program_find_entry(j->p[i], entry);
        assert_true(e >= 0);
        const int tensor = uvcc_program_find(j->p[i], "rate");
        assert_int_equal(uvcc_reference_set(j->r[i], (uint32_t)tensor, &rate), 0);
        for (uint32_t k = 0; k < uvcc_program_input_count(j->p[i], (uint32_t)e); k++)
            give(j, i, uvcc_program_input_at(j->p[i], (uint32_t)e, k));
    }
    if (uvcc_reference_step_group(j->r, j->count, (uint32_t)e, why, sizeof why) != 0)
        fail_msg("step %u: %s", step, why);
}

/* An output of the entry at worker i; NULL if it has none. */
static const int64_t *output(const job *j, uint32_t i, const char *entry, uint32_t id) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(j->p[i], entry);
    for (uint32_t k = 0; k < uvcc_program_output_count(j->p[i], e); k++) {
        const uvcc_io_desc *io = uvcc_program_output_at(j->p[i], e, k);
        if (io->id == id)
            return uvcc_reference_get(j->r[i], io->tensor);
    }
    return NULL;
}

/* Nats per token; every worker of the last stage has the same. */
static double loss_of(const job *j, const char *entry, uint32_t id, uint32_t sequences) {
    const int64_t *at = NULL;
    for (uint32_t i = 0; i < j->count; i++) {
        const int64_t *v = output(j, i, entry, id);
        if (v == NULL)
            continue;
        if (at != NULL)
            assert_int_equal(*v, *at);
        at = v;
    }
    assert_non_null(at);
    return ldexp((double)*at, -(int)UVCC_TRANSFORMER_LOSS_BITS) / (sequences * j->c.context);
}

static double train(job *j, uint32_t step) {
    read_text(j, step, j->c.batch);
    run(j, "train", step);
    return loss_of(j, "train", UVCC_TRANSFORMER_OUT_LOSS, j->c.batch);
}

/* What "reveal" opens, put together; replicas agree. */
static void reveal(job *j) {
    run(j, "reveal", 0);
    memset(j->weights, 0x55, j->parameters * sizeof *j->weights);
    int64_t *again = malloc(j->parameters * sizeof *again);
    uvcc_transformer_weight w;
    for (uint32_t i = 0; i < j->count; i++) {
        uint64_t at = 0;
        for (uint32_t k = 0; uvcc_transformer_weight_at(&j->c, k, &w) == 0; k++) {
            const int64_t *v = output(j, i, "reveal", UVCC_TRANSFORMER_OUT_WEIGHT + k);
            uvcc_transformer_part part;
            assert_int_equal(v != NULL, uvcc_transformer_part_of(&j->c, &j->at[i], k, &part));
            if (v != NULL) {
                memcpy(again + at, j->weights + at, (size_t)w.rows * w.cols * sizeof *again);
                uvcc_transformer_put(&j->c, &j->at[i], k, v, j->weights + at);
                if (j->at[i].replica != 0)
                    assert_memory_equal(again + at, j->weights + at,
                                        (size_t)w.rows * w.cols * sizeof *again);
                uvcc_transformer_take(&j->c, &j->at[i], k, j->weights + at, j->room);
                assert_memory_equal(j->room, v, (size_t)part.rows * part.cols * sizeof *v);
            }
            at += (uint64_t)w.rows * w.cols;
        }
    }
    free(again);
}

/* ---- splits ---- */

typedef struct split {
    uint32_t replicas, stages, tensor_ranks, microbatches, ahead;
} split;

/* Weights after some steps, and the losses on the way; `want` NULL: they become it. */
static void check_split(uvcc_transformer_config c, const split *s, unsigned steps, int64_t **want,
                        double *losses) {
    c.replicas = s->replicas;
    c.stages = s->stages;
    c.tensor_ranks = s->tensor_ranks;
    c.microbatches = s->microbatches;
    c.ahead = s->ahead;
    c.windows = 2;
    job j = job_of(&c);
    for (unsigned step = 0; step < steps; step++) {
        const double loss = train(&j, step);
        if (*want == NULL)
            losses[step] = loss;
        else
            assert_true(loss == losses[step]);
    }
    read_text(&j, 1000, c.windows);
    run(&j, "eval", 0);
    const double eval = loss_of(&j, "eval", UVCC_TRANSFORMER_OUT_EVAL_LOSS, c.windows);
    reveal(&j);
    if (*want == NULL) {
        *want = j.weights;
        j.weights = NULL;
        losses[steps] = eval;
    } else {
        assert_memory_equal(j.weights, *want, j.parameters * sizeof *j.weights);
        assert_true(eval == losses[steps]);
    }
    job_free(&j);
}

static void check_splits(const uvcc_transformer_config *c, unsigned steps) {
    static const split splits[] = {{1, 1, 1, 1, 0}, {2, 1, 1, 1, 0}, {1, 2, 1, 2, 0},
                                   {1, 1, 2, 1, 0}, {2, 2, 2, 1, 0}, {1, 2, 1, 4, 2},
                                   {2, 1, 2, 2, 0}, {1, 1, 1, 8, 0}};
    int64_t *want = NULL;
    double losses[8];
    for (unsigned i = 0; i < sizeof splits / sizeof splits[0]; i++)
        check_split(*c, &splits[i], steps, &want, losses);
    free(want);
}

/* Beaver triples, and products that are kept whole to be checked, give what native products give.
 */
static void check_products(uvcc_transformer_config c, unsigned steps) {
    static const split splits[] = {{1, 1, 1, 1, 0}, {2, 1, 2, 2, 0}};
    int64_t *want = NULL;
    double losses[8];
    check_split(c, &splits[0], steps, &want, losses);
    c.products = UVCC_PRODUCTS_BEAVER;
    for (unsigned i = 0; i < 2; i++)
        check_split(c, &splits[i], steps, &want, losses);
    c.products = UVCC_PRODUCTS_NATIVE;
    c.sks = 500;
    check_split(c, &splits[1], steps, &want, losses);
    free(want);
}

/* What is not kept is computed again, to the bit: in one tile and in several, whose probabilities
 * are kept or not. One tile, as products on triples have, is the square of attention as it was. */
static void check_recomputing(uvcc_transformer_config c) {
    static const split splits[] = {{1, 1, 1, 1, 0}, {1, 2, 2, 2, 0}};
    int64_t *want = NULL;
    double losses[8];
    c.context = 16;
    c.products = UVCC_PRODUCTS_BEAVER;
    check_split(c, &splits[0], 1, &want, losses);
    c.recompute = 1;
    check_split(c, &splits[0], 1, &want, losses);
    c.products = UVCC_PRODUCTS_NATIVE;
    for (unsigned i = 0; i < 2; i++)
        check_split(c, &splits[i], 1, &want, losses);
    c.recompute = 0;
    check_split(c, &splits[0], 1, &want, losses);
    free(want);
}

static void test_splits(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    check_splits(&c, 2);
    check_products(c, 1);
    check_recomputing(c); /* 16 is up to 4 head_dim */
    c.heads = 8;
    check_recomputing(c);
    c.heads = 2;
    c.block = UVCC_BLOCK_SWIGLU;
    c.optimizer = UVCC_OPTIMIZER_MOMENTUM;
    c.learning_rate = 0.5;
    c.weight_decay = 0.01;
    check_splits(&c, 1);
    c.block = UVCC_BLOCK_GPT2;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.clip = 0;
    check_splits(&c, 1);
    c.heads = 4;
    c.dim = 12; /* sqrt(3) */
    check_recomputing(c);
}

/* Second moments and the norm of all are sums over workers: of replicas, ranks and stages. */
static void test_mini_splits(void **state) {
    (void)state;
    uvcc_transformer_config c = mini();
    check_splits(&c, 2);
    check_products(c, 1);
    c.clip = 0;
    c.weight_decay = 0.01;
    c.block = UVCC_BLOCK_SWIGLU;
    c.dim = 24; /* means over numbers that are no powers of two */
    check_splits(&c, 2);
}

/* ---- gradients ---- */

/* The mean gradient of weight k as the optimizer of the one worker takes it. */
static double fixed_gradient(const job *j, const char *name, size_t e) {
    char full[64];
    snprintf(full, sizeof full, "u.%s.G", name);
    const int t = uvcc_program_find(j->p[0], full);
    assert_true(t >= 0);
    return ldexp((double)uvcc_reference_get(j->r[0], (uint32_t)t)[e],
                 -uvcc_program_tensor_at(j->p[0], (uint32_t)t)->scale);
}

/* Central difference of the mean loss by weight i. */
static double difference(const job *j, double_model *m, size_t i) {
    const double h = 1e-4, w = double_weights(m)[i];
    double loss[2];
    for (unsigned k = 0; k < 2; k++) {
        double_weights(m)[i] = w + (k == 0 ? h : -h);
        loss[k] = double_loss(m, j->tokens, j->targets, j->c.batch);
    }
    double_weights(m)[i] = w;
    return (loss[0] - loss[1]) / (2 * h) / (j->c.batch * j->c.context);
}

/* Each weight's gradient is off by less than a hundredth of its greatest element: tables of the
 * activation's derivative are off by up to 3e-3, those of norms and softmax by 1.6e-4, and floors
 * by units of 2^-16. A tenth of that on average. (The gradient by the
 * bias of keys is 0.) */
static void check_gradients(const uvcc_transformer_config *c) {
    job j = job_of(c);
    uvcc_transformer_weight w;
    uint64_t at = 0, seed = 5;
    double_model *m = double_new(c, j.weights);
    train(&j, 0);
    const double loss = double_gradient(m, j.tokens, j.targets, c->batch);
    assert_true(fabs(loss / (c->batch * c->context) -
                     loss_of(&j, "train", UVCC_TRANSFORMER_OUT_LOSS, c->batch)) < 2e-3);
    double worst = 0, worst_mean = 0;
    for (uint32_t k = 0; uvcc_transformer_weight_at(c, k, &w) == 0; k++) {
        const size_t count = (size_t)w.rows * w.cols;
        const double *g = double_gradients(m) + at;
        double most = 0, off = 0, sum = 0;
        for (size_t e = 0; e < count; e++) {
            const double d = fabs(fixed_gradient(&j, w.name, e) - g[e]);
            most = fmax(most, fabs(g[e]));
            off = fmax(off, d);
            sum += d;
        }
        for (unsigned i = 0; i < 4; i++) {
            const size_t e = test_rand(&seed) % count;
            assert_true(fabs(difference(&j, m, at + e) - g[e]) < 1e-7 + 1e-5 * most);
        }
        const double limit = 0.01 * most + 0x2p-16, mean_limit = 0.001 * most + 0x1p-16;
        if (off > limit || sum / (double)count > mean_limit)
            fail_msg("%s: off by %g, %g on average, of %g", w.name, off, sum / (double)count, most);
        worst = fmax(worst, off / limit);
        worst_mean = fmax(worst_mean, sum / (double)count / mean_limit);
        at += count;
    }
    print_message("gradients: errors up to %.2f of their bound, %.2f on average\n", worst,
                  worst_mean);
    double_free(m);
    job_free(&j);
}

static void test_gradients(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    check_gradients(&c);
    c.norm = UVCC_NORM_LAYER;
    c.dim = 24; /* no power of two: what norms and scores are divided by is rounded */
    check_gradients(&c);
    c.block = UVCC_BLOCK_SWIGLU;
    c.norm = UVCC_NORM_OF_BLOCK;
    check_gradients(&c);
    c.block = UVCC_BLOCK_GPT2;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.microbatches = 4;
    check_gradients(&c);
}

/* ---- cost ---- */

/* Bytes that updating takes of all parties, keys included, by weight. */
static double bytes_of_update(const uvcc_transformer_config *c) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_transformer_worker only = {0};
    uvcc_program *p;
    char why[256], section[UVCC_TRANSFORMER_SECTION_BYTES];
    uvcc_op_cost cost;
    double bytes = 0;
    if (uvcc_transformer_program(&p, c, &only, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p, "train");
    for (uint32_t i = 0; i < uvcc_program_op_count(p, e); i++) {
        uvcc_transformer_section(c, uvcc_program_op_at(p, e, i), section);
        if (strcmp(section, "update") != 0)
            continue;
        assert_int_equal(uvcc_program_cost(p, e, i, &cost), 0);
        bytes += (double)cost.online_bytes + (double)cost.preprocessing_bytes;
    }
    uvcc_program_free(p);
    return bytes / (double)uvcc_transformer_parameters(c);
}

/* ---- learning ---- */

/* 20 steps of two layers: the loss falls, and stays within 2% of the same training in float32. */
static void check_learns(const uvcc_transformer_config *c) {
    job j = job_of(c);
    float_model *m = float_new(c, j.weights);
    double first = 0, last = 0;
    for (uint32_t step = 0; step < 20; step++) {
        const double loss = train(&j, step);
        const double real =
            float_gradient(m, j.tokens, j.targets, c->batch) / (c->batch * c->context);
        float_update(
            m, ldexp((double)uvcc_transformer_rate(c, step), -(int)UVCC_TRANSFORMER_RATE_BITS));
        assert_true(fabs(loss - real) < 0.02 * real);
        first = step == 0 ? loss : first;
        last = loss;
    }
    print_message("loss from %.3f to %.3f\n", first, last);
    assert_true(fabs(first - log(256)) < 0.6);
    assert_true(last < 0.75 * first);
    float_free(m);
    job_free(&j);
}

static void test_learns(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    c.batch = 16;
    c.learning_rate = 0.02;
    check_learns(&c);
    c.exact = 0; /* in plaintext: the tables of fast functions, without their roundings */
    c.block = UVCC_BLOCK_SWIGLU;
    c.weight_decay = 0.05;
    check_learns(&c);
    c.block = UVCC_BLOCK_GPT2;
    c.optimizer = UVCC_OPTIMIZER_MOMENTUM;
    c.learning_rate = 0.5;
    check_learns(&c);
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.learning_rate = 0.5;
    c.clip = 0;
    check_learns(&c);
}

/* The norm is about 1, so that this clips, and not at all. */
static void test_mini_learns(void **state) {
    (void)state;
    uvcc_transformer_config c = mini();
    c.batch = 16;
    c.learning_rate = 0.02;
    check_learns(&c);
    c.clip = 0;
    c.weight_decay = 0.05;
    check_learns(&c);
    c.block = UVCC_BLOCK_GPT2;
    c.exact = 0;
    c.clip = 0.25;
    check_learns(&c);
}

/* A weight's update costs at most 110 bytes where rows are long enough for what their roots cost;
 * ADAMW's 2,100. */
static void test_mini_cost(void **state) {
    (void)state;
    uvcc_transformer_config c;
    assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
    c.dim = 256;
    c.truncation = UVCC_TRUNC_STOCHASTIC;
    c.exact = 0;
    c.optimizer = UVCC_OPTIMIZER_ADAM_MINI;
    c.clip = 1;
    c.windows = 0;
    const double clips = bytes_of_update(&c);
    c.weight_decay = 0.01;
    const double decays = bytes_of_update(&c);
    c.weight_decay = 0;
    c.clip = 0;
    const double plain = bytes_of_update(&c);
    print_message("bytes a weight: %.1f; with decay %.1f; without clipping %.1f\n", clips, decays,
                  plain);
    assert_true(clips <= 110 && plain <= 91 && decays <= 115);
}

/* A window's logits do not depend on what comes later in it, and eval has the loss of exactly them.
 */
static void test_logits(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    c.windows = 2;
    c.tensor_ranks = 2;
    job j = job_of(&c);
    const size_t rows = c.windows * c.context;
    int64_t *before = malloc(rows * 256 * sizeof *before);
    read_text(&j, 0, c.windows);
    run(&j, "logits", 0);
    const int64_t *logits = output(&j, 0, "logits", UVCC_TRANSFORMER_OUT_LOGITS);
    memcpy(before, logits, rows * 256 * sizeof *before);
    assert_memory_equal(before, output(&j, 1, "logits", UVCC_TRANSFORMER_OUT_LOGITS),
                        rows * 256 * sizeof *before);
    double loss = 0;
    for (size_t i = 0; i < rows; i++) {
        double sum = 0;
        for (size_t k = 0; k < 256; k++)
            sum += exp(ldexp((double)(before[i * 256 + k] - before[i * 256 + j.targets[i]]), -16));
        loss += log(sum) / (double)rows;
    }
    run(&j, "eval", 0);
    assert_true(fabs(loss - loss_of(&j, "eval", UVCC_TRANSFORMER_OUT_EVAL_LOSS, c.windows)) < 1e-3);
    j.tokens[c.context + 5] ^= 1; /* position 5 of window 1 */
    run(&j, "logits", 0);
    const size_t changed = (c.context + 5) * 256, next = 2 * c.context * 256;
    assert_memory_equal(before, logits, changed * sizeof *before);
    assert_memory_not_equal(before + changed, logits + changed, (next - changed) * sizeof *before);
    free(before);
    job_free(&j);
}

static void set_persist(job *j, const char *name, const int64_t *v) {
    const int t = uvcc_program_find(j->p[0], name);
    assert_true(t >= 0);
    assert_int_equal(uvcc_reference_set(j->r[0], (uint32_t)t, v), 0);
}

/* The byte that "next" opens at a temperature, with words that make one byte's noise the greatest
 * there is and all others' the least. */
static int64_t next_at(job *j, uint32_t picked, double temperature) {
    const uvcc_transformer_config *c = &j->c;
    const uint32_t e = (uint32_t)uvcc_program_find_entry(j->p[0], "next");
    const int64_t scaled = llround(ldexp(temperature, c->frac_bits));
    char why[256] = "";
    memset(j->room, 0, c->context * sizeof *j->room);
    j->room[c->context - 1] = 1;
    set_persist(j, "select", j->room);
    set_persist(j, "temperature", &scaled);
    for (uint32_t i = 0; i < c->windows * UVCC_TRANSFORMER_VOCAB; i++)
        j->room[i] = i % UVCC_TRANSFORMER_VOCAB == picked ? 1ll << UVCCI_GUMBEL_WORD
                                                          : (3ll << UVCCI_GUMBEL_WORD) - 1;
    set_persist(j, "n.WORDS", j->room);
    assert_int_equal(uvcc_program_input_count(j->p[0], e), 1); /* nobody gives noise */
    give(j, 0, uvcc_program_input_at(j->p[0], e, 0));
    if (uvcc_reference_step(j->r[0], e, why, sizeof why) != 0)
        fail_msg("%s", why);
    return *output(j, 0, "next", UVCC_TRANSFORMER_OUT_NEXT);
}

/* The byte of the greatest sum of logit and noise, which is what the words say. */
static void test_next(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    const uint32_t picked = 0x6b;
    job j = job_of(&c);
    read_text(&j, 0, c.windows);
    assert_int_equal(next_at(&j, picked, 15.99), picked);
    assert_int_equal(next_at(&j, picked + 1, 8), picked + 1);
    const int64_t likeliest = next_at(&j, picked, 0);
    assert_int_equal(next_at(&j, (uint32_t)(likeliest + 1) % 256, 0), likeliest);
    job_free(&j);
}

/* ---- programs ---- */

/* By a DCF is truncated what would be truncated exactly, if the configuration says so; functions
 * have truncations of their own. */
static void check_truncations(const uvcc_program *p, const uvcc_transformer_config *c) {
    const bool dcf = c->truncation == UVCC_TRUNC_EXACT_DCF;
    unsigned by_dcf = 0, by_dpf = 0;
    for (uint32_t e = 0; e < uvcc_program_entry_count(p); e++)
        for (uint32_t i = 0; i < uvcc_program_op_count(p, e); i++) {
            const uvcc_op_desc *d = uvcc_program_op_at(p, e, i);
            by_dcf += d->truncation == UVCC_TRUNC_EXACT_DCF;
            by_dpf += uvcci_truncates(d) && d->truncation == UVCC_TRUNC_EXACT;
        }
    assert_true((by_dcf != 0) == dcf);
    if (dcf && c->exact == 0)
        assert_int_equal(by_dpf, 0);
}

static void build(const uvcc_transformer_config *c, const uvcc_transformer_worker *w) {
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_program *p = NULL;
    char why[256] = "";
    if (uvcc_transformer_program(&p, c, w, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_true(uvcc_program_find_entry(p, "train") >= 0);
    assert_int_equal(uvcc_program_find_entry(p, "eval") >= 0, c->windows != 0);
    check_truncations(p, c);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_every_kind_loads(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3 * 3 * 3 * 6; i++) {
        uvcc_transformer_config c = small();
        c.layers = 3;
        c.stages = 3;
        c.block = (uint8_t)(i % 3);
        c.norm = (uint8_t)(i / 3 % 3);
        c.optimizer = (uint8_t)(i / 9 % 3);
        c.exact = i / 27 & 1;
        c.truncation = (uint8_t)(i / 54);
        c.weight_decay = i % 2 * 0.01;
        c.loss = i / 3 & 1;
        c.windows = i % 5 != 0;
        build(&c, &(uvcc_transformer_worker){.stage = i / 4 % 3});
    }
}

/* The sum of a weight's gradients has bits for all microbatches: as many as if there were one. */
static void test_sums_of_microbatches(void **state) {
    static const uvcc_transformer_worker only = {0};
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    for (unsigned block = 0; block < 3; block++) {
        uvcc_program *p[2];
        unsigned sums = 0;
        for (unsigned i = 0; i < 2; i++) {
            uvcc_transformer_config c = small();
            c.block = (uint8_t)block;
            c.microbatches = i == 0 ? 1 : 4;
            assert_int_equal(uvcc_transformer_program(&p[i], &c, &only, &al, NULL, 0), 0);
        }
        for (uint32_t i = 0; uvcc_program_tensor_at(p[0], i) != NULL; i++) {
            const uvcc_tensor_desc *one = uvcc_program_tensor_at(p[0], i), *four = NULL;
            for (uint32_t k = 0; uvcc_program_tensor_at(p[1], k) != NULL; k++)
                if (strcmp(uvcc_program_tensor_at(p[1], k)->name, one->name) == 0)
                    four = uvcc_program_tensor_at(p[1], k);
            if (strstr(one->name, ".S.") == NULL || strncmp(one->name, "m0.", 3) != 0)
                continue;
            assert_true(four != NULL && one->scale == four->scale);
            assert_int_equal(four->bits, one->bits);
            sums++;
        }
        assert_true(sums > 10);
        uvcc_program_free(p[0]);
        uvcc_program_free(p[1]);
    }
}

/* Large shapes load: nothing is too wide, and nothing is allocated for values. */
static void test_large_shapes(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    c.context = 1024;
    c.dim = 2048;
    c.heads = 16;
    c.hidden = 0;
    c.layers = 4;
    c.batch = 8;
    c.replicas = 2;
    c.tensor_ranks = 2;
    c.windows = 2;
    c.gradient_bits = 4;
    build(&c, &(uvcc_transformer_worker){1, 0, 1});
    c.optimizer = UVCC_OPTIMIZER_ADAM_MINI; /* means over 2^18, and below over 3 2^14 */
    c.clip = 1;
    build(&c, &(uvcc_transformer_worker){1, 0, 1});
    c.context = 128;
    c.dim = 768;
    c.heads = 12;
    c.layers = 12;
    c.replicas = c.tensor_ranks = 1;
    c.weight_decay = 0.1;
    build(&c, &(uvcc_transformer_worker){0, 0, 0});
}

/* The ends of what options may be fit into 62 bits, whatever a block's size. */
static void test_mini_ends(void **state) {
    (void)state;
    static const double epsilon[] = {0x1p-16, 0x1p-12, 0x1p-6}, clip[] = {0, 0x1p-5, 0.26, 4};
    static const uint32_t dims[] = {16, 24, 66};
    for (unsigned i = 0; i < 3 * 4 * 2; i++) {
        uvcc_transformer_config c = mini();
        c.layers = 1;
        c.windows = 0;
        c.epsilon = epsilon[i % 3];
        c.clip = clip[i / 3 % 4];
        c.dim = dims[(i + i / 3) % 3];
        c.weight_decay = i / 12;
        c.learning_rate = 3.9;
        c.momentum_shift = i / 12 != 0 ? 8 : 1;
        c.variance_shift = i / 12 != 0 ? 8 : 1;
        if (c.clip <= 1024 * c.epsilon * sqrt(c.dim))
            build(&c, &(uvcc_transformer_worker){0, 0, 0});
    }
}

/* ---- long rows ---- */

static uvcc_program *program_of(const uvcc_transformer_config *c) {
    static const uvcc_transformer_worker only = {0};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = NULL;
    char why[256] = "";
    if (uvcc_transformer_program(&p, c, &only, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* A block of width 64 on one sequence. */
static uvcc_transformer_config block_of(uint32_t context, uint8_t recompute) {
    uvcc_transformer_config c = small();
    c.context = context;
    c.dim = 64;
    c.heads = 4;
    c.hidden = 0;
    c.layers = c.batch = 1;
    c.windows = c.loss = 0;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.clip = 0;
    c.value_bits = 6;
    c.weight_bits = 3;
    c.recompute = recompute;
    return c;
}

/* Elements of scores that "train" makes, forward and backward: outputs of stacked products. */
static uint64_t score_elements(const uvcc_program *p) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        if (d->opcode == UVCC_OP_GEMM_SS && (d->flags & UVCC_OP_STACKED_C) != 0) {
            const uvcc_tensor_desc *t = uvcc_program_tensor_at(p, d->out[0]);
            n += (uint64_t)t->rows * t->cols;
        }
    }
    return n;
}

/* Attention pays for little more than half of the square. */
static void test_lower_triangle(void **state) {
    (void)state;
    for (uint32_t context = 8; context <= 4096; context *= 2) {
        const uvcc_transformer_config c = block_of(context, 0);
        uvcc_program *p = program_of(&c);
        const uint64_t square = 2ull * c.heads * context * context; /* forward and backward */
        const double share = (double)score_elements(p) / (double)square;
        assert_true(share > 0.5 && share <= (context >= 32 ? 0.6 : 0.75));
        uvcc_program_free(p);
    }
}

static uint64_t memory_of(const uvcc_transformer_config *c) {
    uvcc_program *p = program_of(c);
    uint64_t bytes = 0;
    assert_int_equal(uvcc_program_memory(p, 0, &bytes), 0);
    uvcc_program_free(p);
    return bytes;
}

/* Where activations are not kept, twice the context takes twice the memory, whatever the order in
 * which ops run; else scores take four times of theirs. A layer more keeps little. */
static void test_memory_of_long_rows(void **state) {
    (void)state;
    uint64_t kept[4], again[4];
    for (unsigned i = 0; i < 4; i++) {
        const uvcc_transformer_config c = block_of(512u << i, 0), r = block_of(512u << i, 1);
        kept[i] = memory_of(&c);
        again[i] = memory_of(&r);
    }
    for (unsigned i = 2; i < 4; i++) {
        assert_true(again[i] - again[i - 1] <= 21 * (again[i - 1] - again[i - 2]) / 10);
        assert_true(kept[i] - kept[i - 1] > 3 * (kept[i - 1] - kept[i - 2]));
    }
    assert_true(again[3] < kept[3] / 3);
    uvcc_transformer_config c = block_of(512, 0), r = block_of(512, 1);
    c.layers = r.layers = 5;
    assert_true(memory_of(&r) - again[0] < (memory_of(&c) - kept[0]) / 3);
}

/* Bytes of keys of "train" that a phase's functions of this name have. */
static uint64_t keys_of(const uvcc_program *p, const char *name, uint8_t phase) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        uvcc_op_cost cost;
        if (d->phase != phase || d->name == NULL || strcmp(d->name, name) != 0)
            continue;
        assert_int_equal(uvcc_program_cost(p, 0, i, &cost), 0);
        bytes += cost.preprocessing_bytes;
    }
    return bytes;
}

/* A row's greatest element and sum are kept, so the backward pass looks for neither again. */
static void test_rows_again(void **state) {
    (void)state;
    for (unsigned exact = 0; exact < 2; exact++) {
        uvcc_transformer_config c = block_of(512, 1);
        c.exact = (uint8_t)exact;
        uvcc_program *p = program_of(&c);
        const uint64_t softmax = keys_of(p, "softmax", UVCC_FWD), exp = keys_of(p, "exp", UVCC_BWD);
        assert_int_equal(keys_of(p, "softmax", UVCC_BWD), 0);
        assert_true(exp > 0 && exp < softmax * 3 / 10);
        uvcc_program_free(p);
    }
}

/* Ops of layer `layer` in a phase, by what reports call them. */
static unsigned ops_of(const uvcc_program *p, const uvcc_transformer_config *c, const char *part) {
    char section[UVCC_TRANSFORMER_SECTION_BYTES];
    unsigned n = 0;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        uvcc_transformer_section(c, uvcc_program_op_at(p, 0, i), section);
        n += strcmp(section, part) == 0;
    }
    return n;
}

/* A layer has numbers for all of its ops, whatever it is made of, and reports know them all: layers
 * are equal. */
static void test_numbers_of_ops(void **state) {
    (void)state;
    static const uint32_t contexts[] = {4, 32, 4096, 65536};
    for (unsigned i = 0; i < 3 * 4; i++) {
        uvcc_transformer_config c = block_of(contexts[i % 4], 1);
        c.layers = 2;
        c.block = (uint8_t)(i / 4);
        c.norm = UVCC_NORM_LAYER;
        c.dim = 12;
        c.hidden = 6;
        c.truncation = UVCC_TRUNC_EXACT_DCF;
        c.gradient_bits = c.value_bits = c.weight_bits = 1;
        c.frac_bits = 12;
        c.sks = 10;
        c.exact = c.context != 65536; /* rows there have too large keys */
        uvcc_program *p = program_of(&c);
        const unsigned last = ops_of(p, &c, "layer 1 backward");
        assert_true(last > 60);
        assert_int_equal(ops_of(p, &c, "layer 0 forward"), ops_of(p, &c, "layer 1 forward"));
        assert_in_range(ops_of(p, &c, "layer 0 backward"), last, last + 1); /* waits for layer 1 */
        uvcc_program_free(p);
    }
}

/* Entries of the largest table of a function by its name. */
static uint32_t entries_of(const uvcc_program *p, const char *name) {
    const uvcc_function *f;
    uint32_t most = 0;
    for (uint32_t i = 0; (f = uvcc_program_function_at(p, i)) != NULL; i++)
        for (uint32_t k = 0; strcmp(f->name, name) == 0 && k < f->instr_count; k++)
            if (f->instrs[k].kind == UVCC_FN_TABLE && f->instrs[k].entry_count > most)
                most = f->instrs[k].entry_count;
    return most;
}

/* The activation and its derivative are looked up in cells of 2^-9 whatever f is. */
static void test_index_bits(void **state) {
    (void)state;
    static const uint8_t of[][2] = {{UVCC_BLOCK_GELU, UVCC_NL_GELU},
                                    {UVCC_BLOCK_SWIGLU, UVCC_NL_SILU},
                                    {UVCC_BLOCK_GPT2, UVCC_NL_GELU_TANH}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const char *name = uvcc_nonlinear_at((uvcc_nonlinear)of[i][1])->name;
        uint32_t entries[2];
        for (unsigned k = 0; k < 2; k++) {
            uvcc_transformer_config c = block_of(4, 1);
            c.block = of[i][0];
            c.frac_bits = k == 0 ? 16 : 12;
            uvcc_program *p = program_of(&c);
            entries[k] = entries_of(p, name);
            uvcc_program_free(p);
        }
        assert_true(entries[0] > 1024);
        assert_int_equal(entries[1], entries[0]);
    }
}

/* So many layers have numbers too: in long rows they make do with fewer tiles. */
static void test_numbers_of_layers(void **state) {
    (void)state;
    uint32_t tiles = 64;
    for (uint32_t layers = 1; layers <= UVCC_TRANSFORMER_MAX_LAYERS; layers++) {
        uvcc_transformer_config c = block_of(1u << 16, 1);
        c.layers = layers;
        const uvcci_tf_numbers n = uvcci_tf_numbers_of(&c);
        assert_true(n.tiles <= tiles && n.tiles * n.tile_rows == c.context);
        assert_true(layers * n.layer_blocks <= 252);
        tiles = n.tiles;
    }
    assert_true(tiles > 1 && tiles < 64);
}

/* Tiles that take turns in their buffers, 16 of 128 rows with two alive, give what all at once
 * give. */
static void test_turns(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    int64_t *want = NULL;
    c.context = 2048;
    c.dim = c.hidden = 4;
    c.layers = c.batch = 1;
    for (c.recompute = 0; c.recompute < 2; c.recompute++) {
        job j = job_of(&c);
        for (uint32_t i = 0; i < c.context; i++) {
            j.tokens[i] = (uint8_t)(i * i >> 4);
            j.targets[i] = (uint8_t)((i + 1) * (i + 1) >> 4);
        }
        run(&j, "train", 0);
        reveal(&j);
        if (want == NULL) {
            want = j.weights;
            j.weights = NULL;
        } else {
            assert_memory_equal(j.weights, want, j.parameters * sizeof *want);
        }
        job_free(&j);
    }
    free(want);
}

static void test_no_memory(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    c.layers = 1;
    c.windows = 0;
    const uvcc_transformer_worker only = {0};
    for (size_t fail_at = 1;; fail_at += 1 + fail_at / 8) {
        test_alloc counts = {.fail_at = fail_at};
        const uvcc_allocator al = test_allocator(&counts);
        uvcc_program *p = NULL;
        char why[256] = "";
        const int err = uvcc_transformer_program(&p, &c, &only, &al, why, sizeof why);
        if (err == 0) {
            uvcc_program_free(p);
            break;
        }
        assert_int_equal(err, UVCC_ERR_NOMEM);
        assert_true(why[0] != 0);
        assert_int_equal(counts.live_blocks, 0);
        assert_true(fail_at < 1000000);
    }
}

/* ---- options ---- */

#define REFUSED(error, text, ...)                                                                  \
    do {                                                                                           \
        uvcc_transformer_config c = small();                                                       \
        char why[256] = "";                                                                        \
        __VA_ARGS__;                                                                               \
        assert_int_equal(uvcc_transformer_check(&c, why, sizeof why), error);                      \
        if (strstr(why, text) == NULL)                                                             \
            fail_msg("'%s', not '%s'", why, text);                                                 \
    } while (0)
#define WRONG(text, ...) REFUSED(UVCC_ERR_CONFIG, text, __VA_ARGS__)
#define WIDE(text, ...)  REFUSED(UVCC_ERR_BOUND, text, __VA_ARGS__)

#define MINI c.optimizer = UVCC_OPTIMIZER_ADAM_MINI

/* The window is the program's; 0 is the usual one. */
static void test_window(void **state) {
    (void)state;
    static const uint32_t mib[] = {0, UVCC_WINDOW_BYTES >> 20, 1};
    const uvcc_transformer_worker only = {0};
    const uvcc_allocator al = uvcc_host_allocator();
    uint8_t hash[3][32];
    for (unsigned i = 0; i < 3; i++) {
        uvcc_transformer_config c = small();
        uvcc_program *p;
        char why[256] = "";
        c.window_mib = mib[i];
        if (uvcc_transformer_program(&p, &c, &only, &al, why, sizeof why) != 0)
            fail_msg("%s", why);
        assert_int_equal(p->entries[0].window, i == 2 ? 1u << 20 : UVCC_WINDOW_BYTES);
        uvcc_program_hash(p, hash[i]);
        uvcc_program_free(p);
    }
    assert_memory_equal(hash[0], hash[1], 32);
    assert_memory_not_equal(hash[0], hash[2], 32);
}

static void test_options(void **state) {
    (void)state;
    REFUSED(0, "", (void)0);
    REFUSED(UVCC_ERR_USAGE, "another version", c.size--);
    WRONG("context must be a power of two", c.context = 12);
    WRONG("dim must be", c.dim = 0);
    WRONG("heads must divide dim", c.heads = 3);
    WRONG("layers must be 1 to 200", c.layers = 201);
    WRONG("hidden must be", c.hidden = 2000000);
    WRONG("block is unknown", c.block = 3);
    WRONG("norm is unknown", c.norm = 3);
    WRONG("recompute must be 0 or 1", c.recompute = 2);
    WRONG("window_mib must be at most 1048576", c.window_mib = (1u << 20) + 1);
    WRONG("batch must be a power of two", c.batch = 6);
    WRONG("batch must have a sequence for each", c.batch = 2; c.microbatches = 4);
    WRONG("microbatches must be a power of two", c.microbatches = 3);
    WRONG("replicas must be a power of two", c.replicas = 3);
    WRONG("tensor_ranks must be a power of two", c.tensor_ranks = 3);
    WRONG("tensor_ranks must divide heads", c.tensor_ranks = 4);
    WRONG("tensor_ranks must divide hidden", c.hidden = 25; c.tensor_ranks = 2);
    WRONG("stages must divide layers", c.stages = 3);
    WRONG("context must be longer", c.context = 1; c.replicas = 4; c.tensor_ranks = 2);
    WRONG("windows must be a multiple of tensor_ranks", c.windows = 3; c.tensor_ranks = 2);
    WRONG("replicas: L0.B1 has 1 x 18 elements", c.hidden = 18; c.replicas = 4);
    WRONG("optimizer is unknown", c.optimizer = 4);
    WRONG("momentum_shift must be", c.momentum_shift = 9);
    WRONG("variance_shift must be", c.variance_shift = 9);
    WRONG("momentum_shift must be below variance_shift + 2 with this optimizer",
          c.momentum_shift = 4;
          c.variance_shift = 2);
    WRONG("momentum_shift must be below variance_shift + 2", c.variance_shift = 0;
          c.momentum_shift = 6);
    REFUSED(0, "", c.momentum_shift = 3; c.variance_shift = 2);
    REFUSED(0, "", c.optimizer = UVCC_OPTIMIZER_MOMENTUM; c.momentum_shift = 4;
            c.variance_shift = 2);
    WRONG("learning_rate must be", c.learning_rate = 4);
    WRONG("learning_rate must be", c.learning_rate = NAN);
    WRONG("final_rate must be", c.final_rate = 1.5);
    WRONG("warmup must be at most steps", c.steps = 3);
    WRONG("weight_decay must be", c.weight_decay = -1);
    WRONG("epsilon must be a power of two", c.epsilon = 0.001);
    WRONG("epsilon must be a power of two from 2^-17", c.epsilon = 0x1p-18);
    WRONG("clip must be 0, or", c.clip = 0x1p-13);
    WRONG("clip must be above 0 and at most 1024 epsilon", c.clip = 0);
    WRONG("clip must be above 0 and at most 1024 epsilon", c.clip = 0.07);
    WRONG("clip must be 0, or 2^-5 to 4 with this optimizer", MINI; c.clip = 0x1p-6);
    WRONG("clip must be 0, or 2^-5 to 4 with this optimizer", MINI; c.clip = 5);
    WRONG("clip must be at most 1024 epsilon sqrt(dim)", MINI; c.clip = 0.26);
    REFUSED(0, "", MINI; c.clip = 0.25);
    REFUSED(0, "", MINI; c.clip = 0);
    WRONG("epsilon must be at least 2^-16", MINI; c.epsilon = 0x1p-17);
    WRONG("replicas: P has 4 rows at a worker, which 8 workers cannot share evenly", MINI;
          c.context = 4; c.batch = 32; c.replicas = 8);
    WRONG("frac_bits must be", c.frac_bits = 11);
    WRONG("value_bits must be", c.value_bits = 17);
    WRONG("gradient_bits must be", c.gradient_bits = 17);
    WRONG("weight_bits must be", c.weight_bits = 17);
    WRONG("truncation is unknown", c.truncation = 3);
    WRONG("lift is unknown", c.lift = 3);
    WRONG("exact must be", c.exact = 2);
    WRONG("products is unknown", c.products = 2);
    WRONG("text_owner must be", c.text_owner = 3);
    WRONG("loss must be", c.loss = 2);
    WRONG("sks must be at most 1000", c.sks = 1001);
    WIDE("sums of weight gradients need 63 bits, more than 62; lower frac_bits",
         c.gradient_bits = 9;
         c.batch = 1 << 7; c.context = 64);
    WIDE("steps of the optimizer need", c.optimizer = UVCC_OPTIMIZER_MOMENTUM; c.clip = 0;
         c.momentum_shift = 5);
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_transformer_config c = small();
    uvcc_program *p;
    char why[256];
    assert_int_equal(uvcc_transformer_program(&p, &c, &(uvcc_transformer_worker){.stage = 1}, &al,
                                              why, sizeof why),
                     UVCC_ERR_USAGE);
    assert_string_equal(why, "there is no worker (0, 1, 0)");
}

static void test_rate(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    const double unit = ldexp(1, UVCC_TRANSFORMER_RATE_BITS);
    c.learning_rate = 0.5;
    c.warmup = 4;
    c.steps = 0;
    assert_int_equal(uvcc_transformer_rate(&c, 0), (int64_t)(unit / 8));
    assert_int_equal(uvcc_transformer_rate(&c, 3), (int64_t)(unit / 2));
    assert_int_equal(uvcc_transformer_rate(&c, 4000), (int64_t)(unit / 2));
    c.steps = 12;
    c.final_rate = 0.25;
    assert_int_equal(uvcc_transformer_rate(&c, 4), (int64_t)(unit / 2));
    assert_int_equal(uvcc_transformer_rate(&c, 8), (int64_t)(unit * 0.3125));
    assert_int_equal(uvcc_transformer_rate(&c, 12), (int64_t)(unit / 8));
    assert_int_equal(uvcc_transformer_rate(&c, 13), (int64_t)(unit / 8));
}

/* ---- weights ---- */

static uint32_t weight_called(const uvcc_transformer_config *c, const char *name) {
    uvcc_transformer_weight w;
    uint32_t i = 0;
    while (uvcc_transformer_weight_at(c, i, &w) == 0 && strcmp(w.name, name) != 0)
        i++;
    assert_true(i < uvcc_transformer_weight_count(c));
    return i;
}

/* As docs/transformer.md says, from the PRG's words. */
static void check_drawn(const uvcc_transformer_config *c, const char *name, double spread) {
    const uint32_t i = weight_called(c, name);
    const int64_t limit = (int64_t)floor(spread * 65536);
    uint8_t text[64], digest[32];
    uvcc_transformer_weight w;
    uvcci_aes key;
    uint64_t word[300];
    uvcci_writer out = uvcci_writer_on(text, sizeof text);
    uvcci_put(&out, "uvcc/transformer", 16);
    uvcci_put64(&out, SEED);
    uvcci_put32(&out, i);
    uvcci_sha256_once(text, out.len, digest);
    uvcci_aes_init(&key, digest, UVCCI_AES_AUTO);
    uvcci_prg_fill(&key, (uvcci_prg_at){0}, 0, word, 300);
    assert_int_equal(uvcc_transformer_weight_at(c, i, &w), 0);
    int64_t *v = malloc((size_t)w.rows * w.cols * sizeof *v);
    uvcc_transformer_initial(c, SEED, i, v);
    for (size_t e = 0; e < 300 && e < (size_t)w.rows * w.cols; e++) {
        /* floor(word n / 2^64), word = high 2^32 + low */
        const uint64_t n = 2 * (uint64_t)limit + 1, high = word[e] >> 32, low = (uint32_t)word[e];
        assert_int_equal(v[e], (int64_t)((high * n + (low * n >> 32)) >> 32) - limit);
    }
    free(v);
}

static void test_weights(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    static const char *const order[] = {"E",     "P",     "L0.G1", "L0.WQ", "L0.BQ", "L0.WK",
                                        "L0.BK", "L0.WV", "L0.BV", "L0.WO", "L0.BO", "L0.G2",
                                        "L0.W1", "L0.B1", "L0.W2", "L0.B2", "L1.G1"};
    uvcc_transformer_weight w;
    for (uint32_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        assert_int_equal(uvcc_transformer_weight_at(&c, i, &w), 0);
        assert_string_equal(w.name, order[i]);
    }
    const uint32_t count = uvcc_transformer_weight_count(&c);
    assert_int_equal(count, 2 + 2 * 14 + 2);
    assert_int_equal(uvcc_transformer_weight_at(&c, count - 1, &w), 0);
    assert_string_equal(w.name, "WL");
    assert_int_equal(uvcc_transformer_weight_at(&c, count, &w), UVCC_ERR_NOT_FOUND);
    check_drawn(&c, "E", 0.5);
    check_drawn(&c, "P", 0.25);
    check_drawn(&c, "L1.WQ", sqrt(6.0 / 32));
    check_drawn(&c, "L0.W2", sqrt(6.0 / 40));
    c.block = UVCC_BLOCK_GPT2;
    c.hidden = 0;
    assert_int_equal(uvcc_transformer_weight_at(&c, weight_called(&c, "L0.W1"), &w), 0);
    assert_int_equal(w.cols, 64);
    (void)weight_called(&c, "CF");
    c.block = UVCC_BLOCK_SWIGLU;
    assert_int_equal(uvcc_transformer_weight_at(&c, weight_called(&c, "L1.WU"), &w), 0);
    assert_int_equal(w.cols, 48); /* 8/3 of 16, in eights */
}

static void test_hash(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    const uint64_t n = uvcc_transformer_parameters(&c);
    int64_t *weights = calloc(n, sizeof *weights);
    uint8_t *bytes = calloc(n, 8), digest[32], want[32];
    for (uint64_t i = 0; i < n; i++)
        for (unsigned k = 0; k < 8; k++)
            bytes[8 * i + k] = (uint8_t)((uint64_t)(weights[i] = (int64_t)i - 5000) >> 8 * k);
    uvcci_sha256_once(bytes, 8 * n, want);
    uvcc_transformer_weights_hash(&c, weights, digest);
    assert_memory_equal(digest, want, 32);
    free(weights);
    free(bytes);
}

/* Every row of a step is given to exactly one worker of a stage, once. */
static void test_rows(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    uint8_t seen[8 * 8] = {0};
    c.replicas = c.microbatches = c.tensor_ranks = 2;
    for (uint32_t r = 0; r < 2; r++)
        for (uint32_t t = 0; t < 2; t++)
            for (uint32_t mb = 0; mb < 2; mb++) {
                uint32_t first, count;
                uvcc_transformer_rows(&c, &(uvcc_transformer_worker){r, 0, t}, mb, &first, &count);
                assert_int_equal(count, c.context);
                assert_int_equal(first, ((r * 2 + mb) * 2 + t) * c.context);
                for (uint32_t i = 0; i < count; i++)
                    assert_int_equal(seen[first + i]++, 0);
            }
    for (unsigned i = 0; i < sizeof seen; i++)
        assert_int_equal(seen[i], 1);
}

static void test_sequences(void **state) {
    (void)state;
    const uvcc_transformer_config c = small();
    uint32_t low = 0, high = 0;
    for (uint32_t step = 0; step < 20; step++)
        for (uint32_t i = 0; i < 32; i++) {
            const uint64_t at = uvcc_transformer_sequence(&c, SEED, step, i, 108);
            assert_true(at < 100);
            low += at < 10;
            high += at >= 90;
        }
    assert_true(low > 30 && high > 30);
    assert_int_equal(uvcc_transformer_sequence(&c, SEED, 1, 2, 9), 0);
    assert_int_not_equal(uvcc_transformer_sequence(&c, SEED, 1, 2, 1000000),
                         uvcc_transformer_sequence(&c, SEED + 1, 1, 2, 1000000));
}

/* The frozen text is the one whose hash tests/data/README.md records. */
static void test_corpus(void **state) {
    (void)state;
    static char readme[8192], hex[65];
    static uint8_t text[1 << 19];
    uint8_t digest[32];
    FILE *f = fopen(UVCC_DATA_DIR "/README.md", "rb");
    assert_non_null(f);
    assert_true(fread(readme, 1, sizeof readme - 1, f) > 0);
    fclose(f);
    f = fopen(UVCC_DATA_DIR "/corpus.txt", "rb");
    assert_non_null(f);
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_true(n >= 60000 && n < sizeof text);
    uvcci_sha256_once(text, n, digest);
    for (unsigned i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_non_null(strstr(readme, "`corpus.txt`"));
    assert_non_null(strstr(strstr(readme, "`corpus.txt`"), hex));
}

/* With an argument the splits alone, which take longer than all of the others together. */
int main(int argc, char **argv) {
    (void)argv;
    const struct CMUnitTest splits[] = {
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_mini_splits),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_corpus),
        cmocka_unit_test(test_every_kind_loads),
        cmocka_unit_test(test_sums_of_microbatches),
        cmocka_unit_test(test_large_shapes),
        cmocka_unit_test(test_mini_ends),
        cmocka_unit_test(test_lower_triangle),
        cmocka_unit_test(test_memory_of_long_rows),
        cmocka_unit_test(test_rows_again),
        cmocka_unit_test(test_index_bits),
        cmocka_unit_test(test_numbers_of_ops),
        cmocka_unit_test(test_numbers_of_layers),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_logits),
        cmocka_unit_test(test_next),
        cmocka_unit_test(test_learns),
        cmocka_unit_test(test_mini_learns),
        cmocka_unit_test(test_mini_cost),
        cmocka_unit_test(test_gradients),
    };
    return argc > 1 ? cmocka_run_group_tests(splits, NULL, NULL)
                    : cmocka_run_group_tests(tests, NULL, NULL);
}
