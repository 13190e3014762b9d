/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.h - what bundle.c (bundles: bytes of a finished step), proof.c (proofs, roots of jobs) and
 * audit.c (bundles against each other) share: the head that all formats begin with, faults, and the
 * writer of bundles. The formats are public: uvcc/audit.h, docs/audit.md. Pure functions. */
#ifndef UVCCI_BUNDLE_H
#define UVCCI_BUNDLE_H

#include "proto/bytes.h"
#include "proto/optable.h"
#include "proto/statement.h"
#include "proto/transcript.h"

/* Who and where: the first bytes of all formats. */
typedef struct uvcci_head {
    uint8_t party, flags;
    uint16_t topology[3], at[3]; /* R, S, T; r, s, t */
    const uint8_t *sid_job;
    uint32_t step, run, first;
    const uint8_t *policy_hash;
} uvcci_head;
/* The place of a bundle's step, as `party` would name it. */
uvcci_head uvcci_bundle_head(const uvcc_bundle *b, uint8_t party);
#define UVCCI_HEAD_BYTES (8u + 2u + 12u + 32u + 12u + 32u)

#define UVCCI_MAGIC_BUNDLE "uvccbdl\2"
#define UVCCI_MAGIC_JOB    "uvccjob\2"
#define UVCCI_MAGIC_PROOF  "uvccprf\2"

/* What a head says, as a statement of a scope; the roots are missing. */
uvcc_statement uvcci_head_statement(const uvcci_head *h, uvcc_scope scope);

void uvcci_head_put(uvcci_writer *w, const char *magic, const uvcci_head *h);
/* Whether the magic is there. */
bool uvcci_head_magic(const uint8_t *bytes, size_t len, const char *magic);
/* Reads a head that is there as a whole; false if a field is out of range. flags_max: the greatest.
 */
bool uvcci_head_get(uvcci_head *h, const uint8_t *bytes, uint8_t flags_max);
/* The whole-record checksum of jobs' roots and proofs: CRC-32 of all but itself, at the end. */
bool uvcci_sum_good(const uint8_t *bytes, size_t len);
void uvcci_sum_put(uint8_t *bytes, size_t len);

/* Fills *f (may be NULL) with a fault that concerns no leaf; returns rc. */
int uvcci_fault_at(uvcc_audit_fault *f, int rc, uvcc_fault_kind kind, uint8_t party,
                   uint64_t offset);
/* A fault at a leaf of a bundle; returns rc. */
int uvcci_fault_leaf(uvcc_audit_fault *f, int rc, uvcc_fault_kind kind, const uvcc_bundle *b,
                     const uvcc_leaf *leaf);

/* What a type stands for in leaves.def: how many stored bytes name the leaf. */
size_t uvcci_leaf_key(uint8_t type);
bool uvcci_leaf_is_sent(uint8_t type);
bool uvcci_leaf_is_received(uint8_t type);
/* The fields of a stored leaf of `len` bytes; false if it is none. Leaves index, row, offset. */
bool uvcci_leaf_parse(uvcc_leaf *out, const uint8_t *stored, size_t len);
/* The leaf with its sid; returns its length. */
size_t uvcci_leaf_whole(const uint8_t sid_sub[32], const uint8_t *stored, size_t len,
                        uint8_t out[UVCC_LEAF_MAX_BYTES]);
/* Whether the fields can be those of a leaf of `party`, but for rows and STEP_BEGIN. */
bool uvcci_leaf_plausible(const uint8_t sid_sub[32], uint8_t party, const uvcc_leaf *leaf);

/* The root of a bundle's leaves; m->target as uvcci_merkle_begin. */
void uvcci_bundle_root(const uvcc_bundle *b, uvcci_merkle *m, uint32_t target, uint8_t root[32]);
/* The global root of a worker alone. */
void uvcci_worker_root(const uint8_t sid_job[32], uint16_t replica, uint32_t step,
                       const uint8_t step_root[32], uint8_t root[32]);
/* What is wrong with a signed statement by itself: SIGNATURE, AUDIT_ROOT or NONE. */
uvcc_fault_kind uvcci_statement_fault(const uvcc_statement *s, const uvcc_audit_keys *keys,
                                      const uint8_t signature[64]);

/* ---- writing ---- */

size_t uvcci_bundle_bytes(const uvcci_optable *table, const uvcci_transcript *t);
/* t is rooted. out has room for exactly uvcci_bundle_bytes(); no signed root is in it yet. */
void uvcci_bundle_encode(const uvcci_head *h, const uint8_t h_program[32],
                         const uvcci_optable *table, const uvcci_transcript *t,
                         const uint8_t step_root[32], uint8_t *out);
/* Puts what a party signed into a bundle that uvcci_bundle_encode made. */
void uvcci_bundle_put_audit(uint8_t *bytes, size_t len, uint8_t party, const uvcc_signed_root *s);
/* All three are in it. */
bool uvcci_bundle_complete(const uint8_t *bytes, size_t len);
/* Makes all checksums of a bundle right, as far as its form goes. */
void uvcci_bundle_seal(uint8_t *bytes, size_t len);
#endif
