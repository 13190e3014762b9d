/* SPDX-License-Identifier: Apache-2.0 */
/* codec_audit.c - listings of what the transcript is made of: leaves, bundles, roots of jobs,
 * proofs. */
#include "listing.h"

#include "proto/bundle.h"
#include "proto/bytes.h"
#include <uvcc/frame.h>

enum { ROWS_MAX = 8, LEAVES_MAX = 16, RECORD_MAX = LISTING_BYTES_MAX };

/* ---- leaves ---- */

/* A leaf's fields after type and sid, with their width: 32 for a hash. */
typedef struct leaf_field {
    const char *name;
    unsigned width;
} leaf_field;

typedef struct leaf_shape {
    uint8_t type;
    const leaf_field *field; /* ends with a name that is NULL */
} leaf_shape;

static const leaf_field begin_fields[] = {{"step", 4},
                                          {"run", 4},
                                          {"R", 2},
                                          {"S", 2},
                                          {"T", 2},
                                          {"H(program)", 32},
                                          {"H(public shapes)", 32},
                                          {"H(op table)", 32},
                                          {NULL, 0}};
static const leaf_field batch_fields[] = {{"op_id", 4},  {"src", 1},     {"dst", 1},
                                          {"msg_id", 4}, {"digest", 32}, {NULL, 0}};
static const leaf_field opened_fields[] = {
    {"op_id", 4}, {"stream_id", 8}, {"round", 2}, {"digest", 32}, {NULL, 0}};
static const leaf_field keys_fields[] = {
    {"op_id", 4}, {"src", 1}, {"dst", 1}, {"digest", 32}, {NULL, 0}};
static const leaf_field coin_fields[] = {{"op_id", 4}, {"seed", 32}, {NULL, 0}};
static const leaf_field verdict_fields[] = {{"op_id", 4}, {"ok", 1}, {NULL, 0}};
static const leaf_field commit_fields[] = {
    {"op_id", 4}, {"fss_id", 8}, {"component", 1}, {"digest", 32}, {NULL, 0}};
static const leaf_field lifted_fields[] = {{"op_id", 4}, {"fss_id", 8}, {"q_count", 4}, {NULL, 0}};
static const leaf_field abort_fields[] = {{"step", 4}, {"reason", 2}, {NULL, 0}};
static const leaf_field consumed_fields[] = {{"op_id", 4}, {"triple_id", 8}, {NULL, 0}};

static const leaf_field cancelled_fields[] = {{"step", 4}, {NULL, 0}};

static const leaf_shape shapes[] = {
    {UVCC_LEAF_STEP_BEGIN, begin_fields},         {UVCC_LEAF_OPEN_SENT, batch_fields},
    {UVCC_LEAF_OPEN_RECEIVED, batch_fields},      {UVCC_LEAF_OPEN_DONE, opened_fields},
    {UVCC_LEAF_SHARE_SENT, batch_fields},         {UVCC_LEAF_SHARE_RECEIVED, batch_fields},
    {UVCC_LEAF_KEYS_DONE, keys_fields},           {UVCC_LEAF_LIFT_SENT, batch_fields},
    {UVCC_LEAF_LIFT_RECEIVED, batch_fields},      {UVCC_LEAF_SKS_COIN, coin_fields},
    {UVCC_LEAF_SKS_VERDICT, verdict_fields},      {UVCC_LEAF_COMPONENT_COMMIT, commit_fields},
    {UVCC_LEAF_LIFT_DONE, lifted_fields},         {UVCC_LEAF_ABORT, abort_fields},
    {UVCC_LEAF_TRIPLE_CONSUMED, consumed_fields}, {UVCC_LEAF_STEP_CANCELLED, cancelled_fields},
};

static const leaf_shape *shape_of(uint8_t type) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].type == type)
            return &shapes[i];
    return NULL;
}

