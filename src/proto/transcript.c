/* SPDX-License-Identifier: Apache-2.0 */
/* transcript.c - the leaves of one worker's step and their Merkle root (wire.md 4).
 *
 * Leaf bytes go into a chain of chunks, never moved; an entry per leaf points at them. States: open
 * (after new and add) and rooted (after sort or root): in the latter the entries stand in canonical
 * order. Entries double when they are full, so an add costs O(1) amortised; sorting is a bottom-up
 * merge sort, which finds leaves that came in order cheap. */
#include "proto/transcript.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"

#define CHUNK_BYTES   (64u << 10)
#define FIRST_ENTRIES 256u
#define RADIX         65536u /* half of a row's bits */
#define RADIX_FROM    16384u

typedef struct chunk {
    struct chunk *next;
    uint32_t used;
    uint8_t bytes[CHUNK_BYTES - 2 * sizeof(void *)];
} chunk;

typedef struct entry {
    const uint8_t *leaf;
    uint32_t row;
    uint32_t len;
} entry;

struct uvcci_transcript {
    uvcc_allocator al;
    entry *entries;
    uint32_t count, cap, max;
    chunk *first, *last; /* last: the chunk being filled */
    bool rooted;         /* the entries stand in canonical order */
};

static void *take(const uvcc_allocator *al, size_t count, size_t size) {
    if (count > SIZE_MAX / size)
        return NULL;
    return al->alloc(al->user, count * size, UVCC_MEM_STATE);
}

static void give(const uvcc_allocator *al, void *p, size_t count, size_t size) {
    if (p != NULL)
        al->free(al->user, p, count * size, UVCC_MEM_STATE);
}

const char *uvcc_leaf_name(uint8_t type) {
    switch (type) {
#define UVCC_LEAF(name, code, bytes, key)                                                          \
    case code:                                                                                     \
        return #name;
#include <uvcc/leaves.def>
#undef UVCC_LEAF
    default:
        return "UNKNOWN";
    }
}

int uvcci_transcript_new(uvcci_transcript **out, const uvcc_allocator *al, uint32_t max_leaves) {
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    uvcci_transcript *t = take(al, 1, sizeof *t);
    if (t == NULL)
        return UVCC_ERR_NOMEM;
    *t = (uvcci_transcript){.al = *al, .max = max_leaves};
    *out = t;
    return 0;
}

void uvcci_transcript_free(uvcci_transcript *t) {
    if (t == NULL)
        return;
    uvcc_allocator al = t->al;
    for (chunk *c = t->first; c != NULL;) {
        chunk *next = c->next;
        give(&al, c, 1, sizeof *c);
        c = next;
    }
    give(&al, t->entries, t->cap, sizeof t->entries[0]);
    give(&al, t, 1, sizeof *t);
}

/* Chunks hold all leaves but what is left at their ends, which is less than one; entries double
 * beside the ones before, and sorting takes as many again. */
uint64_t uvcci_transcript_bound(uint64_t leaves) {
    const uint64_t per_chunk = sizeof((chunk *)0)->bytes / UVCCI_LEAF_MAX_BYTES;
    const uint64_t entries = 3 * (leaves < FIRST_ENTRIES ? FIRST_ENTRIES : leaves);
    return sizeof(struct uvcci_transcript) + (leaves / per_chunk + 1) * sizeof(chunk) +
           entries * sizeof(entry) + (leaves >= RADIX_FROM ? RADIX * sizeof(uint32_t) : 0);
}

static int reserve_entry(uvcci_transcript *t) {
    assert(t->count < t->max && t->cap <= t->max);
    if (t->count < t->cap)
        return 0;
    uint32_t cap = t->cap <= t->max / 2 ? 2 * t->cap : t->max;
    if (cap < FIRST_ENTRIES)
        cap = t->max < FIRST_ENTRIES ? t->max : FIRST_ENTRIES;
    entry *entries = take(&t->al, cap, sizeof entries[0]);
    if (entries == NULL)
        return UVCC_ERR_NOMEM;
    if (t->count != 0)
        memcpy(entries, t->entries, t->count * sizeof entries[0]);
    give(&t->al, t->entries, t->cap, sizeof entries[0]);
    t->entries = entries;
    t->cap = cap;
    return 0;
}

/* Makes `last` a chunk with room for len bytes. */
static int reserve_bytes(uvcci_transcript *t, size_t len) {
    if (t->last != NULL && len <= sizeof t->last->bytes - t->last->used)
        return 0;
    chunk *c = take(&t->al, 1, sizeof *c);
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    c->next = NULL;
    c->used = 0;
    if (t->last != NULL)
        t->last->next = c;
    else
        t->first = c;
    t->last = c;
    return 0;
}

