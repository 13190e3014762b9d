/* SPDX-License-Identifier: Apache-2.0 */
/* ring_gemm.cu - see ring_gemm.h.
 *
 * Three kernels for each pass over some rows of z:
 *
 *   split    words -> residues, 8-bit and signed, one matrix for each modulus, along the depth. A
 *            word, as a signed integer, is the digits to base 256 of what it is with its top bit
 *            turned, less 2^63; so a residue is two products of four digits with 256^i mod p and a
 *            constant, less its rounded quotient by p. x takes the factor (M / p)^-1 mod p on its
 *            way; M is the product of all moduli.
 *   multiply a GEMM in int8 for each modulus: tiles by the copy engine, products by wgmma, sums
 *            of 32 bits reduced to 8 before they leave. Moduli come one after the other, so that
 *            both matrices of residues stay in the L2 cache.
 *   join     z = sum_p r_p (M / p) - k M mod 2^64, with k = round(sum_p r_p / p).
 *
 * Exact while depth 2^126 1.01 < 0.49 M (18 moduli: a depth of 10,800; 19: more than the sums of
 * 32 bits hold), and by narrow integers while depth 2^78 1.01, or 2^94 1.01, is below 0.48 M of 12 or
 * 14 moduli. Two products by one y are one of twice the rows. Residues between `multiply` and `join` stand as the threads hold them, so that
 * both move 16 bytes a thread. Nothing here branches on or indexes with operands. */
#include "ring_gemm.h"

#include <cuda.h>
#include <cuda_runtime.h>
#include <pthread.h>

#include "hopper.cuh"
#include "ring_digits.h"

