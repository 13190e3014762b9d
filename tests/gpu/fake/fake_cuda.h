/* SPDX-License-Identifier: Apache-2.0 */
/* fake_cuda.h - what a test has a device of fake_cuda.c do. All calls of the runtime that may wait
 * on a real card wait here while the test says so. */
#ifndef UVCC_TESTS_GPU_FAKE_H
#define UVCC_TESTS_GPU_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum fake_call {
    FAKE_NONE,
    FAKE_MALLOC,
    FAKE_HOST_ALLOC,
    FAKE_LAUNCH,
    FAKE_MEMSET
} fake_call;

/* The device of that number, of so many, of that architecture. */
void fake_devices(int count, int usable, int major, int minor);
/* Calls of that kind wait from now on, until FAKE_NONE. An hour passes while the first one does. */
void fake_block(fake_call c);
/* What comes of memory of the host's own that is to be pinned. */
typedef enum fake_pins {
    FAKE_PINS_THERE,     /* kernels have it where it is */
    FAKE_PINS_ELSEWHERE, /* ... at another address */
    FAKE_PINS_KEPT,      /* the same, and the device does not let it go */
    FAKE_PINS_NOT        /* it is refused */
} fake_pins;
void fake_pin(fake_pins how);
/* Memory that is the host's own, of fake_pinned_bytes(). */
size_t fake_pages_bytes(void);
/* The device lets all of that go. Whether all of it was still mapped, or was none. */
bool fake_pages_go(void);
/* Kernels that are launched from now on never end, and nothing behind them; 0: they do again, those
 * before stay. An hour passes when so many jobs hang, and the thread that said this has looked at
 * the clock, as it does when it waits for a job. */
void fake_hang(unsigned jobs);
/* Executors see it (fake_clock.h). */
void fake_hour_passes(void);
void fake_looks_at_clock(void);
/* A kernel of the next job fails when all of it is launched, and so do calls after that. */
void fake_break(void);
/* Memory of the device that is out now, of the host. */
size_t fake_device_bytes(void);
size_t fake_pinned_bytes(void);
/* Whether these bytes stand somewhere in it. */
bool fake_pinned_has(const void *bytes, size_t len);
/* Memory of the device that is given back from now on is looked through for these bytes, and
 * whether they stood there. They stay the test's. */
void fake_watch(const void *bytes, size_t len);
bool fake_watched(void);
/* Bytes that kernels hashed where they lie in memory of the host. */
size_t fake_hashed_over_bus(void);
/* Memory of the device that is the test's own. */
void *fake_device_memory(size_t bytes);
/* Kernels of copies that were launched. */
unsigned fake_byte_launches(void);

#endif
