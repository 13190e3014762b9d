/* session.h - the session's insides, shared by session.c (the public calls and the dispatch),
 * step.c (agreement, step contexts, audit), ops.c (running ops), op_gates.c, op_functions.c,
 * op_circuits.c, op_beaver.c and op_sks.c (their turns), deal.c (keys dealt ahead) and triple.c
 * (triples that the host keeps).
 *
 * Data flow: link -> receive (ids, grammar, plan) -> [hash job] -> leaf -> accept -> op; op ->
 * [job] -> leaf -> link. Two step contexts exist at most: the running step and the next one, whose
 * keys are dealt while it waits. Everything that can fail for want of memory aborts the session
 * with UVCC_ABORT_MEMORY; a session never goes on half changed. */
#ifndef UVCCI_SESSION_H
#define UVCCI_SESSION_H

#include "exec/base/arena.h"
#include "exec/base/triple_record.h"
#include "exec/program/plan.h"
#include "exec/program/program.h"
#include "exec/program/sks.h"
#include "exec/runtime/jobs.h"
#include "proto/aes.h"
#include "proto/hello.h"
#include "proto/optable.h"
#include "proto/stepmsg.h"
#include "proto/transcript.h"
#include <uvcc/session.h>

#define UVCCI_CLOSE_NS 3000000000ull /* how long close waits for peers */

typedef struct uvcci_step uvcci_step;
typedef struct uvcci_instance uvcci_instance;

/* A message that came, from whole to released. */
typedef struct uvcci_rx {
    struct uvcci_rx *next;
    uvcci_instance *run;
    const uvcci_plan_round *round;
    uint32_t part;
    uint16_t b;
    uint8_t peer;
    uint8_t *data;
    uint32_t len, msg_id;
    uint64_t token;
    uint8_t digest[32];
    uvcc_task task;
    uvcc_hash_item item;
} uvcci_rx;

/* A message being filled. */
typedef struct uvcci_tx {
    uvcc_link_msg *msg;
    uint8_t dst;
    uint16_t b;
    uint32_t len;
    uint8_t digest[32];
} uvcci_tx;

/* A leaf whose digest a job computes. */
typedef struct uvcci_pending_leaf {
    struct uvcci_pending_leaf *next;
    uint8_t type, src, dst, component;
    uint16_t round;
    uint32_t q_count;
    uint64_t id;
    uint8_t digest[32];
} uvcci_pending_leaf;

enum { UVCCI_TURN_DONE = 255 }; /* turns: see uvcci_plan, UVCCI_TURN_TRIPLE */

/* A piece of a key stream in a message. */
typedef struct uvcci_key_chunk {
    uint8_t dst;
    uint32_t block, offset, len;
    uint8_t *at;
} uvcci_key_chunk;

/* Messages and TLVs of one round or deal. */
typedef struct uvcci_batch_out {
    const uvcci_plan_round *round;
    uvcci_tx *tx;
    uint32_t count;
    uvcci_key_chunk *key_chunks;
    uint32_t key_chunk_count;
    uint8_t **span[UVCCI_PLAN_VECS][2];  /* [vec][slot][block] */
    uint8_t *digest[UVCCI_PLAN_VECS][2]; /* of the whole vector, to the next or previous party */
} uvcci_batch_out;

/* What comes in one round: per peer (0: next, 1: previous party), bit q = part q. */
typedef struct uvcci_instance_round {
    uint64_t need[2], got[2];
    uint64_t seen[2];                          /* begun, accepted or not */
    uvcci_rx *held;                            /* accepted messages */
    const uint8_t **at[UVCCI_PLAN_VECS][2];    /* [vec][slot][block]; not of keys */
    const uint8_t *digest[UVCCI_PLAN_VECS][2]; /* of the whole vector, by sender */
    /* Of an opening to all: what a job of the next turn computes of the component that this party
     * lacks, for comparison with the next party's digest. */
    const uint8_t *check;
} uvcci_instance_round;

/* What a step of a function made at this party: vectors of its width, in TENSOR memory. */
typedef struct uvcci_fn_value {
    uint64_t *x;      /* M: xh (not of EXCHANGE); B: the word of bits; A: the share */
    uint64_t *p;      /* M: this party's part of the mask */
    uint64_t *opened; /* TABLE: vh */
    uint64_t *times;  /* TABLE: bh */
    uvcc_shares rss;  /* EXCHANGE without an output tensor */
    uint8_t *packed;  /* opened bits as they are hashed */
} uvcci_fn_value;

