/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - the main job: three sessions in one process train a perceptron as docs/training.md
 * says.
 *
 * The plaintext run goes ahead of the parties: step m of it is done when the first party agrees to
 * m. A value that leaves its bounds shows there, before a secure run would go wrong silently. */
#include "train.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "atomic_file.h"
#include "dataset.h"
#include "dir_use.h"
#include "finetune/train.h"
#include "host_loop.h"
#include "lm/train.h"
#include "options.h"
#include "report.h"
#include "train_report.h"
#include "uvlog.h"

#define MESSAGE_BYTES 512u

static const perceptron_names names = {"--batch", "--epochs"};

/* Inputs of one step. */
typedef struct batch {
    int64_t *x, *y;
} batch;

typedef struct run {
    const train_options *o;
    const dataset *d;
    perceptron p;
    uvcc_reference *reference;
    host host;
    batch batch[2];                  /* of step m at m mod 2 */
    double loss[4];                  /* of the plaintext run's step m at m mod 4 */
    double epoch_loss;               /* sum over the steps of this epoch that party 0 finished */
    uint32_t right, reference_right; /* predictions */
    uint32_t shown;                  /* steps, by the last turn */
    train_result result;
    int set_status; /* of the initial weights */
    train_progress progress;
    char *app; /* what logs say of the program */
} run;

/* ---- the plaintext run ---- */

static uint32_t count_right(const run *r, uint32_t step, const int64_t *outputs) {
    uint32_t first, rows = perceptron_range(&r->p, step, &first), right = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const int64_t *v = outputs + (size_t)i * r->d->classes;
        right += perceptron_class(v, r->d->classes) == r->d->test.label[first + i];
    }
    return right;
}

/* Half the squared error of the batch per row, from the plaintext run's last G. */
static void note_loss(run *r, uint32_t step) {
    char name[16];
    (void)snprintf(name, sizeof name, "G%u", r->p.mlp.hidden_count);
    int t = uvcc_program_find(r->p.program, name);
    const int64_t *g = t < 0 ? NULL : uvcc_reference_get(r->reference, (uint32_t)t);
    double sum = 0, one = (double)((int64_t)1 << r->o->net.frac_bits);
    for (size_t i = 0; g != NULL && i < (size_t)r->p.mlp.batch * r->d->classes; i++)
        sum += (double)g[i] / one * ((double)g[i] / one);
    r->loss[step % 4] = sum / 2 / r->p.mlp.batch;
}

static int set_inputs(run *r, uint32_t entry, const batch *b) {
    int rc = 0;
    for (uint32_t i = 0; i < uvcc_program_input_count(r->p.program, entry) && rc == 0; i++) {
        const uvcc_io_desc *in = uvcc_program_input_at(r->p.program, entry, i);
        rc = uvcc_reference_set(r->reference, in->tensor, in->id == UVCC_MLP_IN_Y ? b->y : b->x);
    }
    return rc;
}

/* A value that leaves its bounds is seen here, in plaintext, before the parties come to it. */
static int prepare(void *user, uint32_t step) {
    run *r = user;
    uint32_t entry = perceptron_entry(&r->p, step);
    batch *b = &r->batch[step % 2];
    char message[MESSAGE_BYTES] = "";
    if (entry != r->p.reveal_entry)
        perceptron_fill_x(&r->p, step, r->d, b->x);
    if (entry == r->p.train_entry)
        perceptron_fill_y(&r->p, step, r->d, b->y);
    int rc = set_inputs(r, entry, b);
    if (rc == 0)
        rc = uvcc_reference_step(r->reference, entry, message, sizeof message);
    if (rc == UVCC_ERR_BOUND) {
        return report_error(EXIT_BAD_INPUT,
                            "the training diverges in step %u (%s); give a larger --lr-shift than "
                            "%u, or rescale the features",
                            step + 1, message, r->o->net.lr_shift);
    }
    if (rc != 0)
        return host_failed(&r->host, "the plaintext run", rc);
    if (entry == r->p.train_entry) {
        note_loss(r, step);
    } else if (entry == r->p.predict_entry) {
        const uvcc_io_desc *out = uvcc_program_output_at(r->p.program, entry, 0);
        r->reference_right += count_right(r, step, uvcc_reference_get(r->reference, out->tensor));
    }
    return EXIT_DONE;
}

