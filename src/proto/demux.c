/* SPDX-License-Identifier: Apache-2.0 */
/* demux.c - which session a packet or a connection is for: see uvcc/demux.h.
 *
 * The table: open addressing by the tag's own low bits mixed, linear probing, at most half full,
 * removal by moving back what follows, so a find ends at the first empty place. Who chooses tags
 * that collide chooses sid_jobs, which three parties agree on. */
#include <uvcc/demux.h>

#include <string.h>

#include <uvcc/frame.h>

#include "proto/bytes.h"
#include "proto/crc.h"

#define CALL_VERSION 1u
#define SLOTS_MIN    16u
enum { CALL_AT_VERSION = 4, CALL_AT_FROM = 5, CALL_AT_TO = 6, CALL_AT_TAG = 8, CALL_AT_CRC = 20 };

static const uint8_t CALL_MAGIC[4] = {'U', 'V', 'C', '1'};

/* ---- the call ---- */

static bool parties_ok(uint8_t from, uint8_t to) {
    return from < UVCC_PARTIES && to < UVCC_PARTIES && from != to;
}

int uvcc_call_encode(uint8_t out[UVCC_CALL_BYTES], const uvcc_call *c) {
    if (out == NULL || c == NULL || !parties_ok(c->from, c->to) || c->sid_tag == 0)
        return UVCC_ERR_USAGE;
    memset(out, 0, UVCC_CALL_BYTES);
    memcpy(out, CALL_MAGIC, sizeof CALL_MAGIC);
    out[CALL_AT_VERSION] = CALL_VERSION;
    out[CALL_AT_FROM] = c->from;
    out[CALL_AT_TO] = c->to;
    uvcci_st64(out + CALL_AT_TAG, c->sid_tag);
    uvcci_st32(out + CALL_AT_CRC, uvcci_crc32(0, out, CALL_AT_CRC));
    return 0;
}

int uvcc_call_decode(const uint8_t in[UVCC_CALL_BYTES], uvcc_call *out) {
    uvcc_call c;
    uint8_t same[UVCC_CALL_BYTES];
    if (in == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    c = (uvcc_call){
        .from = in[CALL_AT_FROM], .to = in[CALL_AT_TO], .sid_tag = uvcci_ld64(in + CALL_AT_TAG)};
    /* There is one encoding of a call. */
    if (uvcc_call_encode(same, &c) != 0 || memcmp(in, same, sizeof same) != 0)
        return UVCC_ERR_FRAME;
    *out = c;
    return 0;
}

int uvcc_call_may_be(const uint8_t *in, size_t len) {
    if (in == NULL)
        return UVCC_ERR_USAGE;
    if (memcmp(in, CALL_MAGIC, len < sizeof CALL_MAGIC ? len : sizeof CALL_MAGIC) != 0 ||
        (len > CALL_AT_VERSION && in[CALL_AT_VERSION] != CALL_VERSION))
        return UVCC_ERR_FRAME;
    return 0;
}

/* ---- the table ---- */

typedef struct slot {
    uint64_t tag; /* 0: empty */
    void *user;
} slot;

struct uvcc_demux {
    uvcc_allocator alloc;
    slot *slots;
    uint32_t cap, count; /* cap: a power of two */
};

static uint32_t home_of(const uvcc_demux *d, uint64_t tag) {
    return (uint32_t)((tag ^ tag >> 32) * 0x9e3779b97f4a7c15u >> 32) & (d->cap - 1);
}

static slot *slots_new(const uvcc_allocator *al, uint32_t cap) {
    slot *s = al->alloc(al->user, cap * sizeof *s, UVCC_MEM_STATE);
    if (s != NULL)
        memset(s, 0, cap * sizeof *s);
    return s;
}

/* Where the tag is, or would go. */
static slot *slot_of(const uvcc_demux *d, uint64_t tag) {
    uint32_t at = home_of(d, tag);
    while (d->slots[at].tag != 0 && d->slots[at].tag != tag)
        at = (at + 1) & (d->cap - 1);
    return &d->slots[at];
}

int uvcc_demux_new(uvcc_demux **out, const uvcc_allocator *alloc) {
    if (out == NULL || alloc == NULL || alloc->alloc == NULL || alloc->free == NULL)
        return UVCC_ERR_USAGE;
    uvcc_demux *d = alloc->alloc(alloc->user, sizeof *d, UVCC_MEM_STATE);
    if (d == NULL)
        return UVCC_ERR_NOMEM;
    *d = (uvcc_demux){.alloc = *alloc, .cap = SLOTS_MIN, .slots = slots_new(alloc, SLOTS_MIN)};
    if (d->slots == NULL) {
        alloc->free(alloc->user, d, sizeof *d, UVCC_MEM_STATE);
        return UVCC_ERR_NOMEM;
    }
    *out = d;
    return 0;
}

void uvcc_demux_free(uvcc_demux *d) {
    if (d == NULL)
        return;
    const uvcc_allocator al = d->alloc;
    al.free(al.user, d->slots, d->cap * sizeof *d->slots, UVCC_MEM_STATE);
    al.free(al.user, d, sizeof *d, UVCC_MEM_STATE);
}

static int grow(uvcc_demux *d) {
    const uvcc_demux old = *d;
    slot *slots = old.cap > UINT32_MAX / 4 ? NULL : slots_new(&d->alloc, 2 * old.cap);
    if (slots == NULL)
        return UVCC_ERR_NOMEM;
    d->slots = slots;
    d->cap = 2 * old.cap;
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slots[i].tag != 0)
            *slot_of(d, old.slots[i].tag) = old.slots[i];
    d->alloc.free(d->alloc.user, old.slots, old.cap * sizeof *old.slots, UVCC_MEM_STATE);
    return 0;
}

