/* SPDX-License-Identifier: Apache-2.0 */
/* cards.c - see cards.h. Control messages between workers are calls: the hook of one has the other
 * hear them. The lock keeps the first ones back until all workers are there. */
#include "cards.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <uvcc/host.h>

#include "card.h"
#include "nccl_library.h"

#define NOBODY UINT32_MAX
#define OVER_S 20 /* that workers are given to take their communicators down together */

typedef struct card_worker {
    cards *of;
    uint32_t rank;
    uvcc_nccl *nccl;
    void (*wake)(void *user); /* guarded by `lock` of all */
    void *wake_user;
} card_worker;

struct cards {
    const nccl_library *lib;
    pthread_mutex_t making, lock;
    bool ending; /* guarded by `making`: nobody hears anything any more */
    pthread_cond_t news;
    uint64_t wakes, seen; /* guarded by `lock` */
    char line[256], trouble[NCCL_LIBRARY_WHY_BYTES];
    uint32_t count;
    card_worker worker[];
};

static int carry(void *user, uint32_t to, const void *bytes, size_t len) {
    const card_worker *w = user;
    cards *c = w->of;
    int rc = UVCC_ERR_STATE;
    (void)pthread_mutex_lock(&c->making);
    if (to < c->count && c->worker[to].nccl != NULL && !c->ending)
        rc = c->lib->heard(c->worker[to].nccl, w->rank, bytes, len);
    (void)pthread_mutex_unlock(&c->making);
    return rc;
}

static void wake(void *user) {
    const card_worker *w = user;
    cards *c = w->of;
    (void)pthread_mutex_lock(&c->lock);
    c->wakes++;
    void (*hook)(void *) = w->wake;
    void *hook_user = w->wake_user;
    (void)pthread_cond_signal(&c->news);
    (void)pthread_mutex_unlock(&c->lock);
    if (hook != NULL)
        hook(hook_user);
}

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    cards *c = user;
    (void)level;
    (void)snprintf(c->line, sizeof c->line, "%s", line);
}

void cards_on_wake(cards *c, uint32_t worker, void (*hook)(void *user), void *user) {
    (void)pthread_mutex_lock(&c->lock);
    c->worker[worker].wake = hook;
    c->worker[worker].wake_user = user;
    (void)pthread_mutex_unlock(&c->lock);
}

/* ---- what uvcc_collective calls ---- */

static int submit(void *user, uint32_t local_rank, const uvcc_job *job) {
    const cards *c = user;
    return c->lib->submit(c->worker[local_rank].nccl, job);
}

static int poll_done(void *user, uint32_t local_rank, uvcc_completion *out) {
    const cards *c = user;
    return c->lib->poll(c->worker[local_rank].nccl, out);
}

static void wait_for(void *user) {
    cards *c = user;
    (void)pthread_mutex_lock(&c->lock);
    while (c->wakes == c->seen)
        (void)pthread_cond_wait(&c->news, &c->lock);
    c->seen = c->wakes;
    (void)pthread_mutex_unlock(&c->lock);
}

uvcc_collective_elsewhere cards_elsewhere(cards *c) {
    return (uvcc_collective_elsewhere){
        .submit = submit, .poll = poll_done, .wait = wait_for, .user = c};
}

/* Who hears of it first has it first. It is written once: workers ask from threads of their own. */
const char *cards_trouble(cards *c) {
    if (c == NULL)
        return "";
    (void)pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < c->count && c->trouble[0] == '\0'; i++)
        if (nccl_library_why(c->lib, c->worker[i].nccl, NOBODY, NULL, c->trouble))
            break;
    const char *trouble = c->trouble[0] != '\0' ? c->trouble : "";
    (void)pthread_mutex_unlock(&c->lock);
    return trouble;
}

/* ---- life ---- */

static void close_all(const cards *c) {
    for (uint32_t i = 0; i < c->count; i++)
        c->lib->close(c->worker[i].nccl);
}

static bool all_over(const cards *c) {
    for (uint32_t i = 0; i < c->count; i++)
        if (c->lib->over(c->worker[i].nccl) == 0)
            return false;
    return true;
}

/* Until the workers have come to their end together. One that CUDA does not let go has something to
 * say later, maybe, when the others are gone. */
static void wait_for_end(cards *c) {
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += OVER_S;
    (void)pthread_mutex_lock(&c->lock);
    while (!all_over(c) && pthread_cond_timedwait(&c->news, &c->lock, &until) == 0)
        ;
    (void)pthread_mutex_unlock(&c->lock);
}

static void end(cards *c) {
    (void)pthread_mutex_lock(&c->making);
    c->ending = true;
    (void)pthread_mutex_unlock(&c->making);
    for (uint32_t i = 0; i < c->count; i++)
        c->lib->free(c->worker[i].nccl);
    (void)pthread_cond_destroy(&c->news);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_mutex_destroy(&c->making);
    free(c);
}

void cards_close(cards *c) {
    if (c == NULL)
        return;
    close_all(c);
    wait_for_end(c);
    end(c);
}

static int make_worker(cards *c, uint32_t rank, const uvcc_nccl_config *like) {
    uvcc_nccl_config cfg = *like;
    c->worker[rank].of = c;
    c->worker[rank].rank = rank;
    cfg.local_rank = cfg.device = rank;
    cfg.send_user = cfg.wake_user = &c->worker[rank];
    return c->lib->make(&c->worker[rank].nccl, &cfg);
}

int cards_open(cards **out, uint16_t replicas, uint16_t stages, uint16_t tp_ranks,
               const char **why) {
    static char text[320];
    const uint32_t count = (uint32_t)replicas * stages * tp_ranks;
    const nccl_library *lib = nccl_library_load(why);
    *out = NULL;
    if (lib == NULL)
        return UVCC_ERR_CONFIG;
    const uint32_t devices = card_count(NULL);
    if (devices != 0 && devices < count) { /* before workers wait for those that never come */
        (void)snprintf(text, sizeof text,
                       "%u workers take a CUDA device each, and this machine has %u", count,
                       devices);
        *why = text;
        return UVCC_ERR_CONFIG;
    }
    *why = NULL;
    cards *c = calloc(1, sizeof *c + count * sizeof c->worker[0]);
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    c->lib = lib;
    c->count = count;
    (void)pthread_mutex_init(&c->making, NULL);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->news, NULL);
    const uvcc_nccl_config cfg = {.size = sizeof cfg,
                                  .alloc = uvcc_host_allocator(),
                                  .log = {keep_line, c},
                                  .replicas = replicas,
                                  .stages = stages,
                                  .tp_ranks = tp_ranks,
                                  .send = carry,
                                  .wake = wake};
    int rc = 0;
    (void)pthread_mutex_lock(&c->making);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = make_worker(c, i, &cfg);
    (void)pthread_mutex_unlock(&c->making);
    if (rc != 0) { /* those that are there hear that the others never come */
        for (uint32_t i = 0; i < count; i++)
            c->lib->fail(c->worker[i].nccl, 0, NULL);
        (void)snprintf(text, sizeof text, "%u workers take a CUDA device each: %s", count,
                       c->line[0] != '\0' ? c->line : uvcc_error_text(rc));
        *why = text;
        close_all(c);
        end(c);
        return rc;
    }
    *out = c;
    return 0;
}
