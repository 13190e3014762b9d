/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc_nccl, all workers of a party in one process, which carries their control messages: what
 * every operation gives is held to uvcc_collective with the same inputs; how disagreements,
 * failures and devices that stop end, at all workers; and several parties on the same devices.
 *
 *     test_nccl SCENARIO [SEEDS]
 *
 * It is built twice: over memory of the process (test_nccl_memory), where everything but NCCL's
 * calls is at work, and over CUDA devices, skipped below two of them. */
#include "lab.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uvcc/host.h>
#include <uvcc/nccl.h>
#include <uvcc/program.h>

#include "io_adapters/nccl/state.h"

#define CHECK(ok)                                                                                  \
    do {                                                                                           \
        if (!(ok)) {                                                                               \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#include "../plane_hooks.h"

enum { SKIPPED = 77, PLANS = 32, PARTIES = 3 };
#define SECOND ((uint64_t)1000000000)

static uint32_t seeds = 8, devices;

/* ---- a party: its workers, and what carries their messages ---- */

typedef struct letter {
    struct letter *next;
    uint32_t from, to;
    size_t len;
    uint8_t bytes[UVCC_NCCL_MESSAGE_BYTES];
} letter;

typedef struct end {
    struct party *of;
    uint32_t rank;
} end;

typedef struct party {
    uint16_t replicas, stages, tp_ranks;
    uint32_t count;
    uvcc_nccl *of[WORKERS_MAX];
    end ends[WORKERS_MAX];
    uint64_t deadline_ns, wait_ns;
    bool same_device; /* workers 0 and 1 */
    bool other_shape; /* the last worker thinks of another one */
    pthread_mutex_t lock;
    letter *kept, **last; /* until all objects are there */
    bool open;
    uint32_t deaf; /* a worker to which nothing is carried any more; else WORKERS_MAX */
} party;

static int carry(void *user, uint32_t to, const void *bytes, size_t len) {
    const end *from = user;
    party *p = from->of;
    CHECK(len <= UVCC_NCCL_MESSAGE_BYTES && to < p->count && to != from->rank);
    (void)pthread_mutex_lock(&p->lock);
    const bool open = p->open, drop = to == p->deaf;
    if (!open) {
        letter *l = calloc(1, sizeof *l);
        CHECK(l != NULL);
        l->from = from->rank;
        l->to = to;
        l->len = len;
        memcpy(l->bytes, bytes, len);
        *p->last = l;
        p->last = &l->next;
    }
    (void)pthread_mutex_unlock(&p->lock);
    return open && !drop ? uvcc_nccl_heard(p->of[to], from->rank, bytes, len) : 0;
}

static unsigned parties_open;

static uvcc_nccl_config config(party *p, uint32_t rank) {
    p->ends[rank] = (end){p, rank};
    return (uvcc_nccl_config){.size = sizeof(uvcc_nccl_config),
                              .alloc = {count_alloc, count_free, NULL},
                              .log = {write_log, NULL},
                              .replicas = p->replicas,
                              .stages = p->stages,
                              .tp_ranks = p->tp_ranks,
                              .local_rank = rank,
                              .device = p->same_device && rank == 1 ? 0 : rank,
                              .deadline_ns = p->deadline_ns,
                              .wait_ns = p->wait_ns,
                              .send = carry,
                              .send_user = &p->ends[rank],
                              .wake = wake,
                              .wake_user = &woken};
}

static void party_open(party *p) {
    p->count = (uint32_t)p->replicas * p->stages * p->tp_ranks;
    p->last = &p->kept;
    p->deaf = WORKERS_MAX;
    parties_open++;
    (void)pthread_mutex_init(&p->lock, NULL);
    for (uint32_t r = 0; r < p->count; r++) {
        uvcc_nccl_config cfg = config(p, r);
        if (p->other_shape && r + 1 == p->count)
            cfg.replicas++;
        CHECK(uvcci_nccl_new(&p->of[r], &cfg, lab_back_end) == 0);
    }
    /* what came meanwhile, in its order; the lock keeps what comes now behind it */
    (void)pthread_mutex_lock(&p->lock);
    while (p->kept != NULL) {
        letter *l = p->kept;
        p->kept = l->next;
        CHECK(uvcc_nccl_heard(p->of[l->to], l->from, l->bytes, l->len) == 0);
        free(l);
    }
    p->open = true;
    (void)pthread_mutex_unlock(&p->lock);
}

static void party_free(party *p) {
    for (uint32_t r = 0; r < p->count; r++)
        uvcc_nccl_close(p->of[r]);
    for (uint32_t r = 0; r < p->count; r++)
        uvcc_nccl_free(p->of[r]);
    (void)pthread_mutex_destroy(&p->lock);
    CHECK(--parties_open != 0 || live == 0);
}

static int next_status(uvcc_nccl *n, uint64_t *id) {
    uvcc_completion d;
    while (uvcc_nccl_poll(n, &d) != 1)
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
    uint64_t *words[4]; /* in lo, in hi, out lo, out hi; on the device */
    size_t in, out;     /* words of a component */
    bool pinned;
} operation;

typedef struct plan {
    uint8_t op, group, phase;
    uint16_t mb, k;
    uint32_t step;
    uint64_t elems;
    bool additive;
} plan;

static uint32_t group_size(const party *p, uint8_t group) {
    return group == UVCC_GROUP_TP   ? p->tp_ranks
           : group == UVCC_GROUP_PP ? p->stages
           : group == UVCC_GROUP_DP ? p->replicas
                                    : (uint32_t)p->replicas * p->tp_ranks;
}

/* A SEND at the one end is a RECV at the other; false: it is neither. */
static bool has_part(const party *p, const plan *l, uint32_t rank, uint8_t *op) {
    const uint32_t stage = rank / p->tp_ranks % p->stages;
    const uint32_t sender = l->phase == UVCC_FWD ? l->k : l->k + 1u; /* of the pair k, k + 1 */
    *op = l->op;
    if (l->op != UVCC_COLLECTIVE_SEND)
        return true;
    *op = stage == sender ? UVCC_COLLECTIVE_SEND : UVCC_COLLECTIVE_RECV;
    return stage == l->k || stage == l->k + 1u;
}

/* on: whether operands lie where the back end reaches them; else in plain memory, for the
 * comparison. */
static void operation_init(const party *p, operation *o, const plan *l, uint32_t rank,
                           uint64_t seed, bool on) {
    const uint32_t n = group_size(p, l->group);
    uint8_t op;
    memset(o, 0, sizeof *o);
    (void)has_part(p, l, rank, &op);
    o->in = o->out = l->elems;
    if (op == UVCC_COLLECTIVE_REDUCE_SCATTER)
        o->out /= n;
    else if (op == UVCC_COLLECTIVE_ALL_GATHER)
        o->in /= n;
    uint64_t state = seed * 1000003u + rank * 7919u + l->mb * 31u + l->step * 131071u + l->k * 17u +
                     l->group * 5u;
    o->pinned = draw(&state) % 3 == 0;
    for (unsigned i = 0; i < 4; i++) {
        const size_t words = i < 2 ? o->in : o->out;
        uint64_t *at = malloc((words + 1) * sizeof *at);
        CHECK(at != NULL);
        for (size_t e = 0; e <= words; e++)
            at[e] = i < 2 ? draw(&state) : 0xEEEE;
        o->words[i] = at;
        if (!on)
            continue;
        o->words[i] = lab_take(p->same_device ? 0 : rank, (words + 1) * sizeof *at, o->pinned);
        lab_write(o->words[i], at, (words + 1) * sizeof *at);
        free(at);
    }
    o->task.kind = UVCC_TASK_COLLECTIVE;
    o->task.u.collective.op = op;
    o->task.u.collective.group = l->group;
    o->task.u.collective.phase = l->phase;
    o->task.u.collective.mb = l->mb;
    o->task.u.collective.k = l->op == UVCC_COLLECTIVE_SEND ? (uint16_t)(100 + rank) : l->k;
    o->task.u.collective.step = l->step;
    o->task.u.collective.elems = l->elems;
    if (op != UVCC_COLLECTIVE_RECV)
        o->task.u.collective.in = (uvcc_shares){o->words[0], l->additive ? NULL : o->words[1]};
    if (op != UVCC_COLLECTIVE_SEND)
        o->task.u.collective.out = (uvcc_shares){o->words[2], l->additive ? NULL : o->words[3]};
    o->job = (uvcc_job){.tasks = &o->task, .count = 1, .plane = UVCC_PLANE_LOCAL, .cookie = 7};
}

static void operation_free(operation *o, bool on) {
    for (unsigned i = 0; i < 4; i++)
        if (on)
            lab_give(o->words[i], o->pinned);
        else
            free(o->words[i]);
}

/* What uvcc_collective gives with the same inputs is what the workers of `mask` have. */
static void compare(const party *p, const plan *l, operation *const at[WORKERS_MAX], uint64_t seed,
                    unsigned mask) {
    uvcc_collective *c;
    operation of[WORKERS_MAX];
    uint8_t op;
    const uvcc_collective_config cfg = {.size = sizeof cfg,
                                        .alloc = uvcc_host_allocator(),
                                        .replicas = p->replicas,
                                        .stages = p->stages,
                                        .tp_ranks = p->tp_ranks};
    CHECK(uvcc_collective_new(&c, &cfg) == 0);
    for (uint32_t r = 0; r < p->count; r++) {
        operation_init(p, &of[r], l, r, seed, false);
        if (has_part(p, l, r, &op))
            CHECK(uvcc_collective_submit(c, r, &of[r].job) == 0);
    }
    for (uint32_t r = 0; r < p->count; r++) {
        if ((mask >> r & 1) == 0)
            continue;
        for (unsigned w = 0; w < 4; w++) {
            const size_t bytes = ((w < 2 ? of[r].in : of[r].out) + 1) * sizeof(uint64_t);
            uint64_t *got = malloc(bytes);
            CHECK(got != NULL);
            lab_read(got, at[r]->words[w], bytes);
            CHECK(memcmp(of[r].words[w], got, bytes) == 0);
            free(got);
        }
    }
    for (uint32_t r = 0; r < p->count; r++)
        operation_free(&of[r], false);
    CHECK(uvcc_collective_why(c) == NULL);
    uvcc_collective_free(c);
}

/* A schedule, the same at all ranks. */
static unsigned make_plans(const party *p, plan *plans, uint64_t seed) {
    uint64_t state = seed;
    unsigned count = 0;
    while (count < PLANS) {
        plan l = {
            .mb = (uint16_t)count, .step = (uint32_t)(1 + seed), .additive = draw(&state) % 2 == 0};
        const unsigned size = (unsigned)(draw(&state) % 4);
        const uint64_t slice = size == 0   ? draw(&state) % 4
                               : size == 1 ? 2 * (draw(&state) % 50) + 1
                               : size == 2 ? draw(&state) % 3000
                                           : 3000 + draw(&state) % 3000;
        if (draw(&state) % 3 == 0 && p->stages > 1) {
            l.op = UVCC_COLLECTIVE_SEND;
            l.group = UVCC_GROUP_PP;
            l.phase = draw(&state) % 2 == 0 ? UVCC_FWD : UVCC_BWD;
            l.k = (uint16_t)(draw(&state) % (p->stages - 1u)); /* between these stages */
            l.elems = slice;
        } else {
            l.op =
                draw(&state) % 2 == 0 ? UVCC_COLLECTIVE_REDUCE_SCATTER : UVCC_COLLECTIVE_ALL_GATHER;
            l.group = (uint8_t)(draw(&state) % 4);
            l.phase = (uint8_t)(draw(&state) % 3);
            l.k = (uint16_t)(draw(&state) % 5);
            l.elems = slice * group_size(p, l.group);
        }
        plans[count++] = l;
    }
    return count;
}

typedef struct schedule {
    plan plans[PLANS];
    operation ops[WORKERS_MAX][PLANS];
    unsigned order[WORKERS_MAX][PLANS], mine[WORKERS_MAX], count;
} schedule;

static void schedule_init(const party *p, schedule *s, uint64_t seed) {
    uint8_t op;
    memset(s, 0, sizeof *s);
    s->count = make_plans(p, s->plans, seed);
    for (uint32_t r = 0; r < p->count; r++) {
        uint64_t state = seed * 77 + r;
        for (unsigned i = 0; i < s->count; i++) {
            operation_init(p, &s->ops[r][i], &s->plans[i], r, seed, true);
            s->ops[r][i].job.id = 500 + i;
            if (has_part(p, &s->plans[i], r, &op))
                s->order[r][s->mine[r]++] = i;
        }
        for (unsigned i = s->mine[r]; i > 1; i--) {
            const unsigned j = (unsigned)(draw(&state) % i), x = s->order[r][i - 1];
            s->order[r][i - 1] = s->order[r][j];
            s->order[r][j] = x;
        }
    }
}

static void schedule_free(const party *p, schedule *s) {
    for (uint32_t r = 0; r < p->count; r++)
        for (unsigned i = 0; i < s->count; i++)
            operation_free(&s->ops[r][i], true);
}

static void schedule_compare(const party *p, schedule *s, uint64_t seed) {
    for (unsigned i = 0; i < s->count; i++) {
        operation *at[WORKERS_MAX];
        unsigned mask = 0;
        uint8_t op;
        for (uint32_t r = 0; r < p->count; r++) {
            at[r] = &s->ops[r][i];
            mask |= (unsigned)has_part(p, &s->plans[i], r, &op) << r;
        }
        compare(p, &s->plans[i], at, seed, mask);
    }
}

/* Workers of so many parties of one shape submit in orders of their own, by turns that are drawn,
 * and hear completions between. Returns how many there were. */
static unsigned run_all(party *p, unsigned parties, uint64_t seed) {
    schedule *s[PARTIES];
    unsigned given[PARTIES][WORKERS_MAX] = {0}, had[PARTIES][WORKERS_MAX] = {0}, left = 0;
    uint64_t state = seed * 91;
    for (unsigned i = 0; i < parties; i++) {
        s[i] = malloc(sizeof *s[i]);
        CHECK(s[i] != NULL);
        schedule_init(&p[i], s[i], seed + 1000 * i);
        for (uint32_t r = 0; r < p[i].count; r++)
            left += s[i]->mine[r];
    }
    for (unsigned submitted = 0; submitted < left;) {
        const unsigned i = (unsigned)(draw(&state) % parties);
        const uint32_t r = (uint32_t)(draw(&state) % p[i].count);
        uvcc_completion d;
        if (given[i][r] < s[i]->mine[r]) {
            CHECK(uvcc_nccl_submit(p[i].of[r], &s[i]->ops[r][s[i]->order[r][given[i][r]]].job) ==
                  0);
            given[i][r]++;
            submitted++;
        }
        if (draw(&state) % 3 == 0 && uvcc_nccl_poll(p[i].of[r], &d) == 1) {
            CHECK(d.status == 0);
            had[i][r]++;
        }
    }
    for (unsigned i = 0; i < parties; i++) {
        for (uint32_t r = 0; r < p[i].count; r++) {
            for (; had[i][r] < s[i]->mine[r]; had[i][r]++) {
                uint64_t id;
                CHECK(next_status(p[i].of[r], &id) == 0);
                CHECK(id >= 500 && id < 500 + s[i]->count);
            }
            CHECK(uvcc_nccl_pending(p[i].of[r]) == 0);
        }
    }
    for (unsigned i = 0; i < parties; i++) {
        schedule_compare(&p[i], s[i], seed + 1000 * i);
        schedule_free(&p[i], s[i]);
        free(s[i]);
    }
    return left;
}

static void run_plans(party *p, uint64_t seed) {
    (void)run_all(p, 1, seed);
}

/* Operations of a worker with itself, which take some time. */
static void run_alone(party *p, uint32_t rank) {
    const plan l = {
        .op = UVCC_COLLECTIVE_ALL_GATHER, .group = UVCC_GROUP_TP, .step = 500, .elems = 1000};
    for (uint16_t i = 0; i < 200; i++) {
        operation o;
        operation_init(p, &o, &l, rank, 1, true);
        o.task.u.collective.mb = i;
        CHECK(uvcc_nccl_submit(p->of[rank], &o.job) == 0);
        CHECK(next_status(p->of[rank], NULL) == 0);
        operation_free(&o, true);
    }
}

static const struct {
    uint16_t replicas, stages, tp_ranks;
} shapes[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 1, 2},
              {1, 4, 1}, {2, 2, 1}, {1, 2, 2}, {4, 1, 2}, {2, 2, 2}};

static void test_operations(void) {
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        party p = {.replicas = shapes[i].replicas,
                   .stages = shapes[i].stages,
                   .tp_ranks = shapes[i].tp_ranks};
        if ((uint32_t)p.replicas * p.stages * p.tp_ranks > devices)
            continue;
        party_open(&p);
        for (uint64_t seed = 1; seed <= seeds; seed++)
            run_plans(&p, seed);
        for (uint32_t r = 0; r < p.count; r++) {
            CHECK(uvcc_nccl_why(p.of[r], NULL, NULL, NULL) == 0);
            CHECK(uvcc_nccl_joined(p.of[r]) == 1);
            CHECK(uvcc_nccl_over(p.of[r]) == 0);
        }
        for (uint32_t r = 0; r < p.count; r++)
            uvcc_nccl_close(p.of[r]);
        for (uint32_t r = 0; r < p.count; r++)
            while (uvcc_nccl_over(p.of[r]) != 1)
                wait_for_wake();
        party_free(&p);
        (void)printf("equal: %u x %u x %u\n", p.replicas, p.stages, p.tp_ranks);
    }
}

