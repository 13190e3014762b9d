/* SPDX-License-Identifier: Apache-2.0 */
/* Nonlinear functions against libm: sweeps over their ranges, both index modes; costs;
 * compositions. */
#include "triangle.h"

#include <math.h>
#include <uvcc/nonlinear.h>

enum { F = 16, CHUNK = 1 << 16, FULL_SWEEP = (1 << 22) + 1 };

static const double PI = 3.14159265358979323846;

static test_alloc counts;

static uvcc_allocator allocator(void) {
    return test_allocator(&counts);
}

static uvcc_nonlinear_options options(unsigned in_bits, bool exact) {
    return (uvcc_nonlinear_options){
        .size = sizeof(uvcc_nonlinear_options), .in_bits = (uint8_t)in_bits, .exact = exact};
}

/* ---- the real functions ---- */

static double gelu(double x) {
    return x * 0.5 * erfc(-x / sqrt(2));
}

static double gelu_derivative(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * PI);
}

static double tanh_part(double x) {
    return tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x));
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh_part(x));
}

static double gelu_tanh_derivative(double x) {
    const double t = tanh_part(x), slope = sqrt(2 / PI) * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double real(uvcc_nonlinear what, double x) {
    switch (what) {
    case UVCC_NL_SIGN:
        return x >= 0;
    case UVCC_NL_RELU:
        return x >= 0 ? x : 0;
    case UVCC_NL_GELU:
        return gelu(x);
    case UVCC_NL_GELU_TANH:
        return gelu_tanh(x);
    case UVCC_NL_SILU:
        return x * sigmoid(x);
    case UVCC_NL_GELU_DERIVATIVE:
        return gelu_derivative(x);
    case UVCC_NL_GELU_TANH_DERIVATIVE:
        return gelu_tanh_derivative(x);
    case UVCC_NL_SILU_DERIVATIVE:
        return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
    case UVCC_NL_SIGMOID:
        return sigmoid(x);
    case UVCC_NL_TANH:
        return tanh(x);
    case UVCC_NL_EXP:
        return exp(-x);
    case UVCC_NL_RECIPROCAL:
        return 1 / x;
    case UVCC_NL_LN:
        return log(x);
    case UVCC_NL_CLIP:
        return fmin(fmax(x, -1), 1);
    default:
        return 1 / sqrt(x);
    }
}

static uvcc_nonlinear second_of(uvcc_nonlinear what) {
    return what == UVCC_NL_GELU        ? UVCC_NL_GELU_DERIVATIVE
           : what == UVCC_NL_GELU_TANH ? UVCC_NL_GELU_TANH_DERIVATIVE
           : what == UVCC_NL_SILU      ? UVCC_NL_SILU_DERIVATIVE
                                       : UVCC_NL_SIGN; /* RELU */
}

/* ---- inputs ---- */

typedef struct inputs {
    int64_t *x;
    size_t count, room;
} inputs;

static void take(inputs *s, int64_t x, int64_t low, int64_t high) {
    if (x < low || x > high)
        return;
    if (s->count == s->room) {
        s->room = s->room == 0 ? 1 << 16 : 2 * s->room;
        s->x = realloc(s->x, s->room * sizeof *s->x);
        assert_non_null(s->x);
    }
    s->x[s->count++] = x;
}

/* Under a sanitizer each fifth of what is swept: odd, so places in cells are all met. */
enum { SWEEP_EACH = SANITIZED ? 5 : 1 };

/* Every input of the range, or all knots +-2 and a dense stride. */
static inputs sweep_of(uvcc_nonlinear what) {
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    const bool open = info->high == 512; /* |x| < 2^25: what 25 bits declare */
    const int64_t low = llround(ldexp(info->low, F)) + open;
    const int64_t high = llround(ldexp(info->high, F)) - open;
    inputs s = {0};
    if (high - low < FULL_SWEEP) {
        for (int64_t x = low; x <= high; x += SWEEP_EACH)
            take(&s, x, low, high);
    } else if (info->relative || what == UVCC_NL_LN) {
        for (int64_t x = low; x <= high; x += SWEEP_EACH * (1 + (x >> 15)))
            for (int64_t d = -2; d <= 2; d++)
                take(&s, x + d, low, high);
        for (int64_t x = 1; x <= high; x *= 2)
            for (int64_t d = -300; d <= 300; d++)
                take(&s, x + d, low, high);
    } else {
        for (int64_t x = low; x <= high; x += SWEEP_EACH << (F - info->index_bits))
            for (int64_t d = -2; d <= 2; d++)
                take(&s, x + d, low, high);
        for (int64_t x = low; x <= high; x += 61 * SWEEP_EACH)
            take(&s, x, low, high);
    }
    take(&s, high, low, high);
    take(&s, -1, low, high);
    take(&s, 0, low, high);
    return s;
}

/* Bits that a tensor of the sweep declares. */
static unsigned sweep_bits(uvcc_nonlinear what) {
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    unsigned bits = 1;
    while (ldexp(1, (int)bits) <= ldexp(info->high, F) - (info->high == 512))
        bits++;
    return bits;
}

/* ---- errors ---- */

typedef struct errors {
    double most, sum;
    size_t count;
} errors;

static void compare_to(errors *e, double have, double want, bool relative) {
    const double d = fabs(have - want) / (relative ? fabs(want) : 1);
    e->most = d > e->most ? d : e->most;
    e->sum += d;
    e->count++;
}

static void report(uvcc_nonlinear what, const char *mode, const errors *e,
                   const uvcc_fn_cost *cost) {
    print_message("%-22s %-6s max %.3g mean %.3g rounds %u online %.2f key %.1f\n",
                  uvcc_nonlinear_at(what)->name, mode, e->most, e->sum / (double)e->count,
                  cost->rounds, cost->online_bytes, cost->key_bytes);
}

static void assert_bound(uvcc_nonlinear what, const errors *e, bool exact) {
    const double bound = uvcc_nonlinear_at(what)->bound;
    const bool none =
        exact && (what == UVCC_NL_RELU || what == UVCC_NL_SIGN || what == UVCC_NL_CLIP);
    /* values at the middle of the cells: half as far */
    const bool half = exact && (what == UVCC_NL_SIGMOID || what == UVCC_NL_TANH);
    if (e->most > (none ? 0 : half ? 0.51 * bound : bound))
        fail_msg("%s: error %g, more than %g", uvcc_nonlinear_at(what)->name, e->most, bound);
}

/* ---- fast functions ---- */

enum { LOW_ZERO, LOW_MOST, LOW_RANDOM, LOWS };

typedef struct fast {
    uvcc_nonlinear_fn fn;
    uint64_t *low[UVCC_FN_INSTRS_MAX];
} fast;

static fast fast_of(uvcc_nonlinear what, const uvcc_nonlinear_options *o, size_t elems) {
    fast f = {0};
    const uvcc_allocator al = allocator();
    assert_int_equal(uvcc_nonlinear_build(&f.fn, what, o, &al), 0);
    for (unsigned i = 0; i < f.fn.function.instr_count; i++)
        if (uvcc_function_low_bits(&f.fn.function.instrs[i]) != 0) {
            f.low[i] = malloc(elems * sizeof(uint64_t));
            assert_non_null(f.low[i]);
        }
    return f;
}

static void fast_free(fast *f) {
    for (unsigned i = 0; i < UVCC_FN_INSTRS_MAX; i++)
        free(f->low[i]);
    uvcc_nonlinear_free(&f->fn);
    assert_int_equal(counts.live_blocks, 0);
}

/* Rows of `cols`, n elements in all, of which every step has at most twice as many. Gives the r_low
 * of the first SHIFT, if one is. */
static const uint64_t *fast_rows(fast *f, size_t n, uint32_t cols, const int64_t *x,
                                 int64_t *const *out, unsigned low, uint64_t *seed) {
    const uvcc_allocator al = allocator();
    const uint64_t *first = NULL;
    for (unsigned i = 0; i < f->fn.function.instr_count; i++) {
        if (f->low[i] == NULL)
            continue;
        const uint64_t mask = (1ull << uvcc_function_low_bits(&f->fn.function.instrs[i])) - 1;
        for (size_t j = 0; j < (cols != 1 ? 2 * n : n); j++)
            f->low[i][j] = low == LOW_ZERO ? 0 : low == LOW_MOST ? mask : test_rand(seed) & mask;
        first = first == NULL ? f->low[i] : first;
    }
    const uint64_t *const *lows = (const uint64_t *const *)f->low;
    const uint32_t rows = (uint32_t)(n / cols);
    assert_int_equal(uvcc_function_eval(&f->fn.function, rows, cols, &x, out, lows, &al), 0);
    return first;
}

static const uint64_t *fast_run(fast *f, size_t n, const int64_t *x, int64_t *const *out,
                                unsigned low, uint64_t *seed) {
    return fast_rows(f, n, 1, x, out, low, seed);
}

static uvcc_tensor_desc input_desc(unsigned rows, unsigned cols, unsigned bits) {
    return (uvcc_tensor_desc){.name = "X",
                              .rows = rows,
                              .cols = cols,
                              .bits = (uint8_t)bits,
                              .scale = F,
                              .lifetime = UVCC_TRANSIENT,
                              .in_buffer_of = UVCC_NO_TENSOR};
}

static void sweep_fast(uvcc_nonlinear what, unsigned index_bits, bool derivative) {
    uvcc_nonlinear_options o = options(sweep_bits(what), false);
    o.derivative = derivative;
    o.index_bits = (uint8_t)index_bits;
    inputs s = sweep_of(what);
    fast f = fast_of(what, &o, CHUNK);
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    const unsigned outputs = f.fn.function.outputs;
    const uvcc_tensor_desc in = input_desc(1, 1, o.in_bits);
    uvcc_tensor_desc desc[2];
    assert_int_equal(uvcc_nonlinear_output(what, &o, &in, desc), outputs);
    int64_t *out[2] = {malloc(CHUNK * sizeof(int64_t)), malloc(CHUNK * sizeof(int64_t))};
    double *want[2] = {malloc(CHUNK * sizeof(double)), malloc(CHUNK * sizeof(double))};
    errors e[2] = {0};
    uint64_t seed = 7;
    for (size_t at = 0; at < s.count; at += CHUNK) {
        const size_t n = s.count - at < CHUNK ? s.count - at : CHUNK;
        for (unsigned k = 0; k < outputs; k++)
            for (size_t i = 0; i < n; i++)
                want[k][i] = real(k == 0 ? what : second_of(what), ldexp((double)s.x[at + i], -F));
        for (unsigned low = 0; low < LOWS; low++) {
            const uint64_t *r = fast_run(&f, n, s.x + at, out, low, &seed);
            for (unsigned k = 0; k < outputs; k++)
                for (size_t i = 0; i < n; i++) {
                    const int64_t y = out[k][i];
                    assert_true(y < 1ll << desc[k].bits && y > -(1ll << desc[k].bits));
                    if (desc[k].scale == 0) /* exact on the reduced value */
                        assert_int_equal(y, s.x[at + i] + (int64_t)r[i] >= 0);
                    else
                        compare_to(&e[k], ldexp((double)y, -desc[k].scale), want[k][i],
                                   info->relative);
                }
        }
    }
    uvcc_fn_cost cost;
    for (unsigned k = 0; k < outputs; k++) {
        assert_int_equal(uvcc_function_cost(&f.fn.function, 1, &cost), 0);
        if (e[k].count == 0)
            e[k].count = 1;
        report(k == 0 ? what : second_of(what), "fast", &e[k], &cost);
        if (desc[k].scale != 0)
            assert_bound(k == 0 ? what : second_of(what), &e[k], false);
    }
    for (unsigned k = 0; k < 2; k++) {
        free(out[k]);
        free(want[k]);
    }
    free(s.x);
    fast_free(&f);
}

/* ---- programs ---- */

typedef struct one {
    uvcc_program *p;
    uvcc_reference *r;
    uint32_t in[3], out[3];
    uvcc_tensor_desc desc[3];
    unsigned outputs;
} one;

static unsigned inputs_of(uvcc_nonlinear what, const uvcc_nonlinear_options *o) {
    return o->plain ? 1 : uvcc_nonlinear_at(what)->inputs;
}

/* A program of one entry that runs `what` on tensors like in[]. scale: of a BLOCK's output. */
static one one_of(uvcc_nonlinear what, const uvcc_nonlinear_options *o, const uvcc_tensor_desc *in,
                  unsigned scale) {
    static const char *const names[] = {"Y0", "Y1", "Y2"};
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    const uvcc_allocator al = allocator();
    one n = {0};
    char text[512];
    assert_int_equal(uvcc_program_new(&n.p, &al), 0);
    assert_true(uvcc_program_entry(n.p, "run") >= 0);
    for (unsigned i = 0; i < inputs_of(what, o); i++) {
        n.in[i] = (uint32_t)uvcc_program_tensor(n.p, &in[i]);
        assert_true(uvcc_program_input(n.p, i, n.in[i], 0) >= 0);
    }
    const int outputs = uvcc_nonlinear_output(what, o, in, n.desc);
    assert_true(outputs > 0);
    n.outputs = (unsigned)outputs;
    for (unsigned i = 0; i < n.outputs; i++) {
        n.desc[i].name = names[i];
        if (scale != 0)
            n.desc[i].bits = (uint8_t)(n.desc[i].bits + scale - n.desc[i].scale);
        if (scale != 0)
            n.desc[i].scale = (uint8_t)scale;
        n.out[i] = (uint32_t)uvcc_program_tensor(n.p, &n.desc[i]);
    }
    uvcc_emit e = {.program = n.p, .prefix = "t", .alloc = &al};
    int err = uvcc_emit_nonlinear(&e, what, o, n.in, n.out);
    if (err != 0)
        fail_msg("%s: %s", info->name, uvcc_error_text(err));
    for (unsigned i = 0; i < n.outputs; i++)
        assert_true(uvcc_program_output(n.p, i, n.out[i]) >= 0);
    if (uvcc_program_finish(n.p, text, sizeof text) != 0)
        fail_msg("%s: %s", info->name, text);
    assert_int_equal(uvcc_reference_new(&n.r, n.p, &al), 0);
    return n;
}

static void one_run(one *n) {
    char text[512];
    if (uvcc_reference_step(n->r, 0, text, sizeof text) != 0)
        fail_msg("%s", text);
}

static void one_free(one *n) {
    uvcc_reference_free(n->r);
    uvcc_program_free(n->p);
    assert_int_equal(counts.live_blocks, 0);
}

static void sweep_exact(uvcc_nonlinear what) {
    uvcc_nonlinear_options o = options(0, true);
    o.derivative = true;
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    const uvcc_tensor_desc in = input_desc(256, CHUNK / 256, sweep_bits(what));
    inputs s = sweep_of(what);
    one n = one_of(what, &o, &in, 0);
    int64_t *x = calloc(CHUNK, sizeof *x);
    errors e[2] = {0};
    for (size_t at = 0; at < s.count; at += CHUNK) {
        const size_t count = s.count - at < CHUNK ? s.count - at : CHUNK;
        memcpy(x, s.x + at, count * sizeof *x);
        assert_int_equal(uvcc_reference_set(n.r, n.in[0], x), 0);
        one_run(&n);
        for (unsigned k = 0; k < n.outputs; k++) {
            const int64_t *y = uvcc_reference_get(n.r, n.out[k]);
            for (size_t i = 0; i < count; i++)
                compare_to(&e[k], ldexp((double)y[i], -n.desc[k].scale),
                           real(k == 0 ? what : second_of(what), ldexp((double)x[i], -F)),
                           info->relative);
        }
    }
    for (unsigned k = 0; k < n.outputs; k++) {
        uvcc_fn_cost total = {0}, cost;
        const uvcc_function *f;
        for (uint32_t i = 0; (f = uvcc_program_function_at(n.p, i)) != NULL; i++) {
            assert_int_equal(uvcc_function_cost(f, 1, &cost), 0);
            total.rounds += cost.rounds;
            total.online_bytes += cost.online_bytes;
            total.key_bytes += cost.key_bytes;
        }
        report(k == 0 ? what : second_of(what), "exact", &e[k], &total);
        assert_bound(k == 0 ? what : second_of(what), &e[k], true);
    }
    free(x);
    free(s.x);
    one_free(&n);
}

static const uvcc_nonlinear elements[] = {
    UVCC_NL_SIGN,
    UVCC_NL_RELU,
    UVCC_NL_GELU,
    UVCC_NL_GELU_TANH,
    UVCC_NL_SILU,
    UVCC_NL_GELU_DERIVATIVE,
    UVCC_NL_GELU_TANH_DERIVATIVE,
    UVCC_NL_SILU_DERIVATIVE,
    UVCC_NL_SIGMOID,
    UVCC_NL_TANH,
    UVCC_NL_EXP,
    UVCC_NL_RECIPROCAL,
    UVCC_NL_RSQRT,
    UVCC_NL_LN,
    UVCC_NL_CLIP,
};
enum { ELEMENTS = sizeof elements / sizeof elements[0] };

static void test_sweeps_fast(void **state) {
    (void)state;
    for (unsigned i = 0; i < ELEMENTS; i++)
        sweep_fast(elements[i], 0, true);
    sweep_fast(UVCC_NL_GELU, 8, false);
    sweep_fast(UVCC_NL_GELU_TANH, 8, false);
    sweep_fast(UVCC_NL_SILU, 8, false);
}

static void test_sweeps_exact(void **state) {
    (void)state;
    for (unsigned i = 0; i < ELEMENTS; i++)
        sweep_exact(elements[i]);
}

/* ---- outside the ranges, and at their ends ---- */

/* One input in both modes: in fast mode for the least and the greatest r_low. */
typedef struct at_point {
    int64_t fast[LOWS][2], exact[2];
    unsigned scale[2], exact_scale[2];
} at_point;

static at_point evaluate(uvcc_nonlinear what, unsigned in_bits, int64_t x) {
    at_point p = {0};
    uint64_t seed = 3;
    uvcc_nonlinear_options o = options(in_bits, false);
    const uvcc_tensor_desc in = input_desc(1, 1, in_bits);
    uvcc_tensor_desc desc[2] = {{0}};
    fast f = fast_of(what, &o, 1);
    assert_true(uvcc_nonlinear_output(what, &o, &in, desc) > 0);
    for (unsigned low = 0; low < LOWS; low++) {
        int64_t *const out[2] = {&p.fast[low][0], &p.fast[low][1]};
        fast_run(&f, 1, &x, out, low, &seed);
    }
    fast_free(&f);
    o.exact = true;
    one n = one_of(what, &o, &in, 0);
    assert_int_equal(uvcc_reference_set(n.r, n.in[0], &x), 0);
    one_run(&n);
    for (unsigned k = 0; k < n.outputs; k++) {
        p.exact[k] = *uvcc_reference_get(n.r, n.out[k]);
        p.exact_scale[k] = n.desc[k].scale;
        p.scale[k] = desc[k].scale;
    }
    one_free(&n);
    return p;
}

static void assert_point(uvcc_nonlinear what, unsigned in_bits, int64_t x, int64_t want) {
    const at_point p = evaluate(what, in_bits, x);
    for (unsigned low = 0; low < LOWS; low++)
        if (p.fast[low][0] != want)
            fail_msg("%s fast at %lld: %lld, not %lld", uvcc_nonlinear_at(what)->name, (long long)x,
                     (long long)p.fast[low][0], (long long)want);
    if (p.exact[0] != want)
        fail_msg("%s exact at %lld: %lld, not %lld", uvcc_nonlinear_at(what)->name, (long long)x,
                 (long long)p.exact[0], (long long)want);
}

/* Beyond the windows there are only the asymptotes, for all that the bits allow. */
static void test_saturation(void **state) {
    (void)state;
    const unsigned widths[] = {22, 25, 26, 40, 55};
    const int64_t unit = 1 << F;
    for (unsigned w = 0; w < sizeof widths / sizeof widths[0]; w++) {
        const unsigned bits = widths[w];
        const int64_t end = (1ll << bits) - 1;
        const int64_t far[] = {end, end - 200, end / 2 + 1, 17 * unit + 5};
        for (unsigned i = 0; i < 4; i++) {
            const uvcc_nonlinear whole[] = {UVCC_NL_GELU, UVCC_NL_GELU_TANH, UVCC_NL_SILU,
                                            UVCC_NL_RELU};
            for (unsigned j = 0; j < 4; j++) {
                assert_point(whole[j], bits, far[i], far[i]);
                assert_point(whole[j], bits, -far[i], 0);
            }
            const uvcc_nonlinear steps[] = {UVCC_NL_GELU_DERIVATIVE, UVCC_NL_GELU_TANH_DERIVATIVE,
                                            UVCC_NL_SILU_DERIVATIVE, UVCC_NL_SIGMOID};
            for (unsigned j = 0; j < 4; j++) {
                assert_point(steps[j], bits, far[i], unit);
                assert_point(steps[j], bits, -far[i], 0);
            }
            assert_point(UVCC_NL_TANH, bits, far[i], unit);
            assert_point(UVCC_NL_TANH, bits, -far[i], -unit);
            assert_point(UVCC_NL_SIGN, bits, far[i], 1);
            assert_point(UVCC_NL_SIGN, bits, -far[i], 0);
            if (bits <= 40)
                assert_point(UVCC_NL_EXP, bits, far[i], 0);
        }
    }
}

static void test_zero(void **state) {
    (void)state;
    const int64_t half = 1 << (F - 1);
    assert_point(UVCC_NL_SIGN, 25, 0, 1);
    assert_point(UVCC_NL_RELU, 25, 0, 0);
    at_point p = evaluate(UVCC_NL_SIGN, 25, -1);
    assert_int_equal(p.exact[0], 0);
    assert_int_equal(p.fast[LOW_ZERO][0], 0); /* floor(-1 / 2^8) = -1 */
    assert_int_equal(p.fast[LOW_MOST][0], 1); /* floor((-1 + 255) / 2^8) = 0 */
    p = evaluate(UVCC_NL_RELU, 25, -1);
    assert_int_equal(p.exact[0], 0);
    assert_int_equal(p.exact[1], 0);
    assert_int_equal(p.fast[LOW_MOST][0], -1);
    p = evaluate(UVCC_NL_SIGMOID, 25, 0);
    assert_int_equal(p.fast[LOW_ZERO][0], half);
    p = evaluate(UVCC_NL_TANH, 25, 0);
    assert_int_equal(p.fast[LOW_ZERO][0], 0);
    p = evaluate(UVCC_NL_GELU, 25, 0);
    assert_int_equal(p.fast[LOW_MOST][0], 0);
    p = evaluate(UVCC_NL_EXP, 25, 0);
    for (unsigned low = 0; low < LOWS; low++)
        assert_true(fabs(ldexp((double)p.fast[low][0], -36) - 1) < 1.6e-5);
    assert_true(fabs(ldexp((double)p.exact[0], -36) - 1) < 1.6e-5);
}

static void near(double have, double want, double relative) {
    if (fabs(have - want) > relative * fabs(want))
        fail_msg("%g, not %g", have, want);
}

static void near_by(double have, double want, double off) {
    if (!(fabs(have - want) <= off))
        fail_msg("%.9g, not %.9g", have, want);
}

/* Below the range as its low end, above as its high end; the fast mode's range is not the exact
 * one's. */
static void test_inverse_ends(void **state) {
    (void)state;
    const double low_fast = sqrt(65536.0 / 44), low_exact = sqrt(65536.0 / 18);
    const struct {
        uvcc_nonlinear what;
        int64_t x;
        double fast, relative, exact; /* relative: of the fast mode */
    } cases[] = {
        {UVCC_NL_RECIPROCAL, 0, 256.0 / 15, 1.2e-4, 256.0 / 9},
        {UVCC_NL_RECIPROCAL, -5000, 256.0 / 15, 1.2e-4, 256.0 / 9},
        {UVCC_NL_RECIPROCAL, 1, 256.0 / 15, 1.2e-4, 256.0 / 9},
        {UVCC_NL_RECIPROCAL, 9 << 8, 256.0 / 15, 1.2e-4, 256.0 / 9},
        {UVCC_NL_RECIPROCAL, (15 << 8) - 1, 256.0 / 15, 1.0 / 14, 65536.0 / 3839},
        {UVCC_NL_RECIPROCAL, 15 << 8, 256.0 / 15, 1.2e-4, 256.0 / 15},
        {UVCC_NL_RECIPROCAL, 1 << 12, 16, 1.2e-4, 16},
        {UVCC_NL_RECIPROCAL, 1 << 28, 1.0 / 4096, 1.2e-4, 1.0 / 4096},
        {UVCC_NL_RECIPROCAL, 9ll << 25, 1.0 / 4608, 1.2e-4, 1.0 / 4608},
        {UVCC_NL_RECIPROCAL, 15ll << 26, 1.0 / 15360, 1.6e-4, 1.0 / 4608},
        {UVCC_NL_RECIPROCAL, (1ll << 31) - 1, 1.0 / 15360, 1.6e-4, 1.0 / 4608},
        {UVCC_NL_RSQRT, 0, low_fast, 1.2e-4, low_exact},
        {UVCC_NL_RSQRT, -1, low_fast, 1.2e-4, low_exact},
        {UVCC_NL_RSQRT, 17, low_fast, 1.2e-4, low_exact},
        {UVCC_NL_RSQRT, 30, low_fast, 1.2e-4, sqrt(65536.0 / 30)},
        {UVCC_NL_RSQRT, 43, low_fast, 1.0 / 10, sqrt(65536.0 / 43)},
        {UVCC_NL_RSQRT, 44, low_fast, 1.2e-4, low_fast},
        {UVCC_NL_RSQRT, 1 << 28, 1.0 / 64, 1.2e-4, 1.0 / 64},
        {UVCC_NL_RSQRT, 11ll << 26, 1 / sqrt(11264), 1.2e-4, 1 / sqrt(4608)},
        {UVCC_NL_RSQRT, (1ll << 31) - 1, 1 / sqrt(11264), 1.2e-4, 1 / sqrt(4608)},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const at_point p = evaluate(cases[i].what, 31, cases[i].x);
        for (unsigned low = 0; low < LOWS; low++)
            near(ldexp((double)p.fast[low][0], -(int)p.scale[0]), cases[i].fast, cases[i].relative);
        near(ldexp((double)p.exact[0], -(int)p.exact_scale[0]), cases[i].exact, 1.2e-4);
    }
}

/* Where the input has too few fraction bits for a multiscale, the mantissa has a table of its own.
 */
static void test_coarse_inverses(void **state) {
    (void)state;
    const struct {
        uvcc_nonlinear what;
        unsigned scale, rounds;
    } cases[] = {{UVCC_NL_RECIPROCAL, 8, 3},
                 {UVCC_NL_RECIPROCAL, 7, 5},
                 {UVCC_NL_RSQRT, 14, 3},
                 {UVCC_NL_RSQRT, 13, 5}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uvcc_nonlinear_options o = options(cases[i].scale + 13, false);
        uvcc_fn_cost cost;
        uint64_t seed = i;
        o.scale = (uint8_t)cases[i].scale;
        fast f = fast_of(cases[i].what, &o, 1);
        assert_int_equal(uvcc_function_cost(&f.fn.function, 1, &cost), 0);
        assert_int_equal(cost.rounds, cases[i].rounds);
        const int scale = cases[i].what == UVCC_NL_RSQRT ? 22 : 27;
        for (int64_t x = 1ll << (o.scale - 3); x < 4096ll << o.scale; x += x / 3) {
            int64_t y;
            for (unsigned low = 0; low < LOWS; low++) {
                (void)fast_run(&f, 1, &x, &(int64_t *){&y}, low, &seed);
                near(ldexp((double)y, -scale), real(cases[i].what, ldexp((double)x, -o.scale)),
                     1.2e-4);
            }
        }
        fast_free(&f);
    }
}

/* Below 9/16 it is ln(9/16), from 73728 on ln(73728). */
static void test_ln_ends(void **state) {
    (void)state;
    const double cases[][3] = {/* x, and what fast and exact mode give the logarithm of */
                               {0, 0.34375, 0.5625},
                               {-3, 0.34375, 0.5625},
                               {0.34375, 0.34375, 0.5625},
                               {0.5625, 0.5625, 0.5625},
                               {1, 1, 1},
                               {2.25, 2.25, 2.25},
                               {65535.5, 65535.5, 65535.5},
                               {73728, 73728, 73728},
                               {90112, 90112, 73728},
                               {130000, 90112, 73728}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const at_point p = evaluate(UVCC_NL_LN, 33, llround(ldexp(cases[i][0], F)));
        for (unsigned low = 0; low < LOWS; low++)
            near_by(ldexp((double)p.fast[low][0], -(int)p.scale[0]), log(cases[i][1]), 1.3e-4);
        near_by(ldexp((double)p.exact[0], -(int)p.exact_scale[0]), log(cases[i][2]), 1.3e-4);
    }
}

/* Its ends are where the options say; a limit that the index cannot show is refused. */
static void test_clip_limits(void **state) {
    (void)state;
    const double limits[] = {0.25, 1, 7.5}, xs[] = {-20, -7.5, -1, -0.26, -0.25, 0, 0.2, 0.9, 8};
    const uvcc_allocator al = allocator();
    for (unsigned exact = 0; exact < 2; exact++)
        for (unsigned i = 0; i < sizeof limits / sizeof limits[0]; i++)
            for (unsigned k = 0; k < sizeof xs / sizeof xs[0]; k++) {
                uvcc_nonlinear_options o = options(22, exact != 0);
                uvcc_nonlinear_fn f;
                o.limit = limits[i];
                int64_t x = llround(ldexp(xs[k], F)), y;
                const int64_t *const in[1] = {&x};
                int64_t *const out[1] = {&y};
                assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_CLIP, &o, &al), 0);
                assert_int_equal(uvcc_function_eval(&f.function, 1, 1, in, out, NULL, &al), 0);
                assert_true(ldexp((double)y, -F) ==
                            fmin(fmax(ldexp((double)x, -F), -limits[i]), limits[i]));
                uvcc_nonlinear_free(&f);
            }
    uvcc_nonlinear_options o = options(22, false);
    uvcc_nonlinear_fn f;
    o.limit = 0x1p-9;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_CLIP, &o, &al), UVCC_ERR_USAGE);
    o.exact = true;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_CLIP, &o, &al), 0);
    uvcc_nonlinear_free(&f);
    o.limit = -1;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_CLIP, &o, &al), UVCC_ERR_USAGE);
}

