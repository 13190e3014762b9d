/* SPDX-License-Identifier: Apache-2.0 */
/* link.c - a reliable message link to one peer: its life, its clock; the other calls stand in
 * link_send.c, link_tx.c, link_rx.c, link_hello.c and link_keys.c (link_state.h has the list).
 *
 * States: made -> set_run -> (set_keys) -> started. HELLO frames flow in all of them, ACK, PING and
 * data only once started; a stream link sends only between stream_opened and stream_closed.
 *
 * Invariants: every byte of memory is taken through uvcci_link_alloc and counted; a failed call has
 * changed nothing; l->now never falls. */
#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/link_acked.h"
#include "proto/link_cc.h"
#include "proto/link_core.h"
#include "proto/link_hello.h"
#include "proto/link_keys.h"
#include "proto/link_pool.h"
#include "proto/link_rx.h"
#include "proto/link_send.h"
#include "proto/link_session.h"
#include "proto/link_stream.h"
#include "proto/link_tx.h"
#include "proto/mutant.h"

#define MS UINT64_C(1000000)

#define RTO_MOST_NS      (3600000 * MS)
#define RUN_MAX          ((1u << 24) - 1u)
#define PACKET_MIN_BYTES 256u
#define FRAME_BYTES      ((256u << 10) + UVCC_FRAME_HEADER_BYTES + UVCC_FRAME_SEAL_BYTES)
#define FRAME_MAX_BYTES  (UVCC_FRAME_HEADER_BYTES + UVCC_CHUNK_BYTES + UVCC_FRAME_SEAL_BYTES)
#define FRAME_MIN_BYTES  256u

/* ---- configuration ---- */

void uvcc_link_config_default(uvcc_link_config *cfg) {
    if (cfg == NULL)
        return;
    memset(cfg, 0, sizeof *cfg);
    cfg->size = sizeof *cfg;
}

static void set_default(uint64_t *v, uint64_t value) {
    if (*v == 0)
        *v = value;
}

static void set_default32(uint32_t *v, uint32_t value) {
    if (*v == 0)
        *v = value;
}

/* Zeros become the defaults of link.h. */
static void resolve(uvcc_link_config *c) {
    const uint64_t bytes = UINT64_C(32) << 20;
    set_default32(&c->frame_bytes, FRAME_BYTES);
    set_default32(&c->datagram_bytes, UVCCI_PACKET_BYTES);
    set_default32(&c->transmit_frames, 1);
    set_default(&c->tx_online_bytes, bytes);
    set_default(&c->tx_keys_bytes, bytes);
    set_default(&c->rx_online_bytes, bytes);
    set_default(&c->rx_keys_bytes, bytes);
    set_default32(&c->rx_messages_max, 4096);
    set_default32(&c->rx_ranges_max, 4096);
    set_default(&c->rto_initial_ns, 200 * MS);
    set_default(&c->rto_min_ns, MS);
    set_default(&c->rto_max_ns, 2000 * MS);
    /* Nothing on a stream is sent again for want of an ACK: its host is not woken so often. */
    set_default(&c->ack_delay_ns, c->datagram ? MS / 5 : 2 * MS);
    set_default(&c->keepalive_ns, 10000 * MS);
    set_default32(&c->suspicious_max, 4096);
    set_default(&c->suspicious_window_ns, 1000 * MS);
}

/* Every limit must be one with which no sum of them wraps and the smallest frames still fit. */
static const char *sizes_fault(const uvcc_link_config *c) {
    const uint64_t most = UINT64_C(1) << 40;
    if (c->frame_bytes < FRAME_MIN_BYTES || c->frame_bytes > FRAME_MAX_BYTES)
        return "frame_bytes is below 256 or above 2^20 and a frame's header and seal";
    if (c->datagram_bytes < PACKET_MIN_BYTES || c->datagram_bytes > UVCCI_PACKET_MAX_BYTES)
        return "datagram_bytes is below 256 or above 65507";
    if (c->tx_online_bytes > most)
        return "tx_online_bytes is above 2^40";
    if (c->tx_keys_bytes > most)
        return "tx_keys_bytes is above 2^40";
    if (c->rx_online_bytes > most)
        return "rx_online_bytes is above 2^40";
    if (c->rx_keys_bytes > most)
        return "rx_keys_bytes is above 2^40";
    if (c->transmit_frames > UVCCI_SIDE_FRAMES)
        return "transmit_frames is above 16";
    if (c->rx_messages_max > 1u << 24)
        return "rx_messages_max is above 2^24";
    return c->rx_ranges_max > 1u << 20 ? "rx_ranges_max is above 2^20" : NULL;
}

