/* SPDX-License-Identifier: Apache-2.0 */
/* kem.c - key encapsulation, see kem.h. Stateless; what was secret on the stack is wiped. */
#include "proto/kem.h"

#include <stddef.h>
#include <string.h>
#include <uvcc/types.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

/* ---- DHKEM(X25519, HKDF-SHA256), RFC 9180, 4.1 ---- */

static const uint8_t suite_id[5] = {'K', 'E', 'M', 0x00, 0x20};

/* ExtractAndExpand(dh, kem_context = enc || pkR), with the labels of HPKE. */
static void extract_and_expand(const uint8_t dh[32], const uint8_t enc[32], const uint8_t pk[32],
                               uint8_t ss[32]) {
    uint8_t ikm[7 + 5 + 7 + 32], info[2 + 7 + 5 + 13 + 64], prk[32];
    uvcci_writer w = uvcci_writer_on(ikm, sizeof ikm);
    uvcci_put(&w, "HPKE-v1", 7);
    uvcci_put(&w, suite_id, 5);
    uvcci_put(&w, "eae_prk", 7);
    uvcci_put(&w, dh, 32);
    uvcci_hkdf_extract(NULL, 0, ikm, w.len, prk);
    w = uvcci_writer_on(info, sizeof info);
    uvcci_put8(&w, 0); /* 32, the most significant byte first */
    uvcci_put8(&w, 32);
    uvcci_put(&w, "HPKE-v1", 7);
    uvcci_put(&w, suite_id, 5);
    uvcci_put(&w, "shared_secret", 13);
    uvcci_put(&w, enc, 32);
    uvcci_put(&w, pk, 32);
    (void)uvcci_hkdf_expand(prk, info, w.len, ss, 32); /* one hash: it cannot fail */
    uvcci_wipe(ikm, sizeof ikm);
    uvcci_wipe(prk, sizeof prk);
}

static int x25519_keypair(const uint8_t seed[32], uint8_t *ek, uint8_t *dk) {
    memcpy(dk, seed, 32);
    return uvcci_x25519_public(dk, ek);
}

static int x25519_encapsulate(const uint8_t *ek, const uint8_t seed[32], uint8_t *ct,
                              uint8_t ss[32]) {
    uint8_t dh[32];
    int err = uvcci_x25519_public(seed, ct);
    if (err == 0)
        err = uvcci_x25519_shared(seed, ek, dh);
    if (err == 0)
        extract_and_expand(dh, ct, ek, ss);
    uvcci_wipe(dh, sizeof dh);
    return err;
}

static int x25519_decapsulate(const uint8_t *dk, const uint8_t *ek, const uint8_t *ct,
                              uint8_t ss[32]) {
    uint8_t dh[32];
    int err = uvcci_x25519_shared(dk, ct, dh);
    if (err == 0)
        extract_and_expand(dh, ct, ek, ss);
    uvcci_wipe(dh, sizeof dh);
    return err;
}

/* ---- those that there are ---- */

static const uvcci_kem kems[] = {
    {.id = UVCCI_KEM_X25519,
     .ek_bytes = 32,
     .dk_bytes = 32,
     .ct_bytes = 32,
     .keypair = x25519_keypair,
     .encapsulate = x25519_encapsulate,
     .decapsulate = x25519_decapsulate},
};

const uvcci_kem *uvcci_kem_of(uint16_t id) {
    for (size_t i = 0; i < sizeof kems / sizeof kems[0]; i++)
        if (kems[i].id == id)
            return &kems[i];
    return NULL;
}
