/* session.c - the public object: configuration, handshake, dispatch between links, steps, ops and
 * jobs, events, closing. A dispatcher: what a thing means is decided elsewhere.
 *
 * Every input call ends in pump(), which carries what came to where it belongs until nothing moves.
 */
#include "exec/runtime/core.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

/* ---- configuration and life ---- */

int uvcc_config_default(uvcc_config *cfg, size_t cfg_size) {
    if (cfg == NULL || cfg_size < sizeof(size_t) || cfg_size > sizeof *cfg)
        return UVCC_ERR_USAGE;
    memset(cfg, 0, cfg_size);
    cfg->size = cfg_size;
    return 0;
}

static int config_take(uvcc_session *s, const uvcc_config *in) {
    uvcc_config *c = &s->cfg;
    memcpy(c, in, in->size);
    if (c->flags != 0 || c->party > 2 || c->suites > UVCC_SUITES_ALL || c->alloc.alloc == NULL ||
        c->alloc.free == NULL || c->random.fill == NULL)
        return UVCC_ERR_CONFIG;
    uint16_t *ones[] = {&c->replicas, &c->stages, &c->tp_ranks};
    for (unsigned i = 0; i < 3; i++)
        if (*ones[i] == 0)
            *ones[i] = 1;
    if (c->replica >= c->replicas || c->stage >= c->stages || c->tp_rank >= c->tp_ranks ||
        c->stages > 256 || (c->bundles && c->audit_off))
        return UVCC_ERR_CONFIG;
    static const uint8_t zero[32];
    for (uint8_t p = 0; c->exchange_x25519 && p < 3; p++)
        if (uvcci_ct_equal(p == c->party ? c->sign_seed : c->peer_sign_key[p], zero, 32))
            return UVCC_ERR_CONFIG;
    if (c->suites == 0)
        c->suites = UVCC_SUITES_ALL;
    if (c->jobs_max == 0)
        c->jobs_max = 256;
    if (c->leaves_max == 0)
        c->leaves_max = 1u << 22;
    if (c->keys_ahead_bytes == 0)
        c->keys_ahead_bytes = 32ull << 20;
    if (c->hello_repeat_ns == 0)
        c->hello_repeat_ns = 200000000ull;
    if (c->triples_ahead_bytes == 0)
        c->triples_ahead_bytes = 64ull << 20;
    if (c->triples_only ? c->checkpoint_every != 0 : c->triples_run != 0)
        return UVCC_ERR_CONFIG;
    return c->jobs_max < 4 ? UVCC_ERR_CONFIG : 0;
}

int uvcci_session_new(uvcc_session **out, const uvcc_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size > sizeof *cfg ||
        cfg->size < offsetof(uvcc_config, datagram))
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
        rc = uvcci_jobs_init(&s->jobs, &s->alloc, s->cfg.jobs_max, 0, s->cfg.cookie);
    uint8_t k_own[32];
    if (rc == 0 && s->cfg.random.fill(s->cfg.random.user, k_own, sizeof k_own) != 0)
        rc = UVCC_ERR_RANDOM;
    if (rc != 0) {
        uvcci_session_free(s);
        return rc;
    }
    s->party = s->cfg.party;
    s->close_deadline = UVCC_NEVER;
    s->tensors_at = s->cfg.next_step;
    uvcci_arena_init(&s->tensors, &s->alloc, UVCC_MEM_TENSOR, s->cfg.tensor_bytes);
    uvcci_arena_init(&s->wire, &s->alloc, UVCC_MEM_WIRE, 0);
    uvcci_sid_rep(s->cfg.sid_job, s->cfg.replica, s->sid_rep);
    uvcci_sid_sub(s->sid_rep, (uint8_t)s->cfg.stage, s->cfg.tp_rank, s->sid_sub);
    s->sid_tag = uvcci_sid_tag(s->sid_sub);
    uvcci_derive_prk(s->sid_sub, k_own, s->k_own_prk);
    uvcci_wipe(k_own, sizeof k_own);
    uvcci_sign_keypair(s->cfg.sign_seed, s->sign_pk, s->sign_sk);
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

void uvcci_session_free(uvcc_session *s) {
    if (s == NULL)
        return;
    for (unsigned i = 0; i < 2; i++)
        uvcci_step_free(s, &s->ctx[i]);
    free_rx_list(s, s->rx_pending);
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
    uvcc_allocator base = s->meter.base;
    uvcci_wipe(s, sizeof *s);
    base.free(base.user, s, sizeof *s, UVCC_MEM_SECRET);
}

