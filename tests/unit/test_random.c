/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody chooses: the op RANDOM in a session, its words' distribution with and without parties
 * that choose what is theirs, and the noise that is made of it. */
#include "triangle.h"

#include <math.h>

#include "exec/model/gumbel.h"
#include <uvcc/compute.h>

enum { WORD = UVCCI_GUMBEL_WORD, FRAC = UVCCI_GUMBEL_SCALE, STEPS = 2 };
enum { R = 0, OTHER = 1, SMALL = 2, NOISE = 3, TENSORS = 4 };

static int random_op(uvcc_program *p, uint16_t k, uint8_t bits, uint32_t out) {
    return uvcc_program_op(
        p, &(uvcc_op_desc){
               .opcode = UVCC_OP_RANDOM, .k = k, .out_count = 1, .out = {out}, .shift = bits});
}

/* Two of words of WORD bits, one of words of one bit, the noise of the first; all are opened. */
static uvcc_program *program_of(const uvcc_allocator *al, uint32_t cols) {
    static const char *const names[TENSORS] = {"R", "OTHER", "SMALL", "NOISE"};
    static const uint8_t bits[TENSORS] = {WORD + 2, WORD + 2, 3, FRAC + UVCCI_GUMBEL_RANGE};
    uvcci_gumbel g;
    uvcc_program *p;
    uvcci_gumbel_build(&g);
    assert_int_equal(uvcc_program_new(&p, al), 0);
    assert_int_equal(uvcc_program_function(p, &g.function), 0);
    for (uint32_t i = 0; i < TENSORS; i++)
        assert_int_equal(
            uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = names[i],
                                                       .rows = 1,
                                                       .cols = cols,
                                                       .bits = bits[i],
                                                       .scale = i == NOISE ? FRAC : 0,
                                                       .lifetime = UVCC_TRANSIENT,
                                                       .in_buffer_of = UVCC_NO_TENSOR}),
            i);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_true(random_op(p, 1, WORD, R) >= 0);
    assert_true(random_op(p, 2, WORD, OTHER) >= 0);
    assert_true(random_op(p, 3, 1, SMALL) >= 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_FUNCTION,
                                                   .k = 4,
                                                   .in_count = 1,
                                                   .in = {R},
                                                   .out_count = 1,
                                                   .out = {NOISE}}) >= 0);
    for (uint32_t i = 0; i < TENSORS; i++)
        assert_true(uvcc_program_output(p, i, i) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* Of 256 cells, by the highest bits of x mod 2^WORD and by the lowest: mean 255, deviation 23. */
static double chi_square(const int64_t *x, uint32_t n, unsigned from) {
    uint32_t count[256] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        count[(uint64_t)x[i] >> from & 255]++;
    for (unsigned c = 0; c < 256; c++)
        sum += pow(count[c] - n / 256.0, 2) / (n / 256.0);
    return sum;
}

static void assert_uniform(const int64_t *x, uint32_t n) {
    const double high = chi_square(x, n, WORD - 8), low = chi_square(x, n, 0);
    if (high > 255 + 5 * 23 || low > 255 + 5 * 23)
        fail_msg("chi-square %g by the highest bits, %g by the lowest", high, low);
}

/* ---- sessions ---- */

/* The choice of a party that knows two components and would like to know the third. */
typedef struct chooser {
    unsigned party;
    int64_t words; /* what it makes them */
    uint32_t forced;
} chooser;

/* Party i holds component i and the one after. */
static void choose(void *user, unsigned party, const uvcc_job *job, uint32_t task, bool done) {
    chooser *c = user;
    const uvcc_task *t = &job->tasks[task];
    if (!done || t->kind != UVCC_TASK_RANDOM || t->u.vec.bits != WORD)
        return;
    for (uint32_t i = 0; i < t->u.vec.count; i++)
        for (unsigned k = 0; k < 2; k++) {
            const unsigned component = (party + k) % 3;
            if (component == (c->party + 2) % 3)
                continue;
            c->forced++;
            for (uint32_t j = 0; j < t->u.vec.blocks[i].count; j++)
                t->u.vec.blocks[i].out[k][j] = (uint64_t)c->words;
        }
}

/* What a step opened, at all parties alike; `out` gets the first tensor. */
static void check_step(const triangle *t, uvcc_reference *ref, uint32_t step, uint32_t cols,
                       int64_t *out) {
    const int64_t *v[TENSORS];
    char why[256] = "";
    for (uint32_t i = 0; i < TENSORS; i++) {
        v[i] = uvcc_session_output(t->s[0], step, i);
        for (unsigned q = 1; q < 3; q++)
            assert_memory_equal(uvcc_session_output(t->s[q], step, i), v[i], cols * sizeof *v[i]);
        if (i != NOISE)
            assert_int_equal(uvcc_reference_set(ref, i, v[i]), 0); /* within its bits, too */
    }
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_memory_equal(uvcc_reference_get(ref, NOISE), v[NOISE], cols * sizeof *out);
    for (uint32_t i = 0; i < cols; i++) {
        assert_true(v[R][i] >= 0 && v[R][i] <= 3ll * ((1 << WORD) - 1));
        assert_true(v[SMALL][i] >= 0 && v[SMALL][i] <= 3);
    }
    assert_memory_not_equal(v[R], v[OTHER], cols * sizeof *out);
    memcpy(out, v[R], cols * sizeof *out);
}

static void run(uint32_t cols, triangle_options opt, int64_t *out) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program_of(&al, cols);
    uvcc_reference *ref;
    int64_t *before = calloc(cols, sizeof *before);
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < STEPS; step++) {
        triangle_agree(&t, step, 0);
        triangle_finish(&t, step + 1);
        check_step(&t, ref, step, cols, out);
        assert_memory_not_equal(out, before, cols * sizeof *out); /* every step draws anew */
        memcpy(before, out, cols * sizeof *out);
    }
    if (!opt.wired)
        triangle_close(&t);
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    free(before);
    assert_int_equal(mem.live_blocks, 0);
}

