/* SPDX-License-Identifier: Apache-2.0 */
/* bundle.c - bundles: a finished step's transcript as bytes; reading them, and what can be checked
 * of one alone.
 *
 *     head || H(program) || LE32 rows || LE32 leaves || CRC-32 of all before
 *     the rows of the op table || CRC-32 of them
 *     per leaf: U8 n || the leaf without its sid, n bytes || CRC-32 of LE32 index, n and those
 *     step_root || per party: U8 here || global_root || audit_root || before || signature ||
 *         CRC-32 of these two lines
 *
 * Leaves stand in canonical order, so the row of a leaf's op id is found by walking the table
 * beside the leaves. A checksum says which leaf is damaged; it proves nothing. */
#include "proto/bundle.h"

#include <assert.h>
#include <uvcc/frame.h>

#include "proto/crc.h"

enum {
    SUM_BYTES = 4,
    BUNDLE_HEAD_BYTES = UVCCI_HEAD_BYTES + 32 + 4 + 4,
    AUDIT_BYTES = 1 + 3 * 32 + 64,
    TAIL_BYTES = 32 + 3 * AUDIT_BYTES + SUM_BYTES,
    SID_BYTES = 32
};

/* ---- faults ---- */

const char *uvcc_fault_text(uvcc_fault_kind kind) {
    switch (kind) {
#define UVCC_FAULT(name, code, text)                                                               \
    case UVCC_FAULT_##name:                                                                        \
        return text;
#include <uvcc/faults.def>
#undef UVCC_FAULT
    }
    return "unknown fault";
}

int uvcci_fault_at(uvcc_audit_fault *f, int rc, uvcc_fault_kind kind, uint8_t party,
                   uint64_t offset) {
    if (f != NULL)
        *f = (uvcc_audit_fault){.kind = kind,
                                .party = party,
                                .other = UVCC_NO_PARTY,
                                .leaf = UVCC_NO_LEAF,
                                .other_leaf = UVCC_NO_LEAF,
                                .row = UVCC_NO_LEAF,
                                .offset = offset};
    return rc;
}

int uvcci_fault_leaf(uvcc_audit_fault *f, int rc, uvcc_fault_kind kind, const uvcc_bundle *b,
                     const uvcc_leaf *leaf) {
    (void)uvcci_fault_at(f, rc, kind, b->party, leaf->offset);
    if (f != NULL) {
        f->leaf = leaf->index;
        f->type = leaf->type;
        f->row = leaf->row;
        f->op_id = leaf->op_id;
    }
    return rc;
}

/* ---- heads ---- */

void uvcci_head_put(uvcci_writer *w, const char *magic, const uvcci_head *h) {
    uvcci_put(w, magic, 8);
    uvcci_put8(w, h->party);
    uvcci_put8(w, h->flags);
    for (unsigned i = 0; i < 3; i++)
        uvcci_put16(w, h->topology[i]);
    for (unsigned i = 0; i < 3; i++)
        uvcci_put16(w, h->at[i]);
    uvcci_put(w, h->sid_job, 32);
    uvcci_put32(w, h->step);
    uvcci_put32(w, h->run);
    uvcci_put32(w, h->first);
    uvcci_put(w, h->policy_hash, 32);
}

bool uvcci_head_magic(const uint8_t *bytes, size_t len, const char *magic) {
    return len >= 8 && memcmp(bytes, magic, 8) == 0;
}

bool uvcci_head_get(uvcci_head *h, const uint8_t *bytes, uint8_t flags_max) {
    uvcci_reader r = uvcci_reader_on(bytes, UVCCI_HEAD_BYTES);
    r.at = 8;
    h->party = uvcci_get8(&r);
    h->flags = uvcci_get8(&r);
    for (unsigned i = 0; i < 3; i++)
        h->topology[i] = uvcci_get16(&r);
    for (unsigned i = 0; i < 3; i++)
        h->at[i] = uvcci_get16(&r);
    h->sid_job = bytes + r.at;
    r.at += 32;
    h->step = uvcci_get32(&r);
    h->run = uvcci_get32(&r);
    h->first = uvcci_get32(&r);
    h->policy_hash = bytes + r.at;
    bool ok = h->party < UVCC_PARTIES && h->flags <= flags_max && h->topology[1] <= 256 &&
              h->first <= h->step;
    for (unsigned i = 0; i < 3; i++)
        ok = ok && h->at[i] < h->topology[i];
    return ok;
}

