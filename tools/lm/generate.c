/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - see generate.h. The shares of all workers' parts are put together to those of one
 * worker per party. A step takes the window of bytes so far from party 0, and opens to it the
 * place of the greatest sum of logit and noise: with Gumbel noise times the temperature that is a
 * sample of the softmax (E. J. Gumbel, 1954). The parties draw the noise jointly and nobody knows
 * it. Neither logits nor probabilities are opened. */
#include "generate.h"

#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../escape.h"
#include "../interrupt.h"
#include "../report.h"
#include "checkpoint.h"
#include "job.h"
#include "model.h"

#define MESSAGE_BYTES   512u
#define VOCAB           UVCC_TRANSFORMER_VOCAB
#define TEMPERATURE_MAX 8

typedef struct generate_options {
    const char *prompt, *policy;
    uint32_t length, compute;
    double temperature;
    uint64_t seed;
    bool help;
} generate_options;

static const char *const computes[] = {"inline", "deferred", "threads", NULL};

#define AT(member) offsetof(generate_options, member)
static const flag flags[] = {
    {"prompt", "TEXT", FLAG_TEXT, AT(prompt), 0, 0, NULL, "what the text begins with (a newline)"},
    {"length", "N", FLAG_COUNT, AT(length), 1, 1000000, NULL, "bytes to sample (200)"},
    {"temperature", "X", FLAG_REAL, AT(temperature), 0, TEMPERATURE_MAX, NULL,
     "0: always the likeliest byte; 1: as the model's probabilities say (0.7)"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL, "of keys and masks, and so of the noise (1)"},
    {"compute", "inline|deferred|threads", FLAG_CHOICE, AT(compute), 0, 0, computes,
     "when jobs run: at once, late and shuffled, or on threads (inline)"},
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
        "\n"
        "Samples text, byte by byte, from a model that uvcc train --checkpoint DIR keeps. Its "
        "weights\n"
        "stay shared among the three parties; each sampled byte opens to the party whose prompt "
        "it\n"
        "is, and nothing else.\n"
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
    flags_text(
        stdout,
        "\nExit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

typedef struct generation {
    const generate_options *o;
    lm_options job_options;
    uvcc_transformer_config kept, cfg; /* of the checkpoint; of one worker that samples */
    job job;
    uint8_t *window; /* context bytes, the first `used` are there */
    uint32_t used;
    int64_t *input, *select;
    bool on_terminal; /* standard output is one */
    escaper escaper;
} generation;

/* ---- the weights' shares ---- */

typedef struct gathered {
    uint64_t *lo, *hi;           /* of the whole weight, in global order of weights */
    uint64_t *part_lo, *part_hi; /* room for the largest */
} gathered;

/* One party's shares of what worker `at` has of the weights, out of its checkpoint. */
static int gather_worker(generation *g, gathered *to, const uvcc_transformer_worker *at,
                         const uvcc_program *p, const uint8_t *bytes, size_t len) {
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(&g->kept); i++) {
        uvcc_transformer_weight w;
        uvcc_transformer_part part;
        if (uvcc_transformer_weight_at(&g->kept, i, &w) != 0 || w.stage != at->stage ||
            !uvcc_transformer_part_of(&g->kept, at, i, &part))
            continue;
        const size_t offset = lm_model_offset(&g->kept, i);
        int t = uvcc_program_find(p, w.name);
        int rc = t < 0 ? t
                       : uvcc_checkpoint_tensor(bytes, len, (uint32_t)t, to->part_lo, to->part_hi,
                                                (uint64_t)part.rows * part.cols);
        if (rc != 0)
            return report_error(EXIT_BAD_INPUT, "the checkpoint's %s: %s", w.name,
                                uvcc_error_text(rc));
        uvcc_transformer_put(&g->kept, at, i, (const int64_t *)to->part_lo,
                             (int64_t *)to->lo + offset);
        uvcc_transformer_put(&g->kept, at, i, (const int64_t *)to->part_hi,
                             (int64_t *)to->hi + offset);
    }
    return EXIT_DONE;
}

/* All workers of replica 0: the others have the same. */
static int gather_party(generation *g, gathered *to, const char *dir, unsigned party,
                        uint32_t step) {
    const uvcc_allocator al = uvcc_host_allocator();
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < g->kept.stages * g->kept.tensor_ranks && status == EXIT_DONE; i++) {
        const uvcc_transformer_worker at = {0, i / g->kept.tensor_ranks, i % g->kept.tensor_ranks};
        char message[MESSAGE_BYTES] = "";
        uvcc_program *p = NULL;
        uvcc_checkpoint_info info;
        uint8_t *bytes = NULL, hash[32];
        size_t len = 0;
        if (uvcc_transformer_program(&p, &g->kept, &at, &al, message, sizeof message) != 0)
            return report_error(EXIT_BAD_INPUT, "the kept model: %s", message);
        uvcc_program_hash(p, hash);
        status = lm_checkpoint_load(dir, party, &at, step, &bytes, &len);
        if (status == EXIT_DONE &&
            (uvcc_checkpoint_read(bytes, len, &info) != 0 || info.party != party ||
             memcmp(info.program_hash, hash, 32) != 0))
            status = report_error(EXIT_BAD_INPUT, "%s: party %u's shares are of another model", dir,
                                  party);
        if (status == EXIT_DONE)
            status = gather_worker(g, to, &at, p, bytes, len);
        if (bytes != NULL)
            sodium_memzero(bytes, len);
        free(bytes);
        uvcc_program_free(p);
    }
    return status;
}

