/* SPDX-License-Identifier: Apache-2.0 */
/* link_send.c - messages out, see link_send.h.
 *
 * Invariants: held <= the class's limit; begun_bytes <= credit; nothing that the outstanding
 * transmit points to is freed before transmit_done. */
#include "proto/link_send.h"

#include <assert.h>
#include <string.h>

#include "proto/link_core.h"
#include "proto/link_path.h"
#include "proto/link_pool.h"
#include "proto/link_queue.h"
#include "proto/link_scratch.h"
#include "proto/mutant.h"

enum { MSG_NEW = 0, MSG_SENT = 1 };
enum { SEQS_KEPT = 1 << 20 }; /* of the 2^40 of a run */

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
    if (m == NULL)
        return NULL;
    return m->data;
}

/* Pieces are sealed where they stand; keys come before the first one goes out, or never. */
static bool all_sealed(const uvcc_link *l, const uvcc_link_msg *m) {
    return l->keys != NULL && m->state == MSG_SENT && m->cut == m->len && l->tx.fatal == 0;
}

static void msg_free(uvcc_link *l, uvcc_link_msg *m) {
    assert(l->tx.cls[m->cls].held >= uvcci_msg_cost(m->len));
    l->tx.cls[m->cls].held -= uvcci_msg_cost(m->len);
    uvcci_data_give(l, m->data, m->len, all_sealed(l, m));
    uvcci_pool_give(l, &l->tx.pool, m);
}

void uvcc_link_msg_drop(uvcc_link *l, uvcc_link_msg *m) {
    if (l == NULL || m == NULL)
        return;
    assert(m->state == MSG_NEW);
    msg_free(l, m);
}

bool uvcc_link_writable(const uvcc_link *l, uint8_t kind, uint32_t len) {
    int cls = uvcc_frame_kind_class(kind);
    return (cls == UVCC_CLASS_ONLINE || cls == UVCC_CLASS_KEYS) &&
           l->tx.cls[cls].held + uvcci_msg_cost(len) <= tx_limit(l, cls);
}

bool uvcc_link_drained(const uvcc_link *l) {
    if (l == NULL)
        return false;
    return l->tx.undone == 0;
}

/* Nothing here takes memory: what a message needs was had by msg_new, so a step that got its
 * buffers can always send them. */
int uvcc_link_send(uvcc_link *l, uvcc_link_msg *m, uint32_t step, uint32_t op_id,
                   const uint32_t *msg_ids, uint64_t order, uint64_t now) {
    if (l == NULL || m == NULL || msg_ids == NULL || m->state != MSG_NEW)
        return UVCC_ERR_USAGE;
    if (!l->have_run)
        return UVCC_ERR_STATE;
    bool stepless = uvcci_link_stepless(m->kind);
    uint32_t packet = l->cfg.datagram ? uvcci_path_base(l) : UVCCI_PACKET_BYTES;
    if (stepless &&
        (op_id != 0 || m->len > packet - UVCC_FRAME_HEADER_BYTES - UVCC_FRAME_SEAL_BYTES))
        return UVCC_ERR_USAGE;
    if (l->keys != NULL && !stepless &&
        (step < l->keys->chain_step || step > l->step + UINT64_C(1)))
        return UVCC_ERR_USAGE; /* as uvcci_link_has_key(): there is none for it */
    uvcci_link_tick(l, now);
    m->step = stepless ? l->step : step;
    m->op_id = op_id;
    uint32_t chunks = m->len == 0 ? 1 : (m->len - 1) / UVCC_CHUNK_BYTES + 1;
    memcpy(m->msg_ids, msg_ids, chunks * sizeof *msg_ids);
    m->order = order;
    m->serial = l->tx.serial++;
    m->cut = m->frames = 0;
    m->state = MSG_SENT;
    uvcci_link_queue_push(&l->tx.cls[m->cls], m);
    l->tx.undone++;
    l->stats.queued_messages++;
    l->stats.queued_bytes += m->len;
    return 0;
}

static bool fits_credit(const uvcci_tx_class *c, const uvcc_link_msg *m) {
    return UVCCI_MUTANT(5) || uvcci_msg_cost(m->len) <= c->credit - c->begun_bytes;
}