/* ---- refusals ---- */

static const plan stage_sum = {.op = UVCC_COLLECTIVE_REDUCE_SCATTER,
                               .group = UVCC_GROUP_STAGE,
                               .mb = 3,
                               .k = 5,
                               .step = 9,
                               .elems = 24};

static void expect_failed(party *p, uint32_t code, const char *text);

static void test_refusals(void) {
    party p = {.replicas = 2, .stages = 1, .tp_ranks = 1, .count = 2};
    uvcc_nccl *n = NULL;
    uvcc_nccl_config cfg = config(&p, 0);
    cfg.local_rank = 2;
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == UVCC_ERR_CONFIG);
    CHECK(strstr(logged, "no worker of that local rank") != NULL);
    cfg = config(&p, 0);
    cfg.stages = 257;
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == UVCC_ERR_CONFIG);
    cfg = config(&p, 0);
    cfg.device = 99;
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == UVCC_ERR_CONFIG);
    CHECK(strstr(logged, "there is no CUDA device 99") != NULL);
    cfg = config(&p, 0);
    cfg.send = NULL;
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == UVCC_ERR_USAGE);
    CHECK(live == 0);
    party_open(&p);
    operation o, other;
    operation_init(&p, &o, &stage_sum, 0, 1, true);
    operation_init(&p, &other, &stage_sum, 1, 1, true);
    uvcc_job wrong = o.job;
    wrong.plane = UVCC_PLANE_COMPUTE;
    CHECK(uvcc_nccl_submit(p.of[0], &wrong) == UVCC_ERR_USAGE);
    uvcc_task t = o.task;
    wrong = o.job;
    wrong.tasks = &t;
    t.u.collective.group = 4;
    CHECK(uvcc_nccl_submit(p.of[0], &wrong) == UVCC_ERR_USAGE);
    t = o.task;
    t.u.collective.op = UVCC_COLLECTIVE_SEND; /* no neighbour: there is one stage */
    CHECK(uvcc_nccl_submit(p.of[0], &wrong) == UVCC_ERR_USAGE);
    t.u.collective.op = 9;
    CHECK(uvcc_nccl_submit(p.of[0], &wrong) == UVCC_ERR_USAGE);
    t = o.task;
    t.u.collective.out.hi = NULL;
    t.u.collective.in.lo = NULL;
    CHECK(uvcc_nccl_submit(p.of[0], &wrong) == UVCC_ERR_USAGE);
    CHECK(strstr(logged, "operand") != NULL);
    CHECK(uvcc_nccl_pending(p.of[0]) == 0);
    /* one name twice */
    CHECK(uvcc_nccl_submit(p.of[0], &o.job) == 0);
    CHECK(uvcc_nccl_submit(p.of[0], &o.job) == UVCC_ERR_USAGE);
    CHECK(uvcc_nccl_pending(p.of[0]) == 1);
    CHECK(uvcc_nccl_submit(p.of[1], &other.job) == 0);
    CHECK(next_status(p.of[0], NULL) == 0 && next_status(p.of[1], NULL) == 0);
    /* letters that are none */
    uint8_t bytes[UVCC_NCCL_MESSAGE_BYTES] = {0};
    CHECK(uvcc_nccl_heard(p.of[0], 2, bytes, sizeof(uvcci_nccl_message)) == UVCC_ERR_USAGE);
    CHECK(uvcc_nccl_heard(p.of[0], 1, bytes, 5) == UVCC_ERR_USAGE);
    bytes[offsetof(uvcci_nccl_message, tag) + offsetof(uvcc_collective_tag, additive)] = 2;
    CHECK(uvcc_nccl_heard(p.of[0], 1, bytes, sizeof(uvcci_nccl_message)) == UVCC_ERR_USAGE);
    memset(bytes, 0, sizeof bytes);
    CHECK(uvcc_nccl_heard(p.of[0], 1, bytes, sizeof(uvcci_nccl_message)) == 0);
    expect_failed(&p, 0, "a message that this version does not know");
    operation_free(&o, true);
    operation_free(&other, true);
    party_free(&p);
}

