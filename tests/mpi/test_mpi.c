/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc_mpi under mpirun: what every operation gives, held to uvcc_collective with the same inputs;
 * how disagreements and failures end, at all processes; agreements.
 *
 *     mpirun -n 8 test_mpi SCENARIO [SEEDS]
 *
 * Processes are (2, 2, 2), or those of their number. Each computes what all others have, so that
 * nothing but what is tested goes between them; a process that finds a fault ends all. */
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>
#include <uvcc/collective.h>
#include <uvcc/host.h>
#include <uvcc/mpi.h>
#include <uvcc/program.h>

#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            (void)fprintf(stderr, "rank %u: %s:%d: %s\n", my_rank, __FILE__, __LINE__, #ok);       \
            (void)MPI_Abort(MPI_COMM_WORLD, 1);                                                    \
        }                                                                                          \
    } while (0)

static uint32_t my_rank, workers, seeds = 8;
static uint16_t replicas, stages, tp_ranks;

#include "../plane_hooks.h"

static uvcc_mpi_config config(void) {
    return (uvcc_mpi_config){.size = sizeof(uvcc_mpi_config),
                             .alloc = {count_alloc, count_free, NULL},
                             .log = {write_log, NULL},
                             .replicas = replicas,
                             .stages = stages,
                             .tp_ranks = tp_ranks,
                             .wake = wake,
                             .wake_user = &woken};
}

static uvcc_mpi *make(void) {
    const uvcc_mpi_config cfg = config();
    uvcc_mpi *m = NULL;
    CHECK(uvcc_mpi_new(&m, &cfg) == 0);
    CHECK(uvcc_mpi_rank(m) == my_rank);
    return m;
}

static void free_all(uvcc_mpi *m) {
    uvcc_mpi_free(m);
    CHECK(live == 0);
}

static int next_status(uvcc_mpi *m, uint64_t *id) {
    uvcc_completion d;
    while (uvcc_mpi_poll(m, &d) != 1)
        wait_for_wake();
    CHECK(d.cookie == 7);
    if (id != NULL)
        *id = d.id;
    return d.status;
}

/* ---- operations ---- */

typedef struct operation {
    uvcc_task task;
    uvcc_job job;
    uint64_t *words[4]; /* in lo, in hi, out lo, out hi */
    size_t in, out;     /* words of a component */
} operation;

/* What an operation of a schedule is, for all ranks. */
typedef struct plan {
    uint8_t op, group, phase;
    uint16_t mb, k;
    uint32_t step;
    uint64_t elems;
    bool additive;
} plan;

static uint32_t group_size(uint8_t group) {
    return group == UVCC_GROUP_TP   ? tp_ranks
           : group == UVCC_GROUP_PP ? stages
           : group == UVCC_GROUP_DP ? replicas
                                    : (uint32_t)replicas * tp_ranks;
}

static void operation_free(operation *o) {
    for (unsigned i = 0; i < 4; i++)
        free(o->words[i]);
}

/* A SEND at the one end is a RECV at the other; *here false: it is neither. */
static bool has_part(const plan *p, uint32_t rank, uint8_t *op) {
    const uint32_t stage = rank / tp_ranks % stages;
    const uint32_t sender = p->phase == UVCC_FWD ? p->k : p->k + 1u; /* of the pair k, k + 1 */
    *op = p->op;
    if (p->op != UVCC_COLLECTIVE_SEND)
        return true;
    *op = stage == sender ? UVCC_COLLECTIVE_SEND : UVCC_COLLECTIVE_RECV;
    return stage == p->k || stage == p->k + 1u;
}

