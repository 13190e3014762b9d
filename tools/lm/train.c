/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - see train.h. One step after the other: the rate is set, the text's owner gives the
 * windows of the step's sequences, all workers run the entry "train", the sum of its losses is
 * opened. After the last one the weights are opened. */
#include "train.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../dir_use.h"
#include "../interrupt.h"
#include "../report.h"
#include "../svg.h"
#include "checkpoint.h"
#include "job.h"
#include "model.h"
#include "text.h"

#define MESSAGE_BYTES 512u
#define OWNER         0u

typedef struct lm_run {
    const lm_options *o;
    uvcc_transformer_config cfg;
    lm_text text;
    job job;
    lm_model model;  /* whole weights: initial, then the opened ones */
    int64_t *input;  /* of one worker */
    double *loss;    /* of every step, nats per byte */
    uint32_t losses; /* that many of them */
    lm_manifest manifest;
    lm_start start; /* where this run begins */
    uint8_t weights_sha256[32];
    int weights_written; /* an exit status */
    bool reveals;        /* the step that opens the weights is next, or runs */
    bool checked, equal; /* against the plaintext run */
    double start_s, time_s;
    report_pace pace;
    uint64_t transient_bound, transient_bound_mb; /* of one worker; 0: not known */
} lm_run;

static double now_s(void) {
    return (double)uvcc_host_now_ns() * 1e-9;
}

/* ---- inputs ---- */

/* Rows of one-hot vectors: of tokens, or of the bytes that follow them. */
static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    lm_run *r = user;
    const uvcc_transformer_worker at = job_place(w);
    lm_fill_input(&r->cfg, r->o->run.seed, step, &at, &r->text, id, r->input);
    return r->input;
}

/* Kept for good: see the checkpoint's directory. */
static void keep_refusal(void *user, uint32_t step) {
    const lm_run *r = user;
    if (r->o->checkpoint != NULL)
        (void)lm_checkpoint_refuse(r->o->checkpoint, step);
}

/* The step that opens the weights changes none: what is kept stays that of the training. */
static int keep_shares(void *user, const host_worker *w, unsigned party, const uvcc_event *e) {
    const lm_run *r = user;
    if (r->o->checkpoint == NULL || (r->reveals && e->kind == UVCC_EVENT_CHECKPOINT))
        return EXIT_DONE;
    return lm_checkpoint_event(r->o->checkpoint, w, party, e);
}

/* ---- progress ---- */

static void show(lm_run *r, double loss) {
    const uint32_t done = r->job.step - r->start.step;
    if (!report_pace_due(&r->pace, done == 1 || r->job.step == r->o->steps))
        return;
    host_totals t;
    host_totals_of(&r->job.host, &t);
    report_line(false, "step %u/%u  loss %.4f  %.0f bytes/s  %.1f MB  %llu rounds  %s", r->job.step,
                r->o->steps, loss,
                (double)done * r->cfg.batch * r->cfg.context / report_pace_elapsed(&r->pace),
                (double)(t.bytes_online + t.bytes_preprocessing) * 1e-6,
                (unsigned long long)t.rounds,
                report_pace_left(&r->pace, done, r->o->steps - r->start.step));
}

/* ---- the steps ---- */

static int set_rate(lm_run *r) {
    int status = EXIT_DONE;
    const int64_t rate = uvcc_transformer_rate(&r->cfg, r->job.step);
    for (uint32_t i = 0; i < r->job.host.workers && status == EXIT_DONE; i++)
        status = job_set_public(&r->job, &r->job.host.worker[i], "rate", &rate);
    return status;
}

/* The opened sum over the batch: the text's owner has it, at every worker of the last stage. */
static double step_loss(const lm_run *r) {
    for (uint32_t i = 0; i < r->job.host.workers; i++) {
        const int64_t *sum = job_output(&r->job, &r->job.host.worker[i], UVCC_TRANSFORMER_OUT_LOSS);
        if (sum != NULL)
            return lm_loss(&r->cfg, *sum);
    }
    return NAN;
}

static int train(lm_run *r) {
    int status = EXIT_DONE;
    report_pace_start(&r->pace, r->o->run.progress);
    while (status == EXIT_DONE && r->job.step < r->o->steps) {
        status = set_rate(r);
        if (status == EXIT_DONE)
            status = job_step(&r->job, "train", true);
        if (status != EXIT_DONE)
            break;
        r->loss[r->losses] = step_loss(r);
        show(r, r->loss[r->losses++]);
    }
    report_line_end();
    if (status == EXIT_INTERRUPTED && r->o->checkpoint != NULL)
        return report_error(status,
                            "interrupted in step %u of %u; the same command goes on from %s",
                            r->job.step + 1, r->o->steps, r->o->checkpoint);
    if (status == EXIT_INTERRUPTED)
        return report_error(status,
                            "interrupted in step %u of %u; nothing is kept (see --checkpoint)",
                            r->job.step + 1, r->o->steps);
    return status;
}

