/* SPDX-License-Identifier: Apache-2.0 */
/* nccl_library.h - libuvcc-nccl, loaded when it is needed, so that the command runs where there is
 * no NCCL. */
#ifndef UVCC_TOOLS_NCCL_LIBRARY_H
#define UVCC_TOOLS_NCCL_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>
#include <uvcc/nccl.h>

/* The functions of the library that the tools call. */
typedef struct nccl_library {
    int (*make)(uvcc_nccl **out, const uvcc_nccl_config *cfg);
    void (*close)(uvcc_nccl *n);
    int (*over)(const uvcc_nccl *n);
    void (*free)(uvcc_nccl *n);
    int (*heard)(uvcc_nccl *n, uint32_t from, const void *bytes, size_t len);
    int (*submit)(uvcc_nccl *n, const uvcc_job *job);
    int (*poll)(uvcc_nccl *n, uvcc_completion *out);
    uint32_t (*pending)(const uvcc_nccl *n);
    void (*fail)(uvcc_nccl *n, uint32_t code, const char *why);
    void (*pause)(void);
    void (*resume)(void);
    int (*why)(const uvcc_nccl *n, uint32_t *rank, uint32_t *code, char why[UVCC_NCCL_WHY_BYTES]);
} nccl_library;

/* NULL, and then *why says what is missing, in words for whoever gave the option; they stay valid
 * until the next call. */
const nccl_library *nccl_library_load(const char **why);

/* A reason, with the worker where it was. */
#define NCCL_LIBRARY_WHY_BYTES (UVCC_NCCL_WHY_BYTES + 32u)
/* Whether the workers of a party failed, and why, as n says it, which is the one of that rank: its
 * own number is left out. */
bool nccl_library_why(const nccl_library *lib, const uvcc_nccl *n, uint32_t local_rank,
                      uint32_t *code, char why[NCCL_LIBRARY_WHY_BYTES]);

/* The hook `memory` of executors beside those workers, when the library is loaded. */
void nccl_library_on_memory(void *user, bool done);

#endif
