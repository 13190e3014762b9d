/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint.c - values into and out of PERSIST tensors (checkpoint.h), in a session that has
 * its program and no peers: who may set what and when, what a checkpoint is made of, and which
 * checkpoints are refused. Restarts of whole triangles are in test_session.c. */
#include "support.h"

#include "exec/session/checkpoint.h"
#include "exec/session/shares.h"
#include "proto/bytes.h"
#include "proto/crypto.h"
#include <uvcc/checkpoint.h>
#include <uvcc/uvcc.h>

enum { A, T, B, TENSORS }; /* A and B are PERSIST */
enum { A_ELEMS = 6, B_ELEMS = 5000, HEAD = 148, TENSOR_HEAD = 16, HASH = 32 };

typedef struct fix {
    test_alloc mem;
    uvcc_seeded_random rnd;
    uvcc_program *p;
    uvcc_session *s;
    uvcc_cpu *cpu;
} fix;

static uvcc_program *make_program(const uvcc_allocator *al, uint32_t b_elems) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    assert_int_equal(test_tensor(p, "A", 2, 3, 40, 8, UVCC_PERSIST), A);
    assert_int_equal(test_tensor(p, "T", 2, 3, 40, 8, UVCC_TRANSIENT), T);
    assert_int_equal(test_tensor(p, "B", 1, b_elems, 40, 8, UVCC_PERSIST), B);
    assert_int_equal(uvcc_program_entry(p, "go"), 0);
    const uvcc_op_desc op = {
        .opcode = UVCC_OP_SUB, .in_count = 2, .in = {A, A}, .out_count = 1, .out = {T}};
    assert_int_equal(uvcc_program_op(p, &op), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static void configure(fix *f, uvcc_config *c, uint8_t party) {
    assert_int_equal(uvcc_config_default(c, sizeof *c), 0);
    c->alloc = test_allocator(&f->mem);
    c->random = uvcc_seeded(&f->rnd, 1, party);
    c->identity.party = party;
    for (uint8_t q = 0; q < 3; q++)
        memset(c->identity.pair_secret[q], 1 + party + q, 32);
    memset(c->identity.sid_job, 9, 32);
    memset(c->identity.sign_seed, 0x40 + party, 32);
    c->resume.checkpoint_every = 2;
    c->limits.jobs_max = 4;
}

/* With the program f->p, of f->mem. */
static void open_made(fix *f, uint8_t party) {
    const uvcc_allocator al = test_allocator(&f->mem);
    uvcc_config c;
    configure(f, &c, party);
    assert_int_equal(uvcc_session_new(&f->s, &c), 0);
    assert_int_equal(uvcc_session_load_program(f->s, f->p), 0);
    memset(f->s->lineage, 3, 32); /* as at READY */
    const uvcc_cpu_config x = {.size = sizeof x, .alloc = al};
    assert_int_equal(uvcc_cpu_new(&f->cpu, &x), 0);
}

static void open_as(fix *f, uint8_t party, uint32_t b_elems) {
    memset(f, 0, sizeof *f);
    const uvcc_allocator al = test_allocator(&f->mem);
    f->p = make_program(&al, b_elems);
    open_made(f, party);
}

static void open_one(fix *f) {
    open_as(f, 0, B_ELEMS);
}

static void close_one(fix *f) {
    uvcc_cpu_free(f->cpu);
    uvcc_session_free(f->s);
    uvcc_program_free(f->p);
    assert_int_equal(f->mem.live_blocks, 0);
    assert_int_equal(f->mem.live_bytes, 0);
}

/* Runs every job that waits; their number. */
static unsigned run_jobs(fix *f) {
    const uvcc_job *job;
    uvcc_completion c;
    unsigned n = 0;
    for (; uvcc_session_poll_job(f->s, &job) == 1; n++) {
        assert_int_equal(uvcc_cpu_submit(f->cpu, job), 0);
        assert_int_equal(uvcc_cpu_poll(f->cpu, &c), 1);
        assert_int_equal(c.status, 0);
        assert_int_equal(uvcc_session_complete(f->s, &c, 0), 0);
    }
    return n;
}

static const uint64_t *lo_of(const fix *f, uint32_t t) {
    return f->s->buffers[t].shares.lo;
}
static const uint64_t *hi_of(const fix *f, uint32_t t) {
    return f->s->buffers[t].shares.hi;
}

/* Shares of A and B that are told apart. */
static void set_shares(fix *f, uint64_t salt) {
    static uint64_t lo[B_ELEMS], hi[B_ELEMS];
    for (uint32_t t = A; t < TENSORS; t += B - A) {
        const uint64_t n = f->p->tensors[t].elems;
        for (uint64_t i = 0; i < n; i++) {
            lo[i] = salt + 1000000 * t + 2 * i;
            hi[i] = salt + 1000000 * t + 2 * i + 1;
        }
        assert_int_equal(uvcc_session_set_shares(f->s, t, lo, hi), 0);
        memset(lo, 0xee, sizeof lo); /* it was copied */
        memset(hi, 0xee, sizeof hi);
    }
    assert_int_equal(run_jobs(f), 2);
}

static void assert_shares(const fix *f, uint64_t salt) {
    for (uint32_t t = A; t < TENSORS; t += B - A)
        for (uint64_t i = 0; i < f->p->tensors[t].elems; i++) {
            assert_int_equal(lo_of(f, t)[i], salt + 1000000 * t + 2 * i);
            assert_int_equal(hi_of(f, t)[i], salt + 1000000 * t + 2 * i + 1);
        }
}

/* ---- setting ---- */

static void who_may_be_set(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    const int64_t v[A_ELEMS] = {5, -4, 3, -2, 1, 0};
    const uint64_t w[A_ELEMS] = {0};
    assert_int_equal(uvcc_session_set_public(f.s, T, v), UVCC_ERR_USAGE); /* not PERSIST */
    assert_int_equal(uvcc_session_set_public(f.s, TENSORS, v), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_public(f.s, A, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_shares(f.s, A, w, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    /* Jobs may run in any order: not again before that one is done. */
    assert_int_equal(uvcc_session_set_public(f.s, A, v), UVCC_ERR_AGAIN);
    assert_int_equal(uvcc_session_set_shares(f.s, A, w, w), UVCC_ERR_AGAIN);
    const uvcc_job *job;
    assert_int_equal(uvcc_session_poll_job(f.s, &job), 1);
    assert_int_equal(uvcc_session_set_public(f.s, A, v), UVCC_ERR_AGAIN); /* it is out */
    uvcc_completion c;
    assert_int_equal(uvcc_cpu_submit(f.cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(f.cpu, &c), 1);
    assert_int_equal(uvcc_session_complete(f.s, &c, 0), 0);
    /* Trivial shares: component 0 is the value, and party 0 has it as lo. */
    for (unsigned i = 0; i < A_ELEMS; i++) {
        assert_int_equal(lo_of(&f, A)[i], (uint64_t)v[i]);
        assert_int_equal(hi_of(&f, A)[i], 0);
    }
    assert_int_equal(uvcc_session_set_shares(f.s, A, w, w), 0);
    assert_int_equal(uvcc_session_set_shares(f.s, A, w, w), UVCC_ERR_AGAIN);
    assert_int_equal(run_jobs(&f), 1);
    set_shares(&f, 7);
    assert_shares(&f, 7);
    /* Once a step is agreed to nothing may change; while no job is free it waits. */
    f.s->ctx[0].active = true; /* agreed to: it runs, or will */
    assert_int_equal(uvcc_session_set_public(f.s, A, v), UVCC_ERR_STATE);
    f.s->ctx[0].active = false;
    static const uvcc_task task = {.kind = UVCC_TASK_COPY};
    for (unsigned i = 0; i < 4; i++)
        uvcci_jobs_push(&f.s->jobs, &task, 1, UVCCI_JOB_SET, 0, NULL);
    f.mem.fail_at = 1;
    assert_int_equal(uvcc_session_set_public(f.s, A, v), UVCC_ERR_NOMEM);
    assert_null(f.s->sets);
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    assert_false(f.s->sets->out);
    assert_shares(&f, 7);
    uvcci_jobs_cancel_queued(&f.s->jobs);
    uvcci_sets_advance(f.s);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(lo_of(&f, A)[0], (uint64_t)v[0]);
    close_one(&f);
}

static void expect_shares(fix *f, uint32_t t, uint64_t salt) {
    static uint64_t lo[B_ELEMS], hi[B_ELEMS];
    memset(lo, 0xee, sizeof lo);
    memset(hi, 0xee, sizeof hi);
    assert_int_equal(uvcc_session_shares(f->s, t, lo, hi), 0);
    for (uint64_t i = 0; i < f->p->tensors[t].elems; i++) {
        assert_int_equal(lo[i], salt + 1000000 * t + 2 * i);
        assert_int_equal(hi[i], salt + 1000000 * t + 2 * i + 1);
    }
}

/* Asked for once they are copied, taken the second time, and asked for anew then. */
static void who_may_be_read(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    static uint64_t lo[B_ELEMS], hi[B_ELEMS];
    const int64_t v[A_ELEMS] = {0};
    assert_int_equal(uvcc_session_shares(f.s, A, NULL, hi), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(f.s, A, lo, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(NULL, A, lo, hi), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(f.s, T, lo, hi), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(f.s, TENSORS, lo, hi), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_STATE); /* never set */
    set_shares(&f, 7);
    for (unsigned again = 0; again < 2; again++) {
        assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
        assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
        assert_int_equal(uvcc_session_shares(f.s, B, lo, hi), UVCC_ERR_AGAIN); /* one at a time */
        assert_int_equal(uvcc_session_set_public(f.s, A, v), UVCC_ERR_AGAIN);
        assert_int_equal(run_jobs(&f), 1);
        expect_shares(&f, A, 7);
    }
    /* What was not taken makes room for another one. */
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(uvcc_session_shares(f.s, B, lo, hi), UVCC_ERR_AGAIN);
    assert_int_equal(run_jobs(&f), 1);
    expect_shares(&f, B, 7);
    /* A tensor that is being set is read when it is. */
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
    assert_null(f.s->read.set);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), 0);
    assert_int_equal(lo[0], 0);
    f.mem.fail_at = 1;
    assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_NOMEM);
    f.mem.fail_at = 0;
    assert_null(f.s->read.set);
    close_one(&f);
}

/* Once a step is agreed to nothing is read, and what was read before it is forgotten, also while
 * its job is out. */
static void a_step_forgets_what_was_read(void **state) {
    (void)state;
    fix f;
    static uint64_t lo[B_ELEMS], hi[B_ELEMS];
    for (unsigned out = 0; out < 2; out++) {
        open_one(&f);
        set_shares(&f, 7);
        assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
        assert_int_equal(out != 0 ? 1 : run_jobs(&f), 1);
        f.s->ctx[0].active = true;
        assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_STATE);
        uvcci_read_forget(f.s);
        f.s->ctx[0].active = false;
        assert_int_equal(run_jobs(&f), out);
        assert_null(f.s->sets);
        assert_int_equal(uvcc_session_shares(f.s, A, lo, hi), UVCC_ERR_AGAIN);
        if (out == 0) /* it is freed with the session, out or here */
            assert_int_equal(run_jobs(&f), 1);
        close_one(&f);
    }
}

/* What nobody set starts as zeros; what was set, or is being set, stays. */
static void the_unset_are_zeros(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    const int64_t v[A_ELEMS] = {1, 2, 3, 4, 5, 6};
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    memset(f.s->buffers[B].shares.lo, 0xaa, B_ELEMS * 8);
    memset(f.s->buffers[B].shares.hi, 0xaa, B_ELEMS * 8);
    assert_int_equal(uvcci_zero_unset(f.s), 0);
    assert_int_equal(run_jobs(&f), 2);
    for (unsigned i = 0; i < B_ELEMS; i++)
        assert_true(lo_of(&f, B)[i] == 0 && hi_of(&f, B)[i] == 0);
    assert_int_equal(lo_of(&f, A)[5], 6);
    assert_int_equal(uvcci_zero_unset(f.s), 0); /* nothing is left to do */
    assert_int_equal(run_jobs(&f), 0);
    close_one(&f);
}

/* ---- checkpoints ---- */

/* As a step's end does it: the step of the session moves on, a checkpoint may be due. */
static void step_ends(fix *f) {
    f->s->step++;
    uvcci_checkpoint_due(f->s);
}

/* One at f->s->step, which must be due; its bytes. */
static const uint8_t *make_checkpoint(fix *f, size_t *len) {
    uint32_t step;
    const uint8_t *data;
    assert_true(uvcci_checkpoint_busy(f->s));
    assert_int_equal(run_jobs(f), 1);
    assert_false(uvcci_checkpoint_busy(f->s));
    assert_int_equal(uvcc_session_checkpoint(f->s, &step, &data, len), 0);
    assert_int_equal(step, f->s->step);
    return data;
}

static void when_one_is_made(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 0);
    uint32_t step;
    const uint8_t *data;
    size_t len;
    uvcc_event e;
    assert_int_equal(uvcc_session_checkpoint(f.s, &step, &data, &len), UVCC_ERR_STATE);
    step_ends(&f);
    assert_false(uvcci_checkpoint_busy(f.s)); /* every second step */
    step_ends(&f);
    assert_true(uvcci_checkpoint_busy(f.s)); /* from now on the next step waits */
    const uvcc_job *job;
    assert_int_equal(uvcc_session_poll_job(f.s, &job), 1);
    assert_true(uvcci_checkpoint_busy(f.s));
    assert_int_equal(uvcc_session_poll_event(f.s, &e), 0);
    uvcc_completion c;
    assert_int_equal(uvcc_cpu_submit(f.cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(f.cpu, &c), 1);
    assert_int_equal(uvcc_session_complete(f.s, &c, 0), 0);
    assert_false(uvcci_checkpoint_busy(f.s));
    assert_int_equal(uvcc_session_poll_event(f.s, &e), 1);
    assert_int_equal(e.kind, UVCC_EVENT_CHECKPOINT);
    assert_int_equal(e.step, 2);
    assert_int_equal(uvcc_session_checkpoint(f.s, &step, &data, &len), 0);
    assert_int_equal(step, 2);
    /* The one that the host has stays as it is while the next is made. */
    uint8_t *was = malloc(len);
    memcpy(was, data, len);
    set_shares(&f, 9);
    step_ends(&f);
    step_ends(&f);
    assert_true(uvcci_checkpoint_busy(f.s));
    assert_int_equal(uvcc_session_poll_job(f.s, &job), 1);
    assert_int_equal(uvcc_cpu_submit(f.cpu, job), 0);
    assert_memory_equal(was, data, len);
    assert_int_equal(uvcc_session_checkpoint(f.s, &step, &data, &len), 0);
    assert_int_equal(step, 2);
    free(was);
    assert_int_equal(uvcc_cpu_poll(f.cpu, &c), 1);
    assert_int_equal(uvcc_session_complete(f.s, &c, 0), 0);
    assert_int_equal(uvcc_session_checkpoint(f.s, &step, &data, &len), 0);
    assert_int_equal(step, 4);
    /* With no job free it waits, and holds the step. */
    static const uvcc_task task = {.kind = UVCC_TASK_COPY};
    for (unsigned i = 0; i < 4; i++)
        uvcci_jobs_push(&f.s->jobs, &task, 1, UVCCI_JOB_SET, 0, NULL);
    step_ends(&f);
    step_ends(&f);
    assert_true(uvcci_checkpoint_busy(f.s));
    assert_false(f.s->checkpoint.job_out);
    uvcci_jobs_cancel_queued(&f.s->jobs);
    (void)make_checkpoint(&f, &len);
    close_one(&f);
}

/* Byte for byte what docs and checkpoint.c say. */
static void what_it_is_made_of(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 100);
    f.s->step = 1;
    f.s->run = 0x0908;
    memset(f.s->root_before, 0x77, 32);
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    assert_int_equal(len, HEAD + 2 * TENSOR_HEAD + 16 * (A_ELEMS + B_ELEMS) + HASH);
    assert_memory_equal(d, "UVCK\2\0\0\0", 8);
    assert_memory_equal(d + 8, f.s->sid_sub, 32);
    assert_memory_equal(d + 40, f.s->h_program, 32);
    assert_int_equal(uvcci_ld32(d + 72), 2);
    assert_int_equal(uvcci_ld32(d + 76), 2);
    assert_int_equal(uvcci_ld32(d + 80), 0x0908);
    assert_memory_equal(d + 84, f.s->root_before, 32);
    assert_memory_equal(d + 116, f.s->lineage, 32);
    const uint8_t *at = d + HEAD;
    for (uint32_t t = A; t < TENSORS; t += B - A) {
        const uint64_t n = f.p->tensors[t].elems;
        assert_int_equal(uvcci_ld32(at), t);
        assert_int_equal(uvcci_ld32(at + 4), 0);
        assert_int_equal(uvcci_ld64(at + 8), n);
        at += TENSOR_HEAD;
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(uvcci_ld64(at + 8 * i), lo_of(&f, t)[i]);
            assert_int_equal(uvcci_ld64(at + 8 * (n + i)), hi_of(&f, t)[i]);
        }
        at += 16 * n;
    }
    uint8_t hash[32];
    uvcci_sha256_once(d, len - HASH, hash);
    assert_memory_equal(at, hash, HASH);
    close_one(&f);
}

