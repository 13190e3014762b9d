/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c - the public input calls of a session: each records itself, if there is a recorder, and
 * hands on to the call of the same name in the module that does it.
 *
 * A call is written before it is worked on, then come the records of the hooks that it ran, then
 * its result: so a log that a crash cut off names the call that crashed. Calls that are refused for
 * their pointers, and polls of jobs and events that give nothing, change nothing and are not
 * written. */
#include "exec/session/calls.h"

#include "exec/ops/triples.h"
#include "exec/runtime/builder.h"
#include "exec/session/agree.h"
#include "exec/session/checkpoint.h"
#include "exec/session/consent.h"
#include "exec/session/handshake.h"
#include "exec/session/load.h"
#include "exec/session/record.h"
#include "exec/session/session.h"
#include "exec/session/shares.h"

#include "proto/bytes.h"
#include <assert.h>
#include <string.h>

/* The outputs that the digest tells apart. */
enum { OUT_TRANSMIT = 1, OUT_JOB = 2, OUT_EVENT = 3 };

typedef struct uvcci_recording {
    uvcci_record_writer writer;
    uvcc_random random; /* the host's hooks */
    uvcc_allocator alloc;
    uint64_t allocs;      /* calls of alloc, the one for this too */
    uvcci_sha256 outputs; /* of all that came out */
    bool grown;           /* it did since the last RESULT */
    uint64_t steps;       /* finished at the last RESULT */
    bool ended;           /* the log is: what freeing does changes nothing any more */
} uvcci_recording;

static uvcc_slice slice(const void *data, size_t len) {
    return (uvcc_slice){.data = data, .len = len};
}

/* ---- hooks ---- */

static int record_random(void *user, void *out, size_t bytes) {
    uvcci_recording *rec = user;
    int rc = rec->random.fill(rec->random.user, out, bytes);
    uvcci_record_put(&rec->writer, &(uvcc_record){.type = UVCC_RECORD_RANDOM,
                                                  .number = bytes,
                                                  .status = rc,
                                                  .data = {slice(out, rc == 0 ? bytes : 0)}});
    return rc;
}

static void *record_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    uvcci_recording *rec = user;
    void *p = rec->alloc.alloc(rec->alloc.user, bytes, cls);
    rec->allocs++;
    if (p == NULL && !rec->ended)
        uvcci_record_put(&rec->writer,
                         &(uvcc_record){.type = UVCC_RECORD_NOMEM, .number = rec->allocs});
    return p;
}

static void record_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    uvcci_recording *rec = user;
    rec->alloc.free(rec->alloc.user, p, bytes, cls);
}

/* ---- outputs ---- */

static void output(uvcci_recording *rec, const void *data, size_t len) {
    uvcci_sha256_update(&rec->outputs, data, len);
    rec->grown = true;
}

static void output_digest(const uvcci_recording *rec, uint8_t out[32]) {
    uvcci_sha256 h = rec->outputs;
    uvcci_sha256_final(&h, out);
}

static void output_transmit(uvcci_recording *rec, const uvcc_transmit *tx) {
    assert(tx->total != 0);
    const uint64_t head[] = {OUT_TRANSMIT, tx->peer, tx->id, tx->total};
    output(rec, head, sizeof head);
    for (uint32_t i = 0; i < tx->slice_count; i++)
        output(rec, tx->slices[i].data, tx->slices[i].len);
}

static void output_job(uvcci_recording *rec, const uvcc_job *job) {
    assert(job->count != 0);
    const uint64_t head[] = {OUT_JOB, job->id, job->cookie, job->count};
    output(rec, head, sizeof head);
    for (uint32_t i = 0; i < job->count; i++) {
        const uint64_t task[] = {job->tasks[i].kind, job->tasks[i].ordinal, job->tasks[i].call};
        output(rec, task, sizeof task);
    }
}

static void output_values(uvcci_recording *rec, const uvcc_session *s, uint32_t step, uint32_t id) {
    const int64_t *v = uvcc_session_output(s, step, id);
    if (v == NULL) /* the next step took its place before the event was polled */
        return;
    const uvcci_step *st = &s->ctx[step & 1];
    assert(s->last_output != NULL || st->active);
    const uvcci_entry *e = s->last_output != NULL && s->last_output_step == step
                               ? &s->program->entries[s->last_output_entry]
                               : st->entry;
    for (uint32_t i = 0; i < e->output_count; i++)
        if (e->outputs[i].id == id)
            output(rec, v, s->program->tensors[e->outputs[i].tensor].elems * 8);
}

