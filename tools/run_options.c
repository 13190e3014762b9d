/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.c - see run_options.h. */
#include "run_options.h"

#include <uvcc/compute.h>

bool run_options_calm(const run_options *o) {
    const uvcc_fault_config *f = &o->faults;
    return f->drop <= 0 && f->duplicate <= 0 && f->reorder <= 0 && f->corrupt <= 0;
}

int run_options_check(const run_options *o, const flag_set *set, int argc, char *const *argv,
                      const flag_message *m) {
    const flag_idle idle[] = {
        {"fault-seed", run_options_calm(o),
         "without --drop, --duplicate, --reorder or --corrupt above 0"},
        {"compute-seed", o->compute != UVCC_CPU_DEFERRED, "without --compute deferred"},
        {"parties", o->compute == UVCC_CPU_DEFERRED, "with --compute deferred, which takes turns"},
        {"parties", o->trace != NULL || o->profile, "with --trace or --profile, which take turns"},
        {"parties", !run_options_calm(o),
         "with --drop, --duplicate, --reorder or --corrupt, which take turns"},
    };
    return flags_refuse_idle(set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}
