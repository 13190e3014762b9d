/* SPDX-License-Identifier: Apache-2.0 */
/* link_scratch.c - the bytes of one transmit, see link_scratch.h.
 *
 * Invariants: total is the sum of the slices from `first` on; used <= cap. */
#include "proto/link_scratch.h"

#include <assert.h>
#include <string.h>

#include "proto/link_core.h"

/* Payloads up to this are copied next to their headers: one slice for many short frames. */
#define COPY_MAX_BYTES 128u

/* A sealed stream's transmit is closed at as many frames as the host said, or when it holds this
 * much. */
#define SEALED_MIN_BYTES (64u << 10)

bool uvcci_scratch_reserve(uvcc_link *l, size_t cap) {
    uvcci_scratch *s = l->tx.scratch;
    if (s == NULL || s->cap < cap) {
        s = uvcci_link_alloc(l, sizeof *s + cap, UVCC_MEM_STATE);
        if (s == NULL)
            return false;
        if (l->tx.scratch != NULL)
            uvcci_link_give(l, l->tx.scratch, sizeof *s + l->tx.scratch->cap, UVCC_MEM_STATE);
        s->cap = cap;
        l->tx.scratch = s;
    }
    s->used = s->total = 0;
    s->first = s->count = s->seals = 0;
    s->has_ack = false;
    return true;
}

static void scratch_free(uvcc_link *l, uvcci_scratch **s) {
    if (*s == NULL)
        return;
    uvcci_link_give(l, *s, sizeof **s + (*s)->cap, UVCC_MEM_STATE);
    *s = NULL;
}

void uvcci_scratch_free(uvcc_link *l) {
    scratch_free(l, &l->tx.scratch);
    scratch_free(l, &l->tx.ahead);
}

uint8_t *uvcci_scratch_put(uvcci_scratch *s, size_t n) {
    assert(n <= s->cap - s->used);
    uint8_t *p = s->bytes + s->used;
    s->used += n;
    s->total += n;
    if (s->count != 0) {
        uvcc_slice *last = &s->slices[s->count - 1];
        if (last->data + last->len == p) {
            last->len += n;
            return p;
        }
    }
    assert(s->count < UVCCI_SCRATCH_SLICES);
    s->slices[s->count++] = (uvcc_slice){.data = p, .len = n};
    return p;
}

void uvcci_scratch_slice(uvcci_scratch *s, const uint8_t *data, size_t n) {
    if (n == 0)
        return;
    if (n <= COPY_MAX_BYTES) {
        memcpy(uvcci_scratch_put(s, n), data, n);
        return;
    }
    assert(s->count < UVCCI_SCRATCH_SLICES);
    s->slices[s->count++] = (uvcc_slice){.data = data, .len = n};
    s->total += n;
}

size_t uvcci_scratch_room(const uvcc_link *l) {
    const uvcci_scratch *s = l->tx.scratch;
    if (s->count + 3 > UVCCI_SCRATCH_SLICES ||
        s->cap - s->used < UVCC_FRAME_HEADER_BYTES + COPY_MAX_BYTES + UVCC_FRAME_SEAL_BYTES)
        return 0;
    if (l->cfg.datagram)
        return s->total >= l->tx.path.packet ? 0 : l->tx.path.packet - s->total;
    uint32_t most = l->tx.transmit_max;
    if (l->keys != NULL && l->cfg.transmit_frames > 1)
        most = l->cfg.transmit_frames * l->cfg.frame_bytes;
    else if (l->keys != NULL && most > l->cfg.frame_bytes) /* one is opened, the next is sealed */
        most = l->cfg.frame_bytes > SEALED_MIN_BYTES ? l->cfg.frame_bytes : SEALED_MIN_BYTES;
    return s->total >= most ? 0 : SIZE_MAX;
}

void uvcci_scratch_advance(uvcci_scratch *s, size_t bytes) {
    assert(bytes <= s->total);
    s->total -= bytes;
    while (bytes != 0) {
        uvcc_slice *slice = &s->slices[s->first];
        size_t n = bytes < slice->len ? bytes : slice->len;
        slice->data += n;
        slice->len -= n;
        bytes -= n;
        if (slice->len == 0)
            s->first++;
    }
}
