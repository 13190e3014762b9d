/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of `uvcc train`. */
#ifndef UVCC_TOOLS_OPTIONS_H
#define UVCC_TOOLS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "flags.h"
#include "perceptron.h"
#include "run_options.h"

typedef struct train_options {
    run_options run;
    const char *data, *label, *record; /* NULL: not given */
    perceptron_options net;
    uint32_t model; /* the value of --model: mlp */
    bool force;
} train_options;

/* Reads the words after `uvcc train`. Returns 0, or -1 and one line in message. With help set,
 * nothing else has been checked. */
int options_parse(train_options *out, int argc, char *const *argv, char *message,
                  size_t message_cap);
void options_print_help(FILE *to);

#endif