namespace {

constexpr int MODULI_MAX = 19;
constexpr int moduli[MODULI_MAX] = {256, 255, 253, 251, 247, 241, 239, 233, 229, 227,
                                    223, 217, 211, 199, 197, 193, 191, 181, 179};
constexpr uint32_t DEPTH_12 = 54000, DEPTH_14 = 34000, DEPTH_18 = 10800, DEPTH_19 = 65535;

constexpr int ROWS = 128;       /* of a tile of z */
constexpr int DEPTH_STEP = 128; /* bytes of a row that one copy brings: the widest swizzle */
constexpr int CONSUMERS = 256, THREADS = 128 + CONSUMERS;
constexpr int CHUNK = 16; /* residues that a thread moves at once */
constexpr int ROUND_SHIFT = 38;

enum { X, Y, SIDES };

/* What the moduli make. */
struct constants {
    int count;
    int modulus[MODULI_MAX];
    /* 256^i mod p, four to a word; of x times (M/p)^-1 mod p. */
    int low[SIDES][MODULI_MAX], high[SIDES][MODULI_MAX];
    float size[MODULI_MAX], inverse[MODULI_MAX]; /* p, 1 / p */
    /* What sums of digits begin with, and what makes their quotients: see residue(). */
    int start[SIDES][MODULI_MAX];
    float shift[MODULI_MAX];
    int per_sum[MODULI_MAX];                     /* round(2^ROUND_SHIFT / p) */
    uint64_t weight[MODULI_MAX];                 /* M / p mod 2^64 */
    int part[MODULI_MAX];                        /* round(2^24 / p) */
    uint64_t all;                                /* M mod 2^64 */
    uint64_t weight_bias;                        /* 128 times the sum of weight[] */
    int part_bias;                               /* and of part[], less a half */
};

int centred(int v, int p) {
    int r = v % p;
    if (r < 0)
        r += p;
    return r >= (p + 1) / 2 ? r - p : r;
}

int inverse(int v, int p) {
    for (int i = 1; i < p; i++)
        if (i * v % p == 1)
            return i;
    return 0;
}

void pack_powers(int p, int factor, int *low, int *high) {
    uint32_t word[2] = {0, 0};
    int power = centred(factor, p);
    for (int i = 0; i < 8; i++) {
        word[i / 4] |= (uint32_t)(uint8_t)power << 8 * (i % 4);
        power = centred(power * 256, p);
    }
    *low = (int)word[0];
    *high = (int)word[1];
}

/* -2^63 times the factor, which the signs of words were taken for. */
int sign_of(int p, int factor) {
    int power = centred(-128 * factor, p);
    for (int i = 0; i < 7; i++)
        power = centred(power * 256, p);
    return power;
}

/* Words MAGIC + b are floats 1.5 2^23 + b. For each modulus but 256 the b = 0 mod 256 for which
 * (1.5 2^23 + b) / p, with 1 / p as a float, is nearest to an integer. */
constexpr int MAGIC = 0x4b400000;
constexpr double MAGIC_VALUE = 1.5 * (1 << 23);
constexpr int starts[MODULI_MAX] = {0,        2039552,  2076160,  -2044928, -2086400,
                                    2043136,  -2059264, -2084864, -2089216, 2073344,
                                    2095616,  -2083584, -2049792, -2088448, -2093056,
                                    -2059008, -2070272, -2064640, -2089216};
constexpr double start_quotient(int i) {
    return (MAGIC_VALUE + starts[i]) * (double)(1.0f / (float)moduli[i]);
}
constexpr double start_multiple(int i) {
    return (double)(int)(start_quotient(i) + 0.5);
}
/* Sums of eight products of digits are below 2^18 in size, so that 1 / p as a float moves their
 * quotients by less than 2^18 / p 2^-24; with what starts[] move them by, residues stay in 8 bits. */
constexpr bool starts_serve(void) {
    for (int i = 1; i < MODULI_MAX; i++) {
        const double off = start_quotient(i) - start_multiple(i), p = moduli[i];
        const double moved = (off < 0 ? -off : off) + 1.0 / 64 / p;
        if (starts[i] % 256 != 0 || p / 2 + moved * p >= 128)
            return false;
    }
    return true;
}
static_assert(starts_serve(), "");

constants make_constants(int count) {
    constants c = {};
    int64_t bias = 0;
    c.count = count;
    c.all = 1;
    for (int i = 0; i < count; i++) {
        const int p = moduli[i];
        int others = 1; /* M / p mod p */
        c.modulus[i] = p;
        c.weight[i] = 1;
        for (int j = 0; j < count; j++)
            if (j != i) {
                others = others * (moduli[j] % p) % p;
                c.weight[i] *= (uint64_t)moduli[j];
            }
        pack_powers(p, inverse(others, p), &c.low[X][i], &c.high[X][i]);
        pack_powers(p, 1, &c.low[Y][i], &c.high[Y][i]);
        c.size[i] = (float)p;
        c.inverse[i] = 1.0f / (float)p;
        c.shift[i] = (float)(MAGIC_VALUE - start_multiple(i));
        c.start[X][i] = MAGIC + starts[i] + sign_of(p, inverse(others, p));
        c.start[Y][i] = MAGIC + starts[i] + sign_of(p, 1);
        c.per_sum[i] = (int)(((1ull << ROUND_SHIFT) + p / 2) / p);
        c.part[i] = (int)(((1u << 24) + p / 2) / p);
        c.all *= (uint64_t)p;
        c.weight_bias += 128 * c.weight[i];
        bias += 128 * (int64_t)c.part[i];
    }
    c.part_bias = (int)(bias - (1 << 23));
    return c;
}

/* ---- split ---- */

/* A matrix of words, and where its residues go. */
struct split_part {
    const void *of;       /* words, or signed integers of `bytes` bytes */
    const uint64_t *more; /* what is added to words, or NULL */
    int bytes;            /* 2, 4 or 8 */
    uint64_t row, col;
    uint32_t rows, depth;
    int8_t *out; /* [modulus][row][stride] */
    uint64_t stride, plane;
    uint32_t room; /* residues of a row that are written: depth and zeros */
    int side;
    uint32_t deep, end; /* blocks along the depth; the first block behind it */
};
struct split_task {
    split_part part[2 * SIDES];
};

/* Of a block. */
constexpr int SPLIT_ROWS = 16, SPLIT_DEPTH = 128, SPLIT_THREADS = 32 * SPLIT_ROWS;

/* Low bytes, the first lowest. */
__device__ __forceinline__ uint32_t four_bytes(const int (&v)[4]) {
    return __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
}

/* v mod p in the low byte, signed, for |v| <= 2^18, given as the word MAGIC + b + v: as a float that is
 * 1.5 2^23 + b + v, whose last place is 1, so that sums with 1.5 2^23 round to integers. b is one for
 * which (1.5 2^23 + b) / p is nearly an integer, and `shift` is 1.5 2^23 less that integer. */
__device__ __forceinline__ int residue(int magic_v, float p, float inverse, float shift) {
    const float magic = __int_as_float(MAGIC), moved = __int_as_float(magic_v);
    const float q = __fsub_rn(__fmaf_rn(moved, inverse, shift), magic);
    return __float_as_int(__fmaf_rn(-p, q, moved));
}

/* sum + the four digits, unsigned, times four signed factors. */
__device__ __forceinline__ int add_products(uint32_t digits, int factors, int sum) {
    int out;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(digits), "r"(factors), "r"(sum));
    return out;
}

