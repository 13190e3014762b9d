/* plan.c - plans of ops; see plan.h. */
#include "plan.h"

#include "proto/bytes.h"
#include <stdlib.h>
#include <uvcc/frame.h>

/* Which frame kind carries the TLVs of a protocol. */
static uint8_t kind_of(uint8_t protocol) {
    switch (protocol) {
    case UVCCI_PROTO_INPUT:
        return UVCC_FRAME_INPUT_BATCH;
    case UVCCI_PROTO_RESHARE:
        return UVCC_FRAME_RESHARE_BATCH;
    case UVCCI_PROTO_KEYS:
        return UVCC_FRAME_KEYS_BATCH;
    case UVCCI_PROTO_LIFT_PARALLEL:
    case UVCCI_PROTO_LIFT_SEQUENTIAL:
    case UVCCI_PROTO_LIFT_EXCHANGE:
        return UVCC_FRAME_LIFT_BATCH;
    default:
        return UVCC_FRAME_OPEN_BATCH;
    }
}

static void layout_of(const uvcci_plan *plan, uint32_t count, uvcc_role role,
                      uvcc_key_layout *out) {
    uvcc_key_layout_of((uvcc_gate)plan->gate, plan->compact, plan->shift, plan->bits, count, role,
                       out);
}

/* Bytes that one block can add to a message of this round, at most. */
static uint64_t block_bytes_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint64_t sum = 0;
    for (unsigned v = 0; v < r->vec_count; v++) {
        if (r->vec[v].protocol == UVCCI_PROTO_KEYS) {
            uvcc_key_layout l;
            layout_of(plan, UVCC_BLOCK_ELEMS, UVCC_TAIL, &l);
            sum += l.total_bytes + 24ull * (l.total_bytes / UVCC_KEY_BLOB_BYTES + 2);
        } else {
            sum += (uint64_t)UVCC_BLOCK_ELEMS / 8 * r->vec[v].bits + 32;
        }
    }
    return sum;
}

/* Bytes of a digest TLV, of which a part may carry one more. */
enum { DIGEST_TLV_BYTES = 4 + 12 + 32 };

/* Fixes kind, parts and batch numbers of a round; `bases` counts batches by kind. */
static int cut_round(uvcci_plan *plan, uvcci_plan_round *r, uint16_t bases[256]) {
    r->kind = kind_of(r->vec[0].protocol);
    uint64_t per_block = block_bytes_max(plan, r);
    uint64_t room = UVCC_PART_BYTES - UVCC_BLV1_HEADER_BYTES - DIGEST_TLV_BYTES;
    r->part_blocks = (uint32_t)(room / per_block);
    if (r->part_blocks == 0)
        return UVCC_ERR_PROGRAM;
    uint32_t parts = (plan->blocks + r->part_blocks - 1) / r->part_blocks;
    if (parts > UVCCI_PLAN_PARTS)
        return UVCC_ERR_PROGRAM;
    r->parts = (uint16_t)parts;
    r->b_base = bases[r->kind];
    bases[r->kind] = (uint16_t)(bases[r->kind] + parts);
    if (bases[r->kind] > plan->batches)
        plan->batches = bases[r->kind];
    uint64_t total = plan->blocks * per_block;
    total += (uint64_t)parts * (UVCC_BLV1_HEADER_BYTES + DIGEST_TLV_BYTES + 64);
    if (r->kind == UVCC_FRAME_KEYS_BATCH) {
        plan->key_bytes_max += total;
    } else {
        plan->online_bytes_max += total;
        plan->messages_max += parts;
    }
    return 0;
}

static uvcci_plan_round *add_round(uvcci_plan *plan) { return &plan->rounds[plan->round_count++]; }

static void add_vec(uvcci_plan *plan, uvcci_plan_round *r, uvcci_protocol protocol, uint8_t hop,
                    uvcci_id_source id, uint8_t stream_round, uint8_t bits) {
    r->vec[r->vec_count++] = (uvcci_plan_vec){.protocol = (uint8_t)protocol,
                                              .hop = hop,
                                              .id = (uint8_t)id,
                                              .stream_round = stream_round,
                                              .bits = bits};
    if (id < UVCCI_ID_SOURCES)
        plan->id_used[id] = true;
}

static void use_stream(uvcci_plan *plan, uvcci_id_source id, uvcci_stream_name name,
                       bool per_block) {
    plan->stream[id - UVCCI_ID_STREAM0] = (uint8_t)name;
    plan->id_per_block[id] = per_block;
}

