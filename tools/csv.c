/* SPDX-License-Identifier: Apache-2.0 */
/* csv.c - a strict reader of numeric tables. One line is in memory at a time; what is kept are the
 * numbers. Every message names the place and what to do about it. */
#include "csv.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reader {
    FILE *file;
    csv_source source;
    uint32_t columns; /* of every row; 0: before the first */
    const char *path;
    char *message;
    size_t message_cap;
    char *line; /* NUL-terminated */
    size_t len, room;
    uint32_t number; /* of the line, from 1 */
} reader;

typedef struct field {
    const char *text; /* without spaces around; not terminated */
    size_t len;
} field;

/* Line and column may be 0: not named. */
static int fail(reader *r, uint32_t line, uint32_t column, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int fail(reader *r, uint32_t line, uint32_t column, const char *format, ...) {
    char what[400], place[32] = "";
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (column != 0)
        (void)snprintf(place, sizeof place, ":%u:%u", line, column);
    else if (line != 0)
        (void)snprintf(place, sizeof place, ":%u", line);
    (void)snprintf(r->message, r->message_cap, "%s%s: %s", r->path, place, what);
    return -1;
}

static void *grow(void *p, size_t count, size_t each) {
    return count > SIZE_MAX / each ? NULL : realloc(p, count * each);
}

/* 1: a line without its end, 0: end of the file, -1: failed. */
static int read_line(reader *r) {
    int c;
    r->len = 0;
    while ((c = getc_unlocked(r->file)) != EOF && c != '\n') {
        if (r->len + 1 >= r->room) {
            size_t room = r->room == 0 ? 4096 : 2 * r->room;
            char *line = room > CSV_LINE_MAX ? NULL : realloc(r->line, room);
            if (line == NULL)
                return fail(r, r->number + 1, 0,
                            "the line is longer than %zu MiB; is this a text file with a row per "
                            "line?",
                            CSV_LINE_MAX >> 20);
            r->line = line;
            r->room = room;
        }
        r->line[r->len++] = (char)c;
    }
    if (c == EOF && ferror(r->file))
        return fail(r, 0, 0, "cannot be read: %s; give a CSV file with %s", strerror(errno),
                    r->source.file_name);
    if (c == EOF && r->len == 0)
        return 0;
    r->number++;
    if (r->len > 0 && r->line[r->len - 1] == '\r')
        r->len--;
    if (r->line == NULL && (r->line = malloc(r->room = 2)) == NULL)
        return fail(r, 0, 0, "out of memory");
    r->line[r->len] = '\0';
    static const char bom[] = "\xEF\xBB\xBF";
    if (r->number == 1 && r->len >= 3 && memcmp(r->line, bom, 3) == 0) {
        r->len -= 3;
        memmove(r->line, r->line + 3, r->len + 1);
    }
    return 1;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static bool line_blank(const reader *r) {
    size_t i = 0;
    while (i < r->len && is_blank(r->line[i]))
        i++;
    return i == r->len;
}

/* Cuts the line at its commas into *fields (grown as needed); returns their number. */
static uint32_t cut(const reader *r, field *fields, uint32_t most) {
    uint32_t count = 0;
    const char *at = r->line, *end = r->line + r->len;
    for (;;) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        const char *last = stop;
        while (at < last && is_blank(*at))
            at++;
        while (last > at && is_blank(last[-1]))
            last--;
        if (count < most)
            fields[count] = (field){.text = at, .len = (size_t)(last - at)};
        count++;
        if (comma == NULL || count > most)
            return count;
        at = stop + 1;
    }
}

static size_t digits(const char *p, const char *end) {
    const char *at = p;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - p);
}

/* A plain decimal number: strtod() alone would take hexadecimal, nan and inf too. */
static bool is_number(field f) {
    const char *p = f.text, *end = f.text + f.len;
    if (p < end && (*p == '+' || *p == '-'))
        p++;
    size_t whole = digits(p, end), part = 0;
    p += whole;
    if (p < end && *p == '.') {
        p++;
        part = digits(p, end);
        p += part;
    }
    if (whole + part == 0)
        return false;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        size_t power = digits(p, end);
        if (power == 0)
            return false;
        p += power;
    }
    return p == end;
}

