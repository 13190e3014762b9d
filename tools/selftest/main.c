/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - see selftest.h. First the golden vectors as they stand, then rounds with other operands,
 * keys and places, which a seed makes: what the portable kernels give is what must come out. The
 * first result that differs is shown with its task, role, element and both values. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../flags.h"
#include "../interrupt.h"
#include "../report.h"
#include "selftest.h"
#include "vectors.h"

#define MESSAGE_BYTES 512u

typedef struct selftest_options {
    const char *backend, *vectors; /* NULL: not given */
    uint64_t seed;
    uint32_t rounds;
    bool progress, help;
} selftest_options;

#define AT(member) offsetof(selftest_options, member)
static const flag flags[] = {
    {"backend", "NAME", FLAG_TEXT, AT(backend), 0, 0, NULL,
     "whose kernels run (all that this CPU has)"},
    {"rounds", "N", FLAG_COUNT, AT(rounds), 0, 1000000, NULL,
     "how often all tasks run on random operands (3)"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL,
     "of the first round; the next has N + 1 and so on (1)"},
    {"vectors", "DIR", FLAG_TEXT, AT(vectors), 0, 0, NULL,
     "the golden vectors (those that came with this program)"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"selftest", flags, sizeof flags / sizeof flags[0], AT(help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc selftest [OPTION...]\n"
               "\n"
               "Runs every compute task on the golden vectors, and on random operands beside the\n"
               "portable kernels. All results must be the same bytes.\n"
               "\n"
               "Back ends:\n");
#define UVCC_BACKEND(name, number, text, what)                                                     \
    (void)printf("  %-10s %s%s\n", text, what,                                                     \
                 uvcc_cpu_backend_is_here(number) ? "" : " (this CPU has it not)");
#include <uvcc/backends.def>
#undef UVCC_BACKEND
    flags_text(stdout, "\nOptions (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout,
               "\nExit status: 0 all results are right, 1 one is not or the system failed, 2 wrong "
               "options.\n");
}

/* ---- which back ends ---- */

static int no_backend(const char *name, bool known) {
    char list[128] = "";
    size_t n = 0;
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++)
        if (!known || uvcc_cpu_backend_is_here(b))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n == 0 ? "" : ", ",
                                  uvcc_cpu_backend_name(b));
    return known ? report_error(EXIT_BAD_INPUT,
                                "this CPU has not what back end %s needs; it has %s", name, list)
                 : report_error(EXIT_BAD_INPUT, "there is no back end '%s'; there are %s", name,
                                list);
}

/* 0 and which to run, as bits, or an exit status. */
static int choose(const char *name, uint32_t *out) {
    *out = 0;
    for (uint32_t b = 0; b < UVCC_BACKEND_END; b++) {
        const bool here = uvcc_cpu_backend_is_here(b);
        if (name == NULL && here)
            *out |= 1u << b;
        if (name == NULL || strcmp(name, uvcc_cpu_backend_name(b)) != 0)
            continue;
        *out = 1u << b;
        return here ? 0 : no_backend(name, true);
    }
    return name == NULL ? 0 : no_backend(name, false);
}

/* ---- one back end ---- */

static int show(const vector_file *f, uint32_t backend, const vector_mismatch *x, uint64_t seed) {
    char values[128] = "its digest is not that of the golden vector", round[64] = "";
    if (x->bytes != 0)
        (void)snprintf(values, sizeof values, "%s %zu: expected 0x%0*" PRIx64 ", got 0x%0*" PRIx64,
                       x->bytes == 8 ? "word" : "byte", x->element, (int)(2 * x->bytes),
                       x->expected, (int)(2 * x->bytes), x->got);
    if (seed != 0)
        (void)snprintf(round, sizeof round, ", seed %" PRIu64, seed);
    return report_error(EXIT_FAILED, "%s: %s: '%s': task %s%s%s, unit %u, %s, %s%s",
                        uvcc_cpu_backend_name(backend), f->path, x->name, x->task,
                        *x->role == '\0' ? "" : " at ", x->role, x->unit, x->operand, values,
                        round);
}

/* The golden vector of a long result is a digest. The portable kernels have the result, if they are
 * right. */
static void find_element(const vector_file *f, const vector_run *r, vector_mismatch *x) {
    vector_message m;
    vector_mismatch other;
    vector_run *p = NULL;
    if (x->bytes != 0 || vector_run_new(&p, f, UVCC_BACKEND_PORTABLE, 0, &m) != 0)
        return;
    if (vector_run_check(p, &other, &m) == 0 && vector_run_compare(r, p, &other, &m) == 1)
        *x = other;
    vector_run_free(p);
}

/* Golden vectors; 0 or an exit status. */
static int check_file(const vector_file *f, uint32_t backend, uint64_t *results) {
    vector_message m;
    vector_mismatch x;
    vector_run *r = NULL;
    if (vector_run_new(&r, f, backend, 0, &m) != 0)
        return report_error(EXIT_FAILED, "%s: %s", uvcc_cpu_backend_name(backend), m.text);
    const int found = vector_run_check(r, &x, &m);
    int status = EXIT_DONE;
    if (found < 0)
        status = report_error(EXIT_FAILED, "%s", m.text);
    if (found > 0) {
        find_element(f, r, &x);
        status = show(f, backend, &x, 0);
    }
    *results += vector_run_results(r);
    vector_run_free(r);
    return status;
}

