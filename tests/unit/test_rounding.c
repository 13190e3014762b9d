/* SPDX-License-Identifier: Apache-2.0 */
/* Stochastic truncation without keys: the SR and SR2 tasks of three roles, with each other's
 * messages, against floor((x + rho) / 2^f) to the bit; and what each party sees of it, counted over
 * all masks on a small ring, by a model that is the tasks' where the ring has 64 bits. */
#include "support.h"

#include "exec/compute/kernels.h"
#include "proto/prg.h"
#include <uvcc/blv1.h>

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER };
enum { ORDINAL = 77, CALL = 5, BLOCK = 9, GAP = 20, N = 200 };
enum { VALUE_BYTES = 8 * N, MESSAGE_BYTES = 2 * VALUE_BYTES + GAP };

static uint64_t rng;

/* ---- the model: a ring of n bits ---- */

typedef struct masks {
    uint64_t zero, r, k;      /* of TAIL and OTHER, TAIL and OTHER, HEAD */
    uint64_t q_ht, q_ho;      /* what HEAD's bit is split by */
    uint64_t w_ht, w_ho, new; /* pads of the wrap, and the new component b */
} masks;

static uint64_t low(uint64_t x, unsigned n) {
    return n == 64 ? x : x & ((UINT64_C(1) << n) - 1);
}
static uint64_t top(uint64_t x, unsigned n) {
    return x >> (n - 1) & 1;
}

/* What the parties send each other: [from][to], the component and bits of HEAD to OTHER apart. */
typedef struct sent {
    uint64_t th, oh, ho, to;           /* SR_OPEN */
    uint64_t component, bits, half_ot; /* SR_SEND; bits: e, or d of SR2 */
    uint64_t half_to;                  /* SR2 */
    uint64_t y[3];                     /* components: HEAD's lo, HEAD's hi, the third */
} sent;

static sent model_additive(unsigned n, unsigned f, const uint64_t z[3], const masks *m) {
    sent s = {0};
    const uint64_t rb = top(m->r, n);
    s.th = low(z[T] + m->zero + m->r, n);
    s.oh = low(z[O] - m->zero, n);
    s.ho = low(m->k - m->q_ht, f);
    s.to = low(m->q_ht * rb + m->w_ht, f);
    const uint64_t zh = low(z[H] + s.th + s.oh + (UINT64_C(1) << (n - 2)), n);
    s.component = low((zh >> f) - m->new, n);
    s.bits = top(zh, n) ^ m->k;
    s.half_ot = low(s.ho * rb + m->w_ho, f);
    const uint64_t sign = 1 - 2 * s.bits, unit = UINT64_C(1) << (n - f);
    s.y[0] = low(s.component + sign * m->w_ho * unit, n);
    s.y[1] = low(m->new + sign * m->w_ht *unit, n);
    s.y[2] = low((rb - s.bits * rb - sign * (s.to + s.half_ot)) * unit - (m->r >> f) -
                     (UINT64_C(1) << (n - 2 - f)),
                 n);
    return s;
}

static sent model_replicated(unsigned n, unsigned f, const uint64_t x[3], const masks *m) {
    sent s = {0};
    const uint64_t u = low(x[0] + x[1] + (UINT64_C(1) << (n - 2)) + low(UINT64_MAX, f), n);
    const uint64_t v = 1 - top(x[2], n), unit = UINT64_C(1) << (n - f);
    s.component = low((u >> f) - m->new, n);
    s.bits = low(1 - top(u, n) - m->q_ht - m->q_ho, f);
    s.half_to = low(m->q_ht * v + m->w_ht, f);
    s.half_ot = low(m->q_ho * v + m->w_ho, f);
    s.y[0] = low(s.component - m->w_ho * unit, n);
    s.y[1] = low(m->new - m->w_ht *unit, n);
    s.y[2] = low((x[2] >> f) - (UINT64_C(1) << (n - 2 - f)) +
                     (s.bits * v + s.half_to + s.half_ot - 1) * unit,
                 n);
    return s;
}

/* ---- the tasks ---- */

static struct sim {
    test_alloc mem;
    uvcci_cpu_worker worker[3];
    uvcc_step_keys keys[3];
    unsigned f;
    uint64_t x[N], part[3][N]; /* z_p, or a, b, c */
    uint64_t lo[3][N], hi[3][N];
    uint8_t message[2][3][3][MESSAGE_BYTES + 1];
} sim;

/* The ends of what may be truncated, zero, all over, small. */
static uint64_t value(uint32_t i, uint64_t most) {
    const uint64_t special[] = {0, UINT64_MAX, most - 1, 0 - most, 1, most - 2, 1 - most};
    const uint64_t x = test_rand(&rng);
    if (i % 16 < 7)
        return special[i % 16];
    return i % 16 < 12 ? x % most : 0 - x % most;
}

