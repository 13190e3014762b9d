/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/session.h - one worker of one party in one triangle, sans I/O.
 *
 * The loop of every host:
 *
 *     now = clock(); // once per turn
 *     for each peer:
 *         uvcc_session_feed(s, peer, bytes that came, len, now);
 *     while (the executor gives a completion c)
 *         uvcc_session_complete(s, &c, now);
 *     if (now >= uvcc_session_next_deadline(s))
 *         uvcc_session_on_timer(s, now);
 *     while (uvcc_session_poll_event(s, &event) == 1)
 *         ...;
 *     while (uvcc_session_poll_job(s, &job) == 1)
 *         submit(executor, job); // job->plane UVCC_PLANE_LOCAL: see <uvcc/collective.h>
 *     while (uvcc_session_poll_transmit(s, &tx, now) == 1)
 *         uvcc_session_transmit_done(s, tx.peer, tx.id, send(tx.peer, tx.slices), now);
 *     arm the timer for uvcc_session_next_deadline(s);
 *     wait;
 *
 * Life: new -> load_program -> start -> READY -> steps -> close -> CLOSED. Peers are party indices.
 * Ownership: what poll_* hands out stays valid until the matching done / complete, else until the
 * next call. Every array that a call takes is copied before it returns.
 */
#ifndef UVCC_SESSION_H
#define UVCC_SESSION_H

#include <stdbool.h>
#include <uvcc/compute.h>
#include <uvcc/names.h>
#include <uvcc/program.h>
#include <uvcc/trace.h>
#include <uvcc/triple.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct uvcc_session uvcc_session;

enum { UVCC_SUITE_CHACHA20_POLY1305 = 1, UVCC_SUITE_AES256_GCM = 2, UVCC_SUITES_ALL = 3 };

/** Key encapsulation, by the ids of the HPKE registry. */
enum { UVCC_KEM_NONE = 0, UVCC_KEM_X25519 = 0x0020 /**< DHKEM(X25519, HKDF-SHA256), RFC 9180 */ };

/** Recorder hook: gets a log of everything that reaches the session, from which <uvcc/record.h>
 * repeats the run. THE LOG HOLDS THE SESSION'S SECRETS AND SHARES: pair secrets, seeds, random
 * bytes, private inputs. Keep it as you keep keys: mode 0600, encrypted at rest, destroyed when it
 * is no longer needed. `write` must keep the bytes in their order; it must not call the library. */
typedef struct uvcc_recorder {
    void (*write)(void *user, const uint8_t *bytes, size_t len); /**< NULL: nothing is recorded */
    void *user;
    const uint8_t *app; /**< goes into the log's header: what the host needs to rebuild the program;
                             copied by uvcc_session_new */
    size_t app_len;
} uvcc_recorder;

/* ---- configuration, in groups ---- */

/** Who this party is, in which job, and by what its peers know it. uvcc_session_new() refuses with
 * UVCC_ERR_CONFIG, and names in the log, what was forgotten: a zero sid_job; a zero sign_seed,
 * unless secrets are provisioned and the audit is off; zero or equal pair_secrets, or with
 * exchange_x25519 zero or equal peer_sign_keys; an unknown kem. */
typedef struct uvcc_config_identity {
    uint8_t party;                /**< 0..2 */
    bool exchange_x25519;         /**< session keys from an X25519 exchange instead of pair_secret,
                                       which is ignored: sign_seed is this party's identity and
                                       peer_sign_key are the peers'. The same at all three */
    uint8_t sid_job[32];          /**< names the job; the same at all three */
    uint8_t pair_secret[3][32];   /**< provisioned, by peer; the own entry is ignored */
    uint8_t sign_seed[32];        /**< Ed25519 seed of this party's audit signatures */
    uint8_t peer_sign_key[3][32]; /**< Ed25519 public keys, by party; all zero: that peer's AUDIT
                                       signatures are kept but not verified */
    uint8_t policy_hash[32];      /**< of what the parties agreed on outside: HELLOs compare it,
                                     each AUDIT signs it; zeros: nothing */
    uint64_t kem;         /**< a second key agreement whose secret goes into all keys, beside
                               that of either exchange: UVCC_KEM_*, 0: none. The same at all
                               three */
    uint64_t reserved[3]; /**< 0 */
} uvcc_config_identity;

/** Which worker of the job this is. */
typedef struct uvcc_config_place {
    uint16_t replicas, stages, tp_ranks; /**< R, S, T of the job; 0: 1 */
    uint16_t replica, stage, tp_rank;    /**< of this worker, from 0 */
    uint64_t reserved[2];                /**< 0 */
} uvcc_config_place;

