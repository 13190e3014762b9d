/* SPDX-License-Identifier: Apache-2.0 */
/* work_mlp.c - a perceptron trained between parties: party 0 has the features, party 1 the labels,
 * party 2 neither. The same batches, first values and hash as `uvcc train` (perceptron.h). */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../flags_json.h"
#include "../perceptron_flags.h"
#include "../report.h"
#include "predictions.h"
#include "work.h"
#include "work_util.h"

#define MESSAGE_BYTES 512u
#define ROWS_MAX      (1u << 26)

typedef struct mlp_run {
    perceptron_options net;
    uint32_t rows, features, classes;
    uint32_t products;
    uint64_t seed;
} mlp_run;

typedef struct mlp_files {
    const char *file, *label; /* data */
} mlp_files;

typedef struct mlp {
    work_config c;
    mlp_run run;
    perceptron p;
    dataset data; /* of this party: features, labels or nothing */
    int64_t *values;
    uint8_t *weights; /* opened: perceptron_weights(); NULL: not yet */
    size_t weights_len;
    char *file; /* output.weights; NULL: not given */
    predictions predictions;
} mlp;

#define AT(member)  offsetof(mlp_run, member)
#define NET(member) offsetof(mlp_run, net.member)
static const flag run_members[] = {
    {"rows", NULL, FLAG_COUNT, AT(rows), 5, ROWS_MAX, NULL, NULL},
    {"features", NULL, FLAG_COUNT, AT(features), 1, CSV_COLUMNS_MAX - 1, NULL, NULL},
    {"classes", NULL, FLAG_COUNT, AT(classes), 1, CSV_LABEL_MAX + 1, NULL, NULL},
    PERCEPTRON_FLAGS(NET, AT(seed)),
    {"products", "native|beaver", FLAG_CHOICE, AT(products), 0, 0, run_products, NULL},
};
#undef AT
#undef NET
static const char *const other_run_members[] = {"kind", NULL};
static const flag data_members[] = {
    {"file", "a file", FLAG_TEXT, offsetof(mlp_files, file), 0, 0, NULL, NULL},
    {"label", "a column", FLAG_TEXT, offsetof(mlp_files, label), 0, 0, NULL, NULL},
};
static const flag_set run_set = {.flags = run_members,
                                 .count = sizeof run_members / sizeof run_members[0]};
static const flag_set data_set = {.flags = data_members,
                                  .count = sizeof data_members / sizeof data_members[0]};
static const perceptron_names names = {"job.run.batch", "job.run.epochs"};

/* ---- what is told ---- */

static int bad(const mlp *m, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", m->c.file, why);
}

static int read_run(mlp *m) {
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    m->run = (mlp_run){.net = PERCEPTRON_DEFAULTS, .seed = 1};
    if (flags_take_json(&run_set, NULL, other_run_members, &m->run, m->c.run, "job.run", &to) !=
            0 ||
        perceptron_check(&m->run.net, &names, &to) != 0)
        return bad(m, text);
    if (m->run.rows == 0 || m->run.features == 0 || m->run.classes == 0)
        return bad(m, m->run.rows == 0
                          ? "job.run.rows is missing; give the number of rows of the files"
                      : m->run.features == 0
                          ? "job.run.features is missing; give the columns of party 0's file, "
                            "without the label's"
                          : "job.run.classes is missing; give one more than party 1's greatest "
                            "label");
    if (m->c.replicas * m->c.stages * m->c.tensor_ranks != 1 || m->c.microbatches != 1)
        return bad(m, "job: an mlp has one worker for each party; replicas, stages, tensor_ranks "
                      "and microbatches are 1");
    if (m->c.sks != 0)
        return bad(m, "job.sks: an mlp has no checks of its products; give 0");
    return EXIT_DONE;
}

/* The file has what job.run says, which the other parties know of it. */
static int check_table(const mlp *m, const csv_table *t, const char *path) {
    if (t->rows != m->run.rows)
        return report_error(EXIT_BAD_INPUT,
                            "%s: job.run.rows: %u, but %s has %u rows; all three files need that "
                            "number",
                            m->c.file, m->run.rows, path, t->rows);
    for (uint32_t i = 0; t->label != NULL && i < t->rows; i++)
        if (t->label[i] >= m->run.classes)
            return report_error(EXIT_BAD_INPUT,
                                "%s: job.run.classes: %u, but %s:%u has label %u; labels are below "
                                "the number of classes",
                                m->c.file, m->run.classes, path, csv_line(t, i), t->label[i]);
    return EXIT_DONE;
}

