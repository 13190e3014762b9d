/* SPDX-License-Identifier: Apache-2.0 */
/* measure_plan.h - what is measured of one nonlinear function, whoever runs the parties: the
 * entries of a program, their inputs in an order that a seed gives, and what opened values are
 * compared with.
 *
 * A program has an entry that only takes and opens tensors of the same shapes, one that runs the
 * function on batches, and for functions of rows one for each of some other widths. A step of the
 * first is subtracted from each step of the second. */
#ifndef UVCC_TOOLS_MEASURE_PLAN_H
#define UVCC_TOOLS_MEASURE_PLAN_H

#include <uvcc/uvcc.h>

#include "measure.h"
#include "measure_real.h"

enum {
    MEASURE_OUTPUTS_MAX = 2,
    MEASURE_WITHOUT = 0, /* entries */
    MEASURE_WITH = 1,
    MEASURE_ENTRIES_MAX = 8,
    MEASURE_WITHOUT_STEPS = 2, /* the first one carries what only a first step does */
};

typedef struct measure_entry {
    measure_shape shape;
    uint32_t in[MEASURE_INPUTS_MAX], out[MEASURE_OUTPUTS_MAX];
} measure_entry;

typedef struct measure_plan {
    const measure_job *job; /* outlives it */
    const uvcc_nonlinear_info *info;
    uvcc_allocator al;
    uvcc_program *program; /* to which the entries were added */
    uint32_t base;         /* the number of its first entry */
    uvcc_reference *reference;
    measure_entry entry[MEASURE_ENTRIES_MAX];
    unsigned entries, inputs, outputs;
    uint64_t random;
    size_t room;                     /* elements of the largest shape */
    int64_t *list;                   /* all inputs of an element function */
    int64_t *in[MEASURE_INPUTS_MAX]; /* of a step */
    double *want, *bound;
    uint64_t counted; /* errors */
    double error_sum;
    measure_result result;
} measure_plan;

/* Of a job; measure_plan_free() follows. */
void measure_plan_of(measure_plan *p, const measure_job *job);
void measure_plan_free(measure_plan *p);
uint64_t measure_batches(const measure_plan *p);

/* Adds its entries to a program that is being built. 0 or a negative UVCC_ERR. Party i gives input
 * i of an entry, 10 * (base + entry) + i; outputs are numbered alike. */
int measure_plan_add(measure_plan *p, uvcc_program *program);
uint32_t measure_id(const measure_plan *p, unsigned entry, unsigned i);
/* The plaintext run of the finished program, for MEASURE_REFERENCE. */
int measure_plan_reference(measure_plan *p);

/* These return an exit status after reporting. Room for inputs, and those of an element function:
 */
int measure_plan_room(measure_plan *p);
/* p->in for a step of an entry. Steps are filled in this order: one for MEASURE_WITHOUT, whose
 * steps all have the same; the batches of MEASURE_WITH; one for each other entry. */
void measure_plan_fill(measure_plan *p, unsigned entry, uint64_t batch);
/* What was opened for p->in, with the plaintext run; and with the real function: */
int measure_plan_compare(measure_plan *p, unsigned entry, const int64_t *const *opened);
void measure_plan_errors(measure_plan *p, unsigned entry, const int64_t *opened);
/* After the last one. */
void measure_plan_finish(measure_plan *p);
size_t measure_plan_elements(const measure_plan *p, unsigned entry); /* of an output */

uvcc_nonlinear_options measure_plan_options(const measure_plan *p, unsigned entry);

#endif
