/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - see run.h. The input of a pass is given when no party can do anything more without it. */
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
#include "unfused.h"

#define KEYS_LEAST  ((uint64_t)1 << 30) /* that may be on their way, beside those of the program */
#define FRAME_BYTES (128u << 10)        /* a peer opens one while the next is sealed */

typedef struct party_run {
    uvcc_session *session;
    uvcc_cpu *executor, *under; /* under: what `unfused` is over */
    unfused *unfused;
    card *card;
    uvcc_seeded_random random;
    watch watch;
} party_run;

typedef struct run {
    const subject *s;
    const bench_options *o;
    parties *threads;
    party_run party[UVCC_PARTIES];
    uint8_t *family;
    uint64_t keys_bytes;
    session_log log;
    pthread_mutex_t lock;
    uint32_t step;
    bool given;
    atomic_uint ready, finished;
    unsigned until_ready, until_finished;
    uint64_t gathered; /* when the input was given */
    double began, keys_done;
} run;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
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
                         .mode = o->threads > 1 ? UVCC_CPU_THREADS : UVCC_CPU_INLINE,
                         .threads = o->threads,
                         .job = watch_job,
                         .job_user = &me->watch};
    parties_configure(r->threads, p, &x);
    if (o->run.compute == RUN_COMPUTE_GPU) {
        const uint32_t first = o->run.device == CARD_BY_RANK ? 0 : o->run.device;
        const card_config c = {.device = o->spread ? first + p : o->run.device,
                               .bytes = o->run.device_bytes,
                               .streams = o->streams,
                               .trust_pointers = o->trust};
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
    char memory[CARD_TEXT_BYTES] = "";
    const char *trouble = card_trouble(r->party[p].card);
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (card_refused(r->party[q].card) != 0)
            card_memory_line(r->party[q].card, memory);
    return report_error(EXIT_FAILED, "party %u stopped: %s%s%s%s%s%s%s", p,
                        uvcc_abort_text(e->reason), e->text != NULL ? ": " : "",
                        e->text != NULL ? e->text : "", *trouble != '\0' ? ": " : "", trouble,
                        *memory != '\0' ? "; " : "", memory);
}

static int hear(void *user, unsigned p, bool *moved) {
    run *r = user;
    uvcc_event e;
    if (interrupted())
        return EXIT_INTERRUPTED;
    for (; uvcc_session_poll_event(r->party[p].session, &e) == 1; *moved = true) {
        atomic_fetch_add(&r->finished, e.kind == UVCC_EVENT_STEP_FINISHED);
        atomic_fetch_add(&r->ready, e.kind == UVCC_EVENT_READY);
        if (e.kind == UVCC_EVENT_ABORTED || e.kind == UVCC_EVENT_MISMATCH)
            return stopped(r, p, &e);
    }
    /* As an exit status, so not EXIT_DONE, which is 0. */
    return atomic_load(&r->ready) >= r->until_ready &&
                   atomic_load(&r->finished) >= r->until_finished
               ? INT32_MAX
               : 0;
}

/* Keys of all parties that lie with tensors already. */
static uint64_t gathered_of(const run *r) {
    uint64_t sum = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        sum += st.keys_gathered_bytes;
    }
    return sum;
}

/* All that can be done without the input is done. */
static int idle(void *user) {
    run *r = user;
    if (r->given || r->until_finished == 0)
        return 0;
    r->given = true;
    r->keys_done = now();
    const bool measured = r->step >= r->o->warmup;
    r->gathered = gathered_of(r);
    for (unsigned p = 0; p < UVCC_PARTIES && measured; p++)
        watch_times(&r->party[p].watch, true);
    const int rc = uvcc_session_input(r->party[0].session, r->step, UVCC_MODEL_IN_X, r->s->x,
                                      parties_now(r->threads));
    return rc == 0 ? 0 : failed(r, "the input", rc);
}

