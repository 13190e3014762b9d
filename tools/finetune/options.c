/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - see options.h. What depends on the checkpoint is checked when it is read. */
#include "options.h"

#include <string.h>
#include <sys/stat.h>
#include <uvcc/finetune.h>

#include "../compute.h"
#include "../model/description.h"
#include "../runflags.h"

static const char *const methods[] = {"head", "lora", "full", NULL};
static const char *const pools[] = {"first", "tanh", "mean", NULL};
static const char *const adapts[] = {"q", "k", "qk", "v", "qv", "kv", "qkv", NULL};
static const char *const optimizers[] = {"sgd", "momentum", "adamw", NULL};
static const char *const receivers[] = {"0", "1", "2", "all", NULL};

enum { ADAPT_QV = 4, TO_ALL = 3 };
#define CLIP_ADAMW_MAX 0.0625

#define AT(member) offsetof(ft_options, member)
static const flag flags[] = {
    {"model", "DIR", FLAG_TEXT, AT(model), 0, 0, NULL,
     "checkpoint as save_pretrained() of the Python library transformers writes it. Required"},
    {"data", "FILE", FLAG_TEXT, AT(data), 0, 0, NULL,
     "safetensors file: input_ids, and attention_mask and token_type_ids if it has them, all I64, "
     "rows x tokens; labels, I64, one for each row: a classifier is trained. Without labels, each "
     "row's next tokens are learned. Required"},
    {"method", "head|lora|full", FLAG_CHOICE, AT(method), 0, 0, methods,
     "what is trained: a classifier on the model as it is; low-rank adapters beside its weights, "
     "and the classifier; all weights (head)"},
    {"labels", "N", FLAG_COUNT, AT(labels), 2, 65536, NULL,
     "kinds of labels (one more than the greatest in --data)"},
    {"pool", "first|tanh|mean", FLAG_CHOICE, AT(pool), 0, 0, pools,
     "what a classifier reads of a row: the first token, BERT's pooler, the mean of all tokens "
     "(bert: tanh; others: mean)"},
    {"rank", "R", FLAG_COUNT, AT(rank), 1, 1024, NULL, "of adapters (4)"},
    {"adapt", "q|k|qk|v|qv|kv|qkv", FLAG_CHOICE, AT(adapt), 0, 0, adapts,
     "which products have adapters: of queries, keys, values (qv)"},
    {"held-out", "N", FLAG_COUNT, AT(held_out), 1, 1u << 20, NULL,
     "the last N rows of --data are not learned from: the result is tried on them (none)"},
    {"tokens", "N", FLAG_COUNT, AT(tokens), 1, 65535, NULL,
     "of each row the first N (all; without labels all but the last, which is only predicted)"},
    {"batch", "N", FLAG_COUNT, AT(batch), 1, 1u << 16, NULL, "rows of a step (8)"},
    {"microbatches", "N", FLAG_COUNT, AT(microbatches), 1, 4096, NULL,
     "pieces of a step's batch (1; with padding and --method lora or full one for each row)"},
    {"steps", "N", FLAG_COUNT, AT(steps), 1, 100000000, NULL, "training steps (100)"},
    {"optimizer", "sgd|momentum|adamw", FLAG_CHOICE, AT(optimizer), 0, 0, optimizers,
     "how weights follow the gradients (adamw)"},
    {"lr", "X", FLAG_REAL, AT(lr), 0, 16, NULL, "greatest learning rate of the schedule (0.01)"},
    {"warmup", "N", FLAG_COUNT, AT(warmup), 0, 1000000, NULL,
     "steps over which the rate rises to --lr (0)"},
    {"final-rate", "X", FLAG_REAL, AT(final_rate), 0, 1, NULL,
     "part of --lr that the rate has fallen to after the last step (0.05)"},
    {"clip", "X", FLAG_REAL, AT(clip), 0, 32, NULL,
     "elements of the mean gradient are cut to [-X, X]: from 2^-12, with adamw to 0.0625, with the "
     "others to 32; with these 0: not at all (0.0625)"},
    {"weight-decay", "X", FLAG_REAL, AT(weight_decay), 0, 1, NULL,
     "trained matrices shrink by --lr times X a step (0)"},
    {"public", NULL, FLAG_SWITCH, AT(public_weights), 0, 0, NULL,
     "all parties know the checkpoint: what is trained stays secret. Not with --method full"},
    {"fold", NULL, FLAG_SWITCH, AT(fold), 0, 0, NULL,
     "gains and shifts of norms go into the matrices behind them (docs/pretrained.md). With "
     "--method "
     "head, and not of bert"},
    {"mode", "fast|exact|exact-dcf", FLAG_CHOICE, AT(mode), 0, 0, model_mode_names,
     "how truncations are made and functions find their table entry: fast rounds at random, the "
     "two others give the same weights as the plaintext run (fast)"},
    {"frac-bits", "N", FLAG_COUNT, AT(frac_bits), 12, 20, NULL, "bits of fractions (16)"},
    {"value-bits", "N", FLAG_COUNT, AT(value_bits), 1, 12, NULL,
     "|value on the way| is below 2^N (7)"},
    {"weight-bits", "N", FLAG_COUNT, AT(weight_bits), 1, 16, NULL,
     "|weight| is below 2^N (the least that holds them, 4 at least)"},
    {"inner-bits", "N", FLAG_COUNT, AT(inner_bits), 1, 12, NULL,
     "the same of scores and inputs of the activation (--value-bits)"},
    {"text-owner", "P", FLAG_COUNT, AT(text_owner), 0, 2, NULL, "party that gives the tokens (0)"},
    {"label-owner", "P", FLAG_COUNT, AT(label_owner), 0, 2, NULL,
     "party that gives the labels, and alone sees losses and predicted labels (1). Not without "
     "labels: then --text-owner sees the losses"},
    {"to", "0|1|2|all", FLAG_CHOICE, AT(receiver), 0, 0, receivers,
     "party that gets the trained weights (all)"},
    {"out", "FILE", FLAG_TEXT, AT(out), 0, 0, NULL,
     "write the trained weights: a safetensors file of F64, under the names of docs/models.md"},
    {"check", NULL, FLAG_SWITCH, AT(check), 0, 0, NULL,
     "run the plaintext reference beside it and compare the trained weights"},
    {"ignore-unknown", NULL, FLAG_SWITCH, AT(ignore_unknown), 0, 0, NULL,
     "members of config.json that nobody knows here change nothing"},
    {"seed", "N", FLAG_SEED, AT(run.seed), 0, 0, NULL,
     "of adapters, order of rows, keys and masks (1)"},
    {"plot", "FILE.svg", FLAG_TEXT, AT(plot), 0, 0, NULL, "draw the loss"},
    {"checkpoint", "DIR", FLAG_TEXT, AT(checkpoint), 0, 0, NULL,
     "keep the parties' shares after every step, encrypted under their keys; go on from them if "
     "there are any"},
    RUN_FLAGS(AT),
};
static const flag_set set = {"train --model DIR", flags, sizeof flags / sizeof flags[0],
                             AT(run.help)};

