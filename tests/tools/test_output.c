/* SPDX-License-Identifier: Apache-2.0 */
/* What every command does with its outputs and with signals: where it writes, that it says so when
 * it cannot, what stays behind (nothing that is not whole), and what a terminal is spared. */
#define _XOPEN_SOURCE 700 /* mknod() */
#include "run_tool.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "escape.h"
#include "interrupt.h"
#include "report.h"
#include "svg.h"

#define TRAIN "train --data t.csv --batch 2 --epochs 1 --hidden 2"
#define LONG  "train --data t.csv --batch 2 --epochs 10000 --hidden 2 --progress"

static void write_rows(void) {
    static const char rows[] = "1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,6,1\n";
    write_file("t.csv", rows, sizeof rows - 1);
}

static void forget_rows(void) {
    assert_int_equal(unlink("t.csv"), 0);
}

/* What lies in a directory, but for what a run of the tool always leaves. */
static unsigned entries(const char *path) {
    DIR *d = opendir(path);
    unsigned n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += *e->d_name != '.' && strcmp(e->d_name, "stdout") != 0 &&
             strcmp(e->d_name, "stderr") != 0 && strcmp(e->d_name, "t.csv") != 0;
    closedir(d);
    return n;
}

static json_t *json_in(const char *path) {
    json_t *j = json_load_file(path, 0, NULL);
    assert_non_null(j);
    assert_non_null(json_object_get(j, "weights_sha256"));
    return j;
}

/* ---- where it goes ---- */

