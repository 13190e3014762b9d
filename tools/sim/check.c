/* SPDX-License-Identifier: Apache-2.0 */
/* check.c - what must hold of a run at one time: when its faults end, and when it is over. What
 * must hold all the time is checked where it happens. */
#include "world.h"
#include <sodium.h>
#include <string.h>
#include <uvcc/audit.h>

#define MEMORY_SLACK   (1u << 20)
#define MEMORY_TIMES   4u
#define FRAMES_TIMES   4u
#define FRAMES_SLACK   400u
#define INPUT_FRAMES   400u
#define NEEDLESS_PART  10u
#define NEEDLESS_SLACK 5u
#define SPURIOUS_SLACK 12u

/* What a party signed of its first step is a statement of that step and run, and of no other. A run
 * that goes on from a checkpoint states an earlier history besides, which nobody here knows. */
void sim_check_statement(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    static const uint8_t zero[32];
    uint8_t sid_job[32], seed[32], key[32], sk[64];
    if (w->plan->audit_off || p->base != 0 || e->step != w->plan->first_step)
        return;
    memset(sid_job, 0x20 + p->triangle, sizeof sid_job);
    memset(seed, 0x40 + p->node, sizeof seed);
    (void)crypto_sign_seed_keypair(key, sk, seed);
    const uvcc_statement good = {.scope = UVCC_SCOPE_WORKER,
                                 .party = p->index,
                                 .replicas = 1,
                                 .stages = 1,
                                 .tp_ranks = 1,
                                 .run = e->run,
                                 .step = e->step,
                                 .first = e->step,
                                 .sid_job = sid_job,
                                 .root = e->root,
                                 .audit_root = e->audit_root,
                                 .before = zero,
                                 .policy_hash = zero};
    uvcc_statement next = good, later = good;
    next.step++;
    later.run++;
    if (uvcc_statement_check(&good, key, e->signature) != 0)
        sim_fail(w, "party %u: what it signed of step %u does not verify", p->index, e->step);
    if (uvcc_statement_check(&next, key, e->signature) == 0)
        sim_fail(w, "party %u: what it signed of step %u passes for step %u", p->index, e->step,
                 next.step);
    if (uvcc_statement_check(&later, key, e->signature) == 0)
        sim_fail(w, "party %u: what it signed in run %u passes for run %u", p->index, e->run,
                 later.run);
}

/* No ACK has passed a message that is not accepted yet, so its sender still has it: as many as this
 * party holds, by the jobs that hash them. */
void sim_check_held(sim_party *p) {
    const sim_world *w = p->w;
    const uint64_t off = SIM_BIT(SIM_RESTART) | SIM_BIT(SIM_HOSTILE) | SIM_BIT(SIM_ALLOC);
    uint64_t held = 0, unacked = 0;
    if ((w->plan->faults & off) != 0 || w->out->aborts != 0 || p->closed)
        return;
    for (uint32_t k = 0; k < p->job_count; k++)
        held += p->jobs[k].receives;
    for (uint8_t q = 0; q < 3; q++) {
        const sim_party *from = &w->party[3 * p->triangle + q];
        uvcc_peer_info i = {.size = sizeof i};
        if (q == p->index)
            continue;
        if (from->s == NULL || uvcc_session_peer_info(from->s, p->index, &i) != 0)
            return;
        unacked += i.unacked_messages;
    }
    if (unacked < held)
        sim_fail(p->w,
                 "party %u has not accepted %llu messages yet, of which its peers take %llu for "
                 "accepted",
                 p->index, (unsigned long long)held, (unsigned long long)(held - unacked));
}