/* With `raise` the function is of 2^raise times what the tensor says. */
static void test_raise(void **state) {
    (void)state;
    for (unsigned exact = 0; exact < 2; exact++) {
        uvcc_nonlinear_options o = options(0, exact != 0);
        uvcc_tensor_desc in = input_desc(1, 2, 30);
        const int64_t x[2] = {3 << F, 50 << F};
        in.scale = F + 6;
        o.raise = 6;
        one n = one_of(UVCC_NL_RSQRT, &o, &in, 0);
        assert_int_equal(uvcc_reference_set(n.r, n.in[0], x), 0);
        one_run(&n);
        for (unsigned i = 0; i < 2; i++)
            near(ldexp((double)uvcc_reference_get(n.r, n.out[0])[i], -n.desc[0].scale),
                 1 / sqrt(ldexp((double)x[i], -F)), 1.2e-4);
        one_free(&n);
        o.raise = F + 7;
        assert_int_equal(uvcc_nonlinear_output(UVCC_NL_RSQRT, &o, &in, n.desc), UVCC_ERR_USAGE);
    }
}

/* Other scales of the input give the same functions. */
static void test_scales(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    for (unsigned scale = 12; scale <= 24; scale += 4) {
        uvcc_nonlinear_options o = options(scale + 9, false);
        o.scale = (uint8_t)scale;
        const int64_t x = llround(ldexp(1.7, (int)scale));
        const int64_t *const in[1] = {&x};
        for (unsigned i = 0; i < ELEMENTS; i++) {
            uvcc_nonlinear_fn f;
            int64_t y[2];
            int64_t *const out[2] = {&y[0], &y[1]};
            const uvcc_tensor_desc d = {.rows = 1, .cols = 1, .bits = o.in_bits, .scale = o.scale};
            uvcc_tensor_desc desc[2];
            assert_int_equal(uvcc_nonlinear_build(&f, elements[i], &o, &al), 0);
            assert_true(uvcc_nonlinear_output(elements[i], &o, &d, desc) > 0);
            assert_int_equal(uvcc_function_eval(&f.function, 1, 1, in, out, NULL, &al), 0);
            const double have = ldexp((double)y[0], -desc[0].scale), want = real(elements[i], 1.7);
            assert_true(fabs(have - want) < 2.5e-3);
            uvcc_nonlinear_free(&f);
        }
    }
}

