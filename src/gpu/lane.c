/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c - see lane.h.
 *
 * Measuring gives every task's descriptors their room, writing fills it in the same order. Nothing
 * is launched of a job that has a task that cannot run. Descriptors of small jobs are read by
 * kernels where they are made, in pinned memory; others go up in one copy.
 *
 * Messages that the last task hashes are made in `stage` (staging.h), if there is room for that:
 * behind the last task that writes any of them a stream beside takes them to their places, while
 * the lane's own hashes them; the mark comes behind both. */
#include "gpu/lane.h"

#include <assert.h>
#include <string.h>

#include "gpu/describe.h"
#include "gpu/lane_operands.h"
#include "gpu/launch.h"
#include "gpu/overlap.h"

enum {
    ALIGN = 64,
    FIRST_STEPS = 16,
    MAPPED_MOST = 256, /* descriptors that stay in memory of the host; more go up sooner */
    SCRATCH_LARGE = 64 << 20,
    DEVICE_LEFT = 256 << 20, /* of the device, by scratch that a job can do without */
    HASH_HERE_MOST =
        UVCCI_LANE_STAGE_LEAST,  /* the CPU hashes them in less time than a kernel has a chunk */
    HASHES_HERE_MOST = 16 << 20, /* bytes of those of a job: meanwhile nobody looks at the others */
    ROOT_HERE_LEAST = 16, /* chunks; of few, the device's threads make many roots at a time */
    ROOTS_HERE_MOST = 64  /* so many chunks of all for each of the longest, likewise */
};

/* A kernel to launch, with all that it takes. */
struct uvcci_lane_step {
    uint16_t kind;
    bool has_keys;
    bool beside; /* of the stream beside */
    union {
        struct {
            vec_task t;
            uint32_t units;
        } vec;
        map_task map;
        product_task gemm;
        bits_task bits;
        struct {
            const digest_item *items;
            uint32_t count, ends;
            uint64_t chunks, split;
            uint8_t *far;
        } hash;
        struct {
            const uvcc_copy_item *items;
            uint32_t count;
            size_t len_max;
            bool over_bus;
        } bytes;
    } u;
    uvcc_step_keys keys;
};

static int cuda(uvcci_lane *l, cudaError_t e, const char *what) {
    if (e == cudaSuccess)
        return 0;
    (void)cudaGetLastError(); /* it is said here, and the next job's launches are not at fault */
    return uvcci_lane_fail(l, "%s: %s", what, cudaGetErrorString(e));
}

/* --- Room ------------------------------------------------------------------------------------- */

static uint8_t *room_at(const uvcci_lane_room *r) {
    return r->at != NULL ? r->at : r->first;
}

static size_t room_bytes(const uvcci_lane_room *r) {
    return r->at != NULL ? r->bytes : r->first_bytes;
}

static bool grow_room(uvcci_lane *l, uvcci_lane_room *r, uvcci_gpu_pool *pool, size_t bytes,
                      size_t left) {
    if (bytes <= room_bytes(r))
        return true;
    size_t room = room_bytes(r) != 0 ? room_bytes(r) : bytes;
    while (room < bytes)
        room *= 2;
    uint8_t *at = NULL;
    for (unsigned try = 0; try < 2 && at == NULL; try++) { /* what was asked for, if not more */
        room = try == 0 && room <= SCRATCH_LARGE ? room : bytes;
        at = uvcci_gpu_pool_take(pool, room);
        if (at == NULL && uvcci_gpu_pool_grow(pool, room, left))
            at = uvcci_gpu_pool_take(pool, room);
    }
    if (at == NULL)
        return false;
    if (r->at != NULL && pool->pinned)
        uvcci_gpu_pool_give(pool, r->at, r->bytes);
    else if (r->at != NULL)
        l->home->outgrown(l->home->user, r->at, r->bytes);
    r->at = at;
    r->bytes = room;
    return true;
}

/* What small jobs take is there from the beginning, whatever becomes of the device's memory. */
int uvcci_lane_open(uvcci_lane *l, uvcci_lane_home *home, void *end, uint32_t index) {
    *l = (uvcci_lane){.home = home, .end = end, .reader = (uint32_t)1 << index};
    int e = cuda(l, cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking), "a stream");
    if (e == 0)
        e = cuda(l, cudaStreamCreateWithFlags(&l->beside, cudaStreamNonBlocking), "a stream");
    for (unsigned i = 0; i < 2 && e == 0; i++)
        e = cuda(l, cudaEventCreateWithFlags(&l->event[i], cudaEventDisableTiming), "an event");
    if (e == 0)
        e = cuda(l,
                 cudaHostAlloc((void **)&l->host.first, UVCCI_LANE_FIRST_ROOM, cudaHostAllocMapped),
                 "descriptors");
    if (e == 0)
        e = cuda(l, cudaMalloc((void **)&l->dev.first, UVCCI_LANE_FIRST_ROOM), "descriptors");
    if (e == 0)
        e = cuda(l, cudaMalloc((void **)&l->scratch.first, UVCCI_LANE_FIRST_ROOM), "scratch");
    l->host.first_bytes = l->dev.first_bytes = l->scratch.first_bytes = UVCCI_LANE_FIRST_ROOM;
    return e;
}

