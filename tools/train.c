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

#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "bundles.h"
#include "dataset.h"
#include "lm/train.h"
#include "options.h"
#include "report.h"
#include "seeded.h"
#include "trace.h"
#include "uvlog.h"

#define RANGE_BITS       8u /* integer bits of activations: of held-out rows too */
#define PREDICT_ROWS_MAX 512u
#define PREDICT_SIZE_MAX (1u << 20) /* rows times units of the widest layer */
#define MESSAGE_BYTES    512u
#define FEATURES_OWNER   0u
#define LABELS_OWNER     1u
#define STEPS_MAX        100000000u

typedef struct party {
    uvcc_session *session;
    uvcc_cpu *cpu;
    uvcc_seeded_random random;
    uvlog *log;                       /* NULL: nothing is recorded */
    uint32_t agreed, given, finished; /* steps: agreed to; with inputs handed in; finished */
    bool ready, closed;
    uint8_t root[32];
} party;

/* Inputs of one step. */
typedef struct batch {
    int64_t *x, *y;
} batch;

typedef struct run {
    const train_options *o;
    const dataset *d;
    uvcc_allocator al;
    uvcc_mlp_config mlp;
    uvcc_program *program;
    uvcc_reference *reference;
    uvcc_loopback *net;
    party party[UVCC_PARTIES];
    uint32_t train_entry, predict_entry, reveal_entry;
    uint32_t steps_per_epoch, train_steps, predict_steps, steps; /* steps: all of them */
    uint32_t prepared;                                           /* steps of the plaintext run */
    batch batch[2];                                              /* of step m at m mod 2 */
    uint32_t *order, order_epoch;                                /* rows of one epoch */
    double loss[4];                  /* of the plaintext run's step m at m mod 4 */
    double epoch_loss;               /* sum over the steps of this epoch that party 0 finished */
    uint32_t right, reference_right; /* predictions */
    bool revealed, recorded;         /* recorded: there is something to keep in the logs */
    train_result result;
    progress shown;
    session_log log;
    char *app;      /* what logs say of the program */
    bundles *audit; /* NULL: none are written */
    trace *trace;   /* NULL: none */
} run;

static volatile sig_atomic_t interrupted;
static void on_interrupt(int number) {
    (void)number;
    interrupted = 1;
}

/* ---- small things ---- */

static int failed(run *r, const char *what, int rc) {
    progress_end(&r->shown);
    return report_error(EXIT_FAILED, "%s: %s", what, uvcc_error_text(rc));
}

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
        uvcc_mlp_order(r->o->seed, epoch, d->train.rows, r->order);
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

static int prepare(run *r, uint32_t step) {
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
        progress_end(&r->shown);
        return report_error(EXIT_BAD_INPUT,
                            "the training diverges in step %u (%s); give a larger --lr-shift than "
                            "%u, or rescale the features",
                            step + 1, message, r->o->lr_shift);
    }
    if (rc != 0)
        return failed(r, "the plaintext run", rc);
    if (entry == r->train_entry) {
        note_loss(r, step);
    } else if (entry == r->predict_entry) {
        const uvcc_io_desc *out = uvcc_program_output_at(r->program, entry, 0);
        r->reference_right += count_right(r, step, uvcc_reference_get(r->reference, out->tensor));
    }
    r->prepared = step + 1;
    return EXIT_DONE;
}

/* ---- one party's host ---- */

