/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - the public object: its life, and the input calls without their recording (calls.c
 * has that). What an input means is decided elsewhere: each call notes the time, hands on
 * what came, and ends in uvcci_dispatch(), which carries it to where it belongs. */
#include "exec/session/session.h"

#include "exec/base/bounds.h"
#include "exec/ops/dealing.h"
#include "exec/ops/triples.h"
#include "exec/program/op_class.h"
#include "exec/runtime/trace.h"
#include "exec/session/agree.h"
#include "exec/session/bundle_store.h"
#include "exec/session/cancel.h"
#include "exec/session/checkpoint.h"
#include "exec/session/config.h"
#include "exec/session/consent.h"
#include "exec/session/dispatch.h"
#include "exec/session/gathering.h"
#include "exec/session/handshake.h"
#include "exec/session/instance.h"
#include "exec/session/lineage.h"
#include "exec/session/peers.h"
#include "exec/session/receive.h"
#include "exec/session/root.h"
#include "exec/session/shares.h"
#include "exec/session/step.h"
#include "proto/link_session.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

/* ---- life ---- */

/* Everything that the session takes from here on goes through its meter, also what a failure gives
 * back. */
int uvcci_session_new(uvcc_session **out, const uvcc_config *cfg) {
    int rc = out == NULL ? UVCC_ERR_USAGE : uvcci_config_check(cfg);
    if (rc != 0)
        return rc;
    uvcc_session *s = cfg->alloc.alloc(cfg->alloc.user, sizeof *s, UVCC_MEM_SECRET);
    if (s == NULL)
        return UVCC_ERR_NOMEM;
    memset(s, 0, sizeof *s);
    s->meter.base = cfg->alloc;
    s->alloc = uvcci_metered(&s->meter);
    uvcci_config_take(&s->cfg, cfg);
    uvcci_sign_keypair(s->cfg.identity.sign_seed, s->sign_pk, s->sign_sk);
    s->party = s->cfg.identity.party;
    uvcci_agree_take(s);
    rc = uvcci_consent_take(s);
    if (rc == 0)
        rc = uvcci_jobs_init(&s->jobs, &s->alloc, s->cfg.limits.jobs_max, 0, s->cfg.cookie);
    uint8_t k_own[32];
    if (rc == 0 && s->cfg.random.fill(s->cfg.random.user, k_own, sizeof k_own) != 0)
        rc = UVCC_ERR_RANDOM;
    if (rc != 0) {
        uvcci_session_free(s);
        return rc;
    }
    assert(s->party < UVCC_PARTIES && s->cfg.limits.jobs_max >= 4);
    s->close_deadline = UVCC_NEVER;
    s->root_inline = UVCCI_ROOT_INLINE;
    s->loaded.step = s->cfg.resume.next_step;
    uvcci_arena_init(&s->tensors, &s->alloc, UVCC_MEM_TENSOR, s->cfg.limits.tensor_bytes);
    uvcci_arena_init(&s->wire, &s->alloc, UVCC_MEM_WIRE, 0);
    uvcci_sid_rep(s->cfg.identity.sid_job, s->cfg.place.replica, s->sid_rep);
    uvcci_sid_sub(s->sid_rep, (uint8_t)s->cfg.place.stage, s->cfg.place.tp_rank, s->sid_sub);
    s->sid_tag = uvcci_sid_tag(s->sid_sub);
    uvcci_client_dpf(s->cfg.identity.sid_job, s->dealt.dpf);
    uvcci_derive_prk(s->sid_sub, k_own, s->k_own_prk);
    uvcci_wipe(k_own, sizeof k_own);
    *out = s;
    return 0;
}

static void free_array(uvcc_session *s, void *p, size_t bytes) {
    if (p != NULL)
        s->alloc.free(s->alloc.user, p, bytes, UVCC_MEM_STATE);
}

void uvcc_session_trim(uvcc_session *s) {
    if (s == NULL || s->tensors.alloc == NULL) /* no program yet */
        return;
    uvcci_arena_drain(&s->tensors);
    uvcci_arena_drain(&s->wire);
}

