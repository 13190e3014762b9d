/* SPDX-License-Identifier: Apache-2.0 */
/* hashes.c - see hashes.h. */
#include "hashes.h"

#include "support.h"
#include <uvcc/host.h>

enum { DEVICE, PINNED, OWN, PLACES };
enum { TEXT = (256 << 10) + 64, DIGEST = 32 };

/* About what a block, a chunk, and what the CPU hashes itself take. */
static const size_t lengths[] = {0,    1,    55,    56,    63,    64,    65,    119,      4095,
                                 4096, 4097, 61440, 61441, 65535, 65536, 65537, TEXT - 16};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], MODES = 3, ITEMS = LENGTHS * MODES * PLACES };
enum {
    MANY = 70,
    MANY_BYTES = 61441
}; /* trees whose roots the device's threads make side by side */

typedef struct bench {
    uint8_t *text[PLACES];      /* the same bytes */
    uint8_t *digest[2][PLACES]; /* of the first task, of the last one; none on the device */
    uvcc_hash_item item[2][ITEMS];
} bench;

static void *take(const uvcc_allocator *al, unsigned place, size_t bytes) {
    void *p = place == OWN
                  ? calloc(1, bytes)
                  : al->alloc(al->user, bytes, place == DEVICE ? UVCC_MEM_TENSOR : UVCC_MEM_WIRE);
    assert_non_null(p);
    return p;
}

static void give(const uvcc_allocator *al, unsigned place, void *p, size_t bytes) {
    if (place == OWN)
        free(p);
    else
        al->free(al->user, p, bytes, place == DEVICE ? UVCC_MEM_TENSOR : UVCC_MEM_WIRE);
}

static void make_items(bench *b, unsigned task) {
    static const uint8_t prefixes[] = {0, 6, 32, 3};
    for (unsigned i = 0; i < ITEMS; i++) {
        uvcc_hash_item *h = &b->item[task][i];
        memset(h, 0, sizeof *h);
        h->mode = (uint8_t)(i % MODES);
        h->prefix_len = prefixes[i % 4];
        memset(h->prefix, (int)i, h->prefix_len);
        memset(h->key, (int)(i + 7), sizeof h->key);
        h->len = lengths[i / MODES % LENGTHS];
        h->data = b->text[i / MODES / LENGTHS] + i % 17 % (TEXT - h->len + 1);
        h->out = b->digest[task][i % 5 == 0 ? OWN : PINNED] + (size_t)DIGEST * i;
    }
}

/* What the portable kernels make of it. */
static void check(const bench *b, const uvcc_hash_item *h, const char *task) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_cpu_config cfg = {.size = sizeof cfg, .alloc = al, .backend = UVCC_BACKEND_PORTABLE};
    uint8_t want[DIGEST];
    uvcc_hash_item own = *h;
    uvcc_completion done;
    uvcc_cpu *cpu = NULL;
    for (unsigned p = 0; p < PLACES; p++)
        if ((size_t)(h->data - b->text[p]) < TEXT)
            own.data = b->text[OWN] + (h->data - b->text[p]);
    own.out = want;
    const uvcc_task t = {.kind = UVCC_TASK_HASH, .u.hash = {.items = &own, .count = 1}};
    const uvcc_job job = {.tasks = &t, .count = 1};
    assert_int_equal(uvcc_cpu_new(&cpu, &cfg), 0);
    assert_int_equal(uvcc_cpu_submit(cpu, &job), 0);
    assert_int_equal(uvcc_cpu_poll(cpu, &done), 1);
    assert_int_equal(done.status, 0);
    uvcc_cpu_free(cpu);
    if (memcmp(h->out, want, DIGEST) != 0)
        fail_msg("%s: mode %u, %zu bytes: another digest", task, h->mode, h->len);
}

static void run(const vector_executor *x, const uvcc_task *tasks, uint32_t count) {
    const uvcc_job job = {.id = 1, .tasks = tasks, .count = count};
    uvcc_completion done;
    assert_int_equal(x->run(x->user, &job, &done), 0);
    assert_int_equal(done.status, 0);
}

static void many_trees(const vector_executor *x, bench *b) {
    const uvcc_task t = {.kind = UVCC_TASK_HASH, .u.hash = {.items = b->item[0], .count = MANY}};
    for (unsigned i = 0; i < MANY; i++) {
        uvcc_hash_item *h = &b->item[0][i];
        h->mode = i % 2 == 0 ? UVCC_HASH_HMAC : UVCC_HASH_TREE;
        h->len = MANY_BYTES;
        h->data = b->text[DEVICE] + i;
        h->out = b->digest[0][PINNED] + (size_t)DIGEST * i;
    }
    run(x, &t, 1);
    for (unsigned i = 0; i < MANY; i++)
        check(b, &b->item[0][i], "many trees");
}

void hashes_anywhere(const vector_executor *x) {
    static bench b;
    static uint8_t copy[DIGEST * ITEMS];
    uvcc_copy_item up[PLACES];
    for (unsigned p = 0; p < PLACES; p++) {
        b.text[p] = take(&x->memory, p, TEXT);
        for (unsigned t = 0; t < 2 && p != DEVICE; t++)
            b.digest[t][p] = take(&x->memory, p, sizeof copy);
    }
    for (size_t k = 0; k < TEXT; k++)
        b.text[OWN][k] = (uint8_t)(k * 31 + k / 251);
    for (unsigned p = 0; p < OWN; p++)
        up[p] = (uvcc_copy_item){b.text[p], b.text[OWN], TEXT};
    make_items(&b, 0);
    make_items(&b, 1);
    const uvcc_copy_item again = {copy, b.digest[0][PINNED], sizeof copy};
    const uvcc_task tasks[] = {
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = up, .count = OWN}},
        {.kind = UVCC_TASK_HASH, .u.hash = {.items = b.item[0], .count = ITEMS}},
        {.kind = UVCC_TASK_COPY, .u.copy = {.items = &again, .count = 1}},
        {.kind = UVCC_TASK_HASH, .u.hash = {.items = b.item[1], .count = ITEMS}}};
    run(x, tasks, 4);
    for (unsigned i = 0; i < ITEMS; i++) {
        check(&b, &b.item[0][i], "a task before others");
        check(&b, &b.item[1][i], "the last task");
        if (i % 5 != 0)
            assert_memory_equal(copy + (size_t)DIGEST * i, b.item[0][i].out, DIGEST);
    }
    many_trees(x, &b);
    for (unsigned p = 0; p < PLACES; p++) {
        give(&x->memory, p, b.text[p], TEXT);
        for (unsigned t = 0; t < 2 && p != DEVICE; t++)
            give(&x->memory, p, b.digest[t][p], sizeof copy);
    }
}
