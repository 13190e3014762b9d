/* SPDX-License-Identifier: Apache-2.0 */
/* party.c - a party of a run: a host around one session, as in <uvcc/session.h>, with a clock of
 * its own; life.c has its sessions' beginnings and ends.
 *
 * It has its own loop, not that of the other commands (host_loop.h): what it does between the calls
 * of a host, and in which order, is what is tried out here. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- clocks ---- */

uint64_t sim_local(const sim_party *p) {
    return p->stands_until > sim_now(p->w) ? p->stands_at : sim_now(p->w) + p->skew;
}

uint64_t sim_look(sim_party *p) {
    uint64_t t = sim_local(p);
    if (t > p->latest)
        p->latest = t;
    return t;
}

/* When the host's timer goes off, in global time. */
void sim_arm(sim_party *p, bool fired) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w), local = sim_look(p), at = uvcc_session_next_deadline(p->s);
    p->wake = UVCC_NEVER;
    if (at == UVCC_NEVER)
        return;
    if (at <= p->latest && at <= local) {
        if (fired && !p->mem.lately)
            sim_fail(w, "party %u: the deadline is in the past, and no poll gives anything",
                     p->index);
        p->wake = fired ? now + SIM_MS : now;
        return;
    }
    uint64_t wait = at - local;
    uint64_t from = p->stands_until > now ? p->stands_until : now;
    p->wake = wait < UVCC_NEVER - 1 - from ? from + wait : UVCC_NEVER - 1;
    if (sim_strikes(w, SIM_TIMER_EARLY)) {
        p->wake = now + sim_below(&w->r[SIM_TIMER_EARLY], (wait < SIM_S ? wait : SIM_S) + 1) + 1;
    } else if (sim_strikes(w, SIM_TIMER_LATE)) {
        p->wake += sim_some_time(&w->r[SIM_TIMER_LATE], 10000, 100 * SIM_MS);
    }
}

/* ---- transmits ---- */

static uint64_t slices_hash(const uvcc_transmit *tx) {
    uint64_t h = tx->total;
    for (uint32_t i = 0; i < tx->slice_count; i++)
        h = sim_hash(tx->slices[i].data, tx->slices[i].len, h);
    return h;
}

static bool slot_move(sim_party *p, uint8_t peer) {
    sim_world *w = p->w;
    sim_slot *s = &p->slot[peer];
    if (!s->out || s->due > sim_now(w))
        return false;
    if (slices_hash(&s->tx) != s->hash) {
        sim_fail(w, "party %u: a transmit changed between poll and done", p->index);
        return false;
    }
    size_t n = sim_wire_send(p, peer, &s->tx);
    if (n == 0)
        return false;
    s->out = false;
    int rc = uvcc_session_transmit_done(p->s, peer, s->tx.id, n, sim_look(p));
    if (rc != 0)
        sim_fail(w, "party %u: transmit_done says %d", p->index, rc);
    return true;
}

bool sim_transmit(sim_party *p) {
    sim_world *w = p->w;
    uvcc_transmit tx;
    bool any = false;
    for (uint8_t i = 0; i < 3; i++)
        any |= slot_move(p, i);
    while (!w->out->failed && uvcc_session_poll_transmit(p->s, &tx, sim_look(p)) == 1) {
        sim_slot *s = &p->slot[tx.peer];
        size_t total = 0;
        for (uint32_t i = 0; i < tx.slice_count; i++)
            total += tx.slices[i].len;
        if (s->out || tx.total == 0 || total != tx.total)
            sim_fail(w, "party %u: two transmits to one peer, or an empty one", p->index);
        *s = (sim_slot){.out = true, .tx = tx, .hash = slices_hash(&tx), .due = sim_now(w)};
        if (sim_strikes(w, SIM_TX_HELD)) {
            s->due += sim_some_time(&w->r[SIM_TX_HELD], 1000, 20 * SIM_MS);
            if (sim_below(&w->r[SIM_TX_HELD], 4) == 0) { /* the host could send nothing */
                s->out = false;
                if (uvcc_session_transmit_done(p->s, tx.peer, tx.id, 0, sim_look(p)) != 0)
                    sim_fail(w, "party %u: transmit_done of nothing is refused", p->index);
                any = true;
            }
        }
        any |= slot_move(p, tx.peer);
    }
    return any;
}

/* ---- what the host does ---- */

/* CLOSED comes so soon after what it waits for. */
#define CLOSE_SLACK (100 * SIM_MS)

