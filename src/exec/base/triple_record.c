/* SPDX-License-Identifier: Apache-2.0 */
/* triple_record.c - the bytes of a triple that a host keeps; see triple_record.h and
 * <uvcc/triple.h>. */
#include "exec/base/triple_record.h"

#include "proto/bytes.h"
#include "proto/crypto.h"
#include <assert.h>
#include <string.h>

void uvcci_triple_head_put(const uvcc_triple_info *t, uint8_t out[UVCCI_TRIPLE_KEYS_AT]) {
    uvcci_writer w = uvcci_writer_on(out, UVCCI_TRIPLE_KEYS_AT);
    assert(t->party < UVCC_PARTIES);
    uvcci_put(&w, "UVTR", 4);
    uvcci_put8(&w, 1);
    uvcci_put8(&w, t->party);
    uvcci_put16(&w, 0);
    uvcci_put(&w, t->sid_sub, 32);
    uvcci_put(&w, t->program, 32);
    uvcci_put32(&w, t->run);
    uvcci_put32(&w, t->step);
    uvcci_put32(&w, t->entry);
    uvcci_put32(&w, t->ordinal);
    uvcci_put32(&w, t->maker_run);
    uvcci_put32(&w, t->tile);
    uvcci_put64(&w, t->triple_id);
    for (unsigned i = 0; i < 3; i++) {
        uvcci_put32(&w, t->rows[i]);
        uvcci_put32(&w, t->cols[i]);
    }
    assert(!w.bad && w.len == UVCCI_TRIPLE_KEYS_AT);
}

/* The head; false if it is none. */
static bool head_get(const uint8_t *data, uvcc_triple_info *t) {
    uvcci_reader r = uvcci_reader_on(data, UVCCI_TRIPLE_KEYS_AT);
    uint8_t magic[5];
    uvcci_get(&r, magic, sizeof magic);
    t->party = uvcci_get8(&r);
    bool good = memcmp(magic, "UVTR\1", sizeof magic) == 0 && t->party < UVCC_PARTIES;
    good = uvcci_get16(&r) == 0 && good;
    uvcci_get(&r, t->sid_sub, 32);
    uvcci_get(&r, t->program, 32);
    t->run = uvcci_get32(&r);
    t->step = uvcci_get32(&r);
    t->entry = uvcci_get32(&r);
    t->ordinal = uvcci_get32(&r);
    t->maker_run = uvcci_get32(&r);
    t->tile = uvcci_get32(&r);
    t->triple_id = uvcci_get64(&r);
    for (unsigned i = 0; i < 3; i++) {
        t->rows[i] = uvcci_get32(&r);
        t->cols[i] = uvcci_get32(&r);
    }
    assert(!r.bad && r.at == UVCCI_TRIPLE_KEYS_AT);
    return good;
}

bool uvcci_hash_follows(const uint8_t *data, size_t len) {
    uint8_t h[32];
    uvcci_sha256_once(data, len, h);
    return uvcci_ct_equal(h, data + len, 32);
}

int uvcc_triple_read(const uint8_t *data, size_t len, uvcc_triple_info *out) {
    if (out == NULL || (data == NULL && len != 0))
        return UVCC_ERR_USAGE;
    memset(out, 0, sizeof *out);
    if (len < uvcci_triple_bytes(0) || !head_get(data, out))
        return UVCC_ERR_FRAME;
    const uint64_t elems = uvcci_triple_elems(out, 2);
    if (elems == 0 || elems > (len - uvcci_triple_bytes(0)) / 16)
        return UVCC_ERR_FRAME;
    out->bytes = uvcci_triple_bytes(elems);
    assert(out->bytes <= len);
    return uvcci_hash_follows(data, out->bytes - UVCCI_TRIPLE_HASH_BYTES) ? 0 : UVCC_ERR_AUTH;
}
