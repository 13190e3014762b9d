/* SPDX-License-Identifier: Apache-2.0 */
/* The plaintext twin: every op against slow formulas, bounds, and what persists between steps. */
#include "support.h"

#include <uvcc/program.h>

static int64_t slow_floor(int64_t v, unsigned shift) { /* floor(v / 2^shift) without >> */
    const int64_t d = (int64_t)1 << shift;
    int64_t q = v / d;
    return v % d < 0 ? q - 1 : q;
}

/* A program of one op: inputs are the op's inputs, given by id = index. */
typedef struct one {
    test_alloc counts;
    uvcc_program *p;
    uvcc_reference *r;
    char message[256];
} one;

static uint32_t add(one *o, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                    uint8_t scale) {
    return test_tensor(o->p, name, rows, cols, bits, scale, UVCC_TRANSIENT);
}

static void open_one(one *o) {
    memset(o, 0, sizeof *o);
    const uvcc_allocator al = test_allocator(&o->counts);
    assert_int_equal(uvcc_program_new(&o->p, &al), 0);
}

static void start(one *o, const uvcc_op_desc *d) {
    assert_int_equal(uvcc_program_entry(o->p, "one"), 0);
    for (uint8_t i = 0; i < d->in_count; i++)
        if (i == 0 || d->in[i] != d->in[0])
            assert_true(uvcc_program_input(o->p, i, d->in[i], 0) >= 0);
    assert_true(uvcc_program_op(o->p, d) >= 0);
    assert_true(uvcc_program_output(o->p, 1, d->out[0]) >= 0);
    if (uvcc_program_finish(o->p, o->message, sizeof o->message) != 0)
        fail_msg("%s", o->message);
    const uvcc_allocator al = test_allocator(&o->counts);
    assert_int_equal(uvcc_reference_new(&o->r, o->p, &al), 0);
}

static int step(one *o) {
    return uvcc_reference_step(o->r, 0, o->message, sizeof o->message);
}

static void run(one *o) {
    if (step(o) != 0)
        fail_msg("%s", o->message);
    assert_string_equal(o->message, "");
}

static void close_one(one *o) {
    uvcc_reference_free(o->r);
    uvcc_program_free(o->p);
    assert_int_equal(o->counts.live_blocks, 0);
}

/* Into (-2^bits, 2^bits). */
static void fill(uint64_t *seed, int64_t *v, size_t n, unsigned bits) {
    const int64_t limit = (int64_t)1 << bits;
    for (size_t i = 0; i < n; i++) {
        v[i] = (int64_t)(test_rand(seed) >> (63 - bits)) - limit;
        if (v[i] == -limit)
            v[i] = 0;
    }
}

static void set(one *o, uint32_t t, const int64_t *v) {
    assert_int_equal(uvcc_reference_set(o->r, t, v), 0);
}

/* ---- products ---- */

/* All transposes, sizes beyond a panel of the blocked loop, truncated and whole. */
static void test_gemm(void **state) {
    (void)state;
    static const uint32_t sizes[][3] = {{1, 1, 1}, {3, 5, 2}, {17, 300, 70}, {64, 16, 129}};
    uint64_t seed = 1;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (uint8_t flags = 0; flags < 4; flags++)
            for (uint8_t shift = 0; shift <= 16; shift += 16) {
                const uint32_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                const bool ta = flags & UVCC_OP_TRANS_A, tb = flags & UVCC_OP_TRANS_B;
                one o;
                open_one(&o);
                const uint32_t a = add(&o, "A", ta ? k : m, ta ? m : k, 24, 16);
                const uint32_t b = add(&o, "B", tb ? n : k, tb ? k : n, 24, 16);
                const uint32_t c = add(&o, "C", m, n, 60, (uint8_t)(32 - shift));
                start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                          .in_count = 2,
                                          .in = {a, b},
                                          .out_count = 1,
                                          .out = {c},
                                          .flags = flags,
                                          .shift = shift});
                int64_t *x = malloc(((size_t)m * k + (size_t)k * n) * 8), *y = x + (size_t)m * k;
                fill(&seed, x, (size_t)m * k, 24);
                fill(&seed, y, (size_t)k * n, 24);
                set(&o, a, x);
                set(&o, b, y);
                run(&o);
                const int64_t *z = uvcc_reference_get(o.r, c);
                for (uint32_t i = 0; i < m; i++)
                    for (uint32_t j = 0; j < n; j++) {
                        int64_t sum = 0;
                        for (uint32_t l = 0; l < k; l++)
                            sum += x[ta ? l * m + i : i * k + l] * y[tb ? j * k + l : l * n + j];
                        assert_int_equal(z[i * n + j], slow_floor(sum, shift));
                    }
                free(x);
                close_one(&o);
            }
}

