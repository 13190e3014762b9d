/* SPDX-License-Identifier: Apache-2.0 */
/* atomic_file.c - see atomic_file.h. */
#include "atomic_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "place.h"
#include "report.h"

struct atomic_file {
    const char *option, *path;
    place place;
    char *name; /* the other name; NULL where the place is written as it is and once it is done */
    FILE *file;
};

static atomic_file *refuse(atomic_file *a, int *status, int as) {
    *status = as;
    atomic_file_close(a);
    return NULL;
}

static atomic_file *no_memory(atomic_file *a, int *status) {
    return refuse(a, status, report_error(EXIT_FAILED, "out of memory"));
}

/* An option of a command, or the member of a file's that names the place. */
static const char *dashes(const char *option) {
    return strchr(option, '.') == NULL ? "--" : "";
}

static int cannot(const char *option, const char *path, int why) {
    if (why == EISDIR)
        return report_error(EXIT_BAD_INPUT, "%s%s %s: is a directory; name a file", dashes(option),
                            option, path);
    return report_error(EXIT_BAD_INPUT, "%s%s %s: cannot be written: %s; choose another place",
                        dashes(option), option, path, strerror(why));
}

/* The process id keeps two runs apart. The new file may be read by whom the old one might. */
static int open_beside(atomic_file *a, bool own) {
    const size_t room = strlen(a->place.path) + 32;
    a->name = malloc(room);
    if (a->name == NULL) {
        errno = ENOMEM;
        return -1;
    }
    (void)snprintf(a->name, room, "%s.%ld.tmp", a->place.path, (long)getpid());
    const int fd = temporary_make(a->name, own ? 0600 : 0666);
    const int why = errno;
    if (fd >= 0 && a->place.there && !own)
        (void)fchmod(fd, a->place.mode);
    if (fd < 0) {
        free(a->name);
        a->name = NULL; /* not ours to remove */
    }
    errno = why;
    return fd;
}

static atomic_file *open_it(const char *option, const char *path, bool own, int *status) {
    atomic_file *a = calloc(1, sizeof *a);
    if (a == NULL)
        return no_memory(a, status);
    a->option = option;
    a->path = path;
    if (strcmp(path, "-") == 0) {
        a->file = stdout;
        return a;
    }
    const int why = place_find(&a->place, path);
    if (why != 0)
        return refuse(a, status, cannot(option, path, why));
    const int fd = a->place.as_it_is ? place_open(&a->place) : open_beside(a, own);
    if (fd < 0)
        return refuse(a, status, cannot(option, path, errno));
    a->file = fdopen(fd, "w");
    if (a->file == NULL) {
        (void)close(fd);
        return no_memory(a, status);
    }
    return a;
}

atomic_file *atomic_file_open(const char *option, const char *path, int *status) {
    return open_it(option, path, false, status);
}

atomic_file *atomic_file_open_own(const char *option, const char *path, int *status) {
    return open_it(option, path, true, status);
}

/* What is no file is not opened: the reader of a pipe would see its end. */
int atomic_file_check(const char *option, const char *path) {
    place p;
    int status = EXIT_DONE;
    if (path == NULL || strcmp(path, "-") == 0)
        return EXIT_DONE;
    int why = place_find(&p, path);
    if (why == 0 && !p.as_it_is)
        atomic_file_close(open_it(option, path, true, &status));
    else if (why == 0 && p.number < 0 && access(path, W_OK) != 0)
        why = errno;
    place_forget(&p);
    return why != 0 ? cannot(option, path, why) : status;
}

/* A device or a pipe may take several. What cannot be found is refused when it is opened. */
static bool same_file(const char *a, const char *b) {
    place x, y;
    const bool found_x = place_find(&x, a) == 0, found_y = place_find(&y, b) == 0;
    const bool same =
        found_x && found_y && !x.as_it_is && !y.as_it_is && strcmp(x.path, y.path) == 0;
    place_forget(&x);
    place_forget(&y);
    return same;
}

int atomic_file_apart(const output_use *uses, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (uses[i].path == NULL)
            continue;
        if (strcmp(uses[i].path, "-") == 0 && strcmp(uses[i].option, "json") != 0)
            return report_error(EXIT_BAD_INPUT,
                                "--%s -: standard output takes --json alone; name a file",
                                uses[i].option);
        for (size_t k = 0; k < i; k++)
            if (uses[k].path != NULL && same_file(uses[i].path, uses[k].path))
                return report_error(EXIT_BAD_INPUT,
                                    "--%s %s: is the file of --%s too; name another",
                                    uses[i].option, uses[i].path, uses[k].option);
    }
    return EXIT_DONE;
}

int atomic_file_spares(const char *option, const char *path, const output_use *read, size_t count) {
    struct stat to, from;
    if (strcmp(path, "-") == 0 || stat(path, &to) != 0 || !S_ISREG(to.st_mode))
        return EXIT_DONE;
    for (size_t i = 0; i < count; i++)
        if (read[i].path != NULL && stat(read[i].path, &from) == 0 && from.st_dev == to.st_dev &&
            from.st_ino == to.st_ino)
            return report_error(EXIT_BAD_INPUT,
                                "--%s %s: is the file of %s, which it would replace; "
                                "name another",
                                option, path, read[i].option);
    return EXIT_DONE;
}

FILE *atomic_file_stream(atomic_file *a) {
    return a->file;
}

enum { WRITE_FAILED = -1 }; /* some time ago: its errno is another call's by now */

/* What stood in the way of a write some time ago may do so still; the file goes anyway. */
static int ask_why(int fd) {
    static const char zeros[4096];
    return write(fd, zeros, sizeof zeros) < 0 ? errno : WRITE_FAILED;
}

/* 0, or errno of what stands in the way. */
static int flush(FILE *f) {
    if (fflush(f) != 0)
        return errno;
    return ferror(f) ? WRITE_FAILED : 0;
}

/* The same, of all that was written; a file is on the disk then. */
static int settle(const atomic_file *a) {
    int error = flush(a->file);
    if (a->name != NULL && error == WRITE_FAILED)
        error = ask_why(fileno(a->file));
    if (a->name != NULL && error == 0 && fsync(fileno(a->file)) != 0)
        error = errno;
    return error;
}

static int judge(const atomic_file *a, int error) {
    return error == 0 ? EXIT_DONE
                      : report_error(EXIT_FAILED, "%s%s %s: cannot be written: %s",
                                     dashes(a->option), a->option, a->path,
                                     error == WRITE_FAILED ? "a write failed" : strerror(error));
}

int atomic_file_settle(atomic_file *a) {
    return judge(a, settle(a));
}

int atomic_file_finish(atomic_file *a) {
    int error = settle(a);
    if (a->file == stdout) {
        report_output_said(error);
    } else {
        if (fclose(a->file) != 0 && error == 0)
            error = errno;
        a->file = NULL;
        if (a->name != NULL && error == 0 && temporary_name(a->name, a->place.path, true) != 0)
            error = errno;
    }
    if (error != 0)
        return judge(a, error);
    free(a->name);
    a->name = NULL;
    return EXIT_DONE;
}

void atomic_file_close(atomic_file *a) {
    if (a == NULL)
        return;
    if (a->file != NULL && a->file != stdout)
        (void)fclose(a->file);
    if (a->name != NULL)
        temporary_remove(a->name);
    free(a->name);
    place_forget(&a->place);
    free(a);
}