static int read_table(mlp *m, const mlp_files *files) {
    const bool features = m->c.party == PERCEPTRON_FEATURES_OWNER;
    const csv_source source = {.part = features ? CSV_FEATURES : CSV_LABELS,
                               .features = m->run.features,
                               .file_name = "data.file",
                               .of_label = "data.label"};
    char text[MESSAGE_BYTES];
    csv_table t = {0};
    char *path = work_path(m->c.dir, files->file);
    if (path == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    int status = csv_read_part(&t, &source, path, files->label, text, sizeof text) == 0
                     ? check_table(m, &t, path)
                     : bad(m, text);
    if (status == EXIT_DONE && dataset_build(&m->data, &t, path, m->run.net.frac_bits,
                                             PERCEPTRON_RANGE_BITS, text, sizeof text) != 0)
        status = bad(m, text);
    csv_free(&t);
    free(path);
    return status;
}

/* Parties 0 and 1 have a file each. */
static int read_data(mlp *m) {
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    mlp_files files = {0};
    if (flags_take_json(&data_set, NULL, NULL, &files, m->c.data, "data", &to) != 0)
        return bad(m, text);
    if (m->c.party > PERCEPTRON_LABELS_OWNER)
        return m->c.data == NULL ? EXIT_DONE
                                 : bad(m, "data: party 2 of an mlp gives none; take it away");
    if (files.file == NULL)
        return bad(m, m->c.party == PERCEPTRON_FEATURES_OWNER
                          ? "data.file is missing; name the CSV file with the features"
                          : "data.file is missing; name the CSV file with the labels");
    return read_table(m, &files);
}

static int read_output(mlp *m) {
    static const char *const members[] = {"weights", "predictions", NULL};
    int status = work_output(&m->c, members, "weights", &m->file);
    if (status == EXIT_DONE)
        status = work_output(&m->c, members, "predictions", &m->predictions.path);
    if (status == EXIT_DONE && m->predictions.path != NULL &&
        m->c.party != PERCEPTRON_FEATURES_OWNER)
        return bad(m, "output.predictions: they open to party 0 alone, which has the features; "
                      "leave it out");
    if (status == EXIT_DONE && m->file != NULL && m->predictions.path != NULL &&
        strcmp(m->file, m->predictions.path) == 0)
        return bad(m, "output.predictions: is the file of output.weights too; name another");
    if (status == EXIT_DONE)
        status = atomic_file_check("output.predictions", m->predictions.path);
    return status == EXIT_DONE ? atomic_file_check("output.weights", m->file) : status;
}

static void mlp_close(void *work) {
    mlp *m = work;
    dataset_free(&m->data);
    perceptron_end(&m->p);
    free(m->values);
    free(m->weights);
    free(m->file);
    predictions_close(&m->predictions);
    free(m);
}

/* The shapes are those that job.run says, at all three. */
static int begin(mlp *m) {
    char text[MESSAGE_BYTES];
    const flag_message to = {text, sizeof text};
    const uint32_t held_out = m->run.rows / 5;
    const dataset shapes = {.features = m->run.features,
                            .classes = m->run.classes,
                            .train.rows = m->run.rows - held_out,
                            .test.rows = held_out};
    if (perceptron_begin(&m->p, &m->run.net, &names, m->run.seed, m->run.products, &shapes, &to) !=
        0)
        return bad(m, text);
    const uint32_t widest = m->run.features > m->run.classes ? m->run.features : m->run.classes;
    m->values = calloc((size_t)perceptron_rows(&m->p) * widest, sizeof *m->values);
    return m->values != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

static int mlp_open(void **work, const work_config *c) {
    mlp *m = calloc(1, sizeof *m);
    if (m == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    m->c = *c;
    int status = read_run(m);
    if (status == EXIT_DONE)
        status = read_output(m);
    if (status == EXIT_DONE)
        status = read_data(m);
    if (status == EXIT_DONE)
        status = begin(m);
    if (status == EXIT_DONE)
        *work = m;
    else
        mlp_close(m);
    return status;
}

/* ---- what is computed ---- */

static int mlp_program(void *work, const work_worker *w, uvcc_program **out) {
    mlp *m = work;
    char text[MESSAGE_BYTES] = "";
    const flag_message to = {text, sizeof text};
    (void)w;
    const int rc = perceptron_program(&m->p, out, &to);
    if (rc == UVCC_ERR_BOUND || rc == UVCC_ERR_CONFIG || rc == UVCC_ERR_PROGRAM)
        return report_error(EXIT_BAD_INPUT,
                            "%s: job.run: the numbers do not fit (%s); give a smaller frac_bits, "
                            "lr_shift, batch or hidden",
                            m->c.file, text);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "the program: %s", uvcc_error_text(rc));
}

static uint32_t mlp_steps(const void *work) {
    return ((const mlp *)work)->p.steps;
}

static uint32_t mlp_entry(const void *work, const work_worker *w, uint32_t step, const char **name,
                          bool *ahead) {
    const perceptron *p = &((const mlp *)work)->p;
    const uint32_t entry = perceptron_entry(p, step);
    (void)w;
    *name = entry == p->train_entry ? "train" : entry == p->predict_entry ? "predict" : "reveal";
    *ahead = perceptron_ahead(p, step);
    return entry;
}

static int set_public(void *user, uint32_t tensor, const int64_t *v) {
    return uvcc_session_set_public(user, tensor, v);
}

static int mlp_first_values(void *work, const work_worker *w, uvcc_session *s) {
    const mlp *m = work;
    (void)w;
    const int rc = perceptron_first_values(&m->p, set_public, s);
    if (rc == UVCC_ERR_AGAIN)
        return WORK_LATER;
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the initial weights: %s", uvcc_error_text(rc));
}

static const int64_t *mlp_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    mlp *m = work;
    (void)w;
    if (id == UVCC_MLP_IN_Y)
        perceptron_fill_y(&m->p, step, &m->data, m->values);
    else
        perceptron_fill_x(&m->p, step, &m->data, m->values);
    return m->values;
}

typedef struct opened {
    uvcc_session *session;
    uint32_t step;
} opened;

static const int64_t *get_output(void *user, const uvcc_io_desc *out) {
    const opened *o = user;
    return uvcc_session_output(o->session, o->step, out->id);
}

static int put_predictions(mlp *m, uvcc_session *s, uint32_t step) {
    const int64_t *v = uvcc_session_output(s, step, UVCC_MLP_OUT_PREDICTION);
    uint32_t first, rows = perceptron_range(&m->p, step, &first);
    uint32_t *class = malloc(rows * sizeof *class);
    if (v == NULL || class == NULL) {
        free(class);
        return report_error(EXIT_FAILED,
                            v == NULL ? "the predictions are not open" : "out of memory");
    }
    for (uint32_t i = 0; i < rows; i++)
        class[i] = perceptron_class(v + (size_t)i * m->run.classes, m->run.classes);
    const int status = predictions_put(&m->predictions, first, class, rows);
    free(class);
    return status;
}

static int mlp_finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                        char text[64]) {
    mlp *m = work;
    opened o = {s, step};
    (void)w;
    text[0] = '\0';
    if (step < m->p.train_steps)
        (void)snprintf(text, 64, "epoch %u/%u", step / m->p.steps_per_epoch + 1,
                       m->p.train_steps / m->p.steps_per_epoch);
    if (m->predictions.path != NULL && perceptron_entry(&m->p, step) == m->p.predict_entry)
        return put_predictions(m, s, step);
    if (step + 1 != m->p.steps)
        return EXIT_DONE;
    free(m->weights); /* of the same step in an earlier run */
    const int rc = perceptron_weights(&m->p, get_output, &o, &m->weights, &m->weights_len);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the weights are not open: %s", uvcc_error_text(rc));
}

