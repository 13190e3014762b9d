/* SPDX-License-Identifier: Apache-2.0 */
/* The crew: each piece is done once, by whoever comes first, and its writes are seen; and links
 * that several threads drive at a time send through one crew what they send alone. */
#include "cores.h"
#include "crew.h"
#include "support.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <uvcc/link.h>

enum { CALLERS = 3, ROUNDS = 100, MOST = 40, BYTES = 700000, STEP = 5, MESSAGES = 4 };

/* ---- pieces ---- */

typedef struct pieces {
    uint32_t done[MOST]; /* not atomic: a piece is one thread's, then the caller's */
    uint64_t sum[MOST];
} pieces;

static void piece(void *arg, uint32_t i) {
    pieces *p = arg;
    for (uint64_t k = 0; k < 3000 * (uint64_t)(MOST - i); k++)
        p->sum[i] += k * k + i;
    p->done[i]++;
}

typedef struct caller {
    uvcc_parallel by;
    uint64_t x;
    pthread_t thread;
    size_t wrong;
} caller;

static void *call_often(void *arg) {
    caller *c = arg;
    for (unsigned round = 0; round < ROUNDS; round++) {
        pieces p = {0};
        const uint32_t count = (uint32_t)(test_rand(&c->x) % (MOST + 1));
        c->by.run(c->by.user, piece, &p, count);
        for (uint32_t i = 0; i < MOST; i++)
            c->wrong += p.done[i] != (i < count);
    }
    return NULL;
}

static void by_callers(unsigned threads, void *(*main_of)(void *)) {
    caller c[CALLERS];
    crew *w;
    assert_int_equal(crew_new(&w, threads), 0);
    for (unsigned i = 0; i < CALLERS; i++) {
        c[i] = (caller){.by = crew_parallel(w), .x = 7 + i};
        assert_int_equal(pthread_create(&c[i].thread, NULL, main_of, &c[i]), 0);
    }
    for (unsigned i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(c[i].thread, NULL), 0);
        assert_int_equal(c[i].wrong, 0);
    }
    crew_free(w);
}

/* No thread, or more than there are cores: who asks works too. */
static void each_piece_once(void **state) {
    (void)state;
    for (unsigned threads = 0; threads < 5; threads += 2)
        by_callers(threads, call_often);
    crew_free(NULL);
}

/* ---- more pieces than a place has room for ---- */

enum { MANY = 2 * 0xffff + 7 };

static void mark(void *arg, uint32_t i) {
    uint8_t *done = arg;
    done[i]++;
}

static void more_than_a_place_has(void **state) {
    static const uint32_t counts[] = {0xffff - 1, 0xffff, 0xffff + 1, MANY};
    uint8_t *done = malloc(MANY);
    crew *w;
    (void)state;
    assert_non_null(done);
    assert_int_equal(crew_new(&w, 2), 0);
    const uvcc_parallel by = crew_parallel(w);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        memset(done, 0, MANY);
        by.run(by.user, mark, done, counts[k]);
        for (uint32_t i = 0; i < MANY; i++)
            assert_int_equal(done[i], i < counts[k]);
    }
    crew_free(w);
    free(done);
}

/* Who asks while all places are taken does all of it: as many callers as places, and one. */
enum { CROWD = 65 };

typedef struct crowd {
    crew *crew;
    pthread_barrier_t in, out; /* all are within a call, or were */
    uint32_t done[CROWD][2];
} crowd;

typedef struct one_of {
    crowd *of;
    unsigned me;
    pthread_t thread;
} one_of;

static void hold(void *arg, uint32_t i) {
    one_of *o = arg;
    o->of->done[o->me][i]++;
    if (i == 0) {
        (void)pthread_barrier_wait(&o->of->in);
        (void)pthread_barrier_wait(&o->of->out);
    }
}

static void *ask_in_crowd(void *arg) {
    one_of *o = arg;
    const uvcc_parallel by = crew_parallel(o->of->crew);
    by.run(by.user, hold, o, 2);
    return NULL;
}

