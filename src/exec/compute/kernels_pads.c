/* SPDX-License-Identifier: Apache-2.0 */
/* kernels_pads.c - what pads are made of: the step's AES keys, expanded once a job, and the pads
 * that kernels of several subjects want.
 *
 * State: the key cache in a worker's scratch. */
#include "exec/compute/kernels_impl.h"

#include <assert.h>

static void key_init(uvcci_aes *a, const uint8_t key[16], uvcci_aes_backend backend) {
    /* The expanded key is the same for all back ends, and the worker asked the CPU once. */
    uvcci_aes_init(a, key, UVCCI_AES_PORTABLE);
    a->backend = backend;
}

static key_cache *keys_of(const chunk *c) {
    key_cache *k = &c->s->keys;
    assert(c->t->keys != NULL);
    if (k->of != c->t->keys) {
        memset(k->have_prg, 0, sizeof k->have_prg);
        k->have_dpf = false;
        k->of = c->t->keys;
    }
    return k;
}

const uvcci_aes *uvcci_kernel_prg_key(const chunk *c, unsigned pair, uvcc_prg_tag tag) {
    key_cache *k = keys_of(c);
    assert(pair <= UVCC_PAIR_OWN && tag < UVCC_TAG_COUNT);
    if (!k->have_prg[pair][tag]) {
        key_init(&k->prg[pair][tag], c->t->keys->prg[pair][tag], c->aes);
        k->have_prg[pair][tag] = true;
    }
    return &k->prg[pair][tag];
}

const uvcci_aes *uvcci_kernel_dpf_keys(const chunk *c) {
    key_cache *k = keys_of(c);
    if (!k->have_dpf) {
        for (unsigned i = 0; i < 2; i++)
            key_init(&k->dpf[i], c->t->keys->dpf[i], c->aes);
        k->have_dpf = true;
    }
    return k->dpf;
}

const uint8_t *uvcci_kernel_bit_pad(const chunk *c, unsigned slot, unsigned pair) {
    assert(c->first % 64 == 0 && slot < SLOTS);
    prg(c, pair, UVCC_TAG_mask, 2, c->first / 64, c->s->slot[slot], (c->n + 63) / 64);
    return (const uint8_t *)c->s->slot[slot];
}

const uint64_t *uvcci_kernel_bit_masks(const chunk *c, unsigned slot, const uint8_t *a,
                                       const uint8_t *b) {
    uint64_t *m = c->s->slot[slot];
    for (uint32_t i = 0; i < c->n; i += 8) {
        const unsigned byte = a[i / 8] ^ b[i / 8];
        for (unsigned k = 0; k < 8; k++)
            m[i + k] = 0 - (uint64_t)(byte >> k & 1);
    }
    return m;
}

const uint64_t *uvcci_kernel_both_pads(const chunk *c, uint16_t call, unsigned slot, unsigned spare,
                                       uvcc_prg_tag tag, uint8_t lane) {
    uint64_t *r = c->s->slot[slot], *t = c->s->slot[spare];
    assert(c->b->role == UVCC_OTHER && slot != spare && slot < SLOTS && spare < SLOTS);
    prg_of_call(c, call, PAIR_TO, tag, lane, c->first, t, c->n);
    prg_of_call(c, call, PAIR_HO, tag, lane, c->first, r, c->n);
    for (uint32_t i = 0; i < c->n; i++)
        r[i] += t[i];
    return r;
}