static void output_event(uvcci_recording *rec, const uvcc_session *s, const uvcc_event *e) {
    const uint64_t head[] = {OUT_EVENT, (uint64_t)e->kind, e->peer, e->reason,
                             e->run,    e->step,           e->id};
    output(rec, head, sizeof head);
    output(rec, e->root, sizeof e->root);
    output(rec, e->signature, sizeof e->signature);
    const char *text = uvcci_agree_is_text(s, e->text) ? "job" : e->text; /* names are not logged */
    if (text != NULL)
        output(rec, text, strlen(text));
    uint32_t step;
    const uint8_t *data;
    size_t len;
    if (e->kind == UVCC_EVENT_PEER_SILENT)
        output(rec, &e->since_ns, sizeof e->since_ns);
    else if (e->kind == UVCC_EVENT_OUTPUT)
        output_values(rec, s, e->step, e->id);
    else if (e->kind == UVCC_EVENT_CHECKPOINT &&
             uvcc_session_checkpoint(s, &step, &data, &len) == 0)
        output(rec, data + len - 32, 32); /* its own SHA-256 */
    else if (e->kind == UVCC_EVENT_BUNDLE && uvcc_session_bundle(s, e->step, &data, &len) == 0)
        output(rec, data, len);
    else if (e->kind == UVCC_EVENT_TRIPLES && uvcc_session_triples(s, &step, &data, &len) == 0)
        output(rec, data, len);
}

/* ---- calls ---- */

static uvcci_recording *recording(const uvcc_session *s) {
    return s == NULL ? NULL : s->recording;
}

/* The call, before it is worked on. */
static void called(uvcci_recording *rec, uvcc_record r) {
    assert(!rec->ended && uvcc_record_fields(r.type) != NULL);
    uvcci_record_put(&rec->writer, &r);
}

/* What it returned. s may be NULL. */
static int returned(uvcci_recording *rec, const uvcc_session *s, int rc) {
    uint8_t digest[32], state[32];
    output_digest(rec, digest);
    uvcci_record_put(
        &rec->writer,
        &(uvcc_record){.type = UVCC_RECORD_RESULT,
                       .status = rc,
                       .data = {slice(digest, rec->grown ? UVCCI_RECORD_DIGEST_BYTES : 0)}});
    rec->grown = false;
    const uint64_t steps = s != NULL ? s->stats.steps_finished + s->stats.steps_cancelled : 0;
    if (s != NULL && steps != rec->steps) {
        assert(steps > rec->steps);
        rec->steps = steps;
        uvcc_session_digest(s, state);
        uvcci_record_put(&rec->writer,
                         &(uvcc_record){.type = UVCC_RECORD_STEP_END,
                                        .number = rec->steps,
                                        .data = {slice(state, 32), slice(digest, 32)}});
    }
    return rc;
}

static void recording_end(uvcci_recording *rec) {
    uint8_t digest[32];
    assert(!rec->ended);
    output_digest(rec, digest);
    uvcci_record_put(&rec->writer,
                     &(uvcc_record){.type = UVCC_RECORD_END, .data = {slice(digest, 32)}});
    rec->ended = true;
}

static void recording_free(uvcci_recording *rec) {
    uvcc_allocator al = rec->alloc;
    uvcci_wipe(rec, sizeof *rec);
    al.free(al.user, rec, sizeof *rec, UVCC_MEM_SECRET);
}

/* The recording stands between the host's hooks and the session from the first allocation on, so
 * that what a failed uvcc_session_new() did is in the log too. */
int uvcci_session_new_recorded(uvcc_session **out, const uvcc_config *cfg, uvcc_slice version) {
    uint8_t members[UVCCI_RECORD_CONFIG_MAX];
    assert(uvcci_record_config_bytes() <= sizeof members);
    assert(cfg->size <= sizeof *cfg && cfg->record.write != NULL);
    uvcci_recording *rec = cfg->alloc.alloc(cfg->alloc.user, sizeof *rec, UVCC_MEM_SECRET);
    if (rec == NULL)
        return UVCC_ERR_NOMEM;
    memset(rec, 0, sizeof *rec);
    uvcci_sha256_init(&rec->outputs);
    rec->random = cfg->random;
    rec->alloc = cfg->alloc;
    rec->allocs = 1;
    uvcc_config c;
    memset(&c, 0, sizeof c);
    memcpy(&c, cfg, cfg->size);
    c.random = (uvcc_random){.fill = record_random, .user = rec};
    uvcci_consent_hash(&c, c.identity.policy_hash); /* the log has it, and not the policy */
    c.alloc = (uvcc_allocator){.alloc = record_alloc, .free = record_free, .user = rec};
    uvcci_record_begin(&rec->writer, &c.record);
    uvcci_record_config_put(&c, members);
    called(rec, (uvcc_record){.type = UVCC_RECORD_HEADER,
                              .data = {version, slice(members, uvcci_record_config_bytes()),
                                       slice(c.record.app, c.record.app_len)}});
    uvcci_wipe(members, sizeof members);
    uvcc_session *s = NULL;
    int rc = returned(rec, NULL, uvcci_session_new(&s, &c));
    uvcci_wipe(&c, sizeof c);
    if (rc != 0) {
        recording_end(rec);
        recording_free(rec);
        return rc;
    }
    s->recording = rec;
    *out = s;
    return 0;
}

