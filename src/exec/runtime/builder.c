/* SPDX-License-Identifier: Apache-2.0 */
/* builder.c - see builder.h. */
#include "exec/runtime/builder.h"

#include "proto/bytes.h"
#include "proto/mutant.h"
#include "proto/prg.h"
#include "proto/sort.h"
#include <assert.h>

/* ---- leaves and messages ---- */

uvcci_pending_leaf *uvcci_leaf_later(uvcci_bump *bump, uvcci_pending_leaf **list, uint8_t type) {
    assert(type != 0);
    uvcci_pending_leaf *l = uvcci_bump_take(bump, sizeof *l);
    if (l == NULL)
        return NULL;
    l->type = type;
    l->next = *list;
    *list = l;
    return l;
}

void uvcci_leaves_write(uvcc_session *s, uvcci_instance *r, uvcci_pending_leaf *list) {
    for (; list != NULL; list = list->next) {
        uint8_t leaf[UVCCI_LEAF_MAX_BYTES];
        size_t n;
        switch (list->type) {
        case UVCCI_LEAF_OPEN_DONE:
            n = uvcci_leaf_open_done(leaf, s->sid_sub, r->op_id, list->id, list->round,
                                     list->digest);
            break;
        case UVCCI_LEAF_KEYS_DONE:
            n = uvcci_leaf_keys_done(leaf, s->sid_sub, r->op_id, list->src, list->dst,
                                     list->digest);
            break;
        case UVCCI_LEAF_COMPONENT_COMMIT:
            n = uvcci_leaf_component_commit(leaf, s->sid_sub, r->op_id, list->id, list->component,
                                            list->digest);
            break;
        case UVCCI_LEAF_TRIPLE_CONSUMED:
            n = uvcci_leaf_triple_consumed(leaf, s->sid_sub, r->op_id, list->id);
            break;
        default:
            assert(list->type == UVCCI_LEAF_LIFT_DONE);
            n = uvcci_leaf_lift_done(leaf, s->sid_sub, r->op_id, list->id, list->q_count);
            break;
        }
        uvcci_leaf(s, r->step, r->row0, leaf, n);
    }
}

/* Which of a role's (at most two) outgoing buffers a flow uses. */
static unsigned out_slot(const uvcci_flow *f) {
    if (f->protocol == UVCCI_PROTO_OPEN4 && f->from == UVCCI_OTHER)
        return f->to == UVCCI_HEAD ? 0 : 1;
    if (uvcci_protocol_has_places((uvcci_protocol)f->protocol))
        return uvcci_is_second_peer(f->from, f->to);
    bool to_both = f->protocol == UVCCI_PROTO_INPUT || f->protocol == UVCCI_PROTO_CIRCUIT_HEAD;
    return to_both && f->to == UVCCI_OTHER ? 1 : 0;
}

void uvcci_batch_drop(uvcc_session *s, uvcci_batch_out *out) {
    for (uint32_t i = 0; i < out->count; i++)
        if (out->tx[i].msg != NULL)
            uvcc_link_msg_drop(s->peer[out->tx[i].dst].link, out->tx[i].msg);
    memset(out, 0, sizeof *out);
}

static int batch_fill(unsigned side, const uvcci_plan_round *round, uint8_t dst,
                      const uvcci_plan_tlv *list, uint32_t n, uint8_t *bytes, size_t len,
                      uvcci_batch_out *out) {
    uvcc_blv1_writer w;
    if (uvcc_blv1_begin(&w, bytes, len) != 0)
        return UVCC_ERR_LIMIT;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *span;
        if (uvcc_blv1_put(&w, &list[i].t, &span) != 0)
            return UVCC_ERR_LIMIT;
        const uvcci_flow *f = &uvcci_protocol_flows(
            (uvcci_protocol)round->vec[list[i].vec].protocol, &(unsigned){0})[list[i].flow];
        if (list[i].t.type == UVCC_TLV_DIGEST)
            out->digest[list[i].vec][side] = span;
        else if (list[i].t.type == UVCC_TLV_KEY_CHUNK)
            out->key_chunks[out->key_chunk_count++] = (uvcci_key_chunk){.dst = dst,
                                                                        .block = list[i].block,
                                                                        .offset = list[i].t.first,
                                                                        .len = list[i].t.count,
                                                                        .at = span};
        else if (!list[i].more)
            out->span[list[i].vec][out_slot(f)][list[i].block] = span;
    }
    return uvcc_blv1_end(&w) == (ptrdiff_t)len ? 0 : UVCC_ERR_LIMIT;
}