static const char *times_fault(const uvcc_link_config *c) {
    if (c->rto_max_ns > RTO_MOST_NS)
        return "rto_max_ns is above an hour";
    if (c->rto_min_ns > c->rto_max_ns)
        return "rto_min_ns is above rto_max_ns";
    if (c->rto_initial_ns > c->rto_max_ns)
        return "rto_initial_ns is above rto_max_ns";
    if (c->ack_delay_ns > RTO_MOST_NS)
        return "ack_delay_ns is above an hour";
    if (c->suspicious_window_ns < c->suspicious_max || c->suspicious_window_ns > RTO_MOST_NS)
        return "suspicious_window_ns is below suspicious_max or above an hour";
    return NULL;
}

static const char *fault_of(const uvcc_link_config *c) {
    if (c->alloc.alloc == NULL || c->alloc.free == NULL || c->random.fill == NULL)
        return "alloc or random has no hook";
    if (c->me >= UVCC_PARTIES || c->peer >= UVCC_PARTIES || c->me == c->peer)
        return "me and peer are not two of the three parties";
    if (c->congestion > UVCC_CONGESTION_FIXED)
        return "congestion is unknown";
    const char *fault = sizes_fault(c);
    return fault != NULL ? fault : times_fault(c);
}

const char *uvcci_link_config_fault(const uvcc_link_config *cfg) {
    uvcc_link_config c = *cfg;
    resolve(&c);
    return fault_of(&c);
}

const uvcc_link_config *uvcci_link_config_of(const uvcc_link *l) {
    return &l->cfg;
}

/* The random bytes are asked for before anything is taken: they multiply what a peer chooses, so
 * that it cannot aim at one place of our tables. */
int uvcc_link_new(uvcc_link **out, const uvcc_link_config *cfg) {
    if (out == NULL || cfg == NULL)
        return UVCC_ERR_USAGE;
    if (cfg->size != sizeof *cfg)
        return UVCC_ERR_CONFIG;
    uvcc_link_config c = *cfg;
    resolve(&c);
    if (fault_of(&c) != NULL)
        return UVCC_ERR_CONFIG;
    uint64_t secret;
    if (c.random.fill(c.random.user, &secret, sizeof secret) != 0)
        return UVCC_ERR_RANDOM;
    uvcc_link *l = c.alloc.alloc(c.alloc.user, sizeof *l, UVCC_MEM_STATE);
    if (l == NULL)
        return UVCC_ERR_NOMEM;
    memset(l, 0, sizeof *l);
    l->cfg = c;
    l->stats.memory_bytes = sizeof *l;
    l->hash_mul = secret | 1;
    l->trim_at = l->heard_at = UVCC_NEVER;
    uvcci_tx_init(l);
    uvcci_rx_init(l);
    if (c.datagram && uvcci_link_cc_new(l) != 0) {
        c.alloc.free(c.alloc.user, l, sizeof *l, UVCC_MEM_STATE);
        return UVCC_ERR_NOMEM;
    }
    l->trim_at = UVCC_NEVER; /* no time is known yet */
    *out = l;
    return 0;
}

void uvcc_link_free(uvcc_link *l) {
    if (l == NULL)
        return;
    uvcci_tx_free(l);
    uvcci_stream_reset(l);
    uvcci_stream_trim(l);
    uvcci_rx_free(l);
    uvcci_data_trim(l);
    uvcci_keys_free(l);
    uvcci_link_cc_free(l);
    uvcci_link_hello_free(l);
    assert(l->stats.memory_bytes == sizeof *l);
    uvcc_allocator a = l->cfg.alloc;
    uvcci_wipe(l, sizeof *l);
    a.free(a.user, l, sizeof *l, UVCC_MEM_STATE);
}

uint64_t uvcc_link_memory_bound(const uvcc_link *l) {
    if (l == NULL)
        return 0;
    return sizeof *l + sizeof(uvcci_link_cc) + sizeof(uvcci_link_keys) + sizeof(uvcci_step_keys) +
           sizeof(uvcci_spares) + sizeof(uvcci_hello_out) + sizeof(uvcci_hello_queue) +
           sizeof(uvcci_hello_pieces) + sizeof(uvcci_hello_early) + uvcci_data_bound(l) +
           uvcci_tx_bound(l) + uvcci_rx_bound(l) + sizeof(uvcci_rx_partial);
}

