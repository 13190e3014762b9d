/* SPDX-License-Identifier: Apache-2.0 */
/* compute.h - what the environment says of where jobs run: UVCC_FSS_BACKEND, which counts where
 * neither an option nor a file says so, UVCC_GPU_ID, UVCC_GPU_BYTES, UVCC_GPU_KEYS_BYTES. */
#ifndef UVCC_TOOLS_COMPUTE_H
#define UVCC_TOOLS_COMPUTE_H

#include <stdint.h>

#include "flags.h"

/* Where values come from; getenv() is one. */
typedef char *compute_getenv(const char *name);

/* Of UVCC_FSS_BACKEND. */
typedef enum compute_wish {
    COMPUTE_CPU, /* as it is without the variable; also if it is not set */
    COMPUTE_GPU, /* a CUDA device, or an error */
    COMPUTE_AUTO /* a CUDA device if there is one that can be used, else the CPU */
} compute_wish;

/* These return 0, or -1 and one line that names the variable and what to give. What is not set
 * leaves *out as it is (a wish: COMPUTE_CPU). */
int compute_read_wish(compute_getenv *env, compute_wish *out, const flag_message *m);
/* UVCC_GPU_ID: the number of a device. */
int compute_read_device(compute_getenv *env, uint32_t *out, const flag_message *m);
/* UVCC_GPU_BYTES: a whole number with B, KiB, MiB, GiB, TiB, kB, MB, GB, TB or nothing behind it;
 * at least a MiB. */
int compute_read_bytes(compute_getenv *env, uint64_t *out, const flag_message *m);

/* UVCC_GPU_KEYS_BYTES: a size as that, or 0, and no more than device_bytes if there is such a limit
 * (0: there is none); what is usual if it is not set. */
int compute_read_keys(compute_getenv *env, uint64_t device_bytes, uint64_t *out,
                      const flag_message *m);

/* For --help: what these do, in lines of flags_text(). */
extern const char compute_help[];

#endif
