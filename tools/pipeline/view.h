/* SPDX-License-Identifier: Apache-2.0 */
/* view.h - what stages did over time, as rows of text. */
#ifndef UVCC_TOOLS_PIPELINE_VIEW_H
#define UVCC_TOOLS_PIPELINE_VIEW_H

#include <stdio.h>

#include "pipeline.h"

typedef struct view_style {
    uint32_t width; /* of a line; at least VIEW_WIDTH_MIN */
    bool ascii;     /* letters, else blocks in UTF-8 */
} view_style;
enum { VIEW_WIDTH_MIN = 24, VIEW_WIDTH_MAX = 1000 };

/* As the terminal that `to` is, or as COLUMNS and the locale say. */
view_style view_style_of(FILE *to);
/* A row per stage; each column shows what the stage did most in its part of the step. */
void view_print(FILE *to, view_style style, const pipe_result *r, uint32_t stages);
void view_legend(FILE *to, view_style style);

#endif
