/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/frame.h - FRAME v1: a 64-byte header, then the payload. A struct-out codec: no allocation,
 * no session, usable alone (monitors, fuzzers). The layout stands in docs/wire.md. */
#ifndef UVCC_FRAME_H
#define UVCC_FRAME_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_FRAME_HEADER_BYTES 64u
#define UVCC_FRAME_SEALED       0x01u /* flags bit 0 */
/** Bytes that sealing adds to a payload: data frames, control frames. */
#define UVCC_FRAME_SEAL_BYTES     16u
#define UVCC_FRAME_CTL_SEAL_BYTES 40u
/** Greatest message: one part and 1 MiB of batch headers. */
#define UVCC_MSG_MAX_BYTES  (UVCC_PART_BYTES + UVCC_CHUNK_BYTES)
#define UVCC_MSG_MAX_CHUNKS 9u

typedef enum uvcc_frame_kind {
#define UVCC_KIND(name, code, cls, label) UVCC_FRAME_##name = (code),
#include <uvcc/kinds.def>
#undef UVCC_KIND
} uvcc_frame_kind;

typedef enum uvcc_frame_class {
    UVCC_CLASS_ONLINE = 0,
    UVCC_CLASS_KEYS = 1,
    UVCC_CLASS_CONTROL = 2,
} uvcc_frame_class;

/** All fields of the header but magic and version. */
typedef struct uvcc_frame_header {
    uint8_t kind;
    uint8_t src, dst;
    uint8_t flags;
    uint64_t sid_tag;
    uint64_t seq;
    uint32_t step, op_id, msg_id;
    uint16_t chunk_idx, chunk_cnt;
    uint32_t msg_len, offset, payload_len;
    uint64_t ack;
    uint32_t crc32;
} uvcc_frame_header;

/** Writes the 64 bytes as given, crc32 included; no checks. */
UVCC_API void uvcc_frame_encode_header(const uvcc_frame_header *h,
                                       uint8_t out[UVCC_FRAME_HEADER_BYTES]);

/** Reads and checks a header: every rule of the format that needs no payload and no session (magic,
 * version, kind, route, flags, seq of control and reliable kinds, chunk arithmetic, offset and
 * lengths without wrap, no empty piece, payload_len bounds with and without seal, control kinds'
 * zero fields). Returns 0 or UVCC_ERR_FRAME; `*out` is written only on 0. When `why` is not NULL it
 * gets a static text on refusal. */
UVCC_API int uvcc_frame_decode_header(const uint8_t in[UVCC_FRAME_HEADER_BYTES],
                                      uvcc_frame_header *out, const char **why);

/** CRC of bytes 0..59 and the payload. */
UVCC_API uint32_t uvcc_frame_crc(const uint8_t header[UVCC_FRAME_HEADER_BYTES],
                                 const uint8_t *payload, size_t payload_len);

/** Decodes one whole frame from the front of `in`: header, length, CRC. Returns the frame's total
 * bytes, 0 if more bytes are needed (nothing is written), or UVCC_ERR_FRAME. The payload is a view
 * into `in` (still sealed if the flag says so). */
UVCC_API ptrdiff_t uvcc_frame_decode(const uint8_t *in, size_t len, uvcc_frame_header *out,
                                     const uint8_t **payload, const char **why);

/** The sid_tag of a frame: bytes 8 to 15 of its header, and so of every packet, little-endian. For
 * hosts that give packets of one socket to many sessions: nothing is checked but magic and version.
 * UVCC_ERR_FRAME: too short, or no frame; nothing is written. */
UVCC_API int uvcc_frame_peek_sid_tag(const uint8_t *bytes, size_t len, uint64_t *out);

/** "OPEN_BATCH" and so on; NULL for an unassigned kind. */
UVCC_API const char *uvcc_frame_kind_name(uint8_t kind);
/** Credit class of a kind; UVCC_ERR_NOT_FOUND for an unassigned kind. */
UVCC_API int uvcc_frame_kind_class(uint8_t kind);
/** Label of the kind's message ids, "" for control kinds, NULL for an unassigned kind. */
UVCC_API const char *uvcc_frame_kind_label(uint8_t kind);

#ifdef __cplusplus
}
#endif
#endif
