/* world.c - one run: three or six sessions, their hosts and clocks, until all have closed.
 *
 * First with the faults of the plan (safety), then, from calm_at_ns on, without any (liveness: all
 * steps finish and all sessions close within a bound of simulated time). The checkers never stop.
 * A party is a host around one session, as in <uvcc/session.h>: every input is followed by
 * settling, which takes events, goes on with the work, takes jobs and moves transmits. */
#include "world.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/loopback.h>

#define CLOCK_START  (UINT64_C(86400) * SIM_S)
#define LIVENESS_NS  (60 * SIM_S)
#define TOLD_NS      (5 * SIM_S)
#define QUIET_AFTER  (3 * SIM_S)
#define QUIET_NS     (25 * SIM_S)
#define KEEPALIVE_NS (10 * SIM_S)
#define INPUTS_MAX   1500000u
#define MEMORY_SLACK (1u << 20)
#define MEMORY_TIMES 4u
#define FRAMES_TIMES 4u
#define FRAMES_SLACK 400u
#define INPUT_FRAMES 400u

/* ---- small things ---- */

uint64_t sim_hash(const void *data, size_t len, uint64_t seed) {
    const uint8_t *p = data;
    uint64_t h = sim_mix(seed + len + UINT64_C(0x9E3779B97F4A7C15));
    for (; len >= 8; p += 8, len -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    for (; len > 0; p++, len--)
        h = (h ^ *p) * UINT64_C(0x100000001B3);
    return sim_mix(h);
}

void sim_fail(sim_world *w, const char *format, ...) {
    if (w->out->failed)
        return;
    w->out->failed = true;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->out->why, sizeof w->out->why, format, args);
    va_end(args);
}

void sim_trace(sim_world *w, uint64_t a, uint64_t b, uint64_t c) {
    w->trace = sim_mix(w->trace ^ sim_mix(a + sim_mix(b + sim_mix(c + sim_now(w)))));
}

bool sim_strikes(sim_world *w, sim_fault f) {
    bool hit = sim_hit(&w->r[f], w->plan->rate[f]) && sim_on(w, f);
    w->out->injected += hit;
    return hit;
}

static bool was_on(const sim_world *w, sim_fault f) {
    return (w->plan->faults & SIM_BIT(f)) != 0;
}

/* A time up to `most`, short ones as likely as long ones. */
static uint64_t some_time(sim_random *r, uint64_t least, uint64_t most) {
    unsigned octaves = 0;
    while (least << octaves < most)
        octaves++;
    uint64_t base = least << sim_below(r, octaves + 1u);
    return base + sim_below(r, base);
}

/* ---- memory ---- */

#define BLOCK_MAGIC UINT64_C(0x75766363626c6f63)
enum { BLOCK_HEAD = 64 };

static void *memory_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    sim_memory *m = user;
    if (++m->calls == m->fail_at) {
        m->failed = m->lately = true;
        return NULL;
    }
    size_t room = (bytes + 2 * BLOCK_HEAD - 1) & ~(size_t)(BLOCK_HEAD - 1);
    uint8_t *p = aligned_alloc(BLOCK_HEAD, room);
    if (p == NULL)
        abort();
    const uint64_t head[3] = {BLOCK_MAGIC, bytes, (uint64_t)cls};
    memcpy(p, head, sizeof head);
    memset(p + BLOCK_HEAD, 0xA5, room - BLOCK_HEAD);
    m->live_blocks++;
    m->live_bytes += bytes;
    return p + BLOCK_HEAD;
}

static void memory_free(void *user, void *at, size_t bytes, uvcc_mem_class cls) {
    sim_memory *m = user;
    if (at == NULL)
        return;
    uint8_t *p = (uint8_t *)at - BLOCK_HEAD;
    uint64_t head[3];
    memcpy(head, p, sizeof head);
    if (head[0] != BLOCK_MAGIC || head[1] != bytes || head[2] != (uint64_t)cls)
        abort(); /* freed twice, or as another size or class */
    memset(p, 0x5A, BLOCK_HEAD + bytes);
    m->live_blocks--;
    m->live_bytes -= bytes;
    free(p);
}

/* ---- clocks ---- */

uint64_t sim_local(const sim_party *p) {
    return p->stands_until > sim_now(p->w) ? p->stands_at : sim_now(p->w) + p->skew;
}

static uint64_t look(sim_party *p) {
    uint64_t t = sim_local(p);
    if (t > p->latest)
        p->latest = t;
    return t;
}

static bool output_waits(const sim_party *p) {
    for (unsigned i = 0; i < 3; i++) {
        const sim_pipe *pipe = &p->w->pipe[p->node][3u * p->triangle + i];
        if (i != p->index && (p->slot[i].out || pipe->queue.len != 0))
            return true;
    }
    return false;
}

