/* SPDX-License-Identifier: Apache-2.0 */
/* test_serve.c - which requests three parties serve next (tools/party/serve_offer.h,
 * serve_queue.h): the same ones, in the same order, whatever order they came in; none that all have
 * waits for ever, and one that not all have is dropped. */
#include "support.h"

#include "party/serve_queue.h"
#include "serving.h"

#define MS UINT64_C(1000000)
enum { PARTIES = UVCC_PARTIES, CLIENTS = 24, ASKED = 200, WAIT_MS = 60000 };

typedef struct party_side {
    serve_queue *q;
    int told[ASKED]; /* a status by token, or -1 */
    bool broken;     /* there is no memory for answers */
} party_side;

typedef struct world {
    party_side p[PARTIES];
    uint8_t key[CLIENTS][32];
    uvcc_service_job job[ASKED][PARTIES];
    uint64_t dice, now;
    uint32_t turn, served[ASKED], count; /* tokens in the order in which they were */
} world;

static uint32_t roll(world *w, uint32_t n) {
    w->dice = w->dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->dice >> 33) % n;
}

static void fill(world *w, uint8_t *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        at[i] = (uint8_t)roll(w, 256);
}

static int answers(void *user, uint64_t token, uvcc_request_status status, const uint64_t *lo,
                   const uint64_t *hi, size_t n) {
    party_side *s = user;
    if (s->broken)
        return UVCC_ERR_NOMEM;
    assert_true(token < ASKED);
    assert_int_equal(s->told[token], -1); /* once */
    assert_int_equal(lo != NULL && hi != NULL && n == 1, status == UVCC_REQUEST_OK);
    s->told[token] = (int)status;
    return 0;
}

static int refuses(void *user, uint64_t token, uint32_t why) {
    assert_int_equal(why, 9);
    return answers(user, token, UVCC_REQUEST_REFUSED, NULL, NULL, 0);
}

static uint32_t differs(const void *user, const uvcc_request_shape *s) {
    (void)user;
    return s->entry == 1 ? 0 : 9;
}

/* Requests of clients, some of which have many: the same at all three, by their digests. */
static void open_world(world *w, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->dice = seed;
    w->now = 1;
    fill(w, w->key[0], sizeof w->key);
    for (unsigned p = 0; p < PARTIES; p++) {
        w->p[p].q = serve_queue_new(differs, NULL);
        assert_non_null(w->p[p].q);
        serve_queue_attach(w->p[p].q, &(serve_replies){answers, refuses, &w->p[p]}, WAIT_MS * MS);
        memset(w->p[p].told, 0xff, sizeof w->p[p].told);
    }
    for (uint32_t i = 0; i < ASKED; i++) {
        uint8_t id[16], digest[PARTIES][32];
        const uint32_t client = roll(w, 2) == 0 ? 0 : roll(w, CLIENTS);
        fill(w, id, sizeof id);
        fill(w, digest[0], sizeof digest);
        for (unsigned p = 0; p < PARTIES; p++) {
            uvcc_service_job *j = &w->job[i][p];
            *j = (uvcc_service_job){.token = i, .client = client, .shape = {1, 1, 1, 1, 1}};
            memcpy(j->id, id, 16);
            memcpy(j->digest_lo, digest[p], 32);
            memcpy(j->digest_hi, digest[(p + 1) % PARTIES], 32);
        }
    }
}

static void close_world(world *w) {
    for (unsigned p = 0; p < PARTIES; p++)
        serve_queue_free(w->p[p].q);
}

static void put(world *w, unsigned p, uint32_t i) {
    const uvcc_service_job *j = &w->job[i][p];
    assert_true(serve_queue_put(w->p[p].q, j, w->key[j->client]));
}