/* ---- what is opened ---- */

typedef struct opened {
    run *r;
    uint32_t step;
} opened;

/* An opened weight, which is compared with the plaintext run's. */
static const int64_t *get_opened(void *user, const uvcc_io_desc *out) {
    const opened *o = user;
    run *r = o->r;
    const uvcc_tensor_desc *t = uvcc_program_tensor_at(r->p.program, out->tensor);
    const int64_t *v = uvcc_session_output(r->host.worker[0].party[0].session, o->step, out->id);
    const int64_t *plain = uvcc_reference_get(r->reference, out->tensor);
    for (size_t j = 0; v != NULL && j < (size_t)t->rows * t->cols; j++)
        r->result.reference_equal = r->result.reference_equal && v[j] == plain[j];
    return v;
}

static int take_weights(run *r, uint32_t step) {
    opened o = {r, step};
    r->result.reference_equal = true;
    const int rc = perceptron_hash(&r->p, get_opened, &o, r->result.weights_sha256);
    return rc == 0 ? EXIT_DONE : host_failed(&r->host, "the weights are not open", rc);
}

/* Weights open to all, predictions to the owner of the features, who is party 0: its host reads
 * both. */
_Static_assert(PERCEPTRON_FEATURES_OWNER == 0, "take_event() reads the outputs of party 0");
static int take_outputs(run *r, uint32_t step) {
    uint32_t entry = perceptron_entry(&r->p, step);
    if (entry == r->p.train_entry)
        r->epoch_loss = (step % r->p.steps_per_epoch == 0 ? 0 : r->epoch_loss) + r->loss[step % 4];
    if (entry == r->p.reveal_entry)
        return take_weights(r, step);
    if (entry == r->p.predict_entry) {
        const int64_t *v =
            uvcc_session_output(r->host.worker[0].party[PERCEPTRON_FEATURES_OWNER].session, step,
                                UVCC_MLP_OUT_PREDICTION);
        if (v == NULL)
            return host_failed(&r->host, "the predictions are not open", UVCC_ERR_STATE);
        r->right += count_right(r, step, v);
    }
    return EXIT_DONE;
}

/* ---- the host's hooks ---- */

static int step_entry(void *user, const host_worker *w, uint32_t step) {
    (void)w;
    return (int)perceptron_entry(&((run *)user)->p, step);
}

/* Steps of training only: an output stays open only until the next step that opens it. */
static bool may_run_ahead(void *user, uint32_t step) {
    const run *r = user;
    return perceptron_ahead(&r->p, step);
}

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    const run *r = user;
    const batch *b = &r->batch[step % 2];
    (void)w;
    return id == UVCC_MLP_IN_Y ? b->y : b->x;
}

static int take_event(void *user, const host_worker *w, unsigned party, const uvcc_event *e) {
    (void)w;
    return e->kind == UVCC_EVENT_STEP_FINISHED && party == 0 ? take_outputs(user, e->step)
                                                             : EXIT_DONE;
}

static uint64_t rounds_of_party_0(const run *r) {
    return r->host.worker[0].party[0].stats.rounds;
}

static void show_progress(void *user) {
    run *r = user;
    const uint32_t steps = r->host.worker[0].party[0].finished;
    host_totals t;
    if (steps == r->shown)
        return;
    r->shown = steps;
    if (steps > r->p.train_steps || !train_progress_due(&r->progress, steps))
        return;
    host_totals_of(&r->host, &t);
    train_progress_show(&r->progress, steps,
                        r->epoch_loss / ((steps - 1) % r->p.steps_per_epoch + 1),
                        t.bytes_online + t.bytes_preprocessing, rounds_of_party_0(r));
}

