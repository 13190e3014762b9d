/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_link_acks.c - acknowledgements of a peer that has the keys and wants to do harm; acks.h says
 * how and what must hold. */
#include "acks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    (void)acks_run(data, size);
    return 0;
}
