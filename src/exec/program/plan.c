/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - what a plan says: sizes of keys and messages, ids, the TLVs of a message; see plan.h. */
#include "exec/program/plan.h"
#include "exec/program/op_way.h"

#include "proto/bytes.h"
#include "proto/sort.h"
#include <assert.h>
#include <uvcc/frame.h>

static uint32_t key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count,
                          uvcc_role role) {
    assert(plan->way->key_bytes != NULL); /* else it has no rounds of keys */
    return plan->way->key_bytes(plan, r, count, role);
}

uint32_t uvcci_plan_key_bytes(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t block,
                              uvcc_role role) {
    return key_bytes(plan, r, uvcci_block_count(r->elems, block), role);
}

/* ---- rounds and their parts ---- */

/* Words of the longest message of a block, where the way says how many it has. */
static uint32_t message_words_max(const uvcci_plan *plan, const uvcci_plan_round *r,
                                  uint32_t count) {
    uint32_t most = 0;
    for (unsigned i = 0; i < UVCC_PARTIES * UVCC_PARTIES; i++) {
        uint32_t words = plan->way->message_words(plan, r, (uvcc_role)(i / UVCC_PARTIES),
                                                  (uvcc_role)(i % UVCC_PARTIES), count);
        most = words > most ? words : most;
    }
    return most;
}

static uint32_t pieces_max(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t count) {
    const uint32_t piece = plan->way->piece_words(plan, r, count);
    assert(piece != 0);
    return (message_words_max(plan, r, count) + piece - 1) / piece;
}

/* Bytes that a key stream takes in messages, at most. */
static uint64_t stream_bytes_max(uint64_t bytes) {
    return bytes + 24 * (bytes / UVCC_KEY_CHUNK_BYTES + 2);
}

uint64_t uvcci_plan_part_room(uint64_t per_block, unsigned vectors) {
    return (UVCC_PART_BYTES - UVCC_BLV1_HEADER_BYTES - vectors * UVCCI_DIGEST_TLV_BYTES) /
           per_block;
}

bool uvcci_plan_keys_fit(uint64_t bytes) {
    return uvcci_plan_part_room(stream_bytes_max(bytes), 1) != 0;
}

uint64_t uvcci_plan_block_bytes_max(const uvcci_plan *plan, const uvcci_plan_round *r,
                                    uint32_t block) {
    const uint32_t count = uvcci_block_count(r->elems, block);
    uint64_t sum = 0;
    if (plan->way->message_words != NULL)
        return message_words_max(plan, r, count) * 8ull + pieces_max(plan, r, count) * 24ull;
    for (unsigned v = 0; v < r->vec_count; v++) {
        if (r->vec[v].protocol == UVCCI_PROTO_KEYS) {
            sum += stream_bytes_max(key_bytes(plan, r, count, UVCC_TAIL));
        } else if (r->vec[v].protocol == UVCCI_PROTO_DIGEST_ALL) {
            sum += UVCCI_DIGEST_TLV_BYTES;
        } else {
            sum += ((uint64_t)count * r->vec[v].bits + 7) / 8 + 32;
        }
    }
    return sum;
}

/* A leaf for each message, sent or received; of a vector's block that it is opened, or both
 * commitments and that it is lifted; of keys from and for each peer; of a triple. */
uint64_t uvcci_plan_leaves_max(const uvcci_plan *p) {
    uint64_t n = 4ull * p->messages_max + 8;
    for (unsigned k = 0; k < p->id_count; k++)
        n += 4ull * p->id[k].blocks;
    return n + 4ull * p->edge_blocks + p->beaver.tiles.count;
}

void uvcci_plan_free(uvcci_plan *plan, const uvcc_allocator *al) {
    if (plan->segments.last != NULL) {
        uvcci_plan_free(plan->segments.last, al);
        al->free(al->user, plan->segments.last, sizeof *plan, UVCC_MEM_STATE);
    }
    if (plan->mem != NULL)
        al->free(al->user, plan->mem, plan->mem_bytes, UVCC_MEM_STATE);
    plan->mem = NULL;
    plan->segments.last = NULL;
}

/* ---- ids ---- */

void uvcci_plan_ids_fill(const uvcci_plan *plan, const uint8_t sid_sub[32], uint32_t step,
                         uint32_t op_id, uvcci_plan_ids *ids) {
    for (unsigned s = 0; s < plan->id_count; s++) {
        const uvcci_plan_id *d = &plan->id[s];
        uint32_t n = d->per_block ? d->blocks : 1;
        for (uint32_t b = 0; b < n; b++)
            ids->id[s][b] = d->fss ? uvcci_fss_id(sid_sub, step, op_id, d->call, b)
                                   : uvcci_stream_id(sid_sub, step, op_id,
                                                     (uvcci_stream_name)d->stream, d->call, b);
    }
    for (uint32_t b = 0; b < plan->blocks; b++)
        ids->edge[b] = plan->per_block_edge ? uvcci_edge(ids->id[UVCCI_ID_FSS0][b])
                       : plan->one_edge     ? uvcci_edge(ids->id[UVCCI_ID_FSS0][0])
                                            : plan->fixed_edge;
    /* Vectors that are longer than the op's are opened to all, where an edge only counts parties.
     */
    for (uint32_t b = plan->blocks; b < plan->edge_blocks; b++)
        ids->edge[b] = 0;
}

