/* bench_link - what a link costs and how it bears loss. Both ends run on one core, in memory; the
 * medians of interleaved rounds are printed as JSON lines, throughput as a ratio to memcpy of the
 * same size in the same round. Loss is simulated in virtual time: 1 Gbit/s, 1 ms each way, loss on
 * both directions, the sender's socket blocks while its wire is busy. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uvcc/host.h>
#include <uvcc/link.h>

#include "proto/transcript.h"

#define ROUNDS 31
#define SEEDS  8
#define MS     UINT64_C(1000000)

static void check(int err, const char *what) {
    if (err < 0) {
        fprintf(stderr, "bench_link: %s: %s\n", what, uvcc_error_text(err));
        exit(1);
    }
}

/* ---- a pair of links ---- */

typedef struct pair {
    uvcc_link *a, *b;
    uint64_t now, received, bytes;
    uvcci_transcript *sent, *came; /* of both ends; NULL: the audit is off */
} pair;

/* What an audited session does with a payload at either end: D(payload), the leaf, the transcript.
 */
static void audit(uvcci_transcript *t, uint8_t type, const uint8_t *data, uint32_t len) {
    static const uint8_t sid[32] = {1}, salt[32] = {2};
    uint8_t h[32], leaf[UVCCI_LEAF_MAX_BYTES];
    uvcci_sha256_once(data, len, h);
    uvcci_hmac_once(salt, sizeof salt, h, sizeof h, h);
    size_t n = uvcci_leaf_batch(leaf, type, sid, 3, 0, 1, 4, h);
    check(uvcci_transcript_add(t, 5, leaf, n), "transcript_add");
}

static uvcc_link *link_new(int me, bool datagram, uint8_t suite) {
    uvcc_link_config cfg;
    uvcc_link_config_default(&cfg);
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.me = (uint8_t)me;
    cfg.peer = (uint8_t)(1 - me);
    cfg.datagram = datagram;
    cfg.sid_tag = 7;
    cfg.keepalive_ns = UVCC_NEVER;
    uvcc_link *l;
    check(uvcc_link_new(&l, &cfg), "link_new");
    check(uvcc_link_set_run(l, 1), "set_run");
    if (suite != 0) {
        static const uint8_t prk[32] = {1, 2, 3};
        check(uvcc_link_set_keys(l, suite, prk), "set_keys");
    }
    check(uvcc_link_start(l, 1), "start");
    if (!datagram)
        uvcc_link_stream_opened(l, 1);
    return l;
}

static pair pair_new(bool datagram, uint8_t suite) {
    return (pair){.a = link_new(0, datagram, suite), .b = link_new(1, datagram, suite), .now = 1};
}

static void pair_free(pair *p) {
    uvcc_link_free(p->a);
    uvcc_link_free(p->b);
}

static void take(pair *p, uvcc_link *l) {
    uvcc_link_rx rx;
    while (uvcc_link_poll_message(l, &rx) == 1) {
        if (p->came != NULL)
            audit(p->came, UVCCI_LEAF_OPEN_RECEIVED, rx.data, rx.len);
        check(uvcc_link_accept(l, rx.token, p->now), "accept");
        p->received++;
        p->bytes += rx.len;
        check(uvcc_link_release(l, rx.token, p->now), "release");
    }
}

/* Carries what `from` has to send; true if anything went. */
static bool carry(pair *p, uvcc_link *from, uvcc_link *to) {
    uvcc_transmit t;
    bool any = false;
    while (uvcc_link_poll_transmit(from, &t, p->now) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++)
            check(uvcc_link_feed(to, t.slices[i].data, t.slices[i].len, p->now), "feed");
        check(uvcc_link_transmit_done(from, t.id, t.total, p->now), "transmit_done");
        take(p, to);
        any = true;
    }
    return any;
}

static void send_one(pair *p, uint32_t len, uint32_t op_id, const uint8_t *bytes) {
    uvcc_link_msg *m;
    check(uvcc_link_msg_new(p->a, UVCC_FRAME_OPEN_BATCH, len, &m), "msg_new");
    if (bytes != NULL)
        memcpy(uvcc_link_msg_data(m), bytes, len);
    if (p->sent != NULL)
        audit(p->sent, UVCCI_LEAF_OPEN_SENT, uvcc_link_msg_data(m), len);
    uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {op_id};
    check(uvcc_link_send(p->a, m, 0, op_id, ids, op_id, p->now), "send");
}

static void settle(pair *p) {
    while (carry(p, p->a, p->b) || carry(p, p->b, p->a))
        p->now += 1000;
}

/* ---- cost ---- */

/* CPU time of this thread: other load on the machine does not count. */
static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, size_t n) {
    qsort(v, n, sizeof *v, by_value);
    return v[n / 2];
}

