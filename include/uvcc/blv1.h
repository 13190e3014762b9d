/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/blv1.h - BLV1 batches: the payload of OPEN, LIFT, RESHARE, KEYS and INPUT messages. The
 * decoder allocates nothing and returns views; the writer leaves spans that pack jobs fill. */
#ifndef UVCC_BLV1_H
#define UVCC_BLV1_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define UVCC_BLV1_HEADER_BYTES 16u
#define UVCC_KEY_CHUNK_BYTES   32768u /* key streams are cut at multiples of this */

typedef enum uvcc_tlv_type {
#define UVCC_TLV(name, code) UVCC_TLV_##name = (code),
#include <uvcc/tlvs.def>
#undef UVCC_TLV
} uvcc_tlv_type;

/** One TLV, all types in one struct; members that a type lacks are 0.
 *
 * | type | id | aux | round | bits | first | count | data |
 * | LIFT_M, LIFT_X | fss_id | producer edge 0..2 | | 64 | 0 | q_count | 8*count bytes |
 * | LIFT_COMP | fss_id | component 0..2 | | 64 | 0 | q_count | 8*count |
 * | OPEN_VEC | stream_id | target | round | 1..64 | first | count | ceil(count*bits/8) |
 * | RESHARE | tile_idx | | | 64 | first | count | 8*count |
 * | KEY_CHUNK | fss_id | | gate (16 bit, in round) | 8 | offset | bytes | count |
 * | INPUT | stream_id | | | 64 | first | count | 8*count |
 * | DIGEST | stream_id | what 0..3 | | 8 | 0 | 32 | 32 |
 * | unknown | 0 | | | 8 | 0 | len | the whole value |
 */
typedef struct uvcc_tlv {
    uint8_t type;
    uint8_t aux;
    uint8_t bits;
    uint16_t round;
    uint64_t id;
    uint32_t first, count;
    const uint8_t *data; /**< decoded: a view; encoding: may be NULL to leave a span */
    size_t data_len;
} uvcc_tlv;

/** Checks the whole batch: header, order, duplicates, reserved and pad bytes, lengths, unused high
 * bits, nothing left over. Returns the TLV count or UVCC_ERR_BATCH; `why` (may be NULL) gets a
 * static text on refusal. Reads no byte outside [in, in + len). */
UVCC_API int64_t uvcc_blv1_check(const uint8_t *in, size_t len, const char **why);

/** Walks a batch that uvcc_blv1_check accepted. */
typedef struct uvcc_blv1_reader {
    const uint8_t *p;
    size_t len, at;
} uvcc_blv1_reader;
UVCC_API void uvcc_blv1_reader_init(uvcc_blv1_reader *r, const uint8_t *in, size_t len);
/** 1 and the next TLV, 0 at the end. */
UVCC_API int uvcc_blv1_next(uvcc_blv1_reader *r, uvcc_tlv *out);

/** Bytes of the data of a TLV with these members (type, bits, count). */
UVCC_API size_t uvcc_tlv_data_bytes(const uvcc_tlv *t);
/** Bytes that a TLV takes in a batch: header, value, padding. */
UVCC_API size_t uvcc_tlv_bytes(const uvcc_tlv *t);
/** Canonical order of two TLVs: <0, 0 (duplicates), >0. */
UVCC_API int uvcc_tlv_compare(const uvcc_tlv *a, const uvcc_tlv *b);

/** Writer over a buffer of the exact final size (UVCC_BLV1_HEADER_BYTES + sum of uvcc_tlv_bytes).
 */
typedef struct uvcc_blv1_writer {
    uint8_t *p;
    size_t cap, len;
    uint32_t count;
    uvcc_tlv last;
} uvcc_blv1_writer;
UVCC_API int uvcc_blv1_begin(uvcc_blv1_writer *w, void *out, size_t cap);
/** Appends one TLV; refuses wrong order and bad members (UVCC_ERR_USAGE) or a full buffer
 * (UVCC_ERR_LIMIT). Padding is zeroed. With data == NULL the span of `data_bytes` is left as it is
 * for the caller to fill; `span` (may be NULL) gets its address either way. */
UVCC_API int uvcc_blv1_put(uvcc_blv1_writer *w, const uvcc_tlv *t, uint8_t **span);
/** Writes the header; returns the batch's bytes. */
UVCC_API ptrdiff_t uvcc_blv1_end(uvcc_blv1_writer *w);

/** Packs / unpacks n elements of `bits` bits (1..64), low bit first, as in OPEN_VEC; pack zeroes
 * the unused high bits of the last byte and ignores higher bits of the elements. */
UVCC_API void uvcc_bits_pack(const uint64_t *in, size_t n, unsigned bits, uint8_t *out);
UVCC_API void uvcc_bits_unpack(const uint8_t *in, size_t n, unsigned bits, uint64_t *out);

UVCC_API const char *uvcc_tlv_name(uint8_t type);

#ifdef __cplusplus
}
#endif
#endif
