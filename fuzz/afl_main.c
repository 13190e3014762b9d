/* SPDX-License-Identifier: Apache-2.0 */
/* afl_main.c - a fuzz target under AFL++, persistent and in shared memory: afl-clang-fast only. */
#include "common.h"

#include <unistd.h>

__AFL_FUZZ_INIT()

int main(void) {
    __AFL_INIT();
    const uint8_t *shared = __AFL_FUZZ_TESTCASE_BUF;
    while (__AFL_LOOP(10000)) {
        size_t size = (size_t)__AFL_FUZZ_TESTCASE_LEN;
        uint8_t *data = fuzz_copy(shared, size);
        (void)LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    return 0;
}
