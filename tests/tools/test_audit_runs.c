/* SPDX-License-Identifier: Apache-2.0 */
/* `uvcc audit verify` over directories with several runs: which run goes on from which, and what
 * the parties sign of a run's steps beside each other. */
#include "damage.h"
#include "run_tool.h"
#include "triangle.h"

#include "audit_runs.h"
#include "bundles.h"
#include "exec/runtime/core.h"
#include "proto/bundle.h"
#include "proto/statement.h"
#include <dirent.h>
#include <unistd.h>

enum { STEPS_MAX = 16 };

/* What a run signed last of each step, by party; what it goes on from. */
typedef struct ran {
    uint8_t before[3][32], after[3][STEPS_MAX][32];
} ran;

static uint32_t next_run, next_step;

static void place_run(uvcc_config *c) {
    c->resume.next_run = next_run;
    c->resume.next_step = next_step;
}

typedef struct writer {
    bundles *b;
    ran *r;
} writer;

static void take_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    writer *w = user;
    const bundle_place at = {.party = (uint8_t)party};
    assert_int_equal(bundles_event(w->b, s, &at, e), 0);
    if (e->kind == UVCC_EVENT_STEP_FINISHED)
        memcpy(w->r->after[party][e->step], e->audit_root, 32);
}

static uvcc_program *tiny_program(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    uvcc_tensor_desc d = {.name = "X",
                          .rows = 1,
                          .cols = 2,
                          .bits = 20,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int x = uvcc_program_tensor(p, &d);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_input(p, 1, (uint32_t)x, 0), 0);
    assert_int_equal(uvcc_program_output(p, 2, (uint32_t)x), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* Writes the bundles of steps first..end-1 of a run that goes on from r->before to `ev`. */
static void run_steps(ran *r, uint32_t run, uint32_t first, uint32_t end) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = tiny_program(&al);
    bundles_config c = {.dir = "ev", .replicas = 1, .stages = 1, .tp_ranks = 1, .run = run};
    for (unsigned i = 0; i < 3; i++) { /* the seeds of triangle.c */
        uint8_t sk[64];
        memset(c.sign_seed[i], 0x40 + (int)i, 32);
        uvcci_sign_keypair(c.sign_seed[i], c.keys.key[i], sk);
    }
    writer w = {.b = bundles_open(&c), .r = r};
    assert_non_null(w.b);
    triangle t;
    triangle_options opt = {.tweak = place_run, .on_event = take_event, .user = &w, .seed = run};
    const int64_t v[2] = {1, 2};
    next_run = run;
    next_step = first;
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++) { /* as of a run that goes on from a checkpoint */
        memset(t.s[i]->hello.lineage, 1, 32);
        memcpy(t.s[i]->root_before, r->before[i], 32);
    }
    for (uint32_t m = first; m < end; m++) {
        triangle_agree(&t, m, 0);
        triangle_input(&t, 0, m, 1, v);
        triangle_finish(&t, m - first + 1);
    }
    while (bundles_waiting(w.b) != 0)
        assert_true(triangle_turn(&t));
    triangle_close(&t);
    triangle_free(&t);
    bundles_close(w.b);
    uvcc_program_free(p);
}

/* What a run from step `first` on goes on from, if that is what `r` left. */
static void go_on(ran *next, const ran *r, uint32_t first) {
    for (unsigned p = 0; p < 3; p++)
        memcpy(next->before[p], r->after[p][first - 1], 32);
}

static void path_of(char out[200], unsigned party, uint32_t run, uint32_t step) {
    char name[BUNDLE_NAME_BYTES];
    bundle_name(&(bundle_place){.party = (uint8_t)party, .run = run, .step = step}, name);
    snprintf(out, 200, "ev/%s", name);
}

static json_t *good(uint32_t steps) {
    json_t *j = json_of("audit verify ev", 0);
    assert_int_equal(test_u64(j, "steps"), steps);
    assert_true(json_is_null(json_object_get(j, "fault")));
    assert_true(json_is_null(json_object_get(j, "error")));
    return j;
}