static void operation_init(operation *o, const plan *p, uint32_t rank, uint64_t seed) {
    const uint32_t n = group_size(p->group);
    uint8_t op;
    memset(o, 0, sizeof *o);
    (void)has_part(p, rank, &op);
    o->in = o->out = p->elems;
    if (op == UVCC_COLLECTIVE_REDUCE_SCATTER)
        o->out /= n;
    else if (op == UVCC_COLLECTIVE_ALL_GATHER)
        o->in /= n;
    uint64_t state = seed * 1000003u + rank * 7919u + p->mb * 31u + p->step * 131071u + p->k * 17u +
                     p->group * 5u;
    for (unsigned i = 0; i < 4; i++) {
        const size_t n_words = i < 2 ? o->in : o->out;
        o->words[i] = malloc((n_words + 1) * sizeof(uint64_t));
        CHECK(o->words[i] != NULL);
        for (size_t e = 0; e <= n_words; e++)
            o->words[i][e] = i < 2 ? draw(&state) : 0xEEEE;
    }
    o->task.kind = UVCC_TASK_COLLECTIVE;
    o->task.u.collective.op = op;
    o->task.u.collective.group = p->group;
    o->task.u.collective.phase = p->phase;
    o->task.u.collective.mb = p->mb;
    o->task.u.collective.k = p->op == UVCC_COLLECTIVE_SEND ? (uint16_t)(100 + rank) : p->k;
    o->task.u.collective.step = p->step;
    o->task.u.collective.elems = p->elems;
    if (op != UVCC_COLLECTIVE_RECV)
        o->task.u.collective.in = (uvcc_shares){o->words[0], p->additive ? NULL : o->words[1]};
    if (op != UVCC_COLLECTIVE_SEND)
        o->task.u.collective.out = (uvcc_shares){o->words[2], p->additive ? NULL : o->words[3]};
    o->job = (uvcc_job){.tasks = &o->task, .count = 1, .plane = UVCC_PLANE_LOCAL, .cookie = 7};
}

/* What uvcc_collective gives with the same inputs, of all ranks, must be what this rank has. */
static void compare(const plan *plans, unsigned count, operation *mine, uint64_t seed) {
    uvcc_collective *c;
    const uvcc_collective_config cfg = {.size = sizeof cfg,
                                        .alloc = uvcc_host_allocator(),
                                        .replicas = replicas,
                                        .stages = stages,
                                        .tp_ranks = tp_ranks};
    CHECK(uvcc_collective_new(&c, &cfg) == 0);
    for (unsigned i = 0; i < count; i++) {
        operation of[WORKERS_MAX];
        uint8_t op;
        for (uint32_t r = 0; r < workers; r++) {
            operation_init(&of[r], &plans[i], r, seed);
            if (has_part(&plans[i], r, &op))
                CHECK(uvcc_collective_submit(c, r, &of[r].job) == 0);
        }
        for (uint32_t r = 0; r < workers; r++) {
            uvcc_completion d;
            CHECK(uvcc_collective_poll(c, r, &d) == (has_part(&plans[i], r, &op) ? 1 : 0));
        }
        for (unsigned w = 0; w < 4; w++)
            CHECK(memcmp(of[my_rank].words[w], mine[i].words[w],
                         ((w < 2 ? mine[i].in : mine[i].out) + 1) * sizeof(uint64_t)) == 0);
        for (uint32_t r = 0; r < workers; r++)
            operation_free(&of[r]);
    }
    CHECK(uvcc_collective_why(c) == NULL);
    uvcc_collective_free(c);
}

enum { PLANS = 32 };

/* A schedule, the same at all ranks. */
static unsigned make_plans(plan *plans, uint64_t seed) {
    uint64_t state = seed;
    unsigned count = 0;
    while (count < PLANS) {
        plan p = {
            .mb = (uint16_t)count, .step = (uint32_t)(1 + seed), .additive = draw(&state) % 2 == 0};
        const unsigned size = (unsigned)(draw(&state) % 4);
        const uint64_t slice = size == 0   ? draw(&state) % 4
                               : size == 1 ? 2 * (draw(&state) % 50) + 1
                               : size == 2 ? draw(&state) % 3000
                                           : 3000 + draw(&state) % 3000;
        if (draw(&state) % 3 == 0) {
            if (stages == 1)
                continue;
            p.op = UVCC_COLLECTIVE_SEND;
            p.group = UVCC_GROUP_PP;
            p.phase = draw(&state) % 2 == 0 ? UVCC_FWD : UVCC_BWD;
            p.k = (uint16_t)(draw(&state) % (stages - 1u)); /* between these stages */
            p.elems = slice;
        } else {
            p.op =
                draw(&state) % 2 == 0 ? UVCC_COLLECTIVE_REDUCE_SCATTER : UVCC_COLLECTIVE_ALL_GATHER;
            p.group = (uint8_t)(draw(&state) % 4);
            p.phase = (uint8_t)(draw(&state) % 3);
            p.k = (uint16_t)(draw(&state) % 5);
            p.elems = slice * group_size(p.group);
        }
        plans[count++] = p;
    }
    return count;
}

