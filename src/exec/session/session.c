/* session.c - the public object: configuration, life, and the input calls without their recording
 * (calls.c has that). What an input means is decided elsewhere: each call notes the time, hands on
 * what came, and ends in uvcci_dispatch(), which carries it to where it belongs. */
#include "exec/session/session.h"

#include "exec/ops/dealing.h"
#include "exec/ops/triples.h"
#include "exec/runtime/trace.h"
#include "exec/session/bundle_store.h"
#include "exec/session/cancel.h"
#include "exec/session/checkpoint.h"
#include "exec/session/consent.h"
#include "exec/session/dispatch.h"
#include "exec/session/instance.h"
#include "exec/session/peers.h"
#include "exec/session/receive.h"
#include "exec/session/root.h"
#include "exec/session/step.h"
#include "proto/link_session.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

#define KEEPALIVE_NS   10000000000ull /* of links, unless silence has to be noticed before */
#define SILENCE_MIN_NS 1000000ull

/* ---- configuration and life ---- */

int uvcc_config_default(uvcc_config *cfg, size_t cfg_size) {
    if (cfg == NULL || cfg_size < sizeof(size_t) || cfg_size > sizeof *cfg)
        return UVCC_ERR_USAGE;
    memset(cfg, 0, cfg_size);
    cfg->size = cfg_size;
    return 0;
}

static bool all_zero(const uint64_t *words, size_t n) {
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= words[i];
    return any == 0;
}

/* Words that a later version gave a meaning: whoever sets them relies on it. */
static bool reserved_unused(const uvcc_config *c) {
#define UNUSED(group) all_zero(c->group.reserved, sizeof c->group.reserved / sizeof(uint64_t))
    return c->links.reserved32 == 0 && UNUSED(identity) && UNUSED(place) && UNUSED(limits) &&
           UNUSED(resume) && UNUSED(checks) && UNUSED(triples) && UNUSED(consent) &&
           c->consent.reserved32 == 0;
#undef UNUSED
}

static bool zero32(const uint8_t b[32]) {
    static const uint8_t zero[32];
    return uvcci_ct_equal(b, zero, 32);
}

/* What a host forgot to fill in would be a job that others can join, or keys that everybody knows.
 * The member that is wrong, and what is wrong with it; NULL if nothing is. `own`: the public key of
 * sign_seed. */
static const char *identity_fault(const uvcc_config *c, const uint8_t own[32]) {
    const uvcc_config_identity *id = &c->identity;
    const uint8_t a = (uint8_t)((id->party + 1u) % 3u), b = (uint8_t)((id->party + 2u) % 3u);
    if (id->kem != UVCC_KEM_NONE &&
        (id->kem > UINT16_MAX || uvcci_kem_of((uint16_t)id->kem) == NULL))
        return "identity.kem is unknown";
    if (zero32(id->sid_job))
        return "identity.sid_job is zero";
    if ((id->exchange_x25519 || !c->checks.audit_off) && zero32(id->sign_seed))
        return "identity.sign_seed is zero";
    if (!id->exchange_x25519) {
        if (zero32(id->pair_secret[a]) || zero32(id->pair_secret[b]))
            return "identity.pair_secret of a peer is zero";
        if (uvcci_ct_equal(id->pair_secret[a], id->pair_secret[b], 32))
            return "identity.pair_secret of both peers is the same";
        return NULL;
    }
    if (zero32(id->peer_sign_key[a]) || zero32(id->peer_sign_key[b]))
        return "identity.peer_sign_key of a peer is zero";
    if (uvcci_ct_equal(id->peer_sign_key[a], id->peer_sign_key[b], 32) ||
        uvcci_ct_equal(id->peer_sign_key[a], own, 32) ||
        uvcci_ct_equal(id->peer_sign_key[b], own, 32))
        return "identity.peer_sign_key of two parties is the same";
    return NULL;
}

/* A peer that has nothing to say is heard by the answers to our PINGs alone: several of them must
 * fit into the least time of silence. */
static bool silence_take(uvcc_session *s) {
    uvcc_config_links *c = &s->cfg.links;
    if (c->silence_ns == 0 && c->silence_abort_ns == 0)
        return true;
    const uint64_t least = c->silence_ns != 0 ? c->silence_ns : c->silence_abort_ns;
    if (c->silence_abort_ns != 0 && c->silence_abort_ns < least) {
        uvcci_log(s, UVCC_LOG_ERROR, "links.silence_abort_ns is below links.silence_ns");
        return false;
    }
    if (c->keepalive_ns == 0)
        c->keepalive_ns = least / 4 < KEEPALIVE_NS ? least / 4 : KEEPALIVE_NS;
    if (least < SILENCE_MIN_NS || c->keepalive_ns > least / 2) {
        uvcci_log(s, UVCC_LOG_ERROR,
                  "links.silence_ns is below 1 ms, or below twice links.keepalive_ns");
        return false;
    }
    return true;
}

