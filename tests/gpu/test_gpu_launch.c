/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels as they are launched, on a device of one thread: they give what the portable kernels
 * give, whatever the order of their threads and the number of multiprocessors. No card and no CUDA
 * is needed. */
#include "support.h"

#include <uvcc/host.h>

#include "emulated/emulated.h"
#include "hashes.h"
#include "host_kernels.h"
#include "in_place.h"
#include "vector_test.h"

static int status_of_portable(const uvcc_job *job) {
    const uvcc_cpu_config cfg = {
        .size = sizeof cfg, .alloc = uvcc_host_allocator(), .backend = UVCC_BACKEND_PORTABLE};
    uvcc_cpu *cpu = NULL;
    uvcc_completion done;
    assert_int_equal(uvcc_cpu_new(&cpu, &cfg), 0);
    assert_int_equal(uvcc_cpu_submit(cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(cpu, &done), 1);
    uvcc_cpu_free(cpu);
    return done.status;
}

static void run_portable(const uvcc_job *job) {
    assert_int_equal(status_of_portable(job), 0);
}

/* Of multi-scale tables, which would take most of the test's time, the first block. */
static int run_job(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_task t = job->tasks[0], rest = t;
    const bool cut = t.kind == UVCC_TASK_FN_MULTISCALE && job->count == 1 && t.u.vec.count > 1;
    const uvcc_job first = {.tasks = &t, .count = 1}, others = {.tasks = &rest, .count = 1};
    (void)user;
    if (cut) {
        t.u.vec.count = 1;
        rest.u.vec.blocks++;
        rest.u.vec.count--;
    }
    int e = host_kernels_run(cut ? &first : job);
    if (e == 0 && cut)
        e = status_of_portable(&others);
    *done = (uvcc_completion){job->id, job->cookie, e};
    return 0;
}

static vector_executor on_device(uint64_t order, unsigned sms) {
    vector_executor x = {.run = run_job};
    x.memory = uvcc_host_allocator();
    emulated_order(order);
    emulated_multiprocessors(sms);
    return x;
}

static void other_operands(void **state) {
    const vector_executor x = on_device(1, 2);
    (void)state;
    vector_test_random(&x, 5);
}

static void maps_in_place(void **state) {
    const vector_executor x = on_device(2, 2);
    (void)state;
    in_place_maps(&x);
}

static void hashes(void **state) {
    const vector_executor x = on_device(1, 2);
    (void)state;
    hashes_anywhere(&x);
}

/* ---- beside the portable kernels ---- */

enum { BLOCKS = 3, WORDS = 64, BYTES = 2048, ENTRIES = 10240, OUTS = 8, ODD = 3 };

typedef struct large {
    uvcc_task t;
    uvcc_fn_args fn;
    uvcc_step_keys keys;
    uvcc_block block[BLOCKS];
    uint8_t *out[OUTS]; /* what the task writes, of all blocks */
    size_t bytes[OUTS];
    int32_t entries[ENTRIES];
    int64_t words[1024];
} large;

static void *some_bytes(uint64_t *draws, size_t bytes) {
    void *p = malloc(bytes);
    assert_non_null(p);
    test_rand_bytes(draws, p, bytes);
    return p;
}

/* Those of the task in turn. */
static uint8_t role_of(const large *l, unsigned b) {
    static const char *const roles[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #roles,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    const char *of = roles[l->t.kind];
    const char role = of[(b + l->t.ordinal) % strlen(of)];
    return role == 'H' ? UVCC_HEAD : role == 'T' ? UVCC_TAIL : UVCC_OTHER;
}

/* Operands of any task, more of each than any has; messages and keys begin anywhere. Entries of
 * tables are of so many bytes. */
static void fill(large *l, const uint32_t *counts, unsigned entry_bytes, uint64_t draws) {
    test_rand_bytes(&draws, &l->keys, sizeof l->keys);
    test_rand_bytes(&draws, l->entries, sizeof l->entries);
    for (unsigned i = 0; i < ENTRIES; i++)
        l->entries[i] >>= 8 * (4 - entry_bytes);
    test_rand_bytes(&draws, l->words, sizeof l->words);
    size_t all = 0;
    for (unsigned b = 0; b < BLOCKS; b++)
        all += counts[b];
    for (unsigned k = 0; k < OUTS; k++) {
        l->bytes[k] = all * (k < 4 ? 64 : BYTES / 2) + 64;
        l->out[k] = calloc(1, l->bytes[k]);
        assert_non_null(l->out[k]);
    }
    for (unsigned b = 0, first = 0; b < BLOCKS; first += counts[b], b++) {
        const uint32_t n = counts[b];
        const size_t at = 64 * (size_t)first, far = BYTES / 2 * (size_t)first;
        uvcc_block *to = &l->block[b];
        *to = (uvcc_block){.block = b + 5, .count = n, .role = role_of(l, b)};
        for (unsigned k = 0; k < 4; k++)
            to->in[k] = some_bytes(&draws, 64 * (size_t)n);
        to->in_bits = some_bytes(&draws, n);
        uint8_t *key = (uint8_t *)some_bytes(&draws, BYTES * (size_t)n + 2 * ODD) + ODD * b;
        for (size_t i = 0; i < BYTES * (size_t)n; i += 16)
            key[i] &= 0xfe; /* of correction words */
        to->key = key;
        for (unsigned k = 0; k < 2; k++) {
            to->wire_in[k] = (uint8_t *)some_bytes(&draws, 64 * (size_t)n + 64) + k + b;
            to->words[k] = (uint8_t *)some_bytes(&draws, 8 * WORDS * (size_t)n + ODD) + ODD * k;
            to->out[k] = (uint64_t *)(void *)(l->out[k] + at);
            to->wire_out[k] = l->out[2 + k] + at + k * (ODD + b);
            to->out_bytes[k] = l->out[4 + k] + far + k * ODD;
        }
        to->out_words = l->out[6] + far;
        to->out_bits = l->out[7] + far;
    }
    l->fn.entries = l->entries;
    l->fn.words = l->words;
    l->t.keys = &l->keys;
    l->t.u.vec.blocks = l->block;
    l->t.u.vec.count = BLOCKS;
    l->t.u.vec.fn = &l->fn;
}

static void empty(large *l) {
    for (unsigned b = 0; b < BLOCKS; b++) {
        uvcc_block *of = &l->block[b];
        for (unsigned k = 0; k < 4; k++)
            free((void *)(uintptr_t)of->in[k]);
        free((void *)(uintptr_t)of->in_bits);
        free((void *)(uintptr_t)(of->key - ODD * b));
        for (unsigned k = 0; k < 2; k++) {
            free((void *)(uintptr_t)(of->wire_in[k] - k - b));
            free((void *)(uintptr_t)(of->words[k] - ODD * k));
        }
    }
    for (unsigned k = 0; k < OUTS; k++)
        free(l->out[k]);
}

static const unsigned multiprocessors[3] = {1, 2, 132};

/* A task of many elements, so that warps have several tiles, and blocks of threads several rounds.
 */
static void same_as_portable(const uvcc_task *t, const uvcc_fn_args *fn, const uint32_t *counts,
                             unsigned entry_bytes) {
    static large l;
    for (unsigned role = 0; role < 3; role++) {
        uint8_t *want[OUTS];
        memset(&l, 0, sizeof l);
        l.t = *t;
        l.fn = *fn;
        l.t.ordinal = role;
        fill(&l, counts, entry_bytes, 11 + role);
        const uvcc_job job = {.tasks = &l.t, .count = 1};
        run_portable(&job);
        for (unsigned k = 0; k < OUTS; k++) {
            want[k] = malloc(l.bytes[k]);
            assert_non_null(want[k]);
            memcpy(want[k], l.out[k], l.bytes[k]);
            memset(l.out[k], 0, l.bytes[k]);
        }
        on_device(role, multiprocessors[role]);
        assert_int_equal(host_kernels_run(&job), 0);
        for (unsigned k = 0; k < OUTS; k++) {
            if (memcmp(want[k], l.out[k], l.bytes[k]) != 0)
                fail_msg("task %u, operand %u, order %u", t->kind, k, role);
            free(want[k]);
        }
        empty(&l);
    }
}

static void large_tasks(void **state) {
    static const uint32_t many[BLOCKS] = {560, 33, 130}, few[BLOCKS] = {31, 1, 4};
    static const struct {
        uvcc_task t;
        uvcc_fn_args fn;
        bool few;
        unsigned entry_bytes; /* of a table; 0: as of any task */
    } all[] = {
#define FN(name, ...) {{.kind = UVCC_TASK_##name, .call = 9}, {__VA_ARGS__}, false, 0}
#define FEW_FN(name, ...)                                                                          \
    { {.kind = UVCC_TASK_##name, .call = 9}, {__VA_ARGS__}, true, 0 }
#define TABLE_FN(bytes, ...)                                                                       \
    { {.kind = UVCC_TASK_FN_TABLE, .call = 9}, {__VA_ARGS__}, false, bytes }
        FN(FN_TABLE, .bits = 9, .entry_count = 300, .first = -5),
        FN(FN_TABLE, .bits = 12, .entry_count = 129, .first = 5, .shift = 7),
        FN(FN_TABLE, .bits = 4, .entry_count = 1),
        TABLE_FN(1, .bits = 10, .entry_count = 257, .first = 9),
        TABLE_FN(2, .bits = 9, .entry_count = 300, .first = -5),
        TABLE_FN(2, .bits = 13, .entry_count = 383),
        TABLE_FN(2, .bits = 6, .entry_count = 64, .first = 1),
        TABLE_FN(2, .bits = 43, .entry_count = 130, .first = 77),
        TABLE_FN(3, .bits = 11, .entry_count = 256),
        FEW_FN(FN_TABLE, .bits = 16, .entry_count = 5000, .first = 77),
        FEW_FN(FN_TABLE, .bits = 16, .entry_count = 5000 - 31, .shift = 30),
        FN(FN_BEST, .bits = 1),
        FEW_FN(FN_BEST, .bits = 1),
        FEW_FN(FN_MULTISCALE, .bits = 12, .shift = 3, .first = 7, .word_count = 9 * 7 * 4),
        FEW_FN(FN_MULTISCALE, .bits = 9, .shift = 0, .first = 16, .word_count = 9 * 16 * 5),
        FN(FN_COMPARE, .bits = 20, .word_count = 3),
        FN(FN_COMPARE, .bits = 5, .word_count = 17),
        FN(FN_OPEN_FINISH, .bits = 13),
        FN(FN_OPEN_MASK, .bits = 21),
        FN(FN_OPEN_BITS, .bits = 6),
        FN(FN_SELECT, .word_count = 3),
        FN(FN_DEAL_BEST, .bits = 1),
        FN(FN_DEAL_KEY, .bits = 15),
        FN(FN_DEAL_MULTISCALE, .bits = 12, .shift = 3, .first = 7, .word_count = 9 * 7 * 4),
        FN(FN_FLOOR, .shift = 14),
        FN(FN_DEAL_FLOOR, .shift = 14),
        {{.kind = UVCC_TASK_LESS_MASK, .call = 3, .u.vec = {.bits = 21, .gate = UVCC_GATE_RELU}},
         {0},
         false,
         0},
#undef FN
#undef FEW_FN
#undef TABLE_FN
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        same_as_portable(&all[i].t, &all[i].fn, all[i].few ? few : many,
                         all[i].entry_bytes != 0 ? all[i].entry_bytes : 4);
}

/* The largest table that is by bits takes the most shared memory of all kernels. So many elements
 * are one for each thread of a multiprocessor: with fewer, threads share them, and bytes are
 * multiplied.
 */
static void largest_table_by_bits(void **state) {
    static const uint32_t counts[BLOCKS] = {170, 33, 130};
    static const uvcc_task t = {.kind = UVCC_TASK_FN_TABLE, .call = 9};
    static const uvcc_fn_args fn = {.bits = 14, .entry_count = ENTRIES, .first = 77};
    (void)state;
    same_as_portable(&t, &fn, counts, 2);
}

/* ---- tasks without blocks ---- */

/* Products of all paths, and sizes about tiles; of shares, and of one or both components by a
 * public y, of words or narrow. */
static void products(void **state) {
    static const uint32_t sides[] = {1, 7, 8, 9, 31, 33, 64, 65, 130};
    enum { SIDES = sizeof sides / sizeof sides[0], OPERANDS = 6, Z = 4, ROUNDS = 80 };
    uint64_t draws = 3;
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        const uint32_t m = sides[round % SIDES], n = sides[test_rand(&draws) % SIDES];
        const uint32_t k = sides[test_rand(&draws) % SIDES] + (round % 5 == 0 ? 300 : 0);
        const size_t size[OPERANDS] = {m * k, m * k, k * n, k * n, m * n, m * n};
        const bool public = round >= ROUNDS / 2, second = public && round % 4 != 0;
        uint64_t *at[OPERANDS], *want[2];
        for (unsigned i = 0; i < OPERANDS; i++)
            at[i] = some_bytes(&draws, 8 * size[i]);
        for (unsigned i = 0; i < 2; i++) {
            want[i] = malloc(8 * size[Z + i]);
            assert_non_null(want[i]);
            memcpy(want[i], at[Z + i], 8 * size[Z + i]);
        }
        uvcc_task t = {.kind = UVCC_TASK_GEMM,
                       .u.gemm = {.m = m,
                                  .n = n,
                                  .k = k,
                                  .trans_x = round % 2 != 0,
                                  .trans_y = round / 2 % 2 != 0,
                                  .accumulate = round % 3 == 0,
                                  .y_bytes = public ? (uint8_t)(round % 3 * 2) : 0,
                                  .x = {at[0], !public && round % 7 == 0 ? NULL : at[1]},
                                  .y = {at[2], public || round % 11 == 0 ? NULL : at[3]},
                                  .z = want[0],
                                  .z_hi = second ? want[1] : NULL}};
        const uvcc_job job = {.tasks = &t, .count = 1};
        run_portable(&job);
        t.u.gemm.z = at[Z];
        t.u.gemm.z_hi = second ? at[Z + 1] : NULL;
        on_device(round % 3, multiprocessors[round / 4 % 3]);
        assert_int_equal(host_kernels_run(&job), 0);
        for (unsigned i = 0; i < 2; i++)
            if (memcmp(want[i], at[Z + i], 8 * size[Z + i]) != 0)
                fail_msg("round %u: %u x %u x %u, z %u", round, m, k, n, i);
        for (unsigned i = 0; i < OPERANDS; i++)
            free(at[i]);
        free(want[0]);
        free(want[1]);
    }
}

/* A narrow y at no multiple of its element's bytes is refused before anything is launched. */
static void narrow_products_are_aligned(void **state) {
    (void)state;
    uint64_t x = 5, z = 7, y[2] = {0, 0};
    for (unsigned at = 0; at < 8; at++)
        for (uint8_t bytes = 2; bytes <= 4; bytes += 2) {
            uvcc_task t = {.kind = UVCC_TASK_GEMM,
                           .u.gemm = {.m = 1, .n = 1, .k = 1, .y_bytes = bytes, .z = &z}};
            t.u.gemm.x = (uvcc_shares){&x, NULL};
            t.u.gemm.y = (uvcc_shares){(uint64_t *)((uintptr_t)y + at), NULL};
            assert_int_equal(uvcci_gpu_check(&t), at % bytes == 0 ? 0 : UVCC_ERR_JOB);
        }
}

/* Items that begin at words of 16 bytes and end anywhere, where their memory ends: alone in a block
 * of threads, and beside others. */
static void aligned_hashes(void **state) {
    enum { ITEMS = 26, CHUNK = 4096, DIGEST = 32 };
    static const size_t over[] = {0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 192, 4095};
    static uint8_t got[ITEMS][DIGEST], want[ITEMS][DIGEST];
    uvcc_hash_item item[ITEMS];
    uint64_t draws = 5;
    (void)state;
    for (unsigned i = 0; i < ITEMS; i++) {
        const size_t len = over[i % 13] + CHUNK * (i < 13 ? i % 3 : 33);
        uint8_t *data = some_bytes(&draws, len + 1);
        item[i] = (uvcc_hash_item){.mode = UVCC_HASH_TREE, .len = len, .data = data};
    }
    const uvcc_task t = {.kind = UVCC_TASK_HASH, .u.hash = {.items = item, .count = ITEMS}};
    const uvcc_job job = {.tasks = &t, .count = 1};
    for (unsigned i = 0; i < ITEMS; i++)
        item[i].out = want[i];
    run_portable(&job);
    for (unsigned order = 0; order < 3; order++) {
        memset(got, 0, sizeof got);
        for (unsigned i = 0; i < ITEMS; i++)
            item[i].out = got[i];
        on_device(order, 2);
        assert_int_equal(host_kernels_run(&job), 0);
        assert_memory_equal(got, want, sizeof got);
    }
    for (unsigned i = 0; i < ITEMS; i++)
        free((void *)(uintptr_t)item[i].data);
}

/* From every place of a word of 16 bytes to every other, beside each other; and so much that blocks
 * of threads have several rounds. Other items follow where an item's bytes end. */
static void copies(void **state) {
    enum { PLACES = 16, LENGTHS = 7, SHORT = PLACES * PLACES * LENGTHS, COUNT = SHORT + 3 };
    static const size_t length[LENGTHS] = {0, 1, 15, 49, 513, 2048, 9001};
    static uvcc_copy_item it[COUNT];
    uint64_t draws = 6;
    (void)state;
    for (unsigned i = 0; i < COUNT; i++) {
        const size_t to = i % PLACES, from = i / PLACES % PLACES;
        it[i].len = i < SHORT ? length[i / (PLACES * PLACES)] : 1100000 + i;
        it[i].src = (uint8_t *)some_bytes(&draws, (from + it[i].len + 15) / 16 * 16) + from;
        it[i].dst = (uint8_t *)calloc(1, to + it[i].len + 1) + to;
    }
    for (uint32_t last = COUNT - 1; last <= COUNT; last++) { /* the second time over the bus */
        const uvcc_task t = {.kind = UVCC_TASK_COPY, .u.copy = {.items = it, .count = last}};
        const uvcc_job job = {.tasks = &t, .count = 1};
        on_device(last % 3, 3);
        assert_int_equal(host_kernels_run(&job), 0);
        for (unsigned i = 0; i < last; i++) {
            if (memcmp(it[i].dst, it[i].src, it[i].len) != 0 || it[i].dst[it[i].len] != 0)
                fail_msg("item %u", i);
            memset(it[i].dst, 0, it[i].len);
        }
    }
    for (unsigned i = 0; i < COUNT; i++) {
        free(it[i].dst - i % PLACES);
        free((void *)(uintptr_t)(it[i].src - i / PLACES % PLACES));
    }
}

int main(int argc, char **argv) {
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_operands),
        cmocka_unit_test(maps_in_place),
        cmocka_unit_test(hashes),
        cmocka_unit_test(large_tasks),
        cmocka_unit_test(largest_table_by_bits),
        cmocka_unit_test(products),
        cmocka_unit_test(aligned_hashes),
        cmocka_unit_test(narrow_products_are_aligned),
        cmocka_unit_test(copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
