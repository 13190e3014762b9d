/* SPDX-License-Identifier: Apache-2.0 */
/* host_loop.c - see host_loop.h.
 *
 * A turn hears the events of a party and then lets it agree to steps and give inputs. On one thread
 * the parties take turns in a fixed order; after them the networks move on together. With inline or
 * deferred executors a run is then a function of its options. With a thread for each
 * worker of each party a turn is that worker's own, as soon as there is something to hear, under
 * the host's lock but for the steps that sessions open.
 *
 * The lock may be taken again by who has it: a session that a hook calls may write to the log. */
#include "host_loop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvcc/policy.h>

#include "dir_lock.h"
#include "files.h"
#include "host_cards.h"
#include "interrupt.h"

#define RANK_BITS         8u   /* of sessions of a job */
#define STALLED_TURNS_MAX 500u /* in which memory was refused and nothing got on */
_Static_assert(UVCC_LOOPBACK_TRIANGLES_MAX *UVCC_PARTIES <= 1u << RANK_BITS, "RANK_BITS");

typedef bool condition(const host *h, const host_party *p);

/* ---- small things ---- */

static const char *about_of(const host *h) {
    return h->c.about != NULL ? h->c.about : "";
}

/* How often a session got no memory: of the host, or of a card, which is in *of then. */
static uint64_t count_refused(const host *h, const card **of) {
    uint64_t n = memory_failed(&h->memory);
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const card *c = h->worker[i].party[p].card;
            n += card_refused(c);
            *of = card_refused(c) != 0 ? c : *of;
        }
    return n;
}

static uint64_t refused_memory(const host *h) {
    const card *of = NULL;
    return count_refused(h, &of);
}

_Static_assert(MEMORY_LINE_BYTES >= CARD_TEXT_BYTES, "say_memory()");
static void say_memory(const host *h, char out[MEMORY_LINE_BYTES]) {
    const card *of = NULL;
    (void)count_refused(h, &of);
    if (of != NULL)
        card_memory_line(of, out);
    else
        memory_line(&h->memory, MEMORY_SIZES, out);
}

/* What stands behind an error for want of memory; "" if it was none. */
static const char *memory_why(const host *h, bool for_memory, char out[MEMORY_LINE_BYTES + 2]) {
    memcpy(out, ": ", for_memory ? 2 : 0);
    out[for_memory ? 2 : 0] = '\0';
    if (for_memory)
        say_memory(h, out + 2);
    return out;
}

/* A job fails for want of memory too. */
static bool by_memory(const host *h, uint16_t reason) {
    return reason == UVCC_ABORT_MEMORY || (reason == UVCC_ABORT_JOB && refused_memory(h) != 0);
}

int host_failed(const host *h, const char *what, int rc) {
    const char *about = h->c.about != NULL ? h->c.about : "", *line = h->log.line;
    char why[MEMORY_LINE_BYTES + 2];
    return report_error(EXIT_FAILED, "%s%s%s: %s%s%s%s", about, *about != '\0' ? ": " : "", what,
                        uvcc_error_text(rc), *line != '\0' ? ": " : "", line,
                        memory_why(h, rc == UVCC_ERR_NOMEM, why));
}

/* Of all sessions of the job. */
static uint32_t number_of(const host_worker *w, unsigned p) {
    return w->rank * UVCC_PARTIES + p;
}

static bundle_place place_of(const host_worker *w, unsigned p) {
    return (bundle_place){.party = (uint8_t)p,
                          .r = (uint16_t)w->replica,
                          .s = (uint16_t)w->stage,
                          .t = (uint16_t)w->tensor_rank};
}

uint64_t host_now(const host *h, const host_worker *w) {
    return h->threads != NULL ? parties_now(h->threads) : uvcc_loopback_now(w->net);
}

static bool all(const host *h, condition *is) {
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (!is(h, &h->worker[i].party[p]))
                return false;
    return true;
}

uint32_t host_finished(const host *h) {
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (h->worker[i].party[p].finished < least)
                least = h->worker[i].party[p].finished;
    return least;
}

/* ---- setting up ---- */