/* ---- disagreement and failure ---- */

/* All workers have failed, with this reason; what comes later fails too. */
static void expect_failed(party *p, uint32_t code, const char *text) {
    for (uint32_t r = 0; r < p->count; r++) {
        char why[UVCC_NCCL_WHY_BYTES];
        uint32_t rank, got;
        while (uvcc_nccl_why(p->of[r], &rank, &got, why) != 1)
            wait_for_wake();
        if (text != NULL && (strstr(why, text) == NULL || got != code || rank >= p->count)) {
            (void)fprintf(stderr, "worker %u: %u at %u: %s\n", r, got, rank, why);
            CHECK(!"the reason");
        }
        operation o;
        operation_init(p, &o, &stage_sum, r, 1, true);
        o.task.u.collective.step = 77;
        CHECK(uvcc_nccl_submit(p->of[r], &o.job) == 0);
        CHECK(next_status(p->of[r], NULL) == UVCC_ERR_JOB);
        CHECK(uvcc_nccl_joined(p->of[r]) == 0);
        operation_free(&o, true);
    }
}

/* All workers submit, those of `mask` something else; all fail with one reason. */
static void disagree(party p, const plan *common, const plan *other, unsigned mask, bool backward,
                     const char *text) {
    operation o[WORKERS_MAX];
    uint8_t op;
    party_open(&p);
    for (uint32_t i = 0; i < p.count; i++) {
        const uint32_t r = backward ? p.count - 1 - i : i;
        operation_init(&p, &o[r], mask >> r & 1 ? other : common, r, 1, true);
        if (has_part(&p, common, r, &op))
            CHECK(uvcc_nccl_submit(p.of[r], &o[r].job) == 0);
    }
    unsigned failed = 0;
    for (uint32_t r = 0; r < p.count; r++)
        if (has_part(&p, common, r, &op))
            failed += next_status(p.of[r], NULL) == UVCC_ERR_JOB;
    CHECK(failed != 0);
    expect_failed(&p, 0, text);
    for (uint32_t r = 0; r < p.count; r++)
        operation_free(&o[r], true);
    party_free(&p);
}

