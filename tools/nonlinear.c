/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear.c - see nonlinear.h: options, the list of functions, and what is printed of them. */
#include "nonlinear.h"

#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uvcc/compute.h>

#include "compute.h"
#include "host_loop.h"
#include "interrupt.h"
#include "measure.h"
#include "measure_real.h"
#include "report.h"
#include "runflags.h"
#include "svg.h"

#define INPUTS_QUICK  (1u << 14)
#define PATH_BYTES    4096u
#define MESSAGE_BYTES 640u
#define COLOUR_REAL   "#000000"

enum { FAST = NONLINEAR_FAST, EXACT = NONLINEAR_EXACT, MODES = NONLINEAR_MODES };
static const char *const modes[] = {"fast", "exact"};
static const char *const colours[] = {"#d1600e", "#1560bd"};

/* In the order of reports, with what their plots show: of the input, for functions of rows of the
 * real value. */
static const struct subject {
    uvcc_nonlinear what;
    double from, to;
    bool log;
    const char *plain; /* the name of a norm without gamma and beta */
} subjects[] = {
    {UVCC_NL_SIGN, -8, 8, false, NULL},
    {UVCC_NL_RELU, -8, 8, false, NULL},
    {UVCC_NL_MAX, -512, 512, false, NULL},
    {UVCC_NL_ARGMAX, 0, MEASURE_COLS, false, NULL},
    {UVCC_NL_EXP, 0, 16, false, NULL},
    {UVCC_NL_RECIPROCAL, 0.0625, 4096, true, NULL},
    {UVCC_NL_RSQRT, 0.00390625, 4096, true, NULL},
    {UVCC_NL_LN, 1, 65535, true, NULL},
    {UVCC_NL_CLIP, -2, 2, false, NULL},
    {UVCC_NL_GELU, -8, 8, false, NULL},
    {UVCC_NL_GELU_TANH, -8, 8, false, NULL},
    {UVCC_NL_SILU, -16, 16, false, NULL},
    {UVCC_NL_SIGMOID, -16, 16, false, NULL},
    {UVCC_NL_TANH, -8, 8, false, NULL},
    {UVCC_NL_GELU_DERIVATIVE, -8, 8, false, NULL},
    {UVCC_NL_SILU_DERIVATIVE, -16, 16, false, NULL},
    {UVCC_NL_SOFTMAX, 0, 1, false, NULL},
    {UVCC_NL_RMSNORM, -8, 8, false, NULL},
    {UVCC_NL_LAYERNORM, -8, 8, false, NULL},
    {UVCC_NL_RMSNORM, -8, 8, false, "rmsnorm plain"},
    {UVCC_NL_LAYERNORM, -8, 8, false, "layernorm plain"},
    {UVCC_NL_CROSS_ENTROPY_GRADIENT, -1, 1, false, NULL},
};
enum { SUBJECTS = NONLINEAR_SUBJECTS };
_Static_assert(sizeof subjects / sizeof subjects[0] == NONLINEAR_SUBJECTS, "their number");

typedef struct nonlinear_options {
    nonlinear_choice choice;
    const char *json, *plot;
    uint64_t inputs, seed;
    run_options run; /* compute, device, device_bytes */
    bool table, progress, help, compute_given;
} nonlinear_options;

static const char *name_of(unsigned subject) {
    const struct subject *s = &subjects[subject];
    return s->plain != NULL ? s->plain : uvcc_nonlinear_at(s->what)->name;
}

const char *nonlinear_name(unsigned subject) {
    return name_of(subject);
}

const char *nonlinear_mode(unsigned mode) {
    return modes[mode];
}

measure_job nonlinear_job(unsigned subject, unsigned mode, uint64_t inputs, uint64_t seed) {
    return (measure_job){.what = subjects[subject].what,
                         .exact = mode == EXACT,
                         .plain = subjects[subject].plain != NULL,
                         .inputs = inputs,
                         .seed = seed};
}

/* ---- options ---- */

