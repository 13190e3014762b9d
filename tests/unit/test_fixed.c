/* SPDX-License-Identifier: Apache-2.0 */
/* test_fixed.c - numbers at a fixed point: each function within the units that its header promises
 * of values by another library with 400 bits; exact operations against themselves; rounding. */
#include "exec/base/fixed.h"
#include "support.h"

enum { EXP, LN, RSQRT, NORMAL, TAIL };

/* what(arg 2^-bits) = sign (high 2^-32 + low 2^-96), to the nearest */
static const struct {
    int what;
    int64_t arg;
    unsigned bits;
    int sign;
    uint64_t high, low;
} known[] = {
    {EXP, 0ll, 0, 1, 0x100000000ull, 0x0ull},
    {EXP, 1ll, 0, 1, 0x2b7e15162ull, 0x8aed2a6abf715881ull},
    {EXP, -1ll, 0, 1, 0x5e2d58d8ull, 0xb3bcdf1abadec783ull},
    {EXP, -1ll, 40, 1, 0xffffffffull, 0xff00000000008000ull},
    {EXP, 1ll, 4, 1, 0x11082b577ull, 0xd34ed7d5b1a019e2ull},
    {EXP, -13ll, 0, 1, 0x25ecull, 0xa77303b306842a5ull},
    {EXP, -209ll, 4, 1, 0x239full, 0xdc445c4c1bb3ca21ull},
    {EXP, -25ll, 1, 1, 0x3e85ull, 0xda7ed1cd20421fc4ull},
    {EXP, -64ll, 0, 1, 0x0ull, 0xdull},
    {EXP, -70ll, 0, 1, 0x0ull, 0x0ull},
    {EXP, -200ll, 0, 1, 0x0ull, 0x0ull},
    {EXP, -88772ll, 7, 1, 0x0ull, 0x0ull},
    {LN, 1ll, 0, 1, 0x0ull, 0x0ull},
    {LN, 2ll, 0, 1, 0xb17217f7ull, 0xd1cf79abc9e3b398ull},
    {LN, 3ll, 0, 1, 0x1193ea7aaull, 0xd030a976a4198d55ull},
    {LN, 1ll, 20, -1, 0xddce9df5cull, 0x6435816bc5ca07e0ull},
    {LN, 2097151ll, 21, -1, 0x800ull, 0x200000aaaaaeabull},
    {LN, 2097149ll, 21, -1, 0x1800ull, 0x120001200014400ull},
    {LN, 11ll, 5, -1, 0x1115e00e7ull, 0x3223e96365da8863ull},
    {LN, 90112ll, 0, 1, 0xb68a7ae85ull, 0x8e72a4b0cc28184dull},
    {LN, 5ll, 2, 1, 0x391fef8full, 0x353443584bb03de6ull},
    {LN, 4ll, 1, 1, 0xb17217f7ull, 0xd1cf79abc9e3b398ull},
    {LN, 2147483647ll, 0, 1, 0x157cd0e700ull, 0x681fbbcb7292bf66ull},
    {LN, 1ll, 60, -1, 0x2996bd9e15ull, 0x2ca08443515e17a1ull},
    {LN, 4ll, 0, 1, 0x162e42fefull, 0xa39ef35793c76730ull},
    {LN, 3ll, 2, -1, 0x49a58844ull, 0xd36e49e0efadd9dbull},
    {RSQRT, 1ll, 0, 1, 0x100000000ull, 0x0ull},
    {RSQRT, 2ll, 0, 1, 0xb504f333ull, 0xf9de6484597d89b3ull},
    {RSQRT, 4ll, 0, 1, 0x80000000ull, 0x0ull},
    {RSQRT, 3ll, 0, 1, 0x93cd3a2cull, 0x8198e2690c7c0f25ull},
    {RSQRT, 3ll, 2, 1, 0x1279a7459ull, 0x331c4d218f81e4bull},
    {RSQRT, 11ll, 14, 1, 0x2697ec7a2aull, 0xd04bc3b8a6448239ull},
    {RSQRT, 11264ll, 0, 1, 0x2697ec7ull, 0xa2ad04bc3b8a6448ull},
    {RSQRT, 1ll, 2, 1, 0x200000000ull, 0x0ull},
    {RSQRT, 9ll, 1, 1, 0x78adf777ull, 0xfbe998583ba90678ull},
    {RSQRT, 2147483647ll, 0, 1, 0x16a09ull, 0xe6695dc6af72c5c7ull},
    {RSQRT, 1ll, 58, 1, 0x2000000000000000ull, 0x0ull},
    {RSQRT, 9ll, 2, 1, 0xaaaaaaaaull, 0xaaaaaaaaaaaaaaabull},
    {RSQRT, 15ll, 2, 1, 0x8432a516ull, 0xa7b6d40650aacaf1ull},
    {NORMAL, 0ll, 0, 1, 0x662114cfull, 0x50d942343f2cf140ull},
    {NORMAL, 1ll, 0, 1, 0x3df1cb1cull, 0x662e6ee18719e49full},
    {NORMAL, 1ll, 9, 1, 0x6621080bull, 0x2f0b9a3a32c6a404ull},
    {NORMAL, 7ll, 1, 1, 0x39312full, 0xa28fcc3e5ed4c0beull},
    {NORMAL, 5ll, 0, 1, 0x18f1ull, 0x6964c8fd3f244893ull},
    {NORMAL, -3ll, 1, 1, 0x212810adull, 0xa43d08d5ee277447ull},
    {NORMAL, 11ll, 0, 1, 0x0ull, 0xa8ull},
    {TAIL, 0ll, 0, 1, 0x80000000ull, 0x0ull},
    {TAIL, 1ll, 13, 1, 0x7ffccef7ull, 0x59a7843cdcdcd417ull},
    {TAIL, 1ll, 0, 1, 0x289da176ull, 0xf964165b40dd1611ull},
    {TAIL, 5ll, 1, 1, 0x196f4e5ull, 0x7e49ce4595410ce1ull},
    {TAIL, 13ll, 2, 1, 0x25d0dfull, 0xafa0680cc009fa6bull},
    {TAIL, 9ll, 1, 1, 0x3900ull, 0xe51ba76074b59a89ull},
    {TAIL, 6ll, 0, 1, 0x4ull, 0x3cc3bc024b520f88ull},
    {TAIL, 31ll, 3, 1, 0x37e6eull, 0xcc7494876494588full},
};

