/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks.h - how make_tasks*.c write cases of the golden vectors (docs/compute.md, section 10):
 * what a task finds is made of numbered seeds, or is what an earlier case gave; what it gives is
 * filled in by running the case. A case has a unit for each of some counts, so references go from
 * unit to unit. */
#ifndef UVCC_TESTS_MAKE_TASKS_H
#define UVCC_TESTS_MAKE_TASKS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* A file under construction. */
typedef struct maker {
    json_t *root, *cases;
    json_int_t seed; /* the last one used */
} maker;

enum { MAKER_NAME = 96, MAKER_UNITS = 5 };

/* The name of a case. */
typedef struct maker_label {
    char text[MAKER_NAME];
} maker_label;
extern const char *const maker_roles[3];
/* The words with a space between them, without those that are empty. */
maker_label maker_join(const char *a, const char *b, const char *c);
/* "TASK variant ROLE" */
maker_label maker_of(const char *task, const char *variant, unsigned role);

typedef struct maker_case {
    maker *of;
    json_t *json, *units;
    const uint32_t *counts; /* of form B, up to a 0; others: NULL, one unit */
} maker_case;

/* Bytes for c elements: bytes c + packs ceil(c bits / 8) + planes 8 ceil(c / 64) + 8 ceil(c whole /
 * 64) + fixed, and `gap` more behind every `piece` of them (if it is not 0) but the last. */
typedef struct shape {
    size_t bytes, fixed, piece, gap;
    unsigned packs, bits, planes, whole;
} shape;
#define WORDS(n)                                                                                   \
    (shape) {                                                                                      \
        .bytes = (size_t)8 * (n)                                                                   \
    }
#define PACKED(n)                                                                                  \
    (shape) {                                                                                      \
        .packs = 1, .bits = (n)                                                                    \
    }
#define FIXED(n)                                                                                   \
    (shape) {                                                                                      \
        .fixed = (n)                                                                               \
    }

/* Small ones; small ones for variants; for what is slow to check; both sides of a group of 256; the
 * end of a block. */
extern const uint32_t maker_all[], maker_few[], maker_tiny[], maker_group[], maker_large[];

/* A case "TASK variant ROLE" at the place that the maker gives to all; role NULL: not form B. */
maker_case maker_begin(maker *m, const char *task, const char *variant, const char *role,
                       const uint32_t *counts);
void maker_call(maker_case *c, unsigned call);
void maker_arg(maker_case *c, const char *name, json_t *value); /* takes the value */
void maker_fn(maker_case *c, const char *name, json_t *value);  /* takes the value */
/* A list of a function's, made of a seed. */
void maker_fn_seed(maker_case *c, const char *name);
/* An operand of a seed; for outputs: what they hold before. */
void maker_with(maker_case *c, const char *operand, shape s);
/* An operand that is a result of "TASK variant ROLE". */
void maker_from(maker_case *c, const char *operand, const char *other, const char *result);
/* A part of it. */
void maker_from_at(maker_case *c, const char *operand, const char *other, const char *result,
                   shape s, shape at);
void maker_same(maker_case *c, const char *operand, const char *as);
void maker_gives(maker_case *c, const char *result, shape s);
/* It must fail. */
void maker_fails(maker_case *c);
/* A member of the last unit's object. */
void maker_unit(maker_case *c, const char *name, json_t *value);
/* One more unit of a form that has items. */
void maker_next_unit(maker_case *c);

/* The files' contents. */
void make_gates(maker *m);
void make_functions(maker *m);
void make_circuits(maker *m);
void make_rounding(maker *m);
void make_one_hot(maker *m);
void make_forms(maker *m);

#endif
