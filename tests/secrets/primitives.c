/* SPDX-License-Identifier: Apache-2.0 */
/* primitives.c - what everything secret passes through: AES, the PRG, the DPF, packing, HMAC, HKDF
 * and the keys made with them, sealing, signing, key exchange, comparing, and a client's shares. */
#include "taint.h"

#include <uvcc/blv1.h>
#include <uvcc/client.h>
#include <uvcc/session.h>

#include "exec/primitives/dcf.h"
#include "exec/primitives/dpf.h"
#include "proto/crypto.h"
#include "proto/ids.h"
#include "proto/prg.h"

static uint64_t rng = 1;

static void random_public(void *p, size_t n) {
    test_rand_bytes(&rng, p, n);
}

static void random_secret(void *p, size_t n) {
    test_rand_bytes(&rng, p, n);
    taint(p, n);
}

/* Stack memory counts as undefined too: what a function is to write must be public before. */
#define CLEAR(array) memset(array, 0, sizeof array)

static uvcci_aes secret_key(const backend *b) {
    uint8_t key[16];
    random_secret(key, sizeof key);
    uvcci_aes a = {0};
    uvcci_aes_init(&a, key, (uvcci_aes_backend)b->aes);
    assert_int_equal(a.backend, b->aes);
    assert_tainted(a.rk, sizeof a.rk);
    return a;
}

/* Every number of blocks that a group and its rest can have. */
static void aes(void **state) {
    const backend *b = backend_of(state);
    const uvcci_aes left = secret_key(b), right = secret_key(b);
    for (size_t n = 1; n <= 20; n++) {
        uint8_t in[20 * 16], out[20 * 16], select[4];
        random_secret(in, sizeof in);
        random_public(select, sizeof select);
        CLEAR(out);
        uvcci_aes_ecb(&left, in, out, n);
        assert_tainted(out, n * 16);
        CLEAR(out);
        uvcci_aes_mmo2(&left, &right, NULL, in, out, n);
        assert_tainted(out, n * 16);
        CLEAR(out);
        uvcci_aes_mmo2(&left, &right, select, in, out, n);
        assert_tainted(out, n * 16);
    }
}

static void prg(void **state) {
    const uvcci_aes key = secret_key(backend_of(state));
    const uvcci_prg_at at = {.ordinal = 7, .call = 1, .block = 2, .lane = 3}; /* public */
    uint64_t words[1100];
    for (unsigned first = 0; first < 3; first++)
        for (size_t n = 1; n <= 1100; n += 157) {
            CLEAR(words);
            uvcci_prg_fill(&key, at, first, words, n);
            assert_tainted(words, n * 8);
        }
}

/* Secret: the roots, alpha, the correction words. The node PRG's keys are a hash of public names,
 * and x of an evaluation was opened to the edge. */
static void dpf_once(const backend *b, unsigned n, uint32_t count) {
    enum { MAX = 300, MAX_LEVELS = 56 };
    static uint8_t root[2][MAX * 16], levels[MAX_LEVELS * MAX * 16], leaves[MAX * 16];
    static uint8_t bits[MAX * 14], share[2][MAX];
    static uint64_t alpha[MAX], x[MAX], plain[MAX];
    const uint64_t mask = ((uint64_t)1 << n) - 1;
    uvcci_aes dpf[2];
    for (unsigned i = 0; i < 2; i++) {
        uint8_t key[16];
        random_public(key, sizeof key);
        uvcci_aes_init(&dpf[i], key, (uvcci_aes_backend)b->aes);
        random_secret(root[i], count * 16);
    }
    for (uint32_t i = 0; i < count; i++) {
        plain[i] = alpha[i] = test_rand(&rng) & mask;
        x[i] = i % 3 == 0 ? alpha[i] : test_rand(&rng) & mask;
    }
    taint(alpha, sizeof alpha);
    CLEAR(levels);
    CLEAR(leaves);
    CLEAR(bits);

    const unsigned depth = uvcci_dpf_levels(n), bit_bytes = (2 * depth + 7) / 8;
    uint8_t sign[MAX];
    CLEAR(sign);
    uvcci_dpf_gen(dpf, n, count, alpha, root[0], root[1], levels, leaves, bits, sign);
    assert_tainted(sign, count);
    assert_tainted(levels, (size_t)depth * count * 16);
    assert_tainted(leaves, (size_t)count * 16);
    assert_tainted(bits, (size_t)count * bit_bytes);
    for (unsigned prefix = 0; prefix < 2; prefix++) {
        for (unsigned p = 0; p < 2; p++) {
            CLEAR(share[p]);
            if (prefix)
                uvcci_dpf_prefix(dpf, n, count, x, root[p], p, levels, leaves, bits, share[p]);
            else
                uvcci_dpf_point(dpf, n, count, x, root[p], p, levels, leaves, bits, share[p]);
            assert_tainted(share[p], count);
            look(share[p], count);
        }
        for (uint32_t i = 0; i < count; i++)
            assert_int_equal(share[0][i] ^ share[1][i],
                             prefix ? plain[i] <= x[i] : plain[i] == x[i]);
    }
}

