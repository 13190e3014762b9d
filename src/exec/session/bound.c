/* SPDX-License-Identifier: Apache-2.0 */
/* bound.c - how much memory a session takes at most: uvcc_session_memory_bound().
 *
 * What a session takes when it is made, when it takes its program and when a step opens does not
 * depend on anything that comes later. So it is not counted again here but measured, on a session
 * that is never started. Its TENSOR and WIRE memory is not there: such a session does not touch it.
 * What is taken while steps run follows from the plans of their ops. */
#include "exec/ops/dealing.h"
#include "exec/ops/triples.h"
#include "exec/program/memory.h"
#include "exec/program/window.h"
#include "exec/runtime/builder.h"
#include "exec/runtime/op_memory.h"
#include "exec/runtime/prg_check.h"
#include "exec/session/calls.h"
#include "exec/session/config.h"
#include "exec/session/gathering.h"
#include "exec/session/root.h"
#include "exec/session/step.h"
#include "proto/link_session.h"

#include <assert.h>
#include <string.h>

enum {
    BUNDLES = 4,     /* not taken by the host: AUDITs are at most two steps late */
    SETS_OF_ALL = 3, /* checkpoints on their way in: one whose job is out, one to come, one read */
    FEED_MESSAGES = (256u << 10) / 64,
    PLACES = 16, /* of key streams that a block reads in a turn, an instruction or a deal */
};
#define BUNDLE_BYTES 4096u /* head and tail of a bundle, and more */

/* ---- a session without the memory that only jobs touch ---- */

typedef struct shadow {
    uvcc_allocator base;
} shadow;

/* Nobody may write here: it is constant. */
static const _Alignas(64) uint8_t nowhere[64];

static void *shadow_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    const shadow *w = user;
    if (cls == UVCC_MEM_TENSOR || cls == UVCC_MEM_WIRE)
        return (void *)(uintptr_t)nowhere;
    return w->base.alloc(w->base.user, bytes, cls);
}

static void shadow_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const shadow *w = user;
    if (cls != UVCC_MEM_TENSOR && cls != UVCC_MEM_WIRE)
        w->base.free(w->base.user, p, bytes, cls);
}

/* Keys are made of it that nothing is ever sealed with. */
static int shadow_random(void *user, void *out, size_t bytes) {
    (void)user;
    memset(out, 1, bytes);
    return 0;
}

/* ---- plans ---- */

/* What the ops of one entry take, of which some are at work at a time. */
typedef struct sums {
    uint64_t online, keys, messages, leaves;
    uint64_t deal, deal_most; /* TENSOR: of deals; the largest */
    uint64_t gathered;        /* TENSOR: of keys that come, were all of them gathered ahead */
    uint64_t gather_state, gather_most; /* STATE: where gathered keys lie; the largest such job */
    uint64_t stay;                      /* TENSOR, of ops whose memory stays, in both steps */
    uint64_t deal_state, ahead_state,
        scratch;             /* STATE; ahead: of ops that begin before their turn, or that stays */
    uint64_t triples, given; /* of tiles; WIRE memory of those that are given, or made for hosts */
    uint64_t made, tile;     /* TENSOR memory of C where nothing bounds it; bytes of the largest */
    uint64_t rows;
    uint64_t places; /* of key streams that are read */
} sums;

static unsigned instrs_of(const uvcci_plan *p) {
    return p->function != NULL ? p->function->instr_count : 0;
}

static uint64_t places_of(const uvcci_plan *p) {
    const uint64_t longest = p->edge_blocks > p->blocks ? p->edge_blocks : p->blocks;
    return PLACES * (longest + p->beaver.tiles.count) * (p->turns + 2u + 2u * instrs_of(p));
}

static void add_tiles(const uvcci_plan *p, sums *n) {
    n->triples += p->beaver.tiles.count;
    for (uint32_t tile = 0; tile < p->beaver.tiles.count; tile++) {
        const uint64_t bytes = 8 * p->rounds[p->beaver.triple_round + tile].elems;
        n->given += uvcci_arena_rounded(2 * bytes);
        n->made += 2 * uvcci_arena_rounded(bytes);
        n->tile = 2 * bytes > n->tile ? 2 * bytes : n->tile;
    }
}

