/* SPDX-License-Identifier: Apache-2.0 */
/* conn.h - one TLS connection over somebody's bytes: what both TLS libraries look like to whatever
 * carries them. No sockets here: bytes come and go through two callbacks, so that readiness (epoll)
 * and completions (io_uring) use the same. */
#ifndef UVCC_IO_TLS_CONN_H
#define UVCC_IO_TLS_CONN_H

#include <stdbool.h>
#include <uvcc/tls.h>
#include <uvcc/types.h>

/** Where ciphertext comes from and goes to. Both return bytes, UVCC_ERR_AGAIN if there is nothing
 * or no room now, another negative error if the connection is gone; recv 0: it ended. */
typedef struct uvcci_tls_io {
    ptrdiff_t (*recv)(void *user, uint8_t *bytes, size_t cap);
    ptrdiff_t (*send)(void *user, const uint8_t *bytes, size_t len);
    void *user;
} uvcci_tls_io;

typedef struct uvcci_tls_conn uvcci_tls_conn;

/** `server`: the end that was called; `peer`: whom the other end was called for, UVCC_PARTIES at
 * the server, which learns it. */
int uvcci_tls_open(uvcci_tls_conn **out, uvcc_tls *t, bool server, uint8_t peer,
                   const uvcci_tls_io *io);
void uvcci_tls_free(uvcci_tls_conn *c);
/** 1: done, the other end has proved who it is; 0: call again when bytes came or (wants_send) can
 * go; negative: refused, uvcci_tls_why() says why, and an alert may wait for uvcci_tls_flush().
 * UVCC_ERR_NOMEM does not stick: call again later. With TLS 1.3 the caller is done before the
 * called end has looked at its certificate: a refusal is then what its first recv says. */
int uvcci_tls_handshake(uvcci_tls_conn *c);
/** Whose certificate or key it was; after the handshake. */
uint8_t uvcci_tls_peer(const uvcci_tls_conn *c);
/** The channel's binding: the same 32 bytes at both ends of this connection, and of no other. */
int uvcci_tls_binding(uvcci_tls_conn *c, uint8_t out[32]);
/** Plaintext, as much as there is up to cap; results as of uvcci_tls_io.recv, and UVCC_ERR_NOMEM,
 * which does not stick. A connection that ends without close_notify is gone (an error), not
 * ended. Other errors stick. */
ptrdiff_t uvcci_tls_recv(uvcci_tls_conn *c, uint8_t *bytes, size_t cap);
/** Bytes of the slices, without the first `skip` of them, that were taken, UVCC_ERR_AGAIN, or an
 * error as of recv. What was taken is encrypted and may wait inside (at most 68 KiB), for
 * uvcci_tls_flush(): the slices are the caller's again. */
ptrdiff_t uvcci_tls_send(uvcci_tls_conn *c, const uvcc_slice *slices, uint32_t count, size_t skip);
/** Ciphertext that waits goes out: 0: all has gone; UVCC_ERR_AGAIN, or gone. */
int uvcci_tls_flush(uvcci_tls_conn *c);
/** Something waits for the io's room: a handshake's or a record's bytes. */
bool uvcci_tls_wants_send(const uvcci_tls_conn *c);
/** Not 0: plaintext, or a whole record, is here already, for which no more need come; at least so
 * many bytes, but for records that have none. */
size_t uvcci_tls_pending(const uvcci_tls_conn *c);
/** Says close_notify, as far as there is room: uvcci_tls_flush() for the rest. */
void uvcci_tls_close(uvcci_tls_conn *c);
/** Why it was refused, in a line of English: "" if it was not. */
const char *uvcci_tls_why(const uvcci_tls_conn *c);

#endif
