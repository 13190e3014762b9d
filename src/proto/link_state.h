/* SPDX-License-Identifier: Apache-2.0 */
/* link_state.h - what a link is made of, shared by its modules: link_core (memory, time),
 * link_keys, link_hello, link_pool (records), the sending ones (link_queue, link_flight, link_send,
 * link_scratch, link_path, link_cc, link_acked, link_tx), the receiving ones (link_window,
 * link_assembly, link_place, link_rx, link_stream) and link, which drives them all.
 *
 * Two clocks: `now` of the caller, and l->now, which is the same but never steps back: when the
 * caller's clock does, the difference goes into l->skew and time runs on from where it was. */
#ifndef UVCCI_LINK_STATE_H
#define UVCCI_LINK_STATE_H

#include <uvcc/link.h>

#include "proto/cc.h"
#include "proto/crypto.h"
#include "proto/ids.h"
#include "proto/link_session.h"

/* A sender's seqs stay within this distance of the cumulative ack, or less (uvcci_link_expect()).
 */
#define UVCCI_WINDOW 65536u

/* What every path carries: datagram frames are never longer, packets until the path is known to
 * carry more. */
#define UVCCI_PACKET_BYTES 1232u

/* Greatest UDP payload; control frames are never longer. */
#define UVCCI_PACKET_MAX_BYTES 65507u

#define UVCCI_MSG_OVERHEAD_BYTES 64u /* what a message costs beside its bytes, in credit */

/* ---- records: messages live in slabs of equal objects ---- */

#define UVCCI_SLAB_OBJECTS 21u
#define UVCCI_OBJECT_BYTES 192u
#define UVCCI_INLINE_AT    128u /* a short message's bytes stand in its record */
#define UVCCI_INLINE_BYTES (UVCCI_OBJECT_BYTES - UVCCI_INLINE_AT)

typedef struct uvcci_slab {
    struct uvcci_slab *prev, *next; /* slabs with room */
    uint32_t index;                 /* in the pool's table */
    uint32_t free;                  /* bit i: object i is free */
    uint8_t pad[64 - 2 * sizeof(void *) - 8];
    uint8_t objects[UVCCI_SLAB_OBJECTS][UVCCI_OBJECT_BYTES];
} uvcci_slab;

/* Head of every object. */
typedef struct uvcci_object {
    uvcci_slab *slab;
    uint32_t generation, at; /* together the token; at = slab index * 32 + object */
} uvcci_object;

typedef struct uvcci_pool {
    uvcci_slab *room;
    uintptr_t *table; /* slab pointer, or (next free index << 1) | 1 */
    uint32_t table_cap, table_free;
    uint32_t slabs, live;
} uvcci_pool;

static inline uint64_t uvcci_object_token(const uvcci_object *o) {
    return (uint64_t)o->generation << 32 | o->at;
}

/* ---- sending ---- */

struct uvcc_link_msg {
    uvcci_object object;
    uint8_t *data;
    struct uvcc_link_msg *next;            /* queue, begun stack or zombies */
    struct uvcc_link_msg *child, *sibling; /* heap */
    uint64_t order, serial;
    uint32_t len, step, op_id;
    uint32_t cut;    /* bytes cut into frames */
    uint32_t frames; /* frames cut and not acknowledged */
    uint8_t kind, cls, state;
    uint32_t msg_ids[UVCC_MSG_MAX_CHUNKS];
};

/* One frame between its first transmission and its acknowledgement. Links are (seq mod 2^16) + 1.
 */
typedef struct uvcci_tx_frame {
    uvcc_link_msg *msg;
    uint64_t sent_ns; /* last transmission */
    uint64_t ack;     /* as last sent, unsealed */
    uint8_t tag[UVCCI_TAG_BYTES];
    uint32_t xmit; /* number of the last transmission */
    uint32_t offset;
    uint32_t len : 24, where : 2;
    uint32_t resent : 1, probed : 1; /* probed: by a timeout, without sign of loss */
    uint32_t big : 1;                /* last sent in a packet that not every path carries */
    uint32_t crc;                    /* of the frame as last sent */
    uint32_t prev, next;
    uvcci_rate_stamp rate;
} uvcci_tx_frame;