/* So many segments of that plan. */
static void add_segments(const uvcc_program *prog, const uvcci_op *op, const uvcci_plan *p,
                         uint64_t count, sums *n) {
    const unsigned rounds = (unsigned)p->round_count + p->key_count;
    n->online += count * p->online_bytes_max;
    n->keys += count * p->key_bytes_max;
    n->messages += count * p->messages_max;
    n->leaves += count * uvcci_plan_leaves_max(p);
    n->rows += count * p->batches;
    n->places += count * places_of(p);
    if (p->key_count != 0) {
        n->deal += count * uvcci_deal_takes(p);
        n->deal_most = uvcci_deal_takes(p) > n->deal_most ? uvcci_deal_takes(p) : n->deal_most;
        const uint64_t gather = uvcci_gather_memory(p);
        n->gathered += count * uvcci_arena_rounded(p->key_bytes_max);
        n->gather_state += count * uvcci_lasting_memory(p);
        n->gather_most = gather > n->gather_most ? gather : n->gather_most;
    }
    n->deal_state += count * uvcci_deal_memory(p);
    if (p->way->tensors_stay && p->way->tensor_bytes != NULL) {
        /* of triples also for the next step, which makes them ahead */
        n->stay += (p->beaver.on ? 2 : 1) * p->way->tensor_bytes(prog, op, p);
    }
    n->ahead_state += uvcci_bump_bound(p->way->step_bytes, p->way->step_bytes != 0);
    if (p->beaver.on) {
        n->ahead_state += uvcci_op_memory(p);
        add_tiles(p, n);
    }
    for (unsigned i = 0; i < rounds; i++) {
        const uvcci_plan_round *r = &p->rounds[i];
        const uint64_t tlvs = uvcci_plan_tlvs_max(p, r) * sizeof(uvcci_plan_tlv);
        n->scratch = tlvs > n->scratch ? tlvs : n->scratch;
    }
}

static void add_op(const uvcc_program *prog, const uvcci_op *op, const uvcci_plan *p, sums *n) {
    const uint32_t last = p->segments.last != NULL;
    add_segments(prog, op, p, p->segments.count - last, n);
    if (last)
        add_segments(prog, op, p->segments.last, 1, n);
}

/* ---- entries ---- */

/* The most of all entries. */
typedef struct most {
    sums n;
    uint64_t state, wire, input, output; /* of an open step: measured */
    uint64_t tensors, ops;               /* of ops at work: TENSOR, STATE */
} most;

static void keep_most(uint64_t *to, uint64_t value) {
    *to = value > *to ? value : *to;
}

/* TENSOR and STATE memory of an instance at work, beside its op's tensors. */
typedef struct working {
    uint64_t tensor, state;
} working;

static working work_of(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    const uvcci_op_way *way = plan->way;
    working w = {.state = plan->beaver.on ? 0 : uvcci_op_memory(plan)};
    w.tensor = plan->key_count != 0 ? uvcci_arena_rounded(plan->key_bytes_max) : 0;
    if (way->tensor_bytes != NULL && !way->tensors_stay)
        w.tensor += way->tensor_bytes(p, op, plan);
    return w;
}

/* Of all its segments. */
static working work_of_op(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    const working each = work_of(p, op, plan);
    const working last = work_of(p, op, uvcci_plan_segment(plan, plan->segments.count - 1));
    const uint64_t others = plan->segments.count - 1;
    return (working){.tensor = others * each.tensor + last.tensor,
                     .state = others * each.state + last.state};
}

/* What is at work in a window (program/window.h), and buffers that live while it is. */
typedef struct in_window {
    const uvcc_program *p;
    const uvcci_entry *e;
    working now, most;
    uint32_t first, last;    /* op with which the window begins; that came last */
    uint64_t *begun, *ended; /* [op]: bytes of buffers first written by it and ops before it; of
                                which it is the last to touch them, or one before it is */
    uint64_t tensors;        /* most that live */
} in_window;

static void look_at_window(in_window *w) {
    const uint64_t ended = w->first != 0 ? w->ended[w->first - 1] : 0;
    keep_most(&w->most.tensor, w->now.tensor);
    keep_most(&w->most.state, w->now.state);
    keep_most(&w->tensors, w->begun[w->last] - ended);
}

static void enter_window(void *user, uint32_t op, const uvcci_plan *plan) {
    in_window *w = user;
    const working work = work_of(w->p, &w->e->ops[op], plan);
    w->now.tensor += work.tensor;
    w->now.state += work.state;
    w->last = op;
    look_at_window(w);
}