/* Nanoseconds per message of len bytes, sent in batches. */
static double time_messages(pair *p, uint32_t len, uint32_t batch, uint32_t batches,
                            const uint8_t *bytes) {
    uint64_t want = p->received + (uint64_t)batch * batches, t = cpu_ns();
    uint32_t op_id = 1;
    for (uint32_t i = 0; i < batches; i++) {
        for (uint32_t k = 0; k < batch; k++)
            send_one(p, len, op_id++, bytes);
        carry(p, p->a, p->b);
        p->now += MS;
        carry(p, p->b, p->a);
    }
    while (p->received < want)
        settle(p);
    return (double)(cpu_ns() - t) / ((double)batch * batches);
}

static double time_memcpy(uint32_t len, uint32_t times) {
    static uint8_t *from, *to;
    if (from == NULL) {
        from = malloc(1u << 20);
        to = malloc(1u << 20);
        if (from == NULL || to == NULL)
            exit(1);
        memset(from, 1, 1u << 20);
        memset(to, 2, 1u << 20);
    }
    uint64_t t = cpu_ns();
    for (uint32_t i = 0; i < times; i++) {
        memcpy(to, from, len);
        __asm__ volatile("" : : "r"(to) : "memory");
    }
    return (double)(cpu_ns() - t) / times;
}

static void bench_throughput(void) {
    static const struct { uint32_t len, times; } sizes[] = {{1u << 20, 32}, {64u << 10, 512}};
    for (size_t s = 0; s < 2; s++) {
        double cost[3][ROUNDS], ratio[3][ROUNDS], copy[ROUNDS];
        pair p[3];
        for (uint8_t suite = 0; suite < 3; suite++)
            p[suite] = pair_new(false, suite);
        for (int r = -1; r < ROUNDS; r++) {
            double c = time_memcpy(sizes[s].len, sizes[s].times);
            for (uint8_t suite = 0; suite < 3; suite++) {
                double ns = time_messages(&p[suite], sizes[s].len, 1, sizes[s].times, NULL);
                if (r < 0)
                    continue; /* warming up */
                copy[r] = c;
                cost[suite][r] = ns;
                ratio[suite][r] = c / ns;
            }
        }
        double c = median(copy, ROUNDS);
        for (uint8_t suite = 0; suite < 3; suite++) {
            double ns = median(cost[suite], ROUNDS);
            printf(
                "{\"bench\": \"link_message\", \"bytes\": %u, \"suite\": %u, \"gb_per_s\": %.2f, "
                "\"memcpy_gb_per_s\": %.2f, \"of_memcpy\": %.3f, \"ns_per_kib\": %.1f}\n",
                sizes[s].len, suite, sizes[s].len / ns, sizes[s].len / c,
                median(ratio[suite], ROUNDS), ns / (sizes[s].len / 1024.0));
            pair_free(&p[suite]);
        }
    }
}

/* The same messages with both ends' transcripts, as a fraction of what SHA-256 at both ends alone
 * would allow. */
static void bench_audited(void) {
    static const struct { uint32_t len, times; } sizes[] = {{1u << 20, 8}, {64u << 10, 128}};
    uvcc_allocator al = uvcc_host_allocator();
    for (size_t s = 0; s < 2; s++) {
        double cost[ROUNDS], of_hash[ROUNDS];
        pair p = pair_new(false, 0);
        check(uvcci_transcript_new(&p.sent, &al, 1u << 20), "transcript_new");
        check(uvcci_transcript_new(&p.came, &al, 1u << 20), "transcript_new");
        uint8_t *bytes = malloc(sizes[s].len), h[32];
        if (bytes == NULL)
            exit(1);
        memset(bytes, 3, sizes[s].len);
        for (int r = -1; r < ROUNDS; r++) {
            uint64_t t = cpu_ns();
            for (uint32_t i = 0; i < 2 * sizes[s].times; i++)
                uvcci_sha256_once(bytes, sizes[s].len, h);
            double hash = (double)(cpu_ns() - t) / sizes[s].times;
            double ns = time_messages(&p, sizes[s].len, 1, sizes[s].times, NULL);
            if (r < 0)
                continue;
            cost[r] = ns;
            of_hash[r] = hash / ns;
        }
        double ns = median(cost, ROUNDS);
        printf("{\"bench\": \"link_audited\", \"bytes\": %u, \"gb_per_s\": %.2f, "
               "\"of_hash_alone\": %.3f}\n",
               sizes[s].len, sizes[s].len / ns, median(of_hash, ROUNDS));
        free(bytes);
        uvcci_transcript_free(p.sent);
        uvcci_transcript_free(p.came);
        pair_free(&p);
    }
}

static void bench_small(void) {
    for (uint8_t suite = 0; suite < 3; suite++) {
        double cost[ROUNDS];
        uint8_t bytes[64];
        memset(bytes, 7, sizeof bytes);
        pair p = pair_new(false, suite);
        for (int r = -1; r < ROUNDS; r++) {
            double ns = time_messages(&p, 64, 1000, 20, bytes);
            if (r >= 0)
                cost[r] = ns;
        }
        double ns = median(cost, ROUNDS);
        printf("{\"bench\": \"link_small\", \"bytes\": 64, \"suite\": %u, \"ns\": %.1f, "
               "\"million_per_s\": %.2f}\n",
               suite, ns, 1e3 / ns);
        pair_free(&p);
    }
}

