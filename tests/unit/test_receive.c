/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that peers send, against the plan: every field of every kind of TLV, whole batches that
 * belong to nobody, come twice, from the wrong peer or out of place; and the right one. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "exec/session/receive.h"
#include "exec/session/step.h"
#include <uvcc/blv1.h>

enum { IN_X = 1, OUT_Y = 10, COUNT = 5000, ME = 0, BATCHES_MAX = 64 };

/* INPUT, OPEN2 and OPEN4 with bits and lifts, RESHARE, a circuit, an opening to all with its
 * digest.
 */
static uvcc_program *program(test_alloc *mem) {
    const uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    char why[256] = "";
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", 1, COUNT, 20, 8, UVCC_TRANSIENT);
    const uint32_t t = test_tensor(p, "t", 1, COUNT, 40, 8, UVCC_TRANSIENT);
    const uint32_t r = test_tensor(p, "r", 1, COUNT, 40, 8, UVCC_TRANSIENT);
    const uint32_t d = test_tensor(p, "d", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t c = test_tensor(p, "c", 1, COUNT, 40, 8, UVCC_TRANSIENT);
    const uint32_t e = test_tensor(p, "e", 1, COUNT, 1, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "y", 1, COUNT, 41, 8, UVCC_TRANSIENT);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_ELEM_MUL, .in_count = 2, .in = {x, x}, .out = {t}, .shift = 8},
        {.opcode = UVCC_OP_RELU, .in_count = 1, .in = {t}, .out = {r, d}},
        {.opcode = UVCC_OP_RELU, .flags = UVCC_OP_CIRCUIT, .in_count = 1, .in = {r}, .out = {c, e}},
        {.opcode = UVCC_OP_ELEM_MUL, .in_count = 2, .in = {c, e}, .out = {y}}};
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 1) >= 0);
    for (uint16_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        uvcc_op_desc op = ops[i];
        op.k = i;
        op.out_count = op.opcode == UVCC_OP_RELU ? 2 : 1;
        assert_true(uvcc_program_op(p, &op) >= 0);
    }
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* A party that opened its step, and batches as its peers would send them. */
typedef struct fixture {
    test_alloc mem;
    uvcc_program *p;
    triangle t;
    uvcc_session *s;
    uvcci_step *st;
    uint8_t *bytes[BATCHES_MAX]; /* a session keeps what it took until it goes */
    unsigned count;
} fixture;

static void begin(fixture *f) {
    memset(f, 0, sizeof *f);
    f->p = program(&f->mem);
    triangle_open(&f->t, f->p, NULL);
    triangle_ready(&f->t);
    f->s = f->t.s[ME];
    assert_int_equal(uvcc_session_step(f->s, 0, 0, 0), 0);
    f->st = &f->s->ctx[0];
}

static void end(fixture *f) {
    triangle_free(&f->t);
    uvcc_program_free(f->p);
    for (unsigned i = 0; i < f->count; i++)
        free(f->bytes[i]);
    assert_int_equal(f->mem.live_blocks, 0);
}

/* The batch of a round's part from `src`, its TLV `change` (less than 0: none) made wrong in the
 * member that `what` names. False: that peer sends none, or the change is none of this TLV's. */
