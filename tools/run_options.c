/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.c - see run_options.h. */
#include "run_options.h"

#include <uvcc/compute.h>

int run_options_check(const run_options *o, const flag_set *set, int argc, char *const *argv,
                      const flag_message *m) {
    const uvcc_fault_config *f = &o->faults;
    const bool calm = f->drop <= 0 && f->duplicate <= 0 && f->reorder <= 0 && f->corrupt <= 0;
    const flag_idle idle[] = {
        {"fault-seed", calm, "without --drop, --duplicate, --reorder or --corrupt above 0"},
        {"compute-seed", o->compute != UVCC_CPU_DEFERRED, "without --compute deferred"},
    };
    return flags_refuse_idle(set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}
