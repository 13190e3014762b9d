/* SPDX-License-Identifier: Apache-2.0 */
/* Leaves, their order, Merkle roots and proofs: against vectors and against slow definitions, in
 * any order of arrival. */
#include "support.h"

#include "proto/bytes.h"
#include "proto/transcript.h"

static void leaf_hash_of(uint32_t i, uint8_t out[32]) { /* as in the vectors */
    uint8_t buf[8] = {'l', 'e', 'a', 'f'};
    uvcci_st32(buf + 4, i);
    uvcci_sha256_once(buf, sizeof buf, out);
}

/* The Merkle root by its definition, level by level, apart from the code under test. */
static void slow_root(uint8_t (*h)[32], uint32_t n, uint8_t root[32]) {
    if (n == 0) {
        uvcci_sha256_once("UVCC_EMPTY_V1", 13, root);
        return;
    }
    while (n > 1) {
        uint32_t up = 0;
        for (uint32_t i = 0; i < n; i += 2, up++) {
            if (i + 1 == n) {
                memmove(h[up], h[i], 32);
                continue;
            }
            uvcci_sha256 s;
            uint8_t one = 1, node[32];
            uvcci_sha256_init(&s);
            uvcci_sha256_update(&s, &one, 1);
            uvcci_sha256_update(&s, h[i], 32);
            uvcci_sha256_update(&s, h[i + 1], 32);
            uvcci_sha256_final(&s, node);
            memcpy(h[up], node, 32);
        }
        n = up;
    }
    memcpy(root, h[0], 32);
}

static uvcci_transcript *transcript_new(test_alloc *ta, uint32_t max_leaves) {
    uvcci_transcript *t = NULL;
    memset(ta, 0, sizeof *ta);
    uvcc_allocator al = test_allocator(ta);
    assert_int_equal(uvcci_transcript_new(&t, &al, max_leaves), 0);
    return t;
}

static void transcript_done(uvcci_transcript *t, const test_alloc *ta) {
    uvcci_transcript_free(t);
    assert_int_equal(ta->live_blocks, 0);
    assert_int_equal(ta->live_bytes, 0);
}

/* The siblings of leaf i of a transcript that has its root, as proofs get them. */
static uint32_t siblings_of(const uvcci_transcript *t, uint32_t i, uint8_t siblings[32][32]) {
    uvcci_merkle m;
    uint8_t h[32];
    uvcci_merkle_begin(&m, i);
    for (uint32_t k = 0; k < uvcci_transcript_count(t); k++) {
        uint32_t row;
        const uint8_t *leaf;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(t, k, &row, &leaf, &len), 0);
        uvcci_sha256_once(leaf, len, h);
        uvcci_merkle_add(&m, h);
    }
    uvcci_merkle_end(&m, h);
    memcpy(siblings, m.sibling, (size_t)m.sibling_count * 32);
    return m.sibling_count;
}

static void vectors_of_merkle(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("transcript.json");
    json_t *all = json_object_get(v, "merkle"), *o;
    size_t i;
    uint8_t hashes[16][32], want[32], root[32];
    assert_true(json_array_size(all) > 0);
    json_array_foreach(all, i, o) {
        uint32_t count = (uint32_t)test_u64(o, "count");
        assert_true(count <= 16);
        for (uint32_t j = 0; j < count; j++)
            leaf_hash_of(j, hashes[j]);
        test_hex_n(test_str(o, "root"), want, 32);
        uvcci_merkle_root(hashes[0], count, root);
        assert_memory_equal(root, want, 32);
    }
    json_decref(v);
}

static void vectors_of_order(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("transcript.json");
    const json_t *order = json_object_get(v, "order");
    json_t *leaves = json_object_get(order, "leaves"), *o;
    size_t n = json_array_size(leaves), i;
    uint8_t want[32], root[32];
    test_hex_n(test_str(order, "root"), want, 32);
    assert_true(n > 1);
    for (size_t turn = 0; turn < n; turn++) {
        test_alloc ta;
        uvcci_transcript *t = transcript_new(&ta, 100);
        for (i = 0; i < n; i++) {
            uint8_t *leaf;
            o = json_array_get(leaves, (i + turn) % n);
            size_t len = test_hex(test_str(o, "leaf"), &leaf);
            assert_int_equal(uvcci_transcript_add(t, (uint32_t)test_u64(o, "row"), leaf, len), 0);
            free(leaf);
        }
        assert_int_equal(uvcci_transcript_root(t, root), 0);
        assert_memory_equal(root, want, 32);
        transcript_done(t, &ta);
    }
    json_decref(v);
}

