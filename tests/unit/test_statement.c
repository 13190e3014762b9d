/* SPDX-License-Identifier: Apache-2.0 */
/* Statements: their bytes, that a signature holds for one alone; the tree over a run's roots. */
#include "support.h"

#include "proto/crypto.h"
#include "proto/statement.h"
#include "proto/transcript.h"

typedef struct box {
    uvcc_statement s;
    uint8_t sid_job[32], root[32], audit_root[32], before[32], policy[32];
    uint8_t pk[32], sk[64], signature[64];
} box;

static void make(box *b) {
    uint8_t seed[32] = {7};
    memset(b, 0, sizeof *b);
    memset(b->sid_job, 0xA1, 32);
    memset(b->root, 0xA2, 32);
    memset(b->audit_root, 0xA3, 32);
    memset(b->before, 0xA4, 32);
    memset(b->policy, 0xA5, 32);
    b->s = (uvcc_statement){.scope = UVCC_SCOPE_WORKER,
                            .party = 2,
                            .replicas = 0x0102,
                            .stages = 0x0100,
                            .tp_ranks = 0x0304,
                            .replica = 0x0101,
                            .stage = 0xFF,
                            .tp_rank = 0x0303,
                            .run = 0x11121314,
                            .step = 0x21222324,
                            .first = 0x20313233,
                            .sid_job = b->sid_job,
                            .root = b->root,
                            .audit_root = b->audit_root,
                            .before = b->before,
                            .policy_hash = b->policy};
    uvcci_sign_keypair(seed, b->pk, b->sk);
    uvcci_statement_sign(&b->s, b->sk, b->signature);
}

/* Layout of wire.md 8, byte for byte. */
static void layout(void **state) {
    (void)state;
    static const uint8_t numbers[] = {0x02, 0x01, 0x00, 0x01, 0x04, 0x03, 0x01, 0x01,
                                      0xFF, 0x00, 0x03, 0x03, 0x14, 0x13, 0x12, 0x11,
                                      0x24, 0x23, 0x22, 0x21, 0x33, 0x32, 0x31, 0x20};
    box b;
    uint8_t out[UVCC_STATEMENT_BYTES];
    make(&b);
    assert_int_equal(uvcc_statement_encode(&b.s, out), 0);
    assert_int_equal(sizeof out, 199);
    assert_memory_equal(out, "UVCC_AUDIT_V2\x01\x02", 15);
    assert_memory_equal(out + 15, b.sid_job, 32);
    assert_memory_equal(out + 47, numbers, sizeof numbers);
    assert_memory_equal(out + 71, b.root, 32);
    assert_memory_equal(out + 103, b.audit_root, 32);
    assert_memory_equal(out + 135, b.before, 32);
    assert_memory_equal(out + 167, b.policy, 32);
}

/* The signature is of one place and content: any other field makes it another statement. */
static void binds_every_field(void **state) {
    (void)state;
    box b;
    make(&b);
    assert_int_equal(uvcc_statement_check(&b.s, b.pk, b.signature), 0);
#define OTHER(change)                                                                              \
    do {                                                                                           \
        make(&b);                                                                                  \
        change;                                                                                    \
        assert_int_equal(uvcc_statement_check(&b.s, b.pk, b.signature), UVCC_ERR_AUTH);            \
    } while (0)
    OTHER((b.s.scope = UVCC_SCOPE_JOB, b.s.replica = b.s.stage = b.s.tp_rank = 0));
    OTHER(b.s.party = 1);
    OTHER(b.s.replicas++);
    OTHER(b.s.stages++);
    OTHER(b.s.tp_ranks++);
    OTHER(b.s.replica--);
    OTHER(b.s.stage--);
    OTHER(b.s.tp_rank--);
    OTHER(b.s.run++);
    OTHER(b.s.step++);
    OTHER(b.s.first--);
    OTHER(b.sid_job[31] ^= 1);
    OTHER(b.root[0] ^= 1);
    OTHER(b.audit_root[0] ^= 1);
    OTHER(b.before[31] ^= 1);
    OTHER(b.policy[5] ^= 1);
    OTHER(b.pk[1] ^= 1);
    OTHER(b.signature[40] ^= 1);
#undef OTHER
}