/* When the host's timer goes off, in global time. */
static void arm(sim_party *p, bool fired) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w), local = look(p), at = uvcc_session_next_deadline(p->s);
    p->wake = UVCC_NEVER;
    if (at == UVCC_NEVER)
        return;
    if (at <= p->latest && at <= local) {
        if (fired && !output_waits(p) && !p->closed && !p->mem.lately)
            sim_fail(w, "party %u: the deadline is in the past, and nothing waits to be sent",
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
        p->wake += some_time(&w->r[SIM_TIMER_LATE], 10000, 100 * SIM_MS);
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
    int rc = uvcc_session_transmit_done(p->s, peer, s->tx.id, n, look(p));
    if (rc != 0)
        sim_fail(w, "party %u: transmit_done says %d", p->index, rc);
    return true;
}

static bool transmit(sim_party *p) {
    sim_world *w = p->w;
    uvcc_transmit tx;
    bool any = false;
    for (uint8_t i = 0; i < 3; i++)
        any |= slot_move(p, i);
    while (!w->out->failed && uvcc_session_poll_transmit(p->s, &tx, look(p)) == 1) {
        sim_slot *s = &p->slot[tx.peer];
        size_t total = 0;
        for (uint32_t i = 0; i < tx.slice_count; i++)
            total += tx.slices[i].len;
        if (s->out || tx.total == 0 || total != tx.total)
            sim_fail(w, "party %u: two transmits to one peer, or an empty one", p->index);
        *s = (sim_slot){.out = true, .tx = tx, .hash = slices_hash(&tx), .due = sim_now(w)};
        if (sim_strikes(w, SIM_TX_HELD)) {
            s->due += some_time(&w->r[SIM_TX_HELD], 1000, 20 * SIM_MS);
            if (sim_below(&w->r[SIM_TX_HELD], 4) == 0) { /* the host could send nothing */
                s->out = false;
                w->pipe[p->node][3u * p->triangle + tx.peer].data_at = sim_now(w); /* it tried */
                if (uvcc_session_transmit_done(p->s, tx.peer, tx.id, 0, look(p)) != 0)
                    sim_fail(w, "party %u: transmit_done of nothing is refused", p->index);
                any = true;
            }
        }
        any |= slot_move(p, tx.peer);
    }
    return any;
}

/* ---- what the host does ---- */

static sim_checkpoint *kept_at(sim_party *p, uint32_t step) {
    for (unsigned i = 0; i < 2; i++)
        if (p->kept[i].step != 0 && p->kept[i].step == step)
            return &p->kept[i];
    return NULL;
}

static void keep_checkpoint(sim_party *p) {
    uint32_t step;
    const uint8_t *data;
    size_t len;
    if (uvcc_session_checkpoint(p->s, &step, &data, &len) != 0) {
        sim_fail(p->w, "party %u: a checkpoint was told of and is not there", p->index);
        return;
    }
    sim_checkpoint *c = kept_at(p, step);
    if (c == NULL) {
        free(p->kept[1].data);
        p->kept[1] = p->kept[0];
        p->kept[0] = (sim_checkpoint){.step = step};
        c = &p->kept[0];
    }
    free(c->data);
    c->data = malloc(len);
    if (c->data == NULL)
        abort();
    memcpy(c->data, data, len);
    c->len = len;
}

static void check_outputs(sim_party *p, uint32_t i) {
    sim_world *w = p->w;
    uint32_t step = w->plan->first_step + i, e = w->work->entry[i];
    uint64_t h = 0;
    for (uint32_t k = 0; k < uvcc_program_output_count(w->work->program, e); k++) {
        const uvcc_io_desc *io = uvcc_program_output_at(w->work->program, e, k);
        size_t bytes = sim_elems(w->work, io->tensor) * sizeof(int64_t);
        const int64_t *v = uvcc_session_output(p->s, step, io->id);
        if (v == NULL) {
            sim_fail(w, "party %u: output %u of step %u is not open", p->index, io->id, i);
            return;
        }
        if (w->work->exact && memcmp(v, w->work->output[i][k], bytes) != 0)
            sim_fail(w, "party %u: output %u of step %u differs from the reference", p->index,
                     io->id, i);
        h = sim_hash(v, bytes, h);
    }
    if (p->triangle != 0)
        return;
    sim_record *r = w->record;
    for (unsigned q = 0; q < 3; q++)
        if (q != p->index && r->have[q][i] && r->output_hash[q][i] != h && w->work->exact)
            sim_fail(w, "parties %u and %u have other outputs of step %u", p->index, q, i);
    r->output_hash[p->index][i] = h;
    if (w->clean != NULL && w->out->restarts == 0 && w->clean->output_hash[p->index][i] != h)
        sim_fail(w, "party %u: the outputs of step %u are not those of a run without faults",
                 p->index, i);
}

static void step_finished(sim_party *p, const uvcc_event *e) {
    sim_world *w = p->w;
    uint32_t i = e->step - w->plan->first_step;
    if (i != p->finished || i >= p->agreed) {
        sim_fail(w, "party %u: step %u finished out of order", p->index, i);
        return;
    }
    p->finished++;
    check_outputs(p, i);
    if (p->triangle != 0 || w->plan->audit_off)
        return;
    memcpy(w->record->root[p->index][i], e->root, 32);
    w->record->have[p->index][i] = true;
    if (w->clean != NULL && w->out->restarts == 0 && w->clean->have[p->index][i] &&
        memcmp(e->root, w->clean->root[p->index][i], 32) != 0)
        sim_fail(w, "party %u: the root of step %u is not that of a run without faults", p->index,
                 i);
}

/* Aborts have a cause: a job that failed, memory that was refused, a peer that is hostile. */
static bool excused(const sim_world *w) {
    if (was_on(w, SIM_HOSTILE) || was_on(w, SIM_JOB_FAIL))
        return true;
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->party[i].mem.failed)
            return true;
    return false;
}

