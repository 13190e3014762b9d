/* SPDX-License-Identifier: Apache-2.0 */
/* plane.c - see plane.h. */
#include "plane.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cards.h"
#include "../report.h"
#include "plane_mpi.h"
#include "plane_nccl.h"

struct plane {
    const plane_ops *ops;
    void *state;
    uint32_t processes;
    uint32_t first, workers; /* here, by local rank */
};

/* ---- within this process ---- */

typedef struct local_plane {
    uvcc_collective *group;
    cards *cards; /* NULL: values are in memory of the process */
} local_plane;

static void local_close(void *state) {
    local_plane *p = state;
    uvcc_collective_free(p->group);
    cards_close(p->cards);
    free(p);
}

static int open_cards(local_plane *p, const plane_config *c) {
    const char *why = NULL;
    const int rc = cards_open(&p->cards, c->replicas, c->stages, c->tp_ranks, &why);
    if (rc != 0)
        return report_error(EXIT_BAD_INPUT, "compute: \"gpu\": %s; give \"threads\" to do without",
                            why != NULL ? why : uvcc_error_text(rc));
    for (uint32_t i = 0; i < (uint32_t)c->replicas * c->stages * c->tp_ranks; i++)
        cards_on_wake(p->cards, i, c->wake, c->wake_user);
    return EXIT_DONE;
}

static int local_open(void **state, const plane_config *c) {
    local_plane *p = calloc(1, sizeof *p);
    uvcc_collective_config cfg = {.size = sizeof cfg,
                                  .alloc = c->alloc,
                                  .replicas = c->replicas,
                                  .stages = c->stages,
                                  .tp_ranks = c->tp_ranks};
    *state = NULL;
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    int status = c->devices ? open_cards(p, c) : EXIT_DONE;
    if (p->cards != NULL)
        cfg.elsewhere = cards_elsewhere(p->cards);
    const int rc = status == EXIT_DONE ? uvcc_collective_new(&p->group, &cfg) : 0;
    if (rc != 0)
        status = report_error(EXIT_FAILED, "the local plane: %s", uvcc_error_text(rc));
    if (status == EXIT_DONE)
        *state = p;
    else
        local_close(p);
    return status;
}

static int local_submit(void *state, uint32_t local_rank, const uvcc_job *job) {
    const local_plane *p = state;
    return uvcc_collective_submit(p->group, local_rank, job);
}

static int local_poll(void *state, uint32_t local_rank, uvcc_completion *out) {
    const local_plane *p = state;
    return uvcc_collective_poll(p->group, local_rank, out);
}

static void local_fail(void *state, int status, const char *why) {
    const local_plane *p = state;
    (void)status;
    (void)why;
    uvcc_collective_fail(p->group);
}

static const char *local_why(void *state, int *status) {
    const local_plane *p = state;
    const char *trouble = cards_trouble(p->cards);
    if (status != NULL)
        *status = 0;
    return *trouble != '\0' ? trouble : uvcc_collective_why(p->group);
}

/* Those that wait for others are nobody's once it is closed. */
static uint32_t local_pending(const void *state) {
    const local_plane *p = state;
    return uvcc_collective_running(p->group);
}

static const plane_ops local = {.open = local_open,
                                .close = local_close,
                                .submit = local_submit,
                                .poll = local_poll,
                                .pending = local_pending,
                                .fail = local_fail,
                                .why = local_why};

/* ---- either ---- */

int plane_open(plane **out, const plane_config *c) {
    *out = NULL;
    plane *p = calloc(1, sizeof *p);
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const bool several = c->processes > 1;
    p->ops = !several ? &local : c->devices ? &plane_nccl : &plane_mpi;
    p->processes = c->processes;
    p->first = several ? c->local_rank : 0;
    p->workers = several ? 1 : (uint32_t)c->replicas * c->stages * c->tp_ranks;
    const int status = p->ops->open(&p->state, c);
    if (status == EXIT_DONE)
        *out = p;
    else
        free(p);
    return status;
}

void plane_close(plane *p) {
    if (p == NULL)
        return;
    p->ops->close(p->state);
    free(p);
}

int plane_submit(plane *p, uint32_t local_rank, const uvcc_job *job) {
    return p->ops->submit(p->state, local_rank, job);
}

int plane_poll(plane *p, uint32_t local_rank, uvcc_completion *out) {
    return p->ops->poll(p->state, local_rank, out);
}

void plane_fail(plane *p, int status, const char *why) {
    if (p != NULL)
        p->ops->fail(p->state, status, why);
}

void plane_drain(plane *p) {
    uvcc_completion c;
    if (p == NULL || p->ops->pending(p->state) == 0)
        return;
    p->ops->fail(p->state, 0, NULL);
    while (p->ops->pending(p->state) != 0) {
        const struct timespec pause = {.tv_nsec = 1000000};
        bool some = false;
        for (uint32_t i = 0; i < p->workers; i++)
            some |= p->ops->poll(p->state, p->first + i, &c) == 1;
        if (!some)
            (void)nanosleep(&pause, NULL);
    }
}

const char *plane_why(plane *p, int *status) {
    return p->ops->why(p->state, status);
}

bool plane_between_processes(const plane *p) {
    return p->processes > 1;
}

int plane_max(plane *p, uint32_t *value) {
    return p->ops->max == NULL ? 0 : p->ops->max(p->state, value);
}

int plane_same(plane *p, uint64_t value) {
    return p->ops->same == NULL ? 0 : p->ops->same(p->state, value);
}

int plane_agree(plane *p, uint32_t *run, plane_offer *offer) {
    return p->ops->agree == NULL
               ? 0
               : p->ops->agree(p->state, run, offer->kept, &offer->count, &offer->anew);
}

void plane_offer_both(plane_offer *offer, const plane_offer *other) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < offer->count; i++)
        for (uint32_t k = 0; k < other->count; k++)
            if (offer->kept[i].step == other->kept[k].step &&
                offer->kept[i].run == other->kept[k].run) {
                offer->kept[n++] = offer->kept[i];
                break;
            }
    offer->count = n;
    offer->anew = offer->anew && other->anew;
}

int plane_gather(plane *p, const uint8_t *bytes, size_t len, uint8_t ***part, size_t **lens,
                 size_t *parts) {
    if (p->ops->gather != NULL)
        return p->ops->gather(p->state, bytes, len, part, lens, parts);
    *part = calloc(1, sizeof **part);
    *lens = calloc(1, sizeof **lens);
    uint8_t *copy = malloc(len != 0 ? len : 1);
    if (*part == NULL || *lens == NULL || copy == NULL) {
        free(*part);
        free(*lens);
        free(copy);
        return UVCC_ERR_NOMEM;
    }
    memcpy(copy, len != 0 ? bytes : (const uint8_t *)"", len);
    (*part)[0] = copy;
    (*lens)[0] = len;
    *parts = 1;
    return 0;
}
