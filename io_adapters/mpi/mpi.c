/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.c - the host's side of uvcc_mpi: the object's life, jobs in and completions out, and calls
 * that wait for an answer of the thread. No call of MPI is made here. */
#define _GNU_SOURCE
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <uvcc/program.h>

#include "io_adapters/mpi/state.h"

#define MAX_STAGES 256u

void *uvcci_mpi_take(const uvcc_mpi *m, size_t bytes, uvcc_mem_class cls) {
    void *p = m->cfg.alloc.alloc(m->cfg.alloc.user, bytes, cls);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

void uvcci_mpi_give(const uvcc_mpi *m, void *p, size_t bytes, uvcc_mem_class cls) {
    if (p != NULL)
        m->cfg.alloc.free(m->cfg.alloc.user, p, bytes, cls);
}

void uvcci_mpi_bytes_free(const uvcc_mpi *m, uvcci_mpi_bytes *b) {
    uvcci_mpi_give(m, b->at, b->len, UVCC_MEM_WIRE);
    *b = (uvcci_mpi_bytes){0};
}

void uvcci_mpi_queue_init(uvcci_mpi_queue *q) {
    q->first = NULL;
    q->last = &q->first;
}

void uvcci_mpi_push(uvcci_mpi_queue *q, uvcci_mpi_work *w) {
    w->next = NULL;
    *q->last = w;
    q->last = &w->next;
}

uvcci_mpi_work *uvcci_mpi_pop(uvcci_mpi_queue *q, uvcci_mpi_work **at) {
    uvcci_mpi_work *w = *at;
    assert(w != NULL);
    *at = w->next;
    if (q->last == &w->next)
        q->last = at;
    w->next = NULL;
    return w;
}

uint32_t uvcci_mpi_member(const uvcc_mpi *m, uvcc_group group, uint32_t index) {
    const uint32_t t_count = m->cfg.tp_ranks;
    uint32_t r = m->replica, s = m->stage, t = m->tp_rank;
    switch (group) {
    case UVCC_GROUP_TP:
        t = index;
        break;
    case UVCC_GROUP_PP:
        s = index;
        break;
    case UVCC_GROUP_DP:
        r = index;
        break;
    case UVCC_GROUP_STAGE:
        r = index / t_count;
        t = index % t_count;
        break;
    }
    return (r * m->cfg.stages + s) * t_count + t;
}

int uvcci_mpi_neighbour(const uvcc_mpi *m, const uvcc_task *t, uint32_t *rank) {
    const bool send = t->u.collective.op == UVCC_COLLECTIVE_SEND;
    if (t->u.collective.phase > UVCC_BWD)
        return UVCC_ERR_USAGE;
    /* what is sent forward goes to the next stage, what is received backward comes from it */
    const bool up = send == (t->u.collective.phase == UVCC_FWD);
    if (up ? m->stage + 1 >= m->cfg.stages : m->stage == 0)
        return UVCC_ERR_USAGE;
    *rank = uvcci_mpi_member(m, UVCC_GROUP_PP, up ? m->stage + 1 : m->stage - 1);
    return 0;
}

/* ---- life ---- */

/* What the last agreement gave. */
static void forget(uvcc_mpi *m) {
    for (uint32_t i = 0; m->gathered != NULL && i < m->count; i++)
        uvcci_mpi_bytes_free(m, &m->gathered[i]);
    uvcci_mpi_give(m, m->gathered, m->count * sizeof *m->gathered, UVCC_MEM_STATE);
    m->gathered = NULL;
    uvcci_mpi_bytes_free(m, &m->result);
}

static void log_error(const uvcc_mpi_config *cfg, const char *line) {
    if (cfg->log.write != NULL)
        cfg->log.write(cfg->log.user, UVCC_LOG_ERROR, line);
}

static void destroy(uvcc_mpi *m) {
    while (m->all != NULL) {
        uvcci_mpi_work *w = m->all;
        m->all = w->all;
        uvcci_mpi_give(m, w, sizeof *w, UVCC_MEM_STATE);
    }
    uvcci_mpi_give(m, m->quiet, m->count * sizeof *m->quiet, UVCC_MEM_STATE);
    uvcci_mpi_give(m, m->parts, m->count * sizeof *m->parts, UVCC_MEM_STATE);
    (void)pthread_cond_destroy(&m->host);
    (void)pthread_cond_destroy(&m->work);
    (void)pthread_mutex_destroy(&m->lock);
    const uvcc_allocator al = m->cfg.alloc;
    al.free(al.user, m, sizeof *m, UVCC_MEM_STATE);
}

/* The thread hears no signals: they are the host's. */
static int start(uvcc_mpi *m) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&m->thread, NULL, uvcci_mpi_run, m);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : UVCC_ERR_LIMIT;
}

