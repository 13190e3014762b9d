/* SPDX-License-Identifier: Apache-2.0 */
/* triples.c - triples that the host keeps, in a session: what it was given
 * (uvcc_session_load_triples) until a step opens and its ops take them, and what it makes where it
 * makes nothing else.
 *
 * A triple that the host gave is for one (run, step, triple_id). Only a step that is not open yet
 * takes any, and a session runs no step of a run twice: so no triple is used twice, whatever the
 * host loads. */
#include "exec/ops/triples.h"

#include "exec/ops/beaver_state.h"
#include "exec/runtime/builder.h"

#include "proto/bytes.h"
#include <assert.h>
#include <string.h>

static const struct {
    uint8_t pair, tag;
} key_order[] = {{UVCC_PAIR_NEXT, UVCC_TAG_tripleA},
                 {UVCC_PAIR_NEXT, UVCC_TAG_tripleB},
                 {UVCC_PAIR_PREV, UVCC_TAG_tripleA},
                 {UVCC_PAIR_PREV, UVCC_TAG_tripleB}};

/* ---- given by the host ---- */

void uvcci_stored_wipe_c(uvcc_session *s, uvcci_stored_triple *t) {
    const size_t bytes = 16 * (size_t)uvcci_triple_elems(&t->info, 2);
    if (t->c != NULL)
        uvcci_wipe(t->c, bytes);
    uvcci_arena_give(&s->wire, t->c, bytes);
    t->c = NULL;
}

void uvcci_stored_free(uvcc_session *s, uvcci_stored_triple *t) {
    uvcci_stored_wipe_c(s, t);
    uvcci_wipe(t, sizeof *t);
    s->alloc.free(s->alloc.user, t, sizeof *t, UVCC_MEM_SECRET);
}

static void free_list(uvcc_session *s, uvcci_stored_triple *list) {
    while (list != NULL) {
        uvcci_stored_triple *next = list->next;
        uvcci_stored_free(s, list);
        list = next;
    }
}

static bool loaded(const uvcci_stored_triple *list, const uvcc_triple_info *t) {
    for (; list != NULL; list = list->next)
        if (list->info.step == t->step && list->info.triple_id == t->triple_id)
            return true;
    return false;
}

/* Whether this session may still take it. */
static int admit(uvcc_session *s, const uvcc_triple_info *t) {
    if (t->party != s->party || memcmp(t->sid_sub, s->sid_sub, 32) != 0 ||
        memcmp(t->program, s->program->hash, 32) != 0 || t->run != s->run)
        return uvcci_refuse(s, UVCC_ERR_MISMATCH,
                            "a triple is of another party, worker, program or run");
    if (t->step < s->step || uvcci_step_of(s, t->step) != NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE, "a triple is for step %u, which was agreed to",
                            t->step);
    if (loaded(s->stored, t))
        return uvcci_refuse(s, UVCC_ERR_STATE, "a triple of step %u was given already", t->step);
    return 0;
}

/* A copy of a record, on `list`. */
static int take_record(uvcc_session *s, const uint8_t *data, const uvcc_triple_info *info,
                       uvcci_stored_triple **list) {
    uvcci_stored_triple *t = s->alloc.alloc(s->alloc.user, sizeof *t, UVCC_MEM_SECRET);
    if (t == NULL)
        return UVCC_ERR_NOMEM;
    const size_t bytes = 16 * (size_t)uvcci_triple_elems(info, 2);
    memset(t, 0, sizeof *t);
    t->info = *info;
    t->next = *list;
    t->c = uvcci_arena_take(&s->wire, bytes);
    if (t->c == NULL) {
        uvcci_stored_free(s, t);
        return UVCC_ERR_NOMEM;
    }
    memcpy(t->c, data + UVCCI_TRIPLE_C_AT, bytes);
    for (unsigned i = 0; i < sizeof key_order / sizeof key_order[0]; i++)
        memcpy(t->keys.prg[key_order[i].pair][key_order[i].tag],
               data + UVCCI_TRIPLE_KEYS_AT + 16 * i, 16);
    *list = t;
    return 0;
}

/* All records of a call are taken, or none: they wait on a list of their own until the last one was
 * read. */
int uvcci_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (data == NULL && len != 0)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are no data, but their length is not 0");
    if (uvcci_failed(s))
        return uvcci_refuse(s, UVCC_ERR_ABORTED, "no triples: the session has ended");
    if (s->state != UVCCI_SESSION_READY || s->cfg.triples.only)
        return uvcci_refuse(s, UVCC_ERR_STATE, "no triples: %s",
                            s->cfg.triples.only ? "this session makes them (triples.only)"
                                                : "the session is not READY");
    uvcci_stored_triple *fresh = NULL;
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < len;) {
        uvcc_triple_info t;
        rc = uvcc_triple_read(data + at, len - at, &t);
        if (rc != 0)
            rc = uvcci_refuse(s, rc, "the record at byte %zu is cut or damaged", at);
        else if (loaded(fresh, &t))
            rc = uvcci_refuse(s, UVCC_ERR_STATE, "a triple of step %u is given twice", t.step);
        else
            rc = admit(s, &t);
        if (rc == 0)
            rc = take_record(s, data + at, &t, &fresh);
        at += t.bytes;
    }
    if (rc != 0) {
        free_list(s, fresh);
        return rc;
    }
    while (fresh != NULL) {
        uvcci_stored_triple *next = fresh->next;
        fresh->next = s->stored;
        s->stored = fresh;
        fresh = next;
    }
    return 0;
}