static void note_life(const sim_party *p, uint32_t run) {
    sim_record *r = p->w->record;
    uint32_t i = 0;
    while (i < r->lives && r->life[i].run != run)
        i++;
    if (i == SIM_LIVES_MAX)
        return;
    if (i == r->lives)
        r->life[r->lives++] = (sim_life){.run = run, .base = p->base};
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
    if (p->base > w->work->steps)
        sim_fail(w, "party %u: resumes at step %u", p->index, e->step);
    /* What comes after this step will be made again: an older copy must not stay beside it. */
    for (unsigned i = 0; i < 2 && p->kept[0].step > e->step; i++) {
        free(p->kept[0].data);
        p->kept[0] = p->kept[1];
        p->kept[1] = (sim_checkpoint){0};
    }
    if (p->triangle == 0)
        note_life(p, e->run);
}

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
            on_ready(p, &e);
            break;
        case UVCC_EVENT_STEP_FINISHED:
            step_finished(p, &e);
            break;
        case UVCC_EVENT_CHECKPOINT:
            keep_checkpoint(p);
            break;
        case UVCC_EVENT_ABORTED:
            if (!excused(w))
                sim_fail(w, "party %u aborted: %s", p->index, e.text);
            p->aborted = true;
            w->out->aborts++;
            break;
        case UVCC_EVENT_CLOSED:
            p->closed = true;
            if (p->job_count != 0)
                sim_fail(w, "party %u closed with jobs out", p->index);
            break;
        default:
            break;
        }
    }
}

/* The tensors of the step where the parties resume. False while it has to be tried again. */
static bool host_tensors(sim_party *p) {
    sim_world *w = p->w;
    if (p->resumed)
        return true;
    uint32_t step = w->plan->first_step + p->base;
    const sim_checkpoint *c = kept_at(p, step);
    if (c == NULL) {
        sim_fail(w, "party %u: the parties resume at step %u, of which there is no checkpoint",
                 p->index, step);
        return false;
    }
    int rc = uvcc_session_resume(p->s, c->data, c->len);
    if (rc != 0 && rc != UVCC_ERR_AGAIN && rc != UVCC_ERR_NOMEM)
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
                                        look(p));
            if (rc == 0)
                p->given |= bit;
            else if (rc != UVCC_ERR_NOMEM && rc != UVCC_ERR_ABORTED)
                sim_fail(w, "party %u: input says %d", p->index, rc);
        }
    }
}

static void host_work(sim_party *p) {
    sim_world *w = p->w;
    if (!p->ready || p->closing || p->aborted || p->closed || !host_tensors(p))
        return;
    while (p->agreed < w->work->steps && (w->plan->ahead || p->agreed == p->finished)) {
        int rc = uvcc_session_step(p->s, w->plan->first_step + p->agreed, w->work->entry[p->agreed],
                                   look(p));
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
            int rc = uvcc_session_close(p->s, look(p));
            if (rc != 0)
                sim_fail(w, "party %u: close after an abort says %d", p->index, rc);
            host_events(p);
        }
        sim_jobs_take(p);
        any = transmit(p);
        if (i == 100000)
            sim_fail(w, "party %u sends without end", p->index);
    }
    arm(p, false);
}

/* ---- life and death ---- */

static uvcc_cpu *shared_cpu(void) {
    static uvcc_cpu *cpu;
    if (cpu == NULL) {
        uvcc_cpu_config x = {.size = sizeof x, .alloc = uvcc_host_allocator()};
        if (uvcc_cpu_new(&cpu, &x) != 0)
            abort();
    }
    return cpu;
}

static void config(sim_party *p, uvcc_config *c) {
    sim_world *w = p->w;
    const sim_plan *plan = w->plan;
    (void)uvcc_config_default(c, sizeof *c);
    c->alloc = (uvcc_allocator){.alloc = memory_alloc, .free = memory_free, .user = &p->mem};
    bool first = p->greatest_run == UINT32_MAX;
    p->random_name = w->again != NULL ? w->again->life[w->life].random[p->index]
                     : first || was_on(w, SIM_SAME_RANDOM) ? 0
                                                           : p->greatest_run + 1;
    c->random = uvcc_seeded(&p->random, plan->seed, 16 * p->random_name + p->node);
    c->identity.party = p->index;
    c->links.suites = plan->suites;
    c->links.datagram = plan->datagram;
    c->checks.audit_off = plan->audit_off;
    c->links.frame_bytes = plan->frame_bytes;
    c->links.datagram_bytes = plan->datagram_bytes;
    c->links.rto_initial_ns = plan->rto_initial_ns;
    c->links.rto_max_ns = plan->rto_max_ns;
    c->links.keepalive_ns = plan->keepalive_ns;
    c->resume.next_step = plan->first_step;
    c->resume.next_run = w->again != NULL ? w->again->life[w->life].run
                         : first          ? plan->next_run - (plan->next_run != 0 && p->index == 1)
                                          : p->greatest_run + 1;
    c->cookie = 1000u + 16u * c->resume.next_run + p->node;
    c->resume.checkpoint_every = 1;
    c->identity.exchange_x25519 = plan->exchange;
    memset(c->identity.sid_job, 0x20 + p->triangle, 32);
    memset(c->identity.sign_seed, 0x40 + p->node, 32);
    for (uint8_t q = 0; q < 3; q++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + 3 * p->triangle + q, 32);
        (void)crypto_sign_seed_keypair(c->identity.peer_sign_key[q], sk, seed);
        if (q != p->index)
            memset(c->identity.pair_secret[q], 0x11 * (p->index + q) + 7 * p->triangle, 32);
    }
}

