/* SPDX-License-Identifier: Apache-2.0 */
/* bench_link_net.c - links in a network of virtual time (net.h): what they make of a bottleneck,
 * whom they leave how much of it, what losses, jobs and a changing path cost them. Rates are in
 * frame bytes, so that a bottleneck of 100 Mbit/s carries 100 Mbit of frames in a second. */
#include "bench_link.h"
#include "net.h"

#include <stdio.h>

#define ACCESS 1e9
#define NOISE  10000u /* ns */

typedef struct figures {
    double v[BENCH_SEEDS_MAX];
} figures;

/* An arbitrary, even number in 0..below-1 of a seed. */
static uint64_t pick(uint64_t seed, uint64_t which, uint64_t below) {
    uint64_t z = (seed * 64 + which) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    return (z ^ z >> 27) % below;
}

static net *bottleneck(uint64_t seed, double rate, uint64_t bytes, uint32_t packets) {
    net_pipe_config p = {
        .rate = rate, .delay_ns = 20 * NET_MS, .queue_bytes = bytes, .queue_packets = packets};
    return net_new(&(net_config){.seed = seed, .noise_ns = NOISE, .pipe = {p, p}});
}

static net_link_config link_config(uint64_t start_ns) {
    return (net_link_config){
        .access_rate = ACCESS, .start_ns = NET_BEGIN + start_ns, .tune = bench_tune};
}

static net_figures read(net *n, int flow) {
    net_figures f;
    net_flow_figures(n, flow, &f);
    if (f.error != 0)
        fprintf(stderr, "bench_link: a flow failed: %s: %s\n", f.error_at,
                uvcc_error_text(f.error));
    return f;
}

static double wire_over_ideal(const net_figures *f) {
    return f->ideal_bytes == 0 ? 0 : (double)f->wire_bytes / f->ideal_bytes;
}

/* ---- a bottleneck ---- */

static void one(const bench_options *o, const char *name, double rate, uint64_t bytes,
                uint32_t packets, net_link_config host, double goal_share, double goal_wire) {
    uint64_t seconds = o->quick ? 10 : 20;
    figures share, wire, delay;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, rate, bytes, packets);
        net_link_config c = link_config(pick(i + 1, 0, 40 * NET_MS));
        c.timer_ns = host.timer_ns;
        c.stall_ns = host.stall_ns;
        c.stall_every_ns = host.stall_every_ns;
        int a = net_add_link(n, &c);
        net_run(n, c.start_ns + seconds * NET_S);
        net_figures f = read(n, a);
        share.v[i] = (double)f.frame_bytes * 8 / (double)seconds / rate;
        wire.v[i] = wire_over_ideal(&f);
        delay.v[i] = f.queue_ns / 1e6;
        net_free(n);
    }
    bench_figure(name, "", "goodput_share", share.v, o->seeds, goal_share != 0 ? AT_LEAST : NO_GOAL,
                 goal_share);
    bench_figure(name, "", "wire_over_ideal", wire.v, o->seeds, goal_wire != 0 ? AT_MOST : NO_GOAL,
                 goal_wire);
    bench_figure(name, "", "queue_ms", delay.v, o->seeds, NO_GOAL, 0);
}

void bench_alone(const bench_options *o) {
    one(o, "link_alone", 100e6, 500000, 0, (net_link_config){0}, 0.94, 1.05);
    one(o, "link_alone_timers_of_1_ms", 100e6, 500000, 0, (net_link_config){.timer_ns = NET_MS}, 0,
        0);
    one(o, "link_alone_busy_hosts", 100e6, 500000, 0,
        (net_link_config){.stall_ns = 20 * NET_MS, .stall_every_ns = 50 * NET_MS}, 0, 0);
}

void bench_small_queue(const bench_options *o) {
    one(o, "link_small_queue", 10e6, 0, 50, (net_link_config){0}, 0, 1.10);
}

static int feed_marked(uvcc_link *l, const uint8_t *data, size_t len, bool ce, uint64_t now) {
    return uvcc_link_feed_ecn(l, data, len, ce, now);
}