/** The links to the two peers: how bytes travel, and how much of a peer's is held. */
typedef struct uvcc_config_links {
    bool datagram;  /**< over packets instead of byte streams */
    uint8_t suites; /**< bit 0: ChaCha20-Poly1305, bit 1: AES-256-GCM; 0: both */
    uint32_t frame_bytes, datagram_bytes;    /**< as in uvcc_link_config */
    uint64_t rx_online_bytes, rx_keys_bytes; /**< per peer; 0: what the program can have on its way
                                                  (docs/limits.md) */
    uint64_t tx_online_bytes, tx_keys_bytes; /**< per peer; 0: the same */
    uint32_t rx_messages_max; /**< per peer, as in uvcc_link_config; 0: what the program needs. Less
                                   than that is refused like rx_online_bytes */
    uint32_t rx_ranges_max;   /**< as in uvcc_link_config */
    uint64_t rto_initial_ns, rto_min_ns, rto_max_ns, ack_delay_ns, keepalive_ns; /**< as there */
    uint64_t hello_repeat_ns;                                                    /**< 0: 200 ms */
    uint32_t suspicious_max; /**< per peer, as in uvcc_link_config, and so is the next */
    uint64_t suspicious_window_ns;
    uint32_t congestion;       /**< datagrams: enum uvcc_congestion, for each of the two links, and
                                    so is the rate */
    uint32_t transmit_frames;  /**< as in uvcc_link_config */
    uint64_t rate_bytes_per_s; /**< 0: none */
    /** A peer of which nothing is heard for so long is told of (PEER_SILENT); 0: never. Heard is
     * what nobody can replay (uvcc_link_stats.heard_ns), and before READY, where no key proves
     * anything, a HELLO: after the first of a peer the wait is at least 64 hello_repeat_ns, for
     * they become rare. At least 1 ms; keepalive_ns 0 becomes a quarter of it (at most 10 s), and
     * more than half of it is refused. Longer than any peer's host may stand still; time in which
     * this one did does not count. */
    uint64_t silence_ns;
    /** After so much silence the session aborts (SILENCE); 0: never. Not below silence_ns. */
    uint64_t silence_abort_ns;
} uvcc_config_links;

/** What this session may take and how far it may run ahead. */
typedef struct uvcc_config_limits {
    uint64_t keys_ahead_bytes; /**< keys that this party deals ahead, per peer, at most, as far as
                                    a step has them; 0: 32 MiB; raised to the largest op's keys */
    uint64_t triples_ahead_bytes; /**< products C of triples that are here before their ops can use
                                       them; 0: 64 MiB. One is let in whatever its size */
    uint64_t tensor_bytes;        /**< limit of UVCC_MEM_TENSOR memory; 0: none. Less than what any
                                       order of the program's ops needs: UVCC_ERR_LIMIT when it is
                                       loaded, with that number; a step that needs more than the
                                       limit aborts (MEMORY) */
    uint32_t jobs_max;            /**< compute jobs out at a time, collectives apart; at least 4, 0:
                                       256 */
    uint32_t leaves_max;          /**< transcript leaves of a step; 0: 2^22, or as many as
                                       the program has if these are more */
    uint64_t close_ns;            /**< how long a closing session waits for its peers at most, after
                                       an abort too; 0: 3 s; UVCC_NEVER: as long as it takes */
    uint64_t keys_gathered_bytes; /**< TENSOR memory for keys that are here before the turns that
                                       use them: they are copied out of their messages as soon as
                                       they came whole, in program order, of this step and the next,
                                       as far as there is room. 0: none; each turn copies its own.
                                       For executors whose TENSOR memory lies on a device, which
                                       messages do not */
    uint64_t reserved[2];         /**< 0 */
} uvcc_config_limits;

/** Where a job goes on, and what it leaves for going on later. */
typedef struct uvcc_config_resume {
    uint32_t
        next_step;     /**< the first step, 0 for a new job, where the host sets the tensors itself:
                            the same at all three. With uvcc_session_resume it is not looked at */
    uint32_t next_run; /**< 0 for a new job; above every run before */
    uint32_t checkpoint_every; /**< a checkpoint after every so many steps, and one before the first
                                    step on tensors that the host set; 0: none */
    uint64_t
        cancellable; /**< 1: this host lets steps be dropped (uvcc_session_cancel); at the start
                          of each the PERSIST tensors that it writes are copied, into memory
                          that the session holds from load_program on. Not with audit_off, nor
                          with collectives: UVCC_ERR_CONFIG. 0: asked by a peer, it goes on */
    uint64_t reserved[1]; /**< 0 */
} uvcc_config_resume;

/** Evidence of what was computed, and what a failed check leaves behind. */
typedef struct uvcc_config_checks {
    bool audit_off; /**< no leaves, no roots, no AUDIT; nothing else changes. The same at all three:
                         a party with it refuses the others' AUDITs (event ABORTED, reason AUDIT,
                       text that names this member), and all abort */
    bool bundles;   /**< hold each finished step's bundle for the host: BUNDLE events. Not with
                         audit_off */
    /** The host keeps on disk what the event ABORTED with reason SKS says, for good: sks_refused
     * with its step. uvcc_session_step() then says UVCC_ERR_REFUSED for that step, unless an
     * operator set sks_override too, which the step's transcript records. */
    bool sks_refused, sks_override;
    uint32_t sks_step;
    /** 1: no job goes out that reads a word of a key stream which another one of its step has read
     * (<uvcc/prg_uses.h>): a defect of this program, and the session ends (event ABORTED, reason
     * INTERNAL; the log says which op, block and stream). Builds with -Dcheck_prg=true look
     * anyway. */
    uint64_t prg_uses;
    uint64_t reserved[1]; /**< 0 */
} uvcc_config_checks;

/** A session that makes triples for another one and runs nothing else. */
typedef struct uvcc_config_triples {
    bool only;            /**< of each step that it agrees to, the Beaver products' triples are made
                               (see <uvcc/triple.h>). The same at all three */
    uint32_t run;         /**< the run of the session that will use them, or
                               UVCC_TRIPLES_ANY_RUN. The same at all three */
    uint64_t reserved[2]; /**< 0 */
} uvcc_config_triples;

/** What this party consents to (<uvcc/policy.h>, docs/policy.md). The session refuses a program, a
 * step or an input of its host that the policy does not allow, with UVCC_ERR_REFUSED and by name,
 * and nothing has changed. identity.policy_hash is then the policy's: zero, or the same.
 * uvcc_session_new() refuses (UVCC_ERR_CONFIG) a text that is no policy, and names the line. */