/* The names come from the list of subjects, so that help and measurements cannot differ. */
static void print_help(void) {
    (void)puts("Usage: uvcc nonlinear [NAME...] [OPTION...]\n"
               "\n"
               "Measures the nonlinear functions (all, or those named) among three parties in\n"
               "this one process that talk over sealed links: the distance from the real\n"
               "function over its range, rounds, bytes and speed. Exact functions must open what\n"
               "the plaintext run gives, bit for bit. Fast ones round at random, by the low bits\n"
               "of masks: with those that were dealt, they must open what the function's\n"
               "definition gives, bit for bit too. The norms, which are several ops, must keep\n"
               "to the error's bound.\n"
               "\n"
               "Errors of reciprocal and rsqrt are relative. Rounds and bytes are the difference\n"
               "to a step that only takes and opens the values, bytes of all parties per input\n"
               "element.\n"
               "\n"
               "Options (defaults in parentheses):\n"
               "  --exact, --fast        only this index mode (both)\n"
               "  --plain                of rmsnorm and layernorm those without gamma and beta\n"
               "  --inputs N             inputs per function, up to whole rows of 128 (1048576)\n"
               "  --quick                16384 inputs\n"
               "  --seed N               of random inputs, keys and masks (1)\n"
               "  --compute inline|deferred|threads|gpu\n"
               "                         when jobs run: at once, late and shuffled, on\n"
               "                         threads, or on a CUDA device (inline)\n"
               "  --device N             number of the CUDA device (UVCC_GPU_ID, or 0)\n"
               "  --json FILE|-          write the results as JSON; with -, alone on standard\n"
               "                         output\n"
               "  --plot DIR             write DIR/NAME.svg: the function above, the error\n"
               "                         below; DIR is made if it is not there\n"
               "  --table                print the table of docs/nonlinear.md instead\n"
               "  --progress             show progress even where standard error is no terminal\n"
               "  --help                 show this\n"
               "\n"
               "Names:");
    for (unsigned i = 0; i < SUBJECTS; i++) {
        if (subjects[i].plain == NULL)
            (void)printf("  %s\n", name_of(i));
    }
    flags_text(stdout, compute_help);
    (void)puts("\nExit status: 0 done, 1 a function is not what it should be or the run failed, 2\n"
               "wrong options, 130 interrupted.");
}

int nonlinear_want(nonlinear_choice *c, const char *name, const flag_message *m) {
    char names[512];
    size_t len = 0;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        if (subjects[i].plain != NULL)
            continue;
        if (strcmp(name, name_of(i)) == 0) {
            c->wanted[i] = true;
            return 0;
        }
        len += (size_t)snprintf(names + len, sizeof names - len, "%s%s", i > 0 ? ", " : "",
                                name_of(i));
    }
    return flag_fail(m, "there is no function '%s'; there are %s", name, names);
}