/* A A^T of one tensor: both factors are packed out of the same memory. */
static void test_gemm_square(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 2, 3, 10, 4), c = add(&o, "C", 2, 2, 20, 4);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                              .in_count = 2,
                              .in = {a, a},
                              .out_count = 1,
                              .out = {c},
                              .flags = UVCC_OP_TRANS_B,
                              .shift = 4});
    set(&o, a, (const int64_t[]){16, 32, -16, 1, 0, -8});
    run(&o);
    const int64_t *z = uvcc_reference_get(o.r, c);
    const int64_t want[] = {96, 9, 9, 4};
    assert_memory_equal(z, want, sizeof want);
    close_one(&o);
}

/* ---- blocks and sums of products ---- */

enum { GROUPS = 2, HEADS = 3, M = 4, N = 5, K = 2, BLOCK_MAX = GROUPS * HEADS * 5 * 5 };

/* Element (i, j) of block (g, h) of an operand whose blocks are rows x cols. */
static size_t in_block(bool stacked, uint32_t rows, uint32_t cols, uint32_t g, uint32_t h,
                       uint32_t i, uint32_t j) {
    return stacked ? ((size_t)(g * HEADS + h) * rows + i) * cols + j
                   : ((size_t)g * rows + i) * HEADS * cols + (size_t)h * cols + j;
}

static uint32_t add_blocks(one *o, const char *name, bool stacked, uint32_t rows, uint32_t cols,
                           uint8_t bits, uint8_t sharing) {
    int t =
        uvcc_program_tensor(o->p, &(uvcc_tensor_desc){.name = name,
                                                      .rows = GROUPS * rows * (stacked ? HEADS : 1),
                                                      .cols = cols * (stacked ? 1 : HEADS),
                                                      .bits = bits,
                                                      .lifetime = UVCC_TRANSIENT,
                                                      .in_buffer_of = UVCC_NO_TENSOR,
                                                      .sharing = sharing});
    assert_true(t >= 0);
    return (uint32_t)t;
}

/* All layouts and transposes, as GEMM_SS and as the sum of two GEMM_PARTs that is reshared. */
static void test_heads(void **state) {
    (void)state;
    uint64_t seed = 8;
    for (uint8_t flags = 0; flags < 32; flags++) {
        const bool ta = flags & 1, tb = flags & 2;
        const bool sa = flags & 4, sb = flags & 8, sc = flags & 16;
        const uint32_t ar = ta ? K : M, ac = ta ? M : K, br = tb ? N : K, bc = tb ? K : N;
        one o;
        open_one(&o);
        const uint32_t a = add_blocks(&o, "A", sa, ar, ac, 20, UVCC_REPLICATED);
        const uint32_t b = add_blocks(&o, "B", sb, br, bc, 20, UVCC_REPLICATED);
        const uint32_t c = add_blocks(&o, "C", sc, M, N, 50, UVCC_REPLICATED);
        const uint32_t part = add_blocks(&o, "part", sc, M, N, 42, UVCC_ADDITIVE);
        const uint32_t sum = add_blocks(&o, "sum", sc, M, N, 50, UVCC_REPLICATED);
        assert_int_equal(uvcc_program_entry(o.p, "one"), 0);
        assert_true(uvcc_program_input(o.p, 0, a, 0) >= 0);
        assert_true(uvcc_program_input(o.p, 1, b, 0) >= 0);
        uvcc_op_desc d = {.opcode = UVCC_OP_GEMM_SS,
                          .in_count = 2,
                          .in = {a, b},
                          .out_count = 1,
                          .out = {c},
                          .flags = (uint8_t)((flags & 3) | (flags >> 2) * UVCC_OP_STACKED_A),
                          .heads = HEADS,
                          .row_groups = GROUPS};
        assert_true(uvcc_program_op(o.p, &d) >= 0);
        d.opcode = UVCC_OP_GEMM_PART;
        d.out[0] = d.in[2] = part;
        for (d.k = 1; d.k < 3; d.k++, d.in_count = 3)
            assert_true(uvcc_program_op(o.p, &d) >= 0);
        d = (uvcc_op_desc){.opcode = UVCC_OP_RESHARE,
                           .k = 3,
                           .in_count = 1,
                           .in = {part},
                           .out_count = 1,
                           .out = {sum}};
        assert_true(uvcc_program_op(o.p, &d) >= 0);
        if (uvcc_program_finish(o.p, o.message, sizeof o.message) != 0)
            fail_msg("%s", o.message);
        const uvcc_allocator al = test_allocator(&o.counts);
        assert_int_equal(uvcc_reference_new(&o.r, o.p, &al), 0);
        int64_t x[BLOCK_MAX], y[BLOCK_MAX];
        fill(&seed, x, BLOCK_MAX, 20);
        fill(&seed, y, BLOCK_MAX, 20);
        set(&o, a, x);
        set(&o, b, y);
        run(&o);
        run(&o); /* sums start anew in each step */
        for (uint32_t e = 0; e < GROUPS * HEADS * M * N; e++) {
            const uint32_t g = e / (HEADS * M * N), h = e / (M * N) % HEADS;
            const uint32_t i = e / N % M, j = e % N;
            int64_t want = 0;
            for (uint32_t l = 0; l < K; l++)
                want += x[in_block(sa, ar, ac, g, h, ta ? l : i, ta ? i : l)] *
                        y[in_block(sb, br, bc, g, h, tb ? j : l, tb ? l : j)];
            const size_t at = in_block(sc, M, N, g, h, i, j);
            assert_int_equal(uvcc_reference_get(o.r, c)[at], want);
            assert_int_equal(uvcc_reference_get(o.r, part)[at], 2 * want);
            assert_int_equal(uvcc_reference_get(o.r, sum)[at], 2 * want);
        }
        close_one(&o);
    }
}