static void hears(uvcc_nccl *n, uint8_t kind, const uvcci_nccl_hello *h) {
    uvcci_nccl_message m = {.kind = kind};
    if (h != NULL)
        memcpy(m.body, h, sizeof *h);
    CHECK(uvcc_nccl_heard(n, 1, &m, sizeof m) == 0);
}

/* Worker 1 is of another version of uvcc, whose messages have the same form. */
static void other_version(void) {
    const uvcci_nccl_hello before = {
        .version = 1, .replicas = 2, .stages = 1, .tp_ranks = 1, .device = {1}};
    party p = {.replicas = 2, .stages = 1, .tp_ranks = 1, .count = 2, .deaf = 1, .open = true};
    uvcc_nccl *n = NULL;
    const uvcc_nccl_config cfg = config(&p, 0);
    char why[UVCC_NCCL_WHY_BYTES];
    uint32_t rank = 0;
    (void)pthread_mutex_init(&p.lock, NULL);
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == 0);
    hears(n, UVCCI_NCCL_HELLO, &before);
    while (uvcc_nccl_why(n, &rank, NULL, why) != 1)
        wait_for_wake();
    CHECK(rank == 1 && strcmp(why, "worker 1 is one of 2 x 1 x 1 (version 1), worker 0 of "
                                   "2 x 1 x 1 (version 2)") == 0);
    hears(n, UVCCI_NCCL_BYE, NULL);
    uvcc_nccl_free(n);
    (void)pthread_mutex_destroy(&p.lock);
    CHECK(live == 0);
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
    const party two = {.replicas = 2, .stages = 1, .tp_ranks = 1},
                line = {.replicas = 1, .stages = 2, .tp_ranks = 1};
    for (unsigned back = 0; back < 2; back++) {
        disagree(two, &sum, &gather, 2, back, "members of a group are at different operations");
        disagree(two, &sum, &size, 2, back, "members of a group have tensors of different sizes");
        disagree(two, &sum, &additive, 1, back,
                 "members of a group share their tensors in different ways");
        disagree(two, &uneven, &uneven, 0, back,
                 "a tensor cannot be cut into one slice for each member of its group");
        disagree(line, &send, &small, 2, back,
                 "members of a group have tensors of different sizes");
        disagree(line, &send, &thin, 1, back,
                 "members of a group share their tensors in different ways");
    }
    /* before they join: two on one device, and workers of different parties */
    party same = two, shape = two;
    same.same_device = true;
    party_open(&same);
    expect_failed(&same, 0, "workers 0 and 1 are on the same device: NCCL takes one worker");
    party_free(&same);
    shape.other_shape = true;
    party_open(&shape);
    expect_failed(&shape, 0, "worker 1 is one of 3 x 1 x 1 (version 2), worker 0 of 2 x 1 x 1");
    party_free(&shape);
    other_version();
}

