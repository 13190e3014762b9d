/* SPDX-License-Identifier: Apache-2.0 */
/* lane_operands.c - see lane_operands.h. */
#include "gpu/lane_operands.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "gpu/describe.h"

enum {
    STAGED_BYTES = 64 << 20, /* of a job, at most, */
    STAGED_PART = 64         /* and of what the executor may take of the device */
};

int uvcci_lane_fail(uvcci_lane *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(l->text, sizeof l->text, format, args);
    va_end(args);
    return UVCC_ERR_JOB;
}

const char *uvcci_lane_kind_name(unsigned kind) {
    static const char *const names[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    return kind < UVCC_TASK_KIND_END && names[kind] != NULL ? names[kind] : "an unknown kind";
}

/* --- Where they are --------------------------------------------------------------------------- */

/* Whether a byte is of the pools. Operands of one kind are mostly in the chunk of the block
 * before, which each slot remembers. */
static bool reachable(uvcci_lane *l, unsigned slot, const void *p, size_t bytes) {
    const uint8_t *at = p;
    uvcci_gpu_pool_chunk *hint = &l->hint[slot];
    if ((uintptr_t)at - (uintptr_t)hint->at >= hint->bytes) {
        const uvcci_gpu_pool_chunk *c = uvcci_gpu_pool_find(&l->home->device, p);
        const bool pinned = c == NULL;
        if (pinned)
            c = uvcci_gpu_pool_find(&l->home->pinned, p);
        if (c == NULL)
            return false;
        l->hint_pinned[slot] = pinned;
        hint->at = c->at; /* not `used`, which others change */
        hint->bytes = c->bytes;
    }
    return bytes <= hint->bytes - (size_t)(at - hint->at);
}

/* The same of what may be another executor's, too. */
static bool readable(uvcci_lane *l, unsigned slot, const void *p) {
    uvcci_gpu_pool_chunk c;
    if (reachable(l, slot, p, 1))
        return true;
    if (l->home->lent == NULL || !uvcci_gpu_pool_look(l->home->lent, p, &c))
        return false;
    l->hint[slot] = c;
    l->hint_pinned[slot] = false;
    return true;
}

/* Notes a range that a task names, if it is outside. */
static int note(uvcci_lane *l, unsigned slot, const void *p, size_t bytes, bool written) {
    if (p == NULL || bytes == 0 || reachable(l, slot, p, bytes))
        return 0;
    return uvcci_outside_note(&l->outside, &l->home->records, p, bytes, written) == 0
               ? 0
               : uvcci_lane_fail(l, "no memory");
}

/* Kinds whose in[0] is what a host gave. */
static bool gives_input(unsigned kind) {
    return kind == UVCC_TASK_INPUT || kind == UVCC_TASK_ONE_HOT_KEYS;
}

/* What tasks name that may be outside: a host's inputs and outputs, and what the session keeps of
 * its own. */
int uvcci_lane_note(uvcci_lane *l, const uvcc_task *t) {
    int e = 0;
    for (uint32_t i = 0; t->kind == UVCC_TASK_HASH && i < t->u.hash.count && e == 0; i++) {
        const uvcc_hash_item *h = &t->u.hash.items[i];
        e = note(l, 0, h->data, h->len, false);
        if (e == 0)
            e = note(l, 1, h->out, DIGEST_BYTES, true);
    }
    const bool copies = t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE;
    for (uint32_t i = 0; copies && i < t->u.copy.count && e == 0; i++) {
        const uvcc_copy_item *c = &t->u.copy.items[i];
        e = note(l, 0, c->dst, c->len, true);
        if (e == 0 && t->kind == UVCC_TASK_COPY)
            e = note(l, 1, c->src, c->len, false);
    }
    const bool in = gives_input(t->kind), out = t->kind == UVCC_TASK_OPEN_ALL_FINISH;
    for (uint32_t i = 0; (in || out) && i < t->u.vec.count && e == 0; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        e = in ? note(l, 0, b->in[0], (size_t)b->count * 8, false)
               : note(l, 0, b->out[0], (size_t)b->count * 8, true);
    }
    return e;
}

/* The pointers of a block. */
static const struct {
    const char *name;
    size_t at;
    uint16_t noted; /* the kind whose operand of that name uvcci_lane_note() looked at: it may be
                       outside, as in[0] of what gives_input() */
    bool message;
} block_pointers[UVCCI_LANE_SLOT_LENT] = {
    {"in[0]", offsetof(uvcc_block, in[0]), 0, false},
    {"in[1]", offsetof(uvcc_block, in[1]), 0, false},
    {"in[2]", offsetof(uvcc_block, in[2]), 0, false},
    {"in[3]", offsetof(uvcc_block, in[3]), 0, false},
    {"out[0]", offsetof(uvcc_block, out[0]), UVCC_TASK_OPEN_ALL_FINISH, false},
    {"out[1]", offsetof(uvcc_block, out[1]), 0, false},
    {"in_bits", offsetof(uvcc_block, in_bits), 0, false},
    {"out_bits", offsetof(uvcc_block, out_bits), 0, false},
    {"wire_in[0]", offsetof(uvcc_block, wire_in[0]), 0, true},
    {"wire_in[1]", offsetof(uvcc_block, wire_in[1]), 0, true},
    {"wire_out[0]", offsetof(uvcc_block, wire_out[0]), 0, true},
    {"wire_out[1]", offsetof(uvcc_block, wire_out[1]), 0, true},
    {"key", offsetof(uvcc_block, key), 0, false},
    {"out_bytes[0]", offsetof(uvcc_block, out_bytes[0]), 0, false},
    {"out_bytes[1]", offsetof(uvcc_block, out_bytes[1]), 0, false},
    {"words[0]", offsetof(uvcc_block, words[0]), 0, false},
    {"words[1]", offsetof(uvcc_block, words[1]), 0, false},
    {"out_words", offsetof(uvcc_block, out_words), 0, false},
};

static int stray(uvcci_lane *l, const uvcc_task *t, const char *what) {
    return uvcci_lane_fail(l, "%s: %s is not memory of the executor's allocator",
                           uvcci_lane_kind_name(t->kind), what);
}

/* Kernels are given no address that they cannot reach. */
static int check_block(uvcci_lane *l, const uvcc_task *t, const uvcc_block *b) {
    for (unsigned i = 0; i < UVCCI_LANE_SLOT_LENT; i++) {
        const void *p = NULL;
        memcpy(&p, (const uint8_t *)b + block_pointers[i].at, sizeof p);
        const bool given = i == 0 && gives_input(t->kind);
        if (p != NULL && !given && block_pointers[i].noted != t->kind && !reachable(l, i, p, 1))
            return stray(l, t, block_pointers[i].name);
    }
    return 0;
}

/* Tensors that a task names. */
static void operands_of(const uvcc_task *t, uvcc_shares all[3]) {
    if (t->kind == UVCC_TASK_MAP) {
        all[0] = t->u.map.x;
        all[1] = t->u.map.y;
        all[2] = t->u.map.out;
    } else if (t->kind == UVCC_TASK_GEMM) {
        all[0] = t->u.gemm.x;
        all[1] = t->u.gemm.y;
        all[2].lo = t->u.gemm.z;
        all[2].hi = t->u.gemm.z_hi;
    } else if (t->kind == UVCC_TASK_BIT_SUMS) {
        all[0] = t->u.bits.x;
        all[2] = t->u.bits.out;
    }
}

/* What may be lent: y of a product by what is public, or of turns. It is taken from the operands
 * then. */
static bool takes_lent(const uvcc_task *t, uvcc_shares all[3], const uint64_t **y) {
    const bool turns = t->kind == UVCC_TASK_MAP && t->u.map.op == UVCC_MAP_ROTATE;
    if ((t->kind != UVCC_TASK_GEMM && !turns) || all[1].hi != NULL || all[1].lo == NULL)
        return false;
    *y = all[1].lo;
    all[1].lo = NULL;
    return true;
}

/* Hash and copy items were looked up by uvcci_lane_note(), so what is left is of blocks and
 * tensors. */
int uvcci_lane_check_pointers(uvcci_lane *l, const uvcc_task *t) {
    static const char *const names[3] = {"x", "y", "out"};
    uvcc_shares all[3] = {{NULL, NULL}};
    int e = 0;
    for (uint32_t i = 0; uvcci_gpu_is_vec(t->kind) && i < t->u.vec.count && e == 0; i++)
        e = check_block(l, t, &t->u.vec.blocks[i]);
    operands_of(t, all);
    const uint64_t *y;
    if (takes_lent(t, all, &y) && !readable(l, UVCCI_LANE_SLOT_LENT, y))
        e = stray(l, t, names[1]);
    for (unsigned i = 0; i < 3 && e == 0; i++)
        if ((all[i].lo != NULL && !reachable(l, 2 * i, all[i].lo, 1)) ||
            (all[i].hi != NULL && !reachable(l, 2 * i + 1, all[i].hi, 1)))
            e = stray(l, t, names[i]);
    return e;
}

bool uvcci_lane_is_pinned(const uvcci_lane *l, const uint8_t *p, size_t bytes) {
    const uvcci_gpu_pool_chunk *c = uvcci_gpu_pool_find(&l->home->pinned, p);
    return c != NULL && bytes <= c->bytes - (size_t)(p - c->at);
}

/* --- Staging ---------------------------------------------------------------------------------- */

/* Whether an operand lies in memory of the host: it is found as reachable() finds it. */
static bool is_on_host(uvcci_lane *l, unsigned slot, const void *p) {
    return p != NULL && (!reachable(l, slot, p, 1) || l->hint_pinned[slot]);
}

/* What a block does with messages; of its other operands none may lie with them. */
static int stage_block(uvcci_lane *l, const uvcc_task *t, const uvcc_block *b, uint32_t task) {
    uvcci_wire_piece piece[UVCCI_WIRE_PIECES];
    const int pieces = uvcci_gpu_wire_pieces(t, b, piece);
    for (unsigned i = 0; i < UVCCI_LANE_SLOT_LENT; i++) {
        const void *p = NULL;
        if (block_pointers[i].message)
            continue;
        memcpy(&p, (const uint8_t *)b + block_pointers[i].at, sizeof p);
        if (is_on_host(l, i, p))
            return -1;
    }
    for (unsigned k = 0; k < 2; k++)
        uvcci_staging_touch(&l->staging, b->wire_in[k], uvcci_gpu_wire_in_most(t, b));
    for (int k = 0; k < pieces; k++)
        if (uvcci_staging_write(&l->staging, &l->home->records, &piece[k], task) != 0)
            return -1;
    return pieces < 0 ? -1 : 0;
}

static int stage_copies(uvcci_lane *l, const uvcc_task *t, uint32_t task) {
    for (uint32_t i = 0; i < t->u.copy.count; i++) {
        const uvcc_copy_item *c = &t->u.copy.items[i];
        const uvcci_wire_piece piece = {c->dst, c->len, c->len};
        if (t->kind == UVCC_TASK_COPY)
            uvcci_staging_touch(&l->staging, c->src, c->len);
        if (t->kind == UVCC_TASK_WIPE)
            uvcci_staging_touch(&l->staging, c->dst, c->len);
        else if (uvcci_staging_write(&l->staging, &l->home->records, &piece, task) != 0)
            return -1;
    }
    return 0;
}

static int stage_shares(uvcci_lane *l, const uvcc_task *t) {
    uvcc_shares all[3] = {{NULL, NULL}};
    operands_of(t, all);
    const uint64_t *y;
    if (takes_lent(t, all, &y) &&
        (!readable(l, UVCCI_LANE_SLOT_LENT, y) || l->hint_pinned[UVCCI_LANE_SLOT_LENT]))
        return -1;
    for (unsigned i = 0; i < 3; i++)
        if (is_on_host(l, 2 * i, all[i].lo) || is_on_host(l, 2 * i + 1, all[i].hi))
            return -1;
    return 0;
}

/* Digests of the task itself are made when its ranges were read. */
static void stage_hashes(uvcci_lane *l, const uvcc_task *t, bool last) {
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uvcc_hash_item *h = &t->u.hash.items[i];
        if (last)
            uvcci_staging_hash(&l->staging, h->data, h->len);
        else
            uvcci_staging_touch(&l->staging, h->data, h->len);
        uvcci_staging_touch(&l->staging, h->out, DIGEST_BYTES);
    }
}

