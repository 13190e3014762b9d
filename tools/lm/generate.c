/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - see generate.h. How a byte is sampled: sampling.h. */
#include "generate.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../compute.h"
#include "../escape.h"
#include "../infer/infer.h"
#include "../report.h"
#include "../runflags.h"
#include "checkpoint.h"
#include "job.h"
#include "sampling.h"

#define MESSAGE_BYTES 512u
#define VOCAB         UVCC_TRANSFORMER_VOCAB

typedef struct generate_options {
    const char *prompt, *policy, *model, *ids; /* model: a checkpoint's directory */
    uint32_t compute, device, context;
    lm_sampling sampling;
    uint64_t seed;
    bool help;
} generate_options;

#define AT(member) offsetof(generate_options, member)
static const flag flags[] = {
    {"model", "DIR", FLAG_TEXT, AT(model), 0, 0, NULL,
     "sample from a pretrained model instead: a checkpoint of GPT-2, GPT-Neo or Llama, as uvcc "
     "infer "
     "takes it"},
    {"prompt", "TEXT", FLAG_TEXT, AT(prompt), 0, 0, NULL, "what the text begins with (a newline)"},
    {"ids", "N[,N...]", FLAG_TEXT, AT(ids), 0, 0, NULL,
     "with --model: the prompt's tokens, where they are no bytes"},
    {"context", "N", FLAG_COUNT, AT(context), 1, 65536, NULL,
     "with --model: the last tokens that each pass sees (the prompt's and 32 more)"},
    LM_SAMPLING_FLAGS(AT),
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL, "of keys and masks, and so of the noise (1)"},
    {"compute", "inline|deferred|threads|gpu", FLAG_CHOICE, AT(compute), 0, 0, run_computes,
     "when jobs run: at once, late and shuffled, on threads, or on a CUDA device (inline)"},
    RUN_DEVICE_FLAG(AT(device)),
    {"policy", "FILE", FLAG_TEXT, AT(policy), 0, 0, NULL,
     "what the three parties allow, which their sessions enforce (docs/policy.md); limits count in "
     "this run"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"generate", flags, sizeof flags / sizeof flags[0], AT(help)};

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc generate DIR [OPTION...]\n"
        "       uvcc generate --model DIR [OPTION...]\n"
        "\n"
        "Samples text, byte by byte, from a model that uvcc train --checkpoint DIR keeps. Its "
        "weights\n"
        "stay shared among the three parties; each sampled byte opens to the party whose prompt "
        "it\n"
        "is, and nothing else.\n"
        "\n"
        "With --model the weights are those of a checkpoint, and party 1's; the prompt is party "
        "0's,\n"
        "to which the logits of each next token open. A pass is made for every token. Models over "
        "bytes\n"
        "give text, others the numbers of tokens.\n"
        "\n"
        "This is a simulation in one process: it reads all parties' files and keys.\n"
        "\n"
        "On a terminal control characters of the text, but newlines and tabs, are shown as \\xNN; "
        "a "
        "file\n"
        "or a pipe gets its bytes as they are.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, compute_help);
    flags_text(
        stdout,
        "\nExit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

typedef struct generation {
    const generate_options *o;
    lm_options job_options;
    uvcc_transformer_config kept, cfg; /* of the checkpoint; of one worker that samples */
    job job;
    uint8_t *text; /* the prompt and what was sampled */
    size_t len;
    int64_t *input, *select;
    bool on_terminal; /* standard output is one */
    escaper escaper;
} generation;

/* ---- the weights' shares ---- */

typedef struct kept_party {
    const char *dir;
    unsigned party;
    uint32_t step;
} kept_party;
static int load_worker(void *user, const uvcc_transformer_worker *at, uint8_t **bytes,
                       size_t *len) {
    const kept_party *k = user;
    return lm_checkpoint_load(k->dir, k->party, at, k->step, bytes, len);
}

static int load(generation *g, const char *dir, uint32_t step) {
    const host_worker *w = &g->job.host.worker[0];
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        lm_shares shares;
        status =
            lm_shares_gather(&shares, &g->kept, p, dir, load_worker, &(kept_party){dir, p, step});
        if (status == EXIT_DONE)
            status = lm_shares_set(&shares, w->program, w->party[p].session);
        lm_shares_free(&shares);
    }
    return status;
}

/* ---- sampling ---- */

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    generation *g = user;
    (void)w;
    (void)step;
    (void)id; /* the prompt is the only one */
    lm_sampling_window(&g->cfg, g->text, g->len, g->input);
    return g->input;
}

/* The row that the next byte follows. */
static int select_row(generation *g) {
    lm_sampling_select(&g->cfg, g->len, g->select);
    return job_set_public(&g->job, &g->job.host.worker[0], "select", g->select);
}

/* Raw bytes go into a file or a pipe; of a terminal nothing in them may take command. */
static void show(generation *g, const char *bytes, size_t len) {
    if (g->on_terminal)
        escape_put(&g->escaper, stdout, bytes, len);
    else
        (void)fwrite(bytes, 1, len, stdout);
    report_flush(stdout);
}

