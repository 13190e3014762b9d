/* SPDX-License-Identifier: Apache-2.0 */
/* parties.c - see parties.h.
 *
 * A seat is a worker of a party: its session, its executor, and the thread that drives them.
 * Workers of the same rank are a triangle. Between the sessions of two of its seats lies a lane for
 * each direction, with one transmit at most:
 *
 *     EMPTY --sender offers--> FULL --receiver begins--> TAKEN --receiver is done--> DONE
 *       ^-------------------------- sender's session hears of it ----------------------'
 *
 * The sender may take a FULL one back. Both lanes are of one stream, which a receiver breaks where
 * its session cannot go on with it: `breaks` counts that. Each end closes at its session first,
 * when nobody reads of its lane, and notes the count that it has seen; when both have seen the last
 * one, and a while later, both open it again.
 *
 * A party's local plane belongs to all of its seats, each of which uses it under the plane's lock,
 * and calls the others when it brought a job: theirs may be done by that.
 *
 * A thread that finds nothing to do looks for a while whether it is called, where there are cores
 * for that, then sleeps until it is; a call that came since it last slept counts. When all sleep,
 * none is called and neither an executor nor a plane works, nothing but time can bring progress:
 * the last one moves the clock, under the lock, while the others stand still.
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

#include <uvcc/host.h>
#include <uvcc/types.h>

#include "crew.h"

#define REOPEN_NS 10000000u /* after a stream broke */
#define LOOK_NS   200000u   /* by the host's clock */

enum { EMPTY, FULL, TAKEN, DONE }; /* a lane */
enum { AWAKE, CALLED, ASLEEP };    /* a seat's thread */

typedef struct lane {
    atomic_uint state;
    uvcc_transmit tx;
} lane;

typedef struct stream {
    atomic_uint breaks, seen[UVCC_PARTIES]; /* by end; of two of them */
    atomic_ullong open_at;
} stream;

typedef struct seat {
    parties *of;
    unsigned party;
    uint32_t worker;
    uvcc_session *session;
    uvcc_cpu *executor;
    const uvcc_job *job; /* polled, not accepted by its executor */
    bool away;           /* the last one was not back at once: others run them */
    uint32_t local;      /* jobs that the plane has */
    bool open[UVCC_PARTIES];
    pthread_t thread;
    pthread_cond_t wake;
    atomic_uint rest;
    /* As it fell asleep; under the lock: */
    bool works;        /* its executor has jobs */
    uint64_t deadline; /* of its session */
} seat;

/* What lies between the workers of the same rank. */
typedef struct triangle {
    lane lanes[UVCC_PARTIES][UVCC_PARTIES]; /* from, to */
    stream streams[UVCC_PARTIES];           /* by the party that is at no end of it */
} triangle;

struct parties {
    parties_config c;
    uint32_t seats; /* worker by worker */
    seat *seat;
    triangle *triangles;
    pthread_mutex_t lock, plane[UVCC_PARTIES]; /* `lock` may be taken under a plane's */
    atomic_ullong now;
    atomic_bool over;
    bool looks;
    crew *crew; /* NULL: there are not enough cores */
    int result;
};

static seat *seat_of(parties *x, uint32_t worker, unsigned party) {
    return &x->seat[worker * UVCC_PARTIES + party];
}

static triangle *triangle_of(const seat *me) {
    return &me->of->triangles[me->worker];
}

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
    seat *s = user;
    if (atomic_exchange(&s->rest, CALLED) != ASLEEP)
        return;
    (void)pthread_mutex_lock(&s->of->lock);
    (void)pthread_cond_signal(&s->wake);
    (void)pthread_mutex_unlock(&s->of->lock);
}

static void call_peer(const seat *me, unsigned peer) {
    call(seat_of(me->of, me->worker, peer));
}

static void call_other_workers(const seat *me) {
    for (uint32_t i = 0; i < me->of->c.workers; i++)
        if (i != me->worker)
            call(seat_of(me->of, i, me->party));
}

/* Under the lock. */
static void end_run(parties *x, int result) {
    if (!atomic_load(&x->over))
        x->result = result;
    atomic_store(&x->over, true);
    for (uint32_t i = 0; i < x->seats; i++)
        (void)pthread_cond_signal(&x->seat[i].wake);
}