/* ---- loading a program ---- */

typedef struct needs {
    uint64_t online_bytes, key_bytes; /* of the largest entry; of the largest op */
    uint64_t messages;
    uint32_t outputs;
} needs;

static int make_plans(uvcc_session *s, const uvcc_program *p, needs *n) {
    s->plans = s->alloc.alloc(s->alloc.user, p->entry_count * sizeof s->plans[0], UVCC_MEM_STATE);
    if (s->plans == NULL)
        return UVCC_ERR_NOMEM;
    memset(s->plans, 0, p->entry_count * sizeof s->plans[0]);
    for (uint32_t e = 0; e < p->entry_count; e++) {
        const uvcci_entry *entry = &p->entries[e];
        if (entry->op_count == 0) {
            uvcci_log(s, UVCC_LOG_ERROR, "entry %s has no ops, inputs or outputs", entry->name);
            return UVCC_ERR_PROGRAM;
        }
        s->plans[e] =
            s->alloc.alloc(s->alloc.user, entry->op_count * sizeof s->plans[e][0], UVCC_MEM_STATE);
        if (s->plans[e] == NULL)
            return UVCC_ERR_NOMEM;
        memset(s->plans[e], 0, entry->op_count * sizeof s->plans[e][0]);
        uint64_t bytes = 0, messages = 0;
        for (uint32_t i = 0; i < entry->op_count; i++) {
            uvcci_plan *plan = &s->plans[e][i];
            int rc = uvcci_plan_make(plan, p, entry, &entry->ops[i], &s->alloc);
            if (rc != 0) {
                char label[128];
                if (rc == UVCC_ERR_PROGRAM)
                    uvcci_log(s, UVCC_LOG_ERROR,
                              "entry %s, %s: this version cannot run it, or it is too large",
                              entry->name, uvcci_op_label(&entry->ops[i], label));
                return rc;
            }
            bytes += plan->online_bytes_max;
            messages += plan->messages_max;
            if (plan->key_bytes_max > n->key_bytes)
                n->key_bytes = plan->key_bytes_max;
        }
        if (bytes > n->online_bytes)
            n->online_bytes = bytes;
        if (messages > n->messages)
            n->messages = messages;
        if (entry->output_count > n->outputs)
            n->outputs = entry->output_count;
    }
    return 0;
}

static uint64_t at_least(uint64_t value, uint64_t least) {
    return value < least ? least : value;
}

/* A configured capacity below what the program needs is refused; 0 takes the default. */
static int capacity(const uvcc_session *s, const char *name, uint64_t configured, uint64_t needed,
                    uint64_t usual, uint64_t *out) {
    if (configured != 0 && configured < needed) {
        uvcci_log(s, UVCC_LOG_ERROR, "%s is %llu, this program needs at least %llu", name,
                  (unsigned long long)configured, (unsigned long long)needed);
        return UVCC_ERR_LIMIT;
    }
    *out = configured != 0 ? configured : at_least(usual, needed);
    return 0;
}

static int make_links(uvcc_session *s, const needs *n) {
    uvcc_link_config c;
    uvcc_link_config_default(&c);
    c.alloc = s->alloc;
    c.random = s->cfg.random;
    c.me = s->party;
    c.datagram = s->cfg.datagram;
    c.sid_tag = s->sid_tag;
    c.frame_bytes = s->cfg.frame_bytes;
    c.datagram_bytes = s->cfg.datagram_bytes;
    c.rto_initial_ns = s->cfg.rto_initial_ns;
    c.rto_min_ns = s->cfg.rto_min_ns;
    c.rto_max_ns = s->cfg.rto_max_ns;
    c.ack_delay_ns = s->cfg.ack_delay_ns;
    c.keepalive_ns = s->cfg.keepalive_ns;
    c.rx_ranges_max = s->cfg.rx_ranges_max;
    c.suspicious_max = s->cfg.suspicious_max;
    c.suspicious_window_ns = s->cfg.suspicious_window_ns;
    /* Two steps of online messages may be outstanding, and STEP, AUDIT and BYE. */
    uint64_t online = 2 * n->online_bytes + 65536, messages;
    int rc = capacity(s, "rx_messages_max", s->cfg.rx_messages_max, 2 * n->messages + 64, 1024,
                      &messages);
    c.rx_messages_max = rc == 0 ? (uint32_t)messages : 0;
    if (rc == 0)
        rc = capacity(s, "rx_online_bytes", s->cfg.rx_online_bytes, online, 4u << 20,
                      &c.rx_online_bytes);
    if (rc == 0)
        rc = capacity(s, "tx_online_bytes", s->cfg.tx_online_bytes, online, 4u << 20,
                      &c.tx_online_bytes);
    if (rc == 0)
        rc = capacity(s, "rx_keys_bytes", s->cfg.rx_keys_bytes, n->key_bytes, 32u << 20,
                      &c.rx_keys_bytes);
    if (rc == 0)
        rc = capacity(s, "tx_keys_bytes", s->cfg.tx_keys_bytes, n->key_bytes,
                      s->cfg.keys_ahead_bytes, &c.tx_keys_bytes);
    for (uint8_t p = 0; rc == 0 && p < 3; p++) {
        c.peer = p;
        if (p != s->party)
            rc = uvcc_link_new(&s->peer[p].link, &c);
    }
    return rc;
}