uvcc_statement uvcci_head_statement(const uvcci_head *h, uvcc_scope scope) {
    const bool worker = scope == UVCC_SCOPE_WORKER;
    return (uvcc_statement){.scope = (uint8_t)scope,
                            .party = h->party,
                            .replicas = h->topology[0],
                            .stages = h->topology[1],
                            .tp_ranks = h->topology[2],
                            .replica = worker ? h->at[0] : 0,
                            .stage = worker ? h->at[1] : 0,
                            .tp_rank = worker ? h->at[2] : 0,
                            .run = h->run,
                            .step = h->step,
                            .first = h->first,
                            .sid_job = h->sid_job,
                            .policy_hash = h->policy_hash};
}

bool uvcci_sum_good(const uint8_t *bytes, size_t len) {
    return len >= SUM_BYTES &&
           uvcci_ld32(bytes + len - SUM_BYTES) == uvcci_crc32(0, bytes, len - SUM_BYTES);
}

void uvcci_sum_put(uint8_t *bytes, size_t len) {
    uvcci_st32(bytes + len - SUM_BYTES, uvcci_crc32(0, bytes, len - SUM_BYTES));
}

/* ---- leaves ---- */

#define UVCC_LEAF(name, code, bytes, key)                                                          \
    static_assert((bytes) <= UVCC_LEAF_MAX_BYTES && (key) <= (bytes)-SID_BYTES, #name);
#include <uvcc/leaves.def>
#undef UVCC_LEAF

/* What a type stands for in leaves.def: stored bytes; 0: no such type. */
static size_t stored_bytes(uint8_t type) {
    switch (type) {
#define UVCC_LEAF(name, code, bytes, key)                                                          \
    case code:                                                                                     \
        return (bytes)-SID_BYTES;
#include <uvcc/leaves.def>
#undef UVCC_LEAF
    default:
        return 0;
    }
}

size_t uvcci_leaf_key(uint8_t type) {
    switch (type) {
#define UVCC_LEAF(name, code, bytes, key)                                                          \
    case code:                                                                                     \
        return key;
#include <uvcc/leaves.def>
#undef UVCC_LEAF
    default:
        return 0;
    }
}

bool uvcci_leaf_is_sent(uint8_t type) {
    return type == UVCC_LEAF_OPEN_SENT || type == UVCC_LEAF_SHARE_SENT ||
           type == UVCC_LEAF_LIFT_SENT;
}

bool uvcci_leaf_is_received(uint8_t type) {
    return type == UVCC_LEAF_OPEN_RECEIVED || type == UVCC_LEAF_SHARE_RECEIVED ||
           type == UVCC_LEAF_LIFT_RECEIVED;
}

static bool is_batch(uint8_t type) {
    return uvcci_leaf_is_sent(type) || uvcci_leaf_is_received(type);
}

bool uvcci_leaf_parse(uvcc_leaf *out, const uint8_t *stored, size_t len) {
    if (len == 0 || stored_bytes(stored[0]) != len)
        return false;
    const uint8_t type = stored[0];
    const bool route = is_batch(type) || type == UVCC_LEAF_KEYS_DONE;
    const bool digest = route || type == UVCC_LEAF_OPEN_DONE || type == UVCC_LEAF_COMPONENT_COMMIT;
    out->type = type;
    out->stored = stored;
    out->stored_len = len;
    const bool of_step =
        type == UVCC_LEAF_STEP_BEGIN || type == UVCC_LEAF_ABORT || type == UVCC_LEAF_STEP_CANCELLED;
    out->op_id = of_step ? 0 : uvcci_ld32(stored + 1);
    out->src = route ? stored[5] : UVCC_NO_PARTY;
    out->dst = route ? stored[6] : UVCC_NO_PARTY;
    out->digest = digest ? stored + len - 32 : NULL;
    return true;
}

size_t uvcci_leaf_whole(const uint8_t sid_sub[32], const uint8_t *stored, size_t len,
                        uint8_t out[UVCC_LEAF_MAX_BYTES]) {
    assert(len >= 1 && len + SID_BYTES <= UVCC_LEAF_MAX_BYTES);
    out[0] = stored[0];
    memcpy(out + 1, sid_sub, SID_BYTES);
    memcpy(out + 1 + SID_BYTES, stored + 1, len - 1);
    return len + SID_BYTES;
}

/* The message id of chunk 0 is that of a message of 1 to UVCC_MSG_MAX_CHUNKS chunks. */
static bool msg_id_of(const uint8_t sid_sub[32], uint8_t kind, const uvcc_leaf *l) {
    uint32_t id = uvcci_ld32(l->stored + 7);
    for (uint16_t chunks = 1; chunks <= UVCC_MSG_MAX_CHUNKS; chunks++)
        if (uvcci_msg_id(kind, sid_sub, l->op_id, l->src, l->dst, 0, chunks) == id)
            return true;
    return false;
}

static bool batch_plausible(const uint8_t sid_sub[32], uint8_t party, const uvcc_leaf *l) {
    if (l->src >= UVCC_PARTIES || l->dst >= UVCC_PARTIES || l->src == l->dst ||
        (uvcci_leaf_is_sent(l->type) ? l->src : l->dst) != party)
        return false;
    switch (l->type) {
    case UVCC_LEAF_OPEN_SENT:
    case UVCC_LEAF_OPEN_RECEIVED:
        return msg_id_of(sid_sub, UVCC_FRAME_OPEN_BATCH, l);
    case UVCC_LEAF_LIFT_SENT:
    case UVCC_LEAF_LIFT_RECEIVED:
        return msg_id_of(sid_sub, UVCC_FRAME_LIFT_BATCH, l);
    default:
        return msg_id_of(sid_sub, UVCC_FRAME_RESHARE_BATCH, l) ||
               msg_id_of(sid_sub, UVCC_FRAME_INPUT_BATCH, l);
    }
}

bool uvcci_leaf_plausible(const uint8_t sid_sub[32], uint8_t party, const uvcc_leaf *l) {
    if (is_batch(l->type))
        return batch_plausible(sid_sub, party, l);
    uint32_t count;
    switch (l->type) {
    case UVCC_LEAF_KEYS_DONE:
        return l->src < UVCC_PARTIES && l->dst < UVCC_PARTIES && l->src != l->dst &&
               (l->src == party || l->dst == party);
    case UVCC_LEAF_COMPONENT_COMMIT:
        return l->stored[13] == party || l->stored[13] == (party + 1u) % UVCC_PARTIES;
    case UVCC_LEAF_LIFT_DONE:
        count = uvcci_ld32(l->stored + 13);
        return count >= 1 && count <= UVCC_BLOCK_ELEMS;
    case UVCC_LEAF_SKS_VERDICT: /* a check that failed aborts; 2: of the step, an override */
        return l->stored[5] == (l->op_id == 0 ? 2 : 1);
    case UVCC_LEAF_ABORT: /* an aborted step has no root, so no bundle */
        return false;
    default:
        return true;
    }
}

/* The record at `at`: 0 and its leaf and length, or what is wrong with it. */
static uvcc_fault_kind read_record(const uint8_t *p, size_t left, uint32_t index, uvcc_leaf *out,
                                   size_t *bytes) {
    if (left < 1u + SUM_BYTES || left - 1 - SUM_BYTES < p[0])
        return UVCC_FAULT_CUT;
    size_t len = p[0];
    uint8_t le[4];
    uvcci_st32(le, index);
    if (uvcci_ld32(p + 1 + len) != uvcci_crc32(uvcci_crc32(0, le, sizeof le), p, 1 + len))
        return UVCC_FAULT_CHECKSUM;
    if (!uvcci_leaf_parse(out, p + 1, len))
        return UVCC_FAULT_FORM;
    *bytes = 1 + len + SUM_BYTES;
    return UVCC_FAULT_NONE;
}

void uvcc_leaf_reader_init(uvcc_leaf_reader *r, const uvcc_bundle *b) {
    if (r == NULL)
        return;
    *r = (uvcc_leaf_reader){.bundle = b};
}

static uint32_t row_op_id(const uvcc_bundle *b, uint32_t row) {
    return uvcci_ld32(b->rows + (size_t)row * UVCCI_OPROW_BYTES + UVCCI_OPROW_BYTES - 4);
}

/* The first row from *row on with the op id; false if there is none. */
static bool find_row(const uvcc_bundle *b, uint32_t op_id, uint32_t *row) {
    for (uint32_t i = *row; i < b->row_count; i++)
        if (row_op_id(b, i) == op_id) {
            *row = i;
            return true;
        }
    return false;
}

int uvcc_leaf_next(uvcc_leaf_reader *r, uvcc_leaf *out) {
    if (r == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    const uvcc_bundle *b = r->bundle;
    if (r->index == b->leaf_count || r->at >= b->leaves_len)
        return 0;
    const uint8_t *p = b->leaves + r->at;
    *out = (uvcc_leaf){.index = r->index++, .offset = (uint64_t)(p - b->bytes)};
    if (!uvcci_leaf_parse(out, p + 1, p[0]))
        return 0; /* it was decoded before, so it is one */
    r->at += 1u + p[0] + SUM_BYTES;
    if (out->type != UVCC_LEAF_STEP_BEGIN && out->type != UVCC_LEAF_STEP_CANCELLED)
        (void)find_row(b, out->op_id, &r->row);
    out->row = r->row;
    return 1;
}

size_t uvcc_leaf_bytes(const uvcc_bundle *b, const uvcc_leaf *leaf,
                       uint8_t out[UVCC_LEAF_MAX_BYTES]) {
    if (b == NULL || leaf == NULL || out == NULL)
        return 0;
    return uvcci_leaf_whole(b->sid_sub, leaf->stored, leaf->stored_len, out);
}

void uvcc_leaf_hash(const uvcc_bundle *b, const uvcc_leaf *leaf, uint8_t hash[32]) {
    if (b == NULL || leaf == NULL || hash == NULL)
        return;
    uint8_t whole[UVCC_LEAF_MAX_BYTES];
    uvcci_sha256_once(whole, uvcc_leaf_bytes(b, leaf, whole), hash);
}

/* ---- decoding ---- */

/* Rows ascend, batches of an op count from 0, and every id is derived. */
static bool row_good(const uvcc_bundle *b, uint32_t i) {
    uvcci_oprow row, before;
    uvcci_oprow_get(&row, b->rows + (size_t)i * UVCCI_OPROW_BYTES);
    if (row.op_id == 0 ||
        row.op_id != uvcci_op_id(b->sid_sub, b->step, row.phase, row.mb, row.k, row.b, row.attempt))
        return false;
    if (i == 0)
        return row.b == 0;
    uvcci_oprow_get(&before, b->rows + ((size_t)i - 1) * UVCCI_OPROW_BYTES);
    if (row.phase == before.phase && row.mb == before.mb && row.k == before.k)
        return row.b == before.b + 1u;
    if (row.b != 0)
        return false;
    if (row.phase != before.phase)
        return row.phase > before.phase;
    return row.mb != before.mb ? row.mb > before.mb : row.k > before.k;
}

static bool begin_good(const uvcc_bundle *b, const uint8_t *stored) {
    uint8_t want[UVCC_LEAF_MAX_BYTES], h[32];
    const uint16_t rst[3] = {b->replicas, b->stages, b->tp_ranks};
    uvcci_sha256_once(b->rows, (size_t)b->row_count * UVCCI_OPROW_BYTES, h);
    size_t n = uvcci_leaf_step_begin(want, b->sid_sub, b->step, b->run, rst, b->h_program,
                                     stored + 1 + 4 + 4 + 6 + 32, h);
    uint8_t got[UVCC_LEAF_MAX_BYTES];
    return uvcci_leaf_whole(b->sid_sub, stored, n - SID_BYTES, got) == n &&
           memcmp(got, want, n) == 0;
}

/* What is wrong with a leaf after `before` (NULL: it is the first); sets its row. */
static uvcc_fault_kind leaf_fault(const uvcc_bundle *b, uvcc_leaf *l, const uvcc_leaf *before) {
    if (before == NULL)
        return l->type == UVCC_LEAF_STEP_BEGIN && begin_good(b, l->stored) ? UVCC_FAULT_NONE
                                                                           : UVCC_FAULT_BEGIN;
    if (l->type == UVCC_LEAF_STEP_BEGIN)
        return UVCC_FAULT_TWICE;
    l->row = before->row;
    if (before->type == UVCC_LEAF_STEP_CANCELLED ||
        (l->type == UVCC_LEAF_STEP_CANCELLED &&
         (before->type != UVCC_LEAF_STEP_BEGIN || uvcci_ld32(l->stored + 1) != b->step)))
        return UVCC_FAULT_CANCELLED; /* a dropped step has two leaves */
    if (l->type == UVCC_LEAF_STEP_CANCELLED)
        return UVCC_FAULT_NONE;
    const bool of_step = l->type == UVCC_LEAF_SKS_VERDICT && l->op_id == 0;
    if (of_step && l->row != 0)
        return UVCC_FAULT_ORDER;
    if (!of_step && !find_row(b, l->op_id, &l->row)) {
        l->row = 0;
        bool there = find_row(b, l->op_id, &l->row);
        l->row = there ? l->row : UVCC_NO_LEAF;
        return there ? UVCC_FAULT_ORDER : UVCC_FAULT_OP;
    }
    if (!uvcci_leaf_plausible(b->sid_sub, b->party, l))
        return UVCC_FAULT_FIELD;
    if (l->row != before->row || l->type != before->type)
        return l->row != before->row || l->type > before->type ? UVCC_FAULT_NONE : UVCC_FAULT_ORDER;
    if (memcmp(l->stored, before->stored, uvcci_leaf_key(l->type)) == 0)
        return UVCC_FAULT_TWICE;
    return memcmp(l->stored, before->stored, l->stored_len) > 0 ? UVCC_FAULT_NONE
                                                                : UVCC_FAULT_ORDER;
}

static int decode_leaves(uvcc_bundle *b, size_t at, uvcc_audit_fault *f) {
    uvcc_leaf before = {0};
    b->leaves = b->bytes + at;
    for (uint32_t i = 0; i < b->leaf_count; i++) {
        uvcc_leaf l = {.index = i, .row = UVCC_NO_LEAF, .offset = at};
        size_t bytes = 0;
        uvcc_fault_kind kind = read_record(b->bytes + at, b->len - at, i, &l, &bytes);
        if (kind == UVCC_FAULT_NONE) {
            l.row = 0;
            kind = leaf_fault(b, &l, i == 0 ? NULL : &before);
        }
        if (kind != UVCC_FAULT_NONE)
            return uvcci_fault_leaf(f, UVCC_ERR_FRAME, kind, b, &l);
        before = l;
        at += bytes;
    }
    b->leaves_len = (size_t)(b->bytes + at - b->leaves);
    return 0;
}

/* Leaves have their own lengths, so a false leaf count shows here, as a tail that does not begin
 * where the leaves end: that is told as bytes left over rather than as a wrong checksum. */
static int decode_tail(uvcc_bundle *b, size_t at, uvcc_audit_fault *f) {
    const uint8_t *p = b->bytes + at;
    const size_t left = b->len - at;
    if (left < TAIL_BYTES)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CUT, b->party, b->len);
    if (!uvcci_sum_good(p, TAIL_BYTES)) {
        (void)uvcci_fault_at(f, UVCC_ERR_FRAME,
                             left > TAIL_BYTES ? UVCC_FAULT_LEFT_OVER : UVCC_FAULT_CHECKSUM,
                             b->party, at);
        if (f != NULL && left > TAIL_BYTES) /* one leaf too many? */
            f->leaf = b->leaf_count;
        return UVCC_ERR_FRAME;
    }
    if (left != TAIL_BYTES)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_LEFT_OVER, b->party, at + TAIL_BYTES);
    b->step_root = p;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        const uint8_t *e = p + 32 + q * AUDIT_BYTES;
        if (e[0] > 1 || (q == b->party && e[0] != 1))
            return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, b->party,
                                  (uint64_t)(e - b->bytes));
        static const uint8_t zero[AUDIT_BYTES];
        if (e[0] == 0 && memcmp(e, zero, AUDIT_BYTES) != 0)
            return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, b->party,
                                  (uint64_t)(e - b->bytes));
        if (e[0] == 1)
            b->audit[q] = (uvcc_signed_root){
                .root = e + 1, .audit_root = e + 33, .before = e + 65, .signature = e + 97};
    }
    return 0;
}

