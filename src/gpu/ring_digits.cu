/* SPDX-License-Identifier: Apache-2.0 */
/* ring_digits.cu - see ring_digits.h.
 *
 *   spread    words of x -> bytes, as threads hold them for wgmma: what a block reads for a step
 *             along the depth is one piece.
 *   multiply  a block has 128 rows and 32 columns of z, and of those the sums of products of bytes
 *             with i + j = 0, 1, ... 7, of 32 bits each. Bytes of x come by the copy engine, each
 * of the two blocks of a cluster having half of them sent to both; words of y are read by seven
 * warps, which put their bytes where wgmma reads them. What a block has in the end is words of z:
 * the sum of 2^(8 s) times the s-th sum.
 *
 * Bytes are digits from 0 to 255, but the highest of a narrow integer, which is signed. Sums with
 * i + j >= 4 count mod 2^32 alone; the others are exact while 4 255^2 depth < 2^32, narrow ones
 * while it is below 2^31: what is deeper, or has few columns, is cut along the depth, and parts of
 * it are added where z stands. The order of such sums changes nothing. Nothing here branches on or
 * indexes with operands. */
#include "ring_digits.h"

#include "hopper.cuh"

namespace {

constexpr int BYTES = 8;                     /* of a word */
constexpr int ROWS = 128, COLS = 32;         /* of a block's part of z */
constexpr int STEP = 32;                     /* depth of a stage: what one wgmma takes */
constexpr int X_BYTES = BYTES * ROWS * STEP; /* of x in a stage */
constexpr int STAGES = 5;
constexpr int CLUSTER = 2;
constexpr int CONSUMERS = 256, THREADS = CONSUMERS + 256;
constexpr int READERS = 7;         /* warps; one more sends for x */
constexpr int EACH = 8;            /* words of y along the depth that a lane makes bytes of */
constexpr int ITEMS = STEP / EACH; /* of a stage, a warp's each */
constexpr uint32_t DEPTH_WORDS = 16384, DEPTH_NARROW = 8192; /* sums hold */

/* ---- spread ---- */

struct spread_task {
    /* Parts of x, side by side along the depth: of shares the sum and lo; of two products by one y
     * the rows of lo and those of hi below them. */
    const uint64_t *of[2], *more[2];
    uint64_t row, col;
    uint32_t rows, each;  /* of all, of of[0] alone */
    uint32_t depth, deep; /* of a part: words, and steps */
    uint32_t steps;       /* of all */
    bool below;           /* of[1] stands below of[0] */
    uint8_t *out;         /* [tile of rows][step][byte][warp][lane][16] */
    uint32_t tiles;
    uint64_t *z[2]; /* what is zeroed first, or NULL */
    uint64_t z_row;
    uint32_t n;
};

/* Byte i of four words, the first lowest, for i = 0 ... 3 of their low or high halves. */
__device__ __forceinline__ void turn(uint32_t a, uint32_t b, uint32_t c, uint32_t d,
                                     uint32_t (&out)[4]) {
    const uint32_t ab = __byte_perm(a, b, 0x5140), cd = __byte_perm(c, d, 0x5140);
    const uint32_t ab_high = __byte_perm(a, b, 0x7362), cd_high = __byte_perm(c, d, 0x7362);
    out[0] = __byte_perm(ab, cd, 0x5410);
    out[1] = __byte_perm(ab, cd, 0x7632);
    out[2] = __byte_perm(ab_high, cd_high, 0x5410);
    out[3] = __byte_perm(ab_high, cd_high, 0x7632);
}

constexpr int SPREAD_THREADS = 256;
constexpr int FOURS = STEP / 4; /* of a row, in a step */

/* Four words of row r from `first` on along the depth of a part, and zeros behind its end. */
__device__ __forceinline__ void load_x(const spread_task &t, uint32_t r, uint32_t step,
                                       uint32_t four, uint64_t (&w)[4]) {
    const uint32_t part = t.below ? r >= t.each : step >= t.deep;
    const uint32_t row = t.below && part ? r - t.each : r;
    const uint32_t first = (step - (!t.below && part ? t.deep : 0)) * STEP + four * 4;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const uint64_t at = row * t.row + (first + k) * t.col;
        const bool there = r < t.rows && first + k < t.depth;
        w[k] = there ? t.of[part][at] : 0;
        if (there && t.more[part] != nullptr)
            w[k] += t.more[part][at];
    }
}

