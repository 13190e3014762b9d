/* SPDX-License-Identifier: Apache-2.0 */
/* builder.c - building a program, finishing it, reading it.
 *
 * States: being built (calls append to growing arrays and check only what they need to stay inside
 * them), then finished (checked, immutable, with the tables of program.h per entry). Everything
 * that depends on meaning is checked in finish, where there is a line to say what is wrong. */
#include "exec/base/bounds.h"
#include "exec/program/op_class.h"
#include "exec/program/program_impl.h"
#include "exec/program/tensor_names.h"

#include "proto/topology.h"
#include <assert.h>
#include <string.h>

/* ---- building ---- */

int uvcc_program_new(uvcc_program **out, const uvcc_allocator *al) {
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    uvcc_program *p = al->alloc(al->user, sizeof *p, UVCC_MEM_STATE);
    if (p == NULL)
        return UVCC_ERR_NOMEM;
    memset(p, 0, sizeof *p);
    p->alloc = *al;
    p->replicas = p->stages = p->tp_ranks = 1;
    p->window = UVCC_WINDOW_BYTES;
    *out = p;
    return 0;
}

static void release(const uvcc_program *p, void *mem, size_t bytes) {
    if (mem != NULL)
        p->alloc.free(p->alloc.user, mem, bytes, UVCC_MEM_STATE);
}

static void drop_tables(uvcc_program *p) {
    for (uint32_t i = 0; i < p->entry_count; i++) {
        release(p, p->entries[i].mem, p->entries[i].mem_bytes);
        p->entries[i].mem = NULL;
        p->entries[i].op_count = 0;
    }
}

static void drop_user_ops(uvcc_program *p) {
    release(p, p->user_ops, p->user_op_cap * sizeof *p->user_ops);
    p->user_ops = NULL;
    p->user_op_cap = 0;
}

void uvcc_program_free(uvcc_program *p) {
    if (p == NULL)
        return;
    drop_tables(p);
    drop_user_ops(p);
    for (uint32_t i = 0; i < p->tensor_count; i++)
        release(p, p->tensors[i].constant, p->tensors[i].elems * sizeof(int64_t));
    release(p, p->tensors, p->tensor_cap * sizeof *p->tensors);
    release(p, p->entries, p->entry_cap * sizeof *p->entries);
    release(p, p->inputs, p->input_cap * sizeof *p->inputs);
    release(p, p->outputs, p->output_cap * sizeof *p->outputs);
    for (uint32_t i = 0; i < p->function_count; i++)
        release(p, p->functions[i], p->functions[i]->bytes);
    release(p, p->functions, p->function_cap * sizeof *p->functions);
    release(p, p->recipes, p->recipe_cap * sizeof *p->recipes);
    release(p, p->by_name, p->by_name_cap * sizeof *p->by_name);
    uvcc_allocator al = p->alloc;
    al.free(al.user, p, sizeof *p, UVCC_MEM_STATE);
}

/* Room for one more item: the array itself, or a larger copy; NULL (and nothing changed) if there
 * is no memory. The limits above keep every size far below SIZE_MAX. */
static void *with_room(const uvcc_program *p, void *items, uint32_t count, uint32_t *cap,
                       size_t size) {
    assert(count <= *cap && (items != NULL || *cap == 0));
    if (count < *cap)
        return items;
    const uint32_t cap_new = *cap == 0 ? 16 : *cap + *cap / 2;
    void *bigger = p->alloc.alloc(p->alloc.user, (size_t)cap_new * size, UVCC_MEM_STATE);
    if (bigger == NULL)
        return NULL;
    if (count != 0)
        memcpy(bigger, items, (size_t)count * size);
    release(p, items, *cap * size);
    *cap = cap_new;
    return bigger;
}

/* Copies a name; false if it is too long. NULL gives "". */
static bool copy_name(char out[UVCCI_NAME_BYTES], const char *name) {
    size_t len = name == NULL ? 0 : strnlen(name, UVCCI_NAME_BYTES);
    if (len == UVCCI_NAME_BYTES)
        return false;
    memset(out, 0, UVCCI_NAME_BYTES);
    if (len != 0)
        memcpy(out, name, len);
    return true;
}

