/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of functions: HEAD, TAIL and OTHER run each step with wire bytes passed by hand, and
 * what comes out is compared with plain arithmetic. Everything is run on every back end, and
 * everything that was written must be the same bytes. */
#include "support.h"

#include <uvcc/blv1.h>
#include <uvcc/function.h>

#include "exec/compute/kernels.h"
#include "exec/primitives/dcf.h"
#include "exec/primitives/dpf.h"
#include "exec/program/function.h"
#include "proto/crypto.h"

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER };
enum { ORDINAL = 77, BLOCK_INDEX = 9, BACKENDS = 4, OWNED = 1024 };

/* ---- three parties ---- */

typedef struct sim {
    test_alloc mem;
    uvcci_cpu_worker worker[3];
    uvcc_step_keys keys[3];
    uint64_t rng;
    uint32_t n;
    uint16_t call; /* of the step that runs */
    uint8_t lift;
    uvcc_fn_args fn;
    void *owned[OWNED];
    size_t size[OWNED];
    unsigned count;
} sim;

static void sim_open(sim *s, uint32_t backend, uint32_t n, uint64_t seed) {
    memset(s, 0, sizeof *s);
    const uvcc_allocator al = test_allocator(&s->mem);
    s->rng = seed;
    s->n = n;
    test_rand_bytes(&s->rng, s->keys, sizeof s->keys);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(uvcci_cpu_worker_init(&s->worker[r], &al, backend), 0);
        memcpy(s->keys[(r + 1) % 3].prg[UVCC_PAIR_PREV], s->keys[r].prg[UVCC_PAIR_NEXT],
               sizeof s->keys[r].prg[0]);
        memcpy(s->keys[r].dpf, s->keys[0].dpf, sizeof s->keys[0].dpf);
    }
}

/* The digest of all that the tasks wrote. */
static void sim_close(sim *s, uint8_t digest[32]) {
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    for (unsigned i = 0; i < s->count; i++) {
        uvcci_sha256_update(&h, s->owned[i], s->size[i]);
        free(s->owned[i]);
    }
    uvcci_sha256_final(&h, digest);
    for (unsigned r = 0; r < 3; r++)
        uvcci_cpu_worker_free(&s->worker[r]);
    assert_int_equal(s->mem.live_blocks, 0);
}

static void *own(sim *s, size_t bytes) {
    assert_true(s->count < OWNED);
    void *p = malloc(bytes);
    assert_non_null(p);
    s->size[s->count] = bytes;
    return s->owned[s->count++] = memset(p, 0xEE, bytes);
}
static uint64_t *words(sim *s) {
    return own(s, (size_t)s->n * 8);
}
/* Bytes at an odd address, exactly as many as are promised. */
static uint8_t *bytes(sim *s, size_t n) {
    return (uint8_t *)own(s, n + 1) + 1;
}
static size_t packed(const sim *s, unsigned bits) {
    return ((size_t)s->n * bits + 7) / 8;
}

static int run(sim *s, unsigned role, uvcc_task_kind kind, uvcc_block b) {
    b.block = BLOCK_INDEX;
    b.count = s->n;
    b.role = (uint8_t)role;
    uvcc_task t = {.kind = (uint16_t)kind, .ordinal = ORDINAL, .call = s->call};
    t.keys = &s->keys[role];
    t.u.vec.blocks = &b;
    t.u.vec.count = 1;
    t.u.vec.lift = s->lift;
    t.u.vec.fn = &s->fn;
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    return uvcci_cpu_run(&s->worker[role], &job);
}

static void vec(sim *s, unsigned role, uvcc_task_kind kind, uvcc_block b) {
    assert_int_equal(run(s, role, kind, b), 0);
}

/* Runs a scenario on all back ends and compares what they wrote. */
static void on_all_backends(void (*scenario)(sim *s), uint32_t n, uint64_t seed) {
    uint8_t digest[BACKENDS][32];
    for (uint32_t b = 0; b < BACKENDS; b++) {
        sim *s = malloc(sizeof *s);
        assert_non_null(s);
        sim_open(s, b, n, seed);
        scenario(s);
        sim_close(s, digest[b]);
        free(s);
        assert_memory_equal(digest[b], digest[0], 32);
    }
}

/* ---- values ---- */

static uint64_t low(unsigned n) {
    return n >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1;
}

static int64_t rand_signed(sim *s, unsigned bits) { /* [-2^bits, 2^bits) */
    return (int64_t)(test_rand(&s->rng) << (63 - bits)) >> (63 - bits);
}

/* An A value: HEAD's and TAIL's shares. */
typedef struct additive {
    uint64_t *of[2];
} additive;

static additive additive_of(sim *s, const uint64_t *x) {
    const additive a = {{words(s), words(s)}};
    for (uint32_t i = 0; i < s->n; i++) {
        a.of[H][i] = test_rand(&s->rng);
        a.of[T][i] = x[i] - a.of[H][i];
    }
    return a;
}

static additive new_additive(sim *s) {
    return (additive){{words(s), words(s)}};
}

static void check_additive(const sim *s, const additive *a, const uint64_t *want) {
    for (uint32_t i = 0; i < s->n; i++)
        if (a->of[H][i] + a->of[T][i] != want[i])
            fail_msg("element %u of %u", i, s->n);
}

/* An M value: xh and the parts of the mask at HEAD and TAIL, r at OTHER. */
typedef struct masked {
    uint64_t *xh[2], *p[2], *r;
} masked;

static void pads(sim *s, masked *m) {
    m->r = words(s);
    for (unsigned i = 0; i < 2; i++) {
        m->p[i] = words(s);
        vec(s, i, UVCC_TASK_FN_PADS, (uvcc_block){.out = {m->p[i]}});
    }
    vec(s, O, UVCC_TASK_FN_PADS, (uvcc_block){.out = {m->r}});
    for (uint32_t i = 0; i < s->n; i++)
        assert_true(m->p[H][i] + m->p[T][i] == m->r[i]);
}

