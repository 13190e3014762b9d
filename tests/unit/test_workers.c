/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of several workers per party: small programs over replicas, stages and tensor ranks give
 * what the plaintext workers together give, bit for bit, with and without faults; and how such jobs
 * end badly. */
#include "triangle.h"

#include "exec/program/program.h"
#include "proto/topology.h"
#include <uvcc/loopback.h>
#include <uvcc/pipeline.h>

enum { ROWS = 4, COLS = 4, ELEMS = ROWS * COLS, WORKERS_MAX = 8, MBS = 6, OUT_W = 100 };

typedef struct shape {
    uint16_t replicas, stages, tp_ranks;
    uint32_t ahead;
} shape;

/* ---- the program of one worker ---- */

typedef struct maker {
    uvcc_program *p;
    uint16_t mb, k;
    uint8_t phase, sharing; /* of the tensors that follow */
} maker;

static uint32_t tensor(maker *m, const char *name, uint32_t rows, uint8_t bits, uint8_t scale,
                       uint8_t lifetime) {
    char full[32];
    snprintf(full, sizeof full, "%s.%u.%u", name, m->phase, m->mb);
    int rc = uvcc_program_tensor(m->p, &(uvcc_tensor_desc){.name = full,
                                                           .rows = rows,
                                                           .cols = COLS,
                                                           .bits = bits,
                                                           .scale = scale,
                                                           .lifetime = lifetime,
                                                           .in_buffer_of = UVCC_NO_TENSOR,
                                                           .sharing = m->sharing});
    assert_true(rc >= 0);
    return (uint32_t)rc;
}

static void op(maker *m, uvcc_op_desc d) {
    d.phase = m->phase;
    d.mb = m->mb;
    d.k = m->k++;
    assert_true(uvcc_program_op(m->p, &d) >= 0);
}

static void one_to_one(maker *m, uint16_t opcode, uint32_t in, uint32_t out, uint8_t shift,
                       uint8_t group) {
    op(m, (uvcc_op_desc){.opcode = opcode,
                         .in_count = 1,
                         .in = {in},
                         .out_count = 1,
                         .out = {out},
                         .shift = shift,
                         .group = group});
}

/* x, at scale 4 + more, summed over the group; its slices cut to scale 4 - cut in their owners'
 * triangles, brought back to scale 4, and joined. */
static uint32_t sum_over(maker *m, uint32_t x, uint32_t size, uint8_t group, uint8_t more,
                         uint8_t cut) {
    m->sharing = uvcc_program_tensor_at(m->p, x)->sharing;
    uint32_t slice = tensor(m, "slice", ROWS / size, 60, (uint8_t)(4 + more), UVCC_TRANSIENT);
    m->sharing = UVCC_REPLICATED;
    uint32_t less = tensor(m, "cut", ROWS / size, 28, (uint8_t)(4 - cut), UVCC_TRANSIENT);
    uint32_t back = tensor(m, "back", ROWS / size, 28, 4, UVCC_TRANSIENT);
    uint32_t whole = tensor(m, "whole", ROWS, 28, 4, UVCC_TRANSIENT);
    one_to_one(m, UVCC_OP_REDUCE_SCATTER, x, slice, 0, group);
    one_to_one(m, UVCC_OP_TRUNCATE, slice, less, (uint8_t)(more + cut), 0);
    one_to_one(m, UVCC_OP_SHIFT_LEFT, less, back, cut, 0);
    one_to_one(m, UVCC_OP_ALL_GATHER, back, whole, 0, group);
    return whole;
}

/* X W, additive: no message. */
static uint32_t part(maker *m, uint32_t x, uint32_t w) {
    m->sharing = UVCC_ADDITIVE;
    uint32_t z = tensor(m, "part", ROWS, 58, 8, UVCC_TRANSIENT);
    m->sharing = UVCC_REPLICATED;
    op(m,
       (uvcc_op_desc){
           .opcode = UVCC_OP_GEMM_PART, .in_count = 2, .in = {x, w}, .out_count = 1, .out = {z}});
    return z;
}

/* Of products: native, or on triples. */
static uint8_t product_flags;

static uint32_t product(maker *m, uint32_t x, uint32_t w) {
    uint32_t z = tensor(m, "product", ROWS, 30, 4, UVCC_TRANSIENT);
    op(m, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                         .in_count = 2,
                         .in = {x, w},
                         .out_count = 1,
                         .out = {z},
                         .flags = product_flags,
                         .shift = 4});
    return z;
}