/* ---- element by element ---- */

static void elementwise(uvcc_opcode code, uint8_t shift, uint8_t scale_out, const int64_t *want) {
    static const int64_t x[] = {100, -100, 7, -7, 0, 1}, y[] = {3, 3, -2, -2, 5, -1};
    const bool unary = code == UVCC_OP_TRUNCATE || code == UVCC_OP_SHIFT_LEFT;
    const bool row = code == UVCC_OP_BIAS_ADD;
    for (int in_place = 0; in_place < 2; in_place++) {
        one o;
        open_one(&o);
        const uint32_t a = add(&o, "A", 2, 3, 20, 8), b = add(&o, "B", row ? 1 : 2, 3, 20, 8);
        const uint32_t c = in_place && scale_out == 8 ? a : add(&o, "C", 2, 3, 40, scale_out);
        start(&o, &(uvcc_op_desc){.opcode = (uint16_t)code,
                                  .in_count = unary ? 1 : 2,
                                  .in = {a, b},
                                  .out_count = 1,
                                  .out = {c},
                                  .shift = shift});
        set(&o, a, x);
        set(&o, b, y);
        run(&o);
        assert_memory_equal(uvcc_reference_get(o.r, c), want, sizeof x);
        close_one(&o);
    }
}

static void test_elements(void **state) {
    (void)state;
    elementwise(UVCC_OP_ADD, 0, 8, (const int64_t[]){103, -97, 5, -9, 5, 0});
    elementwise(UVCC_OP_SUB, 0, 8, (const int64_t[]){97, -103, 9, -5, -5, 2});
    elementwise(UVCC_OP_BIAS_ADD, 0, 8, (const int64_t[]){103, -97, 5, -4, 3, -1});
    elementwise(UVCC_OP_ELEM_MUL, 0, 16, (const int64_t[]){300, -300, -14, 14, 0, -1});
    elementwise(UVCC_OP_ELEM_MUL, 8, 8, (const int64_t[]){1, -2, -1, 0, 0, -1});
    elementwise(UVCC_OP_TRUNCATE, 3, 5, (const int64_t[]){12, -13, 0, -1, 0, 0});
    elementwise(UVCC_OP_SHIFT_LEFT, 3, 11, (const int64_t[]){800, -800, 56, -56, 0, 8});
    elementwise(UVCC_OP_SHIFT_LEFT, 0, 8, (const int64_t[]){100, -100, 7, -7, 0, 1});
}

/* A is 4 x 2, 20 bits at scale 8; B is `rows` x `cols` at scale 8 or absent (rows 0). */
static void rowwise(uvcc_opcode code, uint32_t rows, uint32_t cols, uint8_t shift, int64_t constant,
                    uint8_t scale_out, const int64_t *want) {
    static const int64_t x[] = {100, -100, 7, -7, 0, 1, 30, 20};
    static const int64_t y[] = {3, -2, 5, -1, 2, 4, 6, -8};
    const bool narrow = code == UVCC_OP_ROW_SUM || code == UVCC_OP_ROW_DOT;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 4, 2, 20, 8),
                   b = rows != 0 ? add(&o, "B", rows, cols, 20, 8) : UVCC_NO_TENSOR,
                   c = add(&o, "C", 4, narrow ? 1 : 2, 40, scale_out);
    start(&o, &(uvcc_op_desc){.opcode = (uint16_t)code,
                              .in_count = rows != 0 ? 2 : 1,
                              .in = {a, b},
                              .out_count = 1,
                              .out = {c},
                              .shift = shift,
                              .constant = constant});
    set(&o, a, x);
    if (rows != 0)
        set(&o, b, y);
    run(&o);
    assert_memory_equal(uvcc_reference_get(o.r, c), want, narrow ? 32 : 64);
    close_one(&o);
}

