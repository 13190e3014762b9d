/* SPDX-License-Identifier: Apache-2.0 */
/* report.c - see report.h. */
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvcc/host.h>

#include "atomic_file.h"
#include "escape.h"

#define LINE_BYTES 1024u

static const char *command = "train";
static const char *subject; /* of errors; NULL: they say it themselves */
static char last[512];      /* error */
static bool line_open;      /* of standard error, by report_line() */

void report_command(const char *name) {
    command = name;
}

/* A line in the making: it goes out by one write, so that lines of several processes that share a
 * standard error do not mix. Without memory it goes there piece by piece. */
typedef struct line {
    FILE *to;
    char *text;
    size_t len;
} line;

static void line_begin(line *l) {
    *l = (line){0};
    l->to = open_memstream(&l->text, &l->len);
    if (l->to == NULL)
        l->to = stderr;
}

static void line_finish(line *l) {
    if (l->to != stderr && fclose(l->to) == 0)
        (void)fwrite(l->text, 1, l->len, stderr);
    (void)fflush(stderr);
    free(l->text);
}

/* What goes into a line may come from anywhere. */
static void put_line(FILE *to, const char *format, va_list args) {
    char room[LINE_BYTES], *text = room;
    va_list again;
    va_copy(again, args);
    const int len = vsnprintf(room, sizeof room, format, args);
    if (len >= (int)sizeof room && (text = malloc((size_t)len + 1)) != NULL)
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    const char *all = text != NULL ? text : room; /* without memory: what there was room for */
    escaper e = {0};
    escape_put(&e, to, all, strlen(all));
    escape_end(&e, to);
    if (text != room)
        free(text);
}

void report_subject(const char *name) {
    subject = name;
}

/* Whether a text begins with what it is about, as a text of a reader that knows the file does. */
static bool names_subject(const char *text) {
    const size_t n = strlen(subject);
    return strncmp(text, subject, n) == 0 && text[n] == ':';
}

int report_error(int status, const char *format, ...) {
    va_list args;
    line l;
    va_start(args, format);
    (void)vsnprintf(last, sizeof last, format, args);
    va_end(args);
    line_begin(&l);
    if (line_open)
        (void)fputc('\n', l.to);
    line_open = false;
    (void)fprintf(l.to, *command != '\0' ? "uvcc %s: " : "uvcc: ", command);
    if (subject != NULL && !names_subject(last)) {
        escaper e = {0};
        escape_put(&e, l.to, subject, strlen(subject));
        escape_end(&e, l.to);
        (void)fputs(": ", l.to);
    }
    va_start(args, format);
    put_line(l.to, format, args);
    va_end(args);
    (void)fputc('\n', l.to);
    line_finish(&l);
    return status;
}

const char *report_last(void) {
    return last;
}

/* ---- progress ---- */

bool report_on_terminal(void) {
    return isatty(STDERR_FILENO) == 1;
}

void report_line(bool stays, const char *format, ...) {
    va_list args;
    line l;
    line_begin(&l);
    if (line_open)
        (void)fputs("\r\033[K", l.to);
    va_start(args, format);
    put_line(l.to, format, args);
    va_end(args);
    line_open = !stays && report_on_terminal();
    if (!line_open)
        (void)fputc('\n', l.to);
    line_finish(&l);
}

void report_line_end(void) {
    if (line_open)
        (void)fputc('\n', stderr);
    line_open = false;
}

void report_line_clear(void) {
    if (line_open)
        (void)fputs("\r\033[K", stderr);
    line_open = false;
}

/* Seconds between lines: somebody looks at them, or they are kept. */
#define TERMINAL_EVERY_S 0.1
#define LINES_EVERY_S    5.0

static double now_s(void) {
    return (double)uvcc_host_now_ns() * 1e-9;
}

void report_pace_start(report_pace *p, bool asked) {
    *p = (report_pace){.on = asked || report_on_terminal(), .start_s = now_s()};
    p->last_s = p->start_s;
}

bool report_pace_due(report_pace *p, bool now) {
    const double every = report_on_terminal() ? TERMINAL_EVERY_S : LINES_EVERY_S, t = now_s();
    if (!p->on || (!now && t - p->last_s < every))
        return false;
    p->last_s = t;
    return true;
}

