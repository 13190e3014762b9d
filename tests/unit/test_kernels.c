/* SPDX-License-Identifier: Apache-2.0 */
/* Every task: three simulated parties run each protocol with wire bytes passed by hand, and what
 * they hold afterwards is compared with the plaintext formula, bit for bit. Parties differ in their
 * back ends, so the back ends are compared with each other all along. */
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/blv1.h>

#include "exec/compute/kernels.h"
#include "exec/primitives/tree_hash.h"
#include "proto/crypto.h"
#include "proto/prg.h"

enum { ORDINAL = 77, CALL = 5, FIRST_BLOCK = 9, MAX_BLOCKS = 3 };
enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER };

static uint64_t rng;

/* ---- three parties ---- */

typedef struct sim {
    test_alloc mem;
    uvcci_cpu_worker worker[3];
    uvcc_step_keys keys[3];
    unsigned edge;
    uint32_t n, blocks;
    void *owned[2048];
    unsigned owned_count;
    uvcc_task v; /* parameters of the vec tasks */
} sim;

static void sim_open(sim *s, unsigned edge, uint32_t n) {
    memset(s, 0, sizeof *s);
    const uvcc_allocator al = test_allocator(&s->mem);
    test_rand_bytes(&rng, s->keys, sizeof s->keys);
    for (unsigned p = 0; p < 3; p++) {
        assert_int_equal(uvcci_cpu_worker_init(&s->worker[p], &al, (edge + p) % 4), 0);
        memcpy(s->keys[(p + 1) % 3].prg[UVCC_PAIR_PREV], s->keys[p].prg[UVCC_PAIR_NEXT],
               sizeof s->keys[p].prg[0]);
        memcpy(s->keys[p].dpf, s->keys[0].dpf, sizeof s->keys[0].dpf);
    }
    s->edge = edge;
    s->n = n;
    s->blocks = (n + UVCC_BLOCK_ELEMS - 1) / UVCC_BLOCK_ELEMS;
    assert_true(s->blocks <= MAX_BLOCKS);
}

static void sim_close(sim *s) {
    for (unsigned p = 0; p < 3; p++)
        uvcci_cpu_worker_free(&s->worker[p]);
    for (unsigned i = 0; i < s->owned_count; i++)
        free(s->owned[i]);
    assert_int_equal(s->mem.live_blocks, 0);
}

static void *own(sim *s, size_t bytes) {
    assert_true(s->owned_count < 2048);
    void *p = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(p);
    memset(p, 0xEE, bytes);
    return s->owned[s->owned_count++] = p;
}
static uint64_t *words(sim *s) {
    return own(s, (size_t)s->n * 8);
}
/* Odd addresses. */
static uint8_t *wire(sim *s) {
    return (uint8_t *)own(s, (size_t)s->n * 8 + 1) + 1;
}
static uint8_t *bits(sim *s) {
    return (uint8_t *)own(s, (s->n + 7) / 8 + 1) + 1;
}

static unsigned party(const sim *s, unsigned role) {
    return (s->edge + role) % 3;
}

/* Bases of the whole vector; blocks get their part. `keys` has one stream a block. */
typedef struct bufs {
    const uint64_t *in[2];
    uint64_t *out[2];
    const uint8_t *in_bits;
    uint8_t *out_bits;
    const uint8_t *wire_in[2];
    uint8_t *wire_out[2];
    uint8_t *const *keys;
    uint8_t *const *deal[2];
} bufs;

static void fill_block(const sim *s, uvcc_task_kind kind, const bufs *b, uint32_t i,
                       uvcc_block *k) {
    const size_t at = (size_t)i * UVCC_BLOCK_ELEMS;
    const size_t left = s->n - at;
    const size_t in_at =
        kind == UVCC_TASK_TRUNC_EXACT || kind == UVCC_TASK_RELU || kind == UVCC_TASK_OPEN_BITS
            ? at / 8
            : at * 8;
    const size_t out_at = kind == UVCC_TASK_LESS_MASK ? at / 8 : at * 8;
    *k = (uvcc_block){.block = FIRST_BLOCK + i,
                      .count = (uint32_t)(left < UVCC_BLOCK_ELEMS ? left : UVCC_BLOCK_ELEMS)};
    for (unsigned j = 0; j < 2; j++) {
        k->in[j] = b->in[j] == NULL ? NULL : b->in[j] + at;
        k->out[j] = b->out[j] == NULL ? NULL : b->out[j] + at;
        k->wire_in[j] = b->wire_in[j] == NULL ? NULL : b->wire_in[j] + in_at;
        k->wire_out[j] = b->wire_out[j] == NULL ? NULL : b->wire_out[j] + out_at;
        k->out_bytes[j] = b->deal[j] == NULL ? NULL : b->deal[j][i];
    }
    k->in_bits = b->in_bits == NULL ? NULL : b->in_bits + at / 8;
    k->out_bits = b->out_bits == NULL ? NULL : b->out_bits + at / 8;
    k->key = b->keys == NULL ? NULL : b->keys[i];
}

static int run_tasks(sim *s, unsigned p, const uvcc_task *tasks, uint32_t count) {
    const uvcc_job job = {.id = 1, .tasks = tasks, .count = count};
    return uvcci_cpu_run(&s->worker[p], &job);
}

/* One task over all blocks at the party of a role. */
static void vec(sim *s, unsigned role, uvcc_task_kind kind, bufs b) {
    uvcc_block blocks[MAX_BLOCKS];
    for (uint32_t i = 0; i < s->blocks; i++) {
        fill_block(s, kind, &b, i, &blocks[i]);
        blocks[i].role = (uint8_t)role;
    }
    uvcc_task t = s->v;
    t.kind = (uint16_t)kind;
    t.ordinal = ORDINAL;
    t.call = CALL;
    t.keys = &s->keys[party(s, role)];
    t.u.vec.blocks = blocks;
    t.u.vec.count = s->blocks;
    assert_int_equal(run_tasks(s, party(s, role), &t, 1), 0);
}

/* Words of a PRG as the protocol names them. */
static void stream(const sim *s, unsigned role, unsigned pair, uvcc_prg_tag tag, uint8_t lane,
                   uint64_t *out) {
    uvcci_aes key;
    uvcci_aes_init(&key, s->keys[party(s, role)].prg[pair][tag], UVCCI_AES_PORTABLE);
    for (uint32_t at = 0; at < s->n; at += UVCC_BLOCK_ELEMS) {
        const uvcci_prg_at where = {ORDINAL, CALL, FIRST_BLOCK + at / UVCC_BLOCK_ELEMS, lane};
        const uint32_t left = s->n - at;
        uvcci_prg_fill(&key, where, 0, out + at, left < UVCC_BLOCK_ELEMS ? left : UVCC_BLOCK_ELEMS);
    }
}

/* ---- shares ---- */

/* Components a, b, c of the edge. */
typedef struct shared {
    uint64_t *part[3];
} shared;

static shared share(sim *s, const uint64_t *x) {
    shared r = {{words(s), words(s), words(s)}};
    for (uint32_t i = 0; i < s->n; i++) {
        r.part[0][i] = test_rand(&rng);
        r.part[1][i] = test_rand(&rng);
        r.part[2][i] = x[i] - r.part[0][i] - r.part[1][i];
    }
    return r;
}

/* lo and hi of HEAD, TAIL, OTHER. */
typedef struct held {
    uint64_t *lo[3], *hi[3];
} held;

static held new_held(sim *s) {
    held h;
    for (unsigned r = 0; r < 3; r++) {
        h.lo[r] = words(s);
        h.hi[r] = words(s);
    }
    return h;
}