/* An op whose segments are not all done is still there. */
static void leave_window(void *user, uint32_t op, const uvcci_plan *plan) {
    in_window *w = user;
    const working work = work_of(w->p, &w->e->ops[op], plan);
    w->now.tensor -= work.tensor;
    w->now.state -= work.state;
    w->first = op;
}

/* Buffers by the first and the last op that touches them. `last`: room for a word per tensor. */
static void count_lives(in_window *w, uint32_t *last) {
    const uvcci_entry *e = w->e;
    for (uint32_t i = 0; i < e->op_count; i++)
        for (uint32_t k = 0; k < e->ops[i].touched_count; k++)
            last[e->ops[i].touched[k]] = i;
    for (uint32_t b = 0; b < w->p->tensor_count; b++) {
        const uvcci_tensor *t = &w->p->tensors[b];
        if (t->buffer != b || t->desc.lifetime != UVCC_TRANSIENT ||
            e->life[b].first_write == UVCCI_NO_OP)
            continue;
        w->begun[e->life[b].first_write] += uvcci_buffer_rounded(w->p, b);
        w->ended[last[b]] += uvcci_buffer_rounded(w->p, b);
    }
    for (uint32_t i = 1; i < e->op_count; i++) {
        w->begun[i] += w->begun[i - 1];
        w->ended[i] += w->ended[i - 1];
    }
}

/* Instances that can be at work together, and tensors that can live together: no more than in a
 * window, no more than dependencies allow. */
static int at_work(const uvcc_program *p, const uvcci_entry *e, const uvcci_plan **plans, most *m) {
    const size_t bytes =
        (size_t)e->op_count * 2 * sizeof(uint64_t) + (size_t)p->tensor_count * sizeof(uint32_t);
    uint64_t *mem = p->alloc.alloc(p->alloc.user, bytes, UVCC_MEM_STATE), sum = 0;
    if (mem == NULL)
        return UVCC_ERR_NOMEM;
    memset(mem, 0, bytes);
    in_window w = {.p = p, .e = e, .begun = mem, .ended = mem + e->op_count};
    count_lives(&w, (uint32_t *)(mem + 2 * (size_t)e->op_count));
    uvcci_window_ranges(
        plans, e->op_count, e->window,
        &(uvcci_window_walk){.enter = enter_window, .leave = leave_window, .user = &w});
    uint64_t *tensor = mem, *state = mem + e->op_count; /* of the tables nothing is needed */
    for (uint32_t i = 0; i < e->op_count; i++) {
        const working all = work_of_op(p, &e->ops[i], plans[i]);
        tensor[i] = all.tensor;
        state[i] = all.state;
    }
    int rc = uvcci_memory_bound_with(p, e, tensor, UVCCI_MEMORY_TENSORS_ROUNDED, &sum);
    uint64_t tensors = w.tensors + w.most.tensor;
    tensors = sum < tensors ? sum : tensors;
    if (rc == 0)
        rc = uvcci_memory_bound_with(p, e, NULL, UVCCI_MEMORY_TENSORS_ROUNDED, &sum);
    sum += w.most.tensor;
    keep_most(&m->tensors, sum < tensors ? sum : tensors);
    if (rc == 0)
        rc = uvcci_memory_bound_with(p, e, state, UVCCI_MEMORY_NO_TENSORS, &sum);
    keep_most(&m->ops, sum < w.most.state ? sum : w.most.state);
    p->alloc.free(p->alloc.user, mem, bytes, UVCC_MEM_STATE);
    return rc;
}

static uint64_t io_bytes(const uvcc_program *p, const uvcc_io_desc *io, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++)
        bytes += uvcci_arena_rounded(p->tensors[io[i].tensor].elems * 8);
    return bytes;
}

/* Opens step 0 of the entry and looks at what that took. */
static int measure_entry(uvcc_session *s, uint32_t entry, most *m) {
    const uvcci_entry *e = &s->program->entries[entry];
    const uvcci_plan **plans = s->plans[entry];
    const uint64_t state = s->meter.by_class[UVCC_MEM_STATE], wire = s->wire.used_bytes;
    s->chain_step = 0;
    int rc = uvcci_step_open(s, 0, entry);
    if (rc != 0)
        return rc;
    keep_most(&m->state, s->meter.by_class[UVCC_MEM_STATE] - state);
    keep_most(&m->wire, s->wire.used_bytes - wire);
    uvcci_step_free(s, &s->ctx[0]);
    uvcci_arena_drain(&s->wire);
    sums n = {0};
    for (uint32_t i = 0; i < e->op_count; i++)
        add_op(s->program, &e->ops[i], plans[i], &n);
    uint64_t *to = (uint64_t *)&m->n, *from = (uint64_t *)&n;
    for (size_t i = 0; i < sizeof n / sizeof *to; i++)
        keep_most(&to[i], from[i]);
    keep_most(&m->input, io_bytes(s->program, e->inputs, e->input_count));
    keep_most(&m->output, io_bytes(s->program, e->outputs, e->output_count));
    return s->cfg.triples.only ? 0 : at_work(s->program, e, plans, m);
}

