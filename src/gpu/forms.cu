/* SPDX-License-Identifier: Apache-2.0 */
/* forms.cu - the tasks that have no blocks: maps, matrix products, sums by bits, digests, bytes. */
#include <cuda_pipeline.h>

#include "gpu/launch.h"
#include "gpu/ring_gemm.h"
#include "gpu/tables.cuh"

namespace {

enum { THREADS = 256, WARP = 32, WAVES = 8 };

unsigned grid_of(uint64_t work, unsigned sms) {
    const uint64_t most = (uint64_t)sms * WAVES;
    return (unsigned)(work < most ? work : most);
}

__device__ void add_to(uint64_t *to, uint64_t x) {
    atomicAdd((unsigned long long *)to, (unsigned long long)x);
}

/* --- MAP -------------------------------------------------------------------------------------- */

__global__ void map_kernel(const __grid_constant__ map_task t) {
    const unsigned k = blockIdx.y;
    if (!map_makes(&t, k))
        return;
    const map_part p = map_part_of(&t, k);
    const uint64_t elems = map_elems(&t), step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t e = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; e < elems; e += step)
        p.out[e] = map_element(&t, &p, e);
}

/* A warp for each sum along a row. */
__global__ void map_row_sums(const __grid_constant__ map_task t) {
    const unsigned k = blockIdx.y, lane = threadIdx.x % WARP;
    if (!map_makes(&t, k))
        return;
    const map_part p = map_part_of(&t, k);
    const uint64_t step = (uint64_t)gridDim.x * (blockDim.x / WARP);
    for (uint64_t e = (uint64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
         e < map_elems(&t); e += step) {
        uint64_t sum = map_sum(&t, &p, e, lane, WARP);
        for (unsigned d = WARP / 2; d != 0; d /= 2)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (lane == 0)
            p.out[e] = sum;
    }
}

/* Sums along columns: 32 of them, by eight warps. */
__global__ void map_column_sums(const __grid_constant__ map_task t) {
    __shared__ uint64_t part[THREADS / WARP][WARP];
    const unsigned k = blockIdx.y, lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    if (!map_makes(&t, k))
        return;
    const map_part p = map_part_of(&t, k);
    const uint64_t elems = map_elems(&t), step = (uint64_t)gridDim.x * WARP;
    for (uint64_t e = (uint64_t)blockIdx.x * WARP; e < elems; e += step) {
        part[warp][lane] = e + lane < elems ? map_sum(&t, &p, e + lane, warp, THREADS / WARP) : 0;
        __syncthreads();
        uint64_t sum = 0;
        for (unsigned w = 0; w < THREADS / WARP && warp == 0; w++)
            sum += part[w][lane];
        if (warp == 0 && e + lane < elems)
            p.out[e + lane] = sum;
        __syncthreads();
    }
}

/* --- GEMM ------------------------------------------------------------------------------------- */

/* A block of threads makes a tile of TILE x TILE, a thread 4 x 4 of it, or where that leaves most of
 * the device without one of half as many rows and columns, 2 x 2: rows and columns 16 apart, so that
 * neighbours read neighbouring words of shared memory. The product of depth k of replicated
 * shares is one of depth 2k: [x_lo | x_hi] times [y_lo + y_hi ; y_lo]; of one x it ends at k. */
enum { ACROSS = 16, DEPTH = 16, EACH_MOST = 4, EACH_LEAST = 2, SPLITS_MAX = 64 };

struct gemm_launch {
    product_task t;
    uint32_t tiles_m, tiles_n, splits, depth; /* of a split: steps of DEPTH within 2k */
};

template <int EACH> struct gemm_shared {
    uint64_t x[DEPTH][ACROSS * EACH + 1], y[DEPTH][ACROSS * EACH + 1];
};

/* Steps of `half` 0 are of x_lo, of 1 of x_hi. The faster index of a thread is that along which the
 * operand's words are neighbours. */
template <int EACH>
__device__ void load_tiles(const product_task *b, gemm_shared<EACH> *s, uint32_t half, uint32_t l0,
                           uint32_t i0, uint32_t j0) {
    constexpr unsigned TILE = ACROSS * EACH;
    for (unsigned q = threadIdx.x; q < TILE * DEPTH; q += THREADS) {
        const bool along = b->x_col == 1;
        const unsigned l = along ? q % DEPTH : q / TILE, i = along ? q / DEPTH : q % TILE;
        const bool there = l0 + l < b->k && i0 + i < b->m;
        s->x[l][i] = there ? (half == 0 ? b->x[0] : b->x[1])[(i0 + i) * b->x_row + (l0 + l) * b->x_col] : 0;
    }
    for (unsigned q = threadIdx.x; q < TILE * DEPTH; q += THREADS) {
        const bool along = b->y_row == 1;
        const unsigned l = along ? q % DEPTH : q / TILE, j = along ? q / DEPTH : q % TILE;
        uint64_t y = 0;
        if (l0 + l < b->k && j0 + j < b->n) {
            const uint64_t at = (l0 + l) * b->y_row + (j0 + j) * b->y_col;
            y = product_y(b, at) + (half == 0 ? product_y_hi(b, at) : 0);
        }
        s->y[l][j] = y;
    }
}

template <int EACH>
__global__ void __launch_bounds__(THREADS) gemm_kernel(const __grid_constant__ gemm_launch g) {
    constexpr unsigned TILE = ACROSS * EACH;
    __shared__ gemm_shared<EACH> s;
    uint32_t id = blockIdx.x;
    const uint32_t j0 = id % g.tiles_n * TILE;
    id /= g.tiles_n;
    const uint32_t i0 = id % g.tiles_m * TILE;
    id /= g.tiles_m;
    const uint32_t split = id % g.splits;
    id /= g.splits;
    const product_task b = product_block(&g.t, id);
    const uint32_t steps = (b.k + DEPTH - 1) / DEPTH;
    const uint32_t end = (b.x[1] != nullptr ? 2 : 1) * steps;
    const uint32_t row = threadIdx.x / ACROSS, col = threadIdx.x % ACROSS;
    uint64_t sum[EACH][EACH] = {};
    for (uint32_t step = split * g.depth; step < (split + 1) * g.depth && step < end; step++) {
        load_tiles(&b, &s, step / steps, step % steps * DEPTH, i0, j0);
        __syncthreads();
#pragma unroll 4
        for (unsigned l = 0; l < DEPTH; l++) {
            uint64_t x[EACH], y[EACH];
            for (unsigned e = 0; e < EACH; e++) {
                x[e] = s.x[l][row + ACROSS * e];
                y[e] = s.y[l][col + ACROSS * e];
            }
            for (unsigned e = 0; e < EACH; e++)
                for (unsigned f = 0; f < EACH; f++)
                    sum[e][f] += x[e] * y[f];
        }
        __syncthreads();
    }
    for (unsigned e = 0; e < EACH; e++)
        for (unsigned f = 0; f < EACH; f++) {
            const uint32_t i = i0 + row + ACROSS * e, j = j0 + col + ACROSS * f;
            if (i >= b.m || j >= b.n)
                continue;
            if (g.splits == 1)
                product_store(&b, i, j, sum[e][f]);
            else
                add_to(b.z[0] + i * b.z_row + j, sum[e][f]);
        }
}

/* Few rows: y is read once, its neighbours by neighbours, x stands in shared memory; a split of the
 * depth for each block of threads, so that all of the device reads. */
enum { FEW = 8, FEW_DEPTH = 128, FEW_AHEAD = 4, GRID_MOST = 65535 };

struct few_shared {
    uint64_t x[2][FEW_DEPTH][FEW]; /* lo, hi */
};

template <int ROWS>
__device__ void load_few(const product_task *b, few_shared *s, uint32_t l0, uint32_t depth) {
    for (uint32_t q = threadIdx.x; q < 2 * depth * ROWS; q += THREADS) {
        const uint32_t i = q % ROWS, l = q / ROWS % depth, c = q / ROWS / depth;
        const bool there = i < b->m && b->x[c] != nullptr;
        s->x[c][l][i] = there ? b->x[c][i * b->x_row + (uint64_t)(l0 + l) * b->x_col] : 0;
    }
    __syncthreads();
}

/* One product of shares, or with TWO those of both components by a public y. */
template <int ROWS, bool TWO>
__device__ void add_few(const few_shared *s, uint32_t l, uint64_t lo, uint64_t hi,
                        uint64_t (&sum)[TWO ? 2 * ROWS : ROWS]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        sum[i] += s->x[0][l][i] * (lo + hi);
        sum[TWO ? ROWS + i : i] += s->x[1][l][i] * lo;
    }
}