sim_checkpoint *sim_kept_at(sim_party *p, uint32_t step, const uint8_t *lineage) {
    sim_checkpoint *best = NULL;
    for (unsigned i = 0; i < SIM_KEPT; i++) {
        sim_checkpoint *c = &p->kept[i];
        if (c->data != NULL && c->step == step && (best == NULL || c->run > best->run) &&
            (lineage == NULL || memcmp(c->lineage, lineage, 32) == 0))
            best = c;
    }
    return best;
}

void sim_drop(sim_checkpoint *c) {
    free(c->data);
    *c = (sim_checkpoint){0};
}

void sim_forget(sim_party *p, const sim_checkpoint *but) {
    for (unsigned i = 0; i < SIM_KEPT; i++)
        if (&p->kept[i] != but)
            sim_drop(&p->kept[i]);
}

/* A host has the checkpoint of a step on its disk before it agrees to the next one, and here no
 * sooner; it takes the place of an older one of that step. */
void sim_make_durable(sim_party *p, uint32_t before) {
    for (unsigned i = 0; i < SIM_KEPT; i++) {
        sim_checkpoint *c = &p->kept[i];
        if (c->data == NULL || c->durable || c->step >= before)
            continue;
        c->durable = true;
        for (unsigned k = 0; k < SIM_KEPT; k++)
            if (k != i && p->kept[k].data != NULL && p->kept[k].step == c->step)
                sim_drop(&p->kept[k]);
    }
}

/* All three run `step`, so each has that of the step before on its disk: the rule of docs/host.md.
 */
static void drop_old(sim_party *p, uint32_t step) {
    p->past_first |= step > p->w->plan->first_step;
    for (unsigned i = 0; i < SIM_KEPT; i++)
        if (p->kept[i].data != NULL && p->kept[i].durable && p->kept[i].step + 2 <= step)
            sim_drop(&p->kept[i]);
}

static void keep_checkpoint(sim_party *p) {
    uint32_t step;
    const uint8_t *data;
    size_t len;
    uvcc_checkpoint_info info;
    if (uvcc_session_checkpoint(p->s, &step, &data, &len) != 0 ||
        uvcc_checkpoint_read(data, len, &info) != 0 || info.step != step) {
        sim_fail(p->w, "party %u: a checkpoint was told of and is not there", p->index);
        return;
    }
    sim_checkpoint *c = p->kept;
    while (c < p->kept + SIM_KEPT && c->data != NULL)
        c++;
    if (c == p->kept + SIM_KEPT) {
        sim_fail(p->w, "party %u: too many checkpoints are kept", p->index);
        return;
    }
    *c = (sim_checkpoint){.step = step, .run = info.run, .durable = p->w->again != NULL};
    memcpy(c->lineage, info.lineage, 32);
    c->data = malloc(len);
    if (c->data == NULL)
        abort();
    memcpy(c->data, data, len);
    c->len = len;
}

/* Equal to what the reference says; of words that nobody chooses, such words. */
static bool output_fits(const sim_party *p, uint32_t step, uint32_t k, const int64_t *v,
                        size_t bytes) {
    const sim_workload *w = p->w->work;
    int64_t most;
    if (sim_workload_random(w, step, k, &most)) {
        for (size_t i = 0; i < bytes / sizeof *v; i++)
            if (v[i] < 0 || v[i] > most)
                return false;
        return true;
    }
    if (!w->exact)
        return true;
    return p->dropped == 0 ? memcmp(v, w->output[step][k], bytes) == 0
                           : sim_workload_fits(w, p->dropped, step, k, v);
}

