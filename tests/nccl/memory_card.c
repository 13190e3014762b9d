/* SPDX-License-Identifier: Apache-2.0 */
/* The command's card.c where devices are memory of the process, and their kernels the CPU's. It is
 * for parties of several workers, and lets them hear of memory far more often than a device does.
 */
#include "card.h"

#include <stdio.h>
#include <stdlib.h>
#include <uvcc/host.h>

enum { DEVICES = 8, LEAST_BYTES = 4096 };

struct card {
    uint32_t device;
    void (*memory)(void *user, bool done);
};

uint32_t card_count(const char **why) {
    (void)why;
    return DEVICES;
}

int card_open(card **out, const card_config *c, uvcc_cpu_config *cpu, char why[CARD_TEXT_BYTES]) {
    if (c->memory == NULL) {
        (void)snprintf(why, CARD_TEXT_BYTES, "nobody hears of memory");
        return UVCC_ERR_JOB;
    }
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return UVCC_ERR_NOMEM;
    (*out)->memory = c->memory;
    (*out)->device = c->device == CARD_BY_RANK ? c->rank % DEVICES : c->device;
    cpu->mode = UVCC_CPU_THREADS;
    cpu->threads = 1;
    return 0;
}

static void *take(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator al = uvcc_host_allocator();
    const card *c = user;
    const bool said = bytes >= LEAST_BYTES && (cls == UVCC_MEM_TENSOR || cls == UVCC_MEM_WIRE);
    if (said)
        c->memory(NULL, false);
    void *p = al.alloc(al.user, bytes, cls);
    if (said)
        c->memory(NULL, true);
    return p;
}

static void give(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator al = uvcc_host_allocator();
    (void)user;
    al.free(al.user, p, bytes, cls);
}

uvcc_allocator card_allocator(card *c) {
    return (uvcc_allocator){.alloc = take, .free = give, .user = c};
}

bool card_borrows(const card *c, const card *lender) {
    return c == NULL || c->device == lender->device;
}

uint32_t card_device(const card *c) {
    return c->device;
}

const char *card_trouble(card *c) {
    (void)c;
    return "";
}

void card_bytes(card *c, uint64_t *device, uint64_t *pinned) {
    (void)c;
    *device = *pinned = 0;
}

uint64_t card_refused(const card *c) {
    (void)c;
    return 0;
}

void card_memory_line(const card *c, char out[CARD_TEXT_BYTES]) {
    (void)c;
    out[0] = '\0';
}

int card_run(card *c, const uvcc_job *job, uvcc_completion *done) {
    (void)c;
    (void)job;
    (void)done;
    return -1;
}

void card_close(card *c) {
    free(c);
}
