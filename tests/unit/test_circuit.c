/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison without keys: three roles run the BOOL tasks round by round, messages of exactly the
 * planned sizes are passed by hand, and [x >= 0] and its product with x come out. Every word of the
 * PRGs that a task draws is recorded (the linker puts __wrap_uvcci_prg_fill before the library's),
 * so that "used once" is a test: a task draws no word twice; HEAD's pads with OTHER and with TAIL
 * are drawn alike by both; TAIL and OTHER, who both write to HEAD, never mask with the same word.
 */
#include "support.h"

#include "exec/compute/kernels.h"
#include "exec/primitives/circuit.h"
#include "proto/prg.h"

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER };
enum { ORDINAL = 77, CALL = 5, BLOCK = 9, LANE = 3, MAX_ROUNDS = 6 };
enum { BOTH = UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT, MAX_WORDS = 4 * UVCC_BLOCK_ELEMS };

static uint64_t rng;

/* --- What a task draws ------------------------------------------------------------------------ */

static struct {
    const uvcc_step_keys *keys; /* NULL: not recorded */
    uint16_t call;
    uint8_t drawn[2][MAX_WORDS]; /* [NEXT, PREV] */
} tape;

void __real_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count);
void __wrap_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count);
void __wrap_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count) {
    __real_uvcci_prg_fill(key, at, first, out, count);
    if (tape.keys == NULL)
        return;
    assert_true(at.ordinal == ORDINAL && at.call == tape.call && at.block == BLOCK &&
                at.lane == LANE);
    assert_true(first + count <= MAX_WORDS);
    unsigned pair = 2;
    for (unsigned p = 0; p < 2; p++) {
        uvcci_aes zero;
        uvcci_aes_init(&zero, tape.keys->prg[p][UVCC_TAG_zero], UVCCI_AES_PORTABLE);
        uint64_t word;
        __real_uvcci_prg_fill(&zero, at, first, &word, 1);
        if (word == out[0])
            pair = p;
    }
    assert_true(pair < 2); /* tag zero of a neighbour */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tape.drawn[pair][first + i]++, 0);
}

/* --- Three roles ------------------------------------------------------------------------------ */

typedef struct sim {
    test_alloc mem;
    uvcci_cpu_worker worker[3];
    uvcc_step_keys keys[3];
    uvcci_circuit_plan plan;
    unsigned want;
    uint32_t n;
    uint8_t gap;           /* between pieces of messages */
    uint64_t *x, *part[3]; /* a, b, c */
    uint64_t *state[3];
    uint64_t *dx[3][2], *d[3][2];       /* lo, hi */
    uint8_t *message[MAX_ROUNDS][3][3]; /* [round][from][to]; odd addresses, exact sizes */
    uint8_t drawn[3][2][MAX_WORDS];     /* by each role's last recorded task */
    void *owned[128];
    unsigned owned_count;
} sim;

static void *own(sim *s, size_t bytes) {
    assert_true(s->owned_count < 128);
    void *p = malloc(bytes == 0 ? 1 : bytes);
    assert_non_null(p);
    memset(p, 0xEE, bytes);
    return s->owned[s->owned_count++] = p;
}

static uint32_t message_words(const sim *s, unsigned round, unsigned from, unsigned to) {
    return uvcci_circuit_message_words(&s->plan, s->want, round, (uvcc_role)from, (uvcc_role)to,
                                       s->n);
}

/* The ends, zero, all over, small. */
static uint64_t value(unsigned bits, uint32_t i) {
    const int64_t top = (int64_t)(((uint64_t)1 << bits) - 1);
    const int64_t special[] = {0, -1, top, -top, 1, -top - 1};
    const uint64_t r = test_rand(&rng);
    if (i % 16 < 6)
        return (uint64_t)special[i % 16];
    const int64_t v = (int64_t)(r << (63 - bits)) >> (63 - bits);
    return (uint64_t)(i % 16 < 10 ? v >> r % bits : v);
}