/* Scratch had residues of shares and digests of secrets; what is from pools goes with them. */
void uvcci_lane_close(uvcci_lane *l, bool give_back) {
    const uvcc_allocator *al = &l->home->records;
    uvcci_outside_free(&l->outside, al);
    uvcci_staging_free(&l->staging, al);
    if (l->steps != NULL)
        al->free(al->user, l->steps, l->step_room * sizeof *l->steps, UVCC_MEM_SECRET);
    if (!give_back)
        return;
    if (l->scratch.first != NULL) {
        (void)cudaMemset(l->scratch.first, 0, l->scratch.first_bytes);
        if (l->scratch.at != NULL)
            (void)cudaMemset(l->scratch.at, 0, l->scratch.bytes);
        (void)cudaFree(l->scratch.first);
    }
    if (l->stage.at != NULL)
        (void)cudaMemset(l->stage.at, 0, l->stage.bytes);
    if (l->host.first != NULL)
        (void)cudaFreeHost(l->host.first);
    if (l->dev.first != NULL)
        (void)cudaFree(l->dev.first);
    for (unsigned i = 0; i < 2; i++)
        if (l->event[i] != NULL)
            (void)cudaEventDestroy(l->event[i]);
    if (l->beside != NULL)
        (void)cudaStreamDestroy(l->beside);
    if (l->stream != NULL)
        (void)cudaStreamDestroy(l->stream);
}

static size_t take(size_t *used, size_t bytes) {
    const size_t at = *used;
    *used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return at;
}

uint8_t *uvcci_lane_dirty(uvcci_lane *l, unsigned which, size_t *bytes) {
    size_t *dirty = which == 0 ? &l->dirty : &l->stage_dirty;
    *bytes = *dirty;
    *dirty = 0;
    return *bytes != 0 ? room_at(which == 0 ? &l->scratch : &l->stage) : NULL;
}

/* --- Where operands are ------------------------------------------------------------------------
 */

/* Where the device finds a range that was noted. */
static void *inside(const uvcci_lane *l, const void *p) {
    uint8_t *copies = room_at(&l->host) + l->sizes.descriptors;
    uint8_t *at = l->outside.count != 0 ? uvcci_outside_find(&l->outside, copies, p) : NULL;
    return at != NULL ? at : (void *)(uintptr_t)p;
}

/* Where kernels write what is of a message, and hash it. */
static void *staged(const uvcci_lane *l, const void *p) {
    uint8_t *at = l->staged ? uvcci_staging_find(&l->staging, room_at(&l->stage), p) : NULL;
    if (l->keeps && p == l->keep.at)
        at = uvcci_kept_place(&l->keep);
    return at != NULL ? at : (void *)(uintptr_t)p;
}

/* Where kernels read a message that a job before hashed. */
static const void *kept(uvcci_lane *l, const void *p, size_t bytes) {
    if (p == NULL || bytes == 0)
        return p;
    if (uvcci_kept_within(&l->found, p, bytes) == NULL &&
        !uvcci_kept_find(&l->home->kept, p, bytes, l->reader, &l->found))
        return p;
    l->reads = true;
    atomic_fetch_add(&l->home->kept_reads, 1);
    return uvcci_kept_within(&l->found, p, bytes);
}

/* --- Hashes ----------------------------------------------------------------------------------- */

typedef enum hash_way { BY_DEVICE, ROOT_HERE, HERE } hash_way;

/* A later task of the job may read a digest, so only the last one's are made afterwards. */
static hash_way hash_way_of(const uvcci_lane *l, const uvcc_task *t, const uvcc_hash_item *h) {
    if (t != &l->job.tasks[l->job.count - 1] || !uvcci_lane_is_pinned(l, h->out, DIGEST_BYTES))
        return BY_DEVICE;
    if (!l->hashes.many && h->len <= HASH_HERE_MOST &&
        (h->len == 0 || uvcci_lane_is_pinned(l, h->data, h->len)))
        return HERE;
    return digest_chunks(h) >= ROOT_HERE_LEAST && !l->hashes.spread ? ROOT_HERE : BY_DEVICE;
}

/* Whether threads of the device make all roots in less time than the CPU makes one by one. */
static bool are_spread(const uvcc_task *t) {
    uint64_t all = 0, longest = 0;
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uint64_t chunks = digest_chunks(&t->u.hash.items[i]);
        all += chunks >= ROOT_HERE_LEAST ? chunks : 0;
        longest = chunks > longest ? chunks : longest;
    }
    return all > ROOTS_HERE_MOST * longest;
}

/* Whether what is short is too much for the CPU together: the thread that looks at all jobs hashes.
 * An empty item takes a block's time. */