static void looking_into_one(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 50);
    f.s->step = 1;
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    uvcc_checkpoint_info info;
    assert_int_equal(uvcc_checkpoint_read(d, len, &info), 0);
    assert_int_equal(info.party, 0);
    assert_int_equal(info.step, 2);
    assert_int_equal(info.tensors, 2);
    assert_memory_equal(info.program_hash, f.s->h_program, 32);
    assert_memory_equal(info.sid_sub, f.s->sid_sub, 32);
    assert_int_equal(info.run, f.s->run);
    assert_memory_equal(info.root_before, f.s->root_before, 32);
    assert_memory_equal(info.lineage, f.s->lineage, 32);
    uint64_t lo[A_ELEMS], hi[A_ELEMS];
    assert_int_equal(uvcc_checkpoint_tensor(d, len, A, lo, hi, A_ELEMS), 0);
    assert_memory_equal(lo, lo_of(&f, A), sizeof lo);
    assert_memory_equal(hi, hi_of(&f, A), sizeof hi);
    assert_int_equal(uvcc_checkpoint_tensor(d, len, T, lo, hi, A_ELEMS), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_checkpoint_tensor(d, len, B, lo, hi, A_ELEMS), UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_checkpoint_tensor(d, HEAD, A, lo, hi, A_ELEMS), UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_checkpoint_read(NULL, len, &info), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_checkpoint_tensor(d, len, A, NULL, hi, A_ELEMS), UVCC_ERR_USAGE);
    /* Cut anywhere, and with a length that says too much, it is refused and nothing behind it is
     * read (the copy ends at a page that nobody may touch). */
    for (size_t n = 0; n < HEAD + TENSOR_HEAD + 16 * A_ELEMS + TENSOR_HEAD + HASH + 40; n++) {
        test_edge e = test_edge_copy(d, n, 0);
        assert_int_not_equal(uvcc_checkpoint_read(e.at, n, &info), 0);
        (void)uvcc_checkpoint_tensor(e.at, n, B, lo, hi, A_ELEMS);
        test_edge_free(&e);
    }
    uint8_t *bad = malloc(len);
    memcpy(bad, d, len);
    memset(bad + HEAD + 8, 0xff, 8);
    assert_int_equal(uvcc_checkpoint_read(bad, len, &info), UVCC_ERR_AUTH);
    assert_int_equal(uvcc_checkpoint_tensor(bad, len, A, lo, hi, A_ELEMS), UVCC_ERR_MISMATCH);
    free(bad);
    close_one(&f);
}

