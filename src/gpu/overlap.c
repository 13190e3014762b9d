/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c - see overlap.h. Sessions copy between two buffers, part by part in the order of their
 * addresses: a look at ends of ranges tells. What that does not tell is looked at pair by pair, in
 * runs that are bounded. */
#include "gpu/overlap.h"

#include <stdbool.h>

enum { RUN_MOST = 64 };

typedef struct span {
    uintptr_t from, to;
} span;

static span span_of(const void *p, size_t bytes) {
    return (span){(uintptr_t)p, (uintptr_t)p + bytes};
}

static bool meet(span a, span b) {
    return a.from < b.to && b.from < a.to && a.from != a.to && b.from != b.to;
}

static void widen(span *all, span s) {
    if (s.from == s.to)
        return;
    if (all->from == all->to)
        *all = s;
    all->from = s.from < all->from ? s.from : all->from;
    all->to = s.to > all->to ? s.to : all->to;
}

/* How many items from the first on write in the order of addresses, and read nowhere between. */
static uint32_t plain(const uvcc_copy_item *items, uint32_t count) {
    span to = {0, 0}, from = {0, 0};
    for (uint32_t i = 0; i < count; i++) {
        const span d = span_of(items[i].dst, items[i].len), s = span_of(items[i].src, items[i].len);
        const bool rises = to.from == to.to || d.from >= to.to || d.from == d.to;
        span all_to = to, all_from = from;
        widen(&all_to, d);
        widen(&all_from, s);
        if (!rises || meet(all_to, all_from))
            return i;
        to = all_to;
        from = all_from;
    }
    return count;
}

static bool disturbs(const uvcc_copy_item *a, const uvcc_copy_item *b) {
    const span ad = span_of(a->dst, a->len), as = span_of(a->src, a->len);
    const span bd = span_of(b->dst, b->len), bs = span_of(b->src, b->len);
    return meet(ad, bd) || meet(ad, bs) || meet(as, bd);
}

uint32_t uvcci_overlap_run(const uvcc_copy_item *items, uint32_t count) {
    const uint32_t most = count < RUN_MOST ? count : RUN_MOST;
    const uint32_t seen = plain(items, count);
    if (seen >= most)
        return seen;
    for (uint32_t i = seen; i < most; i++)
        for (uint32_t k = 0; k < i; k++)
            if (disturbs(&items[k], &items[i]))
                return i;
    return most;
}