/* A thread for a column, or where elements of a column are neighbours a warp. */
template <int ROWS, bool DOWN, bool TWO>
__global__ void __launch_bounds__(THREADS) few_rows(const __grid_constant__ gemm_launch g) {
    __shared__ few_shared s;
    constexpr int SUMS_EACH = TWO ? 2 * ROWS : ROWS;
    product_task b = product_block(&g.t, blockIdx.z);
    const uint32_t l0 = blockIdx.y * FEW_DEPTH, lane = threadIdx.x % WARP;
    const uint32_t depth = min((uint32_t)FEW_DEPTH, b.k - l0);
    const uint32_t each = DOWN ? THREADS / WARP : THREADS;
    const uint32_t j = blockIdx.x * each + (DOWN ? threadIdx.x / WARP : threadIdx.x);
    uint64_t sum[SUMS_EACH] = {};
    if (TWO) { /* both at a time */
        const uint64_t each_block = (uint64_t)g.t.groups * g.t.heads;
        const product_task second = product_block(&g.t, blockIdx.z + each_block);
        b.x[1] = second.x[0];
        b.z[1] = second.z[0];
    }
    load_few<ROWS>(&b, &s, l0, depth);
    if (j < b.n) {
#pragma unroll FEW_AHEAD
        for (uint32_t l = DOWN ? lane : 0; l < depth; l += DOWN ? WARP : 1) {
            const uint64_t at = (uint64_t)(l0 + l) * b.y_row + (uint64_t)j * b.y_col;
            add_few<ROWS, TWO>(&s, l, product_y(&b, at), product_y_hi(&b, at), sum);
        }
    }
#pragma unroll
    for (int i = 0; i < SUMS_EACH; i++) {
        for (unsigned w = WARP / 2; DOWN && w != 0; w /= 2)
            sum[i] += __shfl_down_sync(0xffffffff, sum[i], w);
        if (j < b.n && (uint32_t)(i % ROWS) < b.m && (!DOWN || lane == 0))
            add_to(b.z[i / ROWS] + i % ROWS * b.z_row + j, sum[i]);
    }
}

