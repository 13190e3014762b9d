/* link_rx.c - frames in: checks, duplicates, reassembly, whole messages, ACK contents.
 *
 * A frame is judged (nothing changes), given a place (memory, credit), filled (copied or opened)
 * and committed; if its CRC or seal fails after it got a place, the place is given back. On a
 * stream the payload of a plain new frame goes straight from the caller's bytes to its place in the
 * message; what is not plain is gathered and judged when it is whole, so nothing is believed
 * unchecked.
 *
 * States of a message: OPEN (in reassembly) -> READY (whole) -> OFFERED (with the owner) ->
 * ACCEPTED
 * -> released. Its completing frame becomes acknowledgeable at acceptance; the others when
 * buffered.
 *
 * Invariants: cum < every seq with a `seen` bit <= cum + 2^16; `ackable` is a subset of `seen`;
 * admitted - released <= capacity of the class; the ranges of a message ascend, are disjoint and do
 * not touch; only messages of several frames stand in the table. */
#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/crc.h"
#include "proto/link_impl.h"
#include "proto/mutant.h"
#include "proto/pace.h"

/* Frames that hold a place are copied in tiles, so that the CRC finds its bytes in the first cache.
 */
#define TILE_BYTES (8u << 10)
/* A stream's frame up to this is taken at once when all of it is there. */
#define WHOLE_MAX_BYTES      4096u
#define STREAM_ACK_BYTES     (256u << 10)
#define DATAGRAM_ACK_PACKETS 8u
#define ACK_SCAN_WORDS       128u
#define WINDOW_MIN_WORDS     4u
#define TABLE_MIN            16u
#define RANGES_MIN           4u
#define RANGE_CAPS_MAX       (4u * UVCCI_WINDOW)
#define PING_MIN_BYTES       4u
/* A frame this far beyond the greatest seq seen is not what a peer usually sends next. */
#define NEAR_FRAMES 1024u

typedef enum verdict {
    TAKE,    /* a new piece */
    REPEAT,  /* seen before: acknowledged again */
    FOREIGN, /* another session's */
    STALE,   /* another run's */
    IGNORE,  /* cannot be judged in this state, no failure */
    LATER,   /* no room for it now: as if lost (datagrams), refused (streams resend nothing) */
    WRONG,   /* in itself; a violation if authentic */
    REFUSE,
} verdict;

enum { MODE_SKIP = 0, MODE_PLACE = 1, MODE_GATHER = 2 };

static bool is_sealed(const uvcc_frame_header *h) {
    return (h->flags & UVCC_FRAME_SEALED) != 0;
}
static uint32_t piece_of(const uvcc_frame_header *h) {
    return h->payload_len - (is_sealed(h) ? UVCC_FRAME_SEAL_BYTES : 0);
}

/* ---- acknowledgement due ---- */

static void ack_within(uvcc_link *l, uint64_t delay) {
    l->rx.ack_at = uvcci_min64(l->rx.ack_at, uvcci_later(l->now, delay));
}

/* Something of this many bytes wants an ACK: soon, or now if much came. */
static void ack_note(uvcc_link *l, uint64_t bytes) {
    uint64_t enough =
        l->cfg.datagram ? DATAGRAM_ACK_PACKETS * (uint64_t)l->tx.packet_bytes : STREAM_ACK_BYTES;
    uint64_t sum = l->rx.noted + bytes;
    l->rx.noted = sum < enough ? (uint32_t)sum : (uint32_t)enough;
    ack_within(l, sum < enough ? l->cfg.ack_delay_ns : 0);
}

/* ---- the window of seqs ---- */

static uint64_t *seen_word(uvcci_rx_window *w, uint64_t seq) {
    return &w->bits[seq / 64 & (w->words - 1)];
}
static uint64_t *ackable_word(uvcci_rx_window *w, uint64_t seq) {
    return &w->bits[w->words + (seq / 64 & (w->words - 1))];
}
static uint64_t bit_of(uint64_t seq) {
    return UINT64_C(1) << seq % 64;
}

static bool seen(const uvcc_link *l, uint64_t seq) {
    uvcci_rx_window *w = l->rx.window;
    return w != NULL && seq - l->rx.cum <= (uint64_t)w->words * 64 &&
           (*seen_word(w, seq) & bit_of(seq)) != 0;
}

/* Moves one ring of bits; `first` is the seq of the first one. */
static void ring_move(uint64_t *to, uint32_t to_words, const uint64_t *from, uint32_t words,
                      uint64_t first) {
    uint64_t group = first / 64, low = bit_of(first) - 1;
    for (uint32_t i = 0; i < words; i++) {
        uint64_t v = from[(group + i) & (words - 1)];
        if (i == 0) { /* its low bits are those of the last seqs of the ring */
            to[(group + words) & (to_words - 1)] = v & low;
            v &= ~low;
        }
        to[(group + i) & (to_words - 1)] |= v;
    }
}

static size_t window_bytes(uint32_t words) {
    return sizeof(uvcci_rx_window) + 2 * (size_t)words * sizeof(uint64_t);
}

static void window_free(uvcc_link *l) {
    if (l->rx.window != NULL)
        uvcci_link_give(l, l->rx.window, window_bytes(l->rx.window->words), UVCC_MEM_STATE);
    l->rx.window = NULL;
}

static bool window_reserve(uvcc_link *l, uint64_t seq) {
    uvcci_rx_window *was = l->rx.window;
    uint64_t ahead = seq - l->rx.cum;
    uint32_t words = was == NULL ? WINDOW_MIN_WORDS : was->words;
    assert(ahead != 0 && ahead <= UVCCI_WINDOW);
    while (ahead > (uint64_t)words * 64)
        words *= 2;
    if (was != NULL && words == was->words)
        return true;
    uvcci_rx_window *w = uvcci_link_alloc(l, window_bytes(words), UVCC_MEM_STATE);
    if (w == NULL)
        return false;
    memset(w, 0, window_bytes(words));
    w->words = words;
    if (was != NULL) {
        memcpy(w->fresh, was->fresh, sizeof w->fresh);
        w->fresh_at = was->fresh_at;
        w->sack_cursor = was->sack_cursor;
        ring_move(w->bits, words, was->bits, was->words, l->rx.cum + 1);
        ring_move(w->bits + words, words, was->bits + was->words, was->words, l->rx.cum + 1);
    }
    window_free(l);
    l->rx.window = w;
    return true;
}