int uvcc_demux_add(uvcc_demux *d, uint64_t sid_tag, void *user) {
    if (d == NULL || sid_tag == 0 || user == NULL)
        return UVCC_ERR_USAGE;
    if (slot_of(d, sid_tag)->tag != 0)
        return UVCC_ERR_STATE;
    if (2 * (d->count + 1) > d->cap && grow(d) != 0)
        return UVCC_ERR_NOMEM;
    *slot_of(d, sid_tag) = (slot){.tag = sid_tag, .user = user};
    d->count++;
    return 0;
}

int uvcc_demux_remove(uvcc_demux *d, uint64_t sid_tag) {
    if (d == NULL)
        return UVCC_ERR_USAGE;
    slot *hole = sid_tag != 0 ? slot_of(d, sid_tag) : NULL;
    if (hole == NULL || hole->tag == 0)
        return UVCC_ERR_NOT_FOUND;
    const uint32_t mask = d->cap - 1;
    uint32_t gap = (uint32_t)(hole - d->slots);
    for (uint32_t at = (gap + 1) & mask; d->slots[at].tag != 0; at = (at + 1) & mask) {
        /* It may fill the gap unless its home lies behind the gap. */
        if (((at - home_of(d, d->slots[at].tag)) & mask) < ((at - gap) & mask))
            continue;
        d->slots[gap] = d->slots[at];
        gap = at;
    }
    d->slots[gap] = (slot){0};
    d->count--;
    return 0;
}

void *uvcc_demux_find(const uvcc_demux *d, uint64_t sid_tag) {
    return d == NULL || sid_tag == 0 ? NULL : slot_of(d, sid_tag)->user;
}

void *uvcc_demux_packet(const uvcc_demux *d, const uint8_t *bytes, size_t len) {
    uint64_t tag;
    return uvcc_frame_peek_sid_tag(bytes, len, &tag) == 0 ? uvcc_demux_find(d, tag) : NULL;
}

uint32_t uvcc_demux_count(const uvcc_demux *d) {
    return d != NULL ? d->count : 0;
}