typedef struct uvcc_config_consent {
    const char *policy;   /**< the text, copied; NULL: none, everything is allowed */
    size_t policy_len;    /**< at most UVCC_POLICY_BYTES_MAX */
    const uint64_t *used; /**< copied: what earlier sessions of the job counted, by limit in the
                               order of the text, as uvcc_session_policy_used() said; NULL: 0 */
    uint32_t used_count;  /**< as many as the text has limits; 0 with NULL */
    uint32_t reserved32;  /**< 0 */
    uint64_t reserved[3]; /**< 0 */
} uvcc_config_consent;

enum { UVCC_AGREE_MAX = 16, UVCC_AGREE_NAME_MAX = 47 };
/** What the hosts want to be alike at all three beyond the program: hyperparameters, a seed, the
 * name of a data set. The handshake compares the parts in their order and before the program, and
 * tells the first that differs (MISMATCH, "job") instead of letting the job begin. A part is 64
 * bits of a hash (uvcc_agree_hash()) and travels in the clear, as policy_hash does: who listens
 * can try guesses, so nothing secret belongs here. A peer says what it says: this finds mistakes;
 * what a peer really computes is the program's and the audit's to show. */
typedef struct uvcc_config_agree {
    uint32_t count;      /**< how many; the same items in the same order at all three */
    uint32_t reserved32; /**< 0 */
    const char *name[UVCC_AGREE_MAX]; /**< for people; copied, at most UVCC_AGREE_NAME_MAX bytes;
                                           NULL: "part 3". Not compared */
    uint64_t part[UVCC_AGREE_MAX];    /**< 0: none; behind `count` all are 0 */
    uint64_t reserved[2];             /**< 0 */
} uvcc_config_agree;
/** 64 bits of SHA-256 over len bytes, never 0; 0 if bytes is NULL and len is not 0. */
UVCC_API uint64_t uvcc_agree_hash(const void *bytes, size_t len);

/** Threads of the host for what a session computes itself. */
typedef struct uvcc_config_threads {
    uvcc_parallel parallel; /**< as in uvcc_link_config, for both links */
    uint64_t reserved[2];   /**< 0 */
} uvcc_config_threads;

/** Hooks, then groups. Zero means the default where one is named; unknown `flags` are refused.
 *
 * Versions: `size` is the caller's sizeof. A library takes a structure that ends earlier than its
 * own, at the end of any group behind `place`: the groups that are not there are all zero, as in
 * their defaults. It refuses every other size (UVCC_ERR_USAGE). So a new group goes to the end, and
 * inside a group nothing ever moves: what is added to one takes the place of `reserved` words,
 * which must be zero, so that a library which does not know a member refuses its use instead of
 * overlooking it. */
typedef struct uvcc_config {
    size_t size; /**< sizeof(uvcc_config): set by uvcc_config_default */
    uint32_t flags;
    uvcc_allocator alloc;
    uvcc_random random;
    uvcc_logger log;
    uvcc_recorder record;
    uvcc_tracer trace; /**< <uvcc/trace.h> */
    uint64_t cookie;   /**< stands in this session's jobs and completions */

    uvcc_config_identity identity;
    uvcc_config_place place;
    uvcc_config_links links;
    uvcc_config_limits limits;
    uvcc_config_resume resume;
    uvcc_config_checks checks;
    uvcc_config_triples triples;
    uvcc_config_consent consent;
    uvcc_config_agree agree;
    uvcc_config_names names; /**< <uvcc/names.h> */
    uvcc_config_threads threads;
} uvcc_config;

/** cfg_size = sizeof *cfg of the caller's header. */
UVCC_API int uvcc_config_default(uvcc_config *cfg, size_t cfg_size);

/** UVCC_ERR_CONFIG: refused, and cfg->log is told which member and why (also those of links, which
 * are as in uvcc_link_config); UVCC_ERR_USAGE: NULL, or a `size` that is no version's. */
UVCC_API int uvcc_session_new(uvcc_session **out, const uvcc_config *cfg) UVCC_MUST_USE;
/** Frees everything and wipes secrets. Jobs and transmits that are still out lose their memory:
 * close first, or be sure that no executor works on it any more. */
UVCC_API void uvcc_session_free(uvcc_session *s);
/** The program must outlive the session. UVCC_ERR_REFUSED: see consent; another may be loaded.
 * UVCC_ERR_LIMIT names in the log the receive capacity that the program needs when the configured
 * one is smaller. UVCC_ERR_CONFIG: the program is for another topology or stage. */
UVCC_API int uvcc_session_load_program(uvcc_session *s, const uvcc_program *p);
/** Before s loads the program that `from` has loaded: s keeps no PUBLIC tensors of its own but for
 * constants, it reads those of `from`, another session of this process, such as another party's.
 * The executor of s must reach that memory, `from` must outlive s and all jobs of s, and whoever
 * calls this and uvcc_session_set_borrowed() owns both sessions meanwhile. `from` may lend to many,
 * and may borrow itself. UVCC_ERR_STATE: `from` has no program, or s has one; UVCC_ERR_CONFIG: s is
 * recorded. Loading another program fails (UVCC_ERR_PROGRAM). */