/* The same bottleneck, which marks packets that find 100 kB in its queue: all of the rate, and
 * nothing lost. */
void bench_marks(const bench_options *o) {
    uint64_t seconds = o->quick ? 10 : 20;
    figures share, delay, dropped;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 100e6, 500000, 0);
        net_pipe(n, NET_THERE)->mark_bytes = 100000;
        net_link_config c = link_config(pick(i + 1, 0, 40 * NET_MS));
        c.ecn = true;
        c.feed = feed_marked;
        int a = net_add_link(n, &c);
        net_run(n, c.start_ns + seconds * NET_S);
        net_figures f = read(n, a);
        share.v[i] = (double)f.frame_bytes * 8 / (double)seconds / 100e6;
        delay.v[i] = f.queue_ns / 1e6;
        dropped.v[i] = (double)f.dropped;
        net_free(n);
    }
    bench_figure("link_marks", "", "goodput_share", share.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_marks", "", "queue_ms", delay.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_marks", "", "packets_dropped", dropped.v, o->seeds, NO_GOAL, 0);
}

/* One of both begins up to a second before the other, by turns. */
void bench_beside_reno(const bench_options *o) {
    uint64_t seconds = o->quick ? 15 : 30;
    figures mine, reno, wire;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 100e6, 500000, 0);
        uint64_t later = pick(i + 1, 0, NET_S);
        net_link_config c = link_config(i % 2 == 0 ? later : 0);
        int a = net_add_link(n, &c);
        int b =
            net_add_reno(n, &(net_reno_config){.access_rate = ACCESS,
                                               .start_ns = NET_BEGIN + (i % 2 == 0 ? 0 : later)});
        net_run(n, NET_BEGIN + later); /* figures begin where both do */
        net_flow_mark(n, a);
        net_flow_mark(n, b);
        net_run(n, NET_BEGIN + later + seconds * NET_S);
        net_figures f = read(n, a), g = read(n, b);
        mine.v[i] = (double)f.frame_bytes * 8 / (double)seconds / 100e6;
        reno.v[i] = (double)g.frame_bytes * 8 / (double)seconds / 100e6;
        wire.v[i] = wire_over_ideal(&f);
        net_free(n);
    }
    bench_figure("link_beside_reno", "", "share", mine.v, o->seeds, AT_LEAST, 0.25);
    bench_figure("link_beside_reno", "", "reno_share", reno.v, o->seeds, AT_LEAST, 0.25);
    bench_figure("link_beside_reno", "", "wire_over_ideal", wire.v, o->seeds, NO_GOAL, 0);
}

/* Two NewReno flows: the scale for the figure above. */
static void two_renos(const bench_options *o) {
    uint64_t seconds = o->quick ? 15 : 30;
    figures less;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 100e6, 500000, 0);
        uint64_t later = pick(i + 1, 0, NET_S), got[2];
        int a = net_add_reno(n, &(net_reno_config){.access_rate = ACCESS});
        int b = net_add_reno(
            n, &(net_reno_config){.access_rate = ACCESS, .start_ns = NET_BEGIN + later});
        net_run(n, NET_BEGIN + later);
        net_flow_mark(n, a);
        net_run(n, NET_BEGIN + later + seconds * NET_S);
        got[0] = read(n, a).frame_bytes;
        got[1] = read(n, b).frame_bytes;
        less.v[i] = (double)(got[0] < got[1] ? got[0] : got[1]) * 8 / (double)seconds / 100e6;
        net_free(n);
    }
    bench_figure("reno_beside_reno", "", "lesser_share", less.v, o->seeds, NO_GOAL, 0);
}