static int sample(generation *g) {
    const int64_t temperature = lm_sampling_temperature(&g->cfg, g->o->sampling.temperature);
    int status = job_set_public(&g->job, &g->job.host.worker[0], "temperature", &temperature);
    uint32_t made = 0;
    while (made < g->o->sampling.length && status == EXIT_DONE) {
        status = select_row(g);
        if (status == EXIT_DONE)
            status = job_step(&g->job, "next", true);
        if (status != EXIT_DONE)
            break;
        const int64_t *byte =
            job_output(&g->job, &g->job.host.worker[0], UVCC_TRANSFORMER_OUT_NEXT);
        g->text[g->len++] = (uint8_t)*byte;
        made++;
        show(g, &(char){(char)*byte}, 1);
        if (ferror(stdout)) /* nobody reads it */
            status = report_output(EXIT_FAILED);
    }
    escape_end(&g->escaper, stdout);
    (void)fputc('\n', stdout);
    report_flush(stdout);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted after %u of %u bytes; the model is as it was",
                            made, g->o->sampling.length);
    return status;
}

/* ---- from begin to end ---- */

/* One worker of each party has the whole model here, however the kept one was split: see load(). */
static int begin(generation *g, const char *dir) {
    uint32_t step;
    bool any;
    int status = lm_checkpoint_config(dir, &g->kept);
    if (status == EXIT_DONE)
        status = lm_checkpoint_last(dir, &g->kept, &any, &step);
    if (status == EXIT_DONE && !any)
        status = report_error(EXIT_BAD_INPUT, "%s: no party has shares of the model yet", dir);
    if (status != EXIT_DONE)
        return status;
    g->cfg = lm_sampling_config(&g->kept);
    const size_t rows = g->cfg.context;
    const char *prompt = g->o->prompt != NULL ? g->o->prompt : "\n";
    g->len = strlen(prompt);
    g->text = malloc(g->len + g->o->sampling.length);
    g->input = calloc(rows * VOCAB, sizeof *g->input);
    g->select = calloc(rows, sizeof *g->select);
    if (g->text == NULL || g->input == NULL || g->select == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    memcpy(g->text, prompt, g->len);
    g->job = (job){.o = &g->job_options,
                   .cfg = &g->cfg,
                   .command = "generate",
                   .hooks = {.user = g, .input = give_input}};
    uint32_t run;
    status = lm_checkpoint_lock(dir);
    if (status == EXIT_DONE)
        status = lm_checkpoint_next_run(dir, &run);
    if (status == EXIT_DONE)
        status = job_open(&g->job, 0, run);
    if (status == EXIT_DONE)
        status = lm_checkpoint_take_run(dir, run);
    if (status == EXIT_DONE)
        status = job_start(&g->job);
    return status == EXIT_DONE ? load(g, dir, step) : status;
}

static int generate(generation *g, const char *dir) {
    g->on_terminal = isatty(STDOUT_FILENO) == 1;
    g->escaper.keep = "\n\t";
    int status = begin(g, dir);
    if (status == EXIT_DONE) {
        if (g->o->prompt != NULL)
            show(g, g->o->prompt, strlen(g->o->prompt));
        status = sample(g);
    }
    if (status == EXIT_DONE)
        status = host_close(&g->job.host);
    const int ended = host_end(&g->job.host);
    free(g->text);
    free(g->input);
    free(g->select);
    return status != EXIT_DONE ? status : ended;
}

/* From a checkpoint, as uvcc infer runs it. */
static int generate_pretrained(const generate_options *o, const run_options *run) {
    const infer_options asked = {.run = *run,
                                 .model = o->model,
                                 .text = o->ids == NULL && o->prompt == NULL ? "\n" : o->prompt,
                                 .ids = o->ids,
                                 .tokens = o->context,
                                 .gives = GIVES_LAST_LOGITS,
                                 .frac_bits = 16,
                                 .weights_owner = 1,
                                 .generate = o->sampling.length,
                                 .temperature = o->sampling.temperature};
    return infer_generate(&asked);
}

static int check_words(const generate_options *o, int argc, char *const *argv, int count,
                       const flag_message *m) {
    const flag_idle idle[] = {{"ids", o->model == NULL, "without --model"},
                              {"context", o->model == NULL, "without --model"}};
    if (count != (o->model == NULL))
        return flag_fail(m, "give one directory, which uvcc train --checkpoint has made%s",
                         o->model != NULL ? ", or --model" : "; or --model DIR");
    if (o->ids != NULL && o->prompt != NULL)
        return flag_fail(m, "give one of --prompt and --ids");
    return flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}

/* The options of the run that these make. 0, or -1 and one line in the message. */
static int settle(run_options *run, const generate_options *o, int argc, char *const *argv,
                  const flag_message *m) {
    *run = (run_options){.seed = o->seed,
                         .compute = o->compute,
                         .device = o->device,
                         .compute_seed = 1,
                         .policy = o->policy};
    return run_options_check(run, 1, &set, argc, argv, m);
}

int generate_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message message = {text, sizeof text};
    generate_options o = {.sampling = LM_SAMPLING_DEFAULTS, .seed = 1, .device = CARD_BY_RANK};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    int count = 0, status = EXIT_BAD_INPUT;
    run_options run = {0};
    report_command("generate");
    if (words == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (flags_parse(&set, &o, argc, argv, words, &count, &message) != 0) {
        (void)report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (o.help) {
        print_help();
        status = EXIT_DONE;
    } else if (check_words(&o, argc, argv, count, &message) != 0) {
        (void)report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (settle(&run, &o, argc, argv, &message) != 0) {
        (void)report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (sodium_init() < 0) {
        status = report_error(EXIT_FAILED, "libsodium cannot start");
    } else {
        generation g = {.o = &o, .job_options.run = run};
        status = o.model != NULL ? generate_pretrained(&o, &run) : generate(&g, words[0]);
    }
    free(words);
    return status;
}
