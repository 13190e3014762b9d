/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c - every kind of task of <uvcc/compute.h>, run by three parties as the protocols do, with
 * keys and shares secret. What a party puts on the wire is declassified where it is sent, because
 * it is masked; what it keeps stays secret; what it receives becomes secret again where it is one
 * of its components. An opened value is public to the two parties of its edge. */
#include "taint.h"

#include "exec/compute/kernels.h"
#include "exec/primitives/circuit.h"
#include "exec/program/function.h"

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER };
/* Two chunks, the second one neither of whole bytes of bits nor of whole groups of AES blocks. */
enum { N = 1101, BYTES = N * 8, BIT_BYTES = (N + 7) / 8, ORDINAL = 77, CALL = 5, BLOCK = 9 };

static uint64_t rng = 2;

/* --- Three parties ---------------------------------------------------------------------------- */

static struct {
    test_alloc mem;
    uvcci_cpu_worker worker[3]; /* by role */
    uvcc_step_keys keys[3];
    uvcc_task vec; /* parameters of the vector tasks */
    uint64_t pool[64][N + 1];
    unsigned used;
} sim;

static void open_sim(void **state) {
    const backend *b = backend_of(state);
    const uvcc_allocator al = test_allocator(&sim.mem);
    memset(&sim.vec, 0, sizeof sim.vec);
    sim.vec.call = CALL;
    sim.used = 0;
    test_rand_bytes(&rng, sim.keys, sizeof sim.keys);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(uvcci_cpu_worker_init(&sim.worker[r], &al, b->cpu), 0);
        assert_int_equal(sim.worker[r].aes, b->aes);
        assert_true(sim.worker[r].gemm <= (uvcci_gemm_backend)b->cpu);
        memcpy(sim.keys[(r + 1) % 3].prg[UVCC_PAIR_PREV], sim.keys[r].prg[UVCC_PAIR_NEXT],
               sizeof sim.keys[r].prg[0]);
        memcpy(sim.keys[r].dpf, sim.keys[0].dpf, sizeof sim.keys[0].dpf); /* public */
    }
    for (unsigned r = 0; r < 3; r++)
        taint(sim.keys[r].prg, sizeof sim.keys[r].prg);
}

static void close_sim(void) {
    for (unsigned r = 0; r < 3; r++)
        uvcci_cpu_worker_free(&sim.worker[r]);
    assert_int_equal(sim.mem.live_blocks, 0);
}

/* Public bytes, so that what is found to be secret was written by a task. */
static uint64_t *words(void) {
    assert_true(sim.used < 64);
    return memset(sim.pool[sim.used++], 0xEE, sizeof sim.pool[0]);
}
static uint8_t *wire(void) { /* of any alignment */
    return (uint8_t *)words() + 1;
}

static void job(unsigned role, const uvcc_task *t) {
    const uvcc_job j = {.id = 1, .tasks = t, .count = 1};
    assert_int_equal(uvcci_cpu_run(&sim.worker[role], &j), 0);
}

static void vec(unsigned role, uvcc_task_kind kind, uvcc_block b) {
    uvcc_task t = sim.vec;
    t.kind = (uint16_t)kind;
    t.ordinal = ORDINAL;
    t.keys = &sim.keys[role];
    b.block = BLOCK;
    b.count = N;
    b.role = (uint8_t)role;
    t.u.vec.blocks = &b;
    t.u.vec.count = 1;
    job(role, &t);
}

/* --- Values and shares ------------------------------------------------------------------------ */

/* Values of [-2^n, 2^n). */
static uint64_t *values(unsigned n) {
    uint64_t *x = words();
    for (uint32_t i = 0; i < N; i++)
        x[i] = (uint64_t)((int64_t)(test_rand(&rng) << (63 - n)) >> (63 - n));
    return x;
}

/* Secret components that add up to x; x itself stays with the test. */
typedef struct shared {
    uint64_t *part[3];
} shared;

static shared share(const uint64_t *x) {
    const shared s = {{words(), words(), words()}};
    for (uint32_t i = 0; i < N; i++) {
        s.part[0][i] = test_rand(&rng);
        s.part[1][i] = test_rand(&rng);
        s.part[2][i] = x[i] - s.part[0][i] - s.part[1][i];
    }
    for (unsigned c = 0; c < 3; c++)
        taint(s.part[c], BYTES);
    return s;
}

static uvcc_shares held(const shared *s, unsigned role) {
    return (uvcc_shares){s->part[role], s->part[(role + 1) % 3]};
}

/* Whether the components of HEAD, TAIL and OTHER are replicated, and add up to x. */
static void check_rss(uint64_t *const lo[3], uint64_t *const hi[3], const uint64_t *x) {
    for (unsigned r = 0; r < 3; r++) {
        look(lo[r], BYTES);
        look(hi[r], BYTES);
    }
    for (unsigned r = 0; r < 3; r++)
        assert_memory_equal(hi[r], lo[(r + 1) % 3], BYTES);
    for (uint32_t i = 0; i < N; i++)
        assert_true(lo[0][i] + lo[1][i] + lo[2][i] == x[i]);
}

static uint64_t edge_sum(uint64_t *const y[2], uint32_t i) {
    return y[H][i] + y[T][i];
}

static void look_at_edge(uint64_t *const y[2]) {
    for (unsigned r = 0; r < 2; r++) {
        assert_tainted(y[r], BYTES);
        look(y[r], BYTES);
    }
}

/* --- Inputs, openings, reshares --------------------------------------------------------------- */

static void inputs(void **state) {
    open_sim(state);
    uint64_t *x = values(63), *secret = words(), *lo[3], *hi[3];
    uint8_t *to[2] = {wire(), wire()};
    for (unsigned r = 0; r < 3; r++) {
        lo[r] = words();
        hi[r] = words();
    }
    memcpy(secret, x, BYTES);
    taint(secret, BYTES);
    vec(H, UVCC_TASK_INPUT,
        (uvcc_block){.in = {secret}, .out = {lo[H], hi[H]}, .wire_out = {to[0], to[1]}});
    assert_tainted(lo[H], BYTES);
    assert_tainted(hi[H], BYTES);
    for (unsigned i = 0; i < 2; i++)
        declassify(to[i], BYTES, "x - lo - hi, each receiver lacks one of these two pads");
    vec(T, UVCC_TASK_INPUT, (uvcc_block){.out = {lo[T], hi[T]}, .wire_in = {to[0]}});
    vec(O, UVCC_TASK_INPUT, (uvcc_block){.out = {lo[O], hi[O]}, .wire_in = {to[1]}});
    check_rss(lo, hi, x);
    close_sim();
}

/* The points are HEAD's; keys and what comes of them tell the others nothing, so they stay secret.
 */
static void one_hot_rows(void **state) {
    enum { BITS = 9, KEY_WORDS = 2 * (BITS - 2) + 5, COLS = 7, FIRST = 250 };
    static uint64_t keys[N * KEY_WORDS], roots[3][2 * N], rows[3][N * COLS], points[N], kept[N];
    open_sim(state);
    for (uint32_t i = 0; i < N; i++)
        points[i] = test_rand(&rng) % 3 == 0 ? FIRST + i % COLS : test_rand(&rng);
    taint(points, sizeof points);
    sim.vec.u.vec.bits = BITS;
    sim.vec.u.vec.constant = FIRST;
    sim.vec.u.vec.cols = COLS;
    sim.vec.u.vec.step = 1;
    vec(H, UVCC_TASK_ONE_HOT_KEYS, (uvcc_block){.in = {points}, .out = {keys, kept}});
    assert_tainted(keys, 8); /* a seed; bits of control words that are not used are 0 */
    for (unsigned r = T; r <= O; r++) {
        vec(r, UVCC_TASK_ONE_HOT_KEYS, (uvcc_block){.out = {roots[r]}});
        assert_tainted(roots[r], sizeof roots[r]);
        vec(r, UVCC_TASK_ONE_HOT_ROWS, (uvcc_block){.in = {keys, roots[r]}, .out = {rows[r]}});
        assert_tainted(rows[r], sizeof rows[r]);
    }
    vec(H, UVCC_TASK_ONE_HOT_ROWS, (uvcc_block){.in = {kept}, .out = {rows[H]}});
    assert_tainted(rows[H], 1); /* the other bytes of 0 and 1 are 0 */
    look(rows[H], sizeof rows[H]);
    for (unsigned r = T; r <= O; r++)
        declassify(rows[r], sizeof rows[r], "only this test has both");
    declassify(points, sizeof points, "the test's own");
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < COLS; j++) {
            const uint64_t want = points[i] % (1u << BITS) == FIRST + j;
            assert_true(rows[H][i * COLS + j] == want);
            assert_true(rows[T][i * COLS + j] + rows[O][i * COLS + j] == want);
        }
    close_sim();
}