/* What is 0 means a default; a contradiction is refused here, before anything depends on it. */
static int config_take(uvcc_session *s, const uvcc_config *in) {
    uvcc_config *c = &s->cfg;
    memcpy(c, in, in->size);
    if (!reserved_unused(c) || c->flags != 0 || c->identity.party > 2 ||
        c->links.suites > UVCC_SUITES_ALL || c->alloc.alloc == NULL || c->alloc.free == NULL ||
        c->random.fill == NULL)
        return UVCC_ERR_CONFIG;
    uint16_t *ones[] = {&c->place.replicas, &c->place.stages, &c->place.tp_ranks};
    for (unsigned i = 0; i < 3; i++)
        if (*ones[i] == 0)
            *ones[i] = 1;
    if (c->place.replica >= c->place.replicas || c->place.stage >= c->place.stages ||
        c->place.tp_rank >= c->place.tp_ranks || c->place.stages > 256 ||
        (c->checks.bundles && c->checks.audit_off))
        return UVCC_ERR_CONFIG;
    uvcci_sign_keypair(c->identity.sign_seed, s->sign_pk, s->sign_sk);
    const char *fault = identity_fault(c, s->sign_pk);
    if (fault != NULL) {
        uvcci_log(s, UVCC_LOG_ERROR, "party %u: %s", c->identity.party, fault);
        return UVCC_ERR_CONFIG;
    }
    if (c->links.suites == 0)
        c->links.suites = UVCC_SUITES_ALL;
    if (c->limits.jobs_max == 0)
        c->limits.jobs_max = 256;
    if (c->limits.leaves_max == 0)
        c->limits.leaves_max = 1u << 22;
    if (c->limits.keys_ahead_bytes == 0)
        c->limits.keys_ahead_bytes = 32ull << 20;
    if (c->links.hello_repeat_ns == 0)
        c->links.hello_repeat_ns = 200000000ull;
    if (c->limits.close_ns == 0)
        c->limits.close_ns = 3000000000ull;
    if (c->limits.triples_ahead_bytes == 0)
        c->limits.triples_ahead_bytes = 64ull << 20;
    if (c->triples.only ? c->resume.checkpoint_every != 0 : c->triples.run != 0)
        return UVCC_ERR_CONFIG;
    if (c->resume.cancellable > 1 || (c->resume.cancellable && c->checks.audit_off))
        return UVCC_ERR_CONFIG;
    if (c->limits.jobs_max < 4 || !silence_take(s))
        return UVCC_ERR_CONFIG;
    return uvcci_consent_take(s);
}

/* Where a configuration of some version may end: behind `place`, or behind any group after it. */
static bool is_an_end(size_t size) {
    static const size_t ends[] = {offsetof(uvcc_config, links),
                                  offsetof(uvcc_config, limits),
                                  offsetof(uvcc_config, resume),
                                  offsetof(uvcc_config, checks),
                                  offsetof(uvcc_config, triples),
                                  offsetof(uvcc_config, consent),
                                  sizeof(uvcc_config)};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (size == ends[i])
            return true;
    return false;
}

/* Everything that the session takes from here on goes through its meter, also what a failure gives
 * back. */