static uvcci_fixed between(uvcci_fixed a, uvcci_fixed b) {
    return a > b ? a - b : b - a;
}

static void known_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const uvcci_fixed x = uvcci_fixed_of(known[i].arg, known[i].bits), one = UVCCI_FIXED_ONE;
        const uvcci_fixed want =
            known[i].sign * ((uvcci_fixed)known[i].high << 64 | (uvcci_fixed)known[i].low);
        uvcci_fixed have = 0, units = 0;
        switch (known[i].what) {
        case EXP:
            have = uvcci_fixed_exp(x);
            units = 1 << 7;
            break;
        case LN:
            have = uvcci_fixed_ln(x);
            units = 1 << 6;
            break;
        case RSQRT:
            have = uvcci_fixed_rsqrt(x);
            units = want > one ? 4 * (want / one + 1) : 4;
            break;
        case NORMAL:
            have = uvcci_fixed_normal(x);
            units = 1 << 6;
            break;
        case TAIL:
            have = uvcci_fixed_normal_tail(x);
            units = 1 << 8;
            break;
        }
        if (between(have, want) > units)
            fail_msg("value %zu is off by more than %lld units", i, (long long)units);
    }
}

/* Numbers of up to `bits` bits, as many of them small as large. */
static uvcci_fixed some(uint64_t *seed, unsigned bits) {
    const uvcci_fixed v =
        ((uvcci_fixed)(test_rand(seed) >> 1) << 64) + (uvcci_fixed)test_rand(seed);
    const uvcci_fixed cut = v >> (127 - bits + test_rand(seed) % bits);
    return (test_rand(seed) & 1) != 0 ? -cut : cut;
}