static masked open_bits(sim *s, const uint64_t *x, unsigned bits) {
    uint64_t *part[3] = {words(s), words(s), words(s)};
    for (uint32_t i = 0; i < s->n; i++) {
        part[0][i] = test_rand(&s->rng);
        part[1][i] = test_rand(&s->rng);
        part[2][i] = x[i] - part[0][i] - part[1][i];
    }
    masked m = {{words(s), words(s)}, {NULL, NULL}, NULL};
    uint8_t *sent[2], *again = bytes(s, packed(s, bits)), *want = bytes(s, packed(s, bits));
    s->call++;
    s->fn = (uvcc_fn_args){.bits = (uint8_t)bits};
    for (unsigned r = 0; r < 3; r++) {
        const uvcc_block b = {.in = {part[r], part[(r + 1) % 3]}};
        if (r == O) {
            vec(s, r, UVCC_TASK_FN_OPEN_MASK, b);
            break;
        }
        sent[r] = bytes(s, packed(s, bits));
        vec(s, r, UVCC_TASK_FN_OPEN_MASK,
            (uvcc_block){.in = {b.in[0], b.in[1]}, .out = {m.xh[r]}, .wire_out = {sent[r]}});
    }
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_OPEN_FINISH,
            (uvcc_block){.in = {m.xh[r]},
                         .out = {m.xh[r]},
                         .out_bits = r == H ? again : NULL,
                         .wire_in = {sent[1 - r]}});
    vec(s, O, UVCC_TASK_FN_OPEN_FINISH, (uvcc_block){0});
    pads(s, &m);
    assert_memory_equal(m.xh[H], m.xh[T], (size_t)s->n * 8);
    uvcc_bits_pack(m.xh[H], s->n, bits, want);
    assert_memory_equal(again, want, packed(s, bits));
    for (uint32_t i = 0; i < s->n; i++)
        assert_true(m.xh[H][i] == ((x[i] + m.r[i]) & low(bits)));
    return m;
}

static masked shifted(sim *s, const masked *x, unsigned bits, unsigned shift) {
    masked m = {{words(s), words(s)}, {NULL, NULL}, words(s)};
    s->fn = (uvcc_fn_args){.bits = (uint8_t)bits, .shift = (uint8_t)shift};
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_SHIFT, (uvcc_block){.in = {x->xh[r]}, .out = {m.xh[r]}});
    vec(s, O, UVCC_TASK_FN_SHIFT, (uvcc_block){.in = {x->r}, .out = {m.r}});
    return m;
}

/* ---- openings ---- */

static void openings(sim *s) {
    static const unsigned bits[] = {1, 7, 16, 18, 33, 63, 64};
    uint64_t *x = words(s);
    for (unsigned b = 0; b < sizeof bits / sizeof *bits; b++) {
        for (uint32_t i = 0; i < s->n; i++)
            x[i] = test_rand(&s->rng);
        const masked m = open_bits(s, x, bits[b]);
        const unsigned shift = bits[b] / 2;
        const masked y = shifted(s, &m, bits[b], shift);
        for (uint32_t i = 0; i < s->n; i++) { /* floor((x + r_low) / 2^shift) */
            const uint64_t lows = (x[i] & low(shift)) + (m.r[i] & low(shift));
            assert_true(((y.xh[H][i] - y.r[i] - (x[i] >> shift) - (lows >> shift)) &
                         low(bits[b] - shift)) == 0);
        }
    }
}

static const uint32_t counts[] = {1, 63, 1025, 4095, 4096};
enum { COUNTS = sizeof counts / sizeof *counts };

static void opens(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(openings, counts[c], 100 + c);
}

/* The next opening is free after an exchange. */
static masked exchange(sim *s, const additive *y) {
    uint64_t *lo[3] = {words(s), words(s), words(s)}, *hi[3] = {words(s), words(s), words(s)};
    uint8_t *sent[2] = {bytes(s, (size_t)s->n * 8), bytes(s, (size_t)s->n * 8)};
    s->call++;
    s->lift = UVCC_LIFT_EXCHANGE;
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_LIFT_MASK,
            (uvcc_block){.in = {y->of[r]}, .out = {lo[r], hi[r]}, .wire_out = {sent[r]}});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_LIFT_FINISH,
            (uvcc_block){.out = {lo[r], hi[r]}, .wire_in = {sent[1 - r]}});
    masked m = {{hi[H], lo[T]}, {NULL, NULL}, NULL};
    s->fn = (uvcc_fn_args){.exchange = true};
    pads(s, &m);
    return m;
}

static void exchanges_and_sums(sim *s) {
    uint64_t *x = words(s), *y = words(s), *z = words(s), *want = words(s);
    for (uint32_t i = 0; i < s->n; i++) {
        x[i] = test_rand(&s->rng);
        y[i] = test_rand(&s->rng);
        z[i] = test_rand(&s->rng);
    }
    const additive ax = additive_of(s, x), ay = additive_of(s, y);
    const masked my = exchange(s, &ay), mz = open_bits(s, z, 64);
    assert_memory_equal(my.xh[H], my.xh[T], (size_t)s->n * 8);
    for (uint32_t i = 0; i < s->n; i++)
        assert_true(my.xh[H][i] == y[i] + my.r[i]);

    const masked *const other[] = {NULL, NULL, &my, &mz};
    for (unsigned v = 0; v < 4; v++) {
        const additive sum = v == 3 ? ax : new_additive(s); /* in place too */
        s->fn = (uvcc_fn_args){.constant = -12345 + (int64_t)v};
        for (unsigned r = 0; r < 2; r++) {
            uvcc_block b = {.in = {ax.of[r]}, .out = {sum.of[r]}};
            if (v == 1)
                b.in[1] = ay.of[r];
            if (other[v] != NULL) {
                b.in[1] = other[v]->xh[r];
                b.in[2] = other[v]->p[r];
            }
            vec(s, r, UVCC_TASK_FN_ADD, b);
        }
        vec(s, O, UVCC_TASK_FN_ADD, (uvcc_block){0});
        for (uint32_t i = 0; i < s->n; i++)
            want[i] = x[i] + (uint64_t)s->fn.constant + (v == 0 ? 0 : v == 3 ? z[i] : y[i]);
        check_additive(s, &sum, want);
    }
}

static void exchanges(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(exchanges_and_sums, counts[c], 200 + c);
}

/* ---- keys ---- */

typedef struct key {
    uint8_t *cw[2];
    uint64_t *sign;
    uint16_t call;
    unsigned bits;
} key;

/* Both receivers get the same correction words; where both get them in one place, it has the same
 * too. */
static void deal_alike(sim *s, uvcc_task_kind kind, uvcc_block b, size_t size) {
    uint8_t *once = bytes(s, size);
    vec(s, O, kind, b);
    assert_memory_equal(b.out_bytes[0], b.out_bytes[1], size);
    const uint8_t *want = b.out_bytes[0];
    b.out_bytes[0] = b.out_bytes[1] = once;
    vec(s, O, kind, b);
    assert_memory_equal(once, want, size);
}

static key deal_key(sim *s, const uint64_t *r, unsigned bits, bool sign) {
    key k = {{NULL, NULL}, sign ? words(s) : NULL, ++s->call, bits};
    for (unsigned i = 0; i < 2; i++)
        k.cw[i] = bytes(s, uvcci_cw_bytes(bits, s->n));
    s->fn = (uvcc_fn_args){.bits = (uint8_t)bits, .call_key = k.call};
    deal_alike(s, UVCC_TASK_FN_DEAL_KEY,
               (uvcc_block){.in = {r}, .out = {k.sign}, .out_bytes = {k.cw[0], k.cw[1]}},
               uvcci_cw_bytes(bits, s->n));
    for (uint32_t i = 0; sign && i < s->n; i++)
        assert_true(k.sign[i] == 1 || k.sign[i] == ~(uint64_t)0);
    return k;
}

