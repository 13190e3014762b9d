/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU executors: each job makes one completion, in every mode, whatever the order; limits,
 * shutdown, allocation failures; the queue below them. Run it under a thread sanitizer too. */
#define _GNU_SOURCE 1 /* pthread_setattr_default_np */
#include "support.h"

#include <pthread.h>
#include <uvcc/compute.h>

#include "exec/compute/queue.h"

enum { JOBS = 200, WORDS = 300 };

/* The executor's hook may be called from its owner's thread only. */
static pthread_t owner;
static void *owner_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)cls;
    assert_true(pthread_equal(owner, pthread_self()));
    return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}
static void owner_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)cls;
    assert_true(pthread_equal(owner, pthread_self()));
    if (cls == UVCC_MEM_SECRET || cls == UVCC_MEM_TENSOR)
        for (size_t i = 0; i < bytes; i++) /* wiped */
            if (((uint8_t *)p)[i] != 0)
                fail_msg("byte %zu of %zu is left", i, bytes);
    free(p);
}

/* A job of three tasks in order: z = 2 (x + y), and a product. */
typedef struct work {
    uint64_t x[WORDS], y[WORDS], z[WORDS], product[9];
    uvcc_task tasks[3];
    uvcc_job job;
} work;

static void make_work(work *w, uint64_t id, uint64_t *rng) {
    for (unsigned i = 0; i < WORDS; i++) {
        w->x[i] = test_rand(rng);
        w->y[i] = test_rand(rng);
    }
    memset(w->tasks, 0, sizeof w->tasks);
    const uvcc_shares x = {w->x, w->x}, y = {w->y, w->y}, z = {w->z, NULL};
    w->tasks[0].kind = w->tasks[1].kind = UVCC_TASK_MAP;
    w->tasks[0].u.map.op = UVCC_MAP_ADD;
    w->tasks[0].u.map.rows = w->tasks[1].u.map.rows = 3;
    w->tasks[0].u.map.cols = w->tasks[1].u.map.cols = WORDS / 3;
    w->tasks[0].u.map.x = x;
    w->tasks[0].u.map.y = y;
    w->tasks[0].u.map.out = w->tasks[1].u.map.out = w->tasks[1].u.map.x = z;
    w->tasks[1].u.map.op = UVCC_MAP_SHL;
    w->tasks[1].u.map.shift = 1;
    w->tasks[2].kind = UVCC_TASK_GEMM;
    w->tasks[2].u.gemm.m = w->tasks[2].u.gemm.n = 3;
    w->tasks[2].u.gemm.k = WORDS / 3;
    w->tasks[2].u.gemm.trans_y = true;
    w->tasks[2].u.gemm.x = x;
    w->tasks[2].u.gemm.y = y;
    w->tasks[2].u.gemm.z = w->product;
    w->job = (uvcc_job){.id = id, .cookie = ~id, .tasks = w->tasks, .count = 3};
}

static void check_work(const work *w) {
    for (unsigned i = 0; i < WORDS; i++)
        assert_true(w->z[i] == 2 * (w->x[i] + w->y[i]));
    for (unsigned i = 0; i < 9; i++) {
        uint64_t sum = 0;
        for (unsigned p = 0; p < WORDS / 3; p++)
            sum += 3 * w->x[i / 3 * (WORDS / 3) + p] * w->y[i % 3 * (WORDS / 3) + p];
        assert_true(w->product[i] == sum);
    }
}

static uvcc_cpu_config config(uvcc_cpu_mode mode) {
    owner = pthread_self();
    return (uvcc_cpu_config){.size = sizeof(uvcc_cpu_config),
                             .alloc = {owner_alloc, owner_free, NULL},
                             .mode = mode,
                             .threads = 3};
}