static void sim_open(sim *s, unsigned bits, unsigned want, uint32_t n, uint8_t gap) {
    memset(s, 0, sizeof *s);
    const uvcc_allocator al = test_allocator(&s->mem);
    test_rand_bytes(&rng, s->keys, sizeof s->keys);
    s->plan = uvcci_circuit_plan_of(bits);
    s->want = want;
    s->n = n;
    s->gap = gap;
    s->x = own(s, (size_t)n * 8);
    for (unsigned r = 0; r < 3; r++) {
        assert_int_equal(uvcci_cpu_worker_init(&s->worker[r], &al, (bits + n + r) % 4), 0);
        memcpy(s->keys[(r + 1) % 3].prg[UVCC_PAIR_PREV], s->keys[r].prg[UVCC_PAIR_NEXT],
               sizeof s->keys[r].prg[0]);
        s->part[r] = own(s, (size_t)n * 8);
        s->state[r] = own(s, (size_t)uvcci_circuit_state_words(&s->plan, n) * 8);
        for (unsigned i = 0; i < 2; i++) {
            s->dx[r][i] = own(s, (size_t)n * 8);
            s->d[r][i] = own(s, (size_t)n * 8);
        }
    }
    const uint32_t rot = (uint32_t)test_rand(&rng); /* so that a count of one meets all values */
    for (uint32_t i = 0; i < n; i++) {
        s->x[i] = value(bits, i + rot);
        s->part[0][i] = test_rand(&rng);
        s->part[1][i] = test_rand(&rng);
        s->part[2][i] = s->x[i] - s->part[0][i] - s->part[1][i];
    }
    for (unsigned k = 0; k < s->plan.rounds; k++)
        for (unsigned r = 0; r < 9; r++) {
            const size_t words = message_words(s, k, r / 3, r % 3);
            const uint32_t piece = uvcci_circuit_piece_words(&s->plan, k, n);
            if (words != 0)
                s->message[k][r / 3][r % 3] =
                    (uint8_t *)own(s, words * 8 + (words - 1) / piece * gap + 1) + 1;
        }
}

static void sim_close(sim *s) {
    for (unsigned r = 0; r < 3; r++)
        uvcci_cpu_worker_free(&s->worker[r]);
    for (unsigned i = 0; i < s->owned_count; i++)
        free(s->owned[i]);
    assert_int_equal(s->mem.live_blocks, 0);
}

static void task(sim *s, unsigned role, uvcc_task_kind kind, unsigned round, unsigned want,
                 uvcc_block b) {
    b.block = BLOCK;
    b.count = s->n;
    b.role = (uint8_t)role;
    b.in[0] = s->part[role];
    b.in[1] = s->part[(role + 1) % 3];
    b.in[2] = s->state[role];
    if (b.out[0] == NULL)
        b.out[0] = s->state[role];
    uvcc_task t = {.kind = (uint16_t)kind, .ordinal = ORDINAL, .call = (uint16_t)(CALL + round)};
    t.keys = &s->keys[role];
    t.u.vec.blocks = &b;
    t.u.vec.count = 1;
    t.u.vec.bits = s->plan.bits;
    t.u.vec.shift = (uint8_t)round;
    t.u.vec.gate = (uint8_t)want;
    t.u.vec.gap = s->gap;
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    memset(tape.drawn, 0, sizeof tape.drawn);
    tape.keys = &s->keys[role];
    tape.call = t.call;
    assert_int_equal(uvcci_cpu_run(&s->worker[role], &job), 0);
    tape.keys = NULL;
    memcpy(s->drawn[role], tape.drawn, sizeof tape.drawn);
}

/* Where the last round's messages have their second value. */
static size_t second_piece(const sim *s) {
    return (size_t)s->n * 8 + s->gap;
}

