/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - plots as SVG files that need nothing else. */
#ifndef UVCC_TOOLS_SVG_H
#define UVCC_TOOLS_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct svg_series {
    const char *name, *colour;
    const double *x, *y;
    size_t count;
    bool line; /* else dots */
} svg_series;

typedef struct svg_axis {
    const char *label;
    double from, to;
    bool log;   /* 0 < from */
    bool whole; /* of whole numbers: it has no marks between them */
} svg_axis;

typedef struct svg_panel {
    svg_axis x, y;
    const svg_series *series;
    unsigned count;
} svg_panel;

/* from and to of an axis, by what is to be shown: some room on either side, also where all is the
 * same. Values that are no numbers do not count. */
void svg_fit(svg_axis *a, const double *v, size_t count);
/* Panels below each other, into the file that --`option` named (atomic_file.h). An exit status,
 * after reporting. */
int svg_write(const char *option, const char *path, const char *title, const svg_panel *panels,
              unsigned count);
/* --plot of a training: the losses of its steps, the first of which is number `first`, counted from
 * 0; `unit` is theirs. As svg_write(); without a path or a loss nothing. */
int svg_losses(const char *path, uint32_t first, const double *loss, uint32_t count,
               const char *unit);

#endif
