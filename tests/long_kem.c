/* SPDX-License-Identifier: Apache-2.0 */
/* long_kem.c - see long_kem.h. Stateless. */
#include "long_kem.h"

#include <string.h>
#include <uvcc/types.h>

#include "proto/crypto.h"
#include "proto/kem.h"

const uvcci_kem *__real_uvcci_kem_of(uint16_t id);
const uvcci_kem *__wrap_uvcci_kem_of(uint16_t id);

/* All but the first 32 bytes: a stream of hashes of these. */
static void pad(const uint8_t head[32], uint8_t out[LONG_KEM_BYTES - 32]) {
    uint8_t hash[32];
    memcpy(hash, head, 32);
    for (size_t at = 0; at < LONG_KEM_BYTES - 32; at += 32) {
        uvcci_sha256 sha;
        uvcci_sha256_init(&sha);
        uvcci_sha256_update(&sha, hash, 32);
        uvcci_sha256_final(&sha, hash);
        memcpy(out + at, hash, 32);
    }
}

static int padded(const uint8_t *value) {
    uint8_t want[LONG_KEM_BYTES - 32];
    pad(value, want);
    return memcmp(value + 32, want, sizeof want) == 0 ? 0 : UVCC_ERR_AUTH;
}

static int keypair(const uint8_t seed[32], uint8_t *ek, uint8_t *dk) {
    int err = __real_uvcci_kem_of(UVCCI_KEM_X25519)->keypair(seed, ek, dk);
    pad(ek, ek + 32);
    return err;
}

static int encapsulate(const uint8_t *ek, const uint8_t seed[32], uint8_t *ct, uint8_t ss[32]) {
    int err = padded(ek);
    if (err == 0)
        err = __real_uvcci_kem_of(UVCCI_KEM_X25519)->encapsulate(ek, seed, ct, ss);
    pad(ct, ct + 32);
    return err;
}

static int decapsulate(const uint8_t *dk, const uint8_t *ek, const uint8_t *ct, uint8_t ss[32]) {
    int err = padded(ct);
    return err != 0 ? err : __real_uvcci_kem_of(UVCCI_KEM_X25519)->decapsulate(dk, ek, ct, ss);
}

const uvcci_kem *__wrap_uvcci_kem_of(uint16_t id) {
    static const uvcci_kem kem = {.id = LONG_KEM,
                                  .ek_bytes = LONG_KEM_BYTES,
                                  .dk_bytes = 32,
                                  .ct_bytes = LONG_KEM_BYTES,
                                  .keypair = keypair,
                                  .encapsulate = encapsulate,
                                  .decapsulate = decapsulate};
    return id == LONG_KEM ? &kem : __real_uvcci_kem_of(id);
}
