/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.c - the host's side of uvcc_nccl: the object's life, jobs in and completions out, letters
 * in. No call of NCCL is made here. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <uvcc/program.h>

#include "io_adapters/nccl/state.h"

#define MAX_STAGES          256u
#define DEFAULT_DEADLINE_NS (600u * (uint64_t)1000000000u)

void *uvcci_nccl_take(const uvcc_nccl *n, size_t bytes) {
    void *p = n->cfg.alloc.alloc(n->cfg.alloc.user, bytes, UVCC_MEM_STATE);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

void uvcci_nccl_give(const uvcc_nccl *n, void *p, size_t bytes) {
    if (p != NULL)
        n->cfg.alloc.free(n->cfg.alloc.user, p, bytes, UVCC_MEM_STATE);
}

void uvcci_nccl_queue_init(uvcci_nccl_queue *q) {
    q->first = NULL;
    q->last = &q->first;
}

void uvcci_nccl_push(uvcci_nccl_queue *q, uvcci_nccl_work *w) {
    w->next = NULL;
    *q->last = w;
    q->last = &w->next;
}

uvcci_nccl_work *uvcci_nccl_pop(uvcci_nccl_queue *q, uvcci_nccl_work **at) {
    uvcci_nccl_work *w = *at;
    *at = w->next;
    if (q->last == &w->next)
        q->last = at;
    w->next = NULL;
    return w;
}

/* ---- places ---- */

uint32_t uvcci_nccl_group_size(const uvcci_nccl_place *p, uint8_t group) {
    const uint32_t size[] = {[UVCC_GROUP_TP] = p->tp_ranks,
                             [UVCC_GROUP_PP] = p->stages,
                             [UVCC_GROUP_DP] = p->replicas,
                             [UVCC_GROUP_STAGE] = (uint32_t)p->replicas * p->tp_ranks};
    return size[group];
}

uint32_t uvcci_nccl_member(const uvcci_nccl_place *p, uint32_t rank, uint8_t group,
                           uint32_t index) {
    const uint32_t per_replica = (uint32_t)p->stages * p->tp_ranks;
    const uint32_t t = rank % p->tp_ranks, s = rank / p->tp_ranks % p->stages;
    switch (group) {
    case UVCC_GROUP_TP:
        return rank - t + index;
    case UVCC_GROUP_PP:
        return rank - s * p->tp_ranks + index * p->tp_ranks;
    case UVCC_GROUP_DP:
        return rank % per_replica + index * per_replica;
    default: /* STAGE: replica after replica, its tensor ranks */
        return index / p->tp_ranks * per_replica + s * p->tp_ranks + index % p->tp_ranks;
    }
}

bool uvcci_nccl_is_pair(const uvcc_collective_tag *tag) {
    return tag->op == UVCC_COLLECTIVE_SEND || tag->op == UVCC_COLLECTIVE_RECV;
}

int uvcci_nccl_neighbour(const uvcci_nccl_place *p, uint32_t rank, const uvcc_collective_tag *tag,
                         uint32_t *other) {
    const uint32_t stage = rank / p->tp_ranks % p->stages;
    if (tag->phase > UVCC_BWD)
        return UVCC_ERR_USAGE;
    /* a SEND forward and a RECV backward look at the next stage */
    const bool next = (tag->op == UVCC_COLLECTIVE_SEND) == (tag->phase == UVCC_FWD);
    if (next ? stage + 1 >= p->stages : stage == 0)
        return UVCC_ERR_USAGE;
    *other = next ? rank + p->tp_ranks : rank - p->tp_ranks;
    return 0;
}

/* ---- life ---- */

static void log_error(const uvcc_nccl_config *cfg, const char *line) {
    if (cfg->log.write != NULL)
        cfg->log.write(cfg->log.user, UVCC_LOG_ERROR, line);
}

static void destroy(uvcc_nccl *n) {
    while (n->all != NULL) {
        uvcci_nccl_work *w = n->all;
        n->all = w->all;
        uvcci_nccl_give(n, w, sizeof *w);
    }
    while (n->letters != NULL) {
        uvcci_nccl_letter *l = n->letters;
        n->letters = l->next;
        uvcci_nccl_give(n, l, sizeof *l);
    }
    uvcci_nccl_leader_free(n);
    (void)pthread_cond_destroy(&n->news);
    (void)pthread_mutex_destroy(&n->lock);
    const uvcc_allocator al = n->cfg.alloc;
    al.free(al.user, n, sizeof *n, UVCC_MEM_STATE);
}

static uvcc_nccl *make(const uvcc_nccl_config *cfg, const uvcci_nccl_back_end *ops,
                       const uvcci_nccl_place *place) {
    uvcc_nccl *n = cfg->alloc.alloc(cfg->alloc.user, sizeof *n, UVCC_MEM_STATE);
    if (n == NULL)
        return NULL;
    memset(n, 0, sizeof *n);
    n->cfg = *cfg;
    n->ops = ops;
    n->place = *place;
    if (n->cfg.deadline_ns == 0)
        n->cfg.deadline_ns = DEFAULT_DEADLINE_NS;
    uvcci_nccl_queue_init(&n->inbox);
    uvcci_nccl_queue_init(&n->done);
    uvcci_nccl_queue_init(&n->waiting);
    uvcci_nccl_queue_init(&n->going);
    uvcci_nccl_queue_init(&n->running);
    n->last_letter = &n->letters;
    pthread_condattr_t clock;
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_cond_init(&n->news, &clock);
    (void)pthread_condattr_destroy(&clock);
    if (uvcci_nccl_leader_init(n) == 0)
        return n;
    destroy(n);
    return NULL;
}

static int read_place(const uvcc_nccl_config *cfg, uvcci_nccl_place *p) {
    const uint64_t count = (uint64_t)cfg->replicas * cfg->stages * cfg->tp_ranks;
    if (count == 0 || count > INT32_MAX || cfg->stages > MAX_STAGES) {
        log_error(cfg,
                  "nccl: replicas, stages and tensor ranks are 1 at least, stages 256 at most");
        return UVCC_ERR_CONFIG;
    }
    if (cfg->local_rank >= count) {
        log_error(cfg, "nccl: there is no worker of that local rank");
        return UVCC_ERR_CONFIG;
    }
    const uint32_t rank = cfg->local_rank;
    *p = (uvcci_nccl_place){.replicas = cfg->replicas,
                            .stages = cfg->stages,
                            .tp_ranks = cfg->tp_ranks,
                            .count = (uint32_t)count,
                            .rank = rank,
                            .replica = rank / cfg->tp_ranks / cfg->stages,
                            .stage = rank / cfg->tp_ranks % cfg->stages,
                            .tp_rank = rank % cfg->tp_ranks};
    return 0;
}

/* The thread hears no signals: they are the host's. */
static int start(uvcc_nccl *n) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&n->thread, NULL, uvcci_nccl_run, n);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0 ? 0 : UVCC_ERR_LIMIT;
}

