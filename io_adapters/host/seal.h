/* SPDX-License-Identifier: Apache-2.0 */
/* seal.h - bytes that only the holder of a key can read or change.
 *
 * Form: "UVCCSEAL" || nonce (24 bytes) || XChaCha20-Poly1305 of the bytes, with a label as
 * additional data: what took another's place is refused. */
#ifndef UVCC_IO_HOST_SEAL_H
#define UVCC_IO_HOST_SEAL_H

#include <uvcc/types.h>

#define UVCCI_SEAL_BYTES 48u /* more than what is sealed */

/* `out` has len + UVCCI_SEAL_BYTES bytes. 0, or UVCC_ERR_RANDOM. */
int uvcci_seal(uint8_t *out, const char *label, const uint8_t key[32], const uvcc_random *random,
               const uint8_t *bytes, size_t len);
/* In place: *plain lies in `bytes`. 0, or UVCC_ERR_AUTH. */
int uvcci_unseal(uint8_t *bytes, size_t len, const char *label, const uint8_t key[32],
                 const uint8_t **plain, size_t *plain_len);

#endif