enum { COLS = 5 * 4096 + 77 };

static void the_same_words_however_it_runs(void **state) {
    (void)state;
    int64_t *a = calloc(COLS, sizeof *a), *b = calloc(COLS, sizeof *b);
    run(COLS, (triangle_options){.seed = 1}, a);
    assert_uniform(a, COLS);
    run(COLS, (triangle_options){.seed = 1, .mode = UVCC_CPU_DEFERRED, .compute_seed = 3}, b);
    assert_memory_equal(a, b, COLS * sizeof *a);
    run(COLS, (triangle_options){.seed = 2, .audit_off = true}, b);
    assert_memory_not_equal(a, b, COLS * sizeof *a);
    run(3, (triangle_options){.seed = 3}, b);
    free(a);
    free(b);
}

/* Whatever two of the three words are, the sum is uniform mod 2^WORD. */
static void a_choice_changes_nothing(void **state) {
    (void)state;
    static const int64_t words[] = {0, (1 << WORD) - 1, 0x5a5a5};
    int64_t *v = calloc(COLS, sizeof *v);
    for (unsigned party = 0; party < 3; party++) {
        chooser c = {.party = party, .words = words[party]};
        run(COLS,
            (triangle_options){.seed = 4 + party, .wired = true, .on_task = choose, .user = &c}, v);
        assert_true(c.forced != 0);
        assert_uniform(v, COLS);
    }
    free(v);
}

/* ---- programs ---- */

