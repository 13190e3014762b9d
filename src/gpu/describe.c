/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - see describe.h. What a task's numbers may be is checked here, so that kernels need
 * not. */
#include "gpu/describe.h"

#include <assert.h>
#include <string.h>
#include <uvcc/function.h>

#include "gpu/kinds.h"

enum {
    WORDS_MAX = 64,
    CELLS_MAX = 16,
    SCALES_MAX = 32,
    DEGREE_MAX = 3,
    KNOTS_MAX = 64,
    SCALE_WORDS = 4,
    ONE_HOT_BITS_MAX = 32
};

bool uvcci_gpu_is_vec(unsigned kind) {
    static const char forms[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #form[0],
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    return kind < UVCC_TASK_KIND_END && forms[kind] == 'B';
}

/* --- Limits ----------------------------------------------------------------------------------- */

static bool within(unsigned x, unsigned most) {
    return x >= 1 && x <= most;
}

static bool multiscale_is_sane(const uvcc_fn_args *fn) {
    if (fn->words == NULL || fn->first < 2 || fn->first > CELLS_MAX)
        return false;
    const uint32_t count = fn->word_count / (uint32_t)(9 * fn->first);
    return within(count, SCALES_MAX) && 2 * (count - 1) < fn->bits && fn->shift + fn->bits <= 64;
}

static bool spline_is_sane(const uvcc_fn_args *fn, bool deals) {
    if (!within(fn->bits, 63) || fn->first < 0 || fn->first > DEGREE_MAX)
        return false;
    if (deals)
        return true;
    const uint32_t each = (uint32_t)fn->first + 1;
    return fn->words != NULL && fn->word_count > each &&
           (fn->word_count - each) % (each + 1) == 0 &&
           within((fn->word_count - each) / (each + 1), KNOTS_MAX);
}

static bool table_is_sane(const uvcc_fn_args *fn) {
    return within(fn->bits, 64) && fn->entries != NULL &&
           within(fn->entry_count, UVCC_FN_ENTRIES_MAX) &&
           fn->entry_count - 1 <= low_bits(fn->bits) && fn->shift < 64 &&
           (fn->shift == 0 || fn->words != NULL);
}

/* The limits that section 6 of compute.md gives, kind by kind. */
static bool function_is_sane(unsigned kind, const uvcc_fn_args *fn) {
    switch (kind) {
    case UVCC_TASK_FN_OPEN_MASK:
    case UVCC_TASK_FN_OPEN_FINISH:
    case UVCC_TASK_FN_OPEN_BITS:
    case UVCC_TASK_FN_DEAL_KEY:
        return within(fn->bits, 64);
    case UVCC_TASK_FN_SHIFT:
        return within(fn->bits, 64) && fn->shift < 64;
    case UVCC_TASK_FN_COMPARE:
        return within(fn->bits, 63) && fn->words != NULL && within(fn->word_count, WORDS_MAX);
    case UVCC_TASK_FN_SELECT:
    case UVCC_TASK_FN_BITS:
        return fn->words != NULL && within(fn->word_count, WORDS_MAX);
    case UVCC_TASK_FN_DEAL_BITS:
        return within(fn->bits, 63) && within(fn->word_count, WORDS_MAX);
    case UVCC_TASK_FN_DEAL_SELECT:
        return within(fn->word_count, WORDS_MAX);
    case UVCC_TASK_FN_TABLE:
        return table_is_sane(fn);
    case UVCC_TASK_FN_DEAL_SCALAR:
        return fn->shift < 64 &&
               (fn->shift == 0 || (fn->words != NULL && fn->constant >= 0 && fn->constant < 64));
    case UVCC_TASK_FN_TRUNC:
    case UVCC_TASK_FN_DEAL_TRUNC:
    case UVCC_TASK_FN_FLOOR:
    case UVCC_TASK_FN_DEAL_FLOOR:
        return within(fn->shift, 62);
    case UVCC_TASK_FN_MULTISCALE:
    case UVCC_TASK_FN_DEAL_MULTISCALE:
        return multiscale_is_sane(fn);
    case UVCC_TASK_FN_SPLINE:
        return spline_is_sane(fn, false);
    case UVCC_TASK_FN_DEAL_SPLINE:
    case UVCC_TASK_FN_DEAL_POWERS:
        return spline_is_sane(fn, true);
    default:
        return true;
    }
}

static unsigned bool_levels(unsigned n) {
    unsigned l = 0;
    while (4u << l < n)
        l++;
    return l;
}

static bool gate_is_sane(const uvcc_task *t) {
    const unsigned gate = t->u.vec.gate;
    const bool truncates =
        gate == UVCC_GATE_TRUNC_SR || gate == UVCC_GATE_TRUNC_ARS || gate == UVCC_GATE_TRUNC_DCF;
    if (gate == UVCC_GATE_RELU)
        return within(t->u.vec.bits, 63);
    return truncates && within(t->u.vec.shift, 62);
}

/* Runs of all rows are counted in 32 bits. */
static bool one_hot_is_sane(const uvcc_task *t) {
    const uint64_t end = (uint64_t)1 << t->u.vec.bits, first = t->u.vec.constant;
    return t->u.vec.cols != 0 && t->u.vec.cols <= UINT32_MAX / UVCC_BLOCK_ELEMS &&
           t->u.vec.step != 0 && first <= end && t->u.vec.cols <= end - first;
}

/* Those of sections 5, 7 and 8. */
static bool edge_is_sane(const uvcc_task *t) {
    const unsigned n = t->u.vec.bits, shift = t->u.vec.shift, gate = t->u.vec.gate;
    switch (t->kind) {
    case UVCC_TASK_OPEN4_MASK:
    case UVCC_TASK_SR_OPEN:
    case UVCC_TASK_SR_SEND:
    case UVCC_TASK_SR_FINISH:
    case UVCC_TASK_SR2_SEND:
    case UVCC_TASK_SR2_FINISH:
        return within(shift, 62);
    case UVCC_TASK_RANDOM:
        return within(n, 62);
    case UVCC_TASK_TRUNC:
        return within(shift, 62);
    case UVCC_TASK_LESS_MASK:
        return (gate == UVCC_GATE_RELU || gate == UVCC_GATE_TRUNC_ARS) && gate_is_sane(t);
    case UVCC_TASK_RELU:
        return within(n, 63);
    case UVCC_TASK_DEAL:
        return gate_is_sane(t);
    case UVCC_TASK_BOOL_SHARE:
    case UVCC_TASK_BOOL_JOIN:
        return within(n, 63);
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_RECEIVE:
        return within(n, 63) && within(shift, bool_levels(n));
    case UVCC_TASK_BOOL_SELECT_MASK:
        return within(n, 63) && within(gate, UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT);
    case UVCC_TASK_BOOL_SELECT_FINISH:
        return within(n, 63) && within(gate, UVCC_BOOL_PRODUCT);
    case UVCC_TASK_ONE_HOT_KEYS:
        return within(n, ONE_HOT_BITS_MAX);
    case UVCC_TASK_ONE_HOT_ROWS:
        return within(n, ONE_HOT_BITS_MAX) && one_hot_is_sane(t);
    default:
        return true;
    }
}

static bool is_function(unsigned kind) {
    return kind >= UVCC_TASK_FN_OPEN_MASK && kind <= UVCC_TASK_FN_DEAL_POWERS;
}

static bool vec_is_sane(const uvcc_task *t) {
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        if (!within(b->count, UVCC_BLOCK_ELEMS) || b->role > UVCC_OTHER)
            return false;
    }
    if (is_function(t->kind))
        return t->u.vec.fn != NULL && function_is_sane(t->kind, t->u.vec.fn);
    return edge_is_sane(t);
}