/* Tables of large scales: right, or refused where entries need more than their 32 bits. */
static void test_large_scales(void **state) {
    static const uvcc_nonlinear tables[] = {
        UVCC_NL_GELU,    UVCC_NL_SILU, UVCC_NL_GELU_DERIVATIVE, UVCC_NL_SILU_DERIVATIVE,
        UVCC_NL_SIGMOID, UVCC_NL_TANH};
    const uvcc_allocator al = allocator();
    uint64_t seed = 3;
    (void)state;
    for (unsigned t = 0; t < sizeof tables / sizeof *tables; t++)
        for (unsigned exact = 0; exact < 2; exact++)
            for (unsigned scale = 28; scale <= 48; scale++) {
                const uvcc_nonlinear what = tables[t];
                uvcc_nonlinear_options o = options(scale + 4, exact);
                o.scale = (uint8_t)scale;
                uvcc_nonlinear_fn fn;
                const int rc = uvcc_nonlinear_build(&fn, what, &o, &al);
                if (rc != 0) {
                    assert_int_equal(rc, UVCC_ERR_USAGE);
                    assert_true(scale > 30);
                    continue;
                }
                assert_true(scale < 36);
                uvcc_nonlinear_free(&fn);
                fast f = fast_of(what, &o, 64);
                int64_t x[64], y[64], *out[1] = {y};
                for (unsigned i = 0; i < 64; i++)
                    x[i] = llround(ldexp((i - 31.5) / 5, (int)scale));
                (void)fast_run(&f, 64, x, out, LOW_ZERO, &seed);
                for (unsigned i = 0; i < 64; i++) {
                    const double want = real(what, (i - 31.5) / 5);
                    const double bound = uvcc_nonlinear_at(what)->bound;
                    assert_true(fabs(ldexp((double)y[i], -(int)scale) - want) <= bound);
                }
                fast_free(&f);
            }
}

