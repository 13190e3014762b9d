/* SPDX-License-Identifier: Apache-2.0 */
/* sealed.h - files that only the holder of a key can read or change, written whole or not at all.
 *
 * Format: "UVCCSEAL" || nonce (24 bytes) || XChaCha20-Poly1305 of the bytes, with the file's label
 * as additional data: a file that took another's place is refused. */
#ifndef UVCC_TOOLS_SEALED_H
#define UVCC_TOOLS_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* Mode 0600. 0 or errno. */
int sealed_write(const char *path, const char *label, const uint8_t key[32], const uint8_t *bytes,
                 size_t len);
/* An exit status after reporting; *bytes is the caller's to wipe and free(). SEALED_DAMAGED, which
 * the caller reports: not all of what was written, or under another key or label. */
enum { SEALED_DAMAGED = -1 };
int sealed_read(const char *path, const char *label, const uint8_t key[32], uint8_t **bytes,
                size_t *len);

#endif
