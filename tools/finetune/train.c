/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - see train.h. The checkpoint's owner splits its weights, or all set them as public
 * values; then one step of "train" after the other, "eval" on the rows that are held out, and
 * "reveal". */
#include "train.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "../atomic_file.h"
#include "../dir_use.h"
#include "../host_loop.h"
#include "../interrupt.h"
#include "../report.h"
#include "../svg.h"
#include "manifest.h"
#include "plain.h"

#define MESSAGE_BYTES 512u

typedef struct ft_run {
    const ft_options *o;
    ft_data data;
    ft_model model;
    host host;
    const char *entry; /* of the step that runs */
    uint32_t step;     /* the next one */
    uint32_t evals;    /* steps of "eval" that were begun */
    int64_t *initial, *input;
    double *loss; /* of every step */
    uint32_t losses, right;
    lm_start start; /* where this run begins */
    double eval_loss;
    uint8_t weights_sha256[32];
    int written; /* an exit status */
    bool equal;
    double time_s;
    report_pace pace;
} ft_run;

/* ---- hooks ---- */

static int make_program(void *user, const host_worker *w, uvcc_program **out) {
    const ft_run *r = user;
    const uvcc_allocator al = uvcc_host_allocator();
    char message[MESSAGE_BYTES] = "";
    (void)w;
    const int rc = uvcc_finetune_program(out, &r->model.cfg, &al, message, sizeof message);
    return rc == 0 ? EXIT_DONE
                   : report_error(rc == UVCC_ERR_NOMEM ? EXIT_FAILED : EXIT_BAD_INPUT,
                                  "the program cannot be made: %s", message);
}

static int entry_of(void *user, const host_worker *w, uint32_t step) {
    const ft_run *r = user;
    (void)step;
    return uvcc_program_find_entry(w->program, r->entry);
}

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    ft_run *r = user;
    const bool eval = strcmp(r->entry, "eval") == 0;
    ft_place at = {
        &r->model, &r->data, r->o->run.seed, eval ? r->evals : step, eval ? 0 : id & 0xFFF, eval};
    (void)w;
    ft_model_input(&r->model, &r->data, id, ft_place_row, &at, r->input);
    return r->input;
}

/* What is kept is the training: steps behind it change nothing, and take nothing away. */
static int keep_shares(void *user, const host_worker *w, unsigned party, const uvcc_event *e) {
    const ft_run *r = user;
    const bool trains = strcmp(r->entry, "train") == 0;
    return r->o->checkpoint != NULL && trains ? lm_checkpoint_event(r->o->checkpoint, w, party, e)
                                              : EXIT_DONE;
}

/* ---- weights ---- */

