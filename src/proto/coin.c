/* SPDX-License-Identifier: Apache-2.0 */
/* coin.c - see coin.h. States: per party nothing, committed, opened; invariant: opened is a part of
 * committed, and empty until committed has all three. */
#include "proto/coin.h"

#include <assert.h>
#include <string.h>

#include <uvcc/types.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

enum { ALL = 7, SELECT_AT = 16 };

static void commitment(const uvcci_coin *c, uint8_t party, const uint8_t share[32],
                       uint8_t out[32]) {
    uint8_t buf[12 + 32 + 12 + 1 + 32];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    uvcci_put(&w, "UVCC_COIN_V1", 12);
    uvcci_put(&w, c->sid_sub, 32);
    uvcci_put32(&w, c->step);
    uvcci_put32(&w, c->run);
    uvcci_put32(&w, c->op_id);
    uvcci_put8(&w, party);
    uvcci_put(&w, share, 32);
    assert(!w.bad && w.len == sizeof buf);
    uvcci_sha256_once(buf, w.len, out);
    uvcci_wipe(buf, sizeof buf);
}

void uvcci_coin_init(uvcci_coin *c, const uint8_t sid_sub[32], uint32_t step, uint32_t run,
                     uint32_t op_id, uint8_t party, const uint8_t share[32]) {
    assert(party < UVCC_PARTIES);
    *c = (uvcci_coin){.step = step, .run = run, .op_id = op_id, .party = party};
    memcpy(c->sid_sub, sid_sub, 32);
    memcpy(c->share[party], share, 32);
    commitment(c, party, share, c->commit[party]);
}

const uint8_t *uvcci_coin_commit(uvcci_coin *c) {
    c->committed |= (uint8_t)(1u << c->party);
    return c->commit[c->party];
}

int uvcci_coin_on_commit(uvcci_coin *c, uint8_t from, const uint8_t commit[32]) {
    assert(from < UVCC_PARTIES && from != c->party);
    if ((c->committed >> from & 1) != 0)
        return UVCC_ERR_PROTOCOL;
    memcpy(c->commit[from], commit, 32);
    c->committed |= (uint8_t)(1u << from);
    return 0;
}

const uint8_t *uvcci_coin_open(uvcci_coin *c) {
    if (c->committed != ALL)
        return NULL;
    c->opened |= (uint8_t)(1u << c->party);
    return c->share[c->party];
}

int uvcci_coin_on_share(uvcci_coin *c, uint8_t from, const uint8_t share[32]) {
    uint8_t want[32];
    assert(from < UVCC_PARTIES && from != c->party);
    if (c->committed != ALL || (c->opened >> from & 1) != 0)
        return UVCC_ERR_PROTOCOL;
    commitment(c, from, share, want);
    if (!uvcci_ct_equal(want, c->commit[from], 32))
        return UVCC_ERR_AUTH;
    memcpy(c->share[from], share, 32);
    c->opened |= (uint8_t)(1u << from);
    return 0;
}

int uvcci_coin_seed(const uvcci_coin *c, const uint8_t *roots, uint8_t seed[32]) {
    if (c->opened != ALL)
        return UVCC_ERR_STATE;
    uvcci_sha256 h;
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, "UVCC_COIN_SEED_V1", 17);
    uvcci_sha256_update(&h, c->commit, sizeof c->commit);
    uvcci_sha256_update(&h, c->share, sizeof c->share);
    uvcci_sha256_update(&h, roots, 3 * 32);
    uvcci_sha256_final(&h, seed);
    return 0;
}

bool uvcci_coin_selects(const uint8_t seed[32], uint32_t permille) {
    return (uvcci_ld32(seed + SELECT_AT) * UINT64_C(1000)) >> 32 < permille;
}