/* They hold a party's secrets, so they are opened before there are any. */
static int open_logs(host *h) {
    char name[64];
    if (h->c.record != NULL && uvlog_lock(h->c.record, &h->record_lock) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    for (uint32_t k = 0; h->c.record != NULL && k < h->workers * UVCC_PARTIES; k++) {
        host_worker *w = &h->worker[k / UVCC_PARTIES];
        const unsigned p = k % UVCC_PARTIES;
        const int n = snprintf(name, sizeof name, "party%u", p);
        if (h->workers > 1)
            (void)snprintf(name + n, sizeof name - (size_t)n, "-r%u-s%u-t%u", w->replica, w->stage,
                           w->tensor_rank);
        w->party[p].log = uvlog_open(h->c.record, name, h->c.force);
        if (w->party[p].log == NULL)
            return EXIT_BAD_INPUT;
    }
    return EXIT_DONE;
}

/* One text for all three: their handshakes compare it. */
static int open_policy(host *h) {
    const char *path = h->c.run->policy;
    uint8_t *text = NULL;
    char why[160];
    if (path == NULL)
        return EXIT_DONE;
    const int status = file_read(path, EXIT_BAD_INPUT, &text, &h->policy_len);
    if (status != EXIT_DONE)
        return status;
    h->policy = (char *)text;
    if (uvcc_policy_check(h->policy, h->policy_len, why, sizeof why) != 0)
        return report_error(EXIT_BAD_INPUT, "--policy %s: %s", path, why);
    return EXIT_DONE;
}

static int open_audit(host *h) {
    if (h->c.run->audit == NULL)
        return EXIT_DONE;
    bundles_config c = {.dir = h->c.run->audit,
                        .replicas = (uint16_t)h->c.replicas,
                        .stages = (uint16_t)h->c.stages,
                        .tp_ranks = (uint16_t)h->c.tensor_ranks,
                        .run = h->c.run_number};
    seeded_bundles(&c, h->c.command, h->c.run->seed);
    h->audit = bundles_open(&c);
    return h->audit != NULL ? EXIT_DONE : EXIT_BAD_INPUT;
}

static int open_trace(host *h) {
    int status = EXIT_DONE;
    if (h->c.run->trace == NULL && !h->c.run->profile)
        return EXIT_DONE;
    h->trace = trace_new(h->c.run->trace, h->worker[0].program, h->workers * UVCC_PARTIES, &status);
    if (h->trace != NULL && h->c.hooks.part != NULL)
        trace_name_parts(h->trace, h->c.hooks.part, h->c.hooks.user);
    return status;
}

static void hook_trace(host *h, const host_worker *w, unsigned p, uvcc_config *session,
                       uvcc_cpu_config *cpu) {
    char name[64], worker[48] = "";
    if (h->trace == NULL)
        return;
    if (h->c.of_workers)
        (void)snprintf(worker, sizeof worker, " r%u s%u t%u", w->replica, w->stage, w->tensor_rank);
    (void)snprintf(name, sizeof name, "party %u%s", p, worker);
    trace_hook(h->trace, number_of(w, p), name, session, cpu);
    trace_program(h->trace, number_of(w, p), w->program);
}

/* A job of one worker leaves them 0, which means the same: its logs hold the configuration as the
 * host gave it. */
static void place_session(const host *h, const host_worker *w, uvcc_config *cfg) {
    if (h->workers == 1)
        return;
    cfg->place.replicas = (uint16_t)h->c.replicas;
    cfg->place.stages = (uint16_t)h->c.stages;
    cfg->place.tp_ranks = (uint16_t)h->c.tensor_ranks;
    cfg->place.replica = (uint16_t)w->replica;
    cfg->place.stage = (uint16_t)w->stage;
    cfg->place.tp_rank = (uint16_t)w->tensor_rank;
}

/* The random bytes of a run that goes on from a checkpoint are others than those of the runs
 * before: a pad must never come twice. */
static void configure(host *h, host_worker *w, unsigned p, uvcc_config *cfg, uvcc_cpu_config *cpu) {
    const run_options *o = h->c.run;
    host_party *me = &w->party[p];
    seeded_session(cfg, &h->al, h->c.command, o->seed, p, &o->faults, &h->log);
    cfg->random = uvcc_seeded(&me->random, o->seed, h->c.run_number << RANK_BITS | number_of(w, p));
    place_session(h, w, cfg);
    cfg->checks.bundles = o->audit != NULL;
    cfg->consent.policy = h->policy;
    cfg->consent.policy_len = h->policy_len;
    cfg->cookie = number_of(w, p);
    cfg->resume.checkpoint_every = h->c.checkpoints ? 1 : 0;
    cfg->resume.next_step = h->c.first_step;
    cfg->resume.next_run = h->c.run_number;
    if (me->log != NULL) {
        cfg->record = uvlog_recorder(me->log);
        cfg->record.app = (const uint8_t *)h->c.app;
        cfg->record.app_len = h->c.app != NULL ? strlen(h->c.app) : 0;
    }
    hook_trace(h, w, p, cfg, cpu);
    if (h->c.hooks.configure != NULL)
        h->c.hooks.configure(h->c.hooks.user, w, p, cfg, cpu);
}

/* What a session refuses of its program is the options' doing, anything else ours. */
static int open_party(host *h, host_worker *w, unsigned p) {
    host_party *me = &w->party[p];
    uvcc_cpu_config cpu = {.size = sizeof cpu,
                           .alloc = h->al,
                           .mode = (uvcc_cpu_mode)h->c.run->compute,
                           .threads = h->c.threads,
                           .backend = h->c.run->backend,
                           .seed = UVCC_PARTIES * h->c.run->compute_seed + p};
    uvcc_config cfg;
    int rc = uvcc_config_default(&cfg, sizeof cfg);
    if (rc == 0) {
        configure(h, w, p, &cfg, &cpu);
        if (h->threads != NULL) {
            parties_configure(h->threads, w->rank, p, &cpu);
            parties_share_frames(h->threads, &cfg);
        }
        if (h->cards[p] != NULL)
            cards_on_wake(h->cards[p], w->rank, cpu.wake, cpu.wake_user);
        const int status = host_open_card(h, w, p, &cfg, &cpu);
        if (status != EXIT_DONE)
            return status;
        rc = uvcc_cpu_new(&me->cpu, &cpu);
    }
    if (rc == 0)
        rc = uvcc_session_new(&me->session, &cfg);
    if (rc == 0 && p != 0 && me->log == NULL && card_borrows(me->card, w->party[0].card)) {
        me->borrows = true;
        rc = uvcc_session_borrow_public(me->session, w->party[0].session);
    }
    if (rc == 0)
        rc = uvcc_session_load_program(me->session, w->program);
    if (h->c.smaller != NULL && (rc == UVCC_ERR_PROGRAM || rc == UVCC_ERR_LIMIT))
        return report_error(EXIT_BAD_INPUT, "a step is too large (%s); give %s", h->log.line,
                            h->c.smaller);
    if (rc == UVCC_ERR_REFUSED)
        return report_error(EXIT_BAD_INPUT, "--policy %s: %s", h->c.run->policy,
                            uvcc_session_error_detail(me->session));
    me->agreed = me->given = me->finished = h->c.first_step;
    if (h->threads != NULL && rc == 0)
        parties_join(h->threads, w->rank, p, me->session, me->cpu);
    return rc == 0 ? EXIT_DONE : host_failed(h, "a session cannot begin", rc);
}

static int open_worker(host *h, host_worker *w) {
    const run_options *o = h->c.run;
    const int rc = h->threads != NULL
                       ? 0
                       : seeded_network(&w->net, &h->al, &o->faults, o->fault_seed + w->rank);
    int status = rc == 0 ? EXIT_DONE : host_failed(h, "the network", rc);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = open_party(h, w, p);
    return status;
}

/* Workers in order of their rank. */
static int make_workers(host *h) {
    const uint32_t stages = h->c.stages, ranks = h->c.tensor_ranks;
    h->workers = h->c.replicas * stages * ranks;
    if (h->workers > UVCC_LOOPBACK_TRIANGLES_MAX)
        return report_error(
            EXIT_BAD_INPUT,
            "--replicas, --stages, --tensor: %u workers; at most %u run in one process", h->workers,
            UVCC_LOOPBACK_TRIANGLES_MAX);
    h->worker = calloc(h->workers, sizeof *h->worker);
    if (h->worker == NULL)
        return host_failed(h, "the workers", UVCC_ERR_NOMEM);
    for (uint32_t i = 0; i < h->workers; i++)
        h->worker[i] = (host_worker){.replica = i / ranks / stages,
                                     .stage = i / ranks % stages,
                                     .tensor_rank = i % ranks,
                                     .rank = i};
    return EXIT_DONE;
}

static int open_lock(pthread_mutex_t *lock) {
    pthread_mutexattr_t again;
    int rc = pthread_mutexattr_init(&again);
    if (rc == 0) {
        rc = pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
        rc = rc == 0 ? pthread_mutex_init(lock, &again) : rc;
        (void)pthread_mutexattr_destroy(&again);
    }
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "a lock cannot be made");
}

