/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - see run.h. The input of a pass is given when no party can do anything more without it.
 * All three parties are here, each a thread (parties.h), or one is, and the others are processes of
 * their own (peers.h). What parties count are numbers, which are added up here or among processes.
 */
#include "run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <uvcc/uvcc.h>

#include "../card.h"
#include "../interrupt.h"
#include "../parties.h"
#include "../report.h"
#include "../seeded.h"
#include "peers.h"
#include "unfused.h"

#define KEYS_LEAST  ((uint64_t)1 << 30) /* that may be on their way, beside those of the program */
#define FRAME_BYTES (128u << 10)        /* a peer opens one while the next is sealed */

typedef struct party_run {
    uvcc_session *session;
    uvcc_cpu *executor, *under; /* under: what `unfused` is over */
    unfused *unfused;
    card *card;
    bool borrows; /* public tensors of the first party here */
    uvcc_seeded_random random;
    watch watch;
} party_run;

/* Numbers of a run until now, and of the last pass. */
enum {
    N_ONLINE_NS, /* of the last pass */
    N_PREPROC_NS,
    N_ONLINE_BYTES,
    N_PREPROC_BYTES,
    N_GATHERED_BYTES,
    N_ROUNDS,
    N_JOBS,
    N_MESSAGES,
    N_PROCESSOR_NS,
    N_AES_CALLS,
    N_GPU_BYTES,
    N_RSS_BYTES,
    N_FAMILY_NS,
    N_FAMILY_JOBS = N_FAMILY_NS + FAMILIES,
    N_KIND_NS = N_FAMILY_JOBS + FAMILIES,
    N_KIND_JOBS = N_KIND_NS + WATCH_KINDS,
    NUMBERS = N_KIND_JOBS + WATCH_KINDS
};
_Static_assert((int)NUMBERS <= (int)PEERS_NUMBERS, "all travel at once");
typedef struct numbers {
    uint64_t n[PEERS_NUMBERS];
} numbers;

typedef struct run {
    const subject *s;
    const bench_options *o;
    parties *threads; /* NULL: one party is here, and the others elsewhere: */
    peers *peers;
    unsigned first, end; /* the parties that are here */
    bool differ;         /* the processes are to measure different things, as each has heard */
    party_run party[UVCC_PARTIES];
    uint8_t *family;
    uint64_t keys_bytes;
    session_log log;
    pthread_mutex_t lock;
    uint32_t step;
    bool given;
    atomic_uint ready, finished;
    unsigned until_ready, until_finished;
    double began, keys_done, over;
    /* Bytes of keys when the input was given, of the parties here: that were dealt, and of those
     * that came, with tensors. */
    uint64_t dealt, gathered;
    numbers before, now; /* of all three parties; before: when the first measured pass began */
} run;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static unsigned parties_here(const run *r) {
    return r->end - r->first;
}

/* Of the sessions. */
static uint64_t session_now(const run *r) {
    return r->threads != NULL ? parties_now(r->threads) : peers_now();
}

static int failed(run *r, const char *what, int rc) {
    return report_error(EXIT_FAILED, "%s: %s%s%s", what, uvcc_error_text(rc),
                        r->log.line[0] != '\0' ? ": " : "", r->log.line);
}

/* ---- executors ---- */

static int under_submit(void *user, const uvcc_job *job) {
    return uvcc_cpu_submit(user, job);
}

static int under_poll(void *user, uvcc_completion *out) {
    return uvcc_cpu_poll(user, out);
}

static void under_wait(void *user) {
    uvcc_cpu_wait(user);
}

