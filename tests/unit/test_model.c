/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c - models by description: what three sessions open is the plaintext twin's to the bit
 * in the exact modes and near it in the fast one; the twin is near the same model in double
 * precision, which is written here for itself; costs are what a run counts; what is refused, is
 * refused by name. */
#include "described.h"
#include "triangle.h"

#include "exec/model/model.h"

#include <math.h>
#include <uvcc/model.h>

enum { SEED = 21, SEQUENCES_MAX = 2 };

/* ---- descriptions ---- */

/* A BERT layer of no powers of two, whose last tokens are none. */
static uvcc_model_config bert(void) {
    uvcc_model_config c;
    assert_int_equal(uvcc_model_default(&c, sizeof c), 0);
    c.width = 24;
    c.heads = 3;
    c.ff_width = 40;
    c.tokens = 7;
    c.padding = 1;
    c.epsilon = 1e-5;
    c.mode = UVCC_MODEL_EXACT;
    return c;
}

/* Two layers of GPT-2, in three tiles of which the last has fewer rows. */
static uvcc_model_config gpt2(void) {
    uvcc_model_config c = bert();
    c.layers = 2;
    c.order = UVCC_MODEL_PRE_NORM;
    c.last_norm = 1;
    c.activation = UVCC_NL_GELU_TANH;
    c.mask = UVCC_MODEL_MASK_CAUSAL;
    c.padding = 0;
    c.positions = UVCC_MODEL_POSITIONS_LEARNED;
    c.tokens = 10;
    return c;
}

/* Llama, with heads of an odd number of pairs. */
static uvcc_model_config llama(void) {
    uvcc_model_config c = gpt2();
    c.layers = 1;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_size = 6;
    c.norm = UVCC_MODEL_RMS_NORM;
    c.ff = UVCC_MODEL_FF_GATED;
    c.activation = UVCC_NL_SILU;
    c.biases = 0;
    c.positions = UVCC_MODEL_POSITIONS_ROTARY;
    return c;
}

/* GPT-Neo: every second layer sees a window, scores are not scaled. */
static uvcc_model_config gpt_neo(void) {
    uvcc_model_config c = gpt2();
    c.tokens = 11;
    c.mask = UVCC_MODEL_MASK_WINDOW;
    c.window = 3;
    c.window_period = 2;
    c.window_layers = 2;
    c.unscaled = 1;
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
    uvcc_model_config c;
    size_t count, out;                 /* of x, of y */
    int64_t *weights, *x, *y, pad[64]; /* y: the twin's */
} values;

static int64_t fixed(const uvcc_model_config *c, double v) {
    return (int64_t)floor(ldexp(v, c->frac_bits) + 0.5);
}

/* Tokens that are none: the last ones, fewer in later sequences. */
static void draw_padding(values *v) {
    const uvcc_model_config *c = &v->c;
    assert_true(c->sequences * c->tokens <= sizeof v->pad / sizeof v->pad[0]);
    for (uint32_t s = 0; s < c->sequences; s++)
        for (uint32_t t = 0; t < c->tokens; t++)
            v->pad[s * c->tokens + t] = t + 2 >= c->tokens + s;
}

static void draw_values(values *v, const uvcc_model_config *c) {
    uvcc_model_weight w;
    uint64_t state = SEED;
    uvcc_tensor_desc in;
    uint32_t rows, cols;
    assert_int_equal(uvcc_model_inputs(c, &in, NULL), 0);
    assert_int_equal(uvcc_model_output(c, &rows, &cols), 0);
    *v = (values){.c = *c, .count = (size_t)in.rows * in.cols, .out = (size_t)rows * cols};
    v->weights = calloc(uvcc_model_parameters(c), sizeof *v->weights);
    v->x = calloc(v->count, sizeof *v->x);
    v->y = calloc(v->out, sizeof *v->y);
    int64_t *at = v->weights;
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++)
        for (size_t e = 0; e < (size_t)w.rows * w.cols; e++) {
            const bool matrix = w.kind == UVCC_MODEL_WEIGHT_MATRIX;
            const double spread = matrix ? 2 / sqrt(w.rows) : 0.5;
            *at++ = fixed(c, spread * draw(&state) + (w.kind == UVCC_MODEL_WEIGHT_GAIN));
        }
    for (size_t e = 0; e < v->count && c->input == UVCC_MODEL_INPUT_HIDDEN; e++)
        v->x[e] = fixed(c, 3 * draw(&state));
    for (size_t i = 0; i < in.rows && c->input == UVCC_MODEL_INPUT_ONE_HOT; i++) {
        v->x[i * in.cols + below(&state, c->vocabulary)] = 1;
        if (c->segments != 0)
            v->x[i * in.cols + c->vocabulary + below(&state, c->segments)] = 1;
    }
    for (size_t i = 0; i < in.rows && c->input == UVCC_MODEL_INPUT_TOKENS; i++) {
        v->x[i * in.cols] = below(&state, c->vocabulary); /* those of ONE_HOT */
        if (c->segments != 0)
            v->x[i * in.cols + 1] = below(&state, c->segments);
    }
    draw_padding(v);
}

static const int64_t *padding_of(const values *v) {
    return v->c.padding ? v->pad : NULL;
}

static void free_values(values *v) {
    free(v->weights);
    free(v->x);
    free(v->y);
}

static void make_twin(values *v) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256] = "";
    if (uvcc_model_reference(&v->c, &al, v->weights, v->x, padding_of(v), v->y, why, sizeof why))
        fail_msg("%s", why);
}

/* ---- the model in double precision ---- */

static double *real_model(const values *v) {
    const size_t n = uvcc_model_parameters(&v->c);
    double *weights = calloc(n, sizeof *weights);
    assert_non_null(weights);
    for (size_t i = 0; i < n; i++)
        weights[i] = ldexp((double)v->weights[i], -v->c.frac_bits);
    double *y =
        described_forward(&(described){.c = &v->c, .weights = weights, .x = v->x, .pad = v->pad});
    free(weights);
    return y;
}

/* The greatest distance of y, at `scale`, from the model in double precision, over tokens that are
 * some. */
static double distance(const values *v, const int64_t *y, unsigned scale) {
    const bool each = !v->c.logits_last && v->c.pool == UVCC_MODEL_POOL_NONE;
    const size_t cols = v->out / (v->c.sequences * (each ? v->c.tokens : 1));
    double *z = real_model(v), most = 0;
    for (size_t i = 0; i < v->out; i++)
        if (!v->c.padding || !each || v->pad[i / cols] == 0)
            most = fmax(most, fabs(ldexp((double)y[i], -(int)scale) - z[i]));
    free(z);
    return most;
}

/* ---- sessions ---- */

