/* SPDX-License-Identifier: Apache-2.0 */
/* ackmsg.h - the payload of an ACK frame (wire.md 2): what came, and what may be sent. A struct-out
 * codec; what may be acknowledged at all is the link's rule. */
#ifndef UVCCI_ACKMSG_H
#define UVCCI_ACKMSG_H

#include <stddef.h>
#include <stdint.h>

#define UVCCI_ACK_RANGES_MAX  32u
#define UVCCI_ACK_MIN_BYTES   46u
#define UVCCI_ACK_RANGE_BYTES 16u
#define UVCCI_ACK_MAX_BYTES   (UVCCI_ACK_MIN_BYTES + UVCCI_ACK_RANGES_MAX * UVCCI_ACK_RANGE_BYTES)
/* A PING is its number and zeros, so many bytes or more. */
#define UVCCI_PING_MIN_BYTES 4u

typedef struct uvcci_ack {
    uint64_t counter;     /* of ACKs: an older one says nothing */
    uint64_t cum;         /* every seq up to it was accepted */
    uint64_t credit[2];   /* absolute, by class */
    uint32_t ping_number; /* of the PING that came last; 0: none did */
    uint32_t repeats;     /* data frames that came again, in this run; may wrap */
    uint32_t ce_packets;  /* packets that came marked as congested (ECN); may wrap */
    uint32_t range_cnt;
    uint64_t range[UVCCI_ACK_RANGES_MAX][2]; /* first and last seq above cum that came */
} uvcci_ack;

/* Writes at most UVCCI_ACK_MAX_BYTES; returns how many. */
size_t uvcci_ack_encode(const uvcci_ack *a, uint8_t out[UVCCI_ACK_MAX_BYTES]);
/* 0, or UVCC_ERR_FRAME if the length is not that of the ranges. */
int uvcci_ack_decode(uvcci_ack *out, const uint8_t *in, size_t len);

#endif