int uvcci_session_new(uvcc_session **out, const uvcc_config *cfg) {
    if (out == NULL || cfg == NULL || !is_an_end(cfg->size))
        return UVCC_ERR_USAGE;
    if (cfg->alloc.alloc == NULL || cfg->alloc.free == NULL)
        return UVCC_ERR_CONFIG;
    uvcc_session *s = cfg->alloc.alloc(cfg->alloc.user, sizeof *s, UVCC_MEM_SECRET);
    if (s == NULL)
        return UVCC_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->meter.base = cfg->alloc;
    s->alloc = uvcci_metered(&s->meter);
    int rc = config_take(s, cfg);
    if (rc == 0)
        rc = uvcci_jobs_init(&s->jobs, &s->alloc, s->cfg.limits.jobs_max, 0, s->cfg.cookie);
    uint8_t k_own[32];
    if (rc == 0 && s->cfg.random.fill(s->cfg.random.user, k_own, sizeof k_own) != 0)
        rc = UVCC_ERR_RANDOM;
    if (rc != 0) {
        uvcci_session_free(s);
        return rc;
    }
    assert(s->cfg.identity.party < UVCC_PARTIES && s->cfg.limits.jobs_max >= 4);
    s->party = s->cfg.identity.party;
    s->close_deadline = UVCC_NEVER;
    s->root_inline = UVCCI_ROOT_INLINE;
    s->loaded.step = s->cfg.resume.next_step;
    uvcci_arena_init(&s->tensors, &s->alloc, UVCC_MEM_TENSOR, s->cfg.limits.tensor_bytes);
    uvcci_arena_init(&s->wire, &s->alloc, UVCC_MEM_WIRE, 0);
    uvcci_sid_rep(s->cfg.identity.sid_job, s->cfg.place.replica, s->sid_rep);
    uvcci_sid_sub(s->sid_rep, (uint8_t)s->cfg.place.stage, s->cfg.place.tp_rank, s->sid_sub);
    s->sid_tag = uvcci_sid_tag(s->sid_sub);
    uvcci_derive_prk(s->sid_sub, k_own, s->k_own_prk);
    uvcci_wipe(k_own, sizeof k_own);
    *out = s;
    return 0;
}

static void free_array(uvcc_session *s, void *p, size_t bytes) {
    if (p != NULL)
        s->alloc.free(s->alloc.user, p, bytes, UVCC_MEM_STATE);
}

static void free_rx_list(uvcc_session *s, uvcci_rx *list) {
    while (list != NULL) {
        uvcci_rx *next = list->next;
        (void)uvcc_link_release(s->peer[list->peer].link, list->token, s->now);
        free_array(s, list, sizeof *list);
        list = next;
    }
}

static void free_plans(uvcc_session *s, uvcci_plan *plans, uint32_t count) {
    for (uint32_t i = 0; plans != NULL && i < count; i++)
        uvcci_plan_free(&plans[i], &s->alloc);
    free_array(s, plans, count * sizeof plans[0]);
}

/* Steps go before what they point into: plans, buffers, links. At the end all is given back. */
void uvcci_session_free(uvcc_session *s) {
    if (s == NULL)
        return;
    for (unsigned i = 0; i < 2; i++)
        uvcci_step_free(s, &s->ctx[i]);
    free_rx_list(s, s->rx_pending.first);
    free_rx_list(s, s->rx_out);
    while (s->sets != NULL) {
        uvcci_set *next = s->sets->next;
        uvcci_set_free(s, s->sets);
        s->sets = next;
    }
    uvcci_triples_free(s);
    if (s->program != NULL) {
        const uvcc_program *p = s->program;
        uvcci_outputs_free(s);
        uvcci_checkpoint_free(s);
        uvcci_cancel_free(s);
        for (uint32_t i = 0; s->buffers != NULL && i < p->tensor_count; i++) {
            uvcci_arena_give(&s->tensors, s->buffers[i].shares.lo, p->tensors[i].elems * 8);
            uvcci_arena_give(&s->tensors, s->buffers[i].shares.hi, p->tensors[i].elems * 8);
        }
        free_array(s, s->buffers, p->tensor_count * sizeof s->buffers[0]);
        for (uint32_t e = 0; s->plans != NULL && e < p->entry_count; e++)
            free_plans(s, s->plans[e], p->entries[e].op_count);
        free_array(s, s->plans, p->entry_count * sizeof s->plans[0]);
    }
    uvcci_bundle_store_free(s);
    free_array(s, s->events, s->event_cap * sizeof s->events[0]);
    for (unsigned p = 0; p < 3; p++)
        if (s->peer[p].link != NULL)
            uvcc_link_free(s->peer[p].link);
    if (s->tensors.alloc != NULL) {
        uvcci_arena_drain(&s->tensors);
        uvcci_arena_drain(&s->wire);
    }
    uvcci_jobs_free(&s->jobs, &s->alloc);
    uvcci_hello_wipe(&s->hello);
    assert(s->meter.bytes == 0);
    uvcc_allocator base = s->meter.base;
    uvcci_wipe(s, sizeof *s);
    base.free(base.user, s, sizeof *s, UVCC_MEM_SECRET);
}

/* ---- input from the world ---- */

/* Time inside never steps back. Where the host's clock does, the step goes into skew and time runs
 * on from where it was, so that no timer waits until the clock has caught up. It ends at half of
 * NEVER: adding a wait to it cannot overflow. */