/* Jobs of one task each, over the executor that *x describes. */
static int unfuse(run *r, party_run *me, uvcc_cpu_config *x) {
    if (me->card == NULL) {
        const int rc = uvcc_cpu_new(&me->under, x);
        if (rc != 0)
            return failed(r, "an executor", rc);
        x->elsewhere = (uvcc_cpu_elsewhere){
            .submit = under_submit, .poll = under_poll, .wait = under_wait, .user = me->under};
        x->mode = UVCC_CPU_ELSEWHERE;
    }
    me->unfused = unfused_new(&x->elsewhere);
    if (me->unfused == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    x->elsewhere = unfused_elsewhere(me->unfused);
    return EXIT_DONE;
}

static int open_executor(run *r, unsigned p, uvcc_config *cfg) {
    const bench_options *o = r->o;
    party_run *me = &r->party[p];
    uvcc_cpu_config x = {.size = sizeof x,
                         .alloc = uvcc_host_allocator(),
                         .mode = o->threads > 1 || r->threads == NULL ? UVCC_CPU_THREADS
                                                                      : UVCC_CPU_INLINE,
                         .threads = o->threads,
                         .job = watch_job,
                         .job_user = &me->watch};
    if (r->threads != NULL)
        parties_configure(r->threads, 0, p, &x);
    else
        peers_configure(r->peers, &x);
    if (o->run.compute == RUN_COMPUTE_GPU) {
        const uint32_t first = o->run.device == CARD_BY_RANK ? 0 : o->run.device;
        const card_config c = {.device = o->spread ? first + p : o->run.device,
                               .rank = r->threads == NULL && bench_job_one_machine(o->job) ? p : 0,
                               .bytes = o->run.device_bytes,
                               .streams = o->streams,
                               .trust_pointers = o->trust,
                               .lender = p != r->first ? r->party[r->first].card : NULL};
        char why[CARD_TEXT_BYTES];
        const int rc = card_open(&me->card, &c, &x, why);
        if (rc != 0)
            return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                                "--backend gpu: %s; give cpu to do without", why);
        cfg->alloc = card_allocator(me->card);
    }
    if (o->no_fusion) {
        const int status = unfuse(r, me, &x);
        if (status != EXIT_DONE)
            return status;
    }
    const int rc = uvcc_cpu_new(&me->executor, &x);
    return rc == 0 ? EXIT_DONE : failed(r, "an executor", rc);
}

/* ---- sessions ---- */

static int stopped(run *r, unsigned p, const uvcc_event *e) {
    char memory[CARD_TEXT_BYTES] = "", away[PEERS_TEXT_BYTES];
    const char *trouble = card_trouble(r->party[p].card);
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (card_refused(r->party[q].card) != 0)
            card_memory_line(r->party[q].card, memory);
    peers_away(r->peers, away);
    return report_error(EXIT_FAILED, "party %u stopped: %s%s%s%s%s%s%s%s%s", p,
                        uvcc_abort_text(e->reason), e->text != NULL ? ": " : "",
                        e->text != NULL ? e->text : "", *trouble != '\0' ? ": " : "", trouble,
                        *memory != '\0' ? "; " : "", memory, *away != '\0' ? "; " : "", away);
}

static int take_event(run *r, unsigned p, const uvcc_event *e) {
    atomic_fetch_add(&r->finished, e->kind == UVCC_EVENT_STEP_FINISHED);
    atomic_fetch_add(&r->ready, e->kind == UVCC_EVENT_READY);
    if (e->kind == UVCC_EVENT_ABORTED ||
        (e->kind == UVCC_EVENT_MISMATCH && r->threads != NULL /* else peers.c says whose */))
        return interrupted() ? EXIT_INTERRUPTED : stopped(r, p, e);
    return EXIT_DONE;
}

static bool reached(void *user) {
    run *r = user;
    return atomic_load(&r->ready) >= r->until_ready &&
           atomic_load(&r->finished) >= r->until_finished;
}

static int hear(void *user, uint32_t worker, unsigned p, bool *moved) {
    run *r = user;
    uvcc_event e;
    (void)worker; /* there is one */
    if (interrupted())
        return EXIT_INTERRUPTED;
    for (; uvcc_session_poll_event(r->party[p].session, &e) == 1; *moved = true) {
        const int status = take_event(r, p, &e);
        if (status != EXIT_DONE)
            return status;
    }
    /* As an exit status, so not EXIT_DONE, which is 0. */
    return reached(r) ? INT32_MAX : 0;
}

static int hear_alone(void *user, const uvcc_event *e) {
    run *r = user;
    return take_event(r, r->first, e);
}

static uint64_t keys_sent(const run *r) {
    uint64_t sum = 0;
    for (unsigned p = r->first; p < r->end; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        sum += st.bytes_preprocessing;
    }
    return sum;
}

