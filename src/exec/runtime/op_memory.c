/* SPDX-License-Identifier: Apache-2.0 */
/* op_memory.c - see op_memory.h. */
#include "exec/runtime/op_memory.h"

#include "exec/runtime/builder.h"

enum {
    BLOCK_TASKS = 10, /* with blocks, of a turn, but for instructions of functions */
    TASK_LEAVES = 4,  /* of a vector's block in a turn: opened, or both commitments and lifted */
    HASH_LISTS = 8,   /* that a turn ends */
    DEAL_BLOCKS = 3,  /* tasks with blocks of an instruction's deal, or of a gate's */
    GATHER_TASKS = 2,
    STATE_BYTES = 512, /* beside what ways say: of an instruction, or of an op */
};

/* Bytes of a bump, and the pieces that they come in. */
typedef struct sum {
    uint64_t bytes, pieces;
} sum;

static void add(sum *s, uint64_t pieces, uint64_t bytes) {
    s->pieces += pieces;
    s->bytes += bytes;
}

static uint64_t bound(const sum *s) {
    return uvcci_bump_bound(s->bytes, s->pieces);
}

static uint64_t longest_of(const uvcci_plan *p) {
    return p->edge_blocks > p->blocks ? p->edge_blocks : p->blocks;
}

static unsigned instrs_of(const uvcci_plan *p) {
    return p->function != NULL ? p->function->instr_count : 0;
}

static uint64_t keys_blocks(const uvcci_plan *p) {
    uint64_t n = 0;
    for (unsigned g = 0; g < p->key_count; g++)
        n += p->rounds[p->round_count + g].blocks;
    return n;
}

/* Where keys lie. */
static void add_key_table(const uvcci_plan *p, sum *s) {
    add(s, 2, (p->key_count + 1u) * sizeof(size_t *) + (keys_blocks(p) + 1) * sizeof(size_t));
}

/* Streams of keys to sort, of both dealers or for both receivers. */
static void add_key_lists(const uvcci_plan *p, sum *s) {
    add(s, 2, 2 * (keys_blocks(p) + 1) * UVCCI_KEY_STREAM_BYTES);
}

/* Messages of a round. */
static void add_messages(const uvcci_plan *p, const uvcci_plan_round *r, sum *s) {
    const uint64_t tlvs = uvcci_plan_tlvs_max(p, r);
    add(s, 2, tlvs * sizeof(uvcci_plan_tlv) + 2ull * r->parts * sizeof(uvcci_tx));
    if (uvcci_plan_is_keys(p, r))
        add(s, 1, 2ull * r->parts * tlvs * sizeof(uvcci_key_chunk));
    else
        add(s, 2ull * r->vec_count, 2ull * r->vec_count * r->blocks * sizeof(uint8_t *));
}

/* Chunks of keys that come in a round of them, or go. */
static uint64_t key_chunks(const uvcci_plan *p, unsigned group) {
    const uvcci_plan_round *r = &p->rounds[p->round_count + group];
    return 2ull * r->parts * uvcci_plan_tlvs_max(p, r);
}

/* Digests of a turn, those of leaves among them: of messages that it sends, of blocks of vectors
 * that it sends or that came for it, of keys. */
static uint64_t hashes_of(const uvcci_plan *p, unsigned turn) {
    uint64_t n = 2 + 2 * (uint64_t)TASK_LEAVES * longest_of(p);
    for (unsigned i = 0; i < p->round_count; i++) {
        const uvcci_plan_round *r = &p->rounds[i];
        if (r->turn == turn)
            n += 2ull * r->parts;
        if (r->turn == turn || r->turn + 1u == turn)
            n += (uint64_t)TASK_LEAVES * r->vec_count * r->blocks;
    }
    return n;
}

/* A list doubles from its first room on, and what it had stays there. */
static void add_hashes(uint64_t hashes, sum *s) {
    const uint64_t items = (uint64_t)HASH_LISTS * UVCCI_HASHES_FIRST + 4 * hashes;
    add(s, HASH_LISTS + hashes / UVCCI_HASHES_FIRST, items * sizeof(uvcc_hash_item));
    add(s, hashes, hashes * sizeof(uvcci_pending_leaf));
}

