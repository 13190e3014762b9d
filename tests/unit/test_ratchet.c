/* SPDX-License-Identifier: Apache-2.0 */
/* Keys ratchet within a session: what is over leaves memory, and a run ends by name before its keys
 * or its frame numbers are used up. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "proto/ids.h"
#include "proto/link_session.h"

enum { IN = 1, OUT = 2, N = 5, FIRST_STEP = 6, STEPS = 5 };

static uvcc_program *product(test_alloc *mem) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t x = test_tensor(p, "x", 1, N, 20, 10, UVCC_TRANSIENT);
    uint32_t y = test_tensor(p, "y", 1, N, 41, 10, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN, x, 2) >= 0);
    uvcc_op_desc d = {.opcode = UVCC_OP_ELEM_MUL,
                      .in_count = 2,
                      .out_count = 1,
                      .in = {x, x},
                      .out = {y},
                      .shift = 10,
                      .truncation = UVCC_TRUNC_EXACT};
    assert_true(uvcc_program_op(p, &d) >= 0);
    assert_true(uvcc_program_output(p, OUT, y) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static void step(triangle *t, uint32_t k) {
    static const int64_t v[N] = {1024, -2048, 3072, 0, 512};
    triangle_agree(t, FIRST_STEP + k, 0);
    triangle_input(t, 2, FIRST_STEP + k, IN, v);
    triangle_finish(t, k + 1);
    assert_int_equal(uvcc_session_output(t->s[0], FIRST_STEP + k, OUT)[1], 4096);
}

/* ---- what a party's memory holds ---- */

enum { BLOCKS_MAX = 4096, DRAWN_MAX = 64 };

/* P0's memory: every block that it has, and the 32 random bytes that it drew, which secrets are
 * made of. */
static struct {
    uint8_t *at[BLOCKS_MAX];
    size_t len[BLOCKS_MAX];
    uint32_t blocks;
    uvcc_random random;
    uint8_t drawn[DRAWN_MAX][32];
    uint32_t draws;
} own;

static void *own_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)cls;
    assert_true(own.blocks < BLOCKS_MAX);
    uint8_t *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memset(p, 0xa5, bytes);
    own.at[own.blocks] = p;
    own.len[own.blocks++] = bytes;
    return p;
}

static void own_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)cls;
    for (uint32_t i = 0; i < own.blocks; i++)
        if (own.at[i] == p) {
            assert_int_equal(own.len[i], bytes);
            own.blocks--;
            own.at[i] = own.at[own.blocks];
            own.len[i] = own.len[own.blocks];
            free(p);
            return;
        }
    fail_msg("freed what was never taken");
}

static int own_random(void *user, void *out, size_t bytes) {
    (void)user;
    int rc = own.random.fill(own.random.user, out, bytes);
    if (bytes == 32 && own.draws < DRAWN_MAX)
        memcpy(own.drawn[own.draws++], out, 32);
    return rc;
}

static bool held(const void *what, size_t len) {
    for (uint32_t i = 0; i < own.blocks; i++)
        for (size_t at = 0; at + len <= own.len[i]; at++)
            if (own.at[i][at] == *(const uint8_t *)what && memcmp(own.at[i] + at, what, len) == 0)
                return true;
    return false;
}

/* All that P0's keys are made of, computed again by the test. */
typedef struct secrets {
    uint8_t prk[3][32]; /* by pair */
    uint8_t ikm[2][32], k_ab[2][32], k_own[32], ephemeral[32];
    uint8_t chain[3][STEPS + 2][32];
} secrets;

static bool chain_is(const uvcc_session *s, unsigned pair, const uint8_t prk[32]) {
    uint8_t c[32];
    uvcci_derive_chain(prk, FIRST_STEP, s->run, c);
    return memcmp(c, s->chain[pair], 32) == 0;
}

