/* program.h - the tables of a finished program, for the session and the reference.
 *
 * Three orders of the ops of an entry, all explicit:
 *  - program order: inputs, then FWD, BWD and UPD ops by k, then outputs. It says which version an
 *    op reads. `ops` stands in it; an index of an op is an index into `ops`.
 *  - ordinals: the order of (phase, mb = 0, k), where inputs have block 254 of FWD and outputs
 *    block 254 of UPD. Pads and the op table use it. by_ordinal maps an ordinal to an index.
 *  - execution: any order that the dependencies allow. An op may start when its `pred_count`
 *    predecessors are DONE; succ[op.succ_first ..] names the ops to tell when it is DONE itself.
 *
 * Predecessors of an op: the writers of the tensor versions it reads, and for each buffer that it
 * overwrites the last writer and all readers of the older version.
 *
 * Buffers: a tensor owns its buffer, or lies in that of another (chains are resolved). uses of a
 * buffer = ops that read or write anything in it; when that many are DONE, an EPOCH buffer goes
 * back to the pool. PERSIST tensors always own their buffers and share them with nobody. */
#ifndef UVCCI_PROGRAM_H
#define UVCCI_PROGRAM_H

#include "function.h"

#include <uvcc/program.h>

#define UVCCI_NAME_BYTES  64u
#define UVCCI_MAX_TENSORS 16384u
#define UVCCI_MAX_ENTRIES 64u
#define UVCCI_MAX_FUNCTIONS 256u
#define UVCCI_MAX_OPS     65536u /* per entry, inputs and outputs included */
#define UVCCI_MAX_IO      256u   /* inputs, and outputs, per entry: one block of k each */
#define UVCCI_IO_BLOCK    254u
#define UVCCI_MAX_ELEMS   (1ull << 40)
#define UVCCI_MAX_BITS    62u /* what truncation and comparison are exact on */
#define UVCCI_NO_OP       UINT32_MAX

typedef struct uvcci_tensor {
    uvcc_tensor_desc desc; /* desc.name points at name */
    char name[UVCCI_NAME_BYTES];
    uint32_t buffer;    /* the tensor that owns the memory, this one or another */
    uint32_t name_hash; /* quick reject in searches */
    uint64_t elems;     /* rows * cols */
} uvcci_tensor;

typedef struct uvcci_op {
    uvcc_op_desc desc; /* unused in[] and out[] are UVCC_NO_TENSOR */
    uint32_t ordinal;
    uint32_t io;                           /* INPUT, OUTPUT: index in the entry's list */
    uint32_t in_version[UVCC_OP_MAX_IN];   /* 0: as the step found it (PERSIST) */
    uint32_t out_version[UVCC_OP_MAX_OUT]; /* from 1 */
    uint32_t pred_count;
    uint32_t succ_first, succ_count;
    uint32_t touched[UVCC_OP_MAX_IN + UVCC_OP_MAX_OUT]; /* buffers read or written, each once */
    uint32_t touched_count;
    char name[UVCCI_NAME_BYTES]; /* "" if it has none; desc.name points here or is NULL */
} uvcci_op;

typedef struct uvcci_entry {
    char name[UVCCI_NAME_BYTES];
    uvcci_op *ops; /* program order */
    uint32_t op_count;
    uint32_t *by_ordinal; /* [op_count] */
    uint32_t *succ;
    uvcc_buffer_life *life; /* [tensor_count], by owning tensor */
    uint32_t *uses;         /* [tensor_count], by owning tensor: ops that touch the buffer */
    const uvcc_io_desc *inputs, *outputs;
    uint32_t input_count, output_count;
    /* builder: the entry's user ops in uvcc_program.ops, its lists in .inputs and .outputs */
    uint32_t user_first, user_count, input_first, output_first;
    void *mem; /* one block that holds the tables */
    size_t mem_bytes;
} uvcci_entry;

struct uvcc_program {
    uvcc_allocator alloc;
    bool finished;
    uint8_t hash[32];
    uvcci_tensor *tensors;
    uvcci_entry *entries;
    uint32_t tensor_count, tensor_cap, entry_count, entry_cap;
    uvcci_op *user_ops; /* of all entries, as they came; only desc and name are set */
    uvcc_io_desc *inputs, *outputs;
    uvcci_function **functions;
    uint32_t user_op_count, user_op_cap, input_count, input_cap, output_count, output_cap;
    uint32_t function_count, function_cap;
};

/* Opcodes of products of two secrets, which end in a resharing or a truncation. */
bool uvcci_is_product(uint16_t opcode);

/* Room for one line; NULL or cap 0 is allowed and drops it. */
typedef struct uvcci_message {
    char *text;
    size_t cap;
} uvcci_message;
/* Writes the line (truncated to fit) and returns `error`. */
int uvcci_fail(const uvcci_message *m, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "op NAME (OPCODE, PHASE k K)" for messages; returns out. */
#define UVCCI_LABEL_BYTES 128u
const char *uvcci_op_label(const uvcci_op *op, char out[UVCCI_LABEL_BYTES]);

/* liveness.c: fills ordinals, versions, dependencies and lives of e, whose ops, by_ordinal, succ,
 * life and uses are allocated (succ for uvcci_edge_bound() words). UVCC_ERR_PROGRAM names a read of
 * what was never written or was overwritten. */
int uvcci_program_analyse(const uvcc_program *p, uvcci_entry *e, const uvcci_message *m);
/* Most edges that the dependencies of these ops can have. */
uint32_t uvcci_edge_bound(const uvcci_op *ops, uint32_t count);

#endif
