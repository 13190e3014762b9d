/* SPDX-License-Identifier: Apache-2.0 */
/* ids.h - every derived identifier of wire.md 1. Pure functions. */
#ifndef UVCCI_IDS_H
#define UVCCI_IDS_H

#include "proto/crypto.h"
#include <stdint.h>

enum { UVCCI_PHASE_FWD = 0, UVCCI_PHASE_BWD = 1, UVCCI_PHASE_UPD = 2 };
enum { UVCCI_BLOCK_IO = 254, UVCCI_BLOCK_TO_ONE = 255 };

/* Names of opened streams. */
typedef enum uvcci_stream_name {
#define UVCCI_STREAM(name) UVCCI_STREAM_##name,
#include "proto/streams.def"
#undef UVCCI_STREAM
    UVCCI_STREAM_COUNT
} uvcci_stream_name;

void uvcci_sid_rep(const uint8_t sid_job[32], uint32_t replica, uint8_t out[32]);
void uvcci_sid_sub(const uint8_t sid_rep[32], uint8_t stage, uint16_t tp_rank, uint8_t out[32]);
uint64_t uvcci_sid_tag(const uint8_t sid_sub[32]);
/* The fixed keys, left and right, of trees that a client deals: it knows the job's name alone. */
void uvcci_client_dpf(const uint8_t sid_job[32], uint8_t out[2][16]);
uint32_t uvcci_op_id(const uint8_t sid_sub[32], uint32_t step, uint8_t phase, uint16_t mb,
                     uint16_t k, uint16_t batch, uint16_t attempt);
uint64_t uvcci_fss_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id, uint16_t call,
                      uint32_t block);
uint64_t uvcci_stream_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id,
                         uvcci_stream_name name, uint16_t call, uint32_t tile);
uint64_t uvcci_triple_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id, uint32_t tile);
/* kind: a FRAME kind that has message ids (0x62, 0x64..0x6B); 0 for any other. */
uint32_t uvcci_msg_id(uint8_t kind, const uint8_t sid_sub[32], uint32_t op_id, uint8_t src,
                      uint8_t dst, uint16_t chunk_idx, uint16_t chunk_cnt);
/* Edge of a block: HEAD = P_e, TAIL = P_(e+1), OTHER = P_(e+2). */
static inline uint8_t uvcci_edge(uint64_t fss_id) {
    return (uint8_t)(fss_id % 3u);
}

/* The lineage of tensors: which steps, of which runs, made them what they are; the same at all
 * three. `before` is that before the step, or sid_sub where a run begins on tensors that hosts set
 * (with an h_optable of zeros); nonce is the run's own (uvcci_hello_nonce). */
enum {
    UVCCI_LINEAGE_FINISHED = 0,
    UVCCI_LINEAGE_DROPPED = 1,
    UVCCI_LINEAGE_BEGUN = 2,
    UVCCI_LINEAGE_PUBLIC = 3
};
void uvcci_lineage(const uint8_t before[32], uint8_t what, uint32_t run, uint32_t step,
                   const uint8_t nonce[32], const uint8_t h_optable[32], uint8_t out[32]);

/* Keys of a triangle (protocols.md 1). PRK = HKDF-Extract(salt = sid_sub, K_ab). Of it come, at
 * once, the control keys and the chain value C of the first step; C of step n + 1 comes of that of
 * step n, and every other key of step n of C_n: Expand(C_n, "uvcc/" || tag || U8(0) || LE64(step)
 * || LE32(run)). Who forgets C_n when step n is over cannot open it any more. */
void uvcci_derive_prk(const uint8_t sid_sub[32], const uint8_t k_ab[32], uint8_t prk[32]);
typedef enum uvcci_tag {
#define UVCCI_TAG(name) UVCCI_TAG_##name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    UVCCI_TAG_COUNT
} uvcci_tag;
/* C of the first step. */
void uvcci_derive_chain(const uint8_t prk[32], uint64_t step, uint32_t run, uint8_t chain[32]);
/* C of `step` from that of the step before, in its place. */
void uvcci_ratchet(uint8_t chain[32], uint64_t step, uint32_t run);
void uvcci_derive_prg_key(const uint8_t chain[32], uvcci_tag tag, uint64_t step, uint32_t run,
                          uint8_t key[16]);
/* epoch: seq's counter >> UVCCI_EPOCH_BITS. */
#define UVCCI_EPOCH_BITS 18
void uvcci_derive_frame_key(const uint8_t chain[32], uint64_t step, uint32_t run, uint8_t src,
                            uint8_t dst, uint32_t epoch, uint8_t key[32]);
void uvcci_derive_ctl_key(const uint8_t prk[32], uint32_t run, uint8_t src, uint8_t dst,
                          uint8_t key[32]);
void uvcci_derive_leaf_salt(const uint8_t chain[32], uint64_t step, uint32_t run, uint8_t s[32]);
/* K_ab of HELLO: a < b; n_a, n_b the parties' N. */
void uvcci_derive_session_key(const uint8_t n_a[32], const uint8_t n_b[32], const uint8_t ikm[32],
                              const uint8_t sid_job[32], uint32_t run, uint8_t a, uint8_t b,
                              uint8_t k_ab[32]);
/* The same of two key agreements: kem is the second's id, `transcript` the hash of both HELLO 1 and
 * the ciphertext. */
void uvcci_derive_hybrid_key(const uint8_t n_a[32], const uint8_t n_b[32], const uint8_t ss_1[32],
                             const uint8_t ss_2[32], const uint8_t transcript[32], uint16_t kem,
                             uint32_t run, uint8_t a, uint8_t b, uint8_t k_ab[32]);
/* Of the HMAC by which parties a < b prove that they have their pair's secret. */
void uvcci_derive_proof_key(const uint8_t secret[32], const uint8_t sid_job[32], uint8_t a,
                            uint8_t b, uint8_t key[32]);
#endif
