/* SPDX-License-Identifier: Apache-2.0 */
/* thread.c - the object's thread: sets MPI up, drives it, takes it down.
 *
 * MPI has no descriptor to wait for, so it is asked again and again while something is under way:
 * at once at first, then after an eighth of the time in which nothing happened, so that waiting
 * adds an eighth at most and costs little on a machine with more processes than cores. With nothing
 * under way the thread waits for the host, and looks up now and then: for a failure elsewhere, and
 * because MPI may have to move what others wait for.
 *
 * The end, after a failure as without one: a process *leaves* (FAIL or BYE), which is the last word
 * on what it begins. Once all others have left nobody looks at values any more, and it takes part
 * in everything that was begun and not followed yet, so that all of it ends. Values that are looked
 * at are never of that kind: who takes part for nobody has heard from all that they have failed or
 * have no jobs. Who is ready then says END, which is the last message of all, and waits for that of
 * all others: MPI may give the number of a communicator that was freed to the next one, so nothing
 * may come late. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "io_adapters/mpi/state.h"

#define NS_PER_S    1000000000u
#define YIELD_NS    100000u    /* asked without a pause for so long */
#define PAUSE_MIN   20000u     /* then the pause is this at least, */
#define PAUSE_BUSY  5000000u   /* and this at most while something is under way, */
#define PAUSE_IDLE  100000000u /* or not */
#define COMM_GROUPS 4u

static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

void uvcci_mpi_abort(const uvcc_mpi *m, const char *why) {
    char line[160];
    (void)snprintf(line, sizeof line, "mpi: worker %u ends the job of all: %s", m->rank, why);
    if (m->cfg.log.write != NULL)
        m->cfg.log.write(m->cfg.log.user, UVCC_LOG_ERROR, line);
    (void)MPI_Abort(m->control, 1);
}

void *uvcci_mpi_need(const uvcc_mpi *m, size_t bytes, uvcc_mem_class cls) {
    void *p = uvcci_mpi_take(m, bytes, cls);
    if (p == NULL)
        uvcci_mpi_abort(m, "no memory");
    return p;
}

bool uvcci_mpi_all_quiet(const uvcc_mpi *m) {
    return m->quiet_count == m->count - 1;
}

void uvcci_mpi_give_up(uvcc_mpi *m, uint32_t rank, uint32_t code, const char *why) {
    if (m->giving_up)
        return;
    m->giving_up = m->moved = true;
    const uvcci_mpi_head head = {.kind = UVCCI_MPI_FAIL, .index = rank, .code = code};
    if (!m->left || !uvcci_mpi_all_quiet(m)) /* else nobody is there who could need it */
        uvcci_mpi_send_all(m, &head, why, strlen(why));
    m->left = true;
    (void)pthread_mutex_lock(&m->lock);
    m->failed = true;
    m->fail_rank = rank;
    m->fail_code = code;
    (void)snprintf(m->why, sizeof m->why, "%s", why);
    (void)pthread_mutex_unlock(&m->lock);
    if (m->cfg.wake != NULL)
        m->cfg.wake(m->cfg.wake_user);
}

/* ---- one turn ---- */

static void leave(uvcc_mpi *m) {
    if (m->waiting.first != NULL || m->running.first != NULL) {
        uvcci_mpi_give_up(m, m->rank, 0, "a worker of the party is gone");
    } else {
        const uvcci_mpi_head head = {.kind = UVCCI_MPI_BYE};
        const bool more = uvcci_mpi_behind(m); /* others have begun what this one has no job for */
        m->left = m->moved = true;
        uvcci_mpi_send_all(m, &head, NULL, 0);
        if (more)
            uvcci_mpi_give_up(m, m->rank, 0, "a worker of the party is gone");
    }
}