/* Submits and polls until all jobs came back once; their order goes to `order`. */
static void run_all(const uvcc_cpu_config *cfg, uint64_t *order) {
    uvcc_cpu *x = NULL;
    assert_int_equal(uvcc_cpu_new(&x, cfg), 0);
    work *w = malloc(JOBS * sizeof *w);
    assert_non_null(w);
    uint64_t rng = 7;
    bool seen[JOBS] = {false};
    unsigned sent = 0, got = 0;
    uvcc_completion c;
    while (got < JOBS) {
        for (unsigned k = 0; k < 5 && sent < JOBS; k++) {
            make_work(&w[sent], sent, &rng);
            const int e = uvcc_cpu_submit(x, &w[sent].job);
            if (e == UVCC_ERR_AGAIN)
                break;
            assert_int_equal(e, 0);
            sent++;
        }
        assert_int_equal(uvcc_cpu_pending(x), sent - got);
        uvcc_cpu_wait(x);
        while (uvcc_cpu_poll(x, &c)) {
            assert_true(c.id < sent && c.cookie == ~c.id && c.status == 0 && !seen[c.id]);
            seen[c.id] = true;
            check_work(&w[c.id]);
            order[got++] = c.id;
        }
    }
    assert_int_equal(uvcc_cpu_pending(x), 0);
    assert_int_equal(uvcc_cpu_poll(x, &c), 0);
    uvcc_cpu_wait(x); /* returns: nothing is pending */
    uvcc_cpu_free(x);
    free(w);
}

static void inline_mode(void **state) {
    (void)state;
    uint64_t order[JOBS];
    for (uint32_t backend = 0; backend <= 4; backend++) {
        uvcc_cpu_config cfg = config(UVCC_CPU_INLINE);
        cfg.backend = backend;
        run_all(&cfg, order);
        for (unsigned i = 0; i < JOBS; i++)
            assert_int_equal(order[i], i);
    }
}

static void deferred_mode(void **state) {
    (void)state;
    uint64_t order[3][JOBS];
    uvcc_cpu_config cfg = config(UVCC_CPU_DEFERRED);
    cfg.queue_jobs = 20;
    for (unsigned k = 0; k < 3; k++) {
        cfg.seed = k / 2; /* 0, 0, 1 */
        run_all(&cfg, order[k]);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
    assert_memory_not_equal(order[0], order[2], sizeof order[0]);
    unsigned early = 0;
    for (unsigned i = 1; i < JOBS; i++)
        early += order[0][i] < order[0][i - 1];
    assert_true(early > JOBS / 8); /* really out of order */
}

static void threads_mode(void **state) {
    (void)state;
    uint64_t order[JOBS];
    static const uint32_t depth[] = {1, 2, 7, 0};
    for (uint32_t t = 0; t < 4; t++) {
        uvcc_cpu_config cfg = config(UVCC_CPU_THREADS);
        cfg.threads = t;
        cfg.queue_jobs = depth[t];
        run_all(&cfg, order);
    }
}

/* ---- simulated time ---- */

static uint64_t timed_now(void *user) {
    return *(const uint64_t *)user;
}

/* Job i takes 10 i; job 0 nothing. */
static void timed_cost(void *user, const uvcc_job *job, uvcc_cpu_cost *cost) {
    (void)user;
    assert_int_equal(cost->rank, job->rank);
    assert_int_equal(cost->duration_ns, 0);
    cost->duration_ns = 10 * job->id;
    if (job->id == 5)
        cost->rank = 0; /* the hook's word counts */
}

/* One job at a time, the least rank of those that came; what takes no time is done at once. */
static void timed_mode(void **state) {
    (void)state;
    static const struct {
        uint64_t id, end;
    } expected[] = {{0, 0}, {5, 50}, {3, 80}, {1, 90}, {4, 130}, {2, 150}};
    static const uint64_t ranks[] = {9, 2, 7, 1, 3, 8};
    uint64_t now = 0, rng = 3;
    uvcc_cpu_config cfg = config(UVCC_CPU_TIMED);
    uvcc_cpu *x = NULL;
    uvcc_completion c;
    static work w[6];
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG); /* hooks are missing */
    cfg.cost = timed_cost;
    cfg.clock = timed_now;
    cfg.timed_user = &now;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
    assert_true(uvcc_cpu_due(x) == UVCC_NEVER);
    for (unsigned i = 0; i < 6; i++) {
        make_work(&w[i], i, &rng);
        w[i].job.rank = ranks[i];
        assert_int_equal(uvcc_cpu_submit(x, &w[i].job), 0);
    }
    for (unsigned k = 0; k < 6; k++) {
        uvcc_cpu_wait(x);
        const uint64_t due = uvcc_cpu_due(x);
        assert_true(due == expected[k].end);
        if (due != now) {
            assert_int_equal(uvcc_cpu_poll(x, &c), 0);
            now = due;
        }
        assert_int_equal(uvcc_cpu_poll(x, &c), 1);
        assert_int_equal(c.id, expected[k].id);
        check_work(&w[c.id]);
    }
    assert_int_equal(uvcc_cpu_pending(x), 0);
    now = UVCC_NEVER; /* the end of time: nothing runs, so nothing is done */
    assert_int_equal(uvcc_cpu_poll(x, &c), 0);
    make_work(&w[2], 2, &rng); /* and what runs then ends, without going round */
    assert_int_equal(uvcc_cpu_submit(x, &w[2].job), 0);
    uvcc_cpu_wait(x);
    assert_int_equal(uvcc_cpu_poll(x, &c), 1);
    assert_int_equal(uvcc_cpu_pending(x), 0);
    make_work(&w[1], 1, &rng); /* what waits when the executor goes is run all the same */
    assert_int_equal(uvcc_cpu_submit(x, &w[1].job), 0);
    uvcc_cpu_free(x);
    check_work(&w[1]);
}

