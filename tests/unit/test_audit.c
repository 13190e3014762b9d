/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles of real runs, as they are, damaged and forged; proofs; roots over several workers. */
#include "damage.h"
#include "triangle.h"

#include "proto/bundle.h"
#include <uvcc/frame.h>
#include <uvcc/mlp.h>

enum { DAMAGES = 1000, AUDIT = 1 + 3 * 32 + 64, TAIL = 32 + 3 * AUDIT + 4 };

static void keep(void *user, unsigned party, uint32_t step, const uint8_t *bytes, size_t len) {
    audit_run *r = user;
    file *f = &r->f[step][party];
    assert_true(step < AUDIT_STEPS_MAX);
    assert_null(f->bytes);
    f->bytes = malloc(len);
    f->len = len;
    memcpy(f->bytes, bytes, len);
}

/* A bundle is there from the step's end, with the own root, until a later step ends. */
static void bundles_come_and_go(void *user, unsigned party, const uvcc_session *s,
                                const uvcc_event *e) {
    const uint8_t *data;
    size_t len;
    uvcc_bundle b;
    (void)user;
    if (e->kind != UVCC_EVENT_STEP_FINISHED)
        return;
    assert_int_equal(uvcc_session_bundle(s, e->step, &data, &len), 0);
    assert_int_equal(uvcc_bundle_decode(&b, data, len, NULL), 0);
    assert_memory_equal(b.audit[party].root, e->root, 32);
    assert_memory_equal(b.audit[party].audit_root, e->audit_root, 32);
    assert_memory_equal(b.audit[party].signature, e->signature, 64);
    assert_int_equal(b.first, 0);
    assert_int_equal(uvcc_session_bundle(s, e->step + 1, &data, &len), UVCC_ERR_NOT_FOUND);
    if (e->step >= 2)
        assert_int_equal(uvcc_session_bundle(s, e->step - 2, &data, &len), UVCC_ERR_NOT_FOUND);
}

/* Runs an entry per step, on small inputs. */
static audit_run run_steps(const uvcc_program *p, const char *const *entries, uint32_t steps) {
    audit_run r = {.steps = steps};
    triangle t;
    triangle_options opt = {
        .on_bundle = keep, .on_event = bundles_come_and_go, .user = &r, .seed = 5};
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t m = 0; m < steps; m++) {
        uint32_t entry = (uint32_t)uvcc_program_find_entry(p, entries[m]);
        triangle_agree(&t, m, entry);
        for (uint32_t k = 0; k < uvcc_program_input_count(p, entry); k++) {
            const uvcc_io_desc *io = uvcc_program_input_at(p, entry, k);
            const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
            int64_t *v = calloc((size_t)d->rows * d->cols, sizeof *v);
            for (size_t e = 0; e < (size_t)d->rows * d->cols; e++)
                v[e] = (int64_t)(e + m);
            triangle_input(&t, io->owner, m, io->id, v);
            free(v);
        }
        triangle_finish(&t, m + 1);
    }
    triangle_close(&t);
    r.keys = t.keys;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(t.bundles[i], steps);
    triangle_free(&t);
    return r;
}

/* Two training steps, a prediction, a step that opens the weights: every kind of leaf there is. */
static audit_run train(void) {
    static const char *const entries[] = {"train", "train", "predict", "reveal"};
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_mlp_config c = {.features = 5,
                         .classes = 3,
                         .hidden_count = 1,
                         .hidden = {4},
                         .batch = 2,
                         .predict_rows = 2,
                         .lr_shift = 2,
                         .frac_bits = 12,
                         .x_owner = 0,
                         .y_owner = 1};
    uvcc_program *p;
    assert_int_equal(uvcc_mlp_program(&p, &c, &al, NULL, 0), 0);
    audit_run r = run_steps(p, entries, 4);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
    return r;
}

