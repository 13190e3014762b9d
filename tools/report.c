/* report.c - see report.h. */
#include "report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"

static const char *command = "train";
static char last[512]; /* error */
static bool line_open; /* of standard error, by report_line() */

void report_command(const char *name) {
    command = name;
}

int report_error(int status, const char *format, ...) {
    va_list args;
    report_line_end();
    va_start(args, format);
    (void)vsnprintf(last, sizeof last, format, args);
    va_end(args);
    va_start(args, format);
    (void)fprintf(stderr, "uvcc %s: ", command);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
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
    if (line_open)
        (void)fputs("\r\033[K", stderr);
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    line_open = true;
    if (stays || !report_on_terminal())
        report_line_end();
    (void)fflush(stderr);
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

/* ---- JSON ---- */

struct report_json {
    atomic_file *out; /* NULL: nothing is asked for */
};

report_json *report_json_open(const char *path) {
    int status;
    report_json *j = calloc(1, sizeof *j);
    if (j == NULL) {
        (void)report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    if (path != NULL && (j->out = atomic_file_open("json", path, &status)) == NULL) {
        report_json_close(j);
        return NULL;
    }
    return j;
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
    if (json_dumpf(o, to, JSON_INDENT(2)) == 0)
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