/* What a session that makes triples runs is another program, so that the handshake fails where not
 * all three do the same. */
static void hash_maker(uvcc_session *s) {
    uint8_t text[15 + 32 + 4];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_TRIPLES_V1", 15);
    uvcci_put(&w, s->h_program, 32);
    uvcci_put32(&w, s->cfg.triples_run);
    uvcci_sha256_once(text, w.len, s->h_program);
}

/* The program's topology, unless it is for any one worker, is that of the configuration, and its
 * entries are for this stage. */
static int check_place(const uvcc_session *s, const uvcc_program *p) {
    if (p->replicas * p->stages * p->tp_ranks == 1)
        return 0;
    if (p->replicas != s->cfg.replicas || p->stages != s->cfg.stages ||
        p->tp_ranks != s->cfg.tp_ranks) {
        uvcci_log(s, UVCC_LOG_ERROR, "the program is for %u x %u x %u workers, not %u x %u x %u",
                  p->replicas, p->stages, p->tp_ranks, s->cfg.replicas, s->cfg.stages,
                  s->cfg.tp_ranks);
        return UVCC_ERR_CONFIG;
    }
    for (uint32_t e = 0; e < p->entry_count; e++)
        if (p->entries[e].stages > 1 && p->entries[e].stage != s->cfg.stage) {
            uvcci_log(s, UVCC_LOG_ERROR, "entry %s is for stage %u, not %u", p->entries[e].name,
                      p->entries[e].stage, s->cfg.stage);
            return UVCC_ERR_CONFIG;
        }
    return 0;
}

/* Room for all collectives of a step at once. */
static int make_local_jobs(uvcc_session *s, const uvcc_program *p) {
    uint32_t most = 0;
    for (uint32_t e = 0; e < p->entry_count; e++) {
        const uint32_t n = uvcci_collective_count(&p->entries[e]);
        most = n > most ? n : most;
    }
    if (most == 0)
        return 0;
    uvcci_jobs_free(&s->jobs, &s->alloc); /* empty: nothing runs before a program is loaded */
    return uvcci_jobs_init(&s->jobs, &s->alloc, s->cfg.jobs_max, most, s->cfg.cookie);
}

int uvcci_session_load_program(uvcc_session *s, const uvcc_program *p) {
    if (s == NULL || p == NULL || !p->finished)
        return UVCC_ERR_USAGE;
    if (s->state != UVCCI_SESSION_NEW || s->program != NULL)
        return UVCC_ERR_STATE;
    for (uint32_t e = 0; e < p->entry_count; e++)
        if (p->entries[e].input_count > UVCCI_SHAPES_MAX) {
            uvcci_log(s, UVCC_LOG_ERROR, "entry %s has more than %u inputs", p->entries[e].name,
                      UVCCI_SHAPES_MAX);
            return UVCC_ERR_PROGRAM;
        }
    int rc = check_place(s, p);
    if (rc != 0)
        return rc;
    s->program = p; /* a failed load leaves a session that can only be freed */
    uvcc_program_hash(p, s->h_program);
    if (s->cfg.triples_only)
        hash_maker(s);
    needs n = {0};
    rc = make_plans(s, p, &n);
    if (rc != 0)
        return rc;
    s->event_cap = 64 + 2 * n.outputs;
    s->events = s->alloc.alloc(s->alloc.user, s->event_cap * sizeof s->events[0], UVCC_MEM_STATE);
    s->buffers =
        s->alloc.alloc(s->alloc.user, p->tensor_count * sizeof s->buffers[0], UVCC_MEM_STATE);
    if (s->buffers != NULL)
        memset(s->buffers, 0, p->tensor_count * sizeof s->buffers[0]);
    if (s->events == NULL || s->buffers == NULL)
        return UVCC_ERR_NOMEM;
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const uvcci_tensor *t = &p->tensors[i];
        if (t->desc.lifetime != UVCC_PERSIST || t->buffer != i)
            continue;
        s->buffers[i].shares.lo = uvcci_arena_take(&s->tensors, t->elems * 8);
        s->buffers[i].shares.hi = uvcci_arena_take(&s->tensors, t->elems * 8);
        if (s->buffers[i].shares.lo == NULL || s->buffers[i].shares.hi == NULL)
            return UVCC_ERR_NOMEM;
    }
    rc = make_local_jobs(s, p);
    if (rc == 0)
        rc = uvcci_checkpoint_init(s);
    if (rc == 0)
        rc = make_links(s, &n);
    if (rc == 0)
        s->state = UVCCI_SESSION_LOADED;
    return rc;
}