static void sim_open(unsigned f, uint64_t most) {
    memset(&sim, 0, sizeof sim);
    const uvcc_allocator al = test_allocator(&sim.mem);
    test_rand_bytes(&rng, sim.keys, sizeof sim.keys);
    sim.f = f;
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(uvcci_cpu_worker_init(&sim.worker[r], &al, (f + r) % 4), 0);
        memcpy(sim.keys[(r + 1) % 3].prg[UVCC_PAIR_PREV], sim.keys[r].prg[UVCC_PAIR_NEXT],
               sizeof sim.keys[r].prg[0]);
    }
    for (uint32_t i = 0; i < N; i++) {
        sim.x[i] = value(i, most);
        sim.part[0][i] = test_rand(&rng);
        sim.part[1][i] = i % 3 == 0 ? sim.x[i] - sim.part[0][i] : test_rand(&rng);
        sim.part[2][i] = sim.x[i] - sim.part[0][i] - sim.part[1][i];
    }
}

static void sim_close(void) {
    for (unsigned r = 0; r < 3; r++)
        uvcci_cpu_worker_free(&sim.worker[r]);
    assert_int_equal(sim.mem.live_blocks, 0);
}

static uint8_t *message(unsigned round, unsigned from, unsigned to) {
    return sim.message[round][from][to] + 1;
}

static void task(unsigned role, uvcc_task_kind kind, uvcc_block b) {
    b.block = BLOCK;
    b.count = N;
    b.role = (uint8_t)role;
    uvcc_task t = {.kind = (uint16_t)kind, .ordinal = ORDINAL, .call = CALL};
    t.keys = &sim.keys[role];
    t.u.vec.blocks = &b;
    t.u.vec.count = 1;
    t.u.vec.shift = (uint8_t)sim.f;
    t.u.vec.gap = GAP;
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    assert_int_equal(uvcci_cpu_run(&sim.worker[role], &job), 0);
}

static uint64_t word(unsigned role, unsigned pair, uvcc_prg_tag tag, uint8_t lane, uint32_t i) {
    uvcci_aes key;
    uint64_t x;
    uvcci_aes_init(&key, sim.keys[role].prg[pair][tag], UVCCI_AES_PORTABLE);
    uvcci_prg_fill(&key, (uvcci_prg_at){ORDINAL, CALL, BLOCK, lane}, i, &x, 1);
    return x;
}

static masks masks_of(uint32_t i) {
    return (masks){
        .zero = word(T, UVCC_PAIR_NEXT, UVCC_TAG_zero, 0, i),
        .r = word(T, UVCC_PAIR_NEXT, UVCC_TAG_trunc, 0, i),
        .k = word(H, UVCC_PAIR_OWN, UVCC_TAG_own, 2, i / 64) >> i % 64 & 1,
        .q_ht = word(H, UVCC_PAIR_NEXT, UVCC_TAG_trunc, 3, i),
        .q_ho = word(H, UVCC_PAIR_PREV, UVCC_TAG_trunc, 3, i),
        .w_ht = word(H, UVCC_PAIR_NEXT, UVCC_TAG_trunc, 4, i),
        .w_ho = word(H, UVCC_PAIR_PREV, UVCC_TAG_trunc, 4, i),
        .new = word(H, UVCC_PAIR_NEXT, UVCC_TAG_lift, 0, i),
    };
}

/* Element i of n-bit values, packed. */
static uint64_t packed(const uint8_t *from, unsigned n, uint32_t i) {
    uint64_t x[N];
    uvcc_bits_unpack(from, N, n, x);
    return x[i];
}

static uint64_t plain(const uint8_t *from, uint32_t i) {
    uint64_t x;
    memcpy(&x, from + 8 * (size_t)i, 8);
    return x;
}

/* The components are the model's, at both who hold them, and sum to the floor that the masks say:
 * of x + rho, rho what no party knows beside x. */
static void check_result(uint32_t i, const sent *want, uint64_t rho) {
    assert_true(sim.lo[H][i] == want->y[0] && sim.hi[O][i] == want->y[0]);
    assert_true(sim.hi[H][i] == want->y[1] && sim.lo[T][i] == want->y[1]);
    assert_true(sim.hi[T][i] == want->y[2] && sim.lo[O][i] == want->y[2]);
    const uint64_t y = want->y[0] + want->y[1] + want->y[2];
    const int64_t floor_of = (int64_t)(sim.x[i] + rho) >> sim.f;
    if ((int64_t)y != floor_of)
        fail_msg("f %u: floor((%lld + %llu) / 2^f) is not %lld", sim.f, (long long)sim.x[i],
                 (unsigned long long)rho, (long long)y);
}

