/* SPDX-License-Identifier: Apache-2.0 */
/* test_cost.c - what ops cost: the formula is the documents' table, and what sessions send is the
 * formula and headers. */
#include "triangle.h"

#include <uvcc/mlp.h>
#include <uvcc/transformer.h>

/* ---- the table of docs/protocols.md, section 10 ---- */

enum { ROWS = 65, COLS = 64, ELEMS = ROWS * COLS, F = 16, RELU_BITS = 31 };

/* Correction words of a comparison on n bits, to HEAD and to TAIL. */
static double words(unsigned n) {
    const unsigned levels = n > 7 ? n - 7 : 0;
    return 2 * (16.0 * levels + 16 + (2 * levels + 7) / 8);
}

/* A DCF key on n bits, to HEAD and to TAIL. */
static double dcf(unsigned n) {
    return 2 * (24.0 * n + 8 + (2 * n + 7) / 8);
}

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, unsigned bits,
                       unsigned scale, uint8_t sharing) {
    const uvcc_tensor_desc d = {.name = name,
                                .rows = rows,
                                .cols = COLS,
                                .bits = (uint8_t)bits,
                                .scale = (uint8_t)scale,
                                .lifetime =
                                    sharing == UVCC_ADDITIVE ? UVCC_TRANSIENT : UVCC_PERSIST,
                                .in_buffer_of = UVCC_NO_TENSOR,
                                .sharing = sharing};
    const int t = uvcc_program_tensor(p, &d);
    assert_true(t >= 0);
    return (uint32_t)t;
}

typedef struct row {
    uint16_t opcode;
    uint8_t flags, shift, truncation, lift;
    uint32_t rounds;
    double online, keys;                                /* per element */
    enum { OF_A, OF_PART, OF_WIDE, OF_61, OF_62 } what; /* the last two of so many bits */
} row;