/* The opened weights against the plaintext run's, and their hash. */
static int take_weights(run *r, uint32_t step) {
    crypto_hash_sha256_state h;
    (void)crypto_hash_sha256_init(&h);
    r->result.reference_equal = true;
    for (uint32_t i = 0; i < uvcc_program_output_count(r->program, r->reveal_entry); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(r->program, r->reveal_entry, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(r->program, out->tensor);
        const int64_t *opened = uvcc_session_output(r->party[0].session, step, out->id);
        const int64_t *plain = uvcc_reference_get(r->reference, out->tensor);
        if (opened == NULL)
            return failed(r, "the weights are not open", UVCC_ERR_STATE);
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

/* All parties open the same values; the host of party 0 reads them. */
static int take_outputs(run *r, uint32_t step) {
    uint32_t entry = entry_of(r, step);
    if (entry == r->train_entry)
        r->epoch_loss = (step % r->steps_per_epoch == 0 ? 0 : r->epoch_loss) + r->loss[step % 4];
    if (entry == r->reveal_entry)
        return take_weights(r, step);
    if (entry == r->predict_entry) {
        const int64_t *v = uvcc_session_output(r->party[0].session, step, UVCC_MLP_OUT_PREDICTION);
        if (v == NULL)
            return failed(r, "the predictions are not open", UVCC_ERR_STATE);
        r->right += count_right(r, step, v);
    }
    return EXIT_DONE;
}

static int take_events(run *r, uint32_t p) {
    party *me = &r->party[p];
    uvcc_event e;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && uvcc_session_poll_event(me->session, &e) == 1) {
        if (r->audit != NULL)
            status = bundles_event(r->audit, me->session, &(bundle_place){.party = (uint8_t)p}, &e);
        if (status != EXIT_DONE)
            break;
        switch (e.kind) {
        case UVCC_EVENT_READY:
            me->ready = true;
            break;
        case UVCC_EVENT_STEP_FINISHED:
            me->finished = e.step + 1;
            memcpy(me->root, e.root, sizeof me->root);
            if (p == 0)
                status = take_outputs(r, e.step);
            break;
        case UVCC_EVENT_ABORTED:
            progress_end(&r->shown);
            return report_error(EXIT_FAILED, "party %u stopped: %s%s%s", p,
                                uvcc_abort_text(e.reason), e.text != NULL ? ": " : "",
                                e.text != NULL ? e.text : "");
        case UVCC_EVENT_CLOSED:
            me->closed = true;
            break;
        default:
            break;
        }
    }
    return status;
}

/* Agrees to what comes next and gives this party's inputs. */
static int give_steps(run *r, uint32_t p) {
    party *me = &r->party[p];
    uint64_t now = uvcc_loopback_now(r->net);
    while (me->ready && me->agreed < r->steps) {
        bool ahead = me->agreed < r->train_steps;
        if (me->agreed > me->finished + ahead)
            break;
        if (me->agreed == r->prepared) {
            int status = prepare(r, me->agreed);
            if (status != EXIT_DONE)
                return status;
        }
        int rc = uvcc_session_step(me->session, me->agreed, entry_of(r, me->agreed), now);
        if (rc == UVCC_ERR_AGAIN)
            break;
        if (rc != 0)
            return failed(r, "a step was refused", rc);
        me->agreed++;
    }
    for (; me->given < me->agreed; me->given++) {
        uint32_t entry = entry_of(r, me->given);
        const batch *b = &r->batch[me->given % 2];
        for (uint32_t i = 0; i < uvcc_program_input_count(r->program, entry); i++) {
            const uvcc_io_desc *in = uvcc_program_input_at(r->program, entry, i);
            if (in->owner != p)
                continue;
            int rc = uvcc_session_input(me->session, me->given, in->id,
                                        in->id == UVCC_MLP_IN_Y ? b->y : b->x, now);
            if (rc == UVCC_ERR_AGAIN)
                return EXIT_DONE;
            if (rc != 0)
                return failed(r, "an input was refused", rc);
        }
    }
    return EXIT_DONE;
}

/* ---- driving ---- */

static void show_progress(run *r) {
    uint32_t steps = r->party[0].finished;
    if (steps > r->train_steps || !progress_due(&r->shown, steps))
        return;
    uint64_t bytes = 0;
    uvcc_session_stats st;
    for (unsigned p = UVCC_PARTIES; p-- > 0;) {
        uvcc_session_get_stats(r->party[p].session, &st);
        bytes += st.bytes_online + st.bytes_preprocessing;
    }
    progress_show(&r->shown, steps, r->epoch_loss / ((steps - 1) % r->steps_per_epoch + 1), bytes,
                  st.rounds);
}

static int drive(run *r) {
    uvcc_session *sessions[UVCC_PARTIES];
    uvcc_cpu *cpus[UVCC_PARTIES];
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        sessions[p] = r->party[p].session;
        cpus[p] = r->party[p].cpu;
    }
    int rc = uvcc_loopback_drive(r->net, sessions, cpus, UVCC_PARTIES);
    if (rc < 0)
        return failed(r, "the parties cannot go on", rc);
    if (rc == 0) {
        progress_end(&r->shown);
        return report_error(EXIT_FAILED, "the parties wait for each other for ever in step %u",
                            r->party[0].finished + 1);
    }
    return EXIT_DONE;
}

/* Steps, and what the parties say of each other's. */
static bool all_finished(const run *r) {
    bool all = r->audit == NULL || bundles_waiting(r->audit) == 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        all = all && r->party[p].finished == r->steps;
    return all;
}

static bool all_closed(const run *r) {
    return r->party[0].closed && r->party[1].closed && r->party[2].closed;
}

static int train(run *r) {
    int status = EXIT_DONE;
    uint32_t shown = 0;
    while (status == EXIT_DONE && !all_finished(r)) {
        if (interrupted) {
            progress_end(&r->shown);
            return report_error(EXIT_INTERRUPTED, "interrupted in step %u of %u; %s",
                                r->party[0].finished + 1, r->steps,
                                r->audit != NULL ? "the bundles of finished steps are kept"
                                                 : "nothing is kept");
        }
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
            status = take_events(r, p);
            if (status == EXIT_DONE)
                status = give_steps(r, p);
        }
        if (r->party[0].finished != shown) {
            shown = r->party[0].finished;
            show_progress(r);
        }
        if (status == EXIT_DONE && !all_finished(r))
            status = drive(r);
    }
    progress_end(&r->shown);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        int rc = uvcc_session_close(r->party[p].session, uvcc_loopback_now(r->net));
        if (rc != 0)
            status = failed(r, "closing", rc);
    }
    while (status == EXIT_DONE && !all_closed(r)) {
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
            status = take_events(r, p);
        if (status == EXIT_DONE && !all_closed(r))
            status = drive(r);
    }
    return status;
}