static void additive(unsigned f) {
    sim_open(f, UINT64_C(1) << 62);
    uvcc_block b[3] = {{.wire_out = {message(0, H, O)}},
                       {.in = {sim.part[T]}, .wire_out = {message(0, T, H), message(0, T, O)}},
                       {.in = {sim.part[O]}, .wire_out = {message(0, O, H)}}};
    for (unsigned r = 0; r < 3; r++)
        task(r, UVCC_TASK_SR_OPEN, b[r]);
    task(H, UVCC_TASK_SR_SEND,
         (uvcc_block){.in = {sim.part[H]},
                      .out = {sim.lo[H], sim.hi[H]},
                      .wire_in = {message(0, T, H), message(0, O, H)},
                      .wire_out = {message(1, H, T), message(1, H, O)}});
    task(T, UVCC_TASK_SR_SEND, (uvcc_block){0});
    task(O, UVCC_TASK_SR_SEND,
         (uvcc_block){.out = {sim.lo[O]},
                      .wire_in = {message(0, H, O), message(0, T, O)},
                      .wire_out = {message(1, O, T)}});
    const uint8_t *const bits = message(1, H, O) + VALUE_BYTES + GAP;
    task(T, UVCC_TASK_SR_FINISH,
         (uvcc_block){.out = {sim.lo[T], sim.hi[T]},
                      .wire_in = {message(1, H, T), message(1, O, T)}});
    task(O, UVCC_TASK_SR_FINISH,
         (uvcc_block){.in = {sim.lo[O]},
                      .out = {sim.lo[O], sim.hi[O]},
                      .wire_in = {message(1, H, O), bits}});
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t z[3] = {sim.part[0][i], sim.part[1][i], sim.part[2][i]};
        const masks m = masks_of(i);
        const sent want = model_additive(64, f, z, &m);
        assert_true(plain(message(0, T, H), i) == want.th && plain(message(0, O, H), i) == want.oh);
        assert_true(packed(message(0, H, O), f, i) == want.ho);
        assert_true(packed(message(0, T, O), f, i) == want.to);
        assert_true(plain(message(1, H, O), i) == want.component);
        assert_true(packed(bits, 1, i) == want.bits && packed(message(1, H, T), 1, i) == want.bits);
        assert_true(packed(message(1, O, T), f, i) == want.half_ot);
        check_result(i, &want, low(m.r, f));
    }
    sim_close();
}

static void replicated(unsigned f) {
    sim_open(f, (UINT64_C(1) << 62) - (UINT64_C(1) << f));
    for (unsigned r = 0; r < 3; r++) {
        uvcc_block b = {.in = {sim.part[r], sim.part[(r + 1) % 3]},
                        .wire_out = {message(0, r, r == T ? O : T)}};
        if (r == H) {
            b.wire_out[1] = message(0, H, O);
            b.out[0] = sim.lo[H];
            b.out[1] = sim.hi[H];
        }
        task(r, UVCC_TASK_SR2_SEND, b);
    }
    for (unsigned r = T; r <= O; r++) { /* in place */
        memcpy(sim.lo[r], sim.part[r], VALUE_BYTES);
        memcpy(sim.hi[r], sim.part[(r + 1) % 3], VALUE_BYTES);
        task(r, UVCC_TASK_SR2_FINISH,
             (uvcc_block){.in = {sim.lo[r], sim.hi[r]},
                          .out = {sim.lo[r], sim.hi[r]},
                          .wire_in = {message(0, H, r), message(0, r == T ? O : T, r)}});
    }
    const uint8_t *const bits = message(0, H, O) + VALUE_BYTES + GAP;
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t x[3] = {sim.part[0][i], sim.part[1][i], sim.part[2][i]};
        const masks m = masks_of(i);
        const sent want = model_replicated(64, f, x, &m);
        assert_true(plain(message(0, H, O), i) == want.component);
        assert_true(packed(bits, f, i) == want.bits && packed(message(0, H, T), f, i) == want.bits);
        assert_true(packed(message(0, T, O), f, i) == want.half_to);
        assert_true(packed(message(0, O, T), f, i) == want.half_ot);
        check_result(i, &want, low(UINT64_MAX, f) - low(x[2], f));
    }
    sim_close();
}

static void is_the_floor(void **state) {
    (void)state;
    for (unsigned f = 1; f <= 61; f++) {
        additive(f);
        replicated(f);
    }
    additive(62);
}

/* ---- what each party sees, on a ring of n bits ---- */

enum { RING = 4, SHIFT = 2, WORDS = 1 << RING, PARTS = 1 << SHIFT, VIEWS = 1 << 12 };

/* How often a party sees what, over the masks that it does not know; numbers below 16, so what it
 * sees is some digits. */
typedef struct histogram {
    uint32_t of[VIEWS];
} histogram;

static void count(histogram *h, uint64_t a, uint64_t b, uint64_t c) {
    h->of[a << 8 | b << 4 | c]++;
}

