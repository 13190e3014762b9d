/* SPDX-License-Identifier: Apache-2.0 */
/* plane_mpi.c - the local plane between processes: libuvcc-mpi, loaded when it is needed, so that
 * the command runs where there is no MPI. */
#include "plane_mpi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../interrupt.h"
#include "../report.h"
#include "../shared_library.h"

#ifndef UVCC_MPI_LIBRARY
#define UVCC_MPI_LIBRARY NULL /* it was not built */
#endif

/* The functions of the library that are called here. */
static struct functions {
    int (*new)(uvcc_mpi **out, const uvcc_mpi_config *cfg);
    void (*free)(uvcc_mpi *m);
    uint32_t (*rank)(const uvcc_mpi *m);
    int (*submit)(uvcc_mpi *m, const uvcc_job *job);
    int (*poll)(uvcc_mpi *m, uvcc_completion *out);
    uint32_t (*pending)(const uvcc_mpi *m);
    void (*fail)(uvcc_mpi *m, uint32_t code, const char *why);
    int (*why)(const uvcc_mpi *m, uint32_t *rank, uint32_t *code, char why[UVCC_MPI_WHY_BYTES]);
    int (*max)(uvcc_mpi *m, uint32_t *value);
    int (*common)(uvcc_mpi *m, uint64_t *values, size_t *count);
    int (*gather)(uvcc_mpi *m, const void *bytes, size_t len, uvcc_slice *parts);
    int (*note)(uvcc_mpi *m, uint32_t to, const void *bytes, size_t len);
    int (*on_note)(uvcc_mpi *m, const uvcc_mpi_reader *reader);
} lib;

/* An agreement while sessions run: it waits for the slowest worker, so a thread of its own does. */
typedef struct gathering {
    pthread_t thread;
    pthread_mutex_t lock;
    bool begun, over; /* over: guarded by the lock */
    bool compare;     /* `value`; else bytes are gathered */
    uint64_t value;
    uint8_t *bytes;
    size_t len;
    uvcc_slice *parts;
    int rc;
} gathering;

typedef struct mpi_plane {
    uvcc_mpi *mpi;
    uint32_t processes, local_rank;
    void (*wake)(void *user);
    void *wake_user;
    char logged[256];
    char why[UVCC_MPI_WHY_BYTES + 32];
    gathering gather;
} mpi_plane;

/* ---- the library ---- */

/* Global: parts of Open MPI that are loaded later look for it. */
static int load(void) {
    const shared_symbol symbols[] = {
        {"uvcc_mpi_new", &lib.new},         {"uvcc_mpi_free", &lib.free},
        {"uvcc_mpi_rank", &lib.rank},       {"uvcc_mpi_submit", &lib.submit},
        {"uvcc_mpi_poll", &lib.poll},       {"uvcc_mpi_fail", &lib.fail},
        {"uvcc_mpi_pending", &lib.pending}, {"uvcc_mpi_why", &lib.why},
        {"uvcc_mpi_max", &lib.max},         {"uvcc_mpi_common", &lib.common},
        {"uvcc_mpi_gather", &lib.gather},   {"uvcc_mpi_note", &lib.note},
        {"uvcc_mpi_on_note", &lib.on_note},
    };
    static bool loaded;
    const char *name = getenv("UVCC_MPI_LIBRARY");
    if (loaded)
        return EXIT_DONE;
    if (UVCC_MPI_LIBRARY == NULL && (name == NULL || *name == '\0'))
        return report_error(
            EXIT_BAD_INPUT,
            "several processes share this party, and this command was built without MPI: build it "
            "with -Dmpi=enabled (Debian: libopenmpi-dev), or run all workers in one process");
    const char *wrong = shared_library_load("UVCC_MPI_LIBRARY", UVCC_MPI_LIBRARY, true, symbols,
                                            sizeof symbols / sizeof symbols[0]);
    if (wrong != NULL)
        return report_error(EXIT_BAD_INPUT,
                            "several processes share this party, and the library for that %s; or "
                            "run all workers in one process",
                            wrong);
    loaded = true;
    return EXIT_DONE;
}

/* ---- its life ---- */

/* What follows waits for the other processes of the party, and looks at no interruption. */
static void waits(void) {
    interrupt_within(INTERRUPT_PLANE_S);
}

static int waited(int rc) {
    interrupt_within(INTERRUPT_S);
    return rc;
}

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    mpi_plane *p = user;
    (void)level;
    (void)snprintf(p->logged, sizeof p->logged, "%s", line);
}