/* What it counts for in windows and rates, sealed or not. */
static inline uint64_t uvcci_tx_frame_bytes(const uvcci_tx_frame *f) {
    return (uint64_t)f->len + UVCC_FRAME_HEADER_BYTES + UVCCI_TAG_BYTES;
}

enum { UVCCI_NOWHERE = 0, UVCCI_IN_SENT = 1, UVCCI_IN_LOST = 2 };

#define UVCCI_BLOCK_FRAMES 64u

typedef struct uvcci_tx_block {
    uvcci_tx_frame frame[UVCCI_BLOCK_FRAMES];
    uint64_t received; /* bit i: the peer has frame i, or it never was */
} uvcci_tx_block;

typedef struct uvcci_seq_list {
    uint32_t first, last;
} uvcci_seq_list;

/* Bytes of one poll_transmit: headers, tags and short payloads stand in `bytes`, long payloads are
 * slices of their messages. */
#define UVCCI_SCRATCH_SLICES UVCC_TRANSMIT_SLICES_MAX

/* A frame's bytes are copied, sealed, opened and read for its CRC in tiles of so many, so that who
 * reads second finds them in the first cache. */
#define UVCCI_TILE_BYTES (8u << 10)

/* As many frames are sealed, or opened, side by side at most. */
#define UVCCI_SIDE_FRAMES 16u

/* A frame that is to be sealed. */
typedef struct uvcci_seal {
    uvcci_aead *key; /* NULL: it goes as it is */
    uint64_t seq;
    uvcci_tx_frame *frame;
    uint8_t *data;         /* its piece */
    uint8_t *header, *tag; /* their places in the transmit */
    int err;
} uvcci_seal;

typedef struct uvcci_scratch {
    size_t cap, used;      /* of bytes */
    size_t total;          /* bytes on offer and not yet taken */
    uint32_t first, count; /* slices */
    bool has_ack;
    uint32_t seals; /* frames that wait for theirs, while it is built */
    uvcci_seal seal[UVCCI_SIDE_FRAMES];
    uvcc_slice slices[UVCCI_SCRATCH_SLICES];
    uint8_t bytes[];
} uvcci_scratch;

/* So many timeouts with nothing received: a multiple of 4. */
#define UVCCI_TURN_TIMEOUTS 16u

/* The path of a datagram link (link_path). */
typedef struct uvcci_path {
    uint64_t at;            /* when to probe */
    uint64_t raise_at;      /* with data to send, the search begins anew then */
    uint32_t packet;        /* the greatest packet sent */
    uint32_t probe, number; /* size and number of the PING under way; 0: none */
    uint32_t high;          /* nothing above is tried */
    uint32_t lost;          /* frames in big packets since one came */
    uint8_t tries;
    uint8_t timeouts; /* with nothing heard between */
} uvcci_path;

/* How much later than a round trip a frame may come (link_acked). */
typedef struct uvcci_reorder {
    uint64_t grow_at, lost_at; /* not again before */
    uint8_t eighths;           /* of a round trip */
    uint8_t keep;              /* round trips with losses until it goes back */
} uvcci_reorder;

typedef struct uvcci_tx_class {
    uvcc_link_msg *first, *last; /* waiting, orders not falling */
    uvcc_link_msg *heap;         /* waiting, came with a lower order than `last` */
    uvcc_link_msg *begun;        /* partly cut; each was more urgent than the one below */
    uvcci_seq_list lost;
    uint64_t held;                /* of the tx limit */
    uint64_t credit, begun_bytes; /* absolute: granted, taken */
} uvcci_tx_class;

