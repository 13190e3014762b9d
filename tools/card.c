/* SPDX-License-Identifier: Apache-2.0 */
/* card.c - see card.h. */
#include "card.h"

#include <stdio.h>
#include <stdlib.h>
#include <uvcc/host.h>

#include "memory.h"

#ifdef UVCC_WITH_GPU

#include <uvcc/gpu.h>

struct card {
    uvcc_gpu *gpu;
    card_config c;
    memory memory; /* what the session takes, and what it was refused */
    uvcc_allocator al;
};

static int submit(void *user, const uvcc_job *job) {
    return uvcc_gpu_submit(user, job);
}

static int poll_done(void *user, uvcc_completion *out) {
    return uvcc_gpu_poll(user, out);
}

static void wait_for(void *user) {
    uvcc_gpu_wait(user);
}

uint32_t card_count(const char **why) {
    return uvcc_gpu_count(why);
}

/* The number, of those that are here. */
static int find_device(card_config *c, char why[CARD_TEXT_BYTES]) {
    const char *reason = NULL;
    const uint32_t count = uvcc_gpu_count(&reason);
    if (count == 0) {
        (void)snprintf(why, CARD_TEXT_BYTES, "%s", reason);
        return UVCC_ERR_CONFIG;
    }
    if (c->device == CARD_BY_RANK)
        c->device = c->rank % count;
    if (c->device < count)
        return 0;
    (void)snprintf(why, CARD_TEXT_BYTES,
                   "there is no CUDA device %u; this machine has %u, so give 0 to %u", c->device,
                   count, count - 1);
    return UVCC_ERR_CONFIG;
}

int card_open(card **out, const card_config *config, uvcc_cpu_config *cpu,
              char why[CARD_TEXT_BYTES]) {
    card_config at = *config;
    int rc = find_device(&at, why);
    if (rc != 0)
        return rc;
    uvcc_gpu_config cfg = {
        .size = sizeof cfg,
        .device = at.device,
        .device_bytes = at.bytes,
        .streams = at.streams,
        .trust_pointers = at.trust_pointers,
        .memory = at.memory,
        .lender = at.lender != NULL && at.lender->c.device == at.device ? at.lender->gpu : NULL,
        .wake = cpu->wake,
        .wake_user = cpu->wake_user,
        .job = cpu->job,
        .job_user = cpu->job_user};
    cfg.alloc = uvcc_host_allocator();
    card *c = calloc(1, sizeof *c);
    rc = c == NULL ? UVCC_ERR_NOMEM : uvcc_gpu_new(&c->gpu, &cfg);
    if (rc != 0) {
        (void)snprintf(why, CARD_TEXT_BYTES, "CUDA device %u cannot be used: %s", at.device,
                       uvcc_error_text(rc));
        free(c);
        return rc == UVCC_ERR_CONFIG ? UVCC_ERR_JOB : rc;
    }
    c->c = at;
    const uvcc_allocator under = uvcc_gpu_allocator(c->gpu);
    c->al = memory_counted(&c->memory, &under);
    cpu->mode = UVCC_CPU_ELSEWHERE;
    cpu->elsewhere =
        (uvcc_cpu_elsewhere){.submit = submit, .poll = poll_done, .wait = wait_for, .user = c->gpu};
    *out = c;
    return 0;
}

uvcc_allocator card_allocator(card *c) {
    return c->al;
}

bool card_borrows(const card *c, const card *lender) {
    return c == NULL || (c->c.lender == lender && c->c.device == lender->c.device);
}

uint32_t card_device(const card *c) {
    return c->c.device;
}

const char *card_trouble(card *c) {
    return c != NULL ? uvcc_gpu_trouble(c->gpu) : "";
}

void card_bytes(card *c, uint64_t *device, uint64_t *pinned) {
    *device = *pinned = 0;
    if (c != NULL)
        (void)uvcc_gpu_memory(c->gpu, device, pinned);
}

uint64_t card_refused(const card *c) {
    return c != NULL ? memory_failed(&c->memory) : 0;
}

void card_memory_line(const card *c, char out[CARD_TEXT_BYTES]) {
    char limit[96] = "";
    if (c->c.bytes != 0)
        (void)snprintf(limit, sizeof limit, "raise UVCC_GPU_BYTES, which is %llu now, or ",
                       (unsigned long long)c->c.bytes);
    (void)snprintf(out, CARD_TEXT_BYTES,
                   "CUDA device %u has no memory for %llu bytes more, %.1f MB are in use there and "
                   "in pinned memory; %sgive smaller sizes",
                   c->c.device, (unsigned long long)atomic_load(&c->memory.wanted),
                   (double)atomic_load(&c->memory.used) * 1e-6, limit);
}

int card_run(card *c, const uvcc_job *job, uvcc_completion *done) {
    if (uvcc_gpu_submit(c->gpu, job) != 0)
        return -1;
    uvcc_gpu_wait(c->gpu);
    return uvcc_gpu_poll_of(c->gpu, job->cookie, done) == 1 ? 0 : -1;
}

void card_close(card *c) {
    if (c != NULL)
        uvcc_gpu_free(c->gpu);
    free(c);
}

#else

static const char none[] = "this program was built without libuvcc-gpu";

uint32_t card_count(const char **why) {
    if (why != NULL)
        *why = none;
    return 0;
}

int card_open(card **out, const card_config *c, uvcc_cpu_config *cpu, char why[CARD_TEXT_BYTES]) {
    (void)out;
    (void)c;
    (void)cpu;
    (void)snprintf(why, CARD_TEXT_BYTES, "%s", none);
    return UVCC_ERR_CONFIG;
}

uvcc_allocator card_allocator(card *c) {
    (void)c;
    return uvcc_host_allocator();
}

bool card_borrows(const card *c, const card *lender) {
    (void)c;
    (void)lender;
    return true;
}

uint32_t card_device(const card *c) {
    (void)c;
    return 0;
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
    (void)c;
}

#endif