static void assert_root(const json_t *j, unsigned party, uint8_t (*roots)[32], uint32_t n) {
    uint8_t want[32], got[32];
    uvcc_audit_root(roots[0], n, want);
    test_hex_n(json_string_value(json_array_get(json_object_get(j, "audit_root"), party)), got, 32);
    assert_memory_equal(got, want, 32);
}

/* Who contradicts the party that the fault names; NOBODY: no party is beside it. */
enum { NOBODY = -1 };
static void contradicted_by(int other) {
    json_t *j = json_of("audit verify ev", 1);
    const json_t *f = json_object_get(j, "fault"), *o = json_object_get(f, "other_party");
    assert_true(other == NOBODY ? json_is_null(o) : json_integer_value(o) == other);
    assert_int_equal(other != NOBODY,
                     strstr(test_str(f, "what"), "which of them is wrong does not show") != NULL);
    json_decref(j);
}

/* The fault is of this kind, in this file. */
static void faulty(uvcc_fault_kind kind, unsigned party, uint32_t run, uint32_t step) {
    char path[200];
    path_of(path, party, run, step);
    json_t *j = json_of("audit verify ev", 1);
    const json_t *f = json_object_get(j, "fault");
    if (test_u64(f, "kind") != kind || strcmp(test_str(f, "file"), path) != 0)
        fail_msg("kind %u, %s: %s", (unsigned)test_u64(f, "kind"), test_str(f, "file"),
                 test_str(f, "what"));
    assert_int_equal(test_u64(f, "run"), run);
    json_decref(j);
}

static void drop_run(uint32_t run) {
    for (unsigned p = 0; p < 3; p++) {
        char dir[64];
        snprintf(dir, sizeof dir, "ev/party-%u/r0s0t0/run-%06u", p, run);
        remove_tree(dir);
    }
}

/* The global root that a party signed of a step. */
static void root_of(uint8_t root[32], unsigned party, uint32_t run, uint32_t step) {
    char path[200];
    path_of(path, party, run, step);
    FILE *f = fopen(path, "rb");
    uint8_t bytes[65536];
    assert_non_null(f);
    const size_t len = fread(bytes, 1, sizeof bytes, f);
    assert_int_equal(fclose(f), 0);
    uvcc_bundle b;
    assert_int_equal(uvcc_bundle_decode(&b, bytes, len, NULL), 0);
    memcpy(root, b.audit[party].root, 32);
}

/* ---- histories ---- */

static void honest_reruns(void **state) {
    (void)state;
    static ran a, b, c, d, e;
    uint8_t roots[STEPS_MAX][32];
    run_steps(&a, 0, 0, 6);
    json_decref(good(6));
    go_on(&b, &a, 3);
    run_steps(&b, 1, 3, 5); /* steps 3 and 4 again: the later run counts */
    json_t *j = good(5);
    for (uint32_t m = 0; m < 5; m++)
        root_of(roots[m], 1, m < 3 ? 0 : 1, m);
    assert_root(j, 1, roots, 5);
    json_decref(j);
    go_on(&c, &a, 3);
    run_steps(&c, 2, 3, 4); /* the second run came to nothing: the first one's checkpoint again */
    j = good(4);
    for (uint32_t m = 0; m < 4; m++)
        root_of(roots[m], 2, m < 3 ? 0 : 2, m);
    assert_root(j, 2, roots, 4);
    json_decref(j);
    go_on(&d, &c, 4);
    run_steps(&d, 7, 4, 6); /* runs between that left nothing */
    j = good(6);
    assert_int_equal(json_array_size(json_object_get(j, "goes_on_from_unknown")), 0);
    json_decref(j);
    run_steps(&e, 8, 0, 2); /* from the beginning */
    json_decref(good(2));
    remove_tree("ev");
}

