/* SPDX-License-Identifier: Apache-2.0 */
/* train_report.h - what the training of a perceptron shows: progress, the summary, JSON. */
#ifndef UVCC_TOOLS_TRAIN_REPORT_H
#define UVCC_TOOLS_TRAIN_REPORT_H

#include <jansson.h>
#include <uvcc/types.h>

#include "options.h"
#include "report.h"

/* What a run has to say at its end; names as in the JSON output. */
typedef struct train_result {
    uint32_t steps, test_rows, test_right, reference_right;
    bool reference_equal;
    uint8_t weights_sha256[32];
    uint8_t global_root[UVCC_PARTIES][32];                                 /* of the last step */
    uint64_t bytes_online, bytes_preprocessing, messages, retransmissions; /* of all parties */
    uint64_t rounds;                                                       /* of party 0 */
    double time_s;
} train_result;

typedef struct train_progress {
    report_pace pace;
    uint32_t epochs, steps_per_epoch, batch;
} train_progress;
void train_progress_start(train_progress *p, const train_options *o, uint32_t steps_per_epoch);
/* True if it is time for another report after `steps` finished training steps. */
bool train_progress_due(train_progress *p, uint32_t steps);
void train_progress_show(train_progress *p, uint32_t steps, double loss, uint64_t bytes,
                         uint64_t rounds);

/* NULL without memory. */
json_t *train_report_json(const train_result *r);
void train_report_summary(const train_options *o, const train_result *r);

#endif