/* Under the lock, and nobody works. */
static void move_clock(parties *x) {
    uint64_t next = UVCC_NEVER;
    for (uint32_t i = 0; i < x->seats; i++)
        next = x->seat[i].deadline < next ? x->seat[i].deadline : next;
    const int rc = next != UVCC_NEVER && x->c.idle != NULL ? x->c.idle(x->c.user) : 0;
    if (rc != 0 || next == UVCC_NEVER) {
        end_run(x, rc);
        return;
    }
    atomic_store(&x->now, next);
    for (uint32_t i = 0; i < x->seats; i++) {
        atomic_store(&x->seat[i].rest, CALLED);
        (void)pthread_cond_signal(&x->seat[i].wake);
    }
}

/* Under the lock. Nobody is in a plane when all sleep. */
static bool all_wait(const parties *x) {
    for (uint32_t i = 0; i < x->seats; i++)
        if (atomic_load(&x->seat[i].rest) != ASLEEP || x->seat[i].works)
            return false;
    for (unsigned p = 0; x->c.planes != NULL && p < UVCC_PARTIES; p++)
        if (uvcc_collective_running(x->c.planes[p]) != 0)
            return false;
    return true;
}

/* Where a session stands in time: one that its timer left in place waits for something else. */
static uint64_t deadline_of(const seat *me) {
    triangle *t = triangle_of(me);
    const uint64_t now = parties_now(me->of), own = uvcc_session_next_deadline(me->session);
    uint64_t next = own > now ? own : UVCC_NEVER;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        if (q == me->party || me->open[q])
            continue;
        const uint64_t at = atomic_load(&stream_of(t, me->party, q)->open_at);
        next = at > now && at < next ? at : next;
    }
    return next;
}

/* To be woken takes longer than most of what a thread waits for. */
static bool called_soon(const seat *me) {
    const uint64_t from = uvcc_host_now_ns();
    while (atomic_load(&me->rest) != CALLED && !atomic_load(&me->of->over)) {
        if (uvcc_host_now_ns() - from >= LOOK_NS)
            return false;
        (void)sched_yield();
    }
    return true;
}