static bool are_many(const uvcc_task *t) {
    enum { BLOCK = 64 };
    uint64_t all = 0;
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uint64_t len = t->u.hash.items[i].len;
        all += len <= HASH_HERE_MOST ? len + BLOCK : 0;
    }
    return all > HASHES_HERE_MOST;
}

static void measure_hash(uvcci_lane *l, const uvcc_task *t) {
    uvcci_lane_hashes h = {.spread = are_spread(t), .many = are_many(t)};
    uint64_t near = 0;
    l->hashes = h;
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const hash_way way = hash_way_of(l, t, &t->u.hash.items[i]);
        const uint64_t chunks = way == HERE ? 0 : digest_chunks(&t->u.hash.items[i]);
        h.whole += way == HERE;
        h.roots += way == ROOT_HERE;
        h.ends += way == BY_DEVICE;
        h.far += way == ROOT_HERE ? chunks : 0;
        near += way == BY_DEVICE ? chunks : 0;
    }
    (void)take(&l->sizes.descriptors, (h.ends + h.roots) * sizeof(digest_item));
    l->sizes.scratch =
        DIGEST_BYTES * near > l->sizes.scratch ? DIGEST_BYTES * near : l->sizes.scratch;
    h.list = take(&l->sizes.hashes, (h.whole + h.roots) * sizeof(uvcc_hash_item));
    h.of = take(&l->sizes.hashes, h.roots * sizeof(uvcc_hash_item *));
    h.root = take(&l->sizes.hashes, h.roots * DIGEST_BYTES);
    h.digests = take(&l->sizes.hashes, h.far * DIGEST_BYTES);
    l->hashes = h;
    l->secrets = true;
}

/* Behind descriptors and copies. */
static uint8_t *hashes_at(const uvcci_lane *l) {
    size_t used = l->sizes.descriptors;
    (void)take(&used, l->outside.bytes);
    return room_at(&l->host) + used;
}

static uvcc_hash_item *hash_list(const uvcci_lane *l) {
    return (uvcc_hash_item *)(void *)(hashes_at(l) + l->hashes.list);
}

static const uvcc_hash_item **hash_roots(const uvcci_lane *l) {
    return (const uvcc_hash_item **)(void *)(hashes_at(l) + l->hashes.of);
}

/* The root of item `nth` of those whose chunks the device hashes, as the hash of their digests. */
static void write_root(uvcci_lane *l, const uvcc_hash_item *h, uint32_t nth, uint64_t first) {
    uvcc_hash_item *root = &hash_list(l)[l->hashes.whole + nth];
    *root = (uvcc_hash_item){.mode = UVCC_HASH_PLAIN,
                             .prefix_len = TREE_HEAD,
                             .data = hashes_at(l) + l->hashes.digests + DIGEST_BYTES * first,
                             .len = DIGEST_BYTES * digest_chunks(h),
                             .out = hashes_at(l) + l->hashes.root + DIGEST_BYTES * nth};
    digest_head(h->len, root->prefix);
    hash_roots(l)[nth] = h;
}

/* Items that end on the device, then those whose roots are made here: `to` has what kernels take.
 * The others are listed. */
static uint64_t describe_hashes(uvcci_lane *l, const uvcc_task *t, digest_item *to,
                                uint64_t *split) {
    uint64_t chunks = 0;
    uint32_t whole = 0, roots = 0, n = 0;
    for (unsigned pass = BY_DEVICE; pass <= HERE; pass++) {
        for (uint32_t i = 0; i < t->u.hash.count; i++) {
            const uvcc_hash_item *h = &t->u.hash.items[i];
            const hash_way way = hash_way_of(l, t, h);
            if (way != (hash_way)pass)
                continue;
            if (way == HERE) {
                hash_list(l)[whole++] = *h;
                continue;
            }
            if (way == ROOT_HERE)
                write_root(l, h, roots++, chunks - *split);
            to[n] = (digest_item){.of = *h, .first = chunks};
            to[n].of.data = staged(l, inside(l, h->data));
            to[n++].of.out = inside(l, h->out);
            chunks += digest_chunks(h);
        }
        if (pass == BY_DEVICE)
            *split = chunks;
    }
    return chunks;
}

/* What is left of the job's last task. A root that was not made is not to be taken for one. */
static int hash_here(uvcci_lane *l) {
    const uvcci_lane_hashes *h = &l->hashes;
    const uvcc_task t = {.kind = UVCC_TASK_HASH,
                         .u.hash = {.items = hash_list(l), .count = h->whole + h->roots}};
    const uvcc_job job = {.tasks = &t, .count = 1};
    uvcc_completion c = {0};
    int e = uvcc_cpu_submit(l->home->cpu, &job);
    if (e == 0)
        e = uvcc_cpu_poll(l->home->cpu, &c) == 1 ? c.status : UVCC_ERR_JOB;
    if (e != 0)
        return uvcci_lane_fail(l, "HASH: the CPU did not make the digests that are left to it");
    for (uint32_t i = 0; i < h->roots; i++)
        digest_close(hash_roots(l)[i], hashes_at(l) + h->root + DIGEST_BYTES * i, DIGEST_BYTES);
    return 0;
}

