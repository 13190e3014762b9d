/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - what everything inside a session shares: its state, and the few things that all of it
 * needs done: log, event, abort, send, leaf, the step of a number, waking an instance. What a
 * module does for others stands in a header of its own beside it.
 *
 * Data flow: link -> receive (ids, grammar, plan) -> [hash job] -> leaf -> accept -> op; op ->
 * [job] -> leaf -> link. Two step contexts exist at most: the running step and the next one, whose
 * keys are dealt while it waits. Everything that can fail for want of memory aborts the session
 * with UVCC_ABORT_MEMORY; a session never goes on half changed. */
#ifndef UVCCI_CORE_H
#define UVCCI_CORE_H

#include "exec/base/arena.h"
#include "exec/base/triple_record.h"
#include "exec/program/op_way.h"
#include "exec/program/plan.h"
#include "exec/program/plan_pool.h"
#include "exec/program/program.h"
#include "exec/runtime/jobs.h"
#include "proto/aes.h"
#include "proto/hello.h"
#include "proto/optable.h"
#include "proto/stepmsg.h"
#include "proto/transcript.h"
#include <assert.h>
#include <uvcc/frame.h>
#include <uvcc/link.h>
#include <uvcc/policy.h>
#include <uvcc/prg_uses.h>
#include <uvcc/session.h>

typedef struct uvcci_step uvcci_step;
typedef struct uvcci_instance uvcci_instance;

