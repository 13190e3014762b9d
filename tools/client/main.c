/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `uvcc client`: its options, the rows that it sends, what it writes. */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../csv.h"
#include "../flags.h"
#include "../interrupt.h"
#include "../perceptron.h"
#include "../report.h"
#include "../serving.h"
#include "client.h"

#define MESSAGE_BYTES 600u

typedef struct client_options {
    const char *config;
    client_asks asks;
    uint32_t patience;
    bool help;
} client_options;

#define AT(member) offsetof(client_options, member)
static const flag options[] = {
    {"config", "FILE", FLAG_TEXT, AT(config), 0, 0, NULL,
     "the parties, this client's key and the model's shape, as JSON (docs/clients.md). Required"},
    {"input", "FILE", FLAG_TEXT, AT(asks.input), 0, 0, NULL,
     "of a perceptron the rows: a CSV file of numbers, one row per line. Of a transformer what "
     "uvcc infer --input takes, or a file that ends in .safetensors with inputs_embeds"},
    {"text", "TEXT", FLAG_TEXT, AT(asks.text), 0, 0, NULL,
     "or a text, for transformers whose tokens are bytes"},
    {"ids", "N[,N...]", FLAG_TEXT, AT(asks.ids), 0, 0, NULL,
     "or tokens of a transformer: 1,2,3 is a sequence, and 1,2;3,4 are two"},
    {"output", "FILE|-", FLAG_TEXT, AT(asks.output), 0, 0, NULL,
     "where the predictions go, as CSV; of a transformer all values, as JSON if the name ends in "
     ".json, else as safetensors; - is standard output, with the greatest of each row (-)"},
    {"patience", "SECONDS", FLAG_COUNT, AT(patience), 1, 86400, NULL,
     "how long to wait for the answer to one request, asked again or not (60)"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"client", options, sizeof options / sizeof options[0],
                             offsetof(client_options, help)};

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc client --config FILE --input FILE [OPTION...]\n"
        "       uvcc client --config FILE --text TEXT [OPTION...]\n"
        "       uvcc client --config FILE --ids N[,N...] [OPTION...]\n"
        "\n"
        "Asks three parties, whose job serves clients, what their model makes of some rows, or of\n"
        "sequences of tokens. Each row goes to them as shares, of which no party alone knows\n"
        "anything, and the answer opens here alone. They need not know where this runs, but its\n"
        "public key.\n"
        "\n"
        "Of a perceptron a line of the output has the class and then the number of each class, "
        "for\n"
        "each row of the input.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout,
               "\n"
               "Exit status: 0 done, 1 failed (a party lies, or the system fails), 2 wrong "
               "options, configuration or input, 75 no answer in time: try again later, 130 "
               "interrupted.\n");
}

/* ---- rows ---- */

/* As training rounds them (docs/training.md). */
static int fixed_points(const client_config *c, const csv_table *t, const char *path,
                        int64_t *out) {
    const double one = ldexp(1, (int)c->frac_bits);
    const double limit = ldexp(1, (int)c->frac_bits + SERVING_RANGE_BITS);
    for (uint32_t r = 0; r < t->rows; r++)
        for (uint32_t i = 0; i < t->features; i++) {
            const size_t at = (size_t)r * t->features + i;
            const double x = floor(t->value[at] / c->scale * one + 0.5);
            if (!(fabs(x) < limit))
                return report_error(EXIT_BAD_INPUT,
                                    "%s:%u:%u: this value, divided by scale, is %g or more; it has "
                                    "to be below %.0f",
                                    path, csv_line(t, r), csv_column(t, i), x / one,
                                    ldexp(1, SERVING_RANGE_BITS));
            out[at] = (int64_t)x;
        }
    return EXIT_DONE;
}

