/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - see lane.h.
 *
 * A job is gone through three times: sizes are counted, descriptors are written and go up in one
 * copy, kernels are launched. Each time place() gives a task the same offsets. Nothing is launched
 * of a job that has a task that cannot run. */
#include "gpu/lane.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpu/describe.h"
#include "gpu/launch.h"

enum { ALIGN = 64, FIRST_ROOM = 1 << 20, OUTSIDE_ROOM = 64, SCRATCH_LARGE = 64 << 20 };

static int fail(uvcci_lane *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(l->text, sizeof l->text, format, args);
    va_end(args);
    return UVCC_ERR_JOB;
}

static const char *kind_name(unsigned kind) {
    static const char *const names[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    return kind < UVCC_TASK_KIND_END && names[kind] != NULL ? names[kind] : "an unknown kind";
}

static int cuda(uvcci_lane *l, cudaError_t e, const char *what) {
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError(); /* it is said here, and the next job's launches are not at fault */
    return fail(l, "%s: %s", what, cudaGetErrorString(e));
}

/* --- Close ------------------------------------------------------------------------------------ */

static void drop_room(uvcci_lane *l) {
    if (l->host != NULL)
        (void)cudaFreeHost(l->host);
    if (l->dev != NULL)
        (void)cudaFree(l->dev);
    l->host = l->dev = NULL;
    l->room = 0;
}

/* Residues of shares and digests of secrets stood there. */
static void drop_scratch(uvcci_lane *l) {
    if (l->scratch != NULL) {
        (void)cudaMemset(l->scratch, 0, l->scratch_room);
        (void)cudaFree(l->scratch);
    }
    l->scratch = NULL;
    l->scratch_room = 0;
}

void uvcci_lane_close(uvcci_lane *l, bool give_back) {
    const uvcc_allocator *al = &l->home->records;
    if (l->outside != NULL)
        al->free(al->user, l->outside, l->outside_room * sizeof *l->outside, UVCC_MEM_STATE);
    if (!give_back)
        return;
    drop_room(l);
    drop_scratch(l);
    if (l->end != NULL)
        (void)cudaEventDestroy(l->end);
    if (l->stream != NULL)
        (void)cudaStreamDestroy(l->stream);
}

/* --- Room, and open --------------------------------------------------------------------------- */

static int reserve(uvcci_lane *l, size_t bytes) {
    if (bytes <= l->room)
        return 0;
    size_t room = l->room == 0 ? FIRST_ROOM : l->room;
    while (room < bytes)
        room *= 2;
    drop_room(l);
    int e = cuda(l, cudaHostAlloc((void **)&l->host, room, cudaHostAllocMapped), "descriptors");
    if (e == 0)
        e = cuda(l, cudaMalloc((void **)&l->dev, room), "descriptors");
    if (e == 0)
        l->room = room;
    else
        drop_room(l);
    return e;
}

static cudaError_t grow_scratch(uvcci_lane *l, size_t bytes) {
    const size_t room = bytes < FIRST_ROOM ? FIRST_ROOM : bytes < SCRATCH_LARGE ? 2 * bytes : bytes;
    if (bytes <= l->scratch_room)
        return cudaSuccess;
    drop_scratch(l);
    const cudaError_t rc = cudaMalloc((void **)&l->scratch, room);
    if (rc == cudaSuccess)
        l->scratch_room = room;
    else
        (void)cudaGetLastError(); /* it is said here, and no later call's */
    return rc;
}

/* More than what is needed is welcome, but not at the price of the job. */
static int reserve_scratch(uvcci_lane *l, size_t needed, size_t wanted) {
    (void)grow_scratch(l, wanted > needed ? wanted : needed);
    return cuda(l, grow_scratch(l, needed), "scratch");
}

/* What small jobs take is there from the beginning, whatever becomes of the device's memory. */
int uvcci_lane_open(uvcci_lane *l, uvcci_lane_home *home) {
    *l = (uvcci_lane){.home = home};
    int e = cuda(l, cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking), "a stream");
    if (e == 0)
        e = cuda(l, cudaEventCreateWithFlags(&l->end, cudaEventDisableTiming), "an event");
    if (e == 0)
        e = reserve(l, FIRST_ROOM);
    return e == 0 ? reserve_scratch(l, FIRST_ROOM, 0) : e;
}

