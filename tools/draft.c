/* draft.c - see draft.h. */
#include "draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

struct draft {
    const char *option, *path;
    char *name; /* the other name; NULL on standard output and once the file has its own */
    FILE *file;
};

static draft *refuse(draft *d, int *status, int as) {
    *status = as;
    draft_close(d);
    return NULL;
}

static draft *no_memory(draft *d, int *status) {
    return refuse(d, status, report_error(EXIT_FAILED, "out of memory"));
}

draft *draft_open(const char *option, const char *path, int *status) {
    draft *d = calloc(1, sizeof *d);
    if (d == NULL)
        return no_memory(d, status);
    d->option = option;
    d->path = path;
    if (strcmp(path, "-") == 0) {
        d->file = stdout;
        return d;
    }
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return refuse(
            d, status,
            report_error(EXIT_BAD_INPUT, "--%s %s: is a directory; name a file", option, path));
    size_t room = strlen(path) + 32;
    d->name = malloc(room);
    if (d->name == NULL)
        return no_memory(d, status);
    (void)snprintf(d->name, room, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(d->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        *status =
            report_error(EXIT_BAD_INPUT, "--%s %s: cannot be written: %s; choose another place",
                         option, path, strerror(errno));
        free(d->name);
        d->name = NULL; /* not ours to remove */
        return refuse(d, status, *status);
    }
    d->file = fdopen(fd, "w");
    if (d->file == NULL) {
        (void)close(fd);
        return no_memory(d, status);
    }
    return d;
}

int draft_check(const char *option, const char *path) {
    int status = EXIT_DONE;
    if (path != NULL)
        draft_close(draft_open(option, path, &status));
    return status;
}

FILE *draft_file(draft *d) {
    return d->file;
}

enum { WRITE_FAILED = -1 }; /* some time ago: its errno is another call's by now */

/* 0, or errno of what stands in the way. */
static int flush(FILE *f) {
    if (fflush(f) != 0)
        return errno;
    return ferror(f) ? WRITE_FAILED : 0;
}

int draft_finish(draft *d) {
    int error = flush(d->file);
    if (d->name != NULL) { /* on the disk before it gets its name */
        if (error == 0 && fsync(fileno(d->file)) != 0)
            error = errno;
        if (fclose(d->file) != 0 && error == 0)
            error = errno;
        d->file = NULL;
        if (error == 0 && rename(d->name, d->path) != 0)
            error = errno;
    }
    if (error != 0)
        return report_error(EXIT_FAILED, "--%s %s: cannot be written: %s", d->option, d->path,
                            error == WRITE_FAILED ? "a write failed" : strerror(error));
    free(d->name);
    d->name = NULL;
    return EXIT_DONE;
}

void draft_close(draft *d) {
    if (d == NULL)
        return;
    if (d->file != NULL && d->file != stdout)
        (void)fclose(d->file);
    if (d->name != NULL)
        (void)unlink(d->name);
    free(d->name);
    free(d);
}
