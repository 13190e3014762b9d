/* SPDX-License-Identifier: Apache-2.0 */
/* test_crypto.c - hashes, key derivation, sealing and signatures against the RFCs and the sealed
 * frames of prg.json; forgeries, lengths, in-place use. */
#include "support.h"

#include "proto/crypto.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static void check(const uint8_t *got, const char *hex) {
    uint8_t *want;
    const size_t n = test_hex(hex, &want);
    assert_memory_equal(got, want, n);
    free(want);
}

static bool all_zero(const uint8_t *p, size_t n) {
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

/* --- Hashes ----------------------------------------------------------------------------------- */

/* RFC 6234, 8.5: tests 1 to 4. */
static void sha256_vectors(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t times;
        const char *digest;
    } v[] = {
        {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
        {"0123456701234567012345670123456701234567012345670123456701234567", 10,
         "594847328451bdfa85056225462cc1d867d877fb388df0ce35f25ab5562bfbb5"},
        {"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    };
    for (size_t i = 0; i < COUNT(v); i++) {
        uvcci_sha256 h;
        uint8_t out[32];
        uvcci_sha256_init(&h);
        for (size_t j = 0; j < v[i].times; j++)
            uvcci_sha256_update(&h, v[i].text, strlen(v[i].text));
        uvcci_sha256_final(&h, out);
        check(out, v[i].digest);
    }
}

static void hashes_at_every_split(void **state) {
    (void)state;
    uint64_t seed = 1;
    uint8_t buf[200], key[40], sha[32], mac[32], out[32];
    test_rand_bytes(&seed, buf, sizeof buf);
    test_rand_bytes(&seed, key, sizeof key);
    uvcci_sha256_once(buf, sizeof buf, sha);
    uvcci_hmac_once(key, sizeof key, buf, sizeof buf, mac);
    for (size_t cut = 0; cut <= sizeof buf; cut++) {
        uvcci_sha256 h, copy;
        uvcci_sha256_init(&h);
        uvcci_sha256_update(&h, buf, cut);
        copy = h; /* a context is plain memory */
        uvcci_sha256_update(&copy, buf + cut, sizeof buf - cut);
        uvcci_sha256_final(&copy, out);
        assert_memory_equal(out, sha, 32);

        uvcci_hmac m;
        uvcci_hmac_init(&m, key, sizeof key);
        uvcci_hmac_update(&m, buf, cut);
        uvcci_hmac_update(&m, NULL, 0);
        uvcci_hmac_update(&m, buf + cut, sizeof buf - cut);
        uvcci_hmac_final(&m, out);
        assert_memory_equal(out, mac, 32);
        assert_true(all_zero((const uint8_t *)&m, sizeof m));
    }
}

/* RFC 4231: tests 1 to 4, 6 and 7. */
static void hmac_vectors(void **state) {
    (void)state;
    uint8_t b0[20], aa[131], dd[50], cd[50], count[25], out[32];
    memset(b0, 0x0b, sizeof b0);
    memset(aa, 0xaa, sizeof aa);
    memset(dd, 0xdd, sizeof dd);
    memset(cd, 0xcd, sizeof cd);
    for (uint8_t i = 0; i < sizeof count; i++)
        count[i] = (uint8_t)(i + 1);
    static const char hash_first[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char larger[] =
        "This is a test using a larger than block-size key and a larger than block-size data. "
        "The key needs to be hashed before being used by the HMAC algorithm.";

    uvcci_hmac_once(b0, sizeof b0, "Hi There", 8, out);
    check(out, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    uvcci_hmac_once("Jefe", 4, "what do ya want for nothing?", 28, out);
    check(out, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    uvcci_hmac_once(aa, 20, dd, sizeof dd, out);
    check(out, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    uvcci_hmac_once(count, sizeof count, cd, sizeof cd, out);
    check(out, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    uvcci_hmac_once(aa, 131, hash_first, strlen(hash_first), out);
    check(out, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    uvcci_hmac_once(aa, 131, larger, strlen(larger), out);
    check(out, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

/* RFC 5869, appendix A: tests 1 to 3. */
static void hkdf_vectors(void **state) {
    (void)state;
    uint8_t ikm[80], salt[80], info[80], prk[32], okm[82];
    memset(ikm, 0x0b, 22);
    for (uint8_t i = 0; i < 80; i++) {
        salt[i] = i;
        info[i] = (uint8_t)(0xf0 + i);
    }
    uvcci_hkdf_extract(salt, 13, ikm, 22, prk);
    check(prk, "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
    assert_int_equal(uvcci_hkdf_expand(prk, info, 10, okm, 42), 0);
    check(okm, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
               "34007208d5b887185865");

    uvcci_hkdf_extract(NULL, 0, ikm, 22, prk);
    check(prk, "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04");
    assert_int_equal(uvcci_hkdf_expand(prk, NULL, 0, okm, 42), 0);
    check(okm, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
               "9d201395faa4b61a96c8");

    for (uint8_t i = 0; i < 80; i++) {
        ikm[i] = i;
        salt[i] = (uint8_t)(0x60 + i);
        info[i] = (uint8_t)(0xb0 + i);
    }
    uvcci_hkdf_extract(salt, 80, ikm, 80, prk);
    check(prk, "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244");
    assert_int_equal(uvcci_hkdf_expand(prk, info, 80, okm, 82), 0);
    check(okm, "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
               "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
               "cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

static void hkdf_lengths(void **state) {
    (void)state;
    enum { MAX = 255 * 32 };
    static uint8_t all[MAX + 1], some[MAX + 1];
    const uint8_t prk[32] = {1};
    memset(all, 0xee, sizeof all);
    assert_int_equal(uvcci_hkdf_expand(prk, "i", 1, all, MAX), 0);
    assert_int_equal(all[MAX], 0xee);
    for (size_t n = 0; n < 100; n++) {
        memset(some, 0xee, sizeof some);
        assert_int_equal(uvcci_hkdf_expand(prk, "i", 1, some, n), 0);
        assert_memory_equal(some, all, n);
        assert_int_equal(some[n], 0xee);
    }
    some[0] = 0x11;
    assert_int_equal(uvcci_hkdf_expand(prk, "i", 1, some, MAX + 1), UVCC_ERR_USAGE);
    assert_int_equal(some[0], 0x11);
}

/* --- Sealing ---------------------------------------------------------------------------------- */

/* Sealers: the first suite, and the second by each library. */
static size_t sealer_count(void) {
    size_t ways = 0;
    while (uvcci_gcm_way_at(ways) != NULL)
        ways++;
    return 1 + ways;
}
static const char *name_of(size_t sealer) { /* in vectors */
    return sealer == 0 ? "chacha20poly1305" : "aes256gcm";
}
static int begin(uvcci_aead *a, size_t sealer, const uint8_t key[32]) {
    return sealer == 0 ? uvcci_aead_init(a, UVCCI_SUITE_CHACHA20_POLY1305, key)
                       : uvcci_aead_init_gcm(a, uvcci_gcm_way_at(sealer - 1), key);
}

static void check_sealing(size_t sealer, const uint8_t key[32], uint64_t seq, const uint8_t *ad,
                          size_t ad_len, const uint8_t *plain, const uint8_t *sealed, size_t len) {
    uvcci_aead a;
    uint8_t out[512], tag[16];
    assert_true(len <= sizeof out);
    assert_int_equal(begin(&a, sealer, key), 0);
    assert_int_equal(uvcci_aead_seal(&a, seq, ad, ad_len, plain, len, out, tag), 0);
    assert_memory_equal(out, sealed, len);
    assert_memory_equal(tag, sealed + len, 16);
    memset(out, 0xee, sizeof out);
    assert_int_equal(uvcci_aead_open(&a, seq, ad, ad_len, sealed, len, sealed + len, out), 0);
    assert_memory_equal(out, plain, len);
    uvcci_aead_free(&a);
}

/* RFC 8439 A.5: the vector whose nonce has our form. */
static void chacha_vector(void **state) {
    (void)state;
    static const char text[] =
        "Internet-Drafts are draft documents valid for a maximum of six months and may be updated, "
        "replaced, or obsoleted by other documents at any time. It is inappropriate to use "
        "Internet-Drafts as reference material or to cite them other than as "
        "/\xe2\x80\x9cwork in progress./\xe2\x80\x9d";
    uint8_t key[32], ad[12], *sealed;
    test_hex_n("1c9240a5eb55d38af333888604f6b5f0473917c1402b80099dca5cbc207075c0", key, 32);
    test_hex_n("f33388860000000000004e91", ad, 12);
    const size_t n = test_hex(
        "64a0861575861af460f062c79be643bd5e805cfd345cf389f108670ac76c8cb24c6cfc18755d43eea09ee94e"
        "382d26b0bdb7b73c321b0100d4f03b7f355894cf332f830e710b97ce98c8a84abd0b948114ad176e008d33bd"
        "60f982b1ff37c8559797a06ef4f0ef61c186324e2b3506383606907b6a7c02b0f9f6157b53c867e4b9166c76"
        "7b804d46a59b5216cde7a4e99040c5a40433225ee282a1b0a06c523eaf4534d7f83fa1155b0047718cbc546a"
        "0d072b04b3564eea1b422273f548271a0bb2316053fa76991955ebd63159434ecebb4e466dae5a1073a67276"
        "27097a1049e617d91d361094fa68f0ff77987130305beaba2eda04df997b714d6c6f2c29a6ad5cb4022b0270"
        "9beead9d67890cbb22392336fea1851f38",
        &sealed);
    assert_int_equal(n, strlen(text) + 16);
    check_sealing(0, key, 0x0807060504030201u, ad, 12, (const uint8_t *)text, sealed, n - 16);
    free(sealed);
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", test cases 13 and 14. */
static void gcm_vectors(void **state) {
    (void)state;
    const uint8_t zero[32] = {0};
    uint8_t sealed[32];
    for (size_t s = 1; s < sealer_count(); s++) {
        test_hex_n("530f8afbc74536b9a963b4f1c4cb738b", sealed, 16);
        check_sealing(s, zero, 0, NULL, 0, zero, sealed, 0);
        test_hex_n("cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919", sealed, 32);
        check_sealing(s, zero, 0, NULL, 0, zero, sealed, 16);
    }
}

static json_t *named(const json_t *list, const char *key, const char *name) {
    size_t i;
    json_t *o;
    json_array_foreach(list, i, o) if (strcmp(test_str(o, key), name) == 0) return o;
    fail_msg("no vector %s", name);
    return NULL;
}

/* Whole frames: associated data = bytes 0..51, seq at 16, the payload after 64 bytes of header. */
static void sealed_frames(void **state) {
    (void)state;
    json_t *prg = LOAD_VECTORS("prg.json"), *blv1 = LOAD_VECTORS("blv1.json");
    const json_t *batch = named(json_object_get(blv1, "vectors"), "name", "lift_m_q4");
    for (size_t s = 0; s < sealer_count(); s++) {
        const json_t *o = named(json_object_get(prg, "sealed"), "suite", name_of(s));
        uint8_t key[32], *frame, *plain;
        uint64_t seq;
        test_hex_n(test_str(o, "frame_key"), key, 32);
        const size_t n = test_hex(test_str(o, "frame"), &frame);
        const size_t len = test_hex(test_str(batch, "payload"), &plain);
        assert_int_equal(n, 64 + len + 16);
        memcpy(&seq, frame + 16, 8);
        assert_true(seq != 0);
        check_sealing(s, key, seq, frame, 52, plain, frame + 64, len);
        free(frame);
        free(plain);
    }
    json_decref(prg);
    json_decref(blv1);
}

static void sealing_every_length_in_place(void **state) {
    (void)state;
    uint64_t seed = 2;
    uint8_t key[32], ad[60], plain[300], apart[300], here[300], tag[16], tag2[16];
    test_rand_bytes(&seed, key, sizeof key);
    test_rand_bytes(&seed, ad, sizeof ad);
    test_rand_bytes(&seed, plain, sizeof plain);
    for (size_t s = 0; s < sealer_count(); s++) {
        uvcci_aead a;
        assert_int_equal(begin(&a, s, key), 0);
        for (size_t n = 0; n < sizeof plain; n++) {
            const uint64_t seq = test_rand(&seed);
            const size_t ad_len = n % sizeof ad;
            memset(apart, 0xee, sizeof apart);
            assert_int_equal(uvcci_aead_seal(&a, seq, ad, ad_len, plain, n, apart, tag), 0);
            assert_int_equal(apart[n], 0xee);
            memcpy(here, plain, sizeof here);
            assert_int_equal(uvcci_aead_seal(&a, seq, ad, ad_len, here, n, here, tag2), 0);
            assert_memory_equal(here, apart, n);
            assert_memory_equal(tag, tag2, 16);
            assert_int_equal(uvcci_aead_open(&a, seq, ad, ad_len, here, n, tag, here), 0);
            assert_memory_equal(here, plain, sizeof here);
        }
        uvcci_aead_free(&a);
        assert_true(all_zero((const uint8_t *)&a, sizeof a));
    }
}

/* Frames of real sizes, which libraries cut into blocks of their own. */
static void libraries_agree(void **state) {
    (void)state;
    enum { MOST = 70000, SEALERS = 4 };
    uint8_t key[32], ad[52], tags[SEALERS][16];
    uint8_t *plain = malloc(MOST), *box[SEALERS];
    uvcci_aead a[SEALERS];
    uint64_t seed = 4;
    assert_non_null(plain);
    assert_true(sealer_count() <= SEALERS);
    test_rand_bytes(&seed, key, sizeof key);
    test_rand_bytes(&seed, ad, sizeof ad);
    test_rand_bytes(&seed, plain, MOST);
    for (size_t s = 1; s < sealer_count(); s++) {
        assert_int_equal(begin(&a[s], s, key), 0);
        assert_non_null(box[s] = malloc(MOST));
    }
    for (unsigned i = 0; i < 200; i++) {
        const size_t n = i < 100 ? 300 + 37 * i : test_rand(&seed) % MOST;
        for (size_t s = 1; s < sealer_count(); s++) {
            assert_int_equal(uvcci_aead_seal(&a[s], i, ad, 52, plain, n, box[s], tags[s]), 0);
            assert_memory_equal(box[s], box[1], n);
            assert_memory_equal(tags[s], tags[1], 16);
        }
        for (size_t s = sealer_count() - 1; s >= 1; s--) { /* the first in place, so it is last */
            assert_int_equal(uvcci_aead_open(&a[s], i, ad, 52, box[1], n, tags[1], box[s]), 0);
            assert_memory_equal(box[s], plain, n);
        }
    }
    for (size_t s = 1; s < sealer_count(); s++) {
        uvcci_aead_free(&a[s]);
        free(box[s]);
    }
    free(plain);
}

/* A piece that comes in parts, apart or in place, is opened as a whole one is; a suite that cannot
 * says so. Between the parts frames are sealed under the same key, and what is begun anew forgets
 * what was. */
static void opened_in_parts(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static uint8_t plain[MOST], sealed[MOST], out[MOST];
    uint64_t seed = 8;
    uint8_t key[32], ad[52], tag[16], other[16], tag2[16];
    test_rand_bytes(&seed, key, sizeof key);
    test_rand_bytes(&seed, ad, sizeof ad);
    test_rand_bytes(&seed, plain, sizeof plain);
    for (size_t s = 0; s < sealer_count(); s++) {
        uvcci_aead a;
        uvcci_gcm_part part;
        assert_int_equal(begin(&a, s, key), 0);
        assert_int_equal(uvcci_aead_open_begin(&a, &part, 1, ad, sizeof ad), s != 0);
        for (uint64_t i = 0; s != 0 && i < 600; i++) {
            const size_t n = i < 40 ? i : test_rand(&seed) % MOST;
            const bool forged = i % 5 == 4, in_place = i % 3 == 2;
            assert_int_equal(uvcci_aead_seal(&a, i, ad, 52, plain, n, sealed, tag), 0);
            tag[i % 16] ^= forged;
            if (i % 7 == 6) { /* a frame that never became whole */
                assert_true(uvcci_aead_open_begin(&a, &part, i + 1, ad, 52));
                uvcci_aead_open_more(&a, &part, sealed, n / 2, out);
            }
            assert_true(uvcci_aead_open_begin(&a, &part, i, ad, 52));
            memcpy(out, sealed, n);
            for (size_t at = 0, more; at < n; at += more) {
                more = test_rand(&seed) % (i % 2 != 0 ? 40 : 2000);
                more = more < n - at ? more : n - at;
                uvcci_aead_open_more(&a, &part, (in_place ? out : sealed) + at, more, out + at);
                assert_int_equal(uvcci_aead_seal(&a, i, ad, 52, plain, 5, other, tag2), 0);
            }
            assert_int_equal(uvcci_aead_open_end(&a, &part, tag), forged ? UVCC_ERR_AUTH : 0);
            assert_memory_equal(out, plain, n);
        }
        uvcci_aead_free(&a);
    }
}

/* A piece sealed in parts, apart or in place, is what it is as a whole. */
static void sealed_in_parts(void **state) {
    (void)state;
    enum { MOST = 3000 };
    static uint8_t plain[MOST], sealed[MOST], out[MOST];
    uint64_t seed = 9;
    uint8_t key[32], ad[52], tag[16], tag2[16];
    test_rand_bytes(&seed, key, sizeof key);
    test_rand_bytes(&seed, ad, sizeof ad);
    test_rand_bytes(&seed, plain, sizeof plain);
    for (size_t s = 0; s < sealer_count(); s++) {
        uvcci_aead a;
        uvcci_gcm_part part, opened;
        assert_int_equal(begin(&a, s, key), 0);
        assert_int_equal(uvcci_aead_seal_begin(&a, &part, 1, ad, sizeof ad), s != 0);
        for (uint64_t i = 0; s != 0 && i < 600; i++) {
            const size_t n = i < 40 ? i : test_rand(&seed) % MOST;
            const bool in_place = i % 3 == 2;
            assert_int_equal(uvcci_aead_seal(&a, i, ad, 52, plain, n, sealed, tag), 0);
            assert_true(uvcci_aead_open_begin(&a, &opened, i + 1, ad, 52)); /* of another frame */
            assert_true(uvcci_aead_seal_begin(&a, &part, i, ad, 52));
            memcpy(out, plain, n);
            for (size_t at = 0, more; at < n; at += more) {
                more = test_rand(&seed) % (i % 2 != 0 ? 40 : 2000);
                more = more < n - at ? more : n - at;
                uvcci_aead_seal_more(&a, &part, (in_place ? out : plain) + at, more, out + at);
            }
            assert_int_equal(uvcci_aead_seal_end(&a, &part, tag2), 0);
            assert_memory_equal(out, sealed, n);
            assert_memory_equal(tag, tag2, sizeof tag);
        }
        uvcci_aead_free(&a);
    }
}

static void expect_forged(uvcci_aead *a, uint64_t seq, const uint8_t *ad, size_t ad_len,
                          const uint8_t *in, size_t len, const uint8_t tag[16]) {
    uint8_t out[64];
    memset(out, 0xee, sizeof out);
    assert_int_equal(uvcci_aead_open(a, seq, ad, ad_len, in, len, tag, out), UVCC_ERR_AUTH);
    assert_true(all_zero(out, len));
}

static void forgeries(void **state) {
    (void)state;
    uint64_t seed = 3;
    uint8_t key[32], ad[52], plain[40], box[40], tag[16], out[40];
    test_rand_bytes(&seed, key, sizeof key);
    test_rand_bytes(&seed, ad, sizeof ad);
    test_rand_bytes(&seed, plain, sizeof plain);
    for (size_t s = 0; s < sealer_count(); s++) {
        uvcci_aead a;
        assert_int_equal(begin(&a, s, key), 0);
        const uint64_t seq = ((uint64_t)7 << 40) + 1;
        assert_int_equal(uvcci_aead_seal(&a, seq, ad, 52, plain, 40, box, tag), 0);
        for (size_t bit = 0; bit < 8 * 52; bit++) {
            const uint8_t flip = (uint8_t)(1u << bit % 8);
            ad[bit / 8] ^= flip;
            expect_forged(&a, seq, ad, 52, box, 40, tag);
            ad[bit / 8] ^= flip;
            if (bit < 8 * 40) {
                box[bit / 8] ^= flip;
                expect_forged(&a, seq, ad, 52, box, 40, tag);
                box[bit / 8] ^= flip;
            }
            if (bit < 8 * 16) {
                tag[bit / 8] ^= flip;
                expect_forged(&a, seq, ad, 52, box, 40, tag);
                tag[bit / 8] ^= flip;
            }
            if (bit < 64)
                expect_forged(&a, seq ^ (uint64_t)1 << bit, ad, 52, box, 40, tag);
        }
        for (size_t n = 0; n < 40; n++)
            expect_forged(&a, seq, ad, 52, box, n, tag);
        for (size_t n = 0; n < 52; n++)
            expect_forged(&a, seq, ad, n, box, 40, tag);
        /* A failure leaves the context fit for the next frame. */
        assert_int_equal(uvcci_aead_open(&a, seq, ad, 52, box, 40, tag, out), 0);
        assert_memory_equal(out, plain, 40);

        uvcci_aead other;
        key[31] ^= 1;
        assert_int_equal(begin(&other, s, key), 0);
        expect_forged(&other, seq, ad, 52, box, 40, tag);
        uvcci_aead_free(&other);
        uvcci_aead_free(&a);
    }
}

static void sealing_misuse(void **state) {
    (void)state;
    const uint8_t key[32] = {1};
    uint8_t byte = 5, tag[16] = {6};
    const size_t huge = (size_t)INT32_MAX + 1;
    uvcci_aead a, before;
    memset(&a, 0x77, sizeof a);
    before = a;
    static const uint8_t unknown[] = {0, 3, 255};
    for (size_t i = 0; i < COUNT(unknown); i++) {
        assert_int_equal(uvcci_aead_init(&a, unknown[i], key), UVCC_ERR_USAGE);
        assert_memory_equal(&a, &before, sizeof a);
    }
    for (size_t s = 0; s < sealer_count(); s++) {
        assert_int_equal(begin(&a, s, key), 0);
        assert_int_equal(uvcci_aead_seal(&a, 1, &byte, 1, &byte, huge, &byte, tag), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_aead_seal(&a, 1, &byte, huge, &byte, 1, &byte, tag), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_aead_open(&a, 1, &byte, 1, &byte, huge, tag, &byte), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_aead_open(&a, 1, &byte, huge, &byte, 1, tag, &byte), UVCC_ERR_USAGE);
        uvcci_aead_free(&a);
    }
    assert_int_equal(byte, 5);
    assert_int_equal(tag[0], 6);
    uvcci_aead zeroed = {0};
    uvcci_aead_free(&zeroed);
}

/* draft-irtf-cfrg-xchacha, A.3.1. */
static void xchacha_vector(void **state) {
    (void)state;
    static const char text[] =
        "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the "
        "future, sunscreen would be it.";
    enum { LEN = sizeof text - 1 };
    uint8_t key[32], nonce[24], ad[12], box[LEN + 16], out[LEN];
    for (uint8_t i = 0; i < 32; i++)
        key[i] = (uint8_t)(0x80 + i);
    for (uint8_t i = 0; i < 24; i++)
        nonce[i] = (uint8_t)(0x40 + i);
    test_hex_n("50515253c0c1c2c3c4c5c6c7", ad, 12);
    assert_int_equal(uvcci_xaead_seal(key, nonce, ad, 12, text, LEN, box), 0);
    check(box, "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa644"
               "0bf3a82f4eda7e39ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e"
               "3f3fac2bc369488f76b2383565d3fff921f9664c97637da9768812f615c68b13b52e"
               "c0875924c1c7987947deafd8780acf49");
    assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, sizeof box, out), 0);
    assert_memory_equal(out, text, LEN);

    for (size_t n = 0; n < sizeof box; n++)
        assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, n, out), UVCC_ERR_AUTH);
    for (size_t i = 0; i < sizeof box; i++) {
        box[i] ^= 0x20;
        memset(out, 0xee, sizeof out);
        assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, sizeof box, out), UVCC_ERR_AUTH);
        assert_true(all_zero(out, sizeof out));
        box[i] ^= 0x20;
    }
    nonce[23] ^= 1;
    assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, sizeof box, out), UVCC_ERR_AUTH);
    nonce[23] ^= 1;
    assert_int_equal(uvcci_xaead_open(key, nonce, ad, 11, box, sizeof box, out), UVCC_ERR_AUTH);
    assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, sizeof box, box), 0);
    assert_memory_equal(box, text, LEN);
    assert_int_equal(uvcci_xaead_seal(key, nonce, ad, 12, box, (size_t)INT32_MAX + 1, box),
                     UVCC_ERR_USAGE);
    assert_int_equal(uvcci_xaead_open(key, nonce, ad, 12, box, (size_t)INT32_MAX + 1, box),
                     UVCC_ERR_USAGE);
    assert_memory_equal(box, text, LEN);
}

/* --- Signatures and small things -------------------------------------------------------------- */

/* RFC 8032, 7.1: tests 1 to 3. */
static void ed25519_vectors(void **state) {
    (void)state;
    static const struct {
        const char *seed, *pk, *msg, *sig;
    } v[] = {
        {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
         "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e3970"
         "1cf9b46bd25bf5f0595bbe24655141438e7a100b"},
        {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
         "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
         "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613"
         "d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
        {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
         "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
         "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760"
         "984dc6594a7c15e9716ed28dc027beceea1ec40a"},
    };
    for (size_t i = 0; i < COUNT(v); i++) {
        uint8_t seed[32], pk[32], sk[64], sig[64], *msg;
        test_hex_n(v[i].seed, seed, 32);
        const size_t n = test_hex(v[i].msg, &msg);
        uvcci_sign_keypair(seed, pk, sk);
        check(pk, v[i].pk);
        uvcci_sign(sk, msg, n, sig);
        check(sig, v[i].sig);
        assert_int_equal(uvcci_sign_verify(pk, msg, n, sig), 0);
        for (size_t j = 0; j < 64; j++) {
            sig[j] ^= 1;
            assert_int_equal(uvcci_sign_verify(pk, msg, n, sig), UVCC_ERR_AUTH);
            sig[j] ^= 1;
        }
        if (n != 0) {
            msg[0] ^= 1;
            assert_int_equal(uvcci_sign_verify(pk, msg, n, sig), UVCC_ERR_AUTH);
        }
        free(msg);
    }
}

/* RFC 7748, 5.2 and 6.1. */
static void x25519_vectors(void **state) {
    (void)state;
    static const struct {
        const char *sk, *pk, *out;
    } v[] = {
        {"a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
         "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
         "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"},
        {"4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
         "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
         "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"},
    };
    uint8_t sk[2][32], pk[2][32], out[32];
    for (size_t i = 0; i < COUNT(v); i++) {
        test_hex_n(v[i].sk, sk[0], 32);
        test_hex_n(v[i].pk, pk[0], 32);
        assert_int_equal(uvcci_x25519_shared(sk[0], pk[0], out), 0);
        check(out, v[i].out);
    }
    test_hex_n("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb", sk[1], 32);
    assert_int_equal(uvcci_x25519_public(sk[1], pk[1]), 0);
    check(pk[1], "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
    assert_int_equal(uvcci_x25519_public(sk[0], pk[0]), 0);
    uint8_t other[32];
    assert_int_equal(uvcci_x25519_shared(sk[0], pk[1], out), 0);
    assert_int_equal(uvcci_x25519_shared(sk[1], pk[0], other), 0);
    assert_memory_equal(out, other, 32);

    uint8_t k[32] = {9}, u[32] = {9};
    for (unsigned i = 1; i <= 1000; i++) {
        assert_int_equal(uvcci_x25519_shared(k, u, out), 0);
        memcpy(u, k, 32);
        memcpy(k, out, 32);
        if (i == 1)
            check(k, "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079");
    }
    check(k, "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
}

/* Points whose every multiple that X25519 computes is zero, as bytes and with the ignored top bit.
 */
static void x25519_small_order(void **state) {
    (void)state;
    static const char *const points[] = {
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
        "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    };
    static const uint8_t zero[32];
    uint64_t seed = 5;
    for (size_t i = 0; i < COUNT(points); i++)
        for (unsigned turn = 0; turn < 8; turn++) {
            uint8_t sk[32], pk[32], out[32];
            test_rand_bytes(&seed, sk, 32);
            test_hex_n(points[i], pk, 32);
            pk[31] |= turn % 2 != 0 ? 0x80 : 0;
            memset(out, 0xAA, 32);
            assert_int_equal(uvcci_x25519_shared(sk, pk, out), UVCC_ERR_AUTH);
            assert_memory_equal(out, zero, 32);
        }
}

static void equality_and_wiping(void **state) {
    (void)state;
    uint8_t a[33] = {1, 2, 3}, b[33] = {1, 2, 3};
    assert_true(uvcci_ct_equal(a, b, 33));
    assert_true(uvcci_ct_equal(a, b, 0));
    for (size_t i = 0; i < 33; i++) {
        b[i] ^= 0x80;
        assert_false(uvcci_ct_equal(a, b, 33));
        assert_true(uvcci_ct_equal(a, b, i));
        b[i] ^= 0x80;
    }
    uvcci_wipe(a, 2);
    assert_int_equal(a[0] | a[1], 0);
    assert_int_equal(a[2], 3);
    uvcci_wipe(a, 0);
    assert_int_equal(a[2], 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_vectors),
        cmocka_unit_test(hashes_at_every_split),
        cmocka_unit_test(hmac_vectors),
        cmocka_unit_test(hkdf_vectors),
        cmocka_unit_test(hkdf_lengths),
        cmocka_unit_test(chacha_vector),
        cmocka_unit_test(gcm_vectors),
        cmocka_unit_test(sealed_frames),
        cmocka_unit_test(sealing_every_length_in_place),
        cmocka_unit_test(libraries_agree),
        cmocka_unit_test(opened_in_parts),
        cmocka_unit_test(sealed_in_parts),
        cmocka_unit_test(forgeries),
        cmocka_unit_test(sealing_misuse),
        cmocka_unit_test(xchacha_vector),
        cmocka_unit_test(ed25519_vectors),
        cmocka_unit_test(x25519_vectors),
        cmocka_unit_test(x25519_small_order),
        cmocka_unit_test(equality_and_wiping),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
