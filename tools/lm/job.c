/* job.c - see job.h. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../report.h"

#define RANK_BITS 8u /* of sessions of a job */
_Static_assert(UVCC_LOOPBACK_TRIANGLES_MAX *JOB_PARTIES <= 1u << RANK_BITS, "RANK_BITS");
#define MESSAGE_BYTES 512u

static int failed(const char *what, int rc) {
    return report_error(EXIT_FAILED, "%s: %s", what, uvcc_error_text(rc));
}

static uint32_t rank_of(const job *j, const job_worker *w) {
    return (w->at.replica * j->cfg->stages + w->at.stage) * j->cfg->tensor_ranks +
           w->at.tensor_rank;
}

/* ---- setting up ---- */

static void configure(job *j, job_worker *w, unsigned p, uint32_t step, uint32_t run,
                      uvcc_config *cfg) {
    seeded_session(cfg, &j->al, j->command, j->o->seed, p, &j->o->faults, &j->log);
    cfg->random = uvcc_seeded(&w->party[p].random, j->o->seed,
                              run << RANK_BITS | (rank_of(j, w) * JOB_PARTIES + p));
    cfg->place.replicas = (uint16_t)j->cfg->replicas;
    cfg->place.stages = (uint16_t)j->cfg->stages;
    cfg->place.tp_ranks = (uint16_t)j->cfg->tensor_ranks;
    cfg->place.replica = (uint16_t)w->at.replica;
    cfg->place.stage = (uint16_t)w->at.stage;
    cfg->place.tp_rank = (uint16_t)w->at.tensor_rank;
    cfg->checks.audit_off = j->o->transcript != 0;
    cfg->checks.bundles = j->o->audit != NULL;
    cfg->cookie = rank_of(j, w) * JOB_PARTIES + p;
    cfg->resume.checkpoint_every = j->o->checkpoint != NULL ? 1 : 0;
    cfg->resume.next_step = step;
    cfg->resume.next_run = run;
    cfg->checks.sks_refused = j->sks.refused;
    cfg->checks.sks_step = j->sks.step;
    cfg->checks.sks_override = j->o->sks_override;
}

static void hook_trace(job *j, const job_worker *w, unsigned p, uvcc_config *session,
                       uvcc_cpu_config *cpu) {
    char name[64];
    const uint32_t index = rank_of(j, w) * JOB_PARTIES + p;
    if (j->trace == NULL)
        return;
    (void)snprintf(name, sizeof name, "party %u r%u s%u t%u", p, w->at.replica, w->at.stage,
                   w->at.tensor_rank);
    trace_hook(j->trace, index, name, session, cpu);
    trace_program(j->trace, index, w->program);
}

static int open_party(job *j, job_worker *w, unsigned p, uint32_t step, uint32_t run) {
    job_party *me = &w->party[p];
    uvcc_cpu_config cpu = {.size = sizeof cpu,
                           .alloc = j->al,
                           .mode = (uvcc_cpu_mode)j->o->compute,
                           .threads = 1,
                           .seed = JOB_PARTIES * j->o->compute_seed + p};
    uvcc_config cfg;
    int rc = uvcc_config_default(&cfg, sizeof cfg);
    if (rc == 0) {
        configure(j, w, p, step, run, &cfg);
        hook_trace(j, w, p, &cfg, &cpu);
        rc = uvcc_cpu_new(&me->cpu, &cpu);
    }
    if (rc == 0)
        rc = uvcc_session_new(&me->session, &cfg);
    if (rc == 0)
        rc = uvcc_session_load_program(me->session, w->program);
    if (rc == UVCC_ERR_PROGRAM || rc == UVCC_ERR_LIMIT)
        return report_error(EXIT_BAD_INPUT,
                            "a step is too large (%s); give a smaller --dim, --context or --batch, "
                            "or more --microbatches",
                            j->log.line);
    return rc == 0 ? EXIT_DONE : failed("a session cannot begin", rc);
}

static int open_worker(job *j, job_worker *w, uint32_t step, uint32_t run) {
    const int rc = seeded_network(&w->net, &j->al, &j->o->faults, j->o->fault_seed + rank_of(j, w));
    if (rc != 0)
        return failed("the network", rc);
    int status = EXIT_DONE;
    for (unsigned p = 0; p < JOB_PARTIES && status == EXIT_DONE; p++)
        status = open_party(j, w, p, step, run);
    return status;
}