/* What the session does: the three offers open, and each serves its list. */
static void turn(world *w) {
    int64_t words[PARTIES][SERVE_WORDS];
    const int64_t *const offer[PARTIES] = {words[0], words[1], words[2]};
    uint32_t count[PARTIES];
    const uint64_t one = 1;
    for (unsigned p = 0; p < PARTIES; p++) {
        serve_queue_offer(w->p[p].q, w->turn, w->now, words[p]);
        for (unsigned k = 0; k < SERVE_WORDS; k++)
            assert_true(words[p][k] >= 0 && words[p][k] < INT64_C(1) << SERVE_WORD_BITS);
    }
    for (unsigned p = 0; p < PARTIES; p++)
        serve_queue_chosen(w->p[p].q, offer, w->turn, w->now, &count[p]);
    assert_true(count[0] == count[1] && count[1] == count[2]);
    for (uint32_t k = 0; k < count[0]; k++) {
        const uint64_t token = serve_queue_now(w->p[0].q)->token;
        for (unsigned p = 0; p < PARTIES; p++) {
            assert_int_equal(serve_queue_now(w->p[p].q)->token, token);
            assert_int_equal(serve_queue_answer(w->p[p].q, &one, &one, 1), 0);
        }
        w->served[w->count++] = (uint32_t)token;
    }
    for (unsigned p = 0; p < PARTIES; p++)
        assert_null(serve_queue_now(w->p[p].q));
    w->turn++;
    w->now += 100 * MS;
}

static bool anybody_wants(const world *w) {
    for (unsigned p = 0; p < PARTIES; p++)
        if (serve_queue_wants(w->p[p].q, w->now))
            return true;
    return false;
}

/* ---- tests ---- */

/* They come in another order at each party, now and then, and some only at one or two. */
static void test_any_order(void **state) {
    (void)state;
    world w;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint32_t order[PARTIES][ASKED], at[PARTIES] = {0}, all = 0;
        open_world(&w, seed);
        for (unsigned p = 0; p < PARTIES; p++) {
            for (uint32_t i = 0; i < ASKED; i++) {
                const uint32_t j = roll(&w, i + 1);
                order[p][i] = order[p][j];
                order[p][j] = i;
            }
        }
        for (unsigned t = 0; at[0] + at[1] + at[2] < PARTIES * ASKED; t++) {
            const unsigned p = roll(&w, PARTIES);
            for (uint32_t n = roll(&w, 12); n != 0 && at[p] < ASKED; n--, at[p]++)
                if (order[p][at[p]] % 10 != p) /* a tenth is never there */
                    put(&w, p, order[p][at[p]]);
            if (anybody_wants(&w))
                turn(&w);
        }
        for (unsigned t = 0; t < 2000; t++)
            if (anybody_wants(&w))
                turn(&w);
            else
                w.now += 100 * MS;
        for (uint32_t i = 0; i < ASKED; i++)
            for (unsigned p = 0; p < PARTIES; p++) {
                const int want = i % 10 >= PARTIES ? UVCC_REQUEST_OK
                                 : i % 10 == p     ? -1
                                                   : UVCC_REQUEST_DROPPED;
                assert_int_equal(w.p[p].told[i], want);
                all += p == 0 && want == UVCC_REQUEST_OK;
            }
        assert_int_equal(w.count, all);
        close_world(&w);
    }
}

/* Requests that one party alone has do not take the room of those that all have. */
static void test_stuck_ones_hold_up_nobody(void **state) {
    (void)state;
    world w;
    open_world(&w, 3);
    for (uint32_t i = 0; i < ASKED; i++) /* of many clients, more than an offer holds */
        if (i % 20 != 0)
            put(&w, i % PARTIES, i);
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t i = 0; i < ASKED; i += 20)
            put(&w, p, i);
    for (unsigned t = 0; t < 1000 && w.count < ASKED / 20; t++)
        turn(&w);
    assert_int_equal(w.count, ASKED / 20);
    close_world(&w);
}

/* A client with many requests, which one party alone has, leaves room for the first of the others.
 */
static void test_each_client_first(void **state) {
    (void)state;
    world w;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        open_world(&w, seed);
        for (uint32_t i = 0; i < ASKED; i++)
            for (unsigned p = 0; p < PARTIES; p++)
                w.job[i][p].client = i < SERVE_OWN - 1 ? i + 1 : 0;
        for (uint32_t i = SERVE_OWN - 1; i < ASKED; i++)
            put(&w, i % PARTIES, i);
        for (uint32_t i = 0; i < SERVE_OWN - 1; i++)
            for (unsigned p = 0; p < PARTIES; p++)
                put(&w, p, i);
        w.turn = (uint32_t)seed;
        turn(&w);
        assert_int_equal(w.count, SERVE_OWN - 1);
        close_world(&w);
    }
}