/* Element `at` as a word. */
__device__ __forceinline__ uint64_t element(const split_part &t, uint64_t at) {
    if (t.bytes == 2)
        return (uint64_t)(int64_t)((const int16_t *)t.of)[at];
    if (t.bytes == 4)
        return (uint64_t)(int64_t)((const int32_t *)t.of)[at];
    const uint64_t w = ((const uint64_t *)t.of)[at];
    return t.more != nullptr ? w + t.more[at] : w;
}

/* The word in row r, d along the depth, or zero behind the end. */
__device__ __forceinline__ uint64_t word_at(const split_part &t, uint32_t r, uint32_t d) {
    return r < t.rows && d < t.depth ? element(t, r * t.row + d * t.col) : 0;
}

__device__ __forceinline__ void add_two(uint64_t *w, const uint64_t *from) {
    const ulonglong2 v = *(const ulonglong2 *)from;
    w[0] += v.x;
    w[1] += v.y;
}

/* Four neighbours in memory. */
__device__ __forceinline__ void load_along(const split_part &t, uint32_t r, uint32_t d,
                                           uint64_t (&w)[4]) {
    const uint64_t at = r * t.row + d;
    const uint64_t *of = (const uint64_t *)t.of;
    const bool whole =
        t.bytes == 8 && r < t.rows && d + 4 <= t.depth &&
        (((uintptr_t)(of + at) | (t.more != nullptr ? (uintptr_t)(t.more + at) : 0)) & 15) == 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        w[i] = whole ? 0 : word_at(t, r, d + i);
    if (whole) {
        add_two(w, of + at);
        add_two(w + 2, of + at + 2);
        if (t.more != nullptr) {
            add_two(w, t.more + at);
            add_two(w + 2, t.more + at + 2);
        }
    }
}

/* Residues of four words by all moduli, which are `plane` apart. */
template <int COUNT, int SIDE>
__device__ __forceinline__ void put_split(const uint64_t (&w)[4], int8_t *out, uint64_t plane,
                                          const constants &c) {
#pragma unroll
    for (int p = 0; p < COUNT; p++, out += plane) {
        int v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int sum =
                add_products((uint32_t)(w[i] >> 32) ^ 0x80000000u, c.high[SIDE][p],
                             add_products((uint32_t)w[i], c.low[SIDE][p], c.start[SIDE][p]));
            v[i] = p == 0 ? sum
                          : residue(sum, c.size[p], c.inverse[p], c.shift[p]); /* the first is 256 */
        }
        *(uint32_t *)out = four_bytes(v);
    }
}

/* 16 rows, 128 words of each: a warp a row, four words a lane. Where neighbours of the depth are
 * none in memory, words go through shared memory, each row of it turned by its own number of
 * places, so that neither side has two lanes in one bank. */
template <int COUNT>
__global__ void __launch_bounds__(SPLIT_THREADS, 4)
    split(const __grid_constant__ split_task all, const __grid_constant__ constants c) {
    __shared__ uint64_t tile[SPLIT_DEPTH][SPLIT_ROWS];
    int which = 0;
    while (blockIdx.x >= all.part[which].end)
        which++;
    const split_part &t = all.part[which];
    const uint32_t block = blockIdx.x - (which != 0 ? all.part[which - 1].end : 0);
    const uint32_t first = block / t.deep * SPLIT_ROWS, left = block % t.deep * SPLIT_DEPTH;
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t r = first + warp, d = left + 4 * lane;
    uint64_t w[4];
    if (t.col == 1) {
        load_along(t, r, d, w);
    } else {
        const uint32_t in = threadIdx.x % SPLIT_ROWS;
#pragma unroll
        for (uint32_t i = threadIdx.x / SPLIT_ROWS; i < SPLIT_DEPTH; i += 32)
            tile[i][(in + i / 4) % SPLIT_ROWS] = word_at(t, first + in, left + i);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = tile[4 * lane + i][(warp + lane) % SPLIT_ROWS];
    }
    if (r >= t.rows || d >= t.room)
        return;
    int8_t *out = t.out + r * t.stride + d;
    if (t.side == X)
        put_split<COUNT, X>(w, out, t.plane, c);
    else
        put_split<COUNT, Y>(w, out, t.plane, c);
}

/* ---- multiply ---- */

