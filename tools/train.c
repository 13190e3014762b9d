/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - the main job: three sessions in one process train a perceptron as docs/training.md
 * says.
 *
 * Steps are numbered through: the training steps, then steps that predict the held-out rows, then
 * one that opens the weights. A training step is agreed to while the one before it runs, so that
 * its keys are dealt ahead; the later ones are not, because an output stays open only until the
 * next step that opens it.
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
#include "host_loop.h"
#include "interrupt.h"
#include "lm/train.h"
#include "options.h"
#include "report.h"
#include "train_report.h"
#include "uvlog.h"

#define RANGE_BITS       8u /* integer bits of activations: of held-out rows too */
#define PREDICT_ROWS_MAX 512u
#define PREDICT_SIZE_MAX (1u << 20) /* rows times units of the widest layer */
#define MESSAGE_BYTES    512u
#define FEATURES_OWNER   0u
#define LABELS_OWNER     1u
#define STEPS_MAX        100000000u

/* Inputs of one step. */
typedef struct batch {
    int64_t *x, *y;
} batch;

typedef struct run {
    const train_options *o;
    const dataset *d;
    uvcc_mlp_config mlp;
    const uvcc_program *program; /* the host's */
    uvcc_reference *reference;
    host host;
    uint32_t train_entry, predict_entry, reveal_entry;
    uint32_t steps_per_epoch, train_steps, predict_steps, steps; /* steps: all of them */
    batch batch[2];                                              /* of step m at m mod 2 */
    uint32_t *order, order_epoch;                                /* rows of one epoch */
    double loss[4];                  /* of the plaintext run's step m at m mod 4 */
    double epoch_loss;               /* sum over the steps of this epoch that party 0 finished */
    uint32_t right, reference_right; /* predictions */
    uint32_t shown;                  /* steps, by the last turn */
    train_result result;
    train_progress progress;
    char *app; /* what logs say of the program */
} run;

/* ---- small things ---- */

static uint32_t argmax(const int64_t *v, uint32_t n) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        if (v[i] > v[best])
            best = i;
    }
    return best;
}

static uint32_t entry_of(const run *r, uint32_t step) {
    return step < r->train_steps                      ? r->train_entry
           : step < r->train_steps + r->predict_steps ? r->predict_entry
                                                      : r->reveal_entry;
}

/* ---- the plaintext run ---- */

static void fill_train_batch(run *r, uint32_t step, batch *b) {
    const dataset *d = r->d;
    uint32_t epoch = step / r->steps_per_epoch, rows = r->mlp.batch;
    if (step == 0 || epoch != r->order_epoch) {
        uvcc_mlp_order(r->o->run.seed, epoch, d->train.rows, r->order);
        r->order_epoch = epoch;
    }
    const uint32_t *row = r->order + (size_t)(step % r->steps_per_epoch) * rows;
    memset(b->y, 0, (size_t)rows * d->classes * sizeof *b->y);
    for (uint32_t i = 0; i < rows; i++) {
        memcpy(b->x + (size_t)i * d->features, d->train.x + (size_t)row[i] * d->features,
               d->features * sizeof *b->x);
        b->y[(size_t)i * d->classes + d->train.label[row[i]]] = (int64_t)1 << r->o->frac_bits;
    }
}

/* Rows of the held-out part that a predict step covers; the rest of its input is zeros. */
static uint32_t predict_range(const run *r, uint32_t step, uint32_t *first) {
    *first = (step - r->train_steps) * r->mlp.predict_rows;
    uint32_t left = r->d->test.rows - *first;
    return left < r->mlp.predict_rows ? left : r->mlp.predict_rows;
}

static void fill_predict_batch(run *r, uint32_t step, batch *b) {
    uint32_t first, rows = predict_range(r, step, &first);
    size_t features = r->d->features;
    memcpy(b->x, r->d->test.x + first * features, rows * features * sizeof *b->x);
    memset(b->x + rows * features, 0, (r->mlp.predict_rows - rows) * features * sizeof *b->x);
}

static uint32_t count_right(const run *r, uint32_t step, const int64_t *outputs) {
    uint32_t first, rows = predict_range(r, step, &first), right = 0;
    for (uint32_t i = 0; i < rows; i++) {
        const int64_t *v = outputs + (size_t)i * r->d->classes;
        right += argmax(v, r->d->classes) == r->d->test.label[first + i];
    }
    return right;
}

/* Half the squared error of the batch per row, from the plaintext run's last G. */
static void note_loss(run *r, uint32_t step) {
    char name[16];
    (void)snprintf(name, sizeof name, "G%u", r->mlp.hidden_count);
    int t = uvcc_program_find(r->program, name);
    const int64_t *g = t < 0 ? NULL : uvcc_reference_get(r->reference, (uint32_t)t);
    double sum = 0, one = (double)((int64_t)1 << r->o->frac_bits);
    for (size_t i = 0; g != NULL && i < (size_t)r->mlp.batch * r->d->classes; i++)
        sum += (double)g[i] / one * ((double)g[i] / one);
    r->loss[step % 4] = sum / 2 / r->mlp.batch;
}

