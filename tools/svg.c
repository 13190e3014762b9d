/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - see svg.h. */
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "atomic_file.h"
#include "report.h"

enum { WIDTH = 760, PANEL = 300, LEFT = 80, RIGHT = 20, TOP = 40, BOTTOM = 50, LINE = 18 };

/* What XML does not take as it is. */
static void put_text(FILE *f, const char *text) {
    for (; *text != '\0'; text++) {
        if (*text == '<')
            (void)fputs("&lt;", f);
        else if (*text == '>')
            (void)fputs("&gt;", f);
        else if (*text == '&')
            (void)fputs("&amp;", f);
        else
            (void)fputc(*text, f);
    }
}

/* From 0 to 1 along the axis. */
static double along(const svg_axis *a, double v) {
    return a->log ? log(v / a->from) / log(a->to / a->from) : (v - a->from) / (a->to - a->from);
}

static double x_of(const svg_panel *p, double v) {
    return LEFT + along(&p->x, v) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const svg_panel *p, double top, double v) {
    return top + (1 - along(&p->y, v)) * (PANEL - BOTTOM);
}

static void put_tick(FILE *f, const svg_panel *p, double top, double v, bool horizontal) {
    const double bottom = top + PANEL - BOTTOM;
    if (horizontal) {
        const double x = x_of(p, v);
        (void)fprintf(f,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.10g</text>\n",
                      x, top, x, bottom, x, bottom + LINE, v);
    } else {
        const double y = y_of(p, top, v);
        (void)fprintf(f,
                      "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                      "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n",
                      LEFT, y, WIDTH - RIGHT, y, LEFT - 6, y + 4, v);
    }
}

/* Four to ten round numbers; powers of 2 on a logarithmic axis. */
static void put_ticks(FILE *f, const svg_panel *p, double top, bool horizontal) {
    const svg_axis *a = horizontal ? &p->x : &p->y;
    if (a->log) {
        const double low = ceil(log2(a->from) - 1e-9), high = log2(a->to) + 1e-9;
        const double every = ceil((high - low) / 9);
        for (double e = low; e <= high; e += every)
            put_tick(f, p, top, exp2(e), horizontal);
        return;
    }
    const double power = pow(10, floor(log10((a->to - a->from) / 4)));
    const double part = (a->to - a->from) / 4 / power;
    const double step = power * (part >= 5 ? 5 : part >= 2 ? 2 : 1);
    const double every = a->whole && step < 1 ? 1 : step;
    for (double i = ceil(a->from / every - 1e-9); i * every <= a->to + every * 1e-9; i++)
        put_tick(f, p, top, i == 0 ? 0 : i * every, horizontal);
}

static bool shown(const svg_panel *p, double x, double y) {
    const double u = along(&p->x, x), v = along(&p->y, y);
    return u >= -1e-9 && u <= 1 + 1e-9 && v >= -1e-9 && v <= 1 + 1e-9;
}

/* A line through one point would not be seen: it is a dot. */
static void put_series(FILE *f, const svg_panel *p, double top, const svg_series *s) {
    size_t points = 0;
    for (size_t i = 0; i < s->count; i++)
        points += shown(p, s->x[i], s->y[i]);
    const bool line = s->line && points > 1;
    if (line)
        (void)fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
                      s->colour);
    else
        (void)fprintf(f, "<g fill=\"%s\">\n", s->colour);
    for (size_t i = 0; i < s->count; i++) {
        if (!shown(p, s->x[i], s->y[i]))
            continue;
        const double x = x_of(p, s->x[i]), y = y_of(p, top, s->y[i]);
        (void)fprintf(f, line ? "%.1f,%.1f " : "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"1.6\"/>\n", x,
                      y);
    }
    (void)fputs(line ? "\"/>\n" : "</g>\n", f);
}

