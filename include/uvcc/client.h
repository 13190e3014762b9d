/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/client.h - what clients that are no party do: split values into shares for the three parties
 * and put components together. */
#ifndef UVCC_CLIENT_H
#define UVCC_CLIENT_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Splits n values into the three components of their shares, with randomness from `random`. Give
 * party p components p and p+1 (mod 3). */
UVCC_API int uvcc_client_split(const int64_t *v, size_t n, const uvcc_random *random, uint64_t *c0,
                               uint64_t *c1, uint64_t *c2);
/** v = c0 + c1 + c2. */
UVCC_API void uvcc_client_combine(const uint64_t *c0, const uint64_t *c1, const uint64_t *c2,
                                  size_t n, int64_t *v);

#ifdef __cplusplus
}
#endif
#endif