/* The checksum comes before any field, so that a damaged byte is told as such, and the party only
 * after it: a fault of bytes that nobody vouches for names no party. */
static int decode_head(uvcc_bundle *b, uvcc_audit_fault *f) {
    const uint8_t *p = b->bytes;
    uvcci_head h;
    uint8_t sid_rep[32];
    if (b->len >= 8 && !uvcci_head_magic(p, b->len, UVCCI_MAGIC_BUNDLE))
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_MAGIC, UVCC_NO_PARTY, 0);
    if (b->len < BUNDLE_HEAD_BYTES + SUM_BYTES)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CUT, UVCC_NO_PARTY, b->len);
    if (!uvcci_sum_good(p, BUNDLE_HEAD_BYTES + SUM_BYTES))
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CHECKSUM, UVCC_NO_PARTY, 0);
    bool ok = uvcci_head_get(&h, p, 0);
    b->h_program = p + UVCCI_HEAD_BYTES;
    b->row_count = uvcci_ld32(b->h_program + 32);
    b->leaf_count = uvcci_ld32(b->h_program + 36);
    if (!ok || b->leaf_count == 0)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_HEADER, UVCC_NO_PARTY, 8);
    b->party = h.party;
    b->replicas = h.topology[0];
    b->stages = h.topology[1];
    b->tp_ranks = h.topology[2];
    b->replica = h.at[0];
    b->stage = h.at[1];
    b->tp_rank = h.at[2];
    b->sid_job = h.sid_job;
    b->step = h.step;
    b->run = h.run;
    b->first = h.first;
    b->policy_hash = h.policy_hash;
    uvcci_sid_rep(b->sid_job, b->replica, sid_rep);
    uvcci_sid_sub(sid_rep, (uint8_t)b->stage, b->tp_rank, b->sid_sub);
    return 0;
}

