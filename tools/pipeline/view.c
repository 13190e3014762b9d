/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - see view.h. */
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { DOINGS = 4, WIDTH = 80 };

static const char *const letters[DOINGS] = {" ", ".", "F", "B"};
static const char *const blocks[DOINGS] = {" ", "\xe2\x96\x91", "\xe2\x96\x93", "\xe2\x96\x88"};
static const char *const meanings[DOINGS] = {"nothing to do", "waits for links", "forward",
                                             "backward"};

static uint32_t in_range(unsigned long width) {
    return width < VIEW_WIDTH_MIN   ? VIEW_WIDTH_MIN
           : width > VIEW_WIDTH_MAX ? VIEW_WIDTH_MAX
                                    : (uint32_t)width;
}

/* The variable that decides the character set. */
static const char *locale(void) {
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *v = getenv(names[i]);
        if (v != NULL && *v != '\0')
            return v;
    }
    return "";
}

view_style view_style_of(FILE *to) {
    const char *name = locale(), *columns = getenv("COLUMNS");
    view_style s = {.width = WIDTH};
    struct winsize size;
    s.ascii = strstr(name, "UTF-8") == NULL && strstr(name, "utf8") == NULL;
    if (columns != NULL && strtoul(columns, NULL, 10) != 0)
        s.width = in_range(strtoul(columns, NULL, 10));
    if (ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
        s.width = in_range(size.ws_col);
    return s;
}

/* What a stage did most from tick `from` up to `end`. */
static unsigned most(const pipe_result *r, uint32_t stages, uint32_t s, uint64_t from,
                     uint64_t end) {
    uint64_t ticks[DOINGS] = {0};
    unsigned best = 0;
    for (uint64_t t = from; t < end; t++)
        ticks[r->doing[t * stages + s]]++;
    for (unsigned i = 1; i < DOINGS; i++)
        best = ticks[i] > ticks[best] ? i : best;
    return best;
}

void view_print(FILE *to, view_style style, const pipe_result *r, uint32_t stages) {
    char head[32];
    for (uint32_t s = 0; s < stages; s++) {
        const int len = snprintf(head, sizeof head, "stage %-3" PRIu32 "|", s);
        uint64_t columns = style.width - (uint32_t)len - 1;
        columns = columns < r->makespan ? columns : r->makespan;
        (void)fputs(head, to);
        for (uint64_t c = 0; c < columns; c++) {
            const unsigned what =
                most(r, stages, s, c * r->makespan / columns, (c + 1) * r->makespan / columns);
            (void)fputs(style.ascii ? letters[what] : blocks[what], to);
        }
        (void)fputs("|\n", to);
    }
}

void view_legend(FILE *to, view_style style) {
    for (unsigned i = DOINGS; i-- > 1;)
        (void)fprintf(to, "%s %s   ", style.ascii ? letters[i] : blocks[i], meanings[i]);
    (void)fprintf(to, "blank: %s\n", meanings[0]);
}
