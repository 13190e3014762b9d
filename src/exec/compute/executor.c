/* SPDX-License-Identifier: Apache-2.0 */
/* executor.c - jobs on the CPU: at once, later in a shuffled order, or on threads.
 *
 * The object belongs to one thread; only the two queues are shared with the workers. INLINE and
 * THREADS hand completions out through `done`, THREADS hands jobs in through `todo`, DEFERRED keeps
 * jobs in `kept` and runs one when it is polled, TIMED keeps them in `todo`, runs one and keeps its
 * completion in `running` until its time is over, ELSEWHERE keeps none. Invariants: pending <=
 * queue_jobs, which is also every capacity, so no push can fail; every submitted job makes exactly
 * one completion. */
#include <uvcc/compute.h>

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "exec/compute/kernels.h"
#include "exec/compute/queue.h"

enum { DEFAULT_THREADS = 2, MAX_THREADS = 256, DEFAULT_JOBS = 1024, MAX_JOBS = 1 << 20 };

typedef struct cpu_thread {
    uvcc_cpu *of;
    pthread_t id;
    uvcci_cpu_worker worker;
} cpu_thread;

struct uvcc_cpu {
    uvcc_cpu_config cfg;
    uint32_t pending;
    uvcci_queue done; /* INLINE, THREADS */

    uvcci_cpu_worker worker; /* INLINE, DEFERRED */

    uvcc_job *kept; /* DEFERRED */
    uint32_t kept_count;
    uint64_t shuffle;

    uvcci_queue todo; /* THREADS; TIMED: of timed_job */
    cpu_thread *threads;
    uint32_t thread_count; /* running */

    uvcc_completion running; /* TIMED: of the job that has the resource until running_end */
    uint64_t running_end;
    bool busy; /* a job has the resource */
};

/* What TIMED keeps of a job that waits. */
typedef struct timed_job {
    uint64_t rank, duration_ns;
    uvcc_job job;
} timed_job;

static void *cpu_alloc(const uvcc_cpu_config *cfg, size_t bytes) {
    return cfg->alloc.alloc(cfg->alloc.user, bytes, UVCC_MEM_STATE);
}

static void cpu_release(const uvcc_cpu_config *cfg, void *p, size_t bytes) {
    cfg->alloc.free(cfg->alloc.user, p, bytes, UVCC_MEM_STATE);
}

static uvcc_completion run(const uvcc_cpu *x, uvcci_cpu_worker *w, const uvcc_job *job) {
    if (x->cfg.job != NULL)
        x->cfg.job(x->cfg.job_user, job, false);
    const uvcc_completion c = {job->id, job->cookie, uvcci_cpu_run(w, job)};
    if (x->cfg.job != NULL)
        x->cfg.job(x->cfg.job_user, job, true);
    return c;
}

static void deliver(uvcc_cpu *x, uvcci_cpu_worker *w, const uvcc_job *job) {
    const uvcc_completion c = run(x, w, job);
    const int e = uvcci_queue_push(&x->done, &c);
    assert(e == 0); /* room for all that may be pending */
    (void)e;
}

/* --- INLINE: one worker and a queue ----------------------------------------------------------- */

static int inline_open(uvcc_cpu *x) {
    const int e = uvcci_queue_init(&x->done, &x->cfg.alloc, sizeof(uvcc_completion),
                                   UVCCI_QUEUE_FIFO, x->cfg.queue_jobs);
    if (e != 0)
        return e;
    const int f = uvcci_cpu_worker_init(&x->worker, &x->cfg.alloc, x->cfg.backend);
    if (f != 0)
        uvcci_queue_free(&x->done);
    return f;
}

static void inline_close(uvcc_cpu *x) {
    uvcci_cpu_worker_free(&x->worker);
    uvcci_queue_free(&x->done);
}

/* --- DEFERRED: jobs wait, and come out in any order ------------------------------------------- */