static uvcc_program *program_of(const uvcc_model_config *c, uint8_t receiver) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    if (uvcc_model_program(&p, c, 1, receiver, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static void set_weights(triangle *t, const values *v, const uvcc_program *p) {
    uvcc_model_weight w;
    const int64_t *at = v->weights;
    for (uint32_t i = 0; uvcc_model_weight_at(&v->c, i, &w) == 0; i++) {
        triangle_set_public(t, (uint32_t)uvcc_program_find(p, w.name), at);
        at += (size_t)w.rows * w.cols;
    }
}

/* One run of `p`, a program of the model; *t is to be closed and freed. */
static void run_program(triangle *t, const values *v, const uvcc_program *p) {
    triangle_open(t, p, &(triangle_options){.seed = SEED});
    triangle_ready(t);
    set_weights(t, v, p);
    triangle_agree(t, 0, 0);
    triangle_input(t, 1, 0, UVCC_MODEL_IN_X, v->x);
    if (v->c.padding)
        triangle_input(t, 1, 0, UVCC_MODEL_IN_PADDING, v->pad);
    triangle_finish(t, 1);
}

/* Bytes and rounds of the run are those that the description said. */
static void check_cost(triangle *t, const uvcc_model_config *c) {
    enum { HEADERS = 160 };
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs cost;
    uint64_t online = 0, keys = 0, messages = 0;
    char why[256];
    assert_int_equal(uvcc_model_cost(c, &al, &cost, why, sizeof why), 0);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(t->s[i], &st);
        assert_int_equal(st.rounds, cost.rounds);
        assert_true(st.transient_peak_bytes <= cost.transient_bytes);
        online += st.bytes_online;
        keys += st.bytes_preprocessing;
        messages += st.messages;
    }
    assert_true(online >= cost.online_bytes && keys >= cost.key_bytes);
    if ((double)(online + keys) >
        1.1 * (double)(cost.online_bytes + cost.key_bytes) + (double)messages * HEADERS)
        fail_msg("%llu + %llu bytes, by the formula %llu + %llu", (unsigned long long)online,
                 (unsigned long long)keys, (unsigned long long)cost.online_bytes,
                 (unsigned long long)cost.key_bytes);
}

/* Opens what the twin says, and the twin is within `bound` of double precision. */
static void exact_run(const uvcc_model_config *c, double bound) {
    values v;
    triangle t;
    uvcc_program *p = program_of(c, UVCC_TO_ALL);
    draw_values(&v, c);
    make_twin(&v);
    run_program(&t, &v, p);
    for (unsigned i = 0; i < 3; i++)
        assert_memory_equal(uvcc_session_output(t.s[i], 0, UVCC_MODEL_OUT_Y), v.y,
                            v.out * sizeof *v.y);
    check_cost(&t, c);
    const double off = distance(&v, v.y, c->frac_bits);
    print_message("off by %.2g\n", off);
    assert_true(off > 0 && off < bound);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    free_values(&v);
}

static void test_bert(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    exact_run(&c, 0.01);
    c.mode = UVCC_MODEL_EXACT_DCF;
    c.sequences = 2;
    c.layers = 2;
    exact_run(&c, 0.02);
    c.padding = 0;
    c.inner_bits = 4;
    c.activation = UVCC_NL_RELU;
    exact_run(&c, 0.02);
    c = bert();
    c.width = 144; /* whose squares need more bits than the short way of the norms has */
    c.tokens = 3;
    exact_run(&c, 0.02);
}

static void test_others(void **state) {
    (void)state;
    uvcc_model_config c = gpt2();
    exact_run(&c, 0.02);
    c.layers = 1;
    c.padding = 1; /* beside the causal mask */
    c.sequences = 2;
    exact_run(&c, 0.02);
    c = llama();
    exact_run(&c, 0.02);
    c.mask = UVCC_MODEL_MASK_WINDOW;
    c.window = c.tokens; /* as good as causal */
    exact_run(&c, 0.02);
    c.frac_bits = 12;
    exact_run(&c, 0.2);
}

static const uvcc_tensor_desc *named(const uvcc_program *p, const char *name) {
    const int t = uvcc_program_find(p, name);
    if (t < 0)
        fail_msg("there is no %s", name);
    return uvcc_program_tensor_at(p, (uint32_t)t);
}

static void test_rotary(void **state) {
    (void)state;
    uvcc_model_config c = llama();
    c.rope_theta = 500000;
    c.sequences = 2;
    c.layers = 2;
    exact_run(&c, 0.02);
    c.biases = 1; /* turned behind the product's truncation */
    c.mode = UVCC_MODEL_EXACT_DCF;
    exact_run(&c, 0.02);
    c.padding = 1;
    exact_run(&c, 0.02);
}

/* Layers of one program have a table in common; one of other positions is not taken for it. */
static void test_rotary_again(void **state) {
    (void)state;
    uvcc_model_config c = llama();
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    uvcc_tensor_desc x;
    uint32_t weights[64], y;
    char why[256];
    c.layers = 3;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_model_inputs(&c, &x, NULL), 0);
    assert_int_equal(uvcc_model_weights(&c, p, "", weights, why, sizeof why), 0);
    x.name = "X";
    const uint32_t in = (uint32_t)uvcc_program_tensor(p, &x), none = UVCC_NO_TENSOR;
    assert_int_equal(uvcc_program_entry(p, "forward"), 0);
    uvcc_emit e = {.program = p, .prefix = "", .alloc = &al};
    for (uint32_t l = 0; l < 2; l++)
        assert_int_equal(uvcc_model_emit_layer(&c, &e, l, weights, in, none, &y, why, sizeof why),
                         0);
    c.rope_theta = 500000;
    assert_int_equal(uvcc_model_emit_layer(&c, &e, 2, weights, in, none, &y, why, sizeof why),
                     UVCC_ERR_USAGE);
    assert_non_null(strstr(why, "ROTARY is there with other values"));
    uvcc_program_free(p);
}

/* Rounded to nearest, up to the last of the longest text. */
static void test_rotary_table(void **state) {
    (void)state;
    static const double thetas[] = {0, 500000, 1.5};
    static const uint32_t tokens[] = {0, 1, 2, 1000, 4095, 65535};
    enum { HEAD = 10, TOKENS = 65536 };
    int64_t *table = calloc((size_t)TOKENS * HEAD, sizeof *table);
    uvcc_model_config c = llama();
    c.head_size = HEAD;
    c.tokens = TOKENS;
    for (size_t i = 0; i < sizeof thetas / sizeof thetas[0]; i++) {
        c.rope_theta = thetas[i];
        uvcci_model_rotary(&c, table);
        for (size_t k = 0; k < sizeof tokens / sizeof tokens[0]; k++)
            for (size_t j = 0; j < HEAD / 2; j++) {
                const double theta = i == 0 ? 10000 : thetas[i];
                const double angle = tokens[k] * pow(theta, -2 * (double)j / HEAD);
                const int64_t *row = table + (size_t)tokens[k] * HEAD;
                assert_true(fabs((double)row[j] - 16384 * cos(angle)) < 0.50001);
                assert_true(fabs((double)row[j + HEAD / 2] - 16384 * sin(angle)) < 0.50001);
            }
    }
    free(table);
}

/* Rotary positions take no more rounds than none. */
static void test_rotary_rounds(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs with, without;
    for (uint8_t mode = 0; mode < 3; mode++) {
        uvcc_model_config c = llama();
        c.mode = mode;
        assert_int_equal(uvcc_model_cost(&c, &al, &with, NULL, 0), 0);
        c.positions = UVCC_MODEL_POSITIONS_NONE;
        assert_int_equal(uvcc_model_cost(&c, &al, &without, NULL, 0), 0);
        assert_int_equal(with.rounds, without.rounds);
        assert_true(with.online_bytes < without.online_bytes * 1.05);
    }
}

/* Without gains and shifts: the same rounds at most, and fewer bytes. */
static void test_plain_norms(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs with, without;
    uvcc_model_weight w;
    for (unsigned i = 0; i < 2; i++)
        for (uint8_t mode = 0; mode < 3; mode++) {
            uvcc_model_config c = i == 0 ? gpt2() : llama();
            c.mode = mode;
            assert_int_equal(uvcc_model_cost(&c, &al, &with, NULL, 0), 0);
            const uint32_t count = uvcc_model_weight_count(&c);
            c.plain_norms = 1;
            assert_int_equal(uvcc_model_cost(&c, &al, &without, NULL, 0), 0);
            assert_true(without.rounds <= with.rounds);
            assert_true(without.online_bytes < with.online_bytes * 0.97);
            assert_int_equal(uvcc_model_weight_count(&c), count - (i == 0 ? 4 : 2) * c.layers);
            for (uint32_t k = 0; uvcc_model_weight_at(&c, k, &w) == 0; k++)
                assert_true(w.layer == UVCC_MODEL_NO_LAYER || w.kind < UVCC_MODEL_WEIGHT_GAIN);
            if (mode != UVCC_MODEL_FAST)
                exact_run(&c, 0.02);
        }
}

static void test_windows(void **state) {
    (void)state;
    uvcc_model_config c = gpt_neo();
    exact_run(&c, 0.03);
    c.sequences = 2;
    c.window = 1; /* itself alone */
    c.window_layers = 1;
    exact_run(&c, 0.03);
    c.window_layers = c.window_period = 0; /* all layers */
    c.window = 6;
    exact_run(&c, 0.03);
    c.padding = 1;
    exact_run(&c, 0.03);
    c = llama();
    c.tokens = 13;
    c.mask = UVCC_MODEL_MASK_WINDOW;
    c.window = 4;
    exact_run(&c, 0.02);
}

/* A tile of a layer that has the window has no columns before what its rows see. */
static void test_window_tiles(void **state) {
    (void)state;
    uvcc_model_config c = gpt_neo();
    c.tokens = 40; /* tiles of 5 rows */
    uvcc_program *p = program_of(&c, 0);
    assert_int_equal(named(p, "L0.t7.S")->cols, 40);
    assert_int_equal(named(p, "L1.t7.S")->cols, 5 + 2);
    assert_int_equal(named(p, "L1.t0.S")->cols, 5);
    uvcc_program_free(p);
}

/* What opens comes out of an exact truncation. */
static void opens_exactly(const uvcc_program *p) {
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_op_desc *last = NULL;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        if (d->out_count == 1 && d->out[0] == io->tensor)
            last = d;
    }
    assert_non_null(last);
    assert_int_equal(last->opcode, UVCC_OP_TRUNCATE);
    assert_int_equal(last->truncation, UVCC_TRUNC_EXACT);
    assert_int_equal(last->shift, UVCC_MODEL_OPEN_SHIFT);
}