/* Keys of the parties here that lie with tensors already. */
static uint64_t gathered_of(const run *r) {
    uint64_t sum = 0;
    for (unsigned p = r->first; p < r->end; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        sum += st.keys_gathered_bytes;
    }
    return sum;
}

/* All that can be done without the input is done. */
static int give_input(run *r) {
    r->given = true;
    r->dealt = keys_sent(r);
    r->keys_done = now();
    const bool measured = r->step >= r->o->warmup;
    r->gathered = gathered_of(r);
    for (unsigned p = r->first; p < r->end && measured; p++)
        watch_times(&r->party[p].watch, true);
    if (r->first != 0)
        return EXIT_DONE;
    const int rc =
        uvcc_session_input(r->party[0].session, r->step, UVCC_MODEL_IN_X, r->s->x, session_now(r));
    return rc == 0 ? EXIT_DONE : failed(r, "the input", rc);
}

static int idle(void *user) {
    run *r = user;
    return r->given || r->until_finished == 0 ? EXIT_DONE : give_input(r);
}

static int drive(run *r) {
    if (r->threads == NULL)
        return peers_run(r->peers);
    const int rc = parties_run(r->threads);
    if (rc == INT32_MAX)
        return EXIT_DONE;
    if (rc == 0)
        return report_error(EXIT_FAILED, "all three parties wait and none can go on");
    return rc > 0 ? rc : failed(r, "the parties", rc);
}

/* A tensor's values at one party: a thread of its own, since of a large model it takes a while. */
typedef struct setting {
    party_run *party;
    uint32_t tensor;
    const int64_t *values;
    int rc;
} setting;

/* Jobs that the session has before it starts: it keeps a copy of what is set until then, which for
 * all weights together is half of what they take themselves. */
static int run_jobs(party_run *me) {
    const uvcc_job *job = NULL;
    uvcc_completion c;
    for (;;) {
        int rc = 0;
        while (rc == 0 && (job != NULL || uvcc_session_poll_job(me->session, &job) == 1)) {
            rc = uvcc_cpu_submit(me->executor, job);
            job = rc == UVCC_ERR_AGAIN ? job : NULL;
        }
        if (rc != 0 && rc != UVCC_ERR_AGAIN)
            return rc;
        if (uvcc_cpu_pending(me->executor) == 0)
            return 0;
        uvcc_cpu_wait(me->executor);
        while (uvcc_cpu_poll(me->executor, &c) == 1)
            (void)uvcc_session_complete(me->session, &c, 0);
    }
}

static void *set_one(void *user) {
    setting *s = user;
    s->rc = uvcc_session_set_public(s->party->session, s->tensor, s->values);
    if (s->rc == 0)
        s->rc = run_jobs(s->party);
    return NULL;
}

static int set_weight(run *r, uint32_t tensor, const int64_t *values) {
    const bool public = uvcc_program_tensor_at(r->s->program, tensor)->sharing == UVCC_PUBLIC;
    setting all[UVCC_PARTIES];
    pthread_t thread[UVCC_PARTIES];
    bool started[UVCC_PARTIES] = {false};
    int rc = 0;
    for (unsigned p = r->first; p < r->end; p++) {
        all[p].rc = 0;
        if (public && r->party[p].borrows)
            continue;
        all[p] = (setting){.party = &r->party[p], .tensor = tensor, .values = values};
        started[p] = pthread_create(&thread[p], NULL, set_one, &all[p]) == 0;
        if (!started[p])
            (void)set_one(&all[p]);
    }
    for (unsigned p = r->first; p < r->end; p++) {
        if (started[p])
            (void)pthread_join(thread[p], NULL);
        rc = rc == 0 ? all[p].rc : rc;
    }
    for (unsigned p = r->first; p < r->end && rc == 0; p++)
        if (public && r->party[p].borrows)
            rc = uvcc_session_set_borrowed(r->party[p].session, tensor);
    return rc == 0 ? EXIT_DONE : failed(r, uvcc_program_tensor_at(r->s->program, tensor)->name, rc);
}

static int set_weights(run *r) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < r->s->weights && status == EXIT_DONE; i++) {
        uint32_t t;
        int64_t *v;
        status = subject_weight(r->s, i, &t, &v);
        if (status != EXIT_DONE)
            break;
        status = set_weight(r, t, v);
        free(v);
        if (status == EXIT_DONE && (interrupted() || peers_given_up(r->peers)))
            status = EXIT_INTERRUPTED;
    }
    return status;
}

