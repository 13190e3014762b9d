/* SPDX-License-Identifier: Apache-2.0 */
/* serve_offer.c - see serve_offer.h. */
#include "serve_offer.h"

#include <string.h>

/* ---- words ---- */

static int64_t *put(int64_t *at, const uint8_t *bytes, size_t len) {
    for (size_t i = 0; i < len; i += 4)
        *at++ = (int64_t)((uint32_t)bytes[i] | (uint32_t)bytes[i + 1] << 8 |
                          (uint32_t)bytes[i + 2] << 16 | (uint32_t)bytes[i + 3] << 24);
    return at;
}

static const int64_t *get(const int64_t *at, uint8_t *bytes, size_t len) {
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)((uint64_t)at[i / 4] >> (8 * (i % 4)));
    return at + len / 4;
}

void serve_offer_write(const serve_slot slot[SERVE_SLOTS], int64_t words[SERVE_WORDS]) {
    int64_t *at = words;
    memset(words, 0, SERVE_WORDS * sizeof *words);
    for (unsigned i = 0; i < SERVE_SLOTS; i++, at = words + (size_t)i * SERVE_SLOT_WORDS) {
        if (!slot[i].used)
            continue;
        *at++ = 1;
        at = put(at, slot[i].name.client, sizeof slot[i].name.client);
        at = put(at, slot[i].name.id, sizeof slot[i].name.id);
        at = put(at, slot[i].digest_lo, sizeof slot[i].digest_lo);
        (void)put(at, slot[i].digest_hi, sizeof slot[i].digest_hi);
    }
}

void serve_offer_read(const int64_t words[SERVE_WORDS], serve_slot slot[SERVE_SLOTS]) {
    for (unsigned i = 0; i < SERVE_SLOTS; i++) {
        const int64_t *at = words + (size_t)i * SERVE_SLOT_WORDS;
        slot[i] = (serve_slot){.used = *at++ == 1};
        at = get(at, slot[i].name.client, sizeof slot[i].name.client);
        at = get(at, slot[i].name.id, sizeof slot[i].name.id);
        at = get(at, slot[i].digest_lo, sizeof slot[i].digest_lo);
        (void)get(at, slot[i].digest_hi, sizeof slot[i].digest_hi);
    }
}

/* ---- choosing ---- */

static const serve_slot *find(const serve_slot slot[SERVE_SLOTS], const serve_name *name) {
    for (unsigned i = 0; i < SERVE_SLOTS; i++)
        if (slot[i].used && memcmp(&slot[i].name, name, sizeof *name) == 0)
            return &slot[i];
    return NULL;
}

/* The component that two parties both have is the same at both. */
static bool same(const serve_slot *const of[UVCC_PARTIES]) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (memcmp(of[p]->digest_hi, of[(p + 1) % UVCC_PARTIES]->digest_lo, 32) != 0)
            return false;
    return true;
}

static bool picked(const serve_pick *pick, uint32_t count, const serve_name *name) {
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&pick[i].name, name, sizeof *name) == 0)
            return true;
    return false;
}

uint32_t serve_choose(const int64_t *const offer[UVCC_PARTIES], uint32_t turn,
                      serve_pick pick[SERVE_SLOTS]) {
    serve_slot slot[UVCC_PARTIES][SERVE_SLOTS];
    const serve_slot *first = slot[serve_leader(turn)];
    uint32_t count = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        serve_offer_read(offer[p], slot[p]);
    for (unsigned i = 0; i < SERVE_SLOTS; i++) {
        const serve_slot *of[UVCC_PARTIES];
        bool all = first[i].used && !picked(pick, count, &first[i].name);
        for (unsigned p = 0; p < UVCC_PARTIES && all; p++)
            all = (of[p] = find(slot[p], &first[i].name)) != NULL;
        if (all)
            pick[count++] = (serve_pick){.name = first[i].name, .mismatch = !same(of)};
    }
    return count;
}

static uint64_t number(const uint8_t bytes[8]) {
    uint64_t v = 0;
    for (unsigned i = 0; i < 8; i++)
        v = v << 8 | bytes[i];
    return v;
}

/* Multiples of the golden ratio come near every place before long. */
int serve_order(const uint8_t a[8], const uint8_t b[8], uint32_t turn) {
    const uint64_t from = turn * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t x = number(a) - from, y = number(b) - from;
    return x < y ? -1 : x > y;
}