/* `rows` of the map's box, from byte x of row y of matrix z on. */
__device__ __forceinline__ void copy_tile(void *to, const CUtensorMap *map, int x, int y, int z,
                                          uint64_t *b) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(shared_address(to)),
                 "l"((uint64_t)map), "r"(x), "r"(y), "r"(z), "r"(shared_address(b))
                 : "memory");
}
/* Of rows of 128 bytes, swizzled, in groups of eight. */
__device__ __forceinline__ uint64_t tile_descriptor(const void *p) {
    return (uint64_t)((shared_address(p) & 0x3FFFF) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

#define ACCUMULATORS_64                                                                            \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ACCUMULATORS_128                                                                           \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
    "%127"

/* d (+)= 64 rows of a times COLS columns of b, depth 32. */
__device__ __forceinline__ void multiply_add(int (&d)[64], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" ACCUMULATORS_64 "}, %64, %65, add;\n"
        "}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
          "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
          "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]),
          "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
          "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]),
          "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
          "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]),
          "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
          "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]),
          "+r"(d[63])
        : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ void multiply_add(int (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {" ACCUMULATORS_128
        "}, %128, %129, add;\n"
        "}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
          "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
          "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]),
          "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
          "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]),
          "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
          "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]),
          "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
          "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]),
          "+r"(d[63]), "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]),
          "+r"(d[70]), "+r"(d[71]), "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]),
          "+r"(d[77]), "+r"(d[78]), "+r"(d[79]), "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]),
          "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]), "+r"(d[88]), "+r"(d[89]), "+r"(d[90]),
          "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]), "+r"(d[96]), "+r"(d[97]),
          "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), "+r"(d[103]),
          "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]), "+r"(d[108]), "+r"(d[109]),
          "+r"(d[110]), "+r"(d[111]), "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]),
          "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]), "+r"(d[120]), "+r"(d[121]),
          "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])
        : "l"(a), "l"(b), "r"(add));
}

struct multiply_task {
    uint32_t row_tiles, col_tiles, steps; /* steps: of the depth */
    uint32_t count;                       /* moduli */
    uint8_t *out; /* [row tile, column tile][modulus][chunk][thread][CHUNK] */
};

template <int COLS> struct stage { int8_t x[ROWS * DEPTH_STEP], y[COLS * DEPTH_STEP]; };
template <int COLS> constexpr int STAGES = COLS == 256 ? 4 : 6;
template <int COLS> struct shared {
    stage<COLS> stages[STAGES<COLS>];
    uint64_t full[STAGES<COLS>], empty[STAGES<COLS>];
};
template <int COLS> constexpr size_t SHARED_BYTES = sizeof(shared<COLS>) + 1024;

/* Which modulus and which tile of z is the i-th: moduli one after the other, in each bands of
 * eight rows of tiles, so that what a wave of tiles reads is little. */
struct place {
    uint32_t p, row, col;
};
__device__ __forceinline__ place place_of(const multiply_task &t, uint32_t i) {
    constexpr uint32_t BAND = 8;
    const uint32_t tiles = t.row_tiles * t.col_tiles;
    place at;
    at.p = i / tiles;
    const uint32_t in = i % tiles, band = in / (BAND * t.col_tiles), first = band * BAND;
    const uint32_t rows = min(BAND, t.row_tiles - first), left = in - band * BAND * t.col_tiles;
    at.row = first + left % rows;
    at.col = left / rows;
    return at;
}

template <int COLS>
__device__ __forceinline__ void produce(const multiply_task &t, shared<COLS> *s,
                                        const CUtensorMap *x, const CUtensorMap *y) {
    uint32_t at = 0, turn = 1;
    const uint32_t all = t.row_tiles * t.col_tiles * t.count;
    for (uint32_t i = blockIdx.x; i < all; i += gridDim.x) {
        const place where = place_of(t, i);
        for (uint32_t k = 0; k < t.steps; k++) {
            barrier_wait(&s->empty[at], turn);
            barrier_expect(&s->full[at], sizeof(stage<COLS>));
            copy_tile(s->stages[at].x, x, k * DEPTH_STEP, where.row * ROWS, where.p, &s->full[at]);
            copy_tile(s->stages[at].y, y, k * DEPTH_STEP, where.col * COLS, where.p, &s->full[at]);
            if (++at == STAGES<COLS>) {
                at = 0;
                turn ^= 1;
            }
        }
    }
}

/* Sums to residues from -128 to 127; each thread's, as it has them, with 128 added. */
template <int COLS>
__device__ __forceinline__ void put_residues(const multiply_task &t, const constants &c,
                                             const place &where, const int (&sums)[COLS / 2]) {
    const int p = c.modulus[where.p], per = c.per_sum[where.p];
    constexpr int CHUNKS = COLS / 2 / CHUNK;
    const uint64_t tile = (uint64_t)where.row * t.col_tiles + where.col;
    uint4 *out =
        (uint4 *)t.out + ((tile * t.count + where.p) * CHUNKS) * CONSUMERS + (threadIdx.x - 128);
#pragma unroll
    for (int k = 0; k < CHUNKS; k++) {
        uint32_t word[4];
#pragma unroll
        for (int w = 0; w < 4; w++) {
            int v[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const int sum = sums[CHUNK * k + 4 * w + i];
                const int q =
                    (int)(((int64_t)sum * per + (1ll << (ROUND_SHIFT - 1))) >> ROUND_SHIFT);
                v[i] = sum - p * q;
            }
            word[w] = four_bytes(v) ^ 0x80808080u;
        }
        out[k * CONSUMERS] = make_uint4(word[0], word[1], word[2], word[3]);
    }
}

template <int COLS>
__device__ __forceinline__ void consume(const multiply_task &t, const constants &c,
                                        shared<COLS> *s) {
    const uint32_t group = threadIdx.x / 128 - 1, all = t.row_tiles * t.col_tiles * t.count;
    uint32_t at = 0, turn = 0;
    for (uint32_t i = blockIdx.x; i < all; i += gridDim.x) {
        int sums[COLS / 2] = {};
        uint32_t before = 0;
        for (uint32_t k = 0; k < t.steps; k++) {
            barrier_wait(&s->full[at], turn);
            const uint64_t x = tile_descriptor(s->stages[at].x + group * 64 * DEPTH_STEP);
            const uint64_t y = tile_descriptor(s->stages[at].y);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int j = 0; j < DEPTH_STEP / 32; j++)
                multiply_add(sums, x + 2 * j, y + 2 * j, k != 0 || j != 0);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            if (k != 0 && threadIdx.x % 32 == 0)
                barrier_arrive(&s->empty[before]);
            before = at;
            if (++at == STAGES<COLS>) {
                at = 0;
                turn ^= 1;
            }
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        if (threadIdx.x % 32 == 0)
            barrier_arrive(&s->empty[before]);
        put_residues<COLS>(t, c, place_of(t, i), sums);
    }
}

template <int COLS>
__global__ void __launch_bounds__(THREADS, 1)
    multiply(const __grid_constant__ multiply_task t, const __grid_constant__ constants c,
             const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap y) {
#if HAS_HOPPER
    extern __shared__ uint8_t memory[];
    shared<COLS> *s = (shared<COLS> *)(((uintptr_t)memory + 1023) & ~(uintptr_t)1023);
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES<COLS>; i++) {
            barrier_init(&s->full[i], 1);
            barrier_init(&s->empty[i], CONSUMERS / 32); /* a warp has read it */
        }
        barriers_made();
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            produce<COLS>(t, s, &x, &y);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        consume<COLS>(t, c, s);
    }
#else
    __trap();
#endif
}

/* ---- join ---- */

struct join_task {
    const uint8_t *residues;
    uint64_t *z[2], z_row;
    uint32_t row, each; /* the first row here, of all of z[0] and then z[1], and how many one has */
    uint32_t m, n, col_tiles;
    int accumulate;
};

__device__ __forceinline__ void put_two(uint64_t *z, const uint64_t (&v)[2], bool both, int add) {
    if (both && ((uintptr_t)z & 15) == 0) {
        ulonglong2 was = add ? *(ulonglong2 *)z : make_ulonglong2(0, 0);
        *(ulonglong2 *)z = make_ulonglong2(was.x + v[0], was.y + v[1]);
        return;
    }
    z[0] = add ? z[0] + v[0] : v[0];
    if (both)
        z[1] = add ? z[1] + v[1] : v[1];
}

/* A thread has what one of `multiply` had: of 8-column pieces, rows r and r + 8, two neighbours. */
template <int COLS, int COUNT>
__global__ void __launch_bounds__(CONSUMERS)
    join(const __grid_constant__ join_task t, const __grid_constant__ constants c) {
    constexpr int CHUNKS = COLS / 2 / CHUNK;
    const uint32_t tile = blockIdx.x / CHUNKS, chunk = blockIdx.x % CHUNKS;
    const uint4 *in = (const uint4 *)t.residues +
                      ((uint64_t)tile * COUNT * CHUNKS + chunk) * CONSUMERS + threadIdx.x;
    uint64_t sum[CHUNK] = {};
    int part[CHUNK] = {};
#pragma unroll
    for (int p = 0; p < COUNT; p++) {
        const uint4 v = in[(uint64_t)p * CHUNKS * CONSUMERS];
        const uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < CHUNK; i++) {
            const uint32_t r = word[i / 4] >> 8 * (i % 4) & 255;
            sum[i] += r * c.weight[p];
            part[i] += (int)r * c.part[p];
        }
    }
    const uint32_t group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const uint32_t first = tile / t.col_tiles * ROWS + group * 64 + warp * 16 + lane / 4;
    const uint32_t left = tile % t.col_tiles * COLS + chunk * (CHUNK / 4) * 8 + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < CHUNK; i += 2) {
        const uint32_t row = first + i / 2 % 2 * 8, col = left + i / 4 * 8;
        uint64_t v[2];
#pragma unroll
        for (int k = 0; k < 2; k++)
            v[k] = sum[i + k] - c.weight_bias -
                   (uint64_t)(int64_t)((part[i + k] - c.part_bias) >> 24) * c.all;
        const uint32_t of = t.row + row, second = of >= t.each;
        if (row < t.m && col < t.n)
            put_two(t.z[second] + (of - (second ? t.each : 0)) * t.z_row + col, v, col + 1 < t.n,
                    t.accumulate);
    }
}