static int set_shares(ft_run *r, uint32_t tensor, const int64_t *v, size_t n,
                      const uvcc_random *random) {
    uint64_t *c[UVCC_PARTIES];
    uint64_t *all = malloc(UVCC_PARTIES * n * sizeof *all);
    if (all == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        c[p] = all + p * n;
    int status = EXIT_DONE;
    int rc = uvcc_client_split(v, n, random, c[0], c[1], c[2]);
    if (rc != 0)
        status = host_failed(&r->host, "the weights' shares", rc);
    if (status == EXIT_DONE)
        status = host_set_components(&r->host, &r->host.worker[0], tensor, c);
    sodium_memzero(all, UVCC_PARTIES * n * sizeof *all);
    free(all);
    return status;
}

static int set_tensor(ft_run *r, uint32_t i, const char *name, const int64_t *v,
                      const uvcc_random *random) {
    host_worker *w = &r->host.worker[0];
    const size_t n = r->model.at[i + 1] - r->model.at[i];
    const uint32_t tensor = (uint32_t)uvcc_program_find(w->program, name);
    return ft_model_known(&r->model, i) ? host_set_public(&r->host, w, tensor, v)
                                        : set_shares(r, tensor, v, n, random);
}

/* A weight, and of a trained one its master. */
static int set_weight(ft_run *r, uint32_t i, const uvcc_random *random) {
    const uvcc_finetune_weight *w = &r->model.weight[i];
    const int64_t *v = r->model.values + r->model.at[i];
    const size_t n = r->model.at[i + 1] - r->model.at[i];
    char master[40];
    int status = set_tensor(r, i, w->about.name, v, random);
    if (status != EXIT_DONE || !w->trained)
        return status;
    int64_t *fine = malloc(n * sizeof *fine);
    if (fine == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (size_t e = 0; e < n; e++)
        fine[e] = v[e] * (1ll << UVCC_FINETUNE_FINE_BITS);
    (void)snprintf(master, sizeof master, "M.%s", w->about.name);
    status = set_tensor(r, i, master, fine, random);
    free(fine);
    return status;
}

/* Randomness of who splits the checkpoint: as all of a simulation, from the seed, and not that of
 * a party. */
static int set_weights(ft_run *r) {
    uvcc_seeded_random seeded;
    const uvcc_random random = uvcc_seeded(&seeded, r->o->run.seed, UINT32_MAX);
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < r->model.count && status == EXIT_DONE; i++)
        if (interrupted())
            status = EXIT_INTERRUPTED;
        else if (!r->start.resumes || r->model.weight[i].open) /* others are in the checkpoint */
            status = set_weight(r, i, &random);
    return status;
}

/* ---- steps ---- */

/* At the first party that it is open at. */
static const int64_t *output(const ft_run *r, uint32_t id) {
    const int64_t *v = NULL;
    for (unsigned p = 0; p < UVCC_PARTIES && v == NULL; p++)
        v = uvcc_session_output(r->host.worker[0].party[p].session, r->step - 1, id);
    return v;
}

static int run_step(ft_run *r, const char *entry, bool stops) {
    r->entry = entry;
    const int status = host_run(&r->host, r->step + 1, stops);
    if (status == EXIT_DONE)
        r->step++;
    return status;
}

/* Of a sum over n rows of losses. */
static double nats(const ft_run *r, uint32_t id, uint64_t n) {
    const int64_t *sum = output(r, id);
    return sum == NULL ? (double)NAN
                       : ldexp((double)*sum, -(int)UVCC_TRANSFORMER_LOSS_BITS) / (double)n;
}

static void show(ft_run *r, double loss) {
    const uint32_t done = r->step - r->start.step;
    if (report_pace_due(&r->pace, done == 1 || r->step == r->o->steps))
        report_line(false, "step %u/%u  loss %.4f  %s", r->step, r->o->steps, loss,
                    report_pace_left(&r->pace, done, r->o->steps - r->start.step));
}

static int say_interrupted(const ft_run *r) {
    if (r->o->checkpoint != NULL)
        return report_error(EXIT_INTERRUPTED,
                            "interrupted in step %u of %u; the same command goes on from %s",
                            r->step + 1, r->o->steps, r->o->checkpoint);
    return report_error(EXIT_INTERRUPTED,
                        "interrupted in step %u of %u; nothing is kept (see --checkpoint)",
                        r->step + 1, r->o->steps);
}

static int train(ft_run *r) {
    const uint64_t rows = (uint64_t)uvcc_finetune_rows(&r->model.cfg) * r->model.cfg.microbatches;
    int status = EXIT_DONE;
    report_pace_start(&r->pace, r->o->run.progress);
    while (status == EXIT_DONE && r->step < r->o->steps) {
        host_worker *w = &r->host.worker[0];
        const int64_t rate = uvcc_finetune_rate(&r->model.cfg, r->step);
        status =
            host_set_public(&r->host, w, (uint32_t)uvcc_program_find(w->program, "rate"), &rate);
        if (status == EXIT_DONE)
            status = run_step(r, "train", true);
        if (status != EXIT_DONE)
            break;
        r->loss[r->losses] = nats(r, UVCC_FINETUNE_OUT_LOSS, rows);
        show(r, r->loss[r->losses++]);
    }
    report_line_end();
    return status == EXIT_INTERRUPTED ? say_interrupted(r) : status;
}

/* On the rows that were held out, a microbatch at a time. */
static int evaluate(ft_run *r) {
    const uvcc_finetune_config *c = &r->model.cfg;
    const uint32_t each = c->model.sequences, rows = uvcc_finetune_rows(c);
    int status = EXIT_DONE;
    for (uint32_t at = r->data.learned; at < r->data.rows && status == EXIT_DONE; at += each) {
        status = run_step(r, "eval", true);
        if (status == EXIT_INTERRUPTED && r->o->checkpoint == NULL)
            return report_error(status, "interrupted behind the last step; nothing is kept");
        if (status == EXIT_INTERRUPTED)
            return report_error(status,
                                "interrupted behind the last step; the same command goes on from "
                                "%s",
                                r->o->checkpoint);
        if (status != EXIT_DONE)
            break;
        const int64_t *labels = output(r, UVCC_FINETUNE_OUT_EVAL_LABELS);
        for (uint32_t i = 0; i < rows && r->data.labelled && labels != NULL; i++)
            r->right += labels[i] == r->data.target[at + i];
        r->eval_loss += nats(r, UVCC_FINETUNE_OUT_EVAL_LOSS, 1);
        r->evals++;
    }
    r->eval_loss /= (double)rows * (r->evals != 0 ? r->evals : 1);
    return status;
}

static int reveal(ft_run *r) {
    int status = run_step(r, "reveal", false);
    for (uint32_t i = 0; i < r->model.count && status == EXIT_DONE; i++) {
        if (!r->model.weight[i].trained)
            continue;
        const int64_t *v = output(r, UVCC_FINETUNE_OUT_WEIGHT + i);
        if (v == NULL)
            return report_error(EXIT_FAILED, "weight %s is not open",
                                r->model.weight[i].about.name);
        memcpy(r->model.values + r->model.at[i], v,
               (r->model.at[i + 1] - r->model.at[i]) * sizeof *v);
    }
    if (status != EXIT_DONE)
        return status;
    ft_model_hash(&r->model, r->weights_sha256);
    if (r->o->out != NULL)
        r->written = ft_model_write(&r->model, r->o->out);
    return EXIT_DONE;
}

/* ---- results ---- */

static double final_loss(const ft_run *r) {
    const uint32_t n = (r->losses + 9) / 10;
    double sum = 0;
    for (uint32_t i = r->losses - n; i < r->losses; i++)
        sum += r->loss[i];
    return sum / n;
}

static json_t *held_out(const ft_run *r) {
    const uint32_t rows = r->data.rows - r->data.learned;
    if (rows == 0)
        return json_null();
    return json_pack("{s:i, s:f, s:o}", "rows", (int)rows, "loss", r->eval_loss, "accuracy",
                     r->data.labelled ? json_real((double)r->right / rows) : json_null());
}

/* NULL without memory. */
static json_t *to_json(const ft_run *r) {
    static const char *const methods[] = {"head", "lora", "full"};
    json_t *o = json_object(), *loss = json_array(), *roots = json_array();
    host_totals t;
    int bad = 0;
    host_totals_of(&r->host, &t);
    for (uint32_t i = 0; i < r->losses; i++)
        bad |= json_array_append_new(loss, json_real(r->loss[i]));
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uint8_t root[32];
        bad |= host_root(&r->host, p, root) != EXIT_DONE ||
               json_array_append_new(roots, report_hex(root, sizeof root)) != 0;
    }
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"method", json_string(methods[r->o->method])},
        {"loss", loss},
        {"final_loss", r->losses != 0 ? json_real(final_loss(r)) : json_null()},
        {"held_out", held_out(r)},
        {"parameters", json_integer((json_int_t)r->model.elements)},
        {"trained_parameters", json_integer((json_int_t)r->model.trained)},
        {"reference_equal", r->o->check ? json_boolean(r->equal) : json_null()},
        {"weights_sha256", report_hex(r->weights_sha256, sizeof r->weights_sha256)},
        {"global_root", roots},
        {"steps", json_integer(r->o->steps)},
        {"bytes_online", json_integer((json_int_t)t.bytes_online)},
        {"bytes_preprocessing", json_integer((json_int_t)t.bytes_preprocessing)},
        {"messages", json_integer((json_int_t)t.messages)},
        {"rounds", json_integer((json_int_t)t.rounds)},
        {"tensor_peak_bytes", json_integer((json_int_t)t.tensor_peak)},
        {"transient_peak_bytes", json_integer((json_int_t)t.transient_peak)},
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

