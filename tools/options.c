/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - one table says what the options are, what they may be and what --help says of them.
 */
#include "options.h"

#include "compute.h"
#include "perceptron_flags.h"

static const char *const models[] = {"mlp", "transformer", NULL};

#define AT(member)  offsetof(train_options, member)
#define NET(member) offsetof(train_options, net.member)
static const flag options[] = {
    {"model", "mlp|transformer", FLAG_CHOICE, AT(model), 0, 0, models,
     "what follows is of mlp; see uvcc train --model transformer --help, and uvcc train --model "
     "DIR "
     "--help for the fine-tuning of a checkpoint (mlp)"},
    {"data", "FILE", FLAG_TEXT, AT(data), 0, 0, NULL,
     "CSV file: numbers, a row per line, one column of labels 0..4095. Required"},
    {"label", "COLUMN", FLAG_TEXT, AT(label), 0, 0, NULL,
     "the label's column, by number from 1 or by header name (last)"},
    PERCEPTRON_FLAGS(NET, AT(run.seed)),
    {"record", "DIR", FLAG_TEXT, AT(record), 0, 0, NULL,
     "write each party's log for uvcc replay; it holds all of its secrets"},
    {"force", NULL, FLAG_SWITCH, AT(force), 0, 0, NULL, "--record may replace logs"},
    RUN_FLAGS(AT),
};
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
    flags_text(to, compute_help);
    flags_text(
        to, "\n"
            "With a rate above 0 the links carry datagrams, else byte streams.\n"
            "\n"
            "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

static int check(const flag_message *m, const train_options *o) {
    if (o->data == NULL)
        return flag_fail(m, "--data FILE is missing; name the CSV file to train on");
    return perceptron_check(&o->net, &(perceptron_names){"--batch", "--epochs"}, m);
}

int options_parse(train_options *out, int argc, char *const *argv, char *message,
                  size_t message_cap) {
    const flag_message m = {message, message_cap};
    *out = (train_options){.net = PERCEPTRON_DEFAULTS, .run = RUN_DEFAULTS};
    if (flags_parse(&set, out, argc, argv, NULL, NULL, &m) != 0)
        return -1;
    const flag_idle idle[] = {{"force", out->record == NULL, "without --record"},
                              {"parties", out->record != NULL, "with --record, which takes turns"}};
    if (out->run.help)
        return 0;
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0 ||
        run_options_check(&out->run, 1, &set, argc, argv, &m) != 0)
        return -1;
    return check(&m, out);
}