int uvcc_program_tensor(uvcc_program *p, const uvcc_tensor_desc *t) {
    uvcci_tensor n = {0};
    if (p == NULL || t == NULL || t->name == NULL || t->name[0] == 0 || !copy_name(n.name, t->name))
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    if (p->tensor_count == UVCCI_MAX_TENSORS)
        return UVCC_ERR_LIMIT;
    uvcci_tensor *room =
        with_room(p, p->tensors, p->tensor_count, &p->tensor_cap, sizeof *p->tensors);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    n.desc = *t;
    n.name_hash = uvcci_hash_name(n.name);
    n.elems = (uint64_t)t->rows * t->cols;
    n.width = 8;
    room[p->tensor_count] = n;
    bool moved = room != p->tensors;
    p->tensors = room;
    for (uint32_t i = moved ? 0 : p->tensor_count; i <= p->tensor_count; i++)
        room[i].desc.name = room[i].name;
    if (uvcci_tensor_names_put(p, p->tensor_count) != 0)
        return UVCC_ERR_NOMEM;
    return (int)p->tensor_count++;
}

int uvcc_program_constant(uvcc_program *p, uint32_t tensor, const int64_t *values) {
    if (p == NULL || values == NULL || tensor >= p->tensor_count)
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    uvcci_tensor *t = &p->tensors[tensor];
    if (t->desc.sharing != UVCC_PUBLIC || t->constant != NULL || t->elems == 0 ||
        t->elems > UVCCI_MAX_ELEMS)
        return UVCC_ERR_USAGE;
    if (t->desc.bits > 63 || !uvcci_all_within(values, t->elems, t->desc.bits))
        return UVCC_ERR_BOUND;
    const size_t bytes = t->elems * sizeof *values;
    t->constant = p->alloc.alloc(p->alloc.user, bytes, UVCC_MEM_STATE);
    if (t->constant == NULL)
        return UVCC_ERR_NOMEM;
    memcpy(t->constant, values, bytes);
    return 0;
}

int uvcc_program_function(uvcc_program *p, const uvcc_function *f) {
    if (p == NULL || f == NULL)
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    if (p->function_count == UVCCI_MAX_FUNCTIONS)
        return UVCC_ERR_LIMIT;
    uvcci_function **room =
        with_room(p, p->functions, p->function_count, &p->function_cap, sizeof *p->functions);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    p->functions = room;
    int err = uvcci_fn_copy(&room[p->function_count], f, &p->alloc);
    return err == 0 ? (int)p->function_count++ : err;
}

uvcci_recipe *uvcci_recipe_of(uvcc_program *p, const uint8_t key[UVCCI_RECIPE_KEY_BYTES]) {
    for (uint32_t i = 0; i < p->recipe_count; i++)
        if (memcmp(p->recipes[i].key, key, UVCCI_RECIPE_KEY_BYTES) == 0)
            return &p->recipes[i];
    uvcci_recipe *room =
        with_room(p, p->recipes, p->recipe_count, &p->recipe_cap, sizeof *p->recipes);
    if (room == NULL)
        return NULL;
    p->recipes = room;
    uvcci_recipe *new = &room[p->recipe_count++];
    *new = (uvcci_recipe){.function = UVCCI_NO_FUNCTION};
    memcpy(new->key, key, UVCCI_RECIPE_KEY_BYTES);
    return new;
}

int uvcc_program_entry(uvcc_program *p, const char *name) {
    uvcci_entry n = {0};
    if (p == NULL || name == NULL || name[0] == 0 || !copy_name(n.name, name))
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    if (p->entry_count == UVCCI_MAX_ENTRIES)
        return UVCC_ERR_LIMIT;
    uvcci_entry *room = with_room(p, p->entries, p->entry_count, &p->entry_cap, sizeof *p->entries);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    n.user_first = p->user_op_count;
    n.input_first = p->input_count;
    n.output_first = p->output_count;
    n.stages = 1;
    room[p->entry_count] = n;
    p->entries = room;
    return (int)p->entry_count++;
}

