/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - the tables of a finished program, for the session and the reference.
 *
 * Three orders of the ops of an entry, all explicit:
 *  - program order: the slots of the stage's 1F1B order, each a microbatch's inputs and FWD ops or
 *    its BWD ops by k, then the UPD ops, then outputs. It says which version an op reads. `ops`
 *    stands in it; an index of an op is an index into `ops`.
 *  - ordinals: the order of (phase, mb, k), where inputs have block 254 of FWD and outputs
 *    block 254 of UPD. Pads and the op table use it. by_ordinal maps an ordinal to an index. What
 *    a microbatch is in FWD and BWD, a page is in UPD: more numbers for k.
 *  - execution: any order that the dependencies and the limit of microbatches in flight allow; of
 *    the ops that can run the one of least rank goes first (uvcc_pipeline_rank). An
 * op may start when its `pred_count` predecessors are DONE; succ[op.succ_first ..] names the ops to
 * tell when it is DONE itself.
 *
 * Predecessors of an op: the writers of the tensor versions it reads, and for each buffer that it
 * overwrites the last writer and all readers of the older version.
 *
 * Buffers: a tensor owns its buffer, or lies in that of another (chains are resolved). uses of a
 * buffer = ops that read or write anything in it; when that many are DONE, a TRANSIENT buffer goes
 * back to the pool. PERSIST tensors always own their buffers and share them with nobody. Tensors in
 * one buffer are shared alike, all replicated or all additive. */
#ifndef UVCCI_PROGRAM_H
#define UVCCI_PROGRAM_H

#include "exec/base/message.h"
#include "exec/primitives/one_hot.h"
#include "exec/program/function.h"

#include <uvcc/program.h>

#define UVCCI_NAME_BYTES    64u
#define UVCCI_MAX_TENSORS   (1u << 22)
#define UVCCI_MAX_ENTRIES   256u
#define UVCCI_MAX_FUNCTIONS 256u
#define UVCCI_MAX_OPS       (1u << 22) /* per entry, inputs and outputs included */
#define UVCCI_MAX_INPUTS    65535u     /* per entry: STEP has their number in 16 bits */
#define UVCCI_IO_PAGE       256u       /* inputs or outputs that one block of k has numbers for */
#define UVCCI_IO_BLOCK      254u
#define UVCCI_TO_ONE_BLOCK  255u /* of UPD: outputs to one party */
#define UVCCI_MAX_ELEMS     (1ull << 40)
#define UVCCI_MAX_BITS      62u /* what truncation and comparison are exact on */
#define UVCCI_MAX_STAGES    256u
#define UVCCI_NO_OP         UINT32_MAX

typedef struct uvcci_tensor {
    uvcc_tensor_desc desc; /* desc.name points at name */
    char name[UVCCI_NAME_BYTES];
    uint32_t buffer;    /* the tensor that owns the memory, this one or another */
    uint32_t name_hash; /* quick reject in searches */
    uint64_t elems;     /* rows * cols */
    uint64_t sum_max;   /* additive, while an entry is checked: no |value| so far reaches it */
    int64_t *constant;  /* public: its values, elems of them; or NULL */
    uint8_t width;      /* bytes of an element in a session's memory: 8, or of a public one less */
} uvcci_tensor;

typedef struct uvcci_op {
    uvcc_op_desc desc; /* unused in[] and out[] are UVCC_NO_TENSOR */
    uint32_t ordinal;
    uint32_t io;                           /* INPUT, OUTPUT: index in the entry's list */
    uint32_t in_version[UVCC_OP_MAX_IN];   /* 0: as the step found it (PERSIST) */
    uint32_t out_version[UVCC_OP_MAX_OUT]; /* from 1 */
    uint32_t pred_count;
    uint32_t succ_first, succ_count;
    uint32_t rank;    /* place among the entry's ops by uvcc_pipeline_rank(), from 0 */
    uint32_t partner; /* SKS_START: the check that waits for it; SKS_GEMM_CHECK: its START */
    uint32_t touched[UVCC_OP_MAX_IN + UVCC_OP_MAX_OUT]; /* buffers read or written, each once */
    uint32_t touched_count;
    char name[UVCCI_NAME_BYTES]; /* "" if it has none; desc.name points here or is NULL */
} uvcci_op;

