/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h - messages that a job writes and hashes. They lie in memory of the host: written there
 * and hashed there, each of their bytes crosses the bus twice before it is sent. A staged one is
 * made in memory of the device and hashed there, and copied to its place meanwhile.
 *
 * A range is staged if the job's tasks write all but a few of its bytes and read none of it. Those
 * few, headers that the host wrote, are put into the copy before the tasks run; so a task may well
 * write more of a range than is known here, but not beyond it. No CUDA here. */
#ifndef UVCCI_GPU_STAGING_H
#define UVCCI_GPU_STAGING_H

#include <stdbool.h>
#include <uvcc/compute.h>

/* What a task writes for sure of a message, from the first byte, and what it may write. */
typedef struct uvcci_wire_piece {
    uint8_t *at;
    size_t bytes, most;
} uvcci_wire_piece;
enum { UVCCI_WIRE_PIECES = 3 }; /* of a block */

/* Of a block of a task that is within its limits: how many pieces, or -1: it is a kind of which
 * that is not known, and the block has some. */
int uvcci_gpu_wire_pieces(const uvcc_task *t, const uvcc_block *b,
                          uvcci_wire_piece to[UVCCI_WIRE_PIECES]);
/* Bytes that a block reads of each wire_in, at most. */
size_t uvcci_gpu_wire_in_most(const uvcc_task *t, const uvcc_block *b);

enum { UVCCI_STAGED_MOST = 32 }; /* ranges of a job */

typedef struct uvcci_staged {
    uint8_t *at;
    size_t bytes;
    size_t copy;            /* where its copy is, from the first byte of all copies */
    size_t gap_bytes;       /* that no task is known to write, */
    uint32_t gaps, written; /* in so many pieces; pieces that tasks write */
    bool no;                /* it is not staged */
} uvcci_staged;

typedef struct uvcci_staging {
    uvcci_staged range[UVCCI_STAGED_MOST]; /* by address; they do not overlap */
    uint32_t count;
    struct uvcci_staging_piece *piece; /* as noted; then by address */
    uint32_t piece_count, piece_room;
    uint32_t last;         /* the task that is the last to write any of them */
    size_t bytes;          /* of all copies */
    size_t gap_bytes;      /* of all gaps, */
    uint32_t gaps, staged; /* and how many these are; ranges that are staged */
} uvcci_staging;

void uvcci_staging_free(uvcci_staging *s, const uvcc_allocator *al);
/* Forgets the job before. */
void uvcci_staging_begin(uvcci_staging *s);
/* A range that the job hashes; before all that follows. None is staged that overlaps another. */
void uvcci_staging_add(uvcci_staging *s, const void *p, size_t bytes);
/* Task `task` writes a piece. UVCC_ERR_NOMEM: nothing is staged. */
int uvcci_staging_write(uvcci_staging *s, const uvcc_allocator *al, const uvcci_wire_piece *piece,
                        uint32_t task);
/* Some task does something else with these bytes. */
void uvcci_staging_touch(uvcci_staging *s, const void *p, size_t bytes);
/* The job's last task hashes these bytes: right where all of them are of one range. */
void uvcci_staging_hash(uvcci_staging *s, const void *p, size_t bytes);
/* Nothing of the job is staged. */
void uvcci_staging_drop(uvcci_staging *s);
/* After the last note: which ranges are staged, of `most` bytes together; where their copies are. A
 * copy is as far from a multiple of 256 bytes as its original, if all copies begin at one. */
void uvcci_staging_settle(uvcci_staging *s, size_t most);
/* Of all ranges that are staged. */
uint64_t uvcci_staging_bytes(const uvcci_staging *s);
/* Where the copy of a byte is; NULL: it is not of a range that is staged. */
uint8_t *uvcci_staging_find(const uvcci_staging *s, uint8_t *copies, const void *p);
/* Gaps: their bytes go one behind the other to `bytes`, which kernels see at `seen`; `to` are
 * copies of them to the ranges' copies. */
void uvcci_staging_fill(const uvcci_staging *s, uint8_t *copies, uint8_t *bytes,
                        const uint8_t *seen, uvcc_copy_item *to);
/* Copies of the ranges' copies to their places. Gives the longest one's bytes. */
size_t uvcci_staging_deliver(const uvcci_staging *s, uint8_t *copies, uvcc_copy_item *to);

#endif
