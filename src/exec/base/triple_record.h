/* SPDX-License-Identifier: Apache-2.0 */
/* triple_record.h - records of triples that a host keeps (uvcc/triple.h): their bytes. */
#ifndef UVCCI_TRIPLE_H
#define UVCCI_TRIPLE_H

#include <stdbool.h>
#include <uvcc/triple.h>

enum {
    UVCCI_TRIPLE_KEYS_AT = 4 + 4 + 32 + 32 + 6 * 4 + 8 + 6 * 4,
    UVCCI_TRIPLE_C_AT = UVCCI_TRIPLE_KEYS_AT + 4 * 16,
    UVCCI_TRIPLE_HASH_BYTES = 32
};

/* Elements of A, B (operand 0, 1) or C. */
static inline uint64_t uvcci_triple_elems(const uvcc_triple_info *t, unsigned i) {
    return (uint64_t)t->rows[i] * t->cols[i];
}
/* Bytes of a record with that many elements in C. */
static inline size_t uvcci_triple_bytes(uint64_t elems) {
    return UVCCI_TRIPLE_C_AT + 16 * (size_t)elems + UVCCI_TRIPLE_HASH_BYTES;
}
/* What stands before the keys. */
void uvcci_triple_head_put(const uvcc_triple_info *t, uint8_t out[UVCCI_TRIPLE_KEYS_AT]);
/* Whether SHA-256 of `len` bytes follows them. */
bool uvcci_hash_follows(const uint8_t *data, size_t len);

#endif