/* What splits are added to. */
__global__ void gemm_zero(const __grid_constant__ product_task t) {
    const uint64_t each = (uint64_t)t.m * t.n, all = each * product_blocks(&t);
    for (uint64_t e = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all;
         e += (uint64_t)gridDim.x * blockDim.x) {
        const uint64_t at = e % each;
        const product_task b = product_block(&t, e / each);
        b.z[0][at / t.n * b.z_row + at % t.n] = 0;
    }
}

/* --- BIT_SUMS --------------------------------------------------------------------------------- */

/* A block of threads takes rows of a band and 4 columns: thread a + 64 c has sum a of column c. The
 * sums of bands are added in any order. */
enum { BAND = 1024, SUMS = 64 };

__global__ void bits_kernel(const __grid_constant__ bits_task t) {
    __shared__ uint64_t word[BAND];
    __shared__ uint32_t key[AES_KEY_WORDS];
    fill_tables(AES_TWO);
    __syncthreads();
    if (threadIdx.x == 0)
        aes_expand(t.key, key);
    __syncthreads();
    const uint64_t first = (uint64_t)blockIdx.x * BAND;
    const uint32_t rows = t.rows - first < BAND ? (uint32_t)(t.rows - first) : BAND;
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x)
        word[i] = bits_word(&t, key, first + i);
    __syncthreads();
    const unsigned a = threadIdx.x % SUMS;
    for (uint64_t j = threadIdx.x / SUMS + (uint64_t)blockIdx.y * (THREADS / SUMS); j < t.cols;
         j += (uint64_t)gridDim.y * (THREADS / SUMS))
        for (unsigned c = 0; c < 2; c++) {
            const uint64_t *x = c == 0 ? t.x.lo : t.x.hi;
            uint64_t *out = c == 0 ? t.out.lo : t.out.hi, sum = 0;
            if (x == NULL)
                continue;
            for (uint32_t i = 0; i < rows; i++)
                sum += bits_operand(&t, x, first + i, j) & (0 - bit_of(word[i], a));
            add_to(out + (uint64_t)a * t.cols + j, sum);
        }
}

