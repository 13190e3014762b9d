/* SPDX-License-Identifier: Apache-2.0 */
/* card.c - see card.h. */
#include "card.h"

#include <uvcc/host.h>

#ifdef UVCC_WITH_GPU

#include <stdlib.h>
#include <uvcc/gpu.h>

struct card {
    uvcc_gpu *gpu;
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

int card_open(card **out, uvcc_cpu_config *cpu, uint32_t device, const char **why) {
    uvcc_gpu_config cfg = {.size = sizeof cfg,
                           .device = device,
                           .wake = cpu->wake,
                           .wake_user = cpu->wake_user,
                           .job = cpu->job,
                           .job_user = cpu->job_user};
    cfg.alloc = uvcc_host_allocator();
    *why = NULL;
    if (uvcc_gpu_count(why) == 0)
        return UVCC_ERR_CONFIG;
    card *c = calloc(1, sizeof *c);
    if (c == NULL)
        return UVCC_ERR_NOMEM;
    const int rc = uvcc_gpu_new(&c->gpu, &cfg);
    if (rc != 0) {
        free(c);
        return rc;
    }
    cpu->mode = UVCC_CPU_ELSEWHERE;
    cpu->elsewhere =
        (uvcc_cpu_elsewhere){.submit = submit, .poll = poll_done, .wait = wait_for, .user = c->gpu};
    *out = c;
    return 0;
}

uvcc_allocator card_allocator(card *c) {
    return uvcc_gpu_allocator(c->gpu);
}

const char *card_trouble(card *c) {
    return uvcc_gpu_trouble(c->gpu);
}

void card_close(card *c) {
    if (c != NULL)
        uvcc_gpu_free(c->gpu);
    free(c);
}

#else

int card_open(card **out, uvcc_cpu_config *cpu, uint32_t device, const char **why) {
    (void)out;
    (void)device;
    (void)cpu;
    *why = "this program was built without libuvcc-gpu";
    return UVCC_ERR_CONFIG;
}

uvcc_allocator card_allocator(card *c) {
    (void)c;
    return uvcc_host_allocator();
}

const char *card_trouble(card *c) {
    (void)c;
    return "";
}

void card_close(card *c) {
    (void)c;
}

#endif