static void free_rx_list(uvcc_session *s, uvcci_rx *list) {
    while (list != NULL) {
        uvcci_rx *next = list->next;
        (void)uvcc_link_release(s->peer[list->peer].link, list->token, s->now);
        free_array(s, list, sizeof *list);
        list = next;
    }
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
    uvcci_read_forget(s);
    uvcci_triples_free(s);
    if (s->program != NULL) {
        const uvcc_program *p = s->program;
        uvcci_outputs_free(s);
        uvcci_checkpoint_free(s);
        uvcci_cancel_free(s);
        for (uint32_t i = 0; s->buffers != NULL && i < p->tensor_count; i++) {
            const size_t bytes = uvcci_component_bytes(&p->tensors[i]);
            if (s->buffers[i].borrowed)
                s->buffers[i].shares.lo = NULL;
            uvcci_arena_give(&s->tensors, s->buffers[i].shares.lo, bytes);
            uvcci_arena_give(&s->tensors, s->buffers[i].shares.hi, bytes);
            uvcci_lineage_forget(s, i);
        }
        free_array(s, s->buffers, p->tensor_count * sizeof s->buffers[0]);
        for (uint32_t e = 0; s->plans != NULL && e < p->entry_count; e++)
            free_array(s, s->plans[e], p->entries[e].op_count * sizeof s->plans[e][0]);
        free_array(s, s->plans, p->entry_count * sizeof s->plans[0]);
        uvcci_plan_pool_free(&s->plan_pool, &s->alloc);
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

/* 0, or why nothing can go to or come from that peer. */
static int check_peer(uvcc_session *s, uint8_t peer) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (peer >= UVCC_PARTIES || peer == s->party)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "party %u is no peer of party %u", peer, s->party);
    if (s->state < UVCCI_SESSION_HELLO || s->peer[peer].link == NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            s->program == NULL ? "there are no links: no program is loaded"
                                               : "there are no links: the session is not started");
    return 0;
}

static int check_fed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len) {
    const int rc = check_peer(s, peer);
    if (rc == 0 && data == NULL && len != 0)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are no data, but their length is not 0");
    return rc;
}

/* After bytes reached a link, which said rc. A frame that found no memory is lost: datagrams come
 * again, a stream has to begin anew. */
static int fed(uvcc_session *s, uint8_t peer, int rc) {
    uvcci_dispatch(s);
    if (rc == 0 || s->cfg.links.datagram)
        return 0;
    return uvcci_refuse(s, UVCC_ERR_STREAM_BROKEN, "the stream of party %u is broken: %s", peer,
                        rc == UVCC_ERR_NOMEM ? "no memory for a frame, and nothing comes twice"
                                             : "what came is not a frame");
}

int uvcci_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                       uint64_t now) {
    int rc = check_fed(s, peer, data, len);
    if (rc != 0)
        return rc;
    set_now(s, now);
    return fed(s, peer, uvcc_link_feed(s->peer[peer].link, data, len, s->now));
}

static int check_placed(uvcc_session *s, uint8_t peer) {
    const int rc = check_peer(s, peer);
    if (rc == 0 && s->cfg.links.datagram)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "these links are datagrams: feed whole ones");
    return rc;
}

int uvcci_session_check_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                               uint32_t count) {
    int rc = check_placed(s, peer);
    if (rc == 0 && slices == NULL && count != 0)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are no slices, but their number is not 0");
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = check_fed(s, peer, slices[i].data, slices[i].len);
    return rc;
}

/* Frame by frame, or several of one message: what became whole goes on before more is taken. */
int uvcci_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                              uint32_t count, uint64_t now) {
    const uint8_t *data;
    int rc = uvcci_session_check_slices(s, peer, slices, count);
    if (rc != 0)
        return rc;
    uvcci_slices from = {.at = slices, .count = count};
    set_now(s, now);
    while (rc == 0 && uvcci_slices_run(&from, &data) != 0) {
        rc = check_peer(s, peer);
        if (rc == 0)
            rc = fed(s, peer, uvcci_link_feed_some(s->peer[peer].link, &from, s->now));
    }
    return rc;
}

