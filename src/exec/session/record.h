/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - writing logs, and the recorded part of a configuration. */
#ifndef UVCCI_RECORD_H
#define UVCCI_RECORD_H

#include "proto/crypto.h"
#include <uvcc/record.h>

#define UVCCI_RECORD_DIGEST_BYTES 8u /* of the digest of outputs in a RESULT */

typedef struct uvcci_record_writer {
    uvcc_recorder hook;
    uint64_t index, now;
    uint32_t crc;
    uvcci_sha256 all;
    uint8_t small[160]; /* a record's short pieces, gathered */
    size_t small_len;
} uvcci_record_writer;

void uvcci_record_begin(uvcci_record_writer *w, const uvcc_recorder *hook);
/* END: data[1] is ignored. A record without long bytes is one call of the hook. */
void uvcci_record_put(uvcci_record_writer *w, const uvcc_record *r);

/* Decodes one whole record, its checksum left alone. 0 or UVCC_ERR_FRAME. */
int uvcci_record_decode(const uint8_t *bytes, size_t len, uint64_t now, uvcc_record *out);

#define UVCCI_RECORD_CONFIG_MAX 1024u
size_t uvcci_record_config_bytes(void); /* at most that */
/* All but the hooks and the secrets that the configuration does not use. */
void uvcci_record_config_put(const uvcc_config *cfg, uint8_t *out);
/* Into a default configuration. UVCC_ERR_MISMATCH: it is not of this version; UVCC_ERR_FRAME. */
int uvcci_record_config_get(uvcc_config *cfg, const uint8_t *in, size_t len);

#endif