static bool parse_number(const char *text, uint64_t *out) {
    char *end;
    errno = 0;
    const unsigned long long v = strtoull(text, &end, 10);
    *out = v;
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static int parse_compute(const char *text, uint32_t *out) {
    for (uint32_t i = 0; run_computes[i] != NULL; i++) {
        if (strcmp(text, run_computes[i]) == 0) {
            *out = i;
            return EXIT_DONE;
        }
    }
    return report_error(EXIT_BAD_INPUT, "--compute %s: give one of inline|deferred|threads|gpu",
                        text);
}

static int parse_device(const char *text, uint32_t *out) {
    uint64_t v;
    if (!parse_number(text, &v) || v > 65535)
        return report_error(EXIT_BAD_INPUT, "--device %s: give a whole number from 0 to 65535",
                            text);
    *out = (uint32_t)v;
    return EXIT_DONE;
}

static int parse_valued(nonlinear_options *o, const char *name, const char *value) {
    if (strcmp(name, "json") == 0) {
        o->json = value;
    } else if (strcmp(name, "plot") == 0) {
        o->plot = value;
    } else if (strcmp(name, "compute") == 0) {
        o->compute_given = true;
        return parse_compute(value, &o->run.compute);
    } else if (strcmp(name, "device") == 0) {
        return parse_device(value, &o->run.device);
    } else if (strcmp(name, "seed") == 0) {
        if (!parse_number(value, &o->seed))
            return report_error(EXIT_BAD_INPUT, "--seed %s: give a whole number from 0 to 2^64 - 1",
                                value);
    } else if (!parse_number(value, &o->inputs) || o->inputs == 0 ||
               o->inputs > NONLINEAR_INPUTS_MAX) {
        return report_error(EXIT_BAD_INPUT, "--inputs %s: give a whole number from 1 to %u", value,
                            NONLINEAR_INPUTS_MAX);
    }
    return EXIT_DONE;
}

static bool *flag_of(nonlinear_options *o, const char *name, bool *quick) {
    return strcmp(name, "exact") == 0      ? &o->choice.mode[EXACT]
           : strcmp(name, "fast") == 0     ? &o->choice.mode[FAST]
           : strcmp(name, "quick") == 0    ? quick
           : strcmp(name, "plain") == 0    ? &o->choice.plain
           : strcmp(name, "table") == 0    ? &o->table
           : strcmp(name, "progress") == 0 ? &o->progress
           : strcmp(name, "help") == 0     ? &o->help
                                           : NULL;
}

/* Takes one option; *i is at its word. */
static int parse_option(nonlinear_options *o, int argc, char *const *argv, int *i, bool *quick) {
    static const char *const valued[] = {"json", "plot", "compute", "device", "seed", "inputs"};
    const char *word = strcmp(argv[*i], "-h") == 0 ? "--help" : argv[*i];
    const size_t len = strcspn(word, "=");
    const char *value = word[len] == '=' ? word + len + 1 : NULL;
    bool *on = value == NULL ? flag_of(o, word + 2, quick) : NULL;
    if (on != NULL) {
        *on = true;
        return EXIT_DONE;
    }
    for (unsigned k = 0; k < sizeof valued / sizeof valued[0]; k++) {
        if (strlen(valued[k]) != len - 2 || memcmp(valued[k], word + 2, len - 2) != 0)
            continue;
        if (value == NULL && *i + 1 < argc)
            value = argv[++*i];
        if (value == NULL || *value == '\0')
            return report_error(EXIT_BAD_INPUT, "--%s needs a value", valued[k]);
        return parse_valued(o, valued[k], value);
    }
    return report_error(EXIT_BAD_INPUT, "there is no option %s; see uvcc nonlinear --help", word);
}

/* Those of `what` instead of those with gamma. */
static void want_plain(nonlinear_choice *c, uvcc_nonlinear what) {
    bool wanted = false;
    for (unsigned i = 0; i < SUBJECTS; i++) {
        if (subjects[i].what != what)
            continue;
        if (subjects[i].plain == NULL) {
            wanted = c->wanted[i];
            c->wanted[i] = false;
        } else {
            c->wanted[i] = wanted;
        }
    }
}

int nonlinear_choose(nonlinear_choice *c, const flag_message *m) {
    bool all = true;
    for (unsigned i = 0; i < SUBJECTS; i++)
        all = all && !c->wanted[i];
    for (unsigned i = 0; i < SUBJECTS; i++) {
        const bool norm =
            subjects[i].what == UVCC_NL_RMSNORM || subjects[i].what == UVCC_NL_LAYERNORM;
        if (all)
            c->wanted[i] = norm || !c->plain;
        else if (c->plain && c->wanted[i] && !norm)
            return flag_fail(m, "--plain is for rmsnorm and layernorm, not for %s", name_of(i));
    }
    if (c->plain) {
        want_plain(c, UVCC_NL_RMSNORM);
        want_plain(c, UVCC_NL_LAYERNORM);
    }
    if (!c->mode[FAST] && !c->mode[EXACT])
        c->mode[FAST] = c->mode[EXACT] = true;
    return 0;
}

static int parse(nonlinear_options *o, int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    bool quick = false;
    *o = (nonlinear_options){.seed = 1, .run = RUN_DEFAULTS};
    for (int i = 0; i < argc && !o->help; i++) {
        if (argv[i][0] == '-') {
            const int status = parse_option(o, argc, argv, &i, &quick);
            if (status != EXIT_DONE)
                return status;
        } else if (nonlinear_want(&o->choice, argv[i], &m) != 0) {
            return report_error(EXIT_BAD_INPUT, "%s", text);
        }
    }
    if (quick && o->inputs != 0)
        return report_error(EXIT_BAD_INPUT, "--quick does nothing with --inputs; leave one out");
    if (o->inputs == 0)
        o->inputs = quick ? INPUTS_QUICK : NONLINEAR_INPUTS;
    if (o->table && o->json != NULL && strcmp(o->json, "-") == 0)
        return report_error(EXIT_BAD_INPUT, "--table and --json - both want standard output");
    if (!o->help && run_options_compute(&o->run, o->compute_given, 1, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o->run.compute != RUN_COMPUTE_GPU && o->run.device != CARD_BY_RANK)
        return report_error(EXIT_BAD_INPUT,
                            "--device does nothing without --compute gpu; leave it out");
    return nonlinear_choose(&o->choice, &m) == 0 ? EXIT_DONE
                                                 : report_error(EXIT_BAD_INPUT, "%s", text);
}

/* ---- output ---- */

static void print_head(const nonlinear_options *o) {
    if (o->table)
        (void)puts("| function | mode | max error | mean error | rounds | online B | key B |\n"
                   "|---|---|---|---|---|---|---|");
    else
        (void)fprintf(report_stream(o->json), "%-23s %-5s %9s %9s %9s %6s %9s %9s %10s  %s\n",
                      "function", "mode", "inputs", "max err", "mean err", "rounds", "online B",
                      "key B", "per s", "equal");
    report_flush(report_stream(o->json));
}

static const char *verdict(const measure_result *r) {
    return !r->secure_equal ? "NO" : r->check == MEASURE_BOUND ? "within bound" : "bit for bit";
}

static void print_result(const nonlinear_options *o, unsigned subject, unsigned mode,
                         const measure_result *r) {
    if (o->table)
        (void)printf("| `%s` | %s | %.2g | %.2g | %llu | %.2f | %.2f |\n", name_of(subject),
                     modes[mode], r->max_error, r->mean_error, (unsigned long long)r->rounds,
                     r->online_bytes, r->key_bytes);
    else
        (void)fprintf(report_stream(o->json),
                      "%-23s %-5s %9llu %9.2e %9.2e %6llu %9.2f %9.2f %10.0f  %s\n",
                      name_of(subject), modes[mode], (unsigned long long)r->inputs, r->max_error,
                      r->mean_error, (unsigned long long)r->rounds, r->online_bytes, r->key_bytes,
                      r->per_s, verdict(r));
    report_flush(report_stream(o->json));
}

json_t *nonlinear_json(unsigned subject, unsigned mode, const measure_result *r) {
    return json_pack("{s:s, s:s, s:I, s:f, s:f, s:f, s:b, s:s, s:I, s:f, s:f, s:f}", "function",
                     name_of(subject), "mode", modes[mode], "inputs", (json_int_t)r->inputs,
                     "max_error", r->max_error, "mean_error", r->mean_error, "of_bound",
                     r->of_bound, "secure_equal", (int)r->secure_equal, "compared_with",
                     measure_checks[r->check], "rounds", (json_int_t)r->rounds, "online_bytes",
                     r->online_bytes, "key_bytes", r->key_bytes, "per_s", r->per_s);
}

/* ---- progress ---- */

typedef struct shown {
    const char *name, *mode;
    report_pace pace;
    unsigned measured, of; /* functions in a mode, all of about the same work */
} shown;

static void show_progress(void *user, uint64_t done, uint64_t of) {
    shown *s = user;
    if (report_pace_due(&s->pace, done == of))
        report_line(false, "%s %s: %llu of %llu inputs  %s", s->name, s->mode,
                    (unsigned long long)done, (unsigned long long)of,
                    report_pace_left(&s->pace, s->measured + (double)done / (double)of, s->of));
}

/* ---- plots ---- */

enum { PLOT_POINTS = MEASURE_COLUMNS };
typedef struct plot_points {
    double x[PLOT_POINTS], y[PLOT_POINTS], error[PLOT_POINTS];
    size_t count;
} plot_points;

static void points_of(const measure_plot *p, plot_points *out) {
    out->count = 0;
    for (unsigned i = 0; i < MEASURE_COLUMNS; i++) {
        if (!p->column[i].used)
            continue;
        out->x[out->count] = p->column[i].x;
        out->y[out->count] = p->column[i].y;
        out->error[out->count++] = p->column[i].error;
    }
}

static void real_points(const struct subject *s, plot_points *out) {
    const bool element = uvcc_nonlinear_at(s->what)->form == UVCC_NL_ELEMENT;
    for (unsigned i = 0; i < PLOT_POINTS; i++) {
        const double t = (double)i / (PLOT_POINTS - 1);
        const double x =
            s->log ? s->from * pow(s->to / s->from, t) : s->from + (s->to - s->from) * t;
        out->x[i] = x;
        out->y[i] = element ? measure_real_at(s->what, x) : x;
    }
    out->count = PLOT_POINTS;
}

static void widen(svg_axis *a, const double *v, size_t count) {
    for (size_t i = 0; i < count; i++) {
        a->from = v[i] < a->from ? v[i] : a->from;
        a->to = v[i] > a->to ? v[i] : a->to;
    }
}

/* Some room above and below; something even where all is 0. */
static void finish_axis(svg_axis *a) {
    const double room = (a->to - a->from) * 0.05;
    if (a->log)
        return;
    if (a->from < 0)
        a->from -= room;
    a->to += room;
    if (a->to <= a->from)
        a->to = a->from + 1;
}

static int make_plot_place(const nonlinear_options *o) {
    struct stat st;
    if (mkdir(o->plot, 0777) == 0 || (stat(o->plot, &st) == 0 && S_ISDIR(st.st_mode)))
        return EXIT_DONE;
    return report_error(EXIT_FAILED, "--plot %s: cannot be made: %s", o->plot, strerror(errno));
}

/* Both modes over the real function, their errors below on the same x: where a mode is worse shows.
 */
static int write_plot(const nonlinear_options *o, unsigned subject, const measure_plot *plots) {
    static const char *const names[] = {"fast: opened", "exact: opened"};
    static const char *const errors[] = {"fast", "exact"};
    const struct subject *s = &subjects[subject];
    const bool element = uvcc_nonlinear_at(s->what)->form == UVCC_NL_ELEMENT;
    const char *x = element ? "x" : "real value";
    plot_points *points = calloc(MODES + 1, sizeof *points), *real = &points[MODES];
    if (points == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    svg_series value[MODES + 1], error[MODES];
    svg_panel panel[2] = {{.x = {x, s->from, s->to, s->log}, .series = value, .count = 1},
                          {.x = {x, s->from, s->to, s->log}, .series = error}};
    real_points(s, real);
    value[0] = (svg_series){"real", COLOUR_REAL, real->x, real->y, real->count, true};
    panel[0].y =
        (svg_axis){element ? name_of(subject) : "opened", real->y[0], real->y[0], s->log, false};
    panel[1].y =
        (svg_axis){measure_relative(s->what) ? "relative error" : "error", 0, 0, false, false};
    widen(&panel[0].y, real->y, real->count);
    for (unsigned m = 0; m < MODES; m++) {
        if (!o->choice.mode[m])
            continue;
        plot_points *p = &points[m];
        points_of(&plots[m], p);
        widen(&panel[0].y, p->y, p->count);
        widen(&panel[1].y, p->error, p->count);
        value[panel[0].count++] = (svg_series){names[m], colours[m], p->x, p->y, p->count, false};
        error[panel[1].count++] =
            (svg_series){errors[m], colours[m], p->x, p->error, p->count, false};
    }
    finish_axis(&panel[0].y);
    finish_axis(&panel[1].y);
    char path[PATH_BYTES], title[256];
    (void)snprintf(title, sizeof title, "%s: %s", name_of(subject),
                   uvcc_nonlinear_at(s->what)->what);
    const int len = snprintf(path, sizeof path, "%s/%s.svg", o->plot, name_of(subject));
    int status = make_plot_place(o);
    if (status == EXIT_DONE)
        status = len < (int)sizeof path
                     ? svg_write("plot", path, title, panel, 2)
                     : report_error(EXIT_FAILED, "--plot %s: the name is too long", o->plot);
    free(points);
    return status;
}

/* Where the plots' directory would be made. */
static int check_parent(const char *path) {
    char parent[PATH_BYTES];
    (void)snprintf(parent, sizeof parent, "%s", path);
    size_t len = strlen(parent);
    while (len > 1 && parent[len - 1] == '/')
        len--;
    while (len > 0 && parent[len - 1] != '/')
        len--;
    (void)snprintf(parent + len, sizeof parent - len, "%s", len == 0 ? "." : "");
    return access(parent, W_OK | X_OK) == 0
               ? EXIT_DONE
               : report_error(EXIT_BAD_INPUT, "--plot %s: cannot be made: %s", path,
                              strerror(errno));
}

/* Known before the measuring; the directory is made when there is something to put into it. */
static int check_plot(const nonlinear_options *o) {
    struct stat st;
    if (o->plot == NULL)
        return EXIT_DONE;
    if (strlen(o->plot) >= PATH_BYTES)
        return report_error(EXIT_BAD_INPUT, "--plot %s: the name is too long", o->plot);
    if (stat(o->plot, &st) != 0)
        return check_parent(o->plot);
    if (!S_ISDIR(st.st_mode))
        return report_error(EXIT_BAD_INPUT, "--plot %s: is no directory; name one, or a new one",
                            o->plot);
    if (access(o->plot, W_OK | X_OK) != 0)
        return report_error(EXIT_BAD_INPUT, "--plot %s: cannot be written: %s", o->plot,
                            strerror(errno));
    return EXIT_DONE;
}

/* ---- the run ---- */

typedef struct state {
    const nonlinear_options *o;
    json_t *list;
    measure_plot *plots; /* by mode */
    shown shown;
    unsigned wrong; /* results */
} state;

/* A wrong result does not end the run: the others are of use beside it. */
static int measure_mode(state *s, unsigned subject, unsigned mode) {
    const nonlinear_options *o = s->o;
    const struct subject *what = &subjects[subject];
    s->shown.name = name_of(subject);
    s->shown.mode = modes[mode];
    s->plots[mode] = (measure_plot){.from = what->from, .to = what->to, .log = what->log};
    measure_job job = nonlinear_job(subject, mode, o->inputs, o->seed);
    job.run = o->run;
    job.plot = o->plot != NULL ? &s->plots[mode] : NULL;
    job.progress = show_progress;
    job.user = &s->shown;
    measure_result r;
    const int status = measure(&job, &r);
    report_line_clear();
    s->shown.measured++;
    if (status != EXIT_DONE)
        return status;
    print_result(o, subject, mode, &r);
    if (!r.secure_equal || r.of_bound > 1) {
        s->wrong++;
        (void)report_error(EXIT_FAILED, "%s, %s: %s", name_of(subject), modes[mode],
                           r.secure_equal ? "an error is above its bound"
                                          : "the opened values are not what they should be");
    }
    return json_array_append_new(s->list, nonlinear_json(subject, mode, &r)) == 0
               ? EXIT_DONE
               : report_error(EXIT_FAILED, "out of memory");
}

/* A plot that cannot be written costs neither the others nor the JSON. */
static int measure_all(state *s, report_json *json) {
    int status = EXIT_DONE, plotted = EXIT_DONE;
    for (unsigned i = 0; i < SUBJECTS * MODES; i++)
        s->shown.of += s->o->choice.wanted[i / MODES] && s->o->choice.mode[i % MODES];
    report_pace_start(&s->shown.pace, s->o->progress);
    print_head(s->o);
    for (unsigned i = 0; i < SUBJECTS && status == EXIT_DONE; i++) {
        for (unsigned m = 0; m < MODES && s->o->choice.wanted[i] && status == EXIT_DONE; m++) {
            if (s->o->choice.mode[m])
                status = measure_mode(s, i, m);
        }
        if (status == EXIT_DONE && s->o->choice.wanted[i] && s->o->plot != NULL &&
            write_plot(s->o, i, s->plots) != EXIT_DONE)
            plotted = EXIT_FAILED;
    }
    if (status == EXIT_DONE)
        status = report_json_put(json, json_pack("{s:O}", "functions", s->list));
    status = status != EXIT_DONE ? status : plotted;
    return status == EXIT_DONE && s->wrong != 0 ? EXIT_FAILED : status;
}

int nonlinear_main(int argc, char *const *argv) {
    nonlinear_options o;
    report_command("nonlinear");
    int status = parse(&o, argc, argv);
    if (status != EXIT_DONE)
        return status;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    status = check_plot(&o);
    if (status != EXIT_DONE)
        return status;
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    interrupt_catch_saying();
    report_json *json = report_json_open(o.json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    state s = {.o = &o, .list = json_array(), .plots = calloc(MODES, sizeof *s.plots)};
    status = s.list != NULL && s.plots != NULL ? measure_all(&s, json)
                                               : report_error(EXIT_FAILED, "out of memory");
    json_decref(s.list);
    free(s.plots);
    report_json_close(json);
    return status;
}