/* The sending task of a round. `to` is where its messages go: s->message[round][role] or a copy. */
static void send_round(sim *s, unsigned role, unsigned round, uint8_t *const to[3]) {
    if (round > 0 && round <= s->plan.levels) {
        task(s, role, UVCC_TASK_BOOL_MERGE, round, 0,
             (uvcc_block){.wire_out = {to[(role + 2) % 3]}});
        return;
    }
    const bool last = round != 0;
    uvcc_block b = {.wire_out = {to[T], to[O]}};
    if (role != H) {
        b.wire_out[0] = to[H];
        b.wire_out[1] = NULL;
    }
    if (last && role != H) {
        const unsigned i = role == T ? 0 : 1;
        const bool product = s->want & UVCC_BOOL_PRODUCT;
        b.out[0] = s->dx[role][i];
        b.out[1] = s->d[role][i];
        b.wire_out[1] = to[H] + (product ? second_piece(s) : 0);
    }
    task(s, role, last ? UVCC_TASK_BOOL_SELECT_MASK : UVCC_TASK_BOOL_SHARE, round, s->want, b);
}

static void finish_value(sim *s, unsigned role, unsigned round, unsigned value, uint64_t *out[2]) {
    const bool second = value == UVCC_BOOL_BIT && (s->want & UVCC_BOOL_PRODUCT);
    const size_t skip = second ? second_piece(s) : 0;
    uvcc_block b = {.out = {out[0], out[1]}};
    if (role == H) {
        b.wire_in[0] = s->message[round][O][H] + skip;
        b.wire_in[1] = s->message[round][T][H] + skip;
    } else {
        b.wire_in[0] = s->message[round][H][role] + skip;
        b.wire_in[1] = value == UVCC_BOOL_PRODUCT ? b.wire_in[0] + second_piece(s) : NULL;
    }
    task(s, role, UVCC_TASK_BOOL_SELECT_FINISH, round, value, b);
}

static void receive_round(sim *s, unsigned role, unsigned round) {
    uint8_t *(*m)[3] = s->message[round];
    if (round == 0) {
        uvcc_block b = {.wire_in = {m[H][role]}};
        if (role == H) {
            b.wire_in[0] = m[O][H];
            b.wire_in[1] = m[T][H];
        }
        task(s, role, UVCC_TASK_BOOL_JOIN, round, 0, b);
    } else if (round <= s->plan.levels) {
        task(s, role, UVCC_TASK_BOOL_RECEIVE, round, 0,
             (uvcc_block){.wire_in = {m[(role + 1) % 3][role]}});
    } else {
        if (s->want & UVCC_BOOL_BIT) /* first: a product may stand where x is */
            finish_value(s, role, round, UVCC_BOOL_BIT, s->d[role]);
        if (s->want & UVCC_BOOL_PRODUCT)
            finish_value(s, role, round, UVCC_BOOL_PRODUCT, s->dx[role]);
    }
}

static void check_pads(const sim *s, unsigned round) {
    assert_memory_equal(s->drawn[H][UVCC_PAIR_NEXT], s->drawn[T][UVCC_PAIR_PREV], MAX_WORDS);
    assert_memory_equal(s->drawn[H][UVCC_PAIR_PREV], s->drawn[O][UVCC_PAIR_NEXT], MAX_WORDS);
    const uint8_t *tail = s->drawn[T][UVCC_PAIR_NEXT], *other = s->drawn[O][UVCC_PAIR_PREV];
    if (round > 0 && round <= s->plan.levels)
        assert_memory_equal(tail, other, MAX_WORDS); /* zero shares */
    else
        for (unsigned i = 0; i < MAX_WORDS; i++)
            assert_int_equal(tail[i] & other[i], 0);
}

static void run_all(sim *s) {
    for (unsigned k = 0; k < s->plan.rounds; k++) {
        for (unsigned r = 0; r < 3; r++)
            send_round(s, r, k, s->message[k][r]);
        check_pads(s, k);
        for (unsigned r = 0; r < 3; r++)
            receive_round(s, r, k);
    }
}

