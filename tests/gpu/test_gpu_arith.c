/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that GPU kernels are made of, run on the CPU: they give the golden vectors of every
 * task, and on other operands what the portable kernels give. No card is needed. */
#include "support.h"

#include <uvcc/host.h>

#include "gpu/describe.h"
#include "gpu/kinds.h"
#include "host_kernels.h"
#include "in_place.h"
#include "vector_test.h"

static int run_job(void *user, const uvcc_job *job, uvcc_completion *done) {
    (void)user;
    *done = (uvcc_completion){job->id, job->cookie, host_kernels_run(job)};
    return 0;
}

static vector_executor on_host(void) {
    vector_executor x = {.run = run_job};
    x.memory = uvcc_host_allocator();
    return x;
}

static void golden_vectors(void **state) {
    const vector_executor x = on_host();
    (void)state;
    vector_test_golden(&x);
}

static void other_operands(void **state) {
    const vector_executor x = on_host();
    (void)state;
    vector_test_random(&x, 5);
}

/* And of executors on the CPU. */
static int run_on_cpu(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_cpu *x = user;
    if (uvcc_cpu_submit(x, job) != 0)
        return -1;
    return uvcc_cpu_poll(x, done) == 1 ? 0 : -1;
}

static void maps_in_place(void **state) {
    const vector_executor host = on_host();
    uvcc_cpu_config cfg = {.size = sizeof cfg, .mode = UVCC_CPU_INLINE};
    vector_executor cpu = {.run = run_on_cpu};
    (void)state;
    in_place_maps(&host);
    cfg.alloc = cpu.memory = uvcc_host_allocator();
    for (cfg.backend = UVCC_BACKEND_AUTO; cfg.backend <= UVCC_BACKEND_PORTABLE; cfg.backend++) {
        uvcc_cpu *x = NULL;
        assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
        cpu.user = x;
        in_place_maps(&cpu);
        uvcc_cpu_free(x);
    }
}

/* ---- tables ---- */

enum { KEY_BYTES = 1 << 10, ENTRIES = 1024 };

static uint32_t expanded[2][PRG_KEYS][AES_KEY_WORDS]; /* OTHER's; HEAD's and TAIL's */
static uint32_t tree[2][AES_KEY_WORDS];

static vec unit_of(const vec_task *t, const vec_block *b) {
    const bool other = b->at.role == UVCC_OTHER;
    return (vec){.t = t,
                 .block = b,
                 .b = &b->at,
                 .key = (const uint32_t(*)[AES_KEY_WORDS])expanded[other ? 0 : 1],
                 .tree = (const uint32_t(*)[AES_KEY_WORDS])tree,
                 .tables = AES_TWO,
                 .lanes = 1};
}

/* What OTHER has with the next party is HEAD's with the one before, and so TAIL's. */
static void expand_pairs(uint64_t draws) {
    uint8_t bytes[2][16];
    for (unsigned k = 0; k < PRG_KEYS; k++) {
        test_rand_bytes(&draws, bytes[0], sizeof bytes[0]);
        aes_expand(bytes[0], expanded[0][k]);
    }
    test_rand_bytes(&draws, bytes[0], sizeof bytes);
    aes_expand_tree((const uint8_t(*)[16])bytes, tree);
    memcpy(expanded[1], expanded[0], sizeof expanded[0]);
    for (unsigned tag = 0; tag < UVCC_TAG_COUNT; tag++) {
        const unsigned next = UVCC_PAIR_NEXT * UVCC_TAG_COUNT + tag;
        const unsigned before = UVCC_PAIR_PREV * UVCC_TAG_COUNT + tag;
        memcpy(expanded[1][before], expanded[0][next], sizeof expanded[0][0]);
        memcpy(expanded[1][next], expanded[0][before], sizeof expanded[0][0]);
    }
}

/* A key of n bits for alpha, as OTHER makes it for both, also in one place; HEAD's sign of the
 * point. */
