/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c - from a leaf to a signed root: roots over all workers of a party, and proofs.
 *
 *     job root: head (r, s, t = 0) || R*S*T step roots || global_root || audit_root || before ||
 *               signature || CRC-32 of all
 *
 *     proof:    head (flags 1: up to a job root) || LE32 index || LE32 leaves || U8 n ||
 *               the leaf without its sid, n bytes || U8 siblings || siblings ||
 *               step roots of the leaf's replica || replica roots || audit_root || before ||
 *               signature || CRC-32 of all
 *
 * A proof up to the root of a worker alone has one step root and one replica root. */
#include "proto/bundle.h"

enum { SUM_BYTES = 4, FLAG_OF_JOB = 1, SIGNED_BYTES = 32 + 32 + 64 };

/* ---- job roots ---- */

static bool topology_good(uint16_t r, uint16_t s, uint16_t t) {
    return r != 0 && s != 0 && s <= 256 && t != 0;
}

static uint64_t workers_of(uint16_t r, uint16_t s, uint16_t t) {
    return (uint64_t)r * s * t;
}

int uvcc_audit_global_root(const uint8_t sid_job[32], uint32_t step, uint16_t replicas,
                           uint16_t stages, uint16_t tp_ranks, const uint8_t *step_roots,
                           uint8_t root[32]) {
    if (sid_job == NULL || step_roots == NULL || root == NULL ||
        !topology_good(replicas, stages, tp_ranks))
        return UVCC_ERR_USAGE;
    const uint32_t each = (uint32_t)stages * tp_ranks;
    uvcci_sha256 h;
    uvcci_global_root_begin(&h, sid_job, step);
    for (uint32_t r = 0; r < replicas; r++) {
        uint8_t sid_rep[32], replica_root[32];
        uvcci_sid_rep(sid_job, r, sid_rep);
        uvcci_replica_root(sid_rep, step, step_roots + (size_t)r * each * 32, each, replica_root);
        uvcci_sha256_update(&h, replica_root, 32);
    }
    uvcci_sha256_final(&h, root);
    return 0;
}

void uvcc_audit_root(uint8_t *roots, uint32_t count, uint8_t root[32]) {
    if (roots == NULL || root == NULL)
        return;
    uvcci_merkle_root(roots, count, root);
}

size_t uvcc_job_root_bytes(uint16_t replicas, uint16_t stages, uint16_t tp_ranks) {
    if (!topology_good(replicas, stages, tp_ranks))
        return 0;
    return UVCCI_HEAD_BYTES + (size_t)workers_of(replicas, stages, tp_ranks) * 32 + 32 +
           SIGNED_BYTES + SUM_BYTES;
}

static uvcci_head head_of_job(const uvcc_job_root *j) {
    return (uvcci_head){.party = j->party,
                        .topology = {j->replicas, j->stages, j->tp_ranks},
                        .sid_job = j->sid_job,
                        .step = j->step,
                        .run = j->run,
                        .first = j->first,
                        .policy_hash = j->policy_hash};
}

/* The tree takes the root last, so that it is as it was after an error. */
int uvcc_job_root_encode(const uvcc_job_root *j, uvcc_audit_tree *run, const uint8_t sign_seed[32],
                         uint8_t *out, size_t cap) {
    static const uint8_t zero[32];
    if (j == NULL || run == NULL || sign_seed == NULL || out == NULL || j->party >= UVCC_PARTIES ||
        j->sid_job == NULL || j->policy_hash == NULL || j->step_roots == NULL ||
        j->first > j->step || run->count != j->step - j->first)
        return UVCC_ERR_USAGE;
    const size_t len = uvcc_job_root_bytes(j->replicas, j->stages, j->tp_ranks);
    if (len == 0 || cap < len)
        return UVCC_ERR_USAGE;
    uint8_t root[32], audit_root[32], pk[32], sk[64], signature[64];
    uvcc_audit_tree tree = *run;
    int rc = uvcc_audit_global_root(j->sid_job, j->step, j->replicas, j->stages, j->tp_ranks,
                                    j->step_roots, root);
    if (rc == 0)
        rc = uvcc_audit_tree_add(&tree, root);
    if (rc == 0)
        rc = uvcc_audit_tree_root(&tree, audit_root);
    if (rc != 0)
        return rc;
    uvcci_head h = head_of_job(j);
    uvcc_statement st = uvcci_head_statement(&h, UVCC_SCOPE_JOB);
    st.root = root;
    st.audit_root = audit_root;
    st.before = j->global.before != NULL ? j->global.before : zero;
    uvcci_sign_keypair(sign_seed, pk, sk);
    uvcci_statement_sign(&st, sk, signature);
    uvcci_wipe(sk, sizeof sk);
    uvcci_writer w = uvcci_writer_on(out, len);
    uvcci_head_put(&w, UVCCI_MAGIC_JOB, &h);
    uvcci_put(&w, j->step_roots, (size_t)workers_of(j->replicas, j->stages, j->tp_ranks) * 32);
    uvcci_put(&w, root, 32);
    uvcci_put(&w, audit_root, 32);
    uvcci_put(&w, st.before, 32);
    uvcci_put(&w, signature, 64);
    uvcci_sum_put(out, len);
    *run = tree;
    return 0;
}

