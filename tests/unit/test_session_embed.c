/* SPDX-License-Identifier: Apache-2.0 */
/* test_session_embed.c - rows of a table by numbers that their owner alone knows: sessions give the
 * plaintext twin's words for tables of no powers of two, whoever the owner is, a party or a client
 * that is none, secret and public tables, two tables one below the other, sums; a number is in no
 * other party's memory, log or transcript; whatever a client gives for keys, sessions go on, and
 * give what those keys stand for; what cannot be is refused by name. */
#include "triangle.h"

#include <uvcc/client.h>
#include <uvcc/record.h>

#include <stdlib.h>

enum { SEED = 17, ID_IDS = 1, ID_TABLE = 2, ID_SUM = 3, ID_OUT = 9 };

/* ---- programs ---- */

typedef struct shape {
    uint32_t rows, table, width;
    uint32_t split; /* where the second table begins, or 0 */
    uint8_t owner, bits;
    bool public_table, sum, in_place, to_owner;
    bool client; /* no party has the numbers; `owner` is whom the other values are by */
    bool given;  /* of the table each component is set */
} shape;

typedef struct made {
    shape of;
    uvcc_program *p;
    uint32_t ids, table, sum;
} made;

static uint32_t shared_as(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                          uint8_t bits, uvcc_lifetime lifetime, uvcc_sharing sharing,
                          uint32_t buffer) {
    const int t = uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = name,
                                                             .rows = rows,
                                                             .cols = cols,
                                                             .bits = bits,
                                                             .lifetime = (uint8_t)lifetime,
                                                             .in_buffer_of = buffer,
                                                             .sharing = (uint8_t)sharing});
    assert_true(t >= 0);
    return (uint32_t)t;
}

static uint8_t bits_for(uint32_t rows) {
    uint8_t bits = 1;
    while (UINT64_C(1) << bits < rows)
        bits++;
    return bits;
}

/* z = the rows, and the sum if there is one; then to all. */
static void add_ops(made *m) {
    const shape *s = &m->of;
    uint32_t part[2] = {UVCC_NO_TENSOR, UVCC_NO_TENSOR};
    if (s->sum) { /* what is added: a product by the table's transpose and so on would do, too */
        part[0] = shared_as(m->p, "before", s->rows, s->width, 60, UVCC_TRANSIENT, UVCC_ADDITIVE,
                            UVCC_NO_TENSOR);
        assert_true(uvcc_program_op(m->p, &(uvcc_op_desc){.opcode = UVCC_OP_MUL_PART,
                                                          .k = 0,
                                                          .in_count = 2,
                                                          .in = {m->sum, m->sum},
                                                          .out_count = 1,
                                                          .out = {part[0]}}) >= 0);
    }
    part[1] = shared_as(m->p, "rows", s->rows, s->width, 60, UVCC_TRANSIENT, UVCC_ADDITIVE,
                        s->in_place ? part[0] : UVCC_NO_TENSOR);
    assert_true(uvcc_program_op(m->p, &(uvcc_op_desc){.name = "rows",
                                                      .opcode = UVCC_OP_EMBED,
                                                      .k = 1,
                                                      .in_count = s->sum ? 3 : 2,
                                                      .in = {m->ids, m->table, part[0]},
                                                      .out_count = 1,
                                                      .out = {part[1]},
                                                      .constant = s->split}) >= 0);
    const uint32_t z = test_tensor(m->p, "z", s->rows, s->width, 60, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_op(m->p, &(uvcc_op_desc){.opcode = UVCC_OP_RESHARE,
                                                      .k = 2,
                                                      .in_count = 1,
                                                      .in = {part[1]},
                                                      .out_count = 1,
                                                      .out = {z}}) >= 0);
    if (s->to_owner)
        assert_true(uvcc_program_output_to(m->p, ID_OUT, z, s->owner) >= 0);
    else
        assert_true(uvcc_program_output(m->p, ID_OUT, z) >= 0);
}

