/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c - see launch.h. It starts a process for each party (or mpirun, which starts one for each
 * worker), looks at their pages for its one line of progress, starts again what was killed, and
 * ends all of them in order. A process that goes away takes nothing with it: its party goes on from
 * its store. */
#define _GNU_SOURCE /* prctl's PR_SET_PDEATHSIG */
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uvcc/host.h>

#include "../dir_lock.h"
#include "../files.h"
#include "../flags.h"
#include "../interrupt.h"
#include "../report.h"
#include "party.h"
#include "show.h"

#define NS_PER_MS       1000000ull
#define NS_PER_S        1000000000ull
#define TICK_NS         (50 * NS_PER_MS)
#define LOOK_NS         (500 * NS_PER_MS) /* between looks at a page */
#define BACK_OFF_NS     (200 * NS_PER_MS) /* the first wait; it doubles */
#define BACK_OFF_MAX_NS (10 * NS_PER_S)
#define STEADY_NS       (60 * NS_PER_S) /* who ran so long begins with the first wait again */
#define END_NS          (20 * NS_PER_S) /* for ending in order, before SIGKILL */
enum {
    PAGE_WAIT_MS = 200,
    MESSAGE_BYTES = 512,
    LEFT_S = 30, /* for what an earlier launch left behind, which was told to end */
};

typedef struct launch_options {
    const char *dir, *json; /* NULL: not given */
    bool processes, progress, help;
    uint32_t restarts, kill_ms;
    uint64_t seed;
} launch_options;

typedef struct process {
    launch_party at;
    pid_t pid;                /* 0: it does not run */
    bool done;                /* it has its result, and needs its peers no more */
    bool settled;             /* it knows that they have theirs */
    bool ours;                /* this command killed it, as it was asked to */
    uint32_t restarts, tries; /* tries: since the job went on */
    uint32_t job_step;        /* of the job, when it was started again */
    uint64_t started_ns, start_at_ns, wait_ns;
    long output_from; /* where in its output.log this start's lines begin */
    uint32_t step, steps;
    char phase[32], text[64], state[16];
    char trouble[MESSAGE_BYTES]; /* that it told of last */
} process;

typedef struct launch {
    launch_options o;
    char self[LAUNCH_PATH_BYTES], dir[LAUNCH_PATH_BYTES];
    process party[UVCC_PARTIES];
    uint64_t look_ns, kill_ns, state, end_by_ns;
    bool ending;
    int status;
    int lock; /* of dir; negative: none */
    report_pace pace;
} launch;

/* ---- processes ---- */

static void path_in(const launch_party *at, const char *name, char out[LAUNCH_PATH_BYTES + 32]) {
    (void)snprintf(out, LAUNCH_PATH_BYTES + 32, "%s/%s", at->dir, name);
}