static void know(secrets *k, const triangle *t, bool exchanged) {
    const uvcc_session *s = t->s[0];
    bool found[3] = {false};
    for (uint32_t i = 0; i < own.draws; i++) {
        uint8_t prk[32], k_ab[32], ikm[32];
        uvcci_derive_prk(s->sid_sub, own.drawn[i], prk);
        if (chain_is(s, UVCC_PAIR_OWN, prk)) {
            memcpy(k->k_own, own.drawn[i], 32);
            memcpy(k->prk[UVCC_PAIR_OWN], prk, 32);
            found[UVCC_PAIR_OWN] = true;
        }
        for (uint8_t pair = 0; pair < 2; pair++) {
            const uint8_t peer = (uint8_t)(pair + 1); /* of P0 */
            memset(ikm, 0x11 * peer, 32);
            if (exchanged &&
                uvcci_x25519_shared(own.drawn[i], t->s[peer]->hello.hello1 + 116, ikm) != 0)
                continue;
            uvcci_derive_session_key(s->hello.cfg.n, t->s[peer]->hello.cfg.n, ikm,
                                     s->hello.cfg.sid_job, s->run, 0, peer, k_ab);
            uvcci_derive_prk(s->sid_sub, k_ab, prk);
            if (!chain_is(s, pair, prk))
                continue;
            memcpy(k->ikm[pair], ikm, 32);
            memcpy(k->k_ab[pair], k_ab, 32);
            memcpy(k->prk[pair], prk, 32);
            memcpy(k->ephemeral, own.drawn[i], 32);
            found[pair] = true;
        }
    }
    assert_true(found[0] && found[1] && found[2]);
    for (unsigned pair = 0; pair < 3; pair++) {
        uvcci_derive_chain(k->prk[pair], FIRST_STEP, s->run, k->chain[pair][0]);
        for (unsigned i = 1; i < STEPS + 2; i++) {
            memcpy(k->chain[pair][i], k->chain[pair][i - 1], 32);
            uvcci_ratchet(k->chain[pair][i], FIRST_STEP + i, s->run);
        }
    }
}

/* Of step i the chain values, pads and salts of all pairs. */
static bool holds_pads(const secrets *k, uint32_t run, unsigned i) {
    bool any = false;
    for (unsigned pair = 0; pair < 3; pair++) {
        uint8_t key[32];
        for (unsigned tag = 0; tag < UVCC_TAG_COUNT; tag++) {
            uvcci_derive_prg_key(k->chain[pair][i], (uvcci_tag)tag, FIRST_STEP + i, run, key);
            any |= held(key, 16);
        }
        uvcci_derive_leaf_salt(k->chain[pair][i], FIRST_STEP + i, run, key);
        any |= held(key, 32);
    }
    return any;
}

static bool holds_frame_keys(const secrets *k, uint32_t run, unsigned i) {
    bool any = false;
    for (uint8_t pair = 0; pair < 2; pair++)
        for (unsigned way = 0; way < 2; way++) {
            uint8_t key[32], peer = (uint8_t)(pair + 1);
            uvcci_derive_frame_key(k->chain[pair][i], FIRST_STEP + i, run, way ? peer : 0,
                                   way ? 0 : peer, 0, key);
            any |= held(key, 32);
        }
    return any;
}

/* While step `now` (from 0) is the first unfinished one and not opened yet. */
static void only_the_present(const secrets *k, const triangle *t, bool exchanged, unsigned now) {
    const uint32_t run = t->s[0]->run;
    for (unsigned pair = 0; pair < 3; pair++)
        assert_false(held(k->prk[pair], 32));
    for (unsigned pair = 0; pair < 2; pair++)
        assert_false(held(k->ikm[pair], 32) || held(k->k_ab[pair], 32));
    assert_false(held(k->k_own, 32) || (exchanged && held(k->ephemeral, 32)));
    for (unsigned i = 0; i < now; i++)
        assert_false(holds_pads(k, run, i));
    for (unsigned i = 0; i + 1 < now; i++) {
        assert_false(holds_frame_keys(k, run, i));
        for (unsigned pair = 0; pair < 3; pair++)
            assert_false(held(k->chain[pair][i], 32));
    }
    for (unsigned pair = 0; pair < 3; pair++) /* it is looked for where it is */
        assert_true(held(k->chain[pair][now], 32));
    assert_true(now == 0 || held(k->chain[0][now - 1], 32)); /* of the links */
    assert_false(now != 0 && held(k->chain[UVCC_PAIR_OWN][now - 1], 32));
}

static bool exchange, own_suite;