/* ---- a product ---- */

uint64_t round_up(uint64_t v, uint64_t to) {
    return (v + to - 1) / to * to;
}

/* Rows of z and, if there is one, of z_hi behind them. */
uint32_t rows_of(const uvcci_ring_product *p) {
    return p->z_hi != nullptr ? 2 * p->m : p->m;
}

/* How a product is cut: rows of z at once, depth at once. */
struct shape {
    int parts; /* of the depth: of shares x.lo and x.hi */
    int cols;  /* of a tile */
    int count; /* moduli */
    uint32_t depth, rows;
    uint64_t stride, x_bytes, y_bytes, r_bytes;
};

/* Depth is cut where even the most moduli do not hold it. */
uint32_t depth_at_once(const uvcci_ring_product *p, int parts) {
    const uint32_t most = (p->y_bytes == 2   ? DEPTH_12
                           : p->y_bytes == 4 ? DEPTH_14
                                             : DEPTH_19) /
                          parts;
    return p->k <= most ? p->k : (uint32_t)round_up(p->k / ((p->k + most - 1) / most) + 1, 16);
}

shape shape_of(const uvcci_ring_product *p, uint32_t rows) {
    shape s;
    s.parts = p->y.hi != nullptr ? 2 : 1;
    s.depth = depth_at_once(p, s.parts);
    s.count = p->y_bytes == 2 ? 12 : p->y_bytes == 4 ? 14 : s.parts * s.depth <= DEPTH_18 ? 18 : 19;
    s.rows = rows;
    s.stride = s.parts * round_up(s.depth, 16);
    const uint64_t row_tiles = (rows + ROWS - 1) / ROWS;
    s.cols = row_tiles * ((p->n + 255) / 256) * s.count < 4 * 132 ? 128 : 256;
    const uint64_t col_tiles = (p->n + s.cols - 1) / s.cols;
    s.x_bytes = round_up(s.count * s.stride * rows, 256);
    s.y_bytes = round_up(s.count * s.stride * p->n, 256);
    s.r_bytes = row_tiles * col_tiles * s.count * ROWS * s.cols;
    return s;
}