/* Opens to party 2 alone, near the twin and double precision. */
static void fast_run(const uvcc_model_config *c, double bound) {
    values v;
    triangle t;
    uvcc_program *p = program_of(c, 2);
    opens_exactly(p);
    draw_values(&v, c);
    make_twin(&v);
    run_program(&t, &v, p);
    assert_null(uvcc_session_output(t.s[0], 0, UVCC_MODEL_OUT_Y));
    assert_null(uvcc_session_output(t.s[1], 0, UVCC_MODEL_OUT_Y));
    const int64_t *y = uvcc_session_output(t.s[2], 0, UVCC_MODEL_OUT_Y);
    assert_non_null(y);
    const unsigned scale = c->frac_bits - UVCC_MODEL_OPEN_SHIFT;
    const double off = distance(&v, y, scale), twin = distance(&v, v.y, scale);
    print_message("off by %.2g, its twin by %.2g\n", off, twin);
    assert_true(off < bound && twin < bound);
    check_cost(&t, c);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    free_values(&v);
}

static void test_fast(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.01);
    c.sequences = 2;
    c.layers = 3;
    fast_run(&c, 0.03);
    c = gpt2();
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.02);
    c = llama();
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.02);
    c = gpt_neo();
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.03);
}

/* BERT from tokens of two kinds to two labels. */
static uvcc_model_config classifier(void) {
    uvcc_model_config c = bert();
    c.input = UVCC_MODEL_INPUT_ONE_HOT;
    c.vocabulary = 19;
    c.segments = 2;
    c.embedding_norm = 1;
    c.positions = UVCC_MODEL_POSITIONS_LEARNED;
    c.sequences = 2;
    c.pool = UVCC_MODEL_POOL_TANH;
    c.labels = 3;
    return c;
}

static void test_embeddings(void **state) {
    (void)state;
    uvcc_model_config c = classifier();
    c.pool = UVCC_MODEL_POOL_NONE;
    c.labels = 0;
    exact_run(&c, 0.02);
    c.segments = 0;
    c.embedding_norm = 0;
    c.positions = UVCC_MODEL_POSITIONS_NONE;
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.02);
    c = llama();
    c.input = UVCC_MODEL_INPUT_ONE_HOT;
    c.vocabulary = 37;
    c.embedding_norm = 1; /* RMS: no shift */
    exact_run(&c, 0.02);
}

/* Ids instead of one-hot rows: the same values, in the same rounds, for a part of the bytes. */
static void same_of_tokens(uvcc_model_config c, double most) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs rows, ids;
    values one_hot, tokens;
    uint32_t out_rows, cols;
    c.input = UVCC_MODEL_INPUT_ONE_HOT;
    draw_values(&one_hot, &c);
    make_twin(&one_hot);
    assert_int_equal(uvcc_model_cost(&c, &al, &rows, NULL, 0), 0);
    c.input = UVCC_MODEL_INPUT_TOKENS;
    draw_values(&tokens, &c);
    make_twin(&tokens);
    assert_int_equal(uvcc_model_cost(&c, &al, &ids, NULL, 0), 0);
    assert_int_equal(uvcc_model_output(&c, &out_rows, &cols), 0);
    assert_memory_equal(tokens.y, one_hot.y, (size_t)out_rows * cols * sizeof *tokens.y);
    const uint64_t n = (uint64_t)c.sequences * c.tokens, x_bytes = 16 * (c.vocabulary + c.segments);
    uint64_t key_bytes = 0;
    for (unsigned bits = 1; bits <= 20 && key_bytes == 0; bits++)
        if (1u << bits >= c.vocabulary)
            key_bytes = (c.segments != 0 ? 2 : 1) * 16 * (bits > 2 ? 2 * bits + 1 : 4);
    if (c.weights == UVCC_MODEL_SECRET_WEIGHTS) {
        assert_int_equal(rows.rounds, ids.rounds);
        assert_int_equal(rows.online_bytes - n * x_bytes, ids.online_bytes - n * key_bytes);
    }
    assert_int_equal(rows.key_bytes, ids.key_bytes);
    free_values(&one_hot);
    free_values(&tokens);
    if (c.mode == UVCC_MODEL_FAST)
        fast_run(&c, most);
    else
        exact_run(&c, most);
}

static void test_tokens(void **state) {
    (void)state;
    uvcc_model_config c = classifier();
    same_of_tokens(c, 0.02);
    c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    c.mode = UVCC_MODEL_EXACT_DCF;
    same_of_tokens(c, 0.03);
    c = gpt2();
    c.vocabulary = 300; /* no power of two, and its table tied */
    c.head = UVCC_MODEL_HEAD_TIED;
    c.logits_last = 1;
    same_of_tokens(c, 0.05);
    c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    c.mode = UVCC_MODEL_FAST;
    same_of_tokens(c, 0.05);
    c = llama();
    c.vocabulary = 1;
    c.sequences = 2;
    c.mode = UVCC_MODEL_FAST;
    same_of_tokens(c, 0.02);
}

/* What names no row of the table, by its place. */
static void test_bad_tokens(void **state) {
    (void)state;
    static const struct {
        size_t at;
        int64_t id;
        const char *why;
    } bad[] = {{2 * 8, 19, "id of sequence 1, token 1 is 19, but must be 0 to 18"},
               {0, -1, "id of sequence 0, token 0 is -1, but must be 0 to 18"},
               {2 * 13 + 1, 2, "segment of sequence 1, token 6 is 2, but must be 0 to 1"}};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_config c = classifier();
    values v;
    c.input = UVCC_MODEL_INPUT_TOKENS;
    draw_values(&v, &c);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char why[256] = "";
        const int64_t was = v.x[bad[i].at];
        v.x[bad[i].at] = bad[i].id;
        assert_int_equal(uvcc_model_reference(&c, &al, v.weights, v.x, v.pad, v.y, why, sizeof why),
                         UVCC_ERR_BOUND);
        assert_string_equal(why, bad[i].why);
        v.x[bad[i].at] = was;
    }
    free_values(&v);
}

static void test_pools(void **state) {
    (void)state;
    uvcc_model_config c = classifier();
    exact_run(&c, 0.02);
    c.labels = 0;
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.02);
    c.mode = UVCC_MODEL_EXACT_DCF;
    c.pool = UVCC_MODEL_POOL_FIRST;
    exact_run(&c, 0.02);
    c.pool = UVCC_MODEL_POOL_NONE; /* a label for each token */
    c.labels = 1;
    exact_run(&c, 0.02);
}

static void test_means(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    c.sequences = 2;
    c.pool = UVCC_MODEL_POOL_MEAN;
    exact_run(&c, 0.02);
    c.mode = UVCC_MODEL_FAST;
    c.labels = 2;
    fast_run(&c, 0.02);
    c.padding = 0;
    fast_run(&c, 0.02);
    c.mode = UVCC_MODEL_EXACT;
    exact_run(&c, 0.02);
    c.tokens = 8;
    exact_run(&c, 0.02);
    c.tokens = 1;
    exact_run(&c, 0.02);
}

static void test_logits(void **state) {
    (void)state;
    uvcc_model_config c = gpt_neo();
    c.input = UVCC_MODEL_INPUT_ONE_HOT;
    c.vocabulary = 29;
    c.head = UVCC_MODEL_HEAD_TIED;
    exact_run(&c, 0.05);
    c.logits_last = 1;
    c.sequences = 2;
    exact_run(&c, 0.05);
    c.input = UVCC_MODEL_INPUT_HIDDEN; /* the table is there for the logits */
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.05);
    c = llama();
    c.head = UVCC_MODEL_HEAD_OWN;
    c.vocabulary = 31;
    exact_run(&c, 0.02);
    c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    c.input = UVCC_MODEL_INPUT_ONE_HOT;
    c.head = UVCC_MODEL_HEAD_TIED;
    c.logits_last = 1;
    exact_run(&c, 0.02);
    c.mode = UVCC_MODEL_FAST;
    fast_run(&c, 0.02);
}

/* Public weights: the same twin; local products, so fewer bytes and rounds, and half the memory. */
static void test_public_weights(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs open, shared;
    const uvcc_model_config all[] = {bert(), llama(), gpt_neo(), classifier()};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uvcc_model_config c = all[i];
        c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
        exact_run(&c, 0.03);
        c.mode = UVCC_MODEL_FAST;
        fast_run(&c, 0.03);
        assert_int_equal(uvcc_model_cost(&c, &al, &open, NULL, 0), 0);
        c.weights = UVCC_MODEL_SECRET_WEIGHTS;
        assert_int_equal(uvcc_model_cost(&c, &al, &shared, NULL, 0), 0);
        print_message("rounds %u, %u; bytes %llu, %llu\n", open.rounds, shared.rounds,
                      (unsigned long long)open.online_bytes,
                      (unsigned long long)shared.online_bytes);
        assert_true(open.rounds < shared.rounds && open.online_bytes < shared.online_bytes);
        assert_true(open.weight_bytes < shared.weight_bytes * 0.6);
    }
}

