/* SPDX-License-Identifier: Apache-2.0 */
/* vec.cu - the tasks of blocks: a kernel for each kind. A thread does a unit of work; a warp stays
 * within a block of the task, so that roles do not diverge. Expanded keys and tables of AES live in
 * shared memory, as long as the kernel. */
#include <string.h>

#include "gpu/kinds.h"
#include "gpu/launch.h"
#include "gpu/tables.cuh"

namespace {

constexpr unsigned WARP = 32;

/* Packed values of an element. */
ON_BOTH_CONST unsigned packed_of(unsigned kind) {
    return kind == UVCC_TASK_DEAL ? 2 : 1;
}

/* Kinds that walk trees have all tables of AES, and a multiprocessor one of their blocks of threads;
 * such that draw pads have half of the tables, so that one of theirs finds room beside it. */
ON_BOTH_CONST unsigned tables_of(unsigned kind) {
    return !needs_aes(kind) ? 0 : walks_trees(kind) ? AES_FOUR : AES_TWO;
}
/* Blocks of threads on a multiprocessor, and warps of one. */
ON_BOTH_CONST unsigned blocks_most(unsigned kind) {
    return tables_of(kind) == AES_FOUR ? 1 : tables_of(kind) == AES_TWO ? 3 : 8;
}
ON_BOTH_CONST unsigned warps_most(unsigned kind) {
    return kind == UVCC_TASK_FN_COMPARE || kind == UVCC_TASK_FN_DEAL_KEY ? 24
           : needs_aes(kind)                                             ? 16
                                                                         : 8;
}
/* What registers are divided by, so that some are left to the block beside a tree's. */
ON_BOTH_CONST unsigned threads_bound(unsigned kind) {
    const bool leaves = walks_trees(kind) && warps_most(kind) == 16;
    return (warps_most(kind) + (leaves ? 4 : 0)) * WARP;
}
/* Warps that make the tables; and with no more than so many that work, their AES blocks do not wait
 * for each other. */
constexpr unsigned WARPS_LEAST = 8, LATENT = 2;

constexpr size_t tables_bytes(unsigned kind) {
    return tables_of(kind) * AES_TABLE_WORDS * sizeof(uint32_t);
}
constexpr size_t planes_bytes(uint32_t chunks) {
    return chunks * PLANES_WORDS * sizeof(uint32_t);
}

/* Kinds that can have a table's entries by bits in shared memory, behind the tables of AES. */
ON_BOTH_CONST bool has_planes(unsigned kind) {
    return kind == UVCC_TASK_FN_TABLE;
}

struct vec_launch {
    vec_task t;
    uint32_t tiles, lanes; /* warps that a block of the task takes; threads of a unit */
    uint32_t warps;        /* of a block of threads: that work; of windows: units of both */
    uint32_t chunks;       /* of a table, by bits */
    uint32_t tree[2][AES_KEY_WORDS];
    alignas(16) uint8_t keys[PRG_KEYS][16];
};

using expanded = uint32_t[AES_KEY_WORDS];

/* Of units whose nodes are windows: a level's and the next one's, as node_kept() has them. */
constexpr unsigned UNIT_THREADS = 2 * SCALE_WINDOW, UNITS_MOST = 4;

struct window {
    seed node[2][SCALE_WINDOW];
    uint64_t part[SCALE_WINDOW / WARP];
};

__device__ void fill_planes(const vec_table *t, uint32_t entries, uint32_t chunks, uint32_t *to) {
    for (uint32_t j = threadIdx.x; j < PLANES_WORDS * chunks; j += blockDim.x) {
        const uint32_t plane = j % PLANES_WORDS / 32, bit = j % 32 / 4;
        const uint32_t group = j / PLANES_WORDS * CHUNK_GROUPS + j % CHUNK_GROUPS;
        uint32_t word = 0;
        if (TABLE_GROUP * group < entries && plane < t->planes)
            for (unsigned k = 0; k < TABLE_GROUP / 4; k++) { /* as table_at() has them */
                const uint32_t of = t->bytes[TABLE_GROUP / 4 * (t->planes * group + plane) + k];
                word |= (of >> bit & 0x01010101u) << (7 - k);
            }
        to[j] = word;
    }
}

template <unsigned KIND> __device__ void begin(const vec_launch *l, expanded *key) {
    if (!needs_aes(KIND))
        return;
    const uint32_t *words = (const uint32_t *)l->keys;
    for (unsigned k = threadIdx.x; k < 4 * PRG_KEYS; k += blockDim.x)
        key[k / 4][k % 4] = words[k];
    fill_tables(tables_of(KIND));
    if constexpr (has_planes(KIND))
        fill_planes(&l->t.table, l->t.fn.entry_count, l->chunks, aes_shared + PLANES_AT / 4);
    __syncthreads();
    if (threadIdx.x < PRG_KEYS)
        aes_expand_words(key[threadIdx.x]);
    __syncthreads();
}

/* A warp's units: 32 of them, or fewer whose parts several threads do. */
template <unsigned KIND>
__device__ vec vec_of(const vec_launch *l, const expanded *key, uint32_t tile) {
    const uint32_t lane = threadIdx.x % WARP;
    vec c;
    c.t = &l->t;
    c.block = &l->t.blocks[tile / l->tiles];
    c.b = &c.block->at;
    c.key = key;
    c.tree = l->tree;
    c.tables = tables_of(KIND);
    c.by_bits = has_planes(KIND) && l->chunks != 0;
    c.lanes = has_parts(KIND) ? l->lanes : 1;
    c.lane = has_parts(KIND) ? lane % c.lanes : 0;
    c.i = tile % l->tiles * (WARP / c.lanes) + lane / c.lanes;
    return c;
}

template <unsigned KIND> __device__ void pack_tile(const vec *c, const packed *p, uint64_t *staged) {
    const uint32_t lane = threadIdx.x % WARP;
    for (unsigned which = 0; which < packed_of(KIND); which++) {
        const packing to = packing_of(c, which);
        staged[lane] = p->x[which];
        __syncwarp();
        pack_part(&to, c->b->count, c->i - lane, staged, lane);
        __syncwarp();
    }
}

/* Lanes beyond the last unit do that one too, since a warp goes together. */
template <unsigned KIND> __device__ void part_tile(vec *c, uint32_t units) {
    const uint32_t i = c->i, first = i - threadIdx.x % WARP / c->lanes;
    if (first >= units)
        return;
    c->i = i < units ? i : units - 1;
    uint64_t sum = part_of_unit(KIND, c);
    __syncwarp();
    for (unsigned d = c->lanes / 2; d != 0; d /= 2)
        sum += __shfl_xor_sync(~0u, sum, d);
    if (i < units && c->lane == 0)
        end_of_unit(KIND, c, sum);
}

template <unsigned KIND>
__global__ void __launch_bounds__(threads_bound(KIND), needs_aes(KIND) ? blocks_most(KIND) : 1)
    vec_kernel(const __grid_constant__ vec_launch l) {
    __shared__ uint32_t key[needs_aes(KIND) ? PRG_KEYS : 1][AES_KEY_WORDS];
    __shared__ uint64_t staged[packs(KIND) ? warps_most(KIND) : 1][WARP];
    const uint32_t warp = threadIdx.x / WARP;
    begin<KIND>(&l, key);
    if (warp >= l.warps)
        return;
    /* where a tile takes long, no block has a warp more of the last round than another */
    const uint32_t first =
        walks_trees(KIND) ? warp * gridDim.x + blockIdx.x : blockIdx.x * l.warps + warp;
    for (uint32_t tile = first; tile < l.t.count * l.tiles; tile += gridDim.x * l.warps) {
        vec c = vec_of<KIND>(&l, key, tile);
        const uint32_t units = units_of(&l.t, c.b);
        if constexpr (has_parts(KIND)) {
            part_tile<KIND>(&c, units);
        } else {
            packed p = {{0, 0}};
            if (c.i < units)
                p = do_unit(KIND, &c);
            if constexpr (packs(KIND))
                pack_tile<KIND>(&c, &p, staged[warp]);
        }
    }
}

/* Of a unit's threads, half go with the nodes of a window from level to level, and half make
 * meanwhile the words of those that have a payload: two of them in one step, the third in the next,
 * since every other level has one. */
__device__ void window_step(const vec *c, const scales *s, const levels *k, window *w, uint64_t xh,
                            unsigned level, node *root) {
    const unsigned j = threadIdx.x % SCALE_WINDOW, b = scale_bit(s, xh, level);
    const node above = level == 1 ? *root : node_from(w->node[(level - 1) & 1][scale_above(j, b)]);
    w->node[level & 1][j] = node_kept(child(c, k, above, level - 1, scale_side(j, b)));
}

/* Behind the steps that made levels `step` - 2 and `step` - 1. */
__device__ uint64_t payload_step(const vec *c, const scales *s, const window *w, uint64_t xh,
                                 unsigned step, node *n, uint64_t *v) {
    const unsigned j = threadIdx.x % SCALE_WINDOW;
    unsigned scale;
    if (step > 1 && scale_at(s, step - 1, &scale) && scale_counts(s, xh, scale, j)) {
        *n = node_from(w->node[(step - 1) & 1][j]);
        const seed two = scale_two(c, n->s);
        v[0] = two.lo;
        v[1] = two.hi;
    } else if (step > 2 && scale_at(s, step - 2, &scale) && scale_counts(s, xh, scale, j)) {
        v[2] = scale_third(c, n->s);
        return scale_part(c, s, xh, scale, j, *n, v);
    }
    return 0;
}

template <unsigned KIND>
__global__ void __launch_bounds__(UNITS_MOST * UNIT_THREADS)
    window_kernel(const __grid_constant__ vec_launch l) {
    __shared__ uint32_t key[PRG_KEYS][AES_KEY_WORDS];
    __shared__ window shared[UNITS_MOST];
    const uint32_t unit = threadIdx.x / UNIT_THREADS, j = threadIdx.x % SCALE_WINDOW;
    const bool pays = threadIdx.x % UNIT_THREADS >= SCALE_WINDOW;
    const scales s = scales_of(&l.t.fn);
    window *w = &shared[unit];
    begin<KIND>(&l, key);
    for (uint32_t tile = blockIdx.x * l.warps; tile < l.t.count * l.tiles;
         tile += gridDim.x * l.warps) {
        const bool mine = unit < l.warps && tile + unit < l.t.count * l.tiles;
        vec c = vec_of<KIND>(&l, key, mine ? tile + unit : tile);
        c.i = (mine ? tile + unit : tile) % l.tiles;
        const bool works = mine && c.i < c.b->count && !is_other(&c);
        const levels k = scale_levels(&c, &s);
        const uint64_t xh = works ? in(&c, 0) : 0;
        node n = {};
        uint64_t v[3] = {}, sum = 0;
        if (works && !pays)
            n = own_root(&c, l.t.fn.call_key);
        for (unsigned step = 1; step <= s.depth + 2; step++) {
            if (works && !pays && step <= s.depth)
                window_step(&c, &s, &k, w, xh, step, &n);
            if (works && pays)
                sum += payload_step(&c, &s, w, xh, step, &n, v);
            __syncthreads();
        }
        for (unsigned d = WARP / 2; d != 0; d /= 2)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (pays && j % WARP == 0)
            w->part[j / WARP] = sum;
        __syncthreads();
        if (works && pays && j == 0)
            end_fn_multiscale(&c, w->part[0] + w->part[1]);
    }
}

/* --- How a task is spread --------------------------------------------------------------------- */

uint32_t quotient_up(uint64_t x, uint64_t by) {
    return (uint32_t)((x + by - 1) / by);
}

/* As many threads for each unit as have all through first. A step of some warps on a multiprocessor
 * takes as long as so many and WAITED more would take that need not wait for anything. */
uint32_t lanes_of(const vec_task *t, uint64_t units, unsigned sms, unsigned most) {
    enum { WAITED = 12 };
    uint32_t best = 1;
    uint64_t least = ~(uint64_t)0;
    for (uint32_t lanes = 1; lanes <= WARP; lanes *= 2) {
        const uint64_t warps = quotient_up(quotient_up(units * lanes, WARP), sms);
        const uint64_t rounds = quotient_up(warps, most);
        const uint64_t takes = steps_of_part(t, lanes) * (warps + rounds * WAITED);
        if (takes < least) {
            least = takes;
            best = lanes;
        }
    }
    return best;
}

/* Warps of a block of threads that work: so many that all multiprocessors have as much to do. */
unsigned warps_of(uint64_t tiles, unsigned blocks, unsigned least, unsigned most) {
    const uint64_t rounds = quotient_up(tiles, (uint64_t)blocks * most);
    const uint64_t warps = quotient_up(tiles, blocks * (rounds != 0 ? rounds : 1));
    return warps < least ? least : (unsigned)warps;
}

unsigned threads_of(unsigned warps) {
    return (warps < WARPS_LEAST ? WARPS_LEAST : warps) * WARP;
}

template <unsigned KIND> cudaError_t run_windows(vec_launch *l, unsigned sms, uint32_t units,
                                                 cudaStream_t s) {
    const uint64_t all = (uint64_t)l->t.count * units;
    l->tiles = units;
    l->warps = warps_of(all, sms, 1, UNITS_MOST);
    const uint64_t blocks = (all + l->warps - 1) / l->warps;
    if (all == 0)
        return cudaSuccess;
    window_kernel<KIND><<<blocks < sms ? (unsigned)blocks : sms,
                          threads_of(l->warps * UNIT_THREADS / WARP), tables_bytes(KIND), s>>>(*l);
    return cudaGetLastError();
}

/* How many chunks of a table are by bits in shared memory: none, or all. */
template <unsigned KIND> uint32_t chunks_of(const vec_launch *l) {
    const uint32_t chunks = quotient_up(l->t.fn.entry_count, CHUNK_GROUPS * TABLE_GROUP);
    const bool by_bits = has_planes(KIND) && l->lanes == 1 && l->t.fn.shift == 0 &&
                         l->t.table.planes <= PLANES_BYTES && chunks <= PLANES_CHUNKS;
    return by_bits ? chunks : 0;
}

template <unsigned KIND> cudaError_t run_units(vec_launch *l, unsigned sms, uint32_t units,
                                               cudaStream_t s) {
    l->lanes = has_parts(KIND) ? lanes_of(&l->t, (uint64_t)l->t.count * units, sms, warps_most(KIND))
                             : 1;
    l->tiles = quotient_up((uint64_t)units * l->lanes, WARP);
    if (packs(KIND)) /* whole words of packed bits */
        l->tiles = quotient_up(units, 2 * WARP) * 2;
    const uint64_t all = (uint64_t)l->t.count * l->tiles;
    const unsigned most = sms * blocks_most(KIND);
    l->warps = warps_of(all, most, walks_trees(KIND) || has_parts(KIND) ? LATENT : WARPS_LEAST,
                        warps_most(KIND));
    const uint64_t blocks = (all + l->warps - 1) / l->warps;
    if (all == 0)
        return cudaSuccess;
    l->chunks = chunks_of<KIND>(l);
    vec_kernel<KIND><<<blocks < most ? (unsigned)blocks : most, threads_of(l->warps),
                       tables_bytes(KIND) + planes_bytes(l->chunks), s>>>(*l);
    return cudaGetLastError();
}

template <unsigned KIND> cudaError_t run(vec_launch *l, const uvcc_step_keys *keys, unsigned sms,
                                         uint32_t units, cudaStream_t s) {
    if (keys != NULL && needs_aes(KIND))
        memcpy(l->keys, keys->prg, sizeof l->keys);
    if (keys != NULL && walks_trees(KIND))
        aes_expand_tree(keys->dpf, l->tree);
    if constexpr (has_window(KIND))
        return run_windows<KIND>(l, sms, units, s);
    else
        return run_units<KIND>(l, sms, units, s);
}

template <unsigned KIND> cudaError_t prepare(void) {
    const auto allow = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if constexpr (has_window(KIND))
        return cudaFuncSetAttribute(window_kernel<KIND>, allow, (int)tables_bytes(KIND));
    else if (needs_aes(KIND))
        return cudaFuncSetAttribute(
            vec_kernel<KIND>, allow,
            (int)(tables_bytes(KIND) + planes_bytes(has_planes(KIND) ? PLANES_CHUNKS : 0)));
    return cudaSuccess;
}

} // namespace

cudaError_t uvcci_gpu_run_vec(const vec_task *t, const uvcc_step_keys *keys, uint32_t units_max,
                              unsigned sms, cudaStream_t s) {
    vec_launch l = {};
    l.t = *t;
    switch (t->kind) {
#define RUN(NAME)                                                                                  \
    case UVCC_TASK_##NAME:                                                                         \
        return run<UVCC_TASK_##NAME>(&l, keys, sms, units_max, s);
        UVCCI_GPU_VEC_KINDS(RUN)
#undef RUN
    default:
        return cudaErrorInvalidValue;
    }
}

cudaError_t uvcci_gpu_prepare_vec(void) {
    cudaError_t e = cudaSuccess;
#define PREPARE(NAME)                                                                              \
    if (e == cudaSuccess)                                                                          \
        e = prepare<UVCC_TASK_##NAME>();
    UVCCI_GPU_VEC_KINDS(PREPARE)
#undef PREPARE
    return e;
}