static int set_inputs(run *r, uint32_t entry, const batch *b) {
    int rc = 0;
    for (uint32_t i = 0; i < uvcc_program_input_count(r->program, entry) && rc == 0; i++) {
        const uvcc_io_desc *in = uvcc_program_input_at(r->program, entry, i);
        rc = uvcc_reference_set(r->reference, in->tensor, in->id == UVCC_MLP_IN_Y ? b->y : b->x);
    }
    return rc;
}

/* A value that leaves its bounds is seen here, in plaintext, before the parties come to it. */
static int prepare(void *user, uint32_t step) {
    run *r = user;
    uint32_t entry = entry_of(r, step);
    batch *b = &r->batch[step % 2];
    char message[MESSAGE_BYTES] = "";
    if (entry == r->train_entry)
        fill_train_batch(r, step, b);
    else if (entry == r->predict_entry)
        fill_predict_batch(r, step, b);
    int rc = set_inputs(r, entry, b);
    if (rc == 0)
        rc = uvcc_reference_step(r->reference, entry, message, sizeof message);
    if (rc == UVCC_ERR_BOUND) {
        return report_error(EXIT_BAD_INPUT,
                            "the training diverges in step %u (%s); give a larger --lr-shift than "
                            "%u, or rescale the features",
                            step + 1, message, r->o->lr_shift);
    }
    if (rc != 0)
        return host_failed(&r->host, "the plaintext run", rc);
    if (entry == r->train_entry) {
        note_loss(r, step);
    } else if (entry == r->predict_entry) {
        const uvcc_io_desc *out = uvcc_program_output_at(r->program, entry, 0);
        r->reference_right += count_right(r, step, uvcc_reference_get(r->reference, out->tensor));
    }
    return EXIT_DONE;
}

/* ---- what is opened ---- */

/* The opened weights against the plaintext run's, and their hash. */
static int take_weights(run *r, uint32_t step) {
    crypto_hash_sha256_state h;
    (void)crypto_hash_sha256_init(&h);
    r->result.reference_equal = true;
    for (uint32_t i = 0; i < uvcc_program_output_count(r->program, r->reveal_entry); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(r->program, r->reveal_entry, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(r->program, out->tensor);
        const int64_t *opened =
            uvcc_session_output(r->host.worker[0].party[0].session, step, out->id);
        const int64_t *plain = uvcc_reference_get(r->reference, out->tensor);
        if (opened == NULL)
            return host_failed(&r->host, "the weights are not open", UVCC_ERR_STATE);
        for (size_t j = 0; j < (size_t)t->rows * t->cols; j++) {
            uint8_t le[8];
            for (unsigned k = 0; k < 8; k++)
                le[k] = (uint8_t)((uint64_t)opened[j] >> (8 * k));
            (void)crypto_hash_sha256_update(&h, le, sizeof le);
            r->result.reference_equal = r->result.reference_equal && opened[j] == plain[j];
        }
    }
    (void)crypto_hash_sha256_final(&h, r->result.weights_sha256);
    return EXIT_DONE;
}

/* Weights open to all, predictions to the owner of the features, who is party 0: its host reads
 * both. */
_Static_assert(FEATURES_OWNER == 0, "take_event() reads the outputs of party 0");
static int take_outputs(run *r, uint32_t step) {
    uint32_t entry = entry_of(r, step);
    if (entry == r->train_entry)
        r->epoch_loss = (step % r->steps_per_epoch == 0 ? 0 : r->epoch_loss) + r->loss[step % 4];
    if (entry == r->reveal_entry)
        return take_weights(r, step);
    if (entry == r->predict_entry) {
        const int64_t *v = uvcc_session_output(r->host.worker[0].party[FEATURES_OWNER].session,
                                               step, UVCC_MLP_OUT_PREDICTION);
        if (v == NULL)
            return host_failed(&r->host, "the predictions are not open", UVCC_ERR_STATE);
        r->right += count_right(r, step, v);
    }
    return EXIT_DONE;
}

/* ---- the host's hooks ---- */

static int step_entry(void *user, const host_worker *w, uint32_t step) {
    (void)w;
    return (int)entry_of(user, step);
}

/* Steps of training only: an output stays open only until the next step that opens it. */
static bool may_run_ahead(void *user, uint32_t step) {
    const run *r = user;
    return step < r->train_steps;
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
    uvcc_session_stats st;
    uvcc_session_get_stats(r->host.worker[0].party[0].session, &st);
    return st.rounds;
}

static void show_progress(void *user) {
    run *r = user;
    const uint32_t steps = r->host.worker[0].party[0].finished;
    host_totals t;
    if (steps == r->shown)
        return;
    r->shown = steps;
    if (steps > r->train_steps || !train_progress_due(&r->progress, steps))
        return;
    host_totals_of(&r->host, &t);
    train_progress_show(&r->progress, steps, r->epoch_loss / ((steps - 1) % r->steps_per_epoch + 1),
                        t.bytes_online + t.bytes_preprocessing, rounds_of_party_0(r));
}

/* ---- setting up ---- */

/* The same public value at all parties and in the plaintext run. */
static int set_public(run *r, const char *name, uint32_t layer, const int64_t *v) {
    char full[16];
    (void)snprintf(full, sizeof full, "%s%u", name, layer);
    host_worker *w = &r->host.worker[0];
    int t = uvcc_program_find(w->program, full);
    int rc = t < 0 ? t : uvcc_reference_set(r->reference, (uint32_t)t, v);
    return rc == 0 ? host_set_public(&r->host, w, (uint32_t)t, v)
                   : host_failed(&r->host, "the initial weights", rc);
}

static int set_layer(run *r, uint32_t l, int64_t *w, size_t n, const int64_t *zeros) {
    uvcc_mlp_initial_weights(&r->mlp, r->o->run.seed, l, w);
    int status = set_public(r, "W", l, w);
    for (size_t i = 0; i < n; i++)
        w[i] *= (int64_t)1 << uvcc_mlp_master_shift(&r->mlp);
    if (status == EXIT_DONE)
        status = set_public(r, "MW", l, w);
    if (status == EXIT_DONE)
        status = set_public(r, "b", l, zeros);
    return status == EXIT_DONE ? set_public(r, "Mb", l, zeros) : status;
}

static int set_weights(run *r) {
    int status = EXIT_DONE;
    for (uint32_t l = 0; l < uvcc_mlp_layers(&r->mlp) && status == EXIT_DONE; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&r->mlp, l, &in, &out);
        size_t n = (size_t)in * out;
        int64_t *w = malloc(n * sizeof *w), *zeros = calloc(out, sizeof *zeros);
        if (w != NULL && zeros != NULL)
            status = set_layer(r, l, w, n, zeros);
        else
            status = host_failed(&r->host, "the initial weights", UVCC_ERR_NOMEM);
        free(w);
        free(zeros);
    }
    return status;
}