/* A triple that the host gave: C until the op takes it, and the keys of its masks. */
typedef struct uvcci_stored_triple {
    struct uvcci_stored_triple *next;
    uvcc_triple_info info;
    uvcc_step_keys keys; /* tags tripleA and tripleB of NEXT and PREV */
    uint8_t *c;          /* lo, hi; WIRE arena */
} uvcci_stored_triple;

/* A product on a Beaver triple, beside its run. Vectors are TENSOR memory. */
typedef struct uvcci_beaver {
    bool admitted; /* its triple may be made now */
    uint64_t triple_id;
    uvcci_stored_triple *stored; /* the triple comes from here */
    uvcc_shares mask[2];         /* A and B, while C is made; a component, for the product */
    uvcc_shares c;
    uvcc_shares own[2]; /* X - A, Y - B, where this op opens them; opened, lo is the sum */
    bool opened[2];
    uint32_t reads_left[2];
    uvcc_shares z; /* the product, where it is truncated then */
} uvcci_beaver;

/* One op in one step. */
struct uvcci_instance {
    uvcci_step *step;
    const uvcci_op *op;
    const uvcci_plan *plan;
    uint32_t index; /* program order */
    uint32_t row0;  /* of the op table */
    uint32_t ordinal, op_id;
    uint32_t preds_left;
    uint32_t depth; /* rounds before this op, then with it */
    uint8_t turn;
    bool job_out, started, deal_done;
    uvcci_plan_ids ids;
    uvcci_instance_round *rounds; /* as in the plan */
    uvcci_engine **engine;        /* [id][block]; tile 0 last */
    /* working memory */
    uvcci_bump bump;
    uvcc_task *tasks;
    uint32_t task_count;
    uvcci_batch_out out[UVCCI_TURN_ROUNDS];
    uvcci_pending_leaf *leaves;
    uint64_t *z, *m, *d;
    uint8_t *bits;
    uvcci_fn_value *values; /* of a function, by step */
    uint64_t *circuit;      /* of a comparison without keys: the blocks' states */
    uvcci_beaver *beaver;   /* of a Beaver product, else NULL */
    struct uvcci_sks *sks;  /* of an SKS_START, until its check is done */
    uint8_t *keys;
    size_t key_bytes;
    size_t **key_at; /* [round of keys][block]: in `keys`, SIZE_MAX: none */
    /* dealing */
    uvcci_bump deal_bump;
    uvcci_batch_out *deal_out; /* [round of keys] */
    uint8_t *deal_buf;
    size_t deal_bytes;
    uint64_t *deal_words; /* of a function: masks, bits and signs, by step */
    size_t deal_words_bytes;
    uvcci_pending_leaf *deal_leaves;
};

/* Step contexts: NONE -> AGREED_HERE (the host asked; STEP sent when allowed) -> RUNNING -> freed.
 */
struct uvcci_step {
    bool active, sent, agreed, running;
    uint32_t number, entry_index;
    const uvcci_entry *entry;
    const uvcci_plan *plans;
    uvcci_optable table;
    uvcci_instance *instances; /* program order */
    uint32_t *bwd_left; /* [microbatch]: BWD ops that are not done; of an entry with a limit */
    uint32_t instances_done, deals_sent, deal_next, triple_next;
    uint8_t *triples; /* made for the host, WIRE arena: records of the entry's Beaver products */
    size_t triples_bytes;
    uint64_t *ready; /* bitmap, by rank, of the instances to look at */
    uint32_t ready_words;
    uint32_t depth;
    uint8_t h_optable[32], h_shapes[32];
    uvcci_step_msg msg;
    uvcc_step_keys keys;
    uint8_t salt[3][32];     /* leaf salts by peer's party; own entry unused */
    uvcci_aes commit_key[2]; /* tag salt: NEXT, PREV */
    uvcci_transcript *transcript;
    uint64_t **input; /* staged values by input index, WIRE pool */
    int64_t **output; /* opened values by output index, WIRE pool */
    uint64_t leaves;
    uvcci_bump bump;
};

/* A host's value on its way into one PERSIST tensor, or a checkpoint's into all. */
typedef struct uvcci_set {
    struct uvcci_set *next;
    uvcc_task task;
    uvcc_copy_item *items;
    uint32_t item_count;
    uint8_t *staged; /* WIRE arena */
    size_t bytes;
} uvcci_set;

