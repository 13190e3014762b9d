/* SPDX-License-Identifier: Apache-2.0 */
/* drive.c - joins sessions, their executors and loopback networks in one loop on one thread.
 *
 * A turn works in passes over everything, in a fixed order, until a pass finds nothing to do at the
 * present virtual time and no job is with an executor; only then does the clock move. So compute
 * takes no virtual time, but with TIMED executors what they say, and a run with executors that have
 * no threads is a pure function of its seeds. Jobs that wait in the local plane wait for other
 * workers: the clock moves for those, but not while one is being carried out elsewhere.
 *
 * Nothing is kept between calls: a transmit that a full stream did not take is given back at the
 * end of the call and offered again.
 */
#include <uvcc/loopback.h>

#include <string.h>

/* A triangle in a turn. */
typedef struct turn {
    uvcc_loopback *net;
    uvcc_session *const *sessions;
    uvcc_cpu *const *executors;
    uint32_t count;
    uint32_t rank;                                      /* local rank of its workers */
    uvcc_collective *const *collectives;                /* by party; NULL: there are none */
    const uvcc_job *job[UVCC_PARTIES];                  /* polled, not accepted by its executor */
    bool blocked[UVCC_PARTIES][UVCC_PARTIES];           /* by session and peer */
    uvcc_transmit transmit[UVCC_PARTIES][UVCC_PARTIES]; /* where blocked */
} turn;

/* All triangles of a turn. */
typedef struct job {
    turn *turns;
    uint32_t count;
} job;

/* A wrong call is the host's to hear of. Everything else that a session has to say of its peers or
 * of its own end is in its events. */
static bool is_usage(int rc) {
    return rc <= -100 && rc > -200;
}

/* Hands every event that is due to its session. */
static int deliver(turn *t, bool *moved) {
    uvcc_loopback_event ev;
    while (uvcc_loopback_poll(t->net, &ev) == 1) {
        *moved = true;
        if (ev.to >= t->count || ev.from >= UVCC_PARTIES || t->sessions[ev.to] == NULL)
            continue;
        uvcc_session *s = t->sessions[ev.to];
        uint8_t peer = (uint8_t)ev.from;
        uint64_t now = uvcc_loopback_now(t->net);
        int rc;
        switch (ev.kind) {
        case UVCC_LOOPBACK_OPENED:
            rc = uvcc_session_peer_open(s, peer, now);
            break;
        case UVCC_LOOPBACK_CLOSED:
            t->blocked[ev.to][peer] = false; /* void since the stream is gone */
            rc = uvcc_session_peer_closed(s, peer, now);
            break;
        default:
            rc = uvcc_session_feed(s, peer, ev.data, ev.len, now);
            if (rc == UVCC_ERR_STREAM_BROKEN)
                rc = uvcc_loopback_disconnect(t->net, ev.from, ev.to);
            break;
        }
        if (is_usage(rc))
            return rc;
    }
    return UVCC_OK;
}

static int compute(turn *t, uint32_t i, bool *moved) {
    uvcc_session *s = t->sessions[i];
    uvcc_cpu *x = t->executors[i];
    uvcc_collective *local = t->collectives != NULL ? t->collectives[i] : NULL;
    uvcc_completion c;
    while (uvcc_cpu_poll(x, &c) == 1 ||
           (local != NULL && uvcc_collective_poll(local, t->rank, &c) == 1)) {
        *moved = true;
        int rc = uvcc_session_complete(s, &c, uvcc_loopback_now(t->net));
        if (is_usage(rc))
            return rc;
    }
    while (t->job[i] != NULL || uvcc_session_poll_job(s, &t->job[i]) == 1) {
        int rc = t->job[i]->plane == UVCC_PLANE_LOCAL
                     ? uvcc_collective_submit(local, t->rank, t->job[i])
                     : uvcc_cpu_submit(x, t->job[i]);
        if (rc == UVCC_ERR_AGAIN && uvcc_cpu_pending(x) > 0)
            return UVCC_OK;
        if (rc < 0)
            return rc;
        *moved = true;
        t->job[i] = NULL;
    }
    return UVCC_OK;
}