static void watched(uvcc_config *c) {
    c->resume.next_step = FIRST_STEP;
    c->identity.exchange_x25519 = exchange;
    c->links.suites = own_suite ? 1 : 0;
    for (uint8_t q = 0; q < 3; q++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + q, 32);
        uvcci_sign_keypair(seed, c->identity.peer_sign_key[q], sk);
    }
    if (c->identity.party != 0)
        return;
    own.random = c->random;
    own.blocks = own.draws = 0;
    c->random = (uvcc_random){.fill = own_random};
    c->alloc = (uvcc_allocator){.alloc = own_alloc, .free = own_free};
}

static void memory_forgets(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = product(&mem);
    for (unsigned k = 0; k < 4; k++) {
        exchange = k % 2 != 0;
        own_suite = k / 2 != 0;
        triangle t;
        secrets s = {0};
        triangle_open(&t, p,
                      &(triangle_options){.seed = 5 + k, .datagram = k == 3, .tweak = watched});
        triangle_ready(&t);
        know(&s, &t, exchange);
        only_the_present(&s, &t, exchange, 0);
        for (unsigned i = 0; i < STEPS; i++) {
            step(&t, i);
            only_the_present(&s, &t, exchange, i + 1);
        }
        /* An open step's are there. */
        triangle_agree(&t, FIRST_STEP + STEPS, 0);
        assert_true(holds_pads(&s, t.s[0]->run, STEPS));
        triangle_free(&t);
        assert_int_equal(own.blocks, 0);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- the end of a run ---- */

static void at_first_step(uvcc_config *c) {
    c->resume.next_step = FIRST_STEP;
}

static void skip_to(triangle *t, uint64_t counter) {
    for (unsigned i = 0; i < 3; i++)
        for (unsigned q = 0; q < 3; q++)
            if (i != q)
                uvcci_link_skip_to(t->s[i]->peer[q].link, counter);
}

/* Frames go over from one epoch's key to the next in the middle of a step, in order and not. */
static void epochs_pass(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = product(&mem);
    for (unsigned k = 0; k < 32; k++) {
        triangle t;
        triangle_open(&t, p,
                      &(triangle_options){.seed = k,
                                          .datagram = k % 2 != 0,
                                          .faulty = k % 4 == 3,
                                          .faults = {.drop = 0.1, .reorder = 0.3, .duplicate = 0.2},
                                          .suites = (uint8_t)(1 + k / 2 % 2),
                                          .tweak = at_first_step});
        while (!t.ready[0] || !t.ready[1] || !t.ready[2])
            assert_true(triangle_turn(&t));
        skip_to(&t, ((uint64_t)(1 + k % 3) << UVCCI_EPOCH_BITS) - 1 - k / 2);
        for (unsigned i = 0; i < 3; i++)
            step(&t, i);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* Near the last seq the run is ended by name, and the peers still hear it. */
static void seqs_end(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = product(&mem);
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 1, .tweak = at_first_step});
    triangle_ready(&t);
    skip_to(&t, (UINT64_C(1) << 40) - (1u << 20) - 40);
    for (unsigned k = 0; k < 2; k++)
        step(&t, k);
    for (unsigned k = 2; t.aborted[0] == 0; k++) {
        static const int64_t v[N] = {1024, -2048, 3072, 0, 512};
        assert_true(k < 100);
        for (unsigned i = 0; i < 3; i++)
            if (t.aborted[i] == 0)
                (void)uvcc_session_step(t.s[i], FIRST_STEP + k, 0, triangle_now(&t));
        if (t.aborted[2] == 0)
            (void)uvcc_session_input(t.s[2], FIRST_STEP + k, IN, v, triangle_now(&t));
        for (unsigned i = 0; i < 1000 && triangle_turn(&t); i++)
            ;
    }
    unsigned named = 0;
    for (unsigned i = 0; i < 3; i++) {
        named += t.aborted[i] == UVCC_ABORT_LIMIT;
        assert_true(t.aborted[i] == UVCC_ABORT_LIMIT || t.aborted[i] == UVCC_ABORT_PEER);
        assert_non_null(strstr(t.abort_text[i], "begin another run"));
    }
    assert_true(named != 0);
    triangle_free(&t);
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_forgets),
        cmocka_unit_test(epochs_pass),
        cmocka_unit_test(seqs_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
