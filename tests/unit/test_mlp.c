/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <math.h>
#include <uvcc/mlp.h>

#include "proto/crypto.h"
#include "proto/prg.h"

#define MAX_ROWS 64u

/* ---- the vectors: two whole training runs ---- */

typedef struct run {
    const json_t *j;
    uvcc_mlp_config cfg;
    uint64_t seed;
    uvcc_program *p;
    uvcc_reference *r;
} run;

static unsigned load_csv(const json_t *rows, double *v, unsigned *labels, unsigned *features) {
    unsigned n = (unsigned)json_array_size(rows);
    assert_true(n <= MAX_ROWS);
    for (unsigned i = 0; i < n; i++) {
        const char *s = json_string_value(json_array_get(rows, i));
        double cell[8];
        unsigned cells = 0;
        for (char *end = NULL; cells < 8; s = end + 1) {
            cell[cells++] = strtod(s, &end);
            if (*end == 0)
                break;
        }
        *features = cells - 1;
        labels[i] = (unsigned)cell[cells - 1];
        memcpy(v + (size_t)i * *features, cell, *features * sizeof *v);
    }
    return n;
}

static uint32_t tensor_of(const run *t, const char *prefix, uint32_t l) {
    char name[16];
    snprintf(name, sizeof name, "%s%u", prefix, l);
    int i = uvcc_program_find(t->p, name);
    assert_true(i >= 0);
    return (uint32_t)i;
}

static const int64_t *value_of(const run *t, const char *prefix, uint32_t l) {
    return uvcc_reference_get(t->r, tensor_of(t, prefix, l));
}

static void assert_matrix(const json_t *rows, const int64_t *v) {
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        for (size_t j = 0; j < json_array_size(row); j++)
            assert_int_equal(json_integer_value(json_array_get(row, j)), v[at++]);
    }
}

static void set_weights(const run *t) {
    int64_t w[64], mw[64];
    for (uint32_t l = 0; l < uvcc_mlp_layers(&t->cfg); l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&t->cfg, l, &in, &out);
        assert_true(in * out <= 64);
        uvcc_mlp_initial_weights(&t->cfg, t->seed, l, w);
        if (l == 0)
            assert_matrix(json_object_get(t->j, "initial_W0"), w);
        for (uint32_t i = 0; i < in * out; i++)
            mw[i] = w[i] * (int64_t)(1ull << uvcc_mlp_master_shift(&t->cfg));
        assert_int_equal(uvcc_reference_set(t->r, tensor_of(t, "W", l), w), 0);
        assert_int_equal(uvcc_reference_set(t->r, tensor_of(t, "MW", l), mw), 0);
    }
}

static void check_final(const run *t) {
    const json_t *w = json_object_get(t->j, "W"), *b = json_object_get(t->j, "b");
    uvcci_sha256 h;
    uint8_t digest[32], want[32];
    uvcci_sha256_init(&h);
    for (uint32_t l = 0; l < uvcc_mlp_layers(&t->cfg); l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&t->cfg, l, &in, &out);
        assert_matrix(json_array_get(w, l), value_of(t, "W", l));
        json_t *one = json_pack("[O]", json_array_get(b, l));
        assert_matrix(one, value_of(t, "b", l));
        json_decref(one);
        uvcci_sha256_update(&h, value_of(t, "W", l), (size_t)in * out * 8);
        uvcci_sha256_update(&h, value_of(t, "b", l), (size_t)out * 8);
    }
    uvcci_sha256_final(&h, digest);
    test_hex_n(test_str(t->j, "weights_sha256"), want, 32);
    assert_memory_equal(digest, want, 32);
}