void ft_options_print_help(FILE *to) {
    flags_text(
        to,
        "Usage: uvcc train --model DIR --data FILE [OPTION...]\n"
        "\n"
        "Fine-tunes a pretrained transformer among three parties that all run in this one process "
        "and talk over sealed links: one has the checkpoint, one the texts, one their labels, and "
        "none of them sees what another gives. What is opened is the sum of the losses of each "
        "step, to who has the labels, the labels that the result gives the rows of --held-out, to "
        "the same party, and at the end what was trained.\n"
        "\n"
        "This is a simulation: all keys and all randomness follow from --seed, so that a run can "
        "be repeated. It protects nothing from anyone who knows the seed.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, to);
    flags_text(to, compute_help);
    flags_text(
        to,
        "\n"
        "With --mode exact or exact-dcf the trained weights depend on the checkpoint, the data, "
        "the options of the training and the seed alone.\n"
        "\n"
        "Exit status: 0 done, 1 the run failed, 2 wrong options or data, 130 interrupted.\n");
}

const char *ft_options_word(const char *option, uint32_t value) {
    for (size_t i = 0; i < set.count; i++) {
        const char *const *word = flags[i].choices;
        if (flags[i].kind != FLAG_CHOICE || strcmp(flags[i].name, option + 2) != 0)
            continue;
        value = word == receivers && value == UVCC_TO_ALL ? TO_ALL : value;
        while (*word != NULL && value-- > 0)
            word++;
        return *word;
    }
    return NULL;
}

uint8_t ft_options_adapted(const ft_options *o) {
    return (uint8_t)(o->adapt + 1); /* adapts[] counts in bits: WQ, WK, WV */
}

static int check(const flag_message *m, ft_options *o) {
    struct stat st;
    if (stat(o->model, &st) != 0 || !S_ISDIR(st.st_mode))
        return flag_fail(m,
                         "--model %s: is neither mlp nor transformer, nor the directory of a "
                         "checkpoint",
                         o->model);
    if (o->data == NULL)
        return flag_fail(m, "--data FILE is missing; name the safetensors file to learn from");
    if (o->microbatches != 0 && o->batch % o->microbatches != 0)
        return flag_fail(m, "--batch %u is no multiple of --microbatches %u; give one that is",
                         o->batch, o->microbatches);
    if (o->run.products != UVCC_PRODUCTS_NATIVE)
        return flag_fail(m, "--products beaver is not there for fine-tuning; leave it out");
    if (o->public_weights && o->method == UVCC_FINETUNE_FULL)
        return flag_fail(m, "--public: --method full changes all weights, which are then secret; "
                            "leave it out");
    if (o->optimizer == UVCC_OPTIMIZER_ADAMW && !(o->clip > 0 && o->clip <= CLIP_ADAMW_MAX))
        return flag_fail(m, "--clip %g: with --optimizer adamw give 2^-12 to %g", o->clip,
                         CLIP_ADAMW_MAX);
    o->receiver = o->receiver == TO_ALL ? UVCC_TO_ALL : o->receiver;
    return 0;
}

int ft_options_parse(ft_options *out, int argc, char *const *argv, char *message,
                     size_t message_cap) {
    const flag_message m = {message, message_cap};
    uvcc_finetune_config c;
    if (uvcc_finetune_default(&c, sizeof c) != 0)
        return flag_fail(&m, "another version of the library");
    *out = (ft_options){.rank = c.rank,
                        .adapt = ADAPT_QV,
                        .batch = 8,
                        .steps = 100,
                        .optimizer = c.optimizer,
                        .lr = c.learning_rate,
                        .clip = c.clip,
                        .final_rate = c.final_rate,
                        .frac_bits = c.model.frac_bits,
                        .label_owner = 1,
                        .receiver = TO_ALL,
                        .run = RUN_DEFAULTS};
    if (flags_parse(&set, out, argc, argv, NULL, NULL, &m) != 0)
        return -1;
    if (out->run.help)
        return 0;
    out->pool_given = flags_given(&set, argc, argv, "pool");
    out->label_owner_given = flags_given(&set, argc, argv, "label-owner");
    const bool lora = out->method == UVCC_FINETUNE_LORA;
    const flag_idle idle[] = {
        {"rank", !lora, "without --method lora"},
        {"adapt", !lora, "without --method lora"},
        {"fold", out->method != UVCC_FINETUNE_HEAD,
         "with --method lora or full, which read the gains"},
        {"warmup", out->lr <= 0, "with --lr 0"},
        {"final-rate", out->lr <= 0, "with --lr 0"},
    };
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0 ||
        run_options_check(&out->run, 1, &set, argc, argv, &m) != 0)
        return -1;
    return check(&m, out);
}