static bool make(fixture *f, const uvcci_instance *r, unsigned round, uint32_t part, uint8_t src,
                 int change, char what, uvcc_link_rx *m) {
    const uvcci_plan_round *q = &r->plan->rounds[round];
    uvcci_plan_tlv *list = malloc(uvcci_plan_tlvs_max(r->plan, q) * sizeof *list);
    size_t len;
    uvcc_blv1_writer w;
    const uint32_t n = uvcci_plan_list(r->plan, &r->ids, q, part, src, ME, list, &len);
    bool ok = n != 0;
    if (ok && change >= 0) {
        uvcc_tlv *t = &list[change < (int)n ? change : 0].t;
        switch (what) {
        case 'i':
            t->id ^= 1;
            break;
        case 'a':
            t->aux = (uint8_t)((t->aux + 1) % 3);
            break;
        case 'r':
            t->round ^= 1;
            break;
        default:
            t->first += UVCC_BLOCK_ELEMS;
            break;
        }
    }
    uint8_t *bytes = calloc(1, len);
    assert_int_equal(uvcc_blv1_begin(&w, bytes, len), 0);
    for (uint32_t i = 0; ok && i < n; i++)
        ok = uvcc_blv1_put(&w, &list[i].t, NULL) == 0; /* a wrong member breaks the order, or is
                                                        * none of the type's */
    ok = ok && uvcc_blv1_end(&w) == (ptrdiff_t)len && uvcc_blv1_check(bytes, len, NULL) == n;
    free(list);
    if (!ok) {
        free(bytes);
        return false;
    }
    assert_true(f->count < BATCHES_MAX);
    f->bytes[f->count++] = bytes;
    *m = (uvcc_link_rx){.kind = q->kind,
                        .op_id = f->st->table.rows[r->row0 + q->b_base + part].op_id,
                        .chunk_cnt = 1,
                        .data = bytes,
                        .len = (uint32_t)len};
    return true;
}

static unsigned taken(const fixture *f) {
    unsigned n = 0;
    for (const uvcci_rx *rx = f->s->rx_pending.first; rx != NULL; rx = rx->next)
        n++;
    return n;
}

/* The changes that blv1 lets pass must stop at the plan. */
static void check_changes(fixture *f, const uvcci_instance *r, unsigned round, uint8_t src,
                          unsigned *seen) {
    static const char whats[] = "iarf";
    uvcc_link_rx m;
    for (unsigned k = 0; k < sizeof whats - 1; k++) {
        const unsigned before = f->count, kept = taken(f);
        if (!make(f, r, round, 0, src, 0, whats[k], &m))
            continue;
        assert_int_equal(uvcci_op_receive(f->s, src, &m), UVCC_ABORT_PLAN);
        assert_int_equal(taken(f), kept);
        free(f->bytes[--f->count]);
        assert_int_equal(f->count, before);
        *seen |= 1u << k;
    }
}

static void check_round(fixture *f, uvcci_instance *r, unsigned round, uint8_t src,
                        unsigned *seen) {
    const unsigned side = uvcci_side(f->s, src), kept = taken(f);
    const uvcci_instance_round *in = &r->rounds[round];
    const uint8_t other = (uint8_t)(3 - src);
    uvcc_link_rx m, cut;
    if (!make(f, r, round, 0, src, -1, 0, &m))
        return;
    assert_true((in->need[side] & 1) != 0);
    check_changes(f, r, round, src, seen);
    cut = m;
    cut.len -= 4;
    assert_int_equal(uvcci_op_receive(f->s, src, &cut), UVCC_ABORT_BATCH);
    cut = m;
    cut.step = 1;
    assert_int_equal(uvcci_op_receive(f->s, src, &cut), UVCC_ABORT_UNKNOWN_OP);
    cut = m;
    cut.op_id ^= 0x10000;
    assert_int_equal(uvcci_op_receive(f->s, src, &cut), UVCC_ABORT_UNKNOWN_OP);
    cut = m;
    cut.kind = UVCC_FRAME_KEYS_BATCH;
    assert_int_equal(uvcci_op_receive(f->s, src, &cut), UVCC_ABORT_PLAN);
    if ((in->need[1 - side] & 1) == 0) /* the other peer sends none */
        assert_int_equal(uvcci_op_receive(f->s, other, &m), UVCC_ABORT_PLAN);
    assert_int_equal(in->seen[side], 0);
    assert_int_equal(uvcci_op_receive(f->s, src, &m), UVCC_ABORT_NONE);
    assert_int_equal(in->seen[side], 1);
    assert_int_equal(in->got[side], 0); /* its hash is not there yet */
    assert_int_equal(taken(f), kept + 1);
    assert_int_equal(uvcci_op_receive(f->s, src, &m), UVCC_ABORT_PLAN); /* once */
    assert_int_equal(taken(f), kept + 1);
}