static void vectors_of_batch_leaves(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint8_t type;
    } cases[] = {{"leaf_lift_batch_send", UVCCI_LEAF_LIFT_SENT},
                 {"leaf_lift_batch_recv", UVCCI_LEAF_LIFT_RECEIVED}};
    json_t *v = LOAD_VECTORS("transcript.json");
    for (size_t i = 0; i < 2; i++) {
        const json_t *o = json_object_get(v, cases[i].name);
        uint8_t *want, got[UVCCI_LEAF_MAX_BYTES], h_want[32], h_got[32];
        size_t len = test_hex(test_str(o, "leaf"), &want);
        test_hex_n(test_str(o, "sha256"), h_want, 32);
        assert_int_equal(len, 75);
        assert_int_equal(uvcci_leaf_batch(got, cases[i].type, want + 1, 0x11223344, 1, 2,
                                          uvcci_ld32(want + 39), want + 43),
                         len);
        assert_memory_equal(got, want, len);
        uvcci_sha256_once(got, len, h_got);
        assert_memory_equal(h_got, h_want, 32);
        free(want);
    }
    json_decref(v);
}

static void vectors_of_roots(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("transcript.json"), *ids = LOAD_VECTORS("ids.json");
    const json_t *o = json_object_get(v, "roots");
    uint32_t epoch = (uint32_t)test_u64(o, "epoch");
    uint8_t job[32], rep[32], want[32], replicas[2][32], got[32];
    test_hex_n(test_str(ids, "sid_job"), job, 32);
    for (uint32_t r = 0; r < 2; r++) {
        uint8_t epochs[4][32], buf[17] = {'e', 'p', 'o', 'c', 'h'}, sid[19 + 36];
        memcpy(sid, "UVCC_SID_REPLICA_V1", 19);
        memcpy(sid + 19, job, 32);
        uvcci_st32(sid + 51, r);
        uvcci_sha256_once(sid, sizeof sid, rep);
        for (uint32_t s = 0; s < 2; s++)
            for (uint32_t t = 0; t < 2; t++) {
                uvcci_st32(buf + 5, r);
                uvcci_st32(buf + 9, s);
                uvcci_st32(buf + 13, t);
                uvcci_sha256_once(buf, sizeof buf, epochs[2 * s + t]);
            }
        uvcci_replica_root(rep, epoch, epochs[0], 4, replicas[r]);
        test_hex_n(json_string_value(json_array_get(json_object_get(o, "replica_root"), r)), want,
                   32);
        assert_memory_equal(replicas[r], want, 32);
    }
    uvcci_global_root(job, epoch, replicas[0], 2, got);
    test_hex_n(test_str(o, "global_root"), want, 32);
    assert_memory_equal(got, want, 32);
    json_decref(v);
    json_decref(ids);
}

/* A pool of leaves with few rows, many common prefixes, and pairs that are equal. */
typedef struct sample {
    uint32_t row;
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    size_t len;
} sample;

static sample *samples_new(uint32_t n, uint64_t seed) {
    sample *all = calloc(n + 1, sizeof *all);
    assert_non_null(all);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = test_rand(&seed);
        /* Many are sorted by the halves of their rows first. */
        const uint32_t row = (uint32_t)(r % 9) * (n > 3000 ? 70001u * (1 + (r >> 20) % 300) : 1);
        all[i].row = r % 9 == 8 ? UVCCI_ROW_ABORT : row;
        all[i].len = 1 + (r >> 8) % ((r >> 40) % 3 == 0 ? UVCCI_LEAF_MAX_BYTES : 4);
        for (size_t j = 0; j < all[i].len; j++)
            all[i].leaf[j] = (r >> 60) < 8 ? (uint8_t)(test_rand(&seed) % 2 * 255) : 0x70;
    }
    return all;
}

static int by_order(const void *a, const void *b) {
    const sample *p = a, *q = b;
    if (p->row != q->row)
        return p->row < q->row ? -1 : 1;
    int c = memcmp(p->leaf, q->leaf, p->len < q->len ? p->len : q->len);
    return c != 0 ? c : (p->len > q->len) - (p->len < q->len);
}

static void add_all(uvcci_transcript *t, const sample *all, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(uvcci_transcript_add(t, all[i].row, all[i].leaf, all[i].len), 0);
}