/* --- Measuring -------------------------------------------------------------------------------- */

static void measure_task(uvcci_lane *l, const uvcc_task *t) {
    uvcci_lane_sizes *s = &l->sizes;
    size_t wish = 0;
    if (uvcci_gpu_is_vec(t->kind)) {
        (void)take(&s->descriptors, t->u.vec.count * sizeof(vec_block));
        (void)take(&s->descriptors, uvcci_gpu_table_bytes(t->kind, t->u.vec.fn));
        (void)take(&s->descriptors, uvcci_gpu_fn_words(t) * sizeof(int64_t));
    } else if (t->kind == UVCC_TASK_HASH) {
        measure_hash(l, t);
    } else if (t->kind == UVCC_TASK_GEMM && l->home->hopper) {
        const product_task g = uvcci_gpu_describe_gemm(t);
        wish = uvcci_gpu_gemm_scratch(&g);
    } else if (t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE) {
        (void)take(&s->descriptors, t->u.copy.count * sizeof(uvcc_copy_item));
    }
    s->wish = wish > s->wish ? wish : s->wish;
}

static void measure_staging(uvcci_lane *l) {
    const uvcci_staging *g = &l->staging;
    uvcci_lane_stage(l);
    l->staging_at = l->sizes.descriptors;
    (void)take(&l->sizes.descriptors, g->gap_bytes);
    (void)take(&l->sizes.descriptors, g->gaps * sizeof(uvcc_copy_item));
    (void)take(&l->sizes.descriptors, g->staged * sizeof(uvcc_copy_item));
}

/* A message that is hashed, for the jobs behind: what was copied of its bytes before is void. */
static void measure_keep(uvcci_lane *l) {
    uvcci_lane_home *home = l->home;
    const uvcc_task *t = l->job.tasks;
    for (uint32_t i = 0; i < l->job.count; i++)
        for (uint32_t k = 0; t[i].kind == UVCC_TASK_HASH && k < t[i].u.hash.count; k++)
            uvcci_kept_forget(&home->kept, t[i].u.hash.items[k].data, t[i].u.hash.items[k].len);
    if (l->job.count != 1 || t->kind != UVCC_TASK_HASH || t->u.hash.count != 1)
        return;
    const uvcc_hash_item *h = t->u.hash.items;
    l->keep = (uvcci_kept_copy){.at = h->data, .bytes = h->len};
    l->keeps = h->stays && h->len > home->stage_least && uvcci_lane_is_pinned(l, h->data, h->len) &&
               uvcci_kept_reserve(&home->kept, &l->keep);
    if (!l->keeps)
        return;
    if (l->keep.block == NULL)
        l->keep.block = uvcci_gpu_pool_take(&home->device, l->keep.room);
    l->keep_at = take(&l->sizes.descriptors, sizeof(uvcc_copy_item));
}

int uvcci_lane_measure(uvcci_lane *l) {
    int e = 0;
    l->sizes = (uvcci_lane_sizes){0};
    l->outside.count = 0;
    l->outside.bytes = 0;
    l->step_count = 0;
    l->used = 0;
    l->secrets = false;
    l->hashes = (uvcci_lane_hashes){0};
    l->staged = l->keeps = l->reads = false;
    l->found = (uvcci_kept_copy){0};
    uvcci_staging_drop(&l->staging);
    for (uint32_t i = 0; i < l->job.count && e == 0; i++) {
        const uvcc_task *t = &l->job.tasks[i];
        if (uvcci_gpu_check(t) != 0)
            return uvcci_lane_fail(l, "%s: it is not within its limits, or no kernel runs it",
                                   uvcci_lane_kind_name(t->kind));
        measure_task(l, t);
        e = uvcci_lane_note(l, t);
        if (e == 0 && !l->home->trust_pointers)
            e = uvcci_lane_check_pointers(l, t);
    }
    uvcci_outside_settle(&l->outside);
    if (e == 0) {
        measure_staging(l);
        measure_keep(l);
    }
    return e;
}

static bool is_mapped(const uvcci_lane *l) {
    return l->sizes.descriptors <= MAPPED_MOST;
}

/* Of memory of the host. */
static size_t host_bytes(const uvcci_lane *l) {
    size_t used = l->sizes.descriptors + l->outside.bytes;
    if (l->sizes.hashes != 0) {
        used = l->sizes.descriptors;
        (void)take(&used, l->outside.bytes);
    }
    return used + l->sizes.hashes;
}

bool uvcci_lane_wants_pinned(const uvcci_lane *l) {
    return host_bytes(l) > room_bytes(&l->host);
}