static bool same_word(field f, const char *word) {
    for (size_t i = 0; i < f.len; i++) {
        char c = f.text[i];
        if (c >= 'A' && c <= 'Z')
            c = (char)(c - 'A' + 'a');
        if (word[i] == '\0' || c != word[i]) /* a field may hold NUL bytes */
            return false;
    }
    return word[f.len] == '\0';
}

static bool is_not_finite(field f) {
    static const char *const words[] = {"nan", "inf", "infinity", "na", "n/a", "null", "none"};
    if (f.len > 0 && (*f.text == '+' || *f.text == '-'))
        f = (field){.text = f.text + 1, .len = f.len - 1};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (same_word(f, words[i]))
            return true;
    }
    return false;
}

#define SHOWN_MAX 24u

/* The field for a message: short, and cut between characters. Who prints it escapes it (escape.h);
 * that cannot show a NUL. */
typedef struct excerpt {
    char text[sizeof "\\x00" * SHOWN_MAX];
} excerpt;
static excerpt show(field f) {
    excerpt e;
    size_t n = f.len < SHOWN_MAX ? f.len : SHOWN_MAX, at = 0;
    while (n < f.len && n > SHOWN_MAX - 4 && (f.text[n] & 0xC0) == 0x80)
        n--;
    for (size_t i = 0; i < n; i++)
        if (f.text[i] != '\0')
            e.text[at++] = f.text[i];
        else
            at += (size_t)snprintf(e.text + at, sizeof e.text - at, "\\x00");
    (void)snprintf(e.text + at, sizeof e.text - at, "%s", f.len > n ? "..." : "");
    return e;
}

static int parse_number(reader *r, uint32_t column, field f, double *out) {
    if (f.len == 0)
        return fail(r, r->number, column,
                    "the field is empty; every row needs a number in every column");
    if (is_not_finite(f))
        return fail(r, r->number, column,
                    "'%s' is not a finite number; fill in a value or remove the row", show(f).text);
    if (!is_number(f)) {
        bool other = memchr(f.text, ';', f.len) != NULL || memchr(f.text, '\t', f.len) != NULL;
        return fail(r, r->number, column, "'%s' is not a number; %s", show(f).text,
                    other ? "separate the columns with commas"
                          : "write a plain decimal number such as 0.25");
    }
    *out = strtod(f.text, NULL); /* ends at the comma, blank or end behind the number */
    if (!isfinite(*out))
        return fail(r, r->number, column, "'%s' is too large; rescale this column", show(f).text);
    return 0;
}

static int parse_label(reader *r, uint32_t column, field f, uint32_t *out) {
    double v;
    if (parse_number(r, column, f, &v) != 0)
        return -1;
    if (!(v >= 0 && v <= CSV_LABEL_MAX) || floor(v) != v)
        return fail(r, r->number, column,
                    "label '%s' is not a whole number from 0 to %u; number the classes from 0, or "
                    "choose the label's column with %s",
                    show(f).text, CSV_LABEL_MAX, r->source.of_label);
    *out = (uint32_t)v;
    return 0;
}