/* What is not here is said, and no fault. */
static void runs_that_are_not_here(void **state) {
    (void)state;
    static ran a, b, c, d;
    run_steps(&a, 0, 0, 4);
    go_on(&b, &a, 4);
    run_steps(&b, 1, 4, 6);
    go_on(&c, &b, 5);
    run_steps(&c, 2, 5, 7);
    json_decref(good(7));
    drop_run(1);
    outcome o = run_tool("audit verify ev"); /* run 2 begins where run 0 ends, and not from it */
    assert_int_equal(o.status, 1);
    forget(&o);
    drop_run(0);
    json_t *j = good(2);
    const json_t *unknown = json_object_get(j, "goes_on_from_unknown");
    assert_int_equal(json_array_size(unknown), 1);
    assert_int_equal(json_integer_value(json_array_get(unknown, 0)), 2);
    assert_int_equal(test_u64(j, "first_step"), 5);
    json_decref(j);
    o = run_tool("audit verify ev");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "not here         the run that run 2 goes on from"));
    forget(&o);
    go_on(&d, &b, 5);
    run_steps(&d, 3, 5, 6); /* from the same one that is not here */
    j = good(1);
    assert_int_equal(json_array_size(json_object_get(j, "goes_on_from_unknown")), 2);
    json_decref(j);
    remove_tree("ev");
}

static void false_histories(void **state) {
    (void)state;
    static ran a, b;
    for (unsigned what = 0; what < 12; what++) {
        unsigned party = 0;
        int other = NOBODY;
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        run_steps(&a, 0, 0, 5);
        uint32_t run = 1, first = 3;
        go_on(&b, &a, 3);
        switch (what) {
        case 0: /* one party names another history */
            b.before[1][7] ^= 1;
            party = 1;
            other = 0;
            break;
        case 1: /* all do, and every run is here */
            for (unsigned p = 0; p < 3; p++)
                b.before[p][7] ^= 1;
            break;
        case 2: /* that of another step */
            go_on(&b, &a, 4);
            break;
        case 3: /* none, in the middle of one */
            memset(b.before, 0, sizeof b.before);
            break;
        case 4: /* one party none */
            memset(b.before[2], 0, 32);
            party = 2;
            other = 0;
            break;
        case 5: /* one, at the beginning of all */
            first = 0;
            break;
        case 6: /* one party another, though a run is not here */
            b.before[0][0] ^= 1;
            run = 4;
            other = 1;
            break;
        case 7: /* one says that it is the run that is here, and it may be the one that lies */
            b.before[1][0] ^= 1;
            b.before[2][0] ^= 1;
            run = 4;
            party = 1;
            other = 0;
            break;
        case 8:
        case 9:
        case 10: /* before step 0 there is nothing: the party that says so is the one that lies */
            party = what - 8;
            memset(b.before, 0, sizeof b.before);
            b.before[party][31] = 1;
            first = 0;
            break;
        default: /* another party's */
            memcpy(b.before[1], b.before[0], 32);
            party = 1;
            other = 0;
            break;
        }
        run_steps(&b, run, first, first + 2);
        faulty(UVCC_FAULT_BEFORE, party, run, first);
        contradicted_by(other);
        remove_tree("ev");
    }
}

/* A run has all steps from its first on. */
static void beginnings(void **state) {
    (void)state;
    static ran a;
    char path[200];
    run_steps(&a, 0, 0, 4);
    for (unsigned p = 0; p < 3; p++) {
        path_of(path, p, 0, 0);
        assert_int_equal(unlink(path), 0);
    }
    path_of(path, 0, 0, 0);
    outcome o = run_tool("audit verify ev");
    assert_int_equal(o.status, 1);
    assert_non_null(strstr(o.err, path));
    assert_non_null(strstr(o.err, "is missing: run 0 began with step 0"));
    forget(&o);
    remove_tree("ev");
}

/* ---- signed lies about a run ---- */

typedef struct lie {
    uint8_t root[32], audit_root[32], before[32], signature[64];
} lie;

