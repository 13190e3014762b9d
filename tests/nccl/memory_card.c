/* SPDX-License-Identifier: Apache-2.0 */
/* The command's card.c where devices are memory of the process, and their kernels the CPU's. */
#include "card.h"

#include <stdlib.h>
#include <uvcc/host.h>

enum { DEVICES = 8 };

struct card {
    uint32_t device;
};

uint32_t card_count(const char **why) {
    (void)why;
    return DEVICES;
}

int card_open(card **out, const card_config *c, uvcc_cpu_config *cpu, char why[CARD_TEXT_BYTES]) {
    (void)why;
    *out = malloc(sizeof **out);
    if (*out == NULL)
        return UVCC_ERR_NOMEM;
    (*out)->device = c->device == CARD_BY_RANK ? c->rank % DEVICES : c->device;
    cpu->mode = UVCC_CPU_THREADS;
    cpu->threads = 1;
    return 0;
}

uvcc_allocator card_allocator(card *c) {
    (void)c;
    return uvcc_host_allocator();
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
