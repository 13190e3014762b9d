/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/checkpoint.h - looking into a checkpoint without a session: what it is of, and one tensor's
 * shares out of it, to go on with another program or another split over workers
 * (uvcc_session_set_shares). The sessions themselves make and take whole ones
 * (uvcc_session_checkpoint, uvcc_session_resume). It holds shares: treat its bytes as they do. */
#ifndef UVCC_CHECKPOINT_H
#define UVCC_CHECKPOINT_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcc_checkpoint_info {
    uint8_t party;
    uint32_t step, tensors; /**< it resumes at `step`; how many tensors are in it */
    uint8_t sid_sub[32];    /**< of the worker (uvcc_session's coordinate) */
    uint8_t program_hash[32];
    uint32_t run;            /**< that made it */
    uint8_t root_before[32]; /**< its party's audit root over the steps before in its run
                                  (<uvcc/audit.h>); of a run that finished none, or with the audit
                                  off, what that run goes on from itself; zeros: none */
    uint8_t lineage[32];     /**< which steps of which runs made these tensors: the same in the
                                  checkpoints of all three parties, and in no other history */
} uvcc_checkpoint_info;
/** Checks all of it. UVCC_ERR_MISMATCH: it is no checkpoint; UVCC_ERR_AUTH: it is damaged. */
UVCC_API int uvcc_checkpoint_read(const uint8_t *data, size_t len, uvcc_checkpoint_info *info);
/** The two components of tensor index `tensor`; `elems` must be its size. Trusts the bytes to be
 * what uvcc_checkpoint_read() accepted, but never reads outside them. UVCC_ERR_MISMATCH: no
 * checkpoint, or another size; UVCC_ERR_NOT_FOUND: it has no such tensor. */
UVCC_API int uvcc_checkpoint_tensor(const uint8_t *data, size_t len, uint32_t tensor, uint64_t *lo,
                                    uint64_t *hi, uint64_t elems);

#ifdef __cplusplus
}
#endif
#endif