static void set_now(uvcc_session *s, uint64_t now) {
    const uint64_t end = UVCC_NEVER / 2;
    now = now < end ? now : end;
    if (now < s->host_now)
        s->skew += s->host_now - now;
    s->skew = s->skew < end ? s->skew : end;
    s->host_now = now;
    assert(s->now <= end);
    uint64_t inside = now + s->skew < end ? now + s->skew : end;
    if (inside > s->now)
        s->now = inside;
}

/* A time from now on; before NEVER, however long it is. */
static uint64_t later(uint64_t now, uint64_t by) {
    return by < UVCC_NEVER - 1 - now ? now + by : UVCC_NEVER - 1;
}

static bool peer_ok(const uvcc_session *s, uint8_t peer) {
    return s != NULL && peer < 3 && peer != s->party && s->peer[peer].link != NULL &&
           s->state >= UVCCI_SESSION_HELLO;
}

int uvcci_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                       uint64_t now) {
    if (!peer_ok(s, peer) || (data == NULL && len != 0))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    int rc = uvcc_link_feed(s->peer[peer].link, data, len, s->now);
    uvcci_dispatch(s);
    /* A frame that found no memory is lost: datagrams come again, a stream has to begin anew. */
    return rc != 0 && !s->cfg.links.datagram ? UVCC_ERR_STREAM_BROKEN : 0;
}

int uvcci_session_feed_ecn(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len, bool ce,
                           uint64_t now) {
    if (!peer_ok(s, peer) || (data == NULL && len != 0) || !s->cfg.links.datagram)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    (void)uvcc_link_feed_ecn(s->peer[peer].link, data, len, ce, s->now); /* as in feed */
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now) {
    if (!peer_ok(s, peer))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    uvcc_link_stream_opened(s->peer[peer].link, s->now);
    s->hello_waits[peer] = false;
    uvcci_hello_nudge(&s->hello, peer, s->now);
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    if (!peer_ok(s, peer))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    uvcc_link_stream_closed(s->peer[peer].link, s->now);
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_on_timer(uvcc_session *s, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    for (uint8_t p = 0; p < 3; p++)
        if (peer_ok(s, p))
            uvcc_link_on_timer(s->peer[p].link, s->now);
    uvcci_dispatch(s);
    return 0;
}

static void rx_hashed(uvcc_session *s, uvcci_rx *rx) {
    uvcci_rx **at = &s->rx_out;
    while (*at != rx) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = rx->next;
    assert(rx->instance->step->hashing != 0);
    rx->instance->step->hashing--;
    if (!uvcci_failed(s)) {
        uvcci_op_rx_hashed(s, rx);
        return;
    }
    rx->next = NULL;
    free_rx_list(s, rx);
}

static void set_done(uvcc_session *s, uvcci_set *set) {
    uvcci_set **at = &s->sets;
    while (*at != set) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = set->next;
    if (!UVCCI_MUTANT(15))
        uvcci_set_free(s, set);
    if (!uvcci_failed(s))
        uvcci_sets_advance(s);
}

static bool is_collective(uvcci_job_owner owner, const void *who) {
    return owner == UVCCI_JOB_OP &&
           uvcci_is_collective(((const uvcci_instance *)who)->op->desc.opcode);
}

/* An aborted session takes completions too: its jobs are out, and what they work on must stay until
 * the last one is back. */
int uvcci_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now) {
    if (s == NULL || c == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    uvcci_job_owner owner;
    void *who;
    if (c->cookie != s->cfg.cookie) {
        s->jobs.stale++;
        return 0;
    }
    if (!uvcci_jobs_take(&s->jobs, c, &owner, &who))
        return 0;
    uvcci_trace_job(s, UVCC_TRACE_JOB_DONE, c->id, owner, who);
    if (c->status != 0)
        uvcci_abort(s, UVCC_ABORT_JOB,
                    is_collective(owner, who) ? "a collective failed: the workers of this party "
                                                "disagree, or one of them is gone"
                                              : "a compute job failed");
    if (owner == UVCCI_JOB_RX)
        rx_hashed(s, who);
    else if (owner == UVCCI_JOB_SET)
        set_done(s, who);
    else if (owner == UVCCI_JOB_CHECKPOINT)
        uvcci_checkpoint_done(s);
    else if (owner == UVCCI_JOB_CANCEL)
        uvcci_cancel_job_done(s);
    else if (uvcci_failed(s) || uvcci_cancel_parks(owner, who))
        ; /* its memory goes with the session, or it waits */
    else if (owner == UVCCI_JOB_ROOT)
        uvcci_root_job_done(who);
    else if (owner == UVCCI_JOB_OP)
        uvcci_op_job_done(s, who);
    else
        uvcci_deal_job_done(s, who);
    uvcci_dispatch(s);
    return 0;
}

/* ---- output to the world ---- */

int uvcci_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    if (s == NULL || out == NULL || s->state < UVCCI_SESSION_HELLO)
        return 0;
    set_now(s, now);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t p = (uint8_t)((s->poll_peer + i) % 3u);
        if (!peer_ok(s, p))
            continue;
        uint8_t payload[UVCCI_HELLO1_MAX];
        bool sealed;
        size_t n;
        if (!s->hello_waits[p] &&
            (n = uvcci_hello_poll(&s->hello, p, payload, &sealed, s->now)) != 0)
            s->hello_waits[p] = uvcc_link_send_hello(s->peer[p].link, payload, n, sealed) == 0;
        int rc = uvcc_link_poll_transmit(s->peer[p].link, out, s->now);
        if (rc < 0)
            uvcci_abort(s, UVCC_ABORT_CRYPTO, "a frame could not be sealed");
        if (rc == 1) {
            assert(out->peer == p && out->total != 0);
            s->hello_waits[p] = uvcci_link_hello_waits(s->peer[p].link);
            s->poll_peer = (p + 1u) % 3u;
            return 1;
        }
    }
    return 0;
}