/* The smallest receive credit for keys that this program can live with. */
static int load(sim_party *p, uvcc_config *c) {
    sim_world *w = p->w;
    if (w->plan->small_credit)
        c->links.rx_keys_bytes = 128;
    for (;; c->links.rx_keys_bytes *= 2) {
        int rc = uvcc_session_new(&p->s, c);
        if (rc != 0) {
            p->s = NULL;
            return rc;
        }
        rc = uvcc_session_load_program(p->s, w->work->program);
        if (rc == 0)
            return 0;
        uvcc_session_free(p->s);
        p->s = NULL;
        if (rc != UVCC_ERR_LIMIT || c->links.rx_keys_bytes == 0)
            return rc;
    }
}

static void bury(sim_party *p) {
    sim_world *w = p->w;
    uvcc_session_free(p->s);
    p->s = NULL;
    sim_jobs_drop(p);
    if (p->mem.live_blocks != 0)
        sim_fail(w, "party %u: %llu blocks are left after free", p->index,
                 (unsigned long long)p->mem.live_blocks);
    memset(p->slot, 0, sizeof p->slot);
    p->wake = UVCC_NEVER;
    p->ready = p->closing = p->closed = p->aborted = p->resumed = false;
    p->agreed = p->finished = p->given = 0;
}

/* A session from `from` (NULL: from the beginning). False if memory was refused: try again. */
static bool build(sim_party *p, const sim_checkpoint *from) {
    sim_world *w = p->w;
    uvcc_config c;
    config(p, &c);
    int rc = load(p, &c);
    if (rc == 0 && from != NULL)
        rc = uvcc_session_resume(p->s, from->data, from->len);
    for (uint32_t i = 0; rc == 0 && from == NULL && i < w->work->initial_count; i++)
        rc = uvcc_session_set_public(p->s, w->work->initial_tensor[i], w->work->initial[i]);
    if (rc == 0)
        rc = uvcc_session_start(p->s, look(p));
    if (rc == UVCC_ERR_NOMEM) {
        bury(p);
        p->rebuild_at = sim_now(w) + SIM_MS;
        return false;
    }
    if (rc != 0) {
        sim_fail(w, "party %u: a session cannot begin: %d", p->index, rc);
        return false;
    }
    p->resumed = true;
    p->rebuild_at = UVCC_NEVER;
    for (uint8_t q = 0; q < 3 && !w->plan->datagram; q++)
        if (q != p->index &&
            p->missed[q]) /* what came was for nobody: no host has that connection */
            (void)uvcc_loopback_disconnect(w->net, p->node, 3u * p->triangle + q);
        else if (q != p->index && p->up[q])
            (void)uvcc_session_peer_open(p->s, q, look(p));
    sim_settle(p);
    return true;
}

static void die(sim_party *p) {
    sim_world *w = p->w;
    if (p->s == NULL)
        return;
    sim_trace(w, 40 + p->node, 0, 0);
    if (w->verbose)
        (void)fprintf(stderr, "%12.6f party %u dies\n", (double)sim_now(w) * 1e-9, p->node);
    bury(p);
    for (uint32_t q = 0; q < 3 && !w->plan->datagram; q++)
        if (q != p->index)
            (void)uvcc_loopback_disconnect(w->net, p->node, 3u * p->triangle + q);
}

/* The step at which all can resume: the least of the latest checkpoints; 0: from the beginning. */
static uint32_t common_step(const sim_world *w) {
    uint32_t least = UINT32_MAX;
    for (unsigned i = 0; i < 3; i++)
        least = w->party[i].kept[0].step < least ? w->party[i].kept[0].step : least;
    return least;
}

static void rebuild(sim_party *p) {
    sim_world *w = p->w;
    uint32_t step = common_step(w);
    sim_checkpoint *c = step == 0 ? NULL : w->plan->offer_own ? &p->kept[0] : kept_at(p, step);
    if (step != 0 && c == NULL) {
        sim_fail(w, "party %u has no checkpoint of step %u", p->index, step);
        return;
    }
    bool later = c != NULL && c->step != step;
    if (!build(p, c))
        return;
    p->resumed = !later;
}

/* A victim dies, then the others (a restart of one is a restart of all); each comes back when it
 * likes. The victim may be back before the others have noticed, if all have a checkpoint. */
static void kill_one(sim_world *w) {
    sim_random *r = &w->r[SIM_RESTART];
    uint64_t now = sim_now(w), last = 0;
    bool eager = w->plan->offer_own && common_step(w) != 0 && sim_below(r, 2) == 0;
    w->out->restarts++;
    w->out->injected++;
    for (unsigned i = 0; i < 3; i++) {
        sim_party *p = &w->party[i];
        p->dies_at = now + (i == w->kill_party ? 0 : some_time(r, 10000, 300 * SIM_MS));
        last = p->dies_at > last ? p->dies_at : last;
    }
    for (unsigned i = 0; i < 3; i++)
        w->party[i].rebuild_at =
            (eager && i == w->kill_party ? now : last) + 1 + some_time(r, 10000, 300 * SIM_MS);
    die(&w->party[w->kill_party]);
    w->party[w->kill_party].dies_at = UVCC_NEVER;
    bool again = sim_below(r, 3) == 0 && w->plan->next_run < 1u << 20;
    w->kill_party = (uint8_t)sim_below(r, 3);
    w->kill_at = again ? last + SIM_S + some_time(r, SIM_MS, 2 * SIM_S) : UVCC_NEVER;
}