static void test_against_plan(void **state) {
    (void)state;
    fixture f;
    unsigned seen = 0, rounds = 0;
    begin(&f);
    for (uint32_t k = 0; k < f.st->entry->op_count; k++) {
        uvcci_instance *r = &f.st->instances[k];
        for (unsigned i = 0; i < r->plan->round_count; i++, rounds++)
            for (uint8_t src = 1; src < 3; src++)
                check_round(&f, r, i, src, &seen);
    }
    assert_true(rounds > 10);
    assert_int_equal(seen, 0xf); /* each member was wrong somewhere */
    end(&f);
}

/* Bytes are where the plan's blocks expect them, and a digest is where its vector is. */
static void test_places(void **state) {
    (void)state;
    fixture f;
    uvcc_link_rx m;
    begin(&f);
    uvcci_instance *out = &f.st->instances[f.st->entry->op_count - 1];
    assert_int_equal(out->op->desc.opcode, UVCC_OP_OUTPUT);
    const uint8_t prev = uvcci_prev_party(f.s), next = uvcci_next_party(f.s);
    assert_true(make(&f, out, 0, 0, prev, -1, 0, &m));
    assert_int_equal(uvcci_op_receive(f.s, prev, &m), UVCC_ABORT_NONE);
    uvcc_blv1_reader rd;
    uvcc_tlv t;
    uvcc_blv1_reader_init(&rd, m.data, m.len);
    uint32_t n = 0;
    for (; uvcc_blv1_next(&rd, &t) == 1; n++)
        assert_ptr_equal(out->rounds[0].vec[0].at[0][t.first / UVCC_BLOCK_ELEMS], t.data);
    assert_int_equal(n, out->plan->blocks);
    assert_null(out->rounds[0].vec[0].digest[0]);
    assert_true(make(&f, out, 0, 0, next, -1, 0, &m)); /* only the digest */
    assert_int_equal(uvcci_op_receive(f.s, next, &m), UVCC_ABORT_NONE);
    uvcc_blv1_reader_init(&rd, m.data, m.len);
    assert_int_equal(uvcc_blv1_next(&rd, &t), 1);
    assert_int_equal(t.type, UVCC_TLV_DIGEST);
    assert_ptr_equal(out->rounds[0].vec[0].digest[0], t.data);
    end(&f);
}

/* Keys have no engines that would notice: a part that has begun to come does not come again. */
static void test_keys_twice(void **state) {
    (void)state;
    fixture f;
    uvcc_link_rx m;
    unsigned tried = 0;
    begin(&f);
    for (uint32_t k = 0; k < f.st->entry->op_count; k++) {
        uvcci_instance *r = &f.st->instances[k];
        for (uint8_t src = 1; r->plan->key_count != 0 && src < 3; src++) {
            const unsigned side = uvcci_side(f.s, src), round = r->plan->round_count;
            if (!make(&f, r, round, 0, src, -1, 0, &m))
                continue;
            r->rounds[round].seen[side] = 1;
            assert_int_equal(uvcci_op_receive(f.s, src, &m), UVCC_ABORT_PLAN);
            assert_int_equal(r->rounds[round].got[side], 0);
            tried++;
        }
    }
    assert_true(tried != 0);
    end(&f);
}

/* The root of a step that nobody can have run yet would take the place of the one that is waited
 * for. */
static void test_early_audit(void **state) {
    (void)state;
    fixture f;
    const uvcci_audit_msg_t a = {.party = 1, .step = 0};
    uint8_t bytes[UVCCI_AUDIT_BYTES];
    const int n = uvcci_audit_encode(&a, bytes, sizeof bytes);
    begin(&f);
    uvcc_session *s = f.t.s[2]; /* its host did not agree to step 0 */
    assert_true(n > 0);
    memset(s->cfg.identity.peer_sign_key[1], 0, 32); /* any signature will do */
    uvcci_step_on_audit(s, 1, bytes, (uint32_t)n);
    assert_true(uvcci_failed(s));
    assert_int_equal(s->abort_reason, UVCC_ABORT_AUDIT);
    end(&f);
}

