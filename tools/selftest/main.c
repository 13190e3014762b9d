/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - see selftest.h. First the golden vectors as they stand, then rounds with other operands,
 * keys and places, which a seed makes, then a training step: what the portable kernels give is what
 * must come out (backend.c). */
#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../flags.h"
#include "../interrupt.h"
#include "../report.h"
#include "../runflags.h"
#include "backend.h"
#include "selftest.h"

#define MESSAGE_BYTES 512u

typedef struct selftest_options {
    const char *backend, *vectors, *json; /* NULL: not given */
    uint64_t seed;
    uint32_t rounds, device;
    bool progress, help;
} selftest_options;

#define AT(member) offsetof(selftest_options, member)
static const flag flags[] = {
    {"backend", "NAME", FLAG_TEXT, AT(backend), 0, 0, NULL, "whose kernels run (cpu)"},
    {"device", "N", FLAG_COUNT, AT(device), 0, 65535, NULL,
     "of gpu: number of the CUDA device (UVCC_GPU_ID, or 0)"},
    {"rounds", "N", FLAG_COUNT, AT(rounds), 0, 1000000, NULL,
     "how often all tasks run on random operands; 0: golden vectors only (3)"},
    {"seed", "N", FLAG_SEED, AT(seed), 0, 0, NULL,
     "of the first round and the training; the next round has N + 1 and so on (a new one each "
     "time, "
     "which is shown)"},
    {"vectors", "DIR", FLAG_TEXT, AT(vectors), 0, 0, NULL,
     "the golden vectors (those that came with this program)"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the results as JSON; with -, alone on standard output"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"selftest", flags, sizeof flags / sizeof flags[0], AT(help)};

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc selftest [OPTION...]\n"
        "\n"
        "Runs every compute task on the golden vectors, and on random operands beside the\n"
        "portable kernels; then a training step of a small transformer. All results must be\n"
        "the same bytes.\n"
        "\n"
        "Back ends:\n");
#define UVCC_BACKEND(name, number, text, what)                                                     \
    (void)printf("  %-10s %s%s\n", text, what,                                                     \
                 uvcc_cpu_backend_is_here(number) ? "" : " (this CPU has it not)");
#include <uvcc/backends.def>
#undef UVCC_BACKEND
    (void)printf("  %-10s %s\n  %-10s %s\n", "cpu", "all of these that this CPU has", "gpu",
                 "a CUDA device");
    flags_text(stdout, "\nOptions (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout,
               "\nExit status: 0 all results are right, 1 one is not or the system failed, 2 wrong "
               "options, or no such device.\n");
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
                 : report_error(EXIT_BAD_INPUT, "there is no back end '%s'; there are %s, cpu, gpu",
                                name, list);
}

/* 0 and which to run, as bits, or an exit status. */
static int choose(const char *name, uint32_t *out) {
    const bool all = name == NULL || strcmp(name, "cpu") == 0;
    *out = 0;
    for (uint32_t b = 0; b < SELFTEST_BACKENDS; b++) {
        const bool here = b == SELFTEST_GPU || uvcc_cpu_backend_is_here(b);
        if (all && here && b != SELFTEST_GPU)
            *out |= 1u << b;
        if (all || strcmp(name, selftest_name(b)) != 0)
            continue;
        *out = 1u << b;
        return here ? 0 : no_backend(name, true);
    }
    return all ? 0 : no_backend(name, false);
}

/* ---- a process of its own ---- */

/* What the child tells: the case that runs, or the end of a back end. Whole below PIPE_BUF. */
typedef struct told {
    bool ended;
    uint32_t backend;
    char text[400]; /* the case, or an error */
    selftest_result result;
} told;

typedef struct outcome {
    uint32_t done; /* back ends that came to an end */
    told ends[SELFTEST_BACKENDS];
    char at[sizeof((told *)NULL)->text]; /* the last case */
} outcome;

static void tell(void *user, const char *path, const char *name) {
    told at = {.ended = false};
    (void)snprintf(at.text, sizeof at.text, "%s: '%s'", path, name);
    if (write(*(const int *)user, &at, sizeof at) != (ssize_t)sizeof at)
        _exit(EXIT_FAILED);
}

static int check_backends(const selftest_job *j, uint32_t backends, int fd) {
    int status = EXIT_DONE;
    selftest_reference reference = {.there = false};
    for (uint32_t b = 0; b < SELFTEST_BACKENDS && status == EXIT_DONE; b++) {
        if ((backends >> b & 1) == 0)
            continue;
        told end = {.ended = true, .backend = b};
        status = selftest_backend(j, b, &reference, &end.result);
        (void)snprintf(end.text, sizeof end.text, "%s", status == EXIT_DONE ? "" : report_last());
        if (write(fd, &end, sizeof end) != (ssize_t)sizeof end)
            return EXIT_FAILED;
    }
    return status;
}

static void listen_to(int fd, outcome *out) {
    for (told next; read(fd, &next, sizeof next) == (ssize_t)sizeof next;) {
        next.text[sizeof next.text - 1] = '\0';
        if (next.ended && out->done < SELFTEST_BACKENDS)
            out->ends[out->done++] = next;
        else
            memcpy(out->at, next.text, sizeof out->at);
    }
}

/* A kernel takes sizes and operands as they come, and a broken one may do anything: what it does to
 * its process is told here. CUDA begins in it too, for it does not outlive a fork. */
