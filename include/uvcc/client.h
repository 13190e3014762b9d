/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/client.h - what clients that are no party do: split values into shares for the three
 * parties, deal keys of numbers of rows, and put components together. */
#ifndef UVCC_CLIENT_H
#define UVCC_CLIENT_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Splits n values into the three components of their shares, n words each, with randomness from
 * `random`. Give party p components p and p+1 (mod 3). UVCC_ERR_RANDOM: c0 and c1 are zeros, c2 is
 * as it was; UVCC_ERR_USAGE: a NULL, or more than memory holds. */
UVCC_API int uvcc_client_split(const int64_t *v, size_t n, const uvcc_random *random, uint64_t *c0,
                               uint64_t *c1, uint64_t *c2);
/** v = c0 + c1 + c2 mod 2^64, n words each. A NULL: nothing is done. */
UVCC_API void uvcc_client_combine(const uint64_t *c0, const uint64_t *c1, const uint64_t *c2,
                                  size_t n, int64_t *v);

/** Words of a key of a number below 2^bits, without its root, which is two more words; 0 if bits is
 * not 1 to 32. */
UVCC_API uint32_t uvcc_client_key_words(unsigned bits);

/** Deals keys of n numbers, each below 2^bits, to the parties of the job sid_job (not zeros):
 * share[p][0] and share[p][1] are what party p sets as the two components of a one-hot PERSIST
 * tensor, each n keys, one behind the other, and then their n roots, n (uvcc_client_key_words + 2)
 * words, which are overwritten. No party learns a number: it has one key of each of two pairs
 * (docs/protocols.md, "Numbers of a client"). The words of keys in share[p][1] and
 * share[p + 1 mod 3][0] are the same, roots differ. No branch or address depends on a number.
 * UVCC_ERR_BOUND: one is not below 2^bits; UVCC_ERR_RANDOM; after these two the shares are zeros.
 * UVCC_ERR_USAGE; UVCC_ERR_LIMIT: no memory holds so many. */
UVCC_API int uvcc_client_deal(const uint8_t sid_job[32], unsigned bits, const int64_t *numbers,
                              size_t n, const uvcc_random *random, uint64_t *share[3][2]);

#ifdef __cplusplus
}
#endif
#endif