/* The entry that is being built. */
static int open_entry(const uvcc_program *p, uvcci_entry **e) {
    if (p->finished || p->entry_count == 0)
        return UVCC_ERR_STATE;
    assert(p->entries != NULL);
    *e = &p->entries[p->entry_count - 1];
    if ((*e)->user_count + (*e)->input_count + (*e)->output_count == UVCCI_MAX_OPS)
        return UVCC_ERR_LIMIT;
    return 0;
}

int uvcc_program_op(uvcc_program *p, const uvcc_op_desc *op) {
    uvcci_op n = {0};
    if (p == NULL || op == NULL || op->in_count > UVCC_OP_MAX_IN ||
        op->out_count > UVCC_OP_MAX_OUT || !copy_name(n.name, op->name))
        return UVCC_ERR_USAGE;
    uvcci_entry *e;
    int err = open_entry(p, &e);
    if (err != 0)
        return err;
    uvcci_op *room =
        with_room(p, p->user_ops, p->user_op_count, &p->user_op_cap, sizeof *p->user_ops);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    p->user_ops = room;
    assert(p->user_op_count == e->user_first + e->user_count);
    n.desc = *op;
    for (uint32_t i = op->in_count; i < UVCC_OP_MAX_IN; i++)
        n.desc.in[i] = UVCC_NO_TENSOR;
    for (uint32_t i = op->out_count; i < UVCC_OP_MAX_OUT; i++)
        n.desc.out[i] = UVCC_NO_TENSOR;
    room[p->user_op_count++] = n;
    return (int)e->user_count++;
}

int uvcc_program_input(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t owner) {
    return uvcc_program_input_mb(p, id, tensor, owner, 0);
}