/* ---- setting up ---- */

/* The same public value at all parties and in the plaintext run. */
static int set_public(void *user, uint32_t tensor, const int64_t *v) {
    run *r = user;
    const int rc = uvcc_reference_set(r->reference, tensor, v);
    if (rc != 0)
        return rc;
    r->set_status = host_set_public(&r->host, &r->host.worker[0], tensor, v);
    return r->set_status;
}

static int set_weights(run *r) {
    r->set_status = EXIT_DONE;
    const int rc = perceptron_first_values(&r->p, set_public, r);
    if (rc == 0 || r->set_status != EXIT_DONE)
        return r->set_status;
    return host_failed(&r->host, "the initial weights", rc);
}

/* With the plaintext run that goes beside it. */
static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    run *r = user;
    const uvcc_allocator al = uvcc_host_allocator();
    char message[MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    (void)w;
    int rc = perceptron_program(&r->p, out, &m);
    if (rc == UVCC_ERR_BOUND || rc == UVCC_ERR_CONFIG || rc == UVCC_ERR_PROGRAM)
        return report_error(EXIT_BAD_INPUT,
                            "the numbers do not fit (%s); give a smaller --frac-bits, --lr-shift, "
                            "--batch or --hidden",
                            message);
    if (rc == 0)
        rc = uvcc_reference_new(&r->reference, *out, &al);
    return rc == 0 ? EXIT_DONE : host_failed(&r->host, "the program", rc);
}

static int make_batches(run *r) {
    const dataset *d = r->d;
    const size_t rows = perceptron_rows(&r->p);
    bool ok = true;
    for (unsigned i = 0; i < 2; i++) {
        r->batch[i].x = malloc(rows * d->features * sizeof *r->batch[i].x);
        r->batch[i].y = malloc(rows * d->classes * sizeof *r->batch[i].y);
        ok = ok && r->batch[i].x != NULL && r->batch[i].y != NULL;
    }
    return ok ? EXIT_DONE : host_failed(&r->host, "the batches", UVCC_ERR_NOMEM);
}

static int open_host(run *r) {
    const train_options *o = r->o;
    if (o->record != NULL && (r->app = uvlog_app_text(o, &r->p.mlp)) == NULL)
        return host_failed(&r->host, "the logs", UVCC_ERR_NOMEM);
    const host_config c = {.command = "train",
                           .run = &o->run,
                           .replicas = 1,
                           .stages = 1,
                           .tensor_ranks = 1,
                           .smaller = "a smaller --hidden or --batch, or fewer columns",
                           .record = o->record,
                           .app = r->app,
                           .force = o->force,
                           .hooks = {.user = r,
                                     .program = make_program,
                                     .entry = step_entry,
                                     .ahead = may_run_ahead,
                                     .prepare = prepare,
                                     .input = give_input,
                                     .event = take_event,
                                     .turned = show_progress}};
    return host_open(&r->host, &c);
}

static int begin(run *r) {
    char message[MESSAGE_BYTES];
    const flag_message m = {message, sizeof message};
    if (perceptron_begin(&r->p, &r->o->net, &names, r->o->run.seed, r->o->run.products, r->d, &m) !=
        0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int status = make_batches(r);
    if (status == EXIT_DONE)
        status = open_host(r);
    if (status == EXIT_DONE)
        status = set_weights(r);
    return status == EXIT_DONE ? host_start(&r->host) : status;
}

/* ---- from begin to end ---- */

static int train(run *r) {
    train_progress_start(&r->progress, r->o, r->p.steps_per_epoch);
    const int status = host_run(&r->host, r->p.steps, true);
    report_line_end();
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted in step %u of %u; %s",
                            r->host.worker[0].party[0].finished + 1, r->p.steps,
                            r->o->run.audit != NULL ? "the bundles of finished steps are kept"
                                                    : "nothing is kept");
    return status == EXIT_DONE ? host_close(&r->host) : status;
}

