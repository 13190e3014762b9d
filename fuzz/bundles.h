/* SPDX-License-Identifier: Apache-2.0 */
/* bundles.h - three small bundles of one step, made of leaves by hand: what fuzz_audit damages and
 * make_corpus seeds. */
#ifndef UVCC_FUZZ_BUNDLES_H
#define UVCC_FUZZ_BUNDLES_H

#include "common.h"

#include "proto/bundle.h"
#include <uvcc/frame.h>

/* Rows of the op table: an op with two batches, an input, an output. */
enum { OP, SECOND, INPUT, OUTPUT, FUZZ_ROWS };
#define FUZZ_BUNDLE_BYTES 2048u

typedef struct fuzz_bundles {
    uint8_t bytes[3][FUZZ_BUNDLE_BYTES];
    size_t len[3];
    uvcc_audit_keys keys;
    uint8_t sid_job[32], policy_hash[32];
} fuzz_bundles;

typedef struct fuzz_step {
    uint8_t sid_sub[32];
    uvcci_oprow rows[FUZZ_ROWS];
    uint32_t index[16];
    uvcci_optable table;
    uvcci_transcript *t[3];
} fuzz_step;

static inline void fuzz_leaf(fuzz_step *s, unsigned party, uint32_t row, const uint8_t *leaf,
                             size_t n) {
    if (uvcci_transcript_add(s->t[party], row, leaf, n) != 0)
        abort();
}

/* A batch at both ends. */
static inline void fuzz_batch(fuzz_step *s, uint32_t row, uint8_t kind, uint8_t type, uint8_t src,
                              uint8_t dst) {
    const uint32_t op = s->table.rows[row].op_id;
    const uint32_t msg = uvcci_msg_id(kind, s->sid_sub, op, src, dst, 0, 1);
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], d[32];
    memset(d, 16 * type + 3 * src + dst, sizeof d);
    fuzz_leaf(s, src, row, leaf, uvcci_leaf_batch(leaf, type, s->sid_sub, op, src, dst, msg, d));
    fuzz_leaf(s, dst, row, leaf,
              uvcci_leaf_batch(leaf, (uint8_t)(type + 1), s->sid_sub, op, src, dst, msg, d));
}

static inline void fuzz_leaves(fuzz_step *s) {
    const uint32_t op = s->table.rows[OP].op_id, out = s->table.rows[OUTPUT].op_id;
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], d[32] = {9};
    for (uint8_t p = 0; p < 3; p++) {
        const uint8_t back = (uint8_t)((p + 2) % 3);
        fuzz_batch(s, OUTPUT, UVCC_FRAME_OPEN_BATCH, UVCCI_LEAF_OPEN_SENT, p, back);
        fuzz_leaf(s, p, OUTPUT, leaf, uvcci_leaf_open_done(leaf, s->sid_sub, out, 77, 0, d));
        fuzz_leaf(s, p, OP, leaf, uvcci_leaf_lift_done(leaf, s->sid_sub, op, 5, 16));
        fuzz_leaf(s, p, OP, leaf, uvcci_leaf_component_commit(leaf, s->sid_sub, op, 5, p, d));
        fuzz_leaf(s, back, OP, leaf, uvcci_leaf_component_commit(leaf, s->sid_sub, op, 5, p, d));
    }
    for (uint8_t p = 0; p < 2; p++) { /* party 2 deals; HEAD is 0, TAIL is 1 */
        fuzz_batch(s, INPUT, UVCC_FRAME_INPUT_BATCH, UVCCI_LEAF_SHARE_SENT, 2, p);
        fuzz_batch(s, OP, UVCC_FRAME_OPEN_BATCH, UVCCI_LEAF_OPEN_SENT, p, 1 - p);
        fuzz_leaf(s, p, OP, leaf, uvcci_leaf_open_done(leaf, s->sid_sub, op, 78, 0, d));
        size_t n = uvcci_leaf_keys_done(leaf, s->sid_sub, op, 2, p, d);
        fuzz_leaf(s, p, OP, leaf, n);
        fuzz_leaf(s, 2, OP, leaf, n);
    }
    fuzz_batch(s, SECOND, UVCC_FRAME_LIFT_BATCH, UVCCI_LEAF_LIFT_SENT, 1, 2);
}

