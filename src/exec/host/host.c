/* SPDX-License-Identifier: Apache-2.0 */
/* host.c - the usual hooks: memory, randomness and time of the operating system, and a seeded
 * source for simulations. The only file of the library beside executor.c that knows an operating
 * system; nothing in the core calls it.
 *
 * Secret blocks take whole pages, since locks go by the page: freeing one must not unlock another.
 * A lock that is refused (RLIMIT_MEMLOCK) is no error: the block is then ordinary memory. */
#include <assert.h>
#include <uvcc/host.h>

#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/bytes.h"
#include "proto/crypto.h"
#include "proto/prg.h"

static size_t host_align(uvcc_mem_class cls) {
    if (cls != UVCC_MEM_SECRET)
        return 64;
    long page = sysconf(_SC_PAGESIZE);
    return page > 0 ? (size_t)page : 4096;
}

static void *host_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    size_t align = host_align(cls);
    assert((align & (align - 1)) == 0);
    if (bytes == 0 || bytes > SIZE_MAX - align)
        return NULL;
    void *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    if (p != NULL && cls == UVCC_MEM_SECRET)
        (void)sodium_mlock(p, bytes);
    return p;
}

static void host_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    if (p != NULL && cls == UVCC_MEM_SECRET)
        (void)sodium_munlock(p, bytes); /* wipes too */
    else if (p != NULL && cls != UVCC_MEM_STATE)
        uvcci_wipe(p, bytes);
    free(p);
}

static void host_free_sealed(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)bytes;
    assert(cls == UVCC_MEM_WIRE);
    (void)cls;
    free(p);
}

uvcc_allocator uvcc_host_allocator(void) {
    return (uvcc_allocator){
        .alloc = host_alloc, .free = host_free, .user = NULL, .free_sealed = host_free_sealed};
}

static int host_fill(void *user, void *out, size_t bytes) {
    (void)user;
    if (sodium_init() < 0)
        return UVCC_ERR_RANDOM;
    randombytes_buf(out, bytes);
    return 0;
}

void uvcc_host_keep_memory(void) {
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
    (void)mallopt(M_TRIM_THRESHOLD, INT_MAX);
    (void)mallopt(M_ARENA_MAX, 1); /* those of other threads map and unmap what is large */
#endif
}

uvcc_random uvcc_host_random(void) {
    return (uvcc_random){.fill = host_fill, .user = NULL};
}

uint64_t uvcc_host_now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail with a valid clock and pointer */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int uvcc_host_timeout_ms(uint64_t deadline, uint64_t now) {
    const uint64_t ms = 1000000u;
    if (deadline == UVCC_NEVER)
        return -1;
    if (deadline <= now)
        return 0;
    const uint64_t wait = (deadline - now - 1) / ms + 1;
    return wait < INT_MAX ? (int)wait : INT_MAX;
}

/* Each call starts at a fresh word: what it gives depends on the sizes of the calls before it. */
static int seeded_fill(void *user, void *out, size_t bytes) {
    uvcc_seeded_random *s = user;
    uint8_t *p = out;
    uvcci_aes key;
    /* Which is best costs more to ask, in a virtual machine, than a few blocks cost to make. */
    uvcci_aes_init(&key, s->key, bytes <= 1024 ? UVCCI_AES_PORTABLE : UVCCI_AES_AUTO);
    while (bytes > 0) {
        uint64_t words[64];
        size_t n = bytes < sizeof words ? bytes : sizeof words;
        size_t count = (n + 7) / 8;
        uvcci_prg_fill(&key, (uvcci_prg_at){0}, s->counter, words, count);
        s->counter += count;
        memcpy(p, words, n);
        p += n;
        bytes -= n;
    }
    return 0;
}

uvcc_random uvcc_seeded(uvcc_seeded_random *state, uint64_t seed, uint32_t label) {
    if (state == NULL)
        return (uvcc_random){0}; /* which every configuration refuses */
    static const char domain[] = "uvcc/seeded";
    uint8_t in[sizeof domain - 1 + 12], digest[32];
    uvcci_writer w = uvcci_writer_on(in, sizeof in);
    uvcci_put(&w, domain, sizeof domain - 1);
    uvcci_put64(&w, seed);
    uvcci_put32(&w, label);
    assert(!w.bad && w.len == sizeof in);
    uvcci_sha256_once(in, w.len, digest);
    memcpy(state->key, digest, sizeof state->key);
    state->counter = 0;
    return (uvcc_random){.fill = seeded_fill, .user = state};
}