static void test_rows(void **state) {
    (void)state;
    rowwise(UVCC_OP_ROW_SUM, 0, 0, 0, 0, 8, (const int64_t[]){0, 0, 1, 50});
    rowwise(UVCC_OP_ROW_ADD, 4, 1, 0, 0, 8, (const int64_t[]){103, -97, 5, -9, 5, 6, 29, 19});
    rowwise(UVCC_OP_ROW_SUB, 4, 1, 0, 0, 8, (const int64_t[]){97, -103, 9, -5, -5, -4, 31, 21});
    rowwise(UVCC_OP_ROW_RSUB, 4, 1, 0, 0, 8, (const int64_t[]){-97, 103, -9, 5, 5, 4, -31, -21});
    rowwise(UVCC_OP_ROW_MUL, 4, 1, 0, 0, 16, (const int64_t[]){300, -300, -14, 14, 0, 5, -30, -20});
    rowwise(UVCC_OP_ROW_MUL, 4, 1, 2, 0, 14, (const int64_t[]){75, -75, -4, 3, 0, 1, -8, -5});
    rowwise(UVCC_OP_COL_MUL, 1, 2, 0, 0, 16, (const int64_t[]){300, 200, 21, 14, 0, -2, 90, -40});
    rowwise(UVCC_OP_COL_MUL, 1, 2, 3, 0, 13, (const int64_t[]){37, 25, 2, 1, 0, -1, 11, -5});
    rowwise(UVCC_OP_COL_MUL, 1, 1, 0, 0, 16, (const int64_t[]){300, -300, 21, -21, 0, 3, 90, 60});
    /* two rows in turn */
    rowwise(UVCC_OP_BIAS_ADD, 2, 2, 0, 0, 8, (const int64_t[]){103, -102, 12, -8, 3, -1, 35, 19});
    /* dots of the rows: 500, 42, 4, 20 */
    rowwise(UVCC_OP_ROW_DOT, 4, 2, 0, 1, 16, (const int64_t[]){500, 42, 4, 20});
    rowwise(UVCC_OP_ROW_DOT, 4, 2, 4, -3, 12, (const int64_t[]){-94, -8, -1, -4});
    rowwise(UVCC_OP_ROW_DOT, 4, 2, 4, -3, 14, (const int64_t[]){-94, -8, -1, -4}); /* -3/4 */
    rowwise(UVCC_OP_SCALE_PUBLIC, 0, 0, 0, -3, 8,
            (const int64_t[]){-300, 300, -21, 21, 0, -3, -90, -60});
    rowwise(UVCC_OP_SCALE_PUBLIC, 0, 0, 2, -3, 10, /* -3/4 */
            (const int64_t[]){-300, 300, -21, 21, 0, -3, -90, -60});
    rowwise(UVCC_OP_ADD_PUBLIC, 0, 0, 0, -3, 8,
            (const int64_t[]){97, -103, 4, -10, -3, -2, 27, 17});
    rowwise(UVCC_OP_CAUSAL_MASK, 0, 0, 0, -9, 8, (const int64_t[]){100, -9, 7, -7, 0, -9, 30, 20});
}

/* Additive, rows x cols. */
static uint32_t add_part(one *o, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                         uint8_t scale) {
    const int t = uvcc_program_tensor(o->p, &(uvcc_tensor_desc){.name = name,
                                                                .rows = rows,
                                                                .cols = cols,
                                                                .bits = bits,
                                                                .scale = scale,
                                                                .lifetime = UVCC_TRANSIENT,
                                                                .in_buffer_of = UVCC_NO_TENSOR,
                                                                .sharing = UVCC_ADDITIVE});
    assert_true(t >= 0);
    return (uint32_t)t;
}

/* parts[0] = x y, parts[1] sums of its rows' blocks, parts[2] of its columns. */
static void start_parts(one *o, uint32_t x, uint32_t y, const uint32_t parts[3], uint8_t flags) {
    static const uint16_t ops[] = {UVCC_OP_MUL_PART, UVCC_OP_ROW_SUM, UVCC_OP_REDUCE_BIAS_GRAD};
    const uvcc_allocator al = test_allocator(&o->counts);
    assert_int_equal(uvcc_program_entry(o->p, "parts"), 0);
    for (unsigned k = 0; k < 3; k++)
        assert_true(
            uvcc_program_op(o->p, &(uvcc_op_desc){.opcode = ops[k],
                                                  .k = (uint16_t)k,
                                                  .in_count = k == 0 ? 2 : 1,
                                                  .in = {k == 0 ? x : parts[0], k == 0 ? y : 0},
                                                  .out_count = 1,
                                                  .out = {parts[k]},
                                                  .flags = flags}) >= 0);
    if (uvcc_program_finish(o->p, o->message, sizeof o->message) != 0)
        fail_msg("%s", o->message);
    assert_int_equal(uvcc_reference_new(&o->r, o->p, &al), 0);
}

