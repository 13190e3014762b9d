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

/* The command that error lines name; "train" at first. */
void report_command(const char *name);
/* One line on standard error, below a line of progress; returns `status`. */
int report_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the last of them said, without the command; "" before the first. */
const char *report_last(void);

/* A line of progress. On a terminal the next one takes its place, unless it `stays`. */
void report_line(bool stays, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Keeps the line, or takes it away, so that other text can follow. */
void report_line_end(void);
void report_line_clear(void);
/* Whether anybody sees lines change. */
bool report_on_terminal(void);

/* The JSON file is made under another name beside it at once, so that a place that cannot be
 * written is known before the training, and takes its name when it is whole. */
typedef struct report_json report_json;
/* path may be NULL (none) or "-". NULL after reporting the error. */
report_json *report_json_open(const char *path);
/* At most 32 bytes as hexadecimal digits; NULL without memory. */
json_t *report_hex(const uint8_t *bytes, size_t len);
/* Writes an object, which it takes; NULL: there was no memory for it. An exit status. */
int report_json_put(report_json *j, json_t *o);
/* Also takes away what was not finished. */
void report_json_close(report_json *j);

/* Where a summary goes: standard output, unless the JSON is alone there. */
FILE *report_stream(const char *json);

#endif