static int make_program(job *j, job_worker *w) {
    char message[MESSAGE_BYTES] = "";
    int rc = uvcc_transformer_program(&w->program, j->cfg, &w->at, &j->al, message, sizeof message);
    if (rc == 0)
        return EXIT_DONE;
    if (rc == UVCC_ERR_LIMIT)
        return report_error(EXIT_BAD_INPUT,
                            "the program of a worker is too large; give fewer --layers or "
                            "--microbatches, or more --stages");
    return report_error(rc == UVCC_ERR_NOMEM ? EXIT_FAILED : EXIT_BAD_INPUT,
                        "the program cannot be made: %s", message);
}

static void name_part(void *user, const char *entry, const uvcc_op_desc *op,
                      char out[TALLY_NAME_BYTES]) {
    const job *j = user;
    if (strcmp(entry, "reveal") == 0)
        (void)snprintf(out, TALLY_NAME_BYTES, "opening");
    else
        uvcc_transformer_section(j->cfg, op, out);
}

static int open_planes(job *j) {
    const uvcc_transformer_config *c = j->cfg;
    int rc = 0;
    for (unsigned p = 0; p < JOB_PARTIES && rc == 0; p++)
        rc = uvcc_collective_new(&j->plane[p],
                                 &(uvcc_collective_config){.size = sizeof(uvcc_collective_config),
                                                           .alloc = j->al,
                                                           .replicas = (uint16_t)c->replicas,
                                                           .stages = (uint16_t)c->stages,
                                                           .tp_ranks = (uint16_t)c->tensor_ranks});
    return rc == 0 ? EXIT_DONE : failed("the local plane", rc);
}

int job_open(job *j, uint32_t first_step, uint32_t run) {
    const uvcc_transformer_config *c = j->cfg;
    j->workers = c->replicas * c->stages * c->tensor_ranks;
    if (j->workers > UVCC_LOOPBACK_TRIANGLES_MAX)
        return report_error(
            EXIT_BAD_INPUT,
            "--replicas, --stages, --tensor: %u workers; at most %u run in one process", j->workers,
            UVCC_LOOPBACK_TRIANGLES_MAX);
    j->worker = calloc(j->workers, sizeof *j->worker);
    j->step = first_step;
    if (j->worker == NULL)
        return failed("the workers", UVCC_ERR_NOMEM);
    int status = open_planes(j);
    for (uint32_t i = 0; i < j->workers && status == EXIT_DONE; i++) {
        const uint32_t ranks = c->tensor_ranks;
        j->worker[i].at =
            (uvcc_transformer_worker){i / ranks / c->stages, i / ranks % c->stages, i % ranks};
        status = make_program(j, &j->worker[i]);
    }
    if (status == EXIT_DONE && (j->o->trace != NULL || j->o->profile))
        j->trace = trace_new(j->o->trace, j->worker[0].program, j->workers * JOB_PARTIES, &status);
    if (j->trace != NULL)
        trace_name_parts(j->trace, name_part, j);
    for (uint32_t i = 0; i < j->workers && status == EXIT_DONE; i++)
        status = open_worker(j, &j->worker[i], first_step, run);
    return status;
}

/* ---- driving ---- */

static int take_events(job *j, job_worker *w, unsigned p) {
    job_party *me = &w->party[p];
    uvcc_event e;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && uvcc_session_poll_event(me->session, &e) == 1) {
        if (j->hooks.event != NULL)
            status = j->hooks.event(j->hooks.user, w, p, &e);
        switch (e.kind) {
        case UVCC_EVENT_READY:
            me->ready = true;
            break;
        case UVCC_EVENT_STEP_FINISHED:
            me->finished = e.step + 1;
            memcpy(me->step_root, e.step_root, sizeof me->step_root);
            break;
        case UVCC_EVENT_ABORTED:
            if (e.reason == UVCC_ABORT_SKS && j->hooks.refused != NULL)
                j->hooks.refused(j->hooks.user, e.step);
            return report_error(EXIT_FAILED, "party %u, worker r%u s%u t%u stopped: %s%s%s", p,
                                w->at.replica, w->at.stage, w->at.tensor_rank,
                                uvcc_abort_text(e.reason), e.text != NULL ? ": " : "",
                                e.text != NULL ? e.text : "");
        case UVCC_EVENT_CHECKPOINT:
            me->checkpoint = true;
            break;
        case UVCC_EVENT_CLOSED:
            me->closed = true;
            break;
        default:
            break;
        }
    }
    return status;
}

/* One turn of everything. */
static int turn(job *j) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < j->workers && status == EXIT_DONE; i++)
        for (unsigned p = 0; p < JOB_PARTIES && status == EXIT_DONE; p++)
            status = take_events(j, &j->worker[i], p);
    return status;
}