static void check_outputs(sim_party *p, uint32_t i) {
    sim_world *w = p->w;
    uint32_t step = w->plan->first_step + i, e = w->work->entry[i];
    uint64_t h = 0, common = 0; /* of what this party has; of what all have */
    for (uint32_t k = 0; k < uvcc_program_output_count(w->work->program, e); k++) {
        const uvcc_io_desc *io = uvcc_program_output_at(w->work->program, e, k);
        size_t bytes = sim_elems(w->work, io->tensor) * sizeof(int64_t);
        const int64_t *v = uvcc_session_output(p->s, step, io->id);
        const bool to_all = io->receiver == UVCC_TO_ALL;
        if ((v != NULL) != (to_all || io->receiver == p->index)) {
            sim_fail(w, "party %u: output %u of step %u is%s open", p->index, io->id, i,
                     v == NULL ? " not" : "");
            return;
        }
        if (v == NULL)
            continue;
        if (!output_fits(p, i, k, v, bytes))
            sim_fail(w, "party %u: output %u of step %u differs from the reference", p->index,
                     io->id, i);
        h = sim_hash(v, bytes, h);
        int64_t most; /* of words that nobody chooses: other ones in another run */
        if (to_all && !sim_workload_random(w->work, i, k, &most))
            common = sim_hash(v, bytes, common);
    }
    if (p->triangle != 0)
        return;
    sim_record *r = w->record;
    for (unsigned q = 0; q < 3; q++)
        if (q != p->index && r->have[q][i] && r->common_hash[q][i] != common && w->work->exact)
            sim_fail(w, "parties %u and %u have other outputs of step %u", p->index, q, i);
    r->output_hash[p->index][i] = h;
    r->common_hash[p->index][i] = common;
    if (w->clean != NULL && w->out->restarts == 0 && p->dropped == 0 &&
        w->clean->output_hash[p->index][i] != h)
        sim_fail(w, "party %u: the outputs of step %u are not those of a run without faults",
                 p->index, i);
}

/* Finished or dropped, but the same at all three, and dropped only where somebody asked. */
static void step_over(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    const bool dropped = e->kind == UVCC_EVENT_STEP_CANCELLED;
    uint32_t i = e->step - w->plan->first_step;
    if (i != p->finished || i >= p->agreed) {
        sim_fail(w, "party %u: step %u finished out of order", p->index, i);
        return;
    }
    uint8_t *fate = &w->fate[p->triangle][i];
    if (*fate != 0 && *fate != e->kind)
        sim_fail(w, "party %u: step %u was dropped at one party and not at another", p->index, i);
    *fate = (uint8_t)e->kind;
    p->finished++;
    if (dropped) {
        p->dropped |= 1u << i;
        w->out->dropped++;
        if (!sim_was_on(w, SIM_CANCEL) || w->plan->audit_off)
            sim_fail(w, "party %u: step %u was dropped, and nobody asked", p->index, i);
        if (uvcc_program_output_count(w->work->program, w->work->entry[i]) != 0 &&
            uvcc_session_output(
                p->s, e->step,
                uvcc_program_output_at(w->work->program, w->work->entry[i], 0)->id) != NULL)
            sim_fail(w, "party %u: an output of step %u, which was dropped, is open", p->index, i);
        return;
    }
    check_outputs(p, i);
    sim_check_statement(p, e);
    if (p->triangle != 0 || w->plan->audit_off)
        return;
    memcpy(w->record->root[p->index][i], e->root, 32);
    w->record->have[p->index][i] = true;
    if (w->clean != NULL && w->out->restarts == 0 && p->dropped == 0 &&
        w->clean->have[p->index][i] && memcmp(e->root, w->clean->root[p->index][i], 32) != 0)
        sim_fail(w, "party %u: the root of step %u is not that of a run without faults", p->index,
                 i);
}

/* Aborts have a cause: a job that failed, memory that was refused, a peer that is hostile. */
static bool excused(const sim_world *w) {
    if (sim_was_on(w, SIM_HOSTILE) || sim_was_on(w, SIM_JOB_FAIL))
        return true;
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->party[i].mem.failed)
            return true;
    return false;
}

static void note_life(const sim_party *p, uint32_t run, const uint8_t lineage[32]) {
    sim_record *r = p->w->record;
    uint32_t i = 0;
    while (i < r->lives && r->life[i].run != run)
        i++;
    if (i == SIM_LIVES_MAX)
        return;
    if (i == r->lives) {
        r->life[r->lives] = (sim_life){.run = run, .base = p->base};
        memcpy(r->life[r->lives++].lineage, lineage, 32);
    }
    if (memcmp(r->life[i].lineage, lineage, 32) != 0)
        sim_fail(p->w, "the parties of run %u go on with tensors of two histories", run);
    if (r->life[i].base != p->base)
        sim_fail(p->w, "the parties of run %u resume at other steps", run);
    r->life[i].random[p->index] = p->random_name;
    r->life[i].ready++;
}