/* All or nothing: a turn whose round does not fit into the links now is built again later, so what
 * was taken goes back. */
int uvcci_batch_open(uvcc_session *s, uvcci_instance *r, const uvcci_plan_round *round,
                     uvcci_bump *bump, uvcci_batch_out *out) {
    const uvcci_plan *plan = r->plan;
    bool keys = round->kind == UVCC_FRAME_KEYS_BATCH;
    assert(keys == uvcci_plan_is_keys(plan, round));
    assert(round->parts != 0 && round->vec_count != 0 && round->vec_count <= UVCCI_PLAN_VECS);
    *out = (uvcci_batch_out){.round = round};
    uint32_t list_max = uvcci_plan_tlvs_max(plan, round);
    uvcci_plan_tlv *list = uvcci_bump_take(bump, list_max * sizeof *list);
    out->tx = uvcci_bump_take(bump, 2u * round->parts * sizeof *out->tx);
    if (keys)
        out->key_chunks =
            uvcci_bump_take(bump, 2u * round->parts * list_max * sizeof *out->key_chunks);
    bool ok = list != NULL && out->tx != NULL && (!keys || out->key_chunks != NULL);
    for (unsigned v = 0; ok && !keys && v < round->vec_count; v++)
        for (unsigned k = 0; k < 2; k++)
            ok = ok && (out->span[v][k] =
                            uvcci_bump_take(bump, round->blocks * sizeof(uint8_t *))) != NULL;
    if (!ok)
        return UVCC_ERR_NOMEM;
    for (uint32_t part = 0; part < round->parts; part++)
        for (unsigned side = 0; side < 2; side++) {
            uint8_t dst = side == 0 ? uvcci_next_party(s) : uvcci_prev_party(s);
            size_t len;
            uint32_t n = uvcci_plan_list(plan, &r->ids, round, part, s->party, dst, list, &len);
            if (n == 0)
                continue;
            assert(n <= list_max && out->count < 2 * round->parts);
            uvcci_tx *tx = &out->tx[out->count];
            uvcc_link *link = s->peer[dst].link;
            int rc = uvcci_room_is_left(link, round->kind, len)
                         ? uvcc_link_msg_new(link, round->kind, (uint32_t)len, &tx->msg)
                         : UVCC_ERR_AGAIN;
            if (rc == 0) {
                out->count++;
                tx->dst = dst;
                tx->b = (uint16_t)(round->b_base + part);
                tx->len = (uint32_t)len;
                rc = batch_fill(side, round, dst, list, n, uvcc_link_msg_data(tx->msg), len, out);
            }
            if (rc != 0) {
                uvcci_batch_drop(s, out);
                return rc;
            }
        }
    return 0;
}

/* The messages of a round that this turn sends. */
static const uvcci_batch_out *sent_by_turn(const uvcci_instance *r, unsigned round) {
    unsigned k = 0;
    assert(r->out != NULL); /* its messages were opened before the turn is built */
    while (k < UVCCI_TURN_ROUNDS && r->out[k].round != &r->plan->rounds[round])
        k++;
    assert(k < UVCCI_TURN_ROUNDS);
    return &r->out[k];
}

uint8_t *uvcci_sent_at(const uvcci_instance *r, unsigned round, unsigned vec, unsigned slot,
                       uint32_t block) {
    const uvcci_batch_out *out = sent_by_turn(r, round);
    assert(vec < out->round->vec_count && slot < 2 && block < out->round->blocks);
    return out->span[vec][slot][block];
}