bool uvcci_lane_must_grow(const uvcci_lane *l) {
    return uvcci_lane_wants_pinned(l) ||
           (!is_mapped(l) && l->sizes.descriptors > room_bytes(&l->dev)) ||
           l->sizes.scratch > room_bytes(&l->scratch) || l->sizes.wish > room_bytes(&l->scratch) ||
           l->staging.bytes > room_bytes(&l->stage) || (l->keeps && l->keep.block == NULL) ||
           (l->outside.count != 0 && !l->home->trust_pointers);
}

/* What is copied is read by the CPU. */
static int check_outside(uvcci_lane *l) {
    for (uint32_t i = 0; i < l->outside.count; i++) {
        struct cudaPointerAttributes at = {0};
        const cudaError_t e = cudaPointerGetAttributes(&at, l->outside.range[i].at);
        if (e == cudaSuccess && at.type == cudaMemoryTypeDevice)
            return uvcci_lane_fail(
                l, "an operand is memory of a device, and not of the executor's allocator");
        if (e != cudaSuccess)
            (void)cudaGetLastError(); /* an old driver, to whom it is nobody's */
    }
    return 0;
}

/* Without room the message stays where it is. */
static void grow_keep(uvcci_lane *l) {
    if (!l->keeps || l->keep.block != NULL)
        return;
    if (uvcci_gpu_pool_grow(&l->home->device, l->keep.room, DEVICE_LEFT))
        l->keep.block = uvcci_gpu_pool_take(&l->home->device, l->keep.room);
    l->keeps = l->keep.block != NULL;
    if (!l->keeps)
        uvcci_kept_drop(&l->home->kept, &l->keep);
}

int uvcci_lane_grow(uvcci_lane *l) {
    uvcci_lane_home *home = l->home;
    const uvcci_lane_sizes *s = &l->sizes;
    const int e = home->trust_pointers ? 0 : check_outside(l);
    if (e != 0)
        return e;
    if (!grow_room(l, &l->host, &home->pinned, host_bytes(l), 0))
        return uvcci_lane_fail(l, "no pinned memory for what the job names");
    if (!is_mapped(l) && !grow_room(l, &l->dev, &home->device, s->descriptors, 0))
        return uvcci_lane_fail(l, "no memory of the device for descriptors");
    if (l->scratch.at == NULL && l->dirty != 0) { /* it may be used no more until the end */
        const cudaError_t wiped = cudaMemsetAsync(l->scratch.first, 0, l->dirty, l->stream);
        if (wiped != cudaSuccess)
            return cuda(l, wiped, "wiping");
        l->dirty = 0;
    }
    /* More than what is needed is welcome, but not at the price of the job. */
    if (s->wish > s->scratch)
        (void)grow_room(l, &l->scratch, &home->device, s->wish, DEVICE_LEFT);
    (void)grow_room(l, &l->stage, &home->device, l->staging.bytes, DEVICE_LEFT);
    grow_keep(l);
    return grow_room(l, &l->scratch, &home->device, s->scratch, 0)
               ? 0
               : uvcci_lane_fail(l, "no memory of the device for scratch");
}

/* --- Writing ---------------------------------------------------------------------------------- */

static struct uvcci_lane_step *add_step(uvcci_lane *l, const uvcc_task *t) {
    const uvcc_allocator *al = &l->home->records;
    if (l->step_count == l->step_room) {
        const uint32_t room = l->step_room == 0 ? FIRST_STEPS : 2 * l->step_room;
        struct uvcci_lane_step *more = al->alloc(al->user, room * sizeof *more, UVCC_MEM_SECRET);
        if (more == NULL)
            return NULL;
        if (l->steps != NULL) {
            memcpy(more, l->steps, l->step_count * sizeof *more);
            memset(l->steps, 0, l->step_room * sizeof *more);
            al->free(al->user, l->steps, l->step_room * sizeof *more, UVCC_MEM_SECRET);
        }
        l->steps = more;
        l->step_room = room;
    }
    struct uvcci_lane_step *s = &l->steps[l->step_count++];
    s->kind = t->kind;
    s->beside = false;
    s->has_keys = t->keys != NULL && uvcci_gpu_is_vec(t->kind);
    if (s->has_keys)
        s->keys = *t->keys;
    return s;
}

/* What is at an offset of the descriptors, as kernels see it. */
static const void *seen(const uvcci_lane *l, size_t at) {
    return (is_mapped(l) ? room_at(&l->host) : room_at(&l->dev)) + at;
}

/* Operands that lie elsewhere for kernels than the task says are changed in the descriptors alone.
 */