static void on_ready(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    if (p->ready || (p->greatest_run != UINT32_MAX && e->run <= p->greatest_run))
        sim_fail(w, "party %u: READY twice, or run %u again", p->index, e->run);
    uvcc_session_stats st;
    uvcc_session_get_stats(p->s, &st);
    p->refused = st.frames_refused;
    p->ready = true;
    p->greatest_run = e->run;
    p->base = p->agreed = p->finished = e->step - w->plan->first_step;
    p->dropped &= (1u << p->base) - 1;
    for (uint32_t i = p->base; i < w->work->steps; i++)
        w->fate[p->triangle][i] = 0;
    if (p->base > w->work->steps)
        sim_fail(w, "party %u: resumes at step %u", p->index, e->step);
    /* What comes after this step will be made again. A host need not be tidy. */
    for (unsigned i = 0; i < SIM_KEPT && !w->plan->untidy; i++)
        if (p->kept[i].data != NULL && p->kept[i].step > e->step)
            sim_drop(&p->kept[i]);
    memcpy(p->lineage, e->root, 32);
    if (p->triangle == 0)
        note_life(p, e->run, e->root);
}

/* SILENT and HEARD take turns, and nobody is silent in a run without faults. */
static void on_silence(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    bool silent = e->kind == UVCC_EVENT_PEER_SILENT;
    if (w->plan->silence_ns == 0 || e->peer >= 3 || e->peer == p->index ||
        p->silent[e->peer] == silent)
        sim_fail(w, "party %u: event %d of party %u out of turn", p->index, e->kind, e->peer);
    else if (silent && w->plan->faults == 0)
        sim_fail(w, "party %u: party %u is silent without faults", p->index, e->peer);
    else if (silent && (w->plan->faults & SIM_BIT(SIM_CLOCK_BACK)) == 0 &&
             p->latest - e->since_ns < w->plan->silence_ns)
        sim_fail(w, "party %u: party %u was called silent after %.3f s", p->index, e->peer,
                 (double)(p->latest - e->since_ns) * 1e-9);
    else
        p->silent[e->peer] = silent;
}

static void on_closed(sim_party *p) {
    sim_world *w = p->w;
    uint64_t most = w->plan->close_ns != 0 ? w->plan->close_ns : 3 * SIM_S;
    p->closed = true;
    p->closed_at = sim_now(w);
    if (p->job_count != 0)
        sim_fail(w, "party %u closed with jobs out", p->index);
    if (p->close_at == 0 || p->aborted || w->back_ns != 0)
        return;
    uint64_t took = sim_now(w) - p->close_at;
    if (took > most + CLOSE_SLACK)
        sim_fail(w, "party %u took %.3f s to close", p->index, (double)took * 1e-9);
    if (w->plan->faults == 0 && w->plan->rate_bytes_per_s == 0 && took > CLOSE_SLACK)
        sim_fail(w, "party %u took %.3f s to close among peers that close", p->index,
                 (double)took * 1e-9);
}

/* In every fourth plan somebody relays between two channels of the first stream of parties 0 and 1.
 */
int sim_stream_open(sim_party *p, uint8_t peer) {
    const uint64_t seed = p->w->plan->seed;
    const uint8_t a = p->index < peer ? p->index : peer, b = p->index < peer ? peer : p->index;
    uint8_t binding[32] = {a, b, p->triangle};
    memcpy(binding + 3, &p->streams[peer], sizeof p->streams[peer]);
    p->relayed[peer] = seed % 4 == 1 && a == 0 && b == 1 && p->streams[peer] == 1;
    if (p->relayed[peer])
        binding[31] = (uint8_t)(1 + p->index);
    if (seed % 2 == 0)
        return uvcc_session_peer_open(p->s, peer, sim_look(p));
    return uvcc_session_peer_open_bound(p->s, peer, binding, sim_look(p));
}

/* Who is told of a relay breaks the stream. A hostile party may say again what was said over an
 * earlier one. */
static void on_mismatch(sim_party *p, const uvcc_event *e) {
    const bool hostile =
        sim_was_on(p->w, SIM_HOSTILE) && 3u * p->triangle + e->peer == p->w->plan->hostile_party;
    if (e->text == NULL || strcmp(e->text, "channel") != 0)
        return;
    if (!p->relayed[e->peer] && !hostile)
        sim_fail(p->w, "party %u: a channel that nobody relays does not fit", p->index);
    (void)uvcc_loopback_disconnect(p->w->net, p->node, 3u * p->triangle + e->peer);
}

/* The run cannot go on: the host ends the session, which tells the third party, and begins the next
 * one when it is CLOSED. One that closes, or was told by another peer, ends already. */
