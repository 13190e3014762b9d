/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.h - the golden vectors of compute tasks (docs/compute.md, section 10): files are read,
 * their cases run on an executor, and what the tasks left is compared with what it must be, or with
 * what another executor left.
 *
 * A file is read once and run any number of times: as it stands, or with other operands, keys and
 * places, which a seed makes. For `uvcc selftest`, the tests, and the program that writes the
 * files. */
#ifndef UVCC_TOOLS_SELFTEST_VECTORS_H
#define UVCC_TOOLS_SELFTEST_VECTORS_H

#include <jansson.h>
#include <stdbool.h>
#include <uvcc/compute.h>

/* One line of what went wrong. */
typedef struct vector_message {
    char text[512];
} vector_message;

typedef struct vector_file {
    char *path;
    json_t *root;
} vector_file;

/* All *.json of a folder, by name. Returns 0, or -1 and a message: the folder cannot be read, or
 * has none. */
typedef struct vector_set {
    vector_file *files;
    size_t count;
} vector_set;
int vector_set_load(vector_set *out, const char *dir, vector_message *m);
void vector_set_free(vector_set *s);

/* Told of each case before it runs: a task may crash on operands that are not what it needs. NULL:
 * nobody is. */
typedef void vector_watcher(void *user, const char *path, const char *name);
void vector_watch(vector_watcher *w, void *user);

/* What the tasks of a file left, in memory. */
typedef struct vector_run vector_run;
/* Runs all cases of a file. reseed 0: as they stand. Returns 0, or -1 and a message: the file is
 * not as compute.md says, a task wrote beyond its operands or into one that it only reads, a task
 * failed that must not or did not that must, or there was no memory. */
int vector_run_new(vector_run **out, const vector_file *f, uint32_t backend, uint64_t reseed,
                   vector_message *m);
/* Another executor than the CPU's: where operands lie, and what runs a job and waits for its
 * completion (0, or the job was not taken). */
typedef struct vector_executor {
    uvcc_allocator memory; /* memory that the host and the executor reach */
    int (*run)(void *user, const uvcc_job *job, uvcc_completion *done);
    void *user;
} vector_executor;
/* The same on it; it must outlive the run. */
int vector_run_on(vector_run **out, const vector_file *f, const vector_executor *x, uint64_t reseed,
                  vector_message *m);
void vector_run_free(vector_run *r);

/* Where a result is not what it must be. */
typedef struct vector_mismatch {
    const char *name, *task, *role, *operand; /* role: "" if the task has none */
    uint32_t unit;
    size_t element; /* of words, or of bytes */
    unsigned bytes; /* of an element: 8 or 1; 0: known by its digest only */
    uint64_t expected, got;
} vector_mismatch;
/* 0 if all results are those of the file, else 1 and the first that is not; -1 and a message. */
int vector_run_check(const vector_run *r, vector_mismatch *out, vector_message *m);
/* The same, with the results of another run of the same file. */
int vector_run_compare(const vector_run *r, const vector_run *expected, vector_mismatch *out,
                       vector_message *m);

uint64_t vector_run_results(const vector_run *r);
/* Writes the results into the cases of the file, and short operands that a seed makes as hex. */
int vector_run_record(const vector_run *r, vector_message *m);

#endif
