/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/store.h - what a host keeps on disk: key files, and a directory with a party's checkpoints,
 * the number of its last run, a step that is refused and what its policy counted. Library uvcc-io.
 *
 * A store holds the rules of docs/host.md (which checkpoint is durable before what, and until when
 * it is kept), so its host need not know them:
 *
 *     uvcc_store_open(&st, &store_cfg, why, sizeof why);
 *     uvcc_store_next_run(st, &run);
 *     uvcc_store_configure(st, &cfg);     // next_run, checks.sks_*, consent.used
 *     uvcc_session_new(&s, &cfg); uvcc_session_load_program(s, program);
 *     uvcc_store_offer(st, s, &cfg);      // instead of uvcc_session_resume()
 *     uvcc_session_start(s, now);
 *     ... for every event, before anything else is done with it:
 *     rc = uvcc_store_event(st, s, &event);
 *     if (rc == UVCC_STORE_SET)           // at READY: nothing to go on from
 *         uvcc_session_set_*(s, ...);     // the host's first values
 *     ... instead of uvcc_session_step() and uvcc_session_input():
 *     uvcc_store_step(st, s, step, entry, now);
 *     uvcc_store_input(st, s, step, id, values, now);
 *
 * After PEER_RESTARTED, when the old session is CLOSED, the same again from uvcc_store_next_run().
 *
 * Files in the directory, each whole under its name or not there (it gets its name when it is on
 * the disk):
 *
 *     lock                     held by the process that uses it
 *     key                      the storage key, mode 0600
 *     run                      the number of the last run
 *     sks-refused              the step in which the check of a product failed, if one did
 *     rR-sS-tT.step-N          checkpoint of a worker before step N, sealed under the key
 *     rR-sS-tT.step-N.damaged  one that was set aside
 *     rR-sS-tT.used            what a worker's policy counted
 *     rR-sS-tT.triples-N-M     a worker's triples for step M, made in run N, sealed under the key
 *     rR-sS-tT.triples-N.used  the first step whose triples of run N were not used
 *
 * Calls wait for the disk (fsync), for the network never. A store is its owner's alone: one thread
 * at a time. It holds a lock that a child after fork() holds too, until both have freed it or
 * ended. An error is a code, and a line of text with the path and what to do; UVCC_ERR_IO: the
 * operating system refused (a full disk, no permission), and the file that was there is there
 * still. */
#ifndef UVCC_STORE_H
#define UVCC_STORE_H

#include <stdbool.h>
#include <uvcc/session.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- key files ---- */

/** Two lines, "uvcc identity v1", "uvcc pair secret v1" or "uvcc storage key v1", then 64 lowercase
 * hexadecimal digits: the seed of an Ed25519 identity, the secret of a pair of parties, the key
 * under which a party seals its files. `uvcc keygen` makes them too. */
typedef enum uvcc_key_kind {
    UVCC_KEY_IDENTITY = 0,
    UVCC_KEY_PAIR = 1,
    UVCC_KEY_STORAGE = 2,
} uvcc_key_kind;

/** Room enough for any text of this header. */
#define UVCC_STORE_TEXT_BYTES 1024u

/** Reads a file of this kind. Refused: a symbolic link, what is no regular file (it never waits for
 * a pipe), another owner, a mode other than 0600, anything that is not exactly the form. `why` (may
 * be NULL) gets the path, what is wrong and what to do. UVCC_ERR_NOT_FOUND: no such file;
 * UVCC_ERR_MISMATCH: a key of another kind, or none; UVCC_ERR_AUTH: a key that is damaged;
 * UVCC_ERR_CONFIG: a file that is not its owner's alone; UVCC_ERR_IO. */
UVCC_API int uvcc_key_read(const char *path, uvcc_key_kind kind, uint8_t key[32], char *why,
                           size_t why_cap);
/** Writes a new file of mode 0600, on the disk when this returns. One that exists is never touched:
 * UVCC_ERR_STATE. */
UVCC_API int uvcc_key_write(const char *path, uvcc_key_kind kind, const uint8_t key[32], char *why,
                            size_t why_cap);
/** Reads the file, or makes it, with 32 bytes of the system's generator, if there is none. Of
 * several processes that do so at once all get the same key. */
UVCC_API int uvcc_key_make(const char *path, uvcc_key_kind kind, uint8_t key[32], char *why,
                           size_t why_cap);

/* ---- the store ---- */

typedef struct uvcc_store uvcc_store;