/* What ends the run: uvcci_link_spent(). */
typedef enum uvcci_spent {
    UVCCI_SPENT_NOTHING,
    UVCCI_SPENT_SEQS,
    UVCCI_SPENT_KEY,
    UVCCI_SPENT_CTL_KEY
} uvcci_spent;

typedef struct uvcci_tx_side {
    uvcci_pool pool;
    uvcci_tx_class cls[2];
    uvcci_tx_block **ring;
    uint32_t ring_cap;
    uint32_t window;     /* seqs above cum, at most: see uvcci_link_expect() */
    uint32_t unreceived; /* frames that the peer is not known to have */
    uint64_t cum, next;  /* seqs; cum: the peer accepted all up to it */
    uint64_t serial;
    uint64_t inflight;   /* frame bytes of `sent` */
    uvcci_seq_list sent; /* in order of transmission (datagrams) */
    uint32_t xmit, rack_xmit, maybe_xmit;
    uint32_t undone; /* messages sent and not wholly acknowledged */
    uint64_t rack_rtt, maybe_rtt, maybe_at, min_rtt;
    uint64_t rto_base, rto_at, loss_at, timeout_ns; /* timeout_ns: when the last one was */
    uint64_t timeout_acks;                          /* ack_counter at that time */
    uint64_t resume_at; /* a reopened stream waits until then for the peer's ACK */
    uint64_t ping_at, ping_wait;
    uint64_t alive_at, retry_at;
    uvcci_path path;
    uint32_t pings, repeats; /* numbered so far; told by the peer */
    uvcci_reorder reorder;
    uint8_t backoff;
    bool rack_valid, outstanding, pinging;
    uint8_t spent; /* uvcci_spent */
    int fatal;
    uint64_t ack_counter;  /* greatest seen */
    uint64_t offered_at;   /* a stream: when the transmit that is out was made, */
    size_t offered_bytes;  /* and of how many bytes */
    uint32_t transmit_max; /* a stream: it is closed when it holds this much */
    uint64_t transmit_id;
    uvcci_scratch *scratch;
    uvcci_scratch *ahead; /* a stream: the transmit that comes next, sealed while one is out */
    /* Done, but the outstanding transmit may point into them; or the one ahead. */
    uvcc_link_msg *zombies, *zombies_ahead;
} uvcci_tx_side;

/* ---- receiving ---- */

typedef struct uvcci_range {
    uint32_t first, end;
} uvcci_range;

typedef struct uvcci_rx_msg {
    uvcci_object object;
    uint8_t *data;
    struct uvcci_rx_msg *next; /* bucket or ready queue */
    uint64_t done_seq;         /* the frame that completed it */
    uint32_t step, op_id, len, got;
    uint8_t kind, cls, state;
    bool tabled;
    uint16_t chunk_cnt, ids_known;
    uint32_t msg_ids[UVCC_MSG_MAX_CHUNKS];
    uint32_t range_cnt, range_cap; /* cap 0: `one` */
    union {
        uvcci_range one;
        uvcci_range *many;
    } ranges; /* ascending, disjoint, not touching */
} uvcci_rx_msg;

enum { UVCCI_MSG_OPEN = 0, UVCCI_MSG_READY = 1, UVCCI_MSG_OFFERED = 2, UVCCI_MSG_ACCEPTED = 3 };

_Static_assert(sizeof(struct uvcc_link_msg) <= UVCCI_INLINE_AT,
               "the record leaves its inline part");
_Static_assert(sizeof(uvcci_rx_msg) <= UVCCI_INLINE_AT, "the record leaves its inline part");

_Static_assert(sizeof(uvcci_tx_frame) == 88, "65,536 of them may be in flight");

_Static_assert(sizeof(uvcci_slab) == 4096, "one page");

