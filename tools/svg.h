/* svg.h - plots as SVG files that need nothing else. */
#ifndef UVCC_TOOLS_SVG_H
#define UVCC_TOOLS_SVG_H

#include <stdbool.h>
#include <stddef.h>

typedef struct svg_series {
    const char *name, *colour;
    const double *x, *y;
    size_t count;
    bool line; /* else dots */
} svg_series;

typedef struct svg_axis {
    const char *label;
    double from, to;
    bool log; /* 0 < from */
} svg_axis;

typedef struct svg_panel {
    svg_axis x, y;
    const svg_series *series;
    unsigned count;
} svg_panel;

/* Panels below each other. 0, or -1 with errno set. */
int svg_write(const char *path, const char *title, const svg_panel *panels, unsigned count);

#endif
