/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - steps: the op table and keys of a step, agreement by STEP, start, end, root.
 *
 * A context is opened when this party's host agrees to the step. STEP goes out from P0 at once and
 * from the others once P0's is here, and only after step m-2 is finished and (audit on) both its
 * AUDITs are here. Agreed: both peers' STEP equal ours; keys may be dealt. Running: agreed, and the
 * step before is finished. Finished: every op done, every deal sent. */
#include "exec/session/step.h"

#include "exec/ops/dealing.h"
#include "exec/ops/triples.h"
#include "exec/runtime/prg_check.h"
#include "exec/session/bundle_store.h"
#include "exec/session/cancel.h"
#include "exec/session/checkpoint.h"
#include "exec/session/evidence.h"
#include "exec/session/instance.h"
#include "exec/session/lineage.h"
#include "exec/session/root.h"
#include "exec/session/window.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>

/* ---- opening a context ---- */

/* The chain values go on to the next step: steps are opened one after the other, each once, and
 * nothing that is kept gives the keys of this one again. */
static void derive_keys(uvcc_session *s, uvcci_step *st) {
    assert(s->hello.run == s->run && s->chain_step == st->number);
    for (unsigned pair = 0; pair < 3; pair++)
        for (unsigned tag = 0; tag < UVCC_TAG_COUNT; tag++)
            uvcci_derive_prg_key(s->chain[pair], (uvcci_tag)tag, st->number, s->run,
                                 st->keys.prg[pair][tag]);
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party)
            uvcci_derive_leaf_salt(s->chain[uvcci_side(s, p)], st->number, s->run, st->salt[p]);
    s->chain_step++;
    for (unsigned pair = 0; pair < 3; pair++)
        uvcci_ratchet(s->chain[pair], s->chain_step, s->run);
    uint8_t seed[13 + 32 + 4], h[32];
    uvcci_writer w = uvcci_writer_on(seed, sizeof seed);
    uvcci_put(&w, "UVCC_DPF_V1", 11);
    uvcci_put(&w, s->sid_sub, 32);
    uvcci_put32(&w, st->number);
    assert(!w.bad);
    uvcci_sha256_once(seed, w.len, h);
    memcpy(st->keys.dpf, h, 32);
    for (unsigned pair = 0; pair < 2; pair++)
        uvcci_aes_init(&st->commit_key[pair], st->keys.prg[pair][UVCC_TAG_salt], UVCCI_AES_AUTO);
}

/* Engines that the vectors of one id need. */
static uint32_t engines_of(const uvcci_plan *plan, uint8_t id) {
    uint32_t n = 0;
    for (unsigned i = 0; i < plan->round_count; i++) {
        const uvcci_plan_round *r = &plan->rounds[i];
        for (unsigned v = 0; v < r->vec_count; v++)
            if (r->vec[v].id == id && r->first_block + r->blocks > n)
                n = r->first_block + r->blocks;
    }
    return n;
}

/* Places that a vector's bytes come to in a block. */
static unsigned slots_of(const uvcci_plan_vec *v) {
    const bool of_both = v->protocol == UVCCI_PROTO_OPEN4 ||
                         v->protocol == UVCCI_PROTO_CIRCUIT_HEAD ||
                         uvcci_protocol_has_places((uvcci_protocol)v->protocol);
    return of_both ? 2 : 1;
}

/* A step has instances in hundreds of thousands: each takes what its plan asks for, each kind of
 * table in one piece, and one that sends nothing takes none. NULL and true: there is none. */
static bool take_table(uvcci_step *st, size_t bytes, void *table) {
    void *p = bytes != 0 ? uvcci_bump_take(&st->bump, bytes) : NULL;
    memcpy(table, &p, sizeof p);
    return bytes == 0 || p != NULL;
}

static bool id_tables(uvcci_step *st, uvcci_instance *r) {
    const uvcci_plan *plan = r->plan;
    uint64_t *words;
    size_t count = 0;
    for (unsigned k = 0; k < plan->id_count; k++)
        count += plan->id[k].per_block ? plan->id[k].blocks : 1;
    if (!take_table(st, plan->id_count * sizeof *r->ids.id, &r->ids.id) ||
        !take_table(st, count * sizeof *words, &words))
        return false;
    for (unsigned k = 0; k < plan->id_count; k++) {
        r->ids.id[k] = words;
        words += plan->id[k].per_block ? plan->id[k].blocks : 1;
    }
    return true;
}