/* Magic, room for a head, the checksum over all. */
static int check_record(const uint8_t *bytes, size_t len, const char *magic, size_t least,
                        uvcc_audit_fault *f) {
    if (len >= 8 && !uvcci_head_magic(bytes, len, magic))
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_MAGIC, UVCC_NO_PARTY, 0);
    if (len < least)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CUT, UVCC_NO_PARTY, len);
    if (!uvcci_sum_good(bytes, len))
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CHECKSUM, UVCC_NO_PARTY, 0);
    return 0;
}

/* The number of step roots follows from the topology, and the length from that: nothing is read
 * that is not known to be there. */
int uvcc_job_root_decode(uvcc_job_root *out, const uint8_t *bytes, size_t len,
                         uvcc_audit_fault *fault) {
    if (out == NULL || (bytes == NULL && len != 0))
        return UVCC_ERR_USAGE;
    uvcci_head h;
    int rc = check_record(bytes, len, UVCCI_MAGIC_JOB,
                          UVCCI_HEAD_BYTES + 32 + 32 + SIGNED_BYTES + SUM_BYTES, fault);
    if (rc != 0)
        return rc;
    if (!uvcci_head_get(&h, bytes, 0) || h.at[0] != 0 || h.at[1] != 0 || h.at[2] != 0)
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, UVCC_NO_PARTY, 8);
    const uint64_t roots = workers_of(h.topology[0], h.topology[1], h.topology[2]) * 32;
    const uint64_t left = len - (UVCCI_HEAD_BYTES + 32 + SIGNED_BYTES + SUM_BYTES);
    if (left != roots)
        return uvcci_fault_at(fault, UVCC_ERR_FRAME,
                              left < roots ? UVCC_FAULT_CUT : UVCC_FAULT_LEFT_OVER, h.party, len);
    const uint8_t *p = bytes + UVCCI_HEAD_BYTES, *global = p + roots;
    *out = (uvcc_job_root){.party = h.party,
                           .replicas = h.topology[0],
                           .stages = h.topology[1],
                           .tp_ranks = h.topology[2],
                           .step = h.step,
                           .run = h.run,
                           .first = h.first,
                           .sid_job = h.sid_job,
                           .policy_hash = h.policy_hash,
                           .step_roots = p,
                           .global = {.root = global,
                                      .audit_root = global + 32,
                                      .before = global + 64,
                                      .signature = global + 96}};
    return uvcci_fault_at(fault, 0, UVCC_FAULT_NONE, h.party, 0);
}