static void shuffle(sample *all, uint32_t n, uint64_t seed) {
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)(test_rand(&seed) % i);
        sample swap = all[i - 1];
        all[i - 1] = all[j];
        all[j] = swap;
    }
}

/* Canonical order and root agree with a sort and a tree made here, for any order of arrival. */
static void arrival_order_never_matters(void **state) {
    (void)state;
    static const uint32_t counts[] = {0, 1, 2, 3, 7, 64, 65, 255, 256, 257, 300, 1000, 3000, 20000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint32_t n = counts[c];
        sample *arrive = samples_new(n, c), *sorted = samples_new(n, c);
        uint8_t(*hashes)[32] = malloc((n + 1) * sizeof *hashes), want[32], root[32];
        assert_non_null(hashes);
        qsort(sorted, n, sizeof *sorted, by_order);
        for (uint32_t i = 0; i < n; i++)
            uvcci_sha256_once(sorted[i].leaf, sorted[i].len, hashes[i]);
        slow_root(hashes, n, want);
        for (uint64_t turn = 0; turn < 4; turn++) {
            test_alloc ta;
            uvcci_transcript *t = transcript_new(&ta, 20000);
            if (turn == 3) /* already in order */
                memcpy(arrive, sorted, n * sizeof *sorted);
            else if (turn > 0)
                shuffle(arrive, n, turn);
            add_all(t, arrive, n / 2);
            /* A root in between changes nothing. */
            if (turn == 2)
                assert_int_equal(uvcci_transcript_root(t, root), 0);
            add_all(t, arrive + n / 2, n - n / 2);
            assert_int_equal(uvcci_transcript_count(t), n);
            for (unsigned again = 0; again < 2; again++) {
                assert_int_equal(uvcci_transcript_root(t, root), 0);
                assert_memory_equal(root, want, 32);
            }
            for (uint32_t i = 0; i < n; i++) {
                uint32_t row;
                const uint8_t *leaf;
                size_t len;
                assert_int_equal(uvcci_transcript_leaf(t, i, &row, &leaf, &len), 0);
                assert_int_equal(row, sorted[i].row);
                assert_int_equal(len, sorted[i].len);
                assert_memory_equal(leaf, sorted[i].leaf, len);
            }
            transcript_done(t, &ta);
        }
        free(hashes);
        free(arrive);
        free(sorted);
    }
}

/* Every leaf of every count has a proof; nothing else passes for it. */
static void proofs(void **state) {
    (void)state;
    for (uint32_t count = 0; count <= 70; count++) {
        test_alloc ta;
        uvcci_transcript *t = transcript_new(&ta, 70);
        uint8_t root[32], siblings[33][32], leaf[8] = {0x7C}, h[32];
        for (uint32_t i = 0; i < count; i++) {
            uvcci_st32(leaf + 1, i * 7919u);
            assert_int_equal(uvcci_transcript_add(t, i, leaf, 5), 0);
        }
        assert_int_equal(uvcci_transcript_root(t, root), 0);
        memset(siblings, 0, sizeof siblings);
        assert_int_equal(uvcci_merkle_verify(root, 0, 0, siblings[0], 0, root), UVCC_ERR_AUTH);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t row;
            const uint8_t *bytes;
            size_t len;
            assert_int_equal(uvcci_transcript_leaf(t, i, &row, &bytes, &len), 0);
            uvcci_sha256_once(bytes, len, h);
            const uint32_t n = siblings_of(t, i, siblings);
            assert_true(n <= 7);
            assert_int_equal(uvcci_merkle_verify(h, i, count, siblings[0], n, root), 0);
            /* Another place, too few or too many siblings. */
            for (uint32_t j = 0; j <= count + 1; j++)
                if (j != i)
                    assert_int_equal(uvcci_merkle_verify(h, j, count, siblings[0], n, root),
                                     UVCC_ERR_AUTH);
            assert_int_equal(uvcci_merkle_verify(h, UINT32_MAX, count, siblings[0], n, root),
                             UVCC_ERR_AUTH);
            for (uint32_t m = 0; m <= 33; m++) {
                if (m == n)
                    continue;
                uint8_t *exact = malloc(32 * (size_t)m + 1); /* a sanitizer sees a read past it */
                assert_non_null(exact);
                memcpy(exact, siblings, 32 * (size_t)m);
                assert_int_equal(uvcci_merkle_verify(h, i, count, exact, m, root), UVCC_ERR_AUTH);
                free(exact);
            }
        }
        transcript_done(t, &ta);
    }
}

