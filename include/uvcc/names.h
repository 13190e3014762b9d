/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/names.h - what a session uses that must never be used again, by names that it has in no
 * other run: words of key streams, nonces, triples. For hosts that keep a list over all their
 * processes and restarts, and look that no name comes twice; uvcc/prg_uses.h is for one process. */
#ifndef UVCC_NAMES_H
#define UVCC_NAMES_H

#include <uvcc/prg_uses.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a name is of. */
typedef enum uvcc_name_kind {
    UVCC_NAME_WORDS = 1,   /**< words of a key stream, which a task will read: step, key, words */
    UVCC_NAME_FRAME = 2,   /**< the nonce of a sealed data frame: step, peer, key, seq */
    UVCC_NAME_CONTROL = 3, /**< the nonce of a sealed control frame: peer, key, nonce */
    UVCC_NAME_TRIPLE = 4,  /**< a triple that a product consumes: step, maker_run, seq, its id */
} uvcc_name_kind;

/** What does not belong to the kind is 0. No two of a party's sessions of one worker give the same
 * name, but for `key`, which is one more way to see it: if two names have a key in common, they
 * differ in seq, nonce or words. Words that a task may read again for the same end (comparison keys
 * of a function's steps, masks of triples) are not told of. */
typedef struct uvcc_name {
    uvcc_name_kind kind;
    uint32_t run, step;
    uint8_t peer;
    uint32_t maker_run;
    uint64_t key; /**< a hash of the key, of which nothing of the key follows */
    uint64_t seq;
    uint8_t nonce[24];
    uvcc_prg_use words;
} uvcc_name;

/** A group of uvcc_config: who hears of names. */
typedef struct uvcc_config_names {
    /** Before anything is computed or sent with it; must not call the library. NULL: none, and
     * nothing is worked out. */
    void (*used)(void *user, const uvcc_name *n);
    void *user;
    uint64_t reserved[2]; /**< 0 */
} uvcc_config_names;

#ifdef __cplusplus
}
#endif
#endif
