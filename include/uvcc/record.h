/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/record.h - logs of sessions: reading them, and running them again.
 *
 * A session with a recorder (uvcc_config.record) writes down everything that reaches it: the
 * configuration, random bytes, failed allocations, and every call with its time, before the call is
 * worked on. After each call it writes what was returned and a digest of all that came out so far
 * (bytes to transmit, events, opened values, jobs), and at the end of each step a digest of its
 * state. uvcc_replay() makes the same calls of a new session and compares.
 *
 * A LOG HOLDS SECRETS AND SHARES: whoever reads a party's log knows its keys, its inputs and its
 * shares. Mode 0600, encrypted at rest, destroyed after use.
 *
 * A log is the 8 bytes "uvcclog\1" and records (records.def): varint length, U8 type, fields,
 * CRC-32 of the record's number and all of it. The first is HEADER, the last END with SHA-256 of
 * all before.
 */
#ifndef UVCC_RECORD_H
#define UVCC_RECORD_H

#include <uvcc/session.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_record_type {
#define UVCC_RECORD(name, code, fields, what) UVCC_RECORD_##name = (code),
#include <uvcc/records.def>
#undef UVCC_RECORD
} uvcc_record_type;

/** One record; members that its type lacks are 0. */
typedef struct uvcc_record {
    uint8_t type;
    uint8_t peer;
    int32_t status;
    uint32_t step, entry;
    uint64_t now; /**< of the last call that had a time */
    uint64_t id, number;
    uvcc_slice data[3];     /**< views into the log */
    uint64_t index;         /**< HEADER is 0 */
    uint64_t offset, bytes; /**< where it stands in the log */
} uvcc_record;

/** "FEED", or NULL if there is no such type. */
UVCC_API const char *uvcc_record_name(uint8_t type);
/** Its letters in records.def, or NULL. */
UVCC_API const char *uvcc_record_fields(uint8_t type);

/** Walks a log in memory. `index` and `offset` say where the next record stands, and after a
 * refusal the refused one; `why` is static. */
typedef struct uvcc_record_reader {
    const uint8_t *bytes;
    size_t len;
    uint64_t offset, index, now;
    uint8_t last_type;
    bool in_call;
    const char *why;
} uvcc_record_reader;
UVCC_API void uvcc_record_reader_init(uvcc_record_reader *r, const uint8_t *log, size_t len);
/** 1 and the next record, 0 after END, UVCC_ERR_FRAME if the log is cut or altered here. Checks the
 * record's bytes, its checksum and that its type may stand here; never reads outside the log. */
UVCC_API int uvcc_record_next(uvcc_record_reader *r, uvcc_record *out);
/** Walks all of it and checks the SHA-256 too: 0, or UVCC_ERR_FRAME with the position in *r. */
UVCC_API int uvcc_record_check(uvcc_record_reader *r, const uint8_t *log, size_t len);

typedef struct uvcc_replay_options {
    size_t size;          /**< sizeof(uvcc_replay_options) */
    uvcc_allocator alloc; /**< of the session and of the replay */
    uvcc_cpu *executor;   /**< runs the jobs, in any mode; nothing else may be out there */
    uint64_t until; /**< stop after the call that holds this record; UVCC_NEVER: go to the end */
    void (*progress)(void *user, const uvcc_record *call); /**< before each call; may be NULL */
    void *progress_user;
} uvcc_replay_options;

typedef struct uvcc_replay_result {
    uint64_t records;        /**< of the log */
    uint64_t equal;          /**< records that the replay made again, the same */
    uint64_t steps;          /**< steps finished in the replay */
    uint8_t digest[32];      /**< uvcc_session_digest() where the replay ended */
    uint64_t record, offset; /**< where the difference or the damage is */
    char what[128];          /**< one line; "" if all is equal */
} uvcc_replay_result;

/** Makes the log's calls of a new session with this program, with the log's random bytes, and
 * compares what comes out with the log, byte for byte. Jobs run on the executor when they are
 * handed out; each completion goes in where the log has it, after the job was run.
 *
 * Returns 0 if all is equal, 1 at the first difference (record, offset, what), or an error before
 * anything was run: UVCC_ERR_FRAME if the log is cut or altered (record, offset, what),
 * UVCC_ERR_MISMATCH if it is of another program or an incompatible version, UVCC_ERR_USAGE,
 * UVCC_ERR_NOMEM. */
UVCC_API int uvcc_replay(const uint8_t *log, size_t len, const uvcc_program *p,
                         const uvcc_replay_options *opt, uvcc_replay_result *out);

#ifdef __cplusplus
}
#endif
#endif
