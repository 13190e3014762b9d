/* SPDX-License-Identifier: Apache-2.0 */
/* op_class.h - what an op is, opcode by opcode: what a program may ask of it, what waits for what,
 * what it sends. The tables stand in ops/, one for each family, next to what its turns compute;
 * program/ consults them through uvcci_op_class_of() and knows no opcode by name. That function is
 * the one thing that program/ needs of a room above it, when the library is linked. */
#ifndef UVCCI_OP_CLASS_H
#define UVCCI_OP_CLASS_H

#include "exec/program/program.h"

struct uvcci_draft;
struct uvcci_op_check;
struct uvcci_op_way;

/* What holds of an opcode whatever an op's tensors are. */
typedef enum uvcci_op_trait {
    UVCCI_WORKS_IN_PLACE = 1 << 0, /* the output may stand in an input's buffer */
    UVCCI_USES_SHIFT = 1 << 1,
    UVCCI_USES_CONSTANT = 1 << 2,
    UVCCI_USES_HEADS = 1 << 3, /* and row groups */
    UVCCI_USES_GROUP = 1 << 4,
    UVCCI_USES_FUNCTION = 1 << 5,
    UVCCI_IS_PRODUCT = 1 << 6,    /* of two secrets, natively or on a Beaver triple */
    UVCCI_TRUNCATES = 1 << 7,     /* what it makes, if it has a shift */
    UVCCI_IS_COLLECTIVE = 1 << 8, /* its job is one for the local plane */
    UVCCI_IS_INPUT = 1 << 9,      /* uvcc_program_input() makes it */
    UVCCI_IS_OUTPUT = 1 << 10,
    UVCCI_FEEDS_NEIGHBOUR = 1 << 11, /* a neighbouring stage waits for it */
    UVCCI_PLANS_BY_ENTRY = 1 << 12,  /* its plan depends on more than its fields and tensors */
    UVCCI_MEETS_NEIGHBOUR = 1 << 13, /* it ends only together with an op of another stage */
    UVCCI_READS_NARROW = 1 << 14,    /* a public input may lie in less than words (tensor.width) */
} uvcci_op_trait;

/* Sharings of a tensor, as a set. */
enum {
    UVCCI_TAKES_REPLICATED = 1 << UVCC_REPLICATED,
    UVCCI_TAKES_ADDITIVE = 1 << UVCC_ADDITIVE,
    UVCCI_TAKES_BOTH = UVCCI_TAKES_REPLICATED | UVCCI_TAKES_ADDITIVE,
    UVCCI_TAKES_PUBLIC = 1 << UVCC_PUBLIC,
    UVCCI_TAKES_ONE_HOT = 1 << UVCC_ONE_HOT
};

typedef struct uvcci_op_class {
    uint16_t opcode;
    uint16_t traits;       /* set of uvcci_op_trait */
    uint8_t flags;         /* of uvcc_op_desc, that an op may have */
    uint8_t constant_flag; /* with this flag it uses the constant too */
    uint8_t detail;        /* the family's own: what its opcodes differ in */
    uint8_t in[3], out;    /* sharings of inputs and outputs; 0: replicated only */

    /* ---- the op alone (checks.c); NULL: nothing to check ---- */

    /* Shapes, scales, bounds: 0, or an error that the message explains. */
    int (*check)(const struct uvcci_op_check *c);
    /* What an additive output can hold, as far as other tensors say less than its declared bits;
     * NULL: what it declares. */
    uint64_t (*sum_max)(const uvcc_program *p, const uvcc_op_desc *d);

    /* ---- among the entry's ops (liveness.c); NULL: what its tensors say ---- */

    /* The earlier op that made what this one is about: it waits for that and reads no tensor.
     * UVCCI_NO_OP: it reads what it names. */
    uint32_t (*partner)(const uvcci_entry *e, uint32_t op);
    /* The earlier op that it waits for though no tensor says so, or UVCCI_NO_OP. Ordinals are
     * known. */
    uint32_t (*follows)(const uvcci_entry *e, uint32_t op);
    /* Its versions are known, and which op made the newest of each tensor. */
    int (*check_versions)(const uvcci_entry *e, uint32_t op, const uint32_t *writer,
                          const uvcci_message *m);
    /* All partners are known. */
    int (*check_partner)(const uvcci_entry *e, uint32_t op, const uvcci_message *m);

    /* ---- in a session ---- */

    /* Units of a large op, which is cut between any two of them; *by_element: they are elements of
     * its output, whatever its rows are. NULL, or 1: it is not cut. */
    uint64_t (*units)(const uvcc_program *p, const uvcc_op_desc *d, bool *by_element);
    /* Its rounds and ids; NULL: it sends nothing. The draft has no entry, and of the op only what
     * the program's author said, but for PLANS_BY_ENTRY and products on triples. */
    int (*plan)(struct uvcci_draft *d);
    /* How instances run; a plan may choose another way (plan.h). */
    const struct uvcci_op_way *way;
} uvcci_op_class;

/* The classes of the ops of one file of ops/. */
typedef struct uvcci_op_family {
    const uvcci_op_class *classes;
    unsigned count;
} uvcci_op_family;

/* ops/classes.c. NULL: there is no such opcode. */
const uvcci_op_class *uvcci_op_class_of(uint16_t opcode);

static inline bool uvcci_op_has(uint16_t opcode, uvcci_op_trait trait) {
    const uvcci_op_class *c = uvcci_op_class_of(opcode);
    return c != NULL && (c->traits & trait) != 0;
}

#endif