/* What came of a frame whose header is here and whose payload is not yet (streams). */
typedef struct uvcci_rx_partial {
    uvcc_frame_header h;
    uint32_t header_got, got, crc;
    uint32_t offered; /* bytes at to + got that uvcc_link_rx_buffer() gave out last; 0: none */
    uint8_t mode;
    bool created;
    uvcci_rx_msg *msg; /* PLACE */
    uint8_t *to;       /* PLACE: into the message; GATHER: a buffer of payload_len bytes */
    uint8_t header[UVCC_FRAME_HEADER_BYTES];
    uint8_t tag[UVCCI_TAG_BYTES];
    uvcci_aead *key; /* a sealed piece is opened as it comes; NULL: when it is whole */
    uvcci_gcm_part part;
} uvcci_rx_partial;

/* The seqs above the cumulative one: two rings of `words` words, bits for (cum, cum + 64 * words].
 */
#define UVCCI_FRESH 8u

typedef struct uvcci_rx_window {
    uint64_t fresh[UVCCI_FRESH][2]; /* runs of seqs lately received out of order: a ring */
    uint32_t fresh_at, words;
    uint64_t sack_cursor;
    uint64_t bits[]; /* seen, then ackable */
} uvcci_rx_window;

typedef struct uvcci_rx_side {
    uvcci_pool pool;
    uvcci_rx_msg **table;
    uint32_t table_cap, table_live; /* messages of several frames in reassembly */
    uint32_t range_caps;            /* of all of them */
    uint32_t noted;                 /* bytes that want an ACK */
    uvcci_rx_window *window;        /* NULL: nothing above cum */
    uint64_t cum, top;              /* top: greatest seen */
    uint64_t suspect[2];            /* uvcci_pace: failed opens of data and of control frames */
    uint64_t ack_at, ack_counter;
    uint64_t released[2], admitted[2], granted[2]; /* absolute, by class */
    uint32_t ping_number; /* of the longest PING since the last ACK that told of one */
    uint32_t ping_bytes;  /* its length; 0: it was told */
    uint32_t repeats, ce_packets;
    uint64_t taken; /* data frames that were new */
    bool broken;
    uvcci_rx_msg *ready_first, *ready_last;
    uvcci_rx_partial *in; /* made at need, then kept until the link is idle */
} uvcci_rx_side;

/* ---- congestion control (datagrams) ---- */

typedef struct uvcci_link_cc {
    uvcci_cc cc;
    uvcci_rate rate;
    uvcci_rate_sample sample; /* of the ACK that is being read */
    uint64_t rtt;             /* the same: shortest of its frames; NEVER: none */
    uint64_t delivery;        /* the latest sample's rate */
    uint64_t pace_at;         /* the next packet is due then */
    uint64_t wake_at;         /* data waits until then, for a whole quantum; NEVER: it does not */
    uint64_t late_ns;         /* the host came so much later than asked, and did not catch up yet */
    uint64_t full_until;      /* the window limits us until so much was delivered */
    /* Silence: the oldest frame in flight when it was first noticed was sent then; when it was
     * noticed lately, and before that. */
    uint64_t silent_from, silent_last, silent_to;
    uint32_t ce_seen, ce_new; /* marked packets: counted by the peer, not told yet */
    uint32_t probes;          /* frames that go out whatever the window is */
    bool original;            /* the ACK tells of a frame sent once, since the last timeout */
} uvcci_link_cc;

/* ---- the link ---- */

typedef struct uvcci_link_key {
    uint32_t step, epoch;
    bool valid;
    uvcci_aead aead;
    uint64_t name; /* a hash of the key, where names are told */
} uvcci_link_key;

typedef struct uvcci_link_keys {
    uint8_t chain[32]; /* C of step chain_step, the oldest whose keys may still be needed */
    uint8_t ctl_tx[32], ctl_rx[32];
    uint64_t ctl_name; /* of ctl_tx, as uvcci_link_key's */
    uint32_t chain_step;
    uint32_t forged[3], forged_ctl; /* failed opens under keys of a step, by step mod 3 */
    uint8_t suite;
    struct uvcci_step_keys *steps; /* NULL: none derived */
} uvcci_link_keys;