static void follows_links(void **state) {
    (void)state;
    write_rows();
    assert_int_equal(mkdir("below", 0700), 0);
    assert_int_equal(symlink("below/new", "link"), 0);
    for (unsigned i = 0; i < 2; i++) { /* to nothing yet, then to a file */
        free(output_of(TRAIN " --json link"));
        struct stat st;
        assert_int_equal(lstat("link", &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(lstat("below/new", &st), 0);
        assert_true(S_ISREG(st.st_mode));
        assert_int_equal(st.st_mode & 0777, i == 0 ? st.st_mode & 0777 : 0600);
        json_decref(json_in("below/new"));
        assert_int_equal(chmod("below/new", 0600), 0); /* who may read it stays */
        assert_int_equal(entries("below"), 1);
    }
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(symlink("link", "link"), 0);
    refused(TRAIN " --json link", "--json link: cannot be written: Too many levels");
    assert_int_equal(unlink("link"), 0);
    remove_tree("below");
    forget_rows();
}

/* The reader is a process of its own. */
static void writes_into_pipes(void **state) {
    (void)state;
    write_rows();
    assert_int_equal(mkfifo("pipe", 0600), 0);
    const pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) {
        char *text = read_all("pipe");
        json_t *j = json_loads(text, 0, NULL);
        _exit(json_object_get(j, "weights_sha256") != NULL ? 0 : 1);
    }
    free(output_of(TRAIN " --json pipe"));
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
    struct stat st;
    assert_int_equal(lstat("pipe", &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_int_equal(unlink("pipe"), 0);
    forget_rows();
}

/* As root a device could be replaced: so it is one of this test's own. */
static void leaves_devices(void **state) {
    (void)state;
    write_rows();
    struct stat null, st;
    assert_int_equal(stat("/dev/null", &null), 0);
    const bool own = mknod("device", S_IFCHR | 0600, null.st_rdev) == 0;
    const int fd = own ? open("device", O_WRONLY) : -1; /* not where devices are no devices */
    if (fd >= 0) {
        close(fd);
        free(output_of(TRAIN " --json device --trace device"));
        assert_int_equal(symlink("device", "link"), 0);
        free(output_of(TRAIN " --json link"));
        assert_int_equal(lstat("device", &st), 0);
        assert_true(S_ISCHR(st.st_mode));
        assert_int_equal(lstat("link", &st), 0);
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(unlink("link"), 0);
    } else if (geteuid() != 0) {
        free(output_of(TRAIN " --json /dev/null"));
    }
    if (own)
        assert_int_equal(unlink("device"), 0);
    forget_rows();
}

/* Standard output under another name keeps what went there before. */
static void shares_descriptors(void **state) {
    (void)state;
    write_rows();
    static const char *const names[] = {"/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"};
    for (unsigned i = 0; i < 3; i++) {
        char words[256];
        snprintf(words, sizeof words, TRAIN " --json %s", names[i]);
        char *out = output_of(words), *summary = strstr(out, "trained  ");
        assert_non_null(strstr(out, "\"weights_sha256\""));
        assert_non_null(summary);
        free(out);
    }
    assert_int_equal(entries("."), 0);
    forget_rows();
}

/* ---- when it cannot ---- */

static void fill(void) {
    const int fd = open("/dev/full", O_WRONLY);
    if (fd < 0 || dup2(fd, 1) < 0)
        _exit(126);
}
static void close_1(void) {
    close(1);
}
static void close_all(void) {
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

static void full_output_is_an_error(void **state) {
    (void)state;
    static const struct {
        const char *words;
        int status;
    } cases[] = {{"--version", 1},
                 {"--help", 1},
                 {"train --help", 1},
                 {"train --model transformer --help", 1},
                 {"generate --help", 1},
                 {"replay --help", 2},
                 {"audit --help", 2},
                 {"keygen --help", 1},
                 {"nonlinear --help", 1},
                 {"pipeline --help", 1},
                 {"selftest --help", 1},
                 {"sim --help", 1},
                 {"sim --seeds 1 --json -", 1},
                 {"nonlinear relu --inputs 1 --exact", 1},
                 {"pipeline --microbatches 1 --ahead 0", 1},
                 {"keygen --out key", 1},
                 {TRAIN, 1},
                 {TRAIN " --json -", 1}};
    write_rows();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned k = 0; k < 2; k++) {
            outcome o = run_tool_after(cases[i].words, k == 0 ? fill : close_1);
            const char *why = k == 0 ? "No space left on device\n" : "Bad file descriptor\n";
            const char *at = strstr(o.err, "cannot be written: "), *says = strstr(o.err, why);
            if (o.status != cases[i].status || at == NULL || says == NULL ||
                strstr(at + 1, "cannot be written") != NULL)
                fail_msg("uvcc %s: status %d, %s", cases[i].words, o.status, o.err);
            forget(&o);
            (void)unlink("key");
        }
    forget_rows();
}

#define LM                                                                                         \
    "train --model transformer --text t.csv --dim 4 --heads 1 --context 4 --batch 1 --steps 1"

/* An output that cannot be written costs none of the others. */
static void outputs_stand_alone(void **state) {
    (void)state;
    static const struct {
        const char *words, *says;
        const char *made[2];
    } cases[] = {
        {LM " --trace /dev/full --plot a --json b", "--trace /dev/full: cannot", {"a", "b"}},
        {LM " --weights /dev/full --plot a --json b", "--weights /dev/full: cannot", {"a", "b"}},
        {LM " --json /dev/full --plot a --trace b", "--json /dev/full: cannot", {"a", "b"}},
        {TRAIN " --json /dev/full --trace a", "--json /dev/full: cannot", {"a", NULL}},
        {TRAIN " --trace /dev/full --json a", "--trace /dev/full: cannot", {"a", NULL}},
        {"pipeline --microbatches 1 --ahead 0 --trace /dev/full --json a",
         "--trace /dev/full: cannot",
         {"a", NULL}},
        {"nonlinear relu sigmoid --exact --inputs 1 --plot plots --json a",
         "--plot plots/relu.svg: is a directory",
         {"plots/sigmoid.svg", "a"}},
    };
    write_rows();
    assert_int_equal(mkdir("plots", 0700), 0);
    assert_int_equal(mkdir("plots/relu.svg", 0700), 0);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome o = run_tool(cases[i].words);
        if (o.status != 1 || strstr(o.err, cases[i].says) == NULL || lines(o.err) != 1)
            fail_msg("uvcc %s: status %d, %s", cases[i].words, o.status, o.err);
        for (unsigned k = 0; k < 2 && cases[i].made[k] != NULL; k++)
            if (unlink(cases[i].made[k]) != 0)
                fail_msg("uvcc %s: made no %s", cases[i].words, cases[i].made[k]);
        forget(&o);
    }
    remove_tree("plots");
    assert_int_equal(entries("."), 0);
    forget_rows();
}

/* Two outputs never share a file, however it is called, and standard output takes one. */
static void outputs_are_apart(void **state) {
    (void)state;
    write_rows();
    assert_int_equal(symlink("f", "link"), 0);
    refused(LM " --weights f --json f", "--json f: is the file of --weights too");
    refused(LM " --plot f --trace ./f", "--trace ./f: is the file of --plot too");
    refused(LM " --plot f --weights link", "is the file of --weights too");
    refused(LM " --weights -", "--weights -: standard output takes --json alone");
    refused(LM " --plot -", "--plot -: standard output takes --json alone");
    refused(LM " --trace - --json -", "--trace -: standard output takes --json alone");
    refused(TRAIN " --trace f --json f", "--json f: is the file of --trace too");
    refused("pipeline --trace f --json f", "--json f: is the file of --trace too");
    refused("pipeline --trace -", "--trace -: standard output takes --json alone");
    assert_int_equal(unlink("link"), 0);
    assert_int_equal(entries("."), 0);
    forget_rows();
}

/* The next files that are opened do not become standard output. */
static void closed_descriptors(void **state) {
    (void)state;
    write_rows();
    outcome o = run_tool_after(TRAIN " --json j --trace trace --record logs", close_all);
    assert_int_equal(o.status, 1); /* the summary went nowhere */
    json_decref(json_in("j"));
    json_t *trace = json_load_file("trace", 0, NULL);
    assert_non_null(trace);
    json_decref(trace);
    forget(&o);
    o = run_tool("replay logs/party0.uvlog");
    assert_int_equal(o.status, 0);
    forget(&o);
    assert_int_equal(unlink("j"), 0);
    assert_int_equal(unlink("trace"), 0);
    remove_tree("logs");
    forget_rows();
}

static void limit_files(void) {
    const struct rlimit low = {512, 512};
    if (setrlimit(RLIMIT_FSIZE, &low) != 0)
        _exit(126);
}

/* A limit stands for a full disk: an error, no signal, and nothing stays. */
static void full_disks(void **state) {
    (void)state;
    static const char *const cases[] = {" --json out", " --trace out", " --record out",
                                        " --audit out"};
    write_rows();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[256];
        snprintf(words, sizeof words, "%s%s", TRAIN, cases[i]);
        outcome o = run_tool_after(words, limit_files);
        if (o.status != 1 || strstr(o.err, "cannot be written: ") == NULL)
            fail_msg("uvcc %s: status %d, signal %d, %s", words, o.status, o.signal, o.err);
        forget(&o);
        struct stat st;
        if (stat("out", &st) == 0 && S_ISDIR(st.st_mode) && i == 2)
            assert_int_equal(entries("out"), 0);
        remove_tree("out");
        assert_int_equal(entries("."), 0);
    }
    forget_rows();
}

/* ---- signals ---- */

static const int endings[] = {SIGINT, SIGTERM, SIGHUP};

/* The logs of a run that was cut are kept, whole. */
static void ends_in_order(void **state) {
    (void)state;
    write_rows();
    for (unsigned i = 0; i < 3; i++) {
        outcome o = signal_tool(LONG " --json j --trace trace --record logs", "stderr", endings[i]);
        const char *said = strstr(o.err, "uvcc: interrupted; what runs comes to its end first");
        if (o.status != 130 || said == NULL || strstr(said, "interrupted in step") == NULL)
            fail_msg("signal %d: status %d, signal %d, %s", endings[i], o.status, o.signal, o.err);
        forget(&o);
        assert_int_equal(entries("."), 1);
        assert_int_equal(entries("logs"), 3);
        assert_int_equal(access("logs/party2.uvlog", R_OK), 0);
        remove_tree("logs");
    }
    forget_rows();
}

/* A step that never ends: the first interruption is said when it comes, the second ends it. */
static int wait_for_ever(bool saying) {
    const int to = open("said", O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (to < 0 || dup2(to, STDERR_FILENO) < 0)
        return 1;
    interrupt_begin();
    if (saying)
        interrupt_catch_saying();
    else
        interrupt_catch();
    if (raise(SIGTERM) != 0 || !interrupted() || write(to, "waits\n", 6) != 6)
        return 2;
    (void)raise(SIGTERM);
    return 3;
}

static void says_that_it_waits(void **state) {
    static const char *const said[] = {
        "waits\nuvcc: interrupted\n",
        "uvcc: interrupted; what runs comes to its end first (once more ends it at once)\nwaits\n"
        "uvcc: interrupted\n"};
    (void)state;
    for (unsigned saying = 0; saying < 2; saying++) {
        int status;
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(wait_for_ever(saying));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_INTERRUPTED);
        char *text = read_all("said");
        assert_string_equal(text, said[saying]);
        free(text);
        assert_int_equal(unlink("said"), 0);
    }
}

/* Standard error is a pipe whose reader is gone, or that is full: neither ends or holds up what
 * comes to its end, or the second interruption. */
static int wait_unheard(bool full) {
    char page[4096] = {0};
    int fd[2];
    if (pipe(fd) != 0 || dup2(fd[1], STDERR_FILENO) < 0)
        return 1;
    if (full && fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK) != 0)
        return 1;
    while (full && write(STDERR_FILENO, page, sizeof page) > 0)
        continue;
    if (full ? fcntl(STDERR_FILENO, F_SETFL, 0) != 0 : close(fd[0]) != 0)
        return 1;
    interrupt_begin();
    interrupt_catch_saying();
    (void)alarm(30); /* ends a handler that waits */
    if (raise(SIGINT) != 0 || !interrupted())
        return 2;
    (void)raise(SIGINT);
    return 3;
}