/* A host that sleeps until the hook tells it to poll. */
typedef struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    unsigned count;
} bell;

static void ring(void *user) {
    bell *b = user;
    pthread_mutex_lock(&b->lock);
    b->count++;
    pthread_cond_signal(&b->rung);
    pthread_mutex_unlock(&b->lock);
}

static void wake_hook(void **state) {
    (void)state;
    static bell b = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0};
    uvcc_cpu_config cfg = config(UVCC_CPU_THREADS);
    cfg.wake = ring;
    cfg.wake_user = &b;
    uvcc_cpu *x = NULL;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
    uint64_t rng = 8;
    work *w = malloc(10 * sizeof *w);
    assert_non_null(w);
    for (unsigned i = 0; i < 10; i++) {
        make_work(&w[i], i, &rng);
        assert_int_equal(uvcc_cpu_submit(x, &w[i].job), 0);
    }
    uvcc_completion c;
    unsigned got = 0;
    while (got < 10) { /* a ring comes after its completion, so none is missed */
        pthread_mutex_lock(&b.lock);
        while (b.count == 0)
            pthread_cond_wait(&b.rung, &b.lock);
        b.count = 0;
        pthread_mutex_unlock(&b.lock);
        while (uvcc_cpu_poll(x, &c))
            got++;
    }
    uvcc_cpu_free(x);
    free(w);
}

/* Jobs that began and ended, by the thread's own count. */
typedef struct stopwatch {
    pthread_mutex_t lock;
    uint64_t begun, ended; /* bits by id */
} stopwatch;

static void on_job(void *user, const uvcc_job *job, bool done) {
    stopwatch *s = user;
    const uint64_t bit = 1ull << job->id;
    pthread_mutex_lock(&s->lock);
    uint64_t *set = done ? &s->ended : &s->begun;
    assert_int_equal(*set & bit, 0);
    assert_int_equal((s->begun & bit) != 0, done);
    *set |= bit;
    pthread_mutex_unlock(&s->lock);
}

/* Each job is announced right before and right after it runs. */
static void job_hook(void **state) {
    (void)state;
    for (int mode = UVCC_CPU_INLINE; mode <= UVCC_CPU_THREADS; mode++) {
        stopwatch s = {.lock = PTHREAD_MUTEX_INITIALIZER};
        uvcc_cpu_config cfg = config((uvcc_cpu_mode)mode);
        cfg.job = on_job;
        cfg.job_user = &s;
        uvcc_cpu *x = NULL;
        assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(uvcc_cpu_submit(x, &(uvcc_job){.id = i}), 0);
        uvcc_completion c;
        for (unsigned got = 0; got < 5;) { /* the rest runs when it is freed */
            uvcc_cpu_wait(x);
            if (uvcc_cpu_poll(x, &c) == 0)
                continue;
            got++;
            pthread_mutex_lock(&s.lock);
            assert_true((s.ended >> c.id & 1) != 0);
            pthread_mutex_unlock(&s.lock);
        }
        uvcc_cpu_free(x);
        assert_int_equal(s.begun, 1023);
        assert_int_equal(s.ended, 1023);
    }
}

#if defined(__SANITIZE_THREAD__) /* whose variables alone take most of such a stack */
#define SETS_STACKS 0
#elif defined(__GLIBC__)
#define SETS_STACKS 1
#else
#define SETS_STACKS 0
#endif