/* Different shares: nobody serves it, and all three say so. */
static void test_mismatch(void **state) {
    (void)state;
    world w;
    for (unsigned liar = 0; liar < PARTIES; liar++)
        for (unsigned which = 0; which < 2; which++) {
            open_world(&w, 5);
            uvcc_service_job *j = &w.job[1][liar];
            (which == 0 ? j->digest_lo : j->digest_hi)[31] ^= 0x80;
            for (unsigned p = 0; p < PARTIES; p++)
                for (uint32_t i = 0; i < 3; i++)
                    put(&w, p, i);
            turn(&w);
            for (unsigned p = 0; p < PARTIES; p++) {
                assert_int_equal(w.p[p].told[0], UVCC_REQUEST_OK);
                assert_int_equal(w.p[p].told[1], UVCC_REQUEST_MISMATCH);
                assert_int_equal(w.p[p].told[2], UVCC_REQUEST_OK);
            }
            close_world(&w);
        }
}

/* Two clients may call their requests alike. */
static void test_names(void **state) {
    (void)state;
    world w;
    open_world(&w, 6);
    for (unsigned p = 0; p < PARTIES; p++) {
        w.job[0][p].client = 1;
        w.job[1][p].client = 2;
        memcpy(w.job[1][p].id, w.job[0][p].id, 16);
        put(&w, p, p == 1 ? 1 : 0);
        put(&w, p, p == 1 ? 0 : 1);
    }
    turn(&w);
    assert_int_equal(w.count, 2);
    close_world(&w);
}

static void test_refused(void **state) {
    (void)state;
    world w;
    serve_counts n;
    open_world(&w, 7);
    w.job[0][0].shape.entry = 2;
    w.p[0].broken = true;
    assert_false(serve_queue_put(w.p[0].q, &w.job[0][0], w.key[0]));
    w.p[0].broken = false;
    put(&w, 0, 0);
    assert_int_equal(w.p[0].told[0], UVCC_REQUEST_REFUSED);
    serve_queue_counts(w.p[0].q, &n);
    assert_int_equal(n.refused, 1);
    assert_int_equal(n.waiting, 0);
    close_world(&w);
}

/* A run that ends in the middle leaves what it had not answered to the next. */
static void test_runs(void **state) {
    (void)state;
    world w;
    int64_t words[PARTIES][SERVE_WORDS];
    const int64_t *const offer[PARTIES] = {words[0], words[1], words[2]};
    const uint64_t one = 1;
    uint32_t count;
    open_world(&w, 8);
    for (unsigned p = 0; p < PARTIES; p++)
        for (uint32_t i = 0; i < 4; i++)
            put(&w, p, i);
    for (unsigned p = 0; p < PARTIES; p++)
        serve_queue_offer(w.p[p].q, 0, w.now, words[p]);
    for (unsigned p = 0; p < PARTIES; p++) {
        serve_queue_chosen(w.p[p].q, offer, 0, w.now, &count);
        assert_int_equal(count, 4);
        assert_int_equal(serve_queue_answer(w.p[p].q, &one, &one, 1), 0);
        serve_queue_run(w.p[p].q);
        assert_null(serve_queue_now(w.p[p].q));
        assert_int_equal(serve_queue_answer(w.p[p].q, &one, &one, 1), UVCC_ERR_NOT_FOUND);
        assert_true(serve_queue_wants(w.p[p].q, w.now));
    }
    turn(&w);
    assert_int_equal(w.count, 3);
    close_world(&w);
}

/* An offer that leads to nothing is not made again at once, nor is its request dropped before its
 * time; without memory to say so it is dropped later. */
static void test_patience(void **state) {
    (void)state;
    world w;
    open_world(&w, 9);
    put(&w, 0, 0);
    assert_true(serve_queue_wants(w.p[0].q, w.now));
    assert_false(serve_queue_wants(w.p[1].q, w.now));
    turn(&w);
    assert_false(serve_queue_wants(w.p[0].q, w.now));
    assert_true(serve_queue_wants(w.p[0].q, w.now + 1000 * MS));
    for (; w.now < WAIT_MS * MS; assert_int_equal(w.p[0].told[0], -1))
        turn(&w);
    w.now += 1000 * MS;
    w.p[0].broken = true;
    for (unsigned t = 0; t < 2 * PARTIES; t++)
        turn(&w);
    assert_int_equal(w.p[0].told[0], -1);
    w.p[0].broken = false;
    for (unsigned t = 0; t < 2 * PARTIES; t++)
        turn(&w);
    assert_int_equal(w.p[0].told[0], UVCC_REQUEST_DROPPED);
    close_world(&w);
}

