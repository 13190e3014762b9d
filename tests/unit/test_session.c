/* SPDX-License-Identifier: Apache-2.0 */
/* MAP_ANONYMOUS */
#define _DEFAULT_SOURCE
/* Sessions end to end over the loopback: every op against plaintext, faults, executors, lifts,
 * audit, disagreement, memory. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include <sys/mman.h>

/* ---- small programs ---- */

/* Of products: all tests run natively and on Beaver triples. */
static uint8_t product_flags;

typedef struct shape {
    uint32_t rows, cols;
} shape;

static uint32_t tensor(uvcc_program *p, const char *name, shape s, uint8_t bits, uint8_t scale,
                       uint8_t lifetime) {
    return test_tensor(p, name, s.rows, s.cols, bits, scale, lifetime);
}

static void finish(uvcc_program *p) {
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
}

/* X (P0) times W (P1), truncated, ReLU; the product, the ReLU and its bit are opened. */
enum { IN_X = 1, IN_W = 2, OUT_Z = 10, OUT_A = 11, OUT_D = 12 };

static uvcc_program *relu_program(test_alloc *mem, uint32_t m, uint32_t k, uint32_t n,
                                  uint8_t trunc, uint8_t lift) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "X", (shape){m, k}, 20, 12, UVCC_TRANSIENT);
    uint32_t w = tensor(p, "W", (shape){k, n}, 20, 12, UVCC_TRANSIENT);
    uint32_t z = tensor(p, "Z", (shape){m, n}, 36, 12, UVCC_TRANSIENT);
    uint32_t a = tensor(p, "A", (shape){m, n}, 36, 12, UVCC_TRANSIENT);
    uint32_t d = tensor(p, "D", (shape){m, n}, 1, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_W, w, 1) >= 0);
    uvcc_op_desc g = {.name = "product",
                      .opcode = UVCC_OP_GEMM_SS,
                      .k = 0,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {x, w},
                      .out = {z},
                      .shift = 12,
                      .flags = product_flags,
                      .truncation = trunc,
                      .lift = lift};
    assert_true(uvcc_program_op(p, &g) >= 0);
    uvcc_op_desc r = {.name = "relu",
                      .opcode = UVCC_OP_RELU,
                      .k = 1,
                      .in_count = 1,
                      .out_count = 2,
                      .in = {z},
                      .out = {a, d},
                      .lift = lift};
    assert_true(uvcc_program_op(p, &r) >= 0);
    assert_true(uvcc_program_output(p, OUT_Z, z) >= 0);
    assert_true(uvcc_program_output(p, OUT_A, a) >= 0);
    assert_true(uvcc_program_output(p, OUT_D, d) >= 0);
    finish(p);
    return p;
}

static void random_values(uint64_t seed, int64_t *v, size_t n, unsigned bits) {
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(test_rand(&seed) >> (63 - bits)) - (1ll << bits);
}

static void relu_run(const triangle_options *opt, uint32_t m, uint32_t k, uint32_t n, uint8_t trunc,
                     uint8_t lift, uint32_t steps, uint8_t root[3][32], uvcc_session_stats *st) {
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, m, k, n, trunc, lift);
    triangle t;
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    int64_t *x = malloc(sizeof *x * m * k), *w = malloc(sizeof *w * k * n);
    for (uint32_t step = 0; step < steps; step++) {
        random_values(step + 5, x, (size_t)m * k, 19);
        random_values(step + 6, w, (size_t)k * n, 19);
        triangle_agree(&t, step, 0);
        triangle_input(&t, 0, step, IN_X, x);
        triangle_input(&t, 1, step, IN_W, w);
        triangle_finish(&t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            const int64_t *z = uvcc_session_output(t.s[i], step, OUT_Z);
            const int64_t *a = uvcc_session_output(t.s[i], step, OUT_A);
            const int64_t *d = uvcc_session_output(t.s[i], step, OUT_D);
            assert_non_null(z);
            assert_non_null(a);
            assert_non_null(d);
            for (uint32_t r = 0; r < m; r++)
                for (uint32_t c = 0; c < n; c++) {
                    int64_t sum = 0;
                    for (uint32_t q = 0; q < k; q++)
                        sum += x[r * k + q] * w[q * n + c];
                    int64_t want = sum >> 12, got = z[r * n + c];
                    if (trunc == UVCC_TRUNC_EXACT)
                        assert_int_equal(got, want);
                    else
                        assert_true(got == want || got == want + 1);
                    assert_int_equal(d[r * n + c], got >= 0);
                    assert_int_equal(a[r * n + c], got >= 0 ? got : 0);
                }
        }
    }
    triangle_close(&t);
    if (root != NULL)
        memcpy(root, t.root, sizeof t.root);
    if (st != NULL) {
        uvcc_session_get_stats(t.s[0], st);
        assert_int_equal(t.audits[0], opt != NULL && opt->audit_off ? 0 : 2 * steps);
    }
    free(x);
    free(w);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_product_and_relu(void **state) {
    (void)state;
    for (uint8_t trunc = 0; trunc < 2; trunc++)
        for (uint8_t lift = 0; lift < 3; lift++)
            relu_run(&(triangle_options){.seed = 1}, 9, 7, 5, trunc, lift, 3, NULL, NULL);
}

/* Tiles, executors and suites change when things happen, never what. */
static void test_same_roots_everywhere(void **state) {
    (void)state;
    uint8_t want[3][32], got[3][32];
    uvcc_session_stats a, b;
    relu_run(&(triangle_options){.seed = 9}, 40, 6, 110, UVCC_TRUNC_EXACT, 0, 2, want, &a);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(want[i], want[k], 32);
    uvcc_fault_config bad = {
        .drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .corrupt = 0.01, .truncate = 0.01};
    uvcc_fault_config rough = {.split = 0.5, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.01};
    const triangle_options runs[] = {
        {.seed = 9, .mode = UVCC_CPU_DEFERRED, .compute_seed = 1},
        {.seed = 9, .mode = UVCC_CPU_DEFERRED, .compute_seed = 2},
        {.seed = 9, .mode = UVCC_CPU_THREADS},
        {.seed = 9, .datagram = true},
        {.seed = 9, .datagram = true, .faulty = true, .faults = bad},
        {.seed = 9, .faulty = true, .faults = rough},
        {.seed = 9,
         .datagram = true,
         .faulty = true,
         .faults = bad,
         .mode = UVCC_CPU_DEFERRED,
         .compute_seed = 3},
    };
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        relu_run(&runs[i], 40, 6, 110, UVCC_TRUNC_EXACT, 0, 2, got, &b);
        assert_memory_equal(got, want, sizeof want);
        assert_int_equal(a.bytes_online, b.bytes_online);
        assert_int_equal(a.bytes_preprocessing, b.bytes_preprocessing);
        assert_int_equal(a.messages, b.messages);
        assert_int_equal(a.rounds, b.rounds);
        assert_int_equal(a.leaves, b.leaves);
    }
    /* Other pads, other roots. */
    relu_run(&(triangle_options){.seed = 10}, 40, 6, 110, UVCC_TRUNC_EXACT, 0, 2, got, NULL);
    assert_memory_not_equal(got, want, sizeof want);
    relu_run(&(triangle_options){.seed = 9, .audit_off = true}, 40, 6, 110, UVCC_TRUNC_EXACT, 0, 2,
             NULL, &b);
    assert_int_equal(b.leaves, 0);
    for (uint8_t suite = 1; suite <= 2; suite++) /* roots know nothing of the seal */
        relu_run(&(triangle_options){.seed = 9, .suites = suite}, 40, 6, 110, UVCC_TRUNC_EXACT, 0,
                 2, got, NULL);
}

/* ---- random programs against the reference ---- */

typedef struct value {
    uint32_t tensor, rows, cols;
    unsigned bits;
} value;

enum { SCALE = 6, VALUES_MAX = 24 };

typedef struct random_program {
    uvcc_program *p;
    value v[VALUES_MAX];
    unsigned count;
    uint64_t rnd;
    uint16_t k;
    unsigned *drawn; /* [opcode] */
    unsigned blocks; /* products of blocks */
} random_program;

static unsigned pick(random_program *r, unsigned n) {
    return (unsigned)(test_rand(&r->rnd) % n);
}

static value *new_value(random_program *r, uint32_t rows, uint32_t cols, unsigned bits) {
    char name[16];
    snprintf(name, sizeof name, "t%u", r->count);
    value *v = &r->v[r->count++];
    *v = (value){.rows = rows, .cols = cols, .bits = bits};
    v->tensor = tensor(r->p, name, (shape){rows, cols}, (uint8_t)bits, SCALE, UVCC_TRANSIENT);
    return v;
}

static void add_op_with(random_program *r, uint16_t opcode, const value *a, const value *b,
                        value *out, uint8_t shift, uint8_t flags, int64_t constant) {
    uvcc_op_desc d = {.opcode = opcode,
                      .k = r->k++,
                      .in_count = b != NULL ? 2 : 1,
                      .out_count = 1,
                      .in = {a->tensor, b != NULL ? b->tensor : UVCC_NO_TENSOR},
                      .out = {out->tensor},
                      .shift = shift,
                      .flags = uvcci_is_product(opcode) ? flags | product_flags : flags,
                      .constant = constant,
                      .lift =
                          (uint8_t)(shift != 0 && opcode != UVCC_OP_SHIFT_LEFT ? pick(r, 3) : 0)};
    assert_true(uvcc_program_op(r->p, &d) >= 0);
    r->drawn[opcode]++;
}

static void add_op(random_program *r, uint16_t opcode, const value *a, const value *b, value *out,
                   uint8_t shift, uint8_t flags) {
    add_op_with(r, opcode, a, b, out, shift, flags, 0);
}

