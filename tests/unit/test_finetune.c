/* SPDX-License-Identifier: Apache-2.0 */
/* test_finetune.c - fine-tuning of described models: gradients are those of the same model in
 * double precision, by finite differences; what three sessions train is the plaintext twin's to the
 * bit; what is not trained stays; what is refused, is refused by name. */
#include "described.h"
#include "triangle.h"

#include <math.h>
#include <uvcc/finetune.h>

enum { SEED = 5, BATCHES_MAX = 4 };

/* ---- descriptions ---- */

/* BERT with a pooler and three labels, two sequences at a time. */
static uvcc_finetune_config bert(void) {
    uvcc_finetune_config c;
    assert_int_equal(uvcc_finetune_default(&c, sizeof c), 0);
    c.model.layers = 2;
    c.model.width = 12;
    c.model.heads = 3;
    c.model.ff_width = 20;
    c.model.tokens = 5;
    c.model.sequences = 2;
    c.model.epsilon = 1e-5;
    c.model.vocabulary = 7;
    c.model.segments = 2;
    c.model.input = UVCC_MODEL_INPUT_ONE_HOT;
    c.model.positions = UVCC_MODEL_POSITIONS_LEARNED;
    c.model.embedding_norm = 1;
    c.model.pool = UVCC_MODEL_POOL_TANH;
    c.model.labels = 3;
    c.model.mode = UVCC_MODEL_EXACT;
    c.microbatches = 2;
    c.method = UVCC_FINETUNE_FULL;
    c.rank = 2;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    c.learning_rate = 1;
    c.warmup = c.steps = 0;
    c.clip = 0;
    return c;
}

/* GPT-2 with a tied head, which learns the next token of eleven. */
static uvcc_finetune_config gpt2(void) {
    uvcc_finetune_config c = bert();
    c.model.order = UVCC_MODEL_PRE_NORM;
    c.model.last_norm = 1;
    c.model.activation = UVCC_NL_GELU_TANH;
    c.model.mask = UVCC_MODEL_MASK_CAUSAL;
    c.model.embedding_norm = 0;
    c.model.segments = 0;
    c.model.pool = UVCC_MODEL_POOL_NONE;
    c.model.labels = 0;
    c.model.head = UVCC_MODEL_HEAD_TIED;
    c.model.vocabulary = 11;
    c.model.tokens = 8;
    return c;
}

/* Llama, with a head of its own. */
static uvcc_finetune_config llama(void) {
    uvcc_finetune_config c = gpt2();
    c.model.heads = 4;
    c.model.kv_heads = 2;
    c.model.head_size = 6;
    c.model.norm = UVCC_MODEL_RMS_NORM;
    c.model.ff = UVCC_MODEL_FF_GATED;
    c.model.activation = UVCC_NL_SILU;
    c.model.biases = 0;
    c.model.positions = UVCC_MODEL_POSITIONS_ROTARY;
    c.model.head = UVCC_MODEL_HEAD_OWN;
    return c;
}

/* GPT-Neo: every second layer sees a window, scores are not scaled. */
static uvcc_finetune_config gpt_neo(void) {
    uvcc_finetune_config c = gpt2();
    c.model.tokens = 16;
    c.model.mask = UVCC_MODEL_MASK_WINDOW;
    c.model.window = 3;
    c.model.window_period = 2;
    c.model.window_layers = 2;
    c.model.unscaled = 1;
    c.microbatches = 1;
    return c;
}

/* ---- values ---- */

static double draw(uint64_t *state) {
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(*state >> 11) * 0x1p-52 - 1; /* -1 to 1 */
}

static uint32_t below(uint64_t *state, uint32_t n) {
    return (uint32_t)(fabs(draw(state)) * n) % n;
}

typedef struct values {
    uvcc_finetune_config c;
    uint32_t count;
    size_t elems;
    double *real;   /* all weights, adapters' too */
    int64_t *fixed; /* the same */
    int64_t *x[BATCHES_MAX], *pad[BATCHES_MAX], *target[BATCHES_MAX];
} values;

static uvcc_finetune_weight weight_at(const values *v, uint32_t i, size_t *at) {
    uvcc_finetune_weight w;
    *at = 0;
    for (uint32_t k = 0; k <= i; k++) {
        *at += k != 0 ? (size_t)w.about.rows * w.about.cols : 0;
        assert_int_equal(uvcc_finetune_weight_at(&v->c, k, &w), 0);
    }
    return w;
}