/* Remembers a seq received out of order: the latest go into every ACK. */
static void fresh_add(uvcci_rx_window *w, uint64_t seq) {
    uint64_t *run = w->fresh[(w->fresh_at - 1) % UVCCI_FRESH];
    if (seq == run[1] + 1) {
        run[1] = seq;
    } else if (seq + 1 == run[0]) {
        run[0] = seq;
    } else {
        run = w->fresh[w->fresh_at++ % UVCCI_FRESH];
        run[0] = run[1] = seq;
    }
}

/* The frame is kept, whatever happens: acknowledge it from now on. */
static void ackable_set(uvcc_link *l, uint64_t seq) {
    uvcci_rx *r = &l->rx;
    *ackable_word(r->window, seq) |= bit_of(seq);
    if (seq != r->cum + 1) {
        fresh_add(r->window, seq);
        return;
    }
    for (;;) {
        uint64_t next = r->cum + 1, *ackable = ackable_word(r->window, next);
        uint64_t gaps = ~(*ackable >> next % 64);
        uint32_t left = 64 - (uint32_t)(next % 64);
        uint32_t n = gaps == 0 ? 64 : (uint32_t)__builtin_ctzll(gaps);
        if (n > left)
            n = left;
        if (n == 0)
            return;
        uint64_t run = (~UINT64_C(0) >> (64 - n)) << next % 64;
        *ackable &= ~run;
        *seen_word(r->window, next) &= ~run;
        r->cum += n;
        if (n < left)
            return;
    }
}

/* ---- what an ACK says ---- */

typedef struct sack {
    uint32_t cnt, max;
    uint64_t range[UVCCI_ACK_RANGES_MAX][2];
} sack;

/* Adds a range, ascending, joined with what it touches. False: no room for it. */
static bool sack_add(sack *s, uint64_t first, uint64_t last) {
    uint32_t i = s->cnt, j;
    while (i > 0 && s->range[i - 1][1] + 1 >= first)
        i--;
    for (j = i; j < s->cnt && s->range[j][0] <= last + 1; j++) {
        first = uvcci_min64(first, s->range[j][0]);
        last = uvcci_max64(last, s->range[j][1]);
    }
    if (i == j && s->cnt == s->max)
        return false;
    memmove(s->range[i + 1], s->range[j], (s->cnt - j) * sizeof s->range[0]);
    s->range[i][0] = first;
    s->range[i][1] = last;
    s->cnt = s->cnt + 1 - (j - i);
    return true;
}

/* The next run of ackable seqs at or above `from`, at most to the end of a word, so that the work
 * is bounded by the words looked at. */
static bool run_next(const uvcc_link *l, uint64_t from, uint32_t *words, uint64_t *first,
                     uint64_t *last) {
    for (uint64_t s = from; s <= l->rx.top && *words != 0; s = (s / 64 + 1) * 64) {
        --*words;
        uint64_t w = *ackable_word(l->rx.window, s) >> s % 64;
        if (w == 0)
            continue;
        uint32_t skip = (uint32_t)__builtin_ctzll(w);
        w = ~(w >> skip);
        uint32_t left = 64 - (uint32_t)(s % 64) - skip;
        uint32_t n = w == 0 ? 64 : (uint32_t)__builtin_ctzll(w);
        *first = s + skip;
        *last = *first + (n < left ? n : left) - 1;
        if (*last > l->rx.top) /* the word's other bits are of the ring's far end */
            *last = l->rx.top;
        return *first <= l->rx.top;
    }
    return false;
}

/* The latest arrivals, then a part of the window that moves on from ACK to ACK: all of it is told
 * in the end, in bounded work each time. */
static void sack_fill(uvcc_link *l, sack *s) {
    uvcci_rx *r = &l->rx;
    if (r->top <= r->cum || s->max == 0)
        return;
    for (uint32_t i = 0; i < UVCCI_FRESH && s->cnt < s->max / 2 + 1; i++) {
        const uint64_t *run = r->window->fresh[(r->window->fresh_at - 1 - i) % UVCCI_FRESH];
        if (run[0] > r->cum) /* cum never stops inside a run */
            (void)sack_add(s, run[0], run[1]);
    }
    uint32_t words = ACK_SCAN_WORDS;
    uint64_t from = r->window->sack_cursor, first, last;
    if (from <= r->cum || from > r->top)
        from = r->cum + 1;
    while (run_next(l, from, &words, &first, &last)) {
        if (!sack_add(s, first, last))
            break;
        from = last + 1;
    }
    r->window->sack_cursor = words == 0 || s->cnt == s->max ? from : 0;
}

static uint64_t capacity(const uvcc_link *l, int cls) {
    return cls == UVCC_CLASS_KEYS ? l->cfg.rx_keys_bytes : l->cfg.rx_online_bytes;
}

size_t uvcci_rx_write_ack(uvcc_link *l, uint8_t *out, uint32_t max_ranges) {
    uvcci_rx *r = &l->rx;
    sack s = {.max = max_ranges};
    sack_fill(l, &s);
    uvcci_st64(out, ++r->ack_counter);
    uvcci_st64(out + 8, r->cum + UVCCI_MUTANT(2));
    for (int c = 0; c < 2; c++) {
        r->granted[c] = r->released[c] + capacity(l, c);
        uvcci_st64(out + 16 + 8 * c, r->granted[c]);
    }
    uvcci_st32(out + 32, r->ping_bytes);
    uvcci_st16(out + 36, (uint16_t)s.cnt);
    for (uint32_t i = 0; i < s.cnt; i++) {
        uvcci_st64(out + UVCCI_ACK_FIXED_BYTES + 16 * i, s.range[i][0]);
        uvcci_st64(out + UVCCI_ACK_FIXED_BYTES + 16 * i + 8, s.range[i][1]);
    }
    r->ack_at = UVCC_NEVER;
    r->noted = 0;
    return UVCCI_ACK_FIXED_BYTES + 16 * (size_t)s.cnt;
}

