/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c - see overlap.h. */
#include "overlap.h"

#include <assert.h>

#define PART(kind, part) [UVCC_TASK_##kind] = OVERLAP_##part + 1

/* By kind of task, and 1 more; 0: OTHER. */
static const uint8_t parts[] = {
    PART(LESS_MASK, FSS),
    PART(RELU, FSS),
    PART(DEAL, FSS),
    PART(FN_COMPARE, FSS),
    PART(FN_SELECT, FSS),
    PART(FN_TABLE, FSS),
    PART(FN_DEAL_KEY, FSS),
    PART(FN_DEAL_BITS, FSS),
    PART(FN_DEAL_SELECT, FSS),
    PART(FN_DEAL_SCALAR, FSS),
    PART(FN_DEAL_MUL, FSS),
    PART(FN_DEAL_TRUNC, FSS),
    PART(FN_BEST, FSS),
    PART(FN_DEAL_BEST, FSS),
    PART(FN_MULTISCALE, FSS),
    PART(FN_DEAL_MULTISCALE, FSS),
    PART(FN_FLOOR, FSS),
    PART(FN_DEAL_FLOOR, FSS),
    PART(FN_SPLINE, FSS),
    PART(FN_DEAL_SPLINE, FSS),
    PART(FN_DEAL_POWERS, FSS),
    PART(ONE_HOT_KEYS, FSS),
    PART(ONE_HOT_ROWS, FSS),
    PART(GEMM, GEMM),
    PART(INPUT, PACKING),
    PART(OPEN4_MASK, PACKING),
    PART(OPEN2_MASK, PACKING),
    PART(OPEN_FINISH, PACKING),
    PART(LIFT_MASK, PACKING),
    PART(LIFT_FINISH, PACKING),
    PART(RESHARE_MASK, PACKING),
    PART(UNPACK, PACKING),
    PART(PACK, PACKING),
    PART(OPEN_ALL_FINISH, PACKING),
    PART(OPEN_BITS, PACKING),
    PART(FN_OPEN_MASK, PACKING),
    PART(FN_OPEN_FINISH, PACKING),
    PART(FN_OPEN_BITS, PACKING),
    PART(TRIPLE_C, PACKING),
    PART(SR_OPEN, PACKING),
    PART(SR_SEND, PACKING),
    PART(SR_FINISH, PACKING),
    PART(SR2_SEND, PACKING),
    PART(SR2_FINISH, PACKING),
    PART(HASH, HASHING),
    PART(COLLECTIVE, EXCHANGE),
};

/* Nearly every job ends by a hash of what it sends, so the order of parts decides, not that of
 * tasks. */
overlap_part overlap_part_of(const uvcc_job *job) {
    overlap_part least = OVERLAP_OTHER;
    if (job->count == 1 && job->tasks[0].kind == UVCC_TASK_COLLECTIVE)
        return OVERLAP_EXCHANGE;
    for (uint32_t i = 0; i < job->count; i++) {
        const uint32_t kind = job->tasks[i].kind;
        const uint8_t part = kind < sizeof parts / sizeof parts[0] ? parts[kind] : 0;
        least = part != 0 && part - 1u < (unsigned)least ? (overlap_part)(part - 1u) : least;
    }
    return least;
}

const char *overlap_name(overlap_part part) {
    static const char *const names[] = {
        [OVERLAP_FSS] = "fss",         [OVERLAP_GEMM] = "gemm",   [OVERLAP_PACKING] = "packing",
        [OVERLAP_HASHING] = "hashing", [OVERLAP_OTHER] = "other", [OVERLAP_EXCHANGE] = "exchange",
        [OVERLAP_NETWORK] = "network",
    };
    assert(part < OVERLAP_PARTS);
    return names[part];
}

void overlap_begin(overlap *o, overlap_part part, uint64_t now) {
    if (o->now[part]++ == 0)
        o->since[part] = now;
    if (o->first == 0)
        o->first = now;
}

void overlap_end(overlap *o, overlap_part part, uint64_t now) {
    assert(o->now[part] != 0);
    if (--o->now[part] == 0)
        o->busy[part] += now - o->since[part];
    o->last = now;
}

void overlap_stop(overlap *o, uint64_t now) {
    for (unsigned p = 0; p < OVERLAP_PARTS; p++)
        if (o->now[p] != 0) {
            o->now[p] = 1;
            overlap_end(o, (overlap_part)p, now);
        }
}