static void refuses_what_cannot_be(void **state) {
    (void)state;
    box b;
    uint8_t out[UVCC_STATEMENT_BYTES];
#define BAD(change)                                                                                \
    do {                                                                                           \
        make(&b);                                                                                  \
        change;                                                                                    \
        assert_int_equal(uvcc_statement_encode(&b.s, out), UVCC_ERR_USAGE);                        \
        assert_int_equal(uvcc_statement_check(&b.s, b.pk, b.signature), UVCC_ERR_USAGE);           \
    } while (0)
    BAD(b.s.scope = 0);
    BAD(b.s.scope = 3);
    BAD(b.s.scope = UVCC_SCOPE_JOB); /* with a worker's place */
    BAD(b.s.party = 3);
    BAD(b.s.replica = b.s.replicas);
    BAD(b.s.stage = b.s.stages);
    BAD(b.s.tp_rank = b.s.tp_ranks);
    BAD(b.s.first = b.s.step + 1);
    BAD(b.s.sid_job = NULL);
    BAD(b.s.root = NULL);
    BAD(b.s.audit_root = NULL);
    BAD(b.s.before = NULL);
    BAD(b.s.policy_hash = NULL);
#undef BAD
    make(&b);
    assert_int_equal(uvcc_statement_encode(NULL, out), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_statement_encode(&b.s, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_statement_check(NULL, b.pk, b.signature), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_statement_check(&b.s, NULL, b.signature), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_statement_check(&b.s, b.pk, NULL), UVCC_ERR_USAGE);
}

/* After each root the tree's root is that of all so far, as the whole tree has it. */
static void tree_as_it_grows(void **state) {
    (void)state;
    enum { MOST = 140 };
    static uint8_t roots[MOST][32], scratch[MOST][32];
    uint8_t want[32], got[32];
    uint64_t rnd = 11;
    uvcc_audit_tree t;
    test_rand_bytes(&rnd, roots[0], sizeof roots);
    uvcc_audit_tree_init(&t);
    for (uint32_t n = 0; n < MOST; n++) {
        memcpy(scratch, roots, sizeof roots);
        uvcc_audit_root(scratch[0], n, want);
        for (unsigned twice = 0; twice < 2; twice++) {
            assert_int_equal(uvcc_audit_tree_root(&t, got), 0);
            assert_memory_equal(got, want, 32);
        }
        assert_int_equal(uvcc_audit_tree_add(&t, roots[n]), 0);
    }
    assert_int_equal(uvcc_audit_tree_add(NULL, roots[0]), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_audit_tree_add(&t, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_audit_tree_root(NULL, got), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_audit_tree_root(&t, NULL), UVCC_ERR_USAGE);
}

/* A run of 2^24 steps, and as many as there can be, take what a run of one takes. */
static void tree_of_a_long_run(void **state) {
    (void)state;
    uint8_t root[32] = {1}, got[32], want[32], level[32][32];
    uvcc_audit_tree t = {.count = (1u << 24) - 1};
    memcpy(level[0], root, 32);
    for (unsigned l = 0; l < 24; l++) { /* as if all roots were equal */
        memcpy(t.node[l], level[l], 32);
        uvcci_merkle_node(level[l], level[l], level[l + 1]);
    }
    assert_int_equal(uvcc_audit_tree_add(&t, root), 0);
    assert_int_equal(uvcc_audit_tree_root(&t, got), 0);
    assert_memory_equal(got, level[24], 32);
    assert_int_equal(uvcc_audit_tree_add(&t, root), 0);
    assert_int_equal(t.count, (1u << 24) + 1);
    uvcci_merkle_node(level[24], root, want);
    assert_int_equal(uvcc_audit_tree_root(&t, got), 0);
    assert_memory_equal(got, want, 32);
    t.count = UINT32_MAX;
    assert_int_equal(uvcc_audit_tree_add(&t, root), UVCC_ERR_LIMIT);
    assert_int_equal(t.count, UINT32_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(binds_every_field),
        cmocka_unit_test(refuses_what_cannot_be),
        cmocka_unit_test(tree_as_it_grows),
        cmocka_unit_test(tree_of_a_long_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