/* Every bit of leaf hash, siblings and root counts. */
static void flipped_bits_fail(void **state) {
    (void)state;
    static const uint32_t counts[] = {1, 2, 3, 13, 70};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        uint32_t count = counts[c];
        test_alloc ta;
        uvcci_transcript *t = transcript_new(&ta, count);
        uint8_t leaf[5] = {0x7C}, root[32], h[32], siblings[32][32];
        for (uint32_t i = 0; i < count; i++) {
            uvcci_st32(leaf + 1, i);
            assert_int_equal(uvcci_transcript_add(t, i, leaf, 5), 0);
        }
        assert_int_equal(uvcci_transcript_root(t, root), 0);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t bits = 256, n = siblings_of(t, i, siblings);
            uvcci_st32(leaf + 1, i);
            uvcci_sha256_once(leaf, 5, h);
            for (uint32_t bit = 0; bit < (n + 2) * bits; bit++) {
                uint8_t *at = bit < n * bits         ? siblings[bit / bits]
                              : bit < (n + 1) * bits ? h
                                                     : root;
                at[bit % bits / 8] ^= (uint8_t)(1u << bit % 8);
                assert_int_equal(uvcci_merkle_verify(h, i, count, siblings[0], n, root),
                                 UVCC_ERR_AUTH);
                at[bit % bits / 8] ^= (uint8_t)(1u << bit % 8);
            }
            assert_int_equal(uvcci_merkle_verify(h, i, count, siblings[0], n, root), 0);
        }
        transcript_done(t, &ta);
    }
}

/* In place and with a tree kept, the root is the same. */
static void merkle_root_matches_its_definition(void **state) {
    (void)state;
    for (uint32_t n = 0; n <= 70; n++) {
        uint8_t a[70][32] = {{0}}, b[70][32], want[32], got[32];
        for (uint32_t i = 0; i < n; i++)
            leaf_hash_of(i, a[i]);
        memcpy(b, a, sizeof b);
        slow_root(a, n, want);
        uvcci_merkle_root(b[0], n, got);
        assert_memory_equal(got, want, 32);
    }
}

static void states_and_limits(void **state) {
    (void)state;
    test_alloc ta;
    uvcci_transcript *t = transcript_new(&ta, 3), *other = NULL;
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES + 1] = {0x70}, root[32];
    const uint8_t *bytes;
    uint32_t row;
    size_t len;
    uvcc_allocator al = test_allocator(&ta), none = {0};

    assert_int_equal(uvcci_transcript_new(&other, &none, 3), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_transcript_new(&other, NULL, 3), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_transcript_new(NULL, &al, 3), UVCC_ERR_USAGE);
    uvcci_transcript_free(NULL);

    assert_int_equal(uvcci_transcript_add(t, 0, leaf, 0), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_transcript_add(t, 0, leaf, sizeof leaf), UVCC_ERR_USAGE);
    assert_int_equal(uvcci_transcript_add(t, 0, NULL, 1), UVCC_ERR_USAGE);
    /* Only root opens the views, and only add closes them. */
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(uvcci_transcript_leaf(t, 0, &row, &bytes, &len), UVCC_ERR_STATE);
        assert_int_equal(uvcci_transcript_add(t, i, leaf, UVCCI_LEAF_MAX_BYTES), 0);
        assert_int_equal(uvcci_transcript_leaf(t, 0, &row, &bytes, &len), UVCC_ERR_STATE);
        assert_int_equal(uvcci_transcript_root(t, root), 0);
        assert_int_equal(uvcci_transcript_add(t, 9, leaf, 0), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_transcript_leaf(t, i, &row, &bytes, &len), 0);
        assert_int_equal(row, i);
        assert_int_equal(uvcci_transcript_leaf(t, i + 1, &row, &bytes, &len), UVCC_ERR_USAGE);
        if (i == 2)
            break;
        assert_int_equal(uvcci_transcript_add(t, 9, leaf, 1), 0);
        assert_int_equal(uvcci_transcript_leaf(t, i, &row, &bytes, &len), UVCC_ERR_STATE);
        transcript_done(t, &ta);
        t = transcript_new(&ta, 3);
        for (uint32_t j = 0; j <= i; j++)
            assert_int_equal(uvcci_transcript_add(t, j, leaf, 1), 0);
    }
    assert_int_equal(uvcci_transcript_add(t, 0, leaf, 1), UVCC_ERR_LIMIT);
    assert_int_equal(uvcci_transcript_count(t), 3);
    transcript_done(t, &ta);

    t = transcript_new(&ta, 0);
    assert_int_equal(uvcci_transcript_add(t, 0, leaf, 1), UVCC_ERR_LIMIT);
    transcript_done(t, &ta);
}

