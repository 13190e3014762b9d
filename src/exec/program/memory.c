/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - how much tensor memory a step of an entry can need at one time.
 *
 * A buffer is live from the start of its first writer until all ops that touch it are done. If all
 * of them come before the first writer of another buffer, in every order that dependencies and the
 * limit of microbatches in flight allow, then the two never live together, and the other one can
 * stand on the same bytes. One walk in program order hands bytes on in this way; what a buffer
 * needs beyond what is handed to it is new. "Comes before" is transitive, so the buffers that one
 * byte is handed through never live together: at any time, in any order, live buffers stand on
 * different bytes, and the new ones together are a bound. For a chain of ops all dead bytes can be
 * handed on, so there it is exactly what a step needs.
 *
 * What comes before what: ops are put into *tracks*, each op of which comes before the next one of
 * its track. So all that comes before an op is known by how far into each track it reaches: its
 * *reach*, the greatest of its predecessors' with these themselves. A reach is there from an op's
 * first predecessor to its own place in program order, so memory goes with the ops that are open
 * and not with the square of all.
 *
 * Whatever is left out (tracks, reaches and spare bytes to look at are limited) takes away only
 * knowledge that one buffer is dead before another: the bound grows and stays one. */
#include "exec/program/memory.h"

#include "exec/base/arena.h"
#include "exec/base/bounds.h"
#include <assert.h>
#include <string.h>

#define NO_TRACK    UINT32_MAX
#define NOTHING     UINT32_MAX
#define MOST_TRACKS 4096u
#define MOST_BYTES  (256ull << 20) /* of reaches */
enum {
    COLUMNS = 32, /* a reach grows by so many tracks */
    LOOKS = 2048  /* at spare bytes that are not dead yet, from either end of their list */
};

/* The ops before an op: the first at[t] ones of each track t < count. */
typedef struct reach {
    uint32_t *at;
    uint32_t count;
} reach;

/* An op that touches a buffer, in the list of those that none of its other ops comes after. */
typedef struct user {
    uint32_t op, next;
} user;

/* Bytes that a buffer left, in a list by the time at which it did. */
typedef struct spare {
    uint64_t bytes;
    uint32_t users; /* all are done before the bytes can be handed on */
    uint32_t newer, older;
} spare;

typedef struct memory {
    const uvcc_program *p;
    const uvcci_entry *e;
    const uint64_t *work;
    uvcci_memory_of tensors;

    reach *reach;            /* [op] */
    reach *flown;            /* [microbatch mod in_flight + 1]: its BWD ops and all before them */
    uint32_t *flown_of;      /* whose that is */
    uint32_t *track, *place; /* [op]: the place is from 1 */
    uint32_t *length;        /* [MOST_TRACKS] */
    uint32_t tracks, flights;
    uint64_t reach_bytes;

    uint32_t *last; /* [tensor]: list of users of the buffer */
    uint32_t *left; /* [tensor]: ops that touch it and are not passed yet */
    user *users;
    spare *spares;
    uint32_t user_count, spare_count, newest, oldest;
    uint64_t sum;
    void *mem;
    size_t mem_bytes;
} memory;

uint64_t uvcci_buffer_rounded(const uvcc_program *p, uint32_t buffer) {
    const uvcci_tensor *t = &p->tensors[buffer];
    return uvcci_arena_rounded(uvcci_component_bytes(t)) * uvcci_components(&t->desc);
}

static uint64_t buffer_bytes(const memory *m, uint32_t b) {
    const uvcci_tensor *t = &m->p->tensors[b];
    if (m->tensors == UVCCI_MEMORY_NO_TENSORS || t->desc.lifetime != UVCC_TRANSIENT)
        return 0;
    if (m->tensors == UVCCI_MEMORY_TENSORS_ROUNDED)
        return uvcci_buffer_rounded(m->p, b);
    return uvcci_component_bytes(t) * uvcci_components(&t->desc);
}

static uint64_t work_of(const memory *m, uint32_t op) {
    return m->work != NULL ? m->work[op] : 0;
}

/* ---- what comes before an op ---- */

static void drop(memory *m, reach *r) {
    if (r->at == NULL)
        return;
    const size_t bytes = r->count * sizeof *r->at;
    m->p->alloc.free(m->p->alloc.user, r->at, bytes, UVCC_MEM_STATE);
    m->reach_bytes -= bytes;
    *r = (reach){0};
}

/* Room for `tracks` tracks. Beyond the limit of bytes there is none, which is no error. */
static int widen(memory *m, reach *r, uint32_t tracks) {
    const uint32_t count = (tracks + COLUMNS - 1) / COLUMNS * COLUMNS;
    const size_t bytes = count * sizeof *r->at;
    if (count <= r->count || m->reach_bytes + bytes > MOST_BYTES)
        return 0;
    reach wide = {.at = m->p->alloc.alloc(m->p->alloc.user, bytes, UVCC_MEM_STATE), .count = count};
    if (wide.at == NULL)
        return UVCC_ERR_NOMEM;
    memset(wide.at, 0, bytes);
    m->reach_bytes += bytes;
    if (r->count != 0)
        memcpy(wide.at, r->at, r->count * sizeof *r->at);
    drop(m, r);
    *r = wide;
    return 0;
}

