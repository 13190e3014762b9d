/* SPDX-License-Identifier: Apache-2.0 */
/* none.c - liburing is not built in. */
#include "io_adapters/net/io.h"

const uvcci_io_ops *uvcci_io_uring(void) {
    return NULL;
}

int uvcci_io_uring_works(const char **why) {
    *why = "io_uring is not built in (liburing)";
    return UVCC_ERR_NOT_FOUND;
}