int uvcci_nccl_new(uvcc_nccl **out, const uvcc_nccl_config *cfg, const uvcci_nccl_back_end *ops) {
    uvcci_nccl_place place;
    char why[UVCCI_NCCL_TEXT_BYTES] = "", line[UVCCI_NCCL_TEXT_BYTES + 8];
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL || cfg->send == NULL)
        return UVCC_ERR_USAGE;
    int rc = read_place(cfg, &place);
    if (rc != 0)
        return rc;
    uvcc_nccl *n = make(cfg, ops, &place);
    if (n == NULL)
        return UVCC_ERR_NOMEM;
    rc = ops->open(&n->device, &n->place, cfg->device, why);
    if (rc == 0) {
        rc = start(n);
        if (rc != 0) {
            (void)snprintf(why, sizeof why, "no thread could be started");
            ops->close(n->device, false);
        }
    }
    if (rc != 0) {
        (void)snprintf(line, sizeof line, "nccl: %s", why);
        log_error(cfg, line);
        destroy(n);
        return rc;
    }
    *out = n;
    return 0;
}

/* The lock is no part of what an object says. */
static void lock(const uvcc_nccl *n) {
    (void)pthread_mutex_lock((pthread_mutex_t *)(uintptr_t)&n->lock);
}

static void unlock(const uvcc_nccl *n) {
    (void)pthread_mutex_unlock((pthread_mutex_t *)(uintptr_t)&n->lock);
}