static void follows_the_table(void **state) {
    (void)state;
    const double exact = words(F) + 8 + F / 4, full = words(F) + 24;
    const row rows[] = {
        {UVCC_OP_ADD, 0, 0, 0, 0, 0, 0, 0, OF_A},
        {UVCC_OP_GEMM_SS, 0, 0, 0, 0, 1, 24, 0, OF_A},
        {UVCC_OP_GEMM_SS, 0, F, 0, 0, 3, 48.25, exact, OF_A},
        {UVCC_OP_ELEM_MUL, 0, F, 1, 0, 2, 30.25, 0, OF_A},
        {UVCC_OP_GEMM_SS, 0, 20, 1, 0, 2, 24.25 + 3 * 20 / 8.0, 0, OF_A},
        {UVCC_OP_ELEM_MUL, 0, F, 1, UVCC_LIFT_SEQUENTIAL, 3, 48, F / 4, OF_A},
        {UVCC_OP_ELEM_MUL, 0, F, 1, UVCC_LIFT_EXCHANGE, 2, 48, F / 4, OF_A},
        {UVCC_OP_TRUNCATE, 0, 4, 1, 0, 1, 8 + 4 * 4 / 8.0, 0, OF_A},
        {UVCC_OP_TRUNCATE, 0, F, 1, 0, 1, 16, 0, OF_WIDE},
        {UVCC_OP_TRUNCATE, 0, F, 1, 0, 1, 16, 0, OF_61},
        {UVCC_OP_TRUNCATE, 0, F, 1, 0, 2, 32, 16, OF_62},
        {UVCC_OP_TRUNCATE, 0, 4, 1, UVCC_LIFT_EXCHANGE, 2, 32, 16, OF_A},
        {UVCC_OP_TRUNCATE, 0, F, 0, 0, 3, 32.25, full, OF_WIDE},
        {UVCC_OP_TRUNCATE, 0, F, 2, 0, 2, 32, dcf(F) + 16, OF_WIDE},
        {UVCC_OP_GEMM_SS, 0, F, 2, 0, 2, 48, dcf(F) + F / 4, OF_A},
        {UVCC_OP_ELEM_MUL, 0, 9, 2, UVCC_LIFT_SEQUENTIAL, 3, 48, dcf(9) + 2 * 9 / 8.0, OF_A},
        {UVCC_OP_GEMM_PART, 0, 0, 0, 0, 0, 0, 0, OF_A},
        {UVCC_OP_MUL_PART, 0, 0, 0, 0, 0, 0, 0, OF_A},
        {UVCC_OP_RESHARE, 0, 0, 0, 0, 1, 24, 0, OF_PART},
        {UVCC_OP_TRUNCATE, 0, F, 1, 0, 2, 30.25, 0, OF_PART},
        {UVCC_OP_TRUNCATE, 0, F, 1, UVCC_LIFT_EXCHANGE, 2, 48, F / 4, OF_PART},
        {UVCC_OP_TRUNCATE, 0, F, 0, 0, 3, 48.25, exact, OF_PART},
        {UVCC_OP_TRUNCATE, 0, F, 2, 0, 2, 48, dcf(F) + F / 4, OF_PART},
        {UVCC_OP_RELU, 0, 0, 0, 0, 3, 48.25, words(RELU_BITS) + 16, OF_WIDE},
        {UVCC_OP_RELU, UVCC_OP_CIRCUIT, 0, 0, 0, 5, 99.75, 0, OF_WIDE},
        /* opens the element-wise product's operands; then nothing is opened any more */
        {UVCC_OP_ELEM_MUL, UVCC_OP_BEAVER, 0, 0, 0, 1, 48, 24, OF_A},
        {UVCC_OP_ELEM_MUL, UVCC_OP_BEAVER, 0, 0, 0, 0, 0, 24, OF_A},
        {UVCC_OP_ELEM_MUL, UVCC_OP_BEAVER, F, 0, 0, 3, 32.25, full + 24, OF_A},
        {UVCC_OP_ELEM_MUL, UVCC_OP_BEAVER, F, 2, 0, 2, 32, dcf(F) + 16 + 24, OF_A},
    };
    enum { COUNT = sizeof rows / sizeof rows[0] };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    char message[256] = "", name[32];
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t a = tensor(p, "A", ROWS, 20, F, UVCC_REPLICATED);
    const uint32_t b = tensor(p, "B", ROWS, 20, F, UVCC_REPLICATED);
    const uint32_t square = tensor(p, "C", COLS, 20, F, UVCC_REPLICATED);
    const uint32_t wide = tensor(p, "wide", ROWS, RELU_BITS, 2 * F, UVCC_REPLICATED);
    const uint32_t top[] = {tensor(p, "61", ROWS, 61, 2 * F, UVCC_REPLICATED),
                            tensor(p, "62", ROWS, 62, 2 * F, UVCC_REPLICATED)};
    uint32_t part = UVCC_NO_TENSOR;
    assert_int_equal(uvcc_program_entry(p, "all"), 0);
    for (unsigned i = 0; i < COUNT; i++) {
        const row *r = &rows[i];
        const bool gemm = r->opcode == UVCC_OP_GEMM_SS || r->opcode == UVCC_OP_GEMM_PART;
        const bool adds = r->opcode == UVCC_OP_GEMM_PART || r->opcode == UVCC_OP_MUL_PART;
        const bool one = r->opcode == UVCC_OP_TRUNCATE || r->opcode == UVCC_OP_RESHARE ||
                         r->opcode == UVCC_OP_RELU;
        const bool relu = r->opcode == UVCC_OP_RELU, sum = r->opcode == UVCC_OP_ADD;
        const unsigned from = r->what != OF_A ? 2 * F : one || sum ? F : 2 * F;
        snprintf(name, sizeof name, "out%u", i);
        uvcc_op_desc d = {.opcode = r->opcode,
                          .k = (uint16_t)i,
                          .in_count = one ? 1 : 2,
                          .in = {r->what == OF_A      ? a
                                 : r->what == OF_PART ? part
                                 : r->what >= OF_61   ? top[r->what - OF_61]
                                                      : wide,
                                 gemm ? square : b},
                          .out_count = relu ? 2 : 1,
                          .out = {tensor(p, name, ROWS, 60, from - r->shift,
                                         adds ? UVCC_ADDITIVE : UVCC_REPLICATED)},
                          .flags = r->flags,
                          .shift = r->shift,
                          .truncation = r->truncation,
                          .lift = r->lift};
        if (adds)
            part = d.out[0];
        snprintf(name, sizeof name, "bit%u", i);
        if (relu)
            d.out[1] = tensor(p, name, ROWS, 1, 0, UVCC_REPLICATED);
        if (one)
            d.in[1] = 0;
        assert_true(uvcc_program_op(p, &d) >= 0);
    }
    assert_true(uvcc_program_input(p, 1, a, 0) >= 0);
    assert_true(uvcc_program_output(p, 1, b) >= 0);
    if (uvcc_program_finish(p, message, sizeof message) != 0)
        fail_msg("%s", message);
    assert_int_equal(uvcc_program_op_count(p, 0), COUNT + 2);
    const size_t live = mem.live_bytes;
    for (uint32_t i = 0; i < COUNT + 2; i++) {
        static const row in = {.rounds = 1, .online = 16}, out = {.rounds = 1, .online = 24};
        const row *r = i == 0 ? &in : i == COUNT + 1 ? &out : &rows[i - 1];
        uvcc_op_cost c;
        assert_int_equal(uvcc_program_cost(p, 0, i, &c), 0);
        if (c.rounds != r->rounds || (double)c.online_bytes != r->online * ELEMS ||
            (double)c.preprocessing_bytes != r->keys * ELEMS)
            fail_msg("op %u (%s): %u rounds, %.4f online, %.4f before, per element", i,
                     uvcc_opcode_name(uvcc_program_op_at(p, 0, i)->opcode), c.rounds,
                     (double)c.online_bytes / ELEMS, (double)c.preprocessing_bytes / ELEMS);
        assert_true((c.messages == 0) == (c.online_bytes + c.preprocessing_bytes == 0));
    }
    uvcc_op_cost c;
    uint32_t rounds;
    assert_int_equal(uvcc_program_cost(p, 0, COUNT + 2, &c), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_cost(p, 1, 0, &c), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_program_rounds(p, 1, NULL, &rounds), UVCC_ERR_USAGE);
    /* Nothing but the input comes before the circuit, and the circuit only reads another tensor. */
    assert_int_equal(uvcc_program_rounds(p, 0, NULL, &rounds), 0);
    assert_int_equal(rounds, 5);
    bool counted[COUNT + 2] = {[0] = true};
    assert_int_equal(uvcc_program_rounds(p, 0, counted, &rounds), 0);
    assert_int_equal(rounds, 1);
    counted[3] = true; /* the exact product of what was given */
    assert_int_equal(uvcc_program_rounds(p, 0, counted, &rounds), 0);
    assert_int_equal(rounds, 1 + 3);
    for (size_t fail = 1; fail <= 2; fail++) {
        mem.fail_at = fail; /* the depths; the plan of the input */
        assert_int_equal(uvcc_program_rounds(p, 0, NULL, &rounds), UVCC_ERR_NOMEM);
    }
    mem.fail_at = 0;
    assert_int_equal(mem.live_bytes, live); /* nothing stays behind */
    uvcc_program_free(p);
    assert_int_equal(mem.live_bytes, 0);
}

