/* SPDX-License-Identifier: Apache-2.0 */
/* What tasks draw from the PRGs is what uvcc_prg_uses notes of them, place by place: for all golden
 * vectors, so every kind in every role and form. The linker puts the functions here before the
 * library's. */
#include "support.h"

#include "exec/compute/kernels.h"
#include "exec/compute/prg_uses.h"
#include "proto/prg.h"
#include "selftest/vectors.h"
#include <uvcc/host.h>

enum { PLACES_MAX = 4096 };

static const char *const names[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
};

/* What the job that runs has drawn; a place once. */
static struct {
    const uvcc_job *job; /* NULL: none runs */
    uvcc_prg_use drawn[PLACES_MAX];
    size_t count;
} tape;
static size_t places, jobs_of[UVCC_TASK_KIND_END];

static bool same(const uvcc_prg_use *a, const uvcc_prg_use *b) {
    return a->call == b->call && a->ordinal == b->ordinal && a->block == b->block &&
           a->pair == b->pair && a->tag == b->tag && a->lane == b->lane;
}

static bool find(const uvcc_prg_use *all, size_t count, const uvcc_prg_use *u) {
    size_t i = 0;
    while (i < count && !same(&all[i], u))
        i++;
    return i < count;
}

static void put(uvcc_prg_use *all, size_t *count, const uvcc_prg_use *u) {
    if (find(all, *count, u))
        return;
    assert_true(*count < PLACES_MAX);
    all[(*count)++] = *u;
}

/* Whose key of which tag it is; false: none of the step's. */
static bool name_of(const uvcc_step_keys *keys, const uvcci_aes *key, uvcc_prg_use *u) {
    for (uint8_t pair = 0; keys != NULL && pair < 3; pair++)
        for (uint8_t tag = 0; tag < UVCC_TAG_COUNT; tag++)
            if (memcmp(keys->prg[pair][tag], key->rk, 16) == 0) {
                u->pair = pair;
                u->tag = tag;
                return true;
            }
    return false;
}

void __real_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count);
void __wrap_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count);
void __wrap_uvcci_prg_fill(const uvcci_aes *key, uvcci_prg_at at, uint64_t first, uint64_t *out,
                           size_t count) {
    /* Lanes that are read together have one place. */
    const uint16_t kind = tape.job != NULL ? tape.job->tasks[0].kind : 0;
    uvcc_prg_use u = {.call = at.call, .ordinal = at.ordinal, .block = at.block, .lane = at.lane};
    __real_uvcci_prg_fill(key, at, first, out, count);
    if (tape.job == NULL || count == 0 || !name_of(tape.job->tasks[0].keys, key, &u))
        return;
    if (u.tag == UVCC_TAG_trunc && u.lane == 2)
        u.lane = 1;
    if (u.tag == UVCC_TAG_select && u.lane == 1 &&
        (kind == UVCC_TASK_RELU || kind == UVCC_TASK_DEAL))
        u.lane = 0;
    put(tape.drawn, &tape.count, &u);
}

/* Tasks that end a round of a circuit read again, for the same end, what its first one reads: that
 * is noted once, of the first. */
static uint16_t first_of_round(uint16_t kind) {
    return kind == UVCC_TASK_BOOL_JOIN            ? UVCC_TASK_BOOL_SHARE
           : kind == UVCC_TASK_BOOL_SELECT_FINISH ? UVCC_TASK_BOOL_SELECT_MASK
                                                  : kind;
}

/* What is noted of the job's tasks; a task that is opened under a mask has a place for that, which
 * is no lane. */
static size_t noted(const uvcc_job *job, uvcc_prg_use *all) {
    const uvcc_allocator al = uvcc_host_allocator();
    size_t count = 0;
    for (uint32_t k = 0; k < job->count; k++) {
        uvcc_prg_uses *uses;
        uvcc_prg_use u;
        assert_int_equal(uvcc_prg_uses_new(&uses, &al, false), 0);
        uvcc_task t = job->tasks[k];
        if (first_of_round(t.kind) != t.kind) {
            assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
            assert_false(uvcci_prg_place(uses, 0, &u));
            t.kind = first_of_round(t.kind);
        }
        assert_int_equal(uvcc_prg_uses_task(uses, &t, &u), 0);
        for (size_t i = 0; uvcci_prg_place(uses, i, &u); i++)
            if (u.lane != 255)
                put(all, &count, &u);
        uvcc_prg_uses_free(uses);
    }
    return count;
}

static void must_have(const uvcc_job *job, const uvcc_prg_use *all, size_t count,
                      const uvcc_prg_use *u, const char *what) {
    if (!find(all, count, u))
        fail_msg("%s, pair %u, tag %s, lane %u, block %u, call %u: %s", names[job->tasks[0].kind],
                 u->pair, uvcc_prg_tag_name(u->tag), u->lane, u->block, u->call, what);
}

int __real_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job);
int __wrap_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job);
int __wrap_uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job) {
    static uvcc_prg_use all[PLACES_MAX];
    tape.job = job;
    tape.count = 0;
    const int rc = __real_uvcci_cpu_run(w, job);
    tape.job = NULL;
    if (rc != 0)
        return rc;
    for (uint32_t k = 1; k < job->count; k++)
        assert_ptr_equal(job->tasks[k].keys, job->tasks[0].keys);
    const size_t count = noted(job, all);
    const bool again = first_of_round(job->tasks[0].kind) != job->tasks[0].kind;
    for (size_t i = 0; i < count && !again; i++)
        must_have(job, tape.drawn, tape.count, &all[i], "noted, not drawn");
    for (size_t i = 0; i < tape.count; i++)
        must_have(job, all, count, &tape.drawn[i], "drawn, not noted");
    places += count;
    for (uint32_t k = 0; k < job->count; k++)
        jobs_of[job->tasks[k].kind]++;
    return rc;
}

static void draws_are_noted(void **state) {
    (void)state;
    vector_set files;
    vector_message m;
    vector_run *r;
    if (vector_set_load(&files, UVCC_VECTORS_DIR "/tasks", &m) != 0)
        fail_msg("%s", m.text);
    for (uint64_t seed = 0; seed < 3; seed++)
        for (size_t i = 0; i < files.count; i++) {
            if (vector_run_new(&r, &files.files[i], UVCC_BACKEND_PORTABLE, seed, &m) != 0)
                fail_msg("%s", m.text);
            vector_run_free(r);
        }
    vector_set_free(&files);
    for (unsigned kind = 1; kind < UVCC_TASK_KIND_END; kind++)
        if (jobs_of[kind] == 0 && kind != UVCC_TASK_COLLECTIVE) /* no executor runs that */
            fail_msg("no vectors of %s", names[kind]);
    assert_true(places > 3000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
