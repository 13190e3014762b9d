/* SPDX-License-Identifier: Apache-2.0 */
/* escape.h - text of files, peers and arguments on a terminal: nothing of it may command the
 * terminal. UTF-8 of what can be seen passes; control characters, C1 and those of writing direction
 * among them, and bytes that are no UTF-8 become \xNN. */
#ifndef UVCC_TOOLS_ESCAPE_H
#define UVCC_TOOLS_ESCAPE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Text may come in pieces, a character in two of them. All zeros at first. */
typedef struct escaper {
    const char *keep; /* control characters that pass, such as "\n\t"; NULL: none */
    uint8_t part[4];  /* a character that is not whole yet */
    unsigned have, need;
} escaper;

void escape_put(escaper *e, FILE *to, const char *text, size_t len);
/* What is left of a character that was cut. */
void escape_end(escaper *e, FILE *to);

#endif
