/* SPDX-License-Identifier: Apache-2.0 */
/* party.c - the life of a process of `uvcc party`: runs, steps, the end.
 *
 * The workers of a process go through the steps together: none agrees to a step before all have on
 * the disk what must be there before. So there is always a step of which all workers of all parties
 * have a checkpoint, whoever is killed when. */
#include "party.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/checkpoint.h>

#include "../interrupt.h"
#include "../nccl_library.h"
#include "clients.h"
#include "figures.h"
#include "serve_queue.h"
#include "status.h"

#define NS_PER_S      1000000000u
#define NS_PER_MS     1000000u
#define TICK_NS       (NS_PER_S / 2)
#define TROUBLE_NS    (10ull * NS_PER_S)
#define END_NS        (1ull * NS_PER_S) /* how long peers are given to hear that a run is over */
#define OPEN_STEPS_NS (5ull * NS_PER_S) /* an interruption waits so long for steps that run */

/* ---- what is said ---- */

void party_trouble(party *p, const char *format, ...) {
    char text[sizeof p->trouble.text];
    const uint64_t now = uvcc_host_now_ns();
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (strcmp(text, p->trouble.text) == 0 && now < p->trouble.said_ns + TROUBLE_NS)
        return;
    memcpy(p->trouble.text, text, sizeof text);
    p->trouble.said_ns = now;
    report_line(true, "%s", text);
    figures_say(p, UVCC_LOG_WARN, "trouble", text);
}

/* ---- the end of a run ---- */

static void end_run(party *p, uint16_t reason, int status, const char *why) {
    const uint64_t now = uvcc_host_now_ns();
    p->phase = PARTY_ENDING;
    p->end_by_ns = now + END_NS;
    for (uint32_t i = 0; i < p->workers; i++)
        worker_abort(&p->worker[i], reason, now);
    plane_fail(p->plane, status, why); /* after them: what waits there is no reason of its own */
}

void party_again(party *p, const char *format, ...) {
    char text[256];
    if (p->phase == PARTY_ENDING)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (p->make) {
        party_fail(p, report_error(EXIT_FAILED, "%s", text));
        return;
    }
    report_line(true, "%s: a new run follows", text);
    figures_say(p, UVCC_LOG_WARN, "run_ends", text);
    p->again = true;
    end_run(p, UVCC_ABORT_RESTARTED, EXIT_AGAIN, text);
}

void party_fail(party *p, int status) {
    party_fail_by(p, status,
                  status == EXIT_INTERRUPTED ? UVCC_ABORT_RESTARTED
                  : status == EXIT_BAD_INPUT ? UVCC_ABORT_DATA
                                             : UVCC_ABORT_HOST);
}

void party_fail_by(party *p, int status, uint16_t reason) {
    if (p->status == EXIT_DONE)
        p->status = status;
    if (p->phase == PARTY_ENDING && !p->again)
        return;
    p->again = false;
    end_run(p, reason, status,
            status == EXIT_INTERRUPTED ? "a worker was interrupted" : "a worker has failed");
}

bool party_plane_failed(party *p) {
    int status = 0;
    const char *why =
        p->plane != NULL && plane_between_processes(p->plane) ? plane_why(p->plane, &status) : NULL;
    if (why == NULL)
        return false;
    if (p->phase == PARTY_ENDING)
        return true;
    if (status == EXIT_AGAIN)
        party_again(p, "%s", why);
    else if (status == EXIT_INTERRUPTED)
        party_fail(p, EXIT_INTERRUPTED);
    else
        party_fail(p, report_error(status != 0 ? status : EXIT_FAILED, "%s", why));
    return true;
}

/* ---- the begin of a run ---- */

static bool between_processes(const party *p) {
    return !p->c.all_workers && config_workers(&p->c) > 1;
}

static void forget_run(party *p) {
    char text[PARTY_PATH_BYTES + 128];
    plane_drain(p->plane);
    for (uint32_t i = 0; i < p->workers; i++)
        worker_end(&p->worker[i]);
    figures_forget(p);
    if (p->audit != NULL && !bundles_retry(p->audit, text, sizeof text))
        party_trouble(p, "audit: %s; this step's evidence and what follows it is lost", text);
    bundles_close(p->audit);
    p->audit = NULL;
    if (between_processes(p)) /* the processes of a party come together once */
        return;
    plane_close(p->plane);
    p->plane = NULL;
}