/* ---- comparisons ---- */

/* A B value: e at HEAD and TAIL, k at OTHER and its shares in TAIL's section. */
typedef struct bit_value {
    uint64_t *e[2], *k;
    uint8_t *section;
    uint16_t call;
    uint32_t count;
} bit_value;

static bit_value compare(sim *s, const masked *x, const key *k, const int64_t *thresholds,
                         uint32_t count) {
    bit_value b = {{words(s), words(s)}, words(s), bytes(s, (size_t)count * s->n * 8), 0, count};
    uint8_t *sent[2], *again = bytes(s, packed(s, count)), *want = bytes(s, packed(s, count));
    b.call = ++s->call;
    s->fn = (uvcc_fn_args){
        .bits = (uint8_t)k->bits, .call_key = k->call, .word_count = count, .words = thresholds};
    vec(s, O, UVCC_TASK_FN_DEAL_BITS,
        (uvcc_block){.in = {x->r}, .out = {b.k}, .out_words = b.section});
    for (unsigned r = 0; r < 2; r++) {
        sent[r] = bytes(s, packed(s, count));
        vec(s, r, UVCC_TASK_FN_COMPARE,
            (uvcc_block){
                .in = {x->xh[r]}, .out = {b.e[r]}, .wire_out = {sent[r]}, .key = k->cw[r]});
    }
    vec(s, O, UVCC_TASK_FN_COMPARE, (uvcc_block){0});
    s->fn.bits = (uint8_t)count;
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_OPEN_BITS,
            (uvcc_block){.in = {b.e[r]},
                         .out = {b.e[r]},
                         .out_bits = r == T ? again : NULL,
                         .wire_in = {sent[1 - r]}});
    vec(s, O, UVCC_TASK_FN_OPEN_BITS, (uvcc_block){0});
    assert_memory_equal(b.e[H], b.e[T], (size_t)s->n * 8);
    uvcc_bits_pack(b.e[H], s->n, count, want);
    assert_memory_equal(again, want, packed(s, count));
    return b;
}

