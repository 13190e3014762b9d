/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c - see staging.h. */
#include "gpu/staging.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_PIECES = 256,
    APART = 256,   /* bytes: addresses keep their remainder, on which wide accesses depend */
    GAPS_PART = 8, /* of a range that is staged one byte in so many is none of a task's, at most */
    PLANE_WORD = 64, /* elements of a word of a plane */
    PLANES_MOST = 256
};

struct uvcci_staging_piece {
    uint8_t *at;
    size_t bytes;
};

/* --- What tasks write and read ---------------------------------------------------------------- */

static size_t packed(uint32_t count, unsigned bits) {
    return ((size_t)count * bits + 7) / 8;
}

/* A message may end at a whole word. */
static uvcci_wire_piece piece_of(uint8_t *at, size_t bytes) {
    return (uvcci_wire_piece){at, bytes, (bytes + 7) / 8 * 8};
}

static uvcci_wire_piece words(const uvcc_block *b, unsigned which) {
    const size_t bytes = b->wire_out[which] != NULL ? (size_t)b->count * 8 : 0;
    return (uvcci_wire_piece){b->wire_out[which], bytes, bytes};
}

/* HEAD's message to OTHER: words, a gap, packed bits. */
static int words_and_bits(const uvcc_task *t, const uvcc_block *b, unsigned bits,
                          uvcci_wire_piece to[UVCCI_WIRE_PIECES]) {
    const size_t behind = (size_t)b->count * 8 + t->u.vec.gap;
    if (b->wire_out[1] == NULL)
        return 1;
    to[1] = words(b, 1);
    to[2] = piece_of(b->wire_out[1] + behind, packed(b->count, bits));
    return UVCCI_WIRE_PIECES;
}

static int rounding_pieces(const uvcc_task *t, const uvcc_block *b,
                           uvcci_wire_piece to[UVCCI_WIRE_PIECES]) {
    const unsigned f = t->u.vec.shift;
    const bool head = b->role == UVCC_HEAD, tail = b->role == UVCC_TAIL;
    if (t->kind == UVCC_TASK_SR_OPEN) {
        to[0] = head ? piece_of(b->wire_out[0], packed(b->count, f)) : words(b, 0);
        to[1] = piece_of(b->wire_out[1], packed(b->count, f));
        return tail ? 2 : 1;
    }
    if (tail && t->kind == UVCC_TASK_SR_SEND)
        return 0;
    const unsigned first = t->kind == UVCC_TASK_SR_SEND && head ? 1 : f;
    to[0] = piece_of(b->wire_out[0], packed(b->count, first));
    return head ? words_and_bits(t, b, first, to) : 1;
}

/* By what compute.md says of each kind and role. Less than a kind writes is right too, and more is
 * not. */
int uvcci_gpu_wire_pieces(const uvcc_task *t, const uvcc_block *b,
                          uvcci_wire_piece to[UVCCI_WIRE_PIECES]) {
    const bool other = b->role == UVCC_OTHER;
    if (b->wire_out[0] == NULL && b->wire_out[1] == NULL)
        return 0;
    switch (t->kind) {
    case UVCC_TASK_INPUT:
        to[0] = words(b, 0);
        to[1] = words(b, 1);
        return b->role == UVCC_HEAD ? 2 : 0;
    case UVCC_TASK_OPEN4_MASK:
        to[0] = words(b, 0);
        to[1] = words(b, 1);
        return other ? 2 : 1;
    case UVCC_TASK_OPEN2_MASK:
    case UVCC_TASK_LIFT_MASK:
        to[0] = words(b, 0);
        return other ? 0 : 1;
    case UVCC_TASK_FN_TABLE:
        to[0] = words(b, 0);
        to[1] = words(b, 1);
        return other ? 0 : b->in[2] != NULL ? 2 : 1;
    case UVCC_TASK_RESHARE_MASK:
    case UVCC_TASK_TRIPLE_C:
    case UVCC_TASK_PACK:
        to[0] = words(b, 0);
        return 1;
    case UVCC_TASK_LESS_MASK:
        to[0] = piece_of(b->wire_out[0], packed(b->count, 1));
        return other ? 0 : 1;
    case UVCC_TASK_FN_OPEN_MASK:
        to[0] = piece_of(b->wire_out[0], packed(b->count, t->u.vec.fn->bits));
        return other ? 0 : 1;
    case UVCC_TASK_FN_COMPARE:
        to[0] = piece_of(b->wire_out[0], packed(b->count, t->u.vec.fn->word_count));
        return other ? 0 : 1;
    case UVCC_TASK_SR_OPEN:
    case UVCC_TASK_SR_SEND:
    case UVCC_TASK_SR2_SEND:
        return rounding_pieces(t, b, to);
    default:
        return -1;
    }
}

