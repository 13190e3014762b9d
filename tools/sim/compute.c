/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - the executor of a simulated party: jobs run late, in any order, fail, get lost, and
 * complete more than once. */
#include "world.h"

#include <stdlib.h>

static void run_job(sim_party *p, sim_held_job *j) {
    uvcc_completion c;
    sim_inspect(p, j->job);
    if (uvcc_cpu_submit(p->cpu, j->job) != 0 || uvcc_cpu_poll(p->cpu, &c) != 1 || c.status != 0)
        sim_fail(p->w, "party %u: the executor failed", p->index);
    j->ran = true;
}

/* When a job runs and when its completion goes in are drawn apart: an executor may take either
 * time. */
void sim_jobs_take(sim_party *p) {
    sim_world *w = p->w;
    const uvcc_job *job;
    while (uvcc_session_poll_job(p->s, &job) == 1) {
        if (p->job_count == p->job_cap) {
            p->job_cap = p->job_cap == 0 ? 32 : 2 * p->job_cap;
            p->jobs = realloc(p->jobs, p->job_cap * sizeof *p->jobs);
            if (p->jobs == NULL)
                abort();
        }
        p->handed++;
        if (p->closed || p->aborted)
            sim_fail(w, "party %u: a job after the end", p->index);
        sim_held_job *j = &p->jobs[p->job_count++];
        const uvcc_task *t = &job->tasks[0];
        *j = (sim_held_job){.job = job,
                            .since = sim_now(w),
                            .due = sim_now(w),
                            .receives = job->count == 1 && t->kind == UVCC_TASK_HASH &&
                                        t->u.hash.count == 1 &&
                                        t->u.hash.items[0].mode == UVCC_HASH_HMAC};
        if (sim_strikes(w, SIM_JOB_SHUFFLE))
            j->due += sim_below(&w->r[SIM_JOB_SHUFFLE], 100000);
        if (sim_strikes(w, SIM_JOB_LATE))
            j->due += sim_below(&w->r[SIM_JOB_LATE], 30 * SIM_MS);
        if (j->receives && sim_on(w, SIM_ACCEPT)) { /* no message is accepted before */
            uint64_t some = 10 * SIM_MS + sim_below(&w->r[SIM_ACCEPT], 90 * SIM_MS);
            j->due += some;
            w->out->injected++;
        }
        if (sim_strikes(w, SIM_JOB_FAIL))
            j->fail = true;
        if (sim_strikes(w, SIM_JOB_LOST)) {
            j->lost = true;
            j->due = UVCC_NEVER;
        }
        /* Now or when it completes: both are an executor's right. */
        if (!j->fail && sim_below(&w->compute, 2) == 0)
            run_job(p, j);
    }
}

static void late_add(sim_party *p, const uvcc_completion *c, uint64_t due) {
    if (p->late_count == p->late_cap) {
        p->late_cap = p->late_cap == 0 ? 16 : 2 * p->late_cap;
        p->late = realloc(p->late, p->late_cap * sizeof *p->late);
        if (p->late == NULL)
            abort();
    }
    p->late[p->late_count++] = (sim_late){*c, due};
}

static void give(sim_party *p, const uvcc_completion *c) {
    sim_before_input(p);
    int rc = uvcc_session_complete(p->s, c, sim_look(p));
    if (rc != 0)
        sim_fail(p->w, "party %u: complete says %d", p->index, rc);
}

/* Completions of jobs that are long done, that never were, or of another session. */
static void give_stale(sim_party *p, const uvcc_completion *c) {
    sim_world *w = p->w;
    uvcc_completion x = *c;
    switch (sim_below(&w->r[SIM_JOB_STALE], 4)) {
    case 0:
        x.id += UINT64_C(1) << 40;
        break;
    case 1:
        x.id ^= UINT64_C(0x80000000);
        break;
    case 2:
        x.cookie ^= 8;
        break;
    default:
        break;
    }
    x.status = sim_below(&w->r[SIM_JOB_STALE], 2) == 0 ? 0 : UVCC_ERR_JOB;
    p->stale++;
    give(p, &x);
}

/* Entries leave the lists before their completions go in: the lists may change meanwhile. */
bool sim_jobs_due(sim_party *p) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w);
    bool any = false;
    /* Jobs that the calls below hand out are for the next round. */
    for (uint32_t i = 0; i < p->job_count && p->s != NULL;) {
        if (p->jobs[i].due > now) {
            i++;
            continue;
        }
        if (p->jobs[i].receives)
            sim_check_held(p);
        sim_held_job j = p->jobs[i];
        p->jobs[i] = p->jobs[--p->job_count];
        uvcc_completion c = {
            .id = j.job->id, .cookie = j.job->cookie, .status = j.fail ? UVCC_ERR_JOB : 0};
        if (!j.fail && !j.ran)
            run_job(p, &j);
        any = true;
        p->completed++;
        sim_trace(w, 10 + p->node, c.id, (uint64_t)(int64_t)c.status);
        give(p, &c);
        if (sim_strikes(w, SIM_JOB_TWICE))
            late_add(p, &c, now + sim_below(&w->r[SIM_JOB_TWICE], 5 * SIM_MS));
        if (sim_strikes(w, SIM_JOB_STALE))
            give_stale(p, &c);
    }
    for (uint32_t i = 0; i < p->late_count;) {
        if (p->late[i].due > now) {
            i++;
            continue;
        }
        uvcc_completion c = p->late[i].c;
        p->late[i] = p->late[--p->late_count];
        any = true;
        p->stale++;
        give(p, &c);
    }
    return any;
}

uint64_t sim_jobs_next(const sim_party *p) {
    uint64_t next = UVCC_NEVER;
    for (uint32_t i = 0; i < p->job_count; i++)
        next = p->jobs[i].due < next ? p->jobs[i].due : next;
    for (uint32_t i = 0; i < p->late_count; i++)
        next = p->late[i].due < next ? p->late[i].due : next;
    return next;
}

void sim_jobs_calm(sim_party *p) {
    for (uint32_t i = 0; i < p->job_count; i++)
        if (p->jobs[i].due == UVCC_NEVER)
            p->jobs[i].due = sim_now(p->w);
}

void sim_jobs_drop(sim_party *p) {
    p->job_count = p->late_count = 0;
    p->handed = p->completed = p->stale = p->hash_items = p->commit_items = 0;
    p->verdict_items = p->coins = 0;
}
