/* SPDX-License-Identifier: Apache-2.0 */
/* lane.h - a stream on which one job runs at a time: what the job is made of is read into the
 * lane's own memory, its kernels are launched in order, the last one writes a mark into memory of
 * the host.
 *
 * A lane's job is read without a call of CUDA, and launched without a look at the job: so a job can
 * be given back to its owner while CUDA keeps the thread that launches it. The calls, in order:
 * measure, and where that says so, grow; write; launch; when the mark is there, finish. */
#ifndef UVCCI_GPU_LANE_H
#define UVCCI_GPU_LANE_H

#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "gpu/kept.h"
#include "gpu/outside.h"
#include "gpu/pool.h"
#include "gpu/staging.h"
#include <uvcc/compute.h>

enum {
    UVCCI_LANE_TEXT = 160,
    /* Slots of pointers whose chunks are remembered: those of a block, and what may be lent. */
    UVCCI_LANE_SLOT_LENT = 18,
    UVCCI_LANE_SLOTS,
    UVCCI_LANE_STAGE_LEAST = 64 << 10 /* what is less the CPU hashes */
};

/* What lanes of an executor share. */
typedef struct uvcci_lane_home {
    uvcc_allocator records;
    uvcci_gpu_pool device, pinned;
    unsigned sms;
    uvcci_gpu_pool *lent; /* NULL, or another executor's, where public y may lie */
    bool trust_pointers;
    bool hopper; /* its tensor cores are those that ring_gemm.h was compiled for */
    /* Messages of more bytes that a job writes and hashes are made on the device. */
    size_t stage_least;
    _Atomic uint64_t staged_bytes; /* so many were */
    uvcci_kept kept;               /* copies of messages that came */
    _Atomic uint64_t kept_reads;   /* so many operands were found there */
    uvcc_cpu *cpu; /* of the thread that calls uvcci_lane_finish(.., true): it hashes */
    /* The grower's: takes back what a lane has outgrown, to be wiped on the device. */
    void (*outgrown)(void *user, void *at, size_t bytes);
    void *user;
} uvcci_lane_home;

/* Memory that a job needs: a part that the lane always has, or more from a pool. There are three
 * with such a part, two of the device. */
enum { UVCCI_LANE_FIRST_ROOM = 1 << 20, UVCCI_LANE_DEVICE_ROOMS = 2, UVCCI_LANE_HOST_ROOMS = 1 };
typedef struct uvcci_lane_room {
    uint8_t *first, *at;
    size_t first_bytes, bytes;
} uvcci_lane_room;

/* Sizes of a job. */
typedef struct uvcci_lane_sizes {
    size_t descriptors, scratch, wish; /* scratch that it needs, and that makes it faster */
    size_t hashes;                     /* what the CPU needs for those that are left to it */
} uvcci_lane_sizes;

/* Of a job's last HASH, where the CPU makes of digests of chunks what a thread of the device takes
 * a hundred times as long for, and hashes what is short and lies with it. */
typedef struct uvcci_lane_hashes {
    bool spread;                    /* the device makes all roots */
    bool many;                      /* and hashes what is short: it is more than a look may take */
    uint32_t whole;                 /* items of the CPU's alone */
    uint32_t roots;                 /* those whose root is */
    uint32_t ends;                  /* those of the device */
    uint64_t far;                   /* chunks of `roots` */
    size_t list, of, root, digests; /* offsets in memory of the host */
} uvcci_lane_hashes;

typedef enum uvcci_lane_state {
    UVCCI_LANE_FREE,
    UVCCI_LANE_STARTING, /* it has a job that is read or launched */
    UVCCI_LANE_RUNNING,  /* all of it is on the stream */
    UVCCI_LANE_ENDING,   /* somebody makes the job's completion */
} uvcci_lane_state;

typedef struct uvcci_lane {
    uvcci_lane_home *home;
    cudaStream_t stream, beside; /* that of copies to the host while the other hashes */
    cudaEvent_t event[2];        /* which begin behind the first, and end before the second */
    uvcci_lane_room host, dev, scratch; /* descriptors and copies; descriptors; digests, residues */
    uvcci_lane_room stage;              /* of the device: messages */
    size_t dirty, stage_dirty;          /* bytes of both that jobs wrote */
    uvcci_lane_sizes sizes;
    size_t used; /* bytes of `host` that the job has */
    uvcci_outside outside;
    uvcci_staging staging;
    size_t staging_at;           /* its descriptors */
    bool staged;                 /* there is room for it */
    uvcci_kept_copy keep, found; /* the message that the job copies; where operands were last */
    size_t keep_at;              /* its descriptor */
    bool keeps;                  /* it does */
    uint32_t reader;             /* the lane's bit among those that read copies, */
    bool reads;                  /* and whether its job does */
    uvcci_lane_hashes hashes;
    struct uvcci_lane_step *steps; /* kernels to launch */
    uint32_t step_count, step_room;
    bool secrets;                                /* its descriptors have keys */
    _Atomic uint32_t *end;                       /* where the mark comes, in memory of the host */
    uint32_t mark;                               /* the job's */
    uint64_t wipes_seen;                         /* the executor's */
    uvcci_gpu_pool_chunk hint[UVCCI_LANE_SLOTS]; /* chunks that operands were in, */
    bool hint_pinned[UVCCI_LANE_SLOTS];          /* and of which pool */
    _Atomic int state;                           /* uvcci_lane_state */
    uvcc_job job;
    _Atomic uint64_t began_ns;
    char text[UVCCI_LANE_TEXT]; /* why the job failed */
} uvcci_lane;

/* Of these, text says why. end: 4 bytes of pinned memory; index: of the lane in its home. 0 or
 * UVCC_ERR_JOB, UVCC_ERR_NOMEM; what is there must be closed in any case. */
int uvcci_lane_open(uvcci_lane *l, uvcci_lane_home *home, void *end, uint32_t index);
/* give_back false: the device is lost. */
void uvcci_lane_close(uvcci_lane *l, bool give_back);
/* Reads the job. 0; UVCC_ERR_JOB: it cannot run. */
int uvcci_lane_measure(uvcci_lane *l);
/* Whether the lane must grow before it can write, or look at what the host gave. */
bool uvcci_lane_must_grow(const uvcci_lane *l);
/* Whether growing takes pinned memory. */
bool uvcci_lane_wants_pinned(const uvcci_lane *l);
/* Calls CUDA. UVCC_ERR_JOB: there is no room. */
int uvcci_lane_grow(uvcci_lane *l);
/* Reads the job, and what it names outside. */
int uvcci_lane_write(uvcci_lane *l);
/* Puts all on the stream. UVCC_ERR_JOB: nothing of it runs any more. */
int uvcci_lane_launch(uvcci_lane *l);
/* Whether all of it ran. No CUDA. */
bool uvcci_lane_is_through(const uvcci_lane *l);
/* After the mark, or after a failed write or launch: if `well`, what tasks wrote goes outside, and
 * hashes that are left to the CPU are made; UVCC_ERR_JOB, and why in text: they could not be. What
 * uvcci_lane_wipe() does is done. No CUDA. */
int uvcci_lane_finish(uvcci_lane *l, bool well);
/* Keys and inputs of the job go from the host's memory; the device reads there no more, or is lost.
 * No CUDA. */
void uvcci_lane_wipe(uvcci_lane *l);
/* What jobs left in the scratch (0), and of messages (1): the bytes that the caller wipes before
 * the next launch, or NULL. */
enum { UVCCI_LANE_DIRTY = 2 };
uint8_t *uvcci_lane_dirty(uvcci_lane *l, unsigned which, size_t *bytes);

#endif
