/* SPDX-License-Identifier: Apache-2.0 */
/* bench_link.h - what the parts of bench_link share: options, and how figures are printed. */
#ifndef UVCC_BENCH_LINK_H
#define UVCC_BENCH_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <uvcc/link.h>

#define BENCH_SEEDS_MAX 64

typedef struct bench_options {
    bool quick; /* fewer seeds, shorter times */
    unsigned seeds;
    const char *tun_scene; /* only this one; NULL: all */
} bench_options;

/* Ends the program if err is an error. */
void bench_check(int err, const char *what);
/* Changes the config of a link (net_link_config.tune); all links of the benchmark pass here. */
void bench_tune(uvcc_link_config *cfg, int end, void *user);

typedef enum bench_goal { NO_GOAL, AT_LEAST, AT_MOST } bench_goal;
/* One JSON line: the mean, the least and the greatest of n values of a figure, its goal, and
 * whether the mean meets it. `with`: more members, each followed by ", "; may be "". */
void bench_figure(const char *bench, const char *with, const char *figure, const double *v,
                  unsigned n, bench_goal kind, double goal);
/* Figures that missed their goal so far. */
unsigned bench_missed(void);

/* Links in the simulated network; each prints its figures. */
void bench_alone(const bench_options *o);
void bench_beside_reno(const bench_options *o);
void bench_four(const bench_options *o);
void bench_small_queue(const bench_options *o);
void bench_marks(const bench_options *o);
void bench_loss(const bench_options *o);
void bench_jobs(const bench_options *o);
void bench_path_falls(const bench_options *o);
void bench_reorder(const bench_options *o);
/* Links over the kernel's UDP and a relay; prints why if that cannot be had. */
void bench_tun(const bench_options *o);

#endif