/* A message that came, from whole to released. */
typedef struct uvcci_rx {
    struct uvcci_rx *next;
    uvcci_instance *instance;
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

/* Messages in the order in which they came. Put and taken in constant time: a peer decides how many
 * wait. */
typedef struct uvcci_rx_queue {
    uvcci_rx *first, *last;
} uvcci_rx_queue;

static inline void uvcci_rx_queue_put(uvcci_rx_queue *q, uvcci_rx *rx) {
    rx->next = NULL;
    *(q->first != NULL ? &q->last->next : &q->first) = rx;
    q->last = rx;
}

static inline uvcci_rx *uvcci_rx_queue_take(uvcci_rx_queue *q) {
    uvcci_rx *rx = q->first;
    if (rx != NULL)
        q->first = rx->next;
    return rx;
}

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

/* What comes of one vector. */
typedef struct uvcci_instance_vec {
    const uint8_t **at[2];    /* [slot][block]; slots that its protocol has not: NULL */
    const uint8_t *digest[2]; /* of the whole vector, by sender */
} uvcci_instance_vec;

/* What comes in one round: per peer (0: next, 1: previous party), bit q = part q. */
typedef struct uvcci_instance_round {
    uint64_t need[2], got[2];
    uint64_t seen[2];        /* begun, accepted or not */
    uvcci_rx *held;          /* accepted messages */
    uvcci_instance_vec *vec; /* not of keys */
    /* Of an opening to all or to this party: what a job of the next turn computes of the component
     * that it lacks, for comparison with the digest of the party on that side. */
    const uint8_t *check;
    uint8_t check_side;
} uvcci_instance_round;

/* One op in one step, whose segments are its instances. */
typedef struct uvcci_op_run {
    uint32_t first; /* index of its first instance; the others follow */
    uint32_t preds_left;
    uint32_t depth; /* rounds before this op, then with it */
    uint32_t left;  /* segments that are not done */
} uvcci_op_run;

/* One op in one step, or a segment of it. */
struct uvcci_instance {
    uvcci_step *step;
    const uvcci_op *op;
    const uvcci_plan *plan;  /* the segment's */
    uint32_t index, segment; /* of its op, in program order; which of the op's it is */
    uint64_t first;          /* unit of the op (uvcci_segments) with which it begins */
    uint32_t rank;           /* among the step's instances */
    uint32_t row0;           /* of the op table */
    uint32_t ordinal, op_id;
    uint64_t since; /* when its last turn ended */
    uint8_t turn;
    uint8_t stands_at; /* while `turn` is one beside the op's own: that to go back to */
    uint32_t tile;     /* of a turn that is a tile's */
    uint32_t tiles_made, tiles_here; /* of its triple: C is sent; the peers' part is in too */
    bool beside;                     /* `turn` is beside the op's own */
    bool job_out, started, deal_done;
    bool parked, deal_parked; /* its job came back while the step halts: cancel.h */
    uvcci_plan_ids ids;
    uvcci_instance_round *rounds; /* as in the plan */
    uvcci_engine **engine;        /* [id][block]; tile 0 last */
    /* working memory: until it is done, and until its present turn is */
    uvcci_bump bump, turn_bump;
    uvcc_task *tasks;
    uint32_t task_count;
    uvcci_batch_out *out; /* [UVCCI_TURN_ROUNDS]; NULL: the turn sends nothing */
    uvcci_pending_leaf *leaves;
    void *state; /* of its family: see op_way.h. NULL: none now */
    uint8_t *keys;
    size_t key_bytes;
    size_t **key_at; /* [round of keys][block]: in `keys`, SIZE_MAX: none; NULL: not placed yet */
    /* the same, ahead of the turn that reads them: gathering.h */
    uvcci_bump gather_bump;
    uvcci_pending_leaf *gather_leaves;
    uint64_t gathered; /* of the session's `gathered` */
    bool gather_out;
    /* dealing */
    uvcci_bump deal_bump;
    uvcci_batch_out *deal_out; /* [round of keys] */
    uint8_t *deal_buf;
    size_t deal_bytes;
    uint64_t deal_taken;  /* of the session's `dealing` */
    uint64_t *deal_words; /* of a function: masks, bits and signs, by instruction */
    size_t deal_words_bytes;
    uvcci_pending_leaf *deal_leaves;
};

/* The instances that may be at work: [first, end), and what they take. */
typedef struct uvcci_window {
    uint32_t first, end;
    uint64_t bytes;
} uvcci_window;

/* Step contexts: NONE -> AGREED_HERE (the host asked; STEP sent when allowed) -> RUNNING -> freed.
 */
struct uvcci_step {
    bool active, sent, agreed, running;
    /* cancel.h: nothing of it goes on; all three drop it; nothing of it is out or held; its tensors
     * are saved; they are put back. */
    bool halted, dropped, quiet, saved, restored;
    uint32_t number, entry_index;
    uint64_t since; /* when this party agreed to it, sent its STEP, began it: the last of these */
    const uvcci_entry *entry;
    const uvcci_plan **plans; /* by op */
    uvcci_optable table;
    uvcci_op_run *ops;         /* program order */
    uvcci_instance *instances; /* program order, segments in theirs */
    uint32_t instance_count;
    uint32_t *by_rank; /* [instance_count] */
    uvcci_window window;
    uint32_t *bwd_left; /* [microbatch]: BWD ops that are not done; of an entry with a limit */
    uint32_t instances_done, deals_sent, deal_next, gather_next, triple_next;
    uint8_t *triples; /* made for the host, WIRE arena: records of the entry's Beaver products */
    size_t triples_bytes;
    uint64_t *ready;      /* bitmap, by rank, of the instances to look at */
    uint64_t *ready_word; /* bitmap of its words that have any */
    uint32_t hashing;     /* received messages whose hash is not here: they name instances */
    uint32_t ready_words;
    uint32_t depth;
    uint8_t h_optable[32], h_shapes[32];
    uvcci_step_msg msg;
    uvcc_step_keys keys;
    uint8_t salt[3][32];     /* leaf salts by peer's party; own entry unused */
    uvcci_aes commit_key[2]; /* tag salt: NEXT, PREV */
    uvcc_prg_uses *prg_uses; /* prg_check.h; NULL: not looked at, or nothing was read yet */
    uvcci_transcript *transcript;
    struct uvcci_root *root; /* of a large one, on its way: root.h */
    uint8_t step_root[32];
    uint64_t **input; /* staged values by input index, WIRE pool */
    int64_t **output; /* opened values by output index, WIRE pool */
    uint64_t leaves;
    uvcci_bump bump;
};

/* A host's value on its way into one PERSIST tensor, or a checkpoint's into all. */
typedef struct uvcci_set {
    struct uvcci_set *next;
    uvcc_task task[2]; /* the second one hashes what is public */
    uint32_t tasks;
    uvcc_hash_item hash;
    uvcc_copy_item *items;
    uint32_t item_count;
    uint8_t *staged; /* WIRE arena */
    size_t bytes;
    bool alone; /* of all tensors: after every other one */
    bool out;
} uvcci_set;

/* The shares of one PERSIST tensor that the host asked for. */
typedef struct uvcci_read {
    uvcci_set *set; /* its copies go the other way; NULL: none */
    uint32_t tensor;
    bool here; /* they are staged, and the set is in no list */
} uvcci_read;

/* The PERSIST shares of a step's beginning, on their way out. */
typedef struct uvcci_checkpoint {
    uint8_t *data, *next; /* WIRE arena: the finished one, the one being made */
    size_t bytes;         /* of either */
    uint32_t step, next_step;
    bool here; /* `data` is one */
    bool wanted, job_out;
    uvcc_task tasks[2];
    uvcc_copy_item *items;
    uint32_t item_count;
    uvcc_hash_item hash;
} uvcci_checkpoint;

/* Dropping steps: see cancel.c. */
typedef struct uvcci_cancel {
    uint8_t vote[3][8];    /* UVCCI_VOTE_*, by party, this one too, and step mod 8 */
    uint64_t since;        /* when this party voted last */
    bool unacked, job_out; /* a vote may not be acknowledged; a copy of tensors is out */
    uvcc_shares *saved;    /* [tensor]: those that steps overwrite, as before the running step */
    uvcc_task task;
    uvcc_copy_item *items;
    uint32_t item_cap;
} uvcci_cancel;

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
    bool told;          /* it is public, and in no STEP yet */
    bool borrowed;      /* public: the memory is that of the session that lends */
    bool given;         /* its value is the last public one, not zeros or of a checkpoint */
    uint8_t *digest;    /* of the last public value, 32 bytes; NULL: there was none */
} uvcci_buffer;