static void on_peer_restarted(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    if (w->out->restarts == 0)
        sim_fail(w, "party %u: party %u did not begin anew", p->index, e->peer);
    if (e->run != p->greatest_run)
        sim_fail(w, "party %u: party %u began anew in run %u, not %u", p->index, e->peer, e->run,
                 p->greatest_run);
    if (p->aborted || p->closing || p->closed)
        return;
    int rc = uvcc_session_abort(p->s, UVCC_ABORT_RESTARTED, sim_look(p));
    if (rc != 0)
        sim_fail(w, "party %u: the abort of a run that cannot go on says %d", p->index, rc);
}

/* Every event is held to what may come then; an abort needs a cause among the faults. */
static void host_events(sim_party *p) {
    sim_world *w = p->w;
    uvcc_event e;
    while (uvcc_session_poll_event(p->s, &e) == 1) {
        sim_trace(w, 30 + p->node, (uint64_t)e.kind << 32 | e.step, e.reason);
        if (w->verbose)
            (void)fprintf(stderr, "%12.6f party %u: event %d step %u run %u peer %u reason %u %s\n",
                          (double)sim_now(w) * 1e-9, p->node, e.kind, e.step, e.run, e.peer,
                          e.reason, e.text != NULL ? e.text : "");
        if (p->closed)
            sim_fail(w, "party %u: event %d after CLOSED", p->index, e.kind);
        switch (e.kind) {
        case UVCC_EVENT_READY:
            for (uint8_t q = 0; q < 3; q++)
                if (p->relayed[q] && p->up[q])
                    sim_fail(w, "party %u is ready over two channels to party %u", p->index, q);
            on_ready(p, &e);
            break;
        case UVCC_EVENT_MISMATCH:
            on_mismatch(p, &e);
            break;
        case UVCC_EVENT_STEP_STARTED:
            drop_old(p, e.step);
            sim_step_begun(w, e.step - w->plan->first_step);
            break;
        case UVCC_EVENT_STEP_FINISHED:
        case UVCC_EVENT_STEP_CANCELLED:
            step_over(p, &e);
            break;
        case UVCC_EVENT_CHECKPOINT:
            keep_checkpoint(p);
            break;
        case UVCC_EVENT_ABORTED:
            /* What nobody signed ends nothing, and a hostile party has no keys. */
            p->aborted = true;
            p->renews = e.reason == UVCC_ABORT_RESTARTED && w->out->restarts != 0;
            if (p->renews)
                break;
            if (!excused(w) || e.reason == UVCC_ABORT_HELLO)
                sim_fail(w, "party %u aborted: %s", p->index, e.text);
            w->out->aborts++;
            w->aborts[p->triangle]++;
            break;
        case UVCC_EVENT_PEER_RESTARTED:
            on_peer_restarted(p, &e);
            break;
        case UVCC_EVENT_CLOSED:
            on_closed(p);
            break;
        case UVCC_EVENT_PEER_SILENT:
        case UVCC_EVENT_PEER_HEARD:
            on_silence(p, &e);
            break;
        default:
            break;
        }
    }
}

int sim_set_initial(sim_party *p) {
    int rc = 0;
    for (uint32_t i = p->initial_set; rc == 0 && i < p->w->work->initial_count; i++) {
        rc = uvcc_session_set_public(p->s, p->w->work->initial_tensor[i], p->w->work->initial[i]);
        p->initial_set += rc == 0;
    }
    return rc;
}

/* The tensors of the step where the parties resume. False while it has to be tried again: without
 * memory, or while what the session began with is still being set. */
static bool host_tensors(sim_party *p) {
    static const uint8_t zero[32];
    sim_world *w = p->w;
    if (p->resumed || memcmp(p->lineage, p->loaded, 32) == 0)
        return p->resumed = true;
    uint32_t step = w->plan->first_step + p->base;
    const bool anew = memcmp(p->lineage, zero, 32) == 0;
    const sim_checkpoint *c = anew ? NULL : sim_kept_at(p, step, p->lineage);
    if (c == NULL && !anew) {
        sim_fail(w, "party %u: the parties resume at step %u, of which there is no checkpoint",
                 p->index, step);
        return false;
    }
    int rc = 0;
    if (!anew)
        rc = uvcc_session_resume(p->s, c->data, c->len);
    else if (p->initial_set == 0)
        rc = uvcc_session_resume(p->s, NULL, 0);
    if (rc == 0 && anew)
        rc = sim_set_initial(p);
    if (rc != 0 && rc != UVCC_ERR_NOMEM && !(anew && rc == UVCC_ERR_AGAIN))
        sim_fail(w, "party %u: resume says %d", p->index, rc);
    return p->resumed = rc == 0;
}