static void waits_for_no_reader(void **state) {
    (void)state;
    for (unsigned full = 0; full < 2; full++) {
        int status;
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            _exit(wait_unheard(full));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EXIT_INTERRUPTED);
    }
}

/* Nothing has to end in order before the parties speak, however long it takes to get there. */
static void ends_at_once_before_it_begins(void **state) {
    (void)state;
    outcome o = interrupt_reader("train --data in --json j --record logs", "in");
    assert_int_equal(o.status, 130);
    assert_string_equal(o.err, "uvcc: interrupted\n");
    forget(&o);
    assert_int_equal(entries("."), 0);
}

/* Commands that look at no mark end at once. Its first line is out while much is left to do. */
static void ends_at_once(void **state) {
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        outcome o = signal_tool("pipeline --microbatches 1,60000,60000,60000 --stages 8 --ahead 0 "
                                "--json j --trace trace",
                                "stdout", endings[i]);
        if (o.status != 130 || strstr(o.err, "uvcc: interrupted\n") == NULL)
            fail_msg("signal %d: status %d, signal %d, %s", endings[i], o.status, o.signal, o.err);
        forget(&o);
        assert_int_equal(entries("."), 0);
    }
}

static int unread[2];
static void to_no_reader(void) {
    if (dup2(unread[1], 1) < 0 || close(unread[0]) != 0 || close(unread[1]) != 0)
        _exit(126);
}

