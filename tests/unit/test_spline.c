/* SPDX-License-Identifier: Apache-2.0 */
/* Piecewise polynomials: values and bounds against every argument of small ranges, and shares from
 * a comparison that is made by hand. */
#include "support.h"

#include <stdbool.h>

#include "exec/primitives/spline.h"

__extension__ typedef __int128 wide;

enum { DEGREES = UVCCI_SPLINE_DEGREE_MAX + 1, WORDS_MAX = 64 * 5 + 4 };

typedef struct fixture {
    uvcci_spline s;
    int64_t words[WORDS_MAX];
} fixture;

/* Rising knots around 0, coefficients of up to `bits` bits. */
static void random_spline(fixture *f, unsigned degree, unsigned knots, unsigned bits,
                          uint64_t *rng) {
    int64_t at = -(int64_t)(test_rand(rng) % (4 * knots));
    f->s = uvcci_spline_of(degree, uvcci_spline_words(degree, knots), f->words);
    assert_int_equal(f->s.knots, knots);
    for (unsigned i = 0; i < knots; i++, at += 1 + (int64_t)(test_rand(rng) % 7))
        f->words[i] = at;
    for (unsigned i = knots; i < uvcci_spline_words(degree, knots); i++)
        f->words[i] = (int64_t)test_rand(rng) >> (63 - bits);
}

static wide value_at(const uvcci_spline *s, int64_t x) {
    unsigned piece = 0;
    for (unsigned i = 0; i < s->knots; i++)
        piece += x >= s->words[i];
    const int64_t *c = s->words + s->knots + piece * (s->degree + 1);
    wide y = 0;
    for (unsigned j = s->degree + 1; j-- > 0;)
        y = c[j] + x * y;
    return y;
}

static void shapes(void **state) {
    (void)state;
    static const unsigned dealt[DEGREES] = {1, 2, 4, 6};
    for (unsigned d = 0; d < DEGREES; d++) {
        assert_int_equal(uvcci_spline_dealt(d), dealt[d]);
        for (unsigned k = 0; k <= 64; k++) {
            const uint32_t n = uvcci_spline_words(d, k);
            assert_int_equal(n, k + (k + 1) * (d + 1));
            assert_int_equal(uvcci_spline_of(d, n, NULL).knots, k);
        }
        assert_int_equal(uvcci_spline_of(d, 0, NULL).knots, 0);
    }
}

/* Where the true values fit, the value is theirs, no value exceeds the bound, and the bound is not
 * far from the greatest: not at all for straight lines. */
static void values_and_bounds(void **state) {
    (void)state;
    uint64_t rng = 1;
    for (unsigned round = 0; round < 3000; round++) {
        fixture f;
        const unsigned degree = round % DEGREES, bits = 1 + round % 40;
        random_spline(&f, degree, 1 + round % 9, bits, &rng);
        const int64_t last = (int64_t)(test_rand(&rng) % 60);
        wide most = 0;
        for (int64_t x = -last; x <= last; x++) {
            const wide y = value_at(&f.s, x);
            assert_true(uvcci_spline_value(&f.s, x) == (uint64_t)y);
            most = y > most ? y : -y > most ? -y : most;
        }
        const uint64_t bound = uvcci_spline_bound(&f.s, (uint64_t)last);
        assert_true(bound >= (uint64_t)most);
        if (degree < 2)
            assert_true(bound == (uint64_t)most);
    }
}

/* A piece of large terms that cancel: (x - 1000)^3 on 990 .. 1010. */
static void bounds_are_near(void **state) {
    (void)state;
    static const int64_t words[] = {990,     1011,  0, 0, 0, 0, -1000000000,
                                    3000000, -3000, 1, 7, 0, 0, 0};
    const uvcci_spline s = uvcci_spline_of(3, sizeof words / sizeof *words, words);
    assert_int_equal(s.knots, 2);
    assert_true(uvcci_spline_bound(&s, 989) == 0);
    assert_true(uvcci_spline_bound(&s, 990) == 1000);
    assert_true(uvcci_spline_bound(&s, 1 << 20) == 1000);
    assert_true(uvcci_spline_bound(&s, UINT64_MAX) == 1000);
    assert_true(uvcci_spline_value(&s, 1010) == 1000 && uvcci_spline_value(&s, 1011) == 7);
    assert_true(uvcci_spline_value(&s, 990) == (uint64_t)-1000);
}

