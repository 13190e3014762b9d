/* SPDX-License-Identifier: Apache-2.0 */
/* flags.c - see flags.h. */
#include "flags.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int flag_fail(const flag_message *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->text, m->cap, format, args);
    va_end(args);
    return -1;
}

enum { HELP_COLUMNS = 80, HELP_LEFT = 25 };

/* Words up to the end of the line, in lines of at most HELP_COLUMNS; those that follow begin at
 * `left`. What stands before is `column` wide. */
static void put_words(FILE *to, const char *text, size_t len, size_t column, size_t left) {
    bool first = true;
    for (size_t i = 0; i < len;) {
        const size_t n = strcspn(text + i, " \n");
        const size_t word = n < len - i ? n : len - i;
        if (!first && column + 1 + word > HELP_COLUMNS) {
            (void)fprintf(to, "\n%*s", (int)left, "");
            column = left;
        } else if (!first) {
            (void)fputc(' ', to);
            column++;
        }
        (void)fwrite(text + i, 1, word, to);
        column += word;
        first = false;
        i += word;
        while (i < len && (text[i] == ' ' || text[i] == '\n'))
            i++;
    }
    (void)fputc('\n', to);
}

/* A line that begins with a blank, and a usage, is laid out already. */
static bool laid_out(const char *line) {
    return *line == ' ' || *line == '\n' || strncmp(line, "Usage:", 6) == 0;
}

void flags_text(FILE *to, const char *text) {
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        if (laid_out(text)) {
            (void)fprintf(to, "%.*s\n", (int)n, text);
        } else {
            while (text[n] == '\n' && text[n + 1] != '\0' && !laid_out(text + n + 1))
                n += 1 + strcspn(text + n + 1, "\n");
            put_words(to, text, n, 0, 0);
        }
        text += n + (text[n] == '\n');
    }
}

void flags_print(const flag_set *set, FILE *to) {
    for (size_t i = 0; i < set->count; i++) {
        const flag *f = &set->flags[i];
        const char *blank = f->value != NULL ? " " : "", *value = f->value != NULL ? f->value : "";
        const int left = fprintf(to, "  --%s%s%s", f->name, blank, value);
        if (left > 24)
            (void)fprintf(to, "\n%-25s", "");
        else
            (void)fprintf(to, "%*s", 25 - left, "");
        put_words(to, f->help, strlen(f->help), HELP_LEFT, HELP_LEFT);
    }
}

/* Decimal digits only, so no sign, blank or hexadecimal that strtoull() would take. */
static bool parse_u64(const char *text, size_t len, uint64_t *out) {
    uint64_t v = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    *out = v;
    return len > 0;
}

static int parse_count(const flag_message *m, const flag *f, const char *text, size_t len,
                       uint32_t *out) {
    uint64_t v;
    if (!parse_u64(text, len, &v) || v < f->min || v > f->max)
        return flag_fail(m, "--%s %.*s: give a whole number from %u to %u", f->name, (int)len, text,
                         f->min, f->max);
    *out = (uint32_t)v;
    return 0;
}

static int parse_list(const flag_message *m, const flag *f, const char *text, void *options) {
    flag_list *out = (flag_list *)(void *)((char *)options + f->at);
    uint32_t count = 0;
    for (const char *at = text;; count++) {
        size_t len = strcspn(at, ",");
        if (count == FLAG_LIST_MAX)
            return flag_fail(m, "--%s %s: at most %u numbers are possible; give fewer", f->name,
                             text, FLAG_LIST_MAX);
        if (parse_count(m, f, at, len, &out->v[count]) != 0)
            return flag_fail(m, "--%s %s: give whole numbers from %u to %u, such as 64 or 64,32",
                             f->name, text, f->min, f->max);
        at += len;
        if (*at++ == '\0')
            break;
    }
    out->count = count + 1;
    return 0;
}

static bool parse_double(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text != '\0' && strspn(text, "0123456789.eE-+") == strlen(text) && *end == '\0';
}

static int parse_choice(const flag_message *m, const flag *f, const char *text, uint32_t *out) {
    for (uint32_t i = 0; f->choices[i] != NULL; i++) {
        if (strcmp(text, f->choices[i]) == 0) {
            *out = i;
            return 0;
        }
    }
    return flag_fail(m, "--%s %s: give one of %s", f->name, text, f->value);
}