static void check_rss(const sim *s, const held *h, const uint64_t *want) {
    for (unsigned r = 0; r < 3; r++)
        assert_memory_equal(h->hi[r], h->lo[(r + 1) % 3], (size_t)s->n * 8);
    for (uint32_t i = 0; i < s->n; i++)
        if (h->lo[0][i] + h->lo[1][i] + h->lo[2][i] != want[i])
            fail_msg("element %u of %u", i, s->n);
}

/* ---- values ---- */

static const uint32_t counts[] = {1, 2, 63, 64, 65, 1023, 1025, 4095, 4096, 8195};
enum { COUNTS = sizeof counts / sizeof *counts };

static int64_t clamp(int64_t x, int64_t lo, int64_t hi) {
    return x < lo ? lo : x > hi ? hi : x;
}

/* Values of [-2^n, 2^n): ends, zero, around multiples of 2^f, all over. */
static uint64_t *values(sim *s, unsigned n, unsigned f) {
    uint64_t *x = words(s);
    const int64_t top = (int64_t)(((uint64_t)1 << n) - 1), unit = (int64_t)1 << f;
    const int64_t special[] = {0,    -1,   1,     top,      -top - 1,  top - 1,
                               -top, unit, -unit, unit - 1, -unit - 1, -unit + 1};
    const uint64_t rot = test_rand(&rng); /* so that a count of one meets them all */
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t r = test_rand(&rng), pick = (i + rot) % 24;
        int64_t v = (int64_t)(r << (63 - n)) >> (63 - n);
        if (pick < sizeof special / sizeof *special)
            v = special[pick];
        else if (pick % 3 == 0)
            v = (int64_t)(((uint64_t)v >> f << f) + r % 3 - 1);
        else if (pick % 3 == 1)
            v >>= r % n;
        x[i] = (uint64_t)clamp(v, -top - 1, top);
    }
    return x;
}

static uint64_t floor_shift(uint64_t x, unsigned f) {
    return (uint64_t)((int64_t)x >> f);
}

/* ---- the steps of the protocols ---- */

/* Openings to the edge: xh at HEAD and TAIL. */
static void open4(sim *s, const shared *z, uint64_t *xh[2]) {
    uint8_t *head = wire(s), *tail = wire(s), *other[2] = {wire(s), wire(s)};
    vec(s, H, UVCC_TASK_OPEN4_MASK, (bufs){.in = {z->part[0]}, .out = {xh[0]}, .wire_out = {head}});
    vec(s, T, UVCC_TASK_OPEN4_MASK, (bufs){.in = {z->part[1]}, .out = {xh[1]}, .wire_out = {tail}});
    vec(s, O, UVCC_TASK_OPEN4_MASK, (bufs){.in = {z->part[2]}, .wire_out = {other[0], other[1]}});
    vec(s, H, UVCC_TASK_OPEN_FINISH,
        (bufs){.in = {xh[0]}, .out = {xh[0]}, .wire_in = {tail, other[0]}});
    vec(s, T, UVCC_TASK_OPEN_FINISH,
        (bufs){.in = {xh[1]}, .out = {xh[1]}, .wire_in = {head, other[1]}});
    assert_memory_equal(xh[0], xh[1], (size_t)s->n * 8);
}

static void open2(sim *s, const shared *x, uint64_t *xh[2]) {
    uint8_t *head = wire(s), *tail = wire(s);
    uint64_t *kept[2] = {words(s), words(s)};
    vec(s, H, UVCC_TASK_OPEN2_MASK,
        (bufs){.in = {x->part[0], x->part[1]}, .out = {kept[0]}, .wire_out = {head}});
    vec(s, T, UVCC_TASK_OPEN2_MASK,
        (bufs){.in = {x->part[1], x->part[2]}, .out = {kept[1]}, .wire_out = {tail}});
    vec(s, O, UVCC_TASK_OPEN2_MASK, (bufs){.in = {x->part[2], x->part[0]}});
    vec(s, H, UVCC_TASK_OPEN_FINISH, (bufs){.in = {kept[0]}, .out = {xh[0]}, .wire_in = {tail}});
    vec(s, T, UVCC_TASK_OPEN_FINISH, (bufs){.in = {kept[1]}, .out = {xh[1]}, .wire_in = {head}});
    vec(s, O, UVCC_TASK_OPEN_FINISH, (bufs){.keys = NULL});
    assert_memory_equal(xh[0], xh[1], (size_t)s->n * 8);
}

typedef struct streams {
    uint8_t *of[2][MAX_BLOCKS]; /* [HEAD, TAIL] */
} streams;

/* Key streams of exactly the promised sizes, at odd addresses. */
static streams deal_keys(sim *s) {
    streams k;
    for (unsigned r = 0; r < 2; r++)
        for (uint32_t i = 0; i < s->blocks; i++) {
            uvcc_key_layout l;
            const uint32_t left = s->n - i * UVCC_BLOCK_ELEMS;
            uvcc_key_layout_of((uvcc_gate)s->v.u.vec.gate, s->v.u.vec.compact, s->v.u.vec.shift,
                               s->v.u.vec.bits, left < UVCC_BLOCK_ELEMS ? left : UVCC_BLOCK_ELEMS,
                               r == 0 ? UVCC_HEAD : UVCC_TAIL, &l);
            k.of[r][i] = (uint8_t *)own(s, l.total_bytes + 1) + 1;
        }
    vec(s, O, UVCC_TASK_DEAL, (bufs){.deal = {k.of[0], k.of[1]}});
    return k;
}

/* The comparison's bits: kept and received, per role. */
typedef struct less {
    uint8_t *kept[2], *sent[2];
} less;

static less compare(sim *s, uint64_t *xh[2], const streams *k) {
    less l = {{bits(s), bits(s)}, {bits(s), bits(s)}};
    for (unsigned r = 0; r < 2; r++) {
        vec(s, r, UVCC_TASK_LESS_MASK,
            (bufs){
                .in = {xh[r]}, .out_bits = l.kept[r], .wire_out = {l.sent[r]}, .keys = k->of[r]});
        assert_memory_equal(l.kept[r], l.sent[r], (s->n + 7) / 8);
        if (s->n % 8 != 0)
            assert_int_equal(l.sent[r][s->n / 8] >> s->n % 8, 0);
    }
    vec(s, O, UVCC_TASK_LESS_MASK, (bufs){.keys = NULL});

    uint8_t *v[2] = {bits(s), bits(s)};
    for (unsigned r = 0; r < 2; r++)
        vec(s, r, UVCC_TASK_OPEN_BITS,
            (bufs){.in_bits = l.kept[r], .out_bits = v[r], .wire_in = {l.sent[1 - r]}});
    assert_memory_equal(v[0], v[1], (s->n + 7) / 8);
    for (uint32_t i = 0; i < (s->n + 7) / 8; i++)
        assert_int_equal(v[0][i], l.kept[0][i] ^ l.kept[1][i]);
    return l;
}

/* ---- tests ---- */

static void inputs(void **state) {
    (void)state;
    for (unsigned c = 0; c < 3 * COUNTS; c++) {
        sim s;
        sim_open(&s, c % 3, counts[c / 3]);
        uint64_t *x = values(&s, 63, 16), *want = words(&s);
        held h = new_held(&s);
        uint8_t *to[2] = {wire(&s), wire(&s)};
        vec(&s, H, UVCC_TASK_INPUT,
            (bufs){.in = {x}, .out = {h.lo[H], h.hi[H]}, .wire_out = {to[0], to[1]}});
        vec(&s, T, UVCC_TASK_INPUT, (bufs){.out = {h.lo[T], h.hi[T]}, .wire_in = {to[0]}});
        vec(&s, O, UVCC_TASK_INPUT, (bufs){.out = {h.lo[O], h.hi[O]}, .wire_in = {to[1]}});
        check_rss(&s, &h, x);
        stream(&s, H, UVCC_PAIR_PREV, UVCC_TAG_input, 0, want);
        assert_memory_equal(h.lo[H], want, (size_t)s.n * 8);
        stream(&s, H, UVCC_PAIR_NEXT, UVCC_TAG_input, 0, want);
        assert_memory_equal(h.hi[H], want, (size_t)s.n * 8);
        sim_close(&s);
    }
}

