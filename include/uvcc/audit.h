/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/audit.h - the transcript of a finished step as bytes (a bundle), what an auditor checks of
 * the bundles of three parties, and proofs of single leaves (docs/audit.md has the formats and what
 * they prove).
 *
 * A bundle holds hashes only: no share, no key, no value. Digests of messages and shares are keyed
 * by salts that only the two parties of a pair know; hashes of what was opened to all are plain. It
 * reveals the program's op table (which follows from the program and its public shapes), who sent
 * what to whom in which op, and signed roots. Whoever learns a salt besides (a party of that pair
 * gives it away, or opens it in a dispute) can test guesses of what a digest is of. So A PARTY'S
 * BUNDLES GO TO AN AUDITOR, NEVER TO ANOTHER PARTY; an auditor who works with a party is that party
 * with the leaves of the others. A proof reveals one leaf and roots, and may be shown to anyone who
 * may know that leaf.
 *
 * Everything here is a pure function: no allocation, no state, any bytes as input. Views point into
 * the caller's bytes. Work is linear in the bytes given.
 */
#ifndef UVCC_AUDIT_H
#define UVCC_AUDIT_H

#include <stdbool.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_LEAF_MAX_BYTES 160u
#define UVCC_NO_LEAF        UINT32_MAX
#define UVCC_NO_PARTY       0xFFu
/** Siblings of a leaf up to its step root. */
#define UVCC_PATH_MAX 32u

typedef enum uvcc_leaf_type {
#define UVCC_LEAF(name, code, bytes, key) UVCC_LEAF_##name = (code),
#include <uvcc/leaves.def>
#undef UVCC_LEAF
} uvcc_leaf_type;
/** "OPEN_SENT"; "UNKNOWN" for what is none. */
UVCC_API const char *uvcc_leaf_name(uint8_t type);

/** What is wrong: faults.def. */
typedef enum uvcc_fault_kind {
#define UVCC_FAULT(name, code, text) UVCC_FAULT_##name = (code),
#include <uvcc/faults.def>
#undef UVCC_FAULT
} uvcc_fault_kind;
/** A static sentence. */
UVCC_API const char *uvcc_fault_text(uvcc_fault_kind kind);

/** The first fault found: of whose bundle, where in it, and the other party that disagrees. */
typedef struct uvcc_audit_fault {
    uvcc_fault_kind kind;
    uint8_t party;       /**< whose bundle; UVCC_NO_PARTY if its header does not say so */
    uint8_t other;       /**< the party of the counterpart, or UVCC_NO_PARTY */
    uint8_t type;        /**< of the leaf (MISSING: of the other's); 0: no leaf is concerned */
    uint32_t leaf;       /**< index in `party`'s bundle, or UVCC_NO_LEAF */
    uint32_t other_leaf; /**< index in `other`'s bundle, or UVCC_NO_LEAF */
    uint32_t row,
        op_id; /**< of the leaf in the op table, or the row that is wrong; UVCC_NO_LEAF, 0: none */
    uint64_t offset; /**< byte in `party`'s bundle where it stands */
} uvcc_audit_fault;

/** Ed25519 public keys of the parties, as the auditor got them from the parties: not from what is
 * to be checked. */
typedef struct uvcc_audit_keys {
    uint8_t key[UVCC_PARTIES][32];
} uvcc_audit_keys;

/* ---- statements ---- */

/** Of what a statement is. */
typedef enum uvcc_scope {
    UVCC_SCOPE_WORKER = 1, /**< a step of one worker, as its session signs it */
    UVCC_SCOPE_JOB = 2     /**< a step of all workers of a party; replica, stage, tp_rank are 0 */
} uvcc_scope;

/** What a party signs of a step (wire.md 8). Two of one scope, party, job, worker, run and step
 * with different content, both signed, prove that the party cheated or used a run number twice.
 * The pointers are views of 32 bytes. */
typedef struct uvcc_statement {
    uint8_t scope; /**< uvcc_scope */
    uint8_t party;
    uint16_t replicas, stages, tp_ranks, replica, stage, tp_rank;
    uint32_t run, step;
    uint32_t first; /**< the run's first step */
    const uint8_t *sid_job;
    const uint8_t *root;       /**< the global root of the step */
    const uint8_t *audit_root; /**< over the global roots of the run's steps first..step */
    const uint8_t *before;     /**< the audit_root that the run goes on from, zeros if none */
    const uint8_t *policy_hash;
} uvcc_statement;
#define UVCC_STATEMENT_BYTES 199u

/** The bytes that are signed. 0, or UVCC_ERR_USAGE for fields that cannot be. */
UVCC_API int uvcc_statement_encode(const uvcc_statement *s, uint8_t out[UVCC_STATEMENT_BYTES]);
/** 0 if it is signed by the Ed25519 public key, UVCC_ERR_AUTH if not, UVCC_ERR_USAGE as encode. */
UVCC_API int uvcc_statement_check(const uvcc_statement *s, const uint8_t key[32],
                                  const uint8_t signature[64]);

