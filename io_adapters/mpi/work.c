/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - operations: begun in one order by all members of a group, finished when MPI has.
 *
 * A job waits until its place in the order is known and, of a RECV, until its SEND has begun; then
 * it runs, which nothing can stop. `begun` holds what other processes run and this one does not
 * yet: after a failure it takes part in that with memory of nobody's, so that they end. */
#include <assert.h>
#include <string.h>

#include <uvcc/program.h>

#include "io_adapters/mpi/state.h"

/* Of the tags of a wire's messages; MPI has 32,767 at least. */
#define WIRE_TAGS 30000u

static const char too_different[] = "members of a group are at different operations";
static const char other_size[] = "members of a group have tensors of different sizes";
static const char other_sharing[] = "members of a group share their tensors in different ways";
static const char no_slices[] =
    "a tensor cannot be cut into one slice for each member of its group";
static const char someone_left[] =
    "a worker of the party has left before an operation of its group";

/* ---- lists ---- */

static void remember(uvcc_mpi *m, uvcci_mpi_begun_queue *q, const uvcci_mpi_head *head) {
    uvcci_mpi_begun *b = uvcci_mpi_need(m, sizeof *b, UVCC_MEM_STATE);
    b->tag = head->tag;
    b->index = head->index;
    *q->last = b;
    q->last = &b->next;
}

static uvcci_mpi_begun forget(uvcc_mpi *m, uvcci_mpi_begun_queue *q, uvcci_mpi_begun **at) {
    uvcci_mpi_begun *b = *at;
    assert(b != NULL);
    const uvcci_mpi_begun was = *b;
    *at = b->next;
    if (q->last == &b->next)
        q->last = at;
    uvcci_mpi_give(m, b, sizeof *b, UVCC_MEM_STATE);
    return was;
}

static bool same_name(const uvcc_collective_tag *x, const uvcc_collective_tag *y) {
    return x->step == y->step && x->phase == y->phase && x->mb == y->mb && x->k == y->k;
}

static const char *disagreement(const uvcc_collective_tag *x, const uvcc_collective_tag *y) {
    if (x->op != y->op)
        return too_different;
    return x->elems != y->elems ? other_size : other_sharing;
}

/* ---- to MPI ---- */

static uint64_t *component(const uvcc_shares *x, unsigned which) {
    return which == 0 ? x->lo : x->hi;
}

/* Of a group, by all members in one order: out of and into these, components one after the
 * other. */
static void begin_team(uvcci_mpi_work *w, const uvcci_mpi_team *team,
                       const uvcc_collective_tag *tag, const uvcc_shares *in,
                       const uvcc_shares *out) {
    const int slice = (int)(tag->elems / (uint64_t)team->members);
    for (unsigned i = 0; i < (tag->additive ? 1u : 2u); i++)
        if (tag->op == UVCC_COLLECTIVE_REDUCE_SCATTER)
            (void)MPI_Ireduce_scatter_block(component(in, i), component(out, i), slice,
                                            MPI_UINT64_T, MPI_SUM, team->comm, &w->request[i]);
        else
            (void)MPI_Iallgather(component(in, i), slice, MPI_UINT64_T, component(out, i), slice,
                                 MPI_UINT64_T, team->comm, &w->request[i]);
}

static void begin_receive(uvcci_mpi_work *w, const uvcci_mpi_wire *wire, int from,
                          const uvcci_mpi_begun *sent, const uvcc_shares *out) {
    for (unsigned i = 0; i < (sent->tag.additive ? 1u : 2u); i++)
        (void)MPI_Irecv(component(out, i), (int)sent->tag.elems, MPI_UINT64_T, from,
                        (int)sent->index, wire->comm, &w->request[i]);
}

/* Takes part for nobody. */
static uvcci_mpi_work *nobody(uvcc_mpi *m, uint64_t words, uvcc_shares *in, uvcc_shares *out) {
    uvcci_mpi_work *w = uvcci_mpi_need(m, sizeof *w, UVCC_MEM_STATE);
    w->request[0] = w->request[1] = MPI_REQUEST_NULL;
    w->scratch_bytes = (size_t)(4 * words + 1) * sizeof(uint64_t);
    w->scratch = uvcci_mpi_need(m, w->scratch_bytes, UVCC_MEM_WIRE);
    *in = (uvcc_shares){w->scratch, w->scratch + words};
    *out = (uvcc_shares){w->scratch + 2 * words, w->scratch + 3 * words};
    return w;
}