static void with_random(uint8_t bits, uint8_t declared, int want, const char *says, uint8_t *hash) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p;
    uvcc_op_cost c;
    uint32_t rounds;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    assert_int_equal(uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = "R",
                                                                .rows = 5000,
                                                                .cols = 1,
                                                                .bits = declared,
                                                                .lifetime = UVCC_TRANSIENT,
                                                                .in_buffer_of = UVCC_NO_TENSOR}),
                     0);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_true(random_op(p, 1, bits, 0) >= 0);
    assert_int_equal(uvcc_program_finish(p, why, sizeof why), want);
    if (says != NULL && strstr(why, says) == NULL)
        fail_msg("%s", why);
    if (want == 0) {
        uvcc_program_hash(p, hash);
        assert_int_equal(uvcc_program_cost(p, 0, 0, &c), 0);
        assert_int_equal(c.rounds + c.online_bytes + c.preprocessing_bytes + c.messages, 0);
        assert_int_equal(uvcc_program_rounds(p, 0, NULL, &rounds), 0);
        assert_int_equal(rounds, 0);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

static void programs(void **state) {
    (void)state;
    uint8_t a[32], b[32];
    with_random(20, 22, 0, NULL, a);
    with_random(19, 22, 0, NULL, b);
    assert_memory_not_equal(a, b, 32);
    with_random(60, 62, 0, NULL, a);
    with_random(0, 22, UVCC_ERR_PROGRAM, "words of 0 bits", NULL);
    with_random(20, 21, UVCC_ERR_BOUND, "R declares 21 bits, but needs 22", NULL);
    with_random(61, 63, UVCC_ERR_BOUND, "a sum of three words needs 63 bits", NULL);
}

/* An execution in plaintext has nothing to draw from. */
static void a_reference_is_told(void **state) {
    (void)state;
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program_of(&al, 2);
    uvcc_reference *ref;
    char why[256] = "";
    assert_int_equal(uvcc_reference_new(&ref, p, &al), 0);
    assert_int_equal(uvcc_reference_step(ref, 0, why, sizeof why), UVCC_ERR_STATE);
    assert_non_null(strstr(why, "its value has not been set"));
    uvcc_reference_free(ref);
    uvcc_program_free(p);
}

/* ---- the noise ---- */

enum { N = 1 << WORD, CHUNK = 1 << 15 };

static void noise_of(const uvcci_gumbel *g, uint32_t n, const int64_t *x, int64_t *out) {
    const uvcc_allocator al = uvcc_host_allocator();
    assert_int_equal(uvcc_function_eval(&g->function, 1, n, &x, &out, NULL, &al), 0);
}

static double quantile(uint32_t u) {
    return -log(-log1p(-(u + 0.5) / N));
}

/* All N values, each as all of the x that leave it. */
static void noise_is_the_quantiles(void **state) {
    (void)state;
    uvcci_gumbel g;
    int64_t *x = calloc(CHUNK, sizeof *x), *v = calloc(CHUNK, sizeof *v),
            *w = calloc(CHUNK, sizeof *w);
    double most = 0, apart = 0; /* of the value; of the distribution function */
    uvcci_gumbel_build(&g);
    for (uint32_t from = 0; from < N; from += CHUNK)
        for (int64_t wrap = 0; wrap < 3; wrap++) {
            for (uint32_t i = 0; i < CHUNK; i++)
                x[i] = from + i + wrap * N;
            noise_of(&g, CHUNK, x, wrap == 0 ? v : w);
            if (wrap != 0)
                assert_memory_equal(v, w, CHUNK * sizeof *v);
            for (uint32_t i = 0; i < CHUNK && wrap == 0; i++) {
                const double y = ldexp((double)v[i], -FRAC), off = fabs(y - quantile(from + i));
                const double f = exp(-exp(-y)), want = 1 - (from + i + 0.5) / N;
                most = from + i < N - 2048 && off > most ? off : most;
                apart = fabs(f - want) > apart ? fabs(f - want) : apart;
                assert_true(fabs(y) < 16);
            }
        }
    if (most > 7e-4 || apart > 2e-4)
        fail_msg("off by %g, distribution function by %g", most, apart);
    free(x);
    free(v);
    free(w);
}

/* The place of the greatest of logit and noise is a sample of the softmax. */
static void samples_follow_the_softmax(void **state) {
    (void)state;
    enum { PLACES = 8, DRAWS = 60000 };
    static const double logit[PLACES] = {0, 1, -1, 2.5, 0.3, -4, 2.4, -2};
    uvcci_gumbel g;
    uint64_t rng = 11;
    double all = 0, chi = 0;
    uint32_t count[PLACES] = {0};
    int64_t *x = calloc(DRAWS * PLACES, sizeof *x), *v = calloc(DRAWS * PLACES, sizeof *v);
    uvcci_gumbel_build(&g);
    for (uint32_t i = 0; i < DRAWS * PLACES; i++)
        for (unsigned k = 0; k < 3; k++)
            x[i] += (int64_t)(test_rand(&rng) & (N - 1));
    for (uint32_t i = 0; i < DRAWS * PLACES; i += CHUNK)
        noise_of(&g, DRAWS * PLACES - i < CHUNK ? DRAWS * PLACES - i : CHUNK, x + i, v + i);
    for (uint32_t i = 0; i < DRAWS; i++) {
        unsigned best = 0;
        for (unsigned k = 1; k < PLACES; k++)
            if (logit[k] + ldexp((double)v[i * PLACES + k], -FRAC) >
                logit[best] + ldexp((double)v[i * PLACES + best], -FRAC))
                best = k;
        count[best]++;
    }
    for (unsigned k = 0; k < PLACES; k++)
        all += exp(logit[k]);
    for (unsigned k = 0; k < PLACES; k++) {
        const double want = DRAWS * exp(logit[k]) / all;
        chi += pow(count[k] - want, 2) / want;
    }
    if (chi > 24.3) /* 7 degrees of freedom: 1 in 1000 */
        fail_msg("chi-square %g", chi);
    free(x);
    free(v);
}

/* Bits as declared, and the keys of as many elements as a message may have. */
static void it_fits_a_program(void **state) {
    (void)state;
    static const uint8_t in_bits[] = {WORD + 2};
    uvcci_gumbel g;
    uint8_t out_bits[1];
    uvcc_fn_cost cost;
    char why[256] = "";
    uvcci_gumbel_build(&g);
    if (uvcc_function_check(&g.function, 4096, in_bits, out_bits, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(out_bits[0], FRAC + UVCCI_GUMBEL_RANGE);
    assert_int_equal(uvcc_function_cost(&g.function, 256, &cost), 0);
    assert_int_equal(cost.rounds, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_words_however_it_runs),
        cmocka_unit_test(a_choice_changes_nothing),
        cmocka_unit_test(programs),
        cmocka_unit_test(a_reference_is_told),
        cmocka_unit_test(noise_is_the_quantiles),
        cmocka_unit_test(samples_follow_the_softmax),
        cmocka_unit_test(it_fits_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
