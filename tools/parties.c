/* SPDX-License-Identifier: Apache-2.0 */
/* parties.c - see parties.h.
 *
 * Between the sessions of two parties lies a lane for each direction, with one transmit at most:
 *
 *     EMPTY --sender offers--> FULL --receiver begins--> TAKEN --receiver is done--> DONE
 *       ^-------------------------- sender's session hears of it ----------------------'
 *
 * The sender may take a FULL one back. Both lanes are of one stream, which a receiver breaks where
 * its session cannot go on with it: `breaks` counts that. Each end closes at its session first,
 * when nobody reads of its lane, and notes the count that it has seen; when both have seen the last
 * one, and a while later, both open it again.
 *
 * A thread that finds nothing to do looks for a while whether it is called, where there are cores
 * for that, then sleeps until it is; a call that came since it last slept counts. When all sleep,
 * none is called and no executor works, nothing but time can bring progress: the last one moves the
 * clock, under the lock, while the others stand still.
 *
 * Frames are sealed and opened in these threads, which takes longer than all else that they do:
 * where there are cores for that, others help (crew.h). Jobs that an executor's own threads run go
 * out before each of both, and one transmit is sealed at a time. */
#include "parties.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include <uvcc/host.h>
#include <uvcc/types.h>

#include "crew.h"

#define REOPEN_NS   10000000u    /* after a stream broke */
#define LOOK_NS     200000u      /* by the host's clock */
#define LOOK_CORES  8            /* as many, or it is a core that others want */
#define FRAME_BYTES (128u << 10) /* of those that are sealed and opened side by side, */
#define FRAMES      8u           /* as many in a transmit */

enum { EMPTY, FULL, TAKEN, DONE }; /* a lane */
enum { AWAKE, CALLED, ASLEEP };    /* a party's thread */

typedef struct lane {
    atomic_uint state;
    uvcc_transmit tx;
} lane;

typedef struct stream {
    atomic_uint breaks, seen[UVCC_PARTIES]; /* by end; of two of them */
    atomic_ullong open_at;
} stream;

/* A session with its two peers. */
typedef struct member {
    uvcc_session *session;
    uvcc_cpu *executor;
    const uvcc_job *job; /* polled, not accepted by its executor */
    bool away;           /* the last one was not back at once: others run them */
    bool open[UVCC_PARTIES];
} member;

typedef struct party {
    parties *of;
    unsigned number;
    member *members;
    pthread_t thread;
    pthread_cond_t wake;
    atomic_uint rest;
    /* As it fell asleep; under the lock: */
    bool works;        /* an executor has jobs */
    uint64_t deadline; /* of its sessions */
} party;

/* What lies between the workers of the same rank. */
typedef struct triangle {
    lane lanes[UVCC_PARTIES][UVCC_PARTIES]; /* from, to */
    stream streams[UVCC_PARTIES];           /* by the party that is at no end of it */
} triangle;

struct parties {
    parties_config c;
    party party[UVCC_PARTIES];
    triangle *triangles;
    pthread_mutex_t lock;
    atomic_ullong now;
    atomic_bool over;
    bool looks;
    crew *crew; /* NULL: there are not enough cores */
    int result;
};

static stream *stream_of(triangle *t, unsigned a, unsigned b) {
    return &t->streams[UVCC_PARTIES - a - b];
}

/* A wrong call is the host's to hear of. Everything else that a session has to say is in its
 * events. */
static int wrong(int rc) {
    return rc <= -100 && rc > -200 ? rc : 0;
}

uint64_t parties_now(const parties *x) {
    return atomic_load_explicit(&x->now, memory_order_relaxed);
}

/* ---- calling and sleeping ---- */

static void call(void *user) {
    party *p = user;
    if (atomic_exchange(&p->rest, CALLED) != ASLEEP)
        return;
    (void)pthread_mutex_lock(&p->of->lock);
    (void)pthread_cond_signal(&p->wake);
    (void)pthread_mutex_unlock(&p->of->lock);
}

/* Under the lock. */
static void end_run(parties *x, int result) {
    if (!atomic_load(&x->over))
        x->result = result;
    atomic_store(&x->over, true);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        (void)pthread_cond_signal(&x->party[p].wake);
}

/* Under the lock, and nobody works. */
static void move_clock(parties *x) {
    uint64_t next = UVCC_NEVER;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        next = x->party[p].deadline < next ? x->party[p].deadline : next;
    const int rc = next != UVCC_NEVER && x->c.idle != NULL ? x->c.idle(x->c.user) : 0;
    if (rc != 0 || next == UVCC_NEVER) {
        end_run(x, rc);
        return;
    }
    atomic_store(&x->now, next);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        atomic_store(&x->party[p].rest, CALLED);
        (void)pthread_cond_signal(&x->party[p].wake);
    }
}