/* Ranks submit in orders of their own, a few at a time. */
static void run_plans(uvcc_mpi *m, uint64_t seed) {
    plan plans[PLANS];
    operation ops[PLANS];
    unsigned order[PLANS], mine = 0, out = 0, submitted = 0;
    const unsigned count = make_plans(plans, seed);
    uint64_t state = seed * 77 + my_rank;
    uint8_t op;
    for (unsigned i = 0; i < count; i++) {
        operation_init(&ops[i], &plans[i], my_rank, seed);
        ops[i].job.id = 500 + i;
        if (has_part(&plans[i], my_rank, &op))
            order[mine++] = i;
    }
    for (unsigned i = mine; i > 1; i--) {
        const unsigned j = (unsigned)(draw(&state) % i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
    bool done[PLANS] = {0};
    for (unsigned finished = 0; finished < mine; finished++) {
        /* all of them in the end: another rank may be on its way to any of them */
        while (submitted < mine && (out < 5 || draw(&state) % 2 == 0)) {
            CHECK(uvcc_mpi_submit(m, &ops[order[submitted]].job) == 0);
            submitted++;
            out++;
        }
        while (submitted < mine) {
            CHECK(uvcc_mpi_submit(m, &ops[order[submitted++]].job) == 0);
            out++;
        }
        uint64_t id;
        CHECK(next_status(m, &id) == 0);
        out--;
        CHECK(id >= 500 && id < 500 + count && !done[id - 500]);
        done[id - 500] = true;
    }
    CHECK(uvcc_mpi_pending(m) == 0);
    compare(plans, count, ops, seed);
    for (unsigned i = 0; i < count; i++)
        operation_free(&ops[i]);
}

static void test_operations(void) {
    uvcc_mpi *m = make();
    for (uint64_t seed = 1; seed <= seeds; seed++)
        run_plans(m, seed);
    CHECK(uvcc_mpi_why(m, NULL, NULL, NULL) == 0);
    free_all(m);
}

/* ---- refusals ---- */

static const plan stage_sum = {.op = UVCC_COLLECTIVE_REDUCE_SCATTER,
                               .group = UVCC_GROUP_STAGE,
                               .mb = 3,
                               .k = 5,
                               .step = 9,
                               .elems = 24};

static void test_refusals(void) {
    uvcc_mpi *m = NULL;
    uvcc_mpi_config cfg = config();
    cfg.replicas++;
    CHECK(uvcc_mpi_new(&m, &cfg) == UVCC_ERR_CONFIG);
    CHECK(strstr(logged, "8 processes, but 3 replicas x 2 stages x 2 tensor ranks are 12") != NULL);
    cfg = config();
    cfg.stages = 257;
    CHECK(uvcc_mpi_new(&m, &cfg) == UVCC_ERR_CONFIG);
    cfg.size--;
    CHECK(uvcc_mpi_new(&m, &cfg) == UVCC_ERR_USAGE);
    m = make();
    operation o;
    operation_init(&o, &stage_sum, my_rank, 1);
    uvcc_job wrong = o.job;
    wrong.plane = UVCC_PLANE_COMPUTE;
    CHECK(uvcc_mpi_submit(m, &wrong) == UVCC_ERR_USAGE);
    uvcc_task t = o.task;
    wrong = o.job;
    wrong.tasks = &t;
    t.u.collective.elems = (uint64_t)UVCC_MPI_ELEMS_MAX + 1;
    CHECK(uvcc_mpi_submit(m, &wrong) == UVCC_ERR_LIMIT);
    CHECK(strstr(logged, "2^31") != NULL);
    t = o.task;
    t.u.collective.group = 4;
    CHECK(uvcc_mpi_submit(m, &wrong) == UVCC_ERR_USAGE);
    t.u.collective.op = UVCC_COLLECTIVE_SEND; /* no neighbour: stage 0 sends no gradients */
    t.u.collective.phase = my_rank / tp_ranks % stages == 0 ? UVCC_BWD : UVCC_FWD;
    CHECK(uvcc_mpi_submit(m, &wrong) == UVCC_ERR_USAGE);
    t.u.collective.op = 9;
    CHECK(uvcc_mpi_submit(m, &wrong) == UVCC_ERR_USAGE);
    CHECK(uvcc_mpi_pending(m) == 0);
    /* one name twice; it begins only when all others are there, which a barrier keeps them from */
    if (my_rank == 0) {
        CHECK(uvcc_mpi_submit(m, &o.job) == 0);
        CHECK(uvcc_mpi_submit(m, &o.job) == UVCC_ERR_USAGE);
        CHECK(uvcc_mpi_pending(m) == 1);
    }
    CHECK(uvcc_mpi_barrier(m) == 0);
    if (my_rank != 0)
        CHECK(uvcc_mpi_submit(m, &o.job) == 0);
    CHECK(next_status(m, NULL) == 0);
    operation_free(&o);
    free_all(m);
}

/* ---- disagreement and failure ---- */

static void expect_failed(uvcc_mpi *m, uint32_t code, const char *text) {
    char why[UVCC_MPI_WHY_BYTES];
    uint32_t rank, got;
    while (uvcc_mpi_why(m, &rank, &got, why) != 1)
        wait_for_wake();
    if (strcmp(why, text) != 0 || got != code || rank >= workers) {
        (void)fprintf(stderr, "rank %u: %u at %u: %s\n", my_rank, got, rank, why);
        CHECK(!"the reason");
    }
    /* what comes later fails too */
    operation o;
    operation_init(&o, &stage_sum, my_rank, 1);
    o.task.u.collective.step = 77;
    CHECK(uvcc_mpi_submit(m, &o.job) == 0);
    CHECK(next_status(m, NULL) == UVCC_ERR_JOB);
    operation_free(&o);
    CHECK(uvcc_mpi_barrier(m) == UVCC_ERR_STATE);
}

/* All ranks submit, the ranks of `mask` something else; all fail with one reason. */
static void disagree(const plan *common, const plan *other, unsigned mask, bool own_first,
                     const char *text) {
    uvcc_mpi *m = make();
    operation o;
    const bool odd = (mask >> my_rank & 1) != 0;
    uint8_t op;
    operation_init(&o, odd ? other : common, my_rank, 1);
    if (odd == own_first && has_part(common, my_rank, &op))
        CHECK(uvcc_mpi_submit(m, &o.job) == 0);
    (void)uvcc_mpi_barrier(m); /* the one is there before the other, or has failed already */
    if (odd != own_first && has_part(common, my_rank, &op))
        CHECK(uvcc_mpi_submit(m, &o.job) == 0);
    if (has_part(common, my_rank, &op)) {
        const int status = next_status(m, NULL);
        /* what is sent is away at once; the other stage's group may have been quicker */
        const unsigned group = my_rank / tp_ranks % stages == 0 ? 0x33 : 0xcc;
        const bool agrees = common->op != UVCC_COLLECTIVE_SEND && mask != 0 && (mask & group) == 0;
        CHECK(status == UVCC_ERR_JOB || agrees || op == UVCC_COLLECTIVE_SEND);
    }
    expect_failed(m, 0, text);
    operation_free(&o);
    free_all(m);
}

static void test_mismatch(void) {
    const plan sum = stage_sum;
    plan gather = sum, size = sum, additive = sum, uneven = sum;
    gather.op = UVCC_COLLECTIVE_ALL_GATHER;
    size.elems = 20;
    additive.additive = true;
    uneven.elems = 25;
    const plan send = {.op = UVCC_COLLECTIVE_SEND,
                       .group = UVCC_GROUP_PP,
                       .phase = UVCC_BWD,
                       .mb = 1,
                       .step = 2,
                       .elems = 30000};
    plan small = send, thin = send;
    small.elems = 5;
    thin.additive = true;
    for (unsigned first = 0; first < 2; first++) {
        const unsigned leaders = 0x05, member = 0x20,
                       sender = 0xcc; /* stages of ranks: 0 0 1 1 0 0 1 1 */
        disagree(&sum, &gather, member | 0x80, first,
                 "members of a group are at different operations");
        disagree(&sum, &gather, leaders, first, "members of a group are at different operations");
        disagree(&sum, &size, member, first, "members of a group have tensors of different sizes");
        disagree(&sum, &additive, 0x01, first,
                 "members of a group share their tensors in different ways");
        disagree(&uneven, &uneven, 0, first,
                 "a tensor cannot be cut into one slice for each member of its group");
        disagree(&send, &small, sender, first,
                 "members of a group have tensors of different sizes");
        disagree(&small, &send, sender, first,
                 "members of a group have tensors of different sizes");
        disagree(&send, &thin, sender, first,
                 "members of a group share their tensors in different ways");
    }
}

/* Many operations are under way, large and small, begun everywhere or waiting, when one rank gives
 * up. */
static void fail_once(uint64_t seed) {
    uvcc_mpi *m = make();
    plan plans[PLANS];
    operation ops[PLANS];
    const unsigned count = make_plans(plans, seed);
    const uint32_t gone = (uint32_t)(seed % workers);
    uint64_t state = seed * 77 + my_rank;
    unsigned mine = 0;
    uint8_t op;
    for (unsigned i = 0; i < count; i++) {
        operation_init(&ops[i], &plans[i], my_rank, seed);
        ops[i].job.id = 500 + i;
        if (has_part(&plans[i], my_rank, &op) && draw(&state) % 8 != 0 &&
            (my_rank != gone || i % 3 == 0)) {
            CHECK(uvcc_mpi_submit(m, &ops[i].job) == 0);
            mine++;
        }
    }
    if (my_rank == gone)
        uvcc_mpi_fail(m, 75, seed % 2 == 0 ? "the peer of worker 3 has restarted" : NULL);
    while (mine-- > 0) {
        uint64_t id;
        const int status = next_status(m, &id);
        CHECK(status == 0 || status == UVCC_ERR_JOB);
        /* a value that was said to be right is right */
        if (status == 0)
            compare(&plans[id - 500], 1, &ops[id - 500], seed);
    }
    uint32_t rank;
    expect_failed(m, 75,
                  seed % 2 == 0 ? "the peer of worker 3 has restarted"
                                : "a worker of the party is gone");
    CHECK(uvcc_mpi_why(m, &rank, NULL, NULL) == 1 && rank == gone);
    for (unsigned i = 0; i < count; i++)
        operation_free(&ops[i]);
    free_all(m);
}

static void test_failure(void) {
    for (uint64_t seed = 0; seed < 16; seed++)
        fail_once(seed);
}

/* Who is freed with jobs that wait, or before others send to it, is gone for all. */
static void test_gone(void) {
    for (unsigned turn = 0; turn < 16; turn++) {
        uvcc_mpi *m = make();
        const uint32_t gone = turn % workers;
        plan p = stage_sum;
        if (turn >= 8)
            p = (plan){.op = UVCC_COLLECTIVE_SEND,
                       .group = UVCC_GROUP_PP,
                       .phase = UVCC_FWD,
                       .mb = 1,
                       .step = 2,
                       .elems = turn % 2 == 0 ? 3 : 100000};
        operation o;
        operation_init(&o, &p, my_rank, 1);
        if (my_rank == gone) {
            if (turn % 3 == 0) { /* waits in vain */
                o.task.u.collective.step = 1000;
                CHECK(uvcc_mpi_submit(m, &o.job) == 0);
            }
        } else {
            CHECK(uvcc_mpi_submit(m, &o.job) == 0);
            const int status = next_status(m, NULL);
            const uint32_t s = stages * tp_ranks;
            const bool of_it =
                turn < 8 ? my_rank / tp_ranks % stages == gone / tp_ranks % stages
                         : my_rank / s == gone / s && my_rank % tp_ranks == gone % tp_ranks;
            /* a small message is away before anybody knows */
            CHECK(status == UVCC_ERR_JOB ||
                  (status == 0 && (!of_it || p.op == UVCC_COLLECTIVE_SEND)));
        }
        free_all(m);
        operation_free(&o);
    }
}

/* ---- agreements ---- */

static void gather(uvcc_mpi *m, uint64_t seed, size_t most) {
    uvcc_slice parts[WORKERS_MAX];
    for (uint32_t r = 0; r < workers; r++) {
        uint64_t state = seed * 31 + r;
        const size_t len = most == 0 ? 0 : (size_t)(draw(&state) % most);
        uint8_t *bytes = malloc(len + 1);
        CHECK(bytes != NULL);
        for (size_t i = 0; i < len; i++)
            bytes[i] = (uint8_t)draw(&state);
        if (r == my_rank)
            CHECK(uvcc_mpi_gather(m, bytes, len, my_rank == 0 ? parts : NULL) == 0);
        free(bytes);
        if (my_rank != 0 && r == my_rank)
            return;
    }
    for (uint32_t r = 0; r < workers; r++) {
        uint64_t state = seed * 31 + r;
        const size_t len = most == 0 ? 0 : (size_t)(draw(&state) % most);
        CHECK(parts[r].len == len);
        for (size_t i = 0; i < len; i++)
            CHECK(parts[r].data[i] == (uint8_t)draw(&state));
    }
}

static void test_agreements(void) {
    uvcc_mpi *m = make();
    for (uint32_t turn = 0; turn < 10; turn++) {
        uint32_t value = (my_rank * 37 + turn * 11) % 50, want = 0;
        for (uint32_t r = 0; r < workers; r++)
            if ((r * 37 + turn * 11) % 50 > want)
                want = (r * 37 + turn * 11) % 50;
        CHECK(uvcc_mpi_max(m, &value) == 0 && value == want);
        CHECK(uvcc_mpi_barrier(m) == 0);
        /* multiples of turn + 1, less one at each rank, in falling order */
        uint64_t steps[100];
        size_t count = 0;
        for (uint32_t i = 100; i-- > 0;)
            if (i % (turn + 1) == 0 && i != 10 * my_rank)
                steps[count++] = (uint64_t)i << 32;
        CHECK(uvcc_mpi_common(m, steps, &count) == 0);
        uint32_t at = 0;
        for (uint32_t i = 0; i < 100; i++)
            if (i % (turn + 1) == 0 && (i % 10 != 0 || i >= 10 * workers))
                CHECK(at < count && steps[at++] == (uint64_t)i << 32);
        CHECK(at == count);
        count = 0; /* one has nothing: nothing is common */
        if (my_rank != turn % workers)
            steps[count++] = 5;
        CHECK(uvcc_mpi_common(m, steps, &count) == 0 && count == 0);
        gather(m, turn, turn == 0 ? 0 : turn == 1 ? 3000000 : 70000);
        run_plans(m, 100 + turn % 2);
    }
    free_all(m);

    /* one is not coming */
    m = make();
    if (my_rank == workers - 1)
        uvcc_mpi_fail(m, 3, "no");
    uint32_t value = 1;
    CHECK(uvcc_mpi_max(m, &value) == UVCC_ERR_STATE);
    expect_failed(m, 3, "no");
    free_all(m);

    /* they differ */
    m = make();
    size_t count = 0;
    if (my_rank == 1)
        CHECK(uvcc_mpi_common(m, &(uint64_t){0}, &count) == UVCC_ERR_STATE);
    else
        CHECK(uvcc_mpi_max(m, &value) == UVCC_ERR_STATE);
    expect_failed(m, 0, "workers of the party agree on different things");
    free_all(m);
}

/* ---- notes ---- */

enum { NOTES = 40 };

/* What came of each process: the next number, and whether it was in order and whole. The hook is
 * the object's thread. */
typedef struct mail {
    uvcc_mpi *m;
    _Atomic uint32_t next[WORKERS_MAX];
    _Atomic uint32_t count, answered;
    _Atomic bool wrong;
} mail;

static uint8_t note_byte(uint32_t from, uint32_t number, size_t at) {
    return (uint8_t)(from * 31 + number * 7 + at);
}

static size_t note_len(uint32_t number) {
    return number % 5 == 4 ? UVCC_MPI_NOTE_BYTES : 8 + number % 100;
}

static void send_note(uvcc_mpi *m, uint32_t to, uint32_t number) {
    uint8_t bytes[UVCC_MPI_NOTE_BYTES];
    for (size_t i = 0; i < note_len(number); i++)
        bytes[i] = note_byte(my_rank, number, i);
    CHECK(uvcc_mpi_note(m, to, bytes, note_len(number)) == 0);
}

/* The last note of each is answered by one without bytes. */
static void on_note(void *user, uint32_t from, const void *bytes, size_t len) {
    mail *got = user;
    const uint8_t *at = bytes;
    if (len == 0) {
        got->answered++;
        (void)sem_post(&woken);
        return;
    }
    const uint32_t number = got->next[from]++;
    bool right = from < workers && from != my_rank && len == note_len(number);
    for (size_t i = 0; right && i < len; i++)
        right = at[i] == note_byte(from, number, i);
    if (!right)
        got->wrong = true;
    if (number + 1 == NOTES && uvcc_mpi_note(got->m, from, NULL, 0) != 0)
        got->wrong = true;
    got->count++;
    (void)sem_post(&woken);
}

/* Notes of all to all, among operations; half of them before anybody listens, and some after a
 * failure. */
static void test_notes(void) {
    for (unsigned turn = 0; turn < 2; turn++) {
        static mail got;
        memset(&got, 0, sizeof got);
        uvcc_mpi *m = got.m = make();
        CHECK(uvcc_mpi_note(m, my_rank, "x", 1) == UVCC_ERR_USAGE);
        CHECK(uvcc_mpi_note(m, workers, "x", 1) == UVCC_ERR_USAGE);
        CHECK(uvcc_mpi_note(m, (my_rank + 1) % workers, "x", UVCC_MPI_NOTE_BYTES + 1) ==
              UVCC_ERR_USAGE);
        for (uint32_t i = 0; i < NOTES; i++) {
            for (uint32_t r = 0; r < workers; r++)
                if (r != my_rank)
                    send_note(m, r, i);
            if (i == NOTES / 2) {
                CHECK(uvcc_mpi_barrier(m) == 0);
                CHECK(got.count == 0);
                CHECK(uvcc_mpi_on_note(m, &(uvcc_mpi_reader){on_note, &got}) == 0);
                run_plans(m, 200 + turn);
                (void)uvcc_mpi_barrier(m); /* which another's failure may end */
                if (turn == 1)
                    uvcc_mpi_fail(m, 4, "none");
            }
        }
        while (got.count < NOTES * (workers - 1) || got.answered < workers - 1)
            wait_for_wake();
        CHECK(!got.wrong && got.count == NOTES * (workers - 1));
        CHECK(uvcc_mpi_on_note(m, NULL) == 0);
        free_all(m);
    }
}

/* ---- MPI that is the object's ---- */

static void test_own(void) {
    uvcc_mpi_config cfg = config();
    uvcc_mpi *m = NULL;
    int is = 0;
    CHECK(uvcc_mpi_new(&m, &cfg) == 0);
    my_rank = uvcc_mpi_rank(m);
    run_plans(m, 5);
    free_all(m);
    (void)MPI_Finalized(&is);
    CHECK(is);
    CHECK(uvcc_mpi_new(&m, &cfg) == UVCC_ERR_STATE);
    CHECK(strstr(logged, "finalised") != NULL);
    CHECK(live == 0);
}

static const struct {
    const char *name;
    void (*run)(void);
    int level; /* of MPI, which is the test's; -1: the object's */
} scenarios[] = {{"operations", test_operations, MPI_THREAD_SERIALIZED},
                 {"refusals", test_refusals, MPI_THREAD_MULTIPLE},
                 {"mismatch", test_mismatch, MPI_THREAD_SERIALIZED},
                 {"failure", test_failure, MPI_THREAD_SERIALIZED},
                 {"gone", test_gone, MPI_THREAD_SERIALIZED},
                 {"agreements", test_agreements, MPI_THREAD_SERIALIZED},
                 {"notes", test_notes, MPI_THREAD_SERIALIZED},
                 {"own", test_own, -1}};

static void shape(uint32_t count) {
    workers = count;
    replicas = count >= 4 ? 2 : 1;
    tp_ranks = count >= 2 ? 2 : 1;
    stages = (uint16_t)(count / replicas / tp_ranks);
}

int main(int argc, char **argv) {
    (void)sem_init(&woken, 0, 0);
    if (argc > 2)
        seeds = (uint32_t)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (argc < 2 || strcmp(argv[1], scenarios[i].name) != 0)
            continue;
        int level, size = 8, rank = 0;
        if (scenarios[i].level >= 0) {
            (void)MPI_Init_thread(&argc, &argv, scenarios[i].level, &level);
            (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
            (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        }
        my_rank = (uint32_t)rank;
        shape((uint32_t)size);
        scenarios[i].run();
        if (scenarios[i].level >= 0)
            (void)MPI_Finalize();
        return 0;
    }
    (void)fprintf(stderr, "there is no scenario %s\n", argc < 2 ? "" : argv[1]);
    return 2;
}
