/* atomic_file.c - see atomic_file.h. */
#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

struct atomic_file {
    const char *option, *path;
    char *name; /* the other name; NULL on standard output and once the file has its own */
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

/* The process id keeps two runs apart; O_EXCL, so that nothing that lies there is written over. */
atomic_file *atomic_file_open(const char *option, const char *path, int *status) {
    atomic_file *a = calloc(1, sizeof *a);
    if (a == NULL)
        return no_memory(a, status);
    a->option = option;
    a->path = path;
    if (strcmp(path, "-") == 0) {
        a->file = stdout;
        return a;
    }
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return refuse(
            a, status,
            report_error(EXIT_BAD_INPUT, "--%s %s: is a directory; name a file", option, path));
    size_t room = strlen(path) + 32;
    a->name = malloc(room);
    if (a->name == NULL)
        return no_memory(a, status);
    (void)snprintf(a->name, room, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(a->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        *status =
            report_error(EXIT_BAD_INPUT, "--%s %s: cannot be written: %s; choose another place",
                         option, path, strerror(errno));
        free(a->name);
        a->name = NULL; /* not ours to remove */
        return refuse(a, status, *status);
    }
    a->file = fdopen(fd, "w");
    if (a->file == NULL) {
        (void)close(fd);
        return no_memory(a, status);
    }
    return a;
}

int atomic_file_check(const char *option, const char *path) {
    int status = EXIT_DONE;
    if (path != NULL)
        atomic_file_close(atomic_file_open(option, path, &status));
    return status;
}

FILE *atomic_file_stream(atomic_file *a) {
    return a->file;
}

enum { WRITE_FAILED = -1 }; /* some time ago: its errno is another call's by now */

/* 0, or errno of what stands in the way. */
static int flush(FILE *f) {
    if (fflush(f) != 0)
        return errno;
    return ferror(f) ? WRITE_FAILED : 0;
}

int atomic_file_finish(atomic_file *a) {
    int error = flush(a->file);
    if (a->name != NULL) { /* on the disk before it gets its name */
        if (error == 0 && fsync(fileno(a->file)) != 0)
            error = errno;
        if (fclose(a->file) != 0 && error == 0)
            error = errno;
        a->file = NULL;
        if (error == 0 && rename(a->name, a->path) != 0)
            error = errno;
    }
    if (error != 0)
        return report_error(EXIT_FAILED, "--%s %s: cannot be written: %s", a->option, a->path,
                            error == WRITE_FAILED ? "a write failed" : strerror(error));
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
        (void)unlink(a->name);
    free(a->name);
    free(a);
}
