/* SPDX-License-Identifier: Apache-2.0 */
/* test_loopback.c - the network alone: what it carries, when, in which order, and that all of it is
 * a function of the seed. */
#include "support.h"

#include <uvcc/loopback.h>

#define DELAY_NS  50000u
#define TRACE_MAX 4096u

static test_alloc heap;

static uvcc_loopback *net_new(uint32_t nodes, bool datagram, uint64_t seed) {
    uvcc_allocator al = test_allocator(&heap);
    uvcc_loopback *n = NULL;
    assert_int_equal(uvcc_loopback_new(&n, &al, nodes, datagram, seed), 0);
    return n;
}

static void net_free(uvcc_loopback *n) {
    uvcc_loopback_free(n);
    assert_int_equal(heap.live_blocks, 0);
    assert_int_equal(heap.live_bytes, 0);
}

static size_t put(uvcc_loopback *n, uint32_t from, uint32_t to, const void *data, size_t len) {
    uvcc_slice s[3] = {{data, len / 3},
                       {(const uint8_t *)data + len / 3, 0},
                       {(const uint8_t *)data + len / 3, len - len / 3}};
    return uvcc_loopback_send(n, from, to, s, 3);
}

/* A packet that names itself: its number, then a pattern that the number determines. */
static size_t put_numbered(uvcc_loopback *n, uint32_t from, uint32_t to, uint32_t number,
                           size_t len) {
    uint8_t *b = malloc(len);
    assert_non_null(b);
    assert_true(len >= 4);
    for (size_t i = 0; i < len; i++)
        b[i] = (uint8_t)(number * 31u + i * 7u);
    memcpy(b, &number, 4);
    size_t taken = put(n, from, to, b, len);
    free(b);
    return taken;
}

static uint32_t number_of(const uvcc_loopback_event *e) {
    uint32_t number = 0;
    assert_true(e->len >= 4);
    memcpy(&number, e->data, 4);
    for (size_t i = 4; i < e->len; i++)
        assert_int_equal(e->data[i], (uint8_t)(number * 31u + i * 7u));
    return number;
}

typedef struct trace_item {
    uint64_t at;
    uvcc_loopback_event_kind kind;
    uint32_t from, to;
    size_t len;
    uint32_t sum; /* FNV-1a of the data */
} trace_item;
typedef struct trace {
    trace_item item[TRACE_MAX];
    uint32_t count;
} trace;

static bool trace_equal(const trace *a, const trace *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const trace_item *x = &a->item[i], *y = &b->item[i];
        if (x->at != y->at || x->kind != y->kind || x->from != y->from || x->to != y->to ||
            x->len != y->len || x->sum != y->sum)
            return false;
    }
    return true;
}

/* Polls what is due; the clock must never run backwards and data never come early. */
static void collect(uvcc_loopback *n, trace *t) {
    uvcc_loopback_event e;
    while (uvcc_loopback_poll(n, &e) == 1) {
        uint32_t sum = 2166136261u;
        for (size_t i = 0; e.kind == UVCC_LOOPBACK_DATA && i < e.len; i++)
            sum = (sum ^ e.data[i]) * 16777619u;
        assert_true(t->count < TRACE_MAX);
        t->item[t->count++] = (trace_item){.at = uvcc_loopback_now(n),
                                           .kind = e.kind,
                                           .from = e.from,
                                           .to = e.to,
                                           .len = e.len,
                                           .sum = sum};
    }
}

static void run_dry(uvcc_loopback *n, trace *t) {
    collect(n, t);
    for (uint64_t next; (next = uvcc_loopback_next(n)) != UVCC_NEVER;) {
        assert_true(next >= uvcc_loopback_now(n));
        uvcc_loopback_advance(n, next);
        collect(n, t);
    }
}

/* Opens all streams and forgets the events. */
static void open_all(uvcc_loopback *n, uint32_t nodes) {
    uvcc_loopback_event e;
    uint32_t opened = 0;
    while (uvcc_loopback_poll(n, &e) == 1) {
        assert_int_equal(e.kind, UVCC_LOOPBACK_OPENED);
        opened++;
    }
    assert_int_equal(opened, nodes * (nodes - 1));
}

