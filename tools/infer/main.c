/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `uvcc infer`: options, and the order of things. */
#include "infer.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../compute.h"
#include "../runflags.h"

static const char *const computes[] = {"inline", "threads", "gpu", NULL};
static const uint32_t compute_modes[] = {UVCC_CPU_INLINE, UVCC_CPU_THREADS, RUN_COMPUTE_GPU};

typedef struct words {
    infer_options o;
    uint32_t compute;
    bool help;
} words;

#define AT(member) offsetof(words, member)
static const flag options[] = {
    {"model", "DIR", FLAG_TEXT, AT(o.model), 0, 0, NULL,
     "the checkpoint, as save_pretrained() of the Python library transformers writes it. Required"},
    {"input", "FILE", FLAG_TEXT, AT(o.input), 0, 0, NULL,
     "a file that ends in .safetensors, with input_ids and, if it has them, attention_mask and "
     "token_type_ids; else lines of text, of which each is a sequence"},
    {"text", "TEXT", FLAG_TEXT, AT(o.text), 0, 0, NULL,
     "or a text, for models whose tokens are bytes"},
    {"ids", "N[,N...]", FLAG_TEXT, AT(o.ids), 0, 0, NULL,
     "or tokens: 1,2,3 is a sequence, and 1,2;3,4 are two"},
    {"to", "owner|all|PARTY", FLAG_TEXT, AT(o.to), 0, 0, NULL,
     "to whom the answer opens: the input's owner, all three, or party 0, 1 or 2. The others learn "
     "nothing (owner)"},
    {"gives", "hidden|logits|last|pooled|labels", FLAG_CHOICE, AT(o.gives), 0, 0, model_gives_names,
     "what comes out: hidden states, logits of all tokens, of each sequence's last one, BERT's "
     "pooled rows, what its classifier makes of them (labels of a BERT that has a classifier, "
     "hidden of others, last of GPT and Llama)"},
    {"output", "FILE", FLAG_TEXT, AT(o.output), 0, 0, NULL,
     "write all values of the answer: as JSON if its name ends in .json, else as safetensors"},
    {"tokens", "N", FLAG_COUNT, AT(o.tokens), 1, 65536, NULL,
     "of each sequence: what is behind a text is padding, so that the others see N instead of its "
     "length; of a safetensors file the first N (those of the longest)"},
    {"weights", "secret|public", FLAG_CHOICE, AT(o.public_weights), 0, 0, model_weights_names,
     "whether all parties know the weights; then the input's owner looks up the embeddings "
     "(secret)"},
    {"weights-owner", "PARTY", FLAG_COUNT, AT(o.weights_owner), 0, 2, NULL,
     "whose the weights are (1)"},
    {"input-owner", "PARTY", FLAG_COUNT, AT(o.input_owner), 0, 2, NULL, "whose the input is (0)"},
    {"mode", "fast|exact|exact-dcf", FLAG_CHOICE, AT(o.mode), 0, 0, model_mode_names,
     "how truncations are made (fast)"},
    {"frac-bits", "N", FLAG_COUNT, AT(o.frac_bits), 12, 20, NULL, "bits of fractions (16)"},
    {"value-bits", "N", FLAG_COUNT, AT(o.value_bits), 1, 12, NULL,
     "|value on the way| is below 2^N (one more than the calibration needs)"},
    {"inner-bits", "N", FLAG_COUNT, AT(o.inner_bits), 1, 12, NULL,
     "the same of scores and inputs of the activation (likewise)"},
    {"index-bits", "N", FLAG_COUNT, AT(o.index_bits), 4, 10, NULL,
     "GeLU and SiLU are looked up in cells of 2^-N (--frac-bits less 5, 9 at most)"},
    {"weight-bits", "N", FLAG_COUNT, AT(o.weight_bits), 1, 16, NULL,
     "|weight| is below 2^N (the least that holds them, 4 at least)"},
    {"fold", NULL, FLAG_SWITCH, AT(o.fold), 0, 0, NULL,
     "gains and shifts of norms go into the matrices behind them (docs/pretrained.md)"},
    {"calibrate", "FILE", FLAG_TEXT, AT(o.calibrate), 0, 0, NULL,
     "tokens, as in --input, on which the weights' owner finds --value-bits and --inner-bits "
     "(tokens drawn by the seed)"},
    {"check", NULL, FLAG_SWITCH, AT(o.check), 0, 0, NULL,
     "run the pass in double precision and its plaintext twin beside it, and compare"},
    {"view", NULL, FLAG_SWITCH, AT(o.view), 0, 0, NULL,
     "show the first bytes of what each party had of the others' values"},
    {"ignore-unknown", NULL, FLAG_SWITCH, AT(o.ignore_unknown), 0, 0, NULL,
     "members of config.json that nobody knows here change nothing"},
    {"compute", "inline|threads|gpu", FLAG_CHOICE, AT(compute), 0, 0, computes,
     "when jobs run: at once, on threads, or on a CUDA device (inline)"},
    RUN_DEVICE_FLAG(AT(o.run.device)),
    {"threads", "N", FLAG_COUNT, AT(o.threads), 1, 1024, NULL,
     "of each party, with --compute threads (one)"},
    {"parties", "threads|turns", FLAG_CHOICE, AT(o.run.parties), 0, 0, run_parties_names,
     "a thread for each party, or one that takes turns; --trace takes turns unless --compute is "
     "gpu "
     "(threads)"},
    {"seed", "N", FLAG_SEED, AT(o.run.seed), 0, 0, NULL, "of keys, masks and shares (1)"},
    {"policy", "FILE", FLAG_TEXT, AT(o.run.policy), 0, 0, NULL,
     "what the three parties allow, which their sessions enforce (docs/policy.md)"},
    {"trace", "FILE", FLAG_TEXT, AT(o.run.trace), 0, 0, NULL,
     "write what ran and waited, for Perfetto (ui.perfetto.dev)"},
    {"json", "FILE|-", FLAG_TEXT, AT(o.run.json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"progress", NULL, FLAG_SWITCH, AT(o.run.progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"infer", options, sizeof options / sizeof options[0], AT(help)};

static void print_help(void) {
    flags_text(stdout, "Usage: uvcc infer --model DIR --input FILE [OPTION...]\n"
                       "       uvcc infer --model DIR --text TEXT [OPTION...]\n"
                       "       uvcc infer --model DIR --ids N[,N...] [OPTION...]\n"
                       "\n"
                       "Runs a pretrained transformer among three parties: one brings the weights, "
                       "another the input, and the answer opens to whom --to says. Nobody sees the "
                       "input but its owner, the weights but theirs, or a value on the way.\n"
                       "\n"
                       "This is a simulation in one process, which reads both parties' files.\n"
                       "\n"
                       "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, compute_help);
    flags_text(stdout,
               "\nExit status: 0 done, 1 the run failed, or --check found a difference, 2 wrong "
               "options or data, 130 interrupted.\n");
}

/* ---- options ---- */

static int check_options(words *w, int argc, char *const *argv, const flag_message *m) {
    infer_options *o = &w->o;
    o->run.compute = compute_modes[w->compute];
    if (o->model == NULL)
        return flag_fail(m, "--model DIR is missing; see uvcc infer --help");
    if ((o->input != NULL) + (o->text != NULL) + (o->ids != NULL) != 1)
        return flag_fail(m, "give one of --input, --text and --ids");
    if (o->public_weights && flags_given(&set, argc, argv, "weights-owner"))
        return flag_fail(m, "--weights-owner does nothing with --weights public; leave it out");
    if (!o->public_weights && o->weights_owner == o->input_owner)
        return flag_fail(m,
                         "party %u owns the weights and the input: it can run the model alone; "
                         "give --weights-owner or --input-owner",
                         o->input_owner);
    const flag_idle idle[] = {
        {"calibrate", o->value_bits != 0 && o->inner_bits != 0,
         "with --value-bits and --inner-bits"},
        {"threads", o->run.compute != UVCC_CPU_THREADS, "without --compute threads"},
    };
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], m) != 0 ||
        run_options_check(&o->run, 1, &set, argc, argv, m) != 0)
        return -1;
    return infer_take_receiver(o, m);
}

/* ---- the pass ---- */

static int prepare(infer *f, const flag_message *m) {
    const infer_options *o = f->o;
    const output_use written[] = {
        {"json", o->run.json}, {"output", o->output}, {"trace", o->run.trace}};
    int status = infer_load(f);
    if (status == EXIT_DONE)
        status = model_spares(&f->l.from, written, 3);
    if (status != EXIT_DONE)
        return status;
    if (infer_read_input(f, m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    return infer_settle(f, m);
}

/* What --view looks at: the 1 of the first token, behind a mark that begins all texts, and the
 * first matrix behind the embeddings. */
static void choose_view(infer *f) {
    uvcc_model_weight w;
    const model_input *in = &f->p.in;
    const size_t columns = (size_t)f->p.shape.vocabulary + f->p.shape.segments;
    const size_t row = in->tokens > 1 && in->ids[0] == infer_begin_mark(f);
    while (uvcc_model_weight_at(&f->l.w.shape, f->seen_weight, &w) == 0 &&
           (w.kind != UVCC_MODEL_WEIGHT_MATRIX || w.layer == UVCC_MODEL_NO_LAYER))
        f->seen_weight++;
    f->seen_at = plain_takes_tokens(&f->p) ? row * columns + (size_t)in->ids[row] : 0;
}

/* In a fast mode the twin rounds otherwise, so the run is near to it and no more. */
static int check(infer *f) {
    infer_checked *c = &f->checked;
    const infer_answer *a = &f->answer;
    double *twin = NULL;
    int status = plain_real(&f->p);
    if (status == EXIT_DONE)
        status = plain_twin(&f->p, &twin);
    if (status == EXIT_DONE && f->p.refused[0] != '\0')
        status = report_error(EXIT_FAILED,
                              "the input leaves the bits of the pass, so its answer is wrong: %s; "
                              "give more --value-bits or --inner-bits, or --calibrate",
                              f->p.refused);
    if (status == EXIT_DONE) {
        c->real = plain_distance(&f->p, a->y, f->p.y);
        if (f->p.in.expected != NULL)
            c->given = plain_distance(&f->p, a->y, f->p.in.expected);
        c->twin = plain_distance(&f->p, a->y, twin);
        c->equal = memcmp(a->opened, f->p.z, a->rows * a->cols * sizeof *a->opened) == 0;
        c->rows = a->rows;
        for (size_t r = 0; r < a->rows; r++)
            c->same += infer_greatest(a->y + r * a->cols, a->cols) ==
                       infer_greatest(f->p.y + r * a->cols, a->cols);
    }
    free(twin);
    return status;
}

static int report(infer *f, report_json *json, atomic_file *output) {
    FILE *to = report_stream(f->o->run.json);
    infer_show(f);
    int status = output != NULL ? infer_write(f, output) : EXIT_DONE;
    const int reported = host_report(&f->host, json, infer_json(f), to);
    status = status == EXIT_DONE ? reported : status;
    if (status == EXIT_DONE && f->o->check && f->p.config.mode != UVCC_MODEL_FAST &&
        !f->checked.equal)
        status = report_error(EXIT_FAILED, "the answer is not the plaintext twin's");
    return status;
}

static int run(infer *f, report_json *json, atomic_file *output) {
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    int status = prepare(f, &m);
    if (status == EXIT_DONE) {
        choose_view(f);
        status = infer_run(f);
    }
    if (status == EXIT_DONE && f->o->check)
        status = check(f);
    if (status == EXIT_DONE)
        status = report(f, json, output);
    const int ended = host_end(&f->host);
    return status != EXIT_DONE ? status : ended;
}

/* Places that cannot be written are known before the work. */
static int open_outputs(const infer_options *o, report_json **json, atomic_file **output) {
    const output_use uses[] = {
        {"json", o->run.json}, {"output", o->output}, {"trace", o->run.trace}};
    const output_use read[] = {
        {"input", o->input}, {"calibrate", o->calibrate}, {"policy", o->run.policy}};
    int status = atomic_file_apart(uses, 3);
    for (size_t i = 0; status == EXIT_DONE && i < 3; i++)
        if (uses[i].path != NULL)
            status = atomic_file_spares(uses[i].option, uses[i].path, read, 3);
    if (status == EXIT_DONE && (*json = report_json_open_own(o->run.json)) == NULL)
        status = EXIT_BAD_INPUT;
    if (status == EXIT_DONE && o->output != NULL)
        *output = atomic_file_open_own("output", o->output, &status);
    return status;
}

int infer_main(int argc, char *const *argv) {
    char message[512];
    const flag_message m = {message, sizeof message};
    words w = {
        .o = {.run = RUN_DEFAULTS, .gives = GIVES_USUAL, .frac_bits = 16, .weights_owner = 1}};
    report_json *json = NULL;
    atomic_file *output = NULL;
    report_command("infer");
    if (flags_parse(&set, &w, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (w.help) {
        print_help();
        return EXIT_DONE;
    }
    if (check_options(&w, argc, argv, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    infer f = {.o = &w.o};
    int status = open_outputs(&w.o, &json, &output);
    if (status == EXIT_DONE)
        status = run(&f, json, output);
    infer_forget(&f);
    if (output != NULL)
        atomic_file_close(output);
    report_json_close(json);
    return status;
}
