/* SPDX-License-Identifier: Apache-2.0 */
/* test_cc.c - the controllers pinned: what each answers to every ACK and loss of long runs over a
 * model of a path (test_congestion.c says whether that is good). They are integers and pure, so a
 * run is a function of its seed; a change that is meant changes the table, and the benches say what
 * it is worth. */
#include "support.h"

#include "proto/cc_bbr.h"
#include "proto/cc_cubic.h"
#include "proto/cc_fixed.h"
#include "proto/crypto.h"

#define MS UINT64_C(1000000)
enum { SEG = 1232, FLIGHT = 16384, SECONDS = 40 };

typedef struct packet {
    uint64_t sent, ack_at, delivered_at; /* delivered_at: of the last delivery before it was sent */
    uint64_t delivered, lost, inflight;  /* when it was sent */
    bool dropped, app_limited, told, marked;
} packet;

typedef struct path {
    uvcci_cc c;
    uvcci_sha256 hash;
    uint64_t rng, now, free_at, pace_at;
    uint64_t delivered, delivered_at, lost, inflight, srtt, full_until;
    uint64_t limited; /* samples are app-limited until so much was delivered */
    uint64_t answers; /* that were hashed */
    unsigned states;  /* of BBR that were seen */
    /* the path, as it is now */
    uint64_t rate, base, queue;
    unsigned loss, marks; /* in 1,000 */
    bool quiet, late;     /* nothing to send; packets are late, and told as lost meanwhile */
    packet flight[FLIGHT];
    uint32_t first, end; /* of those that are not over */
} path;

static void put(path *p, uint64_t v) {
    uint8_t b[8];
    for (unsigned i = 0; i < 8; i++)
        b[i] = (uint8_t)(v >> 8 * i);
    uvcci_sha256_update(&p->hash, b, sizeof b);
}

static void answers(path *p) {
    put(p, p->c.window);
    put(p, p->c.rate);
    put(p, p->c.quantum);
    put(p, p->c.measures_nothing);
    if (p->c.is == &uvcci_cc_bbr) {
        put(p, p->c.u.bbr.state);
        p->states |= 1u << p->c.u.bbr.state;
    }
    p->answers++;
}

/* Another path every two seconds. */
static void change(path *p) {
    static const uint64_t rates[] = {125000, 1250000, 5000000, 25000000};
    static const uint64_t bases[] = {5, 20, 40, 100};
    p->rate = rates[test_rand(&p->rng) % 4];
    p->base = bases[test_rand(&p->rng) % 4] * MS;
    p->queue = p->base / 2 * (1 + test_rand(&p->rng) % 6);
    p->loss = test_rand(&p->rng) % 3 == 0 ? (unsigned)(test_rand(&p->rng) % 50) : 0;
    p->marks = test_rand(&p->rng) % 4 == 0 ? 300 : 0;
    p->quiet = test_rand(&p->rng) % 6 == 0;
    p->late = test_rand(&p->rng) % 5 == 0;
}

static void send(path *p) {
    if (p->quiet || test_rand(&p->rng) % 2000 == 0)
        p->limited = p->delivered + p->inflight;
    while (!p->quiet && p->inflight + SEG <= p->c.window && p->pace_at <= p->now &&
           p->end - p->first < FLIGHT) {
        packet *k = &p->flight[p->end++ % FLIGHT];
        p->c.is->sent(&p->c, p->inflight == 0, p->now);
        const uint64_t from = p->free_at > p->now ? p->free_at : p->now;
        p->inflight += SEG;
        *k = (packet){.sent = p->now,
                      .delivered_at = p->delivered_at,
                      .delivered = p->delivered,
                      .lost = p->lost,
                      .inflight = p->inflight,
                      .app_limited = p->limited > p->delivered};
        k->dropped = from - p->now > p->queue || test_rand(&p->rng) % 1000 < p->loss;
        k->marked = from - p->now > p->queue / 2 && test_rand(&p->rng) % 1000 < p->marks;
        if (from - p->now <= p->queue)
            p->free_at = from + SEG * 1000 * MS / p->rate;
        k->ack_at = p->free_at + p->base + (p->late && p->end % 50 == 0 ? p->base : 0);
        if (p->c.rate != 0)
            p->pace_at =
                (p->pace_at + 2 * MS > p->now ? p->pace_at : p->now) + SEG * 1000 * MS / p->c.rate;
        if (p->inflight + SEG > p->c.window)
            p->full_until = p->now + p->base;
    }
}

static void tell_lost(path *p, packet *k) {
    p->lost += SEG;
    p->inflight -= SEG;
    k->told = true;
    const uvcci_cc_loss l = {.now = p->now,
                             .sent_ns = k->sent,
                             .bytes = SEG,
                             .inflight = p->inflight,
                             .tx_flight = k->inflight,
                             .lost_since = p->lost - k->lost,
                             .delivered = p->delivered,
                             .app_limited = k->app_limited};
    p->c.is->lost(&p->c, &l);
    answers(p);
}