static int set_weights(generation *g, const gathered *from, unsigned party) {
    const host_worker *w = &g->job.host.worker[0];
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(&g->cfg); i++) {
        uvcc_transformer_weight weight;
        const size_t offset = lm_model_offset(&g->cfg, i);
        (void)uvcc_transformer_weight_at(&g->cfg, i, &weight);
        int t = uvcc_program_find(w->program, weight.name);
        int rc = t < 0 ? t
                       : uvcc_session_set_shares(w->party[party].session, (uint32_t)t,
                                                 from->lo + offset, from->hi + offset);
        if (rc != 0)
            return report_error(EXIT_FAILED, "%s: %s", weight.name, uvcc_error_text(rc));
    }
    return EXIT_DONE;
}

static int load(generation *g, const char *dir, uint32_t step) {
    const size_t n = (size_t)uvcc_transformer_parameters(&g->kept);
    gathered to = {calloc(n, 8), calloc(n, 8), calloc(n, 8), calloc(n, 8)};
    int status = EXIT_DONE;
    if (to.lo == NULL || to.hi == NULL || to.part_lo == NULL || to.part_hi == NULL)
        status = report_error(EXIT_FAILED, "out of memory");
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = gather_party(g, &to, dir, p, step);
        if (status == EXIT_DONE)
            status = set_weights(g, &to, p);
    }
    uint64_t *const all[] = {to.lo, to.hi, to.part_lo, to.part_hi};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] != NULL)
            sodium_memzero(all[i], n * 8);
        free(all[i]);
    }
    return status;
}

/* ---- sampling ---- */

static const int64_t *give_input(void *user, const host_worker *w, uint32_t step, uint32_t id) {
    generation *g = user;
    (void)w;
    (void)step;
    (void)id; /* the prompt is the only one */
    uvcc_transformer_one_hot(g->window, g->cfg.context, g->input);
    return g->input;
}

/* The row that the next byte follows. */
static int select_row(generation *g) {
    memset(g->select, 0, g->cfg.context * sizeof *g->select);
    g->select[g->used - 1] = 1;
    return job_set_public(&g->job, &g->job.host.worker[0], "select", g->select);
}

static void append(generation *g, uint8_t byte) {
    if (g->used == g->cfg.context)
        memmove(g->window, g->window + 1, --g->used);
    g->window[g->used++] = byte;
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
    const int64_t temperature = llround(ldexp(g->o->temperature, g->cfg.frac_bits));
    int status = job_set_public(&g->job, &g->job.host.worker[0], "temperature", &temperature);
    for (uint32_t i = 0; i < g->o->length && status == EXIT_DONE; i++) {
        status = select_row(g);
        if (status == EXIT_DONE)
            status = job_step(&g->job, "next", true);
        if (status != EXIT_DONE)
            break;
        const int64_t *byte =
            job_output(&g->job, &g->job.host.worker[0], UVCC_TRANSFORMER_OUT_NEXT);
        append(g, (uint8_t)*byte);
        show(g, &(char){(char)*byte}, 1);
        if (ferror(stdout)) /* nobody reads it */
            status = report_output(EXIT_FAILED);
    }
    escape_end(&g->escaper, stdout);
    (void)fputc('\n', stdout);
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
    g->cfg = g->kept;
    g->cfg.replicas = g->cfg.stages = g->cfg.tensor_ranks = g->cfg.microbatches = 1;
    g->cfg.batch = g->cfg.windows = 1;
    const size_t rows = g->cfg.context;
    g->window = calloc(rows, 1);
    g->input = calloc(rows * VOCAB, sizeof *g->input);
    g->select = calloc(rows, sizeof *g->select);
    if (g->window == NULL || g->input == NULL || g->select == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const char *prompt = g->o->prompt != NULL ? g->o->prompt : "\n";
    for (size_t i = 0; prompt[i] != '\0'; i++)
        append(g, (uint8_t)prompt[i]);
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
    free(g->window);
    free(g->input);
    free(g->select);
    return status != EXIT_DONE ? status : ended;
}

int generate_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message message = {text, sizeof text};
    generate_options o = {.length = 200, .temperature = 0.7, .seed = 1};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    int count = 0, status = EXIT_BAD_INPUT;
    report_command("generate");
    if (words == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (flags_parse(&set, &o, argc, argv, words, &count, &message) != 0) {
        (void)report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (o.help) {
        print_help();
        status = EXIT_DONE;
    } else if (count != 1) {
        (void)report_error(EXIT_BAD_INPUT,
                           "give one directory, which uvcc train --checkpoint has made");
    } else if (sodium_init() < 0) {
        status = report_error(EXIT_FAILED, "libsodium cannot start");
    } else {
        interrupt_catch();
        generation g = {
            .o = &o,
            .job_options.run = {
                .seed = o.seed, .compute = o.compute, .compute_seed = 1, .policy = o.policy}};
        status = generate(&g, words[0]);
    }
    free(words);
    return status;
}