/* Each pair draws the component that both of it hold; nobody sends anything. */
static void randoms(void **state) {
    open_sim(state);
    uint64_t *lo[3], *hi[3], *sum = words();
    sim.vec.u.vec.bits = 62; /* all bytes of a word are secret */
    for (unsigned r = 0; r < 3; r++) {
        lo[r] = words();
        hi[r] = words();
        vec(r, UVCC_TASK_RANDOM, (uvcc_block){.out = {lo[r], hi[r]}});
        assert_tainted(lo[r], BYTES);
        assert_tainted(hi[r], BYTES);
    }
    for (unsigned i = 0; i < N; i++)
        sum[i] = lo[0][i] + lo[1][i] + lo[2][i];
    declassify(sum, BYTES, "only this test knows all three words");
    check_rss(lo, hi, sum);
    for (unsigned i = 0; i < N; i++)
        assert_true(sum[i] <= 3 * ((UINT64_C(1) << 62) - 1));
    close_sim();
}

/* Openings to the edge: zh at HEAD and TAIL. */
static void opened(uint64_t *zh[2]) {
    for (unsigned r = 0; r < 2; r++)
        declassify(zh[r], BYTES, "x + r is what the edge opens; only OTHER knows r");
    assert_memory_equal(zh[H], zh[T], BYTES);
}

static void open4(const shared *z, uint64_t *zh[2]) {
    uint8_t *head = wire(), *tail = wire(), *other[2] = {wire(), wire()};
    vec(H, UVCC_TASK_OPEN4_MASK,
        (uvcc_block){.in = {z->part[0]}, .out = {zh[H]}, .wire_out = {head}});
    vec(T, UVCC_TASK_OPEN4_MASK,
        (uvcc_block){.in = {z->part[1]}, .out = {zh[T]}, .wire_out = {tail}});
    vec(O, UVCC_TASK_OPEN4_MASK,
        (uvcc_block){.in = {z->part[2]}, .wire_out = {other[0], other[1]}});
    declassify(head, BYTES,
               "masked by the zero share, and from bit f on by a pad of HEAD and OTHER");
    declassify(tail, BYTES,
               "masked by the zero share, and from bit f on by a pad of TAIL and OTHER");
    for (unsigned i = 0; i < 2; i++)
        declassify(other[i], BYTES, "masked by the zero share and OTHER's own r_low");
    vec(H, UVCC_TASK_OPEN_FINISH,
        (uvcc_block){.in = {zh[H]}, .out = {zh[H]}, .wire_in = {tail, other[0]}});
    vec(T, UVCC_TASK_OPEN_FINISH,
        (uvcc_block){.in = {zh[T]}, .out = {zh[T]}, .wire_in = {head, other[1]}});
    opened(zh);
}

static void open2(const shared *x, uint64_t *xh[2]) {
    uint8_t *head = wire(), *tail = wire();
    vec(H, UVCC_TASK_OPEN2_MASK,
        (uvcc_block){.in = {x->part[0], x->part[1]}, .out = {xh[H]}, .wire_out = {head}});
    vec(T, UVCC_TASK_OPEN2_MASK,
        (uvcc_block){.in = {x->part[1], x->part[2]}, .out = {xh[T]}, .wire_out = {tail}});
    vec(O, UVCC_TASK_OPEN2_MASK, (uvcc_block){.in = {x->part[2], x->part[0]}});
    declassify(head, BYTES, "masked by a pad of HEAD and OTHER");
    declassify(tail, BYTES, "masked by a pad of TAIL and OTHER");
    vec(H, UVCC_TASK_OPEN_FINISH, (uvcc_block){.in = {xh[H]}, .out = {xh[H]}, .wire_in = {tail}});
    vec(T, UVCC_TASK_OPEN_FINISH, (uvcc_block){.in = {xh[T]}, .out = {xh[T]}, .wire_in = {head}});
    opened(xh);
}

static void reshares_and_openings_to_all(void **state) {
    open_sim(state);
    const uint64_t *x = values(63);
    const shared z = share(x);
    uint64_t *lo[3], *hi[3], *all = words();
    uint8_t *to[3];
    for (unsigned r = 0; r < 3; r++) {
        to[r] = wire();
        lo[r] = words();
        hi[r] = words();
        vec(r, UVCC_TASK_RESHARE_MASK,
            (uvcc_block){.in = {z.part[r]}, .out = {lo[r]}, .wire_out = {to[r]}});
        assert_tainted(lo[r], BYTES);
        declassify(to[r], BYTES, "masked by the zero share, of which the receiver knows one pad");
    }
    for (unsigned r = 0; r < 3; r++) {
        vec(r, UVCC_TASK_UNPACK, (uvcc_block){.out = {hi[r]}, .wire_in = {to[(r + 1) % 3]}});
        taint(hi[r], BYTES); /* from now on a component, as lo is */
    }
    uint8_t *reveal = wire();
    vec(O, UVCC_TASK_PACK, (uvcc_block){.in = {lo[O]}, .wire_out = {reveal}});
    declassify(reveal, BYTES, "the component that HEAD lacks: the value is opened to it");
    vec(H, UVCC_TASK_OPEN_ALL_FINISH,
        (uvcc_block){.in = {lo[H], hi[H]}, .out = {all}, .wire_in = {reveal}});
    declassify(all, BYTES, "the value is opened to all");
    assert_memory_equal(all, x, BYTES);
    check_rss(lo, hi, x);
    close_sim();
}

/* What a Beaver product opens, and its triple's C. */
static void triples(void **state) {
    open_sim(state);
    static const uvcc_task_kind kinds[] = {UVCC_TASK_TRIPLE_A, UVCC_TASK_TRIPLE_B};
    for (unsigned k = 0; k < 2; k++) {
        const shared x = share(values(63));
        uint64_t *lo[3], *hi[3], *mask = words(), *sum = words(), *all[3];
        uint8_t *to[3];
        for (unsigned r = 0; r < 3; r++) {
            to[r] = wire();
            lo[r] = words();
            hi[r] = words();
            vec(r, kinds[k],
                (uvcc_block){.in = {x.part[r], x.part[(r + 1) % 3]},
                             .out = {lo[r], hi[r]},
                             .wire_out = {to[r]}});
            assert_tainted(lo[r], BYTES);
            assert_tainted(hi[r], BYTES);
            declassify(to[r], BYTES, "masked by a component of A that the receiver lacks");
        }
        for (unsigned r = 0; r < 3; r++) {
            all[r] = words();
            vec(r, UVCC_TASK_OPEN_ALL_FINISH,
                (uvcc_block){.in = {lo[r], hi[r]}, .out = {all[r]}, .wire_in = {to[(r + 2) % 3]}});
            declassify(all[r], BYTES, "x less its mask is opened to all");
            assert_memory_equal(all[r], all[0], BYTES);
        }
        memcpy(sum, all[0], BYTES);
        for (unsigned r = 0; r < 3; r++) {
            vec(r, kinds[k], (uvcc_block){.out = {mask}});
            assert_tainted(mask, BYTES);
            for (uint32_t i = 0; i < N; i++)
                sum[i] += mask[i] - x.part[r][i];
        }
        look(sum, BYTES);
        for (uint32_t i = 0; i < N; i++)
            assert_true(sum[i] == 0);
    }
    const shared z = share(values(63));
    for (unsigned r = 0; r < 3; r++) {
        uint8_t *to = wire();
        vec(r, UVCC_TASK_TRIPLE_C,
            (uvcc_block){.in = {z.part[r]}, .out = {z.part[r]}, .wire_out = {to}});
        assert_tainted(z.part[r], BYTES);
        declassify(to, BYTES, "masked by the zero share, of which the receiver knows one pad");
    }
    close_sim();
}

/* --- Gates ------------------------------------------------------------------------------------ */

typedef struct streams {
    uint8_t *of[2];
} streams;

/* Key streams stay secret: they go through sealed links to one party each. */
static streams deal_keys(void) {
    static uint8_t memory[2][N * 16 * 70];
    streams k;
    uvcc_key_layout l[2];
    for (unsigned r = 0; r < 2; r++) {
        uvcc_key_layout_of((uvcc_gate)sim.vec.u.vec.gate, sim.vec.u.vec.compact,
                           sim.vec.u.vec.shift, sim.vec.u.vec.bits, N, (uvcc_role)r, &l[r]);
        assert_true(l[r].total_bytes < sizeof memory[r]);
        k.of[r] = memory[r] + 1;
        memset(k.of[r], 0, l[r].total_bytes);
    }
    vec(O, UVCC_TASK_DEAL, (uvcc_block){.out_bytes = {k.of[H], k.of[T]}});
    for (unsigned r = 0; r < 2; r++)
        assert_tainted(k.of[r], l[r].total_bytes);
    return k;
}

