/* SPDX-License-Identifier: Apache-2.0 */
/* receive.c - a batch that came: whose it is, whether it is exactly what the plan says, and what
 * the op gets of it.
 *
 * Everything is checked before anything is kept: a batch that is refused leaves the instance as it
 * was, but for engines of a session that aborts. */
#include "exec/session/receive.h"

#include "exec/runtime/builder.h"
#include "exec/session/instance.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include <assert.h>

/* A batch with its place in the plan. */
typedef struct incoming {
    uvcci_instance *r;
    const uvcci_plan_round *round;
    uvcci_instance_round *in;
    uint32_t part;
    uint16_t b;
    uint8_t peer;
    unsigned side;
    bool keys;
} incoming;

static unsigned round_index(const incoming *c) {
    return (unsigned)(c->round - c->r->plan->rounds);
}

static uint64_t part_bit(const incoming *c) {
    assert(c->part < UVCCI_PLAN_PARTS);
    return 1ull << c->part;
}

/* The op and the round that its op id and number mean. */
static uint16_t find(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m, incoming *c) {
    uvcci_step *st = uvcci_step_of(s, m->step);
    const uvcci_oprow *row = st != NULL ? uvcci_optable_find(&st->table, m->op_id) : NULL;
    if (row == NULL)
        return UVCC_ABORT_UNKNOWN_OP;
    *c = (incoming){.peer = peer, .side = uvcci_side(s, peer)};
    c->r = uvcci_instance_of_row(st, row, &c->b);
    c->round = uvcci_plan_find(c->r->plan, m->kind, c->b, &c->part);
    if (c->round == NULL)
        return UVCC_ABORT_PLAN;
    assert(round_index(c) < (unsigned)c->r->plan->round_count + c->r->plan->key_count);
    c->in = &c->r->rounds[round_index(c)];
    c->keys = uvcci_plan_is_keys(c->r->plan, c->round);
    return UVCC_ABORT_NONE;
}

/* Whether it may come at all, once, now. */
static uint16_t admit(const incoming *c, const uvcc_link_rx *m) {
    const uvcci_op_way *way = c->r->plan->way;
    if (way->given != NULL && way->given(c->r, round_index(c)))
        return UVCC_ABORT_TRIPLE;
    /* Online messages of an op that is done: of one that was left out, or of a session that makes
     * triples only. */
    if (!c->keys && c->r->turn == UVCCI_TURN_DONE)
        return UVCC_ABORT_PLAN;
    if ((c->in->need[c->side] & part_bit(c)) == 0 || (c->in->seen[c->side] & part_bit(c)) != 0 ||
        (way->refuses != NULL && way->refuses(c->r, round_index(c))))
        return UVCC_ABORT_PLAN;
    return uvcc_blv1_check(m->data, m->len, NULL) < 0 ? UVCC_ABORT_BATCH : UVCC_ABORT_NONE;
}

/* Which of a role's (at most two) incoming buffers a flow uses. */
static unsigned in_slot(const uvcci_flow *f) {
    if (f->protocol == UVCCI_PROTO_CIRCUIT_HEAD)
        return f->from == UVCCI_TAIL ? UVCCI_SECOND : UVCCI_FIRST;
    if (uvcci_protocol_has_places((uvcci_protocol)f->protocol))
        return uvcci_is_second_peer(f->to, f->from);
    return f->protocol == UVCCI_PROTO_OPEN4 && f->from == UVCCI_OTHER ? UVCCI_SECOND : UVCCI_FIRST;
}

static bool same_tlv(const uvcc_tlv *is, const uvcc_tlv *want) {
    return is->type == want->type && is->id == want->id && is->aux == want->aux &&
           is->round == want->round && is->bits == want->bits && is->first == want->first &&
           is->count == want->count;
}

/* A TLV that the plan has: where its bytes stand, and the engines of its blocks. Key streams have
 * no engines: they are complete when all their batches are. */
static uint16_t take_tlv(const incoming *c, const uvcci_plan_tlv *planned, const uvcc_tlv *t) {
    uvcci_instance *r = c->r;
    const uvcci_plan_vec *v = &c->round->vec[planned->vec];
    const uvcci_flow *f =
        &uvcci_protocol_flows((uvcci_protocol)v->protocol, &(unsigned){0})[planned->flow];
    const bool digest = t->type == UVCC_TLV_DIGEST;
    assert(planned->vec < c->round->vec_count && planned->block < c->round->blocks);
    if (planned->more || c->keys)
        return UVCC_ABORT_NONE;
    if (digest)
        c->in->vec[planned->vec].digest[c->side] = t->data;
    else
        c->in->vec[planned->vec].at[in_slot(f)][planned->block] = t->data;
    /* A digest speaks of the whole stream, so of every block. */
    const uint32_t first = digest ? 0 : planned->block;
    const uint32_t end = digest ? c->round->blocks : planned->block + 1;
    for (uint32_t k = first; k < end; k++)
        if (uvcci_engine_receive(&(*uvcci_engines_of(r, v))[c->round->first_block + k],
                                 uvcci_role_of(c->peer, r->ids.edge[k]), f->hop, t->type) != 0)
            return UVCC_ABORT_PLAN;
    return UVCC_ABORT_NONE;
}