bool uvcci_plan_ids_collide(const uvcci_plan *plan, const uvcci_plan_ids *ids) {
    /* Equal ids matter where they would meet in one batch; batches are ranges of at most 512
     * blocks (the parts of openings and lifts are smaller than that). */
    uint64_t seen[512];
    for (unsigned s = 0; s < plan->id_count; s++) {
        uint32_t blocks = plan->id[s].per_block ? plan->id[s].blocks : 0;
        for (uint32_t first = 0; first < blocks; first += 512) {
            uint32_t n = blocks - first < 512 ? blocks - first : 512;
            memcpy(seen, ids->id[s] + first, n * sizeof seen[0]);
            uvcci_sort(seen, n, sizeof seen[0], uvcci_compare_u64);
            for (uint32_t i = 1; i < n; i++)
                if (seen[i] == seen[i - 1])
                    return true;
        }
    }
    return false;
}

/* ---- messages ---- */

uint32_t uvcci_plan_tlvs_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint32_t blocks = r->blocks < r->part_blocks ? r->blocks : r->part_blocks;
    uint32_t per_block = plan->way->message_words != NULL
                             ? pieces_max(plan, r, uvcci_block_count(r->elems, 0))
                             : r->vec_count;
    if (r->vec[0].protocol == UVCCI_PROTO_KEYS)
        per_block = uvcci_plan_key_bytes(plan, r, 0, UVCC_TAIL) / UVCC_KEY_CHUNK_BYTES + 1;
    return blocks * per_block + 1;
}

static int compare_tlvs(const void *a, const void *b) {
    const uvcci_plan_tlv *x = a, *y = b;
    return uvcc_tlv_compare(&x->t, &y->t);
}

static void part_range(const uvcci_plan_round *r, uint32_t part, uint32_t *first, uint32_t *end) {
    assert(part < r->parts);
    *first = part * r->part_blocks;
    *end = *first + r->part_blocks < r->blocks ? *first + r->part_blocks : r->blocks;
}

/* Calls for every (vector, flow, block) that goes from src to dst in the part. */
typedef bool (*visit_fn)(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                         uint32_t block, uint8_t edge);
static void visit(const uvcci_plan_ids *ids, const uvcci_plan_round *r, uint32_t part, uint8_t src,
                  uint8_t dst, visit_fn fn, void *user) {
    uint32_t first, end;
    part_range(r, part, &first, &end);
    for (unsigned v = 0; v < r->vec_count; v++) {
        unsigned n;
        const uvcci_flow *flows = uvcci_protocol_flows((uvcci_protocol)r->vec[v].protocol, &n);
        for (unsigned i = 0; i < n; i++) {
            if (flows[i].hop != r->vec[v].hop)
                continue;
            for (uint32_t b = first; b < end; b++) {
                uint8_t edge = ids->edge[b];
                if (uvcci_party_of((uvcci_role)flows[i].from, edge) != src ||
                    uvcci_party_of((uvcci_role)flows[i].to, edge) != dst)
                    continue;
                if (flows[i].tlv == UVCC_TLV_DIGEST && b + 1 != r->blocks)
                    continue; /* one digest of the whole stream, with its last part */
                if (!fn(user, v, &flows[i], i, b, edge))
                    return;
            }
        }
    }
}

struct lister {
    const uvcci_plan *plan;
    const uvcci_plan_ids *ids;
    const uvcci_plan_round *r;
    uvcci_plan_tlv *out;
    uint32_t count;
    size_t bytes;
};

static void list_add(struct lister *l, unsigned vec, unsigned flow, uint32_t block,
                     const uvcc_tlv *t) {
    l->out[l->count++] =
        (uvcci_plan_tlv){.t = *t, .vec = (uint8_t)vec, .flow = (uint8_t)flow, .block = block};
    l->bytes += uvcc_tlv_bytes(t);
}

/* A block's message of as many words as the way says, in pieces. */
static void list_pieces(struct lister *l, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                        uint32_t block) {
    const uvcci_op_way *way = l->plan->way;
    const uint32_t count = uvcci_block_count(l->r->elems, block);
    const uint32_t words =
        way->message_words(l->plan, l->r, (uvcc_role)flow->from, (uvcc_role)flow->to, count);
    const uint32_t piece = way->piece_words(l->plan, l->r, count);
    uvcc_tlv t = {.type = flow->tlv, .bits = 64, .id = block};
    for (uint32_t at = 0; at < words; at += piece, t.first += UVCC_BLOCK_ELEMS) {
        t.count = words - at < piece ? words - at : piece;
        list_add(l, vec, flow_index, block, &t);
        l->out[l->count - 1].more = at != 0;
    }
}