/* Over 2 x 4, y of x's shape, a column, a row and one value; blocks of two columns. */
static void test_parts(void **state) {
    (void)state;
    static const int64_t x[] = {1, 2, 3, 4, -5, -6, 7, 8}, y[] = {2, -3, 5, 7, 1, 1, -1, 2};
    static const struct {
        uint32_t rows, cols;
        int64_t product[8], blocks[4], column[4];
    } rows[] = {
        {2, 4, {2, -6, 15, 28, -5, -6, -7, 16}, {-4, 43, -11, 9}, {-3, -12, 8, 44}},
        {2, 1, {2, 4, 6, 8, 15, 18, -21, -24}, {6, 14, 33, -45}, {17, 22, -15, -16}},
        {1, 4, {2, -6, 15, 28, -10, 18, 35, 56}, {-4, 43, 8, 91}, {-8, 12, 50, 84}},
        {1, 1, {2, 4, 6, 8, -10, -12, 14, 16}, {6, 14, -22, 30}, {-8, -8, 20, 24}},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        one o;
        open_one(&o);
        const uint32_t a = test_tensor(o.p, "A", 2, 4, 20, 8, UVCC_PERSIST),
                       b = test_tensor(o.p, "B", rows[i].rows, rows[i].cols, 20, 4, UVCC_PERSIST);
        const uint32_t z[] = {add_part(&o, "Z", 2, 4, 40, 12), add_part(&o, "BLOCKS", 2, 2, 41, 12),
                              add_part(&o, "COLS", 1, 4, 41, 12)};
        start_parts(&o, a, b, z, 0);
        set(&o, a, x);
        set(&o, b, y);
        run(&o);
        assert_memory_equal(uvcc_reference_get(o.r, z[0]), rows[i].product, sizeof rows[i].product);
        assert_memory_equal(uvcc_reference_get(o.r, z[1]), rows[i].blocks, sizeof rows[i].blocks);
        assert_memory_equal(uvcc_reference_get(o.r, z[2]), rows[i].column, sizeof rows[i].column);
        close_one(&o);
    }
}

/* Squares of more bits than their author said, and sums, also one that would be 0 mod 2^64. */
static void test_parts_within(void **state) {
    (void)state;
    static const struct {
        uint32_t cols;
        uint8_t bits, sum_bits;
        const char *message;
    } rows[] = {
        {4, 60, 62, "MUL_PART, FWD k 0): element 0 of Z is 1152921504606846976, outside its 60"},
        {4, 61, 62, "ROW_SUM, FWD k 1): element 0 of SUM is 4611686018427387904, outside its 62"},
        {16, 62, 61, "ROW_SUM, FWD k 1): element 0 of SUM is 9223372036854775807, outside its 61"},
    };
    int64_t x[16];
    for (unsigned i = 0; i < 16; i++)
        x[i] = 1ll << 30;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        one o;
        open_one(&o);
        const uint32_t cols = rows[i].cols, a = test_tensor(o.p, "A", 1, cols, 32, 0, UVCC_PERSIST);
        const uint32_t z[] = {add_part(&o, "Z", 1, cols, rows[i].bits, 0),
                              add_part(&o, "SUM", 1, 1, rows[i].sum_bits, 0),
                              add_part(&o, "COLS", 1, cols, 62, 0)};
        start_parts(&o, a, a, z, UVCC_OP_WITHIN);
        set(&o, a, x);
        assert_int_equal(step(&o), UVCC_ERR_BOUND);
        if (strstr(o.message, rows[i].message) == NULL)
            fail_msg("%s", o.message);
        close_one(&o);
    }
}

/* One op on two groups of three rows of two columns: y, and perhaps x. */
static void check_groups(uint16_t opcode, unsigned y_rows, const int64_t *y, const int64_t *x,
                         int64_t constant, unsigned z_rows, const int64_t *want) {
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", y_rows, 2, 20, 8), c = add(&o, "C", z_rows, 2, 20, 8);
    const uint32_t b = x != NULL ? add(&o, "B", 6, 2, 20, 8) : UVCC_NO_TENSOR;
    start(&o, &(uvcc_op_desc){.opcode = opcode,
                              .in_count = x != NULL ? 2 : 1,
                              .in = {a, b},
                              .out_count = 1,
                              .out = {c},
                              .constant = constant,
                              .heads = 2,
                              .row_groups = 1});
    set(&o, a, y);
    if (x != NULL)
        set(&o, b, x);
    run(&o);
    assert_memory_equal(uvcc_reference_get(o.r, c), want, z_rows * 2 * sizeof *want);
    close_one(&o);
}

/* Rows 1 and 2 of each of two groups of three. */
static void test_groups_of_rows(void **state) {
    (void)state;
    static const int64_t x[] = {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6};
    static const int64_t y[] = {10, 20, 30, 40, 50, 60, 70, 80};
    check_groups(UVCC_OP_SLICE_ROWS, 6, x, NULL, 1, 4,
                 (const int64_t[]){3, 4, 5, 6, -3, -4, -5, -6});
    check_groups(UVCC_OP_SLICE_ROWS, 6, x, NULL, 0, 2, (const int64_t[]){1, 2, -1, -2});
    check_groups(UVCC_OP_PUT_ROWS, 4, y, NULL, 1, 6,
                 (const int64_t[]){0, 0, 10, 20, 30, 40, 0, 0, 50, 60, 70, 80});
    check_groups(UVCC_OP_PUT_ROWS, 4, y, x, 0, 6,
                 (const int64_t[]){10, 20, 30, 40, 5, 6, 50, 60, 70, 80, -5, -6});
    check_groups(UVCC_OP_ADD_ROWS, 4, y, x, 1, 6,
                 (const int64_t[]){1, 2, 13, 24, 35, 46, -1, -2, 47, 56, 65, 74});
}