/* A reader that went away is no error to speak of, and leaves nothing behind. */
static void no_reader(void **state) {
    (void)state;
    assert_int_equal(pipe(unread), 0);
    close(unread[0]);
    unread[0] = dup(unread[1]);
    outcome o = run_tool_after("pipeline --microbatches 1 --ahead 0 --json j", to_no_reader);
    assert_int_equal(o.signal, SIGPIPE);
    assert_string_equal(o.err, "");
    forget(&o);
    close(unread[0]);
    close(unread[1]);
    assert_int_equal(entries("."), 0);
}

/* ---- terminals ---- */

static char *escaped(const char *text, size_t len, const char *keep, size_t piece) {
    char *out = NULL;
    size_t room;
    FILE *f = open_memstream(&out, &room);
    assert_non_null(f);
    escaper e = {.keep = keep};
    for (size_t i = 0; i < len; i += piece)
        escape_put(&e, f, text + i, len - i < piece ? len - i : piece);
    escape_end(&e, f);
    assert_int_equal(fclose(f), 0);
    return out;
}

static void escapes(void **state) {
    (void)state;
    static const struct {
        const char *text, *keep, *is;
    } cases[] = {
        {"plain text", NULL, "plain text"},
        {"\033[31m\007", NULL, "\\x1b[31m\\x07"},
        {"a\nb\tc\r", NULL, "a\\x0ab\\x09c\\x0d"},
        {"a\nb\tc\r", "\n\t", "a\nb\tc\\x0d"},
        {"\177", NULL, "\\x7f"},
        {"\303\251\342\202\254\360\237\230\200", NULL, "\303\251\342\202\254\360\237\230\200"},
        {"\302\233m", NULL, "\\xc2\\x9bm"},                 /* CSI of C1 */
        {"\302\240", NULL, "\302\240"},                     /* the first after C1 */
        {"\233m", NULL, "\\x9bm"},                          /* the same in 8 bits */
        {"\300\233", NULL, "\\xc0\\x9b"},                   /* too long */
        {"\340\202\233", NULL, "\\xe0\\x82\\x9b"},          /* too long */
        {"\355\240\200", NULL, "\\xed\\xa0\\x80"},          /* half of a pair */
        {"\342\200\256", NULL, "\\xe2\\x80\\xae"},          /* right to left */
        {"\364\220\200\200", NULL, "\\xf4\\x90\\x80\\x80"}, /* beyond the last */
        {"\342\202", NULL, "\\xe2\\x82"},                   /* cut at the end */
        {"\342\033[m", NULL, "\\xe2\\x1b[m"},               /* cut in the middle */
        {"\342\303\251", NULL, "\\xe2\303\251"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 1; piece < 6; piece++) {
            char *out = escaped(cases[i].text, strlen(cases[i].text), cases[i].keep, piece);
            assert_string_equal(out, cases[i].is);
            free(out);
        }
    char *out = escaped("a\0b", 3, "\n", 3);
    assert_string_equal(out, "a\\x00b");
    free(out);
}

static void errors_are_escaped(void **state) {
    (void)state;
    refused("\033]0;x\007", "there is no command '\\x1b]0;x\\x07'");
    refused("train --data \033[2J", "\\x1b[2J: cannot be opened");
    refused("train --\033[2J", "no option --\\x1b[2J");
    refused("keygen --public \033[2J", "\\x1b[2J: is not there");
    refused("replay \033[2J", "\\x1b[2J: cannot be opened");
    refused("audit verify \033[2J", "\\x1b[2J");
    refused("generate \033[2J", "\\x1b[2J");
    refused("sim --\033[2J", "\\x1b[2J");
    refused("nonlinear \033[2J", "\\x1b[2J");
    refused("selftest --vectors \033[2J", "\\x1b[2J");
    static char name[3000]; /* longer than a line has room for at first */
    memset(name, 'n', sizeof name - 1);
    const int kept = hear();
    (void)report_error(2, "%s\033.", name);
    char *said = heard(kept);
    assert_int_equal(strlen(said), strlen("uvcc train: ") + sizeof name - 1 + strlen("\\x1b.\n"));
    free(said);
}

#define MODEL                                                                                      \
    "train --model transformer --text t.csv --dim 4 --heads 1 --context 2 --batch 1 --steps 1"

static int terminal;
static void to_terminal(void) {
    if (dup2(terminal, 1) < 0)
        _exit(126);
}

/* Of generated text, too, newlines and tabs pass, and nothing else on a terminal. */
static void generated_text(void **state) {
    (void)state;
    const char *words = "generate model --length 1 --prompt \033[2J\nb\tc";
    write_rows();
    free(output_of(MODEL " --checkpoint model"));
    char *raw = output_of(words), *shown;
    assert_int_equal(strncmp(raw, "\033[2J\nb\tc", 8), 0);
    free(raw);
    const int host = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(host >= 0 && grantpt(host) == 0 && unlockpt(host) == 0);
    terminal = open(ptsname(host), O_RDWR | O_NOCTTY);
    assert_true(terminal >= 0);
    outcome o = run_tool_after(words, to_terminal);
    assert_int_equal(o.status, 0);
    forget(&o);
    char text[256] = "";
    ssize_t n = read(host, text, sizeof text - 1);
    assert_true(n > 0);
    shown = strstr(text, "\\x1b[2J\r\nb");
    assert_non_null(shown);
    assert_null(strchr(text, '\033'));
    close(terminal);
    close(host);
    remove_tree("model");
    forget_rows();
}

/* ---- words ---- */

static const char *const commands[] = {"",          " train",     " train --model transformer",
                                       " generate", " replay",    " audit",
                                       " keygen",   " nonlinear", " pipeline",
                                       " selftest", " sim"};

static void help_is_narrow(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof commands / sizeof commands[0]; i++)
        for (unsigned k = 0; k < 2; k++) {
            char words[64];
            snprintf(words, sizeof words, "%s %s", commands[i], k == 0 ? "--help" : "-h");
            char *help = output_of(words);
            for (const char *line = help; *line != '\0'; line += strcspn(line, "\n") + 1)
                if (strcspn(line, "\n") > 80 || line[strcspn(line, "\n")] == '\0')
                    fail_msg("uvcc%s: %.*s", words, (int)strcspn(line, "\n"), line);
            free(help);
        }
}