/* The comparison's masked bits, which the two parties of the edge exchange, per role. */
typedef struct less {
    uint8_t *kept[2], *sent[2];
} less;

static less compare(uint64_t *const xh[2], const streams *k) {
    less l;
    for (unsigned r = 0; r < 2; r++) {
        l.kept[r] = wire();
        l.sent[r] = wire();
        vec(r, UVCC_TASK_LESS_MASK,
            (uvcc_block){
                .in = {xh[r]}, .out_bits = l.kept[r], .wire_out = {l.sent[r]}, .key = k->of[r]});
        declassify(l.sent[r], BIT_BYTES, "masked by bits that only OTHER knows beside the sender");
        declassify(l.kept[r], BIT_BYTES, "the same bits as were sent");
    }
    uint8_t *v[2] = {wire(), wire()};
    for (unsigned r = 0; r < 2; r++)
        vec(r, UVCC_TASK_OPEN_BITS,
            (uvcc_block){.in_bits = l.kept[r], .out_bits = v[r], .wire_in = {l.sent[1 - r]}});
    assert_memory_equal(v[H], v[T],
                        BIT_BYTES); /* the opened bit: known to the edge, masked by rho */
    return l;
}

static void truncate_once(unsigned f, uvcc_gate gate, bool compact) {
    sim.used = 0;
    sim.vec.u.vec.shift = (uint8_t)f;
    sim.vec.u.vec.gate = (uint8_t)gate;
    sim.vec.u.vec.compact = compact;
    sim.vec.u.vec.constant = (uint64_t)1 << 62;
    const uint64_t *z = values(62);
    uint64_t *zh[2] = {words(), words()}, *y[2] = {words(), words()};
    const shared parts = share(z);
    const streams k = deal_keys();
    if (compact)
        open4(&parts, zh);
    else
        open2(&parts, zh);
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_TRUNC, (uvcc_block){.in = {zh[r]}, .out = {y[r]}, .key = k.of[r]});
        assert_tainted(y[r], BYTES);
    }
    if (gate == UVCC_GATE_TRUNC_ARS) {
        const less l = compare(zh, &k);
        for (unsigned r = 0; r < 2; r++)
            vec(r, UVCC_TASK_TRUNC_EXACT,
                (uvcc_block){.in = {y[r]},
                             .out = {y[r]},
                             .in_bits = l.kept[r],
                             .wire_in = {l.sent[1 - r]},
                             .key = k.of[r]});
    }
    const uvcc_fn_args args = {.shift = (uint8_t)f};
    sim.vec.u.vec.fn = &args;
    for (unsigned r = 0; r < 2 && gate == UVCC_GATE_TRUNC_DCF; r++)
        vec(r, UVCC_TASK_FN_FLOOR,
            (uvcc_block){.in = {zh[r], y[r]}, .out = {y[r]}, .key = k.of[r]});
    sim.vec.u.vec.fn = NULL;
    look_at_edge(y);
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t less_floor = edge_sum(y, i) - (uint64_t)((int64_t)z[i] >> f);
        assert_true(less_floor <= (gate == UVCC_GATE_TRUNC_SR));
    }
}

static void truncations(void **state) {
    open_sim(state);
    static const unsigned shifts[] = {1, 7, 16, 40};
    for (unsigned i = 0; i < sizeof shifts / sizeof *shifts; i++)
        for (unsigned compact = 0; compact < 2; compact++) {
            truncate_once(shifts[i], UVCC_GATE_TRUNC_SR, compact);
            truncate_once(shifts[i], UVCC_GATE_TRUNC_ARS, compact);
            truncate_once(shifts[i], UVCC_GATE_TRUNC_DCF, compact);
        }
    close_sim();
}

/* Messages of a stochastic truncation without keys, [from][to], and the components. */
static struct rounding {
    uint8_t sent[2][3][3][3 * BYTES];
    uint64_t *lo[3], *hi[3];
} rounding;

static void begin_rounding(unsigned f) {
    sim.used = 0;
    memset(&rounding, 0xEE, sizeof rounding);
    for (unsigned r = 0; r < 3; r++) {
        rounding.lo[r] = words();
        rounding.hi[r] = words();
    }
    sim.vec.u.vec.shift = (uint8_t)f;
}

/* A message of whole words and of packed values of n bits. */
static void sent(unsigned round, unsigned from, unsigned to, size_t whole, unsigned n,
                 const char *why) {
    declassify(rounding.sent[round][from][to], whole + ((size_t)N * n + 7) / 8, why);
}

/* The components are still secret, and what they sum to is floor(x / 2^f) or one more. */
static void check_rounding(const uint64_t *x, unsigned f) {
    uint64_t *y = words();
    taint(rounding.hi[O], BYTES); /* a component that came by wire */
    for (unsigned r = 0; r < 3; r++) {
        assert_tainted(rounding.lo[r], BYTES);
        assert_tainted(rounding.hi[r], BYTES);
    }
    for (uint32_t i = 0; i < N; i++)
        y[i] = rounding.lo[0][i] + rounding.lo[1][i] + rounding.lo[2][i];
    declassify(y, BYTES, "only this test adds up the components");
    for (uint32_t i = 0; i < N; i++)
        assert_true(y[i] - (uint64_t)((int64_t)x[i] >> f) <= 1);
    check_rss(rounding.lo, rounding.hi, y);
}

static void round_additive(unsigned f) {
    begin_rounding(f);
    uint8_t(*m)[3][3][3 * BYTES] = rounding.sent;
    const uint64_t *z = values(62);
    const shared parts = share(z);
    vec(H, UVCC_TASK_SR_OPEN, (uvcc_block){.wire_out = {m[0][H][O]}});
    vec(T, UVCC_TASK_SR_OPEN,
        (uvcc_block){.in = {parts.part[T]}, .wire_out = {m[0][T][H], m[0][T][O]}});
    vec(O, UVCC_TASK_SR_OPEN, (uvcc_block){.in = {parts.part[O]}, .wire_out = {m[0][O][H]}});
    sent(0, H, O, 0, f, "HEAD's bit less a pad of HEAD and TAIL");
    sent(0, T, H, BYTES, 0, "z_t + zero + r, which HEAD does not know");
    sent(0, O, H, BYTES, 0, "z_o - zero, a pad of TAIL and OTHER");
    sent(0, T, O, 0, f, "masked by a pad of HEAD and TAIL");
    vec(H, UVCC_TASK_SR_SEND,
        (uvcc_block){.in = {parts.part[H]},
                     .out = {rounding.lo[H], rounding.hi[H]},
                     .wire_in = {m[0][T][H], m[0][O][H]},
                     .wire_out = {m[1][H][T], m[1][H][O]}});
    vec(O, UVCC_TASK_SR_SEND,
        (uvcc_block){.out = {rounding.lo[O]},
                     .wire_in = {m[0][H][O], m[0][T][O]},
                     .wire_out = {m[1][O][T]}});
    sent(1, H, T, 0, 1, "the top bit of zh, masked by a bit of HEAD's own");
    sent(1, H, O, BYTES, 1, "zh >> f less a pad of HEAD and TAIL, and the same bit");
    sent(1, O, T, 0, f, "masked by a pad of HEAD and OTHER");
    vec(T, UVCC_TASK_SR_FINISH,
        (uvcc_block){.out = {rounding.lo[T], rounding.hi[T]}, .wire_in = {m[1][H][T], m[1][O][T]}});
    vec(O, UVCC_TASK_SR_FINISH,
        (uvcc_block){.in = {rounding.lo[O]},
                     .out = {rounding.lo[O], rounding.hi[O]},
                     .wire_in = {m[1][H][O], m[1][H][O] + BYTES}});
    check_rounding(z, f);
}

static void round_replicated(unsigned f) {
    begin_rounding(f);
    uint8_t(*m)[3][3 * BYTES] = rounding.sent[0];
    const uint64_t *x = values(60);
    const shared parts = share(x);
    for (unsigned r = 0; r < 3; r++)
        vec(r, UVCC_TASK_SR2_SEND,
            (uvcc_block){.in = {parts.part[r], parts.part[(r + 1) % 3]},
                         .out = {r == H ? rounding.lo[H] : NULL, r == H ? rounding.hi[H] : NULL},
                         .wire_out = {m[r][r == T ? O : T], r == H ? m[H][O] : NULL}});
    sent(0, H, T, 0, f, "masked by a pad of HEAD and OTHER");
    sent(0, H, O, BYTES, f, "a component and a bit, less pads of HEAD and TAIL");
    sent(0, T, O, 0, f, "masked by a pad of HEAD and TAIL");
    sent(0, O, T, 0, f, "masked by a pad of HEAD and OTHER");
    for (unsigned r = T; r <= O; r++)
        vec(r, UVCC_TASK_SR2_FINISH,
            (uvcc_block){.in = {parts.part[r], parts.part[(r + 1) % 3]},
                         .out = {rounding.lo[r], rounding.hi[r]},
                         .wire_in = {m[H][r], m[r == T ? O : T][r]}});
    check_rounding(x, f);
}

