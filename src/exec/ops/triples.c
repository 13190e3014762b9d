/* SPDX-License-Identifier: Apache-2.0 */
/* triples.c - triples that the host keeps, in a session: what it was given
 * (uvcc_session_load_triples) until a step opens and its ops take them, and what it makes where it
 * makes nothing else.
 *
 * A triple that the host gave is for one (step, triple_id) of one run, or of any run after its
 * maker's. Only a step that is not open yet takes any, and a session runs no step of a run twice:
 * so no session uses a triple twice, whatever its host loads. That none is used by two sessions is
 * the stores' part, and no one store's: a step uses what all three were given, and makes
 * everything where STEP shows that they were not given the same. */
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
    const bool any = t->run == UVCC_TRIPLES_ANY_RUN && t->maker_run < s->run;
    if (t->party != s->party || memcmp(t->sid_sub, s->sid_sub, 32) != 0 ||
        memcmp(t->program, s->program->hash, 32) != 0 || (t->run != s->run && !any))
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

static void info_of(const uvcc_session *s, const uvcci_instance *r, uint32_t tile, uint32_t run,
                    uvcc_triple_info *out) {
    const uvcc_op_desc *d = &r->op->desc;
    const uint32_t tensors[3] = {d->in[0], d->in[1], d->out[0]};
    assert(uvcci_beaver_of(r) != NULL);
    *out = (uvcc_triple_info){.party = s->party,
                              .run = run,
                              .step = r->step->number,
                              .entry = r->step->entry_index,
                              .ordinal = r->ordinal,
                              .tile = tile,
                              .maker_run = s->run,
                              .triple_id = uvcci_beaver_of(r)->tile[tile].triple_id,
                              .bytes = uvcci_triple_bytes(uvcci_tile_elems(r, tile))};
    memcpy(out->sid_sub, s->sid_sub, 32);
    memcpy(out->program, s->program->hash, 32);
    for (unsigned i = 0; i < 3; i++) {
        out->rows[i] = s->program->tensors[tensors[i]].desc.rows;
        out->cols[i] = s->program->tensors[tensors[i]].desc.cols;
    }
    out->rows[2] = uvcci_tile_rows(&r->plan->beaver.tiles, out->rows[2], tile);
}

/* The triple is that of the op's tile. */
static bool fits(const uvcc_session *s, const uvcci_instance *r, uint32_t tile,
                 const uvcci_stored_triple *t) {
    uvcc_triple_info want;
    info_of(s, r, tile, s->run, &want);
    const uvcc_triple_info *is = &t->info;
    return is->step == want.step && is->triple_id == want.triple_id && is->entry == want.entry &&
           is->ordinal == want.ordinal && is->tile == want.tile &&
           memcmp(is->rows, want.rows, sizeof want.rows) == 0 &&
           memcmp(is->cols, want.cols, sizeof want.cols) == 0;
}

/* Where the list has the tile's triple, or its end. */
static uvcci_stored_triple **find(uvcc_session *s, const uvcci_instance *r, uint32_t tile) {
    uvcci_stored_triple **at = &s->stored;
    while (*at != NULL && !fits(s, r, tile, *at))
        at = &(*at)->next;
    return at;
}

/* All tiles of the product are there, of one maker, who made the masks too: they are those of other
 * ops' triples, or of its own tile 0. */
static bool found_whole(uvcc_session *s, const uvcci_instance *r) {
    const uvcci_stored_triple *first = *find(s, r, 0);
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++) {
        const uvcci_stored_triple *t = *find(s, r, tile);
        if (t == NULL || t->info.maker_run != first->info.maker_run)
            return false;
    }
    for (unsigned k = 0; k < 2; k++) {
        const uvcci_instance *owner = uvcci_instance_of(r->step, r->plan->beaver.mask[k].op);
        const uvcci_stored_triple *theirs = owner != r ? uvcci_stored_of(owner) : first;
        if (theirs == NULL || theirs->info.maker_run != first->info.maker_run)
            return false;
    }
    return true;
}

static void take_tiles(uvcc_session *s, uvcci_instance *r) {
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++) {
        uvcci_stored_triple **at = find(s, r, tile), *t = *at;
        *at = t->next;
        t->next = NULL;
        uvcci_beaver_of(r)->tile[tile].stored = t;
    }
}