static void check_rss(const sim *s, uint64_t *v[3][2], bool product) {
    for (unsigned r = 0; r < 3; r++)
        assert_memory_equal(v[r][1], v[(r + 1) % 3][0], (size_t)s->n * 8);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint64_t bit = (int64_t)s->x[i] >= 0;
        if (v[0][0][i] + v[1][0][i] + v[2][0][i] != bit * (product ? s->x[i] : 1))
            fail_msg("element %u of %u, %u bits, product %d", i, s->n, s->plan.bits, product);
    }
}

/* --- Tests ------------------------------------------------------------------------------------ */

/* What lies between pieces is as `own` left it. */
static void check_gaps(const sim *s) {
    for (unsigned k = 0; k < s->plan.rounds; k++)
        for (unsigned r = 0; r < 9; r++) {
            const size_t words = message_words(s, k, r / 3, r % 3);
            const size_t piece = uvcci_circuit_piece_words(&s->plan, k, s->n);
            for (size_t i = 1; i * piece < words; i++)
                for (unsigned b = 0; b < s->gap; b++)
                    assert_int_equal(
                        s->message[k][r / 3][r % 3][i * piece * 8 + (i - 1) * s->gap + b], 0xEE);
        }
}

static void compare(unsigned bits, unsigned want, uint32_t n) {
    sim s;
    sim_open(&s, bits, want, n, (uint8_t)(20 * (n % 2) + bits % 8 / 4));
    run_all(&s);
    if (want & UVCC_BOOL_PRODUCT)
        check_rss(&s, s.dx, true);
    if (want & UVCC_BOOL_BIT)
        check_rss(&s, s.d, false);
    check_gaps(&s);
    sim_close(&s);
}

static void all_sizes(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 63, 64, 65, 4095, 4096};
    for (unsigned bits = 1; bits <= 63; bits++)
        for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++)
            compare(bits, 1 + (bits + c) % 3, counts[c]);
    for (unsigned want = 1; want <= BOTH; want++)
        for (uint32_t n = 500; n < 530; n++)
            compare(13 + want, want, n);
}

/* Every message is masked by a pad that its receiver does not know: with that key changed, and all
 * else the same, every word of it changes. And its bits are as often 0 as 1. */
static void messages_are_masked(void **state) {
    (void)state;
    static const unsigned sizes[] = {3, 16, 31, 63};
    for (unsigned c = 0; c < sizeof sizes / sizeof *sizes; c++) {
        sim s;
        sim_open(&s, sizes[c], BOTH, 1000, 0);
        for (unsigned k = 0; k < s.plan.rounds; k++) {
            for (unsigned from = 0; from < 3; from++) {
                sim copy = s;
                uint8_t *again[3] = {NULL, NULL, NULL};
                for (unsigned to = 0; to < 3; to++)
                    if (s.message[k][from][to] != NULL)
                        again[to] = own(&s, (size_t)message_words(&s, k, from, to) * 8);
                const size_t state_bytes = (size_t)uvcci_circuit_state_words(&s.plan, s.n) * 8;
                uint64_t *before = own(&s, state_bytes);
                memcpy(before, s.state[from], state_bytes);
                for (unsigned to = 0; to < 3; to++) {
                    if (again[to] == NULL)
                        continue;
                    /* The pair that the sender has with the party that is not the receiver. */
                    const unsigned pair = (from + 1) % 3 == to ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
                    memcpy(copy.keys, s.keys, sizeof s.keys);
                    test_rand_bytes(&rng, copy.keys[from].prg[pair], sizeof s.keys[0].prg[0]);
                    send_round(&copy, from, k, again);
                    memcpy(s.state[from], before, state_bytes);
                    send_round(&s, from, k, s.message[k][from]);
                    const uint32_t words = message_words(&s, k, from, to);
                    unsigned ones = 0;
                    for (size_t i = 0; i < words; i++) {
                        uint64_t x, y;
                        memcpy(&x, s.message[k][from][to] + 8 * i, 8);
                        memcpy(&y, again[to] + 8 * i, 8);
                        assert_true(x != y);
                        ones += (unsigned)__builtin_popcountll(x);
                    }
                    const double n = 64.0 * words, off = ones - n / 2;
                    assert_true(off * off < 36 * n / 4); /* six standard deviations */
                    memcpy(s.state[from], before, state_bytes);
                }
                send_round(&s, from, k, s.message[k][from]);
            }
            for (unsigned r = 0; r < 3; r++)
                receive_round(&s, r, k);
        }
        check_rss(&s, s.dx, true);
        check_rss(&s, s.d, false);
        sim_close(&s);
    }
}

