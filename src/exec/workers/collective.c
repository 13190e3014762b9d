/* SPDX-License-Identifier: Apache-2.0 */
/* collective.c - collectives among workers of one party that live in one thread.
 *
 * Operations that belong together *meet*: a meeting has a place for each member and is held when
 * the last one is there. All that it needs was allocated when its members came, so holding it
 * cannot fail. Values are written in member order, so nothing depends on who came last. */
#include <assert.h>
#include <uvcc/collective.h>

#include "proto/topology.h"
#include <string.h>
#include <uvcc/program.h>

/* One submitted operation; first in a meeting, then among its worker's completions. */
typedef struct visit {
    struct visit *next;
    uvcc_completion done;
    const uvcc_job *job;
    const uvcc_task *task;
    uint32_t rank;
} visit;

/* What names a meeting. */
typedef struct place {
    uint8_t group; /* UVCC_GROUP_PP: a SEND with its RECV */
    uint8_t phase;
    uint16_t mb, k;
    uint32_t step;
    uint32_t first; /* local rank of the group's first member; of the sender */
} place;

typedef struct meeting {
    struct meeting *next;
    place at;
    uint32_t size, here;
    bool failed;
    visit *member[]; /* [size] */
} meeting;

typedef struct worker {
    visit *first, *last; /* completions */
    uint32_t pending;
    uint32_t elsewhere; /* of these, jobs that others carry out */
} worker;

struct uvcc_collective {
    uvcc_allocator alloc;
    uvcc_collective_elsewhere elsewhere;
    uvcci_topology topo;
    worker *workers;
    uint32_t count;
    uint32_t running;  /* jobs of all workers that are elsewhere */
    uint32_t *members; /* [count]: of the group at hand */
    meeting *meetings;
    bool failed;
    const char *why;
};

static void *take(const uvcc_collective *c, size_t bytes) {
    void *mem = c->alloc.alloc(c->alloc.user, bytes, UVCC_MEM_STATE);
    if (mem != NULL)
        memset(mem, 0, bytes);
    return mem;
}

static void give(const uvcc_collective *c, void *mem, size_t bytes) {
    if (mem != NULL)
        c->alloc.free(c->alloc.user, mem, bytes, UVCC_MEM_STATE);
}

static size_t meeting_bytes(uint32_t size) {
    return sizeof(meeting) + size * sizeof(visit *);
}

int uvcc_collective_new(uvcc_collective **out, const uvcc_collective_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL)
        return UVCC_ERR_USAGE;
    if ((cfg->elsewhere.submit == NULL) != (cfg->elsewhere.poll == NULL) ||
        (cfg->elsewhere.submit == NULL) != (cfg->elsewhere.wait == NULL))
        return UVCC_ERR_USAGE;
    uvcc_collective init = {.alloc = cfg->alloc,
                            .elsewhere = cfg->elsewhere,
                            .topo = {cfg->replicas, cfg->stages, cfg->tp_ranks}};
    if (uvcci_topology_check(&init.topo) != 0)
        return UVCC_ERR_CONFIG;
    init.count = uvcci_topology_workers(&init.topo);
    init.workers = take(&init, init.count * sizeof *init.workers);
    init.members = take(&init, init.count * sizeof *init.members);
    uvcc_collective *c = take(&init, sizeof *c);
    if (init.workers == NULL || init.members == NULL || c == NULL) {
        give(&init, init.workers, init.count * sizeof *init.workers);
        give(&init, init.members, init.count * sizeof *init.members);
        give(&init, c, sizeof *c);
        return UVCC_ERR_NOMEM;
    }
    *c = init;
    *out = c;
    return 0;
}

static void drop_visit(uvcc_collective *c, visit *v) {
    give(c, v, sizeof *v);
}

void uvcc_collective_free(uvcc_collective *c) {
    if (c == NULL)
        return;
    while (c->meetings != NULL) {
        meeting *m = c->meetings;
        c->meetings = m->next;
        for (uint32_t i = 0; i < m->size; i++)
            drop_visit(c, m->member[i]);
        give(c, m, meeting_bytes(m->size));
    }
    for (uint32_t i = 0; i < c->count; i++)
        while (c->workers[i].first != NULL) {
            visit *v = c->workers[i].first;
            c->workers[i].first = v->next;
            drop_visit(c, v);
        }
    give(c, c->workers, c->count * sizeof *c->workers);
    give(c, c->members, c->count * sizeof *c->members);
    uvcc_allocator al = c->alloc;
    al.free(al.user, c, sizeof *c, UVCC_MEM_STATE);
}

