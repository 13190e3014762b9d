/* SPDX-License-Identifier: Apache-2.0 */
/* function_cost.c - what is known of a function before it runs: the bits of its outputs, columns,
 * rounds, bytes and keys; all of it read off its compiled form. */
#include "exec/base/bounds.h"
#include "exec/base/message.h"
#include "exec/program/fn_class.h"
#include "proto/engine.h"

#include <assert.h>

/* The output that an instruction writes, or UVCC_FN_NONE. */
static uint8_t output_of(const uvcc_fn_instr *s) {
    const uvcci_fn_class *class = uvcci_fn_class_of(s->kind);
    return class != NULL && (class->traits & UVCCI_FN_WRITES) != 0 ? s->io : UVCC_FN_NONE;
}

int uvcc_function_check(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                        uint8_t *out_bits, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcci_fn_plan plan;
    if (in_bits == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "the bits of the inputs are missing");
    int err = uvcci_fn_compile(f, cols, in_bits, &plan, message, message_cap);
    for (unsigned i = 0; err == 0 && out_bits != NULL && i < f->instr_count; i++)
        if (output_of(&f->instrs[i]) != UVCC_FN_NONE)
            out_bits[f->instrs[i].io] = (uint8_t)uvcci_bits_of(plan.instr[i].bound);
    return err;
}

uint32_t uvcc_function_cols(const uvcc_function *f, uint32_t cols, uint8_t output) {
    uvcci_fn_plan plan;
    if (output == UVCC_FN_NONE || uvcci_fn_compile(f, cols, NULL, &plan, NULL, 0) != 0)
        return 0;
    for (unsigned i = 0; i < f->instr_count; i++)
        if (output_of(&f->instrs[i]) == output)
            return plan.instr[i].width;
    return 0;
}

uint32_t uvcci_fn_key_bytes(const uvcc_fn_instr *s, uint32_t c) {
    const uvcci_fn_class *class = uvcci_fn_class_of(s->kind);
    assert(class != NULL && class->key_bytes != NULL);
    return class->key_bytes(s, c);
}

uint64_t uvcci_fn_stream_bytes(const uvcc_function *f, const uvcci_fn_plan *plan, uint32_t width,
                               bool tail, uint32_t c) {
    uint64_t sum = 0;
    assert(width != 0 && c != 0);
    for (unsigned i = 0; i < f->instr_count; i++) {
        if (plan->instr[i].width != width)
            continue;
        if (uvcci_fn_owns_key(f, plan, i))
            sum += uvcci_fn_key_bytes(&f->instrs[i], c);
        sum += tail ? 8ull * plan->instr[i].words * c : 0;
    }
    return sum;
}

/* Payload bytes that all parties send for one element of the instruction: HEAD's part and TAIL's
 * of each vector. */
static double online_bytes(const uvcc_fn_instr *s) {
    const uvcci_fn_class *class = uvcci_fn_class_of(s->kind);
    uvcci_fn_vector v[UVCCI_FN_VECTORS_MAX];
    double bytes = 0;
    const unsigned n = class->sends != NULL ? class->sends(s, UVCCI_PROTO_LIFT_PARALLEL, v) : 0;
    assert(n <= UVCCI_FN_VECTORS_MAX);
    for (unsigned i = 0; i < n; i++)
        bytes += 2 * v[i].bits / 8.0;
    return bytes;
}

int uvcc_function_cost(const uvcc_function *f, uint32_t cols, uvcc_fn_cost *out) {
    uvcci_fn_plan plan;
    if (out == NULL)
        return UVCC_ERR_USAGE;
    int err = uvcci_fn_compile(f, cols, NULL, &plan, NULL, 0);
    if (err != 0)
        return err;
    *out = (uvcc_fn_cost){.rounds = plan.rounds};
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcci_fn_info *info = &plan.instr[i];
        assert(info->width != 0);
        const double weight = (double)info->width / cols;
        const uint32_t cw =
            uvcci_fn_owns_key(f, &plan, i) ? 2 * uvcci_fn_key_bytes(&f->instrs[i], 1) : 0;
        out->online_bytes += weight * online_bytes(&f->instrs[i]);
        out->key_bytes += weight * (cw + 8.0 * info->words);
    }
    return 0;
}

unsigned uvcc_function_low_bits(const uvcc_fn_instr *instr) {
    const uvcci_fn_class *class = instr != NULL ? uvcci_fn_class_of(instr->kind) : NULL;
    return class != NULL && class->low_bits != NULL ? class->low_bits(instr) : 0;
}