static void dcf_once(const backend *b, unsigned n, unsigned w) {
    enum { COUNT = 5, MAX_BYTES = COUNT * 64 * (16 + 8 * UVCCI_DCF_WORDS_MAX + 1) };
    static uint8_t root[2][COUNT * 16], key[MAX_BYTES];
    uint64_t alpha[COUNT], plain[COUNT], x[COUNT], out[2][COUNT * UVCCI_DCF_WORDS_MAX];
    uint64_t beta[COUNT * UVCCI_DCF_WORDS_MAX], payload[COUNT * UVCCI_DCF_WORDS_MAX];
    uvcci_aes dpf[2];
    for (unsigned i = 0; i < 2; i++) {
        uint8_t k[16];
        random_public(k, sizeof k);
        uvcci_aes_init(&dpf[i], k, (uvcci_aes_backend)b->aes);
        random_secret(root[i], sizeof root[i]);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        plain[i] = alpha[i] = test_rand(&rng) >> (64 - n);
        x[i] = test_rand(&rng) >> (64 - n);
    }
    random_public(payload, sizeof payload);
    memcpy(beta, payload, sizeof beta);
    taint(alpha, sizeof alpha);
    taint(beta, sizeof beta);
    CLEAR(key);
    uvcci_dcf_gen(dpf, n, w, COUNT, alpha, beta, root[0], root[1], key);
    assert_tainted(key, (size_t)COUNT * (16 * n + 8 * w * n + 8 * w));
    for (unsigned p = 0; p < 2; p++) {
        CLEAR(out[p]);
        const uvcci_dcf_keys k = {n, w, COUNT, p == 1, root[p], key};
        uvcci_dcf_eval(dpf, &k, 0, COUNT, x, out[p]);
        assert_tainted(out[p], COUNT * w * 8);
        look(out[p], COUNT * w * 8);
    }
    for (uint32_t i = 0; i < COUNT * w; i++)
        assert_true(out[0][i] + out[1][i] == (x[i / w] < plain[i / w] ? payload[i] : 0));
}

static void dcf(void **state) {
    const backend *b = backend_of(state);
    dcf_once(b, 6, 1);
    dcf_once(b, 33, 4);
    dcf_once(b, 64, 2);
}

/* The leaves of a DPF as a window of x gives them. */
static void window_once(const backend *b, unsigned n, uint32_t len) {
    enum { COUNT = 5, MAX_WORDS = 40 };
    static uint64_t bits[COUNT * MAX_WORDS], first[COUNT];
    static uint8_t root[COUNT * 16], levels[57 * COUNT * 16], leaves[COUNT * 16];
    static uint8_t control[15 * COUNT];
    uvcci_aes dpf[2];
    for (unsigned i = 0; i < 2; i++) {
        uint8_t key[16];
        random_public(key, sizeof key);
        uvcci_aes_init(&dpf[i], key, (uvcci_aes_backend)b->aes);
    }
    random_secret(root, sizeof root);
    random_secret(levels, sizeof levels);
    random_secret(leaves, sizeof leaves);
    random_secret(control, sizeof control);
    random_public(first, sizeof first);
    const uvcci_dpf_keys k = {n, COUNT, true, root, levels, leaves, control};
    const uint32_t words = uvcci_dpf_window_words(len);
    assert_true(words <= MAX_WORDS);
    CLEAR(bits);
    uvcci_dpf_window(dpf, &k, 0, COUNT, first, len, bits);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_tainted(bits + i * words, len / 64 * 8);
}