static bool map_is_sane(const uvcc_task *t) {
    const unsigned op = t->u.map.op;
    const bool parts =
        op == UVCC_MAP_SLICE_ROWS || op == UVCC_MAP_PUT_ROWS || op == UVCC_MAP_ADD_ROWS;
    const bool turns = op == UVCC_MAP_ROTATE;
    return op < UVCC_MAP_OP_END && t->u.map.shift < 64 &&
           (!(parts || turns) || t->u.map.block != 0) &&
           (!turns || (t->u.map.part >= 2 && t->u.map.part % 2 == 0));
}

/* Narrow integers, at an address that is a multiple of their bytes, and a second product are of a
 * public y alone. */
static bool gemm_is_sane(const uvcc_task *t) {
    const unsigned bytes = t->u.gemm.y_bytes;
    const bool narrow = bytes != 0, second = t->u.gemm.z_hi != NULL;
    return (!narrow || ((bytes == 2 || bytes == 4) && (uintptr_t)t->u.gemm.y.lo % bytes == 0)) &&
           (!(narrow || second) || t->u.gemm.y.hi == NULL) && (!second || t->u.gemm.x.hi != NULL);
}

int uvcci_gpu_check(const uvcc_task *t) {
    bool sane = false;
    if (uvcci_gpu_is_vec(t->kind))
        sane = vec_is_sane(t);
    else if (t->kind == UVCC_TASK_MAP)
        sane = map_is_sane(t);
    else if (t->kind == UVCC_TASK_GEMM)
        sane = gemm_is_sane(t);
    else if (t->kind == UVCC_TASK_BIT_SUMS)
        sane = t->u.bits.rows != 0 && t->u.bits.cols != 0;
    else
        sane = t->kind == UVCC_TASK_HASH || t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE;
    return sane ? 0 : UVCC_ERR_JOB;
}