static int open_party(run *r, unsigned p) {
    party_run *me = &r->party[p];
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_config c;
    int rc = uvcc_config_default(&c, sizeof c);
    seeded_session(&c, &al, "bench", r->o->run.seed, p, NULL, &r->log);
    c.random = uvcc_seeded(&me->random, r->o->run.seed, p);
    c.checks.audit_off = !r->o->audit;
    c.limits.keys_ahead_bytes = r->keys_bytes;
    c.limits.keys_gathered_bytes = r->o->run.device_keys;
    if (r->threads == NULL)
        c.links.keepalive_ns = 0;   /* as there is a line to keep */
    else if (r->o->keys_ahead == 0) /* all of a step's are on their way at a time */
        c.links.frame_bytes = FRAME_BYTES;
    if (r->threads != NULL)
        parties_share_frames(r->threads, &c);
    else
        peers_share_frames(r->peers, &c);
    c.links.rx_keys_bytes = r->keys_bytes;
    c.links.tx_keys_bytes = r->keys_bytes < RUN_KEYS_QUEUED ? r->keys_bytes : RUN_KEYS_QUEUED;
    c.trace = (uvcc_tracer){.op = watch_op, .user = &me->watch};
    watch_begin(&me->watch, r->family, r->o->run.compute == RUN_COMPUTE_GPU);
    const int status = open_executor(r, p, &c);
    if (status != EXIT_DONE)
        return status;
    if (rc == 0)
        rc = uvcc_session_new(&me->session, &c);
    me->borrows = p != r->first && card_borrows(me->card, r->party[r->first].card);
    if (rc == 0 && me->borrows)
        rc = uvcc_session_borrow_public(me->session, r->party[r->first].session);
    if (rc == 0)
        rc = uvcc_session_load_program(me->session, r->s->program);
    if (rc == 0 && card_refused(me->card) != 0)
        rc = UVCC_ERR_NOMEM;
    if (rc != 0) {
        char memory[CARD_TEXT_BYTES] = "";
        if (card_refused(me->card) != 0)
            card_memory_line(me->card, memory);
        else
            (void)snprintf(memory, sizeof memory, "%s", uvcc_session_error_detail(me->session));
        return report_error(EXIT_FAILED, "a session: %s%s%s%s", uvcc_error_text(rc),
                            *memory != '\0' ? ": " : "", memory,
                            rc == UVCC_ERR_LIMIT ? "; give more --keys-ahead" : "");
    }
    if (r->threads != NULL)
        parties_join(r->threads, 0, p, me->session, me->executor);
    return EXIT_DONE;
}

/* The process of one party: that all three measure the same is known before they begin. */
static int meet_peers(run *r) {
    numbers own = {{0}}, (*all) = calloc(UVCC_PARTIES, sizeof *all);
    const char *name[PEERS_NUMBERS];
    const uint32_t count = bench_alike(r->o, own.n, name, PEERS_NUMBERS);
    int status = all != NULL ? peers_open(&r->peers, r->o->job, r->o->party)
                             : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE)
        status = peers_exchange(r->peers, own.n, (uint64_t(*)[PEERS_NUMBERS])all);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        for (uint32_t i = 0; i < count && status == EXIT_DONE; i++)
            if ((r->differ = all[p].n[i] != own.n[i]))
                status = report_error(EXIT_BAD_INPUT,
                                      "party %u has another %s: give all three processes the same",
                                      p, name[i]);
    free(all);
    return status;
}

static int start_party(run *r, unsigned p) {
    party_run *me = &r->party[p];
    const int rc = uvcc_session_start(me->session, r->threads != NULL ? 0 : peers_now());
    if (rc != 0)
        return failed(r, "the start", rc);
    const peers_hooks hooks = {.event = hear_alone, .reached = reached, .user = r};
    return r->threads != NULL ? EXIT_DONE : peers_join(r->peers, me->session, me->executor, &hooks);
}