static void draw_batch(values *v, uint32_t mb, uint64_t *state) {
    const uvcc_model_config *m = &v->c.model;
    uvcc_tensor_desc in;
    uint32_t rows, cols;
    assert_int_equal(uvcc_model_inputs(m, &in, NULL), 0);
    assert_int_equal(uvcc_model_output(m, &rows, &cols), 0);
    v->x[mb] = calloc((size_t)in.rows * in.cols, sizeof(int64_t));
    v->pad[mb] = calloc((size_t)m->sequences * m->tokens, sizeof(int64_t));
    v->target[mb] = calloc((size_t)rows * cols, sizeof(int64_t));
    for (uint32_t i = 0; i < in.rows && m->input == UVCC_MODEL_INPUT_ONE_HOT; i++) {
        v->x[mb][i * in.cols + below(state, m->vocabulary)] = 1;
        if (m->segments != 0)
            v->x[mb][i * in.cols + m->vocabulary + below(state, m->segments)] = 1;
    }
    for (size_t i = 0; i < (size_t)in.rows * in.cols && m->input == UVCC_MODEL_INPUT_HIDDEN; i++)
        v->x[mb][i] = llround(ldexp(2 * draw(state), m->frac_bits));
    for (uint32_t i = 0; i < in.rows && m->padding; i++)
        v->pad[mb][i] = i % m->tokens + 2 >= m->tokens;
    for (uint32_t i = 0; i < rows; i++)
        v->target[mb][i * cols + below(state, cols)] = 1;
}

static values *draw_values(const uvcc_finetune_config *c) {
    values *v = calloc(1, sizeof *v);
    char why[256] = "";
    uint64_t state = SEED;
    if (uvcc_finetune_check(c, why, sizeof why) != 0)
        fail_msg("%s", why);
    v->c = *c;
    v->count = uvcc_finetune_weight_count(c);
    size_t at;
    const uvcc_finetune_weight last = weight_at(v, v->count - 1, &at);
    v->elems = at + (size_t)last.about.rows * last.about.cols;
    v->real = calloc(v->elems, sizeof *v->real);
    v->fixed = calloc(v->elems, sizeof *v->fixed);
    for (uint32_t i = 0; i < v->count; i++) {
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        const bool matrix = w.about.kind == UVCC_MODEL_WEIGHT_MATRIX;
        const double spread = matrix ? 1 / sqrt(w.about.rows) : 0.5;
        for (size_t e = 0; e < (size_t)w.about.rows * w.about.cols; e++) {
            const double x = spread * draw(&state) + (w.about.kind == UVCC_MODEL_WEIGHT_GAIN);
            v->fixed[at + e] = llround(ldexp(x, c->model.frac_bits));
            v->real[at + e] = ldexp((double)v->fixed[at + e], -c->model.frac_bits);
        }
    }
    for (uint32_t mb = 0; mb < c->microbatches; mb++)
        draw_batch(v, mb, &state);
    return v;
}

static void free_values(values *v) {
    for (unsigned i = 0; i < BATCHES_MAX; i++) {
        free(v->x[i]);
        free(v->pad[i]);
        free(v->target[i]);
    }
    free(v->real);
    free(v->fixed);
    free(v);
}

/* ---- in double precision ---- */

/* The model's weights with what adapters add to them. */
static double *adapted(const values *v) {
    const size_t own = uvcc_model_parameters(&v->c.model);
    double *w = calloc(own, sizeof *w);
    memcpy(w, v->real, own * sizeof *w);
    for (uint32_t i = uvcc_model_weight_count(&v->c.model); i < v->count; i += 2) {
        size_t a, b, at;
        uint32_t of = 0;
        const uvcc_finetune_weight down = weight_at(v, i, &a), up = weight_at(v, i + 1, &b);
        const size_t end = strlen(down.about.name) - 2;
        uvcc_finetune_weight whole = weight_at(v, 0, &at);
        while (strncmp(whole.about.name, down.about.name, end) != 0 || whole.about.name[end] != 0)
            whole = weight_at(v, ++of, &at);
        for (size_t r = 0; r < whole.about.rows; r++)
            for (size_t k = 0; k < whole.about.cols; k++)
                for (size_t j = 0; j < down.about.cols; j++)
                    w[at + r * whole.about.cols + k] +=
                        v->real[a + r * down.about.cols + j] * v->real[b + j * up.about.cols + k];
    }
    return w;
}