/* A product of `bits` bits truncated by `shift`, in one op or reshared and then truncated. */
static void add_product(random_program *r, uint16_t opcode, const value *a, const value *b,
                        uint32_t rows, uint32_t cols, unsigned bits, uint8_t shift,
                        int64_t constant) {
    value *out = new_value(r, rows, cols, bits - shift + 1), whole = {.rows = rows, .cols = cols};
    if (pick(r, 4) != 0) {
        add_op_with(r, opcode, a, b, out, shift, 0, constant);
        return;
    }
    char name[16];
    snprintf(name, sizeof name, "w%u", r->count);
    whole.tensor = tensor(r->p, name, (shape){rows, cols}, (uint8_t)bits, (uint8_t)(SCALE + shift),
                          UVCC_TRANSIENT);
    add_op_with(r, opcode, a, b, &whole, 0, 0, constant);
    add_op(r, UVCC_OP_TRUNCATE, &whole, NULL, out, shift, 0);
}

static unsigned log2_up(uint32_t n) {
    unsigned b = 0;
    while ((1ull << b) < n)
        b++;
    return b;
}

static void put_groups_op(random_program *r, uint16_t opcode, const value *y, const value *x,
                          value *out, uint32_t groups, int64_t constant) {
    const bool heads = pick(r, 2) != 0; /* groups of rows by either */
    uvcc_op_desc d = {.opcode = opcode,
                      .k = r->k++,
                      .in_count = x != NULL ? 2 : 1,
                      .out_count = 1,
                      .in = {y->tensor, x != NULL ? x->tensor : UVCC_NO_TENSOR},
                      .out = {out->tensor},
                      .constant = constant};
    if (opcode == UVCC_OP_CAUSAL_MASK)
        d.window = pick(r, 4);
    if (groups > 1 || heads) {
        d.heads = (uint16_t)(heads ? groups : 1);
        d.row_groups = heads ? 1 : groups;
    }
    assert_true(uvcc_program_op(r->p, &d) >= 0);
    r->drawn[opcode]++;
}

/* A constant of the program, of 4 bits. */
static value new_table(random_program *r, uint32_t rows, uint32_t cols) {
    enum { MOST = 1024 };
    int64_t values[MOST];
    char name[16];
    snprintf(name, sizeof name, "c%u", r->count);
    const value v = {.tensor = uvcc_program_tensor_count(r->p), .rows = rows, .cols = cols};
    const uvcc_tensor_desc d = {.name = name,
                                .rows = rows,
                                .cols = cols,
                                .bits = 4,
                                .lifetime = UVCC_PERSIST,
                                .sharing = UVCC_PUBLIC,
                                .in_buffer_of = UVCC_NO_TENSOR};
    assert_true(rows * cols <= MOST);
    for (size_t i = 0; i < (size_t)rows * cols; i++)
        values[i] = (int64_t)pick(r, 31) - 15;
    assert_true(uvcc_program_tensor(r->p, &d) >= 0);
    assert_int_equal(uvcc_program_constant(r->p, v.tensor, values), 0);
    return v;
}

/* What public tables do: heads of some columns turned, and a product. */
static void grow_by_table(random_program *r, value a) {
    const unsigned depth = log2_up(a.cols);
    if (a.bits + depth + 5 >= 45 || a.cols > 40 || r->count + 2 > VALUES_MAX)
        return;
    const value w = new_table(r, a.cols, 1 + pick(r, 20));
    add_op(r, UVCC_OP_GEMM_PART, &a, &w, new_value(r, a.rows, w.cols, a.bits + 4 + depth), 0, 0);
    if (a.cols % 2 != 0 || a.rows > 25)
        return;
    const value t = new_table(r, a.rows % 2 == 0 && pick(r, 2) != 0 ? a.rows / 2 : a.rows,
                              a.cols % 4 == 0 && pick(r, 2) != 0 ? a.cols / 2 : a.cols);
    add_op(r, UVCC_OP_ROTATE, &a, &t, new_value(r, a.rows, a.cols, a.bits + 5), 0, 0);
}

/* Rows of each group, taken out, and put into zeros or other rows, or added to them; and a mask on
 * each group, where it has a diagonal. */
static void grow_groups(random_program *r, value a) {
    const uint32_t groups = a.rows % 3 == 0 ? 3 : a.rows % 2 == 0 ? 2 : 1, rows = a.rows / groups;
    const uint32_t part = 1 + pick(r, rows), left = rows - part + 1;
    if (a.bits + 2 >= 45 || r->count + 4 > VALUES_MAX)
        return;
    value *y = new_value(r, groups * part, a.cols, a.bits);
    put_groups_op(r, UVCC_OP_SLICE_ROWS, &a, NULL, y, groups, pick(r, left));
    value *z = new_value(r, a.rows, a.cols, a.bits + 1);
    switch (pick(r, 3)) {
    case 0:
        put_groups_op(r, UVCC_OP_PUT_ROWS, y, NULL, z, groups, pick(r, left));
        put_groups_op(r, UVCC_OP_ADD_ROWS, y, z, z, groups, pick(r, left)); /* in place */
        break;
    case 1:
        put_groups_op(r, UVCC_OP_PUT_ROWS, y, &a, z, groups, pick(r, left));
        break;
    default:
        put_groups_op(r, UVCC_OP_ADD_ROWS, y, &a, z, groups, pick(r, left));
    }
    if (rows <= a.cols && groups > 1)
        put_groups_op(r, UVCC_OP_CAUSAL_MASK, &a, NULL, new_value(r, a.rows, a.cols, a.bits + 1),
                      groups, -5);
}

/* Ops with a row or column for the second input, a public constant, or rows that are summed. */
static void grow_rows(random_program *r, value a, value b) {
    static const uint16_t sums[] = {UVCC_OP_ROW_ADD, UVCC_OP_ROW_SUB, UVCC_OP_ROW_RSUB};
    static const uint16_t public[] = {UVCC_OP_SCALE_PUBLIC, UVCC_OP_ADD_PUBLIC,
                                      UVCC_OP_CAUSAL_MASK};
    const unsigned wide = (a.bits > b.bits ? a.bits : b.bits) + 1, product = a.bits + b.bits;
    const unsigned sum = log2_up(a.cols), fraction = pick(r, 5);
    const bool column = b.rows == a.rows && b.cols == 1, row = b.cols == a.cols && b.rows == 1;
    int64_t constant = 1 + pick(r, 200);
    if (pick(r, 2))
        constant = -constant;
    switch (pick(r, 9)) {
    case 8:
        grow_by_table(r, a);
        break;
    case 7:
        grow_groups(r, a);
        break;
    case 6:
        if (a.cols <= 20)
            add_op_with(r, UVCC_OP_REPEAT_COLS, &a, NULL,
                        new_value(r, a.rows, a.cols * (1 + pick(r, 3)), a.bits), 0, 0,
                        pick(r, 2) != 0   ? a.cols
                        : a.cols % 2 == 0 ? a.cols / 2
                                          : 1);
        break;
    case 0:
        if (a.bits + sum < 45)
            add_op(r, UVCC_OP_ROW_SUM, &a, NULL, new_value(r, a.rows, 1, a.bits + sum), 0, 0);
        break;
    case 1:
        if (column && wide < 45)
            add_op(r, sums[pick(r, 3)], &a, &b, new_value(r, a.rows, a.cols, wide), 0, 0);
        break;
    case 2:
        if (column && product < 45)
            add_product(r, UVCC_OP_ROW_MUL, &a, &b, a.rows, a.cols, product, SCALE, 0);
        break;
    case 3:
        if ((row || (b.rows == 1 && b.cols == 1)) && product < 45)
            add_product(r, UVCC_OP_COL_MUL, &a, &b, a.rows, a.cols, product, SCALE, 0);
        break;
    case 4:
        if (b.rows == a.rows && b.cols == a.cols && product + sum + 8 < 45)
            add_product(r, UVCC_OP_ROW_DOT, &a, &b, a.rows, 1, product + sum + 8,
                        (uint8_t)(SCALE + fraction), constant);
        break;
    default: {
        const uint16_t opcode = public[pick(r, 3)];
        if (a.bits + 8 < 45 && (opcode != UVCC_OP_CAUSAL_MASK || a.rows % a.cols == 0))
            add_op_with(r, opcode, &a, NULL, new_value(r, a.rows, a.cols, a.bits + 8), 0, 0,
                        constant);
    }
    }
}

/* x where it is at least a threshold, else a table's value or 0, plus x. */
static void grow_function(random_program *r, value a) {
    static const int32_t entries[] = {5, -77, 1 << 20, 3};
    const int64_t threshold = (int64_t)pick(r, 16) - 8, one = 1;
    const uint8_t bits = (uint8_t)(a.bits + 1);
    const uvcc_fn_instr steps[] = {
        {.kind = UVCC_FN_OPEN, .bits = 64},
        {.kind = UVCC_FN_COMPARE, .a = 0, .bits = bits, .word_count = 1, .words = &threshold},
        {.kind = UVCC_FN_TABLE,
         .a = 0,
         .b = UVCC_FN_NONE,
         .bits = bits,
         .first = -2,
         .entry_count = 4,
         .entries = entries},
        {.kind = UVCC_FN_SELECT, .a = 1, .b = 0, .word_count = 1, .words = &one},
        {.kind = UVCC_FN_ADD, .a = 2, .b = 3},
        {.kind = UVCC_FN_ADD, .a = 4, .b = 0},
        {.kind = pick(r, 2) ? UVCC_FN_LIFT : UVCC_FN_EXCHANGE, .a = 5},
    };
    const uvcc_function f = {
        .name = "random", .inputs = 1, .outputs = 1, .instr_count = 7, .instrs = steps};
    const uint8_t in_bits = (uint8_t)a.bits;
    uint8_t out_bits;
    assert_int_equal(uvcc_function_check(&f, a.cols, &in_bits, &out_bits, NULL, 0), 0);
    if (out_bits >= 45)
        return;
    int index = uvcc_program_function(r->p, &f);
    assert_true(index >= 0);
    uvcc_op_desc op = {.opcode = UVCC_OP_FUNCTION,
                       .function = (uint16_t)index,
                       .k = r->k++,
                       .in_count = 1,
                       .out_count = 1,
                       .in = {a.tensor},
                       .out = {new_value(r, a.rows, a.cols, out_bits)->tensor}};
    assert_true(uvcc_program_op(r->p, &op) >= 0);
    r->drawn[UVCC_OP_FUNCTION]++;
}

