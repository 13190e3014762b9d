/* link_keys.c - the keys of a sealed link, see link_keys.h.
 *
 * Invariants: at most three steps' keys of each direction exist, those of step mod 3; what goes
 * back to the allocator was wiped. */
#include "proto/link_keys.h"

#include <assert.h>
#include <string.h>

#include "proto/ids.h"
#include "proto/link_core.h"

void uvcci_step_keys_free(uvcc_link *l) {
    uvcci_step_keys *s = l->keys != NULL ? l->keys->steps : NULL;
    if (s == NULL)
        return;
    for (size_t i = 0; i < 3; i++) {
        uvcci_aead_free(&s->tx[i].aead);
        uvcci_aead_free(&s->rx[i].aead);
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
    memcpy(k->prk, prk, sizeof k->prk);
    uvcci_derive_ctl_key(prk, l->run, l->cfg.me, l->cfg.peer, k->ctl_tx);
    uvcci_derive_ctl_key(prk, l->run, l->cfg.peer, l->cfg.me, k->ctl_rx);
    l->keys = k;
    return 0;
}

uvcci_aead *uvcci_link_key_of(uvcc_link *l, uint32_t step, bool tx) {
    assert(l->keys != NULL);
    uvcci_step_keys *s = l->keys->steps;
    if (s == NULL) {
        s = uvcci_link_alloc(l, sizeof *s, UVCC_MEM_SECRET);
        if (s == NULL)
            return NULL;
        memset(s, 0, sizeof *s);
        l->keys->steps = s;
    }
    uvcci_link_key *k = tx ? &s->tx[step % 3] : &s->rx[step % 3];
    if (k->valid && k->step == step)
        return &k->aead;
    uvcci_aead_free(&k->aead);
    k->valid = false;
    uint8_t src = tx ? l->cfg.me : l->cfg.peer, dst = tx ? l->cfg.peer : l->cfg.me, key[32];
    uvcci_derive_frame_key(l->keys->prk, step, l->run, src, dst, key);
    k->valid = uvcci_aead_init(&k->aead, l->keys->suite, key) == 0;
    k->step = step;
    uvcci_wipe(key, sizeof key);
    return k->valid ? &k->aead : NULL;
}

static void key_expire(uvcci_link_key *k, uint32_t step) {
    if (k->valid && k->step + UINT64_C(1) < step) {
        uvcci_aead_free(&k->aead);
        k->valid = false;
    }
}

void uvcci_keys_expire(uvcc_link *l, uint32_t step) {
    for (size_t i = 0; l->keys != NULL && l->keys->steps != NULL && i < 3; i++) {
        key_expire(&l->keys->steps->tx[i], step);
        key_expire(&l->keys->steps->rx[i], step);
    }
}