/* One input, a sum, its opening: small enough to try everything. */
static uvcc_program *add_program(const uvcc_allocator *al, uint8_t receiver) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    uvcc_tensor_desc d = {.name = "X",
                          .rows = 1,
                          .cols = 2,
                          .bits = 20,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int x = uvcc_program_tensor(p, &d);
    d.name = "Y";
    d.bits = 21;
    int y = uvcc_program_tensor(p, &d);
    uvcc_op_desc op = {.opcode = UVCC_OP_ADD,
                       .in_count = 2,
                       .out_count = 1,
                       .in = {(uint32_t)x, (uint32_t)x},
                       .out = {(uint32_t)y}};
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_input(p, 1, (uint32_t)x, 0), 0);
    assert_true(uvcc_program_op(p, &op) >= 0);
    assert_int_equal(receiver == UVCC_TO_ALL ? uvcc_program_output(p, 2, (uint32_t)y)
                                             : uvcc_program_output_to(p, 2, (uint32_t)y, receiver),
                     0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static audit_run add_to(uint8_t receiver) {
    static const char *const entries[] = {"run"};
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = add_program(&al, receiver);
    audit_run r = run_steps(p, entries, 1);
    uvcc_program_free(p);
    return r;
}

static audit_run add(void) {
    return add_to(UVCC_TO_ALL);
}

/* ---- judging three files ---- */

/* 0, or what is wrong with which file (fault.party). Each is read in a block of its exact size. */
static int judge(const file f[3], const uvcc_audit_keys *keys, uvcc_audit_fault *fault) {
    uvcc_bundle b[3];
    uint8_t *exact[3] = {0};
    int rc = 0;
    for (uint8_t p = 0; p < 3 && rc == 0; p++) {
        exact[p] = malloc(f[p].len != 0 ? f[p].len : 1);
        memcpy(exact[p], f[p].bytes, f[p].len);
        rc = uvcc_bundle_decode(&b[p], exact[p], f[p].len, fault);
        if (rc == 0 && b[p].party != p) {
            fault->kind = UVCC_FAULT_OTHER_STEP;
            rc = UVCC_ERR_AUTH;
        }
        fault->party = rc != 0 ? p : fault->party;
    }
    if (rc == 0)
        rc = uvcc_bundle_verify(b, keys, fault);
    for (unsigned p = 0; p < 3; p++)
        free(exact[p]);
    return rc;
}

static void honest_runs(void **state) {
    (void)state;
    audit_run r = train();
    uvcc_audit_fault f;
    bool seen[256] = {false};
    for (uint32_t m = 0; m < r.steps; m++) {
        assert_int_equal(judge(r.f[m], &r.keys, &f), 0);
        assert_int_equal(f.kind, UVCC_FAULT_NONE);
        for (unsigned p = 0; p < 3; p++) {
            uvcc_bundle b;
            uvcc_leaf_reader at;
            uvcc_leaf l;
            uint32_t n = 0;
            assert_int_equal(uvcc_bundle_decode(&b, r.f[m][p].bytes, r.f[m][p].len, NULL), 0);
            assert_int_equal(b.step, m);
            uvcc_leaf_reader_init(&at, &b);
            while (uvcc_leaf_next(&at, &l) == 1) {
                uint8_t whole[UVCC_LEAF_MAX_BYTES];
                assert_int_equal(l.index, n++);
                assert_int_equal(uvcc_leaf_bytes(&b, &l, whole), l.stored_len + 32);
                assert_memory_equal(whole + 1, b.sid_sub, 32);
                seen[l.type] = true;
            }
            assert_int_equal(n, b.leaf_count);
            for (unsigned q = 0; q < 3; q++)
                assert_non_null(b.audit[q].root);
        }
    }
    static const uint8_t types[] = {
        UVCC_LEAF_STEP_BEGIN, UVCC_LEAF_OPEN_SENT,       UVCC_LEAF_OPEN_RECEIVED,
        UVCC_LEAF_OPEN_DONE,  UVCC_LEAF_SHARE_SENT,      UVCC_LEAF_SHARE_RECEIVED,
        UVCC_LEAF_KEYS_DONE,  UVCC_LEAF_LIFT_SENT,       UVCC_LEAF_LIFT_RECEIVED,
        UVCC_LEAF_LIFT_DONE,  UVCC_LEAF_COMPONENT_COMMIT};
    for (size_t i = 0; i < sizeof types; i++)
        assert_true(seen[types[i]]);
    audit_run_free(&r);
}

/* ---- random damage ---- */

static void random_damage(void **state) {
    (void)state;
    audit_run r = train();
    uint64_t rnd = 20;
    unsigned kinds[32] = {0}, leaves = 0;
    for (unsigned turn = 0; turn < DAMAGES; turn++) {
        damage d = damage_make(&r, &rnd);
        file f[3];
        uvcc_audit_fault fault;
        memcpy(f, r.f[d.step], sizeof f);
        f[d.party] = d.f;
        if (judge(f, &r.keys, &fault) == 0)
            fail_msg("%s: accepted", d.what);
        if (fault.party != d.party)
            fail_msg("%s: party %u is named: %s", d.what, fault.party, uvcc_fault_text(fault.kind));
        if (d.leaf != UVCC_NO_LEAF && !damage_names_leaf(&d, &r, &fault))
            fail_msg("%s: leaf %d is named: %s", d.what, (int)fault.leaf,
                     uvcc_fault_text(fault.kind));
        kinds[fault.kind]++;
        leaves += d.leaf != UVCC_NO_LEAF;
        free(d.f.bytes);
    }
    static const uvcc_fault_kind met[] = {
        UVCC_FAULT_CUT,   UVCC_FAULT_CHECKSUM, UVCC_FAULT_ORDER,      UVCC_FAULT_TWICE,
        UVCC_FAULT_OP,    UVCC_FAULT_FIELD,    UVCC_FAULT_OTHER_STEP, UVCC_FAULT_DIFFERS,
        UVCC_FAULT_TABLE, UVCC_FAULT_MISSING,  UVCC_FAULT_BEGIN};
    for (size_t i = 0; i < sizeof met / sizeof met[0]; i++)
        if (kinds[met[i]] == 0)
            fail_msg("never: %s", uvcc_fault_text(met[i]));
    assert_true(leaves > DAMAGES / 2);
    audit_run_free(&r);
}

/* ---- everything, of a small bundle ---- */

static void cut_and_flipped(void **state) {
    (void)state;
    audit_run r = add();
    const file *whole = r.f[0];
    uvcc_audit_fault f;
    assert_int_equal(judge(whole, &r.keys, &f), 0);
    for (unsigned p = 0; p < 3; p++) {
        file d[3] = {whole[0], whole[1], whole[2]};
        d[p] = copy_of(&whole[p]);
        for (size_t len = 0; len < whole[p].len; len++) {
            d[p].len = len;
            assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_FRAME);
            assert_int_equal(f.party, p);
        }
        d[p].len = whole[p].len + 1;
        d[p].bytes[whole[p].len] = 0;
        assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_FRAME);
        assert_int_equal(f.kind, UVCC_FAULT_LEFT_OVER);
        d[p].len = whole[p].len;
        for (size_t bit = 0; bit < 8 * whole[p].len; bit++) {
            memcpy(d[p].bytes, whole[p].bytes, whole[p].len);
            d[p].bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_FRAME);
            assert_int_equal(f.party, p);
            uvcci_bundle_seal(d[p].bytes, d[p].len);
            bool sum = memcmp(d[p].bytes, whole[p].bytes, whole[p].len) == 0;
            if ((judge(d, &r.keys, &f) == 0) != sum)
                fail_msg("party %u, bit %zu", p, bit);
            assert_true(sum || f.party == p);
        }
        free(d[p].bytes);
    }
    audit_run_free(&r);
}

/* Leaves of another size, checksums good: each is refused for its form or its fields. */
static void impossible_leaves(void **state) {
    (void)state;
    audit_run r = train();
    static const struct {
        uint8_t type, at, value; /* of the stored leaf */
        uvcc_fault_kind kind;
    } cases[] = {{UVCC_LEAF_OPEN_SENT, 5, 3, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_OPEN_SENT, 6, 1, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_OPEN_RECEIVED, 6, 0, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_SHARE_SENT, 7, 0, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_KEYS_DONE, 6, 3, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_COMPONENT_COMMIT, 13, 0, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_LIFT_DONE, 14, 0xFF, UVCC_FAULT_FIELD},
                 {UVCC_LEAF_LIFT_DONE, 0, UVCC_LEAF_ABORT, UVCC_FAULT_FORM},
                 {UVCC_LEAF_OPEN_SENT, 0, UVCC_LEAF_STEP_BEGIN, UVCC_FAULT_FORM},
                 {UVCC_LEAF_OPEN_SENT, 0, 0x6F, UVCC_FAULT_FORM},
                 {UVCC_LEAF_OPEN_SENT, 0, 0x7F, UVCC_FAULT_FORM},
                 {UVCC_LEAF_OPEN_SENT, 4, 0x77, UVCC_FAULT_OP}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file d = copy_of(&r.f[0][1]);
        uint32_t k = 0;
        while (leaf_at(&d, k).type != cases[i].type)
            k++;
        size_t at = leaf_at(&d, k).offset + 1 + cases[i].at;
        if (d.bytes[at] == cases[i].value) /* of party 1 */
            d.bytes[at] ^= 0x55;
        else
            d.bytes[at] = cases[i].value;
        uvcci_bundle_seal(d.bytes, d.len);
        uvcc_bundle b;
        uvcc_audit_fault f;
        assert_int_equal(uvcc_bundle_decode(&b, d.bytes, d.len, &f), UVCC_ERR_FRAME);
        if (f.kind != cases[i].kind || f.leaf != k)
            fail_msg("case %zu: leaf %d: %s", i, (int)f.leaf, uvcc_fault_text(f.kind));
        free(d.bytes);
    }
    audit_run_free(&r);
}

