/* SPDX-License-Identifier: Apache-2.0 */
/* checks.c - whether a program means something: tensors, the fields, sharing and buffers of ops,
 * microbatches, entries. What an op alone asks of its tensors, its class checks. Each refusal is
 * one line that says what is wrong. */
#include "exec/program/op_check.h"
#include "exec/program/op_class.h"
#include "exec/program/program_impl.h"
#include "exec/program/tensor_names.h"
#include "exec/program/tiles.h"

#include "proto/sort.h"
#include <assert.h>
#include <string.h>
#include <uvcc/compute.h>

static const char *name_of(uint8_t sharing) {
    static const char *const names[] = {[UVCC_REPLICATED] = "replicated",
                                        [UVCC_ADDITIVE] = "additive",
                                        [UVCC_PUBLIC] = "public",
                                        [UVCC_ONE_HOT] = "one-hot"};
    return names[sharing];
}

/* Numbers of rows: what keys can be had of, in a buffer of their own. */
static int check_one_hot(const uvcci_tensor *t, const uvcci_message *m) {
    const uvcc_tensor_desc *d = &t->desc;
    const int bad = UVCC_ERR_PROGRAM;
    if (d->bits > UVCCI_ONE_HOT_BITS_MAX || d->scale != 0)
        return uvcci_fail(
            m, bad,
            "tensor %s is one-hot, of %u bits at scale %u; at most %u bits at scale 0 "
            "are possible",
            t->name, d->bits, d->scale, UVCCI_ONE_HOT_BITS_MAX);
    if (d->in_buffer_of != UVCC_NO_TENSOR)
        return uvcci_fail(m, bad, "tensor %s is one-hot; it shares no buffer", t->name);
    return 0;
}

/* Tensors stand in order: each may lie in the buffer of an earlier one, so that chains of buffers
 * have an end, and its buffer's owner is known at once. */
int uvcci_check_tensor(uvcc_program *p, uint32_t i, const uvcci_message *m) {
    uvcci_tensor *t = &p->tensors[i];
    const uvcc_tensor_desc *d = &t->desc;
    const int bad = UVCC_ERR_PROGRAM;
    if (uvcci_tensor_named(p, t->name) != i)
        return uvcci_fail(m, bad, "two tensors are called %s; names are unique", t->name);
    if (t->elems == 0 || t->elems > UVCCI_MAX_ELEMS)
        return uvcci_fail(m, bad, "tensor %s is %u x %u; it needs 1 to 2^40 elements", t->name,
                          d->rows, d->cols);
    if (d->bits < 1 || d->bits > 63)
        return uvcci_fail(m, bad, "tensor %s declares %u bits; 1 to 63 are possible", t->name,
                          d->bits);
    if (d->scale > UVCCI_MAX_BITS)
        return uvcci_fail(m, bad, "tensor %s has scale %u; at most %u is possible", t->name,
                          d->scale, UVCCI_MAX_BITS);
    if (d->lifetime != UVCC_PERSIST && d->lifetime != UVCC_TRANSIENT)
        return uvcci_fail(m, bad, "tensor %s has the unknown lifetime %u", t->name, d->lifetime);
    if (d->sharing > UVCC_ONE_HOT)
        return uvcci_fail(m, bad, "tensor %s has the unknown sharing %u", t->name, d->sharing);
    if (d->sharing == UVCC_ADDITIVE && d->lifetime == UVCC_PERSIST)
        return uvcci_fail(
            m, bad, "tensor %s is additive and PERSIST; only TRANSIENT tensors may be", t->name);
    if (d->sharing == UVCC_PUBLIC && d->lifetime != UVCC_PERSIST)
        return uvcci_fail(m, bad, "tensor %s is public and TRANSIENT; only PERSIST tensors may be",
                          t->name);
    if (d->sharing == UVCC_ONE_HOT && check_one_hot(t, m) != 0)
        return bad;
    t->buffer = i;
    if (d->in_buffer_of == UVCC_NO_TENSOR)
        return 0;
    if (d->in_buffer_of >= i)
        return uvcci_fail(m, bad,
                          "tensor %s lies in the buffer of tensor %u; that must be an "
                          "earlier tensor than its own index, %u",
                          t->name, d->in_buffer_of, i);
    const uvcci_tensor *host = &p->tensors[d->in_buffer_of];
    if (d->lifetime == UVCC_PERSIST || host->desc.lifetime == UVCC_PERSIST)
        return uvcci_fail(m, bad, "tensor %s shares a buffer with %s; only TRANSIENT tensors may",
                          t->name, host->name);
    if (d->sharing != host->desc.sharing)
        return uvcci_fail(m, bad,
                          "tensor %s shares a buffer with %s, but one is %s and the other %s",
                          t->name, host->name, name_of(d->sharing), name_of(host->desc.sharing));
    t->buffer = host->buffer;
    if (t->elems > p->tensors[t->buffer].elems)
        return uvcci_fail(m, bad,
                          "tensor %s (%u x %u) is larger than the buffer of %s that it uses",
                          t->name, d->rows, d->cols, p->tensors[t->buffer].name);
    return 0;
}

