/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c - see interrupt.h. Names of temporary files stand in static memory, since a handler
 * may not ask for any; they are written with signals blocked in this thread. Another thread may run
 * the handler meanwhile, so a slot counts once its name is whole. */
#include "interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "report.h"

static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
enum { ENDINGS = sizeof endings / sizeof endings[0] };

static volatile sig_atomic_t asked; /* the command looks at the mark */
static const char finishing[] =
    "\nuvcc: interrupted; what runs comes to its end first (once more ends it at once)\n";
static const char *volatile says; /* at the first interruption; NULL: nothing */
static atomic_int mark;           /* any thread may look */
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may set the mark");
static volatile sig_atomic_t within; /* seconds from the mark to the end; 0: no limit */
static volatile sig_atomic_t used[TEMPORARIES_MAX];
static char names[TEMPORARIES_MAX][TEMPORARY_NAME_BYTES];

/* ---- signals ---- */

static void remove_all(void) {
    for (unsigned i = 0; i < TEMPORARIES_MAX; i++)
        if (used[i])
            (void)unlink(names[i]);
}

/* Nothing where nobody reads: a pipe's reader that ended by the same key would end this process by
 * SIGPIPE before its time, and one that is full would hold the handler, and what comes next, up. */
static void say(const char *text) {
    struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (text == NULL || poll(&to, 1, 0) != 1 || to.revents != POLLOUT)
        return;
    const ssize_t ignored = write(STDERR_FILENO, text, strlen(text));
    (void)ignored;
}

/* What is called here may be called in a handler. */
static void on_signal(int number) {
    const int kept = errno;
    if (number != SIGPIPE && asked && atomic_load(&mark) == 0) {
        say(says); /* before anybody says what came of it */
        atomic_store(&mark, 1);
        (void)alarm((unsigned)within);
        errno = kept;
        return;
    }
    remove_all();
    if (number == SIGPIPE) { /* as if there were no handler */
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        (void)sigaction(SIGPIPE, &usual, NULL);
        (void)raise(SIGPIPE); /* comes when this returns */
        errno = kept;
        return;
    }
    say("uvcc: interrupted\n");
    _exit(EXIT_INTERRUPTED);
}

void interrupt_begin(void) {
    const struct sigaction ends = {.sa_handler = on_signal}, ignored = {.sa_handler = SIG_IGN};
    for (unsigned i = 0; i < ENDINGS; i++) {
        struct sigaction before;
        if (sigaction(endings[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            (void)sigaction(endings[i], &ends, NULL);
    }
    (void)sigaction(SIGXFSZ, &ignored, NULL);
}

void interrupt_leave(void) {
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    for (unsigned i = 0; i < ENDINGS; i++) {
        struct sigaction now;
        if (sigaction(endings[i], NULL, &now) == 0 && now.sa_handler == on_signal)
            (void)sigaction(endings[i], &usual, NULL);
    }
}

void interrupt_catch(void) {
    asked = 1;
}

/* On a terminal a line of progress may be open, which is left as it is. */
void interrupt_catch_saying(void) {
    says = finishing + (isatty(STDERR_FILENO) != 1);
    asked = 1;
}

void interrupt_within(unsigned seconds) {
    const struct sigaction ends = {.sa_handler = on_signal};
    (void)sigaction(SIGALRM, &ends, NULL);
    within = (sig_atomic_t)seconds;
    if (interrupted())
        (void)alarm(seconds);
}

bool interrupted(void) {
    return atomic_load(&mark) != 0;
}

void interrupt_end(void) {
    (void)fflush(NULL);
    remove_all();
    _exit(EXIT_INTERRUPTED);
}

/* ---- temporary files ---- */

static sigset_t block(void) {
    sigset_t set, before;
    (void)sigemptyset(&set);
    for (unsigned i = 0; i < ENDINGS; i++)
        (void)sigaddset(&set, endings[i]);
    (void)pthread_sigmask(SIG_BLOCK, &set, &before);
    return before;
}

static void unblock(const sigset_t *before) {
    const int kept = errno;
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = kept;
}

static void note(const char *name) {
    for (unsigned i = 0; i < TEMPORARIES_MAX && strlen(name) < TEMPORARY_NAME_BYTES; i++)
        if (!used[i]) {
            (void)snprintf(names[i], sizeof names[i], "%s", name);
            used[i] = 1;
            return;
        }
}

static void forget(const char *name) {
    for (unsigned i = 0; i < TEMPORARIES_MAX; i++)
        if (used[i] && strcmp(names[i], name) == 0)
            used[i] = 0;
}

int temporary_make(const char *name, mode_t mode) {
    const sigset_t before = block();
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd >= 0)
        note(name);
    unblock(&before);
    return fd;
}

/* Without `replace` a file that came meanwhile is kept where the system can do that. */
static int give(const char *name, const char *to, bool replace) {
    if (replace)
        return rename(name, to);
    if (link(name, to) == 0)
        return unlink(name);
    return errno == EEXIST ? -1 : rename(name, to);
}

int temporary_name(const char *name, const char *to, bool replace) {
    const sigset_t before = block();
    const int rc = give(name, to, replace);
    if (rc == 0)
        forget(name);
    unblock(&before);
    return rc;
}

void temporary_begin(const char *name) {
    const sigset_t before = block();
    note(name);
    unblock(&before);
}

void temporary_end(const char *name) {
    const sigset_t before = block();
    forget(name);
    unblock(&before);
}

void temporary_remove(const char *name) {
    const sigset_t before = block();
    (void)unlink(name);
    forget(name);
    unblock(&before);
}