static made make(const shape *s, const uvcc_allocator *al) {
    made m = {.of = *s};
    char why[200] = "";
    assert_int_equal(uvcc_program_new(&m.p, al), 0);
    assert_true(uvcc_program_entry(m.p, "run") >= 0);
    m.ids = shared_as(m.p, "ids", s->rows, s->split != 0 ? 2 : 1,
                      s->bits != 0 ? s->bits : bits_for(s->table),
                      s->client ? UVCC_PERSIST : UVCC_TRANSIENT, UVCC_ONE_HOT, UVCC_NO_TENSOR);
    if (!s->client)
        assert_true(uvcc_program_input(m.p, ID_IDS, m.ids, s->owner) >= 0);
    m.table = s->public_table ? shared_as(m.p, "table", s->table, s->width, 40, UVCC_PERSIST,
                                          UVCC_PUBLIC, UVCC_NO_TENSOR)
                              : test_tensor(m.p, "table", s->table, s->width, 40, 0,
                                            s->given ? UVCC_PERSIST : UVCC_TRANSIENT);
    if (!s->public_table && !s->given)
        assert_true(uvcc_program_input(m.p, ID_TABLE, m.table, (s->owner + 1) % 3) >= 0);
    if (s->sum) {
        const int t = uvcc_program_tensor(m.p, &(uvcc_tensor_desc){.name = "sum",
                                                                   .rows = s->rows,
                                                                   .cols = s->width,
                                                                   .bits = 20,
                                                                   .scale = 0,
                                                                   .lifetime = UVCC_TRANSIENT,
                                                                   .in_buffer_of = UVCC_NO_TENSOR});
        assert_true(t >= 0);
        m.sum = (uint32_t)t;
        assert_true(uvcc_program_input(m.p, ID_SUM, m.sum, 2) >= 0);
    }
    add_ops(&m);
    if (uvcc_program_finish(m.p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return m;
}

/* ---- runs ---- */

/* Numbers of all rows in turn, the first and the last, some twice; of a second table as well. */
static void draw_ids(const made *m, uint64_t *rng, int64_t *ids) {
    const uint32_t tables = m->of.split != 0 ? 2 : 1;
    for (uint32_t i = 0; i < m->of.rows * tables; i++) {
        const uint32_t first = tables == 2 ? m->of.split : m->of.table;
        const uint32_t rows = i % tables == 0 ? first : m->of.table - m->of.split;
        const uint32_t some[] = {0, rows - 1, (uint32_t)(test_rand(rng) % rows), i % rows};
        ids[i] = i % 7 == 6 ? ids[i - 2 * tables + tables] : some[i % 4];
        ids[i] = ids[i] < (int64_t)rows ? ids[i] : 0;
    }
}

static int64_t *draw(size_t n, unsigned bits, uint64_t *rng) {
    int64_t *v = malloc(n * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(test_rand(rng) >> (63 - bits)) - (INT64_C(1) << bits) + 1;
    return v;
}

static void give(triangle *t, const made *m, uvcc_reference *ref, uint32_t step, uint32_t id,
                 const int64_t *v) {
    for (uint32_t i = 0; i < uvcc_program_input_count(m->p, 0); i++) {
        const uvcc_io_desc *io = uvcc_program_input_at(m->p, 0, i);
        if (io->id != id)
            continue;
        triangle_input(t, io->owner, step, id, v);
        assert_int_equal(uvcc_reference_set(ref, io->tensor, v), 0);
    }
}

/* As the hosts of the parties do it, once a step is over. */
static void set_shares(triangle *t, uint32_t tensor, uint64_t *share[3][2]) {
    for (unsigned p = 0; p < 3; p++) {
        int rc;
        while ((rc = uvcc_session_set_shares(t->s[p], tensor, share[p][0], share[p][1])) ==
               UVCC_ERR_AGAIN)
            assert_true(triangle_turn(t));
        assert_int_equal(rc, 0);
    }
}

static void set_keys(triangle *t, const made *m, uint64_t *share[3][2]) {
    set_shares(t, m->ids, share);
}

/* Room for what each party gets. */
static void take_room(const made *m, uint64_t *share[3][2]) {
    const size_t bytes = (size_t)uvcc_program_share_words(m->p, m->ids) * 8;
    for (unsigned i = 0; i < 6; i++) {
        share[i / 2][i % 2] = malloc(bytes);
        assert_non_null(share[i / 2][i % 2]);
    }
}
static void give_room(uint64_t *share[3][2]) {
    for (unsigned i = 0; i < 6; i++)
        free(share[i / 2][i % 2]);
}

static void deal_into(const made *m, const int64_t *ids, uint64_t *rng, uint64_t *share[3][2]) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(m->p, m->ids);
    const uvcc_random random = test_random(rng);
    uint8_t sid_job[32];
    for (unsigned k = 0; k < 32; k++)
        sid_job[k] = (uint8_t)k; /* triangle.c's */
    assert_int_equal(
        uvcc_client_deal(sid_job, d->bits, ids, (size_t)d->rows * d->cols, &random, share), 0);
}

static void deal(triangle *t, const made *m, uvcc_reference *ref, const int64_t *ids,
                 uint64_t *rng) {
    uint64_t *share[3][2];
    take_room(m, share);
    deal_into(m, ids, rng, share);
    set_keys(t, m, share);
    assert_int_equal(uvcc_reference_set(ref, m->ids, ids), 0);
    give_room(share);
}

static void draw_sought(int64_t *ids);
static void replay_logs(const uvcc_program *p);

/* Two steps; the program goes. */
static void run(const shape *s, const triangle_options *opt) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(s, &al);
    uint64_t rng = SEED + s->table;
    uvcc_reference *ref;
    triangle t;
    int64_t *ids = malloc((size_t)s->rows * 2 * sizeof *ids);
    int64_t *table = draw((size_t)s->table * s->width, 40, &rng),
            *sum = draw((size_t)s->rows * s->width, 20, &rng);
    assert_int_equal(uvcc_reference_new(&ref, m.p, &al), 0);
    triangle_open(&t, m.p, opt);
    triangle_ready(&t);
    if (s->public_table) {
        triangle_set_public(&t, m.table, table);
        assert_int_equal(uvcc_reference_set(ref, m.table, table), 0);
    }
    for (uint32_t step = 0; step < 2; step++) {
        if (s->to_owner)
            draw_sought(ids);
        else
            draw_ids(&m, &rng, ids);
        if (s->client)
            deal(&t, &m, ref, ids, &rng);
        triangle_agree(&t, step, 0);
        give(&t, &m, ref, step, ID_IDS, ids);
        give(&t, &m, ref, step, ID_TABLE, table);
        give(&t, &m, ref, step, ID_SUM, sum);
        triangle_finish(&t, step + 1);
        triangle_check_outputs(&t, m.p, ref, step);
    }
    triangle_close(&t);
    triangle_free(&t);
    if (s->to_owner)
        replay_logs(m.p);
    uvcc_reference_free(ref);
    uvcc_program_free(m.p);
    free(ids);
    free(table);
    free(sum);
}

static void test_tables(void **state) {
    (void)state;
    static const uint32_t tables[] = {1, 2, 3, 4, 5, 255, 257, 1000};
    for (unsigned i = 0; i < sizeof tables / sizeof *tables; i++) {
        shape s = {.rows = 11, .table = tables[i], .width = 5, .owner = i % 3};
        run(&s, &(triangle_options){.seed = SEED + i});
        s.client = true;
        run(&s, &(triangle_options){.seed = SEED + i});
    }
}

/* A vocabulary in many tiles; more rows than a chunk; one row. */
static void test_large(void **state) {
    (void)state;
    shape shapes[] = {{.rows = 9, .table = 30522, .width = 3, .owner = 0},
                      {.rows = 1, .table = 4099, .width = 1, .owner = 1},
                      {.rows = 1500, .table = 300, .width = 2, .owner = 2},
                      {.rows = 1025, .table = 700, .split = 690, .width = 2, .owner = 1}};
    for (unsigned i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        shape *s = &shapes[i / 2];
        s->client = i % 2 != 0;
        run(s, &(triangle_options){.seed = SEED + i});
    }
}

static void test_forms(void **state) {
    (void)state;
    for (unsigned i = 0; i < 48; i++) {
        const shape s = {.rows = 13,
                         .table = 37,
                         .width = 4,
                         .owner = i % 3,
                         .split = i / 3 % 2 != 0 ? 35 : 0,
                         .bits = i % 5 == 4 ? 32 : 0,
                         .public_table = i / 6 % 2 != 0,
                         .sum = i / 12 % 2 != 0,
                         .in_place = i / 12 % 2 != 0 && i % 2 != 0,
                         .client = i / 24 != 0};
        run(&s, &(triangle_options){.seed = SEED + i});
    }
}

/* Threads, jobs in any order, lost and doubled messages, without transcripts. */
static void test_hosts(void **state) {
    (void)state;
    shape s = {.rows = 40, .table = 513, .split = 510, .width = 7, .owner = 2, .sum = true};
    for (unsigned client = 0; client < 2; client++) {
        s.client = client != 0;
        run(&s, &(triangle_options){.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 5});
        run(&s, &(triangle_options){.seed = 2, .mode = UVCC_CPU_THREADS});
        run(&s, &(triangle_options){.seed = 3, .datagram = true, .audit_off = true});
    }
}

/* ---- what is no key ---- */

/* Zeros, which are what nobody set, stand for rows of zeros; all else for some row or other. The
 * outputs open, so the three have the same, and the next step has good keys again. */
static void test_any_keys(void **state) {
    (void)state;
    const shape s = {.rows = 5, .table = 300, .split = 290, .width = 2, .owner = 1, .client = true};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(&s, &al);
    uint64_t rng = SEED, *share[3][2];
    uvcc_reference *ref;
    triangle t;
    int64_t ids[10], *table = draw((size_t)s.table * s.width, 40, &rng);
    take_room(&m, share);
    assert_int_equal(uvcc_reference_new(&ref, m.p, &al), 0);
    triangle_open(&t, m.p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    for (uint32_t step = 0; step < 5; step++) {
        for (unsigned i = 0; i < 6; i++)
            for (size_t k = 0; k < uvcc_program_share_words(m.p, m.ids); k++)
                share[i / 2][i % 2][k] = step == 1 ? 0 : step == 2 ? UINT64_MAX : test_rand(&rng);
        draw_ids(&m, &rng, ids);
        if (step == 4)
            deal(&t, &m, ref, ids, &rng);
        else if (step != 0)
            set_keys(&t, &m, share);
        triangle_agree(&t, step, 0);
        give(&t, &m, ref, step, ID_TABLE, table);
        triangle_finish(&t, step + 1);
        if (step == 4)
            triangle_check_outputs(&t, m.p, ref, step);
        for (unsigned p = 0; p < 3; p++) {
            const int64_t *z = uvcc_session_output(t.s[p], step, ID_OUT);
            const int64_t *of_0 = uvcc_session_output(t.s[0], step, ID_OUT);
            assert_memory_equal(z, of_0, 10 * sizeof *z);
            for (unsigned i = 0; i < 10 && step < 2; i++)
                assert_int_equal(z[i], 0);
        }
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(m.p);
    give_room(share);
    free(table);
}

/* ---- pairs of different numbers ---- */

enum { ROWS = 6, TABLE = 300, WIDTH = 3, KINDS = 4 };
static const shape unlike = {
    .rows = ROWS, .table = TABLE, .width = WIDTH, .client = true, .given = true};

/* Each component a table of its own; party p has those of p and of the next. */
static void set_table(triangle *t, const made *m, uint64_t *component[3]) {
    uint64_t *share[3][2];
    for (unsigned p = 0; p < 3; p++)
        for (unsigned i = 0; i < 2; i++)
            share[p][i] = component[(p + i) % 3];
    set_shares(t, m->table, share);
}

/* The pair of component c as one dealt it for numbers of its own. */
static void deal_unlike(const made *m, int64_t ids[3][ROWS], uint64_t *rng, uint64_t *share[3][2]) {
    const size_t bytes = (size_t)uvcc_program_share_words(m->p, m->ids) * 8;
    uint64_t *dealt[3][2];
    take_room(m, dealt);
    for (unsigned c = 0; c < 3; c++) {
        deal_into(m, ids[c], rng, dealt);
        memcpy(share[c][0], dealt[c][0], bytes);
        memcpy(share[(c + 2) % 3][1], dealt[(c + 2) % 3][1], bytes);
    }
    give_room(dealt);
}

/* 2^63 more for the row beside, in the same four, in the pairs of these components: its own
 * negative, so that nothing hangs on whose control bit is set. */
static void add_beside(const made *m, int64_t ids[3][ROWS], unsigned components,
                       uint64_t *share[3][2]) {
    const unsigned bits = uvcc_program_tensor_at(m->p, m->ids)->bits;
    const size_t words = uvcc_client_key_words(bits), first_final = 2 * (bits - 2);
    for (unsigned c = 0; c < 3; c++)
        for (size_t i = 0; i < ROWS && (components >> c & 1) != 0; i++) {
            const size_t at = i * words + first_final + (((size_t)ids[c][i] & 3) ^ 1);
            share[c][0][at] += UINT64_C(1) << 63;
            share[(c + 2) % 3][1][at] += UINT64_C(1) << 63;
        }
}

/* What a client asks whose pair of component c stands for t_c, is the sum of t_c E_c: each
 * component of the table is read by itself, and nothing tells a party so. The step after it is
 * sound. */
static void test_unlike_pairs(void **state) {
    (void)state;
    static const unsigned beside[KINDS] = {0, 7, 1, 0};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(&unlike, &al);
    uint64_t rng = SEED, *share[3][2], *component[3];
    triangle t;
    for (unsigned c = 0; c < 3; c++) {
        component[c] = malloc(TABLE * WIDTH * sizeof **component);
        assert_non_null(component[c]);
        for (size_t k = 0; k < TABLE * WIDTH; k++)
            component[c][k] = c < 2 ? test_rand(&rng)
                                    : (test_rand(&rng) >> 25) - component[0][k] - component[1][k];
    }
    take_room(&m, share);
    triangle_open(&t, m.p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    set_table(&t, &m, component);
    for (uint32_t step = 0; step < KINDS; step++) {
        int64_t ids[3][ROWS];
        for (unsigned c = 0; c < 3; c++)
            for (unsigned i = 0; i < ROWS; i++) /* other rows in the first step alone */
                ids[c][i] = step == 0 || c == 0 ? (int64_t)(test_rand(&rng) % TABLE) : ids[0][i];
        deal_unlike(&m, ids, &rng, share);
        add_beside(&m, ids, beside[step], share);
        set_keys(&t, &m, share);
        triangle_agree(&t, step, 0);
        triangle_finish(&t, step + 1);
        for (size_t i = 0; i < ROWS * WIDTH; i++) {
            uint64_t want = 0;
            for (unsigned c = 0; c < 3; c++) {
                const size_t row = (size_t)ids[c][i / WIDTH], col = i % WIDTH;
                want += component[c][row * WIDTH + col];
                want += (uint64_t)(beside[step] >> c & 1) * component[c][(row ^ 1) * WIDTH + col]
                        << 63;
            }
            for (unsigned p = 0; p < 3; p++)
                assert_int_equal(uvcc_session_output(t.s[p], step, ID_OUT)[i], want);
        }
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(m.p);
    give_room(share);
    for (unsigned c = 0; c < 3; c++)
        free(component[c]);
}

/* ---- what is refused ---- */

/* A program of one EMBED: rows of a 20 x 3 table by 4 numbers, with what is changed in it. */
typedef struct parts {
    uvcc_tensor_desc ids, table, z;
    uvcc_op_desc op;
    bool no_input, output_ids;
} parts;

static parts sound(void) {
    return (parts){.ids = {.name = "ids",
                           .rows = 4,
                           .cols = 1,
                           .bits = 5,
                           .lifetime = UVCC_TRANSIENT,
                           .in_buffer_of = UVCC_NO_TENSOR,
                           .sharing = UVCC_ONE_HOT},
                   .table = {.name = "table",
                             .rows = 20,
                             .cols = 3,
                             .bits = 30,
                             .scale = 4,
                             .lifetime = UVCC_PERSIST,
                             .in_buffer_of = UVCC_NO_TENSOR},
                   .z = {.name = "z",
                         .rows = 4,
                         .cols = 3,
                         .bits = 30,
                         .scale = 4,
                         .lifetime = UVCC_TRANSIENT,
                         .in_buffer_of = UVCC_NO_TENSOR,
                         .sharing = UVCC_ADDITIVE},
                   .op = {.name = "rows",
                          .opcode = UVCC_OP_EMBED,
                          .in_count = 2,
                          .in = {0, 1},
                          .out_count = 1,
                          .out = {2}}};
}

static int finish(const parts *of, char why[200]) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_tensor(p, &of->ids), 0);
    assert_int_equal(uvcc_program_tensor(p, &of->table), 1);
    assert_int_equal(uvcc_program_tensor(p, &of->z), 2);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    if (!of->no_input)
        assert_true(uvcc_program_input(p, 1, 0, 2) >= 0);
    assert_true(uvcc_program_op(p, &of->op) >= 0);
    if (of->output_ids)
        assert_true(uvcc_program_output(p, 9, 0) >= 0);
    const int rc = uvcc_program_finish(p, why, 200);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return rc;
}

static void refused(parts of, int want, const char *what) {
    char why[200] = "";
    assert_int_equal(finish(&of, why), want);
    if (strstr(why, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, what);
}

#define REFUSED(change, rc, what)                                                                  \
    do {                                                                                           \
        parts of = sound();                                                                        \
        change;                                                                                    \
        refused(of, rc, what);                                                                     \
    } while (0)

static void test_refusals(void **state) {
    (void)state;
    char why[200] = "";
    const parts fine = sound();
    assert_int_equal(finish(&fine, why), 0);
    REFUSED(of.ids.lifetime = UVCC_PERSIST, UVCC_ERR_PROGRAM, "ids, which is one-hot and PERSIST");
    parts dealt = sound();
    dealt.ids.lifetime = UVCC_PERSIST;
    dealt.no_input = true;
    assert_int_equal(finish(&dealt, why), 0);
    REFUSED(of.ids.bits = 33, UVCC_ERR_PROGRAM, "ids is one-hot, of 33 bits at scale 0");
    REFUSED(of.ids.scale = 1, UVCC_ERR_PROGRAM, "ids is one-hot, of 5 bits at scale 1");
    REFUSED(of.ids.sharing = 4, UVCC_ERR_PROGRAM, "ids has the unknown sharing 4");
    REFUSED(of.ids.sharing = UVCC_REPLICATED, UVCC_ERR_PROGRAM,
            "reads ids as one-hot, but it is replicated");
    REFUSED((of.z.sharing = UVCC_ONE_HOT, of.z.scale = 0, of.z.in_buffer_of = 0), UVCC_ERR_PROGRAM,
            "z is one-hot; it shares no buffer");
    REFUSED(of.z.in_buffer_of = 0, UVCC_ERR_PROGRAM, "but one is additive and the other one-hot");
    REFUSED(of.z.sharing = UVCC_REPLICATED, UVCC_ERR_PROGRAM, "z, which must be additive");
    REFUSED(of.op.opcode = UVCC_OP_GEMM_PART, UVCC_ERR_PROGRAM,
            "cannot read ids, which is one-hot");
    REFUSED(of.op.in_count = 1, UVCC_ERR_PROGRAM, "has 1 inputs; it takes 2 or 3");
    REFUSED(of.output_ids = true, UVCC_ERR_PROGRAM, "output 9 is ids, which is one-hot");
    REFUSED(of.no_input = true, UVCC_ERR_PROGRAM, "ids");
    REFUSED(of.ids.bits = 4, UVCC_ERR_BOUND, "numbers of 4 bits in ids do not reach 20 rows");
    REFUSED(of.ids.cols = 2, UVCC_ERR_PROGRAM, "ids has 2 columns");
    REFUSED(of.op.constant = 15, UVCC_ERR_PROGRAM, "ids has 1 columns");
    REFUSED(of.op.constant = 20, UVCC_ERR_PROGRAM, "a second table from row 20 of table on");
    REFUSED(of.op.constant = -1, UVCC_ERR_PROGRAM, "a second table from row -1 of table on");
    REFUSED(of.z.rows = 3, UVCC_ERR_PROGRAM, "z is 3 x 3, but must be 4 x 3");
    REFUSED(of.z.scale = 5, UVCC_ERR_PROGRAM, "z");
    REFUSED((of.ids.cols = 2, of.op.constant = 18), UVCC_ERR_BOUND, "z"); /* a row of each */
    REFUSED((of.ids.cols = 2, of.op.constant = 18, of.table.bits = of.z.bits = 63), UVCC_ERR_BOUND,
            "z");
}

/* More tiles than there can be tasks: no plan has a few of them instead. */
static void test_too_many_tiles(void **state) {
    (void)state;
    static const struct {
        uint32_t rows, table;
        int rc;
    } sizes[] = {{1 << 10, UINT32_MAX, 0}, {1 << 19, UINT32_MAX, UVCC_ERR_PROGRAM}};
    for (unsigned i = 0; i < 2; i++) {
        const shape s = {.rows = sizes[i].rows, .table = sizes[i].table, .width = 1, .bits = 32};
        test_alloc mem = {0};
        const uvcc_allocator al = test_allocator(&mem);
        const made m = make(&s, &al);
        uint32_t op = 0;
        uvcc_op_cost cost;
        while (uvcc_program_op_at(m.p, 0, op)->opcode != UVCC_OP_EMBED)
            op++;
        assert_int_equal(uvcc_program_cost(m.p, 0, op, &cost), sizes[i].rc);
        uvcc_program_free(m.p);
    }
}

/* The owner's session takes numbers of its bits alone. */
static void test_bad_numbers(void **state) {
    (void)state;
    static const int64_t bad[] = {-1, 8, INT64_MIN};
    const shape s = {.rows = 3, .table = 7, .width = 1, .owner = 1};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(&s, &al);
    triangle t;
    triangle_open(&t, m.p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        const int64_t ids[3] = {0, bad[i], 7};
        assert_int_equal(uvcc_session_input(t.s[1], 0, ID_IDS, ids, triangle_now(&t)),
                         UVCC_ERR_BOUND);
        assert_string_equal(uvcc_session_error_detail(t.s[1]),
                            "a value of ids is no number of a row: 0 to 2^3 - 1 are possible");
    }
    triangle_free(&t);
    uvcc_program_free(m.p);
}

/* Keys are no public value; the twin wants the numbers themselves. */
static void test_dealt_manners(void **state) {
    (void)state;
    const int64_t ids[3] = {1, 2, 6};
    uint64_t lo[3 * 9] = {0};
    const shape s = {.rows = 3, .table = 7, .width = 1, .owner = 1, .client = true};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(&s, &al);
    uvcc_reference *ref;
    char why[200] = "";
    triangle t;
    assert_int_equal(uvcc_program_share_words(m.p, m.ids), 3 * (uvcc_client_key_words(3) + 2));
    assert_int_equal(uvcc_program_share_words(m.p, m.table), 7);
    assert_int_equal(uvcc_program_share_words(m.p, uvcc_program_tensor_count(m.p)), 0);
    triangle_open(&t, m.p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    assert_int_equal(uvcc_session_set_public(t.s[0], m.ids, ids), UVCC_ERR_USAGE);
    assert_string_equal(uvcc_session_error_detail(t.s[0]),
                        "ids is one-hot: it takes keys, as shares");
    assert_int_equal(uvcc_session_set_shares(t.s[0], m.ids, lo, lo), 0);
    triangle_free(&t);
    assert_int_equal(uvcc_reference_new(&ref, m.p, &al), 0);
    assert_int_equal(uvcc_reference_set(ref, m.table, (const int64_t[7]){0}), 0);
    assert_int_equal(uvcc_reference_step(ref, 0, why, sizeof why), UVCC_ERR_STATE);
    assert_non_null(strstr(why, "ids has not been set"));
    uvcc_reference_free(ref);
    uvcc_program_free(m.p);
}

/* A session that is freed while keys are there gives all of them back, as what they were. */
static void test_freed_within(void **state) {
    (void)state;
    const int64_t ids[300] = {1, 4};
    const shape s = {.rows = 300, .table = 2000, .width = 1, .owner = 2};
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const made m = make(&s, &al);
    triangle t;
    triangle_open(&t, m.p, &(triangle_options){.seed = SEED});
    triangle_ready(&t);
    triangle_agree(&t, 0, 0);
    triangle_input(&t, s.owner, 0, ID_IDS, ids);
    for (unsigned i = 0; i < 200 && triangle_turn(&t); i++)
        ; /* and waits for the table */
    triangle_free(&t);
    uvcc_program_free(m.p);
}

/* ---- who sees a number ---- */

enum { SOUGHT = 4, ROWS_SOUGHT = 24, BLOCKS = 1 << 14 };

/* Whatever the three sessions have: their memory, their logs, their transcripts. */
typedef struct watch {
    uint8_t owner;
    int64_t ids[ROWS_SOUGHT];
    struct {
        test_bytes log, bundles;
        void *block[BLOCKS];
        size_t bytes[BLOCKS];
        uvcc_allocator inner;
        bool found;
        unsigned looks, expanded;
    } party[3];
} watch;
static watch w;

/* The same in both steps, so that a search for them is one for each. */
static void draw_sought(int64_t *ids) {
    for (unsigned i = 0; i < ROWS_SOUGHT; i++)
        ids[i] = w.ids[i] = 1000 + 7919 * (int64_t)(i + 1) % 29000;
}

/* The first numbers, as words of so many bytes, one behind the other. */
static bool has_ids_of(const uint8_t *p, size_t n, unsigned width) {
    uint8_t pattern[8 * SOUGHT] = {0};
    const size_t len = (size_t)width * SOUGHT;
    for (unsigned i = 0; i < SOUGHT; i++)
        for (unsigned b = 0; b < width; b++)
            pattern[i * width + b] = (uint8_t)(w.ids[i] >> 8 * b);
    for (const uint8_t *at = p, *end = p + n; n >= len && at + len <= end; at++) {
        at = memchr(at, pattern[0], (size_t)(end - at) - len + 1);
        if (at == NULL)
            return false;
        if (memcmp(at, pattern, len) == 0)
            return true;
    }
    return false;
}

static bool has_ids(const void *p, size_t n) {
    return has_ids_of(p, n, 8) || has_ids_of(p, n, 4) || has_ids_of(p, n, 2);
}

static void *watched_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    const unsigned i = (unsigned)(uintptr_t)user;
    void *p = w.party[i].inner.alloc(w.party[i].inner.user, bytes, cls);
    unsigned k = 0;
    while (k < BLOCKS && w.party[i].block[k] != NULL)
        k++;
    assert_true(k < BLOCKS);
    w.party[i].block[k] = p;
    w.party[i].bytes[k] = bytes;
    return p;
}

static void watched_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const unsigned i = (unsigned)(uintptr_t)user;
    for (unsigned k = 0; k < BLOCKS && p != NULL; k++)
        if (w.party[i].block[k] == p)
            w.party[i].block[k] = NULL;
    w.party[i].inner.free(w.party[i].inner.user, p, bytes, cls);
}

static void watched(uvcc_config *c) {
    const unsigned i = c->identity.party;
    w.party[i].inner = c->alloc;
    c->alloc = (uvcc_allocator){
        .alloc = watched_alloc, .free = watched_free, .user = (void *)(uintptr_t)i};
    c->record = (uvcc_recorder){.write = test_append, .user = &w.party[i].log};
}

/* They say all that a session did: run again they come to the same. */
static void replay_logs(const uvcc_program *p) {
    const uvcc_cpu_config cfg = {.size = sizeof cfg, .alloc = uvcc_host_allocator()};
    for (unsigned i = 0; i < 3; i++) {
        uvcc_cpu *cpu;
        uvcc_replay_result r;
        assert_int_equal(uvcc_cpu_new(&cpu, &cfg), 0);
        const uvcc_replay_options opt = {
            .size = sizeof opt, .alloc = cfg.alloc, .executor = cpu, .until = UVCC_NEVER};
        assert_int_equal(uvcc_replay(w.party[i].log.p, w.party[i].log.len, p, &opt, &r), 0);
        assert_int_equal(r.steps, 2);
        uvcc_cpu_free(cpu);
    }
}

static void look_at_memory(unsigned i) {
    for (unsigned k = 0; k < BLOCKS && !w.party[i].found; k++)
        w.party[i].found =
            w.party[i].block[k] != NULL && has_ids(w.party[i].block[k], w.party[i].bytes[k]);
    w.party[i].looks++;
}

/* What a holder of keys expands are no rows: its words are neither 0 nor 1. */
static void look_at_rows(unsigned i, const uvcc_task *t) {
    for (uint32_t b = 0; b < t->u.vec.count; b++) {
        const uvcc_block *k = &t->u.vec.blocks[b];
        for (size_t e = 0; e < (size_t)k->count * t->u.vec.cols; e++)
            assert_true(k->out[0][e] > 1);
        w.party[i].expanded += k->count * t->u.vec.cols;
    }
}

static void on_task(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    const uvcc_task *t = &job->tasks[task];
    (void)user;
    if (!done)
        return;
    if (t->kind == UVCC_TASK_ONE_HOT_ROWS && party != w.owner)
        look_at_rows(party, t);
    if (t->kind != UVCC_TASK_ONE_HOT_ROWS || w.party[party].expanded % 4096 == 0)
        look_at_memory(party);
}

static void on_bundle(void *user, unsigned party, uint32_t step, const uint8_t *bytes, size_t len) {
    (void)user;
    (void)step;
    test_append(&w.party[party].bundles, bytes, len);
}

/* The same search finds them where their owner has them. A client's are nowhere, and each party
 * expands two keys of each. */
static void test_nobody_else_sees(void **state) {
    (void)state;
    for (uint8_t owner = 0; owner < 4; owner++) {
        const bool client = owner == 3;
        const shape s = {.rows = ROWS_SOUGHT,
                         .table = 30522,
                         .width = 1,
                         .owner = owner % 3,
                         .to_owner = true,
                         .client = client};
        memset(&w, 0, sizeof w);
        w.owner = owner;
        run(&s, &(triangle_options){.seed = SEED,
                                    .wired = true,
                                    .ticks = true,
                                    .tweak = watched,
                                    .on_task = on_task,
                                    .on_bundle = on_bundle});
        for (unsigned i = 0; i < 3; i++) {
            assert_true(w.party[i].looks > 8 && w.party[i].log.len != 0);
            assert_int_equal(w.party[i].found, i == owner);
            assert_int_equal(has_ids(w.party[i].log.p, w.party[i].log.len), i == owner);
            assert_false(has_ids(w.party[i].bundles.p, w.party[i].bundles.len));
            assert_int_equal(w.party[i].expanded,
                             i == owner ? 0 : (client ? 4 : 2) * ROWS_SOUGHT * s.table);
            test_bytes_free(&w.party[i].log);
            test_bytes_free(&w.party[i].bundles);
        }
    }
}

static void count_rows(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    (void)user;
    if (done && job->tasks[task].kind == UVCC_TASK_ONE_HOT_ROWS)
        w.party[party].expanded++;
}

/* What all know is component 0: who holds that has a client's pair for it. */
static void test_one_pair_for_what_is_public(void **state) {
    (void)state;
    const shape s = {.rows = 4, .table = 20, .width = 2, .public_table = true, .client = true};
    memset(&w, 0, sizeof w);
    run(&s, &(triangle_options){.seed = SEED, .wired = true, .ticks = true, .on_task = count_rows});
    assert_int_equal(w.party[0].expanded, 2);
    assert_int_equal(w.party[1].expanded, 0);
    assert_int_equal(w.party[2].expanded, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_any_keys),
        cmocka_unit_test(test_unlike_pairs),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_too_many_tiles),
        cmocka_unit_test(test_bad_numbers),
        cmocka_unit_test(test_dealt_manners),
        cmocka_unit_test(test_freed_within),
        cmocka_unit_test(test_nobody_else_sees),
        cmocka_unit_test(test_one_pair_for_what_is_public),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