/* The last one is of vectors that have no id. */
static bool engine_tables(uvcci_step *st, uvcci_instance *r) {
    const uvcci_plan *plan = r->plan;
    uvcci_engine *engines;
    size_t count = engines_of(plan, UVCCI_ID_TILE);
    for (unsigned k = 0; k < plan->id_count; k++)
        count += engines_of(plan, (uint8_t)k);
    if (plan->round_count == 0)
        return true;
    if (!take_table(st, (plan->id_count + 1u) * sizeof *r->engine, &r->engine) ||
        !take_table(st, count * sizeof *engines, &engines))
        return false;
    for (unsigned k = 0; k <= plan->id_count; k++) {
        const uint32_t n = engines_of(plan, k < plan->id_count ? (uint8_t)k : UVCCI_ID_TILE);
        r->engine[k] = n != 0 ? engines : NULL;
        engines += n;
    }
    return true;
}

static bool round_tables(uvcci_step *st, uvcci_instance *r) {
    const uvcci_plan *plan = r->plan;
    const unsigned rounds = (unsigned)plan->round_count + plan->key_count;
    uvcci_instance_vec *vec;
    const uint8_t **at;
    size_t vecs = 0, places = 0;
    for (unsigned i = 0; i < plan->round_count; i++)
        for (unsigned v = 0; v < plan->rounds[i].vec_count; v++) {
            vecs++;
            places += slots_of(&plan->rounds[i].vec[v]) * plan->rounds[i].blocks;
        }
    if (!take_table(st, rounds * sizeof *r->rounds, &r->rounds) ||
        !take_table(st, vecs * sizeof *vec, &vec) || !take_table(st, places * sizeof *at, &at))
        return false;
    for (unsigned i = 0; i < plan->round_count; i++) {
        r->rounds[i].vec = vec;
        for (unsigned v = 0; v < plan->rounds[i].vec_count; v++, vec++)
            for (unsigned k = 0; k < slots_of(&plan->rounds[i].vec[v]); k++) {
                vec->at[k] = at;
                at += plan->rounds[i].blocks;
            }
    }
    return true;
}

/* Memory of one instance's tables, all that it will ever need of the step's: while it runs nothing
 * here can fail any more. */
static bool instance_tables(uvcc_session *s, uvcci_step *st, uvcci_instance *r) {
    assert(r->plan->edge_blocks >= r->plan->blocks && r->engine == NULL);
    uvcci_bump_init(&r->bump, &s->alloc);
    uvcci_bump_init(&r->turn_bump, &s->alloc);
    uvcci_bump_init(&r->deal_bump, &s->alloc);
    uvcci_bump_init(&r->gather_bump, &s->alloc);
    return take_table(st, r->plan->edge_blocks, &r->ids.edge) && id_tables(st, r) &&
           engine_tables(st, r) && round_tables(st, r);
}

/* What this party will get, and fresh engines: known once the ids are. */
static void instance_expect(uvcc_session *s, uvcci_instance *r) {
    const uvcci_plan *plan = r->plan;
    const uvcci_op_way *way = plan->way;
    for (unsigned side = 0; side < 2; side++) {
        uint8_t peer = side == 0 ? uvcci_next_party(s) : uvcci_prev_party(s);
        for (unsigned i = 0; i < (unsigned)plan->round_count + plan->key_count; i++) {
            const bool given = way->given != NULL && way->given(r, i);
            for (uint32_t part = 0; !given && part < plan->rounds[i].parts; part++)
                if (uvcci_plan_any(plan, &r->ids, &plan->rounds[i], part, peer, s->party))
                    r->rounds[i].need[side] |= 1ull << part;
        }
    }
    for (unsigned i = 0; i < plan->round_count; i++)
        for (unsigned v = 0; v < plan->rounds[i].vec_count; v++) {
            const uvcci_plan_vec *pv = &plan->rounds[i].vec[v];
            for (uint32_t b = 0; pv->hop == 0 && b < plan->rounds[i].blocks; b++)
                uvcci_engine_init(&(*uvcci_engines_of(r, pv))[plan->rounds[i].first_block + b],
                                  (uvcci_protocol)pv->protocol,
                                  uvcci_role_of(s->party, r->ids.edge[b]));
        }
}

struct veto {
    uvcc_session *s;
    uvcci_step *st;
};

/* Fills the ids of an instance from a candidate op id; refuses ids that collide inside it. Rows
 * come in order, so an instance's first row fixes its ids. */