/* Opening to the edge, comparison bit, lift(s): what truncation and ReLU share. */
static void plan_edge_gate(uvcci_plan *plan, uvcci_protocol open, uvcci_stream_name stream,
                           bool bit, unsigned lifts) {
    plan->per_block_edge = true;
    plan->id_per_block[UVCCI_ID_FSS0] = plan->id_per_block[UVCCI_ID_FSS1] = true;
    plan->id_used[UVCCI_ID_FSS0] = true;
    plan->open_round = (int8_t)plan->round_count;
    use_stream(plan, UVCCI_ID_STREAM0, stream, true);
    add_vec(plan, add_round(plan), open, 0, UVCCI_ID_STREAM0, plan->open_round & 0xff, 64);
    if (bit) {
        plan->bit_round = (int8_t)plan->round_count;
        use_stream(plan, UVCCI_ID_STREAM1, UVCCI_STREAM_BIT, true);
        add_vec(plan, add_round(plan), UVCCI_PROTO_OPEN2, 0, UVCCI_ID_STREAM1,
                (uint8_t)plan->bit_round, 1);
    }
    static const uint8_t protocols[] = {UVCCI_PROTO_LIFT_PARALLEL, UVCCI_PROTO_LIFT_SEQUENTIAL,
                                        UVCCI_PROTO_LIFT_EXCHANGE};
    uvcci_protocol lift = (uvcci_protocol)protocols[plan->lift];
    plan->lift_round = (int8_t)plan->round_count;
    for (uint8_t hop = 0; hop < uvcci_protocol_hops(lift); hop++) {
        uvcci_plan_round *r = add_round(plan);
        for (unsigned i = 0; i < lifts; i++)
            add_vec(plan, r, lift, hop, i == 0 ? UVCCI_ID_FSS0 : UVCCI_ID_FSS1, 0, 64);
    }
    add_vec(plan, &plan->keys, UVCCI_PROTO_KEYS, 0, UVCCI_ID_FSS0, 0, 8);
}

int uvcci_plan_make(uvcci_plan *plan, const uvcc_program *p, const uvcci_entry *e,
                    const uvcci_op *op) {
    memset(plan, 0, sizeof *plan);
    plan->open_round = plan->bit_round = plan->lift_round = -1;
    plan->batches = 1;
    if (op->desc.in_count + op->desc.out_count == 0) /* no op that is implemented */
        return UVCC_ERR_PROGRAM;
    uint32_t tensor = op->desc.out_count != 0 ? op->desc.out[0] : op->desc.in[0];
    plan->elems = p->tensors[tensor].elems;
    plan->lift = op->desc.lift;
    uint64_t blocks = (plan->elems + UVCC_BLOCK_ELEMS - 1) / UVCC_BLOCK_ELEMS;
    if (blocks > UINT32_MAX / UVCC_BLOCK_ELEMS || plan->lift > UVCC_LIFT_EXCHANGE)
        return UVCC_ERR_PROGRAM; /* `first` of a TLV is 32 bits */
    plan->blocks = (uint32_t)blocks;
    bool exact = op->desc.truncation == UVCC_TRUNC_EXACT;

    switch (op->desc.opcode) {
    case UVCC_OP_INPUT:
        plan->fixed_edge = e->inputs[op->io].owner;
        use_stream(plan, UVCCI_ID_STREAM0, UVCCI_STREAM_INPUT, false);
        add_vec(plan, add_round(plan), UVCCI_PROTO_INPUT, 0, UVCCI_ID_STREAM0, 0, 64);
        break;
    case UVCC_OP_OUTPUT:
        use_stream(plan, UVCCI_ID_STREAM0, UVCCI_STREAM_OUT, false);
        add_vec(plan, add_round(plan), UVCCI_PROTO_OPEN_ALL, 0, UVCCI_ID_STREAM0, 0, 64);
        break;
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_ELEM_MUL:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_ROW_DOT:
        if (op->desc.shift == 0) {
            add_vec(plan, add_round(plan), UVCCI_PROTO_RESHARE, 0, UVCCI_ID_TILE0, 0, 64);
            break;
        }
        plan->compact = true;
        plan->shift = plan->bits = op->desc.shift;
        plan->gate = exact ? UVCC_GATE_TRUNC_ARS : UVCC_GATE_TRUNC_SR;
        plan_edge_gate(plan, UVCCI_PROTO_OPEN4, UVCCI_STREAM_TRUNC, exact, 1);
        break;
    case UVCC_OP_TRUNCATE:
        plan->shift = plan->bits = op->desc.shift;
        plan->gate = exact ? UVCC_GATE_TRUNC_ARS : UVCC_GATE_TRUNC_SR;
        plan_edge_gate(plan, UVCCI_PROTO_OPEN2, UVCCI_STREAM_TRUNC, exact, 1);
        break;
    case UVCC_OP_RELU:
        /* |x| < 2^bits: x has bits + 1 bits, of which `bits` are compared. */
        plan->bits = p->tensors[op->desc.in[0]].desc.bits;
        plan->gate = UVCC_GATE_RELU;
        plan_edge_gate(plan, UVCCI_PROTO_OPEN2, UVCCI_STREAM_MASK, true, 2);
        break;
    case UVCC_OP_BIAS_ADD:
    case UVCC_OP_REDUCE_BIAS_GRAD:
    case UVCC_OP_ADD:
    case UVCC_OP_SUB:
    case UVCC_OP_SHIFT_LEFT:
    case UVCC_OP_ROW_SUM:
    case UVCC_OP_ROW_ADD:
    case UVCC_OP_ROW_SUB:
    case UVCC_OP_ROW_RSUB:
    case UVCC_OP_ADD_PUBLIC:
    case UVCC_OP_CAUSAL_MASK:
    case UVCC_OP_SCALE_PUBLIC:
        break;
    default:
        return UVCC_ERR_PROGRAM;
    }

    uint16_t bases[256] = {0};
    for (unsigned i = 0; i < plan->round_count; i++)
        if (cut_round(plan, &plan->rounds[i], bases) != 0)
            return UVCC_ERR_PROGRAM;
    if (plan->keys.vec_count != 0)
        return cut_round(plan, &plan->keys, bases);
    return 0;
}

