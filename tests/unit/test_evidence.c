/* SPDX-License-Identifier: Apache-2.0 */
/* What a session signs and what it takes of its peers (evidence.h), in a session that is only as
 * much of one as that looks at. Whole triangles are in test_audit.c and test_limits.c. */
#include "support.h"

#include "exec/session/evidence.h"
#include "proto/crypto.h"
#include "proto/statement.h"

enum { EVENTS = 32, FIRST = 6, RUN = 3, PEER = 1 };

/* Party 0's session in a run from step FIRST on; party PEER's keys and what it signed. */
typedef struct fix {
    uvcc_session s;
    uvcc_event events[EVENTS];
    uint8_t sk[64], before[32];
    uvcc_audit_tree tree;
} fix;

static void at_step(fix *f, uint32_t step) {
    f->s.step = step;
    f->s.ctx[step & 1] = (uvcci_step){.active = true, .sent = true, .number = step};
    f->s.ctx[~step & 1] = (uvcci_step){.active = false};
}

static void begin(fix *f) {
    uint8_t seed[32] = {0x41};
    memset(f, 0, sizeof *f);
    uvcc_session *s = &f->s;
    s->cfg.place.replicas = 2;
    s->cfg.place.stages = s->cfg.place.tp_ranks = 1;
    s->cfg.place.replica = 1;
    memset(s->cfg.identity.sid_job, 3, 32);
    memset(s->cfg.identity.policy_hash, 4, 32);
    uvcci_sid_rep(s->cfg.identity.sid_job, 1, s->sid_rep);
    uvcci_sign_keypair(seed, s->cfg.identity.peer_sign_key[PEER], f->sk);
    memcpy(s->sign_sk, f->sk, 64);
    s->state = UVCCI_SESSION_HELLO; /* an abort sends no BYE then */
    s->events = f->events;
    s->event_cap = EVENTS;
    s->run = RUN;
    memset(f->before, 0x77, 32);
    memset(s->hello.lineage, 5, 32); /* it goes on from a checkpoint */
    at_step(f, FIRST);
    uvcci_evidence_begin(s);
    assert_int_equal(s->first, FIRST);
    uvcc_audit_tree_init(&f->tree);
}

static uvcc_statement statement(const fix *f, const uvcci_audit_msg_t *a) {
    return (uvcc_statement){.scope = UVCC_SCOPE_WORKER,
                            .party = PEER,
                            .replicas = 2,
                            .stages = 1,
                            .tp_ranks = 1,
                            .replica = 1,
                            .run = RUN,
                            .step = a->step,
                            .first = FIRST,
                            .sid_job = f->s.cfg.identity.sid_job,
                            .root = a->global_root,
                            .audit_root = a->audit_root,
                            .before = a->before,
                            .policy_hash = f->s.cfg.identity.policy_hash};
}

static void sign(const fix *f, uvcci_audit_msg_t *a) {
    const uvcc_statement st = statement(f, a);
    uvcci_statement_sign(&st, f->sk, a->signature);
}

/* The peer's AUDIT of its next step, as an honest one makes it. */
static uvcci_audit_msg_t next_audit(fix *f) {
    uvcci_audit_msg_t a = {.party = PEER, .step = FIRST + f->tree.count};
    memset(a.global_root, (int)(0x10 + a.step), 32);
    memcpy(a.before, f->before, 32);
    (void)uvcc_audit_tree_add(&f->tree, a.global_root);
    (void)uvcc_audit_tree_root(&f->tree, a.audit_root);
    sign(f, &a);
    return a;
}

static bool taken(fix *f, const uvcci_audit_msg_t *a) {
    uint8_t bytes[UVCCI_AUDIT_BYTES];
    assert_int_equal(uvcci_audit_encode(a, bytes, sizeof bytes), sizeof bytes);
    uint32_t step = UINT32_MAX;
    const bool good = uvcci_evidence_on_audit(&f->s, PEER, bytes, sizeof bytes, &step);
    assert_int_equal(good, !uvcci_failed(&f->s));
    if (good)
        assert_int_equal(step, a->step);
    else
        assert_int_equal(f->s.abort_reason, UVCC_ABORT_AUDIT);
    return good;
}

static void assert_told(fix *f, const uvcci_audit_msg_t *a) {
    assert_true(f->s.event_count != 0);
    const uvcc_event *e = &f->events[f->s.event_head];
    assert_int_equal(e->kind, UVCC_EVENT_AUDIT);
    assert_int_equal(e->step, a->step);
    assert_int_equal(e->run, RUN);
    assert_memory_equal(e->root, a->global_root, 32);
    assert_memory_equal(e->audit_root, a->audit_root, 32);
    assert_memory_equal(e->signature, a->signature, 64);
    f->s.event_head = (f->s.event_head + 1) % EVENTS;
    f->s.event_count--;
}