static double mean_loss(const values *v) {
    uint32_t rows, cols;
    double sum = 0, *w = adapted(v);
    assert_int_equal(uvcc_model_output(&v->c.model, &rows, &cols), 0);
    for (uint32_t mb = 0; mb < v->c.microbatches; mb++) {
        double *y = described_forward(
            &(described){.c = &v->c.model, .weights = w, .x = v->x[mb], .pad = v->pad[mb]});
        for (uint32_t i = 0; i < rows; i++) {
            double total = 0, right = 0;
            for (uint32_t j = 0; j < cols; j++) {
                total += exp(y[i * cols + j]);
                right += v->target[mb][i * cols + j] != 0 ? y[i * cols + j] : 0;
            }
            sum += log(total) - right;
        }
        free(y);
    }
    free(w);
    return sum / rows / v->c.microbatches;
}

static double slope_of(values *v, size_t element) {
    static const double step = 1e-4;
    const double at = v->real[element];
    v->real[element] = at + step;
    const double above = mean_loss(v);
    v->real[element] = at - step;
    const double below_it = mean_loss(v);
    v->real[element] = at;
    return (above - below_it) / (2 * step);
}

/* ---- the plaintext twin ---- */

static uvcc_program *program_of(const uvcc_finetune_config *c) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    if (uvcc_finetune_program(&p, c, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

typedef void (*setter)(void *user, uint32_t tensor, const int64_t *v);

static void set_state(const values *v, const uvcc_program *p, setter set, void *user) {
    for (uint32_t i = 0; i < v->count; i++) {
        size_t at;
        char master[40];
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        const size_t n = (size_t)w.about.rows * w.about.cols;
        set(user, (uint32_t)uvcc_program_find(p, w.about.name), v->fixed + at);
        snprintf(master, sizeof master, "M.%s", w.about.name);
        assert_int_equal(uvcc_program_find(p, master) >= 0, w.trained);
        if (!w.trained)
            continue;
        int64_t *fine = calloc(n, sizeof *fine);
        for (size_t e = 0; e < n; e++)
            fine[e] = v->fixed[at + e] * (1ll << UVCC_FINETUNE_FINE_BITS);
        set(user, (uint32_t)uvcc_program_find(p, master), fine);
        free(fine);
    }
}

static void set_reference(void *user, uint32_t tensor, const int64_t *v) {
    assert_int_equal(uvcc_reference_set(user, tensor, v), 0);
}

static uvcc_reference *reference_of(const values *v, const uvcc_program *p) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_reference *r;
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    set_state(v, p, set_reference, r);
    return r;
}

static const int64_t *given(const values *v, uint32_t id) {
    const uint32_t mb = id & 0xFFF;
    switch (id) {
    case UVCC_FINETUNE_IN_EVAL_X:
        return v->x[0];
    case UVCC_FINETUNE_IN_EVAL_TARGETS:
        return v->target[0];
    case UVCC_FINETUNE_IN_EVAL_PADDING:
        return v->pad[0];
    default:
        return id >= UVCC_FINETUNE_IN_PADDING   ? v->pad[mb]
               : id >= UVCC_FINETUNE_IN_TARGETS ? v->target[mb]
                                                : v->x[mb];
    }
}

static void reference_step(const values *v, const uvcc_program *p, uvcc_reference *r, uint32_t step,
                           const char *entry) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p, entry);
    const int64_t rate = uvcc_finetune_rate(&v->c, step);
    char why[256] = "";
    set_reference(r, (uint32_t)uvcc_program_find(p, "rate"), &rate);
    for (uint32_t i = 0; i < uvcc_program_input_count(p, e); i++) {
        const uvcc_io_desc *io = uvcc_program_input_at(p, e, i);
        set_reference(r, io->tensor, given(v, io->id));
    }
    if (uvcc_reference_step(r, e, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* ---- gradients ---- */

/* By a step of SGD with rate 1: what left the masters. Three elements of each trained weight. */
static void check_gradients(const uvcc_finetune_config *c) {
    values *v = draw_values(c);
    uvcc_program *p = program_of(c);
    uvcc_reference *r = reference_of(v, p);
    uint64_t state = SEED;
    double most = 0;
    unsigned moved = 0;
    reference_step(v, p, r, 0, "train");
    for (uint32_t i = 0; i < v->count; i++) {
        size_t at;
        char master[40];
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        if (!w.trained)
            continue;
        snprintf(master, sizeof master, "M.%s", w.about.name);
        const int64_t *m = uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, master));
        for (unsigned k = 0; k < 3; k++) {
            const uint32_t e = below(&state, w.about.rows * w.about.cols);
            const double before = ldexp((double)v->fixed[at + e], -c->model.frac_bits);
            const double after =
                ldexp((double)m[e], -(int)(c->model.frac_bits + UVCC_FINETUNE_FINE_BITS));
            const double want = slope_of(v, at + e);
            most = fmax(most, fabs(want));
            moved += fabs(want) > 1e-4;
            if (fabs(before - after - want) > 5e-4)
                fail_msg("%s[%u]: gradient %f, not %f", w.about.name, e, before - after, want);
        }
    }
    assert_true(moved >= 6 && most > 0.02);
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(v);
}

