/* SPDX-License-Identifier: Apache-2.0 */
/* test_host_loop.c - the host of all simulated parties (tools/host_loop.h): steps are prepared once
 * and given to their owners, may overlap where a command says so, end by an interruption or an
 * error and not otherwise; jobs of several workers have one root. All of it on one thread and with
 * one for each worker of each party, which leave the same evidence. */
#include "run_tool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "host_loop.h"
#include "interrupt.h"

enum {
    ELEMS = 3,
    WORKERS = 2, /* at most */
    STEPS = 4,
    IN_X = 1,
    IN_Y = 2,
    OUT_W = 9,
    OUT_ALL = 10,
    STEPS_MAX = 16,
    TURNS_MAX = 20000
};

/* A command: W = W + X Y, with X of party 0 and Y of party 2; W is opened, and with several workers
 * X Y of all of them, which holds them together. */
typedef struct command {
    host host;
    run_options run;
    int64_t x[2][ELEMS], y[ELEMS]; /* x: of step m at m mod 2, since steps may overlap */
    int64_t want[ELEMS];           /* after the last step that is prepared */
    unsigned prepared, given[2][STEPS_MAX], turns;
    uint32_t finished_then[STEPS_MAX]; /* by the first party, when this step was prepared */
    uint8_t root[UVCC_PARTIES][32];    /* of the last step, as a session of one worker says it */
    uint8_t step_root[WORKERS][UVCC_PARTIES][32];
    unsigned interrupt_at, fail_prepare, fail_input, fail_event, abort_at; /* steps; 0: never */
    bool ahead;
    const uvcc_allocator *alloc;
    uint32_t compute;
    const char *record;
    double drop;
    bool profile;
    bool bad_entry; /* no step can be opened */
    atomic_uint refused;
    bool notes_threads;
    pthread_t thread[WORKERS][UVCC_PARTIES]; /* that ran the session's first job */
    bool noted[WORKERS][UVCC_PARTIES];
} command;

static run_parties mode; /* of the jobs that tests open */

static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    const command *c = user;
    const uvcc_allocator al = uvcc_host_allocator();
    (void)w;
    assert_int_equal(uvcc_program_new(out, &al), 0);
    uvcc_program *p = *out;
    assert_int_equal(uvcc_program_topology(p, c->host.workers, 1, 1), 0);
    const uint32_t x = test_tensor(p, "x", 1, ELEMS, 10, 0, UVCC_TRANSIENT),
                   y = test_tensor(p, "y", 1, ELEMS, 10, 0, UVCC_TRANSIENT),
                   z = test_tensor(p, "z", 1, ELEMS, 21, 0, UVCC_TRANSIENT),
                   v = test_tensor(p, "w", 1, ELEMS, 40, 0, UVCC_PERSIST);
    assert_true(uvcc_program_entry(p, "step") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_Y, y, 2) >= 0);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_ELEM_MUL, .in_count = 2, .in = {x, y}, .out_count = 1, .out = {z}},
        {.opcode = UVCC_OP_ADD,
         .phase = UVCC_UPD,
         .in_count = 2,
         .in = {v, z},
         .out_count = 1,
         .out = {v}}};
    for (unsigned i = 0; i < 2; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    if (c->host.workers > 1) {
        const uint32_t all =
            test_tensor(p, "all", 1, c->host.workers * ELEMS, 21, 0, UVCC_TRANSIENT);
        assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ALL_GATHER,
                                                       .phase = UVCC_UPD,
                                                       .k = 1,
                                                       .group = UVCC_GROUP_DP,
                                                       .in_count = 1,
                                                       .in = {z},
                                                       .out_count = 1,
                                                       .out = {all}}) >= 0);
        assert_true(uvcc_program_output(p, OUT_ALL, all) >= 0);
    }
    assert_true(uvcc_program_output(p, OUT_W, v) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return EXIT_DONE;
}

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    (void)w;
    (void)step;
    return ((const command *)user)->bad_entry ? ELEMS : 0;
}

