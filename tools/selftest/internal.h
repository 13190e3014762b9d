/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of the vectors share: cases as they are run. */
#ifndef UVCC_TOOLS_SELFTEST_INTERNAL_H
#define UVCC_TOOLS_SELFTEST_INTERNAL_H

#include "vectors.h"

/* Of operands and results that a file shows as they are; longer ones have a digest. */
enum { VECTOR_SHOWN_BYTES = 64 };

/* An operand's place in the struct that has it: uvcc_block for form B, uvcc_hash_item H,
 * uvcc_copy_item C, uvcc_task for the others. */
typedef struct vector_slot {
    char form;
    const char *name;
    size_t at;
    bool words; /* uint64_t; else bytes at any address */
} vector_slot;
enum { VECTOR_SLOTS_MAX = 20 };
extern const vector_slot vector_slots[];
extern const size_t vector_slot_count;

/* Memory of an operand, with guards on both sides. */
typedef struct vector_memory {
    uint8_t *all, *data; /* NULL: the operand is NULL */
    uint8_t *was;        /* what must still be there afterwards; NULL: the task may write it */
    size_t len;
    bool gives;  /* it is a result */
    bool shared; /* it is another's memory */
} vector_memory;

typedef struct vector_unit {
    json_t *json;
    vector_memory memory[VECTOR_SLOTS_MAX]; /* in the order of the form's slots */
} vector_unit;

typedef struct vector_case {
    json_t *json;
    const char *name, *task_name, *role_name;
    char form;
    uint8_t role;
    int want; /* status */
    uint32_t unit_count;
    vector_unit *units;
    uvcc_task task;
    uvcc_fn_args fn;
    void *items; /* blocks, hash items, copy items or the tasks of members */
} vector_case;

/* Memory that lives as long as the run. */
typedef struct vector_chunk {
    struct vector_chunk *next;
    size_t bytes;
    max_align_t first;
} vector_chunk;

struct vector_run {
    const vector_file *file;
    const vector_executor *on;
    vector_chunk *chunks;
    uvcc_step_keys keys[3]; /* by role */
    uint64_t reseed;
    vector_case *cases;
    uint32_t case_count, done;
};

/* Zeroed; NULL and a message without memory. */
void *vector_take(vector_run *r, size_t bytes, vector_message *m);
/* Sets the message; returns -1. */
int vector_fail(vector_message *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, about a case of the run. */
int vector_fail_case(vector_message *m, const vector_run *r, const vector_case *c,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The slot of a name, in the order of the form's; -1: there is none. */
int vector_slot_of(char form, const char *name);
const vector_slot *vector_slot_at(char form, unsigned i);

/* Reads the keys and cases of the file into the run (vectors_read.c). */
int vector_read_keys(vector_run *r, vector_message *m);
int vector_read_case(vector_run *r, vector_case *c, vector_message *m);
/* Makes an operand's bytes: of a seed, of hex, of an earlier case's result. */
int vector_fill(vector_run *r, const vector_case *c, uint32_t unit, json_t *from, uint8_t *to,
                size_t len, vector_message *m);
/* Bytes of an operand or result; -1: it does not say. */
json_int_t vector_length(const vector_run *r, uint32_t unit, json_t *of);

#endif
