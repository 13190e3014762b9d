/* link_tx.c - messages out: limits, order, credit, cutting, sealing, retransmission.
 *
 * A message waits in its class's queue, is begun when the whole of it fits the credit, is cut into
 * frames one by one, and goes back to the allocator when all frames are acknowledged. A frame lives
 * from its first transmission to its acknowledgement in a ring of blocks; its header is written
 * anew for each transmission, its payload and tag are sealed once.
 *
 * Loss (datagrams) is told by time and order of transmission, as RACK does: a frame is lost when
 * one sent after it was acknowledged and more than a round trip and an allowance for reordering
 * passed since it was sent. Silence is broken by sending the two oldest frames again, each time
 * after twice the wait. Nothing is ever concluded about congestion: the window is the credit. A
 * late ack always counts, so a timeout below the queueing delay costs a few frames and cannot
 * livelock.
 *
 * Invariants: a frame is in `sent` or in a `lost` list or (streams) in neither; cum < every
 * unacknowledged seq < next <= cum + 2^16 + 1; begun_bytes <= credit; nothing that the outstanding
 * transmit points to is freed before transmit_done. */
#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/crc.h"
#include "proto/link_impl.h"
#include "proto/mutant.h"

enum { MSG_NEW = 0, MSG_SENT = 1 };

/* A stream's transmit is closed when it holds this much: it bounds what an urgent message waits
 * for. */
#define STREAM_TRANSMIT_BYTES (256u << 10)
#define SCRATCH_BYTES         (15u << 10)
/* Payloads up to this are copied next to their headers: one slice for many short frames. */
#define COPY_MAX_BYTES      128u
#define RETRY_NS            UINT64_C(1000000)
#define FIRST_PING_NS       UINT64_C(10000000)
#define PROBE_TRIES         3u
#define PROBE_STEP_BYTES    32u
#define REORDER_EIGHTHS_MIN 1u
#define REORDER_EIGHTHS_MAX 8u
#define TIMEOUT_FRAMES      2u
#define RING_MIN            16u

/* ---- frames by seq ---- */

static uvcci_tx_block **block_slot(const uvcc_link *l, uint64_t seq) {
    return &l->tx.ring[(seq / UVCCI_BLOCK_FRAMES) & (l->tx.ring_cap - 1)];
}

static uvcci_tx_frame *frame_at(const uvcc_link *l, uint64_t seq) {
    return &(*block_slot(l, seq))->frame[seq % UVCCI_BLOCK_FRAMES];
}

/* Links are 16 bits wide: seqs in flight lie within 2^16 of each other. */
static uint32_t link_of(uint64_t seq) {
    return (uint32_t)(seq & 0xFFFF) + 1;
}
static uint64_t seq_of(const uvcc_link *l, uint32_t link) {
    uint64_t base = l->tx.cum + 1;
    return base + (uint16_t)(link - 1 - (uint32_t)base);
}

static void list_append(uvcc_link *l, uvcci_seq_list *list, uint64_t seq, uvcci_tx_frame *f) {
    f->prev = list->last;
    f->next = 0;
    if (list->last != 0)
        frame_at(l, seq_of(l, list->last))->next = link_of(seq);
    else
        list->first = link_of(seq);
    list->last = link_of(seq);
}

static void list_remove(uvcc_link *l, uvcci_seq_list *list, uvcci_tx_frame *f) {
    if (f->prev != 0)
        frame_at(l, seq_of(l, f->prev))->next = f->next;
    else
        list->first = f->next;
    if (f->next != 0)
        frame_at(l, seq_of(l, f->next))->prev = f->prev;
    else
        list->last = f->prev;
}

static void frame_unlist(uvcc_link *l, uvcci_tx_frame *f) {
    if (f->where == UVCCI_IN_SENT)
        list_remove(l, &l->tx.sent, f);
    else if (f->where == UVCCI_IN_LOST)
        list_remove(l, &l->tx.cls[f->msg->cls].lost, f);
    f->where = UVCCI_NOWHERE;
}

static void frame_lose(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    frame_unlist(l, f);
    list_append(l, &l->tx.cls[f->msg->cls].lost, seq, f);
    f->where = UVCCI_IN_LOST;
    f->probed = 0;
}

static bool ring_grow(uvcc_link *l) {
    uint32_t cap = l->tx.ring_cap == 0 ? RING_MIN : 2 * l->tx.ring_cap;
    uvcci_tx_block **ring = uvcci_link_alloc(l, cap * sizeof(*ring), UVCC_MEM_STATE);
    if (ring == NULL)
        return false;
    memset(ring, 0, cap * sizeof(*ring));
    uint64_t first = l->tx.cum / UVCCI_BLOCK_FRAMES;
    for (uint32_t i = 0; i < l->tx.ring_cap; i++)
        ring[(first + i) & (cap - 1)] = l->tx.ring[(first + i) & (l->tx.ring_cap - 1)];
    uvcci_link_give(l, l->tx.ring, l->tx.ring_cap * sizeof(*ring), UVCC_MEM_STATE);
    l->tx.ring = ring;
    l->tx.ring_cap = cap;
    return true;
}

/* A place for the frame l->tx.next, which it does not advance; NULL without memory. */
static uvcci_tx_frame *frame_reserve(uvcc_link *l) {
    uint64_t seq = l->tx.next;
    while (seq / UVCCI_BLOCK_FRAMES - l->tx.cum / UVCCI_BLOCK_FRAMES >= l->tx.ring_cap)
        if (!ring_grow(l))
            return NULL;
    uvcci_tx_block **slot = block_slot(l, seq);
    if (*slot == NULL) {
        uvcci_tx_block *b = uvcci_link_alloc(l, sizeof *b, UVCC_MEM_STATE);
        if (b == NULL)
            return NULL;
        b->acked = (UINT64_C(1) << seq % UVCCI_BLOCK_FRAMES) - 1; /* frames before it are gone */
        *slot = b;
    }
    return &(*slot)->frame[seq % UVCCI_BLOCK_FRAMES];
}

static void blocks_free(uvcc_link *l, uint64_t from, uint64_t to) {
    for (uint64_t b = from; b < to; b++) {
        uvcci_tx_block **slot = &l->tx.ring[b & (l->tx.ring_cap - 1)];
        uvcci_link_give(l, *slot, sizeof **slot, UVCC_MEM_STATE);
        *slot = NULL;
    }
}