UVCC_API int uvcc_session_borrow_public(uvcc_session *s, uvcc_session *from);
/** Parts of what a session takes: see uvcc_memory_bound. */
typedef enum uvcc_memory_term {
    UVCC_MEMORY_SESSION = 0,  /**< the session, plans of all ops, events, jobs, tables of PERSIST
                                   tensors and of checkpoints, the recording */
    UVCC_MEMORY_LINKS = 1,    /**< windows of both links, records of messages, frames in flight */
    UVCC_MEMORY_STEPS = 2,    /**< tables of two open steps, records of what came for them */
    UVCC_MEMORY_EVIDENCE = 3, /**< transcripts, their roots, bundles */
    UVCC_MEMORY_OPS = 4,      /**< tasks of ops at work and of keys being dealt */
    UVCC_MEMORY_TENSORS = 5,  /**< all TENSOR memory: PERSIST tensors, with resume.cancellable those
                                   that steps write once more, TRANSIENT ones, what ops work on,
                                   keys and triples; freed blocks that are kept. At most
                                   limits.tensor_bytes, if that is set */
    UVCC_MEMORY_VALUES = 6,   /**< staged inputs, outputs, PERSIST values being set, checkpoints,
                                   triples for the host and from it; freed blocks that are kept */
    UVCC_MEMORY_ARENAS = 7,   /**< records of the blocks that are kept */
} uvcc_memory_term;
enum { UVCC_MEMORY_TERMS = 8 };

/** What a session takes from its allocator at most, in bytes as they are asked for. */
typedef struct uvcc_memory_bound {
    uint64_t bytes;                   /**< in all */
    uint64_t by_class[4];             /**< the same, by uvcc_mem_class */
    uint64_t term[UVCC_MEMORY_TERMS]; /**< the same, by uvcc_memory_term */
} uvcc_memory_bound;
/** The most memory that a session of *cfg with the program takes at any time, whatever its peers do
 * and in whatever order ops end: an upper bound, for who places sessions; docs/limits.md says what
 * goes into it and how near it is. It counts on a host that gives uvcc_session_feed() at most 256
 * KiB at a time, polls events, and gives triples ahead for two steps; triples of more steps come on
 * top. A session that borrows public tensors takes what these are less. Asking takes some memory of
 * cfg->alloc and gives it back: STATE and SECRET, never TENSOR or WIRE. Nothing is taken from
 * cfg->random, recorded or traced. Errors are those of uvcc_session_new() and
 * uvcc_session_load_program(), named in cfg->log. *out is changed on success only. */
UVCC_API int uvcc_session_memory_bound(const uvcc_config *cfg, const uvcc_program *p,
                                       uvcc_memory_bound *out) UVCC_MUST_USE;
/** Begins the handshake. */
UVCC_API int uvcc_session_start(uvcc_session *s, uint64_t now);

/* ---- input from the world ---- */

/** Bytes (a piece of the stream, or exactly one datagram) from `peer`. All are consumed.
 * UVCC_ERR_STREAM_BROKEN: close the stream and reconnect. Fatal errors stick: see the event.
 * Memory that a frame does not get is no end: a datagram is as if lost and comes again, so feed
 * says 0; a stream sends nothing twice, so it says UVCC_ERR_STREAM_BROKEN, and after
 * peer_closed() and peer_open() on a new one the peer sends again what was not acknowledged. What
 * is not frames (an op's own memory) aborts the session with reason MEMORY. */
UVCC_API int uvcc_session_feed(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                               uint64_t now);
/** uvcc_session_feed() of bytes of a stream that stand in several places, as those of a transmit:
 * whole frames that follow each other in them are opened side by side, by threads.parallel. */
UVCC_API int uvcc_session_feed_slices(uvcc_session *s, uint8_t peer, const uvcc_slice *slices,
                                      uint32_t count, uint64_t now);
/** Reading a stream straight into place: 1 and where the next *len bytes of it, or fewer, may be
 * put; 0: nowhere now, use feed; UVCC_ERR_USAGE on datagrams. Valid until the next call on this
 * session that is not one of those that only ask (a step that ends may free what it points into).
 * How to use it and when it is worth it: uvcc_link_rx_buffer() in <uvcc/link.h>. */
UVCC_API int uvcc_session_rx_buffer(uvcc_session *s, uint8_t peer, uint8_t **to, size_t *len);
/** n <= *len bytes were put there: exactly as if they had been fed, in a recorder's log too. 0
 * bytes change nothing. UVCC_ERR_USAGE: more than rx_buffer offered last for this peer, or it
 * offered nothing, or bytes of that peer were fed since. */
UVCC_API int uvcc_session_rx_filled(uvcc_session *s, uint8_t peer, size_t n, uint64_t now);
/** uvcc_session_feed() for a datagram whose IP header the adapter saw; ce: it carried ECN's mark
 * CE, so a router on the way has a queue. The peer is told and slows down. Not for streams, whose
 * own protocol sees to it (UVCC_ERR_USAGE). */
UVCC_API int uvcc_session_feed_ecn(uvcc_session *s, uint8_t peer, const uint8_t *data, size_t len,
                                   bool ce, uint64_t now);
/** A byte stream to `peer` is up / gone. Datagram sessions need neither. */
UVCC_API int uvcc_session_peer_open(uvcc_session *s, uint8_t peer, uint64_t now);
/** peer_open() of a stream that goes over a secure channel, and what is the same at both ends of
 * this channel and of no other (of TLS: the exporter of RFC 9266). The two must be equal before the
 * peer is believed to be at its other end: who relays between two channels is told to the host
 * (MISMATCH, "channel") and there is no READY; close the stream and connect again. One end with a
 * binding and one without differ too. NULL: none, as peer_open(). The channel that counts is the
 * one over which the handshake with this peer ends; later ones are not compared, and need not be:
 * frames are sealed under keys that only the two ends of that handshake have, so a relay between
 * later channels reads and changes no more than a network would. */
UVCC_API int uvcc_session_peer_open_bound(uvcc_session *s, uint8_t peer, const uint8_t binding[32],
                                          uint64_t now);