/* Asks only: no recorder hears of it. */
int uvcc_session_rx_buffer(uvcc_session *s, uint8_t peer, uint8_t **to, size_t *len) {
    int rc = check_placed(s, peer);
    if (rc == 0 && (to == NULL || len == NULL))
        rc = uvcci_refuse(s, UVCC_ERR_USAGE, "there is no place for the answer: NULL");
    return rc != 0 ? rc : uvcc_link_rx_buffer(s->peer[peer].link, to, len);
}

size_t uvcci_session_offered(const uvcc_session *s, uint8_t peer, const uint8_t **at) {
    return peer_ok(s, peer) ? uvcci_link_offered(s->peer[peer].link, at) : 0;
}

int uvcci_session_rx_filled(uvcc_session *s, uint8_t peer, size_t n, uint64_t now) {
    const uint8_t *at;
    const int rc = check_placed(s, peer);
    if (rc != 0 || n == 0)
        return rc;
    const size_t offered = uvcci_session_offered(s, peer, &at);
    if (n > offered)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "%zu bytes were put where %zu are offered", n,
                            offered);
    set_now(s, now);
    return fed(s, peer, uvcc_link_rx_filled(s->peer[peer].link, n, s->now));
}

int uvcci_session_feed_ecn(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len, bool ce,
                           uint64_t now) {
    int rc = check_fed(s, peer, data, len);
    if (rc == 0 && !s->cfg.links.datagram)
        rc = uvcci_refuse(s, UVCC_ERR_USAGE, "ECN marks packets: these links are streams");
    if (rc != 0)
        return rc;
    set_now(s, now);
    (void)uvcc_link_feed_ecn(s->peer[peer].link, data, len, ce, s->now); /* as in feed */
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_peer_open_bound(uvcc_session *s, uint8_t peer, const uint8_t *binding,
                                  uint64_t now) {
    int rc = check_peer(s, peer);
    if (rc != 0)
        return rc;
    set_now(s, now);
    uvcc_link_stream_opened(s->peer[peer].link, s->now);
    s->hello_waits[peer] = false;
    uvcci_handshake_channel(s, peer, binding);
    uvcci_hello_nudge(&s->hello, peer, s->now);
    uvcci_dispatch(s);
    return 0;
}

int uvcci_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    int rc = check_peer(s, peer);
    if (rc != 0)
        return rc;
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

static void set_done(uvcc_session *s, uvcci_set *set, int status) {
    uvcci_set **at = &s->sets;
    if (status != 0)
        uvcci_set_failed(s, set);
    while (*at != set) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = set->next;
    if (!uvcci_read_done(s, set) && !UVCCI_MUTANT(15))
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
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (c == NULL)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there is no completion: NULL");
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
        set_done(s, who, c->status);
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
    else if (owner == UVCCI_JOB_GATHER)
        uvcci_gather_job_done(s, who);
    else
        uvcci_deal_job_done(s, who);
    uvcci_dispatch(s);
    return 0;
}

/* ---- output to the world ---- */

int uvcci_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    if (s == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (s->state < UVCCI_SESSION_HELLO)
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
    int rc = check_peer(s, peer);
    if (rc != 0)
        return rc;
    set_now(s, now);
    rc = uvcc_link_transmit_done(s->peer[peer].link, id, bytes, s->now);
    if (rc != 0)
        return uvcci_refuse(s, rc,
                            "no transmit %llu of so many bytes to party %u is out: it is done "
                            "already, or its stream was closed",
                            (unsigned long long)id, peer);
    if (s->close_deadline != UVCC_NEVER) /* it may have been what CLOSED waited for */
        uvcci_dispatch(s);
    return rc;
}

int uvcci_session_poll_job(uvcc_session *s, const uvcc_job **out) {
    if (s == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (uvcci_failed(s))
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
        return UVCC_ERR_USAGE;
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

/* Whether a host may ask for this step at all, now or later. Steps are asked for in order, so the
 * one behind those that are open is the only one that can be right; others never become so by
 * waiting. */
static int check_order(uvcc_session *s, uint32_t step) {
    const uint64_t next = (uint64_t)s->step + s->ctx[0].active + s->ctx[1].active;
    if (step < s->step)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "step %u is over: step %u is the next one", step,
                            s->step);
    if (step < next)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "step %u was agreed to already", step);
    if (step > next)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "step %u cannot be: step %llu comes before it", step,
                            (unsigned long long)next);
    return 0;
}

