/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - see agree.h. Every part has a text, also those that only a peer has. */
#include "exec/session/agree.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include <stdio.h>

void uvcci_agree_take(uvcc_session *s) {
    uvcc_config_agree *a = &s->cfg.agree;
    for (uint32_t i = 0; i < UVCC_AGREE_MAX; i++) {
        char *text = s->agree_text[i];
        if (a->name[i] != NULL && i < a->count)
            (void)snprintf(text, sizeof s->agree_text[i], "job: %s", a->name[i]);
        else
            (void)snprintf(text, sizeof s->agree_text[i], "job: part %u", i);
        a->name[i] = NULL; /* the host's; it may go */
    }
}

bool uvcci_agree_is_text(const uvcc_session *s, const char *text) {
    for (uint32_t i = 0; i < UVCC_AGREE_MAX; i++)
        if (text == s->agree_text[i])
            return true;
    return false;
}

uint64_t uvcc_agree_hash(const void *bytes, size_t len) {
    uint8_t hash[32];
    if (bytes == NULL && len != 0)
        return 0;
    uvcci_sha256 sha;
    uvcci_sha256_init(&sha);
    uvcci_sha256_update(&sha, "UVCC_AGREE_V1", 13);
    uvcci_sha256_update(&sha, bytes, len);
    uvcci_sha256_final(&sha, hash);
    const uint64_t part = uvcci_ld64(hash);
    return part != 0 ? part : 1; /* 0: there is no such part */
}