static int mpi_open(void **state, const plane_config *c) {
    int status = load();
    mpi_plane *p = status == EXIT_DONE ? calloc(1, sizeof *p) : NULL;
    *state = NULL;
    if (status != EXIT_DONE)
        return status;
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    p->processes = c->processes;
    p->local_rank = c->local_rank;
    p->wake = c->wake;
    p->wake_user = c->wake_user;
    const uvcc_mpi_config cfg = {.size = sizeof cfg,
                                 .alloc = c->alloc,
                                 .log = {keep_line, p},
                                 .replicas = c->replicas,
                                 .stages = c->stages,
                                 .tp_ranks = c->tp_ranks,
                                 .wake = c->wake,
                                 .wake_user = c->wake_user};
    waits();
    const int rc = waited(lib.new(&p->mpi, &cfg));
    if (rc != 0)
        status = report_error(EXIT_BAD_INPUT,
                              "the workers of this party: %s; start them together, with mpirun -n "
                              "%u or srun --mpi",
                              *p->logged != '\0' ? p->logged : uvcc_error_text(rc), c->processes);
    else if (lib.rank(p->mpi) != c->local_rank)
        status = report_error(EXIT_BAD_INPUT,
                              "this worker has the local rank %u, and MPI says %u: leave "
                              "UVCC_LOCAL_RANK and its like to the launcher",
                              c->local_rank, lib.rank(p->mpi));
    if (status == EXIT_DONE) {
        (void)pthread_mutex_init(&p->gather.lock, NULL);
        *state = p;
        return EXIT_DONE;
    }
    if (rc == 0)
        lib.fail(p->mpi, (uint32_t)status, "a worker has another rank than MPI gave it");
    lib.free(p->mpi);
    free(p);
    return status;
}

static void gathering_end(mpi_plane *p) {
    if (p->gather.begun)
        (void)pthread_join(p->gather.thread, NULL);
    p->gather.begun = false;
    free(p->gather.bytes);
    free(p->gather.parts);
    p->gather.bytes = NULL;
    p->gather.parts = NULL;
}

static void mpi_close(void *state) {
    mpi_plane *p = state;
    waits();
    if (p->gather.begun)
        lib.fail(p->mpi, 0, "a worker of the party ends before its result is gathered");
    gathering_end(p);
    lib.free(p->mpi);
    (void)waited(0);
    (void)pthread_mutex_destroy(&p->gather.lock);
    free(p);
}

/* ---- jobs ---- */

static int mpi_submit(void *state, uint32_t local_rank, const uvcc_job *job) {
    const mpi_plane *p = state;
    return local_rank == p->local_rank ? lib.submit(p->mpi, job) : UVCC_ERR_USAGE;
}

static int mpi_poll(void *state, uint32_t local_rank, uvcc_completion *out) {
    const mpi_plane *p = state;
    return local_rank == p->local_rank ? lib.poll(p->mpi, out) : UVCC_ERR_USAGE;
}

static uint32_t mpi_pending(const void *state) {
    const mpi_plane *p = state;
    return lib.pending(p->mpi);
}

static void mpi_fail(void *state, int status, const char *why) {
    const mpi_plane *p = state;
    lib.fail(p->mpi, (uint32_t)status, why);
}

static const char *mpi_why(void *state, int *status) {
    mpi_plane *p = state;
    char text[UVCC_MPI_WHY_BYTES];
    uint32_t rank = 0, code = 0;
    if (lib.why(p->mpi, &rank, &code, text) != 1)
        return NULL;
    if (status != NULL)
        *status = (int)code;
    if (rank == p->local_rank)
        (void)snprintf(p->why, sizeof p->why, "%s", text);
    else
        (void)snprintf(p->why, sizeof p->why, "worker %u: %s", rank, text);
    return p->why;
}

/* ---- agreements ---- */

static int mpi_max(void *state, uint32_t *value) {
    const mpi_plane *p = state;
    waits();
    return waited(lib.max(p->mpi, value));
}

static int mpi_agree(void *state, uint32_t *run, plane_checkpoint *list, uint32_t *count,
                     bool *anew) {
    const mpi_plane *p = state;
    uint64_t value[PLANE_CHECKPOINTS_MAX];
    size_t n = *count;
    uint32_t not_anew = *anew ? 0 : 1;
    if (n > PLANE_CHECKPOINTS_MAX)
        return UVCC_ERR_USAGE;
    for (size_t i = 0; i < n; i++)
        value[i] = (uint64_t)list[i].step << 32 | list[i].run;
    waits();
    int rc = lib.max(p->mpi, run);
    if (rc == 0)
        rc = lib.common(p->mpi, value, &n);
    if (rc == 0)
        rc = lib.max(p->mpi, &not_anew);
    if (waited(rc) != 0)
        return rc;
    for (size_t i = 0; i < n; i++)
        list[i] = (plane_checkpoint){(uint32_t)(value[i] >> 32), (uint32_t)value[i]};
    *count = (uint32_t)n;
    *anew = not_anew == 0;
    return 0;
}