static int open_host(run *r) {
    const parties_config threads = {.workers = 1, .user = r, .hear = hear, .idle = idle};
    if (r->o->job != NULL)
        return meet_peers(r);
    const int rc = parties_new(&r->threads, &threads);
    return rc == 0 ? EXIT_DONE : failed(r, "threads", rc);
}

static int set_up(void *user) {
    run *r = user;
    int status = EXIT_DONE;
    for (unsigned p = r->first; p < r->end && status == EXIT_DONE; p++)
        status = open_party(r, p);
    return status == EXIT_DONE ? set_weights(r) : status;
}

/* An interruption ends threads that are being set up at once, since nothing is measured yet; of
 * processes the others have to hear of it. */
static int open_run(run *r) {
    r->first = r->o->job != NULL ? r->o->party : 0;
    r->end = r->o->job != NULL ? r->o->party + 1 : UVCC_PARTIES;
    if (r->o->job != NULL)
        interrupt_catch_saying();
    int status = open_host(r);
    if (status == EXIT_DONE)
        status = r->peers != NULL ? peers_meanwhile(r->peers, set_up, r) : set_up(r);
    interrupt_catch_saying();
    for (unsigned p = r->first; p < r->end && status == EXIT_DONE; p++)
        status = start_party(r, p);
    r->until_ready = parties_here(r);
    return status == EXIT_DONE ? drive(r) : status;
}

/* Executors go first: jobs that are out end before their memory goes. */
static void close_run(run *r) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_cpu_free(r->party[p].executor);
        uvcc_cpu_free(r->party[p].under);
    }
    peers_free(r->peers);
    for (unsigned p = UVCC_PARTIES; p-- != 0;) { /* who borrows goes before who lends */
        party_run *me = &r->party[p];
        uvcc_session_free(me->session);
        unfused_free(me->unfused);
        card_close(me->card);
        watch_end(&me->watch);
    }
    parties_free(r->threads);
    free(r->family);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- passes ---- */

static uint64_t ns_of(double seconds) {
    return (uint64_t)(1e9 * seconds + 0.5);
}

static uint64_t ns_of_time(const struct timeval *t) {
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_usec * 1000u;
}

static void add_watch(const watch *w, numbers *to) {
    to->n[N_AES_CALLS] += (uint64_t)w->aes;
    for (unsigned i = 0; i < FAMILIES; i++) {
        to->n[N_FAMILY_NS + i] += ns_of(w->families[i].seconds);
        to->n[N_FAMILY_JOBS + i] += w->families[i].jobs;
    }
    for (unsigned i = 0; i < WATCH_KINDS; i++) {
        to->n[N_KIND_NS + i] += ns_of(w->kinds[i].seconds);
        to->n[N_KIND_JOBS + i] += w->kinds[i].jobs;
    }
}

/* Of the parties that are here. */
static numbers own_numbers(const run *r) {
    numbers all = {{0}};
    struct rusage used;
    all.n[N_ONLINE_NS] = ns_of(r->over - r->keys_done);
    all.n[N_PREPROC_NS] = ns_of(r->keys_done - r->began);
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        all.n[N_PROCESSOR_NS] = ns_of_time(&used.ru_utime) + ns_of_time(&used.ru_stime);
        all.n[N_RSS_BYTES] = (uint64_t)used.ru_maxrss * 1024;
    }
    all.n[N_GATHERED_BYTES] = r->gathered;
    for (unsigned p = r->first; p < r->end; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        all.n[N_ONLINE_BYTES] += st.bytes_online;
        all.n[N_PREPROC_BYTES] += st.bytes_preprocessing;
        all.n[N_JOBS] += r->o->no_fusion ? unfused_jobs(r->party[p].unfused) : st.jobs;
        all.n[N_MESSAGES] += st.messages;
        all.n[N_ROUNDS] = st.rounds;
        uint64_t device, pinned;
        card_bytes(r->party[p].card, &device, &pinned);
        all.n[N_GPU_BYTES] += device;
        add_watch(&r->party[p].watch, &all);
    }
    return all;
}

/* Times, rounds and a process' memory are the most of one, all else adds up. */
static void merge(numbers *to, const numbers *one) {
    for (unsigned i = 0; i < NUMBERS; i++) {
        const bool most =
            i == N_ONLINE_NS || i == N_PREPROC_NS || i == N_ROUNDS || i == N_RSS_BYTES;
        if (!most)
            to->n[i] += one->n[i];
        else if (one->n[i] > to->n[i])
            to->n[i] = one->n[i];
    }
}