static size_t take(uvcci_lane *l, size_t bytes) {
    const size_t at = l->used;
    l->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

/* --- Memory outside --------------------------------------------------------------------------- */

static bool reachable(const uvcci_lane *l, const void *p, size_t bytes) {
    return uvcci_gpu_pool_has(&l->home->pinned, p, bytes) ||
           uvcci_gpu_pool_has(&l->home->device, p, bytes);
}

static int outside_room(uvcci_lane *l) {
    const uvcc_allocator *al = &l->home->records;
    if (l->outside_count < l->outside_room)
        return 0;
    const uint32_t room = l->outside_room == 0 ? OUTSIDE_ROOM : 2 * l->outside_room;
    uvcci_lane_outside *more = al->alloc(al->user, room * sizeof *more, UVCC_MEM_STATE);
    if (more == NULL)
        return fail(l, "no memory");
    if (l->outside != NULL) {
        memcpy(more, l->outside, l->outside_count * sizeof *more);
        al->free(al->user, l->outside, l->outside_room * sizeof *more, UVCC_MEM_STATE);
    }
    l->outside = more;
    l->outside_room = room;
    return 0;
}

/* Notes a range that a task names, if it is outside. */
static int note(uvcci_lane *l, const void *p, size_t bytes, bool written) {
    if (p == NULL || bytes == 0 || reachable(l, p, bytes))
        return 0;
    const int e = outside_room(l);
    if (e == 0)
        l->outside[l->outside_count++] =
            (uvcci_lane_outside){.at = (uint8_t *)(uintptr_t)p, .bytes = bytes, .written = written};
    return e;
}

/* Ranges that meet become one, so that what a task writes is what the next one reads. Few jobs have
 * any, and those few. */
static void join_outside(uvcci_lane *l) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < l->outside_count; i++) {
        uvcci_lane_outside r = l->outside[i];
        for (uint32_t k = 0; k < count;) {
            const uvcci_lane_outside o = l->outside[k];
            if (r.at > o.at + o.bytes || o.at > r.at + r.bytes) {
                k++;
                continue;
            }
            const uint8_t *end = r.at + r.bytes > o.at + o.bytes ? r.at + r.bytes : o.at + o.bytes;
            r.at = r.at < o.at ? r.at : o.at;
            r.bytes = (size_t)(end - r.at);
            r.written |= o.written;
            l->outside[k] = l->outside[--count];
            k = 0;
        }
        l->outside[count++] = r;
    }
    l->outside_count = count;
}

/* Where the device finds a range that was noted. */
static void *inside(const uvcci_lane *l, const void *p) {
    const uint8_t *at = p;
    for (uint32_t i = 0; i < l->outside_count; i++) {
        const uvcci_lane_outside *o = &l->outside[i];
        if (at >= o->at && (size_t)(at - o->at) < o->bytes)
            return l->host + o->copy + (at - o->at);
    }
    return (void *)(uintptr_t)p;
}

/* What tasks name that may be outside: a host's inputs and outputs, and what the session keeps of
 * its own. */
static int note_task(uvcci_lane *l, const uvcc_task *t) {
    int e = 0;
    for (uint32_t i = 0; t->kind == UVCC_TASK_HASH && i < t->u.hash.count && e == 0; i++) {
        const uvcc_hash_item *h = &t->u.hash.items[i];
        e = note(l, h->data, h->len, false);
        if (e == 0)
            e = note(l, h->out, DIGEST_BYTES, true);
    }
    const bool copies = t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE;
    for (uint32_t i = 0; copies && i < t->u.copy.count && e == 0; i++) {
        const uvcc_copy_item *c = &t->u.copy.items[i];
        e = note(l, c->dst, c->len, true);
        if (e == 0 && t->kind == UVCC_TASK_COPY)
            e = note(l, c->src, c->len, false);
    }
    const bool in = t->kind == UVCC_TASK_INPUT, out = t->kind == UVCC_TASK_OPEN_ALL_FINISH;
    for (uint32_t i = 0; (in || out) && i < t->u.vec.count && e == 0; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        e = in ? note(l, b->in[0], (size_t)b->count * 8, false)
               : note(l, b->out[0], (size_t)b->count * 8, true);
    }
    return e;
}

/* --- Operands that must be inside ------------------------------------------------------------- */