/* What would do nothing is refused by its name. */
static void refuses_idle_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"train --data t.csv --fault-seed 2", "--fault-seed does nothing without --drop"},
        {"train --data t.csv --compute threads --compute-seed=1", "--compute-seed does nothing"},
        {"train --data t.csv --compute deferred --parties turns", "--parties does nothing with"},
        {"train --model transformer --drop 0.1 --parties threads", "--parties does nothing with"},
        {"train --model transformer --profile --parties threads", "--parties does nothing with"},
        {"train --model transformer --record r --parties threads", "with --record, which takes"},
        {"train --data t.csv --record r --parties threads", "with --record, which takes turns"},
        {"train --data t.csv --trace f --parties threads", "--parties does nothing with --trace"},
        {"train --data t.csv --force", "--force does nothing without --record"},
        {"train --data t.csv --layers 2", "no option --layers"},
        {"train --model transformer --epochs 2", "no option --epochs"},
        {"train --model transformer --fault-seed 2 --drop 0", "--fault-seed does nothing"},
        {"train --model transformer --compute-seed 2", "--compute-seed does nothing"},
        {"train --model transformer --ahead 2", "--ahead does nothing with one microbatch"},
        {"train --model transformer --sks-override", "--sks-override does nothing without"},
        {"train --model transformer --lr 0 --warmup 2", "--warmup does nothing with --lr 0"},
        {"train --model transformer --lr 0 --final-rate 0.5", "--final-rate does nothing"},
        {"train --model transformer --replicas 3", "--replicas 3: give a power of two"},
        {"train --model transformer --replicas 64 --batch 32", "give at least --batch 64"},
        {"train --model transformer --weights w --reveal no", "leave out --reveal no"},
        {"audit verify x --out y", "verify: --out does nothing"},
        {"audit verify x --worker r0s0t0", "verify: --worker does nothing"},
        {"audit verify x --leaves", "verify: --leaves does nothing"},
        {"audit prove x 0/0/0 --unfinished", "prove: --unfinished does nothing"},
        {"audit check x --keys k --run 1", "check: --run does nothing"},
        {"audit show x --keys k", "show: --keys does nothing"},
        {"replay x --print --compute threads", "leave --compute out"},
        {"nonlinear --quick --inputs 5", "--quick does nothing with --inputs"},
        {"pipeline --wait-share 0.5", "--wait-share does nothing without --waits random"},
        {"pipeline --seed 4", "--seed does nothing where nothing is random"},
        {"pipeline --sessions --width 40", "--width does nothing with --sessions"},
        {"pipeline --sessions --ascii", "--ascii does nothing with --sessions"},
        {"pipeline --sessions --trace x", "--trace does nothing with --sessions"},
        {"selftest --rounds 0 --seed 4", "--seed does nothing with --rounds 0"},
        {"sim --list x --seeds 4", "--seeds does nothing with --list"},
        {"sim --list x --first-seed 4", "--first-seed does nothing with --list"},
        {"sim --sweep-alloc --no-minimise", "--no-minimise does nothing"},
        {"sim --sweep-alloc --without drop", "--without does nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    write_rows();
    free(output_of(TRAIN " --json --force")); /* a value is no option */
    assert_int_equal(unlink("--force"), 0);
    free(output_of(TRAIN " --compute deferred --compute-seed 3 --drop 0.1 --fault-seed 3"));
    forget_rows();
}