/* ---- bundles made by hand: derived as they should be, and wrong ---- */

enum { HAND_ROWS = 4 };

typedef struct hand {
    uint8_t sid_job[32], sid_sub[32];
    uvcci_oprow rows[HAND_ROWS];
    uint32_t count;
    uvcci_transcript *t;
    test_alloc mem;
} hand;

static void hand_begin(hand *h, const uvcci_oprow *rows, uint32_t count) {
    memset(h, 0, sizeof *h);
    uvcc_allocator al = test_allocator(&h->mem);
    uint8_t sid_rep[32];
    uvcci_sid_rep(h->sid_job, 0, sid_rep);
    uvcci_sid_sub(sid_rep, 0, 0, h->sid_sub);
    h->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uvcci_oprow *r = &h->rows[i];
        *r = rows[i];
        r->op_id = uvcci_op_id(h->sid_sub, 3, r->phase, r->mb, r->k, r->b, r->attempt);
    }
    assert_int_equal(uvcci_transcript_new(&h->t, &al, 100), 0);
}

static void hand_leaf(hand *h, uint32_t row, const uint8_t *leaf, size_t n) {
    assert_int_equal(uvcci_transcript_add(h->t, row, leaf, n), 0);
}

/* Party 1's bundle: decoded, with the fault that is found. */
static uvcc_audit_fault hand_end(hand *h) {
    static const uint8_t zero[32];
    static const uint16_t one[3] = {1, 1, 1};
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], h_table[32], epoch[32], signature[64] = {0};
    uvcci_optable table = {.rows = h->rows, .count = h->count};
    uvcci_optable_hash(&table, h_table);
    hand_leaf(h, 0, leaf, uvcci_leaf_step_begin(leaf, h->sid_sub, 3, 0, one, zero, zero, h_table));
    assert_int_equal(uvcci_transcript_root(h->t, epoch), 0);
    const uvcci_head head = {
        .party = 1, .topology = {1, 1, 1}, .sid_job = h->sid_job, .step = 3, .policy_hash = zero};
    size_t len = uvcci_bundle_bytes(&table, h->t);
    uint8_t *bytes = malloc(len);
    uvcci_bundle_encode(&head, zero, &table, h->t, epoch, bytes);
    uvcci_bundle_put_audit(
        bytes, len, 1,
        &(uvcc_signed_root){
            .root = zero, .audit_root = zero, .before = zero, .signature = signature});
    uvcc_bundle b;
    uvcc_audit_fault f;
    (void)uvcc_bundle_decode(&b, bytes, len, &f);
    free(bytes);
    uvcci_transcript_free(h->t);
    assert_int_equal(h->mem.live_blocks, 0);
    return f;
}

static void tables_in_order(void **state) {
    (void)state;
    static const struct {
        uvcci_oprow rows[3];
        int bad; /* -1: none */
    } cases[] = {
        {{{.k = 1}, {.k = 1, .b = 1}, {.k = 2}}, -1},
        {{{.k = 1}, {.k = 1, .b = 1}, {.mb = 1}}, -1},
        {{{.mb = 3, .k = 9}, {.phase = 1, .mb = 2, .k = 8}, {.phase = 2}}, -1},
        {{{.k = 1, .attempt = 4}, {.k = 1, .b = 1}, {.k = 2}}, -1},
        {{{.k = 1, .b = 1}, {.k = 2}, {.k = 3}}, 0},
        {{{.k = 1}, {.k = 1, .b = 2}, {.k = 2}}, 1},
        {{{.k = 1}, {.k = 1}, {.k = 2}}, 1},
        {{{.k = 1}, {.k = 2, .b = 1}, {.k = 3}}, 1},
        {{{.k = 1}, {.k = 3}, {.k = 2}}, 2},
        {{{.mb = 1}, {.k = 3}, {.k = 4}}, 1},
        {{{.phase = 1}, {.mb = 2, .k = 3}, {.mb = 2, .k = 4}}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hand h;
        hand_begin(&h, cases[i].rows, 3);
        uvcc_audit_fault f = hand_end(&h);
        if (f.kind != (cases[i].bad < 0 ? UVCC_FAULT_NONE : UVCC_FAULT_TABLE) ||
            (cases[i].bad >= 0 && f.row != (uint32_t)cases[i].bad))
            fail_msg("case %zu: row %d: %s", i, (int)f.row, uvcc_fault_text(f.kind));
    }
}

/* An op's leaves stand in its first row; no two of a kind have one name. */
static void leaves_by_name(void **state) {
    (void)state;
    static const uvcci_oprow rows[] = {{.k = 1}, {.k = 1, .b = 1}, {.k = 2}};
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], d[2][32] = {{1}, {2}};
    for (unsigned turn = 0; turn < 8; turn++) {
        hand h;
        hand_begin(&h, rows, 3);
        const uint32_t first = h.rows[0].op_id, second = h.rows[1].op_id;
        uvcc_fault_kind want = UVCC_FAULT_NONE;
        for (unsigned i = 0; i < 2; i++) {
            /* in turns 4 to 7 the name is the same, and the digest is another */
            const bool same = turn >= 4;
            size_t n = 0;
            if (turn % 4 == 0)
                n = uvcci_leaf_open_done(leaf, h.sid_sub, first, same ? 5 : i, 0, d[i]);
            else if (turn % 4 == 1)
                n = uvcci_leaf_keys_done(leaf, h.sid_sub, first, 0, 1, d[same ? i : 0]);
            else if (turn % 4 == 2)
                n = uvcci_leaf_component_commit(leaf, h.sid_sub, first, 7,
                                                (uint8_t)(1 + (same ? 0 : i)), d[i]);
            else
                n = uvcci_leaf_batch(
                    leaf, UVCCI_LEAF_OPEN_SENT, h.sid_sub, second, 1, same ? 0 : (uint8_t)(2 * i),
                    uvcci_msg_id(UVCC_FRAME_OPEN_BATCH, h.sid_sub, second, 1,
                                 same ? 0 : (uint8_t)(2 * i), 0, (uint16_t)(1 + 8 * i)),
                    d[i]);
            if (!same && turn % 4 == 1 && i == 1)
                continue;
            hand_leaf(&h, turn % 4 == 3 ? 1 : 0, leaf, n);
            want = same && i == 1 ? UVCC_FAULT_TWICE : UVCC_FAULT_NONE;
        }
        uvcc_audit_fault f = hand_end(&h);
        if (f.kind != want)
            fail_msg("turn %u: leaf %d: %s", turn, (int)f.leaf, uvcc_fault_text(f.kind));
    }
    hand h; /* verdicts: of an op, and of the step, where one overrides an earlier failure */
    for (unsigned ok = 0; ok < 4; ok++)
        for (unsigned of_op = 0; of_op < 2; of_op++) {
            hand_begin(&h, rows, 3);
            const uint32_t op = of_op ? h.rows[0].op_id : 0;
            hand_leaf(&h, 0, leaf, uvcci_leaf_sks_verdict(leaf, h.sid_sub, op, (uint8_t)ok));
            assert_int_equal(hand_end(&h).kind,
                             ok == (of_op ? 1 : 2) ? UVCC_FAULT_NONE : UVCC_FAULT_FIELD);
        }
    hand_begin(&h, rows, 3);
    hand_leaf(&h, 2, leaf, uvcci_leaf_open_done(leaf, h.sid_sub, h.rows[2].op_id, 1, 0, d[0]));
    hand_leaf(&h, 2, leaf,
              uvcci_leaf_sks_verdict(leaf, h.sid_sub, 0, 2)); /* its row is the first */
    assert_int_equal(hand_end(&h).kind, UVCC_FAULT_ORDER);
    /* of the id of a later batch, where a segment may begin */
    hand_begin(&h, rows, 3);
    hand_leaf(&h, 1, leaf,
              uvcci_leaf_lift_done(leaf, h.sid_sub, h.rows[1].op_id, 1, UVCC_BLOCK_ELEMS));
    assert_int_equal(hand_end(&h).kind, UVCC_FAULT_NONE);
}

