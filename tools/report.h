/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what all commands say: one line per error, a line of progress, results as JSON. Errors
 * and progress go to standard error, results to standard output. */
#ifndef UVCC_TOOLS_REPORT_H
#define UVCC_TOOLS_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses of the tool. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_INTERRUPTED = 130 };

/* First thing in main(): descriptors 0 to 2 that are closed are opened on /dev/null. */
void report_begin(void);
/* The command that error lines name; "train" at first; "" before there is any. */
void report_command(const char *name);
/* One line on standard error, below a line of progress; returns `status`. Lines of errors and of
 * progress are escaped (escape.h). */
int report_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What errors are about from now on, such as a configuration's file: named by each that does not
 * begin with it. The caller's; NULL: they name it themselves, as at first. */
void report_subject(const char *name);
/* What the last of them said, without the command; "" before the first. */
const char *report_last(void);

/* A line of progress. On a terminal the next one takes its place, unless it `stays`. */
void report_line(bool stays, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the line, or takes it away, so that other text can follow. */
void report_line_end(void);
void report_line_clear(void);
/* Whether anybody sees lines change. */
bool report_on_terminal(void);

/* When to show a line of progress: ten times a second on a terminal, every five seconds elsewhere,
 * and there only if --progress `asked` for it. */
typedef struct report_pace {
    bool on;
    double start_s, last_s;
    char left[32];
} report_pace;
void report_pace_start(report_pace *p, bool asked);
/* Whether a line is due, which is then shown; `now`: whatever the time is. */
bool report_pace_due(report_pace *p, bool now);
double report_pace_elapsed(const report_pace *p);
/* "12 s left", by what is done of all; "" if nobody knows. Valid until the next call. */
const char *report_pace_left(report_pace *p, double done, double of);

/* Shows what was written so far; remembers what stands in the way of standard output. */
void report_flush(FILE *to);
/* Flushes standard output: 0, or `broken` after reporting that it cannot be written; quietly if its
 * reader went away. It is reported once. */
int report_output(int broken);
/* Last thing in main(): the same, and it is closed. Returns `status`, or `broken` instead of 0. */
int report_output_end(int status, int broken);
/* Another line has said so; 0: there was nothing to say. */
void report_output_said(int error);

/* The JSON file is made under another name beside it at once, so that a place that cannot be
 * written is known before the training, and takes its name when it is whole. */
typedef struct report_json report_json;
/* path may be NULL (none) or "-". NULL after reporting the error. */
report_json *report_json_open(const char *path);
/* The same for what is this user's alone: a new file is for no other. */
report_json *report_json_open_own(const char *path);
/* At most 32 bytes as hexadecimal digits; NULL without memory. */
json_t *report_hex(const uint8_t *bytes, size_t len);
/* Writes an object, which it takes; NULL: there was no memory for it. An exit status. */
int report_json_put(report_json *j, json_t *o);
/* Also takes away what was not finished. */
void report_json_close(report_json *j);

/* Where a summary goes: standard output, unless the JSON is alone there. */
FILE *report_stream(const char *json);

#endif