static void dpf(void **state) {
    const backend *b = backend_of(state);
    static const unsigned sizes[] = {1, 6, 7, 8, 9, 16, 37, 63};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        dpf_once(b, sizes[i], 3 + i);
    dpf_once(b, 20, 300); /* more than a group */
    window_once(b, 6, 64);
    window_once(b, 7, 128);
    window_once(b, 12, 2048);
    window_once(b, 63, 1000);
}

static void packing(void **state) {
    (void)state;
    uint64_t words[70], back[70];
    uint8_t packed[70 * 8];
    for (unsigned bits = 1; bits <= 64; bits++) {
        for (unsigned i = 0; i < 70; i++)
            words[i] = test_rand(&rng) >> (64 - bits);
        taint(words, sizeof words);
        CLEAR(packed);
        CLEAR(back);
        uvcc_bits_pack(words, 70, bits, packed);
        assert_tainted(packed, (70 * bits + 7) / 8);
        uvcc_bits_unpack(packed, 70, bits, back);
        for (unsigned i = 0; i < 70; i++)
            assert_tainted(&back[i], (bits + 7) / 8);
        look(words, sizeof words);
        look(back, sizeof back);
        assert_memory_equal(back, words, sizeof words);
    }
}

static void hmac(void **state) {
    (void)state;
    uint8_t key[100], data[300], out[32];
    for (size_t n = 0; n <= sizeof data; n += 50) {
        random_secret(key, sizeof key);
        random_secret(data, sizeof data);
        CLEAR(out);
        uvcci_hmac_once(key, n % 100, data, n,
                        out); /* keys of up to and beyond a block of SHA-256 */
        if (n != 0)
            assert_tainted(out, sizeof out);
        CLEAR(out);
        uvcci_hmac_once(key, sizeof key, data, n, out);
        assert_tainted(out, sizeof out);
        CLEAR(out);
        uvcci_sha256_once(data, n, out);
        if (n != 0)
            assert_tainted(out, sizeof out);
    }
    uint8_t prk[32], okm[100] = {0};
    random_secret(prk, sizeof prk);
    assert_int_equal(uvcci_hkdf_expand(prk, "info", 4, okm, sizeof okm), 0);
    assert_tainted(okm, sizeof okm);
}

/* From a provisioned secret to every key that a session has. */
static void key_schedule(void **state) {
    (void)state;
    uint8_t provisioned[32], n[2][32], sid_job[32], sid_sub[32];
    uint8_t k_ab[32] = {0}, prk[32] = {0}, key[32];
    random_secret(provisioned, sizeof provisioned);
    random_public(n, sizeof n); /* sent in the clear in HELLO 1 */
    random_public(sid_job, sizeof sid_job);
    random_public(sid_sub, sizeof sid_sub);
    uvcci_derive_session_key(n[0], n[1], provisioned, sid_job, 3, 0, 1, k_ab);
    assert_tainted(k_ab, sizeof k_ab);
    uvcci_derive_prk(sid_sub, k_ab, prk);
    assert_tainted(prk, sizeof prk);
    for (unsigned tag = 0; tag < UVCCI_TAG_COUNT; tag++) {
        CLEAR(key);
        uvcci_derive_prg_key(prk, (uvcci_tag)tag, 5, 3, key);
        assert_tainted(key, 16);
    }
    CLEAR(key);
    uvcci_derive_chain(prk, 5, 3, prk);
    uvcci_ratchet(prk, 6, 3);
    uvcci_derive_frame_key(prk, 5, 3, 0, 1, 7, key);
    assert_tainted(key, sizeof key);
    CLEAR(key);
    uvcci_derive_ctl_key(prk, 3, 0, 1, key);
    assert_tainted(key, sizeof key);
    CLEAR(key);
    uvcci_derive_leaf_salt(prk, 5, 3, key);
    assert_tainted(key, sizeof key);
}

