/* draft.c - see draft.h. */
#include "draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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
        free(d->name);
        d->name = NULL; /* not ours to remove */
        return refuse(d, status,
                      report_error(EXIT_BAD_INPUT,
                                   "--%s %s: cannot be written: %s; choose another place", option,
                                   path, strerror(errno)));
    }
    d->file = fdopen(fd, "w");
    if (d->file == NULL) {
        (void)close(fd);
        return no_memory(d, status);
    }
    return d;
}

FILE *draft_file(draft *d) {
    return d->file;
}

int draft_finish(draft *d) {
    bool ok = !ferror(d->file) && fflush(d->file) == 0;
    if (d->name != NULL) { /* on the disk before it gets its name */
        ok = ok && fsync(fileno(d->file)) == 0;
        ok = fclose(d->file) == 0 && ok;
        d->file = NULL;
        ok = ok && rename(d->name, d->path) == 0;
    }
    if (!ok)
        return report_error(EXIT_FAILED, "--%s %s: cannot be written: %s", d->option, d->path,
                            strerror(errno));
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