static void in_order_and_not(void **state) {
    (void)state;
    fix f;
    begin(&f);
    for (unsigned turn = 0; turn < 20; turn++) {
        uvcci_audit_msg_t a = next_audit(&f), b = next_audit(&f);
        at_step(&f, b.step); /* this party finished a's step; b's runs */
        if (turn % 2 == 0) {
            assert_true(taken(&f, &a));
            assert_told(&f, &a);
            assert_true(taken(&f, &b));
        } else { /* the later one comes first, and waits */
            assert_true(taken(&f, &b));
            assert_int_equal(f.s.event_count, 0);
            assert_true(taken(&f, &a));
            assert_told(&f, &a);
        }
        assert_told(&f, &b);
        assert_int_equal(f.s.event_count, 0);
        assert_memory_equal(&f.s.roots[PEER], &f.tree, sizeof f.tree);
    }
}

/* Each of these was signed by the peer's key, or is another's genuine statement. */
static void what_is_refused(void **state) {
    (void)state;
    fix f;
    for (unsigned what = 0; what < 15; what++) {
        begin(&f);
        uvcci_audit_msg_t first = next_audit(&f);
        assert_true(taken(&f, &first));
        uvcci_audit_msg_t a = next_audit(&f);
        at_step(&f, a.step);
        uvcc_statement st = statement(&f, &a);
        uint8_t other[32] = {9};
        switch (what) {
        case 0: /* control */
            assert_true(taken(&f, &a));
            continue;
        case 1: /* the root and signature of the step before, for this step */
            a = first;
            a.step++;
            break;
        case 2: /* the same, with an audit root that fits */
            memcpy(a.global_root, first.global_root, 32);
            memcpy(a.signature, first.signature, 64);
            break;
        case 3: /* of another run */
            st.run++;
            break;
        case 4: /* of a run that began elsewhere */
            st.first--;
            break;
        case 5: /* of another worker */
            st.replica = 0;
            break;
        case 6: /* over all workers */
            st.scope = UVCC_SCOPE_JOB;
            st.replica = 0;
            break;
        case 7:
            st.party = 2;
            break;
        case 8:
            st.sid_job = other;
            break;
        case 9:
            st.policy_hash = other;
            break;
        case 10: /* signed, but over other roots than those that came */
            a.audit_root[0] ^= 1;
            break;
        case 11: /* signed: this step's root alone, as if the run began here */
            memcpy(a.audit_root, a.global_root, 32);
            break;
        case 12: /* signed: from another history than the step before */
            a.before[31] ^= 1;
            break;
        case 13: /* right, but the parties agreed to begin anew */
            memset(f.s.hello.lineage, 0, 32);
            break;
        default: /* signed: of a step before the run's first */
            f.s.first = FIRST + 2;
            f.s.roots[PEER].count = 0;
            f.s.peer[PEER].audit_here[0] = false;
            break;
        }
        if (what >= 3 && what <= 9)
            uvcci_statement_sign(&st, f.sk, a.signature);
        else if (what >= 10)
            sign(&f, &a);
        if (taken(&f, &a))
            fail_msg("case %u is taken", what);
        assert_int_equal(f.s.roots[PEER].count <= 2, true);
    }
}

/* Without the peer's key its signature says nothing; what it sends must hold together. */
static void without_its_key(void **state) {
    (void)state;
    fix f;
    begin(&f);
    memset(f.s.cfg.identity.peer_sign_key[PEER], 0, 32);
    uvcci_audit_msg_t a = next_audit(&f);
    a.signature[3] ^= 1;
    assert_true(taken(&f, &a));
    a = next_audit(&f);
    at_step(&f, a.step);
    a.audit_root[3] ^= 1;
    assert_false(taken(&f, &a));
    begin(&f); /* of a step before the run's first */
    memset(f.s.cfg.identity.peer_sign_key[PEER], 0, 32);
    a = next_audit(&f);
    a.step = FIRST - 1;
    assert_false(taken(&f, &a));
}

/* What this party signs is what its peers take; a checkpoint carries what it finished. */
static void own_statements(void **state) {
    (void)state;
    fix f;
    begin(&f);
    uvcc_audit_tree tree;
    uint8_t step_root[32], root[32], got[32];
    memset(f.s.root_before, 0x55, 32);
    uvcci_root_before(&f.s, got);
    assert_memory_equal(got, f.s.root_before, 32); /* this run has finished none */
    uvcc_audit_tree_init(&tree);
    for (uint32_t step = FIRST; step < FIRST + 9; step++) {
        uvcci_audit_msg_t a;
        memset(step_root, (int)step, 32);
        uvcci_evidence_sign(&f.s, step, step_root, &a);
        (void)uvcc_audit_tree_add(&tree, a.global_root);
        (void)uvcc_audit_tree_root(&tree, root);
        assert_int_equal(a.step, step);
        assert_memory_equal(a.audit_root, root, 32);
        assert_memory_equal(a.before, f.s.root_before, 32);
        uvcci_root_before(&f.s, got);
        assert_memory_equal(got, root, 32);
        uvcc_statement st = statement(&f, &a);
        st.party = 0;
        assert_int_equal(
            uvcc_statement_check(&st, f.s.cfg.identity.peer_sign_key[PEER], a.signature),
            0); /* the fixture's keys are the same */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_order_and_not),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(without_its_key),
        cmocka_unit_test(own_statements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