/* The gain of RSQRT is in its table. */
static void test_gain(void **state) {
    (void)state;
    uvcc_nonlinear_options o = options(30, false);
    const uvcc_allocator al = allocator();
    const int64_t x = 3 << F;
    const int64_t *const in[1] = {&x};
    int64_t y;
    int64_t *const out[1] = {&y};
    uvcc_nonlinear_fn f;
    o.gain = 0.75;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_RSQRT, &o, &al), 0);
    assert_int_equal(uvcc_function_eval(&f.function, 1, 1, in, out, NULL, &al), 0);
    near(ldexp((double)y, -22), 0.75 / sqrt(3), 1.2e-4);
    uvcc_nonlinear_free(&f);
    o.gain = 0.5;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_RSQRT, &o, &al), UVCC_ERR_USAGE);
}

/* ---- checks and costs ---- */

/* Every function passes its own check on every width, and its bits are the ones told. */
static void test_checks(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    for (unsigned i = 0; i < UVCC_NL_COUNT; i++) {
        const uvcc_nonlinear_info *info = uvcc_nonlinear_at((uvcc_nonlinear)i);
        const bool ops_only = info->form == UVCC_NL_BLOCK && i != UVCC_NL_SOFTMAX;
        for (unsigned bits = 13; bits <= 40; bits += 3)
            for (unsigned exact = 0; exact < 2; exact++) {
                uvcc_nonlinear_options o = options(bits, exact != 0);
                uvcc_nonlinear_fn f;
                o.cols = 100;
                o.derivative = true;
                const int err = uvcc_nonlinear_build(&f, (uvcc_nonlinear)i, &o, &al);
                if (ops_only) {
                    assert_int_equal(err, UVCC_ERR_USAGE);
                    continue;
                }
                assert_int_equal(err, 0);
                const uint8_t in_bits = (uint8_t)bits;
                const uvcc_tensor_desc in = input_desc(4, 100, bits);
                uvcc_tensor_desc desc[2];
                uint8_t out_bits[2] = {0};
                char text[256];
                assert_int_equal(f.function.inputs, 1);
                if (uvcc_function_check(&f.function, 100, &in_bits, out_bits, text, sizeof text) !=
                    0)
                    fail_msg("%s, %u bits: %s", info->name, bits, text);
                assert_int_equal(uvcc_nonlinear_output((uvcc_nonlinear)i, &o, &in, desc),
                                 f.function.outputs);
                for (uint8_t k = 0; k < f.function.outputs; k++) {
                    assert_int_equal(desc[k].bits, out_bits[k]);
                    assert_int_equal(desc[k].cols, uvcc_function_cols(&f.function, 100, k));
                }
                uvcc_nonlinear_free(&f);
            }
    }
    assert_int_equal(counts.live_blocks, 0);
}

static uvcc_fn_cost cost_of(uvcc_nonlinear what, uvcc_nonlinear_options o) {
    const uvcc_allocator al = allocator();
    uvcc_nonlinear_fn f;
    uvcc_fn_cost cost;
    const uint32_t cols = o.cols != 0 ? o.cols : 1;
    assert_int_equal(uvcc_nonlinear_build(&f, what, &o, &al), 0);
    assert_int_equal(uvcc_function_cost(&f.function, cols, &cost), 0);
    uvcc_nonlinear_free(&f);
    print_message("%-22s %u bits, index %u, cols %u: rounds %u online %.2f key %.1f\n",
                  uvcc_nonlinear_at(what)->name, o.in_bits, o.index_bits, cols, cost.rounds,
                  cost.online_bytes, cost.key_bytes);
    return cost;
}