/* What holds for any input, also of a function that no op runs. */
int uvcci_check_instructions(const uvcc_function *f, const uvcci_message *m) {
    uvcci_fn_plan plan;
    return uvcci_fn_compile(f, 1, NULL, &plan, m->text, m->cap);
}

/* An output stands in the buffer of no input, unless the op works in place on tensors of one shape,
 * and outputs share no buffer. */
static int check_aliases(const uvcc_program *p, const uvcci_op_check *c, const uvcci_op_class *k) {
    const bool in_place = (k->traits & UVCCI_WORKS_IN_PLACE) != 0;
    for (uint32_t o = 0; o < c->d->out_count; o++) {
        const uvcci_tensor *z = &p->tensors[c->d->out[o]];
        for (uint32_t i = 0; i < c->d->in_count; i++) {
            const uvcci_tensor *x = &p->tensors[c->d->in[i]];
            if (x->buffer == z->buffer && !(in_place && uvcci_same_shape(&x->desc, &z->desc)))
                return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                                  "%s cannot write %s in the buffer of its input %s; give it one "
                                  "of its own",
                                  c->label, z->name, x->name);
        }
        for (uint32_t o2 = 0; o2 < o; o2++) {
            const uvcci_tensor *y = &p->tensors[c->d->out[o2]];
            if (c->d->out[o] == c->d->out[o2] || y->buffer == z->buffer)
                return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                                  "%s writes %s and %s in one buffer; give each its own", c->label,
                                  y->name, z->name);
        }
    }
    return 0;
}

static int check_tensors_of(const uvcc_program *p, uvcci_op_check *c) {
    for (uint32_t i = 0; i < c->d->in_count; i++) {
        if (c->d->in[i] >= p->tensor_count)
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s reads tensor %u, which does not exist",
                              c->label, c->d->in[i]);
        c->in[i] = &p->tensors[c->d->in[i]].desc;
    }
    for (uint32_t i = 0; i < c->d->out_count; i++) {
        if (c->d->out[i] >= p->tensor_count)
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s writes tensor %u, which does not exist",
                              c->label, c->d->out[i]);
        c->out[i] = &p->tensors[c->d->out[i]].desc;
    }
    return 0;
}

/* 0 in a class stands for replicated. */
static bool takes(unsigned sharings, const uvcc_tensor_desc *t) {
    return ((sharings != 0 ? sharings : UVCCI_TAKES_REPLICATED) >> t->sharing & 1) != 0;
}

/* Each tensor is shared as the class takes it; what is not is named with what it is, or should be.
 */
static int check_sharing(const uvcci_op_check *c, const uvcci_op_class *k) {
    const int bad = UVCC_ERR_PROGRAM;
    /* what a party computes alone of an additive tensor is additive */
    const bool local = k->out == UVCCI_TAKES_BOTH && (k->traits & UVCCI_IS_COLLECTIVE) == 0;
    const bool replicated = local && c->out[0]->sharing == UVCC_REPLICATED;
    for (unsigned i = 0; i < c->d->in_count; i++) {
        const unsigned all = i < 3 ? k->in[i] : 0;
        if (takes(replicated ? all & ~UVCCI_TAKES_ADDITIVE : all, c->in[i]))
            continue;
        if (c->in[i]->sharing == UVCC_PUBLIC || c->in[i]->sharing == UVCC_ONE_HOT)
            return uvcci_fail(c->m, bad, "%s cannot read %s, which is %s", c->label, c->in[i]->name,
                              name_of(c->in[i]->sharing));
        if (c->in[i]->sharing == UVCC_ADDITIVE)
            return uvcci_fail(c->m, bad,
                              "%s cannot read %s, which is additive; RESHARE or TRUNCATE it first",
                              c->label, c->in[i]->name);
        const uint8_t wanted = all == UVCCI_TAKES_PUBLIC    ? UVCC_PUBLIC
                               : all == UVCCI_TAKES_ONE_HOT ? UVCC_ONE_HOT
                                                            : UVCC_ADDITIVE;
        return uvcci_fail(c->m, bad, "%s reads %s as %s, but it is replicated", c->label,
                          c->in[i]->name, name_of(wanted));
    }
    for (unsigned i = 0; i < c->d->out_count; i++) {
        if (takes(k->out, c->out[i]))
            continue;
        return uvcci_fail(
            c->m, bad, "%s writes %s, which must be %s", c->label, c->out[i]->name,
            name_of(k->out == UVCCI_TAKES_ADDITIVE ? UVCC_ADDITIVE : UVCC_REPLICATED));
    }
    return 0;
}

