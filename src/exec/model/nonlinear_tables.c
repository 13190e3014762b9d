/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_tables.c - tables of a curve in a window of indices, and tables at exact indices: two
 * of them, of which the second puts right what a carry of the low bits does to the first. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>

/* ---- tables ---- */

static uint64_t farthest(const uvcci_nl_window *w) {
    assert(w->count != 0);
    const uint64_t low = uvcci_magnitude(w->first),
                   high = uvcci_magnitude(w->first + (int64_t)w->count - 1);
    return low > high ? low : high;
}

uint8_t uvcci_nl_table_bits(uint64_t reach, const uvcci_nl_window *w) {
    const uint8_t distance = uvcci_bits_of(uvcci_sat_add(reach, farthest(w))),
                  entries = uvcci_bits_of(w->count - 1);
    return distance > entries ? distance : entries;
}

static int64_t entry_at(const uvcci_nl_window *w, const uvcci_nl_curve *c, int64_t index) {
    assert(w->scale <= 48);
    const uvcci_fixed at = uvcci_fixed_of(2 * index + w->middle, w->index_bits + 1u);
    return uvcci_fixed_round(uvcci_nl_value_at(c, at), w->scale) + w->raise;
}

static bool within(const uvcci_nl_window *w, int64_t index) {
    return index >= w->first && index < w->first + (int64_t)w->count;
}

static int32_t *room_for_entries(uvcci_nl_builder *b, uint32_t count) {
    assert(count != 0);
    int32_t *entries = b->entries != NULL ? b->entries + b->entry_count : NULL;
    b->entry_count += count;
    return entries;
}

/* Entry i, where there is memory for it; gives the greater of `most` and its size. Large scales
 * need more bits than entries have: then there is no such function. */
static uint64_t put_entry(uvcci_nl_builder *b, int32_t *entries, uint32_t i, int64_t v,
                          uint64_t most) {
    assert(entries == NULL || b->entries != NULL);
    b->too_large |= v < INT32_MIN || v > INT32_MAX;
    if (entries != NULL)
        entries[i] = (int32_t)v;
    return uvcci_magnitude(v) > most ? uvcci_magnitude(v) : most;
}

const int32_t *uvcci_nl_put_entries(uvcci_nl_builder *b, const uvcci_nl_window *w,
                                    const uvcci_nl_curve *c, uint64_t *most) {
    int32_t *entries = room_for_entries(b, w->count);
    const int parity = uvcci_nl_parity(c);
    assert(parity == 0 || w->raise == 0);
    *most = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const int64_t index = w->first + (int64_t)i, mirror = -index - w->middle;
        const bool known = parity != 0 && mirror < index && within(w, mirror);
        if (!known)
            *most = put_entry(b, entries, i, entry_at(w, c, index), *most);
        else if (entries != NULL)
            entries[i] = parity * entries[mirror - w->first];
    }
    return entries;
}

/* What entries (NULL: not kept) rise by from the one before, for every index in the window and the
 * one behind it; at index 0 plus `jump`. While room is counted the greatest is wanted: in a window
 * of which one half is the other's mirror no rise above 0 is more than that below. */
static const int32_t *put_rises(uvcci_nl_builder *b, const uvcci_nl_window *w,
                                const uvcci_nl_curve *c, const int32_t *kept, int64_t jump,
                                uint64_t *most) {
    int32_t *entries = room_for_entries(b, w->count + 1);
    const bool half = kept == NULL && w->middle && uvcci_nl_parity(c) != 0 &&
                      w->first == -(int64_t)(w->count / 2) && w->count % 2 == 0;
    int64_t before = 0;
    *most = 0;
    for (uint32_t i = 0; i <= (half ? w->count / 2 : w->count); i++) {
        const int64_t index = w->first + (int64_t)i;
        int64_t here = 0;
        if (within(w, index))
            here = kept != NULL ? kept[i] : entry_at(w, c, index);
        const int64_t v = here - before + (index == 0 ? jump : 0);
        before = here;
        *most = put_entry(b, entries, i, v, *most);
    }
    return entries;
}

