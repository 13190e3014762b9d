/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - `uvcc sim`: many seeds on several processes, the report, and what a failure needs to be
 * seen again: one line that repeats it and the faults that it takes.
 *
 * Seeds are independent, so each worker is a process of its own with every n-th seed; a crash or a
 * hang of the library ends one worker and is that seed's failure. */
#include "sim.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../atomic_file.h"
#include "../flags.h"
#include "../interrupt.h"
#include "../report.h"

#define MESSAGE_BYTES 512u
#define SEED_MAX      (UINT64_MAX / 2)
enum { WORKERS_MAX = 64, SHOWN_MAX = 10, SEED_SECONDS = 60, SWEEP_SECONDS = 1800 };

typedef struct options {
    uint64_t first, count, without;
    uint32_t seeds, workers;
    const char *json, *list, *words; /* words: of --without */
    bool verbose, sweep, stop, raw, progress, help;
} options;

/* ---- one seed ---- */

/* Each allocation of a run without other faults fails once. */
static void sweep(const sim_plan *plan, sim_outcome *sum) {
    sim_plan p = *plan;
    p.faults = SIM_BIT(SIM_ALLOC);
    p.link = (uvcc_fault_config){0};
    p.calm_at_ns = 100 * SIM_MS;
    *sum = (sim_outcome){.faults = p.faults};
    for (uint8_t party = 0; party < 3; party++) {
        uint64_t calls = 1;
        for (uint64_t i = 1; i <= calls && !sum->failed; i++) {
            sim_outcome o;
            p.alloc_party = party;
            p.alloc_at = i;
            sim_seed(&p, &o, false);
            calls = o.allocs[party];
            sum->messages += o.messages;
            sum->injected++;
            sum->aborts += o.aborts;
            sum->digest = sim_mix(sum->digest ^ o.digest);
            sum->failed = o.failed;
            if (o.failed)
                (void)snprintf(sum->why, sizeof sum->why, "call %" PRIu64 " of party %u: %.180s", i,
                               party, o.why);
        }
    }
}

static void one(const options *o, uint64_t seed, uint64_t without, bool verbose, sim_outcome *out) {
    sim_plan p;
    (void)alarm(o->sweep ? SWEEP_SECONDS : SEED_SECONDS);
    sim_plan_draw(&p, seed, without);
    if (o->sweep)
        sweep(&p, out);
    else
        sim_seed(&p, out, verbose);
    (void)alarm(0);
}

/* ---- workers ---- */

/* What a worker writes into the one pipe; less than PIPE_BUF, so whole. */
typedef struct note {
    uint64_t seed;
    uint32_t worker;
    bool begun;
    sim_outcome outcome; /* not begun: done */
} note;

typedef struct worker {
    pid_t pid;
    uint64_t next; /* index of its next seed */
    uint64_t at;   /* index of the seed it is at; UINT64_MAX: none */
    bool over;
} worker;

typedef struct totals {
    uint64_t seeds, failures, first_failure, messages, injected, restarts, aborts, digest;
    uint64_t shown;
    double seconds;
    double memory_ratio, frames_ratio, input_frames, needless;
} totals;

static uint64_t *listed; /* seeds of --list; NULL: first, first + 1, ... */
static uint64_t *listed_without;

static uint64_t seed_at(const options *o, uint64_t i) {
    return listed != NULL ? listed[i] : o->first + i;
}
static uint64_t without_at(const options *o, uint64_t i) {
    return o->without | (listed != NULL ? listed_without[i] : 0);
}

static void work(const options *o, uint32_t me, uint64_t from, int to) {
    for (uint64_t i = from; i < o->count; i += o->workers) {
        note n = {.seed = i, .worker = me, .begun = true};
        if (write(to, &n, sizeof n) != (ssize_t)sizeof n)
            _exit(EXIT_FAILED);
        one(o, seed_at(o, i), without_at(o, i), o->verbose, &n.outcome);
        n.begun = false;
        if (write(to, &n, sizeof n) != (ssize_t)sizeof n)
            _exit(EXIT_FAILED);
    }
    _exit(EXIT_DONE);
}

static bool start(const options *o, worker *w, uint32_t me, int fd[2]) {
    (void)fflush(NULL);
    w->at = UINT64_MAX;
    w->pid = fork();
    if (w->pid == 0) {
        interrupt_leave();
        (void)close(fd[0]);
        work(o, me, w->next, fd[1]);
    }
    return w->pid > 0;
}

/* ---- failures ---- */