static bool veto_row(void *user, const uvcci_oprow *row) {
    struct veto *v = user;
    uint16_t b;
    uvcci_instance *r = uvcci_instance_of_row(v->st, row, &b);
    if (b != 0)
        return false;
    uvcci_plan_ids_fill(r->plan, v->s->sid_sub, v->st->number, row->op_id, &r->ids);
    return uvcci_plan_ids_collide(r->plan, &r->ids);
}

/* Ids follow from the op table, which candidates of ids may collide in; so the table is made first,
 * with a veto of ours, and what a party expects of its peers after it. */
static int build_table(uvcc_session *s, uvcci_step *st) {
    const uvcci_entry *e = st->entry;
    uint32_t rows = 0;
    for (uint32_t i = 0; i < e->op_count; i++)
        rows += uvcci_plan_rows(st->plans[i]);
    uint32_t cap = 8;
    while (cap < 2 * rows)
        cap *= 2;
    st->table.rows = uvcci_bump_take(&st->bump, rows * sizeof st->table.rows[0]);
    st->table.index = uvcci_bump_take(&st->bump, cap * sizeof st->table.index[0]);
    if (st->table.rows == NULL || st->table.index == NULL)
        return UVCC_ERR_NOMEM;
    st->table.index_cap = cap;
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint32_t b = 0; b < uvcci_plan_rows(st->plans[i]); b++)
            st->table.rows[st->table.count++] = (uvcci_oprow){.phase = e->ops[i].desc.phase,
                                                              .mb = e->ops[i].desc.mb,
                                                              .k = e->ops[i].desc.k,
                                                              .b = (uint16_t)b};
    assert(st->table.count == rows);
    struct veto v = {.s = s, .st = st};
    int rc = uvcci_optable_build(&st->table, s->sid_sub, st->number, veto_row, &v);
    if (rc != 0)
        return rc;
    uint32_t ordinal = 0;
    for (uint32_t i = 0; i < st->table.count; i++) {
        const uvcci_oprow *row = &st->table.rows[i];
        uint16_t b;
        uvcci_instance *r = uvcci_instance_of_row(st, row, &b);
        if (b != 0)
            continue;
        r->row0 = i;
        r->ordinal = ordinal++;
        r->op_id = row->op_id;
        if (r->plan->way->number != NULL)
            r->plan->way->number(s, r);
    }
    assert(ordinal == st->instance_count);
    uvcci_triples_match(s, st);
    for (uint32_t i = 0; i < st->instance_count; i++)
        instance_expect(s, &st->instances[i]);
    uvcci_optable_hash(&st->table, st->h_optable);
    return 0;
}

static void fill_step_msg(const uvcc_session *s, uvcci_step *st) {
    st->msg.step = st->number; /* h_given stands there since the table was built */
    memcpy(st->msg.h_program, s->h_program, 32);
    memcpy(st->msg.h_optable, st->h_optable, 32);
    const uint32_t count = st->entry->input_count;
    uvcci_sha256 h;
    assert(count <= UVCCI_MAX_INPUTS);
    st->msg.shape_count = (uint16_t)count;
    uvcci_shapes_begin(&h, (uint16_t)count);
    for (uint32_t i = 0; i < count; i++) {
        const uvcc_tensor_desc *t = &s->program->tensors[st->entry->inputs[i].tensor].desc;
        const uvcci_shape shape = {.id = st->entry->inputs[i].id, .rows = t->rows, .cols = t->cols};
        uvcci_shapes_put(&h, &shape);
        if (count <= UVCCI_SHAPES_MAX)
            st->msg.shapes[i] = shape;
    }
    uvcci_sha256_final(&h, st->h_shapes);
    memcpy(st->msg.h_shapes, st->h_shapes, 32);
}

/* The instances of an op, from index `first` on. */
static bool open_op(uvcc_session *s, uvcci_step *st, uint32_t op, uint32_t first) {
    const uvcci_entry *e = st->entry;
    const uvcci_plan *plan = st->plans[op];
    const uint32_t preds = e->ops[op].pred_count + uvcci_waits_to_fly(e, &e->ops[op].desc);
    st->ops[op] = (uvcci_op_run){.first = first, .preds_left = preds, .left = plan->segments.count};
    for (uint32_t i = 0; i < plan->segments.count; i++) {
        uvcci_instance *r = &st->instances[first + i];
        r->step = st;
        r->op = &e->ops[op];
        r->plan = uvcci_plan_segment(plan, i);
        r->index = op;
        r->segment = i;
        r->first = i * plan->segments.per;
        if (!instance_tables(s, st, r) ||
            (r->plan->way->open != NULL && !r->plan->way->open(st, r)))
            return false;
    }
    return true;
}

