/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what a seed draws before its run, and the random streams. */
#include "sim.h"
#include <uvcc/loopback.h>

#define GOLDEN UINT64_C(0x9E3779B97F4A7C15)

const char *const sim_fault_words[SIM_FAULTS] = {
#define SIM_WORD(name, word) word,
    SIM_FAULT_LIST(SIM_WORD)
#undef SIM_WORD
};

uint64_t sim_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

sim_random sim_stream(uint64_t seed, unsigned concern) {
    return (sim_random){sim_mix(sim_mix(seed + GOLDEN) + GOLDEN * (concern + 1))};
}

uint64_t sim_next(sim_random *r) {
    return sim_mix(r->state += GOLDEN);
}

uint64_t sim_below(sim_random *r, uint64_t n) {
    return sim_next(r) % n;
}

static double unit(sim_random *r) {
    return (double)(sim_next(r) >> 11) * 0x1p-53;
}

bool sim_hit(sim_random *r, double rate) {
    return unit(r) < rate;
}

/* How often a class is on at all, and its greatest rate. */
static const struct {
    double on, most;
} rates[SIM_FAULTS] = {
    [SIM_DROP] = {2. / 3, 0.4},        [SIM_DUPLICATE] = {2. / 3, 0.4},
    [SIM_REORDER] = {2. / 3, 0.5},     [SIM_CORRUPT] = {2. / 3, 0.05},
    [SIM_TRUNCATE] = {2. / 3, 0.05},   [SIM_SPLIT] = {2. / 3, 0.9},
    [SIM_COALESCE] = {2. / 3, 0.5},    [SIM_JITTER] = {2. / 3, 1},
    [SIM_BANDWIDTH] = {1. / 3, 1},     [SIM_STALL] = {2. / 3, 0.03},
    [SIM_DISCONNECT] = {2. / 3, 0.05}, [SIM_PARTIAL] = {2. / 3, 0.8},
    [SIM_CUT] = {2. / 3, 1},           [SIM_TX_HELD] = {2. / 3, 0.3},
    [SIM_CLOCK_AHEAD] = {1. / 3, 1},   [SIM_CLOCK_STOP] = {1. / 3, 1},
    [SIM_CLOCK_BACK] = {1. / 4, 1},    [SIM_TIMER_LATE] = {2. / 3, 0.3},
    [SIM_TIMER_EARLY] = {2. / 3, 0.3}, [SIM_JOB_LATE] = {2. / 3, 0.3},
    [SIM_JOB_SHUFFLE] = {2. / 3, 1},   [SIM_JOB_TWICE] = {2. / 3, 0.3},
    [SIM_JOB_STALE] = {2. / 3, 0.3},   [SIM_JOB_LOST] = {1. / 8, 0.02},
    [SIM_JOB_FAIL] = {1. / 24, 0.02},  [SIM_ALLOC] = {1. / 10, 1},
    [SIM_RESTART] = {1. / 4, 1},       [SIM_SAME_RANDOM] = {1. / 2, 1},
    [SIM_HOSTILE] = {1. / 8, 0.5},     [SIM_PATH] = {1. / 2, 1},
    [SIM_BOTTLENECK] = {1. / 3, 1},    [SIM_ACKS] = {1. / 4, 1},
    [SIM_ACCEPT] = {1. / 2, 1},        [SIM_CANCEL] = {1. / 4, 0.04},
};

/* Rates near 0 are more frequent than those near the greatest. */
static double rate_of(sim_random *r, double most) {
    double u = unit(r);
    return most * u * u;
}

