/* SPDX-License-Identifier: Apache-2.0 */
/* runflags.h - the flags of run_options.h: how products and jobs are made, what the network does,
 * what is written. A table of flags includes RUN_FLAGS(AT) if its options have a run_options called
 * `run`. The flag of --seed is the command's own, since its help says of what. */
#ifndef UVCC_TOOLS_RUNFLAGS_H
#define UVCC_TOOLS_RUNFLAGS_H

#include <uvcc/compute.h>
#include <uvcc/program.h>

#include "card.h"
#include "flags.h"
#include "run_options.h"

/* Values of choices are those of uvcc_truncation, uvcc_products and uvcc_cpu_mode. */
static const char *const run_truncations[] = {"ars", "sr", "ars-dcf", NULL};
static const char *const run_products[] = {"native", "beaver", NULL};
static const char *const run_computes[] = {"inline", "deferred", "threads", "gpu", NULL};
static const char *const run_parties_names[] = {"threads", "turns", NULL};
_Static_assert(UVCC_TRUNC_EXACT == 0 && UVCC_TRUNC_STOCHASTIC == 1 && UVCC_TRUNC_EXACT_DCF == 2,
               "order of run_truncations[]");
_Static_assert(UVCC_PRODUCTS_NATIVE == 0 && UVCC_PRODUCTS_BEAVER == 1, "order of run_products[]");
_Static_assert(UVCC_CPU_INLINE == 0 && UVCC_CPU_DEFERRED == 1 && UVCC_CPU_THREADS == 2,
               "order of run_computes[]");
_Static_assert(RUN_COMPUTE_GPU == 3, "order of run_computes[]");
_Static_assert(RUN_PARTIES_THREADS == 0 && RUN_PARTIES_TURNS == 1, "order of run_parties_names[]");

#define RUN_DEFAULTS                                                                               \
    {                                                                                              \
        .compute = UVCC_CPU_INLINE, .device = CARD_BY_RANK, .seed = 1, .compute_seed = 1,          \
        .fault_seed = 1                                                                            \
    }

/* Of every command that has --compute gpu. */
#define RUN_DEVICE_FLAG(at)                                                                        \
    {                                                                                              \
        "device", "N", FLAG_COUNT, at, 0, 65535, NULL,                                             \
            "number of the CUDA device (UVCC_GPU_ID, or the worker's rank modulo the number of "   \
            "devices)"                                                                             \
    }

#define RUN_FLAGS(AT)                                                                              \
    {"products",                                                                                   \
     "native|beaver",                                                                              \
     FLAG_CHOICE,                                                                                  \
     AT(run.products),                                                                             \
     0,                                                                                            \
     0,                                                                                            \
     run_products,                                                                                 \
     "matrix products: native, or on triples made ahead: the same weights (native)"},              \
        {"compute",                                                                                \
         "inline|deferred|threads|gpu",                                                            \
         FLAG_CHOICE,                                                                              \
         AT(run.compute),                                                                          \
         0,                                                                                        \
         0,                                                                                        \
         run_computes,                                                                             \
         "when jobs run: at once, late and shuffled, on threads, or on a CUDA device (inline)"},   \
        RUN_DEVICE_FLAG(AT(run.device)), {"compute-seed",                                          \
                                          "N",                                                     \
                                          FLAG_SEED,                                               \
                                          AT(run.compute_seed),                                    \
                                          0,                                                       \
                                          0,                                                       \
                                          NULL,                                                    \
                                          "of the shuffle of deferred (1)"},                       \
        {"parties",                                                                                \
         "threads|turns",                                                                          \
         FLAG_CHOICE,                                                                              \
         AT(run.parties),                                                                          \
         0,                                                                                        \
         0,                                                                                        \
         run_parties_names,                                                                        \
         "a thread for each worker of each party, or one that takes turns; faults, --compute "     \
         "deferred, --record, and without --compute gpu --trace and --profile take turns "         \
         "(threads)"},                                                                             \
        {"drop", "P", FLAG_RATE, AT(run.faults.drop),                                              \
         0,      0,   NULL,      "rate of packets lost, 0 <= P < 1 (0)"},                          \
        {"duplicate", "P", FLAG_RATE, AT(run.faults.duplicate), 0, 0, NULL, "... doubled (0)"},    \
        {"reorder", "P", FLAG_RATE, AT(run.faults.reorder),                                        \
         0,         0,   NULL,      "... delayed behind later ones (0)"},                          \
        {"corrupt", "P", FLAG_RATE, AT(run.faults.corrupt),                                        \
         0,         0,   NULL,      "... with bits flipped (0)"},                                  \
        {"fault-seed", "N", FLAG_SEED, AT(run.fault_seed), 0, 0, NULL, "of these faults (1)"},     \
        {"json",    "FILE|-",                                                                      \
         FLAG_TEXT, AT(run.json),                                                                  \
         0,         0,                                                                             \
         NULL,      "write the results as JSON; with -, alone on standard output"},                \
        {"audit",                                                                                  \
         "DIR",                                                                                    \
         FLAG_TEXT,                                                                                \
         AT(run.audit),                                                                            \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "write each step's bundle of each party for uvcc audit; DIR must have none of this run"}, \
        {"policy",                                                                                 \
         "FILE",                                                                                   \
         FLAG_TEXT,                                                                                \
         AT(run.policy),                                                                           \
         0,                                                                                        \
         0,                                                                                        \
         NULL,                                                                                     \
         "what the three parties allow, which their sessions enforce (docs/policy.md); limits "    \
         "count in this run"},                                                                     \
        {"trace", "FILE", FLAG_TEXT, AT(run.trace),                                                \
         0,       0,      NULL,      "write what ran and waited, for Perfetto (ui.perfetto.dev)"}, \
        {"profile", NULL, FLAG_SWITCH, AT(run.profile),                                            \
         0,         0,    NULL,        "show what each kind of op took: compute, waits, bytes"},   \
        {"progress", NULL, FLAG_SWITCH, AT(run.progress),                                          \
         0,          0,    NULL,        "show progress even where standard error is no terminal"}, \
    {                                                                                              \
        "help", NULL, FLAG_SWITCH, AT(run.help), 0, 0, NULL, "show this"                           \
    }

#endif