/* The PERSIST shares of a step's beginning, on their way out. */
typedef struct uvcci_checkpoint {
    uint8_t *data, *next; /* WIRE arena: the finished one, the one being made */
    size_t bytes;         /* of either */
    uint32_t step, next_step;
    bool wanted, job_out;
    uvcc_task tasks[2];
    uvcc_copy_item *items;
    uint32_t item_count;
    uvcc_hash_item hash;
} uvcci_checkpoint;

/* A finished step's bundle, for the host. */
typedef struct uvcci_stored_bundle {
    struct uvcci_stored_bundle *next;
    uint32_t step;
    bool told; /* the host polled the event that says it has all three roots */
    uint8_t *bytes;
    size_t len;
} uvcci_stored_bundle;

/* A buffer of tensors: both components, or lo only of additive ones. */
typedef struct uvcci_buffer {
    uvcc_shares shares;
    uint32_t uses_left; /* in the running step */
    bool set;           /* PERSIST: it has a value */
} uvcci_buffer;

typedef struct uvcci_peer {
    uvcc_link *link;
    bool keyed, restarted; /* the link has keys; the event went out */
    bool bye;
    /* STEP by step mod 4 and AUDIT by parity, that came before we could use them */
    bool step_here[4], audit_here[2];
    uvcci_step_msg step_msg[4];
    uvcci_audit_msg_t audit[2];
} uvcci_peer;

typedef enum uvcci_session_state {
    UVCCI_SESSION_NEW,
    UVCCI_SESSION_LOADED,
    UVCCI_SESSION_HELLO,
    UVCCI_SESSION_READY,
    UVCCI_SESSION_CLOSING,
    UVCCI_SESSION_ABORTED,
    UVCCI_SESSION_CLOSED,
} uvcci_session_state;

struct uvcc_session {
    uvcc_config cfg;
    struct uvcci_recording *recording; /* calls.c; NULL: nothing is recorded */
    uvcci_meter meter;
    uvcc_allocator alloc; /* metered */
    uvcci_session_state state;
    uint64_t now, host_now, skew; /* skew: what the host's clock stepped back in all */
    uint8_t party;
    uint8_t sid_rep[32], sid_sub[32];
    uint64_t sid_tag;
    uint8_t k_own_prk[32];
    uint8_t sign_pk[32], sign_sk[64];
    const uvcc_program *program;
    uint8_t h_program[32];
    uvcci_plan **plans;    /* by entry */
    uvcci_buffer *buffers; /* by owning tensor */
    uvcci_hello hello;
    uint32_t run, step; /* first unfinished step */
    uvcci_peer peer[3];
    uvcci_jobs jobs;
    uvcci_arena tensors, wire;
    uvcci_step ctx[2];   /* by step parity */
    bool hello_waits[3]; /* a HELLO is in the link, not transmitted yet */
    uint16_t abort_reason;
    uint64_t close_deadline; /* UVCC_NEVER while open */
    uvcc_event *events;      /* ring */
    uint32_t event_cap, event_head, event_count;
    uint8_t last_root[32];
    bool have_root;
    uvcc_session_stats stats;
    uint32_t poll_peer;   /* fairness of poll_transmit */
    uvcci_rx *rx_pending; /* received, waiting for a hash job */
    uvcci_rx *rx_out;     /* their hash job is out */
    uvcci_set *sets;      /* PERSIST tensors being set by the host */
    uvcci_checkpoint checkpoint;
    uvcci_stored_bundle *bundles; /* bundles, oldest first */
    uint32_t tensors_at;          /* the step that the PERSIST tensors stand before */
    uvcci_stored_triple *stored;  /* given by the host, for steps that are not open yet */
    uint64_t triples_ahead;       /* bytes of C that are made, or being made, and not used */
    uint64_t triple_bytes;        /* payload that made triples */
    uint8_t *triples_made;        /* of the last finished step of a session that makes them */
    size_t triples_made_bytes;
    uint32_t triples_made_step;
    /* opened outputs of the last finished step */
    int64_t **last_output;
    uint32_t last_output_step, last_output_entry;
};

