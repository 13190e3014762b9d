/* report.h - what `uvcc train` shows: one line per error, progress, the summary, JSON; `uvcc
 * replay` uses some of it. */
#ifndef UVCC_TOOLS_REPORT_H
#define UVCC_TOOLS_REPORT_H

#include <jansson.h>

#include "options.h"
#include "train.h"

/* The command that error lines name; "train" at first. */
void report_command(const char *name);
/* One line on standard error; returns `status`. */
int report_error(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The JSON file is made under another name beside it at once, so that a place that cannot be
 * written is known before the training, and takes its name when it is whole. */
typedef struct report_json report_json;
/* path may be NULL (none) or "-". NULL after reporting the error. */
report_json *report_json_open(const char *path);
/* Writes the result; an exit status. It has the members of `profile` too, which it takes; NULL:
 * none. */
int report_json_write(report_json *j, const train_result *r, json_t *profile);
/* At most 32 bytes as hexadecimal digits; NULL without memory. */
json_t *report_hex(const uint8_t *bytes, size_t len);
/* Any object, which it takes; NULL: there was no memory for it. */
int report_json_put(report_json *j, json_t *o);
/* Also takes away what was not finished. */
void report_json_close(report_json *j);

typedef struct progress {
    bool on, terminal, line_open;
    uint32_t epochs, steps_per_epoch, batch;
    double start_s, last_s;
} progress;
void progress_start(progress *p, const train_options *o, uint32_t steps_per_epoch);
/* True if it is time for another report after `steps` finished training steps. */
bool progress_due(const progress *p, uint32_t steps);
void progress_show(progress *p, uint32_t steps, double loss, uint64_t bytes, uint64_t rounds);
/* Ends an open line, so that other text can follow. */
void progress_end(progress *p);

/* Where the summary goes: standard output, unless the JSON is alone there. */
FILE *report_stream(const char *json);
void report_summary(const train_options *o, const train_result *r);

#endif