static uvcc_mpi *make(const uvcc_mpi_config *cfg, uint32_t count) {
    uvcc_mpi *m = cfg->alloc.alloc(cfg->alloc.user, sizeof *m, UVCC_MEM_STATE);
    if (m == NULL)
        return NULL;
    memset(m, 0, sizeof *m);
    m->cfg = *cfg;
    m->count = count;
    m->ready = 1;
    uvcci_mpi_queue_init(&m->inbox);
    uvcci_mpi_queue_init(&m->done);
    uvcci_mpi_queue_init(&m->waiting);
    uvcci_mpi_queue_init(&m->running);
    m->notes_in.last = &m->notes_in.first;
    m->notes_out.last = &m->notes_out.first;
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->host, NULL);
    (void)pthread_cond_init(&m->work, &clock);
    (void)pthread_condattr_destroy(&clock);
    m->quiet = uvcci_mpi_take(m, count * sizeof *m->quiet, UVCC_MEM_STATE);
    m->parts = uvcci_mpi_take(m, count * sizeof *m->parts, UVCC_MEM_STATE);
    if (m->quiet != NULL && m->parts != NULL)
        return m;
    destroy(m);
    return NULL;
}

int uvcc_mpi_new(uvcc_mpi **out, const uvcc_mpi_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL)
        return UVCC_ERR_USAGE;
    const uint64_t count = (uint64_t)cfg->replicas * cfg->stages * cfg->tp_ranks;
    if (count == 0 || count > INT32_MAX || cfg->stages > MAX_STAGES) {
        log_error(cfg, "mpi: replicas, stages and tensor ranks are 1 at least, stages 256 at most");
        return UVCC_ERR_CONFIG;
    }
    uvcc_mpi *m = make(cfg, (uint32_t)count);
    if (m == NULL)
        return UVCC_ERR_NOMEM;
    int rc = start(m);
    if (rc == 0) {
        (void)pthread_mutex_lock(&m->lock);
        while (m->ready == 1)
            (void)pthread_cond_wait(&m->host, &m->lock);
        rc = m->ready;
        (void)pthread_mutex_unlock(&m->lock);
        if (rc != 0)
            (void)pthread_join(m->thread, NULL);
    }
    if (rc != 0) {
        log_error(cfg, m->refusal[0] != 0 ? m->refusal : "mpi: no thread could be started");
        destroy(m);
        return rc;
    }
    *out = m;
    return 0;
}

void uvcc_mpi_free(uvcc_mpi *m) {
    if (m == NULL)
        return;
    (void)pthread_mutex_lock(&m->lock);
    m->closing = true;
    (void)pthread_cond_signal(&m->work);
    (void)pthread_mutex_unlock(&m->lock);
    (void)pthread_join(m->thread, NULL);
    forget(m);
    destroy(m);
}

uint32_t uvcc_mpi_rank(const uvcc_mpi *m) {
    return m != NULL ? m->rank : 0;
}

/* ---- jobs ---- */

static bool is_pair(const uvcc_task *t) {
    return t->u.collective.op == UVCC_COLLECTIVE_SEND || t->u.collective.op == UVCC_COLLECTIVE_RECV;
}

/* Whether two operations of this worker have one name. */
static bool same_name(const uvcc_task *x, const uvcc_task *y) {
    if (x->u.collective.step != y->u.collective.step ||
        x->u.collective.phase != y->u.collective.phase || x->u.collective.mb != y->u.collective.mb)
        return false;
    if (is_pair(x) || is_pair(y))
        return x->u.collective.op == y->u.collective.op;
    return x->u.collective.group == y->u.collective.group && x->u.collective.k == y->u.collective.k;
}

