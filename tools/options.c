/* options.c - one table says what the options are, what they may be and what --help says of them.
 */
#include "options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/compute.h>

#define HIDDEN_UNITS_MAX 4096u

typedef enum option_kind { TEXT, COUNT, SEED, RATE, CHOICE, LAYERS, FLAG } option_kind;

typedef struct option {
    const char *name, *value; /* value: how the help names it */
    option_kind kind;
    size_t at; /* in train_options */
    uint32_t min, max;
    const char *const *choices; /* CHOICE: NULL-terminated; the index is the value */
    const char *help;
} option;

static const char *const truncations[] = {"ars", "sr", NULL};
static const char *const compares[] = {"fss", "circuit", NULL};
static const char *const computes[] = {"inline", "deferred", "threads", NULL};
_Static_assert(UVCC_TRUNC_EXACT == 0 && UVCC_TRUNC_STOCHASTIC == 1, "order of truncations[]");
_Static_assert(UVCC_COMPARE_FSS == 0 && UVCC_COMPARE_CIRCUIT == 1, "order of compares[]");
_Static_assert(UVCC_CPU_INLINE == 0 && UVCC_CPU_DEFERRED == 1 && UVCC_CPU_THREADS == 2,
               "order of computes[]");

#define AT(member) offsetof(train_options, member)
static const option options[] = {
    {"data", "FILE", TEXT, AT(data), 0, 0, NULL,
     "CSV file: numbers, a row per line, one column of labels 0..4095. Required"},
    {"label", "COLUMN", TEXT, AT(label), 0, 0, NULL,
     "the label's column, by number from 1 or by header name (last)"},
    {"hidden", "N[,N...]", LAYERS, AT(hidden), 1, HIDDEN_UNITS_MAX, NULL,
     "units of each hidden layer, at most 15 layers (64)"},
    {"epochs", "N", COUNT, AT(epochs), 1, 10000, NULL, "passes over the training rows (5)"},
    {"batch", "N", COUNT, AT(batch), 1, 1u << 20, NULL, "rows per step, a power of two (16)"},
    {"lr-shift", "N", COUNT, AT(lr_shift), 0, 20, NULL,
     "the learning rate is 2^-N, on the mean over a batch (2)"},
    {"frac-bits", "N", COUNT, AT(frac_bits), 4, 24, NULL, "fraction bits of fixed point (16)"},
    {"seed", "N", SEED, AT(seed), 0, 0, NULL,
     "of initial weights, order of rows, keys and masks (1)"},
    {"truncation", "ars|sr", CHOICE, AT(truncation), 0, 0, truncations,
     "ars: exact, equal to the plaintext run; sr: stochastic, cheaper (ars)"},
    {"compare", "fss|circuit", CHOICE, AT(compare), 0, 0, compares,
     "ReLU's comparison: fss: on dealt keys, fewer rounds; circuit: no keys, fewer bytes (fss)"},
    {"compute", "inline|deferred|threads", CHOICE, AT(compute), 0, 0, computes,
     "when jobs run: at once, late and shuffled, or on threads (inline)"},
    {"compute-seed", "N", SEED, AT(compute_seed), 0, 0, NULL, "of the shuffle of deferred (1)"},
    {"drop", "P", RATE, AT(drop), 0, 0, NULL, "rate of packets lost, 0 <= P < 1 (0)"},
    {"duplicate", "P", RATE, AT(duplicate), 0, 0, NULL, "... doubled (0)"},
    {"reorder", "P", RATE, AT(reorder), 0, 0, NULL, "... delayed behind later ones (0)"},
    {"corrupt", "P", RATE, AT(corrupt), 0, 0, NULL, "... with bits flipped (0)"},
    {"fault-seed", "N", SEED, AT(fault_seed), 0, 0, NULL, "of these faults (1)"},
    {"json", "FILE|-", TEXT, AT(json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"record", "DIR", TEXT, AT(record), 0, 0, NULL,
     "write each party's log for uvcc replay; it holds all of its secrets"},
    {"audit", "DIR", TEXT, AT(audit), 0, 0, NULL,
     "write each step's bundle of each party for uvcc audit; DIR must have none yet"},
    {"force", NULL, FLAG, AT(force), 0, 0, NULL, "--record may replace logs"},
    {"progress", NULL, FLAG, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG, AT(help), 0, 0, NULL, "show this"},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

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
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option *o = &options[i];
        char left[64];
        (void)snprintf(left, sizeof left, "--%s%s%s", o->name, o->value != NULL ? " " : "",
                       o->value != NULL ? o->value : "");
        if (strlen(left) > 22)
            (void)fprintf(to, "  %s\n  %-22s %s\n", left, "", o->help);
        else
            (void)fprintf(to, "  %-22s %s\n", left, o->help);
    }
    (void)fputs(
        "\n"
        "With a rate above 0 the links carry datagrams, else byte streams.\n"
        "\n"
        "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n",
        to);
}

typedef struct parser {
    char *message;
    size_t message_cap;
} parser;