/* Each group is the last rows of a square: two rows of three columns. */
static void test_mask_of_groups(void **state) {
    (void)state;
    static const int64_t x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const int64_t want[] = {1, 2, -9, 4, 5, 6, 7, 8, -9, 10, 11, 12};
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 4, 3, 20, 8), c = add(&o, "C", 4, 3, 20, 8);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_CAUSAL_MASK,
                              .in_count = 1,
                              .in = {a},
                              .out_count = 1,
                              .out = {c},
                              .constant = -9,
                              .heads = 1,
                              .row_groups = 2});
    set(&o, a, x);
    run(&o);
    assert_memory_equal(uvcc_reference_get(o.r, c), want, sizeof want);
    close_one(&o);
}

/* Two blocks of two columns, each twice; and one block of four, twice. */
static void test_repeat_cols(void **state) {
    (void)state;
    static const int64_t x[] = {1, 2, 3, 4, -5, -6, 7, 8};
    static const int64_t want[2][16] = {{1, 2, 1, 2, 3, 4, 3, 4, -5, -6, -5, -6, 7, 8, 7, 8},
                                        {1, 2, 3, 4, 1, 2, 3, 4, -5, -6, 7, 8, -5, -6, 7, 8}};
    for (unsigned i = 0; i < 2; i++) {
        one o;
        open_one(&o);
        const uint32_t a = add(&o, "A", 2, 4, 20, 8), c = add(&o, "C", 2, 8, 20, 8);
        start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_REPEAT_COLS,
                                  .in_count = 1,
                                  .in = {a},
                                  .out_count = 1,
                                  .out = {c},
                                  .constant = i == 0 ? 2 : 4});
        set(&o, a, x);
        run(&o);
        assert_memory_equal(uvcc_reference_get(o.r, c), want[i], sizeof want[i]);
        close_one(&o);
    }
}

/* A step of 2^-s: B's integer is taken from A's, whose scale is finer by s. */
static void test_sub_with_shift(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 1, 20, 11), b = add(&o, "B", 1, 1, 20, 8);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_SUB,
                              .in_count = 2,
                              .in = {a, b},
                              .out_count = 1,
                              .out = {a},
                              .shift = 3});
    set(&o, a, (const int64_t[]){2048}); /* 1 */
    set(&o, b, (const int64_t[]){256});  /* 1 */
    run(&o);
    assert_int_equal(*uvcc_reference_get(o.r, a), 2048 - 256); /* 1 - 1/8 */
    close_one(&o);
}

static void test_reduce(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 3, 2, 20, 8), c = add(&o, "C", 1, 2, 22, 8);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_REDUCE_BIAS_GRAD,
                              .in_count = 1,
                              .in = {a},
                              .out_count = 1,
                              .out = {c}});
    set(&o, a, (const int64_t[]){1, 20, -3, 40, 5, -100});
    run(&o);
    run(&o); /* sums do not pile up from step to step */
    assert_int_equal(uvcc_reference_get(o.r, c)[0], 3);
    assert_int_equal(uvcc_reference_get(o.r, c)[1], -40);
    close_one(&o);
    open_one(&o); /* to two rows: of even and of odd rows */
    const uint32_t tall = add(&o, "A", 4, 1, 20, 8), two = add(&o, "C", 2, 1, 22, 8);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_REDUCE_BIAS_GRAD,
                              .in_count = 1,
                              .in = {tall},
                              .out_count = 1,
                              .out = {two}});
    set(&o, tall, (const int64_t[]){1, 20, -3, 400});
    run(&o);
    assert_int_equal(uvcc_reference_get(o.r, two)[0], -2);
    assert_int_equal(uvcc_reference_get(o.r, two)[1], 420);
    close_one(&o);
}

static void test_relu(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 5, 20, 8), y = add(&o, "Y", 1, 5, 20, 8),
                   d = add(&o, "D", 1, 5, 1, 0);
    start(&o, &(uvcc_op_desc){
                  .opcode = UVCC_OP_RELU, .in_count = 1, .in = {a}, .out_count = 2, .out = {y, d}});
    const int64_t x[] = {0, 1, -1, (1 << 20) - 1, -(1 << 20) + 1};
    const int64_t want[] = {0, 1, 0, (1 << 20) - 1, 0}, want_d[] = {1, 1, 0, 1, 0};
    set(&o, a, x);
    run(&o);
    assert_memory_equal(uvcc_reference_get(o.r, y), want, sizeof want);
    assert_memory_equal(uvcc_reference_get(o.r, d), want_d, sizeof want_d);
    close_one(&o);
}

/* ---- bounds and errors ---- */