/* wgmma's lane of a warp of 16 rows has bytes 4 (lane mod 4) ... + 3 of rows lane / 4 and lane / 4
 * + 8, then those 16 further on. */
__global__ void __launch_bounds__(SPREAD_THREADS) spread(const __grid_constant__ spread_task t) {
    const uint64_t threads = (uint64_t)gridDim.x * SPREAD_THREADS;
    const uint64_t me = (uint64_t)blockIdx.x * SPREAD_THREADS + threadIdx.x;
    for (uint64_t i = me; t.z[0] != nullptr && i < (uint64_t)t.rows * t.n; i += threads) {
        const uint32_t r = (uint32_t)(i / t.n), below = r >= t.each;
        t.z[below][(r - (below ? t.each : 0)) * t.z_row + i % t.n] = 0;
    }
    for (uint64_t i = me; i < (uint64_t)t.tiles * t.steps * ROWS * FOURS; i += threads) {
        const uint32_t four = (uint32_t)(i % FOURS), in = (uint32_t)(i / FOURS % ROWS);
        const uint32_t step = (uint32_t)(i / (FOURS * ROWS) % t.steps);
        const uint32_t tile = (uint32_t)(i / (FOURS * ROWS) / t.steps);
        uint64_t w[4];
        load_x(t, tile * ROWS + in, step, four, w);
        uint32_t low[4], high[4];
        turn((uint32_t)w[0], (uint32_t)w[1], (uint32_t)w[2], (uint32_t)w[3], low);
        turn((uint32_t)(w[0] >> 32), (uint32_t)(w[1] >> 32), (uint32_t)(w[2] >> 32),
             (uint32_t)(w[3] >> 32), high);
        const uint32_t lane = in % 8 * 4 + four % 4, place = in / 8 % 2 + four / 4 * 2;
        uint32_t *out = (uint32_t *)(t.out + ((uint64_t)tile * t.steps + step) * X_BYTES) +
                        in / 16 * 128 + lane * 4 + place;
#pragma unroll
        for (int b = 0; b < 4; b++) {
            out[b * (ROWS * STEP / 4)] = low[b];
            out[(b + 4) * (ROWS * STEP / 4)] = high[b];
        }
    }
}

/* ---- multiply ---- */

struct digits_task {
    const uint8_t *x; /* what spread() made */
    const void *y[2]; /* parts along the depth */
    uint64_t row, col;
    uint32_t n, depth; /* of a part */
    uint32_t deep;     /* stages of a part */
    uint32_t stages;   /* of all */
    uint32_t each;     /* of a block */
    uint64_t *z[2], z_row;
    uint32_t rows, z_rows; /* of all, of z[0] alone */
    bool add;              /* to what is there: the block is the only one of its part of z */
    bool together;         /* others add to it too */
};

template <int DIGITS> struct stage {
    uint4 x[BYTES][ROWS / 16][32]; /* of a warp's lanes */
    uint8_t y[DIGITS][COLS][STEP]; /* rows of 32 bytes, swizzled, in groups of eight */
};
template <int DIGITS> struct shared {
    stage<DIGITS> stages[STAGES];
    uint64_t full[STAGES], empty[STAGES];
};
constexpr size_t ALIGNED = 1024;
template <int DIGITS> constexpr size_t SHARED_BYTES = sizeof(shared<DIGITS>) + ALIGNED;