static int plot(const ft_run *r) {
    return svg_losses(r->o->plot, r->start.step, r->loss, r->losses, "nats");
}

/* For a reader; scripts take the JSON. */
static void summary(const ft_run *r) {
    static const char *const methods[] = {"a classifier", "adapters", "all weights"};
    FILE *to = report_stream(r->o->run.json);
    const uint32_t rows = r->data.rows - r->data.learned;
    host_totals t;
    char text[65];
    host_totals_of(&r->host, &t);
    (void)sodium_bin2hex(text, sizeof text, r->weights_sha256, sizeof r->weights_sha256);
    (void)fprintf(to, "fine-tuned       %s, %u steps of %u rows of %u tokens in %.2f s\n",
                  methods[r->o->method], r->losses, r->o->batch, r->data.tokens, r->time_s);
    (void)fprintf(to, "model            %s, %llu of %llu weights trained\n",
                  description_family(&r->model.from.d), (unsigned long long)r->model.trained,
                  (unsigned long long)r->model.elements);
    if (r->losses != 0)
        (void)fprintf(
            to,
            "loss             %.4f nats at first, %.4f over the last tenth (opened to party "
            "%u)\n",
            r->loss[0], final_loss(r), r->model.cfg.label_owner);
    if (rows != 0)
        (void)fprintf(to, "held out         %u rows, loss %.4f", rows, r->eval_loss);
    if (rows != 0 && r->data.labelled)
        (void)fprintf(to, ", %u labels right (%.1f%%)", r->right, 100.0 * r->right / rows);
    if (rows != 0)
        (void)fputc('\n', to);
    if (r->o->check)
        (void)fprintf(to, "plaintext run    weights %s\n",
                      r->equal                        ? "equal bit for bit"
                      : r->o->mode == UVCC_MODEL_FAST ? "differ in last bits, as stochastic "
                                                        "rounding does"
                                                      : "DIFFER");
    (void)fprintf(to, "traffic          %.1f MB online, %.1f MB preprocessing, %llu messages\n",
                  (double)t.bytes_online * 1e-6, (double)t.bytes_preprocessing * 1e-6,
                  (unsigned long long)t.messages);
    (void)fprintf(to, "rounds           %llu, retransmissions %llu\n", (unsigned long long)t.rounds,
                  (unsigned long long)t.retransmissions);
    (void)fprintf(to, "tensor memory    %.1f MB at most in one party\n",
                  (double)t.tensor_peak * 1e-6);
    (void)fprintf(to, "weights sha256   %s\n", text);
    report_flush(to);
}

