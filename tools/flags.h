/* SPDX-License-Identifier: Apache-2.0 */
/* flags.h - options of a command as a table: what they are called, what they may be, what --help
 * says of them. `--name VALUE` and `--name=VALUE`; a switch takes no value. */
#ifndef UVCC_TOOLS_FLAGS_H
#define UVCC_TOOLS_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What a value is, and the type of the member that it goes to. */
typedef enum flag_kind {
    FLAG_TEXT,   /* const char *, not empty */
    FLAG_COUNT,  /* uint32_t in [min, max] */
    FLAG_SEED,   /* uint64_t */
    FLAG_RATE,   /* double in [0, 1) */
    FLAG_REAL,   /* double in [min, max] */
    FLAG_CHOICE, /* uint32_t: the index among choices */
    FLAG_LIST,   /* flag_list, each in [min, max] */
    FLAG_SWITCH, /* bool */
} flag_kind;

#define FLAG_LIST_MAX 15u
typedef struct flag_list {
    uint32_t count, v[FLAG_LIST_MAX];
} flag_list;

typedef struct flag {
    const char *name, *value; /* value: how the help names it */
    flag_kind kind;
    size_t at; /* in the command's options */
    uint32_t min, max;
    const char *const *choices; /* NULL-terminated */
    const char *help;
} flag;

typedef struct flag_set {
    const char *command; /* for messages that point at its --help */
    const flag *flags;
    size_t count;
    size_t at_help; /* of the bool that --help sets */
} flag_set;

typedef struct flag_message {
    char *text;
    size_t cap;
} flag_message;
/* One line into the message; returns -1. */
int flag_fail(const flag_message *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads the words into options, which hold the defaults. Returns 0, or -1 and one line in the
 * message. Stops at --help (and -h), which sets its member. A word that is no option goes to
 * `words` (with room for argc of them) and `word_count`; words may be NULL: then it is an error. */
int flags_parse(const flag_set *set, void *options, int argc, char *const *argv, const char **words,
                int *word_count, const flag_message *m);
/* Whether an option is among words that flags_parse() has read. */
bool flags_given(const flag_set *set, int argc, char *const *argv, const char *name);

/* Options that do nothing for what the others ask for are refused: `why` follows "does nothing". */
typedef struct flag_idle {
    const char *name;
    bool idle;
    const char *why;
} flag_idle;
/* 0, or -1 and one line in the message, at the first that is idle and given. */
int flags_refuse_idle(const flag_set *set, int argc, char *const *argv, const flag_idle *idle,
                      size_t count, const flag_message *m);

/* Help in lines of at most 80 columns: of the options, and of paragraphs of text. Lines of text
 * that begin with a blank, and usages, stay as they are. */
void flags_print(const flag_set *set, FILE *to);
void flags_text(FILE *to, const char *text);

#endif