/* The two halves of a row's 32 bytes change places in rows 4 to 7 of eight. */
__device__ __forceinline__ uint32_t swizzled(uint32_t row, uint32_t half) {
    return row * STEP + (half ^ (row >> 2 & 1)) * 16;
}
__device__ __forceinline__ uint64_t tile_descriptor(const void *p) {
    return (uint64_t)((shared_address(p) & 0x3FFFF) >> 4) | 1ull << 16 | 16ull << 32 | 3ull << 62;
}

/* Where a block is in the ring of stages. */
struct ring {
    uint32_t at, turn;
    __device__ __forceinline__ void on(uint32_t by) {
        at += by;
        while (at >= STAGES) {
            at -= STAGES;
            turn ^= 1;
        }
    }
};

/* To all blocks of the cluster, which hear of it by their own barriers. */
__device__ __forceinline__ void send(void *to, const void *from, uint32_t bytes, uint64_t *b) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"((uint64_t)__cvta_generic_to_global(from)), "r"(bytes), "r"(shared_address(b)),
        "h"((uint16_t)((1 << CLUSTER) - 1))
        : "memory");
}
/* Of the same place in another block's memory. */
__device__ __forceinline__ void arrive_at(uint64_t *b, uint32_t block) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n"
                 "}" ::"r"(shared_address(b)),
                 "r"(block)
                 : "memory");
}
__device__ __forceinline__ void wait_for_cluster(void) {
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;" ::
                     : "memory");
}
struct span {
    uint32_t first, count; /* stages */
};
__device__ __forceinline__ span span_of(const digits_task &t) {
    const uint32_t first = blockIdx.z * t.each;
    return {first, min(t.each, t.stages - first)};
}

template <int DIGITS>
__device__ __forceinline__ void send_x(const digits_task &t, shared<DIGITS> *s) {
    const span of = span_of(t);
    const uint32_t mine = blockIdx.x % CLUSTER * (BYTES / CLUSTER);
    const uint8_t *from = t.x + ((uint64_t)blockIdx.y * t.stages + of.first) * X_BYTES +
                          blockIdx.x % CLUSTER * (X_BYTES / CLUSTER);
    ring r = {0, 1};
    for (uint32_t i = 0; i < of.count; i++, r.on(1), from += X_BYTES) {
        barrier_wait_cluster(&s->empty[r.at], r.turn);
        barrier_expect(&s->full[r.at], X_BYTES);
        send(s->stages[r.at].x[mine], from, X_BYTES / CLUSTER, &s->full[r.at]);
    }
}

/* EACH neighbours of column n along the depth, as words of DIGITS bytes. */
template <int DIGITS>
__device__ __forceinline__ void read_y(const digits_task &t, uint32_t stage, uint32_t item,
                                       uint32_t n, uint64_t (&w)[EACH]) {
    const uint32_t part = stage >= t.deep;
    const uint32_t from = (stage - (part ? t.deep : 0)) * STEP + item * EACH;
    const uint64_t at = from * t.row + n * t.col;
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const bool there = n < t.n && from + k < t.depth;
        const uint64_t e = at + k * t.row;
        if (DIGITS == 2)
            w[k] = there ? __ldg((const uint16_t *)t.y[part] + e) : 0;
        else if (DIGITS == 4)
            w[k] = there ? __ldg((const uint32_t *)t.y[part] + e) : 0;
        else
            w[k] = there ? __ldg((const unsigned long long *)t.y[part] + e) : 0;
    }
}

/* Bytes first ... first + 3 of the words. */
template <int DIGITS>
__device__ __forceinline__ void put_bytes(stage<DIGITS> &to, const uint64_t (&w)[EACH],
                                          uint32_t first, uint32_t at) {
    uint32_t v[EACH], a[4], b[4];
#pragma unroll
    for (int k = 0; k < EACH; k++)
        v[k] = (uint32_t)(w[k] >> 8 * first);
    turn(v[0], v[1], v[2], v[3], a);
    turn(v[4], v[5], v[6], v[7], b);
#pragma unroll
    for (uint32_t i = 0; i < 4 && first + i < DIGITS; i++)
        *(uint2 *)((uint8_t *)to.y[first + i] + at) = make_uint2(a[i], b[i]);
}