/* Held-out rows are predicted in steps of so many. */
static uint32_t predict_rows(const train_options *o, const dataset *d) {
    uint32_t widest = d->features > d->classes ? d->features : d->classes;
    for (uint32_t l = 0; l < o->hidden.count; l++)
        widest = o->hidden.v[l] > widest ? o->hidden.v[l] : widest;
    uint32_t rows = PREDICT_SIZE_MAX / widest;
    rows = rows < PREDICT_ROWS_MAX ? rows : PREDICT_ROWS_MAX;
    return rows < d->test.rows ? rows : d->test.rows;
}

static uvcc_mlp_config mlp_of(const train_options *o, const dataset *d) {
    uvcc_mlp_config mlp = {
        .features = d->features,
        .classes = d->classes,
        .hidden_count = o->hidden.count,
        .batch = o->batch,
        .predict_rows = predict_rows(o, d),
        .lr_shift = (uint8_t)o->lr_shift,
        .frac_bits = (uint8_t)o->frac_bits,
        .range_bits = RANGE_BITS,
        .truncation = (uint8_t)o->truncation,
        .compare = (uint8_t)o->compare,
        .products = (uint8_t)o->run.products,
        .x_owner = FEATURES_OWNER,
        .y_owner = LABELS_OWNER,
    };
    memcpy(mlp.hidden, o->hidden.v, sizeof o->hidden.v);
    return mlp;
}

static int count_steps(run *r) {
    const train_options *o = r->o;
    const dataset *d = r->d;
    if (o->batch > d->train.rows)
        return report_error(EXIT_BAD_INPUT,
                            "--batch %u: the file has %u rows to train on; give a smaller batch or "
                            "more rows",
                            o->batch, d->train.rows);
    r->steps_per_epoch = d->train.rows / o->batch;
    r->predict_steps = (d->test.rows + r->mlp.predict_rows - 1) / r->mlp.predict_rows;
    if ((uint64_t)o->epochs * r->steps_per_epoch > STEPS_MAX)
        return report_error(EXIT_BAD_INPUT,
                            "--epochs %u: more than %u steps; give fewer epochs or a larger "
                            "--batch",
                            o->epochs, STEPS_MAX);
    r->train_steps = o->epochs * r->steps_per_epoch;
    r->steps = r->train_steps + r->predict_steps + 1;
    return EXIT_DONE;
}

