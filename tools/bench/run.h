/* SPDX-License-Identifier: Apache-2.0 */
/* run.h - passes of a subject among three parties, each a thread of this process, and what they
 * took. Preprocessing goes from the beginning of a step until all parties wait for the input,
 * online from there until the output is open. */
#ifndef UVCC_TOOLS_BENCH_RUN_H
#define UVCC_TOOLS_BENCH_RUN_H

#include "subject.h"
#include "watch.h"

/* Bytes of keys that a party makes for a peer before that one has what came before: more would only
 * wait in memory. */
#define RUN_KEYS_QUEUED ((uint64_t)64 << 20)

typedef struct figures {
    uint32_t iters; /* that were measured, of those that were asked for */
    double online_s[BENCH_ITERS_MAX], preproc_s[BENCH_ITERS_MAX];
    /* Of a function by threads: from when all parties have its input to the end of its last job; 0:
     * not measured. */
    double function_s[BENCH_ITERS_MAX];
    double load_s;
    double processor_s;                           /* a pass, of all threads */
    uint64_t online_bytes, preproc_bytes, rounds; /* a pass; bytes of all parties */
    uint64_t gathered_bytes; /* keys with tensors before the input was there: of the last pass */
    uint64_t jobs, flushes;  /* a pass, of all parties; flushes: messages sent */
    double aes_calls;        /* a pass, of all parties */
    uint64_t gpu_bytes, rss_bytes; /* at most; gpu_bytes: 0 on the CPU */
    uint64_t calls[FAMILIES];
    watch_time families[FAMILIES], kinds[WATCH_KINDS]; /* of all measured passes */
    bool checked;
    uint64_t
        digest; /* of the last output: equal for equal seeds, whatever computes; 0: it opens none */
} figures;

/* An exit status after reporting. Interrupted, or failed after a pass: *out has what was measured
 * until then. What was interrupted keeps its memory, for interrupt_end(). */
int bench_run(const subject *s, figures *out);

#endif
