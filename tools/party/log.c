/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - see log.h. A line is made in one buffer and written by one write(), so that several
 * processes may append to one file. Kinds are counted in a small table: a kind that is not in it
 * takes the place of the one that was silent longest. */
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

const log_place log_nowhere = {-1, -1, -1, 0, -1, -1, -1, -1, -1};

typedef struct kind {
    uint64_t hash; /* 0: free */
    uint64_t second, last;
    uint32_t lines; /* in that second */
    uint64_t dropped;
    char event[24];
} kind;

struct party_log {
    log_config c;
    int fd;
    bool ours; /* close it */
    log_clock *clock;
    void *user;
    kind kind[LOG_KINDS];
    uint64_t unsaid; /* lost since the last line that was written */
    bool torn;       /* a line was written in part: the next one begins a line of its own */
    log_counts counts;
};

/* ---- configuration ---- */

static const char *const levels[] = {[UVCC_LOG_ERROR] = "error",
                                     [UVCC_LOG_WARN] = "warn",
                                     [UVCC_LOG_INFO] = "info",
                                     [UVCC_LOG_DEBUG] = "debug"};
enum { LEVELS = sizeof levels / sizeof levels[0], RATE = 20, RATE_MAX = 1000000 };

static int read_level(log_config *out, const json_t *v, const flag_message *m) {
    for (uint32_t i = 0; i < LEVELS; i++)
        if (levels[i] != NULL && json_is_string(v) &&
            strcmp(json_string_value(v), levels[i]) == 0) {
            out->level = i;
            return 0;
        }
    return flag_fail(m, "log.level: give \"error\", \"warn\", \"info\" or \"debug\"");
}

static int read_member(log_config *out, const char *name, const json_t *v, const flag_message *m) {
    const char *text = json_string_value(v);
    if (strcmp(name, "level") == 0)
        return read_level(out, v, m);
    if (strcmp(name, "file") == 0) {
        out->file = text;
        return text != NULL && *text != '\0' ? 0 : flag_fail(m, "log.file: give a path");
    }
    if (strcmp(name, "format") == 0) {
        out->json = text != NULL && strcmp(text, "json") == 0;
        return out->json || (text != NULL && strcmp(text, "text") == 0)
                   ? 0
                   : flag_fail(m, "log.format: give \"text\" or \"json\"");
    }
    if (strcmp(name, "rate") == 0) {
        const json_int_t n = json_integer_value(v);
        out->rate = (uint32_t)n;
        return json_is_integer(v) && n >= 0 && n <= RATE_MAX
                   ? 0
                   : flag_fail(m,
                               "log.rate: give the lines of a kind per second, 0 (no limit) to "
                               "%d",
                               RATE_MAX);
    }
    return flag_fail(m, "log.%.40s: there is no such member; it has file, level, format, rate",
                     name);
}

int log_config_read(log_config *out, const json_t *o, const flag_message *m) {
    const char *name;
    json_t *v;
    *out = (log_config){.level = UVCC_LOG_INFO, .rate = RATE};
    if (o == NULL)
        return 0;
    if (!json_is_object(o))
        return flag_fail(m, "log: give an object with file, level, format, rate");
    json_object_foreach((json_t *)(uintptr_t)o, name,
                        v) if (read_member(out, name, v, m) != 0) return -1;
    return 0;
}

/* ---- life ---- */

static uint64_t wall_clock(void *user) {
    struct timespec t = {0};
    (void)user;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Whoever reads a pipe could hold up the job, or end it by going away. Without O_NONBLOCK the
 * opening of one would wait for a reader. */
static int open_file(const char *path, int *fd, const flag_message *m) {
    struct stat file = {0};
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0640);
    const int why = errno;
    const bool there = *fd >= 0 ? fstat(*fd, &file) == 0 : stat(path, &file) == 0;
    if (there && S_ISFIFO(file.st_mode))
        (void)flag_fail(m,
                        "log.file: %s is a pipe: give a file, or none and take the lines from "
                        "standard error",
                        path);
    else if (*fd < 0)
        (void)flag_fail(m, "log.file: %s cannot be written: %s", path, strerror(why));
    else
        return 0;
    if (*fd >= 0)
        (void)close(*fd);
    return -1;
}

int log_open(party_log **out, const log_config *c, log_clock *clock, void *user,
             const flag_message *m) {
    party_log *l = calloc(1, sizeof *l);
    if (l == NULL)
        return flag_fail(m, "out of memory");
    l->c = *c;
    l->c.file = NULL; /* the caller's */
    l->clock = clock != NULL ? clock : wall_clock;
    l->user = user;
    l->fd = STDERR_FILENO;
    l->ours = c->file != NULL;
    if (l->ours && open_file(c->file, &l->fd, m) != 0) {
        free(l);
        return -1;
    }
    *out = l;
    return 0;
}

/* ---- lines ---- */