static void test_set(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 2, 4, 0), b = add(&o, "B", 1, 2, 63, 0),
                   c = add(&o, "C", 1, 2, 4, 0);
    start(&o,
          &(uvcc_op_desc){
              .opcode = UVCC_OP_SHIFT_LEFT, .in_count = 1, .in = {a}, .out_count = 1, .out = {c}});
    assert_int_equal(uvcc_reference_set(o.r, a, (const int64_t[]){15, -15}), 0);
    assert_int_equal(uvcc_reference_set(o.r, a, (const int64_t[]){0, 16}), UVCC_ERR_BOUND);
    assert_int_equal(uvcc_reference_set(o.r, a, (const int64_t[]){-16, 0}), UVCC_ERR_BOUND);
    assert_int_equal(uvcc_reference_get(o.r, a)[0], 15); /* unchanged */
    assert_int_equal(uvcc_reference_set(o.r, b, (const int64_t[]){INT64_MAX, -INT64_MAX}), 0);
    assert_int_equal(uvcc_reference_set(o.r, b, (const int64_t[]){INT64_MIN, 0}), UVCC_ERR_BOUND);
    assert_int_equal(uvcc_reference_set(o.r, 3, (const int64_t[]){0, 0}), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_reference_set(o.r, a, NULL), UVCC_ERR_USAGE);
    assert_null(uvcc_reference_get(o.r, 3));
    assert_int_equal(uvcc_reference_step(o.r, 1, o.message, sizeof o.message), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_reference_step(NULL, 0, NULL, 0), UVCC_ERR_USAGE);
    close_one(&o);
}

static void test_unset_input(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 1, 4, 0), c = add(&o, "C", 1, 1, 4, 0);
    start(&o,
          &(uvcc_op_desc){
              .opcode = UVCC_OP_SHIFT_LEFT, .in_count = 1, .in = {a}, .out_count = 1, .out = {c}});
    assert_int_equal(step(&o), UVCC_ERR_STATE);
    assert_string_equal(o.message, "op A (INPUT, FWD k 65024): its value has not been set");
    set(&o, a, (const int64_t[]){3});
    run(&o);
    close_one(&o);
}

static void test_bounds(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 2, 10, 0), c = add(&o, "C", 1, 2, 10, 0);
    start(&o, &(uvcc_op_desc){.name = "twice",
                              .opcode = UVCC_OP_ADD,
                              .in_count = 2,
                              .in = {a, a},
                              .out_count = 1,
                              .out = {c}});
    set(&o, a, (const int64_t[]){511, -511});
    run(&o);
    set(&o, a, (const int64_t[]){0, -512});
    assert_int_equal(step(&o), UVCC_ERR_BOUND);
    assert_string_equal(o.message,
                        "op twice (ADD, FWD k 0): element 1 of C is -1024, outside its 10 bits");
    set(&o, a, (const int64_t[]){512, 0});
    assert_int_equal(uvcc_reference_step(o.r, 0, NULL, 0), UVCC_ERR_BOUND);
    close_one(&o);
}

/* Products that have fewer bits than their factors: up to those that the author knows, whatever the
 * output has room for, also beyond 64. */
static void test_products_within(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 2, 40, 20), b = add(&o, "B", 1, 1, 40, 20);
    const uint32_t c = add(&o, "C", 1, 2, 50, 36);
    start(&o, &(uvcc_op_desc){.name = "within",
                              .opcode = UVCC_OP_ROW_MUL,
                              .in_count = 2,
                              .in = {a, b},
                              .out_count = 1,
                              .out = {c},
                              .flags = UVCC_OP_WITHIN,
                              .shift = 4,
                              .constant = 45});
    const int64_t large = (1ll << 40) - 1;
    set(&o, a, (const int64_t[]){large, -31});
    set(&o, b, (const int64_t[]){31});
    run(&o);
    assert_int_equal(uvcc_reference_get(o.r, c)[0], large * 31 >> 4);
    assert_int_equal(uvcc_reference_get(o.r, c)[1], -61);
    static const int64_t far[] = {33, -33, 1ll << 39};
    for (unsigned i = 0; i < 3; i++) {
        set(&o, a, (const int64_t[]){1ll << 39, large});
        set(&o, b, far + i);
        assert_int_equal(step(&o), UVCC_ERR_BOUND);
        assert_non_null(strstr(o.message, "op within (ROW_MUL, FWD k 0): element"));
        set(&o, a, (const int64_t[]){0, 0});
        set(&o, b, (const int64_t[]){1});
        run(&o);
    }
    close_one(&o);
}

