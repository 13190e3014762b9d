/* SPDX-License-Identifier: Apache-2.0 */
/* serve_queue.c - see serve_queue.h.
 *
 * When is a request dropped? Not while a party is away: then nobody chooses. Only if the party
 * whose turn it was had offered it before, so that everybody who has it echoed it, and not all
 * three did: then one of them has it not, for it began anew or the client never sent it there; and
 * not before wait_ns are over, since it may be on its way. */
#include "serve_queue.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)
#define AGAIN_MIN (250 * NS_PER_MS) /* until an offer that led to nothing is made again */
#define AGAIN_MAX (1000 * NS_PER_MS)

typedef struct entry {
    uvcc_service_job job;
    const uint8_t *key;
    bool fresh;           /* not offered yet, in this run */
    bool offered, echoed; /* in the offer that is out; among its echoes */
    uint32_t serving;     /* its place in the list, from 1; 0: it waits */
    uint64_t since;       /* when it was offered first in this run */
} entry;

struct serve_queue {
    serve_differs *differs;
    const void *user;
    serve_replies to;
    uint64_t wait_ns, again_ns, again_at;
    serve_slot last[UVCC_PARTIES][SERVE_SLOTS]; /* offers, as they opened last */
    entry *entry;
    uint32_t count, room, served; /* served: of the list */
    serve_counts counts;
};

serve_queue *serve_queue_new(serve_differs *differs, const void *user) {
    serve_queue *q = calloc(1, sizeof *q);
    if (q != NULL)
        *q = (serve_queue){.differs = differs, .user = user, .again_ns = AGAIN_MIN};
    return q;
}

void serve_queue_free(serve_queue *q) {
    if (q != NULL)
        free(q->entry);
    free(q);
}

void serve_queue_attach(serve_queue *q, const serve_replies *to, uint64_t wait_ns) {
    q->to = *to;
    q->wait_ns = wait_ns;
}

void serve_queue_counts(const serve_queue *q, serve_counts *out) {
    *out = q->counts;
    out->waiting = q->count;
}

/* ---- requests come and go ---- */

static bool has_room(serve_queue *q) {
    if (q->count < q->room)
        return true;
    const uint32_t room = 2 * q->room + 16;
    entry *more = realloc(q->entry, room * sizeof *more);
    if (more == NULL)
        return false;
    q->entry = more;
    q->room = room;
    return true;
}

bool serve_queue_put(serve_queue *q, const uvcc_service_job *job, const uint8_t key[32]) {
    const uint32_t why = q->differs(q->user, &job->shape);
    if (why != 0) {
        if (q->to.refuse(q->to.user, job->token, why) != 0)
            return false;
        q->counts.refused++;
        return true;
    }
    if (!has_room(q))
        return false;
    q->entry[q->count++] = (entry){.job = *job, .key = key, .fresh = true};
    return true;
}

static void forget(serve_queue *q, entry *e) {
    q->count--;
    memmove(e, e + 1, (size_t)(q->entry + q->count - e) * sizeof *e);
}

/* False without memory for the answer: it is tried again with the next list. */
static bool tell(serve_queue *q, entry *e, uvcc_request_status status) {
    if (q->to.answer(q->to.user, e->job.token, status, NULL, NULL, 0) != 0)
        return false;
    forget(q, e);
    return true;
}

/* ---- offers ---- */

static serve_name name_of(const entry *e) {
    serve_name n;
    memcpy(n.client, e->key, sizeof n.client);
    memcpy(n.id, e->job.id, sizeof n.id);
    return n;
}

/* How many of its client's requests are among these slots. */
static uint32_t taken(const entry *e, const serve_slot *slot, unsigned count) {
    uint32_t n = 0;
    for (unsigned i = 0; i < count; i++)
        n += memcmp(slot[i].name.client, e->key, sizeof slot[i].name.client) == 0;
    return n;
}

/* Which one comes next behind these slots. Each client's first, then each one's second: none keeps
 * the others out. */
static bool before(const entry *a, const entry *b, const serve_slot *slot, unsigned count,
                   uint32_t turn) {
    const uint32_t x = taken(a, slot, count), y = taken(b, slot, count);
    if (x != y)
        return x < y;
    const int order = serve_order(a->key, b->key, turn);
    return order != 0 ? order < 0 : serve_order(a->job.id, b->job.id, turn) < 0;
}

void serve_queue_run(serve_queue *q) {
    q->again_ns = AGAIN_MIN;
    q->again_at = 0;
    q->served = 0;
    memset(q->last, 0, sizeof q->last);
    for (uint32_t i = 0; i < q->count; i++) {
        entry *e = &q->entry[i];
        *e = (entry){.job = e->job, .key = e->key, .fresh = true};
    }
}