void uvcc_nccl_close(uvcc_nccl *n) {
    if (n == NULL)
        return;
    lock(n);
    n->closing = true;
    (void)pthread_cond_signal(&n->news);
    unlock(n);
}

int uvcc_nccl_over(const uvcc_nccl *n) {
    if (n == NULL)
        return UVCC_ERR_USAGE;
    lock(n);
    const bool over = n->over;
    unlock(n);
    return over;
}

void uvcc_nccl_free(uvcc_nccl *n) {
    if (n == NULL)
        return;
    lock(n);
    n->closing = n->freeing = true;
    (void)pthread_cond_signal(&n->news);
    unlock(n);
    (void)pthread_join(n->thread, NULL);
    destroy(n);
}

/* What is read as a bool is one. */
static bool is_message(const uint8_t *bytes, size_t len) {
    const size_t additive =
        offsetof(uvcci_nccl_message, tag) + offsetof(uvcc_collective_tag, additive);
    return len == sizeof(uvcci_nccl_message) && bytes[additive] <= 1;
}

int uvcc_nccl_heard(uvcc_nccl *n, uint32_t from, const void *bytes, size_t len) {
    if (n == NULL || bytes == NULL || from >= n->place.count || !is_message(bytes, len))
        return UVCC_ERR_USAGE;
    uvcci_nccl_letter *l = uvcci_nccl_take(n, sizeof *l);
    if (l == NULL)
        return UVCC_ERR_NOMEM;
    l->from = from;
    memcpy(&l->message, bytes, len);
    lock(n);
    *n->last_letter = l;
    n->last_letter = &l->next;
    (void)pthread_cond_signal(&n->news);
    unlock(n);
    return 0;
}

int uvcc_nccl_joined(const uvcc_nccl *n) {
    if (n == NULL)
        return UVCC_ERR_USAGE;
    lock(n);
    const bool joined = n->joined && !n->failed;
    unlock(n);
    return joined;
}

/* ---- jobs ---- */

/* Whether two operations of this worker have one name. */
static bool same_name(const uvcc_task *x, const uvcc_task *y) {
    const uvcc_collective_tag a = uvcc_collective_tag_of(x), b = uvcc_collective_tag_of(y);
    if (a.step != b.step || a.phase != b.phase || a.mb != b.mb)
        return false;
    if (uvcci_nccl_is_pair(&a) || uvcci_nccl_is_pair(&b))
        return a.op == b.op;
    return x->u.collective.group == y->u.collective.group && a.k == b.k;
}

static bool reached(const uvcc_nccl *n, const uvcc_shares *x, bool additive) {
    return n->ops->reaches(n->device, x->lo) && (additive || n->ops->reaches(n->device, x->hi));
}