/* A failed step leaves a value outside its bound; the next one does not count on it. */
static void test_step_after_a_failed_one(void **state) {
    (void)state;
    uvcc_program *p;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uvcc_tensor_desc d = {.name = "S",
                          .rows = 1,
                          .cols = 1,
                          .bits = 30,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR};
    uint32_t s = (uint32_t)uvcc_program_tensor(p, &d);
    assert_true(uvcc_program_entry(p, "square") >= 0);
    uvcc_op_desc g = {
        .opcode = UVCC_OP_ELEM_MUL, .in_count = 2, .in = {s, s}, .out_count = 1, .out = {s}};
    assert_true(uvcc_program_op(p, &g) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    uvcc_reference *r;
    char why[200];
    assert_int_equal(uvcc_reference_new(&r, p, &al), 0);
    const int64_t wide = 1 << 29, narrow = 5;
    assert_int_equal(uvcc_reference_set(r, s, &wide), 0);
    assert_int_equal(uvcc_reference_step(r, 0, why, sizeof why), UVCC_ERR_BOUND);
    assert_int_equal(uvcc_reference_step(r, 0, why, sizeof why), UVCC_ERR_BOUND);
    assert_string_equal(why, "op (ELEM_MUL, FWD k 0): S is outside its bits since a step that "
                             "failed; set it anew");
    assert_int_equal(uvcc_reference_set(r, s, &narrow), 0);
    assert_int_equal(uvcc_reference_step(r, 0, why, sizeof why), 0);
    assert_int_equal(*uvcc_reference_get(r, s), 25);
    uvcc_reference_free(r);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* A declared bound of A that finish accepts cannot pass 2^62; one element at the edge of it. */
static void test_widest_product(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 1, 2, 31, 31), b = add(&o, "B", 2, 1, 30, 30),
                   c = add(&o, "C", 1, 1, 63, 51);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                              .in_count = 2,
                              .in = {a, b},
                              .out_count = 1,
                              .out = {c},
                              .shift = 10});
    const int64_t x = -((1ll << 31) - 1), y = (1ll << 30) - 1;
    set(&o, a, (const int64_t[]){x, x});
    set(&o, b, (const int64_t[]){y, y});
    run(&o);
    assert_int_equal(*uvcc_reference_get(o.r, c), slow_floor(2 * x * y, 10));
    close_one(&o);
}

/* PERSIST tensors start as zeros and keep their value from step to step. */
static void test_persist(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t x = add(&o, "X", 1, 1, 10, 0);
    const int m = uvcc_program_tensor(o.p, &(uvcc_tensor_desc){.name = "M",
                                                               .rows = 1,
                                                               .cols = 1,
                                                               .bits = 10,
                                                               .lifetime = UVCC_PERSIST,
                                                               .in_buffer_of = UVCC_NO_TENSOR});
    assert_int_equal(uvcc_program_entry(o.p, "go"), 0);
    assert_int_equal(uvcc_program_input(o.p, 1, x, 0), 0);
    assert_int_equal(uvcc_program_op(o.p, &(uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                                          .in_count = 2,
                                                          .in = {(uint32_t)m, x},
                                                          .out_count = 1,
                                                          .out = {(uint32_t)m}}),
                     0);
    const uvcc_allocator al = test_allocator(&o.counts);
    assert_int_equal(uvcc_reference_new(&o.r, o.p, &al), UVCC_ERR_STATE); /* not finished */
    assert_int_equal(uvcc_program_finish(o.p, NULL, 0), 0);
    assert_int_equal(uvcc_reference_new(NULL, o.p, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_reference_new(&o.r, NULL, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_reference_new(&o.r, o.p, &al), 0);
    set(&o, x, (const int64_t[]){5});
    run(&o);
    run(&o);
    assert_int_equal(*uvcc_reference_get(o.r, (uint32_t)m), 10);
    close_one(&o);
}

static void test_no_memory(void **state) {
    (void)state;
    one o;
    open_one(&o);
    const uint32_t a = add(&o, "A", 2, 2, 10, 4), c = add(&o, "C", 2, 2, 20, 4);
    start(&o, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                              .in_count = 2,
                              .in = {a, a},
                              .out_count = 1,
                              .out = {c},
                              .shift = 4});
    const size_t before = o.counts.live_blocks;
    const uvcc_allocator al = test_allocator(&o.counts);
    for (size_t i = 1; i <= 5; i++) { /* the object, its table, packed factors, two tensors */
        uvcc_reference *r = NULL;
        o.counts.fail_at = i;
        assert_int_equal(uvcc_reference_new(&r, o.p, &al), UVCC_ERR_NOMEM);
        assert_null(r);
        assert_int_equal(o.counts.live_blocks, before);
    }
    uvcc_reference *r = NULL;
    o.counts.fail_at = 6;
    assert_int_equal(uvcc_reference_new(&r, o.p, &al), 0);
    o.counts.fail_at = 0;
    uvcc_reference_free(r);
    uvcc_reference_free(NULL);
    close_one(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_gemm_square),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_elements),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_parts_within),
        cmocka_unit_test(test_repeat_cols),
        cmocka_unit_test(test_groups_of_rows),
        cmocka_unit_test(test_mask_of_groups),
        cmocka_unit_test(test_sub_with_shift),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_unset_input),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_products_within),
        cmocka_unit_test(test_step_after_a_failed_one),
        cmocka_unit_test(test_widest_product),
        cmocka_unit_test(test_persist),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