/* Rounds, and bytes of keys: for 25 bits at 8 index bits, and for the bits of the sweeps. */
static void test_costs(void **state) {
    (void)state;
    const struct {
        uvcc_nonlinear what;
        unsigned bits, index_bits, rounds;
        bool derivative;
        double key;
    } cases[] = {
        {UVCC_NL_SIGN, 25, 0, 3, false, 390 + 8}, /* 8: the bit as a number */
        {UVCC_NL_RELU, 25, 0, 3, false, 406},
        {UVCC_NL_GELU, 25, 8, 3, false, 422},
        {UVCC_NL_GELU, 25, 8, 3, true, 438},
        {UVCC_NL_SILU, 25, 8, 3, false, 422},
        {UVCC_NL_GELU, 22, 0, 3, false, 422},
        {UVCC_NL_GELU, 22, 0, 3, true, 438},
        {UVCC_NL_GELU_TANH, 22, 0, 3, true, 438},
        {UVCC_NL_SILU, 23, 0, 3, true, 438},
        {UVCC_NL_SILU_DERIVATIVE, 23, 0, 3, false, 422},
        {UVCC_NL_SIGMOID, 25, 0, 3, false, 422},
        {UVCC_NL_TANH, 23, 0, 3, false, 454},
        {UVCC_NL_EXP, 25, 0, 3, false, 390},
        {UVCC_NL_RECIPROCAL, 29, 0, 3, false, 1200},
        {UVCC_NL_RSQRT, 29, 0, 3, false, 1540},
        {UVCC_NL_LN, 27, 0, 3, false, 1900},
        {UVCC_NL_CLIP, 25, 0, 3, false, 440},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uvcc_nonlinear_options o = options(cases[i].bits, false);
        o.index_bits = (uint8_t)cases[i].index_bits;
        o.derivative = cases[i].derivative;
        const uvcc_fn_cost cost = cost_of(cases[i].what, o);
        assert_int_equal(cost.rounds, cases[i].rounds);
        assert_true(cost.key_bytes <= cases[i].key);
    }
    uvcc_nonlinear_options o = options(25, false);
    o.cols = 128;
    const uvcc_fn_cost max = cost_of(UVCC_NL_MAX, o);
    assert_int_equal(max.rounds, 15);
    assert_true(max.key_bytes <= 666);
    o.shallow = true;
    assert_int_equal(cost_of(UVCC_NL_MAX, o).rounds, 9);
    o = options(22, false);
    o.cols = 128;
    const uvcc_fn_cost softmax = cost_of(UVCC_NL_SOFTMAX, o);
    assert_true(softmax.rounds <= 15);
    assert_true(softmax.online_bytes <= 92);
    assert_true(softmax.key_bytes <= 740);
    assert_int_equal(cost_of(UVCC_NL_ARGMAX, o).rounds, 15);
}

static void test_options(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    uvcc_nonlinear_fn f;
    uvcc_nonlinear_options o = options(25, false);
    assert_int_equal(uvcc_nonlinear_find("gelu"), UVCC_NL_GELU);
    assert_int_equal(uvcc_nonlinear_find("gel"), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_nonlinear_find(NULL), UVCC_ERR_USAGE);
    assert_null(uvcc_nonlinear_at(UVCC_NL_COUNT));
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_COUNT, &o, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_nonlinear_build(NULL, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_MAX, &o, &al), UVCC_ERR_USAGE); /* cols */
    o.cols = (1u << 16) + 1;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_ARGMAX, &o, &al), UVCC_ERR_USAGE);
    o.cols--;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_ARGMAX, &o, &al), 0);
    uvcc_nonlinear_free(&f);
    o.saved = o.loss = true; /* one pair of columns or the other */
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_SOFTMAX, &o, &al), UVCC_ERR_USAGE);
    o.saved = o.loss = false;
    for (o.out_scale = 18; o.out_scale <= 37; o.out_scale++) {
        const bool fits = o.out_scale >= 19 && o.out_scale <= 36;
        assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_EXP, &o, &al), fits ? 0 : UVCC_ERR_USAGE);
        if (fits)
            uvcc_nonlinear_free(&f);
    }
    o.out_scale = 0;
    o.index_bits = 17;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    o.index_bits = 3;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    const uint8_t scale = o.scale;
    o.index_bits = 12;
    o.scale = 11; /* the index would have more fraction bits than the input */
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    o.scale = 12;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), 0);
    uvcc_nonlinear_free(&f);
    o.scale = scale;
    o.index_bits = 0;
    o.in_bits = 62;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    o.in_bits = 25;
    o.size = 8;
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, &o, &al), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, NULL, &al), 0);
    uvcc_nonlinear_free(&f);
    uvcc_nonlinear_free(&f);
    uvcc_nonlinear_free(NULL);
    counts = (test_alloc){.fail_at = 1};
    assert_int_equal(uvcc_nonlinear_build(&f, UVCC_NL_GELU, NULL, &al), UVCC_ERR_NOMEM);
    counts = (test_alloc){0};
}

/* ---- rows ---- */

static void test_max(void **state) {
    (void)state;
    const unsigned widths[] = {1, 2, 3, 5, 7, 8, 127, 128, 129, 1000};
    uint64_t seed = 11;
    for (unsigned w = 0; w < 2 * sizeof widths / sizeof widths[0]; w++) {
        const unsigned cols = widths[w / 2], rows = 9, bits = 25;
        const uvcc_tensor_desc in = input_desc(rows, cols, bits);
        const uvcc_nonlinear_options o = options(0, false);
        int64_t *x = malloc(sizeof *x * rows * cols);
        for (size_t i = 0; i < (size_t)rows * cols; i++) {
            x[i] = (int64_t)(test_rand(&seed) % (1u << 26)) - (1 << 25) + 1;
            if (i / cols % 3 == 1) /* ties */
                x[i] = x[i] & 1;
            if (i / cols % 3 == 2) /* the ends */
                x[i] = x[i] & 1 ? (1 << 25) - 1 : -(1 << 25) + 1;
            if (x[i] >= 1 << 25)
                x[i] = (1 << 25) - 1;
        }
        uvcc_nonlinear_options fours = o;
        fours.shallow = true;
        one max = one_of(UVCC_NL_MAX, w % 2 ? &fours : &o, &in, 0);
        one arg = one_of(UVCC_NL_ARGMAX, &o, &in, 0);
        assert_int_equal(max.desc[0].bits, bits);
        assert_int_equal(max.desc[0].cols, 1);
        assert_int_equal(uvcc_reference_set(max.r, max.in[0], x), 0);
        assert_int_equal(uvcc_reference_set(arg.r, arg.in[0], x), 0);
        one_run(&max);
        one_run(&arg);
        for (unsigned i = 0; i < rows; i++) {
            unsigned best = 0;
            for (unsigned j = 1; j < cols; j++)
                if (x[i * cols + j] > x[i * cols + best])
                    best = j;
            assert_int_equal(uvcc_reference_get(max.r, max.out[0])[i], x[i * cols + best]);
            assert_int_equal(uvcc_reference_get(arg.r, arg.out[0])[i], best);
        }
        free(x);
        uvcc_reference_free(max.r);
        uvcc_program_free(max.p);
        one_free(&arg);
    }
}

/* ---- compositions ---- */

/* All of the range; close together; one element far above the others, or just so far that their
 * exps are about one unit, where the sum is least exact. */
static void fill_rows(int64_t *x, unsigned rows, unsigned cols, uint64_t *seed) {
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        const bool top = i % cols == cols / 2;
        const int64_t r = (int64_t)(test_rand(seed) % (1u << 23)) - (1 << 22) + 1;
        switch (i / cols % 4) {
        case 0:
            x[i] = r;
            break;
        case 1:
            x[i] = r >> 5;
            break;
        case 2:
            x[i] = top ? 40 << F : r >> 3;
            break;
        default:
            x[i] = (40 << F) - (top ? 0 : (25 << (F - 1)) + (r >> 7));
        }
        if (x[i] >= 1 << 22)
            x[i] = (1 << 22) - 1;
    }
}

static double softmax_at(const int64_t *row, unsigned cols, unsigned j) {
    double sum = 0;
    for (unsigned i = 0; i < cols; i++)
        sum += exp(ldexp((double)(row[i] - row[j]), -F));
    return 1 / sum;
}

/* The error of an element: 1.2e-4 of it for the reciprocal, its exp's, and the sum's (of as many
 * exps as there are columns). */
static double softmax_bound(double p, unsigned cols) {
    return 1.2e-4 * p + 1.6e-5 + 1e-6 * cols * p + ldexp(1, -F);
}

static void softmax_case(unsigned rows, unsigned cols, bool exact, bool causal) {
    uvcc_nonlinear_options o = options(0, exact);
    const uvcc_tensor_desc in = input_desc(rows, cols, 22);
    uint64_t seed = cols;
    o.causal = causal;
    one n = one_of(UVCC_NL_SOFTMAX, &o, &in, 0);
    int64_t *x = malloc(sizeof *x * rows * cols);
    fill_rows(x, rows, cols, &seed);
    for (size_t i = 0; i < (size_t)rows * cols && causal; i++)
        if (i / cols % 5 == 3) /* what is masked is still below the least that there can be */
            x[i] = 1 - (1 << 22);
    assert_int_equal(uvcc_reference_set(n.r, n.in[0], x), 0);
    one_run(&n);
    const int64_t *y = uvcc_reference_get(n.r, n.out[0]);
    double worst = 0, worst_sum = 0, most = 0;
    for (unsigned i = 0; i < rows; i++) {
        const unsigned used = causal ? i % cols + 1 : cols;
        double sum = 0;
        for (unsigned j = 0; j < cols; j++) {
            const double have = ldexp((double)y[i * cols + j], -F);
            if (j >= used) {
                assert_int_equal(y[i * cols + j], 0);
                continue;
            }
            const double want =
                used <= 128 || j % 64 == used / 2 % 64 ? softmax_at(x + i * cols, used, j) : have;
            const double d = fabs(have - want), b = softmax_bound(want, used);
            worst = d / b > worst ? d / b : worst;
            most = d > most ? d : most;
            sum += have;
        }
        const double off = fabs(sum - 1) / (1.2e-4 + used * ldexp(1, -F));
        worst_sum = off > worst_sum ? off : worst_sum;
    }
    print_message("softmax %ux%u %s%s: error %.3g (%.2f of its bound), sums %.2f of theirs\n", rows,
                  cols, exact ? "exact" : "fast", causal ? " causal" : "", most, worst, worst_sum);
    assert_true(worst <= 1);
    assert_true(worst_sum <= 1);
    free(x);
    one_free(&n);
}

static void test_softmax(void **state) {
    (void)state;
    const unsigned widths[] = {1, 2, 3, 17, 128, 1000, 4096};
    for (unsigned exact = 0; exact < 2; exact++) {
        for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++)
            softmax_case(6, widths[i], exact, false);
        softmax_case(1, 1, exact, true);
        softmax_case(34, 17, exact, true);
        softmax_case(64, 64, exact, true);
    }
}