typedef struct uvcci_peer {
    uvcc_link *link;
    bool keyed, restarted; /* the link has keys; it has those of this run no more */
    bool bye, ended;       /* its BYE came; ... with the reason of an abort */
    bool hello_came;       /* a HELLO of it did */
    bool silent, silent_told;
    uint32_t reached;  /* it finished all steps before this one, for all that it said */
    uint64_t hello_at; /* its last HELLO before READY, else when the handshake began or ended */
    uint64_t silent_since;
    /* STEP by step mod 4 and AUDIT by parity, that came before we could use them */
    bool step_here[4], audit_here[2];
    uvcci_step_msg step_msg[4];
    uvcci_audit_msg_t audit[2];
    uint8_t root_before[32]; /* that its run goes on from, by its first AUDIT */
} uvcci_peer;

/* What was told of HELLOs that disagree: see handshake.c. */
enum { UVCCI_MISMATCH_EVENTS = 16 }; /* of the event queue */
typedef struct uvcci_mismatches {
    uint16_t told[3]; /* by peer; bit f: field f was, and it did not change since */
    uint64_t pace[3]; /* uvcci_pace */
    uint32_t queued;  /* events that the host did not poll yet */
} uvcci_mismatches;

typedef enum uvcci_session_state {
    UVCCI_SESSION_NEW,
    UVCCI_SESSION_LOADED,
    UVCCI_SESSION_HELLO,
    UVCCI_SESSION_READY,
    UVCCI_SESSION_CLOSING,
    UVCCI_SESSION_ABORTED,
    UVCCI_SESSION_CLOSED,
} uvcci_session_state;

/* The policy's text, and how often its limits were used; len 0: there is none. */
typedef struct uvcci_consent {
    char text[UVCC_POLICY_BYTES_MAX];
    size_t len;
    uint32_t limits;
    uint64_t used[UVCC_POLICY_LIMITS_MAX];
} uvcci_consent;