static void roundings(void **state) {
    open_sim(state);
    static const unsigned shifts[] = {1, 7, 16, 40, 59};
    for (unsigned i = 0; i < sizeof shifts / sizeof *shifts; i++) {
        round_additive(shifts[i]);
        round_replicated(shifts[i]);
    }
    close_sim();
}

static void relu_once(unsigned n) {
    sim.used = 0;
    sim.vec.u.vec.bits = (uint8_t)n;
    sim.vec.u.vec.gate = UVCC_GATE_RELU;
    const uint64_t *x = values(n);
    uint64_t *xh[2] = {words(), words()}, *dx[2] = {words(), words()}, *d[2] = {words(), words()};
    const shared parts = share(x);
    const streams k = deal_keys();
    open2(&parts, xh);
    const less l = compare(xh, &k);
    for (unsigned r = 0; r < 2; r++)
        vec(r, UVCC_TASK_RELU,
            (uvcc_block){.in = {xh[r]},
                         .out = {dx[r], d[r]},
                         .in_bits = l.kept[r],
                         .wire_in = {l.sent[1 - r]},
                         .key = k.of[r]});
    look_at_edge(dx);
    look_at_edge(d);
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t positive = (int64_t)x[i] >= 0;
        assert_true(edge_sum(d, i) == positive);
        assert_true(edge_sum(dx, i) == positive * x[i]);
    }
}

static void relus(void **state) {
    open_sim(state);
    relu_once(5);
    relu_once(20);
    relu_once(63);
    close_sim();
}

/* --- Functions -------------------------------------------------------------------------------- */

/* An opened value: public to the edge, its mask secret. */
typedef struct masked {
    uint64_t *xh[2], *p[2], *r;
} masked;

static uvcc_fn_args fn;

/* The low bits of words, the rest of which is 0. */
static void declassify_low(uint64_t *x, unsigned bits, const char *why) {
    for (uint32_t i = 0; i < N; i++)
        declassify(x + i, (bits + 7) / 8, why);
}

static masked open_value(const uint64_t *x, unsigned bits) {
    const size_t packed = ((size_t)N * bits + 7) / 8;
    const shared parts = share(x);
    masked m = {{words(), words()}, {words(), words()}, words()};
    uint8_t *sent[2] = {wire(), wire()};
    fn = (uvcc_fn_args){.bits = (uint8_t)bits};
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_OPEN_MASK,
            (uvcc_block){
                .in = {parts.part[r], parts.part[r + 1]}, .out = {m.xh[r]}, .wire_out = {sent[r]}});
        declassify(sent[r], packed, "masked by a pad of the sender and OTHER");
    }
    for (unsigned r = 0; r < 3; r++) {
        uint64_t *pads = r == O ? m.r : m.p[r];
        vec(r, UVCC_TASK_FN_PADS, (uvcc_block){.out = {pads}});
        assert_tainted(pads, BYTES);
    }
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_OPEN_FINISH,
            (uvcc_block){.in = {m.xh[r]}, .out = {m.xh[r]}, .wire_in = {sent[1 - r]}});
        declassify_low(m.xh[r], bits, "x + r is what the edge opens; only OTHER knows r");
    }
    assert_memory_equal(m.xh[H], m.xh[T], BYTES);
    return m;
}

static masked shift_value(const masked *x, unsigned bits, unsigned shift) {
    const masked m = {{words(), words()}, {NULL, NULL}, words()};
    fn = (uvcc_fn_args){.bits = (uint8_t)bits, .shift = (uint8_t)shift};
    for (unsigned r = 0; r < 3; r++)
        vec(r, UVCC_TASK_FN_SHIFT,
            (uvcc_block){.in = {r == O ? x->r : x->xh[r]}, .out = {r == O ? m.r : m.xh[r]}});
    return m;
}

/* Correction words for r, the same for HEAD and TAIL, who keep them secret. */
static const uint8_t *deal_point(const masked *x, unsigned bits, uint64_t *sign) {
    static uint8_t memory[2][N * 16 * 70];
    const uint32_t n = uvcci_cw_bytes(bits, N);
    assert_true(n <= sizeof memory[0]);
    memset(memory, 0, sizeof memory);
    fn = (uvcc_fn_args){.bits = (uint8_t)bits, .call_key = CALL};
    vec(O, UVCC_TASK_FN_DEAL_KEY,
        (uvcc_block){.in = {x->r}, .out = {sign}, .out_bytes = {memory[0], memory[1]}});
    assert_tainted(memory[0], n);
    assert_tainted(memory[1], n);
    if (sign != NULL)
        assert_tainted(sign, BYTES);
    return memory[0];
}

static void compare_and_select(void **state) {
    enum { BITS = 18, COUNT = 3 };
    static const int64_t thresholds[COUNT] = {-5, 0, 70000}, weights[COUNT] = {1, -2, 4};
    static uint8_t sections[2][COUNT * BYTES];
    open_sim(state);
    sim.vec.u.vec.fn = &fn;
    const uint64_t *x = values(BITS - 1), *y = values(63);
    const masked m = open_value(x, BITS + 1), sel = open_value(y, 64);
    const uint8_t *key = deal_point(&m, BITS, NULL);
    fn = (uvcc_fn_args){.bits = BITS,
                        .call_key = CALL,
                        .call_bits = CALL,
                        .word_count = COUNT,
                        .words = thresholds};
    uint64_t *k = words(), *e[2] = {words(), words()}, *got[2] = {words(), words()};
    uint64_t *alone[2] = {words(), words()};
    uint8_t *sent[2] = {wire(), wire()};
    vec(O, UVCC_TASK_FN_DEAL_BITS, (uvcc_block){.in = {m.r}, .out = {k}, .out_words = sections[0]});
    vec(O, UVCC_TASK_FN_DEAL_SELECT, (uvcc_block){.in = {k, sel.r}, .out_words = sections[1]});
    for (unsigned i = 0; i < 2; i++)
        assert_tainted(sections[i], COUNT * BYTES);
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_COMPARE,
            (uvcc_block){.in = {m.xh[r]}, .out = {e[r]}, .wire_out = {sent[r]}, .key = key});
        declassify(sent[r], (N * COUNT + 7) / 8, "masked by bits of the sender and OTHER");
    }
    fn.bits = COUNT;
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_OPEN_BITS,
            (uvcc_block){.in = {e[r]}, .out = {e[r]}, .wire_in = {sent[1 - r]}});
        declassify_low(e[r], COUNT, "d ^ k is what the edge opens; only OTHER knows k");
    }
    assert_memory_equal(e[H], e[T], BYTES);
    fn.words = weights;
    for (unsigned r = 0; r < 2; r++) {
        const uint8_t *at[2] = {r == T ? sections[0] : NULL, r == T ? sections[1] : NULL};
        vec(r, UVCC_TASK_FN_SELECT,
            (uvcc_block){
                .in = {sel.xh[r], sel.p[r], e[r]}, .out = {got[r]}, .words = {at[0], at[1]}});
        vec(r, UVCC_TASK_FN_BITS,
            (uvcc_block){.in = {NULL, NULL, e[r]}, .out = {alone[r]}, .words = {at[0]}});
    }
    static uint8_t both[(3 * COUNT + 2) * BYTES];
    uint64_t *twice[2] = {words(), words()};
    vec(O, UVCC_TASK_FN_DEAL_SELECT, (uvcc_block){.in = {k, sel.r, k}, .out_words = both});
    assert_tainted(both, sizeof both);
    for (unsigned r = 0; r < 2; r++) /* times the first of the bits */
        vec(r, UVCC_TASK_FN_SELECT,
            (uvcc_block){.in = {sel.xh[r], sel.p[r], e[r], e[r]},
                         .out = {twice[r]},
                         .words = {r == T ? sections[0] : NULL, r == T ? both : NULL}});
    look_at_edge(twice);
    fn.constant = 7;
    for (unsigned r = 0; r < 2; r++) /* got + x + 7 */
        vec(r, UVCC_TASK_FN_ADD,
            (uvcc_block){.in = {got[r], sel.xh[r], sel.p[r]}, .out = {got[r]}});
    look_at_edge(got);
    look_at_edge(alone);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t want = 0;
        for (unsigned j = 0; j < COUNT; j++)
            want += (uint64_t)weights[j] * ((int64_t)x[i] >= thresholds[j]);
        assert_true(edge_sum(alone, i) == want);
        assert_true(edge_sum(twice, i) == ((int64_t)x[i] >= thresholds[0] ? want * y[i] : 0));
        assert_true(edge_sum(got, i) == want * y[i] + y[i] + 7);
    }
    close_sim();
}