static void check_select(sim *s, const bit_value *b, const uint64_t *d, const int64_t *weights) {
    uint64_t *y = words(s), *want = words(s);
    for (uint32_t i = 0; i < s->n; i++)
        y[i] = test_rand(&s->rng);
    const masked m = open_bits(s, y, 64);
    const additive got = new_additive(s), alone = new_additive(s);
    uint8_t *section = bytes(s, (size_t)b->count * s->n * 8);
    s->call++;
    s->fn = (uvcc_fn_args){.call_bits = b->call, .word_count = b->count, .words = weights};
    vec(s, O, UVCC_TASK_FN_DEAL_SELECT, (uvcc_block){.in = {b->k, m.r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++) {
        vec(s, r, UVCC_TASK_FN_SELECT,
            (uvcc_block){.in = {m.xh[r], m.p[r], b->e[r]},
                         .out = {got.of[r]},
                         .words = {r == T ? b->section : NULL, r == T ? section : NULL}});
        vec(s, r, UVCC_TASK_FN_BITS,
            (uvcc_block){.in = {NULL, NULL, b->e[r]},
                         .out = {alone.of[r]},
                         .words = {r == T ? b->section : NULL}});
    }
    vec(s, O, UVCC_TASK_FN_SELECT, (uvcc_block){0});
    vec(s, O, UVCC_TASK_FN_BITS, (uvcc_block){0});
    for (uint32_t i = 0; i < s->n; i++) {
        want[i] = 0;
        for (uint32_t j = 0; j < b->count; j++)
            want[i] += (uint64_t)weights[j] * (d[i] >> j & 1);
    }
    check_additive(s, &alone, want);
    for (uint32_t i = 0; i < s->n; i++)
        want[i] *= y[i];
    check_additive(s, &got, want);
}

/* The bits of b, weighed, times one more bit and y. */
static void check_select_mul(sim *s, const bit_value *b, const uint64_t *d,
                             const int64_t *weights) {
    enum { OTHER_BITS = 11 };
    static const int64_t threshold[1] = {-3};
    uint64_t *y = words(s), *want = words(s), *x = words(s);
    for (uint32_t i = 0; i < s->n; i++) {
        y[i] = test_rand(&s->rng);
        x[i] = (uint64_t)rand_signed(s, i % 2 == 0 ? 4 : OTHER_BITS - 1);
    }
    const masked m = open_bits(s, y, 64), z = open_bits(s, x, OTHER_BITS + 1);
    const key k = deal_key(s, z.r, OTHER_BITS, false);
    const bit_value bit = compare(s, &z, &k, threshold, 1);
    const additive got = new_additive(s);
    uint8_t *section = bytes(s, (size_t)(3 * b->count + 2) * s->n * 8);
    s->call++;
    s->fn = (uvcc_fn_args){.call_bits = b->call, .word_count = b->count, .words = weights};
    vec(s, O, UVCC_TASK_FN_DEAL_SELECT,
        (uvcc_block){.in = {b->k, m.r, bit.k}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_SELECT,
            (uvcc_block){.in = {m.xh[r], m.p[r], b->e[r], bit.e[r]},
                         .out = {got.of[r]},
                         .words = {r == T ? b->section : NULL, r == T ? section : NULL}});
    for (uint32_t i = 0; i < s->n; i++) {
        want[i] = 0;
        for (uint32_t j = 0; j < b->count; j++)
            want[i] += (uint64_t)weights[j] * (d[i] >> j & 1);
        want[i] *= (int64_t)x[i] >= -3 ? y[i] : 0;
    }
    check_additive(s, &got, want);
}

/* Thresholds on `bits` bits; opened: all 64 bits, or one more than compared ones. shift: fast mode.
 */
static void compare_once(sim *s, unsigned bits, unsigned opened, unsigned shift, uint32_t count) {
    uint64_t *x = words(s), *d = words(s);
    int64_t thresholds[64], weights[64];
    for (uint32_t j = 0; j < count; j++) {
        thresholds[j] = rand_signed(s, bits - 1);
        weights[j] = j % 3 == 1 ? 0 : rand_signed(s, j % 2 == 0 ? 63 : 8);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t v = rand_signed(s, bits - 1);
        if (i % 3 == 0) {
            v = thresholds[i % count] + (int64_t)(i / 3 % 3) - 1;
            v = v >> (bits - 1) == 0 || v >> (bits - 1) == -1 ? v : thresholds[i % count];
        }
        x[i] = (uint64_t)v << shift | (test_rand(&s->rng) & low(shift));
    }
    const masked wide = open_bits(s, x, opened);
    const masked m = shift == 0 ? wide : shifted(s, &wide, opened, shift);
    const key k = deal_key(s, m.r, bits, false);
    const bit_value b = compare(s, &m, &k, thresholds, count);
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t v = (int64_t)(x[i] + (wide.r[i] & low(shift))) >> shift;
        d[i] = 0;
        for (uint32_t j = 0; j < count; j++)
            d[i] |= (uint64_t)(v >= thresholds[j]) << j;
        assert_true((b.e[H][i] ^ b.k[i]) == d[i]);
    }
    check_select(s, &b, d, weights);
    check_select_mul(s, &b, d, weights);
}

static void some_comparisons(sim *s) {
    compare_once(s, 1, 2, 0, 1);
    compare_once(s, 5, 64, 0, 3);
    compare_once(s, 12, 13, 0, 1);
    compare_once(s, 18, 64, 0, 5);
    compare_once(s, 20, 40, 12, 2);
    compare_once(s, 40, 64, 12, 1);
    compare_once(s, 63, 64, 0, 1);
}

static void many_comparisons(sim *s) {
    compare_once(s, 10, 11, 0, 64);
    compare_once(s, 16, 17, 0, 63);
}

static void comparisons(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(some_comparisons, counts[c], 300 + c);
    on_all_backends(many_comparisons, 130, 310);
}

/* ---- tables ---- */

/* v and b opened, and the dealer's scalar. factor_of: NULL, or what the sign is multiplied with. */
static additive table(sim *s, const masked *x, const key *k, uvcc_fn_args fn, const masked *from,
                      const additive *b) {
    const additive v = new_additive(s), masked_b = new_additive(s), got = new_additive(s);
    const size_t wire = (size_t)s->n * 8;
    uint8_t *sent[2][2] = {{bytes(s, wire), bytes(s, wire)}, {bytes(s, wire), bytes(s, wire)}};
    uint8_t *section = bytes(s, wire * (b == NULL ? 2 : 4));
    fn.call_key = k->call;
    fn.bits = (uint8_t)k->bits;
    fn.times = b != NULL;
    s->call++;
    s->fn = fn;
    vec(s, O, UVCC_TASK_FN_DEAL_SCALAR,
        (uvcc_block){.in = {k->sign, from == NULL ? NULL : from->r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_TABLE,
            (uvcc_block){
                .in = {x->xh[r], from == NULL ? NULL : from->xh[r], b == NULL ? NULL : b->of[r]},
                .out = {v.of[r], b == NULL ? NULL : masked_b.of[r]},
                .wire_out = {sent[r][0], b == NULL ? NULL : sent[r][1]},
                .key = k->cw[r]});
    vec(s, O, UVCC_TASK_FN_TABLE, (uvcc_block){0});
    for (unsigned r = 0; r < 2; r++) {
        vec(s, r, UVCC_TASK_OPEN_FINISH,
            (uvcc_block){.in = {v.of[r]}, .out = {v.of[r]}, .wire_in = {sent[1 - r][0]}});
        if (b != NULL)
            vec(s, r, UVCC_TASK_OPEN_FINISH,
                (uvcc_block){
                    .in = {masked_b.of[r]}, .out = {masked_b.of[r]}, .wire_in = {sent[1 - r][1]}});
        vec(s, r, UVCC_TASK_FN_SCALAR,
            (uvcc_block){.in = {v.of[r], b == NULL ? NULL : masked_b.of[r]},
                         .out = {got.of[r]},
                         .words = {r == T ? section : NULL}});
    }
    vec(s, O, UVCC_TASK_FN_SCALAR, (uvcc_block){0});
    assert_memory_equal(v.of[H], v.of[T], wire);
    return got;
}

static int32_t *entries_of(sim *s, uint32_t count) {
    int32_t *t = own(s, count * sizeof *t);
    for (uint32_t i = 0; i < count; i++)
        t[i] = i % 7 == 2   ? INT32_MIN
               : i % 7 == 4 ? INT32_MAX
                            : (int32_t)(uint32_t)test_rand(&s->rng);
    return t;
}

static void table_once(sim *s, unsigned bits, unsigned opened, uint32_t entry_count) {
    uint64_t *x = words(s), *want = words(s), *b = words(s);
    const int64_t first = rand_signed(s, 20);
    const uint64_t around = bits > 40 ? low(40) : low(bits) + 1 - entry_count;
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t r = test_rand(&s->rng);
        uint64_t at = r % entry_count; /* else before or behind, as far as the ring allows */
        if (i % 4 == 1 && around != 0)
            at = 0 - 1 - r % around;
        else if (i % 4 == 3 && around != 0)
            at = entry_count + r % around;
        else if (i % 4 == 2)
            at = i / 4 % 2 == 0 ? 0 : entry_count - 1;
        x[i] = (uint64_t)first + at;
        b[i] = test_rand(&s->rng);
    }
    const int32_t *t = entries_of(s, entry_count);
    const masked m = open_bits(s, x, opened);
    const key k = deal_key(s, m.r, bits, true);
    const uvcc_fn_args fn = {.first = first, .entry_count = entry_count, .entries = t};
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t at = x[i] - (uint64_t)first;
        want[i] = at < entry_count ? (uint64_t)(int64_t)t[at] : 0;
    }
    const additive plain = table(s, &m, &k, fn, NULL, NULL);
    check_additive(s, &plain, want);

    const additive ab = additive_of(s, b);
    const additive times = table(s, &m, &k, fn, NULL, &ab);
    for (uint32_t i = 0; i < s->n; i++)
        want[i] *= b[i];
    check_additive(s, &times, want);
}

/* What a table gives before it is multiplied, and where it was opened. */
typedef struct opened_table {
    additive v; /* vh at both */
    uint16_t call;
} opened_table;

static opened_table open_table(sim *s, const masked *x, const key *k, uvcc_fn_args fn) {
    const size_t wire = (size_t)s->n * 8;
    uint8_t *sent[2] = {bytes(s, wire), bytes(s, wire)};
    const opened_table t = {new_additive(s), ++s->call};
    fn.call_key = k->call;
    fn.bits = (uint8_t)k->bits;
    s->fn = fn;
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_TABLE,
            (uvcc_block){
                .in = {x->xh[r]}, .out = {t.v.of[r]}, .wire_out = {sent[r]}, .key = k->cw[r]});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_OPEN_FINISH,
            (uvcc_block){.in = {t.v.of[r]}, .out = {t.v.of[r]}, .wire_in = {sent[1 - r]}});
    return t;
}