/* What is no token changes nothing for those that are, however large its scores. */
static void test_padding_is_unseen(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    values v, w;
    c.sequences = 2;
    draw_values(&v, &c);
    draw_values(&w, &c);
    uint64_t draws = SEED + 1;
    for (size_t i = 0; i < v.count; i++)
        if (v.pad[i / c.width] != 0)
            w.x[i] = fixed(&c, 5 * draw(&draws));
    make_twin(&v);
    make_twin(&w);
    for (size_t i = 0; i < v.count; i++)
        if (v.pad[i / c.width] == 0)
            assert_int_equal(v.y[i], w.y[i]);
    w.c.padding = 0; /* and without it everything */
    make_twin(&w);
    assert_int_not_equal(v.y[0], w.y[0]);
    free_values(&v);
    free_values(&w);
}

/* Declared bits; and what is added for no token takes the greatest score 14 below the least. */
static void test_bits(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    c.inner_bits = 5;
    uvcc_program *p = program_of(&c, 0);
    static const struct {
        const char *name;
        unsigned bits;
    } all[] = {{"X", 23},    {"L0.Q", 23},  {"L0.t0.S", 21}, {"L0.H", 21},
               {"L0.Y", 23}, {"L0.Y1", 23}, {"L0.Y2", 23},   {"L0.WQ", 20}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        assert_int_equal(named(p, all[i].name)->bits, all[i].bits);
    const int64_t far = 2 * (1 << 21) + 14 * (1 << 16);
    const uint32_t pad = (uint32_t)uvcc_program_find(p, "PAD");
    bool found = false;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        if (d->out_count == 1 && d->out[0] == pad) {
            assert_int_equal(d->constant, -far);
            found = true;
        }
    }
    assert_true(found);
    assert_true(far + (1 << 21) < 1 << named(p, "L0.t0.SP")->bits);
    uvcc_program_free(p);
}

/* ---- the list of weights ---- */

static void test_weights(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t rows, cols;
        uint8_t kind;
    } all[] = {
        {"P", 10, 24, UVCC_MODEL_WEIGHT_TABLE},      {"L0.G1", 1, 24, UVCC_MODEL_WEIGHT_GAIN},
        {"L0.C1", 1, 24, UVCC_MODEL_WEIGHT_SHIFT},   {"L0.WQ", 24, 20, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.BQ", 1, 20, UVCC_MODEL_WEIGHT_BIAS},    {"L0.WK", 24, 10, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.BK", 1, 10, UVCC_MODEL_WEIGHT_BIAS},    {"L0.WV", 24, 10, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.BV", 1, 10, UVCC_MODEL_WEIGHT_BIAS},    {"L0.WO", 20, 24, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.BO", 1, 24, UVCC_MODEL_WEIGHT_BIAS},    {"L0.G2", 1, 24, UVCC_MODEL_WEIGHT_GAIN},
        {"L0.C2", 1, 24, UVCC_MODEL_WEIGHT_SHIFT},   {"L0.W1", 24, 40, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.B1", 1, 40, UVCC_MODEL_WEIGHT_BIAS},    {"L0.WU", 24, 40, UVCC_MODEL_WEIGHT_MATRIX},
        {"L0.W2", 40, 24, UVCC_MODEL_WEIGHT_MATRIX}, {"L0.B2", 1, 24, UVCC_MODEL_WEIGHT_BIAS},
        {"GF", 1, 24, UVCC_MODEL_WEIGHT_GAIN},       {"CF", 1, 24, UVCC_MODEL_WEIGHT_SHIFT},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    uvcc_model_config c = gpt2();
    c.layers = 1;
    c.heads = 4;
    c.kv_heads = 2;
    c.head_size = 5;
    c.ff = UVCC_MODEL_FF_GATED;
    uvcc_model_weight w;
    uint64_t sum = 0;
    assert_int_equal(uvcc_model_weight_count(&c), COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(uvcc_model_weight_at(&c, i, &w), 0);
        assert_string_equal(w.name, all[i].name);
        assert_int_equal(w.rows, all[i].rows);
        assert_int_equal(w.cols, all[i].cols);
        assert_int_equal(w.kind, all[i].kind);
        assert_int_equal(w.bits, 20);
        assert_int_equal(w.scale, 16);
        assert_int_equal(w.layer, all[i].name[0] == 'L' ? 0 : UVCC_MODEL_NO_LAYER);
        sum += (uint64_t)w.rows * w.cols;
    }
    assert_int_equal(uvcc_model_weight_at(&c, COUNT, &w), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_model_parameters(&c), sum);
    c.norm = UVCC_MODEL_RMS_NORM; /* no shifts */
    c.biases = 0;
    assert_int_equal(uvcc_model_weight_count(&c), COUNT - 3 - 6);
}

/* Those around the layers, in their order. */
static void test_end_weights(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t rows, cols;
        uint8_t kind;
    } all[] = {
        {"E", 19 + 2, 24, UVCC_MODEL_WEIGHT_TABLE}, {"P", 7, 24, UVCC_MODEL_WEIGHT_TABLE},
        {"GE", 1, 24, UVCC_MODEL_WEIGHT_GAIN},      {"CE", 1, 24, UVCC_MODEL_WEIGHT_SHIFT},
        {"GF", 1, 24, UVCC_MODEL_WEIGHT_GAIN},      {"CF", 1, 24, UVCC_MODEL_WEIGHT_SHIFT},
        {"WP", 24, 24, UVCC_MODEL_WEIGHT_MATRIX},   {"BP", 1, 24, UVCC_MODEL_WEIGHT_BIAS},
        {"WC", 24, 3, UVCC_MODEL_WEIGHT_MATRIX},    {"BC", 1, 3, UVCC_MODEL_WEIGHT_BIAS},
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    uvcc_model_config c = classifier();
    c.last_norm = 1;
    uvcc_model_weight w;
    uint32_t at = 0, rows, cols;
    for (uint32_t i = 0; uvcc_model_weight_at(&c, i, &w) == 0; i++) {
        if (w.layer != UVCC_MODEL_NO_LAYER)
            continue;
        assert_true(at < COUNT);
        assert_string_equal(w.name, all[at].name);
        assert_int_equal(w.rows, all[at].rows);
        assert_int_equal(w.cols, all[at].cols);
        assert_int_equal(w.kind, all[at++].kind);
    }
    assert_int_equal(at, COUNT);
    assert_int_equal(uvcc_model_output(&c, &rows, &cols), 0);
    assert_int_equal(rows, c.sequences);
    assert_int_equal(cols, 3);
    c.heads = 0;
    assert_int_equal(uvcc_model_output(&c, &rows, &cols), UVCC_ERR_USAGE);
    c = classifier();
    c.pool = c.labels = 0;
    c.head = UVCC_MODEL_HEAD_OWN;
    assert_int_equal(uvcc_model_weight_at(&c, uvcc_model_weight_count(&c) - 1, &w), 0);
    assert_string_equal(w.name, "WL");
    assert_int_equal(w.cols, 19);
}

/* ---- models in programs of the caller's ---- */

/* Two layers one by one, and the same model whole, side by side in one program. */
static void test_parts(void **state) {
    (void)state;
    static const char longest[] = "twenty.bytes.prefix.";
    uvcc_model_config c = bert();
    c.layers = 2;
    values v;
    triangle t;
    uvcc_program *p;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_tensor_desc x, pad;
    uint32_t weights[2][64], y[2], in, padding;
    char why[256] = "";
    draw_values(&v, &c);
    make_twin(&v);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_model_inputs(&c, &x, &pad), 0);
    x.name = "X";
    pad.name = "PADDING";
    in = (uint32_t)uvcc_program_tensor(p, &x);
    padding = (uint32_t)uvcc_program_tensor(p, &pad);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(
            uvcc_model_weights(&c, p, i == 0 ? "" : longest, weights[i], why, sizeof why), 0);
    assert_int_equal(uvcc_program_entry(p, "both"), 0);
    assert_int_equal(uvcc_program_input(p, UVCC_MODEL_IN_X, in, 1), 0);
    assert_int_equal(uvcc_program_input(p, UVCC_MODEL_IN_PADDING, padding, 1), 1);
    uvcc_emit e = {.program = p, .prefix = longest, .k = 300, .alloc = &al};
    assert_int_equal(uvcc_model_emit(&c, &e, weights[1], in, padding, &y[0], why, sizeof why), 0);
    e.prefix = "";
    y[1] = in;
    for (uint32_t l = 0; l < c.layers; l++)
        if (uvcc_model_emit_layer(&c, &e, l, weights[0], y[1], padding, &y[1], why, sizeof why))
            fail_msg("%s", why);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(uvcc_program_output(p, i, y[i]), i);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle_open(&t, p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    const int64_t *at = v.weights;
    for (uint32_t i = 0; i < uvcc_model_weight_count(&c); i++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, weights[0][i]);
        triangle_set_public(&t, weights[0][i], at);
        triangle_set_public(&t, weights[1][i], at);
        at += (size_t)d->rows * d->cols;
    }
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 1, 0, UVCC_MODEL_IN_X, v.x);
    triangle_input(&t, 1, 0, UVCC_MODEL_IN_PADDING, v.pad);
    triangle_finish(&t, 1);
    for (uint32_t i = 0; i < 2; i++)
        assert_memory_equal(uvcc_session_output(t.s[0], 0, i), v.y, v.count * sizeof *v.y);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    free_values(&v);
}

