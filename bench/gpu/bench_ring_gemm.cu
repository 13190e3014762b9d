/* SPDX-License-Identifier: Apache-2.0 */
/* bench_ring_gemm.cu - products of matrices mod 2^64 on the card: first every shape, layout and
 * kind of operand beside one multiplication a term, then times. One JSON line for each; ends with
 * status 1 if a product was wrong. `bench_ring_gemm check` leaves the times out. */
#include "gpu/ring_gemm.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        const cudaError_t rc_ = (call);                                                            \
        if (rc_ != cudaSuccess) {                                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                          \
                    cudaGetErrorString(rc_));                                                      \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum kind { RANDOM, LEAST, EXTREMES, DIGITS, ONES, KINDS, LEAST_NARROW = KINDS };

/* Words of a kind, by their index. */
__global__ void fill(uint64_t *out, uint64_t n, uint64_t seed, int kind) {
    const uint64_t ends[8] = {1ull << 63, (1ull << 63) - 1,      0,
                              ~0ull,      0x7f7f7f7f7f7f7f7full, 0x8080808080808080ull,
                              1,          0x8000000080000000ull};
    for (uint64_t i = blockIdx.x * (uint64_t)blockDim.x + threadIdx.x; i < n;
         i += (uint64_t)gridDim.x * blockDim.x) {
        uint64_t v = (i + seed) * 0x9e3779b97f4a7c15ull; /* splitmix64 */
        v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9ull;
        v = (v ^ v >> 27) * 0x94d049bb133111ebull;
        v ^= v >> 31;
        out[i] = kind == RANDOM     ? v
                 : kind == LEAST    ? ends[0]
                 : kind == EXTREMES ? ends[v % 8]
                 : kind == ONES     ? ~0ull
                 : kind == LEAST_NARROW ? 0x8000800080008000ull
                                    : ends[4];
    }
}

__device__ uint64_t element_of_y(const uvcci_ring_product &p, uint64_t at) {
    return p.y_bytes == 2   ? (uint64_t)(int64_t)((const int16_t *)p.y.lo)[at]
           : p.y_bytes == 4 ? (uint64_t)(int64_t)((const int32_t *)p.y.lo)[at]
                            : p.y.lo[at];
}

/* Rows of z that are `every` apart; counts what differs. */
__global__ void compare(uvcci_ring_product p, const uint64_t *before, uint32_t every,
                        unsigned long long *bad) {
    const uint32_t j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * every;
    if (i >= p.m || j >= p.n)
        return;
    uint64_t sum = p.accumulate ? before[i * p.z_row + j] : 0, second = sum;
    for (uint32_t l = 0; l < p.k; l++) {
        const uint64_t x = i * p.x.row + l * p.x.col, y = l * p.y.row + j * p.y.col;
        if (p.y.hi == nullptr) {
            sum += p.x.lo[x] * element_of_y(p, y);
            second += p.z_hi != nullptr ? p.x.hi[x] * element_of_y(p, y) : 0;
        } else
            sum += p.x.lo[x] * (p.y.lo[y] + p.y.hi[y]) + p.x.hi[x] * p.y.lo[y];
    }
    if (sum != p.z[i * p.z_row + j])
        atomicAdd(bad, 1ull);
    if (p.z_hi != nullptr && second != p.z_hi[i * p.z_row + j])
        atomicAdd(bad, 1ull);
}

struct test_case {
    uint32_t m, n, k;
    bool both, trans_x, trans_y;
    uint32_t gap; /* words between rows */
    int kind;
    size_t room; /* 0: as much as it wants */
    int accumulate;
    int y_bytes; /* of a y without hi; 0: words */
    bool two;    /* and z_hi = x.hi y */
    bool host;   /* y lies in pinned memory of the host */
};

struct problem {
    uvcci_ring_product p;
    uint64_t *memory[7], *before;
    void *room;
    size_t bytes;
    bool host;
};

static uint64_t *words(uint64_t n, uint64_t seed, int kind, bool host) {
    uint64_t *w;
    CHECK(host ? cudaHostAlloc(&w, n * 8, cudaHostAllocDefault) : cudaMalloc(&w, n * 8));
    fill<<<1024, 256>>>(w, n, seed, kind);
    CHECK(cudaGetLastError());
    return w;
}