static uint64_t shuffle_next(uvcc_cpu *x) { /* splitmix64 */
    uint64_t z = (x->shuffle += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static int deferred_open(uvcc_cpu *x) {
    const size_t bytes = x->cfg.queue_jobs * sizeof *x->kept;
    x->kept = cpu_alloc(&x->cfg, bytes);
    if (x->kept == NULL)
        return UVCC_ERR_NOMEM;
    const int e = uvcci_cpu_worker_init(&x->worker, &x->cfg.alloc, x->cfg.backend);
    if (e != 0)
        cpu_release(&x->cfg, x->kept, bytes);
    x->shuffle = x->cfg.seed;
    return e;
}

static void deferred_close(uvcc_cpu *x) {
    while (x->kept_count != 0)
        run(x, &x->worker, &x->kept[--x->kept_count]);
    uvcci_cpu_worker_free(&x->worker);
    cpu_release(&x->cfg, x->kept, x->cfg.queue_jobs * sizeof *x->kept);
}

static int deferred_poll(uvcc_cpu *x, uvcc_completion *out) {
    if (x->kept_count == 0 || shuffle_next(x) % 4 == 0)
        return 0;
    uvcc_job *job = &x->kept[shuffle_next(x) % x->kept_count];
    *out = run(x, &x->worker, job);
    *job = x->kept[--x->kept_count];
    return 1;
}

/* --- THREADS ---------------------------------------------------------------------------------- */

static void *thread_main(void *arg) {
    cpu_thread *t = arg;
    uvcc_job job;
    while (uvcci_queue_pop(&t->of->todo, &job)) {
        deliver(t->of, &t->worker, &job);
        if (t->of->cfg.wake != NULL)
            t->of->cfg.wake(t->of->cfg.wake_user);
    }
    return NULL;
}

/* Finishes what is out, then ends the threads. */
static void threads_stop(uvcc_cpu *x) {
    uvcci_queue_close(&x->todo);
    for (uint32_t i = 0; i < x->thread_count; i++) {
        pthread_join(x->threads[i].id, NULL);
        uvcci_cpu_worker_free(&x->threads[i].worker);
    }
}

/* The system's default may be less than a task takes. What a thread needs for itself - variables of
 * its own, a sanitizer's - may come out of its stack too. */
static int thread_start(cpu_thread *t) {
    pthread_attr_t attr;
    size_t bytes;
    if (pthread_attr_init(&attr) != 0)
        return UVCC_ERR_NOMEM;
    int e = pthread_attr_getstacksize(&attr, &bytes);
    if (e == 0 && bytes < 4 * UVCC_TASK_STACK_BYTES)
        e = pthread_attr_setstacksize(&attr, 4 * UVCC_TASK_STACK_BYTES);
    if (e == 0)
        e = pthread_create(&t->id, &attr, thread_main, t);
    pthread_attr_destroy(&attr);
    return e == 0 ? 0 : UVCC_ERR_NOMEM;
}

static int threads_start(uvcc_cpu *x) {
    for (; x->thread_count < x->cfg.threads; x->thread_count++) {
        cpu_thread *t = &x->threads[x->thread_count];
        t->of = x;
        int e = uvcci_cpu_worker_init(&t->worker, &x->cfg.alloc, x->cfg.backend);
        if (e != 0)
            return e;
        e = uvcci_cpu_worker_reserve(&t->worker);
        if (e == 0)
            e = thread_start(t);
        if (e != 0) {
            uvcci_cpu_worker_free(&t->worker);
            return e;
        }
    }
    return 0;
}

static void threads_close(uvcc_cpu *x) {
    threads_stop(x);
    cpu_release(&x->cfg, x->threads, x->cfg.threads * sizeof *x->threads);
    uvcci_queue_free(&x->todo);
    uvcci_queue_free(&x->done);
}

static int threads_open(uvcc_cpu *x) {
    const uvcc_allocator *al = &x->cfg.alloc;
    int e = uvcci_queue_init(&x->done, al, sizeof(uvcc_completion), UVCCI_QUEUE_FIFO,
                             x->cfg.queue_jobs);
    if (e != 0)
        return e;
    e = uvcci_queue_init(&x->todo, al, sizeof(uvcc_job), offsetof(uvcc_job, rank),
                         x->cfg.queue_jobs);
    if (e != 0) {
        uvcci_queue_free(&x->done);
        return e;
    }
    x->threads = cpu_alloc(&x->cfg, x->cfg.threads * sizeof *x->threads);
    if (x->threads == NULL) {
        uvcci_queue_free(&x->todo);
        uvcci_queue_free(&x->done);
        return UVCC_ERR_NOMEM;
    }
    e = threads_start(x);
    if (e != 0)
        threads_close(x);
    return e;
}

/* --- Back ends -------------------------------------------------------------------------------- */

const char *uvcc_cpu_backend_name(uint32_t backend) {
    static const char *const names[UVCC_BACKEND_END] = {
#define UVCC_BACKEND(name, number, text, what) [number] = (text),
#include <uvcc/backends.def>
#undef UVCC_BACKEND
    };
    return backend < UVCC_BACKEND_END ? names[backend] : NULL;
}

/* AES counts: a CPU may have the vectors of a back end and not its AES, and trees are made of AES.
 */
bool uvcc_cpu_backend_is_here(uint32_t backend) {
    static const uvcci_aes_backend aes[UVCC_BACKEND_END] = {
        [UVCC_BACKEND_AUTO] = UVCCI_AES_PORTABLE, [UVCC_BACKEND_PORTABLE] = UVCCI_AES_PORTABLE,
        [UVCC_BACKEND_AVX2] = UVCCI_AES_NI,       [UVCC_BACKEND_AVX512] = UVCCI_AES_VAES,
        [UVCC_BACKEND_AMX] = UVCCI_AES_VAES,
    };
    return backend < UVCC_BACKEND_END && (uint32_t)uvcci_gemm_best() >= backend &&
           uvcci_aes_best() >= aes[backend];
}

/* --- TIMED: one resource in simulated time -----------------------------------------------------
 */

static void timed_close(uvcc_cpu *x) {
    timed_job waiting;
    while (uvcci_queue_try_pop(&x->todo, &waiting))
        (void)run(x, &x->worker, &waiting.job);
    uvcci_queue_free(&x->todo);
    inline_close(x);
}

static int timed_open(uvcc_cpu *x) {
    if (x->cfg.cost == NULL || x->cfg.clock == NULL)
        return UVCC_ERR_CONFIG;
    const int e = inline_open(x);
    if (e != 0)
        return e;
    const int f = uvcci_queue_init(&x->todo, &x->cfg.alloc, sizeof(timed_job),
                                   offsetof(timed_job, rank), x->cfg.queue_jobs);
    if (f != 0)
        inline_close(x);
    return f;
}

/* Gives the resource to the next job, if it is free. The host says when, with uvcc_cpu_wait(): what
 * comes at one time is ranked before one of it starts. */
static void timed_start(uvcc_cpu *x) {
    timed_job next;
    if (x->busy || !uvcci_queue_try_pop(&x->todo, &next))
        return;
    x->running = run(x, &x->worker, &next.job);
    x->busy = true;
    const uint64_t end = UVCC_NEVER - 1, now = x->cfg.clock(x->cfg.timed_user);
    x->running_end = now < end && next.duration_ns < end - now ? now + next.duration_ns : end;
}

static void timed_submit(uvcc_cpu *x, const uvcc_job *job) {
    uvcc_cpu_cost cost = {.rank = job->rank};
    x->cfg.cost(x->cfg.timed_user, job, &cost);
    if (cost.duration_ns == 0) {
        deliver(x, &x->worker, job);
        return;
    }
    const timed_job waiting = {cost.rank, cost.duration_ns, *job};
    const int e = uvcci_queue_push(&x->todo, &waiting);
    assert(e == 0);
    (void)e;
}

static int timed_poll(uvcc_cpu *x, uvcc_completion *out) {
    if (uvcci_queue_try_pop(&x->done, out))
        return 1;
    const bool over = x->busy && x->running_end <= x->cfg.clock(x->cfg.timed_user);
    if (over) {
        *out = x->running;
        x->busy = false;
    }
    return over;
}

/* --- ELSEWHERE: another executor has the jobs --------------------------------------------------
 */

static int elsewhere_open(const uvcc_cpu *x) {
    const uvcc_cpu_elsewhere *e = &x->cfg.elsewhere;
    return e->submit == NULL || e->poll == NULL || e->wait == NULL ? UVCC_ERR_CONFIG : 0;
}

/* What is out ends there first. */
static void elsewhere_close(uvcc_cpu *x) {
    const uvcc_cpu_elsewhere *e = &x->cfg.elsewhere;
    uvcc_completion dropped;
    while (x->pending != 0) {
        e->wait(e->user);
        x->pending -= e->poll(e->user, &dropped) == 1;
    }
}

static int elsewhere_submit(uvcc_cpu *x, const uvcc_job *job) {
    const int e = x->cfg.elsewhere.submit(x->cfg.elsewhere.user, job);
    x->pending += e == 0;
    return e;
}

/* --- The object ------------------------------------------------------------------------------- */

static int config_read(uvcc_cpu_config *cfg, const uvcc_cpu_config *from) {
    /* A caller built against an older header has a shorter config; what it lacks is 0. */
    if (from == NULL || from->size < offsetof(uvcc_cpu_config, mode) || from->size > sizeof *from)
        return UVCC_ERR_CONFIG;
    *cfg = (uvcc_cpu_config){0};
    memcpy(cfg, from, from->size);
    if (cfg->alloc.alloc == NULL || cfg->alloc.free == NULL)
        return UVCC_ERR_CONFIG;
    if (cfg->threads == 0)
        cfg->threads = DEFAULT_THREADS;
    if (cfg->queue_jobs == 0)
        cfg->queue_jobs = DEFAULT_JOBS;
    return cfg->threads > MAX_THREADS || cfg->queue_jobs > MAX_JOBS ||
                   cfg->backend >= UVCC_BACKEND_END
               ? UVCC_ERR_CONFIG
               : 0;
}

/* A failed mode has given back all it took, so that only the object itself is left to free. */
int uvcc_cpu_new(uvcc_cpu **out, const uvcc_cpu_config *from) {
    if (from == NULL)
        return UVCC_ERR_USAGE;
    if (out == NULL)
        return UVCC_ERR_USAGE;
    uvcc_cpu_config cfg;
    int e = config_read(&cfg, from);
    if (e != 0)
        return e;
    uvcc_cpu *x = cpu_alloc(&cfg, sizeof *x);
    if (x == NULL)
        return UVCC_ERR_NOMEM;
    *x = (uvcc_cpu){.cfg = cfg};
    switch (cfg.mode) {
    case UVCC_CPU_INLINE:
        e = inline_open(x);
        break;
    case UVCC_CPU_DEFERRED:
        e = deferred_open(x);
        break;
    case UVCC_CPU_THREADS:
        e = threads_open(x);
        break;
    case UVCC_CPU_TIMED:
        e = timed_open(x);
        break;
    case UVCC_CPU_ELSEWHERE:
        e = elsewhere_open(x);
        break;
    default:
        e = UVCC_ERR_CONFIG;
    }
    if (e != 0)
        cpu_release(&cfg, x, sizeof *x);
    else
        *out = x;
    return e;
}

void uvcc_cpu_free(uvcc_cpu *x) {
    if (x == NULL)
        return;
    if (x->cfg.mode == UVCC_CPU_INLINE)
        inline_close(x);
    else if (x->cfg.mode == UVCC_CPU_DEFERRED)
        deferred_close(x);
    else if (x->cfg.mode == UVCC_CPU_TIMED)
        timed_close(x);
    else if (x->cfg.mode == UVCC_CPU_ELSEWHERE)
        elsewhere_close(x);
    else
        threads_close(x);
    const uvcc_cpu_config cfg = x->cfg;
    cpu_release(&cfg, x, sizeof *x);
}

int uvcc_cpu_submit(uvcc_cpu *x, const uvcc_job *job) {
    if (x == NULL || job == NULL)
        return UVCC_ERR_USAGE;
    if (x->pending == x->cfg.queue_jobs)
        return UVCC_ERR_AGAIN;
    if (x->cfg.mode == UVCC_CPU_ELSEWHERE)
        return elsewhere_submit(x, job);
    x->pending++;
    if (x->cfg.mode == UVCC_CPU_INLINE) {
        deliver(x, &x->worker, job);
    } else if (x->cfg.mode == UVCC_CPU_DEFERRED) {
        x->kept[x->kept_count++] = *job;
    } else if (x->cfg.mode == UVCC_CPU_TIMED) {
        timed_submit(x, job);
    } else {
        const int e = uvcci_queue_push(&x->todo, job);
        assert(e == 0);
        (void)e;
    }
    return 0;
}

int uvcc_cpu_poll(uvcc_cpu *x, uvcc_completion *out) {
    if (x == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    const int some = x->cfg.mode == UVCC_CPU_DEFERRED ? deferred_poll(x, out)
                     : x->cfg.mode == UVCC_CPU_TIMED  ? timed_poll(x, out)
                     : x->cfg.mode == UVCC_CPU_ELSEWHERE
                         ? x->cfg.elsewhere.poll(x->cfg.elsewhere.user, out)
                         : uvcci_queue_try_pop(&x->done, out);
    x->pending -= some == 1;
    return some;
}

uint32_t uvcc_cpu_pending(const uvcc_cpu *x) {
    return x == NULL ? 0 : x->pending;
}

uint64_t uvcc_cpu_due(const uvcc_cpu *x) {
    if (x == NULL || x->pending == 0)
        return UVCC_NEVER;
    if (x->cfg.mode != UVCC_CPU_TIMED || x->done.count != 0)
        return 0;
    return x->busy ? x->running_end : UVCC_NEVER;
}

void uvcc_cpu_wait(uvcc_cpu *x) {
    if (x == NULL)
        return;
    if (x->cfg.mode == UVCC_CPU_THREADS && x->pending != 0)
        uvcci_queue_wait(&x->done);
    if (x->cfg.mode == UVCC_CPU_ELSEWHERE && x->pending != 0)
        x->cfg.elsewhere.wait(x->cfg.elsewhere.user);
    if (x->cfg.mode == UVCC_CPU_TIMED)
        timed_start(x);
}