/* Opening, truncation and, where it is exact, the correction by the compared bit. */
static void truncate_once(unsigned edge, uint32_t n, unsigned f, uvcc_gate gate, bool compact) {
    sim s;
    sim_open(&s, edge, n);
    s.v.u.vec.shift = (uint8_t)f;
    s.v.u.vec.gate = (uint8_t)gate;
    s.v.u.vec.compact = compact;
    s.v.u.vec.constant = (uint64_t)1 << 62;
    uint64_t *z = values(&s, 62, f), *xh[2] = {words(&s), words(&s)};
    const shared parts = share(&s, z);
    const streams k = deal_keys(&s);
    if (compact)
        open4(&s, &parts, xh);
    else
        open2(&s, &parts, xh);

    uint64_t *y[2] = {words(&s), words(&s)}, *r_low = words(&s), *r2 = words(&s);
    for (unsigned r = 0; r < 3; r++)
        vec(&s, r, UVCC_TASK_TRUNC,
            r == O ? (bufs){.keys = NULL} : (bufs){.in = {xh[r]}, .out = {y[r]}, .keys = k.of[r]});
    if (compact) {
        stream(&s, O, UVCC_PAIR_OWN, UVCC_TAG_own, 0, r_low);
    } else {
        stream(&s, O, UVCC_PAIR_NEXT, UVCC_TAG_mask, 0, r_low);
        stream(&s, O, UVCC_PAIR_PREV, UVCC_TAG_mask, 0, r2);
        for (uint32_t i = 0; i < n; i++)
            r_low[i] += r2[i];
    }
    for (uint32_t i = 0; i < n; i++)
        assert_true(y[0][i] + y[1][i] ==
                    floor_shift(z[i] + (r_low[i] & (((uint64_t)1 << f) - 1)), f));

    if (gate == UVCC_GATE_TRUNC_ARS) {
        const less l = compare(&s, xh, &k);
        for (unsigned r = 0; r < 3; r++)
            vec(&s, r, UVCC_TASK_TRUNC_EXACT,
                r == O ? (bufs){.keys = NULL}
                       : (bufs){.in = {y[r]},
                                .out = {y[r]},
                                .in_bits = l.kept[r],
                                .wire_in = {l.sent[1 - r]},
                                .keys = k.of[r]});
    }
    if (gate == UVCC_GATE_TRUNC_DCF) { /* the key stream begins with the DCF's key */
        const uvcc_fn_args args = {.shift = (uint8_t)f};
        s.v.u.vec.fn = &args;
        for (unsigned r = 0; r < 3; r++)
            vec(&s, r, UVCC_TASK_FN_FLOOR,
                r == O ? (bufs){.keys = NULL}
                       : (bufs){.in = {xh[r], y[r]}, .out = {y[r]}, .keys = k.of[r]});
    }
    for (uint32_t i = 0; i < n && gate != UVCC_GATE_TRUNC_SR; i++)
        assert_true(y[0][i] + y[1][i] == floor_shift(z[i], f));
    sim_close(&s);
}

static const uvcc_gate truncation_gates[] = {UVCC_GATE_TRUNC_SR, UVCC_GATE_TRUNC_ARS,
                                             UVCC_GATE_TRUNC_DCF};

static void truncations(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++)
        for (unsigned edge = 0; edge < 3; edge++)
            for (unsigned v = 0; v < 6; v++)
                truncate_once(edge, counts[c], 1 + (7 * c + 3 * edge + v) % 20,
                              truncation_gates[v % 3], v / 3);
    for (unsigned f = 1; f <= 62; f++)
        for (unsigned v = 0; v < 6; v++)
            truncate_once(f % 3, 200, f, truncation_gates[v % 3], v / 3);
}

static void relu_once(unsigned edge, uint32_t count, unsigned n) {
    sim s;
    sim_open(&s, edge, count);
    s.v.u.vec.bits = (uint8_t)n;
    s.v.u.vec.gate = UVCC_GATE_RELU;
    uint64_t *x = values(&s, n, n / 2), *xh[2] = {words(&s), words(&s)};
    const shared parts = share(&s, x);
    const streams k = deal_keys(&s);
    open2(&s, &parts, xh);
    const less l = compare(&s, xh, &k);
    uint64_t *dx[2] = {words(&s), words(&s)}, *d[2] = {words(&s), words(&s)};
    for (unsigned r = 0; r < 3; r++)
        vec(&s, r, UVCC_TASK_RELU,
            r == O ? (bufs){.keys = NULL}
                   : (bufs){.in = {xh[r]},
                            .out = {dx[r], d[r]},
                            .in_bits = l.kept[r],
                            .wire_in = {l.sent[1 - r]},
                            .keys = k.of[r]});
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bit = (int64_t)x[i] >= 0;
        assert_true(d[0][i] + d[1][i] == bit);
        assert_true(dx[0][i] + dx[1][i] == bit * x[i]);
    }
    sim_close(&s);
}

static void relus(void **state) {
    (void)state;
    for (unsigned n = 1; n <= 63; n++)
        relu_once(n % 3, 200, n);
    for (unsigned c = 0; c < COUNTS; c++)
        relu_once(c % 3, counts[c], 18 + 3 * c);
}

static void lift_once(unsigned edge, uint32_t n, uvcc_lift_kind kind) {
    sim s;
    sim_open(&s, edge, n);
    s.v.u.vec.lift = (uint8_t)kind;
    uint64_t *y = values(&s, 63, 10), *y_h = words(&s), *y_t = words(&s);
    for (uint32_t i = 0; i < n; i++) {
        y_h[i] = test_rand(&rng);
        y_t[i] = y[i] - y_h[i];
    }
    held h = new_held(&s);
    uint8_t *head = wire(&s), *tail = wire(&s);
    vec(&s, H, UVCC_TASK_LIFT_MASK,
        (bufs){.in = {y_h}, .out = {h.lo[H], h.hi[H]}, .wire_out = {head}});
    vec(&s, T, UVCC_TASK_LIFT_MASK,
        (bufs){.in = {y_t},
               .out = {h.lo[T], h.hi[T]},
               .wire_in = {kind == UVCC_LIFT_SEQUENTIAL ? head : NULL},
               .wire_out = {tail}});
    vec(&s, O, UVCC_TASK_LIFT_MASK, (bufs){.keys = NULL});
    vec(&s, H, UVCC_TASK_LIFT_FINISH,
        (bufs){.out = {h.lo[H], h.hi[H]}, .wire_in = {kind == UVCC_LIFT_EXCHANGE ? tail : NULL}});
    vec(&s, T, UVCC_TASK_LIFT_FINISH,
        (bufs){.out = {h.lo[T], h.hi[T]}, .wire_in = {kind == UVCC_LIFT_SEQUENTIAL ? NULL : head}});
    vec(&s, O, UVCC_TASK_LIFT_FINISH,
        (bufs){.out = {h.lo[O], h.hi[O]}, .wire_in = {kind == UVCC_LIFT_EXCHANGE ? NULL : tail}});
    check_rss(&s, &h, y);
    sim_close(&s);
}

static void lifts(void **state) {
    (void)state;
    for (unsigned c = 0; c < 3 * COUNTS; c++)
        for (unsigned kind = 0; kind < 3; kind++)
            lift_once(c % 3, counts[c / 3], (uvcc_lift_kind)kind);
}