static void test_gradients_of_all_weights(void **state) {
    (void)state;
    uvcc_finetune_config c = bert();
    check_gradients(&c);
    c = gpt2();
    check_gradients(&c);
    c = llama();
    check_gradients(&c);
    c = gpt_neo();
    check_gradients(&c);
}

/* Padding in four sequences, each a microbatch; only the adapters and the classifier move. */
static uvcc_finetune_config padded(void) {
    uvcc_finetune_config c = bert();
    c.model.padding = 1;
    c.model.sequences = 1;
    c.model.pool = UVCC_MODEL_POOL_FIRST;
    c.microbatches = 4;
    return c;
}

static void test_gradients_of_pools(void **state) {
    (void)state;
    uvcc_finetune_config c = padded();
    check_gradients(&c);
    c = bert();
    c.model.pool = UVCC_MODEL_POOL_MEAN;
    c.model.tokens = 6;
    c.model.activation = UVCC_NL_RELU;
    check_gradients(&c);
    c.model.pool = UVCC_MODEL_POOL_NONE; /* a label for each token, of rows that the caller made */
    c.model.tokens = 4;
    c.model.input = UVCC_MODEL_INPUT_HIDDEN;
    c.model.vocabulary = c.model.segments = 0;
    check_gradients(&c);
}

static void test_gradients_of_adapters(void **state) {
    (void)state;
    uvcc_finetune_config c = padded();
    c.method = UVCC_FINETUNE_LORA;
    check_gradients(&c);
    c = gpt2();
    c.method = UVCC_FINETUNE_LORA;
    c.adapted = UVCC_FINETUNE_WQ | UVCC_FINETUNE_WK | UVCC_FINETUNE_WV;
    c.model.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    check_gradients(&c);
    c = llama();
    c.method = UVCC_FINETUNE_LORA;
    c.model.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    check_gradients(&c);
    c.model.weights = UVCC_MODEL_SECRET_WEIGHTS;
    c.adapted = UVCC_FINETUNE_WK;
    c.rank = 1;
    check_gradients(&c);
}

/* Of a model whose forward pass alone is needed: pools that no backward pass knows are fine. */
static void test_gradients_of_heads(void **state) {
    (void)state;
    uvcc_finetune_config c = bert();
    c.method = UVCC_FINETUNE_HEAD;
    check_gradients(&c);
    c.model.pool = UVCC_MODEL_POOL_MEAN;
    c.model.padding = 1;
    c.model.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    check_gradients(&c);
    c = gpt2(); /* nor norms that have no gains */
    c.model.plain_norms = 1;
    c.model.head = UVCC_MODEL_HEAD_NONE;
    c.model.labels = 4;
    c.model.pool = UVCC_MODEL_POOL_MEAN;
    c.method = UVCC_FINETUNE_HEAD;
    check_gradients(&c);
}

/* ---- sessions ---- */

static void set_triangle(void *user, uint32_t tensor, const int64_t *v) {
    triangle_set_public(user, tensor, v);
}

