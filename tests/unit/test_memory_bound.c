/* SPDX-License-Identifier: Apache-2.0 */
/* What uvcc_session_memory_bound() says holds: sessions run programs of all kinds, and what each
 * took of its allocator at most, by class and in all, is never more. How near it is goes to the
 * test's output. */
#include "triangle.h"

#include <inttypes.h>
#include <uvcc/mlp.h>
#include <uvcc/nonlinear.h>
#include <uvcc/transformer.h>

/* An allocator of each party that counts by class. */
typedef struct counter {
    uint64_t now[5], peak[5]; /* the last: in all */
} counter;
static counter count_of[3];
static uvcc_config config_of[3];
static void (*tweak_more)(uvcc_config *);

static void *count_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator host = uvcc_host_allocator();
    counter *c = user;
    void *p = host.alloc(host.user, bytes, cls);
    for (unsigned k = 0; p != NULL && k < 2; k++) {
        const unsigned i = k == 0 ? (unsigned)cls : 4;
        c->now[i] += bytes;
        c->peak[i] = c->now[i] > c->peak[i] ? c->now[i] : c->peak[i];
    }
    return p;
}

static void count_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator host = uvcc_host_allocator();
    counter *c = user;
    if (p != NULL) {
        assert_true(c->now[cls] >= bytes);
        c->now[cls] -= bytes;
        c->now[4] -= bytes;
    }
    host.free(host.user, p, bytes, cls);
}

static void tweak(uvcc_config *c) {
    const uint8_t p = c->identity.party;
    if (tweak_more != NULL)
        tweak_more(c);
    count_of[p] = (counter){0};
    c->alloc = (uvcc_allocator){.alloc = count_alloc, .free = count_free, .user = &count_of[p]};
    config_of[p] = *c;
}

static void begin(triangle *t, const uvcc_program *p, bool datagram, void (*more)(uvcc_config *)) {
    tweak_more = more;
    triangle_open(t, p, &(triangle_options){.seed = 5, .datagram = datagram, .tweak = tweak});
    triangle_ready(t);
}

/* Asking takes no TENSOR or WIRE memory and gives all back. */
static uvcc_memory_bound ask(const uvcc_config *cfg, const uvcc_program *p) {
    counter c = {0};
    uvcc_config own = *cfg;
    uvcc_memory_bound b;
    own.alloc.user = &c;
    assert_int_equal(uvcc_session_memory_bound(&own, p, &b), 0);
    assert_int_equal(c.now[4], 0);
    assert_int_equal(c.peak[UVCC_MEM_TENSOR] + c.peak[UVCC_MEM_WIRE], 0);
    uint64_t classes = 0, terms = 0;
    for (unsigned i = 0; i < 4; i++)
        classes += b.by_class[i];
    for (unsigned i = 0; i < UVCC_MEMORY_TERMS; i++)
        terms += b.term[i];
    assert_int_equal(classes, b.bytes);
    assert_int_equal(terms, b.bytes);
    return b;
}

/* How many times what a run took the bound may be. FAR: the run leaves most of what it may take: it
 * is of another entry than the one that needs the most, or given windows are far greater than the
 * program. */
enum { NEAR = 3, NEARLY = 5, FAR = 0 };

/* KiB that were taken and those of the bound; how many times more it is, by class; its terms. */
static void tell(const char *what, const counter *c, const uvcc_memory_bound *b) {
    static const char *const class_name[] = {"STATE", "WIRE", "SECRET", "TENSOR"};
    print_message("%-22s %7" PRIu64 " of %7" PRIu64 " (%.2f);", what, c->peak[4] >> 10,
                  b->bytes >> 10, (double)b->bytes / (double)c->peak[4]);
    for (unsigned k = 0; k < 4; k++)
        print_message(" %s %" PRIu64 " of %" PRIu64, class_name[k], c->peak[k] >> 10,
                      b->by_class[k] >> 10);
    print_message("; terms");
    for (unsigned k = 0; k < UVCC_MEMORY_TERMS; k++)
        print_message(" %" PRIu64, b->term[k] >> 10);
    print_message("\n");
}