/* ---- handshake ---- */

int uvcci_session_start(uvcc_session *s, uint64_t now) {
    if (s == NULL || s->state != UVCCI_SESSION_LOADED)
        return UVCC_ERR_STATE;
    uvcci_hello_config c = {.party = s->party,
                            .suites = s->cfg.suites,
                            .r = s->cfg.replicas,
                            .s = s->cfg.stages,
                            .t = s->cfg.tp_ranks,
                            .replica = s->cfg.replica,
                            .stage = s->cfg.stage,
                            .tp = s->cfg.tp_rank,
                            .next_step = s->cfg.next_step,
                            .next_run = s->cfg.next_run,
                            .repeat_ns = s->cfg.hello_repeat_ns};
    memcpy(c.sid_job, s->cfg.sid_job, 32);
    memcpy(c.sid_sub, s->sid_sub, 32);
    memcpy(c.h_program, s->h_program, 32);
    int rc = s->cfg.random.fill(s->cfg.random.user, c.n, 32) != 0 ? UVCC_ERR_RANDOM : 0;
    if (s->cfg.exchange_x25519) {
        c.exchange = UVCCI_EXCHANGE_X25519;
        memcpy(c.sign_sk, s->sign_sk, 64);
        memcpy(c.identity, s->cfg.peer_sign_key, sizeof c.identity);
        memcpy(c.identity[s->party], s->sign_pk, 32);
        if (rc == 0 && s->cfg.random.fill(s->cfg.random.user, c.ephemeral, 32) != 0)
            rc = UVCC_ERR_RANDOM;
    } else {
        memcpy(c.secret, s->cfg.pair_secret, sizeof c.secret);
    }
    s->now = now;
    if (rc == 0)
        rc = uvcci_hello_init(&s->hello, &c, now);
    uvcci_wipe(&c, sizeof c);
    if (rc == 0)
        s->state = UVCCI_SESSION_HELLO;
    return rc;
}

/* The handshake begins again, before any session went ready: links lose what it agreed on. */
static void hello_again(uvcc_session *s) {
    uvcci_hello_again(&s->hello, s->now);
    for (uint8_t p = 0; p < 3; p++) {
        if (p == s->party)
            continue;
        int rc = uvcc_link_reset(s->peer[p].link);
        assert(rc == 0); /* links start when it is done, and nothing is sent before */
        (void)rc;
        s->peer[p].keyed = s->hello_waits[p] = false;
    }
}

/* A link gets its keys as soon as the handshake vouches for them. */
static bool key_link(uvcc_session *s, uint8_t p) {
    uvcc_link *l = s->peer[p].link;
    if (s->peer[p].keyed || !uvcci_hello_keyed(&s->hello, p))
        return false;
    s->peer[p].keyed = true;
    s->run = s->hello.run;
    s->step = s->hello.step;
    if (uvcc_link_set_run(l, s->run) != 0 || uvcc_link_set_step(l, s->step) != 0 ||
        uvcc_link_set_keys(l, s->hello.suite, s->hello.peer[p].prk) != 0)
        uvcci_abort(s, UVCC_ABORT_CRYPTO, "a link could not be keyed");
    return true;
}