/* How two values multiply: transposes, and blocks if there are any. */
typedef struct fit {
    uint8_t flags;
    uint16_t heads;
    uint32_t groups, rows, cols, k;
} fit;

static bool cut(value *v, uint32_t groups, uint32_t heads, bool stacked, bool transposed) {
    const uint32_t down = groups * (stacked ? heads : 1), across = stacked ? 1 : heads;
    if (v->rows % down != 0 || v->cols % across != 0)
        return false;
    *v = transposed ? (value){.rows = v->cols / across, .cols = v->rows / down}
                    : (value){.rows = v->rows / down, .cols = v->cols / across};
    return true;
}

/* One of the ways that fit, drawn; with `blocks` of more than one product. */
static bool fits(random_program *r, value a, value b, bool blocks, fit *f) {
    enum { WAYS = 4 * 8 * 3 * 3 };
    const unsigned first = pick(r, WAYS);
    for (unsigned i = 0; i < WAYS; i++) {
        const unsigned way = (first + i) % WAYS;
        const uint32_t h = blocks ? 1 + way / 32 % 3 : 1, g = blocks ? 1 + way / 96 : 1;
        const uint8_t flags = (uint8_t)(way % 4 | (blocks ? way / 4 % 8 * UVCC_OP_STACKED_A : 0));
        value x = a, y = b;
        if (!cut(&x, g, h, flags & UVCC_OP_STACKED_A, flags & UVCC_OP_TRANS_A) ||
            !cut(&y, g, h, flags & UVCC_OP_STACKED_B, flags & UVCC_OP_TRANS_B) ||
            x.cols != y.rows || (blocks && g * h == 1))
            continue;
        const bool stacked = flags & UVCC_OP_STACKED_C;
        *f = (fit){.flags = flags,
                   .heads = blocks ? (uint16_t)h : 0,
                   .groups = blocks ? g : 0,
                   .rows = g * (stacked ? h : 1) * x.rows,
                   .cols = (stacked ? 1 : h) * y.cols,
                   .k = x.cols};
        return true;
    }
    return false;
}

static void add_product_op(random_program *r, uint16_t opcode, const value *a, const value *b,
                           uint32_t c, const fit *f, uint32_t out, uint8_t shift) {
    uvcc_op_desc d = {.opcode = opcode,
                      .k = r->k++,
                      .in_count = c != UVCC_NO_TENSOR ? 3 : 2,
                      .out_count = 1,
                      .in = {a->tensor, b->tensor, c},
                      .out = {out},
                      .shift = shift,
                      .flags = uvcci_is_product(opcode) ? f->flags | product_flags : f->flags,
                      .heads = f->heads,
                      .row_groups = f->groups,
                      .lift = (uint8_t)(shift != 0 ? pick(r, 3) : 0)};
    assert_true(uvcc_program_op(r->p, &d) >= 0);
    r->drawn[opcode]++;
}

static uint32_t additive(random_program *r, char letter, const fit *f, unsigned bits,
                         uint32_t in_buffer_of) {
    char name[16];
    snprintf(name, sizeof name, "%c%u", letter, r->count);
    int rc = uvcc_program_tensor(r->p, &(uvcc_tensor_desc){.name = name,
                                                           .rows = f->rows,
                                                           .cols = f->cols,
                                                           .bits = (uint8_t)bits,
                                                           .scale = 2 * SCALE,
                                                           .lifetime = UVCC_TRANSIENT,
                                                           .in_buffer_of = in_buffer_of,
                                                           .sharing = UVCC_ADDITIVE});
    assert_true(rc >= 0);
    return (uint32_t)rc;
}

/* An additive product, perhaps added to itself (over itself, in its buffer, or elsewhere), then
 * truncated as it is, or reshared and then truncated, or both. */
static void add_parts(random_program *r, const value *a, const value *b, const fit *f,
                      unsigned bits) {
    const unsigned how = pick(r, 4);
    uint32_t part = additive(r, 'p', f, bits, UVCC_NO_TENSOR), sum = part;
    add_product_op(r, UVCC_OP_GEMM_PART, a, b, UVCC_NO_TENSOR, f, part, 0);
    if (how == 1)
        sum = additive(r, 's', f, bits, part);
    else if (how == 2)
        sum = additive(r, 's', f, bits, UVCC_NO_TENSOR);
    if (how != 3)
        add_product_op(r, UVCC_OP_GEMM_PART, a, b, part, f, sum, 0);
    const value all = {.tensor = sum};
    const unsigned end = pick(r, 3);
    if (end != 0)
        add_op(r, UVCC_OP_TRUNCATE, &all, NULL, new_value(r, f->rows, f->cols, bits - SCALE + 1),
               SCALE, 0);
    if (end != 1 && r->count < VALUES_MAX) {
        char name[16];
        snprintf(name, sizeof name, "sum%u", r->count);
        value whole = {.rows = f->rows, .cols = f->cols};
        whole.tensor =
            tensor(r->p, name, (shape){f->rows, f->cols}, (uint8_t)bits, 2 * SCALE, UVCC_TRANSIENT);
        add_op(r, UVCC_OP_RESHARE, &all, NULL, &whole, 0, 0);
        add_op(r, UVCC_OP_TRUNCATE, &whole, NULL, new_value(r, f->rows, f->cols, bits - SCALE + 1),
               SCALE, 0);
    }
}

/* The product kept whole, checked or perhaps not, then truncated. */
static void add_checked(random_program *r, const value *a, const value *b, const fit *f,
                        unsigned bits) {
    static const uint16_t permille[] = {1000, 500, 0};
    char name[16];
    snprintf(name, sizeof name, "c%u", r->count);
    const value whole = {.rows = f->rows,
                         .cols = f->cols,
                         .tensor = tensor(r->p, name, (shape){f->rows, f->cols}, (uint8_t)bits,
                                          2 * SCALE, UVCC_TRANSIENT)};
    add_product_op(r, UVCC_OP_GEMM_SS, a, b, UVCC_NO_TENSOR, f, whole.tensor, 0);
    uvcc_op_desc d = {.opcode = UVCC_OP_SKS_START,
                      .k = r->k++,
                      .in_count = 3,
                      .in = {a->tensor, b->tensor, whole.tensor},
                      .flags = f->flags,
                      .constant = permille[pick(r, 3)]};
    assert_true(uvcc_program_op(r->p, &d) >= 0);
    d.opcode = UVCC_OP_SKS_GEMM_CHECK;
    d.k = r->k++;
    d.flags = 0;
    d.constant = 0;
    assert_true(uvcc_program_op(r->p, &d) >= 0);
    add_op(r, UVCC_OP_TRUNCATE, &whole, NULL, new_value(r, f->rows, f->cols, bits - SCALE + 1),
           SCALE, 0);
    r->drawn[UVCC_OP_SKS_START]++;
    r->drawn[UVCC_OP_SKS_GEMM_CHECK]++;
}

static void grow_gemm(random_program *r, value a, value b) {
    fit f;
    if (a.tensor == b.tensor || !fits(r, a, b, pick(r, 2) != 0, &f))
        return;
    const unsigned bits = a.bits + b.bits + log2_up(f.k);
    if (bits > 44)
        return;
    if (pick(r, 3) == 0)
        add_parts(r, &a, &b, &f, bits + 1);
    else if (f.heads == 0 && pick(r, 3) == 0)
        add_checked(r, &a, &b, &f, bits);
    else
        add_product_op(r, UVCC_OP_GEMM_SS, &a, &b, UVCC_NO_TENSOR, &f,
                       new_value(r, f.rows, f.cols, bits - SCALE + 1)->tensor, SCALE);
    r->blocks += f.heads != 0;
}

/* Products of elements, summed, added to a multiple of a replicated tensor, or as they are, then
 * truncated: additive up to there. */
static void grow_mul_part(random_program *r, value a, value b) {
    const bool same = a.rows == b.rows && a.cols == b.cols,
               column = a.rows == b.rows && b.cols == 1;
    const bool row = (a.cols == b.cols || b.cols == 1) && b.rows == 1;
    const unsigned bits = a.bits + b.bits, more = bits + 1 + log2_up(a.rows * a.cols);
    fit whole = {.rows = a.rows, .cols = a.cols}, some = whole;
    if ((!same && !column && !row) || more + 1 > 44)
        return;
    value part = {.tensor = additive(r, 'm', &whole, more, UVCC_NO_TENSOR)};
    add_op(r, UVCC_OP_MUL_PART, &a, &b, &part, 0, pick(r, 2) ? UVCC_OP_WITHIN : 0);
    uint16_t next = UVCC_OP_ROW_SUM;
    switch (pick(r, 4)) {
    case 0:
        some.cols = a.cols % 2 == 0 && pick(r, 2) ? a.cols / 2 : 1;
        break;
    case 1:
        some.rows = 1;
        next = UVCC_OP_REDUCE_BIAS_GRAD;
        break;
    case 2:
        next = pick(r, 2) ? UVCC_OP_ADD : UVCC_OP_SUB;
        break;
    default:
        next = 0;
    }
    value sum = part;
    if (next != 0)
        sum.tensor = additive(r, 'n', &some, more, UVCC_NO_TENSOR);
    if (next == UVCC_OP_ADD || next == UVCC_OP_SUB) {
        const value multiple = {.tensor = additive(r, 'o', &whole, more, UVCC_NO_TENSOR)};
        value out = multiple;
        add_op_with(r, UVCC_OP_SCALE_PUBLIC, &a, NULL, &out, SCALE, 0, 3);
        add_op(r, next, &part, &multiple, &sum, 0, 0);
    } else if (next != 0) {
        add_op(r, next, &part, NULL, &sum, 0, 0);
    }
    add_op(r, UVCC_OP_TRUNCATE, &sum, NULL, new_value(r, some.rows, some.cols, more - SCALE + 1),
           SCALE, 0);
}