static int join(memory *m, reach *into, const reach *from) {
    const int err = widen(m, into, from->count);
    const uint32_t count = into->count < from->count ? into->count : from->count;
    uint32_t *to = into->at;
    for (uint32_t t = 0; t < count; t++)
        to[t] = from->at[t] > to[t] ? from->at[t] : to[t];
    return err;
}

static bool comes_before(const memory *m, uint32_t op, const reach *r) {
    const uint32_t track = m->track[op];
    return track < r->count && r->at[track] >= m->place[op];
}

/* Whether the track's last op comes before the one with this reach. */
static bool goes_on(const memory *m, uint32_t track, const reach *r) {
    return track < r->count && r->at[track] != 0 && r->at[track] == m->length[track];
}

/* The op is put behind one that it comes after, a predecessor if that has none behind it yet (its
 * track stands in m->track[op]), or begins a track; then it is in its own reach. */
static int place_op(memory *m, uint32_t op) {
    reach *r = &m->reach[op];
    uint32_t track = m->track[op];
    if (!goes_on(m, track, r))
        for (track = 0; track < m->tracks && !goes_on(m, track, r); track++)
            ;
    m->track[op] = NO_TRACK;
    if (track == MOST_TRACKS)
        return 0;
    const int err = widen(m, r, track + 1);
    if (err != 0 || r->count <= track)
        return err;
    m->tracks += track == m->tracks;
    m->track[op] = track;
    m->place[op] = r->at[track] = ++m->length[track];
    return 0;
}

static bool flies(const memory *m, const uvcc_op_desc *d) {
    return m->flights != 0 && d->phase != UVCC_UPD;
}

/* What the microbatch that must have ended comes after. */
static int wait_to_fly(memory *m, uint32_t op) {
    const uvcc_op_desc *d = &m->e->ops[op].desc;
    const uint32_t mb = d->mb - m->e->in_flight;
    if (!uvcci_waits_to_fly(m->e, d) || m->flown_of[mb % m->flights] != mb)
        return 0;
    return join(m, &m->reach[op], &m->flown[mb % m->flights]);
}

/* Tells those behind the op: program order is one that is allowed, so they stand behind it there.
 */
static int pass_on(memory *m, uint32_t i) {
    const uvcci_op *op = &m->e->ops[i];
    const uint32_t mb = op->desc.mb;
    int err = 0;
    for (uint32_t k = 0; k < op->succ_count && err == 0; k++) {
        const uint32_t next = m->e->succ[op->succ_first + k];
        err = join(m, &m->reach[next], &m->reach[i]);
        m->track[next] = m->track[i];
    }
    if (err == 0 && flies(m, &op->desc) && op->desc.phase == UVCC_BWD) {
        if (m->flown_of[mb % m->flights] != mb)
            drop(m, &m->flown[mb % m->flights]);
        m->flown_of[mb % m->flights] = mb;
        err = join(m, &m->flown[mb % m->flights], &m->reach[i]);
    }
    drop(m, &m->reach[i]);
    return err;
}

/* ---- bytes ---- */

static bool is_dead(const memory *m, const spare *s, const reach *r) {
    for (uint32_t u = s->users; u != NOTHING; u = m->users[u].next)
        if (!comes_before(m, m->users[u].op, r))
            return false;
    return true;
}

static void take_out(memory *m, const spare *s) {
    *(s->newer != NOTHING ? &m->spares[s->newer].older : &m->newest) = s->older;
    *(s->older != NOTHING ? &m->spares[s->older].newer : &m->oldest) = s->newer;
}

/* Of the bytes that an op needs, as many as it can have of a spare one; the rest is returned. */
static uint64_t take_from(memory *m, uint32_t at, uint64_t bytes) {
    spare *s = &m->spares[at];
    const uint64_t n = s->bytes < bytes ? s->bytes : bytes;
    s->bytes -= n;
    if (s->bytes == 0)
        take_out(m, s);
    return bytes - n;
}

/* The newest spare bytes are of ops near by, which few others come after; the oldest are those that
 * nearly everything comes after. */
static void take(memory *m, uint32_t op, uint64_t bytes) {
    for (unsigned side = 0; side < 2; side++) {
        uint32_t at = side == 0 ? m->newest : m->oldest, looks = 0;
        while (bytes != 0 && at != NOTHING && looks < LOOKS) {
            const spare *s = &m->spares[at];
            const uint32_t next = side == 0 ? s->older : s->newer;
            if (is_dead(m, s, &m->reach[op]))
                bytes = take_from(m, at, bytes);
            else
                looks++;
            at = next;
        }
    }
    m->sum = uvcci_sat_add(m->sum, bytes);
}