static uint64_t number_at(const uint8_t *p, unsigned width) {
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* The fields of a leaf whose type and sid were shown. What uvcc_leaf has is shown from there, the
 * rest as it stands: the library compares these bytes and reads no number in them. */
static void leaf_fields(listing *l, const uvcc_leaf *leaf) {
    const leaf_shape *s = shape_of(leaf->type);
    listing_must(l, s != NULL, "a leaf of an unknown shape");
    for (const leaf_field *f = s != NULL ? s->field : NULL; f != NULL && f->name != NULL; f++) {
        const uint8_t *p = field_peek(l, f->width);
        if (f->width == 32)
            field_bytes(l, f->name, strcmp(f->name, "digest") == 0 ? leaf->digest : p, 32, "");
        else if (strcmp(f->name, "op_id") == 0)
            field_code(l, f->name, 4, leaf->op_id, "");
        else if (strcmp(f->name, "src") == 0 || strcmp(f->name, "dst") == 0)
            field_number(l, f->name, 1, f->name[0] == 's' ? leaf->src : leaf->dst, "");
        else if (strstr(f->name, "_id") != NULL)
            field_code(l, f->name, f->width, number_at(p, f->width), "");
        else
            field_number(l, f->name, f->width, number_at(p, f->width), "");
    }
}

/* What a leaf hangs on beside its values. */
typedef struct leaf_place {
    const uint8_t *sid_sub;
    uint32_t step, run;
    const uint16_t *rst;
    const uint8_t *h_program, *h_optable;
} leaf_place;

static size_t batch_leaf(listing *l, uint8_t type, const uint8_t *sid, uint32_t op, uint8_t *out) {
    uint8_t d[32];
    uint8_t kind = value_name(l, "kind", uvcc_frame_kind_name);
    uint8_t src = (uint8_t)value_number(l, "src", 2), dst = (uint8_t)value_number(l, "dst", 2);
    uint16_t chunks = (uint16_t)value_number(l, "chunks", UVCC_MSG_MAX_CHUNKS);
    value_exactly(l, "digest", d, 32);
    return uvcci_leaf_batch(out, type, sid, op, src, dst,
                            uvcci_msg_id(kind, sid, op, src, dst, 0, chunks), d);
}

static size_t step_begin_leaf(listing *l, const leaf_place *at, uint8_t *out) {
    uint8_t shapes_hash[32];
    value_exactly(l, "h_shapes", shapes_hash, 32);
    return uvcci_leaf_step_begin(out, at->sid_sub, at->step, at->run, at->rst, at->h_program,
                                 shapes_hash, at->h_optable);
}

/* The values of one leaf after type and op; returns its bytes. */
static size_t leaf_values(listing *l, uint8_t type, uint32_t op, const leaf_place *at,
                          uint8_t *out) {
    const uint8_t *sid = at->sid_sub;
    uint8_t d[32];
    uint64_t id;
    listing_must(l, shape_of(type) != NULL, "a leaf of an unknown shape");
    if (!listing_good(l))
        return 0;
    switch (type) {
    case UVCC_LEAF_STEP_BEGIN:
        return step_begin_leaf(l, at, out);
    case UVCC_LEAF_OPEN_DONE:
        id = value_number(l, "stream_id", UINT64_MAX);
        uint16_t round = (uint16_t)value_number(l, "round", UINT16_MAX);
        value_exactly(l, "digest", d, 32);
        return uvcci_leaf_open_done(out, sid, op, id, round, d);
    case UVCC_LEAF_KEYS_DONE:
        id = value_number(l, "src", 2) << 8;
        id |= value_number(l, "dst", 2);
        value_exactly(l, "digest", d, 32);
        return uvcci_leaf_keys_done(out, sid, op, (uint8_t)(id >> 8), (uint8_t)id, d);
    case UVCC_LEAF_SKS_COIN:
        value_exactly(l, "seed", d, 32);
        return uvcci_leaf_sks_coin(out, sid, op, d);
    case UVCC_LEAF_SKS_VERDICT:
        return uvcci_leaf_sks_verdict(out, sid, op, (uint8_t)value_number(l, "ok", 2));
    case UVCC_LEAF_COMPONENT_COMMIT:
        id = value_number(l, "fss_id", UINT64_MAX);
        uint8_t component = (uint8_t)value_number(l, "component", 2);
        value_exactly(l, "digest", d, 32);
        return uvcci_leaf_component_commit(out, sid, op, id, component, d);
    case UVCC_LEAF_LIFT_DONE:
        id = value_number(l, "fss_id", UINT64_MAX);
        return uvcci_leaf_lift_done(out, sid, op, id,
                                    (uint32_t)value_number(l, "q_count", UINT32_MAX));
    case UVCC_LEAF_ABORT:
        return uvcci_leaf_abort(out, sid, at->step,
                                (uint16_t)value_number(l, "reason", UINT16_MAX));
    case UVCC_LEAF_STEP_CANCELLED:
        return uvcci_leaf_step_cancelled(out, sid, at->step);
    case UVCC_LEAF_TRIPLE_CONSUMED:
        return uvcci_leaf_triple_consumed(out, sid, op, value_number(l, "triple_id", UINT64_MAX));
    default:
        return batch_leaf(l, type, sid, op, out);
    }
}

static bool has_op(uint8_t type) {
    return type != UVCC_LEAF_STEP_BEGIN && type != UVCC_LEAF_ABORT &&
           type != UVCC_LEAF_STEP_CANCELLED;
}

/* A leaf by itself, whole; the library reads it as it stands in bundles, without its sid. */
void codec_leaf(listing *l, listing_seen *seen) {
    uint8_t sid[32], out[UVCC_LEAF_MAX_BYTES], h_program[32] = {0}, h_optable[32] = {0};
    uint64_t n[3] = {0};
    uint32_t op = 0;
    leaf_place at = {.sid_sub = sid, .h_program = h_program, .h_optable = h_optable};
    uint8_t type = value_name(l, "leaf", uvcc_leaf_name);
    value_exactly(l, "sid_sub", sid, 32);
    if (has_op(type))
        op = (uint32_t)value_number(l, "op_id", UINT32_MAX);
    else
        at.step = (uint32_t)value_number(l, "step", UINT32_MAX);
    if (type == UVCC_LEAF_STEP_BEGIN) {
        at.run = (uint32_t)value_number(l, "run", UINT32_MAX);
        listing_must(l, value_numbers(l, "topology", n, 3) == 3, "R, S and T");
        value_exactly(l, "h_program", h_program, 32);
        value_exactly(l, "h_optable", h_optable, 32);
    }
    const uint16_t rst[] = {(uint16_t)n[0], (uint16_t)n[1], (uint16_t)n[2]};
    at.rst = rst;
    size_t len = leaf_values(l, type, op, &at, out);
    listing_made(l, LISTING_BYTES, out, len);
    const listing_block *b = &l->block[LISTING_BYTES];
    uint8_t stored[UVCC_LEAF_MAX_BYTES], again[UVCC_LEAF_MAX_BYTES];
    uvcc_leaf leaf = {.type = 0};
    if (!listing_good(l) || b->len < 33 || b->len > sizeof stored)
        return;
    stored[0] = b->bytes[0];
    memcpy(stored + 1, b->bytes + 33, b->len - 33);
    listing_must(l, uvcci_leaf_parse(&leaf, stored, b->len - 32), "no leaf");
    if (!listing_good(l))
        return;
    if (leaf.src != UVCC_NO_PARTY)
        listing_must(
            l, uvcci_leaf_plausible(sid, uvcci_leaf_is_received(type) ? leaf.dst : leaf.src, &leaf),
            "no party has such a leaf");
    listing_must(l,
                 uvcci_leaf_whole(sid, leaf.stored, leaf.stored_len, again) == b->len &&
                     memcmp(again, b->bytes, b->len) == 0,
                 "its sid is put back otherwise");
    field_code(l, "type", 1, leaf.type, uvcc_leaf_name(leaf.type));
    field_bytes(l, "sid_sub", sid, 32, "");
    leaf_fields(l, &leaf);
    snprintf(l->subject, sizeof l->subject, "%s", uvcc_leaf_name(type));
    seen->leaf[type] = true;
}

/* ---- heads ---- */

/* Who and where, with the storage that uvcci_head points to. */
typedef struct head_box {
    uvcci_head h;
    uint8_t sid_job[32], policy_hash[32], sid_sub[32];
} head_box;

static void head_values(listing *l, head_box *x, bool place) {
    uint64_t n[3] = {0}, at[3] = {0};
    memset(x, 0, sizeof *x);
    x->h.party = (uint8_t)value_number(l, "party", 2);
    listing_must(l, value_numbers(l, "topology", n, 3) == 3, "R, S and T");
    if (place)
        listing_must(l, value_numbers(l, "place", at, 3) == 3, "r, s and t");
    for (unsigned i = 0; i < 3; i++) {
        x->h.topology[i] = (uint16_t)n[i];
        x->h.at[i] = (uint16_t)at[i];
    }
    value_exactly(l, "sid_job", x->sid_job, 32);
    x->h.step = (uint32_t)value_number(l, "step", UINT32_MAX);
    x->h.run = (uint32_t)value_number(l, "run", UINT32_MAX);
    x->h.first = (uint32_t)value_number(l, "first", x->h.step);
    value_exactly(l, "policy_hash", x->policy_hash, 32);
    x->h.sid_job = x->sid_job;
    x->h.policy_hash = x->policy_hash;
    uint8_t sid_rep[32];
    uvcci_sid_rep(x->sid_job, x->h.at[0], sid_rep);
    uvcci_sid_sub(sid_rep, (uint8_t)x->h.at[1], x->h.at[2], x->sid_sub);
}

/* From what was decoded, in the terms of a head. */
static void head_fields(listing *l, const char *magic, const uvcci_head *h) {
    static const char *const names[] = {"R", "S", "T", "r", "s", "t"};
    field_text(l, "magic", magic, 7);
    field_number(l, "version", 1, 2, "");
    field_number(l, "party", 1, h->party, "");
    field_number(l, "flags", 1, h->flags, "");
    for (unsigned i = 0; i < 6; i++)
        field_number(l, names[i], 2, i < 3 ? h->topology[i] : h->at[i - 3], "");
    field_bytes(l, "sid_job", h->sid_job, 32, "");
    field_number(l, "step", 4, h->step, "");
    field_number(l, "run", 4, h->run, "");
    field_number(l, "first", 4, h->first, "");
    field_bytes(l, "policy_hash", h->policy_hash, 32, "");
}

static void sum_field(listing *l, const char *what) {
    field_code(l, "crc32", 4, uvcci_ld32(field_peek(l, 4)), what);
}

/* ---- bundles ---- */

typedef struct bundle_box {
    head_box head;
    uint8_t h_program[32], h_optable[32], step_root[32], root[32];
    uvcci_oprow row[ROWS_MAX];
    uint32_t index[2 * ROWS_MAX];
    uvcci_optable table;
    uvcci_transcript *t;
    test_alloc mem;
    uvcc_audit_keys keys;
    uint8_t *bytes;
    size_t len;
} bundle_box;

static void table_values(listing *l, bundle_box *x) {
    uint64_t n[4] = {0};
    x->table = (uvcci_optable){.rows = x->row, .index = x->index, .index_cap = 2 * ROWS_MAX};
    while (listing_has(l, "row") && x->table.count < ROWS_MAX) {
        listing_must(l, value_numbers(l, "row", n, 4) == 4, "a row is phase, mb, k, b");
        x->row[x->table.count++] = (uvcci_oprow){
            .phase = (uint8_t)n[0], .mb = (uint16_t)n[1], .k = (uint16_t)n[2], .b = (uint16_t)n[3]};
    }
    if (!listing_good(l))
        return;
    listing_must(l,
                 uvcci_optable_build(&x->table, x->head.sid_sub, x->head.h.step, NULL, NULL) == 0,
                 "no op table");
    if (listing_good(l))
        uvcci_optable_hash(&x->table, x->h_optable);
}

static void transcript_values(listing *l, bundle_box *x) {
    const leaf_place at = {.sid_sub = x->head.sid_sub,
                           .step = x->head.h.step,
                           .run = x->head.h.run,
                           .rst = x->head.h.topology,
                           .h_program = x->h_program,
                           .h_optable = x->h_optable};
    const uvcc_allocator al = test_allocator(&x->mem);
    assert_int_equal(uvcci_transcript_new(&x->t, &al, LEAVES_MAX), 0);
    while (listing_has(l, "leaf")) {
        uint8_t leaf[UVCC_LEAF_MAX_BYTES];
        uint8_t type = value_name(l, "leaf", uvcc_leaf_name);
        uint32_t row = has_op(type) ? (uint32_t)value_number(l, "of_row", ROWS_MAX) : 0;
        listing_must(l, row < x->table.count, "no such row");
        if (!listing_good(l))
            return;
        size_t len = leaf_values(l, type, x->row[row].op_id, &at, leaf);
        listing_must(l, uvcci_transcript_add(x->t, row, leaf, len) == 0, "too many leaves");
    }
    if (listing_good(l))
        assert_int_equal(uvcci_transcript_root(x->t, x->step_root), 0);
}

/* The bundle of the values, with the roots of those that have a sign_seed. */
static void bundle_values(listing *l, bundle_box *x) {
    memset(x, 0, sizeof *x);
    head_values(l, &x->head, true);
    value_exactly(l, "h_program", x->h_program, 32);
    table_values(l, x);
    transcript_values(l, x);
    if (!listing_good(l))
        return;
    x->len = uvcci_bundle_bytes(&x->table, x->t);
    listing_must(l, x->len <= RECORD_MAX, "a bundle as long as that");
    if (!listing_good(l))
        return;
    x->bytes = malloc(x->len);
    assert_non_null(x->bytes);
    uvcci_bundle_encode(&x->head.h, x->h_program, &x->table, x->t, x->step_root, x->bytes);
    uvcci_worker_root(x->head.sid_job, x->head.h.at[0], x->head.h.step, x->step_root, x->root);
    while (listing_has(l, "signer")) {
        uint8_t seed[32], sk[64], audit_root[32], before[32], signature[64];
        uint8_t party = (uint8_t)value_number(l, "signer", 2), root[32];
        memcpy(root, x->root, 32);
        if (party != x->head.h.party) /* of another transcript */
            value_exactly(l, "root", root, 32);
        value_exactly(l, "audit_root", audit_root, 32);
        value_exactly(l, "before", before, 32);
        value_exactly(l, "sign_seed", seed, 32);
        if (!listing_good(l))
            return;
        uvcci_sign_keypair(seed, x->keys.key[party], sk);
        uvcci_head h = x->head.h;
        h.party = party;
        uvcc_statement st = uvcci_head_statement(&h, UVCC_SCOPE_WORKER);
        st.root = root;
        st.audit_root = audit_root;
        st.before = before;
        uint8_t text[UVCC_STATEMENT_BYTES];
        listing_must(l, uvcc_statement_encode(&st, text) == 0, "no statement");
        if (!listing_good(l))
            return;
        uvcci_statement_sign(&st, sk, signature);
        uvcci_bundle_put_audit(
            x->bytes, x->len, party,
            &(uvcc_signed_root){
                .root = root, .audit_root = audit_root, .before = before, .signature = signature});
    }
}

static void bundle_free(bundle_box *x) {
    free(x->bytes);
    if (x->t != NULL)
        uvcci_transcript_free(x->t);
    assert_int_equal(x->mem.live_bytes, 0);
}

static uvcci_head head_of(const uvcc_bundle *b) {
    return (uvcci_head){.party = b->party,
                        .topology = {b->replicas, b->stages, b->tp_ranks},
                        .at = {b->replica, b->stage, b->tp_rank},
                        .sid_job = b->sid_job,
                        .step = b->step,
                        .run = b->run,
                        .first = b->first,
                        .policy_hash = b->policy_hash};
}

static void row_fields(listing *l, const uvcc_bundle *b) {
    for (uint32_t i = 0; i < b->row_count; i++) {
        char name[32], text[64];
        uvcci_oprow row;
        uvcci_oprow_get(&row, b->rows + i * UVCCI_OPROW_BYTES);
        snprintf(name, sizeof name, "row %u", i);
        snprintf(text, sizeof text, "%u %u %u %u, attempt %u, 0x%08x", row.phase, row.mb, row.k,
                 row.b, row.attempt, row.op_id);
        field_bytes(l, name, b->rows + i * UVCCI_OPROW_BYTES, UVCCI_OPROW_BYTES, text);
    }
}

static void signed_root_fields(listing *l, const uvcc_bundle *b) {
    static const uint8_t zeros[64];
    for (unsigned p = 0; p < 3; p++) {
        const uvcc_signed_root *s = &b->audit[p];
        const bool here = s->root != NULL;
        field_title(l, "root of party %u", p);
        field_number(l, "here", 1, here, "");
        field_bytes(l, "global_root", here ? s->root : zeros, 32, "");
        field_bytes(l, "audit_root", here ? s->audit_root : zeros, 32, "");
        field_bytes(l, "before", here ? s->before : zeros, 32, "");
        field_bytes(l, "signature", here ? s->signature : zeros, 64, here ? "Ed25519" : "");
    }
}

static void stored_leaf_fields(listing *l, const uvcc_leaf *leaf) {
    field_number(l, "n", 1, leaf->stored_len, "");
    field_code(l, "type", 1, leaf->type, uvcc_leaf_name(leaf->type));
    leaf_fields(l, leaf);
}

/* A bundle with its roots, read and checked as an auditor does. */
void codec_bundle(listing *l, listing_seen *seen) {
    bundle_box x;
    uvcc_bundle b;
    uvcc_audit_fault fault = {.kind = UVCC_FAULT_NONE};
    const listing_block *k = &l->block[LISTING_BYTES];
    bundle_values(l, &x);
    listing_made(l, LISTING_BYTES, x.bytes, x.len);
    if (listing_good(l) && (uvcc_bundle_decode(&b, k->bytes, k->len, &fault) != 0 ||
                            uvcc_bundle_check(&b, &x.keys, &fault) != 0))
        listing_refuse(l, k->line, "no bundle: %s", uvcc_fault_text(fault.kind));
    bundle_free(&x);
    if (!listing_good(l))
        return;
    uvcci_head h = head_of(&b);
    uvcc_leaf_reader r;
    uvcc_leaf leaf;
    head_fields(l, "uvccbdl", &h);
    field_bytes(l, "H(program)", b.h_program, 32, "");
    field_number(l, "rows", 4, b.row_count, "");
    field_number(l, "leaves", 4, b.leaf_count, "");
    sum_field(l, "of all before");
    field_title(l, "op table: phase, mb, k, b");
    row_fields(l, &b);
    sum_field(l, "of the rows");
    uvcc_leaf_reader_init(&r, &b);
    while (uvcc_leaf_next(&r, &leaf) == 1) {
        field_title(l, "leaf %u, of row %u", leaf.index, leaf.row);
        stored_leaf_fields(l, &leaf);
        sum_field(l, "of LE32 index, n and the leaf");
    }
    field_title(l, "roots");
    field_bytes(l, "step_root", b.step_root, 32, "");
    signed_root_fields(l, &b);
    sum_field(l, "of the roots");
    snprintf(l->subject, sizeof l->subject, "Bundle");
    seen->bundle = true;
}

/* ---- proofs, roots of jobs ---- */

/* The proof of one leaf of a bundle, whose values are the same; the bundle is not in the listing.
 */
void codec_proof(listing *l, listing_seen *seen) {
    bundle_box x;
    uvcc_bundle b;
    uint8_t out[RECORD_MAX];
    int64_t len = 0;
    bundle_values(l, &x);
    const uint32_t index = (uint32_t)value_number(l, "index", UINT32_MAX);
    if (listing_good(l)) {
        listing_must(l, uvcc_bundle_decode(&b, x.bytes, x.len, NULL) == 0, "no bundle");
        len = listing_good(l) ? uvcc_proof_make(&b, index, NULL, out, sizeof out) : 0;
        listing_must(l, len > 0, "no proof");
    }
    const uvcc_audit_keys keys = x.keys;
    bundle_free(&x);
    listing_made(l, LISTING_BYTES, out, (size_t)len);
    const listing_block *k = &l->block[LISTING_BYTES];
    uvcc_proof p;
    uvcc_audit_fault fault = {.kind = UVCC_FAULT_NONE};
    if (listing_good(l) && (uvcc_proof_decode(&p, k->bytes, k->len, &fault) != 0 ||
                            uvcc_proof_check(&p, &keys, &fault) != 0))
        listing_refuse(l, k->line, "no proof: %s", uvcc_fault_text(fault.kind));
    if (!listing_good(l))
        return;
    const uvcci_head h = {.party = p.party,
                          .flags = p.of_job,
                          .topology = {p.replicas, p.stages, p.tp_ranks},
                          .at = {p.replica, p.stage, p.tp_rank},
                          .sid_job = p.sid_job,
                          .step = p.step,
                          .run = p.run,
                          .first = p.first,
                          .policy_hash = p.policy_hash};
    uint8_t stored[UVCC_LEAF_MAX_BYTES];
    uvcc_leaf leaf = {.type = 0};
    stored[0] = p.leaf[0];
    memcpy(stored + 1, p.leaf + 33, p.leaf_len - 33);
    listing_must(l, uvcci_leaf_parse(&leaf, stored, p.leaf_len - 32), "no leaf");
    head_fields(l, "uvccprf", &h);
    field_number(l, "index", 4, p.index, "");
    field_number(l, "leaves", 4, p.leaf_count, "");
    field_title(l, "the leaf");
    stored_leaf_fields(l, &leaf);
    field_title(l, "from the leaf to the root");
    field_number(l, "m", 1, p.path_len, "");
    for (unsigned i = 0; i < p.path_len; i++)
        field_bytes(l, "sibling", p.path + 32 * i, 32, "");
    field_bytes(l, "step_root", p.step_roots, 32, "");
    field_bytes(l, "replica_root", p.replica_roots, 32, "");
    field_bytes(l, "audit_root", p.audit_root, 32, "");
    field_bytes(l, "before", p.before, 32, "");
    field_bytes(l, "signature", p.signature, 64, "Ed25519");
    sum_field(l, "of all before");
    snprintf(l->subject, sizeof l->subject, "Proof");
    seen->proof = true;
}

/* The roots of all workers of a party, which stand in the values, and the signature over them. */
void codec_job_root(listing *l, listing_seen *seen) {
    head_box x;
    uint8_t roots[ROWS_MAX * 32], before_it[ROWS_MAX][32], before[32], seed[32], sk[64];
    uint8_t out[RECORD_MAX];
    uvcc_audit_keys keys = {{{0}}};
    unsigned n = 0, earlier = 0; /* of the run's steps before this one */
    head_values(l, &x, false);
    while (listing_has(l, "step_root") && n < ROWS_MAX)
        value_exactly(l, "step_root", roots + 32 * n++, 32);
    while (listing_has(l, "earlier_root") && earlier < ROWS_MAX)
        value_exactly(l, "earlier_root", before_it[earlier++], 32);
    value_exactly(l, "before", before, 32);
    value_exactly(l, "sign_seed", seed, 32);
    uvcci_sign_keypair(seed, keys.key[x.h.party], sk);
    uvcc_job_root j = {.party = x.h.party,
                       .replicas = x.h.topology[0],
                       .stages = x.h.topology[1],
                       .tp_ranks = x.h.topology[2],
                       .step = x.h.step,
                       .run = x.h.run,
                       .first = x.h.first,
                       .sid_job = x.sid_job,
                       .policy_hash = x.policy_hash,
                       .step_roots = roots,
                       .global = {.before = before}};
    listing_must(l, (unsigned)j.replicas * j.stages * j.tp_ranks == n, "a root for each worker");
    uvcc_audit_tree tree;
    uvcc_audit_tree_init(&tree);
    for (unsigned i = 0; i < earlier; i++)
        (void)uvcc_audit_tree_add(&tree, before_it[i]);
    if (listing_good(l))
        listing_must(l, uvcc_job_root_encode(&j, &tree, seed, out, sizeof out) == 0, "no job root");
    listing_made(l, LISTING_BYTES, out, uvcc_job_root_bytes(j.replicas, j.stages, j.tp_ranks));
    const listing_block *k = &l->block[LISTING_BYTES];
    uvcc_audit_fault fault = {.kind = UVCC_FAULT_NONE};
    if (listing_good(l) && (uvcc_job_root_decode(&j, k->bytes, k->len, &fault) != 0 ||
                            uvcc_job_root_check(&j, &keys, &fault) != 0))
        listing_refuse(l, k->line, "no job root: %s", uvcc_fault_text(fault.kind));
    if (!listing_good(l))
        return;
    const uvcci_head h = {.party = j.party,
                          .topology = {j.replicas, j.stages, j.tp_ranks},
                          .sid_job = j.sid_job,
                          .step = j.step,
                          .run = j.run,
                          .first = j.first,
                          .policy_hash = j.policy_hash};
    head_fields(l, "uvccjob", &h);
    field_title(l, "step roots in (r, s, t) order");
    for (unsigned i = 0; i < n; i++)
        field_bytes(l, "step_root", j.step_roots + 32 * i, 32, "");
    field_bytes(l, "global_root", j.global.root, 32, "");
    field_bytes(l, "audit_root", j.global.audit_root, 32, "");
    field_bytes(l, "before", j.global.before, 32, "");
    field_bytes(l, "signature", j.global.signature, 64, "Ed25519");
    sum_field(l, "of all before");
    snprintf(l->subject, sizeof l->subject, "Job root");
    seen->job_root = true;
}