static bool pump_hello(uvcc_session *s) {
    bool any = false;
    for (uint8_t p = 0; p < 3; p++) {
        if (p == s->party)
            continue;
        uint8_t payload[256];
        bool sealed;
        size_t n;
        while ((n = uvcc_link_poll_hello(s->peer[p].link, payload, &sealed)) != 0) {
            any = true;
            int rc = uvcci_hello_input(&s->hello, p, payload, n, sealed, s->now);
            if (rc == UVCC_ERR_MISMATCH) {
                uvcci_log(s, UVCC_LOG_ERROR, "party %u: party %u differs in %s", s->party, p,
                          s->hello.field);
                uvcci_abort(s, UVCC_ABORT_HELLO, s->hello.field);
                return true;
            }
            s->stats.frames_refused += rc == UVCC_ERR_AUTH;
        }
        if (uvcc_link_heard(s->peer[p].link))
            uvcci_hello_peer_passed(&s->hello, p);
    }
    if (uvcci_hello_stale(&s->hello)) {
        hello_again(s);
        any = true;
    }
    for (uint8_t p = 0; p < 3 && !uvcci_failed(s); p++)
        if (p != s->party)
            any |= key_link(s, p);
    if (s->state == UVCCI_SESSION_HELLO && uvcci_hello_done(&s->hello)) {
        s->state = UVCCI_SESSION_READY;
        for (uint8_t p = 0; p < 3; p++)
            if (p != s->party && uvcc_link_start(s->peer[p].link, s->now) != 0)
                uvcci_abort(s, UVCC_ABORT_MEMORY, "a link could not start");
        uvcci_event_push(s,
                         &(uvcc_event){.kind = UVCC_EVENT_READY, .run = s->run, .step = s->step});
        any = true;
    }
    for (uint8_t p = 0; p < 3; p++)
        if (uvcci_hello_done(&s->hello) && uvcci_hello_restarted(&s->hello, p) &&
            !s->peer[p].restarted) {
            s->peer[p].restarted = true;
            uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_PEER_RESTARTED,
                                              .peer = p,
                                              .run = s->run,
                                              .step = s->step});
        }
    return any;
}

/* ---- dispatch ---- */

static void on_message(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    static const char *const texts[] = {
        [UVCC_ABORT_BATCH] = "a batch is malformed",
        [UVCC_ABORT_UNKNOWN_OP] = "a message names no op of its step",
        [UVCC_ABORT_PLAN] = "a batch is not what the program says it must be",
        [UVCC_ABORT_MEMORY] = "no memory for a received message",
        [UVCC_ABORT_TRIPLE] = "a peer makes a triple that was given here"};
    uvcc_link *l = s->peer[peer].link;
    for (uint16_t i = 0; i < m->chunk_cnt; i++)
        if (m->msg_ids[i] !=
            uvcci_msg_id(m->kind, s->sid_sub, m->op_id, peer, s->party, i, m->chunk_cnt)) {
            uvcci_abort(s, UVCC_ABORT_MSG_ID, "a message id is not that of its place");
            return;
        }
    uint16_t reason;
    switch (m->kind) {
    case UVCC_FRAME_STEP:
        uvcci_step_on_step(s, peer, m->data, m->len);
        break;
    case UVCC_FRAME_AUDIT:
        uvcci_step_on_audit(s, peer, m->data, m->len);
        break;
    case UVCC_FRAME_BYE:
        if (uvcci_bye_decode(&reason, m->data, m->len) != 0)
            uvcci_abort(s, UVCC_ABORT_BATCH, "a BYE message is malformed");
        else if (reason == UVCC_ABORT_SKS) /* of a step that may be finished here */
            uvcci_abort_at(s, m->step, reason, "a peer found that the check of a product failed");
        else if (reason != UVCC_ABORT_NONE)
            uvcci_abort(s, UVCC_ABORT_PEER, uvcc_abort_text(reason));
        else if (!s->peer[peer].bye) {
            s->peer[peer].bye = true;
            uvcci_event_push(
                s, &(uvcc_event){
                       .kind = UVCC_EVENT_PEER_BYE, .peer = peer, .run = s->run, .step = s->step});
        }
        break;
    default: /* batches: accepted and released by their op */
        reason = uvcci_op_receive(s, peer, m);
        if (reason != UVCC_ABORT_NONE)
            uvcci_abort(s, reason, texts[reason]);
        return;
    }
    if (!uvcci_failed(s) || m->kind == UVCC_FRAME_BYE)
        (void)uvcc_link_accept(l, m->token, s->now);
    (void)uvcc_link_release(l, m->token, s->now);
}

static bool pump_messages(uvcc_session *s) {
    bool any = false;
    for (uint8_t p = 0; p < 3; p++) {
        uvcc_link_rx m;
        if (p == s->party)
            continue;
        while (!uvcci_failed(s) && uvcc_link_poll_message(s->peer[p].link, &m) == 1) {
            any = true;
            on_message(s, p, &m);
        }
        const char *why = uvcc_link_violation(s->peer[p].link);
        if (why != NULL)
            uvcci_abort(s, UVCC_ABORT_FRAME, why);
    }
    return any;
}