/* Many operations are under way when one worker gives up: what was said to be right is right. */
static void fail_once(party p, uint64_t seed) {
    schedule *s = malloc(sizeof *s);
    CHECK(s != NULL);
    party_open(&p);
    schedule_init(&p, s, seed);
    const uint32_t gone = (uint32_t)(seed % p.count);
    uint64_t state = seed * 77;
    unsigned submitted[WORKERS_MAX] = {0}, ok[PLANS] = {0};
    for (unsigned i = 0; i < s->count; i++)
        for (uint32_t r = 0; r < p.count; r++) {
            if (i == s->count / 2 && r == gone)
                uvcc_nccl_fail(p.of[r], 75, seed % 2 == 0 ? "the peer has restarted" : NULL);
            if (i < s->mine[r] && draw(&state) % 8 != 0) {
                CHECK(uvcc_nccl_submit(p.of[r], &s->ops[r][s->order[r][i]].job) == 0);
                submitted[r]++;
            }
        }
    for (uint32_t r = 0; r < p.count; r++)
        for (; submitted[r] != 0; submitted[r]--) {
            uint64_t id;
            const int status = next_status(p.of[r], &id);
            CHECK(status == 0 || status == UVCC_ERR_JOB);
            if (status == 0)
                ok[id - 500] |= 1u << r;
        }
    for (unsigned i = 0; i < s->count; i++) {
        operation *at[WORKERS_MAX];
        for (uint32_t r = 0; r < p.count; r++)
            at[r] = &s->ops[r][i];
        compare(&p, &s->plans[i], at, seed, ok[i]);
    }
    uint32_t rank;
    expect_failed(&p, 75,
                  seed % 2 == 0 ? "the peer has restarted" : "a worker of the party is gone");
    CHECK(uvcc_nccl_why(p.of[0], &rank, NULL, NULL) == 1 && rank == gone);
    schedule_free(&p, s);
    free(s);
    party_free(&p);
}

static void test_failure(void) {
    const party two = {.replicas = 2, .stages = 1, .tp_ranks = 1},
                line = {.replicas = 1, .stages = 2, .tp_ranks = 1},
                all = {.replicas = 2, .stages = 2, .tp_ranks = 2};
    for (uint64_t seed = 0; seed < (devices >= 8 ? 16 : 6); seed++)
        fail_once(devices >= 8 ? all : seed % 2 == 0 ? two : line, seed);
    /* at once: nobody has joined */
    party p = two;
    party_open(&p);
    uvcc_nccl_fail(p.of[1], 3, "no");
    expect_failed(&p, 3, "no");
    party_free(&p);
    /* a worker closes that others wait for, one that waits itself, and one that others will wait
     * for */
    for (unsigned turn = 0; turn < 3; turn++) {
        const uint32_t own = turn == 1;
        operation o;
        p = two;
        party_open(&p);
        operation_init(&p, &o, &stage_sum, own, 1, true);
        if (turn == 2) {
            run_plans(&p, 1); /* both have joined */
            uvcc_nccl_close(p.of[1]);
            run_alone(&p, 0);
        }
        CHECK(uvcc_nccl_submit(p.of[own], &o.job) == 0);
        uvcc_nccl_close(p.of[1]);
        CHECK(next_status(p.of[own], NULL) == UVCC_ERR_JOB);
        expect_failed(&p, 0,
                      own == 1 ? "a worker of the party is gone"
                               : "a worker of the party has left before an operation");
        operation_free(&o, true);
        party_free(&p);
    }
}

static void set_deaf(party *p, uint32_t rank) {
    (void)pthread_mutex_lock(&p->lock);
    p->deaf = rank;
    (void)pthread_mutex_unlock(&p->lock);
}

/* A worker hears nothing any more, so an operation begins without it, on the other device: nobody
 * hangs. */
static void deaf(party p) {
    operation o[2];
    p.deadline_ns = 2 * SECOND;
    p.wait_ns = 3 * SECOND;
    party_open(&p);
    run_plans(&p, 1);
    set_deaf(&p, 1);
    for (uint32_t r = 0; r < 2; r++) {
        operation_init(&p, &o[r], &stage_sum, r, 1, true);
        CHECK(uvcc_nccl_submit(p.of[r], &o[r].job) == 0);
    }
    for (uint32_t r = 0; r < 2; r++)
        CHECK(next_status(p.of[r], NULL) == UVCC_ERR_JOB);
    expect_failed(&p, 0, "");
    for (uint32_t r = 0; r < 2; r++)
        operation_free(&o[r], true);
    party_free(&p);
}

/* The device of a worker fails, or does not come to an end. */
static void broken(party p, uint32_t rank, bool hang) {
    operation o[2];
    p.deadline_ns = hang ? SECOND : 0;
    party_open(&p);
    run_plans(&p, 1);
    CHECK(lab_break(rank, hang ? LAB_HANGS : LAB_FAILS));
    for (uint32_t r = 0; r < 2; r++) {
        operation_init(&p, &o[r], &stage_sum, r, 1, true);
        CHECK(uvcc_nccl_submit(p.of[r], &o[r].job) == 0);
    }
    for (uint32_t r = 0; r < 2; r++)
        CHECK(next_status(p.of[r], NULL) == UVCC_ERR_JOB);
    expect_failed(&p, 0, hang ? "an operation missed its deadline" : "the device is on fire");
    for (uint32_t r = 0; r < 2; r++)
        operation_free(&o[r], true);
    party_free(&p);
}

