/* SPDX-License-Identifier: Apache-2.0 */
/* device.c - the back end by NCCL: communicators, one stream, events.
 *
 * All operations of a worker are put on one stream, in the party's order: NCCL's kernels of one
 * communicator must not wait for those of another one behind them. The party's communicator joins
 * all workers; those of smaller groups are split from it. Communicators do not block: what takes
 * others is asked for again and again, so that a deadline holds while they join, too.
 *
 * An operation on both components of shares is one group of NCCL's calls, with one event behind
 * it. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io_adapters/nccl/state.h"

enum { GROUPS = 4, NO_GROUP = -1, FINALISE_S = 10 };

typedef struct device {
    uvcci_nccl_place place;
    int number;
    uint8_t uuid[UVCCI_NCCL_NAME_BYTES];
    cudaStream_t stream;
    ncclComm_t all;           /* of the party */
    ncclComm_t split[GROUPS]; /* of a group that is neither the party nor the worker alone */
    int stands_for[GROUPS];   /* an earlier group of the same workers, or NO_GROUP */
    int joining;              /* the group whose communicator is being made; GROUPS: none is left */
    bool begun_join, aborted;
    ncclComm_t busy; /* the communicator of the operation that is being begun */
    char trouble[UVCCI_NCCL_TEXT_BYTES];
} device;

_Static_assert(sizeof(ncclUniqueId) == UVCCI_NCCL_ID_BYTES, "an id of NCCL's");

static int cuda_failed(device *d, const char *what, cudaError_t e) {
    (void)snprintf(d->trouble, sizeof d->trouble, "%s: %s", what, cudaGetErrorString(e));
    return -1;
}

static int nccl_failed(device *d, const char *what, ncclResult_t e) {
    (void)snprintf(d->trouble, sizeof d->trouble, "NCCL: %s: %s", what, ncclGetErrorString(e));
    return -1;
}

/* ---- life ---- */

/* Which groups have the same workers as an earlier one. Groups that begin and end with the same
 * workers are STAGE and the TP or DP that is all of it, or have one worker. */
static void plan_groups(device *d) {
    for (int g = 0; g < GROUPS; g++) {
        const uint32_t size = uvcci_nccl_group_size(&d->place, (uint8_t)g);
        d->stands_for[g] = NO_GROUP;
        for (int h = 0; h < g && d->stands_for[g] == NO_GROUP; h++)
            if (uvcci_nccl_group_size(&d->place, (uint8_t)h) == size &&
                uvcci_nccl_member(&d->place, d->place.rank, (uint8_t)h, 0) ==
                    uvcci_nccl_member(&d->place, d->place.rank, (uint8_t)g, 0) &&
                uvcci_nccl_member(&d->place, d->place.rank, (uint8_t)h, size - 1) ==
                    uvcci_nccl_member(&d->place, d->place.rank, (uint8_t)g, size - 1))
                d->stands_for[g] = h;
    }
}

static int open_device(void **state, const uvcci_nccl_place *place, uint32_t number,
                       char why[UVCCI_NCCL_TEXT_BYTES]) {
    struct cudaDeviceProp prop;
    int count = 0, least = 0, greatest = 0;
    cudaError_t e = cudaGetDeviceCount(&count);
    if (e != cudaSuccess || number >= (uint32_t)count) {
        (void)snprintf(why, UVCCI_NCCL_TEXT_BYTES, "there is no CUDA device %u%s%s", number,
                       e != cudaSuccess ? ": " : "", e != cudaSuccess ? cudaGetErrorString(e) : "");
        (void)cudaGetLastError();
        return UVCC_ERR_CONFIG;
    }
    device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return UVCC_ERR_NOMEM;
    d->place = *place;
    d->number = (int)number;
    plan_groups(d);
    e = cudaSetDevice(d->number);
    if (e == cudaSuccess)
        e = cudaGetDeviceProperties(&prop, d->number);
    if (e == cudaSuccess)
        e = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (e == cudaSuccess) /* others wait for what is here: it goes before products */
        e = cudaStreamCreateWithPriority(&d->stream, cudaStreamNonBlocking, greatest);
    if (e != cudaSuccess) {
        (void)snprintf(why, UVCCI_NCCL_TEXT_BYTES, "device %u: %s", number, cudaGetErrorString(e));
        (void)cudaGetLastError();
        free(d);
        return UVCC_ERR_JOB;
    }
    memcpy(d->uuid, prop.uuid.bytes, sizeof d->uuid);
    *state = d;
    return 0;
}

static void name(const void *state, uint8_t out[UVCCI_NCCL_NAME_BYTES]) {
    const device *d = state;
    memcpy(out, d->uuid, sizeof d->uuid);
}

static int make_id(void *state, uint8_t out[UVCCI_NCCL_ID_BYTES]) {
    device *d = state;
    ncclUniqueId id;
    const ncclResult_t e = ncclGetUniqueId(&id);
    if (e != ncclSuccess)
        return nccl_failed(d, "no id", e);
    memcpy(out, &id, sizeof id);
    return 0;
}

