/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/host.h - the usual hooks for hosts on an operating system: malloc, the system's random
 * bytes, a monotonic clock, and a seeded random source for simulations. The library core uses none
 * of it. */
#ifndef UVCC_HOST_H
#define UVCC_HOST_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** aligned_alloc / free; UVCC_MEM_SECRET blocks are locked if the system lets us. */
UVCC_API uvcc_allocator uvcc_host_allocator(void);
/** For main(), before threads: malloc keeps what is freed, of all threads in one place (glibc;
 * elsewhere nothing). A step takes and gives back the large blocks of the step before, and fresh
 * pages for each of them can cost more than what is computed. */
UVCC_API void uvcc_host_keep_memory(void);
/** The operating system's generator (libsodium randombytes). */
UVCC_API uvcc_random uvcc_host_random(void);
/** Monotonic nanoseconds. */
UVCC_API uint64_t uvcc_host_now_ns(void);

/** A deadline (uvcc_session_next_deadline) as a timeout for poll() and epoll_wait(): whole
 * milliseconds from now, rounded up, so that a wait never ends before it; 0: it has come; -1:
 * UVCC_NEVER; INT_MAX at most. */
UVCC_API int uvcc_host_timeout_ms(uint64_t deadline, uint64_t now);

/** A deterministic stream for tests and simulations only: AES-CTR under SHA-256 of the seed and a
 * label. `state` must outlive the hook. */
typedef struct uvcc_seeded_random {
    uint8_t key[16];
    uint64_t counter;
} uvcc_seeded_random;
UVCC_API uvcc_random uvcc_seeded(uvcc_seeded_random *state, uint64_t seed, uint32_t label);

#ifdef __cplusplus
}
#endif
#endif
