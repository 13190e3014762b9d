/* SPDX-License-Identifier: Apache-2.0 */
/* link_window.c - the seqs that came, in two rings of bits above the cumulative one.
 *
 * `seen`: the frame came, whole and authentic; the ranges of an ACK tell these. `ackable`: it and
 * what it completed were accepted; the cumulative seq tells these.
 *
 * Invariants: cum < every seq with a `seen` bit <= cum + 2^16; `ackable` is a subset of `seen`; the
 * cumulative seq is ackable, and the next one is not. */
#include "proto/link_window.h"

#include <assert.h>
#include <string.h>

#include "proto/link_core.h"
#include "proto/mutant.h"

/* A session's sender has 64 KiB at least beside its largest op: it need not wait for the delay. */
#define STREAM_ACK_BYTES     (64u << 10)
#define DATAGRAM_ACK_PACKETS 8u
#define FIRST_FRAMES         64u
#define FIRST_ACK_PACKETS    2u
#define ACK_SCAN_WORDS       128u
#define WINDOW_MIN_WORDS     4u

/* ---- when an ACK is due ---- */

void uvcci_ack_within(uvcc_link *l, uint64_t delay) {
    l->rx.ack_at = uvcci_min64(l->rx.ack_at, uvcci_later(l->now, delay));
}

void uvcci_ack_note(uvcc_link *l, uint64_t bytes) {
    /* A sender that begins knows neither times nor rates: it hears of its first packets soon. */
    uint32_t packets = l->rx.top - ((uint64_t)l->run << 40) < FIRST_FRAMES ? FIRST_ACK_PACKETS
                                                                           : DATAGRAM_ACK_PACKETS;
    uint64_t enough = l->cfg.datagram ? packets * (uint64_t)l->tx.path.packet : STREAM_ACK_BYTES;
    uint64_t sum = l->rx.noted + bytes;
    l->rx.noted = sum < enough ? (uint32_t)sum : (uint32_t)enough;
    uvcci_ack_within(l, sum < enough ? l->cfg.ack_delay_ns : 0);
}

/* ---- the rings ---- */

static uint64_t *seen_word(uvcci_rx_window *w, uint64_t seq) {
    return &w->bits[seq / 64 & (w->words - 1)];
}

static uint64_t *ackable_word(uvcci_rx_window *w, uint64_t seq) {
    return &w->bits[w->words + (seq / 64 & (w->words - 1))];
}

static uint64_t bit_of(uint64_t seq) {
    return UINT64_C(1) << seq % 64;
}

