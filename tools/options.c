/* options.c - one table says what the options are, what they may be and what --help says of them.
 */
#include "options.h"

#include <string.h>
#include <uvcc/compute.h>

#include "flags.h"

#define HIDDEN_UNITS_MAX 4096u

static const char *const models[] = {"mlp", "transformer", NULL};
static const char *const truncations[] = {"ars", "sr", NULL};
static const char *const compares[] = {"fss", "circuit", NULL};
static const char *const products[] = {"native", "beaver", NULL};
static const char *const computes[] = {"inline", "deferred", "threads", NULL};
_Static_assert(UVCC_TRUNC_EXACT == 0 && UVCC_TRUNC_STOCHASTIC == 1, "order of truncations[]");
_Static_assert(UVCC_COMPARE_FSS == 0 && UVCC_COMPARE_CIRCUIT == 1, "order of compares[]");
_Static_assert(UVCC_PRODUCTS_NATIVE == 0 && UVCC_PRODUCTS_BEAVER == 1, "order of products[]");
_Static_assert(UVCC_CPU_INLINE == 0 && UVCC_CPU_DEFERRED == 1 && UVCC_CPU_THREADS == 2,
               "order of computes[]");

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
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL,
     "of initial weights, order of rows, keys and masks (1)"},
    {"truncation", "ars|sr", FLAG_CHOICE, AT(truncation), 0, 0, truncations,
     "ars: exact, equal to the plaintext run; sr: stochastic, cheaper (ars)"},
    {"compare", "fss|circuit", FLAG_CHOICE, AT(compare), 0, 0, compares,
     "ReLU's comparison: fss: on dealt keys, fewer rounds; circuit: no keys, fewer bytes (fss)"},
    {"products", "native|beaver", FLAG_CHOICE, AT(products), 0, 0, products,
     "matrix products: native, or on triples made ahead: the same weights (native)"},
    {"compute", "inline|deferred|threads", FLAG_CHOICE, AT(compute), 0, 0, computes,
     "when jobs run: at once, late and shuffled, or on threads (inline)"},
    {"compute-seed", "N", FLAG_SEED, AT(compute_seed), 0, 0, NULL,
     "of the shuffle of deferred (1)"},
    {"drop", "P", FLAG_RATE, AT(drop), 0, 0, NULL, "rate of packets lost, 0 <= P < 1 (0)"},
    {"duplicate", "P", FLAG_RATE, AT(duplicate), 0, 0, NULL, "... doubled (0)"},
    {"reorder", "P", FLAG_RATE, AT(reorder), 0, 0, NULL, "... delayed behind later ones (0)"},
    {"corrupt", "P", FLAG_RATE, AT(corrupt), 0, 0, NULL, "... with bits flipped (0)"},
    {"fault-seed", "N", FLAG_SEED, AT(fault_seed), 0, 0, NULL, "of these faults (1)"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"record", "DIR", FLAG_TEXT, AT(record), 0, 0, NULL,
     "write each party's log for uvcc replay; it holds all of its secrets"},
    {"audit", "DIR", FLAG_TEXT, AT(audit), 0, 0, NULL,
     "write each step's bundle of each party for uvcc audit; DIR must have none yet"},
    {"force", NULL, FLAG_SWITCH, AT(force), 0, 0, NULL, "--record may replace logs"},
    {"trace", "FILE", FLAG_TEXT, AT(trace), 0, 0, NULL,
     "write what ran and waited, for Perfetto (ui.perfetto.dev)"},
    {"profile", NULL, FLAG_SWITCH, AT(profile), 0, 0, NULL,
     "show what each kind of op took: compute, waits, bytes"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
_Static_assert(FLAG_LIST_MAX == UVCC_MLP_MAX_LAYERS - 1, "--hidden");
static const flag_set set = {"train", options, sizeof options / sizeof options[0], AT(help)};

void options_print_help(FILE *to) {
    (void)fputs(
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
        "Options (defaults in parentheses):\n",
        to);
    flags_print(&set, to);
    (void)fputs(
        "\n"
        "With a rate above 0 the links carry datagrams, else byte streams.\n"
        "\n"
        "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n",
        to);
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
                           .seed = 1,
                           .truncation = UVCC_TRUNC_EXACT,
                           .compute = UVCC_CPU_INLINE,
                           .compute_seed = 1,
                           .fault_seed = 1};
    if (flags_parse(&set, out, argc, argv, NULL, NULL, &m) != 0)
        return -1;
    return out->help ? 0 : check(&m, out);
}