/* True if the seed fails without these classes too. In a child: it may crash. */
static bool fails(const options *o, uint64_t seed, uint64_t without) {
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        sim_outcome out;
        interrupt_leave();
        (void)signal(SIGABRT, SIG_DFL);
        (void)fclose(stderr);
        one(o, seed, without, false, &out);
        _exit(out.failed ? EXIT_FAILED : EXIT_DONE);
    }
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && status != 0;
}

static void print_words(FILE *to, uint64_t classes) {
    const char *comma = "";
    for (unsigned f = 0; f < SIM_FAULTS; f++)
        if ((classes & SIM_BIT(f)) != 0) {
            (void)fprintf(to, "%s%s", comma, sim_fault_words[f]);
            comma = ",";
        }
}

static void show_failure(const options *o, uint64_t i, const char *why) {
    uint64_t seed = seed_at(o, i), without = without_at(o, i);
    sim_plan p;
    sim_plan_draw(&p, seed, without);
    report_line_clear();
    (void)fprintf(stderr, "seed %" PRIu64 ": %s\n", seed, why);
    if (!o->sweep && !o->raw) {
        for (unsigned f = 0; f < SIM_FAULTS; f++)
            if ((p.faults & SIM_BIT(f)) != 0 && fails(o, seed, without | SIM_BIT(f)))
                without |= SIM_BIT(f);
        (void)fputs("  faults that it takes: ", stderr);
        print_words(stderr, p.faults & ~without);
        (void)fputs((p.faults & ~without) == 0 ? "none\n" : "\n", stderr);
    }
    (void)fprintf(stderr, "  uvcc sim --first-seed %" PRIu64 " --seeds 1%s", seed,
                  o->sweep ? " --sweep-alloc" : "");
    if (!o->sweep && ((without & p.faults) != 0 || without_at(o, i) != 0)) {
        (void)fputs(" --without ", stderr);
        print_words(stderr, without);
    }
    (void)fputs(" --verbose\n", stderr);
}

static void failed(const options *o, totals *t, uint64_t i, const char *why) {
    uint64_t seed = seed_at(o, i);
    if (t->failures++ == 0 || seed < t->first_failure)
        t->first_failure = seed;
    if (t->shown++ < SHOWN_MAX)
        show_failure(o, i, why);
}

/* ---- all seeds ---- */

static double max(double a, double b) {
    return a > b ? a : b;
}

static void count(const options *o, totals *t, const note *n) {
    const sim_outcome *x = &n->outcome;
    t->seeds++;
    t->messages += x->messages;
    t->injected += x->injected;
    t->restarts += x->restarts;
    t->aborts += x->aborts;
    t->digest += sim_mix(sim_mix(seed_at(o, n->seed)) ^ x->digest);
    t->memory_ratio = max(t->memory_ratio, x->memory_ratio);
    t->frames_ratio = max(t->frames_ratio, x->frames_ratio);
    t->input_frames = max(t->input_frames, x->input_frames);
    t->needless = max(t->needless, x->needless);
    if (x->failed)
        failed(o, t, n->seed, x->why);
}

static uint32_t reap(const options *o, totals *t, worker *w, int fd[2], bool stop) {
    uint32_t left = 0;
    for (uint32_t k = 0; k < o->workers; k++) {
        int status;
        if (w[k].over)
            continue;
        left++;
        if (waitpid(w[k].pid, &status, WNOHANG) != w[k].pid)
            continue;
        left--;
        w[k].over = true;
        if (status == 0 || stop || w[k].at == UINT64_MAX)
            continue;
        char why[64];
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            (void)snprintf(why, sizeof why, "it hangs");
        else
            (void)snprintf(why, sizeof why, "it crashes (status 0x%x)", (unsigned)status);
        t->seeds++;
        failed(o, t, w[k].at, why);
        w[k].next = w[k].at + o->workers;
        if (w[k].next < o->count && !o->stop && start(o, &w[k], k, fd)) {
            w[k].over = false;
            left++;
        }
    }
    return left;
}