int uvcc_session_new(uvcc_session **out, const uvcc_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size > sizeof *cfg ||
        cfg->size < offsetof(uvcc_config, links) || cfg->record.write == NULL ||
        cfg->alloc.alloc == NULL || cfg->alloc.free == NULL || cfg->random.fill == NULL)
        return uvcci_session_new(out, cfg);
    if (cfg->record.app == NULL && cfg->record.app_len != 0)
        return UVCC_ERR_USAGE;
    return uvcci_session_new_recorded(out, cfg, slice(uvcc_version(), strlen(uvcc_version())));
}

size_t uvcci_recording_bytes(void) {
    return sizeof(uvcci_recording);
}

void uvcc_session_free(uvcc_session *s) {
    uvcci_recording *rec = recording(s);
    if (rec != NULL)
        recording_end(rec);
    uvcci_session_free(s);
    if (rec != NULL)
        recording_free(rec);
}

int uvcc_session_load_program(uvcc_session *s, const uvcc_program *p) {
    uvcci_recording *rec = recording(s);
    const int refused = uvcci_consent_program(s, p);
    if (refused != 0)
        return refused;
    if (rec == NULL || p == NULL || !p->finished)
        return uvcci_session_load_program(s, p);
    called(rec, (uvcc_record){.type = UVCC_RECORD_LOAD_PROGRAM, .data = {slice(p->hash, 32)}});
    return returned(rec, s, uvcci_session_load_program(s, p));
}

/* A replay would have nobody to borrow from. */
int uvcc_session_borrow_public(uvcc_session *s, uvcc_session *from) {
    if (recording(s) != NULL)
        return uvcci_refuse(s, UVCC_ERR_CONFIG,
                            "a session that is recorded has its own public tensors");
    return uvcci_session_borrow_public(s, from);
}

int uvcc_session_start(uvcc_session *s, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_start(s, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_START, .now = now});
    return returned(rec, s, uvcci_session_start(s, now));
}

int uvcc_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                      uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || (data == NULL && len != 0))
        return uvcci_session_feed(s, peer, data, len, now);
    called(rec,
           (uvcc_record){
               .type = UVCC_RECORD_FEED, .now = now, .peer = peer, .data = {slice(data, len)}});
    return returned(rec, s, uvcci_session_feed(s, peer, data, len, now));
}

/* A log has each place's bytes as if they had been fed, which comes to the same. */
int uvcc_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                             uint32_t count, uint64_t now) {
    if (recording(s) == NULL)
        return uvcci_session_feed_slices(s, peer, slices, count, now);
    int rc = uvcci_session_check_slices(s, peer, slices, count);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = uvcc_session_feed(s, peer, slices[i].data, slices[i].len, now);
    return rc;
}

/* The log has the bytes as if they had been fed: a replay has nowhere to read from. */
int uvcc_session_rx_filled(uvcc_session *s, uint8_t peer, size_t n, uint64_t now) {
    uvcci_recording *rec = recording(s);
    const uint8_t *at = NULL;
    if (rec == NULL || n == 0 || n > uvcci_session_offered(s, peer, &at))
        return uvcci_session_rx_filled(s, peer, n, now);
    called(rec, (uvcc_record){
                    .type = UVCC_RECORD_FEED, .now = now, .peer = peer, .data = {slice(at, n)}});
    return returned(rec, s, uvcci_session_rx_filled(s, peer, n, now));
}

int uvcc_session_feed_ecn(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len, bool ce,
                          uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || (data == NULL && len != 0))
        return uvcci_session_feed_ecn(s, peer, data, len, ce, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_FEED_ECN,
                              .now = now,
                              .peer = peer,
                              .number = ce,
                              .data = {slice(data, len)}});
    return returned(rec, s, uvcci_session_feed_ecn(s, peer, data, len, ce, now));
}