/* Which column --label means; header is NULL where the file has none. */
static int find_label(reader *r, const char *label, const field *header, uint32_t columns,
                      uint32_t *out) {
    if (label == NULL) {
        *out = columns - 1;
        return 0;
    }
    size_t len = strlen(label);
    const excerpt shown = show((field){.text = label, .len = len});
    if (len > 0 && digits(label, label + len) == len) {
        unsigned long n = len > 9 ? 0 : strtoul(label, NULL, 10);
        if (n == 0 || n > columns)
            return fail(r, r->number, 0, "%s %s: the file has columns 1 to %u; give one of them",
                        r->source.of_label, shown.text, columns);
        *out = (uint32_t)n - 1;
        return 0;
    }
    if (header == NULL)
        return fail(r, r->number, 0,
                    "%s %s: the file has no header line; give the label's column as a number "
                    "from 1 to %u",
                    r->source.of_label, shown.text, columns);
    uint32_t found = columns;
    for (uint32_t i = 0; i < columns; i++) {
        if (header[i].len != len || memcmp(header[i].text, label, len) != 0)
            continue;
        if (found != columns)
            return fail(r, r->number, i + 1,
                        "two columns are named %s; give the label's column as a number",
                        shown.text);
        found = i;
    }
    if (found == columns)
        return fail(r, r->number, 0,
                    "%s %s: no column has that name; give a name of the header line or a "
                    "number from 1 to %u",
                    r->source.of_label, shown.text, columns);
    *out = found;
    return 0;
}

static int check_quotes(reader *r) {
    const char *quote = memchr(r->line, '"', r->len);
    if (quote == NULL)
        return 0;
    uint32_t column = 1;
    for (const char *p = r->line; p < quote; p++)
        column += *p == ',';
    return fail(r, r->number, column, "quoted fields are not supported; remove the quotes");
}

static bool has_labels(const reader *r) {
    return r->source.part == CSV_ALL || r->source.part == CSV_LABELS;
}

static int grow_table(const reader *r, csv_table *t, uint32_t rows) {
    if (rows > CSV_ROWS_MAX)
        return -1;
    if (r->source.part != CSV_LABELS) {
        double *value = grow(t->value, rows, t->features * sizeof *t->value);
        if (value == NULL)
            return -1;
        t->value = value;
    }
    if (has_labels(r)) {
        uint32_t *label = grow(t->label, rows, sizeof *t->label);
        if (label == NULL)
            return -1;
        t->label = label;
    }
    return 0;
}

static int add_row(reader *r, csv_table *t, uint32_t *room, const field *fields) {
    if (t->rows == *room) {
        uint32_t more = *room == 0 ? 256 : 2 * *room;
        if (grow_table(r, t, more) != 0)
            return fail(r, r->number, 0, "the table does not fit in memory; use fewer rows");
        *room = more;
    }
    double *v = t->value != NULL ? t->value + (size_t)t->rows * t->features : NULL;
    for (uint32_t i = 0; i < r->columns; i++) {
        int rc = 0;
        if (i == t->label_column && has_labels(r))
            rc = parse_label(r, i + 1, fields[i], &t->label[t->rows]);
        else if (i != t->label_column && v != NULL)
            rc = parse_number(r, i + 1, fields[i], v++);
        if (rc != 0)
            return rc;
    }
    t->rows++;
    return 0;
}

/* A file with all columns, or with those of the part alone. */
static int first_of_part(reader *r, csv_table *t, const char *label, const field *header) {
    const uint32_t features = r->source.features;
    const bool alone = r->columns == (has_labels(r) ? 1 : features);
    t->features = features;
    t->label_column = has_labels(r) ? 0 : CSV_NO_COLUMN;
    if (alone)
        return 0;
    if (r->source.part == CSV_ROWS)
        return fail(r, r->number, 0, "%u columns; give the %u of the model, and no other",
                    r->columns, features);
    if (r->columns == features + 1)
        return find_label(r, label, header, r->columns, &t->label_column);
    if (r->source.part == CSV_FEATURES)
        return fail(r, r->number, 0, "%u columns; give %u features, and the label's column or not",
                    r->columns, features);
    return fail(r, r->number, 0, "%u columns; give the label's alone, or %u features too",
                r->columns, features);
}