/* At most one ahead, and with room for its events and those of a step that is open. */
static int check_room(uvcc_session *s, uint32_t step, uint32_t entry) {
    const uvcci_step *open = uvcci_step_of(s, s->step);
    if (step > s->step + 1)
        return uvcci_refuse(s, UVCC_ERR_AGAIN, "step %u is two ahead: step %u is not over", step,
                            s->step);
    uint32_t room = 32 + s->program->entries[entry].output_count;
    if (step == s->step + 1) {
        assert(open != NULL);
        room += 32 + open->entry->output_count;
    }
    if (s->event_count - s->mismatches.queued + room > s->event_cap - UVCCI_MISMATCH_EVENTS)
        return uvcci_refuse(s, UVCC_ERR_AGAIN, "%u events wait to be polled", s->event_count);
    return 0;
}

/* What no open session in the state that it is in takes: 0, or UVCC_ERR_ABORTED or _STATE. */
static int check_ready(uvcc_session *s, const char *what) {
    static const char *const states[] = {[UVCCI_SESSION_NEW] = "no program is loaded",
                                         [UVCCI_SESSION_LOADED] = "the session is not started",
                                         [UVCCI_SESSION_HELLO] =
                                             "the handshake is not over (event READY)",
                                         [UVCCI_SESSION_READY] = "",
                                         [UVCCI_SESSION_CLOSING] = "the session is closing",
                                         [UVCCI_SESSION_ABORTED] = "the session was aborted",
                                         [UVCCI_SESSION_CLOSED] = "the session is closed"};
    if (s->state == UVCCI_SESSION_READY)
        return 0;
    return uvcci_refuse(s, uvcci_failed(s) ? UVCC_ERR_ABORTED : UVCC_ERR_STATE, "%s: %s", what,
                        states[s->state]);
}

/* What is wrong for good is refused before what may be right later: a host that gets AGAIN asks
 * again with the same words. */
int uvcci_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    int rc = check_ready(s, "no step");
    if (rc == 0 && entry >= s->program->entry_count)
        rc = uvcci_refuse(s, UVCC_ERR_USAGE, "the program has no entry %u", entry);
    if (rc == 0)
        rc = check_order(s, step);
    if (rc != 0)
        return rc;
    if (s->cfg.checks.sks_refused && step == s->cfg.checks.sks_step && !s->cfg.checks.sks_override)
        return uvcci_refuse(s, UVCC_ERR_REFUSED,
                            "the check of a product failed in step %u before: an operator must "
                            "set checks.sks_override",
                            step);
    if (!s->tensors_here)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            "the parties agreed to go on before step %u: uvcc_session_resume with "
                            "its checkpoint comes first",
                            s->step);
    rc = check_room(s, step, entry);
    if (rc == 0)
        rc = uvcci_zero_unset(s);
    if (rc == 0)
        rc = uvcci_step_open(s, step, entry);
    if (rc == 0) {
        assert(uvcci_step_of(s, step) != NULL);
        uvcci_read_forget(s);
        uvcci_dispatch(s);
    }
    return rc;
}

/* ---- input values ---- */

