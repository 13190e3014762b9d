/* SPDX-License-Identifier: Apache-2.0 */
/* uring.h - sizes of the completion back end, for it and for its tests. */
#ifndef UVCC_IO_URING_H
#define UVCC_IO_URING_H

#include <stdint.h>

#include "io_adapters/net/io.h"

/** Of a net, for what came and is not read yet: 4 MiB. */
enum { UVCCI_URING_BUFFERS = 64, UVCCI_URING_BUFFER_BYTES = 64 << 10 };

/** Writes from here on go without a copy. */
enum { UVCCI_URING_ZC_BYTES = 1 << 20 };
/** The same; a test may want it small. */
extern uint32_t uvcci_uring_zc_bytes;

#endif