static int hear(void *user, uint32_t worker, unsigned p, bool *moved);
static int idle(void *user);

/* Not where the order of packets, jobs or records is the options' to say, nor where the network's
 * time is measured; that of devices is this computer's. */
static int open_threads(host *h) {
    const run_options *o = h->c.run;
    const parties_config c = {
        .workers = h->workers, .planes = h->plane, .user = h, .hear = hear, .idle = idle};
    if (o->parties == RUN_PARTIES_TURNS || o->compute == UVCC_CPU_DEFERRED || h->c.record != NULL ||
        (h->trace != NULL && o->compute != RUN_COMPUTE_GPU) || !run_options_calm(o))
        return EXIT_DONE;
    const int rc = parties_new(&h->threads, &c);
    return rc == 0 ? EXIT_DONE : host_failed(h, "the parties' threads", rc);
}

/* Programs come first: options that make none leave nothing behind. Then places that cannot be
 * written are known before the work begins. */
int host_open(host *h, const host_config *c) {
    const uvcc_allocator system = uvcc_host_allocator();
    *h = (host){.c = *c, .until = c->first_step, .record_lock = -1};
    h->al = memory_counted(&h->memory, c->alloc != NULL ? c->alloc : &system);
    h->prepared = c->first_step;
    h->log.lock = &h->lock;
    int status = open_lock(&h->lock);
    if (status == EXIT_DONE)
        status = make_workers(h);
    if (status == EXIT_DONE)
        status = open_policy(h);
    for (uint32_t i = 0; i < h->workers && status == EXIT_DONE; i++)
        status = c->hooks.program(c->hooks.user, &h->worker[i], &h->worker[i].program);
    if (status == EXIT_DONE)
        status = open_logs(h);
    if (status == EXIT_DONE)
        status = open_audit(h);
    if (status == EXIT_DONE)
        status = host_open_planes(h);
    if (status == EXIT_DONE)
        status = open_trace(h);
    if (status == EXIT_DONE)
        status = open_threads(h);
    for (uint32_t i = 0; i < h->workers && status == EXIT_DONE; i++)
        status = open_worker(h, &h->worker[i]);
    return status;
}