/* ---- resuming ---- */

/* A changed checkpoint whose SHA-256 is right again. */
static void seal(uint8_t *d, size_t len) {
    uvcci_sha256_once(d, len - HASH, d + len - HASH);
}

static void what_is_resumed(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 20);
    f.s->step = 3;
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    uint8_t *kept = malloc(len), *bad = malloc(len);
    memcpy(kept, d, len);
    close_one(&f);

    open_one(&f);
    /* Every byte counts: where it stands, and what is refused first. */
    for (size_t i = 0; i < len; i += i < HEAD + 64 ? 1 : 997) {
        memcpy(bad, kept, len);
        bad[i] ^= 1;
        assert_int_equal(uvcc_session_resume(f.s, bad, len), UVCC_ERR_AUTH);
    }
    static const size_t named[] = {0, 4, 5, 6, 8, 39, 40, 71, 76, HEAD, HEAD + 4, HEAD + 8};
    for (unsigned i = 0; i < sizeof named / sizeof named[0]; i++) {
        memcpy(bad, kept, len);
        bad[named[i]] ^= 1;
        seal(bad, len);
        assert_int_equal(uvcc_session_resume(f.s, bad, len), UVCC_ERR_MISMATCH);
    }
    assert_int_equal(uvcc_session_resume(f.s, kept, len - 1), UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_session_resume(f.s, NULL, len), UVCC_ERR_USAGE);
    assert_int_equal(f.s->offer_count, 0); /* none of it changed anything */
    assert_int_equal(run_jobs(&f), 0);

    const int64_t v[A_ELEMS] = {0};
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    f.mem.fail_at = 1;
    assert_int_equal(uvcc_session_resume(f.s, kept, len), UVCC_ERR_NOMEM);
    assert_int_equal(f.s->offer_count, 0);
    assert_int_equal(uvcc_session_resume(f.s, kept, len), 0); /* A is being set: after that */
    assert_int_equal(f.s->loaded.step, 4);
    assert_int_equal(f.s->offer_count, 1); /* what the HELLO will offer */
    assert_int_equal(uvcc_session_set_public(f.s, B, v), UVCC_ERR_AGAIN);
    memset(kept, 0, HEAD); /* it was copied */
    assert_int_equal(run_jobs(&f), 2);
    assert_shares(&f, 20);
    assert_int_equal(uvcci_zero_unset(f.s), 0);
    assert_int_equal(run_jobs(&f), 0); /* all of them are set now */
    free(kept);
    free(bad);
    close_one(&f);
}

