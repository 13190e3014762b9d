/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/mpi.h - the local plane across processes: what uvcc_collective (<uvcc/collective.h>) is
 * within one, by MPI. Library uvcc-mpi, which is there only where uvcc was built with MPI; nothing
 * else of uvcc needs MPI.
 *
 * One object per process, one process per worker of a party: its local rank, (r S + s) T + t, is
 * its rank in the communicator. The parties do not see one another's MPI: each has a job of its
 * own.
 *
 * A thread of the object's own makes all of its MPI calls. If MPI is not initialised yet the object
 * does that, by MPI_THREAD_SERIALIZED, and finalises it when it is freed; no other object can be
 * made in the process then. A host that initialises MPI itself asks for MPI_THREAD_SERIALIZED at
 * least, and below MPI_THREAD_MULTIPLE makes no MPI calls of its own while an object lives. Errors
 * of MPI itself end the job of all processes (MPI_ERRORS_ARE_FATAL).
 *
 * Failure: what one process gives up, all give up. Whoever calls uvcc_mpi_fail(), or finds that
 * members of a group disagree, tells all others; what waits and whatever comes later fails with
 * UVCC_ERR_JOB in its completion, at every process, with one reason. Operations that MPI has begun
 * are carried to their end first, with values that nobody looks at, so that no job's memory is
 * touched after its completion. A process that dies is the launcher's business: mpirun ends the
 * others.
 *
 * Threads: an object belongs to one thread at a time, and only uvcc_mpi_why(), uvcc_mpi_fail() and
 * uvcc_mpi_note() may be called by others meanwhile. `alloc`, `log` and `wake` are called by the
 * object's thread too. */
#ifndef UVCC_MPI_H
#define UVCC_MPI_H

#include <uvcc/compute.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most words of an operation's larger side, a component: what MPI's counts can say. */
#define UVCC_MPI_ELEMS_MAX 0x7fffffffu
/** Bytes of a reason, with its 0. */
#define UVCC_MPI_WHY_BYTES 160u
/** Most bytes of a note. */
#define UVCC_MPI_NOTE_BYTES 4096u

typedef struct uvcc_mpi_config {
    size_t size; /**< sizeof(uvcc_mpi_config) */
    uvcc_allocator alloc;
    uvcc_logger log; /**< why a call was refused: ERROR; may be empty */
    /** Where an MPI_Comm stands, of replicas * stages * tp_ranks processes; it is copied
     * (MPI_Comm_idup). NULL: MPI_COMM_WORLD. */
    const void *communicator;
    uint16_t replicas, stages, tp_ranks;
    /** Called by the object's thread after there is a completion, or a failure; may be NULL. Must
     * not call the library; uvcc_net_wake() may be it, with a net as `wake_user`. */
    void (*wake)(void *user);
    void *wake_user;
} uvcc_mpi_config;

typedef struct uvcc_mpi uvcc_mpi;
/** All processes of the communicator call it; it waits for them. UVCC_ERR_CONFIG: the communicator
 * has another number of processes; UVCC_ERR_STATE: MPI was finalised in this process, or
 * initialised below MPI_THREAD_SERIALIZED; UVCC_ERR_LIMIT: no thread; UVCC_ERR_NOMEM. The log says
 * which. */
UVCC_API int uvcc_mpi_new(uvcc_mpi **out, const uvcc_mpi_config *cfg) UVCC_MUST_USE;
/** All processes of the communicator call it, after a failure too; it waits for them, and for what
 * has begun. Jobs whose completion did not come yet are given up, which is a failure for all. */
UVCC_API void uvcc_mpi_free(uvcc_mpi *m);
/** The local rank of this process. */
UVCC_API uint32_t uvcc_mpi_rank(const uvcc_mpi *m);

/** Takes a local job of this worker; as uvcc_collective_submit(). UVCC_ERR_LIMIT: more than
 * UVCC_MPI_ELEMS_MAX words. After a failure it takes the job, and its completion says
 * UVCC_ERR_JOB. */
UVCC_API int uvcc_mpi_submit(uvcc_mpi *m, const uvcc_job *job);
/** 1 and the next completion, 0 if there is none now. */
UVCC_API int uvcc_mpi_poll(uvcc_mpi *m, uvcc_completion *out);
/** Jobs whose completion was not polled yet. */
UVCC_API uint32_t uvcc_mpi_pending(const uvcc_mpi *m);

/** This worker gives up: all processes fail. The first failure of all stays the reason. `why` is
 * copied, NULL: "a worker of the party is gone"; `code` is the host's, and what others get from
 * uvcc_mpi_why(). */
UVCC_API void uvcc_mpi_fail(uvcc_mpi *m, uint32_t code, const char *why);
/** Whether there was a failure: 1, and the local rank where it was, its code and its reason
 * (UVCC_MPI_WHY_BYTES bytes at most); else 0. Pointers may be NULL. A failure without a call of
 * uvcc_mpi_fail() has the code 0. */
UVCC_API int uvcc_mpi_why(const uvcc_mpi *m, uint32_t *rank, uint32_t *code,
                          char why[UVCC_MPI_WHY_BYTES]);

/* Notes: short messages of the host's own between two processes, such as those of <uvcc/nccl.h>. */

/** Sends a copy of `bytes` to the process of local rank `to`, which is not this one. Any thread may
 * call it; notes to one process come in the order of calls. After a failure they go on, and until
 * uvcc_mpi_free() is called; what was sent by then comes. UVCC_ERR_USAGE, UVCC_ERR_NOMEM. */
UVCC_API int uvcc_mpi_note(uvcc_mpi *m, uint32_t to, const void *bytes, size_t len);
/** Who gets the notes of others. */
typedef struct uvcc_mpi_reader {
    /** Called by the object's thread, in their order; may call uvcc_mpi_note(), nothing else of the
     * object. */
    void (*note)(void *user, uint32_t from, const void *bytes, size_t len);
    void *user;
} uvcc_mpi_reader;
/** From now on; notes that came before wait for this call. `reader` is copied; NULL: nobody gets
 * them, and when it has returned nobody is being called. */
UVCC_API int uvcc_mpi_on_note(uvcc_mpi *m, const uvcc_mpi_reader *reader);

/* For the beginning and the end of a run: all processes call the same ones in the same order, and
 * each returns when all have called it. UVCC_ERR_STATE: there was a failure, as when they differ;
 * UVCC_ERR_NOMEM. They wait; jobs go on meanwhile. */

/** *value becomes the greatest of all processes'. */
UVCC_API int uvcc_mpi_max(uvcc_mpi *m, uint32_t *value);
/** Of this process's numbers, all different, in any order, those that all processes have stay, in
 * rising order; *count of them. */
UVCC_API int uvcc_mpi_common(uvcc_mpi *m, uint64_t *values, size_t *count);
/** At rank 0 parts[i] is what the process of local rank i gave, rank 0's own too, until the next of
 * these calls or uvcc_mpi_free(); there is room for replicas * stages * tp_ranks. Elsewhere `parts`
 * is not used and may be NULL. Any number of bytes, 0 too. */
UVCC_API int uvcc_mpi_gather(uvcc_mpi *m, const void *bytes, size_t len, uvcc_slice *parts);
UVCC_API int uvcc_mpi_barrier(uvcc_mpi *m);

#ifdef __cplusplus
}
#endif
#endif
