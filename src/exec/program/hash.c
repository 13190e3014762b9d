/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c - a program's hash: what the parties must agree on, in one order of bytes. */
#include "exec/program/op_class.h"
#include "exec/program/program_impl.h"
#include "exec/program/tiles.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include <assert.h>
#include <string.h>
#include <uvcc/blv1.h>
#include <uvcc/compute.h>

static void hash_op(uvcci_sha256 *h, const uvcc_op_desc *d) {
    uint8_t buf[64];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put16(&w, d->opcode);
    uvcci_put8(&w, d->phase);
    uvcci_put16(&w, d->k);
    uvcci_put8(&w, d->in_count);
    uvcci_put8(&w, d->out_count);
    for (uint32_t i = 0; i < d->in_count; i++)
        uvcci_put32(&w, d->in[i]);
    for (uint32_t i = 0; i < d->out_count; i++)
        uvcci_put32(&w, d->out[i]);
    uvcci_put8(&w, d->flags);
    uvcci_put8(&w, d->shift);
    uvcci_put8(&w, d->truncation);
    uvcci_put8(&w, d->lift);
    if (uvcci_op_has(d->opcode, UVCCI_USES_FUNCTION))
        uvcci_put16(&w, d->function);
    if (uvcci_uses_constant(d))
        uvcci_put64(&w, (uint64_t)d->constant);
    assert(!w.bad);
    uvcci_sha256_update(h, buf, w.len);
}

static void hash_instr(uvcci_sha256 *h, const uvcc_fn_instr *s) {
    uint8_t buf[32];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put8(&w, s->kind);
    uvcci_put8(&w, s->a);
    uvcci_put8(&w, s->b);
    uvcci_put8(&w, s->bits);
    uvcci_put8(&w, s->shift);
    uvcci_put8(&w, s->io);
    if (uvcci_fn_has_third(s->kind))
        uvcci_put8(&w, s->c);
    uvcci_put64(&w, (uint64_t)s->first);
    uvcci_put64(&w, (uint64_t)s->constant);
    uvcci_put32(&w, s->entry_count);
    uvcci_put32(&w, s->word_count);
    assert(!w.bad);
    uvcci_sha256_update(h, buf, w.len);
    uvcci_sha256_update(h, s->entries, s->entry_count * sizeof *s->entries);
    uvcci_sha256_update(h, s->words, s->word_count * sizeof *s->words);
}

static void hash_words(uvcci_sha256 *h, const uint32_t *words, unsigned count) {
    uint8_t buf[4];
    for (unsigned i = 0; i < count; i++) {
        uvcci_st32(buf, words[i]);
        uvcci_sha256_update(h, buf, 4);
    }
}

/* A program without functions hashes as if there were no such thing. */
static void hash_functions(uvcci_sha256 *h, const uvcc_program *p) {
    uint8_t buf[4];
    if (p->function_count == 0)
        return;
    uvcci_st32(buf, p->function_count);
    uvcci_sha256_update(h, buf, 4);
    for (uint32_t i = 0; i < p->function_count; i++) {
        const uvcc_function *f = &p->functions[i]->f;
        const uint8_t head[3] = {f->inputs, f->outputs, f->instr_count};
        uvcci_sha256_update(h, head, sizeof head);
        for (unsigned j = 0; j < f->instr_count; j++)
            hash_instr(h, &f->instrs[j]);
    }
}

static void hash_io(uvcci_sha256 *h, const uvcc_io_desc *io) {
    uint8_t buf[9];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put32(&w, io->id);
    uvcci_put32(&w, io->tensor);
    uvcci_put8(&w, io->owner);
    assert(!w.bad && w.len == sizeof buf);
    uvcci_sha256_update(h, buf, w.len);
}

static bool is_parallel(const uvcc_program *p) {
    bool any = p->replicas * p->stages * p->tp_ranks != 1;
    for (uint32_t i = 0; i < p->entry_count; i++)
        any |= p->entries[i].microbatches > 1 || p->entries[i].stages > 1;
    for (uint32_t i = 0; i < p->user_op_count && !any; i++)
        any = p->user_ops[i].desc.mb != 0; /* a page of UPD */
    return any;
}

/* One worker with one microbatch, and one page of UPD, hashes as if there were no others:
 * "UVCC_PARALLEL_V1" || LE32 replicas, stages, tp_ranks || each entry: LE32 stage, stages, ahead
 * || each input: LE16 mb || each op: LE16 mb || U8 group. Here ops stand as they came, in the
 * order of (phase, mb, k). */