static void *gather_all(void *state) {
    mpi_plane *p = state;
    size_t count = 1;
    int rc = p->gather.compare
                 ? lib.common(p->mpi, &p->gather.value, &count)
                 : lib.gather(p->mpi, p->gather.bytes, p->gather.len, p->gather.parts);
    if (rc == 0 && p->gather.compare && count == 0)
        rc = UVCC_ERR_MISMATCH;
    (void)pthread_mutex_lock(&p->gather.lock);
    p->gather.rc = rc;
    p->gather.over = true;
    (void)pthread_mutex_unlock(&p->gather.lock);
    if (p->wake != NULL)
        p->wake(p->wake_user);
    return NULL;
}

static int gather_start(mpi_plane *p) {
    if (pthread_create(&p->gather.thread, NULL, gather_all, p) != 0)
        return UVCC_ERR_LIMIT;
    p->gather.begun = true;
    return UVCC_ERR_AGAIN;
}

static bool gather_over(mpi_plane *p) {
    (void)pthread_mutex_lock(&p->gather.lock);
    const bool over = p->gather.over;
    (void)pthread_mutex_unlock(&p->gather.lock);
    return over;
}

static int gather_begin(mpi_plane *p, const uint8_t *bytes, size_t len) {
    gathering *g = &p->gather;
    g->compare = g->over = false;
    g->len = len;
    g->bytes = malloc(len != 0 ? len : 1);
    g->parts = calloc(p->processes, sizeof *g->parts);
    if (g->bytes == NULL || g->parts == NULL)
        return UVCC_ERR_NOMEM;
    if (len != 0)
        memcpy(g->bytes, bytes, len);
    return gather_start(p);
}

static int mpi_same(void *state, uint64_t value) {
    mpi_plane *p = state;
    if (!p->gather.begun) {
        p->gather.over = false;
        p->gather.compare = true;
        p->gather.value = value;
        return gather_start(p);
    }
    if (!gather_over(p))
        return UVCC_ERR_AGAIN;
    const int rc = p->gather.rc;
    gathering_end(p);
    return rc;
}

/* Copies: the library's live until its next call. */
static int copy_parts(const mpi_plane *p, uint8_t ***part, size_t **lens) {
    uint8_t **to = calloc(p->processes, sizeof *to);
    size_t *len = calloc(p->processes, sizeof *len);
    bool whole = to != NULL && len != NULL;
    for (uint32_t i = 0; whole && i < p->processes; i++) {
        const uvcc_slice *from = &p->gather.parts[i];
        to[i] = malloc(from->len != 0 ? from->len : 1);
        whole = to[i] != NULL;
        if (whole && from->len != 0)
            memcpy(to[i], from->data, from->len);
        len[i] = from->len;
    }
    if (whole) {
        *part = to;
        *lens = len;
        return 0;
    }
    for (uint32_t i = 0; to != NULL && i < p->processes; i++)
        free(to[i]);
    free(to);
    free(len);
    return UVCC_ERR_NOMEM;
}

static int mpi_gather(void *state, const uint8_t *bytes, size_t len, uint8_t ***part, size_t **lens,
                      size_t *parts) {
    mpi_plane *p = state;
    *part = NULL;
    *lens = NULL;
    *parts = 0;
    if (!p->gather.begun)
        return gather_begin(p, bytes, len);
    if (!gather_over(p))
        return UVCC_ERR_AGAIN;
    int rc = p->gather.rc;
    if (rc == 0 && p->local_rank == 0) {
        rc = copy_parts(p, part, lens);
        *parts = rc == 0 ? p->processes : 0;
    }
    gathering_end(p);
    return rc;
}

int plane_mpi_note(void *state, uint32_t to, const void *bytes, size_t len) {
    const mpi_plane *p = state;
    return lib.note(p->mpi, to, bytes, len);
}

int plane_mpi_on_note(void *state, const uvcc_mpi_reader *reader) {
    const mpi_plane *p = state;
    return lib.on_note(p->mpi, reader);
}

const plane_ops plane_mpi = {.open = mpi_open,
                             .close = mpi_close,
                             .submit = mpi_submit,
                             .poll = mpi_poll,
                             .pending = mpi_pending,
                             .fail = mpi_fail,
                             .why = mpi_why,
                             .max = mpi_max,
                             .agree = mpi_agree,
                             .same = mpi_same,
                             .gather = mpi_gather};