/* A dropped step has two leaves, of its own number. */
static void dropped_steps(void **state) {
    (void)state;
    static const uvcci_oprow rows[] = {{.k = 1}, {.k = 2}};
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    for (unsigned what = 0; what < 5; what++) {
        hand h;
        hand_begin(&h, rows, 2);
        hand_leaf(&h, 0, leaf, uvcci_leaf_step_cancelled(leaf, h.sid_sub, what == 1 ? 4 : 3));
        if (what == 2)
            hand_leaf(&h, 0, leaf, uvcci_leaf_step_cancelled(leaf, h.sid_sub, 3));
        if (what == 3) /* before it */
            hand_leaf(&h, 0, leaf,
                      uvcci_leaf_lift_done(leaf, h.sid_sub, h.rows[0].op_id, 1, UVCC_BLOCK_ELEMS));
        if (what == 4)
            hand_leaf(&h, 1, leaf,
                      uvcci_leaf_lift_done(leaf, h.sid_sub, h.rows[1].op_id, 1, UVCC_BLOCK_ELEMS));
        const uvcc_audit_fault f = hand_end(&h);
        assert_int_equal(f.kind, what == 0 ? UVCC_FAULT_NONE : UVCC_FAULT_CANCELLED);
    }
}

/* ---- lies that are signed ---- */

/* What a party signs, in storage of its own. */
typedef struct lie {
    uint8_t root[32], audit_root[32], before[32], signature[64];
} lie;

static uvcc_signed_root views(const lie *l) {
    return (uvcc_signed_root){.root = l->root,
                              .audit_root = l->audit_root,
                              .before = l->before,
                              .signature = l->signature};
}

/* What party q signed, as a bundle has it. */
static lie what_signed(const uvcc_bundle *b, uint8_t q) {
    lie l;
    memcpy(l.root, b->audit[q].root, 32);
    memcpy(l.audit_root, b->audit[q].audit_root, 32);
    memcpy(l.before, b->audit[q].before, 32);
    memcpy(l.signature, b->audit[q].signature, 64);
    return l;
}

/* Party q signs it, for the bundle's place. */
static void sign(const uvcc_bundle *b, uint8_t q, lie *l) {
    uint8_t seed[32], pk[32], sk[64];
    uvcc_statement st;
    uvcc_bundle_statement(b, q, &st);
    st.root = l->root;
    st.audit_root = l->audit_root;
    st.before = l->before;
    memset(seed, 0x40 + q, 32); /* the seeds of triangle.c */
    uvcci_sign_keypair(seed, pk, sk);
    uvcci_statement_sign(&st, sk, l->signature);
}

static void put(file *f, uint8_t q, const lie *l) {
    const uvcc_signed_root v = views(l);
    uvcci_bundle_put_audit(f->bytes, f->len, q, &v);
}

/* Signs the leaves as they are now: the party's own lie, which the others do not know of. */
static void sign_again(file *f, uint8_t party) {
    uvcc_bundle b;
    uvcci_merkle m;
    uint8_t epoch[32];
    uvcci_bundle_seal(f->bytes, f->len);
    assert_int_equal(uvcc_bundle_decode(&b, f->bytes, f->len, NULL), 0);
    uvcci_bundle_root(&b, &m, UVCC_NO_LEAF, epoch);
    memcpy(f->bytes + f->len - TAIL, epoch, 32);
    lie l = what_signed(&b, party);
    uvcci_worker_root(b.sid_job, b.replica, b.step, epoch, l.root);
    memcpy(l.audit_root, l.root, 32); /* of the run's first step */
    sign(&b, party, &l);
    put(f, party, &l);
}

/* A party that signs a false transcript is not told apart from the one that it contradicts, but the
 * leaves are named; and the others hold the root that it signed before. */