static void more_callers_than_places(void **state) {
    static crowd c;
    static one_of o[CROWD];
    (void)state;
    assert_int_equal(crew_new(&c.crew, 1), 0);
    assert_int_equal(pthread_barrier_init(&c.in, NULL, CROWD), 0);
    assert_int_equal(pthread_barrier_init(&c.out, NULL, CROWD), 0);
    for (unsigned i = 0; i < CROWD; i++) {
        o[i] = (one_of){.of = &c, .me = i};
        assert_int_equal(pthread_create(&o[i].thread, NULL, ask_in_crowd, &o[i]), 0);
    }
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_join(o[i].thread, NULL), 0);
    for (unsigned i = 0; i < CROWD; i++)
        for (unsigned k = 0; k < 2; k++)
            assert_int_equal(c.done[i][k], 1);
    (void)pthread_barrier_destroy(&c.in);
    (void)pthread_barrier_destroy(&c.out);
    crew_free(c.crew);
}

/* Half of the cores are others' in any case, and where there are few for each worker all are; more
 * than some for each worker would be in each other's way. */
static void sized_by_cores(void **state) {
    static const struct {
        long cores;
        uint32_t workers, threads;
    } of[] = {{1, 1, 0},  {7, 1, 0},   {8, 1, 2},   {16, 1, 6},   {64, 1, 6}, {15, 2, 0},
              {16, 2, 4}, {64, 2, 12}, {64, 4, 24}, {256, 4, 24}, {64, 9, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        assert_int_equal(crew_threads_of(of[i].cores, of[i].workers), of[i].threads);
    assert_int_equal(crew_threads(1), crew_threads_of(cores_usable(), 1));
}

static void sessions_share_it(void **state) {
    uvcc_config c = {.links = {.frame_bytes = 1000}};
    crew *w;
    (void)state;
    crew_share_frames(NULL, &c);
    assert_null(c.threads.parallel.run);
    assert_int_equal(c.links.frame_bytes, 1000);
    assert_int_equal(c.links.transmit_frames, 0);
    assert_int_equal(crew_new(&w, 0), 0);
    crew_share_frames(w, &c);
    assert_non_null(c.threads.parallel.run);
    assert_ptr_equal(c.threads.parallel.user, w);
    assert_true(c.links.transmit_frames > 1);
    crew_free(w);
}

static void nets_share_it(void **state) {
    uvcc_net_config c = {.size = sizeof c};
    crew *w;
    (void)state;
    crew_share_net(NULL, &c);
    assert_null(c.parallel.run);
    assert_int_equal(c.look_ns, 0);
    assert_int_equal(crew_new(&w, 0), 0);
    crew_share_net(w, &c);
    assert_non_null(c.parallel.run);
    assert_ptr_equal(c.parallel.user, w);
    assert_int_equal(c.look_ns, CREW_LOOK_NS);
    crew_free(w);
}

/* ---- links ---- */

typedef struct end {
    uvcc_link *l;
    test_alloc mem;
    uint64_t seed;
} end;

/* Not of asserts: they are the main thread's. */
static bool open_end(end *e, uint8_t me, uvcc_parallel by) {
    static const uint8_t prk[32] = {0x42, 7};
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    *e = (end){.seed = 9};
    cfg.alloc = test_allocator(&e->mem);
    cfg.random = test_random(&e->seed);
    cfg.me = me;
    cfg.peer = 1 - me;
    cfg.sid_tag = 7;
    cfg.transmit_frames = 8;
    cfg.frame_bytes = 128u << 10;
    cfg.parallel = by;
    const bool ok = uvcc_link_new(&e->l, &cfg) == 0 && uvcc_link_set_run(e->l, 3) == 0 &&
                    uvcc_link_set_step(e->l, STEP) == 0 && uvcc_link_set_keys(e->l, 2, prk) == 0 &&
                    uvcc_link_start(e->l, 1) == 0;
    if (ok)
        uvcc_link_stream_opened(e->l, 1);
    return ok;
}

static bool pass_on(end *from, end *to) {
    uvcc_transmit t;
    bool ok = true;
    while (ok && uvcc_link_poll_transmit(from->l, &t, 1) == 1)
        ok = uvcc_link_feed_slices(to->l, t.slices, t.slice_count, 1) == 0 &&
             uvcc_link_transmit_done(from->l, t.id, t.total, 1) == 0;
    return ok;
}

static uint8_t byte_of(uint32_t message, size_t i) {
    return (uint8_t)(i * 7 + i / 251 + message);
}

static bool send_one(end *e, uint32_t k) {
    uvcc_link_msg *m;
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {k + 1};
    if (uvcc_link_msg_new(e->l, UVCC_FRAME_KEYS_BATCH, BYTES, &m) != 0)
        return false;
    for (size_t i = 0; i < BYTES; i++)
        uvcc_link_msg_data(m)[i] = byte_of(k, i);
    return uvcc_link_send(e->l, m, STEP, k + 1, ids, k, 1) == 0;
}

static void *drive_links(void *arg) {
    caller *c = arg;
    end a, b;
    uvcc_link_rx rx;
    bool ok =
        open_end(&a, 0, c->by) && open_end(&b, 1, c->by) && pass_on(&a, &b) && pass_on(&b, &a);
    for (uint32_t k = 0; k < MESSAGES && ok; k++)
        ok = send_one(&a, k);
    ok = ok && pass_on(&a, &b);
    for (uint32_t k = 0; k < MESSAGES && ok; k++) {
        ok = uvcc_link_poll_message(b.l, &rx) == 1 && rx.len == BYTES;
        for (size_t i = 0; i < BYTES && ok; i++)
            ok = rx.data[i] == byte_of(k, i);
    }
    uvcc_link_free(a.l);
    uvcc_link_free(b.l);
    c->wrong = !ok;
    return NULL;
}

static void links_of_several_threads(void **state) {
    (void)state;
    by_callers(3, drive_links);
}

/* ---- waiting ---- */

static unsigned looks, sleeps; /* calls that wait for no time, and that would for some */
static uint64_t slept_ns;      /* the last one */

int __real_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *t, const void *mask);
int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *t, const void *mask);

