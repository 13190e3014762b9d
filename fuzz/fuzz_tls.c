/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_tls.c - one end of TLS, with shared keys, and bytes of somebody who has none of them: any
 * bytes, cut anywhere, at the called end and at the caller, by both libraries. It never shakes
 * hands, it says why it refused, it stays refused, and memory comes back.
 *
 * Input: flags (1: called, 2: mbedTLS, 4: TLS 1.2 too), the most bytes of a read, then bytes. The
 * libraries' own random bytes are not the input's. */
#include "common.h"
#include "io_adapters/tls/conn.h"

typedef struct peer {
    fuzz_in in;
    size_t step, out;
} peer;

static ptrdiff_t on_recv(void *user, uint8_t *bytes, size_t cap) {
    peer *p = user;
    size_t n = p->step != 0 && cap > p->step ? p->step : cap;
    FUZZ_CHECK(cap > 0);
    if (p->in.left == 0)
        return UVCC_ERR_AGAIN;
    const uint8_t *from = fuzz_take(&p->in, n, &n);
    memcpy(bytes, from, n);
    return (ptrdiff_t)n;
}

static ptrdiff_t on_send(void *user, const uint8_t *bytes, size_t len) {
    peer *p = user;
    (void)bytes;
    FUZZ_CHECK(len > 0);
    p->out += len;
    return (ptrdiff_t)len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t key[32] = {1, 2, 3};
    fuzz_mem memory = {0};
    fuzz_in in = {data, size};
    const uint8_t flags = fuzz_u8(&in);
    const bool called = (flags & 1) != 0;
    uvcc_tls_config cfg = {.size = sizeof cfg,
                           .alloc = fuzz_allocator(&memory),
                           .library = (flags & 2) != 0 ? UVCC_TLS_MBEDTLS : UVCC_TLS_OPENSSL,
                           .party = 1,
                           .tls12 = (flags & 4) != 0,
                           .psk = {key},
                           .psk_len = {sizeof key}};
    peer p = {.step = fuzz_u8(&in)};
    const uvcci_tls_io io = {.recv = on_recv, .send = on_send, .user = &p};
    uint8_t bytes[64] = {0};
    const uvcc_slice slice = {bytes, sizeof bytes};
    uvcc_tls *t;
    uvcci_tls_conn *c;
    if (!uvcc_tls_is_here(cfg.library))
        return 0;
    FUZZ_CHECK(uvcc_tls_new(&t, &cfg) == 0);
    FUZZ_CHECK(uvcci_tls_open(&c, t, called, called ? (uint8_t)UVCC_PARTIES : 0, &io) == 0);
    p.in = in;
    int rc = uvcci_tls_handshake(c);
    for (size_t i = 0; rc == 0 && p.in.left > 0 && i < size; i++)
        rc = uvcci_tls_handshake(c);
    FUZZ_CHECK(rc <= 0 && rc != UVCC_ERR_AGAIN && rc != UVCC_ERR_NOMEM);
    FUZZ_CHECK((rc == 0) == (*uvcci_tls_why(c) == '\0'));
    FUZZ_CHECK(uvcci_tls_peer(c) == UVCC_PARTIES && uvcci_tls_pending(c) == 0);
    FUZZ_CHECK(uvcci_tls_binding(c, bytes) == UVCC_ERR_STATE);
    FUZZ_CHECK(uvcci_tls_handshake(c) == rc);
    rc = rc == 0 ? UVCC_ERR_STATE : rc;
    FUZZ_CHECK(uvcci_tls_recv(c, bytes, sizeof bytes) == rc);
    FUZZ_CHECK(uvcci_tls_send(c, &slice, 1, 0) == rc);
    FUZZ_CHECK(p.out < 65536 && !uvcci_tls_wants_send(c));
    uvcci_tls_close(c);
    uvcci_tls_free(c);
    uvcc_tls_free(t);
    FUZZ_CHECK(memory.live_blocks == 0);
    return 0;
}