/* What is in order already needs no memory: its root is there when there is none left. */
static void in_order_takes_nothing(void **state) {
    (void)state;
    enum { MOST = 300 };
    sample *all = samples_new(MOST, 9);
    for (uint32_t n = 0; n <= MOST; n = n < 4 ? n + 1 : n + 37) {
        test_alloc ta;
        uint8_t root[32], again[32];
        uvcci_transcript *t = transcript_new(&ta, MOST);
        add_all(t, all, n);
        const size_t added = ta.calls;
        assert_int_equal(uvcci_transcript_root(t, root), 0);
        const size_t calls = ta.calls;
        assert_true(n > 1 || calls == added);
        ta.fail_at = 1;
        assert_int_equal(uvcci_transcript_sort(t), 0);
        assert_int_equal(uvcci_transcript_root(t, again), 0);
        assert_int_equal(ta.calls, calls);
        assert_memory_equal(root, again, 32);
        ta.fail_at = 0;
        transcript_done(t, &ta);
    }
    free(all);
}

/* One run in which the i-th allocation fails: the call says so, changes nothing, and can be made
 * again. Returns whether an allocation failed. */
static bool run_with_failure(size_t fail_at, const sample *all, uint32_t n,
                             const uint8_t want[32]) {
    test_alloc ta;
    memset(&ta, 0, sizeof ta);
    ta.fail_at = fail_at;
    uvcc_allocator al = test_allocator(&ta);
    uvcci_transcript *t = NULL;
    unsigned failures = 0;
    uint8_t root[32];
    int rc = uvcci_transcript_new(&t, &al, n);
    if (rc != 0) {
        assert_int_equal(rc, UVCC_ERR_NOMEM);
        assert_null(t);
        failures++;
        assert_int_equal(uvcci_transcript_new(&t, &al, n), 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        rc = uvcci_transcript_add(t, all[i].row, all[i].leaf, all[i].len);
        if (rc != 0) {
            assert_int_equal(rc, UVCC_ERR_NOMEM);
            assert_int_equal(uvcci_transcript_count(t), i);
            failures++;
            assert_int_equal(uvcci_transcript_add(t, all[i].row, all[i].leaf, all[i].len), 0);
        }
    }
    rc = uvcci_transcript_root(t, root);
    if (rc != 0) {
        assert_int_equal(rc, UVCC_ERR_NOMEM);
        assert_int_equal(uvcci_transcript_count(t), n);
        failures++;
        assert_int_equal(uvcci_transcript_root(t, root), 0);
    }
    assert_memory_equal(root, want, 32);
    transcript_done(t, &ta);
    assert_true(failures <= 1);
    return failures != 0;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    enum { N = 4000 };
    sample *all = samples_new(N, 8);
    test_alloc ta;
    uvcci_transcript *t = transcript_new(&ta, N);
    uint8_t want[32];
    add_all(t, all, N);
    assert_int_equal(uvcci_transcript_root(t, want), 0);
    size_t calls = ta.calls;
    transcript_done(t, &ta);
    assert_true(calls > 6); /* itself, entries more than once, more than one chunk, the sort */
    for (size_t i = 1; i <= calls; i++)
        assert_true(run_with_failure(i, all, N, want));
    assert_false(run_with_failure(calls + 1, all, N, want));
    free(all);
}

/* Allocations stay few: adding is O(1) amortised in calls as well. */
static void many_leaves(void **state) {
    (void)state;
    enum { N = 200000 };
    test_alloc ta;
    uvcci_transcript *t = transcript_new(&ta, UINT32_MAX);
    uint8_t leaf[75], root[32], siblings[32][32], h[32];
    uint64_t seed = 12;
    memset(leaf, 0x77, sizeof leaf);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t row = (uint32_t)(test_rand(&seed) % (N / 10));
        uvcci_st32(leaf + 33, row);
        uvcci_st64(leaf + 43, test_rand(&seed));
        assert_int_equal(uvcci_transcript_add(t, row, leaf, sizeof leaf), 0);
    }
    assert_int_equal(uvcci_transcript_root(t, root), 0);
    assert_true(ta.calls < 1 + 10 + N * sizeof leaf / 65000 + 1 + 3);
    for (uint32_t i = 0; i < N; i += N / 3) {
        uint32_t row;
        const uint8_t *bytes;
        size_t len;
        assert_int_equal(uvcci_transcript_leaf(t, i, &row, &bytes, &len), 0);
        uvcci_sha256_once(bytes, len, h);
        const uint32_t n = siblings_of(t, i, siblings);
        assert_int_equal(uvcci_merkle_verify(h, i, N, siblings[0], n, root), 0);
    }
    transcript_done(t, &ta);
}