typedef struct line {
    char bytes[LOG_LINE_BYTES + 512];
    size_t len;
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(line *l, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t room = sizeof l->bytes - 1 - l->len; /* 1: the newline */
    const int n = vsnprintf(l->bytes + l->len, room, format, args);
    va_end(args);
    l->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

/* How many bytes of UTF-8 stand here, 0: none. */
static size_t character(const unsigned char *p) {
    const size_t n = p[0] < 0x80                            ? 1
                     : (p[0] & 0xe0) == 0xc0 && p[0] > 0xc1 ? 2
                     : (p[0] & 0xf0) == 0xe0                ? 3
                     : (p[0] & 0xf8) == 0xf0 && p[0] < 0xf5 ? 4
                                                            : 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong =
        (n == 3 && p[0] == 0xe0 && p[1] < 0xa0) || (n == 4 && p[0] == 0xf0 && p[1] < 0x90);
    const bool surrogate = n == 3 && p[0] == 0xed && p[1] >= 0xa0;
    const bool beyond = n == 4 && p[0] == 0xf4 && p[1] >= 0x90;
    return overlong || surrogate || beyond ? 0 : n;
}

/* A text of any bytes: JSON's escapes, or for people, whose terminal it must not command, \xNN. It
 * becomes at most that long, and a few bytes more. */
static void add_text(line *l, const char *text, size_t most, bool json) {
    const size_t end = l->len + most;
    const unsigned char *p = (const unsigned char *)text;
    while (*p != '\0' && l->len < end) {
        const size_t n = character(p);
        const bool c1 = n == 2 && p[0] == 0xc2 && p[1] < 0xa0;
        if (n == 0 || *p < 0x20 || *p == 0x7f || c1) {
            const unsigned code = c1 ? p[1] : *p;
            if (json && n == 0)
                add(l, "\\ufffd");
            else
                add(l, json ? "\\u%04x" : "\\x%02x", code);
            p += c1 ? 2 : 1;
        } else {
            add(l, "%s%.*s", json && (*p == '"' || *p == '\\') ? "\\" : "", (int)n,
                (const char *)p);
            p += n;
        }
    }
    if (*p != '\0')
        add(l, "...");
}

static void add_time(line *l, uint64_t ns) {
    const time_t s = (time_t)(ns / NS_PER_S);
    struct tm t;
    char text[32];
    if (gmtime_r(&s, &t) == NULL)
        return;
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &t);
    add(l, "%s.%03uZ", text, (unsigned)(ns % NS_PER_S / 1000000));
}

static void add_places(line *l, const log_place *at, bool json) {
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"run", at->run},
                   {"step", at->step},
                   {"op", at->op},
                   {"message", at->message},
                   {"peer", at->peer}};
    if (at->replica >= 0)
        add(l, json ? ",\"worker\":\"r%d-s%d-t%d\"" : " r%d-s%d-t%d", at->replica, at->stage,
            at->tensor_rank);
    if (at->sid != 0 && json)
        add(l, ",\"sid\":\"%016" PRIx64 "\"", at->sid);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].value >= 0)
            add(l, json ? ",\"%s\":%" PRId64 : " %s=%" PRId64, numbers[i].name, numbers[i].value);
}

static bool write_all(const party_log *l, const char *bytes, size_t len, bool *some) {
    ssize_t n;
    do
        n = write(l->fd, bytes, len);
    while (n < 0 && errno == EINTR);
    *some = n > 0;
    return n == (ssize_t)len;
}

static void write_out(party_log *l, line *b) {
    bool some = false;
    b->bytes[b->len++] = '\n';
    if ((!l->torn || write_all(l, "\n", 1, &some)) && write_all(l, b->bytes, b->len, &some)) {
        l->torn = false;
        l->counts.lines++;
        return;
    }
    l->torn |= some;
    l->counts.lost++;
    l->unsaid++;
}

static void put(party_log *l, uint64_t now, uvcc_log_level level, const char *event,
                const log_place *at, const char *text, uint64_t dropped) {
    const bool json = l->c.json;
    const uint64_t lost = l->unsaid;
    line b = {.len = 0};
    add(&b, json ? "{\"time\":\"" : "");
    add_time(&b, now);
    if (json)
        add(&b, "\",\"level\":\"%s\",\"party\":%u", levels[level], l->c.party);
    else
        add(&b, " %-5s party %u", levels[level], l->c.party);
    add_places(&b, at, json);
    add(&b, json ? ",\"event\":\"" : " ");
    add_text(&b, event, 32, json);
    if (json && dropped != 0)
        add(&b, "\",\"dropped\":%" PRIu64 ",\"text\":\"", dropped);
    else
        add(&b, json ? "\",\"text\":\"" : ": ");
    add_text(&b, text, LOG_LINE_BYTES, json);
    if (!json && dropped != 0)
        add(&b, " (%" PRIu64 " more of this kind were dropped)", dropped);
    add(&b, json ? "\"" : "");
    if (lost != 0)
        add(&b, json ? ",\"lost\":%" PRIu64 : " (%" PRIu64 " lines could not be written)", lost);
    add(&b, json ? "}" : "");
    write_out(l, &b);
    if (l->unsaid == lost)
        l->unsaid = 0;
}

