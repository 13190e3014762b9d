/* SPDX-License-Identifier: Apache-2.0 */
/* measure_real.c - see measure_real.h. */
#include "measure_real.h"

#include <math.h>

#include "draw.h"

static const double PI = 3.14159265358979323846;

/* ---- the real functions ---- */

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double gelu_derivative(double x) {
    return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * PI);
}

static double gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / PI) * (x + 0.044715 * x * x * x)));
}

/* By the C library in double, from the definitions and not from the tables that are measured. */
double measure_real_at(uvcc_nonlinear what, double x) {
    switch (what) {
    case UVCC_NL_SIGN:
        return x >= 0;
    case UVCC_NL_RELU:
        return x >= 0 ? x : 0;
    case UVCC_NL_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case UVCC_NL_GELU_TANH:
        return gelu_tanh(x);
    case UVCC_NL_SILU:
        return x * sigmoid(x);
    case UVCC_NL_GELU_DERIVATIVE:
        return gelu_derivative(x);
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
    case UVCC_NL_RSQRT:
        return 1 / sqrt(x);
    case UVCC_NL_LN:
        return log(x);
    case UVCC_NL_CLIP:
        return fmin(fmax(x, -1), 1);
    default:
        return x;
    }
}

bool measure_relative(uvcc_nonlinear what) {
    return what == UVCC_NL_RECIPROCAL || what == UVCC_NL_RSQRT;
}

/* Inputs of all octaves count alike. */
static bool by_octaves(uvcc_nonlinear what) {
    return measure_relative(what) || what == UVCC_NL_LN;
}

/* ---- shapes ---- */

static double unit(int64_t x) {
    return ldexp((double)x, -MEASURE_SCALE);
}

static bool is_norm(uvcc_nonlinear what) {
    return what == UVCC_NL_RMSNORM || what == UVCC_NL_LAYERNORM;
}

/* The ends of the range; what 25 bits declare has none of its own. */
static int64_t lowest(uvcc_nonlinear what) {
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    return llround(ldexp(info->low, MEASURE_SCALE)) + (info->high == 512);
}

static int64_t highest(uvcc_nonlinear what) {
    const uvcc_nonlinear_info *info = uvcc_nonlinear_at(what);
    return llround(ldexp(info->high, MEASURE_SCALE)) - (info->high == 512);
}

uint8_t measure_bits(uvcc_nonlinear what, unsigned i) {
    uint8_t bits = 1;
    if (i > 0)
        return MEASURE_SCALE + 2 - (what == UVCC_NL_CROSS_ENTROPY_GRADIENT);
    while (1ll << bits <= highest(what))
        bits++;
    return bits;
}

measure_shape measure_shape_of(uvcc_nonlinear what, unsigned i, measure_shape x) {
    return i > 0 && is_norm(what) ? (measure_shape){1, x.cols} : x;
}

uvcc_nonlinear_options measure_options(uvcc_nonlinear what, bool exact, bool plain, uint32_t cols) {
    return (uvcc_nonlinear_options){.size = sizeof(uvcc_nonlinear_options),
                                    .scale = MEASURE_SCALE,
                                    .in_bits = measure_bits(what, 0),
                                    .exact = exact,
                                    .plain = plain,
                                    .cols = cols,
                                    .epsilon = is_norm(what) ? MEASURE_EPSILON : 0};
}

/* ---- inputs of element functions ---- */

typedef struct inputs {
    int64_t *x;
    size_t count, room;
    int64_t least, most; /* what the function may be given */
} inputs;

static void take(inputs *s, int64_t x) {
    if (s->count < s->room && x >= s->least && x <= s->most)
        s->x[s->count++] = x;
}

static void around(inputs *s, int64_t x, int64_t reach) {
    for (int64_t d = -reach; d <= reach; d++)
        take(s, x + d);
}

/* From the low to the high end, both included: evenly, or by a constant factor. */
static int64_t sweep_at(uvcc_nonlinear what, size_t i, size_t count) {
    const double low = (double)lowest(what), high = (double)highest(what);
    const double t = count > 1 ? (double)i / (double)(count - 1) : 0;
    return llround(by_octaves(what) ? low * pow(high / low, t) : low + (high - low) * t);
}

static void take_edges(inputs *s, uvcc_nonlinear what) {
    around(s, lowest(what), 2);
    around(s, highest(what), 2);
    around(s, 0, 3);
    take(s, s->least);
    take(s, s->most);
    for (int64_t x = 4; x <= s->most && x > 0; x *= 2) {
        around(s, x, 1);
        around(s, -x, 1);
    }
}