static int must_reach(uvcci_lane *l, const uvcc_task *t, const void *p, const char *what) {
    if (p == NULL || l->home->trust_pointers || reachable(l, p, 1))
        return 0;
    return fail(l, "%s: %s is not memory of the executor's allocator", kind_name(t->kind), what);
}

/* Kernels are given no address that they cannot reach. */
static int must_reach_block(uvcci_lane *l, const uvcc_task *t, const uvcc_block *b) {
    const struct {
        const void *p;
        const char *name;
        bool noted; /* by note_task(): it has a copy inside, as no other operand of its address has
                     */
    } all[] = {{b->in[0], "in[0]", t->kind == UVCC_TASK_INPUT},
               {b->in[1], "in[1]", false},
               {b->in[2], "in[2]", false},
               {b->in[3], "in[3]", false},
               {b->out[0], "out[0]", t->kind == UVCC_TASK_OPEN_ALL_FINISH},
               {b->out[1], "out[1]", false},
               {b->in_bits, "in_bits", false},
               {b->out_bits, "out_bits", false},
               {b->wire_in[0], "wire_in[0]", false},
               {b->wire_in[1], "wire_in[1]", false},
               {b->wire_out[0], "wire_out[0]", false},
               {b->wire_out[1], "wire_out[1]", false},
               {b->key, "key", false},
               {b->out_bytes[0], "out_bytes[0]", false},
               {b->out_bytes[1], "out_bytes[1]", false},
               {b->words[0], "words[0]", false},
               {b->words[1], "words[1]", false},
               {b->out_words, "out_words", false}};
    int e = 0;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && e == 0; i++)
        if (!all[i].noted)
            e = must_reach(l, t, all[i].p, all[i].name);
    return e;
}

static int must_reach_shares(uvcci_lane *l, const uvcc_task *t, const uvcc_shares *x,
                             const char *name) {
    const int e = must_reach(l, t, x->lo, name);
    return e == 0 ? must_reach(l, t, x->hi, name) : e;
}

/* Hash and copy items were looked up by note_task(), so what is left is of blocks and tensors. */
static int check_pointers(uvcci_lane *l, const uvcc_task *t) {
    int e = 0;
    if (l->home->trust_pointers)
        return 0;
    for (uint32_t i = 0; uvcci_gpu_is_vec(t->kind) && i < t->u.vec.count && e == 0; i++)
        e = must_reach_block(l, t, &t->u.vec.blocks[i]);
    const uvcc_shares none = {NULL, NULL}, z = {t->u.gemm.z, NULL};
    const bool map = t->kind == UVCC_TASK_MAP, gemm = t->kind == UVCC_TASK_GEMM;
    const bool bits = t->kind == UVCC_TASK_BIT_SUMS;
    const struct {
        const uvcc_shares *x;
        const char *name;
    } all[] = {{map    ? &t->u.map.x
                : gemm ? &t->u.gemm.x
                : bits ? &t->u.bits.x
                       : &none,
                "x"},
               {map    ? &t->u.map.y
                : gemm ? &t->u.gemm.y
                       : &none,
                "y"},
               {map    ? &t->u.map.out
                : gemm ? &z
                : bits ? &t->u.bits.out
                       : &none,
                "out"}};
    for (size_t i = 0; i < sizeof all / sizeof all[0] && e == 0; i++)
        e = must_reach_shares(l, t, all[i].x, all[i].name);
    return e;
}

/* --- Tasks ------------------------------------------------------------------------------------ */

/* Where a task's descriptors are, and what the launch needs to know. */
typedef struct placing {
    size_t blocks, entries, words, items;
    uint32_t units_max;
    uint64_t chunks;
    size_t scratch, wish; /* scratch that it needs, and that makes it faster */
    size_t len_max;
} placing;