UVCC_API int uvcc_session_peer_closed(uvcc_session *s, uint8_t peer, uint64_t now);
UVCC_API int uvcc_session_on_timer(uvcc_session *s, uint64_t now);
/** One completion per job. A stale or repeated one is counted and ignored. */
UVCC_API int uvcc_session_complete(uvcc_session *s, const uvcc_completion *c, uint64_t now);

/* ---- output to the world ---- */

/** 1 and *out, 0 if there is nothing to send now. At most one transmit per peer is outstanding. */
UVCC_API int uvcc_session_poll_transmit(uvcc_session *s, uvcc_transmit *out, uint64_t now);
/** `bytes` of it went out (fewer on a stream: the rest is offered next). */
UVCC_API int uvcc_session_transmit_done(uvcc_session *s, uint8_t peer, uint64_t id, size_t bytes,
                                        uint64_t now);
/** 1 and the next job to run, else 0. The job stays valid until its completion is handed in. */
UVCC_API int uvcc_session_poll_job(uvcc_session *s, const uvcc_job **out);
/** When to call uvcc_session_on_timer(), by the host's clock; UVCC_NEVER if only input can bring
 * progress. After on_timer(now) it lies after now, unless a poll gives something at once: a
 * transmit, an event or a job. So a host that handles what it polled, then sleeps until the
 * deadline, never spins, also while a transmit is out, a stream is down or jobs are. A host that
 * keeps a polled transmit is not asked to do more about that peer until transmit_done(). */
UVCC_API uint64_t uvcc_session_next_deadline(const uvcc_session *s);

typedef enum uvcc_event_kind {
    UVCC_EVENT_READY = 1,         /**< both handshakes are done; `run`, `step` say where we are, and
                                       `root` the lineage of the checkpoint to go on from: zeros,
                                       the host sets the tensors */
    UVCC_EVENT_STEP_STARTED = 2,  /**< all three agreed on `step` */
    UVCC_EVENT_OUTPUT = 3,        /**< output `id` of `step` is open: uvcc_session_output(). Of an
                                       output to one party: at that party only */
    UVCC_EVENT_STEP_FINISHED = 4, /**< `root` is this party's global root of `step` */
    UVCC_EVENT_AUDIT = 5,         /**< `peer`'s signed `root` of `step` came and was verified */
    UVCC_EVENT_PEER_BYE = 6,      /**< `peer` is done */
    UVCC_EVENT_ABORTED = 7,       /**< `reason` (a uvcc_abort_reason), `text`; only close works now.
                                       Reasons PEER, RESTARTED, SILENCE: of or by `peer`, and with
                                       PEER `text` is of that peer's reason. SKS: see
                                       checks.sks_refused */
    UVCC_EVENT_CLOSED = 8,        /**< the last one: nothing of ours is out any more */
    UVCC_EVENT_CHECKPOINT = 9,    /**< a checkpoint that resumes at `step` is ready */
    UVCC_EVENT_PEER_RESTARTED =
        10, /**< `peer` proved that it began anew: the steps cannot go on. Nothing else has changed;
               abort with reason RESTARTED, which tells the third party, and start a
               session with next_run > `run` (docs/host.md) */
    UVCC_EVENT_TRIPLES = 11,  /**< triples.only: those of `step` are made: uvcc_session_triples() */
    UVCC_EVENT_BUNDLE = 12,   /**< the bundle of `step` has all three signed roots:
                                   uvcc_session_bundle() */
    UVCC_EVENT_MISMATCH = 13, /**< a HELLO in the name of `peer` does not fit ours; `text` is the
                                   field: version, sid_job, topology, position, job (see
                                   uvcc_config_agree: `text` is "job: NAME", `id` the
                                   index of the part), program, policy,
                                   key exchange, kem, run, suites, lineage (no checkpoint in
                                   common),
                                   identity (signed by somebody else),
                                   pair_secret (the peer has another one), channel
                                   (uvcc_session_peer_open_bound()).
                                   Nobody has proved who sent it, so the handshake waits on for one
                                   that fits; a host decides how long. Once per peer and field
                                   until that peer's HELLO fits, and at a limited rate */
    UVCC_EVENT_PEER_SILENT = 14, /**< nothing was heard of `peer` since `since_ns`: see
                                      links.silence_ns. Once until it is heard again; nothing else
                                      has changed */
    UVCC_EVENT_PEER_HEARD = 15,  /**< `peer` is silent no more, or nothing is to come of it */
    UVCC_EVENT_STEP_CANCELLED =
        16, /**< all three dropped `step`: tensors are as before it. `root`, `signature` and
               `step_root` as for STEP_FINISHED; see uvcc_session_cancel() */
} uvcc_event_kind;

/** Reasons in BYE and ABORT leaves; aborts.def lists them. */
typedef enum uvcc_abort_reason {
#define UVCC_ABORT(name, code, text) UVCC_ABORT_##name = (code),
#include <uvcc/aborts.def>
#undef UVCC_ABORT
} uvcc_abort_reason;
UVCC_API const char *uvcc_abort_text(uint16_t reason);

