/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h - one nonlinear function among three sessions over a loopback network: is it what it
 * should be, how far from the real function, and what do the links carry for it. */
#ifndef UVCC_TOOLS_MEASURE_H
#define UVCC_TOOLS_MEASURE_H

#include <uvcc/nonlinear.h>

#include "report.h"
#include "run_options.h"

enum { MEASURE_BATCH = 1 << 16, MEASURE_COLS = 128, MEASURE_COLUMNS = 480 };

/* What the opened values are compared with. */
typedef enum measure_check {
    MEASURE_REFERENCE,  /* the plaintext run, bit for bit */
    MEASURE_DEFINITION, /* the function with the masks' low bits, bit for bit */
    MEASURE_BOUND,      /* the real function and the bound of the error */
} measure_check;
extern const char *const measure_checks[];

/* Columns of a plot: of all that falls into one, the first value and the greatest error. x is the
 * input of an element function, else the real value. */
typedef struct measure_plot {
    double from, to;
    bool log;
    struct measure_column {
        double x, y, error;
        bool used;
    } column[MEASURE_COLUMNS];
} measure_plot;

typedef struct measure_job {
    uvcc_nonlinear what;
    bool exact, plain; /* plain: of a norm, without gamma and beta */
    uint64_t inputs;   /* at least so many, in rows of MEASURE_COLS */
    uint64_t seed;
    run_options run;                                          /* compute, device, device_bytes */
    measure_plot *plot;                                       /* NULL: none */
    void (*progress)(void *user, uint64_t done, uint64_t of); /* inputs */
    void *user;
} measure_job;

typedef struct measure_result {
    uint64_t inputs; /* elements of the first input, those of other widths included */
    double max_error, mean_error;
    double of_bound; /* the greatest part of its bound that an error takes; 0 of 0 is 0 */
    measure_check check;
    bool secure_equal;
    uint64_t rounds;
    double online_bytes, key_bytes; /* of all parties, per element of the first input */
    double per_s;                   /* elements, at the default width */
} measure_result;

/* An exit status; EXIT_DONE even if the values are wrong. An interruption ends it (host_loop.h). */
int measure(const measure_job *job, measure_result *out);

#endif