/* The stretches of program order that begin within one window, one after the other; into
 * stretch[instance]. Returns their number. */
static uint32_t cut_stretches(const uvcci_step *st, uint64_t window, uint32_t *stretch) {
    uint64_t bytes = 0;
    uint32_t at = 0;
    for (uint32_t i = 0; i < st->instance_count; i++) {
        const uint64_t work = st->instances[i].plan->work_bytes;
        if (bytes != 0 && bytes + work > window) {
            at++;
            bytes = 0;
        }
        bytes += work;
        stretch[i] = at;
    }
    return at + 1;
}

/* By stretches of a window in program order, in each by the rank of the op, segments in their
 * order: messages go out in this order, and what a peer needs first may not stand behind more than
 * its credit has room for (window.h). False: no memory. */
static bool rank_instances(uvcc_session *s, uvcci_step *st) {
    uvcci_bump scratch;
    uvcci_bump_init(&scratch, &s->alloc);
    uint32_t *stretch = uvcci_bump_take(&scratch, (st->instance_count + 1ull) * sizeof *stretch);
    uint32_t *first = uvcci_bump_take(&scratch, (st->instance_count + 2ull) * sizeof *first);
    if (stretch == NULL || first == NULL) {
        uvcci_bump_reset(&scratch);
        return false;
    }
    const uint32_t stretches = cut_stretches(st, st->entry->window, stretch);
    memset(first, 0, (stretches + 1) * sizeof first[0]);
    for (uint32_t i = 0; i < st->instance_count; i++)
        first[stretch[i] + 1]++;
    for (uint32_t i = 1; i < stretches; i++)
        first[i] += first[i - 1];
    for (uint32_t k = 0; k < st->entry->op_count; k++) {
        const uint32_t op = st->entry->by_rank[k];
        for (uint32_t i = 0; i < st->plans[op]->segments.count; i++) {
            const uint32_t instance = st->ops[op].first + i;
            const uint32_t rank = first[stretch[instance]]++;
            st->by_rank[rank] = instance;
            st->instances[instance].rank = rank;
        }
    }
    uvcci_bump_reset(&scratch);
    return true;
}

/* Everything that a step needs but messages and tensors is had here, so that agreeing to it either
 * succeeds or changes nothing. */
int uvcci_step_open(uvcc_session *s, uint32_t step, uint32_t entry) {
    uvcci_step *st = &s->ctx[step & 1];
    assert(!st->active && entry < s->program->entry_count);
    assert(step >= s->step && step - s->step < 2);
    const uvcci_entry *e = &s->program->entries[entry];
    memset(st, 0, sizeof *st);
    uvcci_bump_init(&st->bump, &s->alloc);
    st->active = true;
    st->since = s->now;
    st->number = step;
    st->entry_index = entry;
    st->entry = e;
    st->plans = s->plans[entry];
    for (uint32_t i = 0; i < e->op_count; i++)
        st->instance_count += st->plans[i]->segments.count;
    st->ready_words = (st->instance_count + 63) / 64;
    st->ops = uvcci_bump_take(&st->bump, e->op_count * sizeof st->ops[0]);
    st->instances = uvcci_bump_take(&st->bump, st->instance_count * sizeof st->instances[0]);
    st->by_rank = uvcci_bump_take(&st->bump, st->instance_count * sizeof st->by_rank[0]);
    st->ready = uvcci_bump_take(&st->bump, st->ready_words * sizeof st->ready[0]);
    st->ready_word =
        uvcci_bump_take(&st->bump, (st->ready_words + 63) / 64 * sizeof st->ready_word[0]);
    st->input = uvcci_bump_take(&st->bump, (e->input_count + 1u) * sizeof st->input[0]);
    st->output = uvcci_bump_take(&st->bump, (e->output_count + 1u) * sizeof st->output[0]);
    if (e->in_flight != 0)
        st->bwd_left = uvcci_bump_take(&st->bump, e->microbatches * sizeof st->bwd_left[0]);
    bool ok = (e->in_flight == 0 || st->bwd_left != NULL) && st->ops != NULL &&
              st->instances != NULL && st->by_rank != NULL && st->ready != NULL &&
              st->ready_word != NULL && st->input != NULL && st->output != NULL;
    for (uint32_t i = 0, first = 0; ok && i < e->op_count; i++) {
        ok = open_op(s, st, i, first);
        first += st->plans[i]->segments.count;
    }
    ok = ok && rank_instances(s, st);
    for (uint32_t i = 0; ok && i < e->output_count; i++)
        ok = !uvcci_opens_to(&e->outputs[i], s->party) ||
             (st->output[i] = uvcci_arena_take(
                  &s->wire, s->program->tensors[e->outputs[i].tensor].elems * 8)) != NULL;
    if (ok && e->in_flight != 0)
        memcpy(st->bwd_left, e->bwd_count, e->microbatches * sizeof st->bwd_left[0]);
    int rc = ok ? 0 : UVCC_ERR_NOMEM;
    if (rc == 0 && !s->cfg.checks.audit_off)
        rc = uvcci_transcript_new(&st->transcript, &s->alloc, s->cfg.limits.leaves_max);
    if (rc == 0)
        rc = uvcci_triples_room(s, st);
    if (rc == 0)
        rc = build_table(s, st);
    if (rc != 0) {
        uvcci_step_free(s, st);
        return rc;
    }
    derive_keys(s, st);
    fill_step_msg(s, st);
    return 0;
}