uint64_t uvcci_turn_memory(const uvcci_plan *p, unsigned turn) {
    const uint64_t tasks = uvcci_plan_turn_tasks(p, turn);
    const uint64_t with_blocks = tasks - p->tasks_max + BLOCK_TASKS;
    const uint64_t longest = longest_of(p);
    sum s = {0};
    add(&s, 1, tasks * sizeof(uvcc_task));
    add(&s, 2 * with_blocks, with_blocks * (longest * sizeof(uvcc_block) + sizeof(uvcc_fn_args)));
    add(&s, 1, 2 * longest * sizeof(uvcc_copy_item) + UVCCI_TURN_ROUNDS * sizeof(uvcci_batch_out));
    add(&s, 2, p->copies * sizeof(uvcc_copy_item));
    add_hashes(hashes_of(p, turn), &s);
    for (unsigned i = 0; i < p->round_count; i++)
        if (p->rounds[i].turn == turn)
            add_messages(p, &p->rounds[i], &s);
    if (p->key_count != 0 && turn == p->key_turn) {
        add_key_lists(p, &s);
        for (unsigned g = 0; g < p->key_count; g++)
            add(&s, 1, key_chunks(p, g) * sizeof(uvcc_copy_item));
    }
    return bound(&s);
}

/* Of the turn that takes most. */
static uint64_t turns_memory(const uvcci_plan *p) {
    uint64_t most = 0;
    for (unsigned turn = 0; turn <= UINT8_MAX; turn++) {
        if (turn > p->turns && turn < UVCCI_TURN_NONE)
            continue;
        const uint64_t bytes = uvcci_turn_memory(p, turn);
        most = bytes > most ? bytes : most;
    }
    return most;
}

uint64_t uvcci_lasting_memory(const uvcci_plan *p) {
    sum s = {0};
    add(&s, 4, p->way->state_bytes + STATE_BYTES);
    add(&s, 1, (uint64_t)instrs_of(p) * STATE_BYTES);
    add(&s, p->round_count, 32ull * p->round_count); /* checks of what was opened */
    add_key_table(p, &s);
    return bound(&s);
}

uint64_t uvcci_op_memory(const uvcci_plan *p) {
    return uvcci_lasting_memory(p) + turns_memory(p);
}

uint64_t uvcci_gather_memory(const uvcci_plan *p) {
    sum s = {0};
    if (p->key_count == 0)
        return 0;
    add_key_lists(p, &s);
    add(&s, 1, GATHER_TASKS * sizeof(uvcc_task));
    add(&s, 3, 2 * (sizeof(uvcc_hash_item) + sizeof(uvcci_pending_leaf)));
    for (unsigned g = 0; g < p->key_count; g++)
        add(&s, 1, key_chunks(p, g) * sizeof(uvcc_copy_item));
    return bound(&s);
}

uint64_t uvcci_deal_memory(const uvcci_plan *p) {
    const uint64_t instrs = instrs_of(p) + 1u;
    sum s = {0};
    if (p->key_count == 0)
        return 0;
    add(&s, 16 + 8 * instrs, p->key_count * sizeof(uvcci_batch_out) + 1024);
    add(&s, 1, (4 * instrs + 8) * sizeof(uvcc_task));
    add(&s, 1, DEAL_BLOCKS * instrs * (longest_of(p) * sizeof(uvcc_block) + sizeof(uvcc_fn_args)));
    add(&s, 1, instrs * 2 * sizeof(uint64_t *) + 2 * (keys_blocks(p) + 1) * sizeof(uint8_t *));
    for (unsigned g = 0; g < p->key_count; g++) {
        add_messages(p, &p->rounds[p->round_count + g], &s);
        add(&s, 1, key_chunks(p, g) * sizeof(uvcc_copy_item));
    }
    add_key_table(p, &s);
    add_key_table(p, &s);
    add_key_lists(p, &s);
    return bound(&s);
}