static void grow(random_program *r) {
    value a = r->v[pick(r, r->count)], b = r->v[pick(r, r->count)];
    unsigned wide = (a.bits > b.bits ? a.bits : b.bits) + 1;
    bool same = a.rows == b.rows && a.cols == b.cols;
    switch (pick(r, 16)) {
    case 0:
    case 13:
    case 14:
        grow_gemm(r, a, b);
        break;
    case 15:
        grow_mul_part(r, a, b);
        break;
    case 1:
        if (same && a.bits + b.bits < 45)
            add_product(r, UVCC_OP_ELEM_MUL, &a, &b, a.rows, a.cols, a.bits + b.bits, SCALE, 0);
        break;
    case 2:
        if (same && wide < 45)
            add_op(r, pick(r, 2) ? UVCC_OP_ADD : UVCC_OP_SUB, &a, &b,
                   new_value(r, a.rows, a.cols, wide), 0, 0);
        break;
    case 3:
        if (a.rows % b.rows == 0 && a.cols == b.cols && wide < 45)
            add_op(r, UVCC_OP_BIAS_ADD, &a, &b, new_value(r, a.rows, a.cols, wide), 0, 0);
        break;
    case 4:
        if (a.bits + log2_up(a.rows) < 45)
            add_op(r, UVCC_OP_REDUCE_BIAS_GRAD, &a, NULL,
                   new_value(r, a.rows % 2 == 0 && pick(r, 2) ? a.rows / 2 : 1, a.cols,
                             a.bits + log2_up(a.rows)),
                   0, 0);
        break;
    case 5: {
        value *y = new_value(r, a.rows, a.cols, a.bits), d = {0};
        char name[16];
        snprintf(name, sizeof name, "d%u", r->count);
        d.tensor = tensor(r->p, name, (shape){a.rows, a.cols}, 1, 0, UVCC_TRANSIENT);
        uvcc_op_desc op = {.opcode = UVCC_OP_RELU,
                           .k = r->k++,
                           .in_count = 1,
                           .out_count = 2,
                           .in = {a.tensor},
                           .out = {y->tensor, d.tensor},
                           .lift = (uint8_t)pick(r, 3)};
        if (pick(r, 2) != 0)
            op.flags = UVCC_OP_CIRCUIT;
        assert_true(uvcc_program_op(r->p, &op) >= 0);
        r->drawn[UVCC_OP_RELU]++;
        break;
    }
    case 6:
        grow_function(r, a);
        break;
    default:
        grow_rows(r, a, b);
    }
}

enum { ID_ROWS = 50 };

/* Rows of some value, by numbers that a party alone has; gives how many rows there are to name, 0
 * if there was no room. */
static uint32_t grow_embedding(random_program *r, uint32_t *ids) {
    const value table = r->v[pick(r, r->count)];
    const uint32_t rows = 1 + pick(r, 6);
    if (r->count == VALUES_MAX)
        return 0;
    uvcc_tensor_desc d = {.name = "ids",
                          .rows = rows,
                          .cols = 1,
                          .bits = (uint8_t)(log2_up(table.rows) + 1),
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR,
                          .sharing = UVCC_ONE_HOT};
    *ids = (uint32_t)uvcc_program_tensor(r->p, &d);
    assert_true(uvcc_program_input(r->p, ID_ROWS, *ids, (uint8_t)pick(r, 3)) >= 0);
    d.name = "named";
    d.cols = table.cols;
    d.bits = (uint8_t)table.bits;
    d.scale = SCALE;
    d.sharing = UVCC_ADDITIVE;
    const value id = {.tensor = *ids};
    value named = {.tensor = (uint32_t)uvcc_program_tensor(r->p, &d)};
    add_op(r, UVCC_OP_EMBED, &id, &table, &named, 0, 0);
    add_op(r, UVCC_OP_RESHARE, &named, NULL, new_value(r, rows, table.cols, table.bits), 0, 0);
    r->drawn[UVCC_OP_INPUT_ONE_HOT]++;
    return table.rows;
}

/* An input of the one random program: as it is drawn, to the session and to the reference. */
static void give_random_ids(triangle *t, const random_program *r, uvcc_reference *ref, uint32_t ids,
                            uint32_t end) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(r->p, ids);
    const uvcc_io_desc *io = uvcc_program_input_at(r->p, 0, uvcc_program_input_count(r->p, 0) - 1);
    uint64_t rng = r->rnd;
    int64_t v[8];
    for (uint32_t i = 0; i < d->rows; i++)
        v[i] = (int64_t)(test_rand(&rng) % end);
    assert_int_equal(uvcc_reference_set(ref, ids, v), 0);
    triangle_input(t, io->owner, 0, ID_ROWS, v);
}

static unsigned one_random_program(uint64_t seed, unsigned *drawn) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    random_program r = {.rnd = seed, .drawn = drawn};
    assert_int_equal(uvcc_program_new(&r.p, &al), 0);
    assert_true(uvcc_program_entry(r.p, "run") >= 0);
    uint32_t dim[3] = {1, 1 + pick(&r, 8), 1 + pick(&r, seed % 5 == 0 ? 90 : 12)};
    for (unsigned i = 0; i < 5; i++) {
        value *v = new_value(&r, dim[pick(&r, 3)], dim[pick(&r, 3)], 8 + pick(&r, 5));
        assert_true(uvcc_program_input(r.p, 1 + i, v->tensor, (uint8_t)pick(&r, 3)) >= 0);
    }
    while (r.k < 12 && r.count < VALUES_MAX - 2 && test_rand(&r.rnd) % 40 != 0)
        grow(&r);
    uint32_t ids = 0;
    const uint32_t named = grow_embedding(&r, &ids);
    for (unsigned i = 0; i < r.count; i++) {
        const bool all = i % 4 != 3;
        assert_true((all ? uvcc_program_output(r.p, 100 + i, r.v[i].tensor)
                         : uvcc_program_output_to(r.p, 100 + i, r.v[i].tensor, i % 3)) >= 0);
        drawn[UVCC_OP_OUTPUT_TO] += !all;
    }
    finish(r.p);

    uvcc_reference *ref;
    assert_int_equal(uvcc_reference_new(&ref, r.p, &al), 0);
    triangle t;
    triangle_open(&t, r.p,
                  &(triangle_options){.seed = seed,
                                      .datagram = seed % 2 != 0,
                                      .mode = seed % 3 == 0 ? UVCC_CPU_DEFERRED : UVCC_CPU_INLINE,
                                      .compute_seed = seed});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned i = 0; i < 5; i++) {
        size_t n = (size_t)r.v[i].rows * r.v[i].cols;
        int64_t *v = malloc(n * sizeof *v);
        random_values(seed * 31 + i, v, n, r.v[i].bits - 1);
        assert_int_equal(uvcc_reference_set(ref, r.v[i].tensor, v), 0);
        uint8_t owner = uvcc_program_input_at(r.p, 0, i)->owner;
        triangle_input(&t, owner, 0, 1 + i, v);
        free(v);
    }
    if (named != 0)
        give_random_ids(&t, &r, ref, ids, named);
    char why[256];
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, why);
    triangle_finish(&t, 1);
    for (unsigned i = 0; i < r.count; i++)
        for (unsigned p = 0; p < 3; p++) {
            const int64_t *got = uvcc_session_output(t.s[p], 0, 100 + i);
            const int64_t *want = uvcc_reference_get(ref, r.v[i].tensor);
            if (i % 4 == 3 && i % 3 != p) {
                assert_null(got);
                continue;
            }
            if (memcmp(got, want, (size_t)r.v[i].rows * r.v[i].cols * sizeof *got) != 0)
                fail_msg("seed %llu: tensor t%u differs at party %u", (unsigned long long)seed, i,
                         p);
        }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(r.p);
    assert_int_equal(mem.live_blocks, 0);
    return r.blocks;
}

static void test_random_programs(void **state) {
    (void)state;
    unsigned drawn[64] = {0}, blocks = 0;
    for (uint64_t seed = 1; seed <= 60; seed++)
        blocks += one_random_program(seed, drawn);
    assert_in_range(blocks, 10, 60 * 12);
    static const uint16_t all[] = {
#define UVCC_OPCODE(name, code, n_in, n_out, what) code,
#include <uvcc/loopback.h>
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i] > UVCC_OP_OUTPUT && all[i] != UVCC_OP_SHIFT_LEFT &&
            all[i] != UVCC_OP_RANDOM && /* the reference has no keys: test_random */
            !uvcci_is_collective(all[i]) && drawn[all[i]] == 0)
            fail_msg("no random program has a %s", uvcc_opcode_name(all[i]));
}

/* ---- the products of attention, forward and backward ---- */

enum { SEQUENCES = 2, HEADS = 3, LENGTH = 40, WIDTH = 16, IN_BITS = 12 };
enum { IN_Q, IN_K, IN_V, IN_DO, IN_P, IN_DS, ATTENTION_INPUTS };

typedef struct attention_product {
    const char *name;
    uint8_t a, b, flags;
} attention_product;

