/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - the host's memory as its sessions take it: how much is in use, how often there was
 * none, and one line on the limit for whoever ran into it. */
#ifndef UVCC_TOOLS_MEMORY_H
#define UVCC_TOOLS_MEMORY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/types.h>

/* Threads of executors count here too. Stays in its place while its allocator is used. */
typedef struct memory {
    uvcc_allocator under;
    atomic_ullong used, failed; /* bytes; allocations */
    atomic_ullong wanted;       /* bytes of the last one that failed */
} memory;

/* Over `under`, which gives the memory. */
uvcc_allocator memory_counted(memory *m, const uvcc_allocator *under);
uint64_t memory_failed(const memory *m);
#define MEMORY_LINE_BYTES 256u
#define MEMORY_SIZES      "raise it, or give smaller sizes"
/* "no memory for 65536 bytes more, 31.5 MB are in use; the limit is 48.0 MB of address space
 * (ulimit -v): raise it, or give smaller sizes", as far as there is something to say. The end is
 * `advice`, where there is a limit. */
void memory_line(const memory *m, const char *advice, char out[MEMORY_LINE_BYTES]);

#endif