/* One turn of the loop for all triangles. */
static int drive_triangles(job *j) {
    uvcc_loopback_triangle t[UVCC_LOOPBACK_TRIANGLES_MAX];
    for (uint32_t i = 0; i < j->workers; i++) {
        t[i].net = j->worker[i].net;
        for (unsigned p = 0; p < JOB_PARTIES; p++) {
            t[i].sessions[p] = j->worker[i].party[p].session;
            t[i].executors[p] = j->worker[i].party[p].cpu;
        }
    }
    return uvcc_loopback_drive_all(t, j->workers, j->plane);
}

int job_set_public(job *j, job_worker *w, uint32_t tensor, const int64_t *v) {
    int rc = 0;
    for (unsigned p = 0; p < JOB_PARTIES && rc == 0; p++)
        while ((rc = uvcc_session_set_public(w->party[p].session, tensor, v)) == UVCC_ERR_AGAIN) {
            int turned = drive_triangles(j); /* what is out must end first */
            if (turned < 0)
                return failed("the parties cannot go on", turned);
        }
    return rc == 0 ? EXIT_DONE : failed("a public value", rc);
}

static int drive(job *j) {
    int rc = drive_triangles(j);
    if (rc < 0)
        return failed("the parties cannot go on", rc);
    if (rc == 0)
        return report_error(EXIT_FAILED, "the parties wait for each other for ever in step %u",
                            j->step + 1);
    return turn(j);
}

static bool all(const job *j, bool (*is)(const job *j, const job_party *p)) {
    for (uint32_t i = 0; i < j->workers; i++)
        for (unsigned p = 0; p < JOB_PARTIES; p++)
            if (!is(j, &j->worker[i].party[p]))
                return false;
    return true;
}

static bool is_ready(const job *j, const job_party *p) {
    (void)j;
    return p->ready;
}
static bool is_closed(const job *j, const job_party *p) {
    (void)j;
    return p->closed;
}
static bool has_finished(const job *j, const job_party *p) {
    return p->finished > j->step && (j->hooks.waits == NULL || !j->hooks.waits(j->hooks.user));
}
static bool has_checkpoint(const job *j, const job_party *p) {
    return p->checkpoint || j->o->checkpoint == NULL;
}

static int drive_until(job *j, bool (*is)(const job *j, const job_party *p),
                       const volatile sig_atomic_t *stop) {
    int status = turn(j);
    while (status == EXIT_DONE && !all(j, is)) {
        if (stop != NULL && *stop != 0)
            return EXIT_INTERRUPTED;
        status = drive(j);
    }
    return status;
}

static int give_inputs(job *j, job_worker *w, uint32_t entry) {
    for (uint32_t i = 0; i < uvcc_program_input_count(w->program, entry); i++) {
        const uvcc_io_desc *in = uvcc_program_input_at(w->program, entry, i);
        const int64_t *v = j->hooks.input(j->hooks.user, w, in->id);
        if (v == NULL)
            return EXIT_FAILED;
        int rc = uvcc_session_input(w->party[in->owner].session, j->step, in->id, v,
                                    uvcc_loopback_now(w->net));
        if (rc != 0)
            return failed("an input was refused", rc);
    }
    return EXIT_DONE;
}

int job_start(job *j, const volatile sig_atomic_t *stop) {
    int rc = 0;
    for (uint32_t i = 0; i < j->workers && rc == 0; i++)
        for (unsigned p = 0; p < JOB_PARTIES && rc == 0; p++)
            rc = uvcc_session_start(j->worker[i].party[p].session,
                                    uvcc_loopback_now(j->worker[i].net));
    return rc == 0 ? drive_until(j, is_ready, stop) : failed("a session cannot start", rc);
}

int job_step(job *j, const char *entry, const volatile sig_atomic_t *stop) {
    int status = EXIT_DONE, rc = 0;
    for (uint32_t i = 0; i < j->workers && status == EXIT_DONE; i++) {
        job_worker *w = &j->worker[i];
        int e = uvcc_program_find_entry(w->program, entry);
        for (unsigned p = 0; p < JOB_PARTIES && rc == 0; p++) {
            w->party[p].checkpoint = false;
            rc = e < 0 ? e
                       : uvcc_session_step(w->party[p].session, j->step, (uint32_t)e,
                                           uvcc_loopback_now(w->net));
        }
        if (rc == UVCC_ERR_REFUSED)
            return report_error(
                EXIT_FAILED,
                "the check of a product failed in step %u of an earlier run; find out "
                "why, then go on with --sks-override, which the transcript records",
                j->step + 1);
        status = rc == 0 ? give_inputs(j, w, (uint32_t)e) : failed("a step was refused", rc);
    }
    if (status == EXIT_DONE)
        status = drive_until(j, has_finished, stop);
    if (status == EXIT_DONE)
        status = drive_until(j, has_checkpoint, stop);
    if (status == EXIT_DONE)
        j->step++;
    return status;
}