static const attention_product attention_products[] = {
    {"QK", IN_Q, IN_K, UVCC_OP_TRANS_B | UVCC_OP_STACKED_C},
    {"PV", IN_P, IN_V, UVCC_OP_STACKED_A},
    {"dOV", IN_DO, IN_V, UVCC_OP_TRANS_B | UVCC_OP_STACKED_C},
    {"PdO", IN_P, IN_DO, UVCC_OP_TRANS_A | UVCC_OP_STACKED_A},
    {"dSK", IN_DS, IN_K, UVCC_OP_STACKED_A},
    {"dSQ", IN_DS, IN_Q, UVCC_OP_TRANS_A | UVCC_OP_STACKED_A},
};
enum { ATTENTION_PRODUCTS = sizeof attention_products / sizeof attention_products[0] };

static shape attention_shape(bool stacked) {
    return stacked ? (shape){SEQUENCES * HEADS * LENGTH, LENGTH}
                   : (shape){SEQUENCES * LENGTH, HEADS * WIDTH};
}

/* Each product in one op, and, as `twice` as much, summed in a tensor and truncated. */
static uvcc_program *attention_program(const uvcc_allocator *al, uint8_t truncation) {
    static const char *const names[] = {"Q", "K", "V", "dO", "P", "dS"};
    uint32_t in[ATTENTION_INPUTS], out[2 * ATTENTION_PRODUCTS];
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    assert_true(uvcc_program_entry(p, "attention") >= 0);
    for (uint8_t i = 0; i < ATTENTION_INPUTS; i++) {
        in[i] = tensor(p, names[i], attention_shape(i >= IN_P), IN_BITS, SCALE, UVCC_TRANSIENT);
        assert_true(uvcc_program_input(p, i, in[i], i % 3) >= 0);
    }
    for (uint8_t i = 0; i < ATTENTION_PRODUCTS; i++) {
        const attention_product *a = &attention_products[i];
        const shape s = attention_shape(a->flags & UVCC_OP_STACKED_C);
        char name[16];
        for (unsigned twice = 0; twice < 2; twice++) {
            snprintf(name, sizeof name, "%s%s", twice ? "2 " : "", a->name);
            out[2 * i + twice] = tensor(p, name, s, 36, SCALE, UVCC_TRANSIENT);
        }
        snprintf(name, sizeof name, "sum %s", a->name);
        const int sum = uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = name,
                                                                   .rows = s.rows,
                                                                   .cols = s.cols,
                                                                   .bits = 2 * IN_BITS + 7,
                                                                   .scale = 2 * SCALE,
                                                                   .in_buffer_of = UVCC_NO_TENSOR,
                                                                   .lifetime = UVCC_TRANSIENT,
                                                                   .sharing = UVCC_ADDITIVE});
        assert_true(sum >= 0);
        uvcc_op_desc d = {.name = a->name,
                          .opcode = UVCC_OP_GEMM_SS,
                          .k = (uint16_t)(4 * i),
                          .in_count = 2,
                          .in = {in[a->a], in[a->b], (uint32_t)sum},
                          .out_count = 1,
                          .out = {out[2 * i]},
                          .flags = a->flags,
                          .shift = SCALE,
                          .truncation = truncation,
                          .heads = HEADS,
                          .row_groups = SEQUENCES};
        assert_true(uvcc_program_op(p, &d) >= 0);
        d.opcode = UVCC_OP_GEMM_PART;
        d.shift = d.truncation = 0;
        d.out[0] = (uint32_t)sum;
        for (d.k++; d.in_count <= 3; d.in_count++, d.k++)
            assert_true(uvcc_program_op(p, &d) >= 0);
        d = (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                           .k = d.k,
                           .in_count = 1,
                           .in = {(uint32_t)sum},
                           .out_count = 1,
                           .out = {out[2 * i + 1]},
                           .shift = SCALE,
                           .truncation = truncation};
        assert_true(uvcc_program_op(p, &d) >= 0);
    }
    for (uint8_t i = 0; i < 2 * ATTENTION_PRODUCTS; i++)
        assert_true(uvcc_program_output(p, 10 + i, out[i]) >= 0);
    finish(p);
    return p;
}

static void attention_run(uint8_t truncation) {
    static int64_t v[SEQUENCES * HEADS * LENGTH * LENGTH];
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = attention_program(&al, truncation);
    uvcc_reference *ref;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 5 + truncation, .mode = UVCC_CPU_DEFERRED});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (uint8_t i = 0; i < ATTENTION_INPUTS; i++) {
        const shape s = attention_shape(i >= IN_P);
        random_values(i + 3u, v, (size_t)s.rows * s.cols, IN_BITS - 1);
        triangle_input(&t, i % 3, 0, i, v);
        assert_int_equal(uvcc_reference_set(ref, uvcc_program_input_at(p, 0, i)->tensor, v), 0);
    }
    char why[200];
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle_finish(&t, 1);
    unsigned above = 0;
    for (uint8_t i = 0; i < 2 * ATTENTION_PRODUCTS; i++) {
        const uint32_t out = uvcc_program_output_at(p, 0, i)->tensor;
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, out);
        const int64_t *want = uvcc_reference_get(ref, out);
        const int64_t *got = uvcc_session_output(t.s[i % 3], 0, 10u + i);
        for (uint32_t e = 0; e < d->rows * d->cols; e++) {
            const int64_t more = got[e] - want[e];
            if (more != 0 && (more != 1 || truncation != UVCC_TRUNC_STOCHASTIC))
                fail_msg("%s, element %u: %lld, not %lld", d->name, e, (long long)got[e],
                         (long long)want[e]);
            above += more == 1;
        }
    }
    assert_true((above != 0) == (truncation == UVCC_TRUNC_STOCHASTIC));
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_attention(void **state) {
    (void)state;
    attention_run(UVCC_TRUNC_EXACT);
    attention_run(UVCC_TRUNC_STOCHASTIC);
    attention_run(UVCC_TRUNC_EXACT_DCF);
}

/* Z = X W >> 12 in one op, or in `parts` that are summed and truncated. */
static uvcc_session_stats product_stats(unsigned parts, uint8_t truncation, uint64_t *z) {
    enum { M = 70, N = 65, K = 3 };
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = tensor(p, "X", (shape){M, K}, 20, 12, UVCC_TRANSIENT);
    const uint32_t w = tensor(p, "W", (shape){K, N}, 20, 12, UVCC_TRANSIENT);
    const uint32_t out = tensor(p, "Z", (shape){M, N}, 36, 12, UVCC_TRANSIENT);
    const int sum = uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = "sum",
                                                               .rows = M,
                                                               .cols = N,
                                                               .bits = 44,
                                                               .scale = 24,
                                                               .in_buffer_of = UVCC_NO_TENSOR,
                                                               .lifetime = UVCC_TRANSIENT,
                                                               .sharing = UVCC_ADDITIVE});
    assert_true(sum >= 0 && uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_W, w, 1) >= 0);
    uvcc_op_desc d = {.opcode = parts == 0 ? UVCC_OP_GEMM_SS : UVCC_OP_GEMM_PART,
                      .in_count = 2,
                      .in = {x, w, (uint32_t)sum},
                      .out_count = 1,
                      .out = {parts == 0 ? out : (uint32_t)sum},
                      .shift = parts == 0 ? 12 : 0,
                      .truncation = parts == 0 ? truncation : UVCC_TRUNC_EXACT};
    for (unsigned i = 0; i == 0 || i < parts; i++, d.k++, d.in_count = 3)
        assert_true(uvcc_program_op(p, &d) >= 0);
    d = (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                       .k = d.k,
                       .in_count = 1,
                       .in = {(uint32_t)sum},
                       .out_count = 1,
                       .out = {out},
                       .shift = 12,
                       .truncation = truncation};
    if (parts != 0)
        assert_true(uvcc_program_op(p, &d) >= 0);
    assert_true(uvcc_program_output(p, OUT_Z, out) >= 0);
    finish(p);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 4});
    triangle_ready(&t);
    int64_t v[M * K], u[K * N];
    random_values(1, v, M * K, 19);
    random_values(2, u, K * N, 19);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, v);
    triangle_input(&t, 1, 0, IN_W, u);
    triangle_finish(&t, 1);
    *z = (uint64_t)uvcc_session_output(t.s[2], 0, OUT_Z)[M * N - 1];
    uvcc_session_stats st = {0};
    for (unsigned i = 0; i < 3;
         i++) { /* blocks have edges drawn from ids: only sums are the same */
        uvcc_session_stats one;
        uvcc_session_get_stats(t.s[i], &one);
        st.rounds = one.rounds;
        st.transient_peak_bytes = one.transient_peak_bytes;
        st.bytes_online += one.bytes_online;
        st.bytes_preprocessing += one.bytes_preprocessing;
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return st;
}

/* A sum of products costs what one product costs, however many there are, and half a tensor of
 * memory. */
static void test_sums_cost_one_product(void **state) {
    (void)state;
    for (uint8_t truncation = 0; truncation < 3; truncation++) {
        uint64_t z[3];
        const uvcc_session_stats one = product_stats(0, truncation, &z[0]);
        const uvcc_session_stats part = product_stats(1, truncation, &z[1]);
        const uvcc_session_stats sum = product_stats(4, truncation, &z[2]);
        assert_in_range(z[1] - z[0] + 1, 0, 2);
        assert_in_range(z[2] - 4 * z[0] + 4, 0, 9);
        for (unsigned i = 0; i < 2; i++) {
            const uvcc_session_stats *more = i == 0 ? &part : &sum;
            assert_true(more->rounds == one.rounds);
            assert_in_range(more->bytes_preprocessing, one.bytes_preprocessing * 0.97,
                            one.bytes_preprocessing * 1.03);
            assert_in_range(more->bytes_online, one.bytes_online * 0.97, one.bytes_online * 1.03);
        }
        assert_int_equal(part.transient_peak_bytes, 70 * 65 * 8 * 3); /* the sum and Z */
        assert_int_equal(sum.transient_peak_bytes, part.transient_peak_bytes);
    }
}

/* ---- rounds of several parts ---- */