/* Everything once; false: all is over. */
static bool turn(uvcc_mpi *m) {
    char why[UVCC_MPI_WHY_BYTES];
    (void)pthread_mutex_lock(&m->lock);
    uvcci_mpi_work *came = m->inbox.first;
    uvcci_mpi_queue_init(&m->inbox);
    const bool closing = m->closing, fail = m->asked_to_fail && !m->giving_up;
    const uint32_t code = m->fail_code;
    memcpy(why, m->why, sizeof why);
    (void)pthread_mutex_unlock(&m->lock);
    while (came != NULL) {
        uvcci_mpi_work *w = came;
        came = w->next;
        uvcci_mpi_accept(m, w);
    }
    if (fail)
        uvcci_mpi_give_up(m, m->rank, code, why);
    uvcci_mpi_hear(m);
    if (!m->ended)
        uvcci_mpi_carry_notes(m);
    uvcci_mpi_flush(m);
    uvcci_mpi_progress(m);
    uvcci_mpi_agree(m);
    if (closing && !m->left)
        leave(m);
    if (m->giving_up && uvcci_mpi_all_quiet(m))
        uvcci_mpi_follow(m);
    if (!closing || !m->left || !uvcci_mpi_all_quiet(m) || !uvcci_mpi_idle(m))
        return true;
    if (!m->ended) {
        const uvcci_mpi_head head = {.kind = UVCCI_MPI_END};
        m->ended = true;
        uvcci_mpi_send_all(m, &head, NULL, 0);
    }
    return m->end_count < m->count - 1 || m->out != NULL;
}

/* Until the host has something, or it is time to ask MPI again. */
static void rest(uvcc_mpi *m, uint64_t *moved_at) {
    const uint64_t now = now_ns();
    if (m->moved)
        *moved_at = now;
    m->moved = false;
    const uint64_t still = now - *moved_at;
    if (still < YIELD_NS) {
        (void)sched_yield();
        return;
    }
    (void)pthread_mutex_lock(&m->lock);
    const bool busy = m->waiting.first != NULL || m->running.first != NULL || m->out != NULL ||
                      m->giving_up || m->asking || m->closing || m->reader.note != NULL;
    uint64_t pause = busy ? still / 8 : still / 4;
    if (pause < PAUSE_MIN)
        pause = PAUSE_MIN;
    if (pause > (busy ? PAUSE_BUSY : PAUSE_IDLE))
        pause = busy ? PAUSE_BUSY : PAUSE_IDLE;
    const uint64_t until = now + pause;
    const struct timespec t = {.tv_sec = (time_t)(until / NS_PER_S),
                               .tv_nsec = (long)(until % NS_PER_S)};
    const bool news = m->inbox.first != NULL || m->notes_out.first != NULL ||
                      (m->asked_to_fail && !m->giving_up) || (m->closing && !m->left) ||
                      (m->call == UVCCI_MPI_CALLED && !m->asking);
    if (!news)
        (void)pthread_cond_timedwait(&m->work, &m->lock, &t);
    (void)pthread_mutex_unlock(&m->lock);
}

/* ---- the beginning ---- */

static int refuse(uvcc_mpi *m, int rc, const char *why) {
    (void)snprintf(m->refusal, sizeof m->refusal, "mpi: %s", why);
    return rc;
}

static int initialise(uvcc_mpi *m) {
    int is = 0, level = MPI_THREAD_SINGLE;
    (void)MPI_Finalized(&is);
    if (is)
        return refuse(m, UVCC_ERR_STATE, "MPI was finalised in this process");
    (void)MPI_Initialized(&is);
    if (is) {
        (void)MPI_Query_thread(&level);
    } else {
        (void)MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        m->initialised = true;
    }
    if (level < MPI_THREAD_SERIALIZED)
        return refuse(m, UVCC_ERR_STATE, "MPI was initialised below MPI_THREAD_SERIALIZED");
    return 0;
}

/* The wait for processes that come late is one with pauses, as every other; what follows it is
 * quick. */
static void copy_communicator(uvcc_mpi *m, MPI_Comm from) {
    uint64_t moved_at = now_ns();
    MPI_Request request;
    int over = 0;
    (void)MPI_Comm_idup(from, &m->control, &request);
    for (;;) {
        (void)MPI_Test(&request, &over, MPI_STATUS_IGNORE);
        if (over)
            break;
        const uint64_t still = now_ns() - moved_at;
        const uint64_t pause = still / 8 < PAUSE_BUSY ? still / 8 : PAUSE_BUSY;
        const struct timespec t = {.tv_nsec = (long)pause};
        if (pause < PAUSE_MIN)
            (void)sched_yield();
        else
            (void)nanosleep(&t, NULL);
    }
    (void)MPI_Comm_set_errhandler(m->control, MPI_ERRORS_ARE_FATAL);
}