/* Ends the run and compares. */
static void end(triangle *t, const uvcc_program *p, const char *what, unsigned times) {
    triangle_close(t);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_stats st;
        const uvcc_memory_bound b = ask(&config_of[i], p);
        const counter *c = &count_of[i];
        uvcc_session_get_stats(t->s[i], &st);
        if (i == 0)
            tell(what, c, &b);
        for (unsigned k = 0; k < 4; k++)
            assert_true(c->peak[k] <= b.by_class[k]);
        assert_true(times == FAR || b.bytes <= times * c->peak[4]);
        assert_true(c->peak[4] <= b.bytes && st.memory_peak_bytes <= b.bytes);
    }
    triangle_free(t);
}

/* ---- programs ---- */

static int64_t zeros[1 << 20];

static int set_zeros(uvcc_session *s, uint32_t tensor, bool keys) {
    const uint64_t *words = (const uint64_t *)zeros;
    return keys ? uvcc_session_set_shares(s, tensor, words, words)
                : uvcc_session_set_public(s, tensor, zeros);
}

/* Every input of the steps is zero, and so is what persists. */
static void set_all(triangle *t, const uvcc_program *p) {
    for (uint32_t i = 0; uvcc_program_tensor_at(p, i) != NULL; i++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, i);
        for (unsigned k = 0; k < 3 && d->lifetime == UVCC_PERSIST; k++)
            while (set_zeros(t->s[k], i, d->sharing == UVCC_ONE_HOT) == UVCC_ERR_AGAIN)
                assert_true(triangle_turn(t));
    }
}

static void agree(triangle *t, const uvcc_program *p, uint32_t step, uint32_t entry) {
    triangle_agree(t, step, entry);
    for (uint32_t k = 0; k < uvcc_program_input_count(p, entry); k++) {
        const uvcc_io_desc *io = uvcc_program_input_at(p, entry, k);
        triangle_input(t, io->owner, step, io->id, zeros);
    }
}

/* Two steps are open at a time. */
static void steps(triangle *t, const uvcc_program *p, uint32_t entry, uint32_t count) {
    agree(t, p, 0, entry);
    for (uint32_t m = 1; m < count; m++) {
        agree(t, p, m, entry);
        triangle_finish(t, m);
    }
    triangle_finish(t, count);
}

static void small_windows(uvcc_config *c) {
    c->links.rx_keys_bytes = c->links.tx_keys_bytes = c->limits.keys_ahead_bytes = 4u << 20;
}

static void triples_only(uvcc_config *c) {
    small_windows(c);
    c->triples.only = true;
    c->triples.run = 1;
}

static void one_tile_at_a_time(uvcc_config *c) {
    small_windows(c);
    c->checks.prg_uses = 1;
    c->limits.triples_ahead_bytes = 1;
}

static void run(const uvcc_program *p, const char *entry, const char *what, bool datagram,
                void (*more)(uvcc_config *), unsigned times) {
    triangle t;
    const int e = uvcc_program_find_entry(p, entry);
    assert_true(e >= 0);
    begin(&t, p, datagram, more);
    set_all(&t, p);
    steps(&t, p, (uint32_t)e, 6);
    end(&t, p, what, times);
}

static void all_on(uvcc_config *c) {
    small_windows(c);
    c->resume.checkpoint_every = 2;
    c->resume.cancellable = 1;
    c->checks.bundles = true;
    c->checks.prg_uses = 1;
}

static void gathered(uvcc_config *c) {
    all_on(c);
    c->limits.keys_gathered_bytes = 1u << 20;
}

static void all_gathered(uvcc_config *c) {
    small_windows(c);
    c->limits.keys_gathered_bytes = 1u << 30;
}

static void wide(uvcc_config *c) {
    all_on(c);
    c->links.rx_keys_bytes = c->links.tx_keys_bytes = c->limits.keys_ahead_bytes = 0;
}

static void no_audit(uvcc_config *c) {
    small_windows(c);
    c->checks.audit_off = true;
    c->checks.bundles = false;
}