/* ---- what sessions send ---- */

enum { OPS_MAX = 4096 };

static struct heard {
    uint32_t entry;
    uint64_t bytes[OPS_MAX][2]; /* online, before */
    uint32_t done[OPS_MAX];
} heard;

static void hear(void *user, const uvcc_op_trace *t) {
    (void)user;
    if (t->entry != heard.entry)
        return;
    assert_true(t->op < OPS_MAX);
    if (t->kind == UVCC_TRACE_SENT)
        heard.bytes[t->op][t->work == UVCC_TRACE_KEYS] += t->bytes;
    heard.done[t->op] += t->kind == UVCC_TRACE_DONE;
}

static void listen(uvcc_config *c) {
    c->trace.op = hear;
}

/* Headers and digests of a message, beside those that long messages have for each block. */
enum { HEADERS = 160 };

static void between(uint64_t bytes, uint64_t formula, uint32_t messages, const uvcc_op_desc *d) {
    if (bytes < formula || (double)bytes > 1.1 * (double)formula + (double)messages * HEADERS)
        fail_msg("%s, k %u: %llu bytes in at most %u messages, by the formula %llu",
                 uvcc_opcode_name(d->opcode), d->k, (unsigned long long)bytes, messages,
                 (unsigned long long)formula);
}

/* What a function's steps say, beside the rounding of its last block. */
static void agrees_with_function(const uvcc_program *p, const uvcc_op_desc *d,
                                 const uvcc_op_cost *c) {
    const uvcc_tensor_desc *in = uvcc_program_tensor_at(p, d->in[0]);
    const double elems = (double)in->rows * in->cols;
    const uvcc_function *f = uvcc_program_function_at(p, d->function);
    uvcc_fn_cost by_steps;
    assert_int_equal(uvcc_function_cost(f, in->cols, &by_steps), 0);
    assert_int_equal(c->rounds, by_steps.rounds);
    assert_true((double)c->online_bytes >= by_steps.online_bytes * elems - 0.5);
    assert_true((double)c->online_bytes < by_steps.online_bytes * elems + 2 * f->instr_count);
    assert_true((double)c->preprocessing_bytes > by_steps.key_bytes * elems - 0.5);
    assert_true((double)c->preprocessing_bytes < by_steps.key_bytes * elems + 0.5);
}

