/* inspect.c - what the public calls tell of a session without changing it: opened values,
 * statistics, digest, root. */
#include "exec/runtime/core.h"

#include "proto/crypto.h"
#include <string.h>

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
