/* SPDX-License-Identifier: Apache-2.0 */
/* infer.h - `uvcc infer`: one party's weights, another's input, and an answer for whom it is. All
 * three parties run in this process. */
#ifndef UVCC_TOOLS_INFER_INFER_H
#define UVCC_TOOLS_INFER_INFER_H

#include "../atomic_file.h"
#include "../host_loop.h"
#include "../model/model.h"

/* The words after `uvcc infer`; returns the exit status. */
int infer_main(int argc, char *const *argv);

/* ---- for the files of this command, uvcc generate and uvcc party ---- */

typedef struct infer_options {
    run_options run;
    const char *model, *input, *text, *ids, *calibrate, *to, *output; /* NULL: not given */
    const char *agreed; /* where the number of tokens stands that all three agreed to, so that none
                           of a file is cut off; NULL: it is this command's, --tokens */
    uint32_t tokens, threads; /* 0: not given */
    uint32_t gives, mode;
    uint32_t frac_bits, value_bits, weight_bits, inner_bits, index_bits; /* 0: not given */
    uint32_t public_weights, weights_owner, input_owner;
    uint8_t receiver;   /* of `to` */
    uint32_t generate;  /* tokens, of infer_generate() */
    double temperature; /* likewise */
    bool check, view, fold, ignore_unknown;
} infer_options;

/* What came out, at a party that learns it. */
typedef struct infer_answer {
    size_t rows, cols;
    int64_t *opened;
    double *y; /* the same as real numbers */
    bool learns[UVCC_PARTIES];
} infer_answer;

/* The first bytes of what a party holds of something that is another's. */
enum { INFER_SEEN_BYTES = 16 };
typedef struct infer_seen {
    uint8_t input[2][INFER_SEEN_BYTES], weights[2][INFER_SEEN_BYTES]; /* both components */
} infer_seen;

typedef struct infer_checked {
    distance given;      /* of the answer, from what --input has of it, if it has */
    distance real, twin; /* of the answer, from double precision and from the twin */
    size_t rows, same;   /* rows, and those whose greatest value is where it should be */
    bool equal;          /* to the twin, bit for bit */
} infer_checked;

typedef struct infer {
    const infer_options *o;
    loaded l;
    plain_pass p; /* in: the input */
    host host;
    int64_t *x; /* what goes in, its owner's */
    infer_answer answer;
    infer_checked checked;
    infer_seen seen[UVCC_PARTIES];
    double seen_real[2];  /* what its owner knows of the weight that is looked at */
    uint32_t seen_weight; /* its number */
    size_t seen_at;       /* the value of x that is looked at, and those behind it */
    double shares_s, pass_s;
    uvcc_random split; /* of the owner of the weights */
    uvcc_seeded_random seeded;
    host_totals totals;
} infer;

/* Reads the input, as it was given: 0, or -1 and a line. The checkpoint is loaded. */
int infer_read_input(infer *f, const flag_message *m);
/* Whether its tokens are bytes, and a few marks behind them. */
bool infer_of_bytes(const infer *f);
/* The mark that begins a text, by config.json; -1: there is none. */
int64_t infer_begin_mark(const infer *f);
/* o->receiver, as o->to says: 0, or -1 and a line. */
int infer_take_receiver(infer_options *o, const flag_message *m);
/* The checkpoint: an exit status after reporting. */
int infer_load(infer *f);
/* The prompt of a text, which is as long as it is: as infer_read_input(). */
int infer_read_prompt(infer *f, const flag_message *m);
/* After the input: the numbers of the pass, of which the owner of the weights finds those that were
 * not given. An exit status after reporting. */
int infer_settle(infer *f, const flag_message *m);

/* The three parties, with the weights' shares: EXIT_INTERRUPTED is the caller's to report. */
int infer_begin(infer *f);
/* Runs it: an exit status after reporting. */
int infer_run(infer *f);

/* What a party that learns the answer does with what opened: an exit status after reporting. */
int infer_take_answer(infer *f, const int64_t *opened);
/* All but the host, which host_end() ends. */
void infer_forget(infer *f);

/* What the first row of the answer says, in a word. */
void infer_name_first(const infer *f, char *out, size_t cap);
/* Of each row the greatest; null where the answer has no classes. */
json_t *infer_tops(const infer *f);
/* The place of the greatest value of a row. */
size_t infer_greatest(const double *row, size_t n);
/* Text of a model that says what follows, to standard output: an exit status after reporting. */
int infer_generate(const infer_options *o);
/* Numbers of random streams of the seed that are no session's. */
#define INFER_SPLIT_STREAM    0x57000000u
#define INFER_SAMPLING_STREAM 0x57000001u

/* The first rows of the answer, of classes the greatest. */
void infer_show_rows(const infer *f, FILE *to);
/* What the answer says, to standard output. */
void infer_show(const infer *f);
/* NULL: out of memory. */
json_t *infer_json(const infer *f);
/* The file of --output: an exit status after reporting. */
int infer_write(const infer *f, atomic_file *to);

#endif