/* ---- what is refused ---- */

typedef void change(uvcc_model_config *c);

#define CHANGE(name, ...)                                                                          \
    static void name(uvcc_model_config *c) {                                                       \
        __VA_ARGS__;                                                                               \
    }
CHANGE(no_layers, c->layers = 0)
CHANGE(many_layers, c->layers = 201)
CHANGE(no_width, c->width = 0)
CHANGE(no_units, c->ff_width = 0)
CHANGE(some_ff, c->ff = 2)
CHANGE(some_activation, c->activation = UVCC_NL_TANH)
CHANGE(some_norm, c->norm = 2)
CHANGE(some_order, c->order = 2)
CHANGE(some_last, c->last_norm = 2)
CHANGE(some_biases, c->biases = 2)
CHANGE(some_plain, c->order = UVCC_MODEL_PRE_NORM; c->plain_norms = 2)
CHANGE(plain_behind, c->plain_norms = 1)
CHANGE(negative_epsilon, c->epsilon = -1)
CHANGE(nan_epsilon, c->epsilon = NAN)
CHANGE(no_heads, c->heads = 0)
CHANGE(five_heads, c->heads = 5)
CHANGE(wide_heads, c->head_size = 1u << 16)
CHANGE(uneven_heads, c->kv_heads = 2)
CHANGE(some_mask, c->mask = 3)
CHANGE(window_of_none, c->mask = UVCC_MODEL_MASK_WINDOW)
CHANGE(window_unasked, c->window = 3)
CHANGE(period_unasked, c->window_period = 2)
CHANGE(layers_unasked, c->window_layers = 1)
CHANGE(long_period, c->mask = UVCC_MODEL_MASK_WINDOW; c->window = 6; c->window_period = 65)
CHANGE(far_layers, c->mask = UVCC_MODEL_MASK_WINDOW; c->window = 6; c->window_period = 2;
       c->window_layers = 4)
CHANGE(some_layers, c->mask = UVCC_MODEL_MASK_WINDOW; c->window = 6; c->window_layers = 2)
CHANGE(some_scale, c->unscaled = 2)
CHANGE(theta_unasked, c->rope_theta = 10000)
CHANGE(small_theta, c->positions = UVCC_MODEL_POSITIONS_ROTARY; c->rope_theta = 1)
CHANGE(nan_theta, c->positions = UVCC_MODEL_POSITIONS_ROTARY; c->rope_theta = NAN)
CHANGE(odd_heads, c->positions = UVCC_MODEL_POSITIONS_ROTARY; c->head_size = 7)
CHANGE(wide_turns, c->positions = UVCC_MODEL_POSITIONS_ROTARY; c->width = 1; c->heads = 1;
       c->head_size = 2; c->frac_bits = 20; c->value_bits = 9; c->weight_bits = 1; c->unscaled = 1;
       c->norm = UVCC_MODEL_RMS_NORM)
CHANGE(some_padding, c->padding = 2)
CHANGE(some_positions, c->positions = 3)
CHANGE(some_head, c->head = 3)
CHANGE(words_unasked, c->vocabulary = 30522)
CHANGE(some_input, c->input = 3)
CHANGE(no_words, c->input = UVCC_MODEL_INPUT_ONE_HOT)
CHANGE(many_words, c->input = UVCC_MODEL_INPUT_ONE_HOT; c->vocabulary = (1u << 20) + 1)
CHANGE(headless_words, c->head = UVCC_MODEL_HEAD_TIED)
CHANGE(many_segments, c->segments = 65537)
CHANGE(segments_unasked, c->segments = 2)
CHANGE(tied_segments, c->input = UVCC_MODEL_INPUT_ONE_HOT; c->head = UVCC_MODEL_HEAD_TIED;
       c->vocabulary = 9; c->segments = 2)
CHANGE(some_norming, c->embedding_norm = 2)
CHANGE(some_last_logits, c->logits_last = 2)
CHANGE(last_of_none, c->logits_last = 1)
CHANGE(last_of_padded, c->logits_last = 1; c->head = UVCC_MODEL_HEAD_OWN; c->vocabulary = 9)
CHANGE(some_pool, c->pool = 4)
CHANGE(pool_and_head, c->pool = 1; c->head = UVCC_MODEL_HEAD_OWN; c->vocabulary = 9)
CHANGE(long_mean, c->pool = UVCC_MODEL_POOL_MEAN; c->heads = 1; c->tokens = 4097)
CHANGE(many_labels, c->labels = 65537)
CHANGE(labels_and_head, c->labels = 1; c->head = UVCC_MODEL_HEAD_OWN; c->vocabulary = 9)
CHANGE(wide_table, c->input = UVCC_MODEL_INPUT_ONE_HOT; c->vocabulary = 1u << 20; c->tokens = 513)
CHANGE(no_sequences, c->sequences = 0)
CHANGE(no_tokens, c->tokens = 0)
CHANGE(many_tokens, c->tokens = 65537)
CHANGE(many_rows, c->tokens = 65536; c->sequences = 65536)
CHANGE(coarse, c->frac_bits = 11)
CHANGE(fine, c->frac_bits = 21)
CHANGE(wide_values, c->value_bits = 13)
CHANGE(wide_inner, c->inner_bits = 8)
CHANGE(wide_weights, c->weight_bits = 17)
CHANGE(coarse_index, c->index_bits = 3)
CHANGE(fine_index, c->index_bits = 11)
CHANGE(some_mode, c->mode = 3)
CHANGE(some_weights, c->weights = 2)
CHANGE(products, c->weight_bits = 16; c->value_bits = 12)
CHANGE(squares, c->frac_bits = 20; c->value_bits = 8)
CHANGE(scores, c->frac_bits = 19)
CHANGE(second_products, c->weight_bits = 16; c->value_bits = 7; c->ff_width = 64)
CHANGE(inner_products, c->weight_bits = 16; c->inner_bits = 7; c->value_bits = 7; c->ff_width = 64)
CHANGE(gated_units, c->ff = UVCC_MODEL_FF_GATED; c->heads = c->head_size = 1; c->width = 1;
       c->frac_bits = 20; c->value_bits = 11; c->weight_bits = 1; c->norm = UVCC_MODEL_RMS_NORM)
CHANGE(long_text, c->tokens = 16384)
CHANGE(many_texts, c->padding = 0; c->tokens = 512; c->sequences = 86)
CHANGE(long_rows, c->ff_width = 1u << 20; c->weight_bits = 1; c->tokens = 513)
CHANGE(many_elements, c->ff_width = 1u << 16; c->tokens = 8; c->sequences = 1025)
CHANGE(many_padded, c->layers = 20; c->sequences = 400)
CHANGE(many_tiles, c->heads = c->head_size = 1; c->padding = 0; c->mask = UVCC_MODEL_MASK_CAUSAL;
       c->tokens = 8192; c->layers = 113)
CHANGE(older, c->size--)

