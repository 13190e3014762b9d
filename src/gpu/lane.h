/* SPDX-License-Identifier: Apache-2.0 */
/* lane.h - a stream on which one job runs at a time: its descriptors go up in one copy, its kernels
 * are launched in order, an event says when they are through. */
#ifndef UVCCI_GPU_LANE_H
#define UVCCI_GPU_LANE_H

#include <cuda_runtime_api.h>

#include "gpu/pool.h"
#include <uvcc/compute.h>

enum { UVCCI_LANE_TEXT = 160 };

/* Host memory that is not the device's to reach: what a job names of it is copied in and out. */
typedef struct uvcci_lane_outside {
    uint8_t *at;
    size_t bytes, copy; /* where its copy is among the descriptors */
    bool written;
} uvcci_lane_outside;

/* What lanes of an executor share. */
typedef struct uvcci_lane_home {
    uvcc_allocator records;
    uvcci_gpu_pool device, pinned;
    unsigned sms;
    bool trust_pointers;
    bool hopper; /* its tensor cores are those that ring_gemm.h was compiled for */
} uvcci_lane_home;

typedef struct uvcci_lane {
    uvcci_lane_home *home;
    cudaStream_t stream;
    cudaEvent_t end;
    uint8_t *host, *dev; /* descriptors: where they are made, where kernels read them */
    size_t room;
    uint8_t *scratch; /* digests of chunks; residues of products */
    size_t scratch_room;
    uvcci_lane_outside *outside;
    uint32_t outside_count, outside_room;
    size_t used; /* of the descriptors and copies of the job that runs */
    bool busy;
    uvcc_job job;
    uint64_t began_ns;
    char text[UVCCI_LANE_TEXT]; /* why the job failed */
} uvcci_lane;

/* 0 or UVCC_ERR_JOB, UVCC_ERR_NOMEM; what is there must be closed in any case. */
int uvcci_lane_open(uvcci_lane *l, uvcci_lane_home *home);
/* give_back false: the device is lost. */
void uvcci_lane_close(uvcci_lane *l, bool give_back);
/* Puts all of a job on the stream. 0: it runs; UVCC_ERR_JOB: it does not, and text says why. */
int uvcci_lane_start(uvcci_lane *l, const uvcc_job *job);
/* After its event: what goes outside goes there, and secrets go from the descriptors. */
void uvcci_lane_finish(uvcci_lane *l);

#endif