static int check(const uvcc_mpi *m, const uvcc_job *job) {
    if (job->plane != UVCC_PLANE_LOCAL || job->count != 1 || job->tasks == NULL ||
        job->tasks[0].kind != UVCC_TASK_COLLECTIVE)
        return UVCC_ERR_USAGE;
    const uvcc_task *t = &job->tasks[0];
    const uint8_t op = t->u.collective.op;
    uint32_t neighbour;
    if (is_pair(t)) {
        if (uvcci_mpi_neighbour(m, t, &neighbour) != 0)
            return UVCC_ERR_USAGE;
    } else if ((op != UVCC_COLLECTIVE_REDUCE_SCATTER && op != UVCC_COLLECTIVE_ALL_GATHER) ||
               t->u.collective.group > UVCC_GROUP_STAGE) {
        return UVCC_ERR_USAGE;
    }
    if (t->u.collective.elems > UVCC_MPI_ELEMS_MAX) {
        log_error(&m->cfg, "mpi: an operation of more than 2^31 - 1 words: MPI cannot count them");
        return UVCC_ERR_LIMIT;
    }
    return 0;
}

/* Whether an operation of that name is under way. */
static bool known(const uvcc_mpi *m, const uvcc_task *t) {
    for (const uvcci_mpi_work *w = m->all; w != NULL; w = w->all)
        if (!w->finished && same_name(w->task, t))
            return true;
    return false;
}