static inline uint8_t uvcci_next_party(const uvcc_session *s) {
    return (uint8_t)((s->party + 1u) % 3u);
}
static inline uint8_t uvcci_prev_party(const uvcc_session *s) {
    return (uint8_t)((s->party + 2u) % 3u);
}
/* 0: the next party, 1: the one before. */
static inline unsigned uvcci_side(const uvcc_session *s, uint8_t peer) {
    return peer == uvcci_next_party(s) ? 0 : 1;
}

/* The public input calls without their recording; calls.c has the others. session.c and, for those
 * on tensors, checkpoint.c. */
int uvcci_session_new(uvcc_session **out, const uvcc_config *cfg);
void uvcci_session_free(uvcc_session *s);
int uvcci_session_load_program(uvcc_session *s, const uvcc_program *p);
int uvcci_session_start(uvcc_session *s, uint64_t now);
int uvcci_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                       uint64_t now);
int uvcci_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now);
int uvcci_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now);
int uvcci_session_on_timer(uvcc_session *s, uint64_t now);
int uvcci_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now);
int uvcci_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now);
int uvcci_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                                uint64_t now);
int uvcci_session_poll_job(uvcc_session *s, const uvcc_job **out);
int uvcci_session_poll_event(uvcc_session *s, uvcc_event *out);
int uvcci_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now);
int uvcci_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                        uint64_t now);
int uvcci_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v);
int uvcci_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo,
                             const uint64_t *hi);
int uvcci_session_resume(uvcc_session *s, const uint8_t *data, size_t len);
int uvcci_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len);
int uvcci_session_close(uvcc_session *s, uint64_t now);
int uvcci_session_abort(uvcc_session *s, uint16_t reason, uint64_t now);