static int fail(const parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(const parser *p, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(p->message, p->message_cap, format, args);
    va_end(args);
    return -1;
}

/* Decimal digits only, so no sign, blank or hexadecimal that strtoull() would take. */
static bool parse_u64(const char *text, size_t len, uint64_t *out) {
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    *out = v;
    return len > 0;
}

static int parse_count(const parser *p, const option *o, const char *text, size_t len,
                       uint32_t *out) {
    uint64_t v;
    if (!parse_u64(text, len, &v) || v < o->min || v > o->max)
        return fail(p, "--%s %.*s: give a whole number from %u to %u", o->name, (int)len, text,
                    o->min, o->max);
    *out = (uint32_t)v;
    return 0;
}

static int parse_layers(const parser *p, const option *o, const char *text, train_options *out) {
    uint32_t count = 0;
    for (const char *at = text;; count++) {
        size_t len = strcspn(at, ",");
        if (count == UVCC_MLP_MAX_LAYERS - 1)
            return fail(p, "--%s %s: at most %u hidden layers are possible; give fewer", o->name,
                        text, UVCC_MLP_MAX_LAYERS - 1);
        if (parse_count(p, o, at, len, &out->hidden[count]) != 0)
            return fail(p,
                        "--%s %s: give units per layer as whole numbers from %u to %u, such as "
                        "64 or 64,32",
                        o->name, text, o->min, o->max);
        at += len;
        if (*at++ == '\0')
            break;
    }
    out->hidden_count = count + 1;
    return 0;
}

static int parse_rate(const parser *p, const option *o, const char *text, double *out) {
    char *end;
    double v = strtod(text, &end);
    if (*text == '\0' || strspn(text, "0123456789.eE-+") != strlen(text) || *end != '\0' ||
        !(v >= 0 && v < 1))
        return fail(p, "--%s %s: give a rate of at least 0 and less than 1, such as 0.05", o->name,
                    text);
    *out = v;
    return 0;
}

static int parse_value(const parser *p, const option *o, const char *text, train_options *out) {
    void *at = (char *)out + o->at;
    switch (o->kind) {
    case TEXT:
        if (*text == '\0')
            return fail(p, "--%s: the %s is empty; name one", o->name, o->value);
        *(const char **)at = text;
        return 0;
    case COUNT:
        return parse_count(p, o, text, strlen(text), at);
    case SEED:
        if (!parse_u64(text, strlen(text), at))
            return fail(p, "--%s %s: give a whole number from 0 to 2^64 - 1", o->name, text);
        return 0;
    case RATE:
        return parse_rate(p, o, text, at);
    case LAYERS:
        return parse_layers(p, o, text, out);
    case CHOICE:
        for (uint32_t i = 0; o->choices[i] != NULL; i++) {
            if (strcmp(text, o->choices[i]) == 0) {
                *(uint32_t *)at = i;
                return 0;
            }
        }
        return fail(p, "--%s %s: give one of %s", o->name, text, o->value);
    default:
        return 0; /* a FLAG takes no value */
    }
}

static const option *find(const char *name, size_t len) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(options[i].name) == len && memcmp(options[i].name, name, len) == 0)
            return &options[i];
    }
    return NULL;
}

static int check(const parser *p, const train_options *o) {
    if (o->data == NULL)
        return fail(p, "--data FILE is missing; name the CSV file to train on");
    if ((o->batch & (o->batch - 1)) != 0) {
        uint32_t below = 1;
        while (2 * below <= o->batch)
            below *= 2;
        return fail(p, "--batch %u: give a power of two, such as %u or %u", o->batch, below,
                    2 * below);
    }
    return 0;
}

int options_parse(train_options *out, int argc, char *const *argv, char *message,
                  size_t message_cap) {
    const parser p = {message, message_cap};
    *out = (train_options){.hidden = {64},
                           .hidden_count = 1,
                           .epochs = 5,
                           .batch = 16,
                           .lr_shift = 2,
                           .frac_bits = 16,
                           .seed = 1,
                           .truncation = UVCC_TRUNC_EXACT,
                           .compute = UVCC_CPU_INLINE,
                           .compute_seed = 1,
                           .fault_seed = 1};
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "-h") == 0)
            word = "--help";
        if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
            return fail(&p, "'%s' is not an option; see uvcc train --help", word);
        size_t len = strcspn(word + 2, "=");
        const option *o = find(word + 2, len);
        if (o == NULL)
            return fail(&p, "there is no option --%.*s; see uvcc train --help", (int)len, word + 2);
        const char *value = word[2 + len] == '=' ? word + 3 + len : NULL;
        if (o->kind == FLAG) {
            if (value != NULL)
                return fail(&p, "--%s takes no value", o->name);
            *(bool *)((char *)out + o->at) = true;
            if (out->help)
                return 0;
            continue;
        }
        if (value == NULL && ++i < argc)
            value = argv[i];
        if (value == NULL)
            return fail(&p, "--%s needs a value: %s", o->name, o->value);
        if (parse_value(&p, o, value, out) != 0)
            return -1;
    }
    return check(&p, out);
}