static void one_op_large(uint16_t opcode, uint32_t n, uint8_t shift, uint8_t truncation) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "x", (shape){1, n}, 20, 10, UVCC_TRANSIENT);
    uint32_t scale = opcode == UVCC_OP_ELEM_MUL ? 20u - shift : 10u - shift;
    uint32_t y = tensor(p, "y", (shape){1, n}, 41, (uint8_t)scale, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 2) >= 0);
    uvcc_op_desc d = {.opcode = opcode,
                      .in_count = opcode == UVCC_OP_TRUNCATE ? 1 : 2,
                      .out_count = 1,
                      .in = {x, opcode == UVCC_OP_TRUNCATE ? UVCC_NO_TENSOR : x},
                      .out = {y},
                      .flags = uvcci_is_product(opcode) ? product_flags : 0,
                      .shift = shift,
                      .truncation = truncation};
    assert_true(uvcc_program_op(p, &d) >= 0);
    assert_true(uvcc_program_output(p, 2, y) >= 0);
    finish(p);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = n});
    triangle_ready(&t);
    int64_t *v = malloc(n * sizeof *v);
    random_values(n, v, n, 19);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 2, 0, 1, v);
    triangle_finish(&t, 1);
    const int64_t *got = uvcc_session_output(t.s[1], 0, 2);
    for (uint32_t i = 0; i < n; i++) {
        int64_t want = (opcode == UVCC_OP_ELEM_MUL ? v[i] * v[i] : v[i]) >> shift;
        if (got[i] != want && (truncation != UVCC_TRUNC_STOCHASTIC || got[i] != want + 1))
            fail_msg("element %u: %lld, not %lld", i, (long long)got[i], (long long)want);
    }
    free(v);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void test_large(void **state) {
    (void)state;
    one_op_large(UVCC_OP_ELEM_MUL, 50000, 10, UVCC_TRUNC_EXACT); /* keys in two parts */
    one_op_large(UVCC_OP_TRUNCATE, 50000, 3, UVCC_TRUNC_EXACT);
    one_op_large(UVCC_OP_ELEM_MUL, 50000, 20, UVCC_TRUNC_EXACT_DCF); /* four parts */
    one_op_large(UVCC_OP_TRUNCATE, 20001, 9, UVCC_TRUNC_STOCHASTIC);
    one_op_large(UVCC_OP_ELEM_MUL, 20001, 13, UVCC_TRUNC_STOCHASTIC);
    one_op_large(UVCC_OP_ELEM_MUL, 1050000, 10, UVCC_TRUNC_STOCHASTIC); /* in two parts */
    one_op_large(UVCC_OP_ELEM_MUL, 1050000, 0, UVCC_TRUNC_EXACT); /* every round in two parts */
}

/* ---- what must be refused ---- */

static void other_secret(uvcc_config *c) {
    if (c->identity.party == 2)
        memset(c->identity.pair_secret[0], 0x77, 32);
}
static void other_topology(uvcc_config *c) {
    if (c->identity.party == 1)
        c->place.stages = 2;
}
static void other_job(uvcc_config *c) {
    if (c->identity.party == 1)
        c->identity.sid_job[3] ^= 1;
}

static void test_wrong_peers(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, 2, 2, 2, 0, 0);
    void (*const tweaks[])(uvcc_config *) = {other_secret, other_topology, other_job};
    static const char *const named[] = {"pair_secret", "topology", "sid_job"};
    for (unsigned k = 0; k < 3; k++) {
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = tweaks[k]});
        for (unsigned i = 0; i < 2000 && triangle_turn(&t); i++)
            ;
        assert_false(t.ready[0] && t.ready[1] && t.ready[2]);
        for (unsigned i = 0; i < 3; i++) { /* told, and nothing more: it may be anybody's */
            assert_int_equal(t.aborted[i], 0);
            for (unsigned q = 0; q < 3; q++)
                if (i != q && (k == 0 ? i + q == 2 : i == 1 || q == 1))
                    assert_string_equal(t.mismatch[i][q], named[k]);
                else
                    assert_null(t.mismatch[i][q]);
        }
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

static void test_step_disagreement(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "x", (shape){1, 3}, 20, 10, UVCC_TRANSIENT);
    uint32_t y = tensor(p, "y", (shape){2, 3}, 20, 10, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "one") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 0) >= 0);
    assert_true(uvcc_program_output(p, 2, x) >= 0);
    assert_true(uvcc_program_entry(p, "two") >= 0);
    assert_true(uvcc_program_input(p, 1, y, 0) >= 0);
    assert_true(uvcc_program_output(p, 2, y) >= 0);
    finish(p);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 4});
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), UVCC_ERR_STATE);
    triangle_ready(&t);
    assert_int_equal(uvcc_session_step(t.s[0], 2, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_step(t.s[0], 1, 0, 0), UVCC_ERR_USAGE);
    assert_string_equal(uvcc_session_error_detail(t.s[0]),
                        "step 1 cannot be: step 0 comes before it");
    assert_int_equal(uvcc_session_step(t.s[0], 0, 7, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), 0);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_step(t.s[1], 0, 1, 0), 0);
    assert_int_equal(uvcc_session_step(t.s[2], 0, 0, 0), 0);
    assert_int_equal(uvcc_session_close(t.s[0], 0), UVCC_ERR_STATE);
    while (t.aborted[0] == 0 || t.aborted[1] == 0 || t.aborted[2] == 0)
        assert_true(triangle_turn(&t));
    assert_true(t.aborted[0] == UVCC_ABORT_STEP || t.aborted[0] == UVCC_ABORT_PEER);
    assert_int_equal(uvcc_session_step(t.s[0], 0, 0, 0), UVCC_ERR_ABORTED);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void test_inputs_refused(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, 2, 2, 2, 0, 0);
    triangle t;
    int64_t v[4] = {1, 2, 3, 4};
    triangle_open(&t, p, &(triangle_options){.seed = 5});
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, v, 0), UVCC_ERR_STATE);
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    while (t.started[0] == 0)
        assert_true(triangle_turn(&t));
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_W, v, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_input(t.s[0], 0, 99, v, 0), UVCC_ERR_NOT_FOUND);
    triangle_input(&t, 0, 0, IN_X, v);
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, v, 0), UVCC_ERR_STATE);
    assert_null(uvcc_session_output(t.s[0], 0, OUT_Z));
    /* A stale and a foreign completion change nothing. */
    uvcc_completion c = {.id = 1ull << 40, .cookie = 100};
    assert_int_equal(uvcc_session_complete(t.s[0], &c, 0), 0);
    c.cookie = 5;
    assert_int_equal(uvcc_session_complete(t.s[0], &c, 0), 0);
    uvcc_session_stats st;
    uvcc_session_get_stats(t.s[0], &st);
    assert_int_equal(st.jobs_stale, 2);
    /* A failed job aborts all three. */
    const uvcc_job *job;
    assert_int_equal(uvcc_session_poll_job(t.s[0], &job), 1);
    c = (uvcc_completion){.id = job->id, .cookie = job->cookie, .status = UVCC_ERR_JOB};
    assert_int_equal(uvcc_session_complete(t.s[0], &c, 0), 0);
    while (t.aborted[0] == 0 || t.aborted[1] == 0 || t.aborted[2] == 0)
        assert_true(triangle_turn(&t));
    assert_int_equal(t.aborted[0], UVCC_ABORT_JOB);
    assert_int_equal(t.aborted[1], UVCC_ABORT_PEER);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void small_rx(uvcc_config *c) {
    c->links.rx_online_bytes = 1000;
}

static void test_capacity_refused(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, 20, 20, 20, 0, 0);
    uvcc_config c;
    uint64_t seed = 1;
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    uvcc_session *s;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    c = triangle_config_alone(&mem, &seed);
    c.flags = 1;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    c.flags = 0;
    small_rx(&c);
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), UVCC_ERR_LIMIT);
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A configuration may end before any group behind `place`: what it lacks is as in a default one.
 * One that ends earlier or is longer, or that sets what this version does not know, is refused. */
static void test_config_versions(void **state) {
    (void)state;
    static const size_t ends[] = {offsetof(uvcc_config, links),
                                  offsetof(uvcc_config, limits),
                                  offsetof(uvcc_config, resume),
                                  offsetof(uvcc_config, checks),
                                  offsetof(uvcc_config, triples),
                                  offsetof(uvcc_config, consent),
                                  offsetof(uvcc_config, agree),
                                  offsetof(uvcc_config, names),
                                  sizeof(uvcc_config)};
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_session *s;
    uvcc_config whole, c;
    assert_int_equal(uvcc_config_default(&whole, sizeof whole + 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_config_default(&whole, sizeof whole), 0);
    assert_int_equal(whole.size, sizeof whole);
    whole.alloc = test_allocator(&mem);
    whole.random = test_random(&seed);
    whole.identity = triangle_config_alone(&mem, &seed).identity;
    for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        c = whole;
        c.size = ends[i]; /* what stands behind it is not read: all of it would be refused */
        memset((uint8_t *)&c + ends[i], 0xff, sizeof c - ends[i]);
        assert_int_equal(uvcc_session_new(&s, &c), 0);
        assert_int_equal(s->cfg.links.suites, UVCC_SUITES_ALL);
        assert_int_equal(s->cfg.limits.jobs_max, 256);
        assert_int_equal(s->cfg.resume.next_run, 0);
        assert_false(s->cfg.checks.bundles || s->cfg.triples.only);
        uvcc_session_free(s);
    }
    c = whole;
    c.size = offsetof(uvcc_config, checks) + 8; /* inside a group */
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_USAGE);
    c.size = offsetof(uvcc_config, links) - 1;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_USAGE);
    c.size = sizeof c + 1;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_USAGE);