static bool all_wait(const parties *x) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const party *q = &x->party[p];
        if (atomic_load(&q->rest) != ASLEEP || q->works)
            return false;
    }
    return true;
}

/* Where a session stands in time: one that its timer left in place waits for something else. */
static uint64_t deadline_of(const party *me, uint32_t worker) {
    const member *m = &me->members[worker];
    triangle *t = &me->of->triangles[worker];
    const uint64_t now = parties_now(me->of), own = uvcc_session_next_deadline(m->session);
    uint64_t next = own > now ? own : UVCC_NEVER;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        if (q == me->number || m->open[q])
            continue;
        const uint64_t at = atomic_load(&stream_of(t, me->number, q)->open_at);
        next = at > now && at < next ? at : next;
    }
    return next;
}

/* To be woken takes longer than most of what a thread waits for. */
static bool called_soon(const party *me) {
    const uint64_t from = uvcc_host_now_ns();
    while (atomic_load(&me->rest) != CALLED && !atomic_load(&me->of->over)) {
        if (uvcc_host_now_ns() - from >= LOOK_NS)
            return false;
        (void)sched_yield();
    }
    return true;
}

static void sleep_until_called(party *me) {
    parties *x = me->of;
    uint64_t deadline = UVCC_NEVER;
    bool works = false;
    for (uint32_t i = 0; i < x->c.workers; i++) {
        const uint64_t d = deadline_of(me, i);
        deadline = d < deadline ? d : deadline;
        works |= uvcc_cpu_pending(me->members[i].executor) != 0;
    }
    if (x->c.planes != NULL)
        works |= uvcc_collective_running(x->c.planes[me->number]) != 0;
    (void)pthread_mutex_lock(&x->lock);
    me->deadline = deadline;
    me->works = works;
    unsigned rest = AWAKE;
    if (atomic_compare_exchange_strong(&me->rest, &rest, ASLEEP) && all_wait(x))
        move_clock(x);
    while (atomic_load(&me->rest) == ASLEEP && !atomic_load(&x->over))
        (void)pthread_cond_wait(&me->wake, &x->lock);
    atomic_store(&me->rest, AWAKE);
    (void)pthread_mutex_unlock(&x->lock);
}

/* ---- streams ---- */

/* Nobody may be reading of the lane when the session hears that its stream is gone: the memory is
 * void then. */
static int close_end(party *me, uint32_t worker, unsigned peer, unsigned breaks, bool *moved) {
    triangle *t = &me->of->triangles[worker];
    member *m = &me->members[worker];
    lane *out = &t->lanes[me->number][peer];
    unsigned state = FULL;
    if (!atomic_compare_exchange_strong(&out->state, &state, EMPTY) && state == TAKEN)
        return 0; /* who reads it calls */
    atomic_store(&out->state, EMPTY);
    const int rc = m->open[peer]
                       ? uvcc_session_peer_closed(m->session, (uint8_t)peer, parties_now(me->of))
                       : 0;
    m->open[peer] = false;
    *moved = true;
    atomic_store(&stream_of(t, me->number, peer)->seen[me->number], breaks);
    call(&me->of->party[peer]);
    return wrong(rc);
}

static int keep_stream(party *me, uint32_t worker, unsigned peer, bool *moved) {
    member *m = &me->members[worker];
    stream *s = stream_of(&me->of->triangles[worker], me->number, peer);
    const unsigned breaks = atomic_load(&s->breaks);
    if (atomic_load(&s->seen[me->number]) != breaks)
        return close_end(me, worker, peer, breaks, moved);
    if (m->open[peer] || atomic_load(&s->seen[peer]) != breaks ||
        parties_now(me->of) < atomic_load(&s->open_at))
        return 0;
    m->open[peer] = true;
    *moved = true;
    return wrong(uvcc_session_peer_open(m->session, (uint8_t)peer, parties_now(me->of)));
}

/* ---- bytes ---- */

static int receive(party *me, uint32_t worker, unsigned peer, bool *moved) {
    triangle *t = &me->of->triangles[worker];
    member *m = &me->members[worker];
    lane *in = &t->lanes[peer][me->number];
    unsigned state = FULL;
    if (!m->open[peer] || atomic_load(&in->state) != FULL ||
        !atomic_compare_exchange_strong(&in->state, &state, TAKEN))
        return 0;
    const int rc = uvcc_session_feed_slices(m->session, (uint8_t)peer, in->tx.slices,
                                            in->tx.slice_count, parties_now(me->of));
    if (rc == UVCC_ERR_STREAM_BROKEN) {
        stream *s = stream_of(t, me->number, peer);
        atomic_store(&s->open_at, parties_now(me->of) + REOPEN_NS);
        atomic_fetch_add(&s->breaks, 1);
    }
    atomic_store(&in->state, DONE);
    *moved = true;
    call(&me->of->party[peer]);
    return wrong(rc);
}

