/* SPDX-License-Identifier: Apache-2.0 */
/* run_options.c - see run_options.h. */
#include "run_options.h"

#include <stdlib.h>
#include <uvcc/compute.h>

#include "card.h"
#include "compute.h"

bool run_options_calm(const run_options *o) {
    const uvcc_fault_config *f = &o->faults;
    return f->drop <= 0 && f->duplicate <= 0 && f->reorder <= 0 && f->corrupt <= 0;
}

/* Workers of one party are on a device each, that of their rank. */
static int refuse_device(const run_options *o, uint32_t workers, const flag_message *m) {
    return workers <= 1 || o->device == CARD_BY_RANK
               ? 0
               : flag_fail(m,
                           "--device (or UVCC_GPU_ID in the environment) is for one worker of each "
                           "party; these %u take a CUDA device each, by their rank",
                           workers);
}

int run_options_compute(run_options *o, bool said, uint32_t workers, const flag_message *m) {
    compute_wish wish = COMPUTE_CPU;
    if (!said && compute_read_wish(getenv, &wish, m) != 0)
        return -1;
    if (wish == COMPUTE_GPU || (wish == COMPUTE_AUTO && workers <= 1 && card_count(NULL) != 0))
        o->compute = RUN_COMPUTE_GPU;
    if (o->compute != RUN_COMPUTE_GPU)
        return 0;
    if (o->device == CARD_BY_RANK && compute_read_device(getenv, &o->device, m) != 0)
        return -1;
    return compute_read_bytes(getenv, &o->device_bytes, m) != 0 ||
                   compute_read_keys(getenv, o->device_bytes, &o->device_keys, m) != 0
               ? -1
               : refuse_device(o, workers, m);
}

int run_options_check(run_options *o, uint32_t workers, const flag_set *set, int argc,
                      char *const *argv, const flag_message *m) {
    if (run_options_compute(o, flags_given(set, argc, argv, "compute"), workers, m) != 0)
        return -1;
    const flag_idle idle[] = {
        {"fault-seed", run_options_calm(o),
         "without --drop, --duplicate, --reorder or --corrupt above 0"},
        {"compute-seed", o->compute != UVCC_CPU_DEFERRED, "without --compute deferred"},
        {"device", o->compute != RUN_COMPUTE_GPU, "without --compute gpu"},
        {"parties", o->compute == UVCC_CPU_DEFERRED, "with --compute deferred, which takes turns"},
        {"parties", o->trace != NULL || o->profile, "with --trace or --profile, which take turns"},
        {"parties", !run_options_calm(o),
         "with --drop, --duplicate, --reorder or --corrupt, which take turns"},
    };
    return flags_refuse_idle(set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}
