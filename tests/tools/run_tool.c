/* SPDX-License-Identifier: Apache-2.0 */
/* run_tool.c - see run_tool.h. */
#include "run_tool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 40u

static char tool[4096];                      /* absolute, since the tests change the directory */
static char dir[] = "/tmp/uvcc_tool_XXXXXX"; /* the tests run inside it */

void forget(outcome *o) {
    free(o->out);
    free(o->err);
}

char *read_all(const char *path) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t len = 0, room = 4096;
    char *text = malloc(room);
    assert_non_null(text);
    for (size_t n; (n = fread(text + len, 1, room - len - 1, f)) > 0;) {
        len += n;
        if (len + 1 == room) {
            text = realloc(text, room *= 2);
            assert_non_null(text);
        }
    }
    text[len] = '\0';
    fclose(f);
    return text;
}

void write_file(const char *path, const char *text, size_t len) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* `piped`, the file or NULL, goes into the pipe instead. */
static void redirect(int to, const char *name, const char *piped, const int pipe_fd[2]) {
    const bool pipes = piped != NULL && strcmp(name, piped) == 0;
    const int fd = pipes ? pipe_fd[1] : open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || dup2(fd, to) < 0)
        _exit(126);
}

static pid_t start(const char *words, const char *piped, const int pipe_fd[2],
                   void (*prepare)(void)) {
    char text[1024];
    char *argv[WORDS_MAX + 2] = {strdup(tool)};
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    assert_true(strlen(words) < sizeof text);
    strcpy(text, words);
    unsigned n = 1;
    for (char *w = text; *(w += strspn(w, " ")) != '\0';) {
        const char *end = *w == '\'' ? "'" : " "; /* a path with spaces stands in quotes */
        w += *w == '\'';
        assert_true(n <= WORDS_MAX);
        argv[n++] = w;
        w += strcspn(w, end);
        if (*w != '\0')
            *w++ = '\0';
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        redirect(1, "stdout", piped, pipe_fd);
        redirect(2, "stderr", piped, pipe_fd);
        if (piped != NULL) {
            close(pipe_fd[0]);
            close(pipe_fd[1]);
        }
        for (unsigned i = 0; i < sizeof ends / sizeof ends[0]; i++)
            signal(ends[i], SIG_DFL); /* whatever the tests run under */
        if (prepare != NULL)
            prepare();
        execv(tool, argv);
        _exit(127);
    }
    free(argv[0]);
    return pid;
}