static void signed_lies(void **state) {
    (void)state;
    audit_run r = train();
    static const uint8_t types[] = {UVCC_LEAF_STEP_BEGIN, UVCC_LEAF_OPEN_SENT,
                                    UVCC_LEAF_OPEN_DONE,  UVCC_LEAF_SHARE_RECEIVED,
                                    UVCC_LEAF_KEYS_DONE,  UVCC_LEAF_LIFT_RECEIVED,
                                    UVCC_LEAF_LIFT_DONE,  UVCC_LEAF_COMPONENT_COMMIT};
    uvcc_audit_fault f;
    for (uint8_t p = 0; p < 3; p++)
        for (size_t i = 0; i < sizeof types; i++)
            for (unsigned gone = 0; gone < 2; gone++) {
                file d[3];
                uint32_t k = 0, at;
                if (gone && types[i] == UVCC_LEAF_STEP_BEGIN)
                    continue;
                for (unsigned q = 0; q < 3; q++)
                    d[q] = copy_of(&r.f[0][q]);
                while (leaf_at(&d[p], k).type != types[i])
                    k++;
                uvcc_leaf l = leaf_at(&d[p], k);
                at = types[i] == UVCC_LEAF_STEP_BEGIN ? 47 : (uint32_t)l.stored_len - 1;
                if (types[i] == UVCC_LEAF_LIFT_DONE)
                    at = 13;
                if (gone) {
                    remove_leaf(&d[p], k);
                    add_count(&d[p], -1);
                } else {
                    d[p].bytes[l.offset + 1 + at] ^= types[i] == UVCC_LEAF_LIFT_DONE ? 4 : 1;
                }
                sign_again(&d[p], p);
                assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
                bool named = (f.party == p && f.leaf == k) || (f.other == p && f.other_leaf == k) ||
                             (gone && counterparts(&r.f[0][p], k, &r.f[0][f.party], f.leaf));
                if (!named || f.kind != (gone ? UVCC_FAULT_NO_COUNTERPART : UVCC_FAULT_DIFFERS))
                    fail_msg("%s of party %u: party %u, leaf %d, party %u, leaf %d: %s",
                             uvcc_leaf_name(types[i]), p, f.party, (int)f.leaf, f.other,
                             (int)f.other_leaf, uvcc_fault_text(f.kind));
                for (unsigned q = 0; q < 3; q++)
                    free(d[q].bytes);
            }
    audit_run_free(&r);
}

/* A party signed another statement of the same step for party 2: its root, what it goes on from or
 * its audit root differ. That is proof against the party that signed both. */
static void two_statements(void **state) {
    (void)state;
    audit_run r = train();
    for (unsigned what = 0; what < 3; what++) {
        uvcc_audit_fault f;
        uvcc_bundle b;
        file d[3];
        for (unsigned p = 0; p < 3; p++)
            d[p] = copy_of(&r.f[1][p]);
        assert_int_equal(uvcc_bundle_decode(&b, d[2].bytes, d[2].len, NULL), 0);
        lie l = what_signed(&b, 0);
        (what == 0 ? l.root : what == 1 ? l.audit_root : l.before)[5] ^= 1;
        sign(&b, 0, &l);
        put(&d[2], 0, &l);
        assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
        assert_int_equal(f.kind, UVCC_FAULT_TWO_ROOTS);
        assert_int_equal(f.party, 2); /* where it stands; who signed both: */
        assert_int_equal(f.other, 0);
        l.signature[5] ^= 1;
        put(&d[2], 0, &l);
        assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
        assert_int_equal(f.kind, UVCC_FAULT_SIGNATURE);
        assert_int_equal(f.party, 2);
        assert_int_equal(f.other, 0);
        for (unsigned p = 0; p < 3; p++)
            free(d[p].bytes);
    }
    audit_run_free(&r);
}

/* Party 2 puts what party 0 signed of another step, of another run or as another worker into its
 * own bundle, all of it genuine: it is party 2's bundle that is wrong, and party 0 signed no two
 * statements of one step. */
static void pasted_statements(void **state) {
    (void)state;
    audit_run r = train();
    for (unsigned what = 0; what < 6; what++) {
        uvcc_audit_fault f;
        uvcc_bundle b, from;
        file d[3];
        for (unsigned p = 0; p < 3; p++)
            d[p] = copy_of(&r.f[1][p]);
        assert_int_equal(uvcc_bundle_decode(&b, d[2].bytes, d[2].len, NULL), 0);
        from = b;
        lie l = what_signed(&b, 0);
        l.root[0] ^= 1;  /* it may have run otherwise there */
        if (what == 0) { /* the step before */
            assert_int_equal(uvcc_bundle_decode(&from, r.f[0][0].bytes, r.f[0][0].len, NULL), 0);
            l = what_signed(&from, 0);
        } else if (what == 1) {
            from.step = 2;
        } else if (what == 2) {
            from.run++;
        } else if (what == 3) {
            from.replicas = 2;
            from.replica = 1;
        } else if (what == 4) { /* an honest rerun of this step alone */
            from.run++;
            from.first = from.step;
            memcpy(l.audit_root, l.root, 32);
        } else {
            from.first = from.step;
        }
        if (what != 0)
            sign(&from, 0, &l);
        uvcc_statement st;
        const uvcc_signed_root v = views(&l);
        uvcc_bundle_statement(&from, 0, &st);
        st.root = v.root;
        st.audit_root = v.audit_root;
        st.before = v.before;
        assert_int_equal(uvcc_statement_check(&st, r.keys.key[0], l.signature), 0);
        put(&d[2], 0, &l);
        assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
        if (f.kind != UVCC_FAULT_SIGNATURE || f.party != 2 || f.other != 0)
            fail_msg("case %u: party %u: %s", what, f.party, uvcc_fault_text(f.kind));
        for (unsigned p = 0; p < 3; p++)
            free(d[p].bytes);
    }
    audit_run_free(&r);
}

/* In the first step of a run the audit root is the step's own. */
static void audit_root_of_the_first_step(void **state) {
    (void)state;
    audit_run r = add();
    uvcc_audit_fault f;
    uvcc_bundle b;
    file d[3] = {copy_of(&r.f[0][0]), r.f[0][1], r.f[0][2]};
    assert_int_equal(uvcc_bundle_decode(&b, d[0].bytes, d[0].len, NULL), 0);
    lie l = what_signed(&b, 0);
    l.audit_root[7] ^= 1;
    sign(&b, 0, &l);
    put(&d[0], 0, &l);
    assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
    assert_int_equal(f.kind, UVCC_FAULT_AUDIT_ROOT);
    assert_int_equal(f.party, 0);
    free(d[0].bytes);
    audit_run_free(&r);
}

/* The last leaf of a file with that type. */
static uint32_t last_of(const file *f, uint8_t type) {
    uint32_t k = leaf_count(f);
    while (leaf_at(f, --k).type != type)
        assert_true(k != 0);
    return k;
}