/* Processes, not threads: a seed that crashes takes one worker with it, and the report goes on. */
static bool run_all(const options *o, totals *t) {
    int fd[2];
    worker w[WORKERS_MAX] = {0};
    if (pipe(fd) != 0)
        return false;
    uint64_t begin = uvcc_host_now_ns();
    for (uint32_t k = 0; k < o->workers; k++) {
        w[k].next = k;
        w[k].over = k >= o->count;
        if (!w[k].over && !start(o, &w[k], k, fd))
            return false;
    }
    bool stop = false;
    report_pace pace;
    report_pace_start(&pace, o->progress);
    for (;;) {
        note n;
        struct pollfd ready = {.fd = fd[0], .events = POLLIN};
        bool any = false;
        if (poll(&ready, 1, 10) == 1 && read(fd[0], &n, sizeof n) == (ssize_t)sizeof n) {
            any = true;
            w[n.worker].at = n.begun ? n.seed : UINT64_MAX;
            if (!n.begun && !stop)
                count(o, t, &n);
            if (report_pace_due(&pace, any && t->seeds == o->count && !n.begun))
                report_line(false, "%" PRIu64 "/%" PRIu64 " seeds, %" PRIu64 " failed  %s",
                            t->seeds, o->count, t->failures,
                            report_pace_left(&pace, (double)t->seeds, (double)o->count));
        }
        if (t->failures != 0 && o->stop && !stop) {
            stop = true;
            for (uint32_t k = 0; k < o->workers; k++)
                if (!w[k].over)
                    (void)kill(w[k].pid, SIGKILL);
        }
        if (!any && reap(o, t, w, fd, stop) == 0)
            break;
    }
    t->seconds = (double)(uvcc_host_now_ns() - begin) * 1e-9;
    report_line_clear();
    (void)close(fd[0]);
    (void)close(fd[1]);
    return true;
}

/* ---- report ---- */

static void write_json(FILE *f, const totals *t) {
    (void)fprintf(f, "{\"seeds\": %" PRIu64 ", \"failures\": %" PRIu64 ", \"first_failure\": ",
                  t->seeds, t->failures);
    if (t->failures != 0)
        (void)fprintf(f, "%" PRIu64, t->first_failure);
    else
        (void)fputs("null", f);
    (void)fprintf(f,
                  ", \"seeds_per_s\": %.2f, \"messages\": %" PRIu64
                  ", \"faults_injected\": %" PRIu64 ", \"restarts\": %" PRIu64
                  ", \"aborts\": %" PRIu64 ", \"digest\": \"%016" PRIx64 "\"}\n",
                  t->seconds > 0 ? (double)t->seeds / t->seconds : 0, t->messages, t->injected,
                  t->restarts, t->aborts, t->digest);
}

static void print_summary(const options *o, const totals *t) {
    FILE *to = report_stream(o->json);
    (void)fprintf(to,
                  "%" PRIu64 " seeds, %" PRIu64 " failed; %" PRIu64 " messages, %" PRIu64
                  " faults, %" PRIu64 " restarts, %" PRIu64 " aborts; digest %016" PRIx64
                  "; %.1f seeds/s\n",
                  t->seeds, t->failures, t->messages, t->injected, t->restarts, t->aborts,
                  t->digest, t->seconds > 0 ? (double)t->seeds / t->seconds : 0);
    if (o->verbose)
        (void)fprintf(to, "memory %.2f of usual, frames %.2f, burst %.2f, needless %.3f\n",
                      t->memory_ratio, t->frames_ratio, t->input_frames, t->needless);
}

/* ---- options ---- */

#define AT(member) offsetof(options, member)
static const flag flags[] = {
    {"first-seed", "S", FLAG_SEED, AT(first), 0, 0, NULL, "the first seed (1)"},
    {"seeds", "N", FLAG_COUNT, AT(seeds), 1, UINT32_MAX, NULL, "how many (100)"},
    {"threads", "N", FLAG_COUNT, AT(workers), 1, WORKERS_MAX, NULL, "worker processes (2)"},
    {"without", "LIST", FLAG_TEXT, AT(words), 0, 0, NULL,
     "leave classes of faults out, separated by commas"},
    {"sweep-alloc", NULL, FLAG_SWITCH, AT(sweep), 0, 0, NULL,
     "no faults but one: every allocation fails once"},
    {"list", "FILE", FLAG_TEXT, AT(list), 0, 0, NULL,
     "run the seeds of a list: lines of a seed and, perhaps, a --without list"},
    {"stop", NULL, FLAG_SWITCH, AT(stop), 0, 0, NULL, "end at the first failure"},
    {"no-minimise", NULL, FLAG_SWITCH, AT(raw), 0, 0, NULL,
     "do not look for the faults that a failure takes"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"verbose", NULL, FLAG_SWITCH, AT(verbose), 0, 0, NULL, "show events of every session"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"sim", flags, sizeof flags / sizeof flags[0], AT(help)};

/* The classes of faults, in lines of at most 80 columns. */
static void print_wrapped(FILE *to) {
    size_t column = 0;
    for (unsigned f = 0; f < SIM_FAULTS; f++) {
        const size_t n = strlen(sim_fault_words[f]) + 1;
        if (column == 0 || column + n > 78) {
            (void)fprintf(to, "%s ", column == 0 ? "" : ",\n");
            column = 1;
        } else {
            (void)fputc(',', to);
        }
        (void)fprintf(to, " %s", sim_fault_words[f]);
        column += n + 1;
    }
    (void)fputc('\n', to);
}

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc sim [OPTION...]\n"
        "\n"
        "Runs triangles under a virtual clock with faults of every kind, one run per seed, and "
        "checks what may never happen and what must happen in the end.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 no seed failed, 1 one did or the system failed, 2 wrong "
                       "options.\n"
                       "\n"
                       "Classes of faults:\n");
    print_wrapped(stdout);
}

