/* SPDX-License-Identifier: Apache-2.0 */
/* The tree digest beside its definition: of texts of every length around a chunk and around sixteen
 * of them, by wide registers and without, alone and several in one go. */
#include "support.h"

#include "exec/primitives/tree_hash.h"
#include "proto/bytes.h"

enum { CHUNK = UVCCI_TREE_CHUNK, LANES = UVCCI_TREE_LANES, MOST = 40 * CHUNK, TEXTS = 60 };

static uint8_t bytes[MOST];

/* wire.md 8, word for word. */
static void define(const uint8_t *data, size_t n, uint8_t out[32]) {
    static uint8_t text[12 + 8 + 32 * (MOST / CHUNK + 1)];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_TREE_V1", 12);
    uvcci_put64(&w, n);
    for (size_t at = 0; at < n; at += CHUNK) {
        uint8_t digest[32];
        uvcci_sha256_once(data + at, n - at < CHUNK ? n - at : CHUNK, digest);
        uvcci_put(&w, digest, 32);
    }
    assert_false(w.bad);
    uvcci_sha256_once(text, w.len, out);
}

static uint8_t got[TEXTS][32];
static unsigned order; /* how many are done */

static void done(const void *user, const uint8_t digest[32]) {
    const unsigned *number = user;
    assert_int_equal(*number, order);
    memcpy(got[order++], digest, 32);
}

static void one(size_t from, size_t n) {
    uint8_t want[32], out[32];
    define(bytes + from, n, want);
    uvcci_tree_once(bytes + from, n, out);
    assert_memory_equal(out, want, 32);
}

static void test_lengths(void **state) {
    uint64_t rng = 1;
    (void)state;
    test_rand_bytes(&rng, bytes, sizeof bytes);
    one(0, 0);
    for (size_t chunks = 0; chunks <= 36; chunks++)
        for (int more = -2; more <= 2; more++)
            if (chunks != 0 || more >= 0)
                one(chunks % 7, chunks * CHUNK + (size_t)(ptrdiff_t)more);
    for (size_t n = 0; n < 200; n++)
        one(n, n);
}

/* What is known of another implementation: tests/vectors/task_checks computes the same. */
static void test_known(void **state) {
    uint8_t out[32], want[32];
    (void)state;
    test_hex_n("b67bbd572aaaaa5095e765ad090af4b5c0c4238cc17bd7ac74ac96f3cdd2c90d", want, 32);
    uvcci_tree_once(NULL, 0, out);
    assert_memory_equal(out, want, 32);
    memset(bytes, 0x5a, 70000);
    test_hex_n("a8963048751ae30752211eeb13885552ef643e763c4d92adf72fb6538ffaa7ad", want, 32);
    uvcci_tree_once(bytes, 70000, out);
    assert_memory_equal(out, want, 32);
}

static void together(bool wide, uint64_t seed) {
    unsigned number[TEXTS];
    size_t from[TEXTS], len[TEXTS];
    uvcci_tree t;
    order = 0;
    uvcci_tree_init(&t, wide, done);
    for (unsigned i = 0; i < TEXTS; i++) {
        const uint64_t r = test_rand(&seed);
        number[i] = i;
        from[i] = r % 4096;
        len[i] = r >> 20 & 1 ? (r >> 32) % 9 * CHUNK : (r >> 32) % (3 * CHUNK);
        if (i % 13 == 5)
            len[i] = i % 2 == 0 ? 0 : 33 * CHUNK + 1;
        uvcci_tree_add(&t, bytes + from[i], len[i], &number[i]);
        if (i == 40)
            uvcci_tree_end(&t); /* and again: nothing is left over */
    }
    uvcci_tree_end(&t);
    assert_int_equal(order, TEXTS);
    for (unsigned i = 0; i < TEXTS; i++) {
        uint8_t want[32];
        define(bytes + from[i], len[i], want);
        assert_memory_equal(got[i], want, 32);
    }
}

static void test_together(void **state) {
    uint64_t rng = 2;
    (void)state;
    test_rand_bytes(&rng, bytes, sizeof bytes);
    for (unsigned k = 0; k < 20; k++) {
        together(false, k);
        together(uvcci_tree_wide(), k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