static int decode_table(uvcc_bundle *b, size_t at, uvcc_audit_fault *f) {
    const size_t bytes = (size_t)b->row_count * UVCCI_OPROW_BYTES;
    if (b->len - at < bytes || b->len - at - bytes < SUM_BYTES)
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CUT, b->party, b->len);
    if (!uvcci_sum_good(b->bytes + at, bytes + SUM_BYTES))
        return uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_CHECKSUM, b->party, at);
    b->rows = b->bytes + at;
    for (uint32_t i = 0; i < b->row_count; i++)
        if (!row_good(b, i)) {
            (void)uvcci_fault_at(f, UVCC_ERR_FRAME, UVCC_FAULT_TABLE, b->party,
                                 at + (uint64_t)i * UVCCI_OPROW_BYTES);
            if (f != NULL) {
                f->row = i;
                f->op_id = row_op_id(b, i);
            }
            return UVCC_ERR_FRAME;
        }
    return 0;
}

int uvcc_bundle_decode(uvcc_bundle *out, const uint8_t *bytes, size_t len,
                       uvcc_audit_fault *fault) {
    if (out == NULL || (bytes == NULL && len != 0))
        return UVCC_ERR_USAGE;
    uvcc_bundle b = {.bytes = bytes, .len = len};
    int rc = decode_head(&b, fault);
    size_t at = BUNDLE_HEAD_BYTES + SUM_BYTES;
    if (rc == 0)
        rc = decode_table(&b, at, fault);
    if (rc == 0) {
        at += (size_t)b.row_count * UVCCI_OPROW_BYTES + SUM_BYTES;
        rc = decode_leaves(&b, at, fault);
    }
    if (rc == 0)
        rc = decode_tail(&b, at + b.leaves_len, fault);
    if (rc != 0)
        return rc;
    *out = b;
    (void)uvcci_fault_at(fault, 0, UVCC_FAULT_NONE, b.party, 0);
    return 0;
}