/* --- Descriptions ----------------------------------------------------------------------------- */

static bool has_gate(unsigned kind) {
    return kind == UVCC_TASK_TRUNC || kind == UVCC_TASK_LESS_MASK ||
           kind == UVCC_TASK_TRUNC_EXACT || kind == UVCC_TASK_RELU || kind == UVCC_TASK_DEAL;
}

void uvcci_gpu_describe_vec(const uvcc_task *t, vec_task *out) {
    assert(uvcci_gpu_is_vec(t->kind));
    memset(out, 0, sizeof *out);
    out->kind = t->kind;
    out->call = t->call;
    out->ordinal = t->ordinal;
    out->count = t->u.vec.count;
    out->shift = t->u.vec.shift;
    out->bits = t->u.vec.bits;
    out->lift = t->u.vec.lift;
    out->gate = t->u.vec.gate;
    out->gap = t->u.vec.gap;
    out->compact = t->u.vec.compact;
    out->constant = t->u.vec.constant;
    out->cols = t->u.vec.cols;
    out->step = t->u.vec.step;
    if (is_function(t->kind))
        out->fn = *t->u.vec.fn;
}

/* Blocks of one size have one layout of keys. */
void uvcci_gpu_describe_blocks(const uvcc_task *t, vec_block *to) {
    const bool keys = has_gate(t->kind) && gate_is_sane(t);
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        to[i].at = t->u.vec.blocks[i];
        if (keys && i != 0 && to[i].at.count == to[i - 1].at.count) {
            memcpy(to[i].key, to[i - 1].key, sizeof to[i].key);
            continue;
        }
        for (unsigned r = 0; keys && r < 2; r++)
            uvcc_key_layout_of((uvcc_gate)t->u.vec.gate, t->u.vec.compact, t->u.vec.shift,
                               t->u.vec.bits, to[i].at.count, (uvcc_role)r, &to[i].key[r]);
    }
}

uint32_t uvcci_gpu_units(const vec_task *t, const uvcc_block *b) {
    return units_of(t, b);
}

/* --- Tables ----------------------------------------------------------------------------------- */

/* Entries that are multiplied each stay as they are. */
static bool is_by_bytes(const uvcc_fn_args *fn) {
    return fn->shift == 0;
}

static vec_table table_of(const uvcc_fn_args *fn) {
    int32_t least = fn->entries[0], most = least;
    for (uint32_t i = 1; i < fn->entry_count; i++) {
        least = fn->entries[i] < least ? fn->entries[i] : least;
        most = fn->entries[i] > most ? fn->entries[i] : most;
    }
    const uint32_t range = (uint32_t)most - (uint32_t)least;
    return (vec_table){.least = least,
                       .planes = range >> 24 != 0   ? 4
                                 : range >> 16 != 0 ? 3
                                 : range >> 8 != 0  ? 2
                                                    : 1};
}

size_t uvcci_gpu_table_bytes(unsigned kind, const uvcc_fn_args *fn) {
    if (kind != UVCC_TASK_FN_TABLE)
        return 0;
    if (!is_by_bytes(fn))
        return fn->entry_count * sizeof(int32_t);
    const uint32_t groups = (fn->entry_count + TABLE_GROUP - 1) / TABLE_GROUP;
    return (size_t)groups * TABLE_GROUP * table_of(fn).planes;
}

void uvcci_gpu_describe_table(vec_task *t, void *to, const void *seen) {
    const uvcc_fn_args *fn = &t->fn;
    uint8_t *at = to;
    if (t->kind != UVCC_TASK_FN_TABLE)
        return;
    if (!is_by_bytes(fn)) {
        memcpy(to, fn->entries, fn->entry_count * sizeof(int32_t));
        t->fn.entries = seen;
        return;
    }
    t->table = table_of(fn);
    t->table.bytes = seen;
    for (uint32_t first = 0; first < fn->entry_count; first += TABLE_GROUP) {
        const uint32_t left = fn->entry_count - first;
        for (uint32_t i = 0; i < TABLE_GROUP; i++) {
            const uint32_t e =
                i < left ? (uint32_t)fn->entries[first + i] - (uint32_t)t->table.least : 0;
            for (uint32_t p = 0; p < t->table.planes; p++)
                at[TABLE_GROUP * p + table_at(i)] = (uint8_t)(e >> 8 * p);
        }
        at += (size_t)TABLE_GROUP * t->table.planes;
    }
    t->fn.entries = NULL;
}