typedef struct uvcc_store_config {
    size_t size;          /**< sizeof(uvcc_store_config) */
    uvcc_allocator alloc; /**< by default those of <uvcc/host.h> */
    uvcc_random random;
    uvcc_logger log; /**< WARN: what was set aside or could not be deleted; may be NULL */
    const char *dir; /**< of this party alone; made with mode 0700 if there is none (its parent must
                          be there). It must be the process's user's, and writable by nobody else */
    uint8_t party;
    bool must_resume;   /**< a worker without any checkpoint is refused; false: it begins, on values
                             that the host sets (UVCC_STORE_SET) */
    bool set_aside;     /**< damaged checkpoints get another name (NAME.damaged), and the rest is
                             offered; false: uvcc_store_offer() refuses with UVCC_ERR_AUTH and names
                             the first. Nothing is lost by either */
    bool leave_triples; /**< uvcc_store_step() gives no triples */
    uint32_t behind;    /**< workers of the party in other processes, with stores of their own,
                             may be so many steps behind the one of this store: checkpoints are
                             kept that much longer, so that all have one in common. 0: there are
                             none, or the host agrees to steps for all of them together; 1: in
                             every step they wait for each other (collectives) */
} uvcc_store_config;

/** Zeros, the size, and the hooks of <uvcc/host.h>. */
UVCC_API void uvcc_store_config_default(uvcc_store_config *cfg);
/** Opens and locks the directory; makes the key if nothing was sealed yet. All of cfg is copied.
 * UVCC_ERR_STATE: another process has it, whose id `why` tells; UVCC_ERR_CONFIG: it is no
 * directory, or not this user's alone; UVCC_ERR_NOT_FOUND: checkpoints are there and the key or the
 * run's number is not; UVCC_ERR_AUTH: one of these is damaged; UVCC_ERR_IO; UVCC_ERR_NOMEM. `why`
 * (may be NULL) says which and what to do. */
UVCC_API int uvcc_store_open(uvcc_store **out, const uvcc_store_config *cfg, char *why,
                             size_t why_cap) UVCC_MUST_USE;
/** Gives the lock back and wipes the key. Sessions stay as they are. */
UVCC_API void uvcc_store_free(uvcc_store *st);
/** The text of the last error of a call on this store; "" if there was none, or st is NULL. It
 * lives until the next error. */
UVCC_API const char *uvcc_store_error(const uvcc_store *st);

/** Takes the number of a new run, for all workers of this process: above all that this store ever
 * gave or heard of, and on the disk when this returns. UVCC_ERR_LIMIT: the last one (2^24 - 1) was
 * used; UVCC_ERR_IO: none was taken. */
UVCC_API int uvcc_store_next_run(uvcc_store *st, uint32_t *run);
/** Fills what a store knows into the configuration of the worker cfg->place: resume.next_run,
 * checks.sks_refused and sks_step, and with consent.policy consent.used (valid until the next such
 * call for that worker; the session copies it). UVCC_ERR_STATE: no run was taken since the store
 * was opened, or this one was given to that worker already; UVCC_ERR_CONFIG: another party's, or no
 * policy; UVCC_ERR_MISMATCH: the counts are of another policy; UVCC_ERR_NOT_FOUND: there are
 * checkpoints of the worker and no counts; UVCC_ERR_AUTH: the counts or the mark are damaged;
 * UVCC_ERR_IO; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_store_configure(uvcc_store *st, uvcc_config *cfg);
/** Gives the session, of the same cfg, after uvcc_session_load_program() and before
 * uvcc_session_start(), every checkpoint of its worker that is kept, and the offer to begin anew
 * where docs/host.md wants it. From now on the store takes the session's events. UVCC_ERR_STATE: no
 * uvcc_store_configure() before; UVCC_ERR_NOT_FOUND: must_resume; UVCC_ERR_AUTH: one is damaged, or
 * sealed under another key; UVCC_ERR_MISMATCH: one is of another job, worker or program;
 * UVCC_ERR_IO; UVCC_ERR_NOMEM. After an error the session is to be freed. */
UVCC_API int uvcc_store_offer(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg);

/** A checkpoint that is kept: it resumes at `step`, and `run` made it. */
typedef struct uvcc_store_kept {
    uint32_t step, run;
} uvcc_store_kept;
/** Where a party has several workers, each with a session of its own, all must go on from the same
 * step: between uvcc_store_configure() and the offer the host asks what each of them has, and
 * offers what all have. Returns how many checkpoints of the worker cfg->place are kept, the latest
 * run first, of which at most `cap` go into out; *anew: whether the offer to begin anew is allowed.
 * Errors as of uvcc_store_offer(). */
UVCC_API int uvcc_store_list(uvcc_store *st, const uvcc_config *cfg, uvcc_store_kept *out,
                             uint32_t cap, bool *anew);
/** uvcc_store_offer() of these alone, and to begin anew only with `anew` (and where it is allowed).
 * What is not offered stays on the disk, and goes as it would. UVCC_ERR_NOT_FOUND: nothing would be
 * offered. For the rules to leave a common one, a host with several workers agrees to a step only
 * when uvcc_store_may_agree() says 0 for it for all of them. */
UVCC_API int uvcc_store_offer_common(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg,
                                     const uvcc_store_kept *common, uint32_t count, bool anew);