static bool may_run_ahead(void *user, uint32_t step) {
    (void)step;
    return ((const command *)user)->ahead;
}

static int prepare(void *user, uint32_t step) {
    command *c = user;
    assert_int_equal(step, c->prepared); /* every step once, in order */
    c->prepared++;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (c->host.worker[0].party[p].finished > c->finished_then[step])
            c->finished_then[step] = c->host.worker[0].party[p].finished;
    for (unsigned i = 0; i < ELEMS; i++) {
        c->x[step % 2][i] = (int64_t)(step + 1) * (i + 2);
        c->y[i] = 7 - (int64_t)i;
        c->want[i] += c->x[step % 2][i] * c->y[i];
    }
    return c->fail_prepare == step && step != 0 ? EXIT_BAD_INPUT : EXIT_DONE;
}

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    command *c = user;
    (void)w;
    assert_true(id == IN_X || id == IN_Y);
    c->given[id == IN_Y][step]++;
    return c->fail_input == step && step != 0 ? NULL : id == IN_X ? c->x[step % 2] : c->y;
}

static int take_event(void *user, const host_worker *w, unsigned party, const uvcc_event *e) {
    command *c = user;
    if (e->kind != UVCC_EVENT_STEP_FINISHED)
        return EXIT_DONE;
    memcpy(c->root[party], e->root, 32);
    memcpy(c->step_root[w->rank][party], e->step_root, 32);
    if (c->abort_at == e->step && e->step != 0 && w->rank == c->host.workers - 1 && party == 1)
        assert_int_equal(
            uvcc_session_abort(w->party[1].session, UVCC_ABORT_HOST, host_now(&c->host, w)), 0);
    return c->fail_event == e->step && e->step != 0 ? EXIT_BAD_INPUT : EXIT_DONE;
}

static void note_thread(void *user, const uvcc_job *job, bool done) {
    command *c = user;
    const unsigned w = job->cookie / UVCC_PARTIES, p = job->cookie % UVCC_PARTIES;
    if (done || c->noted[w][p]) /* of one session: by one thread at a time */
        return;
    c->noted[w][p] = true;
    c->thread[w][p] = pthread_self();
}

/* Until another session says something too. */
static void wait_for_another(void *user, uvcc_log_level level, const char *line) {
    command *c = user;
    (void)level;
    (void)line;
    (void)atomic_fetch_add(&c->refused, 1);
    while (atomic_load(&c->refused) < 2)
        (void)sched_yield();
}

static void configure(void *user, const host_worker *w, unsigned party, uvcc_config *session,
                      uvcc_cpu_config *executor) {
    command *c = user;
    (void)w;
    (void)party;
    if (c->bad_entry && mode == RUN_PARTIES_THREADS)
        session->log = (uvcc_logger){wait_for_another, c};
    if (!c->notes_threads)
        return;
    executor->job = note_thread;
    executor->job_user = c;
}

static void count_turn(void *user) {
    command *c = user;
    c->turns++;
    assert_true(c->turns < TURNS_MAX); /* as good as for ever */
    if (c->interrupt_at != 0 && host_finished(&c->host) == c->interrupt_at)
        assert_int_equal(raise(SIGINT), 0);
}

static int open_job(command *c, uint32_t replicas) {
    static const int64_t zeros[ELEMS];
    c->run = (run_options){.seed = 5,
                           .compute_seed = 1,
                           .fault_seed = 1,
                           .parties = mode,
                           .compute = c->compute,
                           .faults.drop = c->drop,
                           .profile = c->profile};
    const host_config config = {.command = "train",
                                .run = &c->run,
                                .replicas = replicas,
                                .stages = 1,
                                .tensor_ranks = 1,
                                .of_workers = replicas > 1,
                                .alloc = c->alloc,
                                .record = c->record,
                                .app = "",
                                .hooks = {.user = c,
                                          .program = make_program,
                                          .configure = configure,
                                          .entry = entry_of,
                                          .ahead = may_run_ahead,
                                          .prepare = prepare,
                                          .input = give_input,
                                          .event = take_event,
                                          .turned = count_turn}};
    int status = host_open(&c->host, &config);
    for (uint32_t i = 0; i < replicas && status == EXIT_DONE; i++) {
        host_worker *w = &c->host.worker[i];
        status = host_set_public(&c->host, w, (uint32_t)uvcc_program_find(w->program, "w"), zeros);
    }
    return status == EXIT_DONE ? host_start(&c->host) : status;
}

