/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h. What depends on other options is checked by the program's builder,
 * which names the numbers. */
#include "options.h"

#include <math.h>
#include <uvcc/transformer.h>
#include <uvcc/uvcc.h>

#include "../compute.h"
#include "../flags_json.h"
#include "../runflags.h"

static const char *const models[] = {"mlp", "transformer", NULL};
static const char *const blocks[] = {"gelu", "swiglu", "gpt2", NULL};
static const char *const optimizers[] = {"sgd", "momentum", "adamw", "adam-mini", NULL};
static const char *const indices[] = {"fast", "exact", NULL};
static const char *const answers[] = {"yes", "no", NULL};
static const char *const switches[] = {"on", "off", NULL};

/* What the library takes with its default of epsilon: see uvcc_transformer_config.clip. Of
 * ADAM_MINI it is the norm of the whole gradient; how much goes with --dim the library says. */
#define CLIP_LEAST     0x1p-12
#define CLIP_ADAMW_MAX 0.0625
#define CLIP_NORM      0.25 /* if none is given */
#define CLIP_NOT_GIVEN (-1.0)
#define CLIP_NORM_MIN  0x1p-5
#define CLIP_NORM_MAX  4.0

#define AT(member) offsetof(lm_options, member)
static const flag flags[] = {
    {"model", "mlp|transformer", FLAG_CHOICE, AT(model), 0, 0, models,
     "this is transformer; a directory is a checkpoint, which uvcc train --model DIR fine-tunes"},
    {"text", "FILE", FLAG_TEXT, AT(text), 0, 0, NULL,
     "bytes to learn from; without it the project's own docs and headers"},
    {"layers", "N", FLAG_COUNT, AT(layers), 1, 128, NULL, "transformer blocks (1)"},
    {"dim", "N", FLAG_COUNT, AT(dim), 4, 8192, NULL, "width of the residual stream (64)"},
    {"heads", "N", FLAG_COUNT, AT(heads), 1, 256, NULL, "attention heads; divides --dim (4)"},
    {"hidden", "N", FLAG_COUNT, AT(hidden), 1, 65536, NULL, "units of the MLP (4 times --dim)"},
    {"context", "N", FLAG_COUNT, AT(context), 2, 4096, NULL,
     "bytes that a row of attention sees, a power of two (16)"},
    {"block", "gelu|swiglu|gpt2", FLAG_CHOICE, AT(block), 0, 0, blocks,
     "RMSNorm and GeLU; RMSNorm and SwiGLU; LayerNorm and GeLU's tanh form (gelu)"},
    {"batch", "N", FLAG_COUNT, AT(batch), 1, 1u << 16, NULL,
     "sequences per step, a power of two (32)"},
    {"microbatches", "N", FLAG_COUNT, AT(microbatches), 1, 1024, NULL,
     "pieces of a step's batch, a power of two (1)"},
    {"steps", "N", FLAG_COUNT, AT(steps), 1, 100000000, NULL, "training steps (300)"},
    {"optimizer", "sgd|momentum|adamw|adam-mini", FLAG_CHOICE, AT(optimizer), 0, 0, optimizers,
     "how weights follow the gradients; adam-mini has one second moment for each row of weights, a "
     "twentieth of adamw's bytes (adamw)"},
    {"lr", "X", FLAG_REAL, AT(lr), 0, 16, NULL, "greatest learning rate of the schedule (0.01)"},
    {"warmup", "N", FLAG_COUNT, AT(warmup), 0, 1000000, NULL,
     "steps over which the rate rises to --lr (20)"},
    {"final-rate", "X", FLAG_REAL, AT(final_rate), 0, 1, NULL,
     "part of --lr that the rate has fallen to after the last step (0.05)"},
    {"clip", "X", FLAG_REAL, AT(clip), 0, 32, NULL,
     "elements of the mean gradient are cut to [-X, X]: from 2^-12, with adamw to 0.0625, with the "
     "others to 32; with these 0: not at all (0.0625). With adam-mini the norm of the whole "
     "gradient "
     "is cut to X: from 2^-5 to 4 and to sqrt(dim or, if less, hidden) / 16; 0: not (0.25)"},
    {"weight-decay", "X", FLAG_REAL, AT(weight_decay), 0, 1, NULL,
     "weights shrink by --lr times X a step (0)"},
    {"replicas", "R", FLAG_COUNT, AT(replicas), 1, 64, NULL, "data parallelism (1)"},
    {"stages", "S", FLAG_COUNT, AT(stages), 1, 64, NULL, "pipeline stages; divides --layers (1)"},
    {"tensor", "T", FLAG_COUNT, AT(tensor), 1, 64, NULL, "tensor ranks; divides --heads (1)"},
    {"ahead", "A", FLAG_COUNT, AT(ahead), 0, 1024, NULL,
     "forwards that a stage may run ahead of 1F1B (0)"},
    {"window", "MIB", FLAG_COUNT, AT(window), 1, 1u << 20, NULL,
     "MiB that ops at work may take together; fewer mean less memory and more waiting, and the "
     "same "
     "weights (1024)"},
    {"recompute", NULL, FLAG_SWITCH, AT(recompute), 0, 0, NULL,
     "blocks keep little of their forward pass and compute it again in the backward pass: less "
     "memory, more work; the same weights with --truncation ars or ars-dcf and --index exact"},
    {"truncation", "ars|sr|ars-dcf", FLAG_CHOICE, AT(truncation), 0, 0, run_truncations,
     "ars: exact, the same weights however the work is split; sr: stochastic, cheaper; ars-dcf: as "
     "ars in fewer rounds, more bytes (sr)"},
    {"index", "fast|exact", FLAG_CHOICE, AT(index), 0, 0, indices,
     "how functions find their table entry; exact goes with ars, ars-dcf (fast)"},
    {"sks", "PERMILLE", FLAG_COUNT, AT(sks), 0, 1000, NULL,
     "share of the products whose integrity is checked (0)"},
    {"sks-override", NULL, FLAG_SWITCH, AT(sks_override), 0, 0, NULL,
     "run a step again whose check failed; with --checkpoint such a step is refused"},
    {"transcript", "on|off", FLAG_CHOICE, AT(transcript), 0, 0, switches,
     "hash what is sent and opened into signed roots; off is faster (on)"},
    {"reveal", "yes|no", FLAG_CHOICE, AT(reveal), 0, 0, answers,
     "open the weights at the end; no: they stay shares, which --checkpoint alone keeps (yes)"},
    {"weights", "FILE", FLAG_TEXT, AT(weights), 0, 0, NULL,
     "write the opened weights: 64-bit little-endian integers with 16 fraction bits, one after the "
     "other in the model's order"},
    {"check", NULL, FLAG_SWITCH, AT(check), 0, 0, NULL,
     "run the plaintext reference beside it and compare the weights"},
    {"seed", "N", FLAG_SEED, AT(run.seed), 0, 0, NULL,
     "of initial weights, order of windows, keys and masks (1)"},
    {"plot", "FILE.svg", FLAG_TEXT, AT(plot), 0, 0, NULL, "draw the loss"},
    {"checkpoint", "DIR", FLAG_TEXT, AT(checkpoint), 0, 0, NULL,
     "keep the parties' shares after every step, encrypted under their keys; go on from them if "
     "there are any"},
    {"record", "DIR", FLAG_TEXT, AT(record), 0, 0, NULL,
     "write each worker's log of each party for uvcc replay; it holds all of its secrets"},
    {"force", NULL, FLAG_SWITCH, AT(force), 0, 0, NULL, "--record may replace logs"},
    {"extend", NULL, FLAG_SWITCH, AT(extend), 0, 0, NULL,
     "go on with more --steps than the model in --checkpoint was begun with: its rates follow the "
     "new number from there on"},
    RUN_FLAGS(AT),
};
static const flag_set set = {"train --model transformer", flags, sizeof flags / sizeof flags[0],
                             AT(run.help)};

