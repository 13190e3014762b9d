/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of a class against a plain list: whatever orders come and when they go, the least order
 * goes first, equal ones as they came. And the records that messages stand in: a token names one
 * of them as long as it lives, and no other bits name anything. And their buffers, some of which
 * are kept for messages to come. */
#include "support.h"

#include "proto/link_pool.h"
#include "proto/link_queue.h"
#include <uvcc/frame.h>

enum { MESSAGES = 400 };

typedef struct queue_pair {
    uvcci_tx_class queue;
    uvcc_link_msg msg[MESSAGES];
    uvcc_link_msg *waiting[MESSAGES]; /* as they came */
    uint32_t made, left;
} queue_pair;

static void push(queue_pair *p, uint64_t order) {
    uvcc_link_msg *m = &p->msg[p->made];
    m->order = order;
    m->serial = p->made++;
    p->waiting[p->left++] = m;
    uvcci_link_queue_push(&p->queue, m);
}

static void pop(queue_pair *p) {
    uint32_t least = 0;
    for (uint32_t i = 1; i < p->left; i++)
        if (p->waiting[i]->order < p->waiting[least]->order)
            least = i;
    assert_ptr_equal(uvcci_link_queue_peek(&p->queue), p->waiting[least]);
    uvcci_link_queue_pop(&p->queue);
    for (uint32_t i = least + 1; i < p->left; i++)
        p->waiting[i - 1] = p->waiting[i];
    p->left--;
}

/* kind: rising, falling, equal, few different, any. */
static uint64_t order_of(unsigned kind, uint32_t i, uint64_t *rng) {
    switch (kind) {
    case 0:
        return i;
    case 1:
        return MESSAGES - i;
    case 2:
        return 7;
    case 3:
        return test_rand(rng) % 5;
    default:
        return test_rand(rng);
    }
}

/* eighths: of all turns so many push, as long as there is something to push. */
static void run(unsigned kind, unsigned eighths) {
    static queue_pair p;
    uint64_t rng = 100 * kind + eighths;
    memset(&p, 0, sizeof p);
    assert_null(uvcci_link_queue_peek(&p.queue));
    while (p.made < MESSAGES || p.left != 0) {
        if (p.made < MESSAGES && (p.left == 0 || test_rand(&rng) % 8 < eighths))
            push(&p, order_of(kind, p.made, &rng));
        else
            pop(&p);
    }
    assert_null(uvcci_link_queue_peek(&p.queue));
}

static void least_order_first(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++)
        for (unsigned eighths = 4; eighths <= 8; eighths++)
            run(kind, eighths);
}

/* Memory with a margin in which every word is the number of the first record: what is read beyond
 * a slab looks like a live record. */
enum { MARGIN = 4096 };

static void *margin_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)cls;
    uint32_t *p = aligned_alloc(64, (bytes + MARGIN + 63) & ~(size_t)63);
    assert_non_null(p);
    for (size_t i = 0; i < (bytes + MARGIN) / 4; i++)
        p[i] = 1;
    return p;
}

static void margin_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)bytes;
    (void)cls;
    free(p);
}

static void tokens_name_records(void **state) {
    (void)state;
    uvcc_link_config cfg;
    uvcc_link *l;
    uint64_t seed = 1;
    void *object[50];
    uint64_t token[50];
    uvcc_link_config_default(&cfg);
    cfg.alloc = (uvcc_allocator){.alloc = margin_alloc, .free = margin_free};
    cfg.random = test_random(&seed);
    cfg.peer = 1;
    assert_int_equal(uvcc_link_new(&l, &cfg), 0);
    for (unsigned i = 0; i < 50; i++) { /* three slabs of 21 */
        object[i] = uvcci_pool_take(l, &l->tx.pool);
        assert_non_null(object[i]);
        token[i] = uvcci_object_token(object[i]);
    }
    assert_int_equal(token[0] >> 32, 1);
    for (unsigned i = 0; i < 50; i++) {
        assert_ptr_equal(uvcci_pool_find(&l->tx.pool, token[i]), object[i]);
        assert_null(uvcci_pool_find(&l->tx.pool, token[i] + (UINT64_C(1) << 32)));
    }
    for (uint64_t low = 21; low < 32; low++) /* of the last slab: records that there are not */
        for (uint64_t generation = 1; generation <= 51; generation++)
            assert_null(
                uvcci_pool_find(&l->tx.pool, generation << 32 | (token[49] & 0xffffffe0) | low));
    for (uint64_t low = 50 - 42; low < 21; low++)
        assert_null(
            uvcci_pool_find(&l->tx.pool, UINT64_C(1) << 32 | (token[49] & 0xffffffe0) | low));
    for (uint64_t slab = 3; slab < 70; slab++)
        assert_null(uvcci_pool_find(&l->tx.pool, UINT64_C(1) << 32 | slab << 5));
    assert_null(uvcci_pool_find(&l->tx.pool, UINT64_C(1) << 32 | 0xffffffe0));
    for (unsigned i = 0; i < 50; i++) {
        uvcci_pool_give(l, &l->tx.pool, object[i]);
        assert_null(uvcci_pool_find(&l->tx.pool, token[i]));
    }
    uvcc_link_free(l);
}