/* ---- events ---- */

static int stopped(const host *h, const host_worker *w, unsigned p, const uvcc_event *e) {
    const char *about = h->c.about != NULL ? h->c.about : "";
    char worker[64] = "", why[MEMORY_LINE_BYTES + 2];
    if (h->c.of_workers)
        (void)snprintf(worker, sizeof worker, ", worker r%u s%u t%u", w->replica, w->stage,
                       w->tensor_rank);
    const char *trouble = e->reason == UVCC_ABORT_JOB ? host_card_trouble(h, w, p) : "";
    return report_error(EXIT_FAILED, "%s%sparty %u%s stopped: %s%s%s%s%s%s", about,
                        *about != '\0' ? ": " : "", p, worker, uvcc_abort_text(e->reason),
                        e->text != NULL ? ": " : "", e->text != NULL ? e->text : "",
                        *trouble != '\0' ? ": " : "", trouble,
                        memory_why(h, by_memory(h, e->reason), why));
}

static int take_event(host *h, host_worker *w, unsigned p, const uvcc_event *e) {
    const bundle_place at = place_of(w, p);
    host_party *me = &w->party[p];
    int status = h->audit != NULL ? bundles_event(h->audit, me->session, &at, e) : EXIT_DONE;
    if (status == EXIT_DONE && h->c.hooks.event != NULL)
        status = h->c.hooks.event(h->c.hooks.user, w, p, e);
    if (status != EXIT_DONE)
        return status;
    switch (e->kind) {
    case UVCC_EVENT_READY:
        me->ready = true;
        break;
    case UVCC_EVENT_STEP_FINISHED:
        me->finished = e->step + 1;
        memcpy(me->step_root, e->step_root, sizeof me->step_root);
        break;
    case UVCC_EVENT_CHECKPOINT:
        me->checkpointed = e->step;
        break;
    case UVCC_EVENT_MISMATCH: /* all parties are of one configuration here: waiting mends nothing */
        return report_error(EXIT_FAILED, "%s%sparty %u and party %u do not fit together: %s",
                            about_of(h), *about_of(h) != '\0' ? ": " : "", p, e->peer, e->text);
    case UVCC_EVENT_ABORTED:
        return stopped(h, w, p, e);
    case UVCC_EVENT_CLOSED:
        me->closed = true;
        break;
    default:
        break;
    }
    return EXIT_DONE;
}

static int take_events(host *h, host_worker *w, unsigned p) {
    uvcc_event e;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && uvcc_session_poll_event(w->party[p].session, &e) == 1)
        status = take_event(h, w, p, &e);
    return status;
}

/* ---- steps ---- */

static int by_policy(const host *h, const uvcc_session *s, uint32_t step) {
    return report_error(EXIT_FAILED, "--policy %s: step %u: %s", h->c.run->policy, step + 1,
                        uvcc_session_error_detail(s));
}