static void pump_rx_jobs(uvcc_session *s) {
    while (s->rx_pending != NULL && !uvcci_jobs_full(&s->jobs)) {
        uvcci_rx *rx = s->rx_pending;
        s->rx_pending = rx->next;
        rx->next = s->rx_out;
        s->rx_out = rx;
        uvcci_jobs_push(&s->jobs, &rx->task, 1, UVCCI_JOB_RX, 0, rx);
    }
}

static bool drained(const uvcc_session *s, bool with_bye) {
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party && s->peer[p].link != NULL && /* a load that failed may have made one */
            (!uvcc_link_drained(s->peer[p].link) || (with_bye && !s->peer[p].bye)))
            return false;
    return true;
}

static void pump_close(uvcc_session *s) {
    if (s->close_deadline == UVCC_NEVER || s->state == UVCCI_SESSION_CLOSED ||
        (s->jobs.out != 0 && !UVCCI_MUTANT(13)))
        return;
    bool quiet = s->state == UVCCI_SESSION_CLOSING
                     ? drained(s, true)
                     : s->state != UVCCI_SESSION_ABORTED || drained(s, false);
    if (!quiet && s->now < s->close_deadline)
        return;
    s->state = UVCCI_SESSION_CLOSED;
    s->close_deadline = UVCC_NEVER;
    uvcci_event_push(s, &(uvcc_event){.kind = UVCC_EVENT_CLOSED, .run = s->run, .step = s->step});
}

static void pump(uvcc_session *s) {
    bool any = s->state >= UVCCI_SESSION_HELLO;
    while (any && !uvcci_failed(s)) {
        any = pump_hello(s);
        if (s->state != UVCCI_SESSION_READY && s->state != UVCCI_SESSION_CLOSING)
            break;
        any |= pump_messages(s);
        if (uvcci_failed(s))
            break;
        pump_rx_jobs(s); /* first: they are what others wait for */
        any |= uvcci_step_advance(s);
        any |= uvcci_deal_advance(s);
        any |= uvcci_beaver_advance(s);
        any |= uvcci_ops_advance(s);
    }
    pump_close(s);
}

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
    uint64_t inside = now + s->skew < end ? now + s->skew : end;
    if (inside > s->now)
        s->now = inside;
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
    pump(s);
    /* A frame that found no memory is lost: datagrams come again, a stream has to begin anew. */
    return rc != 0 && !s->cfg.datagram ? UVCC_ERR_STREAM_BROKEN : 0;
}

int uvcci_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now) {
    if (!peer_ok(s, peer))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    uvcc_link_stream_opened(s->peer[peer].link, s->now);
    s->hello_waits[peer] = false;
    uvcci_hello_nudge(&s->hello, peer, s->now);
    pump(s);
    return 0;
}

int uvcci_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    if (!peer_ok(s, peer))
        return UVCC_ERR_USAGE;
    set_now(s, now);
    uvcc_link_stream_closed(s->peer[peer].link, s->now);
    pump(s);
    return 0;
}

int uvcci_session_on_timer(uvcc_session *s, uint64_t now) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    for (uint8_t p = 0; p < 3; p++)
        if (peer_ok(s, p))
            uvcc_link_on_timer(s->peer[p].link, s->now);
    pump(s);
    return 0;
}

static void rx_hashed(uvcc_session *s, uvcci_rx *rx) {
    uvcci_rx **at = &s->rx_out;
    while (*at != rx)
        at = &(*at)->next;
    *at = rx->next;
    if (!uvcci_failed(s)) {
        uvcci_op_rx_hashed(s, rx);
        return;
    }
    rx->next = NULL;
    free_rx_list(s, rx);
}

static void set_done(uvcc_session *s, uvcci_set *set) {
    uvcci_set **at = &s->sets;
    while (*at != set)
        at = &(*at)->next;
    *at = set->next;
    if (!UVCCI_MUTANT(15))
        uvcci_set_free(s, set);
}

static bool is_collective(uvcci_job_owner owner, const void *who) {
    return owner == UVCCI_JOB_OP &&
           uvcci_is_collective(((const uvcci_instance *)who)->op->desc.opcode);
}

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
    else if (uvcci_failed(s))
        ; /* its memory goes with the session */
    else if (owner == UVCCI_JOB_OP)
        uvcci_op_job_done(s, who);
    else
        uvcci_deal_job_done(s, who);
    pump(s);
    return 0;
}