template <int DIGITS>
__device__ __forceinline__ void bring_y(const digits_task &t, shared<DIGITS> *s, uint32_t warp) {
    const uint32_t lane = threadIdx.x % 32, n = blockIdx.x * COLS + lane;
    const span of = span_of(t);
    const uint32_t items = of.count * ITEMS;
    uint64_t w[EACH], next[EACH];
    ring r = {0, 1};
    uint32_t stage_of = 0; /* where r is */
    if (warp < items)
        read_y<DIGITS>(t, of.first + warp / ITEMS, warp % ITEMS, n, w);
    for (uint32_t i = warp; i < items; i += READERS) {
        const uint32_t in = i / ITEMS, item = i % ITEMS, then = i + READERS;
        if (then < items)
            read_y<DIGITS>(t, of.first + then / ITEMS, then % ITEMS, n, next);
        r.on(in - stage_of);
        stage_of = in;
        barrier_wait_cluster(&s->empty[r.at], r.turn);
        const uint32_t at = swizzled(lane, item / 2) + item % 2 * EACH;
        put_bytes<DIGITS>(s->stages[r.at], w, 0, at);
        if (DIGITS == 8)
            put_bytes<DIGITS>(s->stages[r.at], w, 4, at);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); /* wgmma reads it */
        __syncwarp();
        if (lane == 0)
            barrier_arrive(&s->full[r.at]);
#pragma unroll
        for (int k = 0; k < EACH; k++)
            w[k] = next[k];
    }
}

/* d += 64 rows of a times 32 columns of b, depth 32. */
#define MULTIPLY_ADD(name, type)                                                                   \
    __device__ __forceinline__ void name(int(&d)[16], const uint32_t(&a)[4], uint64_t b) {         \
        asm volatile("{\n"                                                                         \
                     ".reg .pred add;\n"                                                           \
                     "setp.ne.b32 add, 1, 0;\n"                                                    \
                     "wgmma.mma_async.sync.aligned.m64n32k32.s32.u8." type                         \
                     " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "   \
                     "{%16, %17, %18, %19}, %20, add;\n"                                           \
                     "}"                                                                           \
                     : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]),     \
                       "+r"(d[6]), "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]),   \
                       "+r"(d[12]), "+r"(d[13]), "+r"(d[14]), "+r"(d[15])                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                        \
    }
MULTIPLY_ADD(multiply_unsigned, "u8")
MULTIPLY_ADD(multiply_signed, "s8")
#undef MULTIPLY_ADD

template <int DIGITS>
__device__ __forceinline__ void put_words(const digits_task &t, const int (&sums)[BYTES][16],
                                          uint32_t row, uint32_t col) {
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
        const uint32_t r = row + i / 2 % 2 * 8, c = col + i / 4 * 8, second = r >= t.z_rows;
        uint64_t v[2] = {};
#pragma unroll
        for (int k = 0; k < 2; k++)
#pragma unroll
            for (int b = 0; b < BYTES; b++)
                v[k] += (DIGITS == 8 ? (uint64_t)(uint32_t)sums[b][i + k]
                                     : (uint64_t)(int64_t)sums[b][i + k])
                        << 8 * b;
        if (r >= t.rows)
            continue;
        uint64_t *z = t.z[second] + (r - (second ? t.z_rows : 0)) * t.z_row + c;
#pragma unroll
        for (int k = 0; k < 2; k++)
            if (c + k < t.n) {
                if (t.together)
                    atomicAdd((unsigned long long *)z + k, (unsigned long long)v[k]);
                else
                    z[k] = t.add ? z[k] + v[k] : v[k];
            }
    }
}