/* Words, as most; packed bits; HEAD's message of words, a gap and bits; planes. */
size_t uvcci_gpu_wire_in_most(const uvcc_task *t, const uvcc_block *b) {
    const size_t vector = (size_t)b->count * 8;
    switch (t->kind) {
    case UVCC_TASK_TRUNC_EXACT:
    case UVCC_TASK_RELU:
    case UVCC_TASK_OPEN_BITS:
        return packed(b->count, 1);
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
        return packed(b->count, t->u.vec.fn->bits);
    case UVCC_TASK_SR_FINISH:
    case UVCC_TASK_SR2_FINISH:
        return 2 * vector + t->u.vec.gap + 8;
    case UVCC_TASK_BOOL_SHARE:
    case UVCC_TASK_BOOL_JOIN:
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_RECEIVE:
        return ((size_t)b->count + PLANE_WORD - 1) / PLANE_WORD * PLANES_MOST * 8;
    default:
        return vector;
    }
}

/* --- Ranges ----------------------------------------------------------------------------------- */

void uvcci_staging_free(uvcci_staging *s, const uvcc_allocator *al) {
    if (s->piece != NULL)
        al->free(al->user, s->piece, s->piece_room * sizeof *s->piece, UVCC_MEM_STATE);
    *s = (uvcci_staging){0};
}

void uvcci_staging_begin(uvcci_staging *s) {
    s->count = s->piece_count = s->gaps = s->staged = 0;
    s->bytes = s->gap_bytes = 0;
}

void uvcci_staging_drop(uvcci_staging *s) {
    uvcci_staging_begin(s);
}