/* By step mod 3 and epoch mod 2; derived at first use. The frames that may come at a time are of
 * two epochs at most. */
typedef struct uvcci_step_keys {
    uvcci_link_key tx[3][2], rx[3][2];
} uvcci_step_keys;

_Static_assert(UVCCI_WINDOW < 1u << UVCCI_EPOCH_BITS, "a window holds frames of two epochs");

/* Message buffers lately given back, for messages of the same length: a fresh megabyte costs more
 * in page faults than in anything that the link does with it. */
#define UVCCI_SPARES 8u

#define UVCCI_SPARE_MIN_BYTES 2048u

typedef struct uvcci_spares {
    uint32_t oldest;
    uint32_t len[UVCCI_SPARES];
    uint8_t *data[UVCCI_SPARES];
    bool sealed[UVCCI_SPARES];
    uint64_t bytes;
} uvcci_spares;

#define UVCCI_HELLO_QUEUE 4u

/* A sealed HELLO is one frame, whatever the path. */
#define UVCCI_HELLO_SEALED_MAX 128u

typedef struct uvcci_hello_box {
    uint16_t len;
    bool sealed, foreign; /* foreign: unsealed, under another session's tag */
    uint8_t payload[UVCC_HELLO_MAX_BYTES];
} uvcci_hello_box;

typedef struct uvcci_hello_out {
    uint32_t msg_id;   /* what its pieces carry */
    uint16_t len, cut; /* cut: bytes that went out in pieces */
    bool sealed;
    uint8_t payload[UVCC_HELLO_MAX_BYTES];
} uvcci_hello_out;

/* A HELLO that is coming: which one, and its bytes that are here. */
typedef struct uvcci_hello_pieces {
    uint64_t sid_tag;
    uint32_t msg_id, msg_len, got;
    uint64_t have[UVCC_HELLO_MAX_BYTES / 64];
    uint8_t bytes[UVCC_HELLO_MAX_BYTES];
} uvcci_hello_pieces;

/* A sealed HELLO that came before there were keys, as it came: its peer was a turn faster. */
typedef struct uvcci_hello_early {
    uint8_t header[UVCC_FRAME_HEADER_BYTES];
    uint8_t payload[UVCCI_HELLO_SEALED_MAX + UVCC_FRAME_CTL_SEAL_BYTES];
} uvcci_hello_early;

_Static_assert(UVCC_HELLO_MAX_BYTES % 64 == 0, "have has a bit for each byte");

typedef struct uvcci_hello_queue {
    uint32_t first, count;
    uvcci_hello_box box[UVCCI_HELLO_QUEUE];
} uvcci_hello_queue;

struct uvcc_link {
    uvcc_link_config cfg;
    uvcc_link_stats stats;
    uint64_t now, skew;  /* skew: what the caller's clock stepped back in all */
    uint64_t hash_mul;   /* a secret choice of hash: peers pick the ids */
    uint64_t trim_at;    /* caches go back then if the link is idle */
    uint64_t data_bytes; /* of message buffers in use */
    uint64_t heard_at;   /* see uvcci_heard(); NEVER: not yet */
    uvcci_spares *spares;
    uint32_t run, step;
    uint32_t generation; /* of the last object that a pool gave out */
    bool have_run, started, stream_up, heard, resting;
    const char *violation;
    uvcci_link_keys *keys;
    uvcci_link_names names; /* hooks NULL: nobody asks */
    uvcci_hello_out *hello_out;
    uvcci_hello_queue *hello_in;
    uvcci_hello_pieces *hello_pieces;
    uvcci_hello_early *hello_early;
    uvcci_link_cc *cc; /* NULL: a stream */
    uvcci_tx_side tx;
    uvcci_rx_side rx;
};

#endif