void bench_four(const bench_options *o) {
    uint64_t seconds = o->quick ? 15 : 30;
    figures ratio, late, wire, sum;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 100e6, 500000, 0);
        int flow[4];
        double got[2][4], all = 0;
        for (unsigned k = 0; k < 4; k++) {
            net_link_config c = link_config(pick(i + 1, k, 200 * NET_MS));
            flow[k] = net_add_link(n, &c);
        }
        uint64_t end = NET_BEGIN + 200 * NET_MS + seconds * NET_S;
        wire.v[i] = 0;
        net_run(n, end - seconds / 2 * NET_S);
        for (unsigned k = 0; k < 4; k++)
            got[1][k] = (double)read(n, flow[k]).frame_bytes;
        net_run(n, end);
        for (unsigned k = 0; k < 4; k++) {
            net_figures f = read(n, flow[k]);
            got[0][k] = (double)f.frame_bytes;
            got[1][k] = got[0][k] - got[1][k];
            all += got[0][k];
            wire.v[i] += wire_over_ideal(&f) / 4;
        }
        for (int half = 0; half < 2; half++) {
            double least = got[half][0], most = least;
            for (unsigned k = 1; k < 4; k++) {
                least = got[half][k] < least ? got[half][k] : least;
                most = got[half][k] > most ? got[half][k] : most;
            }
            (half == 0 ? &ratio : &late)->v[i] = most / (least + 1);
        }
        sum.v[i] = all * 8 / (double)seconds / 100e6;
        net_free(n);
    }
    bench_figure("link_four", "", "most_over_least", ratio.v, o->seeds, AT_MOST, 1.5);
    bench_figure("link_four", "", "most_over_least_second_half", late.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_four", "", "share_of_all", sum.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_four", "", "wire_over_ideal", wire.v, o->seeds, NO_GOAL, 0);
    two_renos(o);
}

/* ---- loss without a bottleneck ---- */

/* Seconds of a transfer of 96 messages of 1 MiB at 1 Gbit/s, 1 ms each way. */
static double transfer(double loss, uint64_t seed, double *needless) {
    net_pipe_config p = {.delay_ns = NET_MS, .loss = loss};
    net *n = net_new(&(net_config){.seed = seed, .pipe = {p, p}});
    net_link_config c = link_config(0);
    c.messages = 96;
    int a = net_add_link(n, &c);
    bool done = net_run_flow(n, a, 120 * NET_S);
    net_figures f = read(n, a);
    double seconds = (double)((done ? f.finished_ns : net_now(n)) - NET_BEGIN) / 1e9;
    if (!done) /* as if the rest came at the same rate */
        seconds *= 96.0 / ((double)f.messages + 1e-9);
    *needless = (double)f.needless / ((double)f.frames + 1e-9);
    net_free(n);
    return seconds;
}

void bench_loss(const bench_options *o) {
    static const struct { double loss, goal; } rows[] = {{0.01, 0.98}, {0.05, 0.95}, {0.20, 0.90}};
    double needless, base = transfer(0, 1, &needless), rate = 96 * 8.388608 / base;
    bench_figure("link_lossless", "", "mbit_per_s", &rate, 1, NO_GOAL, 0);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        figures goodput, spurious;
        for (unsigned i = 0; i < o->seeds; i++)
            goodput.v[i] = base / transfer(rows[r].loss, (i + 1) * 1000003, &spurious.v[i]) /
                           (1 - rows[r].loss);
        char with[32];
        snprintf(with, sizeof with, "\"loss\": %.2f, ", rows[r].loss);
        bench_figure("link_loss", with, "goodput_of_possible", goodput.v, o->seeds, AT_LEAST,
                     rows[r].goal);
        bench_figure("link_loss", with, "needless_share", spurious.v, o->seeds, NO_GOAL, 0);
    }
}

/* ---- messages that are accepted late ---- */

static net_figures with_jobs(uint64_t seed, uint32_t message_bytes, uint64_t job_ns) {
    net_pipe_config p = {.delay_ns = NET_MS};
    net *n = net_new(&(net_config){.seed = seed, .noise_ns = NOISE, .pipe = {p, p}});
    net_link_config c = link_config(0);
    c.message_bytes = message_bytes;
    c.job_ns = job_ns;
    int a = net_add_link(n, &c);
    net_run(n, NET_S / 2);
    net_flow_mark(n, a);
    net_run(n, 3 * NET_S / 2);
    net_figures f = read(n, a);
    net_free(n);
    return f;
}