static void warn_of_losses(const ft_run *r) {
    enum { MOST = 64 }; /* nats */
    for (uint32_t i = 0; i < r->losses; i++)
        if (!(r->loss[i] > -0.01 && r->loss[i] < MOST)) {
            report_line(true,
                        "the loss is %.4f in step %u, which is no model's: values left their "
                        "bounds, and the weights are worth nothing; try a smaller --lr, or more "
                        "--value-bits (see uvcc model check)",
                        r->loss[i], r->start.step + i + 1);
            return;
        }
}

/* ---- from begin to end ---- */

static int open_checkpoint(ft_run *r) {
    return r->o->checkpoint == NULL
               ? EXIT_DONE
               : ft_checkpoint_open(r->o->checkpoint, r->o, &r->model, &r->data, &r->start);
}

static int resume(ft_run *r) {
    FILE *to = report_stream(r->o->run.json);
    const int status = lm_checkpoint_resume(&r->host, r->o->checkpoint, r->start.step);
    if (status == EXIT_DONE)
        (void)fprintf(to, "going on         from step %u of %u, kept in %s\n", r->start.step,
                      r->o->steps, r->o->checkpoint);
    (void)fflush(to);
    return status;
}

/* A checkpoint's shares go in before the handshake, which agrees on the step; the initial weights
 * after it. */
static int start(ft_run *r) {
    const host_config c = {.command = "finetune",
                           .run = &r->o->run,
                           .replicas = 1,
                           .stages = 1,
                           .tensor_ranks = 1,
                           .threads = 1,
                           .first_step = r->start.step,
                           .run_number = r->start.run,
                           .checkpoints = r->o->checkpoint != NULL,
                           .smaller = "a smaller --batch or --tokens, or more --microbatches",
                           .hooks = {.user = r,
                                     .program = make_program,
                                     .entry = entry_of,
                                     .input = give_input,
                                     .event = keep_shares}};
    r->entry = "train";
    r->step = r->start.step;
    int status = host_open(&r->host, &c);
    if (status == EXIT_DONE && r->o->checkpoint != NULL)
        status = lm_checkpoint_take_run(r->o->checkpoint, r->start.run);
    if (status == EXIT_DONE && r->start.resumes)
        status = resume(r);
    if (status == EXIT_DONE)
        status = host_start(&r->host);
    if (status == EXIT_DONE)
        status = host_ready(&r->host);
    return status == EXIT_DONE ? set_weights(r) : status;
}