#define LAST(group) (offsetof(uvcc_config, group.reserved) + sizeof c.group.reserved - 8)
    static const size_t unknown[] = {LAST(identity), LAST(place),
                                     LAST(limits),   LAST(resume),
                                     LAST(checks),   LAST(triples),
                                     LAST(consent),  offsetof(uvcc_config, consent.reserved32),
                                     LAST(agree),    offsetof(uvcc_config, agree.reserved32),
                                     LAST(names),    LAST(threads)};
#undef LAST
    for (unsigned i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        c = whole;
        *((uint8_t *)&c + unknown[i]) = 1;
        assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    }
    assert_int_equal(mem.live_blocks, 0);
}

/* An entry that runs nothing is refused as such when it is loaded. */
static void test_empty_program(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    tensor(p, "x", (shape){1, 1}, 20, 10, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    finish(p);
    uint64_t rnd = 1;
    const uvcc_config c = triangle_config_alone(&mem, &rnd);
    uvcc_session *s;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), UVCC_ERR_PROGRAM);
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Every allocation of a whole run fails once: the session says so and nothing leaks. */
static void test_allocation_failures(void **state) {
    (void)state;
    test_alloc pm = {0};
    uvcc_program *p = relu_program(&pm, 3, 2, 4, 0, 0);
    int64_t x[6] = {1, -2, 3, 4, -5, 6}, w[8] = {7, 8, -9, 1, 2, 3, -4, 5};
    for (size_t i = 1;; i += i < 400 ? 1 : 17) {
        test_alloc mem = {0};
        uvcc_allocator al = test_allocator(&mem);
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 6});
        (void)al;
        triangle_ready(&t);
        t.mem.fail_at = i;
        bool failed = false;
        for (unsigned k = 0; k < 3; k++)
            failed |= uvcc_session_step(t.s[k], 0, 0, 0) != 0;
        if (!failed) {
            failed |= uvcc_session_input(t.s[0], 0, IN_X, x, 0) != 0;
            failed |= uvcc_session_input(t.s[1], 0, IN_W, w, 0) != 0;
        }
        for (unsigned k = 0;
             !failed && k < 20000 && t.finished[0] + t.finished[1] + t.finished[2] < 3; k++) {
            failed |= triangle_drive(&t) <= 0;
            failed |= t.aborted[0] != 0 || t.aborted[1] != 0 || t.aborted[2] != 0;
        }
        bool hit = t.mem.fail_at == 0;
        t.mem.fail_at = 0;
        triangle_free(&t);
        if (!hit) /* the whole run needs fewer allocations */
            break;
    }
    uvcc_program_free(p);
}

/* ---- checkpoints and restart ---- */

enum { RESTART_ELEMS = 5, RESTART_STEPS = 3 };

/* W = W + X, opened. */
static uvcc_program *sum_program(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "x", (shape){1, RESTART_ELEMS}, 20, 10, UVCC_TRANSIENT);
    uint32_t w = tensor(p, "w", (shape){1, RESTART_ELEMS}, 30, 10, UVCC_PERSIST);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 0) >= 0);
    uvcc_op_desc d = {.opcode = UVCC_OP_ADD,
                      .phase = UVCC_UPD,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {w, x},
                      .out = {w}};
    assert_true(uvcc_program_op(p, &d) >= 0);
    assert_true(uvcc_program_output(p, 2, w) >= 0);
    finish(p);
    return p;
}

static uint32_t resume_run;
static void every_step(uvcc_config *c) {
    c->resume.checkpoint_every = 1;
    c->resume.next_run = resume_run;
}

static void sum_step(triangle *t, uint32_t step, uint32_t done) {
    int64_t x[RESTART_ELEMS];
    for (int64_t i = 0; i < RESTART_ELEMS; i++)
        x[i] = 100 * (step + 1) + i;
    triangle_agree(t, step, 0);
    triangle_input(t, 0, step, 1, x);
    triangle_finish(t, done);
    const int64_t *w = uvcc_session_output(t->s[1], step, 2);
    for (int64_t i = 0; i < RESTART_ELEMS; i++)
        assert_int_equal(w[i], 50 * (int64_t)(step + 1) * (step + 2) + (step + 1) * i);
}

/* What three checkpoints of one step say of the program's PERSIST tensor: shares of its value
 * there. */
static void checkpoint_reads(const uint8_t *const data[3], size_t len, uint32_t step,
                             uint32_t tensor) {
    uvcc_checkpoint_info info;
    uint64_t lo[3][RESTART_ELEMS], hi[3][RESTART_ELEMS];
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_checkpoint_read(data[i], len, &info), 0);
        assert_int_equal(info.party, i);
        assert_int_equal(info.step, step);
        assert_int_equal(info.tensors, 1);
        assert_int_equal(uvcc_checkpoint_tensor(data[i], len, tensor, lo[i], hi[i], RESTART_ELEMS),
                         0);
        assert_int_equal(
            uvcc_checkpoint_tensor(data[i], len, tensor, lo[i], hi[i], RESTART_ELEMS - 1),
            UVCC_ERR_MISMATCH);
        assert_int_equal(
            uvcc_checkpoint_tensor(data[i], len, tensor + 100, lo[i], hi[i], RESTART_ELEMS),
            UVCC_ERR_NOT_FOUND);
        assert_int_equal(uvcc_checkpoint_read(data[i], len - 1, &info), UVCC_ERR_AUTH);
        assert_int_equal(uvcc_checkpoint_read(data[i], 40, &info), UVCC_ERR_MISMATCH);
    }
    for (unsigned j = 0; j < RESTART_ELEMS; j++) {
        assert_int_equal(lo[0][j] + lo[1][j] + lo[2][j],
                         50 * (uint64_t)step * (step + 1) + step * j);
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(hi[i][j], lo[(i + 1) % 3][j]);
    }
}

static void test_restart(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = sum_program(&mem);
    struct {
        uint8_t *data;
        size_t len;
    } kept[3][RESTART_STEPS + 1] = {0};
    triangle t;
    resume_run = 0;
    triangle_open(&t, p, &(triangle_options){.seed = 21, .tweak = every_step});
    triangle_ready(&t);
    for (uint32_t step = 0; step < RESTART_STEPS; step++) {
        sum_step(&t, step, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            uint32_t at;
            const uint8_t *data;
            size_t len;
            while (uvcc_session_checkpoint(t.s[i], &at, &data, &len) != 0 || at != step + 1)
                assert_true(triangle_turn(&t));
            kept[i][at].data = malloc(len);
            kept[i][at].len = len;
            memcpy(kept[i][at].data, data, len);
        }
    }
    const uint8_t *third[3] = {kept[0][3].data, kept[1][3].data, kept[2][3].data};
    checkpoint_reads(third, kept[0][3].len, 3, 1 /* w */);
    triangle_free(&t); /* all three die without a word */

    /* Party 2 lost its last checkpoint: all resume after the minimum step, under a new run. */
    resume_run = 2;
    triangle_make(&t, p, &(triangle_options){.seed = 23, .tweak = every_step});
    uint8_t *bad = malloc(kept[0][3].len);
    memcpy(bad, kept[0][3].data, kept[0][3].len);
    bad[100] ^= 1;
    assert_int_equal(uvcc_session_resume(t.s[0], bad, kept[0][3].len), UVCC_ERR_AUTH);
    assert_int_equal(uvcc_session_resume(t.s[0], bad, 50), UVCC_ERR_MISMATCH);
    free(bad);
    assert_int_equal(uvcc_session_resume(t.s[0], kept[1][3].data, kept[1][3].len),
                     UVCC_ERR_MISMATCH);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 2; k <= 3 - i / 2; k++)
            assert_int_equal(uvcc_session_resume(t.s[i], kept[i][k].data, kept[i][k].len), 0);
    triangle_start(&t);
    triangle_ready(&t);
    assert_int_equal(uvcc_session_step(t.s[2], 3, 0, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_step(t.s[0], 2, 0, 0), UVCC_ERR_STATE);
    assert_non_null(strstr(uvcc_session_error_detail(t.s[0]), "before step 2"));
    assert_int_equal(uvcc_session_resume(t.s[0], kept[0][3].data, kept[0][3].len),
                     UVCC_ERR_MISMATCH);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(uvcc_session_resume(t.s[i], kept[i][2].data, kept[i][2].len), 0);
    sum_step(&t, 2, 1);
    sum_step(&t, 3, 2);
    uvcc_session_stats st;
    uvcc_session_get_stats(t.s[0], &st);
    assert_int_equal(st.run, 2);
    triangle_close(&t);
    triangle_free(&t);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k <= RESTART_STEPS; k++)
            free(kept[i][k].data);
    uvcc_program_free(p);
}

/* The checkpoints of step `step`, as soon as they are there. */
static void keep_all(triangle *t, uint32_t step, uint8_t *to[3], size_t *len) {
    for (unsigned i = 0; i < 3; i++) {
        uint32_t at;
        const uint8_t *data;
        while (uvcc_session_checkpoint(t->s[i], &at, &data, len) != 0 || at != step)
            assert_true(triangle_turn(t));
        to[i] = malloc(*len);
        memcpy(to[i], data, *len);
    }
}

/* Three runs' checkpoints of step 2, from a common one of step 1 (run 0) on, and of the beginning:
 * to[run][party]. */
static void two_histories(uvcc_program *p, uint8_t *to[3][3], uint8_t *first[3], size_t *len) {
    uint8_t *one[3];
    for (uint32_t run = 0; run < 3; run++) {
        triangle t;
        resume_run = run;
        triangle_make(&t, p, &(triangle_options){.seed = 31 + run, .tweak = every_step});
        for (unsigned i = 0; i < 3 && run != 0; i++)
            assert_int_equal(uvcc_session_resume(t.s[i], one[i], *len), 0);
        triangle_start(&t);
        triangle_ready(&t);
        if (run == 0) {
            triangle_agree(&t, 0, 0);
            keep_all(&t, 0, first, len);
            const int64_t x[RESTART_ELEMS] = {100, 101, 102, 103, 104};
            triangle_input(&t, 0, 0, 1, x);
            triangle_finish(&t, 1);
            keep_all(&t, 1, one, len);
        }
        sum_step(&t, 1, run == 0 ? 2 : 1);
        keep_all(&t, 2, to[run], len);
        triangle_free(&t);
    }
    for (unsigned i = 0; i < 3; i++)
        free(one[i]);
}