/* The stage at the other end of a wire, as a rank there. */
static int other_end(const uvcc_mpi *m, uint8_t phase, bool send) {
    return (int)m->stage + (send == (phase == UVCC_FWD) ? 1 : -1);
}

/* ---- jobs that come ---- */

static void finish(uvcc_mpi *m, uvcci_mpi_work *w, int status) {
    w->done.status = status;
    (void)pthread_mutex_lock(&m->lock);
    w->finished = true;
    uvcci_mpi_push(&m->done, w);
    (void)pthread_mutex_unlock(&m->lock);
    m->moved = true;
    if (m->cfg.wake != NULL)
        m->cfg.wake(m->cfg.wake_user);
}

/* Sending waits for nobody: the other end hears of it and may take its time. */
static void begin_send(uvcc_mpi *m, uvcci_mpi_work *w, const uvcc_collective_tag *tag) {
    uvcci_mpi_wire *wire = &m->wire[tag->phase];
    uvcci_mpi_head head = {.kind = UVCCI_MPI_SENT, .index = wire->next, .tag = *tag};
    uint32_t to = 0;
    const int rc = uvcci_mpi_neighbour(m, w->task, &to);
    assert(rc == 0);
    (void)rc;
    uvcci_mpi_send(m, to, &head, NULL, 0);
    for (unsigned i = 0; i < (tag->additive ? 1u : 2u); i++)
        (void)MPI_Isend(component(&w->task->u.collective.in, i), (int)tag->elems, MPI_UINT64_T,
                        other_end(m, tag->phase, true), (int)wire->next, wire->comm,
                        &w->request[i]);
    wire->next = (wire->next + 1) % WIRE_TAGS;
    uvcci_mpi_push(&m->running, w);
}

void uvcci_mpi_accept(uvcc_mpi *m, uvcci_mpi_work *w) {
    const uvcc_collective_tag tag = uvcc_collective_tag_of(w->task);
    w->request[0] = w->request[1] = MPI_REQUEST_NULL;
    m->moved = true;
    if (m->giving_up) {
        finish(m, w, UVCC_ERR_JOB);
    } else if (tag.op == UVCC_COLLECTIVE_SEND) {
        begin_send(m, w, &tag);
    } else if (tag.op == UVCC_COLLECTIVE_RECV) {
        uvcci_mpi_push(&m->waiting, w);
    } else {
        uvcci_mpi_team *team = &m->team[w->task->u.collective.group];
        uvcci_mpi_push(&m->waiting, w);
        if (tag.elems % (uint64_t)team->members != 0) {
            uvcci_mpi_give_up(m, m->rank, 0, no_slices);
            return;
        }
        const int rc = uvcc_collective_order_submit(team->order, &tag, (uint64_t)(uintptr_t)w);
        if (rc == UVCC_ERR_NOMEM)
            uvcci_mpi_abort(m, "no memory for an operation");
        if (rc == UVCC_ERR_MISMATCH) {
            const uvcci_mpi_begun *b = team->begun.first;
            while (b != NULL && !same_name(&b->tag, &tag))
                b = b->next;
            uvcci_mpi_give_up(m, m->rank, 0,
                              b != NULL ? disagreement(&b->tag, &tag) : too_different);
        }
    }
    if (m->quiet_count != 0)
        uvcci_mpi_someone_left(m);
}

/* ---- what others have begun ---- */

static const uvcci_mpi_work *find_waiting(const uvcc_mpi *m, uint8_t group,
                                          const uvcc_collective_tag *tag) {
    for (const uvcci_mpi_work *w = m->waiting.first; w != NULL; w = w->next) {
        const uvcc_collective_tag own = uvcc_collective_tag_of(w->task);
        if (own.op != UVCC_COLLECTIVE_RECV && w->task->u.collective.group == group &&
            same_name(&own, tag))
            return w;
    }
    return NULL;
}