/** The Merkle tree (wire.md 8) over the global roots of a run's steps as they come: constant in
 * size, one hash per level. The caller does not look into it. */
typedef struct uvcc_audit_tree {
    uint8_t node[32][32];
    uint32_t count;
} uvcc_audit_tree;
UVCC_API void uvcc_audit_tree_init(uvcc_audit_tree *t);
/** The next step's root. 0, UVCC_ERR_USAGE, UVCC_ERR_LIMIT after 2^32 - 1. */
UVCC_API int uvcc_audit_tree_add(uvcc_audit_tree *t, const uint8_t global_root[32]);
/** The audit root over what was added so far; more may be added after it. 0 or UVCC_ERR_USAGE. */
UVCC_API int uvcc_audit_tree_root(const uvcc_audit_tree *t, uint8_t root[32]);

/* ---- bundles ---- */

/** What a party signed of a step; views, NULL if it is not here. */
typedef struct uvcc_signed_root {
    const uint8_t *root;       /**< 32 bytes: global_root of wire.md 8 */
    const uint8_t *audit_root; /**< 32 bytes: as in uvcc_statement */
    const uint8_t *before;     /**< 32 bytes: as in uvcc_statement */
    const uint8_t *signature;  /**< 64 bytes */
} uvcc_signed_root;

/** A decoded bundle: views into its bytes. */
typedef struct uvcc_bundle {
    const uint8_t *bytes;
    size_t len;
    uint8_t party;
    uint16_t replicas, stages, tp_ranks, replica, stage, tp_rank;
    uint32_t step, run, first;                        /**< first: the run's first step */
    const uint8_t *sid_job, *h_program, *policy_hash; /**< 32 bytes each */
    const uint8_t *rows; /**< row_count rows of the op table, 13 bytes each (wire.md 1) */
    uint32_t row_count, leaf_count;
    const uint8_t *leaves; /**< the leaves' records */
    size_t leaves_len;
    const uint8_t *step_root;  /**< as it says; uvcc_bundle_check compares */
    uvcc_signed_root audit[3]; /**< by party: the own one, and the peers' AUDITs */
    uint8_t sid_sub[32];
} uvcc_bundle;

/** Reads a bundle and checks all that it says by itself: form, checksums, the derivation of every
 * id, the order of rows and leaves. 0; UVCC_ERR_FRAME and *fault; UVCC_ERR_USAGE. `fault` may be
 * NULL here and below. */
UVCC_API int uvcc_bundle_decode(uvcc_bundle *out, const uint8_t *bytes, size_t len,
                                uvcc_audit_fault *fault);
/** What party q says it signed of this step, as a bundle has it; b->audit[q] must be here. */
UVCC_API void uvcc_bundle_statement(const uvcc_bundle *b, uint8_t q, uvcc_statement *out);
/** The leaves of a decoded bundle give its step root, that its global root, and every statement in
 * it is signed by its party's key. 0, or UVCC_ERR_AUTH and *fault. */
UVCC_API int uvcc_bundle_check(const uvcc_bundle *b, const uvcc_audit_keys *keys,
                               uvcc_audit_fault *fault);
/** The bundles of parties 0, 1, 2 of one worker and step: each as by uvcc_bundle_check, and against
 * each other: what one says it sent is what the other says it received, both ends of keys and
 * openings and both holders of a component have the same digest, the steps began alike, and each
 * has what the others signed. Where a root is wrong and a leaf differs from its
 * counterpart, the leaf is named. 0, or UVCC_ERR_AUTH and *fault. */
UVCC_API int uvcc_bundle_verify(const uvcc_bundle b[3], const uvcc_audit_keys *keys,
                                uvcc_audit_fault *fault);

typedef struct uvcc_leaf {
    uint32_t index, row; /**< row of the op table; STEP_BEGIN: 0 */
    uint8_t type;
    uint8_t src, dst;      /**< UVCC_NO_PARTY where the type has none */
    uint32_t op_id;        /**< 0 for STEP_BEGIN */
    const uint8_t *digest; /**< D: 32 bytes, or NULL */
    const uint8_t *stored; /**< the leaf without its sid */
    size_t stored_len;
    uint64_t offset; /**< of its record in the bundle */
} uvcc_leaf;

/** Walks the leaves of a decoded bundle. */
typedef struct uvcc_leaf_reader {
    const uvcc_bundle *bundle;
    size_t at;
    uint32_t index, row;
} uvcc_leaf_reader;
UVCC_API void uvcc_leaf_reader_init(uvcc_leaf_reader *r, const uvcc_bundle *b);
/** 1 and the next leaf, 0 at the end. */
UVCC_API int uvcc_leaf_next(uvcc_leaf_reader *r, uvcc_leaf *out);
/** The leaf's bytes as hashed (its sid put back); returns their number. */
UVCC_API size_t uvcc_leaf_bytes(const uvcc_bundle *b, const uvcc_leaf *leaf,
                                uint8_t out[UVCC_LEAF_MAX_BYTES]);
UVCC_API void uvcc_leaf_hash(const uvcc_bundle *b, const uvcc_leaf *leaf, uint8_t hash[32]);