/* --- HASH ------------------------------------------------------------------------------------- */

/* The 64 bytes that come next. */
__device__ __forceinline__ void load_block(const uint8_t *p, uint64_t (&x)[8]) {
    if (((uintptr_t)p & 15) == 0) {
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
            const ulonglong2 v = *(const ulonglong2 *)(p + 8 * i);
            x[i] = v.x;
            x[i + 1] = v.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            x[i] = load64(p + 8 * i);
    }
}

/* A word of what follows the last whole block: bytes, 0x80, zeros, the number of bits. */
__device__ uint32_t last_word(digest_bytes c, uint32_t at, bool ends) {
    uint32_t w = 0;
    for (uint32_t i = at; i < at + 4; i++)
        w = w << 8 | (i < c.len ? c.at[i] : i == c.len ? 0x80 : 0);
    return ends && at % 64 == 60 ? 8 * c.len : w;
}

/* 32 chunks by two warps, a chunk a lane: one warp loads and makes what the rounds of a block take,
 * while the other does those of the block before. A digest is as fast as its rounds follow each
 * other, and these are then half of what a thread alone would do. */
constexpr unsigned HASH_LANES = 32, HASH_THREADS = 2 * HASH_LANES;

/* Chunks that begin at 16 bytes come by lines of 128, several ahead of use: requests of half as
 * much take the host's memory twice as long, and it answers after more than a block's rounds. A row
 * is a chunk's; what pads it keeps lanes that read theirs out of each other's banks. */
constexpr unsigned HASH_LINE = 128, HASH_AHEAD = 3, HASH_ROW = HASH_LINE + 16;
typedef uint8_t hash_line[HASH_LANES][HASH_ROW];

/* A line of all chunks of the warp, as far as they have it: eight lanes take one chunk's. */
__device__ __forceinline__ void fetch_line(hash_line to, digest_bytes c, uint32_t line,
                                           unsigned lane) {
    const unsigned part = 16 * (lane % 8);
    const uint32_t at = HASH_LINE * line + part;
#pragma unroll
    for (unsigned i = 0; i < HASH_LANES; i += 4) {
        const unsigned q = i + lane / 8;
        const uint8_t *from = (const uint8_t *)__shfl_sync(~0u, (unsigned long long)c.at, q);
        const uint32_t len = __shfl_sync(~0u, c.len, q);
        if (at + 16 <= len)
            __pipeline_memcpy_async(&to[q][part], from + at, 16);
    }
    __pipeline_commit();
}

