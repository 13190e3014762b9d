/* SPDX-License-Identifier: Apache-2.0 */
/* Ids, names and keys derived from the session: all against vectors of an independent program. */
#include "support.h"

#include <uvcc/frame.h>

#include "proto/bytes.h"
#include "proto/ids.h"

static void sid_of(const json_t *o, const char *key, uint8_t out[32]) {
    test_hex_n(test_str(o, key), out, 32);
}
static uint32_t u32_of(const json_t *o, const char *key) {
    return (uint32_t)test_hex64(test_str(o, key));
}
static uint64_t u64_of(const json_t *o, const char *key) {
    return test_hex64(test_str(o, key));
}
static uint8_t u8(const json_t *o, const char *key) {
    return (uint8_t)test_u64(o, key);
}
static uint16_t u16(const json_t *o, const char *key) {
    return (uint16_t)test_u64(o, key);
}
static uint32_t u32(const json_t *o, const char *key) {
    return (uint32_t)test_u64(o, key);
}

/* An array of the vectors that must not be empty. */
static const json_t *rows(const json_t *o, const char *key) {
    const json_t *a = json_object_get(o, key);
    assert_true(json_array_size(a) > 0);
    return a;
}

static uvcci_stream_name stream_by_name(const char *name) {
    static const char *const names[] = {
#define UVCCI_STREAM(n) #n,
#include "proto/streams.def"
#undef UVCCI_STREAM
    };
    for (unsigned i = 0; i < UVCCI_STREAM_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return (uvcci_stream_name)i;
    fail_msg("no stream %s", name);
    return UVCCI_STREAM_COUNT;
}

static uvcci_tag tag_by_name(const char *name) {
    static const char *const names[] = {
#define UVCCI_TAG(n) #n,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    };
    for (unsigned i = 0; i < UVCCI_TAG_COUNT; i++)
        if (strcmp(names[i], name) == 0)
            return (uvcci_tag)i;
    fail_msg("no tag %s", name);
    return UVCCI_TAG_COUNT;
}

static uint8_t kind_by_name(const char *name) {
#define UVCC_KIND(n, code, cls, label)                                                             \
    if (strcmp(name, #n) == 0)                                                                     \
        return code;
#include <uvcc/kinds.def>
#undef UVCC_KIND
    fail_msg("no kind %s", name);
    return 0;
}

static void vectors_of_sids(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("ids.json");
    uint8_t job[32], want[32], rep[32], sub[32];
    size_t i;
    json_t *o;
    sid_of(v, "sid_job", job);
    json_array_foreach(rows(v, "sid_rep"), i, o) {
        sid_of(o, "hex", want);
        uvcci_sid_rep(job, u32(o, "replica"), rep);
        assert_memory_equal(rep, want, 32);
    }
    json_array_foreach(rows(v, "sid_sub"), i, o) {
        sid_of(o, "hex", want);
        uvcci_sid_rep(job, u32(o, "replica"), rep);
        uvcci_sid_sub(rep, u8(o, "stage"), u16(o, "tp_rank"), sub);
        assert_memory_equal(sub, want, 32);
    }
    json_array_foreach(rows(v, "sid_tag"), i, o) {
        sid_of(o, "sid_sub", sub);
        assert_true(uvcci_sid_tag(sub) == u64_of(o, "u64"));
    }
    json_decref(v);
}

static void vectors_of_ids(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("ids.json");
    uint8_t sub[32];
    size_t i;
    json_t *o;
    json_array_foreach(rows(v, "op_id"), i, o) {
        sid_of(o, "sid_sub", sub);
        assert_int_equal(uvcci_op_id(sub, u32(o, "step"), u8(o, "phase"), u16(o, "mb"), u16(o, "k"),
                                     u16(o, "batch"), u16(o, "attempt")),
                         u32_of(o, "u32"));
    }
    json_array_foreach(rows(v, "fss_id"), i, o) {
        sid_of(o, "sid_sub", sub);
        uint64_t id =
            uvcci_fss_id(sub, u32(o, "step"), u32_of(o, "op_id"), u16(o, "call"), u32(o, "block"));
        assert_true(id == u64_of(o, "u64"));
        assert_int_equal(uvcci_edge(id), test_u64(o, "edge"));
    }
    json_array_foreach(rows(v, "stream_id"), i, o) {
        sid_of(o, "sid_sub", sub);
        assert_true(uvcci_stream_id(sub, u32(o, "step"), u32_of(o, "op_id"),
                                    stream_by_name(test_str(o, "name")), u16(o, "call"),
                                    u32(o, "tile")) == u64_of(o, "u64"));
    }
    json_array_foreach(rows(v, "triple_id"), i, o) {
        sid_of(o, "sid_sub", sub);
        assert_true(uvcci_triple_id(sub, u32(o, "step"), u32_of(o, "op_id"), u32(o, "tile")) ==
                    u64_of(o, "u64"));
    }
    unsigned kinds_seen = 0;
    json_array_foreach(rows(v, "msg_id"), i, o) {
        uint8_t kind = kind_by_name(test_str(o, "kind"));
        kinds_seen |= 1u << (kind - 0x60);
        sid_of(o, "sid", sub);
        assert_int_equal(uvcci_msg_id(kind, sub, u32_of(o, "op_id"), u8(o, "src"), u8(o, "dst"),
                                      u16(o, "chunk_idx"), u16(o, "chunk_cnt")),
                         u32_of(o, "u32"));
    }
    assert_int_equal(kinds_seen, 0x7F4); /* 0x62 and 0x64..0x6A: every reliable kind */
    json_decref(v);
}

/* The vectors re-salt only a batch above 0; a first batch gives both fields as well. */
static void attempt_of_a_first_batch(void **state) {
    (void)state;
    uint8_t in[12 + 32 + 13] = "UVCC_OPID_V1", sub[32], hash[32];
    static const uint8_t fields[] = {9, 0, 0, 0, 1, 3, 0, 5, 1, 0, 0, 2, 0};
    memset(sub, 0xAB, 32);
    memcpy(in + 12, sub, 32);
    memcpy(in + 44, fields, sizeof fields);
    uvcci_sha256_once(in, sizeof in, hash);
    assert_int_equal(uvcci_op_id(sub, 9, 1, 3, 0x105, 0, 2), uvcci_ld32(hash));
    in[53] = 2;
    in[55] = 0;
    uvcci_sha256_once(in, sizeof in, hash);
    assert_int_equal(uvcci_op_id(sub, 9, 1, 3, 0x105, 2, 0), uvcci_ld32(hash));
}

/* Kinds without message ids have none, whatever their number. */
static void other_kinds_have_no_msg_id(void **state) {
    (void)state;
    uint8_t sub[32] = {1};
    for (unsigned kind = 0; kind < 256; kind++) {
        bool reliable = kind == 0x62 || (kind >= 0x64 && kind <= 0x6B);
        assert_int_equal(uvcci_msg_id((uint8_t)kind, sub, 1, 0, 1, 0, 1) != 0, reliable);
    }
}

/* Every stream name and every tag goes into its hash: none shares a result with another. */
static void names_are_hashed(void **state) {
    (void)state;
    uint8_t sub[32] = {7}, keys[UVCCI_TAG_COUNT][16];
    uint64_t ids[UVCCI_STREAM_COUNT];
    for (unsigned i = 0; i < UVCCI_STREAM_COUNT; i++) {
        ids[i] = uvcci_stream_id(sub, 3, 4, (uvcci_stream_name)i, 5, 6);
        for (unsigned j = 0; j < i; j++)
            assert_true(ids[i] != ids[j]);
    }
    for (unsigned i = 0; i < UVCCI_TAG_COUNT; i++) {
        uvcci_derive_prg_key(sub, (uvcci_tag)i, 3, 4, keys[i]);
        for (unsigned j = 0; j < i; j++)
            assert_memory_not_equal(keys[i], keys[j], 16);
    }
}

static void vectors_of_keys(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("prg.json");
    uint8_t k_ab[32], sub[32], prk[32], want[32], got[32];
    size_t i;
    json_t *o;
    sid_of(v, "K_ab", k_ab);
    sid_of(v, "sid_sub", sub);
    sid_of(v, "PRK", want);
    uvcci_derive_prk(sub, k_ab, prk);
    assert_memory_equal(prk, want, 32);

    unsigned tags_seen = 0;
    json_array_foreach(rows(v, "keys"), i, o) {
        uvcci_tag tag = tag_by_name(test_str(o, "tag"));
        tags_seen |= 1u << tag;
        test_hex_n(test_str(o, "key"), want, 16);
        uvcci_derive_prg_key(prk, tag, test_u64(o, "step"), u32(o, "run"), got);
        assert_memory_equal(got, want, 16);
    }
    assert_int_equal(tags_seen, (1u << UVCCI_TAG_COUNT) - 1);
    json_array_foreach(rows(v, "frame_keys"), i, o) {
        sid_of(o, "key", want);
        uvcci_derive_frame_key(prk, test_u64(o, "step"), u32(o, "run"), u8(o, "src"), u8(o, "dst"),
                               0, got);
        assert_memory_equal(got, want, 32);
    }
    o = json_object_get(v, "leaf_salt");
    sid_of(o, "S", want);
    uvcci_derive_leaf_salt(prk, test_u64(o, "step"), u32(o, "run"), got);
    assert_memory_equal(got, want, 32);

    uint8_t n_a[32], n_b[32], ikm[32], job[32];
    o = json_object_get(v, "session_key");
    sid_of(o, "N_a", n_a);
    sid_of(o, "N_b", n_b);
    sid_of(o, "ikm", ikm);
    sid_of(o, "sid_job", job);
    sid_of(o, "K_ab", want);
    uvcci_derive_session_key(n_a, n_b, ikm, job, u32(o, "run"), u8(o, "a"), u8(o, "b"), got);
    assert_memory_equal(got, want, 32);
    json_decref(v);
}

/* Chain values of successive steps, and the keys of each. */
static void vectors_of_the_ratchet(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("ratchet.json");
    size_t i, k, n;
    json_t *session, *step, *frame;
    json_array_foreach(rows(v, "sessions"), i, session) {
        uint8_t chain[32], want[32], got[32];
        const uint32_t run = u32(session, "run");
        json_array_foreach(rows(session, "steps"), k, step) {
            const uint64_t at = test_u64(step, "step");
            if (k == 0) {
                sid_of(session, "prk", got);
                uvcci_derive_chain(got, at, run, chain);
            } else {
                uvcci_ratchet(chain, at, run);
            }
            sid_of(step, "chain", want);
            assert_memory_equal(chain, want, 32);
            json_array_foreach(rows(step, "frames"), n, frame) {
                sid_of(frame, "key", want);
                uvcci_derive_frame_key(chain, at, run, u8(frame, "src"), u8(frame, "dst"),
                                       u32(frame, "epoch"), got);
                assert_memory_equal(got, want, 32);
            }
            test_hex_n(test_str(step, "mask"), want, 16);
            uvcci_derive_prg_key(chain, UVCCI_TAG_mask, at, run, got);
            assert_memory_equal(got, want, 16);
            sid_of(step, "leaf_salt", want);
            uvcci_derive_leaf_salt(chain, at, run, got);
            assert_memory_equal(got, want, 32);
        }
        assert_int_equal(k, 4);
    }
    json_decref(v);
}

/* The vectors have no control key, so its info string is spelled out here. */
static void control_key(void **state) {
    (void)state;
    uint8_t prk[32] = {9}, want[32], got[32];
    static const uint8_t info[] = {'u', 'v',  'c',  'c',  '/',  'c', 't', 'l',
                                   0,   0x44, 0x33, 0x22, 0x11, 2,   1};
    assert_int_equal(uvcci_hkdf_expand(prk, info, sizeof info, want, 32), 0);
    uvcci_derive_ctl_key(prk, 0x11223344, 2, 1, got);
    assert_memory_equal(got, want, 32);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_of_sids),          cmocka_unit_test(vectors_of_ids),
        cmocka_unit_test(attempt_of_a_first_batch), cmocka_unit_test(other_kinds_have_no_msg_id),
        cmocka_unit_test(names_are_hashed),         cmocka_unit_test(vectors_of_keys),
        cmocka_unit_test(vectors_of_the_ratchet),   cmocka_unit_test(control_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