/* That of x times a bit, an M value or another table; what is not there is NULL. */
static additive multiplied(sim *s, const masked *x, const key *k, uvcc_fn_args fn,
                           const bit_value *bit, const masked *by, const opened_table *table,
                           const key *table_key) {
    const opened_table t = open_table(s, x, k, fn);
    const additive got = new_additive(s);
    const unsigned factors = (bit != NULL ? 2u : 1u) * (by != NULL || table != NULL ? 2u : 1u);
    uint8_t *section = bytes(s, (size_t)s->n * 8 * 2 * factors);
    s->fn = fn;
    s->fn.by_table = table != NULL;
    s->fn.call_bits = table != NULL ? table->call : 0;
    vec(s, O, UVCC_TASK_FN_DEAL_SCALAR,
        (uvcc_block){.in = {k->sign, table != NULL ? table_key->sign : NULL,
                            by != NULL ? by->r : NULL, bit != NULL ? bit->k : NULL},
                     .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_SCALAR,
            (uvcc_block){.in = {t.v.of[r],
                                by != NULL      ? by->xh[r]
                                : table != NULL ? table->v.of[r]
                                                : NULL,
                                bit != NULL ? bit->e[r] : NULL},
                         .out = {got.of[r]},
                         .words = {r == T ? section : NULL}});
    return got;
}

/* The two tables of an exact index: of x >> SHIFT, and of the low bits of x, which say too whether
 * the masks carry. */
static void exact_once(sim *s) {
    enum { SHIFT = 5, BITS = 9, ENTRIES = 100, LOWS = 1 << SHIFT };
    static const int64_t zero[1] = {0};
    uint64_t *x = words(s), *y = words(s), *want = words(s);
    const int32_t *t = entries_of(s, ENTRIES), *u = entries_of(s, LOWS);
    for (uint32_t i = 0; i < s->n; i++) {
        x[i] = test_rand(&s->rng) % (ENTRIES << SHIFT);
        y[i] = test_rand(&s->rng);
    }
    const masked m = open_bits(s, x, 64), by = open_bits(s, y, 64);
    const masked index = shifted(s, &m, 64, SHIFT), lows = shifted(s, &m, SHIFT, 0);
    const key k = deal_key(s, index.r, BITS, true), l = deal_key(s, lows.r, SHIFT, true);
    const bit_value kept = compare(s, &lows, &l, zero, 1);
    const uvcc_fn_args fn = {.entry_count = ENTRIES, .entries = t};
    const opened_table low_table =
        open_table(s, &lows, &l, (uvcc_fn_args){.entry_count = LOWS, .entries = u});
    for (unsigned how = 1; how < 6; how++) { /* a bit, and none, an M value, a table */
        const bool bit = how % 2 != 0;
        const masked *const value = how / 2 == 1 ? &by : NULL;
        const additive got = multiplied(s, &index, &k, fn, bit ? &kept : NULL, value,
                                        how / 2 == 2 ? &low_table : NULL, &l);
        for (uint32_t i = 0; i < s->n; i++) {
            const uint64_t carry = ((x[i] & low(SHIFT)) + (m.r[i] & low(SHIFT))) >> SHIFT;
            const uint64_t at = (x[i] >> SHIFT) + carry;
            assert_int_equal((kept.e[H][i] ^ kept.k[i]) & 1, 1 - carry);
            want[i] = at < ENTRIES && (!bit || carry == 0) ? (uint64_t)(int64_t)t[at] : 0;
            want[i] *= how / 2 == 1   ? y[i]
                       : how / 2 == 2 ? (uint64_t)(int64_t)u[x[i] & low(SHIFT)]
                                      : 1;
        }
        check_additive(s, &got, want);
    }
}

static uint64_t cubic(const int64_t *c, uint64_t l, unsigned s) {
    int64_t z = (int64_t)(l * (uint64_t)c[3]) >> s;
    z = (int64_t)(l * (uint64_t)(c[2] + z)) >> s;
    z = (int64_t)(l * (uint64_t)(c[1] + z)) >> s;
    return (uint64_t)c[0] + (uint64_t)z;
}

/* A table times what its index leaves out of y. */
static void scaled_once(sim *s, unsigned shift, uint32_t entry_count, unsigned coefficient_bits) {
    enum { BITS = 14 };
    uint64_t *y = words(s), *want = words(s);
    const int64_t first = rand_signed(s, 10);
    const int32_t *t = entries_of(s, entry_count);
    int64_t c[8];
    for (unsigned i = 0; i < 8; i++)
        c[i] = rand_signed(s, coefficient_bits);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t at = test_rand(&s->rng) % (2 * entry_count);
        y[i] = ((uint64_t)first + at) << shift | (test_rand(&s->rng) & low(shift));
    }
    const masked m = open_bits(s, y, 64), x = shifted(s, &m, 64, shift);
    const key k = deal_key(s, x.r, BITS, true);
    const uvcc_fn_args fn = {.shift = (uint8_t)shift,
                             .first = first,
                             .constant = 14,
                             .entry_count = entry_count,
                             .entries = t,
                             .word_count = 8,
                             .words = c};
    const additive got = table(s, &x, &k, fn, &m, NULL);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t r_low = m.r[i] & low(shift), sum = y[i] + r_low;
        const uint64_t at = (uint64_t)((int64_t)sum >> shift) - (uint64_t)first;
        const uint64_t z = cubic(c, sum & low(shift), shift);
        const int64_t dealt = (int64_t)cubic(c + 4, r_low, shift) >> 14;
        want[i] = 0;
        if (at < entry_count)
            want[i] = (uint64_t)((int64_t)((uint64_t)(int64_t)t[at] * z) >> 30) * (uint64_t)dealt;
    }
    check_additive(s, &got, want);
}

static void some_tables(sim *s) {
    table_once(s, 3, 3, 8);
    table_once(s, 6, 6, 64);
    table_once(s, 7, 9, 128);
    table_once(s, 8, 64, 1);
    table_once(s, 14, 14, 256);
    table_once(s, 20, 21, 65);
    table_once(s, 64, 64, 300);
    scaled_once(s, 9, 100, 30);
    scaled_once(s, 16, 64, 30);
    scaled_once(s, 40, 130, 63);
}

static void large_tables(sim *s) {
    table_once(s, 14, 14, 2048);
    table_once(s, 16, 16, 65536);
    table_once(s, 40, 41, 65535);
    scaled_once(s, 12, 8000, 30);
}

static void tables(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(some_tables, counts[c], 400 + c);
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(exact_once, counts[c], 420 + c);
    on_all_backends(large_tables, 21, 410);
}

/* ---- products, truncations, groups of four ---- */

/* x under a mask that was not made by tasks, `times` words for an element. */
static masked masked_by_hand(sim *s, const uint64_t *x, unsigned times) {
    const size_t n = (size_t)s->n * times;
    masked m;
    uint64_t **part[5] = {&m.xh[H], &m.xh[T], &m.p[H], &m.p[T], &m.r};
    for (unsigned i = 0; i < 5; i++)
        *part[i] = own(s, n * 8);
    for (size_t i = 0; i < n; i++) {
        m.p[H][i] = test_rand(&s->rng);
        m.p[T][i] = test_rand(&s->rng);
        m.r[i] = m.p[H][i] + m.p[T][i];
        m.xh[H][i] = m.xh[T][i] = x[i] + m.r[i];
    }
    return m;
}