typedef struct uvcc_event {
    uvcc_event_kind kind;
    uint8_t peer;
    uint16_t reason;
    uint32_t run, step, id;
    uint8_t root[32];
    uint8_t signature[64]; /**< STEP_FINISHED: ours; AUDIT: the peer's */
    const char *text;      /**< static, ABORTED: what was wrong, MISMATCH: the field; no secret */
    uint8_t step_root[32]; /**< STEP_FINISHED: of this worker's leaves; those of all workers of a
                              party give its global root (uvcc_audit_global_root) */
    uint64_t since_ns; /**< PEER_SILENT: when it was last heard, by the host's clock; before READY
                            maybe when the session started */
    uint8_t audit_root[32]; /**< STEP_FINISHED, AUDIT: over the global roots of this run's steps up
                               to `step`, of the party that signed them */
} uvcc_event;
/** 1 and the next event, else 0. Events never get lost; the queue is bounded by the protocol. */
UVCC_API int uvcc_session_poll_event(uvcc_session *s, uvcc_event *out);

/* ---- work ---- */

/** A public value for a PERSIST tensor before the first step, or between steps before this host
 * agrees to the next one (UVCC_ERR_STATE after that; a checkpoint of the step, if one is due, has
 * the tensors as the step before left them, so who resumes there sets it again), the same at all
 * three parties: trivial shares, or of a PUBLIC tensor the value as it is. The next STEP compares
 * what was set: parties whose values differ in anything abort (STEP), and no step runs on them.
 * UVCC_ERR_AGAIN: the tensor is being set already. UVCC_ERR_BOUND: a value is outside the bits that
 * it declares; nothing was taken. UVCC_ERR_USAGE, too: the program has its values
 * (uvcc_program_constant). */
UVCC_API int uvcc_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v);
/** The same for a PUBLIC tensor that s borrows: its value is the one that was set in the session
 * that lends it, which stays until a step of s is over. Set it there first and let the jobs of that
 * end (UVCC_ERR_STATE: it has no value there, or none since that session began anew by
 * uvcc_session_resume(), or the job that set it failed, or it borrows itself and has not what its
 * own lender has by now; UVCC_ERR_AGAIN: it is being set), and set
 * it anew there only while no session that reads it has a step open, and then here too. What the
 * next STEP compares is as if it had been set here. UVCC_ERR_USAGE: the tensor is none that s
 * borrows, as for uvcc_session_set_public() one that it does. */
UVCC_API int uvcc_session_set_borrowed(uvcc_session *s, uint32_t tensor);
/** This party's components of a PERSIST tensor, split by a client or from a checkpoint, each
 * uvcc_program_share_words() long. Nobody can see from shares whether the value is within its
 * declared bits, nor from keys of a one-hot tensor whether they are any: whoever made them answers
 * for that, and what they are not changes values alone. PUBLIC ones have none (UVCC_ERR_USAGE), nor
 * in uvcc_session_shares. */
UVCC_API int uvcc_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo,
                                     const uint64_t *hi);
/** This party's components of a PERSIST tensor as they stand between two steps, each
 * uvcc_program_share_words() long: for whom no program opens a value to, such as a client that is
 * no party (docs/clients.md). They are secret. The first call asks for them and says
 * UVCC_ERR_AGAIN; once the session has taken a completion the same call gives them, and the next
 * one asks anew. uvcc_session_step() forgets what was not taken. UVCC_ERR_AGAIN too while another
 * tensor is read, or this one is being set; UVCC_ERR_STATE: a step is agreed to, or the tensor was
 * never set; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_session_shares(uvcc_session *s, uint32_t tensor, uint64_t *lo, uint64_t *hi);
/** The last checkpoint (config.resume.checkpoint_every): all PERSIST shares of this party as they
 * stand before step *step; PUBLIC tensors are not in it, and who resumes sets them again
 * (uvcc_session_step: UVCC_ERR_STATE before that). `*data` is valid until the next CHECKPOINT
 * event. It holds shares: encrypt it at rest and write it atomically; which to keep until when:
 * docs/host.md. UVCC_ERR_STATE if there is none. */
UVCC_API int uvcc_session_checkpoint(const uvcc_session *s, uint32_t *step, const uint8_t **data,
                                     size_t *len);
/** The bundle of a finished step (config.checks.bundles): its leaves, this party's signed root, and
 * the AUDITs of the peers that came (<uvcc/audit.h>). There from STEP_FINISHED on, with all three
 * roots from BUNDLE on; valid until, after that event was polled, a later step finishes. A host
 * that stops early writes what is there. It goes to an auditor and never to another party.
 * UVCC_ERR_NOT_FOUND if it is not here. */
UVCC_API int uvcc_session_bundle(const uvcc_session *s, uint32_t step, const uint8_t **data,
                                 size_t *len);
/** A checkpoint of this party, program and coordinate to go on from. Before the start: give it
 * every one that is kept (at most 4): each is offered to the peers, the tensors are those of the
 * newest. NULL and 0 offers to begin anew at resume.next_step as well, on tensors that the host
 * sets, which is what a session does that was given nothing. The three go on from the last step of
 * which all have a checkpoint of one history; the event READY says which. If it is not that of the
 * newest, one more call, after READY and with that checkpoint (or NULL and 0, and then
 * uvcc_session_set_*), sets the tensors; until then uvcc_session_step() says UVCC_ERR_STATE. There
 * is nothing to wait for: what was being set is set first. Parties with no such step in common do
 * not get READY, but MISMATCH, "lineage". config.resume.next_run must be above every run used
 * before. UVCC_ERR_MISMATCH: it is another party's, program's, or not of the agreed step and
 * history; UVCC_ERR_AUTH: it is damaged; UVCC_ERR_LIMIT: four are offered already. */