static bool read_number(const char *s, uint64_t least, uint64_t most, uint64_t *out) {
    char *end;
    errno = 0;
    unsigned long long v = strtoull(s, &end, 10);
    if (*s < '0' || *s > '9' || *end != '\0' || errno != 0 || v < least || v > most)
        return false;
    *out = v;
    return true;
}

static bool parse_words(const char *s, uint64_t *out) {
    while (*s != '\0') {
        size_t n = strcspn(s, ",");
        unsigned f = 0;
        while (f < SIM_FAULTS &&
               (strlen(sim_fault_words[f]) != n || strncmp(sim_fault_words[f], s, n) != 0))
            f++;
        if (f == SIM_FAULTS)
            return false;
        *out |= SIM_BIT(f);
        s += n + (s[n] == ',');
    }
    return true;
}

static int parse(options *o, int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    if (flags_parse(&set, o, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    const flag_idle idle[] = {
        {"first-seed", o->list != NULL, "with --list"},
        {"seeds", o->list != NULL, "with --list"},
        {"without", o->sweep, "with --sweep-alloc"},
        {"no-minimise", o->sweep, "with --sweep-alloc"},
    };
    if (o->help)
        return EXIT_DONE;
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o->words != NULL && !parse_words(o->words, &o->without))
        return report_error(EXIT_BAD_INPUT,
                            "--without %s: give classes of faults as uvcc sim --help lists them",
                            o->words);
    if (o->first > SEED_MAX)
        return report_error(EXIT_BAD_INPUT, "--first-seed %" PRIu64 ": give at most %" PRIu64,
                            o->first, SEED_MAX);
    o->count = o->seeds;
    return EXIT_DONE;
}

static int read_list(options *o) {
    FILE *f = fopen(o->list, "r");
    if (f == NULL)
        return report_error(EXIT_BAD_INPUT, "--list %s: cannot be opened: %s; check the path",
                            o->list, strerror(errno));
    char line[1024];
    o->count = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        char *seed = strtok(line, " \t\n"), *words = strtok(NULL, " \t\n");
        uint64_t n, without = 0;
        if (seed == NULL || *seed == '#')
            continue;
        if (!read_number(seed, 0, SEED_MAX, &n) ||
            (words != NULL && *words != '#' && !parse_words(words, &without))) {
            (void)fclose(f);
            return report_error(EXIT_BAD_INPUT,
                                "--list %s: a line is not a seed and a list of faults; mend it",
                                o->list);
        }
        listed = realloc(listed, (o->count + 1) * sizeof *listed);
        listed_without = realloc(listed_without, (o->count + 1) * sizeof *listed_without);
        if (listed == NULL || listed_without == NULL)
            abort();
        listed[o->count] = n;
        listed_without[o->count++] = without;
    }
    (void)fclose(f);
    if (o->count == 0) /* which would be a success of nothing */
        return report_error(EXIT_BAD_INPUT, "--list %s: has no seed", o->list);
    return EXIT_DONE;
}

/* The JSON's place is opened before the seeds run, which may take hours. */
int sim_main(int argc, char *const *argv) {
    options o = {.first = 1, .seeds = 100, .workers = 2};
    report_command("sim");
    int status = parse(&o, argc, argv);
    if (status == EXIT_DONE && !o.help && o.list != NULL)
        status = read_list(&o);
    if (status != EXIT_DONE)
        return status;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    atomic_file *json = o.json != NULL ? atomic_file_open("json", o.json, &status) : NULL;
    if (status != EXIT_DONE)
        return status;
    totals t = {0};
    if (sodium_init() < 0 || !run_all(&o, &t)) {
        atomic_file_close(json);
        return report_error(EXIT_FAILED, "no worker can begin: %s", strerror(errno));
    }
    free(listed);
    free(listed_without);
    print_summary(&o, &t);
    if (json != NULL) {
        write_json(atomic_file_stream(json), &t);
        status = atomic_file_finish(json);
        atomic_file_close(json);
    }
    return t.failures == 0 ? status : EXIT_FAILED;
}