static int send_one(turn *t, uint32_t i, const uvcc_transmit *tx, bool *taken) {
    size_t n = uvcc_loopback_send(t->net, i, tx->peer, tx->slices, tx->slice_count);
    *taken = n > 0;
    if (n == 0)
        return UVCC_OK;
    return uvcc_session_transmit_done(t->sessions[i], tx->peer, tx->id, n,
                                      uvcc_loopback_now(t->net));
}

static int transmit(turn *t, uint32_t i, bool *moved) {
    bool taken;
    int rc;
    for (uint32_t peer = 0; peer < UVCC_PARTIES; peer++) {
        if (!t->blocked[i][peer])
            continue;
        rc = send_one(t, i, &t->transmit[i][peer], &taken);
        if (is_usage(rc))
            return rc;
        t->blocked[i][peer] = !taken;
        *moved |= taken;
    }
    uvcc_transmit tx;
    while (uvcc_session_poll_transmit(t->sessions[i], &tx, uvcc_loopback_now(t->net)) == 1) {
        rc = send_one(t, i, &tx, &taken);
        if (is_usage(rc))
            return rc;
        if (taken) {
            *moved = true;
        } else { /* its session offers nothing to this peer until it is done */
            t->blocked[i][tx.peer] = true;
            t->transmit[i][tx.peer] = tx;
        }
    }
    return UVCC_OK;
}

static int pass(turn *t, bool *moved) {
    int rc = deliver(t, moved);
    for (uint32_t i = 0; i < t->count && rc == UVCC_OK; i++) {
        uvcc_session *s = t->sessions[i];
        if (s == NULL)
            continue;
        uint64_t now = uvcc_loopback_now(t->net);
        if (uvcc_session_next_deadline(s) <= now) {
            rc = uvcc_session_on_timer(s, now);
            if (is_usage(rc))
                return rc;
            *moved |= uvcc_session_next_deadline(s) > now;
        }
        rc = compute(t, i, moved);
        if (rc == UVCC_OK)
            rc = transmit(t, i, moved);
    }
    return rc;
}

/* True if jobs are done or will be at the present time; for executors with threads, after one more
 * of them is done. */
static bool wait_for_jobs(const turn *t) {
    bool due = false;
    for (uint32_t i = 0; i < t->count && !due; i++) {
        if (t->sessions[i] == NULL || uvcc_cpu_pending(t->executors[i]) == 0)
            continue;
        uvcc_cpu_wait(t->executors[i]);
        due = uvcc_cpu_due(t->executors[i]) <= uvcc_loopback_now(t->net);
    }
    for (uint32_t i = 0; i < t->count && !due && t->collectives != NULL; i++) {
        due = uvcc_collective_running(t->collectives[i]) != 0;
        uvcc_collective_wait(t->collectives[i]);
    }
    return due;
}

/* All that can happen at the present time. */
static int settle(job *j, bool *happened) {
    for (;;) {
        bool moved = false, waited = false;
        int rc = UVCC_OK;
        for (uint32_t k = 0; k < j->count && rc == UVCC_OK; k++)
            rc = pass(&j->turns[k], &moved);
        *happened |= moved;
        if (rc < 0)
            return rc;
        for (uint32_t k = 0; k < j->count && !moved && !waited; k++)
            waited = wait_for_jobs(&j->turns[k]);
        if (!moved && !waited)
            return UVCC_OK;
    }
}