static void test_refused(void **state) {
    (void)state;
    static const struct {
        change *how;
        int error;
        const char *message;
    } all[] = {
        {no_layers, UVCC_ERR_CONFIG, "layers must be 1 to 200"},
        {many_layers, UVCC_ERR_CONFIG, "layers must be 1 to 200"},
        {no_width, UVCC_ERR_CONFIG, "width must be 1 to 65536"},
        {no_units, UVCC_ERR_CONFIG, "ff_width must be 1 to 2^20"},
        {some_ff, UVCC_ERR_CONFIG, "ff is unknown"},
        {some_activation, UVCC_ERR_CONFIG, "activation must be GELU, GELU_TANH, RELU or SILU"},
        {some_norm, UVCC_ERR_CONFIG, "norm is unknown"},
        {some_order, UVCC_ERR_CONFIG, "order is unknown"},
        {some_last, UVCC_ERR_CONFIG, "last_norm must be 0 or 1"},
        {some_biases, UVCC_ERR_CONFIG, "biases must be 0 or 1"},
        {some_plain, UVCC_ERR_CONFIG, "plain_norms must be 0 or 1"},
        {plain_behind, UVCC_ERR_CONFIG, "plain_norms must be 0 where norms are behind the sums"},
        {negative_epsilon, UVCC_ERR_CONFIG, "epsilon must be 0 to 1"},
        {nan_epsilon, UVCC_ERR_CONFIG, "epsilon must be 0 to 1"},
        {no_heads, UVCC_ERR_CONFIG, "heads must be 1 to 65535"},
        {five_heads, UVCC_ERR_CONFIG, "heads must divide width, or head_size be given"},
        {wide_heads, UVCC_ERR_CONFIG, "head_size must be at most 65536, times heads too"},
        {uneven_heads, UVCC_ERR_CONFIG, "kv_heads must divide heads"},
        {some_mask, UVCC_ERR_CONFIG, "mask is unknown"},
        {window_of_none, UVCC_ERR_CONFIG,
         "window is of the mask WINDOW, which needs one of 1 or more"},
        {window_unasked, UVCC_ERR_CONFIG,
         "window is of the mask WINDOW, which needs one of 1 or more"},
        {period_unasked, UVCC_ERR_CONFIG, "window_period is of the mask WINDOW"},
        {layers_unasked, UVCC_ERR_CONFIG, "window_layers is of the mask WINDOW"},
        {long_period, UVCC_ERR_CONFIG, "window_period must be at most 64"},
        {far_layers, UVCC_ERR_CONFIG, "window_layers must be bits below window_period"},
        {some_layers, UVCC_ERR_CONFIG, "window_layers must be bits below window_period"},
        {some_scale, UVCC_ERR_CONFIG, "unscaled must be 0 or 1"},
        {theta_unasked, UVCC_ERR_CONFIG, "rope_theta is of rotary positions"},
        {small_theta, UVCC_ERR_CONFIG, "rope_theta must be above 1 and at most 2^30, or 0"},
        {nan_theta, UVCC_ERR_CONFIG, "rope_theta must be above 1 and at most 2^30, or 0"},
        {odd_heads, UVCC_ERR_CONFIG, "head_size must be even for rotary positions"},
        {wide_turns, UVCC_ERR_BOUND,
         "turned queries and keys need 63 bits, more than 62; frac_bits must be at most 19, or "
         "value_bits must be at most 8"},
        {some_padding, UVCC_ERR_CONFIG, "padding must be 0 or 1"},
        {some_positions, UVCC_ERR_CONFIG, "positions is unknown"},
        {some_head, UVCC_ERR_CONFIG, "head is unknown"},
        {words_unasked, UVCC_ERR_CONFIG, "vocabulary is of tokens and heads, which need 1 to 2^20"},
        {some_input, UVCC_ERR_CONFIG, "input is unknown"},
        {no_words, UVCC_ERR_CONFIG, "vocabulary is of tokens and heads, which need 1 to 2^20"},
        {many_words, UVCC_ERR_CONFIG, "vocabulary is of tokens and heads, which need 1 to 2^20"},
        {headless_words, UVCC_ERR_CONFIG,
         "vocabulary is of tokens and heads, which need 1 to 2^20"},
        {many_segments, UVCC_ERR_CONFIG, "segments must be at most 65536"},
        {segments_unasked, UVCC_ERR_CONFIG, "segments is of tokens, without a tied head"},
        {tied_segments, UVCC_ERR_CONFIG, "segments is of tokens, without a tied head"},
        {some_norming, UVCC_ERR_CONFIG, "embedding_norm must be 0 or 1"},
        {some_last_logits, UVCC_ERR_CONFIG, "logits_last must be 0 or 1"},
        {last_of_none, UVCC_ERR_CONFIG, "logits_last is of a head, without padding"},
        {last_of_padded, UVCC_ERR_CONFIG, "logits_last is of a head, without padding"},
        {some_pool, UVCC_ERR_CONFIG, "pool is unknown"},
        {pool_and_head, UVCC_ERR_CONFIG, "pool must be none with a head"},
        {long_mean, UVCC_ERR_CONFIG, "tokens must be at most 4096 for their mean"},
        {many_labels, UVCC_ERR_CONFIG, "labels must be at most 65536"},
        {labels_and_head, UVCC_ERR_CONFIG, "labels must be 0 with a head"},
        {wide_table, UVCC_ERR_CONFIG, "tokens must be at most 512: 2^29 elements"},
        {no_sequences, UVCC_ERR_CONFIG, "sequences must be 1 to 65536"},
        {no_tokens, UVCC_ERR_CONFIG, "tokens must be 1 to 65536"},
        {many_tokens, UVCC_ERR_CONFIG, "tokens must be 1 to 65536"},
        {many_rows, UVCC_ERR_CONFIG, "sequences times tokens times heads must be below 2^31"},
        {coarse, UVCC_ERR_CONFIG, "frac_bits must be 12 to 20"},
        {fine, UVCC_ERR_CONFIG, "frac_bits must be 12 to 20"},
        {wide_values, UVCC_ERR_CONFIG, "value_bits must be at most 12"},
        {wide_weights, UVCC_ERR_CONFIG, "weight_bits must be at most 16"},
        {wide_inner, UVCC_ERR_CONFIG, "inner_bits must be at most value_bits"},
        {coarse_index, UVCC_ERR_CONFIG, "index_bits must be 4 to 10"},
        {fine_index, UVCC_ERR_CONFIG, "index_bits must be 4 to 10"},
        {some_mode, UVCC_ERR_CONFIG, "mode is unknown"},
        {some_weights, UVCC_ERR_CONFIG, "weights is unknown"},
        {products, UVCC_ERR_BOUND,
         "products with weights need 65 bits, more than 62; frac_bits must be at most 14, or "
         "value_bits must be at most 9, or weight_bits must be at most 13"},
        {squares, UVCC_ERR_BOUND,
         "squares in norms need 63 bits, more than 62; frac_bits must be at most 19, or value_bits "
         "must be at most 7"},
        {scores, UVCC_ERR_BOUND,
         "scores need 64 bits, more than 62; frac_bits must be at most 18, or value_bits must be "
         "at "
         "most 6"},
        {second_products, UVCC_ERR_BOUND,
         "products with W2 need 63 bits, more than 62; frac_bits must be at most 15, or value_bits "
         "must be at most 6, or weight_bits must be at most 15"},
        {inner_products, UVCC_ERR_BOUND,
         "products with W2 need 63 bits, more than 62; frac_bits must be at most 15, or inner_bits "
         "must be at most 6, or weight_bits must be at most 15"},
        {gated_units, UVCC_ERR_BOUND,
         "gated units need 64 bits, more than 62; frac_bits must be at most 19, or value_bits must "
         "be at most 10"},
        {long_text, UVCC_ERR_CONFIG,
         "tokens must be fewer: 805306368 scores of a sequence at a time, more than 2^25"},
        {many_texts, UVCC_ERR_CONFIG, "sequences must be at most 42: 2^25 scores at a time"},
        {long_rows, UVCC_ERR_CONFIG, "tokens must be at most 512: 2^29 elements"},
        {many_elements, UVCC_ERR_CONFIG, "sequences must be at most 1024: 2^29 elements"},
        {many_padded, UVCC_ERR_CONFIG,
         "sequences must be at most 264 with padding: an entry has no numbers for more ops"},
        {many_tiles, UVCC_ERR_CONFIG,
         "layers must be at most 112: an entry has no numbers for more ops"},
        {older, UVCC_ERR_USAGE, "there is no description, or of another version"},
    };
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256];
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uvcc_model_config c = bert();
        all[i].how(&c);
        assert_int_equal(uvcc_model_check(&c, why, sizeof why), all[i].error);
        assert_string_equal(why, all[i].message);
        assert_int_equal(uvcc_model_program(&p, &c, 0, 0, &al, why, sizeof why), all[i].error);
        assert_string_equal(why, all[i].message);
    }
    const uvcc_model_config c = bert();
    assert_int_equal(uvcc_model_check(&c, why, sizeof why), 0);
    assert_string_equal(why, "");
    assert_int_equal(uvcc_model_program(&p, &c, 3, 0, &al, why, sizeof why), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_model_program(&p, &c, 0, 3, &al, why, sizeof why), UVCC_ERR_USAGE);
}