static uvcc_program *mlp(uint8_t products, uint8_t compare, uint32_t batch) {
    const uvcc_mlp_config c = {.features = 200,
                               .classes = 10,
                               .hidden_count = 2,
                               .hidden = {64, 48},
                               .batch = batch,
                               .predict_rows = 16,
                               .lr_shift = 5,
                               .frac_bits = 12,
                               .products = products,
                               .compare = compare};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    if (uvcc_mlp_program(&p, &c, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static void test_mlp(void **state) {
    (void)state;
    uvcc_program *p = mlp(UVCC_PRODUCTS_NATIVE, UVCC_COMPARE_FSS, 128);
    run(p, "train", "mlp", false, NULL, NEAR);
    run(p, "train", "mlp, small windows", false, small_windows, NEAR);
    run(p, "train", "mlp, all on", false, all_on, NEAR);
    run(p, "train", "mlp, keys gathered", false, gathered, NEAR);
    run(p, "train", "mlp, all gathered", false, all_gathered, NEAR);
    run(p, "train", "mlp, datagrams", true, all_on, NEAR);
    run(p, "train", "mlp, no audit", false, no_audit, NEAR);
    run(p, "predict", "mlp, predict", false, small_windows, FAR);
    uvcc_program_free(p);
    p = mlp(UVCC_PRODUCTS_NATIVE, UVCC_COMPARE_FSS, 2);
    run(p, "train", "mlp, tiny", false, small_windows, NEARLY);
    uvcc_program_free(p);
    p = mlp(UVCC_PRODUCTS_NATIVE, UVCC_COMPARE_CIRCUIT, 128);
    run(p, "train", "mlp, circuits", false, all_on, NEAR);
    uvcc_program_free(p);
}

static void test_triples(void **state) {
    (void)state;
    uvcc_program *p = mlp(UVCC_PRODUCTS_BEAVER, UVCC_COMPARE_FSS, 128);
    run(p, "train", "mlp, triples", false, all_on, NEAR);
    run(p, "train", "mlp, triples only", false, triples_only, FAR);
    uvcc_program_free(p);
}

/* One product, whose result is what takes the memory. */
static uvcc_program *large_product(uint32_t rows, uint32_t cols, uint32_t tile_rows) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", rows, 8, 8, 0, UVCC_PERSIST);
    const uint32_t y = test_tensor(p, "y", 8, cols, 8, 0, UVCC_PERSIST);
    const uint32_t z = test_tensor(p, "z", rows, cols, 40, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "train") >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                                   .flags = UVCC_OP_BEAVER,
                                                   .tile_rows = tile_rows,
                                                   .in_count = 2,
                                                   .in = {x, y},
                                                   .out_count = 1,
                                                   .out = {z}}) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* In tiles, what limits say bounds what triples take, in the bound and in truth: C of two steps is
 * not there as a whole. */
static void test_tiles(void **state) {
    enum { ROWS = 400, COLS = 1000, TILE = 8, SAVED = 16 * (2 * ROWS - 2 * TILE) * COLS };
    (void)state;
    uint64_t bound[2], took[2];
    for (unsigned tiled = 0; tiled < 2; tiled++) {
        uvcc_program *p = large_product(ROWS, COLS, tiled ? TILE : 0);
        run(p, "train", tiled ? "tiles" : "one tile", false,
            tiled ? one_tile_at_a_time : small_windows, tiled ? FAR : NEARLY);
        took[tiled] = count_of[0].peak[UVCC_MEM_TENSOR];
        bound[tiled] = ask(&config_of[0], p).by_class[UVCC_MEM_TENSOR];
        uvcc_program_free(p);
    }
    assert_true(took[1] + SAVED / 2 <= took[0]);
    assert_true(bound[1] + SAVED <= bound[0]);
}

/* Functions of all sorts, and checks of products. */
static void test_transformer(void **state) {
    static const uvcc_transformer_worker only = {0};
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    for (unsigned sks = 0; sks < 2; sks++) {
        uvcc_transformer_config c;
        uvcc_program *p;
        char why[256] = "";
        assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
        c.context = 8;
        c.dim = 16;
        c.heads = 2;
        c.layers = 2;
        c.hidden = 24;
        c.batch = 4;
        c.microbatches = 2;
        c.sks = sks != 0 ? 1000 : 0;
        if (uvcc_transformer_program(&p, &c, &only, &al, why, sizeof why) != 0)
            fail_msg("%s", why);
        run(p, "train", sks != 0 ? "transformer, sks" : "transformer", sks == 0, wide, NEAR);
        uvcc_program_free(p);
    }
}

static void add_op(uvcc_program *p, uint16_t k, uint32_t a, uint32_t b, uint32_t z) {
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                                   .k = k,
                                                   .in_count = 2,
                                                   .in = {a, b},
                                                   .out_count = 1,
                                                   .out = {z}}) >= 0);
}

/* Keys that clients deal, and what is made of them: many numbers, rows of one word, so that nothing
 * else is large. */
