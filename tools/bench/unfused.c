/* SPDX-License-Identifier: Apache-2.0 */
/* unfused.c - see unfused.h. A job that is out has a part under its own id, the job of its present
 * task; when that is done the next task goes out, and after the last the job's completion is handed
 * on. What fails ends its job. */
#include "unfused.h"

#include <stdbool.h>
#include <stdlib.h>

enum { SLOTS = 1024 };

typedef struct slot {
    const uvcc_job *job; /* NULL: free */
    uint32_t next;       /* task */
    bool waits;          /* its part was not taken yet: there were too many */
    uvcc_job part;
} slot;

struct unfused {
    uvcc_cpu_elsewhere under;
    uint64_t jobs;
    uint32_t used; /* slots below it may have jobs */
    slot slot[SLOTS];
};

static int send_part(unfused *x, slot *s) {
    s->part = *s->job;
    s->part.tasks = &s->job->tasks[s->next];
    s->part.count = s->job->count != 0;
    const int rc = x->under.submit(x->under.user, &s->part);
    s->waits = rc == UVCC_ERR_AGAIN;
    x->jobs += rc == 0;
    return s->waits ? 0 : rc;
}

static int submit(void *user, const uvcc_job *job) {
    unfused *x = user;
    for (uint32_t i = 0; i < SLOTS; i++) {
        slot *s = &x->slot[i];
        if (s->job != NULL)
            continue;
        *s = (slot){.job = job};
        const int rc = send_part(x, s);
        if (rc != 0)
            s->job = NULL;
        x->used = i < x->used ? x->used : i + 1;
        return rc;
    }
    return UVCC_ERR_AGAIN;
}

static int finish(slot *s, int status, uvcc_completion *out) {
    *out = (uvcc_completion){.id = s->job->id, .cookie = s->job->cookie, .status = status};
    s->job = NULL;
    return 1;
}

static int poll_done(void *user, uvcc_completion *out) {
    unfused *x = user;
    for (uint32_t i = 0; i < x->used; i++) {
        slot *s = &x->slot[i];
        if (s->job != NULL && s->waits && send_part(x, s) != 0)
            return finish(s, UVCC_ERR_JOB, out);
    }
    int rc;
    while ((rc = x->under.poll(x->under.user, out)) == 1) {
        slot *s = x->slot;
        while (s->job == NULL || s->job->id != out->id)
            s++; /* every completion is of a job that is out */
        s->next++;
        if (out->status != 0 || s->next >= s->job->count)
            return finish(s, out->status, out);
        if (send_part(x, s) != 0)
            return finish(s, UVCC_ERR_JOB, out);
    }
    return rc;
}

static void wait_for(void *user) {
    unfused *x = user;
    x->under.wait(x->under.user);
}

unfused *unfused_new(const uvcc_cpu_elsewhere *under) {
    unfused *x = calloc(1, sizeof *x);
    if (x != NULL)
        x->under = *under;
    return x;
}

uvcc_cpu_elsewhere unfused_elsewhere(unfused *x) {
    return (uvcc_cpu_elsewhere){.submit = submit, .poll = poll_done, .wait = wait_for, .user = x};
}

uint64_t unfused_jobs(const unfused *x) {
    return x->jobs;
}

void unfused_free(unfused *x) {
    free(x);
}