static void plans(void **state) {
    (void)state;
    static const struct {
        unsigned bits, groups, levels, shared;
    } want[] = {{1, 1, 0, 1},     {4, 1, 0, 15},   {5, 2, 1, 3 + 7}, {16, 4, 2, 60},
                {17, 8, 3, 28},   {31, 8, 3, 112}, {32, 8, 3, 120},  {33, 16, 4, 52},
                {62, 16, 4, 224}, {63, 16, 4, 232}};
    for (unsigned i = 0; i < sizeof want / sizeof *want; i++) {
        const uvcci_circuit_plan p = uvcci_circuit_plan_of(want[i].bits);
        assert_int_equal(p.bits, want[i].bits);
        assert_int_equal(p.groups, want[i].groups);
        assert_int_equal(p.levels, want[i].levels);
        assert_int_equal(p.rounds, want[i].levels + 2);
        assert_int_equal(p.shared, want[i].shared);
        assert_int_equal(p.planes, 2 * want[i].groups - 1);
    }

    /* 31 bits, 64 elements: words are planes. */
    const uvcci_circuit_plan p = uvcci_circuit_plan_of(31);
    uint32_t sent[MAX_ROUNDS] = {0};
    for (unsigned k = 0; k < MAX_ROUNDS; k++)
        for (unsigned r = 0; r < 9; r++)
            sent[k] += uvcci_circuit_message_words(&p, BOTH, k, (uvcc_role)(r / 3),
                                                   (uvcc_role)(r % 3), 64);
    const uint32_t planes[MAX_ROUNDS] = {2 * 112 + 2 * 15, 3 * 7, 3 * 3, 2, 8 * 64, 0};
    assert_memory_equal(sent, planes, sizeof sent);
}

static void bad_tasks(void **state) {
    (void)state;
    sim s;
    sim_open(&s, 16, BOTH, 1, 0);
    static const struct {
        uvcc_task_kind kind;
        uint8_t bits, level, want;
    } bad[] = {
        {UVCC_TASK_BOOL_SHARE, 0, 0, 0},          {UVCC_TASK_BOOL_SHARE, 64, 0, 0},
        {UVCC_TASK_BOOL_JOIN, 64, 0, 0},          {UVCC_TASK_BOOL_MERGE, 16, 0, 0},
        {UVCC_TASK_BOOL_MERGE, 16, 3, 0},         {UVCC_TASK_BOOL_RECEIVE, 4, 1, 0},
        {UVCC_TASK_BOOL_SELECT_MASK, 16, 0, 0},   {UVCC_TASK_BOOL_SELECT_MASK, 16, 0, 4},
        {UVCC_TASK_BOOL_SELECT_FINISH, 16, 0, 3}, {UVCC_TASK_BOOL_SELECT_FINISH, 16, 0, 0},
    };
    uvcc_block b = {.count = 1};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        uvcc_task t = {.kind = (uint16_t)bad[i].kind, .keys = &s.keys[0]};
        t.u.vec.blocks = &b;
        t.u.vec.count = 1;
        t.u.vec.bits = bad[i].bits;
        t.u.vec.shift = bad[i].level;
        t.u.vec.gate = bad[i].want;
        const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
        assert_int_equal(uvcci_cpu_run(&s.worker[0], &job), UVCC_ERR_JOB);
    }
    sim_close(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes),
        cmocka_unit_test(messages_are_masked),
        cmocka_unit_test(plans),
        cmocka_unit_test(bad_tasks),
    };
    rng = 20240701;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