/* ---- clocks, cuts, the calm ---- */

static void upset_clock(sim_world *w) {
    static const sim_fault kinds[] = {SIM_CLOCK_AHEAD, SIM_CLOCK_STOP, SIM_CLOCK_BACK};
    for (unsigned i = 0; i < 3; i++) {
        sim_fault f = kinds[i];
        sim_random *r = &w->r[f];
        sim_party *p = &w->party[sim_below(r, w->nodes)];
        uint64_t ns = some_time(r, 100000, f == SIM_CLOCK_STOP ? 2 * SIM_S : 3600 * SIM_S);
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
            arm(p, false);
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
    w->uncut_at = now + some_time(r, SIM_MS, 2 * SIM_S);
    w->next_cut = w->uncut_at + some_time(r, SIM_MS, SIM_S);
    w->out->injected++;
}

/* An unaccepted message is not acknowledged, so its sender tries on. */
static void check_held(sim_world *w) {
    uint64_t rto = w->plan->rto_max_ns != 0 ? w->plan->rto_max_ns : 2 * SIM_S;
    uint64_t off = SIM_BIT(SIM_CLOCK_AHEAD) | SIM_BIT(SIM_CLOCK_STOP) | SIM_BIT(SIM_CLOCK_BACK) |
                   SIM_BIT(SIM_RESTART) | SIM_BIT(SIM_HOSTILE) | SIM_BIT(SIM_ALLOC) |
                   SIM_BIT(SIM_JOB_FAIL) | SIM_BIT(SIM_BANDWIDTH);
    if (!w->plan->datagram || (w->plan->faults & off) != 0 || w->out->aborts != 0)
        return;
    uint64_t now = sim_now(w);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const sim_party *p = &w->party[i];
        bool held = false;
        uint64_t heard = 0;
        for (uint32_t k = 0; k < p->job_count; k++)
            held |= p->jobs[k].receives && p->jobs[k].due == UVCC_NEVER &&
                    now - p->jobs[k].since > 3 * rto;
        for (uint32_t q = 0; q < w->nodes; q++)
            heard = w->pipe[q][i].data_at > heard ? w->pipe[q][i].data_at : heard;
        if (held && now - heard > 2 * rto)
            sim_fail(w,
                     "party %u did not accept a message yet, but nobody has sent it again for %.2f "
                     "s; retransmissions are %.2f s apart at most",
                     p->index, (double)(now - heard) * 1e-9, (double)rto * 1e-9);
    }
}

static void calm(sim_world *w) {
    check_held(w);
    bool hostile = sim_on(w, SIM_HOSTILE);
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
            if (hostile && !w->plan->datagram && (a == w->plan->hostile_party))
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

/* ---- the loop ---- */

static bool deliver(sim_world *w) {
    uvcc_loopback_event ev;
    bool any = false;
    while (!w->out->failed && uvcc_loopback_poll(w->net, &ev) == 1) {
        any = true;
        sim_party *p = &w->party[ev.to];
        uint8_t peer = (uint8_t)(ev.from % 3);
        if (ev.from / 3 != ev.to / 3)
            continue;
        int rc = 0;
        if (ev.kind != UVCC_LOOPBACK_DATA) {
            p->up[peer] = ev.kind == UVCC_LOOPBACK_OPENED;
            p->missed[peer] = false;
            sim_wire_reset(w, ev.to, ev.from);
            p->slot[peer].out = false;
        }
        if (p->s == NULL) {
            p->missed[peer] |= ev.kind == UVCC_LOOPBACK_DATA;
            continue;
        }
        sim_before_input(p);
        if (ev.kind == UVCC_LOOPBACK_OPENED) {
            p->reopened++;
            rc = uvcc_session_peer_open(p->s, peer, look(p));
        } else if (ev.kind == UVCC_LOOPBACK_CLOSED) {
            rc = uvcc_session_peer_closed(p->s, peer, look(p));
        } else {
            p->frames_in++;
            rc = uvcc_session_feed(p->s, peer, ev.data, ev.len, look(p));
            if (rc == UVCC_ERR_STREAM_BROKEN) {
                if (w->plan->datagram || (!was_on(w, SIM_CORRUPT) && !was_on(w, SIM_TRUNCATE) &&
                                          !was_on(w, SIM_HOSTILE) && !was_on(w, SIM_ALLOC)))
                    sim_fail(w, "party %u breaks a stream that nobody harmed", p->index);
                (void)uvcc_loopback_disconnect(w->net, ev.from, ev.to);
                rc = 0;
            }
        }
        if (rc != 0)
            sim_fail(w, "party %u: an input from the network says %d", p->index, rc);
        sim_settle(p);
    }
    return any;
}

static bool party_pass(sim_party *p) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w);
    if (p->dies_at <= now) {
        p->dies_at = UVCC_NEVER;
        die(p);
    }
    if (p->rebuild_at <= now) {
        rebuild(p);
        return true;
    }
    if (p->s == NULL)
        return false;
    bool any = sim_jobs_due(p);
    if (any)
        sim_settle(p);
    if (p->s != NULL && p->wake <= now) {
        sim_before_input(p);
        p->timers++;
        int rc = uvcc_session_on_timer(p->s, look(p));
        if (rc != 0)
            sim_fail(w, "party %u: on_timer says %d", p->index, rc);
        sim_settle(p);
        arm(p, true);
        any = true;
    }
    any |= sim_wire_flush(p);
    for (uint32_t q = 0; q < 3; q++) {
        uint32_t to = 3u * p->triangle + q;
        if (w->pipe[p->node][to].drop_at > now)
            continue;
        w->pipe[p->node][to].drop_at = UVCC_NEVER;
        (void)uvcc_loopback_disconnect(w->net, p->node, to);
        any = true;
    }
    if (transmit(p)) {
        sim_settle(p);
        any = true;
    }
    return any;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t next_time(const sim_world *w) {
    uint64_t now = sim_now(w), next = uvcc_loopback_next(w->net);
    next = least(next, least(w->kill_at, least(w->next_clock, least(w->next_cut, w->uncut_at))));
    if (!w->calm)
        next = least(next, w->plan->calm_at_ns);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const sim_party *p = &w->party[i];
        next = least(next, p->rebuild_at);
        next = least(next, p->dies_at);
        if (p->s == NULL)
            continue;
        next = least(next, least(p->wake, sim_jobs_next(p)));
        for (unsigned q = 0; q < 3; q++) {
            if (p->slot[q].out && p->slot[q].due > now)
                next = least(next, p->slot[q].due);
            next = least(next, w->pipe[i][3u * p->triangle + q].drop_at);
        }
    }
    return next;
}