/* session.c */
void uvcci_log(const uvcc_session *s, uvcc_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the session: ABORT leaf, BYE to both peers, event ABORTED. The first reason stays. _at: the
 * event names that step instead of the first unfinished one. */
void uvcci_abort(uvcc_session *s, uint16_t reason, const char *text);
void uvcci_abort_at(uvcc_session *s, uint32_t step, uint16_t reason, const char *text);
/* Queues a BYE for both peers. */
void uvcci_send_bye(uvcc_session *s, uint16_t reason);
bool uvcci_failed(const uvcc_session *s);
void uvcci_event_push(uvcc_session *s, const uvcc_event *e);
/* Sends a finished message with its chunk ids. */
void uvcci_send(uvcc_session *s, uint8_t dst, uvcc_link_msg *msg, uint8_t kind, uint32_t len,
                uint32_t step, uint32_t op_id, uint64_t order);

/* step.c */
int uvcci_step_open(uvcc_session *s, uint32_t step, uint32_t entry);
void uvcci_step_free(uvcc_session *s, uvcci_step *st);
void uvcci_outputs_free(uvcc_session *s);
void uvcci_step_on_step(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len);
void uvcci_step_on_audit(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len);
/* Sends what is due, starts and finishes steps. True if anything changed. */
bool uvcci_step_advance(uvcc_session *s);
void uvcci_leaf(uvcc_session *s, uvcci_step *st, uint32_t row, const uint8_t *leaf, size_t len);
uvcci_step *uvcci_step_of(uvcc_session *s, uint32_t step);

/* The engines of a vector's blocks. */
static inline uvcci_engine **uvcci_engines_of(uvcci_instance *r, const uvcci_plan_vec *v) {
    return &r->engine[v->id == UVCCI_ID_TILE0 ? r->plan->id_count : v->id];
}

/* Jobs of an op: by its rank, those of the next step (its keys, its triples) after all of this
 * one's. What is not an op's has rank 0: others wait for it. */
static inline uint64_t uvcci_job_rank(const uvcci_instance *r) {
    return (uint64_t)!r->step->running << 32 | (r->op->rank + 1u);
}

/* TRANSIENT memory taken (+) or given back (-), for the statistics. */
static inline void uvcci_transient_count(uvcc_session *s, const uvcc_shares *x, int64_t bytes) {
    s->stats.transient_bytes += (uint64_t)bytes * (x->hi != NULL ? 2 : 1);
    if (s->stats.transient_bytes > s->stats.transient_peak_bytes)
        s->stats.transient_peak_bytes = s->stats.transient_bytes;
}

/* trace.c: tells the host's tracer of an op; without a tracer nothing. */
void uvcci_trace_op(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_kind kind);
void uvcci_trace_sent(const uvcc_session *s, const uvcci_instance *r, uvcc_trace_work work,
                      uint64_t bytes);
/* A job was handed out, or its completion came. Jobs of no op are not told of. */
void uvcci_trace_job(const uvcc_session *s, uvcc_trace_kind kind, uint64_t job,
                     uvcci_job_owner owner, const void *who);

/* ops.c */
void uvcci_instance_wake(uvcci_instance *r);
/* Runs every op that can go on. True if anything changed. */
bool uvcci_ops_advance(uvcc_session *s);
void uvcci_op_job_done(uvcc_session *s, uvcci_instance *r);
/* A batch came: checks it against the plan. UVCC_ABORT_NONE, or the reason to abort. */
uint16_t uvcci_op_receive(uvcc_session *s, uint8_t peer, const uvcc_link_rx *m);
void uvcci_op_rx_hashed(uvcc_session *s, uvcci_rx *rx);
void uvcci_instance_free(uvcc_session *s, uvcci_instance *r);

/* checkpoint.c */
int uvcci_checkpoint_init(uvcc_session *s);
void uvcci_checkpoint_free(uvcc_session *s);
/* After a step: makes one before s->step if it is due. */
void uvcci_checkpoint_due(uvcc_session *s);
/* True while the next step must wait for it. */
bool uvcci_checkpoint_busy(uvcc_session *s);
void uvcci_checkpoint_done(uvcc_session *s);
void uvcci_set_free(uvcc_session *s, uvcci_set *set);
/* PERSIST tensors that nobody set start as zeros. */
int uvcci_zero_unset(uvcc_session *s);

/* bundle_store.c */
/* Keeps the bundle of a step whose transcript is rooted, with this party's signed root; lets those
 * go that the host has had. False without memory. */
bool uvcci_bundle_store_add(uvcc_session *s, const uvcci_step *st, const uint8_t step_root[32],
                            const uint8_t root[32], const uint8_t signature[64]);
/* After STEP_FINISHED: puts in the AUDITs that came before the step ended here. */
void uvcci_bundle_store_early(uvcc_session *s, uint32_t step);
void uvcci_bundle_store_audit(uvcc_session *s, const uvcci_audit_msg_t *a);
void uvcci_bundle_store_told(uvcc_session *s, uint32_t step);
void uvcci_bundle_store_free(uvcc_session *s);

/* op_beaver.c: the state of a Beaver product in a step; false without memory. Others get none. */
bool uvcci_beaver_init(uvcci_step *st, uvcci_instance *r);
/* Lets triples be made, in program order, under the budget. True if anything changed. */
bool uvcci_beaver_advance(uvcc_session *s);
/* Whether the turn may be built, as far as triples and masks count. */
bool uvcci_beaver_ready(const uvcci_instance *r);
/* After a turn, its messages sent. */
void uvcci_beaver_turn_done(uvcc_session *s, uvcci_instance *r);
void uvcci_beaver_free(uvcc_session *s, uvcci_instance *r);
/* Whether a round would make the triple that the host gave. */
static inline bool uvcci_triple_given(const uvcci_instance *r, unsigned round) {
    return r->beaver != NULL && r->beaver->stored != NULL && round == r->plan->beaver.triple_round;
}
/* Between making the triple and turn 0. */
static inline bool uvcci_before_start(const uvcci_instance *r) {
    return r->turn == UVCCI_TURN_TRIPLE || r->turn == UVCCI_TURN_TRIPLE_HERE;
}

/* triple.c: triples that the host keeps */
/* Finds what the host gave for a step that opens, drops the rest of it. */
void uvcci_triples_match(uvcc_session *s, uvcci_step *st);
void uvcci_stored_free(uvcc_session *s, uvcci_stored_triple *t);
void uvcci_stored_wipe_c(uvcc_session *s, uvcci_stored_triple *t);
/* In a session that makes triples: room for the step's, its record of an op ready but for C and the
 * digest, and the end of the step. */
int uvcci_triples_room(uvcc_session *s, uvcci_step *st);
uint8_t *uvcci_triple_record(uvcc_session *s, const uvcci_instance *r);
void uvcci_triples_keep(uvcc_session *s, uvcci_step *st);
void uvcci_triples_free(uvcc_session *s);

/* deal.c */
bool uvcci_deal_advance(uvcc_session *s);
/* Drops what an op's deal holds. */
void uvcci_deal_free(uvcc_session *s, uvcci_instance *r);
void uvcci_deal_job_done(uvcc_session *s, uvcci_instance *r);

#endif