/* ---- what an operation is ---- */

static bool additive(const uvcc_task *t) {
    const bool out = t->u.collective.op == UVCC_COLLECTIVE_RECV;
    return (out ? t->u.collective.out.hi : t->u.collective.in.hi) == NULL;
}

uvcc_collective_tag uvcc_collective_tag_of(const uvcc_task *t) {
    if (t == NULL)
        return (uvcc_collective_tag){0};
    return (uvcc_collective_tag){.step = t->u.collective.step,
                                 .phase = t->u.collective.phase,
                                 .mb = t->u.collective.mb,
                                 .k = t->u.collective.k,
                                 .op = t->u.collective.op,
                                 .additive = additive(t),
                                 .elems = t->u.collective.elems};
}

/* A SEND or RECV: the sender is member 0. */
static int find_pair(uvcc_collective *c, uvcci_coord at, const uvcc_task *t, place *p,
                     uint32_t *index) {
    const bool send = t->u.collective.op == UVCC_COLLECTIVE_SEND;
    if (t->u.collective.phase > UVCC_BWD)
        return UVCC_ERR_USAGE;
    /* the sender of a forward pass is the earlier stage */
    uvcci_coord sender = at, receiver = at;
    const bool fwd = t->u.collective.phase == UVCC_FWD;
    uvcci_coord *other = send ? &receiver : &sender;
    other->stage = (uint16_t)(send == fwd ? at.stage + 1u : at.stage - 1u);
    uint32_t to;
    if (uvcci_topology_rank(&c->topo, sender, &p->first) != 0 ||
        uvcci_topology_rank(&c->topo, receiver, &to) != 0)
        return UVCC_ERR_USAGE;
    p->group = UVCC_GROUP_PP;
    *index = send ? 0 : 1;
    return 2;
}

/* Its meeting's name, its place in it, and how many meet. */
static int find_place(uvcc_collective *c, uint32_t rank, const uvcc_task *t, place *p,
                      uint32_t *index) {
    uvcci_coord at;
    if (uvcci_topology_coord(&c->topo, rank, &at) != 0)
        return UVCC_ERR_USAGE;
    const uint8_t op = t->u.collective.op;
    *p = (place){
        .phase = t->u.collective.phase, .mb = t->u.collective.mb, .step = t->u.collective.step};
    if (op == UVCC_COLLECTIVE_SEND || op == UVCC_COLLECTIVE_RECV)
        return find_pair(c, at, t, p, index);
    if (op != UVCC_COLLECTIVE_REDUCE_SCATTER && op != UVCC_COLLECTIVE_ALL_GATHER)
        return UVCC_ERR_USAGE;
    static const uvcci_group kinds[] = {[UVCC_GROUP_TP] = UVCCI_GROUP_TP,
                                        [UVCC_GROUP_PP] = UVCCI_GROUP_PP,
                                        [UVCC_GROUP_DP] = UVCCI_GROUP_DP,
                                        [UVCC_GROUP_STAGE] = UVCCI_GROUP_STAGE};
    if (t->u.collective.group > UVCC_GROUP_STAGE)
        return UVCC_ERR_USAGE;
    int size =
        uvcci_topology_group(&c->topo, kinds[t->u.collective.group], at, c->members, c->count);
    p->group = (uint8_t)(t->u.collective.group | 0x80); /* a PP group is no pair */
    p->k = t->u.collective.k;
    assert(size > 0 && (uint32_t)size <= c->count); /* the worker itself is in it */
    p->first = c->members[0];
    for (*index = 0; c->members[*index] != rank;)
        ++*index;
    return size;
}

/* ---- meetings ---- */

static bool same_place(const place *a, const place *b) {
    return a->group == b->group && a->phase == b->phase && a->mb == b->mb && a->k == b->k &&
           a->step == b->step && a->first == b->first;
}

