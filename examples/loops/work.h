/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - what the examples compute: relu(X W), or a perceptron on the digits, trained. */
#ifndef EXAMPLE_WORK_H
#define EXAMPLE_WORK_H

#include <stdbool.h>

#include <uvcc/mlp.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

typedef struct work {
    bool mlp;
    uint8_t party;
    uvcc_program *program;
    uint32_t steps; /* of the job, numbered from 0 */
    /* Party 0's features and party 1's labels, by row; NULL at the others. */
    int64_t *x, *y;
} work;

/** name: "relu" or "mlp"; data: the digits, for parties 0 and 1 of "mlp". 0, or it was said what is
 * wrong. */
int work_open(work *w, const char *name, uint8_t party, const char *data);
void work_close(work *w);
/** The entry that a step runs. */
uint32_t work_entry(const work *w, uint32_t step);
/** The values with which the job begins. */
int work_first_values(const work *w, uvcc_session *s);
/** This party's inputs of a step. */
int work_inputs(const work *w, uvcc_store *st, uvcc_session *s, uint32_t step, uint64_t now);
/** Prints what a step opened. */
void work_outputs(const work *w, uvcc_session *s, uint32_t step);

#endif