/* ---- messages ---- */

static uint64_t tx_limit(const uvcc_link *l, int cls) {
    return cls == UVCC_CLASS_KEYS ? l->cfg.tx_keys_bytes : l->cfg.tx_online_bytes;
}

int uvcc_link_msg_new(uvcc_link *l, uint8_t kind, uint32_t len, uvcc_link_msg **out) {
    int cls = uvcc_frame_kind_class(kind);
    if (out == NULL || (cls != UVCC_CLASS_ONLINE && cls != UVCC_CLASS_KEYS))
        return UVCC_ERR_USAGE;
    uint64_t cost = uvcci_msg_cost(len), limit = tx_limit(l, cls);
    if (len > UVCC_MSG_MAX_BYTES || cost > limit)
        return UVCC_ERR_LIMIT;
    if (l->tx.cls[cls].held + cost > limit)
        return UVCC_ERR_AGAIN;
    uvcc_link_msg *m = uvcci_pool_take(l, &l->tx.pool);
    if (m == NULL)
        return UVCC_ERR_NOMEM;
    m->data = uvcci_data_take(l, m, len);
    if (m->data == NULL) {
        uvcci_pool_give(l, &l->tx.pool, m);
        return UVCC_ERR_NOMEM;
    }
    m->len = len;
    m->kind = kind;
    m->cls = (uint8_t)cls;
    m->state = MSG_NEW;
    l->tx.cls[cls].held += cost;
    *out = m;
    return 0;
}

uint8_t *uvcc_link_msg_data(uvcc_link_msg *m) {
    return m->data;
}

static void msg_free(uvcc_link *l, uvcc_link_msg *m) {
    l->tx.cls[m->cls].held -= uvcci_msg_cost(m->len);
    uvcci_data_give(l, m->data, m->len);
    uvcci_pool_give(l, &l->tx.pool, m);
}

void uvcc_link_msg_drop(uvcc_link *l, uvcc_link_msg *m) {
    assert(m->state == MSG_NEW);
    msg_free(l, m);
}

bool uvcc_link_writable(const uvcc_link *l, uint8_t kind, uint32_t len) {
    int cls = uvcc_frame_kind_class(kind);
    return (cls == UVCC_CLASS_ONLINE || cls == UVCC_CLASS_KEYS) &&
           l->tx.cls[cls].held + uvcci_msg_cost(len) <= tx_limit(l, cls);
}

bool uvcc_link_drained(const uvcc_link *l) {
    return l->tx.undone == 0;
}

/* ---- the queue of a class: a list while orders do not fall, a pairing heap for the rest ---- */

static bool before(const uvcc_link_msg *a, const uvcc_link_msg *b) {
    return a->order != b->order ? a->order < b->order : a->serial < b->serial;
}