typedef struct uvcci_entry {
    char name[UVCCI_NAME_BYTES];
    uvcci_op *ops; /* program order */
    uint32_t op_count;
    uint32_t *by_ordinal; /* [op_count] */
    uint32_t *by_rank;    /* [op_count]: index of the op with that rank */
    uint32_t *succ;
    uvcc_buffer_life *life; /* [tensor_count], by owning tensor */
    uint32_t *uses;         /* [tensor_count], by owning tensor: ops that touch the buffer */
    /* Those, in program order: touching[touch_from[b]] .. touching[touch_from[b + 1]]. */
    uint32_t *touch_from, *touching;
    const uvcc_io_desc *inputs, *outputs;
    uint32_t input_count, output_count;
    uint32_t stage, stages, ahead;
    uint32_t microbatches; /* 1 + the greatest mb in FWD and BWD */
    /* Microbatches in flight at most: an op of microbatch m starts when all BWD ops of microbatch
     * m - in_flight are done. 0: no limit. */
    uint32_t in_flight;
    uint64_t window;     /* of the program, or none: window.h */
    uint32_t *bwd_count; /* [microbatches]: BWD ops; NULL without a limit */
    /* builder: the entry's user ops in uvcc_program.ops, its lists in .inputs and .outputs */
    uint32_t user_first, user_count, input_first, output_first;
    void *mem; /* one block that holds the tables */
    size_t mem_bytes;
} uvcci_entry;

/* What making a function of a model gave, so that a program makes each once, however many ops run
 * it. What the key says is its maker's. */
#define UVCCI_RECIPE_KEY_BYTES 64u
typedef struct uvcci_recipe {
    uint8_t key[UVCCI_RECIPE_KEY_BYTES];
    uint32_t function; /* its index, or UVCCI_NO_FUNCTION: only its outputs are known yet */
    uint8_t outputs;   /* 0: not known yet */
    uint8_t bits[UVCC_OP_MAX_OUT], scale[UVCC_OP_MAX_OUT];
} uvcci_recipe;
#define UVCCI_NO_FUNCTION UINT32_MAX

struct uvcc_program {
    uvcc_allocator alloc;
    bool finished;
    uint8_t hash[32];
    uint32_t replicas, stages, tp_ranks; /* of the job */
    uint64_t window;                     /* bytes that may be at work at a time */
    uvcci_tensor *tensors;
    uvcci_entry *entries;
    uint32_t tensor_count, tensor_cap, entry_count, entry_cap;
    uvcci_op *user_ops; /* of all entries, as they came; only desc and name are set */
    uvcc_io_desc *inputs, *outputs;
    uvcci_function **functions;
    uvcci_recipe *recipes;
    /* Open addressing by name_hash, a power of two: index of a tensor + 1; 0: empty. */
    uint32_t *by_name;
    uint32_t by_name_cap;
    uint32_t recipe_count, recipe_cap;
    uint32_t user_op_count, user_op_cap, input_count, input_cap, output_count, output_cap;
    uint32_t function_count, function_cap;
};

/* The recipe with that key, a new one if there is none; it stays where it is until the next call.
 * NULL: no memory. The program is being built. */
uvcci_recipe *uvcci_recipe_of(uvcc_program *p, const uint8_t key[UVCCI_RECIPE_KEY_BYTES]);

/* Keys of numbers that somebody dealt who is no party: those of two pairs at each party. */
static inline bool uvcci_is_dealt(const uvcc_tensor_desc *d) {
    return d->sharing == UVCC_ONE_HOT && d->lifetime == UVCC_PERSIST;
}