static int collect_result(run *r, double time_s) {
    train_result *out = &r->result;
    host_totals t;
    int status = EXIT_DONE;
    host_totals_of(&r->host, &t);
    out->steps = r->p.train_steps;
    out->test_rows = r->d->test.rows;
    out->test_right = r->right;
    out->reference_right = r->reference_right;
    out->time_s = time_s;
    out->bytes_online = t.bytes_online;
    out->bytes_preprocessing = t.bytes_preprocessing;
    out->messages = t.messages;
    out->retransmissions = t.retransmissions;
    out->rounds = rounds_of_party_0(r);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = host_root(&r->host, p, out->global_root[p]);
    return status;
}

/* An exit status: what is left to do can fail. */
static int end(run *r) {
    uvcc_reference_free(r->reference);
    const int status = host_end(&r->host);
    for (unsigned i = 0; i < 2; i++) {
        free(r->batch[i].x);
        free(r->batch[i].y);
    }
    perceptron_end(&r->p);
    free(r->app);
    return status;
}

static int train_on(const train_options *o, const dataset *d, report_json *json) {
    run r = {.o = o, .d = d};
    uint64_t start = uvcc_host_now_ns();
    int status = begin(&r);
    if (status == EXIT_DONE)
        status = train(&r);
    if (status == EXIT_DONE)
        status = collect_result(&r, (double)(uvcc_host_now_ns() - start) * 1e-9);
    if (status == EXIT_DONE) {
        train_report_summary(o, &r.result);
        status =
            host_report(&r.host, json, train_report_json(&r.result), report_stream(o->run.json));
    }
    if (status == EXIT_DONE && !r.result.reference_equal &&
        o->net.truncation != UVCC_TRUNC_STOCHASTIC)
        status = report_error(EXIT_FAILED, "the opened weights are not those of the plaintext run");
    int ended = end(&r);
    return status != EXIT_DONE ? status : ended;
}

/* What --model says; the perceptron is the default. */
static const char *model_of(int argc, char *const *argv) {
    const char *model = "mlp";
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            model = argv[++i];
        else if (strncmp(argv[i], "--model=", 8) == 0)
            model = argv[i] + 8;
    }
    return model;
}

/* All that can be wrong with options and data is found before the sessions begin. */
int train_main(int argc, char *const *argv) {
    const char *model = model_of(argc, argv);
    if (strcmp(model, "transformer") == 0)
        return lm_train_main(argc, argv);
    if (strcmp(model, "mlp") != 0) /* a checkpoint's directory */
        return ft_train_main(argc, argv);
    char message[MESSAGE_BYTES];
    train_options o;
    if (options_parse(&o, argc, argv, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.run.help) {
        options_print_help(stdout);
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    const output_use uses[] = {{"trace", o.run.trace}, {"json", o.run.json}};
    const dir_user dirs[] = {{o.run.audit, DIR_EVIDENCE}, {o.record, DIR_LOGS}};
    if (atomic_file_apart(uses, sizeof uses / sizeof uses[0]) != EXIT_DONE ||
        dir_use_check(dirs, sizeof dirs / sizeof dirs[0]) != EXIT_DONE)
        return EXIT_BAD_INPUT;

    csv_table t;
    dataset d;
    if (csv_read(&t, o.data, o.label, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int rc = dataset_build(&d, &t, o.data, o.net.frac_bits, PERCEPTRON_RANGE_BITS, message,
                           sizeof message);
    csv_free(&t);
    if (rc != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int status = EXIT_BAD_INPUT;
    report_json *json = report_json_open(o.run.json);
    if (json != NULL)
        status = train_on(&o, &d, json);
    report_json_close(json);
    dataset_free(&d);
    return status;
}
