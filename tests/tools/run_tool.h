/* SPDX-License-Identifier: Apache-2.0 */
/* run_tool.h - running the command `uvcc` as a user does, in a directory of its own. */
#ifndef UVCC_TESTS_RUN_TOOL_H
#define UVCC_TESTS_RUN_TOOL_H

#include "support.h"

#include <stdbool.h>

typedef struct outcome {
    int status; /* exit status, or -1 */
    int signal; /* that ended it, or 0 */
    char *out, *err;
} outcome;
void forget(outcome *o);

/* The binary, before any other call. */
bool find_tool(const char *path);
/* What it found. */
const char *tool_path(void);
/* cmocka's setup and teardown of a group: a new directory to run in, which must end empty but for
 * what the tool's runs left on standard output and error. */
int enter(void **state);
int leave(void **state);

char *read_all(const char *path);
/* What this process says on standard error in between, for tests of the tools' modules. */
int hear(void);
char *heard(int kept); /* to be freed; `kept` is what hear() returned */
/* A file or a directory with all in it, if it is there. */
void remove_tree(const char *path);
void write_file(const char *path, const char *text, size_t len);

/* Runs the tool with words separated by blanks. */
outcome run_tool(const char *words);
/* The same, after `prepare` in the new process: its descriptors, limits, signals. */
outcome run_tool_after(const char *words, void (*prepare)(void));
/* The same, with a signal as soon as it has written a line on `stream`: "stdout" or "stderr". */
outcome signal_tool(const char *words, const char *stream, int number);
/* The same, with Ctrl-C as soon as it has written a line on `stream`: "stdout" or "stderr". */
outcome interrupt_tool(const char *words, const char *stream);
/* The same, with Ctrl-C while it reads the pipe of this name, which is made and taken away. */
outcome interrupt_reader(const char *words, const char *pipe);

/* What a run with these words and --json - writes; it must end with `status`. */
json_t *json_of(const char *words, int status);
/* `uvcc train` with these words, which must succeed: its JSON. */
json_t *results(const char *words);
/* Standard output of a run that must succeed in silence. Free it. */
char *output_of(const char *words);
/* t.csv: the CSV of vectors/mlp.json, with what stands before its first line and at each line's
 * end. */
void write_vector_csv(const json_t *vectors, const char *first, const char *end);
/* The words of one of the vectors' runs on it; what that run must give. */
void vector_words(const json_t *run, char *words, size_t room);
void check_vector(const json_t *run, const json_t *j);
/* A number of an object, whole or not. */
double number(const json_t *o, const char *key);

unsigned lines(const char *text);
/* Exit status 2, nothing on standard output, one line on standard error with `part` in it. */
void refused(const char *words, const char *part);

#endif