/* As card_open() has it. */
static uint32_t device_of(const party_config *c) {
    const uint32_t count = card_count(NULL);
    return c->device != CARD_BY_RANK || count == 0 ? c->device : c->local_rank % count;
}

static int open_plane(party *p) {
    if (p->plane != NULL)
        return EXIT_DONE;
    const plane_config c = {.alloc = uvcc_host_allocator(),
                            .replicas = (uint16_t)p->c.replicas,
                            .stages = (uint16_t)p->c.stages,
                            .tp_ranks = (uint16_t)p->c.tensor_ranks,
                            .processes = p->c.all_workers ? 1 : config_workers(&p->c),
                            .local_rank = p->c.local_rank,
                            .devices = p->c.compute == CONFIG_GPU && config_workers(&p->c) > 1,
                            .device = device_of(&p->c),
                            .wake = uvcc_net_wake,
                            .wake_user = p->net};
    return plane_open(&p->plane, &c);
}

static int open_audit(party *p, uint32_t run) {
    if (p->c.audit == NULL)
        return EXIT_DONE;
    bundles_config c = {.dir = p->audit_dir,
                        .replicas = (uint16_t)p->c.replicas,
                        .stages = (uint16_t)p->c.stages,
                        .tp_ranks = (uint16_t)p->c.tensor_ranks,
                        .run = run,
                        .patient = true};
    memcpy(c.sign_seed[p->c.party], p->sign_seed, sizeof p->sign_seed);
    memcpy(c.keys.key, p->public_key, sizeof c.keys.key);
    p->audit = bundles_open(&c);
    return p->audit != NULL ? EXIT_DONE : EXIT_BAD_INPUT;
}

static int open_cpu(party *p, worker *w) {
    uvcc_cpu_config c = {.size = sizeof c,
                         .alloc = uvcc_host_allocator(),
                         .mode = p->c.compute == CONFIG_INLINE ? UVCC_CPU_INLINE : UVCC_CPU_THREADS,
                         .threads = p->c.compute == CONFIG_INLINE ? 0 : p->c.threads,
                         .wake = uvcc_net_wake,
                         .wake_user = p->net};
    const bool cards = p->c.all_workers && config_workers(&p->c) > 1;
    const card_config at = {.device = p->c.device,
                            .rank = w->rank,
                            .bytes = p->c.device_bytes,
                            .memory = cards ? nccl_library_on_memory : NULL};
    char why[CARD_TEXT_BYTES];
    figures_hook(w, NULL, &c);
    int rc = p->c.compute == CONFIG_GPU ? card_open(&w->card, &at, &c, why) : 0;
    if (rc != 0)
        return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                            "compute: \"gpu\": %s; give \"inline\" or \"threads\" to do without",
                            why);
    rc = uvcc_cpu_new(&w->cpu, &c);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "the executor: %s", uvcc_error_text(rc));
}

/* Processes that have agreed on a run cannot take another. */
static void later(party *p) {
    forget_run(p);
    if (p->agreed) {
        plane_fail(p->plane, EXIT_AGAIN, p->trouble.text);
        p->status = EXIT_AGAIN;
        p->over = true;
    }
    p->retry_ns = uvcc_host_now_ns() + NS_PER_S;
}

/* All are offered the same, so all go on from the same step. */
static int start_workers(party *p, uint32_t run) {
    plane_offer offer = {0};
    int rc = 0;
    for (uint32_t i = 0; i < p->workers && rc == 0; i++)
        rc = worker_begin(&p->worker[i], &offer);
    if (rc == 0 && (rc = plane_agree(p->plane, &run, &offer)) != 0)
        (void)party_plane_failed(p);
    p->agreed = rc == 0 && between_processes(p);
    for (uint32_t i = 0; i < p->workers && rc == 0; i++) {
        p->worker[i].cfg.resume.next_run = run;
        rc = worker_start(&p->worker[i], &offer);
    }
    return rc;
}