/* way: NULL for the suite that has but one. */
static void seal_and_open(uint8_t suite, const uvcci_gcm_way *way) {
    enum { MAX = 1000 };
    static const size_t lens[] = {0, 1, 15, 16, 17, 64, 255, 512, MAX};
    uint8_t key[32], ad[52], plain[MAX], sealed[MAX], opened[MAX], tag[16];
    random_secret(key, sizeof key);
    random_public(ad, sizeof ad);
    uvcci_aead a;
    assert_int_equal(public_status(way == NULL ? uvcci_aead_init(&a, suite, key)
                                               : uvcci_aead_init_gcm(&a, way, key)),
                     0);
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        const size_t n = lens[i];
        random_secret(plain, sizeof plain);
        CLEAR(sealed);
        CLEAR(tag);
        CLEAR(opened);
        assert_int_equal(
            public_status(uvcci_aead_seal(&a, i, ad, sizeof ad, plain, n, sealed, tag)), 0);
        declassify(sealed, n, "ciphertext goes over the wire");
        declassify(tag, sizeof tag, "the tag goes over the wire");
        assert_int_equal(
            public_status(uvcci_aead_open(&a, i, ad, sizeof ad, sealed, n, tag, opened)), 0);
        assert_tainted(opened, n);
        look(opened, n);
        look(plain, n);
        if (n != 0)
            assert_memory_equal(opened, plain, n);
        uvcci_gcm_part part;
        CLEAR(opened);
        if (uvcci_aead_open_begin(&a, &part, i, ad, sizeof ad)) {
            uvcci_aead_open_more(&a, &part, sealed, n / 3, opened);
            uvcci_aead_open_more(&a, &part, sealed + n / 3, n - n / 3, opened + n / 3);
            assert_int_equal(public_status(uvcci_aead_open_end(&a, &part, tag)), 0);
            assert_tainted(opened, n);
        }
        tag[5] ^= 1;
        assert_int_equal(
            public_status(uvcci_aead_open(&a, i, ad, sizeof ad, sealed, n, tag, opened)),
            UVCC_ERR_AUTH);
    }
    uvcci_aead_free(&a);
}

static void chacha20_poly1305(void **state) {
    (void)state;
    seal_and_open(UVCCI_SUITE_CHACHA20_POLY1305, NULL);
}

static void aes256_gcm(void **state) {
    (void)state;
    for (size_t i = 0; uvcci_gcm_way_at(i) != NULL; i++)
        seal_and_open(UVCCI_SUITE_AES256_GCM, uvcci_gcm_way_at(i));
}

static void xchacha20_poly1305(void **state) {
    (void)state;
    uint8_t key[32], nonce[24], ad[52], plain[100], sealed[116] = {0}, opened[100] = {0};
    random_secret(key, sizeof key);
    random_public(nonce, sizeof nonce); /* stands before the ciphertext */
    random_public(ad, sizeof ad);
    random_secret(plain, sizeof plain);
    assert_int_equal(
        public_status(uvcci_xaead_seal(key, nonce, ad, sizeof ad, plain, sizeof plain, sealed)), 0);
    declassify(sealed, sizeof sealed, "ciphertext and tag go over the wire");
    assert_int_equal(
        public_status(uvcci_xaead_open(key, nonce, ad, sizeof ad, sealed, sizeof sealed, opened)),
        0);
    assert_tainted(opened, sizeof opened);
    look(opened, sizeof opened);
    look(plain, sizeof plain);
    assert_memory_equal(opened, plain, sizeof plain);
    sealed[7] ^= 1;
    assert_int_equal(
        public_status(uvcci_xaead_open(key, nonce, ad, sizeof ad, sealed, sizeof sealed, opened)),
        UVCC_ERR_AUTH);
}

static void signing(void **state) {
    (void)state;
    uint8_t seed[32], pk[32] = {0}, sk[64] = {0}, sig[64] = {0};
    random_secret(seed, sizeof seed);
    uvcci_sign_keypair(seed, pk, sk);
    declassify(pk, sizeof pk, "it is the public key");
    uvcci_sign(sk, "message", 7, sig);
    declassify(sig, sizeof sig, "a signature is published");
    assert_int_equal(uvcci_sign_verify(pk, "message", 7, sig), 0);
}

