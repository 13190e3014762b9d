/* SPDX-License-Identifier: Apache-2.0 */
/* tls_pipe.h - two ends of TLS over memory: wires with little room, small steps, and an end, for
 * tests. */
#ifndef UVCC_TEST_TLS_PIPE_H
#define UVCC_TEST_TLS_PIPE_H

#include "io_adapters/tls/conn.h"
#include "support.h"

#include <uvcc/host.h>

/* Bytes in one direction. 0: no limit. */
typedef struct wire {
    uint8_t *bytes;
    size_t at, len, cap;
    size_t step;  /* most bytes of a call */
    size_t room;  /* most bytes that wait */
    size_t cut;   /* so many bytes go over it, then it ends */
    size_t total; /* that were sent */
    size_t reads; /* calls of recv */
    bool closed;  /* the sender has gone */
    int error;    /* what both calls say, if not 0 */
} wire;

static inline ptrdiff_t wire_send(wire *w, const uint8_t *bytes, size_t len) {
    size_t n = len;
    if (w->error != 0)
        return w->error;
    if (w->step != 0 && n > w->step)
        n = w->step;
    if (w->room != 0 && n > w->room - (w->len - w->at))
        n = w->room - (w->len - w->at);
    if (n == 0)
        return UVCC_ERR_AGAIN;
    if (w->len + n > w->cap) {
        w->cap = 2 * (w->len + n);
        w->bytes = realloc(w->bytes, w->cap);
        assert_non_null(w->bytes);
    }
    memcpy(w->bytes + w->len, bytes, n);
    w->len += n;
    w->total += n;
    if (w->cut != 0 && w->total > w->cut) {
        w->len -= w->total - w->cut > n ? n : w->total - w->cut;
        w->closed = true;
    }
    return (ptrdiff_t)n;
}

static inline ptrdiff_t wire_recv(wire *w, uint8_t *bytes, size_t cap) {
    size_t n = w->len - w->at;
    w->reads++;
    if (w->error != 0)
        return w->error;
    if (n == 0)
        return w->closed ? 0 : UVCC_ERR_AGAIN;
    if (n > cap)
        n = cap;
    if (w->step != 0 && n > w->step)
        n = w->step;
    memcpy(bytes, w->bytes + w->at, n);
    w->at += n;
    return (ptrdiff_t)n;
}

typedef struct end {
    uvcci_tls_conn *c;
    wire *in, *out;
    int rc; /* of the handshake */
} end;

static inline ptrdiff_t end_recv(void *user, uint8_t *bytes, size_t cap) {
    return wire_recv(((end *)user)->in, bytes, cap);
}
static inline ptrdiff_t end_send(void *user, const uint8_t *bytes, size_t len) {
    return wire_send(((end *)user)->out, bytes, len);
}

/* end[0] calls, end[1] is called. */
typedef struct pipe2 {
    wire there, back;
    end end[2];
} pipe2;

static inline void pipe_open(pipe2 *p, uvcc_tls *caller, uvcc_tls *called, uint8_t peer) {
    p->end[0].in = p->end[1].out = &p->back;
    p->end[0].out = p->end[1].in = &p->there;
    for (int i = 0; i < 2; i++) {
        uvcci_tls_io io = {.recv = end_recv, .send = end_send, .user = &p->end[i]};
        uvcc_tls *t = i == 0 ? caller : called;
        if (t != NULL)
            assert_int_equal(
                uvcci_tls_open(&p->end[i].c, t, i == 1, i == 0 ? peer : (uint8_t)UVCC_PARTIES, &io),
                0);
    }
}

static inline void pipe_free(pipe2 *p) {
    uvcci_tls_free(p->end[0].c);
    uvcci_tls_free(p->end[1].c);
    free(p->there.bytes);
    free(p->back.bytes);
    memset(p, 0, sizeof *p);
}

/* Both ends as far as they come; one that is refused says what it has to and goes. */
static inline void pipe_shake(pipe2 *p) {
    size_t before = SIZE_MAX, now = 0;
    for (; now != before; now = p->there.total + p->back.total + p->there.at + p->back.at +
                                p->there.closed + p->back.closed) {
        before = now;
        for (int i = 0; i < 2; i++) {
            end *e = &p->end[i];
            if (e->c == NULL)
                continue;
            if (e->rc == 0)
                e->rc = uvcci_tls_handshake(e->c);
            (void)uvcci_tls_flush(e->c);
            if (e->rc < 0 && e->rc != UVCC_ERR_NOMEM)
                e->out->closed = true;
        }
    }
}

#endif