uint8_t *uvcci_digest_at(const uvcci_instance *r, unsigned round, unsigned vec, unsigned side) {
    const uvcci_batch_out *out = sent_by_turn(r, round);
    assert(vec < out->round->vec_count && side < 2);
    return out->digest[vec][side];
}

/* ---- tasks and digests ---- */

uvcc_task *uvcci_add_task(uvcci_builder *b, uint16_t kind, uint16_t call) {
    uvcci_instance *r = b->r;
    if (b->failed || r->task_count == b->task_cap) {
        b->failed = true;
        return NULL;
    }
    uvcc_task *t = &r->tasks[r->task_count++];
    *t = (uvcc_task){.kind = kind, .ordinal = r->ordinal, .call = call, .keys = &r->step->keys};
    return t;
}

uvcc_task *uvcci_last_task(const uvcci_builder *b) {
    assert(b->r->task_count != 0);
    return &b->r->tasks[b->r->task_count - 1];
}

/* Blocks are counted before they are had, so that a task names no block that this party has nothing
 * to do with: kernels need not look at roles to skip. */
uvcc_block *uvcci_add_blocks_from(uvcci_builder *b, uint16_t kind, uint16_t call, unsigned roles,
                                  uint32_t first, uint64_t elems, uint32_t *count) {
    uvcci_instance *r = b->r;
    const uvcci_plan *plan = r->plan;
    const uint32_t all = uvcci_blocks(elems);
    *count = 0;
    uint32_t n = 0;
    for (uint32_t i = first; i < all; i++)
        n += (roles >> uvcci_role_at(b->s, r, i)) & 1u;
    if (n == 0 || b->failed)
        return NULL;
    uvcc_block *blocks = uvcci_bump_take(&r->turn_bump, n * sizeof *blocks);
    uvcc_task *t = blocks != NULL ? uvcci_add_task(b, kind, UVCCI_MUTANT(7) ? 0 : call) : NULL;
    if (t == NULL) {
        b->failed = true;
        return NULL;
    }
    for (uint32_t i = first; i < all; i++) {
        uvcci_role role = uvcci_role_at(b->s, r, i);
        if (((roles >> role) & 1u) == 0)
            continue;
        blocks[(*count)++] =
            (uvcc_block){.block = i, .count = uvcci_block_count(elems, i), .role = (uint8_t)role};
    }
    assert(*count == n);
    t->u.vec.blocks = blocks;
    t->u.vec.count = n;
    t->u.vec.shift = plan->shift;
    t->u.vec.bits = plan->bits;
    t->u.vec.lift = plan->lift;
    t->u.vec.gate = plan->gate;
    t->u.vec.compact = plan->compact;
    return blocks;
}

uvcc_block *uvcci_add_blocks(uvcci_builder *b, uint16_t kind, uint16_t call, unsigned roles,
                             uint64_t elems, uint32_t *count) {
    return uvcci_add_blocks_from(b, kind, call, roles, 0, elems, count);
}

/* Twice the room, as far as one task may have. */
static bool hashes_grow(uvcci_builder *b) {
    uvcci_hash_list *h = &b->hashes;
    const uint32_t cap = h->cap == 0 ? UVCCI_HASHES_FIRST : 2 * h->cap;
    uvcc_hash_item *items = uvcci_bump_take(&b->r->turn_bump, cap * sizeof *items);
    if (items == NULL)
        return false;
    if (h->count != 0)
        memcpy(items, h->items, h->count * sizeof *items);
    h->items = items;
    h->cap = cap;
    return true;
}

void uvcci_end_hashes(uvcci_builder *b) {
    uvcci_hash_list *h = &b->hashes;
    uvcc_task *t = h->count != 0 ? uvcci_add_task(b, UVCC_TASK_HASH, 0) : NULL;
    if (t != NULL) {
        t->u.hash.items = h->items;
        t->u.hash.count = h->count;
    }
    *h = (uvcci_hash_list){0};
}

uvcc_hash_item *uvcci_add_hash(uvcci_builder *b) {
    uvcci_hash_list *h = &b->hashes;
    if (h->count == h->cap && !hashes_grow(b))
        b->failed = true;
    return b->failed ? NULL : &h->items[h->count++];
}