/* z_p reshared: z is RSS afterwards. */
static held reshare(sim *s, uint64_t *const z[3]) {
    held h = new_held(s);
    uint8_t *to[3];
    for (unsigned r = 0; r < 3; r++) {
        to[r] = wire(s);
        vec(s, r, UVCC_TASK_RESHARE_MASK,
            (bufs){.in = {z[r]}, .out = {h.lo[r]}, .wire_out = {to[r]}});
    }
    for (unsigned r = 0; r < 3; r++)
        vec(s, r, UVCC_TASK_UNPACK, (bufs){.out = {h.hi[r]}, .wire_in = {to[(r + 1) % 3]}});
    return h;
}

static void reshares(void **state) {
    (void)state;
    for (unsigned c = 0; c < COUNTS; c++) {
        sim s;
        sim_open(&s, c % 3, counts[c]);
        uint64_t *x = values(&s, 63, 3);
        shared parts = share(&s, x);
        const held h = reshare(&s, parts.part);
        check_rss(&s, &h, x);
        if (s.n > 8) /* the pad really changes the component */
            assert_memory_not_equal(h.lo[0], parts.part[0], (size_t)s.n * 8);

        /* And opened to all. */
        for (unsigned r = 0; r < 3; r++) {
            uint8_t *to = wire(&s);
            uint64_t *got = words(&s);
            vec(&s, (r + 2) % 3, UVCC_TASK_PACK,
                (bufs){.in = {h.lo[(r + 2) % 3]}, .wire_out = {to}});
            vec(&s, r, UVCC_TASK_OPEN_ALL_FINISH,
                (bufs){.in = {h.lo[r], h.hi[r]}, .out = {got}, .wire_in = {to}});
            assert_memory_equal(got, x, (size_t)s.n * 8);
        }
        sim_close(&s);
    }
}

/* A tensor less its mask, the mask alone, both components or one, and what is opened; then C. */
static void triples(void **state) {
    (void)state;
    static const struct {
        uvcc_task_kind kind;
        uvcc_prg_tag tag;
    } masks[] = {{UVCC_TASK_TRIPLE_A, UVCC_TAG_tripleA}, {UVCC_TASK_TRIPLE_B, UVCC_TAG_tripleB}};
    for (unsigned c = 0; c < 2 * COUNTS; c++) {
        sim s;
        sim_open(&s, c % 3, counts[c / 2]);
        const uvcc_task_kind kind = masks[c % 2].kind;
        const size_t bytes = (size_t)s.n * 8;
        uint64_t *x = values(&s, 63, 3), *sum[2] = {words(&s), words(&s)}, *want = words(&s);
        const shared parts = share(&s, x);
        held mask = new_held(&s), rest = new_held(&s);
        memset(sum[0], 0, bytes);
        memset(sum[1], 0, bytes);
        for (unsigned r = 0; r < 3; r++) {
            uint8_t *to = wire(&s);
            uint64_t *one = words(&s);
            vec(&s, r, kind, (bufs){.out = {mask.lo[r], mask.hi[r]}});
            vec(&s, r, kind,
                (bufs){.in = {parts.part[r], parts.part[(r + 1) % 3]},
                       .out = {rest.lo[r], rest.hi[r]},
                       .wire_out = {to}});
            assert_memory_equal(to, rest.lo[r], bytes);
            vec(&s, r, kind, (bufs){.out = {one, NULL}});
            assert_memory_equal(one, mask.lo[r], bytes);
            vec(&s, r, kind, (bufs){.out = {NULL, one}});
            assert_memory_equal(one, mask.hi[r], bytes);
            stream(&s, r, UVCC_PAIR_PREV, masks[c % 2].tag, 0, want);
            assert_memory_equal(mask.lo[r], want, bytes);
            for (uint32_t i = 0; i < s.n; i++) {
                sum[0][i] += mask.lo[r][i];
                sum[1][i] += rest.lo[r][i];
                assert_true(rest.lo[r][i] == parts.part[r][i] - mask.lo[r][i]);
                assert_true(rest.hi[r][i] == parts.part[(r + 1) % 3][i] - mask.hi[r][i]);
            }
        }
        check_rss(&s, &mask, sum[0]);
        check_rss(&s, &rest, sum[1]);

        /* C is reshared under a lane of its own, in place too. */
        held z = new_held(&s);
        uint8_t *to[3];
        for (unsigned r = 0; r < 3; r++) {
            to[r] = wire(&s);
            memcpy(z.lo[r], parts.part[r], bytes);
            vec(&s, r, UVCC_TASK_TRIPLE_C,
                (bufs){.in = {z.lo[r]}, .out = {z.lo[r]}, .wire_out = {to[r]}});
            uint64_t *next = words(&s), *prev = words(&s);
            stream(&s, r, UVCC_PAIR_NEXT, UVCC_TAG_zero, 1, next);
            stream(&s, r, UVCC_PAIR_PREV, UVCC_TAG_zero, 1, prev);
            for (uint32_t i = 0; i < s.n; i++)
                assert_true(z.lo[r][i] == parts.part[r][i] + next[i] - prev[i]);
        }
        for (unsigned r = 0; r < 3; r++)
            vec(&s, r, UVCC_TASK_UNPACK, (bufs){.out = {z.hi[r]}, .wire_in = {to[(r + 1) % 3]}});
        check_rss(&s, &z, x);
        sim_close(&s);
    }
}

static uvcc_shares both(const shared *x, unsigned r) {
    return (uvcc_shares){x->part[r], x->part[(r + 1) % 3]};
}

static void map_task(sim *s, unsigned r, uvcc_task t) {
    t.kind = UVCC_TASK_MAP;
    assert_int_equal(run_tasks(s, party(s, r), &t, 1), 0);
}

static void products(void **state) {
    (void)state;
    enum { N = 5000, R = 50, C = 100 };
    for (unsigned e = 0; e < 3; e++) {
        sim s;
        sim_open(&s, e, N);
        uint64_t *x = values(&s, 63, 3), *y = values(&s, 63, 3), *want = words(&s);
        const shared xs = share(&s, x), ys = share(&s, y);
        uint64_t *z[3] = {words(&s), words(&s), words(&s)};
        static const uint8_t ops[] = {UVCC_MAP_MUL, UVCC_MAP_MUL_COL, UVCC_MAP_MUL_ROW,
                                      UVCC_MAP_DOT_ROWS};
        for (unsigned o = 0; o < sizeof ops; o++) {
            const bool dot = ops[o] == UVCC_MAP_DOT_ROWS;
            memset(want, 0, N * 8);
            for (uint32_t i = 0; i < N; i++)
                want[dot ? i / C : i] += dot ? 77 * x[i] * y[i]
                                             : x[i] * y[ops[o] == UVCC_MAP_MUL       ? i
                                                        : ops[o] == UVCC_MAP_MUL_COL ? i / C
                                                                                     : i % C];
            for (unsigned r = 0; r < 3; r++) {
                uvcc_task t = {
                    .u.map = {.op = ops[o], .rows = R, .cols = C, .constant = dot ? 77 : 0}};
                t.u.map.x = both(&xs, r);
                t.u.map.y = both(&ys, r);
                t.u.map.out = (uvcc_shares){z[r], NULL};
                memset(z[r], 0, N * 8);
                map_task(&s, r, t);
            }
            const held h = reshare(&s, z);
            check_rss(&s, &h, want);
        }

        /* x is 100 x 50 or its transpose, y 50 x 50 inside its first 2500 words. */
        for (unsigned v = 0; v < 4; v++) {
            memset(want, 0, N * 8);
            for (uint32_t i = 0; i < C; i++)
                for (uint32_t j = 0; j < R; j++)
                    for (uint32_t p = 0; p < R; p++)
                        want[i * R + j] += (v & 1 ? x[p * C + i] : x[i * R + p]) *
                                           (v & 2 ? y[j * R + p] : y[p * R + j]);
            for (unsigned r = 0; r < 3; r++) {
                uvcc_task t = {.kind = UVCC_TASK_GEMM, .u.gemm = {.m = C, .n = R, .k = R}};
                t.u.gemm.trans_x = v & 1;
                t.u.gemm.trans_y = v & 2;
                t.u.gemm.x = both(&xs, r);
                t.u.gemm.y = both(&ys, r);
                t.u.gemm.z = z[r];
                assert_int_equal(run_tasks(&s, party(&s, r), &t, 1), 0);
            }
            const held g = reshare(&s, z);
            check_rss(&s, &g, want);
        }
        sim_close(&s);
    }
}