int uvcc_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_peer_open_bound(s, peer, NULL, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_PEER_OPEN, .now = now, .peer = peer});
    return returned(rec, s, uvcci_session_peer_open_bound(s, peer, NULL, now));
}

int uvcc_session_peer_open_bound(uvcc_session *s, uint8_t peer, const uint8_t binding[32],
                                 uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (binding == NULL)
        return uvcc_session_peer_open(s, peer, now);
    if (rec == NULL)
        return uvcci_session_peer_open_bound(s, peer, binding, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_PEER_OPEN_BOUND,
                              .now = now,
                              .peer = peer,
                              .data = {slice(binding, 32)}});
    return returned(rec, s, uvcci_session_peer_open_bound(s, peer, binding, now));
}

int uvcc_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_peer_closed(s, peer, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_PEER_CLOSED, .now = now, .peer = peer});
    return returned(rec, s, uvcci_session_peer_closed(s, peer, now));
}

int uvcc_session_on_timer(uvcc_session *s, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_on_timer(s, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_ON_TIMER, .now = now});
    return returned(rec, s, uvcci_session_on_timer(s, now));
}

bool uvcci_session_local_result(uvcc_session *s, const uvcc_completion *c, uvcc_shares *out,
                                size_t *bytes) {
    if (c->status != 0 || c->cookie != s->cfg.cookie || uvcci_failed(s))
        return false;
    const uvcci_instance *r = uvcci_jobs_owner(&s->jobs, c->id, UVCCI_JOB_OP);
    if (r == NULL || !uvcci_is_collective(r->op->desc.opcode) || r->op->desc.out_count == 0)
        return false;
    const uvcci_tensor *t = &s->program->tensors[r->op->desc.out[0]];
    *out = *uvcci_shares_of(s, r->op->desc.out[0]);
    if (t->desc.sharing == UVCC_ADDITIVE)
        out->hi = NULL;
    *bytes = (size_t)t->elems * 8;
    return true;
}

int uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || c == NULL)
        return uvcci_session_complete(s, c, now);
    uvcc_shares got;
    size_t bytes;
    if (uvcci_session_local_result(s, c, &got, &bytes))
        called(rec, (uvcc_record){
                        .type = UVCC_RECORD_COMPLETE_LOCAL,
                        .now = now,
                        .id = c->id,
                        .number = c->cookie,
                        .data = {slice(got.lo, bytes), slice(got.hi, got.hi != NULL ? bytes : 0)}});
    else
        called(rec, (uvcc_record){.type = UVCC_RECORD_COMPLETE,
                                  .now = now,
                                  .id = c->id,
                                  .number = c->cookie,
                                  .status = c->status});
    return returned(rec, s, uvcci_session_complete(s, c, now));
}

int uvcc_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || out == NULL)
        return uvcci_session_poll_transmit(s, out, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_POLL_TRANSMIT, .now = now});
    int rc = uvcci_session_poll_transmit(s, out, now);
    if (rc == 1)
        output_transmit(rec, out);
    return returned(rec, s, rc);
}

int uvcc_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                               uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_transmit_done(s, peer, id, bytes, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_TRANSMIT_DONE,
                              .now = now,
                              .peer = peer,
                              .id = id,
                              .number = bytes});
    return returned(rec, s, uvcci_session_transmit_done(s, peer, id, bytes, now));
}

int uvcc_session_poll_job(uvcc_session *s, const uvcc_job **out) {
    uvcci_recording *rec = recording(s);
    int rc = uvcci_session_poll_job(s, out);
    if (rec == NULL || rc != 1)
        return rc;
    called(rec, (uvcc_record){.type = UVCC_RECORD_POLL_JOB});
    output_job(rec, *out);
    return returned(rec, s, rc);
}

int uvcc_session_poll_event(uvcc_session *s, uvcc_event *out) {
    uvcci_recording *rec = recording(s);
    int rc = uvcci_session_poll_event(s, out);
    if (rec == NULL || rc != 1)
        return rc;
    called(rec, (uvcc_record){.type = UVCC_RECORD_POLL_EVENT});
    output_event(rec, s, out);
    return returned(rec, s, rc);
}

int uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    uvcci_recording *rec = recording(s);
    uvcci_use use;
    int rc = uvcci_consent_step(s, entry, &use);
    if (rc != 0)
        return rc;
    if (rec != NULL)
        called(rec,
               (uvcc_record){.type = UVCC_RECORD_STEP, .now = now, .step = step, .entry = entry});
    rc = uvcci_session_step(s, step, entry, now);
    if (rc == 0)
        uvcci_consent_count(s, &use);
    return rec != NULL ? returned(rec, s, rc) : rc;
}