static void test_broken(void) {
    const party two = {.replicas = 2, .stages = 1, .tp_ranks = 1};
    deaf(two);
    for (uint32_t rank = 0; rank < 2 && lab_can_break(); rank++) {
        broken(two, rank, false);
        broken(two, rank, true);
    }
    /* a worker that never comes */
    party p = two;
    uvcc_nccl *n = NULL;
    p.count = 2;
    uvcc_nccl_config cfg = config(&p, 0);
    cfg.deadline_ns = SECOND;
    (void)pthread_mutex_init(&p.lock, NULL);
    p.deaf = 1;
    p.open = true;
    CHECK(uvcci_nccl_new(&n, &cfg, lab_back_end) == 0);
    while (uvcc_nccl_why(n, NULL, NULL, NULL) != 1)
        wait_for_wake();
    uvcc_nccl_free(n);
    (void)pthread_mutex_destroy(&p.lock);
    CHECK(live == 0);
}

/* ---- several parties on the same devices ---- */

/* A host that takes memory of devices again and again, while parties work on them. */
typedef struct taker {
    uint32_t devices;
    atomic_bool over;
} taker;

static void *take_memory(void *arg) {
    taker *t = arg;
    for (uint32_t i = 0; !atomic_load(&t->over); i++) {
        uvcc_nccl_pause();
        lab_memory_call(i % t->devices);
        uvcc_nccl_resume();
        (void)sched_yield();
    }
    return NULL;
}

/* In drawn orders, and each party's end while the others go on. */
static void test_parties(void) {
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        party p[PARTIES];
        unsigned operations = 0;
        for (unsigned k = 0; k < PARTIES; k++)
            p[k] = (party){.replicas = shapes[i].replicas,
                           .stages = shapes[i].stages,
                           .tp_ranks = shapes[i].tp_ranks};
        if ((uint32_t)p[0].replicas * p[0].stages * p[0].tp_ranks > devices)
            continue;
        for (unsigned k = 0; k < PARTIES; k++)
            party_open(&p[k]);
        taker t = {.devices = p[0].count};
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take_memory, &t) == 0);
        for (uint64_t seed = 1; seed <= (seeds + 1) / 2; seed++)
            operations += run_all(p, PARTIES, seed);
        atomic_store(&t.over, true);
        (void)pthread_join(thread, NULL);
        for (unsigned k = 0; k < PARTIES; k++) {
            party_free(&p[k]);
            if (k + 1 < PARTIES)
                operations += run_all(&p[k + 1], PARTIES - k - 1, seeds + 1);
        }
        (void)printf("equal: %u parties of %u x %u x %u, %u operations of workers\n", PARTIES,
                     p[0].replicas, p[0].stages, p[0].tp_ranks, operations);
    }
}

typedef struct common_sum {
    party *of;
    operation o[WORKERS_MAX];
} common_sum;

static void sum_begin(common_sum *s, party *p) {
    s->of = p;
    for (uint32_t r = 0; r < p->count; r++) {
        operation_init(p, &s->o[r], &stage_sum, r, 1, true);
        CHECK(uvcc_nccl_submit(p->of[r], &s->o[r].job) == 0);
    }
}

static void sum_end(common_sum *s, int status) {
    operation *at[WORKERS_MAX];
    for (uint32_t r = 0; r < s->of->count; r++) {
        CHECK(next_status(s->of->of[r], NULL) == status);
        at[r] = &s->o[r];
    }
    if (status == 0)
        compare(s->of, &stage_sum, at, 1, (1u << s->of->count) - 1);
    for (uint32_t r = 0; r < s->of->count; r++)
        operation_free(&s->o[r], true);
}

enum { HELD, NEXT, LAST };

static void turns_open(party p[PARTIES], uint64_t held_deadline_ns) {
    for (unsigned i = 0; i < PARTIES; i++) {
        p[i] = (party){.replicas = 3,
                       .stages = 1,
                       .tp_ranks = 1,
                       .deadline_ns = i == HELD ? held_deadline_ns : 0};
        party_open(&p[i]);
        run_plans(&p[i], 1); /* all have joined */
    }
}

/* The operation of the first party is not begun at `rank`, so the turn stays with it. */
static unsigned hold(party p[PARTIES], common_sum *s, uint32_t rank) {
    CHECK(lab_break(rank, LAB_HELD));
    sum_begin(s, &p[HELD]);
    return lab_await_held();
}

static void await_line(void) {
    while (!uvcci_nccl_turn_wanted())
        (void)sched_yield();
}

/* Who has the turn does not keep it with more and more operations. */
static void turn_goes_on(void) {
    const plan more = {.op = UVCC_COLLECTIVE_ALL_GATHER, .group = UVCC_GROUP_STAGE, .step = 10};
    party p[PARTIES];
    common_sum s[2];
    operation o[3];
    turns_open(p, 0);
    for (unsigned i = 0; i < 10; i++) {
        const unsigned held = hold(p, &s[HELD], 2);
        sum_begin(&s[NEXT], &p[NEXT]);
        await_line();
        for (uint32_t r = 0; r < 3; r++) {
            operation_init(&p[HELD], &o[r], &more, r, 1, true);
            CHECK(uvcc_nccl_submit(p[HELD].of[r], &o[r].job) == 0);
        }
        CHECK(lab_break(2, LAB_HELD));
        lab_let_begin();
        CHECK(lab_await_held() != held);
        lab_let_begin();
        sum_end(&s[NEXT], 0);
        sum_end(&s[HELD], 0);
        for (uint32_t r = 0; r < 3; r++) {
            CHECK(next_status(p[HELD].of[r], NULL) == 0);
            operation_free(&o[r], true);
        }
    }
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
}