static inline void fuzz_bundle_end(fuzz_bundles *b, fuzz_step *s, uint8_t party) {
    static const uint16_t one[3] = {1, 1, 1};
    static const uint8_t h_program[32] = {4}, h_shapes[32] = {5};
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], h_table[32], epoch[32], root[32], sig[64], seed[32], sk[64];
    uint8_t audit_root[32], before[32];
    uvcci_optable_hash(&s->table, h_table);
    fuzz_leaf(s, party, 0, leaf,
              uvcci_leaf_step_begin(leaf, s->sid_sub, 6, 2, one, h_program, h_shapes, h_table));
    if (uvcci_transcript_root(s->t[party], epoch) != 0)
        abort();
    const uvcci_head h = {.party = party,
                          .topology = {1, 1, 1},
                          .sid_job = b->sid_job,
                          .step = 6,
                          .run = 2,
                          .first = 4,
                          .policy_hash = b->policy_hash};
    b->len[party] = uvcci_bundle_bytes(&s->table, s->t[party]);
    if (b->len[party] > FUZZ_BUNDLE_BYTES)
        abort();
    uvcci_bundle_encode(&h, h_program, &s->table, s->t[party], epoch, b->bytes[party]);
    uvcci_worker_root(b->sid_job, 0, 6, epoch, root);
    memset(seed, 1 + party, sizeof seed);
    uvcci_sign_keypair(seed, b->keys.key[party], sk);
    memset(audit_root, 0x60 + party, sizeof audit_root);
    memset(before, 0x70 + party, sizeof before);
    uvcc_statement st = uvcci_head_statement(&h, UVCC_SCOPE_WORKER);
    st.root = root;
    st.audit_root = audit_root;
    st.before = before;
    uvcci_statement_sign(&st, sk, sig);
    const uvcc_signed_root views = {
        .root = root, .audit_root = audit_root, .before = before, .signature = sig};
    for (unsigned p = 0; p < 3; p++) /* the later ones once they are made */
        if (p <= party)
            uvcci_bundle_put_audit(b->bytes[p], b->len[p], party, &views);
}

/* The AUDITs of parties 0 and 1 in the bundles of those after them are missing: a run's last step.
 */
static inline void fuzz_bundles_make(fuzz_bundles *b) {
    fuzz_mem mem = {0};
    uvcc_allocator al = fuzz_allocator(&mem);
    uint8_t sid_rep[32];
    fuzz_step s = {
        .rows = {{.k = 254 * 256}, {.k = 1}, {.k = 1, .b = 1}, {.phase = 2, .k = 65024}}};
    memset(b, 0, sizeof *b);
    memset(b->sid_job, 0x31, sizeof b->sid_job);
    s.table =
        (uvcci_optable){.rows = s.rows, .count = FUZZ_ROWS, .index = s.index, .index_cap = 16};
    uvcci_sid_rep(b->sid_job, 0, sid_rep);
    uvcci_sid_sub(sid_rep, 0, 0, s.sid_sub);
    if (uvcci_optable_build(&s.table, s.sid_sub, 6, NULL, NULL) != 0)
        abort();
    for (unsigned p = 0; p < 3; p++)
        if (uvcci_transcript_new(&s.t[p], &al, 100) != 0)
            abort();
    fuzz_leaves(&s);
    for (uint8_t p = 0; p < 3; p++)
        fuzz_bundle_end(b, &s, p);
    for (unsigned p = 0; p < 3; p++)
        uvcci_transcript_free(s.t[p]);
}

#endif