/* Bytes of an input's values; 0 if it will be refused before they are read. */
static size_t input_bytes(uvcc_session *s, uint32_t step, uint32_t id) {
    const uvcci_step *st = s->program == NULL ? NULL : uvcci_step_of(s, step);
    for (uint32_t i = 0; st != NULL && i < st->entry->input_count; i++)
        if (st->entry->inputs[i].id == id)
            return st->entry->inputs[i].owner == s->party
                       ? s->program->tensors[st->entry->inputs[i].tensor].elems * 8
                       : 0;
    return 0;
}

int uvcc_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                       uint64_t now) {
    uvcci_recording *rec = v != NULL ? recording(s) : NULL;
    uvcci_use use;
    int rc = uvcci_consent_input(s, step, id, &use);
    if (rc != 0)
        return rc;
    if (rec != NULL)
        called(rec, (uvcc_record){.type = UVCC_RECORD_INPUT,
                                  .now = now,
                                  .step = step,
                                  .id = id,
                                  .data = {slice(v, input_bytes(s, step, id))}});
    rc = uvcci_session_input(s, step, id, v, now);
    if (rc == 0)
        uvcci_consent_count(s, &use);
    return rec != NULL ? returned(rec, s, rc) : rc;
}

/* Bytes of a tensor that may be set; else 0. */
static size_t persist_bytes(const uvcc_session *s, uint32_t tensor) {
    if (s->program == NULL || tensor >= s->program->tensor_count ||
        s->program->tensors[tensor].desc.lifetime != UVCC_PERSIST)
        return 0;
    return uvcci_component_words(&s->program->tensors[tensor]) * 8;
}

int uvcc_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || v == NULL)
        return uvcci_session_set_public(s, tensor, v);
    called(rec, (uvcc_record){.type = UVCC_RECORD_SET_PUBLIC,
                              .id = tensor,
                              .data = {slice(v, persist_bytes(s, tensor))}});
    return returned(rec, s, uvcci_session_set_public(s, tensor, v));
}

int uvcc_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo,
                            const uint64_t *hi) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || lo == NULL || hi == NULL)
        return uvcci_session_set_shares(s, tensor, lo, hi);
    size_t bytes = persist_bytes(s, tensor);
    called(rec, (uvcc_record){.type = UVCC_RECORD_SET_SHARES,
                              .id = tensor,
                              .data = {slice(lo, bytes), slice(hi, bytes)}});
    return returned(rec, s, uvcci_session_set_shares(s, tensor, lo, hi));
}

int uvcc_session_shares(uvcc_session *s, uint32_t tensor, uint64_t *lo, uint64_t *hi) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || lo == NULL || hi == NULL)
        return uvcci_session_shares(s, tensor, lo, hi);
    called(rec, (uvcc_record){.type = UVCC_RECORD_SHARES, .id = tensor});
    const int rc = uvcci_session_shares(s, tensor, lo, hi);
    if (rc == 0) {
        output(rec, lo, persist_bytes(s, tensor));
        output(rec, hi, persist_bytes(s, tensor));
    }
    return returned(rec, s, rc);
}

int uvcc_session_resume(uvcc_session *s, const uint8_t *data, size_t len) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || (data == NULL && len != 0))
        return uvcci_session_resume(s, data, len);
    called(rec, (uvcc_record){.type = UVCC_RECORD_RESUME, .data = {slice(data, len)}});
    return returned(rec, s, uvcci_session_resume(s, data, len));
}

int uvcc_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL || (data == NULL && len != 0))
        return uvcci_session_load_triples(s, data, len);
    called(rec, (uvcc_record){.type = UVCC_RECORD_LOAD_TRIPLES, .data = {slice(data, len)}});
    return returned(rec, s, uvcci_session_load_triples(s, data, len));
}

int uvcc_session_cancel(uvcc_session *s, uint32_t step, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_cancel(s, step, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_CANCEL, .now = now, .step = step});
    return returned(rec, s, uvcci_session_cancel(s, step, now));
}

int uvcc_session_close(uvcc_session *s, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_close(s, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_CLOSE, .now = now});
    return returned(rec, s, uvcci_session_close(s, now));
}

int uvcc_session_abort(uvcc_session *s, uint16_t reason, uint64_t now) {
    uvcci_recording *rec = recording(s);
    if (rec == NULL)
        return uvcci_session_abort(s, reason, now);
    called(rec, (uvcc_record){.type = UVCC_RECORD_ABORT, .now = now, .number = reason});
    return returned(rec, s, uvcci_session_abort(s, reason, now));
}