uvcc_link_msg *uvcci_send_next(const uvcci_tx_class *c) {
    uvcc_link_msg *waiting = uvcci_link_queue_peek(c);
    if (waiting != NULL && (c->begun == NULL || waiting->order < c->begun->order) &&
        fits_credit(c, waiting))
        return waiting;
    return c->begun;
}

void uvcci_send_begin(uvcc_link *l, uvcc_link_msg *m) {
    uvcci_tx_class *c = &l->tx.cls[m->cls];
    assert(uvcci_link_queue_peek(c) == m);
    uvcci_link_queue_pop(c);
    m->next = c->begun;
    c->begun = m;
    assert(c->begun_bytes <= c->credit || UVCCI_MUTANT(5));
    c->begun_bytes += uvcci_msg_cost(m->len);
    l->stats.messages_tx++;
    l->stats.queued_messages--;
    *(m->cls == UVCC_CLASS_KEYS ? &l->stats.payload_keys_tx : &l->stats.payload_online_tx) +=
        m->len;
}

bool uvcci_send_blocked(const uvcc_link *l) {
    for (size_t i = 0; i < 2; i++) {
        const uvcci_tx_class *c = &l->tx.cls[i];
        const uvcc_link_msg *waiting = uvcci_link_queue_peek(c);
        if (waiting != NULL && c->begun == NULL && !fits_credit(c, waiting))
            return true;
    }
    return false;
}

void uvcci_send_done(uvcc_link *l, uvcc_link_msg *m) {
    assert(l->tx.undone != 0 && m->state == MSG_SENT && m->frames == 0 && m->cut == m->len);
    l->tx.undone--;
    l->stats.unacked_bytes -= m->len;
    const bool ahead = uvcci_scratch_left(l->tx.ahead) != 0;
    if (ahead || uvcci_scratch_left(l->tx.scratch) != 0) {
        uvcc_link_msg **list = ahead ? &l->tx.zombies_ahead : &l->tx.zombies;
        m->next = *list;
        *list = m;
    } else {
        msg_free(l, m);
    }
}

void uvcci_zombies_free(uvcc_link *l) {
    while (l->tx.zombies != NULL) {
        uvcc_link_msg *m = l->tx.zombies;
        l->tx.zombies = m->next;
        msg_free(l, m);
    }
}

void uvcci_zombies_come(uvcc_link *l) {
    uvcci_zombies_free(l);
    l->tx.zombies = l->tx.zombies_ahead;
    l->tx.zombies_ahead = NULL;
}

bool uvcci_send_spent(uvcc_link *l, const uvcc_link_msg *m) {
    const uint64_t end = UINT64_C(1) << 40, counter = l->tx.next & (end - 1);
    if (counter < end - SEQS_KEPT)
        return false;
    if (l->tx.spent == UVCCI_SPENT_NOTHING)
        l->tx.spent = UVCCI_SPENT_SEQS;
    return !uvcci_link_stepless(m->kind) || counter == end - 1;
}

uint32_t uvcci_send_oldest_step(const uvcc_link *l, uint32_t step) {
    uint32_t at = 0;
    for (const uvcc_link_msg *m; (m = uvcci_pool_each(&l->tx.pool, &at)) != NULL;)
        if (m->state == MSG_SENT && m->step < step && (m->cut < m->len || m->frames == 0))
            step = m->step;
    return step;
}

/* Sent and not done; a session's messages are never empty. */
static bool undone(const uvcc_link_msg *m) {
    return m->state == MSG_SENT && (m->cut < m->len || m->frames != 0);
}

bool uvcci_link_flushed(const uvcc_link *l, uint32_t step) {
    uint32_t at = 0;
    for (const uvcc_link_msg *m; (m = uvcci_pool_each(&l->tx.pool, &at)) != NULL;)
        if (undone(m) && m->step <= step)
            return false;
    return true;
}

bool uvcci_link_kind_acked(const uvcc_link *l, uint8_t kind) {
    uint32_t at = 0;
    for (const uvcc_link_msg *m; (m = uvcci_pool_each(&l->tx.pool, &at)) != NULL;)
        if (undone(m) && m->kind == kind)
            return false;
    return true;
}

void uvcci_send_free_all(uvcc_link *l) {
    uint32_t at = 0;
    for (uvcc_link_msg *m; (m = uvcci_pool_each(&l->tx.pool, &at)) != NULL;)
        msg_free(l, m);
}