/* ---- roots of jobs of several workers ---- */

/** global_root of a party's workers: step_roots holds R*S*T roots of 32 bytes in (r, s, t) order,
 * that of worker (r, s, t) at (r*S + s)*T + t. With one worker it is the root that its session
 * signs. UVCC_ERR_USAGE for a topology that cannot be. */
UVCC_API int uvcc_audit_global_root(const uint8_t sid_job[32], uint32_t step, uint16_t replicas,
                                    uint16_t stages, uint16_t tp_ranks, const uint8_t *step_roots,
                                    uint8_t root[32]);
/** The audit root over `count` steps: the Merkle root of their global roots, in order, as
 * uvcc_audit_tree makes it one by one. `roots` (count * 32 bytes) is scratch and is overwritten. */
UVCC_API void uvcc_audit_root(uint8_t *roots, uint32_t count, uint8_t root[32]);

/** A party's signed root over all its workers of a step; views. */
typedef struct uvcc_job_root {
    uint8_t party;
    uint16_t replicas, stages, tp_ranks;
    uint32_t step, run, first; /**< first: the run's first step */
    const uint8_t *sid_job, *policy_hash;
    const uint8_t *step_roots; /**< in (r, s, t) order */
    uvcc_signed_root global;   /**< encode reads `before` alone, NULL for zeros */
} uvcc_job_root;

/** Bytes of the record of a topology; 0 if it cannot be. */
UVCC_API size_t uvcc_job_root_bytes(uint16_t replicas, uint16_t stages, uint16_t tp_ranks);
/** Computes the global root, signs the statement with the party's sign_seed and writes the record:
 * exactly uvcc_job_root_bytes(). `run` has the party's global roots over all workers of the run's
 * steps first..step-1, and this step's goes into it. 0, or UVCC_ERR_USAGE and `run` as it was. */
UVCC_API int uvcc_job_root_encode(const uvcc_job_root *j, uvcc_audit_tree *run,
                                  const uint8_t sign_seed[32], uint8_t *out, size_t cap);
/** As uvcc_bundle_decode. */
UVCC_API int uvcc_job_root_decode(uvcc_job_root *out, const uint8_t *bytes, size_t len,
                                  uvcc_audit_fault *fault);
/** The step roots give the global root, and the statement of it is signed by the party's key. As
 * uvcc_bundle_check. */
UVCC_API int uvcc_job_root_check(const uvcc_job_root *j, const uvcc_audit_keys *keys,
                                 uvcc_audit_fault *fault);

/* ---- proofs ---- */

/** A proof that a leaf is under a root that a party signed; views. */
typedef struct uvcc_proof {
    uint8_t party;
    uint16_t replicas, stages, tp_ranks, replica, stage, tp_rank; /**< of the worker */
    bool of_job; /**< up to the root over all workers; else to that of the worker alone */
    uint32_t step, run, first; /**< first: the run's first step */
    const uint8_t *sid_job, *policy_hash;
    uint32_t index, leaf_count; /**< the leaf's place; the number of leaves is what the proof
                                   says and not what it proves */
    uint8_t leaf[UVCC_LEAF_MAX_BYTES];
    size_t leaf_len;
    const uint8_t *path; /**< path_len siblings of 32 bytes, from the bottom */
    uint8_t path_len;
    const uint8_t *step_roots;    /**< of the leaf's replica, in (s, t) order; one if not of_job */
    const uint8_t *replica_roots; /**< one if not of_job */
    const uint8_t *audit_root, *before, *signature; /**< 32, 32, 64 bytes */
} uvcc_proof;

/** Most bytes that a proof under this topology takes; job NULL: without a root over all workers. */
UVCC_API size_t uvcc_proof_max_bytes(const uvcc_job_root *job);
/** The proof of leaf `index` of a decoded bundle. job: the checked root over all workers, or NULL
 * to prove up to the root of this worker alone. Returns the number of bytes written;
 * UVCC_ERR_USAGE, UVCC_ERR_LIMIT if they do not fit, UVCC_ERR_MISMATCH if `job` is of another step
 * or does not have this bundle's step root. */
UVCC_API int64_t uvcc_proof_make(const uvcc_bundle *b, uint32_t index, const uvcc_job_root *job,
                                 uint8_t *out, size_t cap);
/** Reads a proof: 0, or UVCC_ERR_FRAME and *fault. */
UVCC_API int uvcc_proof_decode(uvcc_proof *out, const uint8_t *bytes, size_t len,
                               uvcc_audit_fault *fault);
/** The leaf leads to the step root, that to the global root, and the statement of that is signed by
 * the party's key. 0, or UVCC_ERR_AUTH and *fault. What it proves: that party signed a transcript
 * of this step and run with this leaf in it. It says nothing of other leaves, nor that the leaf is
 * true. */
UVCC_API int uvcc_proof_check(const uvcc_proof *p, const uvcc_audit_keys *keys,
                              uvcc_audit_fault *fault);

#ifdef __cplusplus
}
#endif
#endif