/* Blocks of wider matrices, laid out in several ways, on every backend; added to what z holds; what
 * lies between blocks stays. */
static void block_products(void **state) {
    (void)state;
    enum { N = 5000, GROUPS = 3, HEADS = 2, Z_WORDS = 1500 };
    static const uint32_t sizes[][3] = {{8, 9, 4}, {1, 7, 5}, {6, 1, 8}, {16, 8, 16}, {9, 1, 1}};
    for (uint32_t backend = 1; backend <= 4; backend++) {
        sim s;
        sim_open(&s, 0, N);
        for (unsigned r = 0; r < 3; r++) {
            uvcci_cpu_worker_free(&s.worker[r]);
            const uvcc_allocator al = test_allocator(&s.mem);
            assert_int_equal(uvcci_cpu_worker_init(&s.worker[r], &al, backend), 0);
        }
        uint64_t *x = values(&s, 63, 3), *y = values(&s, 63, 3), *before = values(&s, 63, 3);
        const shared xs = share(&s, x), ys = share(&s, y);
        uint64_t *z[3] = {words(&s), words(&s), words(&s)};
        for (unsigned v = 0; v < 16 * sizeof sizes / sizeof sizes[0]; v++) {
            const uint32_t m = sizes[v / 16][0], n = sizes[v / 16][1], k = sizes[v / 16][2];
            const bool tx = v & 1, ty = v & 2, stacked = v & 4, accumulate = v & 8;
            const uint32_t xr = tx ? k : m, xc = tx ? m : k, yr = ty ? n : k, yc = ty ? k : n;
            uvcc_task t = {.kind = UVCC_TASK_GEMM,
                           .u.gemm = {.m = m,
                                      .n = n,
                                      .k = k,
                                      .trans_x = tx,
                                      .trans_y = ty,
                                      .accumulate = accumulate,
                                      .groups = GROUPS,
                                      .heads = HEADS,
                                      .lx = {xc * HEADS + 1, (xc * HEADS + 1ull) * xr, xc},
                                      .ly = {yc, 1ull * HEADS * yr * yc, 1ull * yr * yc},
                                      .lz = {n * HEADS, 1ull * HEADS * n * m, n}}};
            if (stacked)
                t.u.gemm.lz = (uvcc_gemm_layout){n + 2, HEADS * (n + 2ull) * m, (n + 2ull) * m};
            for (unsigned r = 0; r < 3; r++) {
                memcpy(z[r], before, Z_WORDS * 8);
                t.u.gemm.x = both(&xs, r);
                t.u.gemm.y = both(&ys, r);
                t.u.gemm.z = z[r];
                assert_int_equal(run_tasks(&s, party(&s, r), &t, 1), 0);
            }
            uint8_t written[Z_WORDS] = {0};
            const uvcc_gemm_layout *lx = &t.u.gemm.lx, *ly = &t.u.gemm.ly, *lz = &t.u.gemm.lz;
            for (uint32_t e = 0; e < GROUPS * HEADS * m * n; e++) {
                const uint32_t g = e / (HEADS * m * n), h = e / (m * n) % HEADS;
                const uint32_t i = e / n % m, j = e % n;
                const size_t at = g * lz->group + h * lz->head + i * lz->ld + j;
                uint64_t want = accumulate ? 3 * before[at] : 0;
                for (uint32_t p = 0; p < k; p++)
                    want +=
                        x[g * lx->group + h * lx->head + (tx ? p * lx->ld + i : i * lx->ld + p)] *
                        y[g * ly->group + h * ly->head + (ty ? j * ly->ld + p : p * ly->ld + j)];
                assert_true(z[0][at] + z[1][at] + z[2][at] == want);
                written[at] = 1;
            }
            for (uint32_t i = 0; i < Z_WORDS; i++)
                assert_true(written[i] || z[1][i] == before[i]);
        }
        sim_close(&s);
    }
}

/* Pairs of columns and column numbers, for even and odd widths; on a component alone too. */
static void map_pairs(sim *s, const shared *xs, const uint64_t *x) {
    enum { R = 5 };
    for (unsigned op = UVCC_MAP_PAIR_DIFF; op <= UVCC_MAP_INDEX; op++)
        for (unsigned cols = 1; cols <= 12; cols++) {
            const bool index = op == UVCC_MAP_INDEX;
            const unsigned wide = index ? cols : (cols + 1) / 2, n = R * wide;
            held h = new_held(s);
            uint64_t *want = words(s);
            for (unsigned r = 0; r < 3; r++) {
                for (uint32_t i = n; i < s->n; i++) /* untouched words, made to add up */
                    h.lo[r][i] = h.hi[r][i] = want[i] = 0;
                uvcc_task t = {.u.map = {.op = (uint8_t)op, .rows = R, .cols = cols}};
                t.u.map.party = (uint8_t)r;
                t.u.map.x = index ? (uvcc_shares){NULL, NULL} : both(xs, r);
                t.u.map.out = (uvcc_shares){h.lo[r], NULL};
                map_task(s, r, t);
                if (index)
                    assert_int_equal(h.lo[r][n - 1], r == 0 ? 2 * cols - 1 : 0);
                t.u.map.out.hi = h.hi[r];
                map_task(s, r, t);
            }
            for (unsigned i = 0; i < n; i++) {
                const unsigned row = i / wide, j = i % wide;
                const uint64_t *of = x + row * cols;
                const uint64_t second = of[2 * j + 1 < cols ? 2 * j + 1 : cols - 1];
                want[i] = index                      ? 2 * j + 1
                          : op == UVCC_MAP_PAIR_DIFF ? of[2 * j] - second
                                                     : second;
            }
            check_rss(s, &h, want);
        }
}