/* In a repetition of restarts: all die as soon as all can resume where the next run did. */
static void next_life(sim_world *w) {
    if (w->again == NULL || w->life + 1 >= w->again->lives)
        return;
    uint32_t base = w->again->life[w->life + 1].base;
    for (unsigned i = 0; i < 3; i++)
        if (base != 0 && kept_at(&w->party[i], w->plan->first_step + base) == NULL)
            return;
    w->life++;
    for (unsigned i = 0; i < 3; i++)
        die(&w->party[i]);
    for (unsigned i = 0; i < 3; i++)
        (void)build(&w->party[i],
                    base == 0 ? NULL : kept_at(&w->party[i], w->plan->first_step + base));
}

static void script(sim_world *w) {
    uint64_t now = sim_now(w);
    next_life(w);
    if (!w->calm && w->plan->calm_at_ns <= now)
        calm(w);
    if (w->kill_at <= now)
        kill_one(w);
    if (w->next_clock <= now) {
        upset_clock(w);
        w->next_clock = now + some_time(&w->compute, SIM_MS, 500 * SIM_MS);
    }
    if (w->uncut_at <= now) {
        (void)uvcc_loopback_cut(w->net, w->cut_from, w->cut_to, false);
        w->uncut_at = UVCC_NEVER;
    }
    if (w->next_cut <= now)
        cut_one(w);
}

/* All that happens now, then the clock moves. */
static void turn(sim_world *w) {
    bool moved = true;
    while (moved && !w->out->failed) {
        script(w);
        moved = deliver(w);
        for (uint32_t i = 0; i < w->nodes && !w->out->failed; i++)
            moved |= party_pass(&w->party[i]);
        w->out->turns++;
    }
    uint64_t next = next_time(w);
    if (next == UVCC_NEVER)
        next = sim_now(w) + SIM_S;
    uvcc_loopback_advance(w->net, next > sim_now(w) ? next : sim_now(w) + 1000);
    uint64_t inputs = 0;
    for (uint32_t i = 0; i < w->nodes; i++)
        inputs += w->party[i].inputs;
    if (inputs > INPUTS_MAX)
        sim_fail(w, "the run takes too many steps");
}

static bool all_finished(const sim_world *w) {
    if (w->again != NULL && w->life + 1 < w->again->lives)
        return false;
    for (uint32_t i = 0; i < w->nodes; i++)
        if (w->party[i].s == NULL || w->party[i].finished < w->work->steps ||
            w->party[i].rebuild_at != UVCC_NEVER || w->party[i].job_count != 0)
            return false;
    return true;
}

static bool all_closed(const sim_world *w) {
    for (uint32_t i = 0; i < w->nodes; i++)
        if (!w->party[i].closed)
            return false;
    return true;
}

static void run_for(sim_world *w, uint64_t ns) {
    uint64_t end = sim_now(w) + ns;
    while (!w->out->failed && sim_now(w) < end)
        turn(w);
}

/* With nothing to send there is no traffic but keep-alives. */
static void check_quiet(sim_world *w) {
    uint64_t before[SIM_NODES][SIM_NODES];
    uint64_t every = w->plan->keepalive_ns != 0 ? w->plan->keepalive_ns : KEEPALIVE_NS;
    run_for(w, QUIET_AFTER);
    for (uint32_t a = 0; a < w->nodes; a++)
        for (uint32_t b = 0; b < w->nodes; b++)
            before[a][b] = w->pipe[a][b].frames;
    run_for(w, QUIET_NS);
    for (uint32_t a = 0; a < w->nodes; a++)
        for (uint32_t b = 0; b < w->nodes; b++)
            if (w->pipe[a][b].frames - before[a][b] >
                2 * (QUIET_NS / every + (every != UVCC_NEVER)))
                sim_fail(w, "%llu frames from %u to %u with nothing to send",
                         (unsigned long long)(w->pipe[a][b].frames - before[a][b]), a, b);
}