/* Every field of a TLV is fixed by the plan and the ids: what the sender writes the receiver
 * demands.
 */
static bool list_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct lister *l = user;
    const uvcci_plan_vec *pv = &l->r->vec[vec];
    if (l->plan->way->message_words != NULL) {
        list_pieces(l, vec, flow, flow_index, block);
        return true;
    }
    uint32_t count = uvcci_block_count(l->r->elems, block);
    bool has_id = pv->id != UVCCI_ID_TILE;
    bool per_block = has_id && l->plan->id[pv->id].per_block;
    uvcc_tlv t = {.type = flow->tlv, .bits = pv->bits, .count = count, .id = l->r->tile};
    if (has_id)
        t.id = l->ids->id[pv->id][per_block ? block : 0];
    switch (flow->tlv) {
    case UVCC_TLV_LIFT_M_U64VEC:
    case UVCC_TLV_LIFT_X_U64VEC:
        t.aux = edge;
        break;
    case UVCC_TLV_LIFT_COMP_U64VEC:
        t.aux = (uint8_t)((edge + 2u) % 3u);
        break;
    case UVCC_TLV_OPEN_VEC:
        t.aux = pv->protocol == UVCCI_PROTO_OPEN_ALL   ? 0xFF
                : pv->protocol == UVCCI_PROTO_OPEN_ONE ? (uint8_t)(0x10 + edge)
                                                       : edge;
        t.round = pv->stream_round;
        t.first = block * UVCC_BLOCK_ELEMS;
        if (per_block)
            t.first = 0;
        break;
    case UVCC_TLV_DIGEST:
        t.aux = pv->what;
        t.bits = 8;
        t.count = 32;
        break;
    case UVCC_TLV_KEY_CHUNK: {
        uint32_t total = uvcci_plan_key_bytes(l->plan, l->r, block, (uvcc_role)flow->to);
        t.round = l->plan->gate;
        for (uint32_t at = 0; at < total; at += UVCC_KEY_CHUNK_BYTES) {
            t.first = at;
            t.count = total - at < UVCC_KEY_CHUNK_BYTES ? total - at : UVCC_KEY_CHUNK_BYTES;
            list_add(l, vec, flow_index, block, &t);
        }
        return true;
    }
    default: /* RESHARE, INPUT */
        t.first = block * UVCC_BLOCK_ELEMS;
        break;
    }
    list_add(l, vec, flow_index, block, &t);
    return true;
}

uint32_t uvcci_plan_list(const uvcci_plan *plan, const uvcci_plan_ids *ids,
                         const uvcci_plan_round *r, uint32_t part, uint8_t src, uint8_t dst,
                         uvcci_plan_tlv *out, size_t *bytes) {
    struct lister l = {
        .plan = plan, .ids = ids, .r = r, .out = out, .bytes = UVCC_BLV1_HEADER_BYTES};
    visit(ids, r, part, src, dst, list_one, &l);
    assert(l.count <= uvcci_plan_tlvs_max(plan, r));
    uvcci_sort(out, l.count, sizeof out[0], compare_tlvs);
    *bytes = l.bytes;
    return l.count;
}

struct seeker {
    const uvcci_plan *plan;
    const uvcci_plan_round *r;
    bool any;
};

static bool seek_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct seeker *k = user;
    (void)vec;
    (void)flow_index;
    (void)edge;
    k->any = flow->tlv != UVCC_TLV_KEY_CHUNK ||
             uvcci_plan_key_bytes(k->plan, k->r, block, (uvcc_role)flow->to) != 0;
    return !k->any;
}

bool uvcci_plan_any(const uvcci_plan *plan, const uvcci_plan_ids *ids, const uvcci_plan_round *r,
                    uint32_t part, uint8_t src, uint8_t dst) {
    struct seeker k = {.plan = plan, .r = r};
    visit(ids, r, part, src, dst, seek_one, &k);
    return k.any;
}

const uvcci_plan_round *uvcci_plan_find(const uvcci_plan *plan, uint8_t kind, uint16_t b,
                                        uint32_t *part) {
    for (unsigned i = 0; i < (unsigned)plan->round_count + plan->key_count; i++) {
        const uvcci_plan_round *r = &plan->rounds[i];
        if (r->kind == kind && b >= r->b_base && b - r->b_base < r->parts) {
            *part = (uint32_t)(b - r->b_base);
            return r;
        }
    }
    return NULL;
}