/* What takes a while says how long yet, and what it has written how large that is. */
static void tells_of_time_and_size(void **state) {
    (void)state;
    static const char *const cases[] = {
        TRAIN " --progress", MODEL " --progress", "nonlinear relu --exact --inputs 1 --progress",
        "sim --seeds 3 --progress", "selftest --backend portable --rounds 1 --progress"};
    write_rows();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        outcome o = run_tool(cases[i]);
        assert_int_equal(o.status, 0);
        if (strstr(o.err, "  0 s left\n") == NULL)
            fail_msg("uvcc %s: %s", cases[i], o.err);
        forget(&o);
    }
    char *out = output_of(TRAIN " --record logs --trace trace");
    assert_non_null(strstr(out, "\ntrace            0."));
    assert_non_null(strstr(out, "\nlogs             0."));
    free(out);
    out = output_of("pipeline --microbatches 4 --ahead 0 --trace trace");
    assert_non_null(strstr(out, "\ntrace            0."));
    free(out);
    remove_tree("logs");
    assert_int_equal(unlink("trace"), 0);
    forget_rows();
    report_pace p;
    report_pace_start(&p, true);
    assert_string_equal(report_pace_left(&p, 0, 10), "");
    p.start_s -= 100;
    assert_string_equal(report_pace_left(&p, 5, 5), "0 s left");
    assert_non_null(strstr(report_pace_left(&p, 5, 7), "s left"));
    assert_non_null(strstr(report_pace_left(&p, 1, 3), "3 min "));
    assert_non_null(strstr(report_pace_left(&p, 1, 101), "2 h 46 min left"));
}

