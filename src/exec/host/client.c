/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - what a client that is no party does: split values into shares, join components. */
#include <uvcc/client.h>

#include "proto/crypto.h"

int uvcc_client_split(const int64_t *v, size_t n, const uvcc_random *random, uint64_t *c0,
                      uint64_t *c1, uint64_t *c2) {
    if (v == NULL || random == NULL || random->fill == NULL || c0 == NULL || c1 == NULL ||
        c2 == NULL || n > SIZE_MAX / sizeof *c0)
        return UVCC_ERR_USAGE;
    if (random->fill(random->user, c0, n * sizeof *c0) != 0 ||
        random->fill(random->user, c1, n * sizeof *c1) != 0) {
        uvcci_wipe(c0, n * sizeof *c0);
        uvcci_wipe(c1, n * sizeof *c1);
        return UVCC_ERR_RANDOM;
    }
    for (size_t i = 0; i < n; i++)
        c2[i] = (uint64_t)v[i] - c0[i] - c1[i];
    return UVCC_OK;
}

void uvcc_client_combine(const uint64_t *c0, const uint64_t *c1, const uint64_t *c2, size_t n,
                         int64_t *v) {
    if (c0 == NULL || c1 == NULL || c2 == NULL || v == NULL)
        return;
    for (size_t i = 0; i < n; i++)
        v[i] = (int64_t)(c0[i] + c1[i] + c2[i]);
}
