/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - what a party's workers compute: the one interface between `uvcc party`, which knows
 * networks, runs and files of state, and a kind of work, which knows programs, values and results.
 *
 * A kind is made from the job's member "run", which all three parties have alike, and from the
 * party's own "data" and "output". It holds the values that this party owns and no others': it
 * works at a party that has none. One object serves all workers of a process, in one thread.
 * Functions that return an int return an exit status (report.h), after reporting. */
#ifndef UVCC_TOOLS_PARTY_WORK_H
#define UVCC_TOOLS_PARTY_WORK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/uvcc.h>

/* Of prepare() and first_values(): a tensor is being set still (UVCC_ERR_AGAIN), or enough is on
 * its way; they are called again. */
enum { WORK_LATER = -1 };

/* What a kind is told. Everything outlives the work. */
typedef struct work_config {
    const char *file;      /* the configuration's, for messages: "FILE: job.run.X: ..." */
    json_t *run;           /* the job's member "run"; refuse unknown members by name */
    json_t *data, *output; /* the party's own members; NULL: not given */
    const char *dir;       /* relative paths in them are relative to this directory */
    uint8_t party;
    uint16_t replicas, stages, tensor_ranks;
    uint32_t microbatches;
    uint16_t sks; /* as in uvcc_transformer_config; 0: none */
    /* Of a party: its identity's seed, and the public keys of all three. NULL: of nobody, who looks
     * at the program alone. */
    const uint8_t *identity;
    const uint8_t (*public_key)[32];
    bool check; /* nothing runs: files are looked at as a whole */
    bool share; /* nothing runs: what this party owns is for share() */
} work_config;

/* A worker as a kind of work sees it. */
typedef struct work_worker {
    uint16_t replica, stage, tensor_rank;
    uvcc_program *program; /* from program() */
    uint32_t run;          /* of its session, once that is ready */
} work_worker;

typedef struct work_kind {
    const char *name; /* the value of run.kind */
    int (*open)(void **work, const work_config *c);
    void (*close)(void *work);
    /* The program of a worker; the caller frees it. */
    int (*program)(void *work, const work_worker *w, uvcc_program **out);
    /* How many steps the job has; for kinds that may end earlier (generate) the most. */
    uint32_t (*steps)(const void *work);
    /* The entry of a step, its name for people ("train"), and whether it may be agreed to while the
     * one before it runs. */
    uint32_t (*entry)(const void *work, const work_worker *w, uint32_t step, const char **name,
                      bool *ahead);
    /* Public values to set before a step (a learning rate, a token); NULL: none. It may be called
     * again for the same step while the host cannot agree to it yet. */
    int (*prepare)(void *work, const work_worker *w, uvcc_session *s, uint32_t step);
    /* The first values of the PERSIST tensors. */
    int (*first_values)(void *work, const work_worker *w, uvcc_session *s);
    /* Whether this party gives its inputs of a step now; NULL: at once. */
    bool (*ready)(void *work, const work_worker *w, uvcc_session *s, uint32_t step);
    /* rows * cols values of an input that this party owns, valid until the next call. */
    const int64_t *(*input)(void *work, const work_worker *w, uint32_t step, uint32_t id);
    /* The text of finished() is of values that this party alone knows: its terminal shows it, and
     * neither pages nor logs have it. */
    bool own_text;
    /* A step is finished: take its outputs (uvcc_session_output). With it comes a line of
     * text for the progress ("loss 2.31"), or "". */
    int (*finished)(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]);
    /* After the last step of all workers of this process. What this process has of the result, as
     * bytes that merge() takes; *bytes is malloc()ed. */
    int (*part)(void *work, uint8_t **bytes, size_t *len);
    /* At the process of local rank 0, with the parts of all processes of the party in the order of
     * their ranks (this one's too): writes files of "output" and adds members to the result. */
    int (*merge)(void *work, const uint8_t *const *part, const size_t *len, size_t parts,
                 json_t *result);
    /* What must be alike at all three parties and is not in "run", 8 bytes of a hash, to be
     * compared in HELLO, and its name. NULL, or a result of 0: nothing. */
    uint64_t (*agree)(const void *work, const char **name);
    /* Splits what this party owns into files for the three, in a directory that is there; NULL:
     * there is nothing to split. */
    int (*share)(void *work, const char *dir);
    /* Of a kind that serves clients: their requests. It runs until it is interrupted, keeps no
     * checkpoints and has no result, so that part() and merge() are not there. NULL: it serves
     * nobody. */
    struct serve_queue *(*queue)(void *work);
    /* And the bytes of the largest request with its answer; how many steps there are until each
     * entry has run once. */
    uint64_t (*request_bytes)(const void *work);
    uint32_t (*first_steps)(const void *work);
} work_kind;

/* NULL: there is no such kind. */
const work_kind *work_find(const char *name);
/* The names of all kinds, for messages: "mlp, transformer, ...". */
const char *work_names(void);

extern const work_kind work_mlp, work_transformer, work_generate, work_infer, work_nonlinear,
    work_serve;

#endif