static void train_run(const json_t *csv, const json_t *j) {
    double v[MAX_ROWS * 8];
    unsigned labels[MAX_ROWS], features = 0, classes = 0, kept[MAX_ROWS], n = 0;
    const unsigned rows = load_csv(csv, v, labels, &features);
    double largest = 0;
    for (unsigned i = 0; i < rows; i++) {
        classes = labels[i] + 1 > classes ? labels[i] + 1 : classes;
        if (i % 5 == 4)
            continue;
        kept[n++] = i;
        for (unsigned c = 0; c < features; c++)
            largest = fmax(largest, fabs(v[i * features + c]));
    }

    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    run t = {.j = j, .seed = test_u64(j, "seed")};
    const json_t *hidden = json_object_get(j, "hidden");
    t.cfg = (uvcc_mlp_config){.features = features,
                              .classes = classes,
                              .hidden_count = (uint32_t)json_array_size(hidden),
                              .batch = (uint32_t)test_u64(j, "batch"),
                              .predict_rows = 1,
                              .lr_shift = (uint8_t)test_u64(j, "lr_shift"),
                              .frac_bits = (uint8_t)test_u64(j, "frac_bits"),
                              .y_owner = 1};
    for (uint32_t l = 0; l < t.cfg.hidden_count; l++)
        t.cfg.hidden[l] = (uint32_t)json_integer_value(json_array_get(hidden, l));
    char message[256];
    assert_int_equal(uvcc_mlp_program(&t.p, &t.cfg, &al, message, sizeof message), 0);
    assert_int_equal(uvcc_reference_new(&t.r, t.p, &al), 0);
    set_weights(&t);

    const int train = uvcc_program_find_entry(t.p, "train");
    assert_true(train >= 0);
    const double one = ldexp(1, t.cfg.frac_bits);
    const uint32_t batch = t.cfg.batch;
    unsigned steps = 0;
    for (uint32_t e = 0; e < test_u64(j, "epochs"); e++) {
        uint32_t order[MAX_ROWS];
        uvcc_mlp_order(t.seed, e, n, order);
        for (uint32_t i = 0; e == 0 && i < n; i++)
            assert_int_equal(
                json_integer_value(json_array_get(json_object_get(j, "order_epoch0"), i)),
                order[i]);
        for (uint32_t at = 0; at + batch <= n; at += batch, steps++) {
            int64_t x[MAX_ROWS * 8], y[MAX_ROWS * 8] = {0};
            for (uint32_t i = 0; i < batch; i++) {
                const unsigned row = kept[order[at + i]];
                for (unsigned c = 0; c < features; c++)
                    x[i * features + c] =
                        (int64_t)floor(v[row * features + c] / largest * one + 0.5);
                y[i * classes + labels[row]] = (int64_t)one;
            }
            assert_int_equal(uvcc_reference_set(t.r, tensor_of(&t, "X", 0), x), 0);
            assert_int_equal(uvcc_reference_set(t.r, tensor_of(&t, "Y", 0), y), 0);
            if (uvcc_reference_step(t.r, (uint32_t)train, message, sizeof message) != 0)
                fail_msg("step %u: %s", steps, message);
        }
    }
    assert_int_equal(steps, test_u64(j, "steps"));
    check_final(&t);
    uvcc_reference_free(t.r);
    uvcc_program_free(t.p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("mlp.json");
    const json_t *runs = json_object_get(v, "runs");
    assert_true(json_array_size(runs) == 2);
    for (size_t i = 0; i < json_array_size(runs); i++)
        train_run(json_object_get(v, "csv"), json_array_get(runs, i));
    json_decref(v);
}

/* ---- initial weights and order ---- */

static void test_order_permutes(void **state) {
    (void)state;
    enum { N = 1000 }; /* several refills of the word buffer */
    uint32_t a[N], b[N];
    bool seen[N] = {false};
    uvcc_mlp_order(7, 3, N, a);
    uvcc_mlp_order(7, 3, N, b);
    assert_memory_equal(a, b, sizeof a);
    for (uint32_t i = 0; i < N; i++) {
        assert_true(a[i] < N && !seen[a[i]]);
        seen[a[i]] = true;
    }
    uvcc_mlp_order(7, 4, N, b);
    assert_memory_not_equal(a, b, sizeof a);
    uvcc_mlp_order(7, 3, 0, NULL);
    uvcc_mlp_order(7, 3, 1, a);
    assert_int_equal(a[0], 0);
}

static void test_initial_weights_range(void **state) {
    (void)state;
    uvcc_mlp_config c = {
        .features = 30, .classes = 40, .hidden_count = 1, .hidden = {50}, .frac_bits = 16};
    static int64_t w[50 * 40];
    uvcc_mlp_initial_weights(&c, 1, 1, w);
    const int64_t limit = (int64_t)floor(ldexp(sqrt(6.0 / 90), 16));
    int64_t low = 0, high = 0;
    for (unsigned i = 0; i < 2000; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    assert_true(low >= -limit && low < -limit * 9 / 10);
    assert_true(high <= limit && high > limit * 9 / 10);
}

__extension__ typedef unsigned __int128 wide;

/* Limits beyond 32 bits, where the high half of the product needs all its carries. */
static void test_initial_weights_wide(void **state) {
    (void)state;
    enum { N = 600 };
    uvcc_mlp_config c = {
        .features = 20, .classes = 3, .hidden_count = 1, .hidden = {30}, .frac_bits = 50};
    static int64_t w[N];
    static uint64_t word[N];
    uint8_t label[9 + 8 + 4] = "uvcc/init", digest[32];
    label[9] = 77; /* LE64(seed) || LE32(layer 0) */
    uvcci_sha256_once(label, sizeof label, digest);
    uvcci_aes key;
    uvcci_aes_init(&key, digest, UVCCI_AES_PORTABLE);
    uvcci_prg_fill(&key, (uvcci_prg_at){0}, 0, word, N);
    uvcc_mlp_initial_weights(&c, 77, 0, w);
    const int64_t limit = (int64_t)floor(ldexp(sqrt(6.0 / 50), 50));
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(w[i], (int64_t)((wide)word[i] * (2 * (uint64_t)limit + 1) >> 64) - limit);
}

/* ---- options ---- */

static uvcc_mlp_config mnist(void) {
    return (uvcc_mlp_config){.features = 784,
                             .classes = 10,
                             .hidden_count = 2,
                             .hidden = {128, 64},
                             .batch = 128,
                             .predict_rows = 100,
                             .lr_shift = 5,
                             .frac_bits = 16,
                             .y_owner = 1};
}

static void refused(const uvcc_mlp_config *c, int error, const char *part) {
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_program *p = NULL;
    char message[256] = "";
    assert_int_equal(uvcc_mlp_program(&p, c, &al, message, sizeof message), error);
    if (strstr(message, part) == NULL)
        fail_msg("'%s' lacks '%s'", message, part);
    assert_null(p);
    assert_int_equal(counts.live_blocks, 0);
}

#define REFUSED(change, error, part)                                                               \
    do {                                                                                           \
        uvcc_mlp_config c = mnist();                                                               \
        change;                                                                                    \
        refused(&c, error, part);                                                                  \
    } while (0)

static void test_bad_options(void **state) {
    (void)state;
    REFUSED(c.features = 0, UVCC_ERR_CONFIG, "features");
    REFUSED(c.classes = 0, UVCC_ERR_CONFIG, "classes");
    REFUSED(c.hidden_count = 0, UVCC_ERR_CONFIG, "hidden_count is 0");
    REFUSED(c.hidden_count = 16, UVCC_ERR_CONFIG, "1 to 15");
    REFUSED(c.hidden[1] = 0, UVCC_ERR_CONFIG, "hidden layer 1");
    REFUSED(c.batch = 100, UVCC_ERR_CONFIG, "power of two");
    REFUSED(c.batch = 0, UVCC_ERR_CONFIG, "power of two");
    REFUSED(c.frac_bits = 0, UVCC_ERR_CONFIG, "frac_bits");
    REFUSED(c.truncation = 3, UVCC_ERR_CONFIG, "truncation");
    REFUSED(c.lift = 3, UVCC_ERR_CONFIG, "lift");
    REFUSED(c.compare = 2, UVCC_ERR_CONFIG, "comparison 2 is unknown");
    REFUSED(c.y_owner = 3, UVCC_ERR_CONFIG, "owners");
    REFUSED(c.frac_bits = 20, UVCC_ERR_BOUND, "lower frac_bits, range_bits or batch");
    REFUSED(c.lr_shift = 36, UVCC_ERR_BOUND, "lower frac_bits, lr_shift");
    REFUSED(c.weight_range_bits = 13, UVCC_ERR_BOUND, "weight_range_bits");
    REFUSED(c.weight_range_bits = 255; c.range_bits = 255, UVCC_ERR_BOUND, "weight_range_bits");
    REFUSED((c.frac_bits = 20, c.range_bits = 7, c.hidden[0] = 1u << 20), UVCC_ERR_BOUND,
            "layer 1: the sums of its forward product");
}

/* ---- the programs ---- */

static uvcc_program *build(const uvcc_mlp_config *c, const uvcc_allocator *al) {
    uvcc_program *p = NULL;
    char message[256];
    if (uvcc_mlp_program(&p, c, al, message, sizeof message) != 0)
        fail_msg("%s", message);
    return p;
}

static void test_entries(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = mnist();
    uvcc_program *p = build(&c, &al);
    assert_int_equal(uvcc_program_entry_count(p), 3);
    const int train = uvcc_program_find_entry(p, "train"),
              reveal = uvcc_program_find_entry(p, "reveal");
    assert_int_equal(uvcc_program_input_count(p, (uint32_t)train), 2);
    assert_int_equal(uvcc_program_input_at(p, (uint32_t)train, 1)->owner, 1);
    assert_int_equal(uvcc_program_output_count(p, (uint32_t)reveal), 6);
    for (uint32_t i = 0; i < 6; i++) {
        const uvcc_io_desc *io = uvcc_program_output_at(p, (uint32_t)reveal, i);
        char name[8];
        snprintf(name, sizeof name, "%c%u", i % 2 ? 'b' : 'W', i / 2);
        assert_int_equal(io->id, UVCC_MLP_OUT_WEIGHT + i);
        assert_int_equal(io->tensor, uvcc_program_find(p, name));
    }
    uvcc_program_free(p);
    c.predict_rows = 0;
    p = build(&c, &al);
    assert_int_equal(uvcc_program_find_entry(p, "predict"), UVCC_ERR_NOT_FOUND);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

/* Training follows the chosen truncation; what is revealed is exact, and opened weights are made
 * from the masters, not from rounded ones. */
static void test_stochastic(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = mnist();
    c.truncation = UVCC_TRUNC_STOCHASTIC;
    uvcc_program *p = build(&c, &al);
    for (uint32_t e = 0; e < 3; e++) {
        const bool train = strcmp(uvcc_program_entry_name(p, e), "train") == 0;
        for (uint32_t i = 0; i < uvcc_program_op_count(p, e); i++) {
            const uvcc_op_desc *d = uvcc_program_op_at(p, e, i);
            if (d->opcode != UVCC_OP_INPUT && d->opcode != UVCC_OP_OUTPUT &&
                d->opcode != UVCC_OP_OUTPUT_TO)
                assert_int_equal(d->truncation, train);
        }
    }
    const uint32_t reveal = (uint32_t)uvcc_program_find_entry(p, "reveal");
    for (uint32_t i = 0; i < 6; i++) {
        const uvcc_io_desc *io = uvcc_program_output_at(p, reveal, i);
        assert_int_equal(uvcc_program_tensor_at(p, io->tensor)->lifetime, UVCC_TRANSIENT);
        const uvcc_op_desc *d = uvcc_program_op_at(p, reveal, i);
        assert_int_equal(d->opcode, UVCC_OP_TRUNCATE);
        assert_int_equal(d->out[0], io->tensor);
        assert_int_equal(uvcc_program_tensor_at(p, d->in[0])->name[0], 'M');
    }
    uvcc_program_free(p);
}

static uint32_t stochastic_ops(const uvcc_mlp_config *c, const uvcc_allocator *al) {
    uvcc_program *p = build(c, al);
    uint32_t n = 0;
    for (uint32_t e = 0; e < uvcc_program_entry_count(p); e++)
        for (uint32_t i = 0; i < uvcc_program_op_count(p, e); i++)
            n += uvcc_program_op_at(p, e, i)->truncation == UVCC_TRUNC_STOCHASTIC;
    uvcc_program_free(p);
    return n;
}

/* Masters as fine as weights are opened as they are, and with them what the gradients were rounded
 * to: there nothing may be rounded stochastically. */
static void test_stochastic_no_master_shift(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = mnist();
    c.truncation = UVCC_TRUNC_STOCHASTIC;
    c.batch = 1;
    c.lr_shift = 1;
    assert_int_not_equal(stochastic_ops(&c, &al), 0);
    c.lr_shift = 0;
    assert_int_equal(uvcc_mlp_master_shift(&c), 0);
    assert_int_equal(stochastic_ops(&c, &al), 0);
    assert_int_equal(counts.live_blocks, 0);
}

/* By a DCF everything that truncates is, what is revealed too; other ops have no truncation. */
static void test_dcf(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = mnist();
    c.predict_rows = 4;
    uvcc_program *by_dpf = build(&c, &al);
    c.truncation = UVCC_TRUNC_EXACT_DCF;
    uvcc_program *p = build(&c, &al);
    for (uint32_t e = 0; e < 3; e++) {
        assert_int_equal(uvcc_program_op_count(p, e), uvcc_program_op_count(by_dpf, e));
        for (uint32_t i = 0; i < uvcc_program_op_count(p, e); i++) {
            const uvcc_op_desc *d = uvcc_program_op_at(p, e, i);
            const bool truncates = d->opcode == UVCC_OP_GEMM_SS || d->opcode == UVCC_OP_TRUNCATE;
            assert_int_equal(d->truncation, truncates ? UVCC_TRUNC_EXACT_DCF : UVCC_TRUNC_EXACT);
        }
    }
    uvcc_program_free(by_dpf);
    uvcc_program_free(p);
}

/* batch 1 and rate 1: masters are as fine as weights, and an update is a copy. */
static void test_no_master_shift(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = {
        .features = 1, .classes = 1, .hidden_count = 1, .hidden = {1}, .batch = 1, .frac_bits = 8};
    uvcc_program *p = build(&c, &al);
    uvcc_reference *r;
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    const char *const names[] = {"W0", "MW0", "W1", "MW1", "X0"};
    const int64_t one = 256, y = 0;
    for (int i = 0; i < 5; i++)
        assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, names[i]), &one), 0);
    assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, "Y0"), &y), 0);
    assert_int_equal(uvcc_reference_step(r, 0, NULL, 0), 0);
    /* output 1, gradient 1 everywhere: every weight becomes 0, every bias -1 */
    assert_int_equal(*uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, "W0")), 0);
    assert_int_equal(*uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, "W1")), 0);
    assert_int_equal(*uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, "b0")), -256);
    assert_int_equal(*uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, "b1")), -256);
    uvcc_reference_free(r);
    uvcc_program_free(p);
}