__global__ void __launch_bounds__(HASH_THREADS)
    chunks_kernel(const digest_item *items, uint32_t count, uint64_t chunks, digest_places to) {
    __shared__ uint32_t taken[2][64][HASH_LANES];
    __shared__ __align__(16) hash_line line[HASH_AHEAD];
    const unsigned lane = threadIdx.x % HASH_LANES;
    const bool makes = threadIdx.x >= HASH_LANES;
    const uint64_t k = (uint64_t)blockIdx.x * HASH_LANES + lane;
    const digest_bytes none = {nullptr, 0};
    const digest_bytes c = k < chunks ? digest_bytes_of(items, count, k) : none;
    const uint32_t whole = c.len / 64, blocks = k < chunks ? (c.len + 8) / 64 + 1 : 0;
    const uint32_t most = __reduce_max_sync(~0u, blocks);
    uint64_t next[8];
    sha256 s;
    sha256_begin(&s);
    const bool by_lines = __syncthreads_and(((uintptr_t)c.at & 15) == 0) != 0;
    if (makes && by_lines)
        for (unsigned i = 0; i + 1 < HASH_AHEAD; i++)
            fetch_line(line[i], c, i, lane);
    else if (makes && whole != 0)
        load_block(c.at, next);
    for (uint32_t b = 0; b <= most; b++) {
        if (makes && by_lines && b % 2 == 0) { /* all have read the line before this one */
            __pipeline_wait_prior(HASH_AHEAD - 2);
            __syncwarp();
            fetch_line(line[(b / 2 + HASH_AHEAD - 1) % HASH_AHEAD], c, b / 2 + HASH_AHEAD - 1, lane);
        }
        if (makes && b < blocks) {
            uint32_t w[16];
            if (by_lines && b < whole)
                load_block(&line[b / 2 % HASH_AHEAD][lane][64 * (b % 2)], next);
            if (b < whole) {
#pragma unroll
                for (int i = 0; i < 8; i++) {
                    w[2 * i] = big_endian((uint32_t)next[i]);
                    w[2 * i + 1] = big_endian((uint32_t)(next[i] >> 32));
                }
            } else {
#pragma unroll
                for (int i = 0; i < 16; i++)
                    w[i] = last_word(c, 64 * b + 4 * i, b + 1 == blocks);
            }
            if (!by_lines && b + 1 < whole)
                load_block(c.at + 64 * (b + 1), next);
#pragma unroll
            for (int i = 0; i < 64; i++)
                taken[b & 1][i][lane] = sha256_taken(w, i);
        } else if (!makes && b != 0 && b <= blocks) {
            uint32_t a[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                a[i] = s.h[i];
#pragma unroll
            for (int i = 0; i < 64; i++)
                sha256_round(a, taken[(b - 1) & 1][i][lane]);
#pragma unroll
            for (int i = 0; i < 8; i++)
                s.h[i] += a[i];
        }
        __syncthreads();
    }
    if (makes || k >= chunks)
        return;
    uint32_t *out = (uint32_t *)(k < to.split ? to.near + DIGEST_BYTES * k
                                              : to.far + DIGEST_BYTES * (k - to.split));
#pragma unroll
    for (int i = 0; i < 8; i++)
        out[i] = big_endian(s.h[i]);
}

__global__ void items_kernel(const digest_item *items, uint32_t count, const uint8_t *digests) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        digest_item_end(&items[i], digests);
}

/* --- Bytes ------------------------------------------------------------------------------------ */

/* Bytes i.. of two words that stand one behind the other. */
__device__ uint4 bytes_from(uint4 a, uint4 b, unsigned i) {
    const uint32_t w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    const unsigned shift = 8 * (i % 4);
    uint32_t out[4];
#pragma unroll
    for (unsigned k = 0; k < 4; k++) {
        uint32_t lo = 0, hi = 0;
#pragma unroll
        for (unsigned at = 0; at < 4; at++) /* registers have no addresses */
            if (i / 4 == at) {
                lo = w[at + k];
                hi = w[at + k + 1];
            }
        out[k] = __funnelshift_r(lo, hi, shift);
    }
    return make_uint4(out[0], out[1], out[2], out[3]);
}

/* Words of 16 bytes of a copy, several of them on their way at a time, since memory of the host is
 * far: where src lies else than dst by `off` bytes, lanes have what comes next from their neighbour. */