/* One step of an entry at all parties and at the twin. */
static void step(triangle *t, const values *v, const uvcc_program *p, uvcc_reference *r,
                 uint32_t number, const char *entry) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p, entry);
    const int64_t rate = uvcc_finetune_rate(&v->c, number);
    triangle_set_public(t, (uint32_t)uvcc_program_find(p, "rate"), &rate);
    triangle_agree(t, number, e);
    for (uint32_t i = 0; i < uvcc_program_input_count(p, e); i++) {
        const uint32_t id = uvcc_program_input_at(p, e, i)->id;
        const bool targets =
            id == UVCC_FINETUNE_IN_EVAL_TARGETS || (id & 0xF000) == UVCC_FINETUNE_IN_TARGETS;
        triangle_input(t, targets ? v->c.label_owner : v->c.text_owner, number, id, given(v, id));
    }
    triangle_finish(t, number + 1);
    reference_step(v, p, r, number, entry);
}

/* Every output of the step is the twin's, at those parties that it opens to and at no other. */
static unsigned check_outputs(const triangle *t, const uvcc_program *p, uvcc_reference *r,
                              uint32_t number, const char *entry, unsigned to) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p, entry);
    const uint32_t count = uvcc_program_output_count(p, e);
    for (uint32_t i = 0; i < count; i++) {
        const uvcc_io_desc *io = uvcc_program_output_at(p, e, i);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
        for (unsigned party = 0; party < 3; party++) {
            const int64_t *y = uvcc_session_output(t->s[party], number, io->id);
            assert_int_equal(y != NULL, to == UVCC_TO_ALL || to == party);
            if (y != NULL)
                assert_memory_equal(y, uvcc_reference_get(r, io->tensor),
                                    (size_t)d->rows * d->cols * sizeof *y);
        }
    }
    return count;
}

/* Two steps of training, one of "eval", then the trained weights: the twin's to the bit. */
static void check_sessions(const uvcc_finetune_config *c) {
    values *v = draw_values(c);
    uvcc_program *p = program_of(c);
    uvcc_reference *r = reference_of(v, p);
    triangle t;
    uint32_t trained = 0;
    size_t at;
    for (uint32_t i = 0; i < v->count; i++)
        trained += weight_at(v, i, &at).trained;
    triangle_open(&t, p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    set_state(v, p, set_triangle, &t);
    for (uint32_t i = 0; i < 2; i++) {
        step(&t, v, p, r, i, "train");
        assert_int_equal(check_outputs(&t, p, r, i, "train", c->label_owner), c->loss);
    }
    step(&t, v, p, r, 2, "eval");
    assert_int_equal(check_outputs(&t, p, r, 2, "eval", c->label_owner),
                     1 + (c->model.labels != 0));
    step(&t, v, p, r, 3, "reveal");
    assert_int_equal(check_outputs(&t, p, r, 3, "reveal", c->receiver), trained);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(v);
}

static void test_sessions_are_the_twin(void **state) {
    (void)state;
    uvcc_finetune_config c = padded(); /* text, labels and what is learned are three parties' */
    c.method = UVCC_FINETUNE_LORA;
    c.optimizer = UVCC_OPTIMIZER_ADAMW;
    c.learning_rate = 0.01;
    c.clip = 0.0625;
    c.model.layers = 1;
    c.microbatches = 2;
    c.text_owner = 1;
    c.label_owner = 2;
    c.receiver = 0;
    check_sessions(&c);
    c = llama();
    c.model.layers = 1;
    c.microbatches = 1;
    c.method = UVCC_FINETUNE_LORA;
    c.model.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    c.loss = 0;
    check_sessions(&c);
    c.method = UVCC_FINETUNE_FULL;
    c.model.weights = UVCC_MODEL_SECRET_WEIGHTS;
    c.optimizer = UVCC_OPTIMIZER_MOMENTUM;
    c.learning_rate = 0.1;
    c.model.mode = UVCC_MODEL_EXACT_DCF;
    check_sessions(&c);
}

/* Weights that stay have no master, are opened by nothing, and are the same afterwards. */
static void test_frozen_stay(void **state) {
    (void)state;
    uvcc_finetune_config c = gpt2();
    c.method = UVCC_FINETUNE_LORA;
    values *v = draw_values(&c);
    uvcc_program *p = program_of(&c);
    uvcc_reference *r = reference_of(v, p);
    for (uint32_t i = 0; i < 3; i++)
        reference_step(v, p, r, i, "train");
    for (uint32_t i = 0; i < v->count; i++) {
        size_t at;
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        const int64_t *now = uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, w.about.name));
        const size_t bytes = (size_t)w.about.rows * w.about.cols * sizeof *now;
        assert_int_equal(w.trained, i >= uvcc_model_weight_count(&c.model));
        assert_int_equal(memcmp(now, v->fixed + at, bytes) != 0, w.trained);
    }
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(v);
}