static void carries_datagrams(void **state) {
    (void)state;
    uvcc_loopback *n = net_new(3, true, 1);
    uvcc_loopback_event e;
    assert_int_equal(uvcc_loopback_poll(n, &e), 0);
    assert_int_equal(uvcc_loopback_next(n), UVCC_NEVER);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(put_numbered(n, i % 3, (i + 1) % 3, i, 100 + i), 100 + i);
    assert_int_equal(put(n, 0, 2, "", 0), 0);
    assert_int_equal(uvcc_loopback_poll(n, &e), 0);
    assert_int_equal(uvcc_loopback_next(n), DELAY_NS);
    uvcc_loopback_advance(n, DELAY_NS);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(uvcc_loopback_poll(n, &e), 1);
        assert_int_equal(e.kind, UVCC_LOOPBACK_DATA);
        assert_int_equal(e.from, i % 3);
        assert_int_equal(e.to, (i + 1) % 3);
        assert_int_equal(e.len, 100 + i);
        assert_int_equal(number_of(&e), i);
    }
    assert_int_equal(uvcc_loopback_poll(n, &e), 1); /* an empty datagram is one too */
    assert_int_equal(e.len, 0);
    assert_int_equal(uvcc_loopback_poll(n, &e), 0);
    uvcc_loopback_advance(n, 3);
    assert_int_equal(uvcc_loopback_now(n), DELAY_NS);
    net_free(n);
}

