/* SPDX-License-Identifier: Apache-2.0 */
/* bench_link.c - what a link costs and how it bears a network. Here: the command, and the cost.
 * Both ends run on one core, in memory; the medians of interleaved rounds are printed as JSON
 * lines, throughput as a ratio to memcpy of the same size in the same round. The network in virtual
 * time is in bench_link_net.c, that of the kernel in bench_link_tun.c. */
#include "bench_link.h"

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
#define MS     UINT64_C(1000000)

void bench_check(int err, const char *what) {
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
    bench_check(uvcci_transcript_add(t, 5, leaf, n), "transcript_add");
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
    bench_check(uvcc_link_new(&l, &cfg), "link_new");
    bench_check(uvcc_link_set_run(l, 1), "set_run");
    if (suite != 0) {
        static const uint8_t prk[32] = {1, 2, 3};
        bench_check(uvcc_link_set_keys(l, suite, prk), "set_keys");
    }
    bench_check(uvcc_link_start(l, 1), "start");
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
        bench_check(uvcc_link_accept(l, rx.token, p->now), "accept");
        p->received++;
        p->bytes += rx.len;
        bench_check(uvcc_link_release(l, rx.token, p->now), "release");
    }
}

/* Carries what `from` has to send; true if anything went. */
static bool carry(pair *p, uvcc_link *from, uvcc_link *to) {
    uvcc_transmit t;
    bool any = false;
    while (uvcc_link_poll_transmit(from, &t, p->now) == 1) {
        for (uint32_t i = 0; i < t.slice_count; i++)
            bench_check(uvcc_link_feed(to, t.slices[i].data, t.slices[i].len, p->now), "feed");
        bench_check(uvcc_link_transmit_done(from, t.id, t.total, p->now), "transmit_done");
        take(p, to);
        any = true;
    }
    return any;
}