/* In the child: what it says goes to a file of its own, and it ends in order if we are gone. */
static _Noreturn void become(launch *l, process *p, pid_t parent) {
    char out[LAUNCH_PATH_BYTES + 32], result[LAUNCH_PATH_BYTES + 32], workers[16];
    path_in(&p->at, "output.log", out);
    path_in(&p->at, "result.json", result);
    (void)snprintf(workers, sizeof workers, "%u", p->at.workers);
    const int fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int null = open("/dev/null", O_RDONLY);
    if (fd < 0 || null < 0 || dup2(null, 0) < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
        _exit(127);
    (void)close(fd);
    (void)close(null);
    (void)setpgid(0, 0); /* Ctrl-C is for us, who pass it on */
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    (void)fcntl(l->lock, F_SETFD, 0); /* the directory is taken until the last of us is gone */
    interrupt_leave();
    if (l->o.processes && geteuid() == 0) {
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        (void)setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    char *const words[] = {"mpirun",   "--oversubscribe", "-n",     workers, l->self, "party",
                           "--config", p->at.config,      "--json", result,  NULL};
    if (l->o.processes)
        (void)execvp(words[0], words);
    else
        (void)execv(l->self, words + 4);
    (void)fprintf(stderr, "%s cannot be started: %s\n", l->o.processes ? words[0] : l->self,
                  strerror(errno));
    _exit(127);
}

static long output_size(const process *p) {
    char path[LAUNCH_PATH_BYTES + 32];
    struct stat st;
    path_in(&p->at, "output.log", path);
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

static int start(launch *l, process *p, uint64_t now) {
    const pid_t parent = getpid();
    p->output_from = output_size(p);
    const pid_t pid = fork();
    if (pid == 0)
        become(l, p, parent);
    if (pid < 0)
        return report_error(EXIT_FAILED, "a process cannot be started: %s", strerror(errno));
    (void)setpgid(pid, pid);
    p->pid = pid;
    p->started_ns = now;
    p->start_at_ns = 0;
    return EXIT_DONE;
}

/* The first line with which a process of this start says why it ended: of several workers that of
 * the one that failed first, which others follow, and mpirun with its own account of it. */
static bool show_reason(FILE *f) {
    static const char says[] = "uvcc party: ";
    char *line = NULL;
    size_t room = 0;
    bool found = false;
    while (!found && getline(&line, &room, f) > 0)
        found = strncmp(line, says, sizeof says - 1) == 0;
    if (found)
        report_line(true, "  %.*s", (int)strcspn(line, "\n"), line);
    free(line);
    return found;
}

/* Else the last lines that it said. */
static void show_last(FILE *f, long from) {
    char text[2048];
    (void)fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    from = size - from > (long)sizeof text - 1 ? size - (long)sizeof text + 1 : from;
    (void)fseek(f, from, SEEK_SET);
    const size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    unsigned lines = 0;
    char *at = text + n;
    while (at > text && lines < 5) {
        at--;
        lines += at > text && at[-1] == '\n';
    }
    for (char *line = strtok(at, "\n"); line != NULL; line = strtok(NULL, "\n"))
        report_line(true, "  %s", line);
}

static void show_output(const process *p) {
    char path[LAUNCH_PATH_BYTES + 32];
    path_in(&p->at, "output.log", path);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return;
    if (fseek(f, p->output_from, SEEK_SET) != 0 || !show_reason(f))
        show_last(f, p->output_from);
    (void)fclose(f);
}

/* ---- the end ---- */

static void signal_all(launch *l, int number) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (l->party[p].pid > 0)
            (void)kill(number == SIGKILL ? -l->party[p].pid : l->party[p].pid, number);
}

/* All others end too; what is done is kept. */
static void end_all(launch *l, int status, uint64_t now) {
    if (l->ending)
        return;
    l->ending = true;
    l->status = status;
    l->end_by_ns = now + END_NS;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        l->party[p].start_at_ns = 0;
    signal_all(l, SIGTERM); /* SIGINT may be ignored here, and so there */
}

static bool any_runs(const launch *l) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (l->party[p].pid > 0 || l->party[p].start_at_ns != 0)
            return true;
    return false;
}

/* What a shell or mpirun says of a process that a signal ended counts as that. */
static bool was_killed(int how) {
    return WIFSIGNALED(how) ||
           (WIFEXITED(how) && WEXITSTATUS(how) > 128 && WEXITSTATUS(how) != EXIT_INTERRUPTED);
}

/* Steps of the job that are known to be done. */
static uint32_t job_step(const launch *l) {
    uint32_t step = 0;
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        step = l->party[q].step > step ? l->party[q].step : step;
    return step;
}

static void again(launch *l, unsigned q, int how, uint64_t now) {
    process *p = &l->party[q];
    const bool steady = now - p->started_ns >= STEADY_NS || job_step(l) > p->job_step;
    p->tries = steady || p->ours ? 0 : p->tries;
    if (p->tries == l->o.restarts) {
        end_all(l,
                report_error(EXIT_FAILED,
                             "party %u ended %u times and the job did not go on; it is not "
                             "started again",
                             q, p->tries + 1),
                now);
        show_output(p);
        return;
    }
    p->restarts++;
    p->tries++;
    p->job_step = job_step(l);
    p->wait_ns = p->wait_ns == 0 || steady || p->ours ? BACK_OFF_NS : 2 * p->wait_ns;
    p->ours = false;
    p->wait_ns = p->wait_ns > BACK_OFF_MAX_NS ? BACK_OFF_MAX_NS : p->wait_ns;
    p->start_at_ns = now + p->wait_ns;
    if (WIFSIGNALED(how))
        report_line(true, "party %u was killed (%s); it starts again in %.1f s", q,
                    strsignal(WTERMSIG(how)), (double)p->wait_ns * 1e-9);
    else
        report_line(true, "party %u ended with %d; it starts again in %.1f s", q, WEXITSTATUS(how),
                    (double)p->wait_ns * 1e-9);
}

/* What a party that is done said last. */
static bool is_settled(const process *p) {
    char path[LAUNCH_PATH_BYTES + 32];
    path_in(&p->at, "result.json", path);
    json_t *result = json_load_file(path, 0, NULL);
    const bool settled = json_is_true(json_object_get(result, "settled"));
    json_decref(result);
    return settled;
}

static bool all_done(const launch *l) {
    return l->party[0].done && l->party[1].done && l->party[2].done;
}

/* A party that is done waits for the others so long, and they may come later: they would wait for
 * it, and in vain. */
static void call_back(launch *l, uint64_t now) {
    if (l->ending || all_done(l))
        return;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        process *p = &l->party[q];
        if (!p->done || p->settled || p->pid > 0 || p->start_at_ns != 0)
            continue;
        report_line(true,
                    "party %u is done, and another may need the last steps of it; it starts "
                    "again",
                    q);
        p->start_at_ns = now + BACK_OFF_NS;
    }
}