/* The check of a product with 4 to 512 inner elements, as docs/protocols.md section 11 has it: a
 * digest is 32 bytes, and six directions are there. */
static void check_of_product(const uvcc_op_desc *d, const uvcc_op_cost *c) {
    const uint64_t opened = c->online_bytes - 6 * 32;
    assert_int_equal(c->rounds, 2);
    assert_int_equal(c->preprocessing_bytes, 0);
    if (d->opcode == UVCC_OP_SKS_START)
        assert_int_equal(c->online_bytes, 24 * 64 * 64 + 3 * 6 * 32);
    else
        assert_true(opened % 3072 == 0 && opened / 3072 >= 4 && opened / 3072 <= 512);
}

/* Sums over the ops of the entry, each of which was done `steps` times by each party. */
static uvcc_op_cost check_ops(const uvcc_program *p, uint32_t entry, uint32_t steps) {
    uvcc_op_cost sum = {0};
    for (uint32_t i = 0; i < uvcc_program_op_count(p, entry); i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, entry, i);
        uvcc_op_cost c;
        assert_int_equal(heard.done[i], 3 * steps);
        assert_int_equal(uvcc_program_cost(p, entry, i, &c), 0);
        between(heard.bytes[i][0], steps * c.online_bytes, steps * c.messages, d);
        between(heard.bytes[i][1], steps * c.preprocessing_bytes, steps * c.messages, d);
        if (d->opcode == UVCC_OP_FUNCTION)
            agrees_with_function(p, d, &c);
        if (d->opcode == UVCC_OP_SKS_START || d->opcode == UVCC_OP_SKS_GEMM_CHECK)
            check_of_product(d, &c);
        sum.online_bytes += steps * c.online_bytes;
        sum.preprocessing_bytes += steps * c.preprocessing_bytes;
        sum.messages += steps * c.messages;
    }
    return sum;
}

static void give_input(triangle *t, uint32_t step, const uvcc_program *p, const uvcc_io_desc *io) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    const size_t n = (size_t)d->rows * d->cols;
    int64_t *v = calloc(n, sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i += d->cols)
        v[i] = 1;
    triangle_input(t, io->owner, step, io->id, v);
    free(v);
}