/* An op that is done waits for nothing: what a peer sends to it all the same is refused. A step
 * does not end while the hash of a message is out, because the message names an instance of it. */
static void test_done_ops(void **state) {
    (void)state;
    fixture f;
    uvcc_link_rx m;
    unsigned tried = 0;
    begin(&f);
    for (uint32_t i = 0; i < f.st->entry->op_count && tried < 3; i++) {
        uvcci_instance *r = &f.st->instances[i];
        const uint8_t turn = r->turn;
        for (uint8_t src = 1; src < 3 && r->plan->round_count != 0 && tried < 3; src++) {
            if ((r->rounds[0].need[uvcci_side(f.s, src)] & 1) == 0 ||
                !make(&f, r, 0, 0, src, -1, 0, &m))
                continue;
            const unsigned before = taken(&f);
            r->turn = UVCCI_TURN_DONE;
            assert_int_equal(uvcci_op_receive(f.s, src, &m), UVCC_ABORT_PLAN);
            assert_int_equal(taken(&f), before);
            r->turn = turn;
            assert_int_equal(uvcci_op_receive(f.s, src, &m), UVCC_ABORT_NONE);
            assert_int_equal(taken(&f), before + 1);
            assert_int_equal(f.st->hashing, before + 1);
            tried++;
        }
    }
    assert_int_equal(tried, 3);
    f.st->agreed = f.st->running = true;
    f.st->instances_done = f.st->deals_sent = f.st->entry->op_count;
    (void)uvcci_step_advance(f.s);
    assert_true(f.st->active && f.s->step == 0);
    f.st->instances_done = f.st->deals_sent = 0;
    end(&f);
}

/* Without memory nothing is kept, and the batch can come again. */
static void test_no_memory(void **state) {
    (void)state;
    fixture f;
    uvcc_link_rx m;
    begin(&f);
    uvcci_instance *in = &f.st->instances[0];
    assert_true(make(&f, in, 0, 0, 1, -1, 0, &m));
    for (size_t fail = 1; fail <= 2; fail++) {
        f.t.mem.fail_at = fail;
        assert_int_equal(uvcci_op_receive(f.s, 1, &m), UVCC_ABORT_MEMORY);
        f.t.mem.fail_at = 0;
        assert_int_equal(in->rounds[0].seen[uvcci_side(f.s, 1)], 0);
        assert_int_equal(taken(&f), 0);
    }
    assert_int_equal(uvcci_op_receive(f.s, 1, &m), UVCC_ABORT_NONE);
    end(&f);
}

/* Messages wait for their hashes in the order in which they came, and one more costs the same
 * however many wait: with a walk to the end this test would run for minutes. */
static void test_queue(void **state) {
    (void)state;
    enum { MANY = 300000 };
    uvcci_rx *all = calloc(MANY, sizeof *all);
    uvcci_rx_queue q = {0};
    assert_non_null(all);
    for (unsigned round = 0; round < 2; round++) { /* it can be emptied and filled again */
        for (uint32_t i = 0; i < MANY; i++)
            uvcci_rx_queue_put(&q, &all[i]);
        for (uint32_t i = 0; i < MANY; i++)
            assert_ptr_equal(uvcci_rx_queue_take(&q), &all[i]);
        assert_null(uvcci_rx_queue_take(&q));
    }
    uvcci_rx_queue_put(&q, &all[1]);
    assert_ptr_equal(uvcci_rx_queue_take(&q), &all[1]);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plan), cmocka_unit_test(test_places),
        cmocka_unit_test(test_keys_twice),   cmocka_unit_test(test_done_ops),
        cmocka_unit_test(test_early_audit),  cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
