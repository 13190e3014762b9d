/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a link: the chain value goes on with the steps and holds what is still needed, keys
 * are those of step and epoch, they go with the link, and what forgers try is counted. */
#include "support.h"

#include <openssl/crypto.h>

#include "proto/bytes.h"
#include "proto/ids.h"
#include "proto/link_keys.h"
#include "proto/link_session.h"
#include <uvcc/frame.h>

enum { ME = 0, PEER = 2, RUN = 3, FIRST = 6 };
#define SID UINT64_C(0x1122334455667788)

typedef struct fix {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed, now;
    uint8_t prk[32];
} fix;

static void begin(fix *f, uint8_t suite) {
    *f = (fix){.seed = 9, .now = 1000};
    memset(f->prk, 0x42, 32);
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&f->mem);
    cfg.random = test_random(&f->seed);
    cfg.me = ME;
    cfg.peer = PEER;
    cfg.datagram = true;
    cfg.sid_tag = SID;
    assert_int_equal(uvcc_link_new(&f->l, &cfg), 0);
    assert_int_equal(uvcc_link_set_run(f->l, RUN), 0);
    assert_int_equal(uvcc_link_set_step(f->l, FIRST), 0);
    assert_int_equal(uvcc_link_set_keys(f->l, suite, f->prk), 0);
    assert_int_equal(uvcc_link_start(f->l, f->now), 0);
}

static void end(fix *f) {
    uvcc_link_free(f->l);
    assert_int_equal(f->mem.live_blocks, 0);
}

static void chain_of(const fix *f, uint32_t step, uint8_t chain[32]) {
    uvcci_derive_chain(f->prk, FIRST, RUN, chain);
    for (uint32_t at = FIRST; at < step; at++)
        uvcci_ratchet(chain, at + 1, RUN);
}

static int queue(fix *f, uint8_t kind, uint32_t step) {
    uvcc_link_msg *m;
    uint32_t id = 1;
    assert_int_equal(uvcc_link_msg_new(f->l, kind, 100, &m), 0);
    int rc = uvcc_link_send(f->l, m, step, 0, &id, 0, f->now);
    if (rc != 0)
        uvcc_link_msg_drop(f->l, m);
    return rc;
}

/* A link keeps the chain value of the step before the present one, and so no key of an older. */
static void chain_follows_the_steps(void **state) {
    (void)state;
    fix f;
    begin(&f, 1);
    uint8_t want[32];
    for (uint32_t step = FIRST; step < FIRST + 9; step += step == FIRST + 4 ? 3 : 1) {
        assert_int_equal(uvcc_link_set_step(f.l, step), 0);
        uint32_t oldest = step == FIRST ? FIRST : step - 1;
        assert_int_equal(f.l->keys->chain_step, oldest);
        chain_of(&f, oldest, want);
        assert_memory_equal(f.l->keys->chain, want, 32);
        for (uint32_t k = FIRST - 1; k < FIRST + 12; k++) {
            bool there = k >= oldest && k <= step + 1;
            assert_true(uvcci_link_has_key(f.l, k) == there);
            assert_true((uvcci_link_key_of(f.l, k, 1, true) != NULL) == there);
            assert_true((uvcci_link_key_of(f.l, k, 1, false) != NULL) == there);
        }
        /* What has no key is refused before it is queued. */
        assert_int_equal(queue(&f, UVCC_FRAME_OPEN_BATCH, step + 2), UVCC_ERR_USAGE);
        assert_int_equal(queue(&f, UVCC_FRAME_OPEN_BATCH, oldest - 1), UVCC_ERR_USAGE);
    }
    end(&f);
}

/* A message that waits for credit is not sealed yet: its step's key stays until it is. */
static void unsent_messages_hold_it(void **state) {
    (void)state;
    fix f;
    begin(&f, 2);
    uvcc_transmit t;
    assert_int_equal(queue(&f, UVCC_FRAME_OPEN_BATCH, FIRST), 0);
    assert_int_equal(queue(&f, UVCC_FRAME_KEYS_BATCH, FIRST + 1), 0);
    assert_int_equal(uvcc_link_set_step(f.l, FIRST + 5), 0);
    assert_int_equal(f.l->keys->chain_step, FIRST);
    f.l->tx.cls[UVCC_CLASS_ONLINE].credit = 1000;
    for (unsigned i = 0; uvcc_link_poll_transmit(f.l, &t, f.now) == 1; i++) {
        assert_true(i < 10);
        assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
    }
    assert_int_equal(f.l->tx.unreceived, 1); /* it went out and may be lost: its bytes are sealed */
    assert_int_equal(uvcc_link_set_step(f.l, FIRST + 6), 0);
    assert_int_equal(f.l->keys->chain_step, FIRST + 1);
    f.l->tx.cls[UVCC_CLASS_KEYS].credit = 1000;
    f.now += 1000000; /* packets are paced */
    while (uvcc_link_poll_transmit(f.l, &t, f.now) == 1)
        assert_int_equal(uvcc_link_transmit_done(f.l, t.id, t.total, f.now), 0);
    assert_int_equal(uvcc_link_set_step(f.l, FIRST + 7), 0);
    assert_int_equal(f.l->keys->chain_step, FIRST + 6);
    end(&f);
}

