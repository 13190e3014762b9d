/* sealed.h - files that only the holder of a key can read or change, written whole or not at all.
 *
 * Format: "UVCCSEAL" || nonce (24 bytes) || XChaCha20-Poly1305 of the bytes, with the file's label
 * as additional data: a file that took another's place is refused. */
#ifndef UVCC_TOOLS_SEALED_H
#define UVCC_TOOLS_SEALED_H

#include <stddef.h>
#include <stdint.h>

/* Under another name in the same directory, flushed to the disk, then renamed; mode 0600. 0, or -1
 * with errno set. */
int sealed_write(const char *path, const char *label, const uint8_t key[32], const uint8_t *bytes,
                 size_t len);
/* *bytes is the caller's to free(). 0, or -1 with errno set: EBADMSG if it is damaged, under
 * another key, or another file. */
int sealed_read(const char *path, const char *label, const uint8_t key[32], uint8_t **bytes,
                size_t *len);
/* Writes bytes as they are, whole or not at all, with this mode. */
int whole_file_write(const char *path, unsigned mode, const void *bytes, size_t len);
/* Reads a regular file of at most `most` bytes; one byte more is allocated and 0. */
int whole_file_read(const char *path, size_t most, uint8_t **bytes, size_t *len);

#endif