/* A product of integers with 47 and 48 bits behind the point has no more than 96. */
static void products(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (unsigned i = 0; i < 100000; i++) {
        const int64_t a = (int64_t)test_rand(&seed) >> (1 + test_rand(&seed) % 60),
                      b = (int64_t)test_rand(&seed) >> (4 + test_rand(&seed) % 58);
        const uvcci_fixed have = uvcci_fixed_mul(uvcci_fixed_of(a, 47), uvcci_fixed_of(b, 47));
        assert_true(have == (uvcci_fixed)a * b * 4);
    }
    const uvcci_fixed half = UVCCI_FIXED_ONE / 2;
    assert_true(uvcci_fixed_mul(half, 1) == 1 && uvcci_fixed_mul(-half, 1) == -1);
    assert_true(uvcci_fixed_mul(half - 1, 1) == 0 && uvcci_fixed_mul(1 - half, 1) == 0);
}

/* Exact where they can be, else to the nearest. */
static void quotients(void **state) {
    (void)state;
    uint64_t seed = 2;
    for (unsigned i = 0; i < 100000; i++) {
        const int64_t b = 1 + (int64_t)(test_rand(&seed) >> (20 + test_rand(&seed) % 40)),
                      q = (int64_t)test_rand(&seed) >> (20 + test_rand(&seed) % 40);
        const uvcci_fixed by = uvcci_fixed_of(b, 48), exact = uvcci_fixed_of(q, 48);
        assert_true(uvcci_fixed_div((uvcci_fixed)q * b, by) == exact);
    }
    const uvcci_fixed one = UVCCI_FIXED_ONE;
    assert_true(uvcci_fixed_div(one, 3 * one) == one / 3);
    assert_true(uvcci_fixed_div(2 * one, 3 * one) == 2 * one / 3 + 1);
    assert_true(uvcci_fixed_div(-2 * one, 3 * one) == -(2 * one / 3) - 1);
    for (unsigned i = 0; i < 100000; i++) { /* and back, for divisors of any size */
        uvcci_fixed b = some(&seed, 127), a = some(&seed, 90);
        b = b > 0 ? b : 1 - b;
        if (between(a, 0) >> 30 >= b)
            continue;
        const uvcci_fixed back = uvcci_fixed_mul(uvcci_fixed_div(a, b), b);
        assert_true(between(back, a) <= b / one / 2 + 2);
    }
}

static void rounding(void **state) {
    (void)state;
    const uvcci_fixed half = UVCCI_FIXED_ONE / 2;
    assert_int_equal(uvcci_fixed_round(half, 0), 1);
    assert_int_equal(uvcci_fixed_round(half - 1, 0), 0);
    assert_int_equal(uvcci_fixed_round(-half, 0), -1);
    assert_int_equal(uvcci_fixed_round(1 - half, 0), 0);
    assert_int_equal(uvcci_fixed_round(uvcci_fixed_of(5, 17), 16), 3);
    assert_int_equal(uvcci_fixed_round(uvcci_fixed_of(-5, 17), 16), -3);
    assert_int_equal(uvcci_fixed_round(uvcci_fixed_of(-123456789012, 50), 50), -123456789012);
    assert_int_equal(uvcci_fixed_round(1, 95), 1);
    assert_int_equal(uvcci_fixed_round(0, 95), 0);
}

/* The constants, by what they are. */
static void constants(void **state) {
    (void)state;
    const uvcci_fixed one = UVCCI_FIXED_ONE, normal = UVCCI_FIXED_NORMAL, root = UVCCI_FIXED_ROOT3;
    uvcci_fixed artanh = 0, pi = 0, power = 2 * one / 3, a = 16 * one / 5, b = 4 * one / 239;
    for (int n = 1; n < 200; n += 2) {
        artanh += power / n;
        power /= 9;
        pi += (n % 4 == 1 ? 1 : -1) * (a - b) / n;
        a /= 25;
        b /= 239 * 239;
    }
    assert_true(between(artanh, UVCCI_FIXED_LN2) < 200 && between(pi, UVCCI_FIXED_PI) < 200);
    assert_true(between(2 * uvcci_fixed_mul(UVCCI_FIXED_PI, uvcci_fixed_mul(normal, normal)), one) <
                8);
    assert_true(between(uvcci_fixed_mul(root, root), 3 * one) < 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values), cmocka_unit_test(products),  cmocka_unit_test(quotients),
        cmocka_unit_test(rounding),     cmocka_unit_test(constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