/* At the left, or at the right of what falls. */
static void put_legend(FILE *f, const svg_panel *p, double top) {
    const svg_series *s = p->series;
    const bool falls = p->count != 0 && s->count != 0 && s->y[0] > s->y[s->count - 1];
    const int left = falls ? WIDTH - RIGHT - 130 : LEFT + 10;
    for (unsigned i = 0; i < p->count; i++) {
        const double y = top + LINE * (i + 1);
        (void)fprintf(f,
                      "<rect x=\"%d\" y=\"%.1f\" width=\"12\" height=\"4\" fill=\"%s\"/>"
                      "<text x=\"%d\" y=\"%.1f\">",
                      left, y - 6, p->series[i].colour, left + 18, y);
        put_text(f, p->series[i].name);
        (void)fputs("</text>\n", f);
    }
}

static void put_panel(FILE *f, const svg_panel *p, double top) {
    const double middle = top + (PANEL - BOTTOM) / 2.0, bottom = top + PANEL - BOTTOM;
    put_ticks(f, p, top, true);
    put_ticks(f, p, top, false);
    (void)fprintf(f,
                  "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%d\" fill=\"none\" "
                  "stroke=\"#444\"/>\n<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">",
                  LEFT, top, WIDTH - LEFT - RIGHT, PANEL - BOTTOM, (WIDTH + LEFT - RIGHT) / 2,
                  bottom + 2 * LINE);
    put_text(f, p->x.label);
    (void)fprintf(f,
                  "</text>\n<text x=\"16\" y=\"%.1f\" text-anchor=\"middle\" "
                  "transform=\"rotate(-90 16 %.1f)\">",
                  middle, middle);
    put_text(f, p->y.label);
    (void)fputs("</text>\n", f);
    for (unsigned i = 0; i < 2 * p->count; i++) { /* lines over dots */
        if (p->series[i % p->count].line == (i >= p->count))
            put_series(f, p, top, &p->series[i % p->count]);
    }
    put_legend(f, p, top);
}

void svg_fit(svg_axis *a, const double *v, size_t count) {
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(v[i]))
            continue;
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    if (low > high)
        low = high = 0; /* there is nothing to show */
    const double about = fabs(low) > fabs(high) ? fabs(low) : fabs(high);
    double room = (high - low) * 0.05;
    if (high - low <= about * 1e-9) /* as good as constant */
        room = a->whole ? 1 : about > 0 ? about * 0.5 : 1;
    else if (a->whole)
        room = 0;
    a->from = low >= 0 && low < room ? 0 : low - room;
    a->to = high + room;
}

int svg_write(const char *option, const char *path, const char *title, const svg_panel *panels,
              unsigned count) {
    int status;
    atomic_file *out = atomic_file_open(option, path, &status);
    if (out == NULL)
        return status;
    FILE *f = atomic_file_stream(out);
    const unsigned height = TOP + count * (PANEL + 10);
    (void)fprintf(f,
                  "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                  "viewBox=\"0 0 %d %u\" font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                  "<text x=\"%d\" y=\"24\" font-size=\"15\">",
                  WIDTH, height, WIDTH, height, LEFT);
    put_text(f, title);
    (void)fputs("</text>\n", f);
    for (unsigned i = 0; i < count; i++)
        put_panel(f, &panels[i], TOP + i * (PANEL + 10));
    (void)fputs("</svg>\n", f);
    status = atomic_file_finish(out);
    atomic_file_close(out);
    return status;
}

int svg_losses(const char *path, uint32_t first, const double *loss, uint32_t count,
               const char *unit) {
    if (path == NULL || count == 0)
        return EXIT_DONE;
    double *x = malloc(count * sizeof *x);
    if (x == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; i < count; i++)
        x[i] = first + i + 1;
    const svg_series series = {"loss", "#1560bd", x, loss, count, true};
    svg_panel panel = {
        .x = {.label = "step", .whole = true}, .y = {.label = unit}, .series = &series, .count = 1};
    svg_fit(&panel.x, x, count);
    svg_fit(&panel.y, loss, count);
    const int status = svg_write("plot", path, "Loss of each step's batch", &panel, 1);
    free(x);
    return status;
}
