/* SPDX-License-Identifier: Apache-2.0 */
/* card.h - a worker's executor on a CUDA device, behind the type that hosts know. Without
 * libuvcc-gpu there is none, and the error says so. */
#ifndef UVCC_TOOLS_CARD_H
#define UVCC_TOOLS_CARD_H

#include <stdbool.h>
#include <uvcc/compute.h>

typedef struct card card;

/* Which device, and how much of it. */
#define CARD_BY_RANK UINT32_MAX
typedef struct card_config {
    uint32_t device;     /* its number, or CARD_BY_RANK: `rank` modulo the number of devices */
    uint32_t rank;       /* of the worker among those of its party */
    uint64_t bytes;      /* what the session may take of the device at most; 0: no limit */
    uint32_t streams;    /* as in uvcc_gpu_config; 0: its default */
    bool trust_pointers; /* as there */
    void (*memory)(void *user, bool done); /* as there, of no user */
    card *lender; /* NULL, or that of the session from which this one's borrows; on another
                     device nothing is lent */
} card_config;

#define CARD_TEXT_BYTES 256u

/* Devices that can be used; 0: *why says why there is none (NULL: nobody asks). Begins CUDA in this
 * process: it does not work any more in children that are forked afterwards. */
uint32_t card_count(const char **why);
/* Makes it and sets what `cpu` needs for it; its wake and job hooks are the device's now. 0, or an
 * error and in `why` what is wrong and what to give: UVCC_ERR_CONFIG: there is no device or not
 * that one; else the device refuses to work, or there is no memory. */
int card_open(card **out, const card_config *c, uvcc_cpu_config *cpu, char why[CARD_TEXT_BYTES]);
/* Memory for the session whose jobs it runs. */
uvcc_allocator card_allocator(card *c);
/* Whether it may read what the lender's session has: both are on one device. NULL: on none. */
bool card_borrows(const card *c, const card *lender);
/* The number of its device. */
uint32_t card_device(const card *c);
/* What went wrong first; "" if nothing did, or there is no card. */
const char *card_trouble(card *c);
/* What it has of the device, and of pinned memory, at most; 0 of NULL. */
void card_bytes(card *c, uint64_t *device, uint64_t *pinned);
/* How often its memory was refused; 0 of NULL. */
uint64_t card_refused(const card *c);
/* One line on that, with what to do. */
void card_memory_line(const card *c, char out[CARD_TEXT_BYTES]);
/* Runs a job and waits for its completion: 0, or it was not taken. For executors that nobody else
 * uses. */
int card_run(card *c, const uvcc_job *job, uvcc_completion *done);
/* After the executor that was made of `cpu`, and the session. NULL: nothing. */
void card_close(card *c);

#endif