struct uvcc_session {
    uvcc_config cfg;
    uvcci_consent consent;
    struct uvcci_recording *recording; /* calls.c; NULL: nothing is recorded */
    uvcci_meter meter;
    uvcc_allocator alloc; /* metered */
    uvcci_session_state state;
    uint64_t state_at;            /* when the handshake or the closing began */
    uint64_t now, host_now, skew; /* skew: what the host's clock stepped back in all */
    uint8_t party;
    uint8_t sid_rep[32], sid_sub[32];
    uint64_t sid_tag;
    uvcc_step_keys dealt;  /* of keys that clients deal: the trees' alone, of no step */
    uint8_t k_own_prk[32]; /* until READY */
    uint8_t chain[3][32];  /* by pair: C of step chain_step, the next one to be opened */
    uint64_t chain_step;
    uint8_t sign_pk[32], sign_sk[64];
    const uvcc_program *program;
    uint8_t h_program[32];
    const uvcci_plan ***plans; /* by entry and op; they are in the pool */
    uvcci_plan_pool plan_pool;
    uvcci_buffer *buffers;      /* by owning tensor */
    const uvcc_session *lender; /* whose public tensors it reads; NULL: it has its own */
    uvcci_hello hello;
    uvcci_mismatches mismatches;
    char agree_text[UVCC_AGREE_MAX][sizeof "job: " + UVCC_AGREE_NAME_MAX]; /* for people */
    uint32_t run, step; /* first unfinished step */
    uvcci_peer peer[3];
    uvcci_jobs jobs;
    uvcci_arena tensors, wire;
    uint32_t root_inline; /* leaves of a transcript that is hashed at once */
    uvcci_step ctx[2];    /* by step parity */
    bool hello_waits[3];  /* a HELLO is in the link, or the rest of one, not transmitted yet */
    uint16_t abort_reason;
    uint64_t close_deadline; /* UVCC_NEVER while open */
    uint64_t called_at;      /* when silence was last looked for, and since when */
    uint64_t awake_at;       /* this host did not stand still */
    uvcc_event *events;      /* ring */
    uint32_t event_cap, event_head, event_count;
    uint8_t last_root[32];
    bool have_root;
    uint32_t first;           /* the run's first step */
    uvcc_audit_tree roots[3]; /* by party: the global roots of this run's steps */
    uvcc_session_stats stats;
    uint32_t poll_peer;        /* fairness of poll_transmit */
    uvcci_rx_queue rx_pending; /* received, waiting for a hash job */
    uvcci_rx *rx_out;          /* their hash job is out */
    uvcci_set *sets;           /* PERSIST tensors being set by the host, and one being read */
    uvcci_read read;
    uvcci_checkpoint checkpoint;
    uvcci_cancel cancel;
    uvcci_stored_bundle *bundles;    /* bundles, oldest first */
    uvcci_offer offer[UVCCI_OFFERS]; /* checkpoints that the host gave before the start */
    uint32_t offer_count, loaded_run;
    uvcci_offer loaded;         /* where the PERSIST tensors stand at first */
    uint8_t root_before[32];    /* audit root that the run goes on from, of that checkpoint */
    bool tensors_here;          /* they stand where the parties agreed to go on */
    uint8_t lineage[32];        /* of the tensors before `step` */
    uint8_t lineage_before[32]; /* before the step before it; of the run's first step the same */
    uint8_t run_nonce[32];
    struct uvcci_stored_triple *stored; /* given by the host, for steps that are not open yet */
    uint64_t dealing;       /* TENSOR memory of keys that are made and not sent: dealing.h */
    uint64_t gathered;      /* TENSOR memory of keys that no turn took over yet: gathering.h */
    uint32_t gathers_out;   /* jobs that fill it */
    uint64_t triples_ahead; /* bytes of C that are made, or being made, and not used */
    uint64_t triple_bytes;  /* payload that made triples */
    uint8_t *triples_made;  /* of the last finished step of a session that makes them */
    size_t triples_made_bytes;
    uint32_t triples_made_step;
    /* opened outputs of the last finished step */
    int64_t **last_output;
    uint32_t last_output_step, last_output_entry;
    char detail[256]; /* uvcc_session_error_detail() */
};

/* Whether there is a transcript: leaves, roots, and hashes of what comes. */
static inline bool uvcci_audit_on(const uvcc_session *s) {
    return !s->cfg.checks.audit_off;
}
static inline uint8_t uvcci_next_party(const uvcc_session *s) {
    return (uint8_t)((s->party + 1u) % 3u);
}
static inline uint8_t uvcci_prev_party(const uvcc_session *s) {
    return (uint8_t)((s->party + 2u) % 3u);
}
/* A time inside by the host's clock, as it goes now. */
static inline uint64_t uvcci_host_time(const uvcc_session *s, uint64_t at) {
    return at > s->skew ? at - s->skew : 0;
}
/* 0: the next party, 1: the one before. */
static inline unsigned uvcci_side(const uvcc_session *s, uint8_t peer) {
    assert(peer < UVCC_PARTIES && peer != s->party);
    return peer == uvcci_next_party(s) ? 0 : 1;
}

/* ---- core.c ---- */