void uvcci_step_free(uvcc_session *s, uvcci_step *st) {
    if (!st->active)
        return;
    for (uint32_t i = 0; st->instances != NULL && i < st->instance_count; i++)
        if (st->instances[i].step != NULL)
            uvcci_instance_free(s, &st->instances[i]);
    for (uint32_t i = 0; st->input != NULL && i < st->entry->input_count; i++)
        uvcci_arena_give(&s->wire, st->input[i],
                         s->program->tensors[st->entry->inputs[i].tensor].elems * 8);
    for (uint32_t i = 0; st->output != NULL && i < st->entry->output_count; i++)
        uvcci_arena_give(&s->wire, st->output[i],
                         s->program->tensors[st->entry->outputs[i].tensor].elems * 8);
    uvcci_arena_give(&s->wire, st->triples, st->triples_bytes);
    uvcci_root_free(s, st);
    uvcci_prg_check_forget(st);
    if (st->transcript != NULL)
        uvcci_transcript_free(st->transcript);
    uvcci_bump_reset(&st->bump);
    uvcci_wipe(st, sizeof *st);
}

/* ---- agreement ---- */

/* Step m may be proposed or echoed: it is the first unfinished one or the next, and the AUDITs of
 * m-2, if this run had that step, are here. They stay in their parity's place until step m needs
 * it. STEPs go out in order, and not before public values that were set are hashed. */
static bool may_send_step(uvcc_session *s, uint32_t m) {
    if (!uvcci_lineage_known(s) || (m != s->step && !uvcci_step_of(s, s->step)->sent))
        return false;
    if (s->cfg.checks.audit_off || m - s->hello.step < 2)
        return true;
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party &&
            (!s->peer[p].audit_here[m & 1] || s->peer[p].audit[m & 1].step != m - 2))
            return false;
    return true;
}

static bool same_step(const uvcci_step_msg *a, const uvcci_step_msg *b) {
    if (a->step != b->step || a->shape_count != b->shape_count ||
        memcmp(a->lineage, b->lineage, 32) != 0 || memcmp(a->h_program, b->h_program, 32) != 0 ||
        memcmp(a->h_optable, b->h_optable, 32) != 0)
        return false;
    if (a->shape_count > UVCCI_SHAPES_MAX)
        return memcmp(a->h_shapes, b->h_shapes, 32) == 0;
    for (uint16_t i = 0; i < a->shape_count; i++)
        if (a->shapes[i].id != b->shapes[i].id || a->shapes[i].rows != b->shapes[i].rows ||
            a->shapes[i].cols != b->shapes[i].cols)
            return false;
    return true;
}

static const char *unlike(const uvcci_step_msg *a, const uvcci_step_msg *b) {
    uvcci_step_msg same = *a;
    memcpy(same.lineage, b->lineage, 32);
    return same_step(&same, b)
               ? "the parties disagree on the steps before a step, or their hosts set other public "
                 "values (uvcc_session_set_public)"
               : "the parties disagree on a step's program, op table or public shapes";
}