static problem make(const test_case &c) {
    problem q = {};
    q.host = c.host;
    const uint64_t x_ld = (c.trans_x ? c.m : c.k) + c.gap, y_ld = (c.trans_y ? c.k : c.n) + c.gap;
    const uint64_t x_words = x_ld * (c.trans_x ? c.k : c.m),
                   y_words = y_ld * (c.trans_y ? c.n : c.k);
    const uint64_t z_words = (uint64_t)c.m * (c.n + c.gap);
    for (int i = 0; i < (c.both ? 4 : 0) + !c.both * 2; i++)
        q.memory[i] = words(i % 2 == 0 ? x_words : y_words, 1000 * i + 1,
                            i % 2 != 0 && c.y_bytes != 0 && c.kind == LEAST ? LEAST_NARROW : c.kind,
                            c.host && i % 2 != 0);
    q.memory[4] = words(z_words, 77, RANDOM, false);
    if (c.two) {
        q.memory[5] = words(x_words, 78, c.kind, false);
        q.memory[6] = words(z_words, 77, RANDOM, false);
    }
    CHECK(cudaMalloc(&q.before, z_words * 8));
    CHECK(cudaMemcpy(q.before, q.memory[4], z_words * 8, cudaMemcpyDeviceToDevice));
    q.p.m = c.m;
    q.p.n = c.n;
    q.p.k = c.k;
    q.p.x = {q.memory[0], c.both ? q.memory[2] : nullptr, c.trans_x ? 1 : x_ld,
             c.trans_x ? x_ld : 1};
    q.p.y = {q.memory[1], c.both ? q.memory[3] : nullptr, c.trans_y ? 1 : y_ld,
             c.trans_y ? y_ld : 1};
    if (c.two)
        q.p.x.hi = q.memory[5];
    q.p.z = q.memory[4];
    q.p.z_hi = q.memory[6];
    q.p.y_bytes = c.y_bytes;
    q.p.z_row = c.n + c.gap;
    q.p.accumulate = c.accumulate;
    q.bytes = c.room != 0 ? c.room : uvcci_ring_gemm_room(&q.p);
    if (c.room == 1)
        q.bytes = uvcci_ring_gemm_least(&q.p);
    CHECK(cudaMalloc(&q.room, q.bytes));
    return q;
}

static void forget(problem &q) {
    for (int i = 0; i < 7; i++)
        if (q.memory[i] != nullptr)
            CHECK(q.host && i % 2 != 0 && i < 4 ? cudaFreeHost(q.memory[i])
                                                : cudaFree(q.memory[i]));
    CHECK(cudaFree(q.before));
    CHECK(cudaFree(q.room));
}

static unsigned long long wrong(const problem &q, uint32_t every) {
    unsigned long long *bad, n;
    CHECK(cudaMalloc(&bad, sizeof *bad));
    CHECK(cudaMemset(bad, 0, sizeof *bad));
    compare<<<dim3((q.p.n + 127) / 128, (q.p.m + every - 1) / every), 128>>>(q.p, q.before, every,
                                                                             bad);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&n, bad, sizeof n, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(bad));
    return n;
}

static bool check(const test_case &c) {
    problem q = make(c);
    CHECK(uvcci_ring_gemm(&q.p, q.room, q.bytes, 0));
    CHECK(cudaDeviceSynchronize());
    const unsigned long long bad = wrong(q, 1);
    printf("{\"check\":\"ring_gemm\",\"m\":%u,\"n\":%u,\"k\":%u,\"both\":%d,\"trans\":\"%d%d\","
           "\"gap\":%u,"
           "\"kind\":%d,\"add\":%d,\"y_bytes\":%d,\"two\":%d,\"room\":%zu,\"wrong\":%llu}\n",
           c.m, c.n, c.k, c.both, c.trans_x, c.trans_y, c.gap, c.kind, c.accumulate, c.y_bytes,
           c.two, q.bytes, bad);
    fflush(stdout);
    forget(q);
    return bad == 0;
}