static void ended(launch *l, unsigned q, int how, uint64_t now) {
    process *p = &l->party[q];
    const int code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
    p->pid = 0;
    if (code == EXIT_DONE) {
        p->done = true;
        p->settled = is_settled(p);
    } else if (l->ending || all_done(l)) {
        return;
    } else if (code == EXIT_AGAIN || was_killed(how)) {
        if (code == EXIT_AGAIN)
            p->wait_ns = 0; /* it was asked for */
        again(l, q, how, now);
    } else {
        end_all(l,
                code == EXIT_INTERRUPTED ? EXIT_INTERRUPTED
                : code == EXIT_BAD_INPUT ? EXIT_BAD_INPUT
                                         : EXIT_FAILED,
                now);
        (void)report_error(l->status, "party %u ended with %d:", q, code);
        show_output(p);
    }
}

static void reap(launch *l, uint64_t now) {
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        int how;
        const pid_t pid = l->party[q].pid;
        if (pid > 0 && waitpid(pid, &how, WNOHANG) == pid)
            ended(l, q, how, now);
    }
    call_back(l, now);
}

/* ---- progress ---- */

static void copy(char *to, size_t cap, const json_t *page, const char *name) {
    const char *text = json_string_value(json_object_get(page, name));
    (void)snprintf(to, cap, "%s", text != NULL ? text : "");
}

/* What it says in its own output alone would be a job that stands still, to who looks here. */
static void show_trouble(unsigned q, process *p, const json_t *page) {
    char before[sizeof p->trouble];
    memcpy(before, p->trouble, sizeof before);
    copy(p->trouble, sizeof p->trouble, page, "trouble");
    if (p->trouble[0] != '\0' && strcmp(p->trouble, before) != 0)
        report_line(true, "party %u: %s", q, p->trouble);
}

/* One page a time: a process that does not answer holds nothing up for long. */
static void look(launch *l, uint64_t now) {
    char why[MESSAGE_BYTES];
    if (now < l->look_ns)
        return;
    l->look_ns = now + LOOK_NS;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        process *p = &l->party[q];
        json_t *page = p->pid > 0 && p->at.status[0] != '\0'
                           ? show_fetch(p->at.status, PAGE_WAIT_MS, why, sizeof why)
                           : NULL;
        if (page == NULL)
            continue;
        p->step = (uint32_t)json_integer_value(json_object_get(page, "step"));
        p->steps = (uint32_t)json_integer_value(json_object_get(page, "steps"));
        copy(p->phase, sizeof p->phase, page, "phase");
        copy(p->text, sizeof p->text, page, "text");
        copy(p->state, sizeof p->state, page, "state");
        show_trouble(q, p, page);
        json_decref(page);
    }
}

static void show_progress(launch *l) {
    const process *best = &l->party[0];
    uint32_t restarts = 0;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        const process *p = &l->party[q];
        restarts += p->restarts;
        best = p->step > best->step || *best->state == '\0' ? p : best;
    }
    if (!report_pace_due(&l->pace, false) || best->steps == 0)
        return;
    char states[3][24];
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        (void)snprintf(states[q], sizeof states[q], "%s",
                       l->party[q].pid > 0 ? l->party[q].state
                       : l->party[q].done  ? "done"
                                           : "starts again");
    report_line(false, "step %u/%u  %s  %s  parties: %s, %s, %s  %u restarts  %s", best->step,
                best->steps, best->phase, best->text, states[0], states[1], states[2], restarts,
                report_pace_left(&l->pace, best->step, best->steps));
}

/* ---- faults ---- */

/* One that is settled knows that all have their result: what is left waits for what does not come,
 * as long as it is let live. */
static bool any_settled(const launch *l) {
    return l->party[0].settled || l->party[1].settled || l->party[2].settled;
}