int uvcc_job_root_check(const uvcc_job_root *j, const uvcc_audit_keys *keys,
                        uvcc_audit_fault *fault) {
    uint8_t root[32];
    if (j == NULL || keys == NULL || j->party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    int rc = uvcc_audit_global_root(j->sid_job, j->step, j->replicas, j->stages, j->tp_ranks,
                                    j->step_roots, root);
    if (rc != 0)
        return rc;
    if (memcmp(root, j->global.root, 32) != 0)
        return uvcci_fault_at(fault, UVCC_ERR_AUTH, UVCC_FAULT_GLOBAL, j->party, 0);
    const uvcci_head h = head_of_job(j);
    uvcc_statement st = uvcci_head_statement(&h, UVCC_SCOPE_JOB);
    st.root = j->global.root;
    st.audit_root = j->global.audit_root;
    st.before = j->global.before;
    const uvcc_fault_kind kind = uvcci_statement_fault(&st, keys, j->global.signature);
    return uvcci_fault_at(fault, kind != UVCC_FAULT_NONE ? UVCC_ERR_AUTH : 0, kind, j->party, 0);
}

/* ---- proofs ---- */

size_t uvcc_proof_max_bytes(const uvcc_job_root *job) {
    size_t roots = job == NULL ? 2 : (size_t)job->stages * job->tp_ranks + job->replicas;
    return UVCCI_HEAD_BYTES + 8 + 1 + UVCC_LEAF_MAX_BYTES + 1 + 32 * UVCC_PATH_MAX + 32 * roots +
           SIGNED_BYTES + SUM_BYTES;
}

static bool job_fits(const uvcc_bundle *b, const uvcc_job_root *j) {
    const size_t at = ((size_t)b->replica * j->stages + b->stage) * j->tp_ranks + b->tp_rank;
    return j->party == b->party && j->replicas == b->replicas && j->stages == b->stages &&
           j->tp_ranks == b->tp_ranks && j->step == b->step && j->run == b->run &&
           j->first == b->first && memcmp(j->sid_job, b->sid_job, 32) == 0 &&
           memcmp(j->policy_hash, b->policy_hash, 32) == 0 &&
           memcmp(j->step_roots + 32 * at, b->step_root, 32) == 0;
}

/* The roots of the upper levels, and the rest of the statement with its signature. */
static void put_upper(uvcci_writer *w, const uvcc_bundle *b, const uvcc_job_root *j) {
    const uint32_t each = j == NULL ? 1 : (uint32_t)j->stages * j->tp_ranks;
    const uint32_t replicas = j == NULL ? 1 : j->replicas;
    const uint8_t *step_roots =
        j == NULL ? b->step_root : j->step_roots + (size_t)b->replica * each * 32;
    uvcci_put(w, step_roots, (size_t)each * 32);
    for (uint32_t r = 0; r < replicas; r++) {
        uint8_t sid_rep[32], root[32];
        uvcci_sid_rep(b->sid_job, j == NULL ? b->replica : r, sid_rep);
        uvcci_replica_root(sid_rep, b->step,
                           j == NULL ? step_roots : j->step_roots + (size_t)r * each * 32, each,
                           root);
        uvcci_put(w, root, 32);
    }
    const uvcc_signed_root *s = j == NULL ? &b->audit[b->party] : &j->global;
    uvcci_put(w, s->audit_root, 32);
    uvcci_put(w, s->before, 32);
    uvcci_put(w, s->signature, 64);
}

/* The leaf goes without its sid, which follows from the head, and the signature covers the head. */
int64_t uvcc_proof_make(const uvcc_bundle *b, uint32_t index, const uvcc_job_root *job,
                        uint8_t *out, size_t cap) {
    if (b == NULL || out == NULL || index >= b->leaf_count)
        return UVCC_ERR_USAGE;
    if (job != NULL && !job_fits(b, job))
        return UVCC_ERR_MISMATCH;
    uvcc_leaf_reader r;
    uvcc_leaf l = {0};
    uvcci_merkle m;
    uint8_t root[32];
    uvcc_leaf_reader_init(&r, b);
    while (uvcc_leaf_next(&r, &l) == 1 && l.index != index)
        ;
    uvcci_bundle_root(b, &m, index, root);
    uvcci_head h = uvcci_bundle_head(b, b->party);
    h.flags = job != NULL ? FLAG_OF_JOB : 0;
    uvcci_writer w = uvcci_writer_on(out, cap);
    uvcci_head_put(&w, UVCCI_MAGIC_PROOF, &h);
    uvcci_put32(&w, index);
    uvcci_put32(&w, b->leaf_count);
    uvcci_put8(&w, (uint8_t)l.stored_len);
    uvcci_put(&w, l.stored, l.stored_len);
    uvcci_put8(&w, (uint8_t)m.sibling_count);
    uvcci_put(&w, m.sibling, 32 * (size_t)m.sibling_count);
    put_upper(&w, b, job);
    uvcci_put32(&w, 0);
    if (w.bad)
        return UVCC_ERR_LIMIT;
    uvcci_sum_put(out, w.len);
    return (int64_t)w.len;
}

/* Checks the form only, before anything is hashed: every length is computed from the fields and
 * must be exactly what is there, so what uvcc_proof_check reads later is in bounds. */
int uvcc_proof_decode(uvcc_proof *out, const uint8_t *bytes, size_t len, uvcc_audit_fault *fault) {
    if (out == NULL || (bytes == NULL && len != 0))
        return UVCC_ERR_USAGE;
    uvcci_head h;
    int rc = check_record(bytes, len, UVCCI_MAGIC_PROOF, UVCCI_HEAD_BYTES + SUM_BYTES, fault);
    if (rc != 0)
        return rc;
    if (!uvcci_head_get(&h, bytes, FLAG_OF_JOB))
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, UVCC_NO_PARTY, 8);
    uvcc_proof p = {.party = h.party,
                    .replicas = h.topology[0],
                    .stages = h.topology[1],
                    .tp_ranks = h.topology[2],
                    .replica = h.at[0],
                    .stage = h.at[1],
                    .tp_rank = h.at[2],
                    .of_job = h.flags == FLAG_OF_JOB,
                    .step = h.step,
                    .run = h.run,
                    .first = h.first,
                    .sid_job = h.sid_job,
                    .policy_hash = h.policy_hash};
    uint8_t sid_rep[32], sid_sub[32], stored[UINT8_MAX];
    uvcc_leaf leaf = {0};
    uvcci_reader r = uvcci_reader_on(bytes, len - SUM_BYTES);
    r.at = UVCCI_HEAD_BYTES;
    p.index = uvcci_get32(&r);
    p.leaf_count = uvcci_get32(&r);
    const size_t n = uvcci_get8(&r);
    const size_t leaf_at = r.at;
    uvcci_get(&r, stored, n);
    p.path_len = uvcci_get8(&r);
    if (r.bad)
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_CUT, p.party, len);
    uvcci_sid_rep(p.sid_job, p.replica, sid_rep);
    uvcci_sid_sub(sid_rep, (uint8_t)p.stage, p.tp_rank, sid_sub);
    if (!uvcci_leaf_parse(&leaf, stored, n))
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_FORM, p.party, leaf_at);
    if (leaf.type != UVCC_LEAF_STEP_BEGIN && !uvcci_leaf_plausible(sid_sub, p.party, &leaf))
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_FIELD, p.party, leaf_at);
    if (p.path_len > UVCC_PATH_MAX)
        return uvcci_fault_at(fault, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, p.party, leaf_at + n);
    p.leaf_len = uvcci_leaf_whole(sid_sub, stored, n, p.leaf);
    const size_t steps_len = (p.of_job ? (size_t)p.stages * p.tp_ranks : 1) * 32;
    const size_t replicas = (p.of_job ? (size_t)p.replicas : 1) * 32;
    const size_t want = 32 * (size_t)p.path_len + steps_len + replicas + SIGNED_BYTES;
    const size_t left = r.len - r.at;
    if (left != want)
        return uvcci_fault_at(fault, UVCC_ERR_FRAME,
                              left < want ? UVCC_FAULT_CUT : UVCC_FAULT_LEFT_OVER, p.party, len);
    p.path = bytes + r.at;
    p.step_roots = p.path + 32 * (size_t)p.path_len;
    p.replica_roots = p.step_roots + steps_len;
    p.audit_root = p.replica_roots + replicas;
    p.before = p.audit_root + 32;
    p.signature = p.before + 32;
    *out = p;
    return uvcci_fault_at(fault, 0, UVCC_FAULT_NONE, p.party, 0);
}