/* A run of its own for all workers here. What the disk refuses is tried again. */
static void begin_run(party *p) {
    uint32_t run;
    p->phase = PARTY_RUNNING;
    p->again = p->told = false;
    p->retry_ns = 0;
    int rc = uvcc_store_next_run(p->store, &run);
    if (rc == UVCC_ERR_IO) {
        party_trouble(p, "%s; trying again", uvcc_store_error(p->store));
        later(p);
        return;
    }
    if (rc != 0) {
        p->status = report_error(EXIT_FAILED, "%s", uvcc_store_error(p->store));
        p->over = true;
        return;
    }
    p->runs++;
    int status = open_plane(p);
    if (status == EXIT_DONE && (status = open_audit(p, run)) != EXIT_DONE && p->runs > 1) {
        later(p); /* it could be opened before: the disk */
        return;
    }
    for (uint32_t i = 0; i < p->workers && status == EXIT_DONE; i++)
        status = open_cpu(p, &p->worker[i]);
    if (status != EXIT_DONE) {
        p->status = status;
        p->over = true;
        return;
    }
    rc = start_workers(p, run);
    if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
        later(p);
    else if (rc != 0)
        p->over = true;
}

/* ---- steps ---- */

uint32_t party_steps(const party *p) {
    return p->kind->queue == NULL ? p->kind->steps(p->work) : 0;
}

const char *party_of_steps(const party *p, char out[32]) {
    out[0] = '\0';
    if (party_steps(p) != 0)
        (void)snprintf(out, 32, " of %u", party_steps(p));
    return out;
}

/* All of them, or none: who is not ready is waited for. */
static bool all_ready(const party *p) {
    for (uint32_t i = 0; i < p->workers; i++)
        if (!p->worker[i].ready || p->worker[i].session == NULL)
            return false;
    return true;
}

/* The same of other processes' workers. While peers come and go one triangle may be in a run with
 * a peer that is gone already, and another in the next with the one that came after it. */
static bool same_elsewhere(party *p) {
    const worker *w = &p->worker[0];
    const int rc = plane_same(p->plane, (uint64_t)w->run << 32 | w->first);
    if (rc == UVCC_ERR_MISMATCH)
        party_again(p, "the workers go on in other runs or from other steps (%u of run %u here)",
                    w->first, w->run);
    else if (rc != 0 && rc != UVCC_ERR_AGAIN && !party_plane_failed(p))
        party_fail(p, report_error(EXIT_FAILED, "the party's workers: %s", uvcc_error_text(rc)));
    return rc == 0;
}

/* Each triangle agreed by itself; they were offered the same. */
static bool same_run(party *p) {
    const worker *first = &p->worker[0];
    if (p->told)
        return true;
    for (uint32_t i = 1; i < p->workers; i++)
        if (p->worker[i].run != first->run || p->worker[i].first != first->first) {
            party_again(p, "the workers go on from other steps (%u and %u of runs %u and %u)",
                        first->first, p->worker[i].first, first->run, p->worker[i].run);
            return false;
        }
    if (!same_elsewhere(p))
        return false;
    p->told = true;
    p->run = first->run;
    p->first = first->first;
    char of[32];
    report_line(true, "run %u from step %u%s", p->run, p->first + 1, party_of_steps(p, of));
    return true;
}

static uint32_t least(const party *p, bool finished) {
    uint32_t step = UINT32_MAX;
    for (uint32_t i = 0; i < p->workers; i++) {
        const uint32_t s = finished ? p->worker[i].finished : p->worker[i].agreed;
        step = s < step ? s : step;
    }
    return step;
}

/* What must be on the disk before `step` is there, of all workers. */
static bool durable(party *p, uint32_t step, uint64_t now) {
    for (uint32_t i = 0; i < p->workers; i++) {
        const int rc = uvcc_store_may_agree(p->store, p->worker[i].session, step);
        if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM) {
            p->retry_ns = now + NS_PER_S;
            party_trouble(p, "step %u waits: %s; trying again", step + 1,
                          uvcc_store_error(p->store));
        }
        if (rc != 0)
            return false;
    }
    return true;
}

/* Evidence of earlier steps that the disk refused is there now. */
static bool evidence_there(party *p, uint64_t now) {
    char text[PARTY_PATH_BYTES + 128];
    if (p->audit == NULL || bundles_retry(p->audit, text, sizeof text))
        return true;
    p->retry_ns = now + NS_PER_S;
    party_trouble(p, "audit: %s; trying again", text);
    return false;
}