/* Whether the parties with these checkpoints go on, and before which step. */
static int go_on(uvcc_program *p, uint8_t *give[3][2], size_t len, uint32_t *step) {
    triangle t;
    resume_run = 9;
    triangle_make(&t, p, &(triangle_options){.seed = 77, .tweak = every_step});
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 2; k++)
            if (give[i][k] != NULL)
                assert_int_equal(uvcc_session_resume(t.s[i], give[i][k], len), 0);
    triangle_start(&t);
    unsigned ready = 0, lineage = 0;
    while (ready < 3 && lineage < 3) {
        assert_true(triangle_turn(&t));
        ready = lineage = 0;
        for (unsigned i = 0; i < 3; i++) {
            ready += t.ready[i];
            for (unsigned q = 0; q < 3; q++)
                lineage += t.mismatch[i][q] != NULL && strcmp(t.mismatch[i][q], "lineage") == 0;
        }
    }
    *step = t.s[0]->step;
    assert_true(ready == 0 || ready == 3);
    triangle_free(&t);
    return ready == 3;
}

/* Tensors of two histories never meet, though party, program and step are the same. */
static void test_mixed_histories(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = sum_program(&mem);
    uint8_t *kept[3][3], *first[3];
    size_t len;
    uint32_t step = 99;
    two_histories(p, kept, first, &len);
    for (unsigned odd = 0; odd < 3; odd++) {
        uint8_t *give[3][2] = {{0}};
        for (unsigned i = 0; i < 3; i++)
            give[i][0] = kept[i == odd ? 2 : 1][i];
        assert_int_equal(go_on(p, give, len, &step), 0);
        /* With the earlier one as well they agree on it. */
        for (unsigned i = 0; i < 3; i++)
            give[i][1] = first[i];
        assert_int_equal(go_on(p, give, len, &step), 1);
        assert_int_equal(step, 0);
        /* And on the history that all have. */
        give[odd][1] = kept[1][odd];
        assert_int_equal(go_on(p, give, len, &step), 1);
        assert_int_equal(step, 2);
        /* Who has nothing begins anew, and the others do not. */
        give[odd][0] = give[odd][1] = NULL;
        assert_int_equal(go_on(p, give, len, &step), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        free(first[i]);
        for (unsigned run = 0; run < 3; run++)
            free(kept[run][i]);
    }
    uvcc_program_free(p);
}

/* ---- equal op ids ---- */

enum { COLLIDING_STEP = 1292385, COLLIDING_OPS = 60 }; /* found by trying steps in order */

static void at_colliding_step(uvcc_config *c) {
    c->resume.next_step = COLLIDING_STEP;
}

/* Two of this step's op ids collide by themselves: one is salted again, at all three parties alike,
 * and the step runs. */
static void test_op_id_collision(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = tensor(p, "x", (shape){1, 4}, 10, 0, UVCC_TRANSIENT), last = x;
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 0) >= 0);
    for (unsigned i = 0; i < COLLIDING_OPS; i++) {
        char name[16];
        snprintf(name, sizeof name, "y%u", i);
        uint32_t y = tensor(p, name, (shape){1, 4}, 17, 0, UVCC_TRANSIENT);
        uvcc_op_desc d = {.opcode = i % 10 == 9 ? UVCC_OP_ADD : UVCC_OP_SUB,
                          .k = (uint16_t)i,
                          .in_count = 2,
                          .out_count = 1,
                          .in = {last, x},
                          .out = {y}};
        if (i % 10 == 0) { /* some that talk */
            d.opcode = UVCC_OP_ELEM_MUL;
            d.flags = product_flags;
            d.in[0] = d.in[1] = x;
        }
        assert_true(uvcc_program_op(p, &d) >= 0);
        last = i % 10 == 0 ? x : y;
    }
    assert_true(uvcc_program_output(p, 2, last) >= 0);
    char why[256];
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 31, .tweak = at_colliding_step});
    triangle_ready(&t);
    int64_t v[4] = {1, -2, 3, -4};
    triangle_agree(&t, COLLIDING_STEP, 0);
    unsigned salted = 0;
    const uvcci_optable *table = &t.s[0]->ctx[COLLIDING_STEP & 1].table;
    for (uint32_t i = 0; i < table->count; i++)
        salted += table->rows[i].attempt != 0;
    assert_int_equal(salted, 1);
    triangle_input(&t, 0, COLLIDING_STEP, 1, v);
    triangle_finish(&t, 1);
    const int64_t *out = uvcc_session_output(t.s[2], COLLIDING_STEP, 2);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(out[i], -6 * v[i]); /* x - x - ... (8 times) + x */
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* ---- only jobs touch tensors ---- */

/* TENSOR memory from a region that is closed whenever no job runs. */
static struct {
    uint8_t *base;
    size_t used;
    uvcc_allocator other;
} region;
enum { REGION_BYTES = 64 << 20 };

static void *region_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    if (cls != UVCC_MEM_TENSOR)
        return region.other.alloc(region.other.user, bytes, cls);
    void *p = region.base + region.used;
    region.used += (bytes + 63) & ~(size_t)63;
    return region.used <= REGION_BYTES ? p : NULL;
}
static void region_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    if (cls != UVCC_MEM_TENSOR)
        region.other.free(region.other.user, p, bytes, cls);
}
static void in_region(uvcc_config *c) {
    region.other = c->alloc;
    c->alloc = (uvcc_allocator){.alloc = region_alloc, .free = region_free};
    c->resume.checkpoint_every = 1;
}

static void open_region(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    (void)user;
    (void)party;
    (void)job;
    (void)task;
    assert_int_equal(mprotect(region.base, REGION_BYTES, done ? PROT_NONE : PROT_READ | PROT_WRITE),
                     0);
}

static void test_only_jobs_touch_tensors(void **state) {
    (void)state;
    region.base = mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region.base != MAP_FAILED);
    region.used = 0;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, 6, 5, 4, UVCC_TRUNC_EXACT, 0);
    triangle t;
    triangle_open(
        &t, p,
        &(triangle_options){.seed = 41, .tweak = in_region, .wired = true, .on_task = open_region});
    triangle_settle(&t);
    int64_t x[30], w[20];
    random_values(1, x, 30, 18);
    random_values(2, w, 20, 18);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, IN_X, x);
    triangle_input(&t, 1, 0, IN_W, w);
    triangle_settle(&t);
    assert_int_equal(t.finished[0] + t.finished[1] + t.finished[2], 3);
    int64_t sum = 0;
    for (unsigned k = 0; k < 5; k++)
        sum += x[k] * w[k * 4];
    assert_int_equal(uvcc_session_output(t.s[2], 0, OUT_Z)[0], sum >> 12);
    triangle_free(&t);
    uvcc_program_free(p);
    munmap(region.base, REGION_BYTES);
}

/* A host's clock may begin beyond the end of time: it stands still there. */
static void test_clock_begins_late(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t rnd = 3;
    uvcc_config c = triangle_config_alone(&mem, &rnd);
    uvcc_program *p = sum_program(&mem);
    uvcc_session *s;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    assert_int_equal(uvcc_session_load_program(s, p), 0);
    assert_int_equal(uvcc_session_start(s, UVCC_NEVER - 1), 0);
    assert_int_equal(uvcc_session_on_timer(s, UVCC_NEVER - 1), 0);
    assert_int_equal(uvcc_session_on_timer(s, 5), 0);
    uvcc_session_free(s);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A clock that steps back an hour must not keep timers waiting for an hour. */
static void test_clock_steps_back(void **state) {
    (void)state;
    const uint64_t hour = 3600ull * 1000000000u, keepalive = 10ull * 1000000000u;
    test_alloc mem = {0};
    uvcc_program *p = relu_program(&mem, 2, 2, 2, 0, 0);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 51, .datagram = true});
    triangle_ready(&t);
    uint64_t now = uvcc_loopback_now(t.net) + 2 * hour;
    uvcc_transmit tx;
    for (unsigned back = 0; back < 3; back++, now -= hour / 2) {
        assert_int_equal(uvcc_session_on_timer(t.s[0], now), 0);
        while (uvcc_session_poll_transmit(t.s[0], &tx, now) == 1)
            assert_int_equal(uvcc_session_transmit_done(t.s[0], tx.peer, tx.id, tx.total, now), 0);
        uint64_t at = uvcc_session_next_deadline(t.s[0]);
        assert_true(at > now && at <= now + keepalive);
    }
    triangle_free(&t);
    uvcc_program_free(p);
}

static int native(void **state) {
    (void)state;
    product_flags = 0;
    return 0;
}
static int on_triples(void **state) {
    (void)state;
    product_flags = UVCC_OP_BEAVER;
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product_and_relu),
        cmocka_unit_test(test_same_roots_everywhere),
        cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_sums_cost_one_product),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_wrong_peers),
        cmocka_unit_test(test_step_disagreement),
        cmocka_unit_test(test_inputs_refused),
        cmocka_unit_test(test_capacity_refused),
        cmocka_unit_test(test_config_versions),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_mixed_histories),
        cmocka_unit_test(test_op_id_collision),
        cmocka_unit_test(test_only_jobs_touch_tensors),
        cmocka_unit_test(test_clock_steps_back),
        cmocka_unit_test(test_clock_begins_late),
        cmocka_unit_test(test_empty_program),
    };
    int failed = cmocka_run_group_tests_name("native", tests, native, NULL);
    failed += cmocka_run_group_tests_name("on triples", tests, on_triples, NULL);
    return failed;
}