/* The entry's input of that id, or NULL and the reason. */
static const uvcc_io_desc *input_of(uvcc_session *s, const uvcci_step *st, uint32_t id, int *rc) {
    for (uint32_t i = 0; i < st->entry->input_count; i++) {
        const uvcc_io_desc *io = &st->entry->inputs[i];
        if (io->id != id)
            continue;
        if (io->owner != s->party)
            *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "input %u of entry %s is party %u's", id,
                               st->entry->name, io->owner);
        else if (st->input[i] != NULL)
            *rc = uvcci_refuse(s, UVCC_ERR_STATE, "input %u of step %u was given already", id,
                               st->number);
        return *rc == 0 ? io : NULL;
    }
    *rc = uvcci_refuse(s, UVCC_ERR_NOT_FOUND, "entry %s has no input %u", st->entry->name, id);
    return NULL;
}

/* All bounds of the program follow from those of its inputs: what is outside would give wrong
 * results in silence. The value itself is nobody's business. */
static int check_bits(uvcc_session *s, uint32_t tensor, const int64_t *v) {
    const uvcci_tensor *t = &s->program->tensors[tensor];
    if (t->desc.sharing == UVCC_ONE_HOT)
        return uvcci_all_below(v, (size_t)t->elems, t->desc.bits)
                   ? 0
                   : uvcci_refuse(s, UVCC_ERR_BOUND,
                                  "a value of %s is no number of a row: 0 to 2^%u - 1 are possible",
                                  t->name, t->desc.bits);
    if (uvcci_all_within(v, (size_t)t->elems, t->desc.bits))
        return 0;
    return uvcci_refuse(s, UVCC_ERR_BOUND,
                        "value %zu of %s is outside its %u bits: less than 2^%u in magnitude is "
                        "declared",
                        uvcci_first_outside(v, (size_t)t->elems, t->desc.bits), t->name,
                        t->desc.bits, t->desc.bits);
}

/* The values wait in WIRE memory until the INPUT op masks them: the op may not have been reached
 * yet. */
int uvcci_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                        uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (v == NULL)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are no values: NULL");
    int rc = uvcci_failed(s) ? check_ready(s, "no input") : 0;
    if (rc != 0)
        return rc;
    uvcci_step *st = s->program != NULL ? uvcci_step_of(s, step) : NULL;
    if (st == NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            step < s->step ? "step %u is over" : "step %u was not agreed to", step);
    const uvcc_io_desc *io = input_of(s, st, id, &rc);
    if (io != NULL)
        rc = check_bits(s, io->tensor, v);
    if (rc != 0)
        return rc;
    const uint32_t i = (uint32_t)(io - st->entry->inputs);
    const size_t bytes = s->program->tensors[io->tensor].elems * 8;
    assert(bytes != 0);
    st->input[i] = uvcci_arena_take(&s->wire, bytes);
    if (st->input[i] == NULL)
        return uvcci_refuse(s, UVCC_ERR_NOMEM, "no memory for input %u", id);
    memcpy(st->input[i], v, bytes);
    for (uint32_t k = 0; k < st->entry->op_count; k++)
        if (uvcci_op_has(st->entry->ops[k].desc.opcode, UVCCI_IS_INPUT) &&
            st->entry->ops[k].io == i)
            uvcci_op_wake(st, k);
    uvcci_dispatch(s);
    return 0;
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
        return uvcci_refuse(s, UVCC_ERR_CLOSED, "the session is closed");
    if (s->close_deadline != UVCC_NEVER)
        return uvcci_refuse(s, UVCC_ERR_STATE, "the session is closing already");
    if (s->state == UVCCI_SESSION_READY) {
        if (s->ctx[0].active || s->ctx[1].active)
            return uvcci_refuse(s, UVCC_ERR_STATE,
                                "step %u is not over: finish it, or abort the session", s->step);
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
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (reason == UVCC_ABORT_NONE)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "an abort has a reason other than 0");
    if (!uvcci_abort_is_reason(reason)) /* peers would be told what nobody can look up */
        return uvcci_refuse(s, UVCC_ERR_USAGE, "%u is no reason of aborts.def", reason);
    set_now(s, now);
    if (uvcci_failed(s) || s->events == NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            s->events == NULL ? "no program is loaded: nobody can be told"
                                              : "the session has ended already");
    uvcci_abort(s, reason, uvcc_abort_text(reason));
    uvcci_dispatch(s);
    return 0;
}