/* Records of messages are the larger part of what windows full of the smallest messages take; an
 * owner whose plan says how many there are takes less. Classes overlap: what is not certain to be
 * of one is counted in both. */
void uvcci_link_bound(const uvcc_link *l, const uvcci_link_use *use, uint64_t by_class[4]) {
    const uint64_t tx = l->cfg.tx_online_bytes + l->cfg.tx_keys_bytes;
    const uint64_t rx = l->cfg.rx_online_bytes + l->cfg.rx_keys_bytes;
    const uint64_t tx_all = tx / UVCCI_MSG_OVERHEAD_BYTES, rx_all = rx / UVCCI_MSG_OVERHEAD_BYTES;
    const uint64_t bound = uvcc_link_memory_bound(l);
    const uint64_t pools = uvcci_pool_bound(tx_all) + uvcci_pool_bound(rx_all);
    const uint64_t used = uvcci_pool_bound(use->tx_messages < tx_all ? use->tx_messages : tx_all) +
                          uvcci_pool_bound(use->rx_messages < rx_all ? use->rx_messages : rx_all);
    const uint64_t spare = (uint64_t)UVCCI_SPARES * UVCC_MSG_MAX_BYTES; /* the peer chooses */
    const uint64_t data = (use->tx_bytes < tx ? use->tx_bytes : tx) + rx + spare;
    assert(bound > pools + uvcci_data_bound(l));
    by_class[UVCC_MEM_WIRE] = used + (data < tx + rx ? data : tx + rx);
    const uint64_t opened =
        l->cfg.datagram ? UVCCI_PACKET_MAX_BYTES : UVCC_CHUNK_BYTES + UVCC_FRAME_SEAL_BYTES;
    by_class[UVCC_MEM_SECRET] = sizeof(uvcci_link_keys) + sizeof(uvcci_step_keys) + opened;
    by_class[UVCC_MEM_STATE] = bound - pools - uvcci_data_bound(l) - opened;
    by_class[UVCC_MEM_TENSOR] = 0;
}

/* ---- run, step ---- */

int uvcc_link_set_run(uvcc_link *l, uint32_t run) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    if (run > RUN_MAX)
        return UVCC_ERR_USAGE;
    if (l->have_run)
        return UVCC_ERR_STATE;
    l->run = run;
    l->have_run = true;
    l->tx.cum = l->rx.cum = l->rx.top = (uint64_t)run << 40;
    l->tx.next = l->tx.cum + 1;
    return 0;
}

int uvcc_link_reset(uvcc_link *l) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    if (l->started || l->tx.undone != 0)
        return UVCC_ERR_STATE;
    uvcci_keys_free(l);
    uvcci_link_hello_drop(l);
    uvcci_link_hello_late(l);
    l->have_run = l->heard = false;
    l->step = 0;
    /* A peer that was done already may have sent an ACK. */
    l->tx.ack_counter = l->tx.cls[0].credit = l->tx.cls[1].credit = 0;
    return 0;
}

int uvcc_link_set_step(uvcc_link *l, uint32_t step) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    if (step < l->step)
        return UVCC_ERR_USAGE;
    l->step = step;
    uvcci_keys_expire(l, step);
    return 0;
}

int uvcc_link_start(uvcc_link *l, uint64_t now) {
    if (l == NULL)
        return UVCC_ERR_USAGE;
    if (!l->have_run || l->started)
        return UVCC_ERR_STATE;
    uvcci_link_tick(l, now);
    uvcci_link_cc_start(l);
    l->started = true;
    l->rx.ack_at = l->now;
    l->tx.alive_at = uvcci_later(l->now, l->cfg.keepalive_ns);
    return 0;
}

const char *uvcci_link_spent(const uvcc_link *l) {
    static const char *const texts[] = {
        [UVCCI_SPENT_SEQS] = "a run of 2^40 frames to a peer is over: begin another run",
        [UVCCI_SPENT_KEY] = "too many forged frames in one step: begin another run",
        [UVCCI_SPENT_CTL_KEY] = "too many forged control frames in one run: begin another run"};
    return texts[l->tx.spent];
}