/* Others wait for the turn of a party whose operation does not begin at `rank` in time. */
static void turn_ends_by_deadline(uint32_t rank) {
    party p[PARTIES];
    common_sum s[PARTIES];
    turns_open(p, SECOND);
    (void)hold(p, &s[HELD], rank);
    sum_begin(&s[NEXT], &p[NEXT]);
    sum_begin(&s[LAST], &p[LAST]);
    sum_end(&s[HELD], UVCC_ERR_JOB);
    sum_end(&s[NEXT], 0);
    sum_end(&s[LAST], 0);
    expect_failed(&p[HELD], 0, "");
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
}

/* Worker 0 does not hear that an operation has begun, and nobody else is missing anything. */
static void turn_ends_unheard(void) {
    party p[PARTIES];
    common_sum s[PARTIES];
    turns_open(p, 3 * SECOND);
    (void)hold(p, &s[HELD], 2);
    sum_begin(&s[NEXT], &p[NEXT]);
    set_deaf(&p[HELD], 0);
    lab_let_begin();
    sum_end(&s[NEXT], 0);
    sum_end(&s[HELD], 0);
    expect_failed(&p[HELD], 0, "a worker did not begin an operation in time");
    set_deaf(&p[HELD], WORKERS_MAX);
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
}

/* The device of a worker fails, or does not come to an end, while others wait behind it. */
static void turn_ends_by_device(uint32_t rank, bool hang) {
    party p[PARTIES];
    common_sum s[PARTIES];
    turns_open(p, hang ? SECOND : 0);
    CHECK(lab_break(rank, hang ? LAB_HANGS : LAB_FAILS));
    sum_begin(&s[HELD], &p[HELD]);
    sum_end(&s[HELD], UVCC_ERR_JOB);
    sum_begin(&s[NEXT], &p[NEXT]);
    sum_begin(&s[LAST], &p[LAST]);
    sum_end(&s[NEXT], 0);
    sum_end(&s[LAST], 0);
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
}

/* A failure that is none of devices: what was told to begin comes to its end before others. */
static void turn_outlives_failure(uint32_t rank, uint32_t gone) {
    party p[PARTIES];
    common_sum s[PARTIES];
    turns_open(p, 0);
    (void)hold(p, &s[HELD], rank);
    sum_begin(&s[NEXT], &p[NEXT]);
    uvcc_nccl_fail(p[HELD].of[gone], 5, "enough");
    while (uvcc_nccl_why(p[HELD].of[0], NULL, NULL, NULL) != 1)
        wait_for_wake();
    sum_begin(&s[LAST], &p[LAST]);
    lab_let_begin();
    sum_end(&s[HELD], 0);
    sum_end(&s[NEXT], 0);
    sum_end(&s[LAST], 0);
    expect_failed(&p[HELD], 5, "enough");
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
}

/* A party that stands in line closes or fails, and is there no more when the turn comes, or still
 * is: it goes past it. */
static void leaves_the_line(bool closes, bool goes, uint32_t rank) {
    party p[PARTIES];
    common_sum s[PARTIES];
    turns_open(p, 0);
    (void)hold(p, &s[HELD], 2);
    sum_begin(&s[NEXT], &p[NEXT]);
    await_line();
    sum_begin(&s[LAST], &p[LAST]);
    if (closes)
        uvcc_nccl_close(p[NEXT].of[rank]);
    else
        uvcc_nccl_fail(p[NEXT].of[rank], 5, NULL);
    sum_end(&s[NEXT], UVCC_ERR_JOB);
    expect_failed(&p[NEXT], closes ? 0 : 5, "a worker of the party is gone");
    if (goes) { /* another one in its place, which does not come to joining */
        party_free(&p[NEXT]);
        p[NEXT] = (party){.replicas = 3, .stages = 1, .tp_ranks = 1};
        party_open(&p[NEXT]);
        uvcc_nccl_fail(p[NEXT].of[rank], 6, "no");
        expect_failed(&p[NEXT], 6, "no");
    }
    lab_let_begin();
    sum_end(&s[HELD], 0);
    sum_end(&s[LAST], 0);
    party_free(&p[HELD]);
    party_free(&p[NEXT]);
    run_plans(&p[LAST], 2);
    party_free(&p[LAST]);
}

static void *pause_once(void *both) {
    uvcc_nccl_pause();
    if (both != NULL) /* the other one is between the two as well */
        (void)pthread_barrier_wait(both);
    uvcc_nccl_resume();
    return NULL;
}

/* Pauses of one thread, and of several, are one: parties wait for the last of them, and nobody who
 * pauses for another one. A resume too many is none. */
static void pauses_overlap(void) {
    party p[PARTIES];
    common_sum s[2];
    pthread_t thread[2];
    pthread_barrier_t both;
    (void)pthread_barrier_init(&both, NULL, 2);
    turns_open(p, 0);
    for (unsigned i = 0; i < 3; i++) {
        uvcc_nccl_resume();
        uvcc_nccl_pause();
        uvcc_nccl_pause();
        sum_begin(&s[NEXT], &p[NEXT]);
        await_line();
        CHECK(pthread_create(&thread[0], NULL, pause_once, NULL) == 0);
        (void)pthread_join(thread[0], NULL);
        uvcc_nccl_resume();
        CHECK(uvcci_nccl_turn_wanted());
        uvcc_nccl_resume();
        sum_end(&s[NEXT], 0);
        /* they wait for a party, with another one behind or before them */
        (void)hold(p, &s[HELD], 2);
        for (unsigned k = 0; k < 2; k++)
            CHECK(pthread_create(&thread[k], NULL, pause_once, &both) == 0);
        await_line();
        sum_begin(&s[NEXT], &p[NEXT]);
        lab_let_begin();
        for (unsigned k = 0; k < 2; k++)
            (void)pthread_join(thread[k], NULL);
        sum_end(&s[HELD], 0);
        sum_end(&s[NEXT], 0);
    }
    for (unsigned i = 0; i < PARTIES; i++)
        party_free(&p[i]);
    (void)pthread_barrier_destroy(&both);
}

static void test_turns(void) {
    pauses_overlap();
    turn_goes_on();
    turn_ends_unheard();
    for (uint32_t rank = 0; rank < 3; rank += 2) {
        turn_ends_by_deadline(rank);
        turn_ends_by_device(rank, false);
        turn_ends_by_device(rank, true);
        for (uint32_t gone = 0; gone < 3; gone++)
            turn_outlives_failure(rank, gone);
        for (unsigned i = 0; i < 4; i++)
            leaves_the_line(i % 2 == 0, i / 2 == 0, rank);
    }
}