/* D of the bytes under the leaf salt shared with `peer`. */
static void hash_salted(uvcci_builder *b, uint8_t peer, const void *data, size_t len,
                        uint8_t *out) {
    uvcc_hash_item *it = uvcci_add_hash(b);
    if (it == NULL)
        return;
    assert(peer < UVCC_PARTIES && peer != b->s->party);
    it->mode = UVCCI_MUTANT(8) ? UVCC_HASH_TREE : UVCC_HASH_HMAC;
    memcpy(it->key, b->r->step->salt[peer], 32);
    it->data = data;
    it->len = len;
    it->out = out;
}

uvcci_pending_leaf *uvcci_add_leaf(uvcci_builder *b, uint8_t type) {
    uvcci_pending_leaf *l = uvcci_leaf_later(&b->r->turn_bump, &b->r->leaves, type);
    if (l == NULL)
        b->failed = true;
    return l;
}

void uvcci_hash_payloads(uvcci_builder *b) {
    if (!uvcci_audit_on(b->s))
        return;
    for (unsigned k = 0; b->r->out != NULL && k < UVCCI_TURN_ROUNDS; k++)
        for (uint32_t i = 0; i < b->r->out[k].count; i++) {
            uvcci_tx *tx = &b->r->out[k].tx[i];
            hash_salted(b, tx->dst, uvcc_link_msg_data(tx->msg), tx->len, tx->digest);
        }
}

bool uvcci_end_turn(uvcci_builder *b) {
    uvcci_hash_payloads(b);
    uvcci_end_hashes(b);
    return !b->failed;
}

void uvcci_hash_opened(uvcci_builder *b, uint8_t id, uint8_t round, uint64_t elems,
                       const uint8_t *data, size_t block_stride, unsigned bits) {
    uvcci_instance *r = b->r;
    for (uint32_t i = 0; uvcci_audit_on(b->s) && i < uvcci_blocks(elems); i++) {
        uvcci_role role = uvcci_role_at(b->s, r, i);
        if (role == UVCCI_OTHER)
            continue;
        uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_OPEN_DONE);
        if (l == NULL)
            return;
        l->id = r->ids.id[id][i];
        l->round = round;
        uint8_t peer = role == UVCCI_HEAD ? uvcci_next_party(b->s) : uvcci_prev_party(b->s);
        hash_salted(b, peer, data + i * block_stride,
                    ((size_t)uvcci_block_count(elems, i) * bits + 7) / 8, l->digest);
    }
}

void uvcci_commit_key(const uvcci_instance *r, unsigned c, uint16_t call, uint32_t block,
                      uint8_t key[32]) {
    uint64_t salt[4];
    uvcci_prg_fill(&r->step->commit_key[c == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT],
                   (uvcci_prg_at){.ordinal = r->ordinal, .call = call, .block = block, .lane = 0},
                   0, salt, 4);
    memcpy(key, salt, 32);
    uvcci_wipe(salt, sizeof salt);
}

void uvcci_begin_commit(uvcc_hash_item *it) {
    static const char label[] = "COMMIT";
    it->mode = UVCC_HASH_HMAC;
    it->prefix_len = sizeof label - 1;
    memcpy(it->prefix, label, sizeof label - 1);
}

/* Of one component of one block: both holders get the same value. */
static bool commit(uvcci_builder *b, uint8_t id, uint32_t block, unsigned c, const uint64_t *data,
                   uint32_t count) {
    uvcci_instance *r = b->r;
    uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_COMPONENT_COMMIT);
    uvcc_hash_item *it = l != NULL ? uvcci_add_hash(b) : NULL;
    if (it == NULL)
        return false;
    l->id = r->ids.id[id][block];
    l->component = (uint8_t)((b->s->party + c) % 3u);
    uvcci_begin_commit(it);
    uvcci_commit_key(r, c, r->plan->id[id].call, block, it->key);
    it->data = (const uint8_t *)data;
    it->len = (size_t)count * 8;
    it->out = l->digest;
    return true;
}