/* What the leaf leads to is what the statement is of: its global root is computed, not read. */
int uvcc_proof_check(const uvcc_proof *p, const uvcc_audit_keys *keys, uvcc_audit_fault *fault) {
    if (p == NULL || keys == NULL || p->party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    const size_t at = p->of_job ? (size_t)p->stage * p->tp_ranks + p->tp_rank : 0;
    const uint32_t each = p->of_job ? (uint32_t)p->stages * p->tp_ranks : 1;
    const uint32_t replicas = p->of_job ? p->replicas : 1;
    uint8_t h[32], sid_rep[32], replica_root[32], root[32];
    uvcci_sha256_once(p->leaf, p->leaf_len, h);
    if (uvcci_merkle_verify(h, p->index, p->leaf_count, p->path, p->path_len,
                            p->step_roots + 32 * at) != 0)
        return uvcci_fault_at(fault, UVCC_ERR_AUTH, UVCC_FAULT_PATH, p->party, 0);
    uvcci_sid_rep(p->sid_job, p->replica, sid_rep);
    uvcci_replica_root(sid_rep, p->step, p->step_roots, each, replica_root);
    if (memcmp(replica_root, p->replica_roots + 32 * (size_t)(p->of_job ? p->replica : 0), 32) != 0)
        return uvcci_fault_at(fault, UVCC_ERR_AUTH, UVCC_FAULT_GLOBAL, p->party, 0);
    uvcci_global_root(p->sid_job, p->step, p->replica_roots, replicas, root);
    const uvcci_head head = {.party = p->party,
                             .topology = {p->replicas, p->stages, p->tp_ranks},
                             .at = {p->replica, p->stage, p->tp_rank},
                             .sid_job = p->sid_job,
                             .step = p->step,
                             .run = p->run,
                             .first = p->first,
                             .policy_hash = p->policy_hash};
    uvcc_statement st = uvcci_head_statement(&head, p->of_job ? UVCC_SCOPE_JOB : UVCC_SCOPE_WORKER);
    st.root = root;
    st.audit_root = p->audit_root;
    st.before = p->before;
    const uvcc_fault_kind kind = uvcci_statement_fault(&st, keys, p->signature);
    return uvcci_fault_at(fault, kind != UVCC_FAULT_NONE ? UVCC_ERR_AUTH : 0, kind, p->party, 0);
}