/* ---- outputs ---- */

int uvcci_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    if (s == NULL || out == NULL || s->state < UVCCI_SESSION_HELLO)
        return 0;
    set_now(s, now);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t p = (uint8_t)((s->poll_peer + i) % 3u);
        if (!peer_ok(s, p))
            continue;
        uint8_t payload[UVCCI_HELLO1_BYTES];
        bool sealed;
        size_t n;
        if (!s->hello_waits[p] &&
            (n = uvcci_hello_poll(&s->hello, p, payload, &sealed, s->now)) != 0)
            s->hello_waits[p] = uvcc_link_send_hello(s->peer[p].link, payload, n, sealed) == 0;
        int rc = uvcc_link_poll_transmit(s->peer[p].link, out, s->now);
        if (rc < 0)
            uvcci_abort(s, UVCC_ABORT_CRYPTO, "a frame could not be sealed");
        if (rc == 1) {
            s->hello_waits[p] = false;
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
    return uvcc_link_transmit_done(s->peer[peer].link, id, bytes, s->now);
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
    for (uint8_t p = 0; p < 3; p++) {
        if (!peer_ok(s, p) || (UVCCI_MUTANT(14) && p == 2))
            continue;
        /* A peer may still want our last word. While a HELLO waits in the link, for a stream or for
         * memory, another is not due. */
        uint64_t hello = uvcci_hello_peer_deadline(&s->hello, p);
        at = !s->hello_waits[p] && hello < at ? hello : at;
        uint64_t link = uvcc_link_next_deadline(s->peer[p].link);
        at = link < at ? link : at;
    }
    if (at == UVCC_NEVER)
        return at;
    return at > s->skew ? at - s->skew : 0; /* by the host's clock */
}

int uvcci_session_poll_event(uvcc_session *s, uvcc_event *out) {
    if (s == NULL || out == NULL || s->event_count == 0)
        return 0;
    *out = s->events[s->event_head];
    s->event_head = (s->event_head + 1) % s->event_cap;
    s->event_count--;
    if (out->kind == UVCC_EVENT_BUNDLE)
        uvcci_bundle_store_told(s, out->step);
    return 1;
}

/* ---- work ---- */

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
    if (s->cfg.sks_refused && step == s->cfg.sks_step && !s->cfg.sks_override) {
        uvcci_log(s, UVCC_LOG_ERROR, "party %u: the check of a product failed in step %u before",
                  s->party, step);
        return UVCC_ERR_REFUSED;
    }
    if (s->tensors_at != s->step)
        return UVCC_ERR_STATE; /* the parties resume earlier than our tensors */
    /* In order, at most one ahead, and with room for the step's events. */
    if (step > s->step + 1 || (step == s->step + 1 && uvcci_step_of(s, s->step) == NULL) ||
        s->event_count + 32 + s->program->entries[entry].output_count > s->event_cap)
        return UVCC_ERR_AGAIN;
    int rc = uvcci_zero_unset(s);
    if (rc == 0)
        rc = uvcci_step_open(s, step, entry);
    if (rc == 0)
        pump(s);
    return rc;
}

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
        st->input[i] = uvcci_arena_take(&s->wire, bytes);
        if (st->input[i] == NULL)
            return UVCC_ERR_NOMEM;
        memcpy(st->input[i], v, bytes);
        for (uint32_t k = 0; k < st->entry->op_count; k++)
            if (st->instances[k].op->desc.opcode == UVCC_OP_INPUT && st->instances[k].op->io == i)
                uvcci_instance_wake(&st->instances[k]);
        pump(s);
        return 0;
    }
    return UVCC_ERR_NOT_FOUND;
}

const int64_t *uvcc_session_output(const uvcc_session *s, uint32_t step, uint32_t id) {
    if (s == NULL || s->program == NULL || s->cfg.triples_only)
        return NULL;
    if (s->last_output != NULL && s->last_output_step == step) {
        const uvcci_entry *e = &s->program->entries[s->last_output_entry];
        for (uint32_t i = 0; i < e->output_count; i++)
            if (e->outputs[i].id == id)
                return s->last_output[i];
        return NULL;
    }
    const uvcci_step *st = &s->ctx[step & 1];
    if (!st->active || st->number != step || !st->running)
        return NULL;
    for (uint32_t k = 0; k < st->entry->op_count; k++) {
        const uvcci_instance *r = &st->instances[k];
        if (r->op->desc.opcode == UVCC_OP_OUTPUT && r->turn == UVCCI_TURN_DONE &&
            st->entry->outputs[r->op->io].id == id)
            return st->output[r->op->io];
    }
    return NULL;
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
    s->close_deadline = s->now + UVCCI_CLOSE_NS;
    pump(s);
    return 0;
}