void uvcci_link_skip_to(uvcc_link *l, uint64_t counter) {
    assert(l->have_run && l->tx.undone == 0 && l->tx.next == l->tx.cum + 1 && counter < 1ull << 40);
    l->tx.cum = l->rx.cum = l->rx.top = (uint64_t)l->run << 40 | counter;
    l->tx.next = l->tx.cum + 1;
}

void uvcci_link_rest(uvcc_link *l) {
    l->resting = true;
    l->cfg.keepalive_ns = l->tx.alive_at = l->tx.path.at = UVCC_NEVER;
    uvcci_tx_ping_arm(l);
}

bool uvcc_link_heard(const uvcc_link *l) {
    if (l == NULL)
        return false;
    return l->heard;
}

const char *uvcc_link_violation(const uvcc_link *l) {
    if (l == NULL)
        return NULL;
    return l->violation;
}

/* ---- streams and time ---- */

void uvcc_link_stream_opened(uvcc_link *l, uint64_t now) {
    if (l == NULL)
        return;
    if (l->cfg.datagram)
        return;
    uvcci_link_tick(l, now);
    uvcci_stream_reset(l);
    uvcci_tx_stream_reset(l);
    uvcci_link_hello_late(l); /* it was said over another stream, and so would this be: */
    if (l->hello_out != NULL && l->hello_out->sealed)
        uvcci_link_hello_drop(l);
    l->stream_up = true;
    l->rx.ack_at = l->now;
    if (l->tx.unreceived != 0 && !UVCCI_MUTANT(18))
        l->tx.resume_at = uvcci_later(l->now, l->cfg.rto_initial_ns);
}

void uvcc_link_stream_closed(uvcc_link *l, uint64_t now) {
    if (l == NULL)
        return;
    if (l->cfg.datagram)
        return;
    uvcci_link_tick(l, now);
    uvcci_stream_reset(l);
    uvcci_tx_stream_reset(l);
    l->stream_up = false;
}

int uvcc_link_feed(uvcc_link *l, const uint8_t *data, size_t len, uint64_t now) {
    if (l == NULL || (data == NULL && len != 0))
        return UVCC_ERR_USAGE;
    uvcci_link_tick(l, now);
    l->stats.bytes_rx += len;
    return l->cfg.datagram ? uvcci_rx_packet(l, data, len) : uvcci_stream_feed(l, data, len);
}

int uvcci_link_feed_some(uvcc_link *l, uvcci_slices *from, uint64_t now) {
    const uvcci_slices before = *from;
    uvcci_link_tick(l, now);
    const int err = uvcci_stream_feed_some(l, from);
    for (const uvcc_slice *s = before.at; s != from->at; s++)
        l->stats.bytes_rx += s->len;
    l->stats.bytes_rx += from->done - before.done;
    return err;
}

int uvcc_link_feed_slices(uvcc_link *l, const uvcc_slice *slices, uint32_t count, uint64_t now) {
    if (l == NULL || (slices == NULL && count != 0) || l->cfg.datagram)
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; i < count; i++)
        if (slices[i].data == NULL && slices[i].len != 0)
            return UVCC_ERR_USAGE;
    const uint8_t *data;
    uvcci_slices from = {.at = slices, .count = count};
    int err = 0;
    while (err == 0 && uvcci_slices_run(&from, &data) != 0)
        err = uvcci_link_feed_some(l, &from, now);
    return err;
}

int uvcc_link_rx_buffer(uvcc_link *l, uint8_t **to, size_t *len) {
    if (l == NULL || to == NULL || len == NULL || l->cfg.datagram)
        return UVCC_ERR_USAGE;
    *to = NULL;
    *len = uvcci_stream_offer(l, to);
    return *len != 0;
}

size_t uvcci_link_offered(const uvcc_link *l, const uint8_t **at) {
    return l->cfg.datagram ? 0 : uvcci_stream_offered(l, at);
}

int uvcc_link_rx_filled(uvcc_link *l, size_t n, uint64_t now) {
    const uint8_t *at;
    if (l == NULL || l->cfg.datagram || n > uvcci_link_offered(l, &at))
        return UVCC_ERR_USAGE;
    if (n == 0)
        return 0;
    uvcci_link_tick(l, now);
    l->stats.bytes_rx += n;
    return uvcci_stream_filled(l, n);
}

/* A mark counts only with a new frame, which is authentic on sealed links: nobody else can slow us.
 */