/* ---- roots and signatures ---- */

void uvcci_bundle_root(const uvcc_bundle *b, uvcci_merkle *m, uint32_t target, uint8_t root[32]) {
    uvcc_leaf_reader r;
    uvcc_leaf l;
    uint8_t h[32];
    uvcci_merkle_begin(m, target);
    uvcc_leaf_reader_init(&r, b);
    while (uvcc_leaf_next(&r, &l) == 1) {
        uvcc_leaf_hash(b, &l, h);
        uvcci_merkle_add(m, h);
    }
    uvcci_merkle_end(m, root);
}

void uvcci_worker_root(const uint8_t sid_job[32], uint16_t replica, uint32_t step,
                       const uint8_t step_root[32], uint8_t root[32]) {
    uint8_t sid_rep[32], replica_root[32];
    uvcci_sid_rep(sid_job, replica, sid_rep);
    uvcci_replica_root(sid_rep, step, step_root, 1, replica_root);
    uvcci_global_root(sid_job, step, replica_root, 1, root);
}

/* In the run's first step the audit root is the step's own root. */
uvcc_fault_kind uvcci_statement_fault(const uvcc_statement *s, const uvcc_audit_keys *keys,
                                      const uint8_t signature[64]) {
    if (uvcc_statement_check(s, keys->key[s->party], signature) != 0)
        return UVCC_FAULT_SIGNATURE;
    return s->step == s->first && memcmp(s->audit_root, s->root, 32) != 0 ? UVCC_FAULT_AUDIT_ROOT
                                                                          : UVCC_FAULT_NONE;
}