/* What STEP says: of which ops triples were given, and who made them. */
static void hash_given(const uvcc_session *s, uvcci_step *st) {
    uint8_t text[13 + 32 + 4], given[8];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_sha256 h;
    bool any = false;
    uvcci_put(&w, "UVCC_GIVEN_V1", 13);
    uvcci_put(&w, s->sid_sub, 32);
    uvcci_put32(&w, st->number);
    assert(!w.bad && w.len == sizeof text);
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, text, sizeof text);
    for (uint32_t i = 0; i < st->entry->op_count; i++) {
        const uvcci_instance *r = uvcci_instance_of(st, st->entry->by_ordinal[i]);
        const uvcci_stored_triple *t = uvcci_beaver_of(r) != NULL ? uvcci_stored_of(r) : NULL;
        if (t == NULL)
            continue;
        any = true;
        uvcci_st32(given, t->info.ordinal);
        uvcci_st32(given + 4, t->info.maker_run);
        uvcci_sha256_update(&h, given, sizeof given);
    }
    if (any)
        uvcci_sha256_final(&h, st->msg.h_given);
}

void uvcci_triples_match(uvcc_session *s, uvcci_step *st) {
    for (uint32_t i = 0; i < st->entry->op_count; i++) { /* owners of masks come first */
        uvcci_instance *r = uvcci_instance_of(st, i);
        if (uvcci_beaver_of(r) != NULL && found_whole(s, r))
            take_tiles(s, r);
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
    hash_given(s, st);
}

/* A peer that agreed before us may have made one already: then it did not see the three STEPs that
 * we see. */
static void use_given(uvcc_session *s, uvcci_instance *r) {
    uvcci_beaver_of(r)->given = true;
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++) {
        uvcci_instance_round *in = &r->rounds[r->plan->beaver.triple_round + tile];
        for (unsigned side = 0; side < 2; side++) {
            if (in->seen[side] != 0)
                uvcci_abort(s, UVCC_ABORT_TRIPLE, "a peer makes a triple that was given here");
            in->need[side] = 0;
        }
    }
}

/* Returns how many it drops. */
static uint32_t drop_given(uvcc_session *s, uvcci_instance *r) {
    for (uint32_t tile = 0; tile < uvcci_tile_count(r); tile++) {
        uvcci_tile *w = &uvcci_beaver_of(r)->tile[tile];
        uvcci_stored_free(s, w->stored);
        w->stored = NULL;
    }
    return uvcci_tile_count(r);
}

void uvcci_triples_agreed(uvcc_session *s, uvcci_step *st, bool same) {
    uint32_t dropped = 0;
    for (uint32_t i = 0; i < st->entry->op_count && !uvcci_failed(s); i++) {
        uvcci_instance *r = uvcci_instance_of(st, i);
        if (uvcci_beaver_of(r) == NULL || uvcci_stored_of(r) == NULL)
            continue;
        if (same)
            use_given(s, r);
        else
            dropped += drop_given(s, r);
    }
    if (dropped != 0)
        uvcci_log(s, UVCC_LOG_WARN,
                  "party %u: the parties were not given the same triples for step %u: %u are "
                  "dropped, and made",
                  s->party, st->number, dropped);
}

/* ---- made for the host ---- */

/* Bytes of the records of an op's tiles before that one. */
static size_t records_before(const uvcci_instance *r, uint32_t tile) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < tile; i++)
        bytes += uvcci_triple_bytes(uvcci_tile_elems(r, i));
    return bytes;
}

int uvcci_triples_room(uvcc_session *s, uvcci_step *st) {
    if (!s->cfg.triples.only)
        return 0;
    for (uint32_t i = 0; i < st->entry->op_count; i++)
        if (uvcci_beaver_of(uvcci_instance_of(st, i)) != NULL)
            st->triples_bytes += records_before(uvcci_instance_of(st, i),
                                                uvcci_tile_count(uvcci_instance_of(st, i)));
    assert(st->triples == NULL);
    st->triples = uvcci_arena_take(&s->wire, st->triples_bytes);
    return st->triples != NULL ? 0 : UVCC_ERR_NOMEM;
}

uint8_t *uvcci_triple_record(uvcc_session *s, const uvcci_instance *r, uint32_t tile) {
    const uvcci_step *st = r->step;
    uvcc_triple_info info;
    uint8_t *at = st->triples + records_before(r, tile);
    for (uint32_t i = 0; i < r->index; i++)
        if (uvcci_beaver_of(uvcci_instance_of(st, i)) != NULL)
            at += records_before(uvcci_instance_of(st, i),
                                 uvcci_tile_count(uvcci_instance_of(st, i)));
    info_of(s, r, tile, s->cfg.triples.run, &info);
    assert(at + info.bytes <= st->triples + st->triples_bytes);
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
