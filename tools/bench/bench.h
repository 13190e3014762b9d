/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - `uvcc bench`: the forward pass of a transformer, or one function of it, among three
 * parties that are threads of this process, or processes, on the CPU or on CUDA devices, with the
 * keys dealt before the input is there. One JSON object, docs/json/bench.schema.json. */
#ifndef UVCC_TOOLS_BENCH_BENCH_H
#define UVCC_TOOLS_BENCH_BENCH_H

#include "../flags.h"
#include "../run_options.h"
#include "job.h"

/* The words after `uvcc bench`; returns the exit status. */
int bench_main(int argc, char *const *argv);

/* ---- for the files of this command ---- */

enum { BENCH_MESSAGE_BYTES = 512, BENCH_ITERS_MAX = 1000 };

typedef struct bench_options {
    run_options run;                       /* json, compute, device, device_bytes, progress */
    const char *model, *hardware, *commit; /* NULL: not given */
    const char *job_file;                  /* NULL: all three parties are here */
    const bench_job *job;                  /* what it says; NULL without it */
    uint32_t party;                        /* with it: the one of this process */
    uint32_t micro;                        /* 0: none; else 1 + its place in micros.def */
    uint32_t backend;                      /* 0: CPU */
    uint32_t seq_len, batch_size, n_iters, warmup;
    uint32_t public_weights; /* 0: secret */
    uint32_t threads, streams;
    uint32_t keys_ahead;    /* MiB that each party deals ahead for each peer; 0: all of a pass */
    uint32_t keys_gathered; /* MiB for keys that came, of each party, ahead of use */
    uint32_t layers, width; /* 0: not given */
    uint32_t mode;          /* uvcc_model_mode */
    uint32_t frac_bits, value_bits, weight_bits; /* 0: not given */
    uint32_t inner_bits, index_bits;
    bool whole, fold, audit, check, trust, tasks, spread, list, dry_run;
    bool no_eff_bits, no_ragged_pack, no_fusion;
} bench_options;

/* What all three processes of --job must have alike: so many names, at most `most`, and a hash of
 * each value, of at most 60 bits. */
uint32_t bench_alike(const bench_options *o, uint64_t *hash, const char **name, uint32_t most);

/* Names of micros.def. */
extern const char *const bench_micros[];

#endif