static void sleep_until_called(seat *me) {
    parties *x = me->of;
    const uint64_t deadline = deadline_of(me);
    const bool works = uvcc_cpu_pending(me->executor) != 0;
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
static int close_end(seat *me, unsigned peer, unsigned breaks, bool *moved) {
    triangle *t = triangle_of(me);
    lane *out = &t->lanes[me->party][peer];
    unsigned state = FULL;
    if (!atomic_compare_exchange_strong(&out->state, &state, EMPTY) && state == TAKEN)
        return 0; /* who reads it calls */
    atomic_store(&out->state, EMPTY);
    const int rc = me->open[peer]
                       ? uvcc_session_peer_closed(me->session, (uint8_t)peer, parties_now(me->of))
                       : 0;
    me->open[peer] = false;
    *moved = true;
    atomic_store(&stream_of(t, me->party, peer)->seen[me->party], breaks);
    call_peer(me, peer);
    return wrong(rc);
}

static int keep_stream(seat *me, unsigned peer, bool *moved) {
    stream *s = stream_of(triangle_of(me), me->party, peer);
    const unsigned breaks = atomic_load(&s->breaks);
    if (atomic_load(&s->seen[me->party]) != breaks)
        return close_end(me, peer, breaks, moved);
    if (me->open[peer] || atomic_load(&s->seen[peer]) != breaks ||
        parties_now(me->of) < atomic_load(&s->open_at))
        return 0;
    me->open[peer] = true;
    *moved = true;
    return wrong(uvcc_session_peer_open(me->session, (uint8_t)peer, parties_now(me->of)));
}

/* ---- bytes ---- */

static int receive(seat *me, unsigned peer, bool *moved) {
    triangle *t = triangle_of(me);
    lane *in = &t->lanes[peer][me->party];
    unsigned state = FULL;
    if (!me->open[peer] || atomic_load(&in->state) != FULL ||
        !atomic_compare_exchange_strong(&in->state, &state, TAKEN))
        return 0;
    const int rc = uvcc_session_feed_slices(me->session, (uint8_t)peer, in->tx.slices,
                                            in->tx.slice_count, parties_now(me->of));
    if (rc == UVCC_ERR_STREAM_BROKEN) {
        stream *s = stream_of(t, me->party, peer);
        atomic_store(&s->open_at, parties_now(me->of) + REOPEN_NS);
        atomic_fetch_add(&s->breaks, 1);
    }
    atomic_store(&in->state, DONE);
    *moved = true;
    call_peer(me, peer);
    return wrong(rc);
}

/* What was sent is the session's again. */
static int retire(seat *me, unsigned peer, bool *moved) {
    lane *out = &triangle_of(me)->lanes[me->party][peer];
    if (atomic_load(&out->state) != DONE)
        return 0;
    atomic_store(&out->state, EMPTY);
    *moved = true;
    return wrong(uvcc_session_transmit_done(me->session, (uint8_t)peer, out->tx.id, out->tx.total,
                                            parties_now(me->of)));
}

static void transmit(seat *me, bool *moved) {
    uvcc_transmit tx;
    bool more = true;
    while (more && uvcc_session_poll_transmit(me->session, &tx, parties_now(me->of)) == 1) {
        lane *out = &triangle_of(me)->lanes[me->party][tx.peer];
        assert(atomic_load(&out->state) == EMPTY); /* one is out for each peer */
        out->tx = tx;
        atomic_store(&out->state, FULL);
        *moved = true;
        call_peer(me, tx.peer);
        more = !me->away;
    }
}

/* ---- computing ---- */

/* Jobs of the local plane end by what the party's other workers do. */
static bool poll_plane(seat *me, uvcc_completion *c) {
    parties *x = me->of;
    if (me->local == 0)
        return false;
    (void)pthread_mutex_lock(&x->plane[me->party]);
    const bool some = uvcc_collective_poll(x->c.planes[me->party], me->worker, c) == 1;
    (void)pthread_mutex_unlock(&x->plane[me->party]);
    me->local -= some;
    return some;
}

static int complete(seat *me, bool *moved) {
    uvcc_completion c;
    int rc = 0;
    while (rc == 0 && (uvcc_cpu_poll(me->executor, &c) == 1 || poll_plane(me, &c))) {
        *moved = true;
        rc = wrong(uvcc_session_complete(me->session, &c, parties_now(me->of)));
    }
    return rc;
}

static int submit_to_plane(seat *me) {
    parties *x = me->of;
    (void)pthread_mutex_lock(&x->plane[me->party]);
    const int rc = uvcc_collective_submit(x->c.planes[me->party], me->worker, me->job);
    (void)pthread_mutex_unlock(&x->plane[me->party]);
    me->local += rc == 0;
    if (rc == 0)
        call_other_workers(me);
    return rc;
}

/* 1: a job was submitted; 0: none could be. */
static int submit(seat *me) {
    if (me->job == NULL && uvcc_session_poll_job(me->session, &me->job) != 1)
        return 0;
    const int rc = me->job->plane == UVCC_PLANE_LOCAL ? submit_to_plane(me)
                                                      : uvcc_cpu_submit(me->executor, me->job);
    if (rc == UVCC_ERR_AGAIN && uvcc_cpu_pending(me->executor) > 0)
        return 0;
    me->job = NULL;
    return rc < 0 ? rc : 1;
}

/* Jobs go out until one comes back: an executor may run it here and now, and what comes of it goes
 * to the peers before the next one begins. */
static int compute(seat *me, bool *moved) {
    bool back = false;
    int rc = 0;
    while (rc == 0 && !back) {
        rc = submit(me);
        if (rc != 1)
            return rc;
        *moved = true;
        rc = complete(me, &back);
        me->away = !back;
    }
    return rc;
}

static int send_away(seat *me, bool *moved) {
    return me->away ? compute(me, moved) : 0;
}

/* ---- the loop ---- */

/* What comes to a session. */
static int take_in(seat *me, bool *moved) {
    uvcc_session *s = me->session;
    const uint64_t now = parties_now(me->of);
    int rc = 0;
    for (unsigned q = 0; q < UVCC_PARTIES && rc == 0; q++) {
        if (q == me->party)
            continue;
        rc = keep_stream(me, q, moved);
        if (rc == 0)
            rc = retire(me, q, moved);
        if (rc == 0)
            rc = receive(me, q, moved);
        if (rc == 0)
            rc = send_away(me, moved);
    }
    if (rc == 0 && uvcc_session_next_deadline(s) <= now) {
        rc = wrong(uvcc_session_on_timer(s, now));
        *moved |= uvcc_session_next_deadline(s) > now;
    }
    if (rc == 0)
        rc = complete(me, moved);
    return rc == 0 ? send_away(me, moved) : rc;
}

/* Events are heard before anything is sent: the party at which something failed is the first to say
 * so. */
static int let_out(seat *me, bool *moved) {
    const parties *x = me->of;
    const int rc = x->c.hear(x->c.user, me->worker, me->party, moved);
    if (rc == 0)
        transmit(me, moved);
    return rc;
}

static int turn(seat *me, bool *moved) {
    int rc = take_in(me, moved);
    if (rc == 0)
        rc = let_out(me, moved);
    if (rc == 0)
        rc = compute(me, moved);
    return rc == 0 ? let_out(me, moved) : rc;
}

static void *seat_main(void *arg) {
    seat *me = arg;
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
static int start_thread(seat *me) {
    pthread_attr_t attr;
    size_t bytes;
    if (pthread_attr_init(&attr) != 0)
        return UVCC_ERR_NOMEM;
    int e = pthread_attr_getstacksize(&attr, &bytes);
    if (e == 0 && bytes < 8 * UVCC_TASK_STACK_BYTES)
        e = pthread_attr_setstacksize(&attr, 8 * UVCC_TASK_STACK_BYTES);
    if (e == 0)
        e = pthread_create(&me->thread, &attr, seat_main, me);
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
                (void)uvcc_session_transmit_done(seat_of(x, i, from)->session, (uint8_t)to,
                                                 l->tx.id, state == DONE ? l->tx.total : 0,
                                                 parties_now(x));
        }
}

/* The first seat's thread is the caller's. */
int parties_run(parties *x) {
    uint32_t started = 1;
    int rc = 0;
    atomic_store(&x->over, false);
    x->result = 0;
    for (; started < x->seats && rc == 0; started += rc == 0)
        rc = start_thread(&x->seat[started]);
    if (rc == 0) {
        (void)seat_main(&x->seat[0]);
    } else {
        (void)pthread_mutex_lock(&x->lock);
        end_run(x, rc);
        (void)pthread_mutex_unlock(&x->lock);
    }
    for (uint32_t i = 1; i < started; i++)
        (void)pthread_join(x->seat[i].thread, NULL);
    give_back(x);
    return x->result;
}

/* ---- life ---- */

void parties_configure(parties *x, uint32_t worker, unsigned party, uvcc_cpu_config *executor) {
    executor->wake = call;
    executor->wake_user = seat_of(x, worker, party);
}

void parties_share_frames(parties *x, uvcc_config *session) {
    crew_share_frames(x->crew, session);
}

void parties_join(parties *x, uint32_t worker, unsigned party, uvcc_session *s,
                  uvcc_cpu *executor) {
    assert(worker < x->c.workers && party < UVCC_PARTIES);
    seat *me = seat_of(x, worker, party);
    me->session = s;
    me->executor = executor;
}

int parties_new(parties **out, const parties_config *c) {
    parties *x = calloc(1, sizeof *x);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    x->c = *c;
    const unsigned spare = crew_threads(c->workers);
    x->looks = spare != 0;
    bool ok = pthread_mutex_init(&x->lock, NULL) == 0;
    ok = (spare == 0 || crew_new(&x->crew, spare) == 0) && ok;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        ok = pthread_mutex_init(&x->plane[p], NULL) == 0 && ok;
    x->triangles = calloc(c->workers, sizeof *x->triangles);
    x->seat = calloc((size_t)c->workers * UVCC_PARTIES, sizeof *x->seat);
    x->seats = x->seat != NULL ? c->workers * UVCC_PARTIES : 0;
    for (uint32_t i = 0; i < x->seats; i++) {
        seat *me = &x->seat[i];
        me->of = x;
        me->worker = i / UVCC_PARTIES;
        me->party = i % UVCC_PARTIES;
        ok = pthread_cond_init(&me->wake, NULL) == 0 && ok;
    }
    if (!ok || x->seat == NULL || x->triangles == NULL) {
        parties_free(x);
        return UVCC_ERR_NOMEM;
    }
    *out = x;
    return 0;
}

void parties_free(parties *x) {
    if (x == NULL)
        return;
    for (uint32_t i = 0; i < x->seats; i++)
        (void)pthread_cond_destroy(&x->seat[i].wake);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        (void)pthread_mutex_destroy(&x->plane[p]);
    crew_free(x->crew);
    (void)pthread_mutex_destroy(&x->lock);
    free(x->seat);
    free(x->triangles);
    free(x);
}
