/* SPDX-License-Identifier: Apache-2.0 */
/* ackmsg.c - the codec of ACK payloads, see ackmsg.h. Stateless. */
#include "proto/ackmsg.h"

#include <assert.h>
#include <uvcc/types.h>

#include "proto/bytes.h"

enum {
    AT_COUNTER = 0,
    AT_CUM = 8,
    AT_CREDIT = 16,
    AT_PING_NUMBER = 32,
    AT_REPEATS = 36,
    AT_CE_PACKETS = 40,
    AT_RANGE_CNT = 44
};

size_t uvcci_ack_encode(const uvcci_ack *a, uint8_t out[UVCCI_ACK_MAX_BYTES]) {
    assert(a->range_cnt <= UVCCI_ACK_RANGES_MAX);
    uvcci_st64(out + AT_COUNTER, a->counter);
    uvcci_st64(out + AT_CUM, a->cum);
    for (size_t c = 0; c < 2; c++)
        uvcci_st64(out + AT_CREDIT + 8 * c, a->credit[c]);
    uvcci_st32(out + AT_PING_NUMBER, a->ping_number);
    uvcci_st32(out + AT_REPEATS, a->repeats);
    uvcci_st32(out + AT_CE_PACKETS, a->ce_packets);
    uvcci_st16(out + AT_RANGE_CNT, (uint16_t)a->range_cnt);
    uint8_t *p = out + UVCCI_ACK_MIN_BYTES;
    for (uint32_t i = 0; i < a->range_cnt; i++, p += UVCCI_ACK_RANGE_BYTES) {
        uvcci_st64(p, a->range[i][0]);
        uvcci_st64(p + 8, a->range[i][1]);
    }
    return (size_t)(p - out);
}

int uvcci_ack_decode(uvcci_ack *out, const uint8_t *in, size_t len) {
    if (len < UVCCI_ACK_MIN_BYTES)
        return UVCC_ERR_FRAME;
    uint32_t count = uvcci_ld16(in + AT_RANGE_CNT);
    if (count > UVCCI_ACK_RANGES_MAX ||
        len != UVCCI_ACK_MIN_BYTES + (size_t)count * UVCCI_ACK_RANGE_BYTES)
        return UVCC_ERR_FRAME;
    out->counter = uvcci_ld64(in + AT_COUNTER);
    out->cum = uvcci_ld64(in + AT_CUM);
    for (size_t c = 0; c < 2; c++)
        out->credit[c] = uvcci_ld64(in + AT_CREDIT + 8 * c);
    out->ping_number = uvcci_ld32(in + AT_PING_NUMBER);
    out->repeats = uvcci_ld32(in + AT_REPEATS);
    out->ce_packets = uvcci_ld32(in + AT_CE_PACKETS);
    out->range_cnt = count;
    const uint8_t *p = in + UVCCI_ACK_MIN_BYTES;
    for (uint32_t i = 0; i < count; i++, p += UVCCI_ACK_RANGE_BYTES) {
        out->range[i][0] = uvcci_ld64(p);
        out->range[i][1] = uvcci_ld64(p + 8);
    }
    return 0;
}
