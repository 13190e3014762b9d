/* SPDX-License-Identifier: Apache-2.0 */
/* rate.c - samples of the delivery rate, see rate.h. Stateless but for its arguments.
 *
 * A sample's interval is the longer of the time in which its bytes were sent and that in which they
 * were acknowledged: neither a burst of the sender nor ACKs that came together can make it look
 * faster than the path is. */
#include "proto/rate.h"

static uint32_t saturate(uint64_t v) {
    return v < UINT32_MAX ? (uint32_t)v : UINT32_MAX;
}

void uvcci_rate_sent(uvcci_rate *r, uvcci_rate_stamp *s, uint64_t inflight, uint64_t bytes,
                     uint64_t now) {
    if (inflight == 0)
        r->first_ns = r->delivered_ns = now; /* nothing is under way: the clock starts anew */
    s->delivered = (uint32_t)r->delivered;
    s->lost = (uint32_t)r->lost;
    s->since_delivered = saturate(now - r->delivered_ns);
    s->since_first = saturate(now > r->first_ns ? now - r->first_ns : 0);
    s->inflight = (inflight + bytes) & 0x7FFFFFFF;
    s->app_limited = r->app_limited != 0;
}

void uvcci_rate_acked(uvcci_rate *r, const uvcci_rate_stamp *s, uint64_t sent_ns, uint64_t bytes,
                      uint64_t now, uvcci_rate_sample *sample) {
    r->delivered += bytes;
    r->delivered_ns = now;
    sample->acked += bytes;
    uint64_t prior = r->delivered - (uint32_t)((uint32_t)r->delivered - s->delivered);
    if (sample->any && (prior < sample->prior_delivered ||
                        (prior == sample->prior_delivered && sent_ns < sample->sent_ns)))
        return;
    sample->any = true;
    sample->prior_delivered = prior;
    sample->sent_ns = sent_ns;
    sample->app_limited = s->app_limited;
    sample->inflight = s->inflight;
    sample->lost = s->lost; /* at its transmission, until finish */
    uint64_t acking = now - sent_ns + s->since_delivered;
    sample->interval_ns = acking > s->since_first ? acking : s->since_first;
}

void uvcci_rate_finish(uvcci_rate *r, uvcci_rate_sample *sample, uint64_t min_rtt) {
    if (r->app_limited != 0 && r->delivered > r->app_limited)
        r->app_limited = 0;
    if (!sample->any)
        return;
    r->first_ns = sample->sent_ns;
    sample->delivered = r->delivered - sample->prior_delivered;
    sample->lost = (uint32_t)((uint32_t)r->lost - (uint32_t)sample->lost);
    if (sample->interval_ns == 0 || sample->interval_ns < min_rtt)
        return;
    sample->rate = uvcci_rate_of(sample->delivered, sample->interval_ns);
}

void uvcci_rate_limited(uvcci_rate *r, uint64_t inflight) {
    r->app_limited = r->delivered + inflight;
    if (r->app_limited == 0)
        r->app_limited = 1;
}