static void close_all(sim_world *w) {
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        if (p->s == NULL || p->closing || p->closed)
            continue;
        sim_before_input(p);
        int rc = uvcc_session_close(p->s, look(p));
        if (rc != 0)
            sim_fail(w, "party %u: close says %d", p->index, rc);
        p->closing = true;
        sim_settle(p);
    }
}

/* Parties that nobody told of an abort learn of it by their hosts. */
static void abort_rest(sim_world *w) {
    bool ready = false;
    for (uint32_t i = 0; i < w->nodes; i++)
        ready |= w->party[i].aborted && w->party[i].ready;
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        if (p->s == NULL || p->aborted || p->closed)
            continue;
        if (ready && p->ready && !was_on(w, SIM_CLOCK_BACK) && !was_on(w, SIM_ALLOC) &&
            w->nodes == 3)
            sim_fail(w, "party %u was not told of an abort", p->index);
        (void)uvcc_session_abort(p->s, UVCC_ABORT_HOST, look(p));
        sim_settle(p);
    }
}

static void run(sim_world *w) {
    bool finished = false;
    uint64_t limit = w->plan->calm_at_ns + LIVENESS_NS;
    while (!w->out->failed && !all_closed(w)) {
        turn(w);
        uint64_t now = sim_now(w);
        if (!finished && w->out->aborts == 0 && all_finished(w)) {
            finished = true;
            if (w->calm && w->back_ns == 0 && w->plan->seed % 4 == 0)
                check_quiet(w);
            limit = now > limit ? now + LIVENESS_NS : limit;
            w->kill_at = UVCC_NEVER;
            close_all(w);
        }
        if (w->calm && w->out->aborts != 0 && now > w->plan->calm_at_ns + TOLD_NS + w->back_ns)
            abort_rest(w);
        if (now > limit + w->back_ns)
            sim_fail(
                w,
                "not done %llu s after the faults ended: finished %u %u %u of %u, ready %d %d %d, "
                "closed %d %d %d",
                (unsigned long long)(LIVENESS_NS / SIM_S), w->party[0].finished,
                w->party[1].finished, w->party[2].finished, w->work->steps, w->party[0].ready,
                w->party[1].ready, w->party[2].ready, w->party[0].closed, w->party[1].closed,
                w->party[2].closed);
    }
}

/* ---- the end ---- */