static void draw_link(sim_plan *p) {
    const double *rate = p->rate;
    sim_random r = sim_stream(p->seed, SIM_STREAM_PLAN + 50);
    uint64_t delay = 20000 + sim_below(&r, 2 * SIM_MS), bandwidth = 1000000u << sim_below(&r, 8);
    p->link = (uvcc_fault_config){.drop = rate[SIM_DROP],
                                  .duplicate = rate[SIM_DUPLICATE],
                                  .reorder = rate[SIM_REORDER],
                                  .corrupt = rate[SIM_CORRUPT],
                                  .truncate = rate[SIM_TRUNCATE],
                                  .split = rate[SIM_SPLIT],
                                  .coalesce = rate[SIM_COALESCE],
                                  .stall = rate[SIM_STALL],
                                  .disconnect = rate[SIM_DISCONNECT],
                                  .partial = rate[SIM_PARTIAL],
                                  .delay_ns = delay,
                                  .jitter_ns = (uint64_t)(rate[SIM_JITTER] * 5e6),
                                  .stall_ns = 1 + sim_below(&r, 300 * SIM_MS),
                                  .disconnect_ns = 1 + sim_below(&r, 100 * SIM_MS)};
    if ((p->faults & SIM_BIT(SIM_BANDWIDTH)) != 0) {
        p->link.bandwidth_bps = bandwidth;
        p->link.queue_bytes = 4096u << sim_below(&r, 12);
    }
}

/* Paths that shrink, and may widen again, and ways out that are narrow. Any packet up to 1,232
 * bytes gets through: that is what every path carries. In some seeds nothing else
 * is on: there times and counts can be judged. */
static void draw_paths(sim_plan *p) {
    sim_random r = sim_stream(p->seed, SIM_STREAM_PLAN + 51);
    uint64_t at = SIM_MS << sim_below(&r, 12);
    uint64_t again = at + 1 + sim_below(&r, 3 * SIM_S);
    uint32_t bytes = 1232 + (uint32_t)sim_below(&r, sim_below(&r, 2) == 0 ? 300 : 6900);
    uint32_t wider = sim_below(&r, 2) == 0 ? 0 : bytes + (uint32_t)sim_below(&r, 4000);
    bool widens = sim_below(&r, 2) == 0;
    uint64_t rate = UINT64_C(1000000) << sim_below(&r, 7);
    uint64_t queue = (10 + sim_below(&r, 190)) * 1232;
    bool alone = sim_below(&r, 5) == 0;
    uint64_t one = SIM_BIT(sim_below(&r, 2) == 0 ? SIM_PATH : SIM_ACCEPT);
    p->acks_party = (uint8_t)sim_below(&r, 3);
    if (alone && (p->faults & one) != 0) {
        p->faults &= one | SIM_ALONE_FAULTS;
        p->link = (uvcc_fault_config){.delay_ns = p->link.delay_ns};
        p->datagram = true;
        p->datagram_bytes = 8192;
        p->rto_initial_ns = 0; /* above any round trip here */
    }
    p->path_at_ns = p->path_again_ns = UVCC_NEVER;
    if ((p->faults & SIM_BIT(SIM_PATH)) != 0) {
        p->path_at_ns = at;
        p->path_bytes = bytes;
        p->path_again_ns = widens ? again : UVCC_NEVER;
        p->path_again_bytes = wider;
    }
    if ((p->faults & SIM_BIT(SIM_BOTTLENECK)) != 0) {
        p->bottleneck_bps = rate;
        p->bottleneck_bytes = queue;
    }
}

/* How long peers may be silent, and how long a session waits at its end. A host that steps keeps a
 * peer's clock: what was silence is not told with certainty then, but its events keep their order.
 */
static void draw_patience(sim_plan *p) {
    sim_random r = sim_stream(p->seed, SIM_STREAM_PLAN + 52);
    static const uint64_t ends[] = {0, 200 * SIM_MS, SIM_S, 10 * SIM_S};
    uint64_t silence = 2 * SIM_S + sim_below(&r, 4 * SIM_S);
    uint64_t shorter = 100 * SIM_MS << sim_below(&r, 6); /* sessions choose their PINGs */
    if (p->keepalive_ns == 0 && sim_below(&r, 2) == 0)
        silence = shorter;
    /* A clock that steps back may hold a run up for an hour, with a timer at each quarter of it. */
    if ((p->faults & SIM_BIT(SIM_CLOCK_BACK)) != 0 && silence < 2 * SIM_S)
        silence = 2 * SIM_S;
    bool watched = sim_below(&r, 2) == 0;
    p->silence_ns = watched && p->keepalive_ns != UVCC_NEVER ? silence : 0;
    p->close_ns = ends[sim_below(&r, 4)];
}