/* Keys are kept as long as frames of their step may come or go again, and no longer. */
static void keys_go_with_their_steps(void **state) {
    (void)state;
    fix f;
    begin(&f, 1);
    for (uint32_t step = FIRST + 1; step < FIRST + 8; step++) {
        assert_int_equal(uvcc_link_set_step(f.l, step), 0);
        for (uint32_t k = step - 1; k <= step + 1; k++)
            for (unsigned way = 0; way < 4; way++)
                assert_non_null(uvcci_link_key_of(
                    f.l, k, (uint64_t)(way / 2) << UVCCI_EPOCH_BITS | 1, way % 2 == 0));
        assert_int_equal(uvcc_link_set_step(f.l, step + 1), 0);
        for (uint32_t k = step - 1; k <= step + 1; k++)
            for (unsigned epoch = 0; epoch < 2; epoch++) {
                const uvcci_step_keys *all = f.l->keys->steps;
                assert_int_equal(all->tx[k % 3][epoch].valid, k >= step);
                assert_int_equal(all->rx[k % 3][epoch].valid, k >= step);
            }
    }
    end(&f);
}

/* Each epoch has a key of its own, and two of a step are there at a time. */
static void epochs_have_keys(void **state) {
    (void)state;
    for (uint8_t suite = 1; suite < 3; suite++) {
        fix f;
        begin(&f, suite);
        uint8_t chain[32], key[32], tag[2][16], text[20] = "an epoch", out[20];
        chain_of(&f, FIRST, chain);
        uvcci_aead *before = NULL;
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            const uint64_t seq = (uint64_t)RUN << 40 | epoch << UVCCI_EPOCH_BITS | 7;
            uvcci_aead *a = uvcci_link_key_of(f.l, FIRST, seq, true), mine;
            uvcci_derive_frame_key(chain, FIRST, RUN, ME, PEER, (uint32_t)epoch, key);
            assert_int_equal(uvcci_aead_init(&mine, suite, key), 0);
            assert_int_equal(uvcci_aead_seal(a, seq, "x", 1, text, 20, out, tag[0]), 0);
            assert_int_equal(uvcci_aead_seal(&mine, seq, "x", 1, text, 20, out, tag[1]), 0);
            assert_memory_equal(tag[0], tag[1], 16);
            uvcci_aead_free(&mine);
            assert_true(a != before);
            const uint64_t last = seq - (UINT64_C(1) << UVCCI_EPOCH_BITS);
            assert_true(epoch == 0 || uvcci_link_key_of(f.l, FIRST, last, true) == before);
            before = a;
        }
        end(&f);
    }
}

/* Memory of libcrypto, which is not the link's allocator's: blocks that are there now. */
static size_t foreign_blocks;

static void *foreign_alloc(size_t n, const char *file, int line) {
    (void)file, (void)line;
    void *p = malloc(n);
    foreign_blocks += p != NULL;
    return p;
}

static void foreign_free(void *p, const char *file, int line) {
    (void)file, (void)line;
    foreign_blocks -= p != NULL;
    free(p);
}

static void *foreign_realloc(void *p, size_t n, const char *file, int line) {
    if (p == NULL)
        return foreign_alloc(n, file, line);
    if (n == 0) {
        foreign_free(p, file, line);
        return NULL;
    }
    return realloc(p, n);
}

/* Each of the keys that a link can have at a time, of either direction, goes when the link does:
 * with one of them made, and with all. */
static void no_key_outlives_its_link(void **state) {
    (void)state;
    size_t before = 0;
    for (unsigned only = 0; only < 14; only++) { /* 0: what libcrypto keeps for ever comes first */
        fix f;
        before = foreign_blocks;
        begin(&f, 2);
        assert_int_equal(uvcc_link_set_step(f.l, FIRST + 1), 0);
        for (uint32_t key = 0; key < 12; key++)
            if (only == 0 || only == 13 || only == key + 1)
                assert_non_null(uvcci_link_key_of(f.l, FIRST + key / 4,
                                                  (uint64_t)(key / 2 % 2) << UVCCI_EPOCH_BITS | 1,
                                                  key % 2 == 0));
        assert_true(only == 0 || foreign_blocks > before);
        end(&f);
        assert_true(only == 0 || foreign_blocks == before);
    }
}

static int seal_fails(void *k, const uint8_t nonce[12], const void *ad, size_t ad_len,
                      const void *in, size_t len, void *out, uint8_t tag[16]) {
    (void)k, (void)nonce, (void)ad, (void)ad_len, (void)in, (void)len, (void)out, (void)tag;
    return UVCC_ERR_CRYPTO;
}