static uint8_t put_table(uvcci_nl_builder *b, uint8_t a, uint8_t y, uint8_t bits, int64_t first,
                         const int32_t *entries, uint32_t count, uint64_t most) {
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_TABLE,
                                        .a = a,
                                        .b = y,
                                        .bits = bits,
                                        .io = UVCC_FN_NONE,
                                        .first = first,
                                        .entry_count = count,
                                        .entries = entries},
                        y != UVCC_FN_NONE ? uvcci_sat_mul(most, b->bound[y]) : most);
}

uint8_t uvcci_nl_table(uvcci_nl_builder *b, uint8_t a, uint8_t y, uint8_t bits,
                       const uvcci_nl_window *w, const uvcci_nl_curve *c) {
    uint64_t most;
    const int32_t *entries = uvcci_nl_put_entries(b, w, c, &most);
    return put_table(b, a, y, bits, w->first, entries, w->count, most);
}

/* TABLE_MUL on the index instruction a: times the bit of the B instruction d and the M or TABLE
 * instruction m, if they are. */
static uint8_t table_mul(uvcci_nl_builder *b, uint8_t a, uint8_t d, uint8_t m, uint8_t bits,
                         int64_t first, const int32_t *entries, uint32_t count, uint64_t most) {
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_TABLE_MUL,
                                        .a = a,
                                        .b = d,
                                        .c = m,
                                        .bits = bits,
                                        .io = UVCC_FN_NONE,
                                        .first = first,
                                        .entry_count = count,
                                        .entries = entries},
                        m != UVCC_FN_NONE ? uvcci_sat_mul(most, b->bound[m]) : most);
}

/* ---- exact indices ---- */

static uint8_t low_of(uvcci_nl_builder *b, uint8_t a, unsigned bits) {
    return uvcci_nl_put(b,
                        (uvcc_fn_instr){.kind = UVCC_FN_LOW,
                                        .a = a,
                                        .b = UVCC_FN_NONE,
                                        .bits = (uint8_t)bits,
                                        .io = UVCC_FN_NONE},
                        uvcci_nl_all_below(bits));
}

uvcci_nl_index uvcci_nl_exact_shift(uvcci_nl_builder *b, uint8_t x, unsigned by) {
    uvcci_nl_index i;
    i.index = uvcci_nl_shift(b, x, by);
    i.low = low_of(b, x, by);
    i.kept = uvcci_nl_compare(b, i.low, (uint8_t)by, uvcci_nl_zero, 1);
    return i;
}

uint8_t uvcci_nl_exact_bits(uint64_t reach, const uvcci_nl_window *w) {
    const uvcci_nl_window wider = {.first = w->first, .count = w->count + 1};
    return uvcci_nl_table_bits(reach, &wider);
}

uint8_t uvcci_nl_exact_table(uvcci_nl_builder *b, const uvcci_nl_index *i, uint8_t m, uint8_t bits,
                             const uvcci_nl_window *w, const uvcci_nl_curve *c, int64_t jump) {
    uvcci_nl_window before = *w;
    uint64_t most;
    uint8_t t;
    const int32_t *entries = uvcci_nl_put_entries(b, w, c, &most), *kept = entries;
    before.first++;
    if (m != UVCC_FN_NONE)
        t = table_mul(b, i->index, UVCC_FN_NONE, m, bits, before.first, entries, w->count, most);
    else
        t = put_table(b, i->index, UVCC_FN_NONE, bits, before.first, entries, w->count, most);
    entries = put_rises(b, w, c, kept, jump, &most);
    return uvcci_nl_add(
        b, t, table_mul(b, i->index, i->kept, m, bits, w->first, entries, w->count + 1, most), 0);
}

uint8_t uvcci_nl_truncate_exactly(uvcci_nl_builder *b, uint8_t x, unsigned by) {
    const uint8_t kept = uvcci_nl_compare(b, low_of(b, x, by), (uint8_t)by, uvcci_nl_zero, 1);
    const uint8_t carried = uvcci_nl_weigh(b, kept, UVCC_FN_NONE, uvcci_nl_one, 1);
    return uvcci_nl_add(b, uvcci_nl_truncate(b, x, by), carried, -1);
}