size_t room_of(const shape &s) {
    return s.x_bytes + s.y_bytes + s.r_bytes;
}

/* What is the same for all products, worked out once in a process. */
struct shared_facts {
    constants of_12, of_14, of_18, of_19;
    decltype(&cuTensorMapEncodeTiled) encode; /* NULL: the driver has none */
} facts;
pthread_once_t facts_once = PTHREAD_ONCE_INIT;

void find_facts(void) {
    void *f = nullptr;
    cudaDriverEntryPointQueryResult how;
    facts.of_12 = make_constants(12);
    facts.of_14 = make_constants(14);
    facts.of_18 = make_constants(18);
    facts.of_19 = make_constants(19);
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault,
                                         &how) == cudaSuccess)
        facts.encode = (decltype(facts.encode))f;
}

cudaError_t map_of(CUtensorMap *map, const int8_t *of, uint64_t stride, uint32_t rows, int count,
                   int box) {
    const cuuint64_t size[3] = {stride, rows, (cuuint64_t)count};
    const cuuint64_t strides[2] = {stride, stride * rows};
    const cuuint32_t boxes[3] = {DEPTH_STEP, (cuuint32_t)box, 1}, steps[3] = {1, 1, 1};
    if (facts.encode == nullptr)
        return cudaErrorNotSupported;
    return facts.encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)of, size, strides, boxes,
                        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS
               ? cudaSuccess
               : cudaErrorInvalidValue;
}