/* Groups of four columns, and a column in all columns. */
static void map_quads(sim *s, const shared *xs, const uint64_t *x) {
    enum { R = 3 };
    static const unsigned pair[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
    for (unsigned op = UVCC_MAP_QUAD_DIFF; op <= UVCC_MAP_SPREAD; op++)
        for (unsigned cols = 1; cols <= 10; cols++) {
            const unsigned quads = (cols + 3) / 4;
            const unsigned wide = op == UVCC_MAP_SPREAD      ? cols
                                  : op == UVCC_MAP_QUAD_DIFF ? 6 * quads
                                                             : quads;
            held h = new_held(s);
            uint64_t *want = words(s);
            for (unsigned r = 0; r < 3; r++) {
                for (uint32_t i = 0; i < s->n; i++)
                    h.lo[r][i] = h.hi[r][i] = want[i] = 0;
                uvcc_task t = {.u.map = {.op = (uint8_t)op, .rows = R, .cols = cols}};
                t.u.map.x = both(xs, r);
                t.u.map.out = (uvcc_shares){h.lo[r], h.hi[r]};
                map_task(s, r, t);
            }
            for (unsigned i = 0; i < R * wide; i++) {
                const unsigned row = i / wide, j = i % wide;
                uint64_t of[4];
                for (unsigned k = 0; k < 4; k++) {
                    const unsigned at = (op == UVCC_MAP_QUAD_DIFF ? j / 6 : j) * 4 + k;
                    of[k] = x[row * cols + (at < cols ? at : cols - 1)];
                }
                want[i] = op == UVCC_MAP_SPREAD      ? x[row]
                          : op == UVCC_MAP_QUAD_LAST ? of[3]
                                                     : of[pair[j % 6][0]] - of[pair[j % 6][1]];
            }
            check_rss(s, &h, want);
        }
}

static void maps(void **state) {
    (void)state;
    enum { N = 60, R = 5, C = 12 };
    sim s;
    sim_open(&s, 0, N);
    uint64_t *x = values(&s, 63, 3), *y = values(&s, 63, 3);
    const shared xs = share(&s, x), ys = share(&s, y);
    for (unsigned op = UVCC_MAP_ADD; op <= UVCC_MAP_PUBLIC; op++) {
        if (op == UVCC_MAP_MUL)
            continue;
        held h = new_held(&s);
        for (unsigned r = 0; r < 3; r++) {
            uvcc_task t = {.u.map = {.op = (uint8_t)op, .rows = R, .cols = C, .shift = 7}};
            t.u.map.party = (uint8_t)r; /* edge 0: the role is the party */
            t.u.map.x = op == UVCC_MAP_PUBLIC ? (uvcc_shares){x, NULL} : both(&xs, r);
            t.u.map.y = both(&ys, r);
            t.u.map.out = (uvcc_shares){h.lo[r], h.hi[r]};
            map_task(&s, r, t);
        }
        uint64_t want[N] = {0};
        for (unsigned i = 0; i < N; i++) {
            const uint64_t v[] = {[UVCC_MAP_ADD] = x[i] + y[i],
                                  [UVCC_MAP_SUB] = x[i] - y[i],
                                  [UVCC_MAP_ADD_ROW] = x[i] + y[i % C],
                                  [UVCC_MAP_SUM_ROWS] = 0,
                                  [UVCC_MAP_COPY] = x[i],
                                  [UVCC_MAP_SHL] = x[i] << 7,
                                  [UVCC_MAP_PUBLIC] = x[i]};
            if (op == UVCC_MAP_SUM_ROWS)
                want[i % C] += x[i];
            else
                want[i] = v[op];
        }
        if (op == UVCC_MAP_SUM_ROWS) /* untouched words, made to add up */
            for (unsigned r = 0; r < 3; r++) {
                memset(h.lo[r] + C, 0, (N - C) * 8);
                memset(h.hi[r] + C, 0, (N - C) * 8);
            }
        check_rss(&s, &h, want);
        if (op == UVCC_MAP_PUBLIC)
            for (unsigned i = 0; i < N; i++)
                assert_true(h.lo[0][i] == x[i] && h.lo[1][i] == 0 && h.lo[2][i] == 0);
    }

    map_pairs(&s, &xs, x);
    map_quads(&s, &xs, x);

    /* In place, and on one component only. */
    uint64_t *sum = words(&s);
    memcpy(sum, x, N * 8);
    uvcc_task t = {.u.map = {.op = UVCC_MAP_ADD, .rows = R, .cols = C}};
    t.u.map.x = t.u.map.out = (uvcc_shares){sum, NULL};
    t.u.map.y = (uvcc_shares){y, NULL};
    map_task(&s, 0, t);
    for (unsigned i = 0; i < N; i++)
        assert_true(sum[i] == x[i] + y[i]);
    sim_close(&s);
}

/* A column y, sums of rows and public constants, each also in place. */
static void row_maps(void **state) {
    (void)state;
    enum { N = 50, R = 10, C = 5 };
    static const uint8_t ops[] = {UVCC_MAP_ADD_COL,  UVCC_MAP_SUB_COL, UVCC_MAP_RSUB_COL,
                                  UVCC_MAP_SUM_COLS, UVCC_MAP_SCALE,   UVCC_MAP_ADD_PUBLIC,
                                  UVCC_MAP_CAUSAL};
    const uint64_t constant = (uint64_t)-123456789;
    sim s;
    sim_open(&s, 0, N);
    uint64_t *x = values(&s, 63, 3), *y = values(&s, 63, 3);
    const shared xs = share(&s, x), ys = share(&s, y);
    for (unsigned o = 0; o < 2 * sizeof ops; o++) {
        const uint8_t op = ops[o / 2];
        const bool in_place = o % 2 && op != UVCC_MAP_SUM_COLS;
        held h = new_held(&s);
        for (unsigned r = 0; r < 3; r++) {
            uvcc_task t = {.u.map = {.op = op, .rows = R, .cols = C, .constant = constant}};
            t.u.map.party = (uint8_t)r; /* edge 0: the role is the party */
            t.u.map.out = (uvcc_shares){h.lo[r], h.hi[r]};
            t.u.map.x = in_place ? t.u.map.out : both(&xs, r);
            t.u.map.y = both(&ys, r);
            memcpy(h.lo[r], in_place ? both(&xs, r).lo : (uint64_t[N]){0}, N * 8);
            memcpy(h.hi[r], in_place ? both(&xs, r).hi : (uint64_t[N]){0}, N * 8);
            map_task(&s, r, t);
        }
        uint64_t want[N] = {0};
        for (unsigned i = 0; i < N; i++) {
            const uint64_t v[] = {[UVCC_MAP_ADD_COL] = x[i] + y[i / C],
                                  [UVCC_MAP_SUB_COL] = x[i] - y[i / C],
                                  [UVCC_MAP_RSUB_COL] = y[i / C] - x[i],
                                  [UVCC_MAP_SUM_COLS] = 0,
                                  [UVCC_MAP_SCALE] = constant * x[i],
                                  [UVCC_MAP_ADD_PUBLIC] = x[i] + constant,
                                  [UVCC_MAP_CAUSAL] = i % C > i / C % C ? constant : x[i]};
            if (op == UVCC_MAP_SUM_COLS)
                want[i / C] += x[i];
            else
                want[i] = v[op];
        }
        check_rss(&s, &h, want);
        for (unsigned i = 0; i < N; i++) { /* component 0 has the constant */
            if (op == UVCC_MAP_ADD_PUBLIC)
                assert_true(h.lo[0][i] == xs.part[0][i] + constant);
            if (op == UVCC_MAP_CAUSAL && i % C > i / C % C)
                assert_true(h.lo[0][i] == constant && h.lo[1][i] == 0);
        }
    }
    sim_close(&s);
}

/* Two blocks of five rows: a mask with a window on their last rows of a square, and the rows 1 and
 * 2 of each. */
static void block_maps(void **state) {
    (void)state;
    enum { N = 60, R = 10, C = 6, BLOCK = 5, PART = 2, FIRST = 1, SOME = 2 * PART * C };
    static const uint8_t ops[] = {UVCC_MAP_CAUSAL,   UVCC_MAP_SLICE_ROWS, UVCC_MAP_PUT_ROWS,
                                  UVCC_MAP_PUT_ROWS, UVCC_MAP_ADD_ROWS,   UVCC_MAP_ADD_ROWS};
    const uint64_t constant = (uint64_t)-987;
    sim s;
    sim_open(&s, 0, N);
    uint64_t *x = values(&s, 63, 3), *y = values(&s, 63, 3);
    const shared xs = share(&s, x), ys = share(&s, y);
    for (unsigned o = 0; o < sizeof ops; o++) {
        const bool alone = o == 2, in_place = o == 5, slice = ops[o] == UVCC_MAP_SLICE_ROWS;
        held h = new_held(&s);
        for (unsigned r = 0; r < 3; r++) {
            memcpy(h.lo[r], both(&xs, r).lo, in_place ? N * 8 : 0);
            memcpy(h.hi[r], both(&xs, r).hi, in_place ? N * 8 : 0);
            uvcc_task t = {.u.map = {.op = ops[o], .rows = R, .cols = C, .block = BLOCK}};
            t.u.map.part = PART;
            t.u.map.constant = o == 0 ? constant : FIRST;
            t.u.map.party = (uint8_t)r;
            t.u.map.out = (uvcc_shares){h.lo[r], h.hi[r]};
            if (!alone)
                t.u.map.x = in_place ? t.u.map.out : both(&xs, r);
            t.u.map.y = both(&ys, r);
            map_task(&s, r, t);
        }
        uint64_t want[N] = {0};
        for (unsigned i = 0; i < N; i++) {
            const unsigned row = i / C % BLOCK, part = row - FIRST;
            const unsigned at = (i / C / BLOCK * PART + part) * C + i % C; /* in the part */
            const bool inside = part < PART;
            if (o == 0)
                want[i] =
                    i % C > C - BLOCK + row || i % C + PART <= C - BLOCK + row ? constant : x[i];
            else if (slice && inside)
                want[at] = x[i];
            else if (!slice)
                want[i] = (alone || (inside && ops[o] == UVCC_MAP_PUT_ROWS) ? 0 : x[i]) +
                          (inside ? y[at] : 0);
        }
        for (unsigned r = 0; r < 3 && slice; r++) { /* what is behind the part was not written */
            memset(h.lo[r] + SOME, 0, (N - SOME) * 8);
            memset(h.hi[r] + SOME, 0, (N - SOME) * 8);
        }
        check_rss(&s, &h, want);
    }
    sim_close(&s);
}

static void hashes_and_copies(void **state) {
    (void)state;
    sim s;
    sim_open(&s, 0, 1);
    uint8_t data[1000], joined[1032], digest[3][32], want[32];
    uvcc_hash_item items[3];
    test_rand_bytes(&rng, data, sizeof data);
    memset(items, 0, sizeof items);
    for (unsigned m = 0; m < 3; m++) {
        items[m].mode = (uint8_t)m;
        items[m].prefix_len = (uint8_t)(16 * m);
        test_rand_bytes(&rng, items[m].prefix, 32);
        test_rand_bytes(&rng, items[m].key, 32);
        items[m].data = data;
        items[m].len = sizeof data - m;
        items[m].out = digest[m];
    }
    uvcc_task t = {.kind = UVCC_TASK_HASH};
    t.u.hash.items = items;
    t.u.hash.count = 3;
    assert_int_equal(run_tasks(&s, 0, &t, 1), 0);
    for (unsigned m = 0; m < 3; m++) {
        const bool tree = m != UVCC_HASH_PLAIN;
        const size_t len = tree ? 32 : sizeof data - m;
        memcpy(joined, items[m].prefix, 16 * m);
        memcpy(joined + 16 * m, data, sizeof data - m);
        if (tree)
            uvcci_tree_once(data, sizeof data - m, joined + 16 * m);
        if (m == UVCC_HASH_HMAC)
            uvcci_hmac_once(items[m].key, 32, joined, 16 * m + len, want);
        else
            uvcci_sha256_once(joined, 16 * m + len, want);
        assert_memory_equal(digest[m], want, 32);
    }

    uint8_t to[64], from[64];
    test_rand_bytes(&rng, from, sizeof from);
    memset(to, 0, sizeof to);
    const uvcc_copy_item copies[] = {{to + 1, from, 20}, {NULL, NULL, 0}, {to + 30, from + 20, 7}};
    const uvcc_copy_item wipes[] = {{to + 2, NULL, 3}, {NULL, NULL, 0}};
    uvcc_task two[2] = {{.kind = UVCC_TASK_COPY}, {.kind = UVCC_TASK_WIPE}};
    two[0].u.copy.items = copies;
    two[0].u.copy.count = 3;
    two[1].u.copy.items = wipes;
    two[1].u.copy.count = 2;
    assert_int_equal(run_tasks(&s, 0, two, 2), 0);
    memcpy(joined, from, 20);
    memset(joined + 1, 0, 3);
    assert_memory_equal(to + 1, joined, 20);
    assert_memory_equal(to + 30, from + 20, 7);
    assert_int_equal(to[0] | to[21] | to[29] | to[37], 0);
    sim_close(&s);
}

/* More than stays in caches, at any alignment. Of pieces that overlap the later one counts; nothing
 * beside them is touched. */
static void large_copies(void **state) {
    (void)state;
    enum { BYTES = 3u << 20, PIECES = 200 };
    sim s;
    sim_open(&s, 0, 1);
    rng = 77;
    uint8_t *from = malloc(BYTES), *to = malloc(BYTES), *want = malloc(BYTES);
    assert_true(from != NULL && to != NULL && want != NULL);
    test_rand_bytes(&rng, from, BYTES);
    memset(to, 0xA5, BYTES);
    memset(want, 0xA5, BYTES);
    uvcc_copy_item items[PIECES];
    size_t all = 0;
    for (size_t i = 0; i < PIECES; i++) {
        const size_t len = i % 3 == 0 ? test_rand(&rng) % 200 : test_rand(&rng) % 40000;
        const size_t at = test_rand(&rng) % (BYTES - 40000);
        const size_t src = test_rand(&rng) % (BYTES - 40000);
        items[i] = (uvcc_copy_item){to + at, from + src, len};
        memcpy(want + at, from + src, len);
        all += len;
    }
    assert_true(all > 2u << 20);
    uvcc_task t = {.kind = UVCC_TASK_COPY};
    t.u.copy.items = items;
    t.u.copy.count = PIECES;
    assert_int_equal(run_tasks(&s, 0, &t, 1), 0);
    assert_memory_equal(to, want, BYTES);
    free(from);
    free(to);
    free(want);
    sim_close(&s);
}

/* What a large copy writes behind its memory ends a process that a sanitizer watches. */
static void large_copies_are_watched(void **state) {
    (void)state;
    enum { BYTES = 2u << 20 };
    if (!SANITIZED_ADDRESSES)
        skip();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        sim s;
        sim_open(&s, 0, 1);
        uint8_t *from = calloc(1, BYTES), *to = aligned_alloc(64, BYTES - 128);
        uvcc_copy_item item = {to, from, BYTES - 64};
        uvcc_task t = {.kind = UVCC_TASK_COPY};
        t.u.copy.items = &item;
        t.u.copy.count = 1;
        (void)close(STDERR_FILENO);
        (void)run_tasks(&s, 0, &t, 1);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_not_equal(status, 0);
}

static void bad_tasks(void **state) {
    (void)state;
    sim s;
    sim_open(&s, 0, 1);
    uint64_t w[2] = {1, 2}, z[2] = {0};
    uint8_t wire_bytes[32] = {0};
    uvcc_block block = {.count = 1, .in = {w, w}, .out = {z, z}, .wire_out = {wire_bytes}};
    uvcc_task t = {.kind = UVCC_TASK_PACK, .keys = &s.keys[0]};
    t.u.vec.blocks = &block;
    t.u.vec.count = 1;
    assert_int_equal(run_tasks(&s, 0, &t, 1), 0);

    block.count = 0;
    assert_int_equal(run_tasks(&s, 0, &t, 1), UVCC_ERR_JOB);
    block.count = UVCC_BLOCK_ELEMS + 1;
    assert_int_equal(run_tasks(&s, 0, &t, 1), UVCC_ERR_JOB);
    block.count = 1;
    block.role = 3;
    assert_int_equal(run_tasks(&s, 0, &t, 1), UVCC_ERR_JOB);
    block.role = 0;

    static const struct {
        uint16_t kind;
        uint8_t gate, shift, bits;
    } bad[] = {
        {0, 0, 16, 16},
        {UVCC_TASK_KIND_END, 0, 16, 16},
        {UVCC_TASK_COLLECTIVE, 0, 16, 16},
        {UINT16_MAX, 0, 16, 16},
        {UVCC_TASK_OPEN4_MASK, 0, 0, 0},
        {UVCC_TASK_TRUNC, UVCC_GATE_TRUNC_SR, 63, 0},
        {UVCC_TASK_RELU, UVCC_GATE_RELU, 0, 0},
        {UVCC_TASK_RELU, UVCC_GATE_RELU, 0, 64},
        {UVCC_TASK_LESS_MASK, UVCC_GATE_TRUNC_SR, 16, 16},
        {UVCC_TASK_LESS_MASK, UVCC_GATE_RELU, 16, 64},
        {UVCC_TASK_DEAL, UVCC_GATE_NONE, 16, 16},
        {UVCC_TASK_DEAL, UVCC_GATE_TRUNC_ARS, 0, 16},
        {UVCC_TASK_DEAL, UVCC_GATE_TRUNC_DCF, 0, 16},
        {UVCC_TASK_DEAL, UVCC_GATE_TRUNC_DCF, 63, 16},
        {UVCC_TASK_LESS_MASK, UVCC_GATE_TRUNC_DCF, 16, 16},
        {UVCC_TASK_DEAL, 4, 16, 16},
    };
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        uvcc_task b = t;
        b.kind = bad[i].kind;
        b.u.vec.gate = bad[i].gate;
        b.u.vec.shift = bad[i].shift;
        b.u.vec.bits = bad[i].bits;
        z[0] = 0;
        uvcc_task list[2] = {b, {.kind = UVCC_TASK_UNPACK}};
        assert_int_equal(run_tasks(&s, 0, list, 2), UVCC_ERR_JOB); /* and the second never runs */
    }
    uvcc_task map = {.kind = UVCC_TASK_MAP, .u.map = {.op = 99, .rows = 1, .cols = 1}};
    map.u.map.x = map.u.map.y = map.u.map.out = (uvcc_shares){w, w};
    assert_int_equal(run_tasks(&s, 0, &map, 1), UVCC_ERR_JOB);
    sim_close(&s);
}

