/* SPDX-License-Identifier: Apache-2.0 */
/* life.c - the life of a party's sessions: memory that can fail, a configuration, what is offered
 * to go on from, the end. A party dies with all that is not on its disk, or ends its session,
 * because a peer began anew, and begins the next one. */
#include "world.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- sessions ---- */

/* Above every run that the party heard of, and every number that it gave before. */
static uint32_t next_run(const sim_party *p) {
    const sim_world *w = p->w;
    const uint32_t heard = p->greatest_run + 1, gave = p->used_run + 1; /* 0: none yet */
    if (w->again != NULL)
        return w->again->life[w->life].run;
    if (heard == 0 && gave == 0)
        return w->plan->next_run - (w->plan->next_run != 0 && p->index == 1);
    return heard > gave ? heard : gave;
}

/* A run that goes on has random bytes of its own, unless just that is what is tried out. */
static void config(sim_party *p, uvcc_config *c) {
    sim_world *w = p->w;
    const sim_plan *plan = w->plan;
    (void)uvcc_config_default(c, sizeof *c);
    c->alloc = (uvcc_allocator){.alloc = memory_alloc, .free = memory_free, .user = &p->mem};
    const bool first = p->greatest_run == UINT32_MAX && p->used_run == UINT32_MAX;
    p->random_name = w->again != NULL ? w->again->life[w->life].random[p->index]
                     : first || sim_was_on(w, SIM_SAME_RANDOM) ? 0
                                                               : next_run(p);
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
    c->links.silence_ns = plan->silence_ns;
    c->links.congestion = plan->congestion >> (2 * p->index) & 3;
    c->links.rate_bytes_per_s = plan->rate_bytes_per_s;
    c->limits.close_ns = plan->close_ns;
    c->resume.next_step = plan->first_step;
    c->resume.next_run = next_run(p);
    c->cookie = 1000u + 16u * c->resume.next_run + p->node;
    c->resume.checkpoint_every = 1;
    c->resume.cancellable = sim_cancels(p);
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

/* A policy that lets every output but one open, to where the program opens it. UINT32_MAX: all. */
static size_t policy_but(const sim_workload *work, uint32_t entry, uint32_t output, char *text,
                         size_t cap) {
    int n = snprintf(text, cap, "uvcc policy v1\nprogram any\n");
    for (uint32_t e = 0; e < uvcc_program_entry_count(work->program); e++)
        for (uint32_t i = 0; i < uvcc_program_output_count(work->program, e); i++) {
            const uvcc_io_desc *io = uvcc_program_output_at(work->program, e, i);
            const bool all = io->receiver == UVCC_TO_ALL;
            if (e == entry && i == output)
                continue;
            n += snprintf(text + n, cap - (size_t)n, "open %s %u to %.*s\n",
                          uvcc_program_entry_name(work->program, e), io->id, all ? 3 : 1,
                          all ? "all" : &"012"[io->receiver]);
            if ((size_t)n >= cap)
                return 0;
        }
    return (size_t)n;
}

/* A session whose policy forbids an output refuses the program, names the output, and nothing else
 * has happened. It is tried on a configuration with hooks of its own. */
static void must_refuse(sim_party *p, const uvcc_config *like) {
    sim_world *w = p->w;
    const uvcc_program *program = w->work->program;
    char text[UVCC_POLICY_BYTES_MAX], want[64];
    uvcc_seeded_random random;
    uvcc_config c = *like;
    uvcc_session *s;
    uint32_t entry = 0;
    while (entry < uvcc_program_entry_count(program) &&
           uvcc_program_output_count(program, entry) == 0)
        entry++;
    if (entry == uvcc_program_entry_count(program))
        return;
    const uint32_t output = p->index % uvcc_program_output_count(program, entry);
    const size_t len = policy_but(w->work, entry, output, text, sizeof text);
    if (len == 0)
        return;
    c.alloc = uvcc_host_allocator();
    c.random = uvcc_seeded(&random, w->plan->seed, p->node);
    c.record = (uvcc_recorder){0};
    c.trace = (uvcc_tracer){0};
    c.log = (uvcc_logger){0};
    c.consent.policy = text;
    c.consent.policy_len = len;
    if (uvcc_session_new(&s, &c) != 0)
        return;
    (void)snprintf(want, sizeof want, "output %u of entry %s",
                   uvcc_program_output_at(program, entry, output)->id,
                   uvcc_program_entry_name(program, entry));
    if (uvcc_session_load_program(s, program) != UVCC_ERR_REFUSED ||
        strstr(uvcc_session_error_detail(s), want) == NULL)
        sim_fail(w, "party %u: its policy does not let output %u of entry %u open, and it loads it",
                 p->index, output, entry);
    uvcc_session_free(s);
}

/* What a session has for a peer goes to a session of that peer. */
static void hand_over(uvcc_session *from, uvcc_session *to, uint8_t sender, uint8_t receiver) {
    uvcc_transmit tx;
    while (uvcc_session_poll_transmit(from, &tx, 0) == 1) {
        for (uint32_t i = 0; i < tx.slice_count && tx.peer == receiver; i++)
            (void)uvcc_session_feed(to, sender, tx.slices[i].data, tx.slices[i].len, 0);
        (void)uvcc_session_transmit_done(from, tx.peer, tx.id, tx.total, 0);
    }
}

/* Two sessions of hooks of their own, that of party 0 and one of party 1 that has another policy,
 * or another part of the job: the first HELLO of either says so. */
static void must_differ(sim_party *p, const uvcc_config *like, bool job) {
    sim_world *w = p->w;
    uvcc_seeded_random random[2];
    uvcc_session *s[2] = {NULL, NULL};
    uvcc_event e;
    bool told = false;
    for (uint8_t i = 0; i < 2; i++) {
        uvcc_config c = *like;
        c.alloc = uvcc_host_allocator();
        c.random = uvcc_seeded(&random[i], w->plan->seed, 100u + i);
        c.record = (uvcc_recorder){0};
        c.trace = (uvcc_tracer){0};
        c.log = (uvcc_logger){0};
        c.identity.party = i;
        c.identity.exchange_x25519 = 0;
        if (job) {
            c.agree.count = UVCC_AGREE_MAX;
            c.agree.name[p->w->plan->seed % UVCC_AGREE_MAX] = "rate";
            c.agree.part[p->w->plan->seed % UVCC_AGREE_MAX] = i;
        } else {
            memset(c.identity.policy_hash, 1 + i, 32);
        }
        for (uint8_t q = 0; q < 3; q++)
            memset(c.identity.pair_secret[q], 1 + i + q, 32);
        if (uvcc_session_new(&s[i], &c) != 0 ||
            uvcc_session_load_program(s[i], w->work->program) != 0 ||
            uvcc_session_start(s[i], 0) != 0)
            sim_fail(w, "a session that differs from the others' cannot begin");
        for (uint8_t q = 0; q < 3 && !w->plan->datagram; q++)
            if (q != i)
                (void)uvcc_session_peer_open(s[i], q, 0);
    }
    hand_over(s[0], s[1], 0, 1);
    while (uvcc_session_poll_event(s[1], &e) == 1)
        told |= e.kind == UVCC_EVENT_MISMATCH && strcmp(e.text, job ? "job: rate" : "policy") == 0;
    if (!told)
        sim_fail(w, "two parties have different %s, and nobody is told", job ? "jobs" : "policies");
    uvcc_session_free(s[0]);
    uvcc_session_free(s[1]);
}

/* The smallest receive credit for keys that this program can live with. */
static int load(sim_party *p, uvcc_config *c) {
    sim_world *w = p->w;
    must_refuse(p, c);
    for (unsigned job = 0; job < 2 && p->node == 0; job++)
        must_differ(p, c, job != 0);
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

void sim_bury(sim_party *p) {
    sim_world *w = p->w;
    uvcc_session_free(p->s);
    p->s = NULL;
    sim_jobs_drop(p);
    sim_wire_forget(p);
    if (p->mem.live_blocks != 0)
        sim_fail(w, "party %u: %llu blocks are left after free", p->index,
                 (unsigned long long)p->mem.live_blocks);
    memset(p->slot, 0, sizeof p->slot);
    p->wake = UVCC_NEVER;
    p->ready = p->closing = p->closed = p->aborted = p->resumed = p->renews = false;
    p->silent[0] = p->silent[1] = p->silent[2] = false;
    p->close_at = 0;
    p->agreed = p->finished = p->given = p->initial_set = 0;
    memset(p->loaded, 0, 32);
}

/* Offers what is kept, that of the latest run first, as far as there is room. */
static int offer(sim_party *p) {
    bool given[SIM_KEPT] = {false};
    const sim_checkpoint *newest = NULL;
    int rc = p->past_first ? 0 : uvcc_session_resume(p->s, NULL, 0);
    for (unsigned n = p->past_first ? 0 : 1; n < 4 && rc == 0; n++) {
        unsigned best = SIM_KEPT;
        for (unsigned i = 0; i < SIM_KEPT; i++) {
            const sim_checkpoint *c = &p->kept[i], *b = &p->kept[best % SIM_KEPT];
            if (c->data != NULL && !given[i] &&
                (best == SIM_KEPT || c->run > b->run || (c->run == b->run && c->step > b->step)))
                best = i;
        }
        if (best == SIM_KEPT)
            break;
        const sim_checkpoint *c = &p->kept[best];
        given[best] = true;
        rc = uvcc_session_resume(p->s, c->data, c->len);
        if (newest == NULL || c->step > newest->step ||
            (c->step == newest->step && c->run > newest->run))
            newest = c;
    }
    if (rc == 0 && newest != NULL)
        memcpy(p->loaded, newest->lineage, 32);
    return rc == 0 && newest == NULL ? sim_set_initial(p) : rc;
}

/* A session that goes on from what is kept, or begins. False if memory was refused: try again. */
bool sim_build(sim_party *p) {
    sim_world *w = p->w;
    uvcc_config c;
    config(p, &c);
    int rc = load(p, &c);
    if (rc == 0)
        rc = offer(p);
    if (rc == 0)
        rc = uvcc_session_start(p->s, sim_look(p));
    if (rc == UVCC_ERR_NOMEM) {
        sim_bury(p);
        p->rebuild_at = sim_now(w) + SIM_MS;
        return false;
    }
    if (rc != 0) {
        sim_fail(w, "party %u: a session cannot begin: %d", p->index, rc);
        return false;
    }
    p->rebuild_at = UVCC_NEVER;
    p->used_run = c.resume.next_run;
    for (uint8_t q = 0; q < 3 && !w->plan->datagram; q++)
        if (q != p->index &&
            p->missed[q]) /* what came was for nobody: no host has that connection */
            (void)uvcc_loopback_disconnect(w->net, p->node, 3u * p->triangle + q);
        else if (q != p->index && p->up[q])
            (void)sim_stream_open(p, q);
    sim_settle(p);
    return true;
}

void sim_die(sim_party *p) {
    sim_world *w = p->w;
    if (p->s == NULL)
        return;
    sim_trace(w, 40 + p->node, 0, 0);
    if (w->verbose)
        (void)fprintf(stderr, "%12.6f party %u dies\n", (double)sim_now(w) * 1e-9, p->node);
    sim_bury(p);
    for (unsigned i = 0; i < SIM_KEPT; i++)
        if (!p->kept[i].durable)
            sim_drop(&p->kept[i]);
    for (uint32_t q = 0; q < 3 && !w->plan->datagram; q++)
        if (q != p->index)
            (void)uvcc_loopback_disconnect(w->net, p->node, 3u * p->triangle + q);
}

/* The process lives on, so half of the hosts bring to their disks what is not there yet. */
void sim_renew(sim_party *p) {
    sim_random *r = &p->w->lone;
    if (sim_below(r, 2) == 0)
        sim_make_durable(p, UINT32_MAX);
    sim_die(p);
    p->rebuild_at = sim_now(p->w) + 1 + sim_some_time(r, 10000, 300 * SIM_MS);
}
