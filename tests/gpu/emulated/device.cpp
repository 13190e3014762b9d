/* SPDX-License-Identifier: Apache-2.0 */
/* device.cpp - see device.h. */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#if defined(__x86_64__) && defined(__linux__)
#define OWN_SWAP
#else
#include <ucontext.h>
#endif

#include <map>
#include <vector>

#include "emulated.h"

dim3 threadIdx(0), blockIdx(0), blockDim(1), gridDim(1);

namespace {

enum { WARP = 32, THREADS_MOST = 1024, STACK = 64 << 10, LINE_MOST = 65535 };
/* Without being prepared; what executors ask devices for; of a multiprocessor; and what CUDA takes
 * of it for each block. */
enum {
    PLAIN_SHARED = 48 << 10,
    SHARED_LEAST = 154 << 10,
    SHARED_ALL = 228 << 10,
    BLOCK_OWN = 1024
};
enum { UNTOLD = 0xa5 };

enum state { READY, AT_WARP, AT_BLOCK, DONE };

/* Where a thread goes on. swapcontext() asks the kernel each time, for a mask that none of them
 * changes: that would be most of the test's time. */
#ifdef OWN_SWAP
typedef void *place;
extern "C" void emulated_swap(place *from, const place *to);
asm(".text\nemulated_swap:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov (%rsi), %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");

void thread_main();
void swap(place *from, place *to) {
    emulated_swap(from, to);
}
void begin(place *at, char *stack) {
    void **top = (void **)((uintptr_t)(stack + STACK) / 16 * 16) - 8;
    top[6] = (void *)thread_main;
    *at = top;
}
#else
typedef ucontext_t place;
void thread_main();
void swap(place *from, place *to) {
    (void)swapcontext(from, to);
}
void begin(place *at, char *stack) {
    (void)getcontext(at);
    at->uc_stack.ss_sp = stack;
    at->uc_stack.ss_size = STACK;
    makecontext(at, thread_main, 0);
}
#endif

struct async_copy {
    void *to;
    const void *from;
    size_t bytes;
};

struct fiber {
    place at; /* where it goes on */
    std::vector<char> stack;
    state is;
    unsigned where; /* of AT_WARP */
    uint64_t brings;
    std::vector<std::vector<async_copy>> groups; /* the last one is not committed */
};

struct warp {
    uint64_t met[WARP];
};

fiber fibers[THREADS_MOST];
warp warps[THREADS_MOST / WARP];
place scheduler;
unsigned running, threads;
uint64_t order;
bool block_and, block_all;
void (*body)(const void *);
const void *body_args;
size_t dynamic_bytes;
std::map<void *, size_t> shared_of_kernel;
std::map<const void *, size_t> allowed;

[[noreturn]] void stop(const char *why) {
    fprintf(stderr, "thread %u of block %u,%u,%u: %s\n", running, blockIdx.x, blockIdx.y,
            blockIdx.z, why);
    abort();
}

void thread_main() {
    for (;;) {
        body(body_args);
        for (const auto &g : fibers[running].groups)
            for (const async_copy &c : g)
                memcpy(c.to, c.from, c.bytes);
        fibers[running].is = DONE;
        swap(&fibers[running].at, &scheduler);
    }
}

void enter(fiber *f) {
    if (f->stack.empty()) {
        f->stack.resize(STACK);
        begin(&f->at, f->stack.data());
    }
    swap(&scheduler, &f->at);
}

/* Threads go on in an order that is told: what races comes out as something else in another. One
 * comes so many behind the one before it. */
bool run_ready() {
    const unsigned by = order == 0 ? 1 : order == 1 ? threads - 1 : 37 % threads;
    unsigned i = order == 0 ? 0 : order == 1 ? threads - 1 : (unsigned)order % threads;
    bool some = false;
    for (unsigned k = 0; k < threads; k++, i = i + by < threads ? i + by : i + by - threads) {
        if (fibers[i].is != READY)
            continue;
        running = i;
        threadIdx = dim3(i);
        enter(&fibers[i]);
        some = true;
    }
    return some;
}

/* A warp whose threads are all at the same place goes on. */
bool meet_warps() {
    bool some = false;
    for (unsigned w = 0; w < threads / WARP; w++) {
        fiber *f = &fibers[w * WARP];
        unsigned there = 0;
        for (unsigned i = 0; i < WARP; i++)
            there += f[i].is == AT_WARP && f[i].where == f[0].where;
        if (there != WARP)
            continue;
        for (unsigned i = 0; i < WARP; i++) {
            warps[w].met[i] = f[i].brings;
            f[i].is = READY;
        }
        some = true;
    }
    return some;
}

/* Threads that ended are waited for no more. */
bool meet_block() {
    unsigned there = 0, done = 0;
    for (unsigned i = 0; i < threads; i++) {
        there += fibers[i].is == AT_BLOCK;
        done += fibers[i].is == DONE;
    }
    if (there == 0 || there + done != threads)
        return false;
    block_and = block_all;
    block_all = true;
    for (unsigned i = 0; i < threads; i++)
        fibers[i].is = fibers[i].is == AT_BLOCK ? READY : DONE;
    return true;
}

void run_block() {
    emulated_forget();
    for (const auto &s : shared_of_kernel)
        memset(s.first, UNTOLD, s.second);
    block_all = true;
    for (unsigned i = 0; i < threads; i++) {
        fibers[i].is = READY;
        fibers[i].groups.assign(1, {});
    }
    while (run_ready() || meet_warps() || meet_block())
        ;
    for (unsigned i = 0; i < threads; i++)
        if (fibers[i].is != DONE) {
            running = i;
            stop("it waits for threads that do not come");
        }
    if (!emulated_kept(dynamic_bytes))
        stop("it wrote to more shared memory than its launch asks for");
}

void wait(state is) {
    fiber *f = &fibers[running];
    const unsigned me = running;
    f->is = is;
    swap(&f->at, &scheduler);
    running = me;
    threadIdx = dim3(me);
}

} // namespace