/* Where only the path changes, or what a sender is used to. */
bool sim_path_judged(const sim_world *w) {
    uint64_t off = SIM_BIT(SIM_CUT) | SIM_BIT(SIM_STALL) | SIM_BIT(SIM_DROP) |
                   SIM_BIT(SIM_BANDWIDTH) | SIM_BIT(SIM_BOTTLENECK) | SIM_BIT(SIM_CLOCK_AHEAD) |
                   SIM_BIT(SIM_CLOCK_STOP) | SIM_BIT(SIM_CLOCK_BACK) | SIM_BIT(SIM_RESTART) |
                   SIM_BIT(SIM_HOSTILE) | SIM_BIT(SIM_ALLOC) | SIM_BIT(SIM_ACKS) |
                   SIM_BIT(SIM_CORRUPT) | SIM_BIT(SIM_TRUNCATE);
    return (w->plan->faults & off) == 0 && w->out->aborts == 0;
}

/* What a path stopped carrying is not left behind. */
void sim_check_path(sim_world *w) {
    uint64_t now = sim_now(w);
    for (uint32_t a = 0; a < w->nodes && sim_path_judged(w); a++)
        for (uint32_t b = 0; b < w->nodes; b++) {
            const sim_pipe *pipe = &w->pipe[a][b];
            if (pipe->lost_seq != 0 && now - pipe->lost_at > SIM_PATH_NS && !w->party[a].closed &&
                !w->party[b].closed)
                sim_fail(w, "party %u: what the path stopped carrying did not go again for %.2f s",
                         a % 3, (double)(now - pipe->lost_at) * 1e-9);
        }
}

/* Where nothing is lost and nobody troubles clocks, hardly a frame goes twice: what takes time to
 * be accepted was told to have come. */
static void check_needless(sim_party *p, const uvcc_session_stats *st) {
    sim_world *w = p->w;
    uint64_t fine = SIM_ALONE_FAULTS | SIM_BIT(SIM_ACCEPT);
    if (!w->plan->datagram || (w->plan->faults & ~fine) != 0 || w->out->aborts != 0)
        return;
    double part = (double)st->retransmissions / (double)(st->messages + 1);
    if (part > w->out->needless)
        w->out->needless = part;
    if (st->retransmissions > st->messages / NEEDLESS_PART + NEEDLESS_SLACK)
        sim_fail(w, "party %u sends %llu frames again that came, of %llu messages", p->index,
                 (unsigned long long)st->retransmissions, (unsigned long long)st->messages);
}

/* What was sent needlessly is what came twice: no more is counted, and all but what the last ACKs
 * would have told. A host whose clock stands may not tell before the others have closed. */
void sim_check_spurious(sim_world *w) {
    uint64_t off = SIM_BIT(SIM_DUPLICATE) | SIM_BIT(SIM_HOSTILE) | SIM_BIT(SIM_RESTART) |
                   SIM_BIT(SIM_ALLOC) | SIM_BIT(SIM_CORRUPT) | SIM_BIT(SIM_TRUNCATE) |
                   SIM_BIT(SIM_JOB_FAIL) | SIM_BIT(SIM_ACKS) | SIM_BIT(SIM_CLOCK_AHEAD) |
                   SIM_BIT(SIM_CLOCK_STOP) | SIM_BIT(SIM_CLOCK_BACK);
    uint64_t spurious = 0, twice = 0;
    if (!w->plan->datagram || (w->plan->faults & off) != 0 || w->out->aborts != 0)
        return;
    for (uint32_t i = 0; i < w->nodes; i++) {
        uvcc_session_stats st;
        if (w->party[i].s == NULL)
            return;
        uvcc_session_get_stats(w->party[i].s, &st);
        spurious += st.spurious_retransmissions;
        twice += st.frames_duplicate;
    }
    if (spurious > twice || twice > spurious + spurious / 8 + SPURIOUS_SLACK)
        sim_fail(w, "%llu frames came twice, %llu were counted as sent needlessly",
                 (unsigned long long)twice, (unsigned long long)spurious);
}