/* ---- messages in reassembly ---- */

static uint32_t bucket_of(const uvcc_link *l, uint8_t kind, uint32_t step, uint32_t op_id) {
    uint64_t x = ((uint64_t)step << 32 | op_id) * l->hash_mul + kind;
    return (uint32_t)((x ^ x >> 32) * l->hash_mul >> 40) & (l->rx.table_cap - 1);
}

static uvcci_rx_msg *table_find(const uvcc_link *l, const uvcc_frame_header *h) {
    if (l->rx.table_live == 0)
        return NULL;
    uvcci_rx_msg *m = l->rx.table[bucket_of(l, h->kind, h->step, h->op_id)];
    while (m != NULL && (m->kind != h->kind || m->step != h->step || m->op_id != h->op_id))
        m = m->next;
    return m;
}

static void table_put(uvcc_link *l, uvcci_rx_msg *m) {
    uvcci_rx_msg **b = &l->rx.table[bucket_of(l, m->kind, m->step, m->op_id)];
    m->next = *b;
    *b = m;
}

static bool table_reserve(uvcc_link *l) {
    uint32_t old = l->rx.table_cap;
    if (l->rx.table_live < old)
        return true;
    uint32_t cap = old == 0 ? TABLE_MIN : 2 * old;
    uvcci_rx_msg **was = l->rx.table;
    uvcci_rx_msg **table = uvcci_link_alloc(l, cap * sizeof(*table), UVCC_MEM_STATE);
    if (table == NULL)
        return false;
    memset(table, 0, cap * sizeof(*table));
    l->rx.table = table;
    l->rx.table_cap = cap;
    for (uint32_t i = 0; i < old; i++)
        for (uvcci_rx_msg *m = was[i], *next; m != NULL; m = next) {
            next = m->next;
            table_put(l, m);
        }
    uvcci_link_give(l, was, old * sizeof(*was), UVCC_MEM_STATE);
    return true;
}

static void table_remove(uvcc_link *l, uvcci_rx_msg *m) {
    uvcci_rx_msg **p = &l->rx.table[bucket_of(l, m->kind, m->step, m->op_id)];
    while (*p != m)
        p = &(*p)->next;
    *p = m->next;
    m->tabled = false;
    l->rx.table_live--;
}

static uvcci_range *ranges_of(uvcci_rx_msg *m) {
    return m->range_cap == 0 ? &m->ranges.one : m->ranges.many;
}

static void ranges_free(uvcc_link *l, uvcci_rx_msg *m) {
    l->rx.range_caps -= m->range_cap;
    if (m->range_cap != 0)
        uvcci_link_give(l, m->ranges.many, m->range_cap * sizeof(uvcci_range), UVCC_MEM_STATE);
    m->range_cnt = m->range_cap = 0;
}