/* Components that a party holds of a tensor. */
static inline unsigned uvcci_components(const uvcc_tensor_desc *d) {
    return d->sharing == UVCC_REPLICATED || uvcci_is_dealt(d) ? 2 : 1;
}

/* Words of one of them, as hosts have it: of a one-hot tensor keys and their roots
 * (primitives/one_hot.h). */
static inline uint64_t uvcci_component_words(const uvcci_tensor *t) {
    if (t->desc.sharing != UVCC_ONE_HOT)
        return t->elems;
    return t->elems * (uvcci_one_hot_key_words(t->desc.bits) + UVCCI_ONE_HOT_ROOT_WORDS);
}
/* Bytes of one, as sessions keep it. */
static inline uint64_t uvcci_component_bytes(const uvcci_tensor *t) {
    return uvcci_component_words(t) * t->width;
}

/* Opcodes of products of two secrets, which end in a resharing or a truncation. */
bool uvcci_is_product(uint16_t opcode);
/* Whether the op truncates its result, as `truncation` says. */
bool uvcci_truncates(const uvcc_op_desc *d);
/* Whether its job is one for the local plane. */
bool uvcci_is_collective(uint16_t opcode);

/* Operands of a matrix product: A, B, C. Rows and columns of one block as it is stored: the whole
 * of an operand where the op has no heads. */
static inline uint64_t uvcci_gemm_rows(const uvcc_op_desc *d, unsigned operand,
                                       const uvcc_tensor_desc *t) {
    const bool stacked = (d->flags & UVCC_OP_STACKED_A << operand) != 0;
    return d->heads == 0 ? t->rows
                         : t->rows / ((uint64_t)d->row_groups * (stacked ? d->heads : 1u));
}
static inline uint64_t uvcci_gemm_cols(const uvcc_op_desc *d, unsigned operand,
                                       const uvcc_tensor_desc *t) {
    const bool stacked = (d->flags & UVCC_OP_STACKED_A << operand) != 0;
    return d->heads == 0 || stacked ? t->cols : t->cols / d->heads;
}

/* What is summed in one element: K. */
static inline uint64_t uvcci_gemm_depth(const uvcc_op_desc *d, const uvcc_tensor_desc *a) {
    return d->flags & UVCC_OP_TRANS_A ? uvcci_gemm_rows(d, 0, a) : uvcci_gemm_cols(d, 0, a);
}

/* "op NAME (OPCODE, PHASE k K)" for messages; returns out. */
#define UVCCI_LABEL_BYTES 128u
const char *uvcci_op_label(const uvcci_op *op, char out[UVCCI_LABEL_BYTES]);

/* Orders ops by (phase, mb, k). */
static inline uint64_t uvcci_op_key(const uvcc_op_desc *d) {
    return (uint64_t)d->phase << 32 | (uint64_t)d->mb << 16 | d->k;
}
/* The first ordinal of ops whose key is at least this; op_count: there is none. */
uint32_t uvcci_ordinal_from(const uvcci_entry *e, uint64_t key);
/* Whether an output opens to the party. */
static inline bool uvcci_opens_to(const uvcc_io_desc *output, uint8_t party) {
    return output->receiver == UVCC_TO_ALL || output->receiver == party;
}
/* Members of a group (uvcc_group) in the program's topology; 0: there is no such group. */
uint32_t uvcci_group_size(const uvcc_program *p, uint8_t group);

static inline uint32_t uvcci_collective_count(const uvcci_entry *e) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->op_count; i++)
        n += uvcci_is_collective(e->ops[i].desc.opcode);
    return n;
}

/* Whether the op must wait for an earlier microbatch to end. */
static inline bool uvcci_waits_to_fly(const uvcci_entry *e, const uvcc_op_desc *d) {
    return e->in_flight != 0 && d->phase != UVCC_UPD && d->mb >= e->in_flight;
}

#endif