/* What so many records take at most, while they come and while they go. */
static void records_within_their_bound(void **state) {
    (void)state;
    enum { MOST = 1000 };
    test_alloc mem = {0};
    uvcc_link_config cfg;
    uvcc_link *l;
    uint64_t seed = 1;
    static void *object[MOST];
    uvcc_link_config_default(&cfg);
    cfg.alloc = test_allocator(&mem);
    cfg.random = test_random(&seed);
    cfg.peer = 1;
    assert_int_equal(uvcc_link_new(&l, &cfg), 0);
    const size_t link = mem.live_bytes;
    for (unsigned i = 0; i < MOST; i++) {
        object[i] = uvcci_pool_take(l, &l->tx.pool);
        assert_true(mem.peak_bytes - link <= uvcci_pool_bound(i + 1));
    }
    assert_in_range(uvcci_pool_bound(MOST) - (mem.peak_bytes - link), 0, 4096 + 16 * 64);
    for (unsigned i = 0; i < MOST; i++) { /* from the newest slab on, then from the oldest */
        uvcci_pool_give(l, &l->tx.pool, object[i % 2 == 0 ? i : MOST - i]);
        assert_true(mem.live_bytes - link <= uvcci_pool_bound(MOST));
    }
    uvcci_pool_trim(l, &l->tx.pool);
    assert_int_equal(mem.live_bytes, link);
    uvcc_link_free(l);
}

/* Each limit stands in the bound, as bytes and as the records and gaps that they may take. */
static void bound_of_each_limit(void **state) {
    (void)state;
    uint64_t bound[5];
    for (unsigned k = 0; k < 5; k++) {
        test_alloc mem = {0};
        uint64_t seed = 1;
        uvcc_link_config c;
        uvcc_link *l;
        uvcc_link_config_default(&c);
        c.alloc = test_allocator(&mem);
        c.random = test_random(&seed);
        c.peer = 1;
        uint64_t *limit[] = {&c.tx_online_bytes, &c.tx_keys_bytes, &c.rx_online_bytes,
                             &c.rx_keys_bytes};
        for (unsigned i = 0; i < 4; i++)
            *limit[i] = (4 + i) << 20;
        if (k < 4)
            *limit[k] += 21 * 64 * 100; /* a hundred slabs of the shortest messages */
        assert_int_equal(uvcc_link_new(&l, &c), 0);
        bound[k] = uvcc_link_memory_bound(l);
        uvcc_link_free(l);
    }
    for (unsigned k = 0; k < 4; k++) { /* what comes in may have a gap for each 256 bytes */
        const size_t gaps = k < 2 ? 0 : 21 * 64 * 100 / 256 * 3 / 2 * sizeof(uvcci_range);
        assert_in_range(bound[k] - bound[4], 21 * 64 * 100 + 100 * 4096 + gaps,
                        21 * 64 * 100 + 101 * 4096 + 102 * 24 + gaps);
    }
}

static void make_and_drop(uvcc_link *l, uint32_t len) {
    uvcc_link_msg *m;
    assert_int_equal(uvcc_link_msg_new(l, UVCC_FRAME_OPEN_BATCH, len, &m), 0);
    uvcc_link_msg_drop(l, m);
}

/* Buffers kept for reuse count against the same limits, and are reused; and where there is room, a
 * message of one length leaves those of others where they are. */
static void spare_buffers(void **state) {
    (void)state;
    for (unsigned room = 0; room < 2; room++) {
        test_alloc mem = {0};
        uint64_t seed = 1;
        uvcc_link_config c;
        uvcc_link *l;
        uvcc_link_config_default(&c);
        c.alloc = test_allocator(&mem);
        c.random = test_random(&seed);
        c.peer = 1;
        if (room == 0)
            c.tx_online_bytes = c.tx_keys_bytes = c.rx_online_bytes = c.rx_keys_bytes = 50000;
        assert_int_equal(uvcc_link_new(&l, &c), 0);
        assert_int_equal(uvcc_link_set_run(l, 3), 0);
        for (uint32_t k = 0; k < 40; k++) {
            make_and_drop(l, 40000 + k % 20);
            assert_true(room != 0 || mem.live_bytes < 200000 + 30000);
        }
        for (uint32_t k = 0; k < 8; k++)
            make_and_drop(l, 40012 + k);
        const size_t calls = mem.calls;
        for (uint32_t k = 0; k < 40; k++)
            make_and_drop(l, room != 0 ? 40012 + k % 8 : 40019);
        assert_int_equal(mem.calls, calls);
        uvcc_link_free(l);
        assert_int_equal(mem.live_bytes, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_order_first),
        cmocka_unit_test(tokens_name_records),
        cmocka_unit_test(records_within_their_bound),
        cmocka_unit_test(bound_of_each_limit),
        cmocka_unit_test(spare_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