/* Random operands. */
static int check_round(const vector_file *f, uint32_t backend, uint64_t seed) {
    vector_message m;
    vector_mismatch x;
    vector_run *r = NULL, *p = NULL;
    const uint64_t reseed = seed != 0 ? seed : UINT64_MAX; /* 0 would be the golden vectors */
    if (vector_run_new(&p, f, UVCC_BACKEND_PORTABLE, reseed, &m) != 0)
        return report_error(EXIT_FAILED, "portable: %s", m.text);
    int status = EXIT_DONE;
    if (vector_run_new(&r, f, backend, reseed, &m) != 0)
        status = report_error(EXIT_FAILED, "%s: %s", uvcc_cpu_backend_name(backend), m.text);
    const int found = r == NULL ? 0 : vector_run_compare(r, p, &x, &m);
    if (found < 0)
        status = report_error(EXIT_FAILED, "%s", m.text);
    if (found > 0)
        status = show(f, backend, &x, reseed);
    vector_run_free(r);
    vector_run_free(p);
    return status;
}

static int check_backend(const vector_set *v, const selftest_options *o, uint32_t backend) {
    uint64_t results = 0;
    int status = EXIT_DONE;
    for (size_t i = 0; i < v->count && status == EXIT_DONE; i++)
        status = check_file(&v->files[i], backend, &results);
    if (status != EXIT_DONE)
        return status;
    (void)printf("%s: %" PRIu64 " golden results are right\n", uvcc_cpu_backend_name(backend),
                 results);
    report_pace pace;
    report_pace_start(&pace, o->progress);
    for (uint32_t k = 0; k < o->rounds && status == EXIT_DONE; k++) {
        for (size_t i = 0; i < v->count && status == EXIT_DONE; i++)
            status = check_round(&v->files[i], backend, o->seed + k);
        if (status == EXIT_DONE && report_pace_due(&pace, k + 1 == o->rounds))
            report_line(false, "%s: round %u/%u  %s", uvcc_cpu_backend_name(backend), k + 1,
                        o->rounds, report_pace_left(&pace, k + 1.0, o->rounds));
    }
    report_line_clear();
    if (status == EXIT_DONE && o->rounds != 0)
        (void)printf("%s: %" PRIu64 " results of random operands are those of the portable kernels "
                     "(--seed %" PRIu64 " --rounds %u)\n",
                     uvcc_cpu_backend_name(backend), results * o->rounds, o->seed, o->rounds);
    return status;
}

/* ---- a process of its own ---- */

/* The case that runs, as the child tells it: whole below PIPE_BUF. */
typedef struct at_case {
    char text[400];
} at_case;

static void tell(void *user, const char *path, const char *name) {
    at_case at = {{0}};
    (void)snprintf(at.text, sizeof at.text, "%s: '%s'", path, name);
    if (write(*(const int *)user, &at, sizeof at) != (ssize_t)sizeof at)
        _exit(EXIT_FAILED);
}

static int check_backends(const vector_set *v, const selftest_options *o, uint32_t backends) {
    int status = EXIT_DONE;
    for (uint32_t b = 0; b < UVCC_BACKEND_END && status == EXIT_DONE; b++)
        if (backends >> b & 1)
            status = check_backend(v, o, b);
    return status;
}

/* A kernel takes sizes and operands as they come, and a broken one may do anything: what it does to
 * its process is told here. */
static int check_apart(const vector_set *v, const selftest_options *o, uint32_t backends) {
    int fd[2], how = 0;
    at_case at = {"the first case"};
    if (report_output(EXIT_FAILED) != 0)
        return EXIT_FAILED;
    const pid_t pid = pipe(fd) == 0 ? fork() : -1;
    if (pid < 0)
        return report_error(EXIT_FAILED, "no process can begin: %s", strerror(errno));
    if (pid == 0) {
        interrupt_leave();
        (void)close(fd[0]);
        vector_watch(tell, &fd[1]);
        const int status = check_backends(v, o, backends);
        _exit(report_output(EXIT_FAILED) != 0 ? EXIT_FAILED : status);
    }
    (void)close(fd[1]);
    for (at_case next; read(fd[0], &next, sizeof next) == (ssize_t)sizeof next;)
        at = next;
    (void)close(fd[0]);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(how))
        return WEXITSTATUS(how);
    return report_error(EXIT_FAILED,
                        "%.*s crashes (signal %d): an operand is missing or too short, or a kernel "
                        "is broken on this machine",
                        (int)sizeof at.text - 1, at.text, WTERMSIG(how));
}

/* ---- the command ---- */

static int load(const char *dir, vector_set *out) {
    static const char *const places[] = {UVCC_TASK_VECTORS, UVCC_TASK_VECTORS_INSTALLED};
    vector_message m;
    if (dir != NULL)
        return vector_set_load(out, dir, &m) == 0 ? 0 : report_error(EXIT_BAD_INPUT, "%s", m.text);
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++)
        if (vector_set_load(out, places[i], &m) == 0) {
            (void)printf("golden vectors of %s\n", places[i]);
            return 0;
        }
    return report_error(EXIT_BAD_INPUT, "%s; say with --vectors where the golden vectors are",
                        m.text);
}

int selftest_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message message = {text, sizeof text};
    selftest_options o = {.seed = 1, .rounds = 3};
    uint32_t backends;
    vector_set v;
    report_command("selftest");
    if (flags_parse(&set, &o, argc, argv, NULL, NULL, &message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    const flag_idle idle[] = {{"seed", o.rounds == 0, "with --rounds 0"}};
    if (flags_refuse_idle(&set, argc, argv, idle, 1, &message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    int status = choose(o.backend, &backends);
    if (status != 0)
        return status;
    status = load(o.vectors, &v);
    if (status != 0)
        return status;
    status = check_apart(&v, &o, backends);
    vector_set_free(&v);
    return status;
}