__device__ void copy_words(uint4 *to, const uint4 *words, unsigned off, size_t wide) {
    enum { FLIGHT = 4 };
    const unsigned lane = threadIdx.x % WARP;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    const size_t end = off == 0 ? wide : wide + 1; /* of what may be read */
    for (size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x - lane; first < wide;
         first += FLIGHT * step) {
        uint4 a[FLIGHT], last[FLIGHT];
#pragma unroll
        for (unsigned u = 0; u < FLIGHT; u++) {
            const size_t k = first + u * step + lane;
            a[u] = k < end ? words[k] : make_uint4(0, 0, 0, 0);
            last[u] = off != 0 && lane == WARP - 1 && k + 1 < end ? words[k + 1] : a[u];
        }
#pragma unroll
        for (unsigned u = 0; u < FLIGHT; u++) {
            const size_t k = first + u * step + lane;
            uint4 b = make_uint4(__shfl_down_sync(~0u, a[u].x, 1), __shfl_down_sync(~0u, a[u].y, 1),
                                 __shfl_down_sync(~0u, a[u].z, 1), __shfl_down_sync(~0u, a[u].w, 1));
            if (lane == WARP - 1)
                b = last[u];
            if (k < wide)
                to[k] = off == 0 ? a[u] : bytes_from(a[u], b, off);
        }
    }
}

/* Words of 16 bytes where dst has them whole, whatever lies between src and its own: keys come out
 * of messages, in which headers shift them. */
__global__ void bytes_kernel(const uvcc_copy_item *items, uint32_t count, bool wipe) {
    const size_t from = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (uint32_t i = blockIdx.y; i < count; i += gridDim.y) {
        const uvcc_copy_item it = items[i];
        const size_t before = (size_t)(-(uintptr_t)it.dst & 15);
        const size_t head = before < it.len ? before : it.len, wide = (it.len - head) / 16;
        uint4 *to = (uint4 *)(it.dst + head);
        if (wipe) {
            for (size_t k = from; k < wide; k += step)
                to[k] = make_uint4(0, 0, 0, 0);
        } else {
            const uintptr_t src = (uintptr_t)it.src + head;
            const unsigned off = (unsigned)(src & 15);
            copy_words(to, (const uint4 *)(src - off), off, wide);
        }
        for (size_t k = from; k < it.len - 16 * wide; k += step) {
            const size_t at = k < head ? k : k + 16 * wide;
            it.dst[at] = wipe ? 0 : it.src[at];
        }
    }
}

} // namespace

cudaError_t uvcci_gpu_run_map(const map_task *t, unsigned sms, cudaStream_t s) {
    const uint64_t elems = map_elems(t);
    const unsigned parts = t->out.hi != NULL ? 2 : 1;
    if (elems == 0)
        return cudaSuccess;
    if (t->op == UVCC_MAP_SUM_ROWS)
        map_column_sums<<<dim3(grid_of((elems + WARP - 1) / WARP, sms), parts), THREADS, 0, s>>>(*t);
    else if (map_is_sum(t->op))
        map_row_sums<<<dim3(grid_of((elems + THREADS / WARP - 1) / (THREADS / WARP), sms), parts),
                       THREADS, 0, s>>>(*t);
    else
        map_kernel<<<dim3(grid_of((elems + THREADS - 1) / THREADS, sms), parts), THREADS, 0, s>>>(
            *t);
    return cudaGetLastError();
}

/* z is added to. */
static void begin_sums(const product_task *t, unsigned sms, cudaStream_t s) {
    const uint64_t elems = (uint64_t)t->m * t->n * product_blocks(t);
    if (!t->accumulate)
        gemm_zero<<<grid_of((elems + THREADS - 1) / THREADS, sms), THREADS, 0, s>>>(*t);
}

template <int ROWS, bool DOWN>
static void queue_few_rows(const gemm_launch &g, dim3 grid, cudaStream_t s) {
    if (g.t.products == 2)
        few_rows<ROWS, DOWN, true><<<grid, THREADS, 0, s>>>(g);
    else
        few_rows<ROWS, DOWN, false><<<grid, THREADS, 0, s>>>(g);
}

static cudaError_t run_few_rows(const product_task *t, unsigned sms, cudaStream_t s) {
    const bool down = t->y_row == 1;
    const uint32_t each = down ? THREADS / WARP : THREADS;
    const dim3 grid((t->n + each - 1) / each, (t->k + FEW_DEPTH - 1) / FEW_DEPTH,
                    t->groups * t->heads);
    gemm_launch g = {};
    g.t = *t;
    if (t->m == 0 || grid.x == 0 || grid.z == 0)
        return cudaSuccess;
    begin_sums(t, sms, s);
    if (grid.y != 0 && t->m == 1 && down)
        queue_few_rows<1, true>(g, grid, s);
    else if (grid.y != 0 && t->m == 1)
        queue_few_rows<1, false>(g, grid, s);
    else if (grid.y != 0 && down)
        queue_few_rows<FEW, true>(g, grid, s);
    else if (grid.y != 0)
        queue_few_rows<FEW, false>(g, grid, s);
    return cudaGetLastError();
}