/* ---- setting up ---- */

static void configure(run *r, unsigned p, uvcc_config *cfg) {
    const uint64_t seed = r->o->seed;
    seeded_session(cfg, &r->al, "train", seed, p, &r->o->faults, &r->log);
    cfg->random = uvcc_seeded(&r->party[p].random, seed, p);
    cfg->checks.bundles = r->o->audit != NULL;
    cfg->cookie = p;
    if (r->party[p].log != NULL) {
        cfg->record = uvlog_recorder(r->party[p].log);
        cfg->record.app = (const uint8_t *)r->app;
        cfg->record.app_len = strlen(r->app);
    }
}

static int start_logs(run *r) {
    if (r->o->record == NULL)
        return EXIT_DONE;
    r->app = uvlog_app_text(r->o, &r->mlp);
    if (r->app == NULL)
        return failed(r, "the logs", UVCC_ERR_NOMEM);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        r->party[p].log = uvlog_open(r->o->record, p, r->o->force);
        if (r->party[p].log == NULL)
            return EXIT_BAD_INPUT;
    }
    return EXIT_DONE;
}

static int start_audit(run *r) {
    if (r->o->audit == NULL)
        return EXIT_DONE;
    bundles_config c = {.dir = r->o->audit, .replicas = 1, .stages = 1, .tp_ranks = 1};
    seeded_bundles(&c, "train", r->o->seed);
    r->audit = bundles_open(&c);
    return r->audit != NULL ? EXIT_DONE : EXIT_BAD_INPUT;
}

/* What waits for a peer's AUDIT when a run ends early is written as far as it goes. */
static int end_audit(run *r) {
    int status = EXIT_DONE;
    for (unsigned p = 0; r->audit != NULL && p < UVCC_PARTIES; p++)
        if (r->party[p].session != NULL &&
            bundles_flush(r->audit, r->party[p].session, &(bundle_place){.party = (uint8_t)p}) !=
                EXIT_DONE)
            status = EXIT_FAILED;
    bundles_close(r->audit);
    return status;
}

static int start_party(run *r, unsigned p) {
    party *me = &r->party[p];
    char name[16];
    uvcc_cpu_config cpu = {.size = sizeof cpu,
                           .alloc = r->al,
                           .mode = (uvcc_cpu_mode)r->o->compute,
                           .seed = UVCC_PARTIES * r->o->compute_seed + p};
    uvcc_config cfg;
    int rc = uvcc_config_default(&cfg, sizeof cfg);
    (void)snprintf(name, sizeof name, "party %u", p);
    if (rc == 0)
        configure(r, p, &cfg);
    if (rc == 0 && r->trace != NULL)
        trace_hook(r->trace, p, name, &cfg, &cpu);
    if (rc == 0)
        rc = uvcc_cpu_new(&me->cpu, &cpu);
    if (rc != 0)
        return failed(r, "the executor", rc);
    rc = uvcc_session_new(&me->session, &cfg);
    if (rc == 0)
        rc = uvcc_session_load_program(me->session, r->program);
    if (rc == UVCC_ERR_PROGRAM || rc == UVCC_ERR_LIMIT)
        return report_error(
            EXIT_BAD_INPUT,
            "a step is too large (%s); give a smaller --hidden or --batch, or fewer "
            "columns",
            r->log.line);
    if (rc != 0)
        return failed(r, "a session cannot begin", rc);
    return EXIT_DONE;
}