static outcome finish(pid_t pid) {
    outcome o;
    int status;
    while (waitpid(pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    o.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    o.out = read_all("stdout");
    o.err = read_all("stderr");
    return o;
}

outcome run_tool(const char *words) {
    return finish(start(words, NULL, NULL, NULL));
}

outcome run_tool_after(const char *words, void (*prepare)(void)) {
    return finish(start(words, NULL, NULL, prepare));
}

outcome interrupt_tool(const char *words, const char *stream) {
    return signal_tool(words, stream, SIGINT);
}

outcome signal_tool(const char *words, const char *stream, int number) {
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    const pid_t pid = start(words, stream, fd, NULL);
    close(fd[1]);
    FILE *f = fopen(stream, "wb");
    assert_non_null(f);
    char part[512];
    bool interrupted = false;
    for (ssize_t n; (n = read(fd[0], part, sizeof part)) > 0;) {
        assert_int_equal(fwrite(part, 1, (size_t)n, f), n);
        if (!interrupted && memchr(part, '\n', (size_t)n) != NULL)
            interrupted = kill(pid, number) == 0;
    }
    close(fd[0]);
    assert_int_equal(fclose(f), 0);
    return finish(pid);
}

outcome interrupt_reader(const char *words, const char *pipe) {
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const pid_t pid = start(words, NULL, NULL, NULL);
    const int fd = open(pipe, O_WRONLY); /* once it opens the other end */
    assert_true(fd >= 0);
    assert_int_equal(kill(pid, SIGINT), 0);
    close(fd);
    assert_int_equal(unlink(pipe), 0);
    return finish(pid);
}

json_t *json_of(const char *words, int status) {
    char all[1024];
    assert_true(snprintf(all, sizeof all, "%s --json -", words) < (int)sizeof all);
    outcome o = run_tool(all);
    json_t *j = json_loads(o.out, 0, NULL);
    if (o.status != status || j == NULL)
        fail_msg("uvcc %s\n  status %d, %s\n  %s%s", all, o.status, j == NULL ? "no JSON" : "JSON",
                 o.err, o.out);
    forget(&o);
    return j;
}

double number(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (!json_is_number(v))
        fail_msg("%s is no number", key);
    return json_number_value(v);
}

unsigned lines(const char *text) {
    unsigned n = 0;
    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/* Exit status 2, nothing on standard output, one line on standard error with `part` in it. */
void refused(const char *words, const char *part) {
    outcome o = run_tool(words);
    if (o.status != 2 || *o.out != '\0' || lines(o.err) != 1 || strstr(o.err, part) == NULL ||
        o.err[strlen(o.err) - 1] != '\n')
        fail_msg("uvcc %s\n  status %d, wanted '%s' and got\n  %s%s", words, o.status, part, o.err,
                 o.out);
    forget(&o);
}

bool find_tool(const char *path) {
    if (getcwd(tool, sizeof tool) == NULL)
        return false;
    const size_t len = *path == '/' ? 0 : strlen(tool);
    return snprintf(tool + len, sizeof tool - len, "%s%s", len > 0 ? "/" : "", path) <
           (int)(sizeof tool - len);
}

const char *tool_path(void) {
    return tool;
}

int enter(void **state) {
    (void)state;
    return mkdtemp(dir) == NULL || chdir(dir) != 0;
}

int leave(void **state) {
    (void)state;
    (void)unlink("stdout");
    (void)unlink("stderr");
    return chdir("/") != 0 || rmdir(dir) != 0;
}

void remove_tree(const char *path) {
    DIR *d = opendir(path);
    if (d == NULL) {
        assert_true(unlink(path) == 0 || errno == ENOENT);
        return;
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char below[600];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%.255s", path, e->d_name);
        remove_tree(below);
    }
    closedir(d);
    assert_int_equal(rmdir(path), 0);
}

int hear(void) {
    const int kept = dup(STDERR_FILENO);
    const int fd = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(kept >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    close(fd);
    return kept;
}

char *heard(int kept) {
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    close(kept);
    char *text = read_all("said");
    assert_int_equal(unlink("said"), 0);
    return text;
}

json_t *results(const char *words) {
    char all[1024];
    snprintf(all, sizeof all, "train %s", words);
    return json_of(all, 0);
}

char *output_of(const char *words) {
    outcome o = run_tool(words);
    if (o.status != 0 || *o.err != '\0')
        fail_msg("uvcc %s\n  status %d\n  %s", words, o.status, o.err);
    free(o.err);
    return o.out;
}

void write_vector_csv(const json_t *vectors, const char *first, const char *end) {
    FILE *f = fopen("t.csv", "wb");
    assert_non_null(f);
    fputs(first, f);
    size_t i;
    json_t *line;
    json_array_foreach(json_object_get(vectors, "csv"), i, line)
        fprintf(f, "%s%s", json_string_value(line), end);
    assert_int_equal(fclose(f), 0);
}

void vector_words(const json_t *run, char *words, size_t room) {
    int n = snprintf(words, room,
                     "--data %s --epochs %u --batch %u --lr-shift %u --seed %u "
                     "--frac-bits %u --hidden ",
                     "t.csv", (unsigned)test_u64(run, "epochs"), (unsigned)test_u64(run, "batch"),
                     (unsigned)test_u64(run, "lr_shift"), (unsigned)test_u64(run, "seed"),
                     (unsigned)test_u64(run, "frac_bits"));
    size_t i;
    json_t *units;
    json_array_foreach(json_object_get(run, "hidden"), i, units) n += snprintf(
        words + n, room - (size_t)n, "%s%d", i > 0 ? "," : "", (int)json_integer_value(units));
}

void check_vector(const json_t *run, const json_t *j) {
    assert_string_equal(test_str(j, "weights_sha256"), test_str(run, "weights_sha256"));
    assert_true(json_is_true(json_object_get(j, "reference_equal")));
    assert_int_equal(test_u64(j, "steps"), test_u64(run, "steps"));
    assert_true(json_equal(json_object_get(j, "test_accuracy"),
                           json_object_get(j, "reference_test_accuracy")));
    const json_t *roots = json_object_get(j, "global_root");
    assert_int_equal(json_array_size(roots), 3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(strlen(json_string_value(json_array_get(roots, i))), 64);
    assert_true(test_u64(j, "bytes_online") > 0 && test_u64(j, "bytes_preprocessing") > 0);
    assert_true(test_u64(j, "messages") > 0 && test_u64(j, "rounds") > 0);
}