/* A fast row as a function: whatever the low bits of the masks are. */
static void fast_softmax_case(unsigned rows, unsigned cols, unsigned low) {
    uvcc_nonlinear_options o = options(22, false);
    const size_t n = (size_t)rows * cols;
    uint64_t seed = cols + low;
    o.cols = cols;
    fast f = fast_of(UVCC_NL_SOFTMAX, &o, 2 * n + 6 * rows);
    int64_t *x = malloc(sizeof *x * n), *y = malloc(sizeof *y * n);
    fill_rows(x, rows, cols, &seed);
    if (cols == 1)
        for (unsigned i = 0; i < rows; i++)
            (void)fast_rows(&f, 1, 1, x + i, &(int64_t *){y + i}, low, &seed);
    else
        (void)fast_rows(&f, n, cols, x, &y, low, &seed);
    double worst = 0, worst_sum = 0;
    for (unsigned i = 0; i < rows; i++) {
        double sum = 0;
        for (unsigned j = 0; j < cols; j++) {
            const double have = ldexp((double)y[i * cols + j], -F);
            if (cols <= 128 || j % 64 == cols / 2 % 64) {
                const double want = softmax_at(x + i * cols, cols, j);
                const double d = fabs(have - want) / softmax_bound(want, cols);
                worst = d > worst ? d : worst;
            }
            sum += have;
        }
        const double off = fabs(sum - 1) / (1.2e-4 + cols * ldexp(1, -F));
        worst_sum = off > worst_sum ? off : worst_sum;
    }
    print_message("softmax %ux%u, lows %u: %.2f of its bound, sums %.2f of theirs\n", rows, cols,
                  low, worst, worst_sum);
    assert_true(worst <= 1);
    assert_true(worst_sum <= 1);
    free(x);
    free(y);
    fast_free(&f);
}

static void test_fast_softmax(void **state) {
    (void)state;
    const unsigned widths[] = {1, 2, 3, 5, 17, 128, 1000, 4096};
    for (unsigned low = 0; low < LOWS; low++)
        for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++)
            fast_softmax_case(8, widths[i], low);
}

/* A row out of the columns that `saved` gives: the scale of its exps and of the result. */
static int64_t again(int64_t e, int64_t inverse, unsigned inverse_scale) {
    const int64_t product = e * inverse;
    assert_true(e >= 0 && inverse >= 0 && (e == 0 || product / e == inverse) &&
                product < 1ll << (UVCC_NL_SOFTMAX_EXP_SCALE + inverse_scale + 1));
    return product >> (UVCC_NL_SOFTMAX_EXP_SCALE + inverse_scale - F);
}

static uvcc_nonlinear_options exp_of_row(bool exact) {
    uvcc_nonlinear_options o = options(24, exact);
    o.out_scale = UVCC_NL_SOFTMAX_EXP_SCALE;
    return o;
}

/* In exact mode the integers of the function itself. */
static void softmax_again_case(unsigned rows, unsigned cols, bool headroom) {
    uvcc_nonlinear_options o = options(0, true);
    const uvcc_tensor_desc in = input_desc(rows, cols, 22);
    const uvcc_nonlinear_options eo = exp_of_row(true);
    const size_t n = (size_t)rows * cols;
    uint64_t seed = cols;
    o.saved = true;
    o.headroom = headroom;
    one f = one_of(UVCC_NL_SOFTMAX, &o, &in, 0);
    fast e = fast_of(UVCC_NL_EXP, &eo, n);
    int64_t *x = malloc(sizeof *x * n), *t = malloc(sizeof *t * n);
    fill_rows(x, rows, cols, &seed);
    assert_int_equal(f.outputs, 3);
    assert_int_equal(uvcc_reference_set(f.r, f.in[0], x), 0);
    one_run(&f);
    const int64_t *p = uvcc_reference_get(f.r, f.out[0]), *top = uvcc_reference_get(f.r, f.out[1]),
                  *inverse = uvcc_reference_get(f.r, f.out[2]);
    for (size_t i = 0; i < n; i++) {
        t[i] = top[i / cols] - x[i];
        assert_true(t[i] >= (headroom ? 1 << (F - UVCC_NL_HEADROOM_BITS) : 0));
    }
    (void)fast_rows(&e, n, 1, t, &(int64_t *){t}, LOW_ZERO, &seed);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(again(t[i], inverse[i / cols], f.desc[2].scale), p[i]);
    free(t);
    free(x);
    uvcc_reference_free(f.r);
    uvcc_program_free(f.p);
    fast_free(&e);
}

static void test_softmax_again(void **state) {
    (void)state;
    const unsigned widths[] = {1, 2, 3, 17, 128, 1000, 4096, 8192};
    for (unsigned i = 0; i < 2 * sizeof widths / sizeof widths[0]; i++)
        softmax_again_case(4, widths[i / 2], i % 2 != 0);
}

/* A fast row of x, again from values that lie up to 2^-4 beside x: what is the greatest by then
 * keeps its probability. */
static void rounded_again_case(unsigned rows, unsigned cols, unsigned low) {
    uvcc_nonlinear_options o = options(22, false);
    const uvcc_nonlinear_options eo = exp_of_row(false);
    const size_t n = (size_t)rows * cols;
    uint64_t seed = cols + low;
    o.cols = cols;
    o.saved = o.headroom = true;
    fast f = fast_of(UVCC_NL_SOFTMAX, &o, 2 * n + 6 * rows), e = fast_of(UVCC_NL_EXP, &eo, n);
    int64_t *x = malloc(sizeof *x * n), *y = malloc(sizeof *y * n), *t = malloc(sizeof *t * n),
            *top = malloc(sizeof *top * rows), *inverse = malloc(sizeof *inverse * rows),
            *beside = malloc(sizeof *beside * n);
    fill_rows(x, rows, cols, &seed);
    (void)fast_rows(&f, n, cols, x, (int64_t *[]){y, top, inverse}, low, &seed);
    for (size_t i = 0; i < n; i++) {
        beside[i] = (int64_t)(test_rand(&seed) % (1 << (F - 3))) - (1 << (F - 4));
        t[i] = top[i / cols] - x[i] - beside[i];
        assert_true(t[i] > 0);
    }
    (void)fast_rows(&e, n, 1, t, &(int64_t *){t}, low, &seed);
    for (size_t i = 0; i < n; i++) {
        const double want =
            softmax_at(x + i / cols * cols, cols, i % cols) * exp(ldexp((double)beside[i], -F));
        const double have = ldexp((double)again(t[i], inverse[i / cols], 27), -F);
        assert_true(fabs(have - want) <= softmax_bound(want, cols));
    }
    uvcc_nonlinear_free(&e.fn); /* before what counts blocks */
    fast_free(&f);
    fast_free(&e);
    free(beside);
    free(inverse);
    free(top);
    free(t);
    free(y);
    free(x);
}

static void test_rounded_again(void **state) {
    (void)state;
    for (unsigned low = 0; low < LOWS; low++) {
        rounded_again_case(8, 2, low);
        rounded_again_case(8, 17, low);
        rounded_again_case(8, 500, low);
    }
}

/* Rows of up to 65,536 columns, as many as docs/nonlinear.md says. */
static void test_long_rows(void **state) {
    (void)state;
    const uvcc_nonlinear_options o = options(0, true);
    softmax_case(2, 65536, true, false);
    for (uint32_t cols = 4096; cols <= 65536; cols *= 2) {
        const uvcc_allocator al = allocator();
        uvcc_tensor_desc d = input_desc((1u << 25) / cols, cols, 34), out;
        uvcc_program *p = NULL;
        uvcc_op_cost cost = {0};
        char why[256] = "";
        assert_int_equal(uvcc_program_new(&p, &al), 0);
        assert_true(uvcc_program_entry(p, "run") >= 0);
        const uint32_t x = (uint32_t)uvcc_program_tensor(p, &d);
        assert_int_equal(uvcc_nonlinear_output(UVCC_NL_SOFTMAX, &o, &d, &out), 1);
        out.name = "Y";
        const uint32_t y = (uint32_t)uvcc_program_tensor(p, &out);
        uvcc_emit e = {.program = p, .prefix = "t", .alloc = &al};
        assert_true(uvcc_program_input(p, 0, x, 0) >= 0);
        assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_SOFTMAX, &o, &x, &y), 0);
        if (uvcc_program_finish(p, why, sizeof why) != 0)
            fail_msg("%s", why);
        for (uint32_t i = 0; i < uvcc_program_op_count(p, 0); i++)
            assert_int_equal(uvcc_program_cost(p, 0, i, &cost), 0); /* a session takes it */
        assert_true(cost.preprocessing_bytes > 0);
        uvcc_program_free(p);
    }
    assert_int_equal(counts.live_blocks, 0);
}

static void test_cross_entropy(void **state) {
    (void)state;
    enum { ROWS = 6, COLS = 10 };
    const uvcc_tensor_desc in[2] = {input_desc(ROWS, COLS, 22),
                                    {.name = "onehot",
                                     .rows = ROWS,
                                     .cols = COLS,
                                     .bits = F + 1,
                                     .scale = F,
                                     .lifetime = UVCC_TRANSIENT,
                                     .in_buffer_of = UVCC_NO_TENSOR}};
    uvcc_nonlinear_options o = options(0, true);
    int64_t x[ROWS * COLS], hot[ROWS * COLS] = {0};
    uint64_t seed = 5;
    fill_rows(x, ROWS, COLS, &seed);
    for (unsigned i = 0; i < ROWS; i++)
        hot[i * COLS + i] = 1 << F;
    o.loss = true;
    one n = one_of(UVCC_NL_CROSS_ENTROPY_GRADIENT, &o, in, 0);
    assert_int_equal(uvcc_reference_set(n.r, n.in[0], x), 0);
    assert_int_equal(uvcc_reference_set(n.r, n.in[1], hot), 0);
    one_run(&n);
    for (unsigned i = 0; i < ROWS * COLS; i++) {
        const double p = softmax_at(x + i / COLS * COLS, COLS, i % COLS);
        const double have = ldexp((double)uvcc_reference_get(n.r, n.out[0])[i], -F);
        assert_true(fabs(have - (p - (hot[i] != 0))) <= softmax_bound(p, COLS));
    }
    /* the logarithm's error, the sum's, and units of both scales */
    assert_int_equal(n.desc[1].cols, 1);
    for (unsigned i = 0; i < ROWS; i++)
        near_by(ldexp((double)uvcc_reference_get(n.r, n.out[1])[i], -n.desc[1].scale),
                -log(softmax_at(x + i * COLS, COLS, i)), 1.3e-4 + 5e-6 * COLS + ldexp(2, -F));
    one_free(&n);
}