bool uvcci_window_seen(const uvcc_link *l, uint64_t seq) {
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

void uvcci_window_free(uvcc_link *l) {
    if (l->rx.window != NULL)
        uvcci_link_give(l, l->rx.window, window_bytes(l->rx.window->words), UVCC_MEM_STATE);
    l->rx.window = NULL;
}

/* Rings of a power of two of words, doubled until seq is in reach; both are copied bit by bit of
 * seq, since a seq's place depends on the rings' size. */
bool uvcci_window_reserve(uvcc_link *l, uint64_t seq) {
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
    uvcci_window_free(l);
    l->rx.window = w;
    return true;
}

/* Remembers a seq that came: the latest go into every ACK. */
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

void uvcci_window_see(uvcc_link *l, uint64_t seq) {
    assert(l->rx.window != NULL && seq > l->rx.cum && seq - l->rx.cum <= UVCCI_WINDOW);
    *seen_word(l->rx.window, seq) |= bit_of(seq);
    fresh_add(l->rx.window, seq);
    l->rx.top = uvcci_max64(l->rx.top, seq);
}

void uvcci_window_keep(uvcc_link *l, uint64_t seq) {
    uvcci_rx_side *r = &l->rx;
    assert(uvcci_window_seen(l, seq));
    *ackable_word(r->window, seq) |= bit_of(seq);
    if (seq != r->cum + 1)
        return;
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

uint32_t uvcci_window_state(const uvcc_link *l, uint64_t seq) {
    bool ackable = (*ackable_word(l->rx.window, seq) & bit_of(seq)) != 0;
    return (uint32_t)uvcci_window_seen(l, seq) << 1 | ackable;
}

uint64_t uvcci_window_bound(void) {
    uint64_t bits = 2 * UVCCI_WINDOW / 8;
    return bits + bits / 2 + 2 * sizeof(uvcci_rx_window); /* two are there as it grows */
}

/* ---- what an ACK says ---- */

/* Adds a range, ascending, joined with what it touches. False: no room for it. */
static bool sack_add(uvcci_ack *s, uint32_t max, uint64_t first, uint64_t last) {
    uint32_t i = s->range_cnt, j;
    while (i > 0 && s->range[i - 1][1] + 1 >= first)
        i--;
    for (j = i; j < s->range_cnt && s->range[j][0] <= last + 1; j++) {
        first = uvcci_min64(first, s->range[j][0]);
        last = uvcci_max64(last, s->range[j][1]);
    }
    if (i == j && s->range_cnt == max)
        return false;
    memmove(s->range[i + 1], s->range[j], (s->range_cnt - j) * sizeof s->range[0]);
    s->range[i][0] = first;
    s->range[i][1] = last;
    s->range_cnt = s->range_cnt + 1 - (j - i);
    return true;
}

/* The word whose bits ranges tell. */
static uint64_t *told_word(uvcci_rx_window *w, uint64_t seq) {
    return UVCCI_MUTANT(21) ? ackable_word(w, seq) : seen_word(w, seq);
}

/* The next run of seqs that came, at or above `from`, at most to the end of a word, so that the
 * work is bounded by the words looked at. */
static bool run_next(const uvcc_link *l, uint64_t from, uint32_t *words, uint64_t *first,
                     uint64_t *last) {
    for (uint64_t s = from; s <= l->rx.top && *words != 0; s = (s / 64 + 1) * 64) {
        --*words;
        uint64_t w = *told_word(l->rx.window, s) >> s % 64;
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
static void sack_fill(uvcc_link *l, uvcci_ack *s, uint32_t max) {
    uvcci_rx_side *r = &l->rx;
    if (r->top <= r->cum || max == 0)
        return;
    for (uint32_t i = 0; i < UVCCI_FRESH && s->range_cnt < max / 2 + 1; i++) {
        const uint64_t *run = r->window->fresh[(r->window->fresh_at - 1 - i) % UVCCI_FRESH];
        if (run[1] > r->cum && !UVCCI_MUTANT(21))
            (void)sack_add(s, max, uvcci_max64(run[0], r->cum + 1), run[1]);
    }
    uint32_t words = ACK_SCAN_WORDS;
    uint64_t from = r->window->sack_cursor, first, last;
    if (from <= r->cum || from > r->top)
        from = r->cum + 1;
    while (run_next(l, from, &words, &first, &last)) {
        if (!sack_add(s, max, first, last))
            break;
        from = last + 1;
    }
    r->window->sack_cursor = words == 0 || s->range_cnt == max ? from : 0;
}

uint64_t uvcci_rx_capacity(const uvcc_link *l, int cls) {
    return cls == UVCC_CLASS_KEYS ? l->cfg.rx_keys_bytes : l->cfg.rx_online_bytes;
}

void uvcci_window_ack(uvcc_link *l, uvcci_ack *out, uint32_t max_ranges) {
    uvcci_rx_side *r = &l->rx;
    assert(max_ranges <= UVCCI_ACK_RANGES_MAX);
    out->range_cnt = 0;
    sack_fill(l, out, max_ranges);
    out->counter = ++r->ack_counter;
    out->cum = r->cum + UVCCI_MUTANT(2);
    for (int c = 0; c < 2; c++)
        out->credit[c] = r->granted[c] = r->released[c] + uvcci_rx_capacity(l, c);
    out->ping_number = r->ping_number;
    r->ping_bytes = 0;
    out->repeats = r->repeats;
    out->ce_packets = r->ce_packets;
    r->ack_at = UVCC_NEVER;
    r->noted = 0;
}