/* Agrees to steps as far as it goes, and gives their inputs. */
static void advance(party *p, uint64_t now) {
    if (p->phase != PARTY_RUNNING || p->interrupted || now < p->retry_ns || !all_ready(p) ||
        !same_run(p))
        return;
    for (uint32_t i = 0; i < p->workers; i++)
        worker_give(&p->worker[i], now);
    bool stopped = false;
    while (!stopped && p->phase == PARTY_RUNNING) {
        const uint32_t step = least(p, false);
        if (step >= p->kind->steps(p->work) || !durable(p, step, now) || !evidence_there(p, now))
            return;
        for (uint32_t i = 0; i < p->workers && p->phase == PARTY_RUNNING; i++)
            if (p->worker[i].agreed == step && worker_step(&p->worker[i], step, now))
                stopped = true;
    }
}

/* With the round trips to the peers. TCP knows them when a connection is up; the link of packets
 * has measured them when the first messages of a step were acknowledged. */
static void introduce(party *p) {
    if (p->introduced || !p->told || p->phase == PARTY_ENDING)
        return;
    bool known = true;
    for (uint32_t i = 0; i < p->workers && known; i++)
        known = worker_trips_known(&p->worker[i]);
    if (!known && least(p, true) == p->first)
        return;
    p->introduced = true;
    for (uint32_t i = 0; i < p->workers; i++)
        worker_introduce(&p->worker[i]);
}

static void show_progress(party *p) {
    const uint32_t steps = p->kind->steps(p->work), done = least(p, true);
    const bool serves = p->kind->queue != NULL;
    party_totals t = p->totals;
    char of[32];
    if (!p->told || done == p->shown || done == 0)
        return;
    p->shown = done;
    if (!report_pace_due(&p->pace, done == steps))
        return;
    const char *name = "";
    bool ahead;
    (void)p->kind->entry(p->work, &p->worker[0].place, done - 1, &name, &ahead);
    for (uint32_t i = 0; i < p->workers; i++)
        worker_stats(&p->worker[i], &t);
    (void)snprintf(of, sizeof of, "/%u", steps);
    report_line(false, "step %u%s  %s  %s%s%.1f MB  %llu rounds  %s", done, serves ? "" : of, name,
                p->worker[0].text, *p->worker[0].text != '\0' ? "  " : "",
                (double)(t.bytes_online + t.bytes_preprocessing) * 1e-6,
                (unsigned long long)t.rounds,
                serves ? "" : report_pace_left(&p->pace, done, steps));
}

/* ---- the end of the job ---- */

static void close_all(party *p, uint64_t now) {
    p->phase = PARTY_DONE;
    for (uint32_t i = 0; i < p->workers; i++)
        (void)uvcc_session_close(p->worker[i].session, now);
}

/* All steps are finished here, and their evidence is whole. The result comes to the disk before a
 * checkpoint from behind the last step: who was killed between the two the other way round would go
 * on where nothing is left to run, and so nothing is opened to it any more. */
static void check_finished(party *p, uint64_t now) {
    if (p->phase != PARTY_RUNNING || !all_ready(p) || least(p, true) < p->kind->steps(p->work) ||
        (p->audit != NULL && bundles_waiting(p->audit) != 0) || now < p->retry_ns ||
        !evidence_there(p, now))
        return;
    if (p->kind->queue != NULL) {
        party_again(p, "the numbers of steps are used up");
        return;
    }
    if (!p->finished && !p->make) {
        const int status = party_result_make(p);
        if (status != EXIT_DONE) {
            party_fail(p, status);
            return;
        }
        if (!p->finished) { /* the disk, or other processes */
            p->retry_ns = p->gathering ? 0 : now + NS_PER_S;
            return;
        }
        p->done_ns = now;
    }
    for (uint32_t i = 0; i < p->workers; i++)
        worker_keep_last(&p->worker[i]);
    if (!durable(p, p->kind->steps(p->work), now))
        return; /* the last step's checkpoint, or triples */
    if (p->make) {
        p->finished = true;
        p->done_ns = now;
    }
    close_all(p, now);
}

static bool all_closed(const party *p) {
    for (uint32_t i = 0; i < p->workers; i++)
        if (p->worker[i].session != NULL && !p->worker[i].closed)
            return false;
    return true;
}

static bool all_said_bye(const party *p) {
    for (uint32_t i = 0; i < p->workers; i++)
        for (unsigned q = 0; q < UVCC_PARTIES; q++)
            if (q != p->c.party && !p->worker[i].bye[q])
                return false;
    return true;
}

