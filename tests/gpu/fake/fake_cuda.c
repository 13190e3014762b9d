/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cuda.c - see fake_cuda.h. Work on a stream is done by the thread that queues it, at once;
 * that of a stream that hangs is forgotten. */
#include "fake_cuda.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../host_kernels.h"
#include "gpu/launch.h"
#include "gpu/ring_gemm.h"

enum { BLOCKS = 256, ALIGN = 256, SMS = 4, SHARED = 200 << 10 };

struct fake_stream {
    bool hung;
};
struct fake_event {
    int none;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t news;
    int count, usable, major, minor;
    fake_call block;
    unsigned byte_launches;
    const void *watch;
    size_t watch_len, hashed;
    bool watched;
    bool breaks, broken;
    fake_pins pins;
    unsigned hang, hanging; /* 0: they end */
    pthread_t waits;        /* who said so */
    bool looked, passed;    /* it at the clock; its hour */
    struct {
        uint8_t *at;
        size_t bytes;
        bool pinned, of_host;
    } memory[BLOCKS];
} fake = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER, .count = 1, .major = 8};

/* --- What tests say --------------------------------------------------------------------------- */

void fake_devices(int count, int usable, int major, int minor) {
    fake.count = count;
    fake.usable = usable;
    fake.major = major;
    fake.minor = minor;
}

void fake_block(fake_call c) {
    (void)pthread_mutex_lock(&fake.lock);
    fake.block = c;
    fake.passed = false;
    (void)pthread_cond_broadcast(&fake.news);
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_pin(fake_pins how) {
    fake.pins = how;
}

void fake_hang(unsigned jobs) {
    (void)pthread_mutex_lock(&fake.lock);
    fake.hang = jobs;
    fake.hanging = 0;
    fake.waits = pthread_self();
    fake.looked = fake.passed = false;
    (void)pthread_mutex_unlock(&fake.lock);
}

/* The lock is held. */
static void pass_hour(bool now) {
    if (now && !fake.passed)
        fake_hour_passes();
    fake.passed |= now;
}

void fake_looks_at_clock(void) {
    (void)pthread_mutex_lock(&fake.lock);
    if (fake.hang != 0 && pthread_equal(fake.waits, pthread_self())) {
        fake.looked = true;
        pass_hour(fake.hanging >= fake.hang);
    }
    (void)pthread_mutex_unlock(&fake.lock);
}

void fake_break(void) {
    (void)pthread_mutex_lock(&fake.lock);
    fake.breaks = true;
    (void)pthread_mutex_unlock(&fake.lock);
}

static size_t bytes_out(bool pinned) {
    size_t bytes = 0;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at != NULL && fake.memory[i].pinned == pinned)
            bytes += fake.memory[i].bytes;
    (void)pthread_mutex_unlock(&fake.lock);
    return bytes;
}

size_t fake_device_bytes(void) {
    return bytes_out(false);
}

size_t fake_pinned_bytes(void) {
    return bytes_out(true);
}

size_t fake_pages_bytes(void) {
    size_t bytes = 0;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at != NULL && fake.memory[i].of_host)
            bytes += fake.memory[i].bytes;
    (void)pthread_mutex_unlock(&fake.lock);
    return bytes;
}

bool fake_pages_go(void) {
    bool mapped = true;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at != NULL && fake.memory[i].of_host) {
            mapped &= msync(fake.memory[i].at, fake.memory[i].bytes, MS_ASYNC) == 0;
            (void)munmap(fake.memory[i].at, fake.memory[i].bytes);
            fake.memory[i].at = NULL;
        }
    (void)pthread_mutex_unlock(&fake.lock);
    return mapped;
}

static bool has(const uint8_t *in, size_t room, const void *bytes, size_t len) {
    for (size_t i = 0; i + len <= room; i++)
        if (memcmp(in + i, bytes, len) == 0)
            return true;
    return false;
}

bool fake_pinned_has(const void *bytes, size_t len) {
    bool found = false;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS && !found; i++)
        found = fake.memory[i].at != NULL && fake.memory[i].pinned &&
                has(fake.memory[i].at, fake.memory[i].bytes, bytes, len);
    (void)pthread_mutex_unlock(&fake.lock);
    return found;
}

void fake_watch(const void *bytes, size_t len) {
    (void)pthread_mutex_lock(&fake.lock);
    fake.watch = bytes;
    fake.watch_len = len;
    fake.watched = false;
    (void)pthread_mutex_unlock(&fake.lock);
}

bool fake_watched(void) {
    (void)pthread_mutex_lock(&fake.lock);
    const bool found = fake.watched;
    (void)pthread_mutex_unlock(&fake.lock);
    return found;
}

size_t fake_hashed_over_bus(void) {
    (void)pthread_mutex_lock(&fake.lock);
    const size_t bytes = fake.hashed;
    (void)pthread_mutex_unlock(&fake.lock);
    return bytes;
}