/* ---- the sum ---- */

static void add(uvcc_memory_bound *out, uvcc_memory_term term, uvcc_mem_class cls, uint64_t bytes) {
    out->bytes += bytes;
    out->by_class[cls] += bytes;
    out->term[term] += bytes;
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void add_links(const uvcc_session *s, const most *m, uvcc_memory_bound *out) {
    const uvcc_link *l = s->peer[uvcci_next_party(s)].link;
    const uvcc_link_config *c = uvcci_link_config_of(l);
    const uint64_t messages = 2 * m->n.messages + 64;
    const uvcci_link_use use = {.tx_messages = messages,
                                .rx_messages = messages + c->rx_messages_max + FEED_MESSAGES,
                                .tx_bytes = 2 * m->n.online + 2 * UVCCI_SMALL_ROOM +
                                            least(2 * m->n.keys, c->tx_keys_bytes)};
    uint64_t by_class[4];
    uvcci_link_bound(l, &use, by_class);
    for (unsigned cls = 0; cls < 4; cls++)
        add(out, UVCC_MEMORY_LINKS, (uvcc_mem_class)cls, 2 * by_class[cls]);
}

/* Leaves are those of the plans and, of an abort, a few more. */
static void add_evidence(const uvcc_session *s, const most *m, uvcc_memory_bound *out) {
    const uint64_t leaves = least(m->n.leaves + 64, s->cfg.limits.leaves_max);
    if (!uvcci_audit_on(s))
        return;
    uint64_t bytes = 2 * uvcci_transcript_bound(leaves) + uvcci_root_bound(leaves);
    if (s->cfg.checks.bundles)
        bytes += BUNDLES * (BUNDLE_BYTES + m->n.rows * 64 + leaves * (UVCCI_LEAF_MAX_BYTES + 8));
    add(out, UVCC_MEMORY_EVIDENCE, UVCC_MEM_STATE, bytes);
}

/* C of the tiles that are made and not used, in two steps: as many as limits say, or one. The arena
 * rounds up by a quarter at most, but to 256 bytes. */
static uint64_t triples_of(const uvcc_session *s, const most *m) {
    const uint64_t ahead = s->cfg.limits.triples_ahead_bytes;
    const uint64_t held = ahead > m->n.tile ? ahead : m->n.tile;
    if (held > 2 * m->n.made)
        return 2 * m->n.made;
    return least(2 * m->n.made, held + held / 4 + 2 * m->n.triples * 512);
}

/* Keys are dealt ahead as far as dealing.h says. */
static uint64_t tensors_of(const uvcc_session *s, const most *m) {
    const uint64_t room = uvcci_deal_room(s);
    const uint64_t dealt = least(2 * m->n.deal, room > m->n.deal_most ? room : m->n.deal_most);
    return s->tensors.used_bytes + m->tensors + dealt + m->n.stay + triples_of(s, m) +
           least(2 * m->n.gathered, s->cfg.limits.keys_gathered_bytes);
}

/* Of the jobs that gather keys ahead, and of what stays of an instance until it is at work. */
static uint64_t gathers_of(const uvcc_session *s, const most *m) {
    return s->cfg.limits.keys_gathered_bytes != 0
               ? 2 * m->n.gather_state + UVCCI_GATHERS_OUT * m->n.gather_most
               : 0;
}

static uint64_t values_of(const uvcc_session *s, const most *m) {
    uint64_t set = 0, read = 0;
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        if (s->program->tensors[i].buffer == i &&
            s->program->tensors[i].desc.lifetime == UVCC_PERSIST) {
            const uint64_t bytes =
                uvcci_arena_rounded(16 * uvcci_component_words(&s->program->tensors[i]));
            set += bytes;
            keep_most(&read, bytes);
        }
    set += read + SETS_OF_ALL * uvcci_arena_rounded(s->checkpoint.bytes);
    return s->wire.used_bytes + set + 3 * m->wire + 2 * m->input + m->output + 2 * m->n.given;
}

static void add_checks(const uvcc_session *s, const most *m, uvcc_memory_bound *out) {
    if (s->cfg.checks.prg_uses != 0)
        add(out, UVCC_MEMORY_STEPS, UVCC_MEM_STATE, 2 * uvcci_prg_check_bound(m->n.places));
}

static void add_arenas(const uvcc_session *s, const most *m, uvcc_memory_bound *out) {
    uint64_t records, of_values;
    uint64_t tensors = uvcci_arena_bound(tensors_of(s, m), &records);
    const uint64_t values = uvcci_arena_bound(values_of(s, m), &of_values);
    if (s->cfg.limits.tensor_bytes != 0)
        tensors = least(tensors, s->cfg.limits.tensor_bytes);
    add(out, UVCC_MEMORY_TENSORS, UVCC_MEM_TENSOR, tensors);
    add(out, UVCC_MEMORY_VALUES, UVCC_MEM_WIRE, values);
    add(out, UVCC_MEMORY_ARENAS, UVCC_MEM_STATE, records + of_values);
}

/* Of a session that holds what it takes with its program, and nothing more. */
static int bound(uvcc_session *s, const uvcc_config *cfg, uvcc_memory_bound *out) {
    const uint64_t *held = s->meter.by_class;
    const bool recorded = cfg->record.write != NULL;
    uint64_t count = 0;
    most m = {0};
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        count += s->program->tensors[i].desc.lifetime == UVCC_PERSIST;
    add(out, UVCC_MEMORY_SESSION, UVCC_MEM_STATE,
        held[UVCC_MEM_STATE] + (count + 1) * (sizeof(uvcci_set) + 2 * sizeof(uvcc_copy_item) + 32) +
            SETS_OF_ALL *
                (sizeof(uvcci_set) + (s->checkpoint.item_count + 2u) * sizeof(uvcc_copy_item)));
    add(out, UVCC_MEMORY_SESSION, UVCC_MEM_SECRET,
        held[UVCC_MEM_SECRET] + sizeof *s + (recorded ? uvcci_recording_bytes() : 0));
    int rc = 0;
    for (uint32_t e = 0; rc == 0 && e < s->program->entry_count; e++)
        rc = measure_entry(s, e, &m);
    if (rc != 0)
        return rc;
    add_links(s, &m, out);
    const uint64_t records = 4 * m.n.messages * sizeof(uvcci_rx);
    add(out, UVCC_MEMORY_STEPS, UVCC_MEM_STATE,
        2 * m.state + records + (m.output / 256 + 2) * sizeof(int64_t *));
    add_evidence(s, &m, out);
    add_checks(s, &m, out);
    add(out, UVCC_MEMORY_OPS, UVCC_MEM_STATE,
        m.ops + 2 * (m.n.deal_state + m.n.ahead_state) + gathers_of(s, &m) +
            uvcci_bump_bound(m.n.scratch, m.n.scratch != 0));
    add(out, UVCC_MEMORY_OPS, UVCC_MEM_SECRET, 2 * m.n.triples * sizeof(uvcci_stored_triple));
    add_arenas(s, &m, out);
    return 0;
}

int uvcc_session_memory_bound(const uvcc_config *cfg, const uvcc_program *p,
                              uvcc_memory_bound *out) {
    int rc = p == NULL || out == NULL ? UVCC_ERR_USAGE : uvcci_config_check(cfg);
    if (rc != 0)
        return rc;
    shadow w = {.base = cfg->alloc};
    uvcc_config c;
    memset(&c, 0, sizeof c);
    memcpy(&c, cfg, cfg->size);
    c.alloc = (uvcc_allocator){.alloc = shadow_alloc, .free = shadow_free, .user = &w};
    c.random.fill = shadow_random;
    c.record = (uvcc_recorder){0};
    c.trace = (uvcc_tracer){0};
    c.names = (uvcc_config_names){0};
    uvcc_session *s = NULL;
    rc = uvcc_session_new(&s, &c);
    uvcci_wipe(&c, sizeof c);
    if (rc != 0)
        return rc;
    uvcc_memory_bound all = {0};
    rc = uvcc_session_load_program(s, p);
    if (rc == 0)
        rc = bound(s, cfg, &all);
    uvcc_session_free(s);
    if (rc == 0)
        *out = all;
    return rc;
}
