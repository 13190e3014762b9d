/* SPDX-License-Identifier: Apache-2.0 */
/* keyfile.h - key files: an Ed25519 identity, the secret of a pair of parties, or the key under
 * which a party seals its files, each alone in a file that nobody but its owner can read.
 *
 * Format: two lines, "uvcc identity v1", "uvcc pair secret v1" or "uvcc storage key v1", then 64
 * lowercase hexadecimal digits: the identity's seed, the secret, or the key. */
#ifndef UVCC_TOOLS_KEYFILE_H
#define UVCC_TOOLS_KEYFILE_H

#include <stddef.h>
#include <stdint.h>

typedef enum keyfile_kind { KEYFILE_IDENTITY, KEYFILE_PAIR, KEYFILE_STORAGE } keyfile_kind;

/* Reads a file of this kind. Refused: a symbolic link, what is no regular file, another owner, a
 * mode other than 0600, anything that is not exactly the format. Returns 0, or -1 and in message
 * what is wrong and what to do, without the path. */
int keyfile_read(const char *path, keyfile_kind kind, uint8_t secret[32], char *message,
                 size_t message_cap);
/* Writes a new file of mode 0600; an existing one is never touched, and a failure leaves none
 * behind. Returns as above. */
int keyfile_write(const char *path, keyfile_kind kind, const uint8_t secret[32], char *message,
                  size_t message_cap);

#endif