static void check_outputs(const command *c, uint32_t step) {
    for (uint32_t i = 0; i < c->host.workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const host_party *me = &c->host.worker[i].party[p];
            const int64_t *v = uvcc_session_output(me->session, step, OUT_W);
            assert_non_null(v);
            assert_memory_equal(v, c->want, sizeof c->want);
            if (c->host.workers == 1)
                continue;
            const int64_t *all = uvcc_session_output(me->session, step, OUT_ALL);
            assert_non_null(all);
            for (uint32_t k = 0; k < c->host.workers * ELEMS; k++)
                assert_int_equal(all[k], c->x[step % 2][k % ELEMS] * c->y[k % ELEMS]);
        }
}

/* Step by step, then several at once: the same. */
static void runs_steps(void **state) {
    (void)state;
    command c = {0};
    host_totals t;
    assert_int_equal(open_job(&c, 1), EXIT_DONE);
    for (uint32_t step = 0; step < STEPS; step++) {
        assert_int_equal(host_run(&c.host, step + 1, true), EXIT_DONE);
        assert_int_equal(host_finished(&c.host), step + 1);
        check_outputs(&c, step);
    }
    assert_int_equal(host_run(&c.host, 3 * STEPS, true), EXIT_DONE);
    check_outputs(&c, 3 * STEPS - 1);
    assert_int_equal(c.prepared, 3 * STEPS);
    for (uint32_t step = 0; step < 3 * STEPS; step++) {
        assert_int_equal(c.given[0][step], 1); /* the owner's, and nobody else's */
        assert_int_equal(c.given[1][step], 1);
        assert_int_equal(c.finished_then[step], step);
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uint8_t root[32];
        assert_int_equal(host_root(&c.host, p, root), EXIT_DONE);
        assert_memory_equal(root, c.root[p], 32);
    }
    host_totals_of(&c.host, &t);
    assert_true(t.bytes_online > 0 && t.rounds > 0 && t.messages > 0);
    assert_int_equal(host_close(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE); /* nothing is left to end */
}

/* The next step is prepared while the one before it runs, and not the one after that. */
static void runs_ahead(void **state) {
    (void)state;
    command c = {.ahead = true};
    assert_int_equal(open_job(&c, 1), EXIT_DONE);
    assert_int_equal(host_run(&c.host, STEPS, true), EXIT_DONE);
    assert_int_equal(c.finished_then[1], 0);
    for (uint32_t step = 1; step < STEPS; step++)
        assert_true(c.finished_then[step] + 1 == step || c.finished_then[step] == step);
    check_outputs(&c, STEPS - 1);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

static void several_workers(void **state) {
    (void)state;
    command c = {0};
    assert_int_equal(open_job(&c, 2), EXIT_DONE);
    assert_int_equal(host_run(&c.host, STEPS, true), EXIT_DONE);
    check_outputs(&c, STEPS - 1);
    assert_int_equal(c.given[0][0], 2); /* once for each worker */
    if (mode == RUN_PARTIES_THREADS)    /* nobody slept until the clock moved: all were called */
        assert_int_equal(host_now(&c.host, &c.host.worker[0]), 0);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_config cfg;
        uint8_t roots[2][32], want[32], root[32];
        assert_int_equal(uvcc_config_default(&cfg, sizeof cfg), 0);
        seeded_identity(&cfg, "train", 5, p);
        for (unsigned i = 0; i < 2; i++)
            memcpy(roots[i], c.step_root[i][p], 32);
        assert_int_equal(
            uvcc_audit_global_root(cfg.identity.sid_job, STEPS - 1, 2, 1, 1, roots[0], want), 0);
        assert_int_equal(host_root(&c.host, p, root), EXIT_DONE);
        assert_memory_equal(root, want, 32);
    }
    assert_int_equal(host_close(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

/* Runs into what was set up; says `part` and ends with `status`. */
static void fails(command *c, uint32_t replicas, int status, const char *part) {
    assert_int_equal(open_job(c, replicas), EXIT_DONE);
    const int kept = hear();
    const int was = host_run(&c->host, STEPS, true);
    char *said = heard(kept);
    assert_int_equal(was, status);
    if (*part == '\0' ? *said != '\0' : strstr(said, part) == NULL)
        fail_msg("it says: %s", said);
    free(said);
    assert_int_equal(host_end(&c->host), EXIT_DONE);
}

/* What a hook says is the end; what a session says too, with the worker's place if there are any.
 */
static void ends_by_errors(void **state) {
    (void)state;
    command c = {.fail_prepare = 1};
    fails(&c, 1, EXIT_BAD_INPUT, "");
    assert_int_equal(c.prepared, 2);
    c = (command){.fail_input = 1};
    fails(&c, 1, EXIT_FAILED, "");
    c = (command){.fail_event = 1};
    fails(&c, 1, EXIT_BAD_INPUT, "");
    c = (command){.abort_at = 1};
    fails(&c, 1, EXIT_FAILED, "party 1 stopped: ");
    c = (command){.abort_at = 1};
    fails(&c, 2, EXIT_FAILED, "party 1, worker r1 s0 t0 stopped: ");
}

/* Where sessions open their steps side by side, several may refuse one: the first says so. */
static void says_one_error(void **state) {
    (void)state;
    command c = {.bad_entry = true};
    assert_int_equal(open_job(&c, 1), EXIT_DONE);
    assert_int_equal(host_ready(&c.host), EXIT_DONE);
    const int kept = hear();
    const int was = host_run(&c.host, 1, true);
    char *said = heard(kept);
    assert_int_equal(was, EXIT_FAILED);
    const char *first = strstr(said, "a step was refused");
    if (first == NULL || strstr(first + 1, "a step was refused") != NULL)
        fail_msg("it says: %s", said);
    free(said);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

/* A party that agrees to nothing keeps the others waiting for ever, and that is seen. */
static void sees_that_nothing_moves(void **state) {
    (void)state;
    command c = {0};
    assert_int_equal(open_job(&c, 1), EXIT_DONE);
    assert_int_equal(host_run(&c.host, 1, true), EXIT_DONE);
    c.host.c.about = "this";
    c.host.worker[0].party[1].ready = false;
    const int kept = hear();
    assert_int_equal(host_run(&c.host, 2, true), EXIT_FAILED);
    char *said = heard(kept);
    assert_string_equal(
        said, "uvcc train: this: the parties wait for each other for ever in step 2: party 0 "
              "waits for party 1's agreement to a step, party 2 waits for party 1's "
              "agreement to a step\n");
    free(said);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

/* Memory with an end. */
typedef struct scarce {
    uvcc_allocator under;
    pthread_mutex_t lock;
    size_t used, most;
} scarce;

static void *take_scarce(void *user, size_t bytes, uvcc_mem_class cls) {
    scarce *m = user;
    assert_int_equal(pthread_mutex_lock(&m->lock), 0);
    void *p = bytes > m->most - m->used ? NULL : m->under.alloc(m->under.user, bytes, cls);
    m->used += p != NULL ? bytes : 0;
    assert_int_equal(pthread_mutex_unlock(&m->lock), 0);
    return p;
}

static void give_scarce(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    scarce *m = user;
    assert_int_equal(pthread_mutex_lock(&m->lock), 0);
    m->used -= p != NULL ? bytes : 0;
    assert_int_equal(pthread_mutex_unlock(&m->lock), 0);
    m->under.free(m->under.user, p, bytes, cls);
}

/* Of what is asked for one time or another there is too little: the run works, or ends with an
 * error that says so, however little there is. Nothing is left in use. */
static void memory_ends(void **state) {
    (void)state;
    unsigned worked = 0, stalled = 0;
    for (unsigned i = 0; i < 120; i++) {
        const uint32_t replicas = 1 + i % WORKERS;
        scarce m = {.under = uvcc_host_allocator(),
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .most = SIZE_MAX / 2};
        const uvcc_allocator al = {.alloc = take_scarce, .free = give_scarce, .user = &m};
        command c = {.alloc = &al};
        assert_int_equal(open_job(&c, replicas), EXIT_DONE);
        m.most = m.used + (size_t)i * replicas * 8000;
        const int kept = hear();
        const int was = host_run(&c.host, STEPS, true);
        char *said = heard(kept);
        if (was == EXIT_DONE) {
            assert_string_equal(said, "");
            check_outputs(&c, STEPS - 1);
            worked++;
        } else {
            assert_int_equal(was, EXIT_FAILED);
            if (strstr(said, "no memory for ") == NULL || strstr(said, " MB are in use") == NULL)
                fail_msg("it says: %s", said);
            const char *waits = strstr(said, "waits for"); /* what to do comes last */
            assert_true(waits == NULL || waits < strstr(said, "no memory for "));
            stalled += strstr(said, "out of memory in step ") != NULL;
        }
        free(said);
        assert_int_equal(host_end(&c.host), EXIT_DONE);
        assert_int_equal(m.used, 0);
    }
    assert_true(worked > 0 && worked < 120 && stalled > 0);
}

/* Whoever drives the sessions, and wherever jobs run. */
static void same_evidence(void **state) {
    (void)state;
    static const struct {
        run_parties parties;
        uvcc_cpu_mode compute;
    } ways[] = {{RUN_PARTIES_TURNS, UVCC_CPU_INLINE},
                {RUN_PARTIES_TURNS, UVCC_CPU_DEFERRED},
                {RUN_PARTIES_THREADS, UVCC_CPU_INLINE},
                {RUN_PARTIES_THREADS, UVCC_CPU_THREADS}};
    uint8_t root[2][UVCC_PARTIES][32];
    for (unsigned i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        command c = {.compute = ways[i].compute, .ahead = true};
        mode = ways[i].parties;
        assert_int_equal(open_job(&c, 2), EXIT_DONE);
        assert_int_equal(host_run(&c.host, STEPS, true), EXIT_DONE);
        check_outputs(&c, STEPS - 1);
        if (i == 0)
            memcpy(root, c.step_root, sizeof root);
        assert_memory_equal(c.step_root, root, sizeof root);
        assert_int_equal(host_close(&c.host), EXIT_DONE);
        assert_int_equal(host_end(&c.host), EXIT_DONE);
    }
}

/* Each session's jobs, sealing and opening are the work of its own thread; by turns one thread's.
 */
static void thread_for_each(void **state) {
    (void)state;
    command c = {.notes_threads = true};
    assert_int_equal(open_job(&c, WORKERS), EXIT_DONE);
    assert_int_equal(host_run(&c.host, 1, true), EXIT_DONE);
    for (unsigned i = 0; i < WORKERS * UVCC_PARTIES; i++) {
        assert_true(c.noted[i / UVCC_PARTIES][i % UVCC_PARTIES]);
        for (unsigned k = 0; k < i; k++)
            assert_int_equal(pthread_equal(c.thread[i / UVCC_PARTIES][i % UVCC_PARTIES],
                                           c.thread[k / UVCC_PARTIES][k % UVCC_PARTIES]) != 0,
                             mode == RUN_PARTIES_TURNS);
    }
    assert_int_equal(host_close(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

/* What a party's plane hands its operations to: a thread with a plane of its own, which takes its
 * time. */
typedef struct elsewhere {
    uvcc_collective *group;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news;
    const uvcc_job *job[WORKERS]; /* handed over */
    bool over;
    uvcc_completion done[WORKERS];
    bool some[WORKERS]; /* of `done` */
    uvcc_cpu_config hook[WORKERS];
    unsigned operations;
} elsewhere;

static int take_elsewhere(void *user, uint32_t rank, const uvcc_job *job) {
    elsewhere *x = user;
    assert_int_equal(pthread_mutex_lock(&x->lock), 0);
    assert_null(x->job[rank]);
    x->job[rank] = job;
    assert_int_equal(pthread_cond_signal(&x->news), 0);
    assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
    return 0;
}

static int give_elsewhere(void *user, uint32_t rank, uvcc_completion *out) {
    elsewhere *x = user;
    assert_int_equal(pthread_mutex_lock(&x->lock), 0);
    const bool some = x->some[rank];
    x->some[rank] = false;
    *out = x->done[rank];
    assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
    return some;
}

static void wait_elsewhere(void *user) {
    (void)user;
    fail_msg("a host with threads is called");
}

static void *work_elsewhere(void *user) {
    elsewhere *x = user;
    assert_int_equal(pthread_mutex_lock(&x->lock), 0);
    while (true) {
        while (!x->over && (x->job[0] == NULL || x->job[1] == NULL))
            assert_int_equal(pthread_cond_wait(&x->news, &x->lock), 0);
        if (x->over)
            break;
        assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
        for (unsigned i = 0; i < 2000; i++)
            (void)sched_yield(); /* others have time to fall asleep, and find that it works */
        assert_int_equal(pthread_mutex_lock(&x->lock), 0);
        for (uint32_t i = 0; i < WORKERS; i++)
            assert_int_equal(uvcc_collective_submit(x->group, i, x->job[i]), 0);
        for (uint32_t i = 0; i < WORKERS; i++) {
            assert_int_equal(uvcc_collective_poll(x->group, i, &x->done[i]), 1);
            x->job[i] = NULL;
            x->some[i] = true;
        }
        x->operations++;
        assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
        for (uint32_t i = 0; i < WORKERS; i++)
            x->hook[i].wake(x->hook[i].wake_user);
        assert_int_equal(pthread_mutex_lock(&x->lock), 0);
    }
    assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
    return NULL;
}

static void begin_elsewhere(elsewhere *x, host *h, unsigned party) {
    uvcc_collective_config cfg = {.size = sizeof cfg,
                                  .alloc = uvcc_host_allocator(),
                                  .replicas = WORKERS,
                                  .stages = 1,
                                  .tp_ranks = 1};
    assert_int_equal(pthread_mutex_init(&x->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&x->news, NULL), 0);
    assert_int_equal(uvcc_collective_new(&x->group, &cfg), 0);
    for (uint32_t i = 0; i < WORKERS; i++)
        parties_configure(h->threads, i, party, &x->hook[i]);
    uvcc_collective_free(h->plane[party]);
    cfg.elsewhere = (uvcc_collective_elsewhere){take_elsewhere, give_elsewhere, wait_elsewhere, x};
    assert_int_equal(uvcc_collective_new(&h->plane[party], &cfg), 0);
    assert_int_equal(pthread_create(&x->thread, NULL, work_elsewhere, x), 0);
}

static void end_elsewhere(elsewhere *x) {
    assert_int_equal(pthread_mutex_lock(&x->lock), 0);
    x->over = true;
    assert_int_equal(pthread_cond_signal(&x->news), 0);
    assert_int_equal(pthread_mutex_unlock(&x->lock), 0);
    assert_int_equal(pthread_join(x->thread, NULL), 0);
    uvcc_collective_free(x->group);
    (void)pthread_cond_destroy(&x->news);
    (void)pthread_mutex_destroy(&x->lock);
}

/* Collectives that something else carries out, as NCCL does: each worker is called when its own is
 * over, and until then the clock stands although all sleep. */
static void waits_for_what_works_elsewhere(void **state) {
    (void)state;
    command c = {0};
    elsewhere x[UVCC_PARTIES] = {0};
    mode = RUN_PARTIES_THREADS;
    assert_int_equal(open_job(&c, WORKERS), EXIT_DONE);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        begin_elsewhere(&x[p], &c.host, p);
    assert_int_equal(host_run(&c.host, STEPS, true), EXIT_DONE);
    assert_int_equal(host_now(&c.host, &c.host.worker[0]), 0);
    check_outputs(&c, STEPS - 1);
    assert_int_equal(host_close(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        assert_int_equal(x[p].operations, STEPS);
        end_elsewhere(&x[p]);
    }
}

/* Where what happens is to be a function of the options, in every detail, one thread drives all. */
static void takes_turns_to_repeat(void **state) {
    (void)state;
    mode = RUN_PARTIES_THREADS;
    command c[] = {{.compute = UVCC_CPU_DEFERRED},
                   {.record = "logs"},
                   {.drop = 0.1},
                   {.profile = true},
                   {.prepared = 0}};
    for (unsigned i = 0; i < sizeof c / sizeof c[0]; i++) {
        assert_int_equal(open_job(&c[i], 1), EXIT_DONE);
        assert_int_equal(c[i].host.threads != NULL, i == 4);
        assert_int_equal(host_end(&c[i].host), EXIT_DONE);
    }
    remove_tree("logs");
}

static void too_many_workers(void **state) {
    (void)state;
    command c = {0};
    const int kept = hear();
    assert_int_equal(open_job(&c, UVCC_LOOPBACK_TRIANGLES_MAX + 1), EXIT_BAD_INPUT);
    char *said = heard(kept);
    assert_non_null(strstr(said, "65 workers; at most 64"));
    free(said);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

/* The last ones: the mark stays, and ends the second at once. Without `stops` a run goes on to its
 * end. */
static void stops_when_interrupted(void **state) {
    (void)state;
    command c = {.interrupt_at = 2};
    interrupt_begin();
    interrupt_catch();
    fails(&c, 1, EXIT_INTERRUPTED, interrupted() ? "" : "what runs comes to its end first");
    assert_true(interrupted());
    assert_true(c.prepared <= 3);
    c = (command){0};
    fails(&c, WORKERS, EXIT_INTERRUPTED, "");
    assert_int_equal(c.prepared, 0);
    c = (command){0};
    assert_int_equal(open_job(&c, 1), EXIT_DONE);
    assert_int_equal(host_run(&c.host, STEPS, false), EXIT_DONE);
    check_outputs(&c, STEPS - 1);
    assert_int_equal(host_close(&c.host), EXIT_DONE);
    assert_int_equal(host_end(&c.host), EXIT_DONE);
}

static int by_turns(void **state) {
    (void)state;
    mode = RUN_PARTIES_TURNS;
    return 0;
}

static int by_threads(void **state) {
    (void)state;
    mode = RUN_PARTIES_THREADS;
    return 0;
}

#define BOTH(test)                                                                                 \
    {#test ", turns", test, by_turns, NULL, NULL}, {                                               \
#test ", threads", test, by_threads, NULL, NULL                                            \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        BOTH(runs_steps),
        BOTH(runs_ahead),
        BOTH(several_workers),
        BOTH(thread_for_each),
        BOTH(ends_by_errors),
        BOTH(says_one_error),
        BOTH(sees_that_nothing_moves),
        BOTH(memory_ends),
        cmocka_unit_test(too_many_workers),
        cmocka_unit_test(same_evidence),
        cmocka_unit_test(waits_for_what_works_elsewhere),
        cmocka_unit_test(takes_turns_to_repeat),
        BOTH(stops_when_interrupted),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