static int mlp_part(void *work, uint8_t **bytes, size_t *len) {
    const mlp *m = work;
    *bytes = m->weights != NULL ? malloc(m->weights_len) : NULL;
    if (*bytes == NULL)
        return report_error(EXIT_FAILED,
                            m->weights != NULL ? "out of memory" : "the weights are not open");
    memcpy(*bytes, m->weights, m->weights_len);
    *len = m->weights_len;
    return EXIT_DONE;
}

static int write_weights(const mlp *m, const uint8_t *bytes, size_t len) {
    int status = EXIT_DONE;
    atomic_file *a = atomic_file_open("output.weights", m->file, &status);
    if (a != NULL) {
        (void)fwrite(bytes, 1, len, atomic_file_stream(a));
        status = atomic_file_finish(a);
    }
    atomic_file_close(a);
    return status;
}

static int mlp_merge(void *work, const uint8_t *const *part, const size_t *len, size_t parts,
                     json_t *result) {
    const mlp *m = work;
    uint8_t hash[32];
    if (parts != 1)
        return report_error(EXIT_FAILED, "an mlp has one worker for each party");
    (void)crypto_hash_sha256(hash, part[0], len[0]);
    if (json_object_set_new(result, "weights_sha256", report_hex(hash, sizeof hash)) != 0)
        return report_error(EXIT_FAILED, "out of memory");
    return m->file != NULL ? write_weights(m, part[0], len[0]) : EXIT_DONE;
}

const work_kind work_mlp = {.name = "mlp",
                            .open = mlp_open,
                            .close = mlp_close,
                            .program = mlp_program,
                            .steps = mlp_steps,
                            .entry = mlp_entry,
                            .first_values = mlp_first_values,
                            .input = mlp_input,
                            .finished = mlp_finished,
                            .part = mlp_part,
                            .merge = mlp_merge};