/* Of all three parties, behind a pass. */
static int count_all(run *r) {
    const numbers own = own_numbers(r);
    numbers sum = {{0}}, (*all) = calloc(UVCC_PARTIES, sizeof *all);
    int status = all != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE && r->peers != NULL)
        status = peers_exchange(r->peers, own.n, (uint64_t(*)[PEERS_NUMBERS])all);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE && r->peers != NULL; p++)
        merge(&sum, &all[p]);
    if (r->peers == NULL)
        sum = own;
    if (status == EXIT_DONE)
        r->now = sum;
    free(all);
    return status;
}

static int pass(run *r) {
    r->given = false;
    r->began = now();
    for (unsigned p = r->first; p < r->end; p++) {
        watch_counts(&r->party[p].watch, r->step == 0);
        watch_times(&r->party[p].watch, false);
        const int rc = uvcc_session_step(r->party[p].session, r->step, 0, session_now(r));
        if (rc != 0)
            return failed(r, "a pass", rc);
    }
    r->until_finished = parties_here(r) * (r->step + 1);
    int status = r->peers != NULL ? peers_settle(r->peers) : EXIT_DONE;
    if (status == EXIT_DONE && r->peers != NULL)
        status = give_input(r);
    if (status == EXIT_DONE)
        status = drive(r);
    r->over = now();
    if (status == EXIT_DONE && r->o->keys_ahead == 0 && keys_sent(r) != r->dealt)
        return report_error(EXIT_FAILED, "%llu bytes of keys were dealt after the input was given",
                            (unsigned long long)(keys_sent(r) - r->dealt));
    return status == EXIT_DONE ? count_all(r) : status;
}

/* Every value of the last pass beside what plaintext gives. */
static int compare(const run *r, figures *out) {
    const uvcc_model_config *c = &r->s->config;
    const uvcc_allocator al = uvcc_host_allocator();
    uint32_t rows = 0, cols = 0;
    char why[256] = "";
    size_t wrong = 0;
    (void)uvcc_model_output(c, &rows, &cols);
    const size_t n = (size_t)rows * cols;
    const int64_t *got =
        uvcc_session_output(r->party[r->first].session, r->step - 1, UVCC_MODEL_OUT_Y);
    int64_t *plain = subject_weights(r->s), *y = malloc(n * sizeof *y);
    int status = plain == NULL || y == NULL || got == NULL
                     ? report_error(EXIT_FAILED, "out of memory")
                     : EXIT_DONE;
    if (status == EXIT_DONE &&
        uvcc_model_reference(c, &al, plain, r->s->x, NULL, y, why, sizeof why) != 0)
        status = report_error(EXIT_FAILED, "--check: the plaintext pass: %s", why);
    for (size_t i = 0; status == EXIT_DONE && i < n; i++)
        wrong += y[i] != got[i];
    free(plain);
    free(y);
    if (status == EXIT_DONE && wrong != 0)
        status = report_error(EXIT_FAILED,
                              "--check: %zu of %zu values are not what plaintext gives", wrong, n);
    out->checked = status == EXIT_DONE;
    return status;
}

static double seconds(uint64_t ns) {
    return 1e-9 * (double)ns;
}

/* What the passes that were measured took. */
static void put_figures(const run *r, figures *out) {
    const uint64_t n = out->iters != 0 ? out->iters : 1;
    const uint64_t *b = r->before.n, *a = r->now.n;
    out->online_bytes = (a[N_ONLINE_BYTES] - b[N_ONLINE_BYTES]) / n;
    out->preproc_bytes = (a[N_PREPROC_BYTES] - b[N_PREPROC_BYTES]) / n;
    out->gathered_bytes = a[N_GATHERED_BYTES];
    out->rounds = (a[N_ROUNDS] - b[N_ROUNDS]) / n;
    out->jobs = (a[N_JOBS] - b[N_JOBS]) / n;
    out->processor_s = seconds(a[N_PROCESSOR_NS] - b[N_PROCESSOR_NS]) / (double)n;
    out->flushes = (a[N_MESSAGES] - b[N_MESSAGES]) / n;
    out->gpu_bytes = a[N_GPU_BYTES];
    out->rss_bytes = a[N_RSS_BYTES];
    out->aes_calls = (double)a[N_AES_CALLS];
    for (unsigned i = 0; i < FAMILIES; i++)
        out->families[i] = (watch_time){seconds(a[N_FAMILY_NS + i]), a[N_FAMILY_JOBS + i]};
    for (unsigned i = 0; i < WATCH_KINDS; i++)
        out->kinds[i] = (watch_time){seconds(a[N_KIND_NS + i]), a[N_KIND_JOBS + i]};
}

