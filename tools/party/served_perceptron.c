/* SPDX-License-Identifier: Apache-2.0 */
/* served_perceptron.c - a perceptron whose weights a job of kind mlp left to one party. */
#include <sodium.h>
#include <stdlib.h>

#include "../files.h"
#include "../flags_json.h"
#include "../perceptron_flags.h"
#include "../report.h"
#include "serve_offer.h"
#include "served.h"
#include "work_util.h"

enum { MESSAGE_BYTES = 512 };

typedef struct serve {
    work_config c;
    serving_model model;
    serving_program at;
    int64_t *weight; /* serving_weights(); NULL: another party gives them */
} serve;

#define AT(member) offsetof(serving_model, member)
static const flag run_members[] = {
    {"features", NULL, FLAG_COUNT, AT(features), 1, CSV_COLUMNS_MAX - 1, NULL, NULL},
    {"classes", NULL, FLAG_COUNT, AT(classes), 1, CSV_LABEL_MAX + 1, NULL, NULL},
    {"hidden", NULL, FLAG_LIST, AT(hidden), 1, PERCEPTRON_UNITS_MAX, NULL, NULL},
    {"frac-bits", NULL, FLAG_COUNT, AT(frac_bits), 4, 24, NULL, NULL},
    {"rows", NULL, FLAG_COUNT, AT(rows), 1, SERVING_ROWS_MAX, NULL, NULL},
    {"compare", "fss|circuit", FLAG_CHOICE, AT(compare), 0, 0, perceptron_compares, NULL},
    {"products", "native|beaver", FLAG_CHOICE, AT(products), 0, 0, run_products, NULL},
    {"weights-owner", NULL, FLAG_COUNT, AT(weights_owner), 0, UVCC_PARTIES - 1, NULL, NULL},
};
#undef AT
static const char *const other_run_members[] = {"kind", NULL};
static const flag_set run_set = {.flags = run_members,
                                 .count = sizeof run_members / sizeof run_members[0]};

/* ---- what is told ---- */

static int bad(const serve *v, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", v->c.file, why);
}

static int read_run(serve *v) {
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    v->model = (serving_model){.hidden = {1, {64}}, .frac_bits = 16, .rows = 16};
    if (flags_take_json(&run_set, NULL, other_run_members, &v->model, v->c.run, "job.run", &to) !=
        0)
        return bad(v, text);
    if (v->model.features == 0 || v->model.classes == 0)
        return bad(v, v->model.features == 0
                          ? "job.run.features is missing; give the numbers of a client's row"
                          : "job.run.classes is missing; give the numbers that a row gets back");
    return work_alone(&v->c, "serves");
}

/* As `output.weights` of an mlp has them: 8 bytes each, little-endian. */
static int take_weights(serve *v, const char *path, const uint8_t *bytes, size_t len) {
    const uint64_t n = serving_weights(&v->model);
    const int64_t limit = INT64_C(1) << (v->model.frac_bits + SERVING_WEIGHT_BITS);
    if (len != 8 * n)
        return report_error(EXIT_BAD_INPUT,
                            "%s: data.weights: %s has %zu bytes, but the weights of features, "
                            "hidden and classes in job.run are %llu numbers of 8 bytes",
                            v->c.file, path, len, (unsigned long long)n);
    v->weight = malloc(n * sizeof *v->weight);
    if (v->weight == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint64_t i = 0; i < n; i++) {
        uint64_t word = 0;
        for (unsigned k = 0; k < 8; k++)
            word |= (uint64_t)bytes[8 * i + k] << (8 * k);
        v->weight[i] = (int64_t)word;
        if (v->weight[i] <= -limit || v->weight[i] >= limit)
            return report_error(EXIT_BAD_INPUT,
                                "%s: data.weights: number %llu of %s is not below %u; is "
                                "job.run.frac_bits that of the training?",
                                v->c.file, (unsigned long long)i, path, 1u << SERVING_WEIGHT_BITS);
    }
    return EXIT_DONE;
}

static int read_data(serve *v) {
    static const char *const members[] = {"weights", NULL};
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    const char *name = NULL;
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (v->c.party != v->model.weights_owner)
        return v->c.data == NULL
                   ? EXIT_DONE
                   : bad(v, "data: the weights are another party's (job.run.weights_owner); take "
                            "it away");
    if (flags_json_only(v->c.data, "data", members, &to) != 0 ||
        flags_json_text(v->c.data, "data", "weights", &name, &to) != 0)
        return bad(v, text);
    if (name == NULL)
        return bad(v, "data.weights is missing; name the file that output.weights of an mlp job "
                      "made");
    char *path = work_path(v->c.dir, name);
    int status = path != NULL ? file_read(path, EXIT_BAD_INPUT, &bytes, &len)
                              : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE)
        status = take_weights(v, path, bytes, len);
    if (bytes != NULL)
        sodium_memzero(bytes, len);
    free(bytes);
    free(path);
    return status;
}

static void close_perceptron(void *served) {
    serve *v = served;
    if (v->weight != NULL)
        sodium_memzero(v->weight, serving_weights(&v->model) * sizeof *v->weight);
    free(v->weight);
    free(v);
}

static int open_perceptron(void **served, const work_config *c, serving_form *form) {
    serve *v = calloc(1, sizeof *v);
    if (v == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    v->c = *c;
    int status = read_run(v);
    if (status == EXIT_DONE)
        status = read_data(v);
    *form =
        serving_perceptron(v->model.features, v->model.classes, v->model.frac_bits, v->model.rows);
    if (status == EXIT_DONE)
        *served = v;
    else
        close_perceptron(v);
    return status;
}

/* ---- what is computed ---- */

static int make_program(void *served, uvcc_program **out, serving_program *at) {
    serve *v = served;
    char text[MESSAGE_BYTES] = "";
    const flag_message to = {text, sizeof text};
    const int rc = serving_make(&v->model, SERVE_WORDS, SERVE_WORD_BITS, out, at, &to);
    v->at = *at;
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT,
                                  "%s: job.run: the numbers do not fit (%s); give a smaller "
                                  "frac_bits, features or hidden",
                                  v->c.file, text);
}

static uint32_t one_step(const void *served) {
    (void)served;
    return 1;
}

static uint32_t weights_entry(const void *served, const uvcc_program *p, uint32_t step) {
    const serve *v = served;
    (void)p;
    (void)step;
    return v->at.weights_entry;
}

/* W0, b0, W1, ... lie one behind the other. */
static const int64_t *weights_of(const serve *v, uint32_t number) {
    const int64_t *at = v->weight;
    for (uint32_t l = 0; l < serving_layers(&v->model); l++) {
        uint32_t in, out;
        serving_shape(&v->model, l, &in, &out);
        if (number == 2 * l)
            return at;
        at += (size_t)in * out;
        if (number == 2 * l + 1)
            return at;
        at += out;
    }
    return NULL;
}

static const int64_t *give_weight(void *served, uint32_t id) {
    return weights_of(served, id - SERVING_IN_WEIGHT);
}

static int no_values(void *served, const work_worker *w, uvcc_session *s) {
    (void)served;
    (void)w;
    (void)s;
    return EXIT_DONE;
}

const served_kind served_perceptron = {.open = open_perceptron,
                                       .close = close_perceptron,
                                       .program = make_program,
                                       .weight_steps = one_step,
                                       .weight_entry = weights_entry,
                                       .weight = give_weight,
                                       .first_values = no_values};
