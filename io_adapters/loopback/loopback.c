/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.c - an in-memory network between numbered nodes, with a virtual clock and seeded faults.
 *
 * Whatever is under way waits in one heap ordered by (due time, sequence number), so what happens
 * is a pure function of the seed and the calls. A fault is drawn by hashing (seed, link, concern,
 * number of the packet on its link): no draw depends on another, nor on the rates.
 *
 * Invariants
 *  - Arrival times of a directed link never fall, except those of datagrams chosen to be reordered
 *    and of duplicates: jitter alone reorders nothing, and a stream stays in order.
 *  - A stream's packets stand in its fifo from send to delivery. Those not in the heap (held by a
 *    cut, or waiting to be joined with the next) are a prefix of it.
 *  - A pair's stream is up, or OPENED entries for it are in the heap.
 *  - The heap always has room for every link's OPENED and CLOSED, so a disconnect cannot fail.
 */
#include <uvcc/loopback.h>

#include <assert.h>
#include <string.h>

#define NODES_MAX         1024u
#define DEFAULT_DELAY_NS  50000u
#define DEFAULT_STALL_NS  50000000u
#define DEFAULT_DOWN_NS   20000000u
#define DEFAULT_QUEUE     ((uint64_t)64 << 20)
#define SPLIT_PIECES_MAX  8u
#define CORRUPT_BITS_MAX  3u
#define CONTROLS_PER_LINK 2u
#define HEAP_ROOM_FIRST   64u

typedef struct packet {
    struct packet *next; /* in the stream's fifo */
    uint64_t at, seq;    /* its place in the heap */
    size_t len, room;    /* room: bytes allocated for data */
    bool queued;         /* it is in the heap */
    bool joins;          /* stream: delivered together with the next that is under way */
    uint8_t data[];
} packet;

typedef struct entry {
    uint64_t at, seq;
    packet *p; /* DATA */
    uint32_t link;
    uvcc_loopback_event_kind kind;
} entry;

/* What a draw is for: each concern has draws of its own. */
typedef enum concern {
    DROP,
    DUPLICATE,
    DUPLICATE_DELAY,
    REORDER,
    CORRUPT,
    CORRUPT_WHERE,
    TRUNCATE,
    TRUNCATE_WHERE,
    SPLIT,
    SPLIT_WHERE,
    COALESCE,
    JITTER,
    STALL,
    STALL_TIME,
    DISCONNECT,
    DISCONNECT_TIME,
    PARTIAL,
    PARTIAL_WHERE,
} concern;

typedef struct link {
    uvcc_fault_config f;
    uint64_t key;       /* of its draws */
    uint64_t index;     /* packets so far: the number in the draws */
    uint64_t downs;     /* disconnects so far */
    uint64_t free_at;   /* when the last byte sent so far has left, by the bandwidth */
    uint64_t last_at;   /* latest arrival given so far */
    uint64_t in_flight; /* bytes */
    bool cut;
    bool up, opening; /* streams; opening: its OPENED is in the heap */
    packet *head, *tail;
} link;

struct uvcc_loopback {
    uvcc_allocator al;
    uint32_t nodes;
    bool datagram;
    uint64_t now, seq;
    entry *heap;
    size_t heap_count, heap_room;
    packet *current; /* what the last poll handed out */
    link *links;     /* nodes * nodes, row `from`; the diagonal is unused */
    uvcc_loopback_stats stats;
};

/* ---- draws ---- */

#define GOLDEN 0x9E3779B97F4A7C15u

static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static uint64_t draw(const link *l, concern c, uint64_t index, uint64_t part) {
    uint64_t z = mix(l->key + GOLDEN * ((uint64_t)c + 1));
    z = mix(z + GOLDEN * (index + 1));
    return mix(z + GOLDEN * (part + 1));
}

static bool hit(const link *l, concern c, uint64_t index, double rate) {
    return (double)(draw(l, c, index, 0) >> 11) * 0x1p-53 < rate;
}

static uint64_t later(uint64_t t, uint64_t ns) {
    return ns < UVCC_NEVER - 1 - t ? t + ns : UVCC_NEVER - 1;
}

/* ---- the heap ---- */