/* Forward: X, given or from the stage before; sum over tensor ranks of the matrix product X W.
 * Backward the same way back; the gradients of all microbatches and replicas are summed and
 * subtracted from W. */
static uvcc_program *worker_program(test_alloc *mem, const shape *s, uint32_t stage) {
    const uvcc_allocator al = test_allocator(mem);
    maker m = {0};
    uint32_t x[MBS], y[MBS], g = 0, sum;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&m.p, &al), 0);
    assert_int_equal(uvcc_program_topology(m.p, s->replicas, s->stages, s->tp_ranks), 0);
    assert_true(uvcc_program_entry(m.p, "train") >= 0);
    assert_int_equal(uvcc_program_pipeline(m.p, stage, s->stages, s->ahead), 0);
    const uint32_t w = tensor(&m, "W", ROWS, 28, 4, UVCC_PERSIST);
    const bool first = stage == 0, last = stage + 1 == s->stages;
    for (m.mb = 0; m.mb < MBS; m.mb++) {
        m.k = 0;
        x[m.mb] = tensor(&m, "X", ROWS, 28, 4, UVCC_TRANSIENT);
        if (first)
            assert_true(uvcc_program_input_mb(m.p, 1 + m.mb, x[m.mb], m.mb % 3, m.mb) >= 0);
        else
            op(&m, (uvcc_op_desc){.opcode = UVCC_OP_RECV_PP, .out_count = 1, .out = {x[m.mb]}});
        y[m.mb] = sum_over(&m, part(&m, x[m.mb], w), s->tp_ranks, UVCC_GROUP_TP, 4, 1);
        if (!last)
            op(&m, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {y[m.mb]}});
    }
    m.phase = UVCC_BWD;
    for (m.mb = 0; m.mb < MBS; m.mb++) {
        m.k = 0;
        uint32_t dy = last ? y[m.mb] : tensor(&m, "DY", ROWS, 30, 4, UVCC_TRANSIENT);
        if (!last)
            op(&m, (uvcc_op_desc){.opcode = UVCC_OP_RECV_PP, .out_count = 1, .out = {dy}});
        uint32_t dx = product(&m, dy, w);
        if (m.mb == 0)
            one_to_one(&m, UVCC_OP_SHIFT_LEFT, dx, g = tensor(&m, "G", ROWS, 30, 4, UVCC_TRANSIENT),
                       0, 0);
        else
            op(&m, (uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                  .in_count = 2,
                                  .in = {g, dx},
                                  .out_count = 1,
                                  .out = {g}});
        if (!first)
            op(&m, (uvcc_op_desc){.opcode = UVCC_OP_SEND_PP, .in_count = 1, .in = {dx}});
    }
    m.phase = UVCC_UPD;
    m.mb = 0;
    m.k = 0;
    sum = sum_over(&m, g, s->replicas, UVCC_GROUP_DP, 0, 2);
    op(&m, (uvcc_op_desc){
               .opcode = UVCC_OP_SUB, .in_count = 2, .in = {w, sum}, .out_count = 1, .out = {w}});
    assert_true(uvcc_program_output(m.p, OUT_W, w) >= 0);
    if (uvcc_program_finish(m.p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return m.p;
}

/* ---- a job ---- */

typedef struct job {
    shape s;
    uint32_t count;
    test_alloc mem;
    uvcc_program *p[WORKERS_MAX];
    triangle t[WORKERS_MAX];
    uvcc_loopback_triangle all[WORKERS_MAX];
    uvcc_collective *c[3];
    uvcc_reference *ref[WORKERS_MAX];
} job;

static struct {
    shape s;
    uvcci_coord at;
} place; /* of the triangle that is being made */

static void put_place(uvcc_config *c) {
    c->place.replicas = place.s.replicas;
    c->place.stages = place.s.stages;
    c->place.tp_ranks = place.s.tp_ranks;
    c->place.replica = place.at.replica;
    c->place.stage = place.at.stage;
    c->place.tp_rank = place.at.tp_rank;
    c->limits.jobs_max = 4; /* collectives that wait must not take the place of compute jobs */
}

static void job_open(job *j, const shape *s, const triangle_options *opt) {
    memset(j, 0, sizeof *j);
    j->s = *s;
    const uvcc_allocator al = test_allocator(&j->mem);
    const uvcci_topology topo = {s->replicas, s->stages, s->tp_ranks};
    j->count = uvcci_topology_workers(&topo);
    assert_true(j->count <= WORKERS_MAX);
    for (uint32_t i = 0; i < j->count; i++) {
        triangle_options o = *opt;
        assert_int_equal(uvcci_topology_coord(&topo, i, &place.at), 0);
        place.s = *s;
        o.seed = opt->seed * 100 + i;
        o.compute_seed += i;
        o.tweak = put_place;
        j->p[i] = worker_program(&j->mem, s, place.at.stage);
        triangle_open(&j->t[i], j->p[i], &o);
        j->all[i].net = j->t[i].net;
        memcpy(j->all[i].sessions, j->t[i].s, sizeof j->t[i].s);
        memcpy(j->all[i].executors, j->t[i].cpu, sizeof j->t[i].cpu);
        assert_int_equal(uvcc_reference_new(&j->ref[i], j->p[i], &al), 0);
    }
    for (unsigned p = 0; p < 3; p++) {
        uvcc_collective_config c = {.size = sizeof c,
                                    .alloc = al,
                                    .replicas = s->replicas,
                                    .stages = s->stages,
                                    .tp_ranks = s->tp_ranks};
        assert_int_equal(uvcc_collective_new(&j->c[p], &c), 0);
    }
}

static bool job_turn(job *j) {
    int rc = uvcc_loopback_drive_all(j->all, j->count, j->c);
    assert_true(rc >= 0);
    for (uint32_t i = 0; i < j->count; i++)
        triangle_events(&j->t[i]);
    return rc == 1;
}

/* Least number of steps that any session finished; fails on an abort. */
static uint32_t job_finished(const job *j) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < j->count; i++)
        for (unsigned p = 0; p < 3; p++) {
            if (j->t[i].aborted[p] != 0)
                fail_msg("worker %u of party %u aborted: %s", i, p, j->t[i].abort_text[p]);
            least = j->t[i].finished[p] < least ? j->t[i].finished[p] : least;
        }
    return least;
}