/* A table on y, or with a shift on y >> shift and times a factor; else times b if that is there. */
static void look_up(unsigned bits, unsigned shift, bool times) {
    enum { ENTRIES = 300 };
    static const int64_t z[8] = {1 << 30, -(1 << 29), 1 << 27, 5, 1 << 30, 1 << 20, 3, 1};
    static int32_t entries[ENTRIES];
    static uint8_t section[4 * BYTES];
    sim.used = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        entries[i] = (int32_t)(uint32_t)test_rand(&rng);
    const uint64_t *y = values(shift + 9), *b = values(63);
    const shared bs = share(b);
    const masked m = open_value(y, 64), x = shift == 0 ? m : shift_value(&m, 64, shift);
    uint64_t *sign = words(), *v[2] = {words(), words()}, *bh[2] = {words(), words()};
    uint64_t *got[2] = {words(), words()}, *b_tail = words();
    for (uint32_t i = 0; i < N; i++)
        b_tail[i] = bs.part[1][i] + bs.part[2][i];
    const uint8_t *key = deal_point(&x, bits, sign);
    uint8_t *sent[2][2] = {{wire(), wire()}, {wire(), wire()}};
    fn = (uvcc_fn_args){.bits = (uint8_t)bits,
                        .shift = (uint8_t)shift,
                        .times = times,
                        .call_key = CALL,
                        .first = -100,
                        .constant = 14,
                        .entry_count = ENTRIES,
                        .entries = entries,
                        .word_count = 8,
                        .words = z};
    vec(O, UVCC_TASK_FN_DEAL_SCALAR, (uvcc_block){.in = {sign, m.r}, .out_words = section});
    assert_tainted(section, (times ? 4 : 2) * BYTES);
    for (unsigned r = 0; r < 2; r++) {
        const uint64_t *mine = r == H ? bs.part[0] : b_tail;
        vec(r, UVCC_TASK_FN_TABLE,
            (uvcc_block){.in = {x.xh[r], m.xh[r], times ? mine : NULL},
                         .out = {v[r], times ? bh[r] : NULL},
                         .wire_out = {sent[r][0], sent[r][1]},
                         .key = key});
        for (unsigned i = 0; i < 1 + (unsigned)times; i++)
            declassify(sent[r][i], BYTES, "masked by a pad of the sender and OTHER");
    }
    for (unsigned r = 0; r < 2; r++) {
        uint64_t *opened[2] = {v[r], bh[r]};
        for (unsigned i = 0; i < 1 + (unsigned)times; i++) {
            vec(r, UVCC_TASK_OPEN_FINISH,
                (uvcc_block){.in = {opened[i]}, .out = {opened[i]}, .wire_in = {sent[1 - r][i]}});
            declassify(opened[i], BYTES, "opened to the edge under a mask that only OTHER knows");
        }
        vec(r, UVCC_TASK_FN_SCALAR,
            (uvcc_block){.in = {v[r], times ? bh[r] : NULL},
                         .out = {got[r]},
                         .words = {r == T ? section : NULL}});
    }
    look_at_edge(got);
    for (uint32_t i = 0; i < N && shift == 0; i++) {
        const uint64_t at = y[i] + 100;
        const uint64_t entry = at < ENTRIES ? (uint64_t)(int64_t)entries[at] : 0;
        assert_true(edge_sum(got, i) == (times ? entry * b[i] : entry));
    }
}

/* A table of y >> SHIFT times [nothing is carried from the bits below], and times a table of them
 * or times y. */
static void look_up_exactly(bool by_table) {
    enum { SHIFT = 5, BITS = 9, ENTRIES = 100, LOWS = 1 << SHIFT };
    static const int64_t zero[1] = {0};
    static int32_t entries[ENTRIES], halves[LOWS];
    static uint8_t keys[2][N * 16 * 4], section[8 * BYTES], bits[BYTES];
    sim.used = 0;
    for (unsigned i = 0; i < ENTRIES; i++)
        entries[i] = (int32_t)(uint32_t)test_rand(&rng);
    for (unsigned i = 0; i < LOWS; i++)
        halves[i] = (int32_t)(uint32_t)test_rand(&rng);
    const uint64_t *y = values(SHIFT + 5);
    const masked m = open_value(y, 64);
    const masked at[2] = {shift_value(&m, SHIFT, 0), shift_value(&m, 64, SHIFT)};
    uint64_t *sign[2] = {words(), words()}, *v[2][2] = {{words(), words()}, {words(), words()}};
    uint64_t *k = words(), *e[2] = {words(), words()}, *got[2] = {words(), words()};
    const uvcc_fn_args of[2] = {{.bits = SHIFT, .entry_count = LOWS, .entries = halves},
                                {.bits = BITS, .entry_count = ENTRIES, .entries = entries}};
    uint8_t *sent[2] = {wire(), wire()};
    for (unsigned i = 0; i < 2; i++) { /* both tables, at calls of their own */
        sim.vec.call = (uint16_t)(CALL + i);
        const uint8_t *key = deal_point(&at[i], of[i].bits, sign[i]);
        assert_true(uvcci_cw_bytes(of[i].bits, N) <= sizeof keys[i]);
        memcpy(keys[i], key, uvcci_cw_bytes(of[i].bits, N));
        fn = of[i];
        fn.call_key = CALL;
        for (unsigned r = 0; r < 2; r++) {
            vec(r, UVCC_TASK_FN_TABLE,
                (uvcc_block){
                    .in = {at[i].xh[r]}, .out = {v[i][r]}, .wire_out = {sent[r]}, .key = keys[i]});
            declassify(sent[r], BYTES, "masked by a pad of the sender and OTHER");
        }
        for (unsigned r = 0; r < 2; r++) {
            vec(r, UVCC_TASK_OPEN_FINISH,
                (uvcc_block){.in = {v[i][r]}, .out = {v[i][r]}, .wire_in = {sent[1 - r]}});
            declassify(v[i][r], BYTES, "opened to the edge under a mask that only OTHER knows");
        }
    }
    sim.vec.call = CALL;
    fn = (uvcc_fn_args){.bits = SHIFT, .call_key = CALL, .word_count = 1, .words = zero};
    vec(O, UVCC_TASK_FN_DEAL_BITS, (uvcc_block){.in = {at[0].r}, .out = {k}, .out_words = bits});
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_COMPARE,
            (uvcc_block){
                .in = {at[0].xh[r]}, .out = {e[r]}, .wire_out = {sent[r]}, .key = keys[0]});
        declassify(sent[r], (N + 7) / 8, "masked by bits of the sender and OTHER");
    }
    fn.bits = 1;
    for (unsigned r = 0; r < 2; r++) {
        vec(r, UVCC_TASK_FN_OPEN_BITS,
            (uvcc_block){.in = {e[r]}, .out = {e[r]}, .wire_in = {sent[1 - r]}});
        declassify_low(e[r], 1, "d ^ k is what the edge opens; only OTHER knows k");
    }
    sim.vec.call = CALL + 1;
    fn = (uvcc_fn_args){.by_table = by_table, .call_bits = CALL};
    vec(O, UVCC_TASK_FN_DEAL_SCALAR,
        (uvcc_block){.in = {sign[1], sign[0], m.r, k}, .out_words = section});
    assert_tainted(section, sizeof section);
    for (unsigned r = 0; r < 2; r++)
        vec(r, UVCC_TASK_FN_SCALAR,
            (uvcc_block){.in = {v[1][r], by_table ? v[0][r] : m.xh[r], e[r]},
                         .out = {got[r]},
                         .words = {r == T ? section : NULL}});
    look_at_edge(got);
    sim.vec.call = CALL;
    for (uint32_t i = 0; i < N; i++) {
        const uint64_t low = y[i] % LOWS, r_low = (m.xh[H][i] - y[i]) % LOWS;
        const uint64_t index = y[i] >> SHIFT;
        const uint64_t entry = index < ENTRIES ? (uint64_t)(int64_t)entries[index] : 0;
        const uint64_t by = by_table ? (uint64_t)(int64_t)halves[low] : y[i];
        assert_true(edge_sum(got, i) == (low + r_low < LOWS ? entry * by : 0));
    }
}

static void tables(void **state) {
    open_sim(state);
    sim.vec.u.vec.fn = &fn;
    look_up(12, 0, false);
    look_up(12, 0, true);
    look_up(14, 16, false);
    look_up_exactly(false);
    look_up_exactly(true);
    close_sim();
}

