/* SPDX-License-Identifier: Apache-2.0 */
/* kept.h - copies of messages that were hashed, and that tasks of later jobs read (uvcc_hash_item,
 * `stays`): so their bytes cross the bus once. A copy is found by the message's address until that
 * memory comes back, or is hashed anew; then its own is used for another message of that size, or
 * comes back too. Any thread calls. No CUDA here. */
#ifndef UVCCI_GPU_KEPT_H
#define UVCCI_GPU_KEPT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UVCCI_KEPT_MOST = 256 }; /* copies */

typedef struct uvcci_kept_copy {
    const uint8_t *at; /* the message */
    size_t bytes;
    uint8_t *block; /* of the device, with room for the message wherever it begins */
    size_t room;
    uint32_t readers; /* lanes whose job reads it, a bit each */
    bool stale;       /* it is not found any more */
} uvcci_kept_copy;

typedef struct uvcci_kept {
    pthread_mutex_t lock;
    uvcci_kept_copy copy[UVCCI_KEPT_MOST]; /* by address */
    _Atomic uint32_t count;
    uint32_t reserved;   /* that will be added */
    uint64_t room, most; /* bytes of all of both, and that these may be */
} uvcci_kept;

void uvcci_kept_init(uvcci_kept *k, uint64_t most);
void uvcci_kept_close(uvcci_kept *k);
/* Room that a copy of so many bytes takes. */
size_t uvcci_kept_room(size_t bytes);
/* Before a message is copied: whether it may be. c->block is that of a copy that is stale, or NULL:
 * the caller takes one, or drops what is reserved. */
bool uvcci_kept_reserve(uvcci_kept *k, uvcci_kept_copy *c);
void uvcci_kept_drop(uvcci_kept *k, const uvcci_kept_copy *c);
/* A copy that was reserved is there; stale: it is not, but its block is. */
void uvcci_kept_add(uvcci_kept *k, const uvcci_kept_copy *c);
/* What was copied of these bytes is stale. */
void uvcci_kept_forget(uvcci_kept *k, const void *p, size_t bytes);
/* Takes out a copy of a message that lies in these bytes, whose memory is the caller's then. False:
 * there is none. */
bool uvcci_kept_take(uvcci_kept *k, const void *p, size_t bytes, uvcci_kept_copy *c);
/* Where in its block a copy of the message is: as far from a multiple of 256 bytes as that. */
uint8_t *uvcci_kept_place(const uvcci_kept_copy *c);
/* Where the copy of these bytes is, if all of them are of the message. */
uint8_t *uvcci_kept_within(const uvcci_kept_copy *c, const void *p, size_t bytes);
/* A copy that has these bytes; false: there is none. Until uvcci_kept_release() its memory is no
 * other message's, even if it is stale meanwhile. */
bool uvcci_kept_find(uvcci_kept *k, const void *p, size_t bytes, uint32_t reader,
                     uvcci_kept_copy *c);
/* The reader's job is over. */
void uvcci_kept_release(uvcci_kept *k, uint32_t reader);

#endif