static void test_dealt(void **state) {
    enum { ROWS = 20000 };
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uvcc_tensor_desc d = {.name = "ids",
                          .rows = ROWS,
                          .cols = 2,
                          .bits = 3,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR,
                          .sharing = UVCC_ONE_HOT};
    uvcc_op_desc op = {.opcode = UVCC_OP_EMBED,
                       .in_count = 2,
                       .in = {0, 1},
                       .out_count = 1,
                       .out = {2},
                       .constant = 5};
    assert_int_equal(uvcc_program_tensor(p, &d), 0);
    assert_int_equal(test_tensor(p, "table", 7, 1, 20, 0, UVCC_PERSIST), 1);
    d = (uvcc_tensor_desc){.name = "z",
                           .rows = ROWS,
                           .cols = 1,
                           .bits = 21,
                           .lifetime = UVCC_TRANSIENT,
                           .in_buffer_of = UVCC_NO_TENSOR,
                           .sharing = UVCC_ADDITIVE};
    assert_int_equal(uvcc_program_tensor(p, &d), 2);
    assert_int_equal(test_tensor(p, "y", ROWS, 1, 21, 0, UVCC_TRANSIENT), 3);
    assert_true(uvcc_program_entry(p, "train") >= 0);
    assert_true(uvcc_program_op(p, &op) >= 0);
    op = (uvcc_op_desc){
        .opcode = UVCC_OP_RESHARE, .k = 1, .in_count = 1, .in = {2}, .out_count = 1, .out = {3}};
    assert_true(uvcc_program_op(p, &op) >= 0);
    assert_true(uvcc_program_output(p, 0, 3) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    run(p, "train", "dealt", false, small_windows, FAR);
    uvcc_program_free(p);
}

/* TRANSIENT tensors and nothing else, which live at the same time: no looser term hides them. */
static void test_tensors(void **state) {
    enum { WIDE = 12, COLS = 5000 };
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char name[16], why[256] = "";
    uint32_t y[WIDE];
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COLS, 8, 0, UVCC_TRANSIENT);
    for (unsigned i = 0; i < WIDE; i++) {
        (void)snprintf(name, sizeof name, "y%u", i);
        y[i] = test_tensor(p, name, 1, COLS, 40, 0, UVCC_TRANSIENT);
    }
    assert_true(uvcc_program_entry(p, "train") >= 0);
    assert_true(uvcc_program_input(p, 0, x, 0) >= 0);
    for (unsigned i = 0; i < WIDE; i++)
        add_op(p, (uint16_t)(i + 1), x, x, y[i]);
    uint32_t sum = y[0];
    for (unsigned i = 1; i < WIDE; i++) {
        (void)snprintf(name, sizeof name, "z%u", i);
        const uint32_t z = test_tensor(p, name, 1, COLS, 40, 0, UVCC_TRANSIENT);
        add_op(p, (uint16_t)(WIDE + i), sum, y[i], z);
        sum = z;
    }
    assert_true(uvcc_program_output(p, 0, sum) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    run(p, "train", "tensors", false, small_windows, FAR);
    uvcc_program_free(p);
}

static void limited(uvcc_config *c) {
    small_windows(c);
    c->limits.tensor_bytes = 8u << 20;
}

/* The limit of tensor memory is the bound where it is the lesser; what a session refuses has none.
 */
static void test_refused(void **state) {
    (void)state;
    uvcc_program *p = mlp(UVCC_PRODUCTS_NATIVE, UVCC_COMPARE_FSS, 128);
    triangle t;
    begin(&t, p, false, limited);
    uvcc_config c = config_of[0];
    assert_int_equal(ask(&c, p).by_class[UVCC_MEM_TENSOR], 8u << 20);
    uvcc_memory_bound b = {.bytes = 7};
    assert_int_equal(uvcc_session_memory_bound(&c, p, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_memory_bound(&c, NULL, &b), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_memory_bound(NULL, p, &b), UVCC_ERR_USAGE);
    c.limits.tensor_bytes = 1000;
    assert_int_equal(uvcc_session_memory_bound(&c, p, &b), UVCC_ERR_LIMIT);
    c = config_of[0];
    c.identity.party = 3;
    assert_int_equal(uvcc_session_memory_bound(&c, p, &b), UVCC_ERR_CONFIG);
    assert_int_equal(b.bytes, 7);
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mlp),         cmocka_unit_test(test_triples),
        cmocka_unit_test(test_transformer), cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_dealt),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