/* What was sent is the session's again. */
static int retire(party *me, uint32_t worker, unsigned peer, bool *moved) {
    lane *out = &me->of->triangles[worker].lanes[me->number][peer];
    if (atomic_load(&out->state) != DONE)
        return 0;
    atomic_store(&out->state, EMPTY);
    *moved = true;
    return wrong(uvcc_session_transmit_done(me->members[worker].session, (uint8_t)peer, out->tx.id,
                                            out->tx.total, parties_now(me->of)));
}

static void transmit(party *me, uint32_t worker, bool *moved) {
    const member *m = &me->members[worker];
    uvcc_transmit tx;
    bool more = true;
    while (more && uvcc_session_poll_transmit(m->session, &tx, parties_now(me->of)) == 1) {
        lane *out = &me->of->triangles[worker].lanes[me->number][tx.peer];
        assert(atomic_load(&out->state) == EMPTY); /* one is out for each peer */
        out->tx = tx;
        atomic_store(&out->state, FULL);
        *moved = true;
        call(&me->of->party[tx.peer]);
        more = !m->away;
    }
}

/* ---- computing ---- */

static int complete(party *me, uint32_t worker, bool *moved) {
    parties *x = me->of;
    member *m = &me->members[worker];
    uvcc_completion c;
    int rc = 0;
    while (rc == 0 && (uvcc_cpu_poll(m->executor, &c) == 1 ||
                       (x->c.planes != NULL &&
                        uvcc_collective_poll(x->c.planes[me->number], worker, &c) == 1))) {
        *moved = true;
        rc = wrong(uvcc_session_complete(m->session, &c, parties_now(x)));
    }
    return rc;
}

/* 1: a job was submitted; 0: none could be. */
static int submit(party *me, uint32_t worker) {
    member *m = &me->members[worker];
    if (m->job == NULL && uvcc_session_poll_job(m->session, &m->job) != 1)
        return 0;
    const int rc = m->job->plane == UVCC_PLANE_LOCAL
                       ? uvcc_collective_submit(me->of->c.planes[me->number], worker, m->job)
                       : uvcc_cpu_submit(m->executor, m->job);
    if (rc == UVCC_ERR_AGAIN && uvcc_cpu_pending(m->executor) > 0)
        return 0;
    m->job = NULL;
    return rc < 0 ? rc : 1;
}

/* Jobs go out until one comes back: an executor may run it here and now, and what comes of it goes
 * to the peers before the next one begins. */
static int compute(party *me, uint32_t worker, bool *moved) {
    bool back = false;
    int rc = 0;
    while (rc == 0 && !back) {
        rc = submit(me, worker);
        if (rc != 1)
            return rc;
        *moved = true;
        rc = complete(me, worker, &back);
        me->members[worker].away = !back;
    }
    return rc;
}

static int send_away(party *me, uint32_t worker, bool *moved) {
    return me->members[worker].away ? compute(me, worker, moved) : 0;
}

/* ---- the loop ---- */

/* What comes to a session. */
static int take_in(party *me, uint32_t worker, bool *moved) {
    uvcc_session *s = me->members[worker].session;
    const uint64_t now = parties_now(me->of);
    int rc = 0;
    for (unsigned q = 0; q < UVCC_PARTIES && rc == 0; q++) {
        if (q == me->number)
            continue;
        rc = keep_stream(me, worker, q, moved);
        if (rc == 0)
            rc = retire(me, worker, q, moved);
        if (rc == 0)
            rc = receive(me, worker, q, moved);
        if (rc == 0)
            rc = send_away(me, worker, moved);
    }
    if (rc == 0 && uvcc_session_next_deadline(s) <= now) {
        rc = wrong(uvcc_session_on_timer(s, now));
        *moved |= uvcc_session_next_deadline(s) > now;
    }
    if (rc == 0)
        rc = complete(me, worker, moved);
    return rc == 0 ? send_away(me, worker, moved) : rc;
}

/* Events are heard before anything is sent: the party at which something failed is the first to say
 * so. */
static int let_out(party *me, bool *moved) {
    parties *x = me->of;
    const int rc = x->c.hear(x->c.user, me->number, moved);
    for (uint32_t i = 0; i < x->c.workers && rc == 0; i++)
        transmit(me, i, moved);
    return rc;
}

static int turn(party *me, bool *moved) {
    const uint32_t workers = me->of->c.workers;
    int rc = 0;
    for (uint32_t i = 0; i < workers && rc == 0; i++)
        rc = take_in(me, i, moved);
    if (rc == 0)
        rc = let_out(me, moved);
    for (uint32_t i = 0; i < workers && rc == 0; i++)
        rc = compute(me, i, moved);
    return rc == 0 ? let_out(me, moved) : rc;
}

