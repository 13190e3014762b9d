/* SPDX-License-Identifier: Apache-2.0 */
/* plane_nccl.c - see plane_nccl.h. MPI brings the processes together, carries NCCL's control
 * messages (as notes) and has the agreements; its own operations are not used. A failure of either
 * is one of both. */
#include "plane_nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../interrupt.h"
#include "../nccl_library.h"
#include "../report.h"
#include "plane_mpi.h"

#define OVER_MS 60000u /* that workers are given to take their communicators down together */

typedef struct nccl_plane {
    const nccl_library *lib;
    uvcc_nccl *nccl;
    void *mpi; /* of plane_mpi */
    uint32_t local_rank;
    bool told; /* MPI has heard of a failure of NCCL's */
    char logged[256];
    char why[NCCL_LIBRARY_WHY_BYTES];
} nccl_plane;

/* ---- control messages ---- */

static int send_note(void *user, uint32_t to, const void *bytes, size_t len) {
    const nccl_plane *p = user;
    return plane_mpi_note(p->mpi, to, bytes, len);
}

static void hear_note(void *user, uint32_t from, const void *bytes, size_t len) {
    const nccl_plane *p = user;
    const int rc = p->lib->heard(p->nccl, from, bytes, len);
    if (rc != 0)
        p->lib->fail(p->nccl, 0, uvcc_error_text(rc));
}

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    nccl_plane *p = user;
    (void)level;
    (void)snprintf(p->logged, sizeof p->logged, "%s", line);
}

/* ---- its life ---- */

static int make(nccl_plane *p, const plane_config *c) {
    const uvcc_nccl_config cfg = {.size = sizeof cfg,
                                  .alloc = c->alloc,
                                  .log = {keep_line, p},
                                  .replicas = c->replicas,
                                  .stages = c->stages,
                                  .tp_ranks = c->tp_ranks,
                                  .local_rank = c->local_rank,
                                  .device = c->device,
                                  .send = send_note,
                                  .send_user = p,
                                  .wake = c->wake,
                                  .wake_user = c->wake_user};
    const uvcc_mpi_reader reader = {hear_note, p};
    int rc = p->lib->make(&p->nccl, &cfg);
    if (rc == 0)
        rc = plane_mpi_on_note(p->mpi, &reader);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT,
                                  "compute: \"gpu\": %s; give \"threads\" to do without",
                                  *p->logged != '\0' ? p->logged : uvcc_error_text(rc));
}

static bool has_failed(const nccl_plane *p) {
    return p->told || plane_mpi.why(p->mpi, NULL) != NULL;
}

/* Whoever is not there in time has failed: what it says later finds nobody who hears it. Nothing
 * is heard any more before there is nothing to hear it. */
static void end_nccl(nccl_plane *p) {
    const struct timespec pause = {.tv_nsec = 1000000};
    if (p->nccl == NULL)
        return;
    interrupt_within(INTERRUPT_PLANE_S);
    p->lib->close(p->nccl);
    for (unsigned ms = 0; ms < OVER_MS && !has_failed(p) && p->lib->over(p->nccl) != 1; ms++)
        (void)nanosleep(&pause, NULL);
    if (p->lib->over(p->nccl) != 1)
        p->lib->fail(p->nccl, 0, "other workers did not take their part of it down");
    (void)plane_mpi_on_note(p->mpi, NULL);
    p->lib->free(p->nccl);
    interrupt_within(INTERRUPT_S);
}

static void nccl_close(void *state) {
    nccl_plane *p = state;
    end_nccl(p);
    plane_mpi.close(p->mpi);
    free(p);
}

static int nccl_open(void **state, const plane_config *c) {
    const char *why = NULL;
    const nccl_library *lib = nccl_library_load(&why);
    nccl_plane *p = lib != NULL ? calloc(1, sizeof *p) : NULL;
    *state = NULL;
    if (lib == NULL)
        return report_error(EXIT_BAD_INPUT, "compute: \"gpu\": %s; give \"threads\" to do without",
                            why);
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    p->lib = lib;
    p->local_rank = c->local_rank;
    int status = plane_mpi.open(&p->mpi, c);
    if (status != EXIT_DONE) {
        free(p);
        return status;
    }
    status = make(p, c);
    if (status == EXIT_DONE) {
        *state = p;
        return EXIT_DONE;
    }
    plane_mpi.fail(p->mpi, status, "a worker cannot use its CUDA device");
    nccl_close(p);
    return status;
}

/* ---- jobs ---- */

static int nccl_submit(void *state, uint32_t local_rank, const uvcc_job *job) {
    const nccl_plane *p = state;
    return local_rank == p->local_rank ? p->lib->submit(p->nccl, job) : UVCC_ERR_USAGE;
}

static int nccl_poll(void *state, uint32_t local_rank, uvcc_completion *out) {
    const nccl_plane *p = state;
    return local_rank == p->local_rank ? p->lib->poll(p->nccl, out) : UVCC_ERR_USAGE;
}

static uint32_t nccl_pending(const void *state) {
    const nccl_plane *p = state;
    return p->lib->pending(p->nccl);
}

static void nccl_fail(void *state, int status, const char *why) {
    nccl_plane *p = state;
    p->told = true;
    plane_mpi.fail(p->mpi, status, why);
    p->lib->fail(p->nccl, (uint32_t)status, why);
}

/* What the host of another worker said comes by MPI, with its status; what NCCL or a device found
 * comes by NCCL alone, and MPI is to end what waits for agreements. */
static const char *nccl_why(void *state, int *status) {
    nccl_plane *p = state;
    uint32_t code = 0;
    const char *why = plane_mpi.why(p->mpi, status);
    if (why != NULL || !nccl_library_why(p->lib, p->nccl, p->local_rank, &code, p->why))
        return why;
    if (status != NULL)
        *status = (int)code;
    if (!p->told)
        plane_mpi.fail(p->mpi, (int)code, p->why);
    p->told = true;
    return p->why;
}

/* ---- agreements ---- */

static int nccl_max(void *state, uint32_t *value) {
    const nccl_plane *p = state;
    return plane_mpi.max(p->mpi, value);
}

static int nccl_agree(void *state, uint32_t *run, plane_checkpoint *list, uint32_t *count,
                      bool *anew) {
    const nccl_plane *p = state;
    return plane_mpi.agree(p->mpi, run, list, count, anew);
}

static int nccl_same(void *state, uint64_t value) {
    const nccl_plane *p = state;
    return plane_mpi.same(p->mpi, value);
}

static int nccl_gather(void *state, const uint8_t *bytes, size_t len, uint8_t ***part,
                       size_t **lens, size_t *parts) {
    const nccl_plane *p = state;
    return plane_mpi.gather(p->mpi, bytes, len, part, lens, parts);
}

const plane_ops plane_nccl = {.open = nccl_open,
                              .close = nccl_close,
                              .submit = nccl_submit,
                              .poll = nccl_poll,
                              .pending = nccl_pending,
                              .fail = nccl_fail,
                              .why = nccl_why,
                              .max = nccl_max,
                              .agree = nccl_agree,
                              .same = nccl_same,
                              .gather = nccl_gather};