/* Six differences for an element, under masks that are secret as all masks are. */
static void products_and_groups(void **state) {
    enum { PAIRS = 6, WORDS = UVCCI_FN_BEST_WORDS };
    static uint64_t xh[PAIRS * N], p[2][PAIRS * N], r[PAIRS * N], e[PAIRS * N], k[PAIRS * N];
    static uint8_t section[WORDS * BYTES];
    open_sim(state);
    sim.vec.u.vec.fn = &fn;
    const uint64_t *x = values(60), *y = values(63);
    const masked a = open_value(x, 64), b = open_value(y, 64);
    uint64_t *got[2] = {words(), words()};
    fn = (uvcc_fn_args){.shift = 20};
    vec(O, UVCC_TASK_FN_DEAL_MUL, (uvcc_block){.in = {a.r, b.r}, .out_words = section});
    assert_tainted(section, BYTES);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_MUL,
            (uvcc_block){.in = {a.xh[i], a.p[i], b.xh[i], b.p[i]},
                         .out = {got[i]},
                         .words = {i == T ? section : NULL}});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++)
        assert_true(edge_sum(got, i) == x[i] * y[i]);

    vec(O, UVCC_TASK_FN_DEAL_TRUNC, (uvcc_block){.in = {a.r}, .out_words = section});
    assert_tainted(section, 2 * BYTES);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_TRUNC,
            (uvcc_block){.in = {a.xh[i]}, .out = {got[i]}, .words = {i == T ? section : NULL}});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++)
        assert_true(edge_sum(got, i) - (uint64_t)((int64_t)x[i] >> 20) <= 1);
    for (unsigned i = 0; i < 2; i++)
        taint(got[i], BYTES); /* as before we looked at them */

    static uint8_t key[2][N * (24 * 20 + 5 + 8)];
    fn.call_key = CALL;
    vec(O, UVCC_TASK_FN_DEAL_FLOOR, (uvcc_block){.in = {a.r}, .out_bytes = {key[0], key[1]}});
    for (unsigned i = 0; i < 2; i++)
        assert_tainted(key[i], sizeof key[i]);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_FLOOR,
            (uvcc_block){.in = {a.xh[i], got[i]}, .out = {got[i]}, .key = key[i]});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++)
        assert_true(edge_sum(got, i) == (uint64_t)((int64_t)x[i] >> 20));

    for (uint32_t i = 0; i < PAIRS * N; i++) {
        p[H][i] = test_rand(&rng);
        p[T][i] = test_rand(&rng);
        r[i] = p[H][i] + p[T][i];
        xh[i] = i / PAIRS + r[i]; /* no difference is negative: the first is the greatest */
        k[i] = test_rand(&rng) & 1;
        e[i] = k[i] ^ 1;
    }
    taint(p, sizeof p);
    taint(r, sizeof r);
    taint(k, sizeof k);
    vec(O, UVCC_TASK_FN_DEAL_BEST, (uvcc_block){.in = {k, r}, .out_words = section});
    assert_tainted(section, sizeof section);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_BEST,
            (uvcc_block){.in = {xh, p[i], e}, .out = {got[i]}, .words = {i == T ? section : NULL}});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++)
        assert_true(edge_sum(got, i) == i);
    close_sim();
}

static void multiscales(void **state) {
    enum { CELLS = 9, RUNGS = 3, BITS = 20, SHIFT = 4, WORDS = 9 * CELLS * RUNGS };
    static int64_t w[WORDS];
    static uint8_t key[2][N * (16 * BITS + 24 * RUNGS + 5)];
    open_sim(state);
    sim.vec.u.vec.fn = &fn;
    for (unsigned k = 0; k < RUNGS;
         k++) /* the argument, about: a sum of cell, and of what is left */
        for (unsigned i = 0; i < 3 * CELLS; i++) {
            w[9 * CELLS * k + i] = (int64_t)(CELLS + i) << (2 * k + 12);
            w[9 * CELLS * k + 3 * CELLS + i] = 1 << 2 * k;
        }
    const uint64_t *x = values(11);
    const masked m = open_value(x, 64);
    uint64_t *got[2] = {words(), words()};
    fn = (uvcc_fn_args){.bits = BITS,
                        .shift = SHIFT,
                        .first = CELLS,
                        .call_key = CALL,
                        .word_count = WORDS,
                        .words = w};
    vec(O, UVCC_TASK_FN_DEAL_MULTISCALE, (uvcc_block){.in = {m.r}, .out_bytes = {key[0], key[1]}});
    for (unsigned i = 0; i < 2; i++)
        assert_tainted(key[i], sizeof key[i]);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_MULTISCALE,
            (uvcc_block){.in = {m.xh[i]}, .out = {got[i]}, .key = key[i]});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++)
        if ((int64_t)x[i] >= CELLS << SHIFT)
            assert_true(edge_sum(got, i) == x[i] << (12 - SHIFT));
    close_sim();
}

static void splines(void **state) {
    enum { BITS = 20, KNOTS = 3, DEGREE = 3, WORDS = DEGREE + 1 + KNOTS * (DEGREE + 2) };
    static int64_t w[WORDS] = {-3000, 5, 300000};
    static uint8_t key[2][N * (BITS * (16 + 8 * (DEGREE + 1)) + 8 * (DEGREE + 1) + BITS / 4)];
    static uint8_t section[6 * BYTES];
    open_sim(state);
    sim.vec.u.vec.fn = &fn;
    for (unsigned i = 0; i <= KNOTS; i++)
        for (unsigned j = 0; j <= DEGREE; j++)
            w[KNOTS + i * (DEGREE + 1) + j] = (int64_t)(i + 1) << 8 * j;
    const uint64_t *x = values(BITS - 1);
    const masked m = open_value(x, 64);
    uint64_t *got[2] = {words(), words()};
    fn = (uvcc_fn_args){
        .bits = BITS, .first = DEGREE, .call_key = CALL, .word_count = WORDS, .words = w};
    vec(O, UVCC_TASK_FN_DEAL_SPLINE, (uvcc_block){.in = {m.r}, .out_bytes = {key[0], key[1]}});
    vec(O, UVCC_TASK_FN_DEAL_POWERS, (uvcc_block){.in = {m.r}, .out_words = section});
    for (unsigned i = 0; i < 2; i++)
        assert_tainted(key[i], sizeof key[i]);
    assert_tainted(section, sizeof section);
    for (unsigned i = 0; i < 2; i++)
        vec(i, UVCC_TASK_FN_SPLINE,
            (uvcc_block){.in = {m.xh[i], m.p[i]},
                         .out = {got[i]},
                         .key = key[i],
                         .words = {i == T ? section : NULL}});
    look_at_edge(got);
    for (uint32_t i = 0; i < N; i++) {
        uint64_t want = 0;
        for (unsigned j = 0, k = 1; j < KNOTS; j++)
            want = (k += (int64_t)x[i] >= w[j]);
        want *= 1 + (x[i] << 8) * (1 + (x[i] << 8) * (1 + (x[i] << 8)));
        assert_true(edge_sum(got, i) == want);
    }
    close_sim();
}

/* --- Lifts ------------------------------------------------------------------------------------ */

static void lift_once(uvcc_lift_kind kind) {
    sim.used = 0;
    sim.vec.u.vec.lift = (uint8_t)kind;
    const uint64_t *y = values(63);
    uint64_t *y_h = words(), *y_t = words(), *lo[3], *hi[3];
    uint8_t *head = wire(), *tail = wire();
    for (uint32_t i = 0; i < N; i++) {
        y_h[i] = test_rand(&rng);
        y_t[i] = y[i] - y_h[i];
    }
    taint(y_h, BYTES);
    taint(y_t, BYTES);
    for (unsigned r = 0; r < 3; r++) {
        lo[r] = words();
        hi[r] = words();
    }
    vec(H, UVCC_TASK_LIFT_MASK,
        (uvcc_block){.in = {y_h}, .out = {lo[H], hi[H]}, .wire_out = {head}});
    declassify(head, BYTES, "masked by a pad of HEAD and OTHER; TAIL receives it");
    vec(T, UVCC_TASK_LIFT_MASK,
        (uvcc_block){.in = {y_t},
                     .out = {lo[T], hi[T]},
                     .wire_in = {kind == UVCC_LIFT_SEQUENTIAL ? head : NULL},
                     .wire_out = {tail}});
    if (kind == UVCC_LIFT_EXCHANGE)
        declassify(tail, BYTES, "masked by a pad of TAIL and OTHER; HEAD receives it");
    else
        declassify(tail, BYTES, "masked by a pad of HEAD and TAIL; OTHER receives it");
    vec(O, UVCC_TASK_LIFT_MASK, (uvcc_block){0});
    vec(H, UVCC_TASK_LIFT_FINISH,
        (uvcc_block){.out = {lo[H], hi[H]}, .wire_in = {kind == UVCC_LIFT_EXCHANGE ? tail : NULL}});
    vec(T, UVCC_TASK_LIFT_FINISH,
        (uvcc_block){.out = {lo[T], hi[T]},
                     .wire_in = {kind == UVCC_LIFT_SEQUENTIAL ? NULL : head}});
    vec(O, UVCC_TASK_LIFT_FINISH,
        (uvcc_block){.out = {lo[O], hi[O]}, .wire_in = {kind == UVCC_LIFT_EXCHANGE ? NULL : tail}});
    assert_tainted(lo[H], BYTES);
    assert_tainted(hi[T], BYTES);
    check_rss(lo, hi, y);
}