/* Words that no party writes choose nothing twice and break nothing. */
static void test_hostile_words(void **state) {
    (void)state;
    world w;
    int64_t words[PARTIES][SERVE_WORDS];
    const int64_t *const offer[PARTIES] = {words[0], words[1], words[2]};
    serve_pick pick[SERVE_SLOTS];
    open_world(&w, 10);
    for (unsigned round = 0; round < 200; round++) {
        for (unsigned p = 0; p < PARTIES; p++)
            for (unsigned k = 0; k < SERVE_WORDS; k++)
                words[p][k] = (int64_t)((uint64_t)roll(&w, 3) << (roll(&w, 2) * 62));
        const uint32_t n = serve_choose(offer, round, pick);
        assert_true(n <= SERVE_SLOTS);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < i; k++)
                assert_memory_not_equal(&pick[i].name, &pick[k].name, sizeof pick[i].name);
    }
    for (unsigned p = 0; p < PARTIES; p++) { /* one slot, over and over */
        memset(words[p], 0, sizeof words[p]);
        for (unsigned k = 0; k < SERVE_SLOTS; k++)
            words[p][k * SERVE_SLOT_WORDS] = 1;
    }
    assert_int_equal(serve_choose(offer, 0, pick), 1);
    close_world(&w);
}

/* The rows of a request, and which ones a model takes. */
static void test_shapes(void **state) {
    (void)state;
    const serving_model m = {
        .features = 5, .classes = 3, .hidden = {2, {7, 4}}, .frac_bits = 12, .rows = 8};
    assert_int_equal(serving_weights(&m), 5 * 7 + 7 + 7 * 4 + 4 + 4 * 3 + 3);
    const serving_form row = serving_perceptron(5, 3, 12, 8);
    const serving_form sequence = {.entry = SERVING_PASS | 12,
                                   .units = 8,
                                   .in_rows = 6,
                                   .in_cols = 5,
                                   .out_rows = 2,
                                   .out_cols = 3,
                                   .terms = {7, 7, 4}};
    serving_form tokens = sequence;
    tokens.in_cols = 1;
    tokens.key_cols = 2;
    tokens.key_bits = 15;
    assert_int_equal(serving_bytes(&tokens), 256 + 16 * 8 * (6 * (1 + 2 * (31 + 2)) + 2 * 3));
    const serving_form *const forms[] = {&row, &sequence, &tokens};
    for (unsigned k = 0; k < 3; k++) {
        const serving_form *f = forms[k];
        uvcc_request_shape s = serving_request(f, 8);
        assert_int_equal(serving_differs(f, &s), 0);
        assert_int_not_equal(serving_differs(forms[(k + 1) % 3], &s), 0);
        uint32_t *const words[] = {&s.entry,    &s.in_rows,  &s.in_cols, &s.out_rows,
                                   &s.out_cols, &s.key_cols, &s.key_bits};
        for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
            for (int by = -1; by <= 1; by += 2) {
                s = serving_request(f, 8);
                *words[i] += (uint32_t)by;
                assert_int_not_equal(serving_differs(f, &s), 0);
            }
        for (uint32_t units = 0; units <= 9; units++) {
            s = serving_request(f, units);
            assert_int_equal(serving_differs(f, &s) == 0, units >= 1 && units <= 8);
        }
    }
}