static int check_apart(const selftest_job *j, uint32_t backends, outcome *out) {
    int fd[2], how = 0;
    *out = (outcome){.at = "the first case"};
    if (report_output(EXIT_FAILED) != 0)
        return EXIT_FAILED;
    const pid_t pid = pipe(fd) == 0 ? fork() : -1;
    if (pid < 0)
        return report_error(EXIT_FAILED, "no process can begin: %s", strerror(errno));
    if (pid == 0) {
        interrupt_leave();
        (void)close(fd[0]);
        vector_watch(tell, &fd[1]);
        const int status = check_backends(j, backends, fd[1]);
        _exit(report_output(EXIT_FAILED) != 0 ? EXIT_FAILED : status);
    }
    (void)close(fd[1]);
    listen_to(fd[0], out);
    (void)close(fd[0]);
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(how))
        return WEXITSTATUS(how);
    return report_error(EXIT_FAILED,
                        "%s crashes (signal %d): an operand is missing or too short, or a kernel "
                        "is broken on this machine",
                        out->at, WTERMSIG(how));
}

/* ---- results ---- */

static json_t *end_json(const told *end) {
    const selftest_result *r = &end->result;
    const bool gpu = end->backend == SELFTEST_GPU;
    return json_pack("{s:s, s:b, s:I, s:I, s:o, s:o, s:o}", "backend", selftest_name(end->backend),
                     "right", (int)r->right, "golden_results", (json_int_t)r->golden,
                     "random_results", (json_int_t)r->random, "device",
                     gpu ? json_integer(r->device) : json_null(), "weights_sha256",
                     r->trained ? report_hex(r->weights_sha256, 32) : json_null(), "global_root",
                     r->trained ? report_hex(r->global_root, 32) : json_null());
}

/* Of a back end that crashed there is the error alone. */
static json_t *to_json(const selftest_job *j, const outcome *o, int status) {
    char seed[24];
    json_t *list = json_array();
    const char *error = report_last();
    int bad = list == NULL;
    for (uint32_t i = 0; i < o->done; i++) {
        bad |= json_array_append_new(list, end_json(&o->ends[i]));
        error = o->ends[i].text[0] != '\0' ? o->ends[i].text : error;
    }
    (void)snprintf(seed, sizeof seed, "%" PRIu64, j->seed);
    if (bad == 0)
        return json_pack("{s:b, s:s, s:i, s:o, s:o}", "right", (int)(status == EXIT_DONE), "seed",
                         seed, "rounds", (int)j->rounds, "backends", list, "error",
                         status != EXIT_DONE ? json_string(error) : json_null());
    json_decref(list);
    return NULL;
}

static int run(const selftest_options *o, const selftest_job *j, uint32_t backends) {
    outcome done;
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    const int status = check_apart(j, backends, &done);
    const int put =
        status == EXIT_BAD_INPUT ? EXIT_DONE : report_json_put(json, to_json(j, &done, status));
    report_json_close(json);
    return status != EXIT_DONE ? status : put;
}

/* ---- the command ---- */

static int load(const char *dir, FILE *to, vector_set *out) {
    static const char *const places[] = {UVCC_TASK_VECTORS, UVCC_TASK_VECTORS_INSTALLED};
    vector_message m;
    if (dir != NULL)
        return vector_set_load(out, dir, &m) == 0 ? 0 : report_error(EXIT_BAD_INPUT, "%s", m.text);
    for (unsigned i = 0; i < sizeof places / sizeof places[0]; i++)
        if (vector_set_load(out, places[i], &m) == 0) {
            (void)fprintf(to, "golden vectors of %s\n", places[i]);
            return 0;
        }
    return report_error(EXIT_BAD_INPUT, "%s; say with --vectors where the golden vectors are",
                        m.text);
}

/* 0, or -1 and one line in the message. */
static int check(selftest_options *o, int argc, char *const *argv, run_options *on,
                 const flag_message *m) {
    const bool gpu = o->backend != NULL && strcmp(o->backend, "gpu") == 0;
    const flag_idle idle[] = {{"seed", o->rounds == 0, "with --rounds 0"},
                              {"device", !gpu, "without --backend gpu"}};
    if (flags_refuse_idle(&set, argc, argv, idle, sizeof idle / sizeof idle[0], m) != 0)
        return -1;
    if (!flags_given(&set, argc, argv, "seed"))
        o->seed = 1 + randombytes_random();
    *on = (run_options){.compute = gpu ? RUN_COMPUTE_GPU : UVCC_CPU_INLINE, .device = o->device};
    return run_options_compute(on, true, 1, m);
}

int selftest_main(int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message message = {text, sizeof text};
    selftest_options o = {.rounds = 3, .device = CARD_BY_RANK};
    uint32_t backends;
    run_options on;
    vector_set v;
    report_command("selftest");
    if (flags_parse(&set, &o, argc, argv, NULL, NULL, &message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    if (check(&o, argc, argv, &on, &message) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    int status = choose(o.backend, &backends);
    if (status != 0)
        return status;
    FILE *to = report_stream(o.json);
    status = load(o.vectors, to, &v);
    if (status != 0)
        return status;
    const selftest_job j = {.vectors = &v,
                            .seed = o.seed,
                            .rounds = o.rounds,
                            .progress = o.progress,
                            .to = to,
                            .on = on};
    status = run(&o, &j, backends);
    vector_set_free(&v);
    return status;
}