static void hash_parallel(uvcci_sha256 *h, const uvcc_program *p) {
    static const char domain[] = "UVCC_PARALLEL_V1";
    uint8_t buf[16];
    if (!is_parallel(p))
        return;
    uvcci_sha256_update(h, domain, sizeof domain - 1);
    const uint32_t sizes[] = {p->replicas, p->stages, p->tp_ranks};
    hash_words(h, sizes, 3);
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const uvcci_entry *e = &p->entries[i];
        const uint32_t place[] = {e->stage, e->stages, e->ahead};
        hash_words(h, place, 3);
        for (uint32_t j = 0; j < e->input_count; j++) {
            uvcci_st16(buf, e->inputs[j].mb);
            uvcci_sha256_update(h, buf, 2);
        }
        for (uint32_t j = 0; j < e->user_count; j++) {
            const uvcc_op_desc *d = &p->user_ops[e->user_first + j].desc;
            uvcci_st16(buf, d->mb);
            buf[2] = d->group;
            uvcci_sha256_update(h, buf, 3);
        }
    }
}

/* Fields that came later, each where it is not 0: a program without any hashes as if there were no
 * such fields. */
enum {
    HASH_SHARING = 1,
    HASH_HEADS = 2,
    HASH_RECEIVER = 3,
    HASH_TILES = 4,
    HASH_WINDOW = 5,
    HASH_SIGHT = 6,
    HASH_CONSTANT = 7
};

typedef struct later_fields {
    uvcci_sha256 *h;
    bool any;
} later_fields;

static void hash_later(later_fields *l, const uint8_t *buf, size_t len) {
    static const uint8_t begin[4] = {0xff, 0xff, 0xff, 0xff};
    assert(len != 0);
    if (!l->any)
        uvcci_sha256_update(l->h, begin, sizeof begin);
    l->any = true;
    uvcci_sha256_update(l->h, buf, len);
}

static void hash_later_op(later_fields *l, uint32_t entry, uint32_t op, const uvcc_op_desc *d) {
    uint8_t buf[32];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    if (d->heads == 0)
        return;
    uvcci_put8(&w, HASH_HEADS);
    uvcci_put32(&w, entry);
    uvcci_put32(&w, op);
    uvcci_put16(&w, d->heads);
    uvcci_put32(&w, d->row_groups);
    assert(!w.bad);
    hash_later(l, buf, w.len);
}

/* Of an op of one tile nothing: how it would have been cut is then of no meaning. */
static void hash_tiles(later_fields *l, const uvcc_program *p, uint32_t entry, uint32_t op,
                       const uvcc_op_desc *d) {
    const uvcci_tiles tiles = uvcci_tiles_of(p, d);
    uint8_t buf[16];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    if (tiles.count == 1)
        return;
    uvcci_put8(&w, HASH_TILES);
    uvcci_put32(&w, entry);
    uvcci_put32(&w, op);
    uvcci_put32(&w, tiles.rows);
    assert(!w.bad);
    hash_later(l, buf, w.len);
}

static void hash_later_output(later_fields *l, uint32_t entry, uint32_t i, const uvcc_io_desc *io) {
    uint8_t buf[16];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    if (io->receiver == UVCC_TO_ALL)
        return;
    uvcci_put8(&w, HASH_RECEIVER);
    uvcci_put32(&w, entry);
    uvcci_put32(&w, i);
    uvcci_put8(&w, io->receiver);
    assert(!w.bad);
    hash_later(l, buf, w.len);
}

/* How far a mask leaves a row's elements. */
static void hash_sight(later_fields *l, uint32_t entry, uint32_t op, const uvcc_op_desc *d) {
    uint8_t buf[16];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    if (d->window == 0)
        return;
    uvcci_put8(&w, HASH_SIGHT);
    uvcci_put32(&w, entry);
    uvcci_put32(&w, op);
    uvcci_put32(&w, d->window);
    assert(!w.bad);
    hash_later(l, buf, w.len);
}

static void hash_constant(later_fields *l, uint32_t tensor, const uvcci_tensor *t) {
    uint8_t buf[8];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    if (t->constant == NULL)
        return;
    uvcci_put8(&w, HASH_CONSTANT);
    uvcci_put32(&w, tensor);
    assert(!w.bad);
    hash_later(l, buf, w.len);
    for (uint64_t i = 0; i < t->elems; i++) {
        uvcci_st64(buf, (uint64_t)t->constant[i]);
        hash_later(l, buf, sizeof buf);
    }
}