/* A process at random, as kill -9 does. */
static void kill_some(launch *l, uint64_t now) {
    if (l->o.kill_ms == 0 || now < l->kill_ns || l->ending || any_settled(l))
        return;
    l->state = l->state * 6364136223846793005u + 1442695040888963407u;
    const unsigned q = (unsigned)(l->state >> 33) % UVCC_PARTIES;
    const uint64_t part = (l->state >> 40) % 1000;
    l->kill_ns = now + l->o.kill_ms * NS_PER_MS / 2 + l->o.kill_ms * NS_PER_MS * part / 1000;
    l->party[q].ours |= l->party[q].pid > 0;
    if (l->party[q].pid > 0)
        (void)kill(l->o.processes ? -l->party[q].pid : l->party[q].pid, SIGKILL);
}

/* ---- the summary ---- */

/* All three computed the same, where more than one knows it. */
static int compare(json_t *const result[UVCC_PARTIES], FILE *to) {
    static const char key[] = "weights_sha256";
    const char *first = NULL;
    unsigned count = 0;
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        const char *hash = json_string_value(json_object_get(result[q], key));
        if (hash != NULL && first != NULL && strcmp(hash, first) != 0)
            return report_error(EXIT_FAILED, "the parties do not have the same weights: %s and %s",
                                first, hash);
        first = first != NULL ? first : hash;
        count += hash != NULL;
    }
    if (first != NULL)
        (void)fprintf(to, "weights sha256   %s (%u of 3 parties, the same)\n", first, count);
    return EXIT_DONE;
}

static void show_party(const json_t *o, unsigned q, uint32_t restarts, FILE *to) {
    (void)fprintf(
        to, "party %u          %.1f MB online, %.1f MB ahead of it, %lld rounds, %u restarts\n", q,
        (double)json_integer_value(json_object_get(o, "bytes_online")) * 1e-6,
        (double)json_integer_value(json_object_get(o, "bytes_preprocessing")) * 1e-6,
        (long long)json_integer_value(json_object_get(o, "rounds")), restarts);
}

static int put_json(const launch *l, json_t *const result[UVCC_PARTIES], double time_s) {
    report_json *j = report_json_open_own(l->o.json);
    if (j == NULL)
        return EXIT_BAD_INPUT;
    json_t *list = json_array();
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        json_t *one = json_deep_copy(result[q]);
        (void)json_object_set_new(one, "restarts", json_integer(l->party[q].restarts));
        (void)json_array_append_new(list, one);
    }
    const int status = report_json_put(
        j, json_pack("{s:s, s:f, s:o}", "dir", l->dir, "time_s", time_s, "parties", list));
    report_json_close(j);
    return status;
}

static int summary(const launch *l, double time_s) {
    json_t *result[UVCC_PARTIES] = {NULL};
    char path[LAUNCH_PATH_BYTES + 32];
    FILE *to = report_stream(l->o.json);
    int status = EXIT_DONE;
    for (unsigned q = 0; q < UVCC_PARTIES && status == EXIT_DONE; q++) {
        path_in(&l->party[q].at, "result.json", path);
        result[q] = json_load_file(path, 0, NULL);
        if (result[q] == NULL)
            status = report_error(EXIT_FAILED, "%s is not there, or damaged", path);
    }
    if (status == EXIT_DONE) {
        (void)fprintf(to, "done             %s of %s: %lld steps in %.2f s, files in %s\n",
                      json_string_value(json_object_get(result[0], "kind")),
                      json_string_value(json_object_get(result[0], "job")),
                      (long long)json_integer_value(json_object_get(result[0], "steps")), time_s,
                      l->dir);
        for (unsigned q = 0; q < UVCC_PARTIES; q++)
            show_party(result[q], q, l->party[q].restarts, to);
        status = compare(result, to);
        report_flush(to);
    }
    if (status == EXIT_DONE && l->o.json != NULL)
        status = put_json(l, result, time_s);
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        json_decref(result[q]);
    return status;
}

/* ---- the loop ---- */

static void start_due(launch *l, uint64_t now) {
    for (unsigned q = 0; q < UVCC_PARTIES && !l->ending; q++) {
        process *p = &l->party[q];
        if (p->pid == 0 && p->start_at_ns != 0 && now >= p->start_at_ns) {
            const int status = start(l, p, now);
            if (status != EXIT_DONE)
                end_all(l, status, now);
        }
    }
}

static int supervise(launch *l) {
    const uint64_t began = uvcc_host_now_ns();
    report_pace_start(&l->pace, l->o.progress);
    l->kill_ns = began + l->o.kill_ms * NS_PER_MS;
    l->state = l->o.seed;
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        l->party[q].start_at_ns = began;
    while (any_runs(l)) {
        const uint64_t now = uvcc_host_now_ns();
        const struct timespec tick = {.tv_nsec = (long)TICK_NS};
        start_due(l, now);
        reap(l, now);
        if (interrupted())
            end_all(l, EXIT_INTERRUPTED, now);
        if (l->ending && now >= l->end_by_ns)
            signal_all(l, SIGKILL);
        kill_some(l, now);
        look(l, now);
        show_progress(l);
        (void)nanosleep(&tick, NULL);
    }
    report_line_end();
    if (l->status == EXIT_INTERRUPTED)
        (void)report_error(l->status,
                           "interrupted; what was done is kept in %s, and the same "
                           "command goes on from it",
                           l->dir);
    return l->status == EXIT_DONE ? summary(l, (double)(uvcc_host_now_ns() - began) * 1e-9)
                                  : l->status;
}

