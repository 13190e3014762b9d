/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - what the public calls tell of a session without changing it: opened values,
 * statistics, digest, root, what is known of its peers and what it needs of them. */
#include "exec/program/op_class.h"
#include "exec/session/instance.h"
#include "exec/session/peers.h"
#include "exec/session/waits.h"

#include "proto/crypto.h"
#include <assert.h>
#include <string.h>

const int64_t *uvcc_session_output(const uvcc_session *s, uint32_t step, uint32_t id) {
    if (s == NULL || s->program == NULL || s->cfg.triples.only)
        return NULL;
    if (s->last_output != NULL && s->last_output_step == step) {
        assert(s->last_output_entry < s->program->entry_count);
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
        const uvcci_op *op = &st->entry->ops[k];
        if (uvcci_op_has(op->desc.opcode, UVCCI_IS_OUTPUT) && st->ops[k].left == 0 &&
            st->entry->outputs[op->io].id == id)
            return st->output[op->io];
    }
    return NULL;
}

/* Counters of the session and of its links; what only one of them can know is asked of it now. */
void uvcc_session_get_stats(const uvcc_session *s, uvcc_session_stats *out) {
    if (s == NULL || out == NULL)
        return;
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
    assert(s->meter.bytes <= s->meter.peak_bytes);
    out->jobs = s->jobs.handed;
    out->jobs_stale = s->jobs.stale;
    out->memory_bytes = s->meter.bytes;
    out->memory_peak_bytes = s->meter.peak_bytes;
    out->tensor_bytes = s->tensors.used_bytes;
    out->tensor_peak_bytes = s->tensors.peak_bytes;
}

/* What decides how the session goes on, and nothing that depends on when things came. */
void uvcc_session_digest(const uvcc_session *s, uint8_t out[32]) {
    uvcci_sha256 h;
    uint8_t d[32];
    if (s == NULL || out == NULL)
        return;
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
        const uint64_t step[] = {st->number,  st->entry_index, st->sent,       st->agreed,
                                 st->running, st->leaves,      st->deals_sent, st->gather_next};
        uvcci_sha256_update(&h, step, sizeof step);
        for (uint32_t i = 0; i < st->instance_count; i++) {
            const uvcci_instance *r = &st->instances[i];
            uvcci_sha256_update(&h, &r->turn, 1);
            for (unsigned k = 0; k < (unsigned)r->plan->round_count + r->plan->key_count; k++)
                uvcci_sha256_update(&h, r->rounds[k].got, sizeof r->rounds[k].got);
        }
    }
    uvcci_sha256_final(&h, out);
}

int uvcc_session_root(const uvcc_session *s, uint8_t root[32]) {
    if (s == NULL || root == NULL)
        return UVCC_ERR_USAGE;
    if (!s->have_root)
        return UVCC_ERR_STATE;
    memcpy(root, s->last_root, 32);
    return 0;
}

const uint8_t *uvcc_session_public_key(const uvcc_session *s) {
    return s != NULL ? s->sign_pk : NULL;
}

uint64_t uvcc_session_sid_tag(const uvcc_session *s) {
    return s != NULL ? s->sid_tag : 0;
}

const char *uvcc_session_error_detail(const uvcc_session *s) {
    return s == NULL ? "" : s->detail;
}

int uvcc_session_sid_sub(const uvcc_session *s, uint8_t out[32]) {
    if (s == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    memcpy(out, s->sid_sub, 32);
    return 0;
}

/* ---- peers ---- */

static void waits(const uvcc_session *s, uint8_t peer, uvcc_peer_info *i) {
    if (s->state == UVCCI_SESSION_HELLO) {
        const uvcci_hello_peer *h = &s->hello.peer[peer];
        const bool third = h->state == UVCCI_HELLO_WAIT1 && h->hello1[0] != 0; /* is missing */
        if (h->state != UVCCI_HELLO_DONE && !third)
            uvcci_wait_for(i, UVCC_WAIT_HELLO, 0, s->state_at);
    } else if (s->state == UVCCI_SESSION_READY) {
        uvcci_step_waits(s, peer, i);
    } else if (s->close_deadline != UVCC_NEVER && !uvcci_parted(s, peer)) {
        uvcci_wait_for(i,
                       s->state == UVCCI_SESSION_CLOSING && !i->bye ? UVCC_WAIT_BYE : UVCC_WAIT_ACK,
                       0, s->state_at);
    }
    if (i->waits_for != UVCC_WAIT_NONE)
        i->wait_since_ns = uvcci_host_time(s, i->wait_since_ns);
}

/* Most of it is the link's; an older caller's structure would end earlier, but there is none yet.
 */
int uvcc_session_peer_info(const uvcc_session *s, uint8_t peer, uvcc_peer_info *out) {
    if (s == NULL || out == NULL || peer >= UVCC_PARTIES || peer == s->party ||
        out->size != sizeof *out)
        return UVCC_ERR_USAGE;
    if (s->state < UVCCI_SESSION_HELLO)
        return UVCC_ERR_STATE;
    const uvcci_peer *p = &s->peer[peer];
    uvcc_link_stats l;
    if (p->link == NULL)
        return UVCC_ERR_STATE;
    uvcc_link_get_stats(p->link, &l);
    *out = (uvcc_peer_info){
        .size = sizeof *out,
        .connected = s->cfg.links.datagram ? p->hello_came || l.frames_rx != 0 : l.stream_up,
        .hello = p->hello_came,
        .silent = p->silent,
        .bye = p->bye,
        .restarted = p->restarted,
        .blocked = l.blocked,
        .handshake = (uint8_t)s->hello.peer[peer].state,
        .heard_ns = l.heard_ns == UVCC_NEVER ? UVCC_NEVER : uvcci_host_time(s, l.heard_ns),
        .srtt_ns = l.srtt_ns,
        .rttvar_ns = l.rttvar_ns,
        .min_rtt_ns = l.min_rtt_ns,
        .rate_bytes_per_s = l.delivered_bytes_per_s,
        .queued_messages = l.queued_messages,
        .queued_bytes = l.queued_bytes,
        .unacked_messages = l.unacked_messages,
        .unacked_bytes = l.unacked_bytes,
    };
    waits(s, peer, out);
    return 0;
}

_Static_assert((int)UVCCI_HELLO_WAIT1 == UVCC_HANDSHAKE_HELLO1 &&
                   (int)UVCCI_HELLO_WAIT2 == UVCC_HANDSHAKE_HELLO2 &&
                   (int)UVCCI_HELLO_WAIT3 == UVCC_HANDSHAKE_HELLO3 &&
                   (int)UVCCI_HELLO_DONE == UVCC_HANDSHAKE_DONE,
               "uvcc_handshake is the state of hello.h");