int uvcci_transcript_add(uvcci_transcript *t, uint32_t row, const uint8_t *leaf, size_t len) {
    if (leaf == NULL || len == 0 || len > UVCCI_LEAF_MAX_BYTES)
        return UVCC_ERR_USAGE;
    if (t->count >= t->max)
        return UVCC_ERR_LIMIT;
    int rc = reserve_entry(t);
    if (rc == 0)
        rc = reserve_bytes(t, len);
    if (rc != 0)
        return rc;
    uint8_t *bytes = t->last->bytes + t->last->used;
    memcpy(bytes, leaf, len);
    t->last->used += (uint32_t)len;
    t->entries[t->count++] = (entry){.leaf = bytes, .row = row, .len = (uint32_t)len};
    t->rooted = false;
    return 0;
}

uint32_t uvcci_transcript_count(const uvcci_transcript *t) {
    return t->count;
}

static bool in_order(const entry *a, const entry *b) {
    if (a->row != b->row)
        return a->row < b->row;
    int c = memcmp(a->leaf, b->leaf, a->len < b->len ? a->len : b->len);
    return c != 0 ? c < 0 : a->len <= b->len;
}

/* Merges src[lo, mid) and src[mid, hi) into dst[lo, hi). */
static void merge(entry *dst, const entry *src, size_t lo, size_t mid, size_t hi) {
    if (mid == hi || in_order(&src[mid - 1], &src[mid])) {
        memcpy(dst + lo, src + lo, (hi - lo) * sizeof *dst);
        return;
    }
    size_t a = lo, b = mid;
    for (size_t i = lo; i < hi; i++)
        dst[i] = b == hi || (a < mid && in_order(&src[a], &src[b])) ? src[a++] : src[b++];
}

static void sort_entries(entry *entries, entry *scratch, size_t n) {
    entry *from = entries, *to = scratch;
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            size_t mid = n - lo < width ? n : lo + width;
            size_t hi = n - mid < width ? n : mid + width;
            merge(to, from, lo, mid, hi);
        }
        entry *swap = from;
        from = to;
        to = swap;
    }
    if (from != entries)
        memcpy(entries, from, n * sizeof *entries);
}

/* Many leaves: first by row, in two stable passes over the rows' halves, then each row's few. It
 * touches an entry twice where merging alone would touch it once for every doubling. */
static void radix_pass(entry *to, const entry *from, uint32_t n, unsigned shift, uint32_t *at) {
    memset(at, 0, RADIX * sizeof at[0]);
    for (uint32_t i = 0; i < n; i++)
        at[from[i].row >> shift & (RADIX - 1)]++;
    for (uint32_t d = 0, sum = 0; d < RADIX; d++) {
        uint32_t count = at[d];
        at[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++)
        to[at[from[i].row >> shift & (RADIX - 1)]++] = from[i];
}

static void sort_many(entry *entries, entry *scratch, uint32_t n, uint32_t *at) {
    radix_pass(scratch, entries, n, 0, at);
    radix_pass(entries, scratch, n, 16, at);
    for (uint32_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && entries[end].row == entries[first].row; end++)
            ;
        sort_entries(entries + first, scratch + first, end - first);
    }
}

void uvcci_merkle_node(const uint8_t left[32], const uint8_t right[32], uint8_t out[32]) {
    uint8_t buf[65] = {1};
    memcpy(buf + 1, left, 32);
    memcpy(buf + 33, right, 32);
    uvcci_sha256_once(buf, sizeof buf, out);
}

static uint32_t parents_of(uint32_t n) {
    return n / 2 + (n & 1u);
}

/* The level above n >= 2 nodes. `up` may be `level` itself: node i is read before it is written. */
static void hash_level(uint8_t (*up)[32], uint8_t (*level)[32], uint32_t n) {
    for (uint32_t i = 0; i < n / 2; i++)
        uvcci_merkle_node(level[2 * (size_t)i], level[2 * (size_t)i + 1], up[i]);
    if (n & 1u)
        memcpy(up[n / 2], level[n - 1], 32);
}

static void empty_root(uint8_t root[32]) {
    static const char label[] = "UVCC_EMPTY_V1";
    uvcci_sha256_once(label, sizeof label - 1, root);
}

/* Whether node i of a level of n has a sibling: all but a last odd node. */
static bool has_sibling(uint32_t i, uint32_t n) {
    return (i ^ 1u) < n;
}

void uvcci_merkle_root(uint8_t *hashes, uint32_t count, uint8_t root[32]) {
    if (count == 0) {
        empty_root(root);
        return;
    }
    uint8_t(*level)[32] = (uint8_t(*)[32])hashes;
    for (uint32_t n = count; n > 1; n = parents_of(n))
        hash_level(level, level, n);
    memcpy(root, level[0], 32);
}