static int drive(run *r) {
    const int rc = parties_run(r->threads);
    if (rc == INT32_MAX)
        return EXIT_DONE;
    if (rc == 0)
        return report_error(EXIT_FAILED, "all three parties wait and none can go on");
    return rc > 0 ? rc : failed(r, "the parties", rc);
}

/* A tensor's values at one party: a thread of its own, since of a large model it takes a while. */
typedef struct setting {
    uvcc_session *session;
    uint32_t tensor;
    const int64_t *values;
    int rc;
} setting;

static void *set_one(void *user) {
    setting *s = user;
    s->rc = uvcc_session_set_public(s->session, s->tensor, s->values);
    return NULL;
}

static int set_weight(run *r, uint32_t tensor, const int64_t *values) {
    setting all[UVCC_PARTIES];
    pthread_t thread[UVCC_PARTIES];
    bool started[UVCC_PARTIES];
    int rc = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        all[p] = (setting){.session = r->party[p].session, .tensor = tensor, .values = values};
        started[p] = pthread_create(&thread[p], NULL, set_one, &all[p]) == 0;
        if (!started[p])
            (void)set_one(&all[p]);
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if (started[p])
            (void)pthread_join(thread[p], NULL);
        rc = rc == 0 ? all[p].rc : rc;
    }
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
        if (status == EXIT_DONE && interrupted())
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
    if (r->o->keys_ahead == 0) /* all of a step's are on their way at a time */
        c.links.frame_bytes = FRAME_BYTES;
    c.links.rx_keys_bytes = c.links.tx_keys_bytes = r->keys_bytes;
    c.trace = (uvcc_tracer){.op = watch_op, .user = &me->watch};
    watch_begin(&me->watch, r->family, r->o->run.compute == RUN_COMPUTE_GPU);
    const int status = open_executor(r, p, &c);
    if (status != EXIT_DONE)
        return status;
    if (rc == 0)
        rc = uvcc_session_new(&me->session, &c);
    if (rc == 0)
        rc = uvcc_session_load_program(me->session, r->s->program);
    if (rc == 0 && card_refused(me->card) != 0)
        rc = UVCC_ERR_NOMEM;
    if (rc != 0) {
        char memory[CARD_TEXT_BYTES] = "";
        if (card_refused(me->card) != 0)
            card_memory_line(me->card, memory);
        return report_error(EXIT_FAILED, "a session: %s%s%s", uvcc_error_text(rc),
                            *memory != '\0' ? ": " : "", memory);
    }
    parties_join(r->threads, 0, p, me->session, me->executor);
    return EXIT_DONE;
}

static int open_run(run *r) {
    const parties_config threads = {.workers = 1, .user = r, .hear = hear, .idle = idle};
    int rc = parties_new(&r->threads, &threads);
    int status = rc == 0 ? EXIT_DONE : failed(r, "threads", rc);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = open_party(r, p);
    if (status == EXIT_DONE)
        status = set_weights(r);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        rc = uvcc_session_start(r->party[p].session, 0);
        status = rc == 0 ? EXIT_DONE : failed(r, "the start", rc);
    }
    r->until_ready = UVCC_PARTIES;
    return status == EXIT_DONE ? drive(r) : status;
}

/* Executors go first: jobs that are out end before their memory goes. */
static void close_run(run *r) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        party_run *me = &r->party[p];
        uvcc_cpu_free(me->executor);
        uvcc_cpu_free(me->under);
        uvcc_session_free(me->session);
        unfused_free(me->unfused);
        card_close(me->card);
        watch_end(&me->watch);
    }
    parties_free(r->threads);
    free(r->family);
    (void)pthread_mutex_destroy(&r->lock);
}

/* ---- passes ---- */

typedef struct sums {
    uint64_t online, preproc, rounds, jobs, messages;
    double processor_s;
} sums;

static double seconds_of(const struct timeval *t) {
    return (double)t->tv_sec + 1e-6 * (double)t->tv_usec;
}