void lm_options_print_help(FILE *to) {
    flags_text(to,
               "Usage: uvcc train --model transformer [OPTION...]\n"
               "\n"
               "Trains a byte-level language model among three parties, each of R x S x T "
               "workers, that all\n"
               "run in this one process and talk over sealed links. Party 0 gives the text. None "
               "of them sees\n"
               "weights or gradients, and the two others nothing of the text; what is opened is "
               "the sum of\n"
               "the losses of each step, to party 0 only, and, at the end, the weights.\n"
               "\n"
               "This is a simulation: all keys and all randomness follow from --seed, so that a "
               "run can be\n"
               "repeated. It protects nothing from anyone who knows the seed.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, to);
    flags_text(to, compute_help);
    flags_text(
        to,
        "\n"
        "With --truncation ars or ars-dcf and --index exact the final weights depend on the text, "
        "the\n"
        "sizes and the seed alone: not on which of the two, R, S, T, --products, --recompute or "
        "the "
        "network.\n"
        "\n"
        "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

static int power_of_two(const flag_message *m, const char *name, uint32_t v) {
    uint32_t below = 1;
    if ((v & (v - 1)) == 0)
        return 0;
    while (2 * below <= v)
        below *= 2;
    return flag_fail(m, "--%s %u: give a power of two, such as %u or %u", name, v, below,
                     2 * below);
}

static int divides(const flag_message *m, const char *name, uint32_t v, const char *of,
                   uint32_t whole) {
    if (whole % v == 0)
        return 0;
    return flag_fail(m, "--%s %u does not divide --%s %u; give one that does", name, v, of, whole);
}

/* The narrower of a block's widths, which limits the norm that gradients are cut to. */
static bool hidden_is_narrow(const lm_options *o) {
    return o->hidden != 0 && o->hidden < o->dim;
}

static double norm_clip_max(const lm_options *o) {
    const double of_blocks = sqrt(hidden_is_narrow(o) ? o->hidden : o->dim) / 16;
    return of_blocks < CLIP_NORM_MAX ? of_blocks : CLIP_NORM_MAX;
}

static int check_norm_clip(const flag_message *m, const lm_options *o) {
    const bool narrow = hidden_is_narrow(o);
    const double most = norm_clip_max(o);
    if (o->clip == 0 || (o->clip >= CLIP_NORM_MIN && o->clip <= most))
        return 0;
    return flag_fail(
        m,
        "--clip %g: with --optimizer adam-mini and --%s %u give 2^-5 to %.4g, or 0 for "
        "none",
        o->clip, narrow ? "hidden" : "dim", narrow ? o->hidden : o->dim, most);
}

static int check_clip(const flag_message *m, const lm_options *o) {
    if (o->optimizer == UVCC_OPTIMIZER_ADAM_MINI)
        return check_norm_clip(m, o);
    const bool adamw = o->optimizer == UVCC_OPTIMIZER_ADAMW;
    if (adamw && !(o->clip >= CLIP_LEAST && o->clip <= CLIP_ADAMW_MAX))
        return flag_fail(m, "--clip %g: with --optimizer adamw give 2^-12 to %g", o->clip,
                         CLIP_ADAMW_MAX);
    if (!adamw && o->clip > 0 && o->clip < CLIP_LEAST)
        return flag_fail(m, "--clip %g: give 2^-12 to 32, or 0 for none", o->clip);
    return 0;
}

static int check(const flag_message *m, const lm_options *o) {
    int bad = power_of_two(m, "batch", o->batch);
    if (bad == 0)
        bad = power_of_two(m, "microbatches", o->microbatches);
    if (bad == 0)
        bad = power_of_two(m, "replicas", o->replicas); /* no batch would do: it is one too */
    if (bad == 0)
        bad = divides(m, "heads", o->heads, "dim", o->dim);
    if (bad == 0)
        bad = divides(m, "stages", o->stages, "layers", o->layers);
    if (bad == 0)
        bad = divides(m, "tensor", o->tensor, "heads", o->heads);
    if (bad == 0 && o->batch % (o->microbatches * o->replicas) != 0)
        bad = flag_fail(m,
                        "--batch %u is less than %u microbatches of %u replicas; give at least "
                        "--batch %u",
                        o->batch, o->microbatches, o->replicas, o->microbatches * o->replicas);
    if (bad == 0 && o->index == 1 && o->truncation == UVCC_TRUNC_STOCHASTIC)
        bad = flag_fail(
            m, "--index exact goes with --truncation ars or ars-dcf; give both or neither");
    if (bad == 0)
        bad = check_clip(m, o);
    if (bad == 0 && o->reveal != 0 && (o->weights != NULL || o->check))
        bad = flag_fail(m, "--weights and --check need opened weights; leave out --reveal no");
    if (bad == 0 && o->extend && (o->checkpoint == NULL || o->check))
        bad = flag_fail(m, o->check ? "--check knows one schedule only; leave out --extend"
                                    : "--extend goes with --checkpoint; give the directory");
    if (bad == 0 && o->run.audit != NULL && o->transcript != 0)
        bad = flag_fail(m, "--audit needs the transcript; leave out --transcript off");
    return bad;
}

/* What is given to each optimizer if nothing is. */
static void settle_clip(lm_options *o) {
    uvcc_transformer_config c;
    if (o->clip != CLIP_NOT_GIVEN || uvcc_transformer_default(&c, sizeof c) != 0)
        return;
    o->clip = c.clip;
    if (o->optimizer == UVCC_OPTIMIZER_ADAM_MINI)
        o->clip = CLIP_NORM < norm_clip_max(o) ? CLIP_NORM : norm_clip_max(o);
}

/* Defaults are those of the library, so that a program and this command train alike. */
static int set_defaults(lm_options *out, const flag_message *m) {
    uvcc_transformer_config c;
    if (uvcc_transformer_default(&c, sizeof c) != 0)
        return flag_fail(m, "another version of the library");
    *out = (lm_options){.layers = c.layers,
                        .dim = c.dim,
                        .heads = c.heads,
                        .context = c.context,
                        .batch = c.batch,
                        .microbatches = c.microbatches,
                        .steps = c.steps,
                        .block = c.block,
                        .optimizer = c.optimizer,
                        .lr = c.learning_rate,
                        .clip = CLIP_NOT_GIVEN,
                        .weight_decay = c.weight_decay,
                        .warmup = c.warmup,
                        .final_rate = c.final_rate,
                        .replicas = 1,
                        .stages = 1,
                        .tensor = 1,
                        .window = UVCC_WINDOW_BYTES >> 20,
                        .truncation = UVCC_TRUNC_STOCHASTIC,
                        .run = RUN_DEFAULTS,
                        .model = 1};
    return 0;
}

int lm_options_parse(lm_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap) {
    const flag_message m = {message, message_cap};
    if (set_defaults(out, &m) != 0 || flags_parse(&set, out, argc, argv, NULL, NULL, &m) != 0)
        return -1;
    const flag_idle idle[] = {
        {"ahead", out->microbatches == 1, "with one microbatch: see --microbatches"},
        {"window", out->stages != 1, "with several stages, which have none"},
        {"force", out->record == NULL, "without --record"},
        {"parties", out->record != NULL, "with --record, which takes turns"},
        {"sks-override", out->checkpoint == NULL, "without --checkpoint"},
        {"warmup", out->lr <= 0, "with --lr 0"},
        {"final-rate", out->lr <= 0, "with --lr 0"},
    };
    if (out->run.help)
        return 0;
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0 ||
        run_options_check(&out->run, out->replicas * out->stages * out->tensor, &set, argc, argv,
                          &m) != 0)
        return -1;
    settle_clip(out);
    return check(&m, out);
}

/* ---- of a job between parties ---- */

static const char *const job_names[] = {
    "layers",    "dim",        "heads",  "hidden",     "context", "block",        "batch", "steps",
    "optimizer", "lr",         "warmup", "final-rate", "clip",    "weight-decay", "ahead", "window",
    "recompute", "truncation", "index",  "products",   "seed",    "reveal",       NULL};

void lm_options_job_words(const char *job, char *message, size_t message_cap) {
    static const char *const beside[][2] = {{"replicas", "replicas"},
                                            {"stages", "stages"},
                                            {"tensor", "tensor_ranks"},
                                            {"microbatches", "microbatches"},
                                            {"sks", "sks"}};
    enum { BESIDE = sizeof beside / sizeof beside[0] };
    char place[BESIDE][64], run[64];
    flag_place places[BESIDE + 1] = {{NULL, NULL}};
    for (unsigned i = 0; i < BESIDE; i++) {
        (void)snprintf(place[i], sizeof place[i], "%s.%s", job, beside[i][1]);
        places[i] = (flag_place){beside[i][0], place[i]};
    }
    places[BESIDE] = (flag_place){NULL, NULL};
    (void)snprintf(run, sizeof run, "%s.run", job);
    flags_json_words(run, places, &(flag_message){message, message_cap});
}

int lm_options_of_job(lm_options *out, const char *job, const json_t *run, const lm_split *split,
                      const char *const *more, char *message, size_t message_cap) {
    const flag_message m = {message, message_cap};
    char where[64];
    (void)snprintf(where, sizeof where, "%s.run", job);
    if (set_defaults(out, &m) != 0 ||
        flags_take_json(&set, job_names, more, out, run, where, &m) != 0)
        return -1;
    out->replicas = split->replicas;
    out->stages = split->stages;
    out->tensor = split->tensor_ranks;
    out->microbatches = split->microbatches;
    out->sks = split->sks;
    settle_clip(out);
    const int bad = check(&m, out);
    if (bad != 0)
        lm_options_job_words(job, message, message_cap);
    return bad;
}
