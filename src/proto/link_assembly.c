/* SPDX-License-Identifier: Apache-2.0 */
/* link_assembly.c - messages that are being received, see link_assembly.h.
 *
 * States of a message: OPEN (in reassembly) -> READY (whole) -> OFFERED (with the owner) ->
 * ACCEPTED
 * -> released (link_rx).
 *
 * Invariants: only messages of several frames stand in the table; the ranges of a message ascend,
 * are disjoint and do not touch; range_caps is the sum of the arrays' sizes. */
#include "proto/link_assembly.h"

#include <assert.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/link_core.h"
#include "proto/link_pool.h"

#define TABLE_MIN      16u
#define RANGES_MIN     4u
#define RANGE_CAPS_MAX (4u * UVCCI_WINDOW)
#define RANGE_CAPS_MIN 64u
#define RANGE_BYTES    256u /* of the credit, for each */

/* ---- the table ---- */

static uint32_t bucket_of(const uvcc_link *l, uint8_t kind, uint32_t step, uint32_t op_id) {
    uint64_t x = ((uint64_t)step << 32 | op_id) * l->hash_mul + kind;
    return (uint32_t)((x ^ x >> 32) * l->hash_mul >> 40) & (l->rx.table_cap - 1);
}

uvcci_rx_msg *uvcci_assembly_find(const uvcc_link *l, const uvcc_frame_header *h) {
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
    assert(m->tabled && l->rx.table_live != 0);
    uvcci_rx_msg **p = &l->rx.table[bucket_of(l, m->kind, m->step, m->op_id)];
    while (*p != m)
        p = &(*p)->next;
    *p = m->next;
    m->tabled = false;
    l->rx.table_live--;
}

/* ---- ranges ---- */

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

uvcci_range_slot uvcci_range_slot_of(uvcci_rx_msg *m, uint32_t first, uint32_t end) {
    const uvcci_range *r = ranges_of(m);
    uvcci_range_slot s = {.at = range_find(m, first)};
    s.left = s.at < m->range_cnt && r[s.at].end == first;
    uint32_t next = s.at + s.left;
    s.right = next < m->range_cnt && r[next].first == end;
    s.overlap = next < m->range_cnt && r[next].first < end;
    return s;
}

/* Honest frames of a message of several have 570 bytes or more, and every other one is missing at
 * most: arrays of so many ranges have no more of them than a window of messages needs. */
static uint64_t range_caps_max(const uvcc_link *l) {
    const uint64_t caps = (l->cfg.rx_online_bytes + l->cfg.rx_keys_bytes) / RANGE_BYTES;
    return uvcci_min64(uvcci_max64(caps, RANGE_CAPS_MIN), RANGE_CAPS_MAX);
}

/* A range of its own may need a greater array. What is refused here comes again, when
 * retransmissions have closed gaps; no honest window has as many gaps as all arrays can hold. */
static uint32_t ranges_more(const uvcci_rx_msg *m, const uvcci_range_slot *s) {
    uint32_t cap = m->range_cap == 0 ? 1 : m->range_cap;
    if (s->left || s->right || m->range_cnt < cap)
        return 0;
    return m->range_cap == 0 ? RANGES_MIN : 2 * m->range_cap;
}

bool uvcci_range_admissible(const uvcc_link *l, const uvcci_rx_msg *m, const uvcci_range_slot *s) {
    return s->left || s->right ||
           (m->range_cnt <= l->cfg.rx_ranges_max &&
            l->rx.range_caps + ranges_more(m, s) <= range_caps_max(l));
}

bool uvcci_range_reserve(uvcc_link *l, uvcci_rx_msg *m, const uvcci_range_slot *s) {
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

void uvcci_range_fill(uvcci_rx_msg *m, const uvcci_range_slot *s, uint32_t first, uint32_t end) {
    uvcci_range *r = ranges_of(m);
    uint32_t after = m->range_cnt - s->at;
    assert(!s->overlap && first < end && s->at <= m->range_cnt);
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

/* ---- messages ---- */

/* One of several frames goes into the table, so that the others find it; one of one frame is whole
 * at once. Its credit counts from here: the peer took it when it began to send. */
uvcci_rx_msg *uvcci_assembly_new(uvcc_link *l, const uvcc_frame_header *h) {
    bool several = uvcci_frame_piece(h) != h->msg_len;
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

void uvcci_assembly_free(uvcc_link *l, uvcci_rx_msg *m) {
    if (m->tabled)
        table_remove(l, m);
    ranges_free(l, m);
    uvcci_data_give(l, m->data, m->len, false);
    uvcci_pool_give(l, &l->rx.pool, m);
}

void uvcci_assembly_whole(uvcc_link *l, uvcci_rx_msg *m, uint64_t seq) {
    assert(m->state == UVCCI_MSG_OPEN && m->got == m->len);
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

void uvcci_assembly_free_all(uvcc_link *l) {
    uint32_t at = 0;
    for (uvcci_rx_msg *m; (m = uvcci_pool_each(&l->rx.pool, &at)) != NULL;)
        uvcci_assembly_free(l, m);
}

void uvcci_assembly_trim(uvcc_link *l) {
    assert(l->rx.table_live == 0 && l->rx.range_caps == 0);
    uvcci_link_give(l, l->rx.table, l->rx.table_cap * sizeof *l->rx.table, UVCC_MEM_STATE);
    l->rx.table = NULL;
    l->rx.table_cap = 0;
    uvcci_pool_trim(l, &l->rx.pool);
}

uint64_t uvcci_assembly_bound(const uvcc_link *l) {
    uint64_t limit = l->cfg.rx_online_bytes + l->cfg.rx_keys_bytes;
    uint64_t messages = l->cfg.rx_messages_max + (uint64_t)TABLE_MIN;
    const uint64_t caps = range_caps_max(l);
    const uint64_t ranges = caps + caps / 2; /* one array is there twice as it grows */
    return uvcci_pool_bound(limit / UVCCI_MSG_OVERHEAD_BYTES) +
           3 * messages * sizeof(uvcci_rx_msg *) + ranges * sizeof(uvcci_range);
}