/* A piece that could not be sealed is lost: the link is at its end, and says so for good. */
static void seals_that_fail_are_fatal(void **state) {
    (void)state;
    fix f;
    begin(&f, 2);
    uvcc_transmit t;
    assert_int_equal(queue(&f, UVCC_FRAME_OPEN_BATCH, FIRST), 0);
    f.l->tx.cls[UVCC_CLASS_ONLINE].credit = 1000;
    uvcci_aead *key = uvcci_link_key_of(f.l, FIRST, (uint64_t)RUN << 40, true);
    uvcci_gcm_way broken = *key->gcm;
    broken.seal = seal_fails;
    key->gcm = &broken;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_link_poll_transmit(f.l, &t, f.now), UVCC_ERR_CRYPTO);
        f.now += 1000000000;
    }
    end(&f);
}

/* ---- forgeries ---- */

/* A frame whose seal is garbage. */
static void feed_forged(fix *f, uint8_t kind, uint32_t step) {
    bool control = kind == UVCC_FRAME_PING;
    uint8_t bytes[64 + 100];
    uvcc_frame_header h = {.kind = kind,
                           .src = PEER,
                           .dst = ME,
                           .flags = UVCC_FRAME_SEALED,
                           .sid_tag = SID,
                           .seq = control ? 0 : ((uint64_t)RUN << 40) + 5,
                           .step = step,
                           .chunk_cnt = 1,
                           .payload_len = 100};
    h.msg_len = 100 - (uint32_t)(control ? UVCC_FRAME_CTL_SEAL_BYTES : UVCC_FRAME_SEAL_BYTES);
    uvcc_frame_encode_header(&h, bytes);
    test_rand_bytes(&f->seed, bytes + 64, 100);
    uvcci_st32(bytes + 60, uvcc_frame_crc(bytes, bytes + 64, 100));
    assert_int_equal(uvcc_link_feed(f->l, bytes, sizeof bytes, f->now), 0);
    f->now += 1000000000; /* the limit of opens is another matter */
}

static void forgeries_are_counted(void **state) {
    (void)state;
    fix f;
    begin(&f, 1);
    const uint32_t s = FIRST % 3, next = (FIRST + 1) % 3;
    for (uint32_t i = 1; i < 20; i++) {
        feed_forged(&f, UVCC_FRAME_OPEN_BATCH, FIRST);
        feed_forged(&f, UVCC_FRAME_OPEN_BATCH, FIRST + 1);
        feed_forged(&f, UVCC_FRAME_PING, FIRST);
        assert_int_equal(f.l->keys->forged[s], i);
        assert_int_equal(f.l->keys->forged[next], i);
        assert_int_equal(f.l->keys->forged_ctl, i);
    }
    /* Of a step before the first one there is no key to forge under, and no frame. */
    assert_int_equal(uvcc_link_set_step(f.l, FIRST + 0), 0);
    feed_forged(&f, UVCC_FRAME_STEP, FIRST - 1);
    assert_int_equal(f.l->keys->forged[(FIRST - 1) % 3], 0);
    assert_null(uvcci_link_spent(f.l));

    /* A step's count ends with its keys. */
    f.l->keys->forged[next] = UVCCI_FORGED_MAX - 1;
    for (uint32_t step = FIRST + 1; step <= FIRST + 3; step++)
        assert_int_equal(uvcc_link_set_step(f.l, step), 0);
    assert_int_equal(f.l->keys->forged[next], 0);
    feed_forged(&f, UVCC_FRAME_OPEN_BATCH, FIRST + 4);
    assert_null(uvcci_link_spent(f.l));

    f.l->keys->forged[next] = UVCCI_FORGED_MAX - 2;
    feed_forged(&f, UVCC_FRAME_OPEN_BATCH, FIRST + 4);
    assert_null(uvcci_link_spent(f.l));
    feed_forged(&f, UVCC_FRAME_OPEN_BATCH, FIRST + 4);
    assert_non_null(strstr(uvcci_link_spent(f.l), "forged frames"));
    end(&f);

    begin(&f, 2);
    f.l->keys->forged_ctl = UVCCI_FORGED_CTL_MAX - 1;
    assert_null(uvcci_link_spent(f.l));
    for (unsigned i = 0; i < 3; i++) /* and the count does not go round */
        feed_forged(&f, UVCC_FRAME_PING, FIRST);
    assert_int_equal(f.l->keys->forged_ctl, UVCCI_FORGED_CTL_MAX);
    assert_non_null(strstr(uvcci_link_spent(f.l), "forged control frames"));
    end(&f);
}

int main(void) {
    /* before libcrypto takes its first block */
    if (CRYPTO_set_mem_functions(foreign_alloc, foreign_realloc, foreign_free) != 1)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_follows_the_steps),  cmocka_unit_test(unsent_messages_hold_it),
        cmocka_unit_test(keys_go_with_their_steps), cmocka_unit_test(epochs_have_keys),
        cmocka_unit_test(no_key_outlives_its_link), cmocka_unit_test(seals_that_fail_are_fatal),
        cmocka_unit_test(forgeries_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
