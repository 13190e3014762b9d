/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - how much tensor memory a step of an entry can need at one time.
 *
 * A buffer is live from the start of its first writer until all ops that touch it are done. Of two
 * buffers, one is dead before the other is live in every order that dependencies and the limit of
 * microbatches in flight allow, if all ops that touch the one come before the other's first writer.
 * Buffers that follow one another like that make a *row*: it never has two live ones. However the
 * buffers are put into rows, the sum of each row's largest is enough for every order. Two ways of
 * doing it are tried, the larger buffers first and in program order; the smaller sum counts. For a
 * chain of ops it is exactly what a step needs. */
#include "exec/program/memory.h"

#include "proto/sort.h"
#include <assert.h>
#include <string.h>

#define MOST_OPS 32768u /* tables grow with the square */

/* Buffers are sorted by words of their size or place and their number. */
#define BUFFER_BITS 16
#define MOST_BYTES  (1ull << 46)
_Static_assert(UVCCI_MAX_TENSORS + MOST_OPS <= 1u << BUFFER_BITS, "a number for each");

typedef struct memory {
    const uvcc_program *p;
    const uvcci_entry *e;
    const uint64_t *work;  /* [op]: what an op takes from its start to its end; may be NULL */
    bool tensors;          /* buffers of tensors count */
    uint32_t total;        /* buffers: of tensors, then of ops */
    size_t words;          /* of a set of ops */
    uint64_t *before;      /* [op]: all that come before it */
    uint64_t *flown;       /* [microbatch]: its BWD ops and all before them */
    uint32_t *user, *from; /* ops that touch buffer b: user[from[b] .. from[b + 1]) */
    uint32_t *list;        /* buffers, in the order in which they are put into rows */
    uint64_t *key;         /* to sort by */
    uint32_t *next;        /* [buffer]: the one behind it in its row */
    uint32_t *head;        /* [row] */
    uint32_t count;        /* of buffers in the list */
    void *mem;
    size_t mem_bytes;
} memory;

static uint64_t buffer_bytes(const memory *m, uint32_t b) {
    if (b >= m->p->tensor_count)
        return m->work[b - m->p->tensor_count];
    const uvcci_tensor *t = &m->p->tensors[b];
    return t->elems * (t->desc.sharing == UVCC_ADDITIVE ? 8 : 16);
}

static bool is_live(const memory *m, uint32_t b) {
    if (b >= m->p->tensor_count)
        return m->work != NULL && m->work[b - m->p->tensor_count] != 0;
    return m->tensors && m->p->tensors[b].buffer == b &&
           m->p->tensors[b].desc.lifetime == UVCC_TRANSIENT &&
           m->e->life[b].first_write != UVCCI_NO_OP;
}

/* The op that takes it: of an op's own memory, that op. */
static uint32_t first_of(const memory *m, uint32_t b) {
    return b >= m->p->tensor_count ? b - m->p->tensor_count : m->e->life[b].first_write;
}

static bool holds(const uint64_t *set, uint32_t op) {
    return (set[op / 64] >> (op % 64) & 1) != 0;
}

static void join(const memory *m, uint64_t *into, const uint64_t *set) {
    for (size_t w = 0; w < m->words; w++)
        into[w] |= set[w];
}

/* One block of memory, cut into all tables, the longs first: it is had or not had as one. */
static int memory_init(memory *m) {
    const size_t ops = m->e->op_count, tensors = m->total, mbs = m->e->microbatches;
    uint32_t touches = 0;
    for (uint32_t i = 0; i < ops; i++)
        touches += m->e->ops[i].touched_count + 1u; /* and its own memory */
    m->words = (ops + 63) / 64;
    const size_t longs = (ops + mbs) * m->words + tensors;
    const size_t shorts = touches + (tensors + 1) + 3 * tensors;
    m->mem_bytes = longs * sizeof(uint64_t) + shorts * sizeof(uint32_t);
    m->mem = m->p->alloc.alloc(m->p->alloc.user, m->mem_bytes, UVCC_MEM_STATE);
    if (m->mem == NULL)
        return UVCC_ERR_NOMEM;
    memset(m->mem, 0, m->mem_bytes);
    m->before = m->mem;
    m->flown = m->before + ops * m->words;
    m->key = m->flown + mbs * m->words;
    m->from = (uint32_t *)(m->key + tensors);
    m->list = m->from + tensors + 1;
    m->next = m->list + tensors;
    m->head = m->next + tensors;
    m->user = m->head + tensors;
    return 0;
}