/* Sums of a stage's products, of 16 rows a warp. */
template <int DIGITS>
__device__ __forceinline__ void add_products(const stage<DIGITS> &in, uint32_t warp, uint32_t lane,
                                             int (&sums)[BYTES][16]) {
    uint32_t x[BYTES][4];
#pragma unroll
    for (int b = 0; b < BYTES; b++) {
        const uint4 v = in.x[b][warp][lane];
        x[b][0] = v.x;
        x[b][1] = v.y;
        x[b][2] = v.z;
        x[b][3] = v.w;
    }
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int d = 0; d < DIGITS; d++) {
        const uint64_t y = tile_descriptor(in.y[d]);
#pragma unroll
        for (int b = 0; b + d < BYTES; b++)
            if (DIGITS < BYTES && d == DIGITS - 1)
                multiply_signed(sums[b + d], x[b], y);
            else
                multiply_unsigned(sums[b + d], x[b], y);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

template <int DIGITS>
__device__ __forceinline__ void consume(const digits_task &t, shared<DIGITS> *s) {
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool works = blockIdx.y * ROWS + warp / 4 * 64 < t.rows; /* all four warps alike */
    const span of = span_of(t);
    int sums[BYTES][16] = {};
    ring r = {0, 0};
    for (uint32_t i = 0; i < of.count; i++, r.on(1)) {
        barrier_wait(&s->full[r.at], r.turn);
        if (works)
            add_products<DIGITS>(s->stages[r.at], warp, lane, sums);
        if (lane < CLUSTER)
            arrive_at(&s->empty[r.at], lane);
    }
    put_words<DIGITS>(t, sums, blockIdx.y * ROWS + warp * 16 + lane / 4,
                      blockIdx.x * COLS + lane % 4 * 2);
}

template <int DIGITS>
__global__ void __launch_bounds__(THREADS, 1) multiply(const __grid_constant__ digits_task t) {
#if HAS_HOPPER
    extern __shared__ uint8_t memory[];
    shared<DIGITS> *s =
        (shared<DIGITS> *)(((uintptr_t)memory + ALIGNED - 1) & ~(uintptr_t)(ALIGNED - 1));
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&s->full[i], 1 + ITEMS); /* x, and y's warps */
            barrier_init(&s->empty[i], CLUSTER * CONSUMERS / 32);
        }
        barriers_made();
    }
    __syncthreads();
    wait_for_cluster(); /* before others write here */
    if (threadIdx.x < CONSUMERS) {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 200;");
        consume<DIGITS>(t, s);
    } else {
        const uint32_t warp = (threadIdx.x - CONSUMERS) / 32;
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        if (warp < READERS)
            bring_y<DIGITS>(t, s, warp);
        else if (threadIdx.x % 32 == 0)
            send_x<DIGITS>(t, s);
    }
    wait_for_cluster(); /* others write here until they are done */
#else
    __trap();
#endif
}

/* ---- a product ---- */

uint32_t up(uint32_t v, uint32_t to) {
    return (v + to - 1) / to;
}

uint32_t rows_of(const uvcci_ring_product *p) {
    return p->z_hi != nullptr ? 2 * p->m : p->m;
}
uint32_t parts_of(const uvcci_ring_product *p) {
    return p->y.hi != nullptr ? 2 : 1;
}
uint32_t steps_of(const uvcci_ring_product *p) {
    return parts_of(p) * up(p->k, STEP);
}

/* Into how many the depth is cut: blocks take turns on the card, of which each costs some stages
 * more than it has. */
uint32_t splits_of(uint32_t blocks, uint32_t stages, uint32_t depth_most) {
    constexpr uint32_t AT_ONCE = 132, BEGINNING = 6, MOST = 32;
    uint32_t best = 0, cost = ~0u;
    for (uint32_t s = up(stages * STEP, depth_most); s <= stages && (best == 0 || s <= MOST); s++) {
        const uint32_t takes = up(blocks * s, AT_ONCE) * (up(stages, s) + BEGINNING);
        if (takes < cost) {
            best = s;
            cost = takes;
        }
    }
    return best;
}