static void refuses_nonsense(void **state) {
    (void)state;
    uvcc_allocator al = test_allocator(&heap);
    uvcc_loopback *n = NULL;
    assert_int_equal(uvcc_loopback_new(&n, &al, 1, true, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_new(NULL, &al, 2, true, 1), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_new(&n, NULL, 2, true, 1), UVCC_ERR_USAGE);
    n = net_new(2, true, 1);
    uvcc_fault_config f = {.drop = 1.0};
    assert_int_equal(uvcc_loopback_set_faults(n, 0, 1, &f), UVCC_ERR_USAGE);
    f.drop = -0.1;
    assert_int_equal(uvcc_loopback_set_all_faults(n, &f), UVCC_ERR_USAGE);
    f.drop = strtod("nan", NULL);
    assert_int_equal(uvcc_loopback_set_all_faults(n, &f), UVCC_ERR_USAGE);
    f.drop = 0.5;
    assert_int_equal(uvcc_loopback_set_faults(n, 0, 0, &f), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_set_faults(n, 0, 2, &f), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_cut(n, 2, 0, true), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_disconnect(n, 0, 1), UVCC_ERR_USAGE); /* no stream */
    assert_int_equal(put(n, 1, 1, "abc", 3), 0);
    assert_int_equal(put(n, 0, 2, "abc", 3), 0);
    assert_int_equal(uvcc_loopback_next(n), UVCC_NEVER);
    uvcc_session *sessions[4] = {NULL};
    uvcc_cpu *executors[4] = {NULL};
    assert_int_equal(uvcc_loopback_drive(n, sessions, executors, 4), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_loopback_drive(n, sessions, executors, 3), 0);
    net_free(n);
}

/* A stream gives the bytes in order whatever is cut, joined, stalled or delayed. */
static void streams_keep_order(void **state) {
    (void)state;
    const uvcc_fault_config kinds[] = {
        {0},
        {.split = 0.7},
        {.coalesce = 0.7},
        {.jitter_ns = 900000},
        {.stall = 0.2},
        {.partial = 0.5},
        {.bandwidth_bps = 1000000},
        {.drop = 0.5, .duplicate = 0.5, .reorder = 0.5}, /* ignored on streams */
        {.split = 0.5, .coalesce = 0.5, .jitter_ns = 70000, .stall = 0.05, .partial = 0.4},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        uvcc_loopback *n = net_new(2, false, 40 + k);
        open_all(n, 2);
        assert_int_equal(uvcc_loopback_set_all_faults(n, &kinds[k]), 0);
        uint8_t sent[40000], back[40000];
        uint64_t rng = k;
        test_rand_bytes(&rng, sent, sizeof sent);
        size_t at = 0, got = 0, deliveries = 0;
        while (at < sizeof sent || uvcc_loopback_next(n) != UVCC_NEVER) {
            for (unsigned i = 0; i < 3 && at < sizeof sent; i++) {
                size_t want = 1 + test_rand(&rng) % 700;
                if (want > sizeof sent - at)
                    want = sizeof sent - at;
                size_t taken = put(n, 0, 1, sent + at, want);
                assert_true(taken >= 1 && taken <= want);
                assert_true(taken == want || kinds[k].partial > 0);
                at += taken;
            }
            uvcc_loopback_advance(n, uvcc_loopback_next(n));
            uvcc_loopback_event e;
            while (uvcc_loopback_poll(n, &e) == 1) {
                assert_int_equal(e.kind, UVCC_LOOPBACK_DATA);
                assert_int_equal(e.to, 1);
                assert_true(e.len > 0 && e.len <= sizeof back - got);
                memcpy(back + got, e.data, e.len);
                got += e.len;
                deliveries++;
            }
        }
        assert_int_equal(got, sizeof sent);
        assert_memory_equal(sent, back, sizeof sent);
        uvcc_loopback_stats st;
        uvcc_loopback_get_stats(n, &st);
        assert_int_equal(st.bytes, sizeof sent);
        assert_int_equal(st.dropped + st.duplicated + st.reordered + st.corrupted, 0);
        if (k == 1)
            assert_true(deliveries > 2 * st.packets);
        if (k == 2)
            assert_true(deliveries < st.packets * 9 / 10);
        if (k == 4)
            assert_true(st.stalls > 0);
        net_free(n);
    }
}

/* 5,000 numbered packets; what the receiver sees must agree with the counters and the rates. */
static void faults_of_datagrams(void **state) {
    (void)state;
    enum { COUNT = 5000 };
    const uvcc_fault_config kinds[] = {
        {0},
        {.drop = 0.2},
        {.duplicate = 0.1},
        {.reorder = 0.3},
        {.corrupt = 0.1},
        {.truncate = 0.1},
        {.jitter_ns = 400000},
        {.drop = 0.2, .duplicate = 0.1, .reorder = 0.3, .jitter_ns = 1000},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        const uvcc_fault_config *f = &kinds[k];
        uvcc_loopback *n = net_new(2, true, 77);
        assert_int_equal(uvcc_loopback_set_faults(n, 0, 1, f), 0);
        static uint8_t seen[COUNT];
        memset(seen, 0, sizeof seen);
        uint32_t sent = 0, arrived = 0, backwards = 0, last = 0, damaged = 0, shortened = 0;
        while (sent < COUNT || uvcc_loopback_next(n) != UVCC_NEVER) {
            for (uint32_t i = 0; i < 2 && sent < COUNT; i++)
                assert_int_equal(put_numbered(n, 0, 1, sent++, 64), 64);
            uvcc_loopback_advance(n, uvcc_loopback_now(n) + 10000);
            uvcc_loopback_event e;
            while (uvcc_loopback_poll(n, &e) == 1) {
                arrived++;
                if (e.len < 64) {
                    shortened++;
                    continue;
                }
                if (f->corrupt > 0) {
                    uint32_t number = 0;
                    memcpy(&number, e.data, 4);
                    bool bad = number >= COUNT;
                    for (size_t i = 4; i < 64 && !bad; i++)
                        bad = e.data[i] != (uint8_t)(number * 31u + i * 7u);
                    damaged += bad;
                    continue;
                }
                uint32_t number = number_of(&e);
                assert_true(number < COUNT && seen[number] < 2);
                seen[number]++;
                backwards += number < last;
                last = number;
            }
        }
        uvcc_loopback_stats st;
        uvcc_loopback_get_stats(n, &st);
        assert_int_equal(st.packets, COUNT);
        assert_int_equal(st.bytes, 64 * COUNT);
        assert_int_equal(arrived, COUNT - st.dropped + st.duplicated);
        assert_in_range(st.dropped, (uint64_t)(f->drop * COUNT * 0.8),
                        (uint64_t)(f->drop * COUNT * 1.2));
        assert_in_range(st.duplicated, (uint64_t)(f->duplicate * COUNT * 0.7),
                        (uint64_t)(f->duplicate * COUNT * 1.3));
        assert_in_range(st.reordered, (uint64_t)(f->reorder * COUNT * 0.8),
                        (uint64_t)(f->reorder * COUNT * 1.2));
        assert_in_range(st.corrupted, (uint64_t)(f->corrupt * COUNT * 0.7),
                        (uint64_t)(f->corrupt * COUNT * 1.3));
        assert_in_range(st.truncated, (uint64_t)(f->truncate * COUNT * 0.7),
                        (uint64_t)(f->truncate * COUNT * 1.3));
        assert_int_equal(shortened, st.truncated);
        /* A flip can be undone by a second one on the same bit, or hit the number alone. */
        assert_in_range(damaged, st.corrupted * 9 / 10, st.corrupted);
        if (f->reorder > 0)
            assert_true(backwards > COUNT / 10);
        else if (f->duplicate == 0.0)
            assert_int_equal(backwards, 0); /* jitter alone reorders nothing */
        net_free(n);
    }
}

/* One workload under one set of faults. */
static void workload(bool datagram, uint64_t seed, const uvcc_fault_config *f, trace *t,
                     uvcc_loopback_stats *st) {
    uvcc_loopback *n = net_new(3, datagram, seed);
    assert_int_equal(uvcc_loopback_set_all_faults(n, f), 0);
    t->count = 0;
    collect(n, t);
    uint64_t rng = 5;
    for (uint32_t i = 0; i < 400; i++) {
        uint32_t from = (uint32_t)(test_rand(&rng) % 3);
        uint32_t to = (from + 1 + (uint32_t)(test_rand(&rng) % 2)) % 3;
        (void)put_numbered(n, from, to, i, 4 + test_rand(&rng) % 300);
        uvcc_loopback_advance(n, uvcc_loopback_now(n) + test_rand(&rng) % 30000);
        collect(n, t);
    }
    run_dry(n, t);
    uvcc_loopback_get_stats(n, st);
    net_free(n);
}

static void same_seed_same_trace(void **state) {
    (void)state;
    static trace a, b;
    uvcc_loopback_stats sa, sb;
    const uvcc_fault_config f = {.drop = 0.1,
                                 .duplicate = 0.1,
                                 .reorder = 0.2,
                                 .corrupt = 0.1,
                                 .truncate = 0.05,
                                 .split = 0.3,
                                 .coalesce = 0.3,
                                 .jitter_ns = 20000,
                                 .bandwidth_bps = 100000000,
                                 .stall = 0.02,
                                 .disconnect = 0.02,
                                 .partial = 0.2};
    for (int datagram = 0; datagram < 2; datagram++) {
        workload(datagram != 0, 9, &f, &a, &sa);
        workload(datagram != 0, 9, &f, &b, &sb);
        assert_true(trace_equal(&a, &b));
        assert_memory_equal(&sa, &sb, sizeof sa);
        assert_true(sa.stalls > 0 && (datagram != 0 || sa.disconnects > 0));
        workload(datagram != 0, 10, &f, &b, &sb);
        assert_false(trace_equal(&a, &b));
    }
}

/* Which of 400 packets on 0 -> 1 are dropped, by number. */
static void dropped_set(const uvcc_fault_config *f, bool dropped[400]) {
    uvcc_loopback *n = net_new(2, true, 3);
    assert_int_equal(uvcc_loopback_set_faults(n, 0, 1, f), 0);
    for (uint32_t i = 0; i < 400; i++) {
        uvcc_loopback_stats before, after;
        uvcc_loopback_get_stats(n, &before);
        (void)put_numbered(n, 0, 1, i, 100);
        uvcc_loopback_get_stats(n, &after);
        dropped[i] = after.dropped != before.dropped;
    }
    net_free(n);
}

static void another_rate_changes_no_other_draw(void **state) {
    (void)state;
    bool plain[400], busy[400], more[400];
    dropped_set(&(uvcc_fault_config){.drop = 0.2}, plain);
    dropped_set(&(uvcc_fault_config){.drop = 0.2,
                                     .duplicate = 0.5,
                                     .reorder = 0.5,
                                     .corrupt = 0.5,
                                     .truncate = 0.5,
                                     .jitter_ns = 1234,
                                     .stall = 0.5},
                busy);
    assert_memory_equal(plain, busy, sizeof plain);
    dropped_set(&(uvcc_fault_config){.drop = 0.4}, more);
    uint32_t added = 0;
    for (uint32_t i = 0; i < 400; i++) {
        assert_true(!plain[i] || more[i]); /* a higher rate only adds */
        added += more[i] && !plain[i];
    }
    assert_true(added > 20);
}

static void bandwidth_and_latency(void **state) {
    (void)state;
    for (int datagram = 0; datagram < 2; datagram++) {
        uvcc_loopback *n = net_new(2, datagram != 0, 1);
        if (datagram == 0)
            open_all(n, 2);
        /* 8 Mbit/s: a byte takes 1 us. */
        const uvcc_fault_config f = {.bandwidth_bps = 8000000, .delay_ns = 3000};
        assert_int_equal(uvcc_loopback_set_faults(n, 0, 1, &f), 0);
        static trace t;
        t.count = 0;
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(put_numbered(n, 0, 1, i, 1000), 1000);
        assert_int_equal(put_numbered(n, 1, 0, 9, 1000), 1000); /* the other way is free */
        run_dry(n, &t);
        assert_int_equal(t.count, 6);
        assert_int_equal(t.item[0].from, 1);
        assert_int_equal(t.item[0].at, DELAY_NS);
        for (uint32_t i = 0; i < 5; i++)
            assert_int_equal(t.item[i + 1].at, (i + 1) * 1000000u + 3000u);
        net_free(n);
    }
}

static void queues_are_bounded(void **state) {
    (void)state;
    const uvcc_fault_config f = {.queue_bytes = 1000};
    uvcc_loopback *n = net_new(2, false, 1);
    open_all(n, 2);
    assert_int_equal(uvcc_loopback_set_all_faults(n, &f), 0);
    assert_int_equal(put_numbered(n, 0, 1, 1, 600), 600);
    assert_int_equal(put_numbered(n, 0, 1, 2, 600), 400); /* streams take a part */
    assert_int_equal(put_numbered(n, 0, 1, 3, 600), 0);
    assert_int_equal(put_numbered(n, 1, 0, 4, 600), 600);
    static trace t;
    t.count = 0;
    run_dry(n, &t);
    assert_int_equal(put_numbered(n, 0, 1, 5, 600), 600);
    net_free(n);

    n = net_new(2, true, 1);
    assert_int_equal(uvcc_loopback_set_all_faults(n, &f), 0);
    assert_int_equal(put_numbered(n, 0, 1, 1, 600), 600);
    assert_int_equal(put_numbered(n, 0, 1, 2, 600), 600); /* datagrams are taken and lost */
    assert_int_equal(put_numbered(n, 0, 1, 3, 400), 400);
    t.count = 0;
    run_dry(n, &t);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.item[1].len, 400);
    net_free(n);
}