/* Keys that a client dealt persist as words, more of them than there are elements. */
enum { KEY_BITS = 5, NUMBERS = 7, KEYS_WORDS = NUMBERS * (2 * 3 + 5 + 2) };

static void open_dealt(fix *f) {
    memset(f, 0, sizeof *f);
    const uvcc_allocator al = test_allocator(&f->mem);
    const uvcc_op_desc op = {
        .opcode = UVCC_OP_EMBED, .in_count = 2, .in = {0, 1}, .out_count = 1, .out = {2}};
    uvcc_tensor_desc d = {.name = "K",
                          .rows = NUMBERS,
                          .cols = 1,
                          .bits = KEY_BITS,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR,
                          .sharing = UVCC_ONE_HOT};
    assert_int_equal(uvcc_program_new(&f->p, &al), 0);
    assert_int_equal(uvcc_program_tensor(f->p, &d), 0);
    assert_int_equal(test_tensor(f->p, "E", 20, 3, 40, 8, UVCC_PERSIST), 1);
    d = (uvcc_tensor_desc){.name = "Z",
                           .rows = NUMBERS,
                           .cols = 3,
                           .bits = 40,
                           .scale = 8,
                           .lifetime = UVCC_TRANSIENT,
                           .in_buffer_of = UVCC_NO_TENSOR,
                           .sharing = UVCC_ADDITIVE};
    assert_int_equal(uvcc_program_tensor(f->p, &d), 2);
    assert_int_equal(uvcc_program_entry(f->p, "go"), 0);
    assert_int_equal(uvcc_program_op(f->p, &op), 0);
    assert_int_equal(uvcc_program_finish(f->p, NULL, 0), 0);
    open_made(f, 0);
}