static int compare_floats(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static bool measure(const char *card, const test_case &c) {
    enum { RUNS = 11 };
    problem q = make(c);
    float ms[RUNS];
    cudaEvent_t from, to;
    CHECK(cudaEventCreate(&from));
    CHECK(cudaEventCreate(&to));
    for (int i = 0; i < 3; i++)
        CHECK(uvcci_ring_gemm(&q.p, q.room, q.bytes, 0));
    for (int i = 0; i < RUNS; i++) {
        CHECK(cudaEventRecord(from, 0));
        CHECK(uvcci_ring_gemm(&q.p, q.room, q.bytes, 0));
        CHECK(cudaEventRecord(to, 0));
        CHECK(cudaEventSynchronize(to));
        CHECK(cudaEventElapsedTime(&ms[i], from, to));
    }
    qsort(ms, RUNS, sizeof ms[0], compare_floats);
    const unsigned long long bad = wrong(q, c.m > 512 ? c.m / 61 : 1);
    const double macs = (double)c.m * c.n * c.k * (c.both || c.two ? 2 : 1);
    printf("{\"bench\":\"ring_gemm\",\"card\":\"%s\",\"m\":%u,\"n\":%u,\"k\":%u,\"both\":%d,"
           "\"trans\":\"%d%d\",\"y_bytes\":%d,\"two\":%d,"
           "\"ms\":%.4f,\"least_ms\":%.4f,\"tmac_s\":%.2f,\"wrong\":%llu}\n",
           card, c.m, c.n, c.k, c.both, c.trans_x, c.trans_y, c.y_bytes, c.two, ms[RUNS / 2], ms[0],
           macs / ms[RUNS / 2] * 1e-9, bad);
    fflush(stdout);
    CHECK(cudaEventDestroy(from));
    CHECK(cudaEventDestroy(to));
    forget(q);
    return bad == 0;
}

int main(int argc, char **argv) {
    cudaDeviceProp d;
    CHECK(cudaGetDeviceProperties(&d, 0));
    bool ok = true;
    if (argc > 5 && strcmp(argv[1], "time") == 0) { /* time M N K BOTH [TRANS_Y] */
        uint32_t v[5] = {};
        for (int i = 0; i < 5 && i + 2 < argc; i++)
            v[i] = (uint32_t)strtoul(argv[i + 2], nullptr, 10);
        return !measure(d.name, {v[0], v[1], v[2], v[3] != 0, false, v[4] != 0});
    }
    const uint32_t shapes[][3] = {{1, 1, 1},     {128, 256, 128},  {128, 128, 64},
                                  {1, 300, 200}, {129, 257, 131},  {257, 130, 100},  {300, 1, 77},
                                  {64, 640, 15}, {513, 384, 1000}, {2100, 1111, 333}};
    for (const auto &s : shapes)
        for (int t = 0; t < 4; t++)
            for (int both = 0; both < 2; both++)
                ok &= check({s[0], s[1], s[2], both == 1, (t & 1) != 0, (t & 2) != 0,
                             t == 3 ? 5u : 0u, RANDOM, 0, t == 2});
    for (const auto &s : shapes)
        for (int t = 0; t < 4; t++)
            for (int bytes = 0; bytes < 6; bytes += 2)
                for (int two = 0; two < 2; two++)
                    ok &= check({s[0], s[1], s[2], false, (t & 1) != 0, (t & 2) != 0,
                                 t == 3 ? 5u : 0u, RANDOM, 0, t == 2, bytes, two == 1});
    ok &= check({100, 640, 300, true, false, false, 0, RANDOM, 0, 0, 0, false, true});
    for (int kind = 0; kind < KINDS; kind++) {
        /* few rows, by bytes: what sums of 32 bits hold, and more */
        ok &= check({128, 4096, 16384, false, false, false, 0, kind, 0, 0});
        ok &= check({100, 4097, 8200, true, false, true, 0, kind, 0, 0});
        ok &= check({64, 4096, 8192, false, false, false, 0, kind, 0, 0, 4, true});
        ok &= check({128, 4100, 8192, false, true, true, 3, kind, 0, 1, 2, false});
        ok &= check({128, 768, 70001, false, false, false, 0, kind, 0, 0});
        ok &= check({300, 300, 54000, false, false, false, 0, kind, 0, 0, 2, true});
        ok &= check({300, 300, 54001, false, false, true, 0, kind, 0, 1, 2, true});
        ok &= check({300, 300, 34000, false, false, false, 0, kind, 0, 0, 4, true});
        ok &= check({300, 300, 34001, false, true, false, 0, kind, 0, 1, 4, false});
        ok &= check({1000, 300, 500, false, false, false, 1, kind, 1, 0, 2, true}); /* many passes */
        ok &= check({300, 300, 10800, false, false, false, 0, kind, 0, 0});
        ok &= check({300, 300, 10801, false, false, false, 0, kind, 0, 0});
        ok &= check({300, 300, 5400, true, false, false, 0, kind, 0, 0});
        ok &= check({260, 140, 65535, false, false, false, 0, kind, 0, 0});
        ok &= check({260, 140, 70001, true, false, true, 0, kind, 0, 1});
        ok &= check({1000, 300, 500, true, false, false, 1, kind, 1, 0}); /* in many passes */
        ok &= check({300, 300, 10800, false, false, false, 0, kind, 0, 1});
        ok &= check({260, 640, 5400, true, true, false, 0, kind, 0, 0});
        ok &= check({260, 1111, 1001, false, false, false, 1, kind, 0, 1, 0, true});
    }
    if (!ok || (argc > 1 && strcmp(argv[1], "check") == 0))
        return !ok;
    const test_case timed[] = {
        {4096, 4096, 4096, false},
        {8192, 8192, 8192, false},
        {4096, 4096, 2048, true},
        {128, 4096, 4096, false},
        {512, 768, 3072, false},
        {128, 768, 768, true},
        {128, 3072, 768, true},
        {128, 768, 3072, true},
        {1024, 3072, 768, true},
        {4096, 4096, 4096, false, true, true},
        {768, 3072, 1024, true, true, false},
        {128, 4096, 4096, false, false, false, 0, RANDOM, 0, 0, 0, true},
        {128, 4096, 4096, false, false, false, 0, RANDOM, 0, 0, 2, true},
        {128, 4096, 4096, false, false, false, 0, RANDOM, 0, 0, 4, true},
        {128, 11008, 4096, false, false, false, 0, RANDOM, 0, 0, 2, true},
        {128, 11008, 4096, false, false, false, 0, RANDOM, 0, 0, 4, true},
        {128, 4096, 11008, false, false, false, 0, RANDOM, 0, 0, 4, true},
    };
    for (const test_case &c : timed)
        ok &= measure(d.name, c);
    return !ok;
}
