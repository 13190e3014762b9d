/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - what a process says for machines that keep it: one JSON object per line, or text, to a
 * file or standard error. A line has a time, a level, the party, an event (what kind of line it
 * is), and where it is known the worker, its session, run, step, op and message.
 *
 * Lines of one kind are limited in number per second; the next one that is let through says how
 * many were not. A log that cannot be written ends nothing: what was lost is counted and said when
 * it can be written again. */
#ifndef UVCC_TOOLS_PARTY_LOG_H
#define UVCC_TOOLS_PARTY_LOG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <uvcc/types.h>

#include "../flags.h"

enum { LOG_LINE_BYTES = 1024, LOG_KINDS = 64 };

/* The member "log" of a configuration. */
typedef struct log_config {
    const char *file; /* NULL: standard error */
    uint32_t level;   /* uvcc_log_level: lines up to that one are written */
    bool json;
    uint32_t rate; /* lines of a kind per second; 0: no limit */
    uint8_t party;
} log_config;
/* Of {"file", "level", "format", "rate"}; o NULL: the defaults (standard error, info, text, 20).
 * file is the JSON text's, relative to whatever the caller says. 0, or -1 and one line that begins
 * with "log". */
int log_config_read(log_config *out, const json_t *o, const flag_message *m);

/* Where a line comes from. -1: not known, or of no one worker. */
typedef struct log_place {
    int32_t replica, stage, tensor_rank;
    uint64_t sid; /* the sid_tag of its frames; 0: none */
    int64_t run, step, op, message, peer;
} log_place;
extern const log_place log_nowhere;

typedef struct party_log party_log;
/* The time of a line, in ns since 1970; NULL: the system's. */
typedef uint64_t log_clock(void *user);
/* 0, or -1 and one line. */
int log_open(party_log **out, const log_config *c, log_clock *clock, void *user,
             const flag_message *m);
void log_close(party_log *l); /* says what was dropped and not told; NULL is allowed */

/* `event` is a word, such as "ready": what lines are limited by. at NULL: log_nowhere. l NULL:
 * nothing is written. */
void log_write(party_log *l, uvcc_log_level level, const char *event, const log_place *at,
               const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A line of the library (uvcc_logger), whose kind is its text without numbers; step, op, message
 * and party that it names become members. */
void log_line(party_log *l, uvcc_log_level level, const char *event, const log_place *at,
              const char *line);

typedef struct log_counts {
    uint64_t lines, dropped, lost; /* dropped: by the limits; lost: could not be written */
} log_counts;
void log_get_counts(const party_log *l, log_counts *out);

#endif