/* Both sides of the ends of index cells, as many as there is room for. */
static void take_knots(inputs *s, uvcc_nonlinear what) {
    const int64_t low = lowest(what), high = highest(what);
    const unsigned index_bits = uvcc_nonlinear_at(what)->index_bits;
    const size_t room = (s->room - s->count) / 3;
    if (by_octaves(what)) { /* cells of the mantissa */
        for (size_t i = 0; i < room; i++) {
            const int64_t x = sweep_at(what, i, room);
            const int width = ilogb((double)x) - (int)index_bits;
            around(s, width > 0 ? x >> width << width : x, 1);
        }
        return;
    }
    const int64_t cell = 1ll << (MEASURE_SCALE - index_bits);
    const int64_t every = cell * (1 + (high - low) / cell / (int64_t)(room != 0 ? room : 1));
    for (int64_t x = low - low % cell; x <= high; x += every)
        around(s, x, 1);
}

static int64_t random_from(uint64_t *random, int64_t low, int64_t high) {
    return low + (int64_t)(draw(random) % (uint64_t)(high - low + 1));
}

/* All of the range, the middle of it, or (rarely) all that the bits allow. */
static int64_t random_input(uvcc_nonlinear what, const inputs *s, uint64_t *random) {
    const int64_t low = lowest(what), high = highest(what), middle = 8ll << MEASURE_SCALE;
    const uint64_t kind = draw(random) % 16;
    if (kind == 0)
        return random_from(random, s->least, s->most);
    if (by_octaves(what))
        return sweep_at(what, draw(random) % (1ull << 40), 1ull << 40);
    if (kind < 8)
        return random_from(random, low < -middle ? -middle : low, middle);
    return random_from(random, low, high);
}

void measure_elements(uvcc_nonlinear what, uint64_t *random, int64_t *x, size_t count) {
    inputs s = {.x = x, .room = count / 4 + 1, .most = (1ll << measure_bits(what, 0)) - 1};
    s.least = what == UVCC_NL_EXP ? 0 : -s.most;
    if (s.room > count)
        s.room = count;
    take_edges(&s, what);
    take_knots(&s, what);
    s.room = count;
    const size_t even = (count - s.count) / 2;
    for (size_t i = 0; i < even; i++)
        take(&s, sweep_at(what, i, even));
    while (s.count < count)
        take(&s, random_input(what, &s, random));
}

/* ---- inputs of functions of rows ---- */

/* MAX, ARGMAX: random, ties, the ends, and a greatest element that moves through the row. */
static int64_t tree_input(uvcc_nonlinear what, uint64_t *random, uint32_t row, bool top) {
    const int64_t high = highest(what), r = random_from(random, -high, high);
    switch (row % 4) {
    case 0:
        return r;
    case 1:
        return r & 1;
    case 2:
        return r & 1 ? high : -high;
    default:
        return top ? r >> 20 : -high + (r & 3);
    }
}

/* All of the range; close together; one element far above the others, or just so far that their
 * exps are about a unit; equal; at the ends; all that the bits allow. */
static int64_t softmax_input(uvcc_nonlinear what, uint64_t *random, uint32_t row, bool top) {
    const int64_t high = highest(what), r = random_from(random, -high, high);
    switch (row % 8) {
    case 0:
    case 1:
        return r;
    case 2:
        return r >> 5;
    case 3:
        return top ? 40ll << MEASURE_SCALE : r >> 3;
    case 4:
        return (40ll << MEASURE_SCALE) - (top ? 0 : (25ll << (MEASURE_SCALE - 1)) + (r >> 7));
    case 5:
        return -high + (int64_t)row;
    case 6:
        return r & 1 ? high : -high;
    default:
        return r >= 0 ? 2 * high - 1 - (r >> 9) : r;
    }
}

/* Widths from the range down to 1/16, some about a mean, constant rows, one element alone. */
static int64_t norm_input(uvcc_nonlinear what, uint64_t *random, uint32_t row, bool top) {
    const int64_t high = highest(what), r = random_from(random, -high, high);
    const unsigned down = row % 8 < 6 ? 2 * (row % 8) : 0;
    const int64_t mean = row % 8 != 0 && row / 8 % 2 != 0 ? (16ll << MEASURE_SCALE) / (row % 8) : 0;
    switch (row % 8) {
    case 6:
        return row / 8 % 2 != 0 ? high : (int64_t)row;
    case 7:
        return top ? high : 0;
    default:
        return (r >> down) + mean > high ? high : (r >> down) + mean;
    }
}

void measure_rows(uvcc_nonlinear what, uint64_t *random, measure_shape s,
                  int64_t *const in[MEASURE_INPUTS_MAX]) {
    for (uint32_t i = 0; i < s.rows; i++) {
        const uint32_t first = (uint32_t)(draw(random) % s.cols);
        for (uint32_t j = 0; j < s.cols; j++) {
            int64_t *x = &in[0][(size_t)i * s.cols + j];
            if (is_norm(what))
                *x = norm_input(what, random, i, j == first);
            else if (uvcc_nonlinear_at(what)->form == UVCC_NL_ROW)
                *x = tree_input(what, random, i, j == first);
            else
                *x = softmax_input(what, random, i, j == first);
            if (what == UVCC_NL_CROSS_ENTROPY_GRADIENT)
                in[1][(size_t)i * s.cols + j] = (int64_t)(j == first) << MEASURE_SCALE;
        }
    }
    for (uint32_t j = 0; is_norm(what) && in[1] != NULL && j < s.cols; j++) {
        const int64_t most = (1ll << measure_bits(what, 1)) - 1;
        in[1][j] = random_from(random, -most, most);
        if (what == UVCC_NL_LAYERNORM)
            in[2][j] = random_from(random, -most, most);
    }
}