static uvcc_tensor_desc row_desc(const char *name, unsigned cols) {
    return (uvcc_tensor_desc){.name = name,
                              .rows = 1,
                              .cols = cols,
                              .bits = 18,
                              .scale = F,
                              .lifetime = UVCC_TRANSIENT,
                              .in_buffer_of = UVCC_NO_TENSOR};
}

static double mean_of(const int64_t *x, unsigned n, double centre, bool square) {
    double sum = 0;
    for (unsigned i = 0; i < n; i++) {
        const double v = ldexp((double)x[i], -F) - centre;
        sum += square ? v * v : v;
    }
    return sum / n;
}

/* Rows of standard deviation 64 / sqrt(3) down to 1/16 about a mean of up to 16; gains in (-4, 4).
 */
static void norm_case(unsigned cols, bool exact, bool layer, bool saved, bool plain) {
    enum { ROWS = 6 };
    uvcc_nonlinear_options o = options(0, exact);
    const uvcc_tensor_desc in[3] = {input_desc(ROWS, cols, 22), row_desc("gamma", cols),
                                    row_desc("beta", cols)};
    int64_t *x = malloc(sizeof *x * ROWS * cols), *g = malloc(sizeof *g * cols),
            *shift = malloc(sizeof *shift * cols);
    uint64_t seed = cols + layer;
    o.epsilon = 2.5e-3;
    for (unsigned i = 0; i < ROWS * cols; i++) {
        const unsigned down = 2 * (i / cols);
        const int64_t r = (int64_t)(test_rand(&seed) % (1u << 23)) - (1 << 22) + 1;
        x[i] = i / cols == 0 ? r : (r >> down) + (layer ? (16 << F) / (int)(i / cols) : 0);
        x[i] = x[i] >= 1 << 22 ? (1 << 22) - 1 : x[i];
    }
    for (unsigned j = 0; j < cols; j++) {
        g[j] = (int64_t)(test_rand(&seed) % (1u << 19)) - (1 << 18) + 1;
        g[j] = g[j] >= 1 << 18 ? 0 : g[j];
        shift[j] = -g[j] / 2;
        g[j] = plain ? 1 << F : g[j];
        shift[j] = plain ? 0 : shift[j];
    }
    o.saved = saved;
    o.plain = plain;
    const unsigned factor = plain ? 1 : 2; /* output: the column of 1 / sqrt(..) */
    one n = one_of(layer ? UVCC_NL_LAYERNORM : UVCC_NL_RMSNORM, &o, in, 0);
    assert_int_equal(n.outputs, saved ? factor + 1 : 1);
    assert_int_equal(uvcc_reference_set(n.r, n.in[0], x), 0);
    if (!plain)
        assert_int_equal(uvcc_reference_set(n.r, n.in[1], g), 0);
    if (!plain && layer)
        assert_int_equal(uvcc_reference_set(n.r, n.in[2], shift), 0);
    one_run(&n);
    const int64_t *y = uvcc_reference_get(n.r, n.out[0]);
    const int64_t *z = saved ? uvcc_reference_get(n.r, n.out[factor - 1]) : NULL;
    const int64_t *root = saved ? uvcc_reference_get(n.r, n.out[factor]) : NULL;
    double worst = 0, most = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        const double mean = layer ? mean_of(x + i * cols, cols, 0, false) : 0;
        const double inverse = 1 / sqrt(mean_of(x + i * cols, cols, mean, true) + o.epsilon);
        for (unsigned j = 0; j < cols; j++) {
            const double gain = ldexp((double)g[j], -F);
            const double normed = gain * (ldexp((double)x[i * cols + j], -F) - mean) * inverse;
            const double want = normed + (layer ? ldexp((double)shift[j], -F) : 0);
            const double d = fabs(ldexp((double)y[i * cols + j], -F) - want);
            /* the root; two floors, one of them scaled by gamma (one, where there is none); the
             * mean's floor */
            const double b = 1.6e-4 * fabs(normed) +
                             ldexp((plain ? 0 : 1) + fabs(gain) * (1 + (layer ? inverse : 0)), -F);
            worst = d / b > worst ? d / b : worst;
            most = d > most ? d : most;
            const double gainless = (ldexp((double)x[i * cols + j], -F) - mean) * inverse;
            if (saved)
                near_by(ldexp((double)z[i * cols + j], -F), gainless,
                        1.6e-4 * fabs(gainless) + ldexp(1 + (layer ? inverse : 0), -F));
        }
        if (!saved)
            continue;
        assert_int_equal(n.desc[factor].scale, 22);
        near(ldexp((double)root[i], -22), inverse, 1.6e-4 + ldexp(layer ? 1 : 0, -F));
    }
    print_message("%s %ux%u %s%s%s: error %.3g (%.2f of its bound)\n",
                  layer ? "layernorm" : "rmsnorm", ROWS, cols, exact ? "exact" : "fast",
                  plain ? " plain" : "", saved ? " saved" : "", most, worst);
    assert_true(worst <= 1);
    free(x);
    free(g);
    free(shift);
    one_free(&n);
}

static void test_norms(void **state) {
    (void)state;
    const unsigned widths[] = {1, 2, 3, 64, 100, 768, 1024, 4096};
    for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (unsigned k = 0; k < 16; k++)
            norm_case(widths[i], k & 1, k >> 1 & 1, k >> 2 & 1, k >> 3);
}

/* A gain that waits for nothing is multiplied in before the root, and one truncation ends both: its
 * product's bits are those that |x| / root <= sqrt(cols) and the gain's own allow, and two more at
 * most. */
static void test_norms_in_one_truncation(void **state) {
    enum { SCALE = 8 };
    (void)state;
    for (unsigned k = 0; k < 8; k++)
        for (unsigned cols = 2; cols <= 4096; cols *= 2) {
            uvcc_nonlinear_options o = options(0, k & 1);
            uvcc_tensor_desc in[3] = {input_desc(4, cols, 12), row_desc("gamma", cols),
                                      row_desc("beta", cols)};
            unsigned found = 0;
            o.epsilon = k == 0 ? 1 : 2.5e-3;   /* 1 is the most */
            in[0].scale = in[2].scale = SCALE; /* so that the square is whole */
            if (k >> 2 != 0)
                in[1].bits = 24;
            one n = one_of(k >> 1 & 1 ? UVCC_NL_LAYERNORM : UVCC_NL_RMSNORM, &o, in, 0);
            for (uint32_t i = 0; i < uvcc_program_op_count(n.p, 0); i++) {
                const uvcc_op_desc *d = uvcc_program_op_at(n.p, 0, i);
                if (d->opcode != UVCC_OP_ROW_MUL || (d->flags & UVCC_OP_WITHIN) == 0)
                    continue;
                const uvcc_tensor_desc *factor = uvcc_program_tensor_at(n.p, d->in[1]);
                const double most =
                    ldexp(sqrt(cols), SCALE + factor->scale + in[1].bits - 1); /* of the product */
                assert_true(ldexp(1, (int)d->constant - 1) >= most);
                assert_true(ldexp(1, (int)d->constant - 1) <= 4 * most);
                found++;
            }
            assert_int_equal(found, 1);
            one_free(&n);
        }
}

/* The loss takes what the target's row has from the row's greatest: its difference has a bit more
 * than the wider of both, under a causal mask too. */
static void test_bits_of_losses(void **state) {
    (void)state;
    for (unsigned k = 0; k < 4; k++) {
        uvcc_nonlinear_options o = options(0, k & 1);
        uvcc_tensor_desc in[3] = {input_desc(8, 8, 20), input_desc(8, 8, 18)};
        unsigned found = 0;
        in[1].name = "Y";
        o.loss = true;
        o.causal = k >> 1;
        one n = one_of(UVCC_NL_CROSS_ENTROPY_GRADIENT, &o, in, 0);
        for (uint32_t i = 0; i < uvcc_program_op_count(n.p, 0); i++) {
            const uvcc_op_desc *d = uvcc_program_op_at(n.p, 0, i);
            const uvcc_tensor_desc *z = uvcc_program_tensor_at(n.p, d->out[0]);
            if (d->opcode != UVCC_OP_SUB || z->cols != 1)
                continue;
            for (unsigned j = 0; j < 2; j++)
                assert_true(z->bits > uvcc_program_tensor_at(n.p, d->in[j])->bits);
            found++;
        }
        assert_int_equal(found, 1);
        one_free(&n);
    }
}

/* ---- sessions ---- */

/* What three parties open is the reference's result: in exact mode to the bit, in fast mode, whose
 * roundings are random, to within `off`. */
static void secure_case(uvcc_nonlinear what, bool exact, bool dcf, bool plain,
                        const uvcc_tensor_desc *in, const int64_t *const *x, double off) {
    uvcc_nonlinear_options o = options(0, exact);
    o.derivative = true;
    o.epsilon = 2.5e-3;
    o.plain = o.saved = plain;
    o.dcf = dcf;
    one n = one_of(what, &o, in, 0);
    triangle t;
    triangle_open(&t, n.p, &(triangle_options){.seed = what});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned i = 0; i < inputs_of(what, &o); i++) {
        assert_int_equal(uvcc_reference_set(n.r, n.in[i], x[i]), 0);
        triangle_input(&t, 0, 0, i, x[i]);
    }
    one_run(&n);
    triangle_finish(&t, 1);
    for (unsigned k = 0; k < n.outputs; k++) {
        const int64_t *want = uvcc_reference_get(n.r, n.out[k]);
        for (unsigned p = 0; p < 3; p++) {
            const int64_t *have = uvcc_session_output(t.s[p], 0, k);
            assert_non_null(have);
            for (unsigned i = 0; i < n.desc[k].rows * n.desc[k].cols; i++)
                if (fabs(ldexp((double)have[i] - (double)want[i], -n.desc[k].scale)) > off)
                    fail_msg("%s %u: %lld, not %lld", uvcc_nonlinear_at(what)->name, i,
                             (long long)have[i], (long long)want[i]);
        }
    }
    triangle_close(&t);
    triangle_free(&t);
    one_free(&n);
}

