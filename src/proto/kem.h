/* SPDX-License-Identifier: Apache-2.0 */
/* kem.h - key encapsulation for the handshake's second key agreement: what one may be, and those
 * that there are. Pure: what is random is given. Ids are those of the HPKE registry of IANA, where
 * ML-KEM-768 and ML-KEM-1024 have 0x0041 and 0x0042. */
#ifndef UVCCI_KEM_H
#define UVCCI_KEM_H

#include <stdint.h>

#define UVCCI_KEM_NONE   0x0000
#define UVCCI_KEM_X25519 0x0020 /* DHKEM(X25519, HKDF-SHA256) of RFC 9180 */

/* Room for ML-KEM-1024, its decapsulation key kept as the seed that it is made of. */
#define UVCCI_KEM_EK_MAX 1568u
#define UVCCI_KEM_DK_MAX 64u
#define UVCCI_KEM_CT_MAX 1568u

typedef struct uvcci_kem {
    uint16_t id;
    uint16_t ek_bytes, dk_bytes, ct_bytes; /* encapsulation key, decapsulation key, ciphertext */
    int (*keypair)(const uint8_t seed[32], uint8_t *ek, uint8_t *dk);
    /* UVCC_ERR_AUTH: ek or ct is one that no honest peer makes. */
    int (*encapsulate)(const uint8_t *ek, const uint8_t seed[32], uint8_t *ct, uint8_t ss[32]);
    int (*decapsulate)(const uint8_t *dk, const uint8_t *ek, const uint8_t *ct, uint8_t ss[32]);
} uvcci_kem;

/* NULL: there is none of this id (UVCCI_KEM_NONE too). */
const uvcci_kem *uvcci_kem_of(uint16_t id);

#endif