static void cut_datagrams_are_lost(void **state) {
    (void)state;
    uvcc_loopback *n = net_new(2, true, 1);
    static trace t;
    t.count = 0;
    (void)put_numbered(n, 0, 1, 1, 50); /* under way when the cut comes */
    assert_int_equal(uvcc_loopback_cut(n, 0, 1, true), 0);
    (void)put_numbered(n, 0, 1, 2, 50);
    (void)put_numbered(n, 1, 0, 3, 60);
    run_dry(n, &t);
    assert_int_equal(t.count, 1);
    assert_int_equal(t.item[0].len, 60);
    assert_int_equal(uvcc_loopback_cut(n, 0, 1, false), 0);
    (void)put_numbered(n, 0, 1, 4, 70);
    run_dry(n, &t);
    assert_int_equal(t.count, 2);
    assert_int_equal(t.item[1].len, 70);
    net_free(n);
}

static void cut_streams_wait(void **state) {
    (void)state;
    for (int coalesce = 0; coalesce < 2; coalesce++) {
        uvcc_loopback *n = net_new(2, false, 1);
        open_all(n, 2);
        const uvcc_fault_config f = {.coalesce = coalesce != 0 ? 0.9 : 0.0};
        assert_int_equal(uvcc_loopback_set_all_faults(n, &f), 0);
        uvcc_loopback_event e;
        uint8_t got[40], at = 0;
        for (uint8_t i = 0; i < 10; i++)
            assert_int_equal(put(n, 0, 1, &i, 1), 1);
        assert_int_equal(uvcc_loopback_cut(n, 0, 1, true), 0);
        uvcc_loopback_advance(n, 10 * DELAY_NS);
        assert_int_equal(uvcc_loopback_poll(n, &e), 0);
        assert_int_equal(uvcc_loopback_next(n), UVCC_NEVER);
        for (uint8_t i = 10; i < 20; i++) /* some are due at the very time of the restoration */
            assert_int_equal(put(n, 0, 1, &i, 1), 1);
        uvcc_loopback_advance(n, 11 * DELAY_NS);
        assert_int_equal(uvcc_loopback_cut(n, 0, 1, false), 0);
        for (uint8_t i = 20; i < 30; i++)
            assert_int_equal(put(n, 0, 1, &i, 1), 1);
        for (unsigned turn = 0; turn < 3; turn++) {
            while (uvcc_loopback_poll(n, &e) == 1) {
                assert_true(at + e.len <= 30);
                memcpy(got + at, e.data, e.len);
                at = (uint8_t)(at + e.len);
            }
            if (turn == 0 && coalesce == 0)
                assert_int_equal(at, 20);
            uvcc_loopback_advance(n, uvcc_loopback_now(n) + DELAY_NS);
        }
        assert_int_equal(at, 30);
        for (uint8_t i = 0; i < 30; i++)
            assert_int_equal(got[i], i);
        net_free(n);
    }
}