/* A part of an operand, whose residues go behind those of the parts before. */
void add_part(split_task *t, int *count, split_part p) {
    p.deep = (p.room + SPLIT_DEPTH - 1) / SPLIT_DEPTH;
    p.end = (*count != 0 ? t->part[*count - 1].end : 0) +
            p.deep * ((p.rows + SPLIT_ROWS - 1) / SPLIT_ROWS);
    t->part[(*count)++] = p;
}

/* What is the same for all parts of an operand that has so many rows. */
split_part part_of(int side, const uvcci_ring_operand *o, uint32_t rows, uint32_t depth,
                   const shape &s, int bytes) {
    split_part p = {};
    p.bytes = bytes;
    p.row = side == X ? o->row : o->col;
    p.col = side == X ? o->col : o->row;
    p.rows = rows;
    p.depth = depth;
    p.room = (uint32_t)(s.stride / s.parts);
    p.stride = s.stride;
    p.plane = s.stride * rows;
    p.side = side;
    return p;
}

/* The parts of y: of shares the sum and lo, side by side along the depth. */
void add_y(split_task *t, int *count, const uvcci_ring_product *p, uint32_t at, uint32_t depth,
           const shape &s, int8_t *out) {
    const int bytes = p->y_bytes == 0 ? 8 : p->y_bytes;
    const uint64_t first = at * p->y.row;
    for (int i = 0; i < s.parts; i++) {
        split_part y = part_of(Y, &p->y, p->n, depth, s, bytes);
        y.of = (const uint8_t *)p->y.lo + first * bytes;
        y.more = i == 0 && s.parts == 2 ? p->y.hi + first : nullptr;
        y.out = out + i * y.room;
        add_part(t, count, y);
    }
}

/* Rows of x from `row` on: of shares lo and hi side by side along the depth; of two products by one
 * y those of lo, and those of hi below them. */
void add_x(split_task *t, int *count, const uvcci_ring_product *p, uint32_t row, uint32_t rows,
           uint32_t at, uint32_t depth, const shape &s, int8_t *out) {
    const bool below = p->z_hi != nullptr;
    for (int i = 0; i < (below ? 2 : s.parts); i++) {
        const uint32_t from = below && i == 1 ? p->m : 0; /* its rows begin there */
        const uint32_t first = row > from ? row - from : 0;
        const uint32_t end = row + rows > from ? row + rows - from : 0;
        split_part x = part_of(X, &p->x, rows, depth, s, 8);
        x.rows = (end < p->m ? end : p->m) - (first < p->m ? first : p->m);
        x.of = (i == 1 ? p->x.hi : p->x.lo) + first * p->x.row + at * p->x.col;
        x.out = out + (below ? (from + first - row) * s.stride : i * x.room);
        if (end > first && x.rows != 0)
            add_part(t, count, x);
    }
}

template <int COUNT>
void queue_split_by(const split_task &t, uint32_t blocks, const constants &c, cudaStream_t s) {
    split<COUNT><<<blocks, SPLIT_THREADS, 0, s>>>(t, c);
}

cudaError_t queue_split(const split_task &t, int count, const constants &c, cudaStream_t s) {
    const uint32_t blocks = t.part[count - 1].end;
    if (c.count == 12)
        queue_split_by<12>(t, blocks, c, s);
    else if (c.count == 14)
        queue_split_by<14>(t, blocks, c, s);
    else if (c.count == 18)
        queue_split_by<18>(t, blocks, c, s);
    else
        queue_split_by<19>(t, blocks, c, s);
    return cudaGetLastError();
}

int multiprocessors(void) {
    int device = 0, n = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
        return 1;
    return n;
}

template <int COLS>
cudaError_t queue_multiply(const multiply_task &t, const constants &c, const CUtensorMap &x,
                           const CUtensorMap &y, cudaStream_t s) {
    const uint32_t tiles = t.row_tiles * t.col_tiles * t.count, most = (uint32_t)multiprocessors();
    cudaError_t rc = cudaFuncSetAttribute(
        multiply<COLS>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)SHARED_BYTES<COLS>);
    if (rc != cudaSuccess)
        return rc;
    const uint32_t blocks = tiles < most ? tiles : most;
    multiply<COLS><<<blocks, THREADS, SHARED_BYTES<COLS>, s>>>(t, c, x, y);
    return cudaGetLastError();
}

template <int COLS>
cudaError_t queue_join(const join_task &t, uint32_t tiles, const constants &c, cudaStream_t s) {
    const unsigned blocks = tiles * (COLS / 2 / CHUNK);
    if (c.count == 12)
        join<COLS, 12><<<blocks, CONSUMERS, 0, s>>>(t, c);
    else if (c.count == 14)
        join<COLS, 14><<<blocks, CONSUMERS, 0, s>>>(t, c);
    else if (c.count == 18)
        join<COLS, 18><<<blocks, CONSUMERS, 0, s>>>(t, c);
    else
        join<COLS, 19><<<blocks, CONSUMERS, 0, s>>>(t, c);
    return cudaGetLastError();
}