/* Narrow integers of a public y lie at multiples of their size, or the task fails. */
static void a_narrow_y_is_aligned(void **state) {
    (void)state;
    sim s;
    sim_open(&s, 0, 1);
    const union {
        int16_t of_2[8];
        int32_t of_4[4];
    } y[] = {{.of_2 = {0, -3, -3, 0, 0}}, {.of_4 = {0, -3, 0}}};
    uint64_t x = 5, z;
    for (unsigned at = 0; at < 8; at++)
        for (unsigned i = 0; i < 2; i++) {
            const uint8_t bytes = i == 0 ? 2 : 4;
            const uint8_t *of = (const uint8_t *)&y[i] + at;
            uvcc_task t = {.kind = UVCC_TASK_GEMM,
                           .u.gemm = {.m = 1, .n = 1, .k = 1, .y_bytes = bytes, .z = &z}};
            t.u.gemm.x = (uvcc_shares){&x, NULL};
            t.u.gemm.y = (uvcc_shares){(uint64_t *)(uintptr_t)of, NULL};
            z = 7;
            assert_int_equal(run_tasks(&s, 0, &t, 1), at % bytes == 0 ? 0 : UVCC_ERR_JOB);
            const bool is_3 = at == bytes || (i == 0 && at == 2 * bytes);
            const uint64_t product = is_3 ? (uint64_t)-15 : 0;
            assert_int_equal(z, at % bytes == 0 ? product : 7);
        }
    sim_close(&s);
}

