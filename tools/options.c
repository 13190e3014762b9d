/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - one table says what the options are, what they may be and what --help says of them.
 */
#include "options.h"

#include "runflags.h"

#define HIDDEN_UNITS_MAX 4096u

static const char *const models[] = {"mlp", "transformer", NULL};
static const char *const compares[] = {"fss", "circuit", NULL};
_Static_assert(UVCC_COMPARE_FSS == 0 && UVCC_COMPARE_CIRCUIT == 1, "order of compares[]");

#define AT(member) offsetof(train_options, member)
static const flag options[] = {
    {"model", "mlp|transformer", FLAG_CHOICE, AT(model), 0, 0, models,
     "what follows is of mlp; see uvcc train --model transformer --help (mlp)"},
    {"data", "FILE", FLAG_TEXT, AT(data), 0, 0, NULL,
     "CSV file: numbers, a row per line, one column of labels 0..4095. Required"},
    {"label", "COLUMN", FLAG_TEXT, AT(label), 0, 0, NULL,
     "the label's column, by number from 1 or by header name (last)"},
    {"hidden", "N[,N...]", FLAG_LIST, AT(hidden), 1, HIDDEN_UNITS_MAX, NULL,
     "units of each hidden layer, at most 15 layers (64)"},
    {"epochs", "N", FLAG_COUNT, AT(epochs), 1, 10000, NULL, "passes over the training rows (5)"},
    {"batch", "N", FLAG_COUNT, AT(batch), 1, 1u << 20, NULL, "rows per step, a power of two (16)"},
    {"lr-shift", "N", FLAG_COUNT, AT(lr_shift), 0, 20, NULL,
     "the learning rate is 2^-N, on the mean over a batch (2)"},
    {"frac-bits", "N", FLAG_COUNT, AT(frac_bits), 4, 24, NULL, "fraction bits of fixed point (16)"},
    {"seed", "N", FLAG_SEED, AT(run.seed), 0, 0, NULL,
     "of initial weights, order of rows, keys and masks (1)"},
    {"truncation", "ars|sr|ars-dcf", FLAG_CHOICE, AT(truncation), 0, 0, run_truncations,
     "ars: exact, equal to the plaintext run; sr: stochastic, cheaper; ars-dcf: as ars in fewer "
     "rounds, more bytes (ars)"},
    {"compare", "fss|circuit", FLAG_CHOICE, AT(compare), 0, 0, compares,
     "ReLU's comparison: fss: on dealt keys, fewer rounds; circuit: no keys, fewer bytes (fss)"},
    {"record", "DIR", FLAG_TEXT, AT(record), 0, 0, NULL,
     "write each party's log for uvcc replay; it holds all of its secrets"},
    {"force", NULL, FLAG_SWITCH, AT(force), 0, 0, NULL, "--record may replace logs"},
    RUN_FLAGS(AT),
};
_Static_assert(FLAG_LIST_MAX == UVCC_MLP_MAX_LAYERS - 1, "--hidden");
static const flag_set set = {"train", options, sizeof options / sizeof options[0], AT(run.help)};

void options_print_help(FILE *to) {
    flags_text(
        to,
        "Usage: uvcc train --data FILE [OPTION...]\n"
        "\n"
        "Trains a multi-layer perceptron among three parties that run in this one process and "
        "talk\n"
        "over sealed links: party 0 gives the features, party 1 the labels, and none of the three\n"
        "sees what it did not give. Every fifth row is held out to test the result, and the same\n"
        "training runs in plaintext beside it to compare with.\n"
        "\n"
        "This is a simulation: all keys and all randomness follow from --seed, so that a run can "
        "be\n"
        "repeated. It protects nothing from anyone who knows the seed.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, to);
    flags_text(
        to, "\n"
            "With a rate above 0 the links carry datagrams, else byte streams.\n"
            "\n"
            "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

static int check(const flag_message *m, const train_options *o) {
    if (o->data == NULL)
        return flag_fail(m, "--data FILE is missing; name the CSV file to train on");
    if ((o->batch & (o->batch - 1)) != 0) {
        uint32_t below = 1;
        while (2 * below <= o->batch)
            below *= 2;
        return flag_fail(m, "--batch %u: give a power of two, such as %u or %u", o->batch, below,
                         2 * below);
    }
    return 0;
}

int options_parse(train_options *out, int argc, char *const *argv, char *message,
                  size_t message_cap) {
    const flag_message m = {message, message_cap};
    *out = (train_options){.hidden = {1, {64}},
                           .epochs = 5,
                           .batch = 16,
                           .lr_shift = 2,
                           .frac_bits = 16,
                           .truncation = UVCC_TRUNC_EXACT,
                           .run = RUN_DEFAULTS};
    if (flags_parse(&set, out, argc, argv, NULL, NULL, &m) != 0)
        return -1;
    const flag_idle idle[] = {{"force", out->record == NULL, "without --record"}};
    if (out->run.help)
        return 0;
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0 ||
        run_options_check(&out->run, &set, argc, argv, &m) != 0)
        return -1;
    return check(&m, out);
}