const constants &constants_of(int count) {
    return count == 12   ? facts.of_12
           : count == 14 ? facts.of_14
           : count == 18 ? facts.of_18
                         : facts.of_19;
}

/* Rows of z from `row` on, depth from `at` on; y's residues are there but for the first rows. */
cudaError_t queue_rows(const uvcci_ring_product *p, const shape &s, uint32_t row, uint32_t rows,
                       uint32_t at, uint32_t depth, int8_t *room, cudaStream_t stream) {
    const constants &c = constants_of(s.count);
    int8_t *y = room, *x = room + s.y_bytes;
    uint8_t *r = (uint8_t *)x + s.x_bytes;
    CUtensorMap x_map, y_map;
    multiply_task t = {};
    t.row_tiles = (rows + ROWS - 1) / ROWS;
    t.col_tiles = (p->n + s.cols - 1) / s.cols;
    t.steps = (uint32_t)((s.stride + DEPTH_STEP - 1) / DEPTH_STEP);
    t.count = (uint32_t)s.count;
    t.out = r;
    join_task j = {};
    j.residues = r;
    j.z[0] = p->z;
    j.z[1] = p->z_hi;
    j.z_row = p->z_row;
    j.row = row;
    j.each = p->m;
    j.m = rows;
    j.n = p->n;
    j.col_tiles = t.col_tiles;
    j.accumulate = p->accumulate || at != 0;
    const uint32_t tiles = t.row_tiles * t.col_tiles;
    split_task split = {};
    int parts = 0;
    if (row == 0)
        add_y(&split, &parts, p, at, depth, s, y);
    add_x(&split, &parts, p, row, rows, at, depth, s, x);
    cudaError_t rc = queue_split(split, parts, c, stream);
    if (rc == cudaSuccess)
        rc = map_of(&x_map, x, s.stride, rows, s.count, ROWS);
    if (rc == cudaSuccess)
        rc = map_of(&y_map, y, s.stride, p->n, s.count, s.cols);
    if (rc == cudaSuccess)
        rc = s.cols == 256 ? queue_multiply<256>(t, c, x_map, y_map, stream)
                           : queue_multiply<128>(t, c, x_map, y_map, stream);
    if (rc == cudaSuccess)
        rc = s.cols == 256 ? queue_join<256>(j, tiles, c, stream)
                           : queue_join<128>(j, tiles, c, stream);
    return rc;
}

} // namespace

int uvcci_ring_gemm_built(void) {
#ifdef UVCC_GPU_HOPPER
    return 1;
#else
    return 0;
#endif
}

size_t uvcci_ring_gemm_room(const uvcci_ring_product *p) {
    if (uvcci_ring_digits_serves(p))
        return uvcci_ring_digits_room(p);
    return room_of(shape_of(p, rows_of(p)));
}

size_t uvcci_ring_gemm_least(const uvcci_ring_product *p) {
    if (uvcci_ring_digits_serves(p))
        return uvcci_ring_digits_room(p);
    return room_of(shape_of(p, rows_of(p) < ROWS ? rows_of(p) : ROWS));
}

cudaError_t uvcci_ring_gemm(const uvcci_ring_product *p, void *room, size_t bytes,
                            cudaStream_t stream) {
    const uint32_t all = rows_of(p);
    uint32_t rows = all;
    if (uvcci_ring_digits_serves(p))
        return uvcci_ring_digits_room(p) <= bytes ? uvcci_ring_digits(p, room, stream)
                                                  : cudaErrorMemoryAllocation;
    (void)pthread_once(&facts_once, find_facts);
    while (rows > ROWS && room_of(shape_of(p, rows)) > bytes)
        rows = (uint32_t)round_up(rows / 2, ROWS);
    const shape s = shape_of(p, rows);
    if (room_of(s) > bytes)
        return cudaErrorMemoryAllocation;
    cudaError_t rc = cudaSuccess;
    for (uint32_t at = 0; at < p->k && rc == cudaSuccess; at += s.depth) {
        const uint32_t depth = p->k - at < s.depth ? p->k - at : s.depth;
        for (uint32_t row = 0; row < all && rc == cudaSuccess; row += rows)
            rc = queue_rows(p, s, row, all - row < rows ? all - row : rows, at, depth,
                            (int8_t *)room, stream);
    }
    return rc;
}