/* In mode FAST the opened weights are near the twin's, and what opens was truncated exactly
 * (uvcc_program_finish would refuse it else). */
static void test_fast(void **state) {
    (void)state;
    uvcc_finetune_config c = gpt2();
    c.model.layers = 1;
    c.model.mode = UVCC_MODEL_FAST;
    c.microbatches = 1;
    c.learning_rate = 0.1;
    values *v = draw_values(&c);
    uvcc_program *p = program_of(&c);
    uvcc_reference *r = reference_of(v, p);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    set_state(v, p, set_triangle, &t);
    step(&t, v, p, r, 0, "train");
    step(&t, v, p, r, 1, "reveal");
    for (uint32_t i = 0; i < v->count; i++) {
        size_t at;
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        const uint32_t e = (uint32_t)uvcc_program_find_entry(p, "reveal");
        const int64_t *y = uvcc_session_output(t.s[0], 1, UVCC_FINETUNE_OUT_WEIGHT + i);
        const int64_t *twin = uvcc_reference_get(r, uvcc_program_output_at(p, e, i)->tensor);
        assert_non_null(y);
        for (size_t k = 0; k < (size_t)w.about.rows * w.about.cols; k++)
            assert_true(llabs(y[k] - twin[k]) < 64); /* of 2^16 */
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(v);
}

/* ---- learning ---- */

/* Steps until the loss has fallen, from what uvcc_finetune_initial has for what is new. */
static double loss_after(const uvcc_finetune_config *c, uint32_t steps, double *first) {
    values *v = draw_values(c);
    uvcc_program *p = program_of(c);
    for (uint32_t i = 0; i < v->count; i++) {
        size_t at;
        const uvcc_finetune_weight w = weight_at(v, i, &at);
        if (w.trained)
            uvcc_finetune_initial(c, SEED, i, v->fixed + at);
    }
    uvcc_reference *r = reference_of(v, p);
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p, "train");
    double loss = 0;
    for (uint32_t i = 0; i < steps; i++) {
        reference_step(v, p, r, i, "train");
        loss = ldexp((double)*uvcc_reference_get(r, uvcc_program_output_at(p, e, 0)->tensor),
                     -(int)UVCC_TRANSFORMER_LOSS_BITS) /
               uvcc_finetune_rows(c) / c->microbatches;
        *first = i == 0 ? loss : *first;
    }
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(v);
    return loss;
}

static void test_loss_falls(void **state) {
    (void)state;
    double first;
    uvcc_finetune_config c = bert();
    c.method = UVCC_FINETUNE_HEAD;
    c.optimizer = UVCC_OPTIMIZER_ADAMW;
    c.clip = 0.0625;
    c.learning_rate = 0.2;
    assert_true(loss_after(&c, 30, &first) < 0.7 * first);
    assert_true(fabs(first - log(3)) < 0.01); /* labels are all alike at first */
    c.method = UVCC_FINETUNE_LORA;
    c.learning_rate = 0.05;
    assert_true(loss_after(&c, 30, &first) < 0.7 * first);
    c = gpt2();
    c.method = UVCC_FINETUNE_LORA;
    c.optimizer = UVCC_OPTIMIZER_ADAMW;
    c.clip = 0.0625;
    c.learning_rate = 0.05;
    assert_true(loss_after(&c, 30, &first) < 0.9 * first);
}

/* ---- what is refused ---- */

static void refused(const uvcc_finetune_config *c, const char *what) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = NULL;
    char why[256] = "", again[256] = "";
    assert_true(uvcc_finetune_check(c, why, sizeof why) < 0);
    if (strstr(why, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, what);
    assert_true(uvcc_finetune_program(&p, c, &al, again, sizeof again) < 0);
    assert_string_equal(why, again);
    assert_null(p);
    assert_int_equal(uvcc_finetune_weight_count(c), 0);
}

