/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `uvcc pipeline`: options, the runs, and what is printed and written of them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvcc/loopback.h>

#include "../atomic_file.h"
#include "../flags.h"
#include "../report.h"
#include "../tracefile.h"
#include "pipeline.h"
#include "sessions.h"
#include "view.h"

#define MESSAGE_BYTES 512u
#define TICK_NS       1000u /* in traces: a microsecond */

enum { ORDER_SENDS, ORDER_1F1B, ORDER_ARRIVAL };
static const char *const choices[] = {"block", "random", NULL};
static const char *const orders[] = {"sends", "1f1b", "arrival", NULL};
_Static_assert((int)SESSIONS_RANK == ORDER_SENDS && (int)SESSIONS_1F1B == ORDER_1F1B &&
                   (int)SESSIONS_ARRIVAL == ORDER_ARRIVAL,
               "order of orders[]");
_Static_assert(PIPE_WAITS_BLOCK == 0 && PIPE_WAITS_RANDOM == 1, "order of choices[]");

typedef struct pipeline_options {
    flag_list microbatches, ahead;
    uint32_t stages, op_ticks, wait_factor, choice, order, width;
    pipe_sizes sizes;
    double wait_share;
    uint64_t seed;
    const char *json, *trace;
    bool sessions, spread, ascii, help;
} pipeline_options;

#define AT(member) offsetof(pipeline_options, member)
static const flag options[] = {
    {"stages", "N", FLAG_COUNT, AT(stages), 1, PIPE_STAGES_MAX, NULL, "stages (4)"},
    {"microbatches", "N[,N...]", FLAG_LIST, AT(microbatches), 1, 65536, NULL,
     "microbatches of a step, one run for each number (32,128)"},
    {"ahead", "N[,N...]", FLAG_LIST, AT(ahead), 0, 65536, NULL,
     "forwards ahead of what 1F1B needs, one run for each number (0,16)"},
    {"sessions", NULL, FLAG_SWITCH, AT(sessions), 0, 0, NULL,
     "real sessions: a transformer of one layer a stage, three parties, simulated time"},
    {"order", "sends|1f1b|arrival", FLAG_CHOICE, AT(order), 0, 0, orders,
     "among the ops that can run: what a neighbour waits for, then the oldest microbatch; or the "
     "1F1B order; with --sessions also as jobs come (sends)"},
    {"op-ticks", "N", FLAG_COUNT, AT(op_ticks), 1, 1000, NULL,
     "mean compute of an op; with --sessions of each of its turns (4)"},
    {"spread", NULL, FLAG_SWITCH, AT(spread), 0, 0, NULL,
     "compute of an op is random around the mean, else all are equal"},
    {"wait-factor", "N", FLAG_COUNT, AT(wait_factor), 0, 1000, NULL,
     "a wait for the link takes so many times the mean; with --sessions a message's way (10)"},
    {"waits", "block|random", FLAG_CHOICE, AT(choice), 0, 0, choices,
     "the ops that wait: those of the block that send messages, 31 of 51; or random ones (block)"},
    {"wait-share", "P", FLAG_RATE, AT(wait_share), 0, 0, NULL,
     "with random: the share of ops that wait (0.6)"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL, "of random waits and compute (1)"},
    {"dim", "N", FLAG_COUNT, AT(sizes.dim), 1, 65536, NULL,
     "width of the block, for memory (256; with --sessions 8)"},
    {"hidden", "N", FLAG_COUNT, AT(sizes.hidden), 0, 262144, NULL, "its inner width (4 dim)"},
    {"heads", "N", FLAG_COUNT, AT(sizes.heads), 1, 1024, NULL, "its heads (4; 2)"},
    {"context", "N", FLAG_COUNT, AT(sizes.context), 1, 65536, NULL,
     "tokens of a sequence (128; 4)"},
    {"batch", "N", FLAG_COUNT, AT(sizes.batch), 1, 65536, NULL, "sequences of a microbatch (1)"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"trace", "FILE", FLAG_TEXT, AT(trace), 0, 0, NULL,
     "write the last run's trace for Perfetto; a tick is a microsecond"},
    {"width", "N", FLAG_COUNT, AT(width), VIEW_WIDTH_MIN, VIEW_WIDTH_MAX, NULL,
     "of the picture (the terminal's, or 80)"},
    {"ascii", NULL, FLAG_SWITCH, AT(ascii), 0, 0, NULL, "the picture in letters"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"pipeline", options, sizeof options / sizeof options[0], AT(help)};

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc pipeline [OPTION...]\n"
        "\n"
        "Runs the microbatches of one training step of a transformer block through the stages of "
        "a\n"
        "pipeline, in simulated time. A stage has one compute resource; an op that waits for a "
        "link\n"
        "yields to another microbatch in flight. Shows how busy compute is, beside the bound of\n"
        "docs/pipeline.md, and the memory of the buffers that live at one time. At every tick it "
        "is\n"
        "checked that no stage is idle while something in flight can run.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 done, 1 the run failed, 2 wrong options.\n");
}