void uvcci_mpi_token(uvcc_mpi *m, const uvcci_mpi_head *head) {
    if (head->group > UVCC_GROUP_STAGE)
        uvcci_mpi_abort(m, "a message that this version does not know");
    uvcci_mpi_team *team = &m->team[head->group];
    remember(m, &team->begun, head);
    if (m->giving_up)
        return;
    const int rc = uvcc_collective_order_token(team->order, &head->tag);
    if (rc == UVCC_ERR_NOMEM)
        uvcci_mpi_abort(m, "no memory for an operation");
    if (rc != 0) {
        const uvcci_mpi_work *w = find_waiting(m, head->group, &head->tag);
        const uvcc_collective_tag own = uvcc_collective_tag_of(w != NULL ? w->task : NULL);
        uvcci_mpi_give_up(m, m->rank, 0,
                          w != NULL ? disagreement(&own, &head->tag) : too_different);
    } else if (m->left) {
        uvcci_mpi_give_up(m, m->rank, 0, someone_left);
    }
}

void uvcci_mpi_sent(uvcc_mpi *m, const uvcci_mpi_head *head) {
    if (head->tag.phase > UVCC_BWD)
        uvcci_mpi_abort(m, "a message that this version does not know");
    remember(m, &m->wire[head->tag.phase].begun, head);
    if (m->left)
        uvcci_mpi_give_up(m, m->rank, 0, someone_left);
}

/* Whether a job waits for a process that has left: then it will wait for ever. */
static bool in_vain(const uvcc_mpi *m, const uvcci_mpi_work *w) {
    const uvcc_collective_tag tag = uvcc_collective_tag_of(w->task);
    uint32_t rank = 0;
    if (tag.op == UVCC_COLLECTIVE_RECV) {
        if (uvcci_mpi_neighbour(m, w->task, &rank) != 0 || !m->quiet[rank])
            return false;
        for (const uvcci_mpi_begun *b = m->wire[tag.phase].begun.first; b != NULL; b = b->next)
            if (b->tag.step == tag.step && b->tag.mb == tag.mb)
                return false;
        return true;
    }
    const uvcc_group group = (uvcc_group)w->task->u.collective.group;
    for (int i = 0; i < m->team[group].members; i++)
        if (m->quiet[uvcci_mpi_member(m, group, (uint32_t)i)])
            return true;
    return false;
}

void uvcci_mpi_someone_left(uvcc_mpi *m) {
    if (m->giving_up)
        return;
    for (const uvcci_mpi_work *w = m->waiting.first; w != NULL; w = w->next)
        if (in_vain(m, w)) {
            uvcci_mpi_give_up(m, m->rank, 0, someone_left);
            return;
        }
}

/* ---- progress ---- */

static void run_waiting(uvcc_mpi *m, const uvcci_mpi_work *which) {
    uvcci_mpi_work **at = &m->waiting.first;
    while (*at != which)
        at = &(*at)->next;
    uvcci_mpi_push(&m->running, uvcci_mpi_pop(&m->waiting, at));
    m->moved = true;
}

/* Begins what is next in the order of a group; its leader tells the others first. */
static void progress_team(uvcc_mpi *m, uvcc_group group) {
    uvcci_mpi_team *team = &m->team[group];
    uvcc_collective_action act;
    while (uvcc_collective_order_poll(team->order, &act) == 1) {
        if (act.kind == UVCC_COLLECTIVE_TOKEN) {
            const uvcci_mpi_head head = {
                .kind = UVCCI_MPI_TOKEN, .group = (uint8_t)group, .tag = act.tag};
            for (int i = 0; i < team->members; i++)
                if (i != team->rank)
                    uvcci_mpi_send(m, uvcci_mpi_member(m, group, (uint32_t)i), &head, NULL, 0);
            continue;
        }
        uvcci_mpi_work *w = (uvcci_mpi_work *)(uintptr_t)act.id;
        if (team->rank != 0) {
            assert(same_name(&team->begun.first->tag, &act.tag));
            (void)forget(m, &team->begun, &team->begun.first);
        }
        run_waiting(m, w);
        begin_team(w, team, &act.tag, &w->task->u.collective.in, &w->task->u.collective.out);
    }
}

