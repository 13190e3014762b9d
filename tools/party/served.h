/* SPDX-License-Identifier: Apache-2.0 */
/* served.h - what a job that serves makes of its clients' requests: a perceptron, or a pretrained
 * transformer. work_serve.c knows requests and steps, these know weights and programs.
 *
 * Functions that return an int return an exit status, after reporting, or WORK_LATER. */
#ifndef UVCC_TOOLS_PARTY_SERVED_H
#define UVCC_TOOLS_PARTY_SERVED_H

#include "../serving.h"
#include "work.h"

typedef struct served_kind {
    /* From job.run and data; *form is what requests are like. */
    int (*open)(void **served, const work_config *c, serving_form *form);
    void (*close)(void *served);
    int (*program)(void *served, uvcc_program **out, serving_program *at);
    /* So many steps give the weights, before all others; the entry of one, and a weight of this
     * party by the id of its input. */
    uint32_t (*weight_steps)(const void *served);
    uint32_t (*weight_entry)(const void *served, const uvcc_program *p, uint32_t step);
    const int64_t *(*weight)(void *served, uint32_t id);
    /* A request takes so many steps, one behind the other; the entry of one; what is set before it,
     * as prepare() of work.h. NULL: one, serving_program.serve_entry, with nothing. */
    uint32_t (*parts)(const void *served);
    const char *(*part_entry)(const void *served, uint32_t part);
    int (*before_part)(void *served, const work_worker *w, uvcc_session *s, uint32_t part);
    /* Weights that are no input: as of work.h. */
    int (*first_values)(void *served, const work_worker *w, uvcc_session *s);
    /* As of work.h; NULL: nothing. */
    uint64_t (*agree)(const void *served, const char **name);
    int (*share)(void *served, const char *dir);
} served_kind;

extern const served_kind served_perceptron, served_transformer;

#endif