static int read_rows(const client_config *c, const char *path, int64_t **out, uint32_t *rows) {
    const csv_source source = {.part = CSV_ROWS, .features = c->features, .file_name = "--input"};
    char text[MESSAGE_BYTES];
    csv_table t = {0};
    if (csv_read_part(&t, &source, path, NULL, text, sizeof text) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    *rows = t.rows;
    *out = malloc((size_t)t.rows * t.features * sizeof **out);
    const int status =
        *out != NULL ? fixed_points(c, &t, path, *out) : report_error(EXIT_FAILED, "out of memory");
    csv_free(&t);
    return status;
}

/* A value with all its fraction bits: decimals enough that it is exact. */
static void write_row(FILE *to, const client_config *c, const int64_t *v) {
    (void)fprintf(to, "%u", perceptron_class(v, c->classes));
    for (uint32_t i = 0; i < c->classes; i++)
        (void)fprintf(to, ",%.*f", (int)c->frac_bits, ldexp((double)v[i], -(int)c->frac_bits));
    (void)fputc('\n', to);
}

static void write_head(FILE *to, const client_config *c) {
    (void)fputs("class", to);
    for (uint32_t i = 0; i < c->classes; i++)
        (void)fprintf(to, ",value%u", i);
    (void)fputc('\n', to);
}

/* ---- the command ---- */

static int ask_all(client *of, const client_config *c, const int64_t *x, uint32_t rows,
                   atomic_file *out) {
    FILE *to = atomic_file_stream(out);
    int64_t *answer = malloc((size_t)c->rows * c->classes * sizeof *answer);
    int status = answer != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
    for (uint32_t at = 0; at < rows && status == EXIT_DONE; at += c->rows) {
        const uint32_t n = rows - at < c->rows ? rows - at : c->rows;
        status = client_ask(of, x + (size_t)at * c->features, NULL, n, answer);
        if (at == 0 && status == EXIT_DONE)
            write_head(to, c);
        for (uint32_t r = 0; r < n && status == EXIT_DONE; r++)
            write_row(to, c, answer + (size_t)r * c->classes);
    }
    if (answer != NULL)
        sodium_memzero(answer, (size_t)c->rows * c->classes * sizeof *answer);
    free(answer);
    return status == EXIT_DONE ? atomic_file_finish(out) : status;
}

/* What is read is not written over. */
static int check_output(const client_options *o, const client_config *c) {
    char identity[PARTY_PATH_BYTES];
    if (!config_path(&c->parties, c->parties.identity, identity))
        return report_error(EXIT_BAD_INPUT, "%s: identity: the path is too long", o->config);
    const output_use read[] = {
        {"--input", o->asks.input}, {"--config", o->config}, {"identity", identity}};
    return atomic_file_spares("output", o->asks.output, read, sizeof read / sizeof read[0]);
}

/* A perceptron takes rows of a file. */
static int check_asks(const client_options *o, const client_config *c) {
    const client_asks *a = &o->asks;
    if (c->run == NULL && (a->text != NULL || a->ids != NULL))
        return report_error(EXIT_BAD_INPUT,
                            "--%s is for a transformer, and %s has no run; give --input FILE",
                            a->text != NULL ? "text" : "ids", o->config);
    return EXIT_DONE;
}

static int run(const client_options *o) {
    client_config c;
    client *of = NULL;
    int64_t *x = NULL;
    uint32_t rows = 0;
    atomic_file *out = NULL;
    int status = client_config_read(&c, o->config);
    if (status == EXIT_DONE)
        status = check_output(o, &c);
    if (status == EXIT_DONE)
        status = check_asks(o, &c);
    if (status == EXIT_DONE)
        status = c.run != NULL ? client_pass_read(&c, &o->asks)
                               : read_rows(&c, o->asks.input, &x, &rows);
    if (status == EXIT_DONE)
        out = atomic_file_open_own("output", o->asks.output, &status);
    if (status == EXIT_DONE)
        status = client_open(&of, &c, o->patience);
    if (status == EXIT_DONE)
        status = c.run != NULL ? client_pass_ask(of, &c, out) : ask_all(of, &c, x, rows, out);
    if (status == EXIT_INTERRUPTED)
        (void)report_error(status, "interrupted");
    client_close(of);
    atomic_file_close(out);
    if (x != NULL)
        sodium_memzero(x, (size_t)rows * c.features * sizeof *x);
    free(x);
    client_config_free(&c);
    return status;
}

int client_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    client_options o = {.asks.output = "-", .patience = 60};
    if (flags_parse(&set, &o, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (o.config == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "--config FILE is missing; docs/clients.md describes it");
    if ((o.asks.input != NULL) + (o.asks.text != NULL) + (o.asks.ids != NULL) != 1)
        return report_error(EXIT_BAD_INPUT,
                            o.asks.input != NULL || o.asks.text != NULL || o.asks.ids != NULL
                                ? "give one of --input, --text and --ids"
                                : "--input FILE is missing; name the file with the rows, or give "
                                  "a transformer --text or --ids");
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    interrupt_catch();
    return run(&o);
}