int __wrap_ppoll(struct pollfd *watched, nfds_t count, const struct timespec *t, const void *mask) {
    const struct timespec none = {0};
    const uint64_t ns = (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
    looks += ns == 0;
    sleeps += ns != 0;
    slept_ns = ns != 0 ? ns : slept_ns;
    return __real_ppoll(watched, count, &none, mask);
}

static void poll_with(const crew *c, int fd, uint64_t wait_ns) {
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    looks = sleeps = 0;
    slept_ns = 0;
    crew_poll(c, &watched, 1, wait_ns);
}

/* With a crew it looks before it sleeps, and not where something is there. */
static void polls_look(void **state) {
    const uint64_t hour = UINT64_C(3600000000000);
    int fds[2];
    crew *w;
    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(crew_new(&w, 0), 0);
    poll_with(NULL, fds[0], hour);
    assert_int_equal(looks, 0);
    assert_int_equal(sleeps, 1);
    assert_int_equal(slept_ns, hour);
    poll_with(w, fds[0], hour);
    assert_true(looks != 0);
    assert_int_equal(sleeps, 1);
    assert_true(slept_ns <= hour - CREW_LOOK_NS);
    poll_with(w, fds[0], 0);
    assert_int_equal(looks, 1);
    assert_int_equal(sleeps, 0);
    assert_int_equal(write(fds[1], "", 1), 1);
    poll_with(w, fds[0], hour);
    assert_int_equal(looks, 1);
    assert_int_equal(sleeps, 0);
    crew_free(w);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_piece_once),          cmocka_unit_test(more_than_a_place_has),
        cmocka_unit_test(more_callers_than_places), cmocka_unit_test(sized_by_cores),
        cmocka_unit_test(sessions_share_it),        cmocka_unit_test(nets_share_it),
        cmocka_unit_test(links_of_several_threads), cmocka_unit_test(polls_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