/* Fields that an opcode does not use must be 0, so that equal programs have equal hashes. */
static int check_fields(const uvcci_op_check *c, const uvcci_op_class *k) {
    const uvcc_op_desc *d = c->d;
    const int bad = UVCC_ERR_PROGRAM;
    const unsigned stacked = UVCC_OP_STACKED_A | UVCC_OP_STACKED_B | UVCC_OP_STACKED_C;
    const unsigned flags = d->heads == 0 ? k->flags & ~stacked : k->flags;
    const bool function = (k->traits & UVCCI_USES_FUNCTION) != 0;
    if ((k->traits & UVCCI_USES_HEADS) == 0 && (d->heads != 0 || d->row_groups != 0))
        return uvcci_fail(c->m, bad, "%s: heads and row groups are not for this opcode", c->label);
    if ((d->heads == 0) != (d->row_groups == 0))
        return uvcci_fail(c->m, bad, "%s: %u heads and %u row groups; both or neither are 0",
                          c->label, d->heads, d->row_groups);
    if (d->flags & ~flags)
        return uvcci_fail(c->m, bad, "%s: flags 0x%x are not for this opcode", c->label, d->flags);
    if (d->shift > UVCCI_MAX_BITS || (d->shift != 0 && (k->traits & UVCCI_USES_SHIFT) == 0))
        return uvcci_fail(c->m, bad, "%s: a shift by %u bits is not possible here", c->label,
                          d->shift);
    if (d->truncation > UVCC_TRUNC_EXACT_DCF)
        return uvcci_fail(c->m, bad, "%s: unknown truncation %u", c->label, d->truncation);
    if (d->truncation == UVCC_TRUNC_EXACT_DCF && !uvcci_truncates(d))
        return uvcci_fail(c->m, bad, "%s truncates nothing, so it has no use for a DCF", c->label);
    if (d->lift > UVCC_LIFT_EXCHANGE)
        return uvcci_fail(c->m, bad, "%s: unknown lift %u", c->label, d->lift);
    if (function && d->lift == UVCC_LIFT_SEQUENTIAL)
        return uvcci_fail(c->m, bad, "%s: a function lifts in one round; no sequential lift here",
                          c->label);
    if (!function && d->function != 0)
        return uvcci_fail(c->m, bad, "%s: a function is not for this opcode", c->label);
    if (function && d->function >= c->p->function_count)
        return uvcci_fail(c->m, bad, "%s runs function %u, which does not exist", c->label,
                          d->function);
    if (d->constant != 0 && !uvcci_uses_constant(d))
        return uvcci_fail(c->m, bad, "%s: a constant is not for this opcode", c->label);
    if (d->window != 0 && d->opcode != UVCC_OP_CAUSAL_MASK)
        return uvcci_fail(c->m, bad, "%s: a window is not for this opcode", c->label);
    if (d->group > ((k->traits & UVCCI_USES_GROUP) != 0 ? UVCC_GROUP_STAGE : 0))
        return uvcci_fail(c->m, bad, "%s: group %u is not for this opcode", c->label, d->group);
    return 0;
}