void uvcci_merkle_begin(uvcci_merkle *m, uint32_t target) {
    m->depth = m->count = m->sibling_count = 0;
    m->target = target;
    m->at = UINT32_MAX;
}

/* The two upmost subtrees become one. */
static void merkle_join(uvcci_merkle *m) {
    assert(m->depth >= 2);
    uint8_t *left = m->node[m->depth - 2], *right = m->node[m->depth - 1];
    if (m->at == m->depth - 1 || m->at == m->depth - 2) {
        assert(m->sibling_count < UVCC_PATH_MAX);
        memcpy(m->sibling[m->sibling_count++], m->at == m->depth - 1 ? left : right, 32);
        m->at = m->depth - 2;
    }
    uvcci_merkle_node(left, right, left);
    m->depth--;
}

void uvcci_merkle_add(uvcci_merkle *m, const uint8_t leaf_hash[32]) {
    if (m->count == m->target)
        m->at = m->depth;
    assert(m->depth < sizeof m->node / sizeof m->node[0]);
    memcpy(m->node[m->depth++], leaf_hash, 32);
    m->count++;
    for (uint32_t n = m->count; (n & 1u) == 0; n >>= 1)
        merkle_join(m);
}

/* What is left on the stack are subtrees that fall in size: the last odd nodes of their levels. */
void uvcci_merkle_end(uvcci_merkle *m, uint8_t root[32]) {
    if (m->count == 0) {
        empty_root(root);
        return;
    }
    while (m->depth > 1)
        merkle_join(m);
    memcpy(root, m->node[0], 32);
}

int uvcci_merkle_verify(const uint8_t leaf_hash[32], uint32_t index, uint32_t count,
                        const uint8_t *siblings, uint32_t n, const uint8_t root[32]) {
    if (index >= count)
        return UVCC_ERR_AUTH;
    uint8_t node[32];
    uint32_t used = 0;
    memcpy(node, leaf_hash, 32);
    for (uint32_t width = count; width > 1; width = parents_of(width)) {
        if (has_sibling(index, width)) {
            if (used == n)
                return UVCC_ERR_AUTH;
            const uint8_t *sibling = siblings + 32 * (size_t)used++;
            if (index & 1u)
                uvcci_merkle_node(sibling, node, node);
            else
                uvcci_merkle_node(node, sibling, node);
        }
        index >>= 1;
    }
    return used == n && memcmp(node, root, 32) == 0 ? 0 : UVCC_ERR_AUTH;
}

/* ---- a transcript's root ---- */

int uvcci_transcript_sort(uvcci_transcript *t) {
    const uint32_t n = t->count;
    if (n > 1 && !t->rooted) {
        entry *scratch = take(&t->al, n, sizeof *scratch);
        if (scratch == NULL)
            return UVCC_ERR_NOMEM;
        uint32_t *at = n >= RADIX_FROM ? take(&t->al, RADIX, sizeof at[0]) : NULL;
        if (at != NULL)
            sort_many(t->entries, scratch, n, at);
        else
            sort_entries(t->entries, scratch, n);
        give(&t->al, at, RADIX, sizeof at[0]);
        give(&t->al, scratch, n, sizeof *scratch);
    }
    t->rooted = true;
    return 0;
}

int uvcci_transcript_root(uvcci_transcript *t, uint8_t root[32]) {
    const uint32_t n = t->count;
    if (uvcci_transcript_sort(t) != 0)
        return UVCC_ERR_NOMEM;
    uvcci_merkle m;
    uvcci_merkle_begin(&m, UVCC_NO_LEAF);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t h[32];
        uvcci_sha256_once(t->entries[i].leaf, t->entries[i].len, h);
        uvcci_merkle_add(&m, h);
    }
    uvcci_merkle_end(&m, root);
    return 0;
}

int uvcci_transcript_leaf(const uvcci_transcript *t, uint32_t i, uint32_t *row,
                          const uint8_t **leaf, size_t *len) {
    if (!t->rooted)
        return UVCC_ERR_STATE;
    if (i >= t->count)
        return UVCC_ERR_USAGE;
    *row = t->entries[i].row;
    *leaf = t->entries[i].leaf;
    *len = t->entries[i].len;
    return 0;
}

/* H(label || id || LE32(step) || roots): the two upper kinds of root, up to the roots. */
static void begin_roots(uvcci_sha256 *h, const char *label, const uint8_t id[32], uint32_t step) {
    uint8_t le[4];
    uvcci_st32(le, step);
    uvcci_sha256_init(h);
    uvcci_sha256_update(h, label, strlen(label));
    uvcci_sha256_update(h, id, 32);
    uvcci_sha256_update(h, le, sizeof le);
}