/* Each says in its STEP which triples it was given. */
static bool same_given(const uvcc_session *s, const uvcci_step *st) {
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party &&
            memcmp(s->peer[p].step_msg[st->number & 3].h_given, st->msg.h_given, 32) != 0)
            return UVCCI_MUTANT(44);
    return true;
}

/* A link is in the first unfinished step, but no more than one beyond what the peer has reached for
 * sure: else a peer that is two steps behind could not say what it has to (BYE, CANCEL), and would
 * not be able to read what this party says. Without AUDITs that is not known. */
static void follow(uvcc_session *s, uint8_t peer) {
    const uint64_t known = s->peer[peer].reached + 1ull;
    const bool back = !s->cfg.checks.audit_off && s->step > s->hello.step && known < s->step;
    (void)uvcc_link_set_step(s->peer[peer].link, back ? s->step - 1 : s->step);
}

static void reached(uvcc_session *s, uint8_t peer, uint32_t step) {
    if (s->peer[peer].reached < step)
        s->peer[peer].reached = step;
    follow(s, peer);
}

void uvcci_step_on_step(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len) {
    uvcci_step_msg m;
    memset(&m, 0, sizeof m);
    if (uvcci_step_decode(&m, data, len) != 0) {
        uvcci_abort(s, UVCC_ABORT_BATCH, "a STEP message is malformed");
        return;
    }
    uvcci_peer *p = &s->peer[peer];
    /* Without AUDITs nothing tells a peer that finished the running step that we did not yet. */
    uint32_t ahead = s->cfg.checks.audit_off ? 2 : 1;
    if (m.step < s->step || m.step - s->step > ahead || p->step_here[m.step & 3]) {
        uvcci_abort(s, UVCC_ABORT_STEP, "a peer's STEP is for another step, or came twice");
        return;
    }
    p->step_here[m.step & 3] = true;
    p->step_msg[m.step & 3] = m;
    if (m.step != 0)
        reached(s, peer, m.step - 1); /* it finished the step before that */
}

static void send_step(uvcc_session *s, uvcci_step *st) {
    uint8_t bytes[UVCCI_STEP_MAX_BYTES];
    uvcci_lineage_said(s, st, st->msg.lineage);
    int n = uvcci_step_encode(&st->msg, bytes, sizeof bytes);
    if (n < 0) {
        uvcci_abort(s, UVCC_ABORT_STEP, "a STEP message cannot be encoded");
        return;
    }
    st->sent = true;
    st->since = s->now;
    uvcci_send_small(s, uvcci_next_party(s), UVCC_FRAME_STEP, bytes, (uint32_t)n);
    uvcci_send_small(s, uvcci_prev_party(s), UVCC_FRAME_STEP, bytes, (uint32_t)n);
}

/* STEP of this party out, if its time has come; then agreement. P0 proposes and the others echo, so
 * that two hosts which ask for different entries disagree before any of them has begun. */
static bool advance_agreement(uvcc_session *s, uvcci_step *st) {
    assert(st->active && (st->sent || !st->agreed));
    bool any = false;
    unsigned at = st->number & 3;
    bool proposed = s->party == 0 || s->peer[0].step_here[at];
    if (!st->sent && proposed && may_send_step(s, st->number)) {
        send_step(s, st);
        if (!st->sent)
            return true;
        any = true;
    }
    if (st->sent && !st->agreed) {
        bool all = true;
        for (uint8_t p = 0; p < 3; p++) {
            if (p == s->party)
                continue;
            if (!s->peer[p].step_here[at])
                all = false;
            else if (!same_step(&st->msg, &s->peer[p].step_msg[at])) {
                uvcci_abort(s, UVCC_ABORT_STEP, unlike(&st->msg, &s->peer[p].step_msg[at]));
                return true;
            }
        }
        if (all) {
            st->agreed = any = true;
            uvcci_triples_agreed(s, st, same_given(s, st));
            for (uint8_t p = 0; p < 3; p++)
                s->peer[p].step_here[at] = false;
        }
    }
    return any;
}

static void begin_leaf(uvcc_session *s, uvcci_step *st) {
    uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
    uint16_t rst[3] = {s->cfg.place.replicas, s->cfg.place.stages, s->cfg.place.tp_ranks};
    size_t n = uvcci_leaf_step_begin(leaf, s->sid_sub, st->number, s->run, rst, s->h_program,
                                     st->h_shapes, st->h_optable);
    uvcci_leaf(s, st, UVCCI_ROW_STEP_BEGIN, leaf, n);
}