void uvcci_plan_ids_fill(const uvcci_plan *plan, const uint8_t sid_sub[32], uint32_t step,
                         uint32_t op_id, uvcci_plan_ids *ids) {
    for (unsigned s = 0; s < UVCCI_ID_SOURCES; s++) {
        if (!plan->id_used[s])
            continue;
        uint32_t n = plan->id_per_block[s] ? plan->blocks : 1;
        for (uint32_t b = 0; b < n; b++)
            ids->id[s][b] =
                s < UVCCI_ID_STREAM0
                    ? uvcci_fss_id(sid_sub, step, op_id, (uint16_t)s, b)
                    : uvcci_stream_id(sid_sub, step, op_id,
                                      (uvcci_stream_name)plan->stream[s - UVCCI_ID_STREAM0], 0, b);
    }
    for (uint32_t b = 0; b < plan->blocks; b++)
        ids->edge[b] =
            plan->per_block_edge ? uvcci_edge(ids->id[UVCCI_ID_FSS0][b]) : plan->fixed_edge;
}

static int compare_words(const void *a, const void *b) {
    uint64_t x = uvcci_ld64(a), y = uvcci_ld64(b);
    return x < y ? -1 : x > y;
}

bool uvcci_plan_ids_collide(const uvcci_plan *plan, const uvcci_plan_ids *ids) {
    /* Equal ids matter where they would meet in one batch; batches are ranges of at most 512
     * blocks (the parts of openings and lifts are smaller than that). */
    uint64_t seen[512];
    for (unsigned s = 0; s < UVCCI_ID_SOURCES; s++) {
        if (!plan->id_used[s] || !plan->id_per_block[s])
            continue;
        for (uint32_t first = 0; first < plan->blocks; first += 512) {
            uint32_t n = plan->blocks - first < 512 ? plan->blocks - first : 512;
            memcpy(seen, ids->id[s] + first, n * sizeof seen[0]);
            qsort(seen, n, sizeof seen[0], compare_words);
            for (uint32_t i = 1; i < n; i++)
                if (seen[i] == seen[i - 1])
                    return true;
        }
    }
    return false;
}

uint32_t uvcci_plan_tlvs_max(const uvcci_plan *plan, const uvcci_plan_round *r) {
    uint32_t blocks = plan->blocks < r->part_blocks ? plan->blocks : r->part_blocks;
    uint32_t per_block = r->vec_count;
    if (r->vec[0].protocol == UVCCI_PROTO_KEYS) {
        uvcc_key_layout l;
        layout_of(plan, UVCC_BLOCK_ELEMS, UVCC_TAIL, &l);
        per_block = l.total_bytes / UVCC_KEY_BLOB_BYTES + 1;
    }
    return blocks * per_block + 1;
}