/* Messages that the job's last task hashes, and that no CPU does. */
static void stage_ranges(uvcci_lane *l) {
    const uvcc_task *t = &l->job.tasks[l->job.count - 1];
    for (uint32_t i = 0; t->kind == UVCC_TASK_HASH && i < t->u.hash.count; i++) {
        const uvcc_hash_item *h = &t->u.hash.items[i];
        if (h->len > l->home->stage_least && uvcci_lane_is_pinned(l, h->data, h->len))
            uvcci_staging_add(&l->staging, h->data, h->len);
    }
}

/* No more than a part of what the executor may take: tensors need that. */
static size_t staged_most(const uvcci_lane *l) {
    const uint64_t part = l->home->device.limit / STAGED_PART;
    return l->home->device.limit != 0 && part < STAGED_BYTES ? (size_t)part : STAGED_BYTES;
}

void uvcci_lane_stage(uvcci_lane *l) {
    uvcci_staging *g = &l->staging;
    int e = 0;
    uvcci_staging_begin(g);
    if (l->job.count > 1)
        stage_ranges(l);
    for (uint32_t i = 0; i < l->job.count && g->count != 0 && e == 0; i++) {
        const uvcc_task *t = &l->job.tasks[i];
        for (uint32_t k = 0; uvcci_gpu_is_vec(t->kind) && k < t->u.vec.count && e == 0; k++)
            e = stage_block(l, t, &t->u.vec.blocks[k], i);
        if (t->kind == UVCC_TASK_HASH)
            stage_hashes(l, t, i + 1 == l->job.count);
        else if (t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE)
            e = stage_copies(l, t, i);
        else if (!uvcci_gpu_is_vec(t->kind))
            e = stage_shares(l, t);
    }
    if (e != 0)
        uvcci_staging_drop(g);
    uvcci_staging_settle(g, staged_most(l));
}