static void keys_are_kept(void **state) {
    (void)state;
    fix f;
    uint64_t lo[KEYS_WORDS], hi[KEYS_WORDS], got[2][KEYS_WORDS];
    for (unsigned i = 0; i < KEYS_WORDS; i++) {
        lo[i] = 100 + i;
        hi[i] = 1000 + i;
    }
    open_dealt(&f);
    assert_int_equal(uvcc_program_share_words(f.p, 0), KEYS_WORDS);
    assert_int_equal(uvcc_session_set_shares(f.s, 0, lo, hi), 0);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(uvcc_session_shares(f.s, 0, got[0], got[1]), UVCC_ERR_AGAIN);
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(uvcc_session_shares(f.s, 0, got[0], got[1]), 0);
    assert_memory_equal(got[0], lo, sizeof lo);
    assert_memory_equal(got[1], hi, sizeof hi);
    f.s->step = 1;
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    assert_int_equal(len, HEAD + 2 * TENSOR_HEAD + 16 * (KEYS_WORDS + 60) + HASH);
    memset(got, 0, sizeof got);
    assert_int_equal(uvcc_checkpoint_tensor(d, len, 0, got[0], got[1], NUMBERS), UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_checkpoint_tensor(d, len, 0, got[0], got[1], KEYS_WORDS), 0);
    assert_memory_equal(got[0], lo, sizeof lo);
    assert_memory_equal(got[1], hi, sizeof hi);
    uint8_t *kept = malloc(len);
    memcpy(kept, d, len);
    close_one(&f);
    open_dealt(&f);
    assert_int_equal(uvcc_session_resume(f.s, kept, len), 0);
    assert_int_equal(run_jobs(&f), 1);
    assert_memory_equal(lo_of(&f, 0), lo, sizeof lo);
    assert_memory_equal(hi_of(&f, 0), hi, sizeof hi);
    free(kept);
    close_one(&f);
}