/* A communicator for each group that this worker is in, and one for each direction of a
 * pipeline. */
static void make_teams(uvcc_mpi *m) {
    const uint32_t s_count = m->cfg.stages, t_count = m->cfg.tp_ranks;
    const uint32_t colour[COMM_GROUPS] = {
        [UVCC_GROUP_TP] = m->replica * s_count + m->stage,
        [UVCC_GROUP_PP] = m->replica * t_count + m->tp_rank,
        [UVCC_GROUP_DP] = m->stage * t_count + m->tp_rank,
        [UVCC_GROUP_STAGE] = m->stage,
    };
    for (unsigned g = 0; g < COMM_GROUPS; g++) {
        uvcci_mpi_team *team = &m->team[g];
        (void)MPI_Comm_split(m->control, (int)colour[g], (int)m->rank, &team->comm);
        (void)MPI_Comm_rank(team->comm, &team->rank);
        (void)MPI_Comm_size(team->comm, &team->members);
        team->begun.last = &team->begun.first;
    }
    for (unsigned p = 0; p < 2; p++) {
        (void)MPI_Comm_dup(m->team[UVCC_GROUP_PP].comm, &m->wire[p].comm);
        m->wire[p].begun.last = &m->wire[p].begun.first;
    }
}

static int set_up(uvcc_mpi *m) {
    int rc = initialise(m), size = 0, rank = 0;
    if (rc != 0)
        return rc;
    MPI_Comm from = MPI_COMM_WORLD;
    if (m->cfg.communicator != NULL)
        memcpy(&from, m->cfg.communicator, sizeof from);
    (void)MPI_Comm_size(from, &size);
    (void)MPI_Comm_rank(from, &rank);
    if ((uint32_t)size != m->count) {
        (void)snprintf(m->refusal, sizeof m->refusal,
                       "mpi: %d processes, but %u replicas x %u stages x %u tensor ranks are %u",
                       size, m->cfg.replicas, m->cfg.stages, m->cfg.tp_ranks, m->count);
        return UVCC_ERR_CONFIG;
    }
    m->rank = (uint32_t)rank;
    m->tp_rank = m->rank % m->cfg.tp_ranks;
    m->stage = m->rank / m->cfg.tp_ranks % m->cfg.stages;
    m->replica = m->rank / m->cfg.tp_ranks / m->cfg.stages;
    copy_communicator(m, from);
    make_teams(m);
    for (unsigned g = 0; g < COMM_GROUPS; g++)
        if (uvcc_collective_order_new(&m->team[g].order, &m->cfg.alloc,
                                      (uint32_t)m->team[g].rank) != 0)
            uvcci_mpi_abort(m, "no memory");
    uvcci_mpi_listen(m);
    return 0;
}

/* ---- the end ---- */

static void take_down(uvcc_mpi *m) {
    (void)MPI_Cancel(&m->incoming);
    (void)MPI_Wait(&m->incoming, MPI_STATUS_IGNORE);
    for (unsigned g = 0; g < COMM_GROUPS; g++) {
        uvcc_collective_order_free(m->team[g].order);
        (void)MPI_Comm_free(&m->team[g].comm);
    }
    for (unsigned p = 0; p < 2; p++)
        (void)MPI_Comm_free(&m->wire[p].comm);
    (void)MPI_Comm_free(&m->control);
    for (uint32_t i = 0; i < m->count; i++)
        uvcci_mpi_bytes_free(m, &m->parts[i]);
    uvcci_mpi_bytes_free(m, &m->reply);
    uvcci_mpi_drop_notes(m);
}

void *uvcci_mpi_run(void *mpi) {
    uvcc_mpi *m = mpi;
    const int rc = set_up(m);
    if (rc != 0 && m->initialised)
        (void)MPI_Finalize();
    (void)pthread_mutex_lock(&m->lock);
    m->ready = rc;
    (void)pthread_cond_signal(&m->host);
    (void)pthread_mutex_unlock(&m->lock);
    if (rc != 0)
        return NULL;
    for (uint64_t moved_at = now_ns(); turn(m);)
        rest(m, &moved_at);
    take_down(m);
    if (m->initialised)
        (void)MPI_Finalize();
    return NULL;
}