UVCC_API int uvcc_session_resume(uvcc_session *s, const uint8_t *data, size_t len);
/** Triples that a session with triples.only made for this party, program, coordinate and run (or
 * for any run after its own): any number of records (<uvcc/triple.h>) of steps that this session
 * has not agreed to yet, after READY. What it is not given it makes in the step. STEP says what
 * each party was given: where the three were not given the same, the step uses none of it and makes
 * all. On error nothing was taken: UVCC_ERR_FRAME, UVCC_ERR_AUTH: cut or damaged;
 * UVCC_ERR_MISMATCH: another party's, program's, coordinate's or run's; UVCC_ERR_STATE: the step is
 * agreed or over, or one of them was given already; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len);
/** What a session with triples.only made of the last finished step: records for a
 * uvcc_triple_store.
 * `*data` is valid until the next TRIPLES event, and holds shares and keys. A step without Beaver
 * products gives 0 bytes. UVCC_ERR_STATE if there is none. */
UVCC_API int uvcc_session_triples(const uvcc_session *s, uint32_t *step, const uint8_t **data,
                                  size_t *len);
/** Agrees to run `entry` as step `step` (the next one: the first unfinished step or the one after
 * it). P0's agreement proposes it; it starts when all three agree and the step before is finished.
 * Calling for step m+1 while m runs lets its keys be dealt ahead. UVCC_ERR_AGAIN: two steps are
 * open already, or events wait to be polled. UVCC_ERR_USAGE: no such entry; the step is over or was
 * agreed to already, or another one comes before it that was not asked for. UVCC_ERR_STATE: not
 * READY, or the tensors here stand before another step. UVCC_ERR_REFUSED: see
 * checks.sks_refused and consent. */
UVCC_API int uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now);
/** This party's private input `id` of `step`: rows * cols values, after uvcc_session_step for it.
 * UVCC_ERR_BOUND: a value is outside the bits that the tensor declares, and nothing was taken: all
 * bounds of the program follow from these, and what breaks one gives wrong results in silence.
 * UVCC_ERR_STATE: the step is not open, or it was given already; UVCC_ERR_NOT_FOUND: no such input;
 * UVCC_ERR_USAGE: it is another party's;
 * UVCC_ERR_REFUSED: see consent. */
UVCC_API int uvcc_session_input(uvcc_session *s, uint32_t step, uint32_t id, const int64_t *v,
                                uint64_t now);
/** How often each limit of the policy was used, with what consent.used said, in the order of the
 * text: at most `cap` counts go into out; returns how many limits there are (0: no policy). A step
 * counts when uvcc_session_step() takes it, an input when uvcc_session_input() does. A host that
 * wants limits to hold over restarts keeps the counts, on disk before it goes on, and gives them to
 * the next session. */
UVCC_API int uvcc_session_policy_used(const uvcc_session *s, uint64_t *out, uint32_t cap);
/** An opened output of the last finished or the running step: rows * cols values, valid until the
 * next step that opens it starts. NULL if it is not open, or
 * opens to another party only. */
UVCC_API const int64_t *uvcc_session_output(const uvcc_session *s, uint32_t step, uint32_t id);
/** Asks to drop `step`, the first unfinished one, which this host agreed to; it may run or wait.
 * Here nothing more of it is computed or sent from now on. If no party finished it, and all allow
 * it (resume.cancellable), it is dropped: STEP_CANCELLED. Else it goes on: STEP_FINISHED. One of
 * the two comes, at all three the same. Its number is used up, as are its inputs and the triples
 * given for it: the next step is step + 1, which may be agreed already. Outputs of it that were
 * opened before are shown no more, but a peer may have seen them (SECURITY.md). A peer whose host
 * has not agreed to the step yet answers when it does. UVCC_ERR_STATE: it is over, not agreed to
 * here, or resume.cancellable is 0; UVCC_ERR_AGAIN: the step before it runs. Asking again for the
 * same step does nothing. */
UVCC_API int uvcc_session_cancel(uvcc_session *s, uint32_t step, uint64_t now);
/** Steps must not be running. Sends BYE and waits until all that it sent is acknowledged and both
 * peers' BYEs are here and acknowledged, then CLOSED; after an abort until both peers have ended
 * too or have its BYE. A byte stream that is closed after its peer's BYE came is not waited for:
 * the peer has all that it wants. CLOSED comes no later than limits.close_ns, but not before all
 * jobs are back. Keep the loop turning until then. */
UVCC_API int uvcc_session_close(uvcc_session *s, uint64_t now);
/** Stops now: BYE with the reason to both peers, ABORT leaf, event ABORTED. `reason` is any
 * uvcc_abort_reason but NONE, HOST where no other fits; UVCC_ERR_USAGE for other numbers. */
UVCC_API int uvcc_session_abort(uvcc_session *s, uint16_t reason, uint64_t now);

/** Gives memory that the session keeps for reuse, and nothing has now, back to its allocator: so
 * what finished steps left there is gone (uvcc_host_allocator() wipes it), all but the values of
 * PERSIST tensors and what a later call gives (outputs, a bundle, a checkpoint). Links do the same
 * by themselves when they are quiet. What comes next asks for memory anew. Any time; NULL: nothing
 * is done. */
UVCC_API void uvcc_session_trim(uvcc_session *s);

/* ---- inspection ---- */