bool serve_queue_wants(const serve_queue *q, uint64_t now) {
    for (uint32_t i = 0; i < q->count; i++)
        if (q->entry[i].fresh)
            return true;
    return q->count != 0 && now >= q->again_at;
}

static entry *find(serve_queue *q, const serve_name *name) {
    for (uint32_t i = 0; i < q->count; i++) {
        const serve_name n = name_of(&q->entry[i]);
        if (memcmp(&n, name, sizeof n) == 0)
            return &q->entry[i];
    }
    return NULL;
}

static void put_slot(entry *e, serve_slot *slot) {
    *slot = (serve_slot){.used = true, .name = name_of(e)};
    memcpy(slot->digest_lo, e->job.digest_lo, 32);
    memcpy(slot->digest_hi, e->job.digest_hi, 32);
    e->offered = true;
}

/* What the leader offered by itself the last time, of what is here too. */
static void put_echoes(serve_queue *q, uint32_t turn, serve_slot slot[SERVE_ECHOES]) {
    const serve_slot *own = q->last[serve_leader(turn)] + SERVE_ECHOES;
    for (unsigned i = 0; i < SERVE_OWN && i < SERVE_ECHOES; i++) {
        entry *e = own[i].used ? find(q, &own[i].name) : NULL;
        if (e == NULL || e->offered)
            continue;
        put_slot(e, &slot[i]);
        e->echoed = true;
    }
}

static entry *next_of(serve_queue *q, const serve_slot *slot, unsigned count, uint32_t turn) {
    entry *next = NULL;
    for (uint32_t i = 0; i < q->count; i++)
        if (!q->entry[i].offered && (next == NULL || before(&q->entry[i], next, slot, count, turn)))
            next = &q->entry[i];
    return next;
}

void serve_queue_offer(serve_queue *q, uint32_t turn, uint64_t now, int64_t words[SERVE_WORDS]) {
    serve_slot slot[SERVE_SLOTS] = {0};
    for (uint32_t i = 0; i < q->count; i++)
        q->entry[i].offered = q->entry[i].echoed = false;
    put_echoes(q, turn, slot);
    for (unsigned k = 0; k < SERVE_OWN; k++) {
        entry *next = next_of(q, slot + SERVE_ECHOES, k, turn);
        if (next == NULL)
            break;
        put_slot(next, &slot[SERVE_ECHOES + k]);
    }
    for (uint32_t i = 0; i < q->count; i++) { /* those that found no room come with a later one */
        entry *e = &q->entry[i];
        e->fresh = false;
        e->since = e->offered && e->since == 0 ? now : e->since;
    }
    serve_offer_write(slot, words);
}

/* ---- what comes of them ---- */

/* What all that had it echoed, and not all three did. */
static void drop_old(serve_queue *q, uint64_t now) {
    for (uint32_t i = 0; i < q->count; i++) {
        entry *e = &q->entry[i];
        if (!e->echoed || e->serving != 0 || now - e->since < q->wait_ns ||
            !tell(q, e, UVCC_REQUEST_DROPPED))
            continue;
        q->counts.dropped++;
        i--;
    }
}

void serve_queue_chosen(serve_queue *q, const int64_t *const offer[UVCC_PARTIES], uint32_t turn,
                        uint64_t now, uint32_t *count) {
    serve_pick pick[SERVE_SLOTS];
    const uint32_t picks = serve_choose(offer, turn, pick);
    q->served = *count = 0;
    for (uint32_t i = 0; i < picks; i++) {
        entry *e = find(q, &pick[i].name);
        if (e != NULL && !pick[i].mismatch)
            e->serving = ++*count;
        else if (e != NULL && tell(q, e, UVCC_REQUEST_MISMATCH))
            q->counts.mismatched++;
    }
    drop_old(q, now);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        serve_offer_read(offer[p], q->last[p]);
    const bool longer = picks == 0 && q->again_ns < AGAIN_MAX;
    q->again_at = picks != 0 ? 0 : now + q->again_ns;
    q->again_ns = picks != 0 ? AGAIN_MIN : longer ? 2 * q->again_ns : q->again_ns;
}

static entry *now_of(const serve_queue *q) {
    for (uint32_t i = 0; i < q->count; i++)
        if (q->entry[i].serving == q->served + 1)
            return &q->entry[i];
    return NULL;
}

const uvcc_service_job *serve_queue_now(const serve_queue *q) {
    const entry *e = now_of(q);
    return e != NULL ? &e->job : NULL;
}

int serve_queue_answer(serve_queue *q, const uint64_t *lo, const uint64_t *hi, size_t n) {
    entry *e = now_of(q);
    if (e == NULL)
        return UVCC_ERR_NOT_FOUND;
    const int rc = q->to.answer(q->to.user, e->job.token, UVCC_REQUEST_OK, lo, hi, n);
    if (rc != 0)
        return rc;
    forget(q, e);
    q->served++;
    q->counts.served++;
    return 0;
}