/* Whatever member of "run" differs has its name, and none besides. */
static void test_terms(void **state) {
    (void)state;
    const model_pass good = {.sequences = 65536,
                             .tokens = 65536,
                             .value_bits = 12,
                             .inner_bits = 12,
                             .index_bits = 10,
                             .weight_bits = 16,
                             .mode = 2,
                             .padding = true,
                             .fold = true,
                             .public_weights = true};
    serving_form f = {.entry = SERVING_PASS | 1u << 16 | 2u << 8 | 20,
                      .units = 2,
                      .in_rows = 1,
                      .in_cols = 3,
                      .out_rows = 1,
                      .out_cols = 2};
    serving_put_terms(&f, &good, 2, UINT32_MAX);
    const struct {
        const char *name;
        model_pass t;
        uint32_t entry, weights_owner, model;
    } cases[] = {{"sequences", {.sequences = 1}, 0, 0, 0},
                 {"tokens", {.tokens = 1}, 0, 0, 0},
                 {"value_bits", {.value_bits = 11}, 0, 0, 0},
                 {"inner_bits", {.inner_bits = 8}, 0, 0, 0},
                 {"index_bits", {.index_bits = 4}, 0, 0, 0},
                 {"weight_bits", {.weight_bits = 15}, 0, 0, 0},
                 {"mode", {.mode = 1}, 0, 0, 0},
                 {"weights_owner", {0}, 0, 1, 0},
                 {"padding", {.padding = true}, 0, 0, 0},
                 {"fold", {.fold = true}, 0, 0, 0},
                 {"weights", {.public_weights = true}, 0, 0, 0},
                 {"model", {0}, 0, 0, 0xfffffffe},
                 {"frac_bits", {0}, 20 ^ 19, 0, 0},
                 {"takes", {0}, 3u << 8, 0, 0},
                 {"gives", {0}, 1u << 16, 0, 0},
                 {"model", {0}, SERVING_PASS, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const model_pass *c = &cases[i].t;
        model_pass t = good;
        serving_form other = f;
        char names[SERVING_NAMES_BYTES];
        t.sequences = c->sequences != 0 ? c->sequences : t.sequences;
        t.tokens = c->tokens != 0 ? c->tokens : t.tokens;
        t.value_bits = c->value_bits != 0 ? c->value_bits : t.value_bits;
        t.inner_bits = c->inner_bits != 0 ? c->inner_bits : t.inner_bits;
        t.index_bits = c->index_bits != 0 ? c->index_bits : t.index_bits;
        t.weight_bits = c->weight_bits != 0 ? c->weight_bits : t.weight_bits;
        t.mode = c->mode != 0 ? c->mode : t.mode;
        t.padding = !c->padding;
        t.fold = !c->fold;
        t.public_weights = !c->public_weights;
        other.entry ^= cases[i].entry;
        serving_put_terms(&other, &t, cases[i].weights_owner != 0 ? cases[i].weights_owner : 2,
                          cases[i].model != 0 ? cases[i].model : UINT32_MAX);
        const uvcc_request_shape s = serving_request(&other, 2);
        serving_names(serving_differs(&f, &s), "", names);
        assert_string_equal(names, cases[i].name);
    }
    /* Cells that frac_bits give, said or not, are the same, and nothing in the request. */
    static const uint32_t same[][2] = {{12, 7}, {13, 8}, {14, 9}, {20, 9}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        serving_form unsaid = f, said = f;
        model_pass t = {.frac_bits = same[i][0], .sequences = 1, .tokens = 1, .inner_bits = 3};
        serving_put_terms(&unsaid, &t, 0, 0);
        assert_int_equal(unsaid.terms[1], 3);
        t.index_bits = same[i][1];
        serving_put_terms(&said, &t, 0, 0);
        assert_memory_equal(said.terms, unsaid.terms, sizeof said.terms);
        t.index_bits--;
        serving_put_terms(&said, &t, 0, 0);
        assert_int_equal(said.terms[1], 3 | (same[i][1] - 1) << 4);
    }
    char names[SERVING_NAMES_BYTES];
    const serving_form row = serving_perceptron(5, 3, 12, 8);
    const serving_form others = serving_perceptron(4, 2, 13, 9);
    const uvcc_request_shape s = serving_request(&others, 9);
    serving_names(serving_differs(&row, &s), "run.", names);
    assert_string_equal(names, "run.features, run.classes, run.rows, run.frac_bits");
    serving_names(0, "run.", names);
    assert_string_equal(names, "something that it does not name");
    serving_names(UINT32_C(1) << 31, "run.", names);
    assert_string_equal(names, "something that it does not name");
    serving_names(UINT32_MAX, "a long word that stands before the name of each member, ", names);
    assert_int_equal(strlen(names), SERVING_NAMES_BYTES - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order), cmocka_unit_test(test_stuck_ones_hold_up_nobody),
        cmocka_unit_test(test_mismatch),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_runs),
        cmocka_unit_test(test_patience),  cmocka_unit_test(test_hostile_words),
        cmocka_unit_test(test_shapes),    cmocka_unit_test(test_each_client_first),
        cmocka_unit_test(test_terms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