/* Party q signs other values of a step, and all three bundles have them. */
static void sign_again(unsigned q, uint32_t step, bool other_root, bool other_before) {
    for (unsigned p = 0; p < 3; p++) {
        char path[200];
        uint8_t bytes[65536], seed[32], pk[32], sk[64];
        path_of(path, p, 0, step);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        const size_t len = fread(bytes, 1, sizeof bytes, f);
        assert_int_equal(fclose(f), 0);
        uvcc_bundle b;
        uvcc_statement st;
        assert_int_equal(uvcc_bundle_decode(&b, bytes, len, NULL), 0);
        uvcc_bundle_statement(&b, (uint8_t)q, &st);
        lie l;
        memcpy(l.root, st.root, 32);
        memcpy(l.audit_root, st.audit_root, 32);
        memcpy(l.before, st.before, 32);
        l.audit_root[3] ^= other_root;
        l.before[3] ^= other_before;
        st.root = l.root;
        st.audit_root = l.audit_root;
        st.before = l.before;
        memset(seed, 0x40 + (int)q, 32);
        uvcci_sign_keypair(seed, pk, sk);
        uvcci_statement_sign(&st, sk, l.signature);
        uvcci_bundle_put_audit(bytes, len, (uint8_t)q,
                               &(uvcc_signed_root){.root = l.root,
                                                   .audit_root = l.audit_root,
                                                   .before = l.before,
                                                   .signature = l.signature});
        write_file(path, (const char *)bytes, len);
    }
}

static void lies_about_a_run(void **state) {
    (void)state;
    static ran a;
    for (unsigned q = 0; q < 3; q++) {
        memset(&a, 0, sizeof a);
        run_steps(&a, 0, 0, 4);
        sign_again(q, 2, true, false);
        faulty(UVCC_FAULT_AUDIT_ROOT, q, 0, 2);
        sign_again(q, 2, true, false); /* as it was */
        json_decref(good(4));
        sign_again(q, 2, false, true); /* another history in the middle of the run */
        faulty(UVCC_FAULT_BEFORE, q, 0, 2);
        remove_tree("ev");
    }
}

/* All three say of one step that the run began elsewhere. */
static void another_beginning(void **state) {
    (void)state;
    static ran a, b;
    uint8_t all[3][65536];
    size_t len[3];
    char path[200];
    /* A run of step 2 alone, and its bundles in place of those of a run from step 0 on. */
    run_steps(&a, 0, 2, 3);
    for (unsigned p = 0; p < 3; p++) {
        path_of(path, p, 0, 2);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        len[p] = fread(all[p], 1, sizeof all[p], f);
        assert_int_equal(fclose(f), 0);
    }
    remove_tree("ev");
    run_steps(&b, 0, 0, 4);
    for (unsigned p = 0; p < 3; p++) {
        path_of(path, p, 0, 2);
        write_file(path, (const char *)all[p], len[p]);
    }
    faulty(UVCC_FAULT_FIRST, 0, 0, 2);
    remove_tree("ev");
}

/* ---- several workers ---- */

enum { WORKERS = 2 };

/* All that a party's worker signed of a step, of which its run begins. */
static void take_first(audit_runs *r, uint32_t step, uint8_t roots[3][WORKERS][32],
                       uint8_t before[3][WORKERS][32]) {
    uint8_t all[3][32] = {{0}};
    for (unsigned p = 0; p < 3; p++)
        for (size_t i = 0; i < WORKERS; i++) {
            const uvcc_signed_root s = {
                .root = roots[p][i], .audit_root = roots[p][i], .before = before[p][i]};
            assert_int_equal(audit_runs_take(r, p, i, step, step, &s), UVCC_FAULT_NONE);
        }
    assert_true(audit_runs_step(r, all));
}

static int look(void *user, unsigned party, size_t index, uint32_t run, uint32_t step,
                uint8_t audit_root[32]) {
    uint8_t(*roots)[WORKERS][32] = user;
    assert_true(run == 0 && step == 0);
    memcpy(audit_root, roots[party][index], 32);
    return 1;
}

/* Which party's word stands against which, of which worker; whether it is the workers that differ.
 */