/* The same public value at all parties and in the plaintext run. */
static int set_public(run *r, const char *name, uint32_t layer, const int64_t *v) {
    char full[16];
    (void)snprintf(full, sizeof full, "%s%u", name, layer);
    int t = uvcc_program_find(r->program, full);
    int rc = t < 0 ? t : uvcc_reference_set(r->reference, (uint32_t)t, v);
    for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++)
        rc = uvcc_session_set_public(r->party[p].session, (uint32_t)t, v);
    return rc;
}

static int set_weights(run *r) {
    int rc = 0;
    for (uint32_t l = 0; l < uvcc_mlp_layers(&r->mlp) && rc == 0; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&r->mlp, l, &in, &out);
        size_t n = (size_t)in * out;
        int64_t *w = malloc(n * sizeof *w), *zeros = calloc(out, sizeof *zeros);
        if (w == NULL || zeros == NULL) {
            rc = UVCC_ERR_NOMEM;
        } else {
            uvcc_mlp_initial_weights(&r->mlp, r->o->seed, l, w);
            rc = set_public(r, "W", l, w);
            for (size_t i = 0; i < n; i++)
                w[i] *= (int64_t)1 << uvcc_mlp_master_shift(&r->mlp);
            rc = rc != 0 ? rc : set_public(r, "MW", l, w);
            rc = rc != 0 ? rc : set_public(r, "b", l, zeros);
            rc = rc != 0 ? rc : set_public(r, "Mb", l, zeros);
        }
        free(w);
        free(zeros);
    }
    return rc == 0 ? EXIT_DONE : failed(r, "the initial weights", rc);
}

static int start_network(run *r) {
    int rc = seeded_network(&r->net, &r->al, &r->o->faults, r->o->fault_seed);
    for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++)
        rc = uvcc_session_start(r->party[p].session, uvcc_loopback_now(r->net));
    return rc == 0 ? EXIT_DONE : failed(r, "the network", rc);
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

static int make_program(run *r) {
    const train_options *o = r->o;
    const dataset *d = r->d;
    char message[MESSAGE_BYTES] = "";
    r->mlp = (uvcc_mlp_config){
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
        .products = (uint8_t)o->products,
        .x_owner = FEATURES_OWNER,
        .y_owner = LABELS_OWNER,
    };
    memcpy(r->mlp.hidden, o->hidden.v, sizeof o->hidden.v);
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

    int rc = uvcc_mlp_program(&r->program, &r->mlp, &r->al, message, sizeof message);
    if (rc == UVCC_ERR_BOUND || rc == UVCC_ERR_CONFIG || rc == UVCC_ERR_PROGRAM)
        return report_error(EXIT_BAD_INPUT,
                            "the numbers do not fit (%s); give a smaller --frac-bits, --lr-shift, "
                            "--batch or --hidden",
                            message);
    if (rc == 0)
        rc = uvcc_reference_new(&r->reference, r->program, &r->al);
    if (rc != 0)
        return failed(r, "the program", rc);
    r->train_entry = (uint32_t)uvcc_program_find_entry(r->program, "train");
    r->predict_entry = (uint32_t)uvcc_program_find_entry(r->program, "predict");
    r->reveal_entry = (uint32_t)uvcc_program_find_entry(r->program, "reveal");

    size_t rows = o->batch > r->mlp.predict_rows ? o->batch : r->mlp.predict_rows;
    r->order = malloc(d->train.rows * sizeof *r->order);
    bool ok = r->order != NULL;
    for (unsigned i = 0; i < 2; i++) {
        r->batch[i].x = malloc(rows * d->features * sizeof *r->batch[i].x);
        r->batch[i].y = malloc(rows * d->classes * sizeof *r->batch[i].y);
        ok = ok && r->batch[i].x != NULL && r->batch[i].y != NULL;
    }
    return ok ? EXIT_DONE : failed(r, "the batches", UVCC_ERR_NOMEM);
}