static placing place(uvcci_lane *l, const uvcc_task *t) {
    placing p = {0};
    if (uvcci_gpu_is_vec(t->kind)) {
        p.blocks = take(l, t->u.vec.count * sizeof(vec_block));
        p.entries = take(l, uvcci_gpu_fn_entries(t) * sizeof(int32_t));
        p.words = take(l, uvcci_gpu_fn_words(t) * sizeof(int64_t));
    } else if (t->kind == UVCC_TASK_HASH) {
        p.items = take(l, t->u.hash.count * sizeof(digest_item));
        for (uint32_t i = 0; i < t->u.hash.count; i++)
            p.chunks += digest_chunks(&t->u.hash.items[i]);
        p.scratch = DIGEST_BYTES * p.chunks;
    } else if (t->kind == UVCC_TASK_GEMM && l->home->hopper) {
        const product_task g = uvcci_gpu_describe_gemm(t);
        p.wish = uvcci_gpu_gemm_scratch(&g);
    } else if (t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE) {
        p.items = take(l, t->u.copy.count * sizeof(uvcc_copy_item));
        for (uint32_t i = 0; i < t->u.copy.count; i++)
            p.len_max = t->u.copy.items[i].len > p.len_max ? t->u.copy.items[i].len : p.len_max;
    }
    return p;
}

static void write_vec(uvcci_lane *l, const uvcc_task *t, const placing *p) {
    vec_block *blocks = (vec_block *)(void *)(l->host + p->blocks);
    const uint32_t entries = uvcci_gpu_fn_entries(t), words = uvcci_gpu_fn_words(t);
    uvcci_gpu_describe_blocks(t, blocks);
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        blocks[i].at.in[0] = inside(l, blocks[i].at.in[0]);
        blocks[i].at.out[0] = inside(l, blocks[i].at.out[0]);
    }
    if (entries != 0)
        memcpy(l->host + p->entries, t->u.vec.fn->entries, entries * sizeof(int32_t));
    if (words != 0)
        memcpy(l->host + p->words, t->u.vec.fn->words, words * sizeof(int64_t));
}

static void write_items(uvcci_lane *l, const uvcc_task *t, const placing *p) {
    if (t->kind == UVCC_TASK_HASH) {
        digest_item *items = (digest_item *)(void *)(l->host + p->items);
        (void)uvcci_gpu_describe_hash(t, items);
        for (uint32_t i = 0; i < t->u.hash.count; i++) {
            items[i].of.data = inside(l, items[i].of.data);
            items[i].of.out = inside(l, items[i].of.out);
        }
        return;
    }
    uvcc_copy_item *items = (uvcc_copy_item *)(void *)(l->host + p->items);
    for (uint32_t i = 0; i < t->u.copy.count; i++) {
        items[i] = t->u.copy.items[i];
        items[i].dst = inside(l, items[i].dst);
        items[i].src = inside(l, items[i].src);
    }
}

static cudaError_t launch_vec(uvcci_lane *l, const uvcc_task *t, const placing *p) {
    vec_task v;
    uint32_t most = 0;
    uvcci_gpu_describe_vec(t, &v);
    v.blocks = (const vec_block *)(const void *)(l->dev + p->blocks);
    v.fn.entries = (const int32_t *)(const void *)(l->dev + p->entries);
    v.fn.words = (const int64_t *)(const void *)(l->dev + p->words);
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        const uint32_t units = (uvcci_gpu_units(&v, &t->u.vec.blocks[i]) + 63) / 64 * 64;
        most = units > most ? units : most;
    }
    return uvcci_gpu_run_vec(&v, t->keys, most, l->home->sms, l->stream);
}

static int launch(uvcci_lane *l, const uvcc_task *t, const placing *p) {
    const unsigned sms = l->home->sms;
    cudaError_t e = cudaSuccess;
    if (uvcci_gpu_is_vec(t->kind)) {
        e = launch_vec(l, t, p);
    } else if (t->kind == UVCC_TASK_MAP) {
        const map_task m = uvcci_gpu_describe_map(t);
        e = uvcci_gpu_run_map(&m, sms, l->stream);
    } else if (t->kind == UVCC_TASK_GEMM) {
        const product_task g = uvcci_gpu_describe_gemm(t);
        e = uvcci_gpu_run_gemm(&g, p->wish != 0 ? l->scratch : NULL, l->scratch_room, sms,
                               l->stream);
    } else if (t->kind == UVCC_TASK_BIT_SUMS) {
        const bits_task b = uvcci_gpu_describe_bits(t);
        e = uvcci_gpu_run_bits(&b, sms, l->stream);
    } else if (t->kind == UVCC_TASK_HASH) {
        e = uvcci_gpu_run_hash((const digest_item *)(const void *)(l->dev + p->items),
                               t->u.hash.count, p->chunks, l->scratch, l->stream);
    } else {
        e = uvcci_gpu_run_bytes((const uvcc_copy_item *)(const void *)(l->dev + p->items),
                                t->u.copy.count, p->len_max, t->kind == UVCC_TASK_WIPE, l->stream);
    }
    return cuda(l, e, kind_name(t->kind));
}