/* Any small description, of any numbers. */
static uvcc_model_config any_model(uint64_t *s) {
    static const uint8_t activations[] = {UVCC_NL_GELU, UVCC_NL_GELU_TANH, UVCC_NL_RELU,
                                          UVCC_NL_SILU};
    uvcc_model_config c = bert();
    c.heads = 1 + below(s, 3);
    c.head_size = 1 + below(s, 9);
    c.width = 1 + below(s, 40);
    c.ff_width = 1 + below(s, 60);
    c.tokens = 1 + below(s, 12);
    c.sequences = 1 + below(s, 2);
    c.activation = activations[below(s, 4)];
    c.ff = (uint8_t)below(s, 2);
    c.norm = (uint8_t)below(s, 2);
    c.order = (uint8_t)below(s, 2);
    c.last_norm = (uint8_t)below(s, 2);
    c.plain_norms = c.order == UVCC_MODEL_PRE_NORM && below(s, 2);
    c.biases = (uint8_t)below(s, 2);
    c.mask = (uint8_t)below(s, 2);
    c.padding = (uint8_t)below(s, 2);
    c.positions = (uint8_t)below(s, 3);
    c.unscaled = (uint8_t)below(s, 2);
    c.weights = (uint8_t)below(s, 2);
    if (c.positions == UVCC_MODEL_POSITIONS_ROTARY)
        c.head_size += c.head_size % 2;
    if (below(s, 2)) {
        c.mask = UVCC_MODEL_MASK_WINDOW;
        c.window = 1 + below(s, 12);
    }
    c.input = (uint8_t)below(s, 3);
    c.head = below(s, 2) != 0 ? (uint8_t)below(s, 3) : 0;
    c.vocabulary = c.input != 0 || c.head != 0 ? 1 + below(s, 70) : 0;
    c.segments = c.input != 0 && c.head != UVCC_MODEL_HEAD_TIED ? below(s, 3) : 0;
    c.embedding_norm = (uint8_t)below(s, 2);
    c.logits_last = c.head != 0 && !c.padding && below(s, 2);
    c.pool = c.head == 0 ? (uint8_t)below(s, 4) : 0;
    c.labels = c.head == 0 ? below(s, 3) : 0;
    c.frac_bits = (uint8_t)(12 + below(s, 9));
    c.value_bits = (uint8_t)below(s, 13);
    c.weight_bits = (uint8_t)below(s, 17);
    c.inner_bits = (uint8_t)(below(s, 2) * below(s, 8));
    c.index_bits = (uint8_t)(below(s, 2) * below(s, 12));
    c.mode = (uint8_t)below(s, 3);
    return c;
}

static uint64_t key_bytes(const uvcc_model_config *c) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_costs cost;
    assert_int_equal(uvcc_model_cost(c, &al, &cost, NULL, 0), 0);
    return cost.key_bytes;
}

/* Cells of the activation are 32 units, 2^-9 at least; others if one says so. Each bit less takes a
 * level of its keys. */
static void test_index_bits(void **state) {
    (void)state;
    static const uint8_t of[][2] = {{12, 7}, {13, 8}, {14, 9}, {16, 9}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        uvcc_model_config c = bert();
        c.mode = UVCC_MODEL_FAST; /* exact indices have a key for the bits below, too */
        c.frac_bits = of[i][0];
        assert_int_equal(uvcc_model_index_bits(&c), of[i][1]);
        const uint64_t as_it_is = key_bytes(&c);
        c.index_bits = of[i][1];
        assert_int_equal(key_bytes(&c), as_it_is);
        c.index_bits--;
        assert_int_equal(uvcc_model_index_bits(&c), of[i][1] - 1);
        assert_true(key_bytes(&c) < as_it_is);
        c.activation = UVCC_NL_RELU;
        c.index_bits = 0;
        const uint64_t of_relu = key_bytes(&c);
        c.index_bits = 4;
        assert_int_equal(key_bytes(&c), of_relu);
    }
}

/* What the check takes, can be built and priced. */
static void test_check_decides(void **state) {
    (void)state;
    enum { DRAWS = 300 };
    const uvcc_allocator al = uvcc_host_allocator();
    uint64_t draws = SEED;
    unsigned taken = 0, refused = 0;
    uvcc_model_costs cost;
    char why[256];
    for (unsigned i = 0; i < DRAWS; i++) {
        const uvcc_model_config c = any_model(&draws);
        const int err = uvcc_model_check(&c, why, sizeof why);
        taken += err == 0;
        refused += err == UVCC_ERR_BOUND;
        const int built = uvcc_model_cost(&c, &al, &cost, why, sizeof why);
        if (built != err)
            fail_msg("f %u, value %u, weight %u, index %u, activation %u: %s", c.frac_bits,
                     c.value_bits, c.weight_bits, c.index_bits, c.activation, why);
    }
    assert_true(taken > DRAWS / 4 && refused > DRAWS / 10);
}

/* Of what is refused there are no weights. */
static void test_no_weights(void **state) {
    (void)state;
    uvcc_model_weight w;
    uvcc_model_config c = bert();
    c.frac_bits = 19;
    assert_int_equal(uvcc_model_weight_count(&c), 0);
    assert_int_equal(uvcc_model_parameters(&c), 0);
    assert_int_equal(uvcc_model_weight_at(&c, 0, &w), UVCC_ERR_BOUND);
    c = bert();
    c.heads = 0;
    assert_int_equal(uvcc_model_weight_at(&c, 0, &w), UVCC_ERR_CONFIG);
    c = bert();
    c.size--;
    assert_int_equal(uvcc_model_weight_count(&c), 0);
    assert_int_equal(uvcc_model_weight_at(&c, 0, &w), UVCC_ERR_USAGE);
}

/* A program with the tensors of one model, for calls that bring others. */
static void test_wrong_tensors(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    uvcc_tensor_desc x, pad;
    uint32_t weights[32], y;
    char why[256];
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_model_inputs(&c, &x, &pad), 0);
    assert_int_equal(uvcc_model_weights(&c, p, "", weights, why, sizeof why), 0);
    assert_int_equal(uvcc_model_weights(&c, p, "", weights, why, sizeof why), UVCC_ERR_CONFIG);
    assert_string_equal(why, "L0.G1: the program has a tensor of that name");
    x.name = "X";
    pad.name = "PADDING";
    const uint32_t in = (uint32_t)uvcc_program_tensor(p, &x);
    x.name = "wide";
    x.bits++;
    const uint32_t wide = (uint32_t)uvcc_program_tensor(p, &x);
    const uint32_t padding = (uint32_t)uvcc_program_tensor(p, &pad), none = UVCC_NO_TENSOR;
    assert_int_equal(uvcc_program_entry(p, "forward"), 0);
    const struct {
        uint32_t x, padding;
        int error;
        const char *message;
    } all[] = {
        {padding, padding, UVCC_ERR_USAGE, "x is 1 x 7 at scale 0, but must be 7 x 24 at 16"},
        {in, in, UVCC_ERR_USAGE, "padding is 7 x 24 at scale 16, but must be 1 x 7 at 0"},
        {none, padding, UVCC_ERR_USAGE, "x: there is no such tensor"},
        {in, none, UVCC_ERR_USAGE, "padding: the model needs the tensor"},
        {wide, padding, UVCC_ERR_BOUND, "x declares 24 bits, more than 23"},
    };
    uvcc_emit e = {.program = p, .prefix = "", .alloc = &al};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        assert_int_equal(
            uvcc_model_emit(&c, &e, weights, all[i].x, all[i].padding, &y, why, sizeof why),
            all[i].error);
        assert_string_equal(why, all[i].message);
    }
    assert_int_equal(uvcc_model_emit_layer(&c, &e, 1, weights, in, padding, &y, why, sizeof why),
                     UVCC_ERR_USAGE);
    assert_string_equal(why, "layer: there is no layer 1");
    e.prefix = "of.twenty-one.bytes.,";
    assert_int_equal(uvcc_model_emit(&c, &e, weights, in, padding, &y, why, sizeof why),
                     UVCC_ERR_USAGE);
    e.prefix = "";
    e.k = 65000; /* no numbers for so many ops */
    assert_int_equal(uvcc_model_emit(&c, &e, weights, in, padding, &y, why, sizeof why),
                     UVCC_ERR_LIMIT);
    assert_string_equal(why, "layers: an entry has no numbers for so many ops");
    weights[0] = in;
    e.k = 0;
    assert_int_equal(uvcc_model_emit(&c, &e, weights, in, padding, &y, why, sizeof why),
                     UVCC_ERR_USAGE);
    assert_string_equal(why, "L0.G1 is 7 x 24 at scale 16, but must be 1 x 24 at 16");
    c.padding = 0;
    assert_int_equal(uvcc_model_emit(&c, &e, weights, in, padding, &y, why, sizeof why),
                     UVCC_ERR_USAGE);
    assert_string_equal(why, "padding: the model has none");
    uvcc_program_free(p);
}

/* The twin names what leaves its bits, and needs all values. */
static void test_twin_refuses(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    const uvcc_allocator al = uvcc_host_allocator();
    values v;
    char why[256];
    draw_values(&v, &c);
    v.x[5] = 1ll << 23;
    assert_int_equal(uvcc_model_reference(&c, &al, v.weights, v.x, v.pad, v.y, why, sizeof why),
                     UVCC_ERR_BOUND);
    assert_string_equal(why, "X: a value or a product can leave its declared bound");
    v.x[5] = 0;
    v.pad[3] = -1;
    assert_int_equal(uvcc_model_reference(&c, &al, v.weights, v.x, v.pad, v.y, why, sizeof why),
                     UVCC_ERR_BOUND);
    assert_string_equal(why, "padding of sequence 0, token 3 is -1, but must be 0 or 1");
    assert_int_equal(uvcc_model_reference(&c, &al, v.weights, v.x, NULL, v.y, why, sizeof why),
                     UVCC_ERR_USAGE);
    free_values(&v);
}