/* A block of the task; of two products by one y that of both. */
static uvcci_ring_product ring_product(const product_task *t, uint64_t which) {
    const product_task b = product_block(t, which);
    uvcci_ring_product p = {};
    p.m = b.m;
    p.n = b.n;
    p.k = b.k;
    p.x = {b.x[0], b.x[1], b.x_row, b.x_col};
    p.y = {(const uint64_t *)b.y[0], (const uint64_t *)b.y[1], b.y_row, b.y_col};
    p.z = b.z[0];
    p.z_row = b.z_row;
    p.accumulate = b.accumulate;
    p.y_bytes = b.y_bytes;
    if (t->products == 2) {
        const product_task second = product_block(t, which + (uint64_t)t->groups * t->heads);
        p.x.hi = second.x[0];
        p.z_hi = second.z[0];
    }
    return p;
}

size_t uvcci_gpu_gemm_scratch(const product_task *t) {
    /* Where both take as long, on an H100; and more scratch makes nothing faster. */
    const uint64_t least_terms = 1ull << 27;
    const uint32_t least_side = 32;
    const size_t most = (size_t)1 << 30;
    const uint64_t terms = (t->x[1] != NULL ? 2ull : 1ull) * t->m * t->n * t->k;
    const uint64_t rows = (uint64_t)t->m * t->products;
    if (product_blocks(t) == 0 || (t->x[1] == NULL && t->y[1] != NULL)) /* x (y + y') */
        return 0;
    if (terms < least_terms || rows < least_side || t->n < least_side)
        return 0;
    const uvcci_ring_product p = ring_product(t, 0);
    const size_t room = uvcci_ring_gemm_room(&p), least = uvcci_ring_gemm_least(&p);
    return room < most ? room : least < most ? most : least;
}

static cudaError_t run_on_tensor_cores(const product_task *t, uint8_t *scratch, size_t bytes,
                                       cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    for (uint64_t i = 0; i < (uint64_t)t->groups * t->heads && e == cudaSuccess; i++) {
        const uvcci_ring_product p = ring_product(t, i);
        e = uvcci_ring_gemm(&p, scratch, bytes, s);
    }
    return e;
}

static uint32_t tiles_of(uint32_t side, uint32_t each) {
    return (side + ACROSS * each - 1) / (ACROSS * each);
}

template <int EACH>
static cudaError_t run_tiles(const product_task *t, unsigned sms, cudaStream_t s) {
    gemm_launch g = {};
    g.t = *t;
    g.tiles_m = tiles_of(t->m, EACH);
    g.tiles_n = tiles_of(t->n, EACH);
    const uint64_t tiles = g.tiles_m * (uint64_t)g.tiles_n * product_blocks(t);
    const bool both = t->x[1] != nullptr && t->products == 1;
    const uint32_t steps = (both ? 2 : 1) * ((t->k + DEPTH - 1) / DEPTH);
    if (tiles == 0)
        return cudaSuccess;
    uint64_t splits = tiles < sms ? 2 * sms / tiles : 1; /* few tiles: of less depth each */
    splits = splits > SPLITS_MAX ? SPLITS_MAX : splits;
    splits = splits > steps / 4 ? (steps < 4 ? 1 : steps / 4) : splits;
    g.depth = (uint32_t)((steps + splits - 1) / splits);
    g.splits = g.depth == 0 ? 1 : (steps + g.depth - 1) / g.depth;
    if (g.splits == 0 || tiles * g.splits > 0x7fffffff)
        return cudaErrorInvalidValue;
    if (g.splits > 1)
        begin_sums(t, sms, s);
    gemm_kernel<EACH><<<(unsigned)(tiles * g.splits), THREADS, 0, s>>>(g);
    return cudaGetLastError();
}