/** uvcc_store_event(): the host sets the first values of PERSIST tensors now. */
#define UVCC_STORE_SET 1
/** Every event of the session, in their order, before the host does anything about it. Writes the
 * checkpoint that is ready, deletes those that nobody needs any more, goes on at READY from the
 * checkpoint that was agreed on, keeps marks. 0, UVCC_STORE_SET, or a negative error:
 * UVCC_ERR_NOT_FOUND: the session was not offered here; UVCC_ERR_IO, UVCC_ERR_NOMEM: what failed is
 * tried again by uvcc_store_may_agree(), and until it is done that refuses; another error of
 * READY (a checkpoint that was offered cannot be read any more) stays: abort. */
UVCC_API int uvcc_store_event(uvcc_store *st, uvcc_session *s, const uvcc_event *e);
/** Whether the host may agree to `step` (uvcc_session_step): 0 once everything that must be on the
 * disk before is there. UVCC_ERR_IO, UVCC_ERR_NOMEM: it is not, and could not be brought there now;
 * ask again when there is room. UVCC_ERR_AGAIN: events wait to be polled. UVCC_ERR_STATE: before
 * READY. */
UVCC_API int uvcc_store_may_agree(uvcc_store *st, uvcc_session *s, uint32_t step);
/** uvcc_store_may_agree(), then triples of this step, if they are kept, to the session (see below),
 * then uvcc_session_step(), then, with a policy, its counts on the disk:
 * UVCC_ERR_IO of the last says so in the text, and the step was agreed to: abort, or the count may
 * be lost by an end before the next such call, which writes it again. */
UVCC_API int uvcc_store_step(uvcc_store *st, uvcc_session *s, uint32_t step, uint32_t entry,
                             uint64_t now);
/** uvcc_session_input(), then the counts as above. */
UVCC_API int uvcc_store_input(uvcc_store *st, uvcc_session *s, uint32_t step, uint32_t id,
                              const int64_t *v, uint64_t now);

/* ---- triples made ahead ---- */

/* A session with triples.only fills a store, in a run of its own, for whatever runs come later:
 *
 *     cfg.triples = {.only = true, .run = UVCC_TRIPLES_ANY_RUN}; cfg.resume.next_step = 100;
 *     uvcc_store_next_run(st, &run); uvcc_store_configure(st, &cfg); ...
 *     uvcc_store_make(st, s, &cfg);       // instead of uvcc_store_offer()
 *     ... events to uvcc_store_event(), steps by uvcc_store_step(), as ever
 *
 * Sessions that a store serves later use them without further calls: uvcc_store_step() hands a step
 * its triples, from the first maker that has some. Before the session begins the step they count as
 * used, on the disk, and are destroyed; so are those of earlier steps of that maker. An end at any
 * time loses what was taken, and gives nothing a second time. The session makes what is missing
 * (and everything of a step where the three parties do not have the same). In memory are those of
 * two steps at most, however many are kept. */

/** Instead of uvcc_store_offer(), for a session with triples.only and UVCC_TRIPLES_ANY_RUN: its
 * triples are written as they come (event TRIPLES, by uvcc_store_event()), and a step is agreed to
 * when those of the one before are on the disk (uvcc_store_may_agree() tries again what failed).
 * UVCC_ERR_STATE: no uvcc_store_configure() before; UVCC_ERR_CONFIG: another kind of session. */
UVCC_API int uvcc_store_make(uvcc_store *st, uvcc_session *s, const uvcc_config *cfg);

/** What a maker left for a worker. */
typedef struct uvcc_store_triples {
    uint16_t replica, stage, tp_rank;
    uint32_t run;         /**< the maker's */
    uint32_t steps;       /**< as many steps have triples here */
    uint32_t first, last; /**< the least and the greatest of them */
    uint32_t next;        /**< those of steps below were used */
    bool marked;          /**< false: the mark that says so is missing, damaged or from a copy:
                               none are used */
    bool copied;          /**< the mark was not here when the store's last run began: it and its
                               triples were put back from a copy of earlier times */
    uint64_t bytes;       /**< of the files */
} uvcc_store_triples;
/** 1 and the index'th, by worker and run; 0: there are no more; UVCC_ERR_IO; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_store_triples_at(uvcc_store *st, uint32_t index, uvcc_store_triples *out);
/** Reads those of the first step from *step on that has any: 1, *step is that step, *count the
 * number of its triples, *products that of the products that they are for (a triple is that of a
 * tile) and info what the first one says; 0: there is none; UVCC_ERR_AUTH:
 * damaged, or sealed under another key; UVCC_ERR_MISMATCH: whole, but not what their name says, or
 * not in order; UVCC_ERR_IO; UVCC_ERR_NOMEM. After an error too *step is that step. Nothing is
 * used. */
UVCC_API int uvcc_store_triples_check(uvcc_store *st, const uvcc_store_triples *of, uint32_t *step,
                                      uint32_t *count, uint32_t *products, uvcc_triple_info *info);

#ifdef __cplusplus
}
#endif
#endif