int uvcc_mpi_submit(uvcc_mpi *m, const uvcc_job *job) {
    if (m == NULL || job == NULL)
        return UVCC_ERR_USAGE;
    int rc = check(m, job);
    if (rc != 0)
        return rc;
    uvcci_mpi_work *w = uvcci_mpi_take(m, sizeof *w, UVCC_MEM_STATE);
    if (w == NULL)
        return UVCC_ERR_NOMEM;
    w->task = &job->tasks[0];
    w->done = (uvcc_completion){.id = job->id, .cookie = job->cookie};
    (void)pthread_mutex_lock(&m->lock);
    if (known(m, w->task)) {
        rc = UVCC_ERR_USAGE; /* twice */
    } else {
        w->all = m->all;
        m->all = w;
        m->pending++;
        uvcci_mpi_push(&m->inbox, w);
        (void)pthread_cond_signal(&m->work);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (rc != 0)
        uvcci_mpi_give(m, w, sizeof *w, UVCC_MEM_STATE);
    return rc;
}

int uvcc_mpi_poll(uvcc_mpi *m, uvcc_completion *out) {
    if (m == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    uvcci_mpi_work *w = NULL;
    (void)pthread_mutex_lock(&m->lock);
    if (m->done.first != NULL) {
        w = uvcci_mpi_pop(&m->done, &m->done.first);
        m->pending--;
        uvcci_mpi_work **at = &m->all;
        while (*at != w)
            at = &(*at)->all;
        *at = w->all;
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (w == NULL)
        return 0;
    *out = w->done;
    uvcci_mpi_give(m, w, sizeof *w, UVCC_MEM_STATE);
    return 1;
}

/* The lock is no part of what an object says. */
static void lock(const uvcc_mpi *m) {
    (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&m->lock);
}

static void unlock(const uvcc_mpi *m) {
    (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&m->lock);
}

uint32_t uvcc_mpi_pending(const uvcc_mpi *m) {
    if (m == NULL)
        return 0;
    lock(m);
    const uint32_t n = m->pending;
    unlock(m);
    return n;
}

void uvcc_mpi_fail(uvcc_mpi *m, uint32_t code, const char *why) {
    if (m == NULL)
        return;
    lock(m);
    if (!m->failed && !m->asked_to_fail) {
        m->asked_to_fail = true;
        m->fail_code = code;
        (void)snprintf(m->why, sizeof m->why, "%s",
                       why != NULL ? why : "a worker of the party is gone");
    }
    (void)pthread_cond_signal(&m->work);
    unlock(m);
}

int uvcc_mpi_why(const uvcc_mpi *m, uint32_t *rank, uint32_t *code, char why[UVCC_MPI_WHY_BYTES]) {
    if (m == NULL)
        return UVCC_ERR_USAGE;
    lock(m);
    const int failed = m->failed ? 1 : 0;
    if (failed && rank != NULL)
        *rank = m->fail_rank;
    if (failed && code != NULL)
        *code = m->fail_code;
    if (failed && why != NULL)
        memcpy(why, m->why, sizeof m->why);
    unlock(m);
    return failed;
}

/* ---- notes ---- */

int uvcc_mpi_note(uvcc_mpi *m, uint32_t to, const void *bytes, size_t len) {
    if (m == NULL || (bytes == NULL && len != 0) || len > UVCC_MPI_NOTE_BYTES || to >= m->count ||
        to == m->rank)
        return UVCC_ERR_USAGE;
    uvcci_mpi_note_record *r = uvcci_mpi_take(m, sizeof *r + len, UVCC_MEM_WIRE);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    r->rank = to;
    r->len = len;
    if (len != 0)
        memcpy(r->bytes, bytes, len);
    lock(m);
    *m->notes_out.last = r;
    m->notes_out.last = &r->next;
    (void)pthread_cond_signal(&m->work);
    unlock(m);
    return 0;
}

int uvcc_mpi_on_note(uvcc_mpi *m, const uvcc_mpi_reader *reader) {
    if (m == NULL || (reader != NULL && reader->note == NULL))
        return UVCC_ERR_USAGE;
    lock(m);
    m->reader = reader != NULL ? *reader : (uvcc_mpi_reader){0};
    while (m->noting)
        (void)pthread_cond_wait(&m->host, &m->lock);
    (void)pthread_cond_signal(&m->work);
    unlock(m);
    return 0;
}

/* ---- agreements ---- */

/* Hands the bytes to the thread and waits for what came of them, in m->result; at rank 0 of a
 * gathering, in m->gathered. */
static int ask(uvcc_mpi *m, uvcci_mpi_ask what, const void *bytes, size_t len) {
    forget(m);
    uvcci_mpi_bytes given = {.len = len, .ask = (uint8_t)what};
    if (len != 0) {
        given.at = uvcci_mpi_take(m, len, UVCC_MEM_WIRE);
        if (given.at == NULL)
            return UVCC_ERR_NOMEM;
        memcpy(given.at, bytes, len);
    }
    lock(m);
    m->ask = (uint8_t)what;
    m->given = given;
    m->call = UVCCI_MPI_CALLED;
    (void)pthread_cond_signal(&m->work);
    while (m->call != UVCCI_MPI_ANSWERED)
        (void)pthread_cond_wait(&m->host, &m->lock);
    m->call = UVCCI_MPI_NO_CALL;
    unlock(m);
    return m->answer;
}

int uvcc_mpi_barrier(uvcc_mpi *m) {
    if (m == NULL)
        return UVCC_ERR_USAGE;
    const int rc = ask(m, UVCCI_MPI_BARRIER, NULL, 0);
    return rc;
}

int uvcc_mpi_max(uvcc_mpi *m, uint32_t *value) {
    if (m == NULL || value == NULL)
        return UVCC_ERR_USAGE;
    const int rc = ask(m, UVCCI_MPI_MAX, value, sizeof *value);
    if (rc == 0)
        memcpy(value, m->result.at, sizeof *value);
    return rc;
}

int uvcc_mpi_common(uvcc_mpi *m, uint64_t *values, size_t *count) {
    if (m == NULL || values == NULL || count == NULL)
        return UVCC_ERR_USAGE;
    const int rc = ask(m, UVCCI_MPI_COMMON, values, *count * sizeof *values);
    if (rc == 0) {
        *count = m->result.len / sizeof *values;
        if (*count != 0)
            memcpy(values, m->result.at, m->result.len);
    }
    return rc;
}

int uvcc_mpi_gather(uvcc_mpi *m, const void *bytes, size_t len, uvcc_slice *parts) {
    if (m == NULL || (bytes == NULL && len != 0) || (m->rank == 0 && parts == NULL))
        return UVCC_ERR_USAGE;
    const int rc = ask(m, UVCCI_MPI_GATHER, bytes, len);
    for (uint32_t i = 0; rc == 0 && m->gathered != NULL && i < m->count; i++)
        parts[i] = (uvcc_slice){m->gathered[i].at, m->gathered[i].len};
    return rc;
}