static int begin(run *r) {
    int status = make_program(r);
    if (status == EXIT_DONE)
        status = start_logs(r);
    if (status == EXIT_DONE)
        status = start_audit(r);
    if (status == EXIT_DONE && (r->o->trace != NULL || r->o->profile))
        r->trace = trace_new(r->o->trace, r->program, UVCC_PARTIES, &status);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = start_party(r, p);
    if (status == EXIT_DONE)
        status = set_weights(r);
    if (status == EXIT_DONE)
        status = start_network(r);
    return status;
}

static void collect_result(run *r, double time_s) {
    train_result *out = &r->result;
    out->steps = r->train_steps;
    out->test_rows = r->d->test.rows;
    out->test_right = r->right;
    out->reference_right = r->reference_right;
    out->time_s = time_s;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r->party[p].session, &st);
        out->bytes_online += st.bytes_online;
        out->bytes_preprocessing += st.bytes_preprocessing;
        out->messages += st.messages;
        out->retransmissions += st.retransmissions;
        if (p == 0)
            out->rounds = st.rounds;
        memcpy(out->global_root[p], r->party[p].root, sizeof out->global_root[p]);
    }
}

/* Logs of runs that failed are kept too. */
static int end_logs(run *r) {
    bool all = true;
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        all = all && r->party[p].log != NULL && r->recorded;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if (all && status == EXIT_DONE)
            status = uvlog_finish(r->party[p].log);
        uvlog_close(r->party[p].log);
    }
    free(r->app);
    return status;
}

/* The profile, the trace and the JSON output. */
static int report_on_ops(run *r, report_json *json) {
    json_t *profile = NULL;
    if (r->trace != NULL)
        trace_other_bytes(r->trace, r->result.bytes_online, r->result.bytes_preprocessing);
    if (r->o->profile) {
        const int status = trace_print(r->trace, report_stream(r->o->json));
        if (status != EXIT_DONE)
            return status;
        profile = trace_json(r->trace);
        if (profile == NULL)
            return report_error(EXIT_FAILED, "out of memory");
    }
    const int written = report_json_write(json, &r->result, profile);
    const int traced = r->trace != NULL ? trace_finish(r->trace) : EXIT_DONE;
    return written != EXIT_DONE ? written : traced;
}

/* An exit status: what is left to do can fail. */
static int end(run *r) {
    int status = end_audit(r);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) /* jobs that are out end before their memory goes */
        uvcc_cpu_free(r->party[p].cpu);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        uvcc_session_free(r->party[p].session);
    trace_free(r->trace);
    uvcc_loopback_free(r->net);
    uvcc_reference_free(r->reference);
    uvcc_program_free(r->program);
    for (unsigned i = 0; i < 2; i++) {
        free(r->batch[i].x);
        free(r->batch[i].y);
    }
    free(r->order);
    int logs = end_logs(r);
    return status != EXIT_DONE ? status : logs;
}

static int train_on(const train_options *o, const dataset *d, report_json *json) {
    run r = {.o = o, .d = d, .al = uvcc_host_allocator()};
    uint64_t start = uvcc_host_now_ns();
    int status = begin(&r);
    if (status == EXIT_DONE) {
        r.recorded = true;
        progress_start(&r.shown, o, r.steps_per_epoch);
        status = train(&r);
    }
    if (status == EXIT_DONE) {
        collect_result(&r, (double)(uvcc_host_now_ns() - start) * 1e-9);
        report_summary(o, &r.result);
        status = report_on_ops(&r, json);
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

int train_main(int argc, char *const *argv) {
    if (wants_transformer(argc, argv))
        return lm_train_main(argc, argv);
    char message[MESSAGE_BYTES];
    train_options o;
    if (options_parse(&o, argc, argv, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.help) {
        options_print_help(stdout);
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    struct sigaction on_signal = {.sa_handler = on_interrupt};
    (void)sigaction(SIGINT, &on_signal, NULL);

    csv_table t;
    dataset d;
    if (csv_read(&t, o.data, o.label, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int rc = dataset_build(&d, &t, o.data, o.frac_bits, RANGE_BITS, message, sizeof message);
    csv_free(&t);
    if (rc != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    int status = EXIT_BAD_INPUT;
    report_json *json = report_json_open(o.json);
    if (json != NULL)
        status = train_on(&o, &d, json);
    report_json_close(json);
    dataset_free(&d);
    return status;
}