static void lifts(void **state) {
    open_sim(state);
    lift_once(UVCC_LIFT_PARALLEL);
    lift_once(UVCC_LIFT_SEQUENTIAL);
    lift_once(UVCC_LIFT_EXCHANGE);
    close_sim();
}

/* --- Comparison without keys ------------------------------------------------------------------ */

/* A BOOL task of a round; memory is that of the role. */
typedef struct bool_party {
    const uint64_t *lo, *hi; /* of x */
    uint64_t *state;
} bool_party;

static void bool_task(const bool_party *p, unsigned role, uvcc_task_kind kind, unsigned round,
                      unsigned gate, uvcc_block b) {
    b.in[0] = p[role].lo;
    b.in[1] = p[role].hi;
    b.in[2] = p[role].state;
    if (b.out[0] == NULL)
        b.out[0] = p[role].state;
    sim.vec.u.vec.shift = (uint8_t)round;
    sim.vec.u.vec.gate = (uint8_t)gate;
    vec(role, kind, b);
}

/* HEAD's message to both others, theirs to HEAD, of `from_head` and `to_head` bytes. */
typedef struct bool_round {
    uint8_t head[2][BYTES * 8], other[3][BYTES * 8];
} bool_round;

static void bool_sent(bool_round *m, size_t from_head, size_t to_head) {
    declassify(m->head[0], from_head, "masked by pads of HEAD and OTHER; TAIL receives it");
    declassify(m->head[1], from_head, "masked by pads of HEAD and TAIL; OTHER receives it");
    for (unsigned r = T; r <= O; r++)
        declassify(m->other[r], to_head, "masked by pads of TAIL and OTHER; HEAD receives it");
}

static void bool_levels(const bool_party *p, const uvcci_circuit_plan *plan, bool_round *m) {
    for (unsigned l = 1; l <= plan->levels; l++) {
        for (unsigned r = 0; r < 3; r++) {
            const unsigned to = (r + 2) % 3;
            const size_t bytes =
                8 * (size_t)uvcci_circuit_message_words(plan, 0, l, (uvcc_role)r, (uvcc_role)to, N);
            bool_task(p, r, UVCC_TASK_BOOL_MERGE, l, 0,
                      (uvcc_block){.wire_out = {bytes == 0 ? NULL : m->other[r]}});
            if (bytes != 0)
                declassify(m->other[r], bytes,
                           "masked by the zero share, of which the receiver knows one pad");
        }
        for (unsigned r = 0; r < 3; r++)
            bool_task(p, r, UVCC_TASK_BOOL_RECEIVE, l, 0,
                      (uvcc_block){
                          .wire_in = {l == plan->levels && r == O ? NULL : m->other[(r + 1) % 3]}});
    }
}

static void circuit_once(unsigned bits) {
    static bool_round m;
    static uint64_t state[3][2 * 31 * ((N + 63) / 64)];
    sim.used = 0;
    sim.vec.u.vec.bits = (uint8_t)bits;
    const uvcci_circuit_plan plan = uvcci_circuit_plan_of(bits);
    assert_true(uvcci_circuit_state_words(&plan, N) * 8 <= sizeof state[0]);
    const uint64_t *x = values(bits);
    const shared xs = share(x);
    uint64_t *dx[2][3], *d[2][3], *want = words(), *one = words();
    bool_party p[3];
    for (unsigned r = 0; r < 3; r++) {
        p[r] = (bool_party){xs.part[r], xs.part[(r + 1) % 3], state[r]};
        for (unsigned i = 0; i < 2; i++) {
            dx[i][r] = words();
            d[i][r] = words();
        }
    }
    for (unsigned r = 0; r < 3; r++)
        bool_task(
            p, r, UVCC_TASK_BOOL_SHARE, 0, 0,
            (uvcc_block){.wire_out = {r == H ? m.head[0] : m.other[r], r == H ? m.head[1] : NULL}});
    bool_sent(&m, 8 * (size_t)uvcci_circuit_message_words(&plan, 0, 0, UVCC_HEAD, UVCC_TAIL, N),
              8 * (size_t)uvcci_circuit_message_words(&plan, 0, 0, UVCC_TAIL, UVCC_HEAD, N));
    bool_task(p, H, UVCC_TASK_BOOL_JOIN, 0, 0, (uvcc_block){.wire_in = {m.other[O], m.other[T]}});
    bool_task(p, T, UVCC_TASK_BOOL_JOIN, 0, 0, (uvcc_block){.wire_in = {m.head[0]}});
    bool_task(p, O, UVCC_TASK_BOOL_JOIN, 0, 0, (uvcc_block){.wire_in = {m.head[1]}});
    for (unsigned r = 0; r < 3; r++)
        taint(state[r], sizeof state[r]); /* components, also those that came by wire */
    bool_levels(p, &plan, &m);

    const unsigned both = UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT;
    bool_task(p, H, UVCC_TASK_BOOL_SELECT_MASK, 0, both,
              (uvcc_block){.wire_out = {m.head[0], m.head[1]}});
    for (unsigned r = T; r <= O; r++)
        bool_task(p, r, UVCC_TASK_BOOL_SELECT_MASK, 0, both,
                  (uvcc_block){.out = {dx[r == O][r], d[r == O][r]},
                               .wire_out = {m.other[r], m.other[r] + BYTES}});
    bool_sent(&m, 2 * BYTES, 2 * BYTES);
    for (unsigned product = 0; product < 2; product++) {
        uint64_t *(*v)[3] = product ? dx : d;
        const size_t skip = product ? 0 : BYTES;
        const unsigned gate = product ? UVCC_BOOL_PRODUCT : UVCC_BOOL_BIT;
        bool_task(p, H, UVCC_TASK_BOOL_SELECT_FINISH, 0, gate,
                  (uvcc_block){.out = {v[0][H], v[1][H]},
                               .wire_in = {m.other[O] + skip, m.other[T] + skip}});
        taint(v[0][H], BYTES);
        taint(v[1][H], BYTES);
        for (unsigned r = T; r <= O; r++) {
            bool_task(p, r, UVCC_TASK_BOOL_SELECT_FINISH, 0, gate,
                      (uvcc_block){.out = {v[0][r], v[1][r]},
                                   .wire_in = {m.head[r == O] + skip, m.head[r == O] + BYTES}});
            assert_tainted(v[0][r], BYTES);
            assert_tainted(v[1][r], BYTES);
        }
        for (uint32_t i = 0; i < N; i++) {
            const uint64_t bit = (int64_t)x[i] >= 0;
            want[i] = bit * x[i];
            one[i] = bit;
        }
        check_rss(v[0], v[1], product ? want : one);
    }
}

static void circuits(void **state) {
    open_sim(state);
    circuit_once(3);
    circuit_once(20);
    circuit_once(63);
    close_sim();
}

/* --- Local work on shares --------------------------------------------------------------------- */

/* z of three parties is 3-additive and adds up to `want`, over the first n words. */
static void check_additive(uint64_t *const z[3], const uint64_t *want, size_t n) {
    for (unsigned r = 0; r < 3; r++) {
        assert_tainted(z[r], n * 8);
        look(z[r], n * 8);
    }
    for (size_t i = 0; i < n; i++)
        assert_true(z[0][i] + z[1][i] + z[2][i] == want[i]);
}

/* One product, then on top of it the same one in blocks of one row each. With `overlap` rows of x
 * and y begin one word apart, so that much is multiplied in few words. */