/* Tiles of a product on triples; its shapes are right. */
static int check_tiles(const uvcci_op_check *c) {
    const uvcc_op_desc *d = c->d;
    const int bad = UVCC_ERR_PROGRAM;
    if (d->tile_rows == 0)
        return 0;
    if ((d->flags & UVCC_OP_BEAVER) == 0)
        return uvcci_fail(c->m, bad, "%s: tile_rows is for products on triples (the flag BEAVER)",
                          c->label);
    const uint32_t unit = uvcci_tile_unit(d, c->out[0]);
    if (d->tile_rows % unit != 0)
        return uvcci_fail(c->m, bad,
                          "%s: tiles of %u rows; a group of rows of %s has %u, which must divide "
                          "tile_rows",
                          c->label, d->tile_rows, c->out[0]->name, unit);
    const uvcci_tiles tiles = uvcci_tiles_of(c->p, d);
    if (tiles.count > UVCC_TILES_MAX)
        return uvcci_fail(c->m, bad,
                          "%s: %u rows in tiles of %u are %u tiles; at most %u are possible",
                          c->label, c->out[0]->rows, tiles.rows, tiles.count, UVCC_TILES_MAX);
    return 0;
}

/* before: the entry's op before this one, or NULL. */
static int check_op(const uvcc_program *p, const uvcci_entry *e, const uvcci_op *op,
                    const uvcci_op *before, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES], other[UVCCI_LABEL_BYTES];
    const uvcc_op_desc *d = &op->desc;
    uvcci_op_check c = {.p = p, .e = e, .d = d, .label = uvcci_op_label(op, label), .m = m};
    const int bad = UVCC_ERR_PROGRAM;
    const uvcci_opcode *row = uvcci_opcode_find(d->opcode);
    if (row == NULL)
        return uvcci_fail(m, bad, "%s: opcode %u is unknown; see opcodes.def", label, d->opcode);
    const uvcci_op_class *k = uvcci_op_class_of(d->opcode);
    assert(k != NULL);
    if ((k->traits & (UVCCI_IS_INPUT | UVCCI_IS_OUTPUT)) != 0)
        return uvcci_fail(m, bad, "%s: use uvcc_program_input, _output or _output_to", label);
    if ((row->n_in >= 0 && d->in_count != row->n_in) ||
        (row->n_out >= 0 && d->out_count != row->n_out))
        return uvcci_fail(m, bad, "%s has %u inputs and %u outputs; it takes %d and %d (-1: any)",
                          label, d->in_count, d->out_count, row->n_in, row->n_out);
    if (d->phase > UVCC_UPD)
        return uvcci_fail(m, bad, "%s: unknown phase %u", label, d->phase);
    if (d->k >> 8 == UVCCI_IO_BLOCK)
        return uvcci_fail(m, bad, "%s: block %u of k is for inputs and outputs", label,
                          UVCCI_IO_BLOCK);
    if (d->phase == UVCC_UPD && d->k >> 8 == UVCCI_TO_ONE_BLOCK)
        return uvcci_fail(m, bad, "%s: block %u of UPD is for outputs to one party", label,
                          UVCCI_TO_ONE_BLOCK);
    if (before != NULL && uvcci_op_key(d) <= uvcci_op_key(&before->desc))
        return uvcci_fail(m, bad, "%s does not come after %s; (phase, mb, k) must rise", label,
                          uvcci_op_label(before, other));
    int err = check_tensors_of(p, &c);
    if (err == 0)
        err = check_fields(&c, k);
    if (err == 0)
        err = check_sharing(&c, k);
    if (err == 0 && k->check != NULL)
        err = k->check(&c);
    if (err == 0)
        err = check_tiles(&c);
    if (err == 0)
        err = check_aliases(p, &c, k);
    return err;
}

static int check_io(const uvcc_program *p, const uvcci_entry *e, bool input, const uvcc_io_desc *io,
                    uint32_t count, const uvcci_message *m) {
    const char *what = input ? "input" : "output";
    for (uint32_t i = 0; i < count; i++) {
        if (io[i].tensor >= p->tensor_count)
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "entry %s: %s %u is tensor %u, which does not exist", e->name, what,
                              io[i].id, io[i].tensor);
        const uvcc_tensor_desc *t = &p->tensors[io[i].tensor].desc;
        if (t->sharing != UVCC_REPLICATED && !(input && t->sharing == UVCC_ONE_HOT))
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "entry %s: %s %u is %s, which is %s; inputs are replicated or "
                              "one-hot, outputs replicated",
                              e->name, what, io[i].id, t->name, name_of(t->sharing));
        if (uvcci_is_dealt(t))
            return uvcci_fail(m, UVCC_ERR_PROGRAM,
                              "entry %s: input %u is %s, which is one-hot and PERSIST: hosts set "
                              "what a client dealt; a party's own numbers are TRANSIENT",
                              e->name, io[i].id, t->name);
    }
    return 0;
}

