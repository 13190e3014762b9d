/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frame.c - the frame decoder: whatever it takes encodes to the same bytes, its view lies
 * inside the input, a prefix of a frame asks for more, and only a right CRC passes. The input is
 * what a stream or a packet would carry. */
#include "common.h"

#include "proto/bytes.h"
#include <uvcc/frame.h>

static void header_round_trip(const uint8_t *in) {
    uvcc_frame_header h, again;
    uint8_t out[UVCC_FRAME_HEADER_BYTES];
    const char *why = NULL;
    memset(&h, 0xA5, sizeof h);
    again = h;
    int err = uvcc_frame_decode_header(in, &h, &why);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_FRAME);
    if (err != 0) {
        FUZZ_CHECK(why != NULL && memcmp(&h, &again, sizeof h) == 0);
        return;
    }
    uvcc_frame_encode_header(&h, out);
    FUZZ_CHECK(memcmp(in, out, sizeof out) == 0);
    FUZZ_CHECK(uvcc_frame_kind_name(h.kind) != NULL && uvcc_frame_kind_label(h.kind) != NULL);
    FUZZ_CHECK(uvcc_frame_kind_class(h.kind) >= 0 && uvcc_frame_kind_class(h.kind) <= 2);
    uint64_t seal = (h.flags & UVCC_FRAME_SEALED) == 0 ? 0
                    : uvcc_frame_kind_class(h.kind) == UVCC_CLASS_CONTROL
                        ? UVCC_FRAME_CTL_SEAL_BYTES
                        : UVCC_FRAME_SEAL_BYTES;
    FUZZ_CHECK(h.payload_len >= seal);
    FUZZ_CHECK((uint64_t)h.offset + (h.payload_len - seal) <= h.msg_len);
    FUZZ_CHECK(h.src < UVCC_PARTIES && h.dst < UVCC_PARTIES && h.src != h.dst);
}

/* Returns the frame's bytes, 0 if there is none. */
static size_t frame(const uint8_t *in, size_t len) {
    uvcc_frame_header h;
    const uint8_t *payload = NULL;
    const char *why = NULL;
    ptrdiff_t n = uvcc_frame_decode(in, len, &h, &payload, &why);
    FUZZ_CHECK(n >= 0 || (n == UVCC_ERR_FRAME && why != NULL));
    if (n <= 0)
        return 0;
    FUZZ_CHECK((size_t)n <= len && (size_t)n == UVCC_FRAME_HEADER_BYTES + (size_t)h.payload_len);
    FUZZ_CHECK(h.payload_len == 0 || payload == in + UVCC_FRAME_HEADER_BYTES);
    FUZZ_CHECK(h.crc32 == uvcc_frame_crc(in, payload, h.payload_len));
    size_t cut[] = {0, 1, 63, 64, 65, (size_t)n / 2, (size_t)n - 1};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        if (cut[i] >= (size_t)n)
            continue;
        uint8_t *part = fuzz_copy(in, cut[i]);
        FUZZ_CHECK(uvcc_frame_decode(part, cut[i], &h, &payload, NULL) == 0);
        free(part);
    }
    return (size_t)n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size >= UVCC_FRAME_HEADER_BYTES)
        header_round_trip(data);
    for (size_t at = 0, n; at < size; at += n)
        if ((n = frame(data + at, size - at)) == 0)
            break;
    uvcc_frame_header h;
    if (size < UVCC_FRAME_HEADER_BYTES || uvcc_frame_decode_header(data, &h, NULL) != 0 ||
        h.payload_len > size - UVCC_FRAME_HEADER_BYTES)
        return 0;
    /* The same with its CRC made right, and with one bit of it wrong. */
    size_t n = UVCC_FRAME_HEADER_BYTES + h.payload_len;
    uint8_t *copy = fuzz_copy(data, n);
    uvcci_st32(copy + 60, uvcc_frame_crc(copy, copy + UVCC_FRAME_HEADER_BYTES, h.payload_len));
    FUZZ_CHECK(frame(copy, n) == n);
    copy[(h.crc32 >> 3) % n] ^= (uint8_t)(1u << (h.crc32 & 7));
    FUZZ_CHECK(frame(copy, n) == 0);
    free(copy);
    return 0;
}
