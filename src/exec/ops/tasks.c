/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.c - see tasks.h. */
#include "exec/ops/tasks.h"

#include "exec/ops/operands.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include <assert.h>

uint8_t uvcci_piece_gap(void) {
    const uvcc_tlv t = {.type = UVCC_TLV_RESHARE_U64VEC, .bits = 64, .count = UVCC_BLOCK_ELEMS};
    return (uint8_t)(uvcc_tlv_bytes(&t) - uvcc_tlv_data_bytes(&t));
}

uvcc_task *uvcci_task_map(uvcci_builder *b, uint8_t op, uint32_t rows, uint32_t cols,
                          const uvcc_shares *x, const uvcc_shares *y, const uvcc_shares *out) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_MAP, 0);
    assert(x != NULL && out != NULL);
    if (t == NULL)
        return NULL;
    t->u.map.op = op;
    t->u.map.party = b->s->party;
    t->u.map.rows = rows;
    t->u.map.cols = cols;
    t->u.map.x = *x;
    if (y != NULL)
        t->u.map.y = *y;
    t->u.map.out = *out;
    return t;
}

bool uvcci_task_copy(uvcci_builder *b, uvcc_copy_item *items, uint32_t count) {
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_COPY, 0);
    assert(items != NULL);
    if (t == NULL)
        return false;
    t->u.copy.items = items;
    t->u.copy.count = count;
    return true;
}

/* ---- vectors that all parties send or get alike ---- */

static const uvcci_plan_round *round_of(const uvcci_builder *b, unsigned round) {
    assert(round < b->r->plan->round_count);
    return &b->r->plan->rounds[round];
}

void uvcci_task_pack(uvcci_builder *b, unsigned round, const uint64_t *x) {
    uint32_t n;
    uvcc_block *k =
        uvcci_add_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_ALL, round_of(b, round)->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_pack(&k[i], x, uvcci_sent_at(b->r, round, 0, UVCCI_FIRST, k[i].block));
    }
}

void uvcci_task_unpack(uvcci_builder *b, uint16_t call, unsigned round, uint64_t *out) {
    uint32_t n;
    uvcc_block *k =
        uvcci_add_blocks(b, UVCC_TASK_UNPACK, call, UVCCI_ROLE_ALL, round_of(b, round)->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_unpack(&k[i], uvcci_rx_at(b->r, round, 0, UVCCI_FIRST, k[i].block), out);
    }
}

void uvcci_task_open_all_finish(uvcci_builder *b, uint16_t call, unsigned round,
                                const uvcc_shares *own, uint64_t *opened) {
    uint32_t n;
    uvcc_block *k = uvcci_add_blocks(b, UVCC_TASK_OPEN_ALL_FINISH, call, UVCCI_ROLE_ALL,
                                     round_of(b, round)->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        uvcci_set_open_all_finish(&k[i], own, uvcci_rx_at(b->r, round, 0, UVCCI_FIRST, k[i].block),
                                  opened);
    }
}

/* ---- openings to all ---- */

/* The stream of a round's one vector. */
static uint64_t stream_of(const uvcci_builder *b, unsigned round) {
    return b->r->ids.id[round_of(b, round)->vec[0].id][0];
}

bool uvcci_hash_held(uvcci_builder *b, unsigned round, uint8_t src, const uint64_t *data,
                     uint8_t *out) {
    uvcc_hash_item *it = uvcci_add_hash(b);
    assert(src < UVCC_PARTIES && out != NULL);
    if (it == NULL)
        return false;
    uvcci_writer w = uvcci_writer_on(it->prefix, sizeof it->prefix);
    uvcci_put(&w, "UVCC_CHECK_V2", 13);
    uvcci_put64(&w, stream_of(b, round));
    uvcci_put8(&w, src);
    assert(!w.bad);
    it->prefix_len = (uint8_t)w.len;
    it->mode = UVCC_HASH_TREE;
    it->data = (const uint8_t *)data;
    it->len = round_of(b, round)->elems * 8;
    it->out = out;
    return true;
}

/* What is to be compared with the digest of the component's other holder, who is on that side (0:
 * the next party), and the leaf of what was opened, whose digest the item computes. */
static uvcc_hash_item *hash_opened(uvcci_builder *b, unsigned round, unsigned side,
                                   const uint64_t *c, const uint64_t *opened) {
    uvcci_instance *r = b->r;
    const uint8_t holder = side == UVCCI_NEXT ? uvcci_next_party(b->s) : uvcci_prev_party(b->s);
    uint8_t *check = uvcci_bump_take(&r->bump, 32);
    uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_OPEN_DONE);
    if (check == NULL || l == NULL || !uvcci_hash_held(b, round, holder, c, check))
        return NULL;
    uvcc_hash_item *it = uvcci_add_hash(b);
    if (it == NULL)
        return NULL;
    r->rounds[round].check = check;
    r->rounds[round].check_side = (uint8_t)side;
    l->id = stream_of(b, round);
    l->round = round_of(b, round)->vec[0].stream_round;
    it->mode = UVCC_HASH_TREE;
    it->data = (const uint8_t *)opened;
    it->len = round_of(b, round)->elems * 8;
    it->out = l->digest;
    return it;
}

bool uvcci_hash_opened_to_all(uvcci_builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened) {
    return hash_opened(b, round, UVCCI_NEXT, c, opened) != NULL;
}

/* The value is one party's alone, so neither an auditor nor another party may be able to guess it:
 * the key is made of the salts of both pairs that the receiver is in. The others have one each. */
bool uvcci_hash_opened_to_one(uvcci_builder *b, unsigned round, const uint64_t *c,
                              const uint64_t *opened) {
    uvcc_hash_item *it = hash_opened(b, round, UVCCI_PREV, c, opened);
    if (it == NULL)
        return false;
    uint8_t text[19 + 64];
    uvcci_writer w = uvcci_writer_on(text, sizeof text);
    uvcci_put(&w, "UVCC_OPEN_TO_ONE_V1", 19);
    uvcci_put(&w, b->r->step->salt[uvcci_next_party(b->s)], 32);
    uvcci_put(&w, b->r->step->salt[uvcci_prev_party(b->s)], 32);
    assert(!w.bad && w.len == sizeof text);
    it->mode = UVCC_HASH_HMAC;
    uvcci_sha256_once(text, sizeof text, it->key);
    uvcci_wipe(text, sizeof text);
    return true;
}