enum { WRITTEN = 4 };
static void list_written(const ft_options *o, output_use uses[WRITTEN]) {
    uses[0] = (output_use){"out", o->out};
    uses[1] = (output_use){"plot", o->plot};
    uses[2] = (output_use){"trace", o->run.trace};
    uses[3] = (output_use){"json", o->run.json};
}

static int begin(ft_run *r) {
    char message[MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    if (ft_data_look(&r->data, r->o, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    output_use written[WRITTEN];
    list_written(r->o, written);
    int status = ft_model_load(&r->model, &r->data, r->o);
    if (status == EXIT_DONE)
        status = model_spares(&r->model.from.from, written, WRITTEN);
    if (status != EXIT_DONE)
        return status;
    r->initial = malloc(r->model.elements * sizeof *r->initial);
    r->input = malloc(ft_model_room(&r->model) * sizeof *r->input);
    r->loss = calloc(r->o->steps, sizeof *r->loss);
    if (r->initial == NULL || r->input == NULL || r->loss == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    memcpy(r->initial, r->model.values, r->model.elements * sizeof *r->initial);
    status = open_checkpoint(r);
    return status == EXIT_DONE ? start(r) : status;
}

static int run(ft_run *r, report_json *json) {
    int status = begin(r);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted before the first step; nothing is lost");
    const uint64_t start = uvcc_host_now_ns();
    if (status == EXIT_DONE)
        status = train(r);
    warn_of_losses(r);
    if (status == EXIT_DONE)
        status = evaluate(r);
    if (status == EXIT_DONE)
        status = reveal(r);
    r->time_s = (double)(uvcc_host_now_ns() - start) * 1e-9;
    if (status == EXIT_DONE)
        status = host_close(&r->host);
    if (status == EXIT_DONE && r->o->check)
        status = ft_plain_check(&r->model, &r->data, r->o, r->initial, &r->equal);
    if (status != EXIT_DONE)
        return status;
    summary(r);
    const int reported = host_report(&r->host, json, to_json(r), report_stream(r->o->run.json));
    const int plotted = plot(r);
    status = r->written != EXIT_DONE ? r->written : reported != EXIT_DONE ? reported : plotted;
    if (status == EXIT_DONE && r->o->check && !r->equal && r->o->mode != UVCC_MODEL_FAST)
        status = report_error(EXIT_FAILED, "the opened weights are not those of the plaintext run");
    return status;
}

static int end(ft_run *r) {
    const int status = host_end(&r->host);
    ft_model_free(&r->model);
    ft_data_free(&r->data);
    free(r->initial);
    free(r->input);
    free(r->loss);
    return status;
}

/* Places of outputs are known to be good before the work. */
static int check_places(const ft_options *o) {
    output_use uses[WRITTEN];
    const dir_user dirs[] = {{o->checkpoint, DIR_MODEL}, {o->run.audit, DIR_EVIDENCE}};
    const output_use read[] = {{"data", o->data}, {"policy", o->run.policy}};
    list_written(o, uses);
    int status = atomic_file_apart(uses, WRITTEN);
    for (size_t i = 0; status == EXIT_DONE && i < WRITTEN; i++)
        if (uses[i].path != NULL)
            status = atomic_file_spares(uses[i].option, uses[i].path, read, 2);
    if (status == EXIT_DONE)
        status = dir_use_check(dirs, sizeof dirs / sizeof dirs[0]);
    if (status == EXIT_DONE)
        status = atomic_file_check("out", o->out);
    return status == EXIT_DONE ? atomic_file_check("plot", o->plot) : status;
}

int ft_train_main(int argc, char *const *argv) {
    char message[MESSAGE_BYTES];
    ft_options o;
    if (ft_options_parse(&o, argc, argv, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.run.help) {
        ft_options_print_help(stdout);
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    int status = check_places(&o);
    if (status != EXIT_DONE)
        return status;
    report_json *json = report_json_open(o.run.json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    ft_run r = {.o = &o};
    status = run(&r, json);
    const int ended = end(&r);
    report_json_close(json);
    return status != EXIT_DONE ? status : ended;
}