/* A leaf more, behind all others. */
static void append_leaf(file *f, const file *from, uint32_t index) {
    const uvcc_leaf l = leaf_at(from, index), last = leaf_at(f, leaf_count(f) - 1);
    const size_t n = 1 + l.stored_len + 4, end = last.offset + 1 + last.stored_len + 4;
    memmove(f->bytes + end + n, f->bytes + end, f->len - end);
    memcpy(f->bytes + end, from->bytes + l.offset, n);
    f->len += n;
    add_count(f, 1);
}

/* An output to one party, whichever it is: good as it is, and a fault of its own when another
 * party says that it has the value too, or instead, or nobody does, or a message went astray.
 */
static void openings_to_one(void **state) {
    (void)state;
    for (uint8_t to = 0; to < 3; to++) {
        const uint8_t tail = (uint8_t)((to + 1) % 3), other = (uint8_t)((to + 2) % 3);
        audit_run r = add_to(to);
        uvcc_audit_fault f;
        assert_int_equal(judge(r.f[0], &r.keys, &f), 0);
        const uint32_t done = last_of(&r.f[0][to], UVCC_LEAF_OPEN_DONE);
        for (unsigned how = 0; how < 4; how++) {
            const uint8_t liar = how == 0 ? tail : how == 1 ? other : how == 2 ? to : tail;
            file d[3];
            for (unsigned q = 0; q < 3; q++)
                d[q] = copy_of(&r.f[0][q]);
            if (how < 2) {
                append_leaf(&d[liar], &r.f[0][to], done);
            } else if (how == 2) {
                remove_leaf(&d[liar], done);
                add_count(&d[liar], -1);
            } else { /* TAIL says that it sent to OTHER what went to the receiver */
                const uvcc_leaf l = leaf_at(&d[liar], last_of(&d[liar], UVCC_LEAF_OPEN_SENT));
                uint8_t *stored = d[liar].bytes + l.offset + 1;
                uvcc_bundle b;
                assert_int_equal(l.dst, to);
                assert_int_equal(uvcc_bundle_decode(&b, d[liar].bytes, d[liar].len, NULL), 0);
                stored[6] = other;
                uvcci_st32(stored + 7, uvcci_msg_id(UVCC_FRAME_OPEN_BATCH, b.sid_sub, l.op_id, liar,
                                                    other, 0, 1));
            }
            sign_again(&d[liar], liar);
            assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_AUTH);
            if (how < 3 && f.kind != UVCC_FAULT_RECEIVER)
                fail_msg("how %u to party %u: %s", how, to, uvcc_fault_text(f.kind));
            assert_true(f.party == liar || f.other == liar);
            for (unsigned q = 0; q < 3; q++)
                free(d[q].bytes);
        }
        audit_run_free(&r);
    }
}

static void roots_of_peers(void **state) {
    (void)state;
    audit_run r = add();
    uvcc_audit_fault f;
    file d[3];
    for (unsigned p = 0; p < 3; p++)
        d[p] = copy_of(&r.f[0][p]);
    /* A bundle that has not all AUDITs yet is good as far as it goes; the own root must be
     * there.
     */
    uint8_t *e = d[2].bytes + d[2].len - TAIL + 32;
    memset(e, 0, 2 * AUDIT);
    uvcci_bundle_seal(d[2].bytes, d[2].len);
    assert_int_equal(judge(d, &r.keys, &f), 0);
    assert_false(uvcci_bundle_complete(d[2].bytes, d[2].len));
    memset(e, 0, 3 * AUDIT);
    uvcci_bundle_seal(d[2].bytes, d[2].len);
    assert_int_equal(judge(d, &r.keys, &f), UVCC_ERR_FRAME);
    uvcc_audit_keys other = r.keys;
    other.key[1][3] ^= 1;
    assert_int_equal(judge(r.f[0], &other, &f), UVCC_ERR_AUTH);
    assert_int_equal(f.kind, UVCC_FAULT_SIGNATURE);
    for (unsigned p = 0; p < 3; p++)
        free(d[p].bytes);
    audit_run_free(&r);
}

/* What the sessions signed is what the roots of the run give, and names no earlier run. */
static void audit_roots(void **state) {
    (void)state;
    audit_run r = train();
    static const uint8_t zero[32];
    for (uint8_t p = 0; p < 3; p++) {
        uvcc_audit_tree tree;
        uint8_t root[32];
        uvcc_audit_tree_init(&tree);
        for (uint32_t m = 0; m < r.steps; m++) {
            uvcc_bundle b;
            assert_int_equal(uvcc_bundle_decode(&b, r.f[m][p].bytes, r.f[m][p].len, NULL), 0);
            assert_int_equal(b.first, 0);
            assert_int_equal(uvcc_audit_tree_add(&tree, b.audit[p].root), 0);
            assert_int_equal(uvcc_audit_tree_root(&tree, root), 0);
            assert_memory_equal(b.audit[p].audit_root, root, 32);
            assert_memory_equal(b.audit[p].before, zero, 32);
        }
    }
    audit_run_free(&r);
}

/* ---- proofs and roots of jobs ---- */

static void check_proof(const uvcc_bundle *b, uint32_t index, const uvcc_job_root *job,
                        const uvcc_audit_keys *keys, bool every_bit) {
    size_t cap = uvcc_proof_max_bytes(job);
    uint8_t *bytes = malloc(cap), whole[UVCC_LEAF_MAX_BYTES];
    int64_t len = uvcc_proof_make(b, index, job, bytes, cap);
    uvcc_proof p;
    uvcc_audit_fault f;
    uvcc_leaf l;
    uvcc_leaf_reader at;
    uvcc_leaf_reader_init(&at, b);
    do
        assert_int_equal(uvcc_leaf_next(&at, &l), 1);
    while (l.index != index);
    assert_true(len > 0 && (size_t)len <= cap);
    assert_int_equal(uvcc_proof_decode(&p, bytes, (size_t)len, &f), 0);
    assert_int_equal(uvcc_proof_check(&p, keys, &f), 0);
    assert_int_equal(p.index, index);
    assert_int_equal(p.of_job, job != NULL);
    assert_int_equal(p.leaf_len, uvcc_leaf_bytes(b, &l, whole));
    assert_memory_equal(p.leaf, whole, p.leaf_len);
    assert_int_equal(uvcc_proof_make(b, index, job, bytes, (size_t)len - 1), UVCC_ERR_LIMIT);
    assert_int_equal(uvcc_proof_make(b, index, job, bytes, cap), len);
    for (size_t cut = 0; every_bit && cut < (size_t)len; cut++) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        assert_int_equal(uvcc_proof_decode(&p, exact, cut, &f), UVCC_ERR_FRAME);
        if (cut >= 4) {
            uvcci_sum_put(exact, cut);
            assert_int_equal(uvcc_proof_decode(&p, exact, cut, &f), UVCC_ERR_FRAME);
        }
        free(exact);
    }
    for (size_t bit = 0; every_bit && bit < 8 * (size_t)len; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(uvcc_proof_decode(&p, bytes, (size_t)len, &f), UVCC_ERR_FRAME);
        uint32_t sum = uvcci_ld32(bytes + len - 4);
        uvcci_sum_put(bytes, (size_t)len);
        /* A root does not tell of how many leaves it is. */
        bool bound = bit / 8 < UVCCI_HEAD_BYTES + 4 || bit / 8 >= UVCCI_HEAD_BYTES + 8;
        if (bit / 8 < (size_t)len - 4 && uvcc_proof_decode(&p, bytes, (size_t)len, &f) == 0 &&
            uvcc_proof_check(&p, keys, &f) == 0 && bound)
            fail_msg("bit %zu of %lld", bit, (long long)len);
        uvcci_st32(bytes + len - 4, sum);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
}

