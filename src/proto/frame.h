/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - the places of a frame's header that links need by themselves: what a seal binds, and
 * the fields that change when a frame is sent again. All offsets stay in frame.c. */
#ifndef UVCCI_FRAME_H
#define UVCCI_FRAME_H

#include <stdbool.h>
#include <uvcc/frame.h>

/* The header's bytes up to the ack: associated data of a seal. ack and CRC may change each time. */
#define UVCCI_FRAME_BOUND_BYTES 52u
/* A sealed control frame's payload begins with its nonce. */
#define UVCCI_FRAME_NONCE_BYTES 24u

static inline bool uvcci_frame_is_sealed(const uvcc_frame_header *h) {
    return (h->flags & UVCC_FRAME_SEALED) != 0;
}
/* Chunks of a message: at least one. */
static inline uint16_t uvcci_chunks_of(uint32_t msg_len) {
    return (uint16_t)(msg_len == 0 ? 1 : (msg_len + UVCC_CHUNK_BYTES - 1) / UVCC_CHUNK_BYTES);
}
/* Bytes of the message in a data frame: its payload without the seal. */
static inline uint32_t uvcci_frame_piece(const uvcc_frame_header *h) {
    return h->payload_len - (uvcci_frame_is_sealed(h) ? UVCC_FRAME_SEAL_BYTES : 0);
}

void uvcci_frame_put_ack(uint8_t header[UVCC_FRAME_HEADER_BYTES], uint64_t ack);
void uvcci_frame_put_crc(uint8_t header[UVCC_FRAME_HEADER_BYTES], uint32_t crc);
/* payload_len as it stands there: nothing of the header was checked. */
uint32_t uvcci_frame_payload_len(const uint8_t header[UVCC_FRAME_HEADER_BYTES]);

#endif