static void check_end(sim_party *p) {
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
    if (!p->aborted && w->out->aborts == 0 && st.leaves != leaves)
        sim_fail(w, "party %u: %llu leaves, not %llu", p->index, (unsigned long long)st.leaves,
                 (unsigned long long)leaves);
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

static void check_work(sim_party *p) {
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

static void finish(sim_world *w) {
    uvcc_loopback_stats n;
    uvcc_loopback_get_stats(w->net, &n);
    w->out->injected += n.dropped + n.duplicated + n.reordered + n.corrupted + n.truncated +
                        n.stalls + n.disconnects;
    w->out->virtual_ns = sim_now(w);
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        if (p->s != NULL && !w->out->failed) {
            uint8_t d[32];
            uvcc_session_digest(p->s, d);
            sim_trace(w, 50 + i, sim_hash(d, 32, 0), 0);
            check_end(p);
            check_work(p);
        }
        if (p->triangle == 0 && p->s != NULL) {
            uvcc_session_stats st;
            uvcc_session_get_stats(p->s, &st);
            w->record->memory_peak[i] = st.memory_peak_bytes;
            w->record->allocs[i] = p->mem.calls;
        }
        if (w->out->failed) { /* its memory is evidence of nothing any more */
            sim_jobs_drop(p);
            uvcc_session_free(p->s);
            p->s = NULL;
        } else if (p->s != NULL) {
            bury(p);
        }
        for (unsigned k = 0; k < 2; k++)
            free(p->kept[k].data);
        free(p->jobs);
        free(p->late);
    }
    w->out->digest = w->trace;
    uvcc_loopback_free(w->net);
    sim_wire_free(w);
}

static void simulate(const sim_plan *plan, const sim_workload *work, const sim_record *clean,
                     const sim_record *again, sim_record *record, sim_outcome *out, bool verbose) {
    sim_world *w = calloc(1, sizeof *w);
    if (w == NULL)
        abort();
    *w = (sim_world){.plan = plan,
                     .work = work,
                     .clean = clean,
                     .record = record,
                     .again = again,
                     .out = out,
                     .verbose = verbose,
                     .faults = plan->faults,
                     .nodes = 3 * plan->triangles,
                     .compute = sim_stream(plan->seed, SIM_STREAM_COMPUTE)};
    uvcc_allocator al = uvcc_host_allocator();
    if (uvcc_loopback_new(&w->net, &al, w->nodes, plan->datagram, plan->seed) != 0 ||
        uvcc_loopback_set_all_faults(w->net, &plan->link) != 0)
        abort();
    for (unsigned f = 0; f < SIM_FAULTS; f++)
        w->r[f] = sim_stream(plan->seed, f);
    for (unsigned a = 0; a < SIM_NODES * SIM_NODES; a++)
        w->pipe[a / SIM_NODES][a % SIM_NODES].drop_at = UVCC_NEVER;
    w->kill_at = w->next_clock = w->next_cut = w->uncut_at = UVCC_NEVER;
    w->cut_to = 1;
    if (sim_on(w, SIM_RESTART)) {
        w->kill_party = (uint8_t)sim_below(&w->r[SIM_RESTART], 3);
        w->kill_at = some_time(&w->r[SIM_RESTART], 500000, plan->calm_at_ns / 2);
    }
    if (sim_on(w, SIM_CLOCK_AHEAD) || sim_on(w, SIM_CLOCK_STOP) || sim_on(w, SIM_CLOCK_BACK))
        w->next_clock = some_time(&w->compute, SIM_MS, 100 * SIM_MS);
    if (sim_on(w, SIM_CUT))
        w->next_cut = some_time(&w->r[SIM_CUT], SIM_MS, SIM_S);
    for (uint32_t i = 0; i < w->nodes; i++) {
        sim_party *p = &w->party[i];
        *p = (sim_party){.w = w,
                         .node = (uint8_t)i,
                         .index = (uint8_t)(i % 3),
                         .triangle = (uint8_t)(i / 3),
                         .cpu = shared_cpu(),
                         .skew = CLOCK_START + i * 1000003u,
                         .wake = UVCC_NEVER,
                         .rebuild_at = UVCC_NEVER,
                         .dies_at = UVCC_NEVER,
                         .greatest_run = UINT32_MAX};
        if (sim_on(w, SIM_ALLOC) && i == plan->alloc_party)
            p->mem.fail_at = plan->alloc_at != 0
                                 ? plan->alloc_at
                                 : 1 + (uint64_t)(plan->alloc_place * (double)clean->allocs[i]);
    }
    for (uint32_t i = 0; i < w->nodes && !out->failed; i++)
        (void)build(&w->party[i], NULL);
    run(w);
    finish(w);
    free(w);
}

/* The restarts of a run once more, without faults: the runs that went ready everywhere, one after
 * the other, from the last that began anew. */
static void lives_that_count(sim_record *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->lives; i++) {
        if (r->life[i].ready < 3)
            continue;
        if (r->life[i].base == 0)
            n = 0;
        r->life[n++] = r->life[i];
    }
    r->lives = n;
}

static void compare_roots(const sim_record *a, const sim_record *b, uint32_t steps,
                          sim_outcome *out) {
    for (unsigned p = 0; p < 3; p++)
        for (uint32_t i = 0; i < steps && !out->failed; i++) {
            if (a->output_hash[p][i] == b->output_hash[p][i] &&
                memcmp(a->root[p][i], b->root[p][i], 32) == 0)
                continue;
            out->failed = true;
            (void)snprintf(out->why, sizeof out->why,
                           "party %u: the root or the outputs of step %u are not those of the same "
                           "runs without faults",
                           p, i);
        }
}

static void prefix_why(sim_outcome *out, const char *prefix) {
    char why[sizeof out->why];
    memcpy(why, out->why, sizeof why);
    (void)snprintf(out->why, sizeof out->why, "%s: %.180s", prefix, why);
}

void sim_seed(const sim_plan *plan, sim_outcome *out, bool verbose) {
    *out = (sim_outcome){.faults = plan->faults};
    sim_workload work;
    if (!sim_workload_draw(&work, plan->seed, out->why, sizeof out->why)) {
        out->failed = true;
        sim_workload_free(&work);
        return;
    }
    out->why[0] = '\0';
    sim_plan still = *plan;
    still.faults = 0;
    still.link = (uvcc_fault_config){0};
    still.calm_at_ns = 1;
    static sim_record clean; /* of the last seed: a sweep has many runs of one */
    static uint64_t clean_seed, clean_digest;
    static bool have_clean;
    sim_record *record = calloc(2, sizeof *record), *again = record + 1;
    if (record == NULL)
        abort();
    if (!have_clean || clean_seed != plan->seed) {
        memset(&clean, 0, sizeof clean);
        simulate(&still, &work, NULL, NULL, &clean, out, false);
        clean_digest = out->digest;
        clean_seed = plan->seed;
        have_clean = !out->failed;
    }
    memcpy(out->allocs, clean.allocs, sizeof out->allocs);
    if (out->failed) {
        prefix_why(out, "without faults");
    } else {
        out->messages = out->turns = 0;
        simulate(plan, &work, &clean, NULL, record, out, verbose);
        out->digest = sim_mix(out->digest ^ clean_digest);
    }
    lives_that_count(record);
    if (!out->failed && out->restarts != 0 && out->aborts == 0 && record->lives != 0) {
        sim_outcome o = {.faults = 0};
        still.triangles = 1;
        simulate(&still, &work, NULL, record, again, &o, false);
        if (o.failed) {
            out->failed = true;
            memcpy(out->why, o.why, sizeof out->why);
            prefix_why(out, "the same runs without faults");
        } else {
            compare_roots(record, again, work.steps, out);
        }
    }
    sim_workload_free(&work);
    free(record);
}
