/* SPDX-License-Identifier: Apache-2.0 */
/* script.c - what befalls a run from outside at its appointed times: deaths, clocks that jump or
 * stop, cut links, and at calm_at_ns the end of all that. */
#include "world.h"

/* ---- deaths ---- */

enum { DEATHS_MAX = 5 };

/* One dies, or two; the others live on until they hear of it, and begin anew then. The next death
 * comes soon, often: into the handshake of this restart, or the end of a session before it. */
static void kill_alone(sim_world *w) {
    sim_random *r = &w->lone;
    const uint64_t now = sim_now(w);
    const bool two = sim_below(r, 4) == 0;
    const uint8_t also = (uint8_t)((w->kill_party + 1 + sim_below(r, 2)) % 3);
    const uint64_t apart = sim_some_time(r, 10000, 300 * SIM_MS);
    const uint64_t away = sim_some_time(r, 10000, 300 * SIM_MS);
    const uint64_t also_away = sim_some_time(r, 10000, 300 * SIM_MS);
    sim_party *p = &w->party[w->kill_party], *q = &w->party[also];
    w->out->restarts++;
    w->out->injected++;
    w->lonely = true;
    sim_die(p);
    p->dies_at = UVCC_NEVER;
    p->rebuild_at = now + 1 + away;
    if (two) {
        q->dies_at = now + apart;
        q->rebuild_at = q->dies_at + 1 + also_away;
    }
    const bool again = sim_below(r, 2) == 0 && w->out->restarts < DEATHS_MAX;
    const bool soon = sim_below(r, 2) == 0;
    const uint64_t wait = sim_some_time(r, 10000, soon ? 300 * SIM_MS : 3 * SIM_S);
    w->kill_party = (uint8_t)sim_below(r, 3);
    w->kill_at = again ? p->rebuild_at + wait : UVCC_NEVER;
    w->kill_alone = sim_below(r, 2) == 0;
}

/* A victim dies, then the others (a restart of one is a restart of all); each comes back when it
 * likes. The victim may be back before the others have noticed. */
static void kill_all(sim_world *w) {
    sim_random *r = &w->r[SIM_RESTART];
    uint64_t now = sim_now(w), last = 0;
    bool ran = true; /* else it would come into a handshake of which the others die later */
    for (unsigned i = 0; i < 3; i++)
        ran &= w->party[i].greatest_run != UINT32_MAX;
    bool eager = w->plan->untidy && ran && sim_below(r, 2) == 0;
    w->out->restarts++;
    w->out->injected++;
    for (unsigned i = 0; i < 3; i++) {
        sim_party *p = &w->party[i];
        p->dies_at = now + (i == w->kill_party ? 0 : sim_some_time(r, 10000, 300 * SIM_MS));
        last = p->dies_at > last ? p->dies_at : last;
    }
    for (unsigned i = 0; i < 3; i++)
        w->party[i].rebuild_at =
            (eager && i == w->kill_party ? now : last) + 1 + sim_some_time(r, 10000, 300 * SIM_MS);
    sim_die(&w->party[w->kill_party]);
    w->party[w->kill_party].dies_at = UVCC_NEVER;
    bool again =
        sim_below(r, 3) == 0 && w->plan->next_run < 1u << 20 && w->out->restarts < DEATHS_MAX;
    w->kill_party = (uint8_t)sim_below(r, 3);
    w->kill_at = again ? last + SIM_S + sim_some_time(r, SIM_MS, 2 * SIM_S) : UVCC_NEVER;
    w->kill_alone = again && sim_below(&w->lone, 2) == 0;
}

/* When the first one dies, and whether alone: at any time or, in half of the runs in which it does,
 * when a step but the first begins, after which nobody can begin anew. Runs near the last one are
 * too few for restarts that wait for each other. */
void sim_first_death(sim_world *w) {
    const sim_plan *plan = w->plan;
    w->kill_party = (uint8_t)sim_below(&w->r[SIM_RESTART], 3);
    w->kill_at = sim_some_time(&w->r[SIM_RESTART], 500000, plan->calm_at_ns / 2);
    w->kill_alone = sim_below(&w->lone, 2) == 0 && plan->next_run < 1u << 20;
    if (!w->kill_alone || w->work->steps < 2 || sim_below(&w->lone, 2) == 0)
        return;
    w->kill_at = UVCC_NEVER;
    w->kill_step = 1 + (uint32_t)sim_below(&w->lone, w->work->steps - 1);
}

void sim_step_begun(sim_world *w, uint32_t step) {
    if (step != w->kill_step || step == 0 || w->calm)
        return;
    w->kill_step = 0;
    w->kill_at = sim_now(w) + sim_some_time(&w->lone, 10000, 30 * SIM_MS);
}

/* ---- clocks, cuts, the calm ---- */

