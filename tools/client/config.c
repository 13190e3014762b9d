/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - the file of `uvcc client --config`: who the parties are, as in a party's own file, and
 * what their model takes. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../flags_json.h"
#include "../party/keys.h"
#include "../report.h"
#include "../serving.h"
#include "client.h"

#include "../csv.h"

#define MESSAGE_BYTES 512u

static const char *const suites[] = {"chacha20-poly1305", "aes-256-gcm", NULL};
#define AT(member) offsetof(client_config, member)
static const flag members[] = {
    {"job", "a name", FLAG_TEXT, AT(job), 0, 0, NULL, NULL},
    {"identity", "a file", FLAG_TEXT, AT(parties.identity), 0, 0, NULL, NULL},
    {"features", NULL, FLAG_COUNT, AT(features), 1, CSV_COLUMNS_MAX - 1, NULL, NULL},
    {"classes", NULL, FLAG_COUNT, AT(classes), 1, CSV_LABEL_MAX + 1, NULL, NULL},
    {"rows", NULL, FLAG_COUNT, AT(rows), 1, SERVING_ROWS_MAX, NULL, NULL},
    {"frac-bits", NULL, FLAG_COUNT, AT(frac_bits), 4, 24, NULL, NULL},
    {"scale", NULL, FLAG_REAL, AT(scale), 0, UINT32_MAX, NULL, NULL},
    {"model", "a directory", FLAG_TEXT, AT(model), 0, 0, NULL, NULL},
    {"suite", "chacha20-poly1305, aes-256-gcm", FLAG_CHOICE, AT(suite), 0, 0, suites, NULL},
};
#undef AT
static const char *const other_members[] = {"parties", "run", NULL};
static const flag_set set = {.flags = members, .count = sizeof members / sizeof members[0]};

static int missing(const client_config *c, const char *member, const char *what) {
    return report_error(EXIT_BAD_INPUT, "%s: %s is missing; give %s", c->parties.file, member,
                        what);
}

static int check(const client_config *c) {
    if (c->job == NULL)
        return missing(c, "job", "the name that the parties' \"job\" has");
    if (c->parties.identity == NULL)
        return missing(c, "identity", "the file that uvcc keygen --out made");
    if (c->run != NULL)
        return EXIT_DONE;
    if (c->model != NULL)
        return report_error(EXIT_BAD_INPUT, "%s: model does nothing without run; leave it out",
                            c->parties.file);
    if (c->features == 0)
        return missing(c, "features", "the numbers of a row, as job.run.features of the parties");
    if (c->classes == 0)
        return missing(c, "classes", "the numbers that a row gets back, as job.run.classes");
    if (c->scale <= 0)
        return report_error(EXIT_BAD_INPUT,
                            "%s: scale: give a number above 0, by which all values are divided",
                            c->parties.file);
    return EXIT_DONE;
}

static int read_keys(client_config *c) {
    int status = keys_identity(&c->parties, c->seed, c->public_key);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        char place[32];
        (void)snprintf(place, sizeof place, "parties[%u].key", p);
        status = keys_public(&c->parties, place, c->parties.key[p], c->party_key[p]);
    }
    return status;
}

/* The parties' job.run, copied: it has what the rows' members say otherwise. */
static int read_pass(client_config *c, const json_t *run) {
    static const char *const of_rows[] = {"features", "classes", "rows", "frac_bits", "scale"};
    for (size_t i = 0; i < sizeof of_rows / sizeof of_rows[0]; i++)
        if (json_object_get(c->parties.root, of_rows[i]) != NULL)
            return report_error(EXIT_BAD_INPUT, "%s: %s does nothing with run; leave it out",
                                c->parties.file, of_rows[i]);
    if (json_object_get(run, "model") == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: run.model is missing; give the job.run of parties that serve a "
                            "transformer, copied (of a perceptron features and classes)",
                            c->parties.file);
    c->run = calloc(1, sizeof *c->run);
    if (c->run == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const int status = pass_read_served(c->run, c->parties.file, "run", run);
    if (status == EXIT_DONE)
        c->form = pass_form(c->run);
    return status;
}

int client_config_read(client_config *c, const char *path) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    *c = (client_config){.rows = 16, .frac_bits = 16, .scale = 1};
    if (config_load(&c->parties, path, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (flags_take_json(&set, NULL, other_members, c, c->parties.root, "", &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", path, text);
    const json_t *run = json_object_get(c->parties.root, "run");
    int status = run != NULL ? read_pass(c, run) : EXIT_DONE;
    if (run == NULL)
        c->form = serving_perceptron(c->features, c->classes, c->frac_bits, c->rows);
    if (status == EXIT_DONE)
        status = check(c);
    if (status == EXIT_DONE && config_parties(&c->parties, &m) != 0)
        status = report_error(EXIT_BAD_INPUT, "%s: %s", path, text);
    if (status == EXIT_DONE && config_datagram(&c->parties))
        status = report_error(EXIT_BAD_INPUT,
                              "%s: parties: clients call by tcp: or unix:; give the addresses of "
                              "clients.listen at the parties",
                              path);
    config_sid(c->job != NULL ? c->job : "", c->sid_job);
    return status == EXIT_DONE ? read_keys(c) : status;
}

void client_config_free(client_config *c) {
    if (c->run != NULL)
        pass_free(c->run);
    free(c->run);
    config_free(&c->parties);
    sodium_memzero(c, sizeof *c);
}