void uvcci_hash_lifted(uvcci_builder *b, uint8_t id, uint64_t elems, const uvcc_shares *out) {
    for (uint32_t i = 0; uvcci_audit_on(b->s) && i < uvcci_blocks(elems); i++) {
        uint32_t count = uvcci_block_count(elems, i);
        size_t at = (size_t)i * UVCC_BLOCK_ELEMS;
        /* lo is shared with the previous party, hi with the next */
        if (!commit(b, id, i, 0, out->lo + at, count) || !commit(b, id, i, 1, out->hi + at, count))
            return;
        uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_LIFT_DONE);
        if (l == NULL)
            return;
        l->id = b->r->ids.id[id][i];
        l->q_count = count;
    }
}

/* ---- tensors and keys ---- */

/* One key stream to place: its block and sort key. */
typedef struct stream {
    uint64_t fss_id;
    uint32_t block;
    uint32_t bytes;
    uint8_t group;
} stream;

_Static_assert(sizeof(stream) == UVCCI_KEY_STREAM_BYTES, "op_memory.c counts it");

static int compare_streams(const void *a, const void *b) {
    const stream *x = a, *y = b;
    if (x->fss_id != y->fss_id)
        return x->fss_id < y->fss_id ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

const uvcci_plan_round *uvcci_keys_round(const uvcci_instance *r, unsigned group) {
    return &r->plan->rounds[r->plan->round_count + group];
}

uint32_t uvcci_keys_blocks(const uvcci_instance *r) {
    uint32_t sum = 0;
    for (unsigned g = 0; g < r->plan->key_count; g++)
        sum += uvcci_keys_round(r, g)->blocks;
    return sum;
}

size_t **uvcci_key_table(const uvcci_instance *r, uvcci_bump *bump) {
    size_t **at = uvcci_bump_take(bump, (r->plan->key_count + 1u) * sizeof *at);
    size_t *cells = uvcci_bump_take(bump, (uvcci_keys_blocks(r) + 1u) * sizeof *cells);
    if (at == NULL || cells == NULL)
        return NULL;
    for (unsigned g = 0; g < r->plan->key_count; g++) {
        at[g] = cells;
        for (uint32_t i = 0; i < uvcci_keys_round(r, g)->blocks; i++)
            *cells++ = SIZE_MAX;
    }
    return at;
}

size_t uvcci_key_offsets(const uvcci_instance *r, uint8_t dealer, uint8_t to, uvcci_bump *bump,
                         size_t base, size_t **at) {
    const uvcci_plan *plan = r->plan;
    stream *list = uvcci_bump_take(bump, (uvcci_keys_blocks(r) + 1u) * sizeof *list);
    if (list == NULL)
        return SIZE_MAX;
    uint32_t n = 0;
    for (unsigned g = 0; g < plan->key_count; g++) {
        const uvcci_plan_round *round = uvcci_keys_round(r, g);
        for (uint32_t i = 0; i < round->blocks; i++) {
            uint8_t edge = r->ids.edge[i];
            uvcci_role role = uvcci_role_of(to, edge);
            if (uvcci_role_of(dealer, edge) != UVCCI_OTHER || role == UVCCI_OTHER)
                continue;
            list[n++] = (stream){.fss_id = r->ids.id[round->vec[0].id][i],
                                 .block = i,
                                 .group = (uint8_t)g,
                                 .bytes = uvcci_plan_key_bytes(plan, round, i, (uvcc_role)role)};
        }
    }
    assert(dealer != to && n <= uvcci_keys_blocks(r));
    uvcci_sort(list, n, sizeof list[0], compare_streams);
    size_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        at[list[i].group][list[i].block] = base + total;
        total += list[i].bytes;
    }
    return total;
}

uvcc_shares *uvcci_shares_of(uvcc_session *s, uint32_t tensor) {
    return &s->buffers[s->program->tensors[tensor].buffer].shares;
}