/* --- Jobs ------------------------------------------------------------------------------------- */

/* Counts what the job takes, and refuses it if a task cannot run. */
static int measure(uvcci_lane *l, const uvcc_job *job, size_t *descriptors) {
    size_t scratch = 0, wish = 0;
    int e = 0;
    l->outside_count = 0;
    l->used = 0;
    for (uint32_t i = 0; i < job->count && e == 0; i++) {
        const uvcc_task *t = &job->tasks[i];
        if (uvcci_gpu_check(t) != 0)
            return fail(l, "%s: it is not within its limits, or no kernel runs it",
                        kind_name(t->kind));
        const placing p = place(l, t);
        scratch = p.scratch > scratch ? p.scratch : scratch;
        wish = p.wish > wish ? p.wish : wish;
        e = note_task(l, t);
    }
    *descriptors = l->used;
    if (e != 0)
        return e;
    join_outside(l);
    for (uint32_t i = 0; i < l->outside_count; i++)
        l->outside[i].copy = take(l, l->outside[i].bytes);
    e = reserve(l, l->used);
    for (uint32_t i = 0; i < job->count && e == 0; i++)
        e = check_pointers(l, &job->tasks[i]);
    return e == 0 ? reserve_scratch(l, scratch, wish) : e;
}

static bool has_secrets(const uvcc_job *job) {
    bool has = false;
    for (uint32_t i = 0; i < job->count; i++)
        has |= job->tasks[i].kind == UVCC_TASK_HASH;
    return has;
}

/* For all tasks, before the one copy of them goes up. */
static void write_all(uvcci_lane *l, const uvcc_job *job) {
    l->used = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        const placing p = place(l, t);
        if (uvcci_gpu_is_vec(t->kind))
            write_vec(l, t, &p);
        else if (t->kind == UVCC_TASK_HASH || t->kind == UVCC_TASK_COPY ||
                 t->kind == UVCC_TASK_WIPE)
            write_items(l, t, &p);
    }
}

/* Copies of memory outside are made before descriptors name them. On an error what was launched is
 * waited for: the caller gives the job back, and its memory. */
int uvcci_lane_start(uvcci_lane *l, const uvcc_job *job) {
    size_t descriptors = 0;
    assert(!l->busy);
    int e = measure(l, job, &descriptors);
    if (e != 0)
        return e;
    const size_t all = l->used;
    for (uint32_t i = 0; i < l->outside_count; i++)
        memcpy(l->host + l->outside[i].copy, l->outside[i].at, l->outside[i].bytes);
    write_all(l, job);
    if (descriptors != 0)
        e = cuda(l,
                 cudaMemcpyAsync(l->dev, l->host, descriptors, cudaMemcpyHostToDevice, l->stream),
                 "descriptors");
    l->used = 0;
    for (uint32_t i = 0; i < job->count && e == 0; i++) {
        const placing p = place(l, &job->tasks[i]);
        e = launch(l, &job->tasks[i], &p);
    }
    if (e == 0 && has_secrets(job))
        e = cuda(l, cudaMemsetAsync(l->dev, 0, descriptors, l->stream), "wiping");
    if (e == 0)
        e = cuda(l, cudaEventRecord(l->end, l->stream), "an event");
    l->used = all;
    l->job = *job;
    l->busy = e == 0;
    if (e != 0) { /* what was launched of it ends before its memory is given back */
        (void)cudaStreamSynchronize(l->stream);
        if (descriptors != 0)
            (void)cudaMemset(l->dev, 0, descriptors);
        memset(l->host, 0, all);
        (void)cudaGetLastError();
    }
    return e;
}

void uvcci_lane_finish(uvcci_lane *l) {
    for (uint32_t i = 0; i < l->outside_count; i++)
        if (l->outside[i].written)
            memcpy(l->outside[i].at, l->host + l->outside[i].copy, l->outside[i].bytes);
    if (l->outside_count != 0 || has_secrets(&l->job))
        memset(l->host, 0, l->used);
    l->busy = false;
}