static void proofs(void **state) {
    (void)state;
    audit_run small = add(), large = train();
    for (unsigned p = 0; p < 3; p++) {
        uvcc_bundle b;
        assert_int_equal(uvcc_bundle_decode(&b, small.f[0][p].bytes, small.f[0][p].len, NULL), 0);
        for (uint32_t i = 0; i < b.leaf_count; i++)
            check_proof(&b, i, NULL, &small.keys, i < 2);
        uint8_t byte;
        assert_int_equal(uvcc_proof_make(&b, b.leaf_count, NULL, &byte, 1), UVCC_ERR_USAGE);
        assert_int_equal(uvcc_bundle_decode(&b, large.f[1][p].bytes, large.f[1][p].len, NULL), 0);
        for (uint32_t i = 0; i < b.leaf_count; i++)
            check_proof(&b, i, NULL, &large.keys, false);
    }
    audit_run_free(&small);
    audit_run_free(&large);
}

/* Roots and siblings from a stream of hashes equal those of the tree. */
static void streamed_tree(void **state) {
    (void)state;
    uint64_t rnd = 3;
    for (uint32_t n = 0; n <= 130; n++) {
        uint8_t h[130][32], scratch[130][32], want[32], got[32];
        uvcci_merkle m;
        test_rand_bytes(&rnd, h, sizeof h);
        memcpy(scratch, h, sizeof h);
        uvcci_merkle_root(scratch[0], n, want);
        for (uint32_t target = 0; target <= n; target++) {
            uvcci_merkle_begin(&m, target);
            for (uint32_t i = 0; i < n; i++)
                uvcci_merkle_add(&m, h[i]);
            uvcci_merkle_end(&m, got);
            assert_memory_equal(got, want, 32);
            assert_int_equal(target < n ? uvcci_merkle_verify(h[target], target, n, m.sibling[0],
                                                              m.sibling_count, want)
                                        : (int)m.sibling_count,
                             0);
        }
    }
}

/* The vectors' root over two replicas of two stages of two ranks, made without their middle. */
static void vector_of_job_root(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("transcript.json"), *ids = LOAD_VECTORS("ids.json");
    const json_t *o = json_object_get(v, "roots");
    uint8_t job[32], epochs[8][32], want[32], got[32];
    uint32_t epoch = (uint32_t)test_u64(o, "epoch");
    test_hex_n(test_str(ids, "sid_job"), job, 32);
    test_hex_n(test_str(o, "global_root"), want, 32);
    for (uint32_t i = 0; i < 8; i++) {
        uint8_t buf[17] = {'e', 'p', 'o', 'c', 'h'};
        uvcci_st32(buf + 5, i / 4);
        uvcci_st32(buf + 9, i / 2 % 2);
        uvcci_st32(buf + 13, i % 2);
        uvcci_sha256_once(buf, sizeof buf, epochs[i]);
    }
    assert_int_equal(uvcc_audit_global_root(job, epoch, 2, 2, 2, epochs[0], got), 0);
    assert_memory_equal(got, want, 32);
    assert_int_equal(uvcc_audit_global_root(job, epoch, 0, 2, 2, epochs[0], got), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_audit_global_root(job, epoch, 1, 257, 2, epochs[0], got), UVCC_ERR_USAGE);
    json_decref(v);
    json_decref(ids);
}

static uint8_t *encode_job(const uvcc_job_root *j, size_t *len) {
    uint8_t seed[32];
    uvcc_audit_tree tree, full;
    *len = uvcc_job_root_bytes(j->replicas, j->stages, j->tp_ranks);
    uint8_t *bytes = malloc(*len);
    memset(seed, 0x40 + j->party, 32);
    uvcc_audit_tree_init(&tree);
    assert_int_equal(uvcc_job_root_encode(j, &tree, seed, bytes, *len - 1), UVCC_ERR_USAGE);
    assert_int_equal(tree.count, 0);
    assert_int_equal(uvcc_job_root_encode(j, &tree, seed, bytes, *len), 0);
    assert_int_equal(tree.count, 1);
    full = tree; /* it is not that of the steps before this one */
    assert_int_equal(uvcc_job_root_encode(j, &full, seed, bytes, *len), UVCC_ERR_USAGE);
    assert_memory_equal(&full, &tree, sizeof tree);
    assert_int_equal(uvcc_job_root_encode(j, NULL, seed, bytes, *len), UVCC_ERR_USAGE);
    return bytes;
}