/* Program order is one that is allowed, so whatever comes before an op stands before it. */
static void find_before(memory *m) {
    const uvcci_entry *e = m->e;
    for (uint32_t i = 0; i < e->op_count; i++) {
        const uvcci_op *op = &e->ops[i];
        uint64_t *set = m->before + i * m->words;
        const uint32_t mb = op->desc.mb;
        const bool flies = e->in_flight != 0 && op->desc.phase != UVCC_UPD;
        if (flies && mb >= e->in_flight)
            join(m, set, m->flown + (mb - e->in_flight) * m->words);
        set[i / 64] |= 1ull << (i % 64); /* with itself, for those behind it */
        for (uint32_t k = 0; k < op->succ_count; k++)
            join(m, m->before + e->succ[op->succ_first + k] * m->words, set);
        if (flies && op->desc.phase == UVCC_BWD)
            join(m, m->flown + mb * m->words, set);
        set[i / 64] &= ~(1ull << (i % 64));
    }
}

static void find_users(memory *m) {
    const uvcci_entry *e = m->e;
    const uint32_t tensors = m->p->tensor_count;
    for (uint32_t b = 0; b < m->total; b++)
        m->from[b + 1] = m->from[b] + (b < tensors ? e->uses[b] : 1u);
    for (uint32_t i = 0; i < e->op_count; i++)
        m->user[m->from[tensors + i]] = i;
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint32_t k = 0; k < e->ops[i].touched_count; k++) {
            const uint32_t b = e->ops[i].touched[k];
            assert(m->from[b] + m->next[b] < m->from[b + 1]);
            m->user[m->from[b] + m->next[b]++] = i; /* next: how many so far */
        }
}

/* Whether a is dead before b is live. */
static bool follows(const memory *m, uint32_t a, uint32_t b) {
    const uint64_t *set = m->before + first_of(m, b) * m->words;
    for (uint32_t i = m->from[a]; i < m->from[a + 1]; i++)
        if (!holds(set, m->user[i]))
            return false;
    return true;
}

/* Puts b into the row if it fits there. */
static bool put(memory *m, uint32_t *head, uint32_t b) {
    uint32_t *at = head;
    while (*at != UVCC_NO_TENSOR && follows(m, *at, b))
        at = &m->next[*at];
    assert(is_live(m, b));
    if (*at != UVCC_NO_TENSOR && !follows(m, b, *at))
        return false;
    m->next[b] = *at;
    *at = b;
    return true;
}

/* Each buffer goes to the first row that takes it. */
static uint64_t sum_of_rows(memory *m) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        uint32_t r = 0;
        while (r < rows && !put(m, &m->head[r], m->list[i]))
            r++;
        if (r == rows) {
            m->head[rows++] = m->list[i];
            m->next[m->list[i]] = UVCC_NO_TENSOR;
        }
    }
    assert(rows <= m->count);
    uint64_t sum = 0;
    for (uint32_t r = 0; r < rows; r++) {
        uint64_t most = 0;
        for (uint32_t b = m->head[r]; b != UVCC_NO_TENSOR; b = m->next[b])
            most = buffer_bytes(m, b) > most ? buffer_bytes(m, b) : most;
        sum += most;
    }
    return sum;
}

/* Lists the buffers by size, the largest first, or by their first writer. */
static void sort_buffers(memory *m, bool by_size) {
    m->count = 0;
    for (uint32_t b = 0; b < m->total; b++)
        if (is_live(m, b)) {
            const uint64_t bytes =
                buffer_bytes(m, b) < MOST_BYTES ? buffer_bytes(m, b) : MOST_BYTES;
            m->key[m->count++] = (by_size ? MOST_BYTES - bytes : first_of(m, b)) << BUFFER_BITS | b;
        }
    uvcci_sort(m->key, m->count, sizeof m->key[0], uvcci_compare_u64);
    for (uint32_t i = 0; i < m->count; i++)
        m->list[i] = (uint32_t)(m->key[i] & ((1u << BUFFER_BITS) - 1));
}

int uvcci_memory_bound_with(const uvcc_program *p, const uvcci_entry *e, const uint64_t *work,
                            bool tensors, uint64_t *bytes) {
    memory m = {.p = p, .e = e, .work = work, .tensors = tensors};
    if (m.e->op_count > MOST_OPS)
        return UVCC_ERR_LIMIT;
    m.total = p->tensor_count + e->op_count;
    int err = memory_init(&m);
    if (err != 0)
        return err;
    find_before(&m);
    find_users(&m);
    sort_buffers(&m, true);
    const uint64_t by_size = sum_of_rows(&m);
    sort_buffers(&m, false);
    const uint64_t by_time = sum_of_rows(&m);
    *bytes = by_size < by_time ? by_size : by_time;
    p->alloc.free(p->alloc.user, m.mem, m.mem_bytes, UVCC_MEM_STATE);
    return 0;
}

int uvcci_memory_bound(const uvcc_program *p, const uvcci_entry *e, uint64_t *bytes) {
    return uvcci_memory_bound_with(p, e, NULL, true, bytes);
}

int uvcc_program_memory(const uvcc_program *p, uint32_t entry, uint64_t *bytes) {
    if (p == NULL || bytes == NULL || !p->finished || entry >= p->entry_count)
        return UVCC_ERR_USAGE;
    return uvcci_memory_bound(p, &p->entries[entry], bytes);
}