static void job_ready(job *j) {
    for (uint32_t i = 0; i < j->count; i++)
        while (!j->t[i].ready[0] || !j->t[i].ready[1] || !j->t[i].ready[2])
            assert_true(job_turn(j));
}

static uint64_t job_now(const job *j) {
    return uvcc_loopback_now(j->all[0].net);
}

/* Replica r's microbatches; tensor ranks have the same. */
static void job_step(job *j, uint32_t step) {
    for (uint32_t i = 0; i < j->count; i++)
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(uvcc_session_step(j->t[i].s[p], step, 0, job_now(j)), 0);
    for (uint32_t i = 0; i < j->count; i++)
        for (uint32_t k = 0; k < uvcc_program_input_count(j->p[i], 0); k++) {
            const uvcc_io_desc *io = uvcc_program_input_at(j->p[i], 0, k);
            const uint32_t replica = i / (j->s.stages * j->s.tp_ranks);
            uint64_t rnd = 1000 * replica + 10 * io->mb + step;
            int64_t v[ELEMS];
            for (unsigned e = 0; e < ELEMS; e++)
                v[e] = (int64_t)(test_rand(&rnd) % 33) - 16;
            assert_int_equal(uvcc_session_input(j->t[i].s[io->owner], step, io->id, v, job_now(j)),
                             0);
            assert_int_equal(uvcc_reference_set(j->ref[i], io->tensor, v), 0);
        }
}

static void job_set_weights(job *j) {
    int64_t v[ELEMS];
    for (unsigned e = 0; e < ELEMS; e++)
        v[e] = (int64_t)(5 * e % 17) - 8;
    for (uint32_t i = 0; i < j->count; i++) {
        const uint32_t w = uvcc_program_output_at(j->p[i], 0, 0)->tensor;
        assert_int_equal(uvcc_reference_set(j->ref[i], w, v), 0);
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(uvcc_session_set_public(j->t[i].s[p], w, v), 0);
    }
}