/* The first row settles the columns and whether it is a header. */
static int first_row(reader *r, csv_table *t, const char *label, const field *fields,
                     uint32_t columns, bool *header) {
    *header = true;
    for (uint32_t i = 0; i < columns; i++)
        *header = *header && !is_number(fields[i]) && !is_not_finite(fields[i]);
    t->first_line = r->number + *header;
    r->columns = columns;
    if (r->source.part != CSV_ALL)
        return first_of_part(r, t, label, *header ? fields : NULL);
    if (columns < 2 && memchr(r->line, ';', r->len) == NULL &&
        memchr(r->line, '\t', r->len) == NULL)
        return fail(r, r->number, 1,
                    "there is one column; give at least one feature and the label, separated by "
                    "commas");
    if (columns < 2)
        return fail(r, r->number, 1, "there is no comma; separate the columns with commas");
    t->features = columns - 1;
    return find_label(r, label, *header ? fields : NULL, columns, &t->label_column);
}

static const char *wanted(const reader *r) {
    static const char *const rows[] = {[CSV_ALL] = "rows of features and a label",
                                       [CSV_FEATURES] = "rows of features",
                                       [CSV_LABELS] = "a label in each row",
                                       [CSV_ROWS] = "rows of numbers"};
    return rows[r->source.part];
}

/* The first row says how many columns there are; every message names the line and what to do with
 * it. */
static int read_rows(reader *r, csv_table *t, const char *label, field *fields) {
    uint32_t room = 0, blank_line = 0;
    int rc;
    while ((rc = read_line(r)) == 1) {
        bool first = r->columns == 0, header = false;
        if (line_blank(r)) { /* allowed at the end only, so remember where */
            blank_line = blank_line != 0 ? blank_line : r->number;
            continue;
        }
        if (blank_line != 0)
            return fail(r, blank_line, 1, "the line is empty; remove it");
        if (check_quotes(r) != 0)
            return -1;
        uint32_t most = first ? CSV_COLUMNS_MAX : r->columns;
        uint32_t columns = cut(r, fields, most);
        if (first && columns > most)
            return fail(r, r->number, most + 1, "more than %u columns; use fewer", most);
        if (first && first_row(r, t, label, fields, columns, &header) != 0)
            return -1;
        if (header)
            continue;
        if (columns > r->columns)
            return fail(r, r->number, r->columns + 1,
                        "the row has more than the first row's %u columns; remove the rest",
                        r->columns);
        if (columns < r->columns)
            return fail(r, r->number, columns + 1,
                        "the row ends after %u of %u columns; fill in the rest or remove the row",
                        columns, r->columns);
        if (add_row(r, t, &room, fields) != 0)
            return -1;
    }
    if (rc < 0)
        return -1;
    if (r->columns == 0)
        return fail(r, 0, 0, "the file is empty; give %s", wanted(r));
    if (t->rows == 0)
        return fail(r, r->number, 1, "no rows follow the header; give %s", wanted(r));
    return 0;
}

int csv_read(csv_table *out, const char *path, const char *label, char *message,
             size_t message_cap) {
    const csv_source all = {.file_name = "--data", .of_label = "--label"};
    return csv_read_part(out, &all, path, label, message, message_cap);
}

int csv_read_part(csv_table *out, const csv_source *source, const char *path, const char *label,
                  char *message, size_t message_cap) {
    reader r = {.source = *source, .path = path, .message = message, .message_cap = message_cap};
    csv_table t = {0};
    r.file = fopen(path, "rb");
    if (r.file == NULL)
        return fail(&r, 0, 0, "cannot be opened: %s; check the path given to %s", strerror(errno),
                    source->file_name);
    field *fields = malloc(CSV_COLUMNS_MAX * sizeof *fields);
    int rc = fields == NULL ? fail(&r, 0, 0, "out of memory") : read_rows(&r, &t, label, fields);
    free(fields);
    free(r.line);
    (void)fclose(r.file);
    if (rc == 0)
        *out = t;
    else
        csv_free(&t);
    return rc;
}

void csv_free(csv_table *t) {
    free(t->value);
    free(t->label);
    *t = (csv_table){0};
}

uint32_t csv_line(const csv_table *t, uint32_t row) {
    return t->first_line + row;
}

uint32_t csv_column(const csv_table *t, uint32_t feature) {
    return feature < t->label_column ? feature + 1 : feature + 2;
}