int uvcc_program_input_mb(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t owner,
                          uint16_t mb) {
    if (p == NULL || owner >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    uvcci_entry *e;
    int err = open_entry(p, &e);
    if (err != 0)
        return err;
    if (e->input_count == UVCCI_MAX_INPUTS)
        return UVCC_ERR_LIMIT;
    uvcc_io_desc *room = with_room(p, p->inputs, p->input_count, &p->input_cap, sizeof *p->inputs);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    assert(p->input_count == e->input_first + e->input_count);
    p->inputs = room;
    room[p->input_count++] = (uvcc_io_desc){.id = id, .tensor = tensor, .owner = owner, .mb = mb};
    return (int)e->input_count++;
}

static int add_output(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t receiver) {
    uvcci_entry *e;
    int err = open_entry(p, &e);
    if (err != 0)
        return err;
    uvcc_io_desc *room =
        with_room(p, p->outputs, p->output_count, &p->output_cap, sizeof *p->outputs);
    if (room == NULL)
        return UVCC_ERR_NOMEM;
    assert(p->output_count == e->output_first + e->output_count);
    p->outputs = room;
    room[p->output_count++] = (uvcc_io_desc){.id = id, .tensor = tensor, .receiver = receiver};
    return (int)e->output_count++;
}

int uvcc_program_output(uvcc_program *p, uint32_t id, uint32_t tensor) {
    return p == NULL ? UVCC_ERR_USAGE : add_output(p, id, tensor, UVCC_TO_ALL);
}

int uvcc_program_output_to(uvcc_program *p, uint32_t id, uint32_t tensor, uint8_t receiver) {
    if (p == NULL || receiver >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    return add_output(p, id, tensor, receiver);
}

int uvcc_program_pipeline(uvcc_program *p, uint32_t stage, uint32_t stages, uint32_t ahead) {
    if (p == NULL || stages == 0 || stages > UVCCI_MAX_STAGES || stage >= stages)
        return UVCC_ERR_USAGE;
    uvcci_entry *e;
    int err = open_entry(p, &e);
    if (err != 0)
        return err;
    e->stage = stage;
    e->stages = stages;
    e->ahead = ahead;
    return 0;
}

int uvcc_program_topology(uvcc_program *p, uint32_t replicas, uint32_t stages, uint32_t tp_ranks) {
    if (p == NULL || replicas > UINT16_MAX || stages > UINT16_MAX || tp_ranks > UINT16_MAX)
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    const uvcci_topology t = {(uint16_t)replicas, (uint16_t)stages, (uint16_t)tp_ranks};
    if (uvcci_topology_check(&t) != 0)
        return UVCC_ERR_USAGE;
    p->replicas = replicas;
    p->stages = stages;
    p->tp_ranks = tp_ranks;
    return 0;
}

int uvcc_program_window(uvcc_program *p, uint64_t bytes) {
    if (p == NULL || bytes == 0)
        return UVCC_ERR_USAGE;
    if (p->finished)
        return UVCC_ERR_STATE;
    p->window = bytes;
    return 0;
}

/* ---- finishing ---- */

/* In how few bytes a session keeps the elements of public tensors: as few as their bits take, where
 * all that read them can. */
static void set_widths(uvcc_program *p) {
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        uvcci_tensor *t = &p->tensors[i];
        if (t->desc.sharing == UVCC_PUBLIC && t->constant == NULL)
            t->width = t->desc.bits <= 15 ? 2 : t->desc.bits <= 31 ? 4 : 8;
    }
    for (uint32_t i = 0; i < p->user_op_count; i++) {
        const uvcc_op_desc *d = &p->user_ops[i].desc;
        for (uint32_t k = 0; k < d->in_count && !uvcci_op_has(d->opcode, UVCCI_READS_NARROW); k++)
            p->tensors[d->in[k]].width = 8;
    }
}

int uvcc_program_finish(uvcc_program *p, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (p == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no program");
    if (p->finished)
        return uvcci_fail(&m, UVCC_ERR_STATE, "the program is finished already");
    if (p->entry_count == 0)
        return uvcci_fail(&m, UVCC_ERR_PROGRAM, "the program has no entry");
    int err = 0;
    for (uint32_t i = 0; i < p->tensor_count && err == 0; i++)
        err = uvcci_check_tensor(p, i, &m);
    for (uint32_t i = 0; i < p->function_count && err == 0; i++)
        err = uvcci_check_instructions(&p->functions[i]->f, &m);
    for (uint32_t i = 0; i < p->entry_count && err == 0; i++)
        err = uvcci_check_entry(p, i, &m);
    for (uint32_t i = 0; i < p->entry_count && err == 0; i++)
        err = uvcci_order_entry(p, &p->entries[i], &m);
    if (err != 0) {
        drop_tables(p);
        return err == UVCC_ERR_NOMEM ? uvcci_fail(&m, err, "out of memory") : err;
    }
    for (uint32_t i = 0; i < p->entry_count; i++)
        assert(p->entries[i].mem != NULL);
    uvcci_hash_program(p);
    set_widths(p);
    drop_user_ops(p);
    p->finished = true;
    return uvcci_fail(&m, 0, "%s", "");
}

/* ---- reading ---- */

void uvcc_program_hash(const uvcc_program *p, uint8_t out[32]) {
    if (p == NULL || out == NULL)
        return;
    memcpy(out, p->hash, 32);
}

uint32_t uvcc_program_tensor_count(const uvcc_program *p) {
    if (p == NULL)
        return 0;
    return p->tensor_count;
}

const uvcc_tensor_desc *uvcc_program_tensor_at(const uvcc_program *p, uint32_t i) {
    if (p == NULL)
        return NULL;
    return i < p->tensor_count ? &p->tensors[i].desc : NULL;
}

uint64_t uvcc_program_share_words(const uvcc_program *p, uint32_t i) {
    if (p == NULL || i >= p->tensor_count)
        return 0;
    return uvcci_component_words(&p->tensors[i]);
}

uint32_t uvcc_program_element_bytes(const uvcc_program *p, uint32_t i) {
    return p != NULL && p->finished && i < p->tensor_count ? p->tensors[i].width : 0;
}

int uvcc_program_find(const uvcc_program *p, const char *name) {
    if (p == NULL || name == NULL)
        return UVCC_ERR_USAGE;
    const uint32_t i = uvcci_tensor_named(p, name);
    return i != UVCC_NO_TENSOR ? (int)i : UVCC_ERR_NOT_FOUND;
}

const uvcc_function *uvcc_program_function_at(const uvcc_program *p, uint32_t i) {
    if (p == NULL)
        return NULL;
    return i < p->function_count ? &p->functions[i]->f : NULL;
}

uint32_t uvcc_program_entry_count(const uvcc_program *p) {
    if (p == NULL)
        return 0;
    return p->entry_count;
}

const char *uvcc_program_entry_name(const uvcc_program *p, uint32_t entry) {
    if (p == NULL)
        return NULL;
    return entry < p->entry_count ? p->entries[entry].name : NULL;
}

int uvcc_program_find_entry(const uvcc_program *p, const char *name) {
    if (p == NULL || name == NULL)
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; name != NULL && i < p->entry_count; i++)
        if (strcmp(p->entries[i].name, name) == 0)
            return (int)i;
    return UVCC_ERR_NOT_FOUND;
}

/* Tables are there once the program is finished; before that an entry looks empty. */
static const uvcci_entry *entry_at(const uvcc_program *p, uint32_t entry) {
    return p->finished && entry < p->entry_count ? &p->entries[entry] : NULL;
}

uint32_t uvcc_program_op_count(const uvcc_program *p, uint32_t entry) {
    if (p == NULL)
        return 0;
    const uvcci_entry *e = entry_at(p, entry);
    return e != NULL ? e->op_count : 0;
}

const uvcc_op_desc *uvcc_program_op_at(const uvcc_program *p, uint32_t entry, uint32_t i) {
    if (p == NULL)
        return NULL;
    return i < uvcc_program_op_count(p, entry) ? &p->entries[entry].ops[i].desc : NULL;
}

uint32_t uvcc_program_input_count(const uvcc_program *p, uint32_t entry) {
    if (p == NULL)
        return 0;
    const uvcci_entry *e = entry_at(p, entry);
    return e != NULL ? e->input_count : 0;
}

const uvcc_io_desc *uvcc_program_input_at(const uvcc_program *p, uint32_t entry, uint32_t i) {
    if (p == NULL)
        return NULL;
    return i < uvcc_program_input_count(p, entry) ? &p->entries[entry].inputs[i] : NULL;
}

uint32_t uvcc_program_output_count(const uvcc_program *p, uint32_t entry) {
    if (p == NULL)
        return 0;
    const uvcci_entry *e = entry_at(p, entry);
    return e != NULL ? e->output_count : 0;
}

const uvcc_io_desc *uvcc_program_output_at(const uvcc_program *p, uint32_t entry, uint32_t i) {
    if (p == NULL)
        return NULL;
    return i < uvcc_program_output_count(p, entry) ? &p->entries[entry].outputs[i] : NULL;
}

int uvcc_program_life(const uvcc_program *p, uint32_t entry, uint32_t buffer,
                      uvcc_buffer_life *out) {
    if (p == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_entry *e = entry_at(p, entry);
    if (e == NULL || out == NULL || buffer >= p->tensor_count ||
        p->tensors[buffer].buffer != buffer)
        return UVCC_ERR_USAGE;
    assert(e->life[buffer].reads <= e->uses[buffer]);
    *out = e->life[buffer];
    return 0;
}

int uvcc_program_followers(const uvcc_program *p, uint32_t entry, uint32_t i, uint32_t *out,
                           uint32_t cap) {
    if (p == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_entry *e = entry_at(p, entry);
    if (e == NULL || i >= e->op_count || (out == NULL && cap != 0))
        return UVCC_ERR_USAGE;
    const uvcci_op *op = &e->ops[i];
    assert(op->succ_count < e->op_count);
    for (uint32_t n = 0; n < op->succ_count && n < cap; n++)
        out[n] = e->succ[op->succ_first + n];
    return (int)op->succ_count;
}
