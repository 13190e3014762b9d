/* SPDX-License-Identifier: Apache-2.0 */
/* link_keys.c - the keys of a sealed link, see link_keys.h.
 *
 * Invariants: at most three steps' keys of each direction exist, those of step mod 3; what goes
 * back to the allocator was wiped; chain_step is the step before the first unfinished one, unless a
 * message of an older one was not cut yet (it waits for a peer that is behind) or the run began
 * later. */
#include "proto/link_keys.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/ids.h"
#include "proto/link_core.h"
#include "proto/link_send.h"
#include "proto/mutant.h"

#define COUNTER_MASK ((UINT64_C(1) << 40) - 1)

void uvcci_step_keys_free(uvcc_link *l) {
    uvcci_step_keys *s = l->keys != NULL ? l->keys->steps : NULL;
    if (s == NULL)
        return;
    for (size_t i = 0; i < 6; i++) {
        uvcci_aead_free(&s->tx[i / 2][i % 2].aead);
        uvcci_aead_free(&s->rx[i / 2][i % 2].aead);
    }
    uvcci_wipe(s, sizeof *s);
    uvcci_link_give(l, s, sizeof *s, UVCC_MEM_SECRET);
    l->keys->steps = NULL;
}

void uvcci_keys_free(uvcc_link *l) {
    if (l->keys == NULL)
        return;
    uvcci_step_keys_free(l);
    uvcci_wipe(l->keys, sizeof *l->keys);
    uvcci_link_give(l, l->keys, sizeof *l->keys, UVCC_MEM_SECRET);
    l->keys = NULL;
}

/* Nothing of the key follows from it. */
static uint64_t name_of(const uint8_t key[32]) {
    uint8_t digest[32];
    uvcci_sha256_once(key, 32, digest);
    return uvcci_ld64(digest);
}

int uvcc_link_set_keys(uvcc_link *l, uint8_t suite, const uint8_t prk[32]) {
    if (prk == NULL || (suite != UVCCI_SUITE_CHACHA20_POLY1305 && suite != UVCCI_SUITE_AES256_GCM))
        return UVCC_ERR_USAGE;
    if (!l->have_run || l->started || l->keys != NULL)
        return UVCC_ERR_STATE;
    uvcci_link_keys *k = uvcci_link_alloc(l, sizeof *k, UVCC_MEM_SECRET);
    if (k == NULL)
        return UVCC_ERR_NOMEM;
    memset(k, 0, sizeof *k);
    k->suite = suite;
    k->chain_step = l->step;
    uvcci_derive_chain(prk, l->step, l->run, k->chain);
    uvcci_derive_ctl_key(prk, l->run, l->cfg.me, l->cfg.peer, k->ctl_tx);
    uvcci_derive_ctl_key(prk, l->run, l->cfg.peer, l->cfg.me, k->ctl_rx);
    if (l->names.control != NULL)
        k->ctl_name = name_of(k->ctl_tx);
    l->keys = k;
    return 0;
}

void uvcci_link_tell_names(uvcc_link *l, const uvcci_link_names *to) {
    assert(l->keys == NULL);
    l->names = *to;
}

bool uvcci_link_has_key(const uvcc_link *l, uint32_t step) {
    return l->keys != NULL && step >= l->keys->chain_step && step <= l->step + UINT64_C(1);
}

static uvcci_step_keys *step_keys(uvcc_link *l) {
    uvcci_step_keys *s = l->keys->steps;
    if (s != NULL)
        return s;
    s = uvcci_link_alloc(l, sizeof *s, UVCC_MEM_SECRET);
    if (s == NULL)
        return NULL;
    memset(s, 0, sizeof *s);
    l->keys->steps = s;
    return s;
}

/* From the chain value, which is a few steps back at most: a frame that comes is of the first
 * unfinished step or beside it, and so is what an owner sends. */
static bool key_of(uvcc_link *l, uvcci_link_key *k, uint32_t step, uint32_t epoch, bool tx) {
    if (k->valid && k->step == step && k->epoch == epoch)
        return true;
    uvcci_aead_free(&k->aead);
    k->valid = false;
    uint8_t src = tx ? l->cfg.me : l->cfg.peer, dst = tx ? l->cfg.peer : l->cfg.me;
    uint8_t chain[32], key[32];
    memcpy(chain, l->keys->chain, sizeof chain);
    for (uint64_t at = l->keys->chain_step; at < step; at++)
        uvcci_ratchet(chain, at + 1, l->run);
    uvcci_derive_frame_key(chain, step, l->run, src, dst, epoch, key);
    k->valid = uvcci_aead_init(&k->aead, l->keys->suite, key) == 0;
    k->step = step;
    k->epoch = epoch;
    k->name = tx && l->names.data != NULL ? name_of(key) : 0;
    uvcci_wipe(chain, sizeof chain);
    uvcci_wipe(key, sizeof key);
    return k->valid;
}

uvcci_aead *uvcci_link_key_of(uvcc_link *l, uint32_t step, uint64_t seq, bool tx) {
    assert(l->keys != NULL);
    uvcci_step_keys *s = step_keys(l);
    if (s == NULL || !uvcci_link_has_key(l, step))
        return NULL;
    uint32_t epoch = (uint32_t)((seq & COUNTER_MASK) >> UVCCI_EPOCH_BITS);
    uvcci_link_key *k = tx ? &s->tx[step % 3][epoch % 2] : &s->rx[step % 3][epoch % 2];
    if (!key_of(l, k, step, epoch, tx))
        return NULL;
    if (tx && l->names.data != NULL)
        l->names.data(l->names.user, l, step, k->name, seq);
    return &k->aead;
}

static void count_forged(uvcc_link *l, uint32_t *count, uint32_t most, uvcci_spent what) {
    *count += *count != UINT32_MAX;
    if (*count >= most && l->tx.spent == UVCCI_SPENT_NOTHING)
        l->tx.spent = (uint8_t)what;
}

void uvcci_keys_forged(uvcc_link *l, uint32_t step) {
    count_forged(l, &l->keys->forged[step % 3], UVCCI_FORGED_MAX, UVCCI_SPENT_KEY);
}

void uvcci_keys_forged_ctl(uvcc_link *l) {
    count_forged(l, &l->keys->forged_ctl, UVCCI_FORGED_CTL_MAX, UVCCI_SPENT_CTL_KEY);
}

static void key_expire(uvcci_link_key *k, uint32_t step) {
    if (k->valid && k->step + UINT64_C(1) < step) {
        uvcci_aead_free(&k->aead);
        k->valid = false;
    }
}

void uvcci_keys_expire(uvcc_link *l, uint32_t step) {
    uvcci_link_keys *k = l->keys;
    if (k == NULL)
        return;
    for (size_t i = 0; k->steps != NULL && i < 6; i++) {
        key_expire(&k->steps->tx[i / 2][i % 2], step);
        key_expire(&k->steps->rx[i / 2][i % 2], step);
    }
    k->forged[(step + 1) % 3] = 0; /* of the step that can come from now on */
    uint32_t oldest = uvcci_send_oldest_step(l, step == 0 || UVCCI_MUTANT(25) ? step : step - 1);
    for (; k->chain_step < oldest; k->chain_step++)
        uvcci_ratchet(k->chain, k->chain_step + UINT64_C(1), l->run);
}