static void start_step(uvcc_session *s, uvcci_step *st) {
    assert(st->agreed && !st->running && st->number == s->step);
    st->running = true;
    st->since = s->now;
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        s->buffers[i].uses_left = st->entry->uses[i];
    begin_leaf(s, st);
    if (s->cfg.checks.sks_refused && s->cfg.checks.sks_step == st->number) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        size_t n = uvcci_leaf_sks_verdict(leaf, s->sid_sub, 0, UVCCI_SKS_OVERRIDDEN);
        uvcci_leaf(s, st, UVCCI_ROW_STEP_BEGIN, leaf, n);
        uvcci_log(s, UVCC_LOG_WARN, "party %u: step %u runs again after a check failed in it",
                  s->party, st->number);
    }
    uvcci_window_slide(st);
    uvcci_event_push(
        s, &(uvcc_event){.kind = UVCC_EVENT_STEP_STARTED, .run = s->run, .step = st->number});
}

/* ---- the end of a step ---- */

void uvcci_outputs_free(uvcc_session *s) {
    if (s->last_output == NULL)
        return;
    const uvcci_entry *e = &s->program->entries[s->last_output_entry];
    for (uint32_t i = 0; i < e->output_count; i++)
        uvcci_arena_give(&s->wire, s->last_output[i],
                         s->program->tensors[e->outputs[i].tensor].elems * 8);
    s->alloc.free(s->alloc.user, s->last_output, (e->output_count + 1u) * sizeof(int64_t *),
                  UVCC_MEM_STATE);
    s->last_output = NULL;
}

/* The opened values outlive the step's context: until the next step that opens any. */
static bool keep_outputs(uvcc_session *s, uvcci_step *st) {
    if (st->entry->output_count == 0 || s->cfg.triples.only)
        return true;
    uvcci_outputs_free(s);
    size_t bytes = (st->entry->output_count + 1u) * sizeof(int64_t *);
    s->last_output = s->alloc.alloc(s->alloc.user, bytes, UVCC_MEM_STATE);
    if (s->last_output == NULL) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory to keep outputs");
        return false;
    }
    for (uint32_t i = 0; i < st->entry->output_count; i++) {
        assert((st->output[i] != NULL) == uvcci_opens_to(&st->entry->outputs[i], s->party));
        s->last_output[i] = st->output[i];
        st->output[i] = NULL;
    }
    s->last_output_step = st->number;
    s->last_output_entry = st->entry_index;
    return true;
}

void uvcci_step_on_audit(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len) {
    uint32_t step;
    if (uvcci_evidence_on_audit(s, peer, data, len, &step))
        reached(s, peer, step + 1);
}

/* No op of it will touch a tensor again. A session that makes triples ran none. */
static bool buffers_are_free(const uvcc_session *s) {
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        if (s->buffers[i].uses_left != 0 && !s->cfg.triples.only)
            return false;
    return true;
}

/* The root of a step that is done, at once or by jobs. True if it is there. */
static bool step_rooted(uvcc_session *s, uvcci_step *st) {
    if (s->cfg.checks.audit_off)
        return true;
    int rc = 1;
    if (uvcci_transcript_count(st->transcript) > s->root_inline)
        rc = uvcci_root_advance(s, st);
    else if (uvcci_transcript_root(st->transcript, st->step_root) != 0)
        rc = UVCC_ERR_NOMEM;
    if (rc < 0)
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for the transcript's root");
    return rc == 1;
}

/* What can fail comes before what the host sees: once STEP_FINISHED (or STEP_CANCELLED, of a
 * dropped one) is out, the step is over, its outputs and its bundle are here, and the next one may
 * start. */