static void disconnect_loses_and_reopens(void **state) {
    (void)state;
    uvcc_loopback *n = net_new(3, false, 4);
    assert_int_equal(put_numbered(n, 0, 1, 1, 50), 0); /* not up before its events */
    open_all(n, 3);
    assert_int_equal(put_numbered(n, 0, 1, 1, 50), 50);
    assert_int_equal(put_numbered(n, 1, 0, 2, 50), 50);
    assert_int_equal(put_numbered(n, 0, 2, 3, 60), 60); /* another stream: untouched */
    assert_int_equal(uvcc_loopback_cut(n, 1, 0, true), 0);
    uvcc_loopback_advance(n, DELAY_NS / 2);
    assert_int_equal(uvcc_loopback_disconnect(n, 1, 0), 0);
    assert_int_equal(uvcc_loopback_disconnect(n, 0, 1), 0); /* it is down already */
    assert_int_equal(put_numbered(n, 0, 1, 4, 50), 0);
    static trace t;
    t.count = 0;
    run_dry(n, &t);
    assert_int_equal(t.count, 5);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(t.item[i].kind, UVCC_LOOPBACK_CLOSED);
        assert_int_equal(t.item[i].at, DELAY_NS / 2);
        assert_int_equal(t.item[i].from + t.item[i].to, 1);
    }
    assert_int_equal(t.item[2].kind, UVCC_LOOPBACK_DATA);
    assert_int_equal(t.item[2].len, 60);
    for (unsigned i = 3; i < 5; i++) {
        assert_int_equal(t.item[i].kind, UVCC_LOOPBACK_OPENED);
        assert_in_range(t.item[i].at, DELAY_NS / 2 + 1, DELAY_NS / 2 + 20000000u);
        assert_int_equal(t.item[i].from + t.item[i].to, 1);
    }
    assert_int_equal(t.item[3].at, t.item[4].at);
    assert_int_equal(put_numbered(n, 0, 1, 5, 50), 50);
    run_dry(n, &t);
    assert_int_equal(t.count, 6);
    net_free(n);
}

