/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - messages between the processes of a party: one communicator, one receive that always
 * waits for anybody's next. MPI keeps the order of what one process sends another. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "io_adapters/mpi/state.h"

#define CONTROL_TAG 1

/* what goes out of one record comes into the other */
static_assert(offsetof(uvcci_mpi_out, body) - offsetof(uvcci_mpi_out, head) ==
                  offsetof(uvcci_mpi_message, body),
              "head and body stand one behind the other");

void uvcci_mpi_send(uvcc_mpi *m, uint32_t to, const uvcci_mpi_head *head, const void *body,
                    size_t len) {
    const size_t bytes = sizeof(uvcci_mpi_out) + len;
    uvcci_mpi_out *o = uvcci_mpi_need(m, bytes, UVCC_MEM_WIRE);
    o->bytes = bytes;
    o->piece = head->kind == UVCCI_MPI_PART || head->kind == UVCCI_MPI_RESULT;
    o->head = *head;
    if (len != 0)
        memcpy(o->body, body, len);
    (void)MPI_Isend(&o->head, (int)(sizeof o->head + len), MPI_BYTE, (int)to, CONTROL_TAG,
                    m->control, &o->request);
    o->next = m->out;
    m->out = o;
    m->moved = true;
}

void uvcci_mpi_send_all(uvcc_mpi *m, const uvcci_mpi_head *head, const void *body, size_t len) {
    for (uint32_t i = 0; i < m->count; i++)
        if (i != m->rank)
            uvcci_mpi_send(m, i, head, body, len);
}

void uvcci_mpi_flush(uvcc_mpi *m) {
    for (uvcci_mpi_out **at = &m->out; *at != NULL;) {
        uvcci_mpi_out *o = *at;
        int gone = 0;
        (void)MPI_Test(&o->request, &gone, MPI_STATUS_IGNORE);
        if (!gone) {
            at = &o->next;
            continue;
        }
        *at = o->next;
        uvcci_mpi_give(m, o, o->bytes, UVCC_MEM_WIRE);
        m->moved = true;
    }
}

bool uvcci_mpi_pieces_out(const uvcc_mpi *m) {
    for (const uvcci_mpi_out *o = m->out; o != NULL; o = o->next)
        if (o->piece)
            return true;
    return false;
}

void uvcci_mpi_listen(uvcc_mpi *m) {
    (void)MPI_Irecv(&m->message, (int)sizeof m->message, MPI_BYTE, MPI_ANY_SOURCE, CONTROL_TAG,
                    m->control, &m->incoming);
}

static void leaves(uvcc_mpi *m, uint32_t from) {
    if (m->quiet[from])
        return;
    m->quiet[from] = true;
    m->quiet_count++;
}

/* ---- notes ---- */

static void keep_note(uvcc_mpi *m, uint32_t from, const uint8_t *bytes, size_t len) {
    uvcci_mpi_note_record *r = uvcci_mpi_need(m, sizeof *r + len, UVCC_MEM_WIRE);
    r->rank = from;
    r->len = len;
    memcpy(r->bytes, bytes, len);
    *m->notes_in.last = r;
    m->notes_in.last = &r->next;
}

static void drop_note(uvcc_mpi *m, uvcci_mpi_notes *q) {
    uvcci_mpi_note_record *r = q->first;
    q->first = r->next;
    if (q->first == NULL)
        q->last = &q->first;
    uvcci_mpi_give(m, r, sizeof *r + r->len, UVCC_MEM_WIRE);
}

void uvcci_mpi_drop_notes(uvcc_mpi *m) {
    while (m->notes_in.first != NULL)
        drop_note(m, &m->notes_in);
    while (m->notes_out.first != NULL)
        drop_note(m, &m->notes_out);
}

/* The hook is called without the lock: it may send a note itself. */
void uvcci_mpi_carry_notes(uvcc_mpi *m) {
    (void)pthread_mutex_lock(&m->lock);
    uvcci_mpi_notes out = m->notes_out;
    if (out.first == NULL)
        out.last = &out.first;
    m->notes_out.first = NULL;
    m->notes_out.last = &m->notes_out.first;
    const uvcc_mpi_reader reader = m->reader;
    m->noting = reader.note != NULL && m->notes_in.first != NULL;
    const bool noting = m->noting;
    (void)pthread_mutex_unlock(&m->lock);
    while (out.first != NULL) {
        const uvcci_mpi_head head = {.kind = UVCCI_MPI_NOTE};
        uvcci_mpi_send(m, out.first->rank, &head, out.first->bytes, out.first->len);
        drop_note(m, &out);
    }
    if (!noting)
        return;
    for (; m->notes_in.first != NULL; drop_note(m, &m->notes_in)) {
        const uvcci_mpi_note_record *r = m->notes_in.first;
        reader.note(reader.user, r->rank, r->bytes, r->len);
        m->moved = true;
    }
    (void)pthread_mutex_lock(&m->lock);
    m->noting = false;
    (void)pthread_cond_broadcast(&m->host);
    (void)pthread_mutex_unlock(&m->lock);
}

/* What one message means. */
static void take(uvcc_mpi *m, uint32_t from, size_t len) {
    const uvcci_mpi_message *msg = &m->message;
    char why[UVCC_MPI_WHY_BYTES] = "";
    switch (msg->head.kind) {
    case UVCCI_MPI_TOKEN:
        uvcci_mpi_token(m, &msg->head);
        break;
    case UVCCI_MPI_SENT:
        uvcci_mpi_sent(m, &msg->head);
        break;
    case UVCCI_MPI_FAIL:
        memcpy(why, msg->body, len < sizeof why ? len : sizeof why - 1);
        leaves(m, from);
        uvcci_mpi_give_up(m, msg->head.index, msg->head.code, why);
        break;
    case UVCCI_MPI_BYE:
        leaves(m, from);
        uvcci_mpi_someone_left(m);
        break;
    case UVCCI_MPI_PART:
        uvcci_mpi_part(m, from, msg, len);
        break;
    case UVCCI_MPI_RESULT:
        uvcci_mpi_result(m, msg, len);
        break;
    case UVCCI_MPI_END:
        m->end_count++;
        break;
    case UVCCI_MPI_NOTE:
        keep_note(m, from, msg->body, len);
        break;
    default:
        uvcci_mpi_abort(m, "a message that this version does not know");
    }
}

void uvcci_mpi_hear(uvcc_mpi *m) {
    for (;;) {
        MPI_Status status;
        int came = 0, bytes = 0;
        (void)MPI_Test(&m->incoming, &came, &status);
        if (!came)
            return;
        (void)MPI_Get_count(&status, MPI_BYTE, &bytes);
        if ((size_t)bytes < sizeof m->message.head)
            uvcci_mpi_abort(m, "a message that is too short");
        take(m, (uint32_t)status.MPI_SOURCE, (size_t)bytes - sizeof m->message.head);
        m->moved = true;
        uvcci_mpi_listen(m);
    }
}