/* ---- joining ---- */

/* 1: the communicator is ready for the next call, 0: not yet, -1: it failed. */
static int settled(device *d, ncclComm_t comm, const char *what) {
    ncclResult_t state = ncclInProgress;
    const ncclResult_t e = ncclCommGetAsyncError(comm, &state);
    if (e != ncclSuccess)
        return nccl_failed(d, what, e);
    if (state == ncclInProgress)
        return 0;
    return state == ncclSuccess ? 1 : nccl_failed(d, what, state);
}

static int begin_join(device *d, const uint8_t bytes[UVCCI_NCCL_ID_BYTES]) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    memcpy(&id, bytes, sizeof id);
    config.blocking = 0;
    (void)cudaSetDevice(d->number); /* of this thread from here on */
    const ncclResult_t e =
        ncclCommInitRankConfig(&d->all, (int)d->place.count, id, (int)d->place.rank, &config);
    d->begun_join = true;
    return e == ncclSuccess || e == ncclInProgress ? 0 : nccl_failed(d, "joining", e);
}

static bool has_own(const device *d, int g) {
    const uint32_t size = uvcci_nccl_group_size(&d->place, (uint8_t)g);
    return size > 1 && size != d->place.count && d->stands_for[g] == NO_GROUP;
}

/* Workers of a group have its first member in common; they stand in the order of local ranks. */
static int begin_split(device *d, int g) {
    const uint32_t first = uvcci_nccl_member(&d->place, d->place.rank, (uint8_t)g, 0);
    const ncclResult_t e =
        ncclCommSplit(d->all, (int)first, (int)d->place.rank, &d->split[g], NULL);
    return e == ncclSuccess || e == ncclInProgress ? 0 : nccl_failed(d, "splitting", e);
}

static int join(void *state, const uint8_t id[UVCCI_NCCL_ID_BYTES]) {
    device *d = state;
    if (!d->begun_join && begin_join(d, id) != 0)
        return -1;
    for (;;) {
        int rc = settled(d, d->all, "joining");
        if (rc == 1 && d->joining > 0 && d->split[d->joining - 1] != NULL)
            rc = settled(d, d->split[d->joining - 1], "splitting");
        if (rc != 1)
            return rc;
        while (d->joining < GROUPS && !has_own(d, d->joining))
            d->joining++;
        if (d->joining == GROUPS)
            return 1;
        if (begin_split(d, d->joining++) != 0)
            return -1;
    }
}

/* ---- operations ---- */