static void job_check(job *j, uint32_t step) {
    char why[256];
    if (uvcc_reference_step_group(j->ref, j->count, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    for (uint32_t i = 0; i < j->count; i++) {
        const uint32_t w = uvcc_program_output_at(j->p[i], 0, 0)->tensor;
        uint64_t bound;
        assert_int_equal(uvcc_program_memory(j->p[i], 0, &bound), 0);
        for (unsigned p = 0; p < 3; p++) {
            uvcc_session_stats st;
            assert_memory_equal(uvcc_session_output(j->t[i].s[p], step, OUT_W),
                                uvcc_reference_get(j->ref[i], w), ELEMS * sizeof(int64_t));
            uvcc_session_get_stats(j->t[i].s[p], &st);
            assert_true(st.transient_peak_bytes <= bound);
        }
    }
}

static void job_free(job *j) {
    for (uint32_t i = 0; i < j->count; i++) {
        triangle_free(&j->t[i]);
        uvcc_reference_free(j->ref[i]);
        uvcc_program_free(j->p[i]);
    }
    for (unsigned p = 0; p < 3; p++)
        uvcc_collective_free(j->c[p]);
    assert_int_equal(j->mem.live_blocks, 0);
}

static void job_close(job *j) {
    for (uint32_t i = 0; i < j->count; i++)
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(uvcc_session_close(j->t[i].s[p], job_now(j)), 0);
    for (uint32_t i = 0; i < j->count; i++)
        while (!j->t[i].closed[0] || !j->t[i].closed[1] || !j->t[i].closed[2])
            assert_true(job_turn(j));
}

/* Two steps; the roots of all workers. */
static void run_job(const shape *s, const triangle_options *opt, uint8_t root[WORKERS_MAX][32]) {
    job *j = malloc(sizeof *j);
    job_open(j, s, opt);
    job_ready(j);
    job_set_weights(j);
    for (uint32_t step = 0; step < 2; step++) {
        job_step(j, step);
        while (job_finished(j) <= step)
            if (!job_turn(j))
                fail_msg("stuck in step %u", step);
        job_check(j, step);
    }
    job_close(j);
    for (uint32_t i = 0; i < j->count; i++)
        memcpy(root[i], j->t[i].root[1], 32);
    job_free(j);
    free(j);
}

static const shape shapes[] = {{1, 1, 1, 0}, {2, 1, 1, 0}, {1, 2, 1, 0}, {1, 2, 1, 8},
                               {1, 4, 1, 0}, {1, 1, 2, 1}, {2, 2, 2, 0}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static const uvcc_fault_config faults = {.drop = 0.1,
                                         .duplicate = 0.1,
                                         .reorder = 0.2,
                                         .corrupt = 0.02,
                                         .delay_ns = 2000000,
                                         .jitter_ns = 3000000};

static void test_equal_reference(void **state) {
    (void)state;
    for (unsigned i = 0; i < SHAPES; i++) {
        uint8_t root[3][WORKERS_MAX][32] = {0};
        run_job(&shapes[i], &(triangle_options){.seed = 5}, root[0]);
        run_job(&shapes[i],
                &(triangle_options){
                    .seed = 5, .datagram = true, .mode = UVCC_CPU_DEFERRED, .compute_seed = 9 + i},
                root[1]);
        run_job(&shapes[i],
                &(triangle_options){.seed = 5, .datagram = true, .faulty = true, .faults = faults},
                root[2]);
        /* the transcript knows nothing of timing, faults or the local plane */
        assert_memory_equal(root[1], root[0], sizeof root[0]);
        assert_memory_equal(root[2], root[0], sizeof root[0]);
    }
}

/* A mask of W serves the products of all microbatches, in their order. */
static void test_on_triples(void **state) {
    product_flags = UVCC_OP_BEAVER;
    test_equal_reference(state);
    product_flags = 0;
}

/* ---- what the loader and sessions refuse ---- */

static void refuse(uvcc_op_desc d, uint32_t in_rows, uint32_t out_rows, uint8_t in_bits,
                   uint8_t out_bits, uint32_t stage, int error, const char *part) {
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    maker m = {0};
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&m.p, &al), 0);
    assert_int_equal(uvcc_program_topology(m.p, 3, 2, 2), 0);
    uint32_t a = tensor(&m, "A", in_rows, in_bits, 0, UVCC_PERSIST);
    uint32_t b = tensor(&m, "B", out_rows, out_bits, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(m.p, "go") >= 0);
    assert_int_equal(uvcc_program_pipeline(m.p, stage, 2, 0), 0);
    d.in[0] = a;
    d.out[0] = b;
    d.in_count = d.opcode != UVCC_OP_RECV_PP;
    d.out_count = d.opcode != UVCC_OP_SEND_PP;
    assert_true(uvcc_program_op(m.p, &d) >= 0);
    if (part != NULL && strstr(part, "one op of this kind") != NULL) {
        d.k++;
        assert_true(uvcc_program_op(m.p, &d) >= 0);
    }
    assert_int_equal(uvcc_program_finish(m.p, why, sizeof why), error);
    if (part != NULL && strstr(why, part) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", why, part);
    uvcc_program_free(m.p);
    assert_int_equal(mem.live_blocks, 0);
}

static void test_loader(void **state) {
    (void)state;
    const uvcc_op_desc rs = {.opcode = UVCC_OP_REDUCE_SCATTER, .group = UVCC_GROUP_STAGE};
    const uvcc_op_desc ag = {.opcode = UVCC_OP_ALL_GATHER, .group = UVCC_GROUP_DP};
    const uvcc_op_desc send = {.opcode = UVCC_OP_SEND_PP}, recv = {.opcode = UVCC_OP_RECV_PP};
    const int bad = UVCC_ERR_PROGRAM;
    refuse(rs, 12, 2, 10, 13, 0, 0, NULL); /* six members: three bits more */
    refuse(rs, 12, 2, 10, 12, 0, UVCC_ERR_BOUND, "declares 12 bits, but needs 13");
    refuse(rs, 12, 3, 10, 13, 0, bad, "6 slices of B.0.0, 3 x 4, do not make that");
    refuse(rs, 12, 2, 60, 63, 0, UVCC_ERR_BOUND, "bits + log2(group) needs 63 bits");
    refuse(ag, 2, 6, 10, 10, 0, 0, NULL);
    refuse(ag, 2, 6, 10, 9, 0, UVCC_ERR_BOUND, "needs 10");
    refuse(ag, 2, 4, 10, 10, 0, bad, "3 slices of A.0.0");
    uvcc_op_desc d = rs;
    d.group = 4;
    refuse(d, 12, 2, 10, 13, 0, bad, "group 4 is not for this opcode");
    d = send;
    d.group = 1;
    refuse(d, 2, 2, 10, 10, 0, bad, "group 1 is not for this opcode");
    refuse(send, 2, 2, 10, 10, 0, 0, NULL);
    refuse(send, 2, 2, 10, 10, 1, bad, "stage 1 of 2 has no neighbour on that side");
    refuse(recv, 2, 2, 10, 10, 0, bad, "stage 0 of 2 has no neighbour");
    refuse(send, 2, 2, 10, 10, 0, bad, "one op of this kind");
    d = send;
    d.phase = UVCC_BWD;
    refuse(d, 2, 2, 10, 10, 0, bad, "no neighbour");
    refuse(d, 2, 2, 10, 10, 1, 0, NULL);
    d.phase = UVCC_UPD;
    refuse(d, 2, 2, 10, 10, 1, bad, "in FWD and BWD only");
}

static void test_reference_alone(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const shape s = {1, 2, 1, 0};
    uvcc_program *p[2] = {worker_program(&mem, &s, 0), worker_program(&mem, &s, 1)};
    uvcc_reference *r[2], *swapped[2];
    char why[256];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(uvcc_reference_new(&r[i], p[i], &al), 0);
    assert_int_equal(uvcc_reference_step(r[0], 0, why, sizeof why), UVCC_ERR_USAGE);
    assert_string_equal(why, "the program is one of 2 workers, not of 1");
    for (uint32_t m = 0; m < MBS; m++) {
        int64_t v[ELEMS] = {0};
        assert_int_equal(uvcc_reference_set(r[0], uvcc_program_input_at(p[0], 0, m)->tensor, v), 0);
    }
    assert_int_equal(uvcc_reference_step_group(r, 2, 0, why, sizeof why), 0);
    swapped[0] = swapped[1] = r[1]; /* nobody sends the first activation */
    assert_int_equal(uvcc_reference_step_group(swapped, 2, 0, why, sizeof why), UVCC_ERR_STATE);
    assert_non_null(strstr(why, "worker 0 waits for another one for ever: op (RECV_PP, FWD k 0)"));
    for (unsigned i = 0; i < 2; i++) {
        uvcc_reference_free(r[i]);
        uvcc_program_free(p[i]);
    }
    assert_int_equal(mem.live_blocks, 0);
}

/* A session for another place, or one that may drop steps, does not take the program. */
static void test_session_refuses(void **state) {
    (void)state;
    for (unsigned what = 0; what < 4; what++) {
        test_alloc mem = {0};
        const shape s = {1, 2, 1, 0};
        uvcc_program *p = worker_program(&mem, &s, 0);
        uvcc_session *session;
        uint64_t rnd = 1;
        uvcc_config c = triangle_config_alone(&mem, &rnd);
        c.place.stages = what == 1 ? 3 : 2;
        c.place.stage = what == 2;
        c.resume.cancellable = what == 3;
        assert_int_equal(uvcc_session_new(&session, &c), 0);
        assert_int_equal(uvcc_session_load_program(session, p), what == 0 ? 0 : UVCC_ERR_CONFIG);
        uvcc_session_free(session);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* One worker of one party is gone in the middle of a step: its triangle hears it by BYE, the others
 * by their collectives; nobody hangs. */
static void test_worker_gone(void **state) {
    (void)state;
    job *j = malloc(sizeof *j);
    job_open(j, &(shape){2, 2, 1, 0}, &(triangle_options){.seed = 3});
    job_ready(j);
    job_set_weights(j);
    job_step(j, 0);
    for (unsigned i = 0; i < 6; i++)
        assert_true(job_turn(j));
    assert_int_equal(uvcc_session_abort(j->t[2].s[1], UVCC_ABORT_HOST, job_now(j)), 0);
    unsigned aborted = 0, by_local_plane = 0;
    while (aborted < 3 * j->count) {
        assert_true(job_turn(j));
        aborted = 0;
        for (uint32_t i = 0; i < j->count; i++)
            for (unsigned p = 0; p < 3; p++)
                if (j->t[i].aborted[p] != 0) {
                    uvcc_collective_fail(j->c[p]);
                    aborted++;
                }
    }
    for (uint32_t i = 0; i < j->count; i++)
        for (unsigned p = 0; p < 3; p++)
            by_local_plane += j->t[i].aborted[p] == UVCC_ABORT_JOB;
    assert_true(by_local_plane > 0);
    job_close(j);
    job_free(j);
    free(j);
}

/* Whether a SEND_PP of the same phase and microbatch comes of the op, however far behind it. */
static bool leads_to_a_send(const uvcci_entry *e, uint32_t i) {
    const uvcci_op *op = &e->ops[i];
    bool any = op->desc.opcode == UVCC_OP_SEND_PP;
    bool *reached = calloc(e->op_count, sizeof *reached);
    assert_non_null(reached);
    reached[i] = true;
    for (uint32_t k = i; k < e->op_count; k++)
        for (uint32_t s = 0; reached[k] && s < e->ops[k].succ_count; s++) {
            const uint32_t next = e->succ[e->ops[k].succ_first + s];
            const uvcc_op_desc *d = &e->ops[next].desc;
            if (d->phase != op->desc.phase || d->mb != op->desc.mb)
                continue;
            reached[next] = true;
            any |= d->opcode == UVCC_OP_SEND_PP;
        }
    free(reached);
    return any;
}

/* The order in which ops are taken: what a neighbour waits for, then the oldest microbatch. */
static void test_ranks(void **state) {
    (void)state;
    const shape s = {.replicas = 1, .stages = 3, .tp_ranks = 1, .ahead = 1};
    for (uint32_t stage = 0; stage < 3; stage++) {
        test_alloc mem = {0};
        uvcc_program *p = worker_program(&mem, &s, stage);
        const uvcci_entry *e = &p->entries[0];
        uint32_t feeding = 0;
        uint64_t before = 0;
        for (uint32_t rank = 0; rank < e->op_count; rank++) {
            const uint32_t i = e->by_rank[rank];
            const uvcc_op_desc *d = &e->ops[i].desc;
            const bool feeds = leads_to_a_send(e, i);
            const uint64_t here = uvcc_pipeline_rank(feeds, d->phase, d->mb, d->k);
            assert_int_equal(e->ops[i].rank, rank);
            assert_true(rank == 0 || here > before);
            before = here;
            feeding += feeds;
        }
        assert_true(feeding != 0 && feeding < e->op_count);
        uvcc_program_free(p);
        assert_int_equal(mem.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),           cmocka_unit_test(test_equal_reference),
        cmocka_unit_test(test_on_triples),      cmocka_unit_test(test_loader),
        cmocka_unit_test(test_reference_alone), cmocka_unit_test(test_session_refuses),
        cmocka_unit_test(test_worker_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