static int refused(const host *h, const uvcc_session *s, uint32_t step, int rc) {
    const char *why = uvcc_session_error_detail(s);
    if (rc != UVCC_ERR_REFUSED)
        return host_failed(h, "a step was refused", rc);
    if (h->policy != NULL && strncmp(why, "the policy", strlen("the policy")) == 0)
        return by_policy(h, s, step);
    return report_error(EXIT_FAILED,
                        "the check of a product failed in step %u of an earlier run; find out "
                        "why, then go on with --sks-override, which the transcript records",
                        step + 1);
}

/* Not under the lock: to lay out a step of many ops takes a while, and the session is this thread's
 * alone, as in every other call. */
static int open_step(host *h, const host_worker *w, uvcc_session *s, uint32_t step,
                     uint32_t entry) {
    if (h->threads != NULL)
        (void)pthread_mutex_unlock(&h->lock);
    const int rc = uvcc_session_step(s, step, entry, host_now(h, w));
    if (h->threads != NULL)
        (void)pthread_mutex_lock(&h->lock);
    return rc;
}

/* A step is agreed to once the one before it is finished, or, where the command says so, is
 * running. */
static int agree(host *h, host_worker *w, unsigned p) {
    const host_hooks *c = &h->c.hooks;
    host_party *me = &w->party[p];
    me->offers = false;
    while (me->ready && me->agreed < h->until) {
        const uint32_t step = me->agreed;
        const bool ahead = c->ahead != NULL && c->ahead(c->user, step);
        if (step > me->finished + ahead)
            break;
        if (step == h->prepared && c->prepare != NULL) {
            const int status = c->prepare(c->user, step);
            if (status != EXIT_DONE)
                return status;
        }
        if (step == h->prepared)
            h->prepared++;
        const int entry = c->entry(c->user, w, step);
        const int rc = entry < 0 ? entry : open_step(h, w, me->session, step, (uint32_t)entry);
        me->offers = rc == UVCC_ERR_AGAIN;
        if (rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_ABORTED)
            break; /* its event says why */
        me->agreed += rc == 0;
        if (h->goal.status != EXIT_DONE) /* another's, meanwhile: one error is enough */
            return h->goal.status;
        if (rc != 0)
            return refused(h, me->session, step, rc);
    }
    return EXIT_DONE;
}

/* Inputs of steps that are agreed to. A session may not take one yet: then it is offered again. */
static int give(host *h, host_worker *w, unsigned p) {
    const host_hooks *c = &h->c.hooks;
    host_party *me = &w->party[p];
    for (; me->given < me->agreed; me->given++, me->inputs = 0) {
        const uint32_t entry = (uint32_t)c->entry(c->user, w, me->given);
        for (; me->inputs < uvcc_program_input_count(w->program, entry); me->inputs++) {
            const uvcc_io_desc *in = uvcc_program_input_at(w->program, entry, me->inputs);
            if (in->owner != p)
                continue;
            const int64_t *v = c->input(c->user, w, me->given, in->id);
            if (v == NULL)
                return EXIT_FAILED;
            const int rc = uvcc_session_input(me->session, me->given, in->id, v, host_now(h, w));
            me->offers |= rc == UVCC_ERR_AGAIN;
            if (rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_ABORTED)
                return EXIT_DONE;
            if (rc == UVCC_ERR_REFUSED && h->policy != NULL)
                return by_policy(h, me->session, me->given);
            if (rc != 0)
                return host_failed(h, "an input was refused", rc);
        }
    }
    return EXIT_DONE;
}

/* ---- driving ---- */

static void note_stats(host_party *me) {
    uvcc_session_get_stats(me->session, &me->stats);
}

/* Of one session: *e is its next event if `some`, and more may follow. */
static int turn_of(host *h, host_worker *w, unsigned p, const uvcc_event *e, bool some) {
    int status = some ? take_event(h, w, p, e) : EXIT_DONE;
    if (status == EXIT_DONE)
        status = take_events(h, w, p);
    note_stats(&w->party[p]);
    if (status == EXIT_DONE)
        status = agree(h, w, p);
    if (status == EXIT_DONE)
        status = give(h, w, p);
    return status;
}

static void turned(const host *h) {
    if (h->c.hooks.turned != NULL)
        h->c.hooks.turned(h->c.hooks.user);
}

static int turn(host *h) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
            status = turn_of(h, &h->worker[i], p, NULL, false);
    turned(h);
    return status;
}

#define WAITS_BYTES 512u