/* Seeded disconnects, corruption and truncation on streams: bytes that come between two OPENED are
 * a prefix of what was sent in between, unless the counters say otherwise. */
static void disconnects_lose_only_tails(void **state) {
    (void)state;
    uvcc_loopback *n = net_new(2, false, 21);
    open_all(n, 2);
    const uvcc_fault_config f = {
        .disconnect = 0.05, .split = 0.3, .coalesce = 0.3, .partial = 0.2, .disconnect_ns = 300000};
    assert_int_equal(uvcc_loopback_set_all_faults(n, &f), 0);
    static uint8_t sent[60000];
    size_t sent_len = 0, got = 0, sessions = 0;
    uint64_t rng = 1;
    for (unsigned i = 0; i < 2000; i++) {
        uint8_t b[20];
        test_rand_bytes(&rng, b, sizeof b);
        size_t taken = put(n, 0, 1, b, sizeof b);
        assert_true(sent_len + taken <= sizeof sent);
        memcpy(sent + sent_len, b, taken);
        sent_len += taken;
        uvcc_loopback_advance(n, uvcc_loopback_now(n) + 20000);
        uvcc_loopback_event e;
        while (uvcc_loopback_poll(n, &e) == 1) {
            if (e.to != 1)
                continue;
            if (e.kind == UVCC_LOOPBACK_OPENED) {
                sessions++;
            } else if (e.kind == UVCC_LOOPBACK_CLOSED) {
                got = sent_len = 0;
            } else {
                assert_true(e.len <= sent_len - got);
                assert_memory_equal(e.data, sent + got, e.len);
                got += e.len;
            }
        }
    }
    uvcc_loopback_stats st;
    uvcc_loopback_get_stats(n, &st);
    assert_true(st.disconnects > 20 && sessions > 20);
    net_free(n);
}