/* Steps of an entry on zero weights: what is sent depends on shapes alone. */
static void measure(const uvcc_program *p, uint32_t steps) {
    const uint32_t entry = (uint32_t)uvcc_program_find_entry(p, "train");
    triangle t;
    uint32_t rounds;
    uint64_t bytes[2] = {0}, messages = 0;
    memset(&heard, 0, sizeof heard);
    heard.entry = entry;
    triangle_open(&t, p, &(triangle_options){.seed = 5, .tweak = listen});
    triangle_ready(&t);
    for (uint32_t step = 0; step < steps; step++) {
        triangle_agree(&t, step, entry);
        for (uint32_t i = 0; i < uvcc_program_input_count(p, entry); i++)
            give_input(&t, step, p, uvcc_program_input_at(p, entry, i));
        triangle_finish(&t, step + 1);
    }
    const uvcc_op_cost sum = check_ops(p, entry, steps);
    assert_int_equal(uvcc_program_rounds(p, entry, NULL, &rounds), 0);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(t.s[i], &st);
        assert_int_equal(st.rounds, (uint64_t)steps * rounds);
        bytes[0] += st.bytes_online;
        bytes[1] += st.bytes_preprocessing;
        messages += st.messages;
    }
    /* as one: what messages there were, with those of steps and roots */
    assert_true(sum.messages + steps * 3 * 32 >= messages);
    assert_true(bytes[0] >= sum.online_bytes && bytes[1] >= sum.preprocessing_bytes);
    assert_true((double)(bytes[0] + bytes[1]) <=
                1.1 * (double)(sum.online_bytes + sum.preprocessing_bytes) +
                    (double)(messages * HEADERS));
    triangle_close(&t);
    triangle_free(&t);
}

static void mlp_sends_the_formula(void **state) {
    (void)state;
    for (unsigned way = 0; way < 7; way++) {
        const uvcc_mlp_config c = {.features = 70,
                                   .classes = 3,
                                   .hidden_count = 1,
                                   .hidden = {65}, /* a second block of weights */
                                   .batch = 64,
                                   .lr_shift = 2,
                                   .frac_bits = 12,
                                   .truncation = way == 1 || way == 4 ? UVCC_TRUNC_STOCHASTIC
                                                 : way >= 5           ? UVCC_TRUNC_EXACT_DCF
                                                                      : UVCC_TRUNC_EXACT,
                                   .lift = way == 2 ? UVCC_LIFT_SEQUENTIAL : UVCC_LIFT_PARALLEL,
                                   .compare = way == 2 ? UVCC_COMPARE_CIRCUIT : UVCC_COMPARE_FSS,
                                   .products = way >= 3 && way != 6 ? UVCC_PRODUCTS_BEAVER
                                                                    : UVCC_PRODUCTS_NATIVE,
                                   .y_owner = 1};
        const uvcc_allocator al = uvcc_host_allocator();
        uvcc_program *p;
        char message[256] = "";
        if (uvcc_mlp_program(&p, &c, &al, message, sizeof message) != 0)
            fail_msg("%s", message);
        measure(p, 2);
        uvcc_program_free(p);
    }
}

static void transformer_sends_the_formula(void **state) {
    (void)state;
    for (unsigned way = 0; way < 5; way++) {
        static const uvcc_transformer_worker only = {0};
        const uvcc_allocator al = uvcc_host_allocator();
        uvcc_transformer_config c;
        uvcc_program *p;
        char message[256] = "";
        assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
        c.context = 4;
        c.dim = 8;
        c.heads = 2;
        c.layers = 2;
        c.batch = 4;
        c.microbatches = 2;
        c.exact = way != 2;
        c.truncation = way == 2   ? UVCC_TRUNC_STOCHASTIC
                       : way == 4 ? UVCC_TRUNC_EXACT_DCF
                                  : UVCC_TRUNC_EXACT;
        c.sks = way >= 3 ? 1000 : 0;
        c.products = way == 1 ? UVCC_PRODUCTS_BEAVER : UVCC_PRODUCTS_NATIVE;
        if (uvcc_transformer_program(&p, &c, &only, &al, message, sizeof message) != 0)
            fail_msg("%s", message);
        measure(p, 1);
        uvcc_program_free(p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_table),
        cmocka_unit_test(mlp_sends_the_formula),
        cmocka_unit_test(transformer_sends_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
