/* SPDX-License-Identifier: Apache-2.0 */
/* plane.h - the local plane of a party as its processes see it: collectives among its workers, and
 * what the processes agree on before a run and gather after it.
 *
 * Three kinds: within this process (uvcc_collective), where all workers are here and nothing is to
 * be agreed on; between processes, by MPI; and between processes whose workers are on CUDA devices,
 * by NCCL, with MPI for all that are no values. */
#ifndef UVCC_TOOLS_PARTY_PLANE_H
#define UVCC_TOOLS_PARTY_PLANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/collective.h>
#include <uvcc/store.h>

/* An interruption ends the process after so many seconds, whatever it waits for; of these in which
 * only other processes of its party can end the wait, after so many. */
enum { INTERRUPT_S = 15, INTERRUPT_PLANE_S = 3 };

typedef struct plane plane;

typedef struct plane_config {
    uvcc_allocator alloc;
    uvcc_logger log;
    uint16_t replicas, stages, tp_ranks;
    uint32_t processes;  /* of this party; 1: all workers are here */
    uint32_t local_rank; /* of this process, with more than one */
    bool devices;        /* values are in the memory of CUDA devices: in one process worker i is
                            on device i, else this one on: */
    uint32_t device;
    void (*wake)(void *user); /* from any thread: a completion is there */
    void *wake_user;
} plane_config;

/* A checkpoint as processes compare it, by the run that made it. */
typedef uvcc_store_kept plane_checkpoint;
#define PLANE_CHECKPOINTS_MAX 16u
/* What the workers of a process could go on from: the checkpoints that all of them have, and
 * whether all may begin anew. */
typedef struct plane_offer {
    plane_checkpoint kept[PLANE_CHECKPOINTS_MAX];
    uint32_t count;
    bool anew;
} plane_offer;

/* One implementation. Those that return an int return 0 or UVCC_ERR_*, but open(). */
typedef struct plane_ops {
    int (*open)(void **state, const plane_config *c); /* an exit status, after reporting */
    void (*close)(void *state);
    int (*submit)(void *state, uint32_t local_rank, const uvcc_job *job);
    int (*poll)(void *state, uint32_t local_rank, uvcc_completion *out);
    /* Jobs of this process whose completion was not polled, and which have memory of theirs. */
    uint32_t (*pending)(const void *state);
    /* The exit status and the reason are what all processes of the party hear. */
    void (*fail)(void *state, int status, const char *why);
    /* The first failure of all, NULL: there was none; *status as it was given, 0: none was. */
    const char *(*why)(void *state, int *status);
    /* Blocks: *value becomes the greatest of all processes'. NULL: one process. */
    int (*max)(void *state, uint32_t *value);
    /* Blocks until all processes are here: *run becomes the greatest of theirs, list the
     * checkpoints that all of them have, *anew whether all may begin anew. NULL: one process. */
    int (*agree)(void *state, uint32_t *run, plane_checkpoint *list, uint32_t *count, bool *anew);
    /* Whether all processes gave the same value: 0, UVCC_ERR_MISMATCH, or UVCC_ERR_AGAIN, as
     * below. NULL: one process. */
    int (*same)(void *state, uint64_t value);
    /* At local rank 0 the bytes of all processes by rank, malloc()ed: (*part)[i] and the array
     * itself are the caller's; elsewhere *part is NULL. UVCC_ERR_AGAIN: not all of them have come
     * to it; what was given is kept, and `wake` says when to ask again. NULL: one process. */
    int (*gather)(void *state, const uint8_t *bytes, size_t len, uint8_t ***part, size_t **lens,
                  size_t *parts);
} plane_ops;

/* An exit status, after reporting. */
int plane_open(plane **out, const plane_config *c);
void plane_close(plane *p);
/* As those of uvcc_collective. */
int plane_submit(plane *p, uint32_t local_rank, const uvcc_job *job);
int plane_poll(plane *p, uint32_t local_rank, uvcc_completion *out);
void plane_fail(plane *p, int status, const char *why);
/* Ends what is out, by a failure if something is, so that the memory of jobs may go. */
void plane_drain(plane *p);
const char *plane_why(plane *p, int *status);
/* Several processes share this party. */
bool plane_between_processes(const plane *p);
int plane_agree(plane *p, uint32_t *run, plane_offer *offer);
/* Leaves in *offer what the other has too. */
void plane_offer_both(plane_offer *offer, const plane_offer *other);
int plane_max(plane *p, uint32_t *value);
int plane_same(plane *p, uint64_t value);
int plane_gather(plane *p, const uint8_t *bytes, size_t len, uint8_t ***part, size_t **lens,
                 size_t *parts);

#endif