/* Values that wrapped end no step: what they were is secret. The loss tells, if it is opened. */
static void warn_of_losses(const lm_run *r) {
    uint32_t bad = 0, first = 0;
    for (uint32_t i = r->losses; i-- > 0;)
        if (!isnan(r->loss[i]) && !lm_loss_possible(r->loss[i])) {
            bad++;
            first = i;
        }
    if (bad != 0)
        report_line(
            true,
            "the loss is %.4f in step %u and no model's in %u of %u steps: values left their "
            "bounds, and the weights are worth nothing; try a smaller --lr or --clip",
            r->loss[first], r->start.step + first + 1, bad, r->losses);
}

/* What the last step opened. */
static int gather(lm_run *r) {
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(&r->cfg); i++) {
        bool found = false;
        for (uint32_t k = 0; k < r->job.host.workers; k++) {
            const host_worker *w = &r->job.host.worker[k];
            const uvcc_transformer_worker at = job_place(w);
            const int64_t *part = job_output(&r->job, w, UVCC_TRANSFORMER_OUT_WEIGHT + i);
            if (part == NULL)
                continue;
            lm_model_put(&r->model, &at, i, part);
            found = true;
        }
        if (!found)
            return report_error(EXIT_FAILED, "weight %u is not open", i);
    }
    return EXIT_DONE;
}

static int reveal(lm_run *r) {
    if (r->o->reveal != 0)
        return EXIT_DONE;
    r->reveals = true;
    int status = job_step(&r->job, "reveal", false);
    if (status == EXIT_DONE)
        status = gather(r);
    if (status == EXIT_DONE)
        uvcc_transformer_weights_hash(&r->cfg, r->model.weights, r->weights_sha256);
    if (status == EXIT_DONE && r->o->weights != NULL)
        r->weights_written = lm_model_write(&r->model, "weights", r->o->weights);
    return status;
}

/* ---- results ---- */

static json_t *root_json(const lm_run *r, unsigned party) {
    uint8_t root[32];
    if (r->o->transcript != 0)
        return json_null();
    return host_root(&r->job.host, party, root) == EXIT_DONE ? report_hex(root, sizeof root) : NULL;
}

/* Names are what scripts read (docs/transformer.md): they do not change. NULL without memory. */
static json_t *to_json(const lm_run *r) {
    json_t *o = json_object(), *loss = json_array(), *roots = json_array();
    host_totals t;
    int bad = 0;
    host_totals_of(&r->job.host, &t);
    for (uint32_t i = 0; i < r->losses; i++)
        bad |= json_array_append_new(loss, json_real(r->loss[i]));
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        bad |= json_array_append_new(roots, root_json(r, p));
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"loss", loss},
        {"final_loss", r->losses != 0 ? json_real(lm_final_loss(r->loss, r->losses)) : json_null()},
        {"parameters", json_integer((json_int_t)uvcc_transformer_parameters(&r->cfg))},
        {"reference_equal", r->checked ? json_boolean(r->equal) : json_null()},
        {"weights_sha256", r->o->reveal == 0 ? report_hex(r->weights_sha256, 32) : json_null()},
        {"global_root", roots},
        {"steps", json_integer(r->o->steps)},
        {"bytes_online", json_integer((json_int_t)t.bytes_online)},
        {"bytes_preprocessing", json_integer((json_int_t)t.bytes_preprocessing)},
        {"messages", json_integer((json_int_t)t.messages)},
        {"rounds", json_integer((json_int_t)t.rounds)},
        {"tensor_peak_bytes", json_integer((json_int_t)t.tensor_peak)},
        {"transient_peak_bytes", json_integer((json_int_t)t.transient_peak)},
        {"transient_bound_bytes",
         r->transient_bound != 0 ? json_integer((json_int_t)r->transient_bound) : json_null()},
        {"time_s", json_real(r->time_s)},
        {"retransmissions", json_integer((json_int_t)t.retransmissions)},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        bad |= json_object_set_new(o, members[i].key, members[i].value);
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int plot(const lm_run *r) {
    return svg_losses(r->o->plot, r->start.step, r->loss, r->losses, "nats per byte");
}

static void show_memory(const lm_run *r, const host_totals *t, FILE *to) {
    (void)fprintf(to, "tensor memory    %.1f MB at most in one worker\n",
                  (double)t->tensor_peak * 1e-6);
    (void)fprintf(to, "of one step      %.1f MB", (double)t->transient_peak * 1e-6);
    if (r->transient_bound != 0)
        (void)fprintf(to, ", bound %.1f MB: %.1f MB per microbatch in flight",
                      (double)r->transient_bound * 1e-6, (double)r->transient_bound_mb * 1e-6);
    (void)fputc('\n', to);
}