static void key_exchange(void **state) {
    (void)state;
    uint8_t sk[2][32], pk[2][32] = {{0}}, shared[2][32] = {{0}};
    for (unsigned i = 0; i < 2; i++) {
        random_secret(sk[i], sizeof sk[i]);
        assert_int_equal(public_status(uvcci_x25519_public(sk[i], pk[i])), 0);
        declassify(pk[i], sizeof pk[i], "the public half goes over the wire");
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(public_status(uvcci_x25519_shared(sk[i], pk[1 - i], shared[i])), 0);
        assert_tainted(shared[i], sizeof shared[i]);
        look(shared[i], sizeof shared[i]);
    }
    assert_memory_equal(shared[0], shared[1], 32);
}

static void client(void **state) {
    (void)state;
    enum { VALUES = 50 };
    int64_t v[VALUES], back[VALUES] = {0};
    uint64_t part[3][VALUES] = {{0}};
    const uvcc_random hook = test_random(&rng);
    random_secret(v, sizeof v);
    assert_int_equal(uvcc_client_split(v, VALUES, &hook, part[0], part[1], part[2]), 0);
    assert_tainted(part[2], sizeof part[2]); /* the others are random words */
    uvcc_client_combine(part[0], part[1], part[2], VALUES, back);
    assert_tainted(back, sizeof back);
    look(v, sizeof v);
    look(back, sizeof back);
    assert_memory_equal(back, v, sizeof v);
}

/* A client's numbers decide nothing that takes time while keys are made of them, but whether they
 * are of so many bits; those that are have zeros above. */
static void deal(void **state) {
    (void)state;
    enum { NUMBERS = 37, BITS = 16, WORDS = NUMBERS * (2 * 14 + 5 + 2) };
    static uint64_t words[3][2][WORDS];
    uint64_t *share[3][2];
    int64_t numbers[NUMBERS];
    uint8_t sid_job[32] = {1};
    const uvcc_random hook = test_random(&rng);
    for (unsigned i = 0; i < 6; i++)
        share[i / 2][i % 2] = words[i / 2][i % 2];
    for (unsigned i = 0; i < NUMBERS; i++) {
        numbers[i] = (int64_t)(test_rand(&rng) % (1 << BITS));
        taint(&numbers[i], BITS / 8); /* the low bytes */
    }
    assert_int_equal(public_status(uvcc_client_deal(sid_job, BITS, numbers, NUMBERS, &hook, share)),
                     0);
    assert_tainted(words[1][0], 8); /* a level's word */
    look(words, sizeof words);
    assert_memory_equal(words[1][0], words[0][1],
                        sizeof words[0][0] / WORDS * (WORDS - 2 * NUMBERS));
}

static void equality(void **state) {
    (void)state;
    uint8_t a[33], b[33];
    random_secret(a, sizeof a);
    memcpy(b, a, sizeof b);
    bool same = uvcci_ct_equal(a, b, sizeof a);
    declassify(&same, sizeof same, "whether they are equal is what the caller asks");
    assert_true(same);
    b[32] ^= 0x80;
    same = uvcci_ct_equal(a, b, sizeof a);
    declassify(&same, sizeof same, "whether they are equal is what the caller asks");
    assert_false(same);
}

int test_primitives(void) {
    const struct CMUnitTest tests[] = {
        SECRETS_TEST_ON(aes, portable),
        SECRETS_TEST_ON(aes, avx2),
        SECRETS_TEST_ON(prg, portable),
        SECRETS_TEST_ON(prg, avx2),
        SECRETS_TEST_ON(dcf, portable),
        SECRETS_TEST_ON(dcf, avx2),
        SECRETS_TEST_ON(dpf, portable),
        SECRETS_TEST_ON(dpf, avx2),
        SECRETS_TEST(packing),
        SECRETS_TEST(hmac),
        SECRETS_TEST(key_schedule),
        SECRETS_TEST(chacha20_poly1305),
        SECRETS_TEST(aes256_gcm),
        SECRETS_TEST(xchacha20_poly1305),
        SECRETS_TEST(signing),
        SECRETS_TEST(equality),
        SECRETS_TEST(key_exchange),
        SECRETS_TEST(client),
        SECRETS_TEST(deal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