uvcci_head uvcci_bundle_head(const uvcc_bundle *b, uint8_t party) {
    return (uvcci_head){.party = party,
                        .topology = {b->replicas, b->stages, b->tp_ranks},
                        .at = {b->replica, b->stage, b->tp_rank},
                        .sid_job = b->sid_job,
                        .step = b->step,
                        .run = b->run,
                        .first = b->first,
                        .policy_hash = b->policy_hash};
}

void uvcc_bundle_statement(const uvcc_bundle *b, uint8_t q, uvcc_statement *out) {
    if (b == NULL || q >= UVCC_PARTIES || out == NULL)
        return;
    const uvcc_signed_root *s = &b->audit[q];
    const uvcci_head h = uvcci_bundle_head(b, q);
    *out = uvcci_head_statement(&h, UVCC_SCOPE_WORKER);
    out->root = s->root;
    out->audit_root = s->audit_root;
    out->before = s->before;
}

int uvcc_bundle_check(const uvcc_bundle *b, const uvcc_audit_keys *keys, uvcc_audit_fault *fault) {
    if (b == NULL || keys == NULL)
        return UVCC_ERR_USAGE;
    const uint64_t tail = (uint64_t)(b->step_root - b->bytes);
    uvcci_merkle m;
    uint8_t root[32];
    uvcci_bundle_root(b, &m, UVCC_NO_LEAF, root);
    if (memcmp(root, b->step_root, 32) != 0)
        return uvcci_fault_at(fault, UVCC_ERR_AUTH, UVCC_FAULT_ROOT, b->party, tail);
    uvcci_worker_root(b->sid_job, b->replica, b->step, b->step_root, root);
    if (memcmp(root, b->audit[b->party].root, 32) != 0)
        return uvcci_fault_at(fault, UVCC_ERR_AUTH, UVCC_FAULT_GLOBAL, b->party,
                              (uint64_t)(b->audit[b->party].root - b->bytes));
    for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
        const uvcc_signed_root *s = &b->audit[q];
        uvcc_statement st;
        if (s->root == NULL)
            continue;
        uvcc_bundle_statement(b, q, &st);
        const uvcc_fault_kind kind = uvcci_statement_fault(&st, keys, s->signature);
        if (kind == UVCC_FAULT_NONE)
            continue;
        (void)uvcci_fault_at(fault, UVCC_ERR_AUTH, kind, b->party, (uint64_t)(s->root - b->bytes));
        if (fault != NULL && q != b->party)
            fault->other = q;
        return UVCC_ERR_AUTH;
    }
    return uvcci_fault_at(fault, 0, UVCC_FAULT_NONE, b->party, 0);
}