void uvcci_log(const uvcc_session *s, uvcc_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says why a call of the host is refused: the text is logged and kept as the session's error
 * detail. Returns rc. No secret goes into it. */
int uvcci_refuse(uvcc_session *s, int rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Ends the session: ABORT leaf, BYE to both peers, event ABORTED. The first reason stays. _at: the
 * event names that step instead of the first unfinished one. */
/* Of aborts.def. */
bool uvcci_abort_is_reason(uint16_t reason);
void uvcci_abort(uvcc_session *s, uint16_t reason, const char *text);
void uvcci_abort_at(uvcc_session *s, uint32_t step, uint16_t reason, const char *text);
/* ... because of what that peer does, or does not: the event names it. */
void uvcci_abort_by(uvcc_session *s, uint8_t peer, uint16_t reason, const char *text);
/* Queues a BYE for both peers. */
void uvcci_send_bye(uvcc_session *s, uint16_t reason);
bool uvcci_failed(const uvcc_session *s);
void uvcci_event_push(uvcc_session *s, const uvcc_event *e);
/* Sends a finished message with its chunk ids. */
void uvcci_send(uvcc_session *s, uint8_t dst, uvcc_link_msg *msg, uint8_t kind, uint32_t len,
                uint32_t step, uint32_t op_id, uint64_t order);
/* A message of one chunk that names no op: a STEP or an AUDIT. */
/* Ops leave so much of a link's online window to messages that a step cannot go on without and that
 * wait for nothing: STEP, AUDIT, CANCEL and BYE, of two steps. */
#define UVCCI_SMALL_ROOM 65536u
static inline bool uvcci_room_is_left(const uvcc_link *link, uint8_t kind, size_t len) {
    const uint32_t small = kind == UVCC_FRAME_KEYS_BATCH ? 0 : UVCCI_SMALL_ROOM;
    return uvcc_link_writable(link, kind, (uint32_t)len + small);
}
void uvcci_send_small(uvcc_session *s, uint8_t dst, uint8_t kind, const uint8_t *bytes,
                      uint32_t len);
/* Adds a leaf to the step's transcript, if there is one. A full transcript aborts the session. */
void uvcci_leaf(uvcc_session *s, uvcci_step *st, uint32_t row, const uint8_t *leaf, size_t len);
/* The context of a step that this party's host agreed to, or NULL. */
uvcci_step *uvcci_step_of(uvcc_session *s, uint32_t step);
/* The instance may be able to go on: it is looked at in the next turn of the session. */
void uvcci_instance_wake(uvcci_instance *r);
/* The same of all segments of an op. */
void uvcci_op_wake(uvcci_step *st, uint32_t op);
/* Whose row of the op table it is; *b: which batch of that instance. */
uvcci_instance *uvcci_instance_of_row(const uvcci_step *st, const uvcci_oprow *row, uint16_t *b);

/* Before turn 0: its triple is being made, or is taken in. */
static inline bool uvcci_before_start(const uvcci_instance *r) {
    return r->turn == UVCCI_TURN_TRIPLE || r->turn == UVCCI_TURN_TRIPLE_HERE;
}

/* Whether the turn sends the round: of a triple's those of the tile alone that it is about. */
static inline bool uvcci_turn_sends(const uvcci_instance *r, unsigned round, unsigned turn) {
    const uvcci_plan_round *p = &r->plan->rounds[round];
    return p->turn == turn && (turn != UVCCI_TURN_TRIPLE || p->tile == r->tile);
}

/* Whether all of a round has come. */
static inline bool uvcci_round_came(const uvcci_instance *r, unsigned round) {
    const uvcci_instance_round *in = &r->rounds[round];
    return in->got[0] == in->need[0] && in->got[1] == in->need[1];
}

/* The engines of a vector, block by block; of a triple those of all tiles. */
static inline uvcci_engine **uvcci_engines_of(uvcci_instance *r, const uvcci_plan_vec *v) {
    assert(v->id == UVCCI_ID_TILE || v->id < r->plan->id_count);
    return &r->engine[v->id == UVCCI_ID_TILE ? r->plan->id_count : v->id];
}

/* The op's first instance: of one that is not cut, the only one. */
static inline uvcci_instance *uvcci_instance_of(const uvcci_step *st, uint32_t op) {
    assert(op < st->entry->op_count);
    return &st->instances[st->ops[op].first];
}
static inline uvcci_op_run *uvcci_run_of(const uvcci_instance *r) {
    return &r->step->ops[r->index];
}

/* Jobs of an op: by its rank, those of the next step (its keys, its triples) after all of this
 * one's. What is not an op's has rank 0: others wait for it. */
static inline uint64_t uvcci_job_rank(const uvcci_instance *r) {
    return (uint64_t)!r->step->running << 32 | (r->rank + 1u);
}

/* The turn that reads the instance's keys takes them over, or nobody will read them: gathering.h.
 */
static inline void uvcci_gathered_done(uvcc_session *s, uvcci_instance *r) {
    if (r->gathered == 0)
        return;
    assert(s->gathered >= r->gathered && s->stats.keys_gathered_bytes >= r->key_bytes);
    s->gathered -= r->gathered;
    s->stats.keys_gathered_bytes -= r->key_bytes;
    r->gathered = 0;
}

/* TRANSIENT memory taken (+) or given back (-), for the statistics. */
static inline void uvcci_transient_count(uvcc_session *s, const uvcc_shares *x, int64_t bytes) {
    s->stats.transient_bytes += (uint64_t)bytes * (x->hi != NULL ? 2 : 1);
    if (s->stats.transient_bytes > s->stats.transient_peak_bytes)
        s->stats.transient_peak_bytes = s->stats.transient_bytes;
}

#endif