#if SETS_STACKS
static void use_stack(void *user, const uvcc_job *job, bool done) {
    volatile uint8_t part[UVCC_TASK_STACK_BYTES];
    (void)job;
    (void)done;
    for (size_t i = 0; i < sizeof part; i += 1024)
        part[i] = 1;
    *(uint8_t *)user = part[0];
}

/* The hooks have as much stack as a task may take, where threads have little by default. */
static void workers_have_stack(void **state) {
    (void)state;
    pthread_attr_t little, old;
    assert_int_equal(pthread_getattr_default_np(&old), 0);
    assert_int_equal(pthread_getattr_default_np(&little), 0);
    assert_int_equal(pthread_attr_setstacksize(&little, 128u << 10), 0);
    assert_int_equal(pthread_setattr_default_np(&little), 0);
    uint8_t used = 0;
    uvcc_cpu_config cfg = config(UVCC_CPU_THREADS);
    cfg.threads = 1;
    cfg.job = use_stack;
    cfg.job_user = &used;
    uvcc_cpu *x = NULL;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
    assert_int_equal(uvcc_cpu_submit(x, &(uvcc_job){.id = 1}), 0);
    uvcc_cpu_wait(x);
    uvcc_cpu_free(x);
    assert_int_equal(used, 1);
    assert_int_equal(pthread_setattr_default_np(&old), 0);
    assert_int_equal(pthread_attr_destroy(&little), 0);
    assert_int_equal(pthread_attr_destroy(&old), 0);
}
#endif

static void bad_jobs(void **state) {
    (void)state;
    for (int mode = UVCC_CPU_INLINE; mode <= UVCC_CPU_THREADS; mode++) {
        const uvcc_cpu_config cfg = config((uvcc_cpu_mode)mode);
        uvcc_cpu *x = NULL;
        assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
        const uvcc_task unknown = {.kind = 999};
        const uvcc_job bad = {.id = 1, .cookie = 2, .tasks = &unknown, .count = 1};
        const uvcc_job empty = {.id = 3, .cookie = 4};
        assert_int_equal(uvcc_cpu_submit(x, &bad), 0);
        assert_int_equal(uvcc_cpu_submit(x, &empty), 0);
        uvcc_completion c;
        for (unsigned got = 0; got < 2;) {
            uvcc_cpu_wait(x);
            if (uvcc_cpu_poll(x, &c) == 0)
                continue;
            got++;
            assert_int_equal(c.status, c.id == 1 ? UVCC_ERR_JOB : 0);
            assert_int_equal(c.cookie, c.id + 1);
        }
        uvcc_cpu_free(x);
    }
}

/* What is out is finished before the object goes. */
static void free_finishes(void **state) {
    (void)state;
    for (int mode = UVCC_CPU_INLINE; mode <= UVCC_CPU_THREADS; mode++) {
        uvcc_cpu_config cfg = config((uvcc_cpu_mode)mode);
        cfg.queue_jobs = 50;
        uvcc_cpu *x = NULL;
        assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
        work *w = malloc(51 * sizeof *w);
        assert_non_null(w);
        uint64_t rng = 9;
        for (unsigned i = 0; i <= 50; i++) {
            make_work(&w[i], i, &rng);
            assert_int_equal(uvcc_cpu_submit(x, &w[i].job), i < 50 ? 0 : UVCC_ERR_AGAIN);
        }
        assert_int_equal(uvcc_cpu_pending(x), 50);
        uvcc_cpu_free(x);
        for (unsigned i = 0; i < 50; i++)
            check_work(&w[i]);
        free(w);
    }
}

