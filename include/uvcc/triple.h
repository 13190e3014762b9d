/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/triple.h - Beaver triples that a party keeps.
 *
 * A session with uvcc_config.triples.only runs no step: it makes the triples of the steps that it
 * is asked for, for a session of another run, and hands them out as bytes (event TRIPLES,
 * uvcc_session_triples()). That other session takes them before its step
 * (uvcc_session_load_triples()); what it is not given it makes itself.
 *
 * Bytes of triples are one record after another. A record: "UVTR" || U8 version = 1 || U8 party ||
 * LE16 0 || sid_sub(32) || H(program)(32) || LE32 run || LE32 step || LE32 entry || LE32 op ordinal
 * || LE32 run of the maker || LE32 tile_idx || LE64 triple_id || LE32 rows and cols of A, of B, of
 * C || four AES keys (16 each: pair NEXT tripleA, tripleB, pair PREV tripleA, tripleB) || C_lo ||
 * C_hi
 * || SHA-256 of all before. A and B are PRG words under these keys. So A RECORD HOLDS SHARES AND
 * KEYS: keep it as you keep keys, mode 0600, encrypted and authenticated at rest (the SHA-256 finds
 * damage, not forgery).
 *
 * A triple serves one product of one step, once: a second use would give away the difference of
 * two secrets. A step uses those that all three parties gave their sessions; if they gave different
 * ones it makes all itself. Triples are for one run, and after a restart, when the run is another,
 * what was kept for older runs is destroyed unread; or they are for any run after their maker's
 * (UVCC_TRIPLES_ANY_RUN), and outlive restarts. */
#ifndef UVCC_TRIPLE_H
#define UVCC_TRIPLE_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** In the place of the run that will use triples: any run after their maker's. What is kept then
 * outlives restarts: the stores see to it that nothing comes out twice. */
#define UVCC_TRIPLES_ANY_RUN UINT32_MAX

/** What stands in a record before its secrets. */
typedef struct uvcc_triple_info {
    uint8_t party;
    uint8_t sid_sub[32], program[32];
    uint32_t run, step, entry; /**< of the product that it is for */
    uint32_t ordinal;          /**< of its op */
    uint32_t tile;             /**< of the product's: tile_idx, from 0 on */
    uint32_t maker_run;        /**< run of the session that made it */
    uint64_t triple_id;
    uint32_t rows[3], cols[3]; /**< of A and B, as the tensors lie; of the tile of C */
    size_t bytes;              /**< of the whole record */
} uvcc_triple_info;

/** The first record in `data`: 0, UVCC_ERR_FRAME if it is none or is cut, UVCC_ERR_AUTH if it is
 * damaged. */
UVCC_API int uvcc_triple_read(const uint8_t *data, size_t len, uvcc_triple_info *out);

/** A party's triples: handed out once by (run, step, triple_id), and what was handed out is
 * remembered. No I/O: the host saves it, encrypted, and loads it again. One owner at a time, like a
 * session. */
typedef struct uvcc_triple_store uvcc_triple_store;

UVCC_API int uvcc_triple_store_new(uvcc_triple_store **out, const uvcc_allocator *al) UVCC_MUST_USE;
/** Wipes and frees all. */
UVCC_API void uvcc_triple_store_free(uvcc_triple_store *st);
/** Copies all records of `data`. On error nothing was added: UVCC_ERR_FRAME and UVCC_ERR_AUTH as in
 * uvcc_triple_read; UVCC_ERR_MISMATCH if they are of another party, coordinate or program than what
 * is here; UVCC_ERR_STATE if one of them is here, or its step was handed out already;
 * UVCC_ERR_NOMEM. */
UVCC_API int uvcc_triple_store_add(uvcc_triple_store *st, const uint8_t *data, size_t len);
/** Hands out the triples of a step, to be given to uvcc_session_load_triples(): *data is valid
 * until the next call, which wipes it. They, all of earlier steps of this run and all of older runs
 * leave the store for good. Save the store before the step begins. UVCC_ERR_STATE: this step or a
 * later one, of this run or a later one, was handed out already. UVCC_ERR_NOT_FOUND: there are
 * none; the step counts as handed out. */
UVCC_API int uvcc_triple_store_take(uvcc_triple_store *st, uint32_t run, uint32_t step,
                                    const uint8_t **data, size_t *len);
/** Triples that are here. */
UVCC_API uint32_t uvcc_triple_store_count(const uvcc_triple_store *st);

/** The whole store as bytes: "UVTS" || U8 version = 1 || U8 0 || LE16 0 || LE32 run || LE32 step ||
 * LE64 bytes || records || SHA-256 of all before. What is of an older run than `run`, or of that
 * run and a step below `step`, was handed out. */
UVCC_API size_t uvcc_triple_store_saved_bytes(const uvcc_triple_store *st);
/** UVCC_ERR_LIMIT: cap is less than uvcc_triple_store_saved_bytes(). */
UVCC_API int uvcc_triple_store_save(const uvcc_triple_store *st, uint8_t *out, size_t cap);
/** A store of saved bytes: UVCC_ERR_FRAME if they are cut or no store's, UVCC_ERR_AUTH if they are
 * damaged, UVCC_ERR_NOMEM. */
UVCC_API int uvcc_triple_store_load(uvcc_triple_store **out, const uvcc_allocator *al,
                                    const uint8_t *data, size_t len) UVCC_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