static void write_vec(uvcci_lane *l, const uvcc_task *t, struct uvcci_lane_step *s, size_t *used) {
    const uint32_t words = uvcci_gpu_fn_words(t);
    const size_t at = take(used, t->u.vec.count * sizeof(vec_block));
    const size_t at_table = take(used, uvcci_gpu_table_bytes(t->kind, t->u.vec.fn));
    const size_t at_words = take(used, words * sizeof(int64_t));
    uint8_t *host = room_at(&l->host);
    vec_block *blocks = (vec_block *)(void *)(host + at);
    uvcci_gpu_describe_vec(t, &s->u.vec.t);
    uvcci_gpu_describe_blocks(t, blocks);
    for (uint32_t i = 0; l->outside.count != 0 && i < t->u.vec.count; i++) {
        blocks[i].at.in[0] = inside(l, blocks[i].at.in[0]);
        blocks[i].at.out[0] = inside(l, blocks[i].at.out[0]);
    }
    for (uint32_t i = 0; l->staged && i < 2 * t->u.vec.count; i++)
        blocks[i / 2].at.wire_out[i % 2] = staged(l, blocks[i / 2].at.wire_out[i % 2]);
    const bool some = atomic_load(&l->home->kept.count) != 0;
    for (uint32_t i = 0; some && i < 2 * t->u.vec.count; i++)
        blocks[i / 2].at.wire_in[i % 2] = kept(l, blocks[i / 2].at.wire_in[i % 2],
                                               uvcci_gpu_wire_in_most(t, &t->u.vec.blocks[i / 2]));
    uvcci_gpu_describe_table(&s->u.vec.t, host + at_table, seen(l, at_table));
    if (words != 0)
        memcpy(host + at_words, t->u.vec.fn->words, words * sizeof(int64_t));
    s->u.vec.t.blocks = seen(l, at);
    s->u.vec.t.fn.words = seen(l, at_words);
    s->u.vec.units = 0;
    for (uint32_t i = 0, last = 0; i < t->u.vec.count; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        const uint32_t units = b->count == last ? 0 : uvcci_gpu_units(&s->u.vec.t, b);
        s->u.vec.units = units > s->u.vec.units ? units : s->u.vec.units;
        last = b->count;
    }
}

static int write_hash(uvcci_lane *l, const uvcc_task *t, size_t *used) {
    const bool last =
        t == &l->job.tasks[l->job.count - 1]; /* the others' items end on the device */
    const uint32_t ends = last ? l->hashes.ends : t->u.hash.count;
    const uint32_t count = ends + (last ? l->hashes.roots : 0);
    const size_t at = take(used, count * sizeof(digest_item));
    uint64_t split = 0;
    const uint64_t chunks =
        describe_hashes(l, t, (digest_item *)(void *)(room_at(&l->host) + at), &split);
    struct uvcci_lane_step *s = count != 0 ? add_step(l, t) : NULL;
    if (s != NULL) {
        s->u.hash.items = seen(l, at);
        s->u.hash.count = count;
        s->u.hash.ends = ends;
        s->u.hash.chunks = chunks;
        s->u.hash.split = split;
        s->u.hash.far = hashes_at(l) + l->hashes.digests;
    }
    return s != NULL || count == 0 ? 0 : uvcci_lane_fail(l, "no memory");
}

/* Items of COPY that touch each other are of several launches. */
static int write_bytes(uvcci_lane *l, const uvcc_task *t, size_t *used) {
    const uint32_t all = t->u.copy.count;
    const size_t at = take(used, all * sizeof(uvcc_copy_item));
    uvcc_copy_item *items = (uvcc_copy_item *)(void *)(room_at(&l->host) + at);
    for (uint32_t i = 0; i < all; i++) {
        items[i] = t->u.copy.items[i];
        items[i].dst = staged(l, inside(l, items[i].dst));
        items[i].src = inside(l, items[i].src);
    }
    for (uint32_t i = 0, count = 0; i < all; i += count) {
        struct uvcci_lane_step *s = add_step(l, t);
        if (s == NULL)
            return uvcci_lane_fail(l, "no memory");
        count = t->kind == UVCC_TASK_WIPE ? all : uvcci_overlap_run(items + i, all - i);
        s->u.bytes.items = seen(l, at + i * sizeof *items);
        s->u.bytes.count = count;
        s->u.bytes.len_max = 0;
        for (uint32_t k = i; k < i + count; k++)
            if (items[k].len > s->u.bytes.len_max)
                s->u.bytes.len_max = items[k].len;
        s->u.bytes.over_bus =
            uvcci_lane_is_pinned(l, items[i].dst, 1) ||
            (t->kind == UVCC_TASK_COPY && uvcci_lane_is_pinned(l, items[i].src, 1));
    }
    return 0;
}

static int write_map(uvcci_lane *l, const uvcc_task *t) {
    map_task of[2];
    const unsigned count = uvcci_gpu_describe_map(t, of);
    for (unsigned i = 0; i < count; i++) {
        struct uvcci_lane_step *s = add_step(l, t);
        if (s == NULL)
            return uvcci_lane_fail(l, "no memory");
        s->u.map = of[i];
    }
    return 0;
}