static void send_one(pair *p, uint32_t len, uint32_t op_id, const uint8_t *bytes) {
    uvcc_link_msg *m;
    bench_check(uvcc_link_msg_new(p->a, UVCC_FRAME_OPEN_BATCH, len, &m), "msg_new");
    if (bytes != NULL)
        memcpy(uvcc_link_msg_data(m), bytes, len);
    if (p->sent != NULL)
        audit(p->sent, UVCCI_LEAF_OPEN_SENT, uvcc_link_msg_data(m), len);
    uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {op_id};
    bench_check(uvcc_link_send(p->a, m, 0, op_id, ids, op_id, p->now), "send");
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

static void bench_throughput(const bench_options *o) {
    (void)o;
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
static void bench_audited(const bench_options *o) {
    (void)o;
    static const struct { uint32_t len, times; } sizes[] = {{1u << 20, 8}, {64u << 10, 128}};
    uvcc_allocator al = uvcc_host_allocator();
    for (size_t s = 0; s < 2; s++) {
        double cost[ROUNDS], of_hash[ROUNDS];
        pair p = pair_new(false, 0);
        bench_check(uvcci_transcript_new(&p.sent, &al, 1u << 20), "transcript_new");
        bench_check(uvcci_transcript_new(&p.came, &al, 1u << 20), "transcript_new");
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

static void bench_small(const bench_options *o) {
    (void)o;
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

/* ---- figures ---- */

static const char *const controllers[] = {
    [UVCC_CONGESTION_BBR] = "bbr",
    [UVCC_CONGESTION_CUBIC] = "cubic",
    [UVCC_CONGESTION_FIXED] = "fixed",
};
#define CONTROLLERS (sizeof controllers / sizeof controllers[0])
static uint32_t controller; /* of all links on datagrams; 0: the library's default */

void bench_tune(uvcc_link_config *cfg, int end, void *user) {
    (void)end;
    (void)user;
    cfg->congestion = controller;
}

static bool controller_set(const char *name) {
    for (uint32_t i = 0; i < CONTROLLERS; i++)
        if (strcmp(name, controllers[i]) == 0) {
            controller = i;
            return true;
        }
    fprintf(stderr, "bench_link: --congestion takes bbr, cubic or fixed\n");
    return false;
}

static unsigned missed;

unsigned bench_missed(void) {
    return missed;
}

void bench_figure(const char *bench, const char *with, const char *figure, const double *v,
                  unsigned n, bench_goal kind, double goal) {
    double sum = 0, least = v[0], most = v[0];
    for (unsigned i = 0; i < n; i++) {
        sum += v[i];
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    double mean = sum / n;
    printf("{\"bench\": \"%s\", %s\"congestion\": \"%s\", \"figure\": \"%s\", \"mean\": %.5g",
           bench, with, controllers[controller], figure, mean);
    if (n > 1)
        printf(", \"least\": %.5g, \"greatest\": %.5g, \"runs\": %u", least, most, n);
    if (kind != NO_GOAL) {
        bool met = kind == AT_LEAST ? mean >= goal : mean <= goal;
        missed += !met;
        printf(", \"%s\": %.5g, \"met\": %s", kind == AT_LEAST ? "at_least" : "at_most", goal,
               met ? "true" : "false");
    }
    printf("}\n");
    fflush(stdout);
}

/* ---- the command ---- */

typedef struct bench_part {
    const char *name, *what;
    void (*run)(const bench_options *o);
    bool simulated;
} bench_part;

static const bench_part parts[] = {
    {"throughput", "messages of 1 MiB and 64 KiB, as a ratio to memcpy", bench_throughput, false},
    {"audited", "the same with both ends' transcripts", bench_audited, false},
    {"small", "messages of 64 bytes", bench_small, false},
    {"alone", "1 Gbit/s into 100 Mbit/s, 40 ms, a queue of 500 kB", bench_alone, true},
    {"beside_reno", "the same beside a NewReno flow", bench_beside_reno, true},
    {"four", "four links share it", bench_four, true},
    {"small_queue", "10 Mbit/s, 40 ms, a queue of 50 packets", bench_small_queue, true},
    {"marks", "the first one with ECN's marks above 100 kB", bench_marks, true},
    {"loss", "1, 5 and 20% of random loss at 1 Gbit/s, 2 ms", bench_loss, true},
    {"jobs", "messages accepted 10 and 100 ms late at 1 Gbit/s, 2 ms", bench_jobs, true},
    {"path_falls", "100 Mbit/s, 40 ms; packets of 9,000 bytes, then of 1,500 only",
     bench_path_falls, true},
    {"reorder", "one packet in 100 up to three round trips late", bench_reorder, true},
    {"tun", "UDP and TCP of the kernel through a relay (root, /dev/net/tun)", bench_tun, false},
};
#define PARTS (sizeof parts / sizeof parts[0])

static void help(void) {
    printf("bench_link [--quick] [--seeds N] [--congestion NAME] [--check] [PART...]\n\n"
           "What a link costs and how it bears a network, as JSON lines; figures with a goal say\n"
           "whether the mean of their runs meets it. PART is one of these, or \"net\" for those\n"
           "in virtual time, or a bench name of tun, such as tun_alone (default: all):\n\n");
    for (size_t i = 0; i < PARTS; i++)
        printf("  %-12s %s\n", parts[i].name, parts[i].what);
    printf("\n  --quick      2 seeds instead of 8, and shorter runs\n"
           "  --seeds N    runs of each figure in virtual time, 1 to %d\n"
           "  --congestion NAME  of all links on datagrams: bbr (the default), cubic or fixed\n"
           "  --check      exit status 1 if a goal was missed\n"
           "  --help       this text\n",
           BENCH_SEEDS_MAX);
}

static bool wanted(const bench_part *p, int names, char **name) {
    if (names == 0)
        return true;
    for (int i = 0; i < names; i++)
        if (strcmp(name[i], p->name) == 0 || (p->simulated && strcmp(name[i], "net") == 0))
            return true;
    return false;
}

static bool known(const char *name) {
    for (size_t i = 0; i < PARTS; i++)
        if (strcmp(name, parts[i].name) == 0)
            return true;
    return strcmp(name, "net") == 0;
}

int main(int argc, char **argv) {
    bench_options o = {.seeds = 0};
    bool checked = false;
    int names = 0;
    for (int i = 1; i < argc; i++) {
        char *end = NULL;
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 0;
        } else if (strcmp(argv[i], "--quick") == 0) {
            o.quick = true;
        } else if (strcmp(argv[i], "--check") == 0) {
            checked = true;
        } else if (strcmp(argv[i], "--congestion") == 0 && i + 1 < argc) {
            if (!controller_set(argv[++i]))
                return 2;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc) {
            unsigned long n = strtoul(argv[++i], &end, 10);
            o.seeds = *end == '\0' && n <= BENCH_SEEDS_MAX ? (unsigned)n : 0;
            if (o.seeds == 0) {
                fprintf(stderr, "bench_link: --seeds takes 1 to %d\n", BENCH_SEEDS_MAX);
                return 2;
            }
        } else if (strncmp(argv[i], "tun_", 4) == 0) {
            o.tun_scene = argv[i];
            argv[1 + names++] = "tun";
        } else if (known(argv[i])) {
            argv[1 + names++] = argv[i];
        } else {
            fprintf(stderr, "bench_link: no option or part %s (see --help)\n", argv[i]);
            return 2;
        }
    }
    if (o.seeds == 0)
        o.seeds = o.quick ? 2 : 8;
    for (size_t i = 0; i < PARTS; i++)
        if (wanted(&parts[i], names, argv + 1))
            parts[i].run(&o);
    return checked && missed != 0 ? 1 : 0;
}
