/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - what all processes of a party decide together: each sends its part to rank 0, which
 * sends what comes of them to all. In pieces, one at a time, as control messages: a failure leaves
 * nothing behind that MPI still waits for. */
#include <assert.h>
#include <string.h>

#include "io_adapters/mpi/state.h"

/* Once it has said so the host may ask for the next. */
static void answer(uvcc_mpi *m, int status) {
    uvcci_mpi_bytes_free(m, &m->given);
    (void)pthread_mutex_lock(&m->lock);
    m->asking = m->answering = m->sent_all = false;
    m->sent = 0;
    m->moved = true;
    m->answer = status;
    m->call = UVCCI_MPI_ANSWERED;
    (void)pthread_cond_signal(&m->host);
    (void)pthread_mutex_unlock(&m->lock);
}

/* One piece more of what comes in several; true: it is whole. */
static bool add_piece(uvcc_mpi *m, uvcci_mpi_bytes *to, const uvcci_mpi_message *msg, size_t len) {
    if (to->ask == 0) {
        to->ask = msg->head.ask;
        to->len = (size_t)msg->head.total;
        if (to->len != 0)
            to->at = uvcci_mpi_need(m, to->len, UVCC_MEM_WIRE);
    }
    if (msg->head.offset != to->have || len > to->len - to->have)
        uvcci_mpi_abort(m, "a piece of an agreement that does not fit");
    if (len != 0)
        memcpy(to->at + to->have, msg->body, len);
    to->have += len;
    return to->have == to->len;
}

void uvcci_mpi_part(uvcc_mpi *m, uint32_t from, const uvcci_mpi_message *msg, size_t len) {
    if (!m->giving_up)
        (void)add_piece(m, &m->parts[from], msg, len);
}

void uvcci_mpi_result(uvcc_mpi *m, const uvcci_mpi_message *msg, size_t len) {
    if (m->giving_up || !add_piece(m, &m->reply, msg, len))
        return;
    m->result = m->reply;
    m->reply = (uvcci_mpi_bytes){0};
    answer(m, 0);
}

/* The next piece to rank 0 or to all, when the one before is away. */
static void send_pieces(uvcc_mpi *m, uvcci_mpi_kind kind, const uvcci_mpi_bytes *from) {
    while (!m->sent_all && !uvcci_mpi_pieces_out(m)) {
        size_t len = from->len - m->sent;
        if (len > UVCCI_MPI_BODY)
            len = UVCCI_MPI_BODY;
        const uvcci_mpi_head head = {
            .kind = (uint8_t)kind, .ask = m->ask, .total = from->len, .offset = m->sent};
        const uint8_t *at = len != 0 ? from->at + m->sent : NULL;
        if (kind == UVCCI_MPI_PART)
            uvcci_mpi_send(m, 0, &head, at, len);
        else
            uvcci_mpi_send_all(m, &head, at, len);
        m->sent += len;
        m->sent_all = m->sent == from->len;
    }
}

/* ---- at rank 0 ---- */

static bool whole(const uvcc_mpi *m) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->parts[i].ask == 0 || m->parts[i].have != m->parts[i].len)
            return false;
    return true;
}

static uint64_t number(const uvcci_mpi_bytes *b, size_t i) {
    uint64_t v;
    memcpy(&v, b->at + i * sizeof v, sizeof v);
    return v;
}

static bool has(const uvcci_mpi_bytes *b, uint64_t v) {
    for (size_t i = 0; i < b->len / sizeof v; i++)
        if (number(b, i) == v)
            return true;
    return false;
}

/* Those that all have, in rising order. */
static void common(uvcc_mpi *m) {
    const size_t most = m->parts[0].len / sizeof(uint64_t);
    size_t count = 0;
    uint64_t *to = most != 0 ? uvcci_mpi_need(m, m->parts[0].len, UVCC_MEM_WIRE) : NULL;
    for (size_t i = 0; i < most; i++) {
        const uint64_t v = number(&m->parts[0], i);
        bool all = true;
        for (uint32_t r = 1; r < m->count && all; r++)
            all = has(&m->parts[r], v);
        size_t at = all ? count++ : 0;
        for (; all && at > 0 && to[at - 1] > v; at--)
            to[at] = to[at - 1];
        if (all)
            to[at] = v;
    }
    if (count != 0) {
        m->reply.len = count * sizeof *to;
        m->reply.at = uvcci_mpi_need(m, m->reply.len, UVCC_MEM_WIRE);
        memcpy(m->reply.at, to, m->reply.len);
    }
    uvcci_mpi_give(m, to, m->parts[0].len, UVCC_MEM_WIRE);
}

static void greatest(uvcc_mpi *m) {
    uint32_t most = 0, v;
    for (uint32_t i = 0; i < m->count; i++) {
        memcpy(&v, m->parts[i].at, sizeof v);
        if (v > most)
            most = v;
    }
    m->reply.len = sizeof most;
    m->reply.at = uvcci_mpi_need(m, sizeof most, UVCC_MEM_WIRE);
    memcpy(m->reply.at, &most, sizeof most);
}

/* All parts are here: what comes of them. */
static void decide(uvcc_mpi *m) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->parts[i].ask != m->ask) {
            uvcci_mpi_give_up(m, m->rank, 0, "workers of the party agree on different things");
            return;
        }
    if (m->ask == UVCCI_MPI_MAX)
        greatest(m);
    else if (m->ask == UVCCI_MPI_COMMON)
        common(m);
    if (m->ask == UVCCI_MPI_GATHER)
        m->gathered = uvcci_mpi_need(m, m->count * sizeof *m->gathered, UVCC_MEM_STATE);
    for (uint32_t i = 0; i < m->count; i++) { /* those of the next one may come at once */
        if (m->gathered != NULL)
            m->gathered[i] = m->parts[i];
        else
            uvcci_mpi_bytes_free(m, &m->parts[i]);
        m->parts[i] = (uvcci_mpi_bytes){0};
    }
    m->answering = true;
}

/* ---- the call that is under way ---- */

/* A call that comes after the host said that this worker failed is not begun before that is known
 * here: with all others' it would end well. */
static void begin(uvcc_mpi *m) {
    (void)pthread_mutex_lock(&m->lock);
    m->asking = m->call == UVCCI_MPI_CALLED && (!m->asked_to_fail || m->giving_up);
    (void)pthread_mutex_unlock(&m->lock);
    if (m->asking && m->rank == 0 && !m->giving_up) {
        m->parts[0] = m->given;
        m->parts[0].have = m->given.len;
        m->given = (uvcci_mpi_bytes){0};
    }
}

void uvcci_mpi_agree(uvcc_mpi *m) {
    if (!m->asking)
        begin(m);
    if (m->asking && m->rank != 0 && !m->giving_up)
        send_pieces(m, UVCCI_MPI_PART, &m->given);
    if (m->asking && m->rank == 0 && !m->giving_up && !m->answering && whole(m))
        decide(m);
    if (m->answering && !m->giving_up) {
        send_pieces(m, UVCCI_MPI_RESULT, &m->reply);
        if (m->sent_all) {
            m->result = m->reply;
            m->reply = (uvcci_mpi_bytes){0};
            answer(m, 0);
        }
    }
    if (m->giving_up && m->asking)
        answer(m, UVCC_ERR_STATE);
}
