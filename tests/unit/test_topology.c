/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of a larger job: against vectors, and ranks against coordinates. */
#include "support.h"

#include "proto/ids.h"
#include "proto/topology.h"

static const uvcci_topology r8s4t2 = {8, 4, 2};

/* The groups of one kind, keyed "x,y" by the two coordinates they fix. */
static void check_groups(const json_t *v, const char *key, uvcci_group kind, unsigned groups,
                         size_t size) {
    json_t *all = json_object_get(v, key);
    assert_int_equal(json_object_size(all), groups);
    const char *name;
    json_t *want;
    json_object_foreach(all, name, want) {
        unsigned x, y;
        assert_int_equal(sscanf(name, "%u,%u", &x, &y), 2);
        assert_int_equal(json_array_size(want), size);
        for (size_t i = 0; i < size; i++) { /* the same list for every member */
            uint16_t a = (uint16_t)x, b = (uint16_t)y, c = (uint16_t)i;
            uvcci_coord at = kind == UVCCI_GROUP_TP   ? (uvcci_coord){a, b, c}
                             : kind == UVCCI_GROUP_PP ? (uvcci_coord){a, c, b}
                                                      : (uvcci_coord){c, a, b};
            uint32_t members[8], own;
            assert_int_equal(uvcci_topology_group(&r8s4t2, kind, at, members, size), size);
            for (size_t j = 0; j < size; j++)
                assert_int_equal(members[j], json_integer_value(json_array_get(want, j)));
            assert_int_equal(uvcci_topology_rank(&r8s4t2, at, &own), 0);
            assert_int_equal(members[i], own);
            assert_int_equal(uvcci_topology_group(&r8s4t2, kind, at, members, size - 1),
                             UVCC_ERR_USAGE);
        }
    }
}

static void vectors(void **state) {
    (void)state;
    json_t *v = LOAD_VECTORS("topology_r8s4t2.json");
    assert_int_equal(test_u64(v, "R"), 8);
    assert_int_equal(test_u64(v, "S"), 4);
    assert_int_equal(test_u64(v, "T"), 2);
    check_groups(v, "tp", UVCCI_GROUP_TP, 32, 2);
    check_groups(v, "pp", UVCCI_GROUP_PP, 16, 4);
    check_groups(v, "dp", UVCCI_GROUP_DP, 8, 8);
    json_decref(v);
}

/* All workers of a stage: replicas outside, tensor ranks inside. */
static void stages_have_groups(void **state) {
    (void)state;
    uint32_t members[16];
    for (uint16_t i = 0; i < 16; i++) {
        const uvcci_coord at = {.replica = i / 2, .stage = 3, .tp_rank = i % 2};
        assert_int_equal(uvcci_topology_group(&r8s4t2, UVCCI_GROUP_STAGE, at, members, 16), 16);
        for (uint32_t k = 0; k < 16; k++)
            assert_int_equal(members[k], (k / 2 * 4 + 3) * 2 + k % 2);
        assert_int_equal(uvcci_topology_group(&r8s4t2, UVCCI_GROUP_STAGE, at, members, 15),
                         UVCC_ERR_USAGE);
    }
}

static void ranks_and_coordinates_are_inverse(void **state) {
    (void)state;
    for (uint16_t r = 1; r <= 4; r++)
        for (uint16_t s = 1; s <= 5; s++)
            for (uint16_t t = 1; t <= 3; t++) {
                uvcci_topology topo = {r, s, t};
                uint32_t next = 0, rank;
                uvcci_coord at, back;
                assert_int_equal(uvcci_topology_workers(&topo), r * s * t);
                for (at.replica = 0; at.replica < r; at.replica++)
                    for (at.stage = 0; at.stage < s; at.stage++)
                        for (at.tp_rank = 0; at.tp_rank < t; at.tp_rank++) {
                            assert_int_equal(uvcci_topology_rank(&topo, at, &rank), 0);
                            assert_int_equal(rank, next++);
                            assert_int_equal(uvcci_topology_coord(&topo, rank, &back), 0);
                            assert_memory_equal(&back, &at, sizeof at);
                        }
                assert_int_equal(uvcci_topology_coord(&topo, next, &back), UVCC_ERR_USAGE);
                assert_int_equal(uvcci_topology_coord(&topo, UINT32_MAX, &back), UVCC_ERR_USAGE);
            }
}

static void outside_is_refused(void **state) {
    (void)state;
    static const uvcci_coord outside[] = {{8, 0, 0}, {0, 4, 0}, {0, 0, 2}, {65535, 65535, 65535}};
    uint32_t rank = 99, members[8];
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(uvcci_topology_rank(&r8s4t2, outside[i], &rank), UVCC_ERR_USAGE);
        assert_int_equal(uvcci_topology_group(&r8s4t2, UVCCI_GROUP_TP, outside[i], members, 8),
                         UVCC_ERR_USAGE);
    }
    assert_int_equal(rank, 99);
    assert_int_equal(
        uvcci_topology_group(&r8s4t2, (uvcci_group)4, (uvcci_coord){0, 0, 0}, members, 8),
        UVCC_ERR_USAGE);
}

static void sizes(void **state) {
    (void)state;
    static const struct {
        uvcci_topology topo;
        int rc;
    } cases[] = {
        {{1, 1, 1}, 0},
        {{8, 4, 2}, 0},
        {{0, 1, 1}, UVCC_ERR_CONFIG},
        {{1, 0, 1}, UVCC_ERR_CONFIG},
        {{1, 1, 0}, UVCC_ERR_CONFIG},
        {{1, 256, 1}, 0},
        {{1, 257, 1}, UVCC_ERR_CONFIG},
        {{32767, 1, 65535}, 0},
        {{32768, 1, 65535}, 0},
        {{32769, 1, 65535}, UVCC_ERR_CONFIG},
        {{65535, 256, 65535}, UVCC_ERR_CONFIG},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(uvcci_topology_check(&cases[i].topo), cases[i].rc);
    /* The last worker of the greatest one, without wrap. */
    uvcci_topology big = {32768, 1, 65535};
    uvcci_coord at;
    uint32_t rank;
    assert_int_equal(uvcci_topology_rank(&big, (uvcci_coord){32767, 0, 65534}, &rank), 0);
    assert_int_equal(rank, 32768u * 65535u - 1);
    assert_int_equal(uvcci_topology_coord(&big, rank, &at), 0);
    assert_int_equal(at.replica, 32767);
    assert_int_equal(at.tp_rank, 65534);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(stages_have_groups),
        cmocka_unit_test(ranks_and_coordinates_are_inverse),
        cmocka_unit_test(outside_is_refused),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