static void test_refusals(void **state) {
    (void)state;
    const struct {
        const char *what;
        size_t at;
        uint8_t value;
    } bytes[] = {
#define AT(member) offsetof(uvcc_finetune_config, member)
        {"method", AT(method), 3},
        {"optimizer", AT(optimizer), UVCC_OPTIMIZER_ADAM_MINI},
        {"optimizer", AT(optimizer), 9},
        {"gradient_bits", AT(gradient_bits), 17},
        {"momentum_shift", AT(momentum_shift), 9},
        {"text_owner", AT(text_owner), 3},
        {"label_owner", AT(label_owner), UVCC_TO_ALL},
        {"receiver", AT(receiver), 3},
        {"loss", AT(loss), 2},
        {"microbatches", AT(microbatches), 0},
        {"power of two", AT(microbatches), 3},
        {"weights must be SECRET", AT(model.weights), UVCC_MODEL_PUBLIC_WEIGHTS},
        {"sequences must be 1 with padding", AT(model.padding), 1},
        {"labels must be 2", AT(model.labels), 1},
        {"labels must be 1 or more", AT(model.labels), 0},
#undef AT
    };
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) {
        uvcc_finetune_config c = bert();
        memset((uint8_t *)&c + bytes[i].at, bytes[i].value, 1);
        refused(&c, bytes[i].what);
    }
    uvcc_finetune_config c = gpt2();
    c.model.logits_last = 1;
    refused(&c, "logits_last");
    c = gpt2();
    c.method = UVCC_FINETUNE_HEAD;
    refused(&c, "labels must be 2");
    c = gpt2();
    c.method = UVCC_FINETUNE_LORA;
    c.rank = 13;
    refused(&c, "rank");
    c.rank = 1;
    c.adapted = 0;
    refused(&c, "adapted");
    c.adapted = 8;
    refused(&c, "adapted");
    c = padded();
    c.model.pool = UVCC_MODEL_POOL_MEAN;
    refused(&c, "pool");
    c.model.pool = UVCC_MODEL_POOL_NONE;
    c.model.tokens = 4;
    refused(&c, "padding");
    c = gpt2();
    c.model.plain_norms = 1;
    refused(&c, "plain_norms");
    c = gpt_neo();
    c.model.layers = 200;
    c.model.tokens = 256;
    refused(&c, "layers must be at most");
    c.size--;
    refused(&c, "another version");
}

static void hash_of(const uvcc_finetune_config *c, uint8_t index_bits, uint8_t out[32]) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_finetune_config other = *c;
    uvcc_program *p;
    char why[256] = "";
    other.model.index_bits = index_bits;
    if (uvcc_finetune_program(&p, &other, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    uvcc_program_hash(p, out);
    uvcc_program_free(p);
}

/* What has derivatives is looked up in cells of 2^-9 whatever f is, unless the model says other
 * ones; what has none as in a pass, of 2^-7 at f = 12. */
static void test_index_bits(void **state) {
    (void)state;
    static const struct {
        uint8_t method, index_bits, other;
    } of[] = {{UVCC_FINETUNE_HEAD, 7, 9}, {UVCC_FINETUNE_LORA, 9, 7}, {UVCC_FINETUNE_FULL, 9, 7}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        uvcc_finetune_config c = padded();
        uint8_t none[32], said[32], other[32];
        c.method = of[i].method;
        c.model.frac_bits = 12;
        hash_of(&c, 0, none);
        hash_of(&c, of[i].index_bits, said);
        hash_of(&c, of[i].other, other);
        assert_memory_equal(none, said, sizeof none);
        assert_memory_not_equal(none, other, sizeof none);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gradients_of_all_weights),
        cmocka_unit_test(test_gradients_of_pools),
        cmocka_unit_test(test_gradients_of_adapters),
        cmocka_unit_test(test_gradients_of_heads),
        cmocka_unit_test(test_sessions_are_the_twin),
        cmocka_unit_test(test_frozen_stay),
        cmocka_unit_test(test_fast),
        cmocka_unit_test(test_loss_falls),
        cmocka_unit_test(test_index_bits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