/* The same for all values of what the party does not hold. */
static void must_be_same(const histogram *first, const histogram *h) {
    assert_memory_equal(first, h, sizeof *h);
}

/* HEAD sees what it opens; all that it does not know are TAIL's and OTHER's masks. */
static void head_sees(const uint64_t z[3], histogram *h) {
    masks m = {0};
    for (m.zero = 0; m.zero < WORDS; m.zero++)
        for (m.r = 0; m.r < WORDS; m.r++) {
            const sent s = model_additive(RING, SHIFT, z, &m);
            count(h, 0, s.th, s.oh);
        }
}

/* TAIL knows all masks but k and the pads of HEAD with OTHER. */
static void tail_sees(const uint64_t z[3], masks m, histogram *h) {
    for (m.k = 0; m.k < 2; m.k++)
        for (m.w_ho = 0; m.w_ho < PARTS; m.w_ho++) {
            const sent s = model_additive(RING, SHIFT, z, &m);
            count(h, 0, s.bits, s.half_ot);
        }
}

/* OTHER knows all masks but k and the pads of HEAD with TAIL. */
static void other_sees(const uint64_t z[3], masks m, histogram *h) {
    for (m.k = 0; m.k < 2; m.k++)
        for (m.q_ht = 0; m.q_ht < PARTS; m.q_ht++)
            for (m.w_ht = 0; m.w_ht < PARTS; m.w_ht++)
                for (m.new = 0; m.new < WORDS; m.new ++) {
                    const sent s = model_additive(RING, SHIFT, z, &m);
                    count(h, s.component, s.ho << 2 | s.to, s.bits);
                }
}

static void additive_view(unsigned role, uint64_t mine, masks m) {
    histogram first;
    for (unsigned others = 0; others < WORDS * WORDS; others++) {
        histogram h = {0};
        uint64_t z[3];
        z[role] = mine;
        z[(role + 1) % 3] = others % WORDS;
        z[(role + 2) % 3] = others / WORDS;
        if (role == H)
            head_sees(z, &h);
        else if (role == T)
            tail_sees(z, m, &h);
        else
            other_sees(z, m, &h);
        if (others == 0)
            first = h;
        must_be_same(&first, &h);
    }
}

static void nobody_sees_an_additive_value(void **state) {
    (void)state;
    for (uint64_t mine = 0; mine < WORDS; mine += 5)
        additive_view(H, mine, (masks){0});
    for (uint64_t r = 0; r < WORDS; r++)
        for (uint64_t pads = 0; pads < PARTS; pads++) {
            const masks m = {
                .r = r, .zero = 3 * r % WORDS, .q_ht = pads, .w_ht = 3 - pads, .w_ho = pads};
            additive_view(T, 7 * r % WORDS, m);
            if (pads < 2)
                additive_view(O, 7 * r % WORDS, m);
        }
}

/* Of a replicated value HEAD sees nothing. TAIL lacks a and the pads of HEAD with OTHER, OTHER b
 * and those of HEAD with TAIL. */
static void replicated_view(unsigned role, const uint64_t mine[3], masks m) {
    histogram first;
    for (unsigned lacks = 0; lacks < WORDS; lacks++) {
        histogram h = {0};
        uint64_t x[3] = {mine[0], mine[1], mine[2]};
        x[role == T ? 0 : 1] = lacks;
        uint64_t *q = role == T ? &m.q_ho : &m.q_ht, *w = role == T ? &m.w_ho : &m.w_ht;
        for (*q = 0; *q < PARTS; ++*q)
            for (*w = 0; *w < PARTS; ++*w)
                for (uint64_t new = 0; new < (role == T ? 1 : WORDS); new ++) {
                    if (role == O)
                        m.new = new;
                    const sent s = model_replicated(RING, SHIFT, x, &m);
                    count(&h, role == T ? 0 : s.component, s.bits,
                          role == T ? s.half_ot : s.half_to);
                }
        if (lacks == 0)
            first = h;
        must_be_same(&first, &h);
    }
}

static void nobody_sees_a_replicated_value(void **state) {
    (void)state;
    for (uint64_t x = 0; x < WORDS * WORDS; x++)
        for (uint64_t pads = 0; pads < PARTS; pads++) {
            const uint64_t mine[3] = {x % WORDS, x % WORDS, x / WORDS};
            const masks m = {
                .q_ht = pads, .q_ho = pads, .w_ht = 3 - pads, .w_ho = 3 - pads, .new = x % WORDS};
            replicated_view(T, mine, m);
            replicated_view(O, mine, m);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(is_the_floor),
        cmocka_unit_test(nobody_sees_an_additive_value),
        cmocka_unit_test(nobody_sees_a_replicated_value),
    };
    rng = 20261123;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