/* A checkpoint of step `step`, run `run` and that lineage, of one that is there. */
static uint8_t *variant(const uint8_t *of, size_t len, uint32_t step, uint32_t run, int lineage,
                        uint64_t first) {
    uint8_t *d = malloc(len);
    memcpy(d, of, len);
    uvcci_st32(d + 72, step);
    uvcci_st32(d + 80, run);
    memset(d + 116, lineage, 32);
    uvcci_st64(d + HEAD + TENSOR_HEAD, first);
    seal(d, len);
    return d;
}

/* Each is offered, at most four; what is set is the newest, in whatever order they come. */
static void several_are_offered(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 20);
    f.s->step = 3;
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    uint8_t *c[6] = {variant(d, len, 4, 1, 1, 41), variant(d, len, 2, 1, 2, 21),
                     variant(d, len, 6, 1, 3, 61), variant(d, len, 6, 2, 4, 62),
                     variant(d, len, 8, 1, 5, 81), variant(d, len, 8, 1, 0, 80)};
    close_one(&f);
    open_one(&f);
    assert_int_equal(uvcc_session_resume(f.s, c[5], len), UVCC_ERR_MISMATCH); /* no lineage */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(uvcc_session_resume(f.s, c[i], len), 0);
    assert_int_equal(uvcc_session_resume(f.s, c[4], len), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_session_resume(f.s, c[1], len), 0); /* it is there already */
    assert_int_equal(f.s->offer_count, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(f.s->offer[i].step, uvcci_ld32(c[i] + 72));
        assert_memory_equal(f.s->offer[i].lineage, c[i] + 116, 32);
    }
    assert_int_equal(f.s->loaded.step, 6);
    assert_int_equal(f.s->loaded.lineage[0], 4); /* of the later run */
    assert_int_equal(run_jobs(&f), 2); /* the first, and the last instead of that between */
    assert_int_equal(lo_of(&f, A)[0], 62);
    for (unsigned i = 0; i < 6; i++)
        free(c[i]);
    close_one(&f);
    /* To begin anew is an offer like the others; where they agree on it nothing is set. */
    open_one(&f);
    set_shares(&f, 3);
    assert_int_equal(uvcc_session_resume(f.s, NULL, 0), 0);
    assert_int_equal(f.s->offer_count, 1);
    assert_int_equal(f.s->offer[0].step, 0);
    f.s->state = UVCCI_SESSION_READY;
    memset(f.s->hello.lineage, 1, 32);
    assert_int_equal(uvcc_session_resume(f.s, NULL, 0), UVCC_ERR_MISMATCH);
    memset(f.s->hello.lineage, 0, 32);
    assert_int_equal(uvcc_session_resume(f.s, NULL, 0), 0);
    assert_true(f.s->tensors_here);
    assert_int_equal(uvcci_zero_unset(f.s), 0);
    f.s->state = UVCCI_SESSION_HELLO;
    assert_int_equal(run_jobs(&f), 1);
    assert_int_equal(lo_of(&f, A)[0], 0);
    close_one(&f);
}