const int64_t *job_output(const job *j, const job_worker *w, uint32_t id) {
    return uvcc_session_output(w->party[0].session, j->step - 1, id);
}

int job_close(job *j) {
    int rc = 0;
    for (uint32_t i = 0; i < j->workers && rc == 0; i++)
        for (unsigned p = 0; p < JOB_PARTIES && rc == 0; p++)
            rc = uvcc_session_close(j->worker[i].party[p].session,
                                    uvcc_loopback_now(j->worker[i].net));
    return rc == 0 ? drive_until(j, is_closed, NULL) : failed("closing", rc);
}

void job_free(job *j) {
    for (uint32_t i = 0; j->worker != NULL && i < j->workers; i++)
        for (unsigned p = 0; p < JOB_PARTIES; p++) /* jobs end before their memory goes */
            uvcc_cpu_free(j->worker[i].party[p].cpu);
    for (unsigned p = 0; p < JOB_PARTIES; p++)
        uvcc_collective_free(j->plane[p]);
    for (uint32_t i = 0; j->worker != NULL && i < j->workers; i++) {
        for (unsigned p = 0; p < JOB_PARTIES; p++)
            uvcc_session_free(j->worker[i].party[p].session);
        uvcc_loopback_free(j->worker[i].net);
        uvcc_program_free(j->worker[i].program);
    }
    trace_free(j->trace);
    j->trace = NULL;
    free(j->worker);
    j->worker = NULL;
}

int job_root(const job *j, unsigned party, uint8_t root[32]) {
    const uvcc_transformer_config *c = j->cfg;
    uvcc_config cfg;
    uint8_t(*roots)[32] = calloc(j->workers, sizeof *roots);
    int rc = roots == NULL ? UVCC_ERR_NOMEM : uvcc_config_default(&cfg, sizeof cfg);
    for (uint32_t i = 0; rc == 0 && i < j->workers; i++)
        memcpy(roots[i], j->worker[i].party[party].step_root, sizeof roots[i]);
    if (rc == 0) {
        seeded_identity(&cfg, j->command, j->o->seed, party);
        rc = uvcc_audit_global_root(cfg.identity.sid_job, j->step - 1, (uint16_t)c->replicas,
                                    (uint16_t)c->stages, (uint16_t)c->tensor_ranks, roots[0], root);
    }
    free(roots);
    return rc == 0 ? EXIT_DONE : failed("the roots", rc);
}

void job_totals_of(const job *j, job_totals *out) {
    *out = (job_totals){0};
    for (uint32_t i = 0; i < j->workers; i++)
        for (unsigned p = 0; p < JOB_PARTIES; p++) {
            uvcc_session_stats st;
            uvcc_session_get_stats(j->worker[i].party[p].session, &st);
            out->bytes_online += st.bytes_online;
            out->bytes_preprocessing += st.bytes_preprocessing;
            out->messages += st.messages;
            out->retransmissions += st.retransmissions;
            if (st.rounds > out->rounds)
                out->rounds = st.rounds;
            if (st.tensor_peak_bytes > out->tensor_peak)
                out->tensor_peak = st.tensor_peak_bytes;
            if (st.transient_peak_bytes > out->transient_peak)
                out->transient_peak = st.transient_peak_bytes;
        }
}

/* Microbatches in flight at a worker: see uvcc_program_pipeline(). */
static uint32_t in_flight(const job *j, const job_worker *w) {
    const uvcc_transformer_config *c = j->cfg;
    const uint32_t warm = c->stages - 1 - w->at.stage + c->ahead;
    return warm < c->microbatches ? warm + 1 : c->microbatches;
}

uint64_t job_transient_bound(const job *j, uint64_t *mb) {
    static const char *const entries[] = {"train", "reveal"};
    uint64_t most = 0;
    *mb = 0;
    for (uint32_t i = 0; i < j->workers; i++)
        for (size_t e = 0; e < sizeof entries / sizeof entries[0]; e++) {
            const job_worker *w = &j->worker[i];
            const int entry = uvcc_program_find_entry(w->program, entries[e]);
            uint64_t bound, each;
            if (entry < 0 || uvcc_program_memory(w->program, (uint32_t)entry, &bound) != 0)
                return 0;
            each = bound / in_flight(j, w);
            most = bound > most ? bound : most;
            *mb = e == 0 && each > *mb ? each : *mb;
        }
    return most;
}