static void *party_main(void *arg) {
    party *me = arg;
    parties *x = me->of;
    while (!atomic_load(&x->over)) {
        bool moved = false;
        const int rc = turn(me, &moved);
        if (rc != 0) {
            (void)pthread_mutex_lock(&x->lock);
            end_run(x, rc);
            (void)pthread_mutex_unlock(&x->lock);
        } else if (!moved && x->looks && called_soon(me)) {
            atomic_store(&me->rest, AWAKE);
        } else if (!moved) {
            sleep_until_called(me);
        }
    }
    return NULL;
}

/* A thread runs jobs if its executor has no threads, and the hooks of the host. */
static int start_thread(party *me) {
    pthread_attr_t attr;
    size_t bytes;
    if (pthread_attr_init(&attr) != 0)
        return UVCC_ERR_NOMEM;
    int e = pthread_attr_getstacksize(&attr, &bytes);
    if (e == 0 && bytes < 8 * UVCC_TASK_STACK_BYTES)
        e = pthread_attr_setstacksize(&attr, 8 * UVCC_TASK_STACK_BYTES);
    if (e == 0)
        e = pthread_create(&me->thread, &attr, party_main, me);
    (void)pthread_attr_destroy(&attr);
    return e == 0 ? 0 : UVCC_ERR_NOMEM;
}

/* Sessions are the caller's again, with what they offered; unless the stream is gone, which they
 * hear in the next run. */
static void give_back(parties *x) {
    for (uint32_t i = 0; i < x->c.workers; i++)
        for (unsigned k = 0; k < UVCC_PARTIES * UVCC_PARTIES; k++) {
            const unsigned from = k / UVCC_PARTIES, to = k % UVCC_PARTIES;
            lane *l = &x->triangles[i].lanes[from][to];
            const unsigned state = atomic_exchange(&l->state, EMPTY);
            if (state == FULL || state == DONE)
                (void)uvcc_session_transmit_done(x->party[from].members[i].session, (uint8_t)to,
                                                 l->tx.id, state == DONE ? l->tx.total : 0,
                                                 parties_now(x));
        }
}

int parties_run(parties *x) {
    unsigned started = 1;
    int rc = 0;
    atomic_store(&x->over, false);
    x->result = 0;
    for (; started < UVCC_PARTIES && rc == 0; started += rc == 0)
        rc = start_thread(&x->party[started]);
    if (rc == 0) {
        (void)party_main(&x->party[0]);
    } else {
        (void)pthread_mutex_lock(&x->lock);
        end_run(x, rc);
        (void)pthread_mutex_unlock(&x->lock);
    }
    for (unsigned p = 1; p < started; p++)
        (void)pthread_join(x->party[p].thread, NULL);
    give_back(x);
    return x->result;
}

/* ---- life ---- */

void parties_configure(parties *x, unsigned number, uvcc_cpu_config *executor) {
    executor->wake = call;
    executor->wake_user = &x->party[number];
}

void parties_share_frames(parties *x, uvcc_config *session) {
    if (x->crew == NULL)
        return;
    session->threads.parallel = crew_parallel(x->crew);
    session->links.frame_bytes = FRAME_BYTES;
    session->links.transmit_frames = FRAMES;
}

void parties_join(parties *x, uint32_t worker, unsigned number, uvcc_session *s,
                  uvcc_cpu *executor) {
    assert(worker < x->c.workers && number < UVCC_PARTIES);
    x->party[number].members[worker] = (member){.session = s, .executor = executor};
}

int parties_new(parties **out, const parties_config *c) {
    parties *x = calloc(1, sizeof *x);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    x->c = *c;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    x->looks = cores >= LOOK_CORES;
    bool ok = pthread_mutex_init(&x->lock, NULL) == 0;
    ok = (!x->looks || crew_new(&x->crew, (unsigned)cores / 2 - 2) == 0) && ok;
    x->triangles = calloc(c->workers, sizeof *x->triangles);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        party *me = &x->party[p];
        me->of = x;
        me->number = p;
        me->members = calloc(c->workers, sizeof *me->members);
        ok = pthread_cond_init(&me->wake, NULL) == 0 && me->members != NULL && ok;
    }
    if (!ok || x->triangles == NULL) {
        parties_free(x);
        return UVCC_ERR_NOMEM;
    }
    *out = x;
    return 0;
}

void parties_free(parties *x) {
    if (x == NULL)
        return;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        (void)pthread_cond_destroy(&x->party[p].wake);
        free(x->party[p].members);
    }
    crew_free(x->crew);
    (void)pthread_mutex_destroy(&x->lock);
    free(x->triangles);
    free(x);
}