static void multiply(sim *s) {
    uint64_t *x = words(s), *y = words(s), *want = words(s);
    for (uint32_t i = 0; i < s->n; i++) {
        x[i] = test_rand(&s->rng);
        y[i] = test_rand(&s->rng);
        want[i] = x[i] * y[i];
    }
    const masked a = masked_by_hand(s, x, 1), b = masked_by_hand(s, y, 1);
    const additive z = new_additive(s);
    uint8_t *section = bytes(s, (size_t)s->n * 8);
    s->call++;
    s->fn = (uvcc_fn_args){0};
    vec(s, O, UVCC_TASK_FN_DEAL_MUL, (uvcc_block){.in = {a.r, b.r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_MUL,
            (uvcc_block){.in = {a.xh[r], a.p[r], b.xh[r], b.p[r]},
                         .out = {z.of[r]},
                         .words = {r == T ? section : NULL}});
    vec(s, O, UVCC_TASK_FN_MUL, (uvcc_block){0});
    check_additive(s, &z, want);
}

/* A DCF key of n bits and w words, of the task that deals it; fn stands. */
static uint8_t *deal_dcf(sim *s, uvcc_task_kind kind, const uint64_t *r, unsigned n, unsigned w) {
    const size_t size = uvcci_dcf_bytes(n, w, s->n);
    uint8_t *cw[2] = {bytes(s, size), bytes(s, size)};
    s->fn.call_key = s->call;
    deal_alike(s, kind, (uvcc_block){.in = {r}, .out_bytes = {cw[0], cw[1]}}, size);
    return cw[0];
}

/* What is truncated, without what the mask's low bits carry. */
static void floor_of(sim *s, const uint64_t *x, const masked *m, const additive *truncated) {
    const unsigned shift = s->fn.shift;
    const uint8_t *cw = deal_dcf(s, UVCC_TASK_FN_DEAL_FLOOR, m->r, shift, 1);
    uint64_t *want = words(s);
    const additive y = new_additive(s);
    for (unsigned in_place = 0; in_place < 2; in_place++) {
        const additive *to = in_place ? truncated : &y;
        for (unsigned r = 0; r < 2; r++)
            vec(s, r, UVCC_TASK_FN_FLOOR,
                (uvcc_block){.in = {m->xh[r], truncated->of[r]}, .out = {to->of[r]}, .key = cw});
        for (uint32_t i = 0; i < s->n; i++)
            want[i] = (uint64_t)((int64_t)x[i] >> shift);
        check_additive(s, to, want);
    }
    vec(s, O, UVCC_TASK_FN_FLOOR, (uvcc_block){0});
}

/* floor((x + r_low) / 2^shift) and floor(x / 2^shift), to both ends of the range. */
static void truncate_by(sim *s, unsigned shift) {
    uint64_t *x = words(s), *want = words(s);
    for (uint32_t i = 0; i < s->n; i++)
        x[i] = (uint64_t)(i % 5 == 0   ? (int64_t)1 << 62
                          : i % 5 == 1 ? -((int64_t)1 << 62) + 1
                                       : rand_signed(s, i % 62)) -
               (i % 5 == 0);
    const masked m = masked_by_hand(s, x, 1);
    const additive y = new_additive(s);
    uint8_t *section = bytes(s, (size_t)s->n * 16);
    s->call++;
    s->fn = (uvcc_fn_args){.shift = (uint8_t)shift};
    vec(s, O, UVCC_TASK_FN_DEAL_TRUNC, (uvcc_block){.in = {m.r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_TRUNC,
            (uvcc_block){.in = {m.xh[r]}, .out = {y.of[r]}, .words = {r == T ? section : NULL}});
    vec(s, O, UVCC_TASK_FN_TRUNC, (uvcc_block){0});
    for (uint32_t i = 0; i < s->n; i++) /* no sum leaves 64 bits: |x| < 2^62, r_low < 2^62 */
        want[i] = (uint64_t)((int64_t)(x[i] + (m.r[i] & low(shift))) >> shift);
    check_additive(s, &y, want);
    floor_of(s, x, &m, &y);
}

static void best_of_four(sim *s) {
    enum { PAIRS = 6 };
    static const unsigned pair[PAIRS][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    const size_t n = (size_t)s->n * PAIRS;
    uint64_t *diff = own(s, n * 8), *e = own(s, n * 8), *k = own(s, n * 8), *want = words(s);
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t of[4];
        unsigned most = 0;
        for (unsigned j = 0; j < 4; j++) {
            of[j] = rand_signed(s, i % 2 ? 1 : 50);
            most = of[j] > of[most] ? j : most;
        }
        for (unsigned j = 0; j < PAIRS; j++) {
            const size_t at = (size_t)i * PAIRS + j;
            diff[at] = (uint64_t)of[pair[j][0]] - (uint64_t)of[pair[j][1]];
            k[at] = test_rand(&s->rng) & 1;
            e[at] = k[at] ^ ((int64_t)diff[at] >= 0);
        }
        want[i] = (uint64_t)of[most] - (uint64_t)of[3];
    }
    const masked m = masked_by_hand(s, diff, PAIRS);
    const additive y = new_additive(s);
    uint8_t *section = bytes(s, (size_t)s->n * 8 * UVCCI_FN_BEST_WORDS);
    s->call++;
    s->fn = (uvcc_fn_args){0};
    vec(s, O, UVCC_TASK_FN_DEAL_BEST, (uvcc_block){.in = {k, m.r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_BEST,
            (uvcc_block){
                .in = {m.xh[r], m.p[r], e}, .out = {y.of[r]}, .words = {r == T ? section : NULL}});
    vec(s, O, UVCC_TASK_FN_BEST, (uvcc_block){0});
    check_additive(s, &y, want);
}

/* A step of four polynomials: below the multiscale, in scales 0 and 1, by index and by what is
 * left. */
static void multiscale(sim *s) {
    enum { CELLS = 4, RUNGS = 2, SHIFT = 3, BITS = 9, WORDS = 9 * CELLS * RUNGS };
    const uvcci_multiscale shape = {BITS, RUNGS, SHIFT, CELLS};
    uint64_t *x = words(s), *want = words(s);
    int64_t *w = own(s, WORDS * sizeof *w);
    for (unsigned i = 0; i < WORDS; i++)
        w[i] = (int64_t)test_rand(&s->rng);
    for (uint32_t i = 0; i < s->n; i++) /* up to the end of the last scale, negative ones too */
        x[i] =
            (uint64_t)(test_rand(&s->rng) % ((4 * CELLS - 1) << (SHIFT + 2))) - (i % 4 == 0) * 300u;
    const masked m = masked_by_hand(s, x, 1);
    const additive y = new_additive(s);
    const uint32_t key_bytes = (uint32_t)uvcci_multiscale_bytes(BITS, RUNGS, s->n);
    uint8_t *cw[2] = {bytes(s, key_bytes), bytes(s, key_bytes)};
    s->call++;
    s->fn = (uvcc_fn_args){.bits = BITS,
                           .shift = SHIFT,
                           .first = CELLS,
                           .call_key = s->call,
                           .constant = -77,
                           .word_count = WORDS,
                           .words = w};
    deal_alike(s, UVCC_TASK_FN_DEAL_MULTISCALE,
               (uvcc_block){.in = {m.r}, .out_bytes = {cw[0], cw[1]}}, key_bytes);
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_MULTISCALE,
            (uvcc_block){.in = {m.xh[r]}, .out = {y.of[r]}, .key = cw[r]});
    vec(s, O, UVCC_TASK_FN_MULTISCALE, (uvcc_block){0});
    for (uint32_t i = 0; i < s->n; i++) {
        want[i] = (uint64_t)-77;
        for (unsigned k = RUNGS; k-- > 0;) {
            const unsigned n = uvcci_multiscale_bits(&shape, k);
            const int64_t at = ((int64_t)(x[i] + (m.r[i] & low(n))) >> n) - CELLS;
            const uint64_t l =
                uvcci_multiscale_low(m.xh[H][i], n) - uvcci_multiscale_low(m.r[i], n);
            if (at < 0)
                continue;
            const int64_t *c = w + (size_t)9 * CELLS * k + at;
            want[i] += (uint64_t)c[0] + l * ((uint64_t)c[3 * CELLS] + l * (uint64_t)c[6 * CELLS]);
            break;
        }
    }
    check_additive(s, &y, want);
}

static void spline_at(sim *s, unsigned degree, unsigned bits, unsigned knots, const int64_t *w,
                      const uint64_t *x) {
    uint64_t *want = words(s);
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t *c = w + knots;
        for (unsigned k = 0; k < knots; k++)
            c += (int64_t)x[i] >= w[k] ? degree + 1 : 0;
        want[i] = 0;
        for (unsigned j = degree + 1; j-- > 0;)
            want[i] = (uint64_t)c[j] + x[i] * want[i];
    }
    const masked m = masked_by_hand(s, x, 1);
    const additive y = new_additive(s);
    uint8_t *section = bytes(s, (size_t)s->n * 8 * uvcci_spline_dealt(degree));
    s->call++;
    s->fn = (uvcc_fn_args){.bits = (uint8_t)bits,
                           .first = (int64_t)degree,
                           .word_count = uvcci_spline_words(degree, knots),
                           .words = w};
    const uint8_t *cw = deal_dcf(s, UVCC_TASK_FN_DEAL_SPLINE, m.r, bits, degree + 1);
    vec(s, O, UVCC_TASK_FN_DEAL_POWERS, (uvcc_block){.in = {m.r}, .out_words = section});
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_FN_SPLINE,
            (uvcc_block){.in = {m.xh[r], degree != 0 ? m.p[r] : NULL},
                         .out = {y.of[r]},
                         .key = cw,
                         .words = {r == T ? section : NULL}});
    vec(s, O, UVCC_TASK_FN_SPLINE, (uvcc_block){0});
    check_additive(s, &y, want);
}

/* x around every knot and anywhere within 2^(bits - 1). */
static void spline_once(sim *s, unsigned degree, unsigned bits, unsigned knots) {
    const uint32_t count = uvcci_spline_words(degree, knots);
    int64_t *w = own(s, count * sizeof *w);
    uint64_t *x = words(s);
    for (unsigned i = 0; i < knots; i++) {
        const int64_t far = (int64_t)1 << (bits - 2), step = 2 * far / knots;
        w[i] = -far + (int64_t)i * step + (int64_t)(test_rand(&s->rng) % (uint64_t)step);
    }
    for (uint32_t i = knots; i < count; i++)
        w[i] = (int64_t)test_rand(&s->rng);
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t at = w[i % knots] + (int64_t)(i / knots % 3) - 1;
        x[i] = (uint64_t)(i % 4 == 0 ? rand_signed(s, bits - 1) : at);
    }
    spline_at(s, degree, bits, knots, w, x);
}

/* As far from the knots as the bits allow, and on them. */
static void spline_to_the_ends(sim *s, unsigned degree, unsigned bits) {
    const int64_t most = bits > 1 ? ((int64_t)1 << (bits - 1)) - 1 : 1;
    const unsigned knots = bits > 1 ? 2 : 1;
    const int64_t far[5] = {-most, most, 0, most - 1, -most + 1};
    const uint32_t count = uvcci_spline_words(degree, knots);
    int64_t *w = own(s, count * sizeof *w);
    uint64_t *x = words(s);
    w[0] = bits > 1 ? -most : 0;
    if (bits > 1)
        w[1] = most;
    for (uint32_t i = knots; i < count; i++)
        w[i] = (int64_t)test_rand(&s->rng);
    for (uint32_t i = 0; i < s->n; i++)
        x[i] = (uint64_t)far[i % 5];
    spline_at(s, degree, bits, knots, w, x);
}

static void some_splines(sim *s) {
    spline_once(s, 0, 5, 3);
    spline_once(s, 1, 17, 2);
    spline_once(s, 2, 24, 5);
    spline_once(s, 3, 40, 1);
    spline_once(s, 3, 63, 4);
    spline_once(s, 1, 9, 64);
    spline_to_the_ends(s, 3, 63);
    spline_to_the_ends(s, 0, 62);
    spline_to_the_ends(s, 2, 2);
    spline_to_the_ends(s, 1, 1);
}

static void splines(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(some_splines, counts[c], 700 + c);
}

static void some_products(sim *s) {
    static const unsigned shifts[] = {1, 16, 44, 62};
    multiply(s);
    for (unsigned i = 0; i < sizeof shifts / sizeof *shifts; i++)
        truncate_by(s, shifts[i]);
    best_of_four(s);
    multiscale(s);
}

static void products(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        on_all_backends(some_products, counts[c], 600 + c);
}

/* ---- numbers that no formula allows ---- */

static void bad_numbers(void **state) {
    (void)state;
    static const int32_t entries[4] = {1, 2, 3, 4};
    static const int64_t w[64] = {0};
    static const struct {
        uint16_t kind;
        uvcc_fn_args fn;
    } bad[] = {
        {UVCC_TASK_FN_OPEN_MASK, {.bits = 0}},
        {UVCC_TASK_FN_OPEN_MASK, {.bits = 65}},
        {UVCC_TASK_FN_OPEN_FINISH, {.bits = 65}},
        {UVCC_TASK_FN_OPEN_BITS, {.bits = 0}},
        {UVCC_TASK_FN_SHIFT, {.bits = 65, .shift = 1}},
        {UVCC_TASK_FN_SHIFT, {.bits = 64, .shift = 64}},
        {UVCC_TASK_FN_COMPARE, {.bits = 64, .word_count = 1, .words = w}},
        {UVCC_TASK_FN_COMPARE, {.bits = 9, .word_count = 0, .words = w}},
        {UVCC_TASK_FN_COMPARE, {.bits = 9, .word_count = 65, .words = w}},
        {UVCC_TASK_FN_COMPARE, {.bits = 9, .word_count = 1}},
        {UVCC_TASK_FN_SELECT, {.word_count = 65, .words = w}},
        {UVCC_TASK_FN_BITS, {.word_count = 1}},
        {UVCC_TASK_FN_TABLE, {.bits = 0, .entry_count = 1, .entries = entries}},
        {UVCC_TASK_FN_TABLE, {.bits = 9, .entry_count = 0, .entries = entries}},
        {UVCC_TASK_FN_TABLE, {.bits = 20, .entry_count = 65537, .entries = entries}},
        {UVCC_TASK_FN_TABLE, {.bits = 1, .entry_count = 3, .entries = entries}},
        {UVCC_TASK_FN_TABLE, {.bits = 9, .entry_count = 4}},
        {UVCC_TASK_FN_TABLE, {.bits = 9, .shift = 1, .entry_count = 4, .entries = entries}},
        {UVCC_TASK_FN_DEAL_KEY, {.bits = 65}},
        {UVCC_TASK_FN_DEAL_BITS, {.bits = 64, .word_count = 1}},
        {UVCC_TASK_FN_DEAL_BITS, {.bits = 9, .word_count = 65}},
        {UVCC_TASK_FN_DEAL_SELECT, {.word_count = 0}},
        {UVCC_TASK_FN_TRUNC, {.shift = 0}},
        {UVCC_TASK_FN_MULTISCALE, {.bits = 9, .first = 4, .word_count = 36}},
        {UVCC_TASK_FN_MULTISCALE, {.bits = 9, .first = 1, .word_count = 36, .words = w}},
        {UVCC_TASK_FN_MULTISCALE, {.bits = 9, .first = 17, .word_count = 153, .words = w}},
        {UVCC_TASK_FN_MULTISCALE, {.bits = 9, .first = 4, .word_count = 35, .words = w}},
        {UVCC_TASK_FN_MULTISCALE, {.bits = 2, .first = 4, .word_count = 72, .words = w}},
        {UVCC_TASK_FN_DEAL_MULTISCALE,
         {.bits = 60, .shift = 5, .first = 4, .word_count = 36, .words = w}},
        {UVCC_TASK_FN_DEAL_MULTISCALE, {.bits = 63, .first = 2, .word_count = 18 * 33, .words = w}},
        {UVCC_TASK_FN_DEAL_TRUNC, {.shift = 63}},
        {UVCC_TASK_FN_FLOOR, {.shift = 0}},
        {UVCC_TASK_FN_FLOOR, {.shift = 63}},
        {UVCC_TASK_FN_DEAL_FLOOR, {.shift = 0}},
        {UVCC_TASK_FN_DEAL_FLOOR, {.shift = 63}},
        {UVCC_TASK_FN_SPLINE, {.bits = 9, .first = 1, .word_count = 5}},
        {UVCC_TASK_FN_SPLINE, {.bits = 64, .first = 1, .word_count = 5, .words = w}},
        {UVCC_TASK_FN_SPLINE, {.bits = 9, .first = 1, .word_count = 6, .words = w}},
        {UVCC_TASK_FN_SPLINE, {.bits = 9, .first = 1, .word_count = 2, .words = w}},
        {UVCC_TASK_FN_SPLINE, {.bits = 9, .first = 0, .word_count = 65 * 2 + 1, .words = w}},
        {UVCC_TASK_FN_SPLINE, {.bits = 9, .first = -1, .word_count = 5, .words = w}},
        {UVCC_TASK_FN_DEAL_SPLINE, {.bits = 0, .first = 1}},
        {UVCC_TASK_FN_DEAL_SPLINE, {.bits = 9, .first = 4}},
        {UVCC_TASK_FN_DEAL_POWERS, {.bits = 64, .first = 1}},
        {UVCC_TASK_FN_DEAL_POWERS, {.bits = 9, .first = -1}},
        {UVCC_TASK_FN_DEAL_SCALAR, {.shift = 64, .words = w}},
        {UVCC_TASK_FN_DEAL_SCALAR, {.shift = 1}},
        {UVCC_TASK_FN_DEAL_SCALAR, {.shift = 1, .words = w, .constant = 64}},
        {UVCC_TASK_FN_DEAL_SCALAR, {.shift = 1, .words = w, .constant = -1}},
    };
    uint8_t digest[32];
    sim *s = malloc(sizeof *s);
    assert_non_null(s);
    sim_open(s, 0, 1, 500);
    uint64_t x = 5, r = 0;
    s->fn = (uvcc_fn_args){.bits = 3};
    assert_int_equal(run(s, H, UVCC_TASK_FN_SHIFT, (uvcc_block){.in = {&x}, .out = {&r}}), 0);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        s->fn = bad[i].fn;
        assert_int_equal(run(s, H, (uvcc_task_kind)bad[i].kind, (uvcc_block){0}), UVCC_ERR_JOB);
    }
    uvcc_block b = {.count = 1};
    uvcc_task t = {.kind = UVCC_TASK_FN_PADS, .keys = &s->keys[H]};
    t.u.vec.blocks = &b;
    t.u.vec.count = 1;
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    assert_int_equal(uvcci_cpu_run(&s->worker[H], &job), UVCC_ERR_JOB); /* no fn */
    sim_close(s, digest);
    free(s);
}

/* A worker that has reserved runs the largest table without asking for memory. */
static void reserved_memory(void **state) {
    (void)state;
    uint8_t digest[32];
    sim *s = malloc(sizeof *s);
    assert_non_null(s);
    sim_open(s, 0, 2, 501);
    for (unsigned r = 0; r < 3; r++)
        assert_int_equal(uvcci_cpu_worker_reserve(&s->worker[r]), 0);
    s->mem.fail_at = 1;
    table_once(s, 17, 17, UVCC_FN_ENTRIES_MAX);
    assert_int_equal(s->mem.fail_at, 1);
    sim_close(s, digest);

    sim_open(s, 0, 2, 501);
    const int32_t *t = entries_of(s, 4);
    s->fn = (uvcc_fn_args){.bits = 9, .entry_count = 4, .entries = t};
    s->mem.fail_at = 1;
    assert_int_equal(run(s, O, UVCC_TASK_FN_TABLE, (uvcc_block){0}), UVCC_ERR_JOB);
    sim_close(s, digest);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens),       cmocka_unit_test(exchanges),
        cmocka_unit_test(comparisons), cmocka_unit_test(tables),
        cmocka_unit_test(products),    cmocka_unit_test(splines),
        cmocka_unit_test(bad_numbers), cmocka_unit_test(reserved_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