/* For a reader; scripts take the JSON. What was not opened is not shown as if it was. */
static void summary(const lm_run *r) {
    FILE *to = report_stream(r->o->run.json);
    host_totals t;
    char text[65];
    host_totals_of(&r->job.host, &t);
    (void)sodium_bin2hex(text, sizeof text, r->weights_sha256, 32);
    (void)fprintf(to, "trained          %u steps of %u sequences of %u bytes in %.2f s\n",
                  r->losses, r->cfg.batch, r->cfg.context, r->time_s);
    (void)fprintf(to, "model            %llu weights, %u workers per party (R %u, S %u, T %u)\n",
                  (unsigned long long)uvcc_transformer_parameters(&r->cfg), r->job.host.workers,
                  r->cfg.replicas, r->cfg.stages, r->cfg.tensor_ranks);
    if (r->losses != 0)
        (void)fprintf(
            to,
            "loss             %.4f nats per byte at first, %.4f over the last tenth (opened "
            "to party %u)\n",
            r->loss[0], lm_final_loss(r->loss, r->losses), r->cfg.text_owner);
    if (r->checked)
        (void)fprintf(to, "plaintext run    weights %s\n",
                      r->equal ? "equal bit for bit"
                      : r->o->truncation == UVCC_TRUNC_STOCHASTIC || r->o->index == 0
                          ? "differ in last bits, as stochastic rounding does"
                          : "DIFFER");
    (void)fprintf(to, "traffic          %.1f MB online, %.1f MB preprocessing, %llu messages\n",
                  (double)t.bytes_online * 1e-6, (double)t.bytes_preprocessing * 1e-6,
                  (unsigned long long)t.messages);
    (void)fprintf(to, "rounds           %llu, retransmissions %llu\n", (unsigned long long)t.rounds,
                  (unsigned long long)t.retransmissions);
    show_memory(r, &t, to);
    (void)fprintf(to, "weights sha256   %s\n",
                  r->o->reveal == 0          ? text
                  : r->o->checkpoint != NULL ? "not opened"
                                             : "not opened, and kept nowhere (see --checkpoint)");
    report_flush(to);
}

/* ---- from begin to end ---- */

static int open_checkpoint(lm_run *r) {
    if (r->o->checkpoint == NULL)
        return EXIT_DONE;
    int status = lm_checkpoint_open(r->o->checkpoint, &r->manifest, r->o->extend, &r->start);
    if (status == EXIT_DONE && r->o->check && r->start.extended)
        status = report_error(EXIT_BAD_INPUT,
                              "--check: the model in %s was extended, and the plaintext run knows "
                              "one schedule only; leave it out",
                              r->o->checkpoint);
    if (status == EXIT_DONE)
        status = lm_checkpoint_refused(r->o->checkpoint, &r->job.sks);
    return status;
}

static int resume(lm_run *r) {
    FILE *to = report_stream(r->o->run.json);
    const int status = lm_checkpoint_resume(&r->job.host, r->o->checkpoint, r->start.step);
    if (status == EXIT_DONE)
        (void)fprintf(to, "going on         from step %u of %u, kept in %s\n", r->start.step,
                      r->o->steps, r->o->checkpoint);
    (void)fflush(to);
    return status;
}

struct target {
    host *host;
    host_worker *w;
};
static int set_session(void *user, uint32_t tensor, const int64_t *v) {
    struct target *t = user;
    return interrupted() ? EXIT_INTERRUPTED : host_set_public(t->host, t->w, tensor, v);
}

/* The initial weights, as public values of every worker. */
static int set_weights(lm_run *r) {
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < r->job.host.workers && status == EXIT_DONE; i++) {
        host_worker *w = &r->job.host.worker[i];
        const uvcc_transformer_worker at = job_place(w);
        status = lm_model_each_state(&r->model, &at, w->program, set_session,
                                     &(struct target){&r->job.host, w});
    }
    return status;
}

/* A checkpoint's shares go in before the handshake, which agrees on the step; the initial weights
 * after it, as public values. */