unsigned fake_byte_launches(void) {
    (void)pthread_mutex_lock(&fake.lock);
    const unsigned n = fake.byte_launches;
    (void)pthread_mutex_unlock(&fake.lock);
    return n;
}

/* --- Calls ------------------------------------------------------------------------------------ */

static cudaError_t enter(fake_call c) {
    (void)pthread_mutex_lock(&fake.lock);
    pass_hour(fake.block == c);
    while (fake.block == c)
        (void)pthread_cond_wait(&fake.news, &fake.lock);
    const bool broken = fake.broken;
    (void)pthread_mutex_unlock(&fake.lock);
    return broken ? cudaErrorLaunchFailure : cudaSuccess;
}

/* The lock is not held. */
static void note(uint8_t *at, size_t bytes, bool pinned, bool of_host) {
    unsigned i = 0;
    (void)pthread_mutex_lock(&fake.lock);
    while (i < BLOCKS && fake.memory[i].at != NULL)
        i++;
    if (at == NULL || i == BLOCKS)
        abort();
    fake.memory[i].at = at;
    fake.memory[i].bytes = bytes;
    fake.memory[i].pinned = pinned;
    fake.memory[i].of_host = of_host;
    (void)pthread_mutex_unlock(&fake.lock);
}

/* It must have come from where it goes. */
static void forget(const void *p, bool of_host) {
    bool found = false;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at == p) {
            if (fake.watch_len != 0 && !fake.memory[i].pinned)
                fake.watched |= has(p, fake.memory[i].bytes, fake.watch, fake.watch_len);
            fake.memory[i].at = NULL;
            found = fake.memory[i].of_host == of_host;
        }
    (void)pthread_mutex_unlock(&fake.lock);
    if (!found && p != NULL)
        abort();
}

static cudaError_t take(void **p, size_t bytes, bool pinned) {
    const cudaError_t e = enter(pinned ? FAKE_HOST_ALLOC : FAKE_MALLOC);
    if (e != cudaSuccess)
        return e;
    *p = aligned_alloc(ALIGN, (bytes + ALIGN - 1) / ALIGN * ALIGN);
    note(*p, bytes, pinned, false);
    return cudaSuccess;
}

static cudaError_t give(void *p) {
    forget(p, false);
    free(p);
    return cudaSuccess;
}

/* A kernel on a stream; false: it does not run. */
static bool runs(cudaStream_t s, cudaError_t *e) {
    *e = enter(FAKE_LAUNCH);
    (void)pthread_mutex_lock(&fake.lock);
    if (fake.hang != 0)
        s->hung = true;
    const bool run = *e == cudaSuccess && !s->hung && !fake.broken;
    (void)pthread_mutex_unlock(&fake.lock);
    return run;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = fake.count;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr a, int device) {
    *value = a == cudaDevAttrComputeCapabilityMajor   ? (device == fake.usable ? fake.major : 5)
             : a == cudaDevAttrComputeCapabilityMinor ? fake.minor
             : a == cudaDevAttrMultiProcessorCount    ? SMS
                                                      : SHARED;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return device == fake.usable ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e) {
    return e == cudaSuccess ? "no error" : "a fake error";
}

cudaError_t cudaMalloc(void **p, size_t bytes) {
    return take(p, bytes, false);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags) {
    (void)flags;
    return take(p, bytes, true);
}

cudaError_t cudaFree(void *p) {
    return give(p);
}

cudaError_t cudaFreeHost(void *p) {
    return give(p);
}

/* Whole pages, all of them there, as the library has made them. */
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags) {
    const cudaError_t e = enter(FAKE_HOST_ALLOC);
    if (e != cudaSuccess)
        return e;
    if ((uintptr_t)p % 4096 != 0 || flags != (cudaHostRegisterPortable | cudaHostRegisterMapped))
        abort();
    if (fake.pins == FAKE_PINS_NOT)
        return cudaErrorInvalidValue;
    note(p, bytes, true, true);
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p) {
    if (fake.pins == FAKE_PINS_KEPT)
        return cudaErrorLaunchFailure;
    forget(p, true);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **there, void *p, unsigned flags) {
    (void)flags;
    *there = fake.pins == FAKE_PINS_THERE ? p : (uint8_t *)p + 4096;
    return cudaSuccess;
}

void *fake_device_memory(size_t bytes) {
    void *p = NULL;
    return take(&p, bytes, false) == cudaSuccess ? p : NULL;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    *left = *all = (size_t)1 << 40;
    return cudaSuccess;
}

cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    memset(p, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t s) {
    const cudaError_t e = enter(FAKE_MEMSET);
    if (e == cudaSuccess && !s->hung)
        memset(p, value, bytes);
    return e;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)kind;
    if (runs(s, &e))
        memcpy(to, from, bytes);
    return e;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p) {
    const uint8_t *at = p;
    a->type = cudaMemoryTypeUnregistered;
    (void)pthread_mutex_lock(&fake.lock);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at != NULL && !fake.memory[i].pinned &&
            (uintptr_t)at - (uintptr_t)fake.memory[i].at < fake.memory[i].bytes)
            a->type = cudaMemoryTypeDevice;
    (void)pthread_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags) {
    (void)flags;
    *s = calloc(1, sizeof **s);
    return *s != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
    free(s);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t s) {
    (void)pthread_mutex_lock(&fake.lock);
    const cudaError_t e = fake.broken ? cudaErrorLaunchFailure
                          : s->hung   ? cudaErrorNotReady
                                      : cudaSuccess;
    (void)pthread_mutex_unlock(&fake.lock);
    return e;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    return cudaStreamQuery(s);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags) {
    (void)s;
    (void)e;
    (void)flags;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags) {
    (void)flags;
    *e = calloc(1, sizeof **e);
    return *e != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaEventDestroy(cudaEvent_t e) {
    free(e);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    (void)e;
    (void)s;
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *how) {
    (void)name;
    (void)version;
    (void)flags;
    *f = NULL;
    *how = cudaDriverEntryPointSuccess;
    return cudaErrorInvalidValue;
}

/* --- Kernels ---------------------------------------------------------------------------------- */

int uvcci_ring_gemm_built(void) {
    return 1;
}

size_t uvcci_gpu_gemm_scratch(const product_task *t) {
    (void)t;
    return 0;
}

cudaError_t uvcci_gpu_prepare_vec(void) {
    return cudaSuccess;
}

cudaError_t uvcci_gpu_prepare_forms(void) {
    return cudaSuccess;
}

cudaError_t uvcci_gpu_run_vec(const vec_task *t, const uvcc_step_keys *keys, uint32_t units_max,
                              unsigned sms, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)units_max;
    (void)sms;
    if (runs(s, &e))
        host_kernels_vec(t, keys);
    return e;
}

cudaError_t uvcci_gpu_run_map(const map_task *t, unsigned sms, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)sms;
    if (runs(s, &e))
        host_kernels_map(t);
    return e;
}

cudaError_t uvcci_gpu_run_gemm(const product_task *t, uint8_t *scratch, size_t bytes, unsigned sms,
                               cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)scratch;
    (void)bytes;
    (void)sms;
    if (runs(s, &e))
        host_kernels_gemm(t);
    return e;
}

cudaError_t uvcci_gpu_run_bits(const bits_task *t, unsigned sms, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)sms;
    if (runs(s, &e))
        host_kernels_bits(t);
    return e;
}

/* The lock is held. */
static bool is_pinned(const void *p) {
    const uint8_t *at = p;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (fake.memory[i].at != NULL && fake.memory[i].pinned &&
            (uintptr_t)at - (uintptr_t)fake.memory[i].at < fake.memory[i].bytes)
            return true;
    return false;
}

cudaError_t uvcci_gpu_run_hash(const digest_item *items, uint32_t count, uint32_t ends,
                               uint64_t chunks, const digest_places *to, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)pthread_mutex_lock(&fake.lock);
    for (uint32_t i = 0; i < count; i++)
        fake.hashed += is_pinned(items[i].of.data) ? items[i].of.len : 0;
    (void)pthread_mutex_unlock(&fake.lock);
    if (runs(s, &e))
        host_kernels_hash(items, count, ends, chunks, to);
    return e;
}

/* Items side by side: the last one first, which the order of a COPY would notice. */
cudaError_t uvcci_gpu_run_bytes(const uvcc_copy_item *items, uint32_t count, size_t len_max,
                                bool wipe, bool over_bus, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    (void)len_max;
    (void)over_bus;
    if (!runs(s, &e))
        return e;
    (void)pthread_mutex_lock(&fake.lock);
    fake.byte_launches++;
    (void)pthread_mutex_unlock(&fake.lock);
    for (uint32_t i = count; i-- != 0;)
        host_kernels_bytes(&items[i], 1, wipe);
    return e;
}

cudaError_t uvcci_gpu_run_mark(uint32_t *to, uint32_t mark, cudaStream_t s) {
    cudaError_t e = cudaSuccess;
    const bool run = runs(s, &e);
    (void)pthread_mutex_lock(&fake.lock);
    fake.broken |= fake.breaks;
    fake.hanging += fake.hang != 0 && s->hung;
    pass_hour(fake.hang != 0 && fake.hanging >= fake.hang && fake.looked);
    const bool broken = fake.broken;
    (void)pthread_mutex_unlock(&fake.lock);
    if (run && !broken)
        __atomic_store_n(to, mark, __ATOMIC_RELEASE);
    return e;
}