/* With the plaintext run that goes beside it. */
static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    run *r = user;
    const uvcc_allocator al = uvcc_host_allocator();
    char message[MESSAGE_BYTES] = "";
    (void)w;
    int rc = uvcc_mlp_program(out, &r->mlp, &al, message, sizeof message);
    if (rc == UVCC_ERR_BOUND || rc == UVCC_ERR_CONFIG || rc == UVCC_ERR_PROGRAM)
        return report_error(EXIT_BAD_INPUT,
                            "the numbers do not fit (%s); give a smaller --frac-bits, --lr-shift, "
                            "--batch or --hidden",
                            message);
    if (rc == 0)
        rc = uvcc_reference_new(&r->reference, *out, &al);
    if (rc != 0)
        return host_failed(&r->host, "the program", rc);
    r->program = *out;
    r->train_entry = (uint32_t)uvcc_program_find_entry(r->program, "train");
    r->predict_entry = (uint32_t)uvcc_program_find_entry(r->program, "predict");
    r->reveal_entry = (uint32_t)uvcc_program_find_entry(r->program, "reveal");
    return EXIT_DONE;
}

static int make_batches(run *r) {
    const dataset *d = r->d;
    size_t rows = r->mlp.batch > r->mlp.predict_rows ? r->mlp.batch : r->mlp.predict_rows;
    r->order = malloc(d->train.rows * sizeof *r->order);
    bool ok = r->order != NULL;
    for (unsigned i = 0; i < 2; i++) {
        r->batch[i].x = malloc(rows * d->features * sizeof *r->batch[i].x);
        r->batch[i].y = malloc(rows * d->classes * sizeof *r->batch[i].y);
        ok = ok && r->batch[i].x != NULL && r->batch[i].y != NULL;
    }
    return ok ? EXIT_DONE : host_failed(&r->host, "the batches", UVCC_ERR_NOMEM);
}

static int open_host(run *r) {
    const train_options *o = r->o;
    if (o->record != NULL && (r->app = uvlog_app_text(o, &r->mlp)) == NULL)
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
    r->mlp = mlp_of(r->o, r->d);
    int status = count_steps(r);
    if (status == EXIT_DONE)
        status = make_batches(r);
    if (status == EXIT_DONE)
        status = open_host(r);
    if (status == EXIT_DONE)
        status = set_weights(r);
    return status == EXIT_DONE ? host_start(&r->host) : status;
}

/* ---- from begin to end ---- */

static int train(run *r) {
    train_progress_start(&r->progress, r->o, r->steps_per_epoch);
    const int status = host_run(&r->host, r->steps, true);
    report_line_end();
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted in step %u of %u; %s",
                            r->host.worker[0].party[0].finished + 1, r->steps,
                            r->o->run.audit != NULL ? "the bundles of finished steps are kept"
                                                    : "nothing is kept");
    return status == EXIT_DONE ? host_close(&r->host) : status;
}

static int collect_result(run *r, double time_s) {
    train_result *out = &r->result;
    host_totals t;
    int status = EXIT_DONE;
    host_totals_of(&r->host, &t);
    out->steps = r->train_steps;
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
    free(r->order);
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
    if (status == EXIT_DONE && !r.result.reference_equal && o->truncation != UVCC_TRUNC_STOCHASTIC)
        status = report_error(EXIT_FAILED, "the opened weights are not those of the plaintext run");
    int ended = end(&r);
    return status != EXIT_DONE ? status : ended;
}

/* The words name the model; the perceptron is the default. */
static bool wants_transformer(int argc, char *const *argv) {
    bool yes = false;
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--model") == 0 && i + 1 < argc)
            yes = strcmp(argv[i + 1], "transformer") == 0;
        else if (strncmp(argv[i], "--model=", 8) == 0)
            yes = strcmp(argv[i] + 8, "transformer") == 0;
    }
    return yes;
}

/* All that can be wrong with options and data is found before the sessions begin. */
int train_main(int argc, char *const *argv) {
    if (wants_transformer(argc, argv))
        return lm_train_main(argc, argv);
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
    interrupt_catch();
    const output_use uses[] = {{"trace", o.run.trace}, {"json", o.run.json}};
    const dir_user dirs[] = {{o.run.audit, DIR_EVIDENCE}, {o.record, DIR_LOGS}};
    if (atomic_file_apart(uses, sizeof uses / sizeof uses[0]) != EXIT_DONE ||
        dir_use_check(dirs, sizeof dirs / sizeof dirs[0]) != EXIT_DONE)
        return EXIT_BAD_INPUT;

    csv_table t;
    dataset d;
    if (csv_read(&t, o.data, o.label, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int rc = dataset_build(&d, &t, o.data, o.frac_bits, RANGE_BITS, message, sizeof message);
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