static bool before(const entry *a, const entry *b) {
    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void sift_up(entry *h, size_t i) {
    entry e = h[i];
    while (i > 0 && before(&e, &h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = e;
}

static void sift_down(entry *h, size_t count, size_t i) {
    entry e = h[i];
    for (size_t child = 2 * i + 1; child < count; child = 2 * i + 1) {
        if (child + 1 < count && before(&h[child + 1], &h[child]))
            child++;
        if (!before(&h[child], &e))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = e;
}

/* Room for `more` data entries beside those of all links' control events. */
static bool heap_reserve(uvcc_loopback *n, size_t more) {
    size_t controls = (size_t)CONTROLS_PER_LINK * n->nodes * n->nodes;
    size_t need = n->heap_count + more + controls;
    if (need <= n->heap_room)
        return true;
    size_t room = need > SIZE_MAX / sizeof(entry) / 2 ? 0 : 2 * need + HEAP_ROOM_FIRST;
    entry *h = room == 0 ? NULL : n->al.alloc(n->al.user, room * sizeof *h, UVCC_MEM_STATE);
    if (h == NULL)
        return false;
    if (n->heap != NULL) {
        memcpy(h, n->heap, n->heap_count * sizeof *h);
        n->al.free(n->al.user, n->heap, n->heap_room * sizeof *h, UVCC_MEM_STATE);
    }
    n->heap = h;
    n->heap_room = room;
    return true;
}

static void heap_push(uvcc_loopback *n, entry e) {
    assert(n->heap_count < n->heap_room);
    n->heap[n->heap_count] = e;
    sift_up(n->heap, n->heap_count++);
}

static entry heap_pop(uvcc_loopback *n) {
    entry e = n->heap[0];
    n->heap[0] = n->heap[--n->heap_count];
    if (n->heap_count > 0)
        sift_down(n->heap, n->heap_count, 0);
    return e;
}

static void push_control(uvcc_loopback *n, uint32_t link_index, uvcc_loopback_event_kind kind,
                         uint64_t at) {
    heap_push(n, (entry){.at = at, .seq = n->seq++, .link = link_index, .kind = kind});
}

static void push_packet(uvcc_loopback *n, uint32_t link_index, packet *p) {
    p->queued = true;
    heap_push(
        n, (entry){
               .at = p->at, .seq = p->seq, .p = p, .link = link_index, .kind = UVCC_LOOPBACK_DATA});
}

/* ---- links and packets ---- */

static bool pair_ok(const uvcc_loopback *n, uint32_t from, uint32_t to) {
    return n != NULL && from < n->nodes && to < n->nodes && from != to;
}

static uint32_t link_index(const uvcc_loopback *n, uint32_t from, uint32_t to) {
    return from * n->nodes + to;
}

static packet *packet_new(uvcc_loopback *n, size_t len) {
    if (len > SIZE_MAX - sizeof(packet))
        return NULL;
    packet *p = n->al.alloc(n->al.user, sizeof *p + len, UVCC_MEM_STATE);
    if (p != NULL)
        *p = (packet){.len = len, .room = len};
    return p;
}

static void packet_free(uvcc_loopback *n, packet *p) {
    if (p != NULL)
        n->al.free(n->al.user, p, sizeof *p + p->room, UVCC_MEM_STATE);
}

/* Reads slices from front to back. */
typedef struct cursor {
    const uvcc_slice *slice;
    size_t at;
} cursor;

static void gather(cursor *c, uint8_t *dst, size_t len) {
    while (len > 0) {
        size_t part = c->slice->len - c->at < len ? c->slice->len - c->at : len;
        if (part > 0)
            memcpy(dst, c->slice->data + c->at, part);
        dst += part;
        len -= part;
        c->at += part;
        if (c->at == c->slice->len) {
            c->slice++;
            c->at = 0;
        }
    }
}

static void corrupt(const link *l, uint64_t index, uint8_t *data, size_t len) {
    uint64_t bits = 1 + draw(l, CORRUPT_WHERE, index, 0) % CORRUPT_BITS_MAX;
    for (uint64_t i = 0; i < bits && len > 0; i++) {
        uint64_t where = draw(l, CORRUPT_WHERE, index, i + 1);
        data[(where >> 3) % len] ^= (uint8_t)(1u << (where & 7));
    }
}

/* When `len` bytes sent now arrive. */
static uint64_t arrival(uvcc_loopback *n, link *l, uint64_t index, size_t len) {
    const uvcc_fault_config *f = &l->f;
    uint64_t at = l->free_at > n->now ? l->free_at : n->now;
    if (f->bandwidth_bps != 0) {
        double ns = (double)len * 8e9 / (double)f->bandwidth_bps;
        at = later(at, ns < 1e18 ? (uint64_t)ns : (uint64_t)1e18);
        l->free_at = at;
    }
    at = later(at, f->delay_ns);
    if (f->jitter_ns != 0)
        at = later(at, draw(l, JITTER, index, 0) % f->jitter_ns);
    if (hit(l, STALL, index, f->stall)) {
        at = later(at, 1 + draw(l, STALL_TIME, index, 0) % f->stall_ns);
        n->stats.stalls++;
    }
    if (at < l->last_at)
        at = l->last_at;
    l->last_at = at;
    return at;
}

/* ---- sending ---- */

/* Every fault is drawn from the packet's index: changing one rate leaves the others' draws alone. A
 * lost packet counts as taken, as a socket would have it. */
static size_t send_datagram(uvcc_loopback *n, uint32_t li, const uvcc_slice *slices, size_t total) {
    link *l = &n->links[li];
    const uvcc_fault_config *f = &l->f;
    uint64_t index = l->index++;
    n->stats.packets++;
    n->stats.bytes += total;
    if (l->in_flight > f->queue_bytes || total > f->queue_bytes - l->in_flight) {
        n->stats.dropped++;
        return total;
    }
    uint64_t at = arrival(n, l, index, total);
    bool dropped = hit(l, DROP, index, f->drop), doubled = hit(l, DUPLICATE, index, f->duplicate);
    n->stats.dropped += dropped;
    n->stats.duplicated += doubled;
    if (hit(l, REORDER, index, f->reorder)) {
        at = later(at, f->reorder_ns);
        n->stats.reordered++;
    }
    /* A copy is a packet of its own: dropping one of two leaves the other. */
    unsigned copies = 1u + doubled - dropped;
    for (unsigned c = 0; c < copies; c++) {
        packet *p = heap_reserve(n, 1) ? packet_new(n, total) : NULL;
        if (p == NULL) {
            n->stats.dropped++;
            break;
        }
        gather(&(cursor){.slice = slices}, p->data, total);
        if (c == 0 && hit(l, CORRUPT, index, f->corrupt)) {
            corrupt(l, index, p->data, total);
            n->stats.corrupted++;
        }
        if (c == 0 && total > 0 && hit(l, TRUNCATE, index, f->truncate)) {
            p->len = (size_t)(draw(l, TRUNCATE_WHERE, index, 0) % total);
            n->stats.truncated++;
        }
        p->at = c == 0 ? at : later(at, 1 + draw(l, DUPLICATE_DELAY, index, 0) % f->delay_ns);
        p->seq = n->seq++;
        l->in_flight += p->len;
        push_packet(n, li, p);
    }
    return total;
}

static void drop_stream(uvcc_loopback *n, uint32_t a, uint32_t b);

/* Sizes of the pieces that `len` bytes are delivered in; returns their number. */
static size_t split(const link *l, uint64_t index, size_t len, size_t sizes[SPLIT_PIECES_MAX]) {
    size_t count = 1;
    if (len > 1 && hit(l, SPLIT, index, l->f.split)) {
        size_t most = len < SPLIT_PIECES_MAX ? len : SPLIT_PIECES_MAX;
        count = 2 + (size_t)(draw(l, SPLIT_WHERE, index, 0) % (most - 1));
    }
    for (size_t i = 0; i + 1 < count; i++) {
        size_t spare = len - (count - 1 - i); /* the pieces after this one get a byte each */
        sizes[i] = 1 + (size_t)(draw(l, SPLIT_WHERE, index, i + 1) % spare);
        len -= sizes[i];
    }
    sizes[count - 1] = len;
    return count;
}

/* Memory is found before the index moves and anything is counted: a send that fails changes
 * nothing, and is the same when it is tried again. */
static size_t send_stream(uvcc_loopback *n, uint32_t from, uint32_t to, const uvcc_slice *slices,
                          size_t total) {
    uint32_t li = link_index(n, from, to);
    link *l = &n->links[li];
    const uvcc_fault_config *f = &l->f;
    if (!l->up || total == 0 || l->in_flight >= f->queue_bytes)
        return 0;
    uint64_t index = l->index, space = f->queue_bytes - l->in_flight;
    size_t taken = total < space ? total : (size_t)space;
    if (hit(l, PARTIAL, index, f->partial))
        taken = 1 + (size_t)(draw(l, PARTIAL_WHERE, index, 0) % taken);
    bool truncated = hit(l, TRUNCATE, index, f->truncate);
    size_t len = truncated ? (size_t)(draw(l, TRUNCATE_WHERE, index, 0) % taken) : taken;

    packet *pieces[SPLIT_PIECES_MAX];
    size_t sizes[SPLIT_PIECES_MAX], count = len > 0 ? split(l, index, len, sizes) : 0, made = 0;
    if (heap_reserve(n, count)) {
        while (made < count && (pieces[made] = packet_new(n, sizes[made])) != NULL)
            made++;
    }
    if (made < count) {
        for (size_t i = 0; i < made; i++)
            packet_free(n, pieces[i]);
        return 0;
    }

    l->index++;
    n->stats.packets++;
    n->stats.bytes += taken;
    n->stats.truncated += truncated;
    uint64_t at = arrival(n, l, index, taken);
    bool joins = hit(l, COALESCE, index, f->coalesce);
    cursor c = {.slice = slices};
    for (size_t i = 0; i < count; i++) {
        packet *p = pieces[i];
        gather(&c, p->data, p->len);
        p->at = at;
        p->seq = n->seq++;
        p->joins = joins && i + 1 == count;
        if (l->tail != NULL)
            l->tail->next = p;
        else
            l->head = p;
        l->tail = p;
        push_packet(n, li, p);
    }
    l->in_flight += len;
    if (count > 0 && hit(l, CORRUPT, index, f->corrupt)) {
        corrupt(l, index, pieces[count - 1]->data, pieces[count - 1]->len);
        n->stats.corrupted++;
    }
    if (hit(l, DISCONNECT, index, f->disconnect))
        drop_stream(n, from, to);
    return taken;
}

size_t uvcc_loopback_send(uvcc_loopback *n, uint32_t from, uint32_t to, const uvcc_slice *slices,
                          uint32_t count) {
    if (!pair_ok(n, from, to) || (slices == NULL && count > 0))
        return 0;
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (slices[i].len > SIZE_MAX - total)
            return 0;
        total += slices[i].len;
    }
    return n->datagram ? send_datagram(n, link_index(n, from, to), slices, total)
                       : send_stream(n, from, to, slices, total);
}

/* ---- streams going down and up ---- */

static void forget_fifo(uvcc_loopback *n, link *l) {
    while (l->head != NULL) {
        packet *p = l->head;
        l->head = p->next;
        packet_free(n, p);
    }
    l->tail = NULL;
    l->in_flight = 0;
}

/* What is under way between a and b is lost; both learn of it now and come back later. */
static void drop_stream(uvcc_loopback *n, uint32_t a, uint32_t b) {
    uint32_t ends[2] = {link_index(n, a, b), link_index(n, b, a)};
    if (!n->links[ends[0]].up)
        return;
    size_t kept = 0;
    for (size_t i = 0; i < n->heap_count; i++) {
        const entry *e = &n->heap[i];
        if (e->kind != UVCC_LOOPBACK_DATA || (e->link != ends[0] && e->link != ends[1]))
            n->heap[kept++] = *e;
    }
    n->heap_count = kept;
    for (size_t i = kept / 2; i-- > 0;)
        sift_down(n->heap, kept, i);

    link *first = &n->links[ends[0]];
    uint64_t down_ns = draw(first, DISCONNECT_TIME, first->downs++, 0) % first->f.disconnect_ns;
    uint64_t back = later(n->now, 1 + down_ns);
    for (unsigned i = 0; i < 2; i++) {
        link *l = &n->links[ends[i]];
        forget_fifo(n, l);
        l->up = false;
        l->opening = true;
        push_control(n, ends[i], UVCC_LOOPBACK_CLOSED, n->now);
    }
    for (unsigned i = 0; i < 2; i++)
        push_control(n, ends[i], UVCC_LOOPBACK_OPENED, back);
    n->stats.disconnects++;
}

int uvcc_loopback_disconnect(uvcc_loopback *n, uint32_t a, uint32_t b) {
    if (!pair_ok(n, a, b) || n->datagram)
        return UVCC_ERR_USAGE;
    drop_stream(n, a, b);
    return UVCC_OK;
}

int uvcc_loopback_cut(uvcc_loopback *n, uint32_t from, uint32_t to, bool cut) {
    if (!pair_ok(n, from, to))
        return UVCC_ERR_USAGE;
    uint32_t li = link_index(n, from, to);
    link *l = &n->links[li];
    size_t held = 0;
    for (packet *p = l->head; p != NULL && !p->queued; p = p->next)
        held++;
    if (!cut && !heap_reserve(n, held))
        return UVCC_ERR_NOMEM;
    l->cut = cut;
    if (!cut) { /* due now; their old sequence numbers keep them ahead of what came after */
        for (packet *p = l->head; p != NULL && !p->queued; p = p->next) {
            p->at = n->now;
            push_packet(n, li, p);
        }
    }
    return UVCC_OK;
}

/* ---- delivery ---- */

/* Takes the fifo's packets up to and including p as one; or, without memory for that, just the
 * first and puts p back. */
static packet *take_joined(uvcc_loopback *n, uint32_t li, packet *p) {
    link *l = &n->links[li];
    packet *out = l->head;
    if (out != p) {
        size_t len = 0;
        for (packet *q = l->head; q != p->next; q = q->next)
            len += q->len;
        packet *joined = packet_new(n, len);
        if (joined != NULL) {
            uint8_t *dst = joined->data;
            packet *end = p->next;
            while (l->head != end) {
                packet *q = l->head;
                memcpy(dst, q->data, q->len);
                dst += q->len;
                l->head = q->next;
                packet_free(n, q);
            }
            if (end == NULL)
                l->tail = NULL;
            return joined;
        }
        push_packet(n, li, p);
    }
    l->head = out->next;
    if (l->head == NULL)
        l->tail = NULL;
    return out;
}

/* The packet to hand out for a DATA entry that is due, or NULL if nothing comes of it now. */
static packet *deliver(uvcc_loopback *n, uint32_t li, packet *p) {
    link *l = &n->links[li];
    p->queued = false;
    if (!n->datagram) {
        if (l->cut || (p->joins && p->next != NULL))
            return NULL;
        p = take_joined(n, li, p);
    }
    l->in_flight -= p->len;
    if (l->cut) {
        n->stats.dropped++;
        packet_free(n, p);
        return NULL;
    }
    return p;
}

int uvcc_loopback_poll(uvcc_loopback *n, uvcc_loopback_event *out) {
    if (n == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    packet_free(n, n->current);
    n->current = NULL;
    while (n->heap_count > 0 && n->heap[0].at <= n->now) {
        entry e = heap_pop(n);
        *out = (uvcc_loopback_event){
            .kind = e.kind, .from = e.link / n->nodes, .to = e.link % n->nodes};
        if (e.kind == UVCC_LOOPBACK_DATA) {
            packet *p = deliver(n, e.link, e.p);
            if (p == NULL)
                continue;
            n->current = p;
            out->data = p->data;
            out->len = p->len;
        } else if (e.kind == UVCC_LOOPBACK_OPENED) {
            link *here = &n->links[e.link], *there = &n->links[link_index(n, out->to, out->from)];
            here->opening = false;
            here->up = there->up = !there->opening;
        }
        return 1;
    }
    return 0;
}

uint64_t uvcc_loopback_next(const uvcc_loopback *n) {
    if (n == NULL || n->heap_count == 0)
        return UVCC_NEVER;
    return n->heap[0].at > n->now ? n->heap[0].at : n->now;
}

/* ---- life and settings ---- */

static bool rate_ok(double p) {
    return p >= 0.0 && p < 1.0;
}

static bool faults_ok(const uvcc_fault_config *f) {
    return rate_ok(f->drop) && rate_ok(f->duplicate) && rate_ok(f->reorder) &&
           rate_ok(f->corrupt) && rate_ok(f->truncate) && rate_ok(f->split) &&
           rate_ok(f->coalesce) && rate_ok(f->stall) && rate_ok(f->disconnect) &&
           rate_ok(f->partial);
}

int uvcc_loopback_set_faults(uvcc_loopback *n, uint32_t from, uint32_t to,
                             const uvcc_fault_config *f) {
    static const uvcc_fault_config none = {0};
    if (f == NULL)
        f = &none;
    if (!pair_ok(n, from, to) || !faults_ok(f))
        return UVCC_ERR_USAGE;
    uvcc_fault_config *to_set = &n->links[link_index(n, from, to)].f;
    *to_set = *f;
    if (to_set->delay_ns == 0)
        to_set->delay_ns = DEFAULT_DELAY_NS;
    if (to_set->reorder_ns == 0)
        to_set->reorder_ns = to_set->delay_ns < UVCC_NEVER / 4 ? 4 * to_set->delay_ns : UVCC_NEVER;
    if (to_set->stall_ns == 0)
        to_set->stall_ns = DEFAULT_STALL_NS;
    if (to_set->disconnect_ns == 0)
        to_set->disconnect_ns = DEFAULT_DOWN_NS;
    if (to_set->queue_bytes == 0)
        to_set->queue_bytes = DEFAULT_QUEUE;
    return UVCC_OK;
}

int uvcc_loopback_set_all_faults(uvcc_loopback *n, const uvcc_fault_config *f) {
    if (n == NULL || (f != NULL && !faults_ok(f)))
        return UVCC_ERR_USAGE;
    for (uint32_t from = 0; from < n->nodes; from++) {
        for (uint32_t to = 0; to < n->nodes; to++) {
            if (from != to)
                (void)uvcc_loopback_set_faults(n, from, to, f);
        }
    }
    return UVCC_OK;
}

/* Streams open by events like any others: no host may assume that a peer is there at the start. */
int uvcc_loopback_new(uvcc_loopback **out, const uvcc_allocator *al, uint32_t nodes, bool datagram,
                      uint64_t seed) {
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL || nodes < 2 ||
        nodes > NODES_MAX)
        return UVCC_ERR_USAGE;
    uvcc_loopback *n = al->alloc(al->user, sizeof *n, UVCC_MEM_STATE);
    if (n == NULL)
        return UVCC_ERR_NOMEM;
    *n = (uvcc_loopback){.al = *al, .nodes = nodes, .datagram = datagram};
    size_t links_bytes = (size_t)nodes * nodes * sizeof *n->links;
    n->links = al->alloc(al->user, links_bytes, UVCC_MEM_STATE);
    if (n->links != NULL)
        memset(n->links, 0, links_bytes);
    if (n->links == NULL || !heap_reserve(n, 0)) {
        uvcc_loopback_free(n);
        return UVCC_ERR_NOMEM;
    }
    for (uint32_t from = 0; from < nodes; from++) {
        for (uint32_t to = 0; to < nodes; to++) {
            link *l = &n->links[link_index(n, from, to)];
            l->key = mix(mix(seed + GOLDEN) + GOLDEN * (1 + link_index(n, from, to)));
            if (from != to && !datagram) {
                l->opening = true;
                push_control(n, link_index(n, from, to), UVCC_LOOPBACK_OPENED, 0);
            }
        }
    }
    (void)uvcc_loopback_set_all_faults(n, NULL);
    *out = n;
    return UVCC_OK;
}

void uvcc_loopback_free(uvcc_loopback *n) {
    if (n == NULL)
        return;
    uvcc_allocator al = n->al;
    packet_free(n, n->current);
    if (n->datagram) {
        for (size_t i = 0; i < n->heap_count; i++)
            packet_free(n, n->heap[i].p);
    } else if (n->links != NULL) {
        for (size_t i = 0; i < (size_t)n->nodes * n->nodes; i++)
            forget_fifo(n, &n->links[i]);
    }
    if (n->heap != NULL)
        al.free(al.user, n->heap, n->heap_room * sizeof *n->heap, UVCC_MEM_STATE);
    if (n->links != NULL)
        al.free(al.user, n->links, (size_t)n->nodes * n->nodes * sizeof *n->links, UVCC_MEM_STATE);
    al.free(al.user, n, sizeof *n, UVCC_MEM_STATE);
}

uint64_t uvcc_loopback_now(const uvcc_loopback *n) {
    return n == NULL ? 0 : n->now;
}

void uvcc_loopback_advance(uvcc_loopback *n, uint64_t t) {
    if (n != NULL && t > n->now && t != UVCC_NEVER)
        n->now = t;
}

void uvcc_loopback_get_stats(const uvcc_loopback *n, uvcc_loopback_stats *out) {
    if (n != NULL && out != NULL)
        *out = n->stats;
}
