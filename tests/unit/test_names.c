/* SPDX-License-Identifier: Apache-2.0 */
/* test_names.c - what sessions tell of words, nonces and triples that they use (uvcc/names.h): all
 * of it, before it is used, by names that no other run has. */
#include "triangle.h"

#include "exec/compute/prg_uses.h"
#include <string.h>

enum { NAMES = 8192, ELEMS = 4, STEPS = 2 };

/* What one party of one job told. */
typedef struct told {
    uvcc_name name[NAMES];
    unsigned count;
    unsigned of[5]; /* by kind */
    unsigned read;  /* words that tasks have read */
} told;

static told told_by[2][3]; /* by job, party */
static unsigned job;
static uint32_t first_run;

static void on_name(void *user, const uvcc_name *n) {
    told *t = user;
    assert_true(t->count < NAMES);
    t->name[t->count++] = *n;
    t->of[n->kind]++;
}

static void listen(uvcc_config *c) {
    c->names = (uvcc_config_names){.used = on_name, .user = &told_by[job][c->identity.party]};
    c->resume.next_run = first_run;
}

static bool same_words(const uvcc_prg_use *a, const uvcc_prg_use *b) {
    return a->kind == b->kind && a->call == b->call && a->ordinal == b->ordinal &&
           a->block == b->block && a->count == b->count && a->pair == b->pair && a->tag == b->tag &&
           a->lane == b->lane;
}

static void count_word(void *user, const uvcc_prg_use *words, uint64_t key) {
    told *t = user;
    bool there = false;
    for (unsigned i = 0; i < t->count && !there; i++)
        there = t->name[i].kind == UVCC_NAME_WORDS && t->name[i].key == key &&
                same_words(&t->name[i].words, words);
    if (!there)
        fail_msg("task %u reads %s, lane %u, and did not tell", words->kind,
                 uvcc_prg_tag_name(words->tag), words->lane);
    t->read++;
}

/* What a task is about to read was told. */
static void on_task(void *user, unsigned party, const uvcc_job *j, uint32_t task, bool done) {
    (void)user;
    if (!done)
        uvcci_prg_words(&j->tasks[task], count_word, &told_by[job][party]);
}

/* Y = X W on a triple, truncated, opened. */
static uvcc_program *product(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    const uint32_t x = test_tensor(p, "X", 2, 2, 12, 6, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "W", 2, 2, 12, 6, UVCC_PERSIST);
    const uint32_t y = test_tensor(p, "Y", 2, 2, 40, 6, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_int_equal(uvcc_program_input(p, 0, x, 0), 0);
    assert_int_equal(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS,
                                                        .flags = UVCC_OP_BEAVER,
                                                        .in_count = 2,
                                                        .in = {x, w},
                                                        .out_count = 1,
                                                        .out = {y},
                                                        .shift = 6}),
                     0);
    assert_int_equal(uvcc_program_output(p, 1, y), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static void run_job(const uvcc_program *p, unsigned which, uint32_t run, uint64_t seed) {
    static const int64_t values[ELEMS] = {1, -2, 3, 70};
    triangle t;
    job = which;
    first_run = run;
    memset(told_by[which], 0, sizeof told_by[which]);
    triangle_open(
        &t, p,
        &(triangle_options){.seed = seed, .tweak = listen, .wired = true, .on_task = on_task});
    triangle_ready(&t);
    triangle_set_public(&t, 1, values);
    for (uint32_t step = 0; step < STEPS; step++) {
        triangle_agree(&t, step, 0);
        triangle_input(&t, 0, step, 0, values);
        triangle_finish(&t, step + 1);
    }
    triangle_free(&t);
}

/* The same wherever it is used. */
static bool same_place(const uvcc_name *a, const uvcc_name *b) {
    return a->kind == b->kind && a->seq == b->seq &&
           memcmp(a->nonce, b->nonce, sizeof a->nonce) == 0 && same_words(&a->words, &b->words);
}

static bool same(const uvcc_name *a, const uvcc_name *b) {
    return same_place(a, b) && a->run == b->run && a->step == b->step && a->peer == b->peer &&
           a->maker_run == b->maker_run;
}

/* Under one key; triples have none. */
static bool same_under_key(const uvcc_name *a, const uvcc_name *b) {
    return a->kind != UVCC_NAME_TRIPLE && a->key == b->key && same_place(a, b);
}

static unsigned in_common(const told *a, const told *b) {
    unsigned n = 0;
    for (unsigned i = 0; i < a->count; i++)
        for (unsigned k = 0; k < b->count; k++)
            n += same(&a->name[i], &b->name[k]) ? 1u : 0u;
    return n;
}

/* In one job no name comes twice, by the run or by the key; all that is read was told. */
static void told_once(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = product(&al);
    run_job(p, 0, 3, 1);
    for (unsigned q = 0; q < 3; q++) {
        const told *t = &told_by[0][q];
        assert_true(t->of[UVCC_NAME_FRAME] > 0 && t->of[UVCC_NAME_CONTROL] > 0);
        assert_int_equal(t->of[UVCC_NAME_TRIPLE], STEPS);
        assert_true(t->read > 0);
        assert_int_equal(t->of[UVCC_NAME_WORDS], t->read);
        for (unsigned i = 0; i < t->count; i++) {
            assert_int_equal(t->name[i].run, 3);
            for (unsigned k = 0; k < i; k++)
                if (same(&t->name[i], &t->name[k]) || same_under_key(&t->name[i], &t->name[k]))
                    fail_msg("party %u tells name %u of kind %u twice", q, i, t->name[i].kind);
        }
    }
    uvcc_program_free(p);
}

/* Another run of the same steps has no name in common; the same run again, of other random bytes,
 * has those of all words and triples. */
static void of_runs(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = product(&al);
    run_job(p, 0, 3, 1);
    run_job(p, 1, 4, 1);
    for (unsigned q = 0; q < 3; q++)
        assert_int_equal(in_common(&told_by[0][q], &told_by[1][q]), 0);
    run_job(p, 1, 3, 2);
    for (unsigned q = 0; q < 3; q++) {
        const told *t = &told_by[0][q];
        assert_true(in_common(t, &told_by[1][q]) >=
                    t->of[UVCC_NAME_WORDS] + t->of[UVCC_NAME_TRIPLE]);
    }
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_once),
        cmocka_unit_test(of_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