/* What the session counted is what its host did, and it took no more memory than it may. */
void sim_check_end(sim_party *p) {
    sim_world *w = p->w;
    uvcc_session_stats st;
    uvcc_session_get_stats(p->s, &st);
    w->out->messages += st.messages;
    if (st.jobs != p->handed || p->handed != p->completed)
        sim_fail(w, "party %u: %llu jobs were taken, %llu completed, %llu counted", p->index,
                 (unsigned long long)p->handed, (unsigned long long)p->completed,
                 (unsigned long long)st.jobs);
    if (st.jobs_stale != p->stale)
        sim_fail(w, "party %u: %llu stale completions, %llu counted", p->index,
                 (unsigned long long)p->stale, (unsigned long long)st.jobs_stale);
    uint64_t harm = SIM_BIT(SIM_CORRUPT) | SIM_BIT(SIM_TRUNCATE) | SIM_BIT(SIM_HOSTILE) |
                    SIM_BIT(SIM_RESTART) | SIM_BIT(SIM_ALLOC);
    if ((w->plan->faults & harm) == 0 && st.frames_refused != p->refused)
        sim_fail(w, "party %u refused %llu frames that nobody harmed", p->index,
                 (unsigned long long)(st.frames_refused - p->refused));
    /* A digest has a leaf, two commitments one of their lift besides; a coin has one; four digests
     * of a verdict make two, of triple and verdict. */
    uint64_t leaves = p->finished - p->base + p->hash_items + p->commit_items / 2 + p->coins +
                      p->verdict_items / 2;
    leaves = w->plan->audit_off ? 0 : leaves;
    if (!p->aborted && w->out->aborts == 0 && st.steps_cancelled == 0 && st.leaves != leaves)
        sim_fail(w, "party %u: %llu leaves, not %llu", p->index, (unsigned long long)st.leaves,
                 (unsigned long long)leaves);
    check_needless(p, &st);
    if (w->clean == NULL || p->triangle != 0)
        return;
    double usual = (double)w->clean->memory_peak[p->index];
    double ratio = (double)st.memory_peak_bytes / usual;
    if (ratio > w->out->memory_ratio)
        w->out->memory_ratio = ratio;
    if (st.memory_peak_bytes > MEMORY_TIMES * w->clean->memory_peak[p->index] + MEMORY_SLACK)
        sim_fail(w, "party %u takes %llu bytes, usually %.0f", p->index,
                 (unsigned long long)st.memory_peak_bytes, usual);
}

/* It sent no more than what came gave it reason to. */
void sim_check_work(sim_party *p) {
    sim_world *w = p->w;
    uint64_t frames = 0;
    for (uint32_t b = 0; b < w->nodes; b++)
        frames += w->pipe[p->node][b].frames;
    if (w->clean == NULL || p->triangle != 0) {
        w->record->frames[p->index % 3] = p->triangle != 0 ? w->record->frames[p->index] : frames;
        return;
    }
    /* A connection that comes back repeats what was on its way: at most all. */
    uint64_t usual = w->clean->frames[p->index];
    uint64_t base =
        usual + p->frames_in + p->timers + FRAMES_SLACK + p->reopened * usual / FRAMES_TIMES;
    double ratio = (double)frames / (double)base;
    if (ratio > w->out->frames_ratio)
        w->out->frames_ratio = ratio;
    double burst = (double)p->frames_most / (double)(usual + INPUT_FRAMES);
    if (burst > w->out->input_frames)
        w->out->input_frames = burst;
    if (frames > FRAMES_TIMES * base)
        sim_fail(w, "party %u sends %llu frames after %llu packets and %llu timers; usually %llu",
                 p->index, (unsigned long long)frames, (unsigned long long)p->frames_in,
                 (unsigned long long)p->timers, (unsigned long long)usual);
    if (p->frames_most > 2 * (usual + INPUT_FRAMES))
        sim_fail(w, "party %u sends %llu frames after one input", p->index,
                 (unsigned long long)p->frames_most);
}