/* ---- writing ---- */

size_t uvcci_bundle_bytes(const uvcci_optable *table, const uvcci_transcript *t) {
    size_t n = BUNDLE_HEAD_BYTES + SUM_BYTES + TAIL_BYTES;
    n += (size_t)table->count * UVCCI_OPROW_BYTES + SUM_BYTES;
    for (uint32_t i = 0; i < uvcci_transcript_count(t); i++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        int rc = uvcci_transcript_leaf(t, i, &row, &leaf, &len);
        assert(rc == 0 && len == stored_bytes(leaf[0]) + SID_BYTES);
        (void)rc;
        n += 1 + len - SID_BYTES + SUM_BYTES;
    }
    return n;
}

/* Leaves are stored without their sid, which follows from the head; checksums are zeros until
 * uvcci_bundle_seal writes them all, since put_audit changes the tail later. */
void uvcci_bundle_encode(const uvcci_head *h, const uint8_t h_program[32],
                         const uvcci_optable *table, const uvcci_transcript *t,
                         const uint8_t step_root[32], uint8_t *out) {
    static const uint8_t zero[TAIL_BYTES];
    const size_t len = uvcci_bundle_bytes(table, t);
    const uint32_t leaves = uvcci_transcript_count(t);
    uvcci_writer w = uvcci_writer_on(out, len);
    uvcci_head_put(&w, UVCCI_MAGIC_BUNDLE, h);
    uvcci_put(&w, h_program, 32);
    uvcci_put32(&w, table->count);
    uvcci_put32(&w, leaves);
    uvcci_put32(&w, 0);
    for (uint32_t i = 0; i < table->count; i++) {
        uint8_t row[UVCCI_OPROW_BYTES];
        uvcci_oprow_put(&table->rows[i], row);
        uvcci_put(&w, row, sizeof row);
    }
    uvcci_put32(&w, 0);
    for (uint32_t i = 0; i < leaves; i++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t n;
        (void)uvcci_transcript_leaf(t, i, &row, &leaf, &n);
        uvcci_put8(&w, (uint8_t)(n - SID_BYTES));
        uvcci_put8(&w, leaf[0]);
        uvcci_put(&w, leaf + 1 + SID_BYTES, n - 1 - SID_BYTES);
        uvcci_put32(&w, 0);
    }
    uvcci_put(&w, step_root, 32);
    uvcci_put(&w, zero, TAIL_BYTES - 32);
    assert(!w.bad && w.len == len);
    uvcci_bundle_seal(out, len);
}

