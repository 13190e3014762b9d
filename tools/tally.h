/* SPDX-License-Identifier: Apache-2.0 */
/* tally.h - what each op of a job's programs did and sent, beside what it costs by the formula of
 * uvcc_program_cost(); summed up by kind of op, by section (layers) and by entry (steps). */
#ifndef UVCC_TOOLS_TALLY_H
#define UVCC_TOOLS_TALLY_H

#include <jansson.h>
#include <stdio.h>
#include <uvcc/program.h>

typedef struct tally tally;

enum { TALLY_NAME_BYTES = 48 };

/* The name of the section that an op belongs to. */
typedef void (*tally_section)(void *user, const char *entry, const uvcc_op_desc *op,
                              char out[TALLY_NAME_BYTES]);

/* NULL: no memory. */
tally *tally_new(void);
/* Without one a section is a block of k in its phase, the inputs, or what is opened. */
void tally_name_by(tally *t, tally_section name, void *user);
/* An op of a program, which outlives the tally, was done at one party, or sent bytes: online, or
 * before (of keys and triples). -1: no memory. */
int tally_done(tally *t, const uvcc_program *p, uint32_t entry, uint32_t op);
int tally_sent(tally *t, const uvcc_program *p, uint32_t entry, uint32_t op, bool before,
               uint64_t bytes);

/* What every op's runs cost by the formula, one after the other. -1: no memory. */
typedef void (*tally_visit)(void *user, const uvcc_program *p, const uvcc_op_desc *d,
                            const uint64_t formula[2]);
int tally_formulas(const tally *t, tally_visit visit, void *user);

/* Both tables; shares are of all_bytes. -1: no memory. */
int tally_print(const tally *t, uint64_t all_bytes, FILE *to);
/* Sets "layers" and "entries" in o. -1: no memory. */
int tally_json(const tally *t, uint64_t all_bytes, json_t *o);

/* NULL is allowed. */
void tally_free(tally *t);

/* Room for one more in a list on the heap that grows; NULL without memory. */
void *tally_room(void *items, uint32_t count, uint32_t *cap, size_t size);

#endif