void bench_jobs(const bench_options *o) {
    static const uint32_t sizes[] = {1u << 20, 32u << 10};
    for (size_t s = 0; s < 2; s++) {
        figures base;
        for (unsigned i = 0; i < o->seeds; i++)
            base.v[i] = (double)with_jobs(i + 1, sizes[s], 0).frame_bytes;
        for (uint64_t ms = 10; ms <= 100; ms *= 10) {
            figures needless, goodput, wire;
            for (unsigned i = 0; i < o->seeds; i++) {
                net_figures f = with_jobs(i + 1, sizes[s], ms * NET_MS);
                needless.v[i] = (double)f.needless;
                goodput.v[i] = (double)f.frame_bytes / base.v[i];
                wire.v[i] = wire_over_ideal(&f);
            }
            char with[64];
            snprintf(with, sizeof with, "\"job_ms\": %u, \"message_bytes\": %u, ", (unsigned)ms,
                     sizes[s]);
            bench_figure("link_jobs", with, "needless_frames", needless.v, o->seeds, AT_MOST, 0);
            bench_figure("link_jobs", with, "goodput_of_without", goodput.v, o->seeds, AT_LEAST,
                         0.95);
            bench_figure("link_jobs", with, "wire_over_ideal", wire.v, o->seeds, NO_GOAL, 0);
        }
    }
}

/* ---- a path that changes ---- */

void bench_path_falls(const bench_options *o) {
    figures gap, after, before;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 0, 0, 0); /* no queue in which probes are lost */
        net_link_config c = link_config(0);
        c.access_rate = 100e6;
        c.datagram_bytes = 9000 - 28;
        int a = net_add_link(n, &c);
        for (int way = 0; way < 2; way++)
            net_pipe(n, way)->path_bytes = 9000 - 28;
        uint64_t falls = 2 * NET_S + pick(i + 1, 0, NET_S);
        net_run(n, falls - NET_S);
        net_flow_mark(n, a);
        net_run(n, falls);
        net_figures f = read(n, a);
        before.v[i] = (double)f.wire_bytes / (double)f.wire_packets;
        net_flow_mark(n, a);
        for (int way = 0; way < 2; way++)
            net_pipe(n, way)->path_bytes = 1500 - 28;
        net_run(n, falls + 10 * NET_S);
        f = read(n, a);
        gap.v[i] = (double)f.gap_ns / 1e9;
        after.v[i] = (double)f.frame_bytes * 8 / 10 / 100e6;
        net_free(n);
    }
    bench_figure("link_path_falls", "", "packet_bytes_before", before.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_path_falls", "", "silent_s", gap.v, o->seeds, AT_MOST, 2);
    bench_figure("link_path_falls", "", "goodput_share_of_10_s", after.v, o->seeds, NO_GOAL, 0);
}

/* One packet in a hundred comes up to three round trips late. */
void bench_reorder(const bench_options *o) {
    figures share, needless;
    for (unsigned i = 0; i < o->seeds; i++) {
        net *n = bottleneck(i + 1, 100e6, 500000, 0);
        net_pipe(n, NET_THERE)->reorder = 0.01;
        net_pipe(n, NET_THERE)->reorder_ns = 120 * NET_MS;
        net_link_config c = link_config(pick(i + 1, 0, 40 * NET_MS));
        int a = net_add_link(n, &c);
        net_run(n, c.start_ns + 10 * NET_S);
        net_figures f = read(n, a);
        share.v[i] = (double)f.frame_bytes * 8 / 10 / 100e6;
        needless.v[i] = (double)f.needless / (double)f.frames;
        net_free(n);
    }
    bench_figure("link_reorder", "", "goodput_share", share.v, o->seeds, NO_GOAL, 0);
    bench_figure("link_reorder", "", "needless_share", needless.v, o->seeds, NO_GOAL, 0);
}