static sums stats_of(const run *r) {
    sums all = {0};
    struct rusage used;
    if (getrusage(RUSAGE_SELF, &used) == 0)
        all.processor_s = seconds_of(&used.ru_utime) + seconds_of(&used.ru_stime);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        all.online += st.bytes_online;
        all.preproc += st.bytes_preprocessing;
        all.jobs += st.jobs;
        all.messages += st.messages;
        all.rounds = st.rounds;
    }
    for (unsigned p = 0; p < UVCC_PARTIES && r->o->no_fusion; p++)
        all.jobs = (p == 0 ? 0 : all.jobs) + unfused_jobs(r->party[p].unfused);
    return all;
}

static int pass(run *r) {
    r->given = false;
    r->began = now();
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        watch_counts(&r->party[p].watch, r->step == 0);
        watch_times(&r->party[p].watch, false);
        const int rc = uvcc_session_step(r->party[p].session, r->step, 0, parties_now(r->threads));
        if (rc != 0)
            return failed(r, "a pass", rc);
    }
    r->until_finished = UVCC_PARTIES * (r->step + 1);
    return drive(r);
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
    const int64_t *got = uvcc_session_output(r->party[0].session, r->step - 1, UVCC_MODEL_OUT_Y);
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

static void add_watches(const run *r, figures *out) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const watch *w = &r->party[p].watch;
        out->aes_calls += w->aes;
        for (unsigned i = 0; i < FAMILIES; i++) {
            out->families[i].seconds += w->families[i].seconds;
            out->families[i].jobs += w->families[i].jobs;
        }
        for (unsigned i = 0; i < WATCH_KINDS; i++) {
            out->kinds[i].seconds += w->kinds[i].seconds;
            out->kinds[i].jobs += w->kinds[i].jobs;
        }
    }
}

/* Before and after the passes that were measured. */
static void put_figures(const run *r, const sums *before, const sums *after, figures *out) {
    const uint64_t n = out->iters != 0 ? out->iters : 1;
    struct rusage used;
    out->online_bytes = (after->online - before->online) / n;
    out->preproc_bytes = (after->preproc - before->preproc) / n;
    out->rounds = (after->rounds - before->rounds) / n;
    out->jobs = (after->jobs - before->jobs) / n;
    out->processor_s = (after->processor_s - before->processor_s) / (double)n;
    out->flushes = (after->messages - before->messages) / n;
    for (unsigned p = 0; p < UVCC_PARTIES && r->o->run.compute == RUN_COMPUTE_GPU; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        out->gpu_bytes += st.tensor_peak_bytes;
    }
    if (getrusage(RUSAGE_SELF, &used) == 0)
        out->rss_bytes = (uint64_t)used.ru_maxrss * 1024;
}

static uint64_t digest(const run *r) {
    const uvcc_program *p = r->s->program;
    uint64_t h = 0;
    if (uvcc_program_output_count(p, 0) == 0)
        return 0;
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    const int64_t *y = uvcc_session_output(r->party[0].session, r->step - 1, io->id);
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

static int measure(run *r, figures *out) {
    const uint32_t of = r->o->warmup + r->o->n_iters;
    report_pace pace;
    sums before = {0}, after = {0};
    int status = EXIT_DONE;
    report_pace_start(&pace, r->o->run.progress);
    while (r->step < of && status == EXIT_DONE) {
        if (r->step == r->o->warmup)
            after = before = stats_of(r);
        status = pass(r);
        if (status != EXIT_DONE)
            break;
        if (r->step++ >= r->o->warmup) {
            out->gathered_bytes = r->gathered;
            out->preproc_s[out->iters] = r->keys_done - r->began;
            out->online_s[out->iters++] = now() - r->keys_done;
            after = stats_of(r);
        }
        show(r, &pace, out);
    }
    report_line_clear();
    put_figures(r, &before, &after, out);
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
    add_watches(r, out);
    if (status == EXIT_DONE && s->o->check)
        status = compare(r, out);
    close_run(r);
    free(r);
    return status;
}