static void upset_clock(sim_world *w) {
    static const sim_fault kinds[] = {SIM_CLOCK_AHEAD, SIM_CLOCK_STOP, SIM_CLOCK_BACK};
    for (unsigned i = 0; i < 3; i++) {
        sim_fault f = kinds[i];
        sim_random *r = &w->r[f];
        sim_party *p = &w->party[sim_below(r, w->nodes)];
        uint64_t ns = sim_some_time(r, 100000, f == SIM_CLOCK_STOP ? 2 * SIM_S : 3600 * SIM_S);
        bool hit = sim_below(r, 3) == 0;
        if (!sim_on(w, f) || !hit || p->stands_until > sim_now(w))
            continue;
        w->out->injected++;
        if (f == SIM_CLOCK_AHEAD) {
            p->skew += ns;
        } else if (f == SIM_CLOCK_STOP) {
            p->stands_at = sim_local(p);
            p->stands_until = sim_now(w) + ns;
            p->loses = ns % 2 == 0;
            if (p->loses)
                p->skew -= ns;
        } else {
            p->skew -= ns;
            w->back_ns += ns;
        }
        if (p->s != NULL)
            sim_arm(p, false);
    }
}

static void cut_one(sim_world *w) {
    sim_random *r = &w->r[SIM_CUT];
    uint64_t now = sim_now(w);
    (void)uvcc_loopback_cut(w->net, w->cut_from, w->cut_to, false);
    uint32_t triangle = (uint32_t)sim_below(r, w->nodes / 3);
    w->cut_from = 3 * triangle + (uint32_t)sim_below(r, 3);
    w->cut_to = 3 * triangle + (w->cut_from % 3 + 1 + (uint32_t)sim_below(r, 2)) % 3;
    (void)uvcc_loopback_cut(w->net, w->cut_from, w->cut_to, true);
    w->uncut_at = now + sim_some_time(r, SIM_MS, 2 * SIM_S);
    w->next_cut = w->uncut_at + sim_some_time(r, SIM_MS, SIM_S);
    w->out->injected++;
}

/* The path carries less, or more, from now on; and it stays so when the faults are over. */
static void change_path(sim_world *w) {
    bool first = w->next_path == w->plan->path_at_ns;
    w->path_bytes = first ? w->plan->path_bytes : w->plan->path_again_bytes;
    w->next_path = first ? w->plan->path_again_ns : UVCC_NEVER;
}

static void calm(sim_world *w) {
    bool hostile = sim_on(w, SIM_HOSTILE), acks = sim_on(w, SIM_ACKS);
    w->calm = true;
    w->faults = 0;
    w->kill_at = w->next_clock = w->next_cut = w->uncut_at = UVCC_NEVER;
    (void)uvcc_loopback_set_all_faults(w->net, NULL);
    for (uint32_t a = 0; a < w->nodes; a++) {
        sim_party *p = &w->party[a];
        for (uint32_t b = 0; b < w->nodes; b++) {
            if (a == b)
                continue;
            (void)uvcc_loopback_cut(w->net, a, b, false);
            if (!w->plan->datagram &&
                ((hostile && a == w->plan->hostile_party) || (acks && a == w->plan->acks_party)))
                (void)uvcc_loopback_disconnect(w->net, a, b); /* what was mutated is under way */
        }
        if (p->stands_until > sim_now(w)) {
            p->skew += p->loses ? p->stands_until - sim_now(w) : 0;
            p->stands_until = sim_now(w);
        }
        sim_jobs_calm(p);
        for (unsigned q = 0; q < 3; q++)
            p->slot[q].due = 0;
        p->mem.fail_at = 0;
        sim_settle(p);
    }
}

/* In a repetition of restarts: all die as soon as all can resume where the next run did. */
static void next_life(sim_world *w) {
    if (w->again == NULL || w->life + 1 >= w->again->lives)
        return;
    uint32_t base = w->again->life[w->life + 1].base;
    for (unsigned i = 0; i < 3; i++)
        if (base != 0 && sim_kept_at(&w->party[i], w->plan->first_step + base, NULL) == NULL)
            return;
    w->life++;
    for (unsigned i = 0; i < 3; i++)
        sim_die(&w->party[i]);
    for (unsigned i = 0; i < 3; i++) {
        sim_party *p = &w->party[i];
        sim_forget(p, base == 0 ? NULL : sim_kept_at(p, w->plan->first_step + base, NULL));
        p->past_first = base != 0;
        (void)sim_build(p);
    }
}

void sim_script(sim_world *w) {
    uint64_t now = sim_now(w);
    next_life(w);
    if (!w->calm && w->plan->calm_at_ns <= now)
        calm(w);
    if (w->kill_at <= now)
        (w->kill_alone ? kill_alone : kill_all)(w);
    if (w->next_clock <= now) {
        upset_clock(w);
        w->next_clock = now + sim_some_time(&w->compute, SIM_MS, 500 * SIM_MS);
    }
    if (w->uncut_at <= now) {
        (void)uvcc_loopback_cut(w->net, w->cut_from, w->cut_to, false);
        w->uncut_at = UVCC_NEVER;
    }
    if (w->next_cut <= now)
        cut_one(w);
    if (w->next_path <= now)
        change_path(w);
}