/* ---- the command ---- */

#define AT(member) offsetof(launch_options, member)
static const flag flags[] = {
    {"dir", "DIR", FLAG_TEXT, AT(dir), 0, 0, NULL,
     "where keys, configurations, stores, logs and results are made and kept. Required"},
    {"processes", NULL, FLAG_SWITCH, AT(processes), 0, 0, NULL,
     "a process for each worker, under mpirun; else one for each party"},
    {"restarts", "N", FLAG_COUNT, AT(restarts), 0, 1000000, NULL,
     "start a party again at most so often while the job does not go on (20)"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the three results as JSON; with -, alone on standard output"},
    {"kill-every", "MS", FLAG_COUNT, AT(kill_ms), 0, 86400000, NULL,
     "a fault to try: SIGKILL for a process at random about so often; 0: never (0)"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL, "of what --kill-every does (1)"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"launch", flags, sizeof flags / sizeof flags[0],
                             offsetof(launch_options, help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc launch --dir DIR [OPTION...] JOB.json\n"
               "       uvcc launch --dir DIR [OPTION...] PARTY0.json PARTY1.json PARTY2.json\n"
               "\n"
               "Runs all three parties of a job on this machine. Of one file, which has \"job\" "
               "and the parties' \"data\" and \"output\", it makes what parties need: an identity "
               "for each, addresses of this machine, three configurations for uvcc party. Three "
               "files are configurations that are there. It is for trying and learning: a job "
               "keeps secrets only where each party runs on a machine of its own.\n"
               "\n"
               "A process that is killed is started again and goes on. Ctrl-C ends all in order, "
               "and the same command goes on later.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 done, and all parties have the same result; 1 a party "
                       "failed; 2 wrong options or files; 130 interrupted.\n");
}

static int find_self(launch *l) {
    const ssize_t n = readlink("/proc/self/exe", l->self, sizeof l->self - 1);
    if (n <= 0)
        return report_error(EXIT_FAILED, "the command cannot find its own file");
    l->self[n] = '\0';
    return EXIT_DONE;
}

static int prepare(launch *l, const char *const *file, int count) {
    launch_party at[UVCC_PARTIES];
    (void)snprintf(l->dir, sizeof l->dir, "%s", l->o.dir);
    int status = find_self(l);
    if (status == EXIT_DONE) {
        const int why = dir_make(l->o.dir);
        status = why == 0 ? dir_lock_after(l->o.dir, LEFT_S, &l->lock)
                          : report_error(EXIT_BAD_INPUT, "--dir %s cannot be made: %s", l->o.dir,
                                         strerror(why));
    }
    if (status == EXIT_DONE)
        status = count == 1 ? launch_make(l->o.dir, file[0], at) : launch_take(file, l->o.dir, at);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        l->party[p].at = at[p];
    return status;
}

int launch_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char **file = calloc((size_t)argc + 1, sizeof *file);
    launch *l = calloc(1, sizeof *l);
    int count = 0, status = EXIT_DONE;
    if (l == NULL || file == NULL) {
        status = report_error(EXIT_FAILED, "out of memory");
        goto end;
    }
    l->o = (launch_options){.restarts = 20, .seed = 1};
    l->lock = -1;
    if (flags_parse(&set, &l->o, argc, argv, file, &count, &m) != 0) {
        status = report_error(EXIT_BAD_INPUT, "%s", text);
    } else if (l->o.help) {
        print_help();
    } else if (count != 1 && count != UVCC_PARTIES) {
        status = report_error(EXIT_BAD_INPUT, "give one file with a job, or the three parties' "
                                              "configurations; see uvcc launch --help");
    } else if (l->o.dir == NULL) {
        status = report_error(EXIT_BAD_INPUT, "--dir DIR is missing; name a directory for keys, "
                                              "stores and results");
    } else {
        interrupt_catch();
        status = prepare(l, file, count);
        if (status == EXIT_DONE)
            status = supervise(l);
    }
end:
    if (l != NULL)
        dir_unlock(l->lock);
    free(l);
    free(file);
    return status;
}