static void stream_damage_is_counted(void **state) {
    (void)state;
    for (int truncate = 0; truncate < 2; truncate++) {
        uvcc_loopback *n = net_new(2, false, 2);
        open_all(n, 2);
        const uvcc_fault_config f = {.corrupt = truncate != 0 ? 0.0 : 0.3,
                                     .truncate = truncate != 0 ? 0.3 : 0.0};
        assert_int_equal(uvcc_loopback_set_faults(n, 0, 1, &f), 0);
        uint8_t zeros[50] = {0};
        size_t got = 0, bad = 0, sent = 0;
        for (unsigned i = 0; i < 100; i++)
            sent += put(n, 0, 1, zeros, sizeof zeros);
        assert_int_equal(sent, 5000);
        uvcc_loopback_advance(n, DELAY_NS);
        uvcc_loopback_event e;
        while (uvcc_loopback_poll(n, &e) == 1) {
            got += e.len;
            bool dirty = false;
            for (size_t i = 0; i < e.len; i++)
                dirty |= e.data[i] != 0;
            bad += dirty;
        }
        uvcc_loopback_stats st;
        uvcc_loopback_get_stats(n, &st);
        assert_int_equal(bad, st.corrupted);
        assert_in_range(st.corrupted + st.truncated, 15, 45);
        assert_true(truncate != 0 ? got < 5000 : got == 5000);
        net_free(n);
    }
}

/* Allocation failing at the i-th call: a datagram is lost, a stream takes nothing, nothing leaks.
 */
static void survives_allocation_failures(void **state) {
    (void)state;
    uvcc_allocator al = test_allocator(&heap);
    const uvcc_fault_config f = {
        .split = 0.5, .coalesce = 0.8, .duplicate = 0.5, .disconnect = 0.02};
    for (int datagram = 0; datagram < 2; datagram++) {
        bool failed = true;
        for (size_t fail = 1; failed; fail++) {
            heap.fail_at = fail;
            uvcc_loopback *n = NULL;
            int rc = uvcc_loopback_new(&n, &al, 2, datagram != 0, 6);
            if (rc == 0) {
                assert_int_equal(uvcc_loopback_set_all_faults(n, &f), 0);
                uint64_t now = 0;
                size_t got = 0, sent = 0;
                uvcc_loopback_event e;
                for (uint32_t i = 0; i < 120; i++) {
                    sent += put_numbered(n, 0, 1, i, 40);
                    uvcc_loopback_advance(n, now += 10000);
                    while (uvcc_loopback_poll(n, &e) == 1)
                        got += e.len;
                }
                assert_true(sent > 0 && got > 0);
            } else {
                assert_int_equal(rc, UVCC_ERR_NOMEM);
                assert_null(n);
            }
            failed = heap.fail_at == 0;
            heap.fail_at = 0;
            net_free(n);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(carries_datagrams),
        cmocka_unit_test(refuses_nonsense),
        cmocka_unit_test(streams_keep_order),
        cmocka_unit_test(faults_of_datagrams),
        cmocka_unit_test(same_seed_same_trace),
        cmocka_unit_test(another_rate_changes_no_other_draw),
        cmocka_unit_test(bandwidth_and_latency),
        cmocka_unit_test(queues_are_bounded),
        cmocka_unit_test(cut_datagrams_are_lost),
        cmocka_unit_test(cut_streams_wait),
        cmocka_unit_test(disconnect_loses_and_reopens),
        cmocka_unit_test(disconnects_lose_only_tails),
        cmocka_unit_test(stream_damage_is_counted),
        cmocka_unit_test(survives_allocation_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