static meeting *find_meeting(uvcc_collective *c, const place *p, uint32_t size) {
    meeting **at = &c->meetings;
    while (*at != NULL && !same_place(&(*at)->at, p))
        at = &(*at)->next;
    if (*at == NULL && (*at = take(c, meeting_bytes(size))) != NULL) {
        (*at)->at = *p;
        (*at)->size = size;
    }
    return *at;
}

static void drop_meeting(uvcc_collective *c, meeting *m) {
    meeting **at = &c->meetings;
    while (*at != m) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = m->next;
    give(c, m, meeting_bytes(m->size));
}

static void complete(uvcc_collective *c, visit *v, int status) {
    assert(v->rank < c->count);
    worker *w = &c->workers[v->rank];
    v->done.status = status;
    v->next = NULL;
    if (w->first == NULL)
        w->first = v;
    else
        w->last->next = v;
    w->last = v;
}

/* All who are there, in member order; their places stay taken. */
static void complete_all(uvcc_collective *c, meeting *m, int status) {
    for (uint32_t i = 0; i < m->size; i++)
        if (m->member[i] != NULL) {
            complete(c, m->member[i], status);
            m->member[i] = NULL;
        }
}

static const char *disagreement(const meeting *m, const uvcc_task *x, const uvcc_task *y) {
    const bool pair = m->at.group == UVCC_GROUP_PP;
    if (!pair && x->u.collective.op != y->u.collective.op)
        return "members of a group are at different operations";
    if (x->u.collective.elems != y->u.collective.elems)
        return "members of a group have tensors of different sizes";
    if (additive(x) != additive(y))
        return "members of a group share their tensors in different ways";
    if (!pair && x->u.collective.elems % m->size != 0)
        return "a tensor cannot be cut into one slice for each member of its group";
    return NULL;
}

/* Component 0 (lo) or 1 (hi). */
static uint64_t *component(const uvcc_shares *x, unsigned which) {
    return which == 0 ? x->lo : x->hi;
}

static void reduce_scatter(const meeting *m, unsigned which) {
    assert(m->member[0]->task->u.collective.elems % m->size == 0);
    const size_t slice = m->member[0]->task->u.collective.elems / m->size;
    for (uint32_t i = 0; i < m->size; i++) {
        uint64_t *out = component(&m->member[i]->task->u.collective.out, which);
        memcpy(out, component(&m->member[0]->task->u.collective.in, which) + i * slice,
               slice * sizeof *out);
        for (uint32_t j = 1; j < m->size; j++) {
            const uint64_t *in = component(&m->member[j]->task->u.collective.in, which) + i * slice;
            for (size_t e = 0; e < slice; e++)
                out[e] += in[e];
        }
    }
}

static void all_gather(const meeting *m, unsigned which) {
    const size_t slice = m->member[0]->task->u.collective.elems / m->size;
    for (uint32_t i = 0; i < m->size; i++)
        for (uint32_t j = 0; j < m->size; j++)
            memcpy(component(&m->member[i]->task->u.collective.out, which) + j * slice,
                   component(&m->member[j]->task->u.collective.in, which),
                   slice * sizeof(uint64_t));
}

/* All members' jobs go on. Where one is refused nothing can go on, for members that were handed
 * over wait for it: that ends with the plane that has them. */
static void hand_over(uvcc_collective *c, meeting *m) {
    assert(m->here == m->size);
    for (uint32_t i = 0; i < m->size; i++) {
        visit *v = m->member[i];
        if (v == NULL)
            continue;
        m->member[i] = NULL;
        if (c->elsewhere.submit(c->elsewhere.user, v->rank, v->job) == 0) {
            c->workers[v->rank].elsewhere++;
            c->running++;
            drop_visit(c, v);
            continue;
        }
        complete(c, v, UVCC_ERR_JOB);
        if (c->why == NULL)
            c->why = "an operation was refused by what carries it out";
        uvcc_collective_fail(c); /* those of this meeting too */
    }
}

