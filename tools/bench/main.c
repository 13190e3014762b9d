/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `uvcc bench`: options, what they may be beside each other, and the run. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../card.h"
#include "../compute.h"
#include "../interrupt.h"
#include "../report.h"
#include "../runflags.h"
#include "result.h"

static const char *const backends[] = {"cpu", "gpu", NULL};
static const char *const micros[] = {"", /* none; an option's value is never empty */
#define UVCC_MICRO(NAME, name, shape, what) name,
#include "micros.def"
#undef UVCC_MICRO
                                     NULL};

#define AT(member) offsetof(bench_options, member)
static const flag options[] = {
    {"model", "NAME|DIR", FLAG_TEXT, AT(model), 0, 0, NULL,
     "one of --list, with random weights, or the directory of a checkpoint (with a / in it)"},
    {"micro", "gelu|silu|softmax|layernorm|rmsnorm|gemm|compare|truncate", FLAG_CHOICE, AT(micro),
     0, 0, micros, "one function instead of a model"},
    {"width", "D", FLAG_COUNT, AT(width), 64, 65536, NULL, "of --micro (768)"},
    {"backend", "cpu|gpu", FLAG_CHOICE, AT(backend), 0, 0, backends,
     "where jobs run (what the environment says, or cpu)"},
    RUN_DEVICE_FLAG(AT(run.device)),
    {"spread", NULL, FLAG_SWITCH, AT(spread), 0, 0, NULL,
     "a device for each party: that of --device and the two after it"},
    {"streams", "N", FLAG_COUNT, AT(streams), 1, 16, NULL, "jobs at a time on a device (6)"},
    {"trust", NULL, FLAG_SWITCH, AT(trust), 0, 0, NULL,
     "the device's executor does not look operands up"},
    {"seq-len", "L", FLAG_COUNT, AT(seq_len), 1, 65536, NULL, "tokens of a sequence (128)"},
    {"batch-size", "B", FLAG_COUNT, AT(batch_size), 1, 4096, NULL, "sequences of a pass (1)"},
    {"n-iters", "N", FLAG_COUNT, AT(n_iters), 1, BENCH_ITERS_MAX, NULL,
     "passes that are measured (5)"},
    {"warmup", "N", FLAG_COUNT, AT(warmup), 1, BENCH_ITERS_MAX, NULL,
     "passes before them, which find cold memory (1; 2 on a device)"},
    {"weights", "secret|public", FLAG_CHOICE, AT(public_weights), 0, 0, model_weights_names,
     "whether all parties know the weights (secret)"},
    {"threads", "N", FLAG_COUNT, AT(threads), 1, 256, NULL,
     "compute threads of each party on the CPU (4)"},
    {"keys-ahead", "MIB", FLAG_COUNT, AT(keys_ahead), 1, 1048576, NULL,
     "keys dealt before the input is there, of each party for each peer, where memory does not "
     "hold "
     "all; the others are then dealt online (all)"},
    {"keys-gathered", "MIB", FLAG_COUNT, AT(keys_gathered), 0, 1048576, NULL,
     "memory of each party for keys that lie with its tensors, on the device, ahead of their use "
     "(UVCC_GPU_KEYS_BYTES; 0 on the CPU)"},
    {"layers", "N", FLAG_COUNT, AT(layers), 1, 200, NULL, "only so many (the model's)"},
    {"whole", NULL, FLAG_SWITCH, AT(whole), 0, 0, NULL,
     "with embedding and head: numbers of tokens in, logits of the last one or pooled rows out"},
    {"fold", NULL, FLAG_SWITCH, AT(fold), 0, 0, NULL,
     "of a pre-norm model: norms' gains and shifts went into the matrices behind them"},
    {"mode", "fast|exact|exact-dcf", FLAG_CHOICE, AT(mode), 0, 0, model_mode_names,
     "how truncations are made (fast)"},
    {"frac-bits", "N", FLAG_COUNT, AT(frac_bits), 12, 20, NULL, "bits of fractions (12)"},
    {"value-bits", "N", FLAG_COUNT, AT(value_bits), 1, 12, NULL,
     "|value on the way| is below 2^N (7)"},
    {"inner-bits", "N", FLAG_COUNT, AT(inner_bits), 1, 12, NULL,
     "the same of scores and inputs of the activation (--value-bits)"},
    {"index-bits", "N", FLAG_COUNT, AT(index_bits), 4, 10, NULL,
     "the activation function is looked up in cells of 2^-N (--frac-bits less 5, 9 at most)"},
    {"weight-bits", "N", FLAG_COUNT, AT(weight_bits), 1, 16, NULL, "|weight| is below 2^N (4)"},
    {"audit", NULL, FLAG_SWITCH, AT(audit), 0, 0, NULL, "with the transcript"},
    {"check", NULL, FLAG_SWITCH, AT(check), 0, 0, NULL,
     "the last output beside what plaintext gives, bit for bit; in an exact mode"},
    {"disable-eff-bits", NULL, FLAG_SWITCH, AT(no_eff_bits), 0, 0, NULL,
     "openings and keys of the widest declared values instead of --value-bits"},
    {"disable-ragged-pack", NULL, FLAG_SWITCH, AT(no_ragged_pack), 0, 0, NULL,
     "every score of the square instead of the rows' own under a causal mask"},
    {"disable-fusion", NULL, FLAG_SWITCH, AT(no_fusion), 0, 0, NULL,
     "each task a job of its own, one after the other"},
    {"tasks", NULL, FLAG_SWITCH, AT(tasks), 0, 0, NULL, "show the time by kind of task too"},
    {"job", "FILE", FLAG_TEXT, AT(job_file), 0, 0, NULL,
     "each party is a process of its own: this file of addresses, the same at all three, as JSON "
     "(docs/benchmark.md)"},
    {"party", "N", FLAG_COUNT, AT(party), 0, UVCC_PARTIES - 1, NULL,
     "the party that this process is, of --job"},
    {"seed", "N", FLAG_SEED, AT(run.seed), 0, 0, NULL, "of keys and masks (1)"},
    {"list", NULL, FLAG_SWITCH, AT(list), 0, 0, NULL, "show the models and end"},
    {"dry-run", NULL, FLAG_SWITCH, AT(dry_run), 0, 0, NULL,
     "say what it takes, by the program's tables, and end"},
    {"hardware", "FILE", FLAG_TEXT, AT(hardware), 0, 0, NULL,
     "what scripts/describe-hardware wrote, for the JSON (what this process sees)"},
    {"commit", "TEXT", FLAG_TEXT, AT(commit), 0, 0, NULL, "of the source, for the JSON"},
    {"json", "FILE|-", FLAG_TEXT, AT(run.json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"progress", NULL, FLAG_SWITCH, AT(run.progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(run.help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"bench", options, sizeof options / sizeof options[0], AT(run.help)};
#undef AT

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc bench --model NAME|DIR [OPTION...]\n"
               "       uvcc bench --micro NAME [OPTION...]\n"
               "       uvcc bench --list\n"
               "\n"
               "Measures a forward pass of a transformer, or one function, among three parties "
               "that are threads of this process, or with --job processes, and talk over sealed "
               "links. Keys are dealt before "
               "the input is there, and are counted apart. Of a model the blocks run, from rows of "
               "hidden states to rows of hidden states. docs/benchmark.md says what is counted and "
               "how to compare it.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, compute_help);
    flags_text(stdout,
               "\n"
               "Interrupted, it writes what was measured until then.\n"
               "\n"
               "Exit status: 0 done, 1 the run failed or the output is wrong, 2 wrong options or "
               "not enough memory, 130 interrupted.\n");
}

/* ---- options ---- */

static int check(bench_options *o, int argc, char *const *argv, const flag_message *m) {
    const bool gpu = o->run.compute == RUN_COMPUTE_GPU, micro = o->micro != 0;
    const bool dir = o->model != NULL && strchr(o->model, '/') != NULL;
    const flag_idle idle[] = {
        {"width", !micro, "without --micro"},
        {"layers", micro, "with --micro"},
        {"layers", dir, "with a checkpoint, which says it"},
        {"whole", micro, "with --micro"},
        {"fold", micro, "with --micro"},
        {"inner-bits", micro, "with --micro"},
        {"index-bits", micro && !subject_has_index(o), "with this --micro"},
        {"weight-bits", micro, "with --micro"},
        {"check", micro, "with --micro; see uvcc nonlinear"},
        {"disable-ragged-pack", micro, "with --micro, whose rows are all full"},
        {"value-bits", o->no_eff_bits, "with --disable-eff-bits"},
        {"inner-bits", o->no_eff_bits, "with --disable-eff-bits"},
        {"device", !gpu, "without --backend gpu"},
        {"spread", !gpu, "without --backend gpu"},
        {"streams", !gpu, "without --backend gpu"},
        {"trust", !gpu, "without --backend gpu"},
        {"threads", gpu, "with --backend gpu, where a thread drives each party"},
        {"party", o->job_file == NULL, "without --job"},
        {"spread", o->job_file != NULL, "with --job, where each party has a device of its own"},
    };
    if (o->job_file != NULL && !flags_given(&set, argc, argv, "party"))
        return flag_fail(m, "give --party N with --job: 0, 1 or 2, another one to each process");
    if ((o->model != NULL) == micro)
        return flag_fail(m, micro ? "give --model or --micro, not both"
                                  : "give --model NAME (see --list) or --micro NAME");
    if (o->check && o->mode == UVCC_MODEL_FAST)
        return flag_fail(m, "--check is bit for bit: give --mode exact or exact-dcf with it");
    return flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], m);
}

static int parse(bench_options *o, int argc, char *const *argv, const flag_message *m) {
    *o = (bench_options){.run = RUN_DEFAULTS, .batch_size = 1, .n_iters = 5, .threads = 4};
    if (flags_parse(&set, o, argc, argv, NULL, NULL, m) != 0)
        return -1;
    if (o->run.help || o->list)
        return 0;
    o->run.compute = o->backend == 1 ? RUN_COMPUTE_GPU : UVCC_CPU_THREADS;
    if (run_options_compute(&o->run, flags_given(&set, argc, argv, "backend"), 1, m) != 0)
        return -1;
    o->backend = o->run.compute == RUN_COMPUTE_GPU;
    if (o->warmup == 0) /* on a device pinned memory is still taken in the second one */
        o->warmup = 1 + o->backend;
    if (flags_given(&set, argc, argv, "keys-gathered"))
        o->run.device_keys = (uint64_t)o->keys_gathered << 20;
    const int rc = check(o, argc, argv, m);
    o->width = o->width != 0 ? o->width : 768;
    return rc;
}

/* Of each process alone. */
static bool is_own(const flag *f) {
    static const char *const own[] = {"device",   "job",   "party", "hardware", "commit", "json",
                                      "progress", "tasks", "list",  "dry-run",  "help"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(f->name, own[i]) == 0)
            return true;
    return false;
}

/* A checkpoint may lie elsewhere on each machine: its weights are compared as they are set. */
static uint64_t hash_of(const bench_options *o, const flag *f) {
    const char *at = (const char *)o + f->at, *text;
    switch (f->kind) {
    case FLAG_TEXT:
        memcpy(&text, at, sizeof text);
        text = text == NULL ? "" : strchr(text, '/') != NULL ? "/" : text;
        return uvcc_agree_hash(text, strlen(text)) >> 4;
    case FLAG_SEED:
        return uvcc_agree_hash(at, sizeof(uint64_t)) >> 4;
    case FLAG_SWITCH:
        return *(const bool *)at;
    default:
        return *(const uint32_t *)at;
    }
}

/* Numbers have their places by this list, so programs that have another one are no peers. */
static uint64_t hash_of_version(void) {
    char text[2048];
    int len = snprintf(text, sizeof text, "%s", uvcc_version());
    for (size_t i = 0; i < set.count && len < (int)sizeof text; i++)
        len += snprintf(text + len, sizeof text - (size_t)len, " %s", options[i].name);
    return uvcc_agree_hash(text, strlen(text)) >> 4;
}

uint32_t bench_alike(const bench_options *o, uint64_t *hash, const char **name, uint32_t most) {
    static char names[sizeof options / sizeof options[0]][32];
    uint32_t n = 1;
    name[0] = "version of uvcc";
    hash[0] = hash_of_version();
    for (size_t i = 0; i < set.count && n < most; i++) {
        if (is_own(&options[i]))
            continue;
        (void)snprintf(names[i], sizeof names[i], "--%s", options[i].name);
        name[n] = names[i];
        hash[n++] = hash_of(o, &options[i]);
    }
    return n;
}

/* As a shell would take it, for the JSON. */
static char *command_line(int argc, char *const *argv) {
    size_t len = sizeof "uvcc bench";
    for (int i = 0; i < argc; i++)
        len += strlen(argv[i]) + 1;
    char *line = malloc(len);
    if (line == NULL)
        return NULL;
    size_t at = (size_t)snprintf(line, len, "uvcc bench");
    for (int i = 0; i < argc; i++)
        at += (size_t)snprintf(line + at, len - at, " %s", argv[i]);
    return line;
}

/* ---- the run ---- */

/* Known before a model starts, not when the machine begins to swap. */
static int check_memory(const subject *s, const subject_cost *c) {
    const uint64_t needs = result_host_bytes(s, c), has = hardware_memory();
    const uint64_t one = result_party_bytes(s, c), limit = s->o->run.device_bytes;
    if (needs > has)
        return report_error(EXIT_BAD_INPUT,
                            "%s needs about %.1f GB of memory (%.1f GB of them keys), and %.1f GB "
                            "are free: give a smaller --seq-len, --batch-size or --layers%s",
                            s->name, 1e-9 * (double)needs, 1e-9 * (double)c->key_bytes,
                            1e-9 * (double)has,
                            s->o->keys_ahead == 0 ? ", or --keys-ahead 128" : "");
    if (limit != 0 && one > limit)
        return report_error(EXIT_BAD_INPUT,
                            "%s needs about %.1f GB of a device for each party, more than "
                            "UVCC_GPU_BYTES, %.1f GB: raise it, or give a smaller --seq-len, "
                            "--batch-size, --layers or --keys-gathered",
                            s->name, 1e-9 * (double)one, 1e-9 * (double)limit);
    return EXIT_DONE;
}

static int put(const result *r, report_json *json) {
    result_show(r, report_stream(r->s->o->run.json));
    return r->s->o->run.json != NULL ? report_json_put(json, result_json(r)) : EXIT_DONE;
}

static int run(const bench_options *o, result *r, report_json *json) {
    subject s;
    subject_cost cost;
    figures *f = calloc(1, sizeof *f);
    int status = f != NULL ? subject_open(&s, o) : report_error(EXIT_FAILED, "out of memory");
    if (f == NULL)
        return status;
    if (status == EXIT_DONE)
        status = subject_cost_of(&s, &cost);
    r->s = &s;
    r->cost = &cost;
    r->load = hardware_load();
    if (status == EXIT_DONE && o->dry_run) {
        status = put(r, json);
    } else if (status == EXIT_DONE && (status = check_memory(&s, &cost)) == EXIT_DONE) {
        status = bench_run(&s, f);
        r->f = f;
        r->interrupted = status == EXIT_INTERRUPTED;
        if (f->iters != 0) {
            const int written = put(r, json);
            status = status != EXIT_DONE ? status : written;
        }
        if (r->interrupted)
            (void)report_error(status, "interrupted; %u of %u passes were measured", f->iters,
                               o->n_iters);
    }
    subject_close(&s);
    free(f);
    return status;
}

/* What is read is not written over. */
static int check_json(const bench_options *o) {
    const output_use read[] = {{"--job", o->job_file}, {"--hardware", o->hardware}};
    return o->run.json == NULL
               ? EXIT_DONE
               : atomic_file_spares("json", o->run.json, read, sizeof read / sizeof read[0]);
}

int bench_main(int argc, char *const *argv) {
    char text[BENCH_MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    bench_options o;
    bench_job job = {0};
    result r = {0};
    report_command("bench");
    if (parse(&o, argc, argv, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o.run.help || o.list) {
        if (o.run.help)
            print_help();
        else
            subject_list(stdout);
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    if (o.job_file != NULL && bench_job_open(&job, o.job_file, &m) != 0) {
        bench_job_close(&job);
        return report_error(EXIT_BAD_INPUT, "%s", text);
    }
    o.job = o.job_file != NULL ? &job : NULL;
    char *line = command_line(argc, argv);
    r.command = line;
    r.hardware = hardware_json(o.hardware);
    const bool right = r.hardware != NULL && line != NULL && check_json(&o) == EXIT_DONE;
    report_json *json = right ? report_json_open(o.run.json) : NULL;
    const int status = json != NULL ? run(&o, &r, json) : EXIT_BAD_INPUT;
    report_json_close(json);
    if (status == EXIT_INTERRUPTED)
        interrupt_end();
    json_decref(r.hardware);
    free(line);
    bench_job_close(&job);
    return status;
}
