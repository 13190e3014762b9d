/* SPDX-License-Identifier: Apache-2.0 */
/* plane.c - see plane.h. */
#include "plane.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../report.h"
#include "plane_mpi.h"

struct plane {
    const plane_ops *ops;
    void *state;
    uint32_t processes, local_rank;
};

/* ---- within this process ---- */

static int local_open(void **state, const plane_config *c) {
    uvcc_collective *group = NULL;
    const int rc = uvcc_collective_new(
        &group, &(uvcc_collective_config){.size = sizeof(uvcc_collective_config),
                                          .alloc = c->alloc,
                                          .replicas = c->replicas,
                                          .stages = c->stages,
                                          .tp_ranks = c->tp_ranks});
    *state = group;
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the local plane: %s", uvcc_error_text(rc));
}

static void local_close(void *state) {
    uvcc_collective_free(state);
}

static int local_submit(void *state, uint32_t local_rank, const uvcc_job *job) {
    return uvcc_collective_submit(state, local_rank, job);
}

static int local_poll(void *state, uint32_t local_rank, uvcc_completion *out) {
    return uvcc_collective_poll(state, local_rank, out);
}

static void local_fail(void *state, int status, const char *why) {
    (void)status;
    (void)why;
    uvcc_collective_fail(state);
}

static const char *local_why(void *state, int *status) {
    if (status != NULL)
        *status = 0;
    return uvcc_collective_why(state);
}

/* Its jobs are nobody's once it is closed. */
static uint32_t local_pending(const void *state) {
    (void)state;
    return 0;
}

static const plane_ops local = {.name = "local",
                                .open = local_open,
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
    p->ops = c->processes > 1 ? &plane_mpi : &local;
    p->processes = c->processes;
    p->local_rank = c->local_rank;
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

const char *plane_name(const plane *p) {
    return p->ops->name;
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
        if (p->ops->poll(p->state, p->local_rank, &c) != 1)
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
