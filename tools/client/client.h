/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - `uvcc client`: rows of a file go to the three parties of a job that serves, as shares,
 * and what their model makes of them comes back (docs/clients.md). */
#ifndef UVCC_TOOLS_CLIENT_H
#define UVCC_TOOLS_CLIENT_H

#include <uvcc/net.h>
#include <uvcc/request.h>

#include "../party/config.h"
#include "../party/pass.h"

/* What the file of --config says. Texts are the JSON text's. */
typedef struct client_config {
    party_config parties; /* its members of the parties and of the file */
    const char *job;
    uint32_t features, classes, rows, frac_bits, suite;
    double scale; /* rows are divided by it */
    pass *run;    /* of a transformer, whose `run` stands there; NULL: it is a perceptron */
    const char *model;
    serving_form form;
    uint8_t seed[32], public_key[32], party_key[UVCC_PARTIES][32];
    uint8_t sid_job[32];
} client_config;
/* Exit statuses after reporting. client_config_free() follows in any case. */
int client_config_read(client_config *c, const char *path);
void client_config_free(client_config *c);

/* The three parties as a client sees them. */
typedef struct client client;
/* An exit status after reporting; client_close() follows in any case. */
int client_open(client **out, const client_config *c, uint32_t patience_s);
void client_close(client *c);
/* Asks for values, and numbers that go as keys, of so many units, and again where the parties say
 * so; in `out` their answer. An exit status after reporting. */
int client_ask(client *c, const int64_t *values, const int64_t *numbers, uint32_t units,
               int64_t *out);

/* What a client gives a transformer, and where what it answers goes. */
typedef struct client_asks {
    const char *input, *text, *ids, *output; /* NULL: not given */
} client_asks;
/* The values of all its sequences, in c->run, before anybody is called; then all answers, out of
 * one request after the other. */
int client_pass_read(client_config *c, const client_asks *a);
int client_pass_ask(client *of, client_config *c, atomic_file *out);

/* `uvcc client`. */
int client_main(int argc, char *const *argv);

#endif