/* What came by now, as one ACK, after the losses that it shows. */
static void acknowledge(path *p) {
    uvcci_cc_ack a = {.now = p->now, .lost = p->lost};
    const packet *last = NULL;
    bool open = true; /* everything before is over */
    for (uint32_t i = p->first; i != p->end; i++) {
        packet *k = &p->flight[i % FLIGHT];
        if (k->ack_at != 0 && k->ack_at <= p->now && !k->dropped) {
            const uint64_t rtt = p->now - k->sent;
            if (k->told)
                p->c.is->spurious(&p->c, SEG, p->now);
            else
                p->inflight -= SEG;
            a.rate.acked += SEG;
            a.rtt = a.rtt == 0 || rtt < a.rtt ? rtt : a.rtt;
            a.ce += k->marked;
            k->ack_at = 0;
            last = k;
        } else if (k->ack_at != 0 && !k->told &&
                   p->now > k->sent + p->base + p->base / 4 + p->queue) {
            tell_lost(p, k);
            k->ack_at = k->dropped ? 0 : k->ack_at;
        }
        open = open && k->ack_at == 0;
        p->first += open;
    }
    if (last == NULL)
        return;
    p->srtt = p->srtt == 0 ? a.rtt : p->srtt - p->srtt / 8 + a.rtt / 8;
    p->delivered += a.rate.acked;
    p->delivered_at = p->now;
    const uint64_t ns = p->now - last->delivered_at;
    a.inflight = p->inflight;
    a.delivered = p->delivered;
    a.lost = p->lost;
    a.srtt = p->srtt;
    a.window_full = p->full_until > p->now;
    a.rate.any = true;
    a.rate.app_limited = last->app_limited;
    a.rate.delivered = p->delivered - last->delivered;
    a.rate.lost = p->lost - last->lost;
    a.rate.inflight = last->inflight;
    a.rate.prior_delivered = last->delivered;
    a.rate.sent_ns = last->sent;
    a.rate.interval_ns = ns;
    a.rate.rate = ns == 0 ? 0 : uvcci_rate_of(a.rate.delivered, ns);
    p->c.is->rtt(&p->c, a.rtt);
    p->c.is->acked(&p->c, &a);
    answers(p);
}

static void drive(path *p, const uvcci_cc_class *is, uint64_t seed, uint64_t bound) {
    memset(p, 0, sizeof *p);
    p->rng = seed;
    p->now = p->delivered_at = 1000 * MS;
    p->c = (uvcci_cc){.is = is, .segment = SEG, .random = seed, .rate_bound = bound};
    is->init(&p->c, p->now);
    uvcci_sha256_init(&p->hash);
    answers(p);
    for (uint64_t ms = 0; ms < SECONDS * 1000; ms++, p->now += MS) {
        if (ms % 2000 == 0)
            change(p);
        acknowledge(p);
        if (ms % 9000 == 8999) {
            p->c.is->persistent(&p->c, p->now);
            answers(p);
        }
        send(p);
    }
}

typedef struct pin {
    const uvcci_cc_class *is;
    uint64_t bound;
    const char *hash;
} pin;

static void controllers(void **state) {
    (void)state;
    static const pin pins[] = {
        {&uvcci_cc_bbr, 0, "f3941c1a399b619d"},
        {&uvcci_cc_bbr, 2000000, "647d1b24528fde15"},
        {&uvcci_cc_cubic, 0, "adb93aae23f5dfba"},
        {&uvcci_cc_fixed, 2000000, "90152b2d536f635d"},
    };
    path *p = malloc(sizeof *p);
    unsigned wrong = 0, states = 0;
    for (unsigned i = 0; i < sizeof pins / sizeof pins[0]; i++) {
        uvcci_sha256 all;
        uint8_t hash[32];
        char text[17];
        uvcci_sha256_init(&all);
        for (uint64_t seed = 1; seed <= 6; seed++) {
            drive(p, pins[i].is, seed, pins[i].bound);
            assert_true(p->answers > 2000 && p->delivered > 1000 * SEG);
            states |= p->states;
            uvcci_sha256_final(&p->hash, hash);
            uvcci_sha256_update(&all, hash, 32);
        }
        uvcci_sha256_final(&all, hash);
        for (unsigned k = 0; k < 8; k++)
            snprintf(text + 2 * k, 3, "%02x", hash[k]);
        if (strcmp(text, pins[i].hash) != 0) {
            print_error("row %u: %s\n", i, text);
            wrong++;
        }
    }
    assert_int_equal(states, (2u << UVCCI_BBR_PROBE_RTT) - 1); /* all of them */
    assert_int_equal(wrong, 0);
    free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controllers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