void uvcci_replica_root(const uint8_t sid_rep[32], uint32_t step, const uint8_t *step_roots,
                        uint32_t count, uint8_t out[32]) {
    uvcci_sha256 h;
    begin_roots(&h, "UVCC_REPLICA_ROOT_V1", sid_rep, step);
    uvcci_sha256_update(&h, step_roots, 32 * (size_t)count);
    uvcci_sha256_final(&h, out);
}

void uvcci_global_root_begin(uvcci_sha256 *h, const uint8_t sid_job[32], uint32_t step) {
    begin_roots(h, "UVCC_GLOBAL_ROOT_V1", sid_job, step);
}

void uvcci_global_root(const uint8_t sid_job[32], uint32_t step, const uint8_t *replica_roots,
                       uint32_t count, uint8_t out[32]) {
    uvcci_sha256 h;
    uvcci_global_root_begin(&h, sid_job, step);
    uvcci_sha256_update(&h, replica_roots, 32 * (size_t)count);
    uvcci_sha256_final(&h, out);
}

/* Every leaf: its type, a sid, a LE32 (op id or step), then its own fields. */
static uvcci_writer begin_leaf(uint8_t *out, uint8_t type, const uint8_t sid[32], uint32_t id) {
    uvcci_writer w = uvcci_writer_on(out, UVCCI_LEAF_MAX_BYTES);
    uvcci_put8(&w, type);
    uvcci_put(&w, sid, 32);
    uvcci_put32(&w, id);
    return w;
}

static size_t end_leaf(const uvcci_writer *w) {
    assert(!w->bad);
    return w->len;
}

size_t uvcci_leaf_step_begin(uint8_t *out, const uint8_t sid[32], uint32_t step, uint32_t run,
                             const uint16_t rst[3], const uint8_t h_program[32],
                             const uint8_t h_shapes[32], const uint8_t h_optable[32]) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_STEP_BEGIN, sid, step);
    uvcci_put32(&w, run);
    for (unsigned i = 0; i < 3; i++)
        uvcci_put16(&w, rst[i]);
    uvcci_put(&w, h_program, 32);
    uvcci_put(&w, h_shapes, 32);
    uvcci_put(&w, h_optable, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_batch(uint8_t *out, uint8_t type, const uint8_t sid[32], uint32_t op_id,
                        uint8_t src, uint8_t dst, uint32_t msg_id, const uint8_t d[32]) {
    uvcci_writer w = begin_leaf(out, type, sid, op_id);
    uvcci_put8(&w, src);
    uvcci_put8(&w, dst);
    uvcci_put32(&w, msg_id);
    uvcci_put(&w, d, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_open_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint64_t stream,
                            uint16_t round, const uint8_t d[32]) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_OPEN_DONE, sid, op_id);
    uvcci_put64(&w, stream);
    uvcci_put16(&w, round);
    uvcci_put(&w, d, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_keys_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint8_t src,
                            uint8_t dst, const uint8_t d[32]) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_KEYS_DONE, sid, op_id);
    uvcci_put8(&w, src);
    uvcci_put8(&w, dst);
    uvcci_put(&w, d, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_component_commit(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                                   uint64_t fss_id, uint8_t component, const uint8_t d[32]) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_COMPONENT_COMMIT, sid, op_id);
    uvcci_put64(&w, fss_id);
    uvcci_put8(&w, component);
    uvcci_put(&w, d, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_lift_done(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint64_t fss_id,
                            uint32_t q_count) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_LIFT_DONE, sid, op_id);
    uvcci_put64(&w, fss_id);
    uvcci_put32(&w, q_count);
    return end_leaf(&w);
}

size_t uvcci_leaf_abort(uint8_t *out, const uint8_t sid[32], uint32_t step, uint16_t reason) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_ABORT, sid, step);
    uvcci_put16(&w, reason);
    return end_leaf(&w);
}

size_t uvcci_leaf_step_cancelled(uint8_t *out, const uint8_t sid[32], uint32_t step) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_STEP_CANCELLED, sid, step);
    return end_leaf(&w);
}

size_t uvcci_leaf_triple_consumed(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                                  uint64_t triple_id) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_TRIPLE_CONSUMED, sid, op_id);
    uvcci_put64(&w, triple_id);
    return end_leaf(&w);
}

size_t uvcci_leaf_sks_coin(uint8_t *out, const uint8_t sid[32], uint32_t op_id,
                           const uint8_t seed[32]) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_SKS_COIN, sid, op_id);
    uvcci_put(&w, seed, 32);
    return end_leaf(&w);
}

size_t uvcci_leaf_sks_verdict(uint8_t *out, const uint8_t sid[32], uint32_t op_id, uint8_t ok) {
    uvcci_writer w = begin_leaf(out, UVCCI_LEAF_SKS_VERDICT, sid, op_id);
    uvcci_put8(&w, ok);
    return end_leaf(&w);
}