static uint64_t make_key(vec_task *t, uint64_t alpha, uint8_t key[2][KEY_BYTES]) {
    static uint8_t once[KEY_BYTES];
    uint64_t r = alpha, sign = 0;
    vec_block b = {.at = {.role = UVCC_OTHER, .count = 1, .in = {&r}, .out = {&sign}}};
    const vec c = unit_of(t, &b);
    memset(once, 0, sizeof once);
    memset(key, 0, 2 * sizeof key[0]);
    b.at.out_bytes[0] = b.at.out_bytes[1] = once;
    do_fn_deal_key(&c);
    b.at.out_bytes[0] = key[0];
    b.at.out_bytes[1] = key[1];
    do_fn_deal_key(&c);
    assert_memory_equal(once, key[0], sizeof once);
    return sign;
}

/* This party's sum over the table at xh, by so many threads. */
static uint64_t sum_of(const vec_task *t, unsigned role, uint64_t xh, const uint8_t *key,
                       uint32_t lanes) {
    uint64_t in = xh, sum = 0;
    vec_block b = {.at = {.role = (uint8_t)role, .count = 1, .in = {&in}, .key = key}};
    vec c = unit_of(t, &b);
    c.lanes = lanes;
    c.tables = lanes % 4 == 0 ? AES_FOUR : AES_TWO;
    for (c.lane = 0; c.lane < lanes; c.lane++)
        sum += part_of_fn_table(&c);
    return sum;
}

/* Both parties' sums differ by the entry that the point chooses, or not at all: for keys of all
 * depths, tables of all sizes about chunks and halves of nodes, of entries of one to four bytes,
 * alone and by up to a warp. */
static void tables_of_every_size(void **state) {
    static int32_t entries[ENTRIES];
    static uint32_t room[ENTRIES];
    static const uint32_t sizes[] = {1,   2,   31,  32,  33,  63,  64,  65,  127,  128,
                                     129, 255, 256, 257, 383, 511, 640, 999, 1023, 1024};
    uint64_t draws = 7;
    static uint8_t key[2][KEY_BYTES];
    (void)state;
    expand_pairs(8);
    for (unsigned n = 1; n <= 20; n++) {
        for (uint32_t i = 0; i < ENTRIES; i++)
            entries[i] = (int32_t)(((uint32_t)test_rand(&draws) | 1) << 8 * (n % 4)) >> 8 * (n % 4);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            if (sizes[s] - 1 > low_bits(n))
                continue;
            const uint64_t alpha = low(test_rand(&draws), n), i = test_rand(&draws) % sizes[s];
            vec_task t = {.kind = UVCC_TASK_FN_TABLE, .count = 1};
            t.fn.bits = (uint8_t)n;
            t.fn.entries = entries;
            t.fn.entry_count = sizes[s];
            t.fn.first = -3;
            const uint64_t sign = make_key(&t, alpha, key);
            uvcci_gpu_describe_table(&t, room, room);
            for (unsigned hit = 0; hit < 2; hit++) {
                /* xh - first - i = alpha, or no entry has it */
                const uint64_t x = alpha + (hit != 0 ? i : sizes[s]);
                const uint64_t xh = x + (uint64_t)t.fn.first;
                const bool over = hit == 0 && sizes[s] > low_bits(n); /* all values are there */
                const uint64_t want = over       ? sign * (uint64_t)(int64_t)entries[0]
                                      : hit != 0 ? sign * (uint64_t)(int64_t)entries[i]
                                                 : 0;
                for (uint32_t lanes = 1; lanes <= 32; lanes *= 2) {
                    const uint64_t head = sum_of(&t, UVCC_HEAD, xh, key[0], lanes);
                    const uint64_t tail = sum_of(&t, UVCC_TAIL, xh, key[1], lanes);
                    if (head - tail != want)
                        fail_msg("%u bits, %u entries, entry %u, hit %u, %u lanes", n, sizes[s],
                                 (unsigned)i, hit, lanes);
                }
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
        cmocka_unit_test(tables_of_every_size),
        cmocka_unit_test(maps_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
