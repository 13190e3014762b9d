/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.h - the file of the predictions that open to a party: a line "row,class" for each
 * held-out row, in the order in which steps open them. It is on the disk after each step, so a
 * process that goes on behind some of the steps finds what those before it wrote. */
#ifndef UVCC_TOOLS_PARTY_PREDICTIONS_H
#define UVCC_TOOLS_PARTY_PREDICTIONS_H

#include <stdint.h>
#include <stdio.h>

typedef struct predictions {
    char *path;  /* as output.predictions says; NULL: none are kept */
    FILE *file;  /* NULL: not open */
    uint32_t at; /* how many are in it, up to where it stands */
} predictions;

/* The classes of `count` held-out rows, the first of them the one with index `first`. A step that
 * comes again takes the place of what it and those after it gave before. An exit status. */
int predictions_put(predictions *p, uint32_t first, const uint32_t *class, uint32_t count);
void predictions_close(predictions *p);

#endif
