/* SPDX-License-Identifier: Apache-2.0 */
/* rate.h - how fast a path delivers: samples of the delivery rate, as in
 * draft-cheng-iccrg-delivery-rate-estimation and section 4.1 of draft-ietf-ccwg-bbr. Each
 * transmission is stamped with what was delivered by then; its acknowledgement tells how much more
 * was delivered since, and in which time. A sample is application-limited if the sender had nothing
 * to send while it was measured: it then says no more than "at least". Pure arithmetic on the
 * caller's clock; bytes are frame bytes, rates bytes per second, times nanoseconds. */
#ifndef UVCCI_RATE_H
#define UVCCI_RATE_H

#include <stdbool.h>
#include <stdint.h>

/* Rates stay below this (137 Gbit/s), so that a product with a second in ns fits 64 bits. */
#define UVCCI_RATE_MAX ((UINT64_C(1) << 34) - 1)

/* What a frame keeps of its last transmission. Counters mod 2^32: no flight is that large. */
typedef struct uvcci_rate_stamp {
    uint32_t delivered, lost; /* when it was sent */
    uint32_t since_delivered,
        since_first; /* ns from the latest delivery, and from the beginning of
                        the sending interval, to its transmission; saturated */
    uint32_t inflight : 31, app_limited : 1; /* inflight: with this frame */
} uvcci_rate_stamp;

typedef struct uvcci_rate {
    uint64_t delivered, lost; /* bytes, ever */
    uint64_t delivered_ns;    /* when `delivered` last grew */
    uint64_t first_ns;        /* when the frame that was delivered last was sent */
    uint64_t app_limited;     /* samples are app-limited until `delivered` passes it; 0: are not */
} uvcci_rate;

/* What one ACK told, gathered over its frames. */
typedef struct uvcci_rate_sample {
    bool any, app_limited;
    uint64_t rate;                 /* 0: none */
    uint64_t delivered, lost;      /* in the sample's interval */
    uint64_t inflight;             /* when the sample's frame was sent, with it */
    uint64_t prior_delivered;      /* when the sample's frame was sent */
    uint64_t sent_ns, interval_ns; /* of that frame; of the sample */
    uint64_t acked;                /* bytes newly acknowledged by this ACK */
} uvcci_rate_sample;

/* A frame goes out; inflight: bytes in flight without it. */
void uvcci_rate_sent(uvcci_rate *r, uvcci_rate_stamp *s, uint64_t inflight, uint64_t bytes,
                     uint64_t now);
/* A frame that was sent at sent_ns is known to be there. */
void uvcci_rate_acked(uvcci_rate *r, const uvcci_rate_stamp *s, uint64_t sent_ns, uint64_t bytes,
                      uint64_t now, uvcci_rate_sample *sample);
/* All frames of an ACK were given: the sample's rate, if it has one. A time below min_rtt (0: not
 * known) is that of a frame whose earlier transmission was acknowledged. */
void uvcci_rate_finish(uvcci_rate *r, uvcci_rate_sample *sample, uint64_t min_rtt);
/* The sender could send more and has nothing. */
void uvcci_rate_limited(uvcci_rate *r, uint64_t inflight);

static inline uint64_t uvcci_rate_of(uint64_t bytes, uint64_t ns) {
    const uint64_t most = UINT64_MAX / UINT64_C(1000000000);
    uint64_t rate = (bytes < most ? bytes : most) * UINT64_C(1000000000) / (ns == 0 ? 1 : ns);
    return rate < UVCCI_RATE_MAX ? rate : UVCCI_RATE_MAX;
}
/* What a rate sends in a time, and the time that it takes. */
static inline uint64_t uvcci_rate_bytes(uint64_t rate, uint64_t ns) {
    const uint64_t second = UINT64_C(1000000000);
    uint64_t whole = ns / second, of = rate < UVCCI_RATE_MAX ? rate : UVCCI_RATE_MAX;
    if (whole > UINT32_MAX / 8)
        whole = UINT32_MAX / 8;
    return of * whole + of * (ns % second) / second;
}
static inline uint64_t uvcci_rate_time(uint64_t rate, uint64_t bytes) {
    const uint64_t most = UINT64_MAX / UINT64_C(1000000000);
    return (bytes < most ? bytes : most) * UINT64_C(1000000000) / (rate == 0 ? 1 : rate);
}

#endif