/* The last range that begins at a byte or before, or NULL. */
static uvcci_staged *range_at(const uvcci_staging *s, const uint8_t *at) {
    uint32_t lo = 0, hi = s->count;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (s->range[mid].at <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo != 0 ? (uvcci_staged *)(uintptr_t)&s->range[lo - 1] : NULL;
}

static bool overlaps(const uvcci_staged *r, const uint8_t *at, size_t bytes) {
    return at < r->at + r->bytes && r->at < at + bytes;
}

void uvcci_staging_add(uvcci_staging *s, const void *p, size_t bytes) {
    uint32_t i = s->count;
    bool alone = true;
    for (uint32_t k = 0; k < s->count; k++)
        if (overlaps(&s->range[k], p, bytes)) {
            s->range[k].no = true;
            alone = false;
        }
    if (!alone || i == UVCCI_STAGED_MOST)
        return;
    for (; i != 0 && s->range[i - 1].at > (const uint8_t *)p; i--)
        s->range[i] = s->range[i - 1];
    s->range[i] = (uvcci_staged){.at = (uint8_t *)(uintptr_t)p, .bytes = bytes};
    s->count++;
}

void uvcci_staging_touch(uvcci_staging *s, const void *p, size_t bytes) {
    const uint8_t *at = p;
    uvcci_staged *r = p != NULL && bytes != 0 ? range_at(s, at + bytes - 1) : NULL;
    for (; r != NULL && r >= s->range && overlaps(r, at, bytes); r--)
        r->no = true;
}

void uvcci_staging_hash(uvcci_staging *s, const void *p, size_t bytes) {
    const uint8_t *at = p;
    const uvcci_staged *r = range_at(s, at);
    if (r == NULL || bytes > r->bytes || (size_t)(at - r->at) > r->bytes - bytes)
        uvcci_staging_touch(s, p, bytes);
}

static bool add_piece(uvcci_staging *s, const uvcc_allocator *al, uint8_t *at, size_t bytes) {
    if (s->piece_count == s->piece_room) {
        const uint32_t room = s->piece_room == 0 ? FIRST_PIECES : 2 * s->piece_room;
        struct uvcci_staging_piece *more = al->alloc(al->user, room * sizeof *more, UVCC_MEM_STATE);
        if (more == NULL)
            return false;
        if (s->piece != NULL) {
            memcpy(more, s->piece, s->piece_count * sizeof *more);
            al->free(al->user, s->piece, s->piece_room * sizeof *more, UVCC_MEM_STATE);
        }
        s->piece = more;
        s->piece_room = room;
    }
    s->piece[s->piece_count++] = (struct uvcci_staging_piece){at, bytes};
    return true;
}

int uvcci_staging_write(uvcci_staging *s, const uvcc_allocator *al, const uvcci_wire_piece *piece,
                        uint32_t task) {
    if (piece->at == NULL || piece->bytes == 0)
        return 0;
    uvcci_staged *r = range_at(s, piece->at);
    if (r == NULL || piece->most > r->bytes ||
        (size_t)(piece->at - r->at) > r->bytes - piece->most) {
        uvcci_staging_touch(s, piece->at, piece->most); /* of none, or of more than one */
        return 0;
    }
    if (r->no)
        return 0;
    if (!add_piece(s, al, piece->at, piece->bytes)) {
        uvcci_staging_drop(s);
        return UVCC_ERR_NOMEM;
    }
    r->written++;
    s->last = task;
    return 0;
}

/* --- Which are staged ------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
    const struct uvcci_staging_piece *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool is_sorted(const uvcci_staging *s) {
    for (uint32_t i = 1; i < s->piece_count; i++)
        if (s->piece[i].at < s->piece[i - 1].at)
            return false;
    return true;
}

/* Gaps of a range, whose pieces begin at `next`. */
typedef struct gaps {
    const uvcci_staging *s;
    const uvcci_staged *r;
    uint8_t *at; /* all before is known */
    uint32_t next;
} gaps;

static uint32_t first_piece(const uvcci_staging *s, const uvcci_staged *r) {
    uint32_t lo = 0, hi = s->piece_count;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (s->piece[mid].at < r->at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static gaps gaps_of(const uvcci_staging *s, const uvcci_staged *r) {
    return (gaps){s, r, r->at, first_piece(s, r)};
}

static bool next_gap(gaps *g, uint8_t **at, size_t *bytes) {
    uint8_t *const end = g->r->at + g->r->bytes;
    const struct uvcci_staging_piece *p = g->s->piece;
    while (g->next < g->s->piece_count && p[g->next].at <= g->at) {
        uint8_t *const past = p[g->next].at + p[g->next].bytes;
        g->at = past > g->at ? past : g->at;
        g->next++;
    }
    if (g->at >= end)
        return false;
    uint8_t *const to = g->next < g->s->piece_count && p[g->next].at < end ? p[g->next].at : end;
    *at = g->at;
    *bytes = (size_t)(to - g->at);
    g->at = to;
    return true;
}

static void count_gaps(const uvcci_staging *s, uvcci_staged *r) {
    gaps g = gaps_of(s, r);
    uint8_t *at;
    size_t bytes;
    r->gaps = 0;
    r->gap_bytes = 0;
    while (next_gap(&g, &at, &bytes)) {
        r->gaps++;
        r->gap_bytes += bytes;
    }
}

void uvcci_staging_settle(uvcci_staging *s, size_t most) {
    size_t used = 0;
    if (s->count == 0)
        return;
    if (!is_sorted(s))
        qsort(s->piece, s->piece_count, sizeof *s->piece, by_address);
    for (uint32_t i = 0; i < s->count; i++) {
        uvcci_staged *r = &s->range[i];
        const size_t at = (used + APART - 1) / APART * APART + (uintptr_t)r->at % APART;
        if (r->no || r->written == 0 || at > most || r->bytes > most - at) {
            r->no = true;
            continue;
        }
        count_gaps(s, r);
        r->no = r->gap_bytes > r->bytes / GAPS_PART;
        if (r->no)
            continue;
        r->copy = at;
        used = at + r->bytes;
        s->staged++;
        s->gaps += r->gaps;
        s->gap_bytes += r->gap_bytes;
    }
    s->bytes = used;
}

uint64_t uvcci_staging_bytes(const uvcci_staging *s) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->count; i++)
        bytes += s->range[i].no ? 0 : s->range[i].bytes;
    return bytes;
}

uint8_t *uvcci_staging_find(const uvcci_staging *s, uint8_t *copies, const void *p) {
    const uint8_t *at = p;
    const uvcci_staged *r = s->staged != 0 ? range_at(s, at) : NULL;
    return r != NULL && !r->no && (size_t)(at - r->at) < r->bytes ? copies + r->copy + (at - r->at)
                                                                  : NULL;
}

void uvcci_staging_fill(const uvcci_staging *s, uint8_t *copies, uint8_t *bytes,
                        const uint8_t *seen, uvcc_copy_item *to) {
    for (uint32_t i = 0; i < s->count; i++) {
        const uvcci_staged *r = &s->range[i];
        gaps g = gaps_of(s, r);
        uint8_t *at;
        size_t len;
        while (!r->no && next_gap(&g, &at, &len)) {
            memcpy(bytes, at, len);
            *to++ = (uvcc_copy_item){copies + r->copy + (at - r->at), seen, len};
            bytes += len;
            seen += len;
        }
    }
}

size_t uvcci_staging_deliver(const uvcci_staging *s, uint8_t *copies, uvcc_copy_item *to) {
    size_t longest = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        const uvcci_staged *r = &s->range[i];
        if (r->no)
            continue;
        *to++ = (uvcc_copy_item){r->at, copies + r->copy, r->bytes};
        longest = r->bytes > longest ? r->bytes : longest;
    }
    return longest;
}
