/* SPDX-License-Identifier: Apache-2.0 */
/* function_op.c - FUNCTION: a nonlinear function on shares, by instructions; functions.c has its
 * turns and what OTHER deals. */
#include "exec/ops/dealing.h"
#include "exec/ops/families.h"
#include "exec/ops/functions.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"

#include <assert.h>
#include <string.h>
#include <uvcc/compute.h>

/* ---- what it asks of its tensors ---- */

/* The instruction of that width with the largest key of its own. */
static unsigned largest_key(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width) {
    unsigned at = 0;
    uint32_t most = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const bool own = uvcci_fn_owns_key(f, plan, i) && plan->instr[i].width == width;
        const uint32_t bytes = own ? uvcci_fn_key_bytes(&f->instrs[i], 1) : 0;
        at = bytes > most ? i : at;
        most = bytes > most ? bytes : most;
    }
    return at;
}

/* Keys of a block go in one message. */
static int check_keys(const uvcci_op_check *c, const uvcc_function *f) {
    uvcci_fn_plan plan;
    const int err = uvcci_fn_compile(f, c->in[0]->cols, NULL, &plan, NULL, 0);
    for (unsigned i = 0; i < f->instr_count && err == 0; i++) {
        const uint32_t width = plan.instr[i].width;
        const uint32_t count = uvcci_block_count((uint64_t)c->in[0]->rows * width, 0);
        const uint64_t bytes = uvcci_fn_stream_bytes(f, &plan, width, true, count);
        const unsigned largest = largest_key(f, &plan, width);
        if (!uvcci_plan_keys_fit(bytes))
            return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                              "%s: function %s has %llu B of keys for an element of width %u, most "
                              "in instruction %u (%s): more than a message holds for %u elements",
                              c->label, uvcci_fn_name(f), (unsigned long long)(bytes / count),
                              width, largest, uvcci_fn_kind_name(f->instrs[largest].kind), count);
    }
    return err;
}

/* Fills what the function makes of the inputs in *use. */
static int check_use(const uvcci_op_check *c, const uvcc_function *f, uvcci_fn_use *use) {
    char text[UVCCI_NAME_BYTES + 256];
    const int err =
        uvcc_function_check(f, use->cols, use->in_bits, use->out_bits, text, sizeof text);
    if (err != 0)
        return uvcci_fail(c->m, err, "%s: %s", c->label, text);
    for (uint8_t o = 0; o < f->outputs; o++)
        use->out_cols[o] = uvcc_function_cols(f, use->cols, o);
    return check_keys(c, f);
}

/* Shapes and bits; a function does not know scales. */
static int check(const uvcci_op_check *c) {
    assert(c->d->function < c->p->function_count); /* fields are checked before */
    uvcci_function *own = c->p->functions[c->d->function];
    const uvcc_function *f = &own->f;
    if (c->d->in_count != f->inputs || c->d->out_count != f->outputs)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s has %u inputs and %u outputs; function %s takes %u and %u", c->label,
                          c->d->in_count, c->d->out_count, uvcci_fn_name(f), f->inputs, f->outputs);
    uvcci_fn_use use = {.rows = c->in[0]->rows, .cols = c->in[0]->cols};
    int err = 0;
    for (unsigned i = 0; i < f->inputs && err == 0; i++) {
        use.in_bits[i] = c->in[i]->bits;
        err = uvcci_want_same_shape(c, c->in[i], c->in[0]);
    }
    const bool known = use.rows == own->checked.rows && use.cols == own->checked.cols &&
                       memcmp(use.in_bits, own->checked.in_bits, sizeof use.in_bits) == 0;
    if (err == 0 && !known)
        err = check_use(c, f, &use);
    if (err != 0)
        return err;
    if (!known)
        own->checked = use;
    for (uint8_t o = 0; o < f->outputs && err == 0; o++) {
        const unsigned bits = own->checked.out_bits[o];
        err = uvcci_want_shape(c, c->out[o], use.rows, own->checked.out_cols[o]);
        if (err == 0 && c->out[o]->bits < bits)
            err = uvcci_fail(c->m, UVCC_ERR_BOUND, "%s: %s declares %u bits, but needs %u",
                             c->label, c->out[o]->name, c->out[o]->bits, bits);
    }
    return err;
}

/* ---- plan ---- */

static int plan(uvcci_draft *d) {
    assert(d->op->desc.function < d->p->function_count);
    return uvcci_plan_function(d, d->p, d->op, &d->fn);
}