uint32_t uvcci_gpu_fn_words(const uvcc_task *t) {
    if (!is_function(t->kind) || t->u.vec.fn->words == NULL)
        return 0;
    switch (t->kind) {
    case UVCC_TASK_FN_TABLE:
        return t->u.vec.fn->shift != 0 ? SCALE_WORDS : 0;
    case UVCC_TASK_FN_DEAL_SCALAR:
        return t->u.vec.fn->shift != 0 ? 2 * SCALE_WORDS : 0;
    case UVCC_TASK_FN_COMPARE:
    case UVCC_TASK_FN_SELECT:
    case UVCC_TASK_FN_BITS:
    case UVCC_TASK_FN_MULTISCALE:
    case UVCC_TASK_FN_SPLINE:
        return t->u.vec.fn->word_count;
    default:
        return 0;
    }
}

unsigned uvcci_gpu_describe_map(const uvcc_task *t, map_task to[2]) {
    to[0] = (map_task){.op = t->u.map.op,
                       .shift = t->u.map.shift,
                       .party = t->u.map.party,
                       .rows = t->u.map.rows,
                       .cols = t->u.map.cols,
                       .block = t->u.map.block,
                       .part = t->u.map.part,
                       .x = t->u.map.x,
                       .y = t->u.map.y,
                       .out = t->u.map.out,
                       .constant = t->u.map.constant};
    if (t->u.map.op != UVCC_MAP_PUBLIC || t->u.map.out.lo != t->u.map.x.lo ||
        t->u.map.out.hi == NULL)
        return 1;
    to[1] = to[0];
    to[0].out.lo = NULL;
    to[1].out.hi = NULL;
    return 2;
}

/* x.hi counts where y has shares, or where it has a product of its own. */
product_task uvcci_gpu_describe_gemm(const uvcc_task *t) {
    const uint32_t m = t->u.gemm.m, n = t->u.gemm.n, k = t->u.gemm.k;
    const bool blocks = t->u.gemm.groups != 0, second = t->u.gemm.z_hi != NULL;
    const uint8_t bytes = t->u.gemm.y_bytes;
    const bool trans_x = t->u.gemm.trans_x, trans_y = t->u.gemm.trans_y;
    const uint64_t ldx = blocks ? t->u.gemm.lx.ld : trans_x ? m : k;
    const uint64_t ldy = blocks ? t->u.gemm.ly.ld : trans_y ? k : n;
    product_task p = {
        .m = m,
        .n = n,
        .k = k,
        .groups = blocks ? t->u.gemm.groups : 1,
        .heads = blocks ? t->u.gemm.heads : 1,
        .accumulate = t->u.gemm.accumulate,
        .products = second ? 2 : 1,
        .y_bytes = bytes != 0 ? bytes : sizeof(uint64_t),
        .x = {t->u.gemm.x.lo, t->u.gemm.y.hi != NULL || second ? t->u.gemm.x.hi : NULL},
        .y = {t->u.gemm.y.lo, t->u.gemm.y.hi},
        .z = {t->u.gemm.z, t->u.gemm.z_hi},
        .x_row = trans_x ? 1 : ldx,
        .x_col = trans_x ? ldx : 1,
        .y_row = trans_y ? 1 : ldy,
        .y_col = trans_y ? ldy : 1,
        .z_row = blocks ? t->u.gemm.lz.ld : n};
    if (blocks) {
        p.lx = t->u.gemm.lx;
        p.ly = t->u.gemm.ly;
        p.lz = t->u.gemm.lz;
    }
    return p;
}

bits_task uvcci_gpu_describe_bits(const uvcc_task *t) {
    bits_task b = {.rows = t->u.bits.rows,
                   .cols = t->u.bits.cols,
                   .ordinal = t->ordinal,
                   .call = t->call,
                   .trans = t->u.bits.trans,
                   .lane = t->u.bits.lane,
                   .x = t->u.bits.x,
                   .out = t->u.bits.out};
    memcpy(b.key, t->u.bits.key, sizeof b.key);
    return b;
}

uint64_t uvcci_gpu_describe_hash(const uvcc_task *t, digest_item *to) {
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        to[i].of = t->u.hash.items[i];
        to[i].first = chunks;
        chunks += digest_chunks(&to[i].of);
    }
    return chunks;
}