/* Bytes whose last users are in the list. */
static void leave(memory *m, uint64_t bytes, uint32_t users) {
    for (uint32_t u = users; u != NOTHING; u = m->users[u].next)
        if (m->track[m->users[u].op] == NO_TRACK)
            return; /* nothing is known to come after it */
    const uint32_t at = m->spare_count++;
    m->spares[at] = (spare){.bytes = bytes, .users = users, .newer = NOTHING, .older = m->newest};
    *(m->newest != NOTHING ? &m->spares[m->newest].newer : &m->oldest) = at;
    m->newest = at;
}

static uint32_t list_user(memory *m, uint32_t op, uint32_t next) {
    m->users[m->user_count] = (user){op, next};
    return m->user_count++;
}

/* Op i touches buffer b: users before it count no more. */
static void touch(memory *m, uint32_t i, uint32_t b) {
    uint32_t *at = &m->last[b];
    while (*at != NOTHING)
        if (comes_before(m, m->users[*at].op, &m->reach[i]))
            *at = m->users[*at].next;
        else
            at = &m->users[*at].next;
    m->last[b] = list_user(m, i, m->last[b]);
    if (--m->left[b] == 0)
        leave(m, buffer_bytes(m, b), m->last[b]);
}

/* ---- the walk ---- */

static int pass(memory *m, uint32_t i) {
    const uvcci_op *op = &m->e->ops[i];
    int err = wait_to_fly(m, i);
    for (uint32_t k = 0; k < op->touched_count && err == 0; k++)
        if (m->e->life[op->touched[k]].first_write == i)
            take(m, i, buffer_bytes(m, op->touched[k]));
    if (err == 0 && work_of(m, i) != 0)
        take(m, i, work_of(m, i));
    if (err == 0)
        err = place_op(m, i);
    for (uint32_t k = 0; k < op->touched_count && err == 0; k++)
        if (buffer_bytes(m, op->touched[k]) != 0)
            touch(m, i, op->touched[k]);
    if (err == 0 && work_of(m, i) != 0)
        leave(m, work_of(m, i), list_user(m, i, NOTHING));
    return err == 0 ? pass_on(m, i) : err;
}

/* One block of memory, cut into all tables, those of longs first. */
static int memory_init(memory *m) {
    const size_t ops = m->e->op_count, tensors = m->p->tensor_count;
    size_t users = 0;
    for (size_t i = 0; i < ops; i++)
        users += m->e->ops[i].touched_count + 1u; /* and its own memory */
    m->flights = m->e->in_flight != 0 ? m->e->in_flight + 1 : 0;
    const size_t spares = tensors + ops;
    m->mem_bytes = (ops + m->flights) * sizeof(reach) + spares * sizeof(spare) +
                   users * sizeof(user) +
                   (m->flights + 2 * ops + MOST_TRACKS + 2 * tensors) * sizeof(uint32_t);
    m->mem = m->p->alloc.alloc(m->p->alloc.user, m->mem_bytes, UVCC_MEM_STATE);
    if (m->mem == NULL)
        return UVCC_ERR_NOMEM;
    memset(m->mem, 0, m->mem_bytes);
    m->reach = m->mem;
    m->flown = m->reach + ops;
    m->spares = (spare *)(m->flown + m->flights);
    m->users = (user *)(m->spares + spares);
    m->flown_of = (uint32_t *)(m->users + users);
    m->track = m->flown_of + m->flights;
    m->place = m->track + ops;
    m->length = m->place + ops;
    m->last = m->length + MOST_TRACKS;
    m->left = m->last + tensors;
    m->newest = m->oldest = NOTHING;
    memset(m->flown_of, 0xff, m->flights * sizeof *m->flown_of);
    memset(m->track, 0xff, ops * sizeof *m->track);
    memset(m->last, 0xff, tensors * sizeof *m->last);
    memcpy(m->left, m->e->uses, tensors * sizeof *m->left);
    return 0;
}

static void memory_free(memory *m) {
    for (uint32_t i = 0; i < m->e->op_count + m->flights; i++)
        drop(m, &m->reach[i]); /* those that have flown lie behind the ops' */
    assert(m->reach_bytes == 0);
    m->p->alloc.free(m->p->alloc.user, m->mem, m->mem_bytes, UVCC_MEM_STATE);
}

int uvcci_memory_bound_with(const uvcc_program *p, const uvcci_entry *e, const uint64_t *work,
                            uvcci_memory_of tensors, uint64_t *bytes) {
    memory m = {.p = p, .e = e, .work = work, .tensors = tensors};
    int err = memory_init(&m);
    if (err != 0)
        return err;
    for (uint32_t i = 0; i < e->op_count && err == 0; i++)
        err = pass(&m, i);
    memory_free(&m);
    if (err == 0)
        *bytes = m.sum;
    return err;
}

int uvcci_memory_bound(const uvcc_program *p, const uvcci_entry *e, uint64_t *bytes) {
    return uvcci_memory_bound_with(p, e, NULL, UVCCI_MEMORY_TENSORS, bytes);
}

int uvcc_program_memory(const uvcc_program *p, uint32_t entry, uint64_t *bytes) {
    if (p == NULL || bytes == NULL || !p->finished || entry >= p->entry_count)
        return UVCC_ERR_USAGE;
    return uvcci_memory_bound(p, &p->entries[entry], bytes);
}