void uvcci_bundle_put_audit(uint8_t *bytes, size_t len, uint8_t party, const uvcc_signed_root *s) {
    assert(len >= TAIL_BYTES && party < UVCC_PARTIES);
    uint8_t *tail = bytes + len - TAIL_BYTES, *e = tail + 32 + party * AUDIT_BYTES;
    e[0] = 1;
    memcpy(e + 1, s->root, 32);
    memcpy(e + 33, s->audit_root, 32);
    memcpy(e + 65, s->before, 32);
    memcpy(e + 97, s->signature, 64);
    uvcci_sum_put(tail, TAIL_BYTES);
}

bool uvcci_bundle_complete(const uint8_t *bytes, size_t len) {
    assert(len >= TAIL_BYTES);
    const uint8_t *e = bytes + len - TAIL_BYTES + 32;
    return e[0] == 1 && e[AUDIT_BYTES] == 1 && e[2 * AUDIT_BYTES] == 1;
}

void uvcci_bundle_seal(uint8_t *bytes, size_t len) {
    size_t at = BUNDLE_HEAD_BYTES + SUM_BYTES;
    if (len < at)
        return;
    uvcci_sum_put(bytes, at);
    const uint64_t table =
        (uint64_t)uvcci_ld32(bytes + UVCCI_HEAD_BYTES + 32) * UVCCI_OPROW_BYTES + SUM_BYTES;
    const uint32_t leaves = uvcci_ld32(bytes + UVCCI_HEAD_BYTES + 36);
    if (len - at < table)
        return;
    uvcci_sum_put(bytes + at, (size_t)table);
    at += (size_t)table;
    for (uint32_t i = 0; i < leaves; i++) {
        if (len - at < 1u + SUM_BYTES || len - at - 1 - SUM_BYTES < bytes[at])
            return;
        const size_t n = bytes[at];
        uint8_t le[4];
        uvcci_st32(le, i);
        uvcci_st32(bytes + at + 1 + n,
                   uvcci_crc32(uvcci_crc32(0, le, sizeof le), bytes + at, 1 + n));
        at += 1 + n + SUM_BYTES;
    }
    if (len - at >= TAIL_BYTES)
        uvcci_sum_put(bytes + at, TAIL_BYTES);
}