static bool lingered(const party *p, uint64_t now) {
    return p->finished && now >= p->done_ns + (uint64_t)p->c.linger_s * NS_PER_S;
}

/* A peer that was killed before it had its result comes back for the last steps. */
static void end_done(party *p, uint64_t now) {
    uint32_t unsettled = all_said_bye(p) ? 0 : 1;
    if (plane_max(p->plane, &unsettled) != 0) { /* another process of the party has failed */
        int status = 0;
        const char *why = plane_why(p->plane, &status);
        report_line(true, "%s", why != NULL ? why : "the party's other workers are gone");
        p->status = status != 0 ? status : EXIT_AGAIN;
        p->finished = false;
        p->over = true;
    } else if (unsettled == 0) {
        p->settled = true;
        p->over = true;
    } else if (p->make || lingered(p, now)) {
        p->over = true;
    } else if (between_processes(p)) {
        p->status = EXIT_AGAIN;
        p->finished = false;
        p->over = true;
    } else {
        forget_run(p);
        begin_run(p);
    }
}

static void end_phase(party *p, uint64_t now) {
    if (p->phase == PARTY_DONE && all_closed(p)) {
        end_done(p, now);
    } else if (p->phase == PARTY_ENDING && (all_closed(p) || now >= p->end_by_ns)) {
        forget_run(p);
        if (p->again && !p->interrupted && !between_processes(p)) {
            begin_run(p);
            return;
        }
        if (p->again && !p->interrupted) {
            p->status = EXIT_AGAIN;
            p->finished = false;
        }
        p->over = true;
    } else if (p->phase == PARTY_RUNNING && !p->told && lingered(p, now)) {
        p->over = true; /* nobody came back */
    }
}

/* A step that waits for requests is none that anybody needs the end of. */
static bool idle(const party *p) {
    return p->kind->queue != NULL && serve_queue_now(p->kind->queue(p->work)) == NULL;
}

/* Steps that run come to their end, if peers let them; the rest is for the next start. */
static void check_interrupted(party *p, uint64_t now) {
    if (!interrupted() && !p->interrupted)
        return;
    if (!p->interrupted) {
        p->interrupted = true;
        p->status = p->finished ? EXIT_DONE : EXIT_INTERRUPTED;
        p->end_by_ns = now + OPEN_STEPS_NS;
    }
    if (p->finished)
        p->over = true;
    else if (p->phase == PARTY_RUNNING &&
             (!p->told || idle(p) || least(p, true) == least(p, false) || now >= p->end_by_ns))
        party_fail(p, EXIT_INTERRUPTED);
}

/* ---- faults ---- */

/* Connections of all workers break about every faults.reset_ms, at times that follow from its seed.
 */
static void make_faults(party *p, uint64_t now) {
    const uint64_t every = (uint64_t)p->c.faults.reset_ms * NS_PER_MS;
    if (every == 0 || p->phase != PARTY_RUNNING)
        return;
    if (p->reset_ns == 0)
        p->fault_state = p->c.faults.reset_seed;
    for (uint32_t i = 0; p->reset_ns != 0 && now >= p->reset_ns && i < p->workers; i++)
        worker_reset(&p->worker[i]);
    if (p->reset_ns != 0 && now < p->reset_ns)
        return;
    p->fault_state = 6364136223846793005u * p->fault_state + 1442695040888963407u;
    p->reset_ns = now + every / 2 + (p->fault_state >> 32) % every;
}

/* ---- the loop ---- */

static bool poll_plane(party *p, uint64_t now) {
    uvcc_completion c;
    bool any = false;
    for (uint32_t i = 0; i < p->workers; i++) {
        worker *w = &p->worker[i];
        while (p->plane != NULL && w->session != NULL && plane_poll(p->plane, w->rank, &c) == 1) {
            (void)uvcc_session_complete(w->session, &c, now);
            any = true;
        }
    }
    return any;
}