static void hold(uvcc_collective *c, meeting *m) {
    assert(m->here == m->size && m->member[0] != NULL);
    if (c->elsewhere.submit != NULL) {
        hand_over(c, m);
        return;
    }
    const uvcc_task *t = m->member[0]->task;
    for (unsigned which = 0; which < (additive(t) ? 1u : 2u); which++) {
        if (m->at.group == UVCC_GROUP_PP)
            memcpy(component(&m->member[1]->task->u.collective.out, which),
                   component(&t->u.collective.in, which), t->u.collective.elems * sizeof(uint64_t));
        else if (t->u.collective.op == UVCC_COLLECTIVE_REDUCE_SCATTER)
            reduce_scatter(m, which);
        else
            all_gather(m, which);
    }
    complete_all(c, m, 0);
}

/* Memory is had before anything is written: a submission succeeds or changes nothing. Members that
 * disagree, now or later, all fail; a failed meeting stays until its last member came. */
int uvcc_collective_submit(uvcc_collective *c, uint32_t local_rank, const uvcc_job *job) {
    place p;
    uint32_t index;
    if (c == NULL || job == NULL || job->plane != UVCC_PLANE_LOCAL || job->count != 1 ||
        job->tasks[0].kind != UVCC_TASK_COLLECTIVE)
        return UVCC_ERR_USAGE;
    const uvcc_task *t = &job->tasks[0];
    int size = find_place(c, local_rank, t, &p, &index);
    if (size < 0)
        return size;
    meeting *m = find_meeting(c, &p, (uint32_t)size);
    assert(m == NULL || (m->size == (uint32_t)size && index < m->size));
    if (m != NULL && m->member[index] != NULL)
        return UVCC_ERR_USAGE; /* twice */
    visit *v = m != NULL ? take(c, sizeof *v) : NULL;
    if (v == NULL) {
        if (m != NULL && m->here == 0)
            drop_meeting(c, m);
        return UVCC_ERR_NOMEM;
    }
    *v = (visit){
        .done = {.id = job->id, .cookie = job->cookie}, .job = job, .task = t, .rank = local_rank};
    c->workers[local_rank].pending++;
    m->here++;
    m->member[index] = v;
    assert(m->here <= m->size);
    const char *why = NULL;
    for (uint32_t i = 0; i < m->size && why == NULL; i++)
        if (m->member[i] != NULL)
            why = disagreement(m, t, m->member[i]->task);
    if (why != NULL && c->why == NULL)
        c->why = why;
    m->failed |= why != NULL || c->failed;
    if (m->failed)
        complete_all(c, m, UVCC_ERR_JOB);
    else if (m->here == m->size)
        hold(c, m);
    if (m->here == m->size)
        drop_meeting(c, m);
    return 0;
}

int uvcc_collective_poll(uvcc_collective *c, uint32_t local_rank, uvcc_completion *out) {
    if (c == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (local_rank >= c->count)
        return 0;
    worker *w = &c->workers[local_rank];
    if (w->first == NULL) {
        if (w->elsewhere == 0 || c->elsewhere.poll(c->elsewhere.user, local_rank, out) != 1)
            return 0;
        assert(w->pending != 0 && c->running != 0);
        w->elsewhere--;
        w->pending--;
        c->running--;
        if (out->status != 0 && c->why == NULL)
            c->why = "an operation failed where it was carried out";
        return 1;
    }
    visit *v = w->first;
    assert(w->pending != 0);
    w->first = v->next;
    w->pending--;
    *out = v->done;
    drop_visit(c, v);
    return 1;
}

void uvcc_collective_fail(uvcc_collective *c) {
    if (c == NULL || c->failed)
        return;
    c->failed = true;
    if (c->why == NULL)
        c->why = "a worker of the party is gone";
    for (meeting *m = c->meetings; m != NULL; m = m->next) {
        m->failed = true;
        complete_all(c, m, UVCC_ERR_JOB);
    }
}

uint32_t uvcc_collective_pending(const uvcc_collective *c, uint32_t local_rank) {
    return c != NULL && local_rank < c->count ? c->workers[local_rank].pending : 0;
}

uint32_t uvcc_collective_running(const uvcc_collective *c) {
    return c != NULL ? c->running : 0;
}

void uvcc_collective_wait(uvcc_collective *c) {
    if (c != NULL && c->running != 0)
        c->elsewhere.wait(c->elsewhere.user);
}

const char *uvcc_collective_why(const uvcc_collective *c) {
    return c != NULL ? c->why : NULL;
}