static int write_task(uvcci_lane *l, const uvcc_task *t, size_t *used) {
    if (t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE)
        return write_bytes(l, t, used);
    if (t->kind == UVCC_TASK_MAP)
        return write_map(l, t);
    if (t->kind == UVCC_TASK_HASH)
        return write_hash(l, t, used);
    struct uvcci_lane_step *s = add_step(l, t);
    if (s == NULL)
        return uvcci_lane_fail(l, "no memory");
    if (t->kind == UVCC_TASK_GEMM)
        s->u.gemm = uvcci_gpu_describe_gemm(t);
    else if (t->kind == UVCC_TASK_BIT_SUMS)
        s->u.bits = uvcci_gpu_describe_bits(t);
    else
        write_vec(l, t, s, used);
    return 0;
}

/* A copy of the executor's own. */
static int write_own(uvcci_lane *l, size_t at, uint32_t count, size_t len_max, bool over_bus,
                     bool beside) {
    static const uvcc_task own = {.kind = UVCC_TASK_COPY};
    struct uvcci_lane_step *s = count != 0 ? add_step(l, &own) : NULL;
    if (s == NULL)
        return count == 0 ? 0 : uvcci_lane_fail(l, "no memory");
    s->beside = beside;
    s->u.bytes.items = seen(l, at);
    s->u.bytes.count = count;
    s->u.bytes.len_max = len_max;
    s->u.bytes.over_bus = over_bus;
    return 0;
}

/* What the host wrote of messages that are staged, before all tasks. */
static int write_gaps(uvcci_lane *l) {
    const uvcci_staging *g = &l->staging;
    uint8_t *host = room_at(&l->host);
    size_t used = l->staging_at;
    const size_t bytes = take(&used, g->gap_bytes);
    const size_t items = take(&used, g->gaps * sizeof(uvcc_copy_item));
    uvcci_staging_fill(g, room_at(&l->stage), host + bytes, seen(l, bytes),
                       (uvcc_copy_item *)(void *)(host + items));
    return write_own(l, items, g->gaps, g->gap_bytes, false, false);
}

/* Behind the last task that writes any of them they go to their places. */
static int write_delivery(uvcci_lane *l) {
    const uvcci_staging *g = &l->staging;
    size_t used = l->staging_at;
    (void)take(&used, g->gap_bytes);
    (void)take(&used, g->gaps * sizeof(uvcc_copy_item));
    const size_t items = take(&used, g->staged * sizeof(uvcc_copy_item));
    const size_t longest = uvcci_staging_deliver(
        g, room_at(&l->stage), (uvcc_copy_item *)(void *)(room_at(&l->host) + items));
    return write_own(l, items, g->staged, longest, true, true);
}

/* The message that the job hashes, before that. */
static int write_keep(uvcci_lane *l) {
    uvcc_copy_item *it = (uvcc_copy_item *)(void *)(room_at(&l->host) + l->keep_at);
    *it = (uvcc_copy_item){uvcci_kept_place(&l->keep), l->keep.at, l->keep.bytes};
    return write_own(l, l->keep_at, 1, l->keep.bytes, true, false);
}

int uvcci_lane_write(uvcci_lane *l) {
    const uvcci_staging *g = &l->staging;
    size_t used = 0;
    l->used = host_bytes(l);
    l->staged = g->staged != 0 && g->bytes <= room_bytes(&l->stage);
    uvcci_outside_copy_in(&l->outside, room_at(&l->host) + l->sizes.descriptors);
    if (l->staged)
        atomic_fetch_add(&l->home->staged_bytes, uvcci_staging_bytes(g));
    int e = l->staged ? write_gaps(l) : 0;
    if (l->keeps)
        e = write_keep(l);
    for (uint32_t i = 0; i < l->job.count && e == 0; i++) {
        e = write_task(l, &l->job.tasks[i], &used);
        if (e == 0 && l->staged && i == g->last)
            e = write_delivery(l);
    }
    assert(e != 0 || used == l->staging_at);
    return e;
}

/* --- Launching -------------------------------------------------------------------------------- */

static cudaError_t launch_gemm(uvcci_lane *l, const product_task *g) {
    const size_t wish = l->home->hopper ? uvcci_gpu_gemm_scratch(g) : 0;
    const size_t room = room_bytes(&l->scratch);
    if (wish != 0 && l->dirty < room)
        l->dirty = room;
    return uvcci_gpu_run_gemm(g, wish != 0 ? room_at(&l->scratch) : NULL, room, l->home->sms,
                              l->stream);
}

static cudaError_t launch_hash(uvcci_lane *l, const struct uvcci_lane_step *s) {
    const size_t bytes = DIGEST_BYTES * s->u.hash.split;
    const digest_places to = {room_at(&l->scratch), s->u.hash.far, s->u.hash.split};
    l->dirty = bytes > l->dirty ? bytes : l->dirty;
    return uvcci_gpu_run_hash(s->u.hash.items, s->u.hash.count, s->u.hash.ends, s->u.hash.chunks,
                              &to, l->stream);
}