uvcc_shares uvcci_part_of(const uvcci_builder *b, uint32_t tensor) {
    const uvcc_shares *all = uvcci_shares_of(b->s, tensor);
    const uint64_t elems = b->s->program->tensors[tensor].elems;
    const uint64_t units = b->r->plan->segments.units;
    const uint64_t at = b->r->first * (elems / units);
    assert(elems % units == 0);
    return (uvcc_shares){.lo = all->lo != NULL ? all->lo + at : NULL,
                         .hi = all->hi != NULL ? all->hi + at : NULL};
}

bool uvcci_ensure_buffer(uvcc_session *s, uint32_t tensor) {
    uint32_t owner = s->program->tensors[tensor].buffer;
    uvcci_buffer *buf = &s->buffers[owner];
    size_t bytes = uvcci_component_bytes(&s->program->tensors[owner]);
    const bool one = uvcci_components(&s->program->tensors[owner].desc) == 1;
    if (buf->shares.lo != NULL)
        return true;
    assert(buf->shares.hi == NULL && !buf->set);
    buf->shares.lo = uvcci_arena_take(&s->tensors, bytes);
    if (!one)
        buf->shares.hi = uvcci_arena_take(&s->tensors, bytes);
    if (buf->shares.lo != NULL && (one || buf->shares.hi != NULL)) {
        uvcci_transient_count(s, &buf->shares, (int64_t)bytes);
        return true;
    }
    uvcci_arena_give(&s->tensors, buf->shares.lo, bytes);
    uvcci_arena_give(&s->tensors, buf->shares.hi, bytes);
    buf->shares = (uvcc_shares){0};
    return false;
}

bool uvcci_ensure_outputs(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    for (unsigned i = 0; i < d->out_count; i++)
        if (!uvcci_ensure_buffer(b->s, d->out[i]))
            return false;
    return true;
}

bool uvcci_take_words(uvcc_session *s, uint64_t **p, uint64_t words) {
    if (*p == NULL)
        *p = uvcci_arena_take(&s->tensors, words * 8);
    return *p != NULL;
}

void uvcci_give_words(uvcc_session *s, uint64_t **p, uint64_t words) {
    uvcci_arena_give(&s->tensors, *p, words * 8);
    *p = NULL;
}

/* Copies of all key chunks that came to their places. False: no memory. */
static bool key_copies(const uvcci_instance *r, uvcci_bump *bump, uvcc_task *out) {
    uint32_t key_chunks = 0, count = 0;
    const uvcci_plan *p = r->plan;
    for (unsigned g = 0; g < p->key_count; g++)
        for (const uvcci_rx *m = r->rounds[p->round_count + g].held; m != NULL; m = m->next)
            key_chunks += uvcci_ld32(m->data + 8); /* tlv_count of a checked batch */
    uvcc_copy_item *items = uvcci_bump_take(bump, key_chunks * sizeof *items);
    if (items == NULL)
        return false;
    for (unsigned g = 0; g < p->key_count; g++) {
        const uvcci_plan_round *round = uvcci_keys_round(r, g);
        const uint64_t *ids = r->ids.id[round->vec[0].id];
        for (const uvcci_rx *m = r->rounds[p->round_count + g].held; m != NULL; m = m->next) {
            uvcc_blv1_reader rd;
            uvcc_tlv tlv;
            uvcc_blv1_reader_init(&rd, m->data, m->len);
            while (uvcc_blv1_next(&rd, &tlv) == 1) {
                uint32_t block = 0;
                while (ids[block] != tlv.id)
                    block++; /* it is there: the batch equals the plan */
                assert(block < round->blocks && count < key_chunks);
                assert(r->key_at[g][block] != SIZE_MAX);
                items[count++] = (uvcc_copy_item){.dst = r->keys + r->key_at[g][block] + tlv.first,
                                                  .src = tlv.data,
                                                  .len = tlv.data_len};
            }
        }
    }
    *out = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = items, .count = count}};
    return true;
}

static uint8_t dealer_of(const uvcc_session *s, unsigned side) {
    return side == 0 ? uvcci_next_party(s) : uvcci_prev_party(s);
}

/* Both dealers' streams lie one behind the other in one buffer, so that the hash of a dealer's is
 * over bytes that stand together, as the dealer hashed them. False: no memory. */