static void bad_use(void **state) {
    (void)state;
    uvcc_cpu *x = NULL;
    uvcc_cpu_config cfg = config(UVCC_CPU_INLINE);
    assert_int_equal(uvcc_cpu_new(NULL, &cfg), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_cpu_new(&x, NULL), UVCC_ERR_USAGE);
    static const size_t sizes[] = {0, 8, sizeof cfg + 1};
    for (unsigned i = 0; i < 3; i++) {
        cfg.size = sizes[i];
        assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    }
    cfg = config((uvcc_cpu_mode)3);
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    cfg = config(UVCC_CPU_INLINE);
    cfg.backend = 5;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    cfg = config(UVCC_CPU_THREADS);
    cfg.threads = 100000;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    cfg = config(UVCC_CPU_INLINE);
    cfg.queue_jobs = UINT32_MAX;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    cfg = config(UVCC_CPU_INLINE);
    cfg.alloc.free = NULL;
    assert_int_equal(uvcc_cpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    assert_null(x);

    cfg = config(UVCC_CPU_INLINE);
    assert_int_equal(uvcc_cpu_new(&x, &cfg), 0);
    uvcc_completion c;
    assert_int_equal(uvcc_cpu_submit(x, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_cpu_submit(NULL, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_cpu_poll(x, NULL), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_cpu_poll(NULL, &c), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_cpu_pending(NULL), 0);
    uvcc_cpu_free(x);
    uvcc_cpu_free(NULL);
}

static void allocation_failures(void **state) {
    (void)state;
    for (int mode = UVCC_CPU_INLINE; mode <= UVCC_CPU_THREADS; mode++)
        for (size_t i = 1;; i++) {
            test_alloc mem = {.fail_at = i};
            uvcc_cpu_config cfg = config((uvcc_cpu_mode)mode);
            cfg.alloc = test_allocator(&mem);
            uvcc_cpu *x = NULL;
            const int e = uvcc_cpu_new(&x, &cfg);
            assert_true(e == 0 || (e == UVCC_ERR_NOMEM && x == NULL));
            if (e == 0)
                uvcc_cpu_free(x);
            assert_int_equal(mem.live_blocks, 0);
            assert_int_equal(mem.live_bytes, 0);
            if (e == 0) {
                assert_true(i > 3);
                break;
            }
        }
}

/* ---- the queue ---- */

enum { PRODUCERS = 3, EACH = 2000 };

typedef struct producer {
    uvcci_queue *q;
    uint32_t id;
} producer;

static void *produce(void *arg) {
    const producer *p = arg;
    for (uint32_t i = 0; i < EACH; i++) {
        const uint32_t item[2] = {p->id, i};
        while (uvcci_queue_push(p->q, item) == UVCC_ERR_AGAIN)
            ;
    }
    return NULL;
}

static void queue_many_producers(void **state) {
    (void)state;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_queue q;
    assert_int_equal(uvcci_queue_init(&q, &al, 8, UVCCI_QUEUE_FIFO, 16), 0);
    pthread_t ids[PRODUCERS];
    producer p[PRODUCERS];
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        p[i] = (producer){&q, i};
        assert_int_equal(pthread_create(&ids[i], NULL, produce, &p[i]), 0);
    }
    uint32_t next[PRODUCERS] = {0}, item[2];
    for (uint32_t got = 0; got < PRODUCERS * EACH; got++) {
        if (got % 2 == 0)
            uvcci_queue_wait(&q);
        assert_int_equal(uvcci_queue_pop(&q, item), 1);
        assert_true(item[0] < PRODUCERS && item[1] == next[item[0]]); /* each in its order */
        next[item[0]]++;
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(ids[i], NULL);
    assert_int_equal(uvcci_queue_try_pop(&q, item), 0);
    uvcci_queue_free(&q);
    assert_int_equal(mem.live_blocks, 0);
}

/* Lesser ranks first, equal ones as they came, whatever is popped in between. */
static void queue_by_rank(void **state) {
    (void)state;
    enum { ITEMS = 500 };
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    struct ranked {
        uint32_t number;
        uint64_t rank;
    } in[ITEMS], out;
    bool here[ITEMS] = {false};
    uvcci_queue q;
    uint64_t seed = 7;
    assert_int_equal(uvcci_queue_init(&q, &al, sizeof in[0], offsetof(struct ranked, rank), ITEMS),
                     0);
    for (uint32_t i = 0, left = 0; i < ITEMS || left != 0;) {
        if (i < ITEMS && test_rand(&seed) % 3 != 0) {
            in[i] = (struct ranked){i, test_rand(&seed) % 16};
            assert_int_equal(uvcci_queue_push(&q, &in[i]), 0);
            here[i++] = true;
            left++;
            continue;
        }
        if (left == 0)
            continue;
        assert_int_equal(uvcci_queue_try_pop(&q, &out), 1);
        for (uint32_t k = 0; k < i; k++)
            if (here[k] && k != out.number)
                assert_true(in[k].rank > out.rank || (in[k].rank == out.rank && k > out.number));
        assert_true(here[out.number]);
        here[out.number] = false;
        left--;
    }
    uvcci_queue_free(&q);
    assert_int_equal(mem.live_blocks, 0);
}

static void queue_bounds(void **state) {
    (void)state;
    test_alloc mem = {.fail_at = 1};
    const uvcc_allocator al = test_allocator(&mem);
    uvcci_queue q;
    assert_int_equal(uvcci_queue_init(&q, &al, 8, UVCCI_QUEUE_FIFO, 3), UVCC_ERR_NOMEM);
    assert_int_equal(uvcci_queue_init(&q, &al, 8, UVCCI_QUEUE_FIFO, 3), 0);
    uint64_t out, in = 0, expect = 0;
    for (unsigned round = 0; round < 10; round++) { /* the ring turns */
        for (; in < expect + 3; in++)
            assert_int_equal(uvcci_queue_push(&q, &in), 0);
        assert_int_equal(uvcci_queue_push(&q, &in), UVCC_ERR_AGAIN);
        for (unsigned k = 0; k < 2; k++) {
            assert_int_equal(uvcci_queue_try_pop(&q, &out), 1);
            assert_int_equal(out, expect++);
        }
    }
    uvcci_queue_close(&q);
    assert_int_equal(uvcci_queue_push(&q, &in), UVCC_ERR_CLOSED);
    assert_int_equal(uvcci_queue_pop(&q, &out), 1); /* what is in comes out */
    assert_int_equal(out, expect);
    assert_int_equal(uvcci_queue_pop(&q, &out), 0);
    uvcci_queue_wait(&q);
    uvcci_queue_free(&q);
    assert_int_equal(mem.live_blocks, 0);
}

/* ---- jobs that go elsewhere ---- */

static int submit_there(void *user, const uvcc_job *job) {
    return uvcc_cpu_submit(user, job);
}
static int poll_there(void *user, uvcc_completion *out) {
    return uvcc_cpu_poll(user, out);
}
static void wait_there(void *user) {
    uvcc_cpu_wait(user);
}

/* Another executor has the jobs: here one on threads that takes two at a time. What is out when the
 * first one goes ends there. */
static void elsewhere(void **state) {
    (void)state;
    uvcc_cpu_config there = config(UVCC_CPU_THREADS), here = config(UVCC_CPU_ELSEWHERE);
    uvcc_cpu *x = NULL, *other = NULL;
    uint64_t order[JOBS];
    assert_int_equal(uvcc_cpu_new(&x, &here), UVCC_ERR_CONFIG); /* without hooks */
    assert_null(x);
    there.queue_jobs = 2;
    assert_int_equal(uvcc_cpu_new(&other, &there), 0);
    here.elsewhere = (uvcc_cpu_elsewhere){submit_there, poll_there, wait_there, other};
    run_all(&here, order);
    assert_int_equal(uvcc_cpu_pending(other), 0);
    assert_int_equal(uvcc_cpu_new(&x, &here), 0);
    assert_int_equal(uvcc_cpu_due(x), UVCC_NEVER);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(uvcc_cpu_submit(x, &(uvcc_job){.id = i}), 0);
    assert_int_equal(uvcc_cpu_submit(x, &(uvcc_job){.id = 2}), UVCC_ERR_AGAIN);
    assert_int_equal(uvcc_cpu_pending(x), 2);
    assert_int_equal(uvcc_cpu_due(x), 0);
    uvcc_cpu_wait(x);
    uvcc_cpu_free(x);
    assert_int_equal(uvcc_cpu_pending(other), 0);
    uvcc_cpu_free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inline_mode),
        cmocka_unit_test(deferred_mode),
        cmocka_unit_test(threads_mode),
        cmocka_unit_test(wake_hook),
        cmocka_unit_test(job_hook),
        cmocka_unit_test(elsewhere),
#if SETS_STACKS
        cmocka_unit_test(workers_have_stack),
#endif
        cmocka_unit_test(bad_jobs),
        cmocka_unit_test(free_finishes),
        cmocka_unit_test(bad_use),
        cmocka_unit_test(allocation_failures),
        cmocka_unit_test(queue_many_producers),
        cmocka_unit_test(timed_mode),
        cmocka_unit_test(queue_by_rank),
        cmocka_unit_test(queue_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
