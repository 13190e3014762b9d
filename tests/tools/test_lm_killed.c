/* SPDX-License-Identifier: Apache-2.0 */
/* test_lm_killed.c - `uvcc train --model transformer --checkpoint DIR` killed (SIGKILL) before each
 * call that changes what a directory has, and begun again: nothing is lost, and the weights are
 * those of a run that nobody disturbed.
 *
 * The command's objects are linked to this file's rename(), unlink() and fsync(), so that the
 * places are the same every time. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "run_tool.h"

#include <fcntl.h>
#include <signal.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lm/train.h"
#include "report.h"

enum { KILL_EVERY = 4 };

static unsigned kill_before; /* this call; 0: never */
static unsigned *calls;      /* so many were made by the last run; shared with it */

static void count(void) {
    if (calls != NULL && ++*calls == kill_before)
        (void)raise(SIGKILL);
}

int rename(const char *from, const char *to) {
    count();
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path) {
    count();
    return unlinkat(AT_FDCWD, path, 0);
}

int fsync(int fd) {
    count();
    return fdatasync(fd);
}

static char weights[] = "out/w.bin";
static char *const words[] = {
    "--model",     "transformer", "--text",    "t.txt", "--layers",     "1",
    "--dim",       "8",           "--heads",   "2",     "--context",    "4",
    "--batch",     "4",           "--steps",   "3",     "--truncation", "ars",
    "--index",     "exact",       "--weights", weights, "--checkpoint", "kept",
    "--optimizer", "momentum",    NULL};
enum { WORDS = sizeof words / sizeof words[0] - 1 };

/* The command in a process of its own: its exit status, or -1 if it was killed. */
static int train(unsigned killed_before) {
    int status;
    *calls = 0;
    kill_before = killed_before;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int out = open("said", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
            _exit(99);
        _exit(lm_train_main(WORDS, words));
    }
    kill_before = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return -1;
    }
    return WEXITSTATUS(status);
}

static void must_train(const char *want, size_t bytes, unsigned at) {
    const int status = train(0);
    char *said = read_all("said");
    if (status != 0)
        fail_msg("after it was killed before call %u: status %d, %s", at, status, said);
    free(said);
    char *got = read_all(weights);
    if (memcmp(got, want, bytes) != 0)
        fail_msg("after it was killed before call %u: other weights", at);
    free(got);
}

static void write_text(void) {
    char text[300];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = "three parties train together, and none of them sees. "[i % 53];
    write_file("t.txt", text, sizeof text);
    assert_int_equal(mkdir("out", 0700), 0);
}

static void clean(void) {
    remove_tree("kept");
    (void)unlink("t.txt");
    (void)unlink("said");
    remove_tree("out"); /* what a killed process left too */
}

/* A party lost the last step, so the others' are of another history than the one that it makes
 * again: never are the two put together. */
static void keeps_histories_apart(void **state) {
    (void)state;
    struct stat st;
    write_text();
    assert_int_equal(train(0), 0);
    char *want = read_all(weights);
    assert_int_equal(stat(weights, &st), 0);
    for (unsigned at = 5; at <= 32; at += 3) {
        assert_int_equal(unlink("kept/party-0/r0-s0-t0.step-3"), 0);
        (void)train(at);
        must_train(want, (size_t)st.st_size, at);
    }
    free(want);
    clean();
}

/* One kill, and every few of them another one in the run that goes on. */
static void goes_on(void **state) {
    (void)state;
    write_text();
    assert_int_equal(train(0), 0);
    const unsigned all = *calls;
    char *want = read_all(weights);
    struct stat st;
    assert_int_equal(stat(weights, &st), 0);
    assert_true(all > 40);
    for (unsigned at = 1; at <= all; at += KILL_EVERY) {
        remove_tree("kept");
        assert_int_equal(train(at), -1);
        if (at % 3 == 0)
            (void)train(1 + at % 17);
        must_train(want, (size_t)st.st_size, at);
    }
    free(want);
    clean();
}

int main(void) {
    calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (calls == MAP_FAILED || sodium_init() < 0)
        return 2;
    const struct CMUnitTest tests[] = {cmocka_unit_test(goes_on),
                                       cmocka_unit_test(keeps_histories_apart)};
    return cmocka_run_group_tests(tests, enter, leave);
}