static uint64_t next_time(const turn *t) {
    uint64_t now = uvcc_loopback_now(t->net), next = uvcc_loopback_next(t->net);
    for (uint32_t i = 0; i < t->count; i++) {
        uint64_t d =
            t->sessions[i] == NULL ? UVCC_NEVER : uvcc_session_next_deadline(t->sessions[i]);
        if (d > now && d < next) /* one that its timer left in place waits for something else */
            next = d;
        uint64_t end = t->sessions[i] == NULL ? UVCC_NEVER : uvcc_cpu_due(t->executors[i]);
        next = end < next ? end : next;
    }
    return next;
}

static void give_back(turn *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        for (uint32_t peer = 0; peer < UVCC_PARTIES; peer++) {
            if (t->blocked[i][peer])
                (void)uvcc_session_transmit_done(t->sessions[i], (uint8_t)peer,
                                                 t->transmit[i][peer].id, 0,
                                                 uvcc_loopback_now(t->net));
        }
    }
}

/* Moves all clocks to `t`. */
static void advance(job *j, uint64_t t) {
    for (uint32_t k = 0; k < j->count; k++)
        uvcc_loopback_advance(j->turns[k].net, t);
}

static int drive(job *j) {
    uint64_t now = 0, next = UVCC_NEVER;
    bool happened = false;
    for (uint32_t k = 0; k < j->count; k++) {
        uint64_t t = uvcc_loopback_now(j->turns[k].net);
        now = t > now ? t : now;
    }
    advance(j, now);
    int rc = settle(j, &happened);
    for (uint32_t k = 0; k < j->count && rc == UVCC_OK && !happened; k++) {
        uint64_t t = next_time(&j->turns[k]);
        next = t < next ? t : next;
    }
    if (next != UVCC_NEVER) {
        advance(j, next);
        happened = true;
        rc = settle(j, &happened);
    }
    for (uint32_t k = 0; k < j->count; k++)
        give_back(&j->turns[k]);
    return rc < 0 ? rc : happened;
}

/* A completion goes to the session beside its executor, so two cannot share one. */
static bool executors_ok(const turn *t, uint32_t i, const turn *other, uint32_t end) {
    for (uint32_t j = 0; j < end; j++)
        if (t->sessions[i] != NULL && other->sessions[j] != NULL &&
            t->executors[i] == other->executors[j])
            return false;
    return t->sessions[i] == NULL || t->executors[i] != NULL;
}

int uvcc_loopback_drive(uvcc_loopback *n, uvcc_session *const *sessions, uvcc_cpu *const *executors,
                        uint32_t count) {
    if (n == NULL || sessions == NULL || executors == NULL || count > UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    turn t = {.net = n, .sessions = sessions, .executors = executors, .count = count};
    for (uint32_t i = 0; i < count; i++)
        if (!executors_ok(&t, i, &t, i))
            return UVCC_ERR_USAGE;
    return drive(&(job){.turns = &t, .count = 1});
}

int uvcc_loopback_drive_all(const uvcc_loopback_triangle *triangles, uint32_t count,
                            uvcc_collective *const collectives[UVCC_PARTIES]) {
    if (triangles == NULL || collectives == NULL || count > UVCC_LOOPBACK_TRIANGLES_MAX)
        return UVCC_ERR_USAGE;
    turn turns[UVCC_LOOPBACK_TRIANGLES_MAX];
    for (uint32_t k = 0; k < count; k++) {
        turn *t = &turns[k];
        memset(t, 0, sizeof *t);
        t->net = triangles[k].net;
        t->sessions = triangles[k].sessions;
        t->executors = triangles[k].executors;
        t->count = UVCC_PARTIES;
        t->rank = k;
        t->collectives = collectives;
        for (uint32_t i = 0; i < UVCC_PARTIES; i++)
            for (uint32_t other = 0; other <= k; other++)
                if (t->net == NULL ||
                    !executors_ok(t, i, &turns[other], other < k ? UVCC_PARTIES : i))
                    return UVCC_ERR_USAGE;
    }
    return drive(&(job){.turns = turns, .count = count});
}