/* What is being copied does not change: what the host sets meanwhile is set after it. */
static void sets_wait_for_a_checkpoint(void **state) {
    (void)state;
    fix f;
    open_one(&f);
    set_shares(&f, 30);
    f.s->step = 1;
    step_ends(&f);
    assert_true(uvcci_checkpoint_busy(f.s));
    const int64_t v[A_ELEMS] = {7};
    assert_int_equal(uvcc_session_set_public(f.s, A, v), 0);
    const uvcc_job *job, *none;
    assert_int_equal(uvcc_session_poll_job(f.s, &job), 1);
    assert_int_equal(uvcc_session_poll_job(f.s, &none), 0); /* the set is not out */
    uvcc_completion c;
    assert_int_equal(uvcc_cpu_submit(f.cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(f.cpu, &c), 1);
    assert_int_equal(uvcc_session_complete(f.s, &c, 0), 0);
    uvcci_sets_advance(f.s);
    assert_int_equal(run_jobs(&f), 1);
    uint32_t step;
    const uint8_t *d;
    size_t len;
    assert_int_equal(uvcc_session_checkpoint(f.s, &step, &d, &len), 0);
    assert_int_not_equal(uvcci_ld64(d + HEAD + TENSOR_HEAD), lo_of(&f, A)[0]);
    assert_null(f.s->sets);
    close_one(&f);
}

/* Another party's, another program's; and not in the middle of anything. */
static void whose_and_when(void **state) {
    (void)state;
    fix f;
    open_as(&f, 1, B_ELEMS);
    set_shares(&f, 1);
    f.s->step = 1;
    step_ends(&f);
    size_t len;
    const uint8_t *d = make_checkpoint(&f, &len);
    uint8_t *other = malloc(len);
    memcpy(other, d, len);
    close_one(&f);
    open_one(&f);
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_MISMATCH);
    close_one(&f);
    open_as(&f, 1, B_ELEMS - 1);
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_MISMATCH);
    close_one(&f);

    open_as(&f, 1, B_ELEMS);
    f.s->stats.steps_finished = 1;
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_STATE);
    f.s->stats.steps_finished = 0;
    assert_int_equal(uvcc_session_start(f.s, 0), 0); /* the HELLO is out: too late to offer less */
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_STATE);
    /* After READY only a checkpoint of exactly the agreed step. */
    f.s->state = UVCCI_SESSION_READY;
    f.s->step = 3;
    memcpy(f.s->hello.lineage, other + 116, 32);
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_MISMATCH);
    f.s->step = 2;
    f.s->hello.lineage[31] ^= 1;
    assert_int_equal(uvcc_session_resume(f.s, other, len), UVCC_ERR_MISMATCH);
    f.s->hello.lineage[31] ^= 1;
    assert_false(f.s->tensors_here);
    assert_int_equal(uvcc_session_resume(f.s, other, len), 0);
    assert_true(f.s->tensors_here);
    assert_int_equal(f.s->loaded.step, 2);
    f.s->state = UVCCI_SESSION_HELLO;
    assert_int_equal(run_jobs(&f), 1);
    assert_shares(&f, 1);
    free(other);
    close_one(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_be_set),
        cmocka_unit_test(who_may_be_read),
        cmocka_unit_test(a_step_forgets_what_was_read),
        cmocka_unit_test(the_unset_are_zeros),
        cmocka_unit_test(when_one_is_made),
        cmocka_unit_test(what_it_is_made_of),
        cmocka_unit_test(looking_into_one),
        cmocka_unit_test(what_is_resumed),
        cmocka_unit_test(keys_are_kept),
        cmocka_unit_test(several_are_offered),
        cmocka_unit_test(sets_wait_for_a_checkpoint),
        cmocka_unit_test(whose_and_when),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