static uvcc_link_msg *meld(uvcc_link_msg *a, uvcc_link_msg *b) {
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (before(b, a)) {
        uvcc_link_msg *t = a;
        a = b;
        b = t;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

static void queue_push(uvcci_tx_class *q, uvcc_link_msg *m) {
    m->next = m->child = m->sibling = NULL;
    if (q->last != NULL && m->order < q->last->order) {
        q->heap = meld(q->heap, m);
        return;
    }
    if (q->last != NULL)
        q->last->next = m;
    else
        q->first = m;
    q->last = m;
}

static uvcc_link_msg *queue_peek(const uvcci_tx_class *q) {
    if (q->heap == NULL || (q->first != NULL && before(q->first, q->heap)))
        return q->first;
    return q->heap;
}

static void queue_pop(uvcci_tx_class *q) {
    uvcc_link_msg *m = queue_peek(q);
    if (m == q->first) {
        q->first = m->next;
        if (q->first == NULL)
            q->last = NULL;
        return;
    }
    /* Meld the children pair by pair, then the pairs from the last to the first. */
    uvcc_link_msg *rest = m->child, *pairs = NULL;
    while (rest != NULL) {
        uvcc_link_msg *a = rest, *b = a->sibling;
        rest = b != NULL ? b->sibling : NULL;
        a->sibling = NULL;
        if (b != NULL)
            b->sibling = NULL;
        a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    uvcc_link_msg *heap = NULL;
    while (pairs != NULL) {
        uvcc_link_msg *p = pairs;
        pairs = p->sibling;
        p->sibling = NULL;
        heap = meld(heap, p);
    }
    q->heap = heap;
}

static uint32_t seal_bytes(const uvcc_link *l) {
    return l->keys != NULL ? UVCC_FRAME_SEAL_BYTES : 0;
}

int uvcc_link_send(uvcc_link *l, uvcc_link_msg *m, uint32_t step, uint32_t op_id,
                   const uint32_t *msg_ids, uint64_t order, uint64_t now) {
    if (m == NULL || msg_ids == NULL || m->state != MSG_NEW)
        return UVCC_ERR_USAGE;
    if (!l->have_run)
        return UVCC_ERR_STATE;
    bool stepless = uvcci_link_stepless(m->kind);
    uint32_t packet = l->cfg.datagram ? l->tx.packet_bytes : UVCCI_PACKET_BYTES;
    if (stepless &&
        (op_id != 0 || m->len > packet - UVCC_FRAME_HEADER_BYTES - UVCC_FRAME_SEAL_BYTES))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    m->step = stepless ? l->step : step;
    m->op_id = op_id;
    uint32_t chunks = m->len == 0 ? 1 : (m->len - 1) / UVCC_CHUNK_BYTES + 1;
    memcpy(m->msg_ids, msg_ids, chunks * sizeof *msg_ids);
    m->order = order;
    m->serial = l->tx.serial++;
    m->cut = m->frames = 0;
    m->state = MSG_SENT;
    queue_push(&l->tx.cls[m->cls], m);
    l->tx.undone++;
    return 0;
}

static bool fits_credit(const uvcci_tx_class *c, const uvcc_link_msg *m) {
    return UVCCI_MUTANT(5) || uvcci_msg_cost(m->len) <= c->credit - c->begun_bytes;
}

/* The message of this class whose next piece is to go, NULL if there is none or it must wait. */
static uvcc_link_msg *message_next(const uvcci_tx_class *c) {
    uvcc_link_msg *waiting = queue_peek(c);
    if (waiting != NULL && (c->begun == NULL || waiting->order < c->begun->order) &&
        fits_credit(c, waiting))
        return waiting;
    return c->begun;
}

static void message_begin(uvcc_link *l, uvcc_link_msg *m) {
    uvcci_tx_class *c = &l->tx.cls[m->cls];
    queue_pop(c);
    m->next = c->begun;
    c->begun = m;
    c->begun_bytes += uvcci_msg_cost(m->len);
    l->stats.messages_tx++;
    *(m->cls == UVCC_CLASS_KEYS ? &l->stats.payload_keys_tx : &l->stats.payload_online_tx) +=
        m->len;
}

static bool blocked(const uvcc_link *l) {
    for (size_t i = 0; i < 2; i++) {
        const uvcci_tx_class *c = &l->tx.cls[i];
        const uvcc_link_msg *waiting = queue_peek(c);
        if (waiting != NULL && c->begun == NULL && !fits_credit(c, waiting))
            return true;
    }
    return false;
}

/* ---- time ---- */

static uint64_t rto(const uvcc_link *l) {
    if (l->stats.srtt_ns == 0)
        return l->cfg.rto_initial_ns;
    uint64_t t = l->stats.srtt_ns + 4 * l->stats.rttvar_ns + l->cfg.ack_delay_ns;
    t = uvcci_max64(t, l->cfg.rto_min_ns);
    return uvcci_min64(t, l->cfg.rto_max_ns);
}

static void rto_arm(uvcc_link *l) {
    if (l->tx.sent.first == 0 || (UVCCI_MUTANT(10) && l->tx.backoff != 0)) {
        l->tx.rto_at = UVCC_NEVER;
        return;
    }
    uint64_t wait = uvcci_min64(rto(l) << l->tx.backoff, l->cfg.rto_max_ns);
    l->tx.rto_at = uvcci_later(l->tx.rto_base, wait);
}

/* A new sample of the round trip, of a frame that was sent once (RFC 6298). */
static void rtt_sample(uvcc_link *l, uint64_t rtt) {
    uvcc_link_stats *s = &l->stats;
    rtt = uvcci_min64(uvcci_max64(rtt, 1), l->cfg.rto_max_ns);
    if (l->tx.min_rtt == 0 || rtt < l->tx.min_rtt)
        l->tx.min_rtt = rtt;
    if (s->srtt_ns == 0) {
        s->srtt_ns = rtt;
        s->rttvar_ns = rtt / 2;
    } else {
        uint64_t error = rtt > s->srtt_ns ? rtt - s->srtt_ns : s->srtt_ns - rtt;
        s->rttvar_ns = s->rttvar_ns - s->rttvar_ns / 4 + error / 4;
        s->srtt_ns = s->srtt_ns - s->srtt_ns / 8 + rtt / 8;
    }
}

/* Frames sent before the latest acknowledged one are lost once they are late. The list is in order
 * of transmission, so only its head is looked at. */
static void losses_detect(uvcc_link *l) {
    l->tx.loss_at = UVCC_NEVER;
    if (!l->tx.rack_valid)
        return;
    uint64_t rtt = uvcci_max64(l->tx.rack_rtt, l->stats.srtt_ns);
    uint64_t late = rtt + uvcci_max64(rtt / 8 * l->tx.reorder_eighths, 1000);
    while (l->tx.sent.first != 0) {
        uint64_t seq = seq_of(l, l->tx.sent.first);
        uvcci_tx_frame *f = frame_at(l, seq);
        if ((int32_t)(f->xmit - l->tx.rack_xmit) >= 0)
            return;
        if (uvcci_later(f->sent_ns, late) > l->now) {
            l->tx.loss_at = uvcci_later(f->sent_ns, late);
            return;
        }
        frame_lose(l, seq, f);
    }
}

/* ---- acknowledgement ---- */

/* What one ACK told: gathered over its frames, applied at the end. */
typedef struct ack_pass {
    bool any, sample;
    bool probe, original; /* a probed frame; one that was sent once */
    uint32_t probe_xmit;
    uint64_t rtt, probe_rtt;
} ack_pass;

static void message_done(uvcc_link *l, uvcc_link_msg *m) {
    l->tx.undone--;
    if (l->tx.scratch != NULL && l->tx.scratch->total != 0) {
        m->next = l->tx.zombies;
        l->tx.zombies = m;
    } else {
        msg_free(l, m);
    }
}

static void zombies_free(uvcc_link *l) {
    while (l->tx.zombies != NULL) {
        uvcc_link_msg *m = l->tx.zombies;
        l->tx.zombies = m->next;
        msg_free(l, m);
    }
}

static void rack_advance(uvcc_link *l, uint32_t xmit, uint64_t rtt) {
    l->tx.rack_valid = true;
    l->tx.rack_xmit = xmit;
    l->tx.rack_rtt = uvcci_min64(rtt, l->cfg.rto_max_ns);
    l->tx.maybe_at = UVCC_NEVER;
}

static bool rack_behind(const uvcc_link *l, uint32_t xmit) {
    return !l->tx.rack_valid || (int32_t)(xmit - l->tx.rack_xmit) > 0;
}

/* What a datagram frame's acknowledgement says about the transmissions before it. */
static void frame_timing(uvcc_link *l, const uvcci_tx_frame *f, ack_pass *pass) {
    uint64_t rtt = l->now - f->sent_ns;
    if (f->probed) {
        pass->probe = true;
        pass->probe_xmit = f->xmit;
        pass->probe_rtt = rtt;
        return;
    }
    if (!f->resent) {
        pass->original = true;
    } else if (rtt < l->tx.min_rtt - l->tx.min_rtt / 4) {
        /* The first transmission is what was acknowledged. */
        l->stats.spurious++;
        if (l->tx.reorder_eighths < REORDER_EIGHTHS_MAX)
            l->tx.reorder_eighths++;
        return;
    }
    if (!rack_behind(l, f->xmit))
        return;
    if (!f->resent && f->sent_ns < l->tx.timeout_ns) {
        /* There was silence since: the ACK is late, not the path long. */
        rack_advance(l, f->xmit, l->tx.rack_valid ? l->tx.rack_rtt : l->cfg.rto_initial_ns);
        return;
    }
    rack_advance(l, f->xmit, rtt);
    l->tx.backoff = 0;
    pass->sample = !f->resent;
    pass->rtt = rtt;
}

static void frame_acked(uvcc_link *l, uvcci_tx_frame *f, ack_pass *pass) {
    pass->any = true;
    l->tx.unacked--;
    if (l->cfg.datagram)
        frame_timing(l, f, pass);
    frame_unlist(l, f);
    uvcc_link_msg *m = f->msg;
    if (--m->frames == 0 && m->cut == m->len)
        message_done(l, m);
}

static void acked_range(uvcc_link *l, uint64_t first, uint64_t last, ack_pass *pass) {
    for (uint64_t b = first / UVCCI_BLOCK_FRAMES; b <= last / UVCCI_BLOCK_FRAMES; b++) {
        uvcci_tx_block *block = l->tx.ring[b & (l->tx.ring_cap - 1)];
        uint64_t base = b * UVCCI_BLOCK_FRAMES, mask = ~UINT64_C(0);
        if (first > base)
            mask &= ~UINT64_C(0) << (first - base);
        if (last - base < UVCCI_BLOCK_FRAMES - 1)
            mask &= (UINT64_C(2) << (last - base)) - 1;
        uint64_t fresh = mask & ~block->acked;
        block->acked |= mask;
        for (; fresh != 0; fresh &= fresh - 1)
            frame_acked(l, &block->frame[__builtin_ctzll(fresh)], pass);
    }
}

static void acked_cum(uvcc_link *l, uint64_t seq, ack_pass *pass) {
    if (seq <= l->tx.cum)
        return;
    acked_range(l, l->tx.cum + 1, seq, pass);
    uint64_t old = l->tx.cum;
    l->tx.cum = seq;
    blocks_free(l, old / UVCCI_BLOCK_FRAMES, seq / UVCCI_BLOCK_FRAMES);
}

static void pass_finish(uvcc_link *l, const ack_pass *pass) {
    if (!pass->any || !l->cfg.datagram)
        return;
    if (pass->sample)
        rtt_sample(l, pass->rtt);
    /* A frame that a timeout sent again tells nothing for sure: its first transmission may have
     * come through a long queue. If it did, other first transmissions follow; so it counts only
     * after a while without any. */
    if (pass->original) {
        l->tx.maybe_at = UVCC_NEVER;
    } else if (pass->probe && rack_behind(l, pass->probe_xmit)) {
        l->tx.maybe_xmit = pass->probe_xmit;
        l->tx.maybe_rtt = pass->probe_rtt;
        l->tx.maybe_at = uvcci_later(l->now, uvcci_max64(rto(l), 2 * pass->probe_rtt));
    }
    l->tx.rto_base = l->now;
    losses_detect(l);
    rto_arm(l);
}

bool uvcci_tx_cum_valid(const uvcc_link *l, uint64_t seq) {
    return seq >> 40 == l->run && seq < l->tx.next;
}

void uvcci_tx_cum(uvcc_link *l, uint64_t seq) {
    ack_pass pass = {0};
    acked_cum(l, seq, &pass);
    pass_finish(l, &pass);
}

bool uvcci_tx_ack_valid(const uvcc_link *l, const uvcci_ack *a) {
    if (!uvcci_tx_cum_valid(l, a->cum))
        return false;
    uint64_t above = a->cum;
    for (uint32_t i = 0; i < a->range_cnt; i++) {
        if (a->range[i][0] <= above || a->range[i][1] < a->range[i][0] ||
            a->range[i][1] >= l->tx.next)
            return false;
        above = a->range[i][1];
    }
    return true;
}

static void probe_next(uvcc_link *l) {
    l->tx.probe_tries = 0;
    if (l->tx.probe_high < l->tx.packet_bytes + PROBE_STEP_BYTES) {
        l->tx.probe_bytes = 0;
        l->tx.probe_at = UVCC_NEVER;
        return;
    }
    /* The greatest first: most paths carry it or nothing near it. */
    l->tx.probe_bytes = l->tx.probe_bytes == 0
                            ? l->tx.probe_high
                            : l->tx.packet_bytes + (l->tx.probe_high - l->tx.packet_bytes + 1) / 2;
    l->tx.probe_at = l->now;
}

static void probe_answered(uvcc_link *l, uint32_t ping_bytes) {
    if (!l->cfg.datagram)
        return;
    uint32_t known = ping_bytes < l->cfg.datagram_bytes ? ping_bytes : l->cfg.datagram_bytes;
    if (known > l->tx.packet_bytes)
        l->tx.packet_bytes = known;
    bool first = l->tx.ack_counter == 0;
    if (first || (l->tx.probe_bytes != 0 && known >= l->tx.probe_bytes))
        probe_next(l);
}

static void resume(uvcc_link *l);

void uvcci_tx_ack(uvcc_link *l, const uvcci_ack *a) {
    if (a->counter <= l->tx.ack_counter)
        return;
    probe_answered(l, a->ping_bytes);
    l->tx.ack_counter = a->counter;
    ack_pass pass = {0};
    acked_cum(l, a->cum, &pass);
    for (uint32_t i = 0; i < a->range_cnt; i++)
        if (a->range[i][1] > l->tx.cum)
            acked_range(l, uvcci_max64(a->range[i][0], l->tx.cum + 1), a->range[i][1], &pass);
    pass_finish(l, &pass);
    for (size_t i = 0; i < 2; i++)
        if (a->credit[i] > l->tx.cls[i].credit) {
            l->tx.cls[i].credit = a->credit[i];
            l->tx.ping_at = UVCC_NEVER;
        }
    if (l->tx.resume_at != UVCC_NEVER)
        resume(l);
}

/* ---- bytes of a transmit ---- */

static bool scratch_reserve(uvcc_link *l, size_t cap) {
    uvcci_scratch *s = l->tx.scratch;
    if (s == NULL || s->cap < cap) {
        s = uvcci_link_alloc(l, sizeof *s + cap, UVCC_MEM_STATE);
        if (s == NULL)
            return false;
        if (l->tx.scratch != NULL)
            uvcci_link_give(l, l->tx.scratch, sizeof *s + l->tx.scratch->cap, UVCC_MEM_STATE);
        s->cap = cap;
        l->tx.scratch = s;
    }
    s->used = s->total = 0;
    s->first = s->count = 0;
    s->has_ack = false;
    return true;
}

static uint8_t *put_bytes(uvcci_scratch *s, size_t n) {
    assert(n <= s->cap - s->used);
    uint8_t *p = s->bytes + s->used;
    s->used += n;
    s->total += n;
    if (s->count != 0) {
        uvcc_slice *last = &s->slices[s->count - 1];
        if (last->data + last->len == p) {
            last->len += n;
            return p;
        }
    }
    assert(s->count < UVCCI_SCRATCH_SLICES);
    s->slices[s->count++] = (uvcc_slice){.data = p, .len = n};
    return p;
}

static void put_payload(uvcci_scratch *s, const uint8_t *data, size_t n) {
    if (n == 0)
        return;
    if (n <= COPY_MAX_BYTES) {
        memcpy(put_bytes(s, n), data, n);
        return;
    }
    assert(s->count < UVCCI_SCRATCH_SLICES);
    s->slices[s->count++] = (uvcc_slice){.data = data, .len = n};
    s->total += n;
}

/* Room for one more data frame: bytes of the packet (streams: any number) or 0. */
static size_t frame_room(const uvcc_link *l) {
    const uvcci_scratch *s = l->tx.scratch;
    if (s->count + 3 > UVCCI_SCRATCH_SLICES ||
        s->cap - s->used < UVCC_FRAME_HEADER_BYTES + COPY_MAX_BYTES + UVCC_FRAME_SEAL_BYTES)
        return 0;
    if (l->cfg.datagram)
        return s->total >= l->tx.packet_bytes ? 0 : l->tx.packet_bytes - s->total;
    return s->total >= STREAM_TRANSMIT_BYTES ? 0 : SIZE_MAX;
}

/* ---- control frames ---- */

/* 0, UVCC_ERR_LIMIT if it does not fit this packet, or an error of the random hook. */
static int emit_control(uvcc_link *l, uint8_t kind, const uint8_t *payload, size_t len,
                        bool sealed) {
    uvcci_scratch *s = l->tx.scratch;
    size_t body = len + (sealed ? UVCC_FRAME_CTL_SEAL_BYTES : 0);
    size_t total = UVCC_FRAME_HEADER_BYTES + body;
    if (total > s->cap - s->used || s->count == UVCCI_SCRATCH_SLICES ||
        (l->cfg.datagram && s->total != 0 && s->total + total > l->tx.packet_bytes))
        return UVCC_ERR_LIMIT;
    uint8_t nonce[24];
    if (sealed && l->cfg.random.fill(l->cfg.random.user, nonce, sizeof nonce) != 0)
        return UVCC_ERR_RANDOM;
    uint8_t *p = put_bytes(s, total), *at = p + UVCC_FRAME_HEADER_BYTES;
    bool ack = !sealed && l->have_run && kind != UVCC_FRAME_HELLO;
    uvcc_frame_header h = {
        .kind = kind,
        .src = l->cfg.me,
        .dst = l->cfg.peer,
        .flags = sealed ? UVCC_FRAME_SEALED : 0,
        .sid_tag = l->cfg.sid_tag,
        .step = l->step,
        .chunk_cnt = 1,
        .msg_len = (uint32_t)len,
        .payload_len = (uint32_t)body,
        .ack = ack ? l->rx.cum : 0,
    };
    uvcc_frame_encode_header(&h, p);
    if (sealed) {
        memcpy(at, nonce, sizeof nonce);
        int err = uvcci_xaead_seal(l->keys->ctl_tx, nonce, p, 52, payload, len, at + sizeof nonce);
        assert(err == 0);
        (void)err;
    } else {
        memcpy(at, payload, len);
    }
    uvcci_st32(p + 60, uvcc_frame_crc(p, at, body));
    l->stats.frames_tx++;
    return 0;
}

static int emit_ack(uvcc_link *l) {
    uint8_t payload[UVCCI_ACK_FIXED_BYTES + 16 * UVCCI_ACK_RANGES_MAX];
    uint32_t ranges = UVCCI_ACK_RANGES_MAX;
    size_t fixed = UVCC_FRAME_HEADER_BYTES + UVCC_FRAME_CTL_SEAL_BYTES + UVCCI_ACK_FIXED_BYTES;
    if (l->cfg.datagram && l->tx.scratch->total + fixed > l->tx.packet_bytes)
        return UVCC_ERR_LIMIT;
    if (l->cfg.datagram && (l->tx.packet_bytes - l->tx.scratch->total - fixed) / 16 < ranges)
        ranges = (uint32_t)(l->tx.packet_bytes - l->tx.scratch->total - fixed) / 16;
    size_t len = uvcci_rx_write_ack(l, payload, ranges);
    int err = emit_control(l, UVCC_FRAME_ACK, payload, len, l->keys != NULL);
    if (err != 0) {
        l->rx.ack_at = l->now;
        return err;
    }
    l->tx.scratch->has_ack = true;
    l->stats.acks_tx++;
    return 0;
}

static int emit_ping(uvcc_link *l) {
    static const uint8_t payload[4] = {0};
    int err = emit_control(l, UVCC_FRAME_PING, payload, sizeof payload, l->keys != NULL);
    if (err == 0)
        l->stats.pings_tx++;
    return err;
}

/* A PING padded to the size that the path is asked for, alone in its packet. */
static int emit_probe(uvcc_link *l) {
    if (l->tx.probe_tries == PROBE_TRIES) {
        l->tx.probe_high = l->tx.probe_bytes - 1;
        probe_next(l);
        if (l->tx.probe_bytes == 0)
            return 0;
    }
    size_t head = UVCC_FRAME_HEADER_BYTES + (l->keys != NULL ? UVCC_FRAME_CTL_SEAL_BYTES : 0);
    size_t len = l->tx.probe_bytes - head;
    if (!scratch_reserve(l, uvcci_max64(SCRATCH_BYTES, 2 * (uint64_t)UVCCI_PACKET_MAX_BYTES)))
        return UVCC_ERR_NOMEM;
    uint8_t *zeros = l->tx.scratch->bytes + UVCCI_PACKET_MAX_BYTES;
    memset(zeros, 0, len);
    int err = emit_control(l, UVCC_FRAME_PING, zeros, len, l->keys != NULL);
    if (err != 0)
        return err;
    l->stats.pings_tx++;
    l->tx.probe_tries++;
    l->tx.probe_at = uvcci_later(l->now, rto(l));
    return 0;
}

/* HELLO, ACK and PING that are due. What does not fit this packet waits for the next. */
static int emit_controls(uvcc_link *l) {
    int err = 0;
    if (l->hello_out != NULL) {
        uvcci_hello_box *b = l->hello_out;
        err = emit_control(l, UVCC_FRAME_HELLO, b->payload, b->len, b->sealed);
        if (err != 0)
            return err;
        uvcci_link_give(l, b, sizeof *b, UVCC_MEM_STATE);
        l->hello_out = NULL;
    }
    if (!l->started)
        return 0;
    if (l->rx.ack_at <= l->now)
        err = emit_ack(l);
    if (err == 0 && l->tx.ping_at <= l->now) {
        err = emit_ping(l);
        if (err == 0) {
            l->tx.ping_at = uvcci_later(l->now, l->tx.ping_wait);
            l->tx.ping_wait = uvcci_min64(2 * l->tx.ping_wait, l->cfg.rto_max_ns);
        }
    }
    if (err == 0 && l->tx.alive_at <= l->now) {
        err = emit_ping(l);
        if (err == 0)
            l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
    }
    return err;
}

/* ---- data frames ---- */

static uint32_t payload_max(const uvcc_link *l) {
    uint32_t frame = l->cfg.datagram ? l->tx.packet_bytes : l->cfg.frame_bytes;
    return frame - UVCC_FRAME_HEADER_BYTES - seal_bytes(l);
}

static void data_header(const uvcc_link *l, const uvcc_link_msg *m, const uvcci_tx_frame *f,
                        uint64_t seq, uint64_t ack, uint8_t out[UVCC_FRAME_HEADER_BYTES]) {
    uint32_t chunk = f->offset / UVCC_CHUNK_BYTES;
    uvcc_frame_header h = {
        .kind = m->kind,
        .src = l->cfg.me,
        .dst = l->cfg.peer,
        .flags = l->keys != NULL ? UVCC_FRAME_SEALED : 0,
        .sid_tag = l->cfg.sid_tag,
        .seq = seq,
        .step = m->step,
        .op_id = m->op_id,
        .msg_id = m->msg_ids[chunk],
        .chunk_idx = (uint16_t)chunk,
        .chunk_cnt = (uint16_t)(m->len == 0 ? 1 : (m->len - 1) / UVCC_CHUNK_BYTES + 1),
        .msg_len = m->len,
        .offset = f->offset,
        .payload_len = f->len + seal_bytes(l),
        .ack = ack,
        .crc32 = f->crc,
    };
    uvcc_frame_encode_header(&h, out);
}

static void put_frame_body(uvcc_link *l, uvcci_tx_frame *f) {
    uvcci_scratch *s = l->tx.scratch;
    put_payload(s, f->msg->data + f->offset, f->len);
    if (l->keys != NULL)
        memcpy(put_bytes(s, UVCCI_TAG_BYTES), f->tag, UVCCI_TAG_BYTES);
    l->stats.frames_tx++;
    if (!l->cfg.datagram)
        return;
    f->sent_ns = l->now;
    f->xmit = l->tx.xmit++;
    l->tx.rto_base = l->now;
}

/* First transmission: seals the piece where it stands. The frame's fields are set but tag and crc.
 */
static int emit_first(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    uint8_t *data = f->msg->data + f->offset, header[UVCC_FRAME_HEADER_BYTES];
    f->ack = l->keys != NULL ? 0 : l->rx.cum;
    data_header(l, f->msg, f, seq, f->ack, header);
    if (l->keys != NULL) {
        uvcci_aead *key = uvcci_link_key_of(l, f->msg->step, true);
        if (key == NULL)
            return UVCC_ERR_CRYPTO;
        if (uvcci_aead_seal(key, seq, header, 52, data, f->len, data, f->tag) != 0) {
            l->tx.fatal = UVCC_ERR_CRYPTO; /* the piece is lost */
            return UVCC_ERR_CRYPTO;
        }
    }
    f->crc = uvcc_frame_crc(header, data, f->len);
    if (l->keys != NULL)
        f->crc = uvcci_crc32(f->crc, f->tag, sizeof f->tag);
    uvcci_st32(header + 60, f->crc);
    memcpy(put_bytes(l->tx.scratch, sizeof header), header, sizeof header);
    put_frame_body(l, f);
    return 0;
}

/* Later ones change the ack alone; the CRC of the difference, moved past the payload, corrects the
 * CRC without reading the payload again. */
static void emit_again(uvcc_link *l, uint64_t seq, uvcci_tx_frame *f) {
    uint8_t *header = put_bytes(l->tx.scratch, UVCC_FRAME_HEADER_BYTES);
    data_header(l, f->msg, f, seq, f->ack, header);
    if (l->keys == NULL && f->ack != l->rx.cum) {
        uint32_t old = uvcc_frame_crc(header, NULL, 0);
        f->ack = l->rx.cum;
        uvcci_st64(header + 52, f->ack);
        f->crc = uvcci_crc32_combine(old ^ uvcc_frame_crc(header, NULL, 0), f->crc, f->len);
        uvcci_st32(header + 60, f->crc);
    }
    f->resent = 1;
    l->stats.retransmissions++;
    put_frame_body(l, f);
    frame_unlist(l, f);
    if (l->cfg.datagram) {
        list_append(l, &l->tx.sent, seq, f);
        f->where = UVCCI_IN_SENT;
    }
}

/* Bytes of the next piece of m that go into a packet with `room` left, or -1: it waits for the
 * next. */
static int64_t piece_bytes(const uvcc_link *l, const uvcc_link_msg *m, size_t room) {
    uint32_t max = payload_max(l), left = m->len - m->cut;
    uint32_t chunk = UVCC_CHUNK_BYTES - m->cut % UVCC_CHUNK_BYTES;
    uint32_t want = left < chunk ? left : chunk;
    size_t head = UVCC_FRAME_HEADER_BYTES + seal_bytes(l);
    if (want > max)
        want = max;
    if (room >= head + want)
        return want;
    /* A message that needs several frames anyway may fill the packet up. */
    if (m->len > max && room >= head + max / 2)
        return (int64_t)(room - head);
    return -1;
}

static int cut(uvcc_link *l, uvcc_link_msg *m, uint32_t len) {
    uint64_t seq = l->tx.next;
    uvcci_tx_frame *f = frame_reserve(l);
    if (f == NULL)
        return UVCC_ERR_NOMEM;
    f->msg = m;
    f->offset = m->cut;
    f->len = len;
    f->where = UVCCI_NOWHERE;
    f->resent = f->probed = 0;
    f->crc = 0;
    int err = emit_first(l, seq, f);
    if (err != 0)
        return err;
    if (l->tx.cls[m->cls].begun != m)
        message_begin(l, m);
    l->tx.next++;
    l->tx.unacked++;
    if (l->cfg.datagram) {
        list_append(l, &l->tx.sent, seq, f);
        f->where = UVCCI_IN_SENT;
    }
    m->frames++;
    m->cut += len;
    if (m->cut == m->len)
        l->tx.cls[m->cls].begun = m->next;
    return 0;
}

/* Lost frames, then new ones, of one class. 1: the class has no more; 0: the packet is full. */
static int emit_class(uvcc_link *l, uvcci_tx_class *c) {
    for (;;) {
        size_t room = frame_room(l);
        if (room == 0)
            return 0;
        if (c->lost.first != 0) {
            uint64_t seq = seq_of(l, c->lost.first);
            uvcci_tx_frame *f = frame_at(l, seq);
            if (room < UVCC_FRAME_HEADER_BYTES + f->len + seal_bytes(l) &&
                l->tx.scratch->total != 0)
                return 0;
            emit_again(l, seq, f);
            continue;
        }
        uvcc_link_msg *m = message_next(c);
        if (m == NULL || l->tx.next - l->tx.cum > UVCCI_WINDOW)
            return 1;
        int64_t len = piece_bytes(l, m, room);
        if (len < 0)
            return 0;
        int err = cut(l, m, (uint32_t)len);
        if (err != 0)
            return err;
    }
}

static int emit_data(uvcc_link *l) {
    int more = emit_class(l, &l->tx.cls[UVCC_CLASS_ONLINE]);
    if (more == 1)
        more = emit_class(l, &l->tx.cls[UVCC_CLASS_KEYS]);
    if (l->cfg.datagram)
        rto_arm(l);
    if (!blocked(l) || UVCCI_MUTANT(11)) {
        l->tx.ping_at = UVCC_NEVER;
        l->tx.ping_wait = 0;
    } else if (l->tx.ping_at == UVCC_NEVER) {
        if (l->tx.ping_wait == 0)
            l->tx.ping_wait =
                l->tx.ack_counter == 0 ? uvcci_min64(FIRST_PING_NS, l->cfg.rto_initial_ns) : rto(l);
        l->tx.ping_at = uvcci_later(l->now, l->tx.ping_wait);
    }
    return more < 0 ? more : 0;
}

/* ---- the caller's side ---- */

static int build(uvcc_link *l) {
    if (l->tx.probe_at <= l->now && l->started) {
        int err = emit_probe(l);
        if (err != 0 || l->tx.probe_bytes != 0)
            return err;
    }
    if (!scratch_reserve(l, SCRATCH_BYTES))
        return UVCC_ERR_NOMEM;
    int err = emit_controls(l);
    if (err == UVCC_ERR_LIMIT)
        return 0;
    if (err != 0)
        return err;
    return l->started && l->tx.resume_at == UVCC_NEVER ? emit_data(l) : 0;
}

/* Something may be there to send: saves an idle link the scratch buffer. */
static bool pending(const uvcc_link *l) {
    if (l->hello_out != NULL)
        return true;
    if (!l->started)
        return false;
    if (l->rx.ack_at <= l->now || l->tx.ping_at <= l->now || l->tx.alive_at <= l->now ||
        l->tx.probe_at <= l->now)
        return true;
    for (size_t i = 0; i < 2; i++) {
        const uvcci_tx_class *c = &l->tx.cls[i];
        if (c->lost.first != 0 || c->begun != NULL || queue_peek(c) != NULL)
            return true;
    }
    return false;
}

int uvcc_link_poll_transmit(uvcc_link *l, uvcc_transmit *out, uint64_t now) {
    uvcci_link_tick(l, now);
    if (l->tx.fatal != 0)
        return l->tx.fatal;
    if (l->tx.outstanding || (!l->cfg.datagram && !l->stream_up))
        return 0;
    if (l->tx.scratch == NULL || l->tx.scratch->total == 0) {
        if (!pending(l))
            return 0;
        l->tx.retry_at = UVCC_NEVER;
        int err = build(l);
        if (l->tx.fatal != 0)
            return l->tx.fatal;
        if (err != 0)
            l->tx.retry_at = uvcci_later(l->now, RETRY_NS);
        if (l->tx.scratch == NULL || l->tx.scratch->total == 0)
            return 0;
    }
    uvcci_scratch *s = l->tx.scratch;
    l->tx.outstanding = true;
    *out = (uvcc_transmit){
        .id = ++l->tx.transmit_id,
        .peer = l->cfg.peer,
        .slice_count = s->count - s->first,
        .slices = s->slices + s->first,
        .total = s->total,
    };
    return 1;
}

static void scratch_advance(uvcci_scratch *s, size_t bytes) {
    s->total -= bytes;
    while (bytes != 0) {
        uvcc_slice *slice = &s->slices[s->first];
        size_t n = bytes < slice->len ? bytes : slice->len;
        slice->data += n;
        slice->len -= n;
        bytes -= n;
        if (slice->len == 0)
            s->first++;
    }
}

int uvcc_link_transmit_done(uvcc_link *l, uint64_t id, size_t bytes, uint64_t now) {
    uvcci_scratch *s = l->tx.scratch;
    if (!l->tx.outstanding || id != l->tx.transmit_id || bytes > s->total ||
        (l->cfg.datagram && bytes != 0 && bytes != s->total))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    l->tx.outstanding = false;
    l->stats.bytes_tx += bytes;
    if (l->cfg.datagram) {
        if (bytes == 0 && s->has_ack) /* what it told is news still */
            l->rx.ack_at = uvcci_min64(l->rx.ack_at, uvcci_later(l->now, l->cfg.ack_delay_ns));
        s->total = 0;
    } else {
        scratch_advance(s, bytes);
    }
    if (s->total == 0)
        zombies_free(l);
    return 0;
}

/* ---- streams, time, life ---- */

/* All that the peer did not acknowledge goes again, in order of seq. */
static void resume(uvcc_link *l) {
    l->tx.resume_at = UVCC_NEVER;
    for (uint64_t seq = l->tx.cum + 1; seq < l->tx.next; seq++) {
        uvcci_tx_block *b = *block_slot(l, seq);
        if ((b->acked >> seq % UVCCI_BLOCK_FRAMES & 1) == 0)
            frame_lose(l, seq, &b->frame[seq % UVCCI_BLOCK_FRAMES]);
    }
}

void uvcci_tx_stream_reset(uvcc_link *l) {
    l->tx.outstanding = false;
    l->tx.resume_at = UVCC_NEVER;
    if (l->tx.scratch != NULL)
        l->tx.scratch->total = 0;
    zombies_free(l);
}

void uvcci_tx_on_timer(uvcc_link *l) {
    if (l->now >= l->tx.resume_at)
        resume(l);
    if (!l->cfg.datagram)
        return;
    if (l->now >= l->tx.maybe_at) {
        rack_advance(l, l->tx.maybe_xmit, l->tx.maybe_rtt);
        l->tx.loss_at = l->now;
    }
    if (l->now >= l->tx.loss_at)
        losses_detect(l);
    if (l->now >= l->tx.rto_at) {
        for (uint32_t i = 0; i < TIMEOUT_FRAMES && l->tx.sent.first != 0; i++) {
            uint64_t seq = seq_of(l, l->tx.sent.first);
            frame_lose(l, seq, frame_at(l, seq));
            frame_at(l, seq)->probed = 1;
        }
        if (rto(l) << l->tx.backoff < l->cfg.rto_max_ns)
            l->tx.backoff++;
        l->tx.rto_base = l->tx.timeout_ns = l->now;
        l->tx.min_rtt = 0; /* the path may be another now */
        rto_arm(l);
    }
}

uint64_t uvcci_tx_deadline(const uvcc_link *l) {
    uint64_t t = uvcci_min64(uvcci_min64(l->tx.rto_at, l->tx.loss_at), l->tx.maybe_at);
    t = uvcci_min64(t, uvcci_min64(l->tx.ping_at, l->tx.alive_at));
    return uvcci_min64(t, uvcci_min64(l->tx.resume_at, l->tx.probe_at));
}

void uvcci_tx_init(uvcc_link *l) {
    uvcci_tx *t = &l->tx;
    t->rto_at = t->loss_at = t->resume_at = t->ping_at = t->alive_at = UVCC_NEVER;
    t->retry_at = t->probe_at = t->maybe_at = UVCC_NEVER;
    t->reorder_eighths = REORDER_EIGHTHS_MIN;
    t->probe_high = l->cfg.datagram_bytes;
    t->packet_bytes =
        l->cfg.datagram_bytes < UVCCI_PACKET_BYTES ? l->cfg.datagram_bytes : UVCCI_PACKET_BYTES;
}

static void ring_free(uvcc_link *l) {
    for (uint32_t i = 0; i < l->tx.ring_cap; i++)
        uvcci_link_give(l, l->tx.ring[i], sizeof **l->tx.ring, UVCC_MEM_STATE);
    uvcci_link_give(l, l->tx.ring, l->tx.ring_cap * sizeof *l->tx.ring, UVCC_MEM_STATE);
    l->tx.ring = NULL;
    l->tx.ring_cap = 0;
}

void uvcci_tx_trim(uvcc_link *l) {
    assert(l->tx.unacked == 0 && !l->tx.outstanding);
    ring_free(l);
    if (l->tx.scratch != NULL && l->tx.scratch->total == 0) {
        uvcci_link_give(l, l->tx.scratch, sizeof *l->tx.scratch + l->tx.scratch->cap,
                        UVCC_MEM_STATE);
        l->tx.scratch = NULL;
    }
    uvcci_pool_trim(l, &l->tx.pool);
}

void uvcci_tx_free(uvcc_link *l) {
    uint32_t at = 0;
    for (uvcc_link_msg *m; (m = uvcci_pool_each(&l->tx.pool, &at)) != NULL;)
        msg_free(l, m);
    l->tx.outstanding = false;
    l->tx.unacked = 0;
    if (l->tx.scratch != NULL)
        l->tx.scratch->total = 0;
    uvcci_tx_trim(l);
}

uint64_t uvcci_tx_bound(const uvcc_link *l) {
    uint64_t limit = l->cfg.tx_online_bytes + l->cfg.tx_keys_bytes;
    uint64_t blocks = UVCCI_WINDOW / UVCCI_BLOCK_FRAMES + 2;
    return uvcci_pool_bound(limit / UVCCI_MSG_OVERHEAD_BYTES) +
           blocks * (sizeof(uvcci_tx_block) + 3 * sizeof(uvcci_tx_block *)) +
           2 * sizeof(uvcci_scratch) + SCRATCH_BYTES + 2 * UVCCI_PACKET_MAX_BYTES;
}

static void digest64(uvcci_sha256 *h, uint64_t v) {
    uvcci_sha256_update(h, &v, sizeof v);
}

void uvcci_tx_digest(const uvcc_link *l, uvcci_sha256 *h) {
    const uvcci_tx *t = &l->tx;
    digest64(h, t->cum);
    digest64(h, t->next);
    digest64(h, t->undone);
    digest64(h, t->ack_counter);
    for (size_t i = 0; i < 2; i++) {
        digest64(h, t->cls[i].held);
        digest64(h, t->cls[i].credit);
        digest64(h, t->cls[i].begun_bytes);
    }
    for (uint64_t seq = t->cum + 1; seq < t->next; seq++) {
        const uvcci_tx_block *b = *block_slot(l, seq);
        const uvcci_tx_frame *f = &b->frame[seq % UVCCI_BLOCK_FRAMES];
        if ((b->acked >> seq % UVCCI_BLOCK_FRAMES & 1) != 0)
            continue;
        digest64(h, seq);
        digest64(h, (uint64_t)f->offset << 32 | f->len);
        digest64(h, (uint64_t)f->msg->kind << 32 | f->msg->op_id);
    }
}
