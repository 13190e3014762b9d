/* SPDX-License-Identifier: Apache-2.0 */
/* test_bundle_store.c - bundles of finished steps (bundle_store.h), in a session that is only as
 * much of one as the store looks at: when a bundle is here, what is in it, when the host is told,
 * and when it goes. Bundles of whole triangles are in test_audit.c. */
#include "support.h"

#include "exec/session/bundle_store.h"
#include "proto/bundle.h"
#include "proto/crypto.h"

enum { PARTY = 1, EVENTS = 16 };

typedef struct fix {
    test_alloc mem;
    uvcc_session s;
    uvcc_event events[EVENTS];
    uint8_t zero[32]; /* what stands for the hash of shapes */
} fix;

static void open_store(fix *f) {
    memset(f, 0, sizeof *f);
    f->s.alloc = test_allocator(&f->mem);
    f->s.party = PARTY;
    f->s.cfg.identity.party = PARTY;
    f->s.cfg.place.replicas = f->s.cfg.place.stages = f->s.cfg.place.tp_ranks = 1;
    memset(f->s.cfg.identity.sid_job, 3, 32);
    memset(f->s.h_program, 4, 32);
    uvcci_sid_rep(f->s.cfg.identity.sid_job, 0, f->s.sid_rep);
    uvcci_sid_sub(f->s.sid_rep, 0, 0, f->s.sid_sub);
    f->s.run = 9;
    for (unsigned p = 0; p < 3; p++)
        f->s.roots[p].count = 100; /* AUDITs that are here were taken */
    f->s.events = f->events;
    f->s.event_cap = EVENTS;
}

static void close_store(fix *f) {
    uvcci_bundle_store_free(&f->s);
    assert_null(f->s.bundles);
    assert_int_equal(f->mem.live_blocks, 0);
    assert_int_equal(f->mem.live_bytes, 0);
}

/* What a party signed of a step: told apart, not valid. */
static uvcci_audit_msg_t audit_of(uint8_t party, uint32_t step) {
    uvcci_audit_msg_t a = {.party = party, .step = step};
    memset(a.global_root, (int)(16 * party + step), 32);
    memset(a.audit_root, (int)(64 + 16 * party + step), 32);
    memset(a.before, (int)(192 + 16 * party + step), 32);
    memset(a.signature, (int)(128 + 16 * party + step), 64);
    return a;
}

/* A step ends: one leaf, and no ops. */
static bool step_ends(fix *f, uint32_t step) {
    uvcci_step st = {.number = step};
    const size_t fail_at = f->mem.fail_at;
    f->mem.fail_at = 0;
    assert_int_equal(uvcci_transcript_new(&st.transcript, &f->s.alloc, 8), 0);
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES], h_optable[32], step_root[32];
    const uvcci_audit_msg_t own = audit_of(PARTY, step);
    uvcci_optable_hash(&st.table, h_optable);
    const uint16_t rst[3] = {1, 1, 1};
    const size_t n = uvcci_leaf_step_begin(leaf, f->s.sid_sub, step, f->s.run, rst, f->s.h_program,
                                           f->zero, h_optable);
    assert_int_equal(uvcci_transcript_add(st.transcript, UVCCI_ROW_STEP_BEGIN, leaf, n), 0);
    assert_int_equal(uvcci_transcript_root(st.transcript, step_root), 0);
    f->mem.fail_at = fail_at;
    const bool ok = uvcci_bundle_store_add(&f->s, &st, step_root, &own);
    f->mem.fail_at = 0;
    uvcci_transcript_free(st.transcript);
    return ok;
}

/* The BUNDLE event that waits, of that step; or none (step UINT32_MAX). */
static void assert_told(fix *f, uint32_t step) {
    if (step == UINT32_MAX) {
        assert_int_equal(f->s.event_count, 0);
        return;
    }
    assert_int_equal(f->s.event_count, 1);
    assert_int_equal(f->events[f->s.event_head].kind, UVCC_EVENT_BUNDLE);
    assert_int_equal(f->events[f->s.event_head].step, step);
    assert_int_equal(f->events[f->s.event_head].run, 9);
    f->s.event_head = (f->s.event_head + 1) % EVENTS;
    f->s.event_count = 0;
}

static bool here(fix *f, uint32_t step) {
    const uint8_t *data;
    size_t len;
    const int rc = uvcc_session_bundle(&f->s, step, &data, &len);
    assert_true(rc == 0 || rc == UVCC_ERR_NOT_FOUND);
    return rc == 0;
}

/* The parties whose signed roots are in the bundle, as bits; they must be right. */
static unsigned signed_by(fix *f, uint32_t step) {
    const uint8_t *data;
    size_t len;
    uvcc_bundle b;
    uvcc_audit_fault fault;
    assert_int_equal(uvcc_session_bundle(&f->s, step, &data, &len), 0);
    if (uvcc_bundle_decode(&b, data, len, &fault) != 0)
        fail_msg("%s", uvcc_fault_text(fault.kind));
    assert_int_equal(b.step, step);
    assert_int_equal(b.run, 9);
    assert_int_equal(b.party, PARTY);
    unsigned set = 0;
    for (uint8_t p = 0; p < 3; p++) {
        const uvcci_audit_msg_t a = audit_of(p, step);
        if (b.audit[p].root == NULL)
            continue;
        set |= 1u << p;
        assert_memory_equal(b.audit[p].root, a.global_root, 32);
        assert_memory_equal(b.audit[p].audit_root, a.audit_root, 32);
        assert_memory_equal(b.audit[p].before, a.before, 32);
        assert_memory_equal(b.audit[p].signature, a.signature, 64);
    }
    return set;
}