typedef struct uvcc_session_stats {
    uint32_t run, step;                         /**< first unfinished step */
    uint64_t bytes_online, bytes_preprocessing; /**< payload of messages first sent */
    uint64_t messages;                          /**< messages first sent */
    uint64_t rounds; /**< sum over finished steps of the longest chain of rounds */
    uint64_t retransmissions, spurious_retransmissions, frames_refused, frames_duplicate;
    uint64_t jobs, jobs_stale;
    uint64_t steps_finished;
    uint64_t memory_bytes, memory_peak_bytes, tensor_bytes, tensor_peak_bytes;
    uint64_t leaves;
    uint64_t transient_bytes,
        transient_peak_bytes;    /**< TRANSIENT buffers that are live: uvcc_program_memory() */
    uint64_t suspicious_dropped; /**< frames over suspicious_max: somebody floods a link */
    uint64_t steps_cancelled;
    /** Of limits.keys_gathered_bytes: what is gathered, or being gathered, and no turn has read. */
    uint64_t keys_gathered_bytes;
} uvcc_session_stats;
/** s or out NULL: nothing is done. */
UVCC_API void uvcc_session_get_stats(const uvcc_session *s, uvcc_session_stats *out);

/** How far the handshake with one peer is. */
typedef enum uvcc_handshake {
    UVCC_HANDSHAKE_HELLO1 = 0, /**< not both peers' HELLO 1 are here */
    UVCC_HANDSHAKE_HELLO2 = 1, /**< its HELLO 2 is to come */
    UVCC_HANDSHAKE_HELLO3 = 2, /**< its HELLO 3 is: proof that it has the keys */
    UVCC_HANDSHAKE_DONE = 3,
} uvcc_handshake;

/** What a session needs of a peer before it can go on. */
typedef enum uvcc_wait {
    UVCC_WAIT_NONE = 0,  /**< nothing: it computes, waits for the other peer or for its own host */
    UVCC_WAIT_HELLO = 1, /**< its part of the handshake */
    UVCC_WAIT_STEP = 2,  /**< that its host agrees to `wait_step` */
    UVCC_WAIT_AUDIT = 3, /**< its signed root of `wait_step`: two before the one that is to begin */
    UVCC_WAIT_BATCH = 4, /**< messages of `wait_op` of `wait_step` */
    UVCC_WAIT_BYE = 5,   /**< closing: its BYE */
    UVCC_WAIT_ACK = 6,   /**< closing: the acknowledgement of what it was sent, or its end */
    UVCC_WAIT_CANCEL = 7, /**< its word on `wait_step`, which this party stopped */
} uvcc_wait;

/** What is known of a peer, for hosts that show it or ask why nothing moves. Members are only ever
 * added at the end. */
typedef struct uvcc_peer_info {
    size_t size;       /**< set by the caller: sizeof(uvcc_peer_info) */
    bool connected;    /**< streams: it is up; datagrams: something of it came, maybe long ago */
    bool hello;        /**< a HELLO of it came; nothing proves whose it was */
    bool silent;       /**< see links.silence_ns; false without it */
    bool bye;          /**< its BYE came */
    bool restarted;    /**< it proved that it began anew (PEER_RESTARTED) */
    bool blocked;      /**< messages wait for its credit: it does not take what came, or is gone */
    uint8_t handshake; /**< uvcc_handshake */
    uint8_t waits_for; /**< uvcc_wait */
    /** When it was last heard for sure (uvcc_link_stats.heard_ns), by the host's clock; UVCC_NEVER:
     * not yet. */
    uint64_t heard_ns;
    uint64_t srtt_ns, rttvar_ns, min_rtt_ns;  /**< datagrams: of the path; 0: not measured */
    uint64_t rate_bytes_per_s;                /**< delivered, as measured; 0: not measured */
    uint64_t queued_messages, queued_bytes;   /**< not sent yet */
    uint64_t unacked_messages, unacked_bytes; /**< sent, not acknowledged */
    /** Of waits_for; 0 where they mean nothing. */
    uint32_t wait_step;
    uint32_t wait_op;       /**< BATCH: index as in uvcc_program_op_at, of the most urgent op */
    uint32_t wait_ops;      /**< BATCH: ops that wait for this peer */
    uint32_t wait_messages; /**< BATCH: messages of it that are missing now */
    uint64_t wait_since_ns; /**< since when, by the host's clock */
} uvcc_peer_info;
/** out->size is set by the caller. UVCC_ERR_USAGE: a NULL, no peer, or a size that is no version's;
 * UVCC_ERR_STATE: before uvcc_session_start(). */
UVCC_API int uvcc_session_peer_info(const uvcc_session *s, uint8_t peer, uvcc_peer_info *out);

/** The sid_tag of this session's frames: one socket can serve many sessions, by
 * uvcc_frame_peek_sid_tag() of each packet. All frames of a packet are of one session; 64 bits of a
 * hash, so a host refuses two sessions with the same. 0: s is NULL. */
UVCC_API uint64_t uvcc_session_sid_tag(const uvcc_session *s);
/** The id of this worker's session (wire.md 1), which no two of a job share. UVCC_ERR_USAGE: a
 * NULL. */
UVCC_API int uvcc_session_sid_sub(const uvcc_session *s, uint8_t out[32]);
/** Why the last call on this session that was refused was: one line of English without secrets, for
 * a person; "" if none was, or s is NULL. It lives as long as s and changes with the next refusal;
 * what a program decides by is the error code. */
UVCC_API const char *uvcc_session_error_detail(const uvcc_session *s);
/** Hash of the whole protocol state except timing: equal inputs give equal digests. s or out NULL:
 * nothing is done. */
UVCC_API void uvcc_session_digest(const uvcc_session *s, uint8_t out[32]);
/** The global root of the last finished step. UVCC_ERR_STATE before the first, or with the audit
 * off. */
UVCC_API int uvcc_session_root(const uvcc_session *s, uint8_t root[32]);
/** The Ed25519 public key of identity.sign_seed, 32 bytes that live as long as s. NULL: s is. */
UVCC_API const uint8_t *uvcc_session_public_key(const uvcc_session *s);

#ifdef __cplusplus
}
#endif
#endif