int uvcci_session_abort(uvcc_session *s, uint16_t reason, uint64_t now) {
    if (s == NULL || reason == UVCC_ABORT_NONE)
        return UVCC_ERR_USAGE;
    set_now(s, now);
    if (uvcci_failed(s) || s->events == NULL)
        return UVCC_ERR_STATE;
    uvcci_abort(s, reason, uvcc_abort_text(reason));
    pump(s);
    return 0;
}

/* ---- inspection ---- */

const char *uvcc_abort_text(uint16_t reason) {
    switch (reason) {
#define UVCC_ABORT(name, code, text)                                                               \
    case code:                                                                                     \
        return text;
#include <uvcc/aborts.def>
#undef UVCC_ABORT
    default:
        return "unknown reason";
    }
}

void uvcc_session_get_stats(const uvcc_session *s, uvcc_session_stats *out) {
    *out = s->stats;
    out->run = s->run;
    out->step = s->step;
    for (uint8_t p = 0; p < 3; p++) {
        if (s->peer[p].link == NULL)
            continue;
        uvcc_link_stats l;
        uvcc_link_get_stats(s->peer[p].link, &l);
        out->bytes_online += l.payload_online_tx;
        out->bytes_preprocessing += l.payload_keys_tx;
        out->messages += l.messages_tx;
        out->retransmissions += l.retransmissions;
        out->spurious_retransmissions += l.spurious;
        out->frames_refused += l.refused + l.foreign + l.stale_run;
        out->frames_duplicate += l.duplicates;
        out->suspicious_dropped += l.suspicious_dropped;
    }
    /* Triples travel with the online class. They are counted when they are queued, so nothing but
     * what the links have begun counts. */
    const uint64_t triples =
        s->triple_bytes < out->bytes_online ? s->triple_bytes : out->bytes_online;
    out->bytes_online -= triples;
    out->bytes_preprocessing += triples;
    out->jobs = s->jobs.handed;
    out->jobs_stale = s->jobs.stale;
    out->memory_bytes = s->meter.bytes;
    out->memory_peak_bytes = s->meter.peak_bytes;
    out->tensor_bytes = s->tensors.used_bytes;
    out->tensor_peak_bytes = s->tensors.peak_bytes;
}

void uvcc_session_digest(const uvcc_session *s, uint8_t out[32]) {
    uvcci_sha256 h;
    uint8_t d[32];
    uvcci_sha256_init(&h);
    const uint64_t head[] = {(uint64_t)s->state, s->run,          s->step,       s->abort_reason,
                             s->jobs.handed,     s->stats.rounds, s->event_count};
    uvcci_sha256_update(&h, head, sizeof head);
    uvcci_sha256_update(&h, s->last_root, 32);
    for (uint8_t p = 0; p < 3; p++)
        if (s->peer[p].link != NULL) {
            uvcc_link_digest(s->peer[p].link, d);
            uvcci_sha256_update(&h, d, 32);
        }
    for (unsigned c = 0; c < 2; c++) {
        const uvcci_step *st = &s->ctx[c];
        if (!st->active)
            continue;
        const uint64_t step[] = {st->number,  st->entry_index, st->sent,      st->agreed,
                                 st->running, st->leaves,      st->deals_sent};
        uvcci_sha256_update(&h, step, sizeof step);
        for (uint32_t i = 0; i < st->entry->op_count; i++) {
            const uvcci_instance *r = &st->instances[i];
            uvcci_sha256_update(&h, &r->turn, 1);
            for (unsigned k = 0; k < (unsigned)r->plan->round_count + r->plan->key_count; k++)
                uvcci_sha256_update(&h, r->rounds[k].got, sizeof r->rounds[k].got);
        }
    }
    uvcci_sha256_final(&h, out);
}

int uvcc_session_root(const uvcc_session *s, uint8_t root[32]) {
    if (s == NULL || !s->have_root)
        return UVCC_ERR_STATE;
    memcpy(root, s->last_root, 32);
    return 0;
}

const uint8_t *uvcc_session_public_key(const uvcc_session *s) {
    return s->sign_pk;
}
