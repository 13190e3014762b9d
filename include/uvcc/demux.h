/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/demux.h - which session a packet or a connection is for: several sessions behind one socket,
 * sans I/O.
 *
 * Packets say it by their sid_tag (<uvcc/frame.h>); a byte stream by its first message, the call,
 * which its caller sends before the first frame. Neither proves anything: the handshake does. */
#ifndef UVCC_DEMUX_H
#define UVCC_DEMUX_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The first message of a stream: wire.md 2, docs/wire/call.md. */
typedef struct uvcc_call {
    uint8_t from, to; /**< party indices: who calls whom */
    uint64_t sid_tag; /**< of the session that is wanted */
} uvcc_call;
#define UVCC_CALL_BYTES 24u
UVCC_API int uvcc_call_encode(uint8_t out[UVCC_CALL_BYTES], const uvcc_call *c);
/** UVCC_ERR_FRAME: these bytes are no call. 0 bytes of it need be missing: see the next. */
UVCC_API int uvcc_call_decode(const uint8_t in[UVCC_CALL_BYTES], uvcc_call *out);
/** Whether a call may begin with these bytes: a listener need not wait for the rest of what is
 * none. */
UVCC_API int uvcc_call_may_be(const uint8_t *in, size_t len);

/** A table from sid_tags to whatever a host keeps for them. */
typedef struct uvcc_demux uvcc_demux;
UVCC_API int uvcc_demux_new(uvcc_demux **out, const uvcc_allocator *alloc) UVCC_MUST_USE;
UVCC_API void uvcc_demux_free(uvcc_demux *d);
/** UVCC_ERR_STATE: the tag is there already (refuse one of the two sessions); UVCC_ERR_USAGE: tag 0
 * or user NULL. */
UVCC_API int uvcc_demux_add(uvcc_demux *d, uint64_t sid_tag, void *user);
/** UVCC_ERR_NOT_FOUND: it is not there. */
UVCC_API int uvcc_demux_remove(uvcc_demux *d, uint64_t sid_tag);
/** NULL: nobody's. */
UVCC_API void *uvcc_demux_find(const uvcc_demux *d, uint64_t sid_tag);
/** For a packet as it came: NULL if it is nobody's or no frame. */
UVCC_API void *uvcc_demux_packet(const uvcc_demux *d, const uint8_t *bytes, size_t len);
UVCC_API uint32_t uvcc_demux_count(const uvcc_demux *d);

#ifdef __cplusplus
}
#endif
#endif