/* ---- loss ---- */

#define PACKETS 65536u
typedef struct wire {
    struct {
        uint64_t at;
        uint32_t len;
        uint8_t bytes[1232];
    } * packet; /* ring, in order of arrival */
    size_t first, count;
    uint64_t free_at, dropped, sent;
} wire;

static uint64_t rng;
static double uniform(void) {
    rng += 0x9E3779B97F4A7C15u;
    uint64_t z = rng;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

static void wire_send(wire *w, uvcc_link *from, double loss, uint64_t now) {
    uvcc_transmit t;
    while (w->free_at <= now && uvcc_link_poll_transmit(from, &t, now) == 1) {
        w->free_at = (w->free_at < now ? now : w->free_at) + 8 * t.total;
        w->sent++;
        if (uniform() < loss) {
            w->dropped++;
        } else if (w->count < PACKETS && t.total <= 1232) {
            size_t at = (w->first + w->count++) % PACKETS;
            w->packet[at].at = w->free_at + MS;
            w->packet[at].len = 0;
            for (uint32_t i = 0; i < t.slice_count; i++) {
                memcpy(w->packet[at].bytes + w->packet[at].len, t.slices[i].data, t.slices[i].len);
                w->packet[at].len += (uint32_t)t.slices[i].len;
            }
        }
        check(uvcc_link_transmit_done(from, t.id, t.total, now), "transmit_done");
    }
}

static void wire_deliver(wire *w, uvcc_link *to, pair *p) {
    while (w->count != 0 && w->packet[w->first].at <= p->now) {
        check(uvcc_link_feed(to, w->packet[w->first].bytes, w->packet[w->first].len, p->now),
              "feed");
        w->first = (w->first + 1) % PACKETS;
        w->count--;
        take(p, to);
    }
}

static uint64_t min64(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

typedef struct loss_result {
    double seconds, spurious;
} loss_result;

static loss_result lossy_transfer(double loss, uint64_t seed, uint32_t messages) {
    rng = seed;
    pair p = pair_new(true, 0);
    wire w[2] = {{0}};
    for (int i = 0; i < 2; i++) {
        w[i].packet = malloc(PACKETS * sizeof *w[i].packet);
        if (w[i].packet == NULL)
            exit(1);
    }
    uint32_t sent = 0;
    uint64_t begin = p.now;
    while (p.received < messages) {
        while (sent < messages && uvcc_link_writable(p.a, UVCC_FRAME_OPEN_BATCH, 1u << 20)) {
            send_one(&p, 1u << 20, sent + 1, NULL);
            sent++;
        }
        wire_send(&w[0], p.a, loss, p.now);
        wire_send(&w[1], p.b, loss, p.now);
        uint64_t t = min64(uvcc_link_next_deadline(p.a), uvcc_link_next_deadline(p.b));
        for (int i = 0; i < 2; i++) {
            if (w[i].count != 0)
                t = min64(t, w[i].packet[w[i].first].at);
            if (w[i].free_at > p.now)
                t = min64(t, w[i].free_at);
        }
        p.now = t > p.now ? t : p.now + 1;
        wire_deliver(&w[0], p.b, &p);
        wire_deliver(&w[1], p.a, &p);
        uvcc_link_on_timer(p.a, p.now);
        uvcc_link_on_timer(p.b, p.now);
    }
    uvcc_link_stats s;
    uvcc_link_get_stats(p.b, &s);
    loss_result r = {.seconds = (double)(p.now - begin) * 1e-9,
                     .spurious = (double)s.duplicates * 1168 / ((double)messages * (1u << 20))};
    pair_free(&p);
    free(w[0].packet);
    free(w[1].packet);
    return r;
}

static void bench_loss(void) {
    static const double losses[] = {0.01, 0.05, 0.20};
    const uint32_t messages = 96;
    double base = lossy_transfer(0, 1, messages).seconds;
    printf("{\"bench\": \"link_lossless\", \"mbit_per_s\": %.1f}\n", messages * 8.388608 / base);
    for (size_t i = 0; i < sizeof losses / sizeof losses[0]; i++) {
        double sum = 0, spurious = 0, worst = 1e9;
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            loss_result r = lossy_transfer(losses[i], seed * 1000003, messages);
            double goodput = base / r.seconds / (1 - losses[i]);
            sum += goodput;
            spurious += r.spurious;
            worst = goodput < worst ? goodput : worst;
        }
        printf("{\"bench\": \"link_loss\", \"loss\": %.2f, \"goodput\": %.4f, \"worst\": %.4f, "
               "\"spurious\": %.5f}\n",
               losses[i], sum / SEEDS, worst, spurious / SEEDS);
    }
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : "";
    if (*only == '\0' || strcmp(only, "throughput") == 0)
        bench_throughput();
    if (*only == '\0' || strcmp(only, "audited") == 0)
        bench_audited();
    if (*only == '\0' || strcmp(only, "small") == 0)
        bench_small();
    if (*only == '\0' || strcmp(only, "loss") == 0)
        bench_loss();
    return 0;
}