static void multiply(unsigned m, unsigned n, unsigned k, bool overlap) {
    for (unsigned v = 0; v < 4; v++) {
        const bool tx = v & 1, ty = v & 2;
        const unsigned ldx = overlap ? 1 : tx ? m : k, ldy = overlap ? 1 : ty ? k : n;
        sim.used = 0;
        const uint64_t *x = values(63), *y = values(63);
        const shared xs = share(x), ys = share(y);
        uint64_t *z[3] = {words(), words(), words()}, *want = words();
        for (unsigned i = 0; i < m; i++)
            for (unsigned j = 0; j < n; j++) {
                want[i * n + j] = 0;
                for (unsigned p = 0; p < k; p++)
                    want[i * n + j] +=
                        2 * x[tx ? p * ldx + i : i * ldx + p] * y[ty ? j * ldy + p : p * ldy + j];
            }
        for (unsigned r = 0; r < 3; r++) {
            uvcc_task t = {.kind = UVCC_TASK_GEMM, .u.gemm = {.m = m, .n = n, .k = k}};
            t.u.gemm.trans_x = tx;
            t.u.gemm.trans_y = ty;
            t.u.gemm.x = held(&xs, r);
            t.u.gemm.y = held(&ys, r);
            t.u.gemm.z = z[r];
            t.u.gemm.groups = t.u.gemm.heads = overlap ? 1 : 0;
            t.u.gemm.lx.ld = ldx;
            t.u.gemm.ly.ld = ldy;
            t.u.gemm.lz = (uvcc_gemm_layout){n, n, 0};
            job(r, &t);
            t.u.gemm.accumulate = true;
            t.u.gemm.m = 1;
            t.u.gemm.groups = m;
            t.u.gemm.heads = 1;
            t.u.gemm.lx.group = tx ? 1 : ldx;
            job(r, &t);
        }
        check_additive(z, want, (size_t)m * n);
    }
}

static void matrix_products(void **state) {
    open_sim(state);
    multiply(5, 19, 57, false);
    multiply(2, 3, 360, false);
    multiply(9, 27, 400, true); /* packed: too large to be made directly, deeper than a panel */
    close_sim();
}

/* Components summed by public bits, both ways. */
static void sums_by_bits(void **state) {
    enum { ROWS = 17, COLS = 45 };
    open_sim(state);
    const uint64_t *x = values(63);
    const shared xs = share(x);
    for (unsigned trans = 0; trans < 2; trans++) {
        static uint64_t sums[3][2][64 * COLS];
        for (unsigned r = 0; r < 3; r++) {
            uvcc_task t = {.kind = UVCC_TASK_BIT_SUMS,
                           .ordinal = ORDINAL,
                           .u.bits = {.rows = ROWS, .cols = COLS, .trans = trans != 0, .lane = 1}};
            memset(t.u.bits.key, 0x33, sizeof t.u.bits.key);
            t.u.bits.x = held(&xs, r);
            t.u.bits.out = (uvcc_shares){sums[r][0], sums[r][1]};
            job(r, &t);
            assert_tainted(sums[r], sizeof sums[r]);
            look(sums[r], sizeof sums[r]);
        }
        assert_memory_equal(sums[0][1], sums[1][0], sizeof sums[0][0]);
    }
    close_sim();
}

static void maps(void **state) {
    enum { ROWS = 3, COLS = N / 3 };
    _Static_assert(ROWS * COLS == N, "all words take part");
    open_sim(state);
    for (unsigned op = UVCC_MAP_ADD; op < UVCC_MAP_PUBLIC; op++) { /* PUBLIC: nothing is secret */
        sim.used = 0;
        const uint64_t *x = values(63), *y = values(63);
        const shared xs = share(x), ys = share(y);
        uint64_t *lo[3], *want = words();
        const size_t n = op == UVCC_MAP_SUM_ROWS ? COLS : N;
        for (unsigned r = 0; r < 3; r++) {
            uvcc_task t = {.kind = UVCC_TASK_MAP,
                           .u.map = {.op = (uint8_t)op, .rows = ROWS, .cols = COLS, .shift = 7}};
            lo[r] = words();
            t.u.map.party = (uint8_t)r;
            t.u.map.x = held(&xs, r);
            t.u.map.y = held(&ys, r);
            t.u.map.out = (uvcc_shares){lo[r], op == UVCC_MAP_MUL ? NULL : words()};
            job(r, &t);
            if (op != UVCC_MAP_MUL)
                assert_tainted(t.u.map.out.hi, n * 8);
        }
        for (size_t i = 0; i < n; i++)
            switch (op) {
            case UVCC_MAP_ADD:
                want[i] = x[i] + y[i];
                break;
            case UVCC_MAP_SUB:
                want[i] = x[i] - y[i];
                break;
            case UVCC_MAP_ADD_ROW:
                want[i] = x[i] + y[i % COLS];
                break;
            case UVCC_MAP_SUM_ROWS:
                want[i] = x[i] + x[i + COLS] + x[i + (size_t)2 * COLS];
                break;
            case UVCC_MAP_MUL:
                want[i] = x[i] * y[i];
                break;
            case UVCC_MAP_COPY:
                want[i] = x[i];
                break;
            default:
                want[i] = x[i] << 7;
            }
        check_additive(lo, want, n);
    }
    close_sim();
}

/* --- Digests, copies -------------------------------------------------------------------------- */

static void hashes(void **state) {
    open_sim(state);
    uint8_t data[500], digest[3][32] = {{0}};
    uvcc_hash_item items[3];
    memset(items, 0, sizeof items);
    test_rand_bytes(&rng, data, sizeof data);
    taint(data, sizeof data);
    for (unsigned m = 0; m < 3; m++) {
        items[m] = (uvcc_hash_item){
            .prefix_len = 32, .mode = (uint8_t)m, .data = data, .len = sizeof data - m};
        items[m].out = digest[m];
        taint(items[m].key, sizeof items[m].key);
    }
    uvcc_task t = {.kind = UVCC_TASK_HASH};
    t.u.hash.items = items;
    t.u.hash.count = 3;
    job(H, &t);
    assert_tainted(digest[UVCC_HASH_PLAIN], 32); /* stays with the parties that hold the data */
    assert_tainted(digest[UVCC_HASH_TREE], 32);
    declassify(digest[UVCC_HASH_HMAC], 32, "a leaf of the transcript, under a salt of the pair");
    close_sim();
}

static void copies_and_wipes(void **state) {
    open_sim(state);
    uint8_t from[100], to[100], zero[100] = {0};
    memset(to, 0, sizeof to);
    test_rand_bytes(&rng, from, sizeof from);
    taint(from, sizeof from);
    const uvcc_copy_item item = {to, from, sizeof to};
    uvcc_task t = {.kind = UVCC_TASK_COPY};
    t.u.copy.items = &item;
    t.u.copy.count = 1;
    job(H, &t);
    assert_tainted(to, sizeof to);
    t.kind = UVCC_TASK_WIPE;
    job(H, &t);
    assert_memory_equal(to, zero, sizeof to); /* reported if any of it were still a secret */
    close_sim();
}

int test_tasks(void) {
    const struct CMUnitTest tests[] = {
        SECRETS_TEST_ON(inputs, portable),
        SECRETS_TEST_ON(inputs, avx2),
        SECRETS_TEST_ON(one_hot_rows, portable),
        SECRETS_TEST_ON(one_hot_rows, avx2),
        SECRETS_TEST_ON(randoms, portable),
        SECRETS_TEST_ON(randoms, avx2),
        SECRETS_TEST_ON(reshares_and_openings_to_all, portable),
        SECRETS_TEST_ON(reshares_and_openings_to_all, avx2),
        SECRETS_TEST_ON(triples, portable),
        SECRETS_TEST_ON(triples, avx2),
        SECRETS_TEST_ON(truncations, portable),
        SECRETS_TEST_ON(truncations, avx2),
        SECRETS_TEST_ON(roundings, portable),
        SECRETS_TEST_ON(roundings, avx2),
        SECRETS_TEST_ON(relus, portable),
        SECRETS_TEST_ON(relus, avx2),
        SECRETS_TEST_ON(compare_and_select, portable),
        SECRETS_TEST_ON(compare_and_select, avx2),
        SECRETS_TEST_ON(tables, portable),
        SECRETS_TEST_ON(tables, avx2),
        SECRETS_TEST_ON(products_and_groups, portable),
        SECRETS_TEST_ON(products_and_groups, avx2),
        SECRETS_TEST_ON(multiscales, portable),
        SECRETS_TEST_ON(multiscales, avx2),
        SECRETS_TEST_ON(splines, portable),
        SECRETS_TEST_ON(splines, avx2),
        SECRETS_TEST_ON(lifts, portable),
        SECRETS_TEST_ON(lifts, avx2),
        SECRETS_TEST_ON(circuits, portable),
        SECRETS_TEST_ON(circuits, avx2),
        SECRETS_TEST_ON(matrix_products, portable),
        SECRETS_TEST_ON(matrix_products, avx2),
        SECRETS_TEST_ON(sums_by_bits, portable),
        SECRETS_TEST_ON(sums_by_bits, avx2),
        SECRETS_TEST_ON(maps, portable),
        SECRETS_TEST_ON(hashes, portable),
        SECRETS_TEST_ON(copies_and_wipes, portable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
