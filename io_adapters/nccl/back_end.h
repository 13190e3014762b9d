/* SPDX-License-Identifier: Apache-2.0 */
/* back_end.h - what uvcc_nccl asks of a device and its communicators: by NCCL (device.c), or by
 * memory of one process in tests, so that everything else is tested without cards.
 *
 * All but `reaches` are called by the object's thread, `open` before there is one. No call waits
 * for another worker. */
#ifndef UVCCI_NCCL_BACK_END_H
#define UVCCI_NCCL_BACK_END_H

#include <stdbool.h>
#include <uvcc/task.h>

#define UVCCI_NCCL_ID_BYTES   128u
#define UVCCI_NCCL_NAME_BYTES 16u
#define UVCCI_NCCL_TEXT_BYTES 128u

/* A worker's place, and its place in each of its groups. */
typedef struct uvcci_nccl_place {
    uint16_t replicas, stages, tp_ranks;
    uint32_t count; /* workers of the party */
    uint32_t rank;
    uint32_t replica, stage, tp_rank;
} uvcci_nccl_place;

typedef struct uvcci_nccl_op {
    uint8_t op;    /* uvcc_collective_op */
    uint8_t group; /* of REDUCE_SCATTER and ALL_GATHER */
    uint32_t peer; /* local rank, of SEND and RECV */
    uint64_t elems;
    uvcc_shares in, out;
} uvcci_nccl_op;

typedef struct uvcci_nccl_back_end {
    /* 0, or UVCC_ERR_* and a reason. */
    int (*open)(void **state, const uvcci_nccl_place *place, uint32_t device,
                char why[UVCCI_NCCL_TEXT_BYTES]);
    /* Two workers with one name have one device. */
    void (*name)(const void *state, uint8_t name[UVCCI_NCCL_NAME_BYTES]);
    /* Of the party's communicator: worker 0 makes it, all join by it. 0 or -1. */
    int (*make_id)(void *state, uint8_t id[UVCCI_NCCL_ID_BYTES]);
    /* Begins, then goes on: 1 joined, 0 not yet, -1 failed. */
    int (*join)(void *state, const uint8_t id[UVCCI_NCCL_ID_BYTES]);
    /* Whether the device reaches memory. Any thread. */
    bool (*reaches)(const void *state, const void *at);
    /* An operation: one at a time is being put on its way, which goes on in `begun`: 1 on its way,
     * 0 not yet, -1 failed; then *mark is there. */
    int (*begin)(void *state, const uvcci_nccl_op *op);
    int (*begun)(void *state, void **mark);
    /* 1 over, and the mark is gone; 0 not yet; -1 failed. */
    int (*over)(void *state, void *mark);
    /* Errors that come by themselves: 0 or -1. */
    int (*check)(void *state);
    /* Ends what runs, by force. */
    void (*abort)(void *state);
    /* After it: 1 the device has stopped, 0 not yet. */
    int (*stopped)(void *state);
    void (*drop_mark)(void *state, void *mark);
    /* Frees everything; `together`: all workers do it now. */
    void (*close)(void *state, bool together);
    /* What was wrong, after -1. */
    const char *(*trouble)(const void *state);
} uvcci_nccl_back_end;

extern const uvcci_nccl_back_end uvcci_nccl_by_nccl;

#endif