/* What the parties need of each other, of the first worker that needs anything: one line. */
static void say_waits(const host *h, char out[WAITS_BYTES]) {
    static const char *const what[] = {[UVCC_WAIT_HELLO] = "handshake",
                                       [UVCC_WAIT_STEP] = "agreement to a step",
                                       [UVCC_WAIT_AUDIT] = "root of a step",
                                       [UVCC_WAIT_BATCH] = "messages",
                                       [UVCC_WAIT_BYE] = "end",
                                       [UVCC_WAIT_ACK] = "acknowledgement"};
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < h->workers && n == 0; i++)
        for (unsigned k = 0; k < UVCC_PARTIES * UVCC_PARTIES && n < WAITS_BYTES; k++) {
            const unsigned p = k / UVCC_PARTIES, q = k % UVCC_PARTIES;
            uvcc_peer_info info = {.size = sizeof info};
            if (p == q ||
                uvcc_session_peer_info(h->worker[i].party[p].session, (uint8_t)q, &info) != 0 ||
                info.waits_for == UVCC_WAIT_NONE || info.waits_for > UVCC_WAIT_ACK)
                continue;
            n += (size_t)snprintf(out + n, WAITS_BYTES - n, "%s party %u waits for party %u's %s",
                                  n == 0 ? ":" : ",", p, q, what[info.waits_for]);
        }
}

/* Grows with everything that a run has only so much of: bytes that are sent again and streams that
 * come back do not count. */
static uint64_t progress(const host *h) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const host_party *me = &h->worker[i].party[p];
            uvcc_session_stats st;
            uvcc_session_get_stats(me->session, &st);
            sum += st.messages + st.jobs + st.steps_finished + me->agreed + me->given + me->inputs +
                   me->ready + me->closed;
        }
    return sum;
}

/* A session that gets no memory asks again later, and later may be never: what it takes to go on is
 * in use by what waits for it. So turns in which memory was refused are counted until something
 * gets on; without a refusal none is. */
static int check_stall(host *h) {
    const uint64_t failed = refused_memory(h);
    char why[MEMORY_LINE_BYTES], waits[WAITS_BYTES];
    if (failed == h->stall.failed)
        return EXIT_DONE;
    h->stall.failed = failed;
    const uint64_t now = progress(h);
    h->stall.turns = now == h->stall.progress ? h->stall.turns + 1 : 0;
    h->stall.progress = now;
    if (h->stall.turns < STALLED_TURNS_MAX)
        return EXIT_DONE;
    say_memory(h, why);
    say_waits(h, waits);
    return report_error(EXIT_FAILED, "%s%sout of memory in step %u%s: %s", about_of(h),
                        *about_of(h) != '\0' ? ": " : "", host_finished(h) + 1, waits, why);
}

static int stuck(const host *h) {
    char why[MEMORY_LINE_BYTES + 2], waits[WAITS_BYTES];
    say_waits(h, waits);
    return report_error(EXIT_FAILED, "%s%sthe parties wait for each other for ever in step %u%s%s",
                        about_of(h), *about_of(h) != '\0' ? ": " : "", host_finished(h) + 1, waits,
                        memory_why(h, refused_memory(h) != 0, why));
}

/* What it means that nothing can happen. */
typedef int rest(const host *h);

/* All networks, up to the next time that something happens. */
static int drive(host *h, rest *at_rest) {
    uvcc_loopback_triangle t[UVCC_LOOPBACK_TRIANGLES_MAX];
    for (uint32_t i = 0; i < h->workers; i++) {
        t[i].net = h->worker[i].net;
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            t[i].sessions[p] = h->worker[i].party[p].session;
            t[i].executors[p] = h->worker[i].party[p].cpu;
        }
    }
    const int rc = uvcc_loopback_drive_all(t, h->workers, h->plane);
    if (rc < 0)
        return host_failed(h, "the parties cannot go on", rc);
    return rc == 0 ? at_rest(h) : check_stall(h);
}

/* ---- a thread for each worker of each party ---- */

/* One session's turn in its thread: under the lock if there is something to hear, or to offer
 * again. */
static int hear_worker(host *h, host_worker *w, unsigned p, bool *moved) {
    host_party *me = &w->party[p];
    uvcc_event e;
    const bool some = uvcc_session_poll_event(me->session, &e) == 1;
    if (!some && !me->offers)
        return 0;
    (void)pthread_mutex_lock(&h->lock);
    const uint32_t agreed = me->agreed, given = me->given, inputs = me->inputs;
    int status = h->goal.status; /* one error is enough */
    if (status == EXIT_DONE)
        status = turn_of(h, w, p, &e, some);
    turned(h);
    *moved |= some || agreed != me->agreed || given != me->given || inputs != me->inputs;
    if (h->goal.status == EXIT_DONE) /* another's, while a step was opened */
        h->goal.status = status;
    h->goal.reached = h->goal.is != NULL && all(h, h->goal.is);
    (void)pthread_mutex_unlock(&h->lock);
    return status != EXIT_DONE;
}