static void workers_conflict(void **state) {
    (void)state;
    static const struct {
        uint8_t other[3][WORKERS]; /* says that it goes on from something else */
        int kind;
        unsigned party, against;
        size_t index;
    } cases[] = {
        {{{0, 0}, {0, 0}, {0, 0}}, NOBODY, 0, 0, 0},
        {{{0, 1}, {0, 1}, {0, 1}}, AUDIT_RUNS_WORKERS, 0, UVCC_NO_PARTY, 1},
        {{{1, 0}, {1, 0}, {1, 0}}, AUDIT_RUNS_WORKERS, 0, UVCC_NO_PARTY, 0},
        {{{0, 0}, {0, 1}, {0, 0}}, AUDIT_RUNS_PARTIES, 1, 0, 1},
        {{{1, 1}, {1, 0}, {1, 0}}, AUDIT_RUNS_PARTIES, 0, 1, 1},
        {{{1, 1}, {1, 1}, {1, 1}}, AUDIT_RUNS_NONE, 0, UVCC_NO_PARTY, 0},
    };
    static uint8_t zeros[3][WORKERS][32];
    uint8_t roots[3][WORKERS][32], before[3][WORKERS][32];
    for (unsigned k = 0; k < 3 * WORKERS; k++)
        memset(roots[k / WORKERS][k % WORKERS], 1 + (int)k, 32);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        audit_runs_conflict c;
        audit_runs *r = audit_runs_new(WORKERS);
        assert_non_null(r);
        assert_true(audit_runs_begin(r, 0));
        take_first(r, 0, roots, zeros);
        assert_int_equal(audit_runs_origin(r, look, roots, &c), 0);
        memcpy(before, roots, sizeof before);
        for (unsigned k = 0; k < 3 * WORKERS; k++)
            before[k / WORKERS][k % WORKERS][9] ^= cases[n].other[k / WORKERS][k % WORKERS];
        assert_true(audit_runs_begin(r, 1));
        take_first(r, 1, roots, before);
        assert_int_equal(audit_runs_origin(r, look, roots, &c), cases[n].kind != NOBODY);
        if (cases[n].kind != NOBODY) {
            assert_int_equal(c.kind, cases[n].kind);
            assert_int_equal(c.party, cases[n].party);
            assert_int_equal(c.other, cases[n].against);
            assert_int_equal(c.index, cases[n].index);
        }
        audit_runs_free(r);
    }
}

/* ---- the object is always written ---- */

static void json_whatever_happens(void **state) {
    (void)state;
    static ran a;
    static const char *const unusable[] = {"audit verify", "audit verify none", "audit verify .",
                                           "audit verify ev --keys none"};
    run_steps(&a, 0, 0, 2);
    for (size_t i = 0; i < sizeof unusable / sizeof unusable[0]; i++) {
        json_t *j = json_of(unusable[i], 2);
        assert_true(json_is_false(json_object_get(j, "good")));
        assert_true(json_is_null(json_object_get(j, "fault")));
        assert_true(json_is_string(json_object_get(j, "error")));
        json_decref(j);
    }
    char path[200];
    path_of(path, 1, 0, 1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0); /* a file that cannot be read */
    json_t *j = json_of("audit verify ev", 2);
    assert_non_null(strstr(test_str(j, "error"), path));
    json_decref(j);
    assert_int_equal(unlink(path), 0);
    outcome o = run_tool("audit verify ev");
    assert_non_null(strstr(o.err, "; if the run was cut short, give --unfinished"));
    forget(&o);
    write_file("ev/party-0/r0s0t0/other", "x", 1);
    j = json_of("audit verify ev", 1);
    assert_non_null(strstr(test_str(j, "error"), "does not belong there"));
    json_decref(j);
    remove_tree("ev");
}

static int leave_files(void **state) {
    remove_tree("ev");
    return leave(state);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_reruns),         cmocka_unit_test(runs_that_are_not_here),
        cmocka_unit_test(false_histories),       cmocka_unit_test(beginnings),
        cmocka_unit_test(lies_about_a_run),      cmocka_unit_test(another_beginning),
        cmocka_unit_test(json_whatever_happens), cmocka_unit_test(workers_conflict),
    };
    if (argc != 2 || !find_tool(argv[1])) {
        (void)fprintf(stderr, "usage: test_audit_runs PATH_OF_UVCC\n");
        return 2;
    }
    return cmocka_run_group_tests_name("audit_runs", tests, enter, leave_files);
}