/* Each builder against the layout of wire.md 4, spelled as hex: sid is 00..1f, ids count up. */
static void leaf_layouts(void **state) {
    (void)state;
#define SID "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define D32 "d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0d0"
#define E32 "e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0e0"
#define F32 "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0"
    uint8_t sid[32], d[32], e[32], f[32], out[UVCCI_LEAF_MAX_BYTES];
    const uint16_t rst[3] = {0x0201, 0x0403, 0x0605};
    const uint32_t op = 0x04030201;
    const uint64_t id = 0x1817161514131211u;
    for (unsigned i = 0; i < 32; i++)
        sid[i] = (uint8_t)i;
    memset(d, 0xD0, 32);
    memset(e, 0xE0, 32);
    memset(f, 0xF0, 32);
#define CHECK(call, hex)                                                                           \
    do {                                                                                           \
        uint8_t *want;                                                                             \
        size_t want_len = test_hex(hex, &want);                                                    \
        assert_int_equal(call, want_len);                                                          \
        assert_memory_equal(out, want, want_len);                                                  \
        free(want);                                                                                \
    } while (0)
    CHECK(uvcci_leaf_step_begin(out, sid, op, 0x08070605, rst, d, e, f),
          "70" SID "01020304"
          "05060708"
          "010203040506" D32 E32 F32);
    CHECK(uvcci_leaf_batch(out, UVCCI_LEAF_OPEN_SENT, sid, op, 1, 2, 0x24232221, d),
          "71" SID "01020304"
          "0102"
          "21222324" D32);
    CHECK(uvcci_leaf_open_done(out, sid, op, id, 0x3231, d), "73" SID "01020304"
                                                             "1112131415161718"
                                                             "3132" D32);
    CHECK(uvcci_leaf_keys_done(out, sid, op, 2, 0, d), "76" SID "01020304"
                                                       "0200" D32);
    CHECK(uvcci_leaf_sks_coin(out, sid, op, d), "79" SID "01020304" D32);
    CHECK(uvcci_leaf_sks_verdict(out, sid, op, 1), "7a" SID "01020304"
                                                   "01");
    CHECK(uvcci_leaf_component_commit(out, sid, op, id, 2, d), "7b" SID "01020304"
                                                               "1112131415161718"
                                                               "02" D32);
    CHECK(uvcci_leaf_lift_done(out, sid, op, id, 0x24232221), "7c" SID "01020304"
                                                              "1112131415161718"
                                                              "21222324");
    CHECK(uvcci_leaf_abort(out, sid, op, 0x3231), "7d" SID "01020304"
                                                  "3132");
    CHECK(uvcci_leaf_triple_consumed(out, sid, op, id), "7e" SID "01020304"
                                                        "1112131415161718");
#undef CHECK
}

static void names(void **state) {
    (void)state;
    for (unsigned type = 0; type < 256; type++) {
        bool known = type >= 0x70 && type <= 0x7F;
        assert_int_equal(strcmp(uvcc_leaf_name((uint8_t)type), "UNKNOWN") != 0, known);
    }
    assert_string_equal(uvcc_leaf_name(0x70), "STEP_BEGIN");
    assert_string_equal(uvcc_leaf_name(0x7E), "TRIPLE_CONSUMED");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_merkle),
        cmocka_unit_test(vectors_of_order),
        cmocka_unit_test(vectors_of_batch_leaves),
        cmocka_unit_test(vectors_of_roots),
        cmocka_unit_test(arrival_order_never_matters),
        cmocka_unit_test(proofs),
        cmocka_unit_test(flipped_bits_fail),
        cmocka_unit_test(merkle_root_matches_its_definition),
        cmocka_unit_test(states_and_limits),
        cmocka_unit_test(in_order_takes_nothing),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(many_leaves),
        cmocka_unit_test(leaf_layouts),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