cudaError_t uvcci_gpu_run_gemm(const product_task *t, uint8_t *scratch, size_t bytes, unsigned sms,
                               cudaStream_t s) {
    if (scratch != nullptr && uvcci_gpu_gemm_scratch(t) != 0) {
        const uvcci_ring_product first = ring_product(t, 0);
        if (uvcci_ring_gemm_least(&first) <= bytes)
            return run_on_tensor_cores(t, scratch, bytes, s);
    }
    if (t->m <= FEW && (uint64_t)t->groups * t->heads <= GRID_MOST && t->k / FEW_DEPTH < GRID_MOST)
        return run_few_rows(t, sms, s);
    const uint64_t large =
        product_blocks(t) * tiles_of(t->m, EACH_MOST) * tiles_of(t->n, EACH_MOST);
    return large < sms ? run_tiles<EACH_LEAST>(t, sms, s) : run_tiles<EACH_MOST>(t, sms, s);
}

cudaError_t uvcci_gpu_run_bits(const bits_task *t, unsigned sms, cudaStream_t s) {
    const size_t bytes = (size_t)SUMS * t->cols * sizeof(uint64_t);
    cudaError_t e = cudaSuccess;
    for (unsigned c = 0; c < 2 && e == cudaSuccess; c++)
        if ((c == 0 ? t->x.lo : t->x.hi) != NULL)
            e = cudaMemsetAsync(c == 0 ? t->out.lo : t->out.hi, 0, bytes, s);
    if (e != cudaSuccess)
        return e;
    const unsigned bands = (unsigned)(((uint64_t)t->rows + BAND - 1) / BAND);
    const unsigned each = THREADS / SUMS, wide = (t->cols + each - 1) / each;
    const unsigned y = wide < sms ? wide : sms;
    bits_kernel<<<dim3(bands, y), THREADS, AES_TWO * AES_TABLE_WORDS * sizeof(uint32_t), s>>>(*t);
    return cudaGetLastError();
}

cudaError_t uvcci_gpu_run_hash(const digest_item *items, uint32_t count, uint32_t ends,
                               uint64_t chunks, const digest_places *to, cudaStream_t s) {
    enum { FEW = 32 };
    if (chunks != 0)
        chunks_kernel<<<(unsigned)((chunks + HASH_LANES - 1) / HASH_LANES), HASH_THREADS, 0, s>>>(
            items, count, chunks, *to);
    if (ends != 0)
        items_kernel<<<(ends + FEW - 1) / FEW, FEW, 0, s>>>(items, ends, to->near);
    return cudaGetLastError();
}

/* What comes from the host, or goes there, is as fast as the bus with few blocks of threads: more
 * of them would only be in the way of other kernels. */
cudaError_t uvcci_gpu_run_bytes(const uvcc_copy_item *items, uint32_t count, size_t len_max,
                                bool wipe, bool over_bus, cudaStream_t s) {
    enum { EACH_THREAD = 64, GRID_MAX = 256, BUS_BLOCKS = 32, ITEMS_MAX = 65535 };
    const size_t some = (len_max + THREADS * EACH_THREAD - 1) / (THREADS * EACH_THREAD);
    if (some == 0)
        return cudaSuccess;
    unsigned x = some < GRID_MAX ? (unsigned)some : GRID_MAX;
    uint32_t y = count < ITEMS_MAX ? count : ITEMS_MAX;
    if (over_bus) {
        x = x < BUS_BLOCKS ? x : BUS_BLOCKS;
        y = y < BUS_BLOCKS / x ? y : BUS_BLOCKS / x;
    }
    bytes_kernel<<<dim3(x, y), THREADS, 0, s>>>(items, count, wipe);
    return cudaGetLastError();
}

cudaError_t uvcci_gpu_prepare_forms(void) {
    return cudaFuncSetAttribute(bits_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                AES_TWO * AES_TABLE_WORDS * sizeof(uint32_t));
}