int uvcci_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                                uint64_t now) {
    if (!peer_ok(s, peer))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    int rc = uvcc_link_transmit_done(s->peer[peer].link, id, bytes, s->now);
    if (rc == 0 && s->close_deadline != UVCC_NEVER) /* it may have been what CLOSED waited for */
        uvcci_dispatch(s);
    return rc;
}

int uvcci_session_poll_job(uvcc_session *s, const uvcc_job **out) {
    if (s == NULL || out == NULL || uvcci_failed(s))
        return 0;
    uvcci_job_owner owner;
    void *who;
    if (uvcci_jobs_poll(&s->jobs, out, &owner, &who) == 0)
        return 0;
    uvcci_trace_job(s, UVCC_TRACE_JOB_OUT, (*out)->id, owner, who);
    return 1;
}

uint64_t uvcc_session_next_deadline(const uvcc_session *s) {
    if (s == NULL || s->state < UVCCI_SESSION_HELLO)
        return UVCC_NEVER;
    /* While jobs are out only their completions can close it. */
    uint64_t at = s->jobs.out == 0 ? s->close_deadline : UVCC_NEVER;
    const uint64_t silence = uvcci_peers_deadline(s);
    at = silence < at ? silence : at;
    for (uint8_t p = 0; p < 3; p++) {
        if (!peer_ok(s, p) || (UVCCI_MUTANT(14) && p == 2))
            continue;
        /* A peer may still want our last word. While a HELLO waits in the link, for a stream or for
         * memory, another is not due. */
        uint64_t hello = uvcci_hello_peer_deadline(&s->hello, p);
        at = (!s->hello_waits[p] || UVCCI_MUTANT(29)) && hello < at ? hello : at;
        uint64_t link = uvcc_link_next_deadline(s->peer[p].link);
        at = link < at ? link : at;
    }
    if (at == UVCC_NEVER)
        return at;
    return uvcci_host_time(s, at);
}

int uvcci_session_poll_event(uvcc_session *s, uvcc_event *out) {
    if (s == NULL || out == NULL)
        return 0;
    if (s->event_count == 0)
        return uvcci_peers_poll_event(s, out);
    assert(s->event_head < s->event_cap && s->event_count <= s->event_cap);
    *out = s->events[s->event_head];
    s->event_head = (s->event_head + 1) % s->event_cap;
    s->event_count--;
    s->mismatches.queued -= out->kind == UVCC_EVENT_MISMATCH;
    if (out->kind == UVCC_EVENT_BUNDLE)
        uvcci_bundle_store_told(s, out->step);
    return 1;
}

/* ---- work ---- */

/* What is wrong for good is refused before what may be right later: a host that gets AGAIN asks
 * again with the same words. */