static int hear(void *user, uint32_t worker, unsigned p, bool *moved) {
    host *h = user;
    if (h->goal.stops && interrupted()) {
        (void)pthread_mutex_lock(&h->lock);
        if (h->goal.status == EXIT_DONE)
            h->goal.status = EXIT_INTERRUPTED;
        (void)pthread_mutex_unlock(&h->lock);
        return 1;
    }
    return hear_worker(h, &h->worker[worker], p, moved);
}

/* A run ends when its goal is reached and all wait: what was sent is then the same in every run.
 * With no goal it ends when the clock was moved and all wait again. */
static int idle(void *user) {
    host *h = user;
    if (h->goal.reached)
        return 1;
    h->goal.status = check_stall(h);
    return h->goal.status != EXIT_DONE || (h->goal.is == NULL && h->goal.waits++ != 0);
}

/* Parties may have been left with something to do when the run before ended, or when nothing was
 * there to hear. */
static int run_threads(host *h, condition *is, bool stops, rest *at_rest) {
    bool jobs = false; /* of a run before: they count as progress of that one */
    h->goal = (struct host_goal){.is = is, .stops = stops, .status = EXIT_DONE};
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            h->worker[i].party[p].offers = true;
            jobs |= uvcc_cpu_pending(h->worker[i].party[p].cpu) != 0;
        }
    const uint64_t before = progress(h);
    const int rc = parties_run(h->threads);
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            note_stats(&h->worker[i].party[p]);
    if (rc < 0)
        return host_failed(h, "the parties cannot go on", rc);
    const bool more = is == NULL && (jobs || h->goal.waits != 0 || progress(h) != before);
    return rc == 0 && !more && !h->goal.reached ? at_rest(h) : h->goal.status;
}

/* ---- until something is so ---- */

/* Until here an interruption ends the command at once, whatever it prepares: there is nothing yet
 * that has to end in order. */
static int drive_until(host *h, condition *is, bool stops) {
    if (stops)
        interrupt_catch_saying();
    if (h->threads != NULL)
        return run_threads(h, is, stops, stuck);
    int status = turn(h);
    while (status == EXIT_DONE && !all(h, is)) {
        if (stops && interrupted())
            return EXIT_INTERRUPTED;
        status = drive(h, stuck);
        if (status == EXIT_DONE)
            status = turn(h);
    }
    return status;
}

static int is_settled(const host *h) {
    (void)h;
    return EXIT_DONE;
}

/* Or a little longer. */
static int go_on(host *h, rest *at_rest) {
    return h->threads != NULL ? run_threads(h, NULL, false, at_rest) : drive(h, at_rest);
}

int host_settle(host *h) {
    return go_on(h, is_settled);
}

int host_wait(host *h) {
    return go_on(h, stuck);
}

static bool is_ready(const host *h, const host_party *p) {
    (void)h;
    return p->ready;
}

static bool is_closed(const host *h, const host_party *p) {
    (void)h;
    return p->closed;
}

/* What the parties say of each other's roots belongs to a step. */
static bool has_finished(const host *h, const host_party *p) {
    return p->finished >= h->until && (!h->c.checkpoints || p->checkpointed >= h->until) &&
           (h->audit == NULL || bundles_waiting(h->audit) == 0);
}

int host_start(host *h) {
    int rc = 0;
    for (uint32_t i = 0; i < h->workers && rc == 0; i++)
        for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++)
            rc = uvcc_session_start(h->worker[i].party[p].session, host_now(h, &h->worker[i]));
    h->recorded = rc == 0;
    return rc == 0 ? EXIT_DONE : host_failed(h, "a session cannot start", rc);
}

int host_ready(host *h) {
    return drive_until(h, is_ready, true);
}

int host_run(host *h, uint32_t steps, bool stops) {
    assert(steps >= h->until);
    h->until = steps;
    return drive_until(h, has_finished, stops);
}

int host_close(host *h) {
    int rc = 0;
    for (uint32_t i = 0; i < h->workers && rc == 0; i++)
        for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++)
            rc = uvcc_session_close(h->worker[i].party[p].session, host_now(h, &h->worker[i]));
    return rc == 0 ? drive_until(h, is_closed, false) : host_failed(h, "closing", rc);
}

/* ---- the end ---- */

/* What waits for a peer's AUDIT when a run ends early is written as far as it goes. */
static int end_audit(host *h) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; h->audit != NULL && i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const host_worker *w = &h->worker[i];
            const bundle_place at = place_of(w, p);
            if (w->party[p].session != NULL &&
                bundles_flush(h->audit, w->party[p].session, &at) != EXIT_DONE)
                status = EXIT_FAILED;
        }
    bundles_close(h->audit);
    return status;
}

