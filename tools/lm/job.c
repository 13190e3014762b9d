/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h. */
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../report.h"
#include "model.h"

#define MESSAGE_BYTES 512u

uvcc_transformer_worker job_place(const host_worker *w) {
    return (uvcc_transformer_worker){w->replica, w->stage, w->tensor_rank};
}

/* ---- hooks ---- */

static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    const job *j = user;
    const uvcc_transformer_worker at = job_place(w);
    char message[MESSAGE_BYTES] = "";
    const int status = lm_model_program(j->cfg, &at, out, message, sizeof message);
    return status == EXIT_DONE ? status : report_error(status, "%s", message);
}

static void configure(void *user, const host_worker *w, unsigned party, uvcc_config *cfg,
                      uvcc_cpu_config *cpu) {
    job *j = user;
    (void)party;
    if (cfg->record.write != NULL) { /* which is read before the next session is made */
        const uvcc_transformer_worker at = job_place(w);
        free(j->app);
        j->app = lm_manifest_app(j->manifest, &at);
        cfg->record.app = (const uint8_t *)j->app;
        cfg->record.app_len = j->app != NULL ? strlen(j->app) : 0;
    }
    (void)cpu;
    cfg->checks.audit_off = j->o->transcript != 0;
    cfg->checks.sks_refused = j->sks.refused;
    cfg->checks.sks_step = j->sks.step;
    cfg->checks.sks_override = j->o->sks_override;
}

static void name_part(void *user, const char *entry, const uvcc_op_desc *op,
                      char out[TALLY_NAME_BYTES]) {
    const job *j = user;
    if (strcmp(entry, "reveal") == 0)
        (void)snprintf(out, TALLY_NAME_BYTES, "opening");
    else
        uvcc_transformer_section(j->cfg, op, out);
}

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    const job *j = user;
    (void)step;
    return uvcc_program_find_entry(w->program, j->entry);
}

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    const job *j = user;
    return j->hooks.input(j->hooks.user, w, step, id);
}

static int take_event(void *user, const host_worker *w, unsigned party, const uvcc_event *e) {
    const job *j = user;
    if (e->kind == UVCC_EVENT_ABORTED && e->reason == UVCC_ABORT_SKS && j->hooks.refused != NULL)
        j->hooks.refused(j->hooks.user, e->step);
    return j->hooks.event != NULL ? j->hooks.event(j->hooks.user, w, party, e) : EXIT_DONE;
}

/* ---- steps ---- */

int job_open(job *j, uint32_t first_step, uint32_t run) {
    const host_config c = {.command = j->command,
                           .run = &j->o->run,
                           .replicas = j->cfg->replicas,
                           .stages = j->cfg->stages,
                           .tensor_ranks = j->cfg->tensor_ranks,
                           .threads = 1,
                           .first_step = first_step,
                           .run_number = run,
                           .checkpoints = j->o->checkpoint != NULL,
                           .of_workers = true,
                           .record = j->o->record,
                           .force = j->o->force,
                           .smaller = "a smaller --dim, --context or --batch, or more "
                                      "--microbatches",
                           .hooks = {.user = j,
                                     .program = make_program,
                                     .configure = configure,
                                     .part = name_part,
                                     .entry = entry_of,
                                     .input = give_input,
                                     .event = take_event}};
    j->step = first_step;
    return host_open(&j->host, &c);
}

int job_start(job *j) {
    const int status = host_start(&j->host);
    return status == EXIT_DONE ? host_ready(&j->host) : status;
}

int job_step(job *j, const char *entry, bool stops) {
    j->entry = entry;
    const int status = host_run(&j->host, j->step + 1, stops);
    if (status == EXIT_DONE)
        j->step++;
    return status;
}

int job_set_public(job *j, host_worker *w, const char *name, const int64_t *v) {
    const int t = uvcc_program_find(w->program, name);
    return t < 0 ? host_failed(&j->host, name, t) : host_set_public(&j->host, w, (uint32_t)t, v);
}

const int64_t *job_output(const job *j, const host_worker *w, uint32_t id) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const int64_t *v = uvcc_session_output(w->party[p].session, j->step - 1, id);
        if (v != NULL)
            return v;
    }
    return NULL;
}

/* ---- memory ---- */

/* Microbatches in flight at a worker: see uvcc_program_pipeline(). */
static uint32_t in_flight(const job *j, const host_worker *w) {
    const uvcc_transformer_config *c = j->cfg;
    const uint32_t warm = c->stages - 1 - w->stage + c->ahead;
    return warm < c->microbatches ? warm + 1 : c->microbatches;
}

uint64_t job_transient_bound(const job *j, uint64_t *mb) {
    static const char *const entries[] = {"train", "reveal"};
    uint64_t most = 0;
    *mb = 0;
    for (uint32_t i = 0; i < j->host.workers; i++)
        for (size_t e = 0; e < sizeof entries / sizeof entries[0]; e++) {
            const host_worker *w = &j->host.worker[i];
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