/* Positive: something was done, so there may be more to do at once. */
static int turn(party *p) {
    if (p->phase == PARTY_RUNNING)
        (void)party_plane_failed(p);
    int rc = uvcc_net_turn(p->net);
    uint64_t now = uvcc_host_now_ns();
    while (rc >= 0 && poll_plane(p, now)) {
        rc = uvcc_net_turn(p->net);
        now = uvcc_host_now_ns();
    }
    if (rc < 0 && p->phase == PARTY_RUNNING)
        party_fail(
            p, report_error(EXIT_FAILED, "a session: %s: %s", uvcc_error_text(rc), p->log_line));
    if (p->phase == PARTY_RUNNING && p->worker[0].session == NULL && now >= p->retry_ns)
        begin_run(p);
    if (p->names_lost && p->phase == PARTY_RUNNING)
        party_fail(p, report_error(EXIT_FAILED, "names: %s: cannot be written", p->c.names));
    clients_turn(p->clients, now);
    advance(p, now);
    clients_turn(p->clients, now); /* what was answered */
    check_finished(p, now);
    check_interrupted(p, now);
    introduce(p);
    show_progress(p);
    party_say_waits(p, now);
    make_faults(p, now);
    end_phase(p, now);
    rc = p->over ? 0 : uvcc_net_turn(p->net); /* what these made goes out */
    return poll_plane(p, uvcc_host_now_ns()) ? 1 : rc;
}

/* Signals and ticks end the wait. */
static void wait_for_work(party *p) {
    const uint64_t now = uvcc_host_now_ns();
    const uint64_t own = uvcc_net_deadline(p->net), of_clients = clients_deadline(p->clients);
    const uint64_t net = own < of_clients ? own : of_clients;
    const uint64_t page = p->figures.page != NULL ? status_deadline(p->figures.page) : UVCC_NEVER;
    const uint64_t at = net < page ? net : page;
    const uint64_t until = at < now + TICK_NS ? at : now + TICK_NS;
    const figures_wait what = figures_waits(p, now);
    struct pollfd watched[] = {
        {.fd = uvcc_net_fd(p->net), .events = POLLIN},
        {.fd = p->figures.page != NULL ? status_fd(p->figures.page) : -1, .events = POLLIN}};
    crew_poll(p->crew, watched, sizeof watched / sizeof watched[0], until > now ? until - now : 0);
    const uint64_t after = uvcc_host_now_ns();
    figures_waited(p, what, after - now);
    if (p->figures.page != NULL)
        status_turn(p->figures.page, after);
}

/* Processes of a party that have different files would wait for peers that none of them fits. */
static bool same_job(party *p) {
    uint32_t part;
    memcpy(&part, p->c.job_hash, sizeof part);
    uint32_t most = part, least_inverse = ~part;
    const bool told = plane_max(p->plane, &most) == 0 && plane_max(p->plane, &least_inverse) == 0;
    if (told && most == ~least_inverse)
        return true;
    p->status = told ? report_error(EXIT_BAD_INPUT,
                                    "%s: job: is another one than at other workers of this party; "
                                    "give all of them the same file",
                                    p->c.file)
                     : EXIT_AGAIN;
    p->finished = false;
    p->over = true;
    return false;
}

/* What the processes of a party have of the end of an earlier start: what one has settled is
 * settled, for it did so when all had; a result that one has not is computed again by all. */
static void compare_ends(party *p) {
    p->status = open_plane(p);
    p->over = p->status != EXIT_DONE;
    if (p->over) {
        p->finished = false; /* that is not what this start comes to */
        return;
    }
    uint32_t settled = p->settled, without = p->result == NULL;
    if (!same_job(p))
        return;
    if (plane_max(p->plane, &settled) != 0 || plane_max(p->plane, &without) != 0) {
        p->status = EXIT_AGAIN;
        p->finished = false;
        p->over = true;
        return;
    }
    p->settled = p->over = settled != 0 && p->result != NULL;
    if (without != 0) {
        json_decref(p->result);
        p->result = NULL;
        p->finished = false;
    }
}

int party_run(party *p) {
    p->started_ns = uvcc_host_now_ns();
    report_pace_start(&p->pace, p->progress);
    if (between_processes(p))
        compare_ends(p);
    if (!p->over)
        begin_run(p);
    while (!p->over) {
        if (turn(p) <= 0 && !p->over)
            wait_for_work(p);
    }
    report_line_end();
    forget_run(p);
    if (p->finished && p->settled && !p->make)
        p->status = party_result_settle(p);
    else if (p->finished)
        p->status = EXIT_DONE;
    return p->status;
}