/* Logs of runs that failed are kept too: that is what they are for. */
static int end_logs(host *h) {
    int status = EXIT_DONE;
    uint64_t bytes = 0;
    for (uint32_t k = 0; h->c.record != NULL && k < h->workers * UVCC_PARTIES; k++) {
        uvlog *log = h->worker[k / UVCC_PARTIES].party[k % UVCC_PARTIES].log;
        if (log != NULL && h->recorded && status == EXIT_DONE) {
            status = uvlog_finish(log);
            bytes += uvlog_bytes(log);
        }
        uvlog_close(log);
    }
    dir_unlock(h->record_lock);
    if (bytes != 0 && status == EXIT_DONE)
        (void)fprintf(report_stream(h->c.run->json),
                      "logs             %.1f MB, which hold the parties' secrets\n",
                      (double)bytes * 1e-6);
    return status;
}

/* Executors go first: jobs that are out end before their memory goes. Logs go last: a session may
 * have something to say until it is gone. */
int host_end(host *h) {
    if (h->worker == NULL)
        return EXIT_DONE;
    const int status = end_audit(h);
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            uvcc_cpu_free(h->worker[i].party[p].cpu);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        uvcc_collective_free(h->plane[p]);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        cards_close(h->cards[p]);
    for (uint32_t i = 0; i < h->workers; i++) {
        for (unsigned p = UVCC_PARTIES; p-- != 0;) /* who borrows goes before who lends */
            uvcc_session_free(h->worker[i].party[p].session);
        for (unsigned p = UVCC_PARTIES; p-- != 0;)
            card_close(h->worker[i].party[p].card);
        uvcc_loopback_free(h->worker[i].net);
        uvcc_program_free(h->worker[i].program);
    }
    parties_free(h->threads);
    trace_free(h->trace);
    free(h->policy);
    const int logs = end_logs(h);
    (void)pthread_mutex_destroy(&h->lock);
    free(h->worker);
    h->worker = NULL;
    return status != EXIT_DONE ? status : logs;
}

/* ---- results ---- */

int host_root(const host *h, unsigned party, uint8_t root[32]) {
    uvcc_config cfg;
    uint8_t(*roots)[32] = calloc(h->workers, sizeof *roots);
    int rc = roots == NULL ? UVCC_ERR_NOMEM : uvcc_config_default(&cfg, sizeof cfg);
    for (uint32_t i = 0; rc == 0 && i < h->workers; i++)
        memcpy(roots[i], h->worker[i].party[party].step_root, sizeof roots[i]);
    if (rc == 0) {
        seeded_identity(&cfg, h->c.command, h->c.run->seed, party);
        rc = uvcc_audit_global_root(cfg.identity.sid_job, host_finished(h) - 1,
                                    (uint16_t)h->c.replicas, (uint16_t)h->c.stages,
                                    (uint16_t)h->c.tensor_ranks, roots[0], root);
    }
    free(roots);
    return rc == 0 ? EXIT_DONE : host_failed(h, "the roots", rc);
}

static uint64_t more(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void host_totals_of(const host *h, host_totals *out) {
    *out = (host_totals){0};
    for (uint32_t i = 0; i < h->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            const uvcc_session_stats *st = &h->worker[i].party[p].stats;
            out->bytes_online += st->bytes_online;
            out->bytes_preprocessing += st->bytes_preprocessing;
            out->messages += st->messages;
            out->retransmissions += st->retransmissions;
            out->rounds = more(out->rounds, st->rounds);
            out->tensor_peak = more(out->tensor_peak, st->tensor_peak_bytes);
            out->transient_peak = more(out->transient_peak, st->transient_peak_bytes);
        }
}

int host_report(host *h, report_json *json, json_t *result, FILE *to) {
    json_t *profile = NULL;
    host_totals t;
    if (h->trace == NULL)
        return report_json_put(json, result);
    host_totals_of(h, &t);
    trace_other_bytes(h->trace, t.bytes_online, t.bytes_preprocessing);
    int status = h->c.run->profile ? trace_print(h->trace, to) : EXIT_DONE;
    if (status == EXIT_DONE && h->c.run->profile) {
        profile = trace_json(h->trace);
        if (profile == NULL || json_object_update(result, profile) != 0)
            status = report_error(EXIT_FAILED, "out of memory");
        json_decref(profile);
    }
    if (status != EXIT_DONE) {
        json_decref(result);
        return status;
    }
    const int written = report_json_put(json, result), traced = trace_finish(h->trace, to);
    return written != EXIT_DONE ? written : traced;
}