/* The predict entry is the forward pass of training: same weights and rows, same outputs. */
static void test_predict(void **state) {
    (void)state;
    test_alloc counts = {0};
    const uvcc_allocator al = test_allocator(&counts);
    uvcc_mlp_config c = {.features = 5,
                         .classes = 3,
                         .hidden_count = 1,
                         .hidden = {7},
                         .batch = 4,
                         .predict_rows = 4,
                         .frac_bits = 16,
                         .lr_shift = 3};
    uvcc_program *p = build(&c, &al);
    uvcc_reference *r;
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    int64_t w[64], x[20], y[12] = {0};
    uint64_t seed = 5;
    for (int i = 0; i < 20; i++)
        x[i] = (int64_t)(test_rand(&seed) % 131072) - 65536;
    for (uint32_t l = 0; l < 2; l++) {
        uvcc_mlp_initial_weights(&c, 3, l, w);
        const char *name = l == 0 ? "W0" : "W1";
        assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, name), w), 0);
    }
    assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, "X0"), x), 0);
    assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, "PX0"), x), 0);
    assert_int_equal(uvcc_reference_set(r, (uint32_t)uvcc_program_find(p, "Y0"), y), 0);
    const uint32_t predict = (uint32_t)uvcc_program_find_entry(p, "predict");
    assert_int_equal(uvcc_reference_step(r, predict, NULL, 0), 0);
    assert_int_equal(uvcc_reference_step(r, 0, NULL, 0), 0);
    const uint32_t out = uvcc_program_output_at(p, predict, 0)->tensor;
    assert_memory_equal(uvcc_reference_get(r, out),
                        uvcc_reference_get(r, (uint32_t)uvcc_program_find(p, "Z1")), sizeof y);
    uvcc_reference_free(r);
    uvcc_program_free(p);
}

static void test_no_memory(void **state) {
    (void)state;
    const uvcc_mlp_config c = mnist();
    for (size_t i = 1;; i++) {
        test_alloc counts = {.fail_at = i};
        const uvcc_allocator al = test_allocator(&counts);
        uvcc_program *p = NULL;
        int err = uvcc_mlp_program(&p, &c, &al, NULL, 0);
        if (err == 0) {
            uvcc_program_free(p);
            assert_true(i > 5);
            assert_int_equal(counts.live_blocks, 0);
            break;
        }
        assert_int_equal(err, UVCC_ERR_NOMEM);
        assert_null(p);
        assert_int_equal(counts.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_order_permutes),
        cmocka_unit_test(test_initial_weights_range),
        cmocka_unit_test(test_initial_weights_wide),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_stochastic),
        cmocka_unit_test(test_stochastic_no_master_shift),
        cmocka_unit_test(test_dcf),
        cmocka_unit_test(test_no_master_shift),
        cmocka_unit_test(test_predict),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