/* Every allocation fails once: nothing is left, and the message says so. */
static void test_memory_refused(void **state) {
    (void)state;
    uvcc_model_config c = bert();
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    values v;
    char why[256];
    uvcc_model_costs cost;
    c.mode = UVCC_MODEL_FAST;
    draw_values(&v, &c);
    for (unsigned twin = 0; twin < 2; twin++) {
        int err = UVCC_ERR_NOMEM;
        size_t at = 0;
        while (err == UVCC_ERR_NOMEM) {
            mem.fail_at = ++at;
            err = twin ? uvcc_model_reference(&c, &al, v.weights, v.x, v.pad, v.y, why, sizeof why)
                       : uvcc_model_cost(&c, &al, &cost, why, sizeof why);
            assert_int_equal(mem.live_bytes, 0);
            assert_true(err == 0 || why[0] != 0);
        }
        assert_int_equal(err, 0);
        assert_true(at > 20);
    }
    free_values(&v);
}

static void set_tensor_of(uvcc_reference *r, const uvcc_program *p, const char *name,
                          const int64_t *v) {
    assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, name), v), 0);
}

/* The same values in and out of tensors that hosts set and read: nothing is anybody's input. */
static void same_of_shares(uvcc_model_config c) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_weight w;
    uint32_t weights[64];
    values v;
    uvcc_program *p;
    uvcc_reference *r;
    char why[256] = "";
    draw_values(&v, &c);
    make_twin(&v);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_model_weights(&c, p, "", weights, why, sizeof why), 0);
    assert_int_equal(uvcc_model_forward_shared(&c, p, weights, &al, why, sizeof why), 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), 0);
    assert_null(uvcc_program_input_at(p, 0, 0));
    assert_null(uvcc_program_output_at(p, 0, 0));
    const uint32_t y = (uint32_t)uvcc_program_find(p, "Y");
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, y);
    assert_int_equal(d->lifetime, UVCC_PERSIST);
    assert_int_equal(d->scale,
                     c.frac_bits - (c.mode == UVCC_MODEL_FAST ? UVCC_MODEL_OPEN_SHIFT : 0));
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    const int64_t *at = v.weights;
    for (uint32_t i = 0; uvcc_model_weight_at(&c, i, &w) == 0; i++) {
        set_tensor_of(r, p, w.name, at);
        at += (size_t)w.rows * w.cols;
    }
    set_tensor_of(r, p, "X", v.x);
    if (c.padding)
        set_tensor_of(r, p, "PADDING", v.pad);
    assert_int_equal(uvcc_reference_step(r, 0, why, sizeof why), 0);
    assert_memory_equal(uvcc_reference_get(r, y), v.y, v.out * sizeof *v.y);
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(&v);
}

static void test_shared(void **state) {
    (void)state;
    uvcc_model_config c = classifier();
    same_of_shares(c);
    c.mode = UVCC_MODEL_FAST;
    same_of_shares(c);
    same_of_shares(gpt2());
    c.input = UVCC_MODEL_INPUT_TOKENS; /* keys in X, as wide as ids are */
    c.vocabulary = 31;
    for (c.segments = 0; c.segments < 3; c.segments += 2)
        same_of_shares(c);
}

static void run_entry(uvcc_reference *r, const uvcc_program *p, const char *name) {
    char why[256] = "";
    const int e = uvcc_program_find_entry(p, name);
    assert_true(e >= 0);
    const int err = uvcc_reference_step(r, (uint32_t)e, why, sizeof why);
    if (err != 0)
        fail_msg("%s: %s", name, why);
}

static void stays(const uvcc_program *p, const char *name) {
    const int t = uvcc_program_find(p, name);
    assert_true(t >= 0);
    assert_int_equal(uvcc_program_tensor_at(p, (uint32_t)t)->lifetime, UVCC_PERSIST);
}

/* The pass a layer at a time, its weights in the tensors of one: what opens, or stays, is the same.
 */
static void same_of_layers_with(uvcc_model_config c, bool shared) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_weight w;
    uint32_t tensor[64];
    values v;
    uvcc_program *p;
    uvcc_reference *r;
    char why[256] = "";
    draw_values(&v, &c);
    make_twin(&v);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(
        shared ? uvcc_model_forward_streamed_shared(&c, p, tensor, &al, why, sizeof why)
               : uvcc_model_forward_streamed(&c, p, 1, UVCC_TO_ALL, tensor, &al, why, sizeof why),
        0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), 0);
    assert_int_equal(uvcc_program_find(p, "L1.WQ"), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    set_tensor_of(r, p, "X", v.x);
    if (c.padding)
        set_tensor_of(r, p, "PADDING", v.pad);
    for (uint32_t step = 0; step < c.layers + 2; step++) {
        const int64_t *at = v.weights;
        for (uint32_t i = 0; uvcc_model_weight_at(&c, i, &w) == 0; i++) {
            const bool now = w.layer == UVCC_MODEL_NO_LAYER ? step == 0 : w.layer + 1 == step;
            if (now)
                assert_int_equal(uvcc_reference_set(r, tensor[i], at), 0);
            at += (size_t)w.rows * w.cols;
        }
        run_entry(r, p,
                  step == 0              ? "embed"
                  : step == c.layers + 1 ? "head"
                                         : uvcc_model_streamed_entry(&c, step - 1));
    }
    const int head = uvcc_program_find_entry(p, "head"), kept = uvcc_program_find(p, "Y");
    const uvcc_io_desc *io = uvcc_program_output_at(p, (uint32_t)head, 0);
    if (shared) {
        assert_null(io);
        assert_null(uvcc_program_input_at(p, (uint32_t)uvcc_program_find_entry(p, "embed"), 0));
        stays(p, "X");
        stays(p, "Y");
        if (c.padding)
            stays(p, "PADDING");
    } else {
        assert_int_equal(io->id, UVCC_MODEL_OUT_Y);
    }
    assert_memory_equal(uvcc_reference_get(r, shared ? (uint32_t)kept : io->tensor), v.y,
                        v.out * sizeof *v.y);
    assert_null(uvcc_model_streamed_entry(&c, c.layers));
    uvcc_reference_free(r);
    uvcc_program_free(p);
    free_values(&v);
}

static void same_of_layers(uvcc_model_config c) {
    same_of_layers_with(c, false);
    same_of_layers_with(c, true);
}

static void test_streamed(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256] = "";
    uint32_t tensor[64] = {0};
    uvcc_program *p;
    uvcc_model_config c = classifier();
    same_of_layers(c);
    c.layers = 1;
    same_of_layers(c);
    c = gpt2();
    same_of_layers(c);
    c.mode = UVCC_MODEL_FAST;
    same_of_layers(c);
    c = gpt2(); /* layers of two kinds, of which either may come first */
    c.layers = 3;
    c.mask = UVCC_MODEL_MASK_WINDOW;
    c.window = 2;
    c.window_period = 2;
    for (c.window_layers = 1; c.window_layers <= 2; c.window_layers++) {
        same_of_layers(c);
        assert_string_equal(uvcc_model_streamed_entry(&c, 0), "layer");
        assert_string_equal(uvcc_model_streamed_entry(&c, 1), "window");
        assert_string_equal(uvcc_model_streamed_entry(&c, 2), "layer");
    }
    c = gpt2();
    c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_model_forward_streamed(&c, p, 0, 0, tensor, &al, why, sizeof why),
                     UVCC_ERR_CONFIG);
    assert_int_equal(uvcc_model_forward_streamed_shared(&c, p, tensor, &al, why, sizeof why),
                     UVCC_ERR_CONFIG);
    assert_string_equal(why, "weights: public ones are not streamed");
    c.weights = UVCC_MODEL_SECRET_WEIGHTS;
    assert_int_equal(uvcc_model_forward_streamed(&c, p, 3, 0, tensor, &al, why, sizeof why),
                     UVCC_ERR_USAGE);
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bert),           cmocka_unit_test(test_others),
        cmocka_unit_test(test_fast),           cmocka_unit_test(test_padding_is_unseen),
        cmocka_unit_test(test_bits),           cmocka_unit_test(test_weights),
        cmocka_unit_test(test_parts),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_wrong_tensors),  cmocka_unit_test(test_twin_refuses),
        cmocka_unit_test(test_memory_refused), cmocka_unit_test(test_index_bits),
        cmocka_unit_test(test_check_decides),  cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_rotary),         cmocka_unit_test(test_rotary_rounds),
        cmocka_unit_test(test_windows),        cmocka_unit_test(test_window_tiles),
        cmocka_unit_test(test_public_weights), cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_tokens),         cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_pools),          cmocka_unit_test(test_means),
        cmocka_unit_test(test_logits),         cmocka_unit_test(test_end_weights),
        cmocka_unit_test(test_rotary_table),   cmocka_unit_test(test_rotary_again),
        cmocka_unit_test(test_plain_norms),    cmocka_unit_test(test_shared),
        cmocka_unit_test(test_streamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