/* The first range that ends at or after `at`; range_cnt if there is none. */
static uint32_t range_find(uvcci_rx_msg *m, uint32_t at) {
    const uvcci_range *r = ranges_of(m);
    uint32_t low = 0, high = m->range_cnt;
    if (high != 0 && r[high - 1].end < at) /* the common case, and the ordered one below */
        return high;
    if (high != 0 && (high == 1 || r[high - 2].end < at))
        return high - 1;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (r[mid].end < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Where [first, end) stands among the ranges: joined on the left, on the right, or overlapping. */
typedef struct slot {
    uint32_t at;
    bool left, right, overlap;
} slot;

static slot slot_of(uvcci_rx_msg *m, uint32_t first, uint32_t end) {
    const uvcci_range *r = ranges_of(m);
    slot s = {.at = range_find(m, first)};
    s.left = s.at < m->range_cnt && r[s.at].end == first;
    uint32_t next = s.at + s.left;
    s.right = next < m->range_cnt && r[next].first == end;
    s.overlap = next < m->range_cnt && r[next].first < end;
    return s;
}

/* A range of its own may need a greater array. What is refused here comes again, when
 * retransmissions have closed gaps; no honest window has as many gaps as all arrays can hold. */
static uint32_t ranges_more(const uvcci_rx_msg *m, const slot *s) {
    uint32_t cap = m->range_cap == 0 ? 1 : m->range_cap;
    if (s->left || s->right || m->range_cnt < cap)
        return 0;
    return m->range_cap == 0 ? RANGES_MIN : 2 * m->range_cap;
}

static bool slot_admissible(const uvcc_link *l, const uvcci_rx_msg *m, const slot *s) {
    return s->left || s->right ||
           (m->range_cnt <= l->cfg.rx_ranges_max &&
            l->rx.range_caps + ranges_more(m, s) <= RANGE_CAPS_MAX);
}

static bool slot_reserve(uvcc_link *l, uvcci_rx_msg *m, const slot *s) {
    uint32_t more = ranges_more(m, s);
    if (more == 0)
        return true;
    uvcci_range *many = uvcci_link_alloc(l, more * sizeof *many, UVCC_MEM_STATE);
    if (many == NULL)
        return false;
    memcpy(many, ranges_of(m), m->range_cnt * sizeof *many);
    if (m->range_cap != 0)
        uvcci_link_give(l, m->ranges.many, m->range_cap * sizeof *many, UVCC_MEM_STATE);
    l->rx.range_caps += more - m->range_cap;
    m->ranges.many = many;
    m->range_cap = more;
    return true;
}

static void slot_fill(uvcci_rx_msg *m, const slot *s, uint32_t first, uint32_t end) {
    uvcci_range *r = ranges_of(m);
    uint32_t after = m->range_cnt - s->at;
    if (s->left && s->right) {
        r[s->at].end = r[s->at + 1].end;
        memmove(&r[s->at + 1], &r[s->at + 2], (after - 2) * sizeof *r);
        m->range_cnt--;
    } else if (s->left) {
        r[s->at].end = end;
    } else if (s->right) {
        r[s->at].first = first;
    } else {
        memmove(&r[s->at + 1], &r[s->at], after * sizeof *r);
        r[s->at] = (uvcci_range){.first = first, .end = end};
        m->range_cnt++;
    }
}

static void message_free(uvcc_link *l, uvcci_rx_msg *m) {
    if (m->tabled)
        table_remove(l, m);
    ranges_free(l, m);
    uvcci_data_give(l, m->data, m->len);
    uvcci_pool_give(l, &l->rx.pool, m);
}

/* ---- judging ---- */

static bool step_open(const uvcc_link *l, const uvcc_frame_header *h) {
    if (h->step == l->step || h->step == l->step + UINT64_C(1))
        return true;
    return h->step + UINT64_C(1) == l->step && uvcci_link_stepless(h->kind);
}

/* Rules that need no message: of the session, the run, the window. */
static verdict judge_session(const uvcc_link *l, const uvcc_frame_header *h) {
    if (h->sid_tag != l->cfg.sid_tag)
        return FOREIGN;
    if (h->src != l->cfg.peer || h->dst != l->cfg.me)
        return REFUSE;
    if (h->kind == UVCC_FRAME_HELLO)
        return TAKE;
    if (!l->have_run)
        return IGNORE;
    bool control = uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL;
    if (!control && h->seq >> 40 != l->run)
        return STALE;
    if (is_sealed(h) != (l->keys != NULL))
        return is_sealed(h) ? IGNORE : REFUSE;
    if (control) {
        if (h->payload_len > UVCCI_PACKET_MAX_BYTES)
            return REFUSE;
        if (is_sealed(h))
            return TAKE;
        if (h->ack >> 40 != l->run)
            return STALE;
        return uvcci_tx_cum_valid(l, h->ack) ? TAKE : REFUSE;
    }
    if (h->seq <= l->rx.cum)
        return REPEAT;
    if (h->seq - l->rx.cum > UVCCI_WINDOW)
        return REFUSE;
    if (!UVCCI_MUTANT(1) && seen(l, h->seq))
        return REPEAT;
    if (!l->started)
        return IGNORE;
    if (!step_open(l, h) || (!is_sealed(h) && !uvcci_tx_cum_valid(l, h->ack)))
        return REFUSE;
    return TAKE;
}

/* Rules of a reliable frame against the message that it belongs to. */
static verdict judge_message(const uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m,
                             const char **why) {
    uint32_t piece = piece_of(h);
    if (m != NULL) {
        if (m->len != h->msg_len) {
            *why = "another length for one message";
            return WRONG;
        }
        if ((m->ids_known >> h->chunk_idx & 1) != 0 && m->msg_ids[h->chunk_idx] != h->msg_id) {
            *why = "another msg_id for one chunk";
            return WRONG;
        }
        slot s = slot_of(m, h->offset, h->offset + piece);
        if (s.overlap) {
            *why = "two frames for one place";
            return WRONG;
        }
        return slot_admissible(l, m, &s) ? TAKE : LATER;
    }
    int cls = uvcc_frame_kind_class(h->kind);
    if (l->rx.admitted[cls] + uvcci_msg_cost(h->msg_len) > l->rx.granted[cls]) {
        *why = "a message beyond the credit";
        return WRONG;
    }
    return piece != h->msg_len && l->rx.table_live >= l->cfg.rx_messages_max ? LATER : TAKE;
}

/* ---- placing ---- */

typedef struct place {
    uvcci_rx_msg *msg;
    bool created;
} place;

static uvcci_rx_msg *message_new(uvcc_link *l, const uvcc_frame_header *h) {
    bool several = piece_of(h) != h->msg_len;
    if (several && !table_reserve(l))
        return NULL;
    uvcci_rx_msg *m = uvcci_pool_take(l, &l->rx.pool);
    if (m == NULL)
        return NULL;
    m->data = uvcci_data_take(l, m, h->msg_len);
    if (m->data == NULL) {
        uvcci_pool_give(l, &l->rx.pool, m);
        return NULL;
    }
    m->next = NULL;
    m->step = h->step;
    m->op_id = h->op_id;
    m->len = h->msg_len;
    m->got = 0;
    m->kind = h->kind;
    m->cls = (uint8_t)uvcc_frame_kind_class(h->kind);
    m->state = UVCCI_MSG_OPEN;
    m->chunk_cnt = h->chunk_cnt;
    m->ids_known = 0;
    m->range_cnt = m->range_cap = 0;
    m->tabled = several;
    if (several) {
        table_put(l, m);
        l->rx.table_live++;
    }
    l->rx.admitted[m->cls] += uvcci_msg_cost(m->len);
    return m;
}

static void place_undo(uvcc_link *l, const place *p) {
    if (!p->created)
        return;
    l->rx.admitted[p->msg->cls] -= uvcci_msg_cost(p->msg->len);
    message_free(l, p->msg);
}

/* All memory that committing will need. */
static bool place_take(uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m, place *p) {
    *p = (place){.msg = m, .created = m == NULL};
    if (!window_reserve(l, h->seq))
        return false;
    if (m == NULL && (p->msg = message_new(l, h)) == NULL)
        return false;
    if (p->msg->tabled) {
        slot s = slot_of(p->msg, h->offset, h->offset + piece_of(h));
        if (!slot_reserve(l, p->msg, &s)) {
            place_undo(l, p);
            return false;
        }
    }
    return true;
}

static void message_whole(uvcc_link *l, uvcci_rx_msg *m, uint64_t seq) {
    if (m->tabled)
        table_remove(l, m);
    ranges_free(l, m);
    m->state = UVCCI_MSG_READY;
    m->done_seq = seq;
    m->next = NULL;
    if (l->rx.ready_last != NULL)
        l->rx.ready_last->next = m;
    else
        l->rx.ready_first = m;
    l->rx.ready_last = m;
}

/* The frame passed every check and its bytes are in place. */
static void commit(uvcc_link *l, const uvcc_frame_header *h, const place *p) {
    uvcci_rx_msg *m = p->msg;
    uint32_t piece = piece_of(h);
    if (m->tabled) {
        slot s = slot_of(m, h->offset, h->offset + piece);
        slot_fill(m, &s, h->offset, h->offset + piece);
    }
    m->got += piece;
    m->msg_ids[h->chunk_idx] = h->msg_id;
    m->ids_known |= (uint16_t)(1u << h->chunk_idx);
    *seen_word(l->rx.window, h->seq) |= bit_of(h->seq);
    l->rx.top = uvcci_max64(l->rx.top, h->seq);
    if (is_sealed(h))
        l->heard = true;
    else
        uvcci_tx_cum(l, h->ack);
    if (m->got == m->len) {
        message_whole(l, m, h->seq);
        if (UVCCI_MUTANT(4))
            ackable_set(l, h->seq);
    } else {
        ackable_set(l, h->seq);
        ack_note(l, UVCC_FRAME_HEADER_BYTES + h->payload_len);
    }
}

/* ---- suspicion ----
 *
 * Garbage that looks right costs its opening, which proves it wrong. Opens that fail take from a
 * bucket, opens of new frames give back: while no more is forged than is new, nothing is dropped.
 * Data and control frames have one each, so neither starves the other. Half of data's is kept for
 * frames that cheap checks speak for: who cannot see the seqs in use never gets at it. */

enum { SUSPECT_DATA = 0, SUSPECT_CONTROL = 1 };

static uint64_t suspect_interval(const uvcc_link *l) {
    return l->cfg.suspicious_window_ns / l->cfg.suspicious_max;
}

/* False: over the limit, drop the frame. Streams resend nothing and end at the first garbage. */
static bool suspect_allows(uvcc_link *l, int which, bool likely) {
    uint64_t depth = l->cfg.suspicious_window_ns - suspect_interval(l);
    if (uvcci_pace_has(l->rx.suspect[which], likely ? depth : depth / 2, l->now))
        return true;
    l->stats.suspicious_dropped++;
    return false;
}

static void suspect_note(uvcc_link *l, int which, bool bad) {
    if (bad)
        uvcci_pace_spend(&l->rx.suspect[which], suspect_interval(l), l->now);
    else
        uvcci_pace_refund(&l->rx.suspect[which], suspect_interval(l));
}

/* ---- whole frames: CRC checked, payload in memory ---- */

static void violate(uvcc_link *l, const char *why) {
    if (l->violation == NULL)
        l->violation = why;
}

static int open_piece(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                      const uint8_t *body, const uint8_t *tag, uint8_t *out) {
    uvcci_aead *key = uvcci_link_key_of(l, h->step, false);
    if (key == NULL)
        return UVCC_ERR_NOMEM;
    int err = uvcci_aead_open(key, h->seq, header, 52, body, piece_of(h), tag, out);
    suspect_note(l, SUSPECT_DATA, err != 0);
    return err;
}

/* A wrong frame is a violation if it is authentic, else just refused. */
static int frame_wrong(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                       const uint8_t *payload, const char *why) {
    if (!is_sealed(h))
        return UVCC_ERR_FRAME;
    size_t piece = piece_of(h), bytes = piece + 1;
    uint8_t *tmp = uvcci_link_alloc(l, bytes, UVCC_MEM_SECRET);
    if (tmp == NULL)
        return UVCC_ERR_NOMEM;
    int err = open_piece(l, h, header, payload, payload + piece, tmp);
    uvcci_wipe(tmp, bytes);
    uvcci_link_give(l, tmp, bytes, UVCC_MEM_SECRET);
    if (err == 0)
        violate(l, why);
    return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
}

static int take_data(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                     const uint8_t *payload) {
    const char *why = NULL;
    uvcci_rx_msg *m = table_find(l, h);
    verdict v = judge_message(l, h, m, &why);
    bool likely = v == TAKE && h->seq <= l->rx.top + NEAR_FRAMES;
    if (l->cfg.datagram && is_sealed(h) && v != LATER && !suspect_allows(l, SUSPECT_DATA, likely))
        return UVCC_ERR_LIMIT;
    if (v == WRONG)
        return frame_wrong(l, h, header, payload, why);
    if (v == LATER && l->cfg.datagram) {
        l->stats.refused++;
        return 0;
    }
    place p;
    if (v == LATER)
        return UVCC_ERR_FRAME;
    if (!place_take(l, h, m, &p))
        return UVCC_ERR_NOMEM;
    uint32_t piece = piece_of(h);
    uint8_t *to = p.msg->data + h->offset;
    int err = 0;
    if (is_sealed(h))
        err = open_piece(l, h, header, payload, payload + piece, to);
    else if (piece != 0)
        memcpy(to, payload, piece);
    if (err != 0) {
        place_undo(l, &p);
        return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
    }
    commit(l, h, &p);
    return 0;
}

static void hello_push(uvcc_link *l, const uint8_t *payload, size_t len, bool sealed) {
    if (len > UVCCI_HELLO_MAX_BYTES || len == 0) {
        l->stats.refused++;
        return;
    }
    if (l->hello_in == NULL) {
        l->hello_in = uvcci_link_alloc(l, sizeof *l->hello_in, UVCC_MEM_STATE);
        if (l->hello_in == NULL)
            return; /* HELLO repeats */
        l->hello_in->first = l->hello_in->count = 0;
    }
    uvcci_hello_queue *q = l->hello_in;
    if (q->count == UVCCI_HELLO_QUEUE) {
        q->first = (q->first + 1) % UVCCI_HELLO_QUEUE;
        q->count--;
    }
    uvcci_hello_box *b = &q->box[(q->first + q->count++) % UVCCI_HELLO_QUEUE];
    b->len = (uint16_t)len;
    b->sealed = sealed;
    memcpy(b->payload, payload, len);
}

static bool all_zero(const uint8_t *p, size_t n) {
    uint8_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum |= p[i];
    return sum == 0;
}

static int take_ack(uvcc_link *l, const uint8_t *p, size_t len, const char **why) {
    uvcci_ack a;
    *why = "a malformed ACK";
    if (len < UVCCI_ACK_FIXED_BYTES)
        return UVCC_ERR_FRAME;
    a.counter = uvcci_ld64(p);
    a.cum = uvcci_ld64(p + 8);
    a.credit[0] = uvcci_ld64(p + 16);
    a.credit[1] = uvcci_ld64(p + 24);
    a.ping_bytes = uvcci_ld32(p + 32);
    a.range_cnt = uvcci_ld16(p + 36);
    if (a.range_cnt > UVCCI_ACK_RANGES_MAX ||
        len != UVCCI_ACK_FIXED_BYTES + 16 * (size_t)a.range_cnt)
        return UVCC_ERR_FRAME;
    for (uint32_t i = 0; i < a.range_cnt; i++) {
        a.range[i][0] = uvcci_ld64(p + UVCCI_ACK_FIXED_BYTES + 16 * i);
        a.range[i][1] = uvcci_ld64(p + UVCCI_ACK_FIXED_BYTES + 16 * i + 8);
    }
    *why = "an ACK of what was never sent";
    if (!uvcci_tx_ack_valid(l, &a))
        return UVCC_ERR_FRAME;
    l->stats.acks_rx++;
    uvcci_tx_ack(l, &a);
    if (UVCCI_MUTANT(17))
        ack_within(l, l->cfg.ack_delay_ns);
    return 0;
}

static int take_ping(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *p, size_t len,
                     const char **why) {
    *why = "a malformed PING";
    if (len < PING_MIN_BYTES || !all_zero(p, len))
        return UVCC_ERR_FRAME;
    uint32_t bytes = UVCC_FRAME_HEADER_BYTES + h->payload_len;
    if (bytes > l->rx.ping_bytes)
        l->rx.ping_bytes = bytes;
    ack_within(l, l->cfg.ack_delay_ns); /* PINGs can be replayed: their ACKs keep a distance */
    return 0;
}

static int take_control(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                        const uint8_t *payload) {
    bool sealed = is_sealed(h), hello = h->kind == UVCC_FRAME_HELLO;
    const uint8_t *p = payload;
    uint8_t stack[UVCCI_ACK_FIXED_BYTES + 16 * UVCCI_ACK_RANGES_MAX], *tmp = stack;
    size_t len = h->msg_len;
    if (hello && ((sealed && l->keys == NULL) || len > UVCCI_HELLO_MAX_BYTES)) {
        l->stats.refused++;
        return 0;
    }
    if (sealed) {
        if ((l->cfg.datagram || hello) && !suspect_allows(l, SUSPECT_CONTROL, true))
            return hello ? 0 : UVCC_ERR_LIMIT;
        if (len > sizeof stack && (tmp = uvcci_link_alloc(l, len, UVCC_MEM_STATE)) == NULL)
            return UVCC_ERR_NOMEM;
        int err = uvcci_xaead_open(l->keys->ctl_rx, payload, header, 52, payload + 24,
                                   h->payload_len - 24, tmp);
        p = tmp;
        if (err != 0) {
            suspect_note(l, SUSPECT_CONTROL, true);
            if (tmp != stack)
                uvcci_link_give(l, tmp, len, UVCC_MEM_STATE);
            l->stats.refused += hello;
            return hello ? 0 : UVCC_ERR_FRAME;
        }
        l->heard = true;
    }
    const char *why = NULL;
    uint64_t counter = l->tx.ack_counter;
    int err = 0;
    if (hello)
        hello_push(l, p, len, sealed);
    else if (h->kind == UVCC_FRAME_ACK)
        err = take_ack(l, p, len, &why);
    else
        err = take_ping(l, h, p, len, &why);
    if (tmp != stack)
        uvcci_link_give(l, tmp, len, UVCC_MEM_STATE);
    if (err != 0 && sealed)
        violate(l, why);
    if (sealed && l->tx.ack_counter != counter) /* no replay */
        suspect_note(l, SUSPECT_CONTROL, false);
    if (err == 0 && !sealed && !hello)
        uvcci_tx_cum(l, h->ack);
    return err;
}

/* Another session's or run's. */
static int frame_stray(uvcc_link *l, uint64_t *stat) {
    ++*stat;
    if (!l->cfg.datagram)
        return 0;
    if (!suspect_allows(l, SUSPECT_DATA, false))
        return UVCC_ERR_LIMIT;
    suspect_note(l, SUSPECT_DATA, true);
    return 0;
}

/* 0: taken or dropped without harm; UVCC_ERR_FRAME: refused; UVCC_ERR_LIMIT: over suspicious_max
 * (datagrams); UVCC_ERR_NOMEM: as if lost. */
static int frame_take(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *header,
                      const uint8_t *payload) {
    l->stats.frames_rx++;
    int err = 0;
    switch (judge_session(l, h)) {
    case TAKE:
        err = uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL
                  ? take_control(l, h, header, payload)
                  : take_data(l, h, header, payload);
        break;
    case REPEAT:
        l->stats.duplicates++;
        ack_within(l, l->cfg.ack_delay_ns); /* whatever the rate of repetitions is */
        break;
    case FOREIGN:
        return frame_stray(l, &l->stats.foreign);
    case STALE:
        return frame_stray(l, &l->stats.stale_run);
    case IGNORE:
        l->stats.refused++;
        return 0;
    default:
        return UVCC_ERR_FRAME;
    }
    if (err == 0)
        l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
    return err;
}

static int feed_packet(uvcc_link *l, const uint8_t *data, size_t len) {
    while (len != 0) {
        uvcc_frame_header h;
        const uint8_t *payload = NULL;
        ptrdiff_t n = uvcc_frame_decode(data, len, &h, &payload, NULL);
        int err = n <= 0 ? UVCC_ERR_FRAME : frame_take(l, &h, data, payload);
        if (err == UVCC_ERR_FRAME) {
            l->stats.refused++;
            return 0;
        }
        if (err == UVCC_ERR_LIMIT)
            return 0;
        if (err != 0)
            return err;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* ---- streams ---- */

static place partial_place(const uvcc_link *l) {
    return (place){.msg = l->rx.in->msg, .created = l->rx.in->created};
}

static void partial_gather_free(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in->mode == MODE_GATHER)
        uvcci_link_give(l, in->to, in->h.payload_len, UVCC_MEM_STATE);
    in->mode = MODE_SKIP;
    in->header_got = 0;
}

/* Forgets the frame that is not whole. */
static void partial_drop(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in == NULL)
        return;
    if (in->header_got == UVCC_FRAME_HEADER_BYTES && in->mode == MODE_PLACE) {
        place p = partial_place(l);
        place_undo(l, &p);
    }
    partial_gather_free(l);
}

static int stream_break(uvcc_link *l, int err) {
    partial_drop(l);
    l->rx.broken = true;
    if (err != UVCC_ERR_FRAME)
        return err;
    l->stats.refused++;
    return UVCC_ERR_STREAM_BROKEN;
}

/* The header is here: decides where the payload goes. */
static int partial_begin(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    in->got = 0;
    in->crc = uvcci_crc32(0, in->header, 60);
    in->mode = MODE_SKIP;
    verdict v = judge_session(l, &in->h);
    if (v == REFUSE)
        return UVCC_ERR_FRAME;
    if (v != TAKE)
        return 0;
    if (uvcc_frame_kind_class(in->h.kind) != UVCC_CLASS_CONTROL) {
        const char *why;
        uvcci_rx_msg *m = table_find(l, &in->h);
        v = judge_message(l, &in->h, m, &why);
        place p;
        if (v == LATER)
            return UVCC_ERR_FRAME;
        if (v == TAKE && !place_take(l, &in->h, m, &p))
            return UVCC_ERR_NOMEM;
        if (v == TAKE) {
            in->mode = MODE_PLACE;
            in->msg = p.msg;
            in->created = p.created;
            in->to = p.msg->data + in->h.offset;
            return 0;
        }
    }
    if (in->h.payload_len == 0)
        return 0;
    in->to = uvcci_link_alloc(l, in->h.payload_len, UVCC_MEM_STATE);
    if (in->to == NULL)
        return UVCC_ERR_NOMEM;
    in->mode = MODE_GATHER;
    return 0;
}

/* Takes n more bytes of the payload. */
static void partial_add(uvcc_link *l, const uint8_t *data, size_t n) {
    uvcci_rx_partial *in = l->rx.in;
    size_t body = in->mode == MODE_PLACE ? piece_of(&in->h) : in->h.payload_len;
    while (n != 0) {
        size_t tile = n < TILE_BYTES ? n : TILE_BYTES;
        if (in->got < body && tile > body - in->got)
            tile = body - in->got;
        in->crc = uvcci_crc32(in->crc, data, tile);
        if (in->got >= body)
            memcpy(in->tag + (in->got - body), data, tile);
        else if (in->mode != MODE_SKIP)
            memcpy(in->to + in->got, data, tile);
        in->got += (uint32_t)tile;
        data += tile;
        n -= tile;
    }
}

/* The payload is here too. */
static int partial_end(uvcc_link *l) {
    uvcci_rx_partial *in = l->rx.in;
    if (in->crc != in->h.crc32)
        return UVCC_ERR_FRAME;
    if (in->mode == MODE_SKIP && in->h.payload_len != 0 && judge_session(l, &in->h) == TAKE) {
        l->stats.refused++; /* it came before its time, and its bytes are gone */
        return 0;
    }
    if (in->mode != MODE_PLACE) {
        int err = frame_take(l, &in->h, in->header, in->to);
        if (err == 0)
            partial_gather_free(l);
        return err;
    }
    if (!step_open(l, &in->h)) /* the step went on meanwhile */
        return UVCC_ERR_FRAME;
    if (is_sealed(&in->h)) {
        int err = open_piece(l, &in->h, in->header, in->to, in->tag, in->to);
        if (err != 0)
            return err == UVCC_ERR_NOMEM ? err : UVCC_ERR_FRAME;
    }
    l->stats.frames_rx++;
    l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
    place p = partial_place(l);
    in->mode = MODE_SKIP;
    in->header_got = 0;
    commit(l, &in->h, &p);
    return 0;
}

/* A frame that is wholly in the caller's bytes and better taken from there: its length, 0 if it is
 * not such a one, or an error. */
static ptrdiff_t feed_whole(uvcc_link *l, const uint8_t *data, size_t len) {
    if (len < UVCC_FRAME_HEADER_BYTES)
        return 0;
    uint32_t payload_len = uvcci_ld32(data + 48);
    if (payload_len > len - UVCC_FRAME_HEADER_BYTES ||
        (payload_len > WHOLE_MAX_BYTES && l->keys == NULL))
        return 0;
    uvcc_frame_header h;
    const uint8_t *payload;
    ptrdiff_t n = uvcc_frame_decode(data, len, &h, &payload, NULL);
    if (n < 0)
        return n;
    int err = frame_take(l, &h, data, payload);
    return err != 0 ? err : n;
}

static int feed_stream(uvcc_link *l, const uint8_t *data, size_t len) {
    if (l->rx.broken)
        return UVCC_ERR_STREAM_BROKEN;
    while (len != 0) {
        uvcci_rx_partial *in = l->rx.in;
        if (in == NULL || in->header_got == 0) {
            ptrdiff_t n = feed_whole(l, data, len);
            if (n < 0)
                return stream_break(l, (int)n);
            if (n > 0) {
                data += n;
                len -= (size_t)n;
                continue;
            }
        }
        if (in == NULL) {
            in = uvcci_link_alloc(l, sizeof *in, UVCC_MEM_STATE);
            if (in == NULL)
                return stream_break(l, UVCC_ERR_NOMEM);
            in->header_got = 0;
            in->mode = MODE_SKIP;
            l->rx.in = in;
        }
        if (in->header_got < UVCC_FRAME_HEADER_BYTES) {
            size_t n = UVCC_FRAME_HEADER_BYTES - in->header_got;
            if (n > len)
                n = len;
            memcpy(in->header + in->header_got, data, n);
            in->header_got += (uint32_t)n;
            data += n;
            len -= n;
            if (in->header_got < UVCC_FRAME_HEADER_BYTES)
                return 0;
            in->mode = MODE_SKIP;
            int err = uvcc_frame_decode_header(in->header, &in->h, NULL);
            if (err == 0)
                err = partial_begin(l);
            if (err != 0)
                return stream_break(l, err);
        }
        size_t n = in->h.payload_len - in->got;
        if (n > len)
            n = len;
        partial_add(l, data, n);
        data += n;
        len -= n;
        if (in->got == in->h.payload_len) {
            int err = partial_end(l);
            if (err != 0)
                return stream_break(l, err);
            in->header_got = 0;
        }
    }
    return 0;
}

int uvcc_link_feed(uvcc_link *l, const uint8_t *data, size_t len, uint64_t now) {
    uvcci_link_tick(l, now);
    l->stats.bytes_rx += len;
    return l->cfg.datagram ? feed_packet(l, data, len) : feed_stream(l, data, len);
}

/* ---- the owner's side ---- */

int uvcc_link_poll_message(uvcc_link *l, uvcc_link_rx *out) {
    uvcci_rx_msg *m = l->rx.ready_first;
    if (m == NULL)
        return 0;
    l->rx.ready_first = m->next;
    if (m->next == NULL)
        l->rx.ready_last = NULL;
    m->state = UVCCI_MSG_OFFERED;
    out->token = uvcci_object_token(&m->object);
    out->kind = m->kind;
    out->step = m->step;
    out->op_id = m->op_id;
    out->chunk_cnt = m->chunk_cnt;
    memcpy(out->msg_ids, m->msg_ids, m->chunk_cnt * sizeof m->msg_ids[0]);
    out->data = m->data;
    out->len = m->len;
    return 1;
}

int uvcc_link_accept(uvcc_link *l, uint64_t token, uint64_t now) {
    uvcci_rx_msg *m = uvcci_pool_find(&l->rx.pool, token);
    if (m == NULL || m->state != UVCCI_MSG_OFFERED)
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    m->state = UVCCI_MSG_ACCEPTED;
    l->stats.messages_rx++;
    if (!UVCCI_MUTANT(4))
        ackable_set(l, m->done_seq);
    ack_note(l, UVCC_FRAME_HEADER_BYTES + uvcci_min64(m->len, l->tx.packet_bytes));
    return 0;
}

int uvcc_link_release(uvcc_link *l, uint64_t token, uint64_t now) {
    uvcci_rx_msg *m = uvcci_pool_find(&l->rx.pool, token);
    if (m == NULL || (m->state != UVCCI_MSG_OFFERED && m->state != UVCCI_MSG_ACCEPTED))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    int cls = m->cls;
    l->rx.released[cls] += uvcci_msg_cost(m->len);
    message_free(l, m);
    uint64_t grown = l->rx.released[cls] + capacity(l, cls) - l->rx.granted[cls];
    ack_within(l, grown >= capacity(l, cls) / 8 ? 0 : l->cfg.ack_delay_ns);
    return 0;
}

/* ---- life ---- */

void uvcci_rx_init(uvcc_link *l) {
    l->rx.ack_at = UVCC_NEVER;
}

void uvcci_rx_stream_reset(uvcc_link *l) {
    partial_drop(l);
    l->rx.broken = false;
}

bool uvcci_rx_quiet(const uvcc_link *l) {
    return l->rx.pool.live == 0 && l->rx.top <= l->rx.cum &&
           (l->rx.in == NULL || l->rx.in->header_got == 0);
}

void uvcci_rx_trim(uvcc_link *l) {
    window_free(l);
    uvcci_link_give(l, l->rx.in, sizeof *l->rx.in, UVCC_MEM_STATE);
    l->rx.in = NULL;
    uvcci_link_give(l, l->rx.table, l->rx.table_cap * sizeof *l->rx.table, UVCC_MEM_STATE);
    l->rx.table = NULL;
    l->rx.table_cap = 0;
    uvcci_pool_trim(l, &l->rx.pool);
}

void uvcci_rx_free(uvcc_link *l) {
    partial_drop(l);
    uint32_t at = 0;
    for (uvcci_rx_msg *m; (m = uvcci_pool_each(&l->rx.pool, &at)) != NULL;)
        message_free(l, m);
    uvcci_rx_trim(l);
}

uint64_t uvcci_rx_bound(const uvcc_link *l) {
    uint64_t limit = l->cfg.rx_online_bytes + l->cfg.rx_keys_bytes;
    uint64_t window = 2 * UVCCI_WINDOW / 8;
    uint64_t messages = l->cfg.rx_messages_max + (uint64_t)TABLE_MIN;
    uint64_t ranges =
        RANGE_CAPS_MAX + RANGE_CAPS_MAX / 2; /* one array is there twice as it grows */
    uint64_t frame = UVCC_CHUNK_BYTES + UVCC_FRAME_SEAL_BYTES;
    return uvcci_pool_bound(limit / UVCCI_MSG_OVERHEAD_BYTES) + window + window / 2 +
           2 * sizeof(uvcci_rx_window) + sizeof(uvcci_rx_partial) +
           3 * messages * sizeof(uvcci_rx_msg *) + ranges * sizeof(uvcci_range) + 2 * frame +
           UVCCI_PACKET_MAX_BYTES;
}

static void digest64(uvcci_sha256 *h, uint64_t v) {
    uvcci_sha256_update(h, &v, sizeof v);
}

void uvcci_rx_digest(const uvcc_link *l, uvcci_sha256 *h) {
    const uvcci_rx *r = &l->rx;
    digest64(h, r->cum);
    digest64(h, r->top);
    digest64(h, r->ack_counter);
    for (size_t i = 0; i < 2; i++) {
        digest64(h, r->released[i]);
        digest64(h, r->admitted[i]);
        digest64(h, r->granted[i]);
    }
    for (uint64_t seq = r->cum + 1; seq <= r->top; seq++)
        digest64(h, (uint64_t)seen(l, seq) << 1 |
                        ((*ackable_word(r->window, seq) & bit_of(seq)) != 0));
    /* Records stand in no meaningful order: a sum of hashes has none. */
    uint64_t sum = 0;
    uint32_t at = 0;
    for (uvcci_rx_msg *m; (m = uvcci_pool_each(&r->pool, &at)) != NULL;) {
        uint64_t v[] = {(uint64_t)m->step << 32 | m->op_id, (uint64_t)m->len << 32 | m->got,
                        (uint64_t)m->kind << 8 | m->state};
        uint8_t d[32];
        uvcci_sha256_once(v, sizeof v, d);
        sum += uvcci_ld64(d);
    }
    digest64(h, sum);
}