/* A directory of plots is made for plots alone. */
static void makes_no_directory(void **state) {
    (void)state;
    refused("nonlinear relu --plot new --json no/such/place", "--json no/such/place");
    refused("nonlinear relu --plot no/such --inputs 1", "--plot no/such: cannot be made");
    assert_int_equal(entries("."), 0);
    free(output_of("nonlinear relu --exact --inputs 1 --plot new"));
    assert_int_equal(entries("new"), 1);
    remove_tree("new");
}

/* ---- plots ---- */

static void fits(const double *v, size_t n, bool whole, double from, double to) {
    svg_axis a = {.whole = whole};
    svg_fit(&a, v, n);
    if (fabs(a.from - from) > 1e-9 || fabs(a.to - to) > 1e-9)
        fail_msg("%g to %g, not %g to %g", a.from, a.to, from, to);
}

static void axes_fit(void **state) {
    (void)state;
    fits(NULL, 0, false, 0, 1);
    fits((double[]){NAN, INFINITY}, 2, false, 0, 1);
    fits((double[]){5}, 1, true, 4, 6);
    fits((double[]){1}, 1, true, 0, 2);
    fits((double[]){5.5, 5.5, NAN}, 3, false, 2.75, 8.25);
    fits((double[]){10, 20}, 2, false, 9.5, 20.5);
    fits((double[]){0.1, 20}, 2, false, 0, 20.995);
    fits((double[]){-10, 10}, 2, false, -11, 11);
    fits((double[]){1000000, 1000300}, 2, true, 1000000, 1000300);
    fits((double[]){1e-5, 1e-5}, 2, false, 5e-6, 1.5e-5);
}

/* One step is a dot; marks of steps are whole, and none are alike. */
static void plots_have_points(void **state) {
    (void)state;
    const double x[] = {1234567, 1234568}, y[] = {0.25, 0.25};
    for (size_t n = 1; n <= 2; n++) {
        const svg_series s = {"loss", "#000", x, y, n, true};
        svg_panel p = {
            .x = {.label = "step", .whole = true}, .y = {.label = "y"}, .series = &s, .count = 1};
        svg_fit(&p.x, x, n);
        svg_fit(&p.y, y, n);
        assert_int_equal(svg_write("plot", "plot.svg", "Title", &p, 1), 0);
        char *text = read_all("plot.svg");
        assert_int_equal(strstr(text, "<circle") != NULL, n == 1);
        assert_int_equal(strstr(text, "<polyline") != NULL, n == 2);
        assert_non_null(strstr(text, ">1234567</text>"));
        assert_non_null(strstr(text, ">1234568</text>"));
        assert_null(strstr(text, "1234567."));
        assert_null(strstr(text, "nan"));
        free(text);
        assert_int_equal(unlink("plot.svg"), 0);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_links),
        cmocka_unit_test(writes_into_pipes),
        cmocka_unit_test(leaves_devices),
        cmocka_unit_test(shares_descriptors),
        cmocka_unit_test(full_output_is_an_error),
        cmocka_unit_test(outputs_stand_alone),
        cmocka_unit_test(outputs_are_apart),
        cmocka_unit_test(closed_descriptors),
        cmocka_unit_test(full_disks),
        cmocka_unit_test(ends_in_order),
        cmocka_unit_test(says_that_it_waits),
        cmocka_unit_test(waits_for_no_reader),
        cmocka_unit_test(ends_at_once_before_it_begins),
        cmocka_unit_test(ends_at_once),
        cmocka_unit_test(no_reader),
        cmocka_unit_test(escapes),
        cmocka_unit_test(errors_are_escaped),
        cmocka_unit_test(generated_text),
        cmocka_unit_test(help_is_narrow),
        cmocka_unit_test(refuses_idle_options),
        cmocka_unit_test(tells_of_time_and_size),
        cmocka_unit_test(makes_no_directory),
        cmocka_unit_test(axes_fit),
        cmocka_unit_test(plots_have_points),
    };
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    return cmocka_run_group_tests(tests, enter, leave);
}