static void finish_step(uvcc_session *s, uvcci_step *st) {
    const bool dropped = st->dropped;
    assert((st->running || dropped) && st->number == s->step && buffers_are_free(s));
    uvcc_event e = {.kind = dropped ? UVCC_EVENT_STEP_CANCELLED : UVCC_EVENT_STEP_FINISHED,
                    .run = s->run,
                    .step = st->number};
    uint32_t number = st->number;
    uint8_t step_root[32];
    uvcci_audit_msg_t audit = {.party = s->party};
    memcpy(step_root, st->step_root, 32);
    if (!dropped && !keep_outputs(s, st))
        return;
    if (!s->cfg.checks.audit_off) {
        uvcci_evidence_sign(s, number, step_root, &audit);
        s->have_root = true;
        memcpy(s->last_root, audit.global_root, 32);
        memcpy(e.root, audit.global_root, 32);
        memcpy(e.audit_root, audit.audit_root, 32);
        memcpy(e.signature, audit.signature, 64);
        memcpy(e.step_root, step_root, 32);
    }
    if (s->cfg.checks.bundles && !uvcci_bundle_store_add(s, st, step_root, &audit)) {
        uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for a step's bundle");
        return;
    }
    s->stats.rounds += dropped ? 0 : st->depth;
    s->stats.steps_finished += !dropped;
    s->stats.steps_cancelled += dropped;
    s->stats.leaves += st->leaves;
    if (!dropped)
        uvcci_triples_keep(s, st);
    uvcci_lineage_step(s, st, dropped ? UVCCI_LINEAGE_DROPPED : UVCCI_LINEAGE_FINISHED);
    uvcci_step_free(s, st);
    s->step++;
    uvcci_cancel_passed(s);
    for (uint8_t p = 0; p < 3; p++)
        if (p != s->party)
            follow(s, p);
    uvcci_event_push(s, &e); /* the step is finished even if its AUDIT finds no memory */
    uvcci_bundle_store_early(s, number);
    if (!s->cfg.checks.audit_off)
        uvcci_evidence_send(s, &audit);
    uvcci_checkpoint_due(s);
}

/* ---- a step that all three drop ---- */

/* What its ops took of TRANSIENT memory goes back; nobody works on it any more. */
static void give_transients(uvcc_session *s) {
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        uvcci_buffer *b = &s->buffers[i];
        const uvcci_tensor *t = &s->program->tensors[i];
        b->uses_left = 0;
        if (t->desc.lifetime != UVCC_TRANSIENT || b->shares.lo == NULL)
            continue;
        const size_t bytes = uvcci_component_bytes(t);
        uvcci_transient_count(s, &b->shares, -(int64_t)bytes);
        uvcci_arena_give(&s->tensors, b->shares.lo, bytes);
        uvcci_arena_give(&s->tensors, b->shares.hi, bytes);
        b->shares = (uvcc_shares){0};
    }
}

/* Its transcript is two leaves, the same at all three: that it began, and that it was dropped. */
static void drop_step(uvcc_session *s, uvcci_step *st) {
    assert(st->dropped && st->agreed && st->number == s->step && st->root == NULL);
    if (!s->cfg.checks.audit_off) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        uvcci_transcript_free(st->transcript);
        st->transcript = NULL;
        st->leaves = 0;
        if (uvcci_transcript_new(&st->transcript, &s->alloc, s->cfg.limits.leaves_max) != 0) {
            uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory for the transcript of a dropped step");
            return;
        }
        begin_leaf(s, st);
        uvcci_leaf(s, st, UVCCI_ROW_STEP_BEGIN, leaf,
                   uvcci_leaf_step_cancelled(leaf, s->sid_sub, st->number));
        if (uvcci_failed(s) || !step_rooted(s, st))
            return;
    }
    give_transients(s);
    finish_step(s, st);
    if (!uvcci_failed(s))
        uvcci_deal_ready(s);
}

/* Agreement for both open steps, then the start of the first, which sets and checkpoints hold, and
 * its end. */
bool uvcci_step_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st != NULL)
            any |= advance_agreement(s, st);
    }
    if (uvcci_failed(s))
        return any;
    assert(uvcci_step_of(s, s->step + 1) == NULL || !uvcci_step_of(s, s->step + 1)->running);
    uvcci_sets_advance(s);
    uvcci_step *st = uvcci_step_of(s, s->step);
    if (st != NULL && st->agreed && !st->running)
        uvcci_checkpoint_first(s);
    bool hold = (uvcci_checkpoint_busy(s) && !UVCCI_MUTANT(16)) || s->sets != NULL;
    if (st == NULL)
        return any;
    if (!hold && uvcci_cancel_complete(s, st)) {
        drop_step(s, st);
        return true;
    }
    if (st->agreed && !st->running && !st->halted && !hold && uvcci_cancel_saved(s, st)) {
        start_step(s, st);
        any = true;
    }
    /* A message that nothing waits for may still be with the executor: its instance stays until
     * then. */
    if (st->running && st->instances_done == st->instance_count &&
        st->deals_sent == st->instance_count && st->hashing == 0 && !uvcci_cancel_holds(s, st) &&
        step_rooted(s, st)) {
        finish_step(s, st);
        any = true;
    }
    return any;
}