/* Ends of the numbers: what does not fit has no bound, what is not reached does not count. */
static void bounds_at_the_ends(void **state) {
    (void)state;
    static const int64_t flat[] = {INT64_MIN, 5, 1, INT64_MIN, INT64_MAX};
    const uvcci_spline f = uvcci_spline_of(0, 5, flat);
    assert_true(uvcci_spline_bound(&f, UINT64_MAX) == 1ull << 63);
    assert_true(uvcci_spline_bound(&f, 4) == 1ull << 63);
    static const int64_t line[] = {0, 0, INT64_MAX, 0, 1};
    const uvcci_spline l = uvcci_spline_of(1, 5, line);
    assert_true(uvcci_spline_bound(&l, 0) == 0);
    assert_true(uvcci_spline_bound(&l, 2) == UINT64_MAX - 1);
    assert_true(uvcci_spline_bound(&l, 3) == UINT64_MAX);
    assert_true(uvcci_spline_bound(&l, UINT64_MAX) == UINT64_MAX);
    static const int64_t cubes[] = {0, 0, 0, 0, INT64_MAX, 0, 0, 0, INT64_MIN};
    const uvcci_spline c = uvcci_spline_of(3, 9, cubes);
    for (unsigned bits = 1; bits < 64; bits++)
        assert_true(uvcci_spline_bound(&c, 1ull << bits) == UINT64_MAX);
    assert_true(uvcci_spline_bound(&c, 1) == 1ull << 63);
}

/* Two parties with shares of everything, and a dealer who knows r. */
static void sums_of_shares(void **state) {
    (void)state;
    enum { N = 300 };
    uint64_t rng = 2;
    for (unsigned round = 0; round < 60; round++) {
        fixture f;
        const unsigned degree = round % DEGREES, m = round % 5 == 0 ? 63 : 10 + round % 20;
        random_spline(&f, degree, 1 + round % 13, 63, &rng);
        static uint64_t x[N], r[N], xh[N], power[2][DEGREES][N], dealt[2][DEGREES][N];
        static uint64_t dcf[2][N * DEGREES], sum[2][N];
        uvcci_spline_shares e[2];
        for (unsigned p = 0; p < 2; p++) {
            e[p] = (uvcci_spline_shares){.n = N, .bits = m, .one = p == 0, .xh = xh};
            for (unsigned j = 0; j < DEGREES; j++) {
                e[p].power[j] = power[p][j];
                e[p].dealt[j] = dealt[p][j];
            }
        }
        for (unsigned i = 0; i < N; i++) {
            x[i] = (uint64_t)(f.words[i % f.s.knots] + (int64_t)(i % 3) - 1);
            r[i] = test_rand(&rng);
            xh[i] = x[i] + r[i];
            uint64_t of = 1;
            for (unsigned j = 0; j <= degree; j++, of *= r[i]) {
                const uint64_t u = r[i] >> m & 1 ? 0 : of;
                power[0][j][i] = test_rand(&rng);
                power[1][j][i] = of - power[0][j][i];
                dealt[0][j][i] = test_rand(&rng);
                dealt[1][j][i] = u - dealt[0][j][i];
            }
        }
        for (unsigned p = 0; p < 2; p++)
            uvcci_spline_begin(&f.s, &e[p], sum[p]);
        for (unsigned k = 0; k < f.s.knots; k++) {
            const uint64_t top = ((uint64_t)1 << m) - 1;
            for (unsigned i = 0; i < N; i++) {
                const bool less = ((xh[i] - (uint64_t)f.words[k]) & top) < (r[i] & top);
                uint64_t of = r[i] >> m & 1 ? 1 : (uint64_t)-1;
                for (unsigned j = 0; j <= degree; j++, of *= r[i]) {
                    const size_t at = i * (degree + 1) + j;
                    dcf[0][at] = test_rand(&rng);
                    dcf[1][at] = (less ? of : 0) - dcf[0][at];
                }
            }
            for (unsigned p = 0; p < 2; p++)
                uvcci_spline_add(&f.s, k, &e[p], dcf[p], sum[p]);
        }
        for (unsigned i = 0; i < N; i++)
            assert_true(sum[0][i] + sum[1][i] == uvcci_spline_value(&f.s, (int64_t)x[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),          cmocka_unit_test(values_and_bounds),
        cmocka_unit_test(bounds_are_near), cmocka_unit_test(bounds_at_the_ends),
        cmocka_unit_test(sums_of_shares),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