static void host_input(sim_party *p) {
    sim_world *w = p->w;
    const uvcc_program *prog = w->work->program;
    for (uint32_t i = p->finished; i < p->agreed; i++) {
        for (uint32_t k = 0; k < uvcc_program_input_count(prog, w->work->entry[i]) && !p->aborted;
             k++) {
            const uvcc_io_desc *io = uvcc_program_input_at(prog, w->work->entry[i], k);
            uint32_t bit = 1u << (8 * (i % 4) + k);
            if (io->owner != p->index || (p->given & bit) != 0)
                continue;
            int rc = uvcc_session_input(p->s, w->plan->first_step + i, io->id, w->work->input[i][k],
                                        sim_look(p));
            if (rc == 0)
                p->given |= bit;
            else if (rc != UVCC_ERR_NOMEM && rc != UVCC_ERR_ABORTED)
                sim_fail(w, "party %u: input says %d", p->index, rc);
        }
    }
}

/* A host that may not ask is refused; one that asks twice, or late, is no trouble. */
bool sim_cancels(const sim_party *p) {
    const sim_plan *plan = p->w->plan;
    return sim_was_on(p->w, SIM_CANCEL) && !plan->audit_off &&
           (plan->seed % 8 != 0 || plan->seed / 8 % 3 != p->index);
}

static void host_cancel(sim_party *p) {
    sim_world *w = p->w;
    if (p->finished >= p->agreed || p->aborted || !sim_strikes(w, SIM_CANCEL))
        return;
    int rc = uvcc_session_cancel(p->s, w->plan->first_step + p->finished, sim_look(p));
    if (rc != UVCC_ERR_ABORTED && rc != (sim_cancels(p) ? 0 : UVCC_ERR_STATE))
        sim_fail(w, "party %u: cancelling step %u says %d", p->index, p->finished, rc);
}

/* Before a host agrees to a step it has the checkpoint of the one before, which the session may
 * still be copying. That of a step where it resumed it had already. */
static bool may_agree(const sim_party *p) {
    static const uint8_t zero[32];
    const bool anew = memcmp(p->lineage, zero, 32) == 0;
    if (!p->w->plan->keeps || p->agreed == p->base || (p->agreed == p->base + 1 && !anew))
        return true;
    for (unsigned i = 0; i < SIM_KEPT; i++)
        if (p->kept[i].data != NULL && p->kept[i].run == p->greatest_run &&
            p->kept[i].step + 1 == p->w->plan->first_step + p->agreed)
            return true;
    return false;
}

static void host_work(sim_party *p) {
    sim_world *w = p->w;
    if (!p->ready || p->closing || p->aborted || p->closed || !host_tensors(p))
        return;
    while (p->agreed < w->work->steps && (w->plan->ahead || p->agreed == p->finished) &&
           may_agree(p)) {
        sim_make_durable(p, w->plan->first_step + p->agreed);
        int rc = uvcc_session_step(p->s, w->plan->first_step + p->agreed, w->work->entry[p->agreed],
                                   sim_look(p));
        if (rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_NOMEM || rc == UVCC_ERR_ABORTED)
            break;
        if (rc != 0) {
            sim_fail(w, "party %u: step %u says %d", p->index, p->agreed, rc);
            break;
        }
        p->given &= ~(0xffu << (8 * (p->agreed % 4)));
        p->agreed++;
    }
    host_input(p);
    host_cancel(p);
}

void sim_before_input(sim_party *p) {
    p->inputs++;
    p->frames_since = 0;
    p->mem.lately = false;
}

void sim_settle(sim_party *p) {
    sim_world *w = p->w;
    if (p->s == NULL)
        return;
    bool any = true;
    for (unsigned i = 0; any && !w->out->failed; i++) {
        host_events(p);
        host_work(p);
        host_events(p);
        if (p->aborted && !p->closing) {
            p->closing = true;
            sim_jobs_calm(p);
            int rc = uvcc_session_close(p->s, sim_look(p));
            if (rc != 0)
                sim_fail(w, "party %u: close after an abort says %d", p->index, rc);
            host_events(p);
        }
        sim_jobs_take(p);
        any = sim_transmit(p);
        if (i == 100000)
            sim_fail(w, "party %u sends without end", p->index);
    }
    sim_arm(p, false);
}