static bool reaches(const void *state, const void *at) {
    const device *d = state;
    struct cudaPointerAttributes a;
    if (at == NULL || cudaPointerGetAttributes(&a, at) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return (a.type == cudaMemoryTypeDevice && a.device == d->number) ||
           a.type == cudaMemoryTypeHost || a.type == cudaMemoryTypeManaged;
}

/* NULL: of this worker alone. */
static ncclComm_t comm_of(const device *d, uint8_t group) {
    int g = group;
    const uint32_t size = uvcci_nccl_group_size(&d->place, group);
    if (size == 1)
        return NULL;
    if (size == d->place.count)
        return d->all;
    if (d->stands_for[g] != NO_GROUP)
        g = d->stands_for[g];
    return d->split[g];
}

static ncclResult_t call(const device *d, const uvcci_nccl_op *op, ncclComm_t comm,
                         const uint64_t *in, uint64_t *out) {
    const size_t slice =
        op->op == UVCC_COLLECTIVE_REDUCE_SCATTER || op->op == UVCC_COLLECTIVE_ALL_GATHER
            ? op->elems / uvcci_nccl_group_size(&d->place, op->group)
            : op->elems;
    switch (op->op) {
    case UVCC_COLLECTIVE_SEND:
        return ncclSend(in, slice, ncclUint64, (int)op->peer, comm, d->stream);
    case UVCC_COLLECTIVE_RECV:
        return ncclRecv(out, slice, ncclUint64, (int)op->peer, comm, d->stream);
    case UVCC_COLLECTIVE_REDUCE_SCATTER:
        return ncclReduceScatter(in, out, slice, ncclUint64, ncclSum, comm, d->stream);
    default:
        return ncclAllGather(in, out, slice, ncclUint64, comm, d->stream);
    }
}

static int copy_alone(device *d, const uvcci_nccl_op *op) {
    const size_t bytes = op->elems * sizeof(uint64_t);
    cudaError_t e = cudaMemcpyAsync(op->out.lo, op->in.lo, bytes, cudaMemcpyDefault, d->stream);
    if (e == cudaSuccess && op->in.hi != NULL)
        e = cudaMemcpyAsync(op->out.hi, op->in.hi, bytes, cudaMemcpyDefault, d->stream);
    return e == cudaSuccess ? 0 : cuda_failed(d, "a copy", e);
}

static int begin(void *state, const uvcci_nccl_op *op) {
    device *d = state;
    const bool send = op->op == UVCC_COLLECTIVE_SEND, pair = send || op->op == UVCC_COLLECTIVE_RECV;
    ncclComm_t comm = pair ? d->all : comm_of(d, op->group);
    const bool both = op->op == UVCC_COLLECTIVE_RECV ? op->out.hi != NULL : op->in.hi != NULL;
    d->busy = NULL;
    if (op->elems == 0)
        return 0;
    if (comm == NULL)
        return copy_alone(d, op);
    d->busy = comm;
    ncclResult_t e = ncclGroupStart();
    if (e != ncclSuccess)
        return nccl_failed(d, "a group of calls", e);
    e = call(d, op, comm, op->in.lo, op->out.lo);
    if (both && (e == ncclSuccess || e == ncclInProgress))
        e = call(d, op, comm, op->in.hi, op->out.hi);
    const ncclResult_t end = ncclGroupEnd();
    if (e == ncclSuccess || e == ncclInProgress)
        e = end;
    return e == ncclSuccess || e == ncclInProgress ? 0 : nccl_failed(d, "an operation", e);
}

static int begun(void *state, void **mark) {
    device *d = state;
    const int rc = d->busy != NULL ? settled(d, d->busy, "an operation") : 1;
    cudaEvent_t event = NULL;
    if (rc != 1)
        return rc;
    cudaError_t e = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (e != cudaSuccess)
        return cuda_failed(d, "an event", e);
    e = cudaEventRecord(event, d->stream);
    if (e != cudaSuccess) {
        (void)cudaEventDestroy(event);
        return cuda_failed(d, "an event", e);
    }
    *mark = event;
    return 1;
}

static int over(void *state, void *mark) {
    device *d = state;
    const cudaError_t e = cudaEventQuery(mark);
    if (e == cudaErrorNotReady)
        return 0;
    if (e != cudaSuccess)
        return cuda_failed(d, "the device", e);
    (void)cudaEventDestroy(mark);
    return 1;
}

static void drop_mark(void *state, void *mark) {
    (void)state;
    if (mark != NULL)
        (void)cudaEventDestroy(mark);
}

/* ---- errors and the end ---- */

static int check(void *state) {
    device *d = state;
    ncclResult_t e = ncclSuccess;
    if (d->all != NULL && ncclCommGetAsyncError(d->all, &e) == ncclSuccess && e != ncclSuccess &&
        e != ncclInProgress)
        return nccl_failed(d, "an error of its own", e);
    for (int g = 0; g < GROUPS; g++)
        if (d->split[g] != NULL && ncclCommGetAsyncError(d->split[g], &e) == ncclSuccess &&
            e != ncclSuccess && e != ncclInProgress)
            return nccl_failed(d, "an error of its own", e);
    return 0;
}

static void abort_all(void *state) {
    device *d = state;
    (void)cudaSetDevice(d->number);
    d->aborted = true;
    for (int g = 0; g < GROUPS; g++) {
        if (d->split[g] != NULL)
            (void)ncclCommAbort(d->split[g]);
        d->split[g] = NULL;
    }
    if (d->all != NULL)
        (void)ncclCommAbort(d->all);
    d->all = NULL;
}

/* A stream whose device has failed says so, and runs nothing any more. */
static int stopped(void *state) {
    const device *d = state;
    return cudaStreamQuery(d->stream) != cudaErrorNotReady;
}

/* A communicator that others finalise too; false: not in time. */
static bool finalise(device *d, ncclComm_t comm) {
    const ncclResult_t e = ncclCommFinalize(comm);
    if (e != ncclSuccess && e != ncclInProgress)
        return false;
    for (int i = 0; i < FINALISE_S * 10000; i++) {
        const int rc = settled(d, comm, "the end");
        if (rc == 1)
            (void)ncclCommDestroy(comm);
        if (rc != 0)
            return rc == 1;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    return false;
}

static void close_device(void *state, bool together) {
    device *d = state;
    (void)cudaSetDevice(d->number);
    for (int g = 0; g < GROUPS && together; g++)
        if (d->split[g] != NULL) {
            together = finalise(d, d->split[g]);
            if (together)
                d->split[g] = NULL;
        }
    if (together && d->all != NULL && finalise(d, d->all))
        d->all = NULL;
    abort_all(d);
    if (stopped(d) == 1)
        (void)cudaStreamDestroy(d->stream);
    (void)cudaGetLastError();
    free(d);
}

static const char *trouble(const void *state) {
    const device *d = state;
    return d->trouble;
}

const uvcci_nccl_back_end uvcci_nccl_by_nccl = {.open = open_device,
                                                .name = name,
                                                .make_id = make_id,
                                                .join = join,
                                                .reaches = reaches,
                                                .begin = begin,
                                                .begun = begun,
                                                .over = over,
                                                .check = check,
                                                .abort = abort_all,
                                                .stopped = stopped,
                                                .drop_mark = drop_mark,
                                                .close = close_device,
                                                .trouble = trouble};

int uvcc_nccl_new(uvcc_nccl **out, const uvcc_nccl_config *cfg) {
    return uvcci_nccl_new(out, cfg, &uvcci_nccl_by_nccl);
}