/* While the lane's stream goes on; join() waits for it. */
static cudaError_t launch_beside(uvcci_lane *l, const struct uvcci_lane_step *s) {
    cudaError_t e = cudaEventRecord(l->event[0], l->stream);
    if (e == cudaSuccess)
        e = cudaStreamWaitEvent(l->beside, l->event[0], 0);
    if (e == cudaSuccess)
        e = uvcci_gpu_run_bytes(s->u.bytes.items, s->u.bytes.count, s->u.bytes.len_max, false,
                                s->u.bytes.over_bus, l->beside);
    return e == cudaSuccess ? cudaEventRecord(l->event[1], l->beside) : e;
}

static cudaError_t join(const uvcci_lane *l) {
    return l->staged ? cudaStreamWaitEvent(l->stream, l->event[1], 0) : cudaSuccess;
}

static int launch(uvcci_lane *l, const struct uvcci_lane_step *s) {
    const unsigned sms = l->home->sms;
    cudaError_t e = cudaSuccess;
    if (s->beside)
        e = launch_beside(l, s);
    else if (uvcci_gpu_is_vec(s->kind))
        e = uvcci_gpu_run_vec(&s->u.vec.t, s->has_keys ? &s->keys : NULL, s->u.vec.units, sms,
                              l->stream);
    else if (s->kind == UVCC_TASK_MAP)
        e = uvcci_gpu_run_map(&s->u.map, sms, l->stream);
    else if (s->kind == UVCC_TASK_GEMM)
        e = launch_gemm(l, &s->u.gemm);
    else if (s->kind == UVCC_TASK_BIT_SUMS)
        e = uvcci_gpu_run_bits(&s->u.bits, sms, l->stream);
    else if (s->kind == UVCC_TASK_HASH)
        e = launch_hash(l, s);
    else
        e = uvcci_gpu_run_bytes(s->u.bytes.items, s->u.bytes.count, s->u.bytes.len_max,
                                s->kind == UVCC_TASK_WIPE, s->u.bytes.over_bus, l->stream);
    return cuda(l, e, uvcci_lane_kind_name(s->kind));
}

/* On an error what was launched is waited for: the caller gives the job back, and its memory. */
int uvcci_lane_launch(uvcci_lane *l) {
    if (l->step_count == 0 && l->hashes.whole != 0) { /* the CPU's alone */
        atomic_store_explicit(l->end, ++l->mark, memory_order_release);
        return 0;
    }
    if (l->staged && l->staging.bytes > l->stage_dirty)
        l->stage_dirty = l->staging.bytes;
    const size_t up = is_mapped(l) ? 0 : l->sizes.descriptors;
    int e = up == 0 ? 0
                    : cuda(l,
                           cudaMemcpyAsync(room_at(&l->dev), room_at(&l->host), up,
                                           cudaMemcpyHostToDevice, l->stream),
                           "descriptors");
    for (uint32_t i = 0; i < l->step_count && e == 0; i++)
        e = launch(l, &l->steps[i]);
    if (l->step_count != 0)
        memset(l->steps, 0, l->step_count * sizeof *l->steps); /* keys */
    l->step_count = 0;
    if (e == 0)
        e = cuda(l, join(l), "messages");
    const bool wipe = up != 0 && l->secrets;
    if (e == 0 && wipe)
        e = cuda(l, cudaMemsetAsync(room_at(&l->dev), 0, up, l->stream), "wiping");
    l->mark++;
    if (e == 0)
        e = cuda(l, uvcci_gpu_run_mark((uint32_t *)(uintptr_t)l->end, l->mark, l->stream),
                 "a mark");
    if (e != 0) {
        if (wipe)
            (void)cudaMemsetAsync(room_at(&l->dev), 0, up, l->stream);
        (void)cudaStreamSynchronize(l->beside);
        (void)cudaStreamSynchronize(l->stream);
        (void)cudaGetLastError();
    }
    return e;
}

bool uvcci_lane_is_through(const uvcci_lane *l) {
    return atomic_load_explicit(l->end, memory_order_acquire) == l->mark;
}

void uvcci_lane_wipe(uvcci_lane *l) {
    if (l->step_count != 0)
        memset(l->steps, 0, l->step_count * sizeof *l->steps);
    if (l->used != 0 && (l->outside.count != 0 || l->secrets))
        memset(room_at(&l->host), 0, l->used);
}

/* Tasks of later jobs find the copy, or its memory is another's; what the job read may be. */
static void settle_keep(uvcci_lane *l, bool well) {
    l->keep.stale = !well;
    if (l->keeps && l->keep.block != NULL)
        uvcci_kept_add(&l->home->kept, &l->keep);
    else if (l->keeps)
        uvcci_kept_drop(&l->home->kept, &l->keep);
    if (l->reads)
        uvcci_kept_release(&l->home->kept, l->reader);
    l->keeps = l->reads = false;
}

int uvcci_lane_finish(uvcci_lane *l, bool well) {
    int e = 0;
    settle_keep(l, well);
    if (well)
        uvcci_outside_copy_out(&l->outside, room_at(&l->host) + l->sizes.descriptors);
    if (well && l->hashes.whole + l->hashes.roots != 0)
        e = hash_here(l);
    uvcci_lane_wipe(l);
    return e;
}