/* Of which inputs or outputs an id or tensor comes twice: sorted by that, with the index below. */
static int check_unique(const uvcc_program *p, const uvcci_entry *e, const char *what,
                        const uvcc_io_desc *io, uint32_t count, uint64_t *keys,
                        const uvcci_message *m) {
    for (unsigned by_tensor = 0; by_tensor < 2; by_tensor++) {
        for (uint32_t i = 0; i < count; i++)
            keys[i] = (uint64_t)(by_tensor ? io[i].tensor : io[i].id) << 32 | i;
        uvcci_sort(keys, count, sizeof keys[0], uvcci_compare_u64);
        for (uint32_t i = 1; i < count; i++) {
            const uvcc_io_desc *twice = &io[(uint32_t)keys[i]];
            if (keys[i] >> 32 == keys[i - 1] >> 32)
                return uvcci_fail(m, UVCC_ERR_PROGRAM,
                                  "entry %s: %s %u (%s) comes twice; ids and tensors are unique",
                                  e->name, what, twice->id, p->tensors[twice->tensor].name);
        }
    }
    return 0;
}

/* What an entry gets and gives: each exists once, and inputs have numbers within their microbatch.
 */
static int check_all_io(const uvcc_program *p, const uvcci_entry *e, const uvcci_message *m) {
    const uvcc_io_desc *in = uvcci_io_from(p->inputs, e->input_first),
                       *out = uvcci_io_from(p->outputs, e->output_first);
    const size_t count = e->input_count > e->output_count ? e->input_count : e->output_count;
    int err = check_io(p, e, true, in, e->input_count, m);
    if (err == 0)
        err = check_io(p, e, false, out, e->output_count, m);
    if (err != 0 || count == 0)
        return err;
    uint64_t *keys = p->alloc.alloc(p->alloc.user, count * sizeof *keys, UVCC_MEM_STATE);
    if (keys == NULL)
        return UVCC_ERR_NOMEM;
    err = check_unique(p, e, "input", in, e->input_count, keys, m);
    if (err == 0)
        err = check_unique(p, e, "output", out, e->output_count, keys, m);
    for (uint32_t i = 0; i < e->input_count; i++)
        keys[i] = in[i].mb;
    uvcci_sort(keys, e->input_count, sizeof keys[0], uvcci_compare_u64);
    for (uint32_t i = UVCCI_IO_PAGE; i < e->input_count && err == 0; i++)
        if (keys[i] == keys[i - UVCCI_IO_PAGE])
            err = uvcci_fail(m, UVCC_ERR_PROGRAM,
                             "entry %s: microbatch %u has more than %u inputs; join some of them "
                             "in one tensor",
                             e->name, (unsigned)keys[i], UVCCI_IO_PAGE);
    p->alloc.free(p->alloc.user, keys, count * sizeof *keys, UVCC_MEM_STATE);
    return err;
}

/* STEP names an entry by its inputs' ids and shapes, so no two entries may have the same. */
static bool same_inputs(const uvcc_program *p, const uvcci_entry *a, const uvcci_entry *b) {
    if (a->input_count != b->input_count)
        return false;
    for (uint32_t i = 0; i < a->input_count; i++) {
        const uvcc_io_desc *x = &p->inputs[a->input_first + i];
        bool found = false;
        for (uint32_t j = 0; j < b->input_count && !found; j++) {
            const uvcc_io_desc *y = &p->inputs[b->input_first + j];
            found = x->id == y->id &&
                    uvcci_same_shape(&p->tensors[x->tensor].desc, &p->tensors[y->tensor].desc);
        }
        if (!found)
            return false;
    }
    return true;
}

/* Entries without inputs, as stages have that are given nothing, are told apart by the op table. */
static bool same_numbers(const uvcc_program *p, const uvcci_entry *a, const uvcci_entry *b) {
    bool same = a->user_count == b->user_count && a->output_count == b->output_count;
    for (uint32_t i = 0; i < a->user_count && same; i++) {
        const uvcc_op_desc *x = &p->user_ops[a->user_first + i].desc,
                           *y = &p->user_ops[b->user_first + i].desc;
        same = x->phase == y->phase && x->mb == y->mb && x->k == y->k;
    }
    return same;
}

/* The op of the entry that comes last in (phase, mb, k) among those of a phase; NULL: none. */
static const uvcci_op *last_of(const uvcc_program *p, const uvcci_entry *e, uint8_t phase) {
    const uvcci_op *last = NULL;
    for (uint32_t i = 0; i < e->user_count; i++)
        if (p->user_ops[e->user_first + i].desc.phase == phase)
            last = &p->user_ops[e->user_first + i];
    return last;
}

