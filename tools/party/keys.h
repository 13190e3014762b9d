/* SPDX-License-Identifier: Apache-2.0 */
/* keys.h - the keys that a configuration names, with their places in it when they are wrong. Exit
 * statuses after reporting. */
#ifndef UVCC_TOOLS_PARTY_KEYS_H
#define UVCC_TOOLS_PARTY_KEYS_H

#include "config.h"

/* An identity's seed and its public key, from the file that "identity" names. */
int keys_identity(const party_config *c, uint8_t seed[32], uint8_t public_key[32]);
/* A public key at a place of the file: 64 digits, or "@FILE" with them. */
int keys_public(const party_config *c, const char *place, const char *text, uint8_t out[32]);

#endif