static int compare_tlvs(const void *a, const void *b) {
    const uvcci_plan_tlv *x = a, *y = b;
    return uvcc_tlv_compare(&x->t, &y->t);
}

static void part_range(const uvcci_plan *plan, const uvcci_plan_round *r, uint32_t part,
                       uint32_t *first, uint32_t *end) {
    *first = part * r->part_blocks;
    *end = *first + r->part_blocks < plan->blocks ? *first + r->part_blocks : plan->blocks;
}

/* Calls for every (vector, flow, block) that goes from src to dst in the part. */
typedef bool (*visit_fn)(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                         uint32_t block, uint8_t edge);
static void visit(const uvcci_plan *plan, const uvcci_plan_ids *ids, const uvcci_plan_round *r,
                  uint32_t part, uint8_t src, uint8_t dst, visit_fn fn, void *user) {
    uint32_t first, end;
    part_range(plan, r, part, &first, &end);
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
                if (flows[i].tlv == UVCC_TLV_DIGEST && b + 1 != plan->blocks)
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
    l->out[l->count++] = (uvcci_plan_tlv){
        .t = *t, .vec = (uint8_t)vec, .flow = (uint8_t)flow, .block = block};
    l->bytes += uvcc_tlv_bytes(t);
}

static bool list_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct lister *l = user;
    const uvcci_plan_vec *pv = &l->r->vec[vec];
    uint32_t count = uvcci_plan_count(l->plan, block);
    bool per_block = pv->id < UVCCI_ID_SOURCES && l->plan->id_per_block[pv->id];
    uvcc_tlv t = {.type = flow->tlv, .bits = pv->bits, .count = count};
    if (pv->id < UVCCI_ID_SOURCES)
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
        t.aux = l->plan->per_block_edge ? edge : 0xFF;
        t.round = pv->stream_round;
        t.first = block * UVCC_BLOCK_ELEMS;
        if (per_block)
            t.first = 0;
        break;
    case UVCC_TLV_DIGEST:
        t.aux = 0;
        t.bits = 8;
        t.count = 32;
        break;
    case UVCC_TLV_KEY_BLOB: {
        uvcc_key_layout lay;
        layout_of(l->plan, count, (uvcc_role)flow->to, &lay);
        t.round = l->plan->gate;
        for (uint32_t at = 0; at < lay.total_bytes; at += UVCC_KEY_BLOB_BYTES) {
            t.first = at;
            t.count = lay.total_bytes - at < UVCC_KEY_BLOB_BYTES ? lay.total_bytes - at
                                                                 : UVCC_KEY_BLOB_BYTES;
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
    visit(plan, ids, r, part, src, dst, list_one, &l);
    qsort(out, l.count, sizeof out[0], compare_tlvs);
    *bytes = l.bytes;
    return l.count;
}

struct seeker {
    const uvcci_plan *plan;
    bool any;
};

static bool seek_one(void *user, unsigned vec, const uvcci_flow *flow, unsigned flow_index,
                     uint32_t block, uint8_t edge) {
    struct seeker *k = user;
    (void)vec;
    (void)flow_index;
    (void)edge;
    if (flow->tlv == UVCC_TLV_KEY_BLOB) {
        uvcc_key_layout lay;
        layout_of(k->plan, uvcci_plan_count(k->plan, block), (uvcc_role)flow->to, &lay);
        k->any = lay.total_bytes != 0;
    } else {
        k->any = true;
    }
    return !k->any;
}

bool uvcci_plan_any(const uvcci_plan *plan, const uvcci_plan_ids *ids, const uvcci_plan_round *r,
                    uint32_t part, uint8_t src, uint8_t dst) {
    struct seeker k = {.plan = plan};
    visit(plan, ids, r, part, src, dst, seek_one, &k);
    return k.any;
}

const uvcci_plan_round *uvcci_plan_find(const uvcci_plan *plan, uint8_t kind, uint16_t b,
                                        uint32_t *part) {
    const uvcci_plan_round *found = NULL;
    for (unsigned i = 0; i <= plan->round_count; i++) {
        const uvcci_plan_round *r = i < plan->round_count ? &plan->rounds[i] : &plan->keys;
        if (r->vec_count != 0 && r->kind == kind && b >= r->b_base && b - r->b_base < r->parts) {
            *part = (uint32_t)(b - r->b_base);
            found = r;
        }
    }
    return found;
}