double report_pace_elapsed(const report_pace *p) {
    return now_s() - p->start_s;
}

const char *report_pace_left(report_pace *p, double done, double of) {
    const double left = done > 0 ? report_pace_elapsed(p) / done * (of - done) : INFINITY;
    const unsigned long s = left < 1e9 ? (unsigned long)(left + 0.5) : 0;
    if (!(left < 1e9))
        p->left[0] = '\0';
    else if (s < 60)
        (void)snprintf(p->left, sizeof p->left, "%lu s left", s);
    else if (s < 3600)
        (void)snprintf(p->left, sizeof p->left, "%lu min %02lu s left", s / 60, s % 60);
    else
        (void)snprintf(p->left, sizeof p->left, "%lu h %02lu min left", s / 3600, s / 60 % 60);
    return p->left;
}

/* ---- standard output ---- */

static bool output_said; /* that it could not be written */
static int output_why;   /* errno of the first write to it that failed, if it was seen */

void report_flush(FILE *to) {
    if (fflush(to) != 0 && to == stdout && output_why == 0)
        output_why = errno;
}

void report_output_said(int error) {
    output_said = output_said || error != 0;
}

/* With SIGPIPE ignored a reader that went away shows here: as quiet as with it. */
int report_output(int broken) {
    const bool before = ferror(stdout) != 0;
    report_flush(stdout);
    const int why = output_why;
    if (why == 0 && !before)
        return 0;
    if (!output_said && why != EPIPE)
        (void)report_error(broken, "standard output cannot be written: %s",
                           why != 0 ? strerror(why) : "a write failed");
    output_said = true;
    return broken;
}

int report_output_end(int status, int broken) {
    const int failed = report_output(broken);
    if (fclose(stdout) != 0 && failed == 0) /* some file systems tell at the end only */
        (void)report_error(broken, "standard output cannot be written: %s", strerror(errno));
    else if (failed == 0)
        return status;
    return status != 0 ? status : broken;
}

/* Descriptors that are closed would be taken by the next files that are opened. Those stand in the
 * way here: writing to what was closed is an error, as it should be. */
void report_begin(void) {
    static const int ways[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", ways[fd]) != fd)
            _exit(EXIT_FAILED);
}

/* ---- JSON ---- */

struct report_json {
    atomic_file *out; /* NULL: nothing is asked for */
};

static report_json *open_json(const char *path,
                              atomic_file *(*open_as)(const char *, const char *, int *)) {
    int status;
    report_json *j = calloc(1, sizeof *j);
    if (j == NULL) {
        (void)report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    if (path != NULL && (j->out = open_as("json", path, &status)) == NULL) {
        report_json_close(j);
        return NULL;
    }
    return j;
}

report_json *report_json_open(const char *path) {
    return open_json(path, atomic_file_open);
}

report_json *report_json_open_own(const char *path) {
    return open_json(path, atomic_file_open_own);
}

json_t *report_hex(const uint8_t *bytes, size_t len) {
    char text[2 * 32 + 1] = "";
    for (size_t i = 0; i < len && i < 32; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

int report_json_put(report_json *j, json_t *o) {
    if (j->out == NULL) {
        json_decref(o);
        return EXIT_DONE;
    }
    if (o == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    FILE *to = atomic_file_stream(j->out); /* which remembers a write that failed */
    const size_t plain = isatty(fileno(to)) == 1 ? JSON_ENSURE_ASCII : 0; /* see escape.h */
    if (json_dumpf(o, to, JSON_INDENT(2) | plain) == 0)
        (void)fputc('\n', to);
    else if (!ferror(to)) {
        json_decref(o);
        return report_error(EXIT_FAILED, "out of memory");
    }
    json_decref(o);
    return atomic_file_finish(j->out);
}

void report_json_close(report_json *j) {
    if (j == NULL)
        return;
    atomic_file_close(j->out);
    free(j);
}

/* ---- summary ---- */

FILE *report_stream(const char *json) {
    return json != NULL && strcmp(json, "-") == 0 ? stderr : stdout;
}