static void test_sessions(void **state) {
    (void)state;
    enum { ROWS = 5, COLS = 11 };
    const struct {
        uvcc_nonlinear what;
        double off; /* in fast mode */
    } cases[] = {
        {UVCC_NL_SIGN, 0},       {UVCC_NL_SIGMOID, 1e-3},    {UVCC_NL_RELU, 0},
        {UVCC_NL_GELU, 4e-3},    {UVCC_NL_MAX, 0},           {UVCC_NL_ARGMAX, 0},
        {UVCC_NL_SOFTMAX, 4e-4}, {UVCC_NL_RMSNORM, 4e-3},    {UVCC_NL_LAYERNORM, 4e-3},
        {UVCC_NL_EXP, 8e-6},     {UVCC_NL_RECIPROCAL, 4e-3}, {UVCC_NL_RSQRT, 4e-3},
        {UVCC_NL_LN, 3e-4},      {UVCC_NL_CLIP, 4e-3},
    };
    const uvcc_tensor_desc in[3] = {input_desc(ROWS, COLS, 22), row_desc("gamma", COLS),
                                    row_desc("beta", COLS)};
    int64_t x[ROWS * COLS], positive[ROWS * COLS], gamma[COLS], beta[COLS];
    uint64_t seed = 1;
    fill_rows(x, ROWS, COLS, &seed);
    for (unsigned i = 0; i < ROWS * COLS; i++) {
        if (llabs(x[i]) < 300) /* where fast mode may differ on the sign */
            x[i] = 300;
        positive[i] = llabs(x[i]);
    }
    for (unsigned i = 0; i < COLS; i++) {
        gamma[i] = (1 << F) + (int64_t)i * 1000;
        beta[i] = (int64_t)i * 77;
    }
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned exact = 0; exact < 2; exact++) {
            const bool least = cases[i].what == UVCC_NL_EXP ||
                               cases[i].what == UVCC_NL_RECIPROCAL ||
                               cases[i].what == UVCC_NL_RSQRT || cases[i].what == UVCC_NL_LN;
            const int64_t *const given[3] = {least ? positive : x, gamma, beta};
            const bool norm =
                cases[i].what == UVCC_NL_RMSNORM || cases[i].what == UVCC_NL_LAYERNORM;
            for (unsigned plain = 0; plain <= norm; plain++)
                for (unsigned dcf = 0; dcf <= (norm && exact); dcf++)
                    secure_case(cases[i].what, exact != 0, dcf != 0, plain != 0, in, given,
                                exact ? 0 : cases[i].off);
        }
}

/* Truncations by DCFs save the norms a round each. */
static void test_dcf(void **state) {
    (void)state;
    const uvcc_tensor_desc in[3] = {input_desc(5, 11, 22), row_desc("gamma", 11),
                                    row_desc("beta", 11)};
    for (unsigned layer = 0; layer < 2; layer++) {
        uint32_t rounds[2];
        for (unsigned dcf = 0; dcf < 2; dcf++) {
            uvcc_nonlinear_options o = options(0, true);
            o.dcf = dcf != 0;
            one n = one_of(layer ? UVCC_NL_LAYERNORM : UVCC_NL_RMSNORM, &o, in, 0);
            assert_int_equal(uvcc_program_rounds(n.p, 0, NULL, &rounds[dcf]), 0);
            one_free(&n);
        }
        assert_true(rounds[1] < rounds[0]);
        print_message("%s: %u rounds, by DCFs %u\n", layer ? "layernorm" : "rmsnorm", rounds[0],
                      rounds[1]);
    }
}

/* Blocks of one shape share their functions. */
static void test_functions_once(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    const uvcc_nonlinear_options o = options(0, false);
    const uvcc_tensor_desc in = input_desc(4, 32, 22);
    one n = {0};
    char text[512];
    assert_int_equal(uvcc_program_new(&n.p, &al), 0);
    assert_true(uvcc_program_entry(n.p, "run") >= 0);
    n.in[0] = (uint32_t)uvcc_program_tensor(n.p, &in);
    assert_true(uvcc_program_input(n.p, 0, n.in[0], 0) >= 0);
    uvcc_emit e = {.program = n.p, .prefix = "t", .alloc = &al};
    for (unsigned i = 0; i < 2; i++) {
        uvcc_tensor_desc out;
        assert_int_equal(uvcc_nonlinear_output(UVCC_NL_SOFTMAX, &o, &in, &out), 1);
        out.name = i == 0 ? "P" : "Q";
        n.out[i] = (uint32_t)uvcc_program_tensor(n.p, &out);
        assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_SOFTMAX, &o, n.in, &n.out[i]), 0);
        assert_true(uvcc_program_output(n.p, i, n.out[i]) >= 0);
    }
    if (uvcc_program_finish(n.p, text, sizeof text) != 0)
        fail_msg("%s", text);
    assert_non_null(uvcc_program_function_at(n.p, 0));
    assert_null(uvcc_program_function_at(n.p, 1));
    uvcc_program_free(n.p);
    assert_int_equal(counts.live_blocks, 0);
}

static void test_emit_refuses(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    const uvcc_tensor_desc in = input_desc(4, 32, 22);
    uvcc_nonlinear_options o = options(0, false);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    const uint32_t x = (uint32_t)uvcc_program_tensor(p, &in), none = 7;
    uvcc_emit e = {.program = p, .prefix = "t", .alloc = &al};
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_GELU, &o, &none, &x), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_GELU, &o, &x, &none), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_COUNT, &o, &x, &x), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_emit_nonlinear(NULL, UVCC_NL_GELU, &o, &x, &x), UVCC_ERR_USAGE);
    e.prefix = "a prefix that is too long for the names of tensors";
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_GELU, &o, &x, &x), UVCC_ERR_USAGE);
    e.prefix = "t";
    o.epsilon = -1;
    const uint32_t norm[2] = {x, x};
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_RMSNORM, &o, norm, &x), UVCC_ERR_USAGE);
    /* A tensor between its ops would have more fraction bits than there are. */
    const uvcc_tensor_desc fine = {.name = "fine",
                                   .rows = 2,
                                   .cols = 4,
                                   .bits = 20,
                                   .scale = 45,
                                   .lifetime = UVCC_TRANSIENT,
                                   .in_buffer_of = UVCC_NO_TENSOR};
    const uint32_t f = (uint32_t)uvcc_program_tensor(p, &fine);
    const uvcc_nonlinear_options plain = {.size = sizeof plain, .plain = true};
    assert_int_equal(uvcc_emit_nonlinear(&e, UVCC_NL_LAYERNORM, &plain, &f, &f), UVCC_ERR_BOUND);
    uvcc_program_free(p);
    assert_int_equal(counts.live_blocks, 0);
}

/* Emission fails cleanly at every allocation. */
static void test_emit_without_memory(void **state) {
    (void)state;
    const uvcc_allocator al = allocator();
    const uvcc_tensor_desc in = input_desc(4, 32, 22);
    const uvcc_nonlinear_options o = options(0, true);
    for (size_t fail_at = 1;; fail_at++) {
        uvcc_program *p;
        assert_int_equal(uvcc_program_new(&p, &al), 0);
        assert_true(uvcc_program_entry(p, "run") >= 0);
        const uint32_t x = (uint32_t)uvcc_program_tensor(p, &in);
        uvcc_tensor_desc out;
        assert_int_equal(uvcc_nonlinear_output(UVCC_NL_SOFTMAX, &o, &in, &out), 1);
        out.name = "P";
        const uint32_t y = (uint32_t)uvcc_program_tensor(p, &out);
        uvcc_emit e = {.program = p, .prefix = "t", .alloc = &al};
        counts.calls = 0;
        counts.fail_at = fail_at;
        const int err = uvcc_emit_nonlinear(&e, UVCC_NL_SOFTMAX, &o, &x, &y);
        counts.fail_at = 0;
        uvcc_program_free(p);
        assert_int_equal(counts.live_blocks, 0);
        if (err == 0)
            break;
        assert_int_equal(err, UVCC_ERR_NOMEM);
        assert_true(fail_at < 1000);
    }
}

static int forget_allocations(void **state) {
    (void)state;
    counts = (test_alloc){0};
    return 0;
}

#define TEST(f) cmocka_unit_test_setup(f, forget_allocations)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_options),
        TEST(test_checks),
        TEST(test_costs),
        TEST(test_zero),
        TEST(test_saturation),
        TEST(test_inverse_ends),
        TEST(test_coarse_inverses),
        TEST(test_ln_ends),
        TEST(test_clip_limits),
        TEST(test_raise),
        TEST(test_scales),
        TEST(test_large_scales),
        TEST(test_gain),
        TEST(test_max),
        TEST(test_softmax),
        TEST(test_fast_softmax),
        TEST(test_softmax_again),
        TEST(test_rounded_again),
        TEST(test_long_rows),
        TEST(test_cross_entropy),
        TEST(test_norms),
        TEST(test_norms_in_one_truncation),
        TEST(test_bits_of_losses),
        TEST(test_sessions),
        TEST(test_dcf),
        TEST(test_functions_once),
        TEST(test_emit_refuses),
        TEST(test_emit_without_memory),
        TEST(test_sweeps_fast),
        TEST(test_sweeps_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