static void job_roots(void **state) {
    (void)state;
    audit_run r = add();
    uvcc_bundle b;
    uvcc_audit_fault f;
    size_t len;
    assert_int_equal(uvcc_bundle_decode(&b, r.f[0][1].bytes, r.f[0][1].len, NULL), 0);
    uvcc_job_root j = {.party = 1,
                       .replicas = 1,
                       .stages = 1,
                       .tp_ranks = 1,
                       .step = b.step,
                       .run = b.run,
                       .first = b.first,
                       .sid_job = b.sid_job,
                       .policy_hash = b.policy_hash,
                       .step_roots = b.step_root},
                  got;
    /* With one worker the roots are the session's; the signature is of another scope. */
    uint8_t *bytes = encode_job(&j, &len);
    assert_int_equal(uvcc_job_root_decode(&got, bytes, len, &f), 0);
    assert_int_equal(uvcc_job_root_check(&got, &r.keys, &f), 0);
    assert_memory_equal(got.global.root, b.audit[1].root, 32);
    assert_memory_equal(got.global.audit_root, b.audit[1].audit_root, 32);
    assert_memory_not_equal(got.global.signature, b.audit[1].signature, 64);
    check_proof(&b, 2, &got, &r.keys, true);
    for (size_t cut = 0; cut < len; cut++) {
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        assert_int_equal(uvcc_job_root_decode(&j, exact, cut, &f), UVCC_ERR_FRAME);
        free(exact);
    }
    for (size_t bit = 0; bit < 8 * (len - 4); bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(uvcc_job_root_decode(&j, bytes, len, &f), UVCC_ERR_FRAME);
        assert_int_equal(f.kind, bit < 64 ? UVCC_FAULT_MAGIC : UVCC_FAULT_CHECKSUM);
        uvcci_sum_put(bytes, len);
        if (uvcc_job_root_decode(&j, bytes, len, &f) == 0)
            assert_int_equal(uvcc_job_root_check(&j, &r.keys, &f), UVCC_ERR_AUTH);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        uvcci_sum_put(bytes, len);
    }
    free(bytes);
    audit_run_free(&r);
}

/* A proof of a worker's leaf up to the root over eight workers. */
static void proof_of_many_workers(void **state) {
    (void)state;
    audit_run r = add();
    uvcc_bundle b;
    uint64_t rnd = 9;
    uint8_t epochs[8][32];
    size_t len;
    assert_int_equal(uvcc_bundle_decode(&b, r.f[0][2].bytes, r.f[0][2].len, NULL), 0);
    test_rand_bytes(&rnd, epochs, sizeof epochs);
    for (unsigned i = 0; i < 8; i++) {
        uvcc_bundle worker = b; /* as if it were worker i of (2, 2, 2): its leaves name another */
        worker.replicas = worker.stages = worker.tp_ranks = 2;
        worker.replica = (uint16_t)(i / 4);
        worker.stage = (uint16_t)(i / 2 % 2);
        worker.tp_rank = (uint16_t)(i % 2);
        uint8_t sid_rep[32], epoch[32];
        uvcci_merkle m;
        uvcci_sid_rep(worker.sid_job, worker.replica, sid_rep);
        uvcci_sid_sub(sid_rep, (uint8_t)worker.stage, worker.tp_rank, worker.sid_sub);
        uvcci_bundle_root(&worker, &m, UVCC_NO_LEAF, epoch);
        worker.step_root = epoch;
        memcpy(epochs[i], epoch, 32);
        uvcc_job_root j = {.party = 2,
                           .replicas = 2,
                           .stages = 2,
                           .tp_ranks = 2,
                           .sid_job = b.sid_job,
                           .policy_hash = b.policy_hash,
                           .step_roots = epochs[0]},
                      got;
        uint8_t *bytes = encode_job(&j, &len);
        assert_int_equal(uvcc_job_root_decode(&got, bytes, len, NULL), 0);
        assert_int_equal(uvcc_job_root_check(&got, &r.keys, NULL), 0);
        check_proof(&worker, 0, &got, &r.keys, false); /* others name their op's worker */
        epochs[i][0] ^= 1;
        free(bytes);
        bytes = encode_job(&j, &len);
        assert_int_equal(uvcc_job_root_decode(&got, bytes, len, NULL), 0);
        uint8_t proof[4096];
        assert_int_equal(uvcc_proof_make(&worker, 0, &got, proof, sizeof proof), UVCC_ERR_MISMATCH);
        free(bytes);
    }
    audit_run_free(&r);
}

/* ---- sessions ---- */

static void never_without_audit(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t rnd = 1;
    uvcc_config c = triangle_config_alone(&mem, &rnd);
    uvcc_session *s;
    c.checks.bundles = c.checks.audit_off = true;
    assert_int_equal(uvcc_session_new(&s, &c), UVCC_ERR_CONFIG);
    c.checks.audit_off = false;
    assert_int_equal(uvcc_session_new(&s, &c), 0);
    const uint8_t *data;
    size_t len;
    assert_int_equal(uvcc_session_bundle(s, 0, &data, &len), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_session_bundle(NULL, 0, &data, &len), UVCC_ERR_USAGE);
    uvcc_session_free(s);
    assert_int_equal(mem.live_blocks, 0);
}

/* Every allocation of a step fails once: the session aborts or goes on, and nothing leaks. */
static void without_memory(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = add_program(&al, UVCC_TO_ALL);
    const int64_t v[2] = {1, 2};
    size_t calls = 1;
    unsigned bundles = 0;
    for (size_t n = 0; n <= calls; n++) { /* 0: none fails */
        triangle t;
        triangle_open(&t, p, NULL);
        triangle_ready(&t);
        t.mem.calls = 0;
        t.mem.fail_at = n;
        for (unsigned i = 0; i < 3; i++)
            (void)uvcc_session_step(t.s[i], 0, 0, 0);
        (void)uvcc_session_input(t.s[0], 0, 1, v, 0);
        for (int turn = 0; turn < 100 && triangle_turn(&t);)
            turn++;
        calls = n == 0 ? t.mem.calls : calls;
        for (unsigned i = 0; i < 3; i++)
            bundles += t.aborted[i] == UVCC_ABORT_MEMORY &&
                       strstr(t.abort_text[i], "a step's bundle") != NULL;
        triangle_free(&t);
    }
    assert_int_equal(bundles, 6); /* two allocations at each party */
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_runs),
        cmocka_unit_test(random_damage),
        cmocka_unit_test(cut_and_flipped),
        cmocka_unit_test(impossible_leaves),
        cmocka_unit_test(tables_in_order),
        cmocka_unit_test(leaves_by_name),
        cmocka_unit_test(dropped_steps),
        cmocka_unit_test(signed_lies),
        cmocka_unit_test(two_statements),
        cmocka_unit_test(pasted_statements),
        cmocka_unit_test(audit_root_of_the_first_step),
        cmocka_unit_test(openings_to_one),
        cmocka_unit_test(roots_of_peers),
        cmocka_unit_test(audit_roots),
        cmocka_unit_test(proofs),
        cmocka_unit_test(streamed_tree),
        cmocka_unit_test(vector_of_job_root),
        cmocka_unit_test(job_roots),
        cmocka_unit_test(proof_of_many_workers),
        cmocka_unit_test(never_without_audit),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests_name("audit", tests, NULL, NULL);
}