int uvcci_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    if (s == NULL || s->program == NULL || entry >= s->program->entry_count)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (uvcci_failed(s))
        return UVCC_ERR_ABORTED;
    if (s->state != UVCCI_SESSION_READY)
        return UVCC_ERR_STATE;
    if (step < s->step || uvcci_step_of(s, step) != NULL)
        return UVCC_ERR_USAGE;
    if (s->cfg.checks.sks_refused && step == s->cfg.checks.sks_step &&
        !s->cfg.checks.sks_override) {
        uvcci_log(s, UVCC_LOG_ERROR, "party %u: the check of a product failed in step %u before",
                  s->party, step);
        return UVCC_ERR_REFUSED;
    }
    if (!s->tensors_here)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            "the parties agreed to go on before step %u: uvcc_session_resume with "
                            "its checkpoint comes first",
                            s->step);
    /* In order, at most one ahead, and with room for its events and those of a step that is open.
     */
    const uvcci_step *open = uvcci_step_of(s, s->step);
    uint32_t room = 32 + s->program->entries[entry].output_count;
    if (step == s->step + 1 && open != NULL)
        room += 32 + open->entry->output_count;
    if (step > s->step + 1 || (step == s->step + 1 && open == NULL) ||
        s->event_count - s->mismatches.queued + room > s->event_cap - UVCCI_MISMATCH_EVENTS)
        return UVCC_ERR_AGAIN;
    int rc = uvcci_zero_unset(s);
    if (rc == 0)
        rc = uvcci_step_open(s, step, entry);
    if (rc == 0) {
        assert(uvcci_step_of(s, step) != NULL);
        uvcci_dispatch(s);
    }
    return rc;
}

/* The values wait in WIRE memory until the INPUT op masks them: the op may not have been reached
 * yet. */
int uvcci_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                        uint64_t now) {
    if (s == NULL || v == NULL || s->program == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (uvcci_failed(s))
        return UVCC_ERR_ABORTED;
    uvcci_step *st = uvcci_step_of(s, step);
    if (st == NULL)
        return UVCC_ERR_STATE;
    for (uint32_t i = 0; i < st->entry->input_count; i++) {
        const uvcc_io_desc *io = &st->entry->inputs[i];
        if (io->id != id)
            continue;
        if (io->owner != s->party)
            return UVCC_ERR_USAGE;
        if (st->input[i] != NULL)
            return UVCC_ERR_STATE;
        size_t bytes = s->program->tensors[io->tensor].elems * 8;
        assert(bytes != 0);
        st->input[i] = uvcci_arena_take(&s->wire, bytes);
        if (st->input[i] == NULL)
            return UVCC_ERR_NOMEM;
        memcpy(st->input[i], v, bytes);
        for (uint32_t k = 0; k < st->entry->op_count; k++)
            if (st->instances[k].op->desc.opcode == UVCC_OP_INPUT && st->instances[k].op->io == i)
                uvcci_instance_wake(&st->instances[k]);
        uvcci_dispatch(s);
        return 0;
    }
    return UVCC_ERR_NOT_FOUND;
}

int uvcci_session_cancel(uvcc_session *s, uint32_t step, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (uvcci_failed(s))
        return UVCC_ERR_ABORTED;
    if (s->state != UVCCI_SESSION_READY)
        return uvcci_refuse(s, UVCC_ERR_STATE, "no step can be cancelled now");
    int rc = uvcci_cancel_ask(s, step);
    if (rc == 0)
        uvcci_dispatch(s);
    return rc;
}

int uvcci_session_close(uvcc_session *s, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (s->state == UVCCI_SESSION_CLOSED)
        return UVCC_ERR_CLOSED;
    if (s->close_deadline != UVCC_NEVER)
        return UVCC_ERR_STATE;
    if (s->state == UVCCI_SESSION_READY) {
        if (s->ctx[0].active || s->ctx[1].active)
            return UVCC_ERR_STATE;
        s->state = UVCCI_SESSION_CLOSING;
        uvcci_send_bye(s, UVCC_ABORT_NONE);
    }
    if (s->events == NULL) { /* nothing loaded: nobody can be told */
        s->state = UVCCI_SESSION_CLOSED;
        return 0;
    }
    s->state_at = s->now;
    s->close_deadline = later(s->now, s->cfg.limits.close_ns);
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_abort(uvcc_session *s, uint16_t reason, uint64_t now) {
    if (s == NULL || reason == UVCC_ABORT_NONE)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (uvcci_failed(s) || s->events == NULL)
        return UVCC_ERR_STATE;
    uvcci_abort(s, reason, uvcc_abort_text(reason));
    uvcci_dispatch(s);
    return 0;
}