/* Rows; elements where no instruction looks beyond one. */
static uint64_t units(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element) {
    const uvcci_tensor *in = &p->tensors[d->in[0]];
    const uvcc_function *f = &p->functions[d->function]->f;
    uvcci_fn_plan compiled;
    *by_element =
        uvcci_fn_compile(f, in->desc.cols, NULL, &compiled, NULL, 0) == 0 && !compiled.one_edge;
    for (unsigned i = 0; *by_element && i < f->instr_count; i++)
        *by_element = compiled.instr[i].width == in->desc.cols;
    return *by_element ? in->elems : in->desc.rows;
}

static uint32_t key_bytes(const uvcci_plan *p, const uvcci_plan_round *r, uint32_t count,
                          uvcc_role role) {
    assert(p->fn != NULL && r->vec[0].instr < p->function->instr_count);
    const uint32_t width = p->fn->instr[r->vec[0].instr].width;
    return (uint32_t)uvcci_fn_stream_bytes(p->function, p->fn, width, role == UVCC_TAIL, count);
}

/* ---- dealing: task by task ---- */

/* Where the streams of all blocks go, in the order of their rounds of keys. */
static int deal(uvcc_session *s, const uvcci_deal *d, uvcc_task *tasks, uint32_t *count) {
    static const uvcc_role to[2] = {UVCC_HEAD, UVCC_TAIL};
    uvcci_instance *r = d->r;
    uint8_t **keys[2];
    for (unsigned k = 0; k < 2; k++) {
        keys[k] = uvcci_bump_take(&r->deal_bump, uvcci_keys_blocks(r) * sizeof *keys[k]);
        if (keys[k] == NULL)
            return UVCC_ERR_NOMEM;
        uint32_t n = 0;
        for (unsigned g = 0; g < r->plan->key_count; g++)
            for (uint32_t i = 0; i < uvcci_keys_round(r, g)->blocks; i++)
                keys[k][n++] = uvcci_deal_stream(s, d, g, i, to[k]);
        assert(n == uvcci_keys_blocks(r));
    }
    return uvcci_function_deal(s, r, keys, tasks, count);
}

/* ---- what it takes at most ---- */

static uint64_t elems_of(const uvcci_plan *p, unsigned instr) {
    return p->elems / p->fn->instr[0].width * p->fn->instr[instr].width;
}

/* Vectors of an instruction's value that are there in a turn: see free_past() in functions.c. */
static uint64_t value_bytes(const uvcci_plan *p, unsigned i, unsigned turn) {
    const uvcc_fn_instr *d = &p->function->instrs[i];
    const uvcci_fn_info *info = &p->fn->instr[i];
    const uint64_t words = uvcci_arena_rounded(elems_of(p, i) * 8);
    const bool past = info->turn + 1u < turn;
    uint64_t bytes = 0;
    if (info->turn > turn)
        return 0;
    if (!past || info->last >= turn) /* x, p and both components */
        bytes += words * (1u + info->pads +
                          (d->kind == UVCC_FN_EXCHANGE || d->kind == UVCC_FN_LIFT ? 2u : 0u));
    if (info->sends && !past) {
        const uint64_t bits = d->kind == UVCC_FN_OPEN ? d->bits : d->word_count;
        bytes += 2 * words + uvcci_arena_rounded((uint64_t)uvcci_blocks(elems_of(p, i)) *
                                                 UVCC_BLOCK_ELEMS / 8 * bits);
    }
    return bytes;
}

static uint64_t tensor_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    uint64_t most = 0;
    (void)p;
    (void)op;
    for (unsigned turn = 0; turn <= plan->turns; turn++) {
        uint64_t bytes = 0;
        for (unsigned i = 0; i < plan->function->instr_count; i++)
            bytes += value_bytes(plan, i, turn);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Masks and bits of those that OTHER knows, and signs of those that own a key. */
static uint64_t deal_words(const uvcci_plan *plan) {
    uint64_t words = 0;
    for (unsigned i = 0; i < plan->function->instr_count; i++)
        words += elems_of(plan, i) * (plan->fn->instr[i].dealer + 1u);
    return words;
}

/* ---- the family ---- */

static const uvcci_op_way way = {.state_bytes = sizeof(uvcci_fn_state),
                                 .tensor_bytes = tensor_bytes,
                                 .deal_words = deal_words,
                                 .key_bytes = key_bytes,
                                 .head_begins_tail = true, /* TAIL's words come last */
                                 .build = uvcci_function_build,
                                 .release = uvcci_function_free,
                                 .deal_tasks = uvcci_function_deal_tasks,
                                 .deal = deal};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_FUNCTION,
     .traits = UVCCI_USES_FUNCTION,
     .check = check,
     .units = units,
     .plan = plan,
     .way = &way},
};
const uvcci_op_family uvcci_ops_function = UVCCI_FAMILY(classes);