/* A worker of a back end uses the AES that was asked for, or the best there is below it. */
static void the_back_end_asked_for(void **state) {
    (void)state;
    static const uvcci_aes_backend asked[] = {UVCCI_AES_VAES, UVCCI_AES_PORTABLE, UVCCI_AES_NI,
                                              UVCCI_AES_VAES, UVCCI_AES_VAES};
    for (uint32_t b = 0; b < sizeof asked / sizeof asked[0]; b++) {
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        uvcci_cpu_worker w;
        assert_int_equal(uvcci_cpu_worker_init(&w, &al, b), 0);
        assert_int_equal(w.aes, asked[b] < uvcci_aes_best() ? asked[b] : uvcci_aes_best());
        uvcci_cpu_worker_free(&w);
        assert_int_equal(mem.live_blocks, 0);
    }
}

static void out_of_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_cpu_worker w;
    mem.fail_at = 1;
    assert_int_equal(uvcci_cpu_worker_init(&w, &al, 0), UVCC_ERR_NOMEM);
    assert_int_equal(uvcci_cpu_worker_init(&w, &al, 5), UVCC_ERR_CONFIG);
    assert_int_equal(uvcci_cpu_worker_init(&w, &al, 0), 0);
    uint64_t x[4] = {1, 2, 3, 4}, z[4];
    uvcc_task t = {.kind = UVCC_TASK_GEMM, .u.gemm = {.m = 2, .n = 2, .k = 2}};
    t.u.gemm.x = t.u.gemm.y = (uvcc_shares){x, x};
    t.u.gemm.z = z;
    const uvcc_job job = {.tasks = &t, .count = 1};
    mem.fail_at = 1;
    assert_int_equal(uvcci_cpu_run(&w, &job), UVCC_ERR_JOB);
    assert_int_equal(uvcci_cpu_run(&w, &job), 0); /* the worker is still good */
    assert_true(z[0] == 3 * 7 && z[3] == 3 * 22);
    mem.fail_at = 1;
    assert_int_equal(uvcci_cpu_worker_reserve(&w), UVCC_ERR_NOMEM);
    assert_int_equal(uvcci_cpu_worker_reserve(&w), 0);
    mem.fail_at = 1; /* nothing asks for memory after that */
    assert_int_equal(uvcci_cpu_run(&w, &job), 0);
    assert_int_equal(mem.fail_at, 1);
    uvcci_cpu_worker_free(&w);
    assert_int_equal(mem.live_blocks, 0);
    uvcci_cpu_worker_free(&w); /* twice is fine */
}

/* A job that finds another step's keys where the last job's were must use them. */
static void keys_in_reused_memory(void **state) {
    (void)state;
    sim s;
    sim_open(&s, 0, 100);
    uint64_t *z = values(&s, 63, 3), *first = words(&s), *second = words(&s);
    vec(&s, H, UVCC_TASK_RESHARE_MASK, (bufs){.in = {z}, .out = {first}, .wire_out = {wire(&s)}});
    test_rand_bytes(&rng, &s.keys[0], sizeof s.keys[0]);
    vec(&s, H, UVCC_TASK_RESHARE_MASK, (bufs){.in = {z}, .out = {second}, .wire_out = {wire(&s)}});
    assert_memory_not_equal(first, second, 800);
    sim_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs),
        cmocka_unit_test(truncations),
        cmocka_unit_test(relus),
        cmocka_unit_test(lifts),
        cmocka_unit_test(reshares),
        cmocka_unit_test(triples),
        cmocka_unit_test(products),
        cmocka_unit_test(block_products),
        cmocka_unit_test(maps),
        cmocka_unit_test(row_maps),
        cmocka_unit_test(block_maps),
        cmocka_unit_test(hashes_and_copies),
        cmocka_unit_test(large_copies),
        cmocka_unit_test(large_copies_are_watched),
        cmocka_unit_test(bad_tasks),
        cmocka_unit_test(a_narrow_y_is_aligned),
        cmocka_unit_test(the_back_end_asked_for),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(keys_in_reused_memory),
    };
    rng = 20240601;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
