/* SPDX-License-Identifier: Apache-2.0 */
/* outside.h - memory of the host that the device does not reach: what a job names of it is copied
 * into memory that the device does reach, and back. Ranges that overlap share bytes of one copy, so
 * that what a task writes is what the next one reads; only bytes that some task writes go back. No
 * CUDA here. */
#ifndef UVCCI_GPU_OUTSIDE_H
#define UVCCI_GPU_OUTSIDE_H

#include <stdbool.h>
#include <uvcc/types.h>

typedef struct uvcci_outside_range {
    uint8_t *at;
    size_t bytes, copy; /* where its copy is, from the first byte of all copies */
    size_t covered;     /* bytes from `at` on that it, and what overlaps it, have noted */
    bool written;
} uvcci_outside_range;

typedef struct uvcci_outside {
    uvcci_outside_range *range; /* as noted; then by address */
    uint32_t count, room;
    size_t bytes; /* of all copies */
} uvcci_outside;

void uvcci_outside_free(uvcci_outside *o, const uvcc_allocator *al);
/* UVCC_ERR_NOMEM: nothing is noted. */
int uvcci_outside_note(uvcci_outside *o, const uvcc_allocator *al, const void *p, size_t bytes,
                       bool written);
/* After the last note: gives every range its place. With `copies` at a multiple of 64 bytes, a copy
 * is as far from such a multiple as its original. */
void uvcci_outside_settle(uvcci_outside *o);
/* Where the copy of a byte is, with all copies at `copies`; NULL: it was not noted. */
uint8_t *uvcci_outside_find(const uvcci_outside *o, uint8_t *copies, const void *p);
void uvcci_outside_copy_in(const uvcci_outside *o, uint8_t *copies);
void uvcci_outside_copy_out(const uvcci_outside *o, const uint8_t *copies);

#endif