static void info_of(const uvcc_session *s, const uvcci_instance *r, uint32_t run,
                    uvcc_triple_info *out) {
    const uvcc_op_desc *d = &r->op->desc;
    const uint32_t tensors[3] = {d->in[0], d->in[1], d->out[0]};
    assert(uvcci_beaver_of(r) != NULL);
    *out = (uvcc_triple_info){.party = s->party,
                              .run = run,
                              .step = r->step->number,
                              .entry = r->step->entry_index,
                              .ordinal = r->ordinal,
                              .maker_run = s->run,
                              .triple_id = uvcci_beaver_of(r)->triple_id,
                              .bytes = uvcci_triple_bytes(r->plan->elems)};
    memcpy(out->sid_sub, s->sid_sub, 32);
    memcpy(out->program, s->program->hash, 32);
    for (unsigned i = 0; i < 3; i++) {
        out->rows[i] = s->program->tensors[tensors[i]].desc.rows;
        out->cols[i] = s->program->tensors[tensors[i]].desc.cols;
    }
}

/* The triple is that op's, and its masks are those that it was made with: all of one maker. */
static bool fits(const uvcc_session *s, const uvcci_instance *r, const uvcci_stored_triple *t) {
    uvcc_triple_info want;
    info_of(s, r, s->run, &want);
    const uvcc_triple_info *is = &t->info;
    if (is->step != want.step || is->triple_id != want.triple_id || is->entry != want.entry ||
        is->ordinal != want.ordinal || memcmp(is->rows, want.rows, sizeof want.rows) != 0 ||
        memcmp(is->cols, want.cols, sizeof want.cols) != 0)
        return false;
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_instance *owner = &r->step->instances[r->plan->beaver.mask[k].op];
        const uvcci_stored_triple *theirs = uvcci_beaver_of(owner)->stored;
        if (owner != r && (theirs == NULL || theirs->info.maker_run != is->maker_run))
            return false;
    }
    return true;
}

void uvcci_triples_match(uvcc_session *s, uvcci_step *st) {
    for (uint32_t i = 0; i < st->entry->op_count; i++) { /* owners of masks come first */
        uvcci_instance *r = &st->instances[i];
        uvcci_stored_triple **at = &s->stored;
        while (uvcci_beaver_of(r) != NULL && *at != NULL && !fits(s, r, *at))
            at = &(*at)->next;
        if (uvcci_beaver_of(r) == NULL || *at == NULL)
            continue;
        uvcci_beaver_of(r)->stored = *at;
        *at = (*at)->next;
        uvcci_beaver_of(r)->stored->next = NULL;
    }
    for (uvcci_stored_triple **at = &s->stored; *at != NULL;) { /* no step takes these any more */
        uvcci_stored_triple *t = *at;
        if (t->info.step > st->number) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        uvcci_stored_free(s, t);
    }
}

/* ---- made for the host ---- */

int uvcci_triples_room(uvcc_session *s, uvcci_step *st) {
    if (!s->cfg.triples.only)
        return 0;
    for (uint32_t i = 0; i < st->entry->op_count; i++)
        if (uvcci_beaver_of(&st->instances[i]) != NULL)
            st->triples_bytes += uvcci_triple_bytes(st->instances[i].plan->elems);
    assert(st->triples == NULL);
    st->triples = uvcci_arena_take(&s->wire, st->triples_bytes);
    return st->triples != NULL ? 0 : UVCC_ERR_NOMEM;
}

uint8_t *uvcci_triple_record(uvcc_session *s, const uvcci_instance *r) {
    const uvcci_step *st = r->step;
    uvcc_triple_info info;
    uint8_t *at = st->triples;
    for (uint32_t i = 0; i < r->index; i++)
        if (uvcci_beaver_of(&st->instances[i]) != NULL)
            at += uvcci_triple_bytes(st->instances[i].plan->elems);
    assert(at + uvcci_triple_bytes(r->plan->elems) <= st->triples + st->triples_bytes);
    info_of(s, r, s->cfg.triples.run, &info);
    uvcci_triple_head_put(&info, at);
    for (unsigned i = 0; i < sizeof key_order / sizeof key_order[0]; i++)
        memcpy(at + UVCCI_TRIPLE_KEYS_AT + 16 * i,
               st->keys.prg[key_order[i].pair][key_order[i].tag], 16);
    return at;
}

static void free_made(uvcc_session *s) {
    uvcci_arena_give(&s->wire, s->triples_made, s->triples_made_bytes);
    s->triples_made = NULL;
    s->triples_made_bytes = 0;
}

void uvcci_triples_keep(uvcc_session *s, uvcci_step *st) {
    if (!s->cfg.triples.only)
        return;
    free_made(s);
    s->triples_made = st->triples;
    s->triples_made_bytes = st->triples_bytes;
    s->triples_made_step = st->number;
    st->triples = NULL;
    uvcci_event_push(s,
                     &(uvcc_event){.kind = UVCC_EVENT_TRIPLES, .run = s->run, .step = st->number});
}

int uvcc_session_triples(const uvcc_session *s, uint32_t *step, const uint8_t **data, size_t *len) {
    if (s == NULL || step == NULL || data == NULL || len == NULL)
        return UVCC_ERR_USAGE;
    if (s->triples_made == NULL)
        return UVCC_ERR_STATE;
    *step = s->triples_made_step;
    *data = s->triples_made;
    *len = s->triples_made_bytes;
    return 0;
}

void uvcci_triples_free(uvcc_session *s) {
    free_list(s, s->stored);
    s->stored = NULL;
    free_made(s);
}
