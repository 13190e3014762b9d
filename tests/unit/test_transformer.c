/* The transformer's programs in plaintext: every split over workers gives the same weights and
 * losses, every block kind loads and learns, options are refused by name. */
#include "support.h"

#include "model.h"

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

static void test_splits(void **state) {
    (void)state;
    uvcc_transformer_config c = small();
    check_splits(&c, 3);
    c.block = UVCC_BLOCK_SWIGLU;
    c.optimizer = UVCC_OPTIMIZER_MOMENTUM;
    c.learning_rate = 0.5;
    c.weight_decay = 0.01;
    check_splits(&c, 2);
    c.block = UVCC_BLOCK_GPT2;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.clip = 0;
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
        const double limit = 0.01 * most + 2e-5, mean_limit = 0.001 * most + 1e-5;
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_splits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