/* ---- real values and bounds ---- */

/* EXP keeps its bound beyond the range. */
static bool within(uvcc_nonlinear what, int64_t x) {
    return what == UVCC_NL_EXP || (x >= lowest(what) && x <= highest(what));
}

/* Fast SIGN is exact on the reduced value, which is not decided within a cell below 0. */
static bool undecided(uvcc_nonlinear what, bool exact, int64_t x) {
    const int64_t cell = 1ll << (MEASURE_SCALE - uvcc_nonlinear_at(what)->index_bits);
    return what == UVCC_NL_SIGN && !exact && x < 0 && x > -cell;
}

static void real_elements(uvcc_nonlinear what, bool exact, size_t count, const int64_t *x,
                          double *want, double *bound) {
    const double most = exact && (what == UVCC_NL_RELU || what == UVCC_NL_CLIP)
                            ? 0
                            : uvcc_nonlinear_at(what)->bound;
    for (size_t i = 0; i < count; i++) {
        want[i] = measure_real_at(what, unit(x[i]));
        bound[i] = within(what, x[i]) && !undecided(what, exact, x[i]) ? most : -1;
    }
}

static void real_tree(uvcc_nonlinear what, const int64_t *x, uint32_t cols, double *want) {
    uint32_t best = 0;
    for (uint32_t j = 1; j < cols; j++) {
        if (x[j] > x[best])
            best = j;
    }
    *want = what == UVCC_NL_ARGMAX ? best : unit(x[best]);
}

/* The reciprocal's error, the exp's, those of the sum's exps, a unit of the output. */
static void real_softmax(const int64_t *x, const int64_t *hot, uint32_t cols, double *want,
                         double *bound) {
    int64_t most = x[0];
    double sum = 0;
    for (uint32_t j = 1; j < cols; j++)
        most = x[j] > most ? x[j] : most;
    for (uint32_t j = 0; j < cols; j++)
        sum += want[j] = exp(unit(x[j] - most));
    for (uint32_t j = 0; j < cols; j++) {
        const double p = want[j] / sum;
        want[j] = p - (hot != NULL ? unit(hot[j]) : 0);
        bound[j] = 1.2e-4 * p + 1.6e-5 + 4e-6 * cols * p + ldexp(1, -MEASURE_SCALE);
    }
}

/* The root's error and the floors of y, gamma y and the mean; gamma and beta may be NULL. */
static void real_norm(const int64_t *x, bool centred, const int64_t *gamma, const int64_t *beta,
                      uint32_t cols, double *want, double *bound) {
    double mean = 0, square = 0;
    for (uint32_t j = 0; j < cols && centred; j++)
        mean += unit(x[j]) / cols;
    for (uint32_t j = 0; j < cols; j++)
        square += (unit(x[j]) - mean) * (unit(x[j]) - mean) / cols;
    const double v = square + MEASURE_EPSILON, inverse = 1 / sqrt(v);
    const bool counts = v >= ldexp(1, -9) && square <= 4096;
    for (uint32_t j = 0; j < cols; j++) {
        const double gain = gamma != NULL ? unit(gamma[j]) : 1;
        const double y = gain * (unit(x[j]) - mean) * inverse;
        const double floors = (gamma != NULL) + fabs(gain) * (1 + (centred ? inverse : 0));
        want[j] = y + (beta != NULL ? unit(beta[j]) : 0);
        bound[j] = counts ? 1.6e-4 * fabs(y) + ldexp(floors, -MEASURE_SCALE) : -1;
    }
}

void measure_real(uvcc_nonlinear what, bool exact, measure_shape s,
                  int64_t *const in[MEASURE_INPUTS_MAX], double *want, double *bound) {
    const size_t cols = s.cols;
    if (uvcc_nonlinear_at(what)->form == UVCC_NL_ELEMENT) {
        real_elements(what, exact, s.rows * cols, in[0], want, bound);
        return;
    }
    for (size_t i = 0; i < s.rows; i++) {
        const int64_t *x = in[0] + i * cols;
        if (uvcc_nonlinear_at(what)->form == UVCC_NL_ROW) {
            real_tree(what, x, s.cols, &want[i]);
            bound[i] = 0;
            continue;
        }
        if (is_norm(what))
            real_norm(x, what == UVCC_NL_LAYERNORM, in[1], what == UVCC_NL_LAYERNORM ? in[2] : NULL,
                      s.cols, want + i * cols, bound + i * cols);
        else
            real_softmax(x, what == UVCC_NL_SOFTMAX ? NULL : in[1] + i * cols, s.cols,
                         want + i * cols, bound + i * cols);
    }
}