static void one_step(void **state) {
    (void)state;
    fix f;
    open_store(&f);
    assert_false(here(&f, 5));
    assert_true(step_ends(&f, 5));
    assert_true(here(&f, 5)); /* with the own root, before any peer's */
    assert_false(here(&f, 4));
    assert_int_equal(signed_by(&f, 5), 1u << PARTY);
    assert_told(&f, UINT32_MAX);
    uvcci_audit_msg_t a = audit_of(2, 5);
    uvcci_bundle_store_audit(&f.s, &a);
    assert_int_equal(signed_by(&f, 5), 1u << PARTY | 1u << 2);
    assert_told(&f, UINT32_MAX);
    a = audit_of(0, 5);
    uvcci_bundle_store_audit(&f.s, &a);
    assert_int_equal(signed_by(&f, 5), 7);
    assert_told(&f, 5);
    a = audit_of(0, 6); /* of a step that is not here: left alone */
    uvcci_bundle_store_audit(&f.s, &a);
    assert_told(&f, UINT32_MAX);
    const uint8_t *data;
    size_t len;
    assert_int_equal(uvcc_session_bundle(NULL, 5, &data, &len), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_bundle(&f.s, 5, NULL, &len), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_session_bundle(&f.s, 5, &data, NULL), UVCC_ERR_USAGE);
    close_store(&f);
}

/* Peers may finish a step before this party: their AUDITs wait in their parity's place. */
static void audits_that_came_early(void **state) {
    (void)state;
    fix f;
    open_store(&f);
    for (uint8_t p = 0; p < 3; p += 2) {
        f.s.peer[p].audit_here[5 & 1] = true;
        f.s.peer[p].audit[5 & 1] = audit_of(p, 5);
        f.s.peer[p].audit_here[4 & 1] = true; /* what is older, and of the step, is told apart */
        f.s.peer[p].audit[4 & 1] = audit_of(p, 4);
    }
    /* Party 2's of step 5 is not here yet: that of step 3 stands in its place, whose bundle is
     * still here and complete. It is not put in again, and the host not told again. */
    f.s.peer[2].audit[5 & 1] = audit_of(2, 3);
    assert_true(step_ends(&f, 3));
    for (uint8_t p = 0; p < 3; p += 2) {
        const uvcci_audit_msg_t a = audit_of(p, 3);
        uvcci_bundle_store_audit(&f.s, &a);
    }
    assert_told(&f, 3);
    assert_true(step_ends(&f, 5));
    uvcci_bundle_store_early(&f.s, 5);
    assert_int_equal(signed_by(&f, 5), 1u << PARTY | 1u << 0);
    assert_told(&f, UINT32_MAX);
    f.s.peer[2].audit[5 & 1] = audit_of(2, 5);
    uvcci_bundle_store_audit(&f.s, &f.s.peer[2].audit[5 & 1]);
    assert_told(&f, 5);
    /* One that is here but waits for that of the step before is not in it yet. */
    f.s.roots[2].count = 6;
    f.s.peer[0].audit[6 & 1] = audit_of(0, 6);
    f.s.peer[2].audit[6 & 1] = audit_of(2, 6);
    assert_true(step_ends(&f, 6));
    uvcci_bundle_store_early(&f.s, 6);
    assert_int_equal(signed_by(&f, 6), 1u << PARTY | 1u << 0);
    assert_told(&f, UINT32_MAX);
    f.s.roots[2].count = 100;
    /* Both were here already: the host hears of it with the step's end. */
    f.s.peer[0].audit[8 & 1] = audit_of(0, 8);
    f.s.peer[2].audit[8 & 1] = audit_of(2, 8);
    assert_true(step_ends(&f, 8));
    uvcci_bundle_store_early(&f.s, 8);
    assert_int_equal(signed_by(&f, 8), 7);
    assert_told(&f, 8);
    close_store(&f);
}

/* A bundle goes when a later step ends after the host polled its event; the others stay. */
static void when_one_goes(void **state) {
    (void)state;
    fix f;
    open_store(&f);
    for (uint32_t step = 0; step < 3; step++)
        assert_true(step_ends(&f, step));
    assert_true(here(&f, 0) && here(&f, 1) && here(&f, 2)); /* nobody was told of any */
    uvcci_bundle_store_told(&f.s, 1);
    uvcci_bundle_store_told(&f.s, 7); /* no such one */
    assert_true(here(&f, 1));         /* until a later step ends */
    assert_true(step_ends(&f, 3));
    assert_true(here(&f, 0) && !here(&f, 1) && here(&f, 2) && here(&f, 3));
    uvcci_bundle_store_told(&f.s, 0);
    uvcci_bundle_store_told(&f.s, 3);
    assert_true(step_ends(&f, 4));
    assert_true(!here(&f, 0) && here(&f, 2) && !here(&f, 3) && here(&f, 4));
    /* Oldest first, so that a host which stops early writes them in order. */
    uint32_t last = 0;
    for (const uvcci_stored_bundle *k = f.s.bundles; k != NULL; k = k->next) {
        assert_true(k->step >= last);
        last = k->step;
    }
    close_store(&f);
}

/* Without memory nothing is added, and what was here is. */
static void no_memory(void **state) {
    (void)state;
    fix f;
    open_store(&f);
    assert_true(step_ends(&f, 0));
    for (size_t i = 1; i <= 2; i++) {
        f.mem.fail_at = i;
        assert_false(step_ends(&f, 1));
        assert_true(here(&f, 0) && !here(&f, 1));
    }
    assert_true(step_ends(&f, 1));
    assert_int_equal(signed_by(&f, 0), 1u << PARTY);
    close_store(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step),
        cmocka_unit_test(audits_that_came_early),
        cmocka_unit_test(when_one_goes),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