void emulated_order(uint64_t which) {
    order = which;
}

const uint64_t *emulated_warp(unsigned where, uint32_t mask, uint64_t mine) {
    if (mask != ~0u)
        stop("not the whole warp is asked for");
    fibers[running].where = where;
    fibers[running].brings = mine;
    wait(AT_WARP);
    return warps[running / WARP].met;
}

bool emulated_block(bool mine) {
    block_all &= mine;
    wait(AT_BLOCK);
    return block_and;
}

void emulated_share(void *at, size_t bytes) {
    if (shared_of_kernel.emplace(at, bytes).second)
        memset(at, UNTOLD, bytes); /* the first thread of all comes here */
    size_t all = dynamic_bytes;
    for (const auto &s : shared_of_kernel)
        all += s.second;
    if (all > SHARED_LEAST)
        stop("it has more shared memory than executors ask for");
}

void emulated_bounds(unsigned most, unsigned blocks) {
    size_t all = dynamic_bytes + BLOCK_OWN;
    for (const auto &s : shared_of_kernel)
        all += s.second;
    if (threads > most)
        stop("more threads than its bounds have");
    if (all * blocks > SHARED_ALL)
        stop("not as many blocks find room as its bounds have");
}

void __pipeline_memcpy_async(void *to, const void *from, size_t bytes) {
    if ((((uintptr_t)to | (uintptr_t)from) & (bytes - 1)) != 0)
        stop("a copy that is not aligned");
    fibers[running].groups.back().push_back({to, from, bytes});
}

void __pipeline_commit() {
    fibers[running].groups.emplace_back();
}

void __pipeline_wait_prior(unsigned left) {
    auto &g = fibers[running].groups;
    for (size_t i = 0; i + 1 + left < g.size(); i++) {
        for (const async_copy &c : g[i])
            memcpy(c.to, c.from, c.bytes);
        g[i].clear();
    }
}

void emulated_allow(const void *kernel, size_t shared) {
    allowed[kernel] = shared;
}

void emulated_run(const void *kernel, dim3 grid, dim3 block, size_t shared,
                  void (*thread)(const void *args), const void *args) {
    static std::map<const void *, std::map<void *, size_t>> of;
    threads = block.x;
    dynamic_bytes = shared;
    running = 0;
    body = thread;
    body_args = args;
    blockDim = block;
    gridDim = grid;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > LINE_MOST ||
        grid.z > LINE_MOST || threads == 0 || threads % WARP != 0 || threads > THREADS_MOST)
        stop("no such grid");
    if (shared > PLAIN_SHARED && (allowed.count(kernel) == 0 || allowed[kernel] < shared))
        stop("it was not prepared for so much shared memory");
    shared_of_kernel = of[kernel];
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(order == 1 ? grid.x - 1 - x : x, y, z);
                run_block();
            }
    of[kernel] = shared_of_kernel;
    emulated_recall();
    threadIdx = dim3(0);
}