int uvcc_link_feed_ecn(uvcc_link *l, const uint8_t *data, size_t len, bool ce, uint64_t now) {
    if (l == NULL || (data == NULL && len != 0) || !l->cfg.datagram)
        return UVCC_ERR_USAGE;
    uint64_t taken = l->rx.taken;
    int err = uvcc_link_feed(l, data, len, now);
    if (ce && l->rx.taken != taken)
        l->rx.ce_packets++;
    return err;
}

/* Nothing is on its way in or out; what memory is left holds caches. */
static bool quiet(const uvcc_link *l) {
    bool sent = UVCCI_MUTANT(20) ? l->tx.unreceived == 0 : l->tx.pool.live == 0;
    bool taken = uvcci_tx_left(l) == 0;
    return sent && taken && !l->tx.outstanding && uvcci_rx_quiet(l) && uvcci_stream_quiet(l);
}

/* What on_timer does counts always; what only a poll does, only while a poll can: with a transmit
 * out, or the rest of one that a full socket left, its end is what the caller waits for. */
uint64_t uvcc_link_next_deadline(const uvcc_link *l) {
    if (l == NULL)
        return UVCC_NEVER;
    uint64_t t = l->trim_at, poll = l->tx.retry_at; /* no memory to send what is due */
    bool up = l->cfg.datagram || l->stream_up;
    if (up && l->started)
        t = uvcci_min64(t, uvcci_tx_timer_deadline(l));
    if (poll == UVCC_NEVER && l->started)
        poll = uvcci_min64(l->rx.ack_at, uvcci_tx_poll_deadline(l));
    if (up && (uvcci_tx_can_poll(l) || UVCCI_MUTANT(23)))
        t = uvcci_min64(t, poll);
    if (t == UVCC_NEVER)
        return UVCC_NEVER;
    return t > l->skew ? t - l->skew : 0;
}

void uvcc_link_on_timer(uvcc_link *l, uint64_t now) {
    if (l == NULL)
        return;
    uvcci_link_tick(l, now);
    if (l->started && (l->cfg.datagram || l->stream_up))
        uvcci_tx_on_timer(l);
    if (l->now < l->trim_at)
        return;
    l->trim_at = UVCC_NEVER;
    if (quiet(l)) {
        uvcci_tx_trim(l);
        uvcci_rx_trim(l);
        uvcci_link_hello_trim(l);
        uvcci_stream_trim(l);
        uvcci_data_trim(l);
        uvcci_step_keys_free(l);
    } else if (!l->resting) {
        if (uvcci_rx_quiet(l)) /* a peer may be gone, and never acknowledge what it was sent */
            uvcci_data_trim(l);
        uvcci_link_trim_later(l);
    }
}

static bool ack_due(const uvcc_link *l) {
    return l->rx.ack_at != UVCC_NEVER || l->tx.outstanding || uvcci_tx_left(l) != 0;
}

void uvcc_link_get_stats(const uvcc_link *l, uvcc_link_stats *out) {
    if (l == NULL || out == NULL)
        return;
    *out = l->stats;
    out->min_rtt_ns = l->tx.min_rtt;
    out->heard_ns = l->heard_at;
    if (l->heard_at != UVCC_NEVER)
        out->heard_ns = l->heard_at > l->skew ? l->heard_at - l->skew : 0;
    assert(l->tx.undone >= l->stats.queued_messages);
    out->unacked_messages = l->tx.undone - l->stats.queued_messages;
    out->packet_bytes = l->cfg.datagram ? l->tx.path.packet : 0;
    uvcci_link_cc_stats(l, out);
    out->stream_up = l->stream_up;
    out->ack_due = ack_due(l);
    out->blocked = uvcci_send_blocked(l);
}

bool uvcc_link_settled(const uvcc_link *l) {
    if (l == NULL)
        return false;
    return uvcc_link_drained(l) && !ack_due(l);
}

void uvcc_link_digest(const uvcc_link *l, uint8_t out[32]) {
    if (l == NULL || out == NULL)
        return;
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    uint8_t b[16];
    uvcci_st32(b, l->run);
    uvcci_st32(b + 4, l->step);
    uvcci_st32(b + 8, (uint32_t)l->have_run | (uint32_t)l->started << 1 |
                          (uint32_t)(l->keys != NULL) << 2 | (uint32_t)l->heard << 3);
    uvcci_st32(b + 12, l->violation != NULL);
    uvcci_sha256_update(&h, b, sizeof b);
    uvcci_tx_digest(l, &h);
    uvcci_rx_digest(l, &h);
    uvcci_sha256_final(&h, out);
}