spread_task spread_of(const uvcci_ring_product *p, uint8_t *room) {
    spread_task t = {};
    t.below = p->z_hi != nullptr;
    t.of[0] = p->x.lo;
    if (parts_of(p) == 2) { /* (lo + hi) y.lo + lo y.hi */
        t.more[0] = p->x.hi;
        t.of[1] = p->x.lo;
    } else {
        t.of[1] = p->x.hi;
    }
    t.row = p->x.row;
    t.col = p->x.col;
    t.rows = rows_of(p);
    t.each = p->m;
    t.depth = p->k;
    t.deep = up(p->k, STEP);
    t.steps = steps_of(p);
    t.tiles = up(t.rows, ROWS);
    t.out = room;
    t.n = p->n;
    return t;
}

template <int DIGITS> cudaError_t queue_multiply(const digits_task &t, dim3 grid, cudaStream_t s) {
    const cudaError_t rc = cudaFuncSetAttribute(
        multiply<DIGITS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_BYTES<DIGITS>);
    if (rc != cudaSuccess)
        return rc;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = CLUSTER;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t how = {};
    how.gridDim = grid;
    how.blockDim = dim3(THREADS);
    how.dynamicSmemBytes = SHARED_BYTES<DIGITS>;
    how.stream = s;
    how.attrs = &cluster;
    how.numAttrs = 1;
    return cudaLaunchKernelEx(&how, multiply<DIGITS>, t);
}

} // namespace

int uvcci_ring_digits_serves(const uvcci_ring_product *p) {
    return rows_of(p) <= ROWS;
}

size_t uvcci_ring_digits_room(const uvcci_ring_product *p) {
    return (size_t)X_BYTES * up(rows_of(p), ROWS) * steps_of(p);
}

cudaError_t uvcci_ring_digits(const uvcci_ring_product *p, void *room, cudaStream_t stream) {
    const int bytes = p->y_bytes == 0 ? 8 : p->y_bytes;
    spread_task x = spread_of(p, (uint8_t *)room);
    digits_task t = {};
    t.x = (const uint8_t *)room;
    t.y[0] = p->y.lo;
    t.y[1] = p->y.hi;
    t.row = p->y.row;
    t.col = p->y.col;
    t.n = p->n;
    t.depth = p->k;
    t.deep = x.deep;
    t.stages = x.steps;
    t.z[0] = p->z;
    t.z[1] = p->z_hi;
    t.z_row = p->z_row;
    t.rows = x.rows;
    t.z_rows = p->m;
    dim3 grid(up(up(p->n, COLS), CLUSTER) * CLUSTER, up(x.rows, ROWS), 1);
    t.each =
        up(t.stages, splits_of(grid.x * grid.y, t.stages, bytes == 8 ? DEPTH_WORDS : DEPTH_NARROW));
    grid.z = up(t.stages, t.each);
    t.together = grid.z > 1;
    t.add = p->accumulate != 0;
    if (t.together && !t.add) {
        x.z[0] = p->z;
        x.z[1] = p->z_hi;
        x.z_row = p->z_row;
    }
    const uint64_t quads = (uint64_t)x.tiles * x.steps * ROWS * FOURS;
    const uint64_t blocks = (quads + SPREAD_THREADS - 1) / SPREAD_THREADS;
    spread<<<(unsigned)(blocks < 1024 ? blocks : 1024), SPREAD_THREADS, 0, stream>>>(x);
    cudaError_t rc = cudaGetLastError();
    if (rc != cudaSuccess)
        return rc;
    return bytes == 8   ? queue_multiply<8>(t, grid, stream)
           : bytes == 4 ? queue_multiply<4>(t, grid, stream)
                        : queue_multiply<2>(t, grid, stream);
}