static bool place_keys(const uvcc_session *s, uvcci_instance *r, uvcci_bump *scratch,
                       size_t total[2]) {
    assert(r->keys == NULL && r->key_at == NULL);
    r->key_at = uvcci_key_table(r, &r->bump);
    for (unsigned side = 0; side < 2; side++) {
        total[side] = r->key_at != NULL
                          ? uvcci_key_offsets(r, dealer_of(s, side), s->party, scratch,
                                              side == 0 ? 0 : total[0], r->key_at)
                          : SIZE_MAX;
        if (total[side] == SIZE_MAX)
            return false;
    }
    return true;
}

static const uint8_t *keys_from(const uvcci_instance *r, unsigned side, const size_t total[2]) {
    return r->keys + (side == 0 ? 0 : total[0]);
}

static void fill_keys_done(const uvcc_session *s, unsigned side, uvcci_pending_leaf *l) {
    l->src = dealer_of(s, side);
    l->dst = s->party;
}

/* Keys that were gathered ahead are the turn's from now on, and of what it may take. */
bool uvcci_build_keys(uvcci_builder *b) {
    uvcc_session *s = b->s;
    uvcci_instance *r = b->r;
    size_t total[2];
    assert(r->plan->key_count != 0 && !r->gather_out);
    uvcci_gathered_done(s, r);
    if (r->key_at != NULL)
        return true;
    if (!place_keys(s, r, &r->turn_bump, total))
        return false;
    r->key_bytes = total[0] + total[1];
    if (r->key_bytes == 0)
        return true;
    r->keys = uvcci_arena_take(&s->tensors, r->key_bytes);
    if (r->keys == NULL)
        return false;
    uvcc_task copies, *t;
    if (!key_copies(r, &r->turn_bump, &copies) ||
        (t = uvcci_add_task(b, UVCC_TASK_COPY, 0)) == NULL)
        return false;
    t->u.copy = copies.u.copy;
    for (unsigned side = 0; uvcci_audit_on(s) && side < 2; side++) {
        if (total[side] == 0)
            continue;
        uvcci_pending_leaf *l = uvcci_add_leaf(b, UVCCI_LEAF_KEYS_DONE);
        if (l == NULL)
            return false;
        fill_keys_done(s, side, l);
        hash_salted(b, l->src, keys_from(r, side, total), total[side], l->digest);
    }
    return true;
}

/* The instance may be in another of its turns meanwhile, so nothing here is of the present turn:
 * not its tasks, leaves or memory. The digest is the last task, as in turns: its bytes are the
 * copies'.
 */
bool uvcci_gather_keys(uvcc_session *s, uvcci_instance *r, uint8_t *keys, size_t bytes,
                       uvcc_task **tasks, uint32_t *count) {
    enum { COPIES, HASHES, TASKS };
    uvcci_bump *bump = &r->gather_bump;
    size_t total[2];
    const bool placed = place_keys(s, r, bump, total);
    r->keys = keys;
    r->key_bytes = bytes;
    if (!placed)
        return false;
    assert(total[0] + total[1] <= bytes);
    uvcc_task *t = *tasks = uvcci_bump_take(bump, TASKS * sizeof *t);
    uvcc_hash_item *items = uvcci_bump_take(bump, 2 * sizeof *items);
    if (t == NULL || items == NULL || !key_copies(r, bump, &t[COPIES]))
        return false;
    uint32_t n = 0;
    for (unsigned side = 0; uvcci_audit_on(s) && side < 2; side++) {
        if (total[side] == 0)
            continue;
        uvcci_pending_leaf *l = uvcci_leaf_later(bump, &r->gather_leaves, UVCCI_LEAF_KEYS_DONE);
        if (l == NULL)
            return false;
        fill_keys_done(s, side, l);
        items[n] = (uvcc_hash_item){.mode = UVCC_HASH_HMAC,
                                    .data = keys_from(r, side, total),
                                    .len = total[side],
                                    .out = l->digest};
        memcpy(items[n++].key, r->step->salt[l->src], 32);
    }
    t[HASHES] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = items, .count = n}};
    *count = n != 0 ? TASKS : HASHES;
    return true;
}
