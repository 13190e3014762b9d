/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_trace.c - a list of the kernels that a program's devices ran, for bench/kernel_table.py,
 * where no Nsight Systems is:
 *
 *     UVCC_KERNEL_TRACE=list CUDA_INJECTION64_PATH=build/bench/gpu/libkernel_trace.so uvcc bench
 * ...
 *
 * CUDA loads the library when a program initialises it, and CUPTI, of the toolkit, tells it of
 * kernels and copies. Lines of the list: "N number name", and "K start end stream number", in
 * nanoseconds of CUPTI's clock; "C start end stream bytes kind" of copies; "T cupti monotonic", one
 * moment by both clocks, at the beginning and the end. Records come in buffers, so a kernel costs a
 * microsecond or two; the list is written when the program exits. */
#include <cupti.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BUFFER = 4 << 20, NAMES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *list;
static char *names[NAMES];
static size_t n_names;

static void write_moment(void) {
    uint64_t cupti = 0;
    struct timespec now;
    if (cuptiGetTimestamp(&cupti) == CUPTI_SUCCESS && clock_gettime(CLOCK_MONOTONIC, &now) == 0)
        fprintf(list, "T %" PRIu64 " %" PRIu64 "\n", cupti,
                (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

/* Few kinds of kernels have many launches, so a name is looked for from the first on. */
static size_t number_of(const char *name) {
    size_t i = 0;
    while (i < n_names && strcmp(names[i], name) != 0)
        ++i;
    if (i == n_names && n_names < NAMES && (names[n_names] = strdup(name)) != NULL) {
        ++n_names;
        fprintf(list, "N %zu %s\n", i, name);
    }
    return i;
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *max_records) {
    *buffer = aligned_alloc(8, BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *max_records = 0;
}

static void write_record(const CUpti_Activity *record) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;
        size_t number = number_of(k->name != NULL ? k->name : "?");
        fprintf(list, "K %" PRIu64 " %" PRIu64 " %" PRIu32 " %zu\n", k->start, k->end, k->streamId,
                number);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy6 *c = (const CUpti_ActivityMemcpy6 *)record;
        fprintf(list, "C %" PRIu64 " %" PRIu64 " %" PRIu32 " %" PRIu64 " %u\n", c->start, c->end,
                c->streamId, c->bytes, (unsigned)c->copyKind);
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid) {
    (void)context;
    (void)stream;
    (void)size;
    pthread_mutex_lock(&lock);
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
        write_record(record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static void finish(void) {
    cuptiActivityFlushAll(1);
    pthread_mutex_lock(&lock);
    write_moment();
    if (fclose(list) != 0)
        fputs("kernel_trace: the list could not be written whole\n", stderr);
    pthread_mutex_unlock(&lock);
}

/* CUDA calls it by its name; 0: it could not be initialised. */
int InitializeInjection(void);
int InitializeInjection(void) {
    const char *path = getenv("UVCC_KERNEL_TRACE");
    list = path != NULL ? fopen(path, "w") : NULL;
    if (list == NULL) {
        fputs("kernel_trace: name the list's file in UVCC_KERNEL_TRACE\n", stderr);
        return 0;
    }
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) != CUPTI_SUCCESS ||
        cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY) != CUPTI_SUCCESS) {
        fputs("kernel_trace: CUPTI says no\n", stderr);
        return 0;
    }
    write_moment();
    atexit(finish);
    return 1;
}