static bool has_input(const uvcc_program *p, const uvcci_entry *e, uint32_t mb) {
    for (uint32_t i = 0; i < e->input_count; i++)
        if (p->inputs[e->input_first + i].mb == mb)
            return true;
    return false;
}

/* Slots of several microbatches are all filled: each has FWD ops or inputs, and BWD ops if any has.
 */
static int check_microbatches(const uvcc_program *p, const uvcci_entry *e, const uvcci_message *m) {
    static const char *const wants[] = {"FWD op or input", "BWD op"};
    const uint32_t count = uvcci_microbatches_of(p, e);
    char label[UVCCI_LABEL_BYTES];
    uint32_t at = 0;
    for (uint8_t phase = UVCC_FWD; phase <= UVCC_BWD && count > 1; phase++) {
        const uvcci_op *last = last_of(p, e, phase);
        if (phase == UVCC_BWD && last == NULL)
            break;
        for (uint32_t mb = 0; mb < count; mb++) {
            bool found = phase == UVCC_FWD && has_input(p, e, mb);
            for (; at < e->user_count; at++) {
                const uvcc_op_desc *d = &p->user_ops[e->user_first + at].desc;
                if (d->phase != phase || d->mb > mb)
                    break;
                found |= d->mb == mb;
            }
            if (!found)
                return uvcci_fail(m, UVCC_ERR_PROGRAM,
                                  "entry %s has %u microbatches, but microbatch %u has no %s%s%s",
                                  e->name, count, mb, wants[phase],
                                  last != NULL ? "; another one has " : "",
                                  last != NULL ? uvcci_op_label(last, label) : "");
        }
    }
    return 0;
}

int uvcci_check_entry(const uvcc_program *p, uint32_t index, const uvcci_message *m) {
    const uvcci_entry *e = &p->entries[index];
    int err = check_all_io(p, e, m);
    for (uint32_t i = 0; i < e->user_count && err == 0; i++) {
        const uvcci_op *op = &p->user_ops[e->user_first + i];
        err = check_op(p, e, op, i == 0 ? NULL : op - 1, m);
    }
    if (err == 0 && e->stages != 1 && e->stages != p->stages)
        err = uvcci_fail(m, UVCC_ERR_PROGRAM, "entry %s is of %u stages, the job has %u", e->name,
                         e->stages, p->stages);
    if (err == 0)
        err = check_microbatches(p, e, m);
    for (uint32_t i = 0; i < index && err == 0; i++) {
        const uvcci_entry *other = &p->entries[i];
        if (strcmp(other->name, e->name) == 0)
            err = uvcci_fail(m, UVCC_ERR_PROGRAM, "two entries are called %s; names are unique",
                             e->name);
        else if (same_inputs(p, e, other) && (e->input_count != 0 || same_numbers(p, e, other)))
            err = uvcci_fail(m, UVCC_ERR_PROGRAM,
                             "entries %s and %s have inputs of the same ids and shapes; a step "
                             "could not tell them apart",
                             other->name, e->name);
    }
    return err;
}

/* What an additive tensor holds is no more than its products together can be. So a sum over
 * microbatches, each of which adds to the same tensor, has its bits declared once.
 */
int uvcci_check_sums(uvcc_program *p, const uvcci_entry *e, const uvcci_message *m) {
    char label[UVCCI_LABEL_BYTES];
    for (uint32_t i = 0; i < p->tensor_count; i++)
        p->tensors[i].sum_max = 0;
    for (uint32_t i = 0; i < e->op_count; i++) {
        const uvcci_op *op = &e->ops[i];
        const uvcc_op_desc *d = &op->desc;
        if (d->out_count == 0)
            continue;
        uvcci_tensor *z = &p->tensors[d->out[0]];
        const uint64_t limit = 1ull << z->desc.bits;
        const uvcci_op_class *k = uvcci_op_class_of(d->opcode);
        assert(k != NULL);
        z->sum_max = k->sum_max != NULL ? k->sum_max(p, d) : limit;
        if (z->sum_max > limit)
            return uvcci_fail(m, UVCC_ERR_BOUND,
                              "%s: %s declares %u bits; the sum of the products in it needs %u",
                              uvcci_op_label(op, label), z->name, z->desc.bits,
                              uvcci_ceil_log2(z->sum_max));
    }
    return 0;
}