/* In the order of their numbers, each kind from the first tensor or op to the last. */
static void hash_later_fields(uvcci_sha256 *h, const uvcc_program *p) {
    later_fields l = {.h = h};
    uint8_t buf[16];
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
        uvcci_put8(&w, HASH_SHARING);
        uvcci_put32(&w, i);
        uvcci_put8(&w, p->tensors[i].desc.sharing);
        if (p->tensors[i].desc.sharing != UVCC_REPLICATED)
            hash_later(&l, buf, w.len);
    }
    for (uint32_t i = 0; i < p->entry_count; i++)
        for (uint32_t j = 0; j < p->entries[i].user_count; j++)
            hash_later_op(&l, i, j, &p->user_ops[p->entries[i].user_first + j].desc);
    for (uint32_t i = 0; i < p->entry_count; i++)
        for (uint32_t j = 0; j < p->entries[i].output_count; j++)
            hash_later_output(&l, i, j, &p->entries[i].outputs[j]);
    for (uint32_t i = 0; i < p->entry_count; i++)
        for (uint32_t j = 0; j < p->entries[i].user_count; j++)
            hash_tiles(&l, p, i, j, &p->user_ops[p->entries[i].user_first + j].desc);
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put8(&w, HASH_WINDOW);
    uvcci_put64(&w, p->window);
    assert(!w.bad);
    if (p->window != UVCC_WINDOW_BYTES)
        hash_later(&l, buf, w.len);
    for (uint32_t i = 0; i < p->entry_count; i++)
        for (uint32_t j = 0; j < p->entries[i].user_count; j++)
            hash_sight(&l, i, j, &p->user_ops[p->entries[i].user_first + j].desc);
    for (uint32_t i = 0; i < p->tensor_count; i++)
        hash_constant(&l, i, &p->tensors[i]);
}

/* H("UVCC_PROGRAM_V1" || LE32 part_bytes || LE32 tensors || LE32 entries || each tensor: LE32 rows,
 * cols, in_buffer_of || U8 bits, scale, lifetime || each entry: LE32 inputs, ops, outputs || each
 * input: LE32 id, tensor || U8 owner || each op: LE16 opcode || U8 phase || LE16 k || U8 inputs,
 * outputs || LE32 of each || U8 flags, shift, truncation, lift || FUNCTION: LE16 function || LE64
 * constant of an opcode that has one || each output as an input, owner 0 || if there are functions:
 * LE32 functions || each: U8 inputs, outputs, instructions || each instruction: U8 kind, a, b,
 * bits, shift, io, of TABLE_MUL and SELECT_MUL c || LE64 first, constant || LE32 entries, words ||
 * LE32 of each entry || LE64 of each word || if there are later fields: LE32 2^32 - 1 || each
 * tensor that is not replicated: U8 1 || LE32 tensor || U8 sharing
 * || each op with heads, by entry: U8 2 || LE32 entry, op || LE16 heads || LE32 row groups
 * || each output to one party, by entry: U8 3 || LE32 entry, output || U8 receiver
 * || each op of several tiles, by entry: U8 4 || LE32 entry, op, rows of a tile
 * || a window that is not the usual one: U8 5 || LE64 bytes
 * || each mask of a window, by entry: U8 6 || LE32 entry, op, window
 * || each constant: U8 7 || LE32 tensor || LE64 of each value). What a
 * kind of instruction does not use is UVCC_FN_NONE (a, b, io) or 0. Before the later fields stands,
 * unless hash_parallel says nothing, what it says. Names stay out. */
void uvcci_hash_program(uvcc_program *p) {
    static const char domain[] = "UVCC_PROGRAM_V1";
    assert(!p->finished && p->entry_count != 0);
    uint8_t buf[32];
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, domain, sizeof domain - 1);
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put32(&w, UVCC_PART_BYTES);
    uvcci_put32(&w, p->tensor_count);
    uvcci_put32(&w, p->entry_count);
    uvcci_sha256_update(&h, buf, w.len);
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const uvcc_tensor_desc *d = &p->tensors[i].desc;
        w = uvcci_writer_on(buf, sizeof buf);
        uvcci_put32(&w, d->rows);
        uvcci_put32(&w, d->cols);
        uvcci_put32(&w, d->in_buffer_of);
        uvcci_put8(&w, d->bits);
        uvcci_put8(&w, d->scale);
        uvcci_put8(&w, d->lifetime);
        uvcci_sha256_update(&h, buf, w.len);
    }
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const uvcci_entry *e = &p->entries[i];
        w = uvcci_writer_on(buf, sizeof buf);
        uvcci_put32(&w, e->input_count);
        uvcci_put32(&w, e->user_count);
        uvcci_put32(&w, e->output_count);
        uvcci_sha256_update(&h, buf, w.len);
        for (uint32_t j = 0; j < e->input_count; j++)
            hash_io(&h, &e->inputs[j]);
        for (uint32_t j = 0; j < e->user_count; j++)
            hash_op(&h, &p->user_ops[e->user_first + j].desc);
        for (uint32_t j = 0; j < e->output_count; j++)
            hash_io(&h, &e->outputs[j]);
    }
    hash_functions(&h, p);
    hash_parallel(&h, p);
    hash_later_fields(&h, p);
    uvcci_sha256_final(&h, p->hash);
}