static int begin(lm_run *r) {
    char message[MESSAGE_BYTES] = "";
    int status = lm_model_config(&r->cfg, r->o, message, sizeof message);
    if (status != EXIT_DONE)
        return report_error(status, "%s", message);
    status = lm_text_read(&r->text, "--text", r->o->text, (size_t)r->cfg.context + 1);
    if (status != EXIT_DONE)
        return status;
    r->input = malloc(lm_input_room(&r->cfg) * sizeof *r->input);
    r->loss = calloc(r->o->steps, sizeof *r->loss);
    if (r->input == NULL || r->loss == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    lm_manifest_of(&r->manifest, r->o, &r->cfg, &r->text);
    r->job = (job){
        .o = r->o,
        .cfg = &r->cfg,
        .command = "lm",
        .manifest = &r->manifest,
        .hooks = {.user = r, .input = give_input, .refused = keep_refusal, .event = keep_shares}};
    status = lm_model_init(&r->model, &r->cfg, r->o->run.seed);
    if (status == EXIT_DONE)
        status = open_checkpoint(r);
    if (status == EXIT_DONE)
        status = job_open(&r->job, r->start.step, r->start.run);
    if (status == EXIT_DONE && r->o->checkpoint != NULL)
        status = lm_checkpoint_take_run(r->o->checkpoint, r->start.run);
    if (status == EXIT_DONE && r->start.resumes)
        status = resume(r);
    if (status == EXIT_DONE)
        status = job_start(&r->job);
    return status == EXIT_DONE && !r->start.resumes ? set_weights(r) : status;
}

static int check(lm_run *r) {
    if (!r->o->check)
        return EXIT_DONE;
    r->checked = true;
    return lm_model_check(&r->model, r->o, &r->cfg, &r->text, &r->equal);
}

/* Each output on its own: one that cannot be written costs none of the others. The first error's
 * status. */
static int put_results(lm_run *r, report_json *json) {
    r->transient_bound = job_transient_bound(&r->job, &r->transient_bound_mb);
    summary(r);
    const int reported = host_report(&r->job.host, json, to_json(r), report_stream(r->o->run.json));
    const int plotted = plot(r);
    return r->weights_written != EXIT_DONE ? r->weights_written
           : reported != EXIT_DONE         ? reported
                                           : plotted;
}

static int run(lm_run *r, report_json *json) {
    int status = begin(r);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted before the first step; nothing is lost");
    r->start_s = now_s();
    if (status == EXIT_DONE && r->o->reveal != 0 && r->o->checkpoint == NULL)
        report_line(true, "the weights will be neither opened nor kept (see --checkpoint)");
    if (status == EXIT_DONE)
        status = train(r);
    warn_of_losses(r);
    if (status == EXIT_DONE)
        status = reveal(r);
    r->time_s = now_s() - r->start_s;
    if (status == EXIT_DONE)
        status = host_close(&r->job.host);
    if (status == EXIT_DONE)
        status = check(r);
    if (status == EXIT_DONE)
        status = put_results(r, json);
    if (status == EXIT_DONE && r->checked && !r->equal && r->o->index == 1)
        status = report_error(EXIT_FAILED, "the opened weights are not those of the plaintext run");
    return status;
}

static int end(lm_run *r) {
    const int status = host_end(&r->job.host);
    lm_model_free(&r->model);
    lm_text_free(&r->text);
    free(r->job.app);
    free(r->input);
    free(r->loss);
    return status;
}

int lm_train_quietly(const lm_options *o, lm_train_outcome *out) {
    lm_run r = {.o = o};
    int status = begin(&r);
    if (status == EXIT_DONE)
        status = train(&r);
    if (status == EXIT_DONE)
        status = reveal(&r);
    if (status == EXIT_DONE)
        status = host_close(&r.job.host);
    memcpy(out->weights_sha256, r.weights_sha256, sizeof out->weights_sha256);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = host_root(&r.job.host, p, out->global_root[p]);
    const int ended = end(&r);
    return status != EXIT_DONE ? status : ended;
}

int lm_train_main(int argc, char *const *argv) {
    char message[MESSAGE_BYTES];
    lm_options o;
    if (lm_options_parse(&o, argc, argv, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.run.help) {
        lm_options_print_help(stdout);
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    const output_use uses[] = {
        {"weights", o.weights}, {"plot", o.plot}, {"trace", o.run.trace}, {"json", o.run.json}};
    const dir_user dirs[] = {
        {o.checkpoint, DIR_MODEL}, {o.run.audit, DIR_EVIDENCE}, {o.record, DIR_LOGS}};
    if (atomic_file_apart(uses, sizeof uses / sizeof uses[0]) != EXIT_DONE ||
        dir_use_check(dirs, sizeof dirs / sizeof dirs[0]) != EXIT_DONE ||
        atomic_file_check("weights", o.weights) != EXIT_DONE ||
        atomic_file_check("plot", o.plot) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    report_json *json = report_json_open(o.run.json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    lm_run r = {.o = &o};
    const int status = run(&r, json), ended = end(&r);
    report_json_close(json);
    return status != EXIT_DONE ? status : ended;
}