static uint64_t digest(const run *r) {
    const uvcc_program *p = r->s->program;
    uint64_t h = 0;
    if (uvcc_program_output_count(p, 0) == 0)
        return 0;
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    const int64_t *y = uvcc_session_output(r->party[r->first].session, r->step - 1, io->id);
    for (size_t i = 0; y != NULL && i < (size_t)d->rows * d->cols; i++)
        h = subject_mix(h ^ (uint64_t)y[i]);
    return h;
}

static void show(const run *r, report_pace *pace, const figures *f) {
    const uint32_t of = r->o->warmup + r->o->n_iters;
    if (report_pace_due(pace, r->step == of))
        report_line(false, "%s: pass %u of %u%s  %s", r->s->name, r->step, of,
                    f->iters == 0 ? " (warm-up)" : "", report_pace_left(pace, r->step, of));
}

/* From where what is measured begins at the party that begins last, so that all have the input, to
 * where it is done at all. */
static double function_seconds(const run *r) {
    double first = 0, last = 0;
    for (unsigned p = r->first; p < r->end; p++) {
        const watch *w = &r->party[p].watch;
        first = w->first > first ? w->first : first;
        last = w->last > last ? w->last : last;
    }
    return last - first;
}

static int measure(run *r, figures *out) {
    const uint32_t of = r->o->warmup + r->o->n_iters;
    report_pace pace;
    int status = EXIT_DONE;
    report_pace_start(&pace, r->o->run.progress);
    while (r->step < of && status == EXIT_DONE) {
        if (r->step == r->o->warmup)
            r->before = r->now;
        status = pass(r);
        if (status != EXIT_DONE)
            break;
        if (r->step++ >= r->o->warmup) {
            out->preproc_s[out->iters] = seconds(r->now.n[N_PREPROC_NS]);
            if (!r->s->is_model && r->threads != NULL)
                out->function_s[out->iters] = function_seconds(r);
            out->online_s[out->iters++] = seconds(r->now.n[N_ONLINE_NS]);
        }
        show(r, &pace, out);
    }
    report_line_clear();
    put_figures(r, out);
    if (status == EXIT_DONE)
        out->digest = digest(r);
    return status;
}

int bench_run(const subject *s, figures *out) {
    run *r = calloc(1, sizeof *r);
    subject_cost cost;
    memset(out, 0, sizeof *out);
    if (r == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    r->s = s;
    r->o = s->o;
    r->log.lock = &r->lock;
    (void)pthread_mutex_init(&r->lock, NULL);
    const watch_family norm = (s->is_model && s->config.norm == UVCC_MODEL_RMS_NORM) ||
                                      (!s->is_model && strcmp(s->name, "rmsnorm") == 0)
                                  ? FAMILY_RMSNORM
                                  : FAMILY_LAYERNORM;
    r->family = watch_families(s->program, norm, out->calls);
    int status = r->family != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE)
        status = subject_cost_of(s, &cost);
    if (status == EXIT_DONE) {
        const double began = now();
        r->keys_bytes =
            s->o->keys_ahead != 0 ? (uint64_t)s->o->keys_ahead << 20 : cost.key_bytes + KEYS_LEAST;
        status = open_run(r);
        out->load_s = now() - began;
    }
    if (status == EXIT_DONE)
        status = measure(r, out);
    if (status == EXIT_DONE && s->o->check)
        status = compare(r, out);
    peers_close(r->peers, status == EXIT_DONE || r->differ);
    if (status != EXIT_INTERRUPTED) /* else the process ends soon: interrupt_end() */
        close_run(r);
    return status;
}