/* The batch is, TLV by TLV, what the plan lists. */
static uint16_t match(const uvcc_session *s, const incoming *c, const uvcc_link_rx *m,
                      uvcci_plan_tlv *list) {
    size_t bytes;
    const uint32_t n =
        uvcci_plan_list(c->r->plan, &c->r->ids, c->round, c->part, c->peer, s->party, list, &bytes);
    uvcc_blv1_reader rd;
    uvcc_tlv t;
    uint32_t i = 0;
    uint16_t reason = bytes == m->len ? UVCC_ABORT_NONE : UVCC_ABORT_PLAN;
    assert(n != 0 && n <= uvcci_plan_tlvs_max(c->r->plan, c->round));
    uvcc_blv1_reader_init(&rd, m->data, m->len);
    while (reason == UVCC_ABORT_NONE && uvcc_blv1_next(&rd, &t) == 1) {
        if (i == n || !same_tlv(&t, &list[i].t))
            return UVCC_ABORT_PLAN;
        reason = take_tlv(c, &list[i++], &t);
    }
    return reason == UVCC_ABORT_NONE && i != n ? UVCC_ABORT_PLAN : reason;
}

/* What is kept of the message until its round is released. */
static uvcci_rx *keep(uvcc_session *s, const incoming *c, const uvcc_link_rx *m) {
    uvcci_rx *rx = s->alloc.alloc(s->alloc.user, sizeof *rx, UVCC_MEM_STATE);
    if (rx == NULL)
        return NULL;
    *rx = (uvcci_rx){.instance = c->r,
                     .round = c->round,
                     .part = c->part,
                     .b = c->b,
                     .peer = c->peer,
                     .data = m->data,
                     .len = m->len,
                     .msg_id = m->msg_ids[0],
                     .token = m->token};
    return rx;
}

/* Its leaf needs a digest, which a job computes before the message is accepted. */
static void queue_hash(uvcc_session *s, uvcci_rx *rx) {
    assert(rx->peer < UVCC_PARTIES && rx->peer != s->party);
    rx->item = (uvcc_hash_item){
        .mode = UVCC_HASH_HMAC, .stays = true, .data = rx->data, .len = rx->len, .out = rx->digest};
    memcpy(rx->item.key, rx->instance->step->salt[rx->peer], 32);
    rx->task = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &rx->item, .count = 1}};
    rx->instance->step->hashing++;
    uvcci_rx_queue_put(&s->rx_pending, rx);
}

uint16_t uvcci_op_receive(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m) {
    incoming c;
    uvcci_bump scratch;
    uint16_t reason = find(s, peer, m, &c);
    if (reason == UVCC_ABORT_NONE)
        reason = admit(&c, m);
    if (reason != UVCC_ABORT_NONE)
        return reason;
    uvcci_bump_init(&scratch, &s->alloc);
    uvcci_plan_tlv *list =
        uvcci_bump_take(&scratch, uvcci_plan_tlvs_max(c.r->plan, c.round) * sizeof *list);
    uvcci_rx *rx = keep(s, &c, m);
    reason = list == NULL || rx == NULL ? UVCC_ABORT_MEMORY : match(s, &c, m, list);
    uvcci_bump_reset(&scratch);
    if (reason != UVCC_ABORT_NONE) {
        if (rx != NULL)
            s->alloc.free(s->alloc.user, rx, sizeof *rx, UVCC_MEM_STATE);
        return reason;
    }
    c.in->seen[c.side] |= part_bit(&c);
    if (c.keys || !uvcci_audit_on(s))
        uvcci_op_rx_hashed(s, rx);
    else
        queue_hash(s, rx);
    return UVCC_ABORT_NONE;
}

void uvcci_op_rx_hashed(uvcc_session *s, uvcci_rx *rx) {
    uvcci_instance *r = rx->instance;
    const incoming c = {.r = r, .round = rx->round, .part = rx->part};
    uvcci_instance_round *in = &r->rounds[round_index(&c)];
    const unsigned side = uvcci_side(s, rx->peer);
    assert((in->seen[side] & part_bit(&c)) != 0 && (in->got[side] & part_bit(&c)) == 0);
    if (!uvcci_plan_is_keys(r->plan, rx->round) && uvcci_audit_on(s) && !UVCCI_MUTANT(12)) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        uint32_t row = r->row0 + rx->b;
        size_t n = uvcci_leaf_batch(leaf, (uint8_t)(uvcci_sent_leaf(rx->round->kind) + 1),
                                    s->sid_sub, r->step->table.rows[row].op_id, rx->peer, s->party,
                                    rx->msg_id, rx->digest);
        uvcci_leaf(s, r->step, row, leaf, n);
    }
    rx->next = in->held;
    in->held = rx;
    int rc = uvcc_link_accept(s->peer[rx->peer].link, rx->token, s->now);
    assert(rc == 0);
    (void)rc;
    in->got[side] |= part_bit(&c);
    uvcci_instance_wake(r);
}
