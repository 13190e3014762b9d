/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `uvcc model`: options, and which command they are of. */
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "../report.h"
#include "model.h"

static const char *const takes[] = {"hidden", "tokens", "one-hot", NULL};

#define AT(member) offsetof(model_options, member)
static const flag options[] = {
    {"out", "FILE", FLAG_TEXT, AT(out), 0, 0, NULL, "convert: the file to write. Required"},
    {"tokens", "N", FLAG_COUNT, AT(pass.tokens), 1, 65536, NULL,
     "of each sequence (128, or the model's positions; check: those of --input)"},
    {"sequences", "N", FLAG_COUNT, AT(pass.sequences), 1, 65536, NULL, "sequences of a pass (1)"},
    {"padding", NULL, FLAG_SWITCH, AT(pass.padding), 0, 0, NULL,
     "inspect, convert: some tokens are none, and which is secret"},
    {"takes", "hidden|tokens|one-hot", FLAG_CHOICE, AT(pass.takes), 0, 0, takes,
     "what goes in: rows of embeddings, which are the caller's, numbers of tokens, or one-hot rows "
     "of them, which take more bytes (hidden)"},
    {"gives", "hidden|logits|last|pooled|labels", FLAG_CHOICE, AT(pass.gives), 0, 0,
     model_gives_names,
     "what comes out: hidden states, logits of all tokens, of each sequence's last one, BERT's "
     "pooled rows, what its classifier makes of them (hidden)"},
    {"frac-bits", "N", FLAG_COUNT, AT(pass.frac_bits), 12, 20, NULL, "bits of fractions (16)"},
    {"value-bits", "N", FLAG_COUNT, AT(pass.value_bits), 1, 12, NULL,
     "|value on the way| is below 2^N (7)"},
    {"weight-bits", "N", FLAG_COUNT, AT(pass.weight_bits), 1, 16, NULL,
     "|weight| is below 2^N (the least that holds them, 4 at least)"},
    {"inner-bits", "N", FLAG_COUNT, AT(pass.inner_bits), 1, 12, NULL,
     "the same of scores and inputs of the activation (--value-bits)"},
    {"index-bits", "N", FLAG_COUNT, AT(pass.index_bits), 4, 10, NULL,
     "GeLU and SiLU are looked up in cells of 2^-N (--frac-bits less 5, 9 at most)"},
    {"mode", "fast|exact|exact-dcf", FLAG_CHOICE, AT(pass.mode), 0, 0, model_mode_names,
     "how truncations are made (inspect, convert: fast; check: exact)"},
    {"public", NULL, FLAG_SWITCH, AT(pass.public_weights), 0, 0, NULL,
     "inspect, convert: all parties know the weights"},
    {"fold", NULL, FLAG_SWITCH, AT(pass.fold), 0, 0, NULL,
     "multiplies gains and shifts of the layers' norms into the matrices behind them: a pass takes "
     "fewer bytes and gives the same (not of bert)"},
    {"clip", NULL, FLAG_SWITCH, AT(clip), 0, 0, NULL,
     "convert: weights that leave --weight-bits become the nearest that do not"},
    {"input", "FILE", FLAG_TEXT, AT(input), 0, 0, NULL,
     "check: tokens from a safetensors file with input_ids, and with attention_mask and "
     "token_type_ids, and with last_hidden_state, logits or pooler_output to compare with, if it "
     "has them"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL, "check: draws tokens where none are given (1)"},
    {"ignore-unknown", NULL, FLAG_SWITCH, AT(ignore_unknown), 0, 0, NULL,
     "convert, check: members of config.json that nobody knows here change nothing"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "inspect, check: write the outcome as JSON; with -, alone on standard output"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"model", options, sizeof options / sizeof options[0], AT(help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc model inspect DIR [OPTION...]\n"
               "       uvcc model convert DIR --out FILE [OPTION...]\n"
               "       uvcc model check DIR|FILE [OPTION...]\n"
               "\n"
               "inspect  says what a checkpoint is, what its weights take as fixed-point\n"
               "         numbers and what a pass of it costs; or why it does not run.\n"
               "convert  writes the weights as fixed-point numbers, with the description that\n"
               "         the library runs them by. The file is the secret of its owner.\n"
               "check    runs a pass in double precision beside the fixed-point one, and says\n"
               "         how far values reach and what to set for them.\n"
               "\n"
               "DIR is as save_pretrained() of the Python library transformers writes it, with "
               "config.json and safetensors files, of the kinds bert, gpt2, gpt_neo and llama; "
               "FILE is one that convert wrote.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\n"
                       "Exit status: 0 done, 1 the run failed or the values leave their bits, 2 "
                       "wrong options or files.\n");
}

static const struct {
    const char *name;
    int (*run)(const model_options *o);
} commands[] = {{"inspect", model_inspect}, {"convert", model_convert}, {"check", model_check}};
enum { INSPECT, CONVERT, CHECK, COMMANDS };

static int parse(model_options *o, int argc, char *const *argv, unsigned *command,
                 const flag_message *m) {
    const char *words[64];
    int count = 0;
    *o = (model_options){.pass = {.sequences = 1, .frac_bits = 16}, .seed = 1};
    if (argc > (int)(sizeof words / sizeof words[0]))
        return flag_fail(m, "there are too many words; see uvcc model --help");
    if (flags_parse(&set, o, argc, argv, words, &count, m) != 0 || o->help)
        return o->help ? 0 : -1;
    *command = 0;
    while (count > 0 && *command < COMMANDS && strcmp(commands[*command].name, words[0]) != 0)
        (*command)++;
    if (count == 0 || *command == COMMANDS)
        return flag_fail(m, "give one of inspect, convert, check; see uvcc model --help");
    if (count != MODEL_WORDS_MAX)
        return flag_fail(m, "%s needs one path; see uvcc model --help", words[0]);
    o->word[0] = words[0];
    o->word[1] = words[1];
    if (*command == CHECK && !flags_given(&set, argc, argv, "mode"))
        o->pass.mode = UVCC_MODEL_EXACT;
    const bool check = *command == CHECK, convert = *command == CONVERT;
    struct stat st;
    const bool file = check && stat(o->word[1], &st) == 0 && !S_ISDIR(st.st_mode);
    static const char says[] = "with a file of weights, which says it";
    const flag_idle idle[] = {
        {"tokens", file, says},
        {"sequences", file, says},
        {"takes", file, says},
        {"gives", file, says},
        {"frac-bits", file, says},
        {"value-bits", file, says},
        {"weight-bits", file, says},
        {"inner-bits", file, says},
        {"index-bits", file, says},
        {"fold", file, says},
        {"ignore-unknown", file, says},
        {"out", !convert, "but in convert"},
        {"clip", !convert, "but in convert"},
        {"clip", o->pass.weight_bits == 0, "without --weight-bits"},
        {"json", convert, "in convert"},
        {"input", !check, "but in check"},
        {"seed", !check, "but in check"},
        {"seed", o->input != NULL, "with --input"},
        {"sequences", o->input != NULL, "with --input"},
        {"padding", check, "in check, which takes it from --input"},
        {"public", check, "in check: the result is the same"},
        {"ignore-unknown", *command == INSPECT, "in inspect"},
    };
    return flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}

int model_main(int argc, char *const *argv) {
    char message[256];
    const flag_message m = {message, sizeof message};
    model_options o;
    unsigned command = 0;
    report_command("model");
    if (parse(&o, argc, argv, &command, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    return commands[command].run(&o);
}
