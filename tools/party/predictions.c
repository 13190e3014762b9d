/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.c - see predictions.h. */
#define _GNU_SOURCE
#include "predictions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../dataset.h"
#include "../report.h"

#define HEAD "row,class\n"

static int failed(const predictions *p) {
    return report_error(EXIT_FAILED, "output.predictions: %s cannot be written: %s", p->path,
                        strerror(errno));
}

static int open_file(predictions *p) {
    const int fd = open(p->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return failed(p);
    p->file = fdopen(fd, "r+");
    if (p->file == NULL) {
        (void)close(fd);
        return failed(p);
    }
    return EXIT_DONE;
}

/* Where `want` lines end, the head among them; *lines: as many as are there, at most so many. None
 * if the file has another head. */
static long find(FILE *file, uint32_t want, uint32_t *lines) {
    char *line = NULL;
    size_t room = 0;
    long end = 0;
    ssize_t n;
    *lines = 0;
    rewind(file);
    while (*lines < want && (n = getline(&line, &room, file)) > 0 && line[n - 1] == '\n' &&
           (*lines > 0 || strcmp(line, HEAD) == 0)) {
        end = ftell(file);
        ++*lines;
    }
    free(line);
    return end;
}

/* Behind the line of prediction `first`: what follows goes. A row whose line is not there, since
 * somebody took it away, gets one without a class. */
static int seek(predictions *p, uint32_t first) {
    uint32_t lines;
    const long end = find(p->file, first > 0 ? first + 1 : 0, &lines);
    if (fseek(p->file, end, SEEK_SET) != 0 || ftruncate(fileno(p->file), end) != 0)
        return failed(p);
    if (lines == 0)
        (void)fputs(HEAD, p->file);
    for (uint32_t i = lines > 0 ? lines - 1 : 0; i < first; i++)
        (void)fprintf(p->file, "%u,\n", dataset_test_row(i) + 1);
    return EXIT_DONE;
}

int predictions_put(predictions *p, uint32_t first, const uint32_t *class, uint32_t count) {
    int status = p->path != NULL && p->file == NULL ? open_file(p) : EXIT_DONE;
    if (status != EXIT_DONE || p->path == NULL)
        return status;
    if (p->at != first || first == 0)
        status = seek(p, first);
    if (status != EXIT_DONE)
        return status;
    for (uint32_t i = 0; i < count; i++)
        (void)fprintf(p->file, "%u,%u\n", dataset_test_row(first + i) + 1, class[i]);
    p->at = first + count;
    /* On the disk before a checkpoint says that the step is done. */
    return fflush(p->file) != 0 || ferror(p->file) != 0 || fsync(fileno(p->file)) != 0 ? failed(p)
                                                                                       : EXIT_DONE;
}

void predictions_close(predictions *p) {
    if (p->file != NULL)
        (void)fclose(p->file);
    free(p->path);
    *p = (predictions){0};
}
