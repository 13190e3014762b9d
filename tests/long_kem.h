/* SPDX-License-Identifier: Apache-2.0 */
/* long_kem.h - a key encapsulation whose key and ciphertext are as long as those of ML-KEM-1024,
 * for tests alone: DHKEM(X25519) whose values are followed by bytes derived from them, which are
 * checked. A test that links long_kem.c with --wrap=uvcci_kem_of has it beside those of the
 * library. */
#ifndef UVCC_TEST_LONG_KEM_H
#define UVCC_TEST_LONG_KEM_H

enum { LONG_KEM = 0xFE42, LONG_KEM_BYTES = 1568 };

#endif