/* Receives what was sent and is waited for. */
static void progress_wire(uvcc_mpi *m, uint8_t phase) {
    uvcci_mpi_wire *wire = &m->wire[phase];
    for (uvcci_mpi_begun **at = &wire->begun.first; *at != NULL;) {
        uvcci_mpi_work *w = m->waiting.first;
        for (; w != NULL; w = w->next)
            if (w->task->u.collective.op == UVCC_COLLECTIVE_RECV &&
                w->task->u.collective.phase == phase &&
                w->task->u.collective.step == (*at)->tag.step &&
                w->task->u.collective.mb == (*at)->tag.mb)
                break;
        if (w == NULL) {
            at = &(*at)->next;
            continue;
        }
        const uvcc_collective_tag own = uvcc_collective_tag_of(w->task);
        if (own.elems != (*at)->tag.elems || own.additive != (*at)->tag.additive) {
            uvcci_mpi_give_up(m, m->rank, 0,
                              own.elems != (*at)->tag.elems ? other_size : other_sharing);
            return;
        }
        const uvcci_mpi_begun sent = forget(m, &wire->begun, at);
        run_waiting(m, w);
        begin_receive(w, wire, other_end(m, phase, false), &sent, &w->task->u.collective.out);
    }
}

static void finish_running(uvcc_mpi *m) {
    for (uvcci_mpi_work **at = &m->running.first; *at != NULL;) {
        int over = 0;
        (void)MPI_Testall(2, (*at)->request, &over, MPI_STATUSES_IGNORE);
        if (!over) {
            at = &(*at)->next;
            continue;
        }
        uvcci_mpi_work *w = uvcci_mpi_pop(&m->running, at);
        if (w->task != NULL) {
            finish(m, w, m->giving_up ? UVCC_ERR_JOB : 0);
            continue;
        }
        uvcci_mpi_give(m, w->scratch, w->scratch_bytes, UVCC_MEM_WIRE);
        uvcci_mpi_give(m, w, sizeof *w, UVCC_MEM_STATE);
        m->moved = true;
    }
}

void uvcci_mpi_progress(uvcc_mpi *m) {
    for (unsigned g = 0; g < 4 && !m->giving_up; g++)
        progress_team(m, (uvcc_group)g);
    for (uint8_t p = 0; p < 2 && !m->giving_up; p++)
        progress_wire(m, p);
    if (m->giving_up)
        while (m->waiting.first != NULL)
            finish(m, uvcci_mpi_pop(&m->waiting, &m->waiting.first), UVCC_ERR_JOB);
    finish_running(m);
}

void uvcci_mpi_follow(uvcc_mpi *m) {
    uvcc_shares in, out;
    for (unsigned g = 0; g < 4; g++)
        while (m->team[g].begun.first != NULL) {
            uvcci_mpi_team *team = &m->team[g];
            const uvcci_mpi_begun b = forget(m, &team->begun, &team->begun.first);
            uvcci_mpi_work *w = nobody(m, b.tag.elems, &in, &out);
            begin_team(w, team, &b.tag, &in, &out);
            uvcci_mpi_push(&m->running, w);
        }
    for (uint8_t p = 0; p < 2; p++)
        while (m->wire[p].begun.first != NULL) {
            const uvcci_mpi_begun b = forget(m, &m->wire[p].begun, &m->wire[p].begun.first);
            uvcci_mpi_work *w = nobody(m, b.tag.elems, &in, &out);
            begin_receive(w, &m->wire[p], other_end(m, p, false), &b, &out);
            uvcci_mpi_push(&m->running, w);
        }
}

bool uvcci_mpi_behind(const uvcc_mpi *m) {
    for (unsigned g = 0; g < 4; g++)
        if (m->team[g].begun.first != NULL)
            return true;
    return m->wire[0].begun.first != NULL || m->wire[1].begun.first != NULL;
}

bool uvcci_mpi_idle(const uvcc_mpi *m) {
    return m->waiting.first == NULL && m->running.first == NULL && m->out == NULL &&
           !uvcci_mpi_behind(m);
}