/* ---- limits ---- */

/* Numbers apart, so that lines that differ in a step or an address are of one kind. */
static uint64_t kind_hash(const char *event, const char *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *p = event; *p != '\0'; p++)
        h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    for (const char *p = text; *p != '\0'; p++)
        if (!isdigit((unsigned char)*p))
            h = (h ^ (unsigned char)*p) * 0x100000001b3u;
    return h != 0 ? h : 1;
}

/* Not told yet of a kind that leaves the table, or of all at the end. */
static void tell_dropped(party_log *l, kind *k, uint64_t now) {
    char text[96];
    if (k->hash == 0 || k->dropped == 0)
        return;
    (void)snprintf(text, sizeof text, "lines of one kind were dropped: %" PRIu64, k->dropped);
    put(l, now, UVCC_LOG_WARN, k->event, &log_nowhere, text, k->dropped);
    k->dropped = 0;
}

static kind *kind_of(party_log *l, uint64_t hash, const char *event, uint64_t now) {
    kind *oldest = &l->kind[0];
    for (unsigned i = 0; i < LOG_KINDS; i++) {
        if (l->kind[i].hash == hash)
            return &l->kind[i];
        if (l->kind[i].hash == 0 || l->kind[i].last < oldest->last)
            oldest = &l->kind[i];
        if (oldest->hash == 0)
            break; /* the table fills from its front */
    }
    tell_dropped(l, oldest, now);
    *oldest = (kind){.hash = hash};
    (void)snprintf(oldest->event, sizeof oldest->event, "%s", event);
    return oldest;
}

static void write_limited(party_log *l, uvcc_log_level level, const char *event,
                          const log_place *at, const char *kind_text, const char *text) {
    const uint64_t now = l->clock(l->user);
    kind *k = kind_of(l, kind_hash(event, kind_text), event, now);
    if (k->second != now / NS_PER_S) {
        k->second = now / NS_PER_S;
        k->lines = 0;
    }
    k->last = now;
    if (l->c.rate != 0 && k->lines >= l->c.rate) {
        k->dropped++;
        l->counts.dropped++;
        return;
    }
    k->lines++;
    put(l, now, level, event, at, text, k->dropped);
    k->dropped = 0;
}

/* ---- what is called ---- */

static bool wanted(const party_log *l, uvcc_log_level level) {
    return l != NULL && (uint32_t)level <= l->c.level && (uint32_t)level < LEVELS;
}

void log_write(party_log *l, uvcc_log_level level, const char *event, const log_place *at,
               const char *format, ...) {
    char text[LOG_LINE_BYTES];
    if (!wanted(l, level))
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    write_limited(l, level, event, at != NULL ? at : &log_nowhere, "", text);
}

/* The number behind a word of the line, as "step 12"; -1: there is none. */
static int64_t number_after(const char *text, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        if ((at != text && isalnum((unsigned char)at[-1])) || at[n] != ' ' ||
            !isdigit((unsigned char)at[n + 1]))
            continue;
        const unsigned long long v = strtoull(at + n + 1, NULL, 10);
        return v <= INT64_MAX ? (int64_t)v : -1;
    }
    return -1;
}

void log_line(party_log *l, uvcc_log_level level, const char *event, const log_place *at,
              const char *text) {
    if (!wanted(l, level))
        return;
    log_place here = at != NULL ? *at : log_nowhere;
    const struct {
        int64_t *to;
        const char *word;
    } numbers[] = {
        {&here.run, "run"}, {&here.step, "step"}, {&here.op, "op"}, {&here.message, "message"}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const int64_t v = number_after(text, numbers[i].word);
        *numbers[i].to = v >= 0 ? v : *numbers[i].to;
    }
    /* Lines of a session begin with its own party. */
    const char *rest = strncmp(text, "party ", 6) == 0 ? strstr(text, ": ") : NULL;
    const int64_t peer = number_after(rest != NULL ? rest : text, "party");
    here.peer = peer >= 0 && peer < UVCC_PARTIES && peer != l->c.party ? peer : here.peer;
    write_limited(l, level, event, &here, text, text);
}

void log_get_counts(const party_log *l, log_counts *out) {
    *out = l != NULL ? l->counts : (log_counts){0};
}

void log_close(party_log *l) {
    if (l == NULL)
        return;
    const uint64_t now = l->clock(l->user);
    for (unsigned i = 0; i < LOG_KINDS; i++)
        tell_dropped(l, &l->kind[i], now);
    if (l->ours)
        (void)close(l->fd);
    free(l);
}