/* ---- a process for each worker ---- */

enum { SPLITS = 3 };

/* A worker's end of the socket that carries messages to the other one. */
typedef struct line {
    int fd;
    uint32_t rank;
    uvcc_nccl *n;
} line;

static int post(void *user, uint32_t to, const void *bytes, size_t len) {
    const line *l = user;
    CHECK(to == 1 - l->rank);
    return send(l->fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -1;
}

static void *read_line(void *arg) {
    line *l = arg;
    uint8_t bytes[UVCC_NCCL_MESSAGE_BYTES];
    for (;;) {
        const ssize_t len = recv(l->fd, bytes, sizeof bytes, 0);
        if (len <= 0)
            return NULL;
        CHECK(uvcc_nccl_heard(l->n, 1 - l->rank, bytes, (size_t)len) == 0);
    }
}

static void run_own_plans(party *p, uvcc_nccl *n, uint32_t rank, uint64_t seed) {
    plan plans[PLANS];
    operation ops[PLANS];
    unsigned order[PLANS], mine = 0;
    uint64_t state = seed * 77 + rank;
    uint8_t op;
    const unsigned count = make_plans(p, plans, seed);
    for (unsigned i = 0; i < count; i++) {
        operation_init(p, &ops[i], &plans[i], rank, seed, true);
        if (has_part(p, &plans[i], rank, &op))
            order[mine++] = i;
    }
    for (unsigned i = mine; i > 0; i--) {
        const unsigned j = (unsigned)(draw(&state) % i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
        CHECK(uvcc_nccl_submit(n, &ops[order[i - 1]].job) == 0);
    }
    for (unsigned i = 0; i < mine; i++)
        CHECK(next_status(n, NULL) == 0);
    for (unsigned i = 0; i < count; i++) {
        operation *at[WORKERS_MAX] = {0};
        at[rank] = &ops[i];
        compare(p, &plans[i], at, seed, (unsigned)has_part(p, &plans[i], rank, &op) << rank);
        operation_free(&ops[i], true);
    }
}

/* The last split ends with a worker that dies while the other waits for it. */
static void one_process(uint32_t rank, const int fd[SPLITS][2]) {
    static const uint16_t splits[SPLITS][3] = {{2, 1, 1}, {1, 2, 1}, {1, 1, 2}};
    for (unsigned i = 0; i < SPLITS; i++) {
        party p = {.replicas = splits[i][0],
                   .stages = splits[i][1],
                   .tp_ranks = splits[i][2],
                   .count = 2,
                   .deadline_ns = 5 * SECOND,
                   .wait_ns = 5 * SECOND};
        line l = {.fd = fd[i][rank], .rank = rank};
        pthread_t reader;
        uvcc_nccl_config cfg = config(&p, rank);
        (void)close(fd[i][1 - rank]); /* so that the other's end is seen */
        cfg.send = post;
        cfg.send_user = &l;
        CHECK(uvcci_nccl_new(&l.n, &cfg, lab_back_end) == 0);
        CHECK(pthread_create(&reader, NULL, read_line, &l) == 0);
        for (uint64_t seed = 1; seed <= 3; seed++)
            run_own_plans(&p, l.n, rank, seed);
        if (i + 1 == SPLITS && rank == 1)
            _exit(0);
        if (i + 1 == SPLITS) {
            operation o;
            plan sum = stage_sum;
            operation_init(&p, &o, &sum, rank, 1, true);
            CHECK(uvcc_nccl_submit(l.n, &o.job) == 0);
            CHECK(next_status(l.n, NULL) == UVCC_ERR_JOB);
            operation_free(&o, true);
        }
        uvcc_nccl_close(l.n);
        uvcc_nccl_free(l.n);
        (void)shutdown(l.fd, SHUT_RDWR);
        (void)pthread_join(reader, NULL);
        (void)close(l.fd);
        CHECK(live == 0);
    }
}

/* CUDA begins in the children: it does not outlive a fork. */
static int test_processes(void) {
    int fd[SPLITS][2], worst = 0;
    pid_t child[2];
    if (lab_can_break()) {
        (void)printf("skipped: memory of one process\n");
        return SKIPPED;
    }
    for (unsigned i = 0; i < SPLITS; i++)
        CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd[i]) == 0);
    for (uint32_t rank = 0; rank < 2; rank++) {
        child[rank] = fork();
        CHECK(child[rank] >= 0);
        if (child[rank] == 0) {
            const char *why = NULL;
            devices = lab_devices(&why);
            if (devices == 0) {
                (void)printf("skipped: %s\n", why);
                (void)fflush(stdout);
                _exit(SKIPPED);
            }
            one_process(rank, (const int(*)[2])fd);
            _exit(0);
        }
    }
    for (unsigned i = 0; i < SPLITS; i++)
        for (unsigned e = 0; e < 2; e++)
            (void)close(fd[i][e]);
    for (uint32_t rank = 0; rank < 2; rank++) {
        int status = 0;
        CHECK(waitpid(child[rank], &status, 0) == child[rank]);
        const int rc = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        worst = rc > worst ? rc : worst;
    }
    return worst;
}

static const struct {
    const char *name;
    void (*run)(void);
} scenarios[] = {{"operations", test_operations},
                 {"refusals", test_refusals},
                 {"mismatch", test_mismatch},
                 {"failure", test_failure},
                 {"broken", test_broken},
                 {"parties", test_parties},
                 {"turns", test_turns}};

int main(int argc, char **argv) {
    const char *why = NULL;
    (void)sem_init(&woken, 0, 0);
    if (argc > 1 && strcmp(argv[1], "processes") == 0)
        return test_processes();
    devices = lab_devices(&why);
    if (devices == 0) {
        (void)printf("skipped: %s\n", why);
        return SKIPPED;
    }
    if (devices > WORKERS_MAX)
        devices = WORKERS_MAX;
    if (argc > 2)
        seeds = (uint32_t)strtoul(argv[2], NULL, 10);
    for (unsigned i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (argc > 1 && strcmp(argv[1], scenarios[i].name) == 0) {
            if (scenarios[i].run == test_turns && !lab_can_break()) {
                (void)printf("skipped: devices that cannot be held up\n");
                return SKIPPED;
            }
            scenarios[i].run();
            return 0;
        }
    (void)fprintf(stderr, "there is no scenario %s\n", argc < 2 ? "" : argv[1]);
    return 2;
}