static int parse(pipeline_options *o, int argc, char *const *argv) {
    char message[MESSAGE_BYTES];
    const flag_message m = {message, sizeof message};
    *o = (pipeline_options){.microbatches = {2, {32, 128}},
                            .ahead = {2, {0, 16}},
                            .stages = 4,
                            .op_ticks = 4,
                            .wait_factor = 10,
                            .wait_share = 0.6,
                            .seed = 1,
                            .sizes = {.batch = 1}};
    if (flags_parse(&set, o, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    const bool fixed = !o->sessions && !o->spread && o->choice != PIPE_WAITS_RANDOM;
    const flag_idle idle[] = {
        {"wait-share", o->choice != PIPE_WAITS_RANDOM, "without --waits random"},
        {"seed", fixed, "where nothing is random: see --spread and --waits"},
        {"trace", o->sessions, "with --sessions"},
        {"spread", o->sessions, "with --sessions"},
        {"waits", o->sessions, "with --sessions"},
        {"width", o->sessions, "with --sessions, which draws no picture"},
        {"ascii", o->sessions, "with --sessions, which draws no picture"},
    };
    if (o->help)
        return EXIT_DONE;
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    const pipe_sizes usual = o->sessions ? (pipe_sizes){.dim = 8, .heads = 2, .context = 4}
                                         : (pipe_sizes){.dim = 256, .heads = 4, .context = 128};
    o->sizes.dim = o->sizes.dim != 0 ? o->sizes.dim : usual.dim;
    o->sizes.heads = o->sizes.heads != 0 ? o->sizes.heads : usual.heads;
    o->sizes.context = o->sizes.context != 0 ? o->sizes.context : usual.context;
    if (o->sizes.hidden == 0)
        o->sizes.hidden = 4 * o->sizes.dim;
    if (!o->sessions && o->order == ORDER_ARRIVAL)
        return report_error(EXIT_BAD_INPUT, "--order arrival goes with --sessions");
    for (uint32_t i = 0; o->sessions && i < o->microbatches.count; i++)
        if ((o->microbatches.v[i] & (o->microbatches.v[i] - 1)) != 0 || o->microbatches.v[i] > 64)
            return report_error(EXIT_BAD_INPUT, "--sessions takes powers of two up to 64 as "
                                                "--microbatches");
    if (o->sessions && o->stages > UVCC_LOOPBACK_TRIANGLES_MAX)
        return report_error(EXIT_BAD_INPUT, "--sessions takes at most %u --stages",
                            UVCC_LOOPBACK_TRIANGLES_MAX);
    return EXIT_DONE;
}

/* ---- the trace ---- */

enum { TRACK_COMPUTE = 1, TRACK_WAITS = 2 };

typedef struct run_trace {
    tracefile *file;
    const pipe_graph *graph;
    trace_lanes *waits; /* by stage */
    bool failed;
} run_trace;

static void trace_slice(void *user, const pipe_slice *s) {
    run_trace *t = user;
    const uint64_t start = s->start * TICK_NS, end = s->end * TICK_NS;
    char args[64];
    uint32_t track = TRACK_COMPUTE;
    if (s->waits) {
        const uint32_t before = t->waits[s->stage].count;
        const uint32_t lane = trace_lanes_take(&t->waits[s->stage], start, end);
        if (lane == UINT32_MAX) {
            t->failed = true;
            return;
        }
        track = TRACK_WAITS + lane;
        if (lane == before)
            tracefile_track(t->file, s->stage + 1, track, "waits");
    }
    (void)snprintf(args, sizeof args, "\"mb\": %" PRIu32 ", \"k\": %u", s->mb, t->graph->k[s->op]);
    tracefile_slice(t->file, s->stage + 1, track, t->graph->name[s->op], start, end, args);
}

static int open_trace(run_trace *t, const pipeline_options *o, const pipe_graph *g) {
    int status = EXIT_DONE;
    *t = (run_trace){.graph = g};
    if (o->trace == NULL)
        return EXIT_DONE;
    t->file = tracefile_open(o->trace, &status);
    if (t->file == NULL)
        return status;
    t->waits = calloc(o->stages, sizeof *t->waits);
    if (t->waits == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t s = 0; s < o->stages; s++) {
        char name[32];
        (void)snprintf(name, sizeof name, "stage %" PRIu32, s);
        tracefile_process(t->file, s + 1, name);
        tracefile_track(t->file, s + 1, TRACK_COMPUTE, "compute");
    }
    return EXIT_DONE;
}

static int finish_trace(run_trace *t, FILE *to) {
    if (t->file == NULL)
        return EXIT_DONE;
    return t->failed ? report_error(EXIT_FAILED, "out of memory") : tracefile_finish(t->file, to);
}

static void close_trace(run_trace *t, uint32_t stages) {
    for (uint32_t s = 0; t->waits != NULL && s < stages; s++)
        trace_lanes_free(&t->waits[s]);
    free(t->waits);
    tracefile_close(t->file);
}

/* ---- output ---- */

static json_t *counts(const uint64_t *v, uint32_t n) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        (void)json_array_append_new(list, json_integer((json_int_t)v[i]));
    return list;
}

static json_t *run_json(const pipeline_options *o, uint32_t microbatches, uint32_t ahead,
                        const pipe_result *r) {
    uint64_t flying[PIPE_STAGES_MAX];
    json_t *busy = json_array();
    for (uint32_t s = 0; s < o->stages; s++) {
        flying[s] = r->in_flight[s];
        (void)json_array_append_new(busy, json_real((double)r->busy[s] / (double)r->makespan));
    }
    return json_pack(
        "{s:i, s:i, s:I, s:f, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:I}",
        "microbatches", (int)microbatches, "ahead", (int)ahead, "makespan", (json_int_t)r->makespan,
        "busy_fraction", r->busy_fraction, "busy", busy, "bound", r->bound, "of_bound",
        r->busy_fraction / r->bound, "bound_no_tail", r->bound_no_tail, "of_bound_no_tail",
        r->busy_fraction / r->bound_no_tail, "ahead_limit", r->ahead_limit, "compute", r->compute,
        "chain", r->chain, "tail", r->tail, "in_flight", counts(flying, o->stages), "memory_bytes",
        counts(r->memory_bytes, o->stages), "microbatch_bytes", (json_int_t)r->microbatch_bytes);
}

static json_t *head_json(const pipeline_options *o, const pipe_graph *g) {
    const bool random = o->choice == PIPE_WAITS_RANDOM;
    const double share =
        random ? o->wait_share : (double)__builtin_popcountll(g->waits) / (double)g->ops;
    return json_pack("{s:i, s:i, s:i, s:i, s:s, s:f, s:b, s:s, s:I, s:{s:i, s:i, s:i, s:i, s:i}}",
                     "stages", (int)o->stages, "ops", (int)g->ops, "op_ticks", (int)o->op_ticks,
                     "wait_factor", (int)o->wait_factor, "waits", choices[o->choice], "wait_share",
                     share, "spread", (int)o->spread, "order", orders[o->order], "seed",
                     (json_int_t)o->seed, "sizes", "dim", (int)o->sizes.dim, "hidden",
                     (int)o->sizes.hidden, "heads", (int)o->sizes.heads, "context",
                     (int)o->sizes.context, "batch", (int)o->sizes.batch);
}

/* Most of all stages. */
static uint64_t most_bytes(const pipe_result *r, uint32_t stages) {
    uint64_t most = 0;
    for (uint32_t s = 0; s < stages; s++)
        most = r->memory_bytes[s] > most ? r->memory_bytes[s] : most;
    return most;
}

static void print_head(FILE *to, const pipeline_options *o, const pipe_graph *g) {
    (void)fprintf(to,
                  "%" PRIu32 " stages, %" PRIu32 " ops a microbatch, %" PRIu32
                  " ticks an op, waits of %" PRIu32 " ticks\n\n",
                  o->stages, g->ops, o->op_ticks, o->wait_factor * o->op_ticks);
    (void)fputs("    M  ahead   makespan    busy   bound  of bound  without tail  in flight  "
                "MB a stage\n",
                to);
}

static void print_run(FILE *to, const pipeline_options *o, uint32_t microbatches, uint32_t ahead,
                      const pipe_result *r) {
    (void)fprintf(to,
                  "%5" PRIu32 "  %5" PRIu32 "  %9" PRIu64
                  "  %5.1f%%  %5.1f%%    %5.1f%%        %5.1f%%  %9" PRIu32 "  %10.1f\n",
                  microbatches, ahead, r->makespan, 100 * r->busy_fraction, 100 * r->bound,
                  100 * r->busy_fraction / r->bound, 100 * r->busy_fraction / r->bound_no_tail,
                  r->in_flight[0], (double)most_bytes(r, o->stages) * 1e-6);
}

/* ---- runs ---- */

typedef struct runs {
    const pipeline_options *o;
    const pipe_graph *graph;
    run_trace *trace;
    pipe_result *result; /* one for each */
    uint32_t count;
    json_t *list;
} runs;

static uint32_t microbatches_of(const runs *x, uint32_t i) {
    return x->o->microbatches.v[i / x->o->ahead.count];
}
static uint32_t ahead_of(const runs *x, uint32_t i) {
    return x->o->ahead.v[i % x->o->ahead.count];
}

static int run_one(const runs *x, uint32_t i) {
    const pipeline_options *o = x->o;
    char message[MESSAGE_BYTES];
    const bool traced = x->trace->file != NULL && i + 1 == x->count;
    const pipe_run r = {.graph = x->graph,
                        .load = {.op_ticks = o->op_ticks,
                                 .wait_factor = o->wait_factor,
                                 .wait_share = o->wait_share,
                                 .choice = o->choice,
                                 .spread = o->spread,
                                 .seed = o->seed},
                        .stages = o->stages,
                        .microbatches = microbatches_of(x, i),
                        .ahead = ahead_of(x, i),
                        .rank = o->order == ORDER_1F1B ? pipe_rank_1f1b : NULL,
                        .slice = traced ? trace_slice : NULL,
                        .slice_user = x->trace};
    if (pipe_simulate(&r, &x->result[i], message, sizeof message) != 0)
        return report_error(EXIT_FAILED, "%s", message);
    (void)json_array_append_new(x->list, run_json(o, r.microbatches, r.ahead, &x->result[i]));
    return EXIT_DONE;
}

static int run_all(const runs *x, FILE *to, view_style style) {
    print_head(to, x->o, x->graph);
    for (uint32_t i = 0; i < x->count; i++) {
        const int status = run_one(x, i);
        if (status != EXIT_DONE)
            return status;
        print_run(to, x->o, microbatches_of(x, i), ahead_of(x, i), &x->result[i]);
        report_flush(to);
    }
    for (uint32_t i = 0; i < x->count; i++) {
        (void)fprintf(to, "\nM %" PRIu32 ", ahead %" PRIu32 "\n", microbatches_of(x, i),
                      ahead_of(x, i));
        view_print(to, style, &x->result[i], x->o->stages);
    }
    (void)fputc('\n', to);
    view_legend(to, style);
    return EXIT_DONE;
}

static int simulate(const pipeline_options *o, const pipe_graph *g, run_trace *trace,
                    report_json *json) {
    const bool quiet = o->json != NULL && strcmp(o->json, "-") == 0;
    FILE *to = quiet ? stderr : stdout;
    view_style style = view_style_of(to);
    style.width = o->width != 0 ? o->width : style.width;
    style.ascii = style.ascii || o->ascii;
    runs x = {.o = o, .graph = g, .trace = trace, .list = json_array()};
    x.count = o->microbatches.count * o->ahead.count;
    x.result = calloc(x.count, sizeof *x.result);
    int status = x.result == NULL || x.list == NULL ? report_error(EXIT_FAILED, "out of memory")
                                                    : run_all(&x, to, style);
    if (status == EXIT_DONE) {
        json_t *all = head_json(o, g);
        if (all != NULL && json_object_set(all, "runs", x.list) != 0) {
            json_decref(all);
            all = NULL;
        }
        status = report_json_put(json, all);
        const int traced = finish_trace(trace, to);
        status = status != EXIT_DONE ? status : traced;
    }
    for (uint32_t i = 0; x.result != NULL && i < x.count; i++)
        free(x.result[i].doing);
    free(x.result);
    json_decref(x.list);
    return status;
}

/* Files that cannot be written are known before anything is simulated. */
/* ---- sessions ---- */

typedef struct session_rows {
    const pipeline_options *o;
    FILE *to;
    json_t *list;
} session_rows;

/* One microbatch goes through all stages alone; each one more takes the busiest worker's compute.
 */
static double bound_of(const sessions_result *one, uint32_t microbatches) {
    return (double)one->makespan + (double)one->compute * (microbatches - 1.0);
}

static int measure_row(const session_rows *x, uint32_t microbatches, uint32_t ahead,
                       const sessions_result *one) {
    const pipeline_options *o = x->o;
    const sessions_run r = {.sizes = o->sizes,
                            .stages = o->stages,
                            .microbatches = microbatches,
                            .ahead = ahead,
                            .turn_ticks = o->op_ticks,
                            .link_ticks = o->wait_factor * o->op_ticks,
                            .order = o->order,
                            .seed = o->seed};
    sessions_result m;
    const int status = sessions_measure(&r, &m);
    if (status != EXIT_DONE)
        return status;
    const double bound = bound_of(one, microbatches), of = bound / (double)m.makespan;
    (void)fprintf(x->to, "%5" PRIu32 "  %5" PRIu32 "  %9" PRIu64 "  %5.1f%%  %9.0f    %5.1f%%\n",
                  microbatches, ahead, m.makespan, 100 * m.busy_fraction, bound, 100 * of);
    report_flush(x->to);
    (void)json_array_append_new(
        x->list,
        json_pack("{s:i, s:i, s:s, s:I, s:f, s:f, s:f, s:I, s:I}", "microbatches",
                  (int)microbatches, "ahead", (int)ahead, "order", orders[o->order], "makespan",
                  (json_int_t)m.makespan, "busy_fraction", m.busy_fraction, "bound", bound,
                  "of_bound", of, "jobs", (json_int_t)m.jobs, "bytes", (json_int_t)m.bytes));
    return EXIT_DONE;
}

static int measure_rows(const session_rows *x) {
    const pipeline_options *o = x->o;
    const sessions_run alone = {.sizes = o->sizes,
                                .stages = o->stages,
                                .microbatches = 1,
                                .turn_ticks = o->op_ticks,
                                .link_ticks = o->wait_factor * o->op_ticks,
                                .seed = o->seed};
    sessions_result one;
    int status = sessions_measure(&alone, &one);
    if (status != EXIT_DONE)
        return status;
    (void)fprintf(x->to,
                  "%" PRIu32 " stages, %" PRIu32 " ticks a turn, messages of %" PRIu32
                  " ticks; one microbatch: %" PRIu64 " ticks, %" PRIu64 " of compute\n\n"
                  "    M  ahead   makespan    busy      bound  of bound\n",
                  o->stages, o->op_ticks, o->wait_factor * o->op_ticks, one.makespan, one.compute);
    for (uint32_t i = 0; i < o->microbatches.count && status == EXIT_DONE; i++)
        for (uint32_t k = 0; k < o->ahead.count && status == EXIT_DONE; k++)
            status = measure_row(x, (uint32_t)o->microbatches.v[i], (uint32_t)o->ahead.v[k], &one);
    return status;
}

static int measure_sessions(const pipeline_options *o, report_json *json) {
    session_rows x = {.o = o, .to = report_stream(o->json), .list = json_array()};
    if (x.list == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    const int status = measure_rows(&x);
    if (status != EXIT_DONE) {
        json_decref(x.list);
        return status;
    }
    return report_json_put(
        json, json_pack("{s:i, s:i, s:i, s:{s:i, s:i, s:i, s:i, s:i}, s:o}", "stages",
                        (int)o->stages, "turn_ticks", (int)o->op_ticks, "link_ticks",
                        (int)(o->wait_factor * o->op_ticks), "sizes", "dim", (int)o->sizes.dim,
                        "hidden", (int)o->sizes.hidden, "heads", (int)o->sizes.heads, "context",
                        (int)o->sizes.context, "batch", (int)o->sizes.batch, "sessions", x.list));
}

int pipeline_main(int argc, char *const *argv) {
    pipeline_options o;
    report_command("pipeline");
    int status = parse(&o, argc, argv);
    if (status != EXIT_DONE)
        return status;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    const output_use uses[] = {{"trace", o.trace}, {"json", o.json}};
    if (atomic_file_apart(uses, sizeof uses / sizeof uses[0]) != EXIT_DONE)
        return EXIT_BAD_INPUT;
    if (o.sessions) {
        report_json *out = report_json_open(o.json);
        status = out == NULL ? EXIT_BAD_INPUT : measure_sessions(&o, out);
        report_json_close(out);
        return status;
    }
    pipe_graph *g = malloc(sizeof *g);
    if (g == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    pipe_block_graph(g, &o.sizes);
    run_trace trace;
    report_json *json = report_json_open(o.json);
    status = json == NULL ? EXIT_BAD_INPUT : open_trace(&trace, &o, g);
    if (json != NULL) {
        if (status == EXIT_DONE)
            status = simulate(&o, g, &trace, json);
        close_trace(&trace, o.stages);
    }
    report_json_close(json);
    free(g);
    return status;
}