/* A message says what to give instead: it is all that a user sees. */
static int parse_value(const flag_message *m, const flag *f, const char *text, void *options) {
    void *at = (char *)options + f->at;
    double v;
    switch (f->kind) {
    case FLAG_TEXT:
        if (*text == '\0')
            return flag_fail(m, "--%s: the %s is empty; name one", f->name, f->value);
        *(const char **)at = text;
        return 0;
    case FLAG_COUNT:
        return parse_count(m, f, text, strlen(text), at);
    case FLAG_SEED:
        if (!parse_u64(text, strlen(text), at))
            return flag_fail(m, "--%s %s: give a whole number from 0 to 2^64 - 1", f->name, text);
        return 0;
    case FLAG_RATE:
        if (!parse_double(text, &v) || !(v >= 0 && v < 1))
            return flag_fail(m, "--%s %s: give a rate of at least 0 and less than 1, such as 0.05",
                             f->name, text);
        *(double *)at = v;
        return 0;
    case FLAG_REAL:
        if (!parse_double(text, &v) || !(v >= f->min && v <= f->max))
            return flag_fail(m, "--%s %s: give a number from %u to %u, such as 0.5", f->name, text,
                             f->min, f->max);
        *(double *)at = v;
        return 0;
    case FLAG_LIST:
        return parse_list(m, f, text, options);
    case FLAG_CHOICE:
        return parse_choice(m, f, text, at);
    default:
        return 0; /* a switch takes no value */
    }
}

static const flag *find(const flag_set *set, const char *name, size_t len) {
    for (size_t i = 0; i < set->count; i++) {
        if (strlen(set->flags[i].name) == len && memcmp(set->flags[i].name, name, len) == 0)
            return &set->flags[i];
    }
    return NULL;
}

/* Stops at --help, so that whoever asks for it gets it, whatever else is wrong behind it. */
int flags_parse(const flag_set *set, void *options, int argc, char *const *argv, const char **words,
                int *word_count, const flag_message *m) {
    const bool *help = (const bool *)((const char *)options + set->at_help);
    int count = 0;
    for (int i = 0; i < argc && !*help; i++) {
        const char *word = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
        if (words != NULL && word[0] != '-') {
            words[count++] = word;
            continue;
        }
        if (strncmp(word, "--", 2) != 0 || word[2] == '\0')
            return flag_fail(m, "'%s' is not an option; see uvcc %s --help", word, set->command);
        size_t len = strcspn(word + 2, "=");
        const flag *f = find(set, word + 2, len);
        if (f == NULL)
            return flag_fail(m, "there is no option --%.*s; see uvcc %s --help", (int)len, word + 2,
                             set->command);
        const char *value = word[2 + len] == '=' ? word + 3 + len : NULL;
        if (f->kind == FLAG_SWITCH) {
            if (value != NULL)
                return flag_fail(m, "--%s takes no value", f->name);
            *(bool *)((char *)options + f->at) = true;
            continue;
        }
        if (value == NULL && ++i < argc)
            value = argv[i];
        if (value == NULL)
            return flag_fail(m, "--%s needs a value: %s", f->name, f->value);
        if (parse_value(m, f, value, options) != 0)
            return -1;
    }
    if (word_count != NULL)
        *word_count = count;
    return 0;
}

bool flags_given(const flag_set *set, int argc, char *const *argv, const char *name) {
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        const size_t len = strcspn(argv[i] + 2, "=");
        const flag *f = find(set, argv[i] + 2, len);
        if (f != NULL && strcmp(f->name, name) == 0)
            return true;
        if (f != NULL && f->kind != FLAG_SWITCH && argv[i][2 + len] != '=')
            i++; /* its value */
    }
    return false;
}

int flags_refuse_idle(const flag_set *set, int argc, char *const *argv, const flag_idle *idle,
                      size_t count, const flag_message *m) {
    for (size_t i = 0; i < count; i++)
        if (idle[i].idle && flags_given(set, argc, argv, idle[i].name))
            return flag_fail(m, "--%s does nothing %s; leave it out", idle[i].name, idle[i].why);
    return 0;
}