static int check(const uvcc_nccl *n, const uvcc_job *job) {
    if (job->plane != UVCC_PLANE_LOCAL || job->count != 1 || job->tasks == NULL ||
        job->tasks[0].kind != UVCC_TASK_COLLECTIVE)
        return UVCC_ERR_USAGE;
    const uvcc_task *t = &job->tasks[0];
    const uvcc_collective_tag tag = uvcc_collective_tag_of(t);
    uint32_t other;
    if (uvcci_nccl_is_pair(&tag)) {
        if (uvcci_nccl_neighbour(&n->place, n->place.rank, &tag, &other) != 0)
            return UVCC_ERR_USAGE;
    } else if ((tag.op != UVCC_COLLECTIVE_REDUCE_SCATTER && tag.op != UVCC_COLLECTIVE_ALL_GATHER) ||
               t->u.collective.group > UVCC_GROUP_STAGE) {
        return UVCC_ERR_USAGE;
    }
    if (tag.elems != 0 &&
        ((tag.op != UVCC_COLLECTIVE_RECV && !reached(n, &t->u.collective.in, tag.additive)) ||
         (tag.op != UVCC_COLLECTIVE_SEND && !reached(n, &t->u.collective.out, tag.additive)))) {
        log_error(&n->cfg, "nccl: an operand is neither memory of the worker's device nor pinned");
        return UVCC_ERR_USAGE;
    }
    return 0;
}

/* Whether an operation of that name is under way. */
static bool known(const uvcc_nccl *n, const uvcc_task *t) {
    for (const uvcci_nccl_work *w = n->all; w != NULL; w = w->all)
        if (!w->finished && same_name(w->task, t))
            return true;
    return false;
}

int uvcc_nccl_submit(uvcc_nccl *n, const uvcc_job *job) {
    if (n == NULL || job == NULL)
        return UVCC_ERR_USAGE;
    int rc = check(n, job);
    if (rc != 0)
        return rc;
    uvcci_nccl_work *w = uvcci_nccl_take(n, sizeof *w);
    if (w == NULL)
        return UVCC_ERR_NOMEM;
    w->task = &job->tasks[0];
    w->done = (uvcc_completion){.id = job->id, .cookie = job->cookie};
    w->since_ns = uvcci_nccl_now();
    lock(n);
    if (known(n, w->task)) {
        rc = UVCC_ERR_USAGE; /* twice */
    } else {
        w->id = n->next_id++;
        w->all = n->all;
        n->all = w;
        n->pending++;
        uvcci_nccl_push(&n->inbox, w);
        (void)pthread_cond_signal(&n->news);
    }
    unlock(n);
    if (rc != 0)
        uvcci_nccl_give(n, w, sizeof *w);
    return rc;
}

int uvcc_nccl_poll(uvcc_nccl *n, uvcc_completion *out) {
    if (n == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    uvcci_nccl_work *w = NULL;
    lock(n);
    if (n->done.first != NULL) {
        w = uvcci_nccl_pop(&n->done, &n->done.first);
        n->pending--;
        uvcci_nccl_work **at = &n->all;
        while (*at != w)
            at = &(*at)->all;
        *at = w->all;
    }
    unlock(n);
    if (w == NULL)
        return 0;
    *out = w->done;
    uvcci_nccl_give(n, w, sizeof *w);
    return 1;
}

uint32_t uvcc_nccl_pending(const uvcc_nccl *n) {
    if (n == NULL)
        return 0;
    lock(n);
    const uint32_t pending = n->pending;
    unlock(n);
    return pending;
}

void uvcc_nccl_fail(uvcc_nccl *n, uint32_t code, const char *why) {
    if (n == NULL)
        return;
    lock(n);
    if (!n->failed && !n->asked_to_fail) {
        n->asked_to_fail = true;
        n->fail_code = code;
        (void)snprintf(n->why, sizeof n->why, "%s",
                       why != NULL ? why : "a worker of the party is gone");
    }
    (void)pthread_cond_signal(&n->news);
    unlock(n);
}

int uvcc_nccl_why(const uvcc_nccl *n, uint32_t *rank, uint32_t *code,
                  char why[UVCC_NCCL_WHY_BYTES]) {
    if (n == NULL)
        return UVCC_ERR_USAGE;
    lock(n);
    const int failed = n->failed ? 1 : 0;
    if (failed && rank != NULL)
        *rank = n->fail_rank;
    if (failed && code != NULL)
        *code = n->fail_code;
    if (failed && why != NULL)
        memcpy(why, n->why, sizeof n->why);
    unlock(n);
    return failed;
}