/* What paces datagrams; parties may differ, and some have a bound of their own. */
static void draw_controllers(sim_plan *p) {
    sim_random r = sim_stream(p->seed, SIM_STREAM_PLAN + 53);
    bool same = sim_below(&r, 2) == 0;
    uint32_t first = (uint32_t)sim_below(&r, 3);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t other = (uint32_t)sim_below(&r, 3);
        p->congestion |= (same ? first : other) << (2 * i);
    }
    uint64_t rate = UINT64_C(100000) << sim_below(&r, 8);
    p->rate_bytes_per_s = sim_below(&r, 3) == 0 ? rate : 0;
}

/* Every class of faults draws from a stream of its own, in any case: leaving one out, as minimising
 * does, must not change the others. */
void sim_plan_draw(sim_plan *p, uint64_t seed, uint64_t without) {
    *p = (sim_plan){.seed = seed};
    sim_random r = sim_stream(seed, SIM_STREAM_PLAN);
    bool still = sim_below(&r, 8) == 0; /* no link faults at all */
    for (unsigned f = 0; f < SIM_FAULTS; f++) {
        sim_random own = sim_stream(seed, SIM_STREAM_PLAN + 100 + f);
        bool on = sim_hit(&own, rates[f].on);
        double rate = rate_of(&own, rates[f].most);
        if (!on || (still && (SIM_LINK_FAULTS & SIM_BIT(f)) != 0) || (without & SIM_BIT(f)) != 0)
            continue;
        p->faults |= SIM_BIT(f);
        p->rate[f] = rate;
    }
    p->keeps = (p->faults & SIM_BIT(SIM_RESTART)) != 0;
    p->triangles = sim_below(&r, 12) == 0 ? 2 : 1;
    p->datagram = sim_below(&r, 2) == 0;
    p->exchange = sim_below(&r, 8) == 0;
    p->audit_off = sim_below(&r, 8) == 0;
    p->ahead = sim_below(&r, 2) == 0;
    p->untidy = sim_below(&r, 2) == 0;
    p->suites = (uint8_t)sim_below(&r, 4);
    p->frame_bytes = sim_below(&r, 2) == 0 ? 0 : 256u << sim_below(&r, 6);
    p->datagram_bytes = sim_below(&r, 2) == 0 ? 0 : 8192;
    p->small_credit = sim_below(&r, 2) == 0;
    bool high = sim_below(&r, 8) == 0;
    p->first_step = high ? UINT32_MAX - 7 : (uint32_t)sim_below(&r, 3);
    p->next_run = high ? (1u << 24) - 2 - (uint32_t)sim_below(&r, 2) : (uint32_t)sim_below(&r, 3);
    p->rto_initial_ns = sim_below(&r, 2) == 0 ? 0 : 1 * SIM_MS << sim_below(&r, 6);
    p->rto_max_ns = sim_below(&r, 2) == 0 ? 0 : 500 * SIM_MS;
    uint64_t alive = sim_below(&r, 4);
    p->keepalive_ns = alive == 0 ? SIM_S : alive == 1 ? UVCC_NEVER : 0;
    p->calm_at_ns = 100 * SIM_MS << sim_below(&r, 8);
    p->hostile_party = (uint8_t)sim_below(&r, 3);
    p->alloc_party = (uint8_t)sim_below(&r, 3);
    p->alloc_place = unit(&r);
    draw_link(p);
    draw_paths(p);
    draw_patience(p);
    draw_controllers(p);
}
